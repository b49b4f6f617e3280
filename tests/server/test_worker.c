/* test_worker.c: jobs in company answer what they answer alone; why jobs end; what is refused; what one job's trouble does to others.
 * The prefix cache has its own test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "engine/engine_int.h"
#include "worker_kit.h"

static tiny t;
static ij_model *m;

/* --------------------------------------------------------------------------------------------------------------- answers */

static kit_job *random_job(uint64_t *seed) {
  kit_job *j = kit_make(1 + (int)(test_random(seed) % 90), test_random(seed));
  j->max_tokens = (int64_t)(test_random(seed) % 40);
  j->sample.temperature = test_random(seed) % 3 ? 0.9f : 0.0f;
  j->sample.seed = test_random(seed);
  if (test_random(seed) % 3 == 0) j->sample.top_p = 0.8f;
  if (test_random(seed) % 3 == 0) j->sample.frequency_penalty = 0.5f, j->sample.penalty_window = (int64_t)(test_random(seed) % 20);
  j->guided = test_random(seed) % 3 == 0;
  j->n_top = test_random(seed) % 3 == 0 ? 5 : 0;
  return j;
}

static void answers_do_not_depend_on_company(void) {
  enum { N = TEST_EMULATED(30, 8) };
  kit_job *jobs[N];
  ij_worker_options o = kit_options();
  uint64_t seed = 1;
  for (int rows = 1; rows <= 64; rows *= 4) {
    o.n_parallel = 1 + rows % 9;
    o.prefill_rows = rows;
    ij_worker *w = kit_open(m, &o);
    for (int i = 0; i < N; i++) jobs[i] = random_job(&seed);
    for (int i = 0; i < N; i++) kit_send(w, jobs[i]);
    for (int i = 0; i < N; i++) {
      kit_wait(jobs[i]);
      CHECK_INT(jobs[i]->how, IJ_JOB_LENGTH);
      CHECK_INT(jobs[i]->n_got, jobs[i]->max_tokens);
      CHECK_INT(jobs[i]->n_closed, jobs[i]->guided);
      kit_expect(m, jobs[i]);
    }
    ij__worker_close(&w);
    for (int i = 0; i < N; i++) CHECK_INT(jobs[i]->n_ends, 1);
    for (int i = 0; i < N; i++) ij__free(jobs[i]);
  }
}

static void forced_ids_are_said_to_be_so(void) {
  ij_worker_options o = kit_options();
  ij_worker *w = kit_open(m, &o);
  for (int n_top = 0; n_top <= 2; n_top += 2) {
    kit_job *j = kit_make(9, 4);
    j->guided = true;
    j->n_top = n_top;
    j->max_tokens = 30;
    kit_run(w, j);
    CHECK_INT(j->n_got, 30);
    for (int i = 0; i < 30; i++) CHECK_INT(j->sampled[i], kit_forced_at(i) < 0);
    kit_expect(m, j);
    ij__free(j);
  }
  for (int limit = 1; limit < 9; limit++) { /* a limit inside a forced run */
    kit_job *j = kit_make(9, 4);
    j->guided = true;
    j->max_tokens = limit;
    kit_run(w, j);
    CHECK_INT(j->how, IJ_JOB_LENGTH);
    CHECK_INT(j->n_got, limit);
    kit_expect(m, j);
    ij__free(j);
  }
  ij__worker_close(&w);
}

/* ------------------------------------------------------------------------------------------------------------------ ends */

static void reasons_to_end(void) {
  ij_worker_options o = kit_options();
  o.n_ctx = 40;
  ij_worker *w = kit_open(m, &o);
  kit_job *j = kit_make(30, 5);
  j->max_tokens = -1;
  kit_run(w, j);
  CHECK_INT(j->how, IJ_JOB_CONTEXT);
  CHECK_INT(j->n_got, 11); /* the last one has no place to be evaluated */
  CHECK_INT(j->usage.n_prompt, 30);
  CHECK_INT(j->usage.n_generated, 11);
  kit_expect(m, j);
  ij__free(j);

  j = kit_make(40, 5); /* full from the start */
  kit_run(w, j);
  CHECK_INT(j->how, IJ_JOB_CONTEXT);
  CHECK_INT(j->n_got, 1);
  ij__free(j);

  for (int guided = 0; guided < 2; guided++) {
    for (int n = 1; n < 8; n++) {
      j = kit_make(3, 5);
      j->stop_after = n;
      j->guided = guided;
      j->leave = n == 7;
      kit_run(w, j);
      CHECK_INT(j->how, j->leave ? IJ_JOB_CANCELLED : IJ_JOB_STOPPED);
      CHECK_INT(j->n_got, n);
      kit_expect(m, j);
      ij__free(j);
    }
  }

  j = kit_make(3, 5);
  j->bias.bias = 1e4f; /* nothing but the end id */
  kit_run(w, j);
  CHECK_INT(j->how, IJ_JOB_EOS);
  CHECK_INT(j->n_got, 1);
  CHECK_INT(j->got[0].id, KIT_VOCAB - 1);
  ij__free(j);

  j = kit_make(3, 5);
  j->max_tokens = 0;
  kit_run(w, j);
  CHECK_INT(j->how, IJ_JOB_LENGTH);
  CHECK_INT(j->n_got, 0);
  ij__free(j);
  ij__worker_close(&w);
}

