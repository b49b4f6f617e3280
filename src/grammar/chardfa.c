/* chardfa.c: automata over characters: products, and writing them into an automaton over bytes. */
#include <string.h>

#include "core/alloc.h"
#include "grammar/regex.h"

enum { MAX_TABLE = 4000000 };

void ij__chardfa_free(ij_chardfa *d) {
  ij__free(d->cuts);
  ij__free(d->class_of);
  ij__free(d->next);
  ij__free(d->accept);
  *d = (ij_chardfa){0};
}

void ij__set_table_free(ij_set_table *t) {
  ij__free(t->pool);
  ij__free(t->first);
  ij__free(t->hash);
  ij__free(t->next);
  ij__free(t->buckets);
  *t = (ij_set_table){0};
}

static bool grow_array(uint32_t **array, size_t n) {
  uint32_t *at = ij__realloc(*array, n * sizeof *at);
  if (!at) return false;
  *array = at;
  return true;
}

static bool grow_table(ij_set_table *t) {
  uint32_t cap = t->cap ? 2 * t->cap : 64;
  if (!grow_array(&t->first, (size_t)cap + 1) || !grow_array(&t->hash, cap) || !grow_array(&t->next, cap)) return false;
  uint32_t *buckets = ij__alloc_array((size_t)2 * cap, sizeof *buckets);
  if (!buckets) return false;
  ij__free(t->buckets);
  t->buckets = buckets;
  t->n_buckets = 2 * cap;
  t->cap = cap;
  t->first[0] = 0;
  memset(buckets, 0xFF, t->n_buckets * sizeof *buckets);
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t *head = &buckets[t->hash[i] & (t->n_buckets - 1)];
    t->next[i] = *head;
    *head = i;
  }
  return true;
}

uint32_t ij__set_table_find(ij_set_table *t, const uint32_t *list, uint32_t n, bool *is_new) {
  uint32_t hash = 2166136261u;
  *is_new = false;
  if (t->n == t->cap && !t->failed) t->failed = !grow_table(t);
  if (t->failed) return 0;
  for (uint32_t i = 0; i < n; i++) {
    hash = (hash ^ list[i]) * 16777619u;
    hash ^= hash >> 15;
  }
  uint32_t *head = &t->buckets[hash & (t->n_buckets - 1)];
  for (uint32_t i = *head; i != IJ_NONE; i = t->next[i]) {
    uint32_t len = t->first[i + 1] - t->first[i];
    if (t->hash[i] == hash && len == n && memcmp(t->pool + t->first[i], list, n * sizeof *list) == 0) return i;
  }
  if (n > t->cap_pool - t->n_pool) {
    uint32_t cap = IJ_MAX(2 * t->cap_pool, t->n_pool + n + 256);
    t->failed = cap > 0x10000000u || !grow_array(&t->pool, cap);
    if (t->failed) return 0;
    t->cap_pool = cap;
  }
  memcpy(t->pool + t->n_pool, list, n * sizeof *list);
  t->n_pool += n;
  t->first[t->n + 1] = t->n_pool;
  t->hash[t->n] = hash;
  t->next[t->n] = *head;
  *head = t->n;
  *is_new = true;
  return t->n++;
}

uint32_t ij__chardfa_add_state(ij_chardfa *d, bool accept) {
  if (d->n_states == d->cap_states) {
    uint32_t cap = d->cap_states ? 2 * d->cap_states : 32;
    if ((uint64_t)cap * d->n_classes > 4u * MAX_TABLE || !grow_array(&d->next, (size_t)cap * d->n_classes)) return IJ_NONE;
    uint8_t *accepts = ij__realloc(d->accept, cap);
    if (!accepts) return IJ_NONE;
    d->accept = accepts;
    d->cap_states = cap;
  }
  memset(d->next + (size_t)d->n_states * d->n_classes, 0xFF, d->n_classes * sizeof *d->next);
  d->accept[d->n_states] = accept;
  return d->n_states++;
}

