/* schema.c: lists of conjuncts to rules: references, combinations, types and enumerations. See schema_int.h for the idea. */
#include "grammar/schema_int.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

enum { MAX_LISTS = 20000, MAX_CONJUNCTS = 64, MAX_PATH = 400, MAX_WORK = 20000000 };

/* ------------------------------------------------------------------------------------------------------------- errors */

bool ij__schema_fail(ij_schema *s, ij_status code, const char *path, const char *key, const char *fmt, ...) {
  if (s->status != IJ_OK) return false;
  char where[512], message[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  snprintf(where, sizeof where, "%s%s%s", path, key ? "/" : "", key ? key : "");
  s->status = ij__fail(s->err, code, where, "%s", message);
  return false;
}

bool ij__schema_nomem(ij_schema *s) {
  if (s->status == IJ_OK) s->status = ij__fail_nomem(s->err, "a schema", (size_t)s->n_lists * sizeof *s->lists);
  return false;
}

bool ij__schema_work(ij_schema *s, uint64_t n) {
  s->work += n;
  if (s->work <= MAX_WORK) return true;
  return ij__schema_fail(s, IJ_E_UNSUPPORTED, "#", NULL,
                         "the schema takes too long to read: too many values or keywords to compare, or expressions");
}

static const char *keep_text(ij_schema *s, const char *text) {
  if (!ij__schema_work(s, 4)) return "#";
  if (s->n_texts == s->cap_texts) {
    uint32_t cap = s->cap_texts ? 2 * s->cap_texts : 64;
    char **texts = ij__realloc(s->texts, cap * sizeof *texts);
    if (!texts) {
      ij__schema_nomem(s);
      return "#";
    }
    s->texts = texts;
    s->cap_texts = cap;
  }
  char *copy = ij__strdup(text);
  if (!copy) {
    ij__schema_nomem(s);
    return "#";
  }
  s->texts[s->n_texts++] = copy;
  return copy;
}

const char *ij__schema_path(ij_schema *s, const char *base, const char *key, size_t n_key) {
  char text[MAX_PATH + 8];
  size_t n = strlen(base);
  memcpy(text, base, n + 1);
  if (n >= MAX_PATH) return base;
  text[n++] = '/';
  for (size_t i = 0; i < n_key && n < MAX_PATH; i++) {
    unsigned char c = (unsigned char)key[i];
    if (c == '~' || c == '/') {
      text[n++] = '~';
      text[n++] = c == '~' ? '0' : '1';
    } else {
      text[n++] = c < 0x20 || c >= 0x7F ? '?' : (char)c;
    }
  }
  if (n >= MAX_PATH) {
    memcpy(text + MAX_PATH - 1, "...", 3);
    n = MAX_PATH + 2;
  }
  text[n] = 0;
  return keep_text(s, text);
}

const char *ij__schema_path_at(ij_schema *s, const char *base, const char *key, size_t index) {
  char number[32];
  snprintf(number, sizeof number, "%zu", index);
  const char *list = ij__schema_path(s, base, key, strlen(key));
  return ij__schema_path(s, list, number, strlen(number));
}

/* ----------------------------------------------------------------------------------------------------------- keywords */

typedef enum keyword_kind { WORD_NOTE, WORD_DONE } keyword_kind;
static const struct {
  const char *name;
  keyword_kind kind;
} keywords[] = {
    {"title", WORD_NOTE}, {"description", WORD_NOTE}, {"default", WORD_NOTE}, {"examples", WORD_NOTE}, {"example", WORD_NOTE},
    {"deprecated", WORD_NOTE}, {"readOnly", WORD_NOTE}, {"writeOnly", WORD_NOTE}, {"$schema", WORD_NOTE}, {"$id", WORD_NOTE},
    {"$comment", WORD_NOTE}, {"$anchor", WORD_NOTE}, {"$defs", WORD_NOTE}, {"definitions", WORD_NOTE}, {"discriminator", WORD_NOTE},
    {"contentMediaType", WORD_NOTE}, {"contentEncoding", WORD_NOTE}, {"contentSchema", WORD_NOTE}, {"strict", WORD_NOTE},
    {"type", WORD_DONE}, {"nullable", WORD_DONE}, {"enum", WORD_DONE}, {"const", WORD_DONE},
    {"properties", WORD_DONE}, {"required", WORD_DONE}, {"additionalProperties", WORD_DONE}, {"unevaluatedProperties", WORD_DONE},
    {"items", WORD_DONE}, {"prefixItems", WORD_DONE}, {"minItems", WORD_DONE}, {"maxItems", WORD_DONE}, {"uniqueItems", WORD_DONE},
    {"anyOf", WORD_DONE}, {"oneOf", WORD_DONE}, {"allOf", WORD_DONE}, {"$ref", WORD_DONE},
    {"pattern", WORD_DONE}, {"format", WORD_DONE}, {"minLength", WORD_DONE}, {"maxLength", WORD_DONE},
    {"minimum", WORD_DONE}, {"maximum", WORD_DONE}, {"exclusiveMinimum", WORD_DONE}, {"exclusiveMaximum", WORD_DONE},
    {"multipleOf", WORD_DONE},
};

static bool known_keyword(const char *key, size_t n, keyword_kind *kind) {
  if (n >= 2 && memcmp(key, "x-", 2) == 0) {
    *kind = WORD_NOTE;
    return true;
  }
  for (size_t i = 0; i < IJ_COUNT_OF(keywords); i++) {
    if (strlen(keywords[i].name) == n && memcmp(key, keywords[i].name, n) == 0) {
      *kind = keywords[i].kind;
      return true;
    }
  }
  return false;
}

/* Refuses what cannot be enforced. */
static bool check_keywords(ij_schema *s, const ij_conjunct *c) {
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  const ij_json_value *v;
  keyword_kind kind;
  bool flag;
  if (!ij__schema_work(s, 16 * ij__json_size(c->node))) return false;
  while (ij__json_next(c->node, &it, &key, &n, &v)) {
    if (!known_keyword(key, n, &kind)) {
      char shown[64];
      ij__json_show(shown, sizeof shown, key, n);
      return ij__schema_fail(s, IJ_E_UNSUPPORTED, ij__schema_path(s, c->path, key, n), NULL,
                             "the keyword %s cannot be enforced here; remove it", shown);
    }
    if (strcmp(key, "uniqueItems") == 0 && (!ij__json_get_bool(v, &flag) || flag)) {
      return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, key,
                             "that items differ from each other cannot be enforced; remove it or say false");
    }
    if (strcmp(key, "unevaluatedProperties") == 0 && (!ij__json_get_bool(v, &flag) || flag)) {
      return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, key, "only false is understood here");
    }
  }
  return true;
}

