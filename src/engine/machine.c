/* machine.c: what this machine gives, measured with the kernels and threads that the model uses. */
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "engine/engine_int.h"

#define READ_BYTES ((size_t)1 << 30)  /* several times any cache we know of */
#define READ_CHUNK ((size_t)256 << 10)
#define FMA_ITERATIONS 20000          /* a fraction of a millisecond per task */
#define FMA_TASKS_PER_THREAD 16

typedef struct measure_ctx {
  const ij_kernels *kernels;
  const char *memory;
  double *n_fma;     /* [threads] */
  uint64_t *sink;    /* [threads] so that no read can be dropped */
} measure_ctx;

static void read_chunks(void *ctx, int worker, int64_t i0, int64_t i1) {
  measure_ctx *c = ctx;
  for (int64_t i = i0; i < i1; i++) c->sink[worker] += c->kernels->read_stream(c->memory + (size_t)i * READ_CHUNK, READ_CHUNK);
}

static void touch_chunks(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  char *memory = ctx;
  for (int64_t i = i0; i < i1; i++) memset(memory + (size_t)i * READ_CHUNK, (int)(i & 0x7f), READ_CHUNK);
}

static void fma_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  measure_ctx *c = ctx;
  for (int64_t i = i0; i < i1; i++) {
    double n = 0;
    c->sink[worker] += c->kernels->fma_peak(FMA_ITERATIONS, &n) > 1.0f;
    c->n_fma[worker] += n;
  }
}

/* Best rate of rounds that together take about `seconds`: an interrupted round says nothing about the machine. */
static double best_read_rate(ij_model *m, measure_ctx *c, double seconds) {
  double best = 0, start = ij__os_seconds();
  do {
    double t = ij__os_seconds();
    ij__pool_run(m->pool, (int64_t)(READ_BYTES / READ_CHUNK), 4, read_chunks, c);
    best = IJ_MAX(best, (double)READ_BYTES / (ij__os_seconds() - t));
  } while (ij__os_seconds() - start < seconds);
  return best;
}

static double best_fma_rate(ij_model *m, measure_ctx *c, double seconds) {
  int n_threads = ij__pool_threads(m->pool);
  double best = 0, start = ij__os_seconds();
  do {
    memset(c->n_fma, 0, (size_t)n_threads * sizeof *c->n_fma);
    double t = ij__os_seconds(), n = 0;
    ij__pool_run(m->pool, (int64_t)n_threads * FMA_TASKS_PER_THREAD, 1, fma_tasks, c);
    t = ij__os_seconds() - t;
    for (int i = 0; i < n_threads; i++) n += c->n_fma[i];
    best = IJ_MAX(best, n / t);
  } while (ij__os_seconds() - start < seconds);
  return best;
}

ij_status ij_measure_machine(ij_model *model, double seconds, ij_machine *out, ij_err *err) {
  if (!model || !out || !(seconds > 0 && seconds <= 3600)) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_measure_machine", "expected a model, a place for the result, and 0 < seconds <= 3600");
  }
  size_t n = (size_t)ij__pool_threads(model->pool);
  char *memory = ij__os_pages(READ_BYTES);
  measure_ctx c = {.kernels = model->kernels, .memory = memory, .n_fma = ij__alloc_zero(n, sizeof *c.n_fma), .sink = ij__alloc_zero(n, sizeof *c.sink)};
  ij_status status = IJ_OK;
  if (!memory || !c.n_fma || !c.sink) {
    status = ij__fail_nomem(err, "the measurement", READ_BYTES);
  } else {
    pthread_mutex_lock(&model->step_lock);
    ij__pool_run(model->pool, (int64_t)(READ_BYTES / READ_CHUNK), 4, touch_chunks, memory);
    out->read_bytes_per_s = best_read_rate(model, &c, seconds / 2);
    out->fma_per_s = best_fma_rate(model, &c, seconds / 2);
    pthread_mutex_unlock(&model->step_lock);
  }
  ij__os_free_pages(memory, READ_BYTES);
  ij__free(c.n_fma);
  ij__free(c.sink);
  return status;
}
