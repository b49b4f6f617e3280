/* matmul_few_coded_avx512.c: few_avx512.h for the other types of four and more bits, and affine ones of any width. */
#include "kernels/x86/few_avx512.h"

#define FEW_LIST(X)                                                                                                                 \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4) X(NVFP4) X(AFFINE2) X(AFFINE3) X(AFFINE5) X(AFFINE6) \
  X(AFFINE8) X(MXFP4_SPLIT) X(MXFP8_SPLIT)
FEW_LIST(FEW_TO_8)

void ij__matmul_few_coded_fill_avx512(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
  FEW_LIST(FEW_SET)
}
