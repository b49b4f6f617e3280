/* decode_k_avx2.h: the GGUF blocks without codebooks, to float32 with 256-bit registers, one block a call.
 *
 * Values are those of quant/fmt_basic.h, fmt_k.h and fmt_tq.h. All products are exact (fmt_basic.h says why), so scale and sub-scale
 * are multiplied once per group, and a fused operation rounds as the definition does. Two-bit codes look up the four values that
 * their group can have.
 */
#ifndef IJ_KERNELS_X86_DECODE_K_AVX2_H
#define IJ_KERNELS_X86_DECODE_K_AVX2_H

#include "kernels/x86/decode_avx2.h"

/* ---- 32 values ---------------------------------------------------------------------------------------------------------------- */

IJ_AVX2 void ij__q4_0_avx2(float *y, const uint8_t *b) {
  __m256 f[4];
  ij__codes32(f, ij__nibbles_halves(b + 2), IJ_CODEBOOK(IJ_BOOK_M8_7));
  ij__store_scaled(y, f, ij__f16_avx2(b));
}

IJ_AVX2 void ij__q4_1_avx2(float *y, const uint8_t *b) {
  __m256 f[4];
  ij__codes32(f, ij__nibbles_halves(b + 4), IJ_CODEBOOK(IJ_BOOK_0_15));
  ij__store_plus(y, f, ij__f16_avx2(b), ij__f16_avx2(b + 2));
}

/* Nibbles as in Q4_0, as bytes in order. */
IJ_AVX2 __m256i ij__nibbles_in_order(const void *p) {
  __m256i x = _mm256_srlv_epi64(ij__load16_twice(p), _mm256_setr_epi64x(0, 0, 4, 4));
  return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

IJ_AVX2 void ij__q5_0_avx2(float *y, const uint8_t *b) {
  __m256i code = ij__nibbles_in_order(b + 6); /* minus 16 where the fifth bit is clear: the upper bits are all ones */
  code = _mm256_or_si256(code, _mm256_andnot_si256(ij__bits_to_bytes(b + 2), _mm256_set1_epi8((char)0xf0)));
  __m256 f[4];
  ij__floats32_i8(f, code);
  ij__store_scaled(y, f, ij__f16_avx2(b));
}

IJ_AVX2 void ij__q5_1_avx2(float *y, const uint8_t *b) {
  __m256i code = ij__nibbles_in_order(b + 8);
  code = _mm256_or_si256(code, _mm256_and_si256(ij__bits_to_bytes(b + 4), _mm256_set1_epi8(16)));
  __m256 f[4];
  ij__floats32_u8(f, code);
  ij__store_plus(y, f, ij__f16_avx2(b), ij__f16_avx2(b + 2));
}

IJ_AVX2 void ij__q8_0_avx2(float *y, const uint8_t *b) {
  __m256 d = ij__f16_avx2(b);
  IJ_UNROLL for (int i = 0; i < 4; i++) _mm256_storeu_ps(y + 8 * i, _mm256_mul_ps(d, ij__floats_i8(b + 2 + 8 * i)));
}

/* ---- 256 values --------------------------------------------------------------------------------------------------------------- */

/* 16 codes of two bits at bits 2j of each byte: value [i] of what `values` holds four of, twice. */
IJ_AVX2 __m256 ij__two_bits(__m256 values, __m256i codes) { return _mm256_permutevar_ps(values, codes); }

/* The two-bit codes of 128 values: code 32 * j + i in bits 2j of byte i. values[j][h]: the four values, twice, of codes 32 * j +
 * 16 * h and the 15 that follow. */
IJ_AVX2 void ij__two_bits_128(float *y, const uint8_t *codes, __m256 values[4][2]) {
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256i x = _mm256_cvtepu8_epi32(ij__load8(codes + 8 * i));
    _mm256_storeu_ps(y + 8 * i, ij__two_bits(values[0][i / 2], x));
    _mm256_storeu_ps(y + 32 + 8 * i, ij__two_bits(values[1][i / 2], _mm256_srli_epi32(x, 2)));
    _mm256_storeu_ps(y + 64 + 8 * i, ij__two_bits(values[2][i / 2], _mm256_srli_epi32(x, 4)));
    _mm256_storeu_ps(y + 96 + 8 * i, ij__two_bits(values[3][i / 2], _mm256_srli_epi32(x, 6)));
  }
}

