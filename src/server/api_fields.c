/* api_fields.c: reading the fields of a request by rules, and the readers that several dialects share. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/alloc.h"
#include "server/api.h"

/* --- errors */

bool ij__api_fail(api_error *e, int status, const char *code, const char *param, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(e->message, sizeof e->message, fmt, args);
  va_end(args);
  size_t n = strlen(e->message); /* a cut must not leave half a character */
  while (n > 0 && n == sizeof e->message - 1 && ((unsigned char)e->message[n - 1] & 0x80)) e->message[--n] = 0;
  e->status = status;
  snprintf(e->code, sizeof e->code, "%s", code ? code : "");
  snprintf(e->param, sizeof e->param, "%s", param ? param : "");
  n = strlen(e->param);
  while (n > 0 && n == sizeof e->param - 1 && ((unsigned char)e->param[n - 1] & 0x80)) e->param[--n] = 0;
  return false;
}

api_path ij__path(const char *fmt, ...) {
  api_path path;
  va_list args;
  va_start(args, fmt);
  vsnprintf(path.text, sizeof path.text, fmt, args);
  va_end(args);
  return path;
}

bool ij__api_error_from(api_error *e, const ij_err *err, const char *param) {
  switch (err->code) {
    case IJ_E_ARGUMENT: case IJ_E_FORMAT: case IJ_E_RANGE: case IJ_E_UNSUPPORTED:
      return ij__api_fail(e, 400, err->code == IJ_E_UNSUPPORTED ? "unsupported_value" : "invalid_value", param, "%s%s%s", err->where,
                          err->where[0] ? ": " : "", err->message);
    case IJ_E_CONTEXT: return ij__api_fail(e, 400, "context_length_exceeded", param, "%s", err->message);
    case IJ_E_BUSY: return ij__api_fail(e, 429, "rate_limit_exceeded", "", "the queue is full: %s", err->message);
    case IJ_E_CANCELLED: return ij__api_fail(e, 503, "shutting_down", "", "%s", err->message);
    case IJ_E_NOMEM: return ij__api_fail(e, 503, "out_of_memory", "", "%s", err->message);
    default: return ij__api_fail(e, 500, "internal_error", "", "%s: %s", ij_status_name(err->code), err->message);
  }
}

bool ij__api_expected(api_error *e, const char *path, const char *expected, ij_jv found) {
  char shown[80] = "";
  ij_json_type t = ij__jv_type(found);
  if (t == IJ_JSON_STRING || t == IJ_JSON_INT || t == IJ_JSON_REAL || t == IJ_JSON_BOOL) {
    const char *bytes = found.raw;
    size_t n = found.n_raw;
    ij__jv_string(found, &bytes, &n);
    ij__json_show(shown + 1, sizeof shown - 1, bytes, n);
    shown[0] = ' ';
  }
  return ij__api_fail(e, 400, t == IJ_JSON_NONE ? "missing_required_parameter" : "invalid_value", path, "%s: expected %s, found %s%s",
                      path, expected,
                      ij__json_type_name(t), shown);
}

bool ij__api_need_string(api_error *e, const char *path, ij_jv v, api_text *out) {
  if (ij__jv_string(v, &out->bytes, &out->n)) return true;
  return ij__api_expected(e, path, "a string", v);
}

bool ij__api_need_member(api_error *e, const char *path, ij_jv object, const char *name, api_text *out) {
  return ij__api_need_string(e, ij__path("%s.%s", path, name).text, ij__jv_member(object, name), out);
}

bool ij__api_no_memory(api_error *e) { return ij__api_fail(e, 503, "out_of_memory", "", "there is no memory for this now"); }

/* --- rules */

api_path ij__api_member_path(const char *path, const char *name, size_t n) {
  char shown[100];
  bool plain = n > 0 && n < 64;
  for (size_t i = 0; i < n && plain; i++) plain = (unsigned char)name[i] > 0x20 && (unsigned char)name[i] < 0x7f && name[i] != '"';
  if (plain) snprintf(shown, sizeof shown, "%.*s", (int)n, name);
  else ij__json_show(shown, sizeof shown, name, n);
  return ij__path("%s%s%s", path, *path ? "." : "", shown);
}

bool ij__api_in_words(const char *list, const char *word, size_t n) {
  for (const char *p = list; *p; p += *p == '|') {
    size_t len = strcspn(p, "|");
    if (len == n && memcmp(p, word, n) == 0) return true;
    p += len;
  }
  return false;
}

