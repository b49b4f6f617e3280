/* api_responses_in.c: a request of OpenAI's Responses API into the common one. Nothing is kept between requests, so whatever refers to an
 * earlier response is refused by name; clients send the items of the conversation instead. */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "server/api_draft.h"
#include "server/api_openai.h"
#include "server/api_responses.h"

/* --- items of the input */

static bool add_audio(api_draft *d, ij_jv part, const char *role, const char *path, api_error *e) {
  api_text data, format;
  ij_jv audio = ij__jv_member(part, "input_audio");
  api_path at = ij__path("%s.input_audio", path);
  if (!ij__api_check_keys(part, path, "type|input_audio", e)) return false;
  if (ij__jv_type(audio) != IJ_JSON_OBJECT) return ij__api_expected(e, at.text, "an object", audio);
  if (!ij__api_check_keys(audio, at.text, "data|format", e) || !ij__api_need_member(e, at.text, audio, "data", &data)) return false;
  if (!ij__api_need_member(e, at.text, audio, "format", &format)) return false;
  ij__draft_audio(d, role, data, format, path);
  return true;
}

static bool add_part(api_draft *d, ij_jv part, const char *role, const char *path, api_error *e) {
  api_path at;
  api_text text;
  ij_jv type = ij__jv_member(part, "type");
  bool refusal = ij__jv_is(type, "refusal");
  if (ij__jv_type(part) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "an object", part);
  if (ij__jv_is(type, "input_text") || ij__jv_is(type, "output_text") || ij__jv_is(type, "text") || refusal) {
    const char *field = refusal ? "refusal" : "text";
    const char *known = refusal ? "type|refusal" : "type|text|annotations|logprobs|parsed|prompt_cache_breakpoint";
    if (!ij__api_check_keys(part, path, known, e)) return false;
    if (!ij__api_need_member(e, path, part, field, &text)) return false;
    ij__draft_text(d, role, text);
    return true;
  }
  bool medium = ij__jv_is(type, "input_image") || ij__jv_is(type, "input_audio");
  if (medium && strcmp(role, "assistant") == 0) {
    return ij__api_expected(e, ij__path("%s.type", path).text, "text, the only kind supported in messages of the assistant", type);
  }
  if (ij__jv_is(type, "input_image")) {
    if (!ij__api_check_keys(part, path, "type|image_url|detail", e) || !ij__api_need_member(e, path, part, "image_url", &text)) {
      return false;
    }
    ij__draft_image(d, role, (api_text){"", 0}, (api_text){"", 0}, text, path);
    return true;
  }
  if (ij__jv_is(type, "input_audio")) return add_audio(d, part, role, path, e);
  at = ij__path("%s.type", path);
  return ij__api_expected(e, at.text, "\"input_text\", \"output_text\", \"input_image\" or \"input_audio\"", type);
}

static const char *role_of(ij_jv role) {
  static const char *const roles[] = {"user", "assistant", "system", "developer"};
  for (size_t i = 0; i < IJ_COUNT_OF(roles); i++) {
    if (ij__jv_is(role, roles[i])) return roles[i];
  }
  return NULL;
}

static bool add_message(api_draft *d, ij_jv item, const char *path, api_error *e) {
  api_path at;
  api_text text;
  ij_jv_iter it = {{0}, NULL};
  ij_jv content = ij__jv_member(item, "content"), part;
  const char *role = role_of(ij__jv_member(item, "role"));
  if (!ij__api_check_keys(item, path, "type|role|content|id|status|phase", e)) return false;
  at = ij__path("%s.role", path);
  if (!role) return ij__api_expected(e, at.text, "\"user\", \"assistant\", \"system\" or \"developer\"", ij__jv_member(item, "role"));
  if (strcmp(role, "assistant") != 0) ij__draft_flush(d);
  if (ij__jv_string(content, &text.bytes, &text.n)) {
    ij__draft_text(d, role, text);
    return true;
  }
  at = ij__path("%s.content", path);
  if (ij__jv_type(content) != IJ_JSON_ARRAY) return ij__api_expected(e, at.text, "a string or a list of parts", content);
  for (int i = 0; ij__jv_next(content, &it, NULL, NULL, &part); i++) {
    at = ij__path("%s.content[%d]", path, i);
    if (!add_part(d, part, role, at.text, e)) return false;
  }
  return true;
}

