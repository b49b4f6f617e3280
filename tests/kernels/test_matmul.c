/* test_matmul.c: every level against the scalar definition bit for bit, and the definition against double precision; coded (block and
 * split) types also against the same matrix decoded: in bits, but for those in integers, of which test_ints.c has more.
 *
 * Inputs are awkward on purpose: lengths around multiples of 16, strided rows, x rows at odd offsets, zeros of both signs, denormals,
 * infinities; y lies between guard values and its columns outside [r0, r1) must not change. Usage: test_matmul [seed].
 */
#include "core/alloc.h"
#include "matmul_cases.h"

enum { MAX_N = 70, MAX_K = 1100, MAX_ROWS = 130, GUARD = 32 };

typedef struct test_case {
  ij_matmul m;
  int64_t r0, r1;
  ij_dtype type;
  uint8_t *bytes, *scales, *biases; /* coded types own their inputs */
  float *x;
} test_case;

static char *weights;
static float *inputs, *want, *got, *scratch;
static ij_x_room room;
static uint64_t n_loop;
static int listed[MAX_N];
static const size_t y_floats = (size_t)MAX_N * (MAX_ROWS + 8) + 2 * GUARD;

/* Now and then rows of x in another order, some twice, where that may be asked for. */
static void list_rows(ij_matmul *m) {
  if (m->n < IJ_LISTED_MIN || below(2)) return;
  for (int64_t t = 0; t < m->n; t++) listed[t] = (int)below(m->n);
  m->rows = listed;
}

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
  list_rows(&c->m);
}

static void run_case(const ij_kernels *k, test_case *c, float *y) {
  for (size_t i = 0; i < y_floats; i++) y[i] = 12345.0f;
  for (size_t i = 0; i < IJ_MATMUL_SCRATCH; i += 97) scratch[i] = NAN;
  c->m.y = y + GUARD;
  if (below(2)) {
    k->matmul[c->type](&c->m, c->r0, c->r1, scratch);
    return;
  }
  int64_t middle = c->r0 + below(c->r1 - c->r0 + 1); /* in two calls that share a copy of x, the second of which is announced */
  ij_matmul part = c->m;
  part.w_next = (const char *)c->m.w + middle * c->m.w_stride;
  part.n_next = c->r1 - middle;
  part.next_tokens = below(2) ? 1 : c->m.n;
  if (c->m.scales) part.scales_next = (const char *)c->m.scales + middle * c->m.side_stride;
  if (c->m.biases) part.biases_next = (const char *)c->m.biases + middle * c->m.side_stride;
  part.x_room = &room;
  part.loop = ++n_loop;
  k->matmul[c->type](&part, c->r0, middle, scratch);
  k->matmul[c->type](&part, middle, c->r1, scratch);
}