static bool read_number(api_request *r, const api_field *rule, ij_jv v, const char *path, api_error *e) {
  char expected[96];
  double d = 0;
  int64_t i = 0;
  if (rule->kind == API_F_FLOAT) {
    snprintf(expected, sizeof expected, "a number from %g to %g", rule->lo, rule->hi);
    if (!ij__json_get_double(v.v, &d) || !(d >= rule->lo && d <= rule->hi)) return ij__api_expected(e, path, expected, v);
    float f = (float)d;
    memcpy((char *)r + rule->offset, &f, sizeof f);
    return true;
  }
  snprintf(expected, sizeof expected, rule->hi > 1e15 ? "an integer of at least %.0f" : "an integer from %.0f to %.0f", rule->lo, rule->hi);
  if (!ij__json_get_int(v.v, &i) || (double)i < rule->lo || (double)i > rule->hi) return ij__api_expected(e, path, expected, v);
  memcpy((char *)r + rule->offset, &i, sizeof i);
  return true;
}

static bool read_field(api_run *run, const api_field *rule, ij_jv v, const char *path, api_error *e) {
  switch (rule->kind) {
    case API_F_IGNORED: return true;
    case API_F_FLOAT: case API_F_INT: return read_number(&run->r, rule, v, path, e);
    case API_F_BOOL:
      if (ij__json_get_bool(v.v, (bool *)(void *)((char *)&run->r + rule->offset))) return true;
      return ij__api_expected(e, path, "true or false", v);
    case API_F_ONLY:
      if (ij__api_in_words(rule->text, v.raw, v.n_raw)) return true;
      return ij__api_fail(e, 400, "unsupported_value", path, "%s: only %s is supported here", path, rule->text);
    case API_F_REFUSED: return ij__api_fail(e, 400, "unsupported_parameter", path, "%s is not supported: %s", path, rule->text);
    case API_F_CUSTOM: break;
  }
  return rule->read(run, v, e);
}

bool ij__api_read_fields(api_run *run, ij_jv object, const char *path, const api_field *rules, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv v;
  const char *key;
  size_t n;
  if (ij__jv_type(object) != IJ_JSON_OBJECT) return ij__api_expected(e, *path ? path : "the body", "an object", object);
  while (ij__jv_next(object, &it, &key, &n, &v)) {
    const api_field *rule = rules;
    while (rule->name && (strlen(rule->name) != n || memcmp(rule->name, key, n) != 0)) rule++;
    api_path name = ij__api_member_path(path, key, n);
    if (!rule->name) return ij__api_fail(e, 400, "unknown_parameter", name.text, "unknown parameter: %s", name.text);
    if (!ij__jv_absent(v) && !read_field(run, rule, v, name.text, e)) return false;
  }
  return true;
}

bool ij__api_check_keys(ij_jv object, const char *path, const char *known, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv v;
  const char *key;
  size_t n;
  if (ij__jv_type(object) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "an object", object);
  while (ij__jv_next(object, &it, &key, &n, &v)) {
    if (ij__jv_absent(v) || ij__api_in_words(known, key, n)) continue;
    api_path name = ij__api_member_path(path, key, n);
    return ij__api_fail(e, 400, "unknown_parameter", name.text, "unknown parameter: %s", name.text);
  }
  return true;
}

/* --- shared readers */

bool ij__api_read_stop(api_run *run, ij_jv v, const char *path, api_error *e) {
  api_request *r = &run->r;
  ij_jv_iter it = {{0}, NULL};
  ij_jv one = v;
  bool list = ij__jv_type(v) == IJ_JSON_ARRAY;
  r->n_stops = 0;
  while (!list || ij__jv_next(v, &it, NULL, NULL, &one)) {
    api_text text;
    if (r->n_stops == API_MAX_STOPS) return ij__api_fail(e, 400, "invalid_value", path, "%s: at most %d strings", path, API_MAX_STOPS);
    if (!ij__jv_string(one, &text.bytes, &text.n)) {
      return ij__api_expected(e, path, list ? "strings in the list" : "a string or a list of strings", one);
    }
    if (text.n == 0 || text.n > 4096) {
      return ij__api_fail(e, 400, "invalid_value", path, "%s: a string of 1 to 4096 bytes is expected", path);
    }
    r->stops[r->n_stops++] = text;
    if (!list) break;
  }
  return true;
}

