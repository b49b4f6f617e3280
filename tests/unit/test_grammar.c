/* test_grammar.c: grammars and guides on a small vocabulary: what is accepted and refused byte by byte, that masks say the same as accepting,
 * that every walk can end, and the shape of turns. tests/grammar has the checks against other programs and the real vocabulary.
 */
#include <string.h>

#include "chat/bytes_tokenizer.h"
#include "core/alloc.h"
#include "core/str.h"
#include "grammar/guide.h"
#include "inkjet_chat.h"
#include "test.h"
#include "small_vocab.h"

static ij_tokenizer *vocab;
static int32_t end_message, end_turn, model, text, think, call;

static int32_t byte_id(unsigned char b) { return b ^ 0x5A; }

static ij_grammar *json_grammar(const char *schema) {
  ij_grammar *g = NULL;
  ij_err err = {0};
  if (ij_grammar_json(&g, vocab, schema, strlen(schema), &err) != IJ_OK) TEST_FAIL("%s: %s: %s", schema, err.where, err.message);
  return g;
}

static ij_guide *content_guide(const ij_grammar *g) {
  ij_guide *guide = NULL;
  ij_guide_options o = ij_guide_options_default();
  ij_err err = {0};
  o.state = IJ_TURN_TEXT;
  o.content = g;
  CHECK_OK(ij_guide_open(&guide, vocab, &o, &err), err);
  return guide;
}

static bool allowed(ij_guide *guide, int32_t id) {
  const uint32_t *mask = ij_guide_mask(guide);
  return !mask || (mask[id / 32] >> (id % 32) & 1);
}

/* Byte by byte; at each step the mask must agree with accepting. */
static bool accepts_bytes(ij_guide *guide, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int32_t id = byte_id((unsigned char)s[i]);
    bool may = allowed(guide, id);
    if (may != (ij_guide_accept(guide, id, NULL) == IJ_OK)) TEST_FAIL("mask and accept differ at byte %zu of %s", i, s);
    if (!may) return false;
  }
  return true;
}

static bool accepts_n(const ij_grammar *g, const char *s, size_t n) {
  ij_guide *guide = content_guide(g);
  bool ok = accepts_bytes(guide, s, n) && allowed(guide, end_message);
  ij_guide_close(&guide);
  return ok;
}

static bool accepts(const ij_grammar *g, const char *s) { return accepts_n(g, s, strlen(s)); }

/* Texts after "+" must be accepted, after "-" refused. */
static void check_texts(ij_grammar *g, const char *what, const char *const *texts) {
  for (; g && *texts; texts++) {
    if (accepts(g, *texts + 1) != (**texts == '+')) TEST_FAIL("%s: %s is %s", what, *texts + 1, **texts == '+' ? "refused" : "accepted");
  }
  ij_grammar_close(&g);
}

#define SCHEMA(schema, ...)                                  \
  do {                                                       \
    static const char *const texts[] = {__VA_ARGS__, NULL};  \
    check_texts(json_grammar(schema), schema, texts);        \
  } while (0)

static void test_json_values(void) {
  SCHEMA("{}", "+{}", "+[]", "+null", "+\"\"", "+0", "+-1.5e+10", "+[1, 2,\n  3]", "+{\"a\": {\"b\":[true,false,null]}}", "-", "-01", "-[1,]", "-{\"a\":}",
         "-{a:1}", "-tru", "-\"\n\"", "-\"\\x\"", "-1.", "-.5", "-1e", "- 1", "-1 ", "-[1  ,2]", "-{\"a\" :1}", "-{\"a\":  1}");
  SCHEMA("true", "+1", "+\"x\"");
  SCHEMA("{\"type\":\"string\"}", "+\"\"", "+\"a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80\"", "+\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\"", "-\"\\uD83D\"", "-\"\\ude00\"",
         "-\"\xC3\"", "-\"\xED\xA0\x80\"", "-\"\xC0\x80\"", "-\"\xF5\x80\x80\x80\"", "-\"\t\"", "-abc", "-\"a");
  SCHEMA("{\"type\":\"integer\"}", "+0", "+-7", "+12345678901234567890", "-123456789012345678901", "-1.0", "-+1", "-00", "--");
  SCHEMA("{\"type\":\"number\"}", "+0.5", "+-0.25", "+1e9", "+1E-09", "-1e999", "-0x1", "-NaN");
  SCHEMA("{\"type\":[\"boolean\",\"null\"]}", "+true", "+false", "+null", "-0", "-\"true\"");
  SCHEMA("{\"type\":\"string\",\"nullable\":true}", "+null", "+\"x\"", "-1");
  SCHEMA("{\"enum\":[\"red\",\"re\",3,null,{\"a\":[1]},2.5]}", "+\"red\"", "+\"re\"", "+3", "+null", "+{\"a\":[1]}", "+2.5", "-\"r\"", "-\"redd\"", "-4", "-{\"a\": [1]}");
  SCHEMA("{\"type\":\"string\",\"enum\":[\"a\",1]}", "+\"a\"", "-1");
  SCHEMA("{\"const\":\"q\\\"\\n\\u0001\"}", "+\"q\\\"\\n\\u0001\"", "-\"q\"");
  SCHEMA("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "+\"ab\"", "+\"\xC3\xA9\xE6\x97\xA5\"", "+\"a\\n\\u0041\"", "-\"a\"", "-\"abcd\"", "-\"\"");
  SCHEMA("{\"type\":\"string\",\"minLength\":300}", "-\"ab\"");
}