IJ_AVX2 void ij__q2_k_avx2(float *y, const uint8_t *b) {
  __m256 d = ij__f16_avx2(b + 80), dmin = ij__f16_avx2(b + 82);
  const __m256 code = _mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3);
  __m128i s = ij__load16(b), low = _mm_set1_epi8(15);
  float scale[16], offset[16];
  uint8_t bytes[32];
  _mm_storeu_si128((__m128i *)(void *)bytes, _mm_and_si128(s, low));
  _mm_storeu_si128((__m128i *)(void *)(bytes + 16), _mm_and_si128(_mm_srli_epi16(s, 4), low));
  IJ_IN_MEMORY(bytes);
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    _mm256_storeu_ps(scale + 8 * i, _mm256_mul_ps(d, ij__floats_u8(bytes + 8 * i)));
    _mm256_storeu_ps(offset + 8 * i, _mm256_mul_ps(dmin, ij__floats_u8(bytes + 16 + 8 * i)));
  }
  IJ_IN_MEMORY(scale);
  IJ_IN_MEMORY(offset);
  IJ_UNROLL for (int half = 0; half < 2; half++) {
    __m256 values[4][2];
    IJ_UNROLL for (int g = 0; g < 8; g++) {
      values[g / 2][g % 2] = _mm256_fmsub_ps(_mm256_broadcast_ss(scale + 8 * half + g), code, _mm256_broadcast_ss(offset + 8 * half + g));
    }
    ij__two_bits_128(y + 128 * half, b + 16 + 32 * half, values);
  }
}

IJ_AVX2 void ij__tq2_0_avx2(float *y, const uint8_t *b) {
  __m256 v = _mm256_mul_ps(ij__f16_avx2(b + 64), _mm256_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2));
  __m256 values[4][2] = {{v, v}, {v, v}, {v, v}, {v, v}};
  ij__two_bits_128(y, b, values);
  ij__two_bits_128(y + 128, b + 32, values);
}

/* y = scale of each 16 * f, 32 values */
IJ_AVX2 void ij__store_scaled_16(float *y, const __m256 f[4], const float *scale) {
  IJ_UNROLL for (int i = 0; i < 4; i++) _mm256_storeu_ps(y + 8 * i, _mm256_mul_ps(_mm256_broadcast_ss(scale + i / 2), f[i]));
}

/* The sixteen scales of Q3_K, -32 to 31. */
IJ_AVX2 __m128i ij__q3_k_scales(const uint8_t *s) {
  uint32_t high = ij__load_u32(s + 8);
  __m128i low = ij__load8(s);
  low = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
  __m128i top = _mm_setr_epi32((int)(high << 4), (int)(high << 2), (int)high, (int)(high >> 2));
  return _mm_sub_epi8(_mm_or_si128(low, _mm_and_si128(top, _mm_set1_epi8(0x30))), _mm_set1_epi8(32));
}

/* d times sixteen signed bytes. */
IJ_AVX2 void ij__scales16(float out[16], __m256 d, __m128i s) {
  int8_t bytes[16];
  _mm_storeu_si128((__m128i *)(void *)bytes, s);
  IJ_IN_MEMORY(bytes);
  IJ_UNROLL for (int i = 0; i < 2; i++) _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(d, ij__floats_i8(bytes + 8 * i)));
}

/* Values 32 * j .. + 31 of a half: two-bit codes in bits 2j of `codes`, third bits in the lowest bit of `high`. */
IJ_AVX2 void ij__q3_k_32(float *y, __m256i codes, __m256i high, const float *scale) {
  /* The inverted third bit is worth -4: bits 2 to 7 are all ones where it is clear. */
  __m256i minus = _mm256_cmpeq_epi8(_mm256_and_si256(high, _mm256_set1_epi8(1)), _mm256_setzero_si256());
  __m256i code = _mm256_or_si256(_mm256_and_si256(codes, _mm256_set1_epi8(3)), _mm256_andnot_si256(_mm256_set1_epi8(3), minus));
  __m256 f[4];
  ij__floats32_i8(f, code);
  ij__store_scaled_16(y, f, scale);
}

