/* decode_iq_avx2.h: the IQ blocks to registers of eight floats, for the sinks of decode_avx2.h, in turns as in decode_k_avx2.h. Values are
 * those of quant/fmt_iq.h.
 *
 * Where the codebook fits the first-level cache as floats, eight values are one multiplication by the scale and one exclusive or of
 * the signs, both from memory (iq_floats.h). The large codebooks of IQ1 and IQ2_S are kept as two-bit codes, which look up the three
 * values that their group can have. Where in these tables a block's entries and signs are is worked out ahead, sixteen at a time: what is
 * left of scalar code is to load these places, and that is what limits these types.
 */
#ifndef IJ_KERNELS_X86_DECODE_IQ_AVX2_H
#define IJ_KERNELS_X86_DECODE_IQ_AVX2_H

#include "kernels/iq_floats.h"
#include "kernels/x86/decode_avx2.h"
#include "quant/fmt_iq.h"

/* Four offsets, loaded at once where there are more loads to do than a processor with two of them per cycle has time for. */
typedef struct ij_offsets {
  uint64_t word;
} ij_offsets;

IJ_AVX2 ij_offsets ij__offsets(const uint16_t *p) { return (ij_offsets){ij__load_u64(p)}; }
IJ_AVX2 uint16_t ij__offset(ij_offsets o, int i) { return (uint16_t)(o.word >> (16 * i)); }

/* `offset` bytes on in a table. */
IJ_AVX2 const float *ij__entry_at(const void *table, uint16_t offset) {
  return (const float *)(const void *)((const char *)table + offset);
}

IJ_AVX2 __m256 ij__signed_avx2(__m256 v, const void *signs, uint16_t offset) {
  return _mm256_xor_ps(v, _mm256_load_ps(ij__entry_at(signs, offset)));
}

/* The four magnitudes of each of two entries, the first at o[first]. */
IJ_AVX2 __m256 ij__two_fours(const void *table, ij_offsets o, int first) {
  __m128 a = _mm_loadu_ps(ij__entry_at(table, ij__offset(o, first))), b = _mm_loadu_ps(ij__entry_at(table, ij__offset(o, first + 1)));
  return _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1);
}

/* ---- where entries are -------------------------------------------------------------------------------------------------------- */

enum { IJ_SIGNS_SHIFT = 5 }; /* of 32 bytes */

/* Sixteen bytes to words, moved left. */
IJ_AVX2 __m256i ij__offsets16(__m128i bytes, int shift) { return _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), shift); }

/* 32 bytes of eight signs. */
IJ_AVX2 void ij__signs_8(ij_ahead *a, const uint8_t *b) {
  IJ_UNROLL for (int i = 0; i < 2; i++) ij__store32(a->sign + 16 * i, ij__offsets16(ij__load16(b + 16 * i), IJ_SIGNS_SHIFT));
}

/* Eight words with 28 signs at the bottom. */
IJ_AVX2 void ij__signs_28_avx2(ij_ahead *a, __m256i w) {
  const __m256i low = _mm256_set1_epi32(0x7f << IJ_SIGNS_SHIFT), high = _mm256_set1_epi32(0x7f << (16 + IJ_SIGNS_SHIFT));
  __m256i x = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi32(w, 5), low), _mm256_and_si256(_mm256_slli_epi32(w, 14), high));
  __m256i y = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(w, 9), low), _mm256_and_si256(w, high));
  __m256i p = _mm256_unpacklo_epi32(x, y), q = _mm256_unpackhi_epi32(x, y);
  ij__store32(a->sign, _mm256_permute2x128_si256(p, q, 0x20));
  ij__store32(a->sign + 16, _mm256_permute2x128_si256(p, q, 0x31));
}

/* 2^first, 2^(first - step) and so on, four of them over and over. */
IJ_AVX2 __m256i ij__powers(int first, int step) {
  const int64_t one = 1;
  return _mm256_set1_epi64x(one << first | one << (first - step + 16) | one << (first - 2 * step + 32) | one << (first - 3 * step + 48));
}

/* Each of four bytes, or words, at p to four words, times such powers: what each of four entries has of a byte or word is then in the same
 * bits of all four words. */
IJ_AVX2 __m256i ij__four_times_bytes(const void *p, int first, int step) {
  const __m256i place = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1, -1, 1, -1, 1, -1, 1, -1,  //
                                         2, -1, 2, -1, 2, -1, 2, -1, 3, -1, 3, -1, 3, -1, 3, -1);
  return _mm256_mullo_epi16(_mm256_shuffle_epi8(_mm256_set1_epi32((int)ij__load_u32(p)), place), ij__powers(first, step));
}

