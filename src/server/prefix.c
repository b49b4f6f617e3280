/* prefix.c: see prefix.h. The entries are few (each is a whole session), so they lie in an array and are searched one by one.
 *
 * A prompt can use an entry at position L, the length of what they have in common, or less: at the entry's own position when it has all of
 * that, and back from there by as many ids as the session can still take back. A prompt that is in the cache in full without its logits
 * evaluates its last id again.
 */
#include "server/prefix.h"

#include <string.h>

#include "core/alloc.h"
#include "core/status.h"
#include "server/prefix_disk.h"

#define KEPT_LATEST 3 /* entries of one conversation that are kept by time of use; those between them and its first leave earlier */

typedef struct entry {
  ij_session *session;
  size_t bytes;
  uint64_t used;             /* a clock of uses; 0: superseded, leaves first */
  bool before_new;           /* while one is added: it goes on from here */
} entry;

struct ij_prefix {
  ij_prefix_options options;
  entry *entries;
  int n, cap;
  size_t bytes;
  uint64_t clock;
  ij_prefix_disk *disk;      /* NULL: none */
};

ij_status ij__prefix_open(ij_prefix **out, const ij_prefix_options *options, ij_err *err) {
  *out = NULL;
  ij_prefix *c = ij__alloc_zero(1, sizeof *c);
  if (!c) return ij__fail_nomem(err, "the prefix cache", sizeof *c);
  c->options = *options;
  ij_status status = options->dir ? ij__prefix_disk_open(&c->disk, options, err) : IJ_OK;
  if (status != IJ_OK) {
    ij__free(c);
    return status;
  }
  *out = c;
  return IJ_OK;
}

/* -------------------------------------------------------------------------------------------------------------- leaving */

/* Takes entry i out of the list; its session is the caller's. */
static ij_session *detach(ij_prefix *c, int i) {
  ij_session *s = c->entries[i].session;
  c->bytes -= c->entries[i].bytes;
  c->entries[i] = c->entries[--c->n];
  return s;
}

static void drop(ij_prefix *c, int i) {
  ij_session *s = detach(c, i);
  ij_session_close(&s);
}

bool ij__prefix_push_out(ij_prefix *c) {
  if (c->n == 0) return false;
  int oldest = 0;
  for (int i = 1; i < c->n; i++) {
    const entry *a = &c->entries[i], *b = &c->entries[oldest];
    if (a->used < b->used || (a->used == b->used && ij_session_pos(a->session) < ij_session_pos(b->session))) oldest = i;
  }
  if (c->disk) ij__prefix_disk_save(c->disk, c->entries[oldest].session);
  drop(c, oldest);
  return true;
}

void ij__prefix_close(ij_prefix **cache) {
  if (!*cache) return;
  ij_prefix *c = *cache;
  while (ij__prefix_push_out(c)) {} /* the latest last: they are the ones the folder keeps */
  ij__prefix_disk_close(&c->disk);
  ij__free(c->entries);
  ij__free(c);
  *cache = NULL;
}

/* ------------------------------------------------------------------------------------------------------------- matching */

static int64_t common_with(const ij_session *s, const ij_prefix_query *q) { return ij_session_common(s, q->ids, q->n_ids, q->rows, q->n_rows); }

/* Whether b begins with all of a. */
static bool begins_with(const ij_session *b, const ij_session *a) {
  int n_rows;
  const ij_rows *rows = ij_session_rows(a, &n_rows);
  return ij_session_common(b, ij_session_ids(a), ij_session_pos(a), rows, n_rows) == ij_session_pos(a);
}

/* The first position that a session can be taken back to (besides 0). */
static int64_t reach(const ij_session *s) { return ij_session_pos(s) - ij_session_rollback_room(s); }

/* How many ids of the query session s saves. */
static int64_t saves(const ij_session *s, const ij_prefix_query *q) {
  int64_t n = common_with(s, q);
  if (n == q->n_ids && !(ij_session_pos(s) == n && ij_session_logits(s))) n--;
  return n == ij_session_pos(s) || n >= reach(s) ? n : 0;
}

static int best_entry(const ij_prefix *c, const ij_prefix_query *q, int64_t *n_saved) {
  int best = -1;
  *n_saved = 0;
  for (int i = 0; i < c->n; i++) {
    const entry *e = &c->entries[i];
    int64_t n = saves(e->session, q);
    if (n < IJ_PREFIX_MIN || n < *n_saved) continue;
    if (n == *n_saved && ij_session_pos(e->session) >= ij_session_pos(c->entries[best].session)) continue; /* the less to take back, the better */
    best = i;
    *n_saved = n;
  }
  return best;
}

int64_t ij__prefix_find(const ij_prefix *c, const ij_prefix_query *q) {
  int64_t n = 0;
  best_entry(c, q, &n);
  return n;
}

/* ---------------------------------------------------------------------------------------------------------------- taking */

