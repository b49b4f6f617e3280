/* fused_streams.h: what the products of one token and coded rows share at both levels: four streams of rows, and what they fetch ahead.
 *
 * Included after matmul_fold.h. The four rows that advance together are one of each quarter of the rows of a call, so that memory is read
 * in four long streams, far apart: the processor's own prefetcher follows one stream in a page.
 */
#ifndef IJ_KERNELS_X86_FUSED_STREAMS_H
#define IJ_KERNELS_X86_FUSED_STREAMS_H

#include "kernels/kernels_int.h"
#include "kernels/x86/coded_consts.h"

#define SIDE_AHEAD 2 /* rows of each stream whose scales and biases are fetched before they are needed */
#define FUSED_AHEAD 4096 /* values between those in use and those fetched, in each of the four streams: at least a row, and whole rows */

/* The row to fetch while another is multiplied, the same number of rows further on in its stream. After the last come the caller's
 * next. */
typedef struct ahead_row {
  const uint8_t *row;
  int64_t left; /* rows of the stream from this one on */
  const uint8_t *next;
  int64_t n_next;
} ahead_row;

static inline void ahead_step(ahead_row *a, int64_t stride) {
  if (--a->left > 0) {
    a->row += stride;
  } else if (a->n_next > 0) {
    a->row = a->next;
    a->left = a->n_next;
    a->n_next = 0;
  } else {
    a->left = 1; /* nothing more: the last row again and again */
  }
}

/* The next n bytes of a row ahead, or a few of those behind it, to the second-level cache: the first holds x. */
CODED void fetch(const uint8_t **p, const int64_t n) {
#pragma GCC unroll 32
  for (int64_t b = 0; b < n; b += 64) v_prefetch2(*p + b);
  *p += n;
}

/* What stays the same for all rows of a call. */
typedef struct fused_ctx {
  const ij_matmul *m;
  const float *x;
  int64_t r1, quarter; /* rows of a quarter; those from r1 on are not there, and the last is taken instead */
  ahead_row ahead[MR];
} fused_ctx;

/* Scales and biases of row r and those of the other quarters. */
static void fetch_side(const fused_ctx *f, int64_t r, ij_dtype type) {
  const ij_matmul *m = f->m;
  const int64_t size = ij__dtype_is_affine(type) ? ij__dtype_block_bytes(m->side_dtype) : 1, bytes = m->k / m->group * size;
  for (int64_t i = 0; i < MR; i++) {
    const int64_t at = IJ_MIN(r + i * f->quarter, f->r1 - 1) * m->side_stride;
    for (int64_t b = 0; b < bytes + 63; b += 64) {
      v_prefetch((const char *)m->scales + at + b);
      if (m->biases) v_prefetch((const char *)m->biases + at + b);
    }
  }
}

/* Where the products of the rows and those that follow fetch their weights; the first rows are fetched now. Of products by several
 * tokens, which take rows in their order, the streams share the first V. */
CODED void fused_start(fused_ctx *f, int64_t r0, int64_t row_bytes) {
  const ij_matmul *m = f->m;
  const int64_t n_next = m->w_next ? m->n_next : 0, n_ahead = IJ_MAX(1, FUSED_AHEAD / m->k);
  const int64_t next_quarter = m->next_tokens > 1 ? BATCH_GROUPS : ij__div_up(n_next, MR);
  for (int64_t i = 0; i < MR; i++) {
    const int64_t first = IJ_MIN(r0 + i * f->quarter, f->r1 - 1);
    ahead_row *a = &f->ahead[i];
    *a = (ahead_row){.row = (const uint8_t *)m->w + first * m->w_stride, .left = IJ_MIN(f->quarter, f->r1 - first)};
    if (i * next_quarter < n_next) {
      a->next = (const uint8_t *)m->w_next + i * next_quarter * m->w_stride;
      a->n_next = IJ_MIN(next_quarter, n_next - i * next_quarter);
    }
    for (int64_t j = 0; j < n_ahead; j++) {
      for (int64_t b = 0; b < row_bytes; b += 64) v_prefetch(a->row + b);
      ahead_step(a, m->w_stride);
    }
  }
}

/* The first n outputs from sums of rows [row of a quarter][quarter]. */
static void fused_store(const fused_ctx *f, int64_t r, const float *sums, int64_t n) {
  float out[V];
  store_batch(out, V, sums, 1, V);
  for (int64_t q = 0; q < MR; q++) {
    for (int64_t i = 0; i < n && r + i + q * f->quarter < f->r1; i++) f->m->y[r + i + q * f->quarter] = out[i * MR + q];
  }
}

#endif
