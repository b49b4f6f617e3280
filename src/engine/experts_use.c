/* experts_use.c: what is known of the use of experts: counted while a model is open, kept in a file between its openings.
 *
 * Counters are copied after each batch, so that whoever asks for them never waits for a step. Shares and traces are the home's own and change
 * with every access: those who ask for them wait.
 */
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "engine/engine_int.h"

static size_t n_keys(const ij_model *m) { return (size_t)m->config.n_layer * (size_t)m->config.n_expert; }

static ij_status read_file(const ij_model *m, ij_usage *out, const char *path, ij_err *err) {
  return ij__usage_read(out, path, m->config.fingerprint, m->config.n_layer, m->config.n_expert, err);
}

static char *make_note(const ij_err *why) {
  ij_buf b = {0};
  ij__buf_printf(&b, "%s: %s: the use of experts in earlier sessions is not known", why->where, why->message);
  if (!b.failed) return b.data;
  ij__buf_free(&b);
  return NULL;
}

ij_status ij__use_open(ij_model *m, const char *path, ij_err *err) {
  ij_err why = {0};
  if (!path) return IJ_OK;
  m->use.path = ij__strdup(path);
  if (!m->use.path) return ij__fail_nomem(err, "a path", strlen(path));
  if (!ij__os_is_file(path)) return IJ_OK; /* the first session */
  ij_status s = read_file(m, &m->use.earlier, path, &why);
  if (s == IJ_OK) {
    m->use.prior = ij__alloc_array(n_keys(m), sizeof(float));
    if (m->use.prior) ij__usage_prior(&m->use.earlier, m->use.prior);
    else s = IJ_E_NOMEM;
  } else if (s != IJ_E_NOMEM) {
    m->use.note = make_note(&why);
    if (m->use.note) return IJ_OK;
  }
  return s == IJ_OK ? s : ij__fail_nomem(err, "the use of experts", n_keys(m) * sizeof(float));
}

/* -------------------------------------------------------------------------------------------------------------- counts */

/* The part that the home knows; `now` keeps the rest. */
static void look_at_home(const ij_model *m, ij_streaming_info *now) {
  ij_experts_stats e;
  ij__experts_get_stats(m->weights.experts, &e);
  now->home = e.home;
  now->reader = e.reader;
  now->direct = e.direct;
  now->n_slots = e.n_slots;
  now->n_hit = e.n_hit;
  now->n_miss = e.n_miss;
  now->n_guess = e.n_guess;
  now->n_guess_used = e.n_guess_used;
  now->n_guess_cancelled = e.n_guess_cancelled;
  now->expert_bytes = e.expert_bytes;
  now->read_bytes = e.read_bytes;
  now->read_seconds = e.read_seconds;
  now->wait_seconds = e.wait_seconds;
}

ij_status ij__use_begin(ij_model *m, ij_err *err) {
  if (pthread_mutex_init(&m->use.lock, NULL) != 0) return ij__fail_nomem(err, "a mutex", sizeof m->use.lock);
  m->use.has_lock = true;
  m->use.now.usage_note = m->use.note;
  look_at_home(m, &m->use.now);
  return IJ_OK;
}

void ij__use_count(ij_model *m, int n_batch) {
  pthread_mutex_lock(&m->use.lock);
  for (int i = 0; i < n_batch; i++) m->use.now.n_tokens += m->batch[i].status == IJ_OK ? m->batch[i].n : 0;
  look_at_home(m, &m->use.now);
  pthread_mutex_unlock(&m->use.lock);
}

void ij_model_get_streaming(ij_model *m, ij_streaming_info *out) {
  pthread_mutex_lock(&m->use.lock);
  *out = m->use.now;
  pthread_mutex_unlock(&m->use.lock);
}

/* --------------------------------------------------------------------------------------------------------- shares, trace */

/* Heat of a layer to shares. */
static void normalize(float *v, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)v[i];
  for (int i = 0; i < n && sum > 0; i++) v[i] = (float)((double)v[i] / sum);
}

ij_status ij_model_expert_use(ij_model *m, bool earlier, float *out) {
  if (!m || !out) return IJ_E_ARGUMENT;
  if (earlier) {
    if (!m->use.earlier.share) return IJ_E_RANGE;
    memcpy(out, m->use.earlier.share, n_keys(m) * sizeof *out);
    return IJ_OK;
  }
  ij__turn_take(&m->step_lock);
  bool known = ij__experts_heat(m->weights.experts, out);
  ij__turn_give(&m->step_lock);
  for (int i = 0; known && i < m->config.n_layer; i++) normalize(out + (size_t)i * (size_t)m->config.n_expert, m->config.n_expert);
  return known ? IJ_OK : IJ_E_RANGE;
}

int64_t ij_model_expert_trace(ij_model *m, const int32_t **keys) {
  *keys = NULL;
  ij__turn_take(&m->step_lock);
  int64_t n = ij__experts_trace(m->weights.experts, keys);
  ij__turn_give(&m->step_lock);
  return n;
}

/* -------------------------------------------------------------------------------------------------------------- the file */

static ij_status record(const ij_model *m, ij_err *err) {
  const ij_streaming_info *now = &m->use.now;
  float *heat = ij__alloc_array(n_keys(m), sizeof *heat);
  if (!heat) return ij__fail_nomem(err, "the use of experts", n_keys(m) * sizeof *heat);
  ij_status s = IJ_OK;
  if (ij__experts_heat(m->weights.experts, heat)) {
    ij_usage_session session = {.heat = heat, .n_tokens = now->n_tokens, .n_hit = (uint64_t)now->n_hit, .n_miss = (uint64_t)now->n_miss,
                                .read_bytes = now->read_bytes, .read_seconds = now->read_seconds};
    s = ij__usage_record(m->use.path, m->config.fingerprint, m->config.n_layer, m->config.n_expert, &session, err);
  }
  ij__free(heat);
  return s;
}

ij_status ij_model_save_usage(ij_model *m, ij_err *err) {
  if (!m) return ij__fail(err, IJ_E_ARGUMENT, "ij_model_save_usage", "model is NULL");
  ij__turn_take(&m->step_lock);
  ij_status s = m->use.path && !m->use.recorded ? record(m, err) : IJ_OK;
  m->use.recorded = true;
  ij__turn_give(&m->step_lock);
  return s;
}

ij_status ij_model_read_usage(const ij_model *m, const char *path, ij_usage_info *out, float *use, float *prior, ij_err *err) {
  if (!m || !path || !out) return ij__fail(err, IJ_E_ARGUMENT, "ij_model_read_usage", "expected a model, a path and room for what is read");
  ij_usage u;
  *out = (ij_usage_info){0};
  ij_status s = read_file(m, &u, path, err);
  if (s != IJ_OK) return s;
  *out = (ij_usage_info){.n_sessions = u.n_sessions, .n_tokens = u.n_tokens, .n_hit = (int64_t)u.n_hit, .n_miss = (int64_t)u.n_miss,
                         .read_bytes = u.read_bytes, .read_seconds = u.read_seconds};
  if (use) memcpy(use, u.share, n_keys(m) * sizeof *use);
  if (prior) ij__usage_prior(&u, prior);
  ij__usage_free(&u);
  return IJ_OK;
}

void ij__use_close(ij_model *m) {
  if (m->use.has_lock && m->has_lock) ij_model_save_usage(m, NULL);
  if (m->use.has_lock) pthread_mutex_destroy(&m->use.lock);
  ij__usage_free(&m->use.earlier);
  ij__free(m->use.path);
  ij__free(m->use.prior);
  ij__free(m->use.note);
}
