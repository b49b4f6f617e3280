/* decode_iq_avx2.h: the IQ blocks to float32 with 256-bit registers, one block a call. Values are those of quant/fmt_iq.h.
 *
 * Where the codebook fits the first-level cache as floats, eight values are one multiplication by the scale and one exclusive or of
 * the signs, both from memory (iq_floats.h). The large codebooks of IQ1 and IQ2_S are kept as two-bit codes, which look up the three
 * values that their group can have.
 */
#ifndef IJ_KERNELS_X86_DECODE_IQ_AVX2_H
#define IJ_KERNELS_X86_DECODE_IQ_AVX2_H

#include "kernels/iq_floats.h"
#include "kernels/x86/decode_avx2.h"
#include "quant/fmt_iq.h"

IJ_AVX2 __m256 ij__signed_avx2(__m256 v, const uint32_t *signs) {
  return _mm256_xor_ps(v, _mm256_load_ps((const float *)(const void *)signs));
}

/* The four magnitudes of each of two entries. */
IJ_AVX2 __m256 ij__two_fours(const float *a, const float *b) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
}

/* d * (n + 1/2) * unit for the sixteen nibbles of 8 bytes, the low one first. */
IJ_AVX2 void ij__nibble_scales(float out[16], __m256 d, __m128i nibbles, float unit) {
  uint8_t bytes[16];
  __m128i low = _mm_and_si128(nibbles, _mm_set1_epi8(15)), high = _mm_and_si128(_mm_srli_epi16(nibbles, 4), _mm_set1_epi8(15));
  _mm_storeu_si128((__m128i *)(void *)bytes, _mm_unpacklo_epi8(low, high));
  IJ_IN_MEMORY(bytes);
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256 s = _mm256_add_ps(ij__floats_u8(bytes + 8 * i), _mm256_set1_ps(0.5f));
    _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(_mm256_mul_ps(d, s), _mm256_set1_ps(unit)));
  }
}

/* d * (s + 1/2) * unit for the scales in the top four bits of eight words. */
IJ_AVX2 void ij__top_scales(float out[8], __m256 d, __m256i words, float unit) {
  __m256 s = _mm256_add_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(words, 28)), _mm256_set1_ps(0.5f));
  _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_mul_ps(d, s), _mm256_set1_ps(unit)));
}

IJ_AVX2 void ij__iq2_xxs_avx2(float *y, const uint8_t *b) {
  const ij_iq_floats *t = &ij__iq_floats;
  float scale[8];
  __m256i a = ij__load32(b + 2), c = ij__load32(b + 34);
  __m256 odd = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(c), _MM_SHUFFLE(3, 1, 3, 1)); /* words 0 1 4 5 2 3 6 7 */
  ij__top_scales(scale, ij__f16_avx2(b), _mm256_permute4x64_epi64(_mm256_castps_si256(odd), _MM_SHUFFLE(3, 1, 2, 0)), 0.25f);
  IJ_IN_MEMORY(scale);
  for (int g = 0; g < 8; g++, y += 32, b += 8) {
    uint32_t word = ij__load_u32(b + 6);
    __m256 s = _mm256_broadcast_ss(scale + g);
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      __m256 v = _mm256_mul_ps(s, _mm256_load_ps(t->iq2_xxs[b[2 + i]]));
      _mm256_storeu_ps(y + 8 * i, ij__signed_avx2(v, t->signs7[word >> (7 * i) & 0x7f]));
    }
  }
}

IJ_AVX2 void ij__iq2_xs_avx2(float *y, const uint8_t *b) {
  const ij_iq_floats *t = &ij__iq_floats;
  float scale[16];
  ij__nibble_scales(scale, ij__f16_avx2(b), ij__load8(b + 66), 0.25f);
  IJ_IN_MEMORY(scale);
  for (int g = 0; g < 8; g++, y += 32) {
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      uint32_t code = ij__fmt_u16(b + 2 + 8 * g + 2 * i);
      __m256 v = _mm256_mul_ps(_mm256_broadcast_ss(scale + 2 * g + i / 2), _mm256_load_ps(t->iq2_xs[code & 511]));
      _mm256_storeu_ps(y + 8 * i, ij__signed_avx2(v, t->signs7[code >> 9]));
    }
  }
}

