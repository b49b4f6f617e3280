/* decode_avx2.h: what the 256-bit decoders share: the sink of their values, loads, scales, and two ways from codes to floats.
 *
 * The choices to know: a code of a codebook of 16 becomes a float by two byte shuffles, because every value of these codebooks fills only
 * the upper half of a float32: one shuffle gives its highest byte, one the byte below. That takes no conversion, which the units of the
 * multiply-adds would have to do. Codes that count are widened by loads and converted; longer ones are put together as bytes before.
 *
 * Each decoder hands its vectors to a sink, which either stores them or multiplies them by x at once; which one is a constant, and all is
 * inlined. Products may take the sixteen values of a step in another order of lanes where that is cheaper: x is permuted alike before,
 * the sums are put in order after (ij_order), and each lane still takes its values in the one order.
 */
#ifndef IJ_KERNELS_X86_DECODE_AVX2_H
#define IJ_KERNELS_X86_DECODE_AVX2_H

#include <immintrin.h>

#include "core/base.h"
#include "quant/fmt_float.h"

#define IJ_AVX2 static inline __attribute__((always_inline))

/* The loops below have constant indices once unrolled, whatever the optimization level. */
#if defined(__clang__)
#define IJ_UNROLL _Pragma("clang loop unroll(full)")
#else
#define IJ_UNROLL _Pragma("GCC unroll 32")
#endif

/* After stores to an array: compilers would rather take its elements out of the registers just stored, by shuffles, than load them
 * again; but loads that broadcast or widen are free of those, and shuffles are what decoding has least room for. */
#define IJ_IN_MEMORY(array) __asm__ volatile("" : "+m"(array))

#define IJ_SINK_TOKENS 8

/* Where eight values go: to y, or (fused) times x into the sums of n tokens, x being [step of 16 values][token][16]. What is not
 * for one of the halves that are wanted is dropped, and with it what would have decoded it. */
typedef struct ij_sink {
  float *y;
  const float *x;
  __m256 sum[2][IJ_SINK_TOKENS]; /* of lanes 0 to 7 and of 8 to 15 */
  int n;
  bool fused, without[2];
} ij_sink;

/* The i-th eight. */
IJ_AVX2 void ij__put(ij_sink *k, const int64_t i, __m256 w) {
  const int half = (int)(i % 2);
  if (!k->fused) {
    _mm256_storeu_ps(k->y + 8 * i, w);
  } else if (!k->without[half]) {
    IJ_UNROLL for (int t = 0; t < IJ_SINK_TOKENS; t++) { /* a number of turns that compilers see before they know n */
      if (t < k->n) k->sum[half][t] = _mm256_fmadd_ps(_mm256_loadu_ps(k->x + (i / 2 * k->n + t) * 16 + 8 * half), w, k->sum[half][t]);
    }
  }
}

/* The sixteen values of a step in the lanes of a fused product. */
typedef enum ij_order {
  IJ_ORDER_PLAIN,
  IJ_ORDER_APART, /* the even ones, then the odd ones */
  IJ_ORDER_QUADS, /* 0 4 8 12, 1 5 9 13, 2 6 10 14, 3 7 11 15 */
  IJ_ORDER_COUNT
} ij_order;

/* What 256 values need that is worked out before they are: in memory, from where loads broadcast and widen at no cost. */
typedef struct ij_ahead {
  float scale[16], offset[16];
  union {
    uint8_t codes[256];
    struct {
      uint16_t entry[64], sign[32], delta[32]; /* where in its table is what eight values (IQ3: four) need: bytes from its start */
    };
  };
} ij_ahead;

