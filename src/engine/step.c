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
  ij_status status = ij__rows_check(st->model, item->ids, item->n, item->rows, item->n_rows, err);
  if (status == IJ_OK) status = ij__rows_check_rest(st->model, item->ids, item->n, item->rows, item->n_rows, err);
  if (status == IJ_OK && !ij__placed_reserve(&item->session->placed, item->n_rows)) {
    status = ij__fail_nomem(err, "ij_step", (size_t)item->n_rows * sizeof(ij_rows));
  }
  return status;
}

/* Items that fail their check take no part; the others do. */
static void admit(step *st) {
  for (int i = 0; i < st->n_items; i++) {
    ij_step_item *item = &st->items[i];
    settle(st, item, check_item(st, item));
    if (item->status != IJ_OK) continue;
    item->session->in_step = true;
    item->session->step_done = 0;
    item->session->step_rows = 0;
    item->session->has_logits = false;
  }
}

static void release(step *st) {
  for (int i = 0; i < st->n_items; i++) {
    ij_session *s = st->items[i].session;
    if (s && s->model == st->model) s->in_step = false;
  }
}

/* What stands in for the embeddings of tokens [from, from + n) of the item; NULL: nothing does. out: [n]. */
static const float *const *media_of(const ij_step_item *item, int64_t from, int64_t n, int hidden, const float **out) {
  const ij_session *s = item->session;
  bool any = false;
  for (int i = s->step_rows; i < item->n_rows && item->rows[i].first < from + n; i++) {
    const ij_rows *r = &item->rows[i];
    if (!any) memset(out, 0, (size_t)n * sizeof *out);
    any = true;
    int64_t end = IJ_MIN(r->first + r->n, from + n);
    for (int64_t at = IJ_MAX(r->first, from); at < end; at++) out[at - from] = r->rows + (at - r->first) * hidden;
  }
  return any ? out : NULL;
}

/* Remembers where the rows of media among n tokens from `from` on, now evaluated, ended up. */
static void place(const ij_step_item *item, int64_t from, int64_t n) {
  ij_session *s = item->session;
  int64_t begin = s->state->pos - n; /* the session's position of token `from` */
  for (; s->step_rows < item->n_rows && item->rows[s->step_rows].first < from + n; s->step_rows++) {
    const ij_rows *r = &item->rows[s->step_rows];
    int64_t first = IJ_MAX(r->first, from), end = IJ_MIN(r->first + r->n, from + n);
    ij_rows part = {.first = begin + (first - from), .n = end - first, .row0 = r->row0 + (first - r->first), .digest = {r->digest[0], r->digest[1]}};
    ij__placed_add(&s->placed, &part);
    if (end < r->first + r->n) break;
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
    if (rows > s->state->spec.max_rollback) ij__state_hold(s->state);
    const float **slots = m->batch_media + (m->net.max_batch - room);
    room -= rows;
    m->batch[n++] = (ij_batch_item){.state = s->state, .ids = item->ids + done, .n = rows, .user = i, .logits_last = last ? s->logits : NULL,
        .media = media_of(item, done, rows, m->config.hidden, slots),
        .logits_all = item->logits_all ? item->logits_all + done * m->config.unpadded_vocab : NULL,
        .trace = item->trace ? item->trace + done * m->config.hidden : NULL, .trace_ld = item->n};
  }
  return n;
}

static ij_status fail_batch(const step *st, const ij_session *s, const ij_batch_item *b) {
  const ij_model *m = st->model;
  if (b->status != IJ_E_NUMERIC) return ij__fail(first_err(st), b->status, m->net.why->where, "%s", m->net.why->message);
  char point[64];
  if (b->bad_point == 0) {
    snprintf(point, sizeof point, "%s", b->media ? "the embedding or a row of a medium" : "the embedding");
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
      place(item, s->step_done, b->n);
      s->step_done += b->n;
      s->has_logits = s->step_done == item->n;
      s->has_norm = false;
      continue;
    }
    settle(st, item, fail_batch(st, s, b));
    /* The position stays, unless the rings have run too far ahead of it. */
    if (!ij__state_unstep(s->state, b->n)) ij__state_reset(s->state);
    ij__placed_trim(&s->placed, s->state->pos);
  }
}

static void norm_tasks(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  const step *st = ctx;
  for (int64_t i = i0; i < i1; i++) {
    ij_session *s = st->items[st->model->batch[i].user].session;
    if (s->has_logits) ij__session_norm(s);
  }
}

ij_status ij_step(ij_model *model, ij_step_item *items, int n_items, ij_err *err) {
  if (!model || !items || n_items < 1) return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "expected a model and at least one item");
  step st = {.model = model, .items = items, .n_items = n_items, .err = err};
  ij__turn_take(&model->step_lock);
  admit(&st);
  ij__alloc_guard_enter();
  for (int n_batch; (n_batch = pack(&st)) > 0;) {
    ij__forward(&model->net, model->batch, n_batch);
    ij__use_count(model, n_batch);
    unpack(&st, n_batch);
    if (n_batch > 1) ij__pool_run(model->pool, n_batch, 1, norm_tasks, &st); /* for whoever chooses their ids, one after the other */
  }
  ij__alloc_guard_leave();
  release(&st);
  ij__turn_give(&model->step_lock);
  return st.first;
}

ij_status ij_session_eval(ij_session *session, const int32_t *ids, int64_t n, ij_err *err) {
  if (!session) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_eval", "session is NULL");
  ij_step_item item = {.session = session, .ids = ids, .n = n};
  return ij_step(session->model, &item, 1, err);
}

ij_status ij_session_eval_rows(ij_session *session, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, ij_err *err) {
  if (!session) return ij__fail(err, IJ_E_ARGUMENT, "ij_session_eval_rows", "session is NULL");
  ij_step_item item = {.session = session, .ids = ids, .n = n, .rows = rows, .n_rows = n_rows};
  return ij_step(session->model, &item, 1, err);
}
