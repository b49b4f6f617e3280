/* schema.h: a JSON Schema to the rules of an automaton. docs/grammar.md lists what is understood. */
#ifndef IJ_GRAMMAR_SCHEMA_H
#define IJ_GRAMMAR_SCHEMA_H

#include "grammar/json_rules.h"
#include "io/json.h"

/* Adds the rules of a schema to the automaton. *root: its values; *object_root: those that are objects. Errors name the place in the
 * schema as a JSON pointer: IJ_E_ARGUMENT (not a schema), IJ_E_UNSUPPORTED, IJ_E_NOMEM. */
ij_status ij__schema_compile(ij_json_rules *j, const ij_json_value *schema, uint32_t *root, uint32_t *object_root, ij_err *err);

#endif