/* The values of eight two-bit codes at p, the first lowest; `values` holds one per code, twice. */
IJ_AVX2 __m256 ij__eight_of_three(__m256 values, const uint16_t *p) {
  __m256i codes = _mm256_set1_epi32((int)ij__load_u32(p));
  return _mm256_permutevar_ps(values, _mm256_srlv_epi32(codes, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)));
}

IJ_AVX2 void ij__iq2_s_avx2(float *y, const uint8_t *b) {
  const ij_iq_floats *t = &ij__iq_floats;
  float scale[16];
  ij__nibble_scales(scale, ij__f16_avx2(b), ij__load8(b + 74), 0.25f);
  IJ_IN_MEMORY(scale);
  for (int g = 0; g < 8; g++, y += 32) {
    uint32_t high = (uint32_t)b[66 + g] << 8;
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      __m256 values = _mm256_mul_ps(_mm256_broadcast_ss(scale + 2 * g + i / 2), _mm256_setr_ps(8, 25, 43, 0, 8, 25, 43, 0));
      __m256 v = ij__eight_of_three(values, t->iq2_s + (b[2 + 4 * g + i] | (high >> (2 * i) & 0x300)));
      _mm256_storeu_ps(y + 8 * i, ij__signed_avx2(v, t->signs8[b[34 + 4 * g + i]]));
    }
  }
}

IJ_AVX2 void ij__iq3_xxs_avx2(float *y, const uint8_t *b) {
  const ij_iq_floats *t = &ij__iq_floats;
  float scale[8];
  ij__top_scales(scale, ij__f16_avx2(b), ij__load32(b + 66), 0.5f);
  IJ_IN_MEMORY(scale);
  for (int g = 0; g < 8; g++, y += 32) {
    const uint8_t *codes = b + 2 + 8 * g;
    uint32_t word = ij__load_u32(b + 66 + 4 * g);
    __m256 s = _mm256_broadcast_ss(scale + g);
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      __m256 v = _mm256_mul_ps(s, ij__two_fours(t->iq3_xxs[codes[2 * i]], t->iq3_xxs[codes[2 * i + 1]]));
      _mm256_storeu_ps(y + 8 * i, ij__signed_avx2(v, t->signs7[word >> (7 * i) & 0x7f]));
    }
  }
}

IJ_AVX2 void ij__iq3_s_avx2(float *y, const uint8_t *b) {
  const ij_iq_floats *t = &ij__iq_floats;
  float scale[16];
  ij__nibble_scales(scale, ij__f16_avx2(b), _mm_cvtsi32_si128((int)ij__load_u32(b + 106)), 2.0f);
  IJ_IN_MEMORY(scale);
  for (int g = 0; g < 8; g++, y += 32) {
    const uint8_t *codes = b + 2 + 8 * g;
    uint32_t high = (uint32_t)b[66 + g] << 8;
    __m256 s = _mm256_broadcast_ss(scale + g);
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      const float *first = t->iq3_s[codes[2 * i] | (high >> (2 * i) & 0x100)];
      __m256 v = _mm256_mul_ps(s, ij__two_fours(first, t->iq3_s[codes[2 * i + 1] | (high >> (2 * i + 1) & 0x100)]));
      _mm256_storeu_ps(y + 8 * i, ij__signed_avx2(v, t->signs8[b[74 + 4 * g + i]]));
    }
  }
}

/* The three values of a group, by code: scale * (-1, 0, 1 and delta). */
IJ_AVX2 __m256 ij__iq1_values(__m256 scale, bool negative) {
  static const float values[2][4] = {{-0.875f, 0.125f, 1.125f, 0}, {-1.125f, -0.125f, 0.875f, 0}};
  return _mm256_mul_ps(scale, _mm256_broadcast_ps((const __m128 *)(const void *)values[negative]));
}

