/* schema_number.c: numbers. */
#include "grammar/schema_int.h"

bool ij__schema_number(ij_schema *s, const ij_conjuncts *list, bool integer, ij_rule r) {
  static const char *const words[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
  for (uint32_t i = 0; i < list->n; i++) {
    for (size_t k = 0; k < IJ_COUNT_OF(words); k++) {
      if (ij__json_member(list->at[i].node, words[k])) return ij__schema_fail(s, IJ_E_UNSUPPORTED, list->at[i].path, words[k], "not understood yet");
    }
  }
  ij__nfa_call(s->nfa, r.start, ij__json_part(s->j, integer ? IJ_JSON_ANY_INTEGER : IJ_JSON_ANY_NUMBER), r.end);
  return true;
}
