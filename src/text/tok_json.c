/* tok_json.c: the tokenizer.json form: vocabulary, merges, added tokens, and the pipeline around them.
 *
 * A tokenizer.json can describe many tokenizers. Only the one this folder implements is accepted; every setting that would change an
 * id is compared, and the first that differs is named, so that a wrong answer is never given quietly.
 */
#include <stdio.h>

#include "core/alloc.h"
#include "io/json.h"
#include "text/split.h"
#include "text/tok_int.h"

typedef struct json_reader {
  ij_tok *t;
  const char *path;
  const ij_json_value *root, *model;
  ij_tok_spelling spelling;
  unsigned char *scratch;  /* as long as the file: spelled text is at least as long as its bytes */
  ij_err *err;
} json_reader;

static ij_status unsupported(const json_reader *r, const char *field, const char *expected, const char *found) {
  char where[512];
  snprintf(where, sizeof where, "%.400s: %.100s", r->path, field);
  return ij__fail(r->err, IJ_E_UNSUPPORTED, where, "expected %s, found %s; this tokenizer is not the one of this family", expected, found);
}

static ij_status malformed(const json_reader *r, const char *field, const char *expected, const ij_json_value *found) {
  char where[512];
  snprintf(where, sizeof where, "%.400s: %.100s", r->path, field);
  return ij__fail(r->err, IJ_E_FORMAT, where, "expected %s, found %s", expected, ij__json_type_name(ij__json_type_of(found)));
}

/* ------------------------------------------------------------------------------------------- the pipeline around the model */

static bool is_nothing(const ij_json_value *v) {
  ij_json_type type = ij__json_type_of(v);
  return type == IJ_JSON_NONE || type == IJ_JSON_NULL;
}

static bool has_type(const ij_json_value *v, const char *type) { return ij__json_is(ij__json_member(v, "type"), type); }

static bool is_false(const ij_json_value *v, bool when_absent) {
  bool b;
  if (is_nothing(v)) return when_absent;
  return ij__json_get_bool(v, &b) && !b;
}

/* A value for a message: its text when it is a string, its "type" when it is an object, else what kind of value it is. */
static const char *describe(const ij_json_value *v) {
  const char *s;
  size_t n;
  if (ij__json_get_string(v, &s, &n) || ij__json_get_string(ij__json_member(v, "type"), &s, &n)) return s;
  return ij__json_type_name(ij__json_type_of(v));
}

static const ij_json_value *element(const ij_json_value *array, size_t index) {
  ij_json_iter it = {0};
  const char *key;
  size_t key_len;
  const ij_json_value *v = NULL;
  for (size_t i = 0; i <= index; i++) {
    if (!ij__json_next(array, &it, &key, &key_len, &v)) return NULL;
  }
  return v;
}

static ij_status check_pre_tokenizer(const json_reader *r) {
  const ij_json_value *pre = ij__json_member(r->root, "pre_tokenizer"), *steps = ij__json_member(pre, "pretokenizers");
  if (!has_type(pre, "Sequence") || ij__json_size(steps) != 2) {
    return unsupported(r, "pre_tokenizer", "a Sequence of Split and ByteLevel", describe(pre));
  }
  const ij_json_value *split = element(steps, 0), *bytes = element(steps, 1);
  if (!has_type(split, "Split")) return unsupported(r, "pre_tokenizer.pretokenizers[0]", "Split", describe(split));
  const ij_json_value *regex = ij__json_member(ij__json_member(split, "pattern"), "Regex");
  if (!ij__json_is(regex, ij__split_expression)) {
    return unsupported(r, "pre_tokenizer Split pattern", ij__split_expression, describe(regex));
  }
  const ij_json_value *behavior = ij__json_member(split, "behavior");
  if (!ij__json_is(behavior, "Isolated")) return unsupported(r, "pre_tokenizer Split behavior", "Isolated", describe(behavior));
  if (!is_false(ij__json_member(split, "invert"), true)) return unsupported(r, "pre_tokenizer Split invert", "false", "another value");
  if (!has_type(bytes, "ByteLevel")) return unsupported(r, "pre_tokenizer.pretokenizers[1]", "ByteLevel", describe(bytes));
  if (!is_false(ij__json_member(bytes, "add_prefix_space"), false)) {
    return unsupported(r, "pre_tokenizer ByteLevel add_prefix_space", "false", "another value or none");
  }
  if (!is_false(ij__json_member(bytes, "use_regex"), false)) {
    return unsupported(r, "pre_tokenizer ByteLevel use_regex", "false", "another value or none");
  }
  return IJ_OK;
}

