/* coded_avx512.h: block and split types of four and more bits to registers of sixteen floats; what the decoders and the products share.
 *
 * A code of at most four bits becomes its final value by one permutation of a table of sixteen floats, made once per group of values
 * that share a scale: vpermps looks at the low four bits of each lane only, so nothing need be masked. Each decoder hands its
 * vectors to a sink, which either stores them or multiplies them by x at once; which one is a constant, and all is inlined.
 *
 * Products may take the sixteen values of a step in another order of lanes where that is cheaper: x is permuted alike before, the sums
 * are put in order after, and each lane still takes its values in the one order.
 */
#ifndef IJ_KERNELS_X86_CODED_AVX512_H
#define IJ_KERNELS_X86_CODED_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "kernels/kernels_int.h"
#include "kernels/x86/coded_consts.h"
#include "quant/fmt_fp4.h"
#include "quant/fmt_iq.h"

/* Of those in IJ_CODED_LIST. X(identifier) */
#define IJ_CODED_AVX512_LIST(X)                                                                                            \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4) X(NVFP4) X(AFFINE2) X(AFFINE3)      \
  X(AFFINE5) X(AFFINE6) X(AFFINE8) X(NVFP4_SPLIT) X(MXFP4_SPLIT) X(MXFP8_SPLIT)

/* Decoders that write 16 floats of every IJ_PANEL_STEP, as one of the four rows that a panel of the tiled product interleaves. */
#define IJ_PANEL_STEP 64
void ij__decode_panel_fill_avx512(ij_decode_fn *panel);

/* Where sixteen values go: to y, steps `step` floats apart, or (fused) times x into sum, or (fused, kept not NULL) to registers there. */
typedef struct sink {
  float *y;
  int64_t step;
  const float *x;
  __m512 sum, *kept;
  bool fused;
} sink;

CODED void put(sink *k, const int64_t i, __m512 w) {
  if (k->kept) {
    k->kept[i] = w;
  } else if (k->fused) {
    k->sum = _mm512_fmadd_ps(_mm512_loadu_ps(k->x + 16 * i), w, k->sum);
  } else {
    _mm512_storeu_ps(k->y + k->step * i, w);
  }
}

/* ---- loads -------------------------------------------------------------------------------------------------------------------- */

CODED uint64_t load64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

CODED uint32_t load32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

CODED __m128i load16b(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }
CODED __m512i bytes16(const uint8_t *p) { return _mm512_cvtepu8_epi32(load16b(p)); }
CODED __m512i four_times(const uint8_t *p) { return _mm512_broadcast_i32x4(load16b(p)); }

/* Keeps floats in memory, from where a broadcast costs nothing that arithmetic needs. */
#define IN_MEMORY(array) __asm__ volatile("" : "+m"(array))

/* n F16 (at most four) as floats: the first `pair` at the start of each block. */
CODED void four_f16(float out[4], const uint8_t *b, const int64_t bytes, const int pair, int64_t n) {
  uint64_t h = 0;
  for (int64_t i = 0; i < n; i++) h |= (uint64_t)ij__fmt_u16(b + i / pair * bytes + 2 * (i % pair)) << (16 * i);
  _mm_storeu_ps(out, _mm_cvtph_ps(_mm_cvtsi64_si128((long long)h)));
}

CODED __m512 iota(void) {
  return _mm512_setr_ps(0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f, 9.0f, 10.0f, 11.0f, 12.0f, 13.0f, 14.0f, 15.0f);
}

CODED __m512 lookup(__m512 table, __m512i code) { return _mm512_permutexvar_ps(code, table); }

/* 32 values whose nibbles are 16 bytes, value i in the low nibble of byte i, value i + 16 in the high one. */
CODED void put_nibbles(sink *k, const int64_t at, const uint8_t *codes, __m512 table) {
  __m512i v = bytes16(codes);
  put(k, at, lookup(table, v));
  put(k, at + 1, lookup(table, _mm512_srli_epi32(v, 4)));
}

/* ---- small floats as tables ------------------------------------------------------------------------------------------------------ */

/* Made once, by the fill function of the decoders. Sixteen values under each scale byte: of a group of NVFP4_SPLIT and of an NVFP4
 * block. From memory they cost no arithmetic, and a file uses few of them. E8M0 scales, and halves of them for MXFP4 blocks. */
typedef struct fp4_tables {
  _Alignas(64) float nvfp4_split[256][16];
  float nvfp4[256][16];
  float e8m0[256], e8m0_half[256];
} fp4_tables;
extern fp4_tables ij__fp4_tables;

