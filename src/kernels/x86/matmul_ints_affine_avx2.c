/* matmul_ints_affine_avx2.c: products in integers of AFFINE4 on any processor of this level. A lane holds two sums of 16 bits, each of half of 32
 * values: 16 * 15 * 128 at most.
 */
#define WHOLE 0

#include "kernels/x86/ints_affine_avx2.h"

/* A sum is complete up to here: compilers would rather work out all products first, for which there are not enough registers. */
#define HERE(sum) __asm__("" : "+x"(sum))

CODED __m256i add_fours(__m256i sum, __m256i codes, __m256i digits) {
  sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, digits));
  HERE(sum);
  return sum;
}

CODED void add_sums(__m256i a[2], const __m256i s[3]) {
  const __m256i one = _mm256_set1_epi16(1), up8 = _mm256_set1_epi16(256);
  a[0] = _mm256_add_epi32(a[0], _mm256_add_epi32(_mm256_madd_epi16(s[1], up8), _mm256_madd_epi16(s[0], one)));
  a[1] = _mm256_add_epi32(a[1], _mm256_madd_epi16(s[2], one));
}

#include "kernels/x86/ints_run.h"

void ij__ints_affine_fill_avx2(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
