/* scratch.c: every buffer of a step, sized from the config and the batch before the first token. */
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "model/attn.h"
#include "model/gemm.h"
#include "model/net.h"

#define PART_ROWS 4 /* steps of at most this many rows may split attention by span */

/* One pass over the plan counts, the second hands out. Every part starts on a cache line. */
typedef struct planner {
  char *base;
  size_t used;
  bool overflow;
} planner;

static void *take(planner *p, size_t count, size_t size) {
  size_t n, next;
  if (!ij__mul_size(count, size, &n) || n > SIZE_MAX - 64 || !ij__add_size(p->used, ij__align_up(n, 64), &next)) {
    p->overflow = true;
    return NULL;
  }
  void *at = p->base ? p->base + p->used : NULL;
  p->used = next;
  return at;
}

static int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

static void plan_attention(planner *p, ij_scratch *s, const ij_config *c, size_t n) {
  size_t q = 0, r = 0, kv = 0;
  for (int i = 0; i < 2; i++) {
    const ij_attn_dims *d = &c->attn[i];
    q = IJ_MAX(q, (size_t)d->n_head * (size_t)d->head_dim);
    r = IJ_MAX(r, (size_t)d->n_head * (size_t)c->d_rel);
    kv = IJ_MAX(kv, (size_t)d->n_kv_head * (size_t)d->head_dim);
  }
  s->q = take(p, n * q, sizeof(float));
  s->att = take(p, n * q, sizeof(float));
  s->r = take(p, n * r, sizeof(float));
  for (int i = 0; i < 2; i++) {
    s->kv[i] = take(p, n * kv, sizeof(float));
    s->kv_conv[i] = take(p, n * kv, sizeof(float));
  }
  s->zeros = take(p, IJ_MAX(kv, (size_t)c->hidden), sizeof(float));
}

static void plan_ffn(planner *p, ij_scratch *s, const ij_config *c, size_t n) {
  size_t k = (size_t)c->n_expert_used, sh = (size_t)c->n_shared, e = (size_t)c->n_expert;
  size_t width = IJ_MAX((size_t)c->dense_width, (k + sh) * (size_t)c->expert_width);
  s->ffn_gu = take(p, n * width, 2 * sizeof(float));
  s->ffn_act = take(p, n * width, sizeof(float));
  s->gathered = take(p, n > 1 ? IJ_MIN(n * k, e * (IJ_LISTED_MIN - 1)) : 0, (size_t)c->hidden * sizeof(float));
  size_t blocks = IJ_MAX((size_t)ij__int_blocks(c->dense_width), (k + sh) * (size_t)ij__int_blocks(c->expert_width));
  blocks = IJ_MAX(blocks, (size_t)ij__int_blocks(c->hidden));
  for (int i = 0; i < 2; i++) blocks = IJ_MAX(blocks, (size_t)ij__int_blocks((int64_t)c->attn[i].n_head * c->attn[i].head_dim));
  s->ints = take(p, n * blocks, sizeof *s->ints);
  s->router = take(p, n * (e + sh), sizeof(float));
  s->route_weight = take(p, n * (k + sh), sizeof(float));
  s->row_weight = take(p, n * (k + sh) + n, sizeof(float));
  s->route_id = take(p, n * k, sizeof(int));
  s->expert_rows = take(p, n * k, sizeof(int));
  s->expert_count = take(p, e, sizeof(int));
  s->expert_start = take(p, e, sizeof(int));
  s->expert_ids = take(p, e, sizeof(int));
  s->leases = take(p, e, sizeof(ij_expert_lease));
  s->ffns = take(p, e + sh, sizeof(ij_ffn));
  s->shared_ffns = take(p, sh, sizeof(ij_ffn));
}

static void plan_rows(planner *p, ij_scratch *s, const ij_config *c, size_t n) {
  size_t hidden = (size_t)c->hidden;
  s->h = take(p, n * hidden, sizeof(float));
  s->x = take(p, n * hidden, sizeof(float));
  s->y = take(p, n * hidden, sizeof(float));
  s->head_in = take(p, n * hidden, sizeof(float));
  s->row_item = take(p, n, sizeof(int));
  s->row_at = take(p, n, sizeof(int));
  s->tile_item = take(p, n, sizeof(int));
  s->tile_row = take(p, n, sizeof(int));
  s->row_media = take(p, n, sizeof(*s->row_media));
  s->bad = take(p, n, sizeof(int));
}

static void plan_workers(planner *p, ij_scratch *s, const ij_config *c, size_t n, size_t n_thread) {
  int64_t tile = max_i64((int64_t)n * IJ_CHUNK_COLUMNS_MANY, 16 * IJ_CHUNK_ROWS_MAX); /* output of one chunk of a down projection */
  int64_t attn = ij__attn_worker_floats(IJ_MAX(c->attn[0].head_dim, c->attn[1].head_dim));
  int64_t route = c->n_expert + 2 * (c->n_expert_used + c->n_shared);
  int64_t floats = IJ_MATMUL_SCRATCH + max_i64(tile, attn);
  s->worker_floats = (int64_t)ij__align_up((size_t)max_i64(floats, route), 64);
  s->worker = take(p, n_thread * (size_t)s->worker_floats, sizeof(float));
  s->x_rooms = take(p, n_thread, sizeof *s->x_rooms);
}

