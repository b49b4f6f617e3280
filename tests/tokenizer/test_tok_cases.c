/* test_tok_cases.c: the recorded encode and decode cases, against the real vocabulary. test_tok_cases RANKS [TOKENIZER_JSON]
 *
 * Leaves with 77 (skipped) when the ranks are not there: scripts/fetch-vocab.sh fetches them. The same vocabulary as keys of a GGUF file,
 * which is made here, and as a tokenizer.json, when there is one (scripts/make_tokenizer_json.py), must give the same ids.
 */
#include "core/alloc.h"
#include "core/map.h"
#include "core/os.h"
#include "core/str.h"
#include "io/gguf.h"
#include "io/json.h"
#include "test.h"
#include "text/split.h"
#include "text/tok.h"
#include "unit/gguf_writer.h"

static ij_tok *tok;      /* from the ranks */
static ij_tok *forms[2]; /* the same from GGUF, from JSON; NULL when there is no such file */
static const char *const form_names[] = {"GGUF", "tokenizer.json"};
static const ij_json_value *cases;

static const char *string_of(const ij_json_value *v, size_t *n) {
  const char *s = "";
  *n = 0;
  CHECK(ij__json_get_string(v, &s, n));
  return s;
}

static void check_pieces(const ij_json_value *pieces, const char *text, size_t n) {
  const unsigned char *p = (const unsigned char *)text, *end = p + n;
  ij_json_iter it = {0};
  const char *key;
  size_t key_len, n_piece;
  const ij_json_value *piece;
  while (ij__json_next(pieces, &it, &key, &key_len, &piece)) {
    const char *want = string_of(piece, &n_piece);
    const unsigned char *next = p < end ? ij__split_next(p, end) : p;
    if ((size_t)(next - p) != n_piece || memcmp(p, want, n_piece) != 0) {
      TEST_FAIL("\"%s\": piece \"%.*s\", expected \"%s\"", text, (int)(next - p), (const char *)p, want);
    }
    p = next;
  }
  CHECK(p == end);
}

static void check_ids(const ij_json_value *want, const char *text, size_t n) {
  int32_t ids[4096];
  size_t n_ids = 0;
  ij_err err;
  CHECK_OK(ij__tok_encode(tok, text, n, false, ids, IJ_COUNT_OF(ids), &n_ids, &err), err);
  ij_json_iter it = {0};
  const char *key;
  size_t key_len, i = 0;
  const ij_json_value *v;
  CHECK_INT(n_ids, ij__json_size(want));
  for (; ij__json_next(want, &it, &key, &key_len, &v) && i < n_ids; i++) {
    int64_t id = -1;
    CHECK(ij__json_get_int(v, &id));
    if (ids[i] != id) TEST_FAIL("\"%s\": id %zu is %d, expected %lld", text, i, ids[i], (long long)id);
  }
}

static void encode_cases(void) {
  ij_json_iter it = {0};
  const char *key;
  size_t key_len, n, count = 0;
  const ij_json_value *c;
  while (ij__json_next(ij__json_member(cases, "encode"), &it, &key, &key_len, &c)) {
    const char *text = string_of(ij__json_member(c, "text"), &n);
    check_pieces(ij__json_member(c, "pieces"), text, n);
    check_ids(ij__json_member(c, "ids"), text, n);
    count++;
  }
  CHECK_INT(count, 151);
}

typedef struct shown_text {
  char bytes[1024];
  size_t n;
} shown_text;

/* What the stream gives out must be what the case does, but a replacement may come as soon as it is certain, which is earlier there. */
static void check_delta(const shown_text *got, const shown_text *want, int64_t id) {
  bool ok = got->n >= want->n && memcmp(got->bytes, want->bytes, want->n) == 0 && (got->n - want->n) % 3 == 0;
  for (size_t i = want->n; ok && i < got->n; i += 3) ok = memcmp(got->bytes + i, "\xEF\xBF\xBD", 3) == 0;
  if (!ok) TEST_FAIL("after id %lld: \"%.*s\", expected \"%.*s\"", (long long)id, (int)got->n, got->bytes, (int)want->n, want->bytes);
}

