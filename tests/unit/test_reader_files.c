/* test_reader_files.c: what files, file systems and policies of the system do to a reader: a file that changes while it is open is not believed, one
 * that is replaced is read to its end, what cannot be read past the page cache is read through it, and io_uring is done without. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#endif

#include "core/alloc.h"
#include "core/memfs.h"
#include "inkjet.h"
#include "reader_kit.h"

/* --- files that change */

static void check_gone(ij_reader *r, ij_read *read, const char *says) {
  ij_err err = {0};
  read_one(r, read);
  CHECK_INT(read->status, IJ_E_IO);
  CHECK_INT(read->errnum, 0);
  CHECK_INT(ij__reader_explain(r, read, &err), IJ_E_IO);
  CHECK_HAS(err.message, says);
  CHECK_HAS(err.message, "start again");
}

static void change_files(ij_reader_kind kind, bool buffered) {
  char cut[300], touched[300], grown[300], replaced[300], other[300];
  path_in(cut, "cut");
  path_in(touched, "touched");
  path_in(grown, "grown");
  path_in(replaced, "replaced");
  path_in(other, "other");
  write_file(cut, bytes, 3 * MIB);
  write_file(touched, bytes, MIB);
  write_file(grown, bytes, MIB);
  write_file(replaced, bytes, MIB);
  write_file(other, bytes + MIB, 2 * MIB);
  ij_reader *r = open_with(&(ij_reader_options){.kind = kind, .buffered = buffered});
  char *room = make_room(SLOT_ROOM);
  ij_read read = {.file = add_file(r, cut, 3 * MIB), .offset = 2 * MIB, .n_bytes = 1000, .room = room};
  memset(room + ij__read_room(read.offset, read.n_bytes), 0x5a, IJ_READ_ALIGN);
  read_one(r, &read);
  check_read(&read);
  CHECK_INT(truncate(cut, MIB), 0);
  check_gone(r, &read, "expected a file of 3145728 bytes, as when it was opened, found 1048576: it was cut short");
  read.offset = 0; /* still there, but of which file? */
  check_gone(r, &read, "cut short");

  struct stat st;
  CHECK_INT(stat(touched, &st), 0);
  read.file = add_file(r, touched, MIB);
  read_one(r, &read);
  check_read(&read);
  struct timespec times[2] = {{0, UTIME_OMIT}, {st.st_mtime + 10, 0}};
  CHECK_INT(utimensat(AT_FDCWD, touched, times, 0), 0);
  check_gone(r, &read, "found one modified since");
  times[1] = (struct timespec){st.st_mtime, 0};
  CHECK_INT(utimensat(AT_FDCWD, touched, times, 0), 0);
  check_gone(r, &read, "found one modified since"); /* not forgotten */

  read.file = add_file(r, grown, MIB);
  CHECK_INT(truncate(grown, 2 * MIB), 0);
  check_gone(r, &read, "written to");

  read.file = add_file(r, replaced, MIB);
  CHECK_INT(rename(other, replaced), 0);
  read_one(r, &read);
  check_read(&read); /* of the file that was opened */
  CHECK_INT(add_file(r, replaced, MIB), read.file); /* also for who asks for it now */
  CHECK_INT(unlink(replaced), 0);
  read_one(r, &read);
  check_read(&read);
  ij__reader_close(&r);
  ij__os_free_pages(room, SLOT_ROOM);
}

static void a_file_that_changes_is_not_believed(void) {
  change_files(IJ_READER_POOL, false);
  change_files(IJ_READER_POOL, true);
  if (have_uring) change_files(IJ_READER_URING, false);
  if (have_uring) change_files(IJ_READER_URING, true);
}

