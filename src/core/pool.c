/* pool.c: see pool.h.
 *
 * Protocol. One 64-bit word, `ticket`, holds the number of the loop (high half) and how many of its indices are still to be claimed (low
 * half). The caller writes the job fields, then stores the ticket (release). A thread claims a chunk by lowering the ticket with a
 * compare-and-swap and only then reads the fields: they cannot change before this chunk is done, because the caller waits until
 * `done` (release by the workers, acquire by the caller) has counted all indices. So a worker that the system has put aside holds up nobody
 * unless it holds a chunk, and one that comes late finds nothing to claim. Only `grain` is read before, for the size of the chunk: where it
 * belongs to a later loop already, the ticket is another one too and the swap fails.
 * Sleeping: a worker that has spun in vain counts itself in `sleepers` and then looks at the ticket once more under the mutex; the caller
 * looks at `sleepers` after storing the ticket. Both are sequentially consistent, so one of them sees the other.
 */
#define _GNU_SOURCE
#include "core/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sched.h>

#include "core/alloc.h"
#include "core/cpu.h"

#define SPIN_ROUNDS 20000 /* about a millisecond: longer than the serial stretches inside a token */

typedef struct worker_arg {
  ij_pool *pool;
  int index;
} worker_arg;

struct ij_pool {
  int n_threads;
  int n_started;
  int spin_rounds;     /* few when there are more threads than processors */
  pthread_t *threads;
  worker_arg *args;      /* one per thread */
  pthread_mutex_t mutex; /* protects only the sleep and wake of workers */
  pthread_cond_t wake;
  _Atomic int sleepers;
  _Atomic bool quit;

  ij_pool_fn fn;
  void *ctx;
  int64_t n;
  _Atomic uint32_t grain;
  _Alignas(64) _Atomic uint64_t ticket; /* loop number << 32 | indices not yet claimed */
  _Alignas(64) _Atomic uint32_t done;
};

static inline void relax(void) {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Indices of the next chunk when so many are left: towards the end two thirds of an equal share, so that all threads come to an end
 * together, also when one of them is half as fast as the others. */
static uint32_t chunk_of(const ij_pool *p, uint32_t left) {
  uint32_t grain = atomic_load_explicit(&p->grain, memory_order_relaxed), share = (uint32_t)((uint64_t)left * 2 / (3 * (uint64_t)p->n_threads));
  return share < 1 ? 1 : IJ_MIN(share, grain);
}

static void take_chunks(ij_pool *p, int worker) {
  uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
  while ((uint32_t)t != 0) {
    uint32_t left = (uint32_t)t, n = chunk_of(p, left);
    if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t - n, memory_order_acquire, memory_order_acquire)) continue;
    int64_t i0 = p->n - (int64_t)left;
    p->fn(p->ctx, worker, i0, i0 + n);
    atomic_fetch_add_explicit(&p->done, n, memory_order_release);
    t = atomic_load_explicit(&p->ticket, memory_order_acquire);
  }
}

/* Returns when there may be something to claim, or the pool closes. */
static void await_work(ij_pool *p) {
  for (int i = 0; i < p->spin_rounds; i++) {
    if ((uint32_t)atomic_load_explicit(&p->ticket, memory_order_relaxed) != 0) return;
    relax();
  }
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_add(&p->sleepers, 1);
  while ((uint32_t)atomic_load(&p->ticket) == 0 && !atomic_load(&p->quit)) pthread_cond_wait(&p->wake, &p->mutex);
  atomic_fetch_sub(&p->sleepers, 1);
  pthread_mutex_unlock(&p->mutex);
}

static void *worker_main(void *arg) {
  worker_arg a = *(worker_arg *)arg;
  ij__alloc_guard_enter(); /* workers only ever run kernels */
  while (!atomic_load(&a.pool->quit)) {
    take_chunks(a.pool, a.index);
    await_work(a.pool);
  }
  return NULL;
}

static void wake_sleepers(ij_pool *p) {
  if (atomic_load(&p->sleepers) == 0) return;
  pthread_mutex_lock(&p->mutex);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->mutex);
}

ij_status ij__pool_open(ij_pool **out, int n_threads, ij_err *err) {
  *out = NULL;
  ij_pool *p = ij__alloc_zero(1, sizeof *p);
  pthread_t *threads = ij__alloc_zero((size_t)n_threads, sizeof *threads);
  worker_arg *args = ij__alloc_zero((size_t)n_threads, sizeof *args);
  if (!p || !threads || !args) {
    ij__free(p);
    ij__free(threads);
    ij__free(args);
    return ij__fail_nomem(err, "the thread pool", sizeof *p);
  }
  p->n_threads = n_threads;
  p->threads = threads;
  p->args = args;
  p->spin_rounds = n_threads > ij__cpu_count() ? 100 : SPIN_ROUNDS;
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->wake, NULL);
  for (int i = 1; i < n_threads; i++) {
    args[i] = (worker_arg){p, i};
    if (pthread_create(&threads[i], NULL, worker_main, &args[i]) != 0) {
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
  wake_sleepers(p);
  for (int i = 1; i <= p->n_started; i++) pthread_join(p->threads[i], NULL);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->mutex);
  ij__free(p->threads);
  ij__free(p->args);
  ij__free(p);
  *pool = NULL;
}

int ij__pool_threads(const ij_pool *pool) { return pool->n_threads; }

void ij__pool_run(ij_pool *p, int64_t n, int64_t grain, ij_pool_fn fn, void *ctx) {
  if (n <= 0) return;
  assert(grain > 0 && n <= UINT32_MAX);
  if (p->n_threads == 1 || n <= grain) {
    for (int64_t i = 0; i < n; i += grain) fn(ctx, 0, i, IJ_MIN(i + grain, n));
    return;
  }
  p->fn = fn;
  p->ctx = ctx;
  p->n = n;
  atomic_store_explicit(&p->grain, (uint32_t)grain, memory_order_relaxed);
  atomic_store_explicit(&p->done, 0, memory_order_relaxed);
  uint64_t loop = (atomic_load_explicit(&p->ticket, memory_order_relaxed) >> 32) + 1;
  atomic_store(&p->ticket, loop << 32 | (uint64_t)n);
  wake_sleepers(p);
  take_chunks(p, 0);
  for (int i = 0; atomic_load_explicit(&p->done, memory_order_acquire) != (uint32_t)n; i++) {
    if (i > p->spin_rounds) sched_yield();
    relax();
  }
}
