/* os_posix.c: os.h for Linux and macOS. */
#define _GNU_SOURCE
#include "core/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/memfs.h"
#include "core/str.h"

#if defined(__APPLE__)
#define MTIME(st) (st).st_mtimespec
#else
#define MTIME(st) (st).st_mtim
#endif

static ij_file_id id_of(const struct stat *st) {
  return (ij_file_id){(uint64_t)st->st_dev, (uint64_t)st->st_ino, (int64_t)MTIME(*st).tv_sec, (int64_t)MTIME(*st).tv_nsec};
}

/* Opens a regular file; *n_bytes is its size. A folder, device or pipe is refused here, before anybody reads it. */
static ij_status open_regular(const char *path, int *fd, size_t *n_bytes, ij_file_id *id, ij_err *err) {
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0) return ij__fail_errno(err, errno, path, "cannot open the file");
  struct stat st;
  ij_status s = IJ_OK;
  if (fstat(*fd, &st) != 0) {
    s = ij__fail_errno(err, errno, path, "cannot stat the file");
  } else if (!S_ISREG(st.st_mode)) {
    s = ij__fail(err, IJ_E_IO, path, "expected a regular file, found a %s", S_ISDIR(st.st_mode) ? "folder" : "device or pipe");
  } else if ((uint64_t)st.st_size > SIZE_MAX) {
    s = ij__fail(err, IJ_E_IO, path, "the file is larger than this system can address");
  }
  if (s != IJ_OK) {
    close(*fd);
    return s;
  }
  *n_bytes = (size_t)st.st_size;
  if (id) *id = id_of(&st);
  return IJ_OK;
}

/* ulimit -v counts what is mapped as if it were memory, which it is not: who set it may not know. */
static ij_status fail_map(int errnum, const char *path, size_t n_bytes, ij_err *err) {
  struct rlimit l;
  if (errnum != ENOMEM || getrlimit(RLIMIT_AS, &l) != 0 || l.rlim_cur == RLIM_INFINITY) return ij__fail_errno(err, errnum, path, "cannot map the file");
  return ij__fail(err, IJ_E_NOMEM, path, "cannot map the file: that takes %zu bytes of addresses, though not of memory, and the limit of this process (ulimit -v) is "
                  "%llu bytes for everything: raise it, and bound memory by --mem or a control group", n_bytes, (unsigned long long)l.rlim_cur);
}

ij_status ij__os_map_file(const char *path, ij_file_map *out, ij_err *err) {
  int fd;
  *out = (ij_file_map){0};
  const ij_memfs_file *mem = ij__memfs_find(path);
  if (mem) {
    *out = (ij_file_map){.data = mem->bytes, .n_bytes = mem->n_bytes, .in_memory = true};
    return IJ_OK;
  }
  ij_status s = open_regular(path, &fd, &out->n_bytes, &out->id, err);
  if (s != IJ_OK) return s;
  if (out->n_bytes > 0) {
    void *p = mmap(NULL, out->n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
      s = fail_map(errno, path, out->n_bytes, err);
      out->n_bytes = 0;
    } else {
      out->data = p;
    }
  }
  close(fd);
  return s;
}

ij_status ij__os_check_map(const char *path, const ij_file_map *map, ij_err *err) {
  struct stat st;
  if (map->in_memory) return IJ_OK;
  if (stat(path, &st) != 0) return ij__fail_errno(err, errno, path, "cannot stat the file");
  ij_file_id now = id_of(&st);
  if (now.device == map->id.device && now.inode == map->id.inode && now.mtime_s == map->id.mtime_s && now.mtime_ns == map->id.mtime_ns) return IJ_OK;
  return ij__fail(err, IJ_E_IO, path, "expected the file whose header was read, found another one, or one that was written to since: start again when it is complete");
}

void ij__os_unmap(ij_file_map *map) {
  if (map->data && !map->in_memory) munmap((void *)(uintptr_t)map->data, map->n_bytes);
  *map = (ij_file_map){0};
}