IJ_AVX2 __m256i ij__four_times_words(const void *p, int first, int step) {
  const __m256i place = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
  return _mm256_mullo_epi16(_mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)ij__load_u64(p)), place), ij__powers(first, step));
}

/* a, with the bits of `mask` from b. */
IJ_AVX2 __m256i ij__with_bits(__m256i a, __m256i b, int mask) {
  return _mm256_or_si256(a, _mm256_and_si256(b, _mm256_set1_epi16((short)mask)));
}

/* ---- scales ------------------------------------------------------------------------------------------------------------------- */

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

/* ---- the types ---------------------------------------------------------------------------------------------------------------- */

/* Eight values of a table of floats. */
IJ_AVX2 void ij__put_entry(ij_sink *k, const int64_t i, __m256 values, const void *signs, uint16_t sign, __m256 scale) {
  ij__put(k, i, ij__signed_avx2(_mm256_mul_ps(scale, values), signs, sign));
}

IJ_AVX2 void ij__iq2_xxs_ahead(ij_ahead *a, const uint8_t *b) {
  __m256 x = _mm256_castsi256_ps(ij__load32(b + 2)), y = _mm256_castsi256_ps(ij__load32(b + 34));
  __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(x, y, _MM_SHUFFLE(2, 0, 2, 0))); /* dwords 0 1 4 5 2 3 6 7 */
  __m256i words = _mm256_castps_si256(_mm256_shuffle_ps(x, y, _MM_SHUFFLE(3, 1, 3, 1)));
  even = _mm256_permute4x64_epi64(even, _MM_SHUFFLE(3, 1, 2, 0));
  words = _mm256_permute4x64_epi64(words, _MM_SHUFFLE(3, 1, 2, 0));
  ij__store32(a->entry, ij__offsets16(_mm256_castsi256_si128(even), 5));
  ij__store32(a->entry + 16, ij__offsets16(_mm256_extracti128_si256(even, 1), 5));
  ij__signs_28_avx2(a, words);
  ij__top_scales(a->scale, ij__f16_avx2(b), words, 0.25f);
}

IJ_AVX2 void ij__iq2_xxs_32(ij_sink *k, const int64_t at, const ij_ahead *a, const int64_t g) {
  const ij_iq_floats *t = &ij__iq_floats;
  const ij_offsets entry = ij__offsets(a->entry + 4 * g);
  __m256 s = _mm256_broadcast_ss(a->scale + g);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    ij__put_entry(k, at + i, _mm256_load_ps(ij__entry_at(t->iq2_xxs, ij__offset(entry, i))), t->signs7, a->sign[4 * g + i], s);
  }
}

IJ_AVX2 void ij__iq2_xs_ahead(ij_ahead *a, const uint8_t *b) {
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256i x = ij__load32(b + 2 + 32 * i);
    ij__store32(a->entry + 16 * i, _mm256_and_si256(_mm256_slli_epi16(x, 5), _mm256_set1_epi16(511 << 5)));
    ij__store32(a->sign + 16 * i, _mm256_and_si256(_mm256_srli_epi16(x, 9 - IJ_SIGNS_SHIFT), _mm256_set1_epi16(0x7f << IJ_SIGNS_SHIFT)));
  }
  ij__nibble_scales(a->scale, ij__f16_avx2(b), ij__load8(b + 66), 0.25f);
}

IJ_AVX2 void ij__iq2_xs_32(ij_sink *k, const int64_t at, const ij_ahead *a, const int64_t g) {
  const ij_iq_floats *t = &ij__iq_floats;
  const ij_offsets entry = ij__offsets(a->entry + 4 * g);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256 s = _mm256_broadcast_ss(a->scale + 2 * g + i / 2);
    ij__put_entry(k, at + i, _mm256_load_ps(ij__entry_at(t->iq2_xs, ij__offset(entry, i))), t->signs7, a->sign[4 * g + i], s);
  }
}

/* The values of eight two-bit codes at p, the first lowest; `values` holds one per code, twice. */
IJ_AVX2 __m256 ij__eight_of_three(__m256 values, const void *p) {
  __m256i codes = _mm256_set1_epi32((int)ij__load_u32(p));
  return _mm256_permutevar_ps(values, _mm256_srlv_epi32(codes, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)));
}

IJ_AVX2 void ij__iq2_s_ahead(ij_ahead *a, const uint8_t *b) {
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256i low = ij__offsets16(ij__load16(b + 2 + 16 * i), 1);
    ij__store32(a->entry + 16 * i, ij__with_bits(low, ij__four_times_bytes(b + 66 + 4 * i, 9, 2), 0x600));
  }
  ij__signs_8(a, b + 34);
  ij__nibble_scales(a->scale, ij__f16_avx2(b), ij__load8(b + 74), 0.25f);
}

