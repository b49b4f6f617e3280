/* chat_json.c: JSON as text: strings written, and the source of values found in a document that the JSON reader has accepted.
 *
 * Messages, tools and schemas pass through a conversation verbatim (numbers as they were written, members in their order), so what is
 * kept is their text. The scanners need no care for malformed text; they still never leave the span they are given.
 */
#include <string.h>

#include "cli/chat.h"

void chat_json_string(ij_buf *out, const char *bytes, size_t n) {
  enum { PIECE = 1024 };
  ij_text_stream stream = {0};
  ij_buf text = {0};
  char valid[3 * (PIECE + 3)];
  for (size_t at = 0; at < n; at += PIECE) {
    ij__buf_append(&text, valid, ij_text_stream_push(&stream, bytes + at, IJ_MIN((size_t)PIECE, n - at), valid));
  }
  ij__buf_append(&text, valid, ij_text_stream_flush(&stream, valid));
  out->failed = out->failed || text.failed;
  if (!out->failed) ij__json_quote(out, text.data, text.len);
  ij__buf_free(&text);
}

/* ------------------------------------------------------------------------------------------------------------ source text */

static size_t skip_blank(chat_span s, size_t at) {
  while (at < s.n && strchr(" \t\r\n", s.bytes[at]) && s.bytes[at]) at++;
  return at;
}

static size_t string_end(chat_span s, size_t at) {
  for (at++; at < s.n && s.bytes[at] != '"'; at++) at += s.bytes[at] == '\\';
  return IJ_MIN(at + 1, s.n);
}

/* Past the value at `at`: a string, something in brackets, or what stands before the next comma, bracket or blank. */
static size_t value_end(chat_span s, size_t at) {
  int depth = 0;
  while (at < s.n) {
    char c = s.bytes[at];
    if (c == '"') {
      at = string_end(s, at);
    } else if (c == '[' || c == '{') {
      depth++;
      at++;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return at;
      depth--;
      at++;
    } else {
      if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n')) return at;
      at++;
      continue;
    }
    if (depth == 0) return at;
  }
  return at;
}

bool chat_json_element(chat_span array, size_t *at, chat_span *element) {
  if (*at == 0) *at = skip_blank(array, 0) + 1; /* past the bracket */
  size_t from = skip_blank(array, *at);
  if (from < array.n && array.bytes[from] == ',') from = skip_blank(array, from + 1);
  if (from >= array.n || array.bytes[from] == ']') return false;
  size_t end = value_end(array, from);
  *element = (chat_span){array.bytes + from, end - from};
  *at = end;
  return end > from;
}

bool chat_json_member(chat_span object, const char *key, chat_span *value) {
  size_t at = skip_blank(object, 0) + 1, n_key = strlen(key);
  for (;;) {
    at = skip_blank(object, at);
    if (at < object.n && object.bytes[at] == ',') at = skip_blank(object, at + 1);
    if (at >= object.n || object.bytes[at] != '"') return false;
    size_t end = string_end(object, at);
    bool found = end - at == n_key + 2 && memcmp(object.bytes + at + 1, key, n_key) == 0;
    at = skip_blank(object, end) + 1; /* past the colon */
    at = skip_blank(object, at);
    if (at >= object.n) return false;
    end = value_end(object, at);
    if (found) {
      *value = (chat_span){object.bytes + at, end - at};
      return true;
    }
    if (end == at) return false;
    at = end;
  }
}
