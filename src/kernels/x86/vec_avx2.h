/* vec_avx2.h: the 256-bit registers that matmul_tile.h and matmul_fold.h work with. */
#ifndef IJ_KERNELS_X86_VEC_AVX2_H
#define IJ_KERNELS_X86_VEC_AVX2_H

#include <immintrin.h>

#include "core/base.h"

#define V 8

typedef __m256 vec;

static inline vec v_zero(void) { return _mm256_setzero_ps(); }
static inline vec v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vec a) { _mm256_storeu_ps(p, a); }
static inline vec v_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
/* Macros: GCC 12 takes a function that only prefetches for one without effect and drops its calls. */
#define v_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define v_prefetch2(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)

static inline vec v_load_bf16(const char *p) {
  __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline vec v_load_f16(const char *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }

/* The upper half added to the lower, of a in the lower half of the result and of b in the upper. A blend and one shuffle. */
static inline vec v_fours(vec a, vec b) { return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21)); }

/* The fold of four registers of two rows each leaves rows 0 2 4 6 1 3 5 7. */
static inline vec v_row_order(vec a) { return _mm256_permutevar8x32_ps(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)); }

/* Within each 128 bits: a0 a1 b0 b1, a2 a3 b2 b3, a0 a2 b0 b2, a1 a3 b1 b3. */
static inline vec v_low_pairs(vec a, vec b) { return _mm256_shuffle_ps(a, b, _MM_SHUFFLE(1, 0, 1, 0)); }
static inline vec v_high_pairs(vec a, vec b) { return _mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 2, 3, 2)); }
static inline vec v_evens(vec a, vec b) { return _mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)); }
static inline vec v_odds(vec a, vec b) { return _mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)); }

#endif
