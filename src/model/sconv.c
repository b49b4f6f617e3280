/* sconv.c: the short convolution over rows of a batch, each row reading the K - 1 rows before it: from the batch itself, from the
 * ring of the session's state, or zeros before the beginning. Raw inputs go into the ring afterwards, when nobody reads it any more.
 *
 * A channel looks at no other channel: whoever has computed some columns of all rows goes on with their convolution.
 */
#include <string.h>

#include "model/net.h"

static void conv_row(const ij_net *net, const ij_sconv *c, int64_t row, int64_t c0, int64_t n, float *tmp) {
  int n_tap = net->config->conv_kernel;
  const ij_batch_item *item = &c->items[net->s.row_item[row]];
  int64_t t = net->s.row_at[row];
  const float *u[IJ_MAX_CONV_KERNEL];
  for (int j = 0; j < n_tap; j++) {
    int64_t back = n_tap - 1 - j, pos = item->state->pos + t - back;
    if (t >= back) {
      u[j] = c->in + (row - back) * c->n_chan + c0;
    } else {
      u[j] = (pos >= 0 ? ij__state_conv_row(item->state, c->layer, c->conv, pos) : net->s.zeros) + c0;
    }
  }
  const float *taps = net->weights->layers[c->layer].conv[c->conv] + c0;
  float *out = c->out + row * c->n_chan + c0;
  net->kernels->short_conv(c->add ? tmp : out, u, taps, c->n_chan, n_tap, n);
  if (c->add) net->kernels->add(out, tmp, n);
}

static void remember_row(const ij_net *net, const ij_sconv *c, int64_t row, int64_t c0, int64_t n) {
  const ij_batch_item *item = &c->items[net->s.row_item[row]];
  int64_t t = net->s.row_at[row];
  if (t < item->n - item->state->cap_conv) return; /* a later row of this step takes the slot */
  memcpy(ij__state_conv_row(item->state, c->layer, c->conv, item->state->pos + t) + c0, c->in + row * c->n_chan + c0, (size_t)n * sizeof(float));
}

void ij__sconv(const ij_net *net, const ij_sconv *c, int64_t c0, int64_t c1, int worker) {
  for (int64_t row = 0; row < c->n_row; row++) conv_row(net, c, row, c0, c1 - c0, ij__worker_scratch(net, worker));
  for (int64_t row = 0; row < c->n_row; row++) remember_row(net, c, row, c0, c1 - c0);
}
