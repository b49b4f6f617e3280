/* test_experts_use.c: what a model knows of the use of its experts, and what it leaves in the file: with a home that counts every access and keeps the
 * first few, put in the place of the mapped one.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "cache/experts_int.h"
#include "core/os.h"
#include "engine/engine_int.h"
#include "tiny.h"
#include "tools/expert_trace.h"

enum { MAX_KEY = 64, MAX_TRACE = 40 };

typedef struct counting {
  ij_experts base;
  float heat[MAX_KEY];
  int32_t trace[MAX_TRACE];
  int64_t n_trace, n_all;
} counting;

static tiny t; /* six layers, the first two dense */
static char path[512];
static const int32_t some[] = {1, 4, 2, 9, 16, 3, 3, 11, 0, 7};

static int count_acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases) {
  counting *c = (counting *)(void *)home;
  const ij_expert_bank *bank = &home->banks[layer];
  for (int i = 0; i < n; i++) {
    leases[i] = (ij_expert_lease){layer, ids[i], ij__expert_view(&bank->gate, ids[i]), ij__expert_view(&bank->up, ids[i]), ij__expert_view(&bank->down, ids[i])};
    int key = layer * home->n_expert + ids[i];
    c->heat[key]++;
    c->n_all++;
    if (c->n_trace < MAX_TRACE) c->trace[c->n_trace++] = key;
  }
  return n;
}

/* Half of the accesses are called misses of 100 bytes. */
static void count_stats(const ij_experts *home, ij_experts_stats *out) {
  const counting *c = (const counting *)(const void *)home;
  *out = (ij_experts_stats){.home = "streamed", .reader = "pread threads", .direct = true, .n_slots = 5, .n_hit = c->n_all - c->n_all / 2,
                            .n_miss = c->n_all / 2, .n_guess = 7, .n_guess_used = 4, .n_guess_cancelled = 2, .expert_bytes = 90 * (uint64_t)(c->n_all / 2),
                            .read_bytes = 100 * (uint64_t)(c->n_all / 2), .read_seconds = 0.5, .wait_seconds = 0.25};
}

static bool count_heat(const ij_experts *home, float *out) {
  memcpy(out, ((const counting *)(const void *)home)->heat, (size_t)home->n_layer * (size_t)home->n_expert * sizeof *out);
  return true;
}

static int64_t count_trace(const ij_experts *home, const int32_t **keys) {
  const counting *c = (const counting *)(const void *)home;
  *keys = c->trace;
  return c->n_trace;
}

static const ij_experts_ops ops = {.acquire = count_acquire, .stats = count_stats, .heat = count_heat, .trace = count_trace};

/* A model whose home counts, with a file for what it counts. */
static ij_model *open_counting(const char *file) {
  ij_err err = {0};
  ij_experts *home = NULL;
  ij_model *m = tiny_open(&t, 1, 8);
  const ij_expert_banks banks = {.banks = m->weights.banks, .n_layer = m->config.n_layer, .n_expert = m->config.n_expert};
  CHECK(banks.n_layer * banks.n_expert <= MAX_KEY);
  CHECK_OK(ij__use_open(m, file, &err), err);
  m->use.now.usage_note = m->use.note; /* as when it is opened before the home is looked at */
  CHECK_OK(ij__experts_begin(&home, sizeof(counting), &ops, &banks, &err), err);
  ij__weights_take_home(&m->weights, home);
  return m;
}

static void evaluate(ij_model *m, int n) {
  ij_err err = {0};
  ij_session *s = tiny_session(m, 16, 4);
  CHECK_OK(ij_session_eval(s, some, n, &err), err);
  ij_session_close(&s);
}

static int64_t sessions(ij_model *m) {
  ij_usage_info info;
  ij_err err = {0};
  CHECK_OK(ij_model_read_usage(m, path, &info, NULL, NULL, &err), err);
  return info.n_sessions;
}

static void a_mapped_model_counts_tokens_only(void) {
  ij_model *m = tiny_open(&t, 1, 8);
  ij_streaming_info info;
  const int32_t *keys;
  float use[MAX_KEY];
  evaluate(m, 10);
  ij_model_get_streaming(m, &info);
  CHECK_STR(info.home, "mapped");
  CHECK_STR(info.reader, "");
  CHECK_INT(info.n_tokens, 10);
  CHECK_INT(info.n_miss, 0);
  CHECK(info.usage_note == NULL);
  CHECK_INT(ij_model_expert_use(m, false, use), IJ_E_RANGE);
  CHECK_INT(ij_model_expert_use(m, true, use), IJ_E_RANGE);
  CHECK_INT(ij_model_expert_trace(m, &keys), 0);
  CHECK_INT(ij_model_save_usage(m, NULL), IJ_OK);
  ij_model_close(&m);
}

