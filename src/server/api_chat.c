/* api_chat.c: OpenAI's chat completions. Reasoning goes beside content as `reasoning_content`, in messages and in deltas. */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "server/api.h"
#include "server/api_openai.h"

/* --- reading */

static bool read_effort(api_run *run, ij_jv v, api_error *e) { return ij__api_read_effort(run, v, "reasoning_effort", e); }
static bool read_stop(api_run *run, ij_jv v, api_error *e) { return ij__api_read_stop(run, v, "stop", e); }

static bool read_tool(api_run *run, ij_jv tool, int i, api_error *e) {
  char path[64];
  api_text name;
  bool strict = false;
  snprintf(path, sizeof path, "tools[%d]", i);
  if (ij__jv_type(tool) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "an object", tool);
  ij_jv type = ij__jv_member(tool, "type"), function = ij__jv_member(tool, "function");
  snprintf(path, sizeof path, "tools[%d].type", i);
  if (!ij__jv_absent(type) && !ij__jv_is(type, "function")) {
    return ij__api_expected(e, path, "\"function\", the only type supported here", type);
  }
  snprintf(path, sizeof path, "tools[%d]", i);
  if (!ij__api_check_keys(tool, path, "type|function", e)) return false;
  snprintf(path, sizeof path, "tools[%d].function", i);
  if (!ij__api_check_keys(function, path, "name|description|parameters|strict", e)) return false;
  ij_jv flag = ij__jv_member(function, "strict");
  snprintf(path, sizeof path, "tools[%d].function.strict", i);
  if (!ij__jv_absent(flag) && !ij__json_get_bool(flag.v, &strict)) return ij__api_expected(e, path, "true or false", flag);
  snprintf(path, sizeof path, "tools[%d].function.name", i);
  if (!ij__api_need_string(e, path, ij__jv_member(function, "name"), &name)) return false;
  return ij__api_add_tool(run, name, ij__jv_member(function, "parameters"), strict ? API_STRICT : API_LOOSE, path, e);
}

static api_path schema_path(int i_tool) { return ij__path("tools[%d].function.parameters", i_tool); }

static bool read_tools(api_run *run, ij_jv v, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv tool;
  if (ij__jv_type(v) != IJ_JSON_ARRAY) return ij__api_expected(e, "tools", "an array", v);
  run->r.schema_path = schema_path;
  for (int i = 0; ij__jv_next(v, &it, NULL, NULL, &tool); i++) {
    if (!read_tool(run, tool, i, e)) return false;
  }
  if (run->r.n_tools > 0) ij__jw_raw(&run->r.tools_json, v);
  return true;
}

static bool read_schema(api_run *run, ij_jv v, api_error *e) {
  ij_jv inner = ij__jv_member(v, "json_schema");
  if (!ij__api_check_keys(inner, "response_format.json_schema", "name|description|schema|strict", e)) return false;
  ij_jv schema = ij__jv_member(inner, "schema");
  if (ij__jv_type(schema) != IJ_JSON_OBJECT) {
    return ij__api_expected(e, "response_format.json_schema.schema", "a JSON Schema object", schema);
  }
  run->r.format = API_FORMAT_SCHEMA;
  run->r.schema = schema;
  run->r.schema_param = "response_format.json_schema.schema";
  return true;
}

static bool read_format(api_run *run, ij_jv v, api_error *e) {
  ij_jv type = ij__jv_member(v, "type");
  bool with_schema = ij__jv_is(type, "json_schema");
  if (!ij__api_check_keys(v, "response_format", with_schema ? "type|json_schema" : "type", e)) return false;
  if (ij__jv_is(type, "text")) return true;
  if (with_schema) return read_schema(run, v, e);
  if (!ij__jv_is(type, "json_object")) {
    return ij__api_expected(e, "response_format.type", "\"text\", \"json_object\" or \"json_schema\"", type);
  }
  run->r.format = API_FORMAT_OBJECT;
  return true;
}

static bool read_regex(api_run *run, ij_jv v, api_error *e) {
  if (ij__jv_type(v) != IJ_JSON_STRING) return ij__api_expected(e, "regex", "a string", v);
  run->r.format = API_FORMAT_REGEX;
  run->r.schema = v;
  run->r.schema_param = "regex";
  return true;
}

