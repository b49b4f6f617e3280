/* machine.c: what this machine gives, measured with the kernels and threads that the model uses. */
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "engine/engine_int.h"

#define READ_BYTES ((size_t)1 << 30)  /* several times any cache we know of */
#define READ_PIECE ((size_t)256 << 20)  /* read without looking at the clock; successive pieces go round, so none is still in a cache */
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

/* Rates are means over about `seconds`, not the best moment in them: on a shared machine the work that is held against them meets the
 * same disturbances. */
static double read_rate(ij_model *m, measure_ctx *c, double seconds) {
  double n = 0, start = ij__os_seconds(), t;
  do {
    c->memory = m->measure_memory + m->measure_at;
    ij__pool_run(m->pool, (int64_t)(READ_PIECE / READ_CHUNK), 4, read_chunks, c);
    m->measure_at = (m->measure_at + READ_PIECE) % READ_BYTES;
    n += (double)READ_PIECE;
    t = ij__os_seconds() - start;
  } while (t < seconds);
  return n / t;
}

static double fma_rate(ij_model *m, measure_ctx *c, double seconds) {
  int n_threads = ij__pool_threads(m->pool);
  double n = 0, start = ij__os_seconds(), t;
  do {
    ij__pool_run(m->pool, (int64_t)n_threads * FMA_TASKS_PER_THREAD, 1, fma_tasks, c);
    t = ij__os_seconds() - start;
  } while (t < seconds);
  for (int i = 0; i < n_threads; i++) n += c->n_fma[i];
  return n / t;
}

/* The memory to read, kept by the model: a measurement may be brief, and then must not begin with a gigabyte of page faults. */
static bool have_memory(ij_model *m) {
  if (m->measure_memory) return true;
  m->measure_memory = ij__os_pages(READ_BYTES);
  if (m->measure_memory) ij__pool_run(m->pool, (int64_t)(READ_BYTES / READ_CHUNK), 4, touch_chunks, m->measure_memory);
  return m->measure_memory != NULL;
}

ij_status ij_measure_machine(ij_model *model, double seconds, ij_machine *out, ij_err *err) {
  if (!model || !out || !(seconds > 0 && seconds <= 3600)) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_measure_machine", "expected a model, a place for the result, and 0 < seconds <= 3600");
  }
  size_t n = (size_t)ij__pool_threads(model->pool);
  measure_ctx c = {.kernels = model->kernels, .n_fma = ij__alloc_zero(n, sizeof *c.n_fma), .sink = ij__alloc_zero(n, sizeof *c.sink)};
  ij__turn_take(&model->step_lock);
  ij_status status = c.n_fma && c.sink && have_memory(model) ? IJ_OK : ij__fail_nomem(err, "the measurement", READ_BYTES);
  if (status == IJ_OK) {
    out->read_bytes_per_s = read_rate(model, &c, seconds / 2);
    out->fma_per_s = fma_rate(model, &c, seconds / 2);
  }
  ij__turn_give(&model->step_lock);
  ij__free(c.n_fma);
  ij__free(c.sink);
  return status;
}

void ij__measure_free(ij_model *model) {
  ij__os_free_pages(model->measure_memory, READ_BYTES);
  model->measure_memory = NULL;
}
