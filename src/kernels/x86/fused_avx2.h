/* fused_avx2.h: the orders of lanes (ij_order): x laid out in them, and sums put back. Included after matmul_fold.h. */
#ifndef IJ_KERNELS_X86_FUSED_AVX2_H
#define IJ_KERNELS_X86_FUSED_AVX2_H

#include "kernels/x86/coded_avx2.h"

/* Sixteen values of x as the lanes want them. */
static inline void order_step(float *out, const float *x, ij_order order) {
  if (order == IJ_ORDER_PLAIN) {
    v_store(out, v_load(x));
    v_store(out + 8, v_load(x + 8));
    return;
  }
  const __m256i apart = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  __m256 a = _mm256_permutevar8x32_ps(v_load(x), apart), b = _mm256_permutevar8x32_ps(v_load(x + 8), apart);
  __m256 even = _mm256_permute2f128_ps(a, b, 0x20), odd = _mm256_permute2f128_ps(a, b, 0x31);
  if (order == IJ_ORDER_QUADS) {
    a = _mm256_permutevar8x32_ps(even, apart); /* 0 4 8 12 2 6 10 14 */
    b = _mm256_permutevar8x32_ps(odd, apart);
    even = _mm256_permute2f128_ps(a, b, 0x20);
    odd = _mm256_permute2f128_ps(a, b, 0x31);
  }
  v_store(out, even);
  v_store(out + 8, odd);
}

/* x, the tokens of a step side by side: [step of 16 values][token][16]. */
static inline const float *x_in_steps(const ij_matmul *m, float *scratch, ij_order order) {
  bool made;
  float *out = ij__x_place(m, IJ_X_AVX2 + (int)order, scratch, &made);
  for (int64_t t = 0; t < m->n && !made; t++) {
    for (int64_t k = 0; k < m->k; k += 16) order_step(out + k * m->n + t * 16, m->x + t * m->ldx + k, order);
  }
  return out;
}

/* Sums back in the order of values. */
INLINE void plain_order(vec c[PASSES], const ij_order order) {
  if (order == IJ_ORDER_PLAIN) return;
  vec low = _mm256_unpacklo_ps(c[0], c[1]), high = _mm256_unpackhi_ps(c[0], c[1]);
  if (order == IJ_ORDER_APART) {
    c[0] = _mm256_permute2f128_ps(low, high, 0x20);
    c[1] = _mm256_permute2f128_ps(low, high, 0x31);
  } else {
    c[0] = v_row_order(low);
    c[1] = v_row_order(high);
  }
}

/* The first half of the fold of V rows, from sums of sixteen lanes that lie `stride` floats apart. */
INLINE void fold_batch(float sums[BATCH], const float *rows, int64_t stride, const ij_order order) {
  UNROLL for (int g = 0; g < BATCH_GROUPS; g++) {
    vec c[MR][PASSES];
    UNROLL for (int i = 0; i < MR; i++) {
      UNROLL for (int p = 0; p < PASSES; p++) c[i][p] = v_load(rows + (g * MR + i) * stride + p * V);
      plain_order(c[i], order);
    }
    store_sums(sums + g * 16, 0, MR, c);
  }
}

#endif