IJ_AVX2 void ij__q3_k_avx2(float *y, const uint8_t *b) {
  float scale[16];
  ij__scales16(scale, ij__f16_avx2(b + 108), ij__q3_k_scales(b + 96));
  IJ_IN_MEMORY(scale);
  __m256i high = ij__load32(b);
  IJ_UNROLL for (int half = 0; half < 2; half++) {
    __m256i x = ij__load32(b + 32 + 32 * half);
    IJ_UNROLL for (int j = 0; j < 4; j++) {
      ij__q3_k_32(y + 128 * half + 32 * j, x, high, scale + 8 * half + 2 * j);
      x = _mm256_srli_epi16(x, 2);
      high = _mm256_srli_epi16(high, 1);
    }
  }
}

/* d times the eight scales, and dmin times the eight offsets, of Q4_K and Q5_K. */
IJ_AVX2 void ij__q4_k_scales(float scale[8], float offset[8], const uint8_t *b) {
  uint32_t a = ij__load_u32(b + 4), m = ij__load_u32(b + 8), c = ij__load_u32(b + 12);
  uint32_t bytes[4] = {a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u), m & 0x3f3f3f3fu,
                       (c >> 4 & 0x0f0f0f0fu) | (m >> 2 & 0x30303030u)};
  _mm256_storeu_ps(scale, _mm256_mul_ps(ij__f16_avx2(b), ij__floats_u8(bytes)));
  _mm256_storeu_ps(offset, _mm256_mul_ps(ij__f16_avx2(b + 2), ij__floats_u8(bytes + 2)));
}

IJ_AVX2 void ij__q4_k_avx2(float *y, const uint8_t *b) {
  const ij_codebook book = IJ_CODEBOOK(IJ_BOOK_0_15);
  const __m256i low = _mm256_set1_epi8(15);
  float scale[8], offset[8];
  ij__q4_k_scales(scale, offset, b);
  IJ_IN_MEMORY(scale);
  IJ_IN_MEMORY(offset);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256i x = ij__codes_order(ij__load32(b + 16 + 32 * i));
    __m256 f[4];
    ij__codes32(f, _mm256_and_si256(x, low), book);
    ij__store_minus(y + 64 * i, f, _mm256_broadcast_ss(scale + 2 * i), _mm256_broadcast_ss(offset + 2 * i));
    ij__codes32(f, _mm256_and_si256(_mm256_srli_epi16(x, 4), low), book);
    ij__store_minus(y + 64 * i + 32, f, _mm256_broadcast_ss(scale + 2 * i + 1), _mm256_broadcast_ss(offset + 2 * i + 1));
  }
}

IJ_AVX2 void ij__q5_k_avx2(float *y, const uint8_t *b) {
  const __m256i low = _mm256_set1_epi8(15), fifth = _mm256_set1_epi8(16);
  float scale[8], offset[8];
  ij__q4_k_scales(scale, offset, b);
  IJ_IN_MEMORY(scale);
  IJ_IN_MEMORY(offset);
  __m256i high = ij__load32(b + 16);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256i x = ij__load32(b + 48 + 32 * i);
    /* Bits 2i and 2i + 1 to bit 4. */
    __m256i h = i < 2 ? _mm256_slli_epi16(high, 4 - 2 * i) : _mm256_srli_epi16(high, 2 * i - 4);
    __m256i h2 = i < 2 ? _mm256_slli_epi16(high, 3 - 2 * i) : _mm256_srli_epi16(high, 2 * i - 3);
    __m256 f[4];
    ij__floats32_u8(f, _mm256_or_si256(_mm256_and_si256(x, low), _mm256_and_si256(h, fifth)));
    ij__store_minus(y + 64 * i, f, _mm256_broadcast_ss(scale + 2 * i), _mm256_broadcast_ss(offset + 2 * i));
    ij__floats32_u8(f, _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x, 4), low), _mm256_and_si256(h2, fifth)));
    ij__store_minus(y + 64 * i + 32, f, _mm256_broadcast_ss(scale + 2 * i + 1), _mm256_broadcast_ss(offset + 2 * i + 1));
  }
}

