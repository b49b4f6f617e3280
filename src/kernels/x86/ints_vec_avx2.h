/* ints_vec_avx2.h: registers of eight rows, for products in integers at the AVX2 level: rows to lanes. */
#ifndef IJ_KERNELS_X86_INTS_VEC_AVX2_H
#define IJ_KERNELS_X86_INTS_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#include "kernels/x86/ints_lanes.h"

#define v_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

static inline __m256i load_ints(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

CODED __m256i load_two(const uint8_t *low, const uint8_t *high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low)),
                                 _mm_loadu_si128((const __m128i *)(const void *)high), 1);
}

/* 4 x 4 values of 32 bits, transposed in each half. */
CODED void transpose_halves(__m256i out[4], const __m256i z[4]) {
  const __m256i a = _mm256_unpacklo_epi32(z[0], z[1]), b = _mm256_unpackhi_epi32(z[0], z[1]);
  const __m256i c = _mm256_unpacklo_epi32(z[2], z[3]), d = _mm256_unpackhi_epi32(z[2], z[3]);
  out[0] = _mm256_unpacklo_epi64(a, c);
  out[1] = _mm256_unpackhi_epi64(a, c);
  out[2] = _mm256_unpacklo_epi64(b, d);
  out[3] = _mm256_unpackhi_epi64(b, d);
}

/* 16 bytes from a byte on of the rows of lanes i and 4 + i. */
CODED __m256i load_rows(const ints_lanes *l, int i, int64_t byte) { return load_two(lane_row(l, i) + byte, lane_row(l, 4 + i) + byte); }

/* out[i]: bytes 4 * i to 4 * i + 3 of those 16 of each of eight rows. */
CODED void transpose_rows(__m256i out[4], const ints_lanes *l, int64_t byte) {
  __m256i z[4];
  UNROLL for (int i = 0; i < 4; i++) z[i] = load_rows(l, i, byte);
  transpose_halves(out, z);
}

/* Byte i of each lane, for i from 0 to 3. */
CODED void spread_bytes(__m256i out[4], __m256i z) {
  const __m256i low = _mm256_set1_epi32(0xff);
  out[0] = _mm256_and_si256(z, low);
  out[1] = _mm256_and_si256(_mm256_srli_epi32(z, 8), low);
  out[2] = _mm256_and_si256(_mm256_srli_epi32(z, 16), low);
  out[3] = _mm256_srli_epi32(z, 24);
}

/* Four bytes in every lane. Read as one, since compilers make three instructions of what memcpy says. */
CODED __m256i four_of(const void *p) { return _mm256_set1_epi32(*(const int32_t *)p); }

#endif
