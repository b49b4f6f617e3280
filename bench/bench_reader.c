/* bench_reader.c: what a reader gets out of a drive, beside the drive's own sequential rate. bench_reader [-s SECONDS] [-d DEPTH] [-b] [-p] FILE
 *
 * Per way (io_uring, pread threads) and depth: the rate that ij__reader_measure finds, then reads of the size of experts, six at a time (what a
 * layer asks for), one after the other and at random places. Each line is the mean over about SECONDS (2). The measured rate is taken before
 * and after, because drives and their neighbours change: the share is of the mean of both. The file should be much larger than what a drive
 * caches. -d: only this depth. -b: through the page cache, which is emptied of the file before each line.
 * -p: into ordinary pages instead of huge ones, which cost the kernel a fifth of the processor time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/os.h"
#include "io/reader.h"

#define MIB ((size_t)1 << 20)
#define AT_ONCE 6
#define LARGEST (16 * MIB)

static const char *path;
static uint64_t file_bytes;
static double seconds = 2;
static bool buffered, plain_pages;

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int fail(const ij_err *err) {
  fprintf(stderr, "%s: %s\n", err->where, err->message);
  return 1;
}

static void empty_cache(void) {
#ifdef POSIX_FADV_DONTNEED
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
#endif
}

/* Offsets are not aligned: tensors lie where they lie. */
static uint64_t place(bool random, uint64_t *state, size_t n) {
  if (random) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 16) % (file_bytes - n);
  }
  uint64_t at = *state;
  if (at + n > file_bytes) at = 0;
  *state = at + n;
  return at;
}

/* Bytes asked for per second; <= 0: an error, which is printed. */
static double run_reads(ij_reader *r, int file, char *room, size_t n, bool random) {
  ij_read reads[AT_ONCE] = {0}, *done[AT_ONCE];
  uint64_t state = 1;
  double start = ij__os_seconds(), t = 0, sum = 0;
  int n_out = 0;
  for (int i = 0; i < AT_ONCE; i++) done[i] = &reads[i];
  for (int n_done = AT_ONCE; n_done > 0 || n_out > 0;) {
    for (int i = 0; i < n_done; i++) {
      if (t >= seconds) continue;
      char *to = room + (size_t)(done[i] - reads) * ij__read_room_max(LARGEST);
      *done[i] = (ij_read){.file = file, .offset = place(random, &state, n), .n_bytes = n, .room = to};
      ij__reader_submit(r, done[i]);
      n_out++;
    }
    n_done = ij__reader_wait(r, done, AT_ONCE, true);
    n_out -= n_done;
    t = ij__os_seconds() - start;
    for (int i = 0; i < n_done; i++) {
      ij_err err;
      if (ij__reader_explain(r, done[i], &err) != IJ_OK) return fail(&err), -1;
      sum += (double)n;
    }
  }
  return sum / t;
}

static int bench(ij_reader_kind kind, int depth, char *room) {
  static const size_t sizes[] = {2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB};
  ij_err err;
  ij_reader *r = NULL;
  int file;
  double before, after, rate[8], cpu = 0, total = 0;
  if (ij__reader_open(&r, &(ij_reader_options){.kind = kind, .depth = depth, .buffered = buffered}, &err) != IJ_OK) return fail(&err);
  if (ij__reader_add(r, path, file_bytes, &file, &err) != IJ_OK) return fail(&err);
  empty_cache();
  if (ij__reader_measure(r, file, seconds, &before, &err) != IJ_OK) return fail(&err);
  for (int i = 0; i < 8; i++) {
    empty_cache();
    double c = cpu_seconds(), t = ij__os_seconds();
    rate[i] = run_reads(r, file, room, sizes[i % 4], i >= 4);
    if (rate[i] <= 0) return 1;
    cpu += cpu_seconds() - c;
    total += rate[i] * (ij__os_seconds() - t);
  }
  empty_cache();
  if (ij__reader_measure(r, file, seconds, &after, &err) != IJ_OK) return fail(&err);
  ij_reader_stats stats;
  ij__reader_get_stats(r, &stats);
  double base = (before + after) / 2;
  printf("%-13s %s depth %3d  measured %6.0f, %6.0f MB/s", stats.kind, stats.n_direct ? "direct  " : "buffered", depth, before / 1e6, after / 1e6);
  for (int i = 0; i < 8; i++) printf("%s%5.0f (%3.0f %%)", i == 0 ? "  in order " : i == 4 ? "  random " : " ", rate[i] / 1e6, 100 * rate[i] / base);
  printf("  %.0f ms of processor per GB\n", 1e12 * cpu / total);
  ij__reader_close(&r);
  return 0;
}

int main(int argc, char **argv) {
  static const int depths[] = {2, 4, 8, 16, 32, 64};
  int depth = 0, rc = 0, option;
  while ((option = getopt(argc, argv, "s:d:bp")) != -1) {
    if (option == 's') seconds = atof(optarg);
    else if (option == 'd') depth = atoi(optarg);
    else if (option == 'b') buffered = true;
    else if (option == 'p') plain_pages = true;
    else argc = 0;
  }
  if (argc != optind + 1) return fputs("usage: bench_reader [-s SECONDS] [-d DEPTH] [-b] [-p] FILE\n", stderr), 2;
  path = argv[optind];
  struct stat st;
  if (stat(path, &st) != 0 || (uint64_t)st.st_size < 2 * LARGEST) return fprintf(stderr, "%s: expected a file of 32 MiB or more\n", path), 2;
  file_bytes = (uint64_t)st.st_size;
  char *room = ij__os_pages(AT_ONCE * ij__read_room_max(LARGEST));
  if (!room) return 1;
  if (!plain_pages) ij__os_advise(room, AT_ONCE * ij__read_room_max(LARGEST), IJ_ADVICE_HUGE);
  memset(room, 1, AT_ONCE * ij__read_room_max(LARGEST));
  printf("%d reads at a time of 2, 4, 8, 16 MiB of %s, %.1f GB\n", AT_ONCE, path, (double)file_bytes / 1e9);
  for (size_t i = 0; i < sizeof depths / sizeof *depths && rc == 0; i++) {
    if (depth && i > 0) break;
    rc = bench(IJ_READER_URING, depth ? depth : depths[i], room) | bench(IJ_READER_POOL, depth ? depth : depths[i], room);
    fflush(stdout);
  }
  return rc;
}