/* -------------------------------------------------------------------------------------------------------------- lists */

void ij__conjuncts_add(ij_conjuncts *list, const ij_json_value *node, const char *path, unsigned did) {
  bool flag;
  if (ij__json_get_bool(node, &flag)) {
    if (!flag) list->never = true;
    return;
  }
  for (uint32_t i = 0; i < list->n; i++) {
    if (list->at[i].node == node && list->at[i].did == did) return;
  }
  if (list->n == list->cap) {
    uint32_t cap = list->cap ? 2 * list->cap : 4;
    ij_conjunct *at = ij__realloc(list->at, cap * sizeof *at);
    if (!at) {
      list->failed = true;
      return;
    }
    list->at = at;
    list->cap = cap;
  }
  list->at[list->n++] = (ij_conjunct){node, path, did};
}

static void free_list(ij_conjuncts *list) {
  ij__free(list->at);
  *list = (ij_conjuncts){0};
}

static bool same_list(const ij_conjuncts *a, const ij_conjuncts *b) {
  if (a->n != b->n || a->never != b->never) return false;
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->at[i].node != b->at[i].node || a->at[i].did != b->at[i].did) return false;
  }
  return true;
}

static uint32_t hash_list(const ij_conjuncts *list) {
  uint64_t h = list->never;
  for (uint32_t i = 0; i < list->n; i++) h = (h ^ ((uint64_t)(uintptr_t)list->at[i].node << 4 ^ list->at[i].did)) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32);
}

