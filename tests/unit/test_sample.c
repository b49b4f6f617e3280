/* test_sample.c: the choice of the next id. A tiny model is evaluated for real, then its logits are replaced by given ones, so that every
 * rule can be compared with what it should do to known numbers.
 */
#include "engine/engine_int.h"
#include "tiny.h"

#define N 18 /* ids of the tiny model */
#define NO (-INFINITY)

static tiny t;
static ij_model *m;
static ij_session *s;

/* Evaluates ids and then puts these logits in place of those of the model; missing ones are -20. */
static void given(const int32_t *ids, int n_ids, const float *logits, int n_logits) {
  ij_err err;
  ij_session_close(&s);
  s = tiny_session(m, 64, 64);
  CHECK_OK(ij_session_eval(s, ids, n_ids, &err), err);
  for (int i = 0; i < N; i++) s->logits[i] = i < n_logits ? logits[i] : -20.0f;
}

#define GIVEN(...) given((const int32_t[]){1, 2, 2, 5}, 4, (const float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))

static int32_t sampled(const ij_sample_options *o) {
  ij_err err = {0};
  ij_choice c = {-1, 0};
  CHECK_OK(ij_session_sample(s, o, &c, &err), err);
  return c.id;
}

static int32_t drawn(ij_sample_options o, uint64_t seed) {
  o.seed = seed;
  return sampled(&o);
}

static uint32_t drawn_set(ij_sample_options o, int n_draw) {
  uint32_t set = 0;
  for (int i = 0; i < n_draw; i++) set |= 1u << drawn(o, (uint64_t)i);
  return set;
}

static ij_sample_options at_temperature(float temperature) {
  ij_sample_options o = ij_sample_options_default();
  o.temperature = temperature;
  return o;
}

/* ------------------------------------------------------------------------------------------------------------- choices */

static void greedy_takes_the_best_and_the_lower_of_equals(void) {
  GIVEN(0, 1, 3, 2, 3);
  CHECK_INT(sampled(NULL), 2);
  GIVEN(7, 7, 7);
  CHECK_INT(sampled(NULL), 0);
  GIVEN(-30);
  CHECK_INT(sampled(NULL), 1); /* seventeen equal ones */
}

/* 20000 seeds; the statistic is a sum of squares of about 8 standard normal numbers: above 40 has a chance of 3e-6. */
static void frequencies_follow_the_softmax(void) {
  static const float temperatures[] = {0.5f, 1.0f, 2.0f};
  for (int k = 0; k < 3; k++) {
    GIVEN(0, 0.5f, 1, -1, 1.5f, 0.25f, -0.5f, 1, 0);
    double p[N], total = 0, chi = 0, rare = 0;
    int count[N] = {0}, n_draw = 20000, n_rare = 0;
    for (int i = 0; i < N; i++) total += p[i] = exp((double)s->logits[i] / (double)temperatures[k]);
    ij_sample_options o = at_temperature(temperatures[k]);
    for (int i = 0; i < n_draw; i++) count[drawn(o, (uint64_t)i)]++;
    for (int i = 0; i < N; i++) {
      double expected = n_draw * p[i] / total;
      if (expected >= 5) chi += (count[i] - expected) * (count[i] - expected) / expected;
      if (expected < 5) rare += expected, n_rare += count[i];
    }
    CHECK(n_rare <= 10 + 3 * rare);
    if (!(chi < 40)) TEST_FAIL("at temperature %g the sum over ids of (count - expected)^2 / expected is %.1f", (double)temperatures[k], chi);
  }
}

