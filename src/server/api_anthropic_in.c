/* api_anthropic_in.c: a request of Anthropic's Messages API into the common one.
 *
 * Blocks become messages in OpenAI's form: an assistant's thinking, text and tool uses are one message as long as they come in that order,
 * and each tool result is a message of its own. A conversation that ends with the assistant is continued (a prefilled answer).
 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "server/api_anthropic.h"
#include "server/api_draft.h"

/* --- blocks */

static bool read_text(ij_jv block, const char *path, api_text *text, api_error *e) {
  return ij__api_check_keys(block, path, "type|text|cache_control|citations", e) && ij__api_need_member(e, path, block, "text", text);
}

/* As an image_url part, which the renderer knows; whether images can be read is decided after rendering. */
static bool add_image(api_draft *d, ij_jv block, const char *role, const char *path, api_error *e) {
  api_path at;
  api_text type = {"", 0}, data = {"", 0}, url = {"", 0};
  ij_jv source = ij__jv_member(block, "source"), kind = ij__jv_member(source, "type");
  at = ij__path("%s.source", path);
  if (!ij__api_check_keys(block, path, "type|source|cache_control", e)) return false;
  if (!ij__api_check_keys(source, at.text, ij__jv_is(kind, "url") ? "type|url" : "type|media_type|data", e)) return false;
  if (ij__jv_is(kind, "base64")) {
    if (!ij__api_need_member(e, at.text, source, "media_type", &type) || !ij__api_need_member(e, at.text, source, "data", &data)) {
      return false;
    }
  } else if (ij__jv_is(kind, "url")) {
    if (!ij__api_need_member(e, at.text, source, "url", &url)) return false;
  } else {
    return ij__api_expected(e, at.text, "a base64 or url source", kind);
  }
  ij__draft_image(d, role, type, data, url, path);
  return true;
}

/* {"type": "tool_result"}: a message of its own. The format has no mark for errors that is known to be trained, so a result with is_error
 * says so in its text. */
static bool add_result(api_draft *d, ij_jv block, const char *path, api_error *e) {
  api_path at;
  api_text id, text;
  bool is_error = false;
  ij_jv content = ij__jv_member(block, "content"), flag = ij__jv_member(block, "is_error"), part;
  if (!ij__api_check_keys(block, path, "type|tool_use_id|content|is_error|cache_control", e)) return false;
  if (!ij__api_need_member(e, path, block, "tool_use_id", &id)) return false;
  at = ij__path("%s.is_error", path);
  if (!ij__jv_absent(flag) && !ij__json_get_bool(flag.v, &is_error)) return ij__api_expected(e, at.text, "true or false", flag);
  ij__draft_result_begin(d, id);
  if (is_error) ij__draft_result_text(d, (api_text){"Error: ", 7});
  if (ij__jv_string(content, &text.bytes, &text.n)) {
    ij__draft_result_text(d, text);
  } else if (ij__jv_type(content) == IJ_JSON_ARRAY) {
    ij_jv_iter it = {{0}, NULL};
    for (int i = 0; ij__jv_next(content, &it, NULL, NULL, &part); i++) {
      at = ij__path("%s.content.%d", path, i);
      if (!ij__jv_is(ij__jv_member(part, "type"), "text")) {
        return ij__api_expected(e, at.text, "a text block, the only kind supported in tool results", ij__jv_member(part, "type"));
      }
      if (!read_text(part, at.text, &text, e)) return false;
      ij__draft_result_text(d, text);
    }
  } else if (!ij__jv_absent(content)) {
    at = ij__path("%s.content", path);
    return ij__api_expected(e, at.text, "a string or a list of text blocks", content);
  }
  ij__draft_result_end(d);
  return true;
}

static bool add_tool_use(api_draft *d, ij_jv block, const char *path, api_error *e) {
  api_path at;
  api_text id, name;
  ij_jv input = ij__jv_member(block, "input");
  if (!ij__api_check_keys(block, path, "type|id|name|input|cache_control|caller", e)) return false;
  if (!ij__api_need_member(e, path, block, "id", &id)) return false;
  if (!ij__api_need_member(e, path, block, "name", &name)) return false;
  at = ij__path("%s.input", path);
  if (ij__jv_type(input) != IJ_JSON_OBJECT) return ij__api_expected(e, at.text, "an object", input);
  ij__draft_call(d, id, name, input, at.text);
  return true;
}

