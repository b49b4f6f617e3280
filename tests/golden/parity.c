/* parity.c: a checkpoint against the oracle's answers that lie beside it.
 *
 *   parity [--brief] FOLDER...    each holds a checkpoint, golden.json and golden.safetensors; @FILE lists folders
 *
 * Logits within 1e-4 at every position (they are about 3 large, so about 3e-5 relative), in one shot, in chunks and token by token; the
 * residual stream within 1e-4 after every layer; all greedy ids equal. A quantized checkpoint is held to the same: its answers are those of the
 * values that its format defines. Only where products are in integers may the residual stream of a layer whose values are above 50 differ by
 * more, 2e-6 of the largest: such products sum long rows in one order rather than sixteen, and float32 products come close to the bound there too. --brief evaluates the prompt at once only: chunks are compared by same.c, in bits.
 * Keys and values are kept in float32 here: the bound is about arithmetic, not about rounding the cache.
 */
#include "golden.h"

#define BOUND 1e-4
#define CTX 512

static golden g;
static const char *folder;
static bool brief;
static double worst, worst_relative; /* over all folders: the largest difference, the largest relative RMS difference */

static void check_logits(const float *logits, const char *how, int chunk) {
  double d = max_diff(logits, g.logits, g.n * g.n_vocab), r = relative_rms(logits, g.logits, g.n * g.n_vocab);
  if (!(d <= worst)) worst = d;
  if (!(r <= worst_relative)) worst_relative = r;
  if (!(d <= BOUND)) TEST_FAIL("%s: logits %s %d differ by %.3g, more than %g", folder, how, chunk, d, BOUND);
}

/* The media at ids [from, to) of the prompt, for an item of a step. */
static void put_media(ij_step_item *item, int64_t from, int64_t to) {
  static ij_rows rows[GOLDEN_MAX_MEDIA];
  item->n_rows = golden_cut(g.media, g.n_media, g.hidden, from, to, rows);
  item->rows = rows;
}

static void parity_in_chunks(ij_model *m, int chunk) {
  ij_session *s = open_session_or_fail(m, CTX, IJ_KV_F32);
  float *logits = malloc((size_t)(g.n * g.n_vocab) * sizeof *logits);
  ij_err err;
  for (int64_t t = 0; t < g.n; t += chunk) {
    ij_step_item item = {.session = s, .ids = g.prompt + t, .n = t + chunk < g.n ? chunk : g.n - t, .logits_all = logits + t * g.n_vocab};
    put_media(&item, t, t + item.n);
    CHECK_OK(ij_step(m, &item, 1, &err), err);
  }
  check_logits(logits, "in chunks of", chunk);
  CHECK(memcmp(ij_session_logits(s), logits + (g.n - 1) * g.n_vocab, (size_t)g.n_vocab * sizeof *logits) == 0);
  free(logits);
  ij_session_close(&s);
}

/* What the residual stream may differ by at point p. */
static double trace_bound(const ij_model *m, int64_t p) {
  double largest = 0;
  for (int64_t i = 0; i < g.n * g.hidden; i++) {
    double size = fabs((double)g.trace[p * g.n * g.hidden + i]);
    if (size > largest) largest = size;
  }
  return golden_in_integers(m) ? fmax(BOUND, 2e-6 * largest) : BOUND;
}

static void parity_trace(ij_model *m) {
  ij_session *s = open_session_or_fail(m, CTX, IJ_KV_F32);
  float *trace = malloc((size_t)(g.n_point * g.n * g.hidden) * sizeof *trace);
  ij_err err;
  ij_step_item item = {.session = s, .ids = g.prompt, .n = g.n, .trace = trace};
  put_media(&item, 0, g.n);
  CHECK_OK(ij_step(m, &item, 1, &err), err);
  for (int64_t p = 0; p < g.n_point; p++) {
    double d = max_diff(trace + p * g.n * g.hidden, g.trace + p * g.n * g.hidden, g.n * g.hidden);
    const double bound = trace_bound(m, p);
    if (!(d <= bound)) TEST_FAIL("%s: trace point %d differs by %.3g, more than %g", folder, (int)p, d, bound);
  }
  free(trace);
  ij_session_close(&s);
}

static void parity(void) {
  ij_model *m = golden_open(&g, folder) ? open_model_or_fail(folder, 2, 512, NULL) : NULL;
  if (m) {
    static const int chunks[] = {4096, 16, 7, 5, 1};
    for (int i = 0; i < 5; i += brief ? 5 : 1) parity_in_chunks(m, chunks[i]);
    if (g.trace) parity_trace(m);
    golden_greedy(m, folder, CTX, g.prompt, (int)g.n, g.media, g.n_media, g.greedy, g.n_greedy);
    if (g.n_short) golden_greedy(m, folder, CTX, g.short_prompt, g.n_short, NULL, 0, g.short_greedy, g.n_short_greedy);
    ij_model_close(&m);
  }
  golden_close(&g);
}

int main(int argc, char **argv) {
  static char folders[GOLDEN_MAX_FOLDERS][512];
  brief = argc > 1 && strcmp(argv[1], "--brief") == 0;
  int n = golden_folders(folders, GOLDEN_MAX_FOLDERS, argc - 1 - brief, argv + 1 + brief);
  for (int i = 0; i < n; i++) {
    folder = folders[i];
    RUN(parity);
  }
  printf("%d checkpoints: logits differ by up to %.2g, relative RMS up to %.2g\n", n, worst, worst_relative);
  return test_report();
}
