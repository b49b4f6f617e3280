/* matmul_ints_vnni_avx2.c: products of Q4_K in integers on processors of this level with AVX-VNNI. */
#define K_BITS 4
#include "kernels/x86/ints_k_vnni_avx2.h"

void ij__ints_vnni_fill_avx2(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
