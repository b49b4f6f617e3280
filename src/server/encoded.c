/* encoded.c: see encoded.h. Entries are few (a picture has hundreds of kilobytes of rows), so they lie in a list that is searched in order.
 *
 * An entry that is being encoded is in the list already, so that others find it; if its maker fails or leaves, it is taken out, and those who
 * waited look again: one of them becomes the maker. Makers of different media take turns, piece by piece, among themselves: the towers share
 * the threads with the steps of running answers, and a step should wait for one piece and not for one of each maker.
 */
#include "server/encoded.h"

#include <pthread.h>
#include <time.h>

#include "core/alloc.h"
#include "core/turn.h"

enum { PIECE = 128 }; /* rows between two questions; steps of running answers come in between as often */

struct ij_encoded_rows {
  ij_encoded_rows *next;
  uint64_t digest[2];
  ij_media_kind kind;
  int64_t n_rows;
  float *floats;
  size_t bytes;
  int refs;
  bool ready, dead;            /* dead: out of the list; whoever drops the last reference frees it */
  uint64_t used;
};

struct ij_encoded {
  pthread_mutex_t lock;
  pthread_cond_t changed;      /* an entry became ready or died */
  ij_turn turn;                /* of the makers */
  ij_towers *towers;
  size_t hidden, max_bytes, max_held;
  ij_encoded_rows *first;
  uint64_t clock;
  ij_encoded_stats stats;
};

ij_status ij__encoded_open(ij_encoded **out, ij_towers *towers, size_t max_bytes, size_t max_held, ij_err *err) {
  *out = NULL;
  ij_encoded *c = ij__alloc_zero(1, sizeof *c);
  if (!c) return ij__fail_nomem(err, "the cache of media", sizeof *c);
  if (pthread_mutex_init(&c->lock, NULL) != 0) {
    ij__free(c);
    return ij__fail_nomem(err, "the cache of media", sizeof c->lock);
  }
  if (pthread_cond_init(&c->changed, NULL) != 0) {
    pthread_mutex_destroy(&c->lock);
    ij__free(c);
    return ij__fail_nomem(err, "the cache of media", sizeof c->changed);
  }
  if (!ij__turn_open(&c->turn)) {
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    ij__free(c);
    return ij__fail_nomem(err, "the cache of media", sizeof c->turn);
  }
  ij_towers_info info;
  ij_towers_get_info(towers, &info);
  c->towers = towers;
  c->hidden = (size_t)info.hidden;
  c->max_bytes = max_bytes;
  c->max_held = max_held;
  *out = c;
  return IJ_OK;
}

/* ----------------------------------------------------------------------------------------------------- the list, locked */

static void free_rows(ij_encoded_rows *r) {
  ij__free(r->floats);
  ij__free(r);
}

/* Takes an entry out of the list; it is freed when nobody holds it. */
static void take_out(ij_encoded *c, ij_encoded_rows *r) {
  ij_encoded_rows **at = &c->first;
  while (*at != r) at = &(*at)->next;
  *at = r->next;
  c->stats.bytes -= r->bytes;
  r->dead = true;
  if (r->refs == 0) free_rows(r);
}

/* What nobody holds leaves until the bytes are within the bound. */
static void shrink(ij_encoded *c) {
  while (c->stats.bytes > c->max_bytes) {
    ij_encoded_rows *oldest = NULL;
    for (ij_encoded_rows *r = c->first; r; r = r->next) {
      if (r->refs == 0 && (!oldest || r->used < oldest->used)) oldest = r;
    }
    if (!oldest) return;
    take_out(c, oldest);
  }
}

static ij_encoded_rows *find(const ij_encoded *c, const ij_media_info *info) {
  for (ij_encoded_rows *r = c->first; r; r = r->next) {
    bool same = r->digest[0] == info->digest[0] && r->digest[1] == info->digest[1] && r->kind == info->kind && r->n_rows == info->n_rows;
    if (same) return r;
  }
  return NULL;
}

static size_t held_bytes(const ij_encoded *c) {
  size_t n = 0;
  for (const ij_encoded_rows *r = c->first; r; r = r->next) n += r->refs > 0 ? r->bytes : 0;
  return n;
}

