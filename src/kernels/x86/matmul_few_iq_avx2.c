/* matmul_few_iq_avx2.c: few_avx2.h for blocks of 256 values with codebooks. */
#include "kernels/x86/few_avx2.h"

#define FEW_LIST(X) X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ4_XS)

FEW_FILL(ij__matmul_few_iq_fill_avx2, FEW_LIST)
