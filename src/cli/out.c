/* out.c: standard output that notices failure, and JSON on top of it.
 *
 * The first error is kept and everything after it is dropped, so that a full disk or a closed pipe is reported once, at the end,
 * with exit code 1. Commas and nesting of JSON are tracked here, which keeps the commands free of punctuation.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static int out_errno;

static void note_failure(void) {
  if (out_errno == 0) out_errno = errno ? errno : EIO;
}

void out_bytes(const void *bytes, size_t n) {
  if (out_errno == 0 && n > 0 && fwrite(bytes, 1, n, stdout) != n) note_failure();
}

void out_text(const char *s) { out_bytes(s, strlen(s)); }

void out_printf(const char *fmt, ...) {
  if (out_errno != 0) return;
  va_list args;
  va_start(args, fmt);
  if (vprintf(fmt, args) < 0) note_failure();
  va_end(args);
}

/* Names come from files: nothing in them may reach the terminal as control characters, and half characters not at all. */
void out_name(const char *name) {
  for (; *name; name++) {
    unsigned char c = (unsigned char)*name;
    if (c < 0x20 || c >= 0x7f) {
      out_printf("\\x%02x", c);
    } else {
      out_bytes(name, 1);
    }
  }
}

bool out_flush(void) {
  if (out_errno == 0 && fflush(stdout) != 0) note_failure();
  return out_errno == 0;
}

int out_finish(int exit_code) {
  if (out_flush()) return exit_code;
  say("standard output: cannot write: %s", strerror(out_errno));
  return exit_code == CLI_EXIT_OK ? CLI_EXIT_FAILED : exit_code;
}

/* ------------------------------------------------------------------------------------------------------------- JSON */

enum { JSON_MAX_DEPTH = 16 };

static struct {
  int depth;
  char closing[JSON_MAX_DEPTH];
  bool filled[JSON_MAX_DEPTH]; /* something stands before: a comma is due */
  bool after_key;
} json;

static void json_before_value(void) {
  if (json.after_key) {
    json.after_key = false;
  } else if (json.depth > 0) {
    if (json.filled[json.depth - 1]) out_text(",");
    json.filled[json.depth - 1] = true;
  }
}

void json_open(char bracket) {
  json_before_value();
  out_bytes(&bracket, 1);
  if (json.depth < JSON_MAX_DEPTH) {
    json.closing[json.depth] = bracket == '{' ? '}' : ']';
    json.filled[json.depth] = false;
    json.depth++;
  }
}

void json_close(void) {
  if (json.depth > 0) out_bytes(&json.closing[--json.depth], 1);
}

/* Whole characters. Controls are escaped, those of two bytes (C1) too, which JSON would allow and terminals obey. */
static void write_escaped(const char *s, size_t n) {
  size_t from = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i], next = i + 1 < n ? (unsigned char)s[i + 1] : 0;
    bool c1 = c == 0xc2 && next >= 0x80 && next < 0xa0;
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !c1) continue;
    out_bytes(s + from, i - from);
    if (c1) c = (unsigned char)s[++i];
    from = i + 1;
    if (c == '"' || c == '\\') {
      out_printf("\\%c", c);
    } else if (c == '\n') {
      out_text("\\n");
    } else {
      out_printf("\\u%04x", c);
    }
  }
  out_bytes(s + from, n - from);
}

static ij_text_stream string_stream;
static bool string_whole; /* no byte had to be replaced */

void json_string_begin(void) {
  json_before_value();
  out_text("\"");
  string_stream = (ij_text_stream){0};
  string_whole = true;
}

/* U+FFFD itself may stand in the text: only a change of bytes counts as a replacement. */
void json_string_add(const char *bytes, size_t n) {
  enum { PIECE = 1024 };
  char valid[3 * (PIECE + 3)], before[PIECE + 4];
  for (size_t at = 0; at < n; at += PIECE) {
    size_t piece = IJ_MIN((size_t)PIECE, n - at), n_held = (size_t)string_stream.n_held;
    memcpy(before, string_stream.held, n_held);
    memcpy(before + n_held, bytes + at, piece);
    size_t got = ij_text_stream_push(&string_stream, bytes + at, piece, valid);
    if (got + (size_t)string_stream.n_held != n_held + piece || memcmp(before, valid, got) != 0) string_whole = false;
    write_escaped(valid, got);
  }
}

bool json_string_end(void) {
  char valid[4];
  size_t n = ij_text_stream_flush(&string_stream, valid);
  write_escaped(valid, n);
  out_text("\"");
  return string_whole && n == 0;
}

bool json_string(const char *bytes, size_t n) {
  json_string_begin();
  json_string_add(bytes, n);
  return json_string_end();
}

void json_key(const char *key) {
  json_string(key, strlen(key));
  out_text(":");
  json.after_key = true;
}

void json_text(const char *s) {
  if (s) {
    json_string(s, strlen(s));
  } else {
    json_before_value();
    out_text("null");
  }
}

void json_int(int64_t v) {
  json_before_value();
  out_printf("%lld", (long long)v);
}

void json_real(double v) {
  json_before_value();
  if (isfinite(v)) {
    out_printf("%.9g", v);
  } else {
    out_text("null");
  }
}

void json_bool(bool v) {
  json_before_value();
  out_text(v ? "true" : "false");
}

void json_end(void) { out_text("\n"); }
