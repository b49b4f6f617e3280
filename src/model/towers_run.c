/* towers_run.c: patches and bins -> rows.
 *
 * The vectors of a patch lie in an order in which every fold is a change of view: those that a layer folds into one follow each other, so
 * the output of a product, read with longer rows, is the input of the next. Only the pixels are moved, once. The first two layers, with
 * small weights and many vectors, go through a few patches at a time in one worker, where their values stay in the cache; the last two,
 * whose weights are the bulk, are products over all rows cut by weights, so every weight is read once per call.
 *
 * A still picture has equal slices: only one is computed, and the last layer multiplies it by the sum of the two halves of its weights,
 * which is made (from the decoded values, one addition each) where it is used. */
#include <string.h>

#include "core/alloc.h"
#include "model/gemm.h"
#include "model/towers.h"

enum {
  MAX_ROWS = 256,            /* of one call: what bounds the buffers, and the time for which the pool is taken */
  MAX_BUFFER = 64 << 20,     /* bytes of `folded` and `wide` that rows may take */
  FRONT_PATCHES = 8,         /* that the first two layers take at a time, when they are of the usual size */
  FRONT_FLOATS = 128 * 1024, /* about what their vectors may take in a worker */
  SUM_FLOATS = 576 * 1024,   /* of summed weights in a worker: two panels of a product */
  AUDIO_FLOATS = 240 * 1024, /* of the table in a worker */
  LAST = IJ_TOWER_LAYERS - 1
};

static int64_t at_least_1(int64_t n) { return IJ_MAX(n, (int64_t)1); }

/* Vectors of a patch after layer i. */
static int64_t vectors(const ij_towers_run *run, int i) {
  return run->w->plan.layer[i].n_vectors / (run->still && i < LAST ? IJ_TOWER_TIMES : 1);
}

/* ------------------------------------------------------------------------------------------------------------- buffers */

static int64_t patch_floats(const ij_tower_plan *p) { return (int64_t)IJ_TOWER_TIMES * IJ_TOWER_CHANNELS * p->patch * p->patch; }

/* Layer 0's rows, filled up with zeros: dot16 says that this changes no bit, and products with a whole number of steps are twice as fast. */
static int64_t padded_in(const ij_tower_plan *p) { return (int64_t)ij__align_up((size_t)p->layer[0].in, 16); }

/* Floats that the first two layers need for one patch: pixels as they come, folded, after layer 0, after layer 1. */
static int64_t front_floats(const ij_towers_run *run) {
  const ij_tower_plan *p = &run->w->plan;
  return patch_floats(p) + vectors(run, 0) * (padded_in(p) + p->layer[0].out);
}

static int64_t front_patches(const ij_towers_run *run) {
  return IJ_MIN(at_least_1(FRONT_FLOATS / front_floats(run)), (int64_t)FRONT_PATCHES);
}

static int64_t sum_rows(const ij_towers_run *run) {
  int64_t half = run->w->plan.layer[LAST].in / IJ_TOWER_TIMES, rows = at_least_1(SUM_FLOATS / half);
  int64_t want = 4 * (int64_t)ij__pool_threads(run->pool);
  rows = IJ_MIN(rows, (int64_t)IJ_CHUNK_ROWS_MANY);
  while (rows > 8 && ij__div_up(run->w->hidden, rows) < want) rows /= 2;
  return rows > 16 ? rows / 16 * 16 : rows;
}

static ij_status take_buffers(ij_towers_run *run, int64_t n_folded, int64_t n_wide, int64_t n_first, int64_t n_worker, ij_err *err) {
  size_t folded = ij__align_up((size_t)n_folded, 64), wide = ij__align_up((size_t)n_wide, 64), first = ij__align_up((size_t)n_first, 64);
  size_t worker = ij__align_up((size_t)(IJ_MATMUL_SCRATCH + n_worker), 64);
  size_t n = folded + wide + first + (size_t)ij__pool_threads(run->pool) * worker;
  run->folded = ij__alloc_array(n, sizeof(float));
  if (!run->folded) return ij__fail_nomem(err, "the buffers of the towers", n * sizeof(float));
  run->wide = run->folded + folded;
  run->first = run->wide + wide;
  run->worker = run->first + first;
  run->worker_floats = (int64_t)worker;
  return IJ_OK;
}

/* Products need of a net only these. */
static ij_net net_of(const ij_towers_run *run) {
  ij_net net = {.kernels = run->kernels, .pool = run->pool};
  net.s.worker = run->worker;
  net.s.worker_floats = run->worker_floats;
  return net;
}

