/* test_elem.c: every entry but matmul and the elementary functions: each level against the scalar definition bit for bit.
 *
 * Inputs are exact allocations at odd offsets, so that the address sanitizer sees any read past an end; outputs lie between guard
 * bands that are compared too. How the scalar definition stands to the real numbers is in test_elem_exact.c.
 */
#include "kernels/kernels.h"
#include "test.h"

#define GUARD 32

static uint64_t seed = 20240607;
static const ij_kernels *levels[IJ_LEVEL_COUNT];
static int n_level;

static bool same(float a, float b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

/* Ways to draw a number. AWKWARD_NAN adds infinities and NaN to the awkward finite values. */
enum { PLAIN, WIDE, AWKWARD, AWKWARD_NAN, N_KIND };

static float draw(int kind) {
  static const float awkward[] = {0.0f,  -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, -0x1.fffffcp-127f, 3.40282347e38f, -3.40282347e38f, 1.0f,
                                  -1.0f, 1e-30f, -1e30f,   88.5f,      -87.5f,    0x1.8p-130f,       INFINITY,       -INFINITY,       NAN};
  uint64_t z = test_random(&seed);
  float unit = (float)(z >> 40) * 0x1p-23f - 1.0f;
  int n_finite = (int)(sizeof awkward / sizeof awkward[0]) - 3;
  if (kind == WIDE) return ldexpf(unit, (int)(z & 0xff) - 128);
  if (kind >= AWKWARD && (z & 3) != 0) return awkward[(z >> 8) % (uint64_t)(n_finite + (kind == AWKWARD_NAN ? 3 : 0))];
  return unit * 4.0f;
}

/* n drawn floats that end where their allocation ends, `offset` floats into it. free(base) when done. */
typedef struct input {
  float *base, *p;
} input;

static input make_input(int64_t n, int offset, int kind) {
  if (n < 1 || n > 1 << 24) abort();
  input in = {malloc((size_t)(n + offset) * sizeof(float)), NULL};
  if (!in.base) abort();
  in.p = in.base + offset;
  for (int64_t i = 0; i < n; i++) in.p[i] = draw(kind);
  return in;
}

typedef struct output {
  float *base, *p;
  int64_t n_all;
} output;

static output make_output(int64_t n, int offset, const float *start) {
  output out = {NULL, NULL, n + 2 * GUARD + offset};
  out.base = malloc((size_t)out.n_all * sizeof(float));
  if (!out.base) abort();
  out.p = out.base + GUARD + offset;
  for (int64_t i = 0; i < out.n_all; i++) out.base[i] = -1234.5f - (float)i;
  if (start) memcpy(out.p, start, (size_t)n * sizeof(float));
  return out;
}

/* Compares two outputs, guard bands included. */
static void compare(const char *name, const ij_kernels *k, const output *got, const output *want, int64_t n, int kind) {
  for (int64_t i = 0; i < want->n_all; i++) {
    if (same(got->base[i], want->base[i])) continue;
    TEST_FAIL("%s, level %s, n %lld, kind %d: element %lld is %a, scalar says %a", name, ij__level_name(k->level), (long long)n, kind,
              (long long)(i - (want->p - want->base)), (double)got->base[i], (double)want->base[i]);
    return;
  }
}

/* Entries of one shape: y (in and out), a and b, n long. Reductions put their result into y[0]. */
typedef void entry_fn(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n);

static void run_rms_norm(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) { k->rms_norm(y, a, b, 1e-6f, n); }
static void run_swiglu(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) { k->swiglu(y, a, b, n); }
static void run_swiglu_pairs(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  float *gu = malloc(2 * (size_t)n * sizeof *gu);
  for (int64_t i = 0; i < n; i++) {
    gu[2 * i] = a[i];
    gu[2 * i + 1] = b[i];
  }
  k->swiglu_pairs(y, gu, n);
  free(gu);
}
static void run_merge(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) { k->merge(y, b[0], a, b[n - 1], n); }
static void run_axpy(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) { k->axpy(y, b[0], a, n); }
static void run_scale(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) { k->scale(y, a, b[0], n); }
static void run_dot(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) { y[0] = k->dot(a, b, n); }

static void run_add(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  k->add(y, a, n);
}

static void run_sum(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  y[0] = k->sum(a, n);
}

static void run_sum_exp(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) { y[0] = k->sum_exp(a, b[0], n); }

/* The same as in three steps, which is what callers may count on. */
static void run_sum_exp_apart(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  float *e = malloc((size_t)n * sizeof *e);
  if (!e) abort();
  for (int64_t i = 0; i < n; i++) e[i] = a[i] - b[0];
  k->vexp(e, e, n);
  y[0] = k->sum(e, n);
  free(e);
}

static void run_all_finite(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  y[0] = k->all_finite(a, n) ? 1.0f : 0.0f;
}

static void run_max(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(a[i])) return; /* outside the contract */
  }
  y[0] = k->max(a, n);
}

