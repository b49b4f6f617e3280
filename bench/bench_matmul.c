/* bench_matmul.c: how much of this machine the matrix product uses.
 *
 * Few tokens: bytes of weights per second as a share of what read_stream reads from the same memory with the same threads. Many
 * tokens: multiply-adds per second as a share of fma_peak. Machines are shared and their clocks move, so each figure is the median
 * of ratios whose two sides were measured alternately, a few milliseconds apart; the ratio of the best of each side is beside it.
 * Without --type the float types are measured; --type takes the name of any weight type (q4_k, affine4, nvfp4_split), or "coded" for
 * all block and split types. Bytes of split types include their scales and biases (BF16, one per 64 values).
 * Usage: bench_matmul [--level WORD] [--threads N] [--megabytes N] [--only memory|compute] [--rounds N] [--n N] [--k N] [--type T]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/pool.h"
#include "kernels/kernels.h"

enum { MAX_THREADS = 64, MAX_ROUNDS = 101, MAX_TOKENS = 512, MAX_K = 8192, PEAK_CHUNKS = 8, SLICE = 64 << 20 };

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
    {IJ_DTYPE_BF16, 12, 2048, 8192, 2, 128}, {IJ_DTYPE_BF16, 20, 2048, 8192, 2, 128}, {IJ_DTYPE_BF16, 40, 2048, 8192, 2, 128},
    {IJ_DTYPE_BF16, 60, 2048, 8192, 2, 128}, {IJ_DTYPE_BF16, 20, 512, 65536, 1, 256}, {IJ_DTYPE_BF16, 40, 512, 65536, 1, 256},
    {IJ_DTYPE_BF16, 60, 512, 65536, 1, 256}, {IJ_DTYPE_F32, 2, 128, 64, 4, 64},        {IJ_DTYPE_F32, 16, 128, 64, 4, 64},
    {IJ_DTYPE_F32, 32, 128, 64, 4, 64},       {IJ_DTYPE_F32, 64, 128, 64, 4, 64},       {IJ_DTYPE_F32, 2, 64, 64, 4, 64},
    {IJ_DTYPE_F32, 16, 64, 64, 4, 64},        {IJ_DTYPE_F32, 64, 64, 64, 4, 64},
};

/* For each block and split type. */
static const shape coded_memory_shapes[] = {
    {.n = 1, .k = 2048, .interleave = 1}, {.n = 1, .k = 4096, .interleave = 1}, {.n = 1, .k = 8192, .interleave = 1},
    {.n = 1, .k = 512, .interleave = 1},  {.n = 2, .k = 2048, .interleave = 1}, {.n = 4, .k = 2048, .interleave = 1},
    {.n = 8, .k = 2048, .interleave = 1},
};
static const shape coded_compute_shapes[] = {
    {.n = 256, .k = 2048, .rows = 2048, .interleave = 1, .grain = 128}, {.n = 256, .k = 512, .rows = 2048, .interleave = 1, .grain = 128},
    {.n = 256, .k = 8192, .rows = 1024, .interleave = 1, .grain = 128}, {.n = 12, .k = 2048, .rows = 8192, .interleave = 1, .grain = 128},
    {.n = 24, .k = 2048, .rows = 8192, .interleave = 1, .grain = 128},  {.n = 24, .k = 512, .rows = 32768, .interleave = 1, .grain = 256},
    {.n = 48, .k = 2048, .rows = 8192, .interleave = 1, .grain = 128},
};

static const char *const type_words[] = {
#define TYPE_WORD(id, name, len, bytes) #id,
    IJ_DTYPE_LIST(TYPE_WORD)
#undef TYPE_WORD
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
  const char *slice;
  int64_t repeat;
  double n_fma;
} work;

static void run_matmul(void *ctx, int worker, int64_t i0, int64_t i1) {
  work *w = ctx;
  int64_t r0 = i0 * w->s.grain, r1 = IJ_MIN(i1 * w->s.grain, w->s.rows);
  for (int64_t i = 0; i < w->repeat; i++) w->k->matmul[w->s.type](&w->m, r0, r1, scratch[worker]);
}

static void run_read(void *ctx, int worker, int64_t i0, int64_t i1) {
  work *w = ctx;
  keep_sum[worker] = w->k->read_stream(w->slice + (i0 << 18), (size_t)(i1 - i0) << 18);
}

static void run_peak(void *ctx, int worker, int64_t i0, int64_t i1) {
  work *w = ctx;
  double n = 0;
  keep_float[worker] = w->k->fma_peak((i1 - i0) * 10000, &n);
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
  ij__pool_run(pool, ij__div_up(w->s.rows, w->s.grain), 1, run_matmul, w);
  return ij__os_seconds() - t;
}