static void only_the_file_that_was_meant_is_added(void) {
  static const ij_memfs_file in_memory[] = {{"x", "hello", 5}};
  ij_err err = {0};
  int file = 0;
  ij_reader *r = open_with(NULL);
  CHECK_INT(ij__reader_add(r, main_path, FILE_BYTES + 1, &file, &err), IJ_E_IO);
  CHECK_STR(err.where, main_path);
  CHECK_HAS(err.message, "expected a file of 6292691 bytes, as when its header was read, found 6292690");
  CHECK_INT(ij__reader_add(r, folder, 1, &file, &err), IJ_E_IO);
  CHECK_HAS(err.message, "found a folder");
  char path[300];
  path_in(path, "missing");
  CHECK_INT(ij__reader_add(r, path, 1, &file, &err), IJ_E_IO);
  CHECK_HAS(err.message, strerror(ENOENT));
  path_in(path, "pipe");
  CHECK_INT(mkfifo(path, 0600), 0);
  CHECK_INT(ij__reader_add(r, path, 0, &file, &err), IJ_E_IO); /* and does not wait for a writer */
  CHECK_HAS(err.message, "pipe");
  CHECK_OK(ij__memfs_add("builtin:reader", in_memory, 1, &err), err);
  CHECK_INT(ij__reader_add(r, "builtin:reader/x", 5, &file, &err), IJ_E_RANGE);
  CHECK_INT(add_file(r, main_path, FILE_BYTES), 0); /* none of them took a number */
  path_in(path, "other");
  write_file(path, bytes, 10);
  CHECK_INT(add_file(r, path, 10), 1);
  CHECK_INT(add_file(r, main_path, FILE_BYTES), 0); /* nor does what is open already */
  CHECK_INT(ij__reader_add(r, main_path, FILE_BYTES - 1, &file, &err), IJ_E_IO);
  unlink(path);
  ij__reader_close(&r);
  ij__reader_close(&r);
}

/* --- file systems */

static void files_in_memory_are_read_through_the_cache(void) {
  char path[] = "/dev/shm/inkjet-test-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) {
    printf("there is no /dev/shm here\n"); /* not Linux, or not for us */
    return;
  }
  close(fd);
  write_file(path, bytes, 2 * MIB);
  for (int kind = have_uring ? IJ_READER_URING : IJ_READER_POOL; kind <= IJ_READER_POOL; kind++) {
    ij_reader *r = open_with(&(ij_reader_options){.kind = (ij_reader_kind)kind});
    char *room = make_room(SLOT_ROOM);
    ij_read read = {.file = add_file(r, path, 2 * MIB), .offset = 4097, .n_bytes = 2 * MIB - 4097, .room = room};
    memset(room + ij__read_room(read.offset, read.n_bytes), 0x5a, IJ_READ_ALIGN);
    read_one(r, &read);
    check_read(&read);
    ij_reader_stats stats;
    ij__reader_get_stats(r, &stats);
#ifdef __linux__
    CHECK_INT(stats.n_buffered, 1);
#endif
    CHECK_INT(stats.n_direct + stats.n_buffered, 1);
    ij__reader_close(&r);
    ij__os_free_pages(room, SLOT_ROOM);
  }
  unlink(path);
}

#ifdef __linux__
static size_t pages_in_cache(void) {
  size_t n = FILE_BYTES / ij__os_page_size(), n_in = 0;
  unsigned char in[FILE_BYTES / 4096 + 1];
  int fd = open(main_path, O_RDONLY);
  void *map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED && mincore(map, n * ij__os_page_size(), in) == 0);
  for (size_t i = 0; i < n; i++) n_in += in[i] & 1;
  munmap(map, FILE_BYTES);
  close(fd);
  return n_in;
}