static void test_objects(void) {
  SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},\"required\":[\"a\",\"b\"],\"additionalProperties\":false}",
         "+{\"a\":1,\"b\":\"x\"}", "+{\"a\": 1, \"b\": \"x\"}", "+{\n  \"a\": 1,\n  \"b\": \"x\"\n}", "-{\"a\":1}", "-{\"b\":\"x\",\"a\":1}", "-{\"a\":1,\"b\":\"x\",\"c\":1}", "-{}", "-{\"a\":1,}",
         "-{\"a\":1 ,\"b\":\"x\"}", "-{\"a\":\"1\",\"b\":\"x\"}", "-{\n\n\"a\":1,\"b\":\"x\"}");
  SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},\"c\":{\"type\":\"boolean\"}},\"required\":[\"b\"]}", "+{\"b\":null}", "+{\"a\":1,\"b\":null}",
         "+{\"b\":null,\"c\":true}", "+{\"a\":1,\"b\":null,\"c\":false}", "-{\"a\":1}", "-{\"a\":1,\"c\":true}", "-{\"b\":null,\"d\":1}", "-{,\"b\":null}");
  SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{}},\"additionalProperties\":{\"type\":\"boolean\"}}", "+{}", "+{\"a\":1}", "+{\"x\":true}", "+{\"a\":1,\"ac\":true,\"\":false}",
         "+{\"ab\":[],\"abc\":true}", "-{\"x\":1}", "-{\"x\":true,\"a\":1}", "-{\"a\":true}", "-{\"\\u0061\":true}");
  SCHEMA("{\"type\":\"object\"}", "+{}", "+{\"x\":[{}]}", "-[]");
  SCHEMA("{\"type\":\"object\",\"additionalProperties\":false}", "+{}", "+{ }", "-{\"a\":1}");
  SCHEMA("{\"properties\":{\"a\":{}},\"required\":[\"z\"]}", "+{\"z\":1}", "+{\"a\":2,\"z\":1}", "-{\"a\":2}", "-{}");
  SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":false,\"b\":true}}", "+{}", "+{\"b\":1}", "-{\"a\":1}");
}

static void test_arrays(void) {
  SCHEMA("{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}", "+[1]", "+[1,2,3]", "+[\n  1,\n  2\n]", "-[]", "-[1,2,3,4]", "-[\"a\"]");
  SCHEMA("{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2}", "+[1,2]", "+[1,2,3,4,5]", "-[1]");
  SCHEMA("{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}", "+[]", "+[1]", "+[1,\"a\"]", "-[1,\"a\",2]", "-[\"a\"]");
  SCHEMA("{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"minItems\":1}", "+[1]", "+[1,{},null]", "-[]");
  SCHEMA("{\"type\":\"array\",\"maxItems\":0}", "+[]", "-[1]");
}

static void test_combinations(void) {
  SCHEMA("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"},{\"type\":\"null\"}]}", "+1", "+\"a\"", "+null", "-true");
  SCHEMA("{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}}}",
         "+{\"v\":1,\"next\":null}", "+{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}", "-{\"v\":1}", "-{\"v\":1,\"next\":{}}");
  SCHEMA("{\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}},\"required\":[\"kids\"],\"additionalProperties\":false}", "+{\"kids\":[]}",
         "+{\"kids\":[{\"kids\":[]},{\"kids\":[{\"kids\":[]}]}]}", "-{\"kids\":[1]}");
  SCHEMA("{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}},\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}}}]}", "+{\"a\":1}",
         "+{\"a\":1,\"b\":null}", "-{\"a\":1.5}", "-{}");
  SCHEMA("{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"x\"},\"v\":{\"type\":\"integer\"}},\"required\":[\"k\",\"v\"]},"
         "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"y\"},\"v\":{\"type\":\"string\"}},\"required\":[\"k\",\"v\"]}]}",
         "+{\"k\":\"x\",\"v\":1}", "+{\"k\":\"y\",\"v\":\"1\"}", "-{\"k\":\"y\",\"v\":1}", "-{\"k\":\"z\",\"v\":1}");
  SCHEMA("{\"anyOf\":[{\"type\":\"string\",\"maxLength\":1},{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\"]}],\"description\":\"d\"}", "+\"x\"", "+{\"a\":1}", "-\"xy\"", "-{}");
  SCHEMA("{\"allOf\":[{\"properties\":{\"a\":{}},\"unevaluatedProperties\":false},{\"properties\":{\"b\":{}}}]}", "+{\"a\":1}", "+{}", "-{\"b\":1}");
  SCHEMA("{\"$ref\":\"#/$defs/~01%7E1\",\"$defs\":{\"~1/\":{\"type\":\"null\"}}}", "+null", "-1");
  SCHEMA("{\"$ref\":\"#/$defs/q\",\"properties\":{\"b\":{}},\"anyOf\":[{\"properties\":{\"c\":{}}},{\"required\":[\"b\"]}],\"unevaluatedProperties\":false,"
         "\"$defs\":{\"q\":{\"properties\":{\"a\":{}}}}}",
         "+{\"b\":1,\"a\":1}", "+{\"b\":1,\"c\":1}", "-{\"d\":1}");
  SCHEMA("{\"type\":[\"string\",\"integer\"],\"anyOf\":[{\"maxLength\":1},{\"type\":\"integer\"}]}", "+\"x\"", "+5", "-\"xy\"");
}

