/* cmd_logits.c: `inkjet logits`: the parity harness on the command line. The work is in tools/tool_logits.c. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_plan.h"
#include "core/alloc.h"
#include "core/os.h"
#include "tools/tool_logits.h"

static int check_options(const cli_args *a) {
  if (!a->v[OPT_OUT].set && !a->v[OPT_COMPARE].set) return say_misuse(a, "nothing to do: pass --out FILE, --compare FILE or both");
  if (a->v[OPT_MAX_ABS].set && !a->v[OPT_COMPARE].set) return say_misuse(a, "--max-abs is a bound for --compare, which is not given");
  return check_prompt_options(a);
}

static bool on_progress(void *user, double fraction) {
  (void)user;
  progress_update(fraction);
  return !interrupted();
}

static int compare(const cli_args *a, const ij_logits *l) {
  ij_logits_diff diffs[2];
  ij_err err = {0};
  int n = 0, rc = CLI_EXIT_OK;
  if (ij__logits_compare(l, a->v[OPT_COMPARE].text, diffs, &n, &err) != IJ_OK) return say_bad_input(&err);
  for (int i = 0; i < n; i++) {
    const double bound = a->v[OPT_MAX_ABS].real;
    if (diffs[i].problem[0]) {
      say("%s: tensor '%s': %s", a->v[OPT_COMPARE].text, diffs[i].name, diffs[i].problem);
      rc = CLI_EXIT_FAILED;
      continue;
    }
    bool within = diffs[i].max_abs <= bound;
    out_printf("%s: max abs difference %.9g at value %lld, bound %g: %s\n", diffs[i].name, diffs[i].max_abs, (long long)diffs[i].at, bound,
               within ? "ok" : "outside");
    if (!within) rc = CLI_EXIT_FAILED;
  }
  return rc;
}

static int evaluate(const cli_args *a, ij_model *model, const int32_t *ids, int64_t n, ij_logits *l) {
  ij_err err = {0};
  ij_session *session = NULL;
  ij_session_options o = ij_session_options_default();
  o.n_ctx = a->v[OPT_CTX].set ? a->v[OPT_CTX].i : n;
  o.kv_type = kv_type(a);
  int rc = check_fit(a, model, ids, n, o.n_ctx);
  if (rc != CLI_EXIT_OK) return rc;
  if (ij_session_open(&session, model, &o, &err) != IJ_OK) return say_failed(&err);
  ij_logits_options lo = {.all = a->v[OPT_ALL].set, .trace = a->v[OPT_TRACE].set, .chunk = a->v[OPT_CHUNK].i, .progress = on_progress};
  double start = ij__os_seconds();
  progress_begin("evaluating");
  ij_status s = ij__logits_run(l, model, session, ids, n, &lo, &err);
  progress_end();
  ij_session_close(&session);
  if (s != IJ_OK) return say_failed(&err);
  if (a->v[OPT_VERBOSE].set) {
    double seconds = ij__os_seconds() - start;
    say_plain("evaluated:   %lld tokens in %.3f s, %.1f tokens/s", (long long)n, seconds, seconds > 0 ? (double)n / seconds : 0.0);
  }
  return CLI_EXIT_OK;
}

static int run_logits(const cli_args *a, ij_model *model, const ij_tokenizer *tokenizer, const char *text, size_t n_text) {
  int32_t *ids = NULL;
  size_t n = 0;
  ij_logits l = {0};
  ij_err err = {0};
  int rc = read_prompt(a, tokenizer, text, n_text, &ids, &n);
  if (rc == CLI_EXIT_OK) rc = evaluate(a, model, ids, (int64_t)n, &l);
  if (rc == CLI_EXIT_OK && a->v[OPT_OUT].set && ij__logits_write(&l, a->v[OPT_OUT].text, &err) != IJ_OK) rc = say_failed(&err);
  if (rc == CLI_EXIT_OK && a->v[OPT_COMPARE].set) rc = compare(a, &l);
  ij__logits_free(&l);
  ij__free(ids);
  return rc;
}

/* What is computed stays in memory until it is written. */
static int count_results(const cli_args *a, const char *path, int64_t n, size_t *n_bytes) {
  cli_peek peek;
  *n_bytes = 0;
  if (!a->v[OPT_ALL].set && !a->v[OPT_TRACE].set) return CLI_EXIT_OK;
  int rc = peek_model(a, path, &peek);
  if (rc != CLI_EXIT_OK) return rc;
  double values = a->v[OPT_ALL].set ? (double)n * peek.info.unpadded_vocab : 0;
  if (a->v[OPT_TRACE].set) values += (double)(n + IJ_MIN(n, a->v[OPT_CHUNK].i)) * peek.info.hidden * (peek.info.n_layer + 1);
  *n_bytes = values < 1e18 ? (size_t)values * sizeof(float) : SIZE_MAX;
  return CLI_EXIT_OK;
}

static int open_logits(const cli_args *a, const char *text, size_t n, ij_tokenizer **own, ij_model **model) {
  const char *path;
  size_t results;
  int rc = model_path(a, &path);
  if (rc == CLI_EXIT_OK && a->v[OPT_TOKENIZER].set) rc = open_named_tokenizer(a->v[OPT_TOKENIZER].text, own);
  if (rc != CLI_EXIT_OK) return rc;
  int64_t n_ids = (int64_t)a->v[OPT_IDS].n, n_ctx = a->v[OPT_CTX].set ? a->v[OPT_CTX].i : n_ids;
  if (!a->v[OPT_IDS].set) n_ctx = n_ids = plan_ctx_of_text(a, *own, text, n, 0);
  rc = count_results(a, path, n_ids, &results);
  if (rc != CLI_EXIT_OK) return rc;
  cli_plan plan = {.n_ctx = n_ctx, .n_sessions = 1};
  if (!ij__add_size(results, ij__alloc_bytes(), &plan.other)) plan.other = SIZE_MAX;
  return open_model(a, path, !*own && !a->v[OPT_IDS].set, (int)a->v[OPT_CHUNK].i, &plan, model);
}

int cmd_logits(const cli_args *args) {
  ij_model *model = NULL;
  ij_tokenizer *own = NULL;
  char *text = NULL;
  size_t n = 0;
  int rc = check_options(args);
  if (rc == CLI_EXIT_OK && !args->v[OPT_IDS].set) rc = read_prompt_text(args, &text, &n);
  if (rc == CLI_EXIT_OK) rc = open_logits(args, text, n, &own, &model);
  if (rc == CLI_EXIT_OK) rc = run_logits(args, model, own ? own : ij_model_tokenizer(model), text, n);
  ij__free(text);
  close_model(args, &model);
  ij_tokenizer_close(&own);
  return rc;
}
