/* bench_matmul.c: how much of this machine the matrix product uses.
 *
 * Few tokens: bytes of weights per second as a share of what read_stream reads from the same memory with the same threads. Many
 * tokens: multiply-adds per second as a share of fma_peak. Machines are shared and their clocks move, so each figure is the median
 * of ratios whose two sides were measured alternately, a few milliseconds apart.
 * Usage: bench_matmul [--level WORD] [--threads N] [--megabytes N] [--only memory|compute] [--rounds N] [--n N] [--k N] [--type T]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/pool.h"
#include "kernels/kernels.h"

enum { MAX_THREADS = 64, MAX_ROUNDS = 101, MAX_TOKENS = 512, MAX_K = 8192, PEAK_CHUNKS = 16 };

typedef struct shape {
  ij_dtype type;
  int64_t n, k, rows;
  int64_t interleave; /* rows are this many row lengths apart */
  int64_t grain;      /* rows handed to a thread at a time */
} shape;

static const shape memory_shapes[] = {
    {IJ_DTYPE_BF16, 1, 2048, 0, 1, 64},  {IJ_DTYPE_BF16, 1, 2048, 0, 2, 64}, {IJ_DTYPE_BF16, 1, 512, 0, 1, 128},
    {IJ_DTYPE_BF16, 1, 8192, 0, 1, 16},  {IJ_DTYPE_F16, 1, 2048, 0, 1, 64},  {IJ_DTYPE_F32, 1, 2048, 0, 1, 64},
    {IJ_DTYPE_BF16, 2, 2048, 0, 1, 64},  {IJ_DTYPE_BF16, 3, 2048, 0, 1, 64}, {IJ_DTYPE_BF16, 4, 2048, 0, 1, 64},
    {IJ_DTYPE_BF16, 6, 2048, 0, 1, 64},  {IJ_DTYPE_BF16, 8, 2048, 0, 1, 64}, {IJ_DTYPE_F32, 8, 2048, 0, 1, 64},
};

static const shape compute_shapes[] = {
    {IJ_DTYPE_BF16, 512, 2048, 2048, 1, 128}, {IJ_DTYPE_BF16, 512, 1024, 2048, 1, 128}, {IJ_DTYPE_BF16, 512, 512, 2048, 1, 128},
    {IJ_DTYPE_BF16, 512, 4096, 2048, 1, 128}, {IJ_DTYPE_BF16, 512, 8192, 1024, 1, 128}, {IJ_DTYPE_BF16, 128, 2048, 2048, 1, 128},
    {IJ_DTYPE_F16, 512, 2048, 2048, 1, 128},  {IJ_DTYPE_F32, 512, 2048, 2048, 1, 128},  {IJ_DTYPE_F32, 512, 1024, 2048, 1, 128},
    {IJ_DTYPE_F32, 512, 512, 2048, 1, 128},   {IJ_DTYPE_F32, 512, 4096, 2048, 1, 128},  {IJ_DTYPE_F32, 512, 8192, 1024, 1, 128},
    {IJ_DTYPE_BF16, 12, 2048, 65536, 2, 128}, {IJ_DTYPE_BF16, 20, 2048, 65536, 2, 128}, {IJ_DTYPE_BF16, 40, 2048, 65536, 2, 128},
    {IJ_DTYPE_BF16, 60, 2048, 65536, 2, 128}, {IJ_DTYPE_BF16, 20, 512, 131072, 1, 256}, {IJ_DTYPE_BF16, 40, 512, 131072, 1, 256},
    {IJ_DTYPE_BF16, 60, 512, 131072, 1, 256}, {IJ_DTYPE_F32, 2, 128, 64, 4, 64},        {IJ_DTYPE_F32, 16, 128, 64, 4, 64},
    {IJ_DTYPE_F32, 32, 128, 64, 4, 64},       {IJ_DTYPE_F32, 64, 128, 64, 4, 64},       {IJ_DTYPE_F32, 2, 64, 64, 4, 64},
    {IJ_DTYPE_F32, 16, 64, 64, 4, 64},        {IJ_DTYPE_F32, 64, 64, 64, 4, 64},
};

static char *weights;
static size_t n_bytes;
static float *x, *y, *scratch[MAX_THREADS];
static ij_pool *pool;
static int n_threads;
volatile uint64_t keep_sum[MAX_THREADS]; /* results nobody needs, kept so that they are computed */
volatile float keep_float[MAX_THREADS];

