/* placed.c: rows of media among the ids of a session: what may be passed in, what is remembered of it, how beginnings are compared.
 *
 * A session remembers spans (where, which medium by its digest, which row of it), not the rows: their work is in the caches.
 */
#include "core/alloc.h"
#include "engine/engine_int.h"

bool ij__placed_reserve(ij_placed *p, int64_t more) {
  if (more <= p->cap - p->n) return true;
  if (more > INT32_MAX / 2 - p->n) return false;
  int cap = IJ_MAX(2 * p->cap, p->n + (int)more);
  ij_rows *items = ij__realloc(p->items, (size_t)cap * sizeof *items);
  if (!items) return false;
  p->items = items;
  p->cap = cap;
  return true;
}

static bool goes_on(const ij_rows *a, const ij_rows *b) {
  return a->first + a->n == b->first && a->row0 + a->n == b->row0 && a->digest[0] == b->digest[0] && a->digest[1] == b->digest[1];
}

void ij__placed_add(ij_placed *p, const ij_rows *rows) {
  if (p->n > 0 && goes_on(&p->items[p->n - 1], rows)) {
    p->items[p->n - 1].n += rows->n;
    return;
  }
  p->items[p->n] = *rows;
  p->items[p->n++].rows = NULL;
}

void ij__placed_trim(ij_placed *p, int64_t pos) {
  while (p->n > 0 && p->items[p->n - 1].first >= pos) p->n--;
  if (p->n == 0) return;
  ij_rows *last = &p->items[p->n - 1];
  last->n = IJ_MIN(last->n, pos - last->first);
}

/* ------------------------------------------------------------------------------------------------------------- checking */

static bool is_placeholder(const ij_model *model, int32_t id) {
  return id == model->config.image_token || id == model->config.audio_token;
}

static ij_status check_rows(const ij_model *model, const int32_t *ids, int64_t n, const ij_rows *r, int64_t end, int index, ij_err *err) {
  if (!r->rows) return ij__fail(err, IJ_E_ARGUMENT, "ij_rows.rows", "rows[%d] has none: NULL", index);
  if (r->first < end || r->n < 1 || r->first > n || r->n > n - r->first) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_rows.first", "rows[%d] are %lld rows at token %lld; expected at least one, from token %lld on, within %lld",
                    index, (long long)r->n, (long long)r->first, (long long)end, (long long)n);
  }
  if (r->row0 < 0 || r->row0 > INT64_MAX - r->n) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_rows.row0", "rows[%d]: expected a row of a medium, found %lld", index, (long long)r->row0);
  }
  for (int64_t i = r->first; i < r->first + r->n; i++) {
    if (is_placeholder(model, ids[i])) continue;
    return ij__fail(err, IJ_E_ARGUMENT, "ij_rows.first", "rows[%d] stand at token %lld, which is %d and no placeholder of this model (%d, %d)", index,
                    (long long)i, ids[i], model->config.image_token, model->config.audio_token);
  }
  return IJ_OK;
}

ij_status ij__rows_check(const ij_model *model, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, ij_err *err) {
  if (n_rows < 0 || (n_rows > 0 && !rows)) return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "expected %d rows of media, found NULL", n_rows);
  int64_t end = 0;
  for (int i = 0; i < n_rows; i++) {
    ij_status status = check_rows(model, ids, n, &rows[i], end, i, err);
    if (status != IJ_OK) return status;
    end = rows[i].first + rows[i].n;
  }
  return IJ_OK;
}

/* A placeholder that nothing stands in for would be read as an ordinary token: the medium would be dropped in silence. */
ij_status ij__rows_check_rest(const ij_model *model, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, ij_err *err) {
  for (int64_t i = 0; i < n; i++) {
    if (n_rows > 0 && i == rows->first) {
      i += rows->n - 1;
      rows++, n_rows--;
    } else if (is_placeholder(model, ids[i]) && ij__is_media_placeholder(model, ids[i])) {
      return ij__fail(err, IJ_E_ARGUMENT, "ij_step", "token %lld is %d, the placeholder of a picture or sound, and no rows stand there",
                      (long long)i, ids[i]);
    }
  }
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------ comparing */

static bool same_row(const ij_rows *a, const ij_rows *b, int64_t at) {
  return a->digest[0] == b->digest[0] && a->digest[1] == b->digest[1] && a->row0 + (at - a->first) == b->row0 + (at - b->first);
}

static bool covers(const ij_rows *r, int64_t at) { return r && r->first <= at; }

/* The first position below limit where the two differ in their media. Spans are ascending. */
static int64_t common_media(const ij_rows *a, int n_a, const ij_rows *b, int n_b, int64_t limit) {
  for (int64_t at = 0; at < limit;) {
    while (n_a > 0 && a->first + a->n <= at) a++, n_a--;
    while (n_b > 0 && b->first + b->n <= at) b++, n_b--;
    const ij_rows *ra = n_a > 0 ? a : NULL, *rb = n_b > 0 ? b : NULL;
    if (!ra && !rb) return limit;
    if (covers(ra, at) != covers(rb, at)) return at;
    if (covers(ra, at)) { /* both: the same row here is the same row as long as both last */
      if (!same_row(ra, rb, at)) return at;
      at = IJ_MIN(ra->first + ra->n, rb->first + rb->n);
    } else {
      at = IJ_MIN(ra ? ra->first : limit, rb ? rb->first : limit);
    }
  }
  return limit;
}

int64_t ij_ids_common(const int32_t *a_ids, int64_t n_a, const ij_rows *a, int n_a_rows, const int32_t *b_ids, int64_t n_b, const ij_rows *b,
                      int n_b_rows) {
  int64_t n = IJ_MIN(n_a, n_b), i = 0;
  while (i < n && a_ids[i] == b_ids[i]) i++;
  return common_media(a, n_a_rows, b, n_b_rows, i);
}

int64_t ij_session_common(const ij_session *session, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows) {
  return ij_ids_common(session->ids, session->state->pos, session->placed.items, session->placed.n, ids, n, rows, n_rows);
}

const ij_rows *ij_session_rows(const ij_session *session, int *n) {
  *n = session->placed.n;
  return session->placed.items;
}
