/* reader.h: many positioned reads at once, past the page cache where the file system allows it.
 *
 *     ij_read r = {.file = f, .offset = at, .n_bytes = n, .room = buffer};      // room: ij__read_room(at, n) bytes
 *     ij__reader_submit(reader, &r);                                            // never blocks on the disk
 *     ... ij__reader_wait(reader, done, 8, true) hands &r back: r.status, and r.data points at the n bytes inside room
 *
 * A read is the caller's from the moment wait hands it back; between submit and then neither it nor its room may be touched. Reads are cut into
 * pieces of at most IJ_READ_PIECE, enough of which are kept under way to saturate a drive; pieces are issued in the order of submission.
 * They may finish in any order. Nothing is allocated after open: submit queues the caller's own structs.
 *
 * One thread at a time per reader (the pool behind it is its own business). Files are opened once and kept, so replacing one by name does
 * not change what is read; a file whose size or modification time changes while it is open ends every later read in IJ_E_IO that says so.
 */
#ifndef IJ_IO_READER_H
#define IJ_IO_READER_H

#include "core/base.h"
#include "core/status.h"

#define IJ_READ_ALIGN ((size_t)4096)        /* of room; offsets are rounded to it inside */
#define IJ_READ_PIECE ((size_t)1 << 20)

typedef struct ij_read {
  int file;                /* from ij__reader_add */
  uint64_t offset;
  size_t n_bytes;          /* >= 1 */
  char *room;              /* aligned to IJ_READ_ALIGN; on huge pages a direct read costs a fifth of the processor time */
  void *user;              /* the caller's */
  const char *data;        /* out: room + offset % IJ_READ_ALIGN */
  ij_status status;        /* out: IJ_OK, IJ_E_IO (the device or the file), IJ_E_CANCELLED */
  int errnum;              /* out: errno behind IJ_E_IO; 0: the file ended early, or has changed */
  /* The reader's own. */
  struct ij_read *next;
  size_t n_issued, n_done;
  int n_flying;
  bool aligned, cancelled;
} ij_read;

/* Bytes of room that a read needs: everything from the aligned start to the aligned end. */
static inline size_t ij__read_room(uint64_t offset, size_t n_bytes) {
  size_t lead = (size_t)(offset % IJ_READ_ALIGN);
  return (lead + n_bytes + IJ_READ_ALIGN - 1) / IJ_READ_ALIGN * IJ_READ_ALIGN;
}
/* The same for n_bytes at whatever offset. */
static inline size_t ij__read_room_max(size_t n_bytes) { return ij__read_room(IJ_READ_ALIGN - 1, n_bytes); }

typedef struct ij_reader ij_reader;

/* How reads reach the system. Tests put their own in front to make reads fail, come short, late or out of order. */
typedef enum ij_reader_kind { IJ_READER_AUTO, IJ_READER_URING, IJ_READER_POOL } ij_reader_kind;

/* Stands where pread does: returns bytes, or -1 with *errnum. Called from any thread, also at once. Only with the pool. */
typedef int64_t (*ij_reader_fault)(void *user, int fd, void *to, size_t n, uint64_t offset, int *errnum);

typedef struct ij_reader_options {
  ij_reader_kind kind;     /* AUTO: io_uring when the kernel and its policies allow it (probed with a real read), else the pool */
  int depth;               /* pieces under way at once; 0: the default */
  bool buffered;           /* through the page cache even where direct reads work */
  ij_reader_fault fault;   /* NULL: the system's pread */
  void *fault_user;
} ij_reader_options;

ij_status ij__reader_open(ij_reader **out, const ij_reader_options *options, ij_err *err); /* options may be NULL */
void ij__reader_close(ij_reader **reader); /* waits for what is under way */

/* Opens a regular file of exactly n_bytes (what the caller has mapped or checked before; another size is IJ_E_IO). *file counts from 0; a path
 * of this size that was added before has its number already, and is not opened again. Direct reads are tried once here; where they are refused
 * (tmpfs, some network file systems) the file is read through the page cache, and what was read is dropped from it again. */
ij_status ij__reader_add(ij_reader *reader, const char *path, uint64_t n_bytes, int *file, ij_err *err);

void ij__reader_submit(ij_reader *reader, ij_read *read);

/* Finished reads, at most max of them; waits for the first one if block is set and any is under way. Returns their number. */
int ij__reader_wait(ij_reader *reader, ij_read **done, int max, bool block);

/* Takes back what has not been issued of a read. True: nothing was, the read is the caller's again and will not be handed out. False: it will
 * come through wait (status IJ_E_CANCELLED when it is incomplete). */
bool ij__reader_cancel(ij_reader *reader, ij_read *read);

/* Writes why a read failed into err: the file, what was expected, what was found, what to do. Returns read->status. */
ij_status ij__reader_explain(const ij_reader *reader, const ij_read *read, ij_err *err);

typedef struct ij_reader_stats {
  const char *kind;        /* "io_uring" or "pread threads", a static string */
  int n_direct, n_buffered; /* files */
  uint64_t n_bytes;        /* read from files, alignment included */
  uint64_t n_pieces;
  double seconds;          /* during which at least one piece was under way */
} ij_reader_stats;
void ij__reader_get_stats(const ij_reader *reader, ij_reader_stats *out);

/* The rate of sequential direct reads of a file with the same queue, over about `seconds` and at most the file: bytes per second. Reads into
 * memory of its own. */
ij_status ij__reader_measure(ij_reader *reader, int file, double seconds, double *bytes_per_s, ij_err *err);

#endif
