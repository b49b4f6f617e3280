/* matmul_avx512.c: the tiled matrix product with one 512-bit register per output, and the measuring loops of this level.
 *
 * 24 sums, 4 weight vectors and 1 of x fill 29 of the 32 registers; 10 loads feed 24 multiply-adds.
 */
#include <immintrin.h>

#define V 16
#define NT 6              /* tokens of a tile */
#define DIRECT_NT 6
#define DIRECT_MAX_N 8    /* up to here weights are widened in registers */
#define CODED_MAX_N 8     /* up to here coded weights pass through a buffer, not a panel */
#define DIRECT_MAX_N_F32 24
#define DIRECT_AHEAD 1024   /* bytes of each of 4 rows under way from memory: best of 512 to 4096 */
#define BLOCK_STEPS 64    /* k = 1024: 6 rows of x are 24 KB */
#define PANEL_ROWS 64
#define PANEL_ROWS_FEW 32

#include "core/base.h"

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

#include "kernels/matmul_tile.h"
#include "kernels/x86/matmul_fused_avx512.h"
#include "kernels/x86/matmul_low_avx512.h"

static uint64_t read_stream_avx512(const void *p, size_t n) {
  const char *q = p;
  __m512i s[8];
  UNROLL for (int j = 0; j < 8; j++) s[j] = _mm512_setzero_si512();
  for (size_t i = 0; i + 512 <= n; i += 512) {
    UNROLL for (int j = 0; j < 8; j++) s[j] = _mm512_add_epi64(s[j], _mm512_loadu_si512((const void *)(q + i + 64 * j)));
  }
  UNROLL for (int j = 1; j < 8; j++) s[0] = _mm512_add_epi64(s[0], s[j]);
  return (uint64_t)_mm512_reduce_add_epi64(s[0]);
}

/* 24 chains: more than the two units times their latency of four cycles need. */
static float fma_peak_avx512(int64_t n_iter, double *n_fma) {
  vec s[24], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.5f), all = v_zero();
  UNROLL for (int j = 0; j < 24; j++) s[j] = _mm512_set1_ps((float)j);
  for (int64_t i = 0; i < n_iter; i++) {
    UNROLL for (int j = 0; j < 24; j++) s[j] = v_fma(s[j], a, b);
  }
  UNROLL for (int j = 0; j < 24; j++) all = v_add(all, s[j]);
  *n_fma = 24.0 * 16.0 * (double)n_iter;
  return _mm512_reduce_add_ps(all);
}

void ij__matmul_fill_avx512(ij_kernels *k) {
  k->matmul[IJ_DTYPE_F32] = matmul_f32;
  k->matmul[IJ_DTYPE_BF16] = matmul_bf16;
  k->matmul[IJ_DTYPE_F16] = matmul_f16;
  coded_fill(k);
  fused_fill(k);
  low_fill(k);
  k->read_stream = read_stream_avx512;
  k->fma_peak = fma_peak_avx512;
}