/* All levels on a case that is filled. */
static bool compare_levels(test_case *c, int kind) {
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  run_case(ref, c, want);
  for (int i = IJ_BEYOND_COUNT; i < IJ_BEYOND_COUNT * IJ_LEVEL_COUNT; i++) {
    const ij_level level = (ij_level)(i / IJ_BEYOND_COUNT);
    const ij_beyond most = (ij_beyond)(i % IJ_BEYOND_COUNT);
    const ij_kernels *k = ij__kernels_get_beyond(level, most);
    if (k->level != level) continue;
    if (most > 0 && k->matmul[c->type] == ij__kernels_get_beyond(level, (ij_beyond)(most - 1))->matmul[c->type]) continue;
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

static bool check_levels(test_case *c, int kind) {
  fill_case(c, kind);
  return compare_levels(c, kind);
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

/* ---- block and split types ---- */

static void fill_coded(test_case *c, int kind) {
  ij_matmul *m = &c->m;
  const bool split = ij__dtype_is_split(c->type);
  const int64_t row_bytes = ij__dtype_row_bytes(c->type, m->k), n_group = split ? m->k / m->group : 0;
  const int64_t side = n_group * side_bytes(m->side_dtype), from = below(3), last = IJ_MAX(c->r1, (int64_t)1) - 1;
  m->w_stride = row_bytes * (1 + below(2)) + below(3);
  m->side_stride = side * (1 + below(2)) + below(3);
  uint8_t *w = exact(from + last * m->w_stride + row_bytes) + from;
  uint8_t *scales = exact(last * m->side_stride + side), *biases = exact(last * m->side_stride + side);
  for (int64_t r = 0; r < c->r1; r++) {
    if (split) {
      for (int64_t i = 0; i < row_bytes; i++) w[r * m->w_stride + i] = (uint8_t)test_random(&rng);
    } else {
      fill_blocks(w + r * m->w_stride, m->k, c->type, kind);
    }
    fill_side(scales + r * m->side_stride, n_group, m->side_dtype, kind);
    fill_side(biases + r * m->side_stride, n_group, m->side_dtype, kind);
  }
  m->w = w;
  c->bytes = w - from;
  m->scales = split ? scales : NULL;
  m->biases = ij__dtype_is_affine(c->type) ? biases : NULL;
  c->scales = scales;
  c->biases = biases;
  m->ldx = m->k + below(4);
  m->ldy = c->r1 + below(4);
  c->x = (float *)(void *)exact((m->n * m->ldx + 8) * 4);
  for (int64_t i = 0; i < m->n * m->ldx + 8; i++) c->x[i] = awkward(kind);
  m->x = c->x + below(8);
  list_rows(m);
}

static void free_coded(test_case *c) {
  free(c->bytes);
  free(c->scales);
  free(c->biases);
  free(c->x);
}

/* The scalar product of the decoded matrix. */
static bool check_decoded(test_case *c) {
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  if (ij__dtype_in_integers(c->type)) {
    c->m.y = want + GUARD;
    return check_int_sums(&c->m, c->type, c->r0, c->r1);
  }
  float *copy = (float *)(void *)exact(c->r1 * c->m.k * 4);
  for (int64_t r = 0; r < c->r1; r++) {
    ij_stretch s = {.row = (const char *)c->m.w + r * c->m.w_stride, .side_dtype = c->m.side_dtype, .group = c->m.group, .n = c->m.k};
    if (c->m.scales) s.scales = (const char *)c->m.scales + r * c->m.side_stride;
    if (c->m.biases) s.biases = (const char *)c->m.biases + r * c->m.side_stride;
    ref->decode[c->type](copy + r * c->m.k, &s);
  }
  test_case f = *c;
  f.type = IJ_DTYPE_F32;
  f.m.w = copy;
  f.m.w_stride = c->m.k * 4;
  run_case(ref, &f, got);
  free(copy);
  size_t at = 0;
  if (same_bits(want, got, y_floats, &at)) return true;
  TEST_FAIL("%s: y[%lld] is %a, of the decoded matrix %a", ij__dtype_name(c->type), (long long)at - GUARD, (double)want[at],
            (double)got[at]);
  return false;
}

static bool check_sided(ij_dtype type, int64_t n, int64_t k, int group, ij_dtype side, int64_t r0, int64_t r1, int kind) {
  test_case c = {.m = {.n = n, .k = k, .side_dtype = side, .group = group}, .r0 = r0, .r1 = r1, .type = type};
  fill_coded(&c, kind);
  bool ok = compare_levels(&c, kind) && check_decoded(&c);
  free_coded(&c);
  return ok;
}

static bool check_coded(ij_dtype type, int64_t n, int64_t units, int64_t r0, int64_t r1, int kind) {
  static const ij_dtype sides[] = {IJ_DTYPE_F32, IJ_DTYPE_BF16, IJ_DTYPE_F16};
  const int64_t len = ij__dtype_block_len(type);
  if (!ij__dtype_is_affine(type)) return check_sided(type, n, units * len, (int)len, IJ_DTYPE_U8, r0, r1, kind);
  const int group = 32 << below(3);
  return check_sided(type, n, units * IJ_MAX(group, len), group, sides[below(3)], r0, r1, kind);
}

#define CODED_FOR_ALL(type) for (ij_dtype type = IJ_DTYPE_Q4_0; type <= IJ_DTYPE_MXFP8_SPLIT; type = (ij_dtype)(type + 1))

static void coded_every_n(void) {
  CODED_FOR_ALL(type) {
    for (int64_t n = 1; n <= 30; n++) {
      if (!check_coded(type, n, 1 + below(4), below(5), 6 + below(14), (int)(n % 3))) break;
    }
    check_coded(type, MAX_N, 2, 1, 20, 1);
  }
}

static void coded_every_k(void) {
  CODED_FOR_ALL(type) {
    for (int64_t units = 1; units <= 20; units++) {
      if (!check_coded(type, 1 + below(4), units, below(3), 4 + below(4), 0)) break;
    }
    check_coded(type, 11, 2304 / ij__dtype_block_len(type), 1, 9, 0);
    for (int i = 0; i < 6; i++) check_coded(type, 1, 1 + below(1400 / ij__dtype_block_len(type)), below(3), 4 + below(20), i % 3);
  }
}

static void coded_every_number_of_rows(void) {
  CODED_FOR_ALL(type) {
    for (int64_t rows = 0; rows <= 20; rows++) {
      int64_t r0 = below(5);
      if (!check_coded(type, 1 + below(4), 1, r0, r0 + rows, 1)) break;
    }
    check_coded(type, 10, 1, 3, MAX_ROWS, 0);
    check_coded(type, 1, 1, 3, MAX_ROWS, 2);
  }
}

/* Several blocks of k and batches of rows, the last of each in part; k of whole times 256 values and of others. Affine types in every
 * group, without the float32 sides that only the general way takes. */
static void coded_few_tokens(void) {
  CODED_FOR_ALL(type) {
    for (int64_t n = 2; n <= 8; n++) {
      int64_t len = ij__dtype_block_len(type), k = n % 2 ? 1280 : 1536, r1 = 18 + below(20);
      for (int group = 32; group <= 128 && ij__dtype_is_affine(type); group *= 2) {
        if (!check_sided(type, n, k, group, group == 64 ? IJ_DTYPE_BF16 : IJ_DTYPE_F16, 1, r1, (int)(n % 3))) return;
      }
      if (!ij__dtype_is_affine(type) && !check_coded(type, n, k / len, 1, r1, (int)(n % 3))) break;
    }
    check_coded(type, 2 + below(7), 1330 / ij__dtype_block_len(type), 1, 18 + below(8), 1);
  }
}

/* The same for the numbers of tokens of an expert of a prompt. */
static void coded_dozens_of_tokens(void) {
  static const int64_t ns[] = {10, 23, 64};
  CODED_FOR_ALL(type) {
    for (size_t i = 0; i < IJ_COUNT_OF(ns); i++) {
      if (!check_coded(type, ns[i], 1330 / ij__dtype_block_len(type), below(5), 18 + below(8), (int)(i % 3))) break;
    }
  }
}

/* So long that a panel holds a few rows only, or none. */
static void coded_long_rows(void) {
  check_coded(IJ_DTYPE_Q5_K, 10, 128, 0, 11, 0);
  check_coded(IJ_DTYPE_Q8_0, 13, 1024, 1, 6, 0);
  for (int i = 0; i < 4; i++) check_coded(IJ_DTYPE_NVFP4, 1, (IJ_X_ROOM + 4096) / 64, 0, 3, 0); /* no room for such a copy of x */
  check_coded(IJ_DTYPE_Q5_K, 8, 150, 0, 5, 0); /* too long for the tokens of a step side by side */
  check_coded(IJ_DTYPE_Q4_0, 9, 80000 / 32, 0, 3, 0);
  for (int i = 0; i < 3; i++) check_coded(IJ_DTYPE_Q4_0, IJ_LISTED_MIN, 80000 / 32, 0, 3, 0);
  check_coded(IJ_DTYPE_AFFINE4, 25, 130, 0, 21, 0);
}

/* Types that want x in other orders take turns with one input, one number and one room. */
static void coded_orders_of_x(void) {
  static const ij_dtype turns[] = {IJ_DTYPE_IQ4_XS, IJ_DTYPE_AFFINE4, IJ_DTYPE_NVFP4, IJ_DTYPE_AFFINE4, IJ_DTYPE_Q5_K};
  for (int64_t i = 0; i < MAX_N * MAX_K; i++) inputs[i] = uniform();
  for (int64_t n = 1; n <= 8; n += 7) {
    n_loop++;
    for (size_t i = 0; i < IJ_COUNT_OF(turns); i++) {
      test_case c = {.m = {.n = n, .k = 512, .side_dtype = IJ_DTYPE_BF16, .group = 64}, .r1 = 5, .type = turns[i]};
      fill_coded(&c, 0);
      c.m.x = inputs;
      c.m.ldx = c.m.k;
      for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
        const ij_kernels *k = ij__kernels_get((ij_level)level);
        c.m.x_room = NULL;
        c.m.y = want;
        k->matmul[c.type](&c.m, 0, 5, scratch);
        c.m.x_room = &room;
        c.m.loop = n_loop;
        c.m.y = got;
        k->matmul[c.type](&c.m, 0, 5, scratch);
        for (int64_t t = 0; t < n; t++) CHECK(memcmp(want + t * c.m.ldy, got + t * c.m.ldy, 5 * sizeof *got) == 0);
      }
      free_coded(&c);
    }
  }
}

/* Two lists of rows of one x take turns with one number and one room. */
static void lists_of_rows_and_rooms(void) {
  enum { N = IJ_LISTED_MIN };
  int lists[2][N];
  float *y[2] = {want, got};
  test_case c = {.m = {.n = N, .k = 512, .group = 256, .side_dtype = IJ_DTYPE_U8, .x_room = &room}, .r1 = 9, .type = IJ_DTYPE_Q5_K};
  fill_coded(&c, 0);
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    c.m.loop = ++n_loop;
    for (int turn = 0; turn < 4; turn++) {
      for (int t = 0; t < N; t++) lists[turn % 2][t] = turn % 2 ? N - 1 - t : t;
      c.m.rows = lists[turn % 2];
      c.m.y = y[turn % 2];
      k->matmul[c.type](&c.m, 0, c.r1, scratch);
    }
    for (int t = 0; t < N; t++) CHECK(memcmp(want + t * c.m.ldy, got + (N - 1 - t) * c.m.ldy, (size_t)c.r1 * sizeof *got) == 0);
  }
  free_coded(&c);
}

/* A list of rows stands for a copy of them. */
static void listed_rows(void) {
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  const int64_t n = 30, k = 45;
  for (int i = 0; i < 8; i++) {
    test_case c = {.m = {.n = n, .k = k}, .r0 = 1, .r1 = 9, .type = types[i % 3]};
    fill_case(&c, 0);
    for (int64_t t = 0; t < n; t++) listed[t] = (int)below(n);
    c.m.rows = listed;
    run_case(ref, &c, want);
    float *copy = (float *)(void *)exact(n * k * 4);
    for (int64_t t = 0; t < n; t++) memcpy(copy + t * k, c.m.x + listed[t] * c.m.ldx, (size_t)k * sizeof *copy);
    c.m.x = copy;
    c.m.rows = NULL;
    c.m.ldx = k;
    run_case(ref, &c, got);
    free(copy);
    CHECK(memcmp(want, got, y_floats * sizeof *want) == 0);
  }
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
  RUN(coded_every_n);
  RUN(coded_every_k);
  RUN(coded_every_number_of_rows);
  RUN(coded_few_tokens);
  RUN(coded_dozens_of_tokens);
  RUN(coded_long_rows);
  RUN(coded_orders_of_x);
  RUN(listed_rows);
  RUN(lists_of_rows_and_rooms);
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
