/* decode_fp4_neon.h: MXFP4 and NVFP4 blocks and the split types nvfp4, mxfp4 and mxfp8, as quant/fmt_fp4.h defines them.
 *
 * E2M1 codes are read from a codebook. E4M3 codes become F16 by moving their bits, which leaves them 256 times too small and gets
 * subnormal ones right; only a NaN would come out as a number, so groups that hold one go the scalar way.
 */
#ifndef IJ_KERNELS_ARM_DECODE_FP4_NEON_H
#define IJ_KERNELS_ARM_DECODE_FP4_NEON_H

#include "kernels/arm/decode_basic_neon.h"
#include "quant/fmt_fp4.h"

/* book: ij__e2m1_twice */
INLINE void mxfp4_neon(float *y, const uint8_t *b, codebook book) {
  nibbles_neon(y, b + 1, book, vdupq_n_f32(ij__fmt_e8m0_half(b[0])));
}

INLINE uint8x16_t low_halves(uint8x16_t x, uint8x16_t y) {
  return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(x), vreinterpretq_u64_u8(y)));
}

INLINE uint8x16_t high_halves(uint8x16_t x, uint8x16_t y) {
  return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(x), vreinterpretq_u64_u8(y)));
}

/* The scale is half an E4M3, bit 7 ignored; here the codebook is halved instead. */
INLINE codebook nvfp4_codebook(void) { return codebook_of(lanes_times(lanes_from_s8(vld1q_s8(ij__e2m1_twice)), vdupq_n_f32(0.5f))); }

INLINE void nvfp4_neon(float *y, const uint8_t *b, codebook book) {
  for (int g = 0; g < 4; g += 2, y += 32) {
    uint8x16_t v = vld1q_u8(b + 4 + 8 * g), low = low_nibbles(v), high = high_nibbles(v);
    lanes_store(y, lanes_times(codebook_read(book, low_halves(low, high)), vdupq_n_f32(ij__e4m3[b[g] & 0x7f])));
    lanes_store(y + 16, lanes_times(codebook_read(book, high_halves(low, high)), vdupq_n_f32(ij__e4m3[b[g + 1] & 0x7f])));
  }
}

/* 32 codes that lie low nibble, high nibble, next byte. */
INLINE void nibbles_in_turn(uint8x16_t *code, const uint8_t *p) {
  uint8x16_t v = vld1q_u8(p), low = low_nibbles(v), high = high_nibbles(v);
  code[0] = vzip1q_u8(low, high);
  code[1] = vzip2q_u8(low, high);
}

/* Two groups. book: ij__e2m1 */
INLINE void nvfp4_split_pair_neon(float *y, const uint8_t *codes, const uint8_t *scale, codebook book) {
  uint8x16_t code[2];
  nibbles_in_turn(code, codes);
  lanes_store(y, lanes_times(codebook_read(book, code[0]), vdupq_n_f32(ij__e4m3[scale[0]])));
  lanes_store(y + 16, lanes_times(codebook_read(book, code[1]), vdupq_n_f32(ij__e4m3[scale[1]])));
}

/* book: ij__e2m1 */
INLINE void mxfp4_split_neon(float *y, const uint8_t *codes, uint8_t scale, codebook book) {
  uint8x16_t code[2];
  float32x4_t d = vdupq_n_f32(ij__fmt_e8m0(scale));
  nibbles_in_turn(code, codes);
  lanes_store(y, lanes_times(codebook_read(book, code[0]), d));
  lanes_store(y + 16, lanes_times(codebook_read(book, code[1]), d));
}

/* Sixteen E4M3 bytes, none of them NaN. */
INLINE lanes lanes_from_e4m3(uint8x16_t v) {
  uint8x16_t zero = vdupq_n_u8(0);
  uint16x8_t mask = vdupq_n_u16(0xbfff);
  int16x8_t first = vreinterpretq_s16_u8(vzip1q_u8(zero, v)), last = vreinterpretq_s16_u8(vzip2q_u8(zero, v));
  float16x8_t low = vreinterpretq_f16_u16(vandq_u16(vreinterpretq_u16_s16(vshrq_n_s16(first, 1)), mask));
  float16x8_t high = vreinterpretq_f16_u16(vandq_u16(vreinterpretq_u16_s16(vshrq_n_s16(last, 1)), mask));
  lanes tiny = {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)};
  return lanes_times(tiny, vdupq_n_f32(256.0f));
}

INLINE void mxfp8_split_neon(float *y, const uint8_t *codes, uint8_t scale) {
  uint8x16_t v0 = vld1q_u8(codes), v1 = vld1q_u8(codes + 16), nan = vdupq_n_u8(0xfe);
  uint8x16_t is_nan = vorrq_u8(vceqq_u8(vshlq_n_u8(v0, 1), nan), vceqq_u8(vshlq_n_u8(v1, 1), nan));
  if (vmaxvq_u8(is_nan) != 0) {
    ij__fmt_mxfp8_split(y, codes, scale);
    return;
  }
  float32x4_t d = vdupq_n_f32(ij__fmt_e8m0(scale));
  lanes_store(y, lanes_times(lanes_from_e4m3(v0), d));
  lanes_store(y + 16, lanes_times(lanes_from_e4m3(v1), d));
}

#endif
