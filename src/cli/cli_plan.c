/* cli_plan.c: what commands tell the library about the memory they are going to need, and what they say about the plan that it makes. */
#include "cli/cli_plan.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "inkjet_media.h"

#define SHORT_TEXT 4096 /* bytes: no text has more tokens than bytes, and so few positions are not worth counting them */

void plan_options(const cli_args *args, const cli_plan *plan, ij_model_options *options) {
  const cli_value *v = args->v;
  options->mem_bytes = (size_t)v[OPT_MEM].i;
  options->home = (ij_home)v[OPT_HOME].i;
  if (v[OPT_KV].text) options->plan_kv = (int)v[OPT_KV].i;
  if (!plan) return;
  options->plan_ctx = plan->n_ctx;
  options->plan_sessions = plan->n_sessions;
  if (plan->rollback) options->plan_rollback = plan->rollback;
  options->plan_kept = plan->kept;
  options->plan_other = plan->other;
}

ij_plan plan_try(const cli_args *args, const char *path, const cli_plan *plan) {
  ij_plan p;
  ij_model_options o = ij_model_options_default();
  o.n_threads = (int)args->v[OPT_THREADS].i;
  o.mmproj = args->v[OPT_MMPROJ].text;
  plan_options(args, plan, &o);
  if (ij_plan_make(&p, path, &o, NULL) != IJ_OK) p.home = IJ_HOME_AUTO;
  return p;
}

const char *plan_size(double n) {
  static char text[8][24];
  static int at;
  char *s = text[at++ & 7];
  if (n >= 1e9) snprintf(s, sizeof text[0], "%.2f GB", n * 1e-9);
  else if (n >= 1e6) snprintf(s, sizeof text[0], "%.1f MB", n * 1e-6);
  else snprintf(s, sizeof text[0], "%.1f kB", n * 1e-3);
  return s;
}

void plan_say(const cli_args *args, const ij_plan *p) {
  size_t mem = (size_t)args->v[OPT_MEM].i, caches = p->session_bytes * (size_t)p->n_sessions;
  if (mem > p->bound) say("warning: --mem allows %s, but %s leaves %s now: that is the bound", plan_size((double)mem), p->bound_by, plan_size((double)p->bound));
  if (p->home != IJ_HOME_STREAMED && !args->v[OPT_VERBOSE].set) return;
  const char *dense = plan_size((double)p->dense_bytes), *rest = plan_size((double)(p->step_bytes + p->other_bytes + p->caller_bytes));
  if (p->home == IJ_HOME_STREAMED) {
    char held[96];
    long long n = (long long)p->experts_held, all = (long long)p->experts_total;
    if (n < all) snprintf(held, sizeof held, "%lld of %lld, the others are read from the drive", n, all);
    else snprintf(held, sizeof held, "all %lld, each read when it is first needed", all);
    say_plain("plan:        %s (%s): weights %s, caches %s, buffers %s, experts %s: %s", plan_size((double)p->bound), p->bound_by, dense, plan_size((double)caches),
              rest, plan_size((double)p->expert_room), held);
  } else {
    say_plain("plan:        %s (%s), weights are %s: %s and experts %s, caches %s, buffers %s", plan_size((double)p->bound), p->bound_by,
              p->home == IJ_HOME_MAPPED ? "mapped" : "resident", dense, plan_size((double)p->expert_bytes), plan_size((double)caches), rest);
  }
}

int peek_model(const cli_args *args, const char *path, cli_peek *out) {
  ij_err err = {0};
  ij_model *m = NULL;
  ij_model_options o = ij_model_options_default();
  o.home = IJ_HOME_MAPPED;
  o.plan_sessions = 0;
  o.plan_ctx = o.n_threads = o.max_batch = 1;
  o.tokenizer = false;
  o.mmproj = args->v[OPT_MMPROJ].text;
  if (ij_model_open(&m, path, &o, &err) != IJ_OK) return say_bad_input(&err);
  ij_model_get_info(m, &out->info);
  out->info.layout = out->info.level = "";
  out->towers = ij_model_towers(m) != NULL;
  ij_model_close(&m);
  return CLI_EXIT_OK;
}

/* Tokens of a text; by its bytes when they cannot be counted, which is never too few. What is wrong with the tokenizer is said by who needs it. */
static int64_t count_tokens(const cli_args *args, const ij_tokenizer *own, const char *text, size_t n) {
  ij_tokenizer *opened = NULL;
  const ij_tokenizer *t = own;
  const char *path = args->v[OPT_MODEL].text;
  size_t n_ids = n;
  if (!t && path && ij_tokenizer_open(&opened, path, NULL) == IJ_OK) t = opened;
  if (t && ij_encode(t, text, n, args->v[OPT_SPECIAL].set, NULL, 0, &n_ids, NULL) != IJ_OK) n_ids = n;
  ij_tokenizer_close(&opened);
  return (int64_t)n_ids;
}

int64_t plan_ctx_of_text(const cli_args *args, const ij_tokenizer *own, const char *text, size_t n, int64_t more) {
  if (args->v[OPT_CTX].set) return args->v[OPT_CTX].i;
  return (n <= SHORT_TEXT ? (int64_t)n : count_tokens(args, own, text, n)) + more;
}
