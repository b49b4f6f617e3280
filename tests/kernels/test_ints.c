/* test_ints.c: products in integers. x as integers: every level gives the bytes of the scalar one, and that what the definition says.
 * Products: every way to ask for one, at every level, gives the bits of the scalar product of one token at a time, and that is as close to
 * double precision as the definition says.
 *
 * Buffers have exactly the bytes that a call may touch, and poison between rows: not a number, as x, as weights and as integers.
 * Usage: test_ints [seed].
 */
#include "core/alloc.h"
#include "matmul_cases.h"

static float *scratch;
static ij_x_room *room;
static uint64_t n_loop;

/* The scalar table, and all that differ of those that processors get which have more or less beyond a level; with tiles also where they are
 * emulated. NULL is the last. */
static const ij_kernels *tables[IJ_BEYOND_COUNT * IJ_LEVEL_COUNT + 2];

#define FOR_EACH_TABLE(kernels) for (const ij_kernels *const *at_ = tables, *kernels; (kernels = *at_) != NULL; at_++)

static bool is_listed(const ij_kernels *k) {
  FOR_EACH_TABLE(other) {
    if (other->to_ints != k->to_ints || other->matmul[IJ_DTYPE_Q4_K] != k->matmul[IJ_DTYPE_Q4_K]) continue;
    if (other->matmul[IJ_DTYPE_Q2_K] != k->matmul[IJ_DTYPE_Q2_K]) continue;
    if (other->matmul[IJ_DTYPE_AFFINE4] == k->matmul[IJ_DTYPE_AFFINE4]) return true;
  }
  return false;
}

#ifdef EMULATED_TILES
static ij_kernels emulated;
void tiles_fill(ij_kernels *k); /* tiles_avx512.c */
void tiles_few_fill(ij_kernels *k); /* tiles_few_avx512.c */
#endif

static void list_tables(void) {
  const ij_kernels **end = tables;
  for (int i = 0; i < IJ_BEYOND_COUNT * IJ_LEVEL_COUNT; i++) {
    const ij_kernels *k = ij__kernels_get_beyond((ij_level)(i / IJ_BEYOND_COUNT), (ij_beyond)(i % IJ_BEYOND_COUNT));
    if (!is_listed(k)) *end++ = k;
  }
#ifdef EMULATED_TILES
  if (!ij__cpu_has_vnni()) return;
  emulated = *ij__kernels_get_beyond(IJ_LEVEL_AVX512, IJ_BEYOND_VECTORS);
  tiles_fill(&emulated);
  tiles_few_fill(&emulated);
  *end = &emulated;
#endif
}

#define FOR_EACH_TYPE(type)                                                             \
  for (ij_dtype type = (ij_dtype)0; type < IJ_DTYPE_COUNT; type = (ij_dtype)(type + 1)) \
    if (ij__dtype_in_integers(type))

/* Blocks of integers, all of it poison. */
static ij_ints *exact_ints(int64_t n) {
  ij_ints *p = aligned_alloc(64, (size_t)n * sizeof *p);
  if (!p) abort();
  memset(p, 0xff, (size_t)n * sizeof *p);
  return p;
}

static float *exact_floats(int64_t n) {
  float *p = (float *)(void *)exact(n * 4);
  memset(p, 0xff, (size_t)n * 4);
  return p;
}

/* ---- x as integers ---- */

enum { ORDINARY, ODD, NOT_FINITE, FEW_VALUES, TIES, MIXED, TINY, DENORMAL, HUGE_ONES, ZERO, N_KIND, N_USUAL = TIES };

/* One value of 256 is near 1 and some others just large enough for their low digits. */
static float few_values(int64_t i) {
  static const int small[] = {1, -1, 127, 128, -128, -129, 32767, 32768, 32895, 32896, -32896, -32897};
  if (i % IJ_INTS == 77) return 1.0f + (float)below(2);
  return below(16) == 0 ? (float)small[below(12)] * 0x1p-22f : 0.0f;
}

