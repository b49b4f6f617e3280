/* encode_min.c: types with a minimum: value = scale * code + min. */
#include <float.h>

#include "quant/encode_int.h"

float ij__enc_min_error(const float *x, const float *w, int n, int last, float scale, float min, float limit) {
  const float inverse = ij__enc_inverse(scale), top = (float)last;
  float error = 0;
  for (int at = 0; at < n && error < limit; at += 8) {
    float part[8];
    for (int i = 0; i < 8; i++) {
      const float d = x[at + i] - (scale * ij__enc_rint((x[at + i] - min) * inverse, 0, top) + min);
      part[i] = w[at + i] * d * d;
    }
    error += ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  }
  return error;
}

typedef struct min_search {
  const float *x, *w;
  int n, last;
  ij_dtype type;
  float max_min;
  ij_enc_min best;
} min_search;

static void try_pair(min_search *s, float scale, float min) {
  scale = ij__enc_round(scale, s->type);
  min = ij__enc_round(IJ_MIN(min, s->max_min), s->type);
  if (!isfinite(scale) || !isfinite(min)) return;
  float error = ij__enc_min_error(s->x, s->w, s->n, s->last, scale, min, s->best.error);
  if (error < s->best.error) s->best = (ij_enc_min){.scale = scale, .min = min, .error = error};
}

/* Least squares over the codes that (scale, min) give; min is held at max_min where it would exceed it. */
static void refine(min_search *s, float scale, float min) {
  const float inverse = ij__enc_inverse(scale), top = (float)s->last;
  float sums[5][8] = {{0}};
  for (int at = 0; at < s->n; at += 8) {
    for (int i = 0; i < 8; i++) {
      const float x = s->x[at + i], w = s->w[at + i], q = ij__enc_rint((x - min) * inverse, 0, top);
      sums[0][i] += w, sums[1][i] += w * q, sums[2][i] += w * q * q, sums[3][i] += w * x, sums[4][i] += w * q * x;
    }
  }
  double sw = 0, sq = 0, sqq = 0, sx = 0, sxq = 0;
  for (int i = 0; i < 8; i++) sw += sums[0][i], sq += sums[1][i], sqq += sums[2][i], sx += sums[3][i], sxq += sums[4][i];
  double det = sw * sqq - sq * sq;
  if (!(det > 0)) return;
  double a = (sw * sxq - sq * sx) / det, b = (sx - a * sq) / sw;
  if (b > s->max_min) b = s->max_min, a = sqq > 0 ? (sxq - b * sq) / sqq : 0;
  try_pair(s, (float)a, (float)b);
}

/* Whether all values are low plus a multiple of (high - low) / span, as values are that came out of a decoder. */
static bool on_lattice(const float *x, int n, float low, float high, int span) {
  const float inverse = (float)span / (high - low);
  if (!isfinite(inverse)) return false;
  for (int i = 0; i < n; i++) {
    const float q = (x[i] - low) * inverse;
    if (fabsf(q - ij__enc_rint(q, 0, (float)span)) > 0.02f) return false;
  }
  return true;
}

static bool try_lattices(min_search *s, float low, float high) {
  for (int span = s->last; span > s->last / 2; span--) {
    if (!on_lattice(s->x, s->n, low, high, span)) continue;
    const float scale = (high - low) / (float)span;
    for (int first = 0; first <= s->last - span && s->best.error > 0; first++) try_pair(s, scale, low - scale * (float)first);
    if (s->best.error == 0) return true;
  }
  return false;
}

ij_enc_min ij__enc_fit_min(const float *x, const float *w, int n, int last, ij_dtype type, float max_min, bool search) {
  min_search s = {.x = x, .w = w, .n = n, .last = last, .type = type, .max_min = max_min, .best = {.error = FLT_MAX}};
  float low = x[0], high = x[0];
  for (int i = 1; i < n; i++) low = IJ_MIN(low, x[i]), high = IJ_MAX(high, x[i]);
  if (low > max_min) low = max_min;
  try_pair(&s, (high - low) / (float)last, low);
  if (!search || s.best.error == 0) return s.best;
  if (try_lattices(&s, low, high)) return s.best;
  for (int k = -2; k <= 4 && s.best.error > 0; k++) { /* narrower than the range: the extremes are clipped */
    float scale = (high - low) / ((float)last + 0.3f * (float)k), middle = (high + low) / 2;
    float min = middle - scale * (float)last / 2;
    try_pair(&s, scale, min);
    refine(&s, scale, min);
    refine(&s, scale, low);
  }
  for (int round = 0; round < 3 && s.best.error > 0; round++) {
    float before = s.best.error;
    refine(&s, s.best.scale, s.best.min);
    if (s.best.error == before) break;
  }
  return s.best;
}

