/* ints.h: what products in integers share at all vector levels: the scale of a block of x, the blocks of a row, the rows of a call's tokens.
 *
 * The definition is ref/ints_ref.c.
 */
#ifndef IJ_KERNELS_INTS_H
#define IJ_KERNELS_INTS_H

#include <math.h>
#include <string.h>

#include "kernels/kernels_int.h"

void ij__to_ints_avx2(ij_ints *out, const float *x, int64_t k);
void ij__to_ints_neon(ij_ints *out, const float *x, int64_t k);

/* Rows that are too long for a worker's scratch, with x as floats, are left to the scalar products, which take a block at a time; so are affine
 * groups with float32 sides, of which no published file has any. */
void ij__matmul_q2_k_ref(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);
void ij__matmul_q4_k_ref(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);
void ij__matmul_affine4_ref(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);

static inline float ij__ints_power(int exponent) {
  const uint32_t bits = (uint32_t)(exponent + 127) << 23;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* The scale of a block whose largest magnitude has these bits, and by what x is multiplied. False: a value is not finite, and the block is done.
 * 1.984375, from which on the next power of two is needed, is 127 / 64. */
static inline bool ij__ints_scale(ij_ints *b, uint32_t largest, float *inverse) {
  if (largest >= 0x7f800000u) {
    memset(b->digit, 0, sizeof b->digit);
    b->scale = NAN;
    for (int g = 0; g < IJ_INTS / 32; g++) b->sum[g] = NAN;
    for (int h = 0; h < IJ_INTS / 16; h++) b->half[h] = NAN;
    return false;
  }
  const int exponent = IJ_MAX((int)(largest >> 23) - 127 + ((largest & 0x7fffff) >= 0x7e0000) - 22, -122);
  b->scale = ij__ints_power(exponent);
  *inverse = ij__ints_power(-exponent);
  return true;
}

/* The blocks of a row by a function for one, of which the last sees zeros behind the row. */
static inline void ij__ints_row(ij_ints *out, const float *x, int64_t k, void (*block)(ij_ints *b, const float *x)) {
  for (; k >= IJ_INTS; k -= IJ_INTS, x += IJ_INTS) block(out++, x);
  if (k == 0) return;
  float last[IJ_INTS] = {0};
  memcpy(last, x, (size_t)k * sizeof *x);
  block(out, last);
}

/* An affine group is 2^shift times 32 values. */
static inline int ij__ints_group_shift(const ij_matmul *m) { return m->group == 32 ? 0 : m->group == 64 ? 1 : 2; }

/* What a block says of group g, whose halves have these sums. */
static inline void ij__ints_sums(ij_ints *b, int g, int first, int second) {
  b->half[2 * g] = (float)first * b->scale;
  b->half[2 * g + 1] = (float)second * b->scale;
  b->sum[g] = (float)(first + second) * b->scale;
}

/* N of group g of a block. */
static inline float ij__ints_group_sum(const ij_ints *x, int g, int shift) {
  float all = x->sum[g << shift];
  for (int i = 1; i < 1 << shift; i++) all += x->sum[(g << shift) + i];
  return all;
}

/* Left to the scalar product: rows that are too long for a worker's scratch, which has room for so many blocks of x, of which some products lay
 * out a few tokens anew; and sides that are rare. */
static inline bool ij__ints_left_out(const ij_matmul *m, ij_dtype type, int64_t n_few, int64_t room) {
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  if (ij__dtype_is_affine(type)) return ij__wide_side(m, type) || n_few * n_block > room;
  return !m->ints && n_block > room;
}

/* x[t]: the first block of token t0 + t, for n tokens; they are made at `made` where the caller has none. */
static inline void ij__ints_tokens(const ij_ints **x, const ij_matmul *m, int64_t t0, int64_t n, ij_ints *made,
                                   void (*to_ints)(ij_ints *out, const float *x, int64_t k)) {
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  for (int64_t t = 0; t < n; t++) {
    if (m->ints) {
      x[t] = m->ints + (m->rows ? m->rows[t0 + t] : t0 + t) * m->ld_ints;
    } else {
      to_ints(made + t * n_block, ij__x_row(m, t0 + t), m->k);
      x[t] = made + t * n_block;
    }
  }
}

#endif
