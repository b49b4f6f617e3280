/* encode_fit.c: one group under one scale, and the search for a scale.
 *
 * A ladder of scales is tried, each followed by the scale that fits the codes so found best (least squares). The ladder holds the scales
 * under which the largest magnitude is one of the upper levels, so that a group that came out of a decoder is found again exactly.
 */
#include <float.h>

#include "core/alloc.h"
#include "quant/encode_int.h"
#include "quant/fmt_fp4.h"

/* ------------------------------------------------------------------------------------------------------------ codebooks */

static int entry_level(const ij_enc_grid *g, int entry, int i) {
  uint64_t word = g->wide ? g->wide[entry] : g->narrow[entry];
  return g->level[0] < 0 ? (int)(int8_t)(word >> (8 * i) & 0xff) : (int)(word >> (8 * i) & 0xff);
}

/* The ENC_NEAR entries nearest to a corner, by insertion into a short sorted list. */
static void find_near(const ij_enc_grid *g, const float *point, uint16_t *near) {
  float best[ENC_NEAR];
  int n = 0;
  for (int entry = 0; entry < g->n_entry; entry++) {
    float d = 0;
    const float *value = g->values + entry * g->dims;
    for (int i = 0; i < g->dims; i++) d += (value[i] - point[i]) * (value[i] - point[i]);
    int at = n;
    while (at > 0 && d < best[at - 1]) at--;
    if (at == ENC_NEAR) continue;
    if (n < ENC_NEAR) n++;
    for (int k = n - 1; k > at; k--) best[k] = best[k - 1], near[k] = near[k - 1];
    best[at] = d;
    near[at] = (uint16_t)entry;
  }
}

void ij__enc_grid_close(ij_enc_grid *g) {
  ij__free(g->values);
  ij__free(g->near);
  g->values = NULL;
  g->near = NULL;
}

ij_status ij__enc_grid_open(ij_enc_grid *g, ij_err *err) {
  int n_corner = 1;
  for (int i = 0; i < g->dims; i++) n_corner *= g->n_level;
  g->values = ij__alloc_array((size_t)(g->n_entry * g->dims), sizeof *g->values);
  g->near = ij__alloc_array((size_t)n_corner * ENC_NEAR, sizeof *g->near);
  if (!g->values || !g->near) {
    ij__enc_grid_close(g);
    return ij__fail_nomem(err, "the table of an encoder", (size_t)n_corner * ENC_NEAR * sizeof *g->near);
  }
  for (int i = 0; i < g->n_entry * g->dims; i++) g->values[i] = (float)entry_level(g, i / g->dims, i % g->dims);
  for (int k = 0; k + 1 < g->n_level; k++) g->middle[k] = (g->level[k] + g->level[k + 1]) / 2;
  for (int corner = 0; corner < n_corner; corner++) {
    float point[8];
    int rest = corner;
    for (int i = 0; i < g->dims; i++, rest /= g->n_level) point[i] = g->level[rest % g->n_level];
    find_near(g, point, g->near + corner * ENC_NEAR);
  }
  return IJ_OK;
}

/* The best entry among those near the corner of t (values over scale), and its levels. dims: a constant where this is called. */
static inline int nearest_entry(const ij_enc_grid *g, const float *t, const float *w, float *level, int dims) {
  int corner = 0, best = 0;
  for (int i = dims; i-- > 0;) {
    int k = 0;
    for (int j = 0; j + 1 < g->n_level; j++) k += t[i] > g->middle[j];
    corner = corner * g->n_level + k;
  }
  const uint16_t *near = g->near + corner * ENC_NEAR;
  float least = FLT_MAX;
  for (int k = 0; k < ENC_NEAR; k++) {
    const float *value = g->values + near[k] * dims;
    float part[8], error = 0;
    for (int i = 0; i < dims; i++) part[i] = w[i] * (t[i] - value[i]) * (t[i] - value[i]);
    for (int i = 0; i < dims; i++) error += part[i];
    if (error < least || k == 0) least = error, best = near[k];
  }
  memcpy(level, g->values + best * dims, (size_t)dims * sizeof *level);
  return best;
}

/* Eight values from `at` on: magnitudes by codebook, signs apart. An odd number of minuses, where it cannot be written, is made even at
 * the value where that costs least. */
