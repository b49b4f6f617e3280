/* test_long.c: attention over several spans (IJ_ATTN_SPAN positions each), which short prompts never reach: the path that gives spans to
 * different workers, the plain one, and the same sums in double precision.
 */
#include "model/attn.h"
#include "tiny.h"

#define N_IDS (2 * IJ_ATTN_SPAN + 400) /* the last positions look at three spans */
#define CTX (3 * IJ_ATTN_SPAN)

static tiny t;
static int32_t ids[N_IDS];
static float *plain; /* [N_IDS, hidden] after the layer, one thread, as few steps as there can be */

static void setup(void) {
  cw_dims d = {16, 1, 8, 2, 2, 8, 4, 32, 100, 4, 16, 8, 4, 2, 40, {false}, {true}};
  tiny_build(&t, &d, IJ_DTYPE_F32, "text.model_max_length=100000\ntext.log_scaling_n_floor=4000\ntext.log_scaling_alpha=0.5\n");
  tiny_fill(&t, "model.llm.layers.0.mlp.global_scale", 0.0f); /* what is left of the layer is attention */
  for (int i = 0; i < 8; i++) tiny_values(&t, "model.llm.layers.0.attn.q_norm.weight")[i] *= 6.0f; /* so that weights differ widely */
  uint64_t seed = 3;
  for (int i = 0; i < N_IDS; i++) ids[i] = (int32_t)(test_random(&seed) % 38);
}

/* Evaluates ids [from, to) in steps of n; their residual stream after the layer goes to out. */
static void advance(ij_model *m, ij_session *s, int from, int to, int n, float *out) {
  float *trace = malloc(2 * (size_t)n * 16 * sizeof *trace);
  ij_err err;
  for (int at = from; at < to; at += n) {
    int rows = to - at < n ? to - at : n;
    ij_step_item item = {.session = s, .ids = ids + at, .n = rows, .trace = trace};
    CHECK_OK(ij_step(m, &item, 1, &err), err);
    memcpy(out + (int64_t)(at - from) * 16, trace + (int64_t)rows * 16, (size_t)rows * 16 * sizeof *out);
  }
  free(trace);
}

static void expect_plain(const float *got, int from, int to, const char *how, int a, int b) {
  for (int p = from; p < to; p++) {
    if (memcmp(got + (int64_t)(p - from) * 16, plain + (int64_t)p * 16, 16 * sizeof *got) == 0) continue;
    TEST_FAIL("%s (%d threads, %d rows): position %d has other bits: %.9g, expected %.9g", how, a, b, p, got[(int64_t)(p - from) * 16],
              plain[(int64_t)p * 16]);
    return;
  }
}

/* ----------------------------------------------------------------------------------------------------- in double precision */

typedef struct ref {
  double (*k)[2][8], (*v)[2][8]; /* [N_IDS] */
  double (*x)[16];               /* [N_IDS] normalized input of attention */
  double (*h)[16];               /* [N_IDS] after the embedding */
} ref;

static const float *weight(const char *name) {
  char full[96];
  snprintf(full, sizeof full, "model.llm.layers.0.%s", name);
  return tiny_values(&t, full);
}

static void ref_norm(double *y, const double *x, const float *gain, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  for (int i = 0; i < n; i++) y[i] = x[i] / sqrt(sum / n + 1e-5) * (double)gain[i];
}

static void ref_matmul(double *y, const float *w, const double *x, int rows, int cols) {
  for (int r = 0; r < rows; r++) {
    y[r] = 0;
    for (int c = 0; c < cols; c++) y[r] += (double)w[r * cols + c] * x[c];
  }
}

/* y = u[3] + sum over taps, where u[3] is the newest of four rows of 16 channels. */
static void ref_conv(double *y, double u[4][16], const float *w) {
  for (int c = 0; c < 16; c++) {
    y[c] = u[3][c];
    for (int j = 0; j < 4; j++) y[c] += (double)w[c * 4 + j] * u[j][c];
  }
}

