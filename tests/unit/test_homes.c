/* test_homes.c: a model whose experts are read from a drive that may fail. Wherever a read fails, the step says so, the session stays where it was,
 * and once the drive answers again everything goes on with the bits of an undisturbed session. Also: what is read, and how often; opening
 * that fails or is cancelled at any point; and when guesses are made.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/os.h"
#include "engine/engine_int.h"
#include "tape.h"
#include "tiny.h"

enum { N_IDS = 120, N_VOCAB = 18 };

static tiny t; /* six layers, four of them with eight experts, of which two are used */
static int32_t ids[N_IDS];
static float want[N_IDS][N_VOCAB]; /* of the mapped model, token by token */

/* ------------------------------------------------------------------------------------------------------------- the drive */

static _Atomic int64_t n_reads, fail_from, fail_to; /* reads [from, to) fail, counted from 0 */

static int64_t drive(void *user, int fd, void *to, size_t n, uint64_t offset, int *errnum) {
  (void)user;
  int64_t i = atomic_fetch_add(&n_reads, 1);
  if (i >= atomic_load(&fail_from) && i < atomic_load(&fail_to)) {
    *errnum = EIO;
    return -1;
  }
  ssize_t got = pread(fd, to, n, (off_t)offset);
  if (got < 0) *errnum = errno;
  return got;
}

/* The next `from` reads are good, those after them fail until it is repaired. */
static void break_after(int64_t from) {
  atomic_store(&n_reads, 0);
  atomic_store(&fail_to, INT64_MAX);
  atomic_store(&fail_from, from);
}

static void repair(void) { atomic_store(&fail_from, INT64_MAX); }

static ij_status try_open(ij_model **m, size_t expert_room, ij_model_options o, ij_err *err) {
  ij_open_hooks hooks = {.reader = {.kind = IJ_READER_POOL, .fault = drive}, .expert_room = expert_room};
  o.home = o.home ? o.home : IJ_HOME_STREAMED;
  o.plan_ctx = 256;
  o.plan_sessions = 4;
  return ij__model_open_with(m, t.folder, &o, &hooks, err);
}

/* The least or the most that a streamed home makes use of; a trace takes a part of it. */
#define TRACE_ROOM ((size_t)1 << 16)
static size_t rooms(bool most) {
  ij_model *plain = tiny_open(&t, 1, 8);
  ij_expert_banks banks = ij__weights_banks(&plain->weights, &plain->config);
  size_t n = most ? ij__experts_streamed_most(&banks) : ij__experts_streamed_least(&banks);
  ij_model_close(&plain);
  return n;
}

static ij_model *open_streamed_with(int n_threads, int max_batch, ij_predict predict, bool most, bool trace) {
  ij_model_options o = ij_model_options_default();
  ij_model *m = NULL;
  ij_err err = {0};
  o.n_threads = n_threads;
  o.max_batch = max_batch;
  o.predict = predict;
  o.keep_trace = trace;
  repair();
  CHECK_OK(try_open(&m, rooms(most) + (trace ? TRACE_ROOM : 0), o, &err), err);
  if (!m) exit(2);
  return m;
}

static ij_model *open_streamed(int n_threads, int max_batch, ij_predict predict) {
  return open_streamed_with(n_threads, max_batch, predict, false, false);
}

static void remember_right_answers(void) {
  ij_model *m = tiny_open(&t, 1, 8);
  ij_session *s = tiny_session(m, N_IDS, 4);
  uint64_t seed = 5;
  ij_err err = {0};
  for (int i = 0; i < N_IDS; i++) ids[i] = (int32_t)(test_random(&seed) % (N_VOCAB - 1));
  ij_step_item item = {.session = s, .ids = ids, .n = N_IDS, .logits_all = want[0]};
  CHECK_OK(ij_step(m, &item, 1, &err), err);
  ij_session_close(&s);
  ij_model_close(&m);
}

static void expect_logits(const ij_session *s, const char *when, int64_t number) {
  int64_t pos = ij_session_pos(s);
  const float *got = ij_session_logits(s);
  if (pos == 0 || !got || memcmp(got, want[pos - 1], sizeof want[0]) != 0) TEST_FAIL("%s %lld: wrong logits at %lld", when, (long long)number, (long long)pos);
}

