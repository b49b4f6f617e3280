/* attn.c: attention with a learned relative bias, over full caches and sliding rings.
 *
 * The softmax over keys has one shape, whatever the chunking: keys are taken in blocks of IJ_ATTN_BLOCK at fixed absolute positions,
 * blocks are merged in order into a span of SPAN positions, spans are merged in order into the result. Each block's softmax is
 * computed on its own (kernels: attn_probs, attn_pv) and merging rescales by the difference of the maxima. A block or span without a
 * visible key is skipped. So a long decode step may give each span to another worker, and still gets the bits of a one-shot prefill.
 *
 * Map: append (norms, store) - tile (what one task works on) - block - span - tasks - ij__attention.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "model/attn.h"
#include "model/gemm.h"
#include "model/net.h"

static_assert(IJ_STATE_BLOCK == IJ_ATTN_BLOCK, "a block of attention is contiguous in the cache");
static_assert(IJ_REL_PAD >= IJ_ATTN_BLOCK - 1, "a block may hang over either end of the relative bank");

typedef struct attn_ctx {
  ij_net *net;
  const ij_layer *l;
  int layer;
  ij_batch_item *items;
  int64_t q_begin, q_end;  /* rows of each item in this pass */
  int n_tile;
  int group;               /* query heads per KV head */
  int heads_per_task, n_head_task, tile_rows;
  int n_span;              /* spans per task list; 1 unless split */
  bool split;              /* partial results of spans go to scratch.part */
} attn_ctx;

/* ------------------------------------------------------------------------------------------------------------ append */

/* Normalizes the keys of some rows and stores keys and values at their positions. */
static void store_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  const attn_ctx *c = ctx;
  const ij_scratch *s = &c->net->s;
  const ij_attn_dims *d = c->l->dims;
  for (int64_t row = i0; row < i1; row++) {
    int64_t t = s->row_at[row];
    if (t < c->q_begin || t >= c->q_end) continue;
    const ij_state *st = c->items[s->row_item[row]].state;
    const ij_layer_state *ls = &st->layers[c->layer];
    int64_t item = ij__dtype_block_bytes(st->spec.kv_type), slot = ij__state_slot(ls, st->pos + t);
    for (int h = 0; h < d->n_kv_head; h++) {
      int64_t at = row * d->n_kv_head * d->head_dim + (int64_t)h * d->head_dim;
      float *k = s->kv_conv[0] + at;
      int64_t to = (h * ls->cap + slot) * d->head_dim * item;
      c->net->kernels->rms_norm(k, k, c->l->k_norm, c->net->config->eps, d->head_dim);
      c->net->kernels->narrow[st->spec.kv_type](ls->k + to, k, d->head_dim);
      c->net->kernels->narrow[st->spec.kv_type](ls->v + to, s->kv_conv[1] + at, d->head_dim);
    }
  }
}

/* -------------------------------------------------------------------------------------------------------------- tile */

/* Running softmax of n vectors: acc is the weighted sum of values, sum the sum of weights, both relative to exp(max). */
typedef struct attn_acc {
  float max[IJ_ATTN_TILE], sum[IJ_ATTN_TILE];
  float *acc; /* [IJ_ATTN_TILE, d] */
} attn_acc;

/* What one task works on: some queries of one item, some heads that share a KV head. Vector v = query * n_head + head. */
typedef struct attn_tile {
  const attn_ctx *c;
  const ij_batch_item *item;
  int64_t row, t;          /* first row in the batch, and in the item */
  int n_query, head, n_head, kv_head, n_vec;
  int64_t pos;             /* position of the first query */
  int64_t written;         /* keys below this position are in the cache */
  float *matmul_scratch, *q, *v, *s, *bias;
  attn_acc block_acc, span_acc, total;
} attn_tile;

int64_t ij__attn_worker_floats(int head_dim) {
  return (int64_t)IJ_ATTN_TILE * head_dim * 5 + IJ_ATTN_BLOCK * head_dim + IJ_ATTN_TILE * IJ_ATTN_BLOCK + 2 * IJ_ATTN_BLOCK;
}

