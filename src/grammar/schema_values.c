/* schema_values.c: constants: enumerations, counts, and telling the branches of a oneOf apart. */
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "grammar/schema_int.h"

/* As JSON Schema compares: numbers by value, objects without regard to order. False after an error, too. */
static bool equal(ij_schema *s, const ij_json_value *a, const ij_json_value *b) {
  ij_json_type ta = ij__json_type_of(a), tb = ij__json_type_of(b);
  const char *x, *y, *key;
  size_t nx, ny;
  double dx, dy;
  bool bx, by;
  if (!ij__schema_work(s, 1)) return false;
  if (ij__json_get_double(a, &dx) && ij__json_get_double(b, &dy)) {
    int64_t ix, iy;
    if (ij__json_get_int(a, &ix) && ij__json_get_int(b, &iy)) return ix == iy;
    return dx == dy;
  }
  if (ta != tb) return false;
  if (ij__json_get_string(a, &x, &nx) && ij__json_get_string(b, &y, &ny)) return nx == ny && memcmp(x, y, nx) == 0;
  if (ij__json_get_bool(a, &bx) && ij__json_get_bool(b, &by)) return bx == by;
  if (ta == IJ_JSON_NULL) return true;
  if (ij__json_size(a) != ij__json_size(b)) return false;
  ij_json_iter ia = {0}, ib = {0};
  const ij_json_value *va, *vb;
  while (ij__json_next(a, &ia, &key, NULL, &va)) {
    if (ta == IJ_JSON_OBJECT && !ij__schema_work(s, ij__json_size(b) / 2)) return false;
    if (ta == IJ_JSON_OBJECT) vb = ij__json_member(b, key);
    else ij__json_next(b, &ib, NULL, NULL, &vb);
    if (!vb || !equal(s, va, vb)) return false;
  }
  return true;
}

bool ij__schema_count(ij_schema *s, const ij_conjunct *c, const char *key, uint32_t *out) {
  const ij_json_value *v = ij__json_member(c->node, key);
  double d;
  if (!v) return false;
  if (!ij__json_get_double(v, &d) || d < 0 || d != floor(d)) {
    return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, key, "expected a whole number that is not negative");
  }
  *out = d > 1e9 ? 1000000000u : (uint32_t)d;
  return true;
}

/* ------------------------------------------------------------------------------------------------------- enumerations */

/* The values of the first enum or const of a list; NULL: there is none. A const is a list of its own. */
static const ij_json_value *values_of(const ij_conjunct *c, const ij_json_value **constant) {
  *constant = ij__json_member(c->node, "const");
  return *constant ? NULL : ij__json_member(c->node, "enum");
}

/* Whether a value of the list `from` is also in the others and of these types. */
static bool value_allowed(ij_schema *s, const ij_conjuncts *list, const ij_json_value *v, const ij_json_value *from, unsigned types) {
  if (!(types & ij__schema_type_of(v))) return false;
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_json_value *node = list->at[i].node, *constant = ij__json_member(node, "const"), *values = ij__json_member(node, "enum"), *o;
    if (constant && !equal(s, constant, v)) return false;
    if (!values || values == from) continue;
    bool found = false;
    ij_json_iter it = {0};
    while (!found && s->status == IJ_OK && ij__json_next(values, &it, NULL, NULL, &o)) found = equal(s, o, v);
    if (!found) return false;
  }
  return true;
}

/* Keywords beside an enum would have to be checked against each value; a schema that needs this can list fewer values. */
static bool check_beside_values(ij_schema *s, const ij_conjuncts *list) {
  static const char *const words[] = {"pattern", "format", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
                                      "exclusiveMaximum", "multipleOf", "properties", "required", "additionalProperties",
                                      "unevaluatedProperties", "items", "prefixItems", "minItems", "maxItems"};
  for (uint32_t i = 0; i < list->n; i++) {
    for (size_t k = 0; k < IJ_COUNT_OF(words); k++) {
      if (ij__json_member(list->at[i].node, words[k])) {
        return ij__schema_fail(s, IJ_E_UNSUPPORTED, list->at[i].path, words[k],
                               "this keyword beside enum or const is not understood; list only the values that satisfy it");
      }
    }
  }
  return true;
}

