/* matmul_cases.h: awkward inputs for products and what they are held to, shared by test_matmul.c and test_ints.c. */
#ifndef IJ_TEST_MATMUL_CASES_H
#define IJ_TEST_MATMUL_CASES_H

#include "kernels/kernels_int.h"
#include "quant/fmt_affine.h"
#include "quant/fmt_k.h"
#include "test.h"

static uint64_t rng = 20260101;

static inline int64_t below(int64_t n) { return (int64_t)(test_random(&rng) % (uint64_t)n); }

static inline float uniform(void) { return (float)((double)(test_random(&rng) >> 40) * 0x1p-23 - 1.0); }

/* kind 0: ordinary values; 1: with zeros, denormals and large values; 2: with infinities and NaN too. */
static inline float awkward(int kind) {
  static const float odd[] = {0.0f, -0.0f, 1e-41f, -3e-45f, 1e30f, -1e30f, 1e-30f, 65504.0f, INFINITY, -INFINITY, NAN};
  if (kind == 0 || below(8) != 0) return uniform();
  return odd[below(kind == 1 ? 8 : 11)];
}

static inline uint16_t awkward_bf16(int kind) {
  float f = awkward(kind);
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return (uint16_t)(u >> 16);
}

/* Mostly within +-2; now and then any bits at all, denormals included. */
static inline uint16_t awkward_f16(int kind) {
  uint16_t h = (uint16_t)test_random(&rng);
  bool special = (h & 0x7c00) == 0x7c00;
  if (kind == 0 || below(8) != 0 || (kind == 1 && special)) return (uint16_t)((h & 0x83ff) | (0x2c00 + (below(5) << 10)));
  return below(4) == 0 ? (uint16_t)(h & 0x83ff) : h;
}

/* A buffer of exactly n bytes, so that the sanitizers see each byte too far; ij__alloc would round up. */
static inline uint8_t *exact(int64_t n) {
  uint8_t *p = malloc((size_t)IJ_MAX(n, (int64_t)1));
  if (!p) abort();
  memset(p, 0xa5, (size_t)n);
  return p;
}

/* Blocks of random bytes; below kind 2 only those whose values are finite and neither all tiny nor huge. */
static inline void fill_blocks(uint8_t *row, int64_t k, ij_dtype type, int kind) {
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  int64_t len = ij__dtype_block_len(type), bytes = ij__dtype_block_bytes(type);
  for (int64_t b = 0; b < k / len; b++, row += bytes) {
    float value[256], largest;
    ij_stretch s = {.row = row, .n = len};
    do {
      for (int64_t i = 0; i < bytes; i++) row[i] = (uint8_t)test_random(&rng);
      ref->decode[type](value, &s);
      largest = 0;
      for (int64_t i = 0; i < len; i++) largest = fabsf(value[i]) <= largest ? largest : fabsf(value[i]); /* NaN stays */
    } while (kind < 2 && !(largest < 256.0f && (largest > 0x1p-8f || below(64) == 0)));
  }
}

/* Sidecars: kind 0 and 1 finite, kind 2 anything. E8M0 mostly near 1. */
static inline void fill_side(uint8_t *p, int64_t n, ij_dtype type, int kind) {
  for (int64_t i = 0; i < n; i++) {
    float f = kind == 0 ? uniform() : awkward(kind == 1 && below(4) != 0 ? 0 : kind);
    uint16_t h = type == IJ_DTYPE_BF16 ? awkward_bf16(kind) : awkward_f16(kind);
    if (type == IJ_DTYPE_F32) memcpy(p + 4 * i, &f, 4);
    if (type == IJ_DTYPE_BF16 || type == IJ_DTYPE_F16) memcpy(p + 2 * i, &h, 2);
    if (type != IJ_DTYPE_U8) continue;
    p[i] = (uint8_t)test_random(&rng);
    if (kind < 2 || below(8) != 0) p[i] = (uint8_t)(112 + below(15)); /* as E4M3 32 to 384, as E8M0 2^-15 to 2^-1 */
  }
}

static inline int64_t side_bytes(ij_dtype type) { return type == IJ_DTYPE_F32 ? 4 : type == IJ_DTYPE_U8 ? 1 : 2; }

/* NaN has many spellings and the one that comes out of a sum of two is the processor's choice; everything else is exact. */
static inline bool same_bits(const float *a, const float *b, size_t n, size_t *where) {
  for (size_t i = 0; i < n; i++) {
    if (memcmp(a + i, b + i, sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i]))) continue;
    *where = i;
    return false;
  }
  return true;
}

