/* ints_vec_avx512.h: registers of sixteen rows, for products in integers with VNNI: rows to lanes. */
#ifndef IJ_KERNELS_X86_INTS_VEC_AVX512_H
#define IJ_KERNELS_X86_INTS_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#include "kernels/x86/ints_lanes.h"

#define v_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* For the loop over a block or group by halves of 32 values: in one piece it is quicker by a tenth with GCC, and takes twice the time with clang. */
#if defined(__clang__)
#define UNROLL_HALVES _Pragma("clang loop unroll(disable)")
#else
#define UNROLL_HALVES UNROLL
#endif

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

/* out[i]: bytes 4 * i to 4 * i + 3 of the 32 from a byte on of each of sixteen rows. */
CODED void transpose_rows(__m512i out[8], const ints_lanes *l, int64_t byte) {
  __m512i a[4], b[4];
  UNROLL for (int i = 0; i < 4; i++) {
    a[i] = load_two(lane_row(l, i) + byte, lane_row(l, 4 + i) + byte);
    b[i] = load_two(lane_row(l, 8 + i) + byte, lane_row(l, 12 + i) + byte);
  }
  transpose_quarters(a);
  transpose_quarters(b);
  UNROLL for (int i = 0; i < 4; i++) {
    out[i] = _mm512_shuffle_i32x4(a[i], b[i], 0x88);
    out[4 + i] = _mm512_shuffle_i32x4(a[i], b[i], 0xdd);
  }
}

CODED __m128i load_short(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* 16 bytes from a byte on of the rows of lanes i, 4 + i, 8 + i and 12 + i. */
CODED __m512i load_four(const ints_lanes *l, int i, int64_t byte) {
  __m512i z = _mm512_castsi128_si512(load_short(lane_row(l, i) + byte));
  z = _mm512_inserti32x4(z, load_short(lane_row(l, 4 + i) + byte), 1);
  z = _mm512_inserti32x4(z, load_short(lane_row(l, 8 + i) + byte), 2);
  return _mm512_inserti32x4(z, load_short(lane_row(l, 12 + i) + byte), 3);
}

/* The first n pairs of those bytes, and zeros. Apart, because GCC keeps the mask where n says that it is not needed. */
CODED __m512i load_four_of(const ints_lanes *l, int i, int64_t byte, int64_t n) {
  const __mmask16 there = (__mmask16)((1u << 2 * n) - 1);
  __m512i z = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(there, lane_row(l, i) + byte));
  z = _mm512_inserti32x4(z, _mm_maskz_loadu_epi8(there, lane_row(l, 4 + i) + byte), 1);
  z = _mm512_inserti32x4(z, _mm_maskz_loadu_epi8(there, lane_row(l, 8 + i) + byte), 2);
  return _mm512_inserti32x4(z, _mm_maskz_loadu_epi8(there, lane_row(l, 12 + i) + byte), 3);
}

/* The lower 16 bits of each lane, of which the others are zero, twice. */
CODED __m512i twice(__m512i z) { return _mm512_or_si512(z, _mm512_slli_epi32(z, 16)); }

/* Byte i of each lane, for i from 0 to 3. */
CODED void spread_bytes(__m512i out[4], __m512i z) {
  const __m512i low = _mm512_set1_epi32(0xff);
  out[0] = _mm512_and_si512(z, low);
  out[1] = _mm512_and_si512(_mm512_srli_epi32(z, 8), low);
  out[2] = _mm512_and_si512(_mm512_srli_epi32(z, 16), low);
  out[3] = _mm512_srli_epi32(z, 24);
}

/* Four bytes in every lane. Read as one, since compilers make three instructions of what memcpy says. */
CODED __m512i four_of(const void *p) { return _mm512_set1_epi32(*(const int32_t *)p); }

#endif
