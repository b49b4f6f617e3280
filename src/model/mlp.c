/* mlp.c: the second half of a layer. A dense MLP, a shared expert and a routed expert are all one thing, a SwiGLU over some of the
 * rows with one weight per row; this file lists them and runs the list.
 *
 * Each output value is summed over the list in its order (routed experts ascending, then shared), by whichever worker owns its
 * column: the sum of a row has one order whatever else is in the batch.
 */
#include <assert.h>
#include <string.h>

#include "model/gemm.h"
#include "model/net.h"
#include "model/router.h"

typedef struct ffn_ctx {
  ij_net *net;
  ij_ffn *ffns;
  int n_ffn;
  const float *x;
  float *y;
  int64_t n_row, hidden, width;
  int64_t rows, per_ffn; /* rows per index of the loop; indices per SwiGLU */
  bool accumulate;
  const ij_sconv *then; /* of y, where this list is the last of the layer */
  const ij_ints *ints;  /* rows of x, or of act by the number of the pair; NULL where no product is in integers */
} ffn_ctx;

/* Gate and up rows lie in turns in one matrix: then they are read as one, in the order of memory. */
static bool in_turns(const ij_ffn *f, ij_weight *both) {
  const ij_weight *g = &f->gate, *u = &f->up;
  int64_t row = ij__dtype_row_bytes(g->dtype, g->cols), side = g->side_stride / 2;
  if (g->dtype != u->dtype || g->has_factor != u->has_factor || g->factor != u->factor || g->row_stride != 2 * row || (const char *)u->data != (const char *)g->data + row) return false;
  if (g->scales && (const char *)u->scales != (const char *)g->scales + side) return false;
  if (g->biases && (const char *)u->biases != (const char *)g->biases + side) return false;
  *both = *g;
  both->rows = 2 * g->rows;
  both->row_stride = row;
  both->side_stride = side;
  return true;
}

/* act = silu(gate x) * (up x) for values [r0, r1) of the width of one SwiGLU; next, from value `row` on, is this worker's next or NULL. */
static void ffn_in_part(const ffn_ctx *c, const ij_ffn *f, int64_t r0, int64_t r1, const ij_ffn *next, int64_t row, int worker) {
  const ij_kernels *k = c->net->kernels;
  int64_t w = c->width, n = r1 - r0;
  ij_product p = {.x = f->x, .rows = f->listed, .y = f->gu, .ldx = f->ldx, .ldy = 2 * w, .n = f->n, .loop = c->net->loop};
  p.ints = c->ints;
  p.int_rows = f->rows;
  p.ld_ints = ij__int_blocks(c->hidden);
  ij_weight both, both_next;
  bool turns = in_turns(f, &both);
  if (turns) {
    if (next && in_turns(next, &both_next)) ij__product_announce(&p, &both, &both_next, 2 * row, 2 * n, next->n);
    ij__product_rows(c->net, &both, &p, 2 * r0, 2 * r1, worker);
  } else {
    ij__product_announce(&p, &f->gate, &f->up, r0, n, f->n);
    ij__product_rows(c->net, &f->gate, &p, r0, r1, worker);
    p.y = f->gu + w;
    p.next = NULL;
    if (next) ij__product_announce(&p, &f->up, &next->gate, row, n, next->n);
    ij__product_rows(c->net, &f->up, &p, r0, r1, worker);
  }
  for (int64_t t = 0; t < f->n; t++) {
    float *act = f->act + t * w + r0;
    const float *gu = f->gu + 2 * t * w;
    if (turns) {
      k->swiglu_pairs(act, gu + 2 * r0, r1 - r0);
    } else {
      k->swiglu(act, gu + r0, gu + w + r0, r1 - r0);
    }
  }
}

/* Later SwiGLUs first: the shared ones, over all rows, are last in the list and the longest. */
static void ffn_in_chunks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const ffn_ctx *c = ctx;
  int64_t later = ij__likely_next(c->net, i0, i1);
  while (i0 < i1) {
    int64_t j = i0 / c->per_ffn, first = j * c->per_ffn, end = IJ_MIN(i1, first + c->per_ffn), next = end < i1 ? end : later;
    const ij_ffn *f = &c->ffns[c->n_ffn - 1 - j], *next_f = next < c->n_ffn * c->per_ffn ? f - (next / c->per_ffn - j) : NULL;
    ffn_in_part(c, f, (i0 - first) * c->rows, IJ_MIN((end - first) * c->rows, c->width), next_f, next % c->per_ffn * c->rows, worker);
    i0 = end;
  }
}

