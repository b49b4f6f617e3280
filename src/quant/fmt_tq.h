/* fmt_tq.h: the ternary formats of GGUF, bytes to float32: values are d times -1, 0 or 1 (TQ2_0 can also spell 2). Exact. */
#ifndef IJ_QUANT_FMT_TQ_H
#define IJ_QUANT_FMT_TQ_H

#include "quant/fmt_float.h"

/* Digit n, the leading one first, of a byte that is ceil(v * 256 / 243) for a five-digit number v of base 3. */
static inline int ij__fmt_trit(uint8_t byte, int n) {
  static const uint8_t power[5] = {1, 3, 9, 27, 81};
  return (uint8_t)(byte * power[n]) * 3 >> 8;
}

/* 32 bytes: digit n of byte i is value 32 * n + i; 16 bytes: value 160 + 16 * n + i; 4 bytes, four digits each: value
 * 240 + 4 * n + i; f16 d. y = d * (digit - 1) */
static inline void ij__fmt_tq1_0(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b + 52);
  for (int i = 0; i < 160; i++) y[i] = d * (float)(ij__fmt_trit(b[i % 32], i / 32) - 1);
  for (int i = 0; i < 80; i++) y[160 + i] = d * (float)(ij__fmt_trit(b[32 + i % 16], i / 16) - 1);
  for (int i = 0; i < 16; i++) y[240 + i] = d * (float)(ij__fmt_trit(b[48 + i % 4], i / 4) - 1);
}

/* 64 bytes of 2-bit codes placed as in Q2_K; f16 d. y = d * (code - 1) */
static inline void ij__fmt_tq2_0(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b + 64);
  for (int g = 0; g < 8; g++) {
    for (int i = 0; i < 32; i++) y[32 * g + i] = d * (float)((b[g / 4 * 32 + i] >> (g % 4 * 2) & 3) - 1);
  }
}

#endif