IJ_AVX2 __m128i ij__load16(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
IJ_AVX2 __m256i ij__load32(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
IJ_AVX2 __m256i ij__load16_twice(const void *p) { return _mm256_broadcastsi128_si256(ij__load16(p)); }
IJ_AVX2 __m128i ij__load8(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }

IJ_AVX2 uint64_t ij__load_u64(const void *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

IJ_AVX2 uint32_t ij__load_u32(const void *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

IJ_AVX2 void ij__store32(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

/* The F16 at p in all places. */
IJ_AVX2 __m256 ij__f16_avx2(const void *p) { return _mm256_cvtph_ps(_mm_set1_epi16((short)ij__fmt_u16(p))); }

/* ---- sixteen values by four-bit code ------------------------------------------------------------------------------------------ */

/* The upper two bytes of sixteen float32s, by code, in both halves. */
typedef struct ij_codebook {
  __m256i high, low;
} ij_codebook;

/* The values, as the upper halves of float32s. */
#define IJ_BOOK_0_15                                                                                                     \
  0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170
#define IJ_BOOK_M8_7                                                                                                     \
  0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0
/* -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113 */
#define IJ_BOOK_IQ4                                                                                                      \
  0xc2fe, 0xc2d0, 0xc2a6, 0xc282, 0xc244, 0xc20c, 0xc1b0, 0xc120, 0x3f80, 0x4150, 0x41c8, 0x4218, 0x4254, 0x428a, 0x42b2, 0x42e2
/* 0 1/2 1 3/2 2 3 4 6, then -0 to -6 */
#define IJ_BOOK_E2M1                                                                                                     \
  0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0
/* The same with one zero. */
#define IJ_BOOK_E2M1_BLOCK                                                                                               \
  0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0x0000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0
/* 0 1 2 3 4 6 8 12, then 0 -1 to -12 */
#define IJ_BOOK_E2M1_TWICE                                                                                               \
  0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40c0, 0x4100, 0x4140, 0x0000, 0xbf80, 0xc000, 0xc040, 0xc080, 0xc0c0, 0xc100, 0xc140

#define IJ_BOOK_BYTES(shift, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                                    \
  _mm256_broadcastsi128_si256(_mm_setr_epi8((char)((a) >> shift), (char)((b) >> shift), (char)((c) >> shift), (char)((d) >> shift), \
    (char)((e) >> shift), (char)((f) >> shift), (char)((g) >> shift), (char)((h) >> shift), (char)((i) >> shift), (char)((j) >> shift), \
    (char)((k) >> shift), (char)((l) >> shift), (char)((m) >> shift), (char)((n) >> shift), (char)((o) >> shift), (char)((p) >> shift)))
#define IJ_BOOK_APPLY(macro, ...) macro(__VA_ARGS__)
#define IJ_CODEBOOK(book) \
  (ij_codebook) { IJ_BOOK_APPLY(IJ_BOOK_BYTES, 8, book), IJ_BOOK_APPLY(IJ_BOOK_BYTES, 0, book) }

/* Values 0 to 31 of 32 codes. Bytes 0-15 of `codes` are those of values 0-3, 8-11, 16-19, 24-27; bytes 16-31 those of the others. */
IJ_AVX2 void ij__codes32(__m256 f[4], __m256i codes, ij_codebook book) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i high = _mm256_shuffle_epi8(book.high, codes), low = _mm256_shuffle_epi8(book.low, codes);
  __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
  f[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, a));
  f[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, a));
  f[2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, b));
  f[3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, b));
}

/* The same for fused products: the even and the odd ones of two times sixteen bytes, of which bytes 0-7 and 16-23 of `codes` are the first
 * sixteen. Two shuffles of bytes and two that join them; the rest is for the other units. */
IJ_AVX2 void ij__codes32_apart(__m256 f[4], __m256i codes, ij_codebook book) {
  const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
  __m256i high = _mm256_shuffle_epi8(book.high, codes), low = _mm256_shuffle_epi8(book.low, codes);
  __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
  f[0] = _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
  f[1] = _mm256_castsi256_ps(_mm256_and_si256(a, upper));
  f[2] = _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
  f[3] = _mm256_castsi256_ps(_mm256_and_si256(b, upper));
}

/* Low nibbles of the 16 bytes at p, then the high ones. */
IJ_AVX2 __m256i ij__nibbles_in_order(const void *p) {
  __m256i x = _mm256_srlv_epi64(ij__load16_twice(p), _mm256_setr_epi64x(0, 0, 4, 4));
  return _mm256_and_si256(x, _mm256_set1_epi8(15));
}