/* ---- products in integers against double precision ---- */

/* A block of 256 values: number i is d * v[i] - dmin * o[i / per]. */
typedef struct int_block {
  int per, v[IJ_INTS], o[16];
  float d, dmin;
} int_block;

/* One block of Q2_K or Q4_K, held to what it decodes to. */
static inline void read_int_block(int_block *b, ij_dtype type, const void *from) {
  float value[IJ_INTS];
  ij_stretch s = {.row = from, .n = IJ_INTS};
  b->per = type == IJ_DTYPE_Q2_K ? 16 : 32;
  if (type == IJ_DTYPE_Q2_K) {
    ij__fmt_q2_k_ints(b->v, b->o, &b->d, &b->dmin, from);
  } else {
    ij__fmt_q4_k_ints(b->v, b->o, &b->d, &b->dmin, from);
  }
  ij__kernels_get(IJ_LEVEL_SCALAR)->decode[type](value, &s);
  for (int i = 0; i < IJ_INTS; i++) {
    const double w = (double)b->d * b->v[i] - (double)b->dmin * b->o[i / b->per];
    if ((float)w == value[i] || (isnan((float)w) && isnan(value[i]))) continue;
    TEST_FAIL("%s: value %d is %a as integers and %a decoded", ij__dtype_name(type), i, w, (double)value[i]);
    return;
  }
}

/* The least power of two, but at least 2^-122, by which the definition may divide a block of x. NaN: something is not finite. */
static inline double int_scale(const float *x, int64_t n) {
  double largest = 0, scale = 0x1p-122;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) return (double)NAN;
    largest = fmax(largest, fabs((double)x[i]));
  }
  while (largest >= 127 * 65536 * scale) scale *= 2;
  return scale;
}

/* A product by x, the same by x rounded to integers, and how far y may be from each of them. */
typedef struct int_sum {
  double exact, rounded;
  double half;     /* between those two: each value of x moves by at most scale / 2, which the sum sees times |w| */
  double rounding; /* of float32 in what follows x */
  double largest;  /* in between */
} int_sum;

/* Digit j of X, by the definition. */
static inline double int_digit(double x, int j) {
  const double low = x - 256 * floor((x + 128) / 256);
  return j == 0 ? low : int_digit((x - low) / 256, j - 1);
}

/* Rounding to float32 is by at most 2^-24 of what is rounded (or 2^-150): each A, 2^8 A[1] + A[0], T, the sums of x, and y after each of its
 * nine steps; of Q2_K each sum of offsets times sums of x, and y after two steps. All else is exact: d, dmin and o have so few bits, and scales
 * are powers of two. */
static inline void add_int_block(int_sum *s, const int_block *b, const float *x) {
  const double scale = int_scale(x, IJ_INTS);
  double a[3] = {0}, n[16] = {0}, all[16] = {0}, weight = 0;
  for (int i = 0; i < IJ_INTS; i++) {
    const double offset = (double)b->dmin * b->o[i / b->per], w = (double)b->d * b->v[i] - offset, xi = nearbyint((double)x[i] / scale);
    for (int j = 0; j < 3; j++) a[j] += b->v[i] * int_digit(xi, j) * (double)(1 << 8 * j);
    n[i / b->per] += offset * xi * scale;
    all[i / b->per] += xi * scale;
    weight += fabs(w);
    s->exact += w * (double)x[i];
  }
  const double d = (double)b->d * scale, p = d * (a[0] + a[1] + a[2]);
  double rounded = fabs(d) * (fabs(a[0]) + fabs(a[1]) + fabs(a[2]) + fabs(a[0] + a[1])) + fabs(p);
  s->rounded += p;
  rounded += fabs(s->rounded);
  s->largest = fmax(s->largest, fmax(fabs(p), fabs(s->rounded)));
  double part = 0, bare = 0; /* offsets that are taken from y together, with and without dmin */
  for (int g = 0; g < IJ_INTS / b->per; g++) {
    part += n[g];
    bare += b->o[g] * all[g];
    rounded += fabs(n[g]) + fabs(part);
    s->largest = fmax(s->largest, fmax(fmax(fabs(all[g]), fabs(bare)), fabs(part)));
    if (b->per == 16 && g < 15) continue;
    s->rounded -= part;
    rounded += fabs(s->rounded);
    s->largest = fmax(s->largest, fabs(s->rounded));
    part = bare = 0;
  }
  s->half += weight * scale / 2;
  s->rounding += 0x1.01p-24 * rounded + 0x1p-148;
}