static void ref_keys(ref *r, int p) {
  double raw[4][16] = {{0}}, out[16];
  for (int kind = 0; kind < 2; kind++) {
    for (int j = 0; j < 4; j++) {
      if (p - 3 + j >= 0) ref_matmul(raw[j], weight(kind ? "attn.wv_dv.weight" : "attn.wk_dv.weight"), r->x[p - 3 + j], 16, 16);
    }
    ref_conv(out, raw, weight(kind ? "attn.v_sconv.weight" : "attn.k_sconv.weight"));
    for (int h = 0; h < 2; h++) {
      if (kind) memcpy(r->v[p][h], out + 8 * h, sizeof r->v[p][h]);
      else ref_norm(r->k[p][h], out + 8 * h, weight("attn.k_norm.weight"), 8);
    }
  }
}

static void ref_attend(const ref *r, int p, double *y) {
  double q[64], rel[32], att[64] = {0};
  ref_matmul(q, weight("attn.wq_du.weight"), r->x[p], 64, 16);
  ref_matmul(rel, weight("attn.wr_du.weight"), r->x[p], 32, 16);
  double tau = 1 + 0.5 * log(fmax((p + 1) / 4000.0, 1));
  double *score = malloc((size_t)(p + 1) * sizeof *score);
  for (int h = 0; h < 8; h++) {
    double qn[8], max = -INFINITY, sum = 0;
    ref_norm(qn, q + 8 * h, weight("attn.q_norm.weight"), 8);
    for (int s = 0; s <= p; s++) {
      double dot = 0, bias = 0;
      for (int i = 0; i < 8; i++) dot += qn[i] * r->k[s][h / 4][i];
      for (int j = 0; j < 4 && p - s < 100; j++) bias += rel[4 * h + j] * (double)weight("attn.rel_logits_proj.proj")[j * 100 + p - s];
      score[s] = tau * (dot / 8 + bias);
      max = fmax(max, score[s]);
    }
    for (int s = 0; s <= p; s++) sum += exp(score[s] - max);
    for (int s = 0; s <= p; s++) {
      for (int i = 0; i < 8; i++) att[8 * h + i] += exp(score[s] - max) / sum * r->v[s][h / 4][i];
    }
  }
  free(score);
  ref_matmul(y, weight("attn.wo_ud.weight"), att, 16, 64);
}

static void matches_double_precision(void) {
  ref r = {malloc(N_IDS * sizeof *r.k), malloc(N_IDS * sizeof *r.v), malloc(N_IDS * sizeof *r.x), malloc(N_IDS * sizeof *r.h)};
  for (int p = 0; p < N_IDS; p++) {
    double e[16];
    for (int i = 0; i < 16; i++) e[i] = (double)tiny_values(&t, "model.llm.embed.weight")[ids[p] * 16 + i];
    ref_norm(r.h[p], e, tiny_values(&t, "model.llm.embed_norm.weight"), 16);
    ref_norm(r.x[p], r.h[p], weight("attn_norm.weight"), 16);
    ref_keys(&r, p);
  }
  static const int at[] = {3, 63, 64, 163, 4095, 4096, 4097, 4160, 8191, 8192, N_IDS - 1};
  double worst = 0;
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    double u[4][16], out[16];
    for (int j = 0; j < 4; j++) ref_attend(&r, at[i] - 3 + j, u[j]);
    ref_conv(out, u, weight("attn_sconv.weight"));
    for (int c = 0; c < 16; c++) {
      double want = r.h[at[i]][c] + out[c];
      worst = fmax(worst, fabs(want - (double)plain[at[i] * 16 + c]));
      CHECK_NEAR(plain[at[i] * 16 + c], want, 1e-4);
    }
  }
  printf("largest difference from double precision: %.2g\n", worst);
  free(r.k), free(r.v), free(r.x), free(r.h);
}

