/* low_avx512.h: the blocks of one to three bits to registers of sixteen floats, for the sinks of coded_avx512.h.
 *
 * A block of 256 values takes two calls of a NAME_half function after one of NAME_ahead, which works out scales and the like.
 *
 * The choice to know: a register of 16 floats holds every value that a group can have, scale and sign included, and one permutation
 * by the low four bits of each place turns 16 codes into values: no mask, no conversion, no multiplication per value. The codebooks of
 * IQ1, IQ2 and IQ3 serve as codes as they are, because their bytes differ in few bits; signs are added to the bytes.
 */
#ifndef IJ_KERNELS_X86_LOW_AVX512_H
#define IJ_KERNELS_X86_LOW_AVX512_H

#include "kernels/iq_floats.h"
#include "kernels/x86/coded_avx512.h"
#include "kernels/x86/decode_iq_avx2.h"

CODED __m512i ij__load64(const void *p) { return _mm512_loadu_si512(p); }

/* 16 bytes in memory to 16 places. */
CODED __m512i ij__wide16(const void *p) { return _mm512_cvtepu8_epi32(ij__load16(p)); }

/* The F16 at p in all places. */
CODED __m512 ij__f16_avx512(const void *p) { return _mm512_cvtph_ps(_mm256_set1_epi16((short)ij__fmt_u16(p))); }

/* What a block's halves need, in memory, from where loads broadcast and widen at no cost. */
typedef struct low_ahead {
  float scale[16], offset[16];
  uint8_t codes[128], signs[32];
  uint16_t index[32]; /* of codebook entries of eight bytes */
} low_ahead;

CODED __m512 ij__pick(__m512i codes, __m512 values) { return _mm512_permutexvar_ps(codes, values); }

/* ---- two-bit codes: Q2_K, Q3_K, TQ2_0 ----------------------------------------------------------------------------------------- */

/* By four bits: the number in the lower two of them, and in the upper two. */
CODED __m512 ij__low_pair(void) { return _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3); }
CODED __m512 ij__high_pair(void) { return _mm512_setr_ps(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3); }

CODED void q2_k_ahead(low_ahead *a, const uint8_t *b) {
  const __m512 number = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i s = ij__wide16(b);
  _mm512_storeu_ps(a->scale, _mm512_mul_ps(ij__f16_avx512(b + 80), ij__pick(s, number)));
  _mm512_storeu_ps(a->offset, _mm512_mul_ps(ij__f16_avx512(b + 82), ij__pick(_mm512_srli_epi32(s, 4), number)));
}

CODED void q2_k_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  __m512i x[2] = {ij__wide16(b + 16 + 32 * half), ij__wide16(b + 32 + 32 * half)};
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    const int g = 8 * half + i;
    __m512 code = ij__pick(x[i % 2], i % 4 < 2 ? ij__low_pair() : ij__high_pair());
    put(k, g, _mm512_fmsub_ps(code, _mm512_set1_ps(a->scale[g]), _mm512_set1_ps(a->offset[g])));
    if (i == 3) x[0] = _mm512_srli_epi32(x[0], 4), x[1] = _mm512_srli_epi32(x[1], 4);
  }
}

CODED void tq2_0_ahead(low_ahead *a, const uint8_t *b) { _mm512_storeu_ps(a->scale, ij__f16_avx512(b + 64)); }

CODED void tq2_0_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  const __m512 d = _mm512_set1_ps(a->scale[0]), one = _mm512_set1_ps(1);
  const __m512 low = _mm512_mul_ps(d, _mm512_sub_ps(ij__low_pair(), one)), high = _mm512_mul_ps(d, _mm512_sub_ps(ij__high_pair(), one));
  __m512i x[2] = {ij__wide16(b + 32 * half), ij__wide16(b + 16 + 32 * half)};
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    put(k, 8 * half + i, ij__pick(x[i % 2], i % 4 < 2 ? low : high));
    if (i == 3) x[0] = _mm512_srli_epi32(x[0], 4), x[1] = _mm512_srli_epi32(x[1], 4);
  }
}

