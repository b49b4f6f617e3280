/* fmt_k.h: the 256-value blocks Q2_K to Q6_K of GGUF, bytes to float32. Groups of 16 or 32 values have their own small scales.
 *
 * Products are exact; fmt_basic.h says why.
 */
#ifndef IJ_QUANT_FMT_K_H
#define IJ_QUANT_FMT_K_H

#include "quant/fmt_float.h"

/* 16 bytes: scale (low nibble) and offset (high) of each 16 values; 64 bytes of 2-bit codes; f16 d, f16 dmin.
 * Within each half of 128 values, code j * 32 + i lies in bits 2j of byte i of the half's 32. y = d * scale * code - dmin * offset */
static inline void ij__fmt_q2_k(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b + 80), dmin = ij__fmt_f16(b + 82);
  for (int g = 0; g < 16; g++) {
    float ds = d * (float)(b[g] & 0x0f), dm = dmin * (float)(b[g] >> 4);
    const uint8_t *codes = b + 16 + g / 8 * 32 + g % 2 * 16;
    for (int i = 0; i < 16; i++) y[16 * g + i] = ds * (float)(codes[i] >> (g % 8 / 2 * 2) & 3) - dm;
  }
}

/* The same block as integers: value i is d * v[i] - dmin * o[i / 16]. */
static inline void ij__fmt_q2_k_ints(int *v, int *o, float *d, float *dmin, const void *block) {
  const uint8_t *b = block;
  *d = ij__fmt_f16(b + 80);
  *dmin = ij__fmt_f16(b + 82);
  for (int g = 0; g < 16; g++) {
    const uint8_t *codes = b + 16 + g / 8 * 32 + g % 2 * 16;
    o[g] = b[g] >> 4;
    for (int i = 0; i < 16; i++) v[16 * g + i] = (b[g] & 0x0f) * (codes[i] >> (g % 8 / 2 * 2) & 3);
  }
}

/* Scale g of the 16 in Q3_K's 12 bytes, -32 to 31: low nibbles of bytes 0 to 7, then the high ones; the two bits above them are in
 * bytes 8 to 11. */
static inline int ij__fmt_q3_k_scale(const uint8_t *s, int g) {
  int low = g < 8 ? s[g] & 0x0f : s[g - 8] >> 4;
  return (low | (s[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32;
}

/* 32 bytes of third bits, value i in bit i / 32 of byte i % 32; 64 bytes with the two bits below, placed as in Q2_K; 12 bytes of
 * scales; f16 d. y = d * scale * (code - 4) */
static inline void ij__fmt_q3_k(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b + 108);
  for (int g = 0; g < 16; g++) {
    float ds = d * (float)ij__fmt_q3_k_scale(b + 96, g);
    const uint8_t *high = b + g % 2 * 16, *codes = b + 32 + g / 8 * 32 + g % 2 * 16;
    for (int i = 0; i < 16; i++) {
      int code = (codes[i] >> (g % 8 / 2 * 2) & 3) | (high[i] >> (g / 2) & 1) << 2;
      y[16 * g + i] = ds * (float)(code - 4);
    }
  }
}

/* Scale and offset g of the 8 in the 12 bytes of Q4_K and Q5_K, 0 to 63. */
static inline void ij__fmt_q4_k_scale(const uint8_t *s, int g, int *scale, int *offset) {
  if (g < 4) {
    *scale = s[g] & 0x3f;
    *offset = s[g + 4] & 0x3f;
  } else {
    *scale = (s[g + 4] & 0x0f) | (s[g - 4] >> 6) << 4;
    *offset = s[g + 4] >> 4 | (s[g] >> 6) << 4;
  }
}

/* f16 d, f16 dmin, 12 bytes of scales and offsets per 32 values, 128 bytes of nibbles: 32 bytes hold 32 values in their low
 * nibbles and the next 32 in their high ones. y = d * scale * code - dmin * offset */
static inline void ij__fmt_q4_k(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b), dmin = ij__fmt_f16(b + 2);
  for (int g = 0; g < 8; g++) {
    int scale, offset;
    ij__fmt_q4_k_scale(b + 4, g, &scale, &offset);
    float ds = d * (float)scale, dm = dmin * (float)offset;
    const uint8_t *codes = b + 16 + g / 2 * 32;
    for (int i = 0; i < 32; i++) y[g * 32 + i] = ds * (float)(codes[i] >> (g % 2 * 4) & 0x0f) - dm;
  }
}

/* The same block as integers: value i is d * v[i] - dmin * o[i / 32]. */
static inline void ij__fmt_q4_k_ints(int *v, int *o, float *d, float *dmin, const void *block) {
  const uint8_t *b = block;
  *d = ij__fmt_f16(b);
  *dmin = ij__fmt_f16(b + 2);
  for (int g = 0; g < 8; g++) {
    int scale;
    ij__fmt_q4_k_scale(b + 4, g, &scale, &o[g]);
    const uint8_t *codes = b + 16 + g / 2 * 32;
    for (int i = 0; i < 32; i++) v[g * 32 + i] = scale * (codes[i] >> (g % 2 * 4) & 0x0f);
  }
}

/* As Q4_K with 32 bytes of fifth bits before the nibbles, value i in bit i / 32 of byte i % 32. */
static inline void ij__fmt_q5_k(float *y, const void *block) {
  const uint8_t *b = block, *high = b + 16;
  float d = ij__fmt_f16(b), dmin = ij__fmt_f16(b + 2);
  for (int g = 0; g < 8; g++) {
    int scale, offset;
    ij__fmt_q4_k_scale(b + 4, g, &scale, &offset);
    float ds = d * (float)scale, dm = dmin * (float)offset;
    const uint8_t *codes = b + 48 + g / 2 * 32;
    for (int i = 0; i < 32; i++) {
      int code = (codes[i] >> (g % 2 * 4) & 0x0f) | (high[i] >> g & 1) << 4;
      y[g * 32 + i] = ds * (float)code - dm;
    }
  }
}

/* 128 bytes of low nibbles: within each half of 128 values, 64 bytes hold 64 values in their low nibbles and 64 in their high ones;
 * 64 bytes of bits 4 and 5, placed as the codes of Q2_K; 16 signed byte scales, one per 16 values; f16 d. y = d * scale * (code - 32) */
static inline void ij__fmt_q6_k(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b + 208);
  for (int g = 0; g < 16; g++) {
    float ds = d * (float)(int8_t)b[192 + g];
    const uint8_t *low = b + g / 8 * 64 + g % 4 * 16, *high = b + 128 + g / 8 * 32 + g % 2 * 16;
    for (int i = 0; i < 16; i++) {
      int code = (low[i] >> (g % 8 / 4 * 4) & 0x0f) | (high[i] >> (g % 8 / 2 * 2) & 3) << 4;
      y[16 * g + i] = ds * (float)(code - 32);
    }
  }
}

#endif