static float value_of(int kind, int64_t i) {
  switch (kind) {
    case FEW_VALUES: return few_values(i);
    case TIES: return i % IJ_INTS == 5 ? 1.5f : ((float)(below(1 << 23) - (1 << 22)) + 0.5f) * 0x1p-22f;
    case MIXED: return ldexpf(uniform(), (int)below(61) - 30);
    case TINY: return ldexpf(uniform(), -98 - (int)below(6) * (i / IJ_INTS % 2));
    case DENORMAL: return uniform() * 0x1p-126f;
    case HUGE_ONES: return below(64) == 0 ? 0x1.fffffep127f : uniform() * 0x1p127f;
    case ZERO: return below(2) ? 0.0f : -0.0f;
    default: return awkward(kind);
  }
}

/* Blocks whose largest value is at or around the least that has a scale of its own, or just below a power of two. */
static void put_largest(float *x, int64_t k) {
  static const float largest[] = {0x1.fbfffep-100f, 0x1.fcp-100f, 0x1p-101f, 0x1.fffffep-1f, 1.0f, 0x1.fcp-1f, 0x1.fbfffep-1f, 0x1p127f};
  for (int64_t i = 0; i < k; i++) {
    const float top = largest[i / IJ_INTS % 8];
    x[i] = below(9) == 0 ? (below(2) ? top : -top) : uniform() * top * 0.99f;
  }
}

static bool same_ints(const ij_ints *a, const ij_ints *b) {
  const bool scale = memcmp(&a->scale, &b->scale, sizeof a->scale) == 0 || (isnan(a->scale) && isnan(b->scale));
  size_t at;
  const bool sums = same_bits(a->sum, b->sum, IJ_INTS / 32, &at) && same_bits(a->half, b->half, IJ_INTS / 16, &at);
  return scale && sums && memcmp(a->digit, b->digit, sizeof a->digit) == 0;
}

/* Value i of a block; false when a digit is out of range. */
static bool int_value(const ij_ints *b, int i, int *x) {
  const int d0 = b->digit[0][i], d1 = b->digit[1][i], d2 = b->digit[2][i];
  *x = d2 * 65536 + d1 * 256 + d0;
  return d2 > -128;
}

/* Which may be infinite. */
static bool is_sum(float f, int sum, double scale) { return isnan(scale) ? isnan(f) : f == (float)((double)(float)sum * scale); }

static bool ints_by_double(const ij_ints *b, const float *x, int64_t n) {
  const double scale = int_scale(x, n);
  if (isnan(scale) != isnan(b->scale) || (!isnan(scale) && (double)b->scale != scale)) return false;
  int sum[16] = {0};
  for (int i = 0, v; i < IJ_INTS; i++) {
    if (!int_value(b, i, &v) || v != (isnan(scale) || i >= n ? 0 : nearbyint((double)x[i] / scale))) return false;
    sum[i / 16] += v;
  }
  for (int h = 0; h < 16; h++) {
    if (!is_sum(b->half[h], sum[h], scale)) return false;
    if (h % 2 && !is_sum(b->sum[h / 2], sum[h - 1] + sum[h], scale)) return false;
  }
  return true;
}

/* What lies there before is one thing or another, so that a byte left alone is seen. */
static void check_to_ints(const float *x, int64_t k, int kind) {
  const int64_t n = ij__div_up(k, IJ_INTS);
  ij_ints *want = exact_ints(n), *got = exact_ints(n);
  ij__kernels_get(IJ_LEVEL_SCALAR)->to_ints(want, x, k);
  for (int64_t i = 0; i < n; i++) {
    if (!ints_by_double(&want[i], x + i * IJ_INTS, IJ_MIN(k - i * IJ_INTS, (int64_t)IJ_INTS))) {
      TEST_FAIL("scalar: block %lld of %lld values of kind %d is not as defined", (long long)i, (long long)k, kind);
    }
  }
  FOR_EACH_TABLE(kernels) {
    memset(got, below(2) ? 0xff : 0x55, (size_t)n * sizeof *got);
    kernels->to_ints(got, x, k);
    for (int64_t i = 0; i < n; i++) {
      if (same_ints(&want[i], &got[i])) continue;
      TEST_FAIL("%s: block %lld of %lld values of kind %d differs", ij__level_name(kernels->level), (long long)i, (long long)k, kind);
      break;
    }
  }
  free(want);
  free(got);
}