/* ------------------------------------------------------------------------------------------------------------- one answer */

static void begin(void) {
  ij_model *m = tiny_open(&t, 1, 512);
  ij_session *s = tiny_session(m, CTX, 64);
  plain = malloc((size_t)N_IDS * 16 * sizeof *plain);
  advance(m, s, 0, N_IDS, 512, plain);
  ij_session_close(&s);
  ij_model_close(&m);
}

/* Few rows and many spans: the spans of each row are given out as tasks. Across the first border and across the second. */
static void same_bits_when_spans_are_split(void) {
  static const int threads[] = {1, 3}, rows[] = {1, 3, 4, 5};
  float *got = malloc((size_t)N_IDS * 16 * sizeof *got);
  ij_err err;
  for (int i = 0; i < 2; i++) {
    ij_model *m = tiny_open(&t, threads[i], 512);
    ij_session *s = tiny_session(m, CTX, 64), *f;
    for (int border = 1; border <= 2; border++) {
      int from = (int)ij_session_pos(s), first = border * IJ_ATTN_SPAN - 10;
      advance(m, s, from, first, 500, got);
      expect_plain(got, from, first, "up to a border", threads[i], 500);
      for (int j = 0; j < 4; j++) {
        CHECK_OK(ij_session_fork(&f, s, &err), err);
        advance(m, f, first, first + 40, rows[j], got);
        expect_plain(got, first, first + 40, "across a border", threads[i], rows[j]);
        ij_session_close(&f);
      }
    }
    ij_session_close(&s);
    ij_model_close(&m);
  }
  free(got);
}

/* One row at a time from the start, as decoding would. */
static void same_bits_with_a_batch_of_one(void) {
  int n = IJ_ATTN_SPAN + 100;
  float *got = malloc((size_t)N_IDS * 16 * sizeof *got);
  ij_model *m = tiny_open(&t, 1, 1);
  ij_session *s = tiny_session(m, CTX, 64);
  advance(m, s, 0, n, n, got);
  expect_plain(got, 0, n, "a batch of one", 1, 1);
  ij_session_close(&s);
  ij_model_close(&m);
  free(got);
}

/* Rows of sessions of very different lengths in one step: some have keys in every span, some in the first only. */
static void same_bits_in_company(void) {
  static const int length[] = {5, IJ_ATTN_SPAN - 1, IJ_ATTN_SPAN + 1, 2 * IJ_ATTN_SPAN + 20};
  float *got = malloc((size_t)N_IDS * 16 * sizeof *got), trace[4][2 * 16];
  ij_model *m = tiny_open(&t, 3, 512);
  ij_session *all = tiny_session(m, CTX, 64), *s[4];
  ij_err err;
  for (int i = 0; i < 4; i++) {
    advance(m, all, i ? length[i - 1] : 0, length[i], 512, got);
    CHECK_OK(ij_session_fork(&s[i], all, &err), err);
  }
  ij_session_close(&all);
  for (int round = 0; round < 5; round++) {
    ij_step_item items[4];
    for (int i = 0; i < 4; i++) items[i] = (ij_step_item){.session = s[i], .ids = ids + length[i] + round, .n = 1, .trace = trace[i]};
    CHECK_OK(ij_step(m, items, 4, &err), err);
    for (int i = 0; i < 4; i++) expect_plain(trace[i] + 16, length[i] + round, length[i] + round + 1, "in company", 3, i);
  }
  for (int i = 0; i < 4; i++) ij_session_close(&s[i]);
  ij_model_close(&m);
  free(got);
}

int main(void) {
  setup();
  begin();
  RUN(matches_double_precision);
  RUN(same_bits_when_spans_are_split);
  RUN(same_bits_with_a_batch_of_one);
  RUN(same_bits_in_company);
  free(plain);
  tiny_free(&t);
  return test_report();
}
