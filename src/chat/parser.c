/* parser.c: sampled ids to reasoning, content and tool calls.
 *
 * A state machine over ids: only a control id changes what text means, and text that spells one is text. Whatever the model says comes
 * out as an event; where it left the format, a note says how that was read.
 */
#include <stdio.h>
#include <string.h>

#include "chat/call.h"
#include "chat/chat_int.h"
#include "core/alloc.h"
#include "core/status.h"
#include "io/json.h"

typedef enum place { IN_HEADER, IN_TEXT, IN_THINK, IN_CALL, BETWEEN } place;

struct ij_parser {
  const ij_tokenizer *tokenizer;
  int32_t controls[IJ_CHAT_N_CONTROLS];
  ij_on_event on_event;
  void *user;
  place place;
  bool done, finished, failed;   /* an end id came; everything held is out; there was no memory */
  ij_text_stream stream;
  ij_buf header;                 /* text since the last <|message_model|>, held until it is known what it is */
  ij_call call;
  bool call_begun;               /* CALL_BEGIN of the call at hand is out */
  size_t args_given;             /* bytes of the payload that are out as arguments, as an offset */
  int n_calls_seen, n_calls;
  int64_t n_reasoning;
};

/* --- events */

static void emit(ij_parser *p, ij_event_kind kind, const char *bytes, size_t n) {
  const ij_event event = {.kind = kind, .call = p->n_calls_seen, .bytes = bytes ? bytes : "", .n_bytes = n};
  p->on_event(p->user, &event);
}

/* what, and the text it is about. */
static void note(ij_parser *p, const char *what, const char *bytes, size_t n) {
  char text[256], shown[100];
  ij__json_show(shown, sizeof shown, bytes, n);
  int len = snprintf(text, sizeof text, "%s: %s", what, shown);
  emit(p, IJ_EVENT_NOTE, text, (size_t)len);
}

static void note_plain(ij_parser *p, const char *what) { emit(p, IJ_EVENT_NOTE, what, strlen(what)); }

/* --- calls */

/* The header's text without the white space around it: a name for a payload that has none. */
static void header_name(const ij_parser *p, const char **bytes, size_t *n) {
  *bytes = p->header.data ? p->header.data : "";
  *n = p->header.len;
  ij__chat_trim(bytes, n);
}

static void begin_call(ij_parser *p, const char *name, size_t n) {
  emit(p, IJ_EVENT_CALL_BEGIN, name, n);
  p->call_begun = true;
}

static void give_arguments(ij_parser *p, size_t end) {
  if (end <= p->args_given) return;
  emit(p, IJ_EVENT_CALL_ARGUMENTS, p->call.payload.data + p->args_given, end - p->args_given);
  p->args_given = end;
}

static void push_call(ij_parser *p, const char *bytes, size_t n) {
  const ij_call *c = &p->call;
  if (!ij__call_push(&p->call, bytes, n)) {
    p->failed = true;
    return;
  }
  if (c->has_name && !p->call_begun) begin_call(p, c->name.data, c->name.len);
  if (!p->call_begun || c->args_begin == IJ_CALL_NOWHERE) return;
  p->args_given = IJ_MAX(p->args_given, c->args_begin);
  give_arguments(p, c->args_end != IJ_CALL_NOWHERE ? c->args_end : c->payload.len);
}

static void finish_call(ij_parser *p) {
  const ij_call *c = &p->call;
  const char *name;
  size_t n;
  header_name(p, &name, &n);
  const char *fault = ij__call_fault(c, n == 0);
  if (c->has_name && n > 0 && (n != c->name.len || memcmp(name, c->name.data, n) != 0)) {
    note(p, "the header of a call names another function than its payload, which counts", name, n);
  }
  if (fault) {
    note_plain(p, fault);
    note(p, "that was the payload of a malformed call", c->payload.data, c->payload.len);
  } else if (c->n_others) {
    note(p, "members of a call beside \"name\" and \"args\" were left out", c->payload.data, c->payload.len);
  }
  if (!p->call_begun && n == 0) {
    if (c->payload.len) emit(p, IJ_EVENT_CONTENT, c->payload.data, c->payload.len);
    note_plain(p, "a call without the name of a function was read as content");
    return;
  }
  if (!p->call_begun) begin_call(p, name, n);
  if (c->args_begin == IJ_CALL_NOWHERE) { /* everything rather than nothing */
    p->args_given = 0;
    give_arguments(p, c->payload.len);
  } else {
    p->args_given = IJ_MAX(p->args_given, c->args_begin);
    give_arguments(p, c->args_end != IJ_CALL_NOWHERE ? c->args_end : c->payload.len);
  }
  const ij_event end = {.kind = IJ_EVENT_CALL_END, .call = p->n_calls_seen, .well_formed = !fault, .bytes = ""};
  p->on_event(p->user, &end);
  p->n_calls_seen++;
  p->n_calls += !fault;
}

