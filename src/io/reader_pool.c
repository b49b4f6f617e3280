/* reader_pool.c: reads through threads that call pread, one piece each: for systems without io_uring, and where its use is forbidden. As many
 * threads as pieces may be under way; they sleep when there is nothing to read. */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "core/alloc.h"
#include "io/reader_int.h"

typedef struct reader_threads {
  pthread_cond_t work;   /* with the reader's mutex, as is the next field */
  int n_sleeping;
  int n;                 /* started */
  pthread_t threads[];
} reader_threads;

static int64_t read_some(const ij_reader *r, const reader_piece *p, int *errnum) {
  if (r->fault) return r->fault(r->fault_user, p->fd, p->to, p->n_ask, p->offset, errnum);
  ssize_t n = pread(p->fd, p->to, p->n_ask, (off_t)p->offset);
  *errnum = n < 0 ? errno : 0;
  return n;
}

static bool await_piece(ij_reader *r, reader_piece *p) {
  reader_threads *t = r->threads;
  pthread_mutex_lock(&r->mutex);
  bool got = ij__reader_take(r, p);
  while (!got && !r->closing) {
    t->n_sleeping++;
    pthread_cond_wait(&t->work, &r->mutex);
    t->n_sleeping--;
    got = ij__reader_take(r, p);
  }
  pthread_mutex_unlock(&r->mutex);
  return got;
}

static void *reader_thread_main(void *arg) {
  ij_reader *r = arg;
  reader_piece p;
  ij__alloc_guard_enter();
  while (await_piece(r, &p)) {
    int64_t n;
    int errnum = 0;
    do n = read_some(r, &p, &errnum);
    while (!ij__reader_came(&p, n, errnum));
    ij__reader_finish(r, &p);
  }
  return NULL;
}

static void wake_threads(ij_reader *r, size_t n_pieces) {
  reader_threads *t = r->threads;
  int n = t->n_sleeping;
  if (n_pieces < (size_t)n) n = (int)n_pieces;
  for (int i = 0; i < n; i++) pthread_cond_signal(&t->work);
}

static void close_threads(ij_reader *r) {
  reader_threads *t = r->threads;
  for (int i = 0; i < t->n; i++) pthread_join(t->threads[i], NULL);
  pthread_cond_destroy(&t->work);
  ij__free(t);
  r->threads = NULL;
}

static ij_status open_threads(ij_reader *r, ij_err *err) {
  size_t n_bytes = sizeof(reader_threads) + (size_t)r->depth * sizeof(pthread_t);
  reader_threads *t = ij__alloc_zero(1, n_bytes);
  if (!t) return ij__fail_nomem(err, "the threads that read", n_bytes);
  pthread_cond_init(&t->work, NULL);
  r->threads = t;
  for (; t->n < r->depth; t->n++) {
    int e = ij__reader_thread(&t->threads[t->n], reader_thread_main, r);
    if (e == 0) continue;
    int n = t->n;
    pthread_mutex_lock(&r->mutex);
    r->closing = true;
    wake_threads(r, SIZE_MAX);
    pthread_mutex_unlock(&r->mutex);
    close_threads(r);
    return ij__fail(err, IJ_E_NOMEM, "the threads that read", "thread %d of %d could not be started (error %d): the system allows this process no more; "
                    "raise its limit of processes", n + 1, r->depth, e);
  }
  return IJ_OK;
}

const reader_way ij__reader_pool = {"pread threads", open_threads, wake_threads, close_threads};
