/* session.c: one timeline: open, fork, roll back, save, restore. Evaluating is in step.c. */
#include <string.h>

#include "cache/snapshot.h"
#include "core/alloc.h"
#include "core/os.h"
#include "engine/engine_int.h"

#define MAX_ROLLBACK 65536

ij_session_options ij_session_options_default(void) {
  return (ij_session_options){.struct_size = sizeof(ij_session_options), .n_ctx = 8192, .kv_type = IJ_KV_F32, .max_rollback = 64};
}

static ij_dtype kv_dtype(ij_kv_type type) { return type == IJ_KV_F32 ? IJ_DTYPE_F32 : type == IJ_KV_F16 ? IJ_DTYPE_F16 : IJ_DTYPE_BF16; }

void ij__session_spec(const ij_model *model, const ij_session_options *o, ij_layer_spec *layers, ij_state_spec *spec) {
  const ij_config *c = &model->config;
  for (int i = 0; i < c->n_layer; i++) {
    const ij_attn_dims *d = model->weights.layers[i].dims;
    int kv = d->n_kv_head * d->head_dim;
    layers[i] = (ij_layer_spec){.n_kv = d->n_kv_head, .head_dim = d->head_dim, .window = c->sliding[i] ? c->window : 0,
                                .n_chan = {[IJ_CONV_K] = kv, [IJ_CONV_V] = kv, [IJ_CONV_ATTN] = c->hidden, [IJ_CONV_MLP] = c->hidden}};
  }
  *spec = (ij_state_spec){.n_layer = c->n_layer, .layers = layers, .n_tap = c->conv_kernel, .kv_type = kv_dtype(o->kv_type),
                          .n_ctx = o->n_ctx, .max_rollback = o->max_rollback,
                          .max_append = ij__session_append(model->plan.home, model->plan.max_batch)};
}

static ij_status check_session_options(const ij_model *model, const ij_session_options *o, ij_err *err) {
  if (o->struct_size != sizeof *o) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_session_options.struct_size", "expected %zu, found %zu: start from ij_session_options_default()",
                    sizeof *o, o->struct_size);
  }
  if (o->n_ctx < 1 || o->n_ctx > model->config.max_context) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_session_options.n_ctx", "expected 1 to %lld (the model's limit), found %lld",
                    (long long)model->config.max_context, (long long)o->n_ctx);
  }
  if ((int)o->kv_type < IJ_KV_BF16 || o->kv_type > IJ_KV_F32) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_session_options.kv_type", "expected an ij_kv_type, found %d", (int)o->kv_type);
  }
  if (o->max_rollback < 0 || o->max_rollback > MAX_ROLLBACK) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_session_options.max_rollback", "expected 0 to %d, found %d", MAX_ROLLBACK, o->max_rollback);
  }
  return IJ_OK;
}

size_t ij__session_need(const ij_model *model, const ij_session_options *o, int max_append) {
  ij_layer_spec layers[IJ_MAX_LAYERS];
  ij_state_spec spec;
  size_t n, ids, total, n_vocab = (size_t)model->config.unpadded_vocab, n_layer = (size_t)model->config.n_layer;
  ij__session_spec(model, o, layers, &spec);
  spec.max_append = max_append;
  bool fits = ij__state_bytes(&spec, &n) && ij__mul_size((size_t)o->n_ctx, sizeof(int32_t), &ids) && ij__add_size(n, ids, &total) &&
              ij__add_size(total, 4 * sizeof(float) * n_vocab + n_layer * sizeof(ij_layer_state) + 2 * ij__os_page_size(), &total);
  return fits ? total : SIZE_MAX;
}

/* Takes a session's share of what the plan keeps for sessions, or says what is left. */
static ij_status charge(ij_session *s, ij_err *err) {
  ij_model *m = s->model;
  size_t need = ij__session_need(m, &s->options, ij__session_append(m->plan.home, m->plan.max_batch)), taken = atomic_load(&m->session_bytes);
  do {
    if (m->session_room == SIZE_MAX) return IJ_OK;
    if (need <= m->session_room - taken) continue;
    return ij__fail(err, IJ_E_NOMEM, "the session", "a session of %lld positions needs %.1f MB, and %.1f MB are left of the %.1f MB that the plan keeps for sessions "
                    "(%d of %lld positions): plan for more or longer ones when the model is opened, or close one", (long long)s->options.n_ctx,
                    (double)need * 1e-6, (double)(m->session_room - taken) * 1e-6, (double)m->session_room * 1e-6, m->plan.n_sessions, (long long)m->plan.n_ctx);
  } while (!atomic_compare_exchange_weak(&m->session_bytes, &taken, taken + need));
  s->charged = need;
  return IJ_OK;
}