/* 16 bytes, values 0 to 15 in the low nibbles and 16 to 31 in the high ones -> codes for ij__codes32. */
IJ_AVX2 __m256i ij__nibbles_halves(const void *p) {
  const __m256i place = _mm256_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11,  //
                                         4, 5, 6, 7, 12, 13, 14, 15, 4, 5, 6, 7, 12, 13, 14, 15);
  __m256i x = _mm256_shuffle_epi8(ij__load16_twice(p), place);
  return _mm256_and_si256(_mm256_srlv_epi64(x, _mm256_setr_epi64x(0, 4, 0, 4)), _mm256_set1_epi8(15));
}

/* 16 bytes, of which each 8 hold 8 values in their low nibbles and 8 in the high ones. */
IJ_AVX2 __m256i ij__nibbles_eights(const void *p) {
  const __m256i place = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11,  //
                                         4, 5, 6, 7, 4, 5, 6, 7, 12, 13, 14, 15, 12, 13, 14, 15);
  __m256i x = _mm256_shuffle_epi8(ij__load16_twice(p), place);
  return _mm256_and_si256(_mm256_srlv_epi32(x, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4)), _mm256_set1_epi8(15));
}

/* 16 bytes, each with one value in its low nibble and the next in its high one. */
IJ_AVX2 __m256i ij__nibbles_pairs(const void *p) {
  const __m256i place = _mm256_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1,  //
                                         2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1);
  __m256i x = _mm256_shuffle_epi8(ij__load16_twice(p), place);
  return _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi16(x, 4)), _mm256_set1_epi8(15));
}

/* The 32 values of nibbles at p in each of these three orders, as the sink wants them: in order, or fused in IJ_ORDER_APART, the last in
 * IJ_ORDER_QUADS. */
IJ_AVX2 void ij__book_halves(const ij_sink *k, __m256 f[4], const void *p, ij_codebook book) {
  if (!k->fused) {
    ij__codes32(f, ij__nibbles_halves(p), book);
    return;
  }
  const __m256i place = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7,  //
                                         8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
  __m256i x = _mm256_shuffle_epi8(ij__load16_twice(p), place);
  x = _mm256_and_si256(_mm256_srlv_epi64(x, _mm256_setr_epi64x(0, 4, 0, 4)), _mm256_set1_epi8(15));
  ij__codes32_apart(f, x, book);
}

IJ_AVX2 void ij__book_eights(const ij_sink *k, __m256 f[4], const void *p, ij_codebook book) {
  if (k->fused) {
    ij__codes32_apart(f, ij__nibbles_in_order(p), book);
  } else {
    ij__codes32(f, ij__nibbles_eights(p), book);
  }
}

IJ_AVX2 void ij__book_pairs(const ij_sink *k, __m256 f[4], const void *p, ij_codebook book) {
  if (k->fused) {
    ij__codes32_apart(f, ij__nibbles_in_order(p), book);
  } else {
    ij__codes32(f, ij__nibbles_pairs(p), book);
  }
}

/* ---- to the sink -------------------------------------------------------------------------------------------------------------- */

/* scale * f, 32 values: eights `at` and those that follow */
IJ_AVX2 void ij__put_scaled(ij_sink *k, const int64_t at, const __m256 f[4], __m256 scale) {
  IJ_UNROLL for (int i = 0; i < 4; i++) ij__put(k, at + i, _mm256_mul_ps(scale, f[i]));
}

/* 8 signed or unsigned bytes in memory -> floats */
IJ_AVX2 __m256 ij__floats_i8(const void *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(ij__load8(p))); }
IJ_AVX2 __m256 ij__floats_u8(const void *p) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(ij__load8(p))); }

/* Bit i of the four bytes at p to byte i: all ones or zero. */
IJ_AVX2 __m256i ij__bits_to_bytes(const void *p) {
  const __m256i place = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201ull);
  __m256i x = _mm256_shuffle_epi8(_mm256_set1_epi32((int)ij__load_u32(p)), place);
  return _mm256_cmpeq_epi8(_mm256_and_si256(x, bit), bit);
}

#endif
