/* ints_q2_k_avx512.h: sixteen blocks of Q2_K in the lanes of registers; for products in integers with VNNI.
 *
 * Codes are masked where they lie in every second pair of bits, which saves every second shift: every second group of 32 values has codes that are
 * four times too large, and the others have scales that are. So all sums are four times what they should be, which costs no bit.
 *
 * The definition is ref/ints_ref.c.
 */
#ifndef IJ_KERNELS_X86_INTS_Q2_K_AVX512_H
#define IJ_KERNELS_X86_INTS_Q2_K_AVX512_H

#include "kernels/ints_k.h"
#include "kernels/x86/ints_vec_avx512.h"

/* What sixteen values of sixteen blocks of Q2_K, one of each row, have in common. */
typedef struct heads {
  __m512i scale[SCALES];    /* as pairs of 16 bits: scale, or four times that, and 0 */
  __m512 d, dmin, offset[SCALES];
} heads;

/* Four scales and offsets, which are the nibbles of z's bytes. The permutation looks at four bits of a lane and gives them as a float. */
CODED void read_pairs(__m512i scale[4], __m512 offset[4], __m512i z) {
  const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i low4 = _mm512_set1_epi32(0x0f), four_times = _mm512_set1_epi32(0x3c);
  scale[0] = _mm512_and_si512(_mm512_slli_epi32(z, 2), four_times);
  scale[1] = _mm512_and_si512(_mm512_srli_epi32(z, 6), four_times);
  scale[2] = _mm512_and_si512(_mm512_srli_epi32(z, 16), low4);
  scale[3] = _mm512_and_si512(_mm512_srli_epi32(z, 24), low4);
  UNROLL for (int i = 0; i < 4; i++) offset[i] = _mm512_permutexvar_ps(_mm512_srli_epi32(z, 8 * i + 4), numbers);
}

/* Of blocks that begin at a byte: 16 bytes of a scale and an offset each, of four bits; and behind the codes d and dmin. */
CODED void read_heads(heads *h, const ints_lanes *l, int64_t byte) {
  __m512i z[4], last[4];
  UNROLL for (int i = 0; i < 4; i++) {
    z[i] = load_four(l, i, byte);
    last[i] = load_four(l, i, byte + 68);
  }
  transpose_quarters(z);
  transpose_quarters(last);
  h->d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(last[3]));
  h->dmin = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(last[3], 16)));
  UNROLL for (int i = 0; i < 4; i++) read_pairs(h->scale + 4 * i, h->offset + 4 * i, z[i]);
}

/* y without the offsets of a block times x. */
CODED __m512 take_offsets(__m512 y, const heads *h, const ij_ints *x) {
  __m512 n = _mm512_setzero_ps();
  UNROLL for (int i = 0; i < SCALES; i++) n = _mm512_fmadd_ps(h->offset[i], _mm512_set1_ps(x->half[i]), n);
  return _mm512_fnmadd_ps(h->dmin, n, y);
}

/* Codes of the s-th of the four groups that lie together. */
CODED __m512i codes_of(__m512i bytes, const int s) {
  return _mm512_and_si512(s < 2 ? bytes : _mm512_srli_epi32(bytes, 4), _mm512_set1_epi8(s % 2 ? 0x0c : 0x03));
}

#endif