IJ_AVX2 void ij__iq2_s_32(ij_sink *k, const int64_t at, const ij_ahead *a, const int64_t g) {
  const ij_iq_floats *t = &ij__iq_floats;
  const ij_offsets entry = ij__offsets(a->entry + 4 * g);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256 values = _mm256_mul_ps(_mm256_broadcast_ss(a->scale + 2 * g + i / 2), _mm256_setr_ps(8, 25, 43, 0, 8, 25, 43, 0));
    __m256 v = ij__eight_of_three(values, ij__entry_at(t->iq2_s, ij__offset(entry, i)));
    ij__put(k, at + i, ij__signed_avx2(v, t->signs8, a->sign[4 * g + i]));
  }
}

IJ_AVX2 void ij__iq3_xxs_ahead(ij_ahead *a, const uint8_t *b) {
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__store32(a->entry + 16 * i, ij__offsets16(ij__load16(b + 2 + 16 * i), 4));
  __m256i words = ij__load32(b + 66);
  ij__signs_28_avx2(a, words);
  ij__top_scales(a->scale, ij__f16_avx2(b), words, 0.5f);
}

IJ_AVX2 void ij__iq3_xxs_32(ij_sink *k, const int64_t at, const ij_ahead *a, const int64_t g) {
  const ij_iq_floats *t = &ij__iq_floats;
  const ij_offsets entry[2] = {ij__offsets(a->entry + 8 * g), ij__offsets(a->entry + 8 * g + 4)};
  __m256 s = _mm256_broadcast_ss(a->scale + g);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    ij__put_entry(k, at + i, ij__two_fours(t->iq3_xxs, entry[i / 2], i % 2 * 2), t->signs7, a->sign[4 * g + i], s);
  }
}

IJ_AVX2 void ij__iq3_s_ahead(ij_ahead *a, const uint8_t *b) {
  const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256i high = _mm256_and_si256(_mm256_set1_epi16((short)ij__fmt_u16(b + 66 + 2 * i)), bit); /* the ninth bits */
    __m256i low = ij__offsets16(ij__load16(b + 2 + 16 * i), 4);
    ij__store32(a->entry + 16 * i, ij__with_bits(low, _mm256_cmpeq_epi16(high, bit), 256 << 4));
  }
  ij__signs_8(a, b + 74);
  ij__nibble_scales(a->scale, ij__f16_avx2(b), _mm_cvtsi32_si128((int)ij__load_u32(b + 106)), 2.0f);
}

IJ_AVX2 void ij__iq3_s_32(ij_sink *k, const int64_t at, const ij_ahead *a, const int64_t g) {
  const ij_iq_floats *t = &ij__iq_floats;
  const ij_offsets entry[2] = {ij__offsets(a->entry + 8 * g), ij__offsets(a->entry + 8 * g + 4)};
  __m256 s = _mm256_broadcast_ss(a->scale + g);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    ij__put_entry(k, at + i, ij__two_fours(t->iq3_s, entry[i / 2], i % 2 * 2), t->signs8, a->sign[4 * g + i], s);
  }
}

/* The three values of a group, by code: scale * (-1, 0, 1 and delta, a positive one at offset 0 and a negative one at 16). */
IJ_AVX2 __m256 ij__iq1_values(__m256 scale, uint16_t delta) {
  static const float values[2][4] = {{-0.875f, 0.125f, 1.125f, 0}, {-1.125f, -0.125f, 0.875f, 0}};
  return _mm256_mul_ps(scale, _mm256_broadcast_ps((const __m128 *)(const void *)ij__entry_at(values, delta)));
}

IJ_AVX2 void ij__iq1_s_ahead(ij_ahead *a, const uint8_t *b) {
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256i low = ij__offsets16(ij__load16(b + 2 + 16 * i), 1);
    ij__store32(a->entry + 16 * i, ij__with_bits(low, ij__four_times_words(b + 34 + 8 * i, 9, 3), 0xe00));
  }
  __m128i words = ij__load16(b + 34);
  _mm_storeu_si128((__m128i *)(void *)a->delta, _mm_slli_epi16(_mm_srli_epi16(words, 15), 4));
  __m256i s = _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu16_epi32(words), 11), _mm256_set1_epi32(14));
  _mm256_storeu_ps(a->scale, _mm256_mul_ps(ij__f16_avx2(b), _mm256_cvtepi32_ps(_mm256_or_si256(s, _mm256_set1_epi32(1)))));
}

