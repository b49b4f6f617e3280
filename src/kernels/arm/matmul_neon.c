/* matmul_neon.c: the tiled matrix product with four 128-bit registers per output, and the measuring loops of this level.
 *
 * 24 sums, 4 vectors of weights and 1 of x fit the 32 registers, so a tile makes the 16 lanes in four passes.
 */
#include <arm_neon.h>

#define V 4
#define NT 6              /* tokens of a tile */
#define DIRECT_NT 3
#define DIRECT_MAX_N 6    /* up to here weights are widened in registers */
#define CODED_MAX_N 8     /* up to here coded weights pass through a buffer, not a panel */
#define DIRECT_MAX_N_F32 12
#define DIRECT_AHEAD 1024   /* bytes of each of 4 rows under way from memory: best of 512 to 4096 */
#define BLOCK_STEPS 32    /* k = 512: 6 rows of x are 12 KB, 4 of weights 8 KB, for caches of 32 KB */
#define PANEL_ROWS 64
#define PANEL_ROWS_FEW 32

#include "core/base.h"

typedef float32x4_t vec;

static inline vec v_zero(void) { return vdupq_n_f32(0.0f); }
static inline vec v_load(const float *p) { return vld1q_f32(p); }
static inline void v_store(float *p, vec a) { vst1q_f32(p, a); }
static inline vec v_add(vec a, vec b) { return vaddq_f32(a, b); }
static inline vec v_fma(vec a, vec b, vec c) { return vfmaq_f32(c, a, b); }
/* Macros: GCC 12 takes a function that only prefetches for one without effect and drops its calls. */
#define v_prefetch(p) __builtin_prefetch(p, 0, 3)
#define v_prefetch2(p) __builtin_prefetch(p, 0, 2)

static inline vec v_load_bf16(const char *p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8((const uint8_t *)p)), 16));
}

static inline vec v_load_f16(const char *p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)p))); }

static inline vec v_row_order(vec a) { return a; }

/* a0 a1 b0 b1, a2 a3 b2 b3, a0 a2 b0 b2, a1 a3 b1 b3. */
static inline vec v_low_pairs(vec a, vec b) { return vcombine_f32(vget_low_f32(a), vget_low_f32(b)); }
static inline vec v_high_pairs(vec a, vec b) { return vcombine_f32(vget_high_f32(a), vget_high_f32(b)); }
static inline vec v_evens(vec a, vec b) { return vuzp1q_f32(a, b); }
static inline vec v_odds(vec a, vec b) { return vuzp2q_f32(a, b); }

#include "kernels/matmul_tile.h"

static uint64_t read_stream_neon(const void *p, size_t n) {
  const uint64_t *q = p;
  uint64x2_t s[8];
  UNROLL for (int j = 0; j < 8; j++) s[j] = vdupq_n_u64(0);
  for (size_t i = 0; i + 16 <= n / 8; i += 16) {
    UNROLL for (int j = 0; j < 8; j++) s[j] = vaddq_u64(s[j], vld1q_u64(q + i + 2 * (size_t)j));
  }
  UNROLL for (int j = 1; j < 8; j++) s[0] = vaddq_u64(s[0], s[j]);
  return vgetq_lane_u64(s[0], 0) + vgetq_lane_u64(s[0], 1);
}

/* 24 chains: enough for four units with a latency of four cycles. */
static float fma_peak_neon(int64_t n_iter, double *n_fma) {
  vec s[24], a = vdupq_n_f32(0.999f), b = vdupq_n_f32(0.5f), all = v_zero();
  UNROLL for (int j = 0; j < 24; j++) s[j] = vdupq_n_f32((float)j);
  for (int64_t i = 0; i < n_iter; i++) {
    UNROLL for (int j = 0; j < 24; j++) s[j] = vfmaq_f32(s[j], a, b);
  }
  UNROLL for (int j = 0; j < 24; j++) all = v_add(all, s[j]);
  *n_fma = 24.0 * 4.0 * (double)n_iter;
  return vaddvq_f32(all);
}

void ij__matmul_fill_neon(ij_kernels *k) {
  k->matmul[IJ_DTYPE_F32] = matmul_f32;
  k->matmul[IJ_DTYPE_BF16] = matmul_bf16;
  k->matmul[IJ_DTYPE_F16] = matmul_f16;
  coded_fill(k);
  k->read_stream = read_stream_neon;
  k->fma_peak = fma_peak_neon;
}
