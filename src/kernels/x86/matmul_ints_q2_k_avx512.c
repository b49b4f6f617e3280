/* matmul_ints_q2_k_avx512.c: products of Q2_K in integers on processors with VNNI. */
#define K_BITS 2
#include "kernels/x86/ints_k_avx512.h"

void ij__ints_q2_k_fill_avx512(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
