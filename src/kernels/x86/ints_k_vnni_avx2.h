/* ints_k_vnni_avx2.h: ints_k_avx2.h for processors of this level with AVX-VNNI. A lane holds one sum of 32 bits, of which the last 16 say all
 * as long as it is of sixteen values.
 */
#ifndef IJ_KERNELS_X86_INTS_K_VNNI_AVX2_H
#define IJ_KERNELS_X86_INTS_K_VNNI_AVX2_H

#define SUMMED 4 /* products of four codes that a lane sums before the scale comes */

#include "kernels/x86/ints_k_avx2.h"

CODED __m256i add_fours(__m256i sum, __m256i codes, __m256i digits) { return _mm256_dpbusd_avx_epi32(sum, codes, digits); }

CODED __m256i add_pairs(__m256i sum, __m256i a, __m256i b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }

/* Before a zero. */
CODED void scale_pairs(__m256i out[4], __m256i z) { spread_bytes(out, z); }

#include "kernels/x86/ints_run.h"

#endif
