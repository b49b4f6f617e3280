/* out_file.c: write, sync, rename. Values are written as they lie in memory: all supported hosts are little endian. */
#include "core/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/str.h"

enum { MAX_TRIES = 100 };

struct ij_out_file {
  int fd;
  char *path, *part;
  size_t n_declared, n_put;
};

/* The temporary name of one try to have one of our own. */
static char *part_path(const char *path, int try) {
  ij_buf b = {0};
  ij__buf_printf(&b, "%s.part-%ld", path, (long)getpid());
  if (try > 0) ij__buf_printf(&b, "-%d", try);
  if (!b.failed) return b.data;
  ij__buf_free(&b);
  return NULL;
}

char *ij__out_part_path(const char *path) { return part_path(path, 0); }

static void close_file(ij_out_file **f, bool remove) {
  if (!*f) return;
  if ((*f)->fd >= 0) {
    close((*f)->fd);
    if (remove) unlink((*f)->part);
  }
  ij__free((*f)->path);
  ij__free((*f)->part);
  ij__free(*f);
  *f = NULL;
}

void ij__out_abort(ij_out_file **f) { close_file(f, true); }

/* A file that nobody else writes: another thread may be at the same path, or another machine with a process of this number. */
static ij_status open_part(ij_out_file *f, ij_err *err) {
  for (int try = 0; try < MAX_TRIES; try++) {
    ij__free(f->part);
    f->part = part_path(f->path, try);
    if (!f->part) return ij__fail_nomem(err, "a file name", strlen(f->path));
    f->fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd >= 0) return IJ_OK;
    if (errno != EEXIST) break;
  }
  return ij__fail_errno(err, errno, f->path, "cannot create the file");
}

/* Renaming would put a file into the place of a device: of /dev/null, where the user may. */
static ij_status check_target(const char *path, ij_err *err) {
  struct stat st;
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return IJ_OK; /* what cannot be asked about, creating finds out */
  return ij__fail(err, IJ_E_IO, path, "expected a file to write or nothing at this path, found a %s: it is left alone", S_ISDIR(st.st_mode) ? "folder" : "device or pipe");
}

ij_status ij__out_open(ij_out_file **out, const char *path, size_t n_bytes, ij_err *err) {
  *out = NULL;
  ij_status target = check_target(path, err);
  if (target != IJ_OK) return target;
  ij_out_file *f = *out = ij__alloc_zero(1, sizeof *f);
  if (!f) return ij__fail_nomem(err, "a file writer", sizeof *f);
  f->fd = -1;
  f->n_declared = n_bytes;
  f->path = ij__strdup(path);
  ij_status s = f->path ? open_part(f, err) : ij__fail_nomem(err, "a file name", strlen(path));
  if (s != IJ_OK) close_file(out, false);
  return s;
}

ij_status ij__out_put(ij_out_file *f, const void *bytes, size_t n, ij_err *err) {
  if (n > f->n_declared - f->n_put) {
    return ij__fail(err, IJ_E_ARGUMENT, f->path, "more bytes are written than were declared (%zu bytes)", f->n_declared);
  }
  const char *p = bytes;
  while (n > 0) {
    ssize_t done = write(f->fd, p, IJ_MIN(n, (size_t)1 << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ij__fail_errno(err, errno, f->path, "cannot write");
    p += done;
    n -= (size_t)done;
    f->n_put += (size_t)done;
  }
  return IJ_OK;
}

ij_status ij__out_finish(ij_out_file **out, ij_err *err) {
  ij_out_file *f = *out;
  ij_status s = IJ_OK;
  if (f->n_put != f->n_declared) {
    s = ij__fail(err, IJ_E_ARGUMENT, f->path, "%zu of %zu declared bytes were written", f->n_put, f->n_declared);
  } else if (fsync(f->fd) != 0 && errno != EINVAL && errno != ENOTSUP) { /* some file systems have nothing to sync */
    s = ij__fail_errno(err, errno, f->path, "cannot sync");
  } else if (rename(f->part, f->path) != 0) {
    s = ij__fail_errno(err, errno, f->path, "cannot rename the finished file");
  }
  close_file(out, s != IJ_OK);
  return s;
}

ij_status ij__out_write(const char *path, const void *bytes, size_t n, ij_err *err) {
  ij_out_file *f;
  ij_status s = ij__out_open(&f, path, n, err);
  if (s != IJ_OK) return s;
  s = ij__out_put(f, bytes, n, err);
  if (s == IJ_OK) return ij__out_finish(&f, err);
  ij__out_abort(&f);
  return s;
}
