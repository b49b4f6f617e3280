/* math_ref.c: the elementary functions of math_ref.h as table entries. */
#include "kernels/kernels_int.h"
#include "kernels/ref/math_ref.h"

static void vexp(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = ij__ref_exp(x[i]);
}

static void vlog(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = ij__ref_log(x[i]);
}

static void vtanh(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = ij__ref_tanh(x[i]);
}

static void verf(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = ij__ref_erf(x[i]);
}

static void vsigmoid(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = ij__ref_sigmoid(x[i]);
}

static void gelu(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (0.5f * x[i]) * (1.0f + ij__ref_erf(x[i] * IJ_SQRT_HALF));
}

void ij__math_fill_ref(ij_kernels *k) {
  k->vexp = vexp;
  k->vlog = vlog;
  k->vtanh = vtanh;
  k->verf = verf;
  k->vsigmoid = vsigmoid;
  k->gelu = gelu;
}