uint32_t ij__schema_request(ij_schema *s, ij_conjuncts *list) {
  if (list->failed) ij__schema_nomem(s);
  uint32_t hash = hash_list(list), *head = &s->buckets[hash % IJ_COUNT_OF(s->buckets)];
  for (uint32_t i = *head; s->status == IJ_OK && i != IJ_NONE; i = s->lists[i].next_hash) {
    if (s->lists[i].hash != hash || !same_list(&s->lists[i], list)) continue;
    free_list(list);
    return s->lists[i].rule;
  }
  if (s->n_lists >= MAX_LISTS) ij__schema_fail(s, IJ_E_UNSUPPORTED, "#", NULL,
                                               "the schema has more than %d parts and combinations of parts", MAX_LISTS);
  if (s->status == IJ_OK && s->n_lists == s->cap_lists) {
    uint32_t cap = s->cap_lists ? 2 * s->cap_lists : 32;
    ij_conjuncts *lists = ij__realloc(s->lists, cap * sizeof *lists);
    if (lists) {
      s->lists = lists;
      s->cap_lists = cap;
    } else {
      ij__schema_nomem(s);
    }
  }
  uint32_t rule = ij__nfa_rule(s->nfa);
  if (s->nfa->no_memory) ij__schema_nomem(s);
  if (s->status != IJ_OK || s->nfa->too_large) {
    free_list(list);
    return 0;
  }
  list->rule = rule;
  list->hash = hash;
  list->next_hash = *head;
  *head = s->n_lists;
  s->lists[s->n_lists++] = *list;
  *list = (ij_conjuncts){0};
  return rule;
}

/* --------------------------------------------------------------------------------------------------------- references */

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* One character of a URI fragment at *i, which moves on; -1: not one. NUL is in no name here. */
static int decode_char(const char *text, size_t n, size_t *i) {
  if (*i >= n || text[*i] == 0) return -1;
  if (text[*i] != '%') return (unsigned char)text[(*i)++];
  if (*i + 2 >= n || hex_value(text[*i + 1]) < 0 || hex_value(text[*i + 2]) < 0) return -1;
  int c = hex_value(text[*i + 1]) * 16 + hex_value(text[*i + 2]);
  *i += 3;
  return c ? c : -1;
}

/* One step of a JSON pointer in a URI fragment, decoded into out: percent signs first, then tildes. */
static bool decode_step(const char *text, size_t n, char *out, size_t cap) {
  size_t len = 0;
  for (size_t i = 0; i < n;) {
    int c = decode_char(text, n, &i);
    if (c == '~') {
      c = decode_char(text, n, &i);
      c = c == '0' ? '~' : c == '1' ? '/' : -1;
    }
    if (c < 0 || len + 1 >= cap) return false;
    out[len++] = (char)c;
  }
  out[len] = 0;
  return true;
}

/* Whether a value below `v` is an object with an $id; JSON is not deep. */
static bool has_ids_below(const ij_json_value *v) {
  ij_json_iter it = {0};
  const ij_json_value *child;
  while (ij__json_next(v, &it, NULL, NULL, &child)) {
    if (ij__json_type_of(ij__json_member(child, "$id")) == IJ_JSON_STRING || has_ids_below(child)) return true;
  }
  return false;
}

static const ij_json_value *element_at(const ij_json_value *array, const char *index) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  size_t want = 0;
  for (const char *p = index; *p; p++) {
    if (*p < '0' || *p > '9' || want > 1000000) return NULL;
    want = want * 10 + (size_t)(*p - '0');
  }
  for (size_t i = 0; ij__json_next(array, &it, NULL, NULL, &v); i++) {
    if (i == want) return v;
  }
  return NULL;
}