static ij_status open_state(ij_session *s, ij_err *err) {
  ij_model *m = s->model;
  ij_layer_spec *layers = ij__alloc_array((size_t)m->config.n_layer, sizeof *layers);
  if (!layers) return ij__fail_nomem(err, "the session", (size_t)m->config.n_layer * sizeof *layers);
  ij_state_spec spec;
  ij__session_spec(m, &s->options, layers, &spec);
  ij_status status = ij__state_open(&s->state, &spec, err);
  ij__free(layers);
  return status;
}

static ij_status open_buffers(ij_session *s, ij_err *err) {
  size_t n = (size_t)s->model->config.unpadded_vocab, n_ctx = (size_t)s->options.n_ctx;
  s->ids = ij__alloc_array(n_ctx, sizeof *s->ids);
  s->logits = ij__alloc_array(n, sizeof *s->logits);
  s->work = ij__alloc_array(n, sizeof *s->work);
  s->order = ij__alloc_array(n, sizeof *s->order);
  s->counts = ij__alloc_zero(n, sizeof *s->counts);
  bool ok = s->ids && s->logits && s->work && s->order && s->counts;
  return ok ? IJ_OK : ij__fail_nomem(err, "the session", 4 * (4 * n + n_ctx));
}

ij_status ij_session_open(ij_session **out, ij_model *model, const ij_session_options *options, ij_err *err) {
  if (!out || !model) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_open", "out and model must not be NULL");
  *out = NULL;
  ij_session_options o = options ? *options : ij_session_options_default();
  if (!options) o.n_ctx = IJ_MIN(o.n_ctx, model->config.max_context);
  ij_status status = check_session_options(model, &o, err);
  if (status != IJ_OK) return status;
  ij_session *s = ij__alloc_zero(1, sizeof *s);
  if (!s) return ij__fail_nomem(err, "the session", sizeof *s);
  atomic_fetch_add(&model->n_sessions, 1);
  s->model = model;
  s->options = o;
  status = charge(s, err);
  if (status == IJ_OK) status = open_state(s, err); /* first: the caches are nearly all of it, and are refused with what is needed and what there is */
  if (status == IJ_OK) status = open_buffers(s, err);
  if (status == IJ_OK) {
    ij__turn_take(&model->step_lock);
    status = ij__net_reserve(&model->net, o.n_ctx, err);
    ij__turn_give(&model->step_lock);
  }
  if (status != IJ_OK) {
    ij_session_close(&s);
    return status;
  }
  *out = s;
  return IJ_OK;
}

void ij_session_close(ij_session **session) {
  if (!session || !*session) return;
  ij_session *s = *session;
  ij__state_close(&s->state);
  ij__free(s->ids);
  ij__free(s->placed.items);
  ij__free(s->logits);
  ij__free(s->work);
  ij__free(s->order);
  ij__free(s->counts);
  atomic_fetch_sub(&s->model->session_bytes, s->charged);
  atomic_fetch_sub(&s->model->n_sessions, 1);
  ij__free(s);
  *session = NULL;
}

int64_t ij_session_pos(const ij_session *session) { return session->state->pos; }
int64_t ij_session_n_ctx(const ij_session *session) { return session->options.n_ctx; }
size_t ij_session_bytes(const ij_session *session) { return session->state->n_bytes; }
size_t ij_session_bytes_used(const ij_session *session) {
  size_t n = (size_t)session->model->config.unpadded_vocab;
  return ij__state_used(session->state) + 4 * (4 * n + (size_t)session->state->pos);
}

int64_t ij_session_rollback_room(const ij_session *session) {
  const ij_state *st = session->state;
  return IJ_MIN(IJ_MAX(st->spec.max_rollback - (st->high - st->pos), (int64_t)0), st->pos);
}

const int32_t *ij_session_ids(const ij_session *session) { return session->ids; }
const float *ij_session_logits(const ij_session *session) { return session->has_logits ? session->logits : NULL; }