/* Which marks of the query could be had from this session later. True: at least one. */
static bool covers(const ij_session *s, ij_prefix_query *q) {
  bool any = false;
  int64_t n = common_with(s, q);
  for (int i = 0; i < q->n_marks; i++) {
    q->covered[i] = q->marks[i] <= n && (q->marks[i] == ij_session_pos(s) || q->marks[i] >= reach(s));
    any |= q->covered[i];
  }
  return any;
}

static ij_session *copy_of(const ij_session *s) {
  ij_session *copy = NULL;
  ij_err err;
  return ij_session_fork(&copy, s, &err) == IJ_OK ? copy : NULL; /* no memory: the caller does without */
}

/* The entry's own session when nothing is lost by that; else a copy, if there is memory for one. */
static ij_session *session_from(ij_prefix *c, int i, int64_t n_saved, ij_prefix_query *q) {
  entry *e = &c->entries[i];
  bool needed = covers(e->session, q) || n_saved < ij_session_pos(e->session);
  ij_session *copy = needed ? copy_of(e->session) : NULL;
  if (copy) {
    e->used = ++c->clock;
    return copy;
  }
  memset(q->covered, 0, sizeof q->covered);
  return detach(c, i);
}

int64_t ij__prefix_take(ij_prefix *c, ij_prefix_query *q, ij_session **out) {
  int64_t n = 0;
  ij_err err;
  *out = NULL;
  memset(q->covered, 0, sizeof q->covered);
  int i = best_entry(c, q, &n);
  int64_t n_disk = c->disk ? ij__prefix_disk_load(c->disk, q, n, out) : 0;
  if (*out) return n_disk;
  if (i < 0) return 0;
  ij_session *s = session_from(c, i, n, q);
  if (ij_session_rollback(s, ij_session_pos(s) - n, &err) != IJ_OK) { /* `saves` has looked: not reached */
    ij_session_close(&s);
    return 0;
  }
  *out = s;
  return n;
}

/* --------------------------------------------------------------------------------------------------------------- keeping */

/* Whether everything that could be had from a could be had from b as well. */
static bool replaces(const ij_session *b, const ij_session *a) {
  return begins_with(b, a) && reach(b) <= reach(a);
}

/* Of the entries that the new one goes on from, all but the first (a system prompt, perhaps of many) and the latest are superseded. */
static void supersede(ij_prefix *c, const ij_session *s) {
  for (int i = 0; i < c->n; i++) {
    entry *e = &c->entries[i];
    e->before_new = begins_with(s, e->session);
  }
  for (int i = 0; i < c->n; i++) {
    int n_shorter = 0, n_longer = 0;
    if (!c->entries[i].before_new) continue; /* nearly all: small models have thousands of entries */
    for (int j = 0; j < c->n; j++) {
      n_shorter += c->entries[j].before_new && ij_session_pos(c->entries[j].session) < ij_session_pos(c->entries[i].session);
      n_longer += c->entries[j].before_new && ij_session_pos(c->entries[j].session) > ij_session_pos(c->entries[i].session);
    }
    if (n_shorter > 0 && n_longer >= KEPT_LATEST) c->entries[i].used = 0;
  }
}

static bool add_entry(ij_prefix *c, ij_session *s, size_t bytes) {
  if (c->n == c->cap) {
    int bigger = c->cap ? 2 * c->cap : 16;
    entry *p = ij__realloc(c->entries, (size_t)bigger * sizeof *p);
    if (!p) return false;
    c->entries = p;
    c->cap = bigger;
  }
  c->entries[c->n++] = (entry){.session = s, .bytes = bytes, .used = ++c->clock};
  c->bytes += bytes;
  return true;
}

void ij__prefix_put(ij_prefix *c, ij_session **session) {
  ij_session *s = *session;
  *session = NULL;
  if (!s) return;
  size_t bytes = ij_session_bytes_used(s);
  bool keep = ij_session_pos(s) >= IJ_PREFIX_MIN && bytes <= c->options.max_bytes;
  for (int i = 0; keep && i < c->n; i++) {
    entry *e = &c->entries[i];
    if (replaces(s, e->session)) {
      drop(c, i--);
    } else if (replaces(e->session, s)) {
      e->used = ++c->clock;
      keep = false;
    }
  }
  while (keep && bytes > c->options.max_bytes - c->bytes) ij__prefix_push_out(c);
  if (keep) supersede(c, s);
  if (!keep || !add_entry(c, s, bytes)) ij_session_close(&s);
}

void ij__prefix_copy(ij_prefix *c, const ij_session *s) {
  size_t bytes = ij_session_bytes_used(s);
  if (bytes > c->options.max_bytes) return;
  while (bytes > c->options.max_bytes - c->bytes) ij__prefix_push_out(c); /* before the copy is there, not after */
  ij_session *copy = copy_of(s);
  ij__prefix_put(c, &copy);
}

ij_prefix_stats ij__prefix_get_stats(const ij_prefix *c) {
  ij_prefix_stats s = {.bytes = c->bytes, .n_entries = c->n};
  if (c->disk) ij__prefix_disk_stats(c->disk, &s.dir_bytes, &s.n_files);
  return s;
}
