/* test_matmul.c: every level against the scalar definition bit for bit, and the definition against double precision.
 *
 * Inputs are awkward on purpose: lengths around multiples of 16, strided rows, x rows at odd offsets, zeros of both signs, denormals,
 * infinities; y lies between guard values and its columns outside [r0, r1) must not change. Usage: test_matmul [seed].
 */
#include "core/alloc.h"
#include "kernels/kernels.h"
#include "test.h"

enum { MAX_N = 70, MAX_K = 1100, MAX_ROWS = 130, GUARD = 32 };

static uint64_t rng = 20260101;

static int64_t below(int64_t n) { return (int64_t)(test_random(&rng) % (uint64_t)n); }

static float uniform(void) { return (float)((double)(test_random(&rng) >> 40) * 0x1p-23 - 1.0); }

/* kind 0: ordinary values; 1: with zeros, denormals and large values; 2: with infinities and NaN too. */
static float awkward(int kind) {
  static const float odd[] = {0.0f, -0.0f, 1e-41f, -3e-45f, 1e30f, -1e30f, 1e-30f, 65504.0f, INFINITY, -INFINITY, NAN};
  if (kind == 0 || below(8) != 0) return uniform();
  return odd[below(kind == 1 ? 8 : 11)];
}

static uint16_t awkward_bf16(int kind) {
  float f = awkward(kind);
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return (uint16_t)(u >> 16);
}

/* Mostly within +-2; now and then any bits at all, denormals included. */
static uint16_t awkward_f16(int kind) {
  uint16_t h = (uint16_t)test_random(&rng);
  bool special = (h & 0x7c00) == 0x7c00;
  if (kind == 0 || below(8) != 0 || (kind == 1 && special)) return (uint16_t)((h & 0x83ff) | (0x2c00 + (below(5) << 10)));
  return below(4) == 0 ? (uint16_t)(h & 0x83ff) : h;
}

typedef struct test_case {
  ij_matmul m;
  int64_t r0, r1;
  ij_dtype type;
} test_case;

static char *weights;
static float *inputs, *want, *got, *scratch;
static const size_t y_floats = (size_t)MAX_N * (MAX_ROWS + 8) + 2 * GUARD;

static void fill_case(test_case *c, int kind) {
  int64_t size = c->type == IJ_DTYPE_F32 ? 4 : 2, row_bytes = c->m.k * size;
  c->m.w_stride = row_bytes * (1 + below(2)) + size * below(3);
  for (int64_t i = 0; i < (c->r1 * c->m.w_stride + row_bytes) / size; i++) {
    float f = awkward(kind);
    uint16_t h = c->type == IJ_DTYPE_BF16 ? awkward_bf16(kind) : awkward_f16(kind);
    if (size == 4) {
      memcpy(weights + i * 4, &f, 4);
    } else {
      memcpy(weights + i * 2, &h, 2);
    }
  }
  c->m.w = weights;
  c->m.ldx = c->m.k + below(4);
  c->m.ldy = c->r1 + below(4);
  for (int64_t i = 0; i < c->m.n * c->m.ldx + 8; i++) inputs[i] = awkward(kind);
  c->m.x = inputs + below(8);
  /* what lies behind the last row of x is poison for a kernel that reads too far and multiplies it by zero */
  inputs[(c->m.x - inputs) + (c->m.n - 1) * c->m.ldx + c->m.k] = INFINITY;
}

static void run_case(const ij_kernels *k, test_case *c, float *y) {
  for (size_t i = 0; i < y_floats; i++) y[i] = 12345.0f;
  for (size_t i = 0; i < IJ_MATMUL_SCRATCH; i += 97) scratch[i] = NAN;
  c->m.y = y + GUARD;
  k->matmul[c->type](&c->m, c->r0, c->r1, scratch);
}

/* NaN has many spellings and the one that comes out of a sum of two is the processor's choice; everything else is exact. */
static bool same_bits(const float *a, const float *b, size_t n, size_t *where) {
  for (size_t i = 0; i < n; i++) {
    if (memcmp(a + i, b + i, sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i]))) continue;
    *where = i;
    return false;
  }
  return true;
}

static bool check_levels(test_case *c, int kind) {
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  fill_case(c, kind);
  run_case(ref, c, want);
  for (int level = 1; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    if (k->level != (ij_level)level) continue;
    run_case(k, c, got);
    size_t at = 0;
    if (same_bits(want, got, y_floats, &at)) continue;
    TEST_FAIL("%s %s n %lld k %lld rows [%lld, %lld) stride %lld ldx %lld ldy %lld kind %d: y[%lld] is %a, expected %a",
              ij__level_name(k->level), ij__dtype_name(c->type), (long long)c->m.n, (long long)c->m.k, (long long)c->r0, (long long)c->r1,
              (long long)c->m.w_stride, (long long)c->m.ldx, (long long)c->m.ldy, kind, (long long)at - GUARD, (double)got[at],
              (double)want[at]);
    return false;
  }
  return true;
}

static const ij_dtype types[] = {IJ_DTYPE_F32, IJ_DTYPE_BF16, IJ_DTYPE_F16};

static bool check_shape(int64_t n, int64_t k, int64_t r0, int64_t r1, int kind) {
  bool ok = true;
  for (size_t i = 0; i < IJ_COUNT_OF(types); i++) {
    test_case c = {.m = {.n = n, .k = k}, .r0 = r0, .r1 = r1, .type = types[i]};
    ok = check_levels(&c, kind) && ok;
  }
  return ok;
}