/* Our own reasoning items have their text in `content`; those of others may have a summary only. */
static bool add_reasoning(api_draft *d, ij_jv item, const char *path, api_error *e) {
  api_path at;
  ij_jv_iter it = {{0}, NULL};
  ij_jv list = ij__jv_member(item, "content"), part;
  if (!ij__api_check_keys(item, path, "type|id|summary|content|status", e)) return false;
  const char *name = "content";
  if (ij__jv_absent(list) || (ij__jv_type(list) == IJ_JSON_ARRAY && ij__json_size(list.v) == 0)) {
    name = "summary";
    list = ij__jv_member(item, name);
  }
  at = ij__path("%s.%s", path, name);
  if (!ij__jv_absent(list) && ij__jv_type(list) != IJ_JSON_ARRAY) return ij__api_expected(e, at.text, "a list of parts", list);
  for (int i = 0; ij__jv_next(list, &it, NULL, NULL, &part); i++) {
    api_text text;
    at = ij__path("%s.%s[%d]", path, name, i);
    if (!ij__api_check_keys(part, at.text, "type|text", e)) return false;
    ij_jv type = ij__jv_member(part, "type");
    if (!ij__jv_absent(type) && !ij__jv_is(type, "reasoning_text") && !ij__jv_is(type, "summary_text")) {
      return ij__api_expected(e, ij__path("%s.type", at.text).text, "\"reasoning_text\" or \"summary_text\"", type);
    }
    at = ij__path("%s.%s[%d].text", path, name, i);
    if (!ij__api_need_string(e, at.text, ij__jv_member(part, "text"), &text)) return false;
    ij__draft_reasoning(d, text);
  }
  return true;
}

static bool add_call(api_draft *d, ij_jv item, const char *path, api_error *e) {
  api_text id, name, arguments;
  if (!ij__api_check_keys(item, path, "type|id|call_id|name|arguments|status", e)) return false;
  if (!ij__api_need_member(e, path, item, "call_id", &id)) return false;
  if (!ij__api_need_member(e, path, item, "name", &name)) return false;
  if (!ij__api_need_member(e, path, item, "arguments", &arguments)) return false;
  ij__draft_call(d, id, name, ij__jv_member(item, "arguments"), ij__path("%s.arguments", path).text);
  return true;
}

static bool add_result(api_draft *d, ij_jv item, const char *path, api_error *e) {
  api_path at;
  api_text id, text;
  ij_jv_iter it = {{0}, NULL};
  ij_jv output = ij__jv_member(item, "output"), part;
  if (!ij__api_check_keys(item, path, "type|id|call_id|output|status", e)) return false;
  if (!ij__api_need_member(e, path, item, "call_id", &id)) return false;
  ij__draft_result_begin(d, id);
  at = ij__path("%s.output", path);
  if (ij__jv_string(output, &text.bytes, &text.n)) {
    ij__draft_result_text(d, text);
  } else if (ij__jv_type(output) == IJ_JSON_ARRAY) {
    for (int i = 0; ij__jv_next(output, &it, NULL, NULL, &part); i++) {
      at = ij__path("%s.output[%d]", path, i);
      if (!ij__jv_is(ij__jv_member(part, "type"), "input_text")) {
        return ij__api_expected(e, at.text, "an input_text part, the only kind supported in results", ij__jv_member(part, "type"));
      }
      if (!ij__api_check_keys(part, at.text, "type|text|prompt_cache_breakpoint", e)) return false;
      if (!ij__api_need_member(e, at.text, part, "text", &text)) return false;
      ij__draft_result_text(d, text);
    }
  } else {
    return ij__api_expected(e, at.text, "a string or a list of parts", output);
  }
  ij__draft_result_end(d);
  return true;
}

static bool add_item(api_draft *d, ij_jv item, const char *path, api_error *e) {
  api_path at;
  ij_jv type = ij__jv_member(item, "type");
  if (ij__jv_type(item) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "an object", item);
  if (ij__jv_absent(type) || ij__jv_is(type, "message")) return add_message(d, item, path, e);
  if (ij__jv_is(type, "reasoning")) return add_reasoning(d, item, path, e);
  if (ij__jv_is(type, "function_call")) return add_call(d, item, path, e);
  if (ij__jv_is(type, "function_call_output")) return add_result(d, item, path, e);
  at = ij__path("%s.type", path);
  return ij__api_expected(e, at.text, "\"message\", \"reasoning\", \"function_call\" or \"function_call_output\"", type);
}

static bool add_input(api_run *run, api_draft *d, ij_jv input, api_error *e) {
  char path[32];
  api_text text;
  ij_jv_iter it = {{0}, NULL};
  ij_jv item;
  (void)run;
  if (ij__jv_string(input, &text.bytes, &text.n)) {
    ij__draft_text(d, "user", text);
    return true;
  }
  if (ij__jv_type(input) != IJ_JSON_ARRAY || ij__json_size(input.v) == 0) {
    return ij__api_expected(e, "input", "a string or a list of at least one item", input);
  }
  for (int i = 0; ij__jv_next(input, &it, NULL, NULL, &item); i++) {
    snprintf(path, sizeof path, "input[%d]", i);
    if (!add_item(d, item, path, e)) return false;
  }
  return true;
}

