/* api_anthropic.c: Anthropic's Messages API: replies, stream events, errors, routes. Items of the answer are its content blocks. */
#include "server/api_anthropic.h"

#include <string.h>

#define SIGNATURE "unsigned" /* thinking blocks carry one; nothing here signs or checks it */

static const char *error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: case 529: return "overloaded_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

static void write_error(api_run *run, const api_error *e, ij_buf *out) {
  ij__buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", error_type(e->status));
  ij__jw_cstring(out, e->message);
  ij__buf_puts(out, "},\"request_id\":");
  if (run->id[0]) ij__buf_printf(out, "\"req_%s\"}", run->id);
  else ij__buf_puts(out, "null}");
}

/* --- pieces */

static void write_usage(const api_run *run, ij_buf *out, bool at_start) {
  int64_t n_prompt, n_cached, n_reasoning, n = ij__api_sum(run, &n_prompt, &n_cached, &n_reasoning);
  if (at_start) n_cached = n = 0;
  ij__buf_printf(out, "{\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%lld,\"output_tokens\":%lld}",
                 (long long)(n_prompt - n_cached), (long long)n_cached, (long long)n);
}

static void write_head(const api_run *run, ij_buf *out) {
  ij__buf_printf(out, "{\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", run->id);
  ij__jw_cstring(out, run->server->model_name);
  ij__buf_puts(out, ",\"content\":[");
}

static void write_stop(const api_choice *c, ij_buf *out) {
  static const char *const words[] = {
    [API_STOP] = "end_turn", [API_STOP_STRING] = "stop_sequence", [API_LENGTH] = "max_tokens",
    [API_CONTEXT] = "model_context_window_exceeded", [API_TOOL_CALLS] = "tool_use",
  };
  ij__buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", words[c->finish]);
  if (c->stop_hit >= 0) ij__jw_string(out, c->run->r.stops[c->stop_hit].bytes, c->run->r.stops[c->stop_hit].n);
  else ij__buf_puts(out, "null");
}

/* Arguments must be an object here; text that is none (a call cut off by a limit) is shown as text in one. */
static void write_input(const api_item *item, ij_buf *out) {
  ij_json *doc = NULL;
  bool object = item->text.len > 0 && ij__json_parse(&doc, item->text.data, item->text.len, "", NULL) == IJ_OK &&
                ij__json_type_of(ij__json_root(doc)) == IJ_JSON_OBJECT;
  ij__json_free(&doc);
  if (object) {
    ij__buf_append(out, item->text.data, item->text.len);
    return;
  }
  ij__buf_puts(out, "{\"INVALID_JSON\":");
  ij__jw_string(out, item->text.len ? item->text.data : "", item->text.len);
  ij__buf_puts(out, "}");
}

static bool omits(const api_choice *c) { return ((const api_anthropic *)c->run->extra)->omit_thinking; }

/* whole: false at the start of a block in a stream, where it is empty. */
static void write_block(const api_choice *c, const api_item *item, bool whole, ij_buf *out) {
  size_t n = whole ? item->text.len : 0;
  if (item->kind == API_CALL) {
    ij__buf_printf(out, "{\"type\":\"tool_use\",\"id\":\"toolu_%s\",\"name\":", item->id);
    ij__jw_string(out, item->name.data, item->name.len);
    ij__buf_puts(out, ",\"input\":");
    if (whole) write_input(item, out);
    else ij__buf_puts(out, "{}");
    ij__buf_puts(out, "}");
    return;
  }
  bool thinking = item->kind == API_REASONING;
  ij__buf_puts(out, thinking ? "{\"type\":\"thinking\",\"thinking\":" : "{\"type\":\"text\",\"text\":");
  ij__jw_string(out, n ? item->text.data : "", thinking && omits(c) ? 0 : n);
  if (thinking) ij__buf_puts(out, whole ? ",\"signature\":\"" SIGNATURE "\"" : ",\"signature\":\"\"");
  ij__buf_puts(out, "}");
}

static void message_whole(api_run *run, ij_buf *out) {
  const api_choice *c = &run->choices[0];
  write_head(run, out);
  for (int i = 0; i < c->n_items; i++) {
    if (i > 0) ij__buf_puts(out, ",");
    write_block(c, &c->items[i], true, out);
  }
  ij__buf_puts(out, "],");
  write_stop(c, out);
  ij__buf_puts(out, ",\"usage\":");
  write_usage(run, out, false);
  ij__buf_puts(out, "}");
}