/* a where mask is set, else b */
#define IJ_SELECT 0xca
CODED __m512i ij__select(uint8_t mask, __m512i a, __m512i b) {
  return _mm512_ternarylogic_epi64(_mm512_set1_epi8((char)mask), a, b, IJ_SELECT);
}

/* d times the sixteen scales of Q3_K. */
CODED void ij__q3_k_scales_avx512(float out[16], const uint8_t *b) {
  uint32_t top = ij__load_u32(b + 104);
  __m128i low = ij__load8(b + 96);
  low = _mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4));
  __m128i high = _mm_sllv_epi32(_mm_set1_epi32((int)top), _mm_setr_epi32(4, 2, 0, 0));
  high = _mm_srlv_epi32(high, _mm_setr_epi32(0, 0, 0, 2));
  __m128i s = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)), _mm_and_si128(high, _mm_set1_epi8(0x30)));
  __m512i wide = _mm512_cvtepi8_epi32(_mm_sub_epi8(s, _mm_set1_epi8(32)));
  _mm512_storeu_ps(out, _mm512_mul_ps(ij__f16_avx512(b + 108), _mm512_cvtepi32_ps(wide)));
}

/* Byte i of the codes and of the third bits belongs to values i % 32 of half i / 32. Three of the low four bits of a nibble are a
 * code: in the first 64 bytes of the groups at 0 and 32, in the others of those at 64 and 96. */
CODED void q3_k_ahead(low_ahead *a, const uint8_t *b) {
  ij__q3_k_scales_avx512(a->scale, b);
  __m512i codes = ij__load64(b + 32), third = _mm512_broadcast_i64x4(ij__load32(b));
  third = _mm512_srlv_epi64(third, _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4));
  __m512i thirds = ij__select(0x04, _mm512_slli_epi64(third, 2), _mm512_slli_epi64(third, 5));
  __m512i first = ij__select(0x44, thirds, ij__select(0x03, codes, _mm512_slli_epi64(codes, 2)));
  thirds = ij__select(0x04, third, _mm512_slli_epi64(third, 3));
  __m512i second = ij__select(0x44, thirds, ij__select(0x03, _mm512_srli_epi64(codes, 4), _mm512_srli_epi64(codes, 2)));
  _mm512_storeu_si512(a->codes, first);
  _mm512_storeu_si512(a->codes + 64, second);
}

CODED void q3_k_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  const __m512 number = _mm512_setr_ps(-4, -3, -2, -1, 0, 1, 2, 3, -4, -3, -2, -1, 0, 1, 2, 3);
  (void)b;
  IJ_UNROLL for (int r = 0; r < 2; r++) {
    const uint8_t *p = a->codes + 64 * r + 32 * half;
    __m512i x[2] = {ij__wide16(p), ij__wide16(p + 16)};
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      const int g = 8 * half + 4 * r + i;
      __m512 code = ij__pick(i < 2 ? x[i] : _mm512_srli_epi32(x[i % 2], 4), number);
      put(k, g, _mm512_mul_ps(_mm512_set1_ps(a->scale[g]), code));
    }
  }
}

/* ---- codebooks ---------------------------------------------------------------------------------------------------------------- */

/* Values by code. IQ2 bytes are 8, 25 and 43, of which the low four bits are 8, 9 and 11; a sign adds 4. */
CODED __m512 ij__iq2_values(void) { return _mm512_setr_ps(0, 0, 0, 0, 0, 0, 0, 0, 8, 25, 0, 43, -8, -25, 0, -43); }

/* IQ3_S bytes are odd numbers up to 15; a sign takes away 1. The codes of IQ3_XXS are made alike. */
CODED __m512 ij__iq3_s_values(void) { return _mm512_setr_ps(-1, 1, -3, 3, -5, 5, -7, 7, -9, 9, -11, 11, -13, 13, -15, 15); }
CODED __m512 ij__iq3_xxs_values(void) { return _mm512_setr_ps(-4, 4, -12, 12, -20, 20, -28, 28, -36, 36, -44, 44, -52, 52, -62, 62); }

