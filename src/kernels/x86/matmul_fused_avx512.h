/* matmul_fused_avx512.h: one token times block and split types: decoded values go into the multiply-add from registers.
 *
 * Four rows advance together, a chunk at a time, each with one sum: their chains of multiply-adds overlap, and the chunk of x stays in
 * the first-level cache. Included by matmul_avx512.c after matmul_tile.h.
 */
#ifndef IJ_KERNELS_X86_MATMUL_FUSED_AVX512_H
#define IJ_KERNELS_X86_MATMUL_FUSED_AVX512_H

#include "kernels/x86/coded_avx512.h"

/* The order of the sixteen values of a step in the lanes of the fused products; see paired_nibbles. */
typedef enum lane_order {
  ORDER_PLAIN,
  ORDER_PAIRS,   /* lane 2q: value q; lane 2q + 1: value q + 8 */
  ORDER_QUARTERS /* the same of the nibbles of an NVFP4 block, in which value i is nibble 2i, and i + 8 nibble 2i + 1 */
} lane_order;

CODED lane_order order_of(const ij_dtype type) {
  if (type == IJ_DTYPE_AFFINE4 || type == IJ_DTYPE_NVFP4_SPLIT || type == IJ_DTYPE_MXFP4_SPLIT) return ORDER_PAIRS;
  return type == IJ_DTYPE_NVFP4 ? ORDER_QUARTERS : ORDER_PLAIN;
}

/* x as the lanes want it. */
static void order_x(float *out, const float *x, int64_t k, lane_order order) {
  const __m512i pairs = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i from = order == ORDER_PAIRS ? pairs : quarters;
  for (int64_t i = 0; i < k; i += 16) _mm512_store_ps(out + i, _mm512_permutexvar_ps(from, _mm512_loadu_ps(x + i)));
}

/* Sums back in the order of values. */
CODED __m512 plain_order(__m512 sum, const lane_order order) {
  const __m512i pairs = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  const __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  if (order == ORDER_PLAIN) return sum;
  return _mm512_permutexvar_ps(order == ORDER_PAIRS ? pairs : quarters, sum);
}

/* What a row of a split type has beside its codes: scale bytes, or scales and biases as floats. */
typedef struct fused_row {
  const uint8_t *codes, *bytes;
  const float *scales, *biases;
} fused_row;

/* Values of the chunks in which rows advance, and of the units that are left at the end. */
CODED int64_t chunk_len(const ij_dtype type) {
  if (ij__dtype_is_affine(type) || type == IJ_DTYPE_NVFP4_SPLIT || type == IJ_DTYPE_MXFP4_SPLIT || type == IJ_DTYPE_MXFP8_SPLIT) return 64;
  if (type == IJ_DTYPE_MXFP4 || type == IJ_DTYPE_NVFP4) return 64;
  return type == IJ_DTYPE_Q4_K || type == IJ_DTYPE_Q5_K || type == IJ_DTYPE_Q6_K || type == IJ_DTYPE_IQ4_XS ? 256 : 128;
}

CODED void fused_affine(sink *k, const fused_row *r, int64_t c, const int64_t n, int group, const int bits, const bool once) {
  const uint8_t *codes = r->codes + c / 32 * (4 * bits);
  if (n == 32 || group == 32) {
#pragma GCC unroll 2
    for (int i = 0; i < n / 32; i++) {
      affine t = affine_group(r->scales[c / 32 + i], r->biases[c / 32 + i], bits, once);
      affine32(k, 2 * i, codes + 4 * bits * i, &t, bits, once);
    }
  } else {
    affine t = affine_group(r->scales[c / group], r->biases[c / group], bits, once);
    affine32(k, 0, codes, &t, bits, once);
    affine32(k, 2, codes + 4 * bits, &t, bits, once);
  }
}

/* n values (a chunk, or one block or group) from value c of a row on. */
CODED void fused_chunk(sink *k, const fused_row *r, int64_t c, const int64_t n, int group, const ij_dtype type, const bool once) {
  const int64_t len = coded_len(type), bytes = coded_bytes(type);
  const uint8_t *b = r->codes + c / len * bytes;
  switch (type) {
    case IJ_DTYPE_Q4_K: q4_k(k, b); break;
    case IJ_DTYPE_Q5_K: q5_k(k, b); break;
    case IJ_DTYPE_Q6_K: q6_k(k, b); break;
    case IJ_DTYPE_IQ4_XS: iq4_xs(k, b); break;
    case IJ_DTYPE_MXFP4:
#pragma GCC unroll 2
      for (int i = 0; i < n / 32; i++) q4_scaled(k, 2 * i, b + 17 * i + 1, codebook(ij__e2m1_twice), ij__fp4_tables.e8m0_half[b[17 * i]]);
      break;
    case IJ_DTYPE_NVFP4:
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) nvfp4(k, i, b + 4 + 8 * i, b[i]);
      break;
    case IJ_DTYPE_NVFP4_SPLIT:
#pragma GCC unroll 4
      for (int i = 0; i < n / 16; i++) nvfp4_split(k, i, b + 8 * i, r->bytes[c / 16 + i]);
      break;
    case IJ_DTYPE_MXFP4_SPLIT:
#pragma GCC unroll 2
      for (int i = 0; i < n / 32; i++) mxfp4_split(k, 2 * i, b + 16 * i, r->bytes[c / 32 + i]);
      break;
    case IJ_DTYPE_MXFP8_SPLIT:
#pragma GCC unroll 2
      for (int i = 0; i < n / 32; i++) mxfp8_split(k, 2 * i, b + 32 * i, r->bytes[c / 32 + i]);
      break;
    default:
      if (ij__dtype_is_affine(type)) {
        fused_affine(k, r, c, n, group, (int)(bytes / 4), once);
      } else {
        blocks32(k, b, type, (int)(n / 32));
      }
  }
}

