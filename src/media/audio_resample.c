/* audio_resample.c: any rate to 16 kHz by a windowed sinc whose phases are exact ratios of integers.
 *
 * With a : b the two rates without their common factor, output q * b + p is the sum over j of k[p][j] * x[q * a + j], where
 *
 *     t = (j / a - p / b) * base, base = 0.99 * min(a, b);   k = cos(pi t / 12)^2 * sin(pi t) / (pi t) * base / a   for |t| < 6
 *
 * and j runs from -W to W + a - 1, W = ceil(6 a / base). Only the few taps with |t| < 6 are kept. t is 99 (j b - p a) / (100 max(a, b)),
 * so sines are taken of ratios of integers, and no rounding accumulates however long the sound is. Every output is one sum over the same
 * window in the same order: where the input was cut does not matter.
 */
#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

static const double pi = 3.14159265358979323846;

/* Both for 0 <= x <= pi / 4, where the first term left out is below a hundredth of a unit of the last place. */
static double sin_series(double x) {
  const double z = x * x;
  double s = 1 / 355687428096000.0;
  s = s * z - 1 / 1307674368000.0;
  s = s * z + 1 / 6227020800.0;
  s = s * z - 1 / 39916800.0;
  s = s * z + 1 / 362880.0;
  s = s * z - 1 / 5040.0;
  s = s * z + 1 / 120.0;
  s = s * z - 1 / 6.0;
  return x + x * z * s;
}

static double cos_series(double x) {
  const double z = x * x;
  double s = 1 / 20922789888000.0;
  s = s * z - 1 / 87178291200.0;
  s = s * z + 1 / 479001600.0;
  s = s * z - 1 / 3628800.0;
  s = s * z + 1 / 40320.0;
  s = s * z - 1 / 720.0;
  s = s * z + 1 / 24.0;
  s = s * z - 1 / 2.0;
  return 1 + z * s;
}

double ij__sin_pi(int64_t num, int64_t den) {
  int64_t r = num % (2 * den);
  if (r < 0) r += 2 * den;
  const bool negative = r > den;
  if (negative) r -= den;
  if (r > den - r) r = den - r; /* now at most den / 2 */
  const double s = 4 * r <= den ? sin_series(pi * (double)r / (double)den) : cos_series(pi * (double)(den - 2 * r) / (2 * (double)den));
  return negative ? -s : s;
}

static int64_t common_factor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int64_t ij__resampled_length(int64_t n, int rate) {
  const int64_t g = common_factor(rate, IJ_SOUND_RATE);
  return ij__div_up(n * (IJ_SOUND_RATE / g), rate / g);
}

void ij__resampler_free(ij__resampler *r) {
  ij__free(r->taps);
  ij__free(r->first);
  ij__free(r->made);
  ij__free(r->held);
  memset(r, 0, sizeof *r);
}

ij_status ij__resampler_open(ij__resampler *r, int rate, ij_err *err) {
  memset(r, 0, sizeof *r);
  const int64_t g = common_factor(rate, IJ_SOUND_RATE);
  r->a = rate / g;
  r->b = IJ_SOUND_RATE / g;
  r->n_end = -1;
  if (r->a == r->b) { /* as it is: a filter would take away what lies above 0.99 of the band */
    r->n_taps = 1;
  } else {
    const int64_t min = IJ_MIN(r->a, r->b), max = IJ_MAX(r->a, r->b);
    r->half = ij__div_up(600 * r->a, 99 * min);
    /* |j b - p a| < 600 max / 99 holds for so many j at most; one more for safety, then rounded up to the four sums of dot. */
    r->n_taps = (int)ij__align_up((size_t)(2 * 600 * max / (99 * r->b) + 2), 4);
  }
  const size_t n_held = (size_t)(r->half + IJ_SOUND_BLOCK + 2 * r->n_taps), n_taps = (size_t)(r->b * r->n_taps);
  r->taps = ij__alloc_array(n_taps, sizeof *r->taps);
  r->first = ij__alloc_array((size_t)r->b, sizeof *r->first);
  r->made = ij__alloc_zero((size_t)r->b, sizeof *r->made);
  r->held = ij__alloc_zero(n_held, sizeof *r->held);
  if (!r->taps || !r->first || !r->made || !r->held) {
    ij__resampler_free(r);
    return ij__fail_nomem(err, "the resampler", n_taps * sizeof *r->taps);
  }
  r->held_at = -r->half; /* the sound is zero before it begins */
  r->n_held = r->half;
  return IJ_OK;
}