/* --- text */

static void push_text(ij_parser *p, const char *bytes, size_t n) {
  if (n == 0) return;
  switch (p->place) {
    case IN_HEADER:
      ij__buf_append(&p->header, bytes, n);
      p->failed |= p->header.failed;
      break;
    case IN_THINK: emit(p, IJ_EVENT_REASONING, bytes, n); break;
    case IN_CALL: push_call(p, bytes, n); break;
    case BETWEEN:
      note(p, "text outside of a block was read as content", bytes, n);
      p->place = IN_TEXT;
      emit(p, IJ_EVENT_CONTENT, bytes, n);
      break;
    case IN_TEXT: emit(p, IJ_EVENT_CONTENT, bytes, n); break;
  }
}

static void push_bytes(ij_parser *p, const char *bytes, size_t n) {
  char out[3 * (256 + 3)];
  while (n > 0 && !p->failed) {
    size_t part = IJ_MIN(n, (size_t)256);
    size_t len = ij_text_stream_push(&p->stream, bytes, part, out);
    push_text(p, out, len);
    bytes += part;
    n -= part;
  }
}

/* An unfinished character before a control id becomes U+FFFD. */
static void flush_stream(ij_parser *p) {
  char out[3];
  size_t n = ij_text_stream_flush(&p->stream, out);
  push_text(p, out, n);
}

/* --- control ids */

static void header_to_content(ij_parser *p) {
  if (p->header.len == 0) return;
  emit(p, IJ_EVENT_CONTENT, p->header.data, p->header.len);
  note(p, "text in a header that no block followed was read as content", p->header.data, p->header.len);
  p->header.len = 0;
}

static void drop_header(ij_parser *p) {
  if (p->header.len) note(p, "text in the header of a block that takes no name was left out", p->header.data, p->header.len);
  p->header.len = 0;
}

/* Leaves the block at hand, with everything it held. */
static void leave(ij_parser *p, bool header_is_content) {
  if (p->place == IN_CALL) finish_call(p);
  if (p->place != IN_HEADER) p->header.len = 0;
  else if (header_is_content) header_to_content(p);
}

static bool is_control(const ij_parser *p, int32_t id, ij_chat_control c) { return id == p->controls[c]; }

static void enter_call(ij_parser *p) {
  if (p->place == IN_CALL) finish_call(p);
  if (p->place != IN_HEADER) p->header.len = 0; /* else its text is the name */
  ij__call_reset(&p->call);
  p->call_begun = false;
  p->args_given = 0;
  p->place = IN_CALL;
}

static void enter(ij_parser *p, place to) {
  leave(p, false);
  drop_header(p);
  p->place = to;
}

static bool ends_turn(const ij_parser *p, int32_t id) {
  return is_control(p, id, IJ_CHAT_END_TURN) || is_control(p, id, IJ_CHAT_END_OF_TEXT) || is_control(p, id, IJ_CHAT_USER) ||
         is_control(p, id, IJ_CHAT_SYSTEM) || is_control(p, id, IJ_CHAT_TOOL);
}

static void push_control(ij_parser *p, int32_t id) {
  const char *name;
  size_t n;
  flush_stream(p);
  if (is_control(p, id, IJ_CHAT_TEXT)) {
    enter(p, IN_TEXT);
  } else if (is_control(p, id, IJ_CHAT_THINKING)) {
    enter(p, IN_THINK);
  } else if (is_control(p, id, IJ_CHAT_CALL)) {
    enter_call(p);
  } else if (is_control(p, id, IJ_CHAT_CALL_TEXT) || is_control(p, id, IJ_CHAT_TOOL_ERROR)) {
    enter(p, IN_TEXT);
    note_plain(p, "a block of a kind that is not read was read as content");
  } else if (is_control(p, id, IJ_CHAT_END)) {
    leave(p, true);
    p->place = BETWEEN;
  } else if (is_control(p, id, IJ_CHAT_MODEL)) {
    leave(p, true);
    p->place = IN_HEADER;
  } else if (ends_turn(p, id)) {
    leave(p, true);
    p->place = BETWEEN;
    p->done = true;
    if (!is_control(p, id, IJ_CHAT_END_TURN)) note_plain(p, "a control token of another turn ended this one");
  } else if (ij_decode(p->tokenizer, id, true, &name, &n)) {
    note(p, "a control token that has no place in an answer was left out", name, n);
  }
}

