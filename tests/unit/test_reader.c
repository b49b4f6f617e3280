/* test_reader.c: positioned reads give the bytes of the file by every way to the system, past the page cache and through it; every trouble ends in
 * an error that says what happened, and in nothing else. Troubles of a drive are made by the hook in front of the pool. What files and
 * policies do to a reader is in test_reader_files.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

#include "core/alloc.h"
#include "reader_kit.h"

#define MAX_READS 48

/* --- any offset, any length, many at once */

/* Its room is followed by a unit that must stay as it is. */
typedef struct slot {
  ij_read read;
  bool busy;
} slot;

static void start_random(ij_reader *r, int file, slot *s, uint64_t *seed) {
  static const size_t most[] = {1, 100, 5000, 70000, MIB + 1, 3 * MIB};
  size_t n = 1 + test_random(seed) % most[test_random(seed) % IJ_COUNT_OF(most)];
  uint64_t at = test_random(seed) % (FILE_BYTES - n + 1);
  switch (test_random(seed) % 6) {
    case 0: at = FILE_BYTES - n; break;
    case 1: at = 0; break;
    case 2: at = at / IJ_READ_ALIGN * IJ_READ_ALIGN; break;
    default: break;
  }
  s->read = (ij_read){.file = file, .offset = at, .n_bytes = n, .room = s->read.room, .user = s};
  memset(s->read.room + ij__read_room(at, n), 0x5a, IJ_READ_ALIGN);
  s->busy = true;
  ij__reader_submit(r, &s->read);
}

static void read_randomly(ij_reader_kind kind, bool buffered, int depth, int n_reads) {
  ij_reader *r = open_with(&(ij_reader_options){.kind = kind, .buffered = buffered, .depth = depth});
  int file = add_file(r, main_path, FILE_BYTES), n_out = 0, n_begun = 0;
  slot slots[MAX_READS] = {0};
  for (int i = 0; i < MAX_READS; i++) slots[i].read.room = make_room(SLOT_ROOM);
  uint64_t seed = 11 + (uint64_t)depth, wanted = 0;
  int64_t refused = ij__alloc_violations();
  ij__alloc_guard_enter();
  while (n_begun < n_reads || n_out > 0) {
    for (int i = 0; i < MAX_READS && n_begun < n_reads; i++) {
      if (slots[i].busy) continue;
      start_random(r, file, &slots[i], &seed);
      wanted += slots[i].read.n_bytes;
      n_begun++;
      n_out++;
    }
    ij_read *done[5];
    int n = ij__reader_wait(r, done, 5, true);
    CHECK(n >= 1 && n <= 5);
    if (n < 1) break;
    for (int i = 0; i < n; i++) {
      check_read(done[i]);
      ((slot *)done[i]->user)->busy = false;
    }
    n_out -= n;
  }
  ij__alloc_guard_leave();
  CHECK_INT(ij__alloc_violations(), refused);
  ij_read *none;
  CHECK_INT(ij__reader_wait(r, &none, 1, true), 0); /* nothing is under way: returns */
  ij_reader_stats stats;
  ij__reader_get_stats(r, &stats);
  CHECK_STR(stats.kind, kind == IJ_READER_URING ? "io_uring" : "pread threads");
  CHECK_INT(stats.n_direct + stats.n_buffered, 1);
  if (buffered) CHECK_INT(stats.n_direct, 0);
  if (stats.n_buffered) CHECK(stats.n_bytes == wanted);
  else CHECK(stats.n_bytes >= wanted && stats.n_bytes <= wanted + (uint64_t)n_reads * 2 * IJ_READ_ALIGN);
  CHECK(stats.n_pieces >= (uint64_t)n_reads && stats.seconds > 0);
  ij__reader_close(&r);
  CHECK(r == NULL);
  for (int i = 0; i < MAX_READS; i++) ij__os_free_pages(slots[i].read.room, SLOT_ROOM);
}

