/* call.c: see call.h. */
#include "chat/call.h"

#include <string.h>

#include "io/json.h"

void ij__call_reset(ij_call *c) {
  ij_buf payload = c->payload, name = c->name; /* the memory stays */
  payload.len = name.len = 0;
  *c = (ij_call){.payload = payload, .name = name, .args_begin = IJ_CALL_NOWHERE, .args_end = IJ_CALL_NOWHERE};
}

void ij__call_free(ij_call *c) {
  ij__buf_free(&c->payload);
  ij__buf_free(&c->name);
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* The text of a JSON string with its quotes, decoded into out; false when it is none, or without memory. */
static bool decode_string(ij_buf *out, const char *bytes, size_t n) {
  ij_json *doc = NULL;
  const char *text;
  size_t n_text;
  out->len = 0;
  if (ij__json_parse(&doc, bytes, n, "", NULL) != IJ_OK) return false;
  if (ij__json_get_string(ij__json_root(doc), &text, &n_text)) ij__buf_append(out, text, n_text);
  ij__json_free(&doc);
  return !out->failed;
}

static bool key_is(const ij_call *c, size_t end, const char *key) {
  size_t n = end - c->string_at;
  return n == strlen(key) + 2 && memcmp(c->payload.data + c->string_at + 1, key, n - 2) == 0;
}

/* Follows a string; true at its closing quote. */
static bool string_ends(ij_call *c, char ch) {
  if (c->escaped) c->escaped = false;
  else if (ch == '\\') c->escaped = true;
  else if (ch == '"') return true;
  return false;
}

static void begin_value(ij_call *c, char ch, size_t at) {
  c->string_at = at;
  c->in_string = ch == '"';
  c->depth = ch == '{' || ch == '[';
  c->place = IJ_CALL_IN_VALUE;
  if (c->key_is_args && ++c->n_args == 1 && ch == '{') c->args_begin = at;
  c->n_others += !c->key_is_args && !c->key_is_name;
}

/* A value has just ended before `end`. */
static void end_value(ij_call *c, size_t end, bool string) {
  c->place = IJ_CALL_AFTER;
  if (c->key_is_args && c->n_args == 1 && c->args_begin != IJ_CALL_NOWHERE) c->args_end = end;
  if (!c->key_is_name || ++c->n_names != 1 || !string) return;
  c->has_name = decode_string(&c->name, c->payload.data + c->string_at, end - c->string_at) && c->name.len > 0;
}

static void after_value(ij_call *c, char ch) {
  if (ch == ',') c->place = IJ_CALL_KEY;
  else if (ch == '}') c->place = IJ_CALL_DONE;
  else if (!is_space(ch)) c->place = IJ_CALL_LOST;
}

static void in_value(ij_call *c, char ch, size_t at) {
  if (c->in_string) {
    if (!string_ends(c, ch)) return;
    c->in_string = false;
    if (c->depth == 0) end_value(c, at + 1, true);
  } else if (ch == '"' && c->depth > 0) {
    c->in_string = true;
  } else if (ch == '{' || ch == '[') {
    c->depth++;
  } else if ((ch == '}' || ch == ']') && c->depth > 0) {
    if (--c->depth == 0) end_value(c, at + 1, false);
  } else if (c->depth == 0 && (ch == ',' || ch == '}' || is_space(ch))) { /* the end of a number, true, false, null */
    end_value(c, at, false);
    after_value(c, ch);
  }
}

static void step(ij_call *c, char ch, size_t at) {
  switch (c->place) {
    case IJ_CALL_IN_VALUE: in_value(c, ch, at); return;
    case IJ_CALL_AFTER: after_value(c, ch); return;
    case IJ_CALL_IN_KEY:
      if (!string_ends(c, ch)) return;
      c->key_is_name = key_is(c, at + 1, "name");
      c->key_is_args = key_is(c, at + 1, "args");
      c->place = IJ_CALL_COLON;
      return;
    case IJ_CALL_LOST: return;
    default: break;
  }
  if (is_space(ch)) return;
  if (c->place == IJ_CALL_START && ch == '{') c->place = IJ_CALL_KEY;
  else if (c->place == IJ_CALL_KEY && ch == '"') c->place = IJ_CALL_IN_KEY, c->string_at = at;
  else if (c->place == IJ_CALL_KEY && ch == '}') c->place = IJ_CALL_DONE;
  else if (c->place == IJ_CALL_COLON && ch == ':') c->place = IJ_CALL_VALUE;
  else if (c->place == IJ_CALL_VALUE) begin_value(c, ch, at);
  else c->place = IJ_CALL_LOST;
}

bool ij__call_push(ij_call *c, const char *bytes, size_t n) {
  size_t from = c->payload.len;
  ij__buf_append(&c->payload, bytes, n);
  if (c->payload.failed) return false;
  for (size_t i = from; i < c->payload.len; i++) step(c, c->payload.data[i], i);
  return !c->name.failed;
}

const char *ij__call_fault(const ij_call *c, bool needs_name) {
  ij_json *doc = NULL;
  const char *fault = NULL;
  if (c->payload.len == 0) return "the payload of a call is empty";
  ij_status s = ij__json_parse_exact(&doc, c->payload.data, c->payload.len, "", NULL);
  const ij_json_value *root = ij__json_root(doc);
  ij_json_type name = ij__json_type_of(ij__json_member(root, "name"));
  if (s == IJ_E_NOMEM) fault = "there was no memory to check the payload of a call";
  else if (s != IJ_OK) fault = "the payload of a call is not JSON";
  else if (ij__json_type_of(root) != IJ_JSON_OBJECT) fault = "the payload of a call is not an object";
  else if (c->n_names > 1 || c->n_args > 1) fault = "the payload of a call has \"name\" or \"args\" twice";
  else if (ij__json_type_of(ij__json_member(root, "args")) != IJ_JSON_OBJECT) fault = "\"args\" of a call is not an object";
  else if (c->args_begin == IJ_CALL_NOWHERE) fault = "the key \"args\" of a call is spelled with escapes";
  else if (name != IJ_JSON_STRING && name != IJ_JSON_NONE) fault = "\"name\" of a call is not a string";
  else if (needs_name && !c->has_name) fault = "a call has no \"name\"";
  ij__json_free(&doc);
  return fault;
}
