/* decode_low_avx512.h: the blocks of one to three bits to float32 with 512-bit registers, one block of 256 values a call.
 *
 * The choice to know: a register of 16 floats holds every value that a group can have, scale and sign included, and one permutation
 * by the low four bits of each place turns 16 codes into values: no mask, no conversion, no multiplication per value. The codebooks of
 * IQ1, IQ2 and IQ3 serve as codes as they are, because their bytes differ in few bits; signs are added to the bytes.
 */
#ifndef IJ_KERNELS_X86_DECODE_LOW_AVX512_H
#define IJ_KERNELS_X86_DECODE_LOW_AVX512_H

#include "kernels/iq_floats.h"
#include "kernels/x86/decode_avx2.h"
#include "quant/fmt_iq.h"

#define IJ_AVX512 static inline __attribute__((always_inline))

IJ_AVX512 __m512i ij__load64(const void *p) { return _mm512_loadu_si512(p); }

/* 16 bytes in memory to 16 places. */
IJ_AVX512 __m512i ij__wide16(const void *p) { return _mm512_cvtepu8_epi32(ij__load16(p)); }

/* The F16 at p in all places. */
IJ_AVX512 __m512 ij__f16_avx512(const void *p) { return _mm512_cvtph_ps(_mm256_set1_epi16((short)ij__fmt_u16(p))); }

IJ_AVX512 __m512 ij__pick(__m512i codes, __m512 values) { return _mm512_permutexvar_ps(codes, values); }

/* ---- two-bit codes: Q2_K, Q3_K, TQ2_0 ----------------------------------------------------------------------------------------- */

/* By four bits: the number in the lower two of them, and in the upper two. */
IJ_AVX512 __m512 ij__low_pair(void) { return _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3); }
IJ_AVX512 __m512 ij__high_pair(void) { return _mm512_setr_ps(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3); }

IJ_AVX512 void ij__q2_k_avx512(float *y, const uint8_t *b) {
  const __m512 number = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), low = ij__low_pair(), high = ij__high_pair();
  float scale[16], offset[16];
  __m512i s = ij__wide16(b);
  _mm512_storeu_ps(scale, _mm512_mul_ps(ij__f16_avx512(b + 80), ij__pick(s, number)));
  IJ_IN_MEMORY(scale);
  _mm512_storeu_ps(offset, _mm512_mul_ps(ij__f16_avx512(b + 82), ij__pick(_mm512_srli_epi32(s, 4), number)));
  IJ_IN_MEMORY(offset);
  IJ_UNROLL for (int i = 0; i < 4; i++) { /* 16 bytes: values of groups g, g + 2, g + 4, g + 6 */
    const int g = i / 2 * 8 + i % 2;
    float *out = y + 16 * g;
    __m512i x = ij__wide16(b + 16 + 16 * i), x4 = _mm512_srli_epi32(x, 4);
    const __m512 code[4] = {ij__pick(x, low), ij__pick(x, high), ij__pick(x4, low), ij__pick(x4, high)};
    IJ_UNROLL for (int j = 0; j < 4; j++) {
      _mm512_storeu_ps(out + 32 * j, _mm512_fmsub_ps(code[j], _mm512_set1_ps(scale[g + 2 * j]), _mm512_set1_ps(offset[g + 2 * j])));
    }
  }
}

IJ_AVX512 void ij__tq2_0_avx512(float *y, const uint8_t *b) {
  const __m512 d = ij__f16_avx512(b + 64), one = _mm512_set1_ps(1);
  const __m512 low = _mm512_mul_ps(d, _mm512_sub_ps(ij__low_pair(), one)), high = _mm512_mul_ps(d, _mm512_sub_ps(ij__high_pair(), one));
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    float *out = y + 128 * (i / 2) + 16 * (i % 2);
    __m512i x = ij__wide16(b + 16 * i), x4 = _mm512_srli_epi32(x, 4);
    _mm512_storeu_ps(out, ij__pick(x, low));
    _mm512_storeu_ps(out + 32, ij__pick(x, high));
    _mm512_storeu_ps(out + 64, ij__pick(x4, low));
    _mm512_storeu_ps(out + 96, ij__pick(x4, high));
  }
}

/* a where mask is set, else b */
#define IJ_SELECT 0xca
IJ_AVX512 __m512i ij__select(uint8_t mask, __m512i a, __m512i b) {
  return _mm512_ternarylogic_epi64(_mm512_set1_epi8((char)mask), a, b, IJ_SELECT);
}

