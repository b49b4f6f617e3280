/* mask.c: which tokens may come next.
 *
 * A local decides about nearly all tokens without looking below its frame: those are walked over once and kept with the local (its base).
 * Tokens that end the frame and go on (`"},` inside a string) depend on the stack; the base remembers where in the trie they leave, and
 * only the small subtrees there are walked again for each mask.
 */
#include <string.h>

#include "core/alloc.h"
#include "grammar/lazy.h"

enum { FEW_IDS = 1024, MAX_BASE_BYTES = 32 << 20 };

void ij__base_free(ij_base *base) {
  if (!base) return;
  ij__free(base->mask);
  ij__free(base->ids);
  ij__free(base->exits);
  ij__free(base);
}

typedef struct level {
  uint32_t first, n, n_frames;
} level;

typedef struct token_walk {
  ij_run *r;
  ij_groups *io;
  const ij_trie *trie;
  uint32_t *mask;
  ij_u32s *exits; /* where the bottom is left; NULL: do not care */
  level *levels;  /* by depth below the start */
  const uint8_t *plain; /* of this class of this grammar */
  const ij_grammar *plain_of;
  uint32_t plain_class;
} token_walk;

static void set_ids(const ij_trie *t, int32_t id, uint32_t *mask) {
  for (; id >= 0; id = t->same[id]) ij__mask_set(mask, id);
}

/* The usual step: one group, and its next local neither calls nor ends. False: it is not that simple. */
static bool step_simply(token_walk *w, const level *above, uint8_t byte, bool *dead) {
  ij_group o = w->io->at[above->first];
  const uint32_t *row = o.g->locals[o.local].row;
  if (above->n != 1 || !row) return false;
  uint32_t next = row[o.g->nfa.byte_class[byte]];
  *dead = next == IJ_NONE;
  if (*dead) return true;
  const ij_local *l = &o.g->locals[next];
  if (l->n_calls || l->accept || w->r->frames[o.stack].depth + l->height > IJ_MAX_DEPTH) return false;
  o.local = next;
  if (!ij__groups_push(w->io, o)) w->r->failed = true;
  return true;
}

/* A subtree of nothing but characters that may all come, in any order, is allowed as a whole. */
static bool all_allowed(token_walk *w, const level *above, uint32_t node) {
  ij_group o = w->io->at[above->first];
  const ij_local *l = &o.g->locals[o.local];
  if (l->run == 0) return false;
  if (w->plain_of != o.g || w->plain_class != l->run_class) {
    const ij_class *c = &o.g->nfa.classes[l->run_class];
    w->plain = ij__trie_plain(o.g->trie, &c->set, c->json);
    w->plain_of = o.g;
    w->plain_class = l->run_class;
  }
  if (!w->plain || w->plain[node] == 0 || w->plain[node] > l->run) return false;
  const ij_trie *t = w->trie;
  for (uint32_t i = t->token_rank[node]; i < t->token_rank[t->nodes[node].after]; i++) ij__mask_set(w->mask, t->token_order[i]);
  return true;
}

/* Walks the subtree of `root` (itself excluded) from the groups first .. first + n - 1. */
static void walk_tokens(token_walk *w, uint32_t root, uint32_t first, uint32_t n) {
  const ij_trie *t = w->trie;
  uint32_t top = t->nodes[root].depth;
  w->levels[0] = (level){first, n, w->r->n_frames};
  for (uint32_t i = root + 1; i < t->nodes[root].after && !w->r->failed;) {
    const ij_trie_node *node = &t->nodes[i];
    level *above = &w->levels[node->depth - top - 1], *here = above + 1;
    bool complete = false, dead = false;
    if (all_allowed(w, above, i)) {
      i = node->after;
      continue;
    }
    w->io->n = above->first + above->n;
    ij__run_truncate(w->r, above->n_frames);
    if (!step_simply(w, above, node->byte, &dead)) ij__run_step(w->r, w->io, above->first, above->n, node->byte, &complete);
    *here = (level){above->first + above->n, w->io->n - above->first - above->n, w->r->n_frames};
    if (here->n || complete) set_ids(t, node->id, w->mask);
    if (complete && w->exits && node->after > i + 1 && !ij__u32s_push(w->exits, i)) w->r->failed = true;
    i = here->n ? i + 1 : node->after;
  }
  ij__run_truncate(w->r, w->levels[0].n_frames);
  w->io->n = first + n;
}

/* ---------------------------------------------------------------------------------------------------------------- bases */

