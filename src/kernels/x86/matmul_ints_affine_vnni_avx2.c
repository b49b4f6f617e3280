/* matmul_ints_affine_vnni_avx2.c: products in integers of AFFINE4 on processors of this level with AVX-VNNI. A lane holds one sum of 32 bits. */
#define WHOLE 1

#include "kernels/x86/ints_affine_avx2.h"

CODED __m256i add_fours(__m256i sum, __m256i codes, __m256i digits) { return _mm256_dpbusd_avx_epi32(sum, codes, digits); }

CODED void add_sums(__m256i a[2], const __m256i s[3]) {
  a[0] = _mm256_add_epi32(a[0], _mm256_add_epi32(_mm256_slli_epi32(s[1], 8), s[0]));
  a[1] = _mm256_add_epi32(a[1], s[2]);
}

#include "kernels/x86/ints_run.h"

void ij__ints_affine_vnni_fill_avx2(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