/* States from which acceptance can be reached, found by reading edges backwards until nothing changes. */
bool ij__chardfa_trim(ij_chardfa *d) {
  size_t n_edges = (size_t)d->n_states * d->n_classes;
  uint32_t *first = ij__alloc_array((size_t)d->n_states + 1, sizeof *first), *next = ij__alloc_array(n_edges + 1, sizeof *next);
  uint32_t *stack = ij__alloc_array((size_t)d->n_states + 1, sizeof *stack), n = 0;
  uint32_t *todo = ij__alloc_array((size_t)d->n_states + 1, sizeof *todo), n_todo = 0;
  uint8_t *alive = ij__alloc_zero((size_t)d->n_states + 1, 1);
  bool ok = first && next && stack && todo && alive;
  if (ok) {
    memset(first, 0xFF, d->n_states * sizeof *first);
    for (size_t e = 0; e < n_edges; e++) {
      if (d->next[e] == IJ_NONE) continue;
      next[e] = first[d->next[e]];
      first[d->next[e]] = (uint32_t)e;
    }
    for (uint32_t s = 0; s < d->n_states; s++) {
      alive[s] = d->accept[s];
      if (alive[s]) stack[n++] = s;
    }
    while (n) {
      for (uint32_t e = first[stack[--n]]; e != IJ_NONE; e = next[e]) {
        uint32_t from = e / d->n_classes;
        if (!alive[from]) todo[n_todo++] = from;
        alive[from] = 1;
      }
      while (n_todo) stack[n++] = todo[--n_todo];
    }
    for (size_t e = 0; e < n_edges; e++) {
      if (d->next[e] != IJ_NONE && !alive[d->next[e]]) d->next[e] = IJ_NONE;
    }
  }
  ij__free(first);
  ij__free(next);
  ij__free(stack);
  ij__free(todo);
  ij__free(alive);
  return ok;
}

/* ----------------------------------------------------------------------------------------------------------- products */

/* The classes of two automata together: every pair that occurs is one. */
static bool join_alphabets(ij_chardfa *out, const ij_chardfa *a, const ij_chardfa *b, uint32_t **pairs) {
  ij_set_table table = {0};
  uint32_t n = a->n_segments + b->n_segments, i = 0, k = 0;
  out->cuts = ij__alloc_array(n, sizeof *out->cuts);
  out->class_of = ij__alloc_array(n, sizeof *out->class_of);
  *pairs = ij__alloc_array(2 * (size_t)n, sizeof **pairs);
  bool ok = out->cuts && out->class_of && *pairs;
  while (ok && (i < a->n_segments || k < b->n_segments)) {
    uint32_t ca = i < a->n_segments ? a->cuts[i] : IJ_NONE, cb = k < b->n_segments ? b->cuts[k] : IJ_NONE, cut = IJ_MIN(ca, cb);
    if (ca == cut) i++;
    if (cb == cut) k++;
    uint32_t pair[2] = {a->class_of[i - 1], b->class_of[k - 1]};
    bool is_new;
    uint32_t c = ij__set_table_find(&table, pair, 2, &is_new);
    ok = !table.failed;
    if (ok && is_new) memcpy(*pairs + 2 * (size_t)c, pair, sizeof pair);
    out->cuts[out->n_segments] = cut;
    out->class_of[out->n_segments++] = c;
  }
  out->n_classes = table.n;
  ij__set_table_free(&table);
  return ok;
}

static ij_status too_large(const char *where, ij_err *err) {
  return ij__fail(err, IJ_E_UNSUPPORTED, where, "pattern, format and length together are too complex: more than %u states",
                  IJ_CHARDFA_MAX_STATES);
}

/* Puts the product in place of *d, or reports. */
static ij_status finish_product(ij_chardfa *d, ij_chardfa *out, bool ok, bool large, const char *where, ij_err *err) {
  ij_status status = IJ_OK;
  if (large) status = too_large(where, err);
  else if (!ok || !ij__chardfa_trim(out)) status = ij__fail_nomem(err, "a regular expression", (size_t)out->n_states * 8);
  if (status != IJ_OK) {
    ij__chardfa_free(out);
    return status;
  }
  ij__chardfa_free(d);
  *d = *out;
  return IJ_OK;
}

ij_status ij__chardfa_intersect(ij_chardfa *d, const ij_chardfa *other, const char *where, ij_err *err) {
  ij_chardfa out = {0};
  ij_set_table table = {0};
  uint32_t *pairs = NULL, start[2] = {0, 0};
  bool is_new, large = false, ok = join_alphabets(&out, d, other, &pairs);
  if (ok) {
    ij__set_table_find(&table, start, 2, &is_new);
    ok = !table.failed && ij__chardfa_add_state(&out, d->accept[0] && other->accept[0]) != IJ_NONE;
  }
  for (uint32_t i = 0; ok && i < table.n && !large; i++) {
    for (uint32_t c = 0; ok && c < out.n_classes; c++) {
      uint32_t x = table.pool[2 * i], y = table.pool[2 * i + 1];
      uint32_t to[2] = {d->next[(size_t)x * d->n_classes + pairs[2 * c]], other->next[(size_t)y * other->n_classes + pairs[2 * c + 1]]};
      if (to[0] == IJ_NONE || to[1] == IJ_NONE) continue;
      uint32_t t = ij__set_table_find(&table, to, 2, &is_new);
      ok = !table.failed && (!is_new || ij__chardfa_add_state(&out, d->accept[to[0]] && other->accept[to[1]]) != IJ_NONE);
      if (ok) out.next[(size_t)i * out.n_classes + c] = t;
    }
    large = table.n > IJ_CHARDFA_MAX_STATES || (uint64_t)table.n * out.n_classes > MAX_TABLE;
  }
  ij__set_table_free(&table);
  ij__free(pairs);
  return finish_product(d, &out, ok, large, where, err);
}

