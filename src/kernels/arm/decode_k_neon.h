/* decode_k_neon.h: the 256-value blocks Q2_K to Q6_K, as quant/fmt_k.h defines them.
 *
 * A block's small scales are made floats in one go, sixteen at a time, and wait in an array; the codes of a group then need one
 * fused multiply-add, with the offset negated (or one multiplication): products are exact (fmt_basic.h), so the fused sum rounds alike.
 */
#ifndef IJ_KERNELS_ARM_DECODE_K_NEON_H
#define IJ_KERNELS_ARM_DECODE_K_NEON_H

#include "kernels/arm/decode_core_neon.h"

/* The values of four codes: 16 groups of 4-bit scales and offsets, every group a table. */
INLINE void q2_k_neon(float *y, const uint8_t *b) {
  static const float numbers[4] = {0, 1, 2, 3};
  float scale[16], offset[16];
  uint8x16_t s = vld1q_u8(b);
  float32x4_t code = vld1q_f32(numbers);
  lanes_store(scale, lanes_times(lanes_from_u8(low_nibbles(s)), f16_at(b + 80)));
  lanes_store(offset, lanes_times(lanes_from_u8(high_nibbles(s)), vnegq_f32(f16_at(b + 82))));
  const uint8_t *p = b + 16;
  for (int g = 0; g < 16; g += 8) { /* first group of a half */
    for (int i = g; i < g + 2; i++, p += 16) {
      uint8x16_t v = vld1q_u8(p), turned[4] = {vshlq_n_u8(v, 2), v, vshrq_n_u8(v, 2), vshrq_n_u8(v, 4)};
      UNROLL_DECODE for (int j = 0; j < 4; j++) {
        float32x4_t quad = vfmaq_n_f32(vdupq_n_f32(offset[i + 2 * j]), code, scale[i + 2 * j]);
        lanes_store(y + 16 * i + 32 * j, quad_read(quad, turned[j]));
      }
    }
  }
}

/* The 16 scales of Q3_K: nibbles, and two bits each above them in the last four bytes; minus 32. */
INLINE lanes q3_k_scales_neon(const uint8_t *s) {
  static const int32_t turn[4] = {4, 2, 0, -2};
  uint8x8_t low = vld1_u8(s);
  uint8x16_t nibbles = low_nibbles(vcombine_u8(low, vshr_n_u8(low, 4)));
  uint8x16_t high = vreinterpretq_u8_u32(vshlq_u32(vdupq_n_u32(u32_at(s + 8)), vld1q_s32(turn)));
  uint8x16_t six_bits = vorrq_u8(nibbles, vandq_u8(high, vdupq_n_u8(0x30)));
  return lanes_from_s8(vreinterpretq_s8_u8(vsubq_u8(six_bits, vdupq_n_u8(32))));
}

/* book: -4 to 3 and whatever follows */
INLINE void q3_k_neon(float *y, const uint8_t *b, codebook book) {
  float scale[16];
  lanes_store(scale, lanes_times(q3_k_scales_neon(b + 96), f16_at(b + 108)));
  for (int i = 0; i < 2; i++) {
    uint8x16_t high = vld1q_u8(b + 16 * i), mask = vdupq_n_u8(7);
    for (int half = 0; half < 2; half++) {
      uint8x16_t v = vld1q_u8(b + 32 + 32 * half + 16 * i);
      int g = 8 * half + i;
      UNROLL_DECODE for (int j = 0; j < 4; j++, g += 2) {
        lanes q = codebook_read(book, vandq_u8(vsliq_n_u8(v, high, 2), mask));
        lanes_store(y + 16 * g, lanes_times(q, vdupq_n_f32(scale[g])));
        v = vshrq_n_u8(v, 2);
        high = vshrq_n_u8(high, 1);
      }
    }
  }
}

/* Eight scales, then eight negated offsets, of Q4_K and Q5_K, from the block's first 16 bytes. */
INLINE void q4_k_scales_neon(float *scale, const uint8_t *b) {
  uint32_t s = u32_at(b + 4), m = u32_at(b + 8), both = u32_at(b + 12);
  uint32_t s_last = (both & 0x0f0f0f0fu) | (s >> 2 & 0x30303030u), m_last = (both >> 4 & 0x0f0f0f0fu) | (m >> 2 & 0x30303030u);
  uint64_t scales = (s & 0x3f3f3f3fu) | (uint64_t)s_last << 32, offsets = (m & 0x3f3f3f3fu) | (uint64_t)m_last << 32;
  lanes all = lanes_from_u8(vcombine_u8(vcreate_u8(scales), vcreate_u8(offsets)));
  float32x4_t d = f16_at(b), minus = vnegq_f32(f16_at(b + 2));
  lanes_store(scale, (lanes){vmulq_f32(all.a, d), vmulq_f32(all.b, d), vmulq_f32(all.c, minus), vmulq_f32(all.d, minus)});
}