/* d times the sixteen scales of Q3_K. */
IJ_AVX512 void ij__q3_k_scales_avx512(float out[16], const uint8_t *b) {
  uint32_t top = ij__load_u32(b + 104);
  __m128i low = ij__load8(b + 96);
  low = _mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4));
  __m128i high = _mm_sllv_epi32(_mm_set1_epi32((int)top), _mm_setr_epi32(4, 2, 0, 0));
  high = _mm_srlv_epi32(high, _mm_setr_epi32(0, 0, 0, 2));
  __m128i s = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), _mm_and_si128(high, _mm_set1_epi8(0x30)));
  __m512i wide = _mm512_cvtepi8_epi32(_mm_sub_epi8(s, _mm_set1_epi8(32)));
  _mm512_storeu_ps(out, _mm512_mul_ps(ij__f16_avx512(b + 108), _mm512_cvtepi32_ps(wide)));
}

IJ_AVX512 void ij__q3_k_avx512(float *y, const uint8_t *b) {
  const __m512 number = _mm512_setr_ps(-4, -3, -2, -1, 0, 1, 2, 3, -4, -3, -2, -1, 0, 1, 2, 3);
  float scale[16];
  ij__q3_k_scales_avx512(scale, b);
  IJ_IN_MEMORY(scale);
  /* Byte i of the codes and of the third bits belongs to values i % 32 of half i / 32. Three of the low four bits of a nibble are a
   * code: in the first register of the groups at 0 and 32, in the second of those at 64 and 96. */
  __m512i codes = ij__load64(b + 32), third = _mm512_broadcast_i64x4(ij__load32(b));
  third = _mm512_srlv_epi64(third, _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4));
  __m512i thirds = ij__select(0x04, _mm512_slli_epi64(third, 2), _mm512_slli_epi64(third, 5));
  __m512i first = ij__select(0x44, thirds, ij__select(0x03, codes, _mm512_slli_epi64(codes, 2)));
  thirds = ij__select(0x04, third, _mm512_slli_epi64(third, 3));
  __m512i second = ij__select(0x44, thirds, ij__select(0x03, _mm512_srli_epi64(codes, 4), _mm512_srli_epi64(codes, 2)));
  uint8_t nibbles[128];
  _mm512_storeu_si512(nibbles, first);
  _mm512_storeu_si512(nibbles + 64, second);
  IJ_IN_MEMORY(nibbles);
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    const int g = i % 4 / 2 * 8 + i / 4 * 4 + i % 2;
    __m512i x = ij__wide16(nibbles + 16 * i);
    _mm512_storeu_ps(y + 16 * g, _mm512_mul_ps(_mm512_set1_ps(scale[g]), ij__pick(x, number)));
    __m512 next = ij__pick(_mm512_srli_epi32(x, 4), number);
    _mm512_storeu_ps(y + 16 * g + 32, _mm512_mul_ps(_mm512_set1_ps(scale[g + 2]), next));
  }
}

/* ---- codebooks ---------------------------------------------------------------------------------------------------------------- */

/* Values by code. IQ2 bytes are 8, 25 and 43, of which the low four bits are 8, 9 and 11; a sign adds 4. */
IJ_AVX512 __m512 ij__iq2_values(void) { return _mm512_setr_ps(0, 0, 0, 0, 0, 0, 0, 0, 8, 25, 0, 43, -8, -25, 0, -43); }

/* IQ3_S bytes are odd numbers up to 15; a sign takes away 1. The codes of IQ3_XXS are made alike. */
IJ_AVX512 __m512 ij__iq3_s_values(void) { return _mm512_setr_ps(-1, 1, -3, 3, -5, 5, -7, 7, -9, 9, -11, 11, -13, 13, -15, 15); }
IJ_AVX512 __m512 ij__iq3_xxs_values(void) { return _mm512_setr_ps(-4, 4, -12, 12, -20, 20, -28, 28, -36, 36, -44, 44, -52, 52, -62, 62); }

/* 128 codes, the lower four bits of each byte of two registers, to values: 16 from each of values[0] to [7].
 *
 * The codes become nibbles, code j of each 16 in place j, so that shifts bring out one set after the other. */
IJ_AVX512 void ij__store_picked(float *y, __m512i first, __m512i second, const __m512 values[8]) {
  const __m512i across = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i within = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  __m512i nibbles = ij__select(0x0f, first, _mm512_slli_epi16(second, 4));
  nibbles = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(across, nibbles), within);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    _mm512_storeu_ps(y + 16 * i, ij__pick(_mm512_srli_epi32(nibbles, (unsigned)(8 * i)), values[i]));
    _mm512_storeu_ps(y + 64 + 16 * i, ij__pick(_mm512_srli_epi32(nibbles, (unsigned)(8 * i + 4)), values[4 + i]));
  }
}

