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
  uint32_t low = u32_at(b + 4), high = u16_at(b + 2);
  for (int g = 0; g < 8; g++, low >>= 4, high >>= 2) {
    float scale = (float)((int)((low & 15) | (high & 3) << 4) - 32);
    nibbles_neon(y + 32 * g, b + 8 + 16 * g, book, vmulq_n_f32(d, scale));
  }
}

/* ---- grids ---------------------------------------------------------------------------------------------------------------------- */

/* The entries of two or four indices. */
INLINE uint8x16_t grid_pair(const uint64_t *grid, uint32_t first, uint32_t second) {
  return vreinterpretq_u8_u64(vcombine_u64(vld1_u64(grid + first), vld1_u64(grid + second)));
}

INLINE uint8x16_t grid_four(const uint32_t *grid, uint32_t i0, uint32_t i1, uint32_t i2, uint32_t i3) {
  uint32x2_t first = vzip1_u32(vcreate_u32(grid[i0]), vcreate_u32(grid[i1]));
  uint32x2_t last = vzip1_u32(vcreate_u32(grid[i2]), vcreate_u32(grid[i3]));
  return vreinterpretq_u8_u32(vcombine_u32(first, last));
}

/* Eight indices of a grid with more than 256 entries, 16 bits each. */
typedef struct grid_index {
  uint64_t low, high;
} grid_index;

/* A byte each at p, and above it the bits of `mask` out of `above`. */
INLINE grid_index grid_indices(const uint8_t *p, uint16x8_t above, const uint16_t mask) {
  uint64x2_t all = vreinterpretq_u64_u16(vbslq_u16(vdupq_n_u16(mask), above, vmovl_u8(vld1_u8(p))));
  return (grid_index){vgetq_lane_u64(all, 0), vgetq_lane_u64(all, 1)};
}

INLINE uint32_t index_at(grid_index x, const int i) { return (i < 4 ? x.low >> (16 * i) : x.high >> (16 * (i - 4))) & 0xffff; }

/* Bytes of v in this order, as 16-bit lanes, each shifted by its own count. */
INLINE uint16x8_t turned_lanes(uint8x16_t v, const uint8_t *order, const int16_t *shift) {
  return vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(v, vld1q_u8(order))), vld1q_s16(shift));
}

/* scale times magnitudes that are negated where the byte is all ones: 255 - v is -v - 1. */
INLINE lanes signed_lanes(uint8x16_t magnitude, uint8x16_t negative, float32x4_t scale) {
  uint8x16_t v = vsubq_u8(vabdq_u8(magnitude, negative), negative);
  return lanes_times(lanes_from_s8(vreinterpretq_s8_u8(v)), scale);
}

/* Sixteen signs from the u16 at p. */
INLINE uint8x16_t signs_at(const uint8_t *p) { return bits_to_bytes(vreinterpretq_u8_u16(vdupq_n_u16(u16_at(p))), 0, 1); }

/* The 28 bits of signs in a word of IQ2_XXS and IQ3_XXS, seven per 32-bit lane; the eighth makes their number even. */
INLINE uint8x16_t sign_word(uint32_t word) {
  static const int32_t shift[4] = {0, -7, -14, -21};
  uint8x16_t seven = vreinterpretq_u8_u32(vshlq_u32(vdupq_n_u32(word), vld1q_s32(shift)));
  return vsliq_n_u8(seven, vcntq_u8(vshlq_n_u8(seven, 1)), 7);
}

/* ---- IQ2 ------------------------------------------------------------------------------------------------------------------------ */

INLINE void iq2_xxs_neon(float *y, const uint8_t *b) {
  float32x4_t d = vmulq_n_f32(f16_at(b), 0.25f), half = vdupq_n_f32(0.5f);
  float scale[8];
  b += 2;
  for (int g = 0; g < 8; g += 4) {
    uint8x16_t v0 = vld1q_u8(b + 8 * g), v1 = vld1q_u8(b + 8 * g + 16);
    uint32x4_t word = vuzp2q_u32(vreinterpretq_u32_u8(v0), vreinterpretq_u32_u8(v1));
    vst1q_f32(scale + g, vmulq_f32(vaddq_f32(vcvtq_f32_u32(vshrq_n_u32(word, 28)), half), d));
  }
  for (int g = 0; g < 8; g++, b += 8, y += 32) {
    uint8x16_t signs = sign_word(u32_at(b + 4));
    float32x4_t ds = vdupq_n_f32(scale[g]);
    lanes_store(y, signed_lanes(grid_pair(ij__iq2_xxs_grid, b[0], b[1]), bits_to_bytes(signs, 0, 4), ds));
    lanes_store(y + 16, signed_lanes(grid_pair(ij__iq2_xxs_grid, b[2], b[3]), bits_to_bytes(signs, 8, 12), ds));
  }
}

