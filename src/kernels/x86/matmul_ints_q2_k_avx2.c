/* matmul_ints_q2_k_avx2.c: products of Q2_K in integers on any processor of this level. */
#define K_BITS 2
#include "kernels/x86/ints_k_plain_avx2.h"

void ij__ints_q2_k_fill_avx2(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
