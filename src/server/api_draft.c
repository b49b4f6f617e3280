/* api_draft.c: see api_draft.h. */
#include "server/api_draft.h"

#include <string.h>

void ij__draft_begin(api_draft *d, ij_buf *out) {
  *d = (api_draft){.out = out};
  ij__buf_puts(out, "[");
}

static void next_message(api_draft *d, const char *role) {
  ij__buf_printf(d->out, "%s{\"role\":\"%s\",", d->out->len > 1 ? "," : "", role);
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
}

void ij__draft_reasoning(api_draft *d, api_text text) {
  if (d->parts.len > 0 || d->calls.len > 0) ij__draft_flush(d);
  want_role(d, "assistant");
  ij__jw_inner(&d->reasoning, text.bytes, text.n);
}

void ij__draft_call(api_draft *d, api_text id, api_text name, ij_jv arguments) {
  want_role(d, "assistant");
  ij__buf_puts(&d->calls, d->calls.len ? ",{\"type\":\"function\",\"id\":" : "{\"type\":\"function\",\"id\":");
  ij__jw_string(&d->calls, id.bytes, id.n);
  ij__buf_puts(&d->calls, ",\"function\":{\"name\":");
  ij__jw_string(&d->calls, name.bytes, name.n);
  ij__buf_puts(&d->calls, ",\"arguments\":");
  ij__jw_raw(&d->calls, arguments);
  ij__buf_puts(&d->calls, "}}");
}

void ij__draft_image(api_draft *d, const char *role, api_text type, api_text data, api_text url) {
  if (d->calls.len > 0) ij__draft_flush(d);
  want_role(d, role);
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