static void run_vexp(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  k->vexp(y, a, n);
}

static void run_vlog(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  k->vlog(y, a, n);
}

static void run_vtanh(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  k->vtanh(y, a, n);
}

static void run_verf(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  k->verf(y, a, n);
}

static void run_vsigmoid(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  k->vsigmoid(y, a, n);
}

static void run_gelu(const ij_kernels *k, float *y, const float *a, const float *b, int64_t n) {
  (void)b;
  k->gelu(y, a, n);
}

/* in_place: y may be the input a. */
static const struct {
  const char *name;
  entry_fn *run;
  bool in_place;
} entries[] = {{"rms_norm", run_rms_norm, true}, {"swiglu", run_swiglu, true}, {"swiglu_pairs", run_swiglu_pairs, false}, {"merge", run_merge, false},
               {"axpy", run_axpy, false},        {"scale", run_scale, true},   {"dot", run_dot, false},
               {"add", run_add, false},          {"sum", run_sum, false},      {"all_finite", run_all_finite, false},
               {"max", run_max, false},          {"vexp", run_vexp, true},     {"vlog", run_vlog, true},
               {"vtanh", run_vtanh, true},       {"verf", run_verf, true},     {"vsigmoid", run_vsigmoid, true},
               {"gelu", run_gelu, true},         {"sum_exp", run_sum_exp, false}};

static void check_entry(size_t e, int64_t n, int kind) {
  int offset = (int)(test_random(&seed) % 4);
  input a = make_input(n, offset, kind), b = make_input(n, (offset + 1) % 4, kind), c = make_input(n, 0, kind);
  output want = make_output(n, offset, c.p);
  entries[e].run(ij__kernels_get(IJ_LEVEL_SCALAR), want.p, a.p, b.p, n);
  for (int i = 0; i < n_level; i++) {
    output got = make_output(n, offset, c.p);
    entries[e].run(levels[i], got.p, a.p, b.p, n);
    compare(entries[e].name, levels[i], &got, &want, n, kind);
    if (entries[e].in_place) {
      output same_place = make_output(n, offset, a.p);
      entries[e].run(levels[i], same_place.p, same_place.p, b.p, n);
      compare(entries[e].name, levels[i], &same_place, &want, n, kind);
      free(same_place.base);
    }
    free(got.base);
  }
  free(want.base);
  free(a.base);
  free(b.base);
  free(c.base);
}

static void entries_of_one_shape(void) {
  for (size_t e = 0; e < IJ_COUNT_OF(entries); e++) {
    for (int kind = 0; kind < N_KIND; kind++) {
      for (int64_t n = 1; n <= 100; n++) check_entry(e, n, kind);
      check_entry(e, 1000, kind);
      check_entry(e, 6144, kind);
    }
  }
}

/* Callers may count on it. NaN is outside of this: which one comes out is nobody's promise. */
static void sum_exp_is_its_three_steps(void) {
  for (int64_t n = 1; n <= 1000; n += 1 + n / 7) {
    input a = make_input(n, (int)(n % 4), PLAIN);
    for (int i = 0; i < n_level; i++) {
      float whole, steps;
      run_sum_exp(levels[i], &whole, a.p, a.p, n);
      run_sum_exp_apart(levels[i], &steps, a.p, a.p, n);
      CHECK(same(whole, steps));
    }
    free(a.base);
  }
}

static void check_conv(int n_tap, int64_t n, int kind) {
  int64_t ldw = n + n_tap % 3;
  input rows[8], w = make_input(ldw * n_tap, n_tap % 4, kind);
  const float *u[8];
  for (int j = 0; j < n_tap; j++) {
    rows[j] = make_input(n, j % 4, kind);
    u[j] = rows[j].p;
  }
  output want = make_output(n, 1, NULL);
  ij__kernels_get(IJ_LEVEL_SCALAR)->short_conv(want.p, u, w.p, ldw, n_tap, n);
  for (int i = 0; i < n_level; i++) {
    output got = make_output(n, 1, NULL);
    levels[i]->short_conv(got.p, u, w.p, ldw, n_tap, n);
    compare("short_conv", levels[i], &got, &want, n, kind);
    free(got.base);
  }
  for (int j = 0; j < n_tap; j++) free(rows[j].base);
  free(w.base);
  free(want.base);
}

