/* fmt_float.h: the small float types that scales are stored in, widened to float32 exactly, and loads without alignment.
 *
 * Bytes are composed by shifts, so the same value comes out on every machine; compilers turn that into one load.
 */
#ifndef IJ_QUANT_FMT_FLOAT_H
#define IJ_QUANT_FMT_FLOAT_H

#include <string.h>

#include "core/base.h"

static inline uint16_t ij__fmt_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static inline uint32_t ij__fmt_u32(const uint8_t *p) { return ij__fmt_u16(p) | (uint32_t)ij__fmt_u16(p + 2) << 16; }

static inline float ij__fmt_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* A NaN comes out quiet, as the processors' own instructions do. */
static inline float ij__fmt_from_f16(uint16_t h) {
  uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x03ffu;
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  if (exponent == 0x1f) return ij__fmt_bits(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x00400000u : 0u));
  if (exponent != 0) return ij__fmt_bits(sign | (exponent + 112u) << 23 | mantissa << 13);
  float x = (float)mantissa * 0x1p-24f;
  return sign ? -x : x;
}

static inline float ij__fmt_f16(const uint8_t *p) { return ij__fmt_from_f16(ij__fmt_u16(p)); }

static inline float ij__fmt_bf16(const uint8_t *p) { return ij__fmt_bits((uint32_t)ij__fmt_u16(p) << 16); }

static inline float ij__fmt_f32(const uint8_t *p) { return ij__fmt_bits(ij__fmt_u32(p)); }

/* 2^(e - 127); 255 is NaN. */
static inline float ij__fmt_e8m0(uint8_t e) {
  if (e == 0) return 0x1p-127f;
  return ij__fmt_bits(e == 255 ? 0x7fc00000u : (uint32_t)e << 23);
}

#endif
