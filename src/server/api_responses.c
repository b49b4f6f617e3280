/* api_responses.c: OpenAI's Responses API: the response object and its stream of events. Items of the answer are its output items. */
#include "server/api_responses.h"

#include <string.h>
#include <time.h>

#include "server/api_openai.h"

/* --- items */

static const char *status_of(const api_item *item, bool whole) {
  return !whole ? "in_progress" : item->cut ? "incomplete" : "completed";
}

static void logprobs_of(const api_choice *c, const api_item *item, ij_buf *out) {
  int from = 0, to;
  while (from < c->n_logprobs_out && c->logprobs[from].item != item->index) from++;
  for (to = from; to < c->n_logprobs_out && c->logprobs[to].item == item->index;) to++;
  ij__openai_logprobs(c, from, to, out);
}

/* whole: false for the empty part at the beginning of a stream. */
static void write_part(const api_choice *c, const api_item *item, bool whole, ij_buf *out) {
  size_t n = whole ? item->text.len : 0;
  bool content = item->kind == API_CONTENT;
  ij__buf_puts(out, content ? "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":" : "{\"type\":\"reasoning_text\"");
  if (content && whole) logprobs_of(c, item, out);
  else if (content) ij__buf_puts(out, "[]");
  ij__buf_puts(out, ",\"text\":");
  ij__jw_string(out, n ? item->text.data : "", n);
  ij__buf_puts(out, "}");
}

static const char *prefix_of(const api_item *item) { return item->kind == API_REASONING ? "rs" : item->kind == API_CALL ? "fc" : "msg"; }

static void write_item(const api_choice *c, const api_item *item, bool whole, ij_buf *out) {
  size_t n = whole ? item->text.len : 0;
  ij__buf_printf(out, "{\"id\":\"%s_%s\",", prefix_of(item), item->id);
  if (item->kind == API_CALL) {
    ij__buf_printf(out, "\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":\"call_%s\",\"name\":", status_of(item, whole), item->id);
    ij__jw_string(out, item->name.data, item->name.len);
    ij__buf_puts(out, ",\"arguments\":");
    ij__jw_string(out, n ? item->text.data : "", n);
    ij__buf_puts(out, "}");
    return;
  }
  if (item->kind == API_REASONING) ij__buf_printf(out, "\"type\":\"reasoning\",\"status\":\"%s\",\"summary\":[],\"content\":[",
                                                  status_of(item, whole));
  else ij__buf_printf(out, "\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[", status_of(item, whole));
  if (whole) write_part(c, item, true, out);
  ij__buf_puts(out, "]}");
}

/* --- the response object */

/* A member of the request as it was sent, or what stands for its absence. */
static void echo(const api_run *run, const char *name, const char *otherwise, ij_buf *out) {
  ij_jv v = ij__jv_member(run->r.body, name);
  ij__buf_printf(out, ",\"%s\":", name);
  if (ij__jv_absent(v)) ij__buf_puts(out, otherwise);
  else ij__jw_compact(out, v);
}

/* Tools as they were sent, each with the strictness that is in force. */
static void echo_tools(const api_run *run, ij_buf *out) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv list = ij__jv_member(run->r.body, "tools"), tool;
  ij__buf_puts(out, ",\"tools\":[");
  for (int i = 0; i < run->r.n_tools && ij__jv_next(list, &it, NULL, NULL, &tool); i++) {
    const api_tool *t = &run->r.tools[i];
    ij_jv description = ij__jv_member(tool, "description");
    bool strict = t->strict == API_STRICT || (t->strict == API_STRICT_IF_POSSIBLE && run->args && run->args[i]);
    ij__buf_puts(out, i ? ",{\"type\":\"function\",\"name\":" : "{\"type\":\"function\",\"name\":");
    ij__jw_string(out, t->name.bytes, t->name.n);
    ij__buf_puts(out, ",\"description\":");
    if (ij__jv_absent(description)) ij__buf_puts(out, "null");
    else ij__jw_compact(out, description);
    ij__buf_puts(out, ",\"parameters\":");
    if (ij__jv_absent(t->parameters)) ij__buf_puts(out, "null");
    else ij__jw_compact(out, t->parameters);
    ij__buf_printf(out, ",\"strict\":%s}", strict ? "true" : "false");
  }
  ij__buf_puts(out, "]");
}

