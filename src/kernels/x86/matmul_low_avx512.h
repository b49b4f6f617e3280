/* matmul_low_avx512.h: one token times Q3_K, IQ3 and TQ2_0: as matmul_fused_avx512.h, a block of 256 values a row at a time.
 *
 * Included by matmul_avx512.c after matmul_tile.h. IQ1 and IQ2 have matmul_books_avx512.c, IQ3 where the processor has VBMI has
 * matmul_iq3_vbmi_avx512.c.
 */
#ifndef IJ_KERNELS_X86_MATMUL_LOW_AVX512_H
#define IJ_KERNELS_X86_MATMUL_LOW_AVX512_H

#include "kernels/x86/low_avx512.h"

/* Rows r to r + 3, of which those after r_last repeat it. They take turns by half blocks: each has one chain of multiply-adds, and the
 * processor sees no further than about two hundred operations. */
CODED void low_group(const ij_matmul *m, int64_t r, int64_t r_last, const lookahead *ahead, float *sums, const ij_dtype type) {
  const int64_t bytes = coded_bytes(type), row_bytes = m->k / 256 * bytes;
  const uint8_t *row[MR];
  vec c[MR][PASSES];
  UNROLL for (int i = 0; i < MR; i++) {
    row[i] = (const uint8_t *)m->w + IJ_MIN(r + i, r_last) * m->w_stride;
    c[i][0] = v_zero();
  }
  const float *x = m->x;
  for (int64_t b = 0; b < row_bytes; b += bytes, x += 256) {
    low_ahead a[MR];
    UNROLL for (int i = 0; i < MR; i++) {
      coded_prefetch((const char *)row[i], b, b + bytes, row_bytes, ahead);
      low_work_ahead(&a[i], row[i] + b, type);
    }
    UNROLL for (int half = 0; half < 2; half++) {
      UNROLL for (int i = 0; i < MR; i++) {
        sink s = {.x = x, .sum = c[i][0], .fused = true};
        low_half(&s, &a[i], row[i] + b, half, type);
        c[i][0] = s.sum;
      }
    }
  }
  store_sums(sums, 0, MR, c);
}

CODED void low_rows(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type) {
  if (m->n != 1) {
    matmul_coded(m, r0, r1, scratch, type);
  } else {
    one_token_rows(m, r0, r1, m->k / 256 * coded_bytes(type), low_group, type);
  }
}

#define MATMUL_LOW(name, id) \
  static void matmul_low_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { low_rows(m, r0, r1, scratch, IJ_DTYPE_##id); }
LOW_OTHERS(MATMUL_LOW)

static void low_fill(ij_kernels *k) {
#define SET_LOW(name, id) k->matmul[IJ_DTYPE_##id] = matmul_low_##id;
  LOW_OTHERS(SET_LOW)
#undef SET_LOW
}

#endif
