/* regex.h: regular expressions over Unicode characters as deterministic automata over characters, and what schemas do with those:
 * intersect them and bound their length. docs/grammar.md has the syntax.
 */
#ifndef IJ_GRAMMAR_REGEX_H
#define IJ_GRAMMAR_REGEX_H

#include "grammar/nfa.h"

/* Characters that no edge tells apart are one class. Segment i is cuts[i] .. cuts[i + 1] - 1; the last ends at IJ_CHAR_MAX. */
typedef struct ij_chardfa {
  uint32_t *cuts;      /* [n_segments], the first is 0 */
  uint32_t *class_of;  /* [n_segments] */
  uint32_t n_segments, n_classes;
  uint32_t *next;      /* [n_states][n_classes], IJ_NONE: no way to accept from there */
  uint8_t *accept;     /* [n_states]; the start is 0 */
  uint32_t n_states, cap_states;
  uint64_t work;       /* steps that making it took */
} ij_chardfa;

#define IJ_CHARDFA_MAX_STATES 30000u

/* search: the pattern may match anywhere in the text unless it is anchored (as JSON Schema has it); else it must match all of it.
 * Errors: IJ_E_ARGUMENT (not an expression), IJ_E_UNSUPPORTED, IJ_E_NOMEM. `where` goes into them. */
ij_status ij__regex_compile(ij_chardfa *out, const char *pattern, size_t n, bool search, const char *where, ij_err *err);
void ij__chardfa_free(ij_chardfa *d);

/* Replaces *d by the texts that are also in other; or that have min..max characters (max IJ_NONE: no limit). */
ij_status ij__chardfa_intersect(ij_chardfa *d, const ij_chardfa *other, const char *where, ij_err *err);
ij_status ij__chardfa_bound(ij_chardfa *d, uint32_t min, uint32_t max, const char *where, ij_err *err);

/* The same texts between two states of an automaton over bytes. */
void ij__chardfa_emit(const ij_chardfa *d, ij_nfa *a, uint32_t from, uint32_t to, bool json);

/* ------------------------------------------------------------------------- between regex_parse.c, regex.c and chardfa.c */

typedef enum ij_re_op { IJ_RE_SET, IJ_RE_SPLIT, IJ_RE_BEGIN, IJ_RE_END, IJ_RE_MATCH } ij_re_op;
typedef struct ij_re_step {
  ij_re_op op;
  uint32_t x, y; /* where to go on; y of a split only */
  uint32_t set;  /* in sets, of IJ_RE_SET */
} ij_re_step;

typedef struct ij_re_program {
  ij_re_step *steps;
  uint32_t n_steps, cap_steps;
  ij_charset *sets;
  uint32_t n_sets, cap_sets;
  uint32_t start;
} ij_re_program;

ij_status ij__regex_parse(ij_re_program *out, const char *pattern, size_t n, bool search, const char *where, ij_err *err);
void ij__re_program_free(ij_re_program *p);

/* A table keyed by lists of numbers, for sets and pairs of states. */
typedef struct ij_set_table {
  uint32_t *pool, n_pool, cap_pool;
  uint32_t *first; /* [n + 1] in pool */
  uint32_t n, cap;
  uint32_t *hash, *next, *buckets; /* [n], [n], [n_buckets] */
  uint32_t n_buckets;
  bool failed;
} ij_set_table;

/* The index of a list; *is_new when it was not there. Zero-initialize the table. */
uint32_t ij__set_table_find(ij_set_table *t, const uint32_t *list, uint32_t n, bool *is_new);
void ij__set_table_free(ij_set_table *t);
uint32_t ij__chardfa_add_state(ij_chardfa *d, bool accept); /* IJ_NONE: memory ran out */
bool ij__chardfa_trim(ij_chardfa *d);                       /* marks dead ends; false: memory ran out */

#endif
