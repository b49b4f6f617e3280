/* worker_reuse.c: what a job takes from the prefix cache, and what it leaves there.
 *
 * A later prompt comes back to few places: the end of this prompt (the answer is said again, or comes back worded or cut otherwise), and the
 * start of the last user message (it is edited, or another conversation shares what is before it). These are the job's marks. A session
 * reaches back max_rollback ids by itself, so a copy of it is kept only when the next step would carry it out of reach of a mark: short
 * answers to short messages cost no copy at all.
 *
 * Jobs that wait and share a long beginning with a prompt that is under way wait for it, instead of evaluating the same again beside it.
 */
#include <string.h>

#include "core/status.h"
#include "server/worker_int.h"

#define HOLD_GAIN 64 /* ids that must be saved by waiting for another prompt */

static int64_t pos_of(const ij_job *job) { return ij_session_pos(job->session); }

/* The first position that the session can be taken back to, now and after `rows` more ids. */
static int64_t reach_now(const ij_job *job) { return pos_of(job) - ij_session_rollback_room(job->session); }
static int64_t reach_after(const ij_worker *w, const ij_job *job, int64_t rows) {
  return IJ_MAX(reach_now(job), pos_of(job) + rows - w->session_options.max_rollback);
}

/* ---------------------------------------------------------------------------------------------------------------- marks */

/* Where the last user turn begins: its first message of several; -1: nowhere. */
static int64_t last_turn(const ij_worker *w, const ij_job *job) {
  int64_t at = -1;
  for (int64_t i = job->req.n_ids - 1; i >= 0 && w->turn_id >= 0; i--) {
    if (job->req.ids[i] == w->turn_id) at = i;
    if (at >= 0 && ij_model_is_eos(w->model, job->req.ids[i])) break;
  }
  return at;
}

static bool add_mark(ij_job *job, int64_t at, bool urgent) {
  int i = 0;
  while (i < job->n_marks && job->marks[i].at != at) i++;
  if (i == IJ_MARKS_MAX) return false;
  if (i < job->n_marks) {
    job->marks[i].urgent |= urgent;
    return !job->marks[i].settled;
  }
  job->marks[job->n_marks++] = (ij_mark){.at = at, .urgent = urgent};
  return true;
}

static void set_marks(const ij_worker *w, ij_job *job) {
  int64_t turn = last_turn(w, job), end = job->req.n_ids - 1; /* the last id is evaluated again for its logits */
  if (turn >= IJ_PREFIX_MIN) add_mark(job, turn, false);
  if (end >= IJ_PREFIX_MIN) add_mark(job, end, false);
}

/* ---------------------------------------------------------------------------------------------------------------- begin */

static ij_status open_session(ij_worker *w, ij_job *job, ij_err *err) {
  ij_status status = ij_session_open(&job->session, w->model, &w->session_options, err);
  while (status == IJ_E_NOMEM && w->prefix && ij__prefix_push_out(w->prefix)) { /* what is kept for later gives way */
    status = ij_session_open(&job->session, w->model, &w->session_options, err);
  }
  return status;
}

ij_status ij__reuse_begin(ij_worker *w, ij_job *job, ij_err *err) {
  if (!w->prefix) return open_session(w, job, err);
  int64_t marks[IJ_MARKS_MAX];
  job->n_marks = 0;
  set_marks(w, job);
  for (int i = 0; i < job->n_marks; i++) marks[i] = job->marks[i].at;
  ij_prefix_query q = {.ids = job->req.ids, .n_ids = job->req.n_ids, .rows = job->req.rows, .n_rows = job->req.n_rows, .marks = marks, .n_marks = job->n_marks};
  job->usage.n_cached = ij__prefix_take(w->prefix, &q, &job->session);
  for (int i = 0; i < job->n_marks; i++) job->marks[i].settled = q.covered[i];
  return job->session ? IJ_OK : open_session(w, job, err);
}

static int64_t common(const ij_job *a, const ij_job *b) {
  int64_t n = ij_ids_common(a->req.ids, a->req.n_ids, a->req.rows, a->req.n_rows, b->req.ids, b->req.n_ids, b->req.rows, b->req.n_rows);
  return IJ_MIN(n, IJ_MIN(a->req.n_ids, b->req.n_ids) - 1);
}

bool ij__reuse_wait(ij_worker *w, ij_job *job) {
  if (!w->prefix || w->n_running == 0) return false;
  ij_prefix_query q = {.ids = job->req.ids, .n_ids = job->req.n_ids, .rows = job->req.rows, .n_rows = job->req.n_rows};
  int64_t have = -1;
  for (int i = 0; i < w->n_running; i++) {
    ij_job *other = w->running[i];
    if (other->over) continue;
    int64_t n = common(job, other);
    if (n < HOLD_GAIN || n < reach_now(other)) continue;
    if (have < 0) have = ij__prefix_find(w->prefix, &q);
    if (n >= have + HOLD_GAIN && add_mark(other, n, true)) return true;
  }
  return false;
}

/* ------------------------------------------------------------------------------------------------------- on the way, end */

int64_t ij__reuse_rows(const ij_worker *w, const ij_job *job, int64_t rows) {
  for (int i = 0; i < job->n_marks; i++) {
    const ij_mark *m = &job->marks[i];
    if (!m->settled && m->at > pos_of(job) && m->at < reach_after(w, job, rows)) rows = m->at - pos_of(job);
  }
  return rows;
}

void ij__reuse_step(ij_worker *w, ij_job *job) {
  bool copy = false;
  int64_t pos = pos_of(job), now = reach_now(job);
  for (int i = 0; i < job->n_marks; i++) {
    ij_mark *m = &job->marks[i];
    if (m->settled || m->at > pos) continue;
    if (m->at < now) m->settled = true; /* out of reach already: it was taken back too far for that */
    copy |= !m->settled && (m->urgent || m->at < reach_after(w, job, job->rows));
  }
  if (!copy) return;
  ij__prefix_copy(w->prefix, job->session);
  for (int i = 0; i < job->n_marks; i++) job->marks[i].settled |= job->marks[i].at <= pos;
}

void ij__reuse_end(ij_worker *w, ij_job *job, bool sound) {
  if (w->prefix && sound) ij__prefix_put(w->prefix, &job->session);
  ij_session_close(&job->session);
}
