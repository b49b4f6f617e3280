/* router.c: the sigmoid router with bias-corrected selection and shared experts in the normalization.
 *
 *   z = G x                              E routed logits, then SH shared ones
 *   selected = top k of sigmoid(z) + b   the bias only selects; ties go to the lower index
 *   w = softmax(log sigmoid(z_t)) * route_scale * global_scale over the selected and all shared experts
 *
 * The softmax runs on log-sigmoids, so that very negative logits keep their ratio instead of underflowing.
 */
#include "model/router.h"

#include <math.h>

typedef struct route_ctx {
  ij_net *net;
  const ij_layer *l;
} route_ctx;

/* The k largest of score[0, n), ascending by index; score is overwritten. NaN never wins over a number. */
static void select_top(float *score, int n, int k, int *ids) {
  for (int j = 0; j < k; j++) {
    int best = -1;
    for (int e = 0; e < n; e++) {
      if (isnan(score[e])) continue;
      if (best < 0 || score[e] > score[best]) best = e;
    }
    if (best < 0) { /* only NaN left: take the first not yet taken, the row is reported as not finite later */
      best = 0;
      for (int i = 0; i < j; i++) best = ids[i] == best ? best + 1 : best;
    }
    score[best] = NAN;
    int at = j;
    for (; at > 0 && ids[at - 1] > best; at--) ids[at] = ids[at - 1];
    ids[at] = best;
  }
}

void ij__route_select(const ij_net *net, const ij_layer *l, const float *z, float *score, int *ids) {
  int n_expert = net->config->n_expert;
  net->kernels->vsigmoid(score, z, n_expert);
  net->kernels->add(score, l->router_bias, n_expert);
  select_top(score, n_expert, net->config->n_expert_used, ids);
}

/* w[0, n): logits -> normalized weights that sum to `total`. e, t: room for n floats each. */
static void weights_from_logits(const ij_kernels *k, float *w, int n, float total, float *e, float *t) {
  for (int i = 0; i < n; i++) e[i] = -fabsf(w[i]);
  k->vexp(e, e, n);
  for (int i = 0; i < n; i++) e[i] = 1.0f + e[i];
  k->vlog(t, e, n);
  for (int i = 0; i < n; i++) w[i] = (w[i] < 0.0f ? w[i] : 0.0f) - t[i]; /* log sigmoid */
  float max = w[0];
  for (int i = 1; i < n; i++) max = w[i] > max ? w[i] : max;
  for (int i = 0; i < n; i++) e[i] = w[i] - max;
  k->vexp(e, e, n);
  float sum = 0.0f;
  for (int i = 0; i < n; i++) sum += e[i];
  for (int i = 0; i < n; i++) w[i] = e[i] / sum * total;
}

static void route_rows(void *ctx, int worker, int64_t i0, int64_t i1) {
  const route_ctx *c = ctx;
  const ij_config *cfg = c->net->config;
  const ij_scratch *s = &c->net->s;
  int n_expert = cfg->n_expert, k = cfg->n_expert_used, n_shared = cfg->n_shared;
  float total = cfg->route_scale * c->l->global_scale;
  float *score = ij__worker_scratch(c->net, worker), *e = score + n_expert, *t = e + k + n_shared;
  for (int64_t row = i0; row < i1; row++) {
    const float *z = s->router + row * (n_expert + n_shared);
    int *ids = s->route_id + row * k;
    float *w = s->route_weight + row * (k + n_shared);
    ij__route_select(c->net, c->l, z, score, ids);
    for (int j = 0; j < k; j++) w[j] = z[ids[j]];
    for (int j = 0; j < n_shared; j++) w[k + j] = z[n_expert + j];
    weights_from_logits(c->net->kernels, w, k + n_shared, total, e, t);
    /* A logit that is not finite might just not be chosen, and the damage would stay silent: the row itself is made to tell. */
    if (!c->net->kernels->all_finite(z, n_expert + n_shared)) w[0] = NAN;
  }
}

void ij__route(ij_net *net, int layer, int64_t n_row) {
  const ij_layer *l = &net->weights->layers[layer];
  ij_gemm g = {.w = &l->router, .x = net->s.x, .ldx = net->config->hidden, .y = net->s.router, .ldy = l->router.rows, .n = n_row};
  ij__gemm_run(net, &g, 1);
  route_ctx c = {net, l};
  ij__pool_run(net->pool, n_row, 8, route_rows, &c);
}