/* ---- the 32-value blocks ------------------------------------------------------------------------------------------------------- */

CODED __m512 codebook(const int8_t *values) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)values)));
}

/* Value i is d * (book[code]). */
CODED void q4_scaled(sink *k, const int64_t at, const uint8_t *codes, __m512 book, float d) {
  put_nibbles(k, at, codes, _mm512_mul_ps(book, _mm512_set1_ps(d)));
}

/* 32 five-bit values: a table for codes below 16 and one for the others, chosen by the bits of `high`. */
CODED void q5_tables(sink *k, const int64_t at, const uint8_t *codes, uint32_t high, __m512 low16, __m512 high16) {
  __m512i v = bytes16(codes), u = _mm512_srli_epi32(v, 4);
  put(k, at, _mm512_mask_permutexvar_ps(lookup(low16, v), (__mmask16)high, v, high16));
  put(k, at + 1, _mm512_mask_permutexvar_ps(lookup(low16, u), (__mmask16)(high >> 16), u, high16));
}

CODED void q8_scaled(sink *k, const int64_t at, const uint8_t *codes, float d) {
  const __m512 s = _mm512_set1_ps(d);
  put(k, at, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16b(codes))), s));
  put(k, at + 1, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16b(codes + 16))), s));
}

/* A block of 32 values; s: its scale, and its offset. */
CODED void block32(sink *k, const int64_t at, const uint8_t *b, const float *s, const ij_dtype type) {
  const __m512 i16 = iota(), next16 = _mm512_add_ps(i16, _mm512_set1_ps(16.0f)), last16 = _mm512_sub_ps(i16, _mm512_set1_ps(16.0f));
  const __m512 d = _mm512_set1_ps(s[0]);
  switch (type) {
    case IJ_DTYPE_Q4_0: q4_scaled(k, at, b + 2, _mm512_sub_ps(i16, _mm512_set1_ps(8.0f)), s[0]); break;
    case IJ_DTYPE_IQ4_NL: q4_scaled(k, at, b + 2, codebook(ij__iq4_values), s[0]); break;
    case IJ_DTYPE_Q4_1: put_nibbles(k, at, b + 4, _mm512_fmadd_ps(i16, d, _mm512_set1_ps(s[1]))); break;
    case IJ_DTYPE_Q5_0: q5_tables(k, at, b + 6, load32(b + 2), _mm512_mul_ps(last16, d), _mm512_mul_ps(i16, d)); break;
    case IJ_DTYPE_Q5_1: {
      const __m512 m = _mm512_set1_ps(s[1]);
      q5_tables(k, at, b + 8, load32(b + 4), _mm512_fmadd_ps(i16, d, m), _mm512_fmadd_ps(next16, d, m));
      break;
    }
    case IJ_DTYPE_MXFP4: q4_scaled(k, at, b + 1, codebook(ij__e2m1_twice), ij__fp4_tables.e8m0_half[b[0]]); break;
    default: q8_scaled(k, at, b + 2, s[0]);
  }
}

/* ---- blocks of 256 values ------------------------------------------------------------------------------------------------------- */

/* d * scale and dmin * offset of the eight groups of n blocks (at most four) of Q4_K or Q5_K, in turns: for each block [group][2]. The
 * first 16 bytes of each block make a quarter of a register. Bytes 4 to 11 have the codes of groups 0 to 3 in their low six bits and above
 * them the top bits of groups 4 to 7, whose low four bits are the nibbles of bytes 12 to 15. */