/* --------------------------------------------------------------------------------------------------------- Q4_1 and Q5_1 */

static void put_u16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}

void ij__enc_block_min(const ij_encoder *e, uint8_t *out, const float *x, const float *w) {
  const bool five = e->type == IJ_DTYPE_Q5_1;
  const int last = five ? 31 : 15;
  ij_enc_min m = ij__enc_fit_min(x, w, 32, last, IJ_DTYPE_F16, FLT_MAX, e->mode == IJ_ENCODE_SEARCH);
  uint8_t *nibbles = out + (five ? 8 : 4);
  uint32_t high = 0;
  put_u16(out, ij__enc_to_f16(m.scale));
  put_u16(out + 2, ij__enc_to_f16(m.min));
  const float inverse = ij__enc_inverse(m.scale);
  for (int i = 0; i < 16; i++) {
    int a = ij__enc_min_code(x[i], last, inverse, m.min), b = ij__enc_min_code(x[i + 16], last, inverse, m.min);
    nibbles[i] = (uint8_t)((a & 15) | (b & 15) << 4);
    high |= (uint32_t)(a >> 4) << i | (uint32_t)(b >> 4) << (i + 16);
  }
  if (five) put_u16(out + 4, (uint16_t)high), put_u16(out + 6, (uint16_t)(high >> 16));
}

/* ---------------------------------------------------------------------------------------------------- Q2_K, Q4_K and Q5_K */

/* A block of n_group groups: value = (d * scale) * code - (dmin * offset). */
typedef struct min_k {
  int n_group, len, last, last_scale; /* codes 0 .. last, scales and offsets 0 .. last_scale */
  float d, dmin;                      /* as stored */
  uint8_t scale[16], offset[16];
  float error;
} min_k;

/* For real positive numbers r and weights a: the F16 d for which the nearest multiples d * c, c in 0 .. last, miss r least. */
static float fit_multiples(const float *r, const double *a, int n, int last, bool search) {
  float largest = 0, best = 0;
  double least = DBL_MAX;
  for (int g = 0; g < n; g++) largest = IJ_MAX(largest, r[g]);
  if (!(largest > 0)) return 0;
  for (int k = last; k > (search ? last / 2 : last - 1); k--) {
    float d = ij__enc_round(largest / (float)k, IJ_DTYPE_F16);
    for (int round = 0; round < (search ? 2 : 1) && d > 0; round++) {
      double miss = 0, rc = 0, cc = 0;
      for (int g = 0; g < n; g++) {
        float c = IJ_MIN(rintf(r[g] / d), (float)last);
        miss += a[g] * ((double)r[g] - (double)(d * c)) * ((double)r[g] - (double)(d * c));
        rc += a[g] * r[g] * c;
        cc += a[g] * c * c;
      }
      if (miss < least) least = miss, best = d;
      if (!(cc > 0)) break;
      d = ij__enc_round((float)(rc / cc), IJ_DTYPE_F16);
    }
  }
  return best;
}

/* Scale and offset of every group, the best near the real ones, under b->d and b->dmin. */
static void choose_pairs(min_k *b, const float *x, const float *w, const ij_enc_min *real, bool search) {
  b->error = 0;
  for (int g = 0; g < b->n_group; g++) {
    float least = FLT_MAX;
    const float s = b->d > 0 ? rintf(real[g].scale / b->d) : 0, o = b->dmin > 0 ? rintf(-real[g].min / b->dmin) : 0;
    const int cs = (int)IJ_MIN(s, (float)b->last_scale), co = (int)IJ_MIN(o, (float)b->last_scale), reach = search ? 1 : 0;
    for (int i = IJ_MAX(cs - reach, 0); i <= IJ_MIN(cs + reach, b->last_scale); i++) {
      for (int k = IJ_MAX(co - reach, 0); k <= IJ_MIN(co + reach, b->last_scale); k++) {
        float error = ij__enc_min_error(x + g * b->len, w + g * b->len, b->len, b->last, b->d * (float)i, -(b->dmin * (float)k), least);
        if (error < least) least = error, b->scale[g] = (uint8_t)i, b->offset[g] = (uint8_t)k;
      }
    }
    b->error += least;
  }
}