static bool add_thinking(api_draft *d, ij_jv block, const char *path, api_error *e) {
  api_text text;
  if (!ij__api_check_keys(block, path, "type|thinking|signature", e) || !ij__api_need_member(e, path, block, "thinking", &text)) {
    return false;
  }
  ij__draft_reasoning(d, text);
  return true;
}

static bool add_block(api_draft *d, ij_jv block, const char *role, const char *path, api_error *e) {
  api_text text;
  ij_jv type = ij__jv_member(block, "type");
  bool assistant = strcmp(role, "assistant") == 0, user = strcmp(role, "user") == 0;
  if (ij__jv_type(block) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "an object", block);
  if (user && ij__jv_is(type, "tool_result")) return add_result(d, block, path, e);
  if (assistant && ij__jv_is(type, "thinking")) return add_thinking(d, block, path, e);
  if (assistant && ij__jv_is(type, "tool_use")) return add_tool_use(d, block, path, e);
  if (!assistant && ij__jv_is(type, "image")) return add_image(d, block, role, path, e);
  if (!ij__jv_is(type, "text")) {
    const char *kinds = user ? "a text, image or tool_result block" : assistant ? "a text, thinking or tool_use block" : "a text or image block";
    return ij__api_expected(e, path, kinds, type);
  }
  if (!read_text(block, path, &text, e)) return false;
  ij__draft_text(d, role, text);
  return true;
}

static bool add_content(api_draft *d, ij_jv content, const char *role, const char *path, api_error *e) {
  api_path at;
  api_text text;
  ij_jv_iter it = {{0}, NULL};
  ij_jv block;
  if (ij__jv_string(content, &text.bytes, &text.n)) {
    ij__draft_text(d, role, text);
    return true;
  }
  if (ij__jv_type(content) != IJ_JSON_ARRAY) return ij__api_expected(e, path, "a string or a list of blocks", content);
  for (int i = 0; ij__jv_next(content, &it, NULL, NULL, &block); i++) {
    at = ij__path("%s.%d", path, i);
    if (!add_block(d, block, role, at.text, e)) return false;
  }
  return true;
}

static const char *role_of(ij_jv role) {
  static const char *const roles[] = {"user", "assistant", "system"};
  for (size_t i = 0; i < IJ_COUNT_OF(roles); i++) {
    if (ij__jv_is(role, roles[i])) return roles[i];
  }
  return NULL;
}

static bool add_messages(api_run *run, api_draft *d, ij_jv list, api_error *e) {
  ij_jv_iter it = {{0}, NULL};
  ij_jv message;
  const char *role = "";
  if (ij__jv_type(list) != IJ_JSON_ARRAY || ij__json_size(list.v) == 0) {
    return ij__api_expected(e, "messages", "a list of at least one message", list);
  }
  for (int i = 0; ij__jv_next(list, &it, NULL, NULL, &message); i++) {
    char path[64];
    snprintf(path, sizeof path, "messages.%d", i);
    if (!ij__api_check_keys(message, path, "role|content", e)) return false;
    role = role_of(ij__jv_member(message, "role"));
    snprintf(path, sizeof path, "messages.%d.role", i);
    if (!role) return ij__api_expected(e, path, "\"user\", \"assistant\" or \"system\"", ij__jv_member(message, "role"));
    snprintf(path, sizeof path, "messages.%d.content", i);
    if (!add_content(d, ij__jv_member(message, "content"), role, path, e)) return false;
  }
  run->r.continue_final = strcmp(role, "assistant") == 0 && ij__draft_is_answer(d); /* a list without blocks is no beginning of an answer */
  if (run->r.continue_final && d->calls.len > 0) {
    return ij__api_fail(e, 400, "invalid_value", "messages", "messages: the last message has tool_use blocks, which need tool_result blocks after them");
  }
  return true;
}

