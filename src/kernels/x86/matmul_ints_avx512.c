/* matmul_ints_avx512.c: products of Q4_K in integers on processors with VNNI. */
#define K_BITS 4
#include "kernels/x86/ints_k_avx512.h"

void ij__ints_fill_avx512(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