static void tile_buffers(attn_tile *tile, float *w, int head_dim) {
  int64_t vecs = (int64_t)IJ_ATTN_TILE * head_dim;
  tile->matmul_scratch = w;
  tile->q = w + IJ_MATMUL_SCRATCH;
  tile->block_acc.acc = tile->q + vecs;
  tile->span_acc.acc = tile->block_acc.acc + vecs;
  tile->total.acc = tile->span_acc.acc + vecs;
  tile->v = tile->total.acc + vecs;
  tile->s = tile->v + (int64_t)IJ_ATTN_BLOCK * head_dim;
  tile->bias = tile->s + (int64_t)IJ_ATTN_TILE * IJ_ATTN_BLOCK;
}

static void tile_load_queries(attn_tile *tile) {
  const attn_ctx *c = tile->c;
  int d = c->l->dims->head_dim;
  for (int v = 0; v < tile->n_vec; v++) {
    int64_t row = tile->row + v / tile->n_head, head = tile->head + v % tile->n_head;
    c->net->kernels->rms_norm(tile->q + (int64_t)v * d, c->net->s.q + (row * c->l->dims->n_head + head) * d, c->l->q_norm, c->net->config->eps, d);
  }
}

static void acc_clear(attn_acc *a, int n) {
  for (int v = 0; v < n; v++) {
    a->max[v] = -INFINITY;
    a->sum[v] = 0.0f;
  }
}

/* a = a merged with b, for vectors [0, n). A side that has seen no key (max -inf) leaves the other as it is. */
static void acc_merge(const ij_kernels *k, attn_acc *a, const attn_acc *b, int n, int d) {
  float wa[IJ_ATTN_TILE] = {0}, wb[IJ_ATTN_TILE] = {0};
  for (int v = 0; v < n; v++) {
    float max = a->max[v] > b->max[v] ? a->max[v] : b->max[v];
    wa[v] = a->max[v] == -INFINITY ? 0.0f : a->max[v] - max;
    wb[v] = b->max[v] == -INFINITY ? 0.0f : b->max[v] - max;
  }
  k->vexp(wa, wa, n);
  k->vexp(wb, wb, n);
  for (int v = 0; v < n; v++) {
    float *acc = a->acc + (int64_t)v * d;
    const float *add = b->acc + (int64_t)v * d;
    if (b->max[v] == -INFINITY) continue;
    if (a->max[v] == -INFINITY) {
      memcpy(acc, add, (size_t)d * sizeof(float));
      a->sum[v] = b->sum[v];
      a->max[v] = b->max[v];
      continue;
    }
    k->merge(acc, wa[v], add, wb[v], d);
    k->merge(&a->sum[v], wa[v], &b->sum[v], wb[v], 1);
    a->max[v] = a->max[v] > b->max[v] ? a->max[v] : b->max[v];
  }
}

/* ------------------------------------------------------------------------------------------------------------- block */

/* The keys of the block at position `start` that the query at `pos` sees: [*k0, *k1) relative to start. */
static bool visible(const attn_tile *tile, int64_t pos, int64_t start, int *k0, int *k1) {
  int window = tile->item->state->layers[tile->c->layer].spec.window;
  int64_t lo = window && pos - window + 1 > start ? pos - window + 1 - start : 0;
  int64_t hi = IJ_MIN(pos + 1 - start, (int64_t)IJ_ATTN_BLOCK);
  *k0 = (int)IJ_MIN(lo, (int64_t)IJ_ATTN_BLOCK);
  *k1 = (int)hi;
  return *k0 < *k1;
}

/* Log-N temperature of global layers: 1 + alpha * ln(max((pos + 1) / n_floor, 1)). */
static float temperature(const attn_tile *tile, int64_t pos) {
  const ij_config *cfg = tile->c->net->config;
  if (tile->c->l->sliding || cfg->n_floor <= 0 || (double)(pos + 1) <= cfg->n_floor) return 1.0f;
  float ratio = (float)((double)(pos + 1) / cfg->n_floor), log_ratio;
  tile->c->net->kernels->vlog(&log_ratio, &ratio, 1);
  return 1.0f + (float)cfg->log_alpha * log_ratio;
}