CODED void k_scales(float *const out[4], const uint8_t *const b[4], const int n) {
  _Alignas(64) uint8_t codes[64];
  _Alignas(32) float d[8];
  const char no = (char)0x80;
#define QUARTERS(...) _mm512_broadcast_i32x4(_mm_setr_epi8(__VA_ARGS__))
  const __m512i low_at = QUARTERS(4, 8, 5, 9, 6, 10, 7, 11, 12, no, 13, no, 14, no, 15, no);
  const __m512i high_at = QUARTERS(no, no, no, no, no, no, no, no, 4, 8, 5, 9, 6, 10, 7, 11);
  const __m512i low_mask = QUARTERS(63, 63, 63, 63, 63, 63, 63, 63, 15, 15, 15, 15, 15, 15, 15, 15);
#undef QUARTERS
  __m512i v = _mm512_castsi128_si512(load16b(b[0]));
  if (n > 1) v = _mm512_inserti32x4(v, load16b(b[1]), 1);
  if (n > 2) v = _mm512_inserti32x4(v, load16b(b[2]), 2);
  if (n > 3) v = _mm512_inserti32x4(v, load16b(b[3]), 3);
  const int64_t nibble = 0x0004000400040004;
  const __m512i shift = _mm512_setr_epi64(0, nibble, 0, nibble, 0, nibble, 0, nibble);
  __m512i low = _mm512_shuffle_epi8(v, low_at), high = _mm512_srli_epi16(_mm512_shuffle_epi8(v, high_at), 2);
  /* (a | b) & c: both nibbles of a byte to the low ends of two */
  low = _mm512_ternarylogic_epi32(low, _mm512_sllv_epi16(low, shift), low_mask, 0xa8);
  _mm512_store_si512(codes, _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(0x30), 0xf8)); /* a | b & c */
  __m512i dwords = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), v);
  _mm256_store_ps(d, _mm256_cvtph_ps(_mm512_castsi512_si128(dwords)));
  IN_MEMORY(codes);
  IN_MEMORY(d);
#pragma GCC unroll 4
  for (int i = 0; i < n; i++) {
    double pair;
    memcpy(&pair, d + 2 * i, sizeof pair);
    __m512 scale = _mm512_castpd_ps(_mm512_set1_pd(pair));
    _mm512_storeu_ps(out[i], _mm512_mul_ps(_mm512_cvtepi32_ps(bytes16(codes + 16 * i)), scale));
  }
}

/* Of n blocks (at most four) of a row, one after the other. */
CODED void k_row_scales(float *out, const uint8_t *b, const int64_t bytes, const int n) {
  k_scales((float *const[4]){out, out + 16, out + 32, out + 48}, (const uint8_t *const[4]){b, b + bytes, b + 2 * bytes, b + 3 * bytes}, n);
}

/* For the decoder alone: products of this type are of integers. */
CODED void q4_k(sink *k, const uint8_t *b, const float *s) {
  const __m512 i16 = iota();
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    __m512 low = _mm512_fmsub_ps(i16, _mm512_set1_ps(s[4 * j]), _mm512_set1_ps(s[4 * j + 1]));
    __m512 high = _mm512_fmsub_ps(i16, _mm512_set1_ps(s[4 * j + 2]), _mm512_set1_ps(s[4 * j + 3]));
    __m512i v = bytes16(b + 16 + 32 * j), u = bytes16(b + 32 + 32 * j);
    put(k, 4 * j, lookup(low, v));
    put(k, 4 * j + 1, lookup(low, u));
    put(k, 4 * j + 2, lookup(high, _mm512_srli_epi32(v, 4)));
    put(k, 4 * j + 3, lookup(high, _mm512_srli_epi32(u, 4)));
  }
}

/* Codes are put together as bytes, 64 at a time, and pass through memory on their way to 32-bit lanes. */
CODED void q5_k(sink *k, const uint8_t *b, const float *s) {
  _Alignas(64) uint8_t codes[64];
  const __m512i low_shift = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4), nibble = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16);
  __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(b + 16)));
  high = _mm512_rolv_epi64(high, _mm512_setr_epi64(4, 4, 4, 4, 3, 3, 3, 3)); /* bits 0 and 1 to bit 4; the next ones follow by 2 */
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    __m512i low = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(b + 48 + 32 * j)));
    low = _mm512_and_si512(_mm512_srlv_epi64(low, low_shift), nibble);
    _mm512_store_si512(codes, _mm512_ternarylogic_epi32(low, high, fifth, 0xf8));
    high = _mm512_ror_epi64(high, 2);
    IN_MEMORY(codes);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      __m512 q = _mm512_cvtepi32_ps(bytes16(codes + 16 * i));
      const int g = 2 * j + i / 2;
      put(k, 4 * j + i, _mm512_fmsub_ps(q, _mm512_set1_ps(s[2 * g]), _mm512_set1_ps(s[2 * g + 1])));
    }
  }
}

CODED void q6_k_scales(float out[16], const uint8_t *b) {
  __m512 d = _mm512_cvtph_ps(_mm256_set1_epi16((short)ij__fmt_u16(b + 208)));
  _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16b(b + 192))), d));
}

