/* json_rules.h: the rules of JSON itself, made once for a vocabulary and called by all its grammars.
 *
 * White space is bounded, so that no output can run on in it: one space, or a line break with up to 24 spaces or 8 tabs, after an opening
 * bracket or a comma and before a closing bracket; at most one space after a colon; none elsewhere.
 */
#ifndef IJ_GRAMMAR_JSON_RULES_H
#define IJ_GRAMMAR_JSON_RULES_H

#include "grammar/nfa.h"

#define IJ_MAX_DIGITS 20   /* of a number before the point, */
#define IJ_MAX_FRACTION 20 /* and after it: no output runs on in digits */

typedef enum ij_json_part {
  IJ_JSON_SPACE, IJ_JSON_ANY_STRING, IJ_JSON_ANY_NUMBER, IJ_JSON_ANY_INTEGER, IJ_JSON_ANY_VALUE, IJ_JSON_ANY_OBJECT, IJ_JSON_ANY_ARRAY,
      IJ_N_JSON_PART
} ij_json_part;

typedef struct ij_json_rules {
  ij_nfa *nfa;
  const ij_nfa *core;   /* of a grammar that has all parts, as rules numbered by part: called instead of made; NULL: they are made */
  struct ij_grammar *core_grammar;
  uint32_t reach;       /* bytes of the longest token */
  uint32_t parts[IJ_N_JSON_PART]; /* rules; IJ_NONE: not yet there */
  uint32_t any_char;    /* class */
} ij_json_rules;

void ij__json_rules_open(ij_json_rules *j, ij_nfa *nfa, uint32_t reach);
uint32_t ij__json_part(ij_json_rules *j, ij_json_part part);
uint32_t ij__json_any_char(ij_json_rules *j); /* the class of all characters inside a string */
/* Makes all parts, so that part i is rule i of an empty automaton. */
void ij__json_make_core(ij_json_rules *j);

/* The text of a string as JSON, quotes included, spelled in the one way that escapes least. */
void ij__json_quoted(ij_json_rules *j, uint32_t from, const char *bytes, size_t n, uint32_t to);

#endif
