/* token_trie.h: the ordinary tokens of a vocabulary as a tree over bytes, and its control tokens.
 *
 * One per tokenizer, shared by all its grammars and guides and freed with the last of them. It copies what it needs. Its lock guards
 * the lazy tables of all those grammars: they are small computations on one vocabulary, and one lock keeps them simple.
 */
#ifndef IJ_GRAMMAR_TOKEN_TRIE_H
#define IJ_GRAMMAR_TOKEN_TRIE_H

#include <pthread.h>

#include "core/status.h"
#include "grammar/charset.h"
#include "inkjet.h"

typedef enum ij_control {
  IJ_CONTROL_END_MESSAGE, IJ_CONTROL_END_TURN, IJ_CONTROL_MODEL, IJ_CONTROL_TEXT, IJ_CONTROL_THINK, IJ_CONTROL_CALL, IJ_N_CONTROL
} ij_control;

/* A node in preorder: its subtree is [index + 1, after). Node 0 is the root, of no bytes. */
typedef struct ij_trie_node {
  uint32_t after;
  int32_t id;       /* a token that ends here, or -1; further ones with the same bytes follow in same[] */
  uint16_t depth;
  uint8_t byte;
} ij_trie_node;

/* For a set of characters: how many of them, at most, the tokens of each subtree are made of (its own byte begins one; the last may be
 * cut); 0: not only of these. */
typedef struct ij_plain {
  ij_charset set;
  bool json;        /* characters that JSON escapes do not count */
  uint8_t *n_chars; /* [n_nodes] */
} ij_plain;
#define IJ_MAX_PLAIN 24

typedef struct ij_trie {
  const ij_tokenizer *tokenizer;
  struct ij_trie *next_shared;
  int64_t n_users;
  pthread_mutex_t lock;
  ij_trie_node *nodes;
  uint32_t n_nodes;
  uint32_t *token_rank; /* [n_nodes + 1] tokens before this node in preorder */
  int32_t *token_order; /* tokens in preorder */
  uint32_t n_tokens;
  int32_t *same;        /* [n_ids] another id with the same bytes, -1: none */
  uint32_t *offsets;    /* [n_ids + 1] in bytes: the text of each ordinary token; empty for others */
  unsigned char *bytes;
  int32_t n_ids;
  uint32_t n_words;     /* of a mask */
  uint32_t max_bytes;   /* of a token */
  uint32_t max_open;    /* brackets that open in one token: how fast a text can nest */
  uint32_t *ordinary;   /* [n_words] mask of all tokens in the tree */
  int32_t control[IJ_N_CONTROL]; /* ids, -1: the vocabulary has none */
  uint32_t child_start[257];     /* nodes of depth 1 by first byte: 0 if none */
  ij_plain plain[IJ_MAX_PLAIN];  /* made when first asked for */
  int n_plain;
  struct ij_grammar *core;       /* the rules of JSON itself, whose masks all grammars share */
} ij_trie;

/* A new share of the tokenizer's trie. Errors: IJ_E_NOMEM, IJ_E_UNSUPPORTED (not every single byte is a token). */
ij_status ij__trie_get(ij_trie **out, const ij_tokenizer *tokenizer, ij_err *err);
ij_trie *ij__trie_share(ij_trie *trie);
void ij__trie_release(ij_trie **trie);

/* The counts for a set; NULL when there are too many sets already. The lock is held. */
const uint8_t *ij__trie_plain(ij_trie *t, const ij_charset *set, bool json);

const char *ij__control_name(ij_control c);

static inline void ij__mask_set(uint32_t *mask, int32_t id) { mask[id / 32] |= UINT32_C(1) << (id % 32); }
static inline bool ij__mask_has(const uint32_t *mask, int32_t id) { return mask[id / 32] >> (id % 32) & 1; }

#endif
