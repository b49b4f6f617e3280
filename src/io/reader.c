/* reader.c: see reader.h. The queue, cutting reads into pieces, what becomes of short and failed pieces, finished reads, statistics. How a
 * piece reaches the system is in reader_pool.c and reader_uring.c; both work on their own threads, so reads go on while the caller computes.
 *
 *     file      ....|4096....|4096....|4096....|      offset % 4096 bytes before what is wanted, and what follows it, are read too:
 *     wanted          ^^^^^^^^^^^^^^                  direct reads are in whole units of IJ_READ_ALIGN
 *     room          |--------|--------|               data = room + offset % IJ_READ_ALIGN, direct or not
 *
 * Only the head of the queue can be issued in part, so taking the rest of a failed or cancelled read back is cheap.
 */
#include "io/reader.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "core/os.h"
#include "io/reader_int.h"

#define MAX_DEPTH 256
/* The drive that this was chosen on (virtual, 1 to 2.4 GB/s) gave no more from a depth of 4 to one of 64, by either way. A drive of 14 GB/s that takes a
 * millisecond for a piece needs 14. More would only let what is urgent wait longer behind what is not. bench_reader measures it. */
#define DEFAULT_DEPTH 16
#define MAX_AGAIN 100              /* tries of a piece that the system is too busy for, with naps of up to 10 ms */
#define STACK_BYTES ((size_t)256 << 10)

/* --- pieces, on the threads of the way */

/* The bytes that a read asks for: what is wanted, in whole units where they are needed. */
static void extent_of(const ij_read *read, uint64_t *begin, size_t *n) {
  *begin = read->aligned ? read->offset - read->offset % IJ_READ_ALIGN : read->offset;
  *n = read->aligned ? ij__read_room(read->offset, read->n_bytes) : read->n_bytes;
}

bool ij__reader_take(ij_reader *r, reader_piece *piece) {
  ij_read *read = r->first;
  if (!read || r->closing) return false;
  uint64_t begin, wanted_end = read->offset + read->n_bytes;
  size_t n;
  extent_of(read, &begin, &n);
  reader_file *f = r->files[read->file];
  bool direct = atomic_load(&f->direct) && read->aligned;
  uint64_t at = begin + read->n_issued;
  size_t cut = IJ_MIN(n - read->n_issued, IJ_READ_PIECE);
  *piece = (reader_piece){.read = read, .file = f, .fd = direct ? f->direct_fd : f->fd, .direct = direct, .begin = at, .offset = at,
                          .to = read->room + read->offset % IJ_READ_ALIGN - (read->offset - begin) + read->n_issued, .n_ask = cut, .n_cut = cut};
  piece->n_need = (size_t)IJ_MIN(wanted_end - at, (uint64_t)cut);
  read->n_issued += cut;
  read->n_flying++;
  if (read->n_issued == n) r->first = read->next;
  if (!r->first) r->last = NULL;
  if (r->n_flying++ == 0) r->since = ij__os_seconds();
  return true;
}

/* The rest of a piece through the page cache: no unit to keep to. */
static void leave_direct(reader_piece *p) {
  p->fd = p->file->fd;
  p->direct = false;
  p->n_ask = p->n_need;
}

static bool fail_piece(reader_piece *p, int errnum) {
  p->status = IJ_E_IO;
  p->errnum = errnum;
  return true;
}

static bool came_error(reader_piece *p, int errnum) {
  if (errnum == EINTR) return false;
  if (errnum == EAGAIN && p->n_again < MAX_AGAIN) {
    long us = IJ_MIN(10000, 10 << IJ_MIN(p->n_again, 10));
    p->n_again++;
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
    return false;
  }
  if (errnum == EINVAL && p->direct) { /* the probe at add was too kind */
    atomic_store(&p->file->direct, false);
    leave_direct(p);
    return false;
  }
  return fail_piece(p, errnum);
}

bool ij__reader_came(reader_piece *p, int64_t n, int errnum) {
  if (n < 0) return came_error(p, errnum);
  assert((uint64_t)n <= p->n_ask);
  p->n_got += (uint64_t)n;
  if ((uint64_t)n >= p->n_need) return true;
  if (n == 0) return fail_piece(p, 0);
  p->offset += (uint64_t)n;
  p->to += n;
  p->n_ask -= (size_t)n;
  p->n_need -= (size_t)n;
  if (p->direct && p->offset % IJ_READ_ALIGN != 0) leave_direct(p);
  return false;
}