static int code_of(const min_k *b, float x, int g) {
  return ij__enc_min_code(x, b->last, ij__enc_inverse(b->d * (float)b->scale[g]), -(b->dmin * (float)b->offset[g]));
}

/* Least squares for d and dmin over the codes of a finished block. */
static void refit(min_k *b, const float *x, const float *w) {
  double pp = 0, pm = 0, mm = 0, xp = 0, xm = 0;
  for (int i = 0; i < 256; i++) {
    const int g = i / b->len;
    double p = b->scale[g] * (double)code_of(b, x[i], g);
    double m = -(double)b->offset[g];
    pp += w[i] * p * p, pm += w[i] * p * m, mm += w[i] * m * m, xp += w[i] * p * x[i], xm += w[i] * m * x[i];
  }
  double det = pp * mm - pm * pm;
  if (det > 1e-9 * pp * mm) {
    b->d = ij__enc_round((float)((xp * mm - xm * pm) / det), IJ_DTYPE_F16);
    b->dmin = ij__enc_round((float)((xm * pp - xp * pm) / det), IJ_DTYPE_F16);
  } else if (pp > 0) {
    b->d = ij__enc_round((float)(xp / pp), IJ_DTYPE_F16);
  }
}

/* What one group of decoded values allows: scale, and offsets low .. low + n_first * scale in steps of scale. */
typedef struct lattice {
  float scale, offset;
  int n_first;
} lattice;

static bool find_lattice(lattice *out, const float *x, int n, int last) {
  float low = x[0], high = x[0];
  for (int i = 1; i < n; i++) low = IJ_MIN(low, x[i]), high = IJ_MAX(high, x[i]);
  *out = (lattice){.offset = -low};
  if (low == high) return true; /* one value: code 0 of any scale */
  for (int span = 1; span <= last; span++) {
    if (!on_lattice(x, n, low, high, span)) continue;
    *out = (lattice){.scale = (high - low) / (float)span, .offset = -low, .n_first = last - span};
    return true;
  }
  return false;
}

static bool is_multiple(float v, float unit, int last, uint8_t *c) {
  const float ratio = v / unit, near = ij__enc_rint(ratio, 0, (float)last);
  *c = (uint8_t)near;
  return fabsf(ratio - near) <= 1e-3f * IJ_MAX(near, 1.0f) / 4;
}

/* Scales of all groups as multiples of one F16. */
static bool common_scale(min_k *b, const lattice *l) {
  float largest = 0;
  for (int g = 0; g < b->n_group; g++) largest = IJ_MAX(largest, l[g].scale);
  for (int k = b->last_scale; k >= 1; k--) {
    bool all = true;
    b->d = ij__enc_round(largest / (float)k, IJ_DTYPE_F16);
    for (int g = 0; g < b->n_group && all; g++) all = b->d > 0 && is_multiple(l[g].scale, b->d, b->last_scale, &b->scale[g]);
    if (all) return true;
  }
  return false;
}

static bool all_offsets(min_k *b, const lattice *l) {
  for (int g = 0; g < b->n_group; g++) {
    bool found = false;
    for (int first = 0; first <= l[g].n_first && !found; first++) {
      const float offset = l[g].offset + (float)first * l[g].scale;
      found = offset == 0 || (offset > 0 && b->dmin > 0 && is_multiple(offset, b->dmin, b->last_scale, &b->offset[g]));
      if (offset == 0) b->offset[g] = 0;
    }
    if (!found) return false;
  }
  return true;
}

/* A block that came out of a decoder is found again: groups whose lowest code is not 0 leave a choice of offsets, which the group with
 * the fewest settles. False when the values are no such block; then b says nothing. */
