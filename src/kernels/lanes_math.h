/* lanes_math.h: the elementary functions of ref/math_ref.h on sixteen lanes, line by line the same operations.
 *
 * Included after a lanes_<level>.h, which says what a lane is made of.
 */
#ifndef IJ_KERNELS_LANES_MATH_H
#define IJ_KERNELS_LANES_MATH_H

#include <math.h>

#include "kernels/math_coef.h"

static inline lanes lanes_sign_bit(void) { return lanes_set_bits(0x80000000u); }

static inline lanes lanes_exp(lanes x) {
  lanes magic = lanes_set(IJ_ROUND_MAGIC), one = lanes_set(1.0f);
  lanes shifted = lanes_fma(x, lanes_set(IJ_EXP_LOG2E), magic);
  lanes k = lanes_sub(shifted, magic);
  lanes r = lanes_fma(k, lanes_set(-IJ_EXP_LN2_HI), x);
  r = lanes_fma(k, lanes_set(-IJ_EXP_LN2_LO), r);
  lanes p = lanes_set(IJ_EXP_C4);
  p = lanes_fma(p, r, lanes_set(IJ_EXP_C3));
  p = lanes_fma(p, r, lanes_set(IJ_EXP_C2));
  p = lanes_fma(p, r, lanes_set(IJ_EXP_C1));
  p = lanes_fma(p, r, lanes_set(IJ_EXP_C0));
  p = lanes_fma(p, r, one);
  p = lanes_fma(p, r, one);
  lanes y = lanes_add_bits(p, lanes_shift_left_23(shifted));
  y = lanes_select(lanes_le(x, lanes_set(IJ_EXP_MAX)), y, lanes_mul(x, lanes_set(INFINITY)));
  return lanes_select(lanes_lt(x, lanes_set(IJ_EXP_MIN)), lanes_zero(), y);
}

static inline lanes lanes_log(lanes x) {
  lanes_mask denormal = lanes_lt(x, lanes_set(0x1p-126f));
  lanes scaled = lanes_select(denormal, lanes_mul(x, lanes_set(0x1p+23f)), x);
  lanes bits = lanes_add_bits(scaled, lanes_set_bits(0u - IJ_LOG_SQRT_HALF_BITS));
  lanes mantissa = lanes_add_bits(lanes_and(bits, lanes_set_bits(0x007fffffu)), lanes_set_bits(IJ_LOG_SQRT_HALF_BITS));
  lanes f = lanes_sub(mantissa, lanes_set(1.0f));
  lanes exponent = lanes_shift_right_23(lanes_add_bits(bits, lanes_sign_bit()));
  lanes k = lanes_sub(lanes_add_bits(exponent, lanes_set_bits(0x4b000000u)), lanes_set(0x1p+23f + 256.0f));
  k = lanes_sub(k, lanes_select(denormal, lanes_set(23.0f), lanes_zero()));
  lanes p = lanes_set(IJ_LOG_C8);
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C7));
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C6));
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C5));
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C4));
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C3));
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C2));
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C1));
  p = lanes_fma(p, f, lanes_set(IJ_LOG_C0));
  lanes low = lanes_fma(k, lanes_set(IJ_LOG_LN2_LO), lanes_mul(lanes_mul(f, f), p));
  lanes y = lanes_fma(k, lanes_set(IJ_LOG_LN2_HI), lanes_add(f, low));
  y = lanes_select(lanes_lt(x, lanes_set(INFINITY)), y, x);
  y = lanes_select(lanes_lt(x, lanes_zero()), lanes_set(NAN), y);
  return lanes_select(lanes_eq(x, lanes_zero()), lanes_set(-INFINITY), y);
}

static inline lanes lanes_sigmoid(lanes x) {
  lanes one = lanes_set(1.0f);
  return lanes_div(one, lanes_add(one, lanes_exp(lanes_xor(x, lanes_sign_bit()))));
}

static inline lanes lanes_tanh(lanes x) {
  lanes sign = lanes_and(x, lanes_sign_bit()), one = lanes_set(1.0f);
  lanes a = lanes_xor(x, sign);
  lanes s = lanes_mul(a, a);
  lanes p = lanes_set(IJ_TANH_C4);
  p = lanes_fma(p, s, lanes_set(IJ_TANH_C3));
  p = lanes_fma(p, s, lanes_set(IJ_TANH_C2));
  p = lanes_fma(p, s, lanes_set(IJ_TANH_C1));
  p = lanes_fma(p, s, lanes_set(IJ_TANH_C0));
  lanes small = lanes_fma(lanes_mul(a, s), p, a);
  lanes large = lanes_sub(one, lanes_div(lanes_set(2.0f), lanes_add(lanes_exp(lanes_add(a, a)), one)));
  lanes y = lanes_select(lanes_lt(a, lanes_set(IJ_TANH_SPLIT)), small, large);
  return lanes_or(y, sign);
}

static inline lanes lanes_erf(lanes x) {
  lanes sign = lanes_and(x, lanes_sign_bit());
  lanes a = lanes_xor(x, sign);
  lanes s = lanes_mul(a, a);
  lanes p = lanes_set(IJ_ERF_C6);
  p = lanes_fma(p, s, lanes_set(IJ_ERF_C5));
  p = lanes_fma(p, s, lanes_set(IJ_ERF_C4));
  p = lanes_fma(p, s, lanes_set(IJ_ERF_C3));
  p = lanes_fma(p, s, lanes_set(IJ_ERF_C2));
  p = lanes_fma(p, s, lanes_set(IJ_ERF_C1));
  p = lanes_fma(p, s, lanes_set(IJ_ERF_C0));
  lanes small = lanes_fma(a, p, a);
  lanes b = lanes_select(lanes_lt(lanes_set(IJ_ERF_MAX), a), lanes_set(IJ_ERF_MAX), a);
  lanes q = lanes_set(IJ_ERFC_C7);
  q = lanes_fma(q, b, lanes_set(IJ_ERFC_C6));
  q = lanes_fma(q, b, lanes_set(IJ_ERFC_C5));
  q = lanes_fma(q, b, lanes_set(IJ_ERFC_C4));
  q = lanes_fma(q, b, lanes_set(IJ_ERFC_C3));
  q = lanes_fma(q, b, lanes_set(IJ_ERFC_C2));
  q = lanes_fma(q, b, lanes_set(IJ_ERFC_C1));
  q = lanes_fma(q, b, lanes_set(IJ_ERFC_C0));
  lanes large = lanes_sub(lanes_set(1.0f), lanes_exp(q));
  lanes y = lanes_select(lanes_lt(a, lanes_set(IJ_ERF_SPLIT)), small, large);
  return lanes_or(y, sign);
}

#endif
