/* bench_tok.c: how fast the tokenizer loads and encodes. bench_tok VOCABULARY TEXT [SECONDS]
 *
 * Prints the best and the median of repeated runs over the whole text, on one thread, in processor time: what else runs on the machine
 * then matters little.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/alloc.h"
#include "core/os.h"
#include "text/tok.h"

static int compare_double(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static int fail(const ij_err *err) {
  fprintf(stderr, "%s: %s\n", err->where, err->message);
  return 1;
}

int main(int argc, char **argv) {
  enum { MAX_RUNS = 1000, LOADS = 7 };
  static double times[MAX_RUNS];
  if (argc < 3) return fputs("usage: bench_tok VOCABULARY TEXT [SECONDS]\n", stderr), 2;
  double limit = argc > 3 ? atof(argv[3]) : 2;
  ij_tok *t = NULL;
  ij_err err;
  for (int i = 0; i < LOADS; i++) {
    ij__tok_close(&t);
    double start = cpu_seconds();
    if (ij__tok_open(&t, argv[1], &err) != IJ_OK) return fail(&err);
    times[i] = cpu_seconds() - start;
  }
  qsort(times, LOADS, sizeof *times, compare_double);
  printf("load     %8.3f s best, %.3f s median of %d\n", times[0], times[LOADS / 2], LOADS);
  char *text = NULL;
  size_t n = 0, n_ids = 0;
  if (ij__os_read_file(argv[2], (size_t)1 << 31, &text, &n, &err) != IJ_OK) return fail(&err);
  int32_t *ids = ij__alloc_array(n + 1, sizeof *ids);
  if (!ids) return 1;
  int runs = 0;
  for (double spent = 0; runs < MAX_RUNS && (spent < limit || runs < 3); runs++) {
    double start = cpu_seconds();
    if (ij__tok_encode(t, text, n, false, ids, n, &n_ids, &err) != IJ_OK) return fail(&err);
    spent += times[runs] = cpu_seconds() - start;
  }
  qsort(times, (size_t)runs, sizeof *times, compare_double);
  printf("encode   %8.1f MB/s best, %.1f MB/s median of %d; %zu bytes, %zu ids, %.2f bytes per id\n", (double)n / times[0] / 1e6,
         (double)n / times[runs / 2] / 1e6, runs, n, n_ids, (double)n / (double)(n_ids ? n_ids : 1));
  ij__free(ids);
  ij__free(text);
  ij__tok_close(&t);
  return 0;
}