static void code_signed(const ij_encoder *e, const float *x, const float *w, float inverse, ij_enc_group *out, int at) {
  float t[8];
  int signs = 0, weakest = 0;
  for (int i = 0; i < 8; i++) {
    t[i] = fabsf(x[at + i]) * inverse;
    if (x[at + i] < 0) signs |= 1 << i;
    if (w[at + i] * t[i] * t[i] < w[at + weakest] * t[weakest] * t[weakest]) weakest = i;
  }
  int n_minus = 0;
  for (int i = 0; i < 8; i++) n_minus += signs >> i & 1;
  if (e->even_signs && n_minus % 2) {
    signs ^= 1 << weakest;
    t[weakest] = -t[weakest];
  }
  if (e->grid.dims == 8) {
    out->code[at / 8] = (uint16_t)nearest_entry(&e->grid, t, w + at, out->level + at, 8);
  } else {
    for (int i = 0; i < 8; i += 4) out->code[(at + i) / 4] = (uint16_t)nearest_entry(&e->grid, t + i, w + at + i, out->level + at + i, 4);
  }
  out->signs[at / 8] = (uint8_t)signs;
  for (int i = 0; i < 8; i++) {
    if (signs >> i & 1) out->level[at + i] = -out->level[at + i];
  }
}

/* shift_len values from `at` on, under the better of the two shifts. */
static void code_shifted(const ij_encoder *e, const float *x, const float *w, float inverse, ij_enc_group *out, int at) {
  float least = 0;
  for (int shift = 0; shift < 2; shift++) {
    float t[32], level[32];
    uint16_t code[4];
    float error = 0;
    const float delta = shift ? -0.125f : 0.125f;
    for (int i = 0; i < e->shift_len; i++) t[i] = x[at + i] * inverse - delta;
    for (int i = 0; i < e->shift_len; i += 8) code[i / 8] = (uint16_t)nearest_entry(&e->grid, t + i, w + at + i, level + i, 8);
    for (int i = 0; i < e->shift_len; i++) error += w[at + i] * (t[i] - level[i]) * (t[i] - level[i]);
    if (shift == 1 && error >= least) return;
    least = error;
    for (int i = 0; i < e->shift_len; i++) out->level[at + i] = level[i] + delta;
    memcpy(out->code + at / 8, code, (size_t)(e->shift_len / 8) * sizeof code[0]);
    out->shift[at / e->shift_len] = (uint8_t)shift;
  }
}

/* ---------------------------------------------------------------------------------------------------------------- codes */

