/* gemm.c: groups of matrix products, cut into chunks of rows for the pool. The cut is free to follow the machine: a chunk never
 * splits the reduced dimension, so no result depends on it.
 */
#include "model/gemm.h"

#define CHUNK_BYTES (512 * 1024) /* of weights per chunk when few rows share them: prefetching stays inside a chunk, so it should be long */
#define CHUNK_BATCH 16           /* a multiple of which those of several rows should be: they fold so many sums at a time */
#define MANY_ROWS 16             /* from here on products are bound by arithmetic and want taller panels */

int64_t ij__gemm_chunk_rows(const ij_net *net, int64_t w_rows, int64_t row_bytes, int64_t n, int64_t n_matrices, int64_t many) {
  int64_t bytes = n > 1 ? 2 * CHUNK_BYTES : CHUNK_BYTES, rows = row_bytes > 0 ? bytes / row_bytes : IJ_CHUNK_ROWS_MAX;
  rows = n >= MANY_ROWS ? many : IJ_MIN(rows, (int64_t)IJ_CHUNK_ROWS_MAX);
  int64_t want = 4 * (int64_t)ij__pool_threads(net->pool);
  while (rows > 8 && ij__div_up(w_rows, rows) * n_matrices < want) rows /= 2;
  if (n > 1 && rows > CHUNK_BATCH) rows -= rows % CHUNK_BATCH;
  return IJ_MAX(rows, (int64_t)1);
}

void ij__product_rows(const ij_net *net, const ij_weight *w, const ij_product *p, int64_t r0, int64_t r1, int worker) {
  ij_matmul m = {.w = w->data, .w_stride = w->row_stride, .x = p->x, .ldx = p->ldx, .y = p->y, .ldy = p->ldy, .n = p->n, .k = w->cols};
  m.scales = w->scales;
  m.biases = w->biases;
  m.side_stride = w->side_stride;
  m.side_dtype = w->side_dtype;
  m.group = w->group;
  if (p->next) {
    m.w_next = p->next->data;
    m.n_next = p->n_next;
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

typedef struct gemm_ctx {
  const ij_net *net;
  const ij_gemm *gemms;
  int n_gemm;
  int64_t chunk_rows[IJ_MAX_GEMM];
  int64_t first[IJ_MAX_GEMM + 1]; /* number of the first chunk of each product */
} gemm_ctx;

static void gemm_chunks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const gemm_ctx *c = ctx;
  for (int64_t i = i0; i < i1; i++) {
    int g = 0;
    while (i >= c->first[g + 1]) g++;
    const ij_gemm *p = &c->gemms[g];
    ij_product product = {.x = p->x, .y = p->y, .ldx = p->ldx, .ldy = p->ldy, .n = p->n};
    ij_weight ahead;
    int64_t r0 = (i - c->first[g]) * c->chunk_rows[g];
    int64_t next = r0 + ij__pool_threads(c->net->pool) * c->chunk_rows[g]; /* most likely this worker's next chunk */
    if (next < p->w->rows) {
      ahead = ij__weight_from(*p->w, next);
      product.next = &ahead;
      product.n_next = IJ_MIN(c->chunk_rows[g], p->w->rows - next);
    }
    ij__product_rows(c->net, p->w, &product, r0, IJ_MIN(r0 + c->chunk_rows[g], p->w->rows), worker);
  }
}

void ij__gemm_run(ij_net *net, const ij_gemm *gemms, int n_gemm) {
  gemm_ctx c = {.net = net, .gemms = gemms, .n_gemm = n_gemm};
  for (int g = 0; g < n_gemm; g++) {
    const ij_weight *w = gemms[g].w;
    c.chunk_rows[g] = ij__gemm_chunk_rows(net, w->rows, ij__dtype_row_bytes(w->dtype, w->cols), gemms[g].n, n_gemm, IJ_CHUNK_ROWS_MANY);
    c.first[g + 1] = c.first[g] + ij__div_up(w->rows, c.chunk_rows[g]);
  }
  ij__pool_run(net->pool, c.first[n_gemm], 1, gemm_chunks, &c);
}