static void x_as_integers(void) {
  for (int kind = 0; kind <= N_KIND; kind++) {
    for (int round = 0; round < TEST_THIN(60, 12); round++) {
      const int64_t k = round % 3 ? 1 + below(1100) : IJ_INTS * (1 + below(8)), from = below(3);
      float *x = exact_floats(from + k);
      for (int64_t i = 0; i < k && kind < N_KIND; i++) x[from + i] = value_of(kind, i);
      if (kind == N_KIND) put_largest(x + from, k);
      check_to_ints(x + from, k, kind);
      free(x);
    }
  }
}

/* ---- products ---- */

typedef struct int_case {
  ij_matmul m; /* without ints and y */
  ij_dtype type;
  int64_t r0, r1, n_x; /* rows of x, of which m.rows chooses */
  uint8_t *w, *scales, *biases;
  float *x, *want;     /* [n][r1] */
  int *rows;
} int_case;

static int64_t int_blocks(int64_t k) { return ij__div_up(k, (int64_t)IJ_INTS); }

static int64_t groups_of(const int_case *c) { return ij__dtype_is_split(c->type) ? c->m.k / c->m.group : 0; }

static void fill_weights(int_case *c, int kind) {
  const int64_t row_bytes = ij__dtype_row_bytes(c->type, c->m.k);
  for (int64_t r = 0; r < c->r1; r++) {
    uint8_t *row = c->w + r * c->m.w_stride;
    if (!ij__dtype_is_split(c->type)) {
      fill_blocks(row, c->m.k, c->type, kind);
      continue;
    }
    for (int64_t i = 0; i < row_bytes; i++) row[i] = (uint8_t)test_random(&rng);
    fill_side(c->scales + r * c->m.side_stride, groups_of(c), c->m.side_dtype, kind);
    fill_side(c->biases + r * c->m.side_stride, groups_of(c), c->m.side_dtype, kind);
  }
}

/* n values, or of types that need no whole blocks sometimes others. */
static int64_t some_k(ij_dtype type, int64_t n) {
  return type != IJ_DTYPE_AFFINE4 || below(3) == 0 ? n : IJ_MAX(n + 32 * (below(15) - 7), (int64_t)32);
}

/* Where rows lie: strides, and of affine types a group of which k is a multiple and, mostly, sides of two bytes. */
static void choose_layout(ij_matmul *m, ij_dtype type) {
  m->w_stride = ij__dtype_row_bytes(type, m->k) + (below(2) ? below(200) : 0);
  if (!ij__dtype_is_affine(type)) return;
  static const ij_dtype sides[] = {IJ_DTYPE_BF16, IJ_DTYPE_F16, IJ_DTYPE_BF16, IJ_DTYPE_F16, IJ_DTYPE_F32};
  do m->group = 32 << below(3);
  while (m->k % m->group != 0);
  m->side_dtype = sides[below(IJ_COUNT_OF(sides))];
  m->side_stride = m->k / m->group * side_bytes(m->side_dtype) + (below(2) ? below(70) : 0);
}