static void every_k(void) {
  for (int64_t k = 1; k <= 130; k++) {
    if (!check_shape(1 + below(8), k, below(3), 4 + below(20), (int)(k % 3))) return;
    if (!check_shape(9 + below(8), k, below(3), 4 + below(20), (int)(k % 2))) return;
  }
}

static void every_n(void) {
  for (int64_t n = 1; n <= MAX_N; n++) {
    if (!check_shape(n, 16 * (1 + below(4)) + n % 3, below(5), 6 + below(30), (int)(n % 3))) return;
  }
}

static void every_number_of_rows(void) {
  for (int64_t rows = 1; rows <= 40; rows++) {
    int64_t r0 = below(5);
    if (!check_shape(1 + below(6), 33, r0, r0 + rows, 1)) return;
    if (!check_shape(25 + below(6), 48, r0, r0 + rows, 1)) return;
  }
}

static void long_rows(void) {
  static const int64_t ks[] = {511, 512, 513, 1024, 1039, 1088};
  for (size_t i = 0; i < IJ_COUNT_OF(ks); i++) {
    if (!check_shape(1 + below(3), ks[i], 0, 9, 1)) return;
    if (!check_shape(26, ks[i], 1, 10 + below(8), 1)) return;
  }
}

static void several_panels(void) {
  check_shape(33, 64, 0, MAX_ROWS, 0);
  check_shape(30, 35, 3, MAX_ROWS - 1, 1);
  check_shape(1, 64, 0, MAX_ROWS, 2);
}

static void nothing_to_do(void) {
  CHECK(check_shape(3, 20, 5, 5, 0));
  CHECK(check_shape(40, 20, 5, 5, 0));
}

/* Each lane makes ceil(k / 16) roundings of at most half a unit, then the fold makes four: to first order the error of the sum is
 * at most (ceil(k / 16) + 4) * 2^-24 * sum |w x|; the bound allows a little for the rest. */
static void definition_against_double(void) {
  static const int64_t ks[] = {1, 15, 16, 17, 100, 512, 1024};
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  for (size_t i = 0; i < IJ_COUNT_OF(ks); i++) {
    test_case c = {.m = {.n = 3, .k = ks[i]}, .r0 = 0, .r1 = 5, .type = IJ_DTYPE_F32};
    fill_case(&c, 0);
    run_case(ref, &c, want);
    for (int64_t t = 0; t < c.m.n; t++) {
      for (int64_t r = c.r0; r < c.r1; r++) {
        const float *w = (const float *)(const void *)(weights + r * c.m.w_stride), *x = c.m.x + t * c.m.ldx;
        double sum = 0, magnitude = 0;
        for (int64_t j = 0; j < c.m.k; j++) {
          double product = (double)w[j] * (double)x[j];
          sum += product;
          magnitude += fabs(product);
        }
        double steps = (double)ij__div_up(c.m.k, 16) + 4;
        CHECK_NEAR(c.m.y[t * c.m.ldy + r], sum, steps * 0x1.01p-24 * magnitude);
      }
    }
  }
}

/* The order itself, by hand: in any other order the rounding would differ. */
static void order_is_the_one_order(void) {
  float w[33], x[33], y = 0;
  for (int i = 0; i < 33; i++) w[i] = 1.0f, x[i] = 0.0f;
  x[0] = 0x1p+24f, x[16] = 1.0f, x[32] = 1.0f; /* lane 0: the ones are lost one at a time */
  x[8] = -0x1p+24f;                            /* lane 8 meets lane 0 first in the fold, and leaves zero */
  x[4] = 3.0f, x[1] = 0x1p-10f;
  ij_matmul m = {.w = w, .w_stride = sizeof w, .x = x, .ldx = 33, .y = &y, .ldy = 1, .n = 1, .k = 33};
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    y = 0;
    ij__kernels_get((ij_level)level)->matmul[IJ_DTYPE_F32](&m, 0, 1, scratch);
    CHECK_NEAR(y, 3.0009765625, 0);
  }
}

static void measuring_loops_run(void) {
  static uint64_t page[1024];
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    memset(page, 0, sizeof page);
    uint64_t seen = k->read_stream(page, sizeof page);
    for (size_t i = 0; i < IJ_COUNT_OF(page); i += 13) { /* every word counts: it changes the checksum */
      page[i] = 1;
      uint64_t now = k->read_stream(page, sizeof page);
      CHECK(now != seen);
      seen = now;
    }
    double n_fma = 0;
    CHECK(isfinite(k->fma_peak(1000, &n_fma)));
    CHECK(n_fma >= 1000);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) rng = strtoull(argv[1], NULL, 0);
  printf("seed %llu\n", (unsigned long long)rng);
  weights = ij__alloc_array((size_t)MAX_ROWS * MAX_K * 2 + MAX_K * 4, 4);
  inputs = ij__alloc_array((size_t)MAX_N * (MAX_K + 4) + 64, sizeof *inputs);
  want = ij__alloc_array(y_floats, sizeof *want);
  got = ij__alloc_array(y_floats, sizeof *got);
  scratch = ij__alloc_zero(IJ_MATMUL_SCRATCH, sizeof *scratch);
  if (!weights || !inputs || !want || !got || !scratch) return 1;
  RUN(every_k);
  RUN(every_n);
  RUN(every_number_of_rows);
  RUN(long_rows);
  RUN(several_panels);
  RUN(nothing_to_do);
  RUN(definition_against_double);
  RUN(order_is_the_one_order);
  RUN(measuring_loops_run);
  ij__free(weights);
  ij__free(inputs);
  ij__free(want);
  ij__free(got);
  ij__free(scratch);
  return test_report();
}