static bool read_max_tokens(api_run *run, ij_jv v, const char *path, api_error *e) {
  int64_t n = 0;
  if (!ij__json_get_int(v.v, &n) || n < 1) return ij__api_expected(e, path, "an integer of at least 1", v);
  if (run->r.max_tokens > 0 && run->r.max_tokens != n) {
    return ij__api_fail(e, 400, "invalid_value", path,
                        "max_tokens and max_completion_tokens are the same limit, and two values were given");
  }
  run->r.max_tokens = n;
  return true;
}
static bool read_max_old(api_run *run, ij_jv v, api_error *e) { return read_max_tokens(run, v, "max_tokens", e); }
static bool read_max_new(api_run *run, ij_jv v, api_error *e) { return read_max_tokens(run, v, "max_completion_tokens", e); }

#define AT(field) offsetof(api_request, field)
static const api_field chat_fields[] = {
  {"messages", API_F_CUSTOM, 0, 0, 0, NULL, ij__api_read_messages},
  {"model", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_model},
  {"stream", API_F_BOOL, AT(stream), 0, 0, NULL, NULL},
  {"stream_options", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_stream_options},
  {"max_tokens", API_F_CUSTOM, 0, 0, 0, NULL, read_max_old},
  {"max_completion_tokens", API_F_CUSTOM, 0, 0, 0, NULL, read_max_new},
  {"temperature", API_F_FLOAT, AT(sample.temperature), 0, 2, NULL, NULL},
  {"top_p", API_F_FLOAT, AT(sample.top_p), 1e-6, 1, NULL, NULL},
  {"min_p", API_F_FLOAT, AT(sample.min_p), 0, 1, NULL, NULL},
  {"top_k", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_top_k},
  {"presence_penalty", API_F_FLOAT, AT(sample.presence_penalty), -2, 2, NULL, NULL},
  {"frequency_penalty", API_F_FLOAT, AT(sample.frequency_penalty), -2, 2, NULL, NULL},
  {"repetition_penalty", API_F_FLOAT, AT(sample.repetition_penalty), 0.01, 10, NULL, NULL},
  {"seed", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_seed},
  {"n", API_F_INT, AT(n), 1, 16, NULL, NULL},
  {"stop", API_F_CUSTOM, 0, 0, 0, NULL, read_stop},
  {"logit_bias", API_F_CUSTOM, 0, 0, 0, NULL, ij__api_read_bias},
  {"logprobs", API_F_BOOL, AT(logprobs), 0, 0, NULL, NULL},
  {"top_logprobs", API_F_INT, AT(n_top), 0, IJ_MAX_TOP, NULL, NULL},
  {"reasoning_effort", API_F_CUSTOM, 0, 0, 0, NULL, read_effort},
  {"tools", API_F_CUSTOM, 0, 0, 0, NULL, read_tools},
  {"tool_choice", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_later}, /* read after all others: it needs the tools */
  {"parallel_tool_calls", API_F_BOOL, AT(parallel), 0, 0, NULL, NULL},
  {"response_format", API_F_CUSTOM, 0, 0, 0, NULL, read_format},
  {"regex", API_F_CUSTOM, 0, 0, 0, NULL, read_regex},
  {"continue_final_message", API_F_BOOL, AT(continue_final), 0, 0, NULL, NULL},
  {"store", API_F_ONLY, 0, 0, 0, "false", NULL},
  {"modalities", API_F_ONLY, 0, 0, 0, "[\"text\"]", NULL},
  {"verbosity", API_F_ONLY, 0, 0, 0, "\"medium\"", NULL},
  {"user", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"metadata", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"service_tier", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"safety_identifier", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"prompt_cache_key", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"prompt_cache_retention", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"prediction", API_F_IGNORED, 0, 0, 0, NULL, NULL}, /* only makes answers faster */
  {"audio", API_F_REFUSED, 0, 0, 0, "answers are text", NULL},
  {"functions", API_F_REFUSED, 0, 0, 0, "it was replaced by tools", NULL},
  {"function_call", API_F_REFUSED, 0, 0, 0, "it was replaced by tool_choice", NULL},
  {"web_search_options", API_F_REFUSED, 0, 0, 0, "this server fetches nothing", NULL},
  {NULL, 0, 0, 0, 0, NULL, NULL},
};

static bool read_chat(api_run *run, api_error *e) {
  api_request *r = &run->r;
  ij__api_random(run, run->id, 24);
  if (!ij__api_read_fields(run, r->body, "", chat_fields, e)) return false;
  if (r->messages.len == 0) return ij__api_expected(e, "messages", "an array", (ij_jv){NULL, NULL, 0});
  if (r->n_top > 0 && !r->logprobs) return ij__api_fail(e, 400, "invalid_value", "top_logprobs", "top_logprobs needs \"logprobs\": true");
  if (!ij__jv_absent(ij__jv_member(r->body, "regex")) && !ij__jv_absent(ij__jv_member(r->body, "response_format"))) {
    return ij__api_fail(e, 400, "invalid_value", "regex", "regex and response_format exclude each other");
  }
  return ij__openai_check_stream(run, e) && ij__openai_read_choice(run, ij__jv_member(r->body, "tool_choice"), e);
}