static void random_reads_give_the_bytes_of_the_file(void) {
  for (int buffered = 0; buffered <= 1; buffered++) {
    read_randomly(IJ_READER_POOL, buffered, 0, 150);
    read_randomly(IJ_READER_POOL, buffered, 1, 40);
    if (!have_uring) continue;
    read_randomly(IJ_READER_URING, buffered, 0, 150);
    read_randomly(IJ_READER_URING, buffered, 1, 40);
    read_randomly(IJ_READER_URING, buffered, 3, 40);
  }
}

static void only_whole_units_are_read_too_much(void) {
  ij_reader *r = open_with(NULL);
  int file = add_file(r, main_path, FILE_BYTES);
  char *room = make_room(2 * MIB);
  ij_reader_stats a, b;
  ij__reader_get_stats(r, &a);
  bool direct = a.n_direct == 1;
  read_one(r, &(ij_read){.file = file, .offset = MIB, .n_bytes = MIB, .room = room});
  ij__reader_get_stats(r, &b);
  CHECK_INT(b.n_bytes - a.n_bytes, MIB);
  CHECK_INT(b.n_pieces - a.n_pieces, 1);
  read_one(r, &(ij_read){.file = file, .offset = MIB + 4090, .n_bytes = 10, .room = room});
  ij__reader_get_stats(r, &a);
  CHECK_INT(a.n_bytes - b.n_bytes, direct ? 8192 : 10);
  read_one(r, &(ij_read){.file = file, .offset = FILE_BYTES - 1, .n_bytes = 1, .room = room});
  ij__reader_get_stats(r, &b);
  CHECK_INT(b.n_bytes - a.n_bytes, direct ? FILE_BYTES % IJ_READ_ALIGN : 1); /* it ends there */
  ij__os_free_pages(room, 2 * MIB);
  ij__reader_close(&r);
}

/* --- the hook: a drive that misbehaves as told */

typedef struct drive {
  pthread_mutex_t mutex;
  pthread_cond_t moved;
  bool closed;               /* calls wait while this is set, */
  uint64_t closed_from, closed_to; /* if they begin in here (to 0: anywhere) */
  int n_inside, most_inside, n_calls;
  uint64_t offsets[64];      /* of the first calls */
  int errnum;                /* of calls that begin at error_from and later */
  uint64_t error_from;
  int n_errors;              /* left to give; -1: all */
  size_t most;               /* bytes per call; 0: all */
  uint64_t end;              /* nothing comes from here on; 0: the file's own end */
  int nap_ms;
} drive;

static void drive_init(drive *d) {
  *d = (drive){.n_errors = -1};
  pthread_mutex_init(&d->mutex, NULL);
  pthread_cond_init(&d->moved, NULL);
}

static void drive_open_gate(drive *d) {
  pthread_mutex_lock(&d->mutex);
  d->closed = false;
  pthread_cond_broadcast(&d->moved);
  pthread_mutex_unlock(&d->mutex);
}

static void drive_await_inside(drive *d, int n) {
  pthread_mutex_lock(&d->mutex);
  while (d->n_inside < n) pthread_cond_wait(&d->moved, &d->mutex);
  pthread_mutex_unlock(&d->mutex);
}

static void drive_enter(drive *d, uint64_t offset, int *errnum) {
  pthread_mutex_lock(&d->mutex);
  d->n_inside++;
  d->most_inside = IJ_MAX(d->most_inside, d->n_inside);
  if (d->n_calls < (int)IJ_COUNT_OF(d->offsets)) d->offsets[d->n_calls] = offset;
  d->n_calls++;
  pthread_cond_broadcast(&d->moved);
  bool held = d->closed_to == 0 || (offset >= d->closed_from && offset < d->closed_to);
  while (held && d->closed) pthread_cond_wait(&d->moved, &d->mutex);
  if (d->errnum && offset >= d->error_from && d->n_errors != 0) {
    *errnum = d->errnum;
    d->n_errors -= d->n_errors > 0;
  }
  pthread_mutex_unlock(&d->mutex);
}