/* The read's last piece has landed: hand it over. With the mutex held. */
static void hand_over(ij_reader *r, ij_read *read) {
  uint64_t begin;
  size_t n;
  extent_of(read, &begin, &n);
  if (read->status == IJ_OK && read->n_done < n) read->status = IJ_E_CANCELLED;
  read->next = NULL;
  if (r->done_last) r->done_last->next = read;
  else r->done = read;
  r->done_last = read;
  r->n_open--;
  pthread_cond_signal(&r->finished);
}

/* Takes the rest of the queue's head back. */
static void drop_rest(ij_reader *r, ij_read *read) {
  if (r->first != read) return;
  r->first = read->next;
  if (!r->first) r->last = NULL;
}

/* True: nothing more will come for this read. */
static bool piece_landed(ij_reader *r, const reader_piece *p) {
  ij_read *read = p->read;
  r->n_bytes += p->n_got;
  r->n_pieces++;
  if (--r->n_flying == 0) r->seconds += ij__os_seconds() - r->since;
  read->n_flying--;
  if (p->status == IJ_OK) {
    read->n_done += p->n_cut;
  } else if (read->status == IJ_OK) { /* the first trouble is the one that is told */
    read->status = p->status;
    read->errnum = p->errnum;
    drop_rest(r, read);
  }
  return read->n_flying == 0 && r->first != read;
}

void ij__reader_finish(ij_reader *r, reader_piece *p) {
  ij_read *read = p->read;
  if (!p->direct) ij__reader_file_drop(p->file, p->begin, p->n_got);
  pthread_mutex_lock(&r->mutex);
  bool last = piece_landed(r, p);
  bool good = read->status == IJ_OK && !read->cancelled;
  pthread_mutex_unlock(&r->mutex);
  if (!last) return;
  /* Nobody else knows the read now. Asking about the file may take a while on a network: not with the mutex. */
  bool changed = good && ij__reader_file_changed(p->file);
  pthread_mutex_lock(&r->mutex);
  if (changed) read->status = IJ_E_IO;
  hand_over(r, read);
  pthread_mutex_unlock(&r->mutex);
}

