/* ints_k_neon.h: products in integers of Q4_K or, where K_BITS is 2, of Q2_K, for ints_run_neon.h: four rows' blocks taken apart, by one, two or a
 * tile of tokens.
 */
#ifndef IJ_KERNELS_ARM_INTS_K_NEON_H
#define IJ_KERNELS_ARM_INTS_K_NEON_H

#include "kernels/ints_k.h"

#define SIDED 0

/* ---- four blocks, one of each row ---- */

typedef struct heads {
  int16x4_t scale[SCALES];
  float32x4_t d, dmin, offset[SCALES]; /* offset: of Q4_K times dmin */
} heads;

typedef struct ints_decoded {
  int8x16_t codes[IJ_INTS / 4];
  heads h;
} ints_decoded;

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

/* Of d and dmin as pairs, and offsets of blocks. */
INLINE void read_factors(heads *h, uint8x16_t pairs, const int16x4_t offset[SCALES]) {
  const uint32x4_t both = vreinterpretq_u32_u8(pairs);
  h->d = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(both)));
  h->dmin = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(both, 16)));
  UNROLL for (int i = 0; i < SCALES; i++) {
    h->offset[i] = vcvtq_f32_s32(vmovl_s16(offset[i]));
    if (K_BITS == 4) h->offset[i] = vmulq_f32(h->dmin, h->offset[i]);
  }
}

#if K_BITS == 2
/* 16 bytes of a scale and an offset each, of four bits; and behind the codes d and dmin. */
INLINE void read_heads(heads *h, const uint8_t *const block[4]) {
  uint8x16_t z[4], last[4];
  int16x4_t offset[SCALES];
  transpose_rows(z, block, 0);
  transpose_rows(last, block, BLOCK_BYTES - 16);
  UNROLL for (int i = 0; i < 4; i++) {
    spread_lanes(h->scale + 4 * i, vandq_u8(z[i], vdupq_n_u8(0x0f)));
    spread_lanes(offset + 4 * i, vshrq_n_u8(z[i], 4));
  }
  read_factors(h, last[3], offset);
}
#else
/* The first 16 bytes of blocks: d, dmin, and scales and offsets of six bits (ij__fmt_q4_k_scale). */
INLINE void read_heads(heads *h, const uint8_t *const block[4]) {
  const uint8x16_t low6 = vdupq_n_u8(0x3f), low4 = vdupq_n_u8(0x0f), two = vdupq_n_u8(0x30);
  uint8x16_t z[4];
  int16x4_t offset[SCALES];
  transpose_rows(z, block, 0);
  spread_lanes(h->scale, vandq_u8(z[1], low6));
  spread_lanes(h->scale + 4, vorrq_u8(vandq_u8(z[3], low4), vandq_u8(vshrq_n_u8(z[1], 2), two)));
  spread_lanes(offset, vandq_u8(z[2], low6));
  spread_lanes(offset + 4, vorrq_u8(vshrq_n_u8(z[3], 4), vandq_u8(vshrq_n_u8(z[2], 2), two)));
  read_factors(h, z[0], offset);
}
#endif

/* The 32 bytes of the part-th groups that lie together, by fours. */
INLINE void read_part(uint8x16_t z[8], const uint8_t *const block[4], int part) {
  transpose_rows(z, block, CODES_AT + 32 * part);
  transpose_rows(z + 4, block, CODES_AT + 32 * part + 16);
}

/* Codes of the s-th of them; all of a part at once would not fit into the registers. The instruction takes its shift as a constant. */
INLINE void codes_of(int8x16_t codes[8], const uint8x16_t z[8], const int s) {
  UNROLL for (int i = 0; i < 8; i++) {
    uint8x16_t v = z[i];
    switch (K_BITS * s) {
      case 2: v = vshrq_n_u8(v, 2); break;
      case 4: v = vshrq_n_u8(v, 4); break;
      case 6: v = vshrq_n_u8(v, 6); break;
      default: break;
    }
    codes[i] = vreinterpretq_s8_u8(s == TOGETHER - 1 ? v : vandq_u8(v, vdupq_n_u8((1 << K_BITS) - 1)));
  }
}

