/* lanes_ref.h: the two reductions of kernels.h in scalar C, and the bits of a float. */
#ifndef IJ_KERNELS_REF_LANES_REF_H
#define IJ_KERNELS_REF_LANES_REF_H

#include <math.h>
#include <string.h>

#include "core/base.h"

static inline uint32_t ij__ref_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float ij__ref_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* fold16 of kernels.h; s is used up. */
static inline float ij__ref_fold16(float s[16]) {
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; j++) s[j] = s[j] + s[j + half];
  }
  return s[0];
}

/* fold16 of dot16. */
static inline float ij__ref_dot16(const float *a, const float *b, int64_t n) {
  float s[16] = {0};
  for (int64_t i = 0; i < n; i += 16) {
    for (int64_t j = 0; j < 16; j++) {
      bool inside = i + j < n;
      s[j] = fmaf(inside ? a[i + j] : 0.0f, inside ? b[i + j] : 0.0f, s[j]);
    }
  }
  return ij__ref_fold16(s);
}

/* fold16 of sum16. */
static inline float ij__ref_sum16(const float *x, int64_t n) {
  float s[16] = {0};
  for (int64_t i = 0; i < n; i += 16) {
    for (int64_t j = 0; j < 16; j++) s[j] = s[j] + (i + j < n ? x[i + j] : 0.0f);
  }
  return ij__ref_fold16(s);
}

#endif