const ij_json_value *ij__schema_resolve(ij_schema *s, const char *path, const ij_json_value *node) {
  const char *text;
  size_t n;
  char step[1024], shown[128];
  const ij_json_value *at = s->root;
  if (!ij__json_get_string(ij__json_member(node, "$ref"), &text, &n)) {
    ij__schema_fail(s, IJ_E_ARGUMENT, path, "$ref", "expected a string");
    return NULL;
  }
  ij__json_show(shown, sizeof shown, text, n);
  if (n == 0 || text[0] != '#' || (n > 1 && text[1] != '/')) {
    ij__schema_fail(s, IJ_E_UNSUPPORTED, path, "$ref", "%s: only references inside the schema are followed, written as #/...", shown);
    return NULL;
  }
  if (s->has_ids) {
    ij__schema_fail(s, IJ_E_UNSUPPORTED, path, "$ref",
                    "%s: references are not followed where parts of a schema have an $id of their own", shown);
    return NULL;
  }
  for (size_t i = 1; at && i < n;) {
    size_t end = i + 1;
    while (end < n && text[end] != '/') end++;
    if (!decode_step(text + i + 1, end - i - 1, step, sizeof step)) at = NULL;
    else at = ij__json_type_of(at) == IJ_JSON_ARRAY ? element_at(at, step) : ij__json_member(at, step);
    i = end;
  }
  ij_json_type t = ij__json_type_of(at);
  if (t != IJ_JSON_OBJECT && t != IJ_JSON_BOOL) {
    ij__schema_fail(s, IJ_E_ARGUMENT, path, "$ref", "%s: there is no schema at this place", shown);
    return NULL;
  }
  return at;
}

/* What a conjunct still says once some of its keywords are dealt with; annotations say nothing. */
static bool says_more(const ij_conjunct *c) {
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  keyword_kind kind;
  while (ij__json_next(c->node, &it, &key, &n, NULL)) {
    bool done = (strcmp(key, "$ref") == 0 && c->did & IJ_DID_REF) || (strcmp(key, "allOf") == 0 && c->did & IJ_DID_ALL) ||
                (strcmp(key, "anyOf") == 0 && c->did & IJ_DID_ANY) || (strcmp(key, "oneOf") == 0 && c->did & IJ_DID_ONE);
    if (!done && !(known_keyword(key, n, &kind) && kind == WORD_NOTE)) return true;
  }
  return false;
}

typedef struct flattening {
  ij_schema *s;
  ij_conjuncts todo;
  uint32_t parents[MAX_CONJUNCTS]; /* whose $ref or allOf an entry of todo came from; itself: it was there */
} flattening;

/* A schema that holds because entry `from` does. */
static void add_applied(flattening *f, uint32_t from, const ij_json_value *node, const char *path) {
  const char *where = f->todo.at[from].path;
  for (uint32_t i = from;; i = f->parents[i]) {
    if (f->todo.at[i].node == node) ij__schema_fail(f->s, IJ_E_ARGUMENT, where, NULL,
                                                    "a definition refers to itself without an object or array in between");
    if (f->parents[i] == i) break;
  }
  uint32_t n = f->todo.n;
  if (n >= MAX_CONJUNCTS) ij__schema_fail(f->s, IJ_E_UNSUPPORTED, where, NULL, "more than %d schemas apply at one place", MAX_CONJUNCTS);
  if (f->s->status != IJ_OK) return;
  ij__conjuncts_add(&f->todo, node, path, 0);
  if (f->todo.n > n) f->parents[n] = from;
}

static void apply_all_of(flattening *f, uint32_t from) {
  ij_conjunct c = f->todo.at[from];
  const ij_json_value *all = ij__json_member(c.node, "allOf"), *v;
  ij_json_iter it = {0};
  if (ij__json_type_of(all) != IJ_JSON_ARRAY) ij__schema_fail(f->s, IJ_E_ARGUMENT, c.path, "allOf", "expected a list of schemas");
  for (size_t i = 0; f->s->status == IJ_OK && ij__json_next(all, &it, NULL, NULL, &v); i++) {
    add_applied(f, from, v, ij__schema_path_at(f->s, c.path, "allOf", i));
  }
}

static void apply_ref(flattening *f, uint32_t from) {
  ij_conjunct c = f->todo.at[from];
  const ij_json_value *target = ij__schema_resolve(f->s, c.path, c.node);
  const char *text;
  size_t n;
  if (!target || !ij__json_get_string(ij__json_member(c.node, "$ref"), &text, &n)) return;
  add_applied(f, from, target, n < MAX_PATH ? keep_text(f->s, text) : c.path);
}

