/* ints_ref.c: products in integers in scalar C: the definition. */
#include <math.h>

#include "kernels/ints.h"
#include "quant/fmt_affine.h"
#include "quant/fmt_k.h"

/* x = 2^16 d[2] + 2^8 d[1] + d[0] */
static void digits_of(int8_t *d0, int8_t *d1, int8_t *d2, int x) {
  const int low = ((x + 128) & 255) - 128, rest = (x - low) / 256, middle = ((rest + 128) & 255) - 128;
  *d0 = (int8_t)low;
  *d1 = (int8_t)middle;
  *d2 = (int8_t)((rest - middle) / 256);
}

static float scale_for(float largest) {
  float scale = IJ_INTS_LEAST;
  while (largest >= 127.0f * 65536.0f * scale) scale *= 2.0f;
  return scale;
}

static void block_to_ints(ij_ints *b, const float *x, int64_t n) {
  float largest = 0.0f;
  bool finite = true;
  int sum[IJ_INTS / 16] = {0};
  memset(b, 0, sizeof *b);
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) finite = false;
    largest = fmaxf(largest, fabsf(x[i]));
  }
  b->scale = finite ? scale_for(largest) : NAN;
  for (int h = 0; h < IJ_INTS / 16; h++) {
    for (int64_t i = 16 * h; finite && i < IJ_MIN(16 * (h + 1), n); i++) {
      const int v = (int)rintf(x[i] / b->scale);
      digits_of(&b->digit[0][i], &b->digit[1][i], &b->digit[2][i], v);
      sum[h] += v;
    }
    b->half[h] = (float)sum[h] * b->scale;
  }
  for (int g = 0; g < IJ_INTS / 32; g++) b->sum[g] = (float)(sum[2 * g] + sum[2 * g + 1]) * b->scale;
}

static void to_ints(ij_ints *out, const float *x, int64_t k) {
  for (int64_t i = 0; i < k; i += IJ_INTS) block_to_ints(out++, x + i, IJ_MIN(k - i, (int64_t)IJ_INTS));
}

/* T of three sums. */
static float joined(const int sum[3]) { return fmaf(65536.0f, (float)sum[2], fmaf(256.0f, (float)sum[1], (float)sum[0])); }

/* Values b * 256 on of row t of x: the caller's, or made here. */
static const ij_ints *x_block(const ij_matmul *m, int64_t t, int64_t b, ij_ints *made) {
  if (m->ints) return m->ints + (m->rows ? m->rows[t] : t) * m->ld_ints + b;
  block_to_ints(made, ij__x_row(m, t) + b * IJ_INTS, IJ_MIN(m->k - b * IJ_INTS, (int64_t)IJ_INTS));
  return made;
}

/* One block of a row after `y`. */
static float k_block(const void *block, ij_dtype type, const ij_ints *x, float y) {
  int v[IJ_INTS], o[IJ_INTS / 16], sum[3] = {0};
  float d, dmin;
  if (type == IJ_DTYPE_Q2_K) {
    ij__fmt_q2_k_ints(v, o, &d, &dmin, block);
  } else {
    ij__fmt_q4_k_ints(v, o, &d, &dmin, block);
  }
  for (int j = 0; j < 3; j++) {
    for (int i = 0; i < IJ_INTS; i++) sum[j] += v[i] * x->digit[j][i];
  }
  y = fmaf(d * x->scale, joined(sum), y);
  if (type == IJ_DTYPE_Q2_K) {
    float n = 0.0f;
    for (int h = 0; h < IJ_INTS / 16; h++) n = fmaf((float)o[h], x->half[h], n);
    y = fmaf(-dmin, n, y);
  } else {
    for (int g = 0; g < IJ_INTS / 32; g++) y = fmaf(-(dmin * (float)o[g]), x->sum[g], y);
  }
  return y;
}

static void k_rows(const ij_matmul *m, int64_t r0, int64_t r1, ij_dtype type) {
  ij_ints made;
  for (int64_t r = r0; r < r1; r++) {
    for (int64_t t = 0; t < m->n; t++) {
      float y = 0.0f;
      for (int64_t b = 0; b < m->k / IJ_INTS; b++) {
        const ij_ints *x = x_block(m, t, b, &made);
        y = k_block((const char *)m->w + r * m->w_stride + b * ij__dtype_block_bytes(type), type, x, y);
      }
      m->y[t * m->ldy + r] = y;
    }
  }
}

void ij__matmul_q2_k_ref(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  (void)scratch;
  k_rows(m, r0, r1, IJ_DTYPE_Q2_K);
}

void ij__matmul_q4_k_ref(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  (void)scratch;
  k_rows(m, r0, r1, IJ_DTYPE_Q4_K);
}

/* The group at value c0 of a row after `y`; x: the block that it is in. */
static float affine4_group(const ij_matmul *m, int64_t r, int64_t c0, const ij_ints *x, float y) {
  const ij_stretch s = ij__stretch_of(m, r);
  const int64_t g = c0 / m->group, at = c0 % IJ_INTS;
  const float scale = ij__fmt_side(s.scales, m->side_dtype, g), bias = ij__fmt_side(s.biases, m->side_dtype, g);
  int sum[3] = {0};
  for (int j = 0; j < 3; j++) {
    for (int64_t i = 0; i < m->group; i++) sum[j] += ij__fmt_affine_code(s.row, 4, c0 + i) * x->digit[j][at + i];
  }
  float all = x->sum[at / 32];
  for (int64_t i = 32; i < m->group; i += 32) all += x->sum[(at + i) / 32];
  y = fmaf(scale * x->scale, joined(sum), y);
  return fmaf(bias, all, y);
}

void ij__matmul_affine4_ref(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  (void)scratch;
  ij_ints made;
  for (int64_t t = 0; t < m->n; t++) {
    for (int64_t r = r0; r < r1; r++) m->y[t * m->ldy + r] = 0.0f;
    for (int64_t b = 0; b * IJ_INTS < m->k; b++) {
      const ij_ints *x = x_block(m, t, b, &made);
      for (int64_t r = r0; r < r1; r++) {
        float *y = m->y + t * m->ldy + r;
        for (int64_t c0 = b * IJ_INTS; c0 < IJ_MIN((b + 1) * IJ_INTS, m->k); c0 += m->group) *y = affine4_group(m, r, c0, x, *y);
      }
    }
  }
}

void ij__ints_fill_ref(ij_kernels *k) {
  k->to_ints = to_ints;
  k->matmul[IJ_DTYPE_Q2_K] = ij__matmul_q2_k_ref;
  k->matmul[IJ_DTYPE_Q4_K] = ij__matmul_q4_k_ref;
  k->matmul[IJ_DTYPE_AFFINE4] = ij__matmul_affine4_ref;
}