static void refuse(ij_worker *w, ij_job_request r, ij_status want, const char *field) {
  ij_err err = {0};
  CHECK_INT(ij__worker_submit(w, &r, &err), want);
  CHECK_HAS(err.where, field);
}

static void bad_requests_are_refused(void) {
  ij_worker_options o = kit_options();
  ij_worker *w = kit_open(m, &o);
  static const int32_t ids[513] = {1, 2, 3}, bad[] = {1, 18}, negative[] = {-1};
  uint32_t mask = 1;
  kit_job *j = kit_make(1, 1);
  ij_job_request good = {.ids = ids, .n_ids = 3, .max_tokens = 1, .sample = ij_sample_options_default(), .end = kit_end, .user = j}, r = good;
  r.n_ids = 0, refuse(w, r, IJ_E_ARGUMENT, "prompt"), r = good;
  r.ids = NULL, refuse(w, r, IJ_E_ARGUMENT, "prompt"), r = good;
  r.n_ids = 513, refuse(w, r, IJ_E_CONTEXT, "prompt"), r = good;
  r.ids = bad, r.n_ids = 2, refuse(w, r, IJ_E_ARGUMENT, "prompt"), r = good;
  r.ids = negative, r.n_ids = 1, refuse(w, r, IJ_E_ARGUMENT, "prompt"), r = good;
  r.max_tokens = -2, refuse(w, r, IJ_E_ARGUMENT, "max_tokens"), r = good;
  r.n_top = -1, refuse(w, r, IJ_E_ARGUMENT, "n_top"), r = good;
  r.n_top = 19, refuse(w, r, IJ_E_ARGUMENT, "n_top"), r = good;
  r.sample.struct_size = 0, refuse(w, r, IJ_E_ARGUMENT, "sample"), r = good;
  r.sample.allowed = &mask, refuse(w, r, IJ_E_ARGUMENT, "sample"), r = good;
  r.sample.n_logit_bias = 1, refuse(w, r, IJ_E_ARGUMENT, "n_logit_bias"), r = good;
  r.end = NULL, refuse(w, r, IJ_E_ARGUMENT, "end");
  ij_err err;
  CHECK_OK(ij__worker_submit(w, &good, &err), err); /* neither token nor alive */
  kit_wait(j);
  CHECK_INT(j->how, IJ_JOB_LENGTH);
  CHECK_INT(j->usage.n_generated, 1);
  ij__free(j);
  ij__worker_close(&w);
}

