/* forward.c: THE main path. A batch of token rows goes through the network from top to bottom.
 *
 * Rows of different sessions share every pass over the weights; only the short convolutions and attention look at a row's own
 * past. No result of a row depends on which other rows are in the batch: that is what makes chunking, batching and rollback exact.
 */
#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "model/gemm.h"
#include "model/net.h"

typedef struct forward_ctx {
  ij_net *net;
  ij_batch_item *items;
  int n_items;
  int layer;
  const float *gain;
  const float *in;
  float *out;
  _Atomic bool lost;     /* a row of the embedding table could not be read */
  int64_t n_head, rows;  /* of the head: rows whose logits are wanted, rows of weights per index of its loop */
  const ij_ints *head_ints; /* input of the head, where it is multiplied in integers */
} forward_ctx;

/* y = embed[id]. False: it could not be read from its file. */
static bool embed_one(const ij_net *net, float *y, int32_t id, int worker) {
  ij_row_file *file = net->weights->embed_file;
  ij_weight row;
  if (!file) {
    ij__weight_row(net, y, &net->weights->embed, id);
    return true;
  }
  if (!ij__row_file_read(file, id, (char *)ij__worker_scratch(net, worker), &row)) return false;
  ij__weight_row(net, y, &row, 0);
  return true;
}

/* h[row] = RMSNorm(embed[id]), or the row of a medium as it is */
static void embed_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  forward_ctx *c = ctx;
  const ij_net *net = c->net;
  int64_t hidden = net->config->hidden;
  for (int64_t row = i0; row < i1; row++) {
    const ij_batch_item *item = &c->items[net->s.row_item[row]];
    float *h = net->s.h + row * hidden;
    if (net->s.row_media[row]) {
      memcpy(h, net->s.row_media[row], (size_t)hidden * sizeof *h);
    } else if (embed_one(net, h, item->ids[net->s.row_at[row]], worker)) {
      net->kernels->rms_norm(h, h, net->weights->embed_norm, net->config->eps, hidden);
    } else {
      c->lost = true;
    }
  }
}

static ij_status embed(forward_ctx *c, int64_t n_row) {
  ij_net *net = c->net;
  assert(!net->weights->embed_file || ij__row_file_room(net->weights->embed_file) <= (size_t)net->s.worker_floats * sizeof(float));
  ij__pool_run(net->pool, n_row, 4, embed_rows, c);
  if (!c->lost) return IJ_OK;
  net->why = &net->row_error;
  return ij__row_file_explain(net->weights->embed_file, &net->row_error);
}

static void norm_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  forward_ctx *c = ctx;
  int64_t hidden = c->net->config->hidden;
  for (int64_t row = i0; row < i1; row++) {
    c->net->kernels->rms_norm(c->out + row * hidden, c->in + row * hidden, c->gain, c->net->config->eps, hidden);
  }
}

static void norm(forward_ctx *c, float *out, const float *in, const float *gain, int64_t n_row) {
  c->out = out;
  c->in = in;
  c->gain = gain;
  ij__pool_run(c->net->pool, n_row, 4, norm_rows, c);
}

/* Notes the first point (0: embedding, 1 + i: layer i) at which a row of h stopped being finite. */
static void check_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  forward_ctx *c = ctx;
  const ij_net *net = c->net;
  int64_t hidden = net->config->hidden;
  for (int64_t row = i0; row < i1; row++) {
    if (net->s.bad[row] == 0 && !net->kernels->all_finite(net->s.h + row * hidden, hidden)) net->s.bad[row] = c->layer + 1;
  }
}

/* The end of each step on h: `point` 0 is the embedding, 1 + i layer i. */
static void observe(forward_ctx *c, int point, int64_t n_row) {
  c->layer = point;
  ij__pool_run(c->net->pool, n_row, 16, check_rows, c);
  size_t hidden = (size_t)c->net->config->hidden;
  for (int i = 0; i < c->n_items; i++) {
    const ij_batch_item *item = &c->items[i];
    if (!item->trace) continue;
    memcpy(item->trace + (size_t)(point * item->trace_ld) * hidden, c->net->s.h + (size_t)item->row0 * hidden,
           (size_t)item->n * hidden * sizeof(float));
  }
}

