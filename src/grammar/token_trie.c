/* token_trie.c: see token_trie.h. Tokens are sorted by their bytes, and one pass over the sorted list lays the tree out in preorder. */
#include "grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "grammar/lazy.h"

enum { MAX_TOKEN_BYTES = 1024 }; /* longer tokens are left out of grammars: shorter ones spell them too */

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static ij_trie *shared_tries;

const char *ij__control_name(ij_control c) {
  static const char *const names[IJ_N_CONTROL] = {
      "<|end_message|>", "<|content_model_end_sampling|>", "<|message_model|>", "<|content_text|>", "<|content_thinking|>",
      "<|content_invoke_tool_json|>"};
  return names[c];
}

typedef struct sort_item {
  const unsigned char *bytes;
  uint32_t n;
  int32_t id;
} sort_item;

static int compare_items(const void *a, const void *b) {
  const sort_item *x = a, *y = b;
  int c = memcmp(x->bytes, y->bytes, IJ_MIN(x->n, y->n));
  if (c) return c;
  if (x->n != y->n) return x->n < y->n ? -1 : 1;
  return (x->id > y->id) - (x->id < y->id);
}

static void close_trie(ij_trie *t) {
  ij__core_close(&t->core);
  for (int i = 0; i < t->n_plain; i++) {
    ij__charset_free(&t->plain[i].set);
    ij__free(t->plain[i].n_chars);
  }
  ij__free(t->nodes);
  ij__free(t->token_rank);
  ij__free(t->token_order);
  ij__free(t->same);
  ij__free(t->offsets);
  ij__free(t->bytes);
  ij__free(t->ordinary);
  ij__free(t);
}

static bool token_text(const ij_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *n) {
  return !ij_is_special(tokenizer, id) && ij_decode(tokenizer, id, false, bytes, n) && *n > 0 && *n <= MAX_TOKEN_BYTES;
}

static bool copy_texts(ij_trie *t) {
  const char *bytes;
  size_t n, total = 0;
  t->offsets = ij__alloc_array((size_t)t->n_ids + 1, sizeof *t->offsets);
  if (!t->offsets) return false;
  for (int32_t id = 0; id < t->n_ids; id++) {
    if (token_text(t->tokenizer, id, &bytes, &n)) total += n;
  }
  t->bytes = total < UINT32_MAX ? ij__alloc(total + 1) : NULL;
  if (!t->bytes) return false;
  total = 0;
  for (int32_t id = 0; id < t->n_ids; id++) {
    t->offsets[id] = (uint32_t)total;
    if (!token_text(t->tokenizer, id, &bytes, &n)) continue;
    memcpy(t->bytes + total, bytes, n);
    total += n;
    uint32_t n_open = 0;
    for (size_t i = 0; i < n; i++) n_open += bytes[i] == '[' || bytes[i] == '{';
    t->max_open = IJ_MAX(t->max_open, n_open);
    t->n_tokens++;
    t->max_bytes = IJ_MAX(t->max_bytes, (uint32_t)n);
  }
  t->offsets[t->n_ids] = (uint32_t)total;
  return true;
}

static uint32_t common_prefix(const sort_item *a, const sort_item *b) {
  uint32_t n = 0;
  while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n]) n++;
  return n;
}

static void lay_out(ij_trie *t, const sort_item *items) {
  uint32_t open[MAX_TOKEN_BYTES + 1], depth = 0, n = 1, n_order = 0;
  t->nodes[0] = (ij_trie_node){.id = -1};
  open[0] = 0;
  for (uint32_t i = 0; i < t->n_tokens; i++) {
    const sort_item *item = &items[i];
    uint32_t keep = i ? common_prefix(&items[i - 1], item) : 0;
    while (depth > keep) t->nodes[open[depth--]].after = n;
    for (; depth < item->n; depth++) {
      t->nodes[n] = (ij_trie_node){.id = -1, .depth = (uint16_t)(depth + 1), .byte = item->bytes[depth]};
      open[depth + 1] = n++;
    }
    ij_trie_node *node = &t->nodes[open[depth]];
    if (node->id < 0) node->id = item->id;
    else t->same[t->token_order[n_order - 1]] = item->id; /* equal bytes are neighbours */
    t->token_order[n_order++] = item->id;
    ij__mask_set(t->ordinary, item->id);
  }
  while (depth > 0) t->nodes[open[depth--]].after = n;
  t->nodes[0].after = n;
  t->n_nodes = n;
}