/* A short read: all is asked of the file, as a direct read must, and what is not handed out is spoiled. */
static int64_t drive_read(void *user, int fd, void *to, size_t n, uint64_t offset, int *errnum) {
  drive *d = user;
  *errnum = 0;
  drive_enter(d, offset, errnum);
  if (d->nap_ms) nap_ms(d->nap_ms);
  int64_t got = -1, most = d->most ? (int64_t)d->most : INT64_MAX;
  if (d->end) most = offset < d->end ? (int64_t)(d->end - offset) : 0;
  if (!*errnum) {
    got = pread(fd, to, n, (off_t)offset);
    if (got < 0) *errnum = errno;
    if (got > most) memset((char *)to + most, 0xee, (size_t)(got - most));
    got = IJ_MIN(got, most);
  }
  pthread_mutex_lock(&d->mutex);
  d->n_inside--;
  pthread_mutex_unlock(&d->mutex);
  return got;
}

static ij_reader *open_on(drive *d, int depth, bool buffered, int *file) {
  ij_reader *r = open_with(&(ij_reader_options){.depth = depth, .buffered = buffered, .fault = drive_read, .fault_user = d});
  *file = add_file(r, main_path, FILE_BYTES);
  return r;
}

static void short_reads_are_continued(void) {
  static const size_t most[] = {1000, 4096, 5000, 4096 * 3};
  char *room = make_room(SLOT_ROOM);
  for (size_t i = 0; i < 2 * IJ_COUNT_OF(most); i++) {
    drive d;
    drive_init(&d);
    d.most = most[i / 2];
    int file;
    ij_reader *r = open_on(&d, 0, i % 2, &file);
    ij_read read = {.file = file, .offset = 777, .n_bytes = MIB + 50000, .room = room};
    memset(room + ij__read_room(read.offset, read.n_bytes), 0x5a, IJ_READ_ALIGN);
    read_one(r, &read);
    check_read(&read);
    CHECK(d.n_calls >= (int)(MIB / most[i / 2]));
    ij__reader_close(&r);
  }
  ij__os_free_pages(room, SLOT_ROOM);
}

static void interruptions_are_tried_again(void) {
  static const int errors[] = {EINTR, EAGAIN};
  char *room = make_room(SLOT_ROOM);
  for (int i = 0; i < 2; i++) {
    drive d;
    drive_init(&d);
    d.errnum = errors[i];
    d.n_errors = 7;
    int file;
    ij_reader *r = open_on(&d, 2, false, &file);
    ij_read read = {.file = file, .offset = 5, .n_bytes = 2 * MIB + 1, .room = room};
    memset(room + ij__read_room(read.offset, read.n_bytes), 0x5a, IJ_READ_ALIGN);
    read_one(r, &read);
    check_read(&read);
    CHECK_INT(d.n_calls, 7 + 3);
    ij__reader_close(&r);
  }
  drive d;
  drive_init(&d);
  d.errnum = EAGAIN; /* for ever */
  int file;
  ij_reader *r = open_on(&d, 1, false, &file);
  ij_read read = {.file = file, .offset = 5, .n_bytes = 2 * MIB, .room = room};
  read_one(r, &read);
  CHECK_INT(read.status, IJ_E_IO);
  CHECK_INT(read.errnum, EAGAIN);
  ij_err err;
  CHECK_INT(ij__reader_explain(r, &read, &err), IJ_E_IO);
  CHECK_HAS(err.message, "short of memory");
  ij__reader_close(&r);
  ij__os_free_pages(room, SLOT_ROOM);
}