/* The relative bias of one query head over a block, or NULL when all its keys are beyond the extent. */
static const float *block_bias(const attn_tile *tile, int v, int64_t pos, int64_t start) {
  const attn_ctx *c = tile->c;
  int64_t extent = c->l->dims->rel_extent, d_rel = c->net->config->d_rel;
  if (pos - (start + IJ_ATTN_BLOCK - 1) >= extent) return NULL;
  int64_t row = tile->row + v / tile->n_head, head = tile->head + v % tile->n_head;
  const float *r = c->net->s.r + (row * c->l->dims->n_head + head) * d_rel;
  c->net->kernels->rel_bias(tile->bias, r, c->l->rel + IJ_REL_PAD + extent - 1 - (pos - start), c->l->rel_ld, (int)d_rel);
  return tile->bias;
}

/* Softmax of every vector over the block at `start`, into block_acc. */
static void attend_block(attn_tile *tile, int64_t start) {
  const attn_ctx *c = tile->c;
  const ij_kernels *k = c->net->kernels;
  const ij_state *st = tile->item->state;
  const ij_layer_state *ls = &st->layers[c->layer];
  int d = c->l->dims->head_dim;
  ij_dtype type = st->spec.kv_type;
  int64_t n_key = IJ_MIN(tile->written - start, (int64_t)IJ_ATTN_BLOCK);
  int64_t row_bytes = d * ij__dtype_block_bytes(type);
  int64_t at = (tile->kv_head * ls->cap + ij__state_slot(ls, start)) * row_bytes;

  ij_matmul m = {.w = ls->k + at, .w_stride = row_bytes, .x = tile->q, .ldx = d, .y = tile->s, .ldy = IJ_ATTN_BLOCK, .n = tile->n_vec, .k = d};
  k->matmul[type](&m, 0, n_key, tile->matmul_scratch);
  const float *values = (const float *)(const void *)(ls->v + at);
  if (type != IJ_DTYPE_F32) {
    k->widen[type](tile->v, ls->v + at, n_key * d);
    values = tile->v;
  }

  acc_clear(&tile->block_acc, tile->n_vec);
  float inv_d = 1.0f / (float)d;
  for (int v = 0; v < tile->n_vec;) { /* vectors with the same visible keys together: all heads of a query, all full queries */
    int k0, k1, first = v;
    bool any = visible(tile, tile->pos + v / tile->n_head, start, &k0, &k1);
    for (; v < tile->n_vec; v++) {
      int64_t pos = tile->pos + v / tile->n_head;
      int q0, q1;
      if (visible(tile, pos, start, &q0, &q1) != any || (any && (q0 != k0 || q1 != k1))) break;
      if (!any) continue;
      k->attn_probs(tile->s + v * IJ_ATTN_BLOCK, block_bias(tile, v, pos, start), inv_d, temperature(tile, pos), k0, k1,
                    &tile->block_acc.max[v], &tile->block_acc.sum[v]);
    }
    if (any) {
      k->attn_pv(tile->block_acc.acc + (int64_t)first * d, d, tile->s + first * IJ_ATTN_BLOCK, IJ_ATTN_BLOCK, values, d, v - first, k0, k1, d);
    }
  }
}

/* -------------------------------------------------------------------------------------------------------------- span */

/* First and last+1 key that any query of the tile sees. */
static void tile_range(const attn_tile *tile, int64_t *lo, int64_t *hi) {
  int window = tile->item->state->layers[tile->c->layer].spec.window;
  *lo = window ? IJ_MAX(tile->pos - window + 1, (int64_t)0) : 0;
  *hi = tile->pos + tile->n_query;
}

/* Merges the blocks of one span, in order, into span_acc. */
static void attend_span(attn_tile *tile, int64_t span) {
  int64_t lo, hi;
  tile_range(tile, &lo, &hi);
  lo = IJ_MAX(lo / IJ_ATTN_BLOCK * IJ_ATTN_BLOCK, span * IJ_ATTN_SPAN);
  hi = IJ_MIN(hi, (span + 1) * IJ_ATTN_SPAN);
  acc_clear(&tile->span_acc, tile->n_vec);
  for (int64_t start = lo; start < hi; start += IJ_ATTN_BLOCK) {
    attend_block(tile, start);
    acc_merge(tile->c->net->kernels, &tile->span_acc, &tile->block_acc, tile->n_vec, tile->c->l->dims->head_dim);
  }
}