static void count_tokens(ij_trie *t) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    t->token_rank[i] = rank;
    for (int32_t id = t->nodes[i].id; id >= 0; id = t->same[id]) rank++;
  }
  t->token_rank[t->n_nodes] = rank;
  for (uint32_t child = 1; child < t->n_nodes; child = t->nodes[child].after) t->child_start[t->nodes[child].byte] = child;
}

static bool build_tree(ij_trie *t) {
  size_t n_bytes = t->offsets[t->n_ids];
  sort_item *items = ij__alloc_array((size_t)t->n_tokens + 1, sizeof *items);
  t->nodes = ij__alloc_array(n_bytes + 1, sizeof *t->nodes);
  t->token_order = ij__alloc_array((size_t)t->n_tokens + 1, sizeof *t->token_order);
  t->same = ij__alloc_array((size_t)t->n_ids, sizeof *t->same);
  t->ordinary = ij__alloc_zero(t->n_words, sizeof *t->ordinary);
  bool ok = items && t->nodes && t->token_order && t->same && t->ordinary;
  if (ok) {
    uint32_t n = 0;
    for (int32_t id = 0; id < t->n_ids; id++) {
      t->same[id] = -1;
      uint32_t len = t->offsets[id + 1] - t->offsets[id];
      if (len) items[n++] = (sort_item){t->bytes + t->offsets[id], len, id};
    }
    qsort(items, n, sizeof *items, compare_items);
    lay_out(t, items);
    ij_trie_node *nodes = ij__realloc(t->nodes, t->n_nodes * sizeof *nodes);
    if (nodes) t->nodes = nodes;
    t->token_rank = ij__alloc_array((size_t)t->n_nodes + 1, sizeof *t->token_rank);
    ok = t->token_rank != NULL;
  }
  if (ok) count_tokens(t);
  ij__free(items);
  return ok;
}

static ij_status check_bytes(const ij_trie *t, ij_err *err) {
  for (unsigned b = 0; b < 256; b++) {
    if (t->child_start[b] && t->nodes[t->child_start[b]].id >= 0) continue;
    return ij__fail(err, IJ_E_UNSUPPORTED, "tokenizer", "grammars need every single byte as a token, and 0x%02X is none", b);
  }
  return IJ_OK;
}

