/* ints_q2_k_avx512.h: the heads of sixteen blocks of Q2_K in the lanes of registers; for products in integers with VNNI.
 *
 * The definition is ref/ints_ref.c.
 */
#ifndef IJ_KERNELS_X86_INTS_Q2_K_AVX512_H
#define IJ_KERNELS_X86_INTS_Q2_K_AVX512_H

#include "kernels/ints_k.h"
#include "kernels/x86/ints_vec_avx512.h"

/* What sixteen values of sixteen blocks of Q2_K, one of each row, have in common. */
typedef struct heads {
  __m512i scale[SCALES];    /* as pairs of 16 bits: scale, 0 */
  __m512 d, offset[SCALES]; /* offset: times dmin */
} heads;

/* Of blocks that begin at a byte: 16 bytes of a scale and an offset each, of four bits; and behind the codes d and dmin. */
CODED void read_heads(heads *h, const ints_lanes *l, int64_t byte) {
  const __m512i low4 = _mm512_set1_epi8(0x0f);
  __m512i z[4], last[4], offset[SCALES];
  UNROLL for (int i = 0; i < 4; i++) {
    z[i] = load_four(l, i, byte);
    last[i] = load_four(l, i, byte + 68);
  }
  transpose_quarters(z);
  transpose_quarters(last);
  h->d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(last[3]));
  const __m512 dmin = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(last[3], 16)));
  UNROLL for (int i = 0; i < 4; i++) {
    spread_bytes(h->scale + 4 * i, _mm512_and_si512(z[i], low4));
    spread_bytes(offset + 4 * i, _mm512_and_si512(_mm512_srli_epi32(z[i], 4), low4));
  }
  UNROLL for (int i = 0; i < SCALES; i++) h->offset[i] = _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(offset[i]));
}

#endif
