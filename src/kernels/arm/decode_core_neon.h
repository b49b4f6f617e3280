/* decode_core_neon.h: from stored codes to floats, sixteen at a time: what the block decoders of this level are made of.
 *
 * Plain ARMv8.0 NEON is enough. Quantized weights become the float32 values that their format defines and meet the one dot product
 * by fma; only the types that are multiplied in integers (ints_neon.h) use dot products of bytes.
 *
 * Codes of at most four bits are looked up: a codebook of 16 floats, each with nothing below its upper 16 bits, is two tables of
 * bytes, and interleaving what they return, and zeros, makes floats (8 instructions). Wider codes are spread to the top bytes of
 * 32-bit lanes and converted with a binary point in the middle, which also sign-extends (8 instructions, but conversions are
 * slow on many cores). Both are exact.
 */
#ifndef IJ_KERNELS_ARM_DECODE_CORE_NEON_H
#define IJ_KERNELS_ARM_DECODE_CORE_NEON_H

#include "kernels/arm/lanes_neon.h"
#include "quant/fmt_float.h"

#ifndef INLINE
#define INLINE static inline __attribute__((always_inline))
#endif

/* Loops over the groups of a block, where that lets shifts become constants. */
#if defined(__clang__)
#define UNROLL_DECODE _Pragma("clang loop unroll(full)")
#else
#define UNROLL_DECODE _Pragma("GCC unroll 16")
#endif

/* ---- scales --------------------------------------------------------------------------------------------------------------------- */

/* Loads without alignment in the order of the machine, which is that of the formats: this level is for little-endian machines only,
 * and clang does not make one load of the shifts in fmt_float.h. */
INLINE uint16_t u16_at(const uint8_t *p) {
  uint16_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

INLINE uint32_t u32_at(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

/* The F16 at p, four times. */
INLINE float32x4_t f16_at(const uint8_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(u16_at(p)))); }

INLINE lanes lanes_times(lanes x, float32x4_t d) {
  return (lanes){vmulq_f32(x.a, d), vmulq_f32(x.b, d), vmulq_f32(x.c, d), vmulq_f32(x.d, d)};
}

/* x * d + m, rounded once: where x * d is exact that is the product and then the sum. Copies of m cost nothing on many cores. */
INLINE lanes lanes_times_plus(lanes x, float32x4_t d, float32x4_t m) {
  return (lanes){vfmaq_f32(m, x.a, d), vfmaq_f32(m, x.b, d), vfmaq_f32(m, x.c, d), vfmaq_f32(m, x.d, d)};
}

INLINE lanes lanes_plus(lanes x, float32x4_t m) {
  return (lanes){vaddq_f32(x.a, m), vaddq_f32(x.b, m), vaddq_f32(x.c, m), vaddq_f32(x.d, m)};
}

/* ---- wide codes: spread and convert ------------------------------------------------------------------------------------------------ */

/* Byte 4 * quarter + i to the top byte of lane i. */
INLINE uint32x4_t spread_bytes(uint8x16_t v, const int quarter) {
  static const uint8_t index[4][16] = {
    {255, 255, 255, 0, 255, 255, 255, 1, 255, 255, 255, 2, 255, 255, 255, 3},
    {255, 255, 255, 4, 255, 255, 255, 5, 255, 255, 255, 6, 255, 255, 255, 7},
    {255, 255, 255, 8, 255, 255, 255, 9, 255, 255, 255, 10, 255, 255, 255, 11},
    {255, 255, 255, 12, 255, 255, 255, 13, 255, 255, 255, 14, 255, 255, 255, 15},
  };
  return vreinterpretq_u32_u8(vqtbl1q_u8(v, vld1q_u8(index[quarter])));
}

/* Sixteen bytes to floats, divided by 2^(point - 24). A macro, because the instruction takes the point as a constant. */
#define LANES_FROM_BYTES(name, vec, to_u8, from_u32, convert, point)                                           \
  INLINE lanes name(vec v) {                                                                                   \
    return (lanes){convert(from_u32(spread_bytes(to_u8(v), 0)), point), convert(from_u32(spread_bytes(to_u8(v), 1)), point), \
                   convert(from_u32(spread_bytes(to_u8(v), 2)), point), convert(from_u32(spread_bytes(to_u8(v), 3)), point)}; \
  }