/* What stays the same for all rows of a call. */
typedef struct fused_ctx {
  const ij_matmul *m;
  const float *x;
  float *side; /* affine: room for the scales and biases of MR rows */
  int64_t row_bytes;
} fused_ctx;

CODED void fused_row_of(fused_row *row, const fused_ctx *f, int64_t r, float *side, const ij_dtype type) {
  const ij_stretch s = ij__stretch_of(f->m, r);
  *row = (fused_row){.codes = s.row, .bytes = s.scales};
  if (!ij__dtype_is_affine(type)) return;
  const int64_t n_group = f->m->k / s.group, room = (n_group + 15) & ~(int64_t)15;
  row->scales = side;
  row->biases = side + room;
  for (int64_t g = 0; g < n_group; g += 16) {
    side16(side + g, s.scales, s.side_dtype, g, IJ_MIN(16, n_group - g));
    side16(side + room + g, s.biases, s.side_dtype, g, IJ_MIN(16, n_group - g));
  }
}

/* Rows r to r + 3, of which those after r_last repeat it. */
CODED void fused_group(const fused_ctx *f, int64_t r, int64_t r_last, const lookahead *ahead, float *sums, const ij_dtype type, const bool once) {
  const int64_t k = f->m->k, chunk = chunk_len(type), len = coded_len(type), bytes = coded_bytes(type);
  const int group = f->m->group;
  const int64_t unit = ij__dtype_is_affine(type) ? 32 : len;
  fused_row row[MR];
  vec c[MR][PASSES];
  UNROLL for (int i = 0; i < MR; i++) {
    fused_row_of(&row[i], f, IJ_MIN(r + i, r_last), f->side + i * (f->m->k / 16 + 32), type);
    c[i][0] = v_zero();
  }
  for (int64_t c0 = 0; c0 < k; c0 += 256) {
    const int64_t end = IJ_MIN(k, c0 + 256);
    for (int i = 0; i < MR; i++) coded_prefetch((const char *)row[i].codes, c0 / len * bytes, end / len * bytes, f->row_bytes, ahead);
    int64_t at = c0;
    for (; at + chunk <= end; at += chunk) {
      UNROLL for (int i = 0; i < MR; i++) {
        sink s = {.x = f->x + at, .sum = c[i][0], .fused = true};
        fused_chunk(&s, &row[i], at, chunk, group, type, once);
        c[i][0] = s.sum;
      }
    }
    if (chunk == unit) continue;
    for (; at < end; at += unit) {
      UNROLL for (int i = 0; i < MR; i++) {
        sink s = {.x = f->x + at, .sum = c[i][0], .fused = true};
        fused_chunk(&s, &row[i], at, unit, group, type, once);
        c[i][0] = s.sum;
      }
    }
  }
  UNROLL for (int i = 0; i < MR; i++) c[i][0] = plain_order(c[i][0], order_of(type));
  store_sums(sums, 0, MR, c);
}

CODED void fused_rows(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type, const bool once) {
  float sums[BATCH] = {0}; /* rows that a short batch lacks are folded too, and dropped */
  float *room = (float *)(void *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
  fused_ctx f = {.m = m, .x = m->x, .side = room, .row_bytes = ij__dtype_row_bytes(type, m->k)};
  if (order_of(type) != ORDER_PLAIN) {
    order_x(room, m->x, m->k, order_of(type));
    f.x = room;
    f.side = room + m->k;
  }
  const lookahead la = lookahead_of(m, f.row_bytes);
  lookahead_start(&la, (const char *)m->w + r0 * m->w_stride, m->w_stride, r1 - r0, f.row_bytes);
  for (int64_t r = r0; r < r1; r += V) {
    const int64_t n_row = IJ_MIN(V, r1 - r);
    if (r + V >= r1 && m->w_next) lookahead_start(&la, m->w_next, m->w_stride, m->n_next, f.row_bytes);
    for (int64_t g = 0; g < n_row; g += MR) {
      lookahead ahead = lookahead_at(&la, (r1 - r - g) / MR);
      fused_group(&f, r + g, r1 - 1, &ahead, sums + g * 4, type, once);
    }
    store_batch(m->y + r, m->ldy, sums, 1, n_row);
  }
}

/* x in another order and the scales of four rows must fit scratch; longer rows take the general way. */
#define FUSED_MAX_K 131072

#define MATMUL_FUSED(id)                                                                                          \
  static void matmul_fused_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                     \
    if (m->n != 1 || m->k > FUSED_MAX_K) {                                                                        \
      matmul_coded(m, r0, r1, scratch, IJ_DTYPE_##id);                                                            \
    } else if (ij__dtype_is_affine(IJ_DTYPE_##id) && m->side_dtype == IJ_DTYPE_F32) {                             \
      fused_rows(m, r0, r1, scratch, IJ_DTYPE_##id, false);                                                       \
    } else {                                                                                                      \
      fused_rows(m, r0, r1, scratch, IJ_DTYPE_##id, true);                                                        \
    }                                                                                                             \
  }

#define FUSED_LIST(X)                                                                                                      \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4) X(NVFP4) X(AFFINE2) X(AFFINE3) \
  X(AFFINE4) X(AFFINE5) X(AFFINE6) X(AFFINE8) X(NVFP4_SPLIT) X(MXFP4_SPLIT) X(MXFP8_SPLIT)
FUSED_LIST(MATMUL_FUSED)

static void fused_fill(ij_kernels *k) {
#define SET_FUSED(id) k->matmul[IJ_DTYPE_##id] = matmul_fused_##id;
  FUSED_LIST(SET_FUSED)
#undef SET_FUSED
}

#endif