static void an_error_of_the_drive_ends_its_read_alone(void) {
  drive d;
  drive_init(&d);
  d.errnum = EIO;
  d.error_from = 4 * MIB;
  int file;
  ij_reader *r = open_on(&d, 2, false, &file);
  char *room[3];
  ij_read reads[3], *back;
  for (int i = 0; i < 3; i++) { /* the second crosses into the bad part: its first piece is good, its rest is not even tried */
    room[i] = make_room(SLOT_ROOM);
    reads[i] = (ij_read){.file = file, .offset = i == 1 ? 3 * MIB + 10 : 17, .n_bytes = 3 * MIB - 99, .room = room[i]};
    memset(room[i] + ij__read_room(reads[i].offset, reads[i].n_bytes), 0x5a, IJ_READ_ALIGN);
    ij__reader_submit(r, &reads[i]);
  }
  for (int i = 0; i < 3; i++) CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
  check_read(&reads[0]);
  check_read(&reads[2]);
  CHECK_INT(reads[1].status, IJ_E_IO);
  CHECK_INT(reads[1].errnum, EIO);
  ij_err err;
  CHECK_INT(ij__reader_explain(r, &reads[1], &err), IJ_E_IO);
  CHECK_STR(err.where, main_path);
  CHECK_HAS(err.message, "at offset 3145738");
  CHECK_HAS(err.message, strerror(EIO));
  CHECK_HAS(err.message, "check the drive");
  CHECK_INT(ij__reader_explain(r, &reads[0], &err), IJ_OK);
  d.errnum = ENODEV;
  d.error_from = 0;
  read_one(r, &reads[0]);
  CHECK_INT(ij__reader_explain(r, &reads[0], &err), IJ_E_IO);
  CHECK_HAS(err.message, "attach it again");
  d.errnum = 0; /* and it is back */
  read_one(r, &reads[0]);
  check_read(&reads[0]);
  ij__reader_close(&r);
  for (int i = 0; i < 3; i++) ij__os_free_pages(room[i], SLOT_ROOM);
}

static void a_drive_that_refuses_direct_reads_later_is_read_through_the_cache(void) {
  drive d;
  drive_init(&d);
  d.errnum = EINVAL;
  d.n_errors = 1;
  int file;
  ij_reader *r = open_on(&d, 1, false, &file);
  ij_reader_stats before, after;
  ij__reader_get_stats(r, &before);
  char *room = make_room(SLOT_ROOM);
  ij_read read = {.file = file, .offset = 4095, .n_bytes = 2 * MIB, .room = room};
  memset(room + ij__read_room(read.offset, read.n_bytes), 0x5a, IJ_READ_ALIGN);
  read_one(r, &read);
  ij__reader_get_stats(r, &after);
  if (before.n_direct == 1) {
    check_read(&read);
    CHECK_INT(after.n_buffered, 1);
    CHECK_INT(after.n_direct, 0);
    read_one(r, &read);
    check_read(&read);
  } else { /* there was nothing to fall back from */
    CHECK_INT(read.errnum, EINVAL);
  }
  ij__reader_close(&r);
  ij__os_free_pages(room, SLOT_ROOM);
}

static void a_file_that_ends_early_is_an_error(void) {
  char *room = make_room(SLOT_ROOM);
  for (int buffered = 0; buffered <= 1; buffered++) {
    drive d;
    drive_init(&d);
    d.end = MIB + 4096;
    int file;
    ij_reader *r = open_on(&d, 0, buffered, &file);
    ij_read read = {.file = file, .offset = 100, .n_bytes = 2 * MIB, .room = room};
    read_one(r, &read);
    CHECK_INT(read.status, IJ_E_IO);
    CHECK_INT(read.errnum, 0);
    ij_err err;
    CHECK_INT(ij__reader_explain(r, &read, &err), IJ_E_IO);
    CHECK_HAS(err.message, "found its end before");
    ij__reader_close(&r);
  }
  ij__os_free_pages(room, SLOT_ROOM);
}

