/* bench_media.c: the measurements behind `inkjet bench --media`.
 *
 * Needed work is stated here: a patch of a still picture takes patch_fma multiply-adds; a frame of sound adds 80 rows of the table, which is
 * so small that its rows come from caches: its share of the read bandwidth may exceed one. Preparing the media (patches of floats,
 * normalized) is part of the time, decoding and resizing are not. */
#include <stdio.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "tools/tool_bench.h"

enum { SIDE = 1024, SECONDS = 60, RATE = 16000, N_MELS = 80 };
#define MEASURE_SECONDS 0.25

typedef struct media_bench {
  const ij_bench_options *o;
  ij_bench_media_result *r;
  ij_model *model;
  ij_towers *towers;
  ij_machine before;
  double *samples, *read, *fma; /* [4 * n_repeat], all looks at the machine */
  int n_looks;
  float *rows;
} media_bench;

static uint64_t hashed(uint64_t i) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static ij_status look(media_bench *b, ij_machine *out, ij_err *err) {
  ij_status s = ij_measure_machine(b->model, MEASURE_SECONDS, out, err);
  if (s != IJ_OK) return s;
  b->read[b->n_looks] = out->read_bytes_per_s;
  b->fma[b->n_looks++] = out->fma_per_s;
  return IJ_OK;
}

static ij_status make_picture(const media_bench *b, ij_media **out, ij_err *err) {
  ij_media_options o = ij_towers_media_options(b->towers);
  o.rescale_frac = 0;
  uint8_t *pixels = ij__alloc((size_t)SIDE * SIDE * 3);
  if (!pixels) return ij__fail_nomem(err, "a picture", (size_t)SIDE * SIDE * 3);
  for (int i = 0; i < SIDE * SIDE * 3; i++) pixels[i] = (uint8_t)hashed((uint64_t)i);
  ij_status s = ij_media_from_pixels(out, pixels, NULL, SIDE, SIDE, &o, err);
  ij__free(pixels);
  return s;
}

static ij_status make_sound(ij_media **out, ij_err *err) {
  const int64_t n = (int64_t)SECONDS * RATE;
  float *samples = ij__alloc_array((size_t)n, sizeof *samples);
  if (!samples) return ij__fail_nomem(err, "a sound", (size_t)n * sizeof *samples);
  for (int64_t i = 0; i < n; i++) samples[i] = (float)((double)(hashed((uint64_t)i) >> 40) / 8388608.0 - 1) * 0.1f;
  ij_status s = ij_media_from_samples(out, samples, n, 1, RATE, NULL, err);
  ij__free(samples);
  return s;
}

/* One repetition: seconds, and the rates of the machine before and after it. */
static ij_status encode_once(media_bench *b, const ij_media *media, const char *what, int i, double *seconds, ij_machine *rates, ij_err *err) {
  ij_media_info info;
  ij_machine after;
  ij_media_get_info(media, &info);
  if (b->o->progress && !b->o->progress(b->o->user, what, (double)i / b->o->n_repeat)) return ij__fail(err, IJ_E_CANCELLED, NULL, "stopped");
  double start = ij__os_seconds();
  ij_status s = ij_towers_encode(b->towers, media, 0, info.n_rows, b->rows, err);
  *seconds = ij__os_seconds() - start;
  if (s == IJ_OK) s = look(b, &after, err);
  if (s != IJ_OK) return s;
  rates->fma_per_s = (b->before.fma_per_s + after.fma_per_s) / 2;
  rates->read_bytes_per_s = (b->before.read_bytes_per_s + after.read_bytes_per_s) / 2;
  b->before = after;
  return IJ_OK;
}

static ij_status take_rows(media_bench *b, int64_t n, ij_err *err) {
  ij__free(b->rows);
  b->rows = ij__alloc_array((size_t)(n * b->r->towers.hidden), sizeof(float));
  return b->rows ? IJ_OK : ij__fail_nomem(err, "rows", (size_t)(n * b->r->towers.hidden) * sizeof(float));
}

static ij_status measure_picture(media_bench *b, const ij_media *media, ij_err *err) {
  const int n = b->o->n_repeat;
  double *seconds = b->samples, *share = seconds + n;
  ij_media_info info;
  ij_media_get_info(media, &info);
  b->r->n_patches = info.n_rows;
  b->r->vision_fma = b->r->towers.patch_fma * (double)info.n_rows;
  ij_status s = take_rows(b, info.n_rows, err);
  for (int i = -1; i < n && s == IJ_OK; i++) { /* the first one brings the weights into memory */
    ij_machine rates;
    int at = IJ_MAX(i, 0);
    s = encode_once(b, media, "a picture", at, &seconds[at], &rates, err);
    if (s != IJ_OK || i < 0) continue;
    share[i] = b->r->vision_fma / seconds[i] / rates.fma_per_s;
    char line[160];
    snprintf(line, sizeof line, "picture %d: %.3f s, %.1f GFMA/s of %.1f GFMA/s (%.1f %%)", i + 1, seconds[i], b->r->vision_fma / seconds[i] / 1e9,
             rates.fma_per_s / 1e9, share[i] * 100);
    if (b->o->note) b->o->note(b->o->user, line);
  }
  if (s != IJ_OK) return s;
  b->r->vision_s = ij__bench_stat_of(seconds, n);
  b->r->vision_share = ij__bench_stat_of(share, n);
  return IJ_OK;
}

