/* reader_kit.h: a file of known bytes, what this machine lets a reader do with it, and one read at a time, for the tests of readers. */
#ifndef IJ_TESTS_READER_KIT_H
#define IJ_TESTS_READER_KIT_H

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/os.h"
#include "io/reader.h"
#include "temp_folder.h"
#include "test.h"

#define MIB ((size_t)1 << 20)
#define FILE_BYTES (6 * MIB + 1234)
#define SLOT_ROOM (3 * MIB + 2 * IJ_READ_ALIGN)

static char folder[256], main_path[300];
static char *bytes; /* what is in the file at main_path */
static bool have_uring, have_direct;

static inline void path_in(char out[300], const char *name) { snprintf(out, 300, "%.250s/%.40s", folder, name); }

static inline void write_file(const char *path, const char *data, size_t n) {
  int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  for (size_t at = 0; fd >= 0 && at < n;) {
    ssize_t k = write(fd, data + at, n - at);
    if (k <= 0) break;
    at += (size_t)k;
  }
  struct stat st;
  CHECK(fd >= 0 && fstat(fd, &st) == 0 && (size_t)st.st_size == n);
  if (fd >= 0) close(fd);
}

static inline char *make_room(size_t n_bytes) {
  char *p = ij__os_pages(n_bytes);
  if (!p) exit(1);
  return p;
}

static inline ij_reader *open_with(const ij_reader_options *o) {
  ij_err err = {0};
  ij_reader *r = NULL;
  CHECK_OK(ij__reader_open(&r, o, &err), err);
  if (!r) exit(1);
  return r;
}

static inline int add_file(ij_reader *r, const char *path, size_t n) {
  ij_err err = {0};
  int file = -1;
  CHECK_OK(ij__reader_add(r, path, n, &file, &err), err);
  return file;
}

static inline void nap_ms(int ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL); }

/* Submits one read and waits for it. */
static inline void read_one(ij_reader *r, ij_read *read) {
  ij_read *back = NULL;
  ij__reader_submit(r, read);
  CHECK_INT(ij__reader_wait(r, &back, 1, true), 1);
  CHECK(back == read);
}

/* The bytes of the file, and the unit after its room as it was: filled with 0x5a. */
static inline void check_read(const ij_read *read) {
  const char *after = read->room + ij__read_room(read->offset, read->n_bytes);
  CHECK_INT(read->status, IJ_OK);
  CHECK(read->data == read->room + read->offset % IJ_READ_ALIGN);
  if (read->status == IJ_OK && memcmp(read->data, bytes + read->offset, read->n_bytes) != 0)
    TEST_FAIL("%zu bytes at %llu are not those of the file", read->n_bytes, (unsigned long long)read->offset);
  bool kept = true;
  for (size_t i = 0; i < IJ_READ_ALIGN; i++) kept = kept && after[i] == 0x5a;
  CHECK(kept);
}

static inline bool make_files(void) {
  if (!make_temp_folder(folder, sizeof folder)) return false;
  path_in(main_path, "main");
  bytes = make_room(FILE_BYTES);
  uint64_t seed = 5;
  for (size_t i = 0; i + 8 <= FILE_BYTES; i += 8) {
    uint64_t x = test_random(&seed);
    memcpy(bytes + i, &x, 8);
  }
  write_file(main_path, bytes, FILE_BYTES);
  return test_failures == 0;
}

static inline void look_around(void) {
  ij_reader *r = NULL;
  ij_err err = {0};
  have_uring = ij__reader_open(&r, &(ij_reader_options){.kind = IJ_READER_URING}, &err) == IJ_OK;
  if (!have_uring) {
    CHECK_INT(err.code, IJ_E_UNSUPPORTED);
    CHECK_STR(err.where, "io_uring");
    printf("the pool alone is tested: %s\n", err.message);
  }
  ij__reader_close(&r);
  r = open_with(NULL);
  add_file(r, main_path, FILE_BYTES);
  ij_reader_stats stats;
  ij__reader_get_stats(r, &stats);
  have_direct = stats.n_direct == 1;
  if (!have_direct) printf("%s takes no direct reads: they are not tested\n", folder);
  ij__reader_close(&r);
}

static inline void remove_files(void) {
  static const char *const names[] = {"main", "cut", "touched", "grown", "other", "pipe", "dirty", "empty"};
  char path[300];
  for (size_t i = 0; i < IJ_COUNT_OF(names); i++) {
    path_in(path, names[i]);
    unlink(path);
  }
  if (rmdir(folder) != 0) printf("%s is left behind\n", folder);
}

#endif