static ij_status read_all(int fd, const char *path, char *buf, size_t n, ij_err *err) {
  for (size_t done = 0; done < n;) {
    ssize_t got = read(fd, buf + done, n - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ij__fail_errno(err, errno, path, "cannot read the file");
    if (got == 0) return ij__fail(err, IJ_E_IO, path, "the file ended after %zu of %zu bytes (did it shrink?)", done, n);
    done += (size_t)got;
  }
  return IJ_OK;
}

/* Room for n bytes of a file and a NUL, or why there is none. */
static ij_status file_buffer(const char *path, size_t n, size_t max_bytes, char **buf, ij_err *err) {
  if (n > max_bytes) return ij__fail(err, IJ_E_FORMAT, path, "the file has %zu bytes; at most %zu are accepted here", n, max_bytes);
  *buf = ij__alloc(n + 1);
  if (!*buf) return ij__fail_nomem(err, path, n + 1);
  (*buf)[n] = 0;
  return IJ_OK;
}

ij_status ij__os_read_file(const char *path, size_t max_bytes, char **out, size_t *n_bytes, ij_err *err) {
  int fd = -1;
  size_t n = 0;
  *out = NULL;
  const ij_memfs_file *mem = ij__memfs_find(path);
  ij_status s = IJ_OK;
  if (mem) n = mem->n_bytes;
  else s = open_regular(path, &fd, &n, NULL, err);
  if (s != IJ_OK) return s;
  char *buf = NULL;
  s = file_buffer(path, n, max_bytes, &buf, err);
  if (s == IJ_OK && mem && n) memcpy(buf, mem->bytes, n);
  if (s == IJ_OK && !mem) s = read_all(fd, path, buf, n, err);
  if (fd >= 0) close(fd);
  if (s != IJ_OK) {
    ij__free(buf);
    return s;
  }
  *out = buf;
  *n_bytes = n;
  return IJ_OK;
}

bool ij__os_is_dir(const char *path) {
  struct stat st;
  return ij__memfs_is_dir(path) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

bool ij__os_is_file(const char *path) {
  struct stat st;
  return ij__memfs_find(path) || (stat(path, &st) == 0 && S_ISREG(st.st_mode));
}

char *ij__os_join(const char *folder, const char *name) {
  ij_buf b = {0};
  ij__buf_puts(&b, folder);
  if (b.len && b.data[b.len - 1] != '/') ij__buf_puts(&b, "/");
  ij__buf_puts(&b, name);
  if (b.failed) ij__buf_free(&b);
  return b.data;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Appends one name to the list when it is a regular file with the suffix. False: no memory. */
static bool keep_name(const char *folder, const char *name, const char *suffix, char ***names, int *n, int *cap) {
  if (!ij__str_ends_with(name, suffix)) return true;
  char *path = ij__os_join(folder, name);
  if (!path) return false;
  bool regular = ij__os_is_file(path);
  ij__free(path);
  if (!regular) return true;
  if (*n == *cap) {
    int bigger = *cap ? *cap * 2 : 16;
    char **p = ij__realloc(*names, (size_t)bigger * sizeof *p);
    if (!p) return false;
    *names = p;
    *cap = bigger;
  }
  char *copy = ij__strdup(name);
  if (!copy) return false;
  (*names)[(*n)++] = copy;
  return true;
}

ij_status ij__os_list_dir(const char *path, const char *suffix, char ***names, int *n, ij_err *err) {
  *names = NULL;
  *n = 0;
  int cap = 0, n_mem = 0;
  bool ok = true;
  const ij_memfs_file *mem = ij__memfs_list(path, &n_mem);
  DIR *dir = mem ? NULL : opendir(path);
  if (!mem && !dir) return ij__fail_errno(err, errno, path, "cannot read the folder");
  for (int i = 0; ok && i < n_mem; i++) ok = keep_name(path, mem[i].name, suffix, names, n, &cap);
  for (struct dirent *e; ok && dir && (e = readdir(dir));) ok = keep_name(path, e->d_name, suffix, names, n, &cap);
  if (dir) closedir(dir);
  if (!ok) {
    ij__os_free_names(*names, *n);
    *names = NULL;
    *n = 0;
    return ij__fail_nomem(err, path, 0);
  }
  if (*n) qsort(*names, (size_t)*n, sizeof **names, compare_names);
  return IJ_OK;
}

void ij__os_free_names(char **names, int n) {
  for (int i = 0; i < n; i++) ij__free(names[i]);
  ij__free(names);
}

void *ij__os_pages(size_t n_bytes) {
  if (ij__alloc_refused()) return NULL;
  void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void ij__os_free_pages(void *p, size_t n_bytes) {
  if (p) munmap(p, n_bytes);
}

void ij__os_advise(const void *p, size_t n_bytes, ij_advice advice) {
  uintptr_t page = ij__os_page_size(), from = (uintptr_t)p, to = from + n_bytes;
  if (advice == IJ_ADVICE_FORGET) { /* a page that others need too stays */
    from = (from + page - 1) / page * page;
    to = to / page * page;
  } else {
    from = from / page * page;
  }
  if (!p || from >= to) return;
  int what = advice == IJ_ADVICE_SOON ? MADV_WILLNEED : advice == IJ_ADVICE_RANDOM ? MADV_RANDOM : advice == IJ_ADVICE_USUAL ? MADV_NORMAL : MADV_DONTNEED;
#if defined(MADV_HUGEPAGE)
  if (advice == IJ_ADVICE_HUGE) what = MADV_HUGEPAGE;
#else
  if (advice == IJ_ADVICE_HUGE) return;
#endif
  madvise((void *)from, to - from, what);
}

/* Where pages are small this makes one of them in five hundred, and leaves the rest to who fills them. */
void ij__os_touch(void *p, size_t n_bytes) {
  const uintptr_t large = (uintptr_t)2 << 20;
  uintptr_t end = (uintptr_t)p + n_bytes;
  for (uintptr_t at = (uintptr_t)p; at < end; at = (at / large + 1) * large) *(volatile char *)at = 0;
}

bool ij__os_lock(void *p, size_t n_bytes) { return mlock(p, n_bytes) == 0; }

size_t ij__os_page_size(void) {
  long n = sysconf(_SC_PAGESIZE);
  return n > 0 ? (size_t)n : 4096;
}

double ij__os_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t ij__os_memory_total(void) {
  long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? (uint64_t)pages * ij__os_page_size() : 0;
}

uint64_t ij__os_memory_available(void) {
  uint64_t kib = 0;
  FILE *f = fopen("/proc/meminfo", "re");
  if (!f) return 0; /* not Linux */
  char line[256];
  while (fgets(line, sizeof line, f)) {
    unsigned long long v;
    if (sscanf(line, "MemAvailable: %llu kB", &v) == 1) kib = v;
  }
  fclose(f);
  return kib * 1024;
}
