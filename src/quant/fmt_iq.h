/* fmt_iq.h: the IQ formats of GGUF, bytes to float32: codes are indices into codebooks of four or eight values (iq_tables.c).
 *
 * All products are exact (fmt_basic.h says why), so kernels may group scale, codebook value and sign as they like.
 */
#ifndef IJ_QUANT_FMT_IQ_H
#define IJ_QUANT_FMT_IQ_H

#include "quant/fmt_float.h"

extern const uint64_t ij__iq1_grid[2048];
extern const uint64_t ij__iq2_xxs_grid[256];
extern const uint64_t ij__iq2_xs_grid[512];
extern const uint64_t ij__iq2_s_grid[1024];
extern const uint32_t ij__iq3_xxs_grid[256];
extern const uint32_t ij__iq3_s_grid[512];
extern const uint8_t ij__iq_signs[128];
extern const int8_t ij__iq4_values[16];

/* y[i] = scale * byte i of the entry, which is not 0, negated where bit i of signs is set; n of 4 or 8 values. */
static inline void ij__fmt_grid(float *y, float scale, uint64_t entry, int signs, int n) {
  for (int i = 0; i < n; i++) {
    int magnitude = (int)(entry >> (8 * i) & 0xff), sign = signs >> i & 1;
    y[i] = scale * (float)((magnitude ^ -sign) + sign);
  }
}

/* f16 d; per 32 values: four bytes of grid indices, then 28 bits of signs (seven per eight values) and a 4-bit scale.
 * y = d * (scale + 1/2) / 4 * grid */
static inline void ij__fmt_iq2_xxs(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int g = 0; g < 8; g++) {
    const uint8_t *codes = b + 2 + 8 * g;
    uint32_t word = ij__fmt_u32(codes + 4);
    float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
    for (int i = 0; i < 4; i++) {
      ij__fmt_grid(y + 32 * g + 8 * i, scale, ij__iq2_xxs_grid[codes[i]], ij__iq_signs[word >> (7 * i) & 0x7f], 8);
    }
  }
}

/* Scale of 16 values from a nibble of IQ2_XS and IQ2_S; the low nibble comes first. */
static inline float ij__fmt_iq2_scale(float d, const uint8_t *scales, int g) {
  return d * (0.5f + (float)(scales[g / 2] >> (g % 2 * 4) & 0x0f)) * 0.25f;
}

/* f16 d; per 8 values a u16: nine bits of grid index, seven of signs; 8 bytes of 4-bit scales per 16 values. Scaled as IQ2_XXS. */
static inline void ij__fmt_iq2_xs(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 32; i++) {
    uint16_t code = ij__fmt_u16(b + 2 + 2 * i);
    ij__fmt_grid(y + 8 * i, ij__fmt_iq2_scale(d, b + 66, i / 2), ij__iq2_xs_grid[code & 511], ij__iq_signs[code >> 9], 8);
  }
}

/* f16 d; per 8 values a byte of grid index, 32 bytes of signs, 8 bytes with two more bits of index, lowest first; scales as IQ2_XS. */
static inline void ij__fmt_iq2_s(float *y, const void *block) {
  const uint8_t *b = block, *signs = b + 34, *high = b + 66;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 32; i++) {
    int index = b[2 + i] | (high[i / 4] >> (i % 4 * 2) & 3) << 8;
    ij__fmt_grid(y + 8 * i, ij__fmt_iq2_scale(d, b + 74, i / 2), ij__iq2_s_grid[index], signs[i], 8);
  }
}

/* f16 d; 64 bytes of grid index, one per 4 values; per 32 values a u32 of signs and scale as in IQ2_XXS.
 * y = d * (scale + 1/2) / 2 * grid */
static inline void ij__fmt_iq3_xxs(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 64; i++) {
    uint32_t word = ij__fmt_u32(b + 66 + i / 8 * 4);
    float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
    int signs = ij__iq_signs[word >> (i % 8 / 2 * 7) & 0x7f];
    ij__fmt_grid(y + 4 * i, scale, ij__iq3_xxs_grid[b[2 + i]], signs >> (i % 2 * 4), 4);
  }
}

/* f16 d; 64 bytes of grid index, one per 4 values, 8 bytes with a ninth bit of index, 32 bytes of signs, 4 bytes of 4-bit scales per
 * 32 values. y = d * (2 * scale + 1) * grid */