static void draws_depend_on_seed_and_position_only(void) {
  GIVEN(0, 0, 0, 0, 0, 0, 0, 0);
  ij_sample_options o = at_temperature(1);
  int32_t first[64];
  for (int i = 0; i < 64; i++) first[i] = drawn(o, (uint64_t)i * 77);
  for (int i = 63; i >= 0; i--) CHECK_INT(drawn(o, (uint64_t)i * 77), first[i]);
  given((const int32_t[]){9, 9, 9, 9}, 4, (const float[]){0, 0, 0, 0, 0, 0, 0, 0}, 8); /* another history of the same length */
  for (int i = 0; i < 64; i++) CHECK_INT(drawn(o, (uint64_t)i * 77), first[i]);
  given((const int32_t[]){9, 9, 9}, 3, (const float[]){0, 0, 0, 0, 0, 0, 0, 0}, 8);
  int equal = 0;
  for (int i = 0; i < 64; i++) equal += drawn(o, (uint64_t)i * 77) == first[i];
  CHECK(equal < 32);
}

/* -------------------------------------------------------------------------------------------------------------- filters */

static void top_k_keeps_k(void) {
  GIVEN(1, 3, 2, 3, 2);
  ij_sample_options o = at_temperature(3);
  for (int k = 1; k <= 5; k++) {
    static const uint32_t want[] = {0, 1u << 1, 1u << 1 | 1u << 3, 1u << 1 | 1u << 3 | 1u << 2, 30, 31};
    o.top_k = k;
    CHECK_INT(drawn_set(o, 300), want[k]); /* of equals the lower id */
  }
  o.top_k = 1000;
  o.temperature = 1000;
  CHECK_INT(drawn_set(o, 2000), (1u << N) - 1);
}

/* Probabilities 8, 4, 2, 1, 1 sixteenths. */
static void sixteenths(void) {
  float l = logf(2);
  GIVEN(0, 3 * l, 1 * l, 2 * l, 0, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO);
}

static void top_p_keeps_the_smallest_sufficient_set(void) {
  static const struct {
    float p;
    uint32_t want;
  } cases[] = {{0.01f, 2}, {0.49f, 2}, {0.51f, 10}, {0.74f, 10}, {0.76f, 14}, {0.87f, 14}, {0.88f, 15}, {0.93f, 15}, {0.94f, 31}, {1, 31}};
  sixteenths();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ij_sample_options o = at_temperature(1);
    o.top_p = cases[i].p;
    CHECK_INT(drawn_set(o, 400), cases[i].want);
  }
}

static void min_p_is_relative_to_the_best(void) {
  static const struct {
    float p;
    uint32_t want;
  } cases[] = {{0, 31}, {0.12f, 31}, {0.13f, 14}, {0.24f, 14}, {0.26f, 10}, {0.49f, 10}, {0.51f, 2}, {1, 2}};
  sixteenths();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ij_sample_options o = at_temperature(1);
    o.min_p = cases[i].p;
    CHECK_INT(drawn_set(o, 400), cases[i].want);
  }
}

/* top-p is a share of what top-k left; min-p cuts either; the temperature acts before all of them. */
static void filters_combine_in_order(void) {
  sixteenths();
  ij_sample_options o = at_temperature(1);
  o.top_k = 2; /* 2/3, 1/3 */
  o.top_p = 0.6f;
  CHECK_INT(drawn_set(o, 300), 2);
  o.top_p = 0.7f;
  CHECK_INT(drawn_set(o, 300), 10);
  o.min_p = 0.6f;
  CHECK_INT(drawn_set(o, 300), 2);
  o = at_temperature(2); /* now 2.83, 2, 1.41, 1, 1 */
  o.min_p = 0.45f;
  CHECK_INT(drawn_set(o, 300), 14);
  o.top_k = 3;
  o.min_p = 0;
  int count[3] = {0};
  for (int i = 0; i < 6000; i++) {
    int32_t id = drawn(o, (uint64_t)i);
    count[id == 1 ? 0 : id == 3 ? 1 : 2]++;
  }
  double total = sqrt(8) + 2 + sqrt(2);
  CHECK_NEAR(count[0] / 6000.0, sqrt(8) / total, 0.03); /* what is kept is renormalized: 0.453, 0.320, 0.227, each within 4.5 deviations */
  CHECK_NEAR(count[1] / 6000.0, 2 / total, 0.03);
  CHECK_NEAR(count[2] / 6000.0, sqrt(2) / total, 0.03);
}

/* ------------------------------------------------------------------------------------------------ penalties and biases */