typedef struct work {
  const ij_kernels *k;
  shape s;
  ij_matmul m;
  int64_t repeat;
  double n_fma;
} work;

static void run_matmul(void *ctx, int worker, int64_t i0, int64_t i1) {
  work *w = ctx;
  for (int64_t i = 0; i < w->repeat; i++) w->k->matmul[w->s.type](&w->m, i0, i1, scratch[worker]);
}

static void run_read(void *ctx, int worker, int64_t i0, int64_t i1) {
  work *w = ctx;
  keep_sum[worker] = w->k->read_stream(weights + (i0 << 18), (size_t)(i1 - i0) << 18);
}

static void run_peak(void *ctx, int worker, int64_t i0, int64_t i1) {
  work *w = ctx;
  double n = 0;
  keep_float[worker] = w->k->fma_peak((i1 - i0) * 20000, &n);
  w->n_fma = n / (double)(i1 - i0) * (double)n_threads * PEAK_CHUNKS;
}

static int by_value(const void *a, const void *b) {
  double p = *(const double *)a, q = *(const double *)b;
  return p < q ? -1 : p > q;
}

static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, by_value);
  return v[n / 2];
}

static double timed_matmul(work *w) {
  double t = ij__os_seconds();
  ij__pool_run(pool, w->s.rows, w->s.grain, run_matmul, w);
  return ij__os_seconds() - t;
}

/* read_stream goes first and last around each product. */
static void measure_memory(const ij_kernels *k, shape s, int rounds) {
  int64_t row_bytes = s.k * ij__dtype_block_bytes(s.type);
  s.rows = (int64_t)n_bytes / (row_bytes * s.interleave) / s.grain * s.grain;
  work w = {.k = k, .s = s, .repeat = 1};
  w.m = (ij_matmul){weights, row_bytes * s.interleave, x, s.k, y, s.rows, s.n, s.k};
  double ratio[MAX_ROUNDS], speed[MAX_ROUNDS], peak = 0;
  for (int i = 0; i <= rounds; i++) {
    double t = ij__os_seconds();
    ij__pool_run(pool, (int64_t)(n_bytes >> 18), 4, run_read, &w);
    double now = (double)n_bytes / (ij__os_seconds() - t);
    if (i > 0) ratio[i - 1] = speed[i - 1] / (0.5 * (peak + now));
    peak = now;
    if (i < rounds) speed[i] = (double)(s.rows * row_bytes) / timed_matmul(&w);
  }
  double share = 100 * median(ratio, rounds);
  printf("%-7s %d thread%s  %-4s n %3lld  k %5lld  stride %lld  %6.2f GB/s    %5.1f %% of reading\n", ij__level_name(k->level), n_threads,
         n_threads > 1 ? "s" : " ", ij__dtype_name(s.type), (long long)s.n, (long long)s.k, (long long)s.interleave,
         median(speed, rounds) * 1e-9, share);
}

static double timed_peak(work *w) {
  double t = ij__os_seconds();
  ij__pool_run(pool, n_threads * PEAK_CHUNKS, 1, run_peak, w);
  return w->n_fma / (ij__os_seconds() - t);
}

static void measure_compute(const ij_kernels *k, shape s, int rounds) {
  int64_t row_bytes = s.k * ij__dtype_block_bytes(s.type);
  s.rows = IJ_MIN(s.rows, (int64_t)n_bytes / (row_bytes * s.interleave));
  if (s.rows == s.grain) s.rows *= n_threads; /* the small shapes of attention: one for each thread */
  work w = {.k = k, .s = s, .repeat = 1};
  double fma = (double)s.n * (double)s.k * (double)s.rows;
  w.repeat = fma < 4e7 ? (int64_t)(4e7 / fma) + 1 : 1;
  w.m = (ij_matmul){weights, row_bytes * s.interleave, x, s.k, y, s.rows, s.n, s.k};
  double ratio[MAX_ROUNDS], speed[MAX_ROUNDS], peak = 0;
  for (int i = 0; i <= rounds; i++) {
    double now = timed_peak(&w);
    if (i > 0) ratio[i - 1] = speed[i - 1] / (0.5 * (peak + now));
    peak = now;
    if (i < rounds) speed[i] = fma * (double)w.repeat / timed_matmul(&w);
  }
  double share = 100 * median(ratio, rounds);
  printf("%-7s %d thread%s  %-4s n %3lld  k %5lld  stride %lld  %6.1f Gfma/s  %5.1f %% of peak\n", ij__level_name(k->level), n_threads,
         n_threads > 1 ? "s" : " ", ij__dtype_name(s.type), (long long)s.n, (long long)s.k, (long long)s.interleave,
         median(speed, rounds) * 1e-9, share);
}