static void reads_finish_out_of_order(void) {
  drive d;
  drive_init(&d);
  d.closed = true;
  d.closed_to = MIB; /* only the first read is held */
  int file;
  ij_reader *r = open_on(&d, 4, false, &file);
  ij_read reads[6], *back = NULL;
  char *room = make_room(6 * MIB);
  for (int i = 0; i < 6; i++) {
    reads[i] = (ij_read){.file = file, .offset = (uint64_t)i * MIB, .n_bytes = 1000, .room = room + (size_t)i * MIB};
    ij__reader_submit(r, &reads[i]);
  }
  for (int i = 0; i < 5; i++) {
    CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
    CHECK(back != &reads[0]);
  }
  CHECK_INT(ij__reader_wait(r, &back, 1, false), 0); /* does not wait */
  drive_open_gate(&d);
  CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
  CHECK(back == &reads[0]);
  for (int i = 0; i < 6; i++) CHECK(memcmp(reads[i].data, bytes + reads[i].offset, 1000) == 0);
  ij__reader_close(&r);
  ij__os_free_pages(room, 6 * MIB);
}

static void as_many_pieces_as_the_depth_are_under_way(void) {
  drive d;
  drive_init(&d);
  d.closed = true;
  int file;
  ij_reader *r = open_on(&d, 5, false, &file);
  char *room = make_room(7 * MIB);
  ij_read *back, read = {.file = file, .offset = 0, .n_bytes = FILE_BYTES, .room = room}; /* 7 pieces */
  ij__reader_submit(r, &read);
  drive_await_inside(&d, 5);
  nap_ms(5);
  CHECK_INT(d.n_calls, 5);
  ij_reader_stats stats;
  ij__reader_get_stats(r, &stats);
  CHECK_INT(stats.n_pieces, 0);
  CHECK(stats.seconds > 0.004); /* counts what is under way now */
  drive_open_gate(&d);
  CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
  CHECK_INT(d.most_inside, 5);
  CHECK_INT(d.n_calls, 7);
  ij__reader_close(&r);
  ij__os_free_pages(room, 7 * MIB);
}

static void pieces_are_issued_in_the_order_of_submission(void) {
  drive d;
  drive_init(&d);
  int file;
  ij_reader *r = open_on(&d, 1, true, &file);
  char *room = make_room(4 * SLOT_ROOM);
  ij_read reads[4], *back;
  for (int i = 0; i < 4; i++) {
    reads[i] = (ij_read){.file = file, .offset = (uint64_t)(3 - i) * 4096, .n_bytes = 3 * MIB, .room = room + (size_t)i * SLOT_ROOM};
    ij__reader_submit(r, &reads[i]);
  }
  for (int i = 0; i < 4; i++) {
    CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
    CHECK(back == &reads[i]);
  }
  CHECK_INT(d.n_calls, 12);
  for (int i = 0; i < 12; i++) CHECK_INT(d.offsets[i], (uint64_t)(3 - i / 3) * 4096 + (uint64_t)(i % 3) * MIB);
  ij__reader_close(&r);
  ij__os_free_pages(room, 4 * SLOT_ROOM);
}

static void what_is_not_issued_can_be_taken_back(void) {
  drive d;
  drive_init(&d);
  d.closed = true;
  int file;
  ij_reader *r = open_on(&d, 1, false, &file);
  char *room = make_room(5 * SLOT_ROOM);
  ij_read reads[5], *back = NULL;
  for (int i = 0; i < 5; i++) {
    reads[i] = (ij_read){.file = file, .offset = 0, .n_bytes = 3 * MIB, .room = room + (size_t)i * SLOT_ROOM};
    memset(reads[i].room + 3 * MIB, 0x5a, IJ_READ_ALIGN);
    ij__reader_submit(r, &reads[i]);
  }
  drive_await_inside(&d, 1);
  CHECK(ij__reader_cancel(r, &reads[4])); /* the last, */
  CHECK(ij__reader_cancel(r, &reads[2])); /* one in the middle, */
  CHECK(!ij__reader_cancel(r, &reads[0])); /* and one of whose three pieces one is under way */
  ij__reader_submit(r, &reads[4]); /* it is free: again, behind the others */
  drive_open_gate(&d);
  static const int order[] = {0, 1, 3, 4};
  for (int i = 0; i < 4; i++) {
    CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
    CHECK(back == &reads[order[i]]);
    if (i == 0) CHECK_INT(back->status, IJ_E_CANCELLED);
    else check_read(back);
  }
  ij_err err;
  CHECK_INT(ij__reader_explain(r, &reads[0], &err), IJ_E_CANCELLED);
  CHECK_INT(d.n_calls, 1 + 3 * 3);
  ij__reader_submit(r, &reads[2]); /* all of it there before it is taken back: nothing to take, and nothing lost */
  ij_reader_stats stats = {0};
  while (stats.n_pieces < 13) {
    nap_ms(1);
    ij__reader_get_stats(r, &stats);
  }
  CHECK(!ij__reader_cancel(r, &reads[2]));
  CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
  CHECK(back == &reads[2]);
  check_read(back);
  ij__reader_close(&r);
  ij__os_free_pages(room, 5 * SLOT_ROOM);
}

