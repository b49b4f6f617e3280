/* ints_k.h: the block that a product in integers is of, Q4_K or Q2_K, by the bits of a code (K_BITS, which the including file defines). */
#ifndef IJ_KERNELS_INTS_K_H
#define IJ_KERNELS_INTS_K_H

#include "kernels/ints.h"

#if K_BITS == 2
#define TYPE IJ_DTYPE_Q2_K
#define SCALAR_PRODUCT ij__matmul_q2_k_ref
#else
#define TYPE IJ_DTYPE_Q4_K
#define SCALAR_PRODUCT ij__matmul_q4_k_ref
#endif

enum {
  BLOCK_BYTES = K_BITS == 2 ? 84 : 144,
  SCALES = K_BITS == 2 ? 16 : 8, /* of a block; a group of 32 values has one or two */
  CODES_AT = 16,                 /* of the block's bytes */
  TOGETHER = 8 / K_BITS,         /* the codes of so many groups lie in the same 32 bytes */
  PARTS = 8 / TOGETHER
};

#endif