/* Goes on by some tokens, in steps of n, and compares. */
static void go_on(ij_session *s, int64_t some, int64_t n, const char *when, int64_t number) {
  ij_err err = {0};
  int64_t end = IJ_MIN(ij_session_pos(s) + some, (int64_t)N_IDS);
  for (int64_t pos; (pos = ij_session_pos(s)) < end;) CHECK_OK(ij_session_eval(s, ids + pos, IJ_MIN(n, end - pos), &err), err);
  expect_logits(s, when, number);
}

/* -------------------------------------------------------------------------------------------------------------- failures */

static void expect_failure(ij_session *s, int64_t n, int64_t chunk, int64_t number) {
  ij_err err = {0};
  int64_t before = ij_session_pos(s);
  CHECK_INT(ij_session_eval(s, ids + before, n, &err), IJ_E_IO);
  CHECK_INT(err.code, IJ_E_IO);
  CHECK_HAS(err.where, "safetensors");
  CHECK(ij_session_logits(s) == NULL);
  CHECK_INT((ij_session_pos(s) - before) % chunk, 0);
  CHECK(ij_session_pos(s) < before + n);
  CHECK(memcmp(ij_session_ids(s), ids, (size_t)ij_session_pos(s) * sizeof *ids) == 0);
  if (test_failures) printf("(read %lld of the step failed)\n", (long long)number);
}

/* Chunks of 50 rows overwrite more of the rings than a rollback of 4 could take back. */
static void a_prompt_that_fails_goes_on(void) {
  ij_model *m = open_streamed(2, 50, IJ_PREDICT_ON);
  for (int64_t number = 0; number < 120; number += 1 + number / 3) {
    ij_session *s = tiny_session(m, N_IDS, 4);
    ij_err err = {0};
    CHECK_OK(ij_session_eval(s, ids, 9, &err), err);
    break_after(number);
    int64_t n = 100;
    bool whole = ij_session_eval(s, ids + 9, n, &err) == IJ_OK; /* no step has that many reads */
    ij_session_close(&s);
    if (whole) break;
    s = tiny_session(m, N_IDS, 4);
    repair();
    CHECK_OK(ij_session_eval(s, ids, 9, &err), err);
    break_after(number);
    expect_failure(s, n, 50, number);
    expect_failure(s, 3, 3, number); /* a short step fails after a long one did */
    repair();
    go_on(s, 30, number % 3 ? 30 : 7, "a prompt that failed at read", number);
    ij_session_close(&s);
  }
  repair();
  ij_model_close(&m);
}

static void an_answer_that_fails_goes_on(void) {
  for (int threads = 1; threads <= 3; threads++) {
    ij_model *m = open_streamed(threads, 8, threads == 2 ? IJ_PREDICT_OFF : IJ_PREDICT_ON);
    ij_session *s = tiny_session(m, N_IDS, 12);
    ij_err err = {0};
    CHECK_OK(ij_session_eval(s, ids, 20, &err), err);
    for (int64_t number = 0; number < 6; number += threads) {
      break_after(number);
      expect_failure(s, 1, 1, number);
      expect_failure(s, 5, 5, number); /* and again, while it is broken */
      repair();
      CHECK_OK(ij_session_eval(s, ids + ij_session_pos(s), 1, &err), err);
      expect_logits(s, "after a failed token", number);
      CHECK_OK(ij_session_rollback(s, 3, &err), err);
      CHECK_OK(ij_session_eval(s, ids + ij_session_pos(s), 4, &err), err);
      expect_logits(s, "after a rollback", number);
    }
    go_on(s, 4, 1, "an answer", threads);
    ij_session_close(&s);
    ij_model_close(&m);
  }
}

