/* schema_object.c: objects and arrays.
 *
 * Properties come in the order in which the schema lists them, which is also the order in which they are written: optional ones may be
 * left out, and when further keys are allowed they come last. State i of an object is "about to write one of the properties from i on".
 */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "grammar/schema_int.h"

enum { MAX_PROPERTIES = 5000, MAX_ITEMS = 10000 };

typedef struct property {
  const char *name;
  size_t n;
  ij_conjuncts value;
  bool required, described; /* some schema says what it may be */
  uint32_t rule;
} property;

typedef struct object_plan {
  property *at;
  uint32_t n, cap;
  bool extras;      /* keys that are not listed */
  ij_conjuncts extra_value;
} object_plan;

static property *find_property(object_plan *p, const char *name, size_t n) {
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->at[i].n == n && memcmp(p->at[i].name, name, n) == 0) return &p->at[i];
  }
  return NULL;
}

static property *add_property(ij_schema *s, object_plan *p, const char *path, const char *name, size_t n) {
  if (!ij__schema_work(s, 1 + p->n / 8)) return NULL;
  property *found = find_property(p, name, n);
  if (found) return found;
  if (p->n >= MAX_PROPERTIES) {
    ij__schema_fail(s, IJ_E_UNSUPPORTED, path, NULL, "an object with more than %d properties", MAX_PROPERTIES);
    return NULL;
  }
  if (memchr(name, 0, n)) {
    ij__schema_fail(s, IJ_E_UNSUPPORTED, path, NULL, "a property whose name holds a NUL character");
    return NULL;
  }
  if (p->n == p->cap) {
    uint32_t cap = p->cap ? 2 * p->cap : 16;
    property *at = ij__realloc(p->at, cap * sizeof *at);
    if (!at) {
      ij__schema_nomem(s);
      return NULL;
    }
    p->at = at;
    p->cap = cap;
  }
  p->at[p->n] = (property){.name = name, .n = n};
  return &p->at[p->n++];
}

static bool collect_names(ij_schema *s, object_plan *p, const ij_conjunct *c) {
  const ij_json_value *properties = ij__json_member(c->node, "properties"), *required = ij__json_member(c->node, "required"), *v;
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  if (properties && ij__json_type_of(properties) != IJ_JSON_OBJECT) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "properties",
                                                                                          "expected an object");
  if (required && ij__json_type_of(required) != IJ_JSON_ARRAY) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "required",
                                                                                      "expected a list of names");
  while (ij__json_next(properties, &it, &key, &n, NULL)) {
    if (!add_property(s, p, c->path, key, n)) return false;
  }
  it = (ij_json_iter){0};
  while (ij__json_next(required, &it, NULL, NULL, &v)) {
    if (!ij__json_get_string(v, &key, &n)) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "required", "expected a list of names");
  }
  return true;
}

/* Required names that no one lists come after those that are. */
static bool collect_required(ij_schema *s, object_plan *p, const ij_conjunct *c) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  const char *key;
  size_t n;
  while (ij__json_next(ij__json_member(c->node, "required"), &it, NULL, NULL, &v)) {
    ij__json_get_string(v, &key, &n);
    property *found = add_property(s, p, c->path, key, n);
    if (!found) return false;
    found->required = true;
  }
  return true;
}

/* What each conjunct says about a property: its own schema for it, or the one for keys it does not list. */
static bool collect_values(ij_schema *s, object_plan *p, const ij_conjunct *c) {
  const ij_json_value *properties = ij__json_member(c->node, "properties"), *others = ij__json_member(c->node, "additionalProperties");
  bool closed = ij__json_member(c->node, "unevaluatedProperties") && !ij__schema_applies(c->node); /* as additionalProperties: false */
  const char *base = ij__schema_path(s, c->path, "properties", 10), *path_others = ij__schema_path(s, c->path, "additionalProperties", 20);
  if (others && ij__json_type_of(others) != IJ_JSON_OBJECT && ij__json_type_of(others) != IJ_JSON_BOOL) {
    return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "additionalProperties", "expected a schema");
  }
  for (uint32_t i = 0; i < p->n && s->status == IJ_OK; i++) {
    property *o = &p->at[i];
    if (!ij__schema_work(s, ij__json_size(properties) / 8)) return false;
    const ij_json_value *v = strlen(o->name) == o->n ? ij__json_member(properties, o->name) : NULL;
    o->described |= v || others;
    if (v) ij__conjuncts_add(&o->value, v, ij__schema_path(s, base, o->name, o->n), 0);
    else if (others) ij__conjuncts_add(&o->value, others, path_others, 0);
    else if (closed) o->value.never = true;
  }
  return s->status == IJ_OK;
}

