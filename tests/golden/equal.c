/* equal.c: one model in several files. Logits must have the same bits whatever the file.
 *
 *   equal FOLDER...             all hold one model in several layouts: each must agree with the first
 *   equal --decoded FOLDER...   each holds a quantized checkpoint and, in a folder `decoded`, the values that it defines as float32
 *
 * The prompt is the first folder's, or each folder's own with --decoded; it is run in one step and token by token. @FILE lists folders.
 */
#include "golden.h"

#define CTX 128

static golden g;
static const char *first, *second;

static float *logits_of(const char *folder, int chunk) {
  ij_model *m = open_model_or_fail(folder, 2, 512, NULL);
  if (!m) return NULL;
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

static void equal(void) {
  static const int chunks[] = {CTX, 1};
  if (golden_open(&g, first)) {
    for (int i = 0; i < 2; i++) {
      float *a = logits_of(first, chunks[i]), *b = logits_of(second, chunks[i]);
      if (a && b && memcmp(a, b, (size_t)(g.n * g.n_vocab) * sizeof *a) != 0) {
        TEST_FAIL("%s and %s differ in chunks of %d, by up to %.3g", first, second, chunks[i], max_diff(a, b, g.n * g.n_vocab));
      }
      CHECK(max_diff(a ? a : g.logits, g.logits, g.n * g.n_vocab) < 1e-3); /* not two files that are wrong in the same way */
      free(a);
      free(b);
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