/* 128 codes, the lower four bits of each byte of two registers, to values: 16 from each of values[0] to [7].
 *
 * The codes become nibbles, code j of each 16 in place j, so that shifts bring out one set after the other. */
CODED void ij__put_picked(sink *k, const int64_t at, __m512i first, __m512i second, const __m512 values[8]) {
  const __m512i across = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i within = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  __m512i nibbles = ij__select(0x0f, first, _mm512_slli_epi16(second, 4));
  nibbles = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(across, nibbles), within);
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    put(k, at + i, ij__pick(_mm512_srli_epi32(nibbles, (unsigned)(i % 4 * 8 + i / 4 * 4)), values[i]));
  }
}

/* What 128 values can be, by code, given a scale for each `per` of them. */
CODED void ij__scaled(__m512 out[8], const float *scale, const int per, __m512 values) {
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    out[i] = per == 32 && i % 2 == 1 ? out[i - 1] : _mm512_mul_ps(_mm512_set1_ps(scale[16 * i / per]), values);
  }
}

/* Eight entries of a codebook of eight bytes, sixteen of one of four. A compiler that sees that the mask is full takes for the result
 * whatever register is at hand, and the gather waits for what that held before; hence a mask it cannot see through. */
CODED __m512i ij__entries8(const uint64_t *table, const uint16_t *index) {
  __mmask8 all = 0xff;
  __asm__("" : "+Yk"(all));
  return _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), all, _mm256_cvtepu16_epi32(ij__load16(index)), table, 8);
}

CODED __m512i ij__entries4(const uint32_t *table, __m512i index) {
  __mmask16 all = 0xffff;
  __asm__("" : "+Yk"(all));
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), all, index, table, 4);
}

/* Bytes of seven signs -> eight, so that the number of set bits is even. */
CODED __m256i ij__eighth_sign(__m256i s) {
  const __m256i odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
  __m256i folded = _mm256_xor_si256(s, _mm256_and_si256(_mm256_srli_epi16(s, 4), _mm256_set1_epi8(7)));
  return _mm256_or_si256(s, _mm256_shuffle_epi8(odd, folded)); /* bits 4 to 6 of an index do not count, and bit 7 is clear */
}

/* Eight words with 28 bits of signs at the bottom -> 32 bytes of eight signs. */
CODED __m256i ij__signs_28(__m256i w) {
  const __m256i low14 = _mm256_set1_epi32(0x00003fff), low7 = _mm256_set1_epi16(0x007f);
  w = _mm256_ternarylogic_epi32(low14, w, _mm256_slli_epi32(w, 2), IJ_SELECT);
  w = _mm256_ternarylogic_epi32(low7, w, _mm256_slli_epi32(w, 1), IJ_SELECT);
  return ij__eighth_sign(_mm256_and_si256(w, _mm256_set1_epi8(0x7f)));
}

CODED __m512i ij__negated_iq2(__m512i codes, const uint8_t *signs) {
  return _mm512_mask_add_epi8(codes, ij__load_u64(signs), codes, _mm512_set1_epi8(4));
}

CODED __m512i ij__negated_iq3(__m512i codes, const uint8_t *signs) {
  return _mm512_mask_sub_epi8(codes, ij__load_u64(signs), codes, _mm512_set1_epi8(1));
}

CODED void iq2_xxs_ahead(low_ahead *a, const uint8_t *b) {
  __m512i all = _mm512_permutexvar_epi32(_mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14), ij__load64(b + 2));
  __m256i words = _mm512_castsi512_si256(all);
  ij__top_scales(a->scale, ij__f16_avx2(b), words, 0.25f);
  _mm256_storeu_si256((__m256i *)(void *)a->signs, ij__signs_28(words));
  _mm512_storeu_si512(a->index, _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(all, 1)));
}

