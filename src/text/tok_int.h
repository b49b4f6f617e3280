/* tok_int.h: the inside of ij_tok, for the files tok*.c only.
 *
 * Two hash tables do the work. The token table answers "is this piece one token?"; up to 8 bytes its key is the bytes themselves, so
 * that the usual question costs one memory access. The pair table answers "what do these two neighbours become, and how early?";
 * all readers reduce their file to it, so that encoding knows nothing about files.
 */
#ifndef IJ_TEXT_TOK_INT_H
#define IJ_TEXT_TOK_INT_H

#include <stdatomic.h>
#include <string.h>

#include "io/gguf.h"
#include "text/tok.h"

#define IJ_TOK_NONE UINT32_MAX
#define IJ_TOK_MAX_IDS (1 << 20)     /* five times the family's vocabulary: a larger id is a damaged file */
#define IJ_TOK_N_ORDINARY 199998     /* of the family's full vocabulary; specials follow up to, not including, IJ_TOK_N_FULL */
#define IJ_TOK_N_FULL 200058

typedef enum ij_tok_kind {
  IJ_TOK_ABSENT = 0,
  IJ_TOK_ORDINARY, /* made by merging bytes */
  IJ_TOK_ADDED,    /* found in text only when specials are parsed, but text when decoded */
  IJ_TOK_SPECIAL   /* a control token */
} ij_tok_kind;

typedef struct ij_tok_entry {
  uint32_t offset, len; /* in blob */
} ij_tok_entry;

typedef struct ij_tok_slot {
  uint64_t key; /* len <= 8: the bytes, first byte lowest; else a hash of them */
  uint32_t id, len; /* len 0: free slot */
} ij_tok_slot;

typedef struct ij_tok_pair {
  uint32_t left, right; /* left IJ_TOK_NONE: free slot */
  uint32_t rank;        /* lower is merged first */
  uint32_t id;          /* what the two become */
} ij_tok_pair;

/* A string that stands for an id when specials are parsed. Sorted by bytes. */
typedef struct ij_tok_name {
  const char *bytes;
  uint32_t len;
  int32_t id;
} ij_tok_name;

struct ij_tok {
  unsigned char *blob; /* bytes of all tokens, with 8 bytes of slack */
  size_t blob_len, blob_cap;
  ij_tok_entry *entries; /* [n_ids] */
  uint8_t *kinds;        /* [n_ids] ij_tok_kind */
  uint32_t n_ids, cap_ids;
  uint32_t n_ordinary;
  size_t max_len; /* of an ordinary token */

  ij_tok_slot *slots;
  unsigned slot_shift;
  size_t slot_mask;
  ij_tok_pair *pairs;
  unsigned pair_shift;
  size_t pair_mask;
  uint32_t byte_ids[256];

  /* A piece that is a token is emitted without merging. NULL: always; this is what rank files and `ignore_merges` mean. Else
   * [n_ids], because then it holds only for tokens that merging builds: 0 not yet known, 1 it does, 2 it does not. A cache of a pure
   * function: racing writers write the same value. */
  _Atomic(uint8_t) *whole;

  ij_tok_name *names;
  uint32_t n_names;
  bool name_start[256]; /* the first bytes of names */
};

/* ------------------------------------------------------------------------------- hashing, shared by building and encoding */

#define IJ_TOK_MULTIPLIER 0x9E3779B97F4A7C15u

/* The first n <= 8 of at least n bytes as a number, the first byte lowest. */
static inline uint64_t ij__tok_load(const unsigned char *p, size_t n) {
  uint64_t x = 0;
  for (size_t i = 0; i < n; i++) x |= (uint64_t)p[i] << (8 * i);
  return x;
}

/* The same when 8 bytes can be read. */
static inline uint64_t ij__tok_load_fast(const unsigned char *p, size_t n) {
  uint64_t x;
  memcpy(&x, p, 8);
  return n >= 8 ? x : x & (((uint64_t)1 << (8 * n)) - 1);
}

/* Hash of more than 8 bytes: a polynomial, so that the hash of a part follows from the hashes of two prefixes. */
static inline uint64_t ij__tok_hash_step(uint64_t h, unsigned char b) { return h * IJ_TOK_MULTIPLIER + b + 1; }

static inline size_t ij__tok_slot_home(const ij_tok *t, uint64_t key, size_t len) {
  return (size_t)(((key ^ key >> 29) + len) * 0xD1B54A32D192ED03u >> t->slot_shift);
}

static inline size_t ij__tok_pair_home(const ij_tok *t, uint32_t left, uint32_t right) {
  return (size_t)(((uint64_t)left << 32 | right) * 0xD1B54A32D192ED03u >> t->pair_shift);
}