/* Keys that are not listed: only when asked for, or when nothing at all is listed. */
static void plan_extras(ij_schema *s, object_plan *p, const ij_conjuncts *list) {
  bool forbidden = false, closed = false, asked = false, flag;
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_json_value *node = list->at[i].node, *others = ij__json_member(node, "additionalProperties");
    if (ij__json_member(node, "unevaluatedProperties")) forbidden = closed = true;
    if (!others) continue;
    if (ij__json_get_bool(others, &flag) && !flag) forbidden = true;
    else asked = true;
    ij__conjuncts_add(&p->extra_value, others, ij__schema_path(s, list->at[i].path, "additionalProperties", 20), 0);
  }
  for (uint32_t i = 0; closed && i < p->n; i++) p->at[i].value.never |= !p->at[i].described;
  p->extras = !forbidden && (asked || p->n == 0);
}

/* ---------------------------------------------------------------------------------------------------- keys not listed */

typedef struct key_tree {
  ij_schema *s;
  uint32_t free_state, end; /* free_state: the key differs from all names already */
} key_tree;

typedef struct name_view {
  const char *bytes;
  size_t n;
} name_view;

static int compare_names(const void *a, const void *b) {
  const name_view *x = a, *y = b;
  int c = memcmp(x->bytes, y->bytes, IJ_MIN(x->n, y->n));
  return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* One character of valid UTF-8. */
static uint32_t read_char(const char *bytes, size_t n, size_t *len) {
  unsigned char c = (unsigned char)bytes[0];
  *len = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  if (*len > n) *len = n;
  uint32_t x = *len == 1 ? c : c & (0xFFu >> (*len + 1));
  for (size_t i = 1; i < *len; i++) x = x << 6 | ((unsigned char)bytes[i] & 0x3F);
  return x;
}

/* The names first .. last - 1 agree on their first `at` bytes, which have been read in `state`. Recursion is only for all branches but the
 * last: each level of it is another byte of a name that branches off, so their number is at most the root of the schema's size. */
static void differ_from(key_tree *t, const name_view *names, uint32_t first, uint32_t last, size_t at, uint32_t state) {
  ij_nfa *a = t->s->nfa;
  while (!a->too_large && !a->no_memory) {
    ij_charset rest = {0}, one = {0};
    uint32_t follow = IJ_NONE, follow_first = 0, follow_last = 0;
    size_t follow_at = at;
    bool is_name = false;
    for (uint32_t i = first; i < last;) {
      size_t len;
      if (names[i].n == at) {
        is_name = true;
        i++;
        continue;
      }
      uint32_t c = read_char(names[i].bytes + at, names[i].n - at, &len), next = i;
      while (next < last && names[next].n > at && memcmp(names[next].bytes + at, names[i].bytes + at, IJ_MIN(len,
                                                                                          names[next].n - at)) == 0) next++;
      uint32_t target = ij__nfa_state(a);
      one.n = 0;
      ij__charset_add(&one, c, c);
      ij__charset_add(&rest, c, c);
      ij__nfa_class(a, state, ij__nfa_make_class(a, &one, true), target);
      if (follow != IJ_NONE) differ_from(t, names, follow_first, follow_last, follow_at, follow);
      follow = target, follow_first = i, follow_last = next, follow_at = at + len;
      i = next;
    }
    if (!is_name) ij__nfa_bytes(a, state, '"', '"', t->end);
    ij__charset_negate(&rest);
    if (rest.failed || one.failed) a->no_memory = true;
    else ij__nfa_class(a, state, ij__nfa_make_class(a, &rest, true), t->free_state);
    ij__charset_free(&rest);
    ij__charset_free(&one);
    if (follow == IJ_NONE) return;
    first = follow_first, last = follow_last, at = follow_at, state = follow;
  }
}

/* A key, quotes included, that is none of the listed names. */
static void other_key(ij_schema *s, const object_plan *p, uint32_t from, uint32_t to) {
  if (p->n == 0) {
    ij__nfa_call(s->nfa, from, ij__json_part(s->j, IJ_JSON_ANY_STRING), to);
    return;
  }
  name_view *names = ij__alloc_array(p->n, sizeof *names);
  if (!names) {
    ij__schema_nomem(s);
    return;
  }
  for (uint32_t i = 0; i < p->n; i++) names[i] = (name_view){p->at[i].name, p->at[i].n};
  qsort(names, p->n, sizeof *names, compare_names);
  key_tree t = {s, ij__nfa_state(s->nfa), to};
  uint32_t start = ij__nfa_state(s->nfa);
  ij__nfa_bytes(s->nfa, from, '"', '"', start);
  ij__nfa_class(s->nfa, t.free_state, ij__json_any_char(s->j), t.free_state);
  ij__nfa_bytes(s->nfa, t.free_state, '"', '"', to);
  differ_from(&t, names, 0, p->n, 0, start);
  ij__free(names);
}

/* -------------------------------------------------------------------------------------------------------------- objects */

static void member(ij_schema *s, uint32_t key_end, uint32_t rule, uint32_t to) {
  uint32_t colon = ij__nfa_state(s->nfa), spaced = ij__nfa_state(s->nfa);
  ij__nfa_bytes(s->nfa, key_end, ':', ':', colon);
  ij__nfa_bytes(s->nfa, colon, ' ', ' ', spaced);
  ij__nfa_call(s->nfa, colon, rule, to);
  ij__nfa_call(s->nfa, spaced, rule, to);
}

static void write_object(ij_schema *s, object_plan *p, uint32_t extra_rule, ij_rule r) {
  ij_nfa *a = s->nfa;
  uint32_t space = ij__json_part(s->j, IJ_JSON_SPACE), n = p->n, close = ij__nfa_state(a), in = ij__nfa_state(a), begin = ij__nfa_state(a);
  uint32_t first_key = a->n_states; /* [n + 1]: about to write a key from i on */
  for (uint32_t i = 0; i <= n; i++) ij__nfa_state(a);
  uint32_t first_after = a->n_states; /* [n + 1]: after a value, keys from i on may follow */
  for (uint32_t i = 0; i <= n; i++) ij__nfa_state(a);
  if (a->too_large || a->no_memory) return;
  ij__nfa_bytes(a, close, '}', '}', r.end);
  ij__nfa_bytes(a, r.start, '{', '{', in);
  ij__nfa_call(a, in, space, begin);
  ij__nfa_empty(a, begin, first_key);
  bool may_end = true;
  for (uint32_t i = n + 1; i-- > 0 && !a->too_large && !a->no_memory;) {
    uint32_t key = first_key + i, after = first_after + i, comma = ij__nfa_state(a);
    if (i < n) {
      uint32_t quoted = ij__nfa_state(a);
      ij__json_quoted(s->j, key, p->at[i].name, p->at[i].n, quoted);
      member(s, quoted, p->at[i].rule, after + 1);
      if (p->at[i].required) may_end = false;
      else ij__nfa_empty(a, key, key + 1);
    }
    ij__nfa_bytes(a, after, ',', ',', comma);
    ij__nfa_call(a, comma, space, key);
    if (may_end) ij__nfa_call(a, after, space, close);
  }
  if (may_end) ij__nfa_empty(a, begin, close);
  if (p->extras) {
    uint32_t key_end = ij__nfa_state(a);
    other_key(s, p, first_key + n, key_end);
    member(s, key_end, extra_rule, first_after + n);
  }
}

bool ij__schema_object(ij_schema *s, const ij_conjuncts *list, ij_rule r) {
  object_plan p = {0};
  uint32_t extra_rule = 0;
  bool ok = true;
  for (uint32_t i = 0; ok && i < list->n; i++) ok = collect_names(s, &p, &list->at[i]);
  for (uint32_t i = 0; ok && i < list->n; i++) ok = collect_required(s, &p, &list->at[i]);
  for (uint32_t i = 0; ok && i < list->n; i++) ok = collect_values(s, &p, &list->at[i]);
  if (ok) plan_extras(s, &p, list);
  if (ok && p.extras && p.extra_value.n == 0) extra_rule = ij__json_part(s->j, IJ_JSON_ANY_VALUE);
  else if (ok && p.extras) extra_rule = ij__schema_request(s, &p.extra_value);
  for (uint32_t i = 0; ok && i < p.n && s->status == IJ_OK; i++) {
    ij_conjuncts *value = &p.at[i].value;
    p.at[i].rule = value->n == 0 && !value->never && !value->failed ? ij__json_part(s->j, IJ_JSON_ANY_VALUE) : ij__schema_request(s, value);
  }
  if (ok && s->status == IJ_OK) write_object(s, &p, extra_rule, r);
  for (uint32_t i = 0; i < p.n; i++) ij__free(p.at[i].value.at);
  ij__free(p.extra_value.at);
  ij__free(p.at);
  return s->status == IJ_OK;
}

/* --------------------------------------------------------------------------------------------------------------- arrays */

typedef struct array_plan {
  uint32_t n_prefix, min, max; /* max IJ_NONE: no limit */
} array_plan;

static bool plan_array(ij_schema *s, const ij_conjuncts *list, array_plan *p) {
  *p = (array_plan){0, 0, IJ_NONE};
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_conjunct *c = &list->at[i];
    const ij_json_value *prefix = ij__json_member(c->node, "prefixItems"), *items = ij__json_member(c->node, "items");
    uint32_t n;
    if (ij__schema_count(s, c, "minItems", &n)) p->min = IJ_MAX(p->min, n);
    if (ij__schema_count(s, c, "maxItems", &n)) p->max = IJ_MIN(p->max, n);
    if (prefix && ij__json_type_of(prefix) != IJ_JSON_ARRAY) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "prefixItems",
                                                                                    "expected a list of schemas");
    if (ij__json_type_of(items) == IJ_JSON_ARRAY) {
      return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "items", "a list of schemas is written as prefixItems since draft 2020-12");
    }
    p->n_prefix = IJ_MAX(p->n_prefix, (uint32_t)ij__json_size(prefix));
  }
  if (p->min > MAX_ITEMS || (p->max != IJ_NONE && p->max > MAX_ITEMS) || p->n_prefix > MAX_ITEMS) {
    return ij__schema_fail(s, IJ_E_UNSUPPORTED, list->n ? list->at[0].path : "#", NULL, "counts of items above %d", MAX_ITEMS);
  }
  return s->status == IJ_OK;
}

