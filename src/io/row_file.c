/* row_file.c: see row_file.h. Rows go through the page cache, which may keep some and drop them as it likes: they are small, and a token needs one. */
#define _GNU_SOURCE
#include "io/row_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"

#if defined(__APPLE__)
#define MTIME(st) (st).st_mtimespec
#else
#define MTIME(st) (st).st_mtim
#endif

/* Data, scales or biases of the rows: `bytes` of each, `stride` apart. */
typedef struct row_part {
  int fd;               /* -1: there is no such part */
  int file;             /* of the checkpoint */
  uint64_t offset;
  int64_t stride;
  size_t bytes, at;     /* at: in the room */
  struct timespec mtime;
} row_part;

struct ij_row_file {
  const ij_ckpt *ckpt;
  ij_weight w;
  row_part parts[3];
  size_t room;
  /* The last failure. */
  _Atomic int bad_part, bad_errno;
  _Atomic bool changed; /* a file has been written to: for good, even if somebody sets its time back */
  _Atomic int64_t bad_row;
};

static ij_status open_part(ij_row_file *f, row_part *p, const void *data, size_t all_bytes, int64_t stride, ij_err *err) {
  if (!data) return IJ_OK;
  if (!ij__ckpt_place(f->ckpt, data, all_bytes, &p->file, &p->offset)) return IJ_E_RANGE;
  const char *path = ij__ckpt_file_path(f->ckpt, p->file);
  p->stride = stride;
  p->bytes = all_bytes - (size_t)((f->w.rows - 1) * stride); /* of the last row, and so of each */
  p->at = f->room;
  f->room += ij__align_up(p->bytes, 64);
  p->fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (p->fd < 0 || fstat(p->fd, &st) != 0) return ij__fail_errno(err, errno, path, "cannot open the file");
  if ((uint64_t)st.st_size != ij__ckpt_file_size(f->ckpt, p->file)) {
    return ij__fail(err, IJ_E_IO, path, "expected a file of %zu bytes, as when its header was read, found %lld: it was replaced", ij__ckpt_file_size(f->ckpt, p->file),
                    (long long)st.st_size);
  }
  ij_status s = ij__ckpt_check_file(f->ckpt, p->file, err);
  if (s != IJ_OK) return s;
  p->mtime = MTIME(st);
#if defined(POSIX_FADV_RANDOM)
  posix_fadvise(p->fd, 0, 0, POSIX_FADV_RANDOM);
#endif
  return IJ_OK;
}

ij_status ij__row_file_open(ij_row_file **out, const ij_ckpt *ckpt, const ij_weight *w, ij_err *err) {
  *out = NULL;
  ij_row_file *f = ij__alloc_zero(1, sizeof *f);
  if (!f) return ij__fail_nomem(err, "the rows of a table", sizeof *f);
  f->ckpt = ckpt;
  f->w = *w;
  for (int i = 0; i < 3; i++) f->parts[i].fd = -1;
  size_t n_bytes[3];
  ij__weight_extent(w, n_bytes);
  const void *data[3] = {w->data, w->scales, w->biases};
  ij_status s = IJ_OK;
  for (int i = 0; i < 3 && s == IJ_OK; i++) s = open_part(f, &f->parts[i], data[i], n_bytes[i], i == 0 ? w->row_stride : w->side_stride, err);
  if (s == IJ_OK) {
    *out = f;
    return s;
  }
  ij__row_file_close(&f);
  return s == IJ_E_RANGE ? IJ_OK : s; /* in memory already */
}

void ij__row_file_close(ij_row_file **file) {
  if (!file || !*file) return;
  for (int i = 0; i < 3; i++) {
    if ((*file)->parts[i].fd >= 0) close((*file)->parts[i].fd);
  }
  ij__free(*file);
  *file = NULL;
}

size_t ij__row_file_room(const ij_row_file *f) { return f->room; }

static void note_failure(ij_row_file *f, int i, int64_t row, int errnum) {
  atomic_store(&f->bad_errno, errnum);
  atomic_store(&f->bad_part, i);
  atomic_store(&f->bad_row, row);
}

static bool read_part(ij_row_file *f, int i, int64_t row, char *room) {
  const row_part *p = &f->parts[i];
  uint64_t offset = p->offset + (uint64_t)(row * p->stride);
  for (size_t done = 0; done < p->bytes;) {
    ssize_t n = pread(p->fd, room + p->at + done, p->bytes - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      note_failure(f, i, row, n < 0 ? errno : 0);
      return false;
    }
    done += (size_t)n;
  }
  return true;
}

/* Whether what has been read is of the file that was opened. Asked after reading, as the reader of experts does. */
static bool is_unchanged(ij_row_file *f, int i, int64_t row) {
  struct stat st;
  const row_part *p = &f->parts[i];
  if (fstat(p->fd, &st) == 0 && (MTIME(st).tv_sec != p->mtime.tv_sec || MTIME(st).tv_nsec != p->mtime.tv_nsec)) atomic_store(&f->changed, true);
  if (!atomic_load(&f->changed)) return true;
  note_failure(f, i, row, 0);
  return false;
}

bool ij__row_file_read(ij_row_file *f, int64_t row, char *room, ij_weight *out) {
  *out = f->w;
  out->rows = 1;
  const void **to[3] = {&out->data, &out->scales, &out->biases};
  for (int i = 0; i < 3; i++) {
    if (f->parts[i].fd < 0) continue;
    if (!read_part(f, i, row, room) || !is_unchanged(f, i, row)) return false;
    *to[i] = room + f->parts[i].at;
  }
  return true;
}

ij_status ij__row_file_explain(const ij_row_file *f, ij_err *err) {
  const row_part *p = &f->parts[atomic_load(&f->bad_part)];
  const char *path = ij__ckpt_file_path(f->ckpt, p->file);
  int64_t row = atomic_load(&f->bad_row);
  int errnum = atomic_load(&f->bad_errno);
  uint64_t offset = p->offset + (uint64_t)(row * p->stride);
  struct stat st;
  uint64_t expected = ij__ckpt_file_size(f->ckpt, p->file), found = fstat(p->fd, &st) == 0 ? (uint64_t)st.st_size : expected;
  if (errnum == 0 && found == expected && atomic_load(&f->changed)) {
    return ij__fail(err, IJ_E_IO, path, "row %lld of a table, at offset %" PRIu64 ": expected the file as it was opened, found one modified since: start again, and do not "
                    "write to a model that is in use", (long long)row, offset);
  }
  if (errnum == 0) {
    return ij__fail(err, IJ_E_IO, path, "row %lld of a table, at offset %" PRIu64 ": expected a file of %" PRIu64 " bytes, as when it was opened, found %" PRIu64 ": it was %s "
                    "while in use; download or copy it again and start again", (long long)row, offset, expected, found, found < expected ? "cut short" : "written to");
  }
  ij__fail_errno(err, errnum, path, "cannot read a row of a table");
  return IJ_E_IO;
}
