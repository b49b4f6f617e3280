/* ints_q4_k_avx512.h: the heads of sixteen blocks of Q4_K in the lanes of registers; for products in integers with VNNI and with AMX.
 *
 * The definition is ref/ints_ref.c.
 */
#ifndef IJ_KERNELS_X86_INTS_Q4_K_AVX512_H
#define IJ_KERNELS_X86_INTS_Q4_K_AVX512_H

#include "kernels/ints_k.h"
#include "kernels/x86/ints_vec_avx512.h"

/* What the groups of sixteen blocks of Q4_K, one of each row, have in common. */
typedef struct heads {
  __m512i scale[SCALES];    /* as pairs of 16 bits: scale of the group, 0 */
  __m512 d, offset[SCALES]; /* offset: times dmin */
} heads;

/* The first 16 bytes of blocks, which begin at a byte: d, dmin, and scales and offsets of six bits (ij__fmt_q4_k_scale). */
CODED void read_heads(heads *h, const ints_lanes *l, int64_t byte) {
  const __m512i low6 = _mm512_set1_epi8(0x3f), low4 = _mm512_set1_epi8(0x0f), two = _mm512_set1_epi8(0x30);
  __m512i z[4];
  UNROLL for (int i = 0; i < 4; i++) z[i] = load_four(l, i, byte);
  transpose_quarters(z);
  h->d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(z[0]));
  spread_bytes(h->scale, _mm512_and_si512(z[1], low6));
  spread_bytes(h->scale + 4, _mm512_or_si512(_mm512_and_si512(z[3], low4), _mm512_and_si512(_mm512_srli_epi32(z[1], 2), two)));
  const __m512 dmin = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(z[0], 16)));
  __m512i offset[8];
  spread_bytes(offset, _mm512_and_si512(z[2], low6));
  spread_bytes(offset + 4, _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(z[3], 4), low4), _mm512_and_si512(_mm512_srli_epi32(z[2], 2), two)));
  UNROLL for (int g = 0; g < 8; g++) h->offset[g] = _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(offset[g]));
}

/* y without the offsets of a block times x. */
CODED __m512 take_offsets(__m512 y, const heads *h, const ij_ints *x) {
  UNROLL for (int g = 0; g < 8; g++) y = _mm512_fnmadd_ps(h->offset[g], _mm512_set1_ps(x->sum[g]), y);
  return y;
}

/* Codes of the first or second of the two groups that lie together. */
CODED __m512i codes_of(__m512i bytes, const int s) {
  return _mm512_and_si512(s == 0 ? bytes : _mm512_srli_epi32(bytes, 4), _mm512_set1_epi8(0x0f));
}

#endif
