/* test_json.c: what json.h promises: strictness, places in errors, bounds, duplicate keys, iteration, and its use of the heap. */
#include "io/json.h"

#include "core/alloc.h"
#include "core/str.h"
#include "test.h"

static ij_err err;

static ij_status parse(ij_json **doc, const char *text) { return ij__json_parse(doc, text, strlen(text), "file.json", &err); }

/* The text is refused with a message that holds `want`. */
static void refuse(const char *text, size_t n, const char *want) {
  ij_json *doc = (ij_json *)1;
  ij_status s = ij__json_parse(&doc, text, n, "file.json", &err);
  if (s != IJ_E_FORMAT) TEST_FAIL("%.60s: status %d, expected E_FORMAT", text, s);
  if (doc) {
    TEST_FAIL("%.60s: a document came out", text);
    ij__json_free(&doc);
    return;
  }
  CHECK_STR(err.where, "file.json");
  CHECK_HAS(err.message, want);
}

#define REFUSE(text, want) refuse(text, sizeof(text) - 1, want)

static void values_of_every_type(void) {
  ij_json *doc;
  CHECK_OK(parse(&doc, " {\"a\": null, \"b\": true, \"c\": -12, \"d\": 2.5, \"e\": \"x\\u0000y\", \"f\": [1, [2], {}], \"g\": {\"h\": false}}\n"), err);
  const ij_json_value *root = ij__json_root(doc);
  CHECK_INT(ij__json_type_of(root), IJ_JSON_OBJECT);
  CHECK_INT(ij__json_size(root), 7);
  CHECK_INT(ij__json_type_of(ij__json_member(root, "a")), IJ_JSON_NULL);
  bool b = false;
  CHECK(ij__json_get_bool(ij__json_member(root, "b"), &b) && b);
  int64_t i = 0;
  CHECK(ij__json_get_int(ij__json_member(root, "c"), &i));
  CHECK_INT(i, -12);
  double d = 0;
  CHECK(ij__json_get_double(ij__json_member(root, "d"), &d) && d == 2.5);
  CHECK(ij__json_get_double(ij__json_member(root, "c"), &d) && d == -12.0);
  CHECK(!ij__json_get_int(ij__json_member(root, "d"), &i));
  const char *s;
  size_t n = 0;
  CHECK(ij__json_get_string(ij__json_member(root, "e"), &s, &n));
  CHECK(!ij__json_is(ij__json_member(root, "e"), "x")); /* there is more of it, behind a NUL */
  CHECK(!ij__json_is(root, "e") && !ij__json_is(NULL, ""));
  CHECK_INT(n, 3);
  CHECK(memcmp(s, "x\0y", 4) == 0);
  CHECK_INT(ij__json_size(ij__json_member(root, "f")), 3);
  CHECK(!ij__json_member(root, "h"));
  CHECK(ij__json_get_bool(ij__json_member(ij__json_member(root, "g"), "h"), &b) && !b);
  ij__json_free(&doc);
  CHECK(!doc);
  ij__json_free(&doc);
}

static void null_is_a_value_of_no_type(void) {
  bool b;
  int64_t i;
  double d;
  const char *s;
  size_t n;
  ij_json_iter it = {0};
  const ij_json_value *v;
  CHECK_INT(ij__json_type_of(NULL), IJ_JSON_NONE);
  CHECK_STR(ij__json_type_name(ij__json_type_of(NULL)), "nothing");
  CHECK(!ij__json_get_bool(NULL, &b) && !ij__json_get_int(NULL, &i) && !ij__json_get_double(NULL, &d) && !ij__json_get_string(NULL, &s, &n));
  CHECK(!ij__json_member(NULL, "x"));
  CHECK_INT(ij__json_size(NULL), 0);
  CHECK(!ij__json_next(NULL, &it, NULL, NULL, &v));
  CHECK(!ij__json_root(NULL));
}

static void type_names(void) {
  ij_json *doc;
  CHECK_OK(parse(&doc, "[null, true, 1, 1.0, \"\", [], {}]"), err);
  static const char *const want[] = {"null", "a boolean", "an integer", "a number", "a string", "an array", "an object"};
  ij_json_iter it = {0};
  const ij_json_value *v;
  for (size_t i = 0; ij__json_next(ij__json_root(doc), &it, NULL, NULL, &v); i++) CHECK_STR(ij__json_type_name(ij__json_type_of(v)), want[i]);
  ij__json_free(&doc);
}