/* The number of the first (row, SwiGLU) pair of f in scratch. */
static int64_t pair_of(const ij_net *net, const ij_ffn *f) { return (f->act - net->s.ffn_act) / f->down.cols; }

/* y += weight * down(act) for one chunk of columns of y, over all SwiGLUs in order. */
static void ffn_out_chunks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const ffn_ctx *c = ctx;
  float *tile = ij__worker_scratch(c->net, worker) + IJ_MATMUL_SCRATCH;
  int64_t r0 = i0 * c->rows, n = IJ_MIN(i1 * c->rows, c->hidden) - r0;
  if (!c->accumulate) {
    for (int64_t row = 0; row < c->n_row; row++) memset(c->y + row * c->hidden + r0, 0, (size_t)n * sizeof(float));
  }
  for (int j = 0; j < c->n_ffn; j++) {
    const ij_ffn *f = &c->ffns[j];
    ij_weight part = ij__weight_from(f->down, r0);
    ij_product p = {.x = f->act, .y = tile, .ldx = c->width, .ldy = n, .n = f->n, .loop = c->net->loop};
    p.ld_ints = ij__int_blocks(c->width);
    if (c->ints) p.ints = c->ints + pair_of(c->net, f) * p.ld_ints;
    if (j + 1 < c->n_ffn) ij__product_announce(&p, &part, &c->ffns[j + 1].down, r0, n, c->ffns[j + 1].n);
    ij__product_rows(c->net, &part, &p, 0, n, worker);
    for (int64_t t = 0; t < f->n; t++) {
      int64_t row = f->rows ? f->rows[t] : t;
      c->net->kernels->axpy(c->y + row * c->hidden + r0, f->weight[t], tile + t * n, n);
    }
  }
  if (c->then) ij__sconv(c->net, c->then, r0, r0 + n, worker);
}

/* Copies the input rows of routed experts together, where they must be. */
static void gather_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  const ffn_ctx *c = ctx;
  for (int64_t i = i0; i < i1; i++) {
    const ij_ffn *f = &c->ffns[i];
    if (!f->gather) continue;
    float *to = c->net->s.gathered + (f->x - c->net->s.gathered);
    for (int64_t t = 0; t < f->n; t++) memcpy(to + t * c->hidden, c->x + f->rows[t] * c->hidden, (size_t)c->hidden * sizeof(float));
  }
}

/* For w_rows rows in all, each of which takes `per_row` rows of a matrix like w. */
static ij_cut ffn_cut(const ffn_ctx *c, int64_t w_rows, const ij_weight *w, int64_t per_row, int64_t many) {
  int64_t n_max = 0, row_bytes = per_row * ij__dtype_row_bytes(w->dtype, w->cols);
  for (int j = 0; j < c->n_ffn; j++) n_max = IJ_MAX(n_max, c->ffns[j].n);
  return ij__gemm_cut(c->net, w_rows, row_bytes, n_max, many);
}

static ffn_ctx context(ij_net *net, ij_ffn *ffns, int n_ffn, const float *x, int64_t n_row) {
  return (ffn_ctx){.net = net, .ffns = ffns, .n_ffn = n_ffn, .x = x, .n_row = n_row, .hidden = net->config->hidden, .width = ffns[0].gate.rows};
}

/* Rows that lie at one distance, as one or two always do, are used where they are. */
static bool evenly_apart(const int *rows, int64_t n) {
  for (int64_t t = 2; t < n; t++) {
    if (rows[t] - rows[t - 1] != rows[1] - rows[0]) return false;
  }
  return true;
}

