/* cmd_run.c: `inkjet run`: a prompt in, its continuation out, token by token.
 *
 * Text appears as whole characters as soon as they are known. The first Ctrl-C ends after the current token: what was there is
 * printed, with a line end, and the exit code says so.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_experts.h"
#include "cli/cli_media.h"
#include "cli/cli_plan.h"
#include "cli/run_media.h"
#include "core/alloc.h"
#include "core/os.h"

typedef struct chosen {
  ij_choice choice;
  int n_top;
  ij_choice top[IJ_MAX_TOP];
} chosen;

typedef struct run {
  const cli_args *args;
  ij_model *model;
  ij_session *session;
  ij_tokenizer *own_tokenizer;   /* from --tokenizer */
  const ij_tokenizer *tokenizer; /* that, or the model's, or NULL */
  bool as_ids, as_json;
  int32_t *prompt;
  size_t n_prompt;
  run_media media;
  chosen *tokens;                /* what was generated, kept for --json only */
  int64_t n_tokens, n_kept;
  ij_text_stream stream;
  const char *stop;              /* why it ended, as --json names it */
  double t_prompt, t_first, t_end;
} run;

/* ----------------------------------------------------------------------------------------------------------- options */

static int check_options(const cli_args *a) {
  int rc = check_prompt_options(a);
  if (rc != CLI_EXIT_OK) return rc;
  if (a->n_media > 0 && a->v[OPT_IDS].set) {
    return say_misuse(a, "media take the place of " RUN_MARKER " in a text, and --ids gives none: pass TEXT, -p or -f");
  }
  if (!a->v[OPT_VIDEO].set && names_video_options(a)) return say_misuse(a, "the options for videos need one: pass --video FILE");
  if (a->v[OPT_LOGPROBS].set && !a->v[OPT_JSON].set) return say_misuse(a, "--logprobs needs --json, which has a place for them");
  if (a->v[OPT_IDS_OUT].set && a->v[OPT_JSON].set) return say_misuse(a, "--json always holds the ids: leave out --ids-out");
  return check_sampling(a);
}

/* ------------------------------------------------------------------------------------------------------------ output */

/* What an id that the tokenizer lacks is shown as: no UTF-8, so it becomes one replacement character. */
#define NO_SUCH_ID "\xff"

static void print_text(run *r, int32_t id) {
  const char *bytes;
  size_t n;
  char out[512];
  if (!ij_decode(r->tokenizer, id, false, &bytes, &n)) {
    bytes = NO_SUCH_ID;
    n = 1;
  }
  if (ij_is_special(r->tokenizer, id)) out_bytes(out, ij_text_stream_flush(&r->stream, out));
  for (size_t at = 0; at < n; at += 128) {
    out_bytes(out, ij_text_stream_push(&r->stream, bytes + at, IJ_MIN((size_t)128, n - at), out));
  }
  out_flush();
}

static void print_id(run *r, int32_t id) {
  out_printf("%s%d", r->n_tokens ? " " : "", (int)id);
  out_flush();
}

static ij_status keep(run *r, const ij_choice *choice, ij_err *err) {
  chosen *c = &r->tokens[r->n_kept++];
  c->choice = *choice;
  c->n_top = (int)r->args->v[OPT_LOGPROBS].i;
  return c->n_top ? ij_session_top(r->session, c->n_top, c->top, err) : IJ_OK;
}

static void print_end(run *r) {
  char out[4];
  if (r->as_json || r->n_tokens == 0) return;
  if (!r->as_ids) out_bytes(out, ij_text_stream_flush(&r->stream, out));
  out_text("\n");
  out_flush(); /* before what is said on standard error, which may be the same terminal */
}

static void json_piece(const run *r, int32_t id) {
  const char *bytes;
  size_t n;
  json_key("piece");
  if (r->tokenizer && ij_decode(r->tokenizer, id, true, &bytes, &n)) {
    json_string(bytes, n);
  } else {
    json_text(NULL);
  }
}

static void json_choice(const run *r, const ij_choice *c) {
  json_key("id");
  json_int(c->id);
  json_piece(r, c->id);
  if (r->args->v[OPT_LOGPROBS].set) {
    json_key("logprob");
    json_real((double)c->logprob);
  }
}

static void json_tokens(const run *r) {
  json_key("tokens");
  json_open('[');
  for (int64_t i = 0; i < r->n_kept; i++) {
    json_open('{');
    json_choice(r, &r->tokens[i].choice);
    if (r->tokens[i].n_top) {
      json_key("top");
      json_open('[');
      for (int k = 0; k < r->tokens[i].n_top; k++) {
        json_open('{');
        json_choice(r, &r->tokens[i].top[k]);
        json_close();
      }
      json_close();
    }
    json_close();
  }
  json_close();
}