/* Copies of a session whose long step has failed are as good as it is. */
static void forks_and_saves_after_a_failure(void) {
  ij_model *m = open_streamed(2, 50, IJ_PREDICT_AUTO);
  ij_session *s = tiny_session(m, N_IDS, 4), *f = NULL, *r = tiny_session(m, N_IDS, 9);
  ij_err err = {0};
  static tape saved;
  CHECK_OK(ij_session_eval(s, ids, 30, &err), err);
  break_after(3);
  expect_failure(s, 40, 40, 3);
  repair();
  CHECK_INT(ij_session_rollback_room(s), 0); /* further back the rings have been overwritten */
  CHECK_INT(ij_session_rollback(s, 1, &err), IJ_E_RANGE);
  CHECK_OK(ij_session_fork(&f, s, &err), err);
  CHECK_OK(ij_session_save(s, tape_write, &saved, &err), err);
  CHECK_OK(ij_session_restore(r, tape_read, &saved, &err), err);
  go_on(f, 22, 11, "a fork", 0);
  go_on(r, 40, 40, "a restored session", 0);
  CHECK_OK(ij_session_rollback(r, 4, &err), err);
  go_on(r, 6, 2, "a restored session", 1);
  go_on(s, 5, 1, "the session itself", 0);
  ij_session_close(&s);
  ij_session_close(&f);
  ij_session_close(&r);
  ij_model_close(&m);
}

static void all_of_a_batch_fail_and_go_on(void) {
  ij_model *m = open_streamed(2, 16, IJ_PREDICT_ON);
  ij_session *s[3];
  ij_step_item items[3];
  ij_err err = {0};
  for (int i = 0; i < 3; i++) {
    s[i] = tiny_session(m, N_IDS, 2);
    CHECK_OK(ij_session_eval(s[i], ids, 10 + 7 * i, &err), err);
    items[i] = (ij_step_item){.session = s[i], .ids = ids + 10 + 7 * i, .n = 5};
  }
  break_after(1);
  CHECK_INT(ij_step(m, items, 3, &err), IJ_E_IO);
  for (int i = 0; i < 3; i++) {
    CHECK_INT(items[i].status, IJ_E_IO);
    CHECK_INT(ij_session_pos(s[i]), 10 + 7 * i);
  }
  repair();
  for (int i = 0; i < 3; i++) items[i].status = IJ_OK;
  CHECK_OK(ij_step(m, items, 3, &err), err);
  for (int i = 0; i < 3; i++) {
    expect_logits(s[i], "in a batch", i);
    go_on(s[i], 10, 10, "after a batch", i);
    ij_session_close(&s[i]);
  }
  ij_model_close(&m);
}

static bool never_told(void *user, const ij_choice *choice) {
  (void)choice;
  ++*(int *)user;
  return true;
}

static void a_generation_ends_with_the_error(void) {
  ij_model *m = open_streamed(1, 8, IJ_PREDICT_OFF);
  ij_session *s = tiny_session(m, N_IDS, 4);
  ij_sample_options o = ij_sample_options_default();
  const ij_logit_bias no_end = {17, -INFINITY};
  o.logit_bias = &no_end;
  o.n_logit_bias = 1;
  ij_err err = {0};
  int told = 0;
  int64_t n = 0;
  CHECK_OK(ij_session_eval(s, ids, 10, &err), err);
  break_after(20);
  CHECK_INT(ij_generate(s, 50, &o, never_told, &told, &n, NULL, &err), IJ_E_IO);
  CHECK(n == told && n >= 1 && n < 50);
  CHECK_INT(ij_session_pos(s), 10 + n - 1); /* the last one was not evaluated */
  repair();
  ij_session_close(&s);
  ij_model_close(&m);
}

/* The only file of the model ends after its header from now on. */
static void a_file_that_shrinks_is_an_error(void) {
  char path[300];
  snprintf(path, sizeof path, "%s/model.safetensors", t.folder);
  for (int home = IJ_HOME_RESIDENT; home <= IJ_HOME_STREAMED; home++) {
    ij_model_options o = ij_model_options_default();
    ij_model *m = NULL;
    ij_err err = {0};
    o.home = (ij_home)home;
    cw_write_tensors(&t.file, t.folder);
    repair();
    CHECK_OK(try_open(&m, rooms(false), o, &err), err);
    ij_session *s = tiny_session(m, N_IDS, 4);
    CHECK_OK(ij_session_eval(s, ids, 9, &err), err);
    CHECK_INT(truncate(path, 600), 0);
    if (home == IJ_HOME_RESIDENT) {
      go_on(s, 20, 7, "without its file", 0);
    } else {
      for (int i = 0; i < 2; i++) {
        CHECK_INT(ij_session_eval(s, ids + 9, 1 + 60 * i, &err), IJ_E_IO);
        CHECK_HAS(err.where, "model.safetensors");
        CHECK_HAS(err.message, "cut short while in use");
        CHECK_INT(ij_session_pos(s), 9);
      }
    }
    ij_session_close(&s);
    ij_model_close(&m);
  }
  cw_write_tensors(&t.file, t.folder);
}

