/* ints_k_plain_avx2.h: ints_k_avx2.h for any processor of this level. A lane holds two sums of 16 bits, each of half of what a scale is for. */
#ifndef IJ_KERNELS_X86_INTS_K_PLAIN_AVX2_H
#define IJ_KERNELS_X86_INTS_K_PLAIN_AVX2_H

#define SUMMED (K_BITS == 2 ? 4 : 8) /* products of four codes that a lane sums before the scale comes: all that it is for */

#include "kernels/x86/ints_k_avx2.h"

/* A sum is complete up to here: compilers would rather work out all products first, for which there are not enough registers. */
#define HERE(sum) __asm__("" : "+x"(sum))

CODED __m256i add_fours(__m256i sum, __m256i codes, __m256i digits) {
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, digits));
  HERE(sum);
  return sum;
}

CODED __m256i add_pairs(__m256i sum, __m256i a, __m256i b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }

/* Twice. */
CODED void scale_pairs(__m256i out[4], __m256i z) {
  const __m256i first = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 0, -1, 4, -1, 4, -1, 8, -1, 8, -1, 12, -1, 12, -1));
  UNROLL for (int i = 0; i < 4; i++) out[i] = _mm256_shuffle_epi8(z, _mm256_add_epi8(first, _mm256_set1_epi16((int16_t)i)));
}

#include "kernels/x86/ints_run.h"

#endif