int ij__reader_thread(pthread_t *thread, void *(*run)(void *), void *arg) {
  sigset_t all, before;
  pthread_attr_t attr;
  int e = pthread_attr_init(&attr);
  if (e != 0) return e;
  pthread_attr_setstacksize(&attr, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  e = pthread_create(thread, &attr, run, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return e;
}

/* --- opening and closing */

static ij_status open_way(ij_reader *r, ij_reader_kind kind, ij_err *err) {
  if (kind == IJ_READER_URING && r->fault) return ij__fail(err, IJ_E_ARGUMENT, "reader", "faults can be put in only with the pool");
  if (kind != IJ_READER_POOL && !r->fault) {
    r->way = &ij__reader_uring;
    ij_status s = r->way->open(r, kind == IJ_READER_AUTO ? NULL : err);
    if (s == IJ_OK || kind == IJ_READER_URING) return s;
  }
  r->way = &ij__reader_pool;
  return r->way->open(r, err);
}

static void free_reader(ij_reader *r) {
  for (int i = 0; i < r->n_files; i++) ij__reader_file_close(&r->files[i]);
  ij__free(r->files);
  pthread_cond_destroy(&r->finished);
  pthread_mutex_destroy(&r->mutex);
  ij__free(r);
}

ij_status ij__reader_open(ij_reader **out, const ij_reader_options *options, ij_err *err) {
  static const ij_reader_options defaults;
  const ij_reader_options *o = options ? options : &defaults;
  *out = NULL;
  if (o->depth < 0 || o->depth > MAX_DEPTH)
    return ij__fail(err, IJ_E_ARGUMENT, "reader", "expected a depth of 0 (the default) to %d, found %d", MAX_DEPTH, o->depth);
  ij_reader *r = ij__alloc_zero(1, sizeof *r);
  if (!r) return ij__fail_nomem(err, "the reader", sizeof *r);
  r->depth = o->depth ? o->depth : DEFAULT_DEPTH;
  r->buffered = o->buffered;
  r->fault = o->fault;
  r->fault_user = o->fault_user;
  pthread_mutex_init(&r->mutex, NULL);
  pthread_cond_init(&r->finished, NULL);
  ij_status s = open_way(r, o->kind, err);
  if (s == IJ_OK) *out = r;
  else free_reader(r);
  return s;
}

void ij__reader_close(ij_reader **reader) {
  ij_reader *r = *reader;
  if (!r) return;
  *reader = NULL;
  pthread_mutex_lock(&r->mutex);
  r->closing = true;
  r->way->wake(r, SIZE_MAX);
  pthread_mutex_unlock(&r->mutex);
  r->way->close(r);
  free_reader(r);
}

/* Checkpoints have hundreds of files, systems often 256 descriptors. And should a file be replaced by name, who adds it later reads the same one. */
static bool find_file(const ij_reader *r, const char *path, uint64_t n_bytes, int *file) {
  for (int i = 0; i < r->n_files; i++) {
    if (r->files[i]->n_bytes != n_bytes || strcmp(r->files[i]->path, path) != 0) continue;
    *file = i;
    return true;
  }
  return false;
}

ij_status ij__reader_add(ij_reader *r, const char *path, uint64_t n_bytes, int *file, ij_err *err) {
  reader_file *f;
  if (find_file(r, path, n_bytes, file)) return IJ_OK;
  ij_status s = ij__reader_file_open(&f, path, n_bytes, r->buffered, err);
  if (s != IJ_OK) return s;
  reader_file **files = ij__alloc_array((size_t)r->n_files + 1, sizeof *files);
  if (!files) {
    ij__reader_file_close(&f);
    return ij__fail_nomem(err, path, ((size_t)r->n_files + 1) * sizeof *files);
  }
  for (int i = 0; i < r->n_files; i++) files[i] = r->files[i];
  files[r->n_files] = f;
  pthread_mutex_lock(&r->mutex); /* pieces under way hold their file, not this list; the next one is taken from it */
  reader_file **old = r->files;
  r->files = files;
  pthread_mutex_unlock(&r->mutex);
  ij__free(old);
  *file = r->n_files++;
  return IJ_OK;
}

/* --- reads, on the caller's thread */

void ij__reader_submit(ij_reader *r, ij_read *read) {
  assert(read->file >= 0 && read->file < r->n_files && read->n_bytes > 0);
  assert((uintptr_t)read->room % IJ_READ_ALIGN == 0 && read->offset < UINT64_MAX / 2 && read->n_bytes < SIZE_MAX / 2);
  read->data = read->room + read->offset % IJ_READ_ALIGN;
  read->status = IJ_OK;
  read->errnum = read->n_flying = 0;
  read->n_issued = read->n_done = 0;
  read->cancelled = false;
  read->next = NULL;
  read->aligned = atomic_load(&r->files[read->file]->direct);
  uint64_t begin;
  size_t n;
  extent_of(read, &begin, &n);
  pthread_mutex_lock(&r->mutex);
  if (r->last) r->last->next = read;
  else r->first = read;
  r->last = read;
  r->n_open++;
  r->way->wake(r, (n + IJ_READ_PIECE - 1) / IJ_READ_PIECE);
  pthread_mutex_unlock(&r->mutex);
}

int ij__reader_wait(ij_reader *r, ij_read **done, int max, bool block) {
  int n = 0;
  pthread_mutex_lock(&r->mutex);
  while (block && max > 0 && !r->done && r->n_open > 0) pthread_cond_wait(&r->finished, &r->mutex);
  while (n < max && r->done) {
    done[n] = r->done;
    r->done = r->done->next;
    done[n++]->next = NULL;
  }
  if (!r->done) r->done_last = NULL;
  pthread_mutex_unlock(&r->mutex);
  return n;
}

/* Out of the queue. False: it is not in it. */
static bool unqueue(ij_reader *r, ij_read *read) {
  ij_read *before = NULL;
  for (ij_read *q = r->first; q && q != read; q = q->next) before = q;
  if (before ? before->next != read : r->first != read) return false;
  if (before) before->next = read->next;
  else r->first = read->next;
  if (r->last == read) r->last = before;
  return true;
}

bool ij__reader_cancel(ij_reader *r, ij_read *read) {
  pthread_mutex_lock(&r->mutex);
  bool waited = unqueue(r, read), untouched = waited && read->n_issued == 0;
  if (waited) {
    read->cancelled = true;
    read->next = NULL;
    if (untouched) r->n_open--;
    else if (read->n_flying == 0) hand_over(r, read); /* between two pieces */
  }
  pthread_mutex_unlock(&r->mutex);
  return untouched;
}

ij_status ij__reader_explain(const ij_reader *r, const ij_read *read, ij_err *err) {
  return ij__reader_file_explain(r->files[read->file], read, err);
}

void ij__reader_get_stats(const ij_reader *reader, ij_reader_stats *out) {
  ij_reader *r = (ij_reader *)(uintptr_t)reader; /* its mutex is not part of what is promised unchanged */
  *out = (ij_reader_stats){.kind = r->way->name};
  for (int i = 0; i < r->n_files; i++) *(atomic_load(&r->files[i]->direct) ? &out->n_direct : &out->n_buffered) += 1;
  pthread_mutex_lock(&r->mutex);
  out->n_bytes = r->n_bytes;
  out->n_pieces = r->n_pieces;
  out->seconds = r->seconds + (r->n_flying > 0 ? ij__os_seconds() - r->since : 0);
  pthread_mutex_unlock(&r->mutex);
}

/* --- measuring */

/* Reads of a piece each, enough of them that the queue is never empty. */
typedef struct measure_run {
  ij_reader *reader;
  int file;
  uint64_t n_bytes, at; /* the file's; of the next read */
  ij_read *reads;
  char *rooms;
  int n;
} measure_run;

static bool measure_next(measure_run *m, ij_read *read) {
  if (m->at >= m->n_bytes) return false;
  read->file = m->file;
  read->offset = m->at;
  read->n_bytes = (size_t)IJ_MIN(m->n_bytes - m->at, (uint64_t)IJ_READ_PIECE);
  m->at += read->n_bytes;
  ij__reader_submit(m->reader, read);
  return true;
}

static ij_status measure(measure_run *m, double seconds, double *bytes_per_s, ij_err *err) {
  double start = ij__os_seconds(), t = 0, n_bytes = 0;
  ij_status s = IJ_OK;
  int n_out = 0;
  while (n_out < m->n && measure_next(m, &m->reads[n_out])) n_out++;
  while (n_out > 0) {
    ij_read *read = NULL;
    if (ij__reader_wait(m->reader, &read, 1, true) == 0) break; /* never: one is out */
    n_out--;
    t = ij__os_seconds() - start;
    if (read->status == IJ_OK) n_bytes += (double)read->n_bytes;
    else if (s == IJ_OK) s = ij__reader_explain(m->reader, read, err);
    if (s == IJ_OK && t < seconds && measure_next(m, read)) n_out++;
  }
  *bytes_per_s = s == IJ_OK && t > 0 ? n_bytes / t : 0;
  return s;
}

ij_status ij__reader_measure(ij_reader *r, int file, double seconds, double *bytes_per_s, ij_err *err) {
  const reader_file *f = r->files[file];
  measure_run m = {.reader = r, .file = file, .n_bytes = f->n_bytes, .n = r->depth + 4};
  *bytes_per_s = 0;
  pthread_mutex_lock(&r->mutex);
  bool busy = r->n_open > 0 || r->done;
  pthread_mutex_unlock(&r->mutex);
  if (busy) return ij__fail(err, IJ_E_ARGUMENT, f->path, "the drive is measured while other reads are under way");
  if (f->n_bytes == 0) return ij__fail(err, IJ_E_RANGE, f->path, "the file is empty: there is nothing to measure the drive with");
  size_t n_rooms = (size_t)m.n * IJ_READ_PIECE;
  m.reads = ij__alloc_zero((size_t)m.n, sizeof *m.reads);
  m.rooms = ij__os_pages(n_rooms);
  if (m.rooms) ij__os_advise(m.rooms, n_rooms, IJ_ADVICE_HUGE);
  if (m.rooms) ij__os_touch(m.rooms, n_rooms); /* it is the drive that is measured */
  ij_status s = m.reads && m.rooms ? IJ_OK : ij__fail_nomem(err, "the measurement of the drive", n_rooms);
  for (int i = 0; s == IJ_OK && i < m.n; i++) m.reads[i].room = m.rooms + (size_t)i * IJ_READ_PIECE;
  if (s == IJ_OK) s = measure(&m, seconds, bytes_per_s, err);
  ij__os_free_pages(m.rooms, n_rooms);
  ij__free(m.reads);
  return s;
}