static ij_encoded_rows *add(ij_encoded *c, const ij_media_info *info, ij_err *err) {
  size_t n, bytes, held = held_bytes(c);
  ij_encoded_rows *r = NULL;
  bool fits = ij__mul_size((size_t)info->n_rows, c->hidden, &n) && ij__mul_size(n, sizeof *r->floats, &bytes);
  if (fits && (held > c->max_held || bytes > c->max_held - held)) {
    ij__fail(err, IJ_E_BUSY, "media", "encoded media of the requests under way take %zu bytes, and at most %zu are kept: try again later", held,
             c->max_held);
    return NULL;
  }
  r = fits ? ij__alloc_zero(1, sizeof *r) : NULL;
  if (r) r->floats = ij__alloc(bytes);
  if (!r || !r->floats) {
    ij__free(r);
    ij__fail_nomem(err, "the rows of a medium", (size_t)info->n_rows * c->hidden * sizeof(float));
    return NULL;
  }
  r->digest[0] = info->digest[0];
  r->digest[1] = info->digest[1];
  r->kind = info->kind;
  r->n_rows = info->n_rows;
  r->bytes = bytes;
  r->next = c->first;
  c->first = r;
  c->stats.bytes += bytes;
  return r;
}

void ij__encoded_close(ij_encoded **cache) {
  if (!cache || !*cache) return;
  ij_encoded *c = *cache;
  while (c->first) take_out(c, c->first);
  ij__turn_close(&c->turn);
  pthread_cond_destroy(&c->changed);
  pthread_mutex_destroy(&c->lock);
  ij__free(c);
  *cache = NULL;
}

/* ------------------------------------------------------------------------------------------------------------- getting */

static ij_status encode(ij_encoded *c, const ij_media *media, ij_encoded_rows *r, bool (*alive)(void *user), void *user, ij_err *err) {
  ij_status s = IJ_OK;
  for (int64_t at = 0; at < r->n_rows && s == IJ_OK; at += PIECE) {
    ij__turn_take(&c->turn);
    bool here = !alive || alive(user);
    s = here ? ij_towers_encode(c->towers, media, at, IJ_MIN((int64_t)PIECE, r->n_rows - at), r->floats + (size_t)at * c->hidden, err)
             : ij__fail(err, IJ_E_CANCELLED, "media", "nobody waits for them any more");
    ij__turn_give(&c->turn);
  }
  return s;
}

/* Waits a moment for any entry to change. */
static void wait_a_moment(ij_encoded *c) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 200000000L;
  if (until.tv_nsec >= 1000000000L) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000L;
  }
  pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

/* The entry, held: ready, or (*mine) to be made by the caller. NULL: an error. */
static ij_encoded_rows *claim(ij_encoded *c, const ij_media_info *info, bool (*alive)(void *user), void *user, bool *mine, ij_err *err) {
  ij_encoded_rows *r;
  pthread_mutex_lock(&c->lock);
  while ((r = find(c, info)) && !r->ready) {
    wait_a_moment(c);
    pthread_mutex_unlock(&c->lock);
    bool here = !alive || alive(user);
    if (!here) {
      ij__fail(err, IJ_E_CANCELLED, "media", "nobody waits for them any more");
      return NULL;
    }
    pthread_mutex_lock(&c->lock);
  }
  *mine = !r;
  c->stats.n_hits += r != NULL;
  if (!r) r = add(c, info, err);
  if (r) {
    r->refs++;
    r->used = ++c->clock;
  }
  shrink(c);
  pthread_mutex_unlock(&c->lock);
  return r;
}

ij_status ij__encoded_get(ij_encoded *c, const ij_media *media, bool (*alive)(void *user), void *user, ij_encoded_rows **out, ij_err *err) {
  ij_media_info info;
  ij_err local = {0};
  bool mine = false;
  if (!err) err = &local;
  *out = NULL;
  ij_media_get_info(media, &info);
  ij_encoded_rows *r = claim(c, &info, alive, user, &mine, err);
  if (!r) return err->code;
  ij_status s = mine ? encode(c, media, r, alive, user, err) : IJ_OK;
  pthread_mutex_lock(&c->lock);
  if (mine && s == IJ_OK) {
    r->ready = true;
    c->stats.n_encoded++;
    c->stats.n_rows += r->n_rows;
  } else if (mine) {
    r->refs--;
    take_out(c, r);
  }
  if (mine) pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
  if (s == IJ_OK) *out = r;
  return s;
}

const float *ij__encoded_floats(const ij_encoded_rows *rows) { return rows->floats; }

void ij__encoded_release(ij_encoded *c, ij_encoded_rows *r) {
  if (!r) return;
  pthread_mutex_lock(&c->lock);
  r->refs--;
  if (r->dead && r->refs == 0) free_rows(r);
  shrink(c);
  pthread_mutex_unlock(&c->lock);
}

ij_encoded_stats ij__encoded_get_stats(ij_encoded *c) {
  pthread_mutex_lock(&c->lock);
  ij_encoded_stats s = c->stats;
  pthread_mutex_unlock(&c->lock);
  return s;
}
