/* homes.c: one answer, wherever the weights are. The logits of a checkpoint must have the same bits mapped, resident, and streamed through any number
 * of slots, with any threads, chunks and guesses.
 *
 *   homes [--ways N] FOLDER...    each holds a checkpoint and golden.json; @FILE lists folders
 *
 * Every folder is opened in N of the ways below (default: all), in turns, so that each way meets every family of formats.
 */
#include "engine/engine_int.h"
#include "golden.h"

#define CTX 64
#define N_SHOT 20 /* tokens of the first step; then a few of three, then single ones */

typedef enum room { ALL, LEAST, FEW } room;

static const struct way {
  ij_home home;
  room room;
  int n_threads, max_batch;
  ij_predict predict;
} ways[] = {
    {IJ_HOME_STREAMED, LEAST, 1, 512, IJ_PREDICT_OFF}, {IJ_HOME_RESIDENT, ALL, 2, 7, IJ_PREDICT_AUTO},
    {IJ_HOME_STREAMED, FEW, 3, 16, IJ_PREDICT_ON},     {IJ_HOME_STREAMED, LEAST, 2, 5, IJ_PREDICT_ON},
    {IJ_HOME_STREAMED, ALL, 2, 3, IJ_PREDICT_ON},      {IJ_HOME_STREAMED, FEW, 1, 512, IJ_PREDICT_AUTO},
    {IJ_HOME_STREAMED, LEAST, 3, 1, IJ_PREDICT_ON},    {IJ_HOME_MAPPED, LEAST, 2, 33, IJ_PREDICT_ON}, /* as if it were larger than memory */
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static golden g;
static const char *folder;
static int first_way, way_step;

static int64_t step_length(int64_t done, int64_t n) {
  int64_t want = done == 0 ? N_SHOT : done < N_SHOT + 9 ? 3 : 1;
  return want < n - done ? want : n - done;
}

static float *logits_of(ij_model *m) {
  ij_session *s = open_session_or_fail(m, CTX, IJ_KV_F32);
  int64_t n = g.n < CTX ? g.n : CTX;
  float *logits = calloc((size_t)(n * g.n_vocab), sizeof *logits);
  ij_err err = {0};
  for (int64_t at = 0, k; s && at < n; at += k) {
    k = step_length(at, n);
    ij_step_item item = {.session = s, .ids = g.prompt + at, .n = k, .logits_all = logits + at * g.n_vocab};
    CHECK_OK(ij_step(m, &item, 1, &err), err);
  }
  ij_session_close(&s);
  return logits;
}

static ij_model *open_way(const struct way *w, const ij_model *plain) {
  char path[1024];
  golden_model_path(path, sizeof path, folder);
  ij_expert_banks banks = ij__weights_banks(&plain->weights, &plain->config);
  size_t least = ij__experts_streamed_least(&banks), most = ij__experts_streamed_most(&banks);
  ij_open_hooks hooks = {.expert_room = w->room == LEAST ? least : w->room == FEW ? least + (most - least) / 3 : most};
  ij_model_options o = ij_model_options_default();
  o.home = w->home;
  o.plan_ctx = CTX;
  o.n_threads = w->n_threads;
  o.max_batch = w->max_batch;
  o.predict = w->predict;
  o.tokenizer = false;
  ij_model *m = NULL;
  ij_err err = {0};
  if (ij__model_open_with(&m, path, &o, &hooks, &err) != IJ_OK) TEST_FAIL("%s: %s", err.where, err.message);
  return m;
}

static void expect_home(ij_model *m, const struct way *w) {
  ij_streaming_info info;
  ij_model_get_streaming(m, &info);
  CHECK_STR(info.home, w->home == IJ_HOME_STREAMED ? "streamed" : w->home == IJ_HOME_RESIDENT ? "resident" : "mapped");
  if (w->home != IJ_HOME_STREAMED || info.n_slots == 0) return;
  CHECK(info.n_miss > 0);
  if (w->room == ALL) CHECK(info.n_miss <= info.n_slots); /* each was read once */
  if (w->predict == IJ_PREDICT_OFF) CHECK_INT(info.n_guess, 0);
  CHECK_INT(info.n_tokens, g.n < CTX ? g.n : CTX);
}

static void same_in_every_home(void) {
  if (!golden_open(&g, folder)) return;
  ij_model *plain = open_model_or_fail(folder, 1, 512, NULL);
  float *want = plain ? logits_of(plain) : NULL;
  size_t n_bytes = (size_t)((g.n < CTX ? g.n : CTX) * g.n_vocab) * sizeof *want;
  CHECK(want && max_diff(want, g.logits, (int64_t)(n_bytes / sizeof *want)) < 1e-3); /* not wrong in the same way */
  for (int i = first_way; want && i < N_WAYS; i += way_step) {
    ij_model *m = open_way(&ways[i], plain);
    float *got = m ? logits_of(m) : NULL;
    if (got && memcmp(got, want, n_bytes) != 0) {
      TEST_FAIL("%s: way %d: logits differ from those of the mapped home, by up to %.3g", folder, i, max_diff(got, want, (int64_t)(n_bytes / sizeof *want)));
    }
    if (m) expect_home(m, &ways[i]);
    free(got);
    ij_model_close(&m);
  }
  free(want);
  ij_model_close(&plain);
  golden_close(&g);
}

int main(int argc, char **argv) {
  static char folders[GOLDEN_MAX_FOLDERS][512];
  int first = 1, n_ways = N_WAYS;
  if (argc > 2 && strcmp(argv[1], "--ways") == 0) {
    n_ways = atoi(argv[2]);
    first = 3;
  }
  if (n_ways < 1 || n_ways > N_WAYS) TEST_FAIL("expected 1 to %d ways, found %d", N_WAYS, n_ways);
  int n = golden_folders(folders, GOLDEN_MAX_FOLDERS, argc - first, argv + first);
  for (int i = 0; i < n && n_ways > 0; i++) {
    folder = folders[i];
    way_step = (N_WAYS + n_ways - 1) / n_ways;
    first_way = i % way_step;
    RUN(same_in_every_home);
  }
  return test_report();
}