/* Every expert is in memory, so that only rows of the embedding table are still read. */
static void a_file_that_is_written_to_is_an_error(void) {
  char path[300];
  snprintf(path, sizeof path, "%s/model.safetensors", t.folder);
  ij_model *m = open_streamed_with(1, 8, IJ_PREDICT_OFF, true, false);
  ij_session *s = tiny_session(m, N_IDS, 4);
  ij_err err = {0};
  int32_t id = 0;
  for (int layer = 0; layer < m->config.n_layer; layer++) {
    ij_expert_lease leases[8];
    if (m->config.dense[layer]) continue;
    for (int e = 0; e < 8; e++) {
      CHECK_INT(ij__experts_acquire(m->weights.experts, layer, &e, 1, leases), 1);
      ij__experts_release(m->weights.experts, leases, 1);
    }
  }
  CHECK_OK(ij_session_eval(s, ids, 9, &err), err);
  const struct timespec times[2] = {{1, 0}, {1, 0}}; /* those of two writes in one tick would be the same */
  CHECK_INT(utimensat(AT_FDCWD, path, times, 0), 0);
  for (int i = 0; i < 2; i++) {
    CHECK_INT(ij_session_eval(s, &id, 1, &err), IJ_E_IO);
    CHECK_HAS(err.where, "model.safetensors");
    CHECK_HAS(err.message, "modified since");
    CHECK_INT(ij_session_pos(s), 9);
  }
  ij_session_close(&s);
  ij_model_close(&m);
  cw_write_tensors(&t.file, t.folder);
}

/* ------------------------------------------------------------------------------------------------------------ what is read */

/* Whatever the room, a chunk asks for each expert once, so it cannot be read more often. */
static void a_chunk_reads_an_expert_at_most_once(void) {
  for (int most = 0; most < 2; most++) {
    ij_model *m = open_streamed_with(2, 40, IJ_PREDICT_OFF, most, true);
    ij_session *s = tiny_session(m, N_IDS, 4);
    ij_err err = {0};
    int64_t seen = 0;
    for (int chunk = 0; chunk < 3; chunk++) {
      const int32_t *keys = NULL;
      ij_streaming_info before, after;
      ij_model_get_streaming(m, &before);
      CHECK_OK(ij_session_eval(s, ids + 40 * chunk, 40, &err), err);
      ij_model_get_streaming(m, &after);
      int64_t n = ij_model_expert_trace(m, &keys) - seen;
      CHECK(n > 8 && n <= 4 * 8);
      for (int64_t i = 1; i < n; i++) CHECK(keys[seen + i] > keys[seen + i - 1]);
      CHECK_INT(after.n_hit + after.n_miss - before.n_hit - before.n_miss, n);
      CHECK(after.n_miss - before.n_miss <= n);
      CHECK_INT(after.expert_bytes - before.expert_bytes, (uint64_t)(after.n_miss - before.n_miss) * m->plan.largest_expert);
      if (most && chunk == 2) CHECK(after.n_miss <= 32);
      seen += n;
    }
    ij_session_close(&s);
    ij_model_close(&m);
  }
}

/* ---------------------------------------------------------------------------------------------------------------- opening */

typedef struct watch {
  double last, limit;
  int n;
} watch;

static bool watch_progress(void *user, double fraction) {
  watch *w = user;
  CHECK(fraction >= w->last && fraction <= 1);
  w->last = fraction;
  w->n++;
  return fraction < w->limit;
}

static void opening_fails_and_is_cancelled_cleanly(void) {
  int64_t blocks = ij__alloc_blocks();
  size_t room = rooms(false);
  for (int home = IJ_HOME_RESIDENT; home <= IJ_HOME_STREAMED; home++) {
    int n_failed = 0;
    ij_model_options o = ij_model_options_default();
    o.home = (ij_home)home;
    for (int64_t number = 0; number < 100; number++) { /* every read of opening fails once */
      ij_model *m = NULL;
      ij_err err = {0};
      break_after(number);
      ij_status s = try_open(&m, room, o, &err);
      repair();
      ij_model_close(&m);
      CHECK_INT(ij__alloc_blocks(), blocks);
      if (s == IJ_OK) break;
      CHECK_INT(s, IJ_E_IO);
      n_failed++;
    }
    CHECK(n_failed > 0 && n_failed < 100);
    for (double limit = 0.05; limit < 1.05; limit += 0.1) {
      watch w = {.limit = limit};
      ij_model *m = NULL;
      ij_err err = {0};
      o.progress = watch_progress;
      o.user = &w;
      ij_status s = try_open(&m, room, o, &err);
      CHECK_INT(s, limit <= 1 ? IJ_E_CANCELLED : IJ_OK);
      ij_model_close(&m);
      CHECK_INT(ij__alloc_blocks(), blocks);
    }
  }
}