/* Buffers of exactly the bytes of the rows, poison between them. */
static void new_weights(int_case *c, int kind) {
  const int64_t size = (c->r1 - 1) * c->m.w_stride + ij__dtype_row_bytes(c->type, c->m.k);
  const int64_t side = groups_of(c) == 0 ? 0 : (c->r1 - 1) * c->m.side_stride + groups_of(c) * side_bytes(c->m.side_dtype);
  c->w = exact(size);
  memset(c->w, 0xff, (size_t)size);
  c->scales = exact(side);
  c->biases = exact(side);
  memset(c->scales, 0xff, (size_t)side);
  memset(c->biases, 0xff, (size_t)side);
  c->m.w = c->w;
  c->m.scales = side > 0 ? c->scales : NULL;
  c->m.biases = side > 0 ? c->biases : NULL;
  fill_weights(c, kind == NOT_FINITE ? 2 : 0);
}

/* The scalar product, one token at a time. */
static void fill_want(int_case *c) {
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  ij_ints *ints = exact_ints(int_blocks(c->m.k));
  for (int64_t t = 0; t < c->m.n; t++) {
    ij_matmul m = c->m;
    ref->to_ints(ints, m.x + (m.rows ? m.rows[t] : t) * m.ldx, m.k);
    m.n = 1;
    m.rows = NULL;
    m.x = NULL;
    m.ints = ints;
    m.y = c->want + t * c->r1;
    ref->matmul[c->type](&m, c->r0, c->r1, scratch);
  }
  free(ints);
}

static int_case new_case_like(const ij_matmul *layout, ij_dtype type, int64_t r0, int64_t r1, bool listed, int kind) {
  const int64_t n = layout->n, k = layout->k;
  int_case c = {.m = *layout, .type = type, .r0 = r0, .r1 = r1, .n_x = n + 3 * listed};
  new_weights(&c, kind);
  c.m.ldx = k + below(4);
  c.x = exact_floats((c.n_x - 1) * c.m.ldx + k);
  for (int64_t i = 0; i < c.n_x * k; i++) c.x[i / k * c.m.ldx + i % k] = value_of(kind, i);
  c.m.x = c.x;
  c.rows = (int *)(void *)exact(n * (int64_t)sizeof *c.rows);
  for (int64_t t = 0; t < n; t++) c.rows[t] = (int)below(c.n_x);
  c.m.rows = listed ? c.rows : NULL;
  c.want = exact_floats(n * r1);
  fill_want(&c);
  return c;
}

static int_case new_case(ij_dtype type, int64_t n, int64_t k, int64_t r0, int64_t r1, bool listed, int kind) {
  ij_matmul layout = {.n = n, .k = k};
  choose_layout(&layout, type);
  return new_case_like(&layout, type, r0, r1, listed, kind);
}

static void free_case(int_case *c) {
  free(c->w);
  free(c->scales);
  free(c->biases);
  free(c->x);
  free(c->rows);
  free(c->want);
}

static ij_ints *ints_of(const ij_kernels *k, const int_case *c, int64_t ld) {
  const int64_t n_block = int_blocks(c->m.k);
  ij_ints *ints = exact_ints((c->n_x - 1) * ld + n_block);
  for (int64_t t = 0; t < c->n_x; t++) k->to_ints(ints + t * ld, c->x + t * c->m.ldx, c->m.k);
  return ints;
}

/* Rows [r0, r1) by m are those of c; other columns of y stay as they are. */
static bool check_product(const ij_kernels *k, const int_case *c, const ij_matmul *how, int64_t r0, int64_t r1) {
  ij_matmul m = *how;
  m.ldy = c->r1 + below(3);
  const int64_t n_y = (m.n - 1) * m.ldy + c->r1;
  float *y = exact_floats(n_y), *want = exact_floats(n_y);
  for (int64_t i = 0; i < n_y; i++) y[i] = want[i] = 12345.0f;
  for (int64_t t = 0; t < m.n; t++) memcpy(want + t * m.ldy + r0, c->want + t * c->r1 + r0, (size_t)(r1 - r0) * sizeof *want);
  for (size_t i = 0; i < IJ_MATMUL_SCRATCH; i += 97) scratch[i] = NAN;
  m.y = y;
  k->matmul[c->type](&m, r0, r1, scratch);
  size_t at = 0;
  const bool same = same_bits(y, want, (size_t)n_y, &at);
  if (!same) {
    TEST_FAIL("%s %s n %lld k %lld rows [%lld, %lld) stride %lld%s%s%s: y[%lld][%lld] is %a, expected %a", ij__level_name(k->level),
              ij__dtype_name(c->type), (long long)m.n, (long long)m.k, (long long)r0, (long long)r1, (long long)m.w_stride,
              m.ints ? ", ints" : "", m.rows ? ", listed" : "", m.x_room ? ", room" : "", (long long)((int64_t)at / m.ldy),
              (long long)((int64_t)at % m.ldy), (double)y[at], (double)want[at]);
  }
  free(y);
  free(want);
  return same;
}

