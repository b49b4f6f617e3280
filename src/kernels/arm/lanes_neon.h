/* lanes_neon.h: sixteen floats in four q registers, with the operations that lanes_math.h, lanes_elem.h and lanes_attn.h use.
 *
 * Every level has the same sixteen lanes under the same names, so that the entries are written once and the order of operations
 * cannot differ between levels. Masks are lanes of all ones or all zeros here.
 */
#ifndef IJ_KERNELS_ARM_LANES_NEON_H
#define IJ_KERNELS_ARM_LANES_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "core/base.h"

/* attn_pv keeps tiles of at most 3 queries by LANES_PV_WIDE x 16 columns in registers; LANES_PV_HALF is the next smaller tile. */
#define LANES_PV_WIDE 2
#define LANES_PV_HALF 1

typedef struct lanes {
  float32x4_t a, b, c, d; /* four lanes each, in order */
} lanes;
typedef struct lanes_mask {
  uint32x4_t a, b, c, d;
} lanes_mask;

/* One q-register operation on every quarter. */
#define LANES_MAP1(type, op, x) ((type){op((x).a), op((x).b), op((x).c), op((x).d)})
#define LANES_MAP2(type, op, x, y) ((type){op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)})

static inline lanes lanes_set(float x) { return (lanes){vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)}; }
static inline lanes lanes_zero(void) { return lanes_set(0.0f); }

static inline lanes lanes_set_bits(uint32_t x) {
  float32x4_t v = vreinterpretq_f32_u32(vdupq_n_u32(x));
  return (lanes){v, v, v, v};
}

static inline lanes lanes_load(const float *p) { return (lanes){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }

static inline void lanes_store(float *p, lanes v) {
  vst1q_f32(p, v.a);
  vst1q_f32(p + 4, v.b);
  vst1q_f32(p + 8, v.c);
  vst1q_f32(p + 12, v.d);
}

/* The same value. Here it is in a register anyway: only AVX-512 must be told. */
static inline lanes lanes_hold(lanes v) { return v; }

/* The first min(n, 16) values, n >= 1; the other lanes are +0, and no memory behind them is touched. */
static inline lanes lanes_load_n(const float *p, int64_t n) {
  if (n >= 16) return lanes_load(p);
  float tail[16] = {0};
  memcpy(tail, p, (size_t)n * sizeof *p);
  return lanes_load(tail);
}

static inline void lanes_store_n(float *p, lanes v, int64_t n) {
  if (n >= 16) {
    lanes_store(p, v);
  } else {
    float tail[16];
    lanes_store(tail, v);
    memcpy(p, tail, (size_t)n * sizeof *p);
  }
}

static inline lanes lanes_add(lanes x, lanes y) { return LANES_MAP2(lanes, vaddq_f32, x, y); }
static inline lanes lanes_sub(lanes x, lanes y) { return LANES_MAP2(lanes, vsubq_f32, x, y); }
static inline lanes lanes_mul(lanes x, lanes y) { return LANES_MAP2(lanes, vmulq_f32, x, y); }
static inline lanes lanes_div(lanes x, lanes y) { return LANES_MAP2(lanes, vdivq_f32, x, y); }
static inline lanes lanes_max(lanes x, lanes y) { return LANES_MAP2(lanes, vmaxq_f32, x, y); }
static inline lanes lanes_fma(lanes x, lanes y, lanes z) {
  return (lanes){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}

/* Operations on the bits of the lanes. */
#define LANES_BITS2(name, op)                                                                  \
  static inline float32x4_t name##_4(float32x4_t x, float32x4_t y) {                           \
    return vreinterpretq_f32_u32(op(vreinterpretq_u32_f32(x), vreinterpretq_u32_f32(y)));      \
  }                                                                                            \
  static inline lanes name(lanes x, lanes y) { return LANES_MAP2(lanes, name##_4, x, y); }
LANES_BITS2(lanes_and, vandq_u32)
LANES_BITS2(lanes_or, vorrq_u32)
LANES_BITS2(lanes_xor, veorq_u32)
LANES_BITS2(lanes_add_bits, vaddq_u32)
#undef LANES_BITS2

static inline float32x4_t lanes_shift_left_4(float32x4_t x) { return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x), 23)); }
static inline float32x4_t lanes_shift_right_4(float32x4_t x) { return vreinterpretq_f32_u32(vshrq_n_u32(vreinterpretq_u32_f32(x), 23)); }
static inline lanes lanes_shift_left_23(lanes x) { return LANES_MAP1(lanes, lanes_shift_left_4, x); }
static inline lanes lanes_shift_right_23(lanes x) { return LANES_MAP1(lanes, lanes_shift_right_4, x); }

