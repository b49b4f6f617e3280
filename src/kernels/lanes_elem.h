/* lanes_elem.h: the entries of ref/elem_ref.c and ref/math_ref.c on sixteen lanes, for every vector level.
 *
 * Included after a lanes_<level>.h by one file per level. Loops step by 16 and leave the last, shorter step to the load and store of
 * n lanes, whose missing lanes are +0: that is also the padding that dot16 and sum16 ask for.
 */
#ifndef IJ_KERNELS_LANES_ELEM_H
#define IJ_KERNELS_LANES_ELEM_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/lanes_math.h"

static void widen_bf16(float *y, const void *x, int64_t n) {
  const uint16_t *h = x;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) lanes_store(y + i, lanes_load_bf16(h + i));
  if (i == n) return;
  uint16_t tail[16] = {0};
  memcpy(tail, h + i, (size_t)(n - i) * sizeof *h);
  lanes_store_n(y + i, lanes_load_bf16(tail), n - i);
}

static void widen_f16(float *y, const void *x, int64_t n) {
  const uint16_t *h = x;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) lanes_store(y + i, lanes_load_f16(h + i));
  if (i == n) return;
  uint16_t tail[16] = {0};
  memcpy(tail, h + i, (size_t)(n - i) * sizeof *h);
  lanes_store_n(y + i, lanes_load_f16(tail), n - i);
}

static void narrow_bf16(void *y, const float *x, int64_t n) {
  uint16_t *h = y;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) lanes_store_bf16(h + i, lanes_load(x + i));
  if (i == n) return;
  uint16_t tail[16];
  lanes_store_bf16(tail, lanes_load_n(x + i, n - i));
  memcpy(h + i, tail, (size_t)(n - i) * sizeof *h);
}

static void narrow_f16(void *y, const float *x, int64_t n) {
  uint16_t *h = y;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) lanes_store_f16(h + i, lanes_load(x + i));
  if (i == n) return;
  uint16_t tail[16];
  lanes_store_f16(tail, lanes_load_n(x + i, n - i));
  memcpy(h + i, tail, (size_t)(n - i) * sizeof *h);
}

static float dot(const float *a, const float *b, int64_t n) {
  lanes s = lanes_zero();
  for (int64_t i = 0; i < n; i += 16) s = lanes_fma(lanes_load_n(a + i, n - i), lanes_load_n(b + i, n - i), s);
  return lanes_fold(s);
}

static float sum(const float *x, int64_t n) {
  lanes s = lanes_zero();
  for (int64_t i = 0; i < n; i += 16) s = lanes_add(s, lanes_load_n(x + i, n - i));
  return lanes_fold(s);
}

static float sum_exp(const float *x, float max, int64_t n) {
  lanes s = lanes_zero(), top = lanes_set(max);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) s = lanes_add(s, lanes_exp(lanes_sub(lanes_load(x + i), top)));
  if (i < n) {
    float tail[16] = {0};
    lanes_store_n(tail, lanes_exp(lanes_sub(lanes_load_n(x + i, n - i), top)), n - i);
    s = lanes_add(s, lanes_load(tail));
  }
  return lanes_fold(s);
}

static float max(const float *x, int64_t n) {
  lanes m[4] = {lanes_set(x[0]), lanes_set(x[0]), lanes_set(x[0]), lanes_set(x[0])};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; j++) m[j] = lanes_max(m[j], lanes_load(x + i + 16 * j));
  }
  float largest = lanes_fold_max(lanes_max(lanes_max(m[0], m[1]), lanes_max(m[2], m[3])));
  for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
  return largest + 0.0f; /* -0 becomes +0, so that order cannot matter */
}

static bool all_finite(const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    if (!lanes_all_finite(lanes_load_n(x + i, n - i))) return false;
  }
  return true;
}

static void rms_norm(float *y, const float *x, const float *w, float eps, int64_t n) {
  float mean = dot(x, x, n) / (float)n;
  lanes r = lanes_set(1.0f / sqrtf(mean + eps));
  for (int64_t i = 0; i < n; i += 16) {
    lanes v = lanes_mul(lanes_load_n(x + i, n - i), r);
    lanes_store_n(y + i, lanes_mul(v, lanes_load_n(w + i, n - i)), n - i);
  }
}

static void swiglu(float *y, const float *g, const float *u, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    lanes v = lanes_load_n(g + i, n - i);
    v = lanes_mul(v, lanes_sigmoid(v));
    lanes_store_n(y + i, lanes_mul(v, lanes_load_n(u + i, n - i)), n - i);
  }
}