static void opening_without_memory(void) {
  int64_t blocks = ij__alloc_blocks();
  size_t room = rooms(false);
  ij_model_options o = ij_model_options_default();
  o.n_threads = 1;
  repair();
  for (int home = IJ_HOME_RESIDENT; home <= IJ_HOME_STREAMED; home++) {
    int n = 1;
    o.home = (ij_home)home;
    for (ij_status s = IJ_E_NOMEM; s != IJ_OK && n < 2000; n += 1 + n / 40) {
      ij_model *m = NULL;
      ij_err err = {0};
      ij__alloc_fail_after(n);
      s = try_open(&m, room, o, &err);
      ij__alloc_fail_after(0);
      if (s != IJ_OK) CHECK_INT(err.code, s);
      CHECK((m != NULL) == (s == IJ_OK));
      ij_model_close(&m);
      CHECK_INT(ij__alloc_blocks(), blocks);
    }
    CHECK(n > 20 && n < 2000);
  }
}

/* ---------------------------------------------------------------------------------------------------------------- guesses */

/* Steps of one row whose cost does, or does not, depend on guesses: what AUTO ends up with. */
static bool decides(double without, double with, int64_t n_guess, int64_t n_used) {
  ij_predictor p = {.mode = IJ_PREDICT_MODE_AUTO, .possible = true};
  int64_t guesses = 0, used = 0;
  bool was_on = false, was_off = false;
  ij__predict_count(&p, 1, 0, 0, 0); /* the first comparison begins */
  CHECK(p.comparing);
  for (int i = 0; p.comparing && i < 1000; i++) {
    was_on |= p.on, was_off |= !p.on;
    guesses += p.on ? n_guess : 0;
    used += p.on ? n_used : 0;
    ij__predict_count(&p, 1, p.on ? with : without, guesses, used);
  }
  CHECK(was_on && was_off && !p.comparing);
  bool on = p.on;
  for (int i = 0; !p.comparing && i < 100000; i++) {
    CHECK(p.on == on);
    ij__predict_count(&p, 1, 1, guesses, used);
  }
  CHECK(p.comparing); /* it looks again */
  return on;
}

static void guesses_are_made_while_they_help(void) {
  CHECK(decides(1.0, 0.5, 8, 6));
  CHECK(!decides(1.0, 1.0, 8, 6));
  CHECK(!decides(1.0, 2.0, 8, 8));
  CHECK(!decides(1.0, 0.5, 8, 0)); /* it may have been chance: nothing that was guessed was used */
  CHECK(!decides(0.0, 0.0, 0, 0));
  ij_predictor forced = {.mode = IJ_PREDICT_MODE_ON, .possible = true, .on = true};
  for (int i = 0; i < 2000; i++) ij__predict_count(&forced, 1, 1, 100, 0);
  CHECK(forced.on && !forced.comparing);
}

/* A comparison that goes a little against those before it changes nothing, several do. */
static void one_comparison_is_not_all(void) {
  ij_predictor p = {.mode = IJ_PREDICT_MODE_AUTO, .possible = true};
  int64_t used = 0;
  int n_on = 0;
  ij__predict_count(&p, 1, 0, 0, 0);
  for (int number = 0; number < 6; number++) {
    while (p.comparing) {
      used += p.on;
      ij__predict_count(&p, 1, !p.on ? 1 : number == 0 ? 0.5 : 1.05, used, used);
    }
    if (number < 2) CHECK(p.on);
    n_on += p.on;
    while (!p.comparing) ij__predict_count(&p, 1, 1, used, used);
  }
  CHECK(n_on < 6);
}

