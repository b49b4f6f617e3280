/* tok_encode.c: text -> ids.
 *
 * A piece that is a token is emitted at once; otherwise neighbours are merged, lowest rank first, the leftmost of equals. Short pieces
 * keep their parts in small arrays and search them for the next merge; long ones (text is hostile: a megabyte of one letter is
 * one piece) use a linked list and a heap, so that the work stays within n log n. Both give the same ids.
 */
#include "core/alloc.h"
#include "text/split.h"
#include "text/tok_int.h"

enum { SHORT_PIECE = 64 };

typedef struct id_sink {
  int32_t *ids;
  size_t cap, n;
} id_sink;

static inline void emit(id_sink *sink, uint32_t id) {
  if (sink->n < sink->cap) sink->ids[sink->n] = (int32_t)id;
  sink->n++;
}

/* ----------------------------------------------------------------------------------------------------------- short pieces */

/* Parts k of the piece, and what part k and its right neighbour become; rank IJ_TOK_NONE when they do not merge. */
typedef struct short_parts {
  uint32_t id[SHORT_PIECE], rank[SHORT_PIECE], merged[SHORT_PIECE];
  size_t n;
} short_parts;

static inline void rate_pair(const ij_tok *t, short_parts *s, size_t k) {
  const ij_tok_pair *pair = k + 1 < s->n ? ij__tok_find_pair(t, s->id[k], s->id[k + 1]) : NULL;
  s->rank[k] = pair ? pair->rank : IJ_TOK_NONE;
  s->merged[k] = pair ? pair->id : 0;
}

static void remove_part(short_parts *s, size_t k) {
  s->n--;
  for (size_t i = k; i < s->n; i++) {
    s->id[i] = s->id[i + 1];
    s->rank[i] = s->rank[i + 1];
    s->merged[i] = s->merged[i + 1];
  }
}

static void merge_short(const ij_tok *t, const unsigned char *p, size_t n, short_parts *s) {
  s->n = n;
  for (size_t k = 0; k < n; k++) s->id[k] = t->byte_ids[p[k]];
  for (size_t k = 0; k < n; k++) rate_pair(t, s, k);
  for (;;) {
    uint32_t best = IJ_TOK_NONE;
    size_t at = 0;
    for (size_t k = 0; k + 1 < s->n; k++) {
      if (s->rank[k] < best) best = s->rank[k], at = k;
    }
    if (best == IJ_TOK_NONE) return;
    s->id[at] = s->merged[at];
    remove_part(s, at + 1);
    rate_pair(t, s, at);
    if (at > 0) rate_pair(t, s, at - 1);
  }
}

/* ------------------------------------------------------------------------------------------------------------ long pieces */

typedef struct long_part {
  uint32_t id, prev, next, rank; /* rank of the pair with next; prev and next IJ_TOK_NONE at the ends */
} long_part;

/* The heap holds rank << 32 | position, so its order is the order of merging. An entry whose part has since got another rank is
 * stale and skipped. Every merge takes out one entry and adds at most two: 2 n entries suffice. */
typedef struct long_parts {
  long_part *parts;
  uint64_t *heap;
  size_t n_heap, cap; /* cap: bytes of text that fit */
} long_parts;

#define DEAD_PART (IJ_TOK_NONE - 1) /* as rank: merged into its left neighbour */

static void heap_sift_down(uint64_t *heap, size_t n, size_t i) {
  uint64_t x = heap[i];
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && heap[child + 1] < heap[child]) child++;
    if (x <= heap[child]) break;
    heap[i] = heap[child];
  }
  heap[i] = x;
}

static void heap_push(long_parts *l, uint64_t x) {
  size_t i = l->n_heap++;
  for (size_t parent; i > 0 && l->heap[parent = (i - 1) / 2] > x; i = parent) l->heap[i] = l->heap[parent];
  l->heap[i] = x;
}

static uint64_t heap_pop(long_parts *l) {
  uint64_t top = l->heap[0];
  l->heap[0] = l->heap[--l->n_heap];
  if (l->n_heap) heap_sift_down(l->heap, l->n_heap, 0);
  return top;
}

