/* json.c: see json.h. The parser is yyjson (third_party/README.md says why), which keeps all values of a document in one array in
 * document order: one pass over that array adds what the parser does not check, nesting and duplicate keys. */
#include "io/json.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/map.h"

#define yyjson_api
#include "yyjson/yyjson_unit.h"

#define MAX_BYTES ((size_t)1 << 28) /* values take up to 8 times this much, so the bound keeps a hostile file below 2 GiB + itself */
#define MAX_DEPTH 512
#define FEW_KEYS 8 /* objects up to this size are compared pair by pair */

/* The parser's inline functions only read, but take pointers without const. */
static yyjson_val *val_of(const ij_json_value *v) { return (yyjson_val *)(uintptr_t)v; }
static const ij_json_value *value_of(const yyjson_val *v) { return (const ij_json_value *)(const void *)v; }
static yyjson_doc *doc_of(ij_json *d) { return (yyjson_doc *)(void *)d; }

/* --- errors */

void ij__json_show(char *out, size_t size, const char *bytes, size_t n) {
  size_t len = 0, room = size - 6; /* two quotes, "...", NUL */
  out[len++] = '"';
  size_t i = 0;
  for (; i < n && len <= room; i++) {
    unsigned char c = (unsigned char)bytes[i];
    out[len++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
  }
  if (i < n) {
    while (len > 1 && ((unsigned char)bytes[i] & 0xC0) == 0x80) i--, len--; /* do not cut inside a character */
    memcpy(out + len, "...", 3);
    len += 3;
  }
  out[len++] = '"';
  out[len] = 0;
}

typedef struct json_source {
  const char *bytes;
  size_t n;
  const char *where;
} json_source;

static ij_status fail_at(const json_source *src, size_t pos, ij_err *err, const char *what) {
  size_t line = 0, column = 0;
  if (!ij__yyjson_locate(src->bytes, src->n, pos, &line, &column)) return ij__fail(err, IJ_E_FORMAT, src->where, "not valid JSON: %s", what);
  return ij__fail(err, IJ_E_FORMAT, src->where, "line %zu, column %zu: not valid JSON: %s", line, column, what);
}

/* --- the checks on top of the parser */

/* The byte at which nesting first exceeds MAX_DEPTH. Only called on documents that the parser has accepted. */
static size_t find_too_deep(const json_source *src) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < src->n; i++) {
    char c = src->bytes[i];
    if (in_string) {
      if (c == '\\') i++;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > MAX_DEPTH) return i;
    } else if (c == ']' || c == '}') {
      depth--;
    }
  }
  return src->n;
}

/* A hash set of the keys of one object, reused from object to object. A slot holds the key's place in the value array, which is
 * never 0 (the root is no key). */
typedef struct key_set {
  struct key_slot {
    uint32_t hash, place;
  } *slots;
  size_t cap;
  yyjson_val *base;
} key_set;

static bool same_key(yyjson_val *a, yyjson_val *b) {
  return unsafe_yyjson_get_len(a) == unsafe_yyjson_get_len(b) && memcmp(a->uni.str, b->uni.str, unsafe_yyjson_get_len(a)) == 0;
}

/* Empties the set and makes room for n keys at a load of at most one half. */
static bool key_set_reset(key_set *set, size_t n, size_t *mask) {
  size_t want = 4 * FEW_KEYS;
  while (want < 2 * n) want *= 2; /* n < MAX_BYTES: cannot overflow */
  if (want > set->cap) {
    ij__free(set->slots);
    set->slots = ij__alloc_array(want, sizeof *set->slots);
    set->cap = set->slots ? want : 0;
    if (!set->slots) return false;
  }
  memset(set->slots, 0, want * sizeof *set->slots);
  *mask = want - 1;
  return true;
}