static void guesses_come_true(void) {
  ij_model *m = open_streamed(2, 8, IJ_PREDICT_ON);
  ij_session *s = tiny_session(m, N_IDS, 4);
  ij_streaming_info info;
  go_on(s, 25, 1, "with guesses", 0);
  ij_model_get_streaming(m, &info);
  CHECK(info.n_guess_used <= info.n_guess);
  CHECK(info.n_guess_used + info.n_guess_cancelled <= info.n_guess);
  ij_session_close(&s);
  ij_model_close(&m);
}

/* A table of embeddings that is also the output is copied as a whole. */
static void tied_embeddings(void) {
  static float in_home[2][N_VOCAB];
  static tiny tied;
  cw_dims d = cw_usual();
  tiny_build(&tied, &d, IJ_DTYPE_BF16, "text.tie_word_embeddings=true\n");
  cw_remove(&tied.file, "model.llm.unembed.weight");
  cw_write_tensors(&tied.file, tied.folder);
  for (int i = 0; i < 2; i++) {
    ij_model_options o = ij_model_options_default();
    ij_model *m = NULL;
    ij_err err = {0};
    o.home = i ? IJ_HOME_STREAMED : IJ_HOME_MAPPED;
    CHECK_OK(ij_model_open(&m, tied.folder, &o, &err), err);
    ij_session *s = tiny_session(m, 32, 4);
    CHECK_OK(ij_session_eval(s, ids, 30, &err), err);
    memcpy(in_home[i], ij_session_logits(s), sizeof in_home[i]);
    ij_session_close(&s);
    ij_model_close(&m);
  }
  CHECK(memcmp(in_home[0], in_home[1], sizeof in_home[0]) == 0);
  tiny_free(&tied);
}

/* All layers are dense, or only the last is not: there is little to stream, or nothing, which is said. */
static void models_of_few_experts(void) {
  for (int n_moe = 0; n_moe < 2; n_moe++) {
    static float in_home[4][N_VOCAB];
    static tiny few;
    cw_dims d = cw_usual();
    for (int i = 0; i < d.n_layer; i++) d.is_dense[i] = i < d.n_layer - n_moe;
    tiny_build(&few, &d, IJ_DTYPE_F32, "");
    cw_write_tensors(&few.file, few.folder);
    for (int home = IJ_HOME_AUTO; home <= IJ_HOME_STREAMED; home++) {
      ij_model_options o = ij_model_options_default();
      ij_model *m = NULL;
      ij_err err = {0};
      o.home = (ij_home)home;
      o.predict = IJ_PREDICT_ON;
      ij_status s = ij_model_open(&m, few.folder, &o, &err);
      if (n_moe == 0 && home == IJ_HOME_STREAMED) {
        CHECK_INT(s, IJ_E_UNSUPPORTED);
        CHECK_HAS(err.message, "this model has none");
        continue;
      }
      CHECK_OK(s, err);
      if (!m) continue;
      ij_session *x = tiny_session(m, 32, 4);
      for (int i = 0; i < 20; i++) CHECK_OK(ij_session_eval(x, ids + i, 1, &err), err);
      memcpy(in_home[home], ij_session_logits(x), sizeof in_home[home]);
      CHECK(memcmp(in_home[0], in_home[home], sizeof in_home[0]) == 0);
      ij_session_close(&x);
      ij_model_close(&m);
    }
    tiny_free(&few);
  }
}

int main(void) {
  cw_dims d = cw_usual();
  d.n_expert = 8;
  tiny_build(&t, &d, IJ_DTYPE_F32, "text.num_experts_per_tok=2\n");
  remember_right_answers();
  RUN(a_prompt_that_fails_goes_on);
  RUN(an_answer_that_fails_goes_on);
  RUN(forks_and_saves_after_a_failure);
  RUN(all_of_a_batch_fail_and_go_on);
  RUN(a_generation_ends_with_the_error);
  RUN(a_file_that_shrinks_is_an_error);
  RUN(a_file_that_is_written_to_is_an_error);
  RUN(tied_embeddings);
  RUN(models_of_few_experts);
  RUN(a_chunk_reads_an_expert_at_most_once);
  RUN(opening_fails_and_is_cancelled_cleanly);
  RUN(opening_without_memory);
  RUN(guesses_are_made_while_they_help);
  RUN(one_comparison_is_not_all);
  RUN(guesses_come_true);
  tiny_free(&t);
  return test_report();
}
