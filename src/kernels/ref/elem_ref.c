/* elem_ref.c: conversions, norms, element-wise entries and reductions in scalar C: the definition. */
#include "kernels/kernels_int.h"
#include "kernels/ref/convert_ref.h"
#include "kernels/ref/math_ref.h"

static void widen_f32(float *y, const void *x, int64_t n) { memmove(y, x, (size_t)n * sizeof *y); }

static void widen_bf16(float *y, const void *x, int64_t n) {
  const uint16_t *h = x;
  for (int64_t i = 0; i < n; i++) y[i] = ij__ref_from_bf16(h[i]);
}

static void widen_f16(float *y, const void *x, int64_t n) {
  const uint16_t *h = x;
  for (int64_t i = 0; i < n; i++) y[i] = ij__ref_from_f16(h[i]);
}

static void narrow_f32(void *y, const float *x, int64_t n) { memmove(y, x, (size_t)n * sizeof *x); }

static void narrow_bf16(void *y, const float *x, int64_t n) {
  uint16_t *h = y;
  for (int64_t i = 0; i < n; i++) h[i] = ij__ref_to_bf16(x[i]);
}

static void narrow_f16(void *y, const float *x, int64_t n) {
  uint16_t *h = y;
  for (int64_t i = 0; i < n; i++) h[i] = ij__ref_to_f16(x[i]);
}

static void rms_norm(float *y, const float *x, const float *w, float eps, int64_t n) {
  float mean = ij__ref_dot16(x, x, n) / (float)n;
  float r = 1.0f / sqrtf(mean + eps);
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] * r) * w[i];
}

static void swiglu(float *y, const float *g, const float *u, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (g[i] * ij__ref_sigmoid(g[i])) * u[i];
}

static void swiglu_pairs(float *y, const float *gu, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (gu[2 * i] * ij__ref_sigmoid(gu[2 * i])) * gu[2 * i + 1];
}

static void short_conv(float *y, const float *const *u, const float *w, int64_t ldw, int n_tap, int64_t n) {
  for (int64_t c = 0; c < n; c++) {
    float acc = u[n_tap - 1][c];
    for (int j = 0; j < n_tap; j++) acc = fmaf(w[j * ldw + c], u[j][c], acc);
    y[c] = acc;
  }
}

static void add(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = y[i] + x[i];
}

static void axpy(float *y, float a, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = fmaf(a, x[i], y[i]);
}

static void scale(float *y, const float *x, float a, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * a;
}

static float dot(const float *a, const float *b, int64_t n) { return ij__ref_dot16(a, b, n); }

static float sum(const float *x, int64_t n) { return ij__ref_sum16(x, n); }

static float sum_exp(const float *x, float max, int64_t n) {
  float s[16] = {0};
  for (int64_t i = 0; i < n; i += 16) {
    for (int64_t j = 0; j < 16; j++) s[j] = s[j] + (i + j < n ? ij__ref_exp(x[i + j] - max) : 0.0f);
  }
  return ij__ref_fold16(s);
}

static float max(const float *x, int64_t n) {
  float m = x[0];
  for (int64_t i = 1; i < n; i++) m = x[i] > m ? x[i] : m;
  return m + 0.0f; /* -0 becomes +0, so that order cannot matter */
}

static bool all_finite(const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if ((ij__ref_bits(x[i]) & 0x7f800000u) == 0x7f800000u) return false;
  }
  return true;
}

static void merge(float *o, float a, const float *x, float b, int64_t n) {
  for (int64_t i = 0; i < n; i++) o[i] = fmaf(o[i], a, b * x[i]);
}

void ij__elem_fill_ref(ij_kernels *k) {
  k->widen[IJ_DTYPE_F32] = widen_f32;
  k->widen[IJ_DTYPE_BF16] = widen_bf16;
  k->widen[IJ_DTYPE_F16] = widen_f16;
  k->narrow[IJ_DTYPE_F32] = narrow_f32;
  k->narrow[IJ_DTYPE_BF16] = narrow_bf16;
  k->narrow[IJ_DTYPE_F16] = narrow_f16;
  k->rms_norm = rms_norm;
  k->swiglu = swiglu;
  k->swiglu_pairs = swiglu_pairs;
  k->short_conv = short_conv;
  k->add = add;
  k->axpy = axpy;
  k->scale = scale;
  k->dot = dot;
  k->sum = sum;
  k->sum_exp = sum_exp;
  k->max = max;
  k->all_finite = all_finite;
  k->merge = merge;
}
