/* gemm.c: groups of matrix products, cut into chunks of rows for the pool. The cut is free to follow the machine: a chunk never
 * splits the reduced dimension, so no result depends on it.
 */
#include "model/gemm.h"

#include <assert.h>

#define CHUNK_BYTES (512 * 1024) /* of weights per chunk when few rows share them: prefetching stays inside a chunk, so it should be long */
#define CHUNK_ROWS_MIN 32        /* of the last chunks of a loop over one row, which are what threads wait for: starting one costs as much as a few rows */
#define CHUNK_BATCH 16           /* the same over several, and what their chunks should be multiples of: they fold so many sums at a time */
#define CHUNK_STREAMS 4          /* the same for one row, where so many rows of weights advance together */
#define FEW_BLOCKS 64            /* of integers: so many are made before other threads would have begun */
#define MANY_ROWS 16             /* from here on products are bound by arithmetic and want taller panels */

/* `most` is a power of two, so that chunks rarely cross from one matrix to the next. */
ij_cut ij__gemm_cut(const ij_net *net, int64_t w_rows, int64_t row_bytes, int64_t n, int64_t many) {
  int64_t several = n > 1 ? 2 : 1, batch = n > 1 ? CHUNK_BATCH : CHUNK_STREAMS, most = 1;
  int64_t chunk = row_bytes > 0 ? several * CHUNK_BYTES / row_bytes : many, max = n >= MANY_ROWS ? many : IJ_CHUNK_ROWS_MAX;
  int64_t least = n >= MANY_ROWS ? many / 4 : n > 1 ? CHUNK_BATCH : CHUNK_ROWS_MIN; /* of the last chunks, for which threads wait */
  int64_t rows = IJ_MIN(least, w_rows / (8 * ij__pool_threads(net->pool)));
  rows = IJ_MAX(rows > batch ? rows - rows % batch : rows, several * CHUNK_STREAMS);
  if (n >= MANY_ROWS) chunk = many;
  if (w_rows * row_bytes * n >= CHUNK_BYTES) { /* enough work that every thread should have some */
    chunk = IJ_MIN(chunk, IJ_MAX(w_rows / ij__pool_threads(net->pool), 1));
  }
  while (most * rows < chunk && 2 * most * rows <= max) most *= 2;
  return (ij_cut){.rows = rows, .most = most};
}

void ij__product_announce(ij_product *p, const ij_weight *w, const ij_weight *next, int64_t row, int64_t n, int64_t n_token) {
  bool alike = next->dtype == w->dtype && next->cols == w->cols && next->row_stride == w->row_stride;
  alike = alike && next->side_stride == w->side_stride && next->side_dtype == w->side_dtype && next->group == w->group;
  p->n_next = IJ_MIN(n, next->rows - row);
  p->next_tokens = n_token;
  p->next = alike && p->n_next > 0 ? (const char *)next->data + row * next->row_stride : NULL;
  p->next_scales = next->scales ? (const char *)next->scales + row * next->side_stride : NULL;
  p->next_biases = next->biases ? (const char *)next->biases + row * next->side_stride : NULL;
}

void ij__product_rows(const ij_net *net, const ij_weight *w, const ij_product *p, int64_t r0, int64_t r1, int worker) {
  ij_matmul m = {.w = w->data, .w_stride = w->row_stride, .x = p->x, .ldx = p->ldx, .y = p->y, .ldy = p->ldy, .n = p->n, .k = w->cols};
  m.rows = p->rows;
  m.scales = w->scales;
  m.biases = w->biases;
  m.side_stride = w->side_stride;
  m.side_dtype = w->side_dtype;
  m.group = w->group;
  if (net->s.x_rooms) {
    m.x_room = &net->s.x_rooms[worker];
    m.loop = p->loop;
  }
  assert(!p->rows || p->n >= IJ_LISTED_MIN);
  if (p->ints && ij__dtype_in_integers(w->dtype)) {
    m.ints = p->ints;
    m.ld_ints = p->ld_ints;
    m.rows = p->int_rows;
  }
  if (p->next) {
    m.w_next = p->next;
    m.scales_next = p->next_scales;
    m.biases_next = p->next_biases;
    m.n_next = p->n_next;
    m.next_tokens = p->next_tokens;
  }
  net->kernels->matmul[w->dtype](&m, r0, r1, ij__worker_scratch(net, worker));
  if (!w->has_factor) return;
  for (int64_t t = 0; t < p->n; t++) {
    float *y = p->y + t * p->ldy + r0;
    net->kernels->scale(y, y, w->factor, r1 - r0);
  }
}