/* The 16 scales of IQ2_XS and IQ2_S from 8 bytes of nibbles: d * (scale + 1/2) / 4. */
INLINE void iq2_scales_neon(float *scale, float32x4_t d, const uint8_t *nibbles) {
  uint8x16_t v = vcombine_u8(vld1_u8(nibbles), vdup_n_u8(0));
  uint8x16_t in_turn = vzip1q_u8(low_nibbles(v), high_nibbles(v)), odd = vorrq_u8(vshlq_n_u8(in_turn, 1), vdupq_n_u8(1));
  lanes_store(scale, lanes_times(lanes_from_u8(odd), vmulq_n_f32(d, 0.125f)));
}

/* Signs are in bits 9 to 15: with the parity below them, bit 1 of a byte belongs to the first value. */
INLINE void iq2_xs_neon(float *y, const uint8_t *b) {
  static const uint8_t order[16] = {1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3};
  static const uint8_t bit[16] = {2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128, 1};
  float scale[16];
  iq2_scales_neon(scale, f16_at(b), b + 66);
  uint8x16_t parity = vdupq_n_u8(1);
  b += 2;
  for (int g = 0; g < 16; g++, b += 4, y += 16) {
    uint32_t pair = u32_at(b);
    uint8x16_t seven = vbicq_u8(vreinterpretq_u8_u32(vdupq_n_u32(pair)), parity), signs = vbslq_u8(parity, vcntq_u8(seven), seven);
    uint8x16_t negative = vtstq_u8(vqtbl1q_u8(signs, vld1q_u8(order)), vld1q_u8(bit));
    lanes_store(y, signed_lanes(grid_pair(ij__iq2_xs_grid, pair & 511, pair >> 16 & 511), negative, vdupq_n_f32(scale[g])));
  }
}

INLINE void iq2_s_neon(float *y, const uint8_t *b) {
  static const uint8_t order[16] = {0, 255, 0, 255, 0, 255, 0, 255, 1, 255, 1, 255, 1, 255, 1, 255};
  static const int16_t shift[8] = {8, 6, 4, 2, 8, 6, 4, 2};
  const uint8_t *signs = b + 34, *high = b + 66;
  float scale[16];
  iq2_scales_neon(scale, f16_at(b), b + 74);
  b += 2;
  for (int g = 0; g < 16; g += 4, b += 8, high += 2) {
    grid_index at = grid_indices(b, turned_lanes(vreinterpretq_u8_u16(vdupq_n_u16(u16_at(high))), order, shift), 0x300);
    UNROLL_DECODE for (int i = 0; i < 4; i++, signs += 2, y += 16) {
      uint8x16_t v = grid_pair(ij__iq2_s_grid, index_at(at, 2 * i), index_at(at, 2 * i + 1));
      lanes_store(y, signed_lanes(v, signs_at(signs), vdupq_n_f32(scale[g + i])));
    }
  }
}

/* ---- IQ3 ------------------------------------------------------------------------------------------------------------------------ */

INLINE void iq3_xxs_neon(float *y, const uint8_t *b) {
  const uint32_t *grid = ij__iq3_xxs_grid;
  const uint8_t *words = b + 66;
  float32x4_t d = vmulq_n_f32(f16_at(b), 0.5f), half = vdupq_n_f32(0.5f);
  float scale[8];
  for (int g = 0; g < 8; g += 4) {
    uint32x4_t word = vreinterpretq_u32_u8(vld1q_u8(words + 4 * g));
    vst1q_f32(scale + g, vmulq_f32(vaddq_f32(vcvtq_f32_u32(vshrq_n_u32(word, 28)), half), d));
  }
  b += 2;
  for (int g = 0; g < 8; g++, b += 8, words += 4, y += 32) {
    uint8x16_t signs = sign_word(u32_at(words));
    float32x4_t ds = vdupq_n_f32(scale[g]);
    lanes_store(y, signed_lanes(grid_four(grid, b[0], b[1], b[2], b[3]), bits_to_bytes(signs, 0, 4), ds));
    lanes_store(y + 16, signed_lanes(grid_four(grid, b[4], b[5], b[6], b[7]), bits_to_bytes(signs, 8, 12), ds));
  }
}

INLINE void iq3_s_neon(float *y, const uint8_t *b) {
  static const uint16_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  const uint32_t *grid = ij__iq3_s_grid;
  const uint8_t *high = b + 66, *signs = b + 74;
  float32x4_t d = f16_at(b);
  uint32_t scales = u32_at(b + 106);
  b += 2;
  for (int g = 0; g < 8; g++, b += 8, signs += 4, scales >>= 4, y += 32) {
    float32x4_t scale = vmulq_n_f32(d, (float)(2 * (scales & 15) + 1));
    grid_index at = grid_indices(b, vtstq_u16(vdupq_n_u16(high[g]), vld1q_u16(bit)), 0x100);
    uint8x16_t first = grid_four(grid, index_at(at, 0), index_at(at, 1), index_at(at, 2), index_at(at, 3));
    uint8x16_t last = grid_four(grid, index_at(at, 4), index_at(at, 5), index_at(at, 6), index_at(at, 7));
    lanes_store(y, signed_lanes(first, signs_at(signs), scale));
    lanes_store(y + 16, signed_lanes(last, signs_at(signs + 2), scale));
  }
}

