/* fmt_basic.h: the 32-value blocks Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 of GGUF, bytes to float32.
 *
 * All formats of these headers share one property that vector code may use: a block's scales are F16, and scale times sub-scale times
 * code has at most 24 significant bits and lies in the normal range of float32 or is zero, so every product below is exact in any
 * grouping. The only rounding is that of adding an offset (Q4_1, Q5_1, Q2_K, Q4_K, Q5_K), which a fused multiply-add rounds alike.
 */
#ifndef IJ_QUANT_FMT_BASIC_H
#define IJ_QUANT_FMT_BASIC_H

#include "quant/fmt_float.h"

/* f16 d; 16 bytes: value i in the low nibble of byte i, value i + 16 in its high nibble; y = d * (code - 8) */
static inline void ij__fmt_q4_0(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 16; i++) {
    y[i] = d * (float)((b[2 + i] & 0x0f) - 8);
    y[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
  }
}

/* f16 d, f16 m; codes as Q4_0; y = d * code + m */
static inline void ij__fmt_q4_1(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b), m = ij__fmt_f16(b + 2);
  for (int i = 0; i < 16; i++) {
    y[i] = d * (float)(b[4 + i] & 0x0f) + m;
    y[i + 16] = d * (float)(b[4 + i] >> 4) + m;
  }
}

/* Code i of 32: four bits as in Q4_0, and bit i of `high` above them. */
static inline int ij__fmt_five_bits(const uint8_t *nibbles, uint32_t high, int i) {
  int low = i < 16 ? nibbles[i] & 0x0f : nibbles[i - 16] >> 4;
  return low | (int)((high >> i) & 1u) << 4;
}

/* f16 d, u32 fifth bits, 16 bytes of nibbles; y = d * (code - 16) */
static inline void ij__fmt_q5_0(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  uint32_t high = ij__fmt_u32(b + 2);
  for (int i = 0; i < 32; i++) y[i] = d * (float)(ij__fmt_five_bits(b + 6, high, i) - 16);
}

/* f16 d, f16 m, u32 fifth bits, 16 bytes of nibbles; y = d * code + m */
static inline void ij__fmt_q5_1(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b), m = ij__fmt_f16(b + 2);
  uint32_t high = ij__fmt_u32(b + 4);
  for (int i = 0; i < 32; i++) y[i] = d * (float)ij__fmt_five_bits(b + 8, high, i) + m;
}

/* f16 d, 32 signed bytes; y = d * code */
static inline void ij__fmt_q8_0(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 32; i++) y[i] = d * (float)(int8_t)b[2 + i];
}

#endif
