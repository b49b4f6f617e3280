/* ints_q4_k_neon.h: products in integers of Q4_K, for ints_run_neon.h: four rows' blocks taken apart, by one, two or a tile of tokens. */
#ifndef IJ_KERNELS_ARM_INTS_Q4_K_NEON_H
#define IJ_KERNELS_ARM_INTS_Q4_K_NEON_H

#define SIDED 0

enum { Q4_K_BYTES = 144 }; /* of a block */

/* ---- four blocks of Q4_K, one of each row ---- */

typedef struct heads {
  int16x4_t scale[8];
  float32x4_t d, offset[8]; /* offset: times dmin */
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
    blocks_at(block, &w, b, c->n_block, FEW_AHEAD, Q4_K_BYTES);
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

/* Block b of four rows. */
static void decode_blocks(ints_decoded *d, const ints_call *c, const four_rows *w, int64_t b) {
  const uint8_t *block[4];
  blocks_at(block, w, b, c->n_block, MANY_AHEAD, Q4_K_BYTES);
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

#endif
