/* predict.c: see predict.h. */
#include "model/predict.h"

#include <string.h>

#include "core/os.h"
#include "model/net.h"
#include "model/router.h"

#define STRETCH 8          /* rows with, or without, in turns */
#define N_STRETCH 8        /* of a comparison: on off off on on off off on, so that what changes steadily counts for both */
#define PAUSE 512          /* rows between the first two comparisons */
#define PAUSE_MAX 16384
#define WORTH 0.97         /* of the cost without guesses; above that they stay off */
#define KEEP 0.5           /* of an earlier comparison: rows differ so much that one alone errs too often */
#define RECALL 0.125       /* share of guesses that must have been right: below, the drive reads for nothing */

/* ------------------------------------------------------------------------------------------------------- with or without */

static void start_comparing(ij_predictor *p, int64_t n_guess, int64_t n_used) {
  p->comparing = true;
  p->i_stretch = 0;
  p->left = STRETCH;
  for (int i = 0; i < 2; i++) p->cost[i] = (ij_predict_cost){KEEP * p->cost[i].seconds, KEEP * p->cost[i].n_row};
  p->n_guess0 = n_guess;
  p->n_used0 = n_used;
  p->on = true;
}

static void decide(ij_predictor *p, int64_t n_guess, int64_t n_used) {
  const ij_predict_cost *without = &p->cost[0], *with = &p->cost[1];
  int64_t guesses = n_guess - p->n_guess0, used = n_used - p->n_used0;
  double a = without->seconds / without->n_row, b = with->seconds / with->n_row;
  p->comparing = false;
  p->on = guesses > 0 && (double)used >= RECALL * (double)guesses && b < WORTH * a;
  p->pause = p->pause ? IJ_MIN(2 * p->pause, PAUSE_MAX) : PAUSE;
  p->left = p->pause;
}

void ij__predict_count(ij_predictor *p, int64_t n_row, double seconds, int64_t n_guess, int64_t n_used) {
  if (p->mode != IJ_PREDICT_MODE_AUTO) return;
  if (p->comparing) {
    p->cost[p->on].seconds += seconds;
    p->cost[p->on].n_row += (double)n_row;
  }
  p->left -= n_row;
  if (p->left > 0) return;
  if (!p->comparing) {
    start_comparing(p, n_guess, n_used);
  } else if (++p->i_stretch == N_STRETCH) {
    decide(p, n_guess, n_used);
  } else {
    int i = p->i_stretch;
    p->on = ((i ^ i >> 1) & 1) == 0;
    p->left = STRETCH;
  }
}

static bool small_enough(int64_t n_row) { return n_row <= IJ_PREDICT_ROWS; }

void ij__predict_begin(ij_net *net, int64_t n_row) {
  ij_predictor *p = &net->predict;
  if (!p->possible || !small_enough(n_row)) return;
  p->on = p->mode == IJ_PREDICT_MODE_ON || (p->mode == IJ_PREDICT_MODE_AUTO && p->on);
  if (p->mode != IJ_PREDICT_MODE_AUTO) return;
  ij_experts_stats stats;
  ij__experts_get_stats(net->weights->experts, &stats);
  p->wait0 = stats.wait_seconds;
  p->own = 0;
}

void ij__predict_end(ij_net *net, int64_t n_row) {
  ij_predictor *p = &net->predict;
  if (!p->possible || !small_enough(n_row) || p->mode != IJ_PREDICT_MODE_AUTO) return;
  ij_experts_stats stats;
  ij__experts_get_stats(net->weights->experts, &stats);
  ij__predict_count(p, n_row, stats.wait_seconds - p->wait0 + p->own, stats.n_guess, stats.n_guess_used);
}

/* -------------------------------------------------------------------------------------------------------------- guessing */

/* The experts that the router of layer `l` would choose for the rows as they are now, ascending, each once; returns their number. */
static int guess(ij_net *net, const ij_layer *l, int64_t n_row) {
  ij_predictor *p = &net->predict;
  const ij_config *c = net->config;
  int64_t hidden = c->hidden;
  for (int64_t row = 0; row < n_row; row++) {
    net->kernels->rms_norm(p->x + row * hidden, net->s.h + row * hidden, l->mlp_norm, c->eps, hidden);
  }
  ij_gemm g = {.w = &l->router, .x = p->x, .ldx = hidden, .y = p->z, .ldy = l->router.rows, .n = n_row};
  ij__gemm_run(net, &g, 1);
  bool *wanted = net->predict.wanted;
  memset(wanted, 0, (size_t)c->n_expert * sizeof *wanted);
  for (int64_t row = 0; row < n_row; row++) {
    ij__route_select(net, l, p->z + row * l->router.rows, p->score, p->route);
    for (int j = 0; j < c->n_expert_used; j++) wanted[p->route[j]] = true;
  }
  int n = 0;
  for (int e = 0; e < c->n_expert; e++) {
    if (wanted[e]) p->ids[n++] = e;
  }
  return n;
}

void ij__predict_next(ij_net *net, int layer, int64_t n_row) {
  ij_predictor *p = &net->predict;
  int next = layer + 1;
  if (!p->possible || !p->on || !small_enough(n_row) || next >= net->config->n_layer || net->config->dense[next]) return;
  double begin = ij__os_seconds();
  int n = guess(net, &net->weights->layers[next], n_row);
  ij__experts_want(net->weights->experts, next, p->ids, n, IJ_WANT_GUESS);
  p->own += ij__os_seconds() - begin;
}