void ij__weight_row(const ij_net *net, float *y, const ij_weight *w, int64_t row) {
  const ij_kernels *k = net->kernels;
  ij_weight at = ij__weight_from(*w, row);
  if (ij__dtype_is_float(w->dtype)) {
    k->widen[w->dtype](y, at.data, w->cols);
  } else {
    ij_stretch s = {.row = at.data, .scales = at.scales, .biases = at.biases, .side_dtype = w->side_dtype, .group = w->group, .n = w->cols};
    k->decode[w->dtype](y, &s);
  }
  if (w->has_factor) k->scale(y, y, w->factor, w->cols);
}

typedef struct ints_ctx {
  const ij_kernels *kernels;
  ij_ints *ints;
  const float *x;
  int64_t ldx, k;
} ints_ctx;

static void ints_chunk(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  const ints_ctx *c = ctx;
  for (int64_t i = i0; i < i1; i++) c->kernels->to_ints(c->ints + i * ij__int_blocks(c->k), c->x + i * c->ldx, c->k);
}

const ij_ints *ij__ints_of(ij_net *net, const float *x, int64_t ldx, int64_t n, int64_t k, int64_t at) {
  if (!net->s.ints) return NULL;
  ints_ctx c = {.kernels = net->kernels, .ints = net->s.ints + at * ij__int_blocks(k), .x = x, .ldx = ldx, .k = k};
  if (n * ij__int_blocks(k) <= FEW_BLOCKS) {
    ints_chunk(&c, 0, 0, n);
  } else {
    ij__pool_run(net->pool, n, 8, ints_chunk, &c);
  }
  return c.ints;
}

typedef struct gemm_ctx {
  const ij_net *net;
  const ij_gemm *gemms;
  const ij_ints *ints;            /* the input of all of them, or NULL */
  int64_t rows;                   /* per index */
  int64_t first[IJ_MAX_GEMM + 1]; /* the first index of each product */
} gemm_ctx;

/* Rows [r0, r1) of one product. */
static void gemm_rows(const gemm_ctx *c, const ij_gemm *g, int64_t r0, int64_t r1, int worker) {
  ij_product product = {.x = g->x, .y = g->y, .ldx = g->ldx, .ldy = g->ldy, .n = g->n, .loop = c->net->loop};
  product.ints = c->ints;
  product.ld_ints = ij__int_blocks(g->w->cols);
  ij__product_announce(&product, g->w, g->w, ij__likely_next(c->net, r0, r1), r1 - r0, g->n);
  ij__product_rows(c->net, g->w, &product, r0, r1, worker);
  if (g->then) ij__sconv(c->net, g->then, r0, r1, worker);
}

static void gemm_chunks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const gemm_ctx *c = ctx;
  for (int g = 0; i0 < i1; g++) {
    int64_t first = c->first[g], end = IJ_MIN(i1, c->first[g + 1]);
    if (i0 >= end) continue;
    gemm_rows(c, &c->gemms[g], (i0 - first) * c->rows, IJ_MIN((end - first) * c->rows, c->gemms[g].w->rows), worker);
    i0 = end;
  }
}

void ij__gemm_run(ij_net *net, const ij_gemm *gemms, int n_gemm) {
  gemm_ctx c = {.net = net, .gemms = gemms};
  int64_t w_rows = 0, bytes = 0;
  bool in_integers = false;
  for (int g = 0; g < n_gemm; g++) {
    const ij_weight *w = gemms[g].w;
    assert(gemms[g].x == gemms[0].x && gemms[g].ldx == gemms[0].ldx && gemms[g].n == gemms[0].n && w->cols == gemms[0].w->cols);
    in_integers = in_integers || ij__dtype_in_integers(w->dtype);
    w_rows += w->rows;
    bytes = IJ_MAX(bytes, ij__dtype_row_bytes(w->dtype, w->cols));
  }
  if (in_integers) c.ints = ij__ints_of(net, gemms[0].x, gemms[0].ldx, gemms[0].n, gemms[0].w->cols, 0);
  ij_cut cut = ij__gemm_cut(net, w_rows, bytes, gemms[0].n, IJ_CHUNK_ROWS_MANY);
  c.rows = cut.rows;
  net->loop++;
  for (int g = 0; g < n_gemm; g++) c.first[g + 1] = c.first[g] + ij__div_up(gemms[g].w->rows, cut.rows);
  ij__pool_run(net->pool, c.first[n_gemm], cut.most, gemm_chunks, &c);
}
