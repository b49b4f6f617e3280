/* tok_gguf.c: the tokenizer in the keys of a GGUF file: tokens in byte-level spelling, their types, merges.
 *
 * The keys can describe many tokenizers, and name what they do not spell out (`tokenizer.ggml.pre` stands for the expression that cuts
 * text). Only what this folder implements is accepted, and the first key that differs is named.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/alloc.h"
#include "io/json.h"
#include "text/tok_int.h"

#define PREFIX "tokenizer.ggml."

/* Values of token_type. UNUSED fills up the rows of the embedding that no token has; the other two belong to other tokenizers. */
typedef enum token_type { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 } token_type;

typedef struct gguf_reader {
  ij_tok *t;
  const ij_gguf *g;
  ij_tok_spelling spelling;
  unsigned char *scratch;
  ij_err *err;
} gguf_reader;

static ij_status fail_key(const gguf_reader *r, ij_status code, const char *key, const char *expected, const char *found) {
  char where[512];
  snprintf(where, sizeof where, "%.400s: %.100s", r->g->path, key);
  return ij__fail(r->err, code, where, "expected %s, found %s%s", expected, found,
                  code == IJ_E_UNSUPPORTED ? "; this tokenizer is not the one of this family" : "");
}

/* What kind of value this is, for a message. */
static const char *kind_of(const ij_gguf_value *v, char room[40]) {
  if (!v) return "nothing";
  snprintf(room, 40, "%s%s", v->is_array ? "an array of " : "one value of type ", ij__gguf_type_name(v->type));
  return room;
}

/* --- the settings around the vocabulary */

static ij_status check_word(const gguf_reader *r, const char *key, const char *want, const char *expected) {
  const ij_gguf_value *v = ij__gguf_find(r->g, key);
  char room[40], shown[80];
  const char *s;
  size_t n;
  if (!v || v->is_array || !ij__gguf_string(r->g, v, 0, &s, &n)) return fail_key(r, IJ_E_FORMAT, key, "a string", kind_of(v, room));
  if (n == strlen(want) && memcmp(s, want, n) == 0) return IJ_OK;
  ij__json_show(shown, sizeof shown, s, n);
  return fail_key(r, IJ_E_UNSUPPORTED, key, expected, shown);
}

/* Each would put tokens or characters where this family has none. */
static ij_status check_flags(const gguf_reader *r) {
  static const char *const flags[] = {PREFIX "add_bos_token", PREFIX "add_eos_token", PREFIX "add_sep_token", PREFIX "add_space_prefix",
                                      PREFIX "remove_extra_whitespaces"};
  for (size_t i = 0; i < IJ_COUNT_OF(flags); i++) {
    const ij_gguf_value *v = ij__gguf_find(r->g, flags[i]);
    char room[40];
    int64_t n;
    if (!v) continue;
    bool ok = !v->is_array && v->type == IJ_GGUF_BOOL && ij__gguf_int(v, 0, &n);
    if (!ok) return fail_key(r, IJ_E_FORMAT, flags[i], "a bool", kind_of(v, room));
    if (n) return fail_key(r, IJ_E_UNSUPPORTED, flags[i], "false or none", "true");
  }
  return IJ_OK;
}

static ij_status check_settings(const gguf_reader *r) {
  ij_status s = check_word(r, PREFIX "model", "gpt2", "\"gpt2\" (byte-level BPE)");
  if (s == IJ_OK) s = check_word(r, PREFIX "pre", "inkling", "\"inkling\" (the o200k expression with marks as part of words)");
  return s == IJ_OK ? check_flags(r) : s;
}

/* --- tokens */

static ij_status get_array(const gguf_reader *r, const char *key, ij_gguf_type type, const ij_gguf_value **out) {
  const ij_gguf_value *v = ij__gguf_find(r->g, key);
  char expected[40], room[40];
  int64_t n;
  bool ok = v && v->is_array && (type == IJ_GGUF_STRING ? v->type == type : v->n == 0 || ij__gguf_int(v, 0, &n));
  *out = v;
  if (ok) return IJ_OK;
  snprintf(expected, sizeof expected, "an array of %s", type == IJ_GGUF_STRING ? "strings" : "integers");
  return fail_key(r, IJ_E_FORMAT, key, expected, kind_of(v, room));
}

static ij_status fail_token(const gguf_reader *r, int64_t id, const char *text, size_t n, int64_t type) {
  char where[512], shown[120];
  snprintf(where, sizeof where, "%.400s: " PREFIX "tokens[%" PRId64 "]", r->g->path, id);
  ij__json_show(shown, sizeof shown, text, n);
  if (type == NORMAL) return ij__fail(r->err, IJ_E_FORMAT, where, "%s is of type normal, but not in byte-level spelling", shown);
  return ij__fail(r->err, IJ_E_UNSUPPORTED, where, "%s is of type %" PRId64 "; expected 1 (normal), 3 (control), 4 (user-defined) or 5 "
                  "(unused)", shown, type);
}