/* Rows from r on come next. */
static void announce_rows(ij_matmul *m, const int_case *c, int64_t r, int64_t n, int64_t tokens) {
  m->w_next = c->w + r * m->w_stride;
  m->scales_next = m->scales ? c->scales + r * m->side_stride : NULL;
  m->biases_next = m->biases ? c->biases + r * m->side_stride : NULL;
  m->n_next = n;
  m->next_tokens = tokens;
}

/* At once, and in two calls of a loop of which the first announces the second. */
static bool check_cuts(const ij_kernels *k, const int_case *c, ij_matmul m) {
  bool ok = check_product(k, c, &m, c->r0, c->r1);
  const int64_t middle = c->r0 + below(c->r1 - c->r0 + 1);
  m.x_room = room;
  m.loop = ++n_loop;
  announce_rows(&m, c, middle, c->r1 - middle, m.n);
  ok = check_product(k, c, &m, c->r0, middle) && ok;
  m.w_next = NULL;
  return check_product(k, c, &m, middle, c->r1) && ok;
}

/* With integers from the caller, who then need not have x; and with x alone, which may be listed from so many tokens on. */
static bool check_ways(const int_case *c) {
  bool ok = true;
  FOR_EACH_TABLE(k) {
    ij_matmul m = c->m;
    if (!m.rows || m.n >= IJ_LISTED_MIN) ok = check_cuts(k, c, m) && ok;
    m.ld_ints = int_blocks(m.k) + below(3);
    ij_ints *ints = ints_of(k, c, m.ld_ints);
    m.ints = ints;
    m.x = NULL;
    ok = check_cuts(k, c, m) && ok;
    free(ints);
  }
  return ok;
}

static bool check_case(ij_dtype type, int64_t n, int64_t k, int64_t r0, int64_t r1, bool listed, int kind) {
  int_case c = new_case(type, n, k, r0, r1, listed, kind);
  const bool ok = check_ways(&c);
  free_case(&c);
  return ok;
}

/* Rows that are shorter than a line, or than a block, or end with a part of one; in all groups, with sides of all types. */
static void parts_of_blocks(void) {
  for (int64_t k = 32; k <= TEST_THIN(1536, 800); k += 32) {
    for (int i = 0; i < 6; i++) {
      if (!check_case(IJ_DTYPE_AFFINE4, 1 + below(i % 2 ? 4 : 40), k, below(3), 4 + below(60), below(2), i % N_USUAL)) return;
    }
  }
}

static void every_number_of_rows_and_tokens(void) {
  FOR_EACH_TYPE(type) {
    for (int64_t rows = 1; rows <= 70; rows++) {
      for (int64_t n = 1 + rows % TEST_THIN(1, 4); n <= 9; n += TEST_THIN(1, 4)) {
        const int64_t r0 = below(3);
        const int64_t k = some_k(type, IJ_INTS * (1 + below(3)));
        if (!check_case(type, n, k, r0, r0 + rows, below(2), (int)below(N_USUAL))) return;
      }
    }
  }
}

