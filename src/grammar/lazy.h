/* lazy.h: running a grammar. The automaton of each rule is made deterministic as far as it is visited ("locals": sets of states of one
 * rule); calls keep a stack of frames. A position in a grammar is a list of groups: a local and the stack below it.
 *
 * Locals and what is cached with them belong to the grammar and are guarded by the lock of its trie, which callers hold. Runs belong to
 * one guide.
 */
#ifndef IJ_GRAMMAR_LAZY_H
#define IJ_GRAMMAR_LAZY_H

#include "grammar/nfa.h"
#include "grammar/token_trie.h"
#include "inkjet_chat.h"

/* Readings of one text at a time, those that only lead to others counted; more ambiguous grammars lose the later ones, never all. Well above
 * what the alternatives of one place (IJ_MAX_ALTERNATIVES) can make of a text that they share. */
#define IJ_MAX_GROUPS 4096

/* The tokens that a local allows whatever lies below it on the stack, and the nodes at which a token leaves the local's frame. */
typedef struct ij_base {
  uint32_t *mask;    /* [n_words], or NULL when ids says it */
  int32_t *ids;
  uint32_t n_ids;
  uint32_t *exits;   /* trie nodes with a subtree */
  uint32_t n_exits;
} ij_base;

typedef struct ij_call {
  uint32_t rule;
  uint32_t ret_state, ret_local; /* ret_local IJ_NONE: not yet made */
} ij_call;

typedef struct ij_local {
  uint32_t first_member, n_members;
  uint32_t first_call, n_calls;
  uint32_t hash, next_hash;
  uint32_t *row;      /* [n_byte_class] next local or IJ_NONE; NULL: not yet made */
  ij_base *base;      /* NULL: not yet made */
  uint32_t min_bytes;
  uint16_t height;
  uint8_t run;        /* as of ij_nfa, the best of the members */
  uint32_t run_class;
  bool accept;        /* the rule may end here */
  bool tail;          /* and does nothing else: a call that returns here needs no frame */
  bool has_bytes;
} ij_local;

typedef struct ij_u32s {
  uint32_t *at;
  uint32_t n, cap;
} ij_u32s;

struct ij_grammar {
  ij_trie *trie;
  ij_nfa nfa;
  uint32_t root;         /* rule */
  uint32_t object_root;  /* rule of the values that are objects; IJ_NONE: there are none */
  bool shares_trie;      /* false for the trie's own grammar */
  ij_local *locals;
  uint32_t n_locals, cap_locals;
  ij_u32s members;
  ij_call *calls;
  uint32_t n_calls, cap_calls;
  uint32_t *buckets;
  uint32_t n_buckets;    /* a power of two */
  uint32_t *rule_start;  /* [n_rules] local, IJ_NONE: not yet made */
  uint32_t *mark, epoch; /* [n_states] of closures */
  ij_u32s set, stack, targets, edge_lo, edge_hi, edge_to; /* scratch */
  size_t base_bytes;     /* of all bases; above a limit they are dropped and made again when needed */
  bool no_memory;        /* during one call: the grammar is whole again after it */
};

/* The grammar of any JSON value, with a rule for each part of JSON. It belongs to its trie. */
ij_status ij__core_open(ij_grammar **out, ij_trie *trie, ij_err *err);
void ij__core_close(ij_grammar **core);

/* Sets up the lazy tables of a finished automaton. */
bool ij__lazy_open(ij_grammar *g);
void ij__lazy_close(ij_grammar *g);

typedef struct ij_frame {
  ij_grammar *g;
  uint32_t ret, parent;
  uint32_t depth, next_hash, bucket;
} ij_frame;

typedef struct ij_group {
  ij_grammar *g;
  uint32_t local, stack; /* stack: a frame, 0: the bottom */
} ij_group;

typedef struct ij_groups {
  ij_group *at;
  uint32_t n, cap;
} ij_groups;

#define IJ_FRAME_BUCKETS 1024
typedef struct ij_run {
  ij_frame *frames; /* 0 is the bottom; equal frames are one, newest last */
  uint32_t n_frames, cap_frames;
  uint32_t buckets[IJ_FRAME_BUCKETS];
  bool failed;      /* memory ran out */
} ij_run;

bool ij__run_open(ij_run *r);
void ij__run_close(ij_run *r);
void ij__run_truncate(ij_run *r, uint32_t n_frames);
void ij__run_compact(ij_run *r, ij_group *groups, uint32_t n); /* drops frames that these groups do not stand on */

/* Appends the groups at the start of a rule, with nothing below. *complete: set when the empty text is in the language. */
void ij__run_start(ij_run *r, ij_groups *out, ij_grammar *g, uint32_t rule, bool *complete);
/* Appends what the groups first .. first + n - 1 of `io` become after one byte; *complete: set when the bottom was left. */
void ij__run_step(ij_run *r, ij_groups *io, uint32_t first, uint32_t n, uint8_t byte, bool *complete);
/* Appends what lies behind the end of the frame `stack` (not 0). */
void ij__run_pop(ij_run *r, ij_groups *out, uint32_t stack, bool *complete);
/* Bytes needed from a group to the end of the grammar. */
uint32_t ij__run_distance(const ij_run *r, const ij_group *group);

/* Sets the bits of the tokens allowed by groups 0 .. n - 1. `io` is scratch behind them. */
void ij__mask_groups(ij_run *r, ij_groups *io, uint32_t n, uint32_t *mask);
void ij__base_free(ij_base *base);

const uint32_t *ij__local_row(ij_grammar *g, uint32_t local); /* NULL: memory ran out */
uint32_t ij__local_alias(ij_grammar *g, uint32_t local);
bool ij__u32s_push(ij_u32s *v, uint32_t x);
bool ij__groups_push(ij_groups *v, ij_group x);

#endif