/* What 128 values can be, by code, given a scale for each `per` of them. */
IJ_AVX512 void ij__scaled(__m512 out[8], const float *scale, const int per, __m512 values) {
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    out[i] = per == 32 && i % 2 == 1 ? out[i - 1] : _mm512_mul_ps(_mm512_set1_ps(scale[16 * i / per]), values);
  }
}

/* Eight entries of a codebook of eight bytes, sixteen of one of four. A compiler that sees that the mask is full takes for the result
 * whatever register is at hand, and the gather waits for what that held before; hence a mask it cannot see through. */
IJ_AVX512 __m512i ij__entries8(const uint64_t *table, __m256i index) {
  __mmask8 all = 0xff;
  __asm__("" : "+Yk"(all));
  return _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), all, index, table, 8);
}

IJ_AVX512 __m512i ij__entries4(const uint32_t *table, __m512i index) {
  __mmask16 all = 0xffff;
  __asm__("" : "+Yk"(all));
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), all, index, table, 4);
}

/* Bytes of seven signs -> eight, so that the number of set bits is even. */
IJ_AVX512 __m256i ij__eighth_sign(__m256i s) {
  const __m256i odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
  __m256i folded = _mm256_xor_si256(s, _mm256_and_si256(_mm256_srli_epi16(s, 4), _mm256_set1_epi8(7)));
  return _mm256_or_si256(s, _mm256_shuffle_epi8(odd, folded)); /* bits 4 to 6 of an index do not count, and bit 7 is clear */
}

/* Eight words with 28 bits of signs at the bottom -> 32 bytes of eight signs. */
IJ_AVX512 __m256i ij__signs_28(__m256i w) {
  const __m256i low14 = _mm256_set1_epi32(0x00003fff), low7 = _mm256_set1_epi16(0x007f);
  w = _mm256_ternarylogic_epi32(low14, w, _mm256_slli_epi32(w, 2), IJ_SELECT);
  w = _mm256_ternarylogic_epi32(low7, w, _mm256_slli_epi32(w, 1), IJ_SELECT);
  return ij__eighth_sign(_mm256_and_si256(w, _mm256_set1_epi8(0x7f)));
}

IJ_AVX512 __m512i ij__negated_iq2(__m512i codes, const uint8_t *signs) {
  return _mm512_mask_add_epi8(codes, ij__load_u64(signs), codes, _mm512_set1_epi8(4));
}

IJ_AVX512 __m512i ij__negated_iq3(__m512i codes, const uint8_t *signs) {
  return _mm512_mask_sub_epi8(codes, ij__load_u64(signs), codes, _mm512_set1_epi8(1));
}

IJ_AVX512 void ij__iq2_xxs_avx512(float *y, const uint8_t *b) {
  float scale[8];
  uint8_t signs[32], index[32];
  __m512i all = _mm512_permutexvar_epi32(_mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14), ij__load64(b + 2));
  __m256i words = _mm512_castsi512_si256(all);
  ij__top_scales(scale, ij__f16_avx2(b), words, 0.25f);
  _mm256_storeu_si256((__m256i *)(void *)signs, ij__signs_28(words));
  _mm256_storeu_si256((__m256i *)(void *)index, _mm512_extracti64x4_epi64(all, 1));
  IJ_IN_MEMORY(scale);
  IJ_IN_MEMORY(signs);
  IJ_IN_MEMORY(index);
  IJ_UNROLL for (int i = 0; i < 4; i += 2) {
    __m512 values[8];
    __m512i codes[2];
    ij__scaled(values, scale + 2 * i, 32, ij__iq2_values());
    IJ_UNROLL for (int j = 0; j < 2; j++) {
      codes[j] = ij__entries8(ij__iq2_xxs_grid, _mm256_cvtepu8_epi32(ij__load8(index + 8 * (i + j))));
      codes[j] = ij__negated_iq2(codes[j], signs + 8 * (i + j));
    }
    ij__store_picked(y + 64 * i, codes[0], codes[1], values);
  }
}

