/* st_writer.c: header, values, sync, rename. Values are written as they lie in memory: all supported hosts are little endian. */
#include "tools/st_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/str.h"

struct ij_st_writer {
  int fd;
  char *path, *part;
  size_t n_declared, n_put; /* bytes of values */
};

size_t ij__st_tensor_bytes(const ij_st_tensor *t) {
  size_t n = (size_t)ij__dtype_block_bytes(t->dtype);
  for (int i = 0; i < t->n_dims; i++) n *= (size_t)t->dims[i];
  return n;
}

char *ij__st_part_path(const char *path) {
  ij_buf b = {0};
  ij__buf_printf(&b, "%s.part-%ld", path, (long)getpid());
  if (!b.failed) return b.data;
  ij__buf_free(&b);
  return NULL;
}

static ij_status write_all(int fd, const char *path, const void *bytes, size_t n, ij_err *err) {
  const char *p = bytes;
  while (n > 0) {
    ssize_t done = write(fd, p, IJ_MIN(n, (size_t)1 << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ij__fail_errno(err, errno, path, "cannot write");
    p += done;
    n -= (size_t)done;
  }
  return IJ_OK;
}

static void close_writer(ij_st_writer **w, bool remove) {
  if (!*w) return;
  if ((*w)->fd >= 0) {
    close((*w)->fd);
    if (remove) unlink((*w)->part);
  }
  ij__free((*w)->path);
  ij__free((*w)->part);
  ij__free(*w);
  *w = NULL;
}

void ij__st_writer_abort(ij_st_writer **w) { close_writer(w, true); }

static ij_status open_part(ij_st_writer **out, const char *path, ij_err *err) {
  ij_st_writer *w = *out = ij__alloc_zero(1, sizeof *w);
  if (!w) return ij__fail_nomem(err, "a file writer", sizeof *w);
  w->fd = -1;
  w->path = ij__strdup(path);
  w->part = ij__st_part_path(path);
  if (!w->path || !w->part) {
    close_writer(out, false);
    return ij__fail_nomem(err, "a file name", strlen(path));
  }
  w->fd = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (w->fd < 0) {
    int number = errno;
    close_writer(out, false);
    return ij__fail_errno(err, number, path, "cannot create the file");
  }
  return IJ_OK;
}

/* The JSON header, padded with blanks so that the values start at a multiple of 64 in the file. Names are our own: no escapes. */
static void build_header(ij_buf *b, const ij_st_tensor *tensors, int n, size_t *n_bytes) {
  size_t at = 0;
  ij__buf_puts(b, "{");
  for (int i = 0; i < n; i++) {
    const ij_st_tensor *t = &tensors[i];
    size_t end = at + ij__st_tensor_bytes(t);
    ij__buf_printf(b, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", t->name, ij__dtype_name(t->dtype));
    for (int d = 0; d < t->n_dims; d++) ij__buf_printf(b, "%s%lld", d ? "," : "", (long long)t->dims[d]);
    ij__buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", at, end);
    at = end;
  }
  ij__buf_puts(b, "}");
  while (!b->failed && (b->len + 8) % 64 != 0) ij__buf_puts(b, " ");
  *n_bytes = at;
}

ij_status ij__st_writer_open(ij_st_writer **out, const char *path, const ij_st_tensor *tensors, int n, ij_err *err) {
  *out = NULL;
  ij_buf header = {0};
  size_t n_bytes = 0;
  build_header(&header, tensors, n, &n_bytes);
  if (header.failed) {
    ij__buf_free(&header);
    return ij__fail_nomem(err, "a safetensors header", (size_t)n * 128);
  }
  ij_status s = open_part(out, path, err);
  if (s == IJ_OK) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
    (*out)->n_declared = n_bytes;
    s = write_all((*out)->fd, path, length, sizeof length, err);
    if (s == IJ_OK) s = write_all((*out)->fd, path, header.data, header.len, err);
    if (s != IJ_OK) close_writer(out, true);
  }
  ij__buf_free(&header);
  return s;
}

ij_status ij__st_writer_put(ij_st_writer *w, const void *bytes, size_t n, ij_err *err) {
  if (n > w->n_declared - w->n_put) {
    return ij__fail(err, IJ_E_ARGUMENT, w->path, "more values are written than were declared (%zu bytes)", w->n_declared);
  }
  w->n_put += n;
  return write_all(w->fd, w->path, bytes, n, err);
}

ij_status ij__st_writer_finish(ij_st_writer **out, ij_err *err) {
  ij_st_writer *w = *out;
  ij_status s = IJ_OK;
  if (w->n_put != w->n_declared) {
    s = ij__fail(err, IJ_E_ARGUMENT, w->path, "%zu of %zu declared bytes were written", w->n_put, w->n_declared);
  } else if (fsync(w->fd) != 0 && errno != EINVAL && errno != ENOTSUP) { /* some file systems have nothing to sync */
    s = ij__fail_errno(err, errno, w->path, "cannot sync");
  } else if (rename(w->part, w->path) != 0) {
    s = ij__fail_errno(err, errno, w->path, "cannot rename the finished file");
  }
  close_writer(out, s != IJ_OK);
  return s;
}

ij_status ij__st_write_text(const char *path, const char *text, size_t n, ij_err *err) {
  ij_st_writer *w;
  ij_status s = open_part(&w, path, err);
  if (s != IJ_OK) return s;
  w->n_declared = n;
  s = ij__st_writer_put(w, text, n, err);
  if (s == IJ_OK) return ij__st_writer_finish(&w, err);
  ij__st_writer_abort(&w);
  return s;
}
