/* reader_file.c: the files of a reader: opening, whether reads go past the page cache, whether a file is still what it was, why a read failed.
 *
 * A file is opened twice. Direct reads use a descriptor of their own, because what they cannot do (a rest that begins in the middle of a unit,
 * after a short read; a file system that changes its mind) goes through the page cache. On Linux a direct read sees what was written through
 * the cache: the kernel writes dirty pages of the range back before it asks the device. On macOS F_NOCACHE is a hint that needs no
 * alignment; pages that are in the cache already are used from there.
 *
 * Through the cache, readahead is off (a reader knows what it wants) and what was read is dropped again: the slots that it went to are the
 * cache here, and memory for a second copy has not been planned.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

#include "core/alloc.h"
#include "core/memfs.h"
#include "core/os.h"
#include "io/reader_int.h"

#if defined(__APPLE__)
#define MTIME(st) (st).st_mtimespec
#define OPEN_DIRECT 0
#elif defined(O_DIRECT)
#define MTIME(st) (st).st_mtim
#define OPEN_DIRECT O_DIRECT
#else
#error "this system has neither O_DIRECT nor F_NOCACHE: say here how it reads past its page cache"
#endif

/* O_NONBLOCK only while opening, where it keeps a pipe from holding us up: io_uring would give up on reads that have to wait. */
static int open_file(const char *path, int flags) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

/* The first bytes of the file, and the last with what follows them: whether whole units can be read past the page cache. Memory is aligned
 * no better than a caller's may be. */
static bool can_read_units(int fd, uint64_t n_bytes) {
  char *pages = ij__os_pages(3 * IJ_READ_ALIGN);
  bool good = pages != NULL;
  for (int i = 0; good && i < 2; i++) {
    uint64_t at = i == 0 || n_bytes == 0 ? 0 : (n_bytes - 1) / IJ_READ_ALIGN * IJ_READ_ALIGN;
    ssize_t n;
    do n = pread(fd, pages + IJ_READ_ALIGN, IJ_READ_ALIGN, (off_t)at);
    while (n < 0 && errno == EINTR);
    good = n >= 0 && (uint64_t)n >= IJ_MIN(n_bytes - at, (uint64_t)IJ_READ_ALIGN);
  }
  ij__os_free_pages(pages, 3 * IJ_READ_ALIGN);
  return good;
}

/* Files in memory: new kernels accept the flag there, and it means nothing. */
static bool has_no_drive(int fd) {
#if defined(__linux__)
  struct statfs fs;
  return fstatfs(fd, &fs) == 0 && ((unsigned long)fs.f_type == TMPFS_MAGIC || (unsigned long)fs.f_type == RAMFS_MAGIC);
#else
  (void)fd;
  return false;
#endif
}

/* NO_DESCRIPTOR is no reason to be slow without a word. */
enum { REFUSED = -1, NO_DESCRIPTOR = -2 };

static int open_direct(const char *path, const struct stat *same, uint64_t n_bytes) {
  struct stat st;
  int fd = open_file(path, OPEN_DIRECT);
  if (fd < 0) return errno == EMFILE || errno == ENFILE ? NO_DESCRIPTOR : REFUSED;
  bool good = fstat(fd, &st) == 0 && st.st_dev == same->st_dev && st.st_ino == same->st_ino; /* not if it was just replaced */
#if defined(__APPLE__)
  good = good && fcntl(fd, F_NOCACHE, 1) == 0;
#endif
  if (good && can_read_units(fd, n_bytes)) return fd;
  close(fd);
  return REFUSED;
}

static ij_status check_file(const struct stat *st, const char *path, uint64_t n_bytes, ij_err *err) {
  if (!S_ISREG(st->st_mode))
    return ij__fail(err, IJ_E_IO, path, "expected a regular file, found a %s", S_ISDIR(st->st_mode) ? "folder" : "device or pipe");
  if ((uint64_t)st->st_size != n_bytes)
    return ij__fail(err, IJ_E_IO, path, "expected a file of %" PRIu64 " bytes, as when its header was read, found %" PRIu64
                    ": it is being written or was replaced; start again when it is complete", n_bytes, (uint64_t)st->st_size);
  return IJ_OK;
}