static bool read_conversation(api_run *run, api_error *e) {
  api_draft d;
  api_text text;
  ij_jv instructions = ij__jv_member(run->r.body, "instructions");
  run->r.messages_param = "input";
  ij__draft_begin(&d, &run->r);
  bool ok = ij__jv_absent(instructions) || ij__api_need_string(e, "instructions", instructions, &text);
  if (ok && !ij__jv_absent(instructions)) ij__draft_text(&d, "system", text);
  ij__draft_flush(&d);
  ok = ok && add_input(run, &d, ij__jv_member(run->r.body, "input"), e);
  ij__draft_end(&d);
  return ok;
}

/* --- tools and text */

static bool read_tool(api_run *run, ij_jv tool, int i, api_error *e) {
  char path[64];
  api_text name, description = {"", 0};
  bool strict = false;
  ij_buf *out = &run->r.tools_json;
  ij_jv flag = ij__jv_member(tool, "strict"), schema = ij__jv_member(tool, "parameters"), type = ij__jv_member(tool, "type");
  snprintf(path, sizeof path, "tools[%d].type", i);
  if (!ij__jv_is(type, "function")) return ij__api_expected(e, path, "\"function\", the only type supported here", type);
  snprintf(path, sizeof path, "tools[%d]", i);
  if (!ij__api_check_keys(tool, path, "type|name|description|parameters|strict", e)) return false;
  snprintf(path, sizeof path, "tools[%d]", i);
  ij_jv about = ij__jv_member(tool, "description");
  if (!ij__jv_absent(about) && !ij__api_need_member(e, path, tool, "description", &description)) return false;
  snprintf(path, sizeof path, "tools[%d].strict", i);
  if (!ij__jv_absent(flag) && !ij__json_get_bool(flag.v, &strict)) return ij__api_expected(e, path, "true or false", flag);
  snprintf(path, sizeof path, "tools[%d].name", i);
  if (!ij__api_need_string(e, path, ij__jv_member(tool, "name"), &name)) return false;
  api_strict how = ij__jv_absent(flag) ? API_STRICT_IF_POSSIBLE : strict ? API_STRICT : API_LOOSE;
  if (!ij__api_add_tool(run, name, schema, how, path, e)) return false;
  ij__buf_puts(out, i > 0 ? ",{\"type\":\"function\",\"function\":{\"name\":" : "[{\"type\":\"function\",\"function\":{\"name\":");
  ij__jw_string(out, name.bytes, name.n);
  ij__buf_puts(out, ",\"description\":");
  ij__jw_string(out, description.bytes, description.n);
  if (!ij__jv_absent(schema)) {
    ij__buf_puts(out, ",\"parameters\":");
    ij__jw_raw(out, schema);
  }
  ij__buf_puts(out, "}}");
  return true;
}

static api_path schema_path(int i_tool) { return ij__path("tools[%d].parameters", i_tool); }

static bool read_tools(api_run *run, ij_jv v, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv tool;
  if (ij__jv_type(v) != IJ_JSON_ARRAY) return ij__api_expected(e, "tools", "an array", v);
  run->r.schema_path = schema_path;
  for (int i = 0; ij__jv_next(v, &it, NULL, NULL, &tool); i++) {
    if (!read_tool(run, tool, i, e)) return false;
  }
  if (run->r.tools_json.len > 0) ij__buf_puts(&run->r.tools_json, "]");
  return true;
}

static bool read_format(api_run *run, ij_jv v, api_error *e) {
  ij_jv type = ij__jv_member(v, "type"), schema = ij__jv_member(v, "schema");
  bool with_schema = ij__jv_is(type, "json_schema");
  if (!ij__api_check_keys(v, "text.format", with_schema ? "type|name|description|schema|strict" : "type", e)) return false;
  if (ij__jv_is(type, "text")) return true;
  run->r.format = API_FORMAT_OBJECT;
  if (ij__jv_is(type, "json_object")) return true;
  if (!with_schema) return ij__api_expected(e, "text.format.type", "\"text\", \"json_object\" or \"json_schema\"", type);
  if (ij__jv_type(schema) != IJ_JSON_OBJECT) return ij__api_expected(e, "text.format.schema", "a JSON Schema object", schema);
  run->r.format = API_FORMAT_SCHEMA;
  run->r.schema = schema;
  run->r.schema_param = "text.format.schema";
  return true;
}

static bool read_text(api_run *run, ij_jv v, api_error *e) {
  static const api_field rules[] = {
    {"format", API_F_CUSTOM, 0, 0, 0, NULL, read_format},
    {"verbosity", API_F_ONLY, 0, 0, 0, "\"medium\"", NULL},
    {NULL, 0, 0, 0, 0, NULL, NULL},
  };
  return ij__api_read_fields(run, v, "text", rules, e);
}

