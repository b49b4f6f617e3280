/* worker_kit.h: for tests of the worker: a tiny model, a record of what a job answered, the same answer computed without a worker, and a
 * guide whose language is a rhythm of forced and masked ids.
 *
 * The guide here takes the place of the real one (nothing else of it is linked), so that a model of 18 ids without a tokenizer will do.
 */
#ifndef IJ_TEST_WORKER_KIT_H
#define IJ_TEST_WORKER_KIT_H

#include <pthread.h>

#include "core/alloc.h"
#include "core/os.h"
#include "server/worker.h"
#include "tiny.h"

#define KIT_VOCAB 18
#define KIT_MAX 512

/* ---------------------------------------------------------------------------------------------------------------- guides */

struct ij_guide {
  int n_accepted, wrong;       /* wrong: refuses the id with this number */
  uint32_t mask;
  int *n_closed;
};

/* Of each six ids, numbers 1 to 3 are forced, 4 is one of the even ones, the others are free. */
static int32_t kit_forced_at(int number) {
  static const int32_t forced[] = {-1, 3, 5, 9, -1, -1};
  return forced[number % 6];
}

static inline uint32_t kit_mask_at(int number) {
  int32_t forced = kit_forced_at(number);
  return forced >= 0 ? 1u << forced : number % 6 == 4 ? 0x15555u : 0;
}

static inline ij_guide *kit_guide(int *n_closed) {
  ij_guide *g = ij__alloc_zero(1, sizeof *g);
  if (!g) exit(2);
  g->n_closed = n_closed;
  g->wrong = -1;
  return g;
}

void ij_guide_close(ij_guide **guide) {
  if (!guide || !*guide) return;
  ++*(*guide)->n_closed;
  ij__free(*guide);
  *guide = NULL;
}

const uint32_t *ij_guide_mask(ij_guide *g) {
  g->mask = kit_mask_at(g->n_accepted);
  return g->mask ? &g->mask : NULL;
}

ij_status ij_guide_accept(ij_guide *g, int32_t id, ij_err *err) {
  uint32_t mask = kit_mask_at(g->n_accepted);
  if (g->n_accepted == g->wrong || (mask && !(mask >> id & 1))) return ij__fail(err, IJ_E_ARGUMENT, "the test's guide", "id %d may not come here", id);
  g->n_accepted++;
  return IJ_OK;
}

int ij_guide_forced(ij_guide *g, int32_t *ids, int cap) {
  int n = 0;
  while (n < cap && kit_forced_at(g->n_accepted + n) >= 0) ids[n] = kit_forced_at(g->n_accepted + n), n++;
  return n;
}

/* --------------------------------------------------------------------------------------------------------------- records */

typedef struct kit_job {
  /* What is asked. */
  int32_t prompt[KIT_MAX];
  int n_prompt, n_top;
  int64_t max_tokens;
  bool guided;
  ij_sample_options sample;
  ij_logit_bias bias;
  ij_rows rows[8];             /* media among the prompt */
  int n_rows;
  int stop_after;              /* the callback says stop at this id; 0: never */
  bool leave;                  /* and alive() says no from then on */
  int die_after;               /* alive() says no after this many questions; -1: never */
  /* What came. */
  ij_choice got[KIT_MAX], top[KIT_MAX];
  bool sampled[KIT_MAX];
  int n_got, n_ends, n_asked, n_closed;
  ij_job_end how;
  ij_job_usage usage;
  ij_err err;
} kit_job;

static pthread_mutex_t kit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t kit_ended = PTHREAD_COND_INITIALIZER;

static bool kit_token(void *user, const ij_job_token *t) {
  kit_job *j = user;
  pthread_mutex_lock(&kit_lock);
  if (j->n_got < KIT_MAX) {
    j->got[j->n_got] = t->choice;
    j->sampled[j->n_got] = t->sampled;
    if (t->n_top > 0) j->top[j->n_got] = t->top[t->n_top - 1];
  }
  j->n_got++;
  bool more = j->n_got != j->stop_after;
  if (!more && j->leave) j->die_after = 0;
  pthread_mutex_unlock(&kit_lock);
  return more;
}

static bool kit_alive(void *user) {
  kit_job *j = user;
  pthread_mutex_lock(&kit_lock);
  bool alive = j->die_after < 0 || j->n_asked++ < j->die_after;
  pthread_mutex_unlock(&kit_lock);
  return alive;
}

