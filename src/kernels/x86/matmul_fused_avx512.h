/* matmul_fused_avx512.h: one token times block and split types: decoded values go into the multiply-add from registers.
 *
 * Four rows, one of each quarter (fused_streams.h), advance together, a chunk at a time, each with one sum: their chains of multiply-adds
 * overlap, and the chunk of x stays in the first-level cache. Included by matmul_avx512.c after matmul_tile.h.
 */
#ifndef IJ_KERNELS_X86_MATMUL_FUSED_AVX512_H
#define IJ_KERNELS_X86_MATMUL_FUSED_AVX512_H

#include "kernels/x86/fused_avx512.h"
#include "kernels/x86/fused_streams.h"

/* Values of the chunks in which rows advance. */
CODED int64_t chunk_len(const ij_dtype type, const int shift) {
  return ij__dtype_is_affine(type) ? shift == 6 ? 64 : 32 : IJ_MAX(coded_len(type), (int64_t)64);
}

/* n values of the four rows from value `at` on, of which the scales begin at value `from`, a chunk at a time. */
CODED void fused_span(const fused_ctx *f, const fused_row *row, vec (*c)[PASSES], int64_t at, int64_t from, const int64_t n,
                      const int64_t chunk, const ij_dtype type, const int shift) {
#pragma GCC unroll 2
  for (int64_t v = at; v < at + n; v += chunk) {
    UNROLL for (int i = 0; i < MR; i++) {
      sink s = {.x = f->x + v, .sum = c[i][0], .fused = true};
      fused_chunk(&s, &row[i], (uint64_t)v, (uint64_t)from, chunk, type, shift);
      c[i][0] = s.sum;
    }
  }
}

/* The same for a block of 256 values: the rows take turns by its quarters, so that the chains of their multiply-adds overlap. (Where
 * much is worked out once for a block, as in Q5_K and Q6_K, whole blocks were measured to be quicker.) */
CODED void fused_quarters(const fused_ctx *f, const fused_row *row, vec (*c)[PASSES], uint64_t at, uint64_t from, const ij_dtype type) {
  const uint64_t block = at / 256 * (uint64_t)coded_bytes(type), scales = (at - from) / 256 * (uint64_t)block_scales_len(type);
  UNROLL for (int j = 0; j < 4; j++) {
    UNROLL for (int i = 0; i < MR; i++) {
      sink s = {.x = f->x + at, .sum = c[i][0], .fused = true};
      iq4_xs(&s, row[i].codes + block, row[i].scales + scales, j);
      c[i][0] = s.sum;
    }
  }
}

/* Row r and those of the other quarters. */
CODED void fused_group(fused_ctx *f, int64_t r, float *sums, const ij_dtype type, const int shift) {
  const int64_t k = f->m->k, chunk = chunk_len(type, shift), len = coded_len(type), span_bytes = FUSED_SPAN / len * coded_bytes(type);
  fused_row row[MR];
  const uint8_t *ahead[MR];
  vec c[MR][PASSES];
  if (ij__dtype_is_split(type)) fetch_side(f, r + SIDE_AHEAD, type);
  UNROLL for (int i = 0; i < MR; i++) {
    fused_row_at(&row[i], f->m, IJ_MIN(r + i * f->quarter, f->r1 - 1), type);
    ahead[i] = f->ahead[i].row;
    ahead_step(&f->ahead[i], f->m->w_stride);
    c[i][0] = v_zero();
  }
  for (int64_t c0 = 0; c0 < k; c0 += SCALES_AHEAD) {
    const int64_t end = IJ_MIN(k, c0 + SCALES_AHEAD);
    fused_scales_of_four(row, c0, end - c0, type, shift);
    int64_t at = c0;
    for (; at + FUSED_SPAN <= end; at += FUSED_SPAN) {
      UNROLL for (int i = 0; i < MR; i++) fetch(&ahead[i], span_bytes);
      if (has_quarters(type)) {
        fused_quarters(f, row, c, (uint64_t)at, (uint64_t)c0, type);
      } else {
        fused_span(f, row, c, at, c0, FUSED_SPAN, chunk, type, shift);
      }
    }
    if (at < end) {
      UNROLL for (int i = 0; i < MR; i++) fetch(&ahead[i], span_bytes);
    }
    for (; at + chunk <= end; at += chunk) fused_span(f, row, c, at, c0, chunk, chunk, type, shift);
    if (chunk == len) continue;
    for (; at < end; at += len) fused_span(f, row, c, at, c0, len, len, type, shift);
  }
  UNROLL for (int i = 0; i < MR; i++) c[i][0] = plain_order(c[i][0], order_of(type));
  store_sums(sums, 0, MR, c);
}

CODED void fused_rows(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type, const int shift) {
  if (r0 >= r1) return;
  float sums[BATCH] = {0};
  fused_ctx f = {.m = m, .x = m->x, .r1 = r1, .quarter = ij__div_up(r1 - r0, MR)};
  if (order_of(type) != ORDER_PLAIN) f.x = x_in_steps(m, scratch, order_of(type));
  fused_start(&f, r0, ij__dtype_row_bytes(type, m->k));
  for (int64_t i = 0; i < SIDE_AHEAD && ij__dtype_is_split(type); i++) fetch_side(&f, r0 + i, type);
  for (int64_t r = r0; r < r0 + f.quarter; r += BATCH_GROUPS) {
    const int64_t n = IJ_MIN(BATCH_GROUPS, r0 + f.quarter - r);
    for (int64_t g = 0; g < n; g++) fused_group(&f, r + g, sums + g * 16, type, shift);
    fused_store(&f, r, sums, n);
  }
}

/* Groups of 64 are the common case, worth code of their own; float32 scales, of which no published file has any, are left to others. */
CODED void fused_affine_rows(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type) {
  if (m->group == 64) {
    fused_rows(m, r0, r1, scratch, type, 6);
  } else {
    fused_rows(m, r0, r1, scratch, type, m->group == 32 ? 5 : 7);
  }
}

/* x in another order must fit scratch: longer rows take the general way. */
#define MATMUL_FUSED(id)                                                                                                         \
  static void matmul_fused_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                                    \
    if (m->n != 1 || m->k > IJ_SCRATCH_ALIGNED || ij__wide_side(m, IJ_DTYPE_##id)) {                                             \
      matmul_coded(m, r0, r1, scratch, IJ_DTYPE_##id);                                                                           \
    } else if (ij__dtype_is_affine(IJ_DTYPE_##id)) {                                                                             \
      fused_affine_rows(m, r0, r1, scratch, IJ_DTYPE_##id);                                                                      \
    } else {                                                                                                                     \
      fused_rows(m, r0, r1, scratch, IJ_DTYPE_##id, 0);                                                                          \
    }                                                                                                                            \
  }

IJ_CODED_AVX512_LIST(MATMUL_FUSED)

static void fused_fill(ij_kernels *k) {
#define SET_FUSED(id) k->matmul[IJ_DTYPE_##id] = matmul_fused_##id;
  IJ_CODED_AVX512_LIST(SET_FUSED)
#undef SET_FUSED
  ij__decode_panel_fill_avx512(panel_decoders);
}

#endif