static void counters_are_those_of_the_home(void) {
  ij_model *m = open_counting(NULL);
  ij_streaming_info info;
  evaluate(m, 10); /* of which a step takes 8 */
  ij_model_get_streaming(m, &info);
  CHECK_STR(info.home, "streamed");
  CHECK_STR(info.reader, "pread threads");
  CHECK_INT(info.n_tokens, 10);
  CHECK_INT(info.n_hit + info.n_miss, ((counting *)(void *)m->weights.experts)->n_all);
  CHECK(info.n_hit > 0 && info.n_miss > 0);
  CHECK_INT(info.read_bytes, 100 * info.n_miss);
  CHECK_INT(info.expert_bytes, 90 * info.n_miss);
  CHECK_INT(info.n_slots, 5);
  CHECK_INT(info.n_guess, 7);
  CHECK_INT(info.n_guess_used, 4);
  CHECK_INT(info.n_guess_cancelled, 2);
  CHECK(info.direct && info.read_seconds == 0.5 && info.wait_seconds == 0.25);
  ij_model_close(&m);
}

static void shares_and_the_trace_are_those_of_the_home(void) {
  ij_model *m = open_counting(NULL);
  ij_model_info info;
  ij_streaming_info now;
  float use[MAX_KEY];
  const int32_t *keys;
  ij_err err = {0};
  evaluate(m, 10);
  evaluate(m, 10);
  ij_model_get_info(m, &info);
  CHECK_OK(ij_model_expert_use(m, false, use), err);
  for (int i = 0; i < info.n_layer; i++) {
    double sum = 0;
    for (int e = 0; e < info.n_expert; e++) sum += (double)use[i * info.n_expert + e];
    CHECK_NEAR(sum, i < info.n_layer_dense ? 0 : 1, 1e-6);
  }
  int64_t n = ij_model_expert_trace(m, &keys);
  ij_model_get_streaming(m, &now);
  CHECK_INT(n, MAX_TRACE); /* it was full, which is seen from the counters */
  CHECK(now.n_hit + now.n_miss > n);
  for (int64_t i = 0; i < n; i++) CHECK(keys[i] >= info.n_layer_dense * info.n_expert && keys[i] < info.n_layer * info.n_expert);
  ij_model_close(&m);
}

static void the_trace_is_written(void) {
  ij_err err = {0};
  char *bytes = NULL, want[64];
  const int32_t *keys;
  size_t n = 0;
  int64_t n_missing = -1;
  ij_model *m = open_counting(NULL);
  CHECK_INT(ij__expert_trace_write(m, path, &n_missing, &err), IJ_E_RANGE);
  CHECK(!ij__os_is_file(path));
  evaluate(m, 3);
  int64_t n_keys = ij_model_expert_trace(m, &keys);
  CHECK_OK(ij__expert_trace_write(m, path, &n_missing, &err), err);
  CHECK_INT(n_missing, 0);
  CHECK_OK(ij__os_read_file(path, 4096, &bytes, &n, &err), err);
  size_t n_line = (size_t)snprintf(want, sizeof want, "inkjet-trace %d %d\n", m->config.n_layer, m->config.n_expert);
  CHECK_INT(n, n_line + 4 * (size_t)n_keys);
  CHECK(bytes && memcmp(bytes, want, n_line) == 0 && memcmp(bytes + n_line, keys, 4 * (size_t)n_keys) == 0);
  ij__free(bytes);
  evaluate(m, 10);
  evaluate(m, 10);
  CHECK_OK(ij__expert_trace_write(m, path, &n_missing, &err), err);
  CHECK_INT(n_missing, ((counting *)(void *)m->weights.experts)->n_all - MAX_TRACE);
  CHECK(n_missing > 0);
  ij_model_close(&m);
  unlink(path);
}

