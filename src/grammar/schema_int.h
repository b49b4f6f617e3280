/* schema_int.h: the inside of the schema compiler, for the files schema*.c only.
 *
 * The unit of work is a list of schemas that must all hold ("conjuncts"): allOf and $ref add to the list, a property collects what each
 * member says about it, and anyOf makes one list per branch. Equal lists are one rule, so recursion ends. Rules are filled from a queue,
 * never recursively: the depth of a schema does not matter.
 */
#ifndef IJ_GRAMMAR_SCHEMA_INT_H
#define IJ_GRAMMAR_SCHEMA_INT_H

#include "grammar/schema.h"

enum { IJ_DID_REF = 1, IJ_DID_ALL = 2, IJ_DID_ANY = 4, IJ_DID_ONE = 8 };

typedef struct ij_conjunct {
  const ij_json_value *node;
  const char *path; /* JSON pointer, owned by the compiler, maybe cut */
  unsigned did;
} ij_conjunct;

typedef struct ij_conjuncts {
  ij_conjunct *at;
  uint32_t n, cap;
  bool failed;     /* memory ran out */
  bool never;      /* false is among them */
  uint32_t rule, next_hash, hash; /* of a stored list */
} ij_conjuncts;

typedef struct ij_schema {
  ij_json_rules *j;
  ij_nfa *nfa;
  const ij_json_value *root;
  bool has_ids;        /* a part of it has an $id of its own, to which its references would refer */
  ij_conjuncts *lists; /* queue; entry i fills its rule */
  uint32_t n_lists, cap_lists;
  uint32_t buckets[1024];
  char **texts;        /* paths */
  uint32_t n_texts, cap_texts;
  uint64_t work;       /* of ij__schema_work */
  ij_err *err;
  ij_status status;    /* the first error; everything stops */
} ij_schema;

enum { IJ_T_NULL = 1, IJ_T_BOOL = 2, IJ_T_INT = 4, IJ_T_REAL = 8, IJ_T_STRING = 16, IJ_T_ARRAY = 32, IJ_T_OBJECT = 64, IJ_T_ALL = 127 };

/* Records the first error; always returns false. */
bool ij__schema_fail(ij_schema *s, ij_status code, const char *path, const char *key, const char *fmt, ...) IJ_PRINTF(5, 6);
bool ij__schema_nomem(ij_schema *s);
/* Counts steps (of about 10 ns) whose number the size of the schema does not bound; false when they are too many. */
bool ij__schema_work(ij_schema *s, uint64_t n);
const char *ij__schema_path(ij_schema *s, const char *base, const char *key, size_t n_key); /* base/key */
const char *ij__schema_path_at(ij_schema *s, const char *base, const char *key, size_t index);

void ij__conjuncts_add(ij_conjuncts *list, const ij_json_value *node, const char *path, unsigned did);
/* The rule of a list, which is taken over and freed or stored. */
uint32_t ij__schema_request(ij_schema *s, ij_conjuncts *list);

/* Each fills `r` with the values of one type, from what the list says; false after an error. */
bool ij__schema_string(ij_schema *s, const ij_conjuncts *list, ij_rule r);
bool ij__schema_number(ij_schema *s, const ij_conjuncts *list, bool integer, ij_rule r);
bool ij__schema_array(ij_schema *s, const ij_conjuncts *list, ij_rule r);
bool ij__schema_object(ij_schema *s, const ij_conjuncts *list, ij_rule r);

bool ij__schema_is_text_format(const char *name, size_t n);

/* A keyword that must be a non-negative integer; false: an error, or absent (then *out is left). */
bool ij__schema_count(ij_schema *s, const ij_conjunct *c, const char *key, uint32_t *out);

/* Whether two branches of a oneOf cannot hold together. */
bool ij__schema_disjoint(ij_schema *s, const ij_json_value *a, const ij_json_value *b);
unsigned ij__schema_types(const ij_json_value *node); /* bits that its type, enum and const leave; IJ_T_ALL without them */
const ij_json_value *ij__schema_resolve(ij_schema *s, const char *path, const ij_json_value *node); /* of its $ref; NULL after an error */
unsigned ij__schema_type_of(const ij_json_value *v); /* the bit of a value */

/* Fills `r` from the enum or const of a list, if there is one (*did). */
bool ij__schema_values(ij_schema *s, const ij_conjuncts *list, unsigned types, ij_rule r, bool *did);
/* A value as literal text; path: where it is in the schema. */
bool ij__schema_literal(ij_schema *s, const ij_json_value *v, const char *path, uint32_t from, uint32_t to);
/* Whether a schema has keywords that apply further schemas in place. */
bool ij__schema_applies(const ij_json_value *node);

#endif
