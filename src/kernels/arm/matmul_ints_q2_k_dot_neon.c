/* matmul_ints_q2_k_dot_neon.c: products in integers of Q2_K on processors with dot products of bytes (FEAT_DotProd). */
#define K_BITS 2
#include "kernels/arm/ints_neon.h"

#include "kernels/arm/ints_dots_dot_neon.h"
#include "kernels/arm/ints_k_neon.h"
#include "kernels/arm/ints_run_neon.h"

void ij__ints_q2_k_dot_fill_neon(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