static void integers_and_reals(void) {
  static const struct {
    const char *text;
    ij_json_type type;
    int64_t i;
    double d;
  } cases[] = {
      {"0", IJ_JSON_INT, 0, 0},
      {"-9223372036854775808", IJ_JSON_INT, INT64_MIN, -9223372036854775808.0},
      {"9223372036854775807", IJ_JSON_INT, INT64_MAX, 9223372036854775807.0},
      {"9223372036854775808", IJ_JSON_REAL, 0, 9223372036854775808.0},
      {"18446744073709551616", IJ_JSON_REAL, 0, 18446744073709551616.0},
      {"1e2", IJ_JSON_REAL, 0, 100},
      {"1.0", IJ_JSON_REAL, 0, 1},
      {"1e-06", IJ_JSON_REAL, 0, 1e-6},
      {"0.1", IJ_JSON_REAL, 0, 0.1},
  };
  for (size_t k = 0; k < IJ_COUNT_OF(cases); k++) {
    ij_json *doc;
    int64_t i = 77;
    double d = 0;
    CHECK_OK(parse(&doc, cases[k].text), err);
    CHECK_INT(ij__json_type_of(ij__json_root(doc)), cases[k].type);
    CHECK(ij__json_get_int(ij__json_root(doc), &i) == (cases[k].type == IJ_JSON_INT));
    CHECK_INT(i, cases[k].type == IJ_JSON_INT ? cases[k].i : 77);
    CHECK(ij__json_get_double(ij__json_root(doc), &d) && d == cases[k].d);
    ij__json_free(&doc);
  }
}

static void iteration_keeps_document_order(void) {
  ij_json *doc;
  CHECK_OK(parse(&doc, "{\"z\": 1, \"a\": {\"deep\": [1, 2, 3]}, \"\": 3}"), err);
  static const char *const keys[] = {"z", "a", ""};
  ij_json_iter it = {0};
  const ij_json_value *v;
  const char *key;
  size_t len, i = 0;
  for (; ij__json_next(ij__json_root(doc), &it, &key, &len, &v); i++) {
    CHECK_STR(key, keys[i]);
    CHECK_INT(len, strlen(keys[i]));
  }
  CHECK_INT(i, 3);
  int64_t n = 0;
  CHECK(ij__json_get_int(v, &n));
  CHECK_INT(n, 3);
  ij_json_iter inner = {0};
  int64_t sum = 0;
  const ij_json_value *list = ij__json_member(ij__json_member(ij__json_root(doc), "a"), "deep");
  while (ij__json_next(list, &inner, &key, &len, &v)) {
    CHECK(!key);
    CHECK(ij__json_get_int(v, &n));
    sum += n;
  }
  CHECK_INT(sum, 6);
  ij__json_free(&doc);
}

static void only_strict_json(void) {
  REFUSE("", "found nothing");
  REFUSE("   ", "not valid JSON");
  REFUSE("{", "not valid JSON");
  REFUSE("{\"a\":1,}", "line 1, column 7");
  REFUSE("[1,]", "not valid JSON");
  REFUSE("[1] x", "line 1, column 5");
  REFUSE("{\"a\":1}{}", "line 1, column 8");
  REFUSE("{a:1}", "line 1, column 2");
  REFUSE("{'a':1}", "not valid JSON");
  REFUSE("[01]", "not valid JSON");
  REFUSE("[1.]", "not valid JSON");
  REFUSE("[.5]", "not valid JSON");
  REFUSE("[+1]", "not valid JSON");
  REFUSE("[0x10]", "not valid JSON");
  REFUSE("[NaN]", "not valid JSON");
  REFUSE("[Infinity]", "not valid JSON");
  REFUSE("[1e999]", "not valid JSON");
  REFUSE("[1] // comment", "not valid JSON");
  REFUSE("/**/[1]", "not valid JSON");
  REFUSE("\xEF\xBB\xBF[1]", "not valid JSON");
  REFUSE("[True]", "not valid JSON");
  REFUSE("[\"a\nb\"]", "not valid JSON");
  REFUSE("[\"\\x41\"]", "not valid JSON");
  REFUSE("[1]\0", "not valid JSON");
  REFUSE("\n\n  [1,\n   2 3]", "line 4, column 6");
}

static void only_valid_utf8(void) {
  ij_json *doc;
  CHECK_OK(parse(&doc, "[\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\", \"\\uD83D\\uDE00\"]"), err);
  ij__json_free(&doc);
  REFUSE("[\"\x80\"]", "line 1, column 3");
  REFUSE("[\"\xC3\"]", "not valid JSON");
  REFUSE("[\"\xC0\x80\"]", "not valid JSON");          /* overlong */
  REFUSE("[\"\xED\xA0\x80\"]", "not valid JSON");      /* surrogate */
  REFUSE("[\"\xF4\x90\x80\x80\"]", "not valid JSON");  /* above U+10FFFF */
  REFUSE("[\"\\uD800\"]", "not valid JSON");
  REFUSE("[\"\\uDC00\\uD800\"]", "not valid JSON");
  REFUSE("{\"\xFF\": 1}", "not valid JSON");
}

static void nest(ij_buf *b, int depth, const char *open, const char *middle, const char *close) {
  for (int i = 0; i < depth; i++) ij__buf_puts(b, open);
  ij__buf_puts(b, middle);
  for (int i = 0; i < depth; i++) ij__buf_puts(b, close);
}