static void test_texts_and_numbers(void) {
  SCHEMA("{\"type\":\"string\",\"pattern\":\"^[a-z]{2,3}$\"}", "+\"ab\"", "-\"\\u0061bc\"", "-\"a\"", "-\"abcd\"", "-\"aB\"");
  SCHEMA("{\"type\":\"string\",\"pattern\":\"b+\",\"maxLength\":3}", "+\"abb\"", "+\"b\"", "+\"\\nb\"", "-\"aaa\"", "-\"abba\"");
  SCHEMA("{\"type\":\"string\",\"pattern\":\"$^\"}", "+\"\"", "-\"a\"");
  SCHEMA("{\"type\":\"string\",\"format\":\"date\"}", "+\"2024-02-29\"", "-\"2023-02-29\"", "-\"2023-4-01\"", "-\"0000-01-01\"");
  SCHEMA("{\"type\":\"string\",\"format\":\"uuid\"}", "+\"123e4567-e89b-12d3-a456-426614174000\"", "-\"123e4567\"");
  SCHEMA("{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120}", "+-3", "+0", "+120", "+99", "--4", "-121", "-1000", "-007", "--0");
  SCHEMA("{\"type\":\"integer\",\"minimum\":9007199254740993,\"maximum\":9007199254740993}", "+9007199254740993", "-9007199254740992");
  SCHEMA("{\"type\":\"integer\",\"maximum\":18446744073709551615}", "+9223372036854775807", "-18446744073709551615", "-18446744073709552000");
  SCHEMA("{\"type\":\"integer\",\"allOf\":[{\"maximum\":9007199254740993},{\"maximum\":9007199254740992}]}", "+9007199254740992", "-9007199254740993");
  SCHEMA("{\"oneOf\":[{\"const\":-2.5e-7},{\"const\":1e18}]}", "+-2.5e-07", "+1e+18");
  SCHEMA("{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1.5}", "+0.01", "+1", "+1.5", "+1.500", "-0", "-0.0", "-1.51", "-2", "--1");
  SCHEMA("{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1e-18}", "+0.000000000000000001", "+0.00000000000000000099", "-0.000000000000000000", "-0.000000000000000002");
  SCHEMA("{\"type\":\"number\",\"minimum\":-1e-18,\"exclusiveMaximum\":0}", "+-0.00000000000000000099", "-0", "--0.000000000000000002");
  SCHEMA("{\"type\":\"number\",\"exclusiveMinimum\":1e-18,\"maximum\":1e-17}", "+0.00000000000000001", "+0.000000000000000002", "-0.000000000000000001");
  SCHEMA("{\"type\":\"number\",\"minimum\":1,\"exclusiveMaximum\":2}", "+1.99999999999999", "-1.999999999999999");
  SCHEMA("{\"type\":\"integer\",\"multipleOf\":6}", "+0", "+12", "+-18", "-3", "-13");
  SCHEMA("{\"type\":\"number\",\"multipleOf\":0.01}", "+1.25", "+3", "-1.255");
}

static void test_expressions(void) {
  static const struct {
    const char *pattern;
    const char *texts[8];
  } cases[] = {{"a(b|c)*d?", {"+a", "+abcbd", "-", "-ad_"}},
               {"[^\\d]{2}", {"+ab", "+\xC3\xA9\xE6\x97\xA5", "-a1", "-abc"}},
               {".", {"+a", "+\xF0\x9F\x98\x80", "-\n", "-"}},
               {"(^a|b)c$", {"+ac", "+bc", "-abc"}},
               {"a*$^", {"+", "-a"}},
               {"\\u{e9}\\u{1F600}", {"+\xC3\xA9\xF0\x9F\x98\x80", "-a"}},
               {"((((){10000}){10000}){10000}){10000}a", {"+a", "-"}},
               {"", {"+", "-a"}}};
  static const char *const refused[] = {"(", "a)", "*", "a{2,1}", "(?=a)", "\\b", "\\1", "\\p{L}", "[]a]", "((a{100}){100}){100}", "\xFF", "a^b", "(a|b)*a(a|b){20}", "\\u{}",
                                        "\\u{41", "\\u{1F6000}"};
  ij_err err;
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    ij_grammar *g = NULL;
    CHECK_OK(ij_grammar_regex(&g, vocab, cases[i].pattern, strlen(cases[i].pattern), &err), err);
    check_texts(g, cases[i].pattern, cases[i].texts);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(refused); i++) {
    ij_grammar *g = NULL;
    ij_status status = ij_grammar_regex(&g, vocab, refused[i], strlen(refused[i]), &err);
    if ((status != IJ_E_ARGUMENT && status != IJ_E_UNSUPPORTED) || g || !err.message[0]) TEST_FAIL("%s: %s", refused[i], ij_status_name(status));
    ij_grammar_close(&g);
  }
}

/* A NUL in a pattern is itself, behind a backslash too. */
static void test_nul_in_expressions(void) {
  static const char plain[] = "a\0*b", escaped[] = "a\\\0b";
  ij_grammar *g = NULL;
  CHECK(ij_grammar_regex(&g, vocab, plain, sizeof plain - 1, NULL) == IJ_OK);
  CHECK(g && accepts_n(g, "a\0\0b", 4) && accepts_n(g, "ab", 2) && !accepts_n(g, "axb", 3));
  ij_grammar_close(&g);
  CHECK(ij_grammar_regex(&g, vocab, escaped, sizeof escaped - 1, NULL) == IJ_OK);
  CHECK(g && accepts_n(g, "a\0b", 3) && !accepts_n(g, "axb", 3));
  ij_grammar_close(&g);
}

static void check_refusal(const char *schema, ij_status want, const char *where, const char *message) {
  ij_grammar *g = NULL;
  ij_err err = {0};
  ij_status status = ij_grammar_json(&g, vocab, schema, strlen(schema), &err);
  if (status != want) TEST_FAIL("%s: %s, expected %s (%s)", schema, ij_status_name(status), ij_status_name(want), err.message);
  CHECK(g == NULL);
  if (strcmp(err.where, where) != 0) TEST_FAIL("%s: where is %s, expected %s", schema, err.where, where);
  CHECK_HAS(err.message, message);
  ij_grammar_close(&g);
}

