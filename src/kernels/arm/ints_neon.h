/* ints_neon.h: products in integers at this level, for processors with and without dot products of bytes. Four rows lie in the lanes of a
 * register, in each four codes that follow each other: then the sums of a group meet its four scales in one instruction, and nothing is
 * added up across lanes. The definition is ref/ints_ref.c. This has what types share; what a type has of its own follows, then ints_run_neon.h.
 *
 * Few tokens multiply codes where they are taken apart. For many, a block of each of the rows of a panel is taken apart first, so that each
 * block of x comes once to the first-level cache for all of them.
 *
 * The including file gives dots after this, from ints_dots_neon.h or ints_dots_dot_neon.h.
 */
#ifndef IJ_KERNELS_ARM_INTS_NEON_H
#define IJ_KERNELS_ARM_INTS_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "kernels/ints.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum {
  FEW = 2,                 /* tokens whose sums are in registers while weights are taken apart */
  TILE = 4,                /* the same where they have been before */
  PANEL = 8,               /* times four rows: with a tile's blocks of x 13 KB, for caches of 32 KB */
  PANEL_ROWS = 4 * PANEL,
  FEW_AHEAD = 1008,        /* bytes of a row under way from memory, in whole blocks: as in matmul_neon.c about 1024 of each of 4 rows */
  MANY_AHEAD = 288,        /* less, for it is of each row of a panel */
  TOKENS_MAX = 512,        /* more are multiplied in portions */
  SUMS_BYTES = TOKENS_MAX * PANEL_ROWS * (int)sizeof(float),
  MADE_BLOCKS = (IJ_SCRATCH_ALIGNED * (int)sizeof(float) - SUMS_BYTES) / (int)sizeof(ij_ints)
};

/* s[j]: the sums of n codes, 16 or 32, times plane j of x's digits from number `at` on. codes[i] has values 4 * i to 4 * i + 3 of each row. */
INLINE void dots(int32x4_t s[3], const int8x16_t *codes, const ij_ints *x, int at, const int n);

/* out[i]: bytes at + 4 * i to at + 4 * i + 3 of each block. */
INLINE void transpose_rows(uint8x16_t out[4], const uint8_t *const block[4], int at) {
  uint32x4_t z[4];
  UNROLL for (int i = 0; i < 4; i++) z[i] = vreinterpretq_u32_u8(vld1q_u8(block[i] + at));
  const uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(z[0], z[1])), b = vreinterpretq_u64_u32(vtrn2q_u32(z[0], z[1]));
  const uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(z[2], z[3])), d = vreinterpretq_u64_u32(vtrn2q_u32(z[2], z[3]));
  out[0] = vreinterpretq_u8_u64(vtrn1q_u64(a, c));
  out[1] = vreinterpretq_u8_u64(vtrn1q_u64(b, d));
  out[2] = vreinterpretq_u8_u64(vtrn2q_u64(a, c));
  out[3] = vreinterpretq_u8_u64(vtrn2q_u64(b, d));
}

/* ---- rows ---- */

/* A call's rows by a portion of its tokens. */
typedef struct ints_call {
  const ij_matmul *m;
  int64_t r1, n_block;     /* end of the rows; blocks of a row */
  const ij_ints *const *x; /* [token]: first block of the row */
  int64_t n_token;
  float *y;    /* of the first token */
  float *sums; /* [token][PANEL_ROWS] */
} ints_call;

/* Four rows, the last again where there are fewer, and those that take their places later, to be fetched when these come to their end. Of split
 * types also their scales and biases. */
typedef struct four_rows {
  const uint8_t *row[4], *next[4], *scales[4], *biases[4], *next_scales[4], *next_biases[4];
} four_rows;

static four_rows rows_from(const ints_call *c, int64_t r, int64_t step) {
  const ij_matmul *m = c->m;
  four_rows w;
  for (int i = 0; i < 4; i++) {
    const int64_t later = r + i + step;
    const ij_stretch now = ij__stretch_of(m, IJ_MIN(r + i, c->r1 - 1));
    ij_stretch next = now;
    if (later < c->r1) {
      next = ij__stretch_of(m, later);
    } else if (m->w_next && later - c->r1 < m->n_next) {
      next.row = (const uint8_t *)m->w_next + (later - c->r1) * m->w_stride;
      if (m->scales_next) next.scales = (const uint8_t *)m->scales_next + (later - c->r1) * m->side_stride;
      if (m->biases_next) next.biases = (const uint8_t *)m->biases_next + (later - c->r1) * m->side_stride;
    }
    w.row[i] = now.row;
    w.scales[i] = now.scales;
    w.biases[i] = now.biases;
    w.next[i] = next.row;
    w.next_scales[i] = next.scales;
    w.next_biases[i] = next.biases;
  }
  return w;
}

/* A macro: GCC 12 takes a function that only prefetches for one without effect and drops its calls. */
#define v_prefetch(p) __builtin_prefetch(p, 0, 3)

/* Block b of each row, of so many bytes; the block that comes `ahead_bytes` later, or a little less, is fetched. */
INLINE void blocks_at(const uint8_t *block[4], const four_rows *w, int64_t b, int64_t n_block, const int ahead_bytes, const int bytes) {
  const int64_t ahead = ahead_bytes / bytes;
  const int64_t later = b + ahead < n_block ? b + ahead : IJ_MIN(b + ahead - n_block, n_block - 1);
  const uint8_t *const *from = b + ahead < n_block ? w->row : w->next;
  UNROLL for (int i = 0; i < 4; i++) {
    block[i] = w->row[i] + b * bytes;
    UNROLL for (int at = 0; at < bytes; at += 64) v_prefetch(from[i] + later * bytes + at);
  }
}

static void store_sums(const ints_call *c, int64_t r, int64_t n_row) {
  for (int64_t t = 0; t < c->n_token; t++) memcpy(c->y + t * c->m->ldy + r, c->sums + t * PANEL_ROWS, (size_t)n_row * sizeof(float));
}

#endif
