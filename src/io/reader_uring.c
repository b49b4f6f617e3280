/* reader_uring.c: reads through io_uring: one thread keeps the ring full of pieces and takes what has come out of it. It spends its time in one
 * call to the kernel, which hands new pieces in and waits for finished ones at once.
 *
 * The bell is how the caller reaches a thread that waits there: an eventfd that the ring itself is always reading from. It is rung only when
 * the thread has room for a piece and went to sleep without one. At the end the bell is rung once more and not read again, so nothing is left
 * in the kernel when the ring is taken down.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "io/reader_int.h"

#ifdef IJ_HAS_URING
#include <liburing.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"

#define PROBE_MS 5000

typedef struct reader_ring {
  struct io_uring ring;
  bool has_ring;
  pthread_t thread;
  int bell;
  uint64_t rung;          /* where reads of the bell go */
  bool bell_is_read;      /* such a read is in the ring; the thread's own */
  bool asleep;            /* with the reader's mutex: ring the bell */
  reader_piece *pieces;   /* [depth] */
  int *idle;              /* [depth] those that are not in use, n_idle of them */
  int n_idle;
  reader_piece **waiting; /* [depth + 1] put into the ring and not yet taken by the kernel, in order; NULL: the bell */
  int n_waiting;
  int broken;             /* with the mutex, only ever set: the errno with which the kernel takes nothing any more */
} reader_ring;

