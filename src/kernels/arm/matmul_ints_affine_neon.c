/* matmul_ints_affine_neon.c: products in integers of AFFINE4 on any processor of this level. */
#include "kernels/arm/ints_neon.h"

#include "kernels/arm/ints_dots_neon.h"
#include "kernels/arm/ints_affine_neon.h"
#include "kernels/arm/ints_run_neon.h"

void ij__ints_affine_fill_neon(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
