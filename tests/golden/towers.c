/* towers.c: bound towers against the oracle's rows, and the same bits for every level, number of threads and cut.
 *
 *     towers FOLDER ... | @FILE
 *
 * A folder as make_towers.py makes it: golden.json (model: the file to open, hidden, patch), golden.safetensors (patches, vision,
 * stills, bins, audio; those of a tower that is not there are absent). */
#include "golden.h"
#include "model/towers.h"

#define BOUND 1e-4

typedef struct opened {
  char path[1024];
  ij_ckpt *ckpt, *golden;
  ij_towers_weights w;
  int64_t hidden, patch; /* of golden.json */
} opened;

static bool open_folder(opened *o, const char *folder) {
  ij_err err = {0};
  char *text, path[1100];
  const char *model;
  size_t n;
  memset(o, 0, sizeof *o);
  ij_json *doc = golden_json(folder, &text, &err);
  const ij_json_value *root = ij__json_root(doc);
  bool ok = ij__json_get_string(ij__json_member(root, "model"), &model, &n) &&
            ij__json_get_int(ij__json_member(root, "hidden"), &o->hidden) && ij__json_get_int(ij__json_member(root, "patch"), &o->patch);
  if (ok) snprintf(o->path, sizeof o->path, "%.500s/%.100s", folder, model);
  snprintf(path, sizeof path, "%.500s/golden.safetensors", folder);
  ok = ok && ij__ckpt_open(&o->golden, path, &err) == IJ_OK && ij__ckpt_open(&o->ckpt, o->path, &err) == IJ_OK &&
       ij__towers_bind(&o->w, o->ckpt, &err) == IJ_OK;
  if (!ok) TEST_FAIL("%s: %s: %s", folder, err.where, err.message);
  ij__json_free(&doc);
  ij__free(text);
  return ok;
}

static void close_folder(opened *o) {
  ij__towers_free(&o->w);
  ij__ckpt_close(&o->ckpt);
  ij__ckpt_close(&o->golden);
}

static const ij_tensor_view *part(const opened *o, const char *name) { return ij__ckpt_find(o->golden, name); }

/* ------------------------------------------------------------------------------------------------------------- running */

typedef struct request {
  const opened *o;
  const float *patches; /* NULL: bins */
  const int32_t *bins;
  bool still;
  int64_t n;
} request;

typedef struct source {
  const float *values;
  int64_t each;
} source;

static void copy_patch(void *user, int64_t row, float *out) {
  const source *s = user;
  memcpy(out, s->values + row * s->each, (size_t)s->each * sizeof *out);
}

/* Rows [first, first + n) to their places in out. */
static void run_rows(const request *r, ij_level level, int threads, int64_t first, int64_t n, float *out) {
  const ij_towers_weights *w = &r->o->w;
  const ij_kernels *k = ij__kernels_get(level);
  ij_err err;
  ij_pool *pool = NULL;
  ij_towers_run run = {0};
  uint8_t bins[64 * IJ_TOWER_MELS];
  int64_t each = (int64_t)2 * 3 * w->plan.patch * w->plan.patch;
  source s = {r->patches ? r->patches + first * each : NULL, each};
  CHECK_OK(ij__pool_open(&pool, threads, &err), err);
  out += first * w->hidden;
  if (r->patches) {
    CHECK_OK(ij__towers_open_vision(&run, w, k, pool, n, r->still, &err), err);
    ij__towers_vision(&run, n, copy_patch, &s, out);
  } else {
    for (int64_t i = 0; i < n * IJ_TOWER_MELS; i++) bins[i] = (uint8_t)r->bins[first * IJ_TOWER_MELS + i];
    CHECK_OK(ij__towers_open_audio(&run, w, k, pool, n, &err), err);
    ij__towers_audio(&run, n, bins, out);
  }
  ij__towers_close_run(&run);
  ij__pool_close(&pool);
}

static double largest_difference(const float *a, const float *b, int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++) worst = fmax(worst, isfinite(a[i]) ? fabs((double)a[i] - b[i]) : INFINITY);
  return worst;
}

/* Against the oracle, then against itself on other ways. */
static double check_rows(const request *r, const ij_tensor_view *want, const char *what) {
  int64_t hidden = r->o->w.hidden;
  float *all = ij__alloc_array((size_t)(2 * r->n * hidden), sizeof *all), *again = all + r->n * hidden;
  run_rows(r, IJ_LEVEL_SCALAR, 1, 0, r->n, all);
  double worst = want->dims[1] == hidden ? largest_difference(all, want->data, r->n * hidden) : INFINITY;
  if (!(worst <= BOUND)) TEST_FAIL("%s, %s: a value differs by %g from the oracle's", r->o->path, what, worst);
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    for (int threads = 1; threads <= 3 && ij__cpu_has((ij_level)level); threads += TEST_THIN(1, 2)) {
      int64_t cut = r->n / 3 * (threads - 1);
      memset(again, 0, (size_t)(r->n * hidden) * sizeof *again);
      if (cut) run_rows(r, (ij_level)level, threads, 0, cut, again);
      run_rows(r, (ij_level)level, threads, cut, r->n - cut, again);
      if (memcmp(again, all, (size_t)(r->n * hidden) * sizeof *all) != 0)
        TEST_FAIL("%s, %s: other bits with level %d, %d threads, cut at %lld", r->o->path, what, level, threads, (long long)cut);
    }
  }
  ij__free(all);
  return worst;
}

static void check_folder(const char *folder) {
  opened o;
  double worst = 0;
  if (!open_folder(&o, folder)) {
    close_folder(&o);
    return;
  }
  const ij_tensor_view *patches = part(&o, "patches"), *bins = part(&o, "bins");
  CHECK_INT(o.w.vision, patches != NULL);
  CHECK_INT(o.w.audio, bins != NULL);
  CHECK_INT(o.w.hidden, o.hidden);
  if (patches) {
    request pairs = {.o = &o, .patches = patches->data, .n = patches->dims[0]}, stills = pairs;
    stills.still = true;
    CHECK_INT(o.w.plan.patch, o.patch);
    worst = fmax(check_rows(&pairs, part(&o, "vision"), "pairs"), check_rows(&stills, part(&o, "stills"), "stills"));
  }
  if (bins) {
    request sounds = {.o = &o, .bins = bins->data, .n = bins->dims[0]};
    worst = fmax(worst, check_rows(&sounds, part(&o, "audio"), "sounds"));
  }
  printf("%s: largest difference %.2g\n", folder, worst);
  close_folder(&o);
}

static const char *folder_now;

static void towers(void) { check_folder(folder_now); }

int main(int argc, char **argv) {
  static char folders[GOLDEN_MAX_FOLDERS][512];
  int n = golden_folders(folders, GOLDEN_MAX_FOLDERS, argc - 1, argv + 1);
  for (int i = 0; i < n; i++) {
    folder_now = folders[i];
    RUN(towers);
  }
  return test_report();
}