static bool read_conversation(api_run *run, api_error *e) {
  api_draft d;
  ij_jv system = ij__jv_member(run->r.body, "system");
  ij__draft_begin(&d, &run->r);
  bool ok = ij__jv_absent(system) || add_content(&d, system, "system", "system", e);
  if (ok) ij__draft_flush(&d); /* a system message in the list is one of its own */
  ok = ok && add_messages(run, &d, ij__jv_member(run->r.body, "messages"), e);
  ij__draft_end(&d);
  return ok;
}

/* --- tools */

static bool read_tool(api_run *run, ij_jv tool, int i, api_error *e) {
  char path[64];
  api_text name, description = {"", 0};
  bool strict = false;
  ij_buf *out = &run->r.tools_json;
  snprintf(path, sizeof path, "tools.%d.type", i);
  ij_jv type = ij__jv_member(tool, "type"), schema = ij__jv_member(tool, "input_schema"), flag = ij__jv_member(tool, "strict");
  if (!ij__jv_absent(type) && !ij__jv_is(type, "custom")) {
    return ij__api_expected(e, path, "\"custom\", the only type supported here", type);
  }
  snprintf(path, sizeof path, "tools.%d", i);
  if (!ij__api_check_keys(tool, path, "type|name|description|input_schema|strict|cache_control|eager_input_streaming", e)) return false;
  snprintf(path, sizeof path, "tools.%d.name", i);
  if (!ij__api_need_string(e, path, ij__jv_member(tool, "name"), &name)) return false;
  snprintf(path, sizeof path, "tools.%d", i);
  ij_jv about = ij__jv_member(tool, "description");
  if (!ij__jv_absent(about) && !ij__api_need_member(e, path, tool, "description", &description)) return false;
  snprintf(path, sizeof path, "tools.%d.strict", i);
  if (!ij__jv_absent(flag) && !ij__json_get_bool(flag.v, &strict)) return ij__api_expected(e, path, "true or false", flag);
  snprintf(path, sizeof path, "tools.%d.input_schema", i);
  if (ij__jv_type(schema) != IJ_JSON_OBJECT) return ij__api_expected(e, path, "a JSON Schema object", schema);
  snprintf(path, sizeof path, "tools.%d.name", i);
  if (!ij__api_add_tool(run, name, schema, strict ? API_STRICT : API_LOOSE, path, e)) return false;
  ij__buf_puts(out, i > 0 ? ",{\"type\":\"function\",\"function\":{\"name\":" : "[{\"type\":\"function\",\"function\":{\"name\":");
  ij__jw_string(out, name.bytes, name.n);
  ij__buf_puts(out, ",\"description\":");
  ij__jw_string(out, description.bytes, description.n);
  ij__buf_puts(out, ",\"parameters\":");
  ij__jw_raw(out, schema);
  ij__buf_puts(out, "}}");
  return true;
}

static api_path schema_path(int i_tool) { return ij__path("tools.%d.input_schema", i_tool); }

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

static bool read_choice(api_run *run, ij_jv v, api_error *e) {
  api_request *r = &run->r;
  api_text name;
  bool single = false;
  ij_jv type = ij__jv_member(v, "type"), flag = ij__jv_member(v, "disable_parallel_tool_use");
  if (ij__jv_absent(v)) return true;
  const char *known = ij__jv_is(type, "tool") ? "type|name|disable_parallel_tool_use" : "type|disable_parallel_tool_use";
  if (!ij__api_check_keys(v, "tool_choice", known, e)) return false;
  if (!ij__jv_absent(flag) && !ij__json_get_bool(flag.v, &single)) {
    return ij__api_expected(e, "tool_choice.disable_parallel_tool_use", "true or false", flag);
  }
  r->parallel = !single;
  if (ij__jv_is(type, "auto")) return true;
  r->choice = IJ_TOOLS_NONE;
  if (ij__jv_is(type, "none")) return true;
  bool any = ij__jv_is(type, "any");
  if (!any && !ij__jv_is(type, "tool")) return ij__api_expected(e, "tool_choice.type", "\"auto\", \"any\", \"tool\" or \"none\"", type);
  if (r->n_tools == 0) return ij__api_fail(e, 400, "invalid_value", "tool_choice", "tool_choice: a call is asked for, and there are no tools");
  r->choice = IJ_TOOLS_REQUIRED;
  if (any) return true;
  return ij__api_need_string(e, "tool_choice.name", ij__jv_member(v, "name"), &name) && ij__api_choose_tool(run, name, "tool_choice.name",
                                                                                                            e);
}