static bool decoded_block(min_k *b, const float *x, const float *w) {
  lattice l[16];
  int r = -1;
  for (int g = 0; g < b->n_group; g++) {
    if (!find_lattice(&l[g], x + g * b->len, b->len, b->last)) return false;
    if (l[g].offset != 0 && (r < 0 || l[g].n_first < l[r].n_first)) r = g;
  }
  if (!common_scale(b, l)) return false;
  for (int first = 0; r >= 0 && first <= l[r].n_first; first++) {
    const float offset = l[r].offset + (float)first * l[r].scale;
    for (int k = b->last_scale; k >= 1; k--) {
      b->dmin = ij__enc_round(offset / (float)k, IJ_DTYPE_F16);
      if (!all_offsets(b, l)) continue;
      b->error = 0;
      for (int g = 0; g < b->n_group; g++) {
        b->error += ij__enc_min_error(x + g * b->len, w + g * b->len, b->len, b->last, b->d * (float)b->scale[g],
                                      -(b->dmin * (float)b->offset[g]), FLT_MAX);
      }
      if (b->error == 0) return true;
    }
  }
  return false;
}

static void search_block(min_k *best, const float *x, const float *w, bool search) {
  ij_enc_min real[16];
  float scales[16], offsets[16];
  double a[16], n[16];
  min_k found = *best;
  if (search && decoded_block(&found, x, w)) {
    *best = found;
    return;
  }
  for (int pass = 0; pass < (search ? 2 : 1); pass++) { /* the plain way first: what follows can only be better */
    min_k b = *best;
    for (int g = 0; g < b.n_group; g++) {
      real[g] = ij__enc_fit_min(x + g * b.len, w + g * b.len, b.len, b.last, IJ_DTYPE_F32, 0, pass == 1);
      scales[g] = IJ_MAX(real[g].scale, 0);
      offsets[g] = -real[g].min;
      a[g] = n[g] = 0;
      for (int i = g * b.len; i < (g + 1) * b.len; i++) {
        double q = ij__enc_min_code(x[i], b.last, ij__enc_inverse(real[g].scale), real[g].min);
        a[g] += w[i] * q * q;
        n[g] += w[i];
      }
    }
    b.d = fit_multiples(scales, a, b.n_group, b.last_scale, pass == 1);
    b.dmin = fit_multiples(offsets, n, b.n_group, b.last_scale, pass == 1);
    for (int round = 0; round < (pass == 1 ? 3 : 1); round++) {
      choose_pairs(&b, x, w, real, search);
      if (b.error >= best->error) break;
      *best = b;
      refit(&b, x, w);
      if (!(b.d > 0) || !(b.dmin >= 0)) break;
    }
  }
}

static void pack_pairs(uint8_t out[12], const min_k *b) {
  for (int g = 0; g < 4; g++) {
    out[g] = (uint8_t)(b->scale[g] | b->scale[g + 4] >> 4 << 6);
    out[g + 4] = (uint8_t)(b->offset[g] | b->offset[g + 4] >> 4 << 6);
    out[g + 8] = (uint8_t)((b->scale[g + 4] & 15) | (b->offset[g + 4] & 15) << 4);
  }
}

void ij__enc_block_min_k(const ij_encoder *e, uint8_t *out, const float *x, const float *w) {
  const bool two = e->type == IJ_DTYPE_Q2_K, five = e->type == IJ_DTYPE_Q5_K;
  min_k b = {.n_group = two ? 16 : 8, .len = two ? 16 : 32, .last = two ? 3 : five ? 31 : 15, .last_scale = two ? 15 : 63};
  b.error = FLT_MAX;
  search_block(&b, x, w, e->mode == IJ_ENCODE_SEARCH);
  memset(out, 0, (size_t)ij__dtype_block_bytes(e->type));
  put_u16(out + (two ? 80 : 0), ij__enc_to_f16(b.d));
  put_u16(out + (two ? 82 : 2), ij__enc_to_f16(b.dmin));
  if (!two) pack_pairs(out + 4, &b);
  for (int g = 0; g < 16 && two; g++) out[g] = (uint8_t)(b.scale[g] | b.offset[g] << 4);
  for (int i = 0; i < 256; i++) {
    const int g = i / b.len, q = code_of(&b, x[i], g);
    if (two) {
      out[16 + i / 128 * 32 + i % 32] |= (uint8_t)(q << (i % 128 / 32 * 2));
    } else {
      out[(five ? 48 : 16) + i / 64 * 32 + i % 32] |= (uint8_t)((q & 15) << (i / 32 % 2 * 4));
      if (five) out[16 + i % 32] |= (uint8_t)(q >> 4 << (i / 32));
    }
  }
}
