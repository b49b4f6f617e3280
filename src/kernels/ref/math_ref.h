/* math_ref.h: exp, log, tanh, erf and the logistic function in float32: the definition that every level repeats bit for bit.
 *
 * Each is a fixed sequence of IEEE operations (add, mul, div, fma, comparisons, integer operations on the bits), so any machine
 * with these gives the same answer; the libm of the system is never asked. Every case is computed and the right one selected, as
 * vector code does, which is why NaN needs care: comparisons are written so that NaN falls through to a value that is NaN.
 *
 * Largest error over all float32 whose result is a normal number, in units in the last place: exp 0.891, log 0.905, tanh 1.362,
 * erf 1.096, logistic 2.481 (`test_math all` repeats this).
 */
#ifndef IJ_KERNELS_REF_MATH_REF_H
#define IJ_KERNELS_REF_MATH_REF_H

#include "kernels/math_coef.h"
#include "kernels/ref/lanes_ref.h"

/* x = k * ln(2) + r with |r| <= ln(2) / 2; exp(x) = 2^k * (1 + r + r^2 * P(r)); 2^k goes in by adding k to the exponent.
 * Results below the smallest normal number are flushed to +0 (that is x < IJ_EXP_MIN), results above the largest are +inf. */
static inline float ij__ref_exp(float x) {
  float shifted = fmaf(x, IJ_EXP_LOG2E, IJ_ROUND_MAGIC);
  float k = shifted - IJ_ROUND_MAGIC;
  float r = fmaf(k, -IJ_EXP_LN2_HI, x);
  r = fmaf(k, -IJ_EXP_LN2_LO, r);
  float p = IJ_EXP_C4;
  p = fmaf(p, r, IJ_EXP_C3);
  p = fmaf(p, r, IJ_EXP_C2);
  p = fmaf(p, r, IJ_EXP_C1);
  p = fmaf(p, r, IJ_EXP_C0);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  float y = ij__ref_float(ij__ref_bits(p) + (ij__ref_bits(shifted) << 23));
  y = x <= IJ_EXP_MAX ? y : x * INFINITY;
  return x < IJ_EXP_MIN ? 0.0f : y;
}

/* x = 2^k * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); log(x) = k * ln(2) + f + f^2 * P(f). Denormals are scaled up first. */
static inline float ij__ref_log(float x) {
  bool denormal = x < 0x1p-126f;
  float scaled = denormal ? x * 0x1p+23f : x;
  uint32_t bits = ij__ref_bits(scaled) - IJ_LOG_SQRT_HALF_BITS;
  float f = ij__ref_float((bits & 0x007fffffu) + IJ_LOG_SQRT_HALF_BITS) - 1.0f;
  /* k is the signed top of `bits`. As the bits below an exponent of 2^23, k + 256 (which is in 0 .. 511) reads 2^23 + 256 + k. */
  float k = ij__ref_float(((bits + 0x80000000u) >> 23) + 0x4b000000u) - (0x1p+23f + 256.0f);
  k = k - (denormal ? 23.0f : 0.0f);
  float p = IJ_LOG_C8;
  p = fmaf(p, f, IJ_LOG_C7);
  p = fmaf(p, f, IJ_LOG_C6);
  p = fmaf(p, f, IJ_LOG_C5);
  p = fmaf(p, f, IJ_LOG_C4);
  p = fmaf(p, f, IJ_LOG_C3);
  p = fmaf(p, f, IJ_LOG_C2);
  p = fmaf(p, f, IJ_LOG_C1);
  p = fmaf(p, f, IJ_LOG_C0);
  float low = fmaf(k, IJ_LOG_LN2_LO, (f * f) * p);
  float y = fmaf(k, IJ_LOG_LN2_HI, f + low);
  y = x < INFINITY ? y : x;
  y = x < 0.0f ? NAN : y;
  return x == 0.0f ? -INFINITY : y;
}

/* 1 / (1 + exp(-x)); +0 where exp(-x) overflows. */
static inline float ij__ref_sigmoid(float x) { return 1.0f / (1.0f + ij__ref_exp(-x)); }

/* On |x|, the sign put back at the end: a polynomial near zero, 1 - 2 / (exp(2 |x|) + 1) above. */
static inline float ij__ref_tanh(float x) {
  uint32_t sign = ij__ref_bits(x) & 0x80000000u;
  float a = ij__ref_float(ij__ref_bits(x) ^ sign);
  float s = a * a;
  float p = IJ_TANH_C4;
  p = fmaf(p, s, IJ_TANH_C3);
  p = fmaf(p, s, IJ_TANH_C2);
  p = fmaf(p, s, IJ_TANH_C1);
  p = fmaf(p, s, IJ_TANH_C0);
  float small = fmaf(a * s, p, a);
  float large = 1.0f - 2.0f / (ij__ref_exp(a + a) + 1.0f);
  float y = a < IJ_TANH_SPLIT ? small : large;
  return ij__ref_float(ij__ref_bits(y) | sign);
}

/* On |x|, the sign put back at the end: a polynomial near zero, 1 - exp(Q(|x|)) above, |x| held to IJ_ERF_MAX. */
static inline float ij__ref_erf(float x) {
  uint32_t sign = ij__ref_bits(x) & 0x80000000u;
  float a = ij__ref_float(ij__ref_bits(x) ^ sign);
  float s = a * a;
  float p = IJ_ERF_C6;
  p = fmaf(p, s, IJ_ERF_C5);
  p = fmaf(p, s, IJ_ERF_C4);
  p = fmaf(p, s, IJ_ERF_C3);
  p = fmaf(p, s, IJ_ERF_C2);
  p = fmaf(p, s, IJ_ERF_C1);
  p = fmaf(p, s, IJ_ERF_C0);
  float small = fmaf(a, p, a);
  float b = a > IJ_ERF_MAX ? IJ_ERF_MAX : a;
  float q = IJ_ERFC_C7;
  q = fmaf(q, b, IJ_ERFC_C6);
  q = fmaf(q, b, IJ_ERFC_C5);
  q = fmaf(q, b, IJ_ERFC_C4);
  q = fmaf(q, b, IJ_ERFC_C3);
  q = fmaf(q, b, IJ_ERFC_C2);
  q = fmaf(q, b, IJ_ERFC_C1);
  q = fmaf(q, b, IJ_ERFC_C0);
  float large = 1.0f - ij__ref_exp(q);
  float y = a < IJ_ERF_SPLIT ? small : large;
  return ij__ref_float(ij__ref_bits(y) | sign);
}

#endif