static void check_deltas(const ij_json_value *c) {
  static shown_text got, want;
  ij_utf8_stream stream = {0};
  ij_json_iter ids = {0}, deltas = {0};
  const char *key;
  size_t key_len, n;
  const ij_json_value *v, *delta;
  got.n = want.n = 0;
  while (ij__json_next(ij__json_member(c, "deltas"), &deltas, &key, &key_len, &delta)) {
    const char *text = string_of(delta, &n), *bytes = "";
    memcpy(want.bytes + want.n, text, n);
    want.n += n;
    int64_t id = -1;
    bool last = !ij__json_next(ij__json_member(c, "ids"), &ids, &key, &key_len, &v);
    if (!last) {
      CHECK(ij__json_get_int(v, &id));
      CHECK(ij__tok_bytes(tok, (int32_t)id, false, &bytes, &n));
    }
    char *out = got.bytes + got.n;
    if (last || ij__tok_is_special(tok, (int32_t)id)) got.n += ij__utf8_stream_flush(&stream, out);
    else got.n += ij__utf8_stream_push(&stream, bytes, n, out);
    check_delta(&got, &want, id);
  }
  CHECK_INT(got.n, want.n);
}

static void decode_cases(void) {
  ij_json_iter it = {0};
  const char *key;
  size_t key_len, n, count = 0;
  const ij_json_value *c;
  while (ij__json_next(ij__json_member(cases, "decode"), &it, &key, &key_len, &c)) {
    int before = test_failures;
    check_deltas(c);
    if (test_failures > before) printf("  in case %s\n", string_of(ij__json_member(c, "name"), &n));
    count++;
  }
  CHECK_INT(count, 10);
}

static void special_ids(void) {
  CHECK_INT(ij__tok_size(tok), 200058);
  CHECK_INT(ij__tok_find_special(tok, "<|content_model_end_sampling|>"), 200006);
  CHECK_INT(ij__tok_find_special(tok, "<|unused_200053|>"), 200053);
  CHECK_INT(ij__tok_find_special(tok, "<|nothing|>"), -1);
  static const char text[] = "<|message_user|><|content_text|>a<|end_message|>";
  int32_t ids[64];
  size_t n_ids = 0;
  ij_err err;
  CHECK_OK(ij__tok_encode(tok, text, sizeof text - 1, true, ids, 64, &n_ids, &err), err);
  CHECK_INT(n_ids, 4);
  CHECK_INT(ids[0], 200000);
  CHECK_INT(ids[1], 200004);
  CHECK_INT(ids[2], 64);
  CHECK_INT(ids[3], 200010);
  CHECK_OK(ij__tok_encode(tok, text, sizeof text - 1, false, ids, 64, &n_ids, &err), err);
  for (size_t i = 0; i < n_ids; i++) CHECK(ids[i] < 199998);
}

static void every_token_is_whole(void) {
  for (int32_t id = 0; id < 199998; id++) {
    const char *bytes;
    size_t n, n_ids = 0;
    CHECK(ij__tok_bytes(tok, id, false, &bytes, &n));
    const unsigned char *p = (const unsigned char *)bytes;
    if (ij__split_next(p, p + n) != p + n) continue; /* some tokens are more than one piece, and never come out of text */
    int32_t got = -1;
    CHECK(ij__tok_encode(tok, bytes, n, false, &got, 1, &n_ids, NULL) == IJ_OK);
    CHECK_INT(n_ids, 1);
    CHECK_INT(got, id);
  }
}

/* Half random bytes, half random tokens one after the other. */
static size_t random_text(uint64_t *seed, char *text, size_t cap) {
  size_t n = 0, want = 1 + test_random(seed) % (cap - 200);
  bool tokens = test_random(seed) % 2;
  while (n < want) {
    const char *bytes;
    size_t len;
    if (tokens && ij__tok_bytes(tok, (int32_t)(test_random(seed) % 199998), false, &bytes, &len)) {
      memcpy(text + n, bytes, len);
      n += len;
    } else {
      text[n++] = (char)test_random(seed);
    }
  }
  return n;
}