float ij__enc_e4m3(float x, uint8_t *code) {
  uint32_t bits, c;
  float a = fabsf(x);
  memcpy(&bits, &a, sizeof bits);
  if (a >= 448) {
    c = 0x7e;
  } else if (a < 0x1p-6f) {
    c = (uint32_t)ij__enc_rint(a * 512, 0, 8); /* 8: the least normal number, whose code follows */
  } else {
    c = ((bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20) - (120u << 3);
  }
  *code = (uint8_t)(c | (signbit(x) ? 0x80u : 0));
  return ij__e4m3[*code];
}

static void code_uniform(const ij_encoder *e, const float *x, float inverse, ij_enc_group *out, int at) {
  const float lo = (float)e->lo, hi = (float)e->hi;
  for (int i = at; i < at + 8; i++) out->level[i] = ij__enc_rint(x[i] * inverse, lo, hi);
  for (int i = at; i < at + 8; i++) out->code[i] = (uint16_t)((int)out->level[i] - e->lo);
}

static void code_by_table(const ij_encoder *e, const float *x, float inverse, ij_enc_group *out, int at) {
  for (int i = at; i < at + 8; i++) {
    const float v = x[i] * inverse;
    int k = 0;
    for (int j = 0; j + 1 < e->n_table; j++) k += v > e->middle[j];
    out->level[i] = e->table[k];
    out->code[i] = e->codes[k];
  }
}

static void code_e4m3(const float *x, float inverse, ij_enc_group *out, int at) {
  for (int i = at; i < at + 8; i++) {
    uint8_t code;
    out->level[i] = ij__enc_e4m3(x[i] * inverse, &code);
    out->code[i] = code;
  }
}

float ij__enc_code(const ij_encoder *e, const float *x, const float *w, int n, float scale, float limit, ij_enc_group *out) {
  const float inverse = ij__enc_inverse(scale);
  const int step = e->kind == ENC_GRID1 ? e->shift_len : 8;
  float error = 0;
  for (int at = 0; at < n && error < limit; at += step) {
    switch (e->kind) {
      case ENC_UNIFORM: code_uniform(e, x, inverse, out, at); break;
      case ENC_TABLE: code_by_table(e, x, inverse, out, at); break;
      case ENC_E4M3: code_e4m3(x, inverse, out, at); break;
      case ENC_GRID: code_signed(e, x, w, inverse, out, at); break;
      case ENC_GRID1: code_shifted(e, x, w, inverse, out, at); break;
    }
    for (int from = at; from < at + step; from += 8) {
      float part[8];
      for (int i = 0; i < 8; i++) {
        const float d = x[from + i] - scale * out->level[from + i];
        part[i] = w[from + i] * d * d;
      }
      error += ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
  }
  return error;
}

float ij__enc_top(const ij_encoder *e) {
  switch (e->kind) {
    case ENC_UNIFORM: return (float)IJ_MAX(-e->lo, e->hi);
    case ENC_TABLE: return IJ_MAX(-e->table[0], e->table[e->n_table - 1]);
    case ENC_E4M3: return 448;
    case ENC_GRID: return e->grid.level[e->grid.n_level - 1];
    case ENC_GRID1: return 1.125f;
  }
  return 1;
}

/* --------------------------------------------------------------------------------------------------------------- search */

/* What the largest magnitude is tried as, in levels; negative ones give negative scales. Returns how many. */
static int ladder(const ij_encoder *e, float out[160]) {
  const float top = ij__enc_top(e);
  int n = 0;
  if (e->mode == IJ_ENCODE_PLAIN) {
    out[n++] = e->kind == ENC_UNIFORM && -e->lo > e->hi ? (float)e->lo : e->kind == ENC_TABLE ? e->table[0] : top;
    return n;
  }
  if (e->kind == ENC_UNIFORM && top <= 32) {
    for (int k = e->hi; k >= IJ_MAX(e->hi / 2, 1); k--) out[n++] = (float)k;
    for (int k = e->lo; k <= e->lo / 2 && k < 0; k++) out[n++] = (float)k;
    for (int k = 1; k <= 6; k++) out[n++] = -((float)e->lo - 0.25f * (float)k), out[n++] = (float)e->lo - 0.25f * (float)k;
    if (top == 1) {
      for (int k = 1; k <= 8; k++) out[n++] = 1 + 0.2f * (float)k;
    }
  } else if (e->kind == ENC_UNIFORM) {
    for (int k = e->hi; k > e->hi / 2; k--) out[n++] = (float)k;
  } else if (e->kind == ENC_TABLE) {
    for (int k = 0; k < e->n_table; k++) {
      if (fabsf(e->table[k]) >= top * 0.6f) out[n++] = e->table[k], out[n++] = -e->table[k];
    }
    for (int k = 1; k <= 5; k++) out[n++] = top * (1 + 0.04f * (float)k), out[n++] = -top * (1 + 0.04f * (float)k);
  } else if (e->kind == ENC_GRID) {
    for (int k = 0; k < e->grid.n_level; k++) out[n++] = e->grid.level[k];
    for (int k = -3; k <= 9; k++) out[n++] = top * (1.02f + 0.09f * (float)k);
  } else {
    for (int k = -3; k <= 10; k++) out[n++] = top * (1 + 0.12f * (float)k);
    out[n++] = 0.875f;
  }
  return n;
}

static float best_scale_for(const float *x, const float *w, int n, const ij_enc_group *g, double *curvature) {
  float xl[8] = {0}, ll[8] = {0};
  for (int at = 0; at < n; at += 8) {
    for (int i = 0; i < 8; i++) xl[i] += w[at + i] * x[at + i] * g->level[at + i];
    for (int i = 0; i < 8; i++) ll[i] += w[at + i] * g->level[at + i] * g->level[at + i];
  }
  for (int i = 1; i < 8; i++) xl[0] += xl[i], ll[0] += ll[i];
  *curvature = ll[0];
  return ll[0] > 0 ? xl[0] / ll[0] : 0;
}

float ij__enc_fit(const ij_encoder *e, const float *x, const float *w, int n, double *curvature) {
  float peak = 0, tries[160], best = 0;
  ij_enc_group group;
  *curvature = 0;
  for (int i = 0; i < n; i++) {
    if (fabsf(x[i]) > fabsf(peak)) peak = x[i];
  }
  if (peak == 0) return 0;
  const bool sign_in_scale = e->kind == ENC_UNIFORM || e->kind == ENC_TABLE; /* -8 may be a positive value under a negative scale */
  const int n_try = ladder(e, tries);
  float least = FLT_MAX;
  for (int k = 0; k < n_try && least > 0; k++) {
    float scale = (sign_in_scale ? peak : fabsf(peak)) / tries[k];
    for (int round = 0; round < 2; round++) {
      double c;
      const float error = ij__enc_code(e, x, w, n, scale, FLT_MAX, &group);
      float refined = best_scale_for(x, w, n, &group, &c);
      if (error < least) least = error, best = scale, *curvature = c;
      if (e->mode == IJ_ENCODE_PLAIN || refined == scale || refined == 0 || error == 0) break;
      scale = refined;
    }
  }
  return best;
}