static void closing_waits_for_what_is_under_way(void) {
  drive d;
  drive_init(&d);
  d.nap_ms = 20;
  int file;
  ij_reader *r = open_on(&d, 3, false, &file);
  char *room = make_room(7 * MIB);
  ij_read read = {.file = file, .offset = 0, .n_bytes = FILE_BYTES, .room = room};
  ij__reader_submit(r, &read);
  drive_await_inside(&d, 3);
  ij__reader_close(&r);
  CHECK_INT(d.n_inside, 0);
  CHECK_INT(d.n_calls, 3); /* and nothing new is begun */
  ij__os_free_pages(room, 7 * MIB);
}

/* The same where nobody can look inside: what is in the room when close returns stays there. */
static void nothing_is_written_after_closing(ij_reader_kind kind) {
  char *room = make_room(7 * MIB), *copy = make_room(7 * MIB);
  for (int i = 0; i < 3; i++) {
    ij_reader *r = open_with(&(ij_reader_options){.kind = kind, .depth = 1 + 3 * i});
    ij_read read = {.file = add_file(r, main_path, FILE_BYTES), .offset = 0, .n_bytes = FILE_BYTES, .room = room};
    ij__reader_submit(r, &read);
    nap_ms(i);
    ij__reader_close(&r);
    memset(room, 0x77, 7 * MIB);
    memset(copy, 0x77, 7 * MIB);
    nap_ms(5);
    CHECK(memcmp(room, copy, 7 * MIB) == 0);
  }
  ij__os_free_pages(room, 7 * MIB);
  ij__os_free_pages(copy, 7 * MIB);
}

static void closing_leaves_rooms_alone(void) {
  nothing_is_written_after_closing(IJ_READER_POOL);
  if (have_uring) nothing_is_written_after_closing(IJ_READER_URING);
}

/* --- the rest */