IJ_AVX2 void ij__iq1_s_32(ij_sink *k, const int64_t at, const ij_ahead *a, const int64_t g) {
  const ij_iq_floats *t = &ij__iq_floats;
  __m256 values = ij__iq1_values(_mm256_broadcast_ss(a->scale + g), a->delta[g]);
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, ij__eight_of_three(values, ij__entry_at(t->iq1, a->entry[4 * g + i])));
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

/* Nibbles of bytes 32 to 47: three bits of an entry, and the sign of its delta. */
IJ_AVX2 void ij__iq1_m_ahead(ij_ahead *a, const uint8_t *b) {
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256i low = ij__offsets16(ij__load16(b + 16 * i), 1), x = _mm256_cvtepu8_epi32(ij__load8(b + 32 + 8 * i));
    __m256i high = _mm256_or_si256(x, _mm256_slli_epi32(x, 12));
    ij__store32(a->entry + 16 * i, ij__with_bits(low, _mm256_slli_epi32(high, 9), 0xe00));
    ij__store32(a->delta + 16 * i, _mm256_and_si256(_mm256_slli_epi32(high, 1), _mm256_set1_epi16(16)));
  }
  ij__iq1_m_scales(a->scale, b + 48);
}

IJ_AVX2 void ij__iq1_m_32(ij_sink *k, const int64_t at, const ij_ahead *a, const int64_t g) {
  const ij_iq_floats *t = &ij__iq_floats;
  const ij_offsets entry = ij__offsets(a->entry + 4 * g), delta = ij__offsets(a->delta + 4 * g);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m256 values = ij__iq1_values(_mm256_broadcast_ss(a->scale + 2 * g + i / 2), ij__offset(delta, i));
    ij__put(k, at + i, ij__eight_of_three(values, ij__entry_at(t->iq1, ij__offset(entry, i))));
  }
}

/* Two groups of 32 values are a turn. */
#define IJ_TWO_GROUPS(name)                                                                                          \
  IJ_AVX2 void ij__##name##_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t quarter) {          \
    (void)b;                                                                                                         \
    ij__##name##_32(k, 0, a, 2 * quarter);                                                                           \
    ij__##name##_32(k, 4, a, 2 * quarter + 1);                                                                       \
  }
IJ_TWO_GROUPS(iq2_xxs)
IJ_TWO_GROUPS(iq2_xs)
IJ_TWO_GROUPS(iq2_s)
IJ_TWO_GROUPS(iq3_xxs)
IJ_TWO_GROUPS(iq3_s)
IJ_TWO_GROUPS(iq1_s)
IJ_TWO_GROUPS(iq1_m)

IJ_AVX2 void ij__iq4_nl_avx2(ij_sink *k, const int64_t at, const uint8_t *b, __m256 d, __m256 m) {
  (void)m;
  __m256 f[4];
  ij__book_halves(k, f, b + 2, IJ_CODEBOOK(IJ_BOOK_IQ4));
  ij__put_scaled(k, at, f, d);
}

/* d times the eight scales, -32 to 31. */
IJ_AVX2 void ij__iq4_xs_ahead(ij_ahead *a, const uint8_t *b) {
  const __m256i place = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  __m256i low = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int)ij__load_u32(b + 4)), place), _mm256_set1_epi32(15));
  __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32((int)ij__fmt_u16(b + 2) << 4), _mm256_srli_epi32(place, 1));
  __m256i s = _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
  _mm256_storeu_ps(a->scale, _mm256_mul_ps(ij__f16_avx2(b), _mm256_cvtepi32_ps(_mm256_sub_epi32(s, _mm256_set1_epi32(32)))));
}

IJ_AVX2 void ij__iq4_xs_part(ij_sink *k, const ij_ahead *a, const uint8_t *b, const int64_t quarter) {
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    const int64_t g = 2 * quarter + i;
    __m256 f[4];
    ij__book_halves(k, f, b + 8 + 16 * g, IJ_CODEBOOK(IJ_BOOK_IQ4));
    ij__put_scaled(k, 4 * i, f, _mm256_broadcast_ss(a->scale + g));
  }
}

/* As IJ_K_TYPES. */
#define IJ_IQ_TYPES(X)                                                                                       \
  X(iq1_s, IQ1_S, 4) X(iq1_m, IQ1_M, 4) X(iq2_xxs, IQ2_XXS, 4) X(iq2_xs, IQ2_XS, 4) X(iq2_s, IQ2_S, 4)       \
  X(iq3_xxs, IQ3_XXS, 4) X(iq3_s, IQ3_S, 4) X(iq4_xs, IQ4_XS, 4)

#endif