static bool is_null_or_empty(const ij_json_value *v) { return is_nothing(v) || ij__json_is(v, ""); }

static ij_status check_model(const json_reader *r) {
  const ij_json_value *m = r->model, *type = ij__json_member(m, "type");
  if (ij__json_type_of(m) != IJ_JSON_OBJECT) return malformed(r, "model", "an object", m);
  if (!is_nothing(type) && !ij__json_is(type, "BPE")) return unsupported(r, "model.type", "BPE", describe(type));
  if (!is_false(ij__json_member(m, "byte_fallback"), true)) return unsupported(r, "model.byte_fallback", "false", "another value");
  double dropout = 0;
  const ij_json_value *d = ij__json_member(m, "dropout");
  if (!is_nothing(d) && !(ij__json_get_double(d, &dropout) && dropout == 0)) {
    return unsupported(r, "model.dropout", "null", "another value");
  }
  static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  for (size_t i = 0; i < IJ_COUNT_OF(affixes); i++) {
    const ij_json_value *v = ij__json_member(m, affixes[i]);
    if (!is_null_or_empty(v)) return unsupported(r, affixes[i], "null", describe(v));
  }
  return IJ_OK;
}

/* Post-processors that add no token: none, ByteLevel, and a template without special tokens. */
static bool adds_no_tokens(const ij_json_value *post) {
  if (is_nothing(post) || has_type(post, "ByteLevel")) return true;
  return has_type(post, "TemplateProcessing") && ij__json_size(ij__json_member(post, "special_tokens")) == 0;
}

static ij_status check_pipeline(const json_reader *r) {
  const ij_json_value *normalizer = ij__json_member(r->root, "normalizer"), *decoder = ij__json_member(r->root, "decoder");
  const ij_json_value *post = ij__json_member(r->root, "post_processor");
  if (!is_nothing(normalizer)) return unsupported(r, "normalizer", "null", describe(normalizer));
  if (!has_type(decoder, "ByteLevel")) return unsupported(r, "decoder", "ByteLevel", describe(decoder));
  if (!adds_no_tokens(post)) return unsupported(r, "post_processor", "one that adds no tokens", describe(post));
  ij_status status = check_pre_tokenizer(r);
  return status == IJ_OK ? check_model(r) : status;
}

/* ----------------------------------------------------------------------------------------------------------------- tokens */

static ij_status read_added_token(const json_reader *r, const ij_json_value *token) {
  int64_t id = 0;
  const char *content;
  size_t n;
  bool special = false;
  if (!ij__json_get_int(ij__json_member(token, "id"), &id)) {
    return malformed(r, "added_tokens id", "an integer", ij__json_member(token, "id"));
  }
  if (!ij__json_get_string(ij__json_member(token, "content"), &content, &n)) {
    return malformed(r, "added_tokens content", "a string", ij__json_member(token, "content"));
  }
  if (!ij__json_get_bool(ij__json_member(token, "special"), &special)) {
    return malformed(r, "added_tokens special", "true or false", ij__json_member(token, "special"));
  }
  static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
  for (size_t i = 0; i < IJ_COUNT_OF(flags); i++) {
    if (!is_false(ij__json_member(token, flags[i]), true)) return unsupported(r, flags[i], "false for every added token", content);
  }
  return ij__tok_add(r->t, id, special ? IJ_TOK_SPECIAL : IJ_TOK_ADDED, (const unsigned char *)content, n, r->path, r->err);
}

static ij_status read_added_tokens(const json_reader *r) {
  const ij_json_value *tokens = ij__json_member(r->root, "added_tokens"), *token;
  if (is_nothing(tokens)) return IJ_OK;
  if (ij__json_type_of(tokens) != IJ_JSON_ARRAY) return malformed(r, "added_tokens", "an array", tokens);
  ij_json_iter it = {0};
  const char *key;
  size_t key_len;
  ij_status status = IJ_OK;
  while (status == IJ_OK && ij__json_next(tokens, &it, &key, &key_len, &token)) status = read_added_token(r, token);
  return status;
}

/* Whether the vocabulary's entry repeats an added token, as files do that list both. */
static bool repeats_added(const ij_tok *t, int64_t id, const char *text, size_t n) {
  if (id < 0 || id >= t->n_ids || t->kinds[id] < IJ_TOK_ADDED) return false;
  return t->entries[id].len == n && memcmp(t->blob + t->entries[id].offset, text, n) == 0;
}

