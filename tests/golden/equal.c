/* equal.c: one model in several files. Logits must have the same bits whatever the file, but where products are in integers.
 *
 *   equal FOLDER...             all hold one model in several layouts: each must agree with the first
 *   equal --decoded FOLDER...   each holds a quantized checkpoint and, in a folder `decoded`, the values that it defines as float32
 *
 * The prompt is the first folder's, or each folder's own with --decoded; it is run in one step and token by token. @FILE lists folders.
 *
 * A checkpoint with tensors of a type in integers (ij__dtype_in_integers) rounds x to 24 bits before it meets them, which its decoded copy
 * does not: these two are close instead, and after the prompt both choose the oracle's greedy ids.
 */
#include "golden.h"

#define CTX 128
#define CLOSE 4e-6 /* relative RMS: 1.5e-6 was the largest of 80 checkpoints against the oracle, 8e-7 with float32 products */

static golden g;
static const char *first, *second;
static bool in_integers; /* some of the weights of either */

static float *logits_of(const char *folder, int chunk) {
  ij_model *m = open_model_or_fail(folder, 2, 512, NULL);
  if (!m) return NULL;
  in_integers = in_integers || golden_in_integers(m);
  ij_session *s = open_session_or_fail(m, CTX, IJ_KV_F32);
  float *logits = calloc((size_t)(g.n * g.n_vocab), sizeof *logits);
  ij_err err;
  for (int64_t t = 0; t < g.n; t += chunk) {
    ij_step_item item = {.session = s, .ids = g.prompt + t, .n = t + chunk < g.n ? chunk : g.n - t, .logits_all = logits + t * g.n_vocab};
    CHECK_OK(ij_step(m, &item, 1, &err), err);
  }
  ij_session_close(&s);
  ij_model_close(&m);
  return logits;
}

static void compare(const float *a, const float *b, int chunk) {
  const int64_t n = g.n * g.n_vocab;
  if (in_integers) {
    const double r = relative_rms(a, b, n);
    if (!(r < CLOSE)) TEST_FAIL("%s and %s differ in chunks of %d by a relative RMS of %.3g, not less than %g", first, second, chunk, r, CLOSE);
  } else if (memcmp(a, b, (size_t)n * sizeof *a) != 0) {
    TEST_FAIL("%s and %s differ in chunks of %d, by up to %.3g", first, second, chunk, max_diff(a, b, n));
  }
}

static void greedy_ids_of(const char *folder) {
  ij_model *m = open_model_or_fail(folder, 2, 512, NULL);
  if (m) golden_greedy(m, folder, CTX, g.prompt, (int)g.n, NULL, 0, g.greedy, g.n_greedy);
  ij_model_close(&m);
}

static void equal(void) {
  static const int chunks[] = {CTX, 1};
  in_integers = false;
  if (golden_open(&g, first)) {
    for (int i = 0; i < 2; i++) {
      float *a = logits_of(first, chunks[i]), *b = logits_of(second, chunks[i]);
      if (a && b) compare(a, b, chunks[i]);
      CHECK(max_diff(a ? a : g.logits, g.logits, g.n * g.n_vocab) < 1e-3); /* not two files that are wrong in the same way */
      free(a);
      free(b);
    }
    if (in_integers) {
      greedy_ids_of(first);
      greedy_ids_of(second);
    }
  }
  golden_close(&g);
}

int main(int argc, char **argv) {
  static char folders[GOLDEN_MAX_FOLDERS][512], inside[600];
  bool decoded = argc > 1 && strcmp(argv[1], "--decoded") == 0;
  int n = golden_folders(folders, GOLDEN_MAX_FOLDERS, argc - 1 - decoded, argv + 1 + decoded);
  for (int i = !decoded; i < n; i++) {
    first = folders[decoded ? i : 0];
    snprintf(inside, sizeof inside, "%s/decoded", folders[i]);
    second = decoded ? inside : folders[i];
    RUN(equal);
  }
  if (!decoded && n < 2) TEST_FAIL("one folder alone is equal to nothing");
  return test_report();
}
