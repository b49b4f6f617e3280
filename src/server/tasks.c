/* tasks.c: see tasks.h. A list under one lock; threads sleep until it is not empty. */
#include "server/tasks.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "core/alloc.h"

#define MAX_THREADS 16

typedef struct task {
  struct task *next;
  void (*work)(void *arg);
  void *arg;
} task;

struct ij_tasks {
  pthread_mutex_t lock;
  pthread_cond_t changed;     /* something was added, something is done, or the end begins */
  task *first, **end;
  int n_waiting, n_busy, max_waiting;
  bool draining, stopping, closing;
  pthread_t threads[MAX_THREADS];
  int n_threads;
};

static void *run(void *user) {
  ij_tasks *t = user;
  pthread_mutex_lock(&t->lock);
  for (;;) {
    while (!t->first && !t->closing) pthread_cond_wait(&t->changed, &t->lock);
    task *next = t->first;
    if (!next) break;
    t->first = next->next;
    if (!t->first) t->end = &t->first;
    t->n_waiting--;
    t->n_busy++;
    pthread_mutex_unlock(&t->lock);
    next->work(next->arg);
    ij__free(next);
    pthread_mutex_lock(&t->lock);
    t->n_busy--;
    pthread_cond_broadcast(&t->changed);
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

ij_status ij__tasks_open(ij_tasks **out, int n_threads, int max_waiting, ij_err *err) {
  *out = NULL;
  ij_tasks *t = ij__alloc_zero(1, sizeof *t);
  if (!t) return ij__fail_nomem(err, "the queue of media", sizeof *t);
  t->end = &t->first;
  t->max_waiting = max_waiting;
  if (pthread_mutex_init(&t->lock, NULL) != 0) {
    ij__free(t);
    return ij__fail_nomem(err, "the queue of media", sizeof t->lock);
  }
  if (pthread_cond_init(&t->changed, NULL) != 0) {
    pthread_mutex_destroy(&t->lock);
    ij__free(t);
    return ij__fail_nomem(err, "the queue of media", sizeof t->changed);
  }
  int failed = 0;
  while (t->n_threads < IJ_MIN(n_threads, MAX_THREADS) && !failed) {
    failed = pthread_create(&t->threads[t->n_threads], NULL, run, t);
    t->n_threads += !failed;
  }
  if (t->n_threads == 0) {
    ij__tasks_close(&t);
    return ij__fail_errno(err, failed, "the queue of media", "cannot start a thread");
  }
  *out = t;
  return IJ_OK;
}

bool ij__tasks_add(ij_tasks *t, void (*work)(void *arg), void *arg) {
  task *one = ij__alloc(sizeof *one);
  if (!one) return false;
  *one = (task){NULL, work, arg};
  pthread_mutex_lock(&t->lock);
  bool ok = !t->draining && t->n_waiting < t->max_waiting;
  if (ok) {
    *t->end = one;
    t->end = &one->next;
    t->n_waiting++;
    pthread_cond_broadcast(&t->changed);
  }
  pthread_mutex_unlock(&t->lock);
  if (!ok) ij__free(one);
  return ok;
}

bool ij__tasks_stopping(ij_tasks *t) {
  pthread_mutex_lock(&t->lock);
  bool stopping = t->stopping;
  pthread_mutex_unlock(&t->lock);
  return stopping;
}

void ij__tasks_drain(ij_tasks *t, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)IJ_MIN(IJ_MAX(seconds, 0.0), 1e9) + 1;
  int waited = seconds > 0 ? 0 : ETIMEDOUT;
  pthread_mutex_lock(&t->lock);
  t->draining = true;
  while (t->n_waiting + t->n_busy > 0 && waited != ETIMEDOUT) waited = pthread_cond_timedwait(&t->changed, &t->lock, &until);
  t->stopping = true;
  while (t->n_waiting + t->n_busy > 0) pthread_cond_wait(&t->changed, &t->lock);
  pthread_mutex_unlock(&t->lock);
}

void ij__tasks_close(ij_tasks **tasks) {
  if (!tasks || !*tasks) return;
  ij_tasks *t = *tasks;
  ij__tasks_drain(t, 0);
  pthread_mutex_lock(&t->lock);
  t->closing = true;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  for (int i = 0; i < t->n_threads; i++) pthread_join(t->threads[i], NULL);
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->lock);
  ij__free(t);
  *tasks = NULL;
}