static bool store_mask(const ij_trie *t, ij_base *b, const uint32_t *mask) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_words; i++) n += (uint32_t)__builtin_popcount(mask[i]);
  if (n > FEW_IDS) {
    b->mask = ij__alloc_array(t->n_words, sizeof *b->mask);
    if (b->mask) memcpy(b->mask, mask, t->n_words * sizeof *mask);
    return b->mask != NULL;
  }
  b->ids = ij__alloc_array(n + 1u, sizeof *b->ids);
  if (!b->ids) return false;
  for (uint32_t i = 0; i < t->n_words; i++) {
    for (uint32_t bits = mask[i]; bits; bits &= bits - 1) b->ids[b->n_ids++] = (int32_t)(32 * i) + __builtin_ctz(bits);
  }
  return true;
}

static ij_base *make_base(ij_grammar *g, uint32_t local) {
  ij_base *b = ij__alloc_zero(1, sizeof *b);
  ij_run run;
  ij_groups io = {0};
  ij_u32s exits = {0};
  uint32_t *mask = ij__alloc_zero(g->trie->n_words, sizeof *mask);
  level *levels = ij__alloc_array((size_t)g->trie->max_bytes + 2, sizeof *levels);
  bool ok = ij__run_open(&run) && b && mask && levels && ij__groups_push(&io, (ij_group){g, local, 0});
  if (ok) {
    token_walk w = {.r = &run, .io = &io, .trie = g->trie, .mask = mask, .exits = &exits, .levels = levels};
    walk_tokens(&w, 0, 0, 1);
    ok = !run.failed && store_mask(g->trie, b, mask);
  }
  if (ok) {
    b->exits = exits.at;
    b->n_exits = exits.n;
    exits.at = NULL;
  }
  ij__free(exits.at);
  ij__free(io.at);
  ij__free(mask);
  ij__free(levels);
  ij__run_close(&run);
  if (ok) return b;
  ij__base_free(b);
  return NULL;
}

static const ij_base *base_of(ij_grammar *g, uint32_t local) {
  uint32_t alias = ij__local_alias(g, local);
  if (alias == IJ_NONE) return NULL;
  if (g->locals[alias].base) return g->locals[alias].base;
  ij_base *base = make_base(g, alias); /* may move the locals */
  if (!base) return NULL;
  size_t bytes = (base->mask ? g->trie->n_words * sizeof *base->mask : 0) + (base->n_ids + base->n_exits) * sizeof(int32_t);
  if (g->base_bytes + bytes > MAX_BASE_BYTES) {
    for (uint32_t i = 0; i < g->n_locals; i++) {
      ij__base_free(g->locals[i].base);
      g->locals[i].base = NULL;
    }
    g->base_bytes = 0;
  }
  g->base_bytes += bytes;
  g->locals[alias].base = base;
  return base;
}

static void add_base(const ij_trie *t, const ij_base *b, uint32_t *mask) {
  if (b->mask) {
    for (uint32_t i = 0; i < t->n_words; i++) mask[i] |= b->mask[i];
  }
  for (uint32_t i = 0; i < b->n_ids; i++) ij__mask_set(mask, b->ids[i]);
}

/* The tokens one group allows: from its base, and behind its exits. Near the greatest depth the base, which was made without a stack, could
 * allow too much: there all tokens are walked. */
static void mask_group(token_walk *w, ij_group o) {
  uint32_t first = w->io->n, n_frames = w->r->n_frames;
  bool complete = false;
  if (w->r->frames[o.stack].depth + 2 * w->trie->max_open + 8 > IJ_MAX_DEPTH) {
    if (!ij__groups_push(w->io, o)) w->r->failed = true;
    else walk_tokens(w, 0, first, 1);
  } else {
    const ij_base *b = base_of(o.g, o.local);
    if (!b) {
      w->r->failed = true;
      return;
    }
    add_base(w->trie, b, w->mask);
    if (o.stack == 0 || b->n_exits == 0) return;
    ij__run_pop(w->r, w->io, o.stack, &complete);
    uint32_t n_below = w->io->n - first;
    for (uint32_t k = 0; k < b->n_exits && n_below && !w->r->failed; k++) walk_tokens(w, b->exits[k], first, n_below);
  }
  w->io->n = first;
  ij__run_truncate(w->r, n_frames);
}

void ij__mask_groups(ij_run *r, ij_groups *io, uint32_t n, uint32_t *mask) {
  if (n == 0) return;
  const ij_trie *t = io->at[0].g->trie;
  level *levels = ij__alloc_array((size_t)t->max_bytes + 2, sizeof *levels);
  if (!levels) {
    r->failed = true;
    return;
  }
  token_walk w = {.r = r, .io = io, .trie = t, .mask = mask, .levels = levels};
  io->n = n;
  for (uint32_t i = 0; i < n && !r->failed; i++) mask_group(&w, io->at[i]);
  ij__free(levels);
}
