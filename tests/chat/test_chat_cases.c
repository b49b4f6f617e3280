/* test_chat_cases.c: the recorded conversations and model outputs, against the real vocabulary. test_chat_cases RANKS CASES OUTPUTS...
 *
 * Leaves with 77 (skipped) when the ranks are not there: scripts/fetch-vocab.sh fetches them.
 */
#include "chat/answer.h"
#include "chat/bytes_tokenizer.h"
#include "chat/request.h"
#include "inkjet_chat.h"
#include "io/json.h"
#include "test.h"

static ij_tokenizer *tok;        /* of the test at hand */
static const ij_json_value *file; /* the cases of the test at hand */
static const char *label;         /* the name of the case at hand */

static const char *text_of(const ij_json_value *v, size_t *n) {
  const char *s = "";
  *n = 0;
  ij__json_get_string(v, &s, n);
  return s;
}

static void check_same(const char *what, const ij_buf *got, const ij_json_value *want) {
  size_t n;
  const char *text = text_of(want, &n);
  if (got->len != n || (n && memcmp(got->data, text, n) != 0)) {
    TEST_FAIL("%s: %s is \"%.*s\", expected \"%s\"", label, what, (int)got->len, got->data ? got->data : "", text);
  }
}

/* --- prompts */

static void check_segments(const ij_prompt *p, const ij_json_value *want) {
  ij_json_iter it = {0};
  const ij_json_value *pair;
  CHECK_INT(ij_prompt_n_segments(p), ij__json_size(want));
  for (int i = 0; i < ij_prompt_n_segments(p) && ij__json_next(want, &it, NULL, NULL, &pair); i++) {
    ij_segment s = ij_prompt_segment(p, i);
    ij_json_iter in = {0};
    const ij_json_value *kind, *text;
    size_t n;
    if (!ij__json_next(pair, &in, NULL, NULL, &kind) || !ij__json_next(pair, &in, NULL, NULL, &text)) return;
    const ij_buf got = {(char *)(uintptr_t)s.bytes, s.n_bytes, 0, false};
    if ((text_of(kind, &n)[0] == 't') != (s.kind == IJ_SEGMENT_TEXT)) TEST_FAIL("%s: segment %d has another kind", label, i);
    if (s.kind != IJ_SEGMENT_TEXT && ij_prompt_ids(p)[s.first] != s.id) TEST_FAIL("%s: segment %d has another id", label, i);
    check_same("segment", &got, text);
  }
}

static void check_ids(const ij_prompt *p, const ij_json_value *want) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  CHECK_INT(ij_prompt_n_ids(p), ij__json_size(want));
  for (int64_t i = 0, id; i < ij_prompt_n_ids(p) && ij__json_next(want, &it, NULL, NULL, &v); i++) {
    if (!ij__json_get_int(v, &id) || id != ij_prompt_ids(p)[i]) TEST_FAIL("%s: id %lld is %d", label, (long long)i, ij_prompt_ids(p)[i]);
  }
}

static void check_prompt(const ij_json_value *c, bool with_ids) {
  ij_prompt *p = NULL;
  ij_err err = {0};
  bool must_fail = false;
  ij_buf rendered = {0};
  ij_status s = render_request(&p, tok, ij__json_member(c, "request"), &err);
  ij__json_get_bool(ij__json_member(c, "error"), &must_fail);
  if (must_fail) {
    CHECK_INT(s, strstr(err.message, "a video") ? IJ_E_UNSUPPORTED : IJ_E_ARGUMENT);
    CHECK(!p && err.where[0] && err.message[0]);
    return;
  }
  if (s != IJ_OK) {
    TEST_FAIL("%s: %s: %s", label, err.where, err.message);
    return;
  }
  rendered_text(&rendered, p);
  check_same("rendered", &rendered, ij__json_member(c, "rendered"));
  check_segments(p, ij__json_member(c, "segments"));
  if (with_ids) check_ids(p, ij__json_member(c, "ids"));
  ij__buf_free(&rendered);
  ij_prompt_close(&p);
}

static int each_case(void (*check)(const ij_json_value *c, bool real), bool real) {
  ij_json_iter it = {0};
  const ij_json_value *c;
  size_t n;
  int count = 0;
  for (; ij__json_next(file, &it, NULL, NULL, &c); count++) {
    label = text_of(ij__json_member(c, "name"), &n);
    check(c, real);
  }
  return count;
}