/* The compiler turns the split into shuffles; which ones does not matter, no value changes. */
static void swiglu_pairs(float *y, const float *gu, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    float g[16] = {0}, u[16] = {0};
    if (n - i >= 16) {
      for (int j = 0; j < 16; j++) {
        g[j] = gu[2 * (i + j)];
        u[j] = gu[2 * (i + j) + 1];
      }
    } else {
      for (int64_t j = 0; j < n - i; j++) {
        g[j] = gu[2 * (i + j)];
        u[j] = gu[2 * (i + j) + 1];
      }
    }
    lanes v = lanes_load(g);
    v = lanes_mul(v, lanes_sigmoid(v));
    lanes_store_n(y + i, lanes_mul(v, lanes_load(u)), n - i);
  }
}

static void short_conv(float *y, const float *const *u, const float *w, int64_t ldw, int n_tap, int64_t n) {
  int64_t c = 0;
  for (; c + 32 <= n; c += 32) {
    lanes a = lanes_load(u[n_tap - 1] + c), b = lanes_load(u[n_tap - 1] + c + 16);
    for (int j = 0; j < n_tap; j++) {
      const float *tap = w + j * ldw + c, *in = u[j] + c;
      a = lanes_fma(lanes_load(tap), lanes_load(in), a);
      b = lanes_fma(lanes_load(tap + 16), lanes_load(in + 16), b);
    }
    lanes_store(y + c, a);
    lanes_store(y + c + 16, b);
  }
  for (; c < n; c += 16) {
    lanes acc = lanes_load_n(u[n_tap - 1] + c, n - c);
    for (int j = 0; j < n_tap; j++) acc = lanes_fma(lanes_load_n(w + j * ldw + c, n - c), lanes_load_n(u[j] + c, n - c), acc);
    lanes_store_n(y + c, acc, n - c);
  }
}

static void add(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) lanes_store_n(y + i, lanes_add(lanes_load_n(y + i, n - i), lanes_load_n(x + i, n - i)), n - i);
}

static void axpy(float *y, float a, const float *x, int64_t n) {
  lanes factor = lanes_set(a);
  for (int64_t i = 0; i < n; i += 16) {
    lanes_store_n(y + i, lanes_fma(factor, lanes_load_n(x + i, n - i), lanes_load_n(y + i, n - i)), n - i);
  }
}

static void scale(float *y, const float *x, float a, int64_t n) {
  lanes factor = lanes_set(a);
  for (int64_t i = 0; i < n; i += 16) lanes_store_n(y + i, lanes_mul(lanes_load_n(x + i, n - i), factor), n - i);
}

static void merge(float *o, float a, const float *x, float b, int64_t n) {
  lanes old = lanes_set(a), new = lanes_set(b);
  for (int64_t i = 0; i < n; i += 16) {
    lanes part = lanes_mul(new, lanes_load_n(x + i, n - i));
    lanes_store_n(o + i, lanes_fma(lanes_load_n(o + i, n - i), old, part), n - i);
  }
}

static void vexp(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) lanes_store_n(y + i, lanes_exp(lanes_load_n(x + i, n - i)), n - i);
}

static void vlog(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) lanes_store_n(y + i, lanes_log(lanes_load_n(x + i, n - i)), n - i);
}

static void vtanh(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) lanes_store_n(y + i, lanes_tanh(lanes_load_n(x + i, n - i)), n - i);
}

static void verf(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) lanes_store_n(y + i, lanes_erf(lanes_load_n(x + i, n - i)), n - i);
}

static void vsigmoid(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) lanes_store_n(y + i, lanes_sigmoid(lanes_load_n(x + i, n - i)), n - i);
}

static void gelu(float *y, const float *x, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    lanes v = lanes_load_n(x + i, n - i);
    lanes twice = lanes_add(lanes_set(1.0f), lanes_erf(lanes_mul(v, lanes_set(IJ_SQRT_HALF))));
    lanes_store_n(y + i, lanes_mul(lanes_mul(lanes_set(0.5f), v), twice), n - i);
  }
}

static void lanes_fill_elem(ij_kernels *k) {
  k->widen[IJ_DTYPE_BF16] = widen_bf16;
  k->widen[IJ_DTYPE_F16] = widen_f16;
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
  k->vexp = vexp;
  k->vlog = vlog;
  k->vtanh = vtanh;
  k->verf = verf;
  k->vsigmoid = vsigmoid;
  k->gelu = gelu;
}

#endif