/* d * (n + 1/2) / 4 for the sixteen nibbles of 8 bytes. */
IJ_AVX512 void ij__iq2_scales(float out[16], __m512 d, const uint8_t *p) {
  const __m512 unit = _mm512_setr_ps(0.125f, 0.375f, 0.625f, 0.875f, 1.125f, 1.375f, 1.625f, 1.875f, 2.125f, 2.375f, 2.625f, 2.875f,
                                     3.125f, 3.375f, 3.625f, 3.875f);
  __m128i s = ij__load8(p);
  __m512i n = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(s, _mm_srli_epi16(s, 4)));
  _mm512_storeu_ps(out, _mm512_mul_ps(d, ij__pick(n, unit)));
}

IJ_AVX512 void ij__iq2_xs_avx512(float *y, const uint8_t *b) {
  float scale[16];
  uint8_t signs[32];
  ij__iq2_scales(scale, ij__f16_avx512(b), b + 66);
  __m256i high = _mm512_cvtepi16_epi8(_mm512_srli_epi16(ij__load64(b + 2), 9));
  _mm256_storeu_si256((__m256i *)(void *)signs, ij__eighth_sign(high));
  IJ_IN_MEMORY(scale);
  IJ_IN_MEMORY(signs);
  IJ_UNROLL for (int i = 0; i < 4; i += 2) {
    __m512 values[8];
    __m512i codes[2];
    ij__scaled(values, scale + 4 * i, 16, ij__iq2_values());
    IJ_UNROLL for (int j = 0; j < 2; j++) {
      __m256i index = _mm256_and_si256(_mm256_cvtepu16_epi32(ij__load16(b + 2 + 16 * (i + j))), _mm256_set1_epi32(511));
      codes[j] = ij__negated_iq2(ij__entries8(ij__iq2_xs_grid, index), signs + 8 * (i + j));
    }
    ij__store_picked(y + 64 * i, codes[0], codes[1], values);
  }
}

IJ_AVX512 void ij__iq2_s_avx512(float *y, const uint8_t *b) {
  float scale[16];
  ij__iq2_scales(scale, ij__f16_avx512(b), b + 74);
  IJ_IN_MEMORY(scale);
  IJ_UNROLL for (int i = 0; i < 4; i += 2) {
    __m512 values[8];
    __m512i codes[2];
    ij__scaled(values, scale + 4 * i, 16, ij__iq2_values());
    IJ_UNROLL for (int j = 0; j < 2; j++) {
      const uint8_t *low = b + 2 + 8 * (i + j);
      __m256i high = _mm256_set1_epi32(ij__fmt_u16(b + 66 + 2 * (i + j)) << 8);
      high = _mm256_and_si256(_mm256_srlv_epi32(high, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)), _mm256_set1_epi32(0x300));
      codes[j] = ij__entries8(ij__iq2_s_grid, _mm256_or_si256(high, _mm256_cvtepu8_epi32(ij__load8(low))));
      codes[j] = ij__negated_iq2(codes[j], b + 34 + 8 * (i + j));
    }
    ij__store_picked(y + 64 * i, codes[0], codes[1], values);
  }
}

IJ_AVX512 void ij__iq3_xxs_avx512(float *y, const uint8_t *b) {
  float scale[8];
  uint8_t signs[32];
  __m256i words = ij__load32(b + 66);
  ij__top_scales(scale, ij__f16_avx2(b), words, 0.5f);
  _mm256_storeu_si256((__m256i *)(void *)signs, ij__signs_28(words));
  IJ_IN_MEMORY(scale);
  IJ_IN_MEMORY(signs);
  IJ_UNROLL for (int i = 0; i < 4; i += 2) {
    __m512 values[8];
    __m512i codes[2];
    ij__scaled(values, scale + 2 * i, 32, ij__iq3_xxs_values());
    IJ_UNROLL for (int j = 0; j < 2; j++) {
      codes[j] = ij__entries4(ij__iq_floats.iq3_xxs_codes, ij__wide16(b + 2 + 16 * (i + j)));
      codes[j] = ij__negated_iq3(codes[j], signs + 8 * (i + j));
    }
    ij__store_picked(y + 64 * i, codes[0], codes[1], values);
  }
}