static ij_status decoder_layer(forward_ctx *c, int layer, int64_t n_row) {
  ij_net *net = c->net;
  const ij_layer *l = &net->weights->layers[layer];
  ij_scratch *s = &net->s;
  ij_sconv into_h = {.items = c->items, .layer = layer, .in = s->y, .out = s->h, .n_row = n_row, .n_chan = net->config->hidden, .add = true};

  norm(c, s->x, s->h, l->attn_norm, n_row);
  into_h.conv = IJ_CONV_ATTN;
  ij__attention(net, c->items, c->n_items, n_row, &into_h); /* y = attention(x), h += sconv(y) */

  norm(c, s->x, s->h, l->mlp_norm, n_row);
  into_h.conv = IJ_CONV_MLP;
  return ij__mlp(net, n_row, &into_h);                      /* y = mlp(x), dense or experts; h += sconv(y) */
}

static bool wants_logits(const ij_batch_item *item) { return item->logits_all || item->logits_last; }

/* head_in[i] = RMSNorm(h[row]; norm) / mup for the rows whose logits are wanted, gathered; returns their number. */
static int64_t gather_head_rows(forward_ctx *c) {
  const ij_net *net = c->net;
  int64_t hidden = net->config->hidden, n = 0;
  float inv_mup = 1.0f / net->config->logit_divisor;
  for (int i = 0; i < c->n_items; i++) {
    const ij_batch_item *item = &c->items[i];
    if (!wants_logits(item)) continue;
    for (int64_t t = item->logits_all ? 0 : item->n - 1; t < item->n; t++, n++) {
      float *x = net->s.head_in + n * hidden;
      net->kernels->rms_norm(x, net->s.h + (item->row0 + t) * hidden, net->weights->norm, net->config->eps, hidden);
      net->kernels->scale(x, x, inv_mup, hidden);
    }
  }
  return n;
}

/* Where the logits of one row alone go: they need no copy. NULL: several rows are wanted. */
static float *only_row(const forward_ctx *c) {
  for (int i = 0; c->n_head == 1; i++) {
    if (wants_logits(&c->items[i])) return c->items[i].logits_all ? c->items[i].logits_all : c->items[i].logits_last;
  }
  return NULL;
}

/* Columns [r0, r0 + n) of all rows of logits are looked at and, unless they are there already, copied to where the items want them. */
static void scatter_logits(const forward_ctx *c, const float *tile, int64_t r0, int64_t n) {
  int64_t n_vocab = c->net->config->unpadded_vocab;
  for (int i = 0; i < c->n_items; i++) {
    ij_batch_item *item = &c->items[i];
    if (!wants_logits(item)) continue;
    float *to = item->logits_all ? item->logits_all : item->logits_last;
    for (int64_t t = item->logits_all ? 0 : item->n - 1; t < item->n; t++, to += n_vocab, tile += n) {
      if (!c->net->kernels->all_finite(tile, n)) item->bad_logits = true;
      if (to + r0 != tile) memcpy(to + r0, tile, (size_t)n * sizeof *to);
    }
  }
}

/* Fetches the places of columns [r0, r0 + n) of items that want one row: they were last seen by whoever chose an id, and copying would
 * wait for them. */
static void fetch_places(const forward_ctx *c, int64_t r0, int64_t n) {
  for (int i = 0; i < c->n_items; i++) {
    const ij_batch_item *item = &c->items[i];
    const float *to = item->logits_all ? NULL : item->logits_last;
    for (int64_t j = 0; to && j < n; j += 16) __builtin_prefetch(to + r0 + j, 1);
  }
}

/* One chunk of unembedding rows for the rows of all items together: its weights are read and decoded once. */
static void head_chunks(void *ctx, int worker, int64_t i0, int64_t i1) {
  const forward_ctx *c = ctx;
  const ij_net *net = c->net;
  int64_t hidden = net->config->hidden, n_vocab = net->config->unpadded_vocab;
  int64_t r0 = i0 * c->rows, n = IJ_MIN(i1 * c->rows, n_vocab) - r0;
  float *only = only_row(c), *tile = only ? only + r0 : ij__worker_scratch(net, worker) + IJ_MATMUL_SCRATCH;
  const ij_weight *w = &net->weights->unembed, part = ij__weight_from(*w, r0);
  ij_product p = {.x = net->s.head_in, .y = tile, .ldx = hidden, .ldy = n, .n = c->n_head, .loop = net->loop};
  p.ints = c->head_ints;
  p.ld_ints = ij__int_blocks(hidden);
  int64_t next = ij__likely_next(net, r0, r0 + n);
  ij__product_announce(&p, w, w, next, IJ_MIN(n, n_vocab - next), p.n);
  if (!only) fetch_places(c, r0, n);
  ij__product_rows(net, &part, &p, 0, n, worker);
  scatter_logits(c, tile, r0, n);
}

