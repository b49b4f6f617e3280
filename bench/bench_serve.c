/* bench_serve.c: the worker of the server, without HTTP: what a conversation saves by the prefix cache, and what answering several at once
 * gives.
 *
 *     bench_serve MODEL [PROMPT] [SESSIONS] [TOKENS]
 *
 * PROMPT 0 leaves the first part out, SESSIONS 0 the second. Times to the first token are from submitting; throughput counts the answers'
 * tokens from the first to the last of each run, one session and several in turns.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "server/worker.h"

enum { MAX_SESSIONS = 64, ROUNDS = 3, ANSWER = 24, QUESTION = 40 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

typedef struct job {
  double t_submit, t_first, t_last;
  int32_t *said;         /* room for what it says, or NULL */
  int n;
  bool over;
  ij_job_usage usage;
} job;

static bool on_token(void *user, const ij_job_token *t) {
  job *j = user;
  j->t_last = ij__os_seconds();
  if (j->n == 0) j->t_first = j->t_last;
  if (j->said) j->said[j->n] = t->choice.id;
  j->n++;
  return true;
}

static void on_end(void *user, ij_job_end end, const ij_job_usage *usage, const ij_err *err) {
  job *j = user;
  if (end != IJ_JOB_LENGTH) {
    fprintf(stderr, "a job ended otherwise than expected (%d): %s\n", (int)end, err ? err->message : "");
    exit(1);
  }
  pthread_mutex_lock(&lock);
  j->usage = *usage;
  j->over = true;
  pthread_cond_broadcast(&ended);
  pthread_mutex_unlock(&lock);
}

static void need(ij_status status, const ij_err *err) {
  if (status == IJ_OK) return;
  fprintf(stderr, "%s: %s\n", err->where, err->message);
  exit(1);
}

static void submit(ij_worker *w, job *j, const int32_t *ids, int64_t n_ids, int64_t max_tokens, const ij_logit_bias *no_end, int n_no_end) {
  ij_err err;
  ij_job_request r = {.ids = ids, .n_ids = n_ids, .max_tokens = max_tokens, .sample = ij_sample_options_default(), .token = on_token, .end = on_end, .user = j};
  r.sample.logit_bias = no_end;
  r.sample.n_logit_bias = n_no_end;
  j->t_submit = ij__os_seconds();
  need(ij__worker_submit(w, &r, &err), &err);
}

static void wait_for(job *j) {
  pthread_mutex_lock(&lock);
  while (!j->over) pthread_cond_wait(&ended, &lock);
  pthread_mutex_unlock(&lock);
}

/* Ids that end an answer may not come, so that all are as long as asked. */
static int end_ids(const ij_model *m, int n_vocab, ij_logit_bias *out, int cap) {
  int n = 0;
  for (int32_t id = 0; id < n_vocab && n < cap; id++) {
    if (ij_model_is_eos(m, id)) out[n++] = (ij_logit_bias){id, -1e30f};
  }
  return n;
}

static void fill(int32_t *ids, int64_t n, uint32_t seed, int n_vocab) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    ids[i] = (int32_t)((seed >> 8) % (uint32_t)n_vocab);
  }
}

static double first_token(ij_worker *w, const int32_t *ids, int64_t n, int64_t max_tokens, int32_t *said, const char *what, double cold,
                          const ij_logit_bias *no_end, int n_no_end) {
  job j = {.said = said};
  submit(w, &j, ids, n, max_tokens, no_end, n_no_end);
  wait_for(&j);
  double t = j.t_first - j.t_submit;
  printf("%-34s %6lld ids, %6lld from the cache: first token after %8.3f s", what, (long long)n, (long long)j.usage.n_cached, t);
  if (cold > 0) printf(", %.2f %% of cold", 100 * t / cold);
  printf("\n");
  fflush(stdout);
  return t;
}