static void a_session_goes_into_the_file_once(void) {
  ij_err err = {0};
  ij_usage_info info;
  float use[MAX_KEY], prior[MAX_KEY], earlier[MAX_KEY];
  ij_model *m = open_counting(path);
  CHECK_OK(ij_model_save_usage(m, &err), err); /* nothing was evaluated: nothing is written, and nothing will be */
  CHECK_INT(ij_model_read_usage(m, path, &info, NULL, NULL, &err), IJ_E_IO);
  evaluate(m, 10);
  ij_model_close(&m);
  m = open_counting(path);
  CHECK_INT(ij_model_expert_use(m, true, use), IJ_E_RANGE);
  CHECK(m->use.prior == NULL);
  evaluate(m, 10);
  CHECK_OK(ij_model_expert_use(m, false, use), err);
  ij_model_close(&m); /* writes */
  m = open_counting(path);
  CHECK_OK(ij_model_read_usage(m, path, &info, earlier, prior, &err), err);
  CHECK_INT(info.n_sessions, 1);
  CHECK_INT(info.n_tokens, 10);
  CHECK(info.n_hit > 0 && info.n_miss > 0 && info.read_bytes == 100 * (uint64_t)info.n_miss && info.read_seconds == 0.5);
  size_t n = (size_t)m->config.n_layer * (size_t)m->config.n_expert;
  CHECK(memcmp(use, earlier, n * sizeof *use) == 0);
  CHECK(m->use.prior && memcmp(prior, m->use.prior, n * sizeof *prior) == 0);
  CHECK_OK(ij_model_expert_use(m, true, use), err);
  CHECK(memcmp(use, earlier, n * sizeof *use) == 0);
  evaluate(m, 10);
  CHECK_OK(ij_model_save_usage(m, &err), err);
  CHECK_INT(sessions(m), 2);
  CHECK_OK(ij_model_save_usage(m, &err), err);
  ij_model_close(&m); /* no second time */
  m = tiny_open(&t, 1, 8);
  CHECK_INT(sessions(m), 2);
  ij_model_close(&m);
  unlink(path);
}

static void put_file(const char *text) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fputs(text, f) >= 0);
  if (f) fclose(f);
}

static void a_file_that_cannot_be_used_is_noted(void) {
  ij_err err = {0};
  ij_streaming_info info;
  float use[MAX_KEY];
  put_file("shopping list");
  ij_model *m = open_counting(path);
  evaluate(m, 3);
  ij_model_get_streaming(m, &info);
  CHECK(info.usage_note != NULL);
  if (info.usage_note) {
    CHECK_HAS(info.usage_note, path);
    CHECK_HAS(info.usage_note, "no file of the use of experts");
  }
  CHECK_INT(ij_model_expert_use(m, true, use), IJ_E_RANGE);
  CHECK_INT(ij_model_save_usage(m, &err), IJ_E_FORMAT);
  CHECK_HAS(err.message, "left alone");
  ij_model_close(&m);
  char *bytes = NULL;
  size_t n = 0;
  CHECK_OK(ij__os_read_file(path, 100, &bytes, &n, &err), err);
  CHECK_STR(bytes, "shopping list");
  ij__free(bytes);
  put_file("IJEXPUSE, and then it broke off"); /* ours, damaged: noted, and replaced */
  m = open_counting(path);
  evaluate(m, 3);
  ij_model_get_streaming(m, &info);
  CHECK(info.usage_note != NULL);
  CHECK_OK(ij_model_save_usage(m, &err), err);
  CHECK_INT(sessions(m), 1);
  ij_model_close(&m);
  unlink(path);
}

static void memory_that_is_not_there_is_said(void) {
  ij_err err = {0};
  ij_model *m = open_counting(path);
  evaluate(m, 3);
  ij_model_close(&m);
  for (int n = 1; n < 6; n++) {
    m = tiny_open(&t, 1, 8);
    int64_t blocks = ij__alloc_blocks();
    ij_usage_info info;
    ij__alloc_fail_after(n);
    ij_status s = ij_model_read_usage(m, path, &info, NULL, NULL, &err);
    ij_status opened = ij__use_open(m, path, &err);
    ij__alloc_fail_after(0);
    if (n <= 2) CHECK_INT(s, IJ_E_NOMEM); /* the bytes, and the shares */
    CHECK_INT(opened, IJ_E_NOMEM);
    ij_model_close(&m);
    CHECK(ij__alloc_blocks() < blocks);
  }
  unlink(path);
}

static void arguments_are_checked(void) {
  ij_err err = {0};
  ij_usage_info info;
  ij_model *m = tiny_open(&t, 1, 8);
  CHECK_INT(ij_model_read_usage(NULL, path, &info, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_model_read_usage(m, NULL, &info, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_model_read_usage(m, path, NULL, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_model_save_usage(NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_model_expert_use(m, false, NULL), IJ_E_ARGUMENT);
  ij_model_close(&m);
}

int main(void) {
  const cw_dims d = cw_usual();
  tiny_build(&t, &d, IJ_DTYPE_F32, "");
  snprintf(path, sizeof path, "%s/x.usage", t.folder);
  RUN(a_mapped_model_counts_tokens_only);
  RUN(counters_are_those_of_the_home);
  RUN(shares_and_the_trace_are_those_of_the_home);
  RUN(the_trace_is_written);
  RUN(a_session_goes_into_the_file_once);
  RUN(a_file_that_cannot_be_used_is_noted);
  RUN(memory_that_is_not_there_is_said);
  RUN(arguments_are_checked);
  tiny_free(&t);
  return test_report();
}