static void widen_first(const ij_towers_run *run) {
  const ij_tower_layer *l = &run->w->plan.layer[0];
  int64_t cols = padded_in(&run->w->plan);
  ij_net net = net_of(run);
  ij_weight stored = run->w->linear[0];
  stored.has_factor = false; /* it multiplies the products, as everywhere */
  memset(run->first, 0, (size_t)(cols * l->out) * sizeof *run->first);
  for (int64_t r = 0; r < l->out; r++) ij__weight_row(&net, run->first + r * cols, &stored, r);
}

ij_status ij__towers_open_vision(ij_towers_run *run, const ij_towers_weights *w, const ij_kernels *kernels, ij_pool *pool, int64_t n,
                                 bool still, ij_err *err) {
  *run = (ij_towers_run){.w = w, .kernels = kernels, .pool = pool, .still = still};
  const ij_tower_layer *l = &w->plan.layer[2];
  int64_t folded = vectors(run, 2) * l->in, wide = vectors(run, 2) * l->out;
  run->max_rows = IJ_MIN(at_least_1(MAX_BUFFER / (int64_t)sizeof(float) / (folded + wide)), IJ_MIN(n, (int64_t)MAX_ROWS));
  int64_t front = front_patches(run) * front_floats(run), half = w->plan.layer[LAST].in / IJ_TOWER_TIMES;
  int64_t sum = still ? (sum_rows(run) + IJ_TOWER_TIMES) * half : 0;
  int64_t first = padded_in(&w->plan) * w->plan.layer[0].out;
  ij_status s = take_buffers(run, run->max_rows * folded, run->max_rows * wide, first, IJ_MAX(front, sum), err);
  if (s == IJ_OK) widen_first(run);
  return s;
}

void ij__towers_close_run(ij_towers_run *run) {
  ij__free(run->folded); /* the first part of one block */
  *run = (ij_towers_run){0};
}

/* -------------------------------------------------------------------------------------------------- the first two layers */

typedef struct vision_ctx {
  const ij_towers_run *run;
  ij_net net;
  int64_t n, per_task; /* patches */
  int64_t sum_rows;
  ij_patch_fn patch;
  void *user;
  float *out;
} vision_ctx;

/* Layer 0's vector `v` of a slice begins at pixel (y, x): the numbers of blocks within blocks, from the outermost layer inwards. */
static void place_of(const ij_tower_plan *p, int64_t v, int *y, int *x) {
  int side = p->layer[0].space;
  *y = *x = 0;
  for (int i = 1; i < IJ_TOWER_LAYERS; i++) {
    int f = p->layer[i].space;
    int64_t inner = v % (f * f);
    *y += (int)(inner / f) * side;
    *x += (int)(inner % f) * side;
    v /= f * f;
    side *= f;
  }
}

/* Rows of blocks of pixels, in the order of place_of, slices outermost. */
static void fold_pixels(const ij_towers_run *run, const float *patch, float *out) {
  const ij_tower_plan *p = &run->w->plan;
  int64_t slices = run->still ? 1 : IJ_TOWER_TIMES, per_slice = vectors(run, 0) / slices;
  int64_t line = (int64_t)p->patch * IJ_TOWER_CHANNELS, part = (int64_t)p->layer[0].space * IJ_TOWER_CHANNELS;
  int64_t pad = padded_in(p) - p->layer[0].in;
  for (int64_t t = 0; t < slices; t++, patch += p->patch * line) {
    for (int64_t v = 0; v < per_slice; v++) {
      int y, x;
      place_of(p, v, &y, &x);
      for (int i = 0; i < p->layer[0].space; i++, out += part)
        memcpy(out, patch + (y + i) * line + (int64_t)x * IJ_TOWER_CHANNELS, (size_t)part * sizeof *out);
      memset(out, 0, (size_t)pad * sizeof *out);
      out += pad;
    }
  }
}

static void norm_gelu(const ij_towers_run *run, int layer, float *y, int64_t n) {
  int64_t width = run->w->plan.layer[layer].out;
  for (int64_t i = 0; i < n; i++, y += width) {
    run->kernels->rms_norm(y, y, run->w->norm[layer], IJ_TOWER_EPS, width);
    run->kernels->gelu(y, y, width);
  }
}

/* y = gelu(rmsnorm(x * w^T)) for n rows. */
static void whole_layer(const vision_ctx *c, int layer, const ij_weight *w, const float *x, float *y, int64_t n, int worker) {
  ij_product p = {.x = x, .y = y, .ldx = w->cols, .ldy = w->rows, .n = n};
  ij__product_rows(&c->net, w, &p, 0, w->rows, worker);
  norm_gelu(c->run, layer, y, n);
}