/* The continuation as one string: special tokens are no part of a text. */
static void json_continuation(const run *r) {
  json_key("text");
  if (!r->tokenizer) {
    json_text(NULL);
    return;
  }
  json_string_begin();
  for (int64_t i = 0; i < r->n_kept; i++) {
    const char *bytes;
    size_t n;
    if (ij_decode(r->tokenizer, r->tokens[i].choice.id, false, &bytes, &n)) {
      json_string_add(bytes, n);
    } else {
      json_string_add(NO_SUCH_ID, 1);
    }
  }
  json_string_end();
}

static void print_json(const run *r) {
  json_open('{');
  json_key("prompt_ids");
  json_open('[');
  for (size_t i = 0; i < r->n_prompt; i++) json_int(r->prompt[i]);
  json_close();
  json_key("ids");
  json_open('[');
  for (int64_t i = 0; i < r->n_kept; i++) json_int(r->tokens[i].choice.id);
  json_close();
  json_continuation(r);
  json_key("stop");
  json_text(r->stop);
  json_tokens(r);
  json_close();
  json_end();
}

static void print_timing(const run *r) {
  double prefill = r->t_first - r->t_prompt, decode = r->t_end - r->t_first;
  say_plain("prompt:      %zu tokens in %.3f s, %.1f tokens/s", r->n_prompt, prefill, prefill > 0 ? (double)r->n_prompt / prefill : 0.0);
  say_plain("generated:   %lld tokens in %.3f s, %.1f tokens/s", (long long)r->n_tokens, decode,
            decode > 0 && r->n_tokens > 1 ? (double)(r->n_tokens - 1) / decode : 0.0);
  say_plain("first token: %.3f s after the start, of which %.3f s to open the model and read the prompt", r->t_first - r->args->start,
            r->t_prompt - r->args->start);
}

/* -------------------------------------------------------------------------------------------------------- generation */

/* One id: chosen, shown, and evaluated unless it is the last. False: it ended, and r->stop says why. */
static bool one_token(run *r, const ij_sample_options *o, ij_status *s, ij_err *err) {
  const cli_args *a = r->args;
  ij_choice choice;
  *s = ij_session_sample(r->session, o, &choice, err);
  if (*s == IJ_OK && r->as_json) *s = keep(r, &choice, err);
  if (*s != IJ_OK) return false;
  if (r->n_tokens == 0) r->t_first = ij__os_seconds();
  if (!r->as_json) {
    if (r->as_ids) {
      print_id(r, choice.id);
    } else {
      print_text(r, choice.id);
    }
  }
  r->n_tokens++;
  r->t_end = ij__os_seconds();
  if (!a->v[OPT_IGNORE_EOS].set && ij_model_is_eos(r->model, choice.id)) {
    r->stop = "eos";
  } else if (r->n_tokens == a->v[OPT_N].i) {
    r->stop = "length";
  } else if (ij_session_pos(r->session) == ij_session_n_ctx(r->session)) {
    r->stop = "context";
  } else if (interrupted() || !out_flush()) {
    r->stop = "interrupted";
  } else {
    *s = ij_session_eval(r->session, &choice.id, 1, err);
    return *s == IJ_OK;
  }
  return false;
}

static int generate(run *r) {
  ij_sample_options o = sample_options(r->args);
  ij_err err = {0};
  ij_status s = IJ_OK;
  while (one_token(r, &o, &s, &err)) continue;
  if (s != IJ_OK) r->stop = "error";
  print_end(r);
  if (s != IJ_OK) return say_failed(&err);
  if (r->as_json) print_json(r);
  if (strcmp(r->stop, "context") == 0) {
    say("the context of %lld positions is full after %lld tokens", (long long)ij_session_n_ctx(r->session), (long long)r->n_tokens);
  }
  if (r->args->v[OPT_VERBOSE].set) print_timing(r);
  return interrupted() ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}

/* ----------------------------------------------------------------------------------------------------------- opening */