/* --- writing */

static const char *finish_word(api_finish f) {
  return f == API_LENGTH || f == API_CONTEXT ? "length" : f == API_TOOL_CALLS ? "tool_calls" : "stop";
}

void ij__openai_logprob_token(const api_run *run, ij_choice choice, ij_buf *out) {
  const char *bytes = "";
  size_t n = 0;
  ij_decode(run->server->tokenizer, choice.id, true, &bytes, &n);
  ij__buf_puts(out, "\"token\":");
  ij__jw_lossy(out, bytes, n);
  ij__buf_puts(out, ",\"logprob\":");
  ij__jw_float(out, choice.logprob);
  ij__buf_puts(out, ",\"bytes\":");
  ij__jw_bytes(out, bytes, n);
}

void ij__openai_logprobs(const api_choice *c, int from, int to, ij_buf *out) {
  ij__buf_puts(out, "[");
  for (int i = from; i < to; i++) {
    const api_logprob *p = &c->logprobs[i];
    ij__buf_puts(out, i > from ? ",{" : "{");
    ij__openai_logprob_token(c->run, p->choice, out);
    ij__buf_puts(out, ",\"top_logprobs\":[");
    for (int j = 0; j < p->n_top; j++) {
      ij__buf_puts(out, j ? ",{" : "{");
      ij__openai_logprob_token(c->run, p->top[j], out);
      ij__buf_puts(out, "}");
    }
    ij__buf_puts(out, "]}");
  }
  ij__buf_puts(out, "]");
}

static void write_usage(const api_run *run, ij_buf *out) {
  int64_t n_prompt, n_cached, n_reasoning, n = ij__api_sum(run, &n_prompt, &n_cached, &n_reasoning);
  ij__buf_printf(out,
                 "{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
                 "\"prompt_tokens_details\":{\"cached_tokens\":%lld,\"audio_tokens\":%lld},"
                 "\"completion_tokens_details\":{\"reasoning_tokens\":%lld,\"audio_tokens\":0,\"accepted_prediction_tokens\":0,"
                 "\"rejected_prediction_tokens\":0}}",
                 (long long)n_prompt, (long long)n, (long long)(n_prompt + n), (long long)n_cached,
                 (long long)run->r.prompts[0].n_audio, (long long)n_reasoning);
}

static void write_head(const api_run *run, const char *object, ij_buf *out) {
  ij__buf_printf(out, "{\"id\":\"chatcmpl-%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", run->id, object, (long long)run->created);
  ij__jw_cstring(out, run->server->model_name);
  ij__buf_printf(out, ",\"system_fingerprint\":\"inkjet-%s\",\"choices\":[", ij_version());
}

static void chunk_begin(api_choice *c) {
  ij_buf *out = &c->run->out;
  ij__buf_puts(out, "data: ");
  write_head(c->run, "chat.completion.chunk", out);
  ij__buf_printf(out, "{\"index\":%d,\"delta\":{", c->index);
}