static void front_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const vision_ctx *c = ctx;
  const ij_towers_run *run = c->run;
  const ij_tower_plan *p = &run->w->plan;
  float *pixels = ij__worker_scratch(&c->net, worker) + IJ_MATMUL_SCRATCH;
  const int64_t cols = padded_in(p), per_patch = vectors(run, 0) * cols;
  float *folded = pixels + patch_floats(p), *y = folded + c->per_task * per_patch;
  ij_weight first = {.data = run->first, .dtype = IJ_DTYPE_F32, .rows = p->layer[0].out, .cols = cols,
                     .row_stride = cols * (int64_t)sizeof(float), .has_factor = run->w->linear[0].has_factor,
                     .factor = run->w->linear[0].factor};
  for (int64_t i = i0; i < i1; i++) {
    int64_t row = i * c->per_task, n = IJ_MIN(c->per_task, c->n - row);
    float *out = run->folded + row * vectors(run, 1) * p->layer[1].out;
    for (int64_t k = 0; k < n; k++) {
      c->patch(c->user, row + k, pixels);
      fold_pixels(run, pixels, folded + k * per_patch);
    }
    whole_layer(c, 0, &first, folded, y, n * vectors(run, 0), worker);
    whole_layer(c, 1, &run->w->linear[1], y, out, n * vectors(run, 1), worker);
  }
}

/* --------------------------------------------------------------------------------------------------- the last two layers */

static void norm_gelu_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const vision_ctx *c = ctx;
  (void)worker;
  norm_gelu(c->run, 2, c->run->wide + i0 * c->run->w->plan.layer[2].out, i1 - i0);
}

static void final_norm_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const vision_ctx *c = ctx;
  const ij_towers_weights *w = c->run->w;
  (void)worker;
  for (int64_t i = i0; i < i1; i++) {
    float *y = c->out + i * w->hidden;
    c->run->kernels->rms_norm(y, y, w->vision_norm, IJ_TOWER_EPS, w->hidden);
  }
}

/* Row r of the last layer's weights, its halves added. */
static void summed_row(const ij_net *net, float *out, const ij_weight *stored, int64_t r, float *whole) {
  int64_t half = stored->cols / IJ_TOWER_TIMES;
  ij__weight_row(net, whole, stored, r);
  memcpy(out, whole, (size_t)half * sizeof *out);
  net->kernels->add(out, whole + half, half);
}

static void summed_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const vision_ctx *c = ctx;
  const ij_towers_weights *w = c->run->w;
  const int64_t half = w->plan.layer[LAST].in / IJ_TOWER_TIMES;
  ij_weight stored = w->linear[LAST];
  stored.has_factor = false; /* it multiplies the products, as everywhere */
  float *whole = ij__worker_scratch(&c->net, worker) + IJ_MATMUL_SCRATCH, *sums = whole + IJ_TOWER_TIMES * half;
  for (int64_t i = i0; i < i1; i++) {
    int64_t r0 = i * c->sum_rows, n_row = IJ_MIN(c->sum_rows, w->hidden - r0);
    for (int64_t r = 0; r < n_row; r++) summed_row(&c->net, sums + r * half, &stored, r0 + r, whole);
    ij_weight sum = {.data = sums, .dtype = IJ_DTYPE_F32, .rows = n_row, .cols = half, .row_stride = half * (int64_t)sizeof(float),
                     .has_factor = w->linear[LAST].has_factor, .factor = w->linear[LAST].factor};
    ij_product p = {.x = c->run->wide, .y = c->out + r0, .ldx = half, .ldy = w->hidden, .n = c->n};
    ij__product_rows(&c->net, &sum, &p, 0, n_row, worker);
  }
}

void ij__towers_vision(const ij_towers_run *run, int64_t n, ij_patch_fn patch, void *user, float *out) {
  const ij_towers_weights *w = run->w;
  const ij_tower_layer *third = &w->plan.layer[2], *last = &w->plan.layer[LAST];
  vision_ctx c = {.run = run, .net = net_of(run), .n = n, .patch = patch, .user = user, .out = out};
  c.per_task = front_patches(run);
  while (c.per_task > 1 && ij__div_up(n, c.per_task) < 4 * (int64_t)ij__pool_threads(run->pool)) c.per_task /= 2;
  ij__pool_run(run->pool, ij__div_up(n, c.per_task), 1, front_tasks, &c);

  ij_gemm g = {.w = &w->linear[2], .x = run->folded, .y = run->wide, .ldx = third->in, .ldy = third->out, .n = n * vectors(run, 2)};
  ij__gemm_run(&c.net, &g, 1);
  ij__pool_run(run->pool, g.n, 4, norm_gelu_tasks, &c);

  if (run->still) {
    c.sum_rows = sum_rows(run);
    ij__pool_run(run->pool, ij__div_up(w->hidden, c.sum_rows), 1, summed_tasks, &c);
  } else {
    ij_gemm whole = {.w = &w->linear[LAST], .x = run->wide, .y = out, .ldx = last->in, .ldy = last->out, .n = n};
    ij__gemm_run(&c.net, &whole, 1);
  }
  ij__pool_run(run->pool, n, 4, final_norm_tasks, &c);
}

