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
