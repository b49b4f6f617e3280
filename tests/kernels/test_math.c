/* test_math.c: the elementary functions against libm in double, and every level against the scalar definition bit for bit.
 *
 * The ordinary run takes every 1009th float32 and the neighbourhoods of the awkward ones; `test_math all` takes all 2^32 (some 20
 * minutes), `test_math all exp` those of one function.
 */
#include "kernels/kernels.h"
#include "test.h"

typedef void vector_fn(float *y, const float *x, int64_t n);

#define N_FUNCTION 5
#define CHUNK 4096

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/* Largest error in units in the last place where the result is a normal float32. */
static const struct {
  const char *name;
  double (*exact)(double);
  double bound;
} functions[N_FUNCTION] = {{"exp", exp, 1.0}, {"log", log, 1.0}, {"tanh", tanh, 1.5}, {"erf", erf, 1.25}, {"sigmoid", sigmoid, 2.5}};

static uint64_t stride = 1009;
static const char *only; /* the one function to test, or NULL */

static vector_fn *function_of(const ij_kernels *k, int f) {
  switch (f) {
    case 0: return k->vexp;
    case 1: return k->vlog;
    case 2: return k->vtanh;
    case 3: return k->verf;
    default: return k->vsigmoid;
  }
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static bool same(float a, float b) { return (isnan(a) && isnan(b)) || bits_of(a) == bits_of(b); }

/* Levels of this build and machine above scalar, in `levels`. */
static int find_levels(const ij_kernels *levels[IJ_LEVEL_COUNT]) {
  int n = 0;
  for (int level = IJ_LEVEL_SCALAR + 1; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    if (k->level == (ij_level)level) levels[n++] = k;
  }
  return n;
}

static double ulp(double value) {
  int exponent;
  frexp(value, &exponent);
  return ldexp(1.0, exponent - 24);
}

/* Error of y in ulp when y should be f(x); infinity when a special value is wrong. Where the result is below the normal numbers, exp
 * may flush to zero and the logistic function loses what exp(-x) loses to overflow: there only the absolute error is bounded. */
static double error_of(int f, float x, float y) {
  double want = functions[f].exact((double)x);
  if (isnan(want) || isnan(y)) return isnan(want) && isnan(y) ? 0.0 : INFINITY;
  if (isinf((float)want) || isinf(y)) return (float)want == y ? 0.0 : INFINITY;
  if (want == 0.0 || x == 0.0f) return y == (float)want && signbit(y) == signbit((float)want) ? 0.0 : INFINITY;
  double error = fabs((double)y - want);
  if (fabs(want) >= 0x1p-126) return error / ulp(want);
  return error <= (f == 0 ? 0x1p-126 : f == 4 ? 0x1p-127 : 0x1p-149) ? 0.0 : INFINITY;
}

/* The accuracy of the scalar level and the equality of the others, on n inputs. Returns the largest error. */
static double check_chunk(int f, const float *x, int64_t n, const ij_kernels **levels, int n_level) {
  static float want[CHUNK], got[CHUNK];
  double worst = 0.0;
  function_of(ij__kernels_get(IJ_LEVEL_SCALAR), f)(want, x, n);
  for (int64_t i = 0; i < n; i++) {
    double e = error_of(f, x[i], want[i]);
    if (!(e <= functions[f].bound)) TEST_FAIL("%s(%a) is %a, %g ulp off", functions[f].name, (double)x[i], (double)want[i], e);
    worst = e > worst ? e : worst;
  }
  for (int level = 0; level < n_level; level++) {
    function_of(levels[level], f)(got, x, n);
    for (int64_t i = 0; i < n; i++) {
      if (same(got[i], want[i])) continue;
      TEST_FAIL("%s(%a) is %a at level %s, %a at scalar", functions[f].name, (double)x[i], (double)got[i],
                ij__level_name(levels[level]->level), (double)want[i]);
      break;
    }
  }
  return worst;
}

static void every_bit_pattern_in_steps(void) {
  const ij_kernels *levels[IJ_LEVEL_COUNT];
  int n_level = find_levels(levels);
  static float x[CHUNK];
  for (int f = 0; f < N_FUNCTION && test_failures < 20; f++) {
    if (only && strcmp(only, functions[f].name) != 0) continue;
    double worst = 0.0;
    for (uint64_t bits = 0; bits < (1ull << 32) && test_failures < 20;) {
      int64_t n = 0;
      for (; n < CHUNK && bits < (1ull << 32); n++, bits += stride) x[n] = float_of((uint32_t)bits);
      double e = check_chunk(f, x, n, levels, n_level);
      worst = e > worst ? e : worst;
    }
    printf("%s: largest error %.3f ulp\n", functions[f].name, worst);
  }
}

static void neighbourhoods_of_the_awkward(void) {
  static const float centres[] = {0.0f,      1.0f,       0.5f,       2.0f,     0.625f,    0.9375f,        4.0f,   0x1p-126f, 0x1p-149f,
                                  0x1p-64f,  88.722832f, 87.336540f, 104.0f,   INFINITY,  3.40282347e38f, 9.01f,  0.34657359f,
                                  0.693147f, 0x1p+22f,   0x1p+23f,   0x1p+31f, 0.707107f, 1.414214f,      16.635f};
  const ij_kernels *levels[IJ_LEVEL_COUNT];
  int n_level = find_levels(levels);
  static float x[CHUNK];
  for (int f = 0; f < N_FUNCTION; f++) {
    for (size_t c = 0; c < sizeof centres / sizeof centres[0]; c++) {
      for (int i = 0; i < CHUNK; i++) {
        uint32_t sign = i & 1 ? 0x80000000u : 0u;
        x[i] = float_of((bits_of(centres[c]) + (uint32_t)(i / 2) - CHUNK / 4) ^ sign);
      }
      check_chunk(f, x, CHUNK, levels, n_level);
    }
  }
}

static void limits_are_exact(void) {
  const ij_kernels *k = ij__kernels_get(IJ_LEVEL_COUNT);
  float x[] = {-INFINITY, -200.0f, -88.0f, 0.0f, -0.0f, 89.0f, INFINITY, NAN}, y[8];
  k->vexp(y, x, 8);
  CHECK(y[0] == 0.0f && y[1] == 0.0f && y[2] == 0.0f && y[3] == 1.0f && y[4] == 1.0f && isinf(y[5]) && isinf(y[6]) && isnan(y[7]));
  k->vsigmoid(y, x, 8);
  CHECK(y[0] == 0.0f && y[1] == 0.0f && y[3] == 0.5f && y[4] == 0.5f && y[5] == 1.0f && y[6] == 1.0f && isnan(y[7]));
  k->vtanh(y, x, 8);
  CHECK(y[0] == -1.0f && y[3] == 0.0f && signbit(y[4]) && y[5] == 1.0f && y[6] == 1.0f && isnan(y[7]));
  k->verf(y, x, 8);
  CHECK(y[0] == -1.0f && y[3] == 0.0f && signbit(y[4]) && y[5] == 1.0f && y[6] == 1.0f && isnan(y[7]));
  k->vlog(y, x, 8);
  CHECK(isnan(y[0]) && isnan(y[1]) && y[3] == -INFINITY && y[4] == -INFINITY && y[6] == INFINITY && isnan(y[7]));
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "all") == 0) stride = 1;
  if (argc > 2) only = argv[2];
  const ij_kernels *levels[IJ_LEVEL_COUNT];
  int n_level = find_levels(levels);
  printf("levels: scalar");
  for (int i = 0; i < n_level; i++) printf(" %s", ij__level_name(levels[i]->level));
  printf("\n");
  RUN(every_bit_pattern_in_steps);
  RUN(neighbourhoods_of_the_awkward);
  RUN(limits_are_exact);
  return test_report();
}