/* The rest of a chunk, from the end of its delta. */
static void chunk_end(api_choice *c, int from, int to, const char *finish) {
  ij_buf *out = &c->run->out;
  ij__buf_puts(out, "},\"logprobs\":");
  if (to > from) {
    ij__buf_puts(out, "{\"content\":");
    ij__openai_logprobs(c, from, to, out);
    ij__buf_puts(out, ",\"refusal\":null}");
  } else {
    ij__buf_puts(out, "null");
  }
  ij__buf_printf(out, finish ? ",\"finish_reason\":\"%s\"}]" : ",\"finish_reason\":null}]", finish);
  ij__buf_puts(out, c->run->r.stream_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void chat_begin(api_run *run) {
  for (int i = 0; i < run->n_choices; i++) {
    chunk_begin(&run->choices[i]);
    ij__buf_puts(&run->out, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null");
    chunk_end(&run->choices[i], 0, 0, NULL);
  }
}

static void chat_item_begin(api_choice *c, api_item *item) {
  ij_buf *out = &c->run->out;
  if (item->kind != API_CALL) return;
  chunk_begin(c);
  ij__buf_printf(out, "\"tool_calls\":[{\"index\":%d,\"id\":\"call_%s\",\"type\":\"function\",\"function\":{\"name\":", item->call,
                 item->id);
  ij__jw_string(out, item->name.data, item->name.len);
  ij__buf_puts(out, ",\"arguments\":\"\"}}]");
  chunk_end(c, 0, 0, NULL);
}

static void chat_delta(api_choice *c, api_item *item, const char *bytes, size_t n, int from, int to) {
  ij_buf *out = &c->run->out;
  chunk_begin(c);
  if (item->kind == API_CALL) ij__buf_printf(out, "\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", item->call);
  else ij__buf_puts(out, item->kind == API_REASONING ? "\"reasoning_content\":" : "\"content\":");
  ij__jw_string(out, bytes, n);
  if (item->kind == API_CALL) ij__buf_puts(out, "}}]");
  chunk_end(c, from, to, NULL);
}

static void chat_item_end(api_choice *c, api_item *item) { (void)c, (void)item; }

static void chat_choice_end(api_choice *c) {
  chunk_begin(c);
  chunk_end(c, 0, 0, finish_word(c->finish));
}

static void chat_end(api_run *run) {
  if (run->r.stream_usage) {
    ij__buf_puts(&run->out, "data: ");
    write_head(run, "chat.completion.chunk", &run->out);
    ij__buf_puts(&run->out, "],\"usage\":");
    write_usage(run, &run->out);
    ij__buf_puts(&run->out, "}\n\n");
  }
  ij__buf_puts(&run->out, "data: [DONE]\n\n");
}

/* The pieces of one kind, in order; false: there is none. */
static bool join_items(const api_choice *c, api_item_kind kind, ij_buf *out) {
  bool any = false;
  for (int i = 0; i < c->n_items; i++) any = any || c->items[i].kind == kind;
  if (!any) return false;
  ij__buf_puts(out, "\"");
  for (int i = 0; i < c->n_items; i++) {
    if (c->items[i].kind == kind) ij__jw_inner(out, c->items[i].text.data, c->items[i].text.len);
  }
  ij__buf_puts(out, "\"");
  return true;
}

static int write_calls(const api_choice *c, ij_buf *out) {
  int n = 0;
  for (int i = 0; i < c->n_items; i++) {
    const api_item *item = &c->items[i];
    if (item->kind != API_CALL) continue;
    ij__buf_printf(out, "%s{\"id\":\"call_%s\",\"type\":\"function\",\"function\":{\"name\":", n++ ? "," : ",\"tool_calls\":[", item->id);
    ij__jw_string(out, item->name.data, item->name.len);
    ij__buf_puts(out, ",\"arguments\":");
    ij__jw_string(out, item->text.data, item->text.len);
    ij__buf_puts(out, "}}");
  }
  if (n > 0) ij__buf_puts(out, "]");
  return n;
}

static void write_message(const api_choice *c, ij_buf *out) {
  ij_buf calls = {0};
  int n_calls = write_calls(c, &calls);
  ij__buf_printf(out, "{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", c->index);
  if (!join_items(c, API_CONTENT, out)) ij__buf_puts(out, n_calls > 0 ? "null" : "\"\"");
  ij__buf_puts(out, ",\"refusal\":null");
  for (int i = 0; i < c->n_items; i++) {
    if (c->items[i].kind != API_REASONING) continue;
    ij__buf_puts(out, ",\"reasoning_content\":");
    join_items(c, API_REASONING, out);
    break;
  }
  if (n_calls > 0) ij__buf_append(out, calls.data, calls.len);
  out->failed = out->failed || calls.failed;
  ij__buf_free(&calls);
  ij__buf_puts(out, "},\"logprobs\":");
  if (c->run->r.logprobs) {
    ij__buf_puts(out, "{\"content\":");
    ij__openai_logprobs(c, 0, c->n_logprobs_out, out);
    ij__buf_puts(out, ",\"refusal\":null}");
  } else {
    ij__buf_puts(out, "null");
  }
  ij__buf_printf(out, ",\"finish_reason\":\"%s\"}", finish_word(c->finish));
}

static void chat_whole(api_run *run, ij_buf *out) {
  write_head(run, "chat.completion", out);
  for (int i = 0; i < run->n_choices; i++) {
    if (i > 0) ij__buf_puts(out, ",");
    write_message(&run->choices[i], out);
  }
  ij__buf_puts(out, "],\"usage\":");
  write_usage(run, out);
  ij__buf_puts(out, "}");
}

static const api_dialect chat_dialect = {
  .error = ij__openai_error, .whole = chat_whole, .begin = chat_begin, .item_begin = chat_item_begin, .delta = chat_delta,
  .item_end = chat_item_end, .choice_end = chat_choice_end, .end = chat_end, .stream_error = ij__openai_stream_error,
};
const api_endpoint ij__api_chat = {"/v1/chat/completions", &chat_dialect, read_chat};