static void nesting_is_bounded(void) {
  static const int ok[] = {1, 511, 512}, deep[] = {513, 514, 100000};
  for (size_t i = 0; i < IJ_COUNT_OF(ok); i++) {
    ij_buf b = {0};
    nest(&b, ok[i], "[", "", "]");
    ij_json *doc;
    CHECK_OK(ij__json_parse(&doc, b.data, b.len, "file.json", &err), err);
    ij__json_free(&doc);
    ij__buf_free(&b);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(deep); i++) {
    ij_buf b = {0};
    ij__buf_puts(&b, "[\"]]][[\\\"[\",\n");
    nest(&b, deep[i] - 1, "[", "", "]");
    ij__buf_puts(&b, "]");
    refuse(b.data, b.len, "line 2, column 512: ");
    CHECK_HAS(err.message, "nested more than 512 deep");
    ij__buf_free(&b);
  }
  ij_buf b = {0};
  nest(&b, 513, "{\"k\":", "1", "}");
  refuse(b.data, b.len, "line 1, column 2561: ");
  ij__buf_free(&b);
}

static void duplicate_keys_are_refused(void) {
  REFUSE("{\"a\": 1,\n \"b\": 2, \"a\": 3}", "line 2, column 11: not valid JSON: the key \"a\" occurs twice in one object");
  REFUSE("{\"x\": [{\"\": 1, \"\": 2}]}", "the key \"\" occurs twice");
  REFUSE("{\"a\": 1, \"\\u0061\": 3}", "the key \"a\" occurs twice"); /* equal after unescaping */
  REFUSE("{\"a\\u0000b\": 1, \"a\\u0000b\": 3}", "the key \"a?b\" occurs twice");
  ij_json *doc;
  CHECK_OK(parse(&doc, "{\"a\": {\"a\": 1}, \"a\\u0000\": 2, \"A\": {\"a\": 2}}"), err);
  ij__json_free(&doc);
}

/* An object of n members, the key of the last one replaced by key number `twin` when twin >= 0. */
static ij_buf big_object(int n, int twin) {
  ij_buf b = {0};
  ij__buf_puts(&b, "{");
  for (int i = 0; i < n; i++) {
    int k = i == n - 1 && twin >= 0 ? twin : i;
    ij__buf_printf(&b, "%s\"model.layers.%d.weight\":{\"i\":%d}", i ? "," : "", k, i);
  }
  ij__buf_puts(&b, "}");
  return b;
}

static void duplicate_keys_in_objects_of_all_sizes(void) {
  static const int sizes[] = {2, 3, 8, 9, 10, 16, 17, 100, 5000};
  for (size_t i = 0; i < IJ_COUNT_OF(sizes); i++) {
    int n = sizes[i];
    ij_json *doc;
    ij_buf b = big_object(n, -1);
    CHECK_OK(ij__json_parse(&doc, b.data, b.len, "file.json", &err), err);
    CHECK_INT(ij__json_size(ij__json_root(doc)), n);
    ij__json_free(&doc);
    ij__buf_free(&b);
    for (int twin = 0; twin < n - 1; twin += IJ_MAX(1, n / 7)) {
      b = big_object(n, twin);
      char want[100];
      snprintf(want, sizeof want, "the key \"model.layers.%d.weight\" occurs twice", twin);
      refuse(b.data, b.len, want);
      ij__buf_free(&b);
    }
  }
}

static void text_in_messages_is_harmless(void) {
  char out[20];
  ij__json_show(out, sizeof out, "ab\x1b[31m\n\x7f", 9);
  CHECK_STR(out, "\"ab?[31m??\"");
  ij__json_show(out, sizeof out, "0123456789abcdefghij", 20);
  CHECK_STR(out, "\"0123456789abcd...\"");
  ij__json_show(out, sizeof out, "0123456789abcd", 14);
  CHECK_STR(out, "\"0123456789abcd\"");
  ij__json_show(out, sizeof out, "0123456789abc\xE2\x82\xAC xyz", 20); /* never half a character */
  CHECK_STR(out, "\"0123456789abc...\"");
}

static void every_failing_allocation_is_reported(void) {
  ij_buf b = big_object(300, -1);
  int64_t held = ij__alloc_blocks();
  bool done = false;
  for (int n = 1; n < 100 && !done; n++) {
    ij_json *doc;
    ij__alloc_fail_after(n);
    ij_status s = ij__json_parse(&doc, b.data, b.len, "file.json", &err);
    ij__alloc_fail_after(0);
    done = s == IJ_OK;
    if (!done) {
      CHECK_INT(s, IJ_E_NOMEM);
      CHECK(!doc);
      CHECK_INT(ij__alloc_blocks(), held);
    }
    ij__json_free(&doc);
    CHECK_INT(ij__alloc_blocks(), held);
  }
  CHECK(done);
  ij__buf_free(&b);
}

int main(void) {
  RUN(values_of_every_type);
  RUN(null_is_a_value_of_no_type);
  RUN(type_names);
  RUN(integers_and_reals);
  RUN(iteration_keeps_document_order);
  RUN(only_strict_json);
  RUN(only_valid_utf8);
  RUN(nesting_is_bounded);
  RUN(duplicate_keys_are_refused);
  RUN(duplicate_keys_in_objects_of_all_sizes);
  RUN(text_in_messages_is_harmless);
  RUN(every_failing_allocation_is_reported);
  return test_report();
}