static void test_refusals(void) {
  check_refusal("{", IJ_E_FORMAT, "#", "");
  check_refusal("3", IJ_E_ARGUMENT, "#", "expected a schema");
  check_refusal("{\"type\":\"strin\"}", IJ_E_ARGUMENT, "#/type", "name of a type");
  check_refusal("{\"properties\":{\"a\":{\"not\":{}}}}", IJ_E_UNSUPPORTED, "#/properties/a/not", "cannot be enforced");
  check_refusal("{\"type\":\"array\",\"items\":{\"type\":\"array\",\"uniqueItems\":true}}", IJ_E_UNSUPPORTED, "#/items/uniqueItems", "differ");
  check_refusal("{\"properties\":{\"a/b~\":{\"maxlength\":3}}}", IJ_E_UNSUPPORTED, "#/properties/a~1b~0/maxlength", "maxlength");
  check_refusal("{\"$ref\":\"http://x/y\"}", IJ_E_UNSUPPORTED, "#/$ref", "inside the schema");
  check_refusal("{\"$ref\":\"#/$defs/q\"}", IJ_E_ARGUMENT, "#/$ref", "no schema at this place");
  check_refusal("{\"$ref\":\"#\"}", IJ_E_ARGUMENT, "#", "refers to itself");
  check_refusal("{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", IJ_E_ARGUMENT, "#", "refers to itself");
  check_refusal("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", IJ_E_ARGUMENT, "#", "no value can satisfy");
  check_refusal("{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", IJ_E_ARGUMENT, "#", "no value can satisfy");
  check_refusal("{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", IJ_E_ARGUMENT, "#", "no value can satisfy");
  check_refusal("{\"type\":\"string\",\"minLength\":-1}", IJ_E_ARGUMENT, "#/minLength", "not negative");
  check_refusal("{\"type\":\"array\",\"minItems\":1.5}", IJ_E_ARGUMENT, "#/minItems", "whole number");
  check_refusal("{\"type\":\"array\",\"minItems\":10001}", IJ_E_UNSUPPORTED, "#", "above 10000");
  check_refusal("{\"type\":\"array\",\"minItems\":4611686018427387904}", IJ_E_UNSUPPORTED, "#", "above 10000");
  check_refusal("{\"type\":\"array\",\"maxItems\":1e300}", IJ_E_UNSUPPORTED, "#", "above 10000");
  check_refusal("{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"string\",\"maxLength\":3}]}", IJ_E_UNSUPPORTED, "#/oneOf", "not told apart");
  check_refusal("{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"(a\"}}}", IJ_E_ARGUMENT, "#/properties/a/pattern", "not closed");
  check_refusal("{\"type\":\"string\",\"format\":\"regex\"}", IJ_E_UNSUPPORTED, "#/format", "cannot be enforced");
  check_refusal("{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", IJ_E_ARGUMENT, "#", "no value can satisfy");
  check_refusal("{\"type\":\"number\",\"minimum\":1e300}", IJ_E_UNSUPPORTED, "#/minimum", "64 bits");
  check_refusal("{\"type\":\"number\",\"maximum\":1e-30}", IJ_E_UNSUPPORTED, "#/maximum", "digits");
  check_refusal("{\"enum\":[1,{\"a\":[12345678901234567890]}]}", IJ_E_UNSUPPORTED, "#", "64 bits");
  check_refusal("{\"$ref\":\"#/$defs/a%00b\",\"$defs\":{\"a\":{}}}", IJ_E_ARGUMENT, "#/$ref", "no schema at this place");
  check_refusal("{\"properties\":{\"p\":{\"$id\":\"http://y/\",\"$ref\":\"#/$defs/q\",\"$defs\":{\"q\":{}}}},\"$defs\":{\"q\":{}}}", IJ_E_UNSUPPORTED,
                "#/properties/p/$ref", "$id");
  check_refusal("{\"allOf\":[{\"$ref\":\"#/$defs/q\",\"unevaluatedProperties\":false},{\"properties\":{\"b\":{}}}],\"$defs\":{\"q\":{\"properties\":{\"a\":{}}}}}",
                IJ_E_UNSUPPORTED, "#/allOf/0/unevaluatedProperties", "outermost");
  check_refusal("{\"properties\":{\"a\":{}},\"required\":[\"b\"],\"unevaluatedProperties\":false}", IJ_E_ARGUMENT, "#", "no value can satisfy");
  check_refusal("{\"type\":\"string\",\"maxLength\":2000000}", IJ_E_UNSUPPORTED, "#", "too large");
}

/* Long lists are read in linear time; what would have to be compared pair by pair is refused. */
static void test_long_enumerations(void) {
  enum { COUNT = 20000 };
  static const char middle[] = "]},{\"enum\":[";
  ij_buf one = {0}, two = {0};
  for (int i = 0; i < COUNT; i++) ij__buf_printf(&one, "%s%d", i ? "," : "{\"enum\":[", i);
  ij__buf_puts(&two, "{\"allOf\":[");
  ij__buf_append(&two, one.data, one.len);
  ij__buf_puts(&two, middle);
  for (int i = 0; i < COUNT; i++) ij__buf_printf(&two, "%s%d", i ? "," : "", i + COUNT);
  ij__buf_puts(&one, "]}");
  ij__buf_puts(&two, "]}]}");
  ij_grammar *g = json_grammar(one.data);
  CHECK(g && accepts(g, "0") && accepts(g, "19999") && !accepts(g, "20000"));
  ij_grammar_close(&g);
  check_refusal(two.data, IJ_E_UNSUPPORTED, "#", "too many values");
  ij__buf_free(&one);
  ij__buf_free(&two);
}

/* A value that would have to be too long is not one that cannot be: the refusal says which. Beside others it is left out. */
static void test_long_values(void) {
  ij_buf arrays = {0}, objects = {0}, choice = {0};
  for (int i = 0; i < 5; i++) ij__buf_puts(&arrays, "{\"type\":\"array\",\"minItems\":100,\"items\":");
  ij__buf_puts(&arrays, "{\"type\":\"boolean\"}}}}}}");
  ij__buf_puts(&objects, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d40\":{\"type\":\"null\"}");
  for (int i = 0; i < 40; i++) {
    ij__buf_printf(&objects, ",\"d%d\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/d%d\"},\"b\":{\"$ref\":\"#/$defs/d%d\"}},\"required\":[\"a\",\"b\"]}",
                   i, i + 1, i + 1);
  }
  ij__buf_puts(&objects, "}}");
  ij__buf_printf(&choice, "{\"properties\":{\"x\":%s,\"y\":{\"type\":\"null\"}}}", arrays.data);
  check_refusal(arrays.data, IJ_E_UNSUPPORTED, "#", "the shortest value would be too long");
  check_refusal(objects.data, IJ_E_UNSUPPORTED, "#", "the shortest value would be too long");
  check_texts(json_grammar(choice.data), "a long value or none", (const char *const[]){"+{\"y\":null}", "+{}", NULL});
  ij__buf_free(&arrays);
  ij__buf_free(&objects);
  ij__buf_free(&choice);
}

/* One expression may be dear, hundreds of them may not. */
static void test_many_expressions(void) {
  ij_buf schema = {0};
  for (int i = 0; i < 200; i++) {
    ij__buf_printf(&schema, "%s{\"pattern\":\"(a|b)*a(a|b){11}%d\",\"maxLength\":5}", i ? "," : "{\"anyOf\":[", i);
  }
  ij__buf_puts(&schema, "]}");
  check_refusal(schema.data, IJ_E_UNSUPPORTED, "#", "expressions");
  ij__buf_free(&schema);
}

/* No alternative is lost, however many begin alike; too many are refused. */
static void test_many_alternatives(void) {
  ij_buf schema = {0};
  for (int n = 500; n <= 520; n += 20) {
    schema.len = 0;
    for (int i = 0; i < n; i++) {
      ij__buf_printf(&schema, "%s{\"properties\":{\"k%d\":{\"type\":\"null\"}},\"required\":[\"k%d\"]}", i ? "," : "{\"anyOf\":[", i, i);
    }
    ij__buf_puts(&schema, "]}");
    if (n > 512) check_refusal(schema.data, IJ_E_UNSUPPORTED, "#", "alternatives");
    else check_texts(json_grammar(schema.data), "many alternatives", (const char *const[]){"+{\"k0\":null}", "+{\n\"k250\": null }", "+{\"k499\":null}", "-{\"k500\":null}", NULL});
  }
  ij__buf_free(&schema);
}

/* ------------------------------------------------------------------------------------------------------------- walking */

static const char *const walk_schemas[] = {
    "", "{}", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"t\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"city\",\"t\"]}",
    "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}},{\"type\":\"string\",\"minLength\":1,\"maxLength\":9}]}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[^0-9]{1,6}$\"}}", "{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":-3.5,\"maximum\":40}}",
    "{\"type\":\"object\",\"properties\":{\"l\":{\"$ref\":\"#\"},\"r\":{\"$ref\":\"#\"},\"v\":{\"type\":\"number\"}},\"required\":[\"v\"]}"};

static int32_t pick(ij_guide *guide, uint64_t *seed) {
  const uint32_t *mask = ij_guide_mask(guide);
  int32_t n_ids = ij_tokenizer_size(vocab), n = 0, found = -1;
  for (int32_t id = 0; id < n_ids; id++) {
    if (mask[id / 32] >> (id % 32) & 1 && test_random(seed) % (uint64_t)++n == 0) found = id;
  }
  return found;
}

/* Random ids for a while, then the way out: it must come, and at its end there is nothing but the end. */
static void walk(ij_guide *guide, uint64_t *seed, int n_random, const char *what) {
  for (int i = 0; i < 4000; i++) {
    int32_t id = i < n_random ? pick(guide, seed) : ij__guide_way_out(guide);
    if (id < 0 || !allowed(guide, id)) {
      TEST_FAIL("%s: step %d: %s", what, i, id < 0 ? "nothing is allowed" : "the way out is not allowed");
      return;
    }
    if (ij_guide_accept(guide, id, NULL) != IJ_OK) {
      TEST_FAIL("%s: step %d: an allowed id is refused", what, i);
      return;
    }
    if (id == end_turn) return;
  }
  TEST_FAIL("%s: no end", what);
}

static void test_walks(void) {
  uint64_t seed = 5;
  for (size_t s = 0; s < IJ_COUNT_OF(walk_schemas); s++) {
    ij_grammar *g = json_grammar(walk_schemas[s]);
    for (int i = 0; g && i < 40; i++) {
      ij_guide *guide = content_guide(g);
      walk(guide, &seed, i * 8, walk_schemas[s]);
      ij_guide_close(&guide);
    }
    ij_grammar_close(&g);
  }
}

/* A mask must allow exactly the tokens whose bytes can be accepted one by one. */
static void test_masks_are_exact(void) {
  uint64_t seed = 9;
  int32_t n_ids = ij_tokenizer_size(vocab);
  for (size_t s = 0; s < IJ_COUNT_OF(walk_schemas); s++) {
    ij_grammar *g = json_grammar(walk_schemas[s]);
    int32_t path[200];
    ij_guide *guide = g ? content_guide(g) : NULL;
    for (int n = 0; guide && n < 40; n++) {
      for (int32_t id = 0; id < n_ids; id++) {
        const char *bytes;
        size_t len;
        if (ij_is_special(vocab, id) || !ij_decode(vocab, id, false, &bytes, &len)) continue;
        ij_guide *probe = content_guide(g);
        bool ok = true;
        for (int i = 0; i < n; i++) CHECK(ij_guide_accept(probe, path[i], NULL) == IJ_OK);
        for (size_t i = 0; i < len && ok; i++) ok = ij_guide_accept(probe, byte_id((unsigned char)bytes[i]), NULL) == IJ_OK;
        if (ok != allowed(guide, id)) TEST_FAIL("%s: after %d tokens: id %d is %s", walk_schemas[s], n, id, ok ? "not allowed" : "allowed");
        ij_guide_close(&probe);
      }
      path[n] = pick(guide, &seed);
      CHECK(ij_guide_accept(guide, path[n], NULL) == IJ_OK);
      if (path[n] == end_message) break;
    }
    ij_guide_close(&guide);
    ij_grammar_close(&g);
  }
}

static void test_depth_is_bounded(void) {
  ij_grammar *g = json_grammar("{}");
  ij_guide *guide = content_guide(g);
  int depth = 0;
  while (depth < 1000 && allowed(guide, byte_id('[')) && ij_guide_accept(guide, byte_id('['), NULL) == IJ_OK) depth++;
  CHECK(depth > 100 && depth < 500);
  for (int32_t id = 0; id < ij_tokenizer_size(vocab); id++) {
    const char *bytes;
    size_t n;
    if (!ij_decode(vocab, id, false, &bytes, &n) || n == 0 || !allowed(guide, id)) continue;
    if (memchr(bytes, '[', n)) TEST_FAIL("id %d opens more brackets than can be closed", id);
  }
  uint64_t seed = 1;
  walk(guide, &seed, 0, "deep");
  ij_guide_close(&guide);
  ij_grammar_close(&g);
}

/* --------------------------------------------------------------------------------------------------------------- turns */

/* Spelled turns: <t> text, <k> think, <c> call, <e> end of message, <m> model, <z> end of turn; the rest are bytes. */
static int accepted_part(ij_guide *guide, const char *s) {
  static const char letters[] = "tkcemz";
  const int32_t controls[] = {text, think, call, end_message, model, end_turn};
  for (int at = 0; s[at];) {
    const char *control = s[at] == '<' && s[at + 2] == '>' ? strchr(letters, s[at + 1]) : NULL;
    int32_t id = control ? controls[control - letters] : byte_id((unsigned char)s[at]);
    bool may = allowed(guide, id);
    if (may != (ij_guide_accept(guide, id, NULL) == IJ_OK)) TEST_FAIL("mask and accept differ at %d of %s", at, s);
    if (!may) return at;
    at += control ? 3 : 1;
  }
  return (int)strlen(s);
}

static ij_guide *turn_guide(const ij_guide_options *o) {
  ij_guide *guide = NULL;
  ij_err err = {0};
  CHECK_OK(ij_guide_open(&guide, vocab, o, &err), err);
  return guide;
}

/* "!" in a spelled turn marks the place of the first refused id. */
static void check_turn(const ij_guide_options *o, const char *spelled) {
  char plain[512];
  ij_guide *guide = turn_guide(o);
  const char *bang = strchr(spelled, '!');
  snprintf(plain, sizeof plain, "%.*s%s", bang ? (int)(bang - spelled) : (int)strlen(spelled), spelled, bang ? bang + 1 : "");
  int want = bang ? (int)(bang - spelled) : (int)strlen(spelled), got = guide ? accepted_part(guide, plain) : -1;
  if (got != want) TEST_FAIL("%s: accepted up to %d, expected %d", spelled, got, want);
  ij_guide_close(&guide);
}

static void test_turns_with_content(void) {
  ij_grammar *g = json_grammar("{\"type\":\"integer\"}");
  ij_guide_options o = ij_guide_options_default();
  o.content = g;
  check_turn(&o, "<t>12<e><z><z>");
  check_turn(&o, "<k>free {text<e><m><k>more<e><m><t>5<e><z>");
  check_turn(&o, "<t>12<e>!<m><t>3");
  check_turn(&o, "<t>!x");
  check_turn(&o, "<t>!<e>");
  check_turn(&o, "<k>a<e>!<z>");
  check_turn(&o, "!name<c>");
  check_turn(&o, "<k>a!<z>");
  o.no_thinking = true;
  check_turn(&o, "!<k>a");
  check_turn(&o, "<t>1<e><z>");
  o.state = IJ_TURN_TEXT;
  check_turn(&o, "1<e><z>");
  o.state = IJ_TURN_THINK;
  ij_guide *guide = NULL;
  CHECK(ij_guide_open(&guide, vocab, &o, NULL) == IJ_E_ARGUMENT && !guide);
  o.no_thinking = false;
  check_turn(&o, "thought<e><m><t>1<e><z>");
  ij_grammar_close(&g);
}

static void test_turns_with_tools(void) {
  ij_grammar *args = json_grammar("{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"],\"additionalProperties\":false}"), *content = json_grammar("{\"type\":\"null\"}");
  const ij_guided_tool tools[] = {{"get", 3, NULL}, {"get_w", 5, args}};
  ij_guide_options o = ij_guide_options_default();
  o.tools = tools;
  o.n_tools = 2;
  check_turn(&o, "<t>free<e><m>get<c>{\"name\":\"get\",\"args\":{\"x\":1}}<e><m>get_w<c>{\"name\":\"get_w\",\"args\":{\"city\":\"P\"}}<e><z>");
  check_turn(&o, "get<c>{\"name\":\"get!_w\"");
  check_turn(&o, "ge!<c>");
  check_turn(&o, "get_w<c>{\"name\":\"get_w\",\"args\":!1");
  check_turn(&o, "get_w<c>{\"name\":\"get_w\",\"args\":{\"city\":\"P\"}!<e>");
  check_turn(&o, "!<c>");
  check_turn(&o, "<t>a<e><z>");
  check_turn(&o, "get<c>{\"name\":\"get\",\"args\":{}}<e><m><t>b<e><z>");
  o.parallel = false;
  check_turn(&o, "get<c>{\"name\":\"get\",\"args\":{}}<e>!<m>");
  check_turn(&o, "get<c>{\"name\":\"get\",\"args\":{}}<e><z>");
  o.tool_choice = IJ_TOOLS_REQUIRED;
  check_turn(&o, "!<t>");
  check_turn(&o, "<k>t<e>!<z>");
  check_turn(&o, "<k>t<e><m>get<c>{\"name\":\"get\",\"args\":{}}<e><z>");
  o.parallel = true;
  check_turn(&o, "get<c>{\"name\":\"get\",\"args\":{}}<e><m>get<c>{\"name\":\"get\",\"args\":{}}<e><z>");
  check_turn(&o, "get<c>{\"name\":\"get\",\"args\":{}}<e><m>!<t>");
  o.tool_choice = IJ_TOOLS_NONE;
  check_turn(&o, "!get");
  check_turn(&o, "<t>a<e><m><t>b<e><z>");
  o.tool_choice = IJ_TOOLS_AUTO;
  o.content = content;
  check_turn(&o, "<t>null<e>!<m>");
  check_turn(&o, "<k>x<e><m>get<c>{\"name\":\"get\",\"args\":{}}<e><m>!<t>");
  check_turn(&o, "get<c>{\"name\":\"get\",\"args\":{}}<e><m>get<c>{\"name\":\"get\",\"args\":{}}<e><z>");
  for (uint64_t seed = 1; seed < 60; seed++) {
    ij_guide *guide = turn_guide(&o);
    walk(guide, &(uint64_t){seed}, (int)seed * 2, "turn");
    ij_guide_close(&guide);
  }
  ij_grammar_close(&args);
  ij_grammar_close(&content);
}

