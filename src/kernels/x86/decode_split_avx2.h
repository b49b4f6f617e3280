/* decode_split_avx2.h: the 4-bit float blocks of GGUF, and split types, to registers of eight floats, for the sinks of decode_avx2.h: 32
 * values a call, eights `at` and those that follow.
 *
 * Values are those of quant/fmt_fp4.h and fmt_affine.h. Affine codes of two and three bits look up the values that their group can
 * have; nothing is read beyond the bytes that hold the 32 codes.
 */
#ifndef IJ_KERNELS_X86_DECODE_SPLIT_AVX2_H
#define IJ_KERNELS_X86_DECODE_SPLIT_AVX2_H

#include "kernels/kernels.h"
#include "kernels/x86/decode_avx2.h"
#include "quant/fmt_affine.h"
#include "quant/fmt_fp4.h"

/* The two scales of 16 values each. */
IJ_AVX2 void ij__put_scaled_2(ij_sink *k, const int64_t at, const __m256 f[4], __m256 first, __m256 second) {
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, _mm256_mul_ps(i < 2 ? first : second, f[i]));
}

IJ_AVX2 void ij__mxfp4_avx2(ij_sink *k, const int64_t at, const uint8_t *b, __m256 d, __m256 m) {
  (void)m;
  __m256 f[4];
  ij__book_halves(k, f, b + 1, IJ_CODEBOOK(IJ_BOOK_E2M1_TWICE));
  ij__put_scaled(k, at, f, d);
}

/* A block. Its scales are halves of what is looked up, and its codes are twice what they are here. */
IJ_AVX2 void ij__nvfp4_avx2(ij_sink *k, const uint8_t *b) {
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256 f[4];
    ij__book_eights(k, f, b + 4 + 16 * i, IJ_CODEBOOK(IJ_BOOK_E2M1_BLOCK));
    const float *first = &ij__e4m3[b[2 * i] & 0x7f], *second = &ij__e4m3[b[2 * i + 1] & 0x7f];
    ij__put_scaled_2(k, 4 * i, f, _mm256_broadcast_ss(first), _mm256_broadcast_ss(second));
  }
}

IJ_AVX2 void ij__nvfp4_split_avx2(ij_sink *k, const int64_t at, const uint8_t *codes, const uint8_t *scales) {
  __m256 f[4];
  ij__book_pairs(k, f, codes, IJ_CODEBOOK(IJ_BOOK_E2M1));
  ij__put_scaled_2(k, at, f, _mm256_broadcast_ss(&ij__e4m3[scales[0]]), _mm256_broadcast_ss(&ij__e4m3[scales[1]]));
}

IJ_AVX2 void ij__mxfp4_split_avx2(ij_sink *k, const int64_t at, const uint8_t *codes, __m256 d) {
  __m256 f[4];
  ij__book_pairs(k, f, codes, IJ_CODEBOOK(IJ_BOOK_E2M1));
  ij__put_scaled(k, at, f, d);
}

/* E4M3 is F16 with a smaller exponent: 2^8 apart, subnormals included. These are sixteen F16, 2^-8 times what they should be. */
IJ_AVX2 __m256i ij__e4m3_as_f16(__m128i bytes) {
  __m256i h = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7), _mm256_set1_epi16((short)0xbf80));
  const __m256i magnitude = _mm256_set1_epi16(0x3f80);
  return _mm256_or_si256(h, _mm256_cmpeq_epi16(_mm256_and_si256(h, magnitude), magnitude)); /* a NaN is one in all its bits */
}

IJ_AVX2 void ij__mxfp8_split_avx2(ij_sink *k, const int64_t at, const uint8_t *codes, __m256 d) {
  const __m256 bias = _mm256_set1_ps(256.0f);
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256i h = ij__e4m3_as_f16(ij__load16(codes + 16 * i));
    __m256 a = _mm256_cvtph_ps(_mm256_castsi256_si128(h)), b = _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1));
    ij__put(k, at + 2 * i, _mm256_mul_ps(_mm256_mul_ps(a, bias), d));
    ij__put(k, at + 2 * i + 1, _mm256_mul_ps(_mm256_mul_ps(b, bias), d));
  }
}

/* ---- affine: 32 values from their scale and bias ------------------------------------------------------------------------------ */

/* scale * code + bias, in one rounding or two as the type of the sidecars asks. */
IJ_AVX2 __m256 ij__affine_avx2(__m256 code, __m256 scale, __m256 bias, bool once) {
  return once ? _mm256_fmadd_ps(scale, code, bias) : _mm256_add_ps(_mm256_mul_ps(scale, code), bias);
}

/* The eight values at bits 0 to 2 of each place, from the eight that the group can have. */
IJ_AVX2 __m256 ij__eight_of_eight(__m256 values, __m256i codes) { return _mm256_permutevar8x32_ps(values, codes); }

IJ_AVX2 void ij__affine2_avx2(ij_sink *k, const int64_t at, const uint8_t *p, __m256 scale, __m256 bias, bool once) {
  const __m256i first = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14), second = _mm256_setr_epi32(16, 18, 20, 22, 24, 26, 28, 30);
  __m256 values = ij__affine_avx2(_mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3), scale, bias, once);
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m256i x = _mm256_set1_epi32((int)ij__load_u32(p + 4 * i));
    ij__put(k, at + 2 * i, _mm256_permutevar_ps(values, _mm256_srlv_epi32(x, first)));
    ij__put(k, at + 2 * i + 1, _mm256_permutevar_ps(values, _mm256_srlv_epi32(x, second)));
  }
}