/* book: 0 to 15 */
INLINE void q4_k_neon(float *y, const uint8_t *b, codebook book) {
  float scale[16];
  q4_k_scales_neon(scale, b);
  for (int g = 0; g < 8; g += 2) {
    float32x4_t d0 = vdupq_n_f32(scale[g]), m0 = vdupq_n_f32(scale[g + 8]), d1 = vdupq_n_f32(scale[g + 1]), m1 = vdupq_n_f32(scale[g + 9]);
    for (int i = 0; i < 2; i++) {
      uint8x16_t v = vld1q_u8(b + 16 + 16 * (g + i));
      lanes_store(y + 32 * g + 16 * i, lanes_times_plus(codebook_read(book, low_nibbles(v)), d0, m0));
      lanes_store(y + 32 * g + 32 + 16 * i, lanes_times_plus(codebook_read(book, high_nibbles(v)), d1, m1));
    }
  }
}

/* Codes in bits 3 to 7: the fifth bit is turned to the top and the nibble put below it. */
INLINE void q5_k_neon(float *y, const uint8_t *b) {
  float scale[16];
  q4_k_scales_neon(scale, b);
  uint8x16_t high[2] = {vld1q_u8(b + 16), vld1q_u8(b + 32)}, mask = vdupq_n_u8(0xf8);
  UNROLL_DECODE for (int g = 0; g < 8; g += 2) {
    float32x4_t d0 = vdupq_n_f32(scale[g]), m0 = vdupq_n_f32(scale[g + 8]), d1 = vdupq_n_f32(scale[g + 1]), m1 = vdupq_n_f32(scale[g + 9]);
    UNROLL_DECODE for (int i = 0; i < 2; i++) {
      uint8x16_t v = vld1q_u8(b + 48 + 16 * (g + i)), bit = vshlq_n_u8(high[i], 7), next_bit = vshlq_n_u8(high[i], 6);
      uint8x16_t q0 = vsriq_n_u8(bit, vshlq_n_u8(v, 4), 1), q1 = vandq_u8(vsriq_n_u8(next_bit, v, 1), mask);
      lanes_store(y + 32 * g + 16 * i, lanes_times_plus(lanes_from_u8_8ths(q0), d0, m0));
      lanes_store(y + 32 * g + 32 + 16 * i, lanes_times_plus(lanes_from_u8_8ths(q1), d1, m1));
      high[i] = vshrq_n_u8(high[i], 2);
    }
  }
}

/* Codes in bits 2 to 7, the top bit inverted, which makes them signed. */
INLINE void q6_k_neon(float *y, const uint8_t *b) {
  float scale[16];
  uint8x16_t mask = vdupq_n_u8(0xfc), sign = vdupq_n_u8(0xaa);
  lanes_store(scale, lanes_times(lanes_from_s8(vreinterpretq_s8_u8(vld1q_u8(b + 192))), f16_at(b + 208)));
  const uint8_t *low = b, *p = b + 128;
  for (int g = 0; g < 16; g += 8, low += 32) { /* first group of a half */
    for (int i = g; i < g + 2; i++, low += 16, p += 16) {
      uint8x16_t v0 = vld1q_u8(low), v1 = vld1q_u8(low + 32), high = veorq_u8(vld1q_u8(p), sign);
      uint8x16_t q[4] = {vsliq_n_u8(vshlq_n_u8(v0, 2), high, 6), vsliq_n_u8(vshlq_n_u8(v1, 2), vshrq_n_u8(high, 2), 6),
                         vandq_u8(vsriq_n_u8(vshlq_n_u8(high, 2), v0, 2), mask), vandq_u8(vsriq_n_u8(high, v1, 2), mask)};
      UNROLL_DECODE for (int j = 0; j < 4; j++) {
        lanes x = lanes_from_s8_4ths(vreinterpretq_s8_u8(q[j]));
        lanes_store(y + 16 * i + 32 * j, lanes_times(x, vdupq_n_f32(scale[i + 2 * j])));
      }
    }
  }
}

#endif