static void test_free_turns(void) {
  ij_guide_options o = ij_guide_options_default();
  ij_guide *guide = turn_guide(&o);
  CHECK(ij_guide_mask(guide) == NULL);
  CHECK(ij_guide_accept(guide, call, NULL) == IJ_OK);
  CHECK(ij_guide_accept(guide, -1, NULL) == IJ_E_ARGUMENT);
  ij_guide_close(&guide);
  o.no_thinking = true;
  guide = turn_guide(&o);
  CHECK(!allowed(guide, think) && allowed(guide, call) && allowed(guide, byte_id('x')));
  CHECK(ij_guide_accept(guide, think, NULL) == IJ_E_ARGUMENT);
  ij_guide_close(&guide);
}

static void test_guide_refusals(void) {
  ij_guide *guide = NULL;
  ij_err err = {0};
  ij_grammar *number = json_grammar("{\"type\":\"integer\"}");
  ij_guide_options o = ij_guide_options_default();
  o.tool_choice = IJ_TOOLS_REQUIRED;
  CHECK(ij_guide_open(&guide, vocab, &o, &err) == IJ_E_ARGUMENT);
  const ij_guided_tool twice[] = {{"a", 1, NULL}, {"a", 1, NULL}}, unnamed = {"", 0, NULL}, scalar = {"a", 1, number};
  o.tools = twice;
  o.n_tools = 2;
  CHECK(ij_guide_open(&guide, vocab, &o, &err) == IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "same name");
  o.tools = &unnamed;
  o.n_tools = 1;
  CHECK(ij_guide_open(&guide, vocab, &o, &err) == IJ_E_ARGUMENT);
  o.tools = &scalar;
  CHECK(ij_guide_open(&guide, vocab, &o, &err) == IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "object");
  o = ij_guide_options_default();
  o.content = number;
  ij_tokenizer *bare = small_vocab(false);
  CHECK(ij_guide_open(&guide, bare, &o, &err) != IJ_OK && !guide);
  ij_tokenizer_close(&bare);
  ij_grammar_close(&number);
}