/* --- public */

ij_status ij_parser_open(ij_parser **out, const ij_tokenizer *tokenizer, ij_turn_state state, ij_on_event on_event, void *user, ij_err *err) {
  static const ij_chat_control needed[] = {IJ_CHAT_MODEL, IJ_CHAT_TEXT, IJ_CHAT_END, IJ_CHAT_END_TURN};
  if (!out || !on_event) return ij__fail(err, IJ_E_ARGUMENT, "ij_parser_open", "out and on_event must not be NULL");
  *out = NULL;
  if (!tokenizer) return ij__fail(err, IJ_E_ARGUMENT, "ij_parser_open", "there is no tokenizer (a checkpoint may come without one)");
  if (state != IJ_TURN_HEADER && state != IJ_TURN_TEXT && state != IJ_TURN_THINK) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_parser_open", "state %d is none", (int)state);
  }
  ij_parser *p = ij__alloc_zero(1, sizeof *p);
  if (!p) return ij__fail_nomem(err, "a parser", sizeof *p);
  p->tokenizer = tokenizer;
  p->on_event = on_event;
  p->user = user;
  p->place = state == IJ_TURN_TEXT ? IN_TEXT : state == IJ_TURN_THINK ? IN_THINK : IN_HEADER;
  for (int c = 0; c < IJ_CHAT_N_CONTROLS; c++) p->controls[c] = ij__chat_find(tokenizer, (ij_chat_control)c);
  for (size_t i = 0; i < IJ_COUNT_OF(needed); i++) {
    if (p->controls[needed[i]] >= 0) continue;
    ij__free(p);
    return ij__chat_fail_control(needed[i], "answers are made of", err);
  }
  *out = p;
  return IJ_OK;
}

void ij_parser_close(ij_parser **parser) {
  if (!parser || !*parser) return;
  ij__buf_free(&(*parser)->header);
  ij__call_free(&(*parser)->call);
  ij__free(*parser);
  *parser = NULL;
}

static ij_status fail_memory(const ij_parser *p, ij_err *err) {
  return ij__fail_nomem(err, "an answer", p->header.len + p->call.payload.len);
}

ij_status ij_parser_push(ij_parser *p, int32_t id, ij_err *err) {
  const char *bytes;
  size_t n;
  if (p->failed) return fail_memory(p, err);
  if (p->done || p->finished) return IJ_OK;
  if (!ij_decode(p->tokenizer, id, false, &bytes, &n)) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_parser_push", "the vocabulary has no token %d", id);
  }
  if (ij_is_special(p->tokenizer, id)) {
    push_control(p, id);
  } else {
    p->n_reasoning += p->place == IN_THINK;
    push_bytes(p, bytes, n);
  }
  return p->failed ? fail_memory(p, err) : IJ_OK;
}

ij_status ij_parser_finish(ij_parser *p, ij_turn_end end, ij_err *err) {
  if (end != IJ_TURN_END && end != IJ_TURN_LENGTH) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_parser_finish", "expected IJ_TURN_END or IJ_TURN_LENGTH, found %d", (int)end);
  }
  if (!p->finished && !p->done && !p->failed) {
    flush_stream(p);
    leave(p, true);
    p->place = BETWEEN;
  }
  p->finished = true;
  return p->failed ? fail_memory(p, err) : IJ_OK;
}

bool ij_parser_done(const ij_parser *p) { return p->done; }
bool ij_parser_in_content(const ij_parser *p) { return p->place == IN_TEXT || p->place == BETWEEN; }
int64_t ij_parser_n_reasoning(const ij_parser *p) { return p->n_reasoning; }
int ij_parser_n_calls(const ij_parser *p) { return p->n_calls; }