static void write_usage(const api_run *run, ij_buf *out) {
  int64_t n_prompt, n_cached, n_reasoning, n = ij__api_sum(run, &n_prompt, &n_cached, &n_reasoning);
  ij__buf_printf(out,
                 "{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld,\"cache_write_tokens\":0},\"output_tokens\":%lld,"
                 "\"output_tokens_details\":{\"reasoning_tokens\":%lld},\"total_tokens\":%lld}",
                 (long long)n_prompt, (long long)n_cached, (long long)n, (long long)n_reasoning, (long long)(n_prompt + n));
}

/* status: "in_progress" and "failed" have no usage; error: NULL or what went wrong. */
static void write_response(const api_run *run, const char *status, const api_error *error, ij_buf *out) {
  const api_choice *c = &run->choices[0];
  bool over = strcmp(status, "completed") == 0 || strcmp(status, "incomplete") == 0;
  ij__buf_printf(out, "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"background\":false,\"error\":",
                 run->id,
                 (long long)run->created, status);
  if (error) {
    ij__buf_puts(out, "{\"code\":\"server_error\",\"message\":");
    ij__jw_cstring(out, error->message);
    ij__buf_puts(out, "}");
  } else {
    ij__buf_puts(out, "null");
  }
  bool cut = strcmp(status, "incomplete") == 0;
  ij__buf_printf(out, ",\"incomplete_details\":%s", cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
  echo(run, "instructions", "null", out);
  echo(run, "max_output_tokens", "null", out);
  echo(run, "max_tool_calls", "null", out);
  ij__buf_puts(out, ",\"model\":");
  ij__jw_cstring(out, run->server->model_name);
  ij__buf_puts(out, ",\"output\":[");
  for (int i = 0; i < c->n_items; i++) {
    if (i > 0) ij__buf_puts(out, ",");
    write_item(c, &c->items[i], true, out);
  }
  ij__buf_printf(out, "],\"parallel_tool_calls\":%s,\"previous_response_id\":null,\"store\":false", run->r.parallel ? "true" : "false");
  echo(run, "reasoning", "{\"effort\":null,\"summary\":null}", out);
  ij__buf_puts(out, ",\"temperature\":");
  ij__jw_float(out, run->r.sample.temperature);
  ij__buf_puts(out, ",\"top_p\":");
  ij__jw_float(out, run->r.sample.top_p);
  ij__buf_printf(out, ",\"top_logprobs\":%lld", (long long)run->r.n_top);
  echo(run, "text", "{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"}", out);
  echo(run, "tool_choice", "\"auto\"", out);
  echo_tools(run, out);
  ij__buf_puts(out, ",\"truncation\":\"disabled\",\"service_tier\":\"default\"");
  echo(run, "safety_identifier", "null", out);
  echo(run, "prompt_cache_key", "null", out);
  echo(run, "user", "null", out);
  echo(run, "metadata", "{}", out);
  ij__buf_puts(out, ",\"usage\":");
  if (over) write_usage(run, out);
  else ij__buf_puts(out, "null");
  if (over) ij__buf_printf(out, ",\"completed_at\":%lld", (long long)time(NULL));
  ij__buf_puts(out, "}");
}

static const char *final_status(const api_run *run) {
  api_finish f = run->choices[0].finish;
  return f == API_LENGTH || f == API_CONTEXT ? "incomplete" : "completed";
}

static void response_whole(api_run *run, ij_buf *out) { write_response(run, final_status(run), NULL, out); }

/* --- events */

static void event(api_run *run, const char *name) {
  api_responses *extra = run->extra;
  ij__buf_printf(&run->out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%lld", name, name, (long long)extra->sequence++);
}
static void event_end(api_run *run) { ij__buf_puts(&run->out, "}\n\n"); }

static void response_event(api_run *run, const char *name, const char *status, const api_error *error) {
  event(run, name);
  ij__buf_puts(&run->out, ",\"response\":");
  write_response(run, status, error, &run->out);
  event_end(run);
}

static void response_begin(api_run *run) {
  response_event(run, "response.created", "in_progress", NULL);
  response_event(run, "response.in_progress", "in_progress", NULL);
}

static void item_event(api_choice *c, const api_item *item, const char *name, bool whole) {
  event(c->run, name);
  ij__buf_printf(&c->run->out, ",\"output_index\":%d,\"item\":", item->index);
  write_item(c, item, whole, &c->run->out);
  event_end(c->run);
}

/* An event about a part of an item, up to its own fields. */
static void part_event(api_choice *c, const api_item *item, const char *name) {
  event(c->run, name);
  ij__buf_printf(&c->run->out, ",\"item_id\":\"%s_%s\",\"output_index\":%d", prefix_of(item), item->id, item->index);
  if (item->kind != API_CALL) ij__buf_puts(&c->run->out, ",\"content_index\":0");
}

static void response_item_begin(api_choice *c, api_item *item) {
  item_event(c, item, "response.output_item.added", false);
  if (item->kind == API_CALL) return;
  part_event(c, item, "response.content_part.added");
  ij__buf_puts(&c->run->out, ",\"part\":");
  write_part(c, item, false, &c->run->out);
  event_end(c->run);
}

static void response_delta(api_choice *c, api_item *item, const char *bytes, size_t n, int from, int to) {
  static const char *const names[] = {
    [API_REASONING] = "response.reasoning_text.delta", [API_CONTENT] = "response.output_text.delta",
    [API_CALL] = "response.function_call_arguments.delta",
  };
  ij_buf *out = &c->run->out;
  part_event(c, item, names[item->kind]);
  ij__buf_puts(out, ",\"delta\":");
  ij__jw_string(out, bytes, n);
  if (item->kind == API_CONTENT) {
    ij__buf_puts(out, ",\"logprobs\":");
    ij__openai_logprobs(c, from, to, out);
  }
  event_end(c->run);
}

static void response_item_end(api_choice *c, api_item *item) {
  static const char *const names[] = {
    [API_REASONING] = "response.reasoning_text.done", [API_CONTENT] = "response.output_text.done",
    [API_CALL] = "response.function_call_arguments.done",
  };
  ij_buf *out = &c->run->out;
  part_event(c, item, names[item->kind]);
  ij__buf_puts(out, item->kind == API_CALL ? ",\"arguments\":" : ",\"text\":");
  ij__jw_string(out, item->text.len ? item->text.data : "", item->text.len);
  if (item->kind == API_CALL) {
    ij__buf_puts(out, ",\"name\":");
    ij__jw_string(out, item->name.data, item->name.len);
  } else if (item->kind == API_CONTENT) {
    ij__buf_puts(out, ",\"logprobs\":");
    logprobs_of(c, item, out);
  }
  event_end(c->run);
  if (item->kind != API_CALL) {
    part_event(c, item, "response.content_part.done");
    ij__buf_puts(out, ",\"part\":");
    write_part(c, item, true, out);
    event_end(c->run);
  }
  item_event(c, item, "response.output_item.done", true);
}

static void response_choice_end(api_choice *c) { (void)c; }

static void response_end(api_run *run) {
  const char *status = final_status(run);
  response_event(run, strcmp(status, "completed") == 0 ? "response.completed" : "response.incomplete", status, NULL);
}

static void response_stream_error(api_run *run, const api_error *e) { response_event(run, "response.failed", "failed", e); }

static const api_dialect response_dialect = {
  .error = ij__openai_error, .whole = response_whole, .begin = response_begin, .item_begin = response_item_begin, .delta = response_delta,
  .item_end = response_item_end, .choice_end = response_choice_end, .end = response_end, .stream_error = response_stream_error,
};
const api_endpoint ij__api_responses = {"/v1/responses", &response_dialect, ij__responses_read};