#define AS_IS(v) (v)
LANES_FROM_BYTES(lanes_from_s8, int8x16_t, vreinterpretq_u8_s8, vreinterpretq_s32_u32, vcvtq_n_f32_s32, 24)
LANES_FROM_BYTES(lanes_from_s8_4ths, int8x16_t, vreinterpretq_u8_s8, vreinterpretq_s32_u32, vcvtq_n_f32_s32, 26)
LANES_FROM_BYTES(lanes_from_s8_8ths, int8x16_t, vreinterpretq_u8_s8, vreinterpretq_s32_u32, vcvtq_n_f32_s32, 27)
LANES_FROM_BYTES(lanes_from_u8, uint8x16_t, AS_IS, AS_IS, vcvtq_n_f32_u32, 24)
LANES_FROM_BYTES(lanes_from_u8_8ths, uint8x16_t, AS_IS, AS_IS, vcvtq_n_f32_u32, 27)
#undef AS_IS
#undef LANES_FROM_BYTES

/* ---- narrow codes: look up --------------------------------------------------------------------------------------------------------- */

/* Sixteen floats whose lower halves are zero: the upper bytes of each, and the bytes below. */
typedef struct codebook {
  uint8x16_t high, low;
} codebook;

INLINE codebook codebook_of(lanes v) {
  uint16x8_t ab = vuzp2q_u16(vreinterpretq_u16_f32(v.a), vreinterpretq_u16_f32(v.b));
  uint16x8_t cd = vuzp2q_u16(vreinterpretq_u16_f32(v.c), vreinterpretq_u16_f32(v.d));
  uint8x16_t first = vreinterpretq_u8_u16(ab), last = vreinterpretq_u8_u16(cd);
  return (codebook){.high = vuzp2q_u8(first, last), .low = vuzp1q_u8(first, last)};
}

INLINE codebook codebook_of_s8(const int8_t *values) { return codebook_of(lanes_from_s8(vld1q_s8(values))); }

/* first, first + 1, ... first + 15, where first is -8 to 0. */
INLINE codebook codebook_from(const int first) {
  static const float numbers[24] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return codebook_of(lanes_load(numbers + 8 + first));
}

INLINE lanes codebook_read(codebook book, uint8x16_t codes) {
  uint8x16_t high = vqtbl1q_u8(book.high, codes), low = vqtbl1q_u8(book.low, codes);
  uint16x8_t zero = vdupq_n_u16(0), first = vreinterpretq_u16_u8(vzip1q_u8(low, high)), last = vreinterpretq_u16_u8(vzip2q_u8(low, high));
  return (lanes){vreinterpretq_f32_u16(vzip1q_u16(zero, first)), vreinterpretq_f32_u16(vzip2q_u16(zero, first)),
                 vreinterpretq_f32_u16(vzip1q_u16(zero, last)), vreinterpretq_f32_u16(vzip2q_u16(zero, last))};
}

/* Low and high nibbles of sixteen bytes. */
INLINE uint8x16_t low_nibbles(uint8x16_t v) { return vandq_u8(v, vdupq_n_u8(0x0f)); }
INLINE uint8x16_t high_nibbles(uint8x16_t v) { return vshrq_n_u8(v, 4); }

/* ---- four values: look up the products ---------------------------------------------------------------------------------------------- */

/* With two-bit codes, the values of a group are the four floats of one register, and a code is the place of four bytes in it.
 * Bits 2 and 3 of each byte of v are the codes; other bits do not matter. They are cleared in v and the places added by a plain or:
 * of a bit selection clang makes two instructions for each of the four. */
INLINE lanes quad_read(float32x4_t values, uint8x16_t v) {
  static const uint8_t index[4][16] = {
    {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3},
    {4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7},
    {8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 11, 11, 11, 11},
    {12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15},
  };
  uint8x16_t table = vreinterpretq_u8_f32(values), code = vandq_u8(v, vdupq_n_u8(0x0c)), at[4];
  uint8x16_t byte = vreinterpretq_u8_u32(vdupq_n_u32(0x03020100));
  UNROLL_DECODE for (int i = 0; i < 4; i++) at[i] = vorrq_u8(vqtbl1q_u8(code, vld1q_u8(index[i])), byte);
  return (lanes){vreinterpretq_f32_u8(vqtbl1q_u8(table, at[0])), vreinterpretq_f32_u8(vqtbl1q_u8(table, at[1])),
                 vreinterpretq_f32_u8(vqtbl1q_u8(table, at[2])), vreinterpretq_f32_u8(vqtbl1q_u8(table, at[3]))};
}

#endif