bool ij__schema_values(ij_schema *s, const ij_conjuncts *list, unsigned types, ij_rule r, bool *did) {
  for (uint32_t i = 0; i < list->n && !*did; i++) {
    const ij_json_value *constant, *values = values_of(&list->at[i], &constant), *v;
    ij_json_iter it = {0};
    if (!constant && !values) continue;
    *did = true;
    if (!check_beside_values(s, list)) return false;
    if (constant) {
      if (value_allowed(s, list, constant, NULL, types)) ij__schema_literal(s, constant, list->at[i].path, r.start, r.end);
      continue;
    }
    if (ij__json_type_of(values) != IJ_JSON_ARRAY) {
      return ij__schema_fail(s, IJ_E_ARGUMENT, list->at[i].path, "enum", "expected a list of values");
    }
    while (ij__json_next(values, &it, NULL, NULL, &v) && s->status == IJ_OK && !s->nfa->too_large) {
      if (value_allowed(s, list, v, values, types)) ij__schema_literal(s, v, list->at[i].path, r.start, r.end);
    }
  }
  return s->status == IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------ disjoint */

static const ij_json_value *follow(ij_schema *s, const ij_json_value *node) {
  for (int i = 0; node && ij__json_member(node, "$ref") && i < 32; i++) node = ij__schema_resolve(s, "#", node);
  return node;
}

/* Two lists of constants with nothing in common. */
static bool constants_differ(ij_schema *s, const ij_json_value *a, const ij_json_value *b) {
  const ij_json_value *ca = ij__json_member(a, "const"), *cb = ij__json_member(b, "const"), *ea = ij__json_member(a, "enum");
  const ij_json_value *eb = ij__json_member(b, "enum");
  if ((!ca && !ea) || (!cb && !eb)) return false;
  ij_json_iter ia = {0}, ib = {0};
  const ij_json_value *x = ca, *y = cb;
  if (ca && cb) return !equal(s, ca, cb) && s->status == IJ_OK;
  while (ca ? x != NULL : ij__json_next(ea, &ia, NULL, NULL, &x)) {
    ib = (ij_json_iter){0};
    y = cb;
    while (cb ? y != NULL : ij__json_next(eb, &ib, NULL, NULL, &y)) {
      if (equal(s, x, y) || s->status != IJ_OK) return false;
      if (cb) break;
    }
    if (ca) break;
  }
  return true;
}

static bool requires(const ij_json_value *node, const char *name, size_t n) {
  ij_json_iter it = {0};
  const ij_json_value *v, *list = ij__json_member(node, "required");
  const char *text;
  size_t len;
  while (ij__json_next(list, &it, NULL, NULL, &v)) {
    if (ij__json_get_string(v, &text, &len) && len == n && memcmp(text, name, n) == 0) return true;
  }
  return false;
}

bool ij__schema_disjoint(ij_schema *s, const ij_json_value *a, const ij_json_value *b) {
  bool flag;
  a = follow(s, a);
  b = follow(s, b);
  if (!a || !b) return false;
  if (ij__json_get_bool(a, &flag) || ij__json_get_bool(b, &flag)) return (ij__json_get_bool(a, &flag) && !flag) || (ij__json_get_bool(b,
                                                                                          &flag) && !flag);
  unsigned ta = ij__schema_types(a), tb = ij__schema_types(b);
  if ((ta & tb) == 0 || constants_differ(s, a, b)) return true;
  if (ta != IJ_T_OBJECT || tb != IJ_T_OBJECT) return false;
  const ij_json_value *pa = ij__json_member(a, "properties"), *pb = ij__json_member(b, "properties"), *va;
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  while (ij__json_next(pa, &it, &key, &n, &va)) {
    size_t n_compared = ij__json_size(pb) + ij__json_size(ij__json_member(a, "required")) + ij__json_size(ij__json_member(b, "required"));
    if (!ij__schema_work(s, 4 + n_compared / 2)) return false;
    const ij_json_value *vb = ij__json_member(pb, key);
    if (!vb || !requires(a, key, n) || !requires(b, key, n)) continue;
    va = follow(s, va);
    vb = follow(s, vb);
    if (va && vb && (constants_differ(s, va, vb) || (ij__schema_types(va) & ij__schema_types(vb)) == 0)) return true;
  }
  return false;
}
