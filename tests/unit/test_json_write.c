/* test_json_write.c: canonical JSON. The spelling of random numbers and texts is compared with Python's in tests/chat/differential.py. */
#include "core/alloc.h"
#include "io/json.h"
#include "test.h"

/* The canonical form of a text; "" when there is none. */
static const char *canonical(const char *text) {
  static char out[8192];
  ij_json *doc = NULL;
  ij_buf b = {0};
  ij_err err = {0};
  out[0] = 0;
  if (ij__json_parse_exact(&doc, text, strlen(text), "text", &err) == IJ_OK && ij__json_canonical(&b, ij__json_root(doc))) {
    snprintf(out, sizeof out, "%s", b.data);
  }
  CHECK(!b.failed);
  ij__buf_free(&b);
  ij__json_free(&doc);
  return out;
}

static void floats(void) {
  static const char *const cases[][2] = {
      {"1.0", "1.0"}, {"100000.0", "100000.0"}, {"1e15", "1000000000000000.0"}, {"1e16", "1e+16"}, {"1e20", "1e+20"},
      {"123456789012345680.0", "1.2345678901234568e+17"}, {"0.0001", "0.0001"}, {"0.00001", "1e-05"}, {"2.5e-7", "2.5e-07"},
      {"-0.0", "-0.0"}, {"0e5", "0.0"}, {"5e-324", "5e-324"}, {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"0.1", "0.1"}, {"0.30000000000000004", "0.30000000000000004"}, {"1E5", "100000.0"}, {"1.5E-3", "0.0015"},
      {"9007199254740993.0", "9007199254740992.0"}, {"9999999999999998.0", "9999999999999998.0"}, {"123.456", "123.456"},
      {"5.684341886080802e-14", "5.684341886080802e-14"}, /* 2^-44: the nearest 16 digits lie in the next double's range */
      {"2.2250738585072014e-308", "2.2250738585072014e-308"}, {"9.5e-5", "9.5e-05"}, {"-1234567.5", "-1234567.5"}, {"1e-400", "0.0"}};
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) CHECK_STR(canonical(cases[i][0]), cases[i][1]);
}

/* Whatever is written reads back as the same double. */
static void floats_read_back(void) {
  uint64_t seed = 7;
  ij_buf b = {0};
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = test_random(&seed);
    double v, back = 0;
    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v)) continue;
    b.len = 0;
    ij__json_put_double(&b, v);
    if (!ij__json_read_double(b.data, b.len, &back) || back != v) TEST_FAIL("%a is written as %s", v, b.data);
  }
  ij__buf_free(&b);
}

static void integers(void) {
  static const char *const cases[][2] = {
      {"0", "0"}, {"-0", "0"}, {"-7", "-7"}, {"12345678901234567890", "12345678901234567890"}, {"-9223372036854775808", "-9223372036854775808"},
      {"123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890",
       "123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"}};
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) CHECK_STR(canonical(cases[i][0]), cases[i][1]);
}

static void objects(void) {
  static const char *const cases[][2] = {
      {"{ \"b\" : 1 , \"a\" : [ ] }", "{\"a\":[],\"b\":1}"}, {"{\"b\":1,\"a\":2,\"b\":3}", "{\"a\":2,\"b\":3}"},
      {"{\"a\":{\"y\":1,\"x\":2,\"y\":{}},\"a\":{\"z\":[{\"q\":1,\"p\":null}]}}", "{\"a\":{\"z\":[{\"p\":null,\"q\":1}]}}"},
      {"{\"a\":1,\"a\\u0000\":2,\"\":3,\"ab\":4}", "{\"\":3,\"a\":1,\"a\\u0000\":2,\"ab\":4}"},
      {"{\"\\ud800\\udc00\":1,\"\xEE\x80\x80\":2}", "{\"\xEE\x80\x80\":2,\"\xF0\x90\x80\x80\":1}"}, /* by code point, not by UTF-16 */
      {"{\"10\":1,\"9\":2,\"Z\":3,\"\xC3\xA9\":4,\"a\":5}", "{\"10\":1,\"9\":2,\"Z\":3,\"a\":5,\"\xC3\xA9\":4}"}};
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) CHECK_STR(canonical(cases[i][0]), cases[i][1]);
}

static void texts(void) {
  CHECK_STR(canonical("\"\\u00e9\\ud83d\\ude42\\/\\n\\t\\r\\b\\f\\u0001\\u001F\\u007f\\u2028<>&'\\\"\\\\\""),
            "\"\xC3\xA9\xF0\x9F\x99\x82/\\n\\t\\r\\b\\f\\u0001\\u001f\x7F\xE2\x80\xA8<>&'\\\"\\\\\"");
  CHECK_STR(canonical("[true,false,null]"), "[true,false,null]");
}

static void refused(void) {
  static const char *const cases[] = {"1e999", "[-1e309]", "{\"a\":1e400}",                             /* beyond the largest double */
                                      "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\xED\xA0\x80\"", "\"\xFF\"", /* no text */
                                      "NaN", "Infinity", "01", "1.", ".5", "+1", "[1,]", "{\"a\"}", "'a'", ""};
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    if (*canonical(cases[i])) TEST_FAIL("%s was accepted", cases[i]);
  }
}

static void values_of_exact_documents(void) {
  static const char text[] = "{\"i\":9223372036854775807,\"j\":9223372036854775808,\"m\":-9223372036854775808,\"r\":1.5,\"e\":1e2,\"i\":-12}";
  ij_json *doc = NULL;
  ij_err err;
  int64_t i = 0;
  double d = 0;
  CHECK_OK(ij__json_parse_exact(&doc, text, sizeof text - 1, "text", &err), err);
  const ij_json_value *root = ij__json_root(doc);
  CHECK_INT(ij__json_size(root), 6);
  CHECK(ij__json_get_int(ij__json_member(root, "i"), &i) && i == -12); /* the last */
  CHECK(ij__json_get_int(ij__json_member(root, "m"), &i) && i == INT64_MIN);
  CHECK_INT(ij__json_type_of(ij__json_member(root, "j")), IJ_JSON_REAL);
  CHECK(!ij__json_get_int(ij__json_member(root, "j"), &i));
  CHECK(ij__json_get_double(ij__json_member(root, "j"), &d) && d == 9223372036854775808.0);
  CHECK(ij__json_get_double(ij__json_member(root, "r"), &d) && d == 1.5);
  CHECK_INT(ij__json_type_of(ij__json_member(root, "e")), IJ_JSON_REAL);
  CHECK(!ij__json_member(root, "x") && !ij__json_member(NULL, "x"));
  ij__json_free(&doc);
}

int main(void) {
  RUN(floats);
  RUN(floats_read_back);
  RUN(integers);
  RUN(objects);
  RUN(texts);
  RUN(refused);
  RUN(values_of_exact_documents);
  return test_report();
}