IJ_AVX2 void ij__iq1_s_avx2(float *y, const uint8_t *b) {
  const ij_iq_floats *t = &ij__iq_floats;
  float scale[8];
  __m256i s = _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu16_epi32(ij__load16(b + 34)), 11), _mm256_set1_epi32(14));
  _mm256_storeu_ps(scale, _mm256_mul_ps(ij__f16_avx2(b), _mm256_cvtepi32_ps(_mm256_or_si256(s, _mm256_set1_epi32(1)))));
  IJ_IN_MEMORY(scale);
  for (int g = 0; g < 8; g++) {
    uint32_t word = ij__fmt_u16(b + 34 + 2 * g), codes = ij__load_u32(b + 2 + 4 * g);
    __m256 values = ij__iq1_values(_mm256_broadcast_ss(scale + g), word >> 15);
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      uint32_t index = (codes >> (8 * i) & 0xff) | (word >> (3 * i) & 7) << 8;
      _mm256_storeu_ps(y + 32 * g + 8 * i, ij__eight_of_three(values, t->iq1 + index));
    }
  }
}

/* d * (2 * s + 1) for the sixteen three-bit scales of IQ1_M. */
IJ_AVX2 void ij__iq1_m_scales(float out[16], const uint8_t *scales) {
  uint64_t words = ij__load_u64(scales);
  uint64_t bits = (words >> 12 & 0x000f) | (words >> 24 & 0x00f0) | (words >> 36 & 0x0f00) | (words >> 48 & 0xf000);
  __m256 d = _mm256_cvtph_ps(_mm_set1_epi16((short)bits));
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    uint32_t w = (uint32_t)(words >> (32 * i));
    __m256i s = _mm256_srlv_epi32(_mm256_set1_epi32((int)w), _mm256_setr_epi32(0, 3, 6, 9, 16, 19, 22, 25));
    s = _mm256_and_si256(s, _mm256_set1_epi32(7));
    s = _mm256_or_si256(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
    _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(d, _mm256_cvtepi32_ps(s)));
  }
}

IJ_AVX2 void ij__iq1_m_avx2(float *y, const uint8_t *b) {
  const ij_iq_floats *t = &ij__iq_floats;
  float scale[16];
  ij__iq1_m_scales(scale, b + 48);
  IJ_IN_MEMORY(scale);
  IJ_UNROLL for (int i = 0; i < 16; i++) {
    uint32_t high = b[32 + i];
    __m256 s = _mm256_broadcast_ss(scale + i);
    _mm256_storeu_ps(y + 16 * i, ij__eight_of_three(ij__iq1_values(s, high >> 3 & 1), t->iq1 + (b[2 * i] | (high & 7) << 8)));
    _mm256_storeu_ps(y + 16 * i + 8, ij__eight_of_three(ij__iq1_values(s, high >> 7), t->iq1 + (b[2 * i + 1] | (high >> 4 & 7) << 8)));
  }
}

IJ_AVX2 void ij__iq4_nl_avx2(float *y, const uint8_t *b) {
  __m256 f[4];
  ij__codes32(f, ij__nibbles_halves(b + 2), IJ_CODEBOOK(IJ_BOOK_IQ4));
  ij__store_scaled(y, f, ij__f16_avx2(b));
}

/* d times the eight scales of IQ4_XS, -32 to 31. */
IJ_AVX2 void ij__iq4_xs_scales(float out[8], const uint8_t *b) {
  const __m256i place = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  __m256i low = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int)ij__load_u32(b + 4)), place), _mm256_set1_epi32(15));
  __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32((int)ij__fmt_u16(b + 2) << 4), _mm256_srli_epi32(place, 1));
  __m256i s = _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
  _mm256_storeu_ps(out, _mm256_mul_ps(ij__f16_avx2(b), _mm256_cvtepi32_ps(_mm256_sub_epi32(s, _mm256_set1_epi32(32)))));
}

IJ_AVX2 void ij__iq4_xs_avx2(float *y, const uint8_t *b) {
  float scale[8];
  ij__iq4_xs_scales(scale, b);
  IJ_IN_MEMORY(scale);
  IJ_UNROLL for (int g = 0; g < 8; g++) {
    __m256 f[4];
    ij__codes32(f, ij__nibbles_halves(b + 8 + 16 * g), IJ_CODEBOOK(IJ_BOOK_IQ4));
    ij__store_scaled(y + 32 * g, f, _mm256_broadcast_ss(scale + g));
  }
}

#endif
