/* ints_affine_neon.h: products in integers of AFFINE4, for ints_run_neon.h. A byte of codes has two values that follow each other: few tokens multiply
 * all low nibbles of four bytes, then all high ones, by digits of x that have been put into that order; for many the codes are put in order,
 * once for all of them.
 */
#ifndef IJ_KERNELS_ARM_INTS_AFFINE_NEON_H
#define IJ_KERNELS_ARM_INTS_AFFINE_NEON_H

#define SIDED 1
#define TYPE IJ_DTYPE_AFFINE4
#define SCALAR_PRODUCT ij__matmul_affine4_ref

enum { CODE_BYTES = 128 }; /* of 256 values */

/* A block of each of four rows, or what is left of it, as bytes by fours of values; and its groups, of 2^shift times 32 values. */
typedef struct ints_decoded {
  int8x16_t codes[IJ_INTS / 4];
  float32x4_t scale[8], bias[8];
  int n_group, shift;
} ints_decoded;

/* Times 32 values in a block. */
INLINE int stretches_of(const ij_matmul *m, int64_t b) { return (int)(IJ_MIN(m->k - b * IJ_INTS, (int64_t)IJ_INTS) / 32); }

/* ---- scales and biases ---- */

/* Scales or biases g to g + 7 of each row, or as many as there are. */
INLINE void read_side(float32x4_t out[8], const uint8_t *const side[4], int64_t g, const ij_matmul *m) {
  const int64_t n_left = m->k / m->group - g;
  uint16x8_t z[4], two[4]; /* two: of numbers 2 * i and 2 * i + 1 */
  UNROLL for (int i = 0; i < 4; i++) {
    uint16_t last[8] = {0};
    if (n_left >= 8) {
      z[i] = vreinterpretq_u16_u8(vld1q_u8(side[i] + 2 * g));
    } else {
      memcpy(last, side[i] + 2 * g, (size_t)n_left * sizeof *last);
      z[i] = vld1q_u16(last);
    }
  }
  const uint16x8_t a = vzip1q_u16(z[0], z[2]), b = vzip1q_u16(z[1], z[3]), c = vzip2q_u16(z[0], z[2]), d = vzip2q_u16(z[1], z[3]);
  two[0] = vzip1q_u16(a, b);
  two[1] = vzip2q_u16(a, b);
  two[2] = vzip1q_u16(c, d);
  two[3] = vzip2q_u16(c, d);
  UNROLL for (int i = 0; i < 4; i++) {
    if (m->side_dtype == IJ_DTYPE_BF16) {
      out[2 * i] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(two[i]), 16));
      out[2 * i + 1] = vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(two[i]), 16));
    } else {
      out[2 * i] = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(two[i])));
      out[2 * i + 1] = vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(two[i])));
    }
  }
}

/* Of the rows that come later. */
static void fetch_sides(const four_rows *w, const ij_matmul *m) {
  for (int i = 0; i < 4; i++) {
    for (int64_t at = 0; at < m->k / m->group * 2; at += 64) {
      v_prefetch(w->next_scales[i] + at);
      v_prefetch(w->next_biases[i] + at);
    }
  }
}

/* y after a group whose sums are a; all: its N. */
INLINE float32x4_t end_group(float32x4_t y, const int32x4_t a[3], float32x4_t scale, float32x4_t bias, float x_scale, float all) {
  const float32x4_t up16 = vdupq_n_f32(65536.0f), up8 = vdupq_n_f32(256.0f);
  const float32x4_t t = vfmaq_f32(vfmaq_f32(vcvtq_f32_s32(a[0]), up8, vcvtq_f32_s32(a[1])), up16, vcvtq_f32_s32(a[2]));
  return vfmaq_n_f32(vfmaq_f32(y, vmulq_n_f32(scale, x_scale), t), bias, all);
}

/* 32 values of four rows times n tokens. */
INLINE void add_32(int32x4_t (*a)[3], const int8x16_t codes[8], const ij_ints *const *x, int at, const int n) {
  UNROLL for (int t = 0; t < n; t++) {
    int32x4_t s[3];
    dots(s, codes, x[t], 32 * at, 32);
    UNROLL for (int j = 0; j < 3; j++) a[t][j] = vaddq_s32(a[t][j], s[j]);
  }
}

/* ---- few tokens ---- */