static void conversation(ij_model *m, int64_t n_prompt, int n_vocab, const ij_logit_bias *no_end, int n_no_end) {
  ij_worker_options o = ij__worker_options_default();
  ij_worker *w = NULL;
  ij_err err;
  o.n_ctx = n_prompt + 4 * (ANSWER + QUESTION);
  o.turn_id = 1;
  need(ij__worker_open(&w, m, &o, &err), &err);
  int32_t *ids = ij__alloc_array((size_t)o.n_ctx, sizeof *ids);
  if (!ids) exit(1);
  fill(ids, n_prompt, 1, n_vocab);
  ids[n_prompt - QUESTION] = o.turn_id;
  double cold = first_token(w, ids, n_prompt, ANSWER, ids + n_prompt, "turn 1, cold", 0, no_end, n_no_end);
  int64_t n = n_prompt + ANSWER;
  fill(ids + n, QUESTION, 2, n_vocab);
  ids[n] = o.turn_id;
  first_token(w, ids, n + QUESTION, 90, NULL, "turn 2", cold, no_end, n_no_end);
  first_token(w, ids, n + QUESTION, ANSWER, NULL, "turn 2 said again", cold, no_end, n_no_end);
  fill(ids + n + 1, QUESTION - 1, 3, n_vocab);
  first_token(w, ids, n + QUESTION, ANSWER, NULL, "turn 2 with its question edited", cold, no_end, n_no_end);
  ij__free(ids);
  ij__worker_close(&w);
}

/* Tokens per second of n answers at once, prompts not counted. */
static double rate(ij_worker *w, int n, int64_t n_tokens, uint32_t seed, int n_vocab, const ij_logit_bias *no_end, int n_no_end) {
  job jobs[MAX_SESSIONS];
  int32_t ids[8];
  for (int i = 0; i < n; i++) {
    jobs[i] = (job){0};
    fill(ids, 8, seed * 100 + (uint32_t)i, n_vocab);
    submit(w, &jobs[i], ids, 8, n_tokens, no_end, n_no_end);
  }
  double begin = 0, end = 0;
  for (int i = 0; i < n; i++) {
    wait_for(&jobs[i]);
    begin = IJ_MAX(begin, jobs[i].t_first);
    end = IJ_MAX(end, jobs[i].t_last);
  }
  return (double)(n * (n_tokens - 1)) / (end - begin);
}

static void throughput(ij_model *m, int n, int64_t n_tokens, int n_vocab, const ij_logit_bias *no_end, int n_no_end) {
  ij_worker_options o = ij__worker_options_default();
  ij_worker *w = NULL;
  ij_err err;
  o.n_parallel = n;
  o.n_ctx = n_tokens + 16;
  need(ij__worker_open(&w, m, &o, &err), &err);
  for (uint32_t r = 1; r <= ROUNDS; r++) {
    double one = rate(w, 1, n_tokens, 2 * r, n_vocab, no_end, n_no_end), many = rate(w, n, n_tokens, 2 * r + 1, n_vocab, no_end, n_no_end);
    printf("one session %.2f tokens/s, %d sessions %.2f tokens/s: %.2f times\n", one, n, many, many / one);
    fflush(stdout);
  }
  ij__worker_close(&w);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_serve MODEL [PROMPT] [SESSIONS] [TOKENS]\n");
    return 2;
  }
  int n_prompt = argc > 2 ? atoi(argv[2]) : 4000, n = argc > 3 ? atoi(argv[3]) : 8, n_tokens = argc > 4 ? atoi(argv[4]) : 24;
  if (n < 0 || n > MAX_SESSIONS || n_tokens < 2 || n_prompt < 0 || (n_prompt > 0 && n_prompt < 4 * QUESTION)) return 2;
  ij_model *m = NULL;
  ij_err err;
  ij_model_options mo = ij_model_options_default();
  mo.tokenizer = false;
  need(ij_model_open(&m, argv[1], &mo, &err), &err);
  ij_model_info info;
  ij_model_get_info(m, &info);
  ij_logit_bias no_end[8];
  int n_no_end = end_ids(m, info.unpadded_vocab, no_end, 8);
  if (n > 0) throughput(m, n, n_tokens, info.unpadded_vocab, no_end, n_no_end);
  if (n_prompt > 0) conversation(m, n_prompt, info.unpadded_vocab, no_end, n_no_end);
  ij_model_close(&m);
  return 0;
}