/* --- stream */

static void event(api_run *run, const char *name) { ij__buf_printf(&run->out, "event: %s\ndata: {\"type\":\"%s\"", name, name); }
static void event_end(api_run *run) { ij__buf_puts(&run->out, "}\n\n"); }

static void message_begin(api_run *run) {
  event(run, "message_start");
  ij__buf_puts(&run->out, ",\"message\":");
  write_head(run, &run->out);
  ij__buf_puts(&run->out, "],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
  write_usage(run, &run->out, true);
  ij__buf_puts(&run->out, "}");
  event_end(run);
  event(run, "ping");
  event_end(run);
}

static void block_begin(api_choice *c, api_item *item) {
  event(c->run, "content_block_start");
  ij__buf_printf(&c->run->out, ",\"index\":%d,\"content_block\":", item->index);
  write_block(c, item, false, &c->run->out);
  event_end(c->run);
}

static void delta(api_choice *c, const api_item *item, const char *type, const char *field, const char *bytes, size_t n) {
  event(c->run, "content_block_delta");
  ij__buf_printf(&c->run->out, ",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":", item->index, type, field);
  ij__jw_string(&c->run->out, bytes, n);
  ij__buf_puts(&c->run->out, "}");
  event_end(c->run);
}

static void block_delta(api_choice *c, api_item *item, const char *bytes, size_t n, int from, int to) {
  (void)from, (void)to;
  if (item->kind == API_CONTENT) delta(c, item, "text_delta", "text", bytes, n);
  else if (item->kind == API_CALL) delta(c, item, "input_json_delta", "partial_json", bytes, n);
  else if (!omits(c)) delta(c, item, "thinking_delta", "thinking", bytes, n);
}

static void block_end(api_choice *c, api_item *item) {
  if (item->kind == API_REASONING) delta(c, item, "signature_delta", "signature", SIGNATURE, sizeof SIGNATURE - 1);
  event(c->run, "content_block_stop");
  ij__buf_printf(&c->run->out, ",\"index\":%d", item->index);
  event_end(c->run);
}

static void message_choice_end(api_choice *c) {
  event(c->run, "message_delta");
  ij__buf_puts(&c->run->out, ",\"delta\":{");
  write_stop(c, &c->run->out);
  ij__buf_puts(&c->run->out, "},\"usage\":");
  write_usage(c->run, &c->run->out, false);
  event_end(c->run);
}

static void message_end(api_run *run) {
  event(run, "message_stop");
  event_end(run);
}

static void message_stream_error(api_run *run, const api_error *e) {
  ij__buf_puts(&run->out, "event: error\ndata: ");
  write_error(run, e, &run->out);
  ij__buf_puts(&run->out, "\n\n");
}

static const api_dialect message_dialect = {
  .error = write_error, .whole = message_whole, .begin = message_begin, .item_begin = block_begin, .delta = block_delta,
  .item_end = block_end, .choice_end = message_choice_end, .end = message_end, .stream_error = message_stream_error,
};
const api_endpoint ij__api_messages = {"/v1/messages", &message_dialect, ij__anthropic_read};
const api_endpoint ij__api_count = {"/v1/messages/count_tokens", &message_dialect, ij__anthropic_read_count};

/* --- routes */

static void on_messages(void *context, http_exchange *x) { ij__api_handle(&ij__api_messages, context, x); }

static bool reply_count(api_run *run, api_error *e) {
  ij_buf body = {0};
  (void)e;
  ij__buf_printf(&body, "{\"input_tokens\":%lld}", (long long)run->r.prompts[0].n);
  ij__api_reply(run, 200, &body);
  ij__buf_free(&body);
  return true;
}

static void on_count(void *context, http_exchange *x) {
  api_error e;
  api_run *run = ij__api_open(context, x, &message_dialect);
  if (!run) return;
  if (ij__anthropic_read_count(run, &e)) ij__api_go(run, false, reply_count);
  else ij__api_refuse(run, &e);
}

const http_route ij__routes_anthropic[] = {
  {HTTP_POST, "/v1/messages", false, on_messages},
  {HTTP_POST, "/v1/messages/count_tokens", false, on_count},
  {HTTP_OTHER, NULL, false, NULL},
};