/* --- outputs */

/* Appends the ids of a text; special: control tokens are spelled in it. */
static size_t add_ids(const char *text, size_t n, bool special, int32_t *ids, size_t at, size_t cap) {
  size_t n_ids = 0;
  ij_err err;
  CHECK_OK(ij_encode(tok, text, n, special, ids + at, cap - at, &n_ids, &err), err);
  CHECK(n_ids <= cap - at);
  return IJ_MIN(at + n_ids, cap);
}

/* The ids of an output: a text in which control tokens are spelled, or a list of ["s", token] and ["t", text]. */
static size_t ids_of(const ij_json_value *output, int32_t *ids, size_t cap) {
  ij_json_iter it = {0}, in;
  const ij_json_value *pair, *kind, *text;
  size_t n, at = 0;
  const char *bytes = text_of(output, &n);
  if (ij__json_type_of(output) == IJ_JSON_STRING) return add_ids(bytes, n, true, ids, 0, cap);
  while (ij__json_next(output, &it, NULL, NULL, &pair)) {
    in = (ij_json_iter){0};
    if (!ij__json_next(pair, &in, NULL, NULL, &kind) || !ij__json_next(pair, &in, NULL, NULL, &text)) return 0;
    bool special = text_of(kind, &n)[0] == 's';
    bytes = text_of(text, &n);
    at = add_ids(bytes, n, special, ids, at, cap);
  }
  return at;
}

static void check_calls(const answer *a, const ij_json_value *want) {
  ij_json_iter it = {0};
  const ij_json_value *c;
  CHECK_INT(a->n_calls, ij__json_size(want));
  for (int i = 0; i < a->n_calls && ij__json_next(want, &it, NULL, NULL, &c); i++) {
    bool malformed = false;
    ij__json_get_bool(ij__json_member(c, "malformed"), &malformed);
    check_same("name", &a->calls[i].name, ij__json_member(c, "name"));
    check_same("arguments", &a->calls[i].arguments, ij__json_member(c, "arguments"));
    if (a->calls[i].well_formed == malformed || a->calls[i].n_ends != 1 || a->calls[i].n_begins != 1) {
      TEST_FAIL("%s: call %d: well-formed %d, begun %d, ended %d", label, i, a->calls[i].well_formed, a->calls[i].n_begins, a->calls[i].n_ends);
    }
    if (malformed && a->n_notes == 0) TEST_FAIL("%s: no note tells of a malformed call", label);
  }
}

static ij_turn_state state_of(const ij_json_value *c) {
  size_t n;
  const char *state = text_of(ij__json_member(c, "state"), &n);
  return strcmp(state, "text") == 0 ? IJ_TURN_TEXT : strcmp(state, "think") == 0 ? IJ_TURN_THINK : IJ_TURN_HEADER;
}

/* Parses the first n ids; finish: says that it was cut, unless an end id was among them. Returns that one was. */
static bool parse(answer *a, ij_turn_state state, const int32_t *ids, size_t n, bool finish, int *n_calls) {
  ij_parser *p = NULL;
  ij_err err = {0};
  answer_free(a);
  CHECK_OK(ij_parser_open(&p, tok, state, answer_event, a, &err), err);
  for (size_t i = 0; i < n; i++) CHECK_OK(ij_parser_push(p, ids[i], &err), err);
  bool done = ij_parser_done(p);
  if (finish) CHECK_OK(ij_parser_finish(p, done ? IJ_TURN_END : IJ_TURN_LENGTH, &err), err);
  *n_calls = ij_parser_n_calls(p);
  ij_parser_close(&p);
  return done;
}

static bool is_prefix(const ij_buf *part, const ij_buf *whole) {
  return part->len <= whole->len && (part->len == 0 || memcmp(part->data, whole->data, part->len) == 0);
}

/* What is out after any number of ids is a prefix of what is out at the end: nothing that was streamed is ever taken back. And a cut at
 * any id ends every call that was begun. */
