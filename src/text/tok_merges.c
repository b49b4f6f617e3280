/* tok_merges.c: the byte-level spelling of tokens, and lists of merges in it: what a tokenizer.json and a GGUF file have in common.
 *
 * Looking up the ids of a merge waits for memory: it is done some merges after their slots have been asked for.
 */
#include <stdio.h>

#include "core/alloc.h"
#include "text/tok_int.h"

/* Printable bytes of Latin-1 stand for themselves; the other 68, in order, are U+0100, U+0101, ... */
void ij__tok_spelling_init(ij_tok_spelling *s) {
  for (size_t i = 0; i < IJ_COUNT_OF(s->byte_of); i++) s->byte_of[i] = IJ_TOK_NOT_A_BYTE;
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; b++) {
    bool plain = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    s->byte_of[plain ? b : next++] = (uint16_t)b;
  }
}

/* Every spelled character is one byte, or a lead byte from 0xC2 to 0xC5 and one that continues it: anything else stands for no byte. */
int64_t ij__tok_unspell(const ij_tok_spelling *s, const char *text, size_t n, unsigned char *out) {
  const unsigned char *p = (const unsigned char *)text, *end = p + n;
  int64_t n_out = 0;
  while (p < end) {
    unsigned c = *p++;
    if (c >= 0x80) {
      if (c < 0xC2 || c > 0xC5 || p == end || (*p & 0xC0) != 0x80) return -1;
      c = (c & 0x1F) << 6 | (*p++ & 0x3F);
    }
    if (c >= IJ_COUNT_OF(s->byte_of) || s->byte_of[c] == IJ_TOK_NOT_A_BYTE) return -1;
    out[n_out++] = (unsigned char)s->byte_of[c];
  }
  return n_out;
}

bool ij__tok_merge_halves(const char *text, size_t n, ij_tok_merge *out) {
  const char *space = memchr(text, ' ', n);
  if (!space) return false;
  *out = (ij_tok_merge){text, space + 1, (size_t)(space - text), n - (size_t)(space + 1 - text)};
  return true;
}

/* A merge whose bytes are known and whose ids are not yet. */
typedef struct pending_merge {
  const unsigned char *bytes; /* left, then right */
  size_t n_left, n_right;
  uint64_t left, right, both; /* their keys in the token table */
} pending_merge;

enum { PENDING = 16 };

typedef struct merge_reader {
  ij_tok *t;
  const ij_tok_merges *m;
  const ij_tok_spelling *spelling;
  unsigned char *scratch; /* what is left of it */
  const char *path;
  ij_err *err;
} merge_reader;

static ij_status fail_merge(const merge_reader *r, size_t index, const char *what) {
  char where[512];
  snprintf(where, sizeof where, "%.400s: %s[%zu]", r->path, r->m->field, index);
  return ij__fail(r->err, IJ_E_FORMAT, where, "%s", what);
}

static ij_status parse_merge(merge_reader *r, size_t index, pending_merge *out) {
  ij_tok_merge m;
  if (!r->m->next(r->m->user, &m)) return fail_merge(r, index, r->m->expected);
  int64_t a = ij__tok_unspell(r->spelling, m.left, m.n_left, r->scratch);
  int64_t b = a <= 0 ? -1 : ij__tok_unspell(r->spelling, m.right, m.n_right, r->scratch + a);
  if (b <= 0) return fail_merge(r, index, "a side is empty or not in byte-level spelling");
  const ij_tok *t = r->t;
  const unsigned char *p = r->scratch;
  size_t na = (size_t)a, nb = (size_t)b;
  *out = (pending_merge){p, na, nb, ij__tok_key(p, na), ij__tok_key(p + na, nb), ij__tok_key(p, na + nb)};
  __builtin_prefetch(&t->slots[ij__tok_slot_home(t, out->left, na)]);
  __builtin_prefetch(&t->slots[ij__tok_slot_home(t, out->right, nb)]);
  __builtin_prefetch(&t->slots[ij__tok_slot_home(t, out->both, na + nb)]);
  r->scratch += a + b;
  return IJ_OK;
}

static ij_status resolve_merge(const merge_reader *r, const pending_merge *m, size_t index, ij_tok_pair *out) {
  const ij_tok *t = r->t;
  uint32_t left = ij__tok_find_keyed(t, m->bytes, m->n_left, m->left);
  uint32_t right = ij__tok_find_keyed(t, m->bytes + m->n_left, m->n_right, m->right);
  uint32_t id = ij__tok_find_keyed(t, m->bytes, m->n_left + m->n_right, m->both);
  if (left == IJ_TOK_NONE || right == IJ_TOK_NONE) return fail_merge(r, index, "a side is not in the vocabulary");
  if (id == IJ_TOK_NONE) return fail_merge(r, index, "the merged token is not in the vocabulary");
  *out = (ij_tok_pair){left, right, (uint32_t)index, id};
  return IJ_OK;
}

static ij_status list_merges(merge_reader *r, ij_tok_pair *list) {
  pending_merge pending[PENDING];
  size_t n = r->m->n;
  ij_status status = IJ_OK;
  for (size_t i = 0; status == IJ_OK && i < n + PENDING; i++) {
    if (i >= PENDING && i - PENDING < n) status = resolve_merge(r, &pending[i % PENDING], i - PENDING, &list[i - PENDING]);
    if (status == IJ_OK && i < n) status = parse_merge(r, i, &pending[i % PENDING]);
  }
  return status;
}

ij_status ij__tok_whole_by_merging(ij_tok *t, const char *where, ij_err *err) {
  t->whole = ij__alloc_zero(t->n_ids, sizeof *t->whole);
  return t->whole ? IJ_OK : ij__fail_nomem(err, where, t->n_ids);
}

ij_status ij__tok_read_merges(ij_tok *t, const ij_tok_merges *m, const ij_tok_spelling *spelling, unsigned char *scratch, const char *where,
                              ij_err *err) {
  merge_reader r = {t, m, spelling, scratch, where, err};
  ij_tok_pair *list = ij__alloc_array(m->n, sizeof *list);
  if (!list) return ij__fail_nomem(err, "the list of merges", m->n * sizeof *list);
  ij_status status = list_merges(&r, list);
  if (status == IJ_OK) status = ij__tok_set_pairs(t, list, m->n, where, err);
  ij__free(list);
  return status;
}