static void kit_end(void *user, ij_job_end how, const ij_job_usage *usage, const ij_err *err) {
  kit_job *j = user;
  pthread_mutex_lock(&kit_lock);
  j->n_ends++;
  j->how = how;
  j->usage = *usage;
  if (err) j->err = *err;
  pthread_cond_broadcast(&kit_ended);
  pthread_mutex_unlock(&kit_lock);
}

static inline void kit_wait(kit_job *j) {
  pthread_mutex_lock(&kit_lock);
  while (j->n_ends == 0) pthread_cond_wait(&kit_ended, &kit_lock);
  pthread_mutex_unlock(&kit_lock);
}

static inline void kit_wait_tokens(kit_job *j, int n) {
  for (;;) {
    pthread_mutex_lock(&kit_lock);
    bool there = j->n_got >= n || j->n_ends;
    pthread_mutex_unlock(&kit_lock);
    if (there) return;
    sched_yield();
  }
}

/* Some prompt of n ids, the same for the same seed. */
static inline kit_job *kit_make(int n, uint64_t seed) {
  kit_job *j = ij__alloc_zero(1, sizeof *j);
  if (!j) exit(2);
  for (int i = 0; i < n; i++) j->prompt[i] = (int32_t)(test_random(&seed) % (KIT_VOCAB - 1));
  j->n_prompt = n;
  j->max_tokens = 12;
  j->die_after = -1;
  j->sample = ij_sample_options_default();
  j->bias = (ij_logit_bias){KIT_VOCAB - 1, -INFINITY}; /* the end id: answers are as long as asked */
  j->sample.logit_bias = &j->bias;
  j->sample.n_logit_bias = 1;
  return j;
}

static inline ij_status kit_submit(ij_worker *w, kit_job *j, ij_err *err) {
  ij_job_request r = {.ids = j->prompt, .n_ids = j->n_prompt, .max_tokens = j->max_tokens, .sample = j->sample, .n_top = j->n_top,
                      .rows = j->rows, .n_rows = j->n_rows, .token = kit_token, .alive = kit_alive, .end = kit_end, .user = j};
  if (j->guided) r.guide = kit_guide(&j->n_closed);
  ij_status status = ij__worker_submit(w, &r, err);
  if (status != IJ_OK && j->guided) ij_guide_close(&r.guide);
  return status;
}

static inline void kit_send(ij_worker *w, kit_job *j) {
  ij_err err;
  CHECK_OK(kit_submit(w, j, &err), err);
}

static inline void kit_run(ij_worker *w, kit_job *j) {
  kit_send(w, j);
  kit_wait(j);
}

/* The same answer by hand: one session, one id at a time, every id under the guide's mask. */
static inline void kit_expect(ij_model *m, const kit_job *j) {
  ij_err err;
  ij_session *s = tiny_session(m, 512, 64);
  ij_choice top[IJ_MAX_TOP];
  CHECK_OK(ij_session_eval_rows(s, j->prompt, j->n_prompt, j->rows, j->n_rows, &err), err);
  for (int i = 0; i < j->n_got; i++) {
    ij_sample_options o = j->sample;
    uint32_t mask = j->guided ? kit_mask_at(i) : 0;
    if (mask) o.allowed = &mask, o.n_allowed = KIT_VOCAB;
    ij_choice c;
    CHECK_OK(ij_session_sample(s, &o, &c, &err), err);
    if (j->n_top > 0) CHECK_OK(ij_session_top(s, j->n_top, top, &err), err);
    bool same = c.id == j->got[i].id && memcmp(&c.logprob, &j->got[i].logprob, sizeof c.logprob) == 0;
    if (j->n_top > 0) same = same && memcmp(&top[j->n_top - 1], &j->top[i], sizeof *top) == 0;
    if (!same) TEST_FAIL("id %d of a job is %d (%.9g), alone %d (%.9g)", i, j->got[i].id, (double)j->got[i].logprob, c.id, (double)c.logprob);
    if (!same) break;
    if (i + 1 < j->n_got) CHECK_OK(ij_session_eval(s, &c.id, 1, &err), err);
  }
  ij_session_close(&s);
}

static inline ij_worker_options kit_options(void) {
  ij_worker_options o = ij__worker_options_default();
  o.n_parallel = 3;
  o.max_queue = 100;
  o.n_ctx = 512;
  o.prefill_rows = 20;
  return o;
}

static inline ij_worker *kit_open(ij_model *m, const ij_worker_options *o) {
  ij_worker *w = NULL;
  ij_err err;
  if (ij__worker_open(&w, m, o, &err) == IJ_OK) return w;
  printf("the test's worker does not open: %s: %s\n", err.where, err.message);
  exit(2);
}

#endif