/* One more number in the sum. */
static inline void add_to_sum(int_sum *s, double p) {
  s->rounded += p;
  s->rounding += 0x1.01p-24 * fabs(s->rounded);
  s->largest = fmax(s->largest, fmax(fabs(p), fabs(s->rounded)));
}

/* The group of affine codes of 4 bits that begins at value c0 of a row. Rounded are each A, 2^8 A[1] + A[0] and T, the scales' product, each sum of 32
 * values of x and the sum of those, and y twice. */
static inline void add_affine_group(int_sum *s, const ij_stretch *w, int64_t c0, const float *x, double scale) {
  const double d = (double)ij__fmt_side(w->scales, w->side_dtype, c0 / w->group), bias = (double)ij__fmt_side(w->biases, w->side_dtype, c0 / w->group);
  double a[3] = {0}, all = 0, part = 0, sums = 0, weight = 0;
  for (int64_t i = 0; i < w->group; i++) {
    const int code = ij__fmt_affine_code(w->row, 4, c0 + i);
    const double xi = nearbyint((double)x[i] / scale), value = d * code + bias;
    for (int j = 0; j < 3; j++) a[j] += code * int_digit(xi, j) * (double)(1 << 8 * j);
    part += xi * scale;
    weight += fabs(value);
    s->exact += value * (double)x[i];
    if (i % 32 != 31) continue;
    all += part;
    sums += fabs(part) + fabs(all);
    part = 0;
  }
  const double t = a[0] + a[1] + a[2];
  s->rounding += 0x1.01p-24 * fabs(d * scale) * (fabs(a[0]) + fabs(a[1]) + fabs(a[2]) + fabs(a[0] + a[1]) + 2 * fabs(t)) + 0x1p-149 * fabs(t);
  s->rounding += (0x1.01p-24 * sums + 0x1p-147) * fabs(bias) + 0x1p-148;
  s->half += weight * scale / 2;
  s->largest = fmax(s->largest, fmax(fabs(d * scale), sums));
  add_to_sum(s, d * scale * t);
  add_to_sum(s, bias * all);
}

static inline int_sum int_sum_of(const ij_matmul *m, ij_dtype type, int64_t t, int64_t r) {
  const ij_stretch w = ij__stretch_of(m, r);
  const float *x = m->x + (m->rows ? m->rows[t] : t) * m->ldx;
  int_sum s = {0};
  int_block b;
  const bool blocks = type == IJ_DTYPE_Q2_K || type == IJ_DTYPE_Q4_K;
  if (!blocks && type != IJ_DTYPE_AFFINE4) TEST_FAIL("%s is said to be in integers, but not here how", ij__dtype_name(type));
  for (int64_t i = 0; i < m->k; i += IJ_INTS, x += IJ_INTS) {
    const int64_t n = IJ_MIN(m->k - i, (int64_t)IJ_INTS);
    if (blocks) {
      read_int_block(&b, type, (const uint8_t *)w.row + i / IJ_INTS * ij__dtype_block_bytes(type));
      add_int_block(&s, &b, x);
    }
    for (int64_t at = 0; at < n && type == IJ_DTYPE_AFFINE4; at += m->group) add_affine_group(&s, &w, i + at, x + at, int_scale(x, n));
  }
  return s;
}

/* m->y, of a type in integers, against the definition in double precision. Where that is not finite, neither is the product. */
static inline bool check_int_sums(const ij_matmul *m, ij_dtype type, int64_t r0, int64_t r1) {
  for (int64_t t = 0; t < m->n; t++) {
    for (int64_t r = r0; r < r1; r++) {
      const int_sum s = int_sum_of(m, type, t, r);
      const double y = (double)m->y[t * m->ldy + r];
      if (!isfinite(s.exact) ? !isfinite(y) : fmax(s.largest, s.rounding) > 0x1p120) continue; /* or float32 may have come to its end */
      if (fabs(y - s.rounded) <= s.rounding && fabs(y - s.exact) <= s.half + s.rounding) continue;
      TEST_FAIL("%s n %lld k %lld: y[%lld][%lld] is %.9g, by integers %.9g within %.3g, by x %.9g within %.3g more", ij__dtype_name(type),
                (long long)m->n, (long long)m->k, (long long)t, (long long)r, y, s.rounded, s.rounding, s.exact, s.half);
      return false;
    }
  }
  return true;
}

#endif