static void neither_way_leaves_the_file_in_the_cache(void) {
  char *room = make_room(7 * MIB);
  int fd = open(main_path, O_RDWR);
  CHECK_INT(fsync(fd), 0);
  CHECK_INT(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(fd);
  if (pages_in_cache() > 0) {
    printf("%s is on a file system that keeps files in memory\n", folder);
  } else {
    for (int i = 0; i < (have_uring ? 4 : 2); i++) {
      ij_reader *r = open_with(&(ij_reader_options){.kind = i / 2 ? IJ_READER_URING : IJ_READER_POOL, .buffered = i % 2});
      ij_read read = {.file = add_file(r, main_path, FILE_BYTES), .offset = 0, .n_bytes = FILE_BYTES, .room = room};
      read_one(r, &read);
      CHECK_INT(read.status, IJ_OK);
      CHECK(memcmp(read.data, bytes, FILE_BYTES) == 0);
      size_t n_in = pages_in_cache();
      if (n_in > 64) TEST_FAIL("%zu pages are in the cache (%s)", n_in, i % 2 ? "buffered" : "direct");
      ij__reader_close(&r);
    }
  }
  ij__os_free_pages(room, 7 * MIB);
}

static void what_was_written_through_the_cache_is_read_past_it(void) {
  char path[300];
  path_in(path, "dirty");
  write_file(path, bytes, MIB); /* not synced */
  ij_reader *r = open_with(NULL);
  char *room = make_room(SLOT_ROOM);
  ij_read read = {.file = add_file(r, path, MIB), .offset = 0, .n_bytes = MIB, .room = room};
  memset(room + MIB, 0x5a, IJ_READ_ALIGN);
  read_one(r, &read);
  check_read(&read);
  ij__reader_close(&r);
  ij__os_free_pages(room, SLOT_ROOM);
}
#endif

/* --- which way */

static void auto_takes_io_uring_where_it_may(void) {
  ij_reader *r = open_with(NULL);
  ij_reader_stats stats;
  ij__reader_get_stats(r, &stats);
  CHECK_STR(stats.kind, have_uring ? "io_uring" : "pread threads");
  ij__reader_close(&r);
}

#ifdef __linux__
/* From now on, in all threads of this process, a call fails as if it were forbidden. */
static bool forbid(unsigned call) {
  struct sock_filter program[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog whole = {.len = IJ_COUNT_OF(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &whole) == 0;
}

static void uring_is_refused(void) {
  ij_reader *r = NULL;
  ij_err err = {0};
  CHECK(forbid(__NR_io_uring_setup));
  have_uring = false;
  CHECK_INT(ij__reader_open(&r, &(ij_reader_options){.kind = IJ_READER_URING}, &err), IJ_E_UNSUPPORTED);
  CHECK_STR(err.where, "io_uring");
  CHECK_HAS(err.message, strerror(EPERM));
  CHECK(r == NULL);
  char *room = make_room(SLOT_ROOM);
  r = open_with(NULL);
  ij_read read = {.file = add_file(r, main_path, FILE_BYTES), .offset = 10, .n_bytes = 3 * MIB, .room = room};
  memset(room + ij__read_room(read.offset, read.n_bytes), 0x5a, IJ_READ_ALIGN);
  read_one(r, &read);
  check_read(&read);
  ij__reader_close(&r);
  auto_takes_io_uring_where_it_may();
}

/* The ring is there, but no longer to be used. */
static void uring_is_lost(void) {
  ij_reader *r = open_with(&(ij_reader_options){.kind = IJ_READER_URING, .depth = 2});
  char *room = make_room(SLOT_ROOM);
  ij_read read = {.file = add_file(r, main_path, FILE_BYTES), .offset = 0, .n_bytes = 3 * MIB, .room = room};
  memset(room + 3 * MIB, 0x5a, IJ_READ_ALIGN);
  read_one(r, &read);
  check_read(&read);
  CHECK(forbid(__NR_io_uring_enter));
  for (int i = 0; i < 3; i++) {
    read_one(r, &read);
    CHECK_INT(read.status, IJ_E_IO);
    CHECK_INT(read.errnum, EPERM);
    ij_err err;
    CHECK_INT(ij__reader_explain(r, &read, &err), IJ_E_IO);
    CHECK_HAS(err.message, "a policy of this system");
  }
  ij__reader_submit(r, &read);
  ij__reader_close(&r);
}

/* In a child, because a filter is for ever. */
static void run_in_child(void (*test)(void)) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    test_failures = 0;
    test();
    fflush(stdout);
    _exit(test_failures ? 1 : 0);
  }
  int how = 0;
  CHECK(waitpid(child, &how, 0) == child);
  CHECK(WIFEXITED(how));
  CHECK_INT(WEXITSTATUS(how), 0);
}

/* With one descriptor left, a file must not become a slow one without a word. */
static void descriptors_run_out(void) {
  ij_reader *r = open_with(&(ij_reader_options){.kind = IJ_READER_POOL, .depth = 1});
  ij_reader *buffered = open_with(&(ij_reader_options){.kind = IJ_READER_POOL, .depth = 1, .buffered = true});
  int file = -1, next = dup(0);
  ij_err err = {0};
  close(next);
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next + 1, (rlim_t)next + 1}), 0);
  CHECK_INT(ij__reader_add(r, main_path, FILE_BYTES, &file, &err), IJ_E_IO);
  CHECK_HAS(err.message, strerror(EMFILE));
  CHECK_INT(add_file(buffered, main_path, FILE_BYTES), 0); /* needs one */
  CHECK_INT(add_file(buffered, main_path, FILE_BYTES), 0); /* and none again */
  CHECK_INT(ij__reader_add(r, main_path, FILE_BYTES, &file, &err), IJ_E_IO);
  CHECK_HAS(err.message, "cannot open the file (ulimit -n allows more): ");
  ij__reader_close(&r);
  ij__reader_close(&buffered);
}

