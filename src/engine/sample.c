/* sample.c: from logits to the next id.
 *
 * Order: logit bias and forbidden ids, penalties, the caller's mask, temperature, top-k, top-p, min-p, one draw. The draw takes the
 * uniform number of (seed, position), and candidates in a fixed order (by id; with a filter most likely first, ties to the lower id),
 * so it repeats exactly. Cumulated probabilities are doubles in that order; the normalization of log-probabilities is a sum16 of the kernel table.
 */
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "engine/engine_int.h"

ij_sample_options ij_sample_options_default(void) {
  return (ij_sample_options){.struct_size = sizeof(ij_sample_options), .top_p = 1.0f, .repetition_penalty = 1.0f, .penalty_window = -1};
}

/* ----------------------------------------------------------------------------------------------------------- options */

static ij_status bad_option(ij_err *err, const char *name, const char *expected, double found) {
  return ij__fail(err, IJ_E_ARGUMENT, name, "expected %s, found %g", expected, found);
}

static ij_status check_sample_options(const ij_session *s, const ij_sample_options *o, ij_err *err) {
  if (o->struct_size != sizeof *o) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_sample_options.struct_size", "expected %zu, found %zu: start from ij_sample_options_default()",
                    sizeof *o, o->struct_size);
  }
  if (!(o->temperature >= 0 && isfinite(o->temperature))) return bad_option(err, "temperature", "a finite number >= 0", o->temperature);
  if (o->top_k < 0) return bad_option(err, "top_k", "0 (off) or more", o->top_k);
  if (!(o->top_p > 0 && o->top_p <= 1)) return bad_option(err, "top_p", "more than 0, at most 1 (off)", o->top_p);
  if (!(o->min_p >= 0 && o->min_p <= 1)) return bad_option(err, "min_p", "0 (off) to 1", o->min_p);
  if (!(o->repetition_penalty > 0 && isfinite(o->repetition_penalty))) {
    return bad_option(err, "repetition_penalty", "a finite number > 0 (1 is off)", o->repetition_penalty);
  }
  if (!isfinite(o->presence_penalty)) return bad_option(err, "presence_penalty", "a finite number", o->presence_penalty);
  if (!isfinite(o->frequency_penalty)) return bad_option(err, "frequency_penalty", "a finite number", o->frequency_penalty);
  if (o->penalty_window < -1) return bad_option(err, "penalty_window", "-1 (all) or more", (double)o->penalty_window);
  if (o->n_logit_bias < 0 || (o->n_logit_bias > 0 && !o->logit_bias)) return bad_option(err, "n_logit_bias", "the length of logit_bias", o->n_logit_bias);
  if (o->allowed && o->n_allowed < 1) return bad_option(err, "n_allowed", "the number of ids that allowed has bits for", o->n_allowed);
  for (int i = 0; i < o->n_logit_bias; i++) {
    const ij_logit_bias *b = &o->logit_bias[i];
    if (b->id < 0 || b->id >= s->model->config.unpadded_vocab) return bad_option(err, "logit_bias", "an id of the vocabulary", b->id);
    if (isnan(b->bias) || b->bias == INFINITY) return bad_option(err, "logit_bias", "a finite number or -infinity", b->bias);
  }
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------ logits */

static bool has_penalties(const ij_sample_options *o) {
  return o->repetition_penalty != 1.0f || o->presence_penalty != 0.0f || o->frequency_penalty != 0.0f;
}

/* Penalties on ids among the last ones of the session, each id once. In double precision, where no combination of options can make a
 * NaN: a forbidden id stays forbidden, and what overflows float32 is found by the caller. */
static void apply_penalties(ij_session *s, const ij_sample_options *o) {
  if (!has_penalties(o)) return;
  int64_t pos = s->state->pos, from = o->penalty_window < 0 ? 0 : IJ_MAX(pos - o->penalty_window, (int64_t)0);
  for (int64_t i = from; i < pos; i++) s->counts[s->ids[i]]++;
  for (int64_t i = from; i < pos; i++) {
    int32_t id = s->ids[i];
    if (s->counts[id] == 0) continue;
    double l = (double)s->work[id], factor = (double)o->repetition_penalty;
    l = l > 0 ? l / factor : l * factor;
    s->work[id] = (float)(l - ((double)o->presence_penalty + (double)o->frequency_penalty * s->counts[id]));
    s->counts[id] = 0;
  }
}

/* Whole words first: under a grammar most of them are empty. */
static void apply_mask(float *x, int32_t n, const uint32_t *allowed, int32_t n_allowed) {
  for (int32_t i = n_allowed; i < n; i++) x[i] = -INFINITY;
  n = IJ_MIN(n, n_allowed);
  for (int32_t i = 0; i < n; i += 32) {
    uint32_t bits = allowed[i / 32];
    if (bits == UINT32_MAX) continue;
    for (int32_t j = i; j < IJ_MIN(i + 32, n); j++) {
      if (!(bits >> (j - i) & 1)) x[j] = -INFINITY;
    }
  }
}