/* Comparisons are false for NaN. */
static inline lanes_mask lanes_lt(lanes x, lanes y) { return LANES_MAP2(lanes_mask, vcltq_f32, x, y); }
static inline lanes_mask lanes_le(lanes x, lanes y) { return LANES_MAP2(lanes_mask, vcleq_f32, x, y); }
static inline lanes_mask lanes_eq(lanes x, lanes y) { return LANES_MAP2(lanes_mask, vceqq_f32, x, y); }
static inline lanes lanes_select(lanes_mask m, lanes yes, lanes no) {
  return (lanes){vbslq_f32(m.a, yes.a, no.a), vbslq_f32(m.b, yes.b, no.b), vbslq_f32(m.c, yes.c, no.c), vbslq_f32(m.d, yes.d, no.d)};
}

static inline bool lanes_all_finite(lanes v) {
  lanes magnitude = lanes_and(v, lanes_set_bits(0x7fffffffu));
  lanes_mask m = lanes_lt(magnitude, lanes_set_bits(0x7f800000u));
  return vminvq_u32(vandq_u32(vandq_u32(m.a, m.b), vandq_u32(m.c, m.d))) != 0;
}

/* Four lanes, all ones where first + lane is in [k0, k1). */
static inline uint32x4_t lanes_in_range_4(int first, int k0, int k1) {
  static const int32_t numbers[4] = {0, 1, 2, 3};
  int32x4_t lane = vld1q_s32(numbers);
  return vbicq_u32(vcltq_s32(lane, vdupq_n_s32(k1 - first)), vcltq_s32(lane, vdupq_n_s32(k0 - first)));
}

/* Lanes whose number plus `first` is in [k0, k1), 0 <= k0 < k1 <= 64. */
static inline lanes_mask lanes_in_range(int first, int k0, int k1) {
  return (lanes_mask){lanes_in_range_4(first, k0, k1), lanes_in_range_4(first + 4, k0, k1), lanes_in_range_4(first + 8, k0, k1),
                      lanes_in_range_4(first + 12, k0, k1)};
}

/* fold16 of kernels.h. */
static inline float lanes_fold(lanes v) {
  float32x4_t s4 = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
  float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
  return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

static inline float lanes_fold_max(lanes v) { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.a, v.c), vmaxq_f32(v.b, v.d))); }

static inline float32x4_t lanes_from_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }

static inline lanes lanes_load_bf16(const uint16_t *p) {
  return (lanes){lanes_from_bf16(p), lanes_from_bf16(p + 4), lanes_from_bf16(p + 8), lanes_from_bf16(p + 12)};
}

static inline uint16x4_t lanes_to_bf16(float32x4_t v) {
  uint32x4_t bits = vreinterpretq_u32_f32(v), high = vshrq_n_u32(bits, 16);
  uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
  uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
  uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
  return vmovn_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet));
}

static inline void lanes_store_bf16(uint16_t *p, lanes v) {
  vst1_u16(p, lanes_to_bf16(v.a));
  vst1_u16(p + 4, lanes_to_bf16(v.b));
  vst1_u16(p + 8, lanes_to_bf16(v.c));
  vst1_u16(p + 12, lanes_to_bf16(v.d));
}

static inline float32x4_t lanes_from_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }

static inline lanes lanes_load_f16(const uint16_t *p) {
  return (lanes){lanes_from_f16(p), lanes_from_f16(p + 4), lanes_from_f16(p + 8), lanes_from_f16(p + 12)};
}

static inline uint16x4_t lanes_to_f16(float32x4_t v) { return vreinterpret_u16_f16(vcvt_f16_f32(v)); }

static inline void lanes_store_f16(uint16_t *p, lanes v) {
  vst1_u16(p, lanes_to_f16(v.a));
  vst1_u16(p + 4, lanes_to_f16(v.b));
  vst1_u16(p + 8, lanes_to_f16(v.c));
  vst1_u16(p + 12, lanes_to_f16(v.d));
}

#endif