static int open_run_session(run *r) {
  const cli_args *a = r->args;
  ij_model_info info;
  ij_err err = {0};
  ij_model_get_info(r->model, &info);
  int64_t n_prompt = (int64_t)r->n_prompt, n_ctx = a->v[OPT_CTX].set ? a->v[OPT_CTX].i : n_prompt + a->v[OPT_N].i;
  if (!a->v[OPT_CTX].set) n_ctx = IJ_MIN(n_ctx, info.max_context);
  int rc = check_fit(a, r->model, r->prompt, n_prompt, n_ctx);
  if (rc != CLI_EXIT_OK) return rc;
  rc = check_bias(a, r->model); /* before the prompt is read, which may take long */
  if (rc != CLI_EXIT_OK) return rc;
  ij_session_options o = ij_session_options_default();
  o.n_ctx = n_ctx;
  o.kv_type = kv_type(a);
  if (ij_session_open(&r->session, r->model, &o, &err) == IJ_OK) return CLI_EXIT_OK;
  rc = say_failed(&err);
  ij_plan plan;
  ij_model_get_plan(r->model, &plan);
  if (err.code == IJ_E_NOMEM && plan.n_ctx && plan.n_ctx < n_ctx) say("pass --ctx %lld, so that memory is planned for it", (long long)n_ctx);
  return rc;
}

/* What is said of --ids is exact. Of media it is not known yet what they cost: for more than this --ctx must be given. */
static int64_t planned_ctx(const run *r, const char *text, size_t n) {
  enum { OF_A_MEDIUM = 4096 };
  const cli_args *a = r->args;
  int64_t more = a->v[OPT_N].i + (int64_t)a->n_media * OF_A_MEDIUM;
  if (!a->v[OPT_IDS].set) return plan_ctx_of_text(a, r->own_tokenizer, text, n, more);
  return a->v[OPT_CTX].set ? a->v[OPT_CTX].i : (int64_t)a->v[OPT_IDS].n + more;
}

static int open_run_model(run *r, const char *text, size_t n) {
  const cli_args *a = r->args;
  const char *path;
  cli_plan plan = {.n_sessions = 1};
  int rc = model_path(a, &path);
  if (rc == CLI_EXIT_OK && a->v[OPT_TOKENIZER].set) rc = open_named_tokenizer(a->v[OPT_TOKENIZER].text, &r->own_tokenizer);
  if (rc != CLI_EXIT_OK) return rc;
  plan.n_ctx = planned_ctx(r, text, n);
  plan.other = ij__alloc_bytes();
  rc = open_model(a, path, !r->own_tokenizer, 0, &plan, &r->model);
  if (rc != CLI_EXIT_OK) return rc;
  r->tokenizer = r->own_tokenizer ? r->own_tokenizer : ij_model_tokenizer(r->model);
  r->as_json = a->v[OPT_JSON].set;
  r->as_ids = a->v[OPT_IDS_OUT].set || !r->tokenizer;
  return CLI_EXIT_OK;
}

static int open_run(run *r) {
  const cli_args *a = r->args;
  char *text = NULL;
  size_t n = 0;
  int rc = a->v[OPT_IDS].set ? CLI_EXIT_OK : read_prompt_text(a, &text, &n);
  if (rc == CLI_EXIT_OK) rc = open_run_model(r, text, n);
  if (rc == CLI_EXIT_OK) {
    rc = a->v[OPT_IDS].set ? read_prompt(a, r->tokenizer, NULL, 0, &r->prompt, &r->n_prompt)
                           : run_media_prompt(&r->media, a, r->model, r->tokenizer, text, n, &r->prompt, &r->n_prompt);
  }
  ij__free(text);
  if (rc == CLI_EXIT_OK) rc = open_run_session(r);
  if (rc == CLI_EXIT_OK && r->as_json) {
    size_t cap = (size_t)IJ_MIN(a->v[OPT_N].i, ij_session_n_ctx(r->session) + 1);
    r->tokens = ij__alloc_array(cap, sizeof *r->tokens);
    if (!r->tokens) rc = say_nomem("the list of tokens", cap * sizeof *r->tokens);
  }
  return rc;
}

int cmd_run(const cli_args *args) {
  run r = {.args = args};
  int rc = check_options(args);
  if (rc == CLI_EXIT_OK) rc = open_run(&r);
  if (rc == CLI_EXIT_OK) {
    r.t_prompt = ij__os_seconds();
    rc = run_media_eval(&r.media, r.model, r.session, r.prompt, (int64_t)r.n_prompt);
  }
  if (rc == CLI_EXIT_OK) rc = generate(&r);
  if (rc == CLI_EXIT_OK || rc == CLI_EXIT_INTERRUPTED) rc = experts_write_trace(args, r.model, rc);
  run_media_close(&r.media);
  ij_session_close(&r.session);
  close_model(args, &r.model);
  ij_tokenizer_close(&r.own_tokenizer);
  ij__free(r.prompt);
  ij__free(r.tokens);
  return rc;
}