ij_status ij__chardfa_bound(ij_chardfa *d, uint32_t min, uint32_t max, const char *where, ij_err *err) {
  ij_chardfa out = {.n_segments = d->n_segments, .n_classes = d->n_classes};
  ij_set_table table = {0};
  uint32_t last = max == IJ_NONE ? min : max, start[2] = {0, 0};
  bool is_new, large = last > IJ_CHARDFA_MAX_STATES;
  out.cuts = ij__alloc_array(d->n_segments, sizeof *out.cuts);
  out.class_of = ij__alloc_array(d->n_segments, sizeof *out.class_of);
  bool ok = out.cuts && out.class_of;
  if (ok) {
    memcpy(out.cuts, d->cuts, d->n_segments * sizeof *out.cuts);
    memcpy(out.class_of, d->class_of, d->n_segments * sizeof *out.class_of);
    ij__set_table_find(&table, start, 2, &is_new);
    ok = !table.failed && ij__chardfa_add_state(&out, d->accept[0] && min == 0) != IJ_NONE;
  }
  for (uint32_t i = 0; ok && i < table.n && !large; i++) {
    for (uint32_t c = 0; ok && c < out.n_classes; c++) {
      uint32_t count = table.pool[2 * i + 1], to[2] = {d->next[(size_t)table.pool[2 * i] * d->n_classes + c], IJ_MIN(count + 1, last)};
      if (to[0] == IJ_NONE || (max != IJ_NONE && count == max)) continue;
      uint32_t t = ij__set_table_find(&table, to, 2, &is_new);
      ok = !table.failed && (!is_new || ij__chardfa_add_state(&out, d->accept[to[0]] && to[1] >= min) != IJ_NONE);
      if (ok) out.next[(size_t)i * out.n_classes + c] = t;
    }
    large = table.n > IJ_CHARDFA_MAX_STATES || (uint64_t)table.n * out.n_classes > MAX_TABLE;
  }
  ij__set_table_free(&table);
  return finish_product(d, &out, ok, large, where, err);
}

/* ----------------------------------------------------------------------------------------------------------- emission */

/* The class of the characters that lead from a state to `to`. */
static uint32_t edge_class(const ij_chardfa *d, ij_nfa *a, const uint32_t *row, uint32_t to, bool json) {
  ij_charset set = {0};
  for (uint32_t s = 0; s < d->n_segments; s++) {
    if (row[d->class_of[s]] == to) ij__charset_add(&set, d->cuts[s], s + 1 < d->n_segments ? d->cuts[s + 1] - 1 : IJ_CHAR_MAX);
  }
  ij__charset_normalize(&set);
  uint32_t c = 0;
  if (set.failed) a->no_memory = true;
  else c = ij__nfa_make_class(a, &set, json);
  ij__charset_free(&set);
  return c;
}

void ij__chardfa_emit(const ij_chardfa *d, ij_nfa *a, uint32_t from, uint32_t to, bool json) {
  uint32_t first = a->n_states;
  for (uint32_t s = 0; s < d->n_states; s++) ij__nfa_state(a);
  if (a->no_memory || a->too_large) return;
  ij__nfa_empty(a, from, first);
  for (uint32_t s = 0; s < d->n_states && !a->no_memory && !a->too_large; s++) {
    const uint32_t *row = d->next + (size_t)s * d->n_classes;
    if (d->accept[s]) ij__nfa_empty(a, first + s, to);
    for (uint32_t c = 0; c < d->n_classes; c++) {
      bool done = row[c] == IJ_NONE;
      for (uint32_t k = 0; k < c && !done; k++) done = row[k] == row[c];
      if (!done) ij__nfa_class(a, first + s, edge_class(d, a, row, row[c], json), first + row[c]);
    }
  }
}