static void write_result(const attn_ctx *c, int64_t row, int64_t head, const float *acc, float sum) {
  int d = c->l->dims->head_dim;
  c->net->kernels->scale(c->net->s.att + (row * c->l->dims->n_head + head) * d, acc, 1.0f / sum, d);
}

/* ------------------------------------------------------------------------------------------------------------- tasks */

/* A partial result: [max, sum, acc[d]] of (row, head, span). */
static float *part_of(const attn_ctx *c, int64_t row, int64_t head, int64_t span) {
  int64_t d = c->l->dims->head_dim;
  return c->net->s.part + ((row * c->l->dims->n_head + head) * c->n_span + span) * (d + 2);
}

static void store_parts(const attn_tile *tile, int64_t span) {
  int d = tile->c->l->dims->head_dim;
  for (int v = 0; v < tile->n_vec; v++) {
    float *p = part_of(tile->c, tile->row + v / tile->n_head, tile->head + v % tile->n_head, span);
    p[0] = tile->span_acc.max[v];
    p[1] = tile->span_acc.sum[v];
    if (p[0] != -INFINITY) memcpy(p + 2, tile->span_acc.acc + (int64_t)v * d, (size_t)d * sizeof(float));
  }
}

static void attend_tile(attn_tile *tile, int64_t only_span) {
  const attn_ctx *c = tile->c;
  int d = c->l->dims->head_dim;
  tile_load_queries(tile);
  if (c->split) {
    attend_span(tile, only_span);
    store_parts(tile, only_span);
    return;
  }
  int64_t lo, hi;
  tile_range(tile, &lo, &hi);
  acc_clear(&tile->total, tile->n_vec);
  for (int64_t span = lo / IJ_ATTN_SPAN; span * IJ_ATTN_SPAN < hi; span++) {
    attend_span(tile, span);
    acc_merge(c->net->kernels, &tile->total, &tile->span_acc, tile->n_vec, d);
  }
  for (int v = 0; v < tile->n_vec; v++) {
    write_result(c, tile->row + v / tile->n_head, tile->head + v % tile->n_head, tile->total.acc + (int64_t)v * d, tile->total.sum[v]);
  }
}

/* Task number = ((tile * n_kv + kv head) * n_head_task + part of the group) * n_span + span. */
static void attend_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const attn_ctx *c = ctx;
  const ij_scratch *s = &c->net->s;
  for (int64_t i = i0; i < i1; i++) {
    int64_t span = i % c->n_span, rest = i / c->n_span;
    int part = (int)(rest % c->n_head_task);
    rest /= c->n_head_task;
    int number = (int)(rest / c->l->dims->n_kv_head);
    attn_tile tile = {.c = c, .item = &c->items[s->tile_item[number]], .t = s->tile_row[number]};
    tile.kv_head = (int)(rest % c->l->dims->n_kv_head);
    tile.n_query = (int)IJ_MIN((int64_t)c->tile_rows, IJ_MIN(c->q_end, tile.item->n) - tile.t);
    tile.head = tile.kv_head * c->group + part * c->heads_per_task;
    tile.n_head = IJ_MIN(c->heads_per_task, (tile.kv_head + 1) * c->group - tile.head);
    tile.n_vec = tile.n_query * tile.n_head;
    tile.row = tile.item->row0 + tile.t;
    tile.pos = tile.item->state->pos + tile.t;
    tile.written = tile.item->state->pos + IJ_MIN(c->q_end, tile.item->n);
    tile_buffers(&tile, ij__worker_scratch(c->net, worker), c->l->dims->head_dim);
    attend_tile(&tile, span);
  }
}

/* Merges the spans of one (row, head), in order. */
static void merge_parts(void *ctx, int worker, int64_t i0, int64_t i1) {
  const attn_ctx *c = ctx;
  int d = c->l->dims->head_dim;
  attn_acc total = {.acc = ij__worker_scratch(c->net, worker)};
  for (int64_t i = i0; i < i1; i++) {
    int64_t row = i / c->l->dims->n_head, head = i % c->l->dims->n_head;
    acc_clear(&total, 1);
    for (int span = 0; span < c->n_span; span++) {
      float *p = part_of(c, row, head, span);
      attn_acc part = {.max = {p[0]}, .sum = {p[1]}, .acc = p + 2};
      acc_merge(c->net->kernels, &total, &part, 1, d);
    }
    write_result(c, row, head, total.acc, total.sum[0]);
  }
}