static void nap_us(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

/* There is always an entry: the ring has one for every piece and one for the bell, and each has at most one read in it. */
static void put_in(reader_ring *g, reader_piece *p) {
  g->waiting[g->n_waiting++] = p;
  if (g->broken) return;
  struct io_uring_sqe *e = io_uring_get_sqe(&g->ring);
  if (p) io_uring_prep_read(e, p->fd, p->to, (unsigned)p->n_ask, p->offset);
  else io_uring_prep_read(e, g->bell, &g->rung, sizeof g->rung, 0);
  io_uring_sqe_set_data(e, p);
}

/* Fills the ring. False: the reader closes and nothing is under way. */
static bool take_pieces(ij_reader *r, reader_ring *g) {
  pthread_mutex_lock(&r->mutex);
  while (g->n_idle > 0 && ij__reader_take(r, &g->pieces[g->idle[g->n_idle - 1]])) put_in(g, &g->pieces[g->idle[--g->n_idle]]);
  g->asleep = g->n_idle > 0;
  if (!g->bell_is_read && !r->closing && !g->broken) {
    put_in(g, NULL);
    g->bell_is_read = true;
  }
  bool more = !r->closing || g->n_idle < r->depth || (g->bell_is_read && !g->broken);
  pthread_mutex_unlock(&r->mutex);
  return more;
}

static void end_piece(ij_reader *r, reader_ring *g, reader_piece *p) {
  ij__reader_finish(r, p);
  g->idle[g->n_idle++] = (int)(p - g->pieces);
}

static void empty_ring(ij_reader *r, reader_ring *g) {
  struct io_uring_cqe *e;
  while (io_uring_peek_cqe(&g->ring, &e) == 0) {
    reader_piece *p = io_uring_cqe_get_data(e);
    int n = e->res;
    io_uring_cqe_seen(&g->ring, e);
    if (!p) g->bell_is_read = false;
    else if (ij__reader_came(p, n < 0 ? -1 : n, n < 0 ? -n : 0)) end_piece(r, g, p);
    else put_in(g, p);
  }
}

/* The kernel takes nothing any more: a policy that came after the ring was opened. What it has not taken fails; what it has still lands in
 * memory that we see without asking, now and then, since we cannot wait for it. */
static void serve_broken(ij_reader *r, reader_ring *g, int errnum) {
  pthread_mutex_lock(&r->mutex);
  g->broken = errnum;
  pthread_mutex_unlock(&r->mutex);
  do {
    int n = g->n_waiting;
    g->n_waiting = 0;
    for (int i = 0; i < n; i++) {
      reader_piece *p = g->waiting[i];
      if (!p) continue;
      p->status = IJ_E_IO;
      p->errnum = errnum;
      end_piece(r, g, p);
    }
    empty_ring(r, g);
    nap_us(1000);
  } while (take_pieces(r, g));
}

static void *ring_main(void *arg) {
  ij_reader *r = arg;
  reader_ring *g = r->threads;
  ij__alloc_guard_enter();
  while (take_pieces(r, g)) {
    int n = io_uring_submit_and_wait(&g->ring, 1);
    int left = (int)io_uring_sq_ready(&g->ring), taken = g->n_waiting - left;
    memmove(g->waiting, g->waiting + taken, (size_t)left * sizeof *g->waiting);
    g->n_waiting = left;
    if (n == -EAGAIN || n == -EBUSY) nap_us(100); /* it is short of memory, or wants its results taken first */
    if (n < 0 && n != -EAGAIN && n != -EBUSY && n != -EINTR) {
      serve_broken(r, g, -n);
      break;
    }
    empty_ring(r, g);
  }
  return NULL;
}

static void ring_bell(const reader_ring *g) {
  const uint64_t one = 1;
  while (write(g->bell, &one, sizeof one) < 0 && errno == EINTR) {}
}

static void wake_ring(ij_reader *r, size_t n_pieces) {
  reader_ring *g = r->threads;
  (void)n_pieces;
  if (g->broken || (!g->asleep && !r->closing)) return;
  g->asleep = false;
  ring_bell(g);
}

static void free_ring(ij_reader *r) {
  reader_ring *g = r->threads;
  if (g->has_ring) io_uring_queue_exit(&g->ring);
  if (g->bell >= 0) close(g->bell);
  ij__free(g->pieces);
  ij__free(g->idle);
  ij__free(g->waiting);
  ij__free(g);
  r->threads = NULL;
}

static void close_ring(ij_reader *r) {
  pthread_join(((reader_ring *)r->threads)->thread, NULL);
  free_ring(r);
}

/* A read through the ring, of the bell. 0, or an errno: kernels and policies differ in which of the calls they refuse. */
static int probe_ring(reader_ring *g) {
  struct io_uring_cqe *e;
  ring_bell(g);
  put_in(g, NULL);
  g->n_waiting = 0;
  int n = io_uring_submit(&g->ring);
  if (n != 1) return n < 0 ? -n : EIO;
  struct pollfd ready = {.fd = g->ring.ring_fd, .events = POLLIN};
  while ((n = poll(&ready, 1, PROBE_MS)) < 0 && errno == EINTR) {}
  if (n != 1 || io_uring_peek_cqe(&g->ring, &e) != 0) return ETIMEDOUT;
  n = e->res;
  io_uring_cqe_seen(&g->ring, e);
  return n < 0 ? -n : n == sizeof g->rung && g->rung == 1 ? 0 : EIO;
}

static ij_status refuse_ring(ij_err *err, int errnum, const char *doing) {
  ij__fail_errno(err, errnum, "io_uring", doing);
  if (err) err->code = IJ_E_UNSUPPORTED;
  return IJ_E_UNSUPPORTED;
}

static ij_status make_ring(ij_reader *r, reader_ring *g, ij_err *err) {
  size_t depth = (size_t)r->depth;
  g->pieces = ij__alloc_zero(depth, sizeof *g->pieces);
  g->idle = ij__alloc_zero(depth, sizeof *g->idle);
  g->waiting = ij__alloc_zero(depth + 1, sizeof *g->waiting);
  if (!g->pieces || !g->idle || !g->waiting) return ij__fail_nomem(err, "the ring of reads", depth * sizeof *g->pieces);
  while (g->n_idle < r->depth) {
    g->idle[g->n_idle] = g->n_idle;
    g->n_idle++;
  }
  g->bell = eventfd(0, EFD_CLOEXEC);
  if (g->bell < 0) return refuse_ring(err, errno, "cannot make an eventfd");
  int e = -io_uring_queue_init((unsigned)r->depth + 1, &g->ring, 0);
  if (e != 0) return refuse_ring(err, e, "the kernel, or a policy of this system, gives no ring");
  g->has_ring = true;
  e = probe_ring(g);
  return e == 0 ? IJ_OK : refuse_ring(err, e, "the first read through the ring has failed");
}

static ij_status open_ring(ij_reader *r, ij_err *err) {
  reader_ring *g = ij__alloc_zero(1, sizeof *g);
  if (!g) return ij__fail_nomem(err, "the ring of reads", sizeof *g);
  g->bell = -1;
  r->threads = g;
  ij_status s = make_ring(r, g, err);
  int e = s == IJ_OK ? ij__reader_thread(&g->thread, ring_main, r) : 0;
  if (e != 0) s = ij__fail(err, IJ_E_NOMEM, "the ring of reads", "its thread could not be started (error %d): the system allows this process no more", e);
  if (s != IJ_OK) free_ring(r);
  return s;
}

#else
static ij_status open_ring(ij_reader *r, ij_err *err) {
  (void)r;
  return ij__fail(err, IJ_E_UNSUPPORTED, "io_uring", "this build has no io_uring, because liburing was not found: use the pool");
}
static void wake_ring(ij_reader *r, size_t n_pieces) {
  (void)r;
  (void)n_pieces;
}
static void close_ring(ij_reader *r) { (void)r; }
#endif

const reader_way ij__reader_uring = {"io_uring", open_ring, wake_ring, close_ring};