/* d * (2 * n + 1) for the eight nibbles of 4 bytes. */
IJ_AVX512 void ij__iq3_s_scales(float out[8], __m256 d, const uint8_t *p) {
  __m256i s = _mm256_srlv_epi32(_mm256_set1_epi32((int)ij__load_u32(p)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  s = _mm256_and_si256(s, _mm256_set1_epi32(15));
  s = _mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
  _mm256_storeu_ps(out, _mm256_mul_ps(d, _mm256_cvtepi32_ps(s)));
}

IJ_AVX512 void ij__iq3_s_avx512(float *y, const uint8_t *b) {
  float scale[8];
  ij__iq3_s_scales(scale, ij__f16_avx2(b), b + 106);
  IJ_IN_MEMORY(scale);
  IJ_UNROLL for (int i = 0; i < 4; i += 2) {
    __m512 values[8];
    __m512i codes[2];
    ij__scaled(values, scale + 2 * i, 32, ij__iq3_s_values());
    IJ_UNROLL for (int j = 0; j < 2; j++) {
      __m512i low = ij__wide16(b + 2 + 16 * (i + j));
      __m512i index = _mm512_mask_add_epi32(low, ij__fmt_u16(b + 66 + 2 * (i + j)), low, _mm512_set1_epi32(256));
      codes[j] = ij__negated_iq3(ij__entries4(ij__iq3_s_grid, index), b + 74 + 8 * (i + j));
    }
    ij__store_picked(y + 64 * i, codes[0], codes[1], values);
  }
}

/* IQ1 bytes are -1, 0 and 1, of which the low three bits are 7, 0 and 1: by those, and by the sign of delta above them, the values. */
IJ_AVX512 __m512 ij__iq1_values_avx512(void) {
  return _mm512_setr_ps(0.125f, 1.125f, 0, 0, 0, 0, 0, -0.875f, -0.125f, 0.875f, 0, 0, 0, 0, 0, -1.125f);
}

/* The codes of eight entries: bits 8 to 10 of `high` belong to the index, and bit 11 is the sign of delta. */
IJ_AVX512 __m512i ij__iq1_codes(const uint8_t *low, __m256i high) {
  __m256i index = _mm256_or_si256(_mm256_and_si256(high, _mm256_set1_epi32(0x700)), _mm256_cvtepu8_epi32(ij__load8(low)));
  __m512i sign = _mm512_cvtepi32_epi64(_mm256_srai_epi32(_mm256_slli_epi32(high, 20), 31));
  return ij__select(0x07, ij__entries8(ij__iq1_grid, index), sign);
}

IJ_AVX512 void ij__iq1_s_avx512(float *y, const uint8_t *b) {
  float scale[8];
  __m256i words = _mm256_cvtepu16_epi32(ij__load16(b + 34));
  __m256i s = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(words, 11), _mm256_set1_epi32(14)), _mm256_set1_epi32(1));
  _mm256_storeu_ps(scale, _mm256_mul_ps(ij__f16_avx2(b), _mm256_cvtepi32_ps(s)));
  IJ_IN_MEMORY(scale);
  IJ_UNROLL for (int i = 0; i < 4; i += 2) {
    __m512 values[8];
    __m512i codes[2];
    ij__scaled(values, scale + 2 * i, 32, ij__iq1_values_avx512());
    IJ_UNROLL for (int j = 0; j < 2; j++) {
      /* Two words, each with four times three bits, and bit 15 for the four. */
      uint64_t two = ij__load_u32(b + 34 + 4 * (i + j));
      __m256i w = _mm256_set1_epi64x((int64_t)((two & 0xffff) | (two >> 16) << 32));
      w = _mm256_permutevar8x32_epi32(w, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
      __m256i high = _mm256_slli_epi32(_mm256_srlv_epi32(w, _mm256_setr_epi32(0, 3, 6, 9, 0, 3, 6, 9)), 8);
      high = _mm256_ternarylogic_epi32(_mm256_set1_epi32(0x700), high, _mm256_srli_epi32(w, 4), IJ_SELECT);
      codes[j] = ij__iq1_codes(b + 2 + 8 * (i + j), high);
    }
    ij__store_picked(y + 64 * i, codes[0], codes[1], values);
  }
}

IJ_AVX512 void ij__iq1_m_avx512(float *y, const uint8_t *b) {
  float scale[16];
  ij__iq1_m_scales(scale, b + 48);
  IJ_IN_MEMORY(scale);
  IJ_UNROLL for (int i = 0; i < 4; i += 2) {
    __m512 values[8];
    __m512i codes[2];
    ij__scaled(values, scale + 4 * i, 16, ij__iq1_values_avx512());
    IJ_UNROLL for (int j = 0; j < 2; j++) {
      __m256i nibbles = _mm256_set1_epi32((int)ij__load_u32(b + 32 + 4 * (i + j)));
      nibbles = _mm256_srlv_epi32(nibbles, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
      codes[j] = ij__iq1_codes(b + 8 * (i + j), _mm256_slli_epi32(nibbles, 8));
    }
    ij__store_picked(y + 64 * i, codes[0], codes[1], values);
  }
}

#endif