ij_status ij__reader_file_open(reader_file **out, const char *path, uint64_t n_bytes, bool buffered, ij_err *err) {
  struct stat st;
  *out = NULL;
  if (ij__memfs_find(path)) return ij__fail(err, IJ_E_RANGE, path, "this file is in memory: there is no drive to read it from");
  reader_file *f = ij__alloc_zero(1, sizeof *f);
  if (!f) return ij__fail_nomem(err, path, sizeof *f);
  f->direct_fd = REFUSED;
  f->n_bytes = n_bytes;
  f->path = ij__strdup(path);
  f->fd = open_file(path, 0);
  ij_status s = IJ_OK;
  if (!f->path) s = ij__fail_nomem(err, path, strlen(path) + 1);
  else if (f->fd < 0) s = ij__fail_errno(err, errno, path, errno == EMFILE ? "cannot open the file (ulimit -n allows more)" : "cannot open the file");
  else if (fstat(f->fd, &st) != 0) s = ij__fail_errno(err, errno, path, "cannot stat the file");
  else s = check_file(&st, path, n_bytes, err);
  if (s == IJ_OK && !buffered && !has_no_drive(f->fd)) f->direct_fd = open_direct(path, &st, n_bytes);
  if (f->direct_fd == NO_DESCRIPTOR) s = ij__fail_errno(err, EMFILE, path, "cannot open the file a second time, for direct reads (ulimit -n allows more)");
  if (s != IJ_OK) {
    ij__reader_file_close(&f);
    return s;
  }
  f->mtime_s = MTIME(st).tv_sec;
  f->mtime_ns = MTIME(st).tv_nsec;
  f->direct = f->direct_fd >= 0;
#if defined(__APPLE__)
  fcntl(f->fd, F_RDAHEAD, 0);
#else
  posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
#endif
  *out = f;
  return IJ_OK;
}

void ij__reader_file_close(reader_file **file) {
  reader_file *f = *file;
  if (f->fd >= 0) close(f->fd);
  if (f->direct_fd >= 0) close(f->direct_fd);
  ij__free(f->path);
  ij__free(f);
  *file = NULL;
}

void ij__reader_file_drop(const reader_file *f, uint64_t offset, uint64_t n) {
#if defined(__APPLE__)
  (void)f, (void)offset, (void)n; /* there is no such call */
#else
  uint64_t begin = offset / IJ_READ_ALIGN * IJ_READ_ALIGN; /* the kernel keeps pages that it is told a part of */
  uint64_t end = (offset + n + IJ_READ_ALIGN - 1) / IJ_READ_ALIGN * IJ_READ_ALIGN;
  if (n > 0) posix_fadvise(f->fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_DONTNEED);
#endif
}

static bool is_same(const reader_file *f, const struct stat *st) {
  return (uint64_t)st->st_size == f->n_bytes && MTIME(*st).tv_sec == f->mtime_s && MTIME(*st).tv_nsec == f->mtime_ns;
}

/* Not by the time of change of the inode: that moves when another file takes over the name, and this one stays as it was. A write in the same
 * tick of the file system's clock (some milliseconds) as add goes unseen. */
bool ij__reader_file_changed(reader_file *f) {
  struct stat st;
  if (fstat(f->fd, &st) == 0 && !is_same(f, &st)) atomic_store(&f->changed, true); /* for good, even if somebody sets the time back */
  return atomic_load(&f->changed);
}

static const char *advice(int errnum) {
  switch (errnum) {
    case ENOMEM:
    case EAGAIN: return "the system is short of memory for reads: close other programs, or lower --mem";
    case EPERM:
    case EACCES:
    case ENOSYS: return "a policy of this system forbids it";
    case ENODEV:
    case ENXIO:
    case ESTALE:
    case ENOTCONN: return "the drive or network share is gone: attach it again and start again";
    default: return "the drive or its connection may be failing: look at the system's log, check the drive, and copy the model to another one";
  }
}

static ij_status explain_changed(const reader_file *f, const ij_read *read, ij_err *err) {
  struct stat st;
  uint64_t size = fstat(f->fd, &st) == 0 ? (uint64_t)st.st_size : f->n_bytes;
  if (size != f->n_bytes)
    return ij__fail(err, IJ_E_IO, f->path, "read of %zu bytes at offset %" PRIu64 ": expected a file of %" PRIu64 " bytes, as when it was opened, found %" PRIu64
                    ": it was %s while in use; download or copy it again and start again", read->n_bytes, read->offset, f->n_bytes, size,
                    size < f->n_bytes ? "cut short" : "written to");
  if (atomic_load(&f->changed))
    return ij__fail(err, IJ_E_IO, f->path, "read of %zu bytes at offset %" PRIu64 ": expected the file as it was opened, found one modified since: "
                    "start again, and do not write to a model that is in use", read->n_bytes, read->offset);
  return ij__fail(err, IJ_E_IO, f->path, "read of %zu bytes at offset %" PRIu64 ": expected them in a file of %" PRIu64 " bytes, found its end before: "
                  "the file or its file system is damaged; check it, and download or copy the file again", read->n_bytes, read->offset, f->n_bytes);
}

ij_status ij__reader_file_explain(const reader_file *f, const ij_read *read, ij_err *err) {
  if (read->status == IJ_OK) return IJ_OK;
  if (read->status != IJ_E_IO)
    return ij__fail(err, read->status, f->path, "read of %zu bytes at offset %" PRIu64 ": it was cancelled", read->n_bytes, read->offset);
  if (read->errnum == 0) return explain_changed(f, read, err);
  ij_err why;
  char doing[128];
  snprintf(doing, sizeof doing, "cannot read %zu bytes at offset %" PRIu64, read->n_bytes, read->offset);
  ij__fail_errno(&why, read->errnum, "", doing);
  return ij__fail(err, IJ_E_IO, f->path, "%s: %s", why.message, advice(read->errnum));
}