static void check_prefixes(const answer *whole, ij_turn_state state, const int32_t *ids, size_t n) {
  answer part = {.in_order = true};
  int n_calls;
  for (size_t k = 0; k <= n; k++) {
    parse(&part, state, ids, k, false, &n_calls);
    bool ok = part.in_order && is_prefix(&part.reasoning, &whole->reasoning) && is_prefix(&part.content, &whole->content);
    ok &= part.n_calls <= whole->n_calls && is_prefix(&part.notes, &whole->notes);
    for (int i = 0; ok && i < part.n_calls; i++) {
      ok = is_prefix(&part.calls[i].name, &whole->calls[i].name) && is_prefix(&part.calls[i].arguments, &whole->calls[i].arguments);
    }
    if (!ok) TEST_FAIL("%s: what %zu of %zu ids gave is no prefix of the whole", label, k, n);
    parse(&part, state, ids, k, true, &n_calls);
    for (int i = 0; i < part.n_calls; i++) CHECK_INT(part.calls[i].n_ends, 1);
    CHECK(part.in_order);
  }
  answer_free(&part);
}

static void check_output(const ij_json_value *c, bool with_prefixes) {
  static int32_t ids[4096];
  answer a = {.in_order = true};
  int n_calls = 0;
  const ij_json_value *want = ij__json_member(c, "expected");
  size_t n_ids = ids_of(ij__json_member(c, "output"), ids, IJ_COUNT_OF(ids));
  bool done = parse(&a, state_of(c), ids, n_ids, true, &n_calls);
  check_same("reasoning", &a.reasoning, ij__json_member(want, "reasoning_content"));
  check_same("content", &a.content, ij__json_member(want, "content"));
  check_calls(&a, ij__json_member(want, "tool_calls"));
  const char *finish = !done ? "length" : n_calls > 0 ? "tool_calls" : "stop";
  const ij_buf got = {(char *)(uintptr_t)finish, strlen(finish), 0, false};
  check_same("finish_reason", &got, ij__json_member(want, "finish_reason"));
  CHECK(a.in_order);
  int64_t n_notes = 0;
  if (ij__json_get_int(ij__json_member(c, "notes"), &n_notes) && n_notes != a.n_notes) {
    TEST_FAIL("%s: %d notes, expected %lld:\n%s", label, a.n_notes, (long long)n_notes, a.notes.data ? a.notes.data : "");
  }
  if (with_prefixes) check_prefixes(&a, state_of(c), ids, n_ids);
  answer_free(&a);
}

static int n_real;

static void prompts_of_the_family(void) { CHECK_INT(each_case(check_prompt, true), n_real); }
static void prompts_of_a_shortened_vocabulary(void) { CHECK_INT(each_case(check_prompt, false), n_real); }
static void outputs(void) { CHECK_INT(each_case(check_output, true), n_real); }

static ij_json *load(const char *path) {
  ij_json *doc = NULL;
  ij_err err = {0};
  FILE *f = fopen(path, "rb");
  static char bytes[1 << 20];
  if (!f) return NULL;
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  CHECK_OK(ij__json_parse_exact(&doc, bytes, n, path, &err), err);
  file = ij__json_root(doc);
  n_real = (int)ij__json_size(file);
  return doc;
}

int main(int argc, char **argv) {
  ij_err err = {0};
  FILE *ranks = argc >= 4 ? fopen(argv[1], "rb") : NULL;
  if (!ranks) {
    printf("skipped: usage: %s RANKS CASES OUTPUTS...; scripts/fetch-vocab.sh fetches the ranks\n", argv[0]);
    return 77;
  }
  fclose(ranks);
  ij_tokenizer *real = NULL, *bytes = bytes_tokenizer(NULL);
  CHECK_OK(ij_tokenizer_open(&real, argv[1], &err), err);
  if (!real) return 1;
  ij_json *doc = load(argv[2]);
  CHECK(n_real >= 81);
  tok = real;
  RUN(prompts_of_the_family);
  tok = bytes;
  RUN(prompts_of_a_shortened_vocabulary);
  ij__json_free(&doc);
  for (int i = 3; i < argc; i++) {
    doc = load(argv[i]);
    CHECK(n_real >= 25);
    tok = real;
    RUN(outputs);
    tok = bytes;
    RUN(outputs);
    ij__json_free(&doc);
  }
  ij_tokenizer_close(&real);
  ij_tokenizer_close(&bytes);
  return test_report();
}
