/* decode_affine_neon.h: the affine formats of MLX, as quant/fmt_affine.h defines them, 32 values at a time.
 *
 * Codes of 3, 5 and 6 bits are gathered as 16-bit windows of the stream, each shifted by its own count. Loads stay within the
 * 4 * bits bytes that hold the 32 codes: where those are not whole registers, the second load overlaps the first.
 */
#ifndef IJ_KERNELS_ARM_DECODE_AFFINE_NEON_H
#define IJ_KERNELS_ARM_DECODE_AFFINE_NEON_H

#include "core/dtype.h"
#include "kernels/arm/decode_fp4_neon.h"

/* Codes 0 to 7 of a stream that begins at byte `at` of v, in 16-bit lanes with other bits above them. */
INLINE uint16x8_t code_windows(uint8x16_t v, const int bits, const int at) {
#define BYTES(i) (uint8_t)(bits * (i) / 8), (uint8_t)(bits * (i) / 8 + 1)
#define SHIFT(i) (int16_t)-(bits * (i) % 8)
  const uint8_t index[16] = {BYTES(0), BYTES(1), BYTES(2), BYTES(3), BYTES(4), BYTES(5), BYTES(6), BYTES(7)};
  const int16_t shift[8] = {SHIFT(0), SHIFT(1), SHIFT(2), SHIFT(3), SHIFT(4), SHIFT(5), SHIFT(6), SHIFT(7)};
#undef BYTES
#undef SHIFT
  uint8x16_t window = vqtbl1q_u8(v, vaddq_u8(vld1q_u8(index), vdupq_n_u8((uint8_t)at)));
  return vshlq_u16(vreinterpretq_u16_u8(window), vld1q_s16(shift));
}

/* Codes 0 to 15 of such a stream, as bytes. */
INLINE uint8x16_t codes_from(uint8x16_t v, const int bits, const int at) {
  uint16x8_t first = code_windows(v, bits, at), last = code_windows(v, bits, at + bits);
  uint8x16_t code = vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(last));
  return vandq_u8(code, vdupq_n_u8((uint8_t)((1 << bits) - 1)));
}

/* The 32 codes at p. */
INLINE void affine_codes(uint8x16_t *code, const uint8_t *p, const int bits) {
  if (bits == 3) {
    uint8x16_t v = vcombine_u8(vld1_u8(p), vld1_u8(p + 4));
    code[0] = codes_from(v, bits, 0);
    code[1] = codes_from(v, bits, 8 + 2);
  } else if (bits == 4) {
    nibbles_in_turn(code, p);
  } else if (bits == 8) {
    code[0] = vld1q_u8(p);
    code[1] = vld1q_u8(p + 16);
  } else {
    code[0] = codes_from(vld1q_u8(p), bits, 0);
    code[1] = codes_from(vld1q_u8(p + 4 * bits - 16), bits, 16 - 2 * bits);
  }
}

INLINE int64_t side_bytes(const ij_dtype type) { return type == IJ_DTYPE_F32 ? 4 : 2; }

/* The scale or bias at p, four times. */
INLINE float32x4_t side_at(const uint8_t *p, const ij_dtype type) {
  if (type == IJ_DTYPE_F16) return f16_at(p);
  return vdupq_n_f32(type == IJ_DTYPE_F32 ? ij__fmt_f32(p) : ij__fmt_bf16(p));
}

/* scale * code + bias, rounded once or twice as fmt_affine.h says. */
INLINE lanes affine_lanes(lanes code, float32x4_t scale, float32x4_t bias, const ij_dtype side_type) {
  return side_type == IJ_DTYPE_F32 ? lanes_plus(lanes_times(code, scale), bias) : lanes_times_plus(code, scale, bias);
}

/* Four codes to a byte: bits 2 and 3 of each of sixteen bytes are made codes 0 to 15 of the stream. */
INLINE uint8x16_t two_bits_spread(uint8x16_t v, const int at) {
  static const uint8_t index[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  static const int8_t shift[16] = {2, 0, -2, -4, 2, 0, -2, -4, 2, 0, -2, -4, 2, 0, -2, -4};
  return vshlq_u8(vqtbl1q_u8(v, vaddq_u8(vld1q_u8(index), vdupq_n_u8((uint8_t)at))), vld1q_s8(shift));
}

/* n values of two bits, a multiple of 32, of one group. */
INLINE void affine2_group_neon(float *y, const uint8_t *p, float32x4_t scale, float32x4_t bias, int64_t n, const ij_dtype side_type) {
  static const float numbers[4] = {0, 1, 2, 3};
  float32x4_t code = vld1q_f32(numbers);
  float32x4_t quad = side_type == IJ_DTYPE_F32 ? vaddq_f32(vmulq_f32(scale, code), bias) : vfmaq_f32(bias, scale, code);
  for (; n > 0; n -= 32, y += 32, p += 8) {
    uint8x16_t v = vcombine_u8(vld1_u8(p), vdup_n_u8(0));
    lanes_store(y, quad_read(quad, two_bits_spread(v, 0)));
    lanes_store(y + 16, quad_read(quad, two_bits_spread(v, 4)));
  }
}

/* book: 0 to 15 */
INLINE lanes affine_floats(uint8x16_t code, const int bits, codebook book) {
  return bits <= 4 ? codebook_read(book, code) : lanes_from_u8(code);
}

/* n values, a multiple of 32, of one group. book: 0 to 15 */
INLINE void affine_group_neon(float *y, const uint8_t *p, const int bits, float32x4_t scale, float32x4_t bias, int64_t n,
                              const ij_dtype side_type, codebook book) {
  if (bits == 2) {
    affine2_group_neon(y, p, scale, bias, n, side_type);
    return;
  }
  for (; n > 0; n -= 32, y += 32, p += 4 * bits) {
    uint8x16_t code[2];
    affine_codes(code, p, bits);
    lanes_store(y, affine_lanes(affine_floats(code[0], bits, book), scale, bias, side_type));
    lanes_store(y + 16, affine_lanes(affine_floats(code[1], bits, book), scale, bias, side_type));
  }
}

#endif
