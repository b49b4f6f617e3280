/* matmul_few_k_avx2.c: few_avx2.h for blocks of 256 values without codebooks. */
#include "kernels/x86/few_avx2.h"

#define FEW_LIST(X) X(Q3_K) X(Q5_K) X(Q6_K) X(TQ1_0) X(TQ2_0)

FEW_FILL(ij__matmul_few_k_fill_avx2, FEW_LIST)
