/* decode_iq_neon.h: the IQ blocks, as quant/fmt_iq.h defines them.
 *
 * Sixteen values are two or four entries of a grid, loaded as bytes and given their signs as bytes, so that one conversion and one
 * product make floats of them. Where indices and signs come from differs; that part is scalar, and binds these formats.
 */
#ifndef IJ_KERNELS_ARM_DECODE_IQ_NEON_H
#define IJ_KERNELS_ARM_DECODE_IQ_NEON_H

#include "kernels/arm/decode_basic_neon.h"
#include "quant/fmt_iq.h"

/* ---- IQ4 ------------------------------------------------------------------------------------------------------------------------ */

/* book: ij__iq4_values */
INLINE void iq4_nl_neon(float *y, const uint8_t *b, codebook book) { nibbles_neon(y, b + 2, book, f16_at(b)); }

/* book: ij__iq4_values */
INLINE void iq4_xs_neon(float *y, const uint8_t *b, codebook book) {
  float32x4_t d = f16_at(b);
  uint32_t low = ij__fmt_u32(b + 4), high = ij__fmt_u16(b + 2);
  for (int g = 0; g < 8; g++, low >>= 4, high >>= 2) {
    float scale = (float)((int)((low & 15) | (high & 3) << 4) - 32);
    nibbles_neon(y + 32 * g, b + 8 + 16 * g, book, vmulq_n_f32(d, scale));
  }
}

/* ---- grids ---------------------------------------------------------------------------------------------------------------------- */

INLINE uint8x16_t grid_pair(const uint64_t *grid, uint32_t first, uint32_t second) {
  return vreinterpretq_u8_u64(vcombine_u64(vld1_u64(grid + first), vld1_u64(grid + second)));
}

/* The entries of four indices at p, each with a ninth bit from the low bits of `high`. */
INLINE uint8x16_t grid_four(const uint32_t *grid, const uint8_t *p, uint32_t high) {
  uint32x4_t v = vdupq_n_u32(grid[p[0] | (high << 8 & 256)]);
  v = vld1q_lane_u32(grid + (p[1] | (high << 7 & 256)), v, 1);
  v = vld1q_lane_u32(grid + (p[2] | (high << 6 & 256)), v, 2);
  return vreinterpretq_u8_u32(vld1q_lane_u32(grid + (p[3] | (high << 5 & 256)), v, 3));
}

/* scale times magnitudes that are negated where a bit of `signs` is set. */
INLINE lanes signed_lanes(uint8x16_t magnitude, uint32_t signs, float32x4_t scale) {
  uint8x16_t negative = bits_to_bytes(vreinterpretq_u8_u32(vdupq_n_u32(signs)), 0);
  uint8x16_t v = vsubq_u8(veorq_u8(magnitude, negative), negative);
  return lanes_times(lanes_from_s8(vreinterpretq_s8_u8(v)), scale);
}

/* The signs of sixteen values from two seven-bit codes, the first in the low bits. */
INLINE uint32_t sign_pair(uint32_t first, uint32_t second) { return ij__iq_signs[first & 127] | (uint32_t)ij__iq_signs[second & 127] << 8; }

INLINE void iq2_xxs_neon(float *y, const uint8_t *b) {
  float32x4_t d = f16_at(b);
  b += 2;
  for (int g = 0; g < 8; g++, b += 8, y += 32) {
    uint32_t word = ij__fmt_u32(b + 4);
    float32x4_t scale = vmulq_n_f32(d, (0.5f + (float)(word >> 28)) * 0.25f);
    lanes_store(y, signed_lanes(grid_pair(ij__iq2_xxs_grid, b[0], b[1]), sign_pair(word, word >> 7), scale));
    lanes_store(y + 16, signed_lanes(grid_pair(ij__iq2_xxs_grid, b[2], b[3]), sign_pair(word >> 14, word >> 21), scale));
  }
}

/* The 16 scales of IQ2_XS and IQ2_S from 8 bytes of nibbles: d * (scale + 1/2) / 4. */
INLINE void iq2_scales_neon(float *scale, float32x4_t d, const uint8_t *nibbles) {
  uint8x16_t v = vcombine_u8(vld1_u8(nibbles), vdup_n_u8(0));
  uint8x16_t in_turn = vzip1q_u8(low_nibbles(v), high_nibbles(v)), odd = vorrq_u8(vshlq_n_u8(in_turn, 1), vdupq_n_u8(1));
  lanes_store(scale, lanes_times(lanes_from_u8(odd), vmulq_n_f32(d, 0.125f)));
}

INLINE void iq2_xs_neon(float *y, const uint8_t *b) {
  float scale[16];
  iq2_scales_neon(scale, f16_at(b), b + 66);
  for (int g = 0; g < 16; g++, y += 16) {
    uint32_t pair = ij__fmt_u32(b + 2 + 4 * g);
    uint8x16_t v = grid_pair(ij__iq2_xs_grid, pair & 511, pair >> 16 & 511);
    lanes_store(y, signed_lanes(v, sign_pair(pair >> 9, pair >> 25), vdupq_n_f32(scale[g])));
  }
}

