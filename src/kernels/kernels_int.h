/* kernels_int.h: the functions by which each family of kernels puts its entries into the table of a level.
 *
 * A fill function sets the entries that its level has and leaves the rest; kernels.c calls them from the scalar level upwards.
 */
#ifndef IJ_KERNELS_INT_H
#define IJ_KERNELS_INT_H

#include "kernels/kernels.h"

void ij__elem_fill_ref(ij_kernels *k);
void ij__math_fill_ref(ij_kernels *k);
void ij__attn_fill_ref(ij_kernels *k);
void ij__matmul_fill_ref(ij_kernels *k);
void ij__decode_fill_ref(ij_kernels *k);

void ij__elem_fill_avx2(ij_kernels *k);
void ij__attn_fill_avx2(ij_kernels *k);
void ij__matmul_fill_avx2(ij_kernels *k);

void ij__elem_fill_avx512(ij_kernels *k);
void ij__attn_fill_avx512(ij_kernels *k);
void ij__matmul_fill_avx512(ij_kernels *k);

void ij__elem_fill_neon(ij_kernels *k);
void ij__attn_fill_neon(ij_kernels *k);
void ij__matmul_fill_neon(ij_kernels *k);

#endif