/* --- thinking and effort */

static bool read_format(api_run *run, ij_jv format, api_error *e) {
  ij_jv type = ij__jv_member(format, "type"), schema = ij__jv_member(format, "schema");
  if (ij__jv_absent(format)) return true;
  if (!ij__api_check_keys(format, "output_config.format", "type|schema|name", e)) return false;
  if (!ij__jv_is(type, "json_schema")) return ij__api_expected(e, "output_config.format.type", "\"json_schema\"", type);
  if (ij__jv_type(schema) != IJ_JSON_OBJECT) return ij__api_expected(e, "output_config.format.schema", "a JSON Schema object", schema);
  run->r.format = API_FORMAT_SCHEMA;
  run->r.schema = schema;
  run->r.schema_param = "output_config.format.schema";
  return true;
}

static const char *effort_of_budget(int64_t budget) {
  return budget < 2048 ? "low" : budget < 8192 ? "medium" : budget < 32768 ? "high" : "max";
}

static bool read_output(api_run *run, ij_jv config, api_error *e) {
  ij_jv effort = ij__jv_member(config, "effort");
  if (ij__jv_absent(config)) return true;
  if (!ij__api_check_keys(config, "output_config", "effort|format", e)) return false;
  if (!read_format(run, ij__jv_member(config, "format"), e)) return false;
  return ij__jv_absent(effort) || ij__api_read_effort(run, effort, "output_config.effort", e);
}

/* What `thinking` has beside its type; a budget is a hint for the effort, and an effort says it better. */
static bool read_budget(api_run *run, ij_jv v, bool *omit, api_error *e) {
  ij_jv type = ij__jv_member(v, "type"), budget = ij__jv_member(v, "budget_tokens"), display = ij__jv_member(v, "display");
  bool enabled = ij__jv_is(type, "enabled");
  int64_t n = 0;
  const char *known = enabled ? "type|budget_tokens|display" : ij__jv_is(type, "disabled") ? "type" : "type|display";
  if (ij__jv_type(v) != IJ_JSON_OBJECT) return ij__api_expected(e, "thinking", "an object", v);
  if (!enabled && !ij__jv_is(type, "adaptive") && !ij__jv_is(type, "disabled")) {
    return ij__api_expected(e, "thinking.type", "\"enabled\", \"adaptive\" or \"disabled\"", type);
  }
  if (!ij__api_check_keys(v, "thinking", known, e)) return false;
  *omit = ij__jv_is(display, "omitted");
  if (!*omit && !ij__jv_absent(display) && !ij__jv_is(display, "summarized")) {
    return ij__api_expected(e, "thinking.display", "\"summarized\" or \"omitted\"", display);
  }
  if (enabled && (!ij__json_get_int(budget.v, &n) || n < 1)) {
    return ij__api_expected(e, "thinking.budget_tokens", "an integer of at least 1", budget);
  }
  if (enabled && !run->r.effort[0]) snprintf(run->r.effort, sizeof run->r.effort, "%s", effort_of_budget(n));
  return true;
}

/* Thinking is off unless it or an effort is asked for, as with the original. */
static bool read_thinking(api_run *run, api_anthropic *a, api_error *e) {
  api_request *r = &run->r;
  ij_jv v = ij__jv_member(r->body, "thinking");
  bool absent = ij__jv_absent(v), disabled = ij__jv_is(ij__jv_member(v, "type"), "disabled");
  if (!read_output(run, ij__jv_member(r->body, "output_config"), e)) return false;
  if (!absent && !read_budget(run, v, &a->omit_thinking, e)) return false;
  if (!disabled && (!absent || r->effort[0])) return true; /* beside `disabled`, clients give the effort that they give always */
  snprintf(r->effort, sizeof r->effort, "none");
  if (!r->effort_param) r->effort_param = "thinking";
  r->no_thinking = true;
  return true;
}