bool ij__schema_applies(const ij_json_value *node) {
  static const char *const words[] = {"$ref", "allOf", "anyOf", "oneOf"};
  for (size_t i = 0; i < IJ_COUNT_OF(words); i++) {
    if (ij__json_member(node, words[i])) return true;
  }
  return false;
}

/* unevaluatedProperties sees the properties of the schemas that its own schema applies, and no others. Those are not told apart later, so
 * there must be no others. */
static bool check_unevaluated(flattening *f, uint32_t index) {
  const ij_conjunct *c = &f->todo.at[index];
  if (c->did || !ij__json_member(c->node, "unevaluatedProperties") || !ij__schema_applies(c->node)) return true;
  for (uint32_t k = 0; k < f->todo.n; k++) {
    const ij_json_value *node = f->todo.at[k].node;
    uint32_t from = k;
    while (from != index && f->parents[from] != from) from = f->parents[from];
    bool lists = ij__json_member(node, "properties") || ij__json_member(node, "additionalProperties") || ij__json_member(node, "anyOf") ||
                 ij__json_member(node, "oneOf");
    if (from == index || !lists) continue;
    return ij__schema_fail(f->s, IJ_E_UNSUPPORTED, c->path, "unevaluatedProperties",
                           "it is understood here in the outermost of the schemas that describe an object; move it there");
  }
  return true;
}

/* Follows $ref and allOf until only other keywords are left to look at. */
static bool flatten(ij_schema *s, const ij_conjuncts *in, ij_conjuncts *out) {
  flattening f = {.s = s};
  if (in->n > MAX_CONJUNCTS) return ij__schema_fail(s, IJ_E_UNSUPPORTED, in->at[0].path, NULL, "more than %d schemas apply at one place",
                                                    MAX_CONJUNCTS);
  for (uint32_t i = 0; i < in->n; i++) {
    ij__conjuncts_add(&f.todo, in->at[i].node, in->at[i].path, in->at[i].did);
    f.parents[i] = i;
  }
  for (uint32_t i = 0; i < f.todo.n && s->status == IJ_OK; i++) {
    ij_conjunct c = f.todo.at[i];
    ij_json_type type = ij__json_type_of(c.node);
    if (type != IJ_JSON_OBJECT) {
      ij__schema_fail(s, IJ_E_ARGUMENT, c.path, NULL, "expected a schema (an object or a boolean), found %s", ij__json_type_name(type));
      break;
    }
    if (!check_keywords(s, &c)) break;
    if (ij__json_member(c.node, "$ref") && !(c.did & IJ_DID_REF)) apply_ref(&f, i);
    if (ij__json_member(c.node, "allOf") && !(c.did & IJ_DID_ALL)) apply_all_of(&f, i);
    c.did |= IJ_DID_REF | IJ_DID_ALL;
    if (says_more(&c)) ij__conjuncts_add(out, c.node, c.path, c.did);
  }
  for (uint32_t i = 0; i < f.todo.n && s->status == IJ_OK; i++) check_unevaluated(&f, i);
  out->never = in->never || f.todo.never;
  if (f.todo.failed || out->failed) ij__schema_nomem(s);
  free_list(&f.todo);
  return s->status == IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------- alternatives */

static bool check_one_of(ij_schema *s, const ij_conjunct *c, const ij_json_value *branches) {
  ij_json_iter i = {0};
  const ij_json_value *a, *b;
  size_t n_pairs = 0;
  for (size_t ia = 0; ij__json_next(branches, &i, NULL, NULL, &a); ia++) {
    ij_json_iter k = i;
    for (size_t ib = ia + 1; ij__json_next(branches, &k, NULL, NULL, &b); ib++) {
      if (++n_pairs > 20000) return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "oneOf", "too many branches; use anyOf");
      if (ij__schema_disjoint(s, a, b)) continue;
      if (s->status != IJ_OK) return false;
      return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "oneOf",
                             "branches %zu and %zu are not told apart by their types or by a required property with different constants; use anyOf", ia, ib);
    }
  }
  return true;
}