CODED void q6_k(sink *k, const uint8_t *b, const float *s) {
  _Alignas(64) uint8_t codes[128];
  const __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30), offset = _mm512_set1_epi8(32);
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    __m512i low = _mm512_loadu_si512(b + 64 * h);
    __m512i two = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(b + 128 + 32 * h)));
    __m512i first = _mm512_and_si512(_mm512_rolv_epi64(two, _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2)), top);
    __m512i second = _mm512_and_si512(_mm512_rorv_epi64(two, _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2)), top);
    first = _mm512_ternarylogic_epi32(first, low, nibble, 0xf8);
    second = _mm512_ternarylogic_epi32(second, _mm512_srli_epi64(low, 4), nibble, 0xf8);
    _mm512_store_si512(codes, _mm512_sub_epi8(first, offset));
    _mm512_store_si512(codes + 64, _mm512_sub_epi8(second, offset));
    IN_MEMORY(codes);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load16b(codes + 16 * i)));
      put(k, 8 * h + i, _mm512_mul_ps(q, _mm512_set1_ps(s[8 * h + i])));
    }
  }
}

CODED void iq4_xs_scales(float out[8], const uint8_t *b) {
  __m256i group = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32((int)load32(b + 4)), _mm256_slli_epi32(group, 2));
  __m256i high = _mm256_slli_epi32(_mm256_srlv_epi32(_mm256_set1_epi32(ij__fmt_u16(b + 2)), _mm256_slli_epi32(group, 1)), 4);
  __m256i code = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)), _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
  __m256 d = _mm256_cvtph_ps(_mm_set1_epi16((short)ij__fmt_u16(b)));
  _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(32))), d));
}

/* Values 64 * j to 64 * j + 64 of a block. */
CODED void iq4_xs(sink *k, const uint8_t *b, const float *s, const int j) {
  const __m512 book = codebook(ij__iq4_values);
#pragma GCC unroll 2
  for (int g = 2 * j; g < 2 * j + 2; g++) q4_scaled(k, 2 * g, b + 8 + 16 * g, book, s[g]);
}

/* ---- scales, ahead of the values ------------------------------------------------------------------------------------------------ */

/* Scales are worked out for many groups before the first is used: what has just been stored cannot be broadcast from memory at once
 * without a wait. This many values at a time, of which a type has at most SCALES_MAX scales and offsets. */
enum { SCALES_AHEAD = 1024, SCALES_MAX = 64 };

/* Floats of scales per block of a block type. */
CODED int64_t block_scales_len(const ij_dtype type) {
  switch (type) {
    case IJ_DTYPE_Q4_K:
    case IJ_DTYPE_Q5_K:
    case IJ_DTYPE_Q6_K: return 16;
    case IJ_DTYPE_IQ4_XS: return 8;
    case IJ_DTYPE_Q4_1:
    case IJ_DTYPE_Q5_1: return 2;
    case IJ_DTYPE_MXFP4:
    case IJ_DTYPE_NVFP4: return 0; /* they look up bytes */
    default: return 1;
  }
}

/* Of n blocks from b on. */
CODED void block_scales(float *out, const uint8_t *b, int64_t n, const ij_dtype type) {
  const int64_t bytes = coded_bytes(type), len = block_scales_len(type);
  if (len == 0) return;
  if (len <= 2) {
    const int pair = (int)len;
    int64_t i = 0;
    for (; i + 4 <= n * len; i += 4) four_f16(out + i, b + i / pair * bytes, bytes, pair, 4);
    if (i < n * len) four_f16(out + i, b + i / pair * bytes, bytes, pair, n * len - i);
    return;
  }
  if (type == IJ_DTYPE_Q4_K || type == IJ_DTYPE_Q5_K) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) k_row_scales(out + 16 * i, b + i * bytes, bytes, 4);
    for (; i < n; i++) k_row_scales(out + 16 * i, b + i * bytes, bytes, 1);
    return;
  }
  for (int64_t i = 0; i < n; i++, b += bytes, out += len) {
    if (type == IJ_DTYPE_Q6_K) {
      q6_k_scales(out, b);
    } else {
      iq4_xs_scales(out, b);
    }
  }
}

/* ---- streams of bits: value i in bits [bits * i, bits * i + bits) --------------------------------------------------------------- */

/* For each lane the two bytes in which its code begins, `first` bytes on, as a control of vpshufb. */
#define WINDOW(bits, first, i) \
  (char)((first) + (bits) * (i) / 8), (char)((first) + (bits) * (i) / 8 + 1), (char)0x80, (char)0x80
