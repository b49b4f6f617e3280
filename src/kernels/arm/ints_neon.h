/* ints_neon.h: products in integers at this level, for processors with and without dot products of bytes. Four rows lie in the lanes of a
 * register, in each four codes that follow each other: then the sums of a group meet its four scales in one instruction, and nothing is
 * added up across lanes. The definition is ref/ints_ref.c.
 *
 * Few tokens multiply codes where they are taken apart. For many, a block of each of the rows of a panel is taken apart first, so that each
 * block of x comes once to the first-level cache for all of them.
 *
 * The including file defines group_dots after this and gives matmul_q4_k to the table.
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
  Q4_K_BYTES = 144,        /* of a block */
  FEW = 2,                 /* tokens whose sums are in registers while weights are taken apart */
  TILE = 4,                /* the same where they have been before */
  PANEL = 8,               /* times four rows: with a tile's blocks of x 13 KB, for caches of 32 KB */
  PANEL_ROWS = 4 * PANEL,
  FEW_AHEAD = 7,           /* blocks of a row under way from memory: as in matmul_neon.c about 1024 bytes of each of 4 rows */
  MANY_AHEAD = 2,          /* less, for it is of each row of a panel */
  TOKENS_MAX = 512,        /* more are multiplied in portions */
  SUMS_BYTES = TOKENS_MAX * PANEL_ROWS * (int)sizeof(float),
  MADE_BLOCKS = (IJ_SCRATCH_ALIGNED * (int)sizeof(float) - SUMS_BYTES) / (int)sizeof(ij_ints)
};

/* s[j]: the sums of a group's codes times plane j of x's digits. codes[i] has values 4 * i to 4 * i + 3 of each row. */
INLINE void group_dots(int32x4_t s[3], const int8x16_t codes[8], const ij_ints *x, int g);

/* ---- four blocks of Q4_K, one of each row ---- */

typedef struct heads {
  int16x4_t scale[8];
  float32x4_t d, offset[8]; /* offset: times dmin */
} heads;

typedef struct ints_decoded {
  int8x16_t codes[IJ_INTS / 4];
  heads h;
} ints_decoded;

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

/* out[i]: byte i of each lane of v. */
INLINE void spread_lanes(int16x4_t out[4], uint8x16_t v) {
  static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const uint8x16_t turned = vqtbl1q_u8(v, vld1q_u8(order));
  const int16x8_t first = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(turned))), last = vreinterpretq_s16_u16(vmovl_high_u8(turned));
  out[0] = vget_low_s16(first);
  out[1] = vget_high_s16(first);
  out[2] = vget_low_s16(last);
  out[3] = vget_high_s16(last);
}

/* The first 16 bytes of blocks: d, dmin, and scales and offsets of six bits (ij__fmt_q4_k_scale). */
INLINE void read_heads(heads *h, const uint8_t *const block[4]) {
  const uint8x16_t low6 = vdupq_n_u8(0x3f), low4 = vdupq_n_u8(0x0f), two = vdupq_n_u8(0x30);
  uint8x16_t z[4];
  transpose_rows(z, block, 0);
  const uint32x4_t both = vreinterpretq_u32_u8(z[0]);
  h->d = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(both)));
  spread_lanes(h->scale, vandq_u8(z[1], low6));
  spread_lanes(h->scale + 4, vorrq_u8(vandq_u8(z[3], low4), vandq_u8(vshrq_n_u8(z[1], 2), two)));
  const float32x4_t dmin = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(both, 16)));
  int16x4_t offset[8];
  spread_lanes(offset, vandq_u8(z[2], low6));
  spread_lanes(offset + 4, vorrq_u8(vshrq_n_u8(z[3], 4), vandq_u8(vshrq_n_u8(z[2], 2), two)));
  UNROLL for (int g = 0; g < 8; g++) h->offset[g] = vmulq_f32(dmin, vcvtq_f32_s32(vmovl_s16(offset[g])));
}

/* Codes of groups g and g + 1, which are the nibbles of the same bytes, one group after the other. */
INLINE void read_codes(int8x16_t codes[16], const uint8_t *const block[4], int g) {
  UNROLL for (int i = 0; i < 8; i += 4) {
    uint8x16_t z[4];
    transpose_rows(z, block, 16 + 16 * g + 4 * i);
    UNROLL for (int j = 0; j < 4; j++) {
      codes[i + j] = vreinterpretq_s8_u8(vandq_u8(z[j], vdupq_n_u8(0x0f)));
      codes[8 + i + j] = vreinterpretq_s8_u8(vshrq_n_u8(z[j], 4));
    }
  }
}