/* logits = head_in * unembed^T over the ids that exist; padding rows are never computed. */
static void head(forward_ctx *c) {
  ij_net *net = c->net;
  const ij_weight *w = &net->weights->unembed;
  int64_t n_vocab = net->config->unpadded_vocab, n_row = c->n_head = gather_head_rows(c);
  if (n_row == 0) return;
  ij_cut cut = ij__gemm_cut(net, n_vocab, ij__dtype_row_bytes(w->dtype, w->cols), n_row, IJ_CHUNK_ROWS_MANY);
  c->rows = cut.rows;
  c->head_ints = ij__dtype_in_integers(w->dtype) ? ij__ints_of(net, net->s.head_in, w->cols, n_row, w->cols, 0) : NULL;
  net->loop++;
  ij__pool_run(net->pool, ij__div_up(n_vocab, cut.rows), cut.most, head_chunks, c);
  for (int i = 0; i < c->n_items; i++) {
    ij_batch_item *item = &c->items[i];
    if (item->logits_all && item->logits_last) memcpy(item->logits_last, item->logits_all + (item->n - 1) * n_vocab, (size_t)n_vocab * sizeof(float));
    if (item->status == IJ_OK && item->bad_logits) {
      item->status = IJ_E_NUMERIC;
      item->bad_point = net->config->n_layer + 1;
    }
  }
}

/* Rows that stopped being finite fail their item, which names the first point. */
static void collect_bad(forward_ctx *c) {
  for (int i = 0; i < c->n_items; i++) {
    ij_batch_item *item = &c->items[i];
    for (int64_t t = 0; t < item->n; t++) {
      int bad = c->net->s.bad[item->row0 + t];
      if (bad && (item->status == IJ_OK || bad - 1 < item->bad_point)) {
        item->status = IJ_E_NUMERIC;
        item->bad_point = bad - 1;
      }
    }
  }
}

static int64_t number_rows(ij_net *net, ij_batch_item *items, int n_items) {
  int64_t n_row = 0;
  for (int i = 0; i < n_items; i++) {
    items[i].row0 = n_row;
    items[i].status = IJ_OK;
    items[i].bad_point = -1;
    items[i].bad_logits = false;
    for (int64_t t = 0; t < items[i].n; t++, n_row++) {
      net->s.row_item[n_row] = i;
      net->s.row_at[n_row] = (int)t;
      net->s.row_media[n_row] = items[i].media ? items[i].media[t] : NULL;
      net->s.bad[n_row] = 0;
    }
  }
  return n_row;
}

/* The rings have been written up to the end of the step whatever became of it; `pos` moves only on success. */
static void commit(ij_batch_item *items, int n_items) {
  for (int i = 0; i < n_items; i++) {
    ij_state *st = items[i].state;
    int64_t end = st->pos + items[i].n;
    st->high = IJ_MAX(st->high, end);
    if (items[i].status == IJ_OK) st->pos = end;
  }
}

/* From the ids to the end of the last layer. Another status than IJ_OK: weights could not be read, and net->why says which. */
static ij_status run_layers(forward_ctx *c, int64_t n_row) {
  ij_status status = embed(c, n_row);
  if (status == IJ_OK) observe(c, 0, n_row);
  for (int layer = 0; layer < c->net->config->n_layer && status == IJ_OK; layer++) {
    status = decoder_layer(c, layer, n_row);
    if (status == IJ_OK) observe(c, 1 + layer, n_row);
  }
  return status;
}

void ij__forward(ij_net *net, ij_batch_item *items, int n_items) {
  forward_ctx c = {.net = net, .items = items, .n_items = n_items};
  int64_t n_row = number_rows(net, items, n_items);

  ij__predict_begin(net, n_row);
  ij_status status = run_layers(&c, n_row);
  if (status == IJ_OK) {
    collect_bad(&c);
    head(&c);
  }
  for (int i = 0; i < n_items && status != IJ_OK; i++) items[i].status = status;
  commit(items, n_items);
  ij__predict_end(net, n_row);
}