static inline void ij__fmt_iq3_s(float *y, const void *block) {
  const uint8_t *b = block, *high = b + 66, *signs = b + 74, *scales = b + 106;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 64; i++) {
    int index = b[2 + i] | (high[i / 8] >> (i % 8) & 1) << 8;
    float scale = d * (float)(2 * (scales[i / 16] >> (i / 8 % 2 * 4) & 0x0f) + 1);
    ij__fmt_grid(y + 4 * i, scale, ij__iq3_s_grid[index], signs[i / 2] >> (i % 2 * 4), 4);
  }
}

/* Eight values: scale * (grid +- 1/8), the grid bytes being signed. */
static inline void ij__fmt_iq1_grid(float *y, float scale, int index, bool negative) {
  uint64_t entry = ij__iq1_grid[index];
  float delta = negative ? -0.125f : 0.125f;
  for (int i = 0; i < 8; i++) y[i] = scale * ((float)(int8_t)(entry >> (8 * i) & 0xff) + delta);
}

/* f16 d; per 8 values a byte of grid index; per 32 values a u16: four times three more bits of index, a 3-bit scale, and bit 15: the
 * sign of delta. y = d * (2 * scale + 1) * (grid +- 1/8) */
static inline void ij__fmt_iq1_s(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 32; i++) {
    int word = ij__fmt_u16(b + 34 + i / 4 * 2);
    float scale = d * (float)(2 * (word >> 12 & 7) + 1);
    ij__fmt_iq1_grid(y + 8 * i, scale, b[2 + i] | (word >> (i % 4 * 3) & 7) << 8, word >> 15);
  }
}

/* The F16 scale of an IQ1_M block: four bits at the top of each of the four u16 of scales, lowest bits first. */
static inline float ij__fmt_iq1_m_scale(const uint8_t *scales) {
  uint8_t d[2] = {(uint8_t)(scales[1] >> 4 | (scales[3] & 0xf0)), (uint8_t)(scales[5] >> 4 | (scales[7] & 0xf0))};
  return ij__fmt_f16(d);
}

/* Per 8 values a byte of grid index and a nibble: three more bits of index, and the sign of delta; per 64 values a u16: four times a
 * 3-bit scale of 16 values, and a quarter of d. Valued as IQ1_S. */
static inline void ij__fmt_iq1_m(float *y, const void *block) {
  const uint8_t *b = block, *high = b + 32, *scales = b + 48;
  float d = ij__fmt_iq1_m_scale(scales);
  for (int i = 0; i < 32; i++) {
    int nibble = high[i / 2] >> (i % 2 * 4) & 0x0f;
    int s = ij__fmt_u16(scales + i / 8 * 2) >> (i % 8 / 2 * 3) & 7;
    ij__fmt_iq1_grid(y + 8 * i, d * (float)(2 * s + 1), b[i] | (nibble & 7) << 8, nibble >> 3);
  }
}

/* f16 d; nibbles as in Q4_0, indices of ij__iq4_values. */
static inline void ij__fmt_iq4_nl(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int i = 0; i < 16; i++) {
    y[i] = d * (float)ij__iq4_values[b[2 + i] & 0x0f];
    y[i + 16] = d * (float)ij__iq4_values[b[2 + i] >> 4];
  }
}

/* f16 d; scales of 32 values, -32 to 31: two high bits each in a u16, low nibbles in 4 bytes; 128 bytes of nibbles, 16 per 32 values. */
static inline void ij__fmt_iq4_xs(float *y, const void *block) {
  const uint8_t *b = block;
  float d = ij__fmt_f16(b);
  for (int g = 0; g < 8; g++) {
    int low = b[4 + g / 2] >> (g % 2 * 4) & 0x0f, high = ij__fmt_u16(b + 2) >> (2 * g) & 3;
    float scale = d * (float)((low | high << 4) - 32);
    const uint8_t *codes = b + 8 + 16 * g;
    for (int i = 0; i < 16; i++) {
      y[32 * g + i] = scale * (float)ij__iq4_values[codes[i] & 0x0f];
      y[32 * g + 16 + i] = scale * (float)ij__iq4_values[codes[i] >> 4];
    }
  }
}

#endif