/* --- fields */

static bool later(api_run *run, ij_jv v, api_error *e) {
  (void)run, (void)v, (void)e;
  return true;
}

static bool read_model(api_run *run, ij_jv v, api_error *e) {
  api_text name;
  (void)run; /* any name will do: there is one model */
  return ij__api_need_string(e, "model", v, &name);
}

static bool read_stops(api_run *run, ij_jv v, api_error *e) {
  if (ij__jv_type(v) != IJ_JSON_ARRAY) return ij__api_expected(e, "stop_sequences", "a list of strings", v);
  return ij__api_read_stop(run, v, "stop_sequences", e);
}

static bool read_top_k(api_run *run, ij_jv v, api_error *e) {
  int64_t k = 0;
  if (!ij__json_get_int(v.v, &k) || k < 0 || k > INT32_MAX) return ij__api_expected(e, "top_k", "an integer of at least 0", v);
  run->r.sample.top_k = (int)k;
  return true;
}

#define AT(field) offsetof(api_request, field)
#define COMMON_FIELDS                                                \
  {"messages", API_F_CUSTOM, 0, 0, 0, NULL, later},                  \
  {"system", API_F_CUSTOM, 0, 0, 0, NULL, later},                    \
  {"model", API_F_CUSTOM, 0, 0, 0, NULL, read_model},                \
  {"tools", API_F_CUSTOM, 0, 0, 0, NULL, read_tools},                \
  {"tool_choice", API_F_CUSTOM, 0, 0, 0, NULL, later},               \
  {"thinking", API_F_CUSTOM, 0, 0, 0, NULL, later},                  \
  {"output_config", API_F_CUSTOM, 0, 0, 0, NULL, later},             \
  {"cache_control", API_F_IGNORED, 0, 0, 0, NULL, NULL},             \
  {"speed", API_F_ONLY, 0, 0, 0, "\"standard\"", NULL}

static const api_field message_fields[] = {
  COMMON_FIELDS,
  {"max_tokens", API_F_INT, AT(max_tokens), 1, 1e18, NULL, NULL},
  {"stream", API_F_BOOL, AT(stream), 0, 0, NULL, NULL},
  {"temperature", API_F_FLOAT, AT(sample.temperature), 0, 1, NULL, NULL},
  {"top_p", API_F_FLOAT, AT(sample.top_p), 1e-6, 1, NULL, NULL},
  {"top_k", API_F_CUSTOM, 0, 0, 0, NULL, read_top_k},
  {"stop_sequences", API_F_CUSTOM, 0, 0, 0, NULL, read_stops},
  {"metadata", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"service_tier", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"inference_geo", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"diagnostics", API_F_IGNORED, 0, 0, 0, NULL, NULL},
  {"container", API_F_REFUSED, 0, 0, 0, "this server runs no code", NULL},
  {"mcp_servers", API_F_REFUSED, 0, 0, 0, "this server calls no others", NULL},
  {NULL, 0, 0, 0, 0, NULL, NULL},
};
static const api_field count_fields[] = {COMMON_FIELDS, {NULL, 0, 0, 0, 0, NULL, NULL}};

static bool read_request(api_run *run, const api_field *fields, api_error *e) {
  api_anthropic *a = ij__alloc_zero(1, sizeof *a);
  if (!a) return ij__api_no_memory(e);
  run->extra = a;
  ij__api_random(run, run->id, 24);
  return ij__api_read_fields(run, run->r.body, "", fields, e) && read_choice(run, ij__jv_member(run->r.body, "tool_choice"), e) &&
         read_thinking(run, a, e) && read_conversation(run, e);
}

bool ij__anthropic_read(api_run *run, api_error *e) {
  if (!read_request(run, message_fields, e)) return false;
  if (run->r.max_tokens >= 1) return true;
  return ij__api_expected(e, "max_tokens", "an integer of at least 1", (ij_jv){NULL, NULL, 0});
}

bool ij__anthropic_read_count(api_run *run, api_error *e) { return read_request(run, count_fields, e); }