static bool prepare(size_t megabytes) {
  n_bytes = megabytes << 20;
  weights = ij__os_pages(n_bytes);
  x = ij__alloc_array((size_t)MAX_TOKENS * MAX_K, sizeof *x);
  y = ij__os_pages(sizeof *y * (size_t)MAX_TOKENS * 4096 + n_bytes / 32);
  if (!weights || !x || !y) return false;
  uint32_t u = 1;
  for (size_t i = 0; i < n_bytes / 2; i++) { /* values near 1 in each of the types */
    u = u * 1664525 + 1013904223;
    ((uint16_t *)(void *)weights)[i] = (uint16_t)(0x3c00 + (u >> 24));
  }
  for (size_t i = 0; i < (size_t)MAX_TOKENS * MAX_K; i++) x[i] = (float)(i % 7) - 3.0f;
  for (int i = 0; i < MAX_THREADS; i++) {
    scratch[i] = ij__alloc_zero(IJ_MATMUL_SCRATCH, sizeof(float));
    if (!scratch[i]) return false;
  }
  return true;
}

static int64_t option(int argc, char **argv, const char *name, int64_t otherwise) {
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], name) == 0) return strtoll(argv[i + 1], NULL, 0);
  }
  return otherwise;
}

static const char *word(int argc, char **argv, const char *name) {
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return NULL;
}

/* Which shapes to measure; zero and NULL stand for all. */
typedef struct selection {
  const char *only, *type;
  int64_t n, k;
} selection;

static bool selected(const selection *w, const char *kind, const shape *s) {
  return (!w->only || strcmp(w->only, kind) == 0) && (!w->type || strcmp(w->type, ij__dtype_name(s->type)) == 0) &&
         (w->n == 0 || w->n == s->n) && (w->k == 0 || w->k == s->k);
}

static void measure(const ij_kernels *k, const selection *which, int rounds) {
  for (size_t i = 0; i < IJ_COUNT_OF(memory_shapes); i++) {
    if (selected(which, "memory", &memory_shapes[i])) measure_memory(k, memory_shapes[i], rounds);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(compute_shapes); i++) {
    if (selected(which, "compute", &compute_shapes[i])) measure_compute(k, compute_shapes[i], rounds);
  }
}

int main(int argc, char **argv) {
  int max_threads = (int)IJ_MIN(option(argc, argv, "--threads", ij__cpu_count()), MAX_THREADS);
  int min_threads = word(argc, argv, "--threads") ? max_threads : 1;
  int rounds = (int)IJ_MIN(option(argc, argv, "--rounds", 7), MAX_ROUNDS);
  const char *level = word(argc, argv, "--level");
  selection which = {word(argc, argv, "--only"), word(argc, argv, "--type"), option(argc, argv, "--n", 0), option(argc, argv, "--k", 0)};
  if (!prepare((size_t)option(argc, argv, "--megabytes", 1024))) {
    fprintf(stderr, "bench_matmul: not enough memory\n");
    return 1;
  }
  for (n_threads = min_threads; n_threads <= max_threads; n_threads++) {
    ij_err err;
    if (ij__pool_open(&pool, n_threads, &err) != IJ_OK) {
      fprintf(stderr, "bench_matmul: %s\n", err.message);
      return 1;
    }
    for (int i = IJ_LEVEL_SCALAR + 1; i < IJ_LEVEL_COUNT; i++) { /* the scalar level is a definition, its speed says nothing */
      const ij_kernels *k = ij__kernels_get((ij_level)i);
      if (k->level != (ij_level)i || (level && strcmp(level, ij__level_name(k->level)) != 0)) continue;
      measure(k, &which, rounds);
    }
    ij__pool_close(&pool);
  }
  return 0;
}
