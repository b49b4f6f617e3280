/* api_render.c: see api_render.h. */
#include "server/api_render.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"

/* Videos are opened by a process of their own, which takes its time: not on a thread of the HTTP side. */
static ij_status note_video(void *user, const char *part, size_t n_part, int *n_blocks, const double **seconds, bool *sound, ij_err *err) {
  api_run *run = user;
  (void)part, (void)n_part;
  *n_blocks = 0;
  *seconds = NULL;
  *sound = false;
  run->has_video = true;
  return ij__fail(err, IJ_E_CANCELLED, "the conversation", "it has a video");
}

ij_status ij__render(api_run *run, ij_attachments *attachments, ij_prompt **out, ij_err *err) {
  const api_request *r = &run->r;
  ij_prompt_options o = ij_prompt_options_default();
  if (r->effort[0]) o.effort = r->effort;
  o.continue_final_message = r->continue_final;
  o.add_generation_prompt = !r->continue_final;
  o.max_text_bytes = run->server->max_prompt_bytes;
  o.video = attachments ? ij_attachments_video : note_video;
  o.user = attachments ? (void *)attachments : (void *)run;
  return ij_prompt_render(out, run->server->tokenizer, r->messages.data, r->messages.len, r->tools_json.len ? r->tools_json.data : NULL,
                          r->tools_json.len, &o, err);
}

/* The place that a drafted message's medium or arguments came from; NULL: none, or the renderer means something else. */
static const char *drafted_place(const api_request *r, const char *where) {
  for (int i = 0; i < r->n_places; i++) {
    const api_place *p = &r->places[i];
    api_path at = ij__path(p->call ? "messages[%d].tool_calls[%d]." : "messages[%d].content[%d]", p->message, p->index);
    if (p->call ? strncmp(where, at.text, strlen(at.text)) == 0 : strcmp(where, at.text) == 0) return p->path.text;
  }
  return NULL;
}

/* The renderer names places in what it got. */
api_path ij__render_place(const api_request *r, const char *where) {
  int tool = 0;
  const char *place = NULL;
  if (strcmp(where, "effort") == 0) place = r->effort_param;
  else if (r->drafted && sscanf(where, "tools[%d]", &tool) == 1) return r->schema_path(tool);
  else if (r->drafted) place = drafted_place(r, where);
  else if (strncmp(where, "messages", 8) == 0 || strncmp(where, "tools", 5) == 0) place = where;
  return ij__path("%s", place ? place : r->messages_param);
}

bool ij__render_error(const api_run *run, api_error *e, const ij_err *err) {
  const api_request *r = &run->r;
  api_path place = ij__render_place(r, err->where);
  ij_err said = *err;
  if (err->code == IJ_E_IO) return ij__api_fail(e, 500, "internal_error", place.text, "%s: %s", place.text, err->message); /* a decoder died */
  if (err->code == IJ_E_CONTEXT && strcmp(err->where, "messages") == 0) return ij__api_too_much_text(run, place.text, e);
  snprintf(said.where, sizeof said.where, "%s", place.text);
  return ij__api_error_from(e, &said, place.text);
}

bool ij__render_take(api_run *run, const ij_prompt *prompt, api_error *e) {
  api_request *r = &run->r;
  int64_t n = ij_prompt_n_ids(prompt);
  r->prompts = ij__alloc_zero(1, sizeof *r->prompts);
  if (!r->prompts) return ij__api_no_memory(e);
  r->n_prompts = 1;
  r->prompts[0].n = n;
  r->prompts[0].state = ij_prompt_state(prompt);
  r->prompts[0].ids = ij__alloc_array((size_t)n + 1, sizeof(int32_t));
  if (!r->prompts[0].ids) return ij__api_no_memory(e);
  memcpy(r->prompts[0].ids, ij_prompt_ids(prompt), (size_t)n * sizeof(int32_t));
  return true;
}