static ij_status read_token(const gguf_reader *r, int64_t id, const char *text, size_t n, int64_t type) {
  const unsigned char *bytes = (const unsigned char *)text;
  if (type == UNUSED) return IJ_OK;
  if (type == CONTROL) return ij__tok_add(r->t, id, IJ_TOK_SPECIAL, bytes, n, r->g->path, r->err);
  if (type == USER_DEFINED) return ij__tok_add(r->t, id, IJ_TOK_ADDED, bytes, n, r->g->path, r->err);
  int64_t len = type == NORMAL ? ij__tok_unspell(&r->spelling, text, n, r->scratch) : -1;
  if (len < 0) return fail_token(r, id, text, n, type);
  return ij__tok_add(r->t, id, IJ_TOK_ORDINARY, r->scratch, (size_t)len, r->g->path, r->err);
}

static ij_status read_tokens(const gguf_reader *r, const ij_gguf_value *tokens, const ij_gguf_value *types) {
  ij_status status = IJ_OK;
  if (tokens->n != types->n) {
    return ij__fail(r->err, IJ_E_FORMAT, r->g->path, PREFIX "token_type: expected as many entries as there are tokens, %" PRId64
                    ", found %" PRId64, tokens->n, types->n);
  }
  for (int64_t id = 0; status == IJ_OK && id < tokens->n; id++) {
    const char *text = "";
    size_t n = 0;
    int64_t type = -1;
    if (ij__gguf_string(r->g, tokens, id, &text, &n) && ij__gguf_int(types, id, &type)) status = read_token(r, id, text, n, type);
    else status = fail_token(r, id, text, n, type);
  }
  return status;
}

/* The ids that stand for beginning and end: never put before or after text here, but a file that gives ids it does not have is damaged. */
static ij_status check_ids(const gguf_reader *r, int64_t n_tokens) {
  static const char *const keys[] = {PREFIX "bos_token_id", PREFIX "eos_token_id", PREFIX "eot_token_id", PREFIX "padding_token_id"};
  for (size_t i = 0; i < IJ_COUNT_OF(keys); i++) {
    const ij_gguf_value *v = ij__gguf_find(r->g, keys[i]);
    char room[40], expected[60], found[24];
    int64_t id;
    if (!v) continue;
    if (v->is_array || !ij__gguf_int(v, 0, &id)) return fail_key(r, IJ_E_FORMAT, keys[i], "an integer", kind_of(v, room));
    if (id >= 0 && id < n_tokens) continue;
    snprintf(expected, sizeof expected, "0 to %" PRId64 ", the last token", n_tokens - 1);
    snprintf(found, sizeof found, "%" PRId64, id);
    return fail_key(r, IJ_E_FORMAT, keys[i], expected, found);
  }
  return IJ_OK;
}

/* --- merges */

typedef struct merge_iter {
  const ij_gguf *g;
  const ij_gguf_value *list;
  int64_t at;
} merge_iter;

static bool next_merge(void *user, ij_tok_merge *out) {
  merge_iter *m = user;
  const char *text;
  size_t n;
  return ij__gguf_string(m->g, m->list, m->at++, &text, &n) && ij__tok_merge_halves(text, n, out);
}

static ij_status read_merges(const gguf_reader *r, const ij_gguf_value *list) {
  merge_iter it = {r->g, list, 0};
  ij_tok_merges m = {(size_t)list->n, next_merge, &it, PREFIX "merges", "expected \"left right\""};
  return ij__tok_read_merges(r->t, &m, &r->spelling, r->scratch, r->g->path, r->err);
}

/* Bytes of all strings of an array together with their lengths: more than unspelled they can have. */
static size_t strings_bytes(const ij_gguf *g, const ij_gguf_value *v) {
  const char *text;
  size_t n;
  if (!ij__gguf_string(g, v, v->n - 1, &text, &n)) return 0;
  return (size_t)(text + n - (const char *)v->data);
}

static ij_status read_all(gguf_reader *r) {
  const ij_gguf_value *tokens, *types, *merges;
  ij_status s = check_settings(r);
  if (s == IJ_OK) s = get_array(r, PREFIX "tokens", IJ_GGUF_STRING, &tokens);
  if (s == IJ_OK) s = get_array(r, PREFIX "token_type", IJ_GGUF_I32, &types);
  if (s == IJ_OK) s = get_array(r, PREFIX "merges", IJ_GGUF_STRING, &merges);
  if (s == IJ_OK) s = check_ids(r, tokens->n);
  if (s != IJ_OK) return s;
  size_t n_tokens = strings_bytes(r->g, tokens), n_merges = strings_bytes(r->g, merges), n = IJ_MAX(n_tokens, n_merges);
  r->scratch = ij__alloc(n);
  if (!r->scratch) return ij__fail_nomem(r->err, r->g->path, n);
  s = read_tokens(r, tokens, types);
  if (s == IJ_OK) s = ij__tok_index(r->t, r->g->path, r->err);
  if (s == IJ_OK) s = read_merges(r, merges);
  if (s == IJ_OK) s = ij__tok_whole_by_merging(r->t, r->g->path, r->err);
  ij__free(r->scratch);
  return s;
}

ij_status ij__tok_read_gguf(ij_tok *t, const ij_gguf *g, ij_err *err) {
  gguf_reader r = {.t = t, .g = g, .err = err};
  ij__tok_spelling_init(&r.spelling);
  return read_all(&r);
}

bool ij__tok_in_gguf(const ij_gguf *g) { return ij__gguf_find(g, PREFIX "model") || ij__gguf_find(g, PREFIX "tokens"); }