bool ij__api_read_bias(api_run *run, ij_jv v, api_error *e) {
  api_request *r = &run->r;
  ij_jv_iter it = {{0}, NULL};
  ij_jv one;
  const char *key;
  size_t n, n_all = ij__json_size(v.v);
  int32_t n_vocab = ij_tokenizer_size(run->server->tokenizer);
  if (ij__jv_type(v) != IJ_JSON_OBJECT) return ij__api_expected(e, "logit_bias", "an object of token ids and numbers", v);
  if (n_all > 4096) return ij__api_fail(e, 400, "invalid_value", "logit_bias", "logit_bias: at most 4096 entries");
  r->bias = ij__alloc_array(n_all + 1, sizeof *r->bias);
  if (!r->bias) return ij__api_no_memory(e);
  while (ij__jv_next(v, &it, &key, &n, &one)) {
    int64_t id = 0;
    double bias = 0;
    bool number = n > 0 && n < 9;
    for (size_t i = 0; i < n && number; i++) {
      number = key[i] >= '0' && key[i] <= '9';
      id = id * 10 + (key[i] - '0');
    }
    if (!number || id >= n_vocab) {
      char shown[60];
      ij__json_show(shown, sizeof shown, key, n);
      return ij__api_fail(e, 400, "invalid_value", "logit_bias", "logit_bias: expected a token id below %d, found %s", (int)n_vocab, shown);
    }
    if (!ij__json_get_double(one.v, &bias) || !(bias >= -100 && bias <= 100)) {
      return ij__api_expected(e, "logit_bias", "numbers from -100 to 100", one);
    }
    for (int i = 0; i < r->n_bias; i++) {
      if (r->bias[i].id == (int32_t)id) {
        return ij__api_fail(e, 400, "invalid_value", "logit_bias", "logit_bias: the id %d is there twice", (int)id);
      }
    }
    r->bias[r->n_bias++] = (ij_logit_bias){(int32_t)id, (float)bias};
  }
  r->sample.logit_bias = r->bias;
  r->sample.n_logit_bias = r->n_bias;
  return true;
}

bool ij__api_read_effort(api_run *run, ij_jv v, const char *path, api_error *e) {
  const char *bytes = v.raw;
  size_t n = v.n_raw;
  ij_json_type t = ij__jv_type(v);
  if (t == IJ_JSON_STRING) ij__jv_string(v, &bytes, &n);
  else if (t != IJ_JSON_INT && t != IJ_JSON_REAL) return ij__api_expected(e, path, "a word such as \"low\" or a number from 0 to 0.99", v);
  if (n == 0 || n >= sizeof run->r.effort || memchr(bytes, 0, n)) {
    return ij__api_expected(e, path, "a word such as \"low\" or a number from 0 to 0.99", v);
  }
  memcpy(run->r.effort, bytes, n);
  run->r.effort[n] = 0;
  run->r.effort_param = path;
  run->r.no_thinking = n == 4 && strncasecmp(bytes, "none", 4) == 0; /* the word is a promise; the number 0 is a hint to the model */
  return true;
}

bool ij__api_add_tool(api_run *run, api_text name, ij_jv parameters, api_strict strict, const char *path, api_error *e) {
  api_request *r = &run->r;
  char where[64];
  snprintf(where, sizeof where, "%s", path);
  if (name.n == 0 || name.n > 256) {
    return ij__api_fail(e, 400, "invalid_value", where, "%s: a function name of 1 to 256 bytes is expected", where);
  }
  if (r->n_tools == API_MAX_TOOLS) return ij__api_fail(e, 400, "invalid_value", "tools", "tools: at most %d", API_MAX_TOOLS);
  for (int i = 0; i < r->n_tools; i++) {
    if (r->tools[i].name.n == name.n && memcmp(r->tools[i].name.bytes, name.bytes, name.n) == 0) {
      return ij__api_fail(e, 400, "invalid_value", where, "%s: a function of the same name is declared before", where);
    }
  }
  if (!ij__jv_absent(parameters) && ij__jv_type(parameters) != IJ_JSON_OBJECT) {
    return ij__api_expected(e, r->schema_path(r->n_tools).text, "a JSON Schema object", parameters);
  }
  if (!r->tools && !(r->tools = ij__alloc_zero(API_MAX_TOOLS, sizeof *r->tools))) {
    return ij__api_no_memory(e);
  }
  r->tools[r->n_tools++] = (api_tool){name, parameters, strict, true};
  return true;
}

bool ij__api_choose_tool(api_run *run, api_text name, const char *path, api_error *e) {
  api_request *r = &run->r;
  bool found = false;
  for (int i = 0; i < r->n_tools; i++) {
    r->tools[i].allowed = r->tools[i].name.n == name.n && memcmp(r->tools[i].name.bytes, name.bytes, name.n) == 0;
    found = found || r->tools[i].allowed;
  }
  r->choice = IJ_TOOLS_REQUIRED;
  if (found) return true;
  char shown[80];
  ij__json_show(shown, sizeof shown, name.bytes, name.n);
  return ij__api_fail(e, 400, "invalid_value", path, "%s: there is no tool called %s", path, shown);
}

