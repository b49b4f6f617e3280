/* pool.c: see pool.h.
 *
 * Protocol. The caller writes the job fields, sets `running` to the number of workers, and bumps `epoch` (release). A worker
 * that sees a new epoch (acquire) takes chunks from `next` until none is left, then decrements `running` (release). The
 * caller works as well, and waits for `running` to reach 0 (acquire) before it touches the job again. So a worker never reads
 * a job that is being rewritten, and every write of a chunk happens before ij__pool_run returns.
 * Sleeping: a worker that has spun without a new epoch counts itself in `sleepers` under the mutex and waits on the condition;
 * the caller looks at `sleepers` after the bump (both sequentially consistent), so a sleeper is never missed.
 */
#define _GNU_SOURCE
#include "core/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sched.h>

#include "core/alloc.h"
#include "core/cpu.h"

#define SPIN_ROUNDS 20000 /* about 0.3 ms: longer than the serial stretches inside a token */

struct ij_pool {
  int n_threads;
  int n_started;
  bool oversubscribed; /* more threads than processors: yield instead of spinning */
  pthread_t *threads;
  pthread_mutex_t mutex; /* protects only the sleep and wake of workers */
  pthread_cond_t wake;
  _Atomic int sleepers;
  _Atomic bool quit;

  ij_pool_fn fn;
  void *ctx;
  int64_t n, grain;
  _Alignas(64) _Atomic int64_t next;
  _Alignas(64) _Atomic uint32_t epoch;
  _Alignas(64) _Atomic int running;
};

typedef struct worker_arg {
  ij_pool *pool;
  int index;
} worker_arg;

static inline void relax(void) {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void take_chunks(ij_pool *p, int worker) {
  for (;;) {
    int64_t i0 = atomic_fetch_add_explicit(&p->next, p->grain, memory_order_relaxed);
    if (i0 >= p->n) return;
    p->fn(p->ctx, worker, i0, IJ_MIN(i0 + p->grain, p->n));
  }
}

/* Returns once the epoch differs from `seen`. */
static uint32_t await_epoch(ij_pool *p, uint32_t seen) {
  uint32_t e;
  for (int i = 0; i < SPIN_ROUNDS; i++) {
    e = atomic_load_explicit(&p->epoch, memory_order_acquire);
    if (e != seen) return e;
    if (p->oversubscribed) sched_yield();
    relax();
  }
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_add(&p->sleepers, 1);
  while ((e = atomic_load(&p->epoch)) == seen) pthread_cond_wait(&p->wake, &p->mutex);
  atomic_fetch_sub(&p->sleepers, 1);
  pthread_mutex_unlock(&p->mutex);
  return e;
}

static void *worker_main(void *arg) {
  worker_arg a = *(worker_arg *)arg;
  ij__free(arg);
  ij__alloc_guard_enter(); /* workers only ever run kernels */
  for (uint32_t seen = 0;;) {
    seen = await_epoch(a.pool, seen);
    if (atomic_load(&a.pool->quit)) return NULL;
    take_chunks(a.pool, a.index);
    atomic_fetch_sub_explicit(&a.pool->running, 1, memory_order_release);
  }
}

static void wake_all(ij_pool *p) {
  atomic_fetch_add(&p->epoch, 1);
  if (atomic_load(&p->sleepers) > 0) {
    pthread_mutex_lock(&p->mutex);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
  }
}

ij_status ij__pool_open(ij_pool **out, int n_threads, ij_err *err) {
  *out = NULL;
  ij_pool *p = ij__alloc_zero(1, sizeof *p);
  pthread_t *threads = ij__alloc_zero((size_t)n_threads, sizeof *threads);
  if (!p || !threads) {
    ij__free(p);
    ij__free(threads);
    return ij__fail_nomem(err, "the thread pool", sizeof *p);
  }
  p->n_threads = n_threads;
  p->threads = threads;
  p->oversubscribed = n_threads > ij__cpu_count();
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->wake, NULL);
  for (int i = 1; i < n_threads; i++) {
    worker_arg *a = ij__alloc(sizeof *a);
    if (a) *a = (worker_arg){p, i};
    int e = a ? pthread_create(&threads[i], NULL, worker_main, a) : 12;
    if (e != 0) {
      ij__free(a);
      ij__pool_close(&p);
      return ij__fail(err, IJ_E_NOMEM, "the thread pool", "thread %d of %d could not be started; use fewer threads", i + 1, n_threads);
    }
    p->n_started = i;
  }
  *out = p;
  return IJ_OK;
}

void ij__pool_close(ij_pool **pool) {
  ij_pool *p = *pool;
  if (!p) return;
  atomic_store(&p->quit, true);
  wake_all(p);
  for (int i = 1; i <= p->n_started; i++) pthread_join(p->threads[i], NULL);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->mutex);
  ij__free(p->threads);
  ij__free(p);
  *pool = NULL;
}

int ij__pool_threads(const ij_pool *pool) { return pool->n_threads; }

void ij__pool_run(ij_pool *p, int64_t n, int64_t grain, ij_pool_fn fn, void *ctx) {
  if (n <= 0) return;
  if (p->n_threads == 1 || n <= grain) {
    for (int64_t i = 0; i < n; i += grain) fn(ctx, 0, i, IJ_MIN(i + grain, n));
    return;
  }
  p->fn = fn;
  p->ctx = ctx;
  p->n = n;
  p->grain = grain;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  atomic_store_explicit(&p->running, p->n_threads - 1, memory_order_relaxed);
  wake_all(p);
  take_chunks(p, 0);
  while (atomic_load_explicit(&p->running, memory_order_acquire) > 0) {
    if (p->oversubscribed) sched_yield();
    relax();
  }
}