static void test_forced(void) {
  ij_grammar *g = json_grammar("{\"const\":\"zzq\"}");
  ij_guide *guide = content_guide(g);
  int32_t ids[32];
  int n = ij_guide_forced(guide, ids, 32);
  char spelled[64] = "";
  for (int i = 0; i < n; i++) {
    const char *bytes;
    size_t len;
    CHECK(ij_decode(vocab, ids[i], true, &bytes, &len));
    strncat(spelled, bytes, len);
  }
  CHECK_STR(spelled, "\"zzq\"<|end_message|><|content_model_end_sampling|>");
  CHECK_INT(ij_guide_forced(guide, ids, 2), 2);
  for (int i = 0; i < 2; i++) CHECK(ij_guide_accept(guide, ids[i], NULL) == IJ_OK);
  CHECK_INT(ij_guide_forced(guide, ids, 32), n - 2);
  ij_guide_close(&guide);
  ij_grammar_close(&g);
}

/* Whatever allocation fails, there is a status or an end, and nothing is left behind. */
/* Looking ahead leaves the position as it was, even when it makes the frames too many. With bytes as the only tokens much is forced. */
static void test_forced_changes_nothing(void) {
  static const char schema[] =
      "{\"$defs\":{\"l\":{\"properties\":{\"l\":{\"anyOf\":[{\"$ref\":\"#/$defs/l\"},{\"type\":\"array\",\"maxItems\":9000,\"items\":{\"properties\":"
      "{\"zq\":{\"const\":7}},\"required\":[\"zq\"]}}]},\"a\":{\"const\":1}},\"required\":[\"l\",\"a\"]}},\"$ref\":\"#/$defs/l\"}";
  static const char begin[] = "{ \"l\": ", item[] = "{\"zq\":7},", end[] = ",\"a\":1 }";
  ij_tokenizer *bytes = bytes_tokenizer(NULL);
  ij_grammar *g = NULL;
  ij_guide_options o = ij_guide_options_default();
  ij_err err = {0};
  CHECK_OK(ij_grammar_json(&g, bytes, schema, sizeof schema - 1, &err), err);
  o.state = IJ_TURN_TEXT;
  o.content = g;
  for (int levels = 20; levels < 32; levels++) { /* the limit is met at different places of an item */
    ij_guide *guide = NULL;
    ij_buf all = {0};
    int32_t ids[64];
    CHECK_OK(ij_guide_open(&guide, bytes, &o, &err), err);
    for (int i = 0; i < levels; i++) ij__buf_puts(&all, begin);
    ij__buf_puts(&all, "[");
    for (int i = 0; i < 1500; i++) ij__buf_puts(&all, item);
    ij__buf_puts(&all, "{\"zq\":7}]");
    for (int i = 0; i < levels; i++) ij__buf_puts(&all, end);
    bool ok = true;
    for (size_t i = 0; i < all.len && ok; i++) {
      int n = ij_guide_forced(guide, ids, 64);
      ok = (n == 0 || ids[0] == all.data[i]) && ij_guide_accept(guide, all.data[i], NULL) == IJ_OK;
      if (!ok) TEST_FAIL("%d levels: byte %zu of %zu is refused", levels, i, all.len);
    }
    if (ok) CHECK(ij_guide_accept(guide, ij_find_special(bytes, "<|end_message|>"), NULL) == IJ_OK);
    ij__buf_free(&all);
    ij_guide_close(&guide);
  }
  ij_grammar_close(&g);
  ij_tokenizer_close(&bytes);
}

