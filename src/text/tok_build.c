/* tok_build.c: from ids and bytes, however they were read, to the two tables and the special tokens.
 *
 * Everything that makes encoding safe is checked here once: bytes are unique, every single byte is a token, ids are bounded, and
 * the strings that this family pins to ids have those ids.
 */
#include <stdio.h>

#include "core/alloc.h"
#include "text/tok_int.h"

/* A full table would never end a search, and a file made to collide would make it slow: both are refused at this many steps. */
enum { MAX_PROBES = 4096 };

static bool grow_ids(ij_tok *t, uint32_t need) {
  uint32_t cap = IJ_MAX(t->cap_ids, 1024u);
  while (cap < need) cap *= 2;
  ij_tok_entry *entries = ij__realloc(t->entries, cap * sizeof *entries);
  if (entries) t->entries = entries;
  uint8_t *kinds = ij__realloc(t->kinds, cap);
  if (kinds) t->kinds = kinds;
  if (!entries || !kinds) return false;
  memset(t->kinds + t->cap_ids, IJ_TOK_ABSENT, cap - t->cap_ids);
  memset(t->entries + t->cap_ids, 0, (cap - t->cap_ids) * sizeof *entries);
  t->cap_ids = cap;
  return true;
}

static bool grow_blob(ij_tok *t, size_t need) {
  size_t cap = IJ_MAX(t->blob_cap, (size_t)1 << 16);
  while (cap < need) cap *= 2;
  unsigned char *blob = ij__realloc(t->blob, cap);
  if (!blob) return false;
  t->blob = blob;
  t->blob_cap = cap;
  return true;
}

ij_status ij__tok_add(ij_tok *t, int64_t id, ij_tok_kind kind, const unsigned char *bytes, size_t n, const char *where, ij_err *err) {
  if (id < 0 || id >= IJ_TOK_MAX_IDS) {
    return ij__fail(err, IJ_E_FORMAT, where, "token id %lld is outside 0..%d", (long long)id, IJ_TOK_MAX_IDS - 1);
  }
  if (n == 0) return ij__fail(err, IJ_E_FORMAT, where, "token %lld is empty", (long long)id);
  uint32_t i = (uint32_t)id;
  if (i >= t->cap_ids && !grow_ids(t, i + 1)) return ij__fail_nomem(err, "the token table", (size_t)i * 9);
  if (t->kinds[i] != IJ_TOK_ABSENT) return ij__fail(err, IJ_E_FORMAT, where, "token id %u is given twice", i);
  if (n > UINT32_MAX / 2 - t->blob_len) return ij__fail(err, IJ_E_FORMAT, where, "the tokens hold more than 2 GiB of text");
  if (t->blob_len + n + 8 > t->blob_cap && !grow_blob(t, t->blob_len + n + 8)) return ij__fail_nomem(err, "token bytes", t->blob_len + n);
  memcpy(t->blob + t->blob_len, bytes, n);
  t->entries[i] = (ij_tok_entry){(uint32_t)t->blob_len, (uint32_t)n};
  t->kinds[i] = (uint8_t)kind;
  t->blob_len += n;
  t->n_ids = IJ_MAX(t->n_ids, i + 1);
  if (kind == IJ_TOK_ORDINARY) {
    t->n_ordinary++;
    t->max_len = IJ_MAX(t->max_len, n);
  }
  return IJ_OK;
}

/* Bits of a table with at least twice n slots. */
static unsigned table_bits(size_t n) {
  unsigned bits = 4;
  while (((size_t)1 << bits) < 2 * n) bits++;
  return bits;
}

/* IJ_TOK_NONE when the slot was free, else the id that has these bytes already; false: too many probes. */
static bool add_slot(ij_tok *t, uint32_t id, uint32_t *other) {
  ij_tok_entry e = t->entries[id];
  const unsigned char *p = t->blob + e.offset;
  uint64_t key = ij__tok_key(p, e.len);
  *other = IJ_TOK_NONE;
  size_t i = ij__tok_slot_home(t, key, e.len);
  for (int probes = 0; probes < MAX_PROBES; probes++, i = (i + 1) & t->slot_mask) {
    ij_tok_slot *s = &t->slots[i];
    if (s->len == 0) {
      *s = (ij_tok_slot){key, id, e.len};
      return true;
    }
    if (s->key == key && s->len == e.len && (e.len <= 8 || memcmp(t->blob + t->entries[s->id].offset, p, e.len) == 0)) {
      *other = s->id;
      return true;
    }
  }
  return false;
}

static ij_status find_byte_ids(ij_tok *t, const char *where, ij_err *err) {
  ij_findings missing = {0};
  for (int b = 0; b < 256; b++) {
    unsigned char byte = (unsigned char)b;
    t->byte_ids[b] = ij__tok_find_keyed(t, &byte, 1, byte);
    if (t->byte_ids[b] == IJ_TOK_NONE) ij__findings_add(&missing, "0x%02X", (unsigned)b);
  }
  if (missing.n == 0) return IJ_OK;
  return ij__fail(err, IJ_E_FORMAT, where, "every byte must be a token by itself, but %d of the 256 are missing: %s", missing.n,
                  missing.text);
}

