/* matmul_ints_neon.c: products in integers of Q4_K on any processor of this level, and x made into integers. */
#define K_BITS 4
#include "kernels/arm/ints_neon.h"

#include "kernels/arm/ints_dots_neon.h"
#include "kernels/arm/ints_k_neon.h"
#include "kernels/arm/ints_run_neon.h"

/* ---- x as integers ---- */

/* The low digit of each of 32 values; v becomes what is left. */
INLINE void take_digits(int32x4_t digits[8], int32x4_t v[8]) {
  UNROLL for (int i = 0; i < 8; i++) {
    digits[i] = vshrq_n_s32(vshlq_n_s32(v[i], 24), 24); /* the low byte, with its sign */
    v[i] = vshrq_n_s32(vsubq_s32(v[i], digits[i]), 8);
  }
}

INLINE void store_digits(int8_t *to, const int32x4_t v[8]) {
  UNROLL for (int i = 0; i < 8; i += 4) {
    const int16x8_t first = vuzp1q_s16(vreinterpretq_s16_s32(v[i]), vreinterpretq_s16_s32(v[i + 1]));
    const int16x8_t last = vuzp1q_s16(vreinterpretq_s16_s32(v[i + 2]), vreinterpretq_s16_s32(v[i + 3]));
    vst1q_s8(to + 4 * i, vuzp1q_s8(vreinterpretq_s8_s16(first), vreinterpretq_s8_s16(last)));
  }
}

INLINE int32_t sum_half(const int32x4_t v[4]) { return vaddvq_s32(vaddq_s32(vaddq_s32(v[0], v[1]), vaddq_s32(v[2], v[3]))); }

/* Bits of the largest magnitude: as integers they are ordered like what they stand for, infinities and NaN last. */
INLINE uint32_t largest_bits(const float *x) {
  uint32x4_t most = vdupq_n_u32(0);
  for (int i = 0; i < IJ_INTS; i += 4) most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
  return vmaxvq_u32(most);
}

static void block_to_ints(ij_ints *b, const float *x) {
  float inverse;
  if (!ij__ints_scale(b, largest_bits(x), &inverse)) return;
  for (int g = 0; g < 8; g++) {
    int32x4_t v[8], digits[8];
    UNROLL for (int i = 0; i < 8; i++) v[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 32 * g + 4 * i), inverse));
    ij__ints_sums(b, g, sum_half(v), sum_half(v + 4));
    UNROLL for (int j = 0; j < 2; j++) {
      take_digits(digits, v);
      store_digits(b->digit[j] + 32 * g, digits);
    }
    store_digits(b->digit[2] + 32 * g, v);
  }
}

void ij__to_ints_neon(ij_ints *out, const float *x, int64_t k) { ij__ints_row(out, x, k, block_to_ints); }

void ij__ints_fill_neon(ij_kernels *k) {
  k->to_ints = ij__to_ints_neon;
  k->matmul[TYPE] = matmul_in_integers;
}