#define WINDOWS(bits, first)                                                                                              \
  {                                                                                                                       \
    WINDOW(bits, first, 0), WINDOW(bits, first, 1), WINDOW(bits, first, 2), WINDOW(bits, first, 3), WINDOW(bits, first, 4),       \
        WINDOW(bits, first, 5), WINDOW(bits, first, 6), WINDOW(bits, first, 7), WINDOW(bits, first, 8), WINDOW(bits, first, 9),   \
        WINDOW(bits, first, 10), WINDOW(bits, first, 11), WINDOW(bits, first, 12), WINDOW(bits, first, 13),                       \
        WINDOW(bits, first, 14), WINDOW(bits, first, 15)                                                                          \
  }

CODED __m512i times_lane(const int n) {
  return _mm512_mullo_epi32(_mm512_set1_epi32(n), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

/* Codes 16 * half .. of the 32 that begin at p, each in the low bits of its lane with others above. Reads only the 4 * bits bytes. */
CODED __m512i stream_codes(const uint8_t *p, const int bits, const int half) {
  static const _Alignas(64) char w3[2][64] = {WINDOWS(3, 0), WINDOWS(3, 2)}, w5[2][64] = {WINDOWS(5, 0), WINDOWS(5, 6)};
  static const _Alignas(64) char w4[64] = WINDOWS(4, 0), w6[2][64] = {WINDOWS(6, 0), WINDOWS(6, 4)};
  if (bits == 2) return _mm512_srlv_epi32(_mm512_set1_epi32((int)load32(p + 4 * half)), times_lane(2));
  if (bits == 8) return bytes16(p + 16 * half);
  __m512i v;
  if (bits == 3) v = _mm512_shuffle_epi8(_mm512_set1_epi64((long long)load64(p + 4 * half)), _mm512_load_si512(w3[half]));
  if (bits == 4) v = _mm512_shuffle_epi8(_mm512_set1_epi64((long long)load64(p + 8 * half)), _mm512_load_si512(w4));
  if (bits == 5) v = _mm512_shuffle_epi8(four_times(p + 4 * half), _mm512_load_si512(w5[half]));
  if (bits == 6) v = _mm512_shuffle_epi8(four_times(p + 8 * half), _mm512_load_si512(w6[half]));
  return _mm512_srlv_epi32(v, _mm512_and_si512(times_lane(bits), _mm512_set1_epi32(7)));
}

/* Sixteen nibbles in the order of ORDER_PAIRS: lane 2q has nibble q, lane 2q + 1 nibble q + 8. No unit for shuffles is needed. */
CODED __m512i paired_nibbles(const uint8_t *p) {
  const __m512i shift = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
  return _mm512_srlv_epi32(_mm512_set1_epi64((long long)load64(p)), shift);
}

/* ---- affine --------------------------------------------------------------------------------------------------------------------- */

/* Scale and bias of a group, or the table or tables of its values where codes have at most five bits. */
typedef struct affine {
  __m512 a, b;
} affine;

/* scale * code + bias, as the definition rounds it. */
CODED __m512 affine_of(__m512 code, float scale, float bias, const bool once) {
  const __m512 s = _mm512_set1_ps(scale), b = _mm512_set1_ps(bias);
  return once ? _mm512_fmadd_ps(code, s, b) : _mm512_add_ps(_mm512_mul_ps(code, s), b);
}

CODED affine affine_group(float scale, float bias, const int bits, const bool once) {
  if (bits > 5) return (affine){_mm512_set1_ps(scale), _mm512_set1_ps(bias)};
  const __m512 i16 = iota(), i4 = _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
  const __m512 i8 = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
  affine t = {affine_of(bits == 2 ? i4 : bits == 3 ? i8 : i16, scale, bias, once), _mm512_setzero_ps()};
  if (bits == 5) t.b = affine_of(_mm512_add_ps(i16, _mm512_set1_ps(16.0f)), scale, bias, once);
  return t;
}

/* 32 values of one group. */
CODED void affine32(sink *k, const int64_t at, const uint8_t *codes, const affine *t, const int bits, const bool once) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    __m512 w;
    if (bits < 5) {
      w = lookup(t->a, stream_codes(codes, bits, half));
    } else if (bits == 5) {
      w = _mm512_permutex2var_ps(t->a, stream_codes(codes, bits, half), t->b);
    } else {
      __m512i code = stream_codes(codes, bits, half);
      w = _mm512_cvtepi32_ps(bits == 6 ? _mm512_and_si512(code, _mm512_set1_epi32(63)) : code);
      w = once ? _mm512_fmadd_ps(w, t->a, t->b) : _mm512_add_ps(_mm512_mul_ps(w, t->a), t->b);
    }
    put(k, at + half, w);
  }
}