static void lists_of_any_length(void) {
  FOR_EACH_TYPE(type) {
    for (int64_t n = 1; n <= 40; n++) {
      if (!check_case(type, n, some_k(type, 512), below(3), 5 + below(40), true, (int)(n % N_USUAL))) return;
    }
  }
}

static void more_tokens_than_a_portion(void) {
  static const int64_t ns[] = {512, 513, 1024, 1025, 1100};
  FOR_EACH_TYPE(type) {
    for (size_t i = 0; i < IJ_COUNT_OF(ns); i += TEST_THIN(1, 2)) {
      check_case(type, ns[i], some_k(type, IJ_INTS), 1, 2 + 9 * (int64_t)i + below(9), i % 2, ORDINARY);
    }
    check_case(type, 1030, 1024, 0, 35, false, ORDINARY); /* and more x than there is room for */
    check_case(type, 300, 1024, 0, 3, false, ODD);
  }
}

/* So long that they are multiplied in parts. */
static void long_rows(void) {
  static const int64_t ks[] = {8192, 8448, 16384, 20480}, ns[] = {1, 3, 9};
  FOR_EACH_TYPE(type) {
    for (size_t i = 0; i < IJ_COUNT_OF(ks); i++) {
      for (size_t j = 0; j < IJ_COUNT_OF(ns); j++) {
        check_case(type, ns[j], some_k(type, ks[i]), 0, 3, false, ODD);
        check_case(type, ns[j], some_k(type, ks[i]), 1, 30 + below(20), j == 1, ORDINARY);
      }
    }
    check_case(type, 2, 1500 * IJ_INTS, 0, 2, false, ORDINARY); /* more than there is room for */
  }
}

static void products_by_double(void) {
  FOR_EACH_TYPE(type) {
    for (int kind = 0; kind < N_KIND; kind++) {
      for (int i = 0; i < TEST_THIN(20, 5); i++) {
        int_case c = new_case(type, 4, some_k(type, IJ_INTS * (1 + below(6))), 0, 8, i % 2, kind);
        c.m.y = c.want;
        c.m.ldy = c.r1;
        const bool ok = check_int_sums(&c.m, type, 0, c.r1);
        free_case(&c);
        if (!ok) break;
      }
    }
  }
}

/* Where x has one value, a power of two, in a row, nothing is rounded but that value of w: it comes out as it is decoded. */
static void one_value_gives_its_weight(void) {
  enum { K = 2 * IJ_INTS, ROWS = 21 };
  FOR_EACH_TYPE(type) {
    int_case c = new_case(type, K, K, 0, ROWS, false, ZERO);
    float *decoded = exact_floats(ROWS * K), *y = exact_floats(K * ROWS);
    for (int64_t r = 0; r < ROWS; r++) {
      ij_stretch s = ij__stretch_of(&c.m, r);
      s.n = K;
      ij__kernels_get(IJ_LEVEL_SCALAR)->decode[type](decoded + r * K, &s);
    }
    for (int64_t i = 0; i < K; i++) c.x[i * c.m.ldx + i] = i % 2 ? -1.0f : 1.0f;
    c.m.y = y;
    c.m.ldy = ROWS;
    FOR_EACH_TABLE(k) {
      int64_t wrong = 0;
      k->matmul[type](&c.m, 0, ROWS, scratch);
      for (int64_t i = 0; i < K * ROWS; i++) wrong += y[i] != decoded[i % ROWS * K + i / ROWS] * c.x[i / ROWS * (c.m.ldx + 1)];
      CHECK_INT(wrong, 0);
    }
    free(decoded);
    free(y);
    free_case(&c);
  }
}

/* ---- what a room remembers ---- */

/* A call: rows [r0, r1) of one of two matrices by the first n tokens. */
typedef struct int_call {
  int matrix;
  int64_t r0, r1, n;
} int_call;

static int_call random_call(const int_case c[2]) {
  int_call a = {.matrix = (int)below(2), .n = 1 + below(c[0].m.n)};
  a.r0 = below(c[0].r1);
  a.r1 = a.r0 + 1 + below(c[0].r1 - a.r0);
  return a;
}