static void options_are_checked(void) {
  ij_err err = {0};
  ij_reader *r = NULL;
  drive d;
  drive_init(&d);
  CHECK_INT(ij__reader_open(&r, &(ij_reader_options){.depth = -1}, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij__reader_open(&r, &(ij_reader_options){.depth = 100000}, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "100000");
  CHECK_INT(ij__reader_open(&r, &(ij_reader_options){.kind = IJ_READER_URING, .fault = drive_read, .fault_user = &d}, &err), IJ_E_ARGUMENT);
  CHECK(r == NULL);
  int file;
  r = open_on(&d, 0, false, &file); /* AUTO with faults: the pool */
  ij_reader_stats stats;
  ij__reader_get_stats(r, &stats);
  CHECK_STR(stats.kind, "pread threads");
  ij__reader_close(&r);
}

static void want_of_memory_is_an_error(ij_reader_kind kind) {
  int64_t blocks = ij__alloc_blocks();
  bool opened = false;
  for (int64_t n = 1; !opened; n++) {
    ij_reader *r = NULL;
    ij_err err = {0};
    int file;
    ij__alloc_fail_after(n);
    ij_status s = ij__reader_open(&r, &(ij_reader_options){.kind = kind, .depth = 2}, &err);
    if (s == IJ_OK) s = ij__reader_add(r, main_path, FILE_BYTES, &file, &err);
    if (s == IJ_OK) s = ij__reader_add(r, main_path, FILE_BYTES, &file, &err);
    ij__alloc_fail_after(0);
    opened = s == IJ_OK;
    if (!opened) CHECK_INT(s, IJ_E_NOMEM);
    CHECK(n < 20);
    ij__reader_close(&r);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
}

static void want_of_memory_at_every_point(void) {
  want_of_memory_is_an_error(IJ_READER_POOL);
  if (have_uring) want_of_memory_is_an_error(IJ_READER_URING);
}

static void the_rate_is_that_of_the_reads(void) {
  char path[300];
  path_in(path, "empty");
  write_file(path, bytes, 0);
  for (int kind = have_uring ? IJ_READER_URING : IJ_READER_POOL; kind <= IJ_READER_POOL; kind++) {
    ij_reader *r = open_with(&(ij_reader_options){.kind = (ij_reader_kind)kind});
    int file = add_file(r, main_path, FILE_BYTES), empty = add_file(r, path, 0);
    ij_err err = {0};
    double rate = -1;
    double before = ij__os_seconds();
    CHECK_OK(ij__reader_measure(r, file, 10, &rate, &err), err); /* ends with the file */
    double took = ij__os_seconds() - before;
    ij_reader_stats stats;
    ij__reader_get_stats(r, &stats);
    CHECK_INT(stats.n_pieces, 7);
    CHECK(rate >= (double)FILE_BYTES / took && took < 10);
    CHECK_OK(ij__reader_measure(r, file, 0, &rate, &err), err); /* ends with what was begun */
    CHECK(rate > 0);
    CHECK_INT(ij__reader_measure(r, empty, 1, &rate, &err), IJ_E_RANGE);
    CHECK_INT(rate, 0);
    char *room = make_room(MIB);
    ij_read read = {.file = file, .offset = 0, .n_bytes = 1, .room = room}, *back;
    ij__reader_submit(r, &read);
    CHECK_INT(ij__reader_measure(r, file, 1, &rate, &err), IJ_E_ARGUMENT);
    CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
    ij__reader_close(&r);
    ij__os_free_pages(room, MIB);
  }
}

static void a_rate_that_cannot_be_measured_is_an_error(void) {
  drive d;
  drive_init(&d);
  d.errnum = EIO;
  int file;
  ij_reader *r = open_on(&d, 2, false, &file);
  ij_err err = {0};
  double rate = -1;
  CHECK_INT(ij__reader_measure(r, file, 10, &rate, &err), IJ_E_IO);
  CHECK_HAS(err.message, strerror(EIO));
  CHECK_INT(rate, 0);
  ij__reader_close(&r);
}

int main(void) {
  if (!make_files()) return 1;
  look_around();
  RUN(random_reads_give_the_bytes_of_the_file);
  RUN(only_whole_units_are_read_too_much);
  RUN(short_reads_are_continued);
  RUN(interruptions_are_tried_again);
  RUN(an_error_of_the_drive_ends_its_read_alone);
  RUN(a_drive_that_refuses_direct_reads_later_is_read_through_the_cache);
  RUN(a_file_that_ends_early_is_an_error);
  RUN(reads_finish_out_of_order);
  RUN(as_many_pieces_as_the_depth_are_under_way);
  RUN(pieces_are_issued_in_the_order_of_submission);
  RUN(what_is_not_issued_can_be_taken_back);
  RUN(closing_waits_for_what_is_under_way);
  RUN(closing_leaves_rooms_alone);
  RUN(options_are_checked);
  RUN(want_of_memory_at_every_point);
  RUN(the_rate_is_that_of_the_reads);
  RUN(a_rate_that_cannot_be_measured_is_an_error);
  remove_files();
  return test_report();
}