/* Half a block of a grid whose entries are looked up and negated alike; `group` values share a scale. */
CODED void ij__iq2_half(sink *k, const low_ahead *a, const uint64_t *grid, const int group, const int half) {
  __m512 values[8];
  __m512i codes[2];
  ij__scaled(values, a->scale + 128 / group * half, group, ij__iq2_values());
  IJ_UNROLL for (int j = 0; j < 2; j++) {
    codes[j] = ij__negated_iq2(ij__entries8(grid, a->index + 16 * half + 8 * j), a->signs + 16 * half + 8 * j);
  }
  ij__put_picked(k, 8 * half, codes[0], codes[1], values);
}

CODED void iq2_xxs_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  (void)b;
  ij__iq2_half(k, a, ij__iq2_xxs_grid, 32, half);
}

/* d * (n + 1/2) / 4 for the sixteen nibbles of 8 bytes. */
CODED void ij__iq2_scales(float out[16], __m512 d, const uint8_t *p) {
  const __m512 unit = _mm512_setr_ps(0.125f, 0.375f, 0.625f, 0.875f, 1.125f, 1.375f, 1.625f, 1.875f, 2.125f, 2.375f, 2.625f, 2.875f,
                                     3.125f, 3.375f, 3.625f, 3.875f);
  __m128i s = ij__load8(p);
  __m512i n = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(s, _mm_srli_epi16(s, 4)));
  _mm512_storeu_ps(out, _mm512_mul_ps(d, ij__pick(n, unit)));
}

CODED void iq2_xs_ahead(low_ahead *a, const uint8_t *b) {
  ij__iq2_scales(a->scale, ij__f16_avx512(b), b + 66);
  __m512i words = ij__load64(b + 2);
  _mm512_storeu_si512(a->index, _mm512_and_si512(words, _mm512_set1_epi16(511)));
  _mm256_storeu_si256((__m256i *)(void *)a->signs, ij__eighth_sign(_mm512_cvtepi16_epi8(_mm512_srli_epi16(words, 9))));
}

CODED void iq2_xs_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  (void)b;
  ij__iq2_half(k, a, ij__iq2_xs_grid, 16, half);
}

/* Byte i / 4 of the high bits to the upper byte of word i, in which its two bits go to places 8 and 9. */
CODED void ij__iq2_s_index(uint16_t index[32], const uint8_t *b) {
  const __m512i place = _mm512_setr_epi64(0x0080008000800080, 0x0180018001800180, 0x0280028002800280, 0x0380038003800380,
                                          0x0480048004800480, 0x0580058005800580, 0x0680068006800680, 0x0780078007800780);
  __m512i high = _mm512_shuffle_epi8(_mm512_set1_epi64((int64_t)ij__load_u64(b + 66)), place);
  high = _mm512_srlv_epi16(high, _mm512_set1_epi64(0x0006000400020000));
  __m512i low = _mm512_cvtepu8_epi16(ij__load32(b + 2));
  _mm512_storeu_si512(index, _mm512_ternarylogic_epi64(_mm512_set1_epi16(0x300), high, low, IJ_SELECT));
}

CODED void iq2_s_ahead(low_ahead *a, const uint8_t *b) {
  ij__iq2_scales(a->scale, ij__f16_avx512(b), b + 74);
  ij__iq2_s_index(a->index, b);
}

CODED void iq2_s_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  __m512 values[8];
  __m512i codes[2];
  ij__scaled(values, a->scale + 8 * half, 16, ij__iq2_values());
  IJ_UNROLL for (int j = 0; j < 2; j++) {
    codes[j] = ij__negated_iq2(ij__entries8(ij__iq2_s_grid, a->index + 16 * half + 8 * j), b + 34 + 16 * half + 8 * j);
  }
  ij__put_picked(k, 8 * half, codes[0], codes[1], values);
}

CODED void iq3_xxs_ahead(low_ahead *a, const uint8_t *b) {
  __m256i words = ij__load32(b + 66);
  ij__top_scales(a->scale, ij__f16_avx2(b), words, 0.5f);
  _mm256_storeu_si256((__m256i *)(void *)a->signs, ij__signs_28(words));
}