/* Mostly what comes next; or another matrix, other rows, another number of them or of tokens; or nothing. */
static void announce(ij_matmul *m, const int_case c[2], int_call next) {
  const int64_t how = below(10);
  if (how == 0) return;
  if (how == 1) next.matrix = !next.matrix;
  if (how == 2) next.r0 = below(next.r1);
  if (how == 3) next.r1 = next.r0 + 1 + below(c[0].r1 - next.r0);
  if (how == 4) next.n = 1 + below(c[0].m.n);
  announce_rows(m, &c[next.matrix], next.r0, next.r1 - next.r0, next.n);
}

/* A call with the same room and number of a type that is not in integers. */
static void other_call(const ij_kernels *k, const int_case *c, uint64_t loop) {
  enum { BYTES = 176, ROWS = 4, TOKENS = 9 };
  uint8_t w[ROWS * BYTES];
  float y[TOKENS * ROWS];
  ij_matmul m = {.w = w, .w_stride = BYTES, .x = c->x, .ldx = c->m.ldx, .y = y, .ldy = ROWS, .n = TOKENS, .k = IJ_INTS};
  m.x_room = room;
  m.loop = loop;
  fill_blocks(w, ROWS * IJ_INTS, IJ_DTYPE_Q5_K, 0);
  k->matmul[IJ_DTYPE_Q5_K](&m, 0, ROWS, scratch);
}

/* A worker's calls, in loops between which weights change where they are. */
static void check_calls(const ij_kernels *k, int_case c[2], int n_call) {
  const int64_t ld = int_blocks(c[0].m.k);
  ij_ints *ints[2] = {ints_of(k, &c[0], ld), ints_of(k, &c[1], ld)};
  int_call now = random_call(c);
  n_loop++;
  for (int i = 0; i < n_call; i++) {
    const int_call next = below(8) ? random_call(c) : now;
    ij_matmul m = c[now.matrix].m;
    m.n = now.n;
    m.x_room = room;
    m.loop = n_loop;
    announce(&m, c, next);
    if (below(4)) {
      m.ints = ints[now.matrix];
      m.ld_ints = ld;
    }
    if (!check_product(k, &c[now.matrix], &m, now.r0, now.r1)) break;
    if (below(5) == 0) other_call(k, &c[0], n_loop);
    const int64_t few = now.r0 + 1 + below(4);
    m.w_next = NULL;
    if (below(5) == 0 && !check_product(k, &c[now.matrix], &m, now.r0, IJ_MIN(now.r1, few))) break; /* in between */
    if (below(8) == 0) {
      n_loop++;
      fill_weights(&c[next.matrix], 0);
      fill_want(&c[next.matrix]);
    }
    now = next;
  }
  free(ints[0]);
  free(ints[1]);
}

static void rooms_remember_only_what_holds(void) {
  static const int64_t ks[] = {256, 1024, 8448};
  FOR_EACH_TYPE(type) {
    for (size_t i = 0; i < IJ_COUNT_OF(ks); i++) {
      ij_matmul layout = {.n = 9, .k = some_k(type, ks[i])};
      choose_layout(&layout, type);
      int_case c[2] = {new_case_like(&layout, type, 0, 70, false, ORDINARY), new_case_like(&layout, type, 0, 70, false, ORDINARY)};
      FOR_EACH_TABLE(k) check_calls(k, c, i == 2 ? TEST_THIN(25, 8) : TEST_THIN(300, 60));
      free_case(&c[0]);
      free_case(&c[1]);
    }
  }
}