static void prepare_logits(ij_session *s, const ij_sample_options *o) {
  const ij_config *c = &s->model->config;
  memcpy(s->work, s->logits, (size_t)c->unpadded_vocab * sizeof *s->work);
  for (int i = 0; i < o->n_logit_bias; i++) {
    float *l = &s->work[o->logit_bias[i].id], bias = o->logit_bias[i].bias;
    *l = bias == -INFINITY || *l == -INFINITY ? -INFINITY : *l + bias; /* an id may come twice: what is forbidden stays so */
  }
  int32_t media[2] = {c->image_token, c->audio_token};
  for (int i = 0; i < 2; i++) {
    if (ij__is_media_placeholder(s->model, media[i]) && media[i] < c->unpadded_vocab) s->work[media[i]] = -INFINITY;
  }
  apply_penalties(s, o);
  if (o->allowed) apply_mask(s->work, c->unpadded_vocab, o->allowed, o->n_allowed);
}

/* The lowest id with this value, or the last one. Blocks without it are passed over by a loop that compilers make vectors of. */
static int32_t first_of(const float *x, int32_t n, float value) {
  enum { BLOCK = 256 };
  int32_t id = 0;
  for (; id + BLOCK < n; id += BLOCK) {
    int32_t found = 0;
    for (int32_t i = 0; i < BLOCK; i++) found |= x[id + i] == value;
    if (found) break;
  }
  while (id < n - 1 && x[id] != value) id++;
  return id;
}

/* Of raw logits. */
static ij_logit_norm norm_of(const ij_model *m, const float *logits) {
  const ij_kernels *k = m->kernels;
  int32_t n = m->config.unpadded_vocab;
  ij_logit_norm norm = {.max = k->max(logits, n)};
  norm.best = first_of(logits, n, norm.max);
  float total = k->sum_exp(logits, norm.max, n);
  k->vlog(&norm.log_sum, &total, 1);
  return norm;
}

const ij_logit_norm *ij__session_norm(ij_session *s) {
  if (!s->has_norm) s->norm = norm_of(s->model, s->logits);
  s->has_norm = true;
  return &s->norm;
}

static ij_choice choice_of(const float *logits, const ij_logit_norm *norm, int32_t id) {
  return (ij_choice){id, logits[id] - norm->max - norm->log_sum};
}

/* ---------------------------------------------------------------------------------------------------------- selection */

/* True when id a comes before id b: larger value first, then the lower id. */
static bool before(const float *x, int32_t a, int32_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); }

static void sift_down(const float *x, int32_t *heap, int32_t n, int32_t at) {
  for (;;) {
    int32_t best = at;
    for (int32_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++) {
      if (before(x, heap[child], heap[best])) best = child;
    }
    if (best == at) return;
    int32_t t = heap[at];
    heap[at] = heap[best];
    heap[best] = t;
    at = best;
  }
}

static void make_heap(const float *x, int32_t *heap, int32_t n) {
  for (int32_t i = n / 2; i-- > 0;) sift_down(x, heap, n, i);
}

/* Removes the first of the heap of n and leaves it at heap[n - 1]: the removed ones end up at the back, latest first. */
static int32_t pop_heap(const float *x, int32_t *heap, int32_t n) {
  int32_t top = heap[0];
  heap[0] = heap[n - 1];
  heap[n - 1] = top;
  sift_down(x, heap, n - 1, 0);
  return top;
}

/* s->work: adjusted logits -> probabilities relative to the best, in place. Returns their sum. */
static double relative_probs(ij_session *s, float temperature) {
  const ij_kernels *k = s->model->kernels;
  int32_t n = s->model->config.unpadded_vocab;
  float max = k->max(s->work, n);
  for (int32_t i = 0; i < n; i++) s->work[i] = (s->work[i] - max) / temperature;
  k->vexp(s->work, s->work, n);
  double sum = 0;
  for (int32_t i = 0; i < n; i++) sum += s->work[i];
  return sum;
}

/* Lists the candidates that the filters keep, most likely first, at s->order[n - 1], [n - 2], ... Returns how many, and their mass.
 * `total` is the sum of all. */
