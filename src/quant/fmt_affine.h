/* fmt_affine.h: the affine formats of MLX, codes of 2, 3, 4, 5, 6 or 8 bits with a scale and a bias per group, bytes to float32.
 *
 * One value is scale * code + bias. With BF16 or F16 sidecars it is that number rounded once (fused); the product of a scale and a
 * code is exact there, so rounding twice is the same unless the product overflows. With F32 sidecars product and sum are rounded
 * separately, which is what mx.dequantize does in float32: its results are these, bit for bit, for all three when asked in float32.
 */
#ifndef IJ_QUANT_FMT_AFFINE_H
#define IJ_QUANT_FMT_AFFINE_H

#include <math.h>

#include "core/dtype.h"
#include "quant/fmt_float.h"

static inline int ij__fmt_affine_bits(ij_dtype t) {
  static const uint8_t bits[] = {2, 3, 4, 5, 6, 8};
  return bits[t - IJ_DTYPE_AFFINE2];
}

/* Code i of a row, whose codes are one little-endian stream of bits. Reads only bytes that hold bits of the code. */
static inline int ij__fmt_affine_code(const uint8_t *row, int bits, int64_t i) {
  const uint8_t *p = row + (i * bits >> 3);
  int shift = (int)(i * bits & 7);
  int word = shift + bits > 8 ? ij__fmt_u16(p) : p[0];
  return word >> shift & ((1 << bits) - 1);
}

/* Element i of a row of scales or biases. */
static inline float ij__fmt_side(const void *row, ij_dtype dtype, int64_t i) {
  const uint8_t *p = row;
  if (dtype == IJ_DTYPE_F32) return ij__fmt_f32(p + 4 * i);
  return dtype == IJ_DTYPE_BF16 ? ij__fmt_bf16(p + 2 * i) : ij__fmt_f16(p + 2 * i);
}

/* Values c0 to c0 + n of a row; both multiples of the group. */
static inline void ij__fmt_affine(float *y, const uint8_t *row, int bits, const void *scales, const void *biases, ij_dtype side_dtype,
                                  int group, int64_t c0, int64_t n) {
  for (int64_t g = c0 / group; g < (c0 + n) / group; g++) {
    float scale = ij__fmt_side(scales, side_dtype, g), bias = ij__fmt_side(biases, side_dtype, g);
    for (int i = 0; i < group; i++) {
      float code = (float)ij__fmt_affine_code(row, bits, g * group + i);
      *y++ = side_dtype == IJ_DTYPE_F32 ? scale * code + bias : fmaf(scale, code, bias);
    }
  }
}

#endif