/* The id whose bytes are the n at p, with their key; IJ_TOK_NONE when no ordinary token has them. */
static inline uint32_t ij__tok_find_keyed(const ij_tok *t, const unsigned char *p, size_t n, uint64_t key) {
  for (size_t i = ij__tok_slot_home(t, key, n);; i = (i + 1) & t->slot_mask) {
    const ij_tok_slot *s = &t->slots[i];
    if (s->len == 0) return IJ_TOK_NONE;
    if (s->key == key && s->len == n && (n <= 8 || memcmp(t->blob + t->entries[s->id].offset, p, n) == 0)) return s->id;
  }
}

static inline uint64_t ij__tok_key(const unsigned char *p, size_t n) {
  if (n <= 8) return ij__tok_load(p, n);
  uint64_t h = 0;
  for (size_t i = 0; i < n; i++) h = ij__tok_hash_step(h, p[i]);
  return h;
}

/* What the neighbours become, or NULL. */
static inline const ij_tok_pair *ij__tok_find_pair(const ij_tok *t, uint32_t left, uint32_t right) {
  for (size_t i = ij__tok_pair_home(t, left, right);; i = (i + 1) & t->pair_mask) {
    const ij_tok_pair *p = &t->pairs[i];
    if (p->left == left && p->right == right) return p;
    if (p->left == IJ_TOK_NONE) return NULL;
  }
}

/* -------------------------------------------------------------------------------------------------------------- building */

/* Gives `id` the n bytes (copied). `where` goes into errors. */
ij_status ij__tok_add(ij_tok *t, int64_t id, ij_tok_kind kind, const unsigned char *bytes, size_t n, const char *where, ij_err *err);

/* Fills the token table from the ordinary tokens; checks that no two have the same bytes and that every single byte has one. */
ij_status ij__tok_index(ij_tok *t, const char *where, ij_err *err);

/* Makes the pair table of the n pairs in list; the first of equal ones counts. */
ij_status ij__tok_set_pairs(ij_tok *t, const ij_tok_pair *list, size_t n, const char *where, ij_err *err);

/* Every pair whose bytes together are a token, in the order of the ids: the meaning of a rank file. */
ij_status ij__tok_pairs_from_ranks(ij_tok *t, const char *where, ij_err *err);

/* Byte-level spelling: each byte of a token as one printable character. */
#define IJ_TOK_NOT_A_BYTE 256
typedef struct ij_tok_spelling {
  uint16_t byte_of[0x144]; /* code point -> byte, or IJ_TOK_NOT_A_BYTE */
} ij_tok_spelling;

void ij__tok_spelling_init(ij_tok_spelling *s);

/* Spelled bytes -> bytes, at most n; the length, or -1 when a character stands for no byte. Any text is accepted. */
int64_t ij__tok_unspell(const ij_tok_spelling *s, const char *text, size_t n, unsigned char *out);

typedef struct ij_tok_merge {
  const char *left, *right; /* spelled */
  size_t n_left, n_right;
} ij_tok_merge;

/* "left right" taken apart; false without a space. */
bool ij__tok_merge_halves(const char *text, size_t n, ij_tok_merge *out);

/* n merges, the first to be merged first, each from a call of `next`; false is an error, with `expected` as its text. */
typedef struct ij_tok_merges {
  size_t n;
  bool (*next)(void *user, ij_tok_merge *out);
  void *user;
  const char *field, *expected;
} ij_tok_merges;

/* Makes the pair table of them, once ij__tok_index has been called. scratch: room for as many bytes as all merges have. */
ij_status ij__tok_read_merges(ij_tok *t, const ij_tok_merges *m, const ij_tok_spelling *spelling, unsigned char *scratch, const char *where,
                              ij_err *err);

/* Without `ignore_merges` a token counts as a whole only when merging builds it; see ij_tok.whole. */
ij_status ij__tok_whole_by_merging(ij_tok *t, const char *where, ij_err *err);

/* Checks the strings that the family pins to ids, fills what a full vocabulary leaves unnamed, and sorts the names. */
ij_status ij__tok_finish_specials(ij_tok *t, const char *where, ij_err *err);

/* Both forms, told apart by their first character, from memory. `where` goes into errors. */
ij_status ij__tok_open_bytes(ij_tok **out, const char *bytes, size_t n, const char *where, ij_err *err);

ij_status ij__tok_read_ranks(ij_tok *t, const char *bytes, size_t n, const char *where, ij_err *err);
ij_status ij__tok_read_json(ij_tok *t, const char *bytes, size_t n, const char *where, ij_err *err);
ij_status ij__tok_read_gguf(ij_tok *t, const ij_gguf *g, ij_err *err);

#endif