/* Only where experts take time to come and guesses are allowed. */
static void plan_predictor(planner *p, ij_predictor *q, const ij_config *c) {
  if (!q->possible) return;
  size_t n = IJ_PREDICT_ROWS, e = (size_t)c->n_expert, sh = (size_t)c->n_shared;
  q->x = take(p, n * (size_t)c->hidden, sizeof(float));
  q->z = take(p, n * (e + sh), sizeof(float));
  q->score = take(p, e, sizeof(float));
  q->route = take(p, (size_t)c->n_expert_used, sizeof(int));
  q->ids = take(p, e, sizeof(int));
  q->wanted = take(p, e, sizeof(bool));
}

static size_t plan_all(ij_net *net, int n_threads, char *base, bool *overflow) {
  planner p = {.base = base};
  size_t n = (size_t)net->max_batch;
  plan_rows(&p, &net->s, net->config, n);
  plan_attention(&p, &net->s, net->config, n);
  plan_ffn(&p, &net->s, net->config, n);
  plan_workers(&p, &net->s, net->config, n, (size_t)n_threads);
  plan_predictor(&p, &net->predict, net->config);
  *overflow = p.overflow;
  return p.used;
}

/* Floats of partial results of attention over n_span spans. */
static bool part_floats(const ij_config *c, int64_t n_span, size_t *n) {
  const ij_attn_dims *d = &c->attn[0];
  return ij__mul_size((size_t)PART_ROWS * (size_t)d->n_head * (size_t)(d->head_dim + 2), (size_t)n_span, n);
}

bool ij__net_bytes(const ij_config *config, int n_threads, int max_batch, int64_t n_ctx, bool guesses, size_t *n_bytes) {
  ij_net net = {.config = config, .max_batch = max_batch, .predict.possible = guesses};
  bool overflow;
  size_t all = plan_all(&net, n_threads, NULL, &overflow), part = 0;
  int64_t n_span = ij__div_up(n_ctx, IJ_ATTN_SPAN);
  if (n_span > 1 && !(part_floats(config, n_span, &part) && ij__mul_size(part, sizeof(float), &part))) return false;
  return !overflow && ij__add_size(all, part, n_bytes);
}

ij_status ij__net_open(ij_net *net, const ij_config *config, const ij_weights *weights, const ij_kernels *kernels, ij_pool *pool,
                       int max_batch, ij_predict_mode predict, ij_err *err) {
  *net = (ij_net){.config = config, .weights = weights, .kernels = kernels, .pool = pool, .max_batch = max_batch};
  net->predict.mode = predict;
  net->predict.possible = predict != IJ_PREDICT_MODE_OFF && ij__experts_can_guess(weights->experts);
  bool overflow;
  int n_threads = ij__pool_threads(pool);
  size_t n_bytes = plan_all(net, n_threads, NULL, &overflow);
  if (overflow) return ij__fail(err, IJ_E_NOMEM, "the step buffers", "a batch of %d rows overflows the address space; use a smaller one", max_batch);
  char *base = ij__os_pages(n_bytes);
  if (!base) {
    return ij__fail(err, IJ_E_NOMEM, "the step buffers", "%.2f GB for a batch of %d rows could not be had; use a smaller batch", (double)n_bytes * 1e-9, max_batch);
  }
  ij__os_advise(base, n_bytes, IJ_ADVICE_HUGE); /* rows of a wide layer lie far apart, and each needs a page */
  plan_all(net, n_threads, base, &overflow);
  net->n_bytes = n_bytes;
  return IJ_OK; /* pages are zero, as the rooms for x and `zeros` must be */
}

void ij__net_close(ij_net *net) {
  ij__os_free_pages(net->s.h, net->n_bytes); /* the first part: the whole block */
  ij__free(net->s.part);
  *net = (ij_net){0};
}

ij_status ij__net_reserve(ij_net *net, int64_t n_ctx, ij_err *err) {
  int64_t n_span = ij__div_up(n_ctx, IJ_ATTN_SPAN);
  if (n_span <= 1 || n_span <= net->n_part_span) return IJ_OK;
  size_t n;
  if (!part_floats(net->config, n_span, &n)) return ij__fail_nomem(err, "attention over the context", SIZE_MAX);
  float *part = ij__alloc_array(n, sizeof(float));
  if (!part) return ij__fail_nomem(err, "attention over the context", n * sizeof(float));
  ij__free(net->s.part);
  net->s.part = part;
  net->n_part_row = PART_ROWS;
  net->n_part_span = (int)n_span;
  return IJ_OK;
}