static void short_conv(void) {
  for (int kind = 0; kind < N_KIND; kind++) {
    for (int n_tap = 2; n_tap <= 8; n_tap++) {
      for (int64_t n = 1; n <= 100; n += 1 + n / 20) check_conv(n_tap, n, kind);
    }
  }
}

/* Stored types: every 16-bit pattern widened, and floats of every kind narrowed, compared as bytes. */
static void check_convert(ij_dtype t, int64_t n, int kind) {
  input x = make_input(n, 1, kind);
  size_t n_guarded = (size_t)(n + GUARD) * sizeof(uint16_t);
  uint16_t *h = malloc((size_t)n * sizeof *h), *h_want = malloc(n_guarded), *h_got = malloc(n_guarded);
  output want = make_output(n, 3, NULL);
  const ij_kernels *scalar = ij__kernels_get(IJ_LEVEL_SCALAR);
  if (!h || !h_want || !h_got) abort();
  for (int64_t i = 0; i < n; i++) h[i] = (uint16_t)(test_random(&seed) >> 48);
  memset(h_want, 0x5a, n_guarded);
  scalar->widen[t](want.p, h, n);
  scalar->narrow[t](h_want, x.p, n);
  for (int i = 0; i < n_level; i++) {
    output got = make_output(n, 3, NULL);
    levels[i]->widen[t](got.p, h, n);
    compare(ij__dtype_name(t), levels[i], &got, &want, n, kind);
    memset(h_got, 0x5a, n_guarded);
    levels[i]->narrow[t](h_got, x.p, n);
    if (memcmp(h_got, h_want, n_guarded) != 0) {
      TEST_FAIL("narrow to %s, level %s, n %lld, kind %d differs", ij__dtype_name(t), ij__level_name(levels[i]->level), (long long)n, kind);
    }
    free(got.base);
  }
  free(x.base);
  free(want.base);
  free(h);
  free(h_want);
  free(h_got);
}

static void conversions(void) {
  for (int kind = 0; kind < N_KIND; kind++) {
    for (int64_t n = 1; n <= 100; n++) {
      check_convert(IJ_DTYPE_BF16, n, kind);
      check_convert(IJ_DTYPE_F16, n, kind);
    }
    check_convert(IJ_DTYPE_BF16, 20000, kind);
    check_convert(IJ_DTYPE_F16, 20000, kind);
  }
}

static void rel_bias(void) {
  static const int widths[] = {1, 2, 3, 16, 37};
  for (int kind = 0; kind < N_KIND; kind++) {
    for (size_t w = 0; w < IJ_COUNT_OF(widths); w++) {
      int d_rel = widths[w];
      int64_t ld = IJ_ATTN_BLOCK + 5;
      input r = make_input(d_rel, 1, kind), bank = make_input((d_rel - 1) * ld + IJ_ATTN_BLOCK, 3, kind);
      output want = make_output(IJ_ATTN_BLOCK, 1, NULL);
      ij__kernels_get(IJ_LEVEL_SCALAR)->rel_bias(want.p, r.p, bank.p, ld, d_rel);
      for (int i = 0; i < n_level; i++) {
        output got = make_output(IJ_ATTN_BLOCK, 1, NULL);
        levels[i]->rel_bias(got.p, r.p, bank.p, ld, d_rel);
        compare("rel_bias", levels[i], &got, &want, d_rel, kind);
        free(got.base);
      }
      free(r.base);
      free(bank.base);
      free(want.base);
    }
  }
}