ij_status ij_session_fork(ij_session **out, const ij_session *session, ij_err *err) {
  if (!out || !session) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_fork", "out and session must not be NULL");
  ij_status status = ij_session_open(out, session->model, &session->options, err);
  if (status != IJ_OK) return status;
  ij_session *s = *out;
  if (!ij__placed_reserve(&s->placed, session->placed.n)) {
    ij_session_close(out);
    return ij__fail_nomem(err, "the session", (size_t)session->placed.n * sizeof(ij_rows));
  }
  if (session->placed.n > 0) memcpy(s->placed.items, session->placed.items, (size_t)session->placed.n * sizeof(ij_rows));
  s->placed.n = session->placed.n;
  ij__state_copy(s->state, session->state);
  memcpy(s->ids, session->ids, (size_t)session->state->pos * sizeof *s->ids);
  s->has_logits = session->has_logits;
  s->has_norm = session->has_norm;
  s->norm = session->norm;
  if (s->has_logits) memcpy(s->logits, session->logits, (size_t)s->model->config.unpadded_vocab * sizeof *s->logits);
  return IJ_OK;
}

ij_status ij_session_rollback(ij_session *session, int64_t n, ij_err *err) {
  if (!session) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_rollback", "session is NULL");
  ij_state *st = session->state;
  if (n < 0 || n > st->pos) {
    return ij__fail(err, IJ_E_RANGE, "ij_session_rollback", "expected 0 to %lld (the position), found %lld", (long long)st->pos, (long long)n);
  }
  if (n == 0) return IJ_OK;
  if (!ij__state_rewind(st, st->pos - n)) {
    return ij__fail(err, IJ_E_RANGE, "ij_session_rollback", "%lld tokens can be taken back now, or all %lld; found %lld (max_rollback is %d)",
                    (long long)ij_session_rollback_room(session), (long long)st->pos, (long long)n, st->spec.max_rollback);
  }
  ij__placed_trim(&session->placed, st->pos);
  session->has_logits = false;
  return IJ_OK;
}

static ij_snapshot_extra extra_of(const ij_session *s) {
  return (ij_snapshot_extra){.fingerprint = s->model->config.fingerprint, .ids = s->ids, .n_vocab = s->model->config.unpadded_vocab,
                             .logits = s->logits, .has_logits = s->has_logits,
                             .placeholders = {s->model->config.image_token, s->model->config.audio_token}};
}

ij_status ij_session_save(const ij_session *session, bool (*write)(void *user, const void *bytes, size_t n), void *user, ij_err *err) {
  if (!session || !write) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_save", "session and write must not be NULL");
  ij_snapshot_extra extra = extra_of(session);
  size_t n = (size_t)session->placed.n;
  extra.media = ij__alloc_array(n, sizeof *extra.media);
  if (!extra.media) return ij__fail_nomem(err, "saving a session", n * sizeof *extra.media);
  extra.n_media = n;
  for (size_t i = 0; i < n; i++) {
    const ij_rows *r = &session->placed.items[i];
    extra.media[i] = (ij_snapshot_media){(uint64_t)r->first, (uint64_t)r->n, (uint64_t)r->row0, {r->digest[0], r->digest[1]}};
  }
  ij_status status = ij__snapshot_save(session->state, &extra, write, user, err);
  ij__free(extra.media);
  return status;
}

ij_status ij_session_restore(ij_session *session, bool (*read)(void *user, void *bytes, size_t n), void *user, ij_err *err) {
  if (!session || !read) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_restore", "session and read must not be NULL");
  ij_snapshot_extra extra = extra_of(session);
  session->placed.n = 0;
  ij_status status = ij__snapshot_restore(session->state, &extra, read, user, err);
  if (status == IJ_OK && !ij__placed_reserve(&session->placed, (int64_t)extra.n_media)) {
    status = ij__fail_nomem(err, "a saved session", (size_t)extra.n_media * sizeof(ij_rows));
    ij__state_reset(session->state);
    extra.has_logits = false;
  }
  for (uint64_t i = 0; status == IJ_OK && i < extra.n_media; i++) {
    const ij_snapshot_media *m = &extra.media[i];
    ij__placed_add(&session->placed, &(ij_rows){.first = (int64_t)m->first, .n = (int64_t)m->n, .row0 = (int64_t)m->row0,
                                                .digest = {m->digest[0], m->digest[1]}});
  }
  ij__free(extra.media);
  session->has_logits = extra.has_logits;
  session->has_norm = false;
  return status;
}