static const ij_json_value *nth(ij_schema *s, const ij_json_value *array, uint32_t index) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  if (!ij__schema_work(s, IJ_MIN(index, ij__json_size(array)) / 8)) return NULL;
  for (uint32_t i = 0; ij__json_next(array, &it, NULL, NULL, &v); i++) {
    if (i == index) return v;
  }
  return NULL;
}

/* The rule of item `index`; index n_prefix stands for all later ones too. */
static uint32_t item_rule(ij_schema *s, const ij_conjuncts *list, uint32_t index) {
  ij_conjuncts value = {0};
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_conjunct *c = &list->at[i];
    const ij_json_value *v = nth(s, ij__json_member(c->node, "prefixItems"), index), *items = ij__json_member(c->node, "items");
    if (v) ij__conjuncts_add(&value, v, ij__schema_path_at(s, c->path, "prefixItems", index), 0);
    else if (items) ij__conjuncts_add(&value, items, ij__schema_path(s, c->path, "items", 5), 0);
  }
  uint32_t rule = value.n == 0 && !value.never && !value.failed ? ij__json_part(s->j, IJ_JSON_ANY_VALUE) : ij__schema_request(s, &value);
  ij__free(value.at);
  return rule;
}

bool ij__schema_array(ij_schema *s, const ij_conjuncts *list, ij_rule r) {
  ij_nfa *a = s->nfa;
  array_plan p;
  if (!plan_array(s, list, &p)) return false;
  uint32_t space = ij__json_part(s->j, IJ_JSON_SPACE), close = ij__nfa_state(a), in = ij__nfa_state(a), begin = ij__nfa_state(a),
      key = ij__nfa_state(a);
  bool bounded = p.max != IJ_NONE;
  uint32_t last = bounded ? p.max : IJ_MAX(p.min, p.n_prefix), rest = item_rule(s, list, p.n_prefix);
  ij__nfa_bytes(a, close, ']', ']', r.end);
  ij__nfa_bytes(a, r.start, '[', '[', in);
  ij__nfa_call(a, in, space, begin);
  ij__nfa_empty(a, begin, key);
  if (p.min == 0) ij__nfa_empty(a, begin, close);
  /* key: about to write item i; after: i + 1 items are there. Without a limit the last round repeats. */
  for (uint32_t i = 0; i < last + !bounded && s->status == IJ_OK && !a->too_large && !a->no_memory; i++) {
    uint32_t after = ij__nfa_state(a), comma = ij__nfa_state(a), next = !bounded && i == last ? key : ij__nfa_state(a);
    ij__nfa_call(a, key, i < p.n_prefix ? item_rule(s, list, i) : rest, after);
    if (i + 1 >= p.min) ij__nfa_call(a, after, space, close);
    ij__nfa_bytes(a, after, ',', ',', comma);
    ij__nfa_call(a, comma, space, next);
    key = next;
  }
  return s->status == IJ_OK;
}
