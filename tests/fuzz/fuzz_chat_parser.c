/* fuzz_chat_parser.c: any ids as an answer. Events are in order and whole characters, calls that begin end, well-formed ones are JSON, and
 * the text of an answer without control tokens comes out whole. */
#include <stdlib.h>

#include "chat/answer.h"
#include "chat/bytes_tokenizer.h"
#include "core/alloc.h"
#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

/* Whole UTF-8 characters. */
static bool is_text(const char *bytes, size_t n) {
  ij_buf quoted = {0};
  ij_json *doc = NULL;
  ij__json_quote(&quoted, bytes, n);
  bool ok = ij__json_parse(&doc, quoted.data, quoted.len, "", NULL) == IJ_OK;
  ij__json_free(&doc);
  ij__buf_free(&quoted);
  return ok;
}

static void on_event(void *user, const ij_event *e) {
  must(e->bytes != NULL);
  must(e->kind == IJ_EVENT_NOTE || is_text(e->bytes, e->n_bytes));
  must(e->n_bytes > 0 || e->kind == IJ_EVENT_CALL_END);
  answer_event(user, e);
}

static int parse(ij_tokenizer *t, answer *a, const uint8_t *data, size_t size, ij_turn_state state) {
  ij_parser *p = NULL;
  ij_err err = {0};
  must(ij_parser_open(&p, t, state, on_event, a, &err) == IJ_OK);
  for (size_t i = 0; i < size; i++) { /* 0xFF, which no text holds, makes the next byte choose a control token */
    bool control = data[i] == 0xFF && i + 1 < size;
    int32_t id = control ? 256 + data[++i] % (int)IJ_COUNT_OF(bytes_specials) : data[i];
    must(ij_parser_push(p, id, &err) == IJ_OK);
  }
  must(ij_parser_finish(p, ij_parser_done(p) ? IJ_TURN_END : IJ_TURN_LENGTH, &err) == IJ_OK);
  int n_calls = ij_parser_n_calls(p);
  must(ij_parser_n_reasoning(p) <= (int64_t)size);
  ij_parser_close(&p);
  return n_calls;
}

static void check_calls(const answer *a, int n_well_formed) {
  int n = 0;
  for (int i = 0; i < a->n_calls && i < ANSWER_CALLS; i++) {
    const answer_call *c = &a->calls[i];
    ij_json *doc = NULL;
    must(c->n_begins == 1 && c->n_ends == 1 && c->name.len > 0);
    if (!c->well_formed) continue;
    n++;
    must(ij__json_parse_exact(&doc, c->arguments.data, c->arguments.len, "", NULL) == IJ_OK);
    must(ij__json_type_of(ij__json_root(doc)) == IJ_JSON_OBJECT);
    ij__json_free(&doc);
  }
  must(a->n_calls > ANSWER_CALLS || n == n_well_formed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ij_tokenizer *t;
  if (!t) t = bytes_tokenizer(NULL);
  if (size == 0) return 0;
  answer a = {.in_order = true};
  int64_t blocks = ij__alloc_blocks();
  int n_well_formed = parse(t, &a, data + 1, size - 1, (ij_turn_state)(data[0] % 3));
  must(a.in_order);
  check_calls(&a, n_well_formed);
  if (!memchr(data + 1, 0xFF, size - 1) && is_text((const char *)data + 1, size - 1)) {
    const ij_buf *out = data[0] % 3 == IJ_TURN_THINK ? &a.reasoning : &a.content;
    must(out->len == size - 1 && (size == 1 || memcmp(out->data, data + 1, size - 1) == 0));
  }
  answer_free(&a);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
