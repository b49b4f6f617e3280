/* decode_k_avx2.h: the GGUF blocks without codebooks, to registers of eight floats, for the sinks of decode_avx2.h.
 *
 * Values are those of quant/fmt_basic.h, fmt_k.h and fmt_tq.h. All products are exact (fmt_basic.h says why), so scale and sub-scale
 * are multiplied once per group, and a fused operation rounds as the definition does. Codes of two and three bits look up the values
 * that their group can have.
 *
 * Blocks of 32 values take one call, with their scale (and offset) in all places. A block of 256 takes turns of a NAME_part function
 * after NAME_ahead; IJ_K_TYPES says how many.
 */
#ifndef IJ_KERNELS_X86_DECODE_K_AVX2_H
#define IJ_KERNELS_X86_DECODE_K_AVX2_H

#include "kernels/x86/decode_avx2.h"

/* ---- 32 values ---------------------------------------------------------------------------------------------------------------- */

IJ_AVX2 void ij__q4_0_avx2(ij_sink *k, const int64_t at, const uint8_t *b, __m256 d, __m256 m) {
  (void)m;
  __m256 f[4];
  ij__book_halves(k, f, b + 2, IJ_CODEBOOK(IJ_BOOK_M8_7));
  ij__put_scaled(k, at, f, d);
}

IJ_AVX2 void ij__q4_1_avx2(ij_sink *k, const int64_t at, const uint8_t *b, __m256 d, __m256 m) {
  const __m256i low = _mm256_set1_epi32(15);
  __m256i x = _mm256_cvtepu8_epi32(ij__load8(b + 4)), y = _mm256_cvtepu8_epi32(ij__load8(b + 12));
  __m256i codes[4] = {_mm256_and_si256(x, low), _mm256_and_si256(y, low), _mm256_srli_epi32(x, 4), _mm256_srli_epi32(y, 4)};
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(codes[i]), m));
}

/* The codes of Q5_0: minus 16 where the fifth bit is clear, because then the upper bits are all ones. */
IJ_AVX2 void ij__q5_0_codes(uint8_t codes[32], const uint8_t *b) {
  __m256i none = _mm256_andnot_si256(ij__bits_to_bytes(b + 2), _mm256_set1_epi8((char)0xf0));
  ij__store32(codes, _mm256_or_si256(ij__nibbles_in_order(b + 6), none));
}

IJ_AVX2 void ij__q5_1_codes(uint8_t codes[32], const uint8_t *b) {
  __m256i fifth = _mm256_and_si256(ij__bits_to_bytes(b + 4), _mm256_set1_epi8(16));
  ij__store32(codes, _mm256_or_si256(ij__nibbles_in_order(b + 8), fifth));
}

/* From codes; so Q8_0, of which the first two bytes are the scale. */
IJ_AVX2 void ij__codes_i8(ij_sink *k, const int64_t at, const uint8_t *codes, __m256 d) {
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, _mm256_mul_ps(d, ij__floats_i8(codes + 8 * i)));
}

IJ_AVX2 void ij__codes_u8(ij_sink *k, const int64_t at, const uint8_t *codes, __m256 d, __m256 m) {
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, _mm256_fmadd_ps(d, ij__floats_u8(codes + 8 * i), m));
}

IJ_AVX2 void ij__q5_0_avx2(ij_sink *k, const int64_t at, const uint8_t *b, __m256 d, __m256 m) {
  uint8_t codes[32];
  (void)m;
  ij__q5_0_codes(codes, b);
  IJ_IN_MEMORY(codes);
  ij__codes_i8(k, at, codes, d);
}

IJ_AVX2 void ij__q5_1_avx2(ij_sink *k, const int64_t at, const uint8_t *b, __m256 d, __m256 m) {
  uint8_t codes[32];
  ij__q5_1_codes(codes, b);
  IJ_IN_MEMORY(codes);
  ij__codes_u8(k, at, codes, d, m);
}

IJ_AVX2 void ij__q8_0_avx2(ij_sink *k, const int64_t at, const uint8_t *b, __m256 d, __m256 m) {
  (void)m;
  ij__codes_i8(k, at, b + 2, d);
}

/* ---- 256 values, codes of two and three bits ----------------------------------------------------------------------------------- */

/* The two-bit codes of 128 values: code 32 * j + i in bits 2j of byte i. values[j][h]: the four values, twice, of codes 32 * j +
 * 16 * h and the 15 that follow. */
