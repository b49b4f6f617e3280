/* test_formats.c: a tiny synthetic model in every format goes through the whole program, and its logits are the same bits at the scalar
 * level and at the best one, with one thread and with two, at once and token by token. */
#include <unistd.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "inkjet.h"
#include "test.h"
#include "unit/temp_folder.h"
#include "tools/tool_synth.h"

enum { N_IDS = 9 };
static const int32_t ids[N_IDS] = {1, 599, 37, 400, 2, 2, 511, 90, 12};
static char folder[256];
static int n_vocab;

/* Logits after all ids into `logits`. */
static bool run(const char *format, const char *path, const char *level, int n_threads, int64_t chunk, float *logits) {
  ij_model_options options = ij_model_options_default();
  ij_model *model = NULL;
  ij_session *session = NULL;
  ij_model_info info;
  ij_err err = {0};
  options.cpu_mask = level;
  options.n_threads = n_threads;
  ij_status s = ij_model_open(&model, path, &options, &err);
  if (s == IJ_OK) s = ij_session_open(&session, model, NULL, &err);
  for (int64_t at = 0; at < N_IDS && s == IJ_OK; at += chunk) {
    s = ij_session_eval(session, ids + at, at + chunk <= N_IDS ? chunk : N_IDS - at, &err);
  }
  if (s == IJ_OK) {
    ij_model_get_info(model, &info);
    n_vocab = info.unpadded_vocab;
    memcpy(logits, ij_session_logits(session), (size_t)n_vocab * sizeof *logits);
  } else {
    TEST_FAIL("%s: %s: %s: %s", format, ij_status_name(s), err.where, err.message);
  }
  ij_session_close(&session);
  ij_model_close(&model);
  return s == IJ_OK;
}

static void check_format(const char *format) {
  static float want[1024], got[1024];
  static const struct {
    const char *level;
    int n_threads, chunk;
  } ways[] = {{NULL, 2, N_IDS}, {NULL, 1, 1}, {"scalar", 2, 4}};
  ij_synth_model m;
  ij_err err = {0};
  CHECK_OK(ij__synth_parse(&m, format, &err), err);
  CHECK_OK(ij__synth_write(&m, folder, NULL, NULL, &err), err);
  char *path = ij__synth_path(&m, folder);
  if (run(format, path, "scalar", 1, N_IDS, want)) {
    double squares = 0;
    for (int i = 0; i < n_vocab; i++) squares += (double)want[i] * want[i];
    const double rms = sqrt(squares / n_vocab);
    if (!(rms > 0.5 && rms < 20)) TEST_FAIL("%s: logits of RMS %g", format, rms); /* the plan makes them about 3 */
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
      if (!run(format, path, ways[k].level, ways[k].n_threads, ways[k].chunk, got)) continue;
      if (memcmp(want, got, (size_t)n_vocab * sizeof *want) != 0) {
        TEST_FAIL("%s: other bits at level %s, %d threads, chunks of %d", format, ways[k].level ? ways[k].level : "best", ways[k].n_threads,
                  ways[k].chunk);
      }
    }
  }
  ij__free(path);
  int n;
  char **files = ij__synth_files(&m, folder, &n);
  for (int i = 0; i < n; i++) unlink(files[i]);
  ij__synth_free_files(files, n);
}

static void test_gguf(void) {
  int n_type = 0;
  for (int t = 0; t < IJ_DTYPE_COUNT; t++) {
    if (!ij__dtype_is_block((ij_dtype)t) && !ij__dtype_is_float((ij_dtype)t)) continue;
    if (n_type++ % TEST_THIN(1, 5) != 0) continue; /* test_decode and test_matmul take every type at every level in every build */
    char format[40];
    int n = snprintf(format, sizeof format, "tiny:%s%s", t == IJ_DTYPE_NVFP4 ? "gguf-" : "", ij__dtype_name((ij_dtype)t));
    for (int i = 5; i < n; i++) format[i] = (char)(format[i] >= 'A' && format[i] <= 'Z' ? format[i] + 32 : format[i]);
    check_format(format);
  }
}

static void test_mlx(void) {
  static const char *const formats[] = {"tiny:mlx2",      "tiny:mlx3",      "tiny:mlx4",      "tiny:mlx5",     "tiny:mlx6",     "tiny:mlx8",
                                        "tiny:mlx4-g32",  "tiny:mlx4-g128", "tiny:mlx-mxfp4", "tiny:mlx-mxfp8", "tiny:mlx-nvfp4"};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i += TEST_THIN(1, 5)) check_format(formats[i]);
}

static void test_releases(void) {
  check_format("tiny");
  check_format("tiny:nvfp4");
}

int main(void) {
  if (!make_temp_folder(folder, sizeof folder)) return 1;
  RUN(test_gguf);
  RUN(test_mlx);
  RUN(test_releases);
  CHECK_INT(rmdir(folder), 0);
  return test_report();
}
