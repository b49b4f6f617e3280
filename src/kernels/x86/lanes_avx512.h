/* lanes_avx512.h: sixteen floats in one zmm register, with the operations that lanes_math.h, lanes_elem.h and lanes_attn.h use.
 *
 * Every level has the same sixteen lanes under the same names, so that the entries are written once and the order of operations
 * cannot differ between levels. Masks are bit masks here.
 */
#ifndef IJ_KERNELS_X86_LANES_AVX512_H
#define IJ_KERNELS_X86_LANES_AVX512_H

#include <immintrin.h>

#include "core/base.h"

/* attn_pv keeps tiles of at most 3 queries by LANES_PV_WIDE x 16 columns in registers; LANES_PV_HALF is the next smaller tile. */
#define LANES_PV_WIDE 8
#define LANES_PV_HALF 4

typedef __m512 lanes;
typedef __mmask16 lanes_mask;

static inline lanes lanes_zero(void) { return _mm512_setzero_ps(); }
static inline lanes lanes_set(float x) { return _mm512_set1_ps(x); }
static inline lanes lanes_set_bits(uint32_t x) { return _mm512_castsi512_ps(_mm512_set1_epi32((int)x)); }
static inline lanes lanes_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void lanes_store(float *p, lanes v) { _mm512_storeu_ps(p, v); }

/* The same value, held in a register: else gcc folds the load of a value into each of its uses and loads it several times. */
static inline lanes lanes_hold(lanes v) {
  __asm__("" : "+v"(v));
  return v;
}

/* The first min(n, 16) values, n >= 1; the other lanes are +0, and no memory behind them is touched. */
static inline lanes lanes_load_n(const float *p, int64_t n) {
  return n >= 16 ? lanes_load(p) : _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
}

static inline void lanes_store_n(float *p, lanes v, int64_t n) {
  if (n >= 16) {
    lanes_store(p, v);
  } else {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), v);
  }
}

static inline lanes lanes_add(lanes a, lanes b) { return _mm512_add_ps(a, b); }
static inline lanes lanes_sub(lanes a, lanes b) { return _mm512_sub_ps(a, b); }
static inline lanes lanes_mul(lanes a, lanes b) { return _mm512_mul_ps(a, b); }
static inline lanes lanes_div(lanes a, lanes b) { return _mm512_div_ps(a, b); }
static inline lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }
static inline lanes lanes_max(lanes a, lanes b) { return _mm512_max_ps(a, b); }

/* Operations on the bits of the lanes. */
static inline lanes lanes_and(lanes a, lanes b) { return _mm512_and_ps(a, b); }
static inline lanes lanes_or(lanes a, lanes b) { return _mm512_or_ps(a, b); }
static inline lanes lanes_xor(lanes a, lanes b) { return _mm512_xor_ps(a, b); }
static inline lanes lanes_add_bits(lanes a, lanes b) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
static inline lanes lanes_shift_left_23(lanes a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23)); }
static inline lanes lanes_shift_right_23(lanes a) { return _mm512_castsi512_ps(_mm512_srli_epi32(_mm512_castps_si512(a), 23)); }

/* Comparisons are false for NaN. */
static inline lanes_mask lanes_lt(lanes a, lanes b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline lanes_mask lanes_le(lanes a, lanes b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline lanes_mask lanes_eq(lanes a, lanes b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline lanes lanes_select(lanes_mask m, lanes yes, lanes no) { return _mm512_mask_blend_ps(m, no, yes); }

static inline bool lanes_all_finite(lanes v) { return _mm512_fpclass_ps_mask(v, 0x01 | 0x08 | 0x10 | 0x80) == 0; }

/* Lanes whose number plus `first` is in [k0, k1), 0 <= k0 < k1 <= 64. */
static inline lanes_mask lanes_in_range(int first, int k0, int k1) {
  uint64_t keys = (~UINT64_C(0) >> (64 - k1)) & (~UINT64_C(0) << k0);
  return (lanes_mask)(keys >> first);
}

/* fold16 of kernels.h. */
static inline float lanes_fold(lanes v) {
  __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

static inline float lanes_fold_max(lanes v) {
  __m256 s8 = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

static inline lanes lanes_load_bf16(const uint16_t *p) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline void lanes_store_bf16(uint16_t *p, lanes v) {
  __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
  __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  __m512i h = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), rounded, quiet);
  _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(h));
}

static inline lanes lanes_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }

static inline void lanes_store_f16(uint16_t *p, lanes v) {
  _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#endif