/* Scores and bias of the visible keys are plain or awkward finite numbers, those of the others anything. */
static void check_probs(int k0, int k1, int kind, bool with_bias) {
  input s = make_input(IJ_ATTN_BLOCK, 1, AWKWARD_NAN), bias = make_input(IJ_ATTN_BLOCK, 2, AWKWARD_NAN);
  for (int i = k0; i < k1; i++) {
    s.p[i] = kind == PLAIN ? 40.0f * draw(PLAIN) : fminf(fmaxf(draw(AWKWARD), -1e30f), 1e30f);
    bias.p[i] = draw(PLAIN);
  }
  float inv_d = 0.125f, tau = draw(PLAIN), max_want, sum_want;
  output want = make_output(IJ_ATTN_BLOCK, 1, s.p);
  ij__kernels_get(IJ_LEVEL_SCALAR)->attn_probs(want.p, with_bias ? bias.p : NULL, inv_d, tau, k0, k1, &max_want, &sum_want);
  for (int i = 0; i < n_level; i++) {
    float max_got, sum_got;
    output got = make_output(IJ_ATTN_BLOCK, 1, s.p);
    levels[i]->attn_probs(got.p, with_bias ? bias.p : NULL, inv_d, tau, k0, k1, &max_got, &sum_got);
    compare("attn_probs", levels[i], &got, &want, k0 * 100 + k1, kind);
    if (!same(max_got, max_want) || !same(sum_got, sum_want)) {
      TEST_FAIL("attn_probs [%d, %d): max %a, sum %a at level %s; scalar says %a, %a", k0, k1, (double)max_got, (double)sum_got,
                ij__level_name(levels[i]->level), (double)max_want, (double)sum_want);
    }
    free(got.base);
  }
  CHECK(sum_want >= 1.0f && sum_want <= (float)(k1 - k0));
  for (int i = 0; i < IJ_ATTN_BLOCK; i++) CHECK(i >= k0 && i < k1 ? want.p[i] <= 1.0f : same(want.p[i], 0.0f));
  free(s.base);
  free(bias.base);
  free(want.base);
}

static void attn_probs(void) {
  for (int k0 = 0; k0 < IJ_ATTN_BLOCK; k0++) {
    for (int k1 = k0 + 1; k1 <= IJ_ATTN_BLOCK; k1++) {
      check_probs(k0, k1, PLAIN, (k0 + k1) % 2 == 0);
      check_probs(k0, k1, AWKWARD, (k0 + k1) % 2 == 1);
    }
  }
}

/* A broken score must reach the result, whatever it does to the largest. */
static void nan_reaches_the_sum(void) {
  for (int level = 0; level <= n_level; level++) {
    const ij_kernels *k = level < n_level ? levels[level] : ij__kernels_get(IJ_LEVEL_SCALAR);
    for (int i = 3; i < 60; i++) {
      float s[IJ_ATTN_BLOCK], max, sum;
      for (int j = 0; j < IJ_ATTN_BLOCK; j++) s[j] = draw(PLAIN);
      s[i] = i % 2 ? NAN : INFINITY;
      k->attn_probs(s, NULL, 1.0f, 1.0f, 3, 60, &max, &sum);
      CHECK(isnan(sum));
    }
  }
}

static void check_pv(int n_q, int d, int kind) {
  int k0 = (int)(test_random(&seed) % IJ_ATTN_BLOCK), k1 = k0 + 1 + (int)(test_random(&seed) % (uint64_t)(IJ_ATTN_BLOCK - k0));
  int64_t ldp = IJ_ATTN_BLOCK + 1, ldv = d + 3, ldo = d + 2;
  input p = make_input((n_q - 1) * ldp + k1, 1, kind), v = make_input((k1 - 1) * ldv + d, 3, kind);
  int64_t n = (n_q - 1) * ldo + d;
  output want = make_output(n, 1, NULL);
  ij__kernels_get(IJ_LEVEL_SCALAR)->attn_pv(want.p, ldo, p.p, ldp, v.p, ldv, n_q, k0, k1, d);
  for (int i = 0; i < n_level; i++) {
    output got = make_output(n, 1, NULL);
    levels[i]->attn_pv(got.p, ldo, p.p, ldp, v.p, ldv, n_q, k0, k1, d);
    compare("attn_pv", levels[i], &got, &want, n_q * 1000 + d, kind);
    free(got.base);
  }
  free(p.base);
  free(v.base);
  free(want.base);
}

static void attn_pv(void) {
  static const int widths[] = {1, 7, 15, 16, 17, 31, 32, 33, 48, 64, 80, 96, 127, 128, 144, 192, 200, 256};
  for (int kind = 0; kind < N_KIND; kind++) {
    for (size_t w = 0; w < IJ_COUNT_OF(widths); w++) {
      for (int n_q = 1; n_q <= 8; n_q++) check_pv(n_q, widths[w], kind);
    }
    check_pv(64, 128, kind);
    check_pv(64, 64, kind);
  }
}

int main(void) {
  printf("seed %llu, levels: scalar", (unsigned long long)seed);
  for (int level = IJ_LEVEL_SCALAR + 1; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    if (k->level != (ij_level)level) continue;
    levels[n_level++] = k;
    printf(" %s", ij__level_name(k->level));
  }
  printf("\n");
  RUN(entries_of_one_shape);
  RUN(sum_exp_is_its_three_steps);
  RUN(short_conv);
  RUN(conversions);
  RUN(rel_bias);
  RUN(attn_probs);
  RUN(nan_reaches_the_sum);
  RUN(attn_pv);
  return test_report();
}