/* Lists the tiles of this pass and decides whether spans become tasks of their own. */
static void plan_pass(attn_ctx *c, int n_items, int64_t n_row) {
  ij_net *net = c->net;
  int64_t max_pos = 0;
  c->n_tile = 0;
  for (int i = 0; i < n_items; i++) {
    const ij_batch_item *item = &c->items[i];
    int64_t end = IJ_MIN(c->q_end, item->n);
    if (end > c->q_begin) max_pos = IJ_MAX(max_pos, item->state->pos + end);
    for (int64_t t = c->q_begin; t < end; t += c->tile_rows, c->n_tile++) {
      net->s.tile_item[c->n_tile] = i;
      net->s.tile_row[c->n_tile] = (int)t;
    }
  }
  int64_t n_span = ij__div_up(max_pos, IJ_ATTN_SPAN);
  c->split = !c->l->sliding && n_span > 1 && n_row <= net->n_part_row && n_span <= net->n_part_span;
  c->n_span = c->split ? (int)n_span : 1;
}

/* Projections, and the convolutions of keys and values. */
static void project(ij_net *net, int layer, const ij_batch_item *items, int64_t n_row) {
  const ij_layer *l = &net->weights->layers[layer];
  ij_scratch *s = &net->s;
  int64_t hidden = net->config->hidden;
  ij_sconv conv[2];
  for (int i = 0; i < 2; i++) {
    conv[i] = (ij_sconv){.items = items, .layer = layer, .conv = i == 0 ? IJ_CONV_K : IJ_CONV_V, .in = s->kv[i], .out = s->kv_conv[i], .n_row = n_row};
    conv[i].n_chan = l->wk.rows;
  }
  ij_gemm g[4] = {{.w = &l->wq, .y = s->q},
                  {.w = &l->wk, .y = s->kv[0], .then = &conv[0]},
                  {.w = &l->wv, .y = s->kv[1], .then = &conv[1]},
                  {.w = &l->wr, .y = s->r}};
  for (int i = 0; i < 4; i++) {
    g[i].x = s->x;
    g[i].ldx = hidden;
    g[i].ldy = g[i].w->rows;
    g[i].n = n_row;
  }
  ij__gemm_run(net, g, 4);
}

void ij__attention(ij_net *net, ij_batch_item *items, int n_items, int64_t n_row, const ij_sconv *then) {
  const ij_layer *l = &net->weights->layers[then->layer];
  ij_scratch *s = &net->s;
  project(net, then->layer, items, n_row);

  attn_ctx c = {.net = net, .l = l, .layer = then->layer, .items = items};
  c.group = l->dims->n_head / l->dims->n_kv_head;
  c.heads_per_task = IJ_MIN(c.group, IJ_ATTN_TILE);
  c.n_head_task = (int)ij__div_up(c.group, c.heads_per_task);
  c.tile_rows = IJ_MAX(IJ_MIN(IJ_ATTN_TILE / c.heads_per_task, IJ_ATTN_TILE_ROWS), 1);

  int64_t n_max = 0;
  for (int i = 0; i < n_items; i++) n_max = IJ_MAX(n_max, items[i].n);
  int64_t step = l->sliding ? IJ_STATE_APPEND : n_max; /* a ring may not run further ahead of its readers */
  for (c.q_begin = 0; c.q_begin < n_max; c.q_begin = c.q_end) {
    c.q_end = c.q_begin + step;
    ij__pool_run(net->pool, n_row, IJ_MIN(8, ij__div_up(n_row, ij__pool_threads(net->pool))), store_rows, &c);
    plan_pass(&c, n_items, n_row);
    ij__pool_run(net->pool, (int64_t)c.n_tile * l->dims->n_kv_head * c.n_head_task * c.n_span, 1, attend_tasks, &c);
    if (c.split) ij__pool_run(net->pool, n_row * l->dims->n_head, 1, merge_parts, &c);
  }

  ij_gemm out = {.w = &l->wo, .x = s->att, .ldx = l->wo.cols, .y = s->y, .ldy = net->config->hidden, .n = n_row, .then = then};
  ij__gemm_run(net, &out, 1);
}