/* --------------------------------------------------------------------------------------------------------------- sounds */

typedef struct audio_ctx {
  const ij_towers_run *run;
  ij_net net;
  int64_t n, width; /* frames; columns of a task */
  const uint8_t *bins;
  float *out;
} audio_ctx;

/* Columns of a task: what fits a worker with the whole table, in blocks that every format can be cut at. */
static int64_t audio_width(const ij_towers_run *run) {
  const int64_t unit = 256;
  int64_t width = AUDIO_FLOATS / (IJ_TOWER_MELS * IJ_TOWER_LEVELS);
  return ij__dtype_is_float(run->w->table.dtype) ? width / 64 * 64 : unit;
}

ij_status ij__towers_open_audio(ij_towers_run *run, const ij_towers_weights *w, const ij_kernels *kernels, ij_pool *pool, int64_t n,
                                ij_err *err) {
  *run = (ij_towers_run){.w = w, .kernels = kernels, .pool = pool};
  run->max_rows = IJ_MIN(n, (int64_t)16 * MAX_ROWS);
  return take_buffers(run, 0, 0, 0, (IJ_TOWER_MELS * IJ_TOWER_LEVELS + 1) * audio_width(run), err);
}

/* Columns [c0, c0 + n) of a row of the table. */
static void table_piece(const audio_ctx *c, float *y, int64_t row, int64_t c0, int64_t n) {
  const ij_kernels *k = c->run->kernels;
  ij_weight at = ij__weight_from(c->run->w->table, row);
  if (ij__dtype_is_float(at.dtype)) {
    k->widen[at.dtype](y, (const char *)at.data + c0 * ij__dtype_block_bytes(at.dtype), n);
  } else {
    ij_stretch s = {.row = at.data, .scales = at.scales, .biases = at.biases, .side_dtype = at.side_dtype, .group = at.group, .c0 = c0,
                    .n = n};
    k->decode[at.dtype](y, &s);
  }
  if (at.has_factor) k->scale(y, y, at.factor, n);
}

/* A stretch of columns of all frames: the sum over the mels in their order. The stretch is decoded whole when most of it is needed. */
static void sum_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const audio_ctx *c = ctx;
  const int64_t n_entry = IJ_TOWER_MELS * IJ_TOWER_LEVELS, hidden = c->run->w->hidden;
  float *table = ij__worker_scratch(&c->net, worker) + IJ_MATMUL_SCRATCH;
  bool whole = c->n * IJ_TOWER_MELS >= n_entry;
  for (int64_t i = i0; i < i1; i++) {
    int64_t c0 = i * c->width, n = IJ_MIN(c->width, hidden - c0);
    for (int64_t e = 0; whole && e < n_entry; e++) table_piece(c, table + e * n, e, c0, n);
    for (int64_t f = 0; f < c->n; f++) {
      float *y = c->out + f * hidden + c0;
      for (int m = 0; m < IJ_TOWER_MELS; m++) {
        int64_t e = (int64_t)m * IJ_TOWER_LEVELS + c->bins[f * IJ_TOWER_MELS + m];
        const float *piece = whole ? table + e * n : table;
        if (!whole) table_piece(c, table, e, c0, n);
        if (m == 0)
          memcpy(y, piece, (size_t)n * sizeof *y);
        else
          c->run->kernels->add(y, piece, n);
      }
    }
  }
}

static void audio_norm_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const audio_ctx *c = ctx;
  const ij_towers_weights *w = c->run->w;
  (void)worker;
  for (int64_t f = i0; f < i1; f++) {
    float *y = c->out + f * w->hidden;
    c->run->kernels->rms_norm(y, y, w->audio_norm, IJ_TOWER_EPS, w->hidden);
  }
}

void ij__towers_audio(const ij_towers_run *run, int64_t n, const uint8_t *bins, float *out) {
  audio_ctx c = {.run = run, .net = net_of(run), .n = n, .width = audio_width(run), .bins = bins, .out = out};
  ij__pool_run(run->pool, ij__div_up(run->w->hidden, c.width), 1, sum_tasks, &c);
  ij__pool_run(run->pool, n, 4, audio_norm_tasks, &c);
}
