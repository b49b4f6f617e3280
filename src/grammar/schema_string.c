/* schema_string.c: strings: lengths, patterns and formats. */
#include "grammar/schema_int.h"

bool ij__schema_string(ij_schema *s, const ij_conjuncts *list, ij_rule r) {
  uint32_t min = 0, max = IJ_NONE, n;
  ij_nfa *a = s->nfa;
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_conjunct *c = &list->at[i];
    if (ij__schema_count(s, c, "minLength", &n)) min = IJ_MAX(min, n);
    if (ij__schema_count(s, c, "maxLength", &n)) max = IJ_MIN(max, n);
    if (ij__json_member(c->node, "pattern")) return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "pattern", "not understood yet");
    if (ij__json_member(c->node, "format")) return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "format", "not understood yet");
  }
  if (min == 0 && max == IJ_NONE) {
    ij__nfa_call(a, r.start, ij__json_part(s->j, IJ_JSON_ANY_STRING), r.end);
    return s->status == IJ_OK;
  }
  if (max != IJ_NONE && max < min) return true; /* nothing */
  uint32_t open = ij__nfa_state(a), close = ij__nfa_state(a);
  ij__nfa_bytes(a, r.start, '"', '"', open);
  ij__nfa_chain(a, open, ij__json_any_char(s->j), min, max, s->j->reach, close);
  ij__nfa_bytes(a, close, '"', '"', r.end);
  return s->status == IJ_OK;
}