INLINE void iq2_s_neon(float *y, const uint8_t *b) {
  float scale[16];
  iq2_scales_neon(scale, f16_at(b), b + 74);
  for (int g = 0; g < 16; g++, y += 16) {
    uint32_t high = (uint32_t)b[66 + g / 2] >> (g % 2 * 4);
    uint8x16_t v = grid_pair(ij__iq2_s_grid, b[2 + 2 * g] | (high << 8 & 0x300), b[3 + 2 * g] | (high << 6 & 0x300));
    lanes_store(y, signed_lanes(v, ij__fmt_u16(b + 34 + 2 * g), vdupq_n_f32(scale[g])));
  }
}

INLINE void iq3_xxs_neon(float *y, const uint8_t *b) {
  float32x4_t d = f16_at(b);
  const uint8_t *words = b + 66;
  b += 2;
  for (int g = 0; g < 8; g++, b += 8, words += 4, y += 32) {
    uint32_t word = ij__fmt_u32(words);
    float32x4_t scale = vmulq_n_f32(d, (0.5f + (float)(word >> 28)) * 0.5f);
    lanes_store(y, signed_lanes(grid_four(ij__iq3_xxs_grid, b, 0), sign_pair(word, word >> 7), scale));
    lanes_store(y + 16, signed_lanes(grid_four(ij__iq3_xxs_grid, b + 4, 0), sign_pair(word >> 14, word >> 21), scale));
  }
}

INLINE void iq3_s_neon(float *y, const uint8_t *b) {
  float32x4_t d = f16_at(b);
  const uint8_t *high = b + 66, *signs = b + 74;
  uint32_t scales = ij__fmt_u32(b + 106);
  b += 2;
  for (int g = 0; g < 8; g++, b += 8, signs += 4, scales >>= 4, y += 32) {
    float32x4_t scale = vmulq_n_f32(d, (float)(2 * (scales & 15) + 1));
    lanes_store(y, signed_lanes(grid_four(ij__iq3_s_grid, b, high[g]), ij__fmt_u16(signs), scale));
    lanes_store(y + 16, signed_lanes(grid_four(ij__iq3_s_grid, b + 4, (uint32_t)high[g] >> 4), ij__fmt_u16(signs + 2), scale));
  }
}

/* ---- IQ1: all in eighths --------------------------------------------------------------------------------------------------------- */

/* scale times a grid of -1, 0 and 1 plus or minus 1/8; delta: 1 or -1. */
INLINE lanes iq1_lanes(uint8x16_t grid, uint8x16_t delta, float32x4_t scale) {
  return lanes_times(lanes_from_s8_8ths(vreinterpretq_s8_u8(vaddq_u8(vshlq_n_u8(grid, 3), delta))), scale);
}

INLINE void iq1_s_neon(float *y, const uint8_t *b) {
  float32x4_t d = f16_at(b);
  const uint8_t *words = b + 34;
  b += 2;
  for (int g = 0; g < 8; g++, b += 4, words += 2, y += 32) {
    uint32_t word = ij__fmt_u16(words);
    float32x4_t scale = vmulq_n_f32(d, (float)(2 * (word >> 12 & 7) + 1));
    uint8x16_t delta = vdupq_n_u8(word >> 15 ? 255 : 1);
    uint8x16_t first = grid_pair(ij__iq1_grid, b[0] | (word << 8 & 0x700), b[1] | (word << 5 & 0x700));
    uint8x16_t last = grid_pair(ij__iq1_grid, b[2] | (word << 2 & 0x700), b[3] | (word >> 1 & 0x700));
    lanes_store(y, iq1_lanes(first, delta, scale));
    lanes_store(y + 16, iq1_lanes(last, delta, scale));
  }
}

INLINE void iq1_m_neon(float *y, const uint8_t *b) {
  const uint8_t *scales = b + 48, sign_bits[2] = {0x08, 0x80};
  float32x4_t d = vdupq_n_f32(ij__fmt_iq1_m_scale(scales));
  uint8x16_t sign_bit = vcombine_u8(vdup_n_u8(sign_bits[0]), vdup_n_u8(sign_bits[1]));
  for (int g = 0; g < 16; g++, y += 16) {
    uint32_t high = b[32 + g], s = (uint32_t)ij__fmt_u16(scales + g / 4 * 2) >> (g % 4 * 3) & 7;
    uint8x16_t delta = vorrq_u8(vtstq_u8(vdupq_n_u8((uint8_t)high), sign_bit), vdupq_n_u8(1));
    uint8x16_t grid = grid_pair(ij__iq1_grid, b[2 * g] | (high << 8 & 0x700), b[2 * g + 1] | (high << 4 & 0x700));
    lanes_store(y, iq1_lanes(grid, delta, vmulq_n_f32(d, (float)(2 * s + 1))));
  }
}

#endif
