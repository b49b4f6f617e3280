/* matmul_ints_avx2.c: products of Q4_K in integers on any processor of this level, and x made into integers. */
#define K_BITS 4
#include "kernels/x86/ints_k_plain_avx2.h"

/* ---- x as integers ---- */

/* 32 values as 32-bit integers, each rounded to nearest even. */
CODED void round_group(__m256i v[4], const float *x, __m256 inverse) {
  UNROLL for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
}

/* The low digit of each, as 32 bits; v becomes what is left. */
CODED __m256i take_digit(__m256i *v) {
  const __m256i half = _mm256_set1_epi32(128), mask = _mm256_set1_epi32(255);
  const __m256i digit = _mm256_sub_epi32(_mm256_and_si256(_mm256_add_epi32(*v, half), mask), half);
  *v = _mm256_srai_epi32(_mm256_sub_epi32(*v, digit), 8);
  return digit;
}

CODED void store_digits(int8_t *to, const __m256i v[4]) {
  const __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permutevar8x32_epi32(words, order));
}

CODED int32_t sum_lanes(__m256i v) {
  __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  a = _mm_add_epi32(a, _mm_shuffle_epi32(a, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, _MM_SHUFFLE(2, 3, 0, 1))));
}

/* Bits of the largest magnitude: as integers they are ordered like what they stand for, infinities and NaN last. */
CODED uint32_t largest_bits(const float *x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i most = _mm256_setzero_si256();
  for (int i = 0; i < IJ_INTS; i += 8) most = _mm256_max_epi32(most, _mm256_and_si256(load_ints(x + i), magnitude));
  __m128i a = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  a = _mm_max_epi32(a, _mm_shuffle_epi32(a, _MM_SHUFFLE(1, 0, 3, 2)));
  return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(a, _mm_shuffle_epi32(a, _MM_SHUFFLE(2, 3, 0, 1))));
}

static void block_to_ints(ij_ints *b, const float *x) {
  float inverse;
  if (!ij__ints_scale(b, largest_bits(x), &inverse)) return;
  for (int g = 0; g < 8; g++) {
    __m256i v[4], digits[4];
    round_group(v, x + 32 * g, _mm256_set1_ps(inverse));
    ij__ints_sums(b, g, sum_lanes(_mm256_add_epi32(v[0], v[1])), sum_lanes(_mm256_add_epi32(v[2], v[3])));
    for (int j = 0; j < 2; j++) {
      UNROLL for (int i = 0; i < 4; i++) digits[i] = take_digit(&v[i]);
      store_digits(b->digit[j] + 32 * g, digits);
    }
    store_digits(b->digit[2] + 32 * g, v);
  }
}

void ij__to_ints_avx2(ij_ints *out, const float *x, int64_t k) { ij__ints_row(out, x, k, block_to_ints); }

void ij__ints_fill_avx2(ij_kernels *k) {
  k->to_ints = ij__to_ints_avx2;
  k->matmul[TYPE] = matmul_in_integers;
}