static void make_phase(ij__resampler *r, int64_t p) {
  double *k = r->taps + p * r->n_taps;
  memset(k, 0, (size_t)r->n_taps * sizeof *k);
  r->made[p] = true;
  if (r->a == r->b) {
    k[0] = 1;
    r->first[p] = 0;
    return;
  }
  const int64_t max = IJ_MAX(r->a, r->b), reach = 600 * max; /* 99 |j b - p a| below this is |t| < 6 */
  const double scale = 0.99 * (double)IJ_MIN(r->a, r->b) / (double)r->a;
  int64_t j = IJ_MAX(-r->half, (p * r->a - reach / 99) / r->b - 1);
  while (99 * (p * r->a - j * r->b) >= reach) j++;
  r->first[p] = j;
  for (int i = 0; j < r->half + r->a && 99 * (j * r->b - p * r->a) < reach; i++, j++) {
    assert(i < r->n_taps);
    const int64_t num = 99 * (j * r->b - p * r->a); /* t = num / (100 max) */
    const double window = ij__sin_pi(num + 600 * max, 1200 * max);
    const double sinc = num == 0 ? 1 : ij__sin_pi(num, 100 * max) / (pi * (double)num / (double)(100 * max));
    k[i] = window * window * sinc * scale;
  }
}

void ij__resampler_push(ij__resampler *r, const double *in, int64_t n) {
  assert(n <= IJ_SOUND_BLOCK);
  if (!r->made[r->p]) make_phase(r, r->p);
  const int64_t next = r->q * r->a + r->first[r->p]; /* nothing before this is needed again */
  const int64_t drop = IJ_MIN(IJ_MAX(next - r->held_at, 0), r->n_held);
  memmove(r->held, r->held + drop, (size_t)(r->n_held - drop) * sizeof *r->held);
  r->held_at += drop;
  r->n_held -= drop;
  memcpy(r->held + r->n_held, in, (size_t)n * sizeof *in);
  r->n_held += n;
  r->n_in += n;
}

void ij__resampler_end(ij__resampler *r) {
  static const double zeros[IJ_SOUND_BLOCK];
  const int64_t n_in = r->n_in;
  ij__resampler_push(r, zeros, r->n_taps);
  r->n_in = n_in;
  r->n_end = ij__div_up(n_in * r->b, r->a);
}

/* Four sums, so that the additions do not wait for each other. */
static double dot(const double *k, const double *x, int n) {
  double s[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; i += 4) {
    for (int lane = 0; lane < 4; lane++) s[lane] += k[i + lane] * x[i + lane];
  }
  return (s[0] + s[2]) + (s[1] + s[3]);
}

int64_t ij__resampler_pull(ij__resampler *r, double *out, int64_t max) {
  int64_t n = 0;
  while (n < max && (r->n_end < 0 || r->n_out < r->n_end)) {
    if (!r->made[r->p]) make_phase(r, r->p);
    const int64_t at = r->q * r->a + r->first[r->p] - r->held_at;
    if (at + r->n_taps > r->n_held) break;
    const double *k = r->taps + r->p * r->n_taps, *x = r->held + at;
    out[n++] = r->n_taps == 1 ? *x : dot(k, x, r->n_taps);
    r->n_out++;
    if (++r->p == r->b) {
      r->p = 0;
      r->q++;
    }
  }
  return n;
}