static void repetition_penalty_divides_or_multiplies(void) {
  ij_sample_options o = ij_sample_options_default();
  o.repetition_penalty = 2;
  GIVEN(1.4f, 3, 2.8f); /* 1 and 2 have been seen: 1.5, 1.4 */
  CHECK_INT(sampled(&o), 1);
  GIVEN(1.6f, 3, 2.8f);
  CHECK_INT(sampled(&o), 0);
  GIVEN(-3, -2, NO, -1.9f, NO, NO, NO, NO, NO, NO); /* 1 becomes -4 */
  o.logit_bias = (const ij_logit_bias[]){{3, -INFINITY}};
  o.n_logit_bias = 1;
  CHECK_INT(sampled(&o), 0);
}

static void presence_counts_once_frequency_each_time(void) {
  ij_sample_options o = ij_sample_options_default();
  o.presence_penalty = 1;
  GIVEN(0.5f, 1.4f, 1.6f, 0.55f); /* 0.5, 0.4, 0.6, 0.55 */
  CHECK_INT(sampled(&o), 2);
  o.presence_penalty = 0;
  o.frequency_penalty = 1; /* 0.5, 0.4, -0.4, 0.55 */
  CHECK_INT(sampled(&o), 3);
  GIVEN(0.5f, 1.4f, 2.6f, 0.55f); /* 2 is there twice: 0.6 */
  CHECK_INT(sampled(&o), 2);
  o.frequency_penalty = -1; /* 5 is rewarded once, 2 twice */
  GIVEN(0, 0, 1, 0, 0, 1.9f);
  CHECK_INT(sampled(&o), 2);
}

static void penalties_look_at_the_window_only(void) {
  ij_sample_options o = ij_sample_options_default();
  o.presence_penalty = 100;
  static const int32_t want[] = {1, 1, 1, 1, 0}; /* the ids were 1, 2, 2, 5 */
  GIVEN(0, 4, 3, 0, 0, 5);
  for (int64_t w = 1; w <= 4; w++) {
    o.penalty_window = w;
    CHECK_INT(sampled(&o), want[w]);
  }
  o.penalty_window = 0;
  CHECK_INT(sampled(&o), 5);
  o.penalty_window = 1000;
  CHECK_INT(sampled(&o), 0);
  o.penalty_window = -1;
  CHECK_INT(sampled(&o), 0);
  GIVEN(0, 4, 5, 0, 0, 6);
  o.penalty_window = 1;
  CHECK_INT(sampled(&o), 2);
  o.penalty_window = 2;
  CHECK_INT(sampled(&o), 1);
  for (int i = 0; i < N; i++) CHECK_INT(s->counts[i], 0);
}