static void print_result(const ij_kernels *k, const shape *s, double *speed, double *limit, int rounds, const char *unit, const char *of) {
  double ratio[MAX_ROUNDS];
  for (int i = 0; i < rounds; i++) ratio[i] = 2 * speed[i] / (limit[i] + limit[i + 1]);
  qsort(speed, (size_t)rounds, sizeof *speed, by_value);
  qsort(limit, (size_t)rounds + 1, sizeof *limit, by_value);
  printf("%-7s %d thread%s  %-4s n %3lld  k %5lld  stride %lld  %6.1f %s  %5.1f %% of %s (best of both %5.1f %%)\n",
         ij__level_name(k->level), n_threads, n_threads > 1 ? "s" : " ", ij__dtype_name(s->type), (long long)s->n, (long long)s->k,
         (long long)s->interleave, speed[rounds / 2] * 1e-9, unit, 100 * median(ratio, rounds), of, 100 * speed[rounds - 1] / limit[rounds]);
  fflush(stdout);
}

/* Bytes of one row with its scales and biases. */
static int64_t whole_row_bytes(ij_dtype type, int64_t k) {
  int64_t bytes = ij__dtype_row_bytes(type, k);
  if (ij__dtype_is_affine(type)) bytes += k / 64 * 4;
  if (type == IJ_DTYPE_NVFP4_SPLIT) bytes += k / 16;
  if (type == IJ_DTYPE_MXFP4_SPLIT || type == IJ_DTYPE_MXFP8_SPLIT) bytes += k / 32;
  return bytes;
}

/* The product of s with the matrix in a slice: codes of all rows, then of split types the scales, then the biases. */
static ij_matmul product(const shape *s, const char *slice) {
  const int64_t row_bytes = ij__dtype_row_bytes(s->type, s->k), codes = s->rows * row_bytes * s->interleave;
  ij_matmul m = {.w = slice, .w_stride = row_bytes * s->interleave, .x = x, .ldx = s->k, .y = y, .ldy = s->rows, .n = s->n, .k = s->k};
  if (!ij__dtype_is_split(s->type)) return m;
  m.scales = slice + codes;
  m.side_stride = whole_row_bytes(s->type, s->k) - row_bytes;
  m.side_dtype = IJ_DTYPE_U8;
  m.group = s->type == IJ_DTYPE_NVFP4_SPLIT ? 16 : 32;
  if (!ij__dtype_is_affine(s->type)) return m;
  m.side_dtype = IJ_DTYPE_BF16;
  m.group = 64;
  m.side_stride /= 2;
  m.biases = slice + codes + s->rows * m.side_stride;
  return m;
}

/* Each measurement takes the next slice of the weights, so that what a round leaves in a cache is old when its turn comes again. */
static void measure_memory(const ij_kernels *k, shape s, int rounds) {
  int64_t row_bytes = whole_row_bytes(s.type, s.k);
  s.rows = SLICE / (row_bytes * s.interleave) / s.grain * s.grain;
  work w = {.k = k, .s = s, .repeat = 1};
  double speed[MAX_ROUNDS], limit[MAX_ROUNDS + 1];
  int64_t n_slice = (int64_t)(n_bytes / SLICE), slice = 0;
  for (int i = 0; i <= rounds; i++) {
    w.slice = weights + slice++ % n_slice * SLICE;
    double t = ij__os_seconds();
    ij__pool_run(pool, SLICE >> 18, 1, run_read, &w);
    limit[i] = SLICE / (ij__os_seconds() - t);
    w.m = product(&s, weights + slice++ % n_slice * SLICE);
    if (i < rounds) speed[i] = (double)(s.rows * row_bytes) / timed_matmul(&w);
  }
  print_result(k, &s, speed, limit, rounds, "GB/s  ", "reading");
}

static double timed_peak(work *w) {
  double t = ij__os_seconds();
  ij__pool_run(pool, n_threads * PEAK_CHUNKS, 1, run_peak, w);
  return w->n_fma / (ij__os_seconds() - t);
}

static void measure_compute(const ij_kernels *k, shape s, int rounds) {
  int64_t row_stride = whole_row_bytes(s.type, s.k) * s.interleave;
  int64_t brief = (int64_t)(2e8 / (double)(s.n * s.k)); /* a few milliseconds, less than the system lets another program in for */
  s.rows = IJ_MIN(s.rows, IJ_MIN(brief, SLICE / row_stride));
  s.rows = IJ_MAX(1, s.rows / s.grain) * s.grain;
  if (s.rows == s.grain) s.rows *= n_threads; /* one chunk for each thread */
  work w = {.k = k, .s = s, .repeat = 1};
  double fma = (double)s.n * (double)s.k * (double)s.rows;
  w.repeat = fma < 4e7 ? (int64_t)(4e7 / fma) + 1 : 1;
  double speed[MAX_ROUNDS], limit[MAX_ROUNDS + 1];
  int64_t n_slice = (int64_t)(n_bytes / SLICE);
  for (int i = 0; i <= rounds; i++) {
    limit[i] = timed_peak(&w);
    w.m = product(&s, weights + i % n_slice * SLICE);
    if (i < rounds) speed[i] = fma * (double)w.repeat / timed_matmul(&w);
  }
  print_result(k, &s, speed, limit, rounds, "Gfma/s", "peak");
}

