/* matmul_few_avx512.c: few_avx512.h for the types that it writes out. */
#include "kernels/x86/few_avx512.h"

#define FEW_LIST(X) X(Q5_K) X(NVFP4_SPLIT)
FEW_LIST(FEW_TO_8)

void ij__matmul_few_fill_avx512(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
  FEW_LIST(FEW_SET)
}
