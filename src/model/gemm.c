/* gemm.c: groups of matrix products, cut into chunks of rows for the pool. The cut is free to follow the machine: a chunk never
 * splits the reduced dimension, so no result depends on it.
 */
#include "model/gemm.h"

#define CHUNK_BYTES (512 * 1024) /* of weights per chunk when few rows share them: prefetching stays inside a chunk, so it should be long */
#define MANY_ROWS 16             /* from here on products are bound by arithmetic and want taller panels */

int64_t ij__gemm_chunk_rows(const ij_net *net, int64_t w_rows, int64_t row_bytes, int64_t n, int64_t n_matrices, int64_t many) {
  int64_t rows = row_bytes > 0 ? CHUNK_BYTES / row_bytes : IJ_CHUNK_ROWS_MAX;
  rows = n >= MANY_ROWS ? many : IJ_MIN(rows, (int64_t)IJ_CHUNK_ROWS_MAX);
  int64_t want = 4 * (int64_t)ij__pool_threads(net->pool);
  while (rows > 8 && ij__div_up(w_rows, rows) * n_matrices < want) rows /= 2;
  return IJ_MAX(rows, (int64_t)1);
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
  float *scratch = ij__worker_scratch(c->net, worker);
  for (int64_t i = i0; i < i1; i++) {
    int g = 0;
    while (i >= c->first[g + 1]) g++;
    const ij_gemm *p = &c->gemms[g];
    ij_matmul m = {.w = p->w->data, .w_stride = p->w->row_stride, .x = p->x, .ldx = p->ldx, .y = p->y, .ldy = p->ldy, .n = p->n, .k = p->w->cols};
    int64_t r0 = (i - c->first[g]) * c->chunk_rows[g];
    int64_t next = r0 + ij__pool_threads(c->net->pool) * c->chunk_rows[g]; /* most likely this worker's next chunk */
    if (next < p->w->rows) {
      m.w_next = (const char *)p->w->data + next * p->w->row_stride;
      m.n_next = IJ_MIN(c->chunk_rows[g], p->w->rows - next);
    }
    c->net->kernels->matmul[p->w->dtype](&m, r0, IJ_MIN(r0 + c->chunk_rows[g], p->w->rows), scratch);
  }
}

void ij__gemm_run(ij_net *net, const ij_gemm *gemms, int n_gemm) {
  gemm_ctx c = {.net = net, .gemms = gemms, .n_gemm = n_gemm};
  for (int g = 0; g < n_gemm; g++) {
    const ij_weight *w = gemms[g].w;
    c.chunk_rows[g] = ij__gemm_chunk_rows(net, w->rows, w->cols * ij__dtype_block_bytes(w->dtype), gemms[g].n, n_gemm, IJ_CHUNK_ROWS_MANY);
    c.first[g + 1] = c.first[g] + ij__div_up(w->rows, c.chunk_rows[g]);
  }
  ij__pool_run(net->pool, c.first[n_gemm], 1, gemm_chunks, &c);
}
