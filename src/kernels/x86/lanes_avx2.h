/* lanes_avx2.h: sixteen floats in two ymm registers, with the operations that lanes_math.h, lanes_elem.h and lanes_attn.h use.
 *
 * Every level has the same sixteen lanes under the same names, so that the entries are written once and the order of operations
 * cannot differ between levels. Masks are lanes of all ones or all zeros here.
 */
#ifndef IJ_KERNELS_X86_LANES_AVX2_H
#define IJ_KERNELS_X86_LANES_AVX2_H

#include <immintrin.h>

#include "core/base.h"

/* attn_pv keeps tiles of at most 3 queries by LANES_PV_WIDE x 16 columns in registers; LANES_PV_HALF is the next smaller tile. */
#define LANES_PV_WIDE 2
#define LANES_PV_HALF 1

typedef struct lanes {
  __m256 a, b; /* lanes 0 .. 7, 8 .. 15 */
} lanes;
typedef lanes lanes_mask;

static inline lanes lanes_of(__m256 a, __m256 b) {
  lanes v = {a, b};
  return v;
}

static inline lanes lanes_of_int(__m256i a, __m256i b) { return lanes_of(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)); }
static inline lanes lanes_zero(void) { return lanes_of(_mm256_setzero_ps(), _mm256_setzero_ps()); }
static inline lanes lanes_set(float x) { return lanes_of(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
static inline lanes lanes_set_bits(uint32_t x) { return lanes_of_int(_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x)); }
static inline lanes lanes_load(const float *p) { return lanes_of(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }

static inline void lanes_store(float *p, lanes v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}

/* The same value. AVX-512 holds it in a register; with sixteen registers, loading it at each use is the faster way. */
static inline lanes lanes_hold(lanes v) { return v; }

/* All ones in lane j of eight where first + j < n. */
static inline __m256i lanes_tail_mask(int64_t n, int first) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first min(n, 16) values, n >= 1; the other lanes are +0, and no memory behind them is touched. */
static inline lanes lanes_load_n(const float *p, int64_t n) {
  if (n >= 16) return lanes_load(p);
  if (n >= 8) return lanes_of(_mm256_loadu_ps(p), _mm256_maskload_ps(p + 8, lanes_tail_mask(n, 8)));
  return lanes_of(_mm256_maskload_ps(p, lanes_tail_mask(n, 0)), _mm256_setzero_ps());
}

static inline void lanes_store_n(float *p, lanes v, int64_t n) {
  if (n >= 16) {
    lanes_store(p, v);
  } else if (n >= 8) {
    _mm256_storeu_ps(p, v.a);
    _mm256_maskstore_ps(p + 8, lanes_tail_mask(n, 8), v.b);
  } else {
    _mm256_maskstore_ps(p, lanes_tail_mask(n, 0), v.a);
  }
}

static inline lanes lanes_add(lanes x, lanes y) { return lanes_of(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)); }
static inline lanes lanes_sub(lanes x, lanes y) { return lanes_of(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)); }
static inline lanes lanes_mul(lanes x, lanes y) { return lanes_of(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)); }
static inline lanes lanes_div(lanes x, lanes y) { return lanes_of(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)); }
static inline lanes lanes_fma(lanes x, lanes y, lanes z) {
  return lanes_of(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
static inline lanes lanes_max(lanes x, lanes y) { return lanes_of(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)); }

/* Operations on the bits of the lanes. */
static inline lanes lanes_and(lanes x, lanes y) { return lanes_of(_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)); }
static inline lanes lanes_or(lanes x, lanes y) { return lanes_of(_mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b)); }
static inline lanes lanes_xor(lanes x, lanes y) { return lanes_of(_mm256_xor_ps(x.a, y.a), _mm256_xor_ps(x.b, y.b)); }
static inline lanes lanes_add_bits(lanes x, lanes y) {
  return lanes_of_int(_mm256_add_epi32(_mm256_castps_si256(x.a), _mm256_castps_si256(y.a)),
                      _mm256_add_epi32(_mm256_castps_si256(x.b), _mm256_castps_si256(y.b)));
}
static inline lanes lanes_shift_left_23(lanes x) {
  return lanes_of_int(_mm256_slli_epi32(_mm256_castps_si256(x.a), 23), _mm256_slli_epi32(_mm256_castps_si256(x.b), 23));
}
static inline lanes lanes_shift_right_23(lanes x) {
  return lanes_of_int(_mm256_srli_epi32(_mm256_castps_si256(x.a), 23), _mm256_srli_epi32(_mm256_castps_si256(x.b), 23));
}

/* Comparisons are false for NaN. */
static inline lanes_mask lanes_lt(lanes x, lanes y) {
  return lanes_of(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ));
}
static inline lanes_mask lanes_le(lanes x, lanes y) {
  return lanes_of(_mm256_cmp_ps(x.a, y.a, _CMP_LE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LE_OQ));
}
static inline lanes_mask lanes_eq(lanes x, lanes y) {
  return lanes_of(_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ));
}
static inline lanes lanes_select(lanes_mask m, lanes yes, lanes no) {
  return lanes_of(_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b));
}

static inline bool lanes_all_finite(lanes v) {
  lanes magnitude = lanes_and(v, lanes_set_bits(0x7fffffffu));
  lanes_mask finite = lanes_lt(magnitude, lanes_set_bits(0x7f800000u));
  return _mm256_movemask_ps(_mm256_and_ps(finite.a, finite.b)) == 0xff;
}

/* Eight lanes, all ones where first + lane is in [k0, k1). */
static inline __m256 lanes_in_range_8(int first, int k0, int k1) {
  __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i before_k1 = _mm256_cmpgt_epi32(_mm256_set1_epi32(k1 - first), lane);
  __m256i before_k0 = _mm256_cmpgt_epi32(_mm256_set1_epi32(k0 - first), lane);
  return _mm256_castsi256_ps(_mm256_andnot_si256(before_k0, before_k1));
}

/* Lanes whose number plus `first` is in [k0, k1), 0 <= k0 < k1 <= 64. */
static inline lanes_mask lanes_in_range(int first, int k0, int k1) {
  return lanes_of(lanes_in_range_8(first, k0, k1), lanes_in_range_8(first + 8, k0, k1));
}

/* fold16 of kernels.h. */
static inline float lanes_fold(lanes v) {
  __m256 s8 = _mm256_add_ps(v.a, v.b);
  __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

static inline float lanes_fold_max(lanes v) {
  __m256 s8 = _mm256_max_ps(v.a, v.b);
  __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

static inline lanes lanes_load_bf16(const uint16_t *p) {
  __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
  __m256i a = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(h)), b = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(h, 1));
  return lanes_of_int(_mm256_slli_epi32(a, 16), _mm256_slli_epi32(b, 16));
}

static inline __m256i lanes_to_bf16(__m256 v) {
  __m256i bits = _mm256_castps_si256(v), high = _mm256_srli_epi32(bits, 16);
  __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}

static inline void lanes_store_bf16(uint16_t *p, lanes v) {
  __m256i h = _mm256_packus_epi32(lanes_to_bf16(v.a), lanes_to_bf16(v.b)); /* packs within 128-bit halves */
  _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(h, 0xd8));
}

static inline lanes lanes_load_f16(const uint16_t *p) {
  __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)p);
  return lanes_of(_mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)));
}

static inline void lanes_store_f16(uint16_t *p, lanes v) {
  _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i *)(void *)(p + 8), _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT));
}

#endif
