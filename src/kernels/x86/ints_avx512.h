/* ints_avx512.h: sixteen rows of Q4_K in the lanes of registers; shared by the products in integers of processors with VNNI and with AMX.
 *
 * The definition is ref/ints_ref.c.
 */
#ifndef IJ_KERNELS_X86_INTS_AVX512_H
#define IJ_KERNELS_X86_INTS_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define v_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#include "kernels/ints.h"
#include "kernels/x86/coded_consts.h"

/* What the groups of sixteen blocks of Q4_K, one of each row, have in common. */
typedef struct heads {
  __m512i scale[8];  /* as pairs of 16 bits: scale of the group, 0 */
  __m512 d, offset[8]; /* offset: times dmin */
} heads;

CODED __m512i load_two(const uint8_t *low, const uint8_t *high) {
  return _mm512_inserti32x8(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)low)),
                            _mm256_loadu_si256((const __m256i *)(const void *)high), 1);
}

/* 4 x 4 values of 32 bits, transposed in each quarter. */
CODED void transpose_quarters(__m512i z[4]) {
  const __m512i a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]);
  const __m512i c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
  z[0] = _mm512_unpacklo_epi64(a, c);
  z[1] = _mm512_unpackhi_epi64(a, c);
  z[2] = _mm512_unpacklo_epi64(b, d);
  z[3] = _mm512_unpackhi_epi64(b, d);
}

/* out[i]: bytes 4 * i to 4 * i + 3 of the 32 at p of each of sixteen rows. */
CODED void transpose_rows(__m512i out[8], const uint8_t *p, int64_t pitch) {
  __m512i a[4], b[4];
  UNROLL for (int i = 0; i < 4; i++) {
    a[i] = load_two(p + i * pitch, p + (4 + i) * pitch);
    b[i] = load_two(p + (8 + i) * pitch, p + (12 + i) * pitch);
  }
  transpose_quarters(a);
  transpose_quarters(b);
  UNROLL for (int i = 0; i < 4; i++) {
    out[i] = _mm512_shuffle_i32x4(a[i], b[i], 0x88);
    out[4 + i] = _mm512_shuffle_i32x4(a[i], b[i], 0xdd);
  }
}

/* 16 bytes at p of rows 0, 4, 8 and 12. */
CODED __m512i load_four(const uint8_t *p, int64_t pitch) {
  __m512i z = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)p));
  z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(const void *)(p + 4 * pitch)), 1);
  z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(const void *)(p + 8 * pitch)), 2);
  return _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(const void *)(p + 12 * pitch)), 3);
}

/* Byte i of each lane, for i from 0 to 3. */
CODED void spread_bytes(__m512i out[4], __m512i z) {
  const __m512i low = _mm512_set1_epi32(0xff);
  out[0] = _mm512_and_si512(z, low);
  out[1] = _mm512_and_si512(_mm512_srli_epi32(z, 8), low);
  out[2] = _mm512_and_si512(_mm512_srli_epi32(z, 16), low);
  out[3] = _mm512_srli_epi32(z, 24);
}

/* The first 16 bytes of blocks: d, dmin, and scales and offsets of six bits (ij__fmt_q4_k_scale). */
CODED void read_heads(heads *h, const uint8_t *p, int64_t pitch) {
  const __m512i low6 = _mm512_set1_epi8(0x3f), low4 = _mm512_set1_epi8(0x0f), two = _mm512_set1_epi8(0x30);
  __m512i z[4];
  UNROLL for (int i = 0; i < 4; i++) z[i] = load_four(p + i * pitch, pitch);
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

#endif