static ij_status read_vocabulary(const json_reader *r) {
  const ij_json_value *vocab = ij__json_member(r->model, "vocab"), *value;
  if (ij__json_type_of(vocab) != IJ_JSON_OBJECT) return malformed(r, "model.vocab", "an object", vocab);
  ij_json_iter it = {0};
  const char *key;
  size_t key_len;
  while (ij__json_next(vocab, &it, &key, &key_len, &value)) {
    int64_t id = 0;
    if (!ij__json_get_int(value, &id)) return malformed(r, "model.vocab", "integers as ids", value);
    if (repeats_added(r->t, id, key, key_len)) continue;
    int64_t n = ij__tok_unspell(&r->spelling, key, key_len, r->scratch);
    if (n < 0) {
      return ij__fail(r->err, IJ_E_FORMAT, r->path, "token %lld \"%.100s\" is not in byte-level spelling and is no added token",
                      (long long)id, key);
    }
    ij_status status = ij__tok_add(r->t, id, IJ_TOK_ORDINARY, r->scratch, (size_t)n, r->path, r->err);
    if (status != IJ_OK) return status;
  }
  return IJ_OK;
}

/* ----------------------------------------------------------------------------------------------------------------- merges */

typedef struct merge_iter {
  const ij_json_value *list;
  ij_json_iter it;
} merge_iter;

/* The two sides of a merge: "left right", or ["left", "right"]. No spelled token holds a space. */
static bool next_merge(void *user, ij_tok_merge *out) {
  merge_iter *m = user;
  const char *key, *text;
  size_t key_len, n;
  const ij_json_value *v = NULL, *a = NULL, *b = NULL;
  if (!ij__json_next(m->list, &m->it, &key, &key_len, &v)) return false;
  if (ij__json_get_string(v, &text, &n)) return ij__tok_merge_halves(text, n, out);
  if (ij__json_size(v) != 2) return false;
  ij_json_iter it = {0};
  return ij__json_next(v, &it, &key, &key_len, &a) && ij__json_next(v, &it, &key, &key_len, &b) &&
         ij__json_get_string(a, &out->left, &out->n_left) && ij__json_get_string(b, &out->right, &out->n_right);
}

static ij_status read_merges(json_reader *r) {
  const ij_json_value *merges = ij__json_member(r->model, "merges");
  if (ij__json_type_of(merges) != IJ_JSON_ARRAY) return malformed(r, "model.merges", "an array", merges);
  merge_iter it = {.list = merges};
  ij_tok_merges m = {ij__json_size(merges), next_merge, &it, "model.merges", "expected \"left right\" or [\"left\", \"right\"]"};
  return ij__tok_read_merges(r->t, &m, &r->spelling, r->scratch, r->path, r->err); /* all merges together are shorter than the file */
}

static ij_status read_ignore_merges(const json_reader *r) {
  bool ignore = false;
  if (ij__json_get_bool(ij__json_member(r->model, "ignore_merges"), &ignore) && ignore) return IJ_OK;
  return ij__tok_whole_by_merging(r->t, r->path, r->err);
}

ij_status ij__tok_read_json(ij_tok *t, const char *bytes, size_t n, const char *where, ij_err *err) {
  ij_json *doc = NULL;
  ij_status status = ij__json_parse(&doc, bytes, n, where, err);
  if (status != IJ_OK) return status;
  json_reader r = {.t = t, .path = where, .root = ij__json_root(doc), .err = err};
  if (ij__json_type_of(r.root) != IJ_JSON_OBJECT) {
    status = ij__fail(err, IJ_E_FORMAT, where, "expected an object, found %s", ij__json_type_name(ij__json_type_of(r.root)));
    ij__json_free(&doc);
    return status;
  }
  r.model = ij__json_member(r.root, "model");
  r.scratch = ij__alloc(n);
  ij__tok_spelling_init(&r.spelling);
  status = r.scratch ? check_pipeline(&r) : ij__fail_nomem(err, where, n);
  if (status == IJ_OK) status = read_added_tokens(&r);
  if (status == IJ_OK) status = read_vocabulary(&r);
  if (status == IJ_OK) status = ij__tok_index(t, where, err);
  if (status == IJ_OK) status = read_merges(&r);
  if (status == IJ_OK) status = read_ignore_merges(&r);
  ij__free(r.scratch);
  ij__json_free(&doc);
  return status;
}
