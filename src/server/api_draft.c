/* api_draft.c: see api_draft.h. */
#include "server/api_draft.h"

#include <string.h>

#include "core/alloc.h"

void ij__draft_begin(api_draft *d, api_request *request) {
  *d = (api_draft){.out = &request->messages, .request = request};
  request->drafted = true;
  ij__buf_puts(d->out, "[");
}

static void next_message(api_draft *d, const char *role) {
  ij__buf_printf(d->out, "%s{\"role\":\"%s\",", d->out->len > 1 ? "," : "", role);
  d->n_messages++;
}

void ij__draft_flush(api_draft *d) {
  if (d->role) {
    next_message(d, d->role);
    if (d->reasoning.len > 0) {
      ij__buf_puts(d->out, "\"reasoning_content\":\"");
      ij__buf_append(d->out, d->reasoning.data, d->reasoning.len);
      ij__buf_puts(d->out, "\",");
    }
    if (d->calls.len > 0) {
      ij__buf_puts(d->out, "\"tool_calls\":[");
      ij__buf_append(d->out, d->calls.data, d->calls.len);
      ij__buf_puts(d->out, "],");
    }
    ij__buf_puts(d->out, "\"content\":[");
    if (d->parts.len > 0) ij__buf_append(d->out, d->parts.data, d->parts.len);
    ij__buf_puts(d->out, "]}");
  }
  d->out->failed = d->out->failed || d->reasoning.failed || d->parts.failed || d->calls.failed;
  ij__buf_free(&d->reasoning);
  ij__buf_free(&d->parts);
  ij__buf_free(&d->calls);
  d->reasoning = d->parts = d->calls = (ij_buf){0};
  d->role = NULL;
  d->n_parts = d->n_calls = 0;
}

void ij__draft_end(api_draft *d) {
  ij__draft_flush(d);
  ij__buf_puts(d->out, "]");
}

static void want_role(api_draft *d, const char *role) {
  if (d->role && strcmp(d->role, role) == 0) return;
  ij__draft_flush(d);
  d->role = role;
}

void ij__draft_text(api_draft *d, const char *role, api_text text) {
  if (d->calls.len > 0) ij__draft_flush(d);
  want_role(d, role);
  ij__buf_puts(&d->parts, d->parts.len ? ",{\"type\":\"text\",\"text\":" : "{\"type\":\"text\",\"text\":");
  ij__jw_string(&d->parts, text.bytes, text.n);
  ij__buf_puts(&d->parts, "}");
  d->n_parts++;
}

bool ij__draft_is_answer(const api_draft *d) {
  return d->role && strcmp(d->role, "assistant") == 0 && (d->reasoning.len > 0 || d->parts.len > 0 || d->calls.len > 0);
}

/* The next part or call of the message under way comes from `path`. Without memory errors name the whole conversation instead. */
static void remember(api_draft *d, bool call, const char *path) {
  api_request *r = d->request;
  if (r->n_places == r->cap_places) {
    int cap = r->cap_places ? 2 * r->cap_places : 16;
    api_place *bigger = ij__realloc(r->places, (size_t)cap * sizeof *bigger);
    if (!bigger) return;
    r->places = bigger;
    r->cap_places = cap;
  }
  r->places[r->n_places++] = (api_place){d->n_messages, call ? d->n_calls : d->n_parts, call, ij__path("%s", path)};
}

void ij__draft_reasoning(api_draft *d, api_text text) {
  if (d->parts.len > 0 || d->calls.len > 0) ij__draft_flush(d);
  want_role(d, "assistant");
  ij__jw_inner(&d->reasoning, text.bytes, text.n);
}

void ij__draft_call(api_draft *d, api_text id, api_text name, ij_jv arguments, const char *path) {
  want_role(d, "assistant");
  remember(d, true, path);
  ij__buf_puts(&d->calls, d->calls.len ? ",{\"type\":\"function\",\"id\":" : "{\"type\":\"function\",\"id\":");
  ij__jw_string(&d->calls, id.bytes, id.n);
  ij__buf_puts(&d->calls, ",\"function\":{\"name\":");
  ij__jw_string(&d->calls, name.bytes, name.n);
  ij__buf_puts(&d->calls, ",\"arguments\":");
  ij__jw_raw(&d->calls, arguments);
  ij__buf_puts(&d->calls, "}}");
  d->n_calls++;
}

void ij__draft_image(api_draft *d, const char *role, api_text type, api_text data, api_text url, const char *path) {
  if (d->calls.len > 0) ij__draft_flush(d);
  want_role(d, role);
  remember(d, false, path);
  ij__buf_printf(&d->parts, "%s{\"type\":\"image_url\",\"image_url\":{\"url\":\"", d->parts.len ? "," : "");
  if (type.n > 0) {
    ij__buf_puts(&d->parts, "data:");
    ij__jw_inner(&d->parts, type.bytes, type.n);
    ij__buf_puts(&d->parts, ";base64,");
    ij__jw_inner(&d->parts, data.bytes, data.n);
  } else {
    ij__jw_inner(&d->parts, url.bytes, url.n);
  }
  ij__buf_puts(&d->parts, "\"}}");
  d->n_parts++;
}

void ij__draft_audio(api_draft *d, const char *role, api_text data, api_text format, const char *path) {
  if (d->calls.len > 0) ij__draft_flush(d);
  want_role(d, role);
  remember(d, false, path);
  ij__buf_printf(&d->parts, "%s{\"type\":\"input_audio\",\"input_audio\":{\"data\":", d->parts.len ? "," : "");
  ij__jw_string(&d->parts, data.bytes, data.n);
  ij__buf_puts(&d->parts, ",\"format\":");
  ij__jw_string(&d->parts, format.bytes, format.n);
  ij__buf_puts(&d->parts, "}}");
  d->n_parts++;
}

void ij__draft_result_begin(api_draft *d, api_text call_id) {
  ij__draft_flush(d);
  next_message(d, "tool");
  ij__buf_puts(d->out, "\"tool_call_id\":");
  ij__jw_string(d->out, call_id.bytes, call_id.n);
  ij__buf_puts(d->out, ",\"content\":\"");
}

void ij__draft_result_text(api_draft *d, api_text text) { ij__jw_inner(d->out, text.bytes, text.n); }
void ij__draft_result_end(api_draft *d) { ij__buf_puts(d->out, "\"}"); }