ij_status ij__tok_index(ij_tok *t, const char *where, ij_err *err) {
  unsigned bits = table_bits(t->n_ordinary);
  t->slot_shift = 64 - bits;
  t->slot_mask = ((size_t)1 << bits) - 1;
  t->slots = ij__alloc_zero(t->slot_mask + 1, sizeof *t->slots);
  if (!t->slots) return ij__fail_nomem(err, "the token table", (t->slot_mask + 1) * sizeof *t->slots);
  for (uint32_t id = 0; id < t->n_ids; id++) {
    uint32_t other;
    if (t->kinds[id] != IJ_TOK_ORDINARY) continue;
    if (!add_slot(t, id, &other)) return ij__fail(err, IJ_E_FORMAT, where, "too many tokens share a hash; is this a real vocabulary?");
    if (other != IJ_TOK_NONE) return ij__fail(err, IJ_E_FORMAT, where, "tokens %u and %u have the same bytes", other, id);
  }
  return find_byte_ids(t, where, err);
}

static bool add_pair(ij_tok *t, const ij_tok_pair *pair) {
  size_t i = ij__tok_pair_home(t, pair->left, pair->right);
  for (int probes = 0; probes < MAX_PROBES; probes++, i = (i + 1) & t->pair_mask) {
    ij_tok_pair *p = &t->pairs[i];
    if (p->left == pair->left && p->right == pair->right) return true;
    if (p->left == IJ_TOK_NONE) {
      *p = *pair;
      return true;
    }
  }
  return false;
}

ij_status ij__tok_set_pairs(ij_tok *t, const ij_tok_pair *list, size_t n, const char *where, ij_err *err) {
  enum { AHEAD = 16 }; /* the table is larger than the caches: ask for a slot some pairs before it is used */
  unsigned bits = table_bits(n);
  t->pair_shift = 64 - bits;
  t->pair_mask = ((size_t)1 << bits) - 1;
  t->pairs = ij__alloc_array(t->pair_mask + 1, sizeof *t->pairs);
  if (!t->pairs) return ij__fail_nomem(err, "the table of merges", (t->pair_mask + 1) * sizeof *t->pairs);
  memset(t->pairs, 0xFF, (t->pair_mask + 1) * sizeof *t->pairs); /* IJ_TOK_NONE everywhere */
  for (size_t i = 0; i < n; i++) {
    if (i + AHEAD < n) __builtin_prefetch(&t->pairs[ij__tok_pair_home(t, list[i + AHEAD].left, list[i + AHEAD].right)], 1);
    if (!add_pair(t, &list[i])) return ij__fail(err, IJ_E_FORMAT, where, "too many merges share a hash; is this a real vocabulary?");
  }
  return IJ_OK;
}

typedef struct pair_list {
  ij_tok_pair *items;
  size_t n, cap;
} pair_list;

static bool push_pair(pair_list *list, ij_tok_pair pair) {
  if (list->n == list->cap) {
    size_t cap = list->cap ? 2 * list->cap : 4096;
    ij_tok_pair *items = ij__realloc(list->items, cap * sizeof *items);
    if (!items) return false;
    list->items = items;
    list->cap = cap;
  }
  list->items[list->n++] = pair;
  return true;
}

/* Powers of the hash multiplier, and prefix hashes of one token: room for max_len + 1 each. */
typedef struct split_scratch {
  uint64_t *power, *prefix;
} split_scratch;

/* The key of the last n of the len bytes at p. */
static uint64_t tail_key(const split_scratch *s, const unsigned char *p, size_t len, size_t n) {
  if (n <= 8) return ij__tok_load_fast(p + len - n, n); /* the blob has slack */
  return s->prefix[len] - s->prefix[len - n] * s->power[n];
}

static bool push_splits(const ij_tok *t, uint32_t id, const split_scratch *s, pair_list *list) {
  ij_tok_entry e = t->entries[id];
  const unsigned char *p = t->blob + e.offset;
  s->prefix[0] = 0;
  for (size_t i = 0; i < e.len; i++) s->prefix[i + 1] = ij__tok_hash_step(s->prefix[i], p[i]);
  for (size_t i = 1; i < e.len; i++) {
    uint32_t right = ij__tok_find_keyed(t, p + i, e.len - i, tail_key(s, p, e.len, e.len - i));
    if (right == IJ_TOK_NONE) continue;
    uint32_t left = ij__tok_find_keyed(t, p, i, i <= 8 ? ij__tok_load_fast(p, i) : s->prefix[i]);
    if (left == IJ_TOK_NONE) continue;
    if (!push_pair(list, (ij_tok_pair){left, right, id, id})) return false;
  }
  return true;
}

ij_status ij__tok_pairs_from_ranks(ij_tok *t, const char *where, ij_err *err) {
  split_scratch s = {ij__alloc_array(t->max_len + 1, 8), ij__alloc_array(t->max_len + 1, 8)};
  pair_list list = {0};
  bool ok = s.power && s.prefix;
  if (ok) s.power[0] = 1;
  for (size_t i = 1; ok && i <= t->max_len; i++) s.power[i] = s.power[i - 1] * IJ_TOK_MULTIPLIER;
  for (uint32_t id = 0; ok && id < t->n_ids; id++) {
    if (t->kinds[id] == IJ_TOK_ORDINARY) ok = push_splits(t, id, &s, &list);
  }
  ij_status status = ok ? ij__tok_set_pairs(t, list.items, list.n, where, err) : ij__fail_nomem(err, "the list of merges", list.cap * 32);
  ij__free(s.power);
  ij__free(s.prefix);
  ij__free(list.items);
  return status;
}