/* When some conjunct has alternatives that are still open: one rule per branch. */
static bool split_alternatives(ij_schema *s, const ij_conjuncts *list, ij_rule r, bool *did_split) {
  *did_split = false;
  for (uint32_t i = 0; i < list->n && !*did_split; i++) {
    const ij_conjunct *c = &list->at[i];
    unsigned flag = 0;
    const char *key = NULL;
    if (ij__json_member(c->node, "anyOf") && !(c->did & IJ_DID_ANY)) flag = IJ_DID_ANY, key = "anyOf";
    else if (ij__json_member(c->node, "oneOf") && !(c->did & IJ_DID_ONE)) flag = IJ_DID_ONE, key = "oneOf";
    if (!flag) continue;
    const ij_json_value *branches = ij__json_member(c->node, key), *v;
    ij_json_iter it = {0};
    if (ij__json_size(branches) == 0 || ij__json_type_of(branches) != IJ_JSON_ARRAY) {
      return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, key, "expected a list of schemas");
    }
    if (flag == IJ_DID_ONE && !check_one_of(s, c, branches)) return false;
    for (size_t b = 0; ij__json_next(branches, &it, NULL, NULL, &v) && s->status == IJ_OK; b++) {
      ij_conjuncts branch = {0};
      for (uint32_t k = 0; k < list->n; k++) {
        ij_conjunct o = list->at[k];
        if (k == i) o.did |= flag;
        if (says_more(&o)) ij__conjuncts_add(&branch, o.node, o.path, o.did);
      }
      ij__conjuncts_add(&branch, v, ij__schema_path_at(s, c->path, key, b), 0);
      if (!branch.never) ij__nfa_call(s->nfa, r.start, ij__schema_request(s, &branch), r.end);
      free_list(&branch);
    }
    *did_split = true;
  }
  return s->status == IJ_OK;
}

/* --------------------------------------------------------------------------------------------------- types and values */

static unsigned type_bit(const char *name, size_t n) {
  static const struct {
    const char *name;
    unsigned bits;
  } types[] = {{"null", IJ_T_NULL},     {"boolean", IJ_T_BOOL}, {"integer", IJ_T_INT},  {"number", IJ_T_INT | IJ_T_REAL},
               {"string", IJ_T_STRING}, {"array", IJ_T_ARRAY},  {"object", IJ_T_OBJECT}};
  for (size_t i = 0; i < IJ_COUNT_OF(types); i++) {
    if (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0) return types[i].bits;
  }
  return 0;
}

/* The bits of a `type` keyword; 0: not a type. */
static unsigned named_types(const ij_json_value *type) {
  const char *text;
  size_t n;
  unsigned bits = 0;
  ij_json_iter it = {0};
  const ij_json_value *v;
  if (ij__json_get_string(type, &text, &n)) return type_bit(text, n);
  if (ij__json_type_of(type) != IJ_JSON_ARRAY) return 0;
  while (ij__json_next(type, &it, NULL, NULL, &v)) {
    unsigned bit = ij__json_get_string(v, &text, &n) ? type_bit(text, n) : 0;
    if (!bit) return 0;
    bits |= bit;
  }
  return bits;
}

unsigned ij__schema_type_of(const ij_json_value *v) {
  double d;
  switch (ij__json_type_of(v)) {
    case IJ_JSON_NULL: return IJ_T_NULL;
    case IJ_JSON_BOOL: return IJ_T_BOOL;
    case IJ_JSON_INT: return IJ_T_INT;
    case IJ_JSON_REAL: return ij__json_get_double(v, &d) && d == floor(d) ? IJ_T_INT : IJ_T_REAL;
    case IJ_JSON_STRING: return IJ_T_STRING;
    case IJ_JSON_ARRAY: return IJ_T_ARRAY;
    case IJ_JSON_OBJECT: return IJ_T_OBJECT;
    default: return 0;
  }
}

unsigned ij__schema_types(const ij_json_value *node) {
  const ij_json_value *type = ij__json_member(node, "type"), *values = ij__json_member(node, "enum"), *constant = ij__json_member(node,
                                                                                          "const"), *v;
  ij_json_iter it = {0};
  unsigned bits = IJ_T_ALL, seen = 0;
  bool nullable = false;
  if (type) bits = named_types(type);
  if (type && ij__json_get_bool(ij__json_member(node, "nullable"), &nullable) && nullable) bits |= IJ_T_NULL;
  if (constant) bits &= ij__schema_type_of(constant);
  if (values) {
    while (ij__json_next(values, &it, NULL, NULL, &v)) seen |= ij__schema_type_of(v);
    bits &= seen;
  }
  return bits;
}

