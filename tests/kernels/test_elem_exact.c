/* test_elem_exact.c: the scalar definition of each entry against its formula in double precision, within stated bounds.
 *
 * A sum of products is held to (steps + 5) roundings of 2^-24 of the sum of the magnitudes; conversions are checked exhaustively.
 * The other levels equal the scalar one by test_elem.c.
 */
#include "kernels/kernels.h"
#include "test.h"

#define ROUNDING 0x1p-24
#define MAX_N 512

static uint64_t seed = 77;
static const ij_kernels *k;

static void draw(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = (float)(test_random(&seed) >> 40) * 0x1p-22f - 2.0f;
}

static void reductions(void) {
  static float a[MAX_N], b[MAX_N];
  for (int64_t n = 1; n <= MAX_N; n += 3) {
    draw(a, n);
    draw(b, n);
    double dot = 0, dot_size = 0, sum = 0, sum_size = 0;
    float largest = a[0];
    for (int64_t i = 0; i < n; i++) {
      dot += (double)a[i] * b[i];
      dot_size += fabs((double)a[i] * b[i]);
      sum += a[i];
      sum_size += fabs((double)a[i]);
      largest = a[i] > largest ? a[i] : largest;
    }
    double steps = (double)(n / 16 + 6);
    CHECK_NEAR(k->dot(a, b, n), dot, steps * ROUNDING * dot_size);
    CHECK_NEAR(k->sum(a, n), sum, steps * ROUNDING * sum_size);
    CHECK(k->max(a, n) == largest);
    CHECK(k->all_finite(a, n));
    a[n / 2] = n % 2 ? NAN : -INFINITY;
    CHECK(!k->all_finite(a, n));
  }
}

/* The order written in kernels.h, on numbers of which summing from left to right gives another sum. */
static void order_is_the_written_one(void) {
  float x[48] = {0}, s[16] = {0}, left_to_right = 0;
  draw(x, 40);
  x[7] = 3e4f;
  for (int i = 0; i < 48; i++) s[i % 16] += x[i];
  for (int half = 8; half; half /= 2) {
    for (int j = 0; j < half; j++) s[j] += s[j + half];
  }
  for (int i = 0; i < 40; i++) left_to_right += x[i];
  CHECK(k->sum(x, 40) == s[0]);
  CHECK(k->sum(x, 40) != left_to_right);
}

static void norm_and_swiglu(void) {
  static float x[MAX_N], w[MAX_N], y[MAX_N];
  for (int64_t n = 1; n <= MAX_N; n += 7) {
    draw(x, n);
    draw(w, n);
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * x[i];
    double scale = 1.0 / sqrt(squares / (double)n + 1e-5f);
    k->rms_norm(y, x, w, 1e-5f, n);
    for (int64_t i = 0; i < n; i++) CHECK_NEAR(y[i], x[i] * scale * w[i], (double)(n / 32 + 9) * ROUNDING * fabs(x[i] * scale * w[i]));
    k->swiglu(y, x, w, n);
    for (int64_t i = 0; i < n; i++) {
      double want = x[i] / (1.0 + exp(-(double)x[i])) * w[i];
      CHECK_NEAR(y[i], want, 8 * ROUNDING * fabs(want));
    }
  }
}

static void element_wise(void) {
  static float x[MAX_N], y[MAX_N], old[MAX_N];
  draw(x, MAX_N);
  draw(old, MAX_N);
  memcpy(y, old, sizeof y);
  k->add(y, x, MAX_N);
  for (int i = 0; i < MAX_N; i++) CHECK(y[i] == old[i] + x[i]);
  memcpy(y, old, sizeof y);
  k->axpy(y, 0.3f, x, MAX_N);
  for (int i = 0; i < MAX_N; i++) CHECK_NEAR(y[i], 0.3f * (double)x[i] + old[i], ROUNDING * 4);
  k->scale(y, x, 0.3f, MAX_N);
  for (int i = 0; i < MAX_N; i++) CHECK(y[i] == x[i] * 0.3f);
  memcpy(y, old, sizeof y);
  k->merge(y, 0.7f, x, 0.2f, MAX_N);
  for (int i = 0; i < MAX_N; i++) CHECK_NEAR(y[i], 0.7f * (double)old[i] + 0.2f * (double)x[i], ROUNDING * 4);
}

static void short_conv(void) {
  static float rows[8][50], w[8 * 50], y[50];
  const float *u[8];
  for (int n_tap = 2; n_tap <= 8; n_tap++) {
    draw(w, 8 * 50);
    for (int j = 0; j < n_tap; j++) {
      draw(rows[j], 50);
      u[j] = rows[j];
    }
    k->short_conv(y, u, w, 50, n_tap, 50);
    for (int c = 0; c < 50; c++) {
      double want = u[n_tap - 1][c], size = fabs(want);
      for (int j = 0; j < n_tap; j++) {
        want += (double)w[j * 50 + c] * u[j][c];
        size += fabs((double)w[j * 50 + c] * u[j][c]);
      }
      CHECK_NEAR(y[c], want, n_tap * ROUNDING * size);
    }
  }
}