static uint32_t random_word(void) {
  static uint32_t u = 1;
  u = u * 1664525 + 1013904223;
  return u >> 8;
}

/* Float and split types: 16-bit words that are values near 1 in BF16 and F16, and of which no byte is a strange scale. */
static void fill_words(void) {
  for (size_t i = 0; i < n_bytes / 2; i++) ((uint16_t *)(void *)weights)[i] = (uint16_t)(0x3c20 + (random_word() & 0x3f));
}

/* Blocks of random bytes whose values are ordinary numbers: denormals and NaN would slow the arithmetic down. 4096 of them, repeated. */
static void fill_blocks(ij_dtype type) {
  const ij_kernels *ref = ij__kernels_get(IJ_LEVEL_SCALAR);
  const int64_t len = ij__dtype_block_len(type), bytes = ij__dtype_block_bytes(type);
  const size_t n_template = (size_t)bytes * 4096;
  for (size_t at = 0; at < n_template; at += (size_t)bytes) {
    float value[256], largest;
    ij_stretch s = {.row = weights + at, .n = len};
    do {
      for (int64_t i = 0; i < bytes; i++) weights[at + (size_t)i] = (char)random_word();
      ref->decode[type](value, &s);
      largest = 0;
      for (int64_t i = 0; i < len; i++) {
        float v = value[i] < 0 ? -value[i] : value[i];
        largest = v <= largest ? largest : v;
      }
    } while (!(largest > 0x1p-8f && largest < 256.0f));
  }
  for (size_t at = n_template; at < n_bytes; at += n_template) memcpy(weights + at, weights, IJ_MIN(n_template, n_bytes - at));
}

static bool prepare(size_t megabytes) {
  n_bytes = IJ_MAX(2, megabytes >> 6) * SLICE;
  weights = ij__os_pages(n_bytes);
  x = ij__alloc_array((size_t)MAX_TOKENS * MAX_K, sizeof *x);
  y = ij__os_pages((size_t)64 << 20); /* the largest: 60 tokens of 65536 rows */
  if (!weights || !x || !y) return false;
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
  return (!w->only || strcmp(w->only, kind) == 0) && (w->n == 0 || w->n == s->n) && (w->k == 0 || w->k == s->k);
}

static bool type_selected(const selection *w, ij_dtype type) {
  if (!w->type) return ij__dtype_is_float(type);
  if (strcmp(w->type, "coded") == 0) return ij__dtype_is_weight(type) && !ij__dtype_is_float(type);
  return ij__dtype_is_weight(type) && strcasecmp(w->type, type_words[type]) == 0;
}

static void measure_float(const ij_kernels *k, const selection *which, int rounds) {
  for (size_t i = 0; i < IJ_COUNT_OF(memory_shapes); i++) {
    const shape *s = &memory_shapes[i];
    if (type_selected(which, s->type) && selected(which, "memory", s)) measure_memory(k, *s, rounds);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(compute_shapes); i++) {
    const shape *s = &compute_shapes[i];
    if (type_selected(which, s->type) && selected(which, "compute", s)) measure_compute(k, *s, rounds);
  }
}

static void measure_coded(const ij_kernels *k, const selection *which, ij_dtype type, int rounds) {
  for (size_t i = 0; i < IJ_COUNT_OF(coded_memory_shapes); i++) {
    shape s = coded_memory_shapes[i];
    s.type = type;
    s.grain = IJ_MIN(256, (512 << 10) / ij__dtype_row_bytes(type, s.k));
    if (selected(which, "memory", &s)) measure_memory(k, s, rounds);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(coded_compute_shapes); i++) {
    shape s = coded_compute_shapes[i];
    s.type = type;
    if (selected(which, "compute", &s)) measure_compute(k, s, rounds);
  }
}

static void measure(const ij_kernels *k, const selection *which, int rounds) {
  if (type_selected(which, IJ_DTYPE_F32) || type_selected(which, IJ_DTYPE_BF16) || type_selected(which, IJ_DTYPE_F16)) {
    fill_words();
    measure_float(k, which, rounds);
  }
  for (int t = 0; t < IJ_DTYPE_COUNT; t++) {
    if (ij__dtype_is_float((ij_dtype)t) || !type_selected(which, (ij_dtype)t)) continue;
    if (ij__dtype_is_split((ij_dtype)t)) fill_words();
    if (ij__dtype_is_block((ij_dtype)t)) fill_blocks((ij_dtype)t);
    measure_coded(k, which, (ij_dtype)t, rounds);
  }
}

int main(int argc, char **argv) {
  int max_threads = (int)IJ_MIN(option(argc, argv, "--threads", ij__cpu_count()), MAX_THREADS);
  int min_threads = word(argc, argv, "--threads") ? max_threads : 1;
  int rounds = (int)IJ_MIN(option(argc, argv, "--rounds", 15), MAX_ROUNDS);
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