/* ---- times blocks of x ---- */

/* One group times n tokens, to the sums a of the block. */
INLINE void add_group(int32x4_t (*a)[3], const int8x16_t codes[8], const ij_ints *const *x, int g, int16x4_t scale, const int n) {
  const int32x4_t factor = vmovl_s16(scale);
  UNROLL for (int t = 0; t < n; t++) {
    int32x4_t s[3];
    group_dots(s, codes, x[t], g);
    UNROLL for (int j = 0; j < 3; j++) a[t][j] = vmlaq_s32(a[t][j], s[j], factor);
  }
}

/* y after one more block, whose sums of codes times digits, scaled, are a. */
INLINE float32x4_t add_block(float32x4_t y, const int32x4_t a[3], const heads *h, const ij_ints *x) {
  const float32x4_t up16 = vdupq_n_f32(65536.0f), up8 = vdupq_n_f32(256.0f);
  const float32x4_t t = vfmaq_f32(vfmaq_f32(vcvtq_f32_s32(a[0]), up8, vcvtq_f32_s32(a[1])), up16, vcvtq_f32_s32(a[2]));
  y = vfmaq_f32(y, vmulq_n_f32(h->d, x->scale), t);
  UNROLL for (int g = 0; g < 8; g++) y = vfmsq_n_f32(y, h->offset[g], x->sum[g]);
  return y;
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

/* Four rows, the last again where there are fewer, and those that take their places later, to be fetched when these come to their end. */
typedef struct four_rows {
  const uint8_t *row[4], *next[4];
} four_rows;

static four_rows rows_from(const ints_call *c, int64_t r, int64_t step) {
  const ij_matmul *m = c->m;
  four_rows w;
  for (int i = 0; i < 4; i++) {
    const int64_t later = r + i + step;
    w.row[i] = w.next[i] = (const uint8_t *)m->w + IJ_MIN(r + i, c->r1 - 1) * m->w_stride;
    if (later < c->r1) {
      w.next[i] = (const uint8_t *)m->w + later * m->w_stride;
    } else if (m->w_next && later - c->r1 < m->n_next) {
      w.next[i] = (const uint8_t *)m->w_next + (later - c->r1) * m->w_stride;
    }
  }
  return w;
}

/* A macro: GCC 12 takes a function that only prefetches for one without effect and drops its calls. */
#define v_prefetch(p) __builtin_prefetch(p, 0, 3)

/* Block b of each row; the block that comes `ahead` blocks later is fetched. */
INLINE void blocks_at(const uint8_t *block[4], const four_rows *w, int64_t b, int64_t n_block, int64_t ahead) {
  const int64_t later = b + ahead < n_block ? b + ahead : IJ_MIN(b + ahead - n_block, n_block - 1);
  const uint8_t *const *from = b + ahead < n_block ? w->row : w->next;
  UNROLL for (int i = 0; i < 4; i++) {
    block[i] = w->row[i] + b * Q4_K_BYTES;
    UNROLL for (int at = 0; at < Q4_K_BYTES; at += 64) v_prefetch(from[i] + later * Q4_K_BYTES + at);
  }
}

static void store_sums(const ints_call *c, int64_t r, int64_t n_row) {
  for (int64_t t = 0; t < c->n_token; t++) memcpy(c->y + t * c->m->ldy + r, c->sums + t * PANEL_ROWS, (size_t)n_row * sizeof(float));
}

/* Four rows from r on times n tokens. */
INLINE void few_tokens(const ints_call *c, int64_t r, const int n) {
  const four_rows w = rows_from(c, r, 4);
  float32x4_t y[FEW];
  UNROLL for (int t = 0; t < n; t++) y[t] = vdupq_n_f32(0.0f);
  for (int64_t b = 0; b < c->n_block; b++) {
    const uint8_t *block[4];
    const ij_ints *x[FEW];
    int32x4_t a[FEW][3];
    heads h;
    blocks_at(block, &w, b, c->n_block, FEW_AHEAD);
    read_heads(&h, block);
    UNROLL for (int t = 0; t < n; t++) {
      x[t] = c->x[t] + b;
      a[t][0] = a[t][1] = a[t][2] = vdupq_n_s32(0);
    }
    for (int g = 0; g < 8; g += 2) {
      int8x16_t codes[16];
      read_codes(codes, block, g);
      add_group(a, codes, x, g, h.scale[g], n);
      add_group(a, codes + 8, x, g + 1, h.scale[g + 1], n);
    }
    UNROLL for (int t = 0; t < n; t++) y[t] = add_block(y[t], a[t], &h, x[t]);
  }
  UNROLL for (int t = 0; t < n; t++) vst1q_f32(c->sums + t * PANEL_ROWS, y[t]);
}

static void few_rows(const ints_call *c, int64_t r) {
  if (c->n_token == 1) {
    few_tokens(c, r, 1);
  } else {
    few_tokens(c, r, 2);
  }
  store_sums(c, r, IJ_MIN(c->r1 - r, (int64_t)4));
}

static void decode_blocks(ints_decoded *d, const uint8_t *const block[4]) {
  read_heads(&d->h, block);
  for (int g = 0; g < 8; g += 2) read_codes(d->codes + 8 * g, block, g);
}

/* Four rows' block times those of n tokens. */
INLINE void tile(const ints_decoded *d, const ij_ints *const *x, float *sums, const int n) {
  int32x4_t a[TILE][3];
  UNROLL for (int t = 0; t < n; t++) a[t][0] = a[t][1] = a[t][2] = vdupq_n_s32(0);
  for (int g = 0; g < 8; g++) add_group(a, d->codes + 8 * g, x, g, d->h.scale[g], n);
  UNROLL for (int t = 0; t < n; t++) vst1q_f32(sums + t * PANEL_ROWS, add_block(vld1q_f32(sums + t * PANEL_ROWS), a[t], &d->h, x[t]));
}

static void tile_any(const ints_decoded *d, const ij_ints *const *x, float *sums, int64_t n) {
  switch (n) {
    case 1: tile(d, x, sums, 1); break;
    case 2: tile(d, x, sums, 2); break;
    case 3: tile(d, x, sums, 3); break;
    default: tile(d, x, sums, 4); break;
  }
}

/* A panel's rows from r on, block by block. */
static void many_tokens(const ints_call *c, int64_t r) {
  const int64_t n_row = IJ_MIN(c->r1 - r, (int64_t)PANEL_ROWS), n_four = ij__div_up(n_row, 4), n_tile = ij__div_up(c->n_token, TILE);
  four_rows w[PANEL];
  ints_decoded d[PANEL];
  memset(c->sums, 0, (size_t)(c->n_token * PANEL_ROWS) * sizeof *c->sums);
  for (int64_t i = 0; i < n_four; i++) w[i] = rows_from(c, r + 4 * i, PANEL_ROWS);
  for (int64_t b = 0; b < c->n_block; b++) {
    for (int64_t i = 0; i < n_four; i++) {
      const uint8_t *block[4];
      blocks_at(block, &w[i], b, c->n_block, MANY_AHEAD);
      decode_blocks(&d[i], block);
    }
    for (int64_t j = 0, t = 0, n; j < n_tile; j++, t += n) {
      const ij_ints *x[TILE];
      n = ij__div_up(c->n_token - t, n_tile - j);
      for (int64_t i = 0; i < n; i++) x[i] = c->x[t + i] + b;
      for (int64_t i = 0; i < n_four; i++) tile_any(&d[i], x, c->sums + t * PANEL_ROWS + 4 * i, n);
    }
  }
  store_sums(c, r, n_row);
}

/* Tokens in portions for which there is room, of which x is made into integers first where the caller has not. */
static void matmul_q4_k(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  float *sums = ij__aligned64(scratch);
  ij_ints *made = (ij_ints *)(void *)((char *)sums + SUMS_BYTES);
  const ij_ints *x[TOKENS_MAX];
  ints_call c = {.m = m, .r1 = r1, .n_block = m->k / IJ_INTS, .x = x, .sums = sums};
  const int64_t most = m->ints ? TOKENS_MAX : IJ_MIN((int64_t)TOKENS_MAX, MADE_BLOCKS / c.n_block);
  if (r0 >= r1) return;
  if (most == 0) {
    ij__matmul_q4_k_ref(m, r0, r1, scratch);
    return;
  }
  for (int64_t t0 = 0; t0 < m->n; t0 += c.n_token) {
    c.n_token = IJ_MIN(most, m->n - t0);
    c.y = m->y + t0 * m->ldy;
    ij__ints_tokens(x, m, t0, c.n_token, made, ij__to_ints_neon);
    if (c.n_token <= FEW) {
      for (int64_t r = r0; r < r1; r += 4) few_rows(&c, r);
    } else {
      for (int64_t r = r0; r < r1; r += PANEL_ROWS) many_tokens(&c, r);
    }
  }
}

#endif
