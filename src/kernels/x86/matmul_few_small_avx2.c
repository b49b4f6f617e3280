/* matmul_few_small_avx2.c: few_avx2.h for smaller blocks and groups. */
#include "kernels/x86/few_avx2.h"

#define FEW_LIST(X)                                                                                                                     \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(IQ4_NL) X(MXFP4) X(NVFP4) X(AFFINE2) X(AFFINE3) X(AFFINE5) X(AFFINE6) X(AFFINE8) \
  X(NVFP4_SPLIT) X(MXFP4_SPLIT) X(MXFP8_SPLIT)

FEW_FILL(ij__matmul_few_small_fill_avx2, FEW_LIST)
