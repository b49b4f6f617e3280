/* matmul_few_low_avx512.c: few_avx512.h for the blocks of one to three bits. Those with codebooks need so much for each value that from
 * five tokens on the buffer of matmul_coded.h is as quick or quicker. */
#include "kernels/x86/few_avx512.h"

#define FEW_LIST(X) X(Q3_K) X(TQ2_0)
#define FEW_BOOKS(X) X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S)
FEW_LIST(FEW_TO_8)
FEW_BOOKS(FEW_TO_4)

void ij__matmul_few_low_fill_avx512(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
  FEW_LIST(FEW_SET)
  FEW_BOOKS(FEW_SET)
}
