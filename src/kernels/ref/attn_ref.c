/* attn_ref.c: the steps of attention on one block of keys in scalar C: the definition. */
#include "kernels/kernels_int.h"
#include "kernels/ref/math_ref.h"

static void rel_bias(float *out, const float *r, const float *bank, int64_t ld, int d_rel) {
  for (int i = 0; i < IJ_ATTN_BLOCK; i++) {
    float acc = 0.0f;
    for (int j = 0; j < d_rel; j++) acc = fmaf(r[j], bank[j * ld + i], acc);
    out[i] = acc;
  }
}

static void attn_probs(float *s, const float *bias, float inv_d, float tau, int k0, int k1, float *max, float *sum) {
  float largest = -INFINITY;
  for (int i = k0; i < k1; i++) {
    float t = s[i] * inv_d;
    if (bias) t = t + bias[i];
    s[i] = t * tau;
    largest = s[i] > largest ? s[i] : largest;
  }
  *max = largest + 0.0f; /* -0 becomes +0, so that order cannot matter */
  for (int i = 0; i < IJ_ATTN_BLOCK; i++) s[i] = i >= k0 && i < k1 ? ij__ref_exp(s[i] - *max) : 0.0f;
  *sum = ij__ref_sum16(s, IJ_ATTN_BLOCK);
}

static void attn_pv(float *o, int64_t ldo, const float *p, int64_t ldp, const float *v, int64_t ldv, int n_q, int k0, int k1, int d) {
  for (int q = 0; q < n_q; q++) {
    for (int c = 0; c < d; c++) {
      float acc = 0.0f;
      for (int i = k0; i < k1; i++) acc = fmaf(p[q * ldp + i], v[i * ldv + c], acc);
      o[q * ldo + c] = acc;
    }
  }
}

void ij__attn_fill_ref(ij_kernels *k) {
  k->rel_bias = rel_bias;
  k->attn_probs = attn_probs;
  k->attn_pv = attn_pv;
}