/* The first half of a list: act of each, in scratch for (row, SwiGLU) pairs from number `pair` on. */
static void ffn_in(ij_net *net, ij_ffn *ffns, int n_ffn, const float *x, int64_t n_row, int64_t pair) {
  ffn_ctx c = context(net, ffns, n_ffn, x, n_row);
  bool ints = false;
  float *gathered = net->s.gathered, *gu = net->s.ffn_gu + 2 * pair * c.width, *act = net->s.ffn_act + pair * c.width;
  for (int j = 0; j < n_ffn; j++) {
    ij_ffn *f = &ffns[j];
    assert(f->gate.rows == c.width);
    const bool in_integers = ij__dtype_in_integers(f->gate.dtype), up_too = ij__dtype_in_integers(f->up.dtype);
    bool few = f->rows && f->n < IJ_LISTED_MIN;
    f->listed = few ? NULL : f->rows;
    f->gather = few && !evenly_apart(f->rows, f->n) && !(in_integers && up_too && net->s.ints);
    ints = ints || in_integers || up_too;
    f->x = f->gather ? gathered : few ? x + f->rows[0] * c.hidden : x;
    f->ldx = few && !f->gather && f->n > 1 ? (f->rows[1] - f->rows[0]) * c.hidden : c.hidden;
    f->gu = gu;
    f->act = act;
    if (f->gather) gathered += f->n * c.hidden;
    gu += 2 * f->n * c.width;
    act += f->n * c.width;
  }
  if (gathered != net->s.gathered) ij__pool_run(net->pool, n_ffn, 1, gather_rows, &c);

  if (ints) c.ints = ij__ints_of(net, x, c.hidden, n_row, c.hidden, 0);

  ij_cut cut = ffn_cut(&c, n_ffn * c.width, &ffns[0].gate, 2, IJ_CHUNK_WIDTH_MANY);
  c.rows = cut.rows;
  c.per_ffn = ij__div_up(c.width, cut.rows);
  net->loop++;
  ij__pool_run(net->pool, n_ffn * c.per_ffn, cut.most, ffn_in_chunks, &c);
}

/* act of those whose down is multiplied in integers as such, as many at a time as follow each other in scratch. */
static const ij_ints *act_ints(ij_net *net, const ij_ffn *ffns, int n_ffn, int64_t width) {
  if (!net->s.ints) return NULL;
  bool any = false;
  for (int j = 0, end; j < n_ffn; j = end) {
    int64_t n = ffns[j].n;
    for (end = j + 1; end < n_ffn && ffns[end].act == ffns[j].act + n * width; end++) n += ffns[end].n;
    bool some = false;
    for (int i = j; i < end; i++) some = some || ij__dtype_in_integers(ffns[i].down.dtype);
    if (some) ij__ints_of(net, ffns[j].act, width, n, width, pair_of(net, &ffns[j]));
    any = any || some;
  }
  return any ? net->s.ints : NULL;
}

/* The second half: y = or += the sum over the list. */
static void ffn_out(ij_net *net, ij_ffn *ffns, int n_ffn, float *y, int64_t n_row, bool accumulate, const ij_sconv *then) {
  ffn_ctx c = context(net, ffns, n_ffn, NULL, n_row);
  c.y = y;
  c.accumulate = accumulate;
  c.then = then;
  c.ints = act_ints(net, ffns, n_ffn, c.width);
  ij_cut cut = ffn_cut(&c, c.hidden, &ffns[0].down, n_ffn, IJ_CHUNK_COLUMNS_MANY);
  c.rows = cut.rows;
  net->loop++;
  ij__pool_run(net->pool, ij__div_up(c.hidden, cut.rows), cut.most, ffn_out_chunks, &c);
}

static void dense_mlp(ij_net *net, const ij_layer *l, int64_t n_row, const ij_sconv *then) {
  for (int64_t t = 0; t < n_row; t++) net->s.row_weight[t] = l->global_scale;
  ij_ffn f = {.gate = l->mlp.gate, .up = l->mlp.up, .down = l->mlp.down, .weight = net->s.row_weight, .n = n_row};
  ffn_in(net, &f, 1, net->s.x, n_row, 0);
  ffn_out(net, &f, 1, net->s.y, n_row, false, then);
}

