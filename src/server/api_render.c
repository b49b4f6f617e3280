/* api_render.c: see api_render.h. */
#include "server/api_render.h"

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

/* The renderer names places in the messages that it got; where those are not the client's own, the places of their media are known. */
static bool is_own(const api_request *r) { return strcmp(r->messages_param, "messages") == 0 && r->n_places == 0; }

api_path ij__render_place(const api_request *r, const char *where) {
  for (int i = 0; i < r->n_places; i++) {
    api_path at = ij__path("messages[%d].content[%d]", r->places[i].message, r->places[i].part);
    if (strcmp(where, at.text) == 0) return r->places[i].path;
  }
  return ij__path("%s", is_own(r) ? where : r->messages_param);
}

bool ij__render_error(const api_request *r, api_error *e, const ij_err *err) {
  bool medium = strncmp(err->where, "messages[", 9) == 0 && (err->code == IJ_E_FORMAT || err->code == IJ_E_RANGE || err->code == IJ_E_CONTEXT);
  const char *param = is_own(r) && (medium || err->code == IJ_E_ARGUMENT || err->code == IJ_E_UNSUPPORTED) ? err->where : r->messages_param;
  ij_err said = *err;
  api_path place = ij__render_place(r, err->where);
  if (r->n_places > 0 && strcmp(place.text, r->messages_param) != 0) {
    param = place.text;
    memcpy(said.where, param, strlen(param) + 1);
  }
  if (r->effort_param && strcmp(err->where, "effort") == 0) param = r->effort_param;
  if (err->code == IJ_E_IO) return ij__api_fail(e, 500, "internal_error", place.text, "%s: %s", place.text, err->message); /* a decoder died */
  return ij__api_error_from(e, &said, param);
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