static void random_text_comes_back(void) {
  enum { CAP = 4096 };
  static char text[CAP], back[CAP];
  static int32_t ids[CAP], other[CAP];
  uint64_t seed = 2024;
  for (int round = 0; round < 3000; round++) {
    uint64_t before = seed;
    size_t n = random_text(&seed, text, CAP), n_ids = 0, n_other = 0, n_back = 0;
    CHECK(ij__tok_encode(tok, text, n, false, ids, CAP, &n_ids, NULL) == IJ_OK);
    for (size_t i = 0; i < n_ids; i++) {
      const char *bytes;
      size_t len;
      CHECK(ij__tok_bytes(tok, ids[i], false, &bytes, &len));
      memcpy(back + n_back, bytes, len);
      n_back += len;
    }
    if (n_back != n || memcmp(text, back, n) != 0) TEST_FAIL("seed %llu: the bytes do not come back", (unsigned long long)before);
    for (size_t f = 0; f < IJ_COUNT_OF(forms); f++) {
      if (!forms[f]) continue;
      CHECK(ij__tok_encode(forms[f], text, n, false, other, CAP, &n_other, NULL) == IJ_OK);
      bool same = n_ids == n_other && memcmp(ids, other, n_ids * sizeof *ids) == 0;
      if (!same) TEST_FAIL("seed %llu: ranks and %s give different ids", (unsigned long long)before, form_names[f]);
    }
  }
}

static void check_same_tokens(const ij_tok *form) {
  CHECK_INT(ij__tok_size(form), ij__tok_size(tok));
  for (int32_t id = 0; id < ij__tok_size(tok); id++) {
    const char *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    CHECK(ij__tok_bytes(tok, id, true, &a, &n_a) && ij__tok_bytes(form, id, true, &b, &n_b));
    CHECK(n_a == n_b && memcmp(a, b, n_a) == 0);
    CHECK(ij__tok_is_special(tok, id) == ij__tok_is_special(form, id));
  }
}

static void forms_have_the_same_tokens(void) {
  for (size_t f = 0; f < IJ_COUNT_OF(forms); f++) {
    if (forms[f]) check_same_tokens(forms[f]);
  }
}

/* ------------------------------------------------------------------------------------------------- the vocabulary as GGUF */

enum { N_ORDINARY = 199998, N_NAMED = 200058, N_ROWS = 201024 };

/* All tokens, the names of the specials, and fillers for the rows beyond. */
static void put_tokens(gw_file *f) {
  ij_buf text = {0};
  gw_array(f, "tokenizer.ggml.tokens", IJ_GGUF_STRING, N_ROWS);
  for (int32_t id = 0; id < N_ROWS; id++) {
    const char *bytes = "";
    size_t n = 0;
    text.len = 0;
    if (id < N_NAMED) CHECK(ij__tok_bytes(tok, id, true, &bytes, &n));
    if (id < N_ORDINARY) gw_spell(&text, bytes, n);
    else if (id < N_NAMED) ij__buf_append(&text, bytes, n);
    else ij__buf_printf(&text, "[PAD%d]", id);
    gw_text(&f->values, text.data, text.len);
  }
  gw_array(f, "tokenizer.ggml.token_type", IJ_GGUF_I32, N_ROWS);
  for (int32_t id = 0; id < N_ROWS; id++) gw_number(&f->values, id < N_ORDINARY ? 1 : id < N_NAMED ? 3 : 5, 4);
  ij__buf_free(&text);
}

