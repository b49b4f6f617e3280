/* step.c: evaluating tokens. A step over any mixture of sessions is cut into batches of at most max_batch rows. */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "engine/engine_int.h"

/* A step under way. `err` receives the first error only. */
typedef struct step {
  ij_model *model;
  ij_step_item *items;
  int n_items;
  ij_status first;
  ij_err *err;
} step;

static ij_err *first_err(const step *st) { return st->first == IJ_OK ? st->err : NULL; }

static void settle(step *st, ij_step_item *item, ij_status status) {
  item->status = status;
  if (st->first == IJ_OK) st->first = status;
}

static ij_status check_item(const step *st, const ij_step_item *item) {
  ij_err *err = first_err(st);
  const ij_session *s = item->session;
  int n_vocab = st->model->config.unpadded_vocab;
  if (!s || s->model != st->model) return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "an item has no session, or one of another model");
  if (s->in_step) return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "a session is in the step twice");
  if (!item->ids || item->n < 1) return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "expected at least one token, found %lld", (long long)item->n);
  if (item->n > s->options.n_ctx - s->state->pos) { /* before the ids: more than that is never read */
    return ij__fail(err, IJ_E_CONTEXT, "ij_step", "%lld tokens after the %lld already there do not fit into a context of %lld",
                    (long long)item->n, (long long)s->state->pos, (long long)s->options.n_ctx);
  }
  for (int64_t i = 0; i < item->n; i++) {
    if (item->ids[i] < 0 || item->ids[i] >= n_vocab) {
      return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "token %lld is %d; this model has ids 0 to %d", (long long)i, item->ids[i], n_vocab - 1);
    }
  }
  return IJ_OK;
}

/* Items that fail their check take no part; the others do. */
static void admit(step *st) {
  for (int i = 0; i < st->n_items; i++) {
    ij_step_item *item = &st->items[i];
    settle(st, item, check_item(st, item));
    if (item->status != IJ_OK) continue;
    item->session->in_step = true;
    item->session->step_done = 0;
    item->session->has_logits = false;
  }
}

static void release(step *st) {
  for (int i = 0; i < st->n_items; i++) {
    ij_session *s = st->items[i].session;
    if (s && s->model == st->model) s->in_step = false;
  }
}

/* Fills the batch with the next rows of the items that still have some; batch[j].user is the item. */
static int pack(const step *st) {
  ij_model *m = st->model;
  int64_t room = m->net.max_batch;
  int n = 0;
  for (int i = 0; i < st->n_items && room > 0; i++) {
    const ij_step_item *item = &st->items[i];
    if (item->status != IJ_OK || item->session->step_done == item->n) continue;
    ij_session *s = item->session;
    int64_t done = s->step_done, rows = IJ_MIN(item->n - done, room);
    bool last = done + rows == item->n;
    room -= rows;
    m->batch[n++] = (ij_batch_item){.state = s->state, .ids = item->ids + done, .n = rows, .user = i, .logits_last = last ? s->logits : NULL,
        .logits_all = item->logits_all ? item->logits_all + done * m->config.unpadded_vocab : NULL,
        .trace = item->trace ? item->trace + done * m->config.hidden : NULL, .trace_ld = item->n};
  }
  return n;
}

static ij_status fail_batch(const step *st, const ij_session *s, const ij_batch_item *b) {
  const ij_model *m = st->model;
  if (b->status != IJ_E_NUMERIC) return ij__fail(first_err(st), b->status, m->path, "the experts of a layer could not be had");
  char point[64];
  if (b->bad_point == 0) {
    snprintf(point, sizeof point, "the embedding");
  } else if (b->bad_point > m->config.n_layer) {
    snprintf(point, sizeof point, "the output head");
  } else {
    snprintf(point, sizeof point, "layer %d", b->bad_point - 1);
  }
  return ij__fail(first_err(st), IJ_E_NUMERIC, m->path,
                  "values stopped being finite at %s, in tokens %lld to %lld: weights there are damaged, or the values overflow float32", point,
                  (long long)s->state->pos, (long long)(s->state->pos + b->n - 1));
}

static void unpack(step *st, int n_batch) {
  for (int j = 0; j < n_batch; j++) {
    const ij_batch_item *b = &st->model->batch[j];
    ij_step_item *item = &st->items[b->user];
    ij_session *s = item->session;
    if (b->status == IJ_OK) {
      memcpy(s->ids + s->state->pos - b->n, b->ids, (size_t)b->n * sizeof *s->ids);
      s->step_done += b->n;
      s->has_logits = s->step_done == item->n;
      continue;
    }
    settle(st, item, fail_batch(st, s, b));
    /* The position stays, unless the rings have run too far ahead of it. */
    if (s->state->high - s->state->pos > s->state->spec.max_rollback) ij__state_reset(s->state);
  }
}

ij_status ij_step(ij_model *model, ij_step_item *items, int n_items, ij_err *err) {
  if (!model || !items || n_items < 1) return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "expected a model and at least one item");
  step st = {.model = model, .items = items, .n_items = n_items, .err = err};
  pthread_mutex_lock(&model->step_lock);
  admit(&st);
  ij__alloc_guard_enter();
  for (int n_batch; (n_batch = pack(&st)) > 0;) {
    ij__forward(&model->net, model->batch, n_batch);
    unpack(&st, n_batch);
  }
  ij__alloc_guard_leave();
  release(&st);
  pthread_mutex_unlock(&model->step_lock);
  return st.first;
}

ij_status ij_session_eval(ij_session *session, const int32_t *ids, int64_t n, ij_err *err) {
  if (!session) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_eval", "session is NULL");
  ij_step_item item = {.session = session, .ids = ids, .n = n};
  return ij_step(session->model, &item, 1, err);
}