static void attention(void) {
  enum { D = 24, N_Q = 5, D_REL = 6, LD = 70 };
  static float s[IJ_ATTN_BLOCK], raw[IJ_ATTN_BLOCK], bias[IJ_ATTN_BLOCK], r[D_REL], bank[D_REL * LD];
  static float p[N_Q * IJ_ATTN_BLOCK], v[IJ_ATTN_BLOCK * D], o[N_Q * D];
  const int k0 = 5, k1 = 61;
  draw(r, D_REL);
  draw(bank, D_REL * LD);
  k->rel_bias(bias, r, bank, LD, D_REL);
  for (int i = 0; i < IJ_ATTN_BLOCK; i++) {
    double want = 0;
    for (int j = 0; j < D_REL; j++) want += (double)r[j] * bank[j * LD + i];
    CHECK_NEAR(bias[i], want, D_REL * ROUNDING * 4 * D_REL);
  }
  draw(raw, IJ_ATTN_BLOCK);
  memcpy(s, raw, sizeof s);
  float max, sum;
  k->attn_probs(s, bias, 0.5f, 1.25f, k0, k1, &max, &sum);
  double score[IJ_ATTN_BLOCK], largest = -INFINITY, total = 0;
  for (int i = k0; i < k1; i++) {
    score[i] = (raw[i] * 0.5 + bias[i]) * 1.25;
    if (score[i] > largest) largest = score[i];
  }
  CHECK_NEAR(max, largest, 4 * ROUNDING * fabs(largest));
  for (int i = k0; i < k1; i++) {
    double want = exp(score[i] - largest);
    CHECK_NEAR(s[i], want, want * 256 * ROUNDING);
    total += s[i];
  }
  CHECK_NEAR(sum, total, 10 * ROUNDING * total);
  draw(p, N_Q * IJ_ATTN_BLOCK);
  draw(v, IJ_ATTN_BLOCK * D);
  k->attn_pv(o, D, p, IJ_ATTN_BLOCK, v, D, N_Q, k0, k1, D);
  for (int q = 0; q < N_Q; q++) {
    for (int c = 0; c < D; c++) {
      double want = 0;
      for (int i = k0; i < k1; i++) want += (double)p[q * IJ_ATTN_BLOCK + i] * v[i * D + c];
      CHECK_NEAR(o[q * D + c], want, (k1 - k0) * ROUNDING * 4 * (k1 - k0));
    }
  }
}

/* The value of a 16-bit float by its definition. */
static double stored_value(ij_dtype t, unsigned h) {
  int n_mantissa = t == IJ_DTYPE_F16 ? 10 : 7, bias = t == IJ_DTYPE_F16 ? 15 : 127;
  int exponent = (int)((h & 0x7fffu) >> n_mantissa), mantissa = (int)(h & ((1u << n_mantissa) - 1u));
  double size = exponent ? ldexp(mantissa + ldexp(1, n_mantissa), exponent - bias - n_mantissa) : ldexp(mantissa, 1 - bias - n_mantissa);
  return h & 0x8000u ? -size : size;
}

static unsigned narrowed(ij_dtype t, float x) {
  uint16_t h;
  k->narrow[t](&h, &x, 1);
  return h;
}

static void check_stored_type(ij_dtype t) {
  unsigned infinity = t == IJ_DTYPE_F16 ? 0x7c00u : 0x7f80u;
  for (unsigned h = 0; h <= 0xffffu; h++) {
    uint16_t stored = (uint16_t)h;
    float x;
    k->widen[t](&x, &stored, 1);
    if ((h & 0x7fffu) > infinity) {
      CHECK(isnan(x) && (narrowed(t, x) & 0x7fffu) > infinity);
      continue;
    }
    CHECK(narrowed(t, x) == h);
    if ((h & 0x7fffu) == infinity) {
      CHECK(isinf(x) && (x < 0) == (h >> 15));
      continue;
    }
    CHECK((double)x == stored_value(t, h) && !signbit(x) == !(h >> 15));
    float middle = (float)((stored_value(t, h) + stored_value(t, h + 1)) / 2); /* the next value away from zero, or 2^16, 2^128 */
    CHECK(narrowed(t, middle) == h + (h & 1u));
    CHECK(narrowed(t, nextafterf(middle, 0.0f)) == h);
    CHECK(narrowed(t, nextafterf(middle, h >> 15 ? -INFINITY : INFINITY)) == h + 1);
  }
}

static void conversions(void) {
  check_stored_type(IJ_DTYPE_BF16);
  check_stored_type(IJ_DTYPE_F16);
  float x[3] = {1.5f, -0.0f, INFINITY}, y[3], z[3];
  k->widen[IJ_DTYPE_F32](y, x, 3);
  k->narrow[IJ_DTYPE_F32](z, y, 3);
  CHECK(memcmp(x, y, sizeof x) == 0 && memcmp(x, z, sizeof x) == 0);
}

int main(void) {
  k = ij__kernels_get(IJ_LEVEL_SCALAR);
  printf("seed %llu, level %s\n", (unsigned long long)seed, ij__level_name(k->level));
  RUN(reductions);
  RUN(order_is_the_written_one);
  RUN(norm_and_swiglu);
  RUN(element_wise);
  RUN(short_conv);
  RUN(attention);
  RUN(conversions);
  return test_report();
}