/* ---- IQ1: all in eighths --------------------------------------------------------------------------------------------------------- */

/* scale times a grid of -1, 0 and 1 plus or minus 1/8; delta: 1 or -1. */
INLINE lanes iq1_lanes(uint8x16_t grid, uint8x16_t delta, float32x4_t scale) {
  return lanes_times(lanes_from_s8_8ths(vreinterpretq_s8_u8(vaddq_u8(vshlq_n_u8(grid, 3), delta))), scale);
}

INLINE void iq1_s_neon(float *y, const uint8_t *b) {
  static const uint8_t order[16] = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3};
  static const int16_t shift[8] = {8, 5, 2, -1, 8, 5, 2, -1};
  const uint8_t *words = b + 34;
  float32x4_t d = f16_at(b);
  uint16x8_t word = vreinterpretq_u16_u8(vld1q_u8(words));
  uint16x8_t odd = vorrq_u16(vandq_u16(vshrq_n_u16(word, 11), vdupq_n_u16(14)), vdupq_n_u16(1));
  float scale[8];
  uint8_t delta[8];
  vst1q_f32(scale, vmulq_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(odd))), d));
  vst1q_f32(scale + 4, vmulq_f32(vcvtq_f32_u32(vmovl_high_u16(odd)), d));
  vst1_u8(delta, vorr_u8(vmovn_u16(vreinterpretq_u16_s16(vshrq_n_s16(vreinterpretq_s16_u16(word), 15))), vdup_n_u8(1)));
  b += 2;
  for (int g = 0; g < 8; g += 2, b += 8, words += 4) {
    grid_index at = grid_indices(b, turned_lanes(vreinterpretq_u8_u32(vdupq_n_u32(u32_at(words))), order, shift), 0x700);
    UNROLL_DECODE for (int i = 0; i < 2; i++, y += 32) {
      uint8x16_t sign = vdupq_n_u8(delta[g + i]);
      float32x4_t ds = vdupq_n_f32(scale[g + i]);
      lanes_store(y, iq1_lanes(grid_pair(ij__iq1_grid, index_at(at, 4 * i), index_at(at, 4 * i + 1)), sign, ds));
      lanes_store(y + 16, iq1_lanes(grid_pair(ij__iq1_grid, index_at(at, 4 * i + 2), index_at(at, 4 * i + 3)), sign, ds));
    }
  }
}

/* The 16 scales of IQ1_M, three bits each, four to a u16. */
INLINE void iq1_m_scales_neon(float *scale, const uint8_t *p) {
  static const uint8_t order[2][16] = {{0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3}, {4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7}};
  static const int16_t shift[8] = {1, -2, -5, -8, 1, -2, -5, -8};
  uint8x16_t v = vcombine_u8(vld1_u8(p), vdup_n_u8(0));
  uint16x8_t first = turned_lanes(v, order[0], shift), last = turned_lanes(v, order[1], shift);
  uint8x16_t twice = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(last)), vdupq_n_u8(14));
  lanes_store(scale, lanes_times(lanes_from_u8(vorrq_u8(twice, vdupq_n_u8(1))), vdupq_n_f32(ij__fmt_iq1_m_scale(p))));
}

INLINE void iq1_m_neon(float *y, const uint8_t *b) {
  static const uint8_t order[16] = {0, 255, 0, 255, 1, 255, 1, 255, 2, 255, 2, 255, 3, 255, 3, 255};
  static const int16_t shift[8] = {8, 4, 8, 4, 8, 4, 8, 4};
  const uint8_t *high = b + 32;
  float scale[16];
  iq1_m_scales_neon(scale, b + 48);
  for (int g = 0; g < 16; g += 4, b += 8, high += 4) {
    uint16x8_t nibble = turned_lanes(vreinterpretq_u8_u32(vdupq_n_u32(u32_at(high))), order, shift); /* in bits 8 to 11 */
    grid_index at = grid_indices(b, nibble, 0x700);
    uint8x8_t delta = vorr_u8(vmovn_u16(vtstq_u16(nibble, vdupq_n_u16(0x800))), vdup_n_u8(1));
    UNROLL_DECODE for (int i = 0; i < 4; i++, y += 16) {
      uint8x16_t sign = vcombine_u8(vdup_n_u8((uint8_t)(2 * i)), vdup_n_u8((uint8_t)(2 * i + 1)));
      sign = vqtbl1q_u8(vcombine_u8(delta, delta), sign);
      uint8x16_t grid = grid_pair(ij__iq1_grid, index_at(at, 2 * i), index_at(at, 2 * i + 1));
      lanes_store(y, iq1_lanes(grid, sign, vdupq_n_f32(scale[g + i])));
    }
  }
}

#endif