/* Every eight digits: the even ones, then the odd ones. */
static void ints_apart(ij_ints *to, const ij_ints *from) {
  static const uint8_t apart[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  const uint8x16_t order = vld1q_u8(apart);
  for (int i = 0; i < 3 * IJ_INTS; i += 16) {
    const int j = i / IJ_INTS, at = i % IJ_INTS;
    vst1q_s8(to->digit[j] + at, vqtbl1q_s8(vld1q_s8(from->digit[j] + at), order));
  }
  memmove(to->sum, from->sum, sizeof to->sum);
  to->scale = from->scale;
}

/* The blocks of n tokens in that order, at `to`, where they may have been before. */
static void few_ints(const ij_ints **x, const ij_matmul *m, int64_t n, ij_ints *to) {
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  for (int64_t t = 0; t < n; t++, to += n_block) {
    for (int64_t b = 0; b < n_block; b++) ints_apart(to + b, x[t] + b);
    x[t] = to;
  }
}

/* Four rows from r on times n tokens. */
INLINE void few_tokens(const ints_call *c, int64_t r, const int n) {
  const four_rows w = rows_from(c, r, 4);
  const ij_matmul *m = c->m;
  const int shift = ij__ints_group_shift(m), last = (1 << shift) - 1;
  float32x4_t y[FEW], scale[8], bias[8];
  int32x4_t a[FEW][3];
  fetch_sides(&w, m);
  UNROLL for (int t = 0; t < n; t++) {
    y[t] = vdupq_n_f32(0.0f);
    a[t][0] = a[t][1] = a[t][2] = vdupq_n_s32(0);
  }
  for (int64_t b = 0, g = 0; b < c->n_block; b++) { /* g: group of the row */
    const uint8_t *block[4];
    const ij_ints *x[FEW];
    const int n_32 = stretches_of(m, b);
    blocks_at(block, &w, b, c->n_block, FEW_AHEAD, CODE_BYTES);
    UNROLL for (int t = 0; t < n; t++) x[t] = c->x[t] + b;
    for (int i = 0; i < n_32; i++) {
      uint8x16_t z[4];
      int8x16_t codes[8];
      if (g % 8 == 0 && (i & last) == 0) {
        read_side(scale, w.scales, g, m);
        read_side(bias, w.biases, g, m);
      }
      transpose_rows(z, block, 16 * i);
      UNROLL for (int j = 0; j < 4; j++) {
        codes[2 * j] = vreinterpretq_s8_u8(vandq_u8(z[j], vdupq_n_u8(0x0f)));
        codes[2 * j + 1] = vreinterpretq_s8_u8(vshrq_n_u8(z[j], 4));
      }
      add_32(a, codes, x, i, n);
      if ((i & last) != last) continue;
      UNROLL for (int t = 0; t < n; t++) {
        y[t] = end_group(y[t], a[t], scale[g % 8], bias[g % 8], x[t]->scale, ij__ints_group_sum(x[t], i >> shift, shift));
        a[t][0] = a[t][1] = a[t][2] = vdupq_n_s32(0);
      }
      g++;
    }
  }
  UNROLL for (int t = 0; t < n; t++) vst1q_f32(c->sums + t * PANEL_ROWS, y[t]);
}

/* ---- many tokens ---- */

/* Block b of four rows. */
static void decode_blocks(ints_decoded *d, const ints_call *c, const four_rows *w, int64_t b) {
  const ij_matmul *m = c->m;
  const int n_32 = stretches_of(m, b);
  const uint8_t *block[4];
  d->shift = ij__ints_group_shift(m);
  d->n_group = n_32 >> d->shift;
  if (b == 0) fetch_sides(w, m);
  blocks_at(block, w, b, c->n_block, MANY_AHEAD, CODE_BYTES);
  read_side(d->scale, w->scales, b * (8 >> d->shift), m);
  read_side(d->bias, w->biases, b * (8 >> d->shift), m);
  for (int i = 0; i < n_32; i++) {
    uint8_t ordered[4][32];
    const uint8_t *rows[4];
    UNROLL for (int r = 0; r < 4; r++) {
      const uint8x16_t bytes = vld1q_u8(block[r] + 16 * i), even = vandq_u8(bytes, vdupq_n_u8(0x0f)), odd = vshrq_n_u8(bytes, 4);
      vst1q_u8(ordered[r], vzip1q_u8(even, odd));
      vst1q_u8(ordered[r] + 16, vzip2q_u8(even, odd));
      rows[r] = ordered[r];
    }
    UNROLL for (int half = 0; half < 2; half++) {
      uint8x16_t z[4];
      transpose_rows(z, rows, 16 * half);
      UNROLL for (int j = 0; j < 4; j++) d->codes[8 * i + 4 * half + j] = vreinterpretq_s8_u8(z[j]);
    }
  }
}

/* Four rows' block times those of n tokens. */
INLINE void tile(const ints_decoded *d, const ij_ints *const *x, float *sums, const int n) {
  const int shift = d->shift, n_group = d->n_group;
  float32x4_t y[TILE];
  UNROLL for (int t = 0; t < n; t++) y[t] = vld1q_f32(sums + t * PANEL_ROWS);
  for (int g = 0, i = 0; g < n_group; g++) {
    int32x4_t a[TILE][3];
    UNROLL for (int t = 0; t < n; t++) a[t][0] = a[t][1] = a[t][2] = vdupq_n_s32(0);
    for (const int end = i + (1 << shift); i < end; i++) add_32(a, d->codes + 8 * i, x, i, n);
    UNROLL for (int t = 0; t < n; t++) y[t] = end_group(y[t], a[t], d->scale[g], d->bias[g], x[t]->scale, ij__ints_group_sum(x[t], g, shift));
  }
  UNROLL for (int t = 0; t < n; t++) vst1q_f32(sums + t * PANEL_ROWS, y[t]);
}

#endif