/* ---- times blocks of x ---- */

/* Group g times n tokens, to the sums a of the block. */
INLINE void add_group(int32x4_t (*a)[3], const int8x16_t codes[8], const ij_ints *const *x, int g, const heads *h, const int n) {
  const int with_one = 32 * 8 / SCALES; /* values that have a scale together */
  UNROLL for (int at = 0; at < 32; at += with_one) {
    const int32x4_t factor = vmovl_s16(h->scale[(32 * g + at) / with_one]);
    UNROLL for (int t = 0; t < n; t++) {
      int32x4_t s[3];
      dots(s, codes + at / 4, x[t], 32 * g + at, with_one);
      UNROLL for (int j = 0; j < 3; j++) a[t][j] = vmlaq_s32(a[t][j], s[j], factor);
    }
  }
}

/* y after one more block, whose sums of codes times digits, scaled, are a. */
INLINE float32x4_t add_block(float32x4_t y, const int32x4_t a[3], const heads *h, const ij_ints *x) {
  const float32x4_t up16 = vdupq_n_f32(65536.0f), up8 = vdupq_n_f32(256.0f);
  const float32x4_t t = vfmaq_f32(vfmaq_f32(vcvtq_f32_s32(a[0]), up8, vcvtq_f32_s32(a[1])), up16, vcvtq_f32_s32(a[2]));
  y = vfmaq_f32(y, vmulq_n_f32(h->d, x->scale), t);
#if K_BITS == 2
  float32x4_t n = vdupq_n_f32(0.0f);
  UNROLL for (int i = 0; i < SCALES; i++) n = vfmaq_n_f32(n, h->offset[i], x->half[i]);
  return vfmsq_f32(y, h->dmin, n);
#else
  UNROLL for (int i = 0; i < SCALES; i++) y = vfmsq_n_f32(y, h->offset[i], x->sum[i]);
  return y;
#endif
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
    blocks_at(block, &w, b, c->n_block, FEW_AHEAD, BLOCK_BYTES);
    read_heads(&h, block);
    UNROLL for (int t = 0; t < n; t++) {
      x[t] = c->x[t] + b;
      a[t][0] = a[t][1] = a[t][2] = vdupq_n_s32(0);
    }
    for (int part = 0; part < PARTS; part++) {
      uint8x16_t z[8];
      int8x16_t codes[8];
      read_part(z, block, part);
      UNROLL for (int s = 0; s < TOGETHER; s++) {
        codes_of(codes, z, s);
        add_group(a, codes, x, part * TOGETHER + s, &h, n);
      }
    }
    UNROLL for (int t = 0; t < n; t++) y[t] = add_block(y[t], a[t], &h, x[t]);
  }
  UNROLL for (int t = 0; t < n; t++) vst1q_f32(c->sums + t * PANEL_ROWS, y[t]);
}

/* Block b of four rows. */
static void decode_blocks(ints_decoded *d, const ints_call *c, const four_rows *w, int64_t b) {
  const uint8_t *block[4];
  blocks_at(block, w, b, c->n_block, MANY_AHEAD, BLOCK_BYTES);
  read_heads(&d->h, block);
  for (int part = 0; part < PARTS; part++) {
    uint8x16_t z[8];
    read_part(z, block, part);
    UNROLL for (int s = 0; s < TOGETHER; s++) codes_of(d->codes + 8 * (part * TOGETHER + s), z, s);
  }
}

/* Four rows' block times those of n tokens. */
INLINE void tile(const ints_decoded *d, const ij_ints *const *x, float *sums, const int n) {
  int32x4_t a[TILE][3];
  UNROLL for (int t = 0; t < n; t++) a[t][0] = a[t][1] = a[t][2] = vdupq_n_s32(0);
  for (int g = 0; g < 8; g++) add_group(a, d->codes + 8 * g, x, g, &d->h, n);
  UNROLL for (int t = 0; t < n; t++) vst1q_f32(sums + t * PANEL_ROWS, add_block(vld1q_f32(sums + t * PANEL_ROWS), a[t], &d->h, x[t]));
}

#endif
