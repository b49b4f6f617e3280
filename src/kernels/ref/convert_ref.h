/* convert_ref.h: BF16 and F16 to and from float32, one value at a time, by integer operations on the bits.
 *
 * NaN: narrowing keeps the sign and the leading payload bits and makes it quiet, as the processors' own F16 instructions do;
 * widening F16 makes it quiet too, widening BF16 is a shift.
 */
#ifndef IJ_KERNELS_REF_CONVERT_REF_H
#define IJ_KERNELS_REF_CONVERT_REF_H

#include "kernels/ref/lanes_ref.h"
#include "quant/fmt_float.h"

static inline float ij__ref_from_bf16(uint16_t h) { return ij__ref_float((uint32_t)h << 16); }

static inline uint16_t ij__ref_to_bf16(float x) {
  uint32_t bits = ij__ref_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x0040u);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float ij__ref_from_f16(uint16_t h) { return ij__fmt_from_f16(h); }

static inline uint16_t ij__ref_to_f16(float x) {
  uint32_t bits = ij__ref_bits(x);
  uint32_t sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x03ffu));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520, the first value that rounds to 2^16 */
  if (a < 0x38800000u) {                                   /* below 2^-14: adding 1/2 rounds to a multiple of 2^-24 */
    return (uint16_t)(sign | (ij__ref_bits(ij__ref_float(a) + 0.5f) - ij__ref_bits(0.5f)));
  }
  return (uint16_t)(sign | ((a - 0x38000000u + 0x0fffu + ((a >> 13) & 1u)) >> 13));
}

#endif