static void refuse_options(ij_worker_options o, const char *field) {
  ij_worker *w = NULL;
  ij_err err = {0};
  CHECK_INT(ij__worker_open(&w, m, &o, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.where, field);
  CHECK(w == NULL);
}

static void bad_options_are_refused(void) {
  ij_worker_options good = kit_options(), o = good;
  o.n_parallel = 0, refuse_options(o, "n_parallel"), o = good;
  o.max_queue = -1, refuse_options(o, "max_queue"), o = good;
  o.n_ctx = -1, refuse_options(o, "n_ctx"), o = good;
  o.n_ctx = 4097, refuse_options(o, "n_ctx"), o = good; /* the model's limit is 4096 */
  o.kv_type = (ij_kv_type)9, refuse_options(o, "kv_type"), o = good;
  o.prefill_rows = 0, refuse_options(o, "prefill_rows");
  ij_worker *w = kit_open(m, NULL);
  ij__worker_close(&w);
  CHECK(w == NULL);
  ij__worker_close(&w);
  ij__worker_close(NULL);
}

/* ------------------------------------------------------------------------------------------------- leaving, full queues */

static void callers_may_leave_at_any_time(void) {
  ij_worker_options o = kit_options();
  o.n_parallel = 2;
  o.prefill_rows = 10;
  for (int when = 0; when < 30; when += TEST_EMULATED(1, 5)) { /* of two that run: in the queue, in the prompt (8 turns), in the answer */
    ij_worker *w = kit_open(m, &o);
    kit_job *stay = kit_make(80, 1), *leave = kit_make(40, 2), *later = kit_make(20, 3);
    stay->max_tokens = 40;
    leave->max_tokens = 400;
    leave->die_after = when;
    kit_send(w, stay);
    kit_send(w, leave);
    kit_send(w, later);
    kit_wait(leave);
    kit_wait(stay);
    kit_wait(later);
    CHECK_INT(leave->how, IJ_JOB_CANCELLED);
    CHECK(leave->n_got <= when); /* at most one id for each time it was found alive */
    CHECK_INT(stay->how, IJ_JOB_LENGTH);
    CHECK_INT(later->how, IJ_JOB_LENGTH);
    kit_expect(m, stay);
    kit_expect(m, leave);
    kit_expect(m, later);
    ij_worker_stats stats;
    ij__worker_drain(w, 10);
    ij__worker_stats(w, &stats);
    CHECK_INT(stats.n_cancelled, 1);
    CHECK_INT(stats.n_running, 0);
    CHECK_INT(stats.n_waiting, 0);
    ij__worker_close(&w);
    ij__free(stay);
    ij__free(leave);
    ij__free(later);
  }
}

static void the_queue_is_bounded(void) {
  ij_worker_options o = kit_options();
  o.n_parallel = 1;
  o.max_queue = 2;
  ij_worker *w = kit_open(m, &o);
  kit_job *jobs[4];
  ij_err err = {0};
  for (int i = 0; i < 4; i++) jobs[i] = kit_make(5, (uint64_t)i);
  jobs[0]->max_tokens = -1;
  jobs[3]->guided = true;
  kit_send(w, jobs[0]);
  kit_wait_tokens(jobs[0], 1);
  kit_send(w, jobs[1]);
  kit_send(w, jobs[2]);
  CHECK_INT(kit_submit(w, jobs[3], &err), IJ_E_BUSY);
  CHECK_HAS(err.message, "limit");
  ij_worker_stats stats;
  ij__worker_stats(w, &stats);
  CHECK_INT(stats.n_refused, 1);
  CHECK_INT(stats.n_jobs, 3);
  kit_wait(jobs[2]);
  kit_run(w, jobs[3]); /* there is room again */
  CHECK_INT(jobs[3]->n_ends, 1);
  CHECK_INT(jobs[3]->n_closed, 2);
  ij__worker_close(&w);
  for (int i = 0; i < 4; i++) ij__free(jobs[i]);
}

static void draining_waits_and_then_cancels(void) {
  ij_worker_options o = kit_options();
  o.n_parallel = 1;
  for (int patient = 0; patient < 2; patient++) {
    ij_worker *w = kit_open(m, &o);
    kit_job *a = kit_make(5, 1), *b = kit_make(5, 2), *c = kit_make(5, 3);
    a->max_tokens = b->max_tokens = 300;
    ij_err err = {0};
    kit_send(w, a);
    kit_send(w, b);
    ij__worker_drain(w, patient ? 60 : 0);
    CHECK_INT(a->n_ends, 1);
    CHECK_INT(b->n_ends, 1);
    CHECK_INT(b->how, patient ? IJ_JOB_LENGTH : IJ_JOB_CANCELLED);
    CHECK_INT(kit_submit(w, c, &err), IJ_E_CANCELLED);
    CHECK_HAS(err.message, "stop");
    kit_expect(m, a);
    ij__worker_close(&w);
    ij__free(a);
    ij__free(b);
    ij__free(c);
  }
}

/* A job that submits the next one from its callback. */
typedef struct chain {
  ij_worker *w;
  int left;
  kit_job *last;
} chain;

static void chain_end(void *user, ij_job_end how, const ij_job_usage *usage, const ij_err *err) {
  chain *c = user;
  static const int32_t ids[] = {1, 2, 3};
  CHECK_INT(how, IJ_JOB_LENGTH);
  if (--c->left == 0) {
    kit_end(c->last, how, usage, err);
    return;
  }
  ij_job_request r = {.ids = ids, .n_ids = 3, .max_tokens = 2, .sample = ij_sample_options_default(), .end = chain_end, .user = c};
  ij_err e;
  CHECK_OK(ij__worker_submit(c->w, &r, &e), e);
}

static void callbacks_may_submit(void) {
  ij_worker_options o = kit_options();
  chain c = {.w = kit_open(m, &o), .left = 20, .last = kit_make(1, 1)};
  chain_end(&c, IJ_JOB_LENGTH, NULL, NULL);
  kit_wait(c.last);
  ij__worker_close(&c.w);
  ij__free(c.last);
}

/* --------------------------------------------------------------------------------------------------------------- trouble */

/* Token 5 has no finite embedding. */
static void one_broken_prompt_fails_alone(void) {
  float *weight = tiny_values(&t, "model.llm.embed.weight") + 5 * 8, was = *weight;
  *weight = NAN;
  ij_model *x = tiny_open(&t, 2, 8);
  *weight = was;
  ij_worker_options o = kit_options();
  o.n_parallel = 6;
  ij_worker *w = kit_open(x, &o);
  kit_job *jobs[6];
  for (int i = 0; i < 6; i++) {
    jobs[i] = kit_make(30, (uint64_t)i + 7);
    for (int k = 0; k < 30; k++) jobs[i]->prompt[k] += jobs[i]->prompt[k] == 5;
    ij_logit_bias never = {5, -INFINITY};
    jobs[i]->bias = never;
  }
  jobs[2]->prompt[25] = jobs[4]->prompt[11] = 5;
  for (int i = 0; i < 6; i++) kit_send(w, jobs[i]);
  for (int i = 0; i < 6; i++) kit_wait(jobs[i]);
  for (int i = 0; i < 6; i++) {
    bool broken = i == 2 || i == 4;
    CHECK_INT(jobs[i]->how == IJ_JOB_FAILED, broken);
    CHECK_INT(jobs[i]->err.code, broken ? IJ_E_NUMERIC : IJ_OK);
    if (!broken) kit_expect(x, jobs[i]);
  }
  ij__worker_close(&w);
  for (int i = 0; i < 6; i++) ij__free(jobs[i]);
  ij_model_close(&x);
}

static void a_guide_that_refuses_fails_the_job(void) {
  ij_worker_options o = kit_options();
  ij_worker *w = kit_open(m, &o);
  for (int wrong = 0; wrong < 8; wrong++) {
    kit_job *j = kit_make(5, 1);
    ij_job_request r = {.ids = j->prompt, .n_ids = 5, .max_tokens = 20, .sample = j->sample, .token = kit_token, .end = kit_end, .user = j};
    r.guide = kit_guide(&j->n_closed);
    r.guide->wrong = wrong;
    ij_err err;
    CHECK_OK(ij__worker_submit(w, &r, &err), err);
    kit_wait(j);
    CHECK_INT(j->how, IJ_JOB_FAILED);
    CHECK_HAS(j->err.where, "guide");
    CHECK_INT(j->n_closed, 1);
    ij__free(j);
  }
  kit_job *j = kit_make(5, 1);
  j->sample.temperature = -1;
  kit_run(w, j);
  CHECK_INT(j->how, IJ_JOB_FAILED);
  CHECK_INT(j->err.code, IJ_E_ARGUMENT);
  CHECK_HAS(j->err.where, "temperature");
  ij__free(j);
  ij__worker_close(&w);
}

/* Fails the n-th allocation and all later ones, for every n: each job ends once, with its answer or with the lack of memory; nothing leaks. */
static void failing_memory_fails_jobs_only(void) {
  int64_t blocks = ij__alloc_blocks();
  int n_answered = 0, n_failed = 0;
  for (int n = 1; n < 60; n++) {
    kit_job *j = kit_make(20, 3);
    j->guided = true;
    ij_worker_options o = kit_options();
    ij_worker *w = NULL;
    ij_err err = {0};
    ij_job_request r = {.ids = j->prompt, .n_ids = 20, .max_tokens = 12, .sample = j->sample, .token = kit_token, .end = kit_end, .user = j};
    r.guide = kit_guide(&j->n_closed);
    ij__alloc_fail_after(n);
    ij_status status = ij__worker_open(&w, m, &o, &err);
    if (status == IJ_OK) status = ij__worker_submit(w, &r, &err);
    if (status == IJ_OK) kit_wait(j);
    if (w) ij__worker_drain(w, 0);
    ij__alloc_fail_after(0);
    if (status != IJ_OK) {
      CHECK_INT(status, IJ_E_NOMEM);
      CHECK_INT(j->n_ends, 0);
      ij_guide_close(&r.guide);
    } else if (j->how == IJ_JOB_FAILED) {
      CHECK_INT(j->err.code, IJ_E_NOMEM);
      n_failed++;
    } else {
      CHECK_INT(j->how, IJ_JOB_LENGTH);
      CHECK_INT(j->n_got, 12);
      kit_expect(m, j);
      n_answered++;
    }
    CHECK_INT(j->n_closed, 1);
    ij__worker_close(&w);
    ij__free(j);
  }
  CHECK(n_failed >= 4);
  CHECK(n_answered >= 20);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

/* ---------------------------------------------------------------------------------------------------- a drive that fails */

static _Atomic int64_t good_reads; /* this many more succeed */

static int64_t drive(void *user, int fd, void *to, size_t n, uint64_t offset, int *errnum) {
  (void)user;
  if (atomic_fetch_sub(&good_reads, 1) <= 0) {
    *errnum = EIO;
    return -1;
  }
  ssize_t got = pread(fd, to, n, (off_t)offset);
  if (got < 0) *errnum = errno;
  return got;
}

/* Experts are read for every step, and some reads fail: the jobs of that step end with the error and no other answer than the tokens so far; those
 * before and after it are answered as ever. */
static void a_drive_that_fails_fails_the_jobs_of_its_step(void) {
  ij_model_options o = ij_model_options_default();
  ij_open_hooks hooks = {.reader = {.kind = IJ_READER_POOL, .fault = drive}};
  ij_expert_banks banks = ij__weights_banks(&m->weights, &m->config);
  ij_model *x = NULL;
  ij_err err = {0};
  hooks.expert_room = ij__experts_streamed_least(&banks);
  o.home = IJ_HOME_STREAMED;
  o.plan_sessions = 100;
  o.max_batch = 32;
  atomic_store(&good_reads, INT64_MAX);
  CHECK_OK(ij__model_open_with(&x, t.folder, &o, &hooks, &err), err);
  if (!x) return;
  ij_worker_options w_options = kit_options();
  ij_worker *w = kit_open(x, &w_options);
  int n_failed = 0;
  for (int round = 0; round < 14; round++) {
    kit_job *jobs[3];
    atomic_store(&good_reads, round % 2 ? INT64_MAX : 10 * round);
    for (int i = 0; i < 3; i++) {
      jobs[i] = kit_make(20, (uint64_t)(round + i));
      jobs[i]->max_tokens = 12;
      kit_send(w, jobs[i]);
    }
    for (int i = 0; i < 3; i++) kit_wait(jobs[i]);
    for (int i = 0; i < 3; i++) {
      kit_job *j = jobs[i];
      CHECK_INT(j->n_ends, 1);
      CHECK_INT(j->how, j->err.code == IJ_OK ? IJ_JOB_LENGTH : IJ_JOB_FAILED);
      CHECK(j->err.code == IJ_OK || j->err.code == IJ_E_IO);
      CHECK(j->err.code == IJ_OK || j->n_got < 12);
      if (round % 2) CHECK_INT(j->err.code, IJ_OK);
      n_failed += j->err.code != IJ_OK;
      kit_expect(m, j); /* what was handed out before the failure is right as well */
      ij__free(j);
    }
  }
  CHECK(n_failed >= 6);
  ij__worker_close(&w);
  ij_model_close(&x);
}

int main(void) {
  cw_dims d = cw_usual();
  tiny_build(&t, &d, IJ_DTYPE_F32, "");
  m = tiny_open(&t, 2, 8);
  RUN(answers_do_not_depend_on_company);
  RUN(forced_ids_are_said_to_be_so);
  RUN(reasons_to_end);
  RUN(bad_requests_are_refused);
  RUN(bad_options_are_refused);
  RUN(callers_may_leave_at_any_time);
  RUN(the_queue_is_bounded);
  RUN(draining_waits_and_then_cancels);
  RUN(callbacks_may_submit);
  RUN(a_guide_that_refuses_fails_the_job);
  RUN(failing_memory_fails_jobs_only);
  RUN(a_drive_that_fails_fails_the_jobs_of_its_step);
  ij_model_close(&m);
  RUN(one_broken_prompt_fails_alone);
  tiny_free(&t);
  return test_report();
}