static void rate_part(const ij_tok *t, long_parts *l, uint32_t k) {
  long_part *part = &l->parts[k];
  const ij_tok_pair *pair = part->next == IJ_TOK_NONE ? NULL : ij__tok_find_pair(t, part->id, l->parts[part->next].id);
  uint32_t rank = pair ? pair->rank : IJ_TOK_NONE;
  part->rank = rank;
  if (pair) heap_push(l, (uint64_t)rank << 32 | k);
}

static ij_status reserve_long(long_parts *l, size_t n, ij_err *err) {
  if (n > UINT32_MAX / 2) return ij__fail(err, IJ_E_ARGUMENT, "", "one word of %zu bytes; words are limited to 2 GiB", n);
  if (n <= l->cap) return IJ_OK;
  ij__free(l->parts);
  ij__free(l->heap);
  l->parts = ij__alloc_array(n, sizeof *l->parts);
  l->heap = ij__alloc_array(n, 2 * sizeof *l->heap);
  l->cap = l->parts && l->heap ? n : 0;
  return l->cap ? IJ_OK : ij__fail_nomem(err, "a very long word", n * (sizeof *l->parts + 2 * sizeof *l->heap));
}

static void merge_at(const ij_tok *t, long_parts *l, uint32_t k) {
  long_part *part = &l->parts[k];
  long_part *right = &l->parts[part->next];
  part->id = ij__tok_find_pair(t, part->id, right->id)->id;
  part->next = right->next;
  right->rank = DEAD_PART;
  if (part->next != IJ_TOK_NONE) l->parts[part->next].prev = k;
  rate_part(t, l, k);
  if (part->prev != IJ_TOK_NONE) rate_part(t, l, part->prev);
}

/* One call of ij__tok_encode. */
typedef struct encoder {
  const ij_tok *t;
  long_parts long_parts; /* kept from one long piece to the next */
  id_sink sink;
  ij_err *err;
} encoder;

