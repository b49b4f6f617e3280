/* test_tok_cases.c: the recorded encode and decode cases, against the real vocabulary. test_tok_cases RANKS [TOKENIZER_JSON]
 *
 * Leaves with 77 (skipped) when the ranks are not there: scripts/fetch-vocab.sh fetches them. When the same vocabulary is there as a
 * tokenizer.json too (scripts/make_tokenizer_json.py), both must give the same ids.
 */
#include "core/alloc.h"
#include "core/os.h"
#include "io/json.h"
#include "test.h"
#include "text/split.h"
#include "text/tok.h"

static ij_tok *tok, *tok_json; /* the second NULL when there is no such file */
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
    if (!tok_json) continue;
    CHECK(ij__tok_encode(tok_json, text, n, false, other, CAP, &n_other, NULL) == IJ_OK);
    bool same = n_ids == n_other && memcmp(ids, other, n_ids * sizeof *ids) == 0;
    if (!same) TEST_FAIL("seed %llu: ranks and tokenizer.json give different ids", (unsigned long long)before);
  }
}

static void forms_have_the_same_tokens(void) {
  if (!tok_json) return;
  CHECK_INT(ij__tok_size(tok_json), ij__tok_size(tok));
  for (int32_t id = 0; id < ij__tok_size(tok); id++) {
    const char *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    CHECK(ij__tok_bytes(tok, id, true, &a, &n_a) && ij__tok_bytes(tok_json, id, true, &b, &n_b));
    CHECK(n_a == n_b && memcmp(a, b, n_a) == 0);
    CHECK(ij__tok_is_special(tok, id) == ij__tok_is_special(tok_json, id));
  }
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
  if (argc > 2 && ij__os_is_file(argv[2]) && ij__tok_open(&tok_json, argv[2], &err) != IJ_OK) {
    printf("%s: %s\n", err.where, err.message);
    return 1;
  }
  RUN(encode_cases);
  RUN(decode_cases);
  RUN(special_ids);
  RUN(every_token_is_whole);
  RUN(random_text_comes_back);
  RUN(forms_have_the_same_tokens);
  ij__tok_close(&tok);
  ij__tok_close(&tok_json);
  ij__json_free(&doc);
  ij__free(bytes);
  return test_report();
}
