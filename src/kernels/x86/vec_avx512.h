/* vec_avx512.h: the operations from which the matrix products are made, on registers of sixteen floats. */
#ifndef IJ_KERNELS_X86_VEC_AVX512_H
#define IJ_KERNELS_X86_VEC_AVX512_H

#include <immintrin.h>

#include "core/base.h"

#define V 16

typedef __m512 vec;

static inline vec v_zero(void) { return _mm512_setzero_ps(); }
static inline vec v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vec a) { _mm512_storeu_ps(p, a); }
static inline vec v_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
/* Macros: GCC 12 takes a function that only prefetches for one without effect and drops its calls. */
#define v_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define v_prefetch2(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)

static inline vec v_load_bf16(const char *p) {
  __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline vec v_load_f16(const char *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }

/* The upper half added to the lower, of a in the lower half of the result and of b in the upper. A blend and one shuffle. */
static inline vec v_halves(vec a, vec b) {
  return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, _MM_SHUFFLE(1, 0, 3, 2)));
}

/* 16 lanes to 4 for each of four: a | b | c | d. */
static inline vec v_fours(vec a, vec b, vec c, vec d) {
  vec ac = v_halves(a, c), bd = v_halves(b, d);
  __m512i swapped = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
  return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, ac, bd), _mm512_permutex2var_ps(ac, swapped, bd));
}

/* The fold of four registers of four rows each leaves row 4 * i + j in place 4 * j + i. */
static inline vec v_row_order(vec a) {
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), a);
}

/* Within each 128 bits: a0 a1 b0 b1, a2 a3 b2 b3, a0 a2 b0 b2, a1 a3 b1 b3. */
static inline vec v_low_pairs(vec a, vec b) { return _mm512_shuffle_ps(a, b, _MM_SHUFFLE(1, 0, 1, 0)); }
static inline vec v_high_pairs(vec a, vec b) { return _mm512_shuffle_ps(a, b, _MM_SHUFFLE(3, 2, 3, 2)); }
static inline vec v_evens(vec a, vec b) { return _mm512_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)); }
static inline vec v_odds(vec a, vec b) { return _mm512_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)); }

#endif