IJ_AVX2 void ij__two_bits_128(ij_sink *k, const uint8_t *codes, __m256 values[4][2]) {
  __m256i x[4];
  IJ_UNROLL for (int i = 0; i < 4; i++) x[i] = _mm256_cvtepu8_epi32(ij__load8(codes + 8 * i));
  IJ_UNROLL for (int j = 0; j < 4; j++) {
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      ij__put(k, 4 * j + i, _mm256_permutevar_ps(values[j][i / 2], x[i]));
      x[i] = _mm256_srli_epi32(x[i], 2);
    }
  }
}

IJ_AVX2 void ij__q2_k_ahead(ij_ahead *a, const uint8_t *b) {
  __m256 d = ij__f16_avx2(b + 80), dmin = ij__f16_avx2(b + 82);
  const __m256i low = _mm256_set1_epi32(15);
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256i s = _mm256_cvtepu8_epi32(ij__load8(b + 8 * i));
    _mm256_storeu_ps(a->scale + 8 * i, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_and_si256(s, low))));
    _mm256_storeu_ps(a->offset + 8 * i, _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(_mm256_srli_epi32(s, 4))));
  }
}

IJ_AVX2 void ij__q2_k_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t half) {
  const __m256 code = _mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3);
  __m256 values[4][2];
  IJ_UNROLL for (int g = 0; g < 8; g++) {
    values[g / 2][g % 2] =
        _mm256_fmsub_ps(_mm256_broadcast_ss(a->scale + 8 * half + g), code, _mm256_broadcast_ss(a->offset + 8 * half + g));
  }
  ij__two_bits_128(k, b + 16 + 32 * half, values);
}

IJ_AVX2 void ij__tq2_0_ahead(ij_ahead *a, const uint8_t *b) {
  _mm256_storeu_ps(a->scale, _mm256_mul_ps(ij__f16_avx2(b + 64), _mm256_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2)));
}

IJ_AVX2 void ij__tq2_0_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t half) {
  __m256 v = _mm256_loadu_ps(a->scale);
  __m256 values[4][2] = {{v, v}, {v, v}, {v, v}, {v, v}};
  ij__two_bits_128(k, b + 32 * half, values);
}

/* d times sixteen signed bytes. */
IJ_AVX2 void ij__scales16(float out[16], __m256 d, __m128i s) {
  _mm256_storeu_ps(out, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(s))));
  _mm256_storeu_ps(out + 8, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(s, s)))));
}

/* d times the sixteen scales, -32 to 31. Two-bit codes lie in bits 2j of 32 bytes for each half, third bits in bits 4 * half + j of 32
 * more; they become codes of three bits, for each quarter two in each byte: one in the low nibble and one in the high one. */
IJ_AVX2 void ij__q3_k_ahead(ij_ahead *a, const uint8_t *b) {
  uint32_t top = ij__load_u32(b + 104);
  __m128i low = ij__load8(b + 96);
  low = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
  __m128i high = _mm_srlv_epi32(_mm_sllv_epi32(_mm_set1_epi32((int)top), _mm_setr_epi32(4, 2, 0, 0)), _mm_setr_epi32(0, 0, 0, 2));
  __m128i s = _mm_sub_epi8(_mm_or_si128(low, _mm_and_si128(high, _mm_set1_epi8(0x30))), _mm_set1_epi8(32));
  ij__scales16(a->scale, ij__f16_avx2(b + 108), s);
  __m256i third = ij__load32(b);
  IJ_UNROLL for (int quarter = 0; quarter < 4; quarter++) {
    __m256i q = ij__load32(b + 32 + 32 * (quarter / 2));
    if (quarter % 2 == 1) q = _mm256_srli_epi16(q, 4);
    __m256i t = quarter == 0 ? _mm256_slli_epi16(third, 2) : quarter == 1 ? third : _mm256_srli_epi16(third, 2 * quarter - 2);
    __m256i u = quarter < 3 ? _mm256_slli_epi16(third, 5 - 2 * quarter) : _mm256_srli_epi16(third, 1);
    q = _mm256_or_si256(_mm256_and_si256(q, _mm256_set1_epi8(0x03)), _mm256_and_si256(_mm256_slli_epi16(q, 2), _mm256_set1_epi8(0x30)));
    t = _mm256_or_si256(_mm256_and_si256(t, _mm256_set1_epi8(0x04)), _mm256_and_si256(u, _mm256_set1_epi8(0x40)));
    ij__store32(a->codes + 32 * quarter, _mm256_or_si256(q, t));
  }
}