static void biases_add_and_forbid(void) {
  ij_err err = {0};
  ij_choice c;
  ij_sample_options o = ij_sample_options_default();
  ij_logit_bias bias[N] = {{0, 1.5f}, {3, -INFINITY}};
  o.logit_bias = bias;
  o.n_logit_bias = 2;
  GIVEN(1, 2, 0, 9);
  CHECK_INT(sampled(&o), 0);
  o.temperature = 100;
  CHECK_INT(drawn_set(o, 2000), ((1u << N) - 1) & ~8u);
  bias[0] = (ij_logit_bias){3, 3e38f}; /* in any order, what is forbidden stays so */
  CHECK_INT(drawn_set(o, 300) & 8u, 0);
  bias[0] = (ij_logit_bias){2, -INFINITY};
  bias[1] = (ij_logit_bias){2, 3e38f};
  o.frequency_penalty = -1e38f; /* 2 would be the best by far */
  CHECK_INT(drawn_set(o, 300) & 4u, 0);
  for (int i = 0; i < N; i++) bias[i] = (ij_logit_bias){i, -INFINITY};
  o.n_logit_bias = N;
  CHECK_INT(ij_session_sample(s, &o, &c, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "every id is forbidden");
  o.n_logit_bias = N - 1;
  CHECK_INT(sampled(&o), N - 1);
}

static void overflow_is_an_error(void) {
  ij_err err = {0};
  ij_choice c;
  ij_sample_options o = ij_sample_options_default();
  ij_logit_bias twice[] = {{4, 3e38f}, {4, 3e38f}};
  GIVEN(0, 1);
  o.logit_bias = twice;
  o.n_logit_bias = 2;
  CHECK_INT(ij_session_sample(s, &o, &c, &err), IJ_E_NUMERIC);
  CHECK_HAS(err.message, "id 4");
  o = at_temperature(1);
  o.presence_penalty = -3e38f;
  o.frequency_penalty = -3e38f;
  CHECK_INT(ij_session_sample(s, &o, &c, &err), IJ_E_NUMERIC);
  o = at_temperature(1);
  o.presence_penalty = 3e38f;
  o.frequency_penalty = 3e38f; /* to -infinity: those ids are out */
  CHECK_INT(drawn_set(o, 2000) & (2u | 4u | 32u), 0);
  o = at_temperature(1e-45f);
  CHECK_INT(sampled(&o), 1);
}

/* ------------------------------------------------------------------------------------------------------ log-probabilities */

static double exact_logprob(int32_t id) {
  double sum = 0;
  float max = s->logits[0]; /* not fmax of doubles: gcc 12 for arm64 ends with an internal error there */
  for (int i = 1; i < N; i++) {
    if (s->logits[i] > max) max = s->logits[i];
  }
  for (int i = 0; i < N; i++) sum += exp((double)s->logits[i] - (double)max);
  return (double)s->logits[id] - (double)max - log(sum);
}

static void logprobs_are_those_of_the_raw_logits(void) {
  static const float offsets[] = {0, 1000, -30000};
  for (int k = 0; k < 3; k++) {
    float x = offsets[k];
    GIVEN(x + 1.25f, x + 3, x + 2.5f, x + 3, x - 2, x, x + 0.5f, x, x, x, x, x, x, x, x, x, x, x);
    ij_sample_options o = at_temperature(2);
    o.top_k = 7;
    o.presence_penalty = 0.3f;
    for (int i = 0; i < 40; i++) {
      ij_choice c = {0};
      ij_err err;
      o.seed = (uint64_t)i;
      CHECK_OK(ij_session_sample(s, &o, &c, &err), err);
      CHECK_NEAR(c.logprob, exact_logprob(c.id), 1e-5);
    }
  }
}

static void top_is_sorted_with_ties_to_the_lower_id(void) {
  ij_err err = {0};
  ij_choice c[IJ_MAX_TOP + 1];
  static const int32_t want[] = {4, 1, 3, 2, 0, 5};
  GIVEN(0, 3, 1, 3, 4, 0);
  for (int n = 1; n <= 6; n++) {
    CHECK_OK(ij_session_top(s, n, c, &err), err);
    for (int i = 0; i < n; i++) {
      CHECK_INT(c[i].id, want[i]);
      CHECK_NEAR(c[i].logprob, exact_logprob(want[i]), 1e-5);
    }
  }
  CHECK_OK(ij_session_top(s, N, c, &err), err);
  for (int i = 6; i < N; i++) CHECK_INT(c[i].id, i);
  CHECK_INT(ij_session_top(s, N + 1, c, &err), IJ_E_ARGUMENT); /* more than there are ids */
  CHECK_INT(ij_session_top(s, 0, c, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_top(s, IJ_MAX_TOP + 1, c, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_top(NULL, 1, c, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_top(s, 1, NULL, &err), IJ_E_ARGUMENT);
  CHECK_OK(ij_session_rollback(s, 1, &err), err);
  CHECK_INT(ij_session_top(s, 1, c, &err), IJ_E_RANGE);
  CHECK_INT(ij_session_sample(s, NULL, c, &err), IJ_E_RANGE);
}

/* -------------------------------------------------------------------------------------------------------------- options */

static void refuse(const ij_sample_options *o, const char *name) {
  ij_err err = {0};
  ij_choice c = {-7, 0};
  CHECK_INT(ij_session_sample(s, o, &c, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.where, name);
  CHECK_INT(c.id, -7);
}

#define REFUSE(field, value)                         \
  do {                                               \
    ij_sample_options o = ij_sample_options_default(); \
    o.field = (value);                               \
    refuse(&o, #field);                              \
  } while (0)

static void bad_options_are_named(void) {
  GIVEN(1);
  REFUSE(struct_size, 8);
  REFUSE(temperature, -1);
  REFUSE(temperature, NAN);
  REFUSE(temperature, INFINITY);
  REFUSE(top_k, -1);
  REFUSE(top_p, 0);
  REFUSE(top_p, 1.01f);
  REFUSE(top_p, NAN);
  REFUSE(min_p, -0.1f);
  REFUSE(min_p, 1.1f);
  REFUSE(min_p, NAN);
  REFUSE(repetition_penalty, 0);
  REFUSE(repetition_penalty, -1);
  REFUSE(repetition_penalty, INFINITY);
  REFUSE(presence_penalty, NAN);
  REFUSE(frequency_penalty, -INFINITY);
  REFUSE(penalty_window, -2);
  REFUSE(n_logit_bias, -1);
  REFUSE(n_logit_bias, 1); /* without a list */
  static const ij_logit_bias bad[] = {{-1, 0}, {N, 0}, {0, NAN}, {0, INFINITY}};
  for (int i = 0; i < 4; i++) {
    ij_sample_options o = ij_sample_options_default();
    o.logit_bias = &bad[i];
    o.n_logit_bias = 1;
    refuse(&o, "logit_bias");
  }
  ij_err err;
  ij_choice c;
  CHECK_INT(ij_session_sample(NULL, NULL, &c, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_sample(s, NULL, NULL, NULL), IJ_E_ARGUMENT);
}

/* Ids that stand for rows of pictures and sound are never chosen when they are special tokens; low ids of that name are ordinary. */
static void placeholders_are_never_chosen(void) {
  tiny big;
  cw_dims d = {8, 1, 2, 1, 2, 4, 2, 4, 6, 4, 16, 8, 4, 2, 200060, {false}, {true}};
  tiny_build(&big, &d, IJ_DTYPE_BF16, "image_token_id=7");
  ij_model *bm = tiny_open(&big, 1, 4);
  ij_session *bs = tiny_session(bm, 8, 4);
  ij_err err;
  ij_choice c = {0};
  CHECK_OK(ij_session_eval(bs, (const int32_t[]){3}, 1, &err), err);
  for (int i = 0; i < 200058; i++) bs->logits[i] = -30;
  bs->logits[200053] = 20; /* audio, by convention */
  bs->logits[7] = 10;
  bs->logits[200054] = 9;  /* the image token is another one here */
  CHECK_OK(ij_session_sample(bs, NULL, &c, &err), err);
  CHECK_INT(c.id, 7);
  bs->logits[7] = -30;
  ij_sample_options o = at_temperature(1);
  o.logit_bias = (const ij_logit_bias[]){{200053, 5}};
  o.n_logit_bias = 1;
  for (int i = 0; i < 3; i++) {
    o.seed = (uint64_t)i;
    CHECK_OK(ij_session_sample(bs, &o, &c, &err), err);
    CHECK_INT(c.id, 200054);
  }
  CHECK(c.logprob < -10); /* log-probabilities are the model's own: 200053 counts */
  ij_session_close(&bs);
  ij_model_close(&bm);
  tiny_free(&big);
}

/* ------------------------------------------------------------------------------------------------------ log-probabilities */

static void log_probabilities_of_any_logits(void) {
  GIVEN(0, 0.5f, 1, -1);
  ij_err err = {0};
  ij_choice c, d;
  float rows[2 * N];
  static const int32_t ids[] = {7, 3};
  for (int32_t id = 0; id < N; id++) {
    uint32_t mask = 1u << id;
    ij_sample_options o = ij_sample_options_default();
    o.allowed = &mask;
    o.n_allowed = N;
    CHECK_OK(ij_session_sample(s, &o, &c, &err), err);
    CHECK_OK(ij_session_logprob(s, NULL, id, &d, &err), err);
    CHECK(c.id == d.id && memcmp(&c.logprob, &d.logprob, sizeof c.logprob) == 0);
  }
  ij_step_item item = {.session = s, .ids = ids, .n = 2, .logits_all = rows};
  CHECK_OK(ij_step(m, &item, 1, &err), err);
  CHECK_OK(ij_session_logprob(s, NULL, 4, &c, &err), err);
  CHECK_OK(ij_session_logprob(s, rows + N, 4, &d, &err), err);
  CHECK(memcmp(&c.logprob, &d.logprob, sizeof c.logprob) == 0);
  CHECK_INT(ij_session_logprob(s, NULL, -1, &c, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_logprob(s, NULL, N, &c, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_session_logprob(NULL, NULL, 0, &c, &err), IJ_E_ARGUMENT);
  CHECK_OK(ij_session_rollback(s, 1, &err), err);
  CHECK_INT(ij_session_logprob(s, NULL, 4, &c, &err), IJ_E_RANGE);
  CHECK_OK(ij_session_logprob(s, rows, 4, &c, &err), err);
}

/* What a session keeps of its logits is that of the logits it has. */
static void check_kept(ij_session *of) {
  ij_err err = {0};
  ij_choice kept, anew;
  for (int i = 0; i < 2; i++) {
    CHECK_OK(ij_session_logprob(of, NULL, 4, &kept, &err), err);
    CHECK_OK(ij_session_logprob(of, ij_session_logits(of), 4, &anew, &err), err);
    CHECK(memcmp(&kept.logprob, &anew.logprob, sizeof kept.logprob) == 0);
  }
}

static void log_probabilities_follow_the_logits(void) {
  GIVEN(0, 0.5f, 1, -1);
  ij_err err = {0};
  ij_session *other = NULL;
  static const int32_t ids[] = {7, 3, 5};
  check_kept(s);
  CHECK_OK(ij_session_eval(s, &ids[0], 1, &err), err);
  check_kept(s);
  CHECK_OK(ij_session_fork(&other, s, &err), err);
  check_kept(other);
  ij_step_item items[] = {{.session = s, .ids = &ids[1], .n = 1}, {.session = other, .ids = &ids[2], .n = 1}};
  CHECK_OK(ij_step(m, items, 2, &err), err);
  check_kept(s);
  check_kept(other);
  CHECK_OK(ij_session_rollback(s, 1, &err), err);
  CHECK_OK(ij_session_eval(s, &ids[2], 1, &err), err);
  check_kept(s);
  CHECK(memcmp(ij_session_logits(s), ij_session_logits(other), N * sizeof(float)) == 0);
  ij_session_close(&other);
}

int main(void) {
  cw_dims d = cw_usual();
  tiny_build(&t, &d, IJ_DTYPE_F32, "");
  m = tiny_open(&t, 1, 16);
  RUN(greedy_takes_the_best_and_the_lower_of_equals);
  RUN(frequencies_follow_the_softmax);
  RUN(draws_depend_on_seed_and_position_only);
  RUN(top_k_keeps_k);
  RUN(top_p_keeps_the_smallest_sufficient_set);
  RUN(min_p_is_relative_to_the_best);
  RUN(filters_combine_in_order);
  RUN(repetition_penalty_divides_or_multiplies);
  RUN(presence_counts_once_frequency_each_time);
  RUN(penalties_look_at_the_window_only);
  RUN(biases_add_and_forbid);
  RUN(overflow_is_an_error);
  RUN(logprobs_are_those_of_the_raw_logits);
  RUN(log_probabilities_of_any_logits);
  RUN(log_probabilities_follow_the_logits);
  RUN(top_is_sorted_with_ties_to_the_lower_id);
  RUN(bad_options_are_named);
  RUN(placeholders_are_never_chosen);
  ij_session_close(&s);
  ij_model_close(&m);
  tiny_free(&t);
  return test_report();
}