static ij_status measure_sound(media_bench *b, const ij_media *media, ij_err *err) {
  const int n = b->o->n_repeat;
  double *seconds = b->samples, *read = seconds + n, *share = seconds + 2 * n;
  ij_media_info info;
  ij_media_get_info(media, &info);
  b->r->n_frames = info.n_rows;
  b->r->audio_adds = (double)info.n_rows * N_MELS * b->r->towers.hidden;
  b->r->audio_bytes = b->r->audio_adds * (double)b->r->towers.weight_bytes / (double)b->r->towers.n_params;
  ij_status s = take_rows(b, info.n_rows, err);
  for (int i = -1; i < n && s == IJ_OK; i++) {
    ij_machine rates;
    int at = IJ_MAX(i, 0);
    s = encode_once(b, media, "a sound", at, &seconds[at], &rates, err);
    if (s != IJ_OK || i < 0) continue;
    read[i] = b->r->audio_bytes / seconds[i] / rates.read_bytes_per_s;
    share[i] = b->r->audio_adds / seconds[i] / rates.fma_per_s;
    char line[160];
    snprintf(line, sizeof line, "sound %d: %.4f s, %.1f GB/s of the table, memory gives %.1f GB/s", i + 1, seconds[i],
             b->r->audio_bytes / seconds[i] / 1e9, rates.read_bytes_per_s / 1e9);
    if (b->o->note) b->o->note(b->o->user, line);
  }
  if (s != IJ_OK) return s;
  b->r->audio_s = ij__bench_stat_of(seconds, n);
  b->r->audio_read = ij__bench_stat_of(read, n);
  b->r->audio_share = ij__bench_stat_of(share, n);
  return IJ_OK;
}

static ij_status measure_both(media_bench *b, ij_err *err) {
  ij_media *picture = NULL, *sound = NULL;
  ij_status s = look(b, &b->before, err);
  if (s == IJ_OK && b->r->towers.vision) s = make_picture(b, &picture, err);
  if (s == IJ_OK && picture) s = measure_picture(b, picture, err);
  if (s == IJ_OK && b->r->towers.audio) s = make_sound(&sound, err);
  if (s == IJ_OK && sound) s = measure_sound(b, sound, err);
  if (s == IJ_OK) {
    b->r->read_bytes_per_s = ij__bench_stat_of(b->read, b->n_looks);
    b->r->fma_per_s = ij__bench_stat_of(b->fma, b->n_looks);
  }
  ij_media_close(&picture);
  ij_media_close(&sound);
  return s;
}

static ij_status open_towers(media_bench *b, ij_err *err) {
  ij_model_info m;
  ij_status s = ij_model_open(&b->model, b->o->path, &b->o->model, err);
  if (s != IJ_OK) return s;
  b->towers = ij_model_towers(b->model);
  if (!b->towers) return ij__fail(err, IJ_E_UNSUPPORTED, b->o->path, "this model has no towers; --mmproj names a file of them");
  ij_model_get_info(b->model, &m);
  ij_towers_get_info(b->towers, &b->r->towers);
  b->r->towers.source = NULL; /* it dies with the model */
  b->r->n_threads = m.n_threads;
  snprintf(b->r->level, sizeof b->r->level, "%s", m.level);
  return IJ_OK;
}

ij_status ij__bench_media(ij_bench_media_result *out, const ij_bench_options *o, ij_err *err) {
  *out = (ij_bench_media_result){0};
  size_t n = (size_t)o->n_repeat, n_looks = 2 * n + 4;
  media_bench b = {.o = o, .r = out, .samples = ij__alloc_zero(4 * n + 2 * n_looks, sizeof *b.samples)};
  if (!b.samples) return ij__fail_nomem(err, "samples", (4 * n + 2 * n_looks) * sizeof *b.samples);
  b.read = b.samples + 4 * n;
  b.fma = b.read + n_looks;
  ij_status s = open_towers(&b, err);
  if (s == IJ_OK) s = measure_both(&b, err);
  ij_model_close(&b.model);
  ij__free(b.rows);
  ij__free(b.samples);
  return s;
}
