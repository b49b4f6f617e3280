/* lanes_attn.h: the entries of ref/attn_ref.c on sixteen lanes, for every vector level.
 *
 * Included after a lanes_<level>.h by one file per level. A block of scores is four registers of sixteen. attn_pv keeps a tile of
 * queries by columns in registers while it walks the keys; each output is its own chain over the keys, so tiling moves no rounding.
 */
#ifndef IJ_KERNELS_LANES_ATTN_H
#define IJ_KERNELS_LANES_ATTN_H

#include "kernels/kernels.h"
#include "kernels/lanes_math.h"

#define BLOCK_LANES (IJ_ATTN_BLOCK / 16)

/* Small constant loops over registers must be unrolled, or the arrays of registers would live in memory. */
#if defined(__clang__)
#define LANES_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LANES_UNROLL _Pragma("GCC unroll 8")
#endif
#define LANES_INLINE static inline __attribute__((always_inline))

static void rel_bias(float *out, const float *r, const float *bank, int64_t ld, int d_rel) {
  lanes a = lanes_zero(), b = lanes_zero(), c = lanes_zero(), d = lanes_zero();
  for (int j = 0; j < d_rel; j++) {
    const float *row = bank + j * ld;
    lanes factor = lanes_set(r[j]);
    a = lanes_fma(factor, lanes_load(row), a);
    b = lanes_fma(factor, lanes_load(row + 16), b);
    c = lanes_fma(factor, lanes_load(row + 32), c);
    d = lanes_fma(factor, lanes_load(row + 48), d);
  }
  lanes_store(out, a);
  lanes_store(out + 16, b);
  lanes_store(out + 32, c);
  lanes_store(out + 48, d);
}

static void attn_probs(float *s, const float *bias, float inv_d, float tau, int k0, int k1, float *max, float *sum) {
  lanes t[BLOCK_LANES], factor = lanes_set(inv_d), temperature = lanes_set(tau);
  lanes hidden = lanes_set(-INFINITY), largest = hidden, total = lanes_zero();
  lanes_mask visible[BLOCK_LANES];
  LANES_UNROLL
  for (int b = 0; b < BLOCK_LANES; b++) {
    lanes x = lanes_mul(lanes_load(s + 16 * b), factor);
    if (bias) x = lanes_add(x, lanes_load(bias + 16 * b));
    visible[b] = lanes_in_range(16 * b, k0, k1);
    t[b] = lanes_select(visible[b], lanes_mul(x, temperature), hidden);
    largest = lanes_max(largest, t[b]);
  }
  float m = lanes_fold_max(largest) + 0.0f; /* -0 becomes +0, so that order cannot matter */
  lanes shift = lanes_set(m);
  LANES_UNROLL
  for (int b = 0; b < BLOCK_LANES; b++) {
    t[b] = lanes_select(visible[b], lanes_exp(lanes_sub(t[b], shift)), lanes_zero());
    total = lanes_add(total, t[b]);
    lanes_store(s + 16 * b, t[b]);
  }
  *max = m;
  *sum = lanes_fold(total);
}

typedef struct pv_args {
  float *o;
  const float *p, *v;
  int64_t ldo, ldp, ldv;
  int k0, k1;
} pv_args;

/* n_q queries by 16 * n_col columns, both known at compile time. */
LANES_INLINE void pv_tile(const pv_args *m, const int n_q, const int n_col, int q0, int c0) {
  lanes acc[3][LANES_PV_WIDE];
  const float *v = m->v + m->k0 * m->ldv + c0, *p = m->p + q0 * m->ldp + m->k0;
  LANES_UNROLL
  for (int c = 0; c < n_col; c++) {
    LANES_UNROLL
    for (int q = 0; q < n_q; q++) acc[q][c] = lanes_zero();
  }
  for (int i = m->k0; i < m->k1; i++, v += m->ldv, p++) {
    lanes prob[3];
    LANES_UNROLL
    for (int q = 0; q < n_q; q++) prob[q] = lanes_set(p[q * m->ldp]);
    LANES_UNROLL
    for (int c = 0; c < n_col; c++) {
      lanes x = lanes_hold(lanes_load(v + 16 * c));
      LANES_UNROLL
      for (int q = 0; q < n_q; q++) acc[q][c] = lanes_fma(prob[q], x, acc[q][c]);
    }
  }
  LANES_UNROLL
  for (int q = 0; q < n_q; q++) {
    LANES_UNROLL
    for (int c = 0; c < n_col; c++) lanes_store(m->o + (q0 + q) * m->ldo + c0 + 16 * c, acc[q][c]);
  }
}

/* The columns left over when d is not a multiple of 16. */
static void pv_tail(const pv_args *m, int q, int c0, int n) {
  lanes acc = lanes_zero();
  for (int i = m->k0; i < m->k1; i++) {
    acc = lanes_fma(lanes_set(m->p[q * m->ldp + i]), lanes_load_n(m->v + i * m->ldv + c0, n), acc);
  }
  lanes_store_n(m->o + q * m->ldo + c0, acc, n);
}

/* All columns of n_q queries, n_q known at compile time. */
LANES_INLINE void pv_rows(const pv_args *m, const int n_q, int q0, int d) {
  int c = 0;
  for (; c + 16 * LANES_PV_WIDE <= d; c += 16 * LANES_PV_WIDE) pv_tile(m, n_q, LANES_PV_WIDE, q0, c);
#if LANES_PV_HALF > 1
  for (; c + 16 * LANES_PV_HALF <= d; c += 16 * LANES_PV_HALF) pv_tile(m, n_q, LANES_PV_HALF, q0, c);
#endif
  for (; c + 16 <= d; c += 16) pv_tile(m, n_q, 1, q0, c);
  for (int q = 0; q < n_q && c < d; q++) pv_tail(m, q0 + q, c, d - c);
}

static void attn_pv(float *o, int64_t ldo, const float *p, int64_t ldp, const float *v, int64_t ldv, int n_q, int k0, int k1, int d) {
  pv_args m = {.o = o, .p = p, .v = v, .ldo = ldo, .ldp = ldp, .ldv = ldv, .k0 = k0, .k1 = k1};
  int q = 0;
  for (; n_q - q == 3 || n_q - q > 4; q += 3) pv_rows(&m, 3, q, d); /* four are better as two and two than as three and one */
  for (; n_q - q >= 2; q += 2) pv_rows(&m, 2, q, d);
  if (q < n_q) pv_rows(&m, 1, q, d);
}

static void lanes_fill_attn(ij_kernels *k) {
  k->rel_bias = rel_bias;
  k->attn_probs = attn_probs;
  k->attn_pv = attn_pv;
}

#endif