/* What was announced is called for in another shape: every second row, or the first half of each. */
static void rooms_know_shapes(void) {
  enum { ROWS = 36 };
  FOR_EACH_TYPE(type) {
    for (int64_t n = 1; n <= 9; n += 4) {
      int_case c = new_case(type, n, 512, 0, 2 * ROWS, false, ORDINARY), views[2] = {c, c};
      views[0].m.w_stride *= 2;
      views[0].m.side_stride *= 2;
      views[1].m.k /= 2;
      for (int i = 0; i < 2; i++) {
        views[i].r1 = ROWS;
        views[i].want = exact_floats(n * ROWS);
        fill_want(&views[i]);
      }
      FOR_EACH_TABLE(k) {
        for (int i = 0; i < 2; i++) {
          ij_matmul m = c.m;
          m.x_room = room;
          m.loop = ++n_loop;
          announce_rows(&m, &c, 0, ROWS, n);
          CHECK(check_product(k, &c, &m, 0, c.r1));
          m.w_stride = views[i].m.w_stride;
          m.side_stride = views[i].m.side_stride;
          m.k = views[i].m.k;
          CHECK(check_product(k, &views[i], &m, 0, ROWS));
        }
      }
      free(views[0].want);
      free(views[1].want);
      free_case(&c);
    }
  }
}

/* The codes that were announced, with other scales and biases. */
static void rooms_know_sides(void) {
  enum { ROWS = 36 };
  for (int64_t n = 1; n <= 9; n += 4) {
    int_case c = new_case(IJ_DTYPE_AFFINE4, n, 512, 0, ROWS, false, ORDINARY), other = c;
    other.m.scales = c.biases;
    other.m.biases = c.scales;
    other.want = exact_floats(n * ROWS);
    fill_want(&other);
    FOR_EACH_TABLE(k) {
      ij_matmul m = c.m;
      m.x_room = room;
      m.loop = ++n_loop;
      announce_rows(&m, &c, 0, ROWS, n);
      CHECK(check_product(k, &c, &m, 0, ROWS));
      m.scales = other.m.scales;
      m.biases = other.m.biases;
      CHECK(check_product(k, &other, &m, 0, ROWS));
    }
    free(other.want);
    free_case(&c);
  }
}

/* Weights that were announced and have changed by the next loop, which begins with them. */
static void rooms_forget_with_the_loop(void) {
  FOR_EACH_TYPE(type) {
    for (int64_t n = 1; n <= 9; n += 4) {
      int_case c = new_case(type, n, 512, 0, 64, false, ORDINARY);
      FOR_EACH_TABLE(k) {
        ij_matmul m = c.m;
        m.x_room = room;
        announce_rows(&m, &c, 0, c.r1, n);
        for (int i = 0; i < 4; i++) {
          m.loop = ++n_loop;
          CHECK(check_product(k, &c, &m, 0, c.r1));
          CHECK(check_product(k, &c, &m, 0, c.r1)); /* now from what is remembered */
          fill_weights(&c, 0);
          fill_want(&c);
        }
        m.loop = 0; /* nothing is remembered */
        CHECK(check_product(k, &c, &m, 0, c.r1));
        fill_weights(&c, 0);
        fill_want(&c);
        CHECK(check_product(k, &c, &m, 0, c.r1));
      }
      free_case(&c);
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1) rng = strtoull(argv[1], NULL, 0);
  printf("seed %llu\n", (unsigned long long)rng);
  scratch = ij__alloc_zero(IJ_MATMUL_SCRATCH, sizeof *scratch);
  room = ij__alloc_zero(1, sizeof *room);
  if (!scratch || !room) return 1;
  list_tables();
  RUN(x_as_integers);
  RUN(products_by_double);
  RUN(one_value_gives_its_weight);
  RUN(parts_of_blocks);
  RUN(every_number_of_rows_and_tokens);
  RUN(lists_of_any_length);
  RUN(more_tokens_than_a_portion);
  RUN(long_rows);
  RUN(rooms_remember_only_what_holds);
  RUN(rooms_know_shapes);
  RUN(rooms_know_sides);
  RUN(rooms_forget_with_the_loop);
  ij__free(scratch);
  ij__free(room);
  return test_report();
}