IJ_AVX2 void ij__q3_k_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t quarter) {
  const __m256 number = _mm256_setr_ps(-4, -3, -2, -1, 0, 1, 2, 3); /* the third bit is inverted, and worth -4 */
  (void)b;
  __m256i x[4];
  IJ_UNROLL for (int i = 0; i < 4; i++) x[i] = _mm256_cvtepu8_epi32(ij__load8(a->codes + 32 * quarter + 8 * i));
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    __m256 values = _mm256_mul_ps(_mm256_broadcast_ss(a->scale + 4 * quarter + i / 2), number);
    ij__put(k, i, _mm256_permutevar8x32_ps(values, i < 4 ? x[i] : _mm256_srli_epi32(x[i % 4], 4)));
  }
}

/* ---- 256 values, longer codes --------------------------------------------------------------------------------------------------- */

/* d times the eight scales, and dmin times the eight offsets, of Q4_K and Q5_K. Bytes 4 to 11 of a block have the codes of groups 0 to
 * 3 in their low six bits and above them the top bits of groups 4 to 7, whose low four bits are the nibbles of bytes 12 to 15. The scale
 * of odd groups is multiplied by `odd`. */
IJ_AVX2 void ij__k_scales(ij_ahead *a, const uint8_t *b, float odd) {
  const char no = -1;
  __m128i v = ij__load16(b);
  __m128i low = _mm_shuffle_epi8(v, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
  __m128i high = _mm_shuffle_epi8(v, _mm_setr_epi8(no, no, no, no, 4, 5, 6, 7, no, no, no, no, 8, 9, 10, 11));
  low = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4)), _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
  low = _mm_or_si128(low, _mm_and_si128(_mm_srli_epi16(high, 2), _mm_set1_epi8(0x30)));
  __m128 d = _mm_cvtph_ps(v);
  __m256 scale = _mm256_mul_ps(_mm256_broadcastss_ps(d), _mm256_setr_ps(1, odd, 1, odd, 1, odd, 1, odd));
  __m256 offset = _mm256_broadcastss_ps(_mm_movehdup_ps(d));
  _mm256_storeu_ps(a->scale, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low))));
  _mm256_storeu_ps(a->offset, _mm256_mul_ps(offset, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(low, low)))));
}

/* Codes of odd groups are used where they are, in high nibbles, as 16 times what they are. */
IJ_AVX2 void ij__q4_k_ahead(ij_ahead *a, const uint8_t *b) { ij__k_scales(a, b, 1.0f / 16); }

IJ_AVX2 void ij__q4_k_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t quarter) {
  const __m256i nibble[2] = {_mm256_set1_epi32(15), _mm256_set1_epi32(0xf0)};
  __m256i x[4];
  IJ_UNROLL for (int i = 0; i < 4; i++) x[i] = _mm256_cvtepu8_epi32(ij__load8(b + 16 + 32 * quarter + 8 * i));
  IJ_UNROLL for (int g = 0; g < 2; g++) {
    __m256 scale = _mm256_broadcast_ss(a->scale + 2 * quarter + g), offset = _mm256_broadcast_ss(a->offset + 2 * quarter + g);
    IJ_UNROLL for (int i = 0; i < 4; i++) {
      ij__put(k, 4 * g + i, _mm256_fmsub_ps(scale, _mm256_cvtepi32_ps(_mm256_and_si256(x[i], nibble[g])), offset));
    }
  }
}

IJ_AVX2 void ij__q5_k_ahead(ij_ahead *a, const uint8_t *b) {
  const __m256i low = _mm256_set1_epi8(15), fifth = _mm256_set1_epi8(16);
  ij__k_scales(a, b, 1);
  const __m256i high = ij__load32(b + 16);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256i x = ij__load32(b + 48 + 32 * i);
    /* Bits 2i and 2i + 1 to bit 4. */
    __m256i h = i < 2 ? _mm256_slli_epi16(high, 4 - 2 * i) : _mm256_srli_epi16(high, 2 * i - 4);
    __m256i h2 = i < 2 ? _mm256_slli_epi16(high, 3 - 2 * i) : _mm256_srli_epi16(high, 2 * i - 3);
    ij__store32(a->codes + 64 * i, _mm256_or_si256(_mm256_and_si256(x, low), _mm256_and_si256(h, fifth)));
    x = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
    ij__store32(a->codes + 64 * i + 32, _mm256_or_si256(x, _mm256_and_si256(h2, fifth)));
  }
}

