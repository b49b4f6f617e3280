/* api_json.c: see api_json.h. The source text is only walked after the parser has accepted all of it, so the walk checks nothing. */
#include "server/api_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "inkjet.h"

/* --- reading */

static const char *skip_space(const char *p) {
  while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') p++;
  return p;
}

static const char *skip_string(const char *p) {
  for (p++; *p != '"'; p++) {
    if (*p == '\\') p++;
  }
  return p + 1;
}

/* The end of the value at p; `end` is the end of the container's text. */
static const char *skip_value(const char *p, const char *end) {
  if (*p == '"') return skip_string(p);
  if (*p != '{' && *p != '[') {
    while (p < end && !strchr(" \t\r\n,]}", *p)) p++;
    return p;
  }
  for (int depth = 0; p < end;) {
    if (*p == '"') {
      p = skip_string(p);
      continue;
    }
    if (*p == '{' || *p == '[') depth++;
    if ((*p == '}' || *p == ']') && --depth == 0) return p + 1;
    p++;
  }
  return end;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

ij_jv ij__jv_root(const ij_json *doc, const char *bytes, size_t n) {
  while (n > 0 && is_space(*bytes)) bytes++, n--;
  while (n > 0 && is_space(bytes[n - 1])) n--;
  return (ij_jv){ij__json_root(doc), bytes, n};
}

bool ij__jv_next(ij_jv container, ij_jv_iter *it, const char **key, size_t *n_key, ij_jv *out) {
  const char *name = NULL;
  size_t n_name = 0;
  const ij_json_value *v = NULL;
  if (!ij__json_next(container.v, &it->json, &name, &n_name, &v)) return false; /* also of what is absent, which has no text */
  const char *end = container.raw + container.n_raw;
  const char *p = skip_space(it->at ? it->at : container.raw + 1);
  if (it->at) p = skip_space(p + 1); /* the comma */
  if (name) p = skip_space(skip_space(skip_string(p)) + 1); /* the key and its colon */
  it->at = skip_value(p, end);
  *out = (ij_jv){v, p, (size_t)(it->at - p)};
  if (key) *key = name;
  if (n_key) *n_key = n_name;
  return true;
}

ij_jv ij__jv_member(ij_jv object, const char *key) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv v;
  const char *name;
  size_t n, n_wanted = strlen(key);
  if (ij__json_type_of(object.v) != IJ_JSON_OBJECT) return (ij_jv){NULL, NULL, 0};
  while (ij__jv_next(object, &it, &name, &n, &v)) {
    if (n == n_wanted && memcmp(name, key, n) == 0) return v;
  }
  return (ij_jv){NULL, NULL, 0};
}

ij_json_type ij__jv_type(ij_jv v) { return ij__json_type_of(v.v); }

bool ij__jv_absent(ij_jv v) {
  ij_json_type t = ij__json_type_of(v.v);
  return t == IJ_JSON_NONE || t == IJ_JSON_NULL;
}

bool ij__jv_string(ij_jv v, const char **bytes, size_t *n) { return ij__json_get_string(v.v, bytes, n); }

bool ij__jv_is(ij_jv v, const char *text) { return ij__json_is(v.v, text); }

/* --- writing */

void ij__jw_inner(ij_buf *b, const char *bytes, size_t n) {
  size_t done = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    ij__buf_append(b, bytes + done, i - done);
    done = i + 1;
    switch (c) {
      case '"': ij__buf_puts(b, "\\\""); break;
      case '\\': ij__buf_puts(b, "\\\\"); break;
      case '\n': ij__buf_puts(b, "\\n"); break;
      case '\r': ij__buf_puts(b, "\\r"); break;
      case '\t': ij__buf_puts(b, "\\t"); break;
      default: ij__buf_printf(b, "\\u%04x", c);
    }
  }
  ij__buf_append(b, bytes + done, n - done);
}

void ij__jw_string(ij_buf *b, const char *bytes, size_t n) {
  ij__buf_append(b, "\"", 1);
  ij__jw_inner(b, bytes, n);
  ij__buf_append(b, "\"", 1);
}

void ij__jw_cstring(ij_buf *b, const char *s) { ij__jw_string(b, s, strlen(s)); }

void ij__jw_lossy(ij_buf *b, const char *bytes, size_t n) {
  ij_text_stream stream = {{0}, 0};
  char *text = ij__alloc(3 * (n + 3) + 3);
  if (!text) {
    b->failed = true;
    return;
  }
  size_t len = ij_text_stream_push(&stream, bytes, n, text);
  len += ij_text_stream_flush(&stream, text + len);
  ij__jw_string(b, text, len);
  ij__free(text);
}

void ij__jw_bytes(ij_buf *b, const char *bytes, size_t n) {
  ij__buf_puts(b, "[");
  for (size_t i = 0; i < n; i++) ij__buf_printf(b, i ? ",%u" : "%u", (unsigned)(unsigned char)bytes[i]);
  ij__buf_puts(b, "]");
}

void ij__jw_float(ij_buf *b, float x) {
  char text[40];
  if (!isfinite(x)) {
    ij__buf_puts(b, "-9999.0");
    return;
  }
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)x);
    if (strtof(text, NULL) == x) break;
  }
  ij__buf_puts(b, text);
  if (!strpbrk(text, ".e")) ij__buf_puts(b, ".0");
}

void ij__jw_raw(ij_buf *b, ij_jv v) { ij__buf_append(b, v.raw, v.n_raw); }

void ij__jw_compact(ij_buf *b, ij_jv v) {
  const char *end = v.raw + v.n_raw;
  for (const char *p = v.raw; p < end;) {
    const char *from = p;
    if (*p == '"') p = skip_string(p);
    else while (p < end && *p != '"' && !is_space(*p)) p++;
    ij__buf_append(b, from, (size_t)(p - from));
    p = p < end ? skip_space(p) : p;
  }
}