/* Keywords speak about one type each; without `type` they say which is meant. */
static unsigned implied_types(const ij_json_value *node) {
  static const struct {
    const char *key;
    unsigned bits;
  } words[] = {{"properties", IJ_T_OBJECT}, {"required", IJ_T_OBJECT},  {"additionalProperties", IJ_T_OBJECT},
               {"items", IJ_T_ARRAY},       {"prefixItems", IJ_T_ARRAY}, {"minItems", IJ_T_ARRAY},
               {"maxItems", IJ_T_ARRAY},    {"pattern", IJ_T_STRING},   {"format", IJ_T_STRING},
               {"minLength", IJ_T_STRING},  {"maxLength", IJ_T_STRING}, {"minimum", IJ_T_INT | IJ_T_REAL},
               {"maximum", IJ_T_INT | IJ_T_REAL}, {"exclusiveMinimum", IJ_T_INT | IJ_T_REAL},
               {"exclusiveMaximum", IJ_T_INT | IJ_T_REAL}, {"multipleOf", IJ_T_INT | IJ_T_REAL}};
  unsigned bits = 0;
  for (size_t i = 0; i < IJ_COUNT_OF(words); i++) {
    if (ij__json_member(node, words[i].key)) bits |= words[i].bits;
  }
  return bits;
}

static bool find_types(ij_schema *s, const ij_conjuncts *list, unsigned *types) {
  unsigned implied = 0;
  bool said = false, flag;
  *types = IJ_T_ALL;
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_conjunct *c = &list->at[i];
    const ij_json_value *type = ij__json_member(c->node, "type"), *nullable = ij__json_member(c->node, "nullable");
    if (type && !named_types(type)) {
      return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "type",
                             "expected the name of a type (null boolean integer number string array object) or a list of them");
    }
    if (nullable && !ij__json_get_bool(nullable, &flag)) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "nullable",
                                                                                "expected a boolean");
    if (type || ij__json_member(c->node, "enum") || ij__json_member(c->node, "const")) said = true;
    *types &= ij__schema_types(c->node);
    implied |= implied_types(c->node);
  }
  if (!said && implied) *types = implied;
  return true;
}

static bool number_literal(ij_schema *s, const ij_json_value *v, const char *path, uint32_t from, uint32_t to) {
  double d = 0;
  int64_t i;
  ij_buf text = {0};
  if (ij__json_get_int(v, &i)) {
    ij__buf_printf(&text, "%lld", (long long)i);
  } else if (!ij__json_get_double(v, &d) || fabs(d) >= 0x1p63) { /* it may have been an integer of which a double only holds a part */
    return ij__schema_fail(s, IJ_E_UNSUPPORTED, path, NULL, "a constant number beyond 64 bits");
  } else if (d == floor(d) && fabs(d) < 1e15) {
    ij__buf_printf(&text, "%.0f", d);
  } else {
    ij__json_put_double(&text, d);
  }
  if (text.failed) ij__schema_nomem(s);
  else ij__nfa_text(s->nfa, from, text.data, text.len, to);
  ij__buf_free(&text);
  return s->status == IJ_OK;
}

