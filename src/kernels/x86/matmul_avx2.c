/* matmul_avx2.c: the tiled matrix product with two 256-bit registers per output, lanes 0-7 and 8-15, and the measuring loops.
 *
 * Sixteen registers hold 12 sums, 3 vectors of x and 1 of weights, so a tile makes the two halves in two passes.
 */
#define NT 3              /* tokens of a tile */
#define DIRECT_NT 3
#define DIRECT_MAX_N 6    /* up to here weights are widened in registers */
#define CODED_MAX_N 8     /* up to here coded weights pass through a buffer, not a panel */
#define DIRECT_MAX_N_F32 12
#define DIRECT_AHEAD 1024   /* bytes of each of 4 rows under way from memory: best of 512 to 4096 */
#define BLOCK_STEPS 64    /* k = 1024: 3 rows of x are 12 KB, 4 of weights 16 KB */
#define PANEL_ROWS 64
#define PANEL_ROWS_FEW 32

#include "kernels/x86/vec_avx2.h"
#include "kernels/matmul_tile.h"

static uint64_t read_stream_avx2(const void *p, size_t n) {
  const char *q = p;
  __m256i s[8];
  UNROLL for (int j = 0; j < 8; j++) s[j] = _mm256_setzero_si256();
  for (size_t i = 0; i + 256 <= n; i += 256) {
    UNROLL for (int j = 0; j < 8; j++) s[j] = _mm256_add_epi64(s[j], _mm256_loadu_si256((const __m256i *)(const void *)(q + i + 32 * j)));
  }
  UNROLL for (int j = 1; j < 8; j++) s[0] = _mm256_add_epi64(s[0], s[j]);
  uint64_t lane[4];
  _mm256_storeu_si256((__m256i *)(void *)lane, s[0]);
  return lane[0] + lane[1] + lane[2] + lane[3];
}

/* 12 chains: more than the two units times their latency of four or five cycles need. */
static float fma_peak_avx2(int64_t n_iter, double *n_fma) {
  vec s[12], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.5f), all = v_zero();
  UNROLL for (int j = 0; j < 12; j++) s[j] = _mm256_set1_ps((float)j);
  for (int64_t i = 0; i < n_iter; i++) {
    UNROLL for (int j = 0; j < 12; j++) s[j] = v_fma(s[j], a, b);
  }
  UNROLL for (int j = 0; j < 12; j++) all = v_add(all, s[j]);
  *n_fma = 12.0 * 8.0 * (double)n_iter;
  float lane[8], total = 0;
  v_store(lane, all);
  for (int j = 0; j < 8; j++) total += lane[j];
  return total;
}

void ij__matmul_fill_avx2(ij_kernels *k) {
  k->matmul[IJ_DTYPE_F32] = matmul_f32;
  k->matmul[IJ_DTYPE_BF16] = matmul_bf16;
  k->matmul[IJ_DTYPE_F16] = matmul_f16;
  coded_fill(k);
  k->read_stream = read_stream_avx2;
  k->fma_peak = fma_peak_avx2;
}