CODED void iq3_xxs_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  __m512 values[8];
  __m512i codes[2];
  ij__scaled(values, a->scale + 4 * half, 32, ij__iq3_xxs_values());
  IJ_UNROLL for (int j = 0; j < 2; j++) {
    const int at = 16 * half + 8 * j;
    codes[j] = ij__entries4(ij__iq_floats.iq3_xxs_codes, ij__wide16(b + 2 + 2 * at));
    codes[j] = ij__negated_iq3(codes[j], a->signs + at);
  }
  ij__put_picked(k, 8 * half, codes[0], codes[1], values);
}

/* d * (2 * n + 1) for the eight nibbles of 4 bytes. */
CODED void ij__iq3_s_scales(float out[8], __m256 d, const uint8_t *p) {
  __m256i s = _mm256_srlv_epi32(_mm256_set1_epi32((int)ij__load_u32(p)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  s = _mm256_and_si256(s, _mm256_set1_epi32(15));
  s = _mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
  _mm256_storeu_ps(out, _mm256_mul_ps(d, _mm256_cvtepi32_ps(s)));
}

CODED void iq3_s_ahead(low_ahead *a, const uint8_t *b) { ij__iq3_s_scales(a->scale, ij__f16_avx2(b), b + 106); }

CODED void iq3_s_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  __m512 values[8];
  __m512i codes[2];
  ij__scaled(values, a->scale + 4 * half, 32, ij__iq3_s_values());
  IJ_UNROLL for (int j = 0; j < 2; j++) {
    const int at = 16 * half + 8 * j;
    __m512i low = ij__wide16(b + 2 + 2 * at);
    __m512i index = _mm512_mask_add_epi32(low, ij__fmt_u16(b + 66 + at / 4), low, _mm512_set1_epi32(256));
    codes[j] = ij__negated_iq3(ij__entries4(ij__iq3_s_grid, index), b + 74 + at);
  }
  ij__put_picked(k, 8 * half, codes[0], codes[1], values);
}

/* IQ1 bytes are -1, 0 and 1, of which the low four bits are 15, 0 and 1. A negative delta is other values, or flips bit 3. */
CODED __m512 ij__iq1_values_avx512(void) {
  return _mm512_setr_ps(0.125f, 1.125f, 0, 0, 0, 0, 0, -1.125f, -0.125f, 0.875f, 0, 0, 0, 0, 0, -0.875f);
}

/* Word i / 4 to word i, in which its three bits go to places 8 to 10. */
CODED void ij__iq1_s_index(uint16_t index[32], const uint8_t *b) {
  __m512i high = _mm512_permutexvar_epi16(
      _mm512_setr_epi64(0, 0x0001000100010001, 0x0002000200020002, 0x0003000300030003, 0x0004000400040004, 0x0005000500050005,
                        0x0006000600060006, 0x0007000700070007),
      _mm512_castsi128_si512(ij__load16(b + 34)));
  high = _mm512_slli_epi16(_mm512_srlv_epi16(high, _mm512_set1_epi64(0x0009000600030000)), 8);
  __m512i low = _mm512_cvtepu8_epi16(ij__load32(b + 2));
  _mm512_storeu_si512(index, _mm512_ternarylogic_epi64(_mm512_set1_epi16(0x700), high, low, IJ_SELECT));
}

CODED void iq1_s_ahead(low_ahead *a, const uint8_t *b) {
  __m256i wide = _mm256_cvtepu16_epi32(ij__load16(b + 34));
  __m256i s = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(wide, 11), _mm256_set1_epi32(14)), _mm256_set1_epi32(1));
  _mm256_storeu_ps(a->scale, _mm256_mul_ps(ij__f16_avx2(b), _mm256_cvtepi32_ps(s)));
  ij__iq1_s_index(a->index, b);
}