/* Every split of a token into two tokens, in the order of the tokens, as the usual conversion of ranks lists them. */
static void put_merges(gw_file *f) {
  ij_map ids = {0};
  ij_buf list = {0}, text = {0};
  uint64_t count = 0;
  const char *p;
  size_t n;
  CHECK(ij__map_reserve(&ids, N_ORDINARY));
  for (int32_t id = 0; id < N_ORDINARY; id++) CHECK(ij__tok_bytes(tok, id, false, &p, &n) && ij__map_add(&ids, p, n, id) == 1);
  for (int32_t id = 0; id < N_ORDINARY && ij__tok_bytes(tok, id, false, &p, &n); id++) {
    for (size_t i = 1; i < n; i++) {
      if (ij__map_find(&ids, p, i) < 0 || ij__map_find(&ids, p + i, n - i) < 0) continue;
      text.len = 0;
      gw_spell(&text, p, i);
      ij__buf_append(&text, " ", 1);
      gw_spell(&text, p + i, n - i);
      gw_text(&list, text.data, text.len);
      count++;
    }
  }
  CHECK_INT(count, 446189);
  gw_array(f, "tokenizer.ggml.merges", IJ_GGUF_STRING, count);
  ij__buf_append(&f->values, list.data, list.len);
  ij__buf_free(&list);
  ij__buf_free(&text);
  ij__map_free(&ids);
}

/* The file is gone when the tokenizer is used: it must have kept what it needs. */
static ij_tok *make_from_gguf(void) {
  gw_file f = gw_new();
  ij_gguf g;
  ij_err err;
  ij_tok *t = NULL;
  gw_string(&f, "tokenizer.ggml.model", "gpt2");
  gw_string(&f, "tokenizer.ggml.pre", "inkling");
  put_tokens(&f);
  put_merges(&f);
  gw_int(&f, "tokenizer.ggml.eos_token_id", IJ_GGUF_U32, 200006);
  gw_int(&f, "tokenizer.ggml.add_bos_token", IJ_GGUF_BOOL, 0);
  ij_buf b = gw_finish(&f);
  double start = ij__os_seconds();
  CHECK_OK(ij__gguf_parse(&g, b.data, b.len, "made.gguf", &err), err);
  double parsed = ij__os_seconds();
  CHECK_OK(ij__tok_open_gguf(&t, &g, &err), err);
  printf("GGUF of %zu bytes: parsed in %.0f ms, tokenizer in %.0f ms\n", b.len, 1e3 * (parsed - start), 1e3 * (ij__os_seconds() - parsed));
  ij__gguf_free(&g);
  ij__buf_free(&b);
  return t;
}

static void encode_cases_of_all_forms(void) {
  ij_tok *from_ranks = tok;
  encode_cases();
  for (size_t f = 0; f < IJ_COUNT_OF(forms); f++) {
    if (forms[f]) tok = forms[f];
    if (forms[f]) encode_cases();
  }
  tok = from_ranks;
}

int main(int argc, char **argv) {
  ij_err err;
  if (argc < 2 || !ij__os_is_file(argv[1])) {
    printf("skipped: no vocabulary; scripts/fetch-vocab.sh fetches one\n");
    return 77;
  }
  char *bytes = NULL;
  size_t n = 0;
  ij_json *doc = NULL;
  const char *path = "tests/fixtures/tokenizer/cases.json";
  if (ij__os_read_file(path, 1 << 24, &bytes, &n, &err) != IJ_OK || ij__json_parse(&doc, bytes, n, path, &err) != IJ_OK ||
      ij__tok_open(&tok, argv[1], &err) != IJ_OK) {
    printf("%s: %s\n", err.where, err.message);
    return 1;
  }
  cases = ij__json_root(doc);
  forms[0] = make_from_gguf();
  if (argc > 2 && ij__os_is_file(argv[2]) && ij__tok_open(&forms[1], argv[2], &err) != IJ_OK) {
    printf("%s: %s\n", err.where, err.message);
    return 1;
  }
  RUN(encode_cases_of_all_forms);
  RUN(decode_cases);
  RUN(special_ids);
  RUN(every_token_is_whole);
  RUN(random_text_comes_back);
  RUN(forms_have_the_same_tokens);
  ij__tok_close(&tok);
  for (size_t f = 0; f < IJ_COUNT_OF(forms); f++) ij__tok_close(&forms[f]);
  ij__json_free(&doc);
  ij__free(bytes);
  return test_report();
}