static void want_of_descriptors_is_an_error(void) {
  if (have_direct) run_in_child(descriptors_run_out);
}

static void a_policy_against_io_uring_leaves_the_pool(void) {
  if (have_uring) run_in_child(uring_is_refused); /* else auto_takes_io_uring_where_it_may sees the fallback */
}

static void a_policy_after_opening_is_an_error(void) {
  if (have_uring) run_in_child(uring_is_lost);
}
#endif

#define FIXTURES "tests/fixtures/"

static void the_drive_under_a_checkpoint_is_measured(void) {
  static const char *const good[] = {FIXTURES "nano-mlx4", FIXTURES "gguf-split"};
  ij_err err = {0};
  double rate = 0;
  for (size_t i = 0; i < IJ_COUNT_OF(good); i++) {
    CHECK_OK(ij_measure_drive(good[i], 0.01, &rate, &err), err);
    CHECK(rate > 0);
  }
  CHECK_INT(ij_measure_drive(FIXTURES "nano-mlx4", 0, &rate, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_measure_drive(FIXTURES "nano-mlx4", (double)NAN, &rate, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_measure_drive(NULL, 1, &rate, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_measure_drive(folder, 1, &rate, &err), IJ_E_IO); /* no checkpoint */
  char *model = NULL;
  size_t n = 0;
  CHECK_OK(ij__os_read_file(FIXTURES "gguf-iq1_s/k256-IQ1_S.gguf", 64 * MIB, &model, &n, &err), err);
  const ij_memory_file in_memory[] = {{"model.gguf", model, n}};
  CHECK_OK(ij_add_memory_folder("builtin:drive", in_memory, 1, &err), err);
  CHECK_INT(ij_measure_drive("builtin:drive", 1, &rate, &err), IJ_E_RANGE);
  CHECK_HAS(err.message, "in memory");
  ij__free(model);
}

int main(void) {
  if (!make_files()) return 1;
  look_around();
#ifdef __linux__
  RUN(a_policy_against_io_uring_leaves_the_pool);
  RUN(a_policy_after_opening_is_an_error);
  RUN(want_of_descriptors_is_an_error);
#endif
  RUN(a_file_that_changes_is_not_believed);
  RUN(only_the_file_that_was_meant_is_added);
  RUN(files_in_memory_are_read_through_the_cache);
#ifdef __linux__
  RUN(neither_way_leaves_the_file_in_the_cache);
  RUN(what_was_written_through_the_cache_is_read_past_it);
#endif
  RUN(auto_takes_io_uring_where_it_may);
  RUN(the_drive_under_a_checkpoint_is_measured);
  remove_files();
  return test_report();
}