CODED void iq1_s_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  static const _Alignas(64) float by_delta[2][16] = {{0.125f, 1.125f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.875f},
                                                     {-0.125f, 0.875f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1.125f}};
  __m512 values[8];
  IJ_UNROLL for (int i = 0; i < 8; i += 2) {
    const int g = 4 * half + i / 2;
    values[i] = _mm512_mul_ps(_mm512_set1_ps(a->scale[g]), _mm512_load_ps(by_delta[b[35 + 2 * g] >> 7]));
    values[i + 1] = values[i];
  }
  const uint16_t *index = a->index + 16 * half;
  ij__put_picked(k, 8 * half, ij__entries8(ij__iq1_grid, index), ij__entries8(ij__iq1_grid, index + 8), values);
}

/* Nibble i to bits 8 to 11 of word i: three bits of index and the sign of delta. These words are the result. */
CODED __m512i ij__iq1_m_index(uint16_t index[32], const uint8_t *b) {
  __m512i high = _mm512_cvtepu8_epi32(ij__load16(b + 32));
  high = _mm512_or_si512(_mm512_slli_epi32(high, 8), _mm512_slli_epi32(high, 20));
  __m512i low = _mm512_cvtepu8_epi16(ij__load32(b));
  _mm512_storeu_si512(index, _mm512_ternarylogic_epi64(_mm512_set1_epi16(0x700), high, low, IJ_SELECT));
  return high;
}

CODED void iq1_m_ahead(low_ahead *a, const uint8_t *b) {
  ij__iq1_m_scales(a->scale, b + 48);
  __mmask32 sign = _mm512_test_epi16_mask(ij__iq1_m_index(a->index, b), _mm512_set1_epi16(0x800));
  memcpy(a->signs, &sign, sizeof sign);
}

CODED void iq1_m_half(sink *k, const low_ahead *a, const uint8_t *b, const int half) {
  __m512 values[8];
  __m512i codes[2];
  (void)b;
  ij__scaled(values, a->scale + 8 * half, 16, ij__iq1_values_avx512());
  IJ_UNROLL for (int j = 0; j < 2; j++) {
    __m512i x = ij__entries8(ij__iq1_grid, a->index + 16 * half + 8 * j);
    codes[j] = _mm512_mask_xor_epi64(x, a->signs[2 * half + j], x, _mm512_set1_epi8(8));
  }
  ij__put_picked(k, 8 * half, codes[0], codes[1], values);
}

/* X(name, identifier in dtype.h): those that books_avx512.h multiplies, and the others. */
#define LOW_BOOKS(X) X(iq1_s, IQ1_S) X(iq1_m, IQ1_M) X(iq2_xxs, IQ2_XXS) X(iq2_xs, IQ2_XS) X(iq2_s, IQ2_S)
#define LOW_OTHERS(X) X(q3_k, Q3_K) X(iq3_xxs, IQ3_XXS) X(iq3_s, IQ3_S) X(tq2_0, TQ2_0)
#define LOW_TYPES(X) LOW_BOOKS(X) LOW_OTHERS(X) X(q2_k, Q2_K) /* the last only decoded: its products are in integers */

CODED bool ij__is_low(const ij_dtype type) {
  switch (type) {
#define IS_LOW(name, id) case IJ_DTYPE_##id:
    LOW_TYPES(IS_LOW)
#undef IS_LOW
      return true;
    default: return false;
  }
}

CODED void low_work_ahead(low_ahead *a, const uint8_t *b, const ij_dtype type) {
  switch (type) {
#define AHEAD(name, id) \
  case IJ_DTYPE_##id: name##_ahead(a, b); break;
    LOW_TYPES(AHEAD)
#undef AHEAD
    default: break;
  }
  IN_MEMORY(*a);
}

/* Values 128 * half on; step i of the sink is values 16 * i of the block. */
CODED void low_half(sink *k, const low_ahead *a, const uint8_t *b, const int half, const ij_dtype type) {
  switch (type) {
#define HALF(name, id) \
  case IJ_DTYPE_##id: name##_half(k, a, b, half); break;
    LOW_TYPES(HALF)
#undef HALF
    default: break;
  }
}

#endif