IJ_AVX2 void ij__q5_k_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t quarter) {
  (void)b;
  IJ_UNROLL for (int g = 0; g < 2; g++) {
    __m256 scale = _mm256_broadcast_ss(a->scale + 2 * quarter + g), offset = _mm256_broadcast_ss(a->offset + 2 * quarter + g);
    IJ_UNROLL for (int i = 4 * g; i < 4 * g + 4; i++) {
      ij__put(k, i, _mm256_fmsub_ps(scale, ij__floats_u8(a->codes + 64 * quarter + 8 * i), offset));
    }
  }
}

/* 32 codes from their low nibbles, and bits 4 and 5 in place in `high`. */
IJ_AVX2 void ij__q6_k_codes(uint8_t codes[32], __m256i low, __m256i high) {
  __m256i code = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
  ij__store32(codes, _mm256_sub_epi8(code, _mm256_set1_epi8(32)));
}

IJ_AVX2 void ij__q6_k_ahead(ij_ahead *a, const uint8_t *b) {
  ij__scales16(a->scale, ij__f16_avx2(b + 208), ij__load16(b + 192));
  IJ_UNROLL for (int half = 0; half < 2; half++) {
    __m256i x = ij__load32(b + 64 * half), y = ij__load32(b + 64 * half + 32), high = ij__load32(b + 128 + 32 * half);
    uint8_t *codes = a->codes + 128 * half;
    ij__q6_k_codes(codes, x, _mm256_slli_epi16(high, 4));
    ij__q6_k_codes(codes + 32, y, _mm256_slli_epi16(high, 2));
    ij__q6_k_codes(codes + 64, _mm256_srli_epi16(x, 4), high);
    ij__q6_k_codes(codes + 96, _mm256_srli_epi16(y, 4), _mm256_srli_epi16(high, 2));
  }
}

IJ_AVX2 void ij__q6_k_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t quarter) {
  (void)b;
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    __m256 scale = _mm256_broadcast_ss(a->scale + 4 * quarter + i / 2);
    ij__put(k, i, _mm256_mul_ps(scale, ij__floats_i8(a->codes + 64 * quarter + 8 * i)));
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

IJ_AVX2 void ij__tq1_0_ahead(ij_ahead *a, const uint8_t *b) {
  _mm256_storeu_ps(a->scale, ij__f16_avx2(b + 52));
  __m256i x = ij__load32(b);
  IJ_UNROLL for (int n = 0; n < 5; n++) {
    ij__store32(a->codes + 32 * n, ij__trits(x));
    x = ij__times_3(x);
  }
  /* 16 bytes of five digits, then 4 of four: digits n and n + 1 side by side. */
  __m128i z = ij__load16(b + 32), z3 = _mm_add_epi8(z, _mm_add_epi8(z, z));
  x = _mm256_inserti128_si256(_mm256_castsi128_si256(z), z3, 1);
  IJ_UNROLL for (int n = 0; n < 2; n++) {
    ij__store32(a->codes + 160 + 32 * n, ij__trits(x));
    x = ij__times_3(ij__times_3(x));
  }
  uint32_t last = ij__load_u32(b + 48);
  __m128i q = _mm_set1_epi32((int)last), q3 = _mm_add_epi8(q, _mm_add_epi8(q, q)), q9 = _mm_add_epi8(q3, _mm_add_epi8(q3, q3));
  __m128i q27 = _mm_add_epi8(q9, _mm_add_epi8(q9, q9));
  q = _mm_unpacklo_epi64(_mm_unpacklo_epi32(q, q3), _mm_unpacklo_epi32(q9, q27));
  ij__store32(a->codes + 224, ij__trits(_mm256_inserti128_si256(x, q, 1)));
}

IJ_AVX2 void ij__tq1_0_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t quarter) {
  (void)b;
  __m256 d = _mm256_loadu_ps(a->scale);
  ij__codes_i8(k, 0, a->codes + 64 * quarter, d);
  ij__codes_i8(k, 4, a->codes + 64 * quarter + 32, d);
}

/* X(name, identifier in dtype.h, turns) */
#define IJ_K_TYPES(X) \
  X(q2_k, Q2_K, 2) X(q3_k, Q3_K, 4) X(q4_k, Q4_K, 4) X(q5_k, Q5_K, 4) X(q6_k, Q6_K, 4) X(tq1_0, TQ1_0, 4) X(tq2_0, TQ2_0, 2)

#endif