static ij_status merge_long(encoder *e, const unsigned char *p, size_t n) {
  const ij_tok *t = e->t;
  long_parts *l = &e->long_parts;
  ij_status status = reserve_long(l, n, e->err);
  if (status != IJ_OK) return status;
  uint32_t count = (uint32_t)n;
  for (uint32_t k = 0; k < count; k++) {
    l->parts[k] = (long_part){t->byte_ids[p[k]], k == 0 ? IJ_TOK_NONE : k - 1, k + 1 == count ? IJ_TOK_NONE : k + 1, 0};
  }
  l->n_heap = 0;
  for (uint32_t k = 0; k < count; k++) rate_part(t, l, k);
  while (l->n_heap) {
    uint64_t top = heap_pop(l);
    uint32_t k = (uint32_t)top;
    if (l->parts[k].rank == (uint32_t)(top >> 32)) merge_at(t, l, k);
  }
  for (uint32_t k = 0; k != IJ_TOK_NONE; k = l->parts[k].next) emit(&e->sink, l->parts[k].id);
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------------ pieces */

/* Whether merging the token's bytes builds the token. */
static bool is_whole(const ij_tok *t, uint32_t id, const unsigned char *p, size_t n) {
  if (!t->whole || n == 1) return true;
  uint8_t known = atomic_load_explicit(&t->whole[id], memory_order_relaxed);
  if (known == 0 && n <= SHORT_PIECE) {
    short_parts s;
    merge_short(t, p, n, &s);
    known = s.n == 1 && s.id[0] == id ? 1 : 2;
    atomic_store_explicit(&t->whole[id], known, memory_order_relaxed);
  }
  return known == 1; /* a very long token is merged each time */
}

typedef struct text_piece {
  const unsigned char *bytes;
  size_t n;
  uint64_t key; /* in the token table; not set when the piece is longer than every token */
} text_piece;

static ij_status encode_piece(encoder *e, const text_piece *piece) {
  const ij_tok *t = e->t;
  const unsigned char *p = piece->bytes;
  size_t n = piece->n;
  if (n <= t->max_len) {
    uint32_t id = ij__tok_find_keyed(t, p, n, piece->key);
    if (id != IJ_TOK_NONE && is_whole(t, id, p, n)) {
      emit(&e->sink, id);
      return IJ_OK;
    }
  }
  if (n > SHORT_PIECE) return merge_long(e, p, n);
  short_parts s;
  merge_short(t, p, n, &s);
  for (size_t k = 0; k < s.n; k++) emit(&e->sink, s.id[k]);
  return IJ_OK;
}

/* The token table is larger than the caches: pieces are cut in small batches, so that their slots are on the way before the first
 * is looked at. */
static ij_status encode_segment(encoder *e, const unsigned char *p, const unsigned char *end) {
  enum { BATCH = 16 };
  const ij_tok *t = e->t;
  text_piece pieces[BATCH];
  ij_status status = IJ_OK;
  while (status == IJ_OK && p < end) {
    int n_pieces = 0;
    for (; n_pieces < BATCH && p < end; n_pieces++) {
      text_piece *piece = &pieces[n_pieces];
      piece->bytes = p;
      p = ij__split_next(p, end);
      size_t n = piece->n = (size_t)(p - piece->bytes);
      if (n > t->max_len) continue;
      piece->key = n <= 8 && end - piece->bytes >= 8 ? ij__tok_load_fast(piece->bytes, n) : ij__tok_key(piece->bytes, n);
      __builtin_prefetch(&t->slots[ij__tok_slot_home(t, piece->key, n)]);
    }
    for (int i = 0; status == IJ_OK && i < n_pieces; i++) status = encode_piece(e, &pieces[i]);
  }
  return status;
}

/* ---------------------------------------------------------------------------------------------------------------- specials */

/* The first name in [low, high) whose byte at `depth` is at least c; they share all bytes before it. */
static size_t lower_bound(const ij_tok_name *names, size_t low, size_t high, size_t depth, unsigned c) {
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if ((unsigned char)names[mid].bytes[depth] < c) low = mid + 1;
    else high = mid;
  }
  return low;
}

/* The longest name that stands at p: names are sorted, so each further byte narrows a range of them. NULL: none. */
static const ij_tok_name *match_name(const ij_tok *t, const unsigned char *p, const unsigned char *end) {
  const ij_tok_name *found = NULL;
  size_t low = 0, high = t->n_names;
  for (size_t depth = 0; low < high; depth++) {
    if (t->names[low].len == depth) found = &t->names[low++]; /* a prefix of the others sorts before them */
    if ((size_t)(end - p) <= depth) break;
    low = lower_bound(t->names, low, high, depth, p[depth]);
    high = lower_bound(t->names, low, high, depth, p[depth] + 1u);
  }
  return found;
}

static ij_status encode_parsed(encoder *e, const unsigned char *p, const unsigned char *end) {
  const ij_tok *t = e->t;
  ij_status status = IJ_OK;
  const unsigned char *segment = p;
  while (p < end) {
    const ij_tok_name *name = t->name_start[*p] ? match_name(t, p, end) : NULL;
    if (!name) {
      p++;
      continue;
    }
    status = encode_segment(e, segment, p);
    if (status != IJ_OK) return status;
    emit(&e->sink, (uint32_t)name->id);
    segment = p += name->len;
  }
  return encode_segment(e, segment, end);
}

ij_status ij__tok_encode(const ij_tok *t, const char *bytes, size_t n, bool parse_special, int32_t *ids, size_t cap, size_t *n_ids,
                         ij_err *err) {
  const unsigned char *p = (const unsigned char *)bytes;
  encoder e = {.t = t, .sink = {ids, ids ? cap : 0, 0}, .err = err};
  ij_status status = IJ_OK;
  if (n > 0) status = (parse_special ? encode_parsed : encode_segment)(&e, p, p + n);
  ij__free(e.long_parts.parts);
  ij__free(e.long_parts.heap);
  *n_ids = status == IJ_OK ? e.sink.n : 0;
  return status;
}
