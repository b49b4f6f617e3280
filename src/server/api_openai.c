/* api_openai.c: errors, small fields and the routes that the endpoints of OpenAI share. */
#include "server/api_openai.h"

/* --- errors */

static const char *error_type(int status) {
  switch (status) {
    case 401: case 403: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

void ij__openai_error(api_run *run, const api_error *e, ij_buf *out) {
  (void)run;
  ij__buf_puts(out, "{\"error\":{\"message\":");
  ij__jw_cstring(out, e->message);
  ij__buf_printf(out, ",\"type\":\"%s\",\"param\":", error_type(e->status));
  if (e->param[0]) ij__jw_cstring(out, e->param);
  else ij__buf_puts(out, "null");
  ij__buf_puts(out, ",\"code\":");
  if (e->code[0]) ij__jw_cstring(out, e->code);
  else ij__buf_puts(out, "null");
  ij__buf_puts(out, "}}");
}

void ij__openai_stream_error(api_run *run, const api_error *e) {
  ij__buf_puts(&run->out, "data: ");
  ij__openai_error(run, e, &run->out);
  ij__buf_puts(&run->out, "\n\ndata: [DONE]\n\n");
}

/* --- fields */

bool ij__openai_read_model(api_run *run, ij_jv v, api_error *e) {
  api_text name;
  (void)run; /* any name will do: there is one model */
  return ij__api_need_string(e, "model", v, &name);
}

bool ij__openai_read_seed(api_run *run, ij_jv v, api_error *e) {
  run->r.has_seed = ij__json_get_int(v.v, &run->r.seed);
  return run->r.has_seed || ij__api_expected(e, "seed", "an integer", v);
}

bool ij__openai_read_top_k(api_run *run, ij_jv v, api_error *e) {
  int64_t k = 0;
  if (!ij__json_get_int(v.v, &k) || k < -1 || k > INT32_MAX) return ij__api_expected(e, "top_k", "an integer (0 or -1: off)", v);
  run->r.sample.top_k = k < 0 ? 0 : (int)k;
  return true;
}

bool ij__openai_read_later(api_run *run, ij_jv v, api_error *e) {
  (void)run, (void)v, (void)e;
  return true;
}

bool ij__openai_read_stream_options(api_run *run, ij_jv v, api_error *e) {
  static const api_field rules[] = {
    {"include_usage", API_F_BOOL, offsetof(api_request, stream_usage), 0, 0, NULL, NULL},
    {"include_obfuscation", API_F_IGNORED, 0, 0, 0, NULL, NULL},
    {NULL, 0, 0, 0, 0, NULL, NULL},
  };
  return ij__api_read_fields(run, v, "stream_options", rules, e);
}

/* --- tool_choice */

/* {"type": "function", "function": {"name": ...}}, or with the name one level up, as in the Responses API. */
static bool read_function_name(ij_jv v, const char *path, api_text *name, api_path *at, api_error *e) {
  ij_jv function = ij__jv_member(v, "function");
  bool flat = ij__jv_absent(function);
  *at = ij__path(flat ? "%s.name" : "%s.function.name", path);
  if (!ij__api_check_keys(v, path, flat ? "type|name" : "type|function", e)) return false;
  if (!flat && !ij__api_check_keys(function, ij__path("%s.function", path).text, "name", e)) return false;
  return ij__api_need_string(e, at->text, ij__jv_member(flat ? v : function, "name"), name);
}

static bool allow_tool(api_run *run, ij_jv one, const char *path, bool *allowed, api_error *e) {
  api_text name;
  api_path at;
  ij_jv type = ij__jv_member(one, "type");
  if (ij__jv_type(one) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "an object", one);
  if (!ij__jv_absent(type) && !ij__jv_is(type, "function")) {
    return ij__api_expected(e, ij__path("%s.type", path).text, "\"function\", the only type supported here", type);
  }
  if (!read_function_name(one, path, &name, &at, e) || !ij__api_choose_tool(run, name, at.text, e)) return false;
  for (int i = 0; i < run->r.n_tools; i++) allowed[i] = allowed[i] || run->r.tools[i].allowed;
  return true;
}

/* {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}, or with mode and tools one level up. */
static bool choose_allowed(api_run *run, ij_jv v, api_error *e) {
  ij_jv inner = ij__jv_member(v, "allowed_tools"), one;
  bool flat = ij__jv_absent(inner), allowed[API_MAX_TOOLS] = {0};
  api_path path = ij__path(flat ? "tool_choice" : "tool_choice.allowed_tools");
  if (flat) inner = v;
  if (!ij__api_check_keys(v, "tool_choice", flat ? "type|mode|tools" : "type|allowed_tools", e)) return false;
  if (!flat && !ij__api_check_keys(inner, path.text, "mode|tools", e)) return false;
  ij_jv mode = ij__jv_member(inner, "mode"), list = ij__jv_member(inner, "tools");
  ij_jv_iter it = {{0}, NULL};
  if (ij__jv_type(list) != IJ_JSON_ARRAY || ij__json_size(list.v) == 0) {
    return ij__api_expected(e, ij__path("%s.tools", path.text).text, "a list of tools", list);
  }
  for (int i = 0; ij__jv_next(list, &it, NULL, NULL, &one); i++) {
    if (!allow_tool(run, one, ij__path("%s.tools[%d]", path.text, i).text, allowed, e)) return false;
  }
  for (int i = 0; i < run->r.n_tools; i++) run->r.tools[i].allowed = allowed[i];
  run->r.choice = ij__jv_is(mode, "required") ? IJ_TOOLS_REQUIRED : IJ_TOOLS_AUTO;
  if (ij__jv_is(mode, "required") || ij__jv_is(mode, "auto")) return true;
  return ij__api_expected(e, ij__path("%s.mode", path.text).text, "\"auto\" or \"required\"", mode);
}

bool ij__openai_read_choice(api_run *run, ij_jv v, api_error *e) {
  api_request *r = &run->r;
  api_text name;
  api_path at;
  if (ij__jv_absent(v) || ij__jv_is(v, "auto")) return true;
  if (ij__jv_is(v, "none")) {
    r->choice = IJ_TOOLS_NONE;
    return true;
  }
  ij_jv type = ij__jv_member(v, "type");
  if (!ij__jv_is(v, "required") && !ij__jv_is(type, "function") && !ij__jv_is(type, "allowed_tools")) {
    return ij__api_expected(e, "tool_choice", "\"auto\", \"none\", \"required\", a function or allowed_tools", v);
  }
  if (r->n_tools == 0) {
    return ij__api_fail(e, 400, "invalid_value", "tool_choice", "tool_choice: a call is asked for, and there are no tools");
  }
  r->choice = IJ_TOOLS_REQUIRED;
  if (ij__jv_is(v, "required")) return true;
  if (ij__jv_is(type, "allowed_tools")) return choose_allowed(run, v, e);
  return read_function_name(v, "tool_choice", &name, &at, e) && ij__api_choose_tool(run, name, at.text, e);
}

/* --- stream_options */

bool ij__openai_check_stream(api_run *run, api_error *e) {
  if (run->r.stream || ij__jv_absent(ij__jv_member(run->r.body, "stream_options"))) return true;
  return ij__api_fail(e, 400, "invalid_value", "stream_options", "stream_options needs \"stream\": true");
}

/* --- routes */

static void on_chat(void *context, http_exchange *x) { ij__api_handle(&ij__api_chat, context, x); }

static void on_completions(void *context, http_exchange *x) { ij__api_handle(&ij__api_completions, context, x); }
static void on_responses(void *context, http_exchange *x) { ij__api_handle(&ij__api_responses, context, x); }

const http_route ij__routes_openai[] = {
  {HTTP_POST, "/v1/chat/completions", false, on_chat},
  {HTTP_POST, "/v1/completions", false, on_completions},
  {HTTP_POST, "/v1/responses", false, on_responses},
  {HTTP_OTHER, NULL, false, NULL},
};
