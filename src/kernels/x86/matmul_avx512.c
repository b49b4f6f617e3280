/* matmul_avx512.c: the tiled matrix product with one 512-bit register per output, and the measuring loops of this level.
 *
 * 24 sums, 4 weight vectors and 1 of x fill 29 of the 32 registers; 10 loads feed 24 multiply-adds.
 */
#define NT 6              /* tokens of a tile */
#define DIRECT_NT 6
#define DIRECT_MAX_N 8    /* up to here weights are widened in registers */
#define CODED_MAX_N 8     /* up to here coded weights pass through a buffer, not a panel */
#define DIRECT_MAX_N_F32 24
#define DIRECT_AHEAD 1024   /* bytes of each of 4 rows under way from memory: best of 512 to 4096 */
#define BLOCK_STEPS 64    /* k = 1024: 6 rows of x are 24 KB */
#define PANEL_ROWS 64
#define PANEL_ROWS_FEW 32

#include "kernels/x86/vec_avx512.h"
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
