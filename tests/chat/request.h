/* request.h: renders a conversation given as one JSON object, in the form of the recorded cases: messages, tools, reasoning_effort,
 * preserve_thinking, add_generation_prompt (false when absent), continue_final_message. */
#ifndef IJ_TESTS_REQUEST_H
#define IJ_TESTS_REQUEST_H

#include "core/str.h"
#include "inkjet_chat.h"
#include "io/json.h"

/* Strings as they are, everything else as JSON. */
static inline void request_field(ij_buf *out, const ij_json_value *v) {
  const char *text;
  size_t n;
  if (ij__json_get_string(v, &text, &n)) ij__buf_append(out, text, n);
  else ij__json_canonical(out, v);
}

static inline ij_status render_request(ij_prompt **out, const ij_tokenizer *tokenizer, const ij_json_value *request, ij_err *err) {
  ij_buf messages = {0}, tools = {0}, effort = {0};
  const ij_json_value *t = ij__json_member(request, "tools"), *e = ij__json_member(request, "reasoning_effort");
  ij_prompt_options o = ij_prompt_options_default();
  o.add_generation_prompt = false;
  ij__json_get_bool(ij__json_member(request, "add_generation_prompt"), &o.add_generation_prompt);
  ij__json_get_bool(ij__json_member(request, "preserve_thinking"), &o.preserve_thinking);
  ij__json_get_bool(ij__json_member(request, "continue_final_message"), &o.continue_final_message);
  ij__json_canonical(&messages, ij__json_member(request, "messages"));
  if (t) ij__json_canonical(&tools, t);
  if (ij__json_type_of(e) > IJ_JSON_NULL) request_field(&effort, e);
  o.effort = ij__json_type_of(e) > IJ_JSON_NULL ? effort.data ? effort.data : "" : NULL;
  ij_status s = ij_prompt_render(out, tokenizer, messages.data, messages.len, tools.data, tools.len, &o, err);
  ij__buf_free(&messages);
  ij__buf_free(&tools);
  ij__buf_free(&effort);
  return s;
}

/* The prompt as one string, control tokens by name. */
static inline void rendered_text(ij_buf *out, const ij_prompt *p) {
  for (int i = 0; i < ij_prompt_n_segments(p); i++) {
    ij_segment s = ij_prompt_segment(p, i);
    ij__buf_append(out, s.bytes, s.n_bytes);
  }
}

#endif