static ij_status open_trie(ij_trie **out, const ij_tokenizer *tokenizer, ij_err *err) {
  ij_trie *t = ij__alloc_zero(1, sizeof *t);
  if (!t) return ij__fail_nomem(err, "the tokens as a tree", sizeof *t);
  t->tokenizer = tokenizer;
  t->n_ids = ij_tokenizer_size(tokenizer);
  t->n_words = ((uint32_t)t->n_ids + 31) / 32;
  for (int c = 0; c < IJ_N_CONTROL; c++) t->control[c] = ij_find_special(tokenizer, ij__control_name((ij_control)c));
  ij_status status = IJ_OK;
  if (t->n_ids <= 0 || !copy_texts(t) || !build_tree(t)) status = ij__fail_nomem(err, "the tokens as a tree", (size_t)t->n_ids * 40);
  if (status == IJ_OK) status = check_bytes(t, err);
  if (status == IJ_OK) status = ij__core_open(&t->core, t, err);
  if (status == IJ_OK && pthread_mutex_init(&t->lock, NULL) != 0) status = ij__fail_nomem(err, "a lock", sizeof t->lock);
  if (status != IJ_OK) {
    close_trie(t);
    return status;
  }
  *out = t;
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------ plain subtrees */

typedef struct plain_maker {
  const ij_trie *t;
  const ij_plain *p;
  bool ascii[128];
  int high; /* of the characters above ASCII: 0 none is in the set, 2 all are, 1 some */
} plain_maker;

enum { NOT_PLAIN = 255 };

/* The most characters below a node at which a character ends; NOT_PLAIN as soon as one of them is not in the set. */
static unsigned count_below(const plain_maker *m, uint32_t node) {
  unsigned most = 0;
  for (uint32_t child = node + 1; child < m->t->nodes[node].after; child = m->t->nodes[child].after) {
    unsigned n = m->p->n_chars[child];
    if (n == 0) return NOT_PLAIN;
    most = IJ_MAX(most, n);
  }
  return most;
}

/* The same below a node with `left` bytes of a character to come, of which `so_far` was read. */
static unsigned count_rest(const plain_maker *m, uint32_t node, unsigned left, uint32_t so_far, uint32_t least) {
  unsigned most = 0;
  for (uint32_t child = node + 1; child < m->t->nodes[node].after; child = m->t->nodes[child].after) {
    uint8_t byte = m->t->nodes[child].byte;
    if ((byte & 0xC0) != 0x80) return NOT_PLAIN;
    uint32_t c = so_far << 6 | (byte & 0x3Fu), first = c << (6 * (left - 1)), last = first + (1u << (6 * (left - 1))) - 1;
    if (last < least || first > IJ_CHAR_MAX || (first >= 0xD800 && last <= 0xDFFF)) return NOT_PLAIN;
    if (m->high == 1 && ij__charset_cover(&m->p->set, first, last) != 2) return NOT_PLAIN;
    unsigned n = left == 1 ? count_below(m, child) : count_rest(m, child, left - 1, c, least);
    if (n == NOT_PLAIN) return NOT_PLAIN;
    most = IJ_MAX(most, n);
  }
  return most;
}

static unsigned count_chars(const plain_maker *m, uint32_t node) {
  uint8_t byte = m->t->nodes[node].byte;
  unsigned n = NOT_PLAIN;
  if (byte < 0x80) n = m->ascii[byte] ? count_below(m, node) : NOT_PLAIN;
  else if (m->high == 0 || byte < 0xC2 || byte > 0xF4) return 0;
  else if (m->high == 1 && m->t->nodes[node].after == node + 1) return 0; /* what the cut character will be is open */
  else if (byte < 0xE0) n = count_rest(m, node, 1, byte & 0x1F, 0x80);
  else if (byte < 0xF0) n = count_rest(m, node, 2, byte & 0x0F, 0x800);
  else n = count_rest(m, node, 3, byte & 0x07, 0x10000);
  return n >= NOT_PLAIN - 1 ? 0 : n + 1;
}

static bool make_plain(const ij_trie *t, ij_plain *p) {
  plain_maker m = {.t = t, .p = p, .high = ij__charset_cover(&p->set, 0x80, 0xD7FF)};
  if (m.high != ij__charset_cover(&p->set, 0xE000, IJ_CHAR_MAX)) m.high = 1;
  for (unsigned c = 0; c < 128; c++) m.ascii[c] = ij__charset_has(&p->set, c) && !(p->json && (c < 0x20 || c == '"' || c == '\\'));
  p->n_chars = ij__alloc_zero(t->n_nodes, 1);
  if (!p->n_chars) return false;
  for (uint32_t i = t->n_nodes; i-- > 1;) p->n_chars[i] = (uint8_t)count_chars(&m, i);
  return true;
}

const uint8_t *ij__trie_plain(ij_trie *t, const ij_charset *set, bool json) {
  for (int i = 0; i < t->n_plain; i++) {
    if (t->plain[i].json == json && ij__charset_equal(&t->plain[i].set, set)) return t->plain[i].n_chars;
  }
  if (t->n_plain == IJ_MAX_PLAIN) return NULL;
  ij_plain *p = &t->plain[t->n_plain];
  *p = (ij_plain){.json = json};
  ij__charset_clip(&p->set, set, 0, IJ_CHAR_MAX);
  if (p->set.failed || !make_plain(t, p)) {
    ij__charset_free(&p->set);
    return NULL;
  }
  t->n_plain++;
  return p->n_chars;
}

/* --------------------------------------------------------------------------------------------------------------- shares */

ij_status ij__trie_get(ij_trie **out, const ij_tokenizer *tokenizer, ij_err *err) {
  ij_status status = IJ_OK;
  pthread_mutex_lock(&shared_lock);
  ij_trie *t = shared_tries;
  while (t && t->tokenizer != tokenizer) t = t->next_shared;
  if (!t) {
    status = open_trie(&t, tokenizer, err);
    if (status == IJ_OK) {
      t->next_shared = shared_tries;
      shared_tries = t;
    }
  }
  if (status == IJ_OK) {
    t->n_users++;
    *out = t;
  }
  pthread_mutex_unlock(&shared_lock);
  return status;
}

ij_trie *ij__trie_share(ij_trie *trie) {
  pthread_mutex_lock(&shared_lock);
  trie->n_users++;
  pthread_mutex_unlock(&shared_lock);
  return trie;
}

void ij__trie_release(ij_trie **trie) {
  if (!*trie) return;
  pthread_mutex_lock(&shared_lock);
  if (--(*trie)->n_users == 0) {
    ij_trie **link = &shared_tries;
    while (*link != *trie) link = &(*link)->next_shared;
    *link = (*trie)->next_shared;
    pthread_mutex_destroy(&(*trie)->lock);
    close_trie(*trie);
  }
  pthread_mutex_unlock(&shared_lock);
  *trie = NULL;
}