/* Adds a key; returns false when an equal one is there. */
static bool key_set_add(key_set *set, size_t mask, yyjson_val *key) {
  /* The seed is an address, so that a file cannot be made in advance whose keys all fall together. */
  uint32_t hash = (uint32_t)ij__hash_bytes(key->uni.str, unsafe_yyjson_get_len(key), (uintptr_t)set->base);
  size_t i = hash & mask;
  for (; set->slots[i].place; i = (i + 1) & mask) {
    if (set->slots[i].hash == hash && same_key(set->base + set->slots[i].place, key)) return false;
  }
  set->slots[i] = (struct key_slot){hash, (uint32_t)(key - set->base)};
  return true;
}

/* The second of two equal keys in an object, or NULL. *ok is false when there was no memory. */
static yyjson_val *find_duplicate(yyjson_val *object, key_set *set, bool *ok) {
  size_t n = unsafe_yyjson_get_len(object), mask = 0;
  if (n > FEW_KEYS && !(*ok = key_set_reset(set, n, &mask))) return NULL;
  yyjson_val *first = object + 1, *key = first;
  for (size_t i = 0; i < n; i++, key = unsafe_yyjson_get_next(key + 1)) {
    if (n > FEW_KEYS) {
      if (!key_set_add(set, mask, key)) return key;
      continue;
    }
    for (yyjson_val *other = first; other != key; other = unsafe_yyjson_get_next(other + 1)) {
      if (same_key(other, key)) return key;
    }
  }
  return NULL;
}

static ij_status fail_duplicate(const json_source *src, const yyjson_doc *doc, yyjson_val *key, ij_err *err) {
  char name[100], text[160];
  ij__json_show(name, sizeof name, key->uni.str, unsafe_yyjson_get_len(key));
  snprintf(text, sizeof text, "the key %s occurs twice in one object", name);
  /* Strings lie in the parser's copy of the input at the place where they were read. */
  return fail_at(src, (size_t)(key->uni.str - doc->str_pool), err, text);
}

/* One pass over all values: nesting at most MAX_DEPTH, and unless `exact` no key twice in an object. */
static ij_status check_values(const json_source *src, const yyjson_doc *doc, bool exact, ij_err *err) {
  yyjson_val *ends[MAX_DEPTH], *base = doc->root;
  size_t depth = 0;
  key_set set = {.base = base};
  ij_status s = IJ_OK;
  for (yyjson_val *v = base; s == IJ_OK && v < base + doc->val_read; v++) {
    while (depth > 0 && v >= ends[depth - 1]) depth--;
    if (!unsafe_yyjson_is_ctn(v)) continue;
    if (depth == MAX_DEPTH) {
      s = fail_at(src, find_too_deep(src), err, "arrays and objects are nested more than 512 deep");
      break;
    }
    ends[depth++] = unsafe_yyjson_get_next(v);
    if (exact || unsafe_yyjson_get_type(v) != YYJSON_TYPE_OBJ) continue;
    bool ok = true;
    yyjson_val *twice = find_duplicate(v, &set, &ok);
    if (!ok) s = ij__fail_nomem(err, src->where, 0);
    else if (twice) s = fail_duplicate(src, doc, twice, err);
  }
  ij__free(set.slots);
  return s;
}

/* --- parsing */

static void *alc_malloc(void *ctx, size_t size) { return (void)ctx, ij__alloc(size); }
/* The parser ends by giving back the unused tail of its array, pages that were never touched: not worth a copy of the rest. */
static void *alc_realloc(void *ctx, void *p, size_t old_size, size_t size) {
  (void)ctx;
  return size <= old_size ? p : ij__realloc(p, size);
}
static void alc_free(void *ctx, void *p) { (void)ctx, ij__free(p); }