/* 32 values from their low nibbles, and bits 4 and 5 in place in `high`. */
IJ_AVX2 void ij__q6_k_32(float *y, __m256i low, __m256i high, const float *scale) {
  __m256i code = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
  __m256 f[4];
  ij__floats32_i8(f, _mm256_sub_epi8(code, _mm256_set1_epi8(32)));
  ij__store_scaled_16(y, f, scale);
}

IJ_AVX2 void ij__q6_k_avx2(float *y, const uint8_t *b) {
  float scale[16];
  ij__scales16(scale, ij__f16_avx2(b + 208), ij__load16(b + 192));
  IJ_IN_MEMORY(scale);
  IJ_UNROLL for (int half = 0; half < 2; half++, y += 128) {
    __m256i a = ij__load32(b + 64 * half), c = ij__load32(b + 64 * half + 32), high = ij__load32(b + 128 + 32 * half);
    ij__q6_k_32(y, a, _mm256_slli_epi16(high, 4), scale + 8 * half);
    ij__q6_k_32(y + 32, c, _mm256_slli_epi16(high, 2), scale + 8 * half + 2);
    ij__q6_k_32(y + 64, _mm256_srli_epi16(a, 4), high, scale + 8 * half + 4);
    ij__q6_k_32(y + 96, _mm256_srli_epi16(c, 4), _mm256_srli_epi16(high, 2), scale + 8 * half + 6);
  }
}

/* ---- ternary digits ----------------------------------------------------------------------------------------------------------- */

/* 3 * x / 256 - 1: the leading digit of each byte, less one. */
IJ_AVX2 __m256i ij__trits(__m256i x) {
  __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(x, _mm256_set1_epi8(86)), x);
  __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(x, _mm256_set1_epi8((char)171)), x);
  return _mm256_sub_epi8(_mm256_set1_epi8(-1), _mm256_add_epi8(one, two));
}

IJ_AVX2 __m256i ij__times_3(__m256i x) { return _mm256_add_epi8(x, _mm256_add_epi8(x, x)); }

IJ_AVX2 void ij__tq1_0_avx2(float *y, const uint8_t *b) {
  __m256 d = ij__f16_avx2(b + 52), f[4];
  __m256i x = ij__load32(b);
  IJ_UNROLL for (int n = 0; n < 5; n++) {
    ij__floats32_i8(f, ij__trits(x));
    ij__store_scaled(y + 32 * n, f, d);
    x = ij__times_3(x);
  }
  /* 16 bytes of five digits, then 4 of four: digits n and n + 1 side by side. */
  __m128i z = ij__load16(b + 32), z3 = _mm_add_epi8(z, _mm_add_epi8(z, z));
  x = _mm256_inserti128_si256(_mm256_castsi128_si256(z), z3, 1);
  IJ_UNROLL for (int n = 0; n < 2; n++) {
    ij__floats32_i8(f, ij__trits(x));
    ij__store_scaled(y + 160 + 32 * n, f, d);
    x = ij__times_3(ij__times_3(x));
  }
  uint32_t last = ij__load_u32(b + 48);
  __m128i q = _mm_set1_epi32((int)last), q3 = _mm_add_epi8(q, _mm_add_epi8(q, q)), q9 = _mm_add_epi8(q3, _mm_add_epi8(q3, q3));
  __m128i q27 = _mm_add_epi8(q9, _mm_add_epi8(q9, q9));
  q = _mm_unpacklo_epi64(_mm_unpacklo_epi32(q, q3), _mm_unpacklo_epi32(q9, q27));
  ij__floats32_i8(f, ij__trits(_mm256_inserti128_si256(x, q, 1)));
  ij__store_scaled(y + 224, f, d);
}

#endif