static int32_t keep_candidates(ij_session *s, const ij_sample_options *o, double total, double *mass) {
  int32_t n = s->model->config.unpadded_vocab, n_kept = 0, n_top = IJ_MIN(o->top_k, n);
  for (int32_t i = 0; i < n; i++) s->order[i] = i;
  make_heap(s->work, s->order, n);
  if (n_top > 0) total = 0; /* top-p is a share of what top-k has left */
  for (int32_t i = 0; i < n_top; i++) total += s->work[pop_heap(s->work, s->order, n - i)];
  *mass = 0;
  for (; n_kept < (n_top > 0 ? n_top : n); n_kept++) {
    int32_t id = n_top > 0 ? s->order[n - 1 - n_kept] : pop_heap(s->work, s->order, n - n_kept);
    float p = s->work[id]; /* relative to the best: the ratio that min-p means */
    if (n_kept > 0 && (p < o->min_p || *mass >= (double)o->top_p * total)) break;
    *mass += p;
  }
  return n_kept;
}

/* Draws one id: the first at which the cumulated probability passes the uniform number of this position. */
static int32_t draw(ij_session *s, const ij_sample_options *o) {
  int32_t n = s->model->config.unpadded_vocab, n_kept = n, id = 0;
  double mass = relative_probs(s, o->temperature), sum = 0;
  bool filtered = o->top_k > 0 || o->top_p < 1.0f || o->min_p > 0.0f;
  if (filtered) n_kept = keep_candidates(s, o, mass, &mass);
  double u = ij__rng_uniform(o->seed, (uint64_t)s->state->pos) * mass;
  for (int32_t i = 0; i < n_kept; i++) {
    int32_t next = filtered ? s->order[n - 1 - i] : i;
    if (s->work[next] <= 0.0f) continue; /* impossible, also when rounding leaves u at the very end */
    id = next;
    sum += s->work[id];
    if (u < sum) break;
  }
  return id;
}

/* Nothing changes the logits and nothing is drawn: the best one is the answer, unless it is a placeholder. */
static bool is_plain(const ij_sample_options *o) {
  return o->temperature == 0.0f && o->n_logit_bias == 0 && !o->allowed && !has_penalties(o);
}

ij_status ij_session_sample(ij_session *session, const ij_sample_options *options, ij_choice *out, ij_err *err) {
  if (!session || !out) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_sample", "session and out must not be NULL");
  ij_sample_options o = options ? *options : ij_sample_options_default();
  ij_status status = check_sample_options(session, &o, err);
  if (status != IJ_OK) return status;
  if (!session->has_logits) return ij__fail(err, IJ_E_RANGE, "ij_session_sample", "there are no logits: evaluate a token first");
  int32_t n = session->model->config.unpadded_vocab;
  const ij_logit_norm *norm = ij__session_norm(session);
  if (is_plain(&o) && !ij__is_media_placeholder(session->model, norm->best)) {
    *out = choice_of(session->logits, norm, norm->best);
    return IJ_OK;
  }
  prepare_logits(session, &o);
  int32_t best = first_of(session->work, n, session->model->kernels->max(session->work, n)); /* there is no NaN */
  if (!(session->work[best] > -INFINITY)) return ij__fail(err, IJ_E_ARGUMENT, "logit_bias, allowed", "every id is forbidden");
  if (!isfinite(session->work[best])) return ij__fail(err, IJ_E_NUMERIC, "ij_session_sample", "a bias or penalty makes the logit of id %d overflow", best);
  *out = choice_of(session->logits, norm, o.temperature > 0.0f ? draw(session, &o) : best);
  return IJ_OK;
}

ij_status ij_session_logprob(ij_session *session, const float *logits, int32_t id, ij_choice *out, ij_err *err) {
  if (!session || !out) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_logprob", "session and out must not be NULL");
  int32_t n = session->model->config.unpadded_vocab;
  if (id < 0 || id >= n) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_logprob", "expected an id from 0 to %d, found %d", n - 1, id);
  if (!logits && !session->has_logits) return ij__fail(err, IJ_E_RANGE, "ij_session_logprob", "there are no logits: evaluate a token first");
  ij_logit_norm norm = logits ? norm_of(session->model, logits) : *ij__session_norm(session);
  *out = choice_of(logits ? logits : session->logits, &norm, id);
  return IJ_OK;
}

ij_status ij_session_top(ij_session *session, int n, ij_choice *out, ij_err *err) {
  if (!session || !out) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_top", "session and out must not be NULL");
  int32_t n_vocab = session->model->config.unpadded_vocab;
  if (n < 1 || n > IJ_MAX_TOP || n > n_vocab) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_session_top", "expected 1 to %d, found %d", (int)IJ_MIN(IJ_MAX_TOP, n_vocab), n);
  }
  if (!session->has_logits) return ij__fail(err, IJ_E_RANGE, "ij_session_top", "there are no logits: evaluate a token first");
  const ij_logit_norm *norm = ij__session_norm(session);
  for (int32_t i = 0; i < n_vocab; i++) session->order[i] = i;
  make_heap(session->logits, session->order, n_vocab);
  for (int i = 0; i < n; i++) out[i] = choice_of(session->logits, norm, pop_heap(session->logits, session->order, n_vocab - i));
  return IJ_OK;
}