static ij_status parse(ij_json **out, const char *bytes, size_t n, bool exact, const char *where, ij_err *err) {
  static const yyjson_alc alc = {alc_malloc, alc_realloc, alc_free, NULL};
  const json_source src = {bytes, n, where};
  *out = NULL;
  if (n > MAX_BYTES) return ij__fail(err, IJ_E_FORMAT, where, "%zu bytes of JSON; at most %zu are accepted", n, MAX_BYTES);
  if (n == 0) return ij__fail(err, IJ_E_FORMAT, where, "expected JSON, found nothing (the file is empty)");
  yyjson_read_err why = {0};
  yyjson_doc *doc = ij__yyjson_read(bytes, n, exact, &alc, &why);
  if (!doc && why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return ij__fail_nomem(err, where, n);
  if (!doc) return fail_at(&src, why.pos, err, why.msg);
  ij_status s = check_values(&src, doc, exact, err);
  if (s != IJ_OK) {
    yyjson_doc_free(doc);
    return s;
  }
  *out = (ij_json *)(void *)doc;
  return IJ_OK;
}

size_t ij__json_cost(const char *bytes, size_t n) {
  const size_t of_value = 2 * sizeof(yyjson_val); /* lists grow by half, and move as they do */
  size_t n_marks = 1;
  for (size_t i = 0; i < n; i++) n_marks += bytes[i] == ',' || bytes[i] == ':' || bytes[i] == '[' || bytes[i] == '{';
  return n + n_marks * of_value; /* n is bounded by what is in memory: less than 2^58 */
}

ij_status ij__json_parse(ij_json **out, const char *bytes, size_t n, const char *where, ij_err *err) {
  return parse(out, bytes, n, false, where, err);
}

ij_status ij__json_parse_exact(ij_json **out, const char *bytes, size_t n, const char *where, ij_err *err) {
  return parse(out, bytes, n, true, where, err);
}

void ij__json_free(ij_json **doc) {
  if (*doc) yyjson_doc_free(doc_of(*doc));
  *doc = NULL;
}

const ij_json_value *ij__json_root(const ij_json *doc) { return doc ? value_of(((const yyjson_doc *)(const void *)doc)->root) : NULL; }

/* --- reading */

/* A number that was kept as text. False: it has a point or an exponent, or is outside of int64. */
static bool raw_int(yyjson_val *v, int64_t *out) {
  const char *text = v->uni.str;
  size_t n = unsafe_yyjson_get_len(v), i = text[0] == '-';
  uint64_t value = 0, limit = i ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
  for (; i < n; i++) {
    unsigned digit = (unsigned)(unsigned char)text[i] - '0';
    if (digit > 9 || value > (limit - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out = text[0] == '-' ? (int64_t)(0 - value) : (int64_t)value;
  return true;
}

ij_json_type ij__json_type_of(const ij_json_value *value) {
  yyjson_val *v = val_of(value);
  if (!v) return IJ_JSON_NONE;
  switch (unsafe_yyjson_get_type(v)) {
    case YYJSON_TYPE_NULL: return IJ_JSON_NULL;
    case YYJSON_TYPE_BOOL: return IJ_JSON_BOOL;
    case YYJSON_TYPE_STR: return IJ_JSON_STRING;
    case YYJSON_TYPE_ARR: return IJ_JSON_ARRAY;
    case YYJSON_TYPE_OBJ: return IJ_JSON_OBJECT;
    case YYJSON_TYPE_RAW: return raw_int(v, &(int64_t){0}) ? IJ_JSON_INT : IJ_JSON_REAL;
    case YYJSON_TYPE_NUM:
      if (unsafe_yyjson_is_real(v)) return IJ_JSON_REAL;
      return unsafe_yyjson_is_uint(v) && v->uni.u64 > INT64_MAX ? IJ_JSON_REAL : IJ_JSON_INT;
    default: return IJ_JSON_NONE;
  }
}

const char *ij__json_type_name(ij_json_type t) {
  static const char *const names[] = {"nothing", "null",     "a boolean", "an integer",
                                      "a number", "a string", "an array",  "an object"};
  return names[t];
}

bool ij__json_get_bool(const ij_json_value *v, bool *out) {
  if (ij__json_type_of(v) != IJ_JSON_BOOL) return false;
  *out = unsafe_yyjson_get_bool(val_of(v));
  return true;
}

bool ij__json_get_int(const ij_json_value *v, int64_t *out) {
  if (v && unsafe_yyjson_get_type(val_of(v)) == YYJSON_TYPE_RAW) return raw_int(val_of(v), out);
  if (ij__json_type_of(v) != IJ_JSON_INT) return false;
  *out = val_of(v)->uni.i64;
  return true;
}

bool ij__json_get_double(const ij_json_value *value, double *out) {
  yyjson_val *v = val_of(value);
  if (v && unsafe_yyjson_get_type(v) == YYJSON_TYPE_RAW) return ij__json_read_double(v->uni.str, unsafe_yyjson_get_len(v), out);
  if (!v || unsafe_yyjson_get_type(v) != YYJSON_TYPE_NUM) return false;
  if (unsafe_yyjson_is_real(v)) *out = v->uni.f64;
  else *out = unsafe_yyjson_is_uint(v) ? (double)v->uni.u64 : (double)v->uni.i64;
  return true;
}

bool ij__json_get_string(const ij_json_value *v, const char **bytes, size_t *n) {
  if (ij__json_type_of(v) != IJ_JSON_STRING) return false;
  *bytes = val_of(v)->uni.str;
  *n = unsafe_yyjson_get_len(val_of(v));
  return true;
}

bool ij__json_is(const ij_json_value *v, const char *text) {
  const char *bytes;
  size_t n;
  return ij__json_get_string(v, &bytes, &n) && n == strlen(text) && memcmp(bytes, text, n) == 0;
}

bool ij__json_get_number(const ij_json_value *v, const char **text, size_t *n) {
  if (!v || unsafe_yyjson_get_type(val_of(v)) != YYJSON_TYPE_RAW) return false;
  *text = val_of(v)->uni.str;
  *n = unsafe_yyjson_get_len(val_of(v));
  return true;
}

bool ij__json_read_double(const char *text, size_t n, double *out) {
  char small[64], *copy = n < sizeof small ? small : ij__alloc(n + 1);
  if (!copy) return false;
  memcpy(copy, text, n);
  copy[n] = 0;
  bool ok = ij__yyjson_number(copy, out);
  if (copy != small) ij__free(copy);
  return ok;
}

/* The last of equal keys; in a document without any it makes no difference which. */
const ij_json_value *ij__json_member(const ij_json_value *object, const char *key) {
  const ij_json_value *found = NULL, *value;
  ij_json_iter it = {0};
  const char *name;
  size_t n = strlen(key), len;
  if (ij__json_type_of(object) != IJ_JSON_OBJECT) return NULL;
  while (ij__json_next(object, &it, &name, &len, &value)) {
    if (len == n && memcmp(name, key, n) == 0) found = value;
  }
  return found;
}

size_t ij__json_size(const ij_json_value *v) {
  return v && unsafe_yyjson_is_ctn(val_of(v)) ? unsafe_yyjson_get_len(val_of(v)) : 0;
}

bool ij__json_next(const ij_json_value *container, ij_json_iter *it, const char **key, size_t *key_len, const ij_json_value **value) {
  if (it->index >= ij__json_size(container)) return false;
  yyjson_val *at = it->at ? val_of(it->at) : val_of(container) + 1;
  const char *name = NULL;
  size_t len = 0;
  if (unsafe_yyjson_get_type(val_of(container)) == YYJSON_TYPE_OBJ) {
    name = at->uni.str;
    len = unsafe_yyjson_get_len(at);
    at++;
  }
  if (key) *key = name;
  if (key_len) *key_len = len;
  if (value) *value = value_of(at);
  it->at = unsafe_yyjson_get_next(at);
  it->index++;
  return true;
}
