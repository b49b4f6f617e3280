/* nfa.h: the machine that a grammar becomes: rules, each a nondeterministic automaton over bytes whose edges may call other rules.
 *
 * Characters are edges of their own: a class (a set of characters in one spelling, plain UTF-8 or inside a JSON string) carries a small
 * byte automaton, so that a string of at most n characters costs n states and not n times the states of UTF-8 and of escapes. The states
 * inside such an edge are numbered behind the ordinary ones ("virtual"), which lets lazy.c treat both alike.
 */
#ifndef IJ_GRAMMAR_NFA_H
#define IJ_GRAMMAR_NFA_H

#include "core/status.h"
#include "grammar/charset.h"

#define IJ_NONE UINT32_MAX
#define IJ_NFA_MAX_STATES 400000u
#define IJ_NFA_MAX_EDGES 1600000u
#define IJ_NFA_MAX_VIRTUAL 0x40000000u
#define IJ_MAX_ALTERNATIVES 512 /* rules that may begin at one place; more are refused, so that none is lost */
#define IJ_MAX_DEPTH 400 /* frames on the stack of a running grammar; a level of JSON nesting takes one or two */

typedef enum ij_edge_kind { IJ_EDGE_DEAD, IJ_EDGE_EMPTY, IJ_EDGE_BYTES, IJ_EDGE_CLASS, IJ_EDGE_CALL } ij_edge_kind;

typedef struct ij_edge {
  uint32_t source, target, next; /* next: of the same source, IJ_NONE at the end */
  uint32_t arg;                  /* class, or rule */
  uint32_t first_virtual;        /* of a class edge: the number of its byte state 1 */
  uint8_t kind, lo, hi;          /* lo, hi: of bytes */
} ij_edge;

#define IJ_CLASS_DONE 0xFFFFu
typedef struct ij_class_edge {
  uint8_t lo, hi;
  uint16_t target; /* byte state of the class, or IJ_CLASS_DONE */
} ij_class_edge;

typedef struct ij_class_state {
  uint32_t first, n; /* in edges */
  uint32_t hash, min_bytes;
} ij_class_state;

typedef struct ij_class {
  ij_charset set;
  bool json;            /* spelled inside a JSON string: raw or escaped */
  ij_class_state *states; /* 0 is the start */
  uint32_t n_states, cap_states;
  ij_class_edge *edges;
  uint32_t n_edges, cap_edges;
} ij_class;

typedef struct ij_rule {
  uint32_t start, end; /* end has no edges */
} ij_rule;

/* A rule of another grammar, with what finish must know about it. */
#define IJ_EXTERN 0x80000000u
typedef struct ij_extern {
  struct ij_grammar *g;
  uint32_t rule, min_bytes, height;
} ij_extern;

typedef struct ij_nfa {
  uint32_t *first; /* [n_states] first edge, IJ_NONE: none */
  uint32_t *alias; /* [n_states] a state with the same masks (see ij__nfa_chain), usually itself */
  uint8_t *is_end;
  uint32_t n_states, cap_states;
  ij_edge *edges;
  uint32_t n_edges, cap_edges;
  ij_class *classes;
  uint32_t n_classes, cap_classes;
  ij_rule *rules;
  uint32_t n_rules, cap_rules;
  ij_extern *externs; /* called as rules IJ_EXTERN + index */
  uint32_t n_externs, cap_externs;
  uint32_t n_virtual; /* set by finish, with the four below */
  uint32_t *class_edge; /* class edges in the order of first_virtual */
  uint32_t n_class_edge;
  uint32_t *min_bytes; /* [n_states] to the end of the rule; IJ_NONE: cannot be reached */
  uint16_t *height;    /* [n_states] frames that must be pushed on some way to the end */
  /* Any run[s] characters of run_class[s] can be read from s, one after the other, whichever they are; 255: without end. */
  uint8_t *run;
  uint32_t *run_class;
  uint8_t byte_class[256];
  uint32_t n_byte_class;
  bool no_memory, too_large;
} ij_nfa;

void ij__nfa_free(ij_nfa *a);
uint32_t ij__nfa_state(ij_nfa *a);
uint32_t ij__nfa_rule(ij_nfa *a); /* with fresh start and end */
uint32_t ij__nfa_extern(ij_nfa *a, ij_extern e); /* IJ_EXTERN + index, for ij__nfa_call */
void ij__nfa_empty(ij_nfa *a, uint32_t from, uint32_t to);
void ij__nfa_bytes(ij_nfa *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void ij__nfa_call(ij_nfa *a, uint32_t from, uint32_t rule, uint32_t to);
void ij__nfa_class(ij_nfa *a, uint32_t from, uint32_t class_index, uint32_t to);
void ij__nfa_text(ij_nfa *a, uint32_t from, const char *bytes, size_t n, uint32_t to);
/* The class of a normalized set, made if it is new. */
uint32_t ij__nfa_make_class(ij_nfa *a, const ij_charset *set, bool json);
/* From `from` to `to` by min..max characters of a class (max IJ_NONE: no limit). States too far from both bounds for one token of `reach`
 * bytes to tell get an alias, and so share their masks. */
void ij__nfa_chain(ij_nfa *a, uint32_t from, uint32_t class_index, uint32_t min, uint32_t max, uint32_t reach, uint32_t to);

/* After building: drops edges that cannot lead to an end, numbers virtual states, finds distances and heights. Refuses left recursion
 * and a `root` without a finite value. */
ij_status ij__nfa_finish(ij_nfa *a, uint32_t root, const char *where, ij_err *err);

#endif