/* Sorts the routed (row, expert) pairs by expert; rows stay ascending. Returns the number of experts in use, listed ascending. */
static int group_by_expert(ij_net *net, int64_t n_row) {
  ij_scratch *s = &net->s;
  int k = net->config->n_expert_used, n_expert = net->config->n_expert, n_used = 0;
  int64_t ld = k + net->config->n_shared;
  memset(s->expert_count, 0, (size_t)n_expert * sizeof *s->expert_count);
  for (int64_t i = 0; i < n_row * k; i++) s->expert_count[s->route_id[i]]++;
  for (int e = 0, start = 0; e < n_expert; e++) {
    s->expert_start[e] = start;
    start += s->expert_count[e];
    if (s->expert_count[e]) s->expert_ids[n_used++] = e;
    s->expert_count[e] = 0;
  }
  for (int64_t row = 0; row < n_row; row++) {
    for (int j = 0; j < k; j++) {
      int e = s->route_id[row * k + j];
      int at = s->expert_start[e] + s->expert_count[e]++;
      s->expert_rows[at] = (int)row;
      s->row_weight[at] = s->route_weight[row * ld + j];
    }
  }
  return n_used;
}

static void list_shared(ij_net *net, const ij_layer *l, int64_t n_row, ij_ffn *out) {
  ij_scratch *s = &net->s;
  int k = net->config->n_expert_used, n_shared = net->config->n_shared;
  for (int i = 0; i < n_shared; i++) {
    float *weight = s->row_weight + n_row * (k + i);
    for (int64_t row = 0; row < n_row; row++) weight[row] = s->route_weight[row * (k + n_shared) + k + i];
    const ij_mlp *m = &l->shared[i];
    out[i] = (ij_ffn){.gate = m->gate, .up = m->up, .down = m->down, .weight = weight, .n = n_row};
  }
}

static void list_leased(ij_net *net, int layer, int done, int n, ij_ffn *out) {
  ij_scratch *s = &net->s;
  (void)layer;
  for (int i = 0; i < n; i++) {
    const ij_expert_lease *lease = &s->leases[i];
    int e = s->expert_ids[done + i];
    assert(lease->layer == layer && lease->expert == e);
    out[i] = (ij_ffn){.gate = lease->gate, .up = lease->up, .down = lease->down, .rows = s->expert_rows + s->expert_start[e],
                      .weight = s->row_weight + s->expert_start[e], .n = s->expert_count[e]};
  }
}

/* Runs the experts that the router chose, as many at a time as their home hands out, and the shared ones with the last of them. Where
 * experts take time to come, the first half of the shared ones is computed meanwhile, behind the place of all routed ones in the scratch;
 * elsewhere it runs with that of the last routed ones, which saves a loop of the pool. The order of the sum is the same. */
static ij_status moe(ij_net *net, int64_t n_row, const ij_sconv *then) {
  int layer = then->layer;
  ij_scratch *s = &net->s;
  ij_experts *home = net->weights->experts;
  int n_shared = net->config->n_shared;
  ij__route(net, layer, n_row);
  int n_used = group_by_expert(net, n_row);
  ij__experts_want(home, layer, s->expert_ids, n_used, IJ_WANT_SURE);
  list_shared(net, &net->weights->layers[layer], n_row, s->shared_ffns);
  bool apart = n_shared > 0 && ij__experts_can_guess(home);
  if (apart) ffn_in(net, s->shared_ffns, n_shared, s->x, n_row, n_row * net->config->n_expert_used);
  for (int done = 0; done < n_used;) {
    int got = ij__experts_acquire(home, layer, s->expert_ids + done, n_used - done, s->leases);
    if (got < 0) {
      net->why = ij__experts_error(home);
      return (ij_status)got;
    }
    if (done == 0) ij__predict_next(net, layer, n_row); /* the drive has nothing more to read for this layer, or soon has not */
    list_leased(net, layer, done, got, s->ffns);
    bool first = done == 0, last = done + got == n_used;
    int n_all = got;
    if (last) {
      memcpy(s->ffns + got, s->shared_ffns, (size_t)n_shared * sizeof *s->ffns);
      n_all += n_shared;
    }
    ffn_in(net, s->ffns, apart ? got : n_all, s->x, n_row, 0);
    ffn_out(net, s->ffns, n_all, s->y, n_row, !first, last ? then : NULL);
    ij__experts_release(home, s->leases, got);
    done += got;
  }
  return IJ_OK;
}

ij_status ij__mlp(ij_net *net, int64_t n_row, const ij_sconv *then) {
  const ij_layer *l = &net->weights->layers[then->layer];
  if (!l->dense) return moe(net, n_row, then);
  ij__predict_next(net, then->layer, n_row);
  dense_mlp(net, l, n_row, then);
  return IJ_OK;
}
