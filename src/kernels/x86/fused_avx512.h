/* fused_avx512.h: what the products share that multiply decoded values from registers: rows, scales and values, and the order of lanes. */
#ifndef IJ_KERNELS_X86_FUSED_AVX512_H
#define IJ_KERNELS_X86_FUSED_AVX512_H

#include "kernels/x86/coded_avx512.h"

/* Keeps a vector in a register: loaded anew for each product it is used in, it would need more loads than the processor does beside the
 * multiply-adds. */
#define IN_REGISTER(v) __asm__("" : "+v"(v))

/* The order of the sixteen values of a step in the lanes of the fused products; see paired_nibbles. */
typedef enum lane_order {
  ORDER_PLAIN,
  ORDER_PAIRS,   /* lane 2q: value q; lane 2q + 1: value q + 8 */
  ORDER_QUARTERS /* lane 4q + d: value 4d + q; that is ORDER_PAIRS of an NVFP4 block, in which value i is nibble 2i, and i + 8 nibble 2i + 1 */
} lane_order;

CODED lane_order order_of(const ij_dtype type) {
  if (type == IJ_DTYPE_NVFP4_SPLIT || type == IJ_DTYPE_MXFP4_SPLIT) return ORDER_PAIRS;
  return type == IJ_DTYPE_NVFP4 ? ORDER_QUARTERS : ORDER_PLAIN;
}

/* For each lane the value that it wants. */
static inline __m512i lanes_from(lane_order order) {
  const __m512i pairs = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i plain = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return order == ORDER_PAIRS ? pairs : order == ORDER_QUARTERS ? quarters : plain;
}

/* Sixteen values of x as the lanes want them. */
CODED void order_x(float *out, const float *x, __m512i from) { _mm512_store_ps(out, _mm512_permutexvar_ps(from, _mm512_loadu_ps(x))); }

/* What a room holds. */
typedef enum x_layout {
  X_STEPS, /* the tokens of a step side by side */
  X_TILES  /* see dozens_pack */
} x_layout;

static inline float *x_place(const ij_matmul *m, x_layout layout, lane_order order, float *scratch, bool *made) {
  return ij__x_place(m, IJ_X_AVX512 + (int)layout * 16 + (int)order, scratch, made);
}

static inline const float *x_in_steps(const ij_matmul *m, float *scratch, lane_order order) {
  const __m512i from = lanes_from(order);
  bool made;
  float *out = x_place(m, X_STEPS, order, scratch, &made);
  for (int64_t t = 0; t < m->n && !made; t++) {
    const float *x = m->x + t * m->ldx;
    for (int64_t k = 0; k < m->k; k += 16) order_x(out + k * m->n + t * 16, x + k, from);
  }
  return out;
}

/* Sums back in the order of values. */
CODED __m512 plain_order(__m512 sum, const lane_order order) {
  const __m512i pairs = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  if (order == ORDER_PLAIN) return sum;
  return _mm512_permutexvar_ps(order == ORDER_PAIRS ? pairs : quarters, sum);
}

/* A row: its codes, its scale bytes, and the scales of SCALES_AHEAD values as floats; biases of affine types, which have one scale and
 * one bias per group. */
typedef struct fused_row {
  ij_stretch s;
  const uint8_t *codes, *bytes;
  _Alignas(64) float scales[SCALES_MAX], biases[SCALES_MAX];
} fused_row;

/* Begins with row r of the matrix. */
CODED void fused_row_at(fused_row *row, const ij_matmul *m, int64_t r, const ij_dtype type) {
  row->codes = (const uint8_t *)m->w + r * m->w_stride;
  if (!ij__dtype_is_split(type)) return;
  row->s = ij__stretch_of(m, r);
  row->bytes = row->s.scales;
}

/* The scales of n values (at most SCALES_AHEAD) from value c on. */
CODED void fused_scales(fused_row *r, int64_t c, int64_t n, const ij_dtype type, const int shift) {
  if (ij__dtype_is_affine(type)) {
    const int64_t g0 = c >> shift, n_group = n >> shift;
    for (int64_t g = 0; g < n_group; g += 16) {
      side16(r->scales + g, r->s.scales, r->s.side_dtype, g0 + g, IJ_MIN(16, n_group - g));
      side16(r->biases + g, r->s.biases, r->s.side_dtype, g0 + g, IJ_MIN(16, n_group - g));
    }
  } else if (ij__dtype_is_block(type)) {
    const int64_t len = coded_len(type);
    block_scales(r->scales, r->codes + c / len * coded_bytes(type), n / len, type);
  }
}

/* The same for four rows. Those of a block of Q5_K are worked out for all four at once, however short the rows are. */
CODED void fused_scales_of_four(fused_row *r, int64_t c, int64_t n, const ij_dtype type, const int shift) {
  if (type == IJ_DTYPE_Q5_K) {
    const uint64_t bytes = (uint64_t)coded_bytes(type), from = (uint64_t)c / 256 * bytes;
    for (uint64_t j = 0; j < (uint64_t)n / 256; j++) {
      const uint64_t at = from + j * bytes;
      k_scales((float *const[4]){r[0].scales + 16 * j, r[1].scales + 16 * j, r[2].scales + 16 * j, r[3].scales + 16 * j},
               (const uint8_t *const[4]){r[0].codes + at, r[1].codes + at, r[2].codes + at, r[3].codes + at}, 4);
    }
    return;
  }
  for (int i = 0; i < 4; i++) fused_scales(&r[i], c, n, type, shift);
}

/* 32 or 64 values of groups of 2^shift, none of them in two groups. */
CODED void fused_affine(sink *k, const fused_row *r, uint64_t c, uint64_t from, const int64_t n, const int shift, const int bits) {
  const uint8_t *codes = r->codes + c / 32 * (uint64_t)(4 * bits);
  const uint64_t g = (c - from) >> shift;
  const affine t = affine_group(r->scales[g], r->biases[g], bits, true);
  affine32(k, 0, codes, &t, bits, true);
  if (n == 64) affine32(k, 2, codes + 4 * bits, &t, bits, true);
}

/* n values (a chunk, or one block or group) from value c of a row on, of which the scales begin at value `from`. Unsigned, because
 * divisions of signed numbers by powers of two take several operations. */
CODED void fused_chunk(sink *k, const fused_row *r, uint64_t c, uint64_t from, const int64_t n, const ij_dtype type, const int shift) {
  const int64_t len = coded_len(type), bytes = coded_bytes(type);
  const uint8_t *b = r->codes + c / (uint64_t)len * (uint64_t)bytes;
  if (ij__dtype_is_affine(type)) {
    fused_affine(k, r, c, from, n, shift, (int)(bytes / 4));
  } else if (ij__dtype_is_block(type)) {
    const float *s = r->scales + (c - from) / (uint64_t)len * (uint64_t)block_scales_len(type);
#pragma GCC unroll 2
    for (int i = 0; i < n / len; i++) put_block(k, i * (len / 16), b + i * bytes, s + i * block_scales_len(type), type);
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < n / len; i++) {
      if (type == IJ_DTYPE_NVFP4_SPLIT) nvfp4_split(k, i, b + 8 * i, r->bytes[c / 16 + (uint64_t)i]);
      if (type == IJ_DTYPE_MXFP4_SPLIT) mxfp4_split(k, 2 * i, b + 16 * i, r->bytes[c / 32 + (uint64_t)i]);
      if (type == IJ_DTYPE_MXFP8_SPLIT) mxfp8_split(k, 2 * i, b + 32 * i, r->bytes[c / 32 + (uint64_t)i]);
    }
  }
}

#endif