IJ_AVX2 void ij__affine3_avx2(ij_sink *k, const int64_t at, const uint8_t *p, __m256 scale, __m256 bias, bool once) {
  const __m256i place = _mm256_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21), late = _mm256_setr_epi32(8, 11, 14, 17, 20, 23, 26, 29);
  __m256 values = ij__affine_avx2(_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), scale, bias, once);
  IJ_UNROLL for (int i = 0; i < 3; i++) {
    __m256i x = _mm256_set1_epi32((int)ij__load_u32(p + 3 * i));
    ij__put(k, at + i, ij__eight_of_eight(values, _mm256_srlv_epi32(x, place)));
  }
  __m256i x = _mm256_set1_epi32((int)ij__load_u32(p + 8));
  ij__put(k, at + 3, ij__eight_of_eight(values, _mm256_srlv_epi32(x, late)));
}

IJ_AVX2 void ij__affine4_avx2(ij_sink *k, const int64_t at, const uint8_t *p, __m256 scale, __m256 bias, bool once) {
  __m256 f[4];
  ij__codes32(f, ij__nibbles_pairs(p), IJ_CODEBOOK(IJ_BOOK_0_15));
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, ij__affine_avx2(f[i], scale, bias, once));
}

/* Which two bytes hold each of eight codes that begin at byte `b`, in the low half of its place. */
#define IJ_PAIR(b, i) (char)((b) + (i)), (char)((b) + (i) + 1), -1, -1
#define IJ_PLACES_5(b)                                                                                                    \
  _mm256_setr_epi8(IJ_PAIR(b, 0), IJ_PAIR(b, 0), IJ_PAIR(b, 1), IJ_PAIR(b, 1), IJ_PAIR(b, 2), IJ_PAIR(b, 3), IJ_PAIR(b, 3), \
                   (char)((b) + 4), -1, -1, -1)
#define IJ_PLACES_6(b)                                                                                                    \
  _mm256_setr_epi8(IJ_PAIR(b, 0), IJ_PAIR(b, 0), IJ_PAIR(b, 1), IJ_PAIR(b, 2), IJ_PAIR(b, 3), IJ_PAIR(b, 3), IJ_PAIR(b, 4), \
                   (char)((b) + 5), -1, -1, -1)

/* Eight codes of `bits` bits from the bytes at `place` of x, moved right by `shift`, to values. */
IJ_AVX2 void ij__affine_long(ij_sink *k, const int64_t at, __m256i x, __m256i place, __m256i shift, int bits, __m256 scale,
                             __m256 bias, bool once) {
  __m256i codes = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(x, place), shift), _mm256_set1_epi32((1 << bits) - 1));
  ij__put(k, at, ij__affine_avx2(_mm256_cvtepi32_ps(codes), scale, bias, once));
}

/* 20 bytes, two loads of 16: eight codes begin at bytes 0 and 5 of the first, 6 and 11 of the second. */
IJ_AVX2 void ij__affine5_avx2(ij_sink *k, const int64_t at, const uint8_t *p, __m256 scale, __m256 bias, bool once) {
  const __m256i shift = _mm256_setr_epi32(0, 5, 2, 7, 4, 1, 6, 3), a = ij__load16_twice(p), b = ij__load16_twice(p + 4);
  ij__affine_long(k, at, a, IJ_PLACES_5(0), shift, 5, scale, bias, once);
  ij__affine_long(k, at + 1, a, IJ_PLACES_5(5), shift, 5, scale, bias, once);
  ij__affine_long(k, at + 2, b, IJ_PLACES_5(6), shift, 5, scale, bias, once);
  ij__affine_long(k, at + 3, b, IJ_PLACES_5(11), shift, 5, scale, bias, once);
}

/* 24 bytes: eight codes begin at bytes 0 and 6 of the first 16, 4 and 10 of the last. */
IJ_AVX2 void ij__affine6_avx2(ij_sink *k, const int64_t at, const uint8_t *p, __m256 scale, __m256 bias, bool once) {
  const __m256i shift = _mm256_setr_epi32(0, 6, 4, 2, 0, 6, 4, 2), a = ij__load16_twice(p), b = ij__load16_twice(p + 8);
  ij__affine_long(k, at, a, IJ_PLACES_6(0), shift, 6, scale, bias, once);
  ij__affine_long(k, at + 1, a, IJ_PLACES_6(6), shift, 6, scale, bias, once);
  ij__affine_long(k, at + 2, b, IJ_PLACES_6(4), shift, 6, scale, bias, once);
  ij__affine_long(k, at + 3, b, IJ_PLACES_6(10), shift, 6, scale, bias, once);
}

IJ_AVX2 void ij__affine8_avx2(ij_sink *k, const int64_t at, const uint8_t *p, __m256 scale, __m256 bias, bool once) {
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, ij__affine_avx2(ij__floats_u8(p + 8 * i), scale, bias, once));
}

#endif
