/* reader_int.h: what reader.c, its files and its two ways to the system share. Nobody else includes it.
 *
 * Who does what. The caller's thread puts reads into the queue; the threads of a way take pieces from its head, read them, and finish them. One
 * mutex protects the queue, the list of finished reads, the reads in both, and the statistics; it is never held across a call to the
 * system that could wait for a disk. A piece belongs to the thread that took it until it is finished. A file's fields do not change after
 * add, but for two flags that only ever change once.
 */
#ifndef IJ_IO_READER_INT_H
#define IJ_IO_READER_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/reader.h"

/* One opened file. Both descriptors are of the same inode. */
typedef struct reader_file {
  char *path;
  int fd, direct_fd;      /* through the page cache; past it, -1 where that is refused */
  uint64_t n_bytes;
  int64_t mtime_s, mtime_ns;
  _Atomic bool direct;    /* falls when the file system refuses a direct read after all */
  _Atomic bool changed;   /* rises when size or time of modification are no longer those of add */
} reader_file;

ij_status ij__reader_file_open(reader_file **out, const char *path, uint64_t n_bytes, bool buffered, ij_err *err);
void ij__reader_file_close(reader_file **file);
bool ij__reader_file_changed(reader_file *file);                              /* one fstat */
void ij__reader_file_drop(const reader_file *file, uint64_t offset, uint64_t n); /* from the page cache */
ij_status ij__reader_file_explain(const reader_file *file, const ij_read *read, ij_err *err);

/* A part of a read on its way, and what is still missing of it. */
typedef struct reader_piece {
  ij_read *read;
  reader_file *file;
  int fd;
  bool direct;
  uint64_t begin;         /* where the piece began */
  uint64_t offset;        /* of the next byte, which goes to */
  char *to;
  size_t n_ask;           /* bytes to ask for next: whole units of IJ_READ_ALIGN while direct */
  size_t n_need;          /* of these, the ones that somebody wants; what follows them may lie past the end of the file */
  size_t n_cut;           /* bytes of the read that this piece stands for */
  uint64_t n_got;
  int n_again;
  ij_status status;
  int errnum;
} reader_piece;

/* One way to the system. */
typedef struct reader_way {
  const char *name;
  ij_status (*open)(ij_reader *r, ij_err *err);   /* fails without a trace */
  void (*wake)(ij_reader *r, size_t n_pieces);    /* with the mutex held: there is work, or the reader closes */
  void (*close)(ij_reader *r);                    /* without it: returns when no piece is under way and no thread is left */
} reader_way;

extern const reader_way ij__reader_pool, ij__reader_uring;

struct ij_reader {
  const reader_way *way;
  void *threads;          /* the way's own */
  int depth;
  bool buffered;
  ij_reader_fault fault;
  void *fault_user;
  reader_file **files;    /* the caller's thread only */
  int n_files;

  pthread_mutex_t mutex;  /* protects all below */
  pthread_cond_t finished;
  ij_read *first, *last;  /* not wholly issued */
  ij_read *done, *done_last;
  int n_open;             /* reads submitted and not yet in `done` */
  int n_flying;           /* pieces */
  bool closing;
  double since, seconds;
  uint64_t n_bytes, n_pieces;
};

/* The next piece, cut from the head of the queue; false: there is none. With the mutex held. */
bool ij__reader_take(ij_reader *r, reader_piece *piece);

/* What a call for the piece gave: bytes, or -1 with errnum. True: the piece has come to its end, good or bad; false: ask for the rest. */
bool ij__reader_came(reader_piece *piece, int64_t n, int errnum);

/* Gives a piece that has ended back to its read. Without the mutex. */
void ij__reader_finish(ij_reader *r, reader_piece *piece);

/* Starts a thread that no signal of the process is delivered to, with a small stack. 0, or an errno. */
int ij__reader_thread(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
