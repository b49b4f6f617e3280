/* matmul_ints_dot_neon.c: products in integers of Q4_K on processors with dot products of bytes (FEAT_DotProd). */
#include "kernels/arm/ints_neon.h"

#include "kernels/arm/ints_dots_dot_neon.h"
#include "kernels/arm/ints_q4_k_neon.h"
#include "kernels/arm/ints_run_neon.h"

void ij__ints_dot_fill_neon(ij_kernels *k) { k->matmul[IJ_DTYPE_Q4_K] = matmul_q4_k; }