static bool read_effort(api_run *run, ij_jv v, api_error *e) { return ij__api_read_effort(run, v, "reasoning.effort", e); }

/* Summaries are not made: reasoning is shown as it is. */
static bool read_reasoning(api_run *run, ij_jv v, api_error *e) {
  static const api_field rules[] = {
    {"effort", API_F_CUSTOM, 0, 0, 0, NULL, read_effort},
    {"summary", API_F_IGNORED, 0, 0, 0, NULL, NULL},
    {"generate_summary", API_F_IGNORED, 0, 0, 0, NULL, NULL},
    {"context", API_F_ONLY, 0, 0, 0, "\"auto\"|\"all_turns\"", NULL},
    {"mode", API_F_ONLY, 0, 0, 0, "\"standard\"", NULL},
    {NULL, 0, 0, 0, 0, NULL, NULL},
  };
  return ij__api_read_fields(run, v, "reasoning", rules, e);
}

static bool read_include(api_run *run, ij_jv v, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv one;
  if (ij__jv_type(v) != IJ_JSON_ARRAY) return ij__api_expected(e, "include", "a list of strings", v);
  while (ij__jv_next(v, &it, NULL, NULL, &one)) {
    if (ij__jv_is(one, "message.output_text.logprobs")) run->r.logprobs = true;
    else if (!ij__jv_is(one, "reasoning.encrypted_content")) { /* nothing is encrypted: the reasoning itself is there */
      return ij__api_expected(e, "include", "\"message.output_text.logprobs\" or \"reasoning.encrypted_content\"", one);
    }
  }
  return true;
}

#define AT(field) offsetof(api_request, field)
static const char kept[] = "responses are not kept; send the items of the conversation in input";
static const api_field response_fields[] = {
  {"input", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_later},
  {"instructions", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_later},
  {"model", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_model},
  {"stream", API_F_BOOL, AT(stream), 0, 0, NULL, NULL},
  {"stream_options", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"max_output_tokens", API_F_INT, AT(max_tokens), 1, 1e18, NULL, NULL},
  {"temperature", API_F_FLOAT, AT(sample.temperature), 0, 2, NULL, NULL},
  {"top_p", API_F_FLOAT, AT(sample.top_p), 1e-6, 1, NULL, NULL},
  {"min_p", API_F_FLOAT, AT(sample.min_p), 0, 1, NULL, NULL},
  {"top_k", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_top_k},
  {"seed", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_seed},
  {"top_logprobs", API_F_INT, AT(n_top), 0, IJ_MAX_TOP, NULL, NULL},
  {"include", API_F_CUSTOM, 0, 0, 0, NULL, read_include},
  {"reasoning", API_F_CUSTOM, 0, 0, 0, NULL, read_reasoning},
  {"text", API_F_CUSTOM, 0, 0, 0, NULL, read_text},
  {"tools", API_F_CUSTOM, 0, 0, 0, NULL, read_tools},
  {"tool_choice", API_F_CUSTOM, 0, 0, 0, NULL, ij__openai_read_later},
  {"parallel_tool_calls", API_F_BOOL, AT(parallel), 0, 0, NULL, NULL},
  {"store", API_F_ONLY, 0, 0, 0, "false", NULL},
  {"background", API_F_ONLY, 0, 0, 0, "false", NULL},
  {"truncation", API_F_ONLY, 0, 0, 0, "\"disabled\"", NULL},
  {"previous_response_id", API_F_REFUSED, 0, 0, 0, kept, NULL},
  {"conversation", API_F_REFUSED, 0, 0, 0, kept, NULL},
  {"prompt", API_F_REFUSED, 0, 0, 0, "there are no stored prompts here", NULL},
  {"context_management", API_F_REFUSED, 0, 0, 0, kept, NULL},
  {"max_tool_calls", API_F_IGNORED, 0, 0, 0, NULL, NULL}, /* of tools that the server runs; there are none */
  {"metadata", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"user", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"service_tier", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"safety_identifier", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"prompt_cache_key", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"prompt_cache_options", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"prompt_cache_retention", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {NULL, 0, 0, 0, 0, NULL, NULL},
};

bool ij__responses_read(api_run *run, api_error *e) {
  api_request *r = &run->r;
  run->extra = ij__alloc_zero(1, sizeof(api_responses));
  if (!run->extra) return ij__api_no_memory(e);
  ij__api_random(run, run->id, 32);
  if (!ij__api_read_fields(run, r->body, "", response_fields, e)) return false;
  if (r->n_top > 0 && !r->logprobs) {
    return ij__api_fail(e, 400, "invalid_value", "top_logprobs", "top_logprobs needs \"message.output_text.logprobs\" in include");
  }
  return ij__openai_check_stream(run, e) && ij__openai_read_choice(run, ij__jv_member(r->body, "tool_choice"), e) &&
         read_conversation(run, e);
}