/* Scales or biases i to i + n of a row, n at most 16. */
CODED void side16(float *out, const void *row, const ij_dtype type, int64_t i, int64_t n) {
  const __mmask16 mask = (__mmask16)(0xffffu >> (16 - n));
  const char *p = row;
  __m512 v;
  if (type == IJ_DTYPE_F32) {
    v = _mm512_maskz_loadu_ps(mask, p + 4 * i);
  } else {
    __m256i h = _mm256_maskz_loadu_epi16(mask, p + 2 * i);
    v = type == IJ_DTYPE_F16 ? _mm512_cvtph_ps(h) : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
  }
  _mm512_storeu_ps(out, v);
}

/* ---- small floats ---------------------------------------------------------------------------------------------------------------- */

/* 16 values of a split type. */
CODED void put_fp4(sink *k, const int64_t at, const uint8_t *codes, __m512 table) {
  put(k, at, lookup(table, k->fused ? paired_nibbles(codes) : stream_codes(codes, 4, 0)));
}

CODED void mxfp4_split(sink *k, const int64_t at, const uint8_t *codes, uint8_t scale) {
  __m512 table = _mm512_mul_ps(_mm512_loadu_ps(ij__e2m1), _mm512_set1_ps(ij__fp4_tables.e8m0[scale]));
  put_fp4(k, at, codes, table);
  put_fp4(k, at + 1, codes + 8, table);
}

CODED void nvfp4_split(sink *k, const int64_t at, const uint8_t *codes, uint8_t scale) {
  put_fp4(k, at, codes, _mm512_load_ps(ij__fp4_tables.nvfp4_split[scale]));
}

/* 16 values of a block. Fused they come in the order of ORDER_QUARTERS. */
CODED void nvfp4(sink *k, const int64_t at, const uint8_t *codes, uint8_t scale) {
  __m512i code;
  if (k->fused) {
    code = paired_nibbles(codes);
  } else {
    code = _mm512_cvtepu8_epi32(_mm_set1_epi64x((long long)load64(codes)));
    code = _mm512_srlv_epi32(code, _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4));
  }
  put(k, at, lookup(_mm512_load_ps(ij__fp4_tables.nvfp4[scale]), code));
}

/* Blocks of 256 values of which products take a quarter without the others: by iq4_xs. */
CODED bool has_quarters(const ij_dtype type) { return type == IJ_DTYPE_IQ4_XS; }

/* A block of a block type. */
CODED void put_block(sink *k, const int64_t at, const uint8_t *b, const float *s, const ij_dtype type) {
  sink t = *k;
  if (k->kept) {
    t.kept = k->kept + at;
  } else if (k->fused) {
    t.x = k->x + 16 * at;
  } else {
    t.y = k->y + at * k->step;
  }
  switch (type) {
    case IJ_DTYPE_Q4_K: q4_k(&t, b, s); break;
    case IJ_DTYPE_IQ4_XS:
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) iq4_xs(&t, b, s, j);
      break;
    case IJ_DTYPE_Q5_K: q5_k(&t, b, s); break;
    case IJ_DTYPE_Q6_K: q6_k(&t, b, s); break;
    case IJ_DTYPE_NVFP4:
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) nvfp4(&t, i, b + 4 + 8 * i, b[i]);
      break;
    default: block32(&t, 0, b, s, type);
  }
  k->sum = t.sum;
}

/* E4M3 bits moved into an F16, whose exponent counts from 2^-15 where theirs counts from 2^-7. */
CODED void mxfp8_split(sink *k, const int64_t at, const uint8_t *codes, uint8_t scale) {
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    __m256i h = _mm256_slli_epi16(_mm256_cvtepi8_epi16(load16b(codes + 16 * i)), 7);
    h = _mm256_and_si256(h, _mm256_set1_epi16((short)0xbf80));
    __m256i magnitude = _mm256_and_si256(h, _mm256_set1_epi16(0x3f80));
    __mmask16 nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x3f80));
    __m512 w = _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(256.0f));
    w = _mm512_mask_mov_ps(w, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
    put(k, at + i, _mm512_mul_ps(w, _mm512_set1_ps(ij__fp4_tables.e8m0[scale])));
  }
}

#endif