bool ij__schema_literal(ij_schema *s, const ij_json_value *v, const char *path, uint32_t from, uint32_t to) {
  double d;
  bool b;
  const char *bytes;
  size_t n;
  if (ij__json_get_string(v, &bytes, &n)) {
    ij__json_quoted(s->j, from, bytes, n, to);
  } else if (ij__json_get_double(v, &d)) {
    return number_literal(s, v, path, from, to);
  } else if (ij__json_get_bool(v, &b)) {
    ij__nfa_text(s->nfa, from, b ? "true" : "false", b ? 4 : 5, to);
  } else if (ij__json_type_of(v) == IJ_JSON_NULL) {
    ij__nfa_text(s->nfa, from, "null", 4, to);
  } else {
    bool object = ij__json_type_of(v) == IJ_JSON_OBJECT;
    ij_json_iter it = {0};
    const ij_json_value *child;
    const char *key;
    uint32_t at = ij__nfa_state(s->nfa);
    ij__nfa_text(s->nfa, from, object ? "{" : "[", 1, at);
    for (bool first = true; ij__json_next(v, &it, &key, &n, &child) && !s->nfa->too_large && !s->nfa->no_memory; first = false) {
      uint32_t begin = first ? at : ij__nfa_state(s->nfa), colon = begin, end = ij__nfa_state(s->nfa);
      if (!first) ij__nfa_text(s->nfa, at, ",", 1, begin);
      if (object) {
        uint32_t quoted = ij__nfa_state(s->nfa);
        colon = ij__nfa_state(s->nfa);
        ij__json_quoted(s->j, begin, key, n, quoted);
        ij__nfa_text(s->nfa, quoted, ":", 1, colon);
      }
      ij__schema_literal(s, child, path, colon, end);
      at = end;
    }
    ij__nfa_text(s->nfa, at, object ? "}" : "]", 1, to);
  }
  return s->status == IJ_OK;
}

/* --------------------------------------------------------------------------------------------------------------- rules */

static bool fill_types(ij_schema *s, const ij_conjuncts *list, unsigned types, ij_rule r) {
  if (types & IJ_T_NULL) ij__nfa_text(s->nfa, r.start, "null", 4, r.end);
  if (types & IJ_T_BOOL) {
    ij__nfa_text(s->nfa, r.start, "true", 4, r.end);
    ij__nfa_text(s->nfa, r.start, "false", 5, r.end);
  }
  if (types & (IJ_T_INT | IJ_T_REAL) && !ij__schema_number(s, list, !(types & IJ_T_REAL), r)) return false;
  if (types & IJ_T_STRING && !ij__schema_string(s, list, r)) return false;
  if (types & IJ_T_ARRAY && !ij__schema_array(s, list, r)) return false;
  return !(types & IJ_T_OBJECT) || ij__schema_object(s, list, r);
}

static bool fill_list(ij_schema *s, uint32_t index) {
  ij_conjuncts flat = {0}, in = s->lists[index]; /* the array may move while this one is worked on */
  ij_rule r = s->nfa->rules[in.rule];
  unsigned types;
  bool done = false;
  bool ok = flatten(s, &in, &flat) && (flat.never || split_alternatives(s, &flat, r, &done));
  if (ok && !done && !flat.never) {
    ok = find_types(s, &flat, &types) && ij__schema_values(s, &flat, types, r, &done);
    if (ok && !done) ok = fill_types(s, &flat, types, r);
  }
  free_list(&flat);
  return ok;
}

ij_status ij__schema_compile(ij_json_rules *j, const ij_json_value *schema, uint32_t *root, uint32_t *object_root, ij_err *err) {
  static const char only_object[] = "{\"type\":\"object\"}";
  ij_schema s = {.j = j, .nfa = j->nfa, .root = schema, .has_ids = has_ids_below(schema), .err = err};
  ij_json *doc = NULL;
  ij_conjuncts list = {0}, objects = {0};
  memset(s.buckets, 0xFF, sizeof s.buckets);
  s.status = ij__json_parse(&doc, only_object, sizeof only_object - 1, "#", err);
  if (s.status == IJ_OK) {
    ij__conjuncts_add(&list, schema, "#", 0);
    ij__conjuncts_add(&objects, schema, "#", 0);
    ij__conjuncts_add(&objects, ij__json_root(doc), "#", 0);
    *root = ij__schema_request(&s, &list);
    *object_root = ij__schema_request(&s, &objects);
  }
  for (uint32_t i = 0; i < s.n_lists && s.status == IJ_OK && !s.nfa->too_large && !s.nfa->no_memory; i++) fill_list(&s, i);
  for (uint32_t i = 0; i < s.n_lists; i++) ij__free(s.lists[i].at);
  for (uint32_t i = 0; i < s.n_texts; i++) ij__free(s.texts[i]);
  ij__free(s.lists);
  ij__free(s.texts);
  ij__free(list.at);
  ij__free(objects.at);
  ij__json_free(&doc);
  return s.status;
}
