/* fmt_fp4.h: small floats, bytes to float32: MXFP4 and NVFP4 blocks of GGUF, and the split types nvfp4, mxfp4 and mxfp8.
 *
 * The blocks and the split types differ in the order of nibbles, and in code 8: +0 in a block, whose codes are integers (twice the
 * E2M1 value, against half the scale), -0 in a split type. Products are exact but for overflow; a NaN scale makes NaN.
 */
#ifndef IJ_QUANT_FMT_FP4_H
#define IJ_QUANT_FMT_FP4_H

#include "quant/fmt_float.h"

extern const float ij__e4m3[256];      /* NaN at 0x7f and 0xff */
extern const float ij__e2m1[16];       /* 0 to 6, then -0 to -6 */
extern const int8_t ij__e2m1_twice[16]; /* 0 to 12, then 0 to -12 */

/* 2^(e - 128), the scale of MXFP4 blocks; 255 is NaN (the gguf package reads a number there, which no file has a reason to hold). */
static inline float ij__fmt_e8m0_half(uint8_t e) {
  if (e < 2) return ij__fmt_bits(0x00200000u << e);
  return ij__fmt_bits(e == 255 ? 0x7fc00000u : (uint32_t)(e - 1) << 23);
}

/* E8M0 scale; nibbles as in Q4_0, indices of ij__e2m1_twice. */
static inline void ij__fmt_mxfp4(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_e8m0_half(b[0]);
  for (int i = 0; i < 16; i++) {
    y[i] = d * (float)ij__e2m1_twice[b[1 + i] & 0x0f];
    y[i + 16] = d * (float)ij__e2m1_twice[b[1 + i] >> 4];
  }
}

/* Half an unsigned E4M3, the scale of NVFP4 blocks: bit 7 has no meaning; 127 is NaN (the gguf package reads 0, which hides it). */
static inline float ij__fmt_ue4m3_half(uint8_t e) { return ij__e4m3[e & 0x7f] * 0.5f; }

/* Four unsigned E4M3 scales of 16 values; per 16 values 8 bytes: value i in the low nibble of byte i, value i + 8 in the high one. */
static inline void ij__fmt_nvfp4(float *y, const void *block) {
  const uint8_t *b = block;
  for (int g = 0; g < 4; g++) {
    float d = ij__fmt_ue4m3_half(b[g]);
    const uint8_t *codes = b + 4 + 8 * g;
    for (int i = 0; i < 8; i++) {
      y[16 * g + i] = d * (float)ij__e2m1_twice[codes[i] & 0x0f];
      y[16 * g + 8 + i] = d * (float)ij__e2m1_twice[codes[i] >> 4];
    }
  }
}

/* n E2M1 values, an even number: value 2i in the low nibble of byte i, 2i + 1 in the high one. */
static inline void ij__fmt_fp4_group(float *y, const uint8_t *codes, float scale, int n) {
  for (int i = 0; i < n; i++) y[i] = ij__e2m1[codes[i / 2] >> (i % 2 * 4) & 0x0f] * scale;
}

/* One group of a split type: 16 values in 8 bytes and an E4M3 scale, which may be negative. */
static inline void ij__fmt_nvfp4_split(float *y, const uint8_t *codes, uint8_t scale) {
  ij__fmt_fp4_group(y, codes, ij__e4m3[scale], 16);
}

/* 32 values in 16 bytes and an E8M0 scale. */
static inline void ij__fmt_mxfp4_split(float *y, const uint8_t *codes, uint8_t scale) {
  ij__fmt_fp4_group(y, codes, ij__fmt_e8m0(scale), 32);
}

/* 32 E4M3 values and an E8M0 scale. */
static inline void ij__fmt_mxfp8_split(float *y, const uint8_t *codes, uint8_t scale) {
  float d = ij__fmt_e8m0(scale);
  for (int i = 0; i < 32; i++) y[i] = ij__e4m3[codes[i]] * d;
}

#endif
