/* sconv.c: the short convolution over rows of a batch, each row reading the K - 1 rows before it: from the batch itself, from the
 * ring of the session's state, or zeros before the beginning. Raw inputs go into the ring afterwards, when nobody reads it any more.
 */
#include <string.h>

#include "model/net.h"

typedef struct sconv_ctx {
  ij_net *net;
  int layer, conv;
  ij_batch_item *items;
  const float *in;
  float *out;
  bool add;
  int64_t n_chan;
} sconv_ctx;

static void sconv_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  const sconv_ctx *c = ctx;
  const ij_net *net = c->net;
  int n_tap = net->config->conv_kernel;
  const float *taps = net->weights->layers[c->layer].conv[c->conv];
  float *tmp = ij__worker_scratch(net, worker);
  for (int64_t row = i0; row < i1; row++) {
    const ij_batch_item *item = &c->items[net->s.row_item[row]];
    int64_t t = net->s.row_at[row];
    const float *u[IJ_MAX_CONV_KERNEL];
    for (int j = 0; j < n_tap; j++) {
      int64_t back = n_tap - 1 - j, pos = item->state->pos + t - back;
      if (t >= back) {
        u[j] = c->in + (row - back) * c->n_chan;
      } else {
        u[j] = pos >= 0 ? ij__state_conv_row(item->state, c->layer, c->conv, pos) : net->s.zeros;
      }
    }
    float *out = c->out + row * c->n_chan;
    net->kernels->short_conv(c->add ? tmp : out, u, taps, n_tap, c->n_chan);
    if (c->add) net->kernels->add(out, tmp, c->n_chan);
  }
}

static void remember_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  const sconv_ctx *c = ctx;
  for (int64_t row = i0; row < i1; row++) {
    const ij_batch_item *item = &c->items[c->net->s.row_item[row]];
    int64_t t = c->net->s.row_at[row];
    if (t < item->n - item->state->cap_conv) continue; /* a later row of this step takes the slot */
    memcpy(ij__state_conv_row(item->state, c->layer, c->conv, item->state->pos + t), c->in + row * c->n_chan,
           (size_t)c->n_chan * sizeof(float));
  }
}

void ij__sconv(ij_net *net, int layer, int conv, ij_batch_item *items, int n_items, const float *in, float *out, bool add) {
  const ij_batch_item *last = &items[n_items - 1];
  int64_t n_row = last->row0 + last->n;
  sconv_ctx c = {.net = net, .layer = layer, .conv = conv, .items = items, .in = in, .out = out, .add = add};
  c.n_chan = items[0].state->layers[layer].spec.n_chan[conv];
  ij__pool_run(net->pool, n_row, 4, sconv_rows, &c);
  ij__pool_run(net->pool, n_row, 16, remember_rows, &c);
}