static void test_no_memory(void) {
  static const char schema[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":3},\"b\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#\"}]}}}";
  ij_grammar *keep = json_grammar("");
  int64_t blocks = ij__alloc_blocks();
  for (int64_t n = 1;; n += 1 + n / 16) {
    ij_grammar *g = NULL;
    ij_guide *guide = NULL;
    ij_guide_options o = ij_guide_options_default();
    o.state = IJ_TURN_TEXT;
    ij__alloc_fail_after(n);
    ij_status status = ij_grammar_json(&g, vocab, schema, sizeof schema - 1, NULL);
    o.content = g;
    if (status == IJ_OK) status = ij_guide_open(&guide, vocab, &o, NULL);
    for (const char *s = "{\"a\":\"x\"}"; *s && status == IJ_OK; s++) {
      CHECK(ij_guide_mask(guide) != NULL);
      status = ij_guide_accept(guide, byte_id((unsigned char)*s), NULL);
    }
    ij__alloc_fail_after(0);
    if (status != IJ_OK && status != IJ_E_NOMEM) TEST_FAIL("allocation %lld: %s", (long long)n, ij_status_name(status));
    ij_guide_close(&guide);
    ij_grammar_close(&g);
    if (status == IJ_OK) break;
    if (n > 1000000) {
      TEST_FAIL("no end of allocations");
      break;
    }
  }
  CHECK(ij__alloc_blocks() >= blocks);
  ij_grammar_close(&keep);
}

int main(void) {
  vocab = small_vocab(true);
  if (!vocab) return 1;
  end_message = ij_find_special(vocab, "<|end_message|>");
  end_turn = ij_find_special(vocab, "<|content_model_end_sampling|>");
  model = ij_find_special(vocab, "<|message_model|>");
  text = ij_find_special(vocab, "<|content_text|>");
  think = ij_find_special(vocab, "<|content_thinking|>");
  call = ij_find_special(vocab, "<|content_invoke_tool_json|>");
  RUN(test_forced_changes_nothing); /* its vocabulary lives as long as the program */
  int64_t blocks = ij__alloc_blocks();
  RUN(test_json_values);
  RUN(test_objects);
  RUN(test_arrays);
  RUN(test_combinations);
  RUN(test_texts_and_numbers);
  RUN(test_expressions);
  RUN(test_nul_in_expressions);
  RUN(test_refusals);
  if (TEST_EMULATED(true, false)) { /* long texts through the same code */
    RUN(test_long_enumerations);
    RUN(test_long_values);
    RUN(test_many_expressions);
  }
  RUN(test_many_alternatives);
  RUN(test_walks);
  RUN(test_masks_are_exact);
  RUN(test_depth_is_bounded);
  RUN(test_turns_with_content);
  RUN(test_turns_with_tools);
  RUN(test_free_turns);
  RUN(test_guide_refusals);
  RUN(test_forced);
  RUN(test_no_memory);
  CHECK_INT(ij__alloc_blocks(), blocks);
  ij_tokenizer_close(&vocab);
  return test_report();
}
