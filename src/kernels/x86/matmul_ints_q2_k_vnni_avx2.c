/* matmul_ints_q2_k_vnni_avx2.c: products of Q2_K in integers on processors of this level with AVX-VNNI. */
#define K_BITS 2
#include "kernels/x86/ints_k_vnni_avx2.h"

void ij__ints_q2_k_vnni_fill_avx2(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
