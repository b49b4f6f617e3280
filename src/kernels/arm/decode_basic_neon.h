/* decode_basic_neon.h: the 32-value blocks Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0, and the ternary blocks, as quant/fmt_basic.h and
 * quant/fmt_tq.h define them.
 *
 * Functions take the block and what they need of a codebook, which a loop over blocks makes once.
 */
#ifndef IJ_KERNELS_ARM_DECODE_BASIC_NEON_H
#define IJ_KERNELS_ARM_DECODE_BASIC_NEON_H

#include "kernels/arm/decode_core_neon.h"

INLINE void q8_0_neon(float *y, const uint8_t *b) {
  float32x4_t d = f16_at(b);
  lanes_store(y, lanes_times(lanes_from_s8(vreinterpretq_s8_u8(vld1q_u8(b + 2))), d));
  lanes_store(y + 16, lanes_times(lanes_from_s8(vreinterpretq_s8_u8(vld1q_u8(b + 18))), d));
}

/* A codebook, a scale, and 16 bytes whose low nibbles come first: Q4_0, IQ4_NL, IQ4_XS, MXFP4. */
INLINE void nibbles_neon(float *y, const uint8_t *codes, codebook book, float32x4_t d) {
  uint8x16_t v = vld1q_u8(codes);
  lanes_store(y, lanes_times(codebook_read(book, low_nibbles(v)), d));
  lanes_store(y + 16, lanes_times(codebook_read(book, high_nibbles(v)), d));
}

/* book: -8 to 7 */
INLINE void q4_0_neon(float *y, const uint8_t *b, codebook book) { nibbles_neon(y, b + 2, book, f16_at(b)); }

/* book: 0 to 15 */
INLINE void q4_1_neon(float *y, const uint8_t *b, codebook book) {
  float32x4_t d = f16_at(b), m = f16_at(b + 2);
  uint8x16_t v = vld1q_u8(b + 4);
  lanes_store(y, lanes_times_plus(codebook_read(book, low_nibbles(v)), d, m));
  lanes_store(y + 16, lanes_times_plus(codebook_read(book, high_nibbles(v)), d, m));
}

/* Bit i of byte `first` of bits to all of byte i, and those of byte `second` to the other eight. */
INLINE uint8x16_t bits_to_bytes(uint8x16_t bits, const int first, const int second) {
  static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  uint8x16_t spread = vcombine_u8(vdup_n_u8((uint8_t)first), vdup_n_u8((uint8_t)second));
  return vtstq_u8(vqtbl1q_u8(bits, spread), vld1q_u8(bit));
}

/* 32 fifth bits and 16 bytes of nibbles, to codes in bits 3 to 7. */
INLINE void five_bits_neon(uint8x16_t *code, const uint8_t *high, const uint8_t *nibbles) {
  uint8x16_t v = vld1q_u8(nibbles), bits = vreinterpretq_u8_u32(vdupq_n_u32(u32_at(high)));
  code[0] = vsriq_n_u8(bits_to_bytes(bits, 0, 1), vshlq_n_u8(v, 4), 1);
  code[1] = vandq_u8(vsriq_n_u8(bits_to_bytes(bits, 2, 3), v, 1), vdupq_n_u8(0xf8));
}

INLINE void q5_0_neon(float *y, const uint8_t *b) {
  uint8x16_t code[2], minus_16 = vdupq_n_u8(0x80);
  float32x4_t d = f16_at(b);
  five_bits_neon(code, b + 2, b + 6);
  lanes_store(y, lanes_times(lanes_from_s8_8ths(vreinterpretq_s8_u8(veorq_u8(code[0], minus_16))), d));
  lanes_store(y + 16, lanes_times(lanes_from_s8_8ths(vreinterpretq_s8_u8(veorq_u8(code[1], minus_16))), d));
}

INLINE void q5_1_neon(float *y, const uint8_t *b) {
  uint8x16_t code[2];
  float32x4_t d = f16_at(b), m = f16_at(b + 2);
  five_bits_neon(code, b + 4, b + 8);
  lanes_store(y, lanes_times_plus(lanes_from_u8_8ths(code[0]), d, m));
  lanes_store(y + 16, lanes_times_plus(lanes_from_u8_8ths(code[1]), d, m));
}

/* d * (digit - 1) for the leading base-3 digit of sixteen bytes, which is bits 8 and 9 of three times the byte. */
INLINE lanes trits_neon(uint8x16_t v, float32x4_t d) {
  uint8x16_t digit = vsubq_u8(vsubq_u8(vdupq_n_u8(255), vcgeq_u8(v, vdupq_n_u8(86))), vcgeq_u8(v, vdupq_n_u8(171)));
  return lanes_times(lanes_from_s8(vreinterpretq_s8_u8(digit)), d);
}

INLINE void tq1_0_neon(float *y, const uint8_t *b) {
  float32x4_t d = f16_at(b + 52);
  uint8x16_t v[3] = {vld1q_u8(b), vld1q_u8(b + 16), vld1q_u8(b + 32)}, three = vdupq_n_u8(3);
  for (int n = 0; n < 5; n++) {
    lanes_store(y + 32 * n, trits_neon(v[0], d));
    lanes_store(y + 32 * n + 16, trits_neon(v[1], d));
    lanes_store(y + 160 + 16 * n, trits_neon(v[2], d));
    for (int i = 0; i < 3; i++) v[i] = vmulq_u8(v[i], three);
  }
  static const uint8_t power[16] = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
  uint8x16_t last = vreinterpretq_u8_u32(vdupq_n_u32(u32_at(b + 48)));
  lanes_store(y + 240, trits_neon(vmulq_u8(last, vld1q_u8(power)), d));
}

/* 64 bytes of 2-bit codes placed as in Q2_K. */
INLINE void tq2_0_neon(float *y, const uint8_t *b) {
  static const float values[4] = {-1, 0, 1, 2};
  float32x4_t quad = vmulq_f32(vld1q_f32(values), f16_at(b + 64));
  for (int half = 0; half < 2; half++, y += 96) {
    for (int i = 0; i < 2; i++, b += 16, y += 16) {
      uint8x16_t v = vld1q_u8(b);
      lanes_store(y, quad_read(quad, vshlq_n_u8(v, 2)));
      lanes_store(y + 32, quad_read(quad, v));
      lanes_store(y + 64, quad_read(quad, vshrq_n_u8(v, 2)));
      lanes_store(y + 96, quad_read(quad, vshrq_n_u8(v, 4)));
    }
  }
}

#endif
