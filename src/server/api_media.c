/* api_media.c: see api_media.h. */
#include "server/api_media.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "server/api_render.h"
#include "server/encoded.h"
#include "server/remote.h"
#include "server/tasks.h"

#define FETCH_SECONDS 20.0 /* for one URL */
#define FETCHES_SECONDS 60.0 /* for all of a request: few threads do this for everybody */
#define VIDEO_SECONDS 60.0

/* --- what there is */

/* where: the part, as the renderer names it. */
static bool refuse(api_run *run, const char *what, const char *where, api_error *e) {
  api_path param = ij__render_place(&run->r, where);
  const char *error = ij_model_towers_error(run->server->model);
  const char *why = error ? "this server takes text only, because the towers of its model cannot be used: "
                    : run->server->towers ? "this model has no tower for them"
                                          : "this server takes text only, because its model has no towers";
  return ij__api_fail(e, 400, "unsupported_content", param.text, "%s: %s in the conversation cannot be read: %s%s", param.text, what, why,
                      error ? error : "");
}

bool ij__media_notice(api_run *run, const ij_prompt *prompt, api_error *e) {
  const ij_server *s = run->server;
  for (int i = 0; i < ij_prompt_n_segments(prompt); i++) {
    ij_segment part = ij_prompt_segment(prompt, i);
    api_path where = ij__path("messages[%d].content[%d]", part.message, part.part);
    if (part.kind == IJ_SEGMENT_IMAGE && !s->towers_info.vision) return refuse(run, part.video ? "videos" : "images", where.text, e);
    if (part.kind == IJ_SEGMENT_AUDIO && !s->towers_info.audio) return refuse(run, "audio", where.text, e);
    run->has_media |= part.kind == IJ_SEGMENT_IMAGE || part.kind == IJ_SEGMENT_AUDIO;
  }
  return true;
}

bool ij__media_notice_video(api_run *run, const char *where, api_error *e) {
  if (!run->server->towers_info.vision) return refuse(run, "videos", where, e);
  run->has_media = true;
  return true;
}

/* --- opening */

static bool is_wanted(void *user) {
  api_run *run = user;
  return !http_gone(run->x) && !ij__tasks_stopping(run->server->tasks);
}

static ij_status fetch(void *user, const char *url, void **bytes, size_t *n_bytes, ij_err *err) {
  api_run *run = user;
  if (run->fetch_until == 0) run->fetch_until = ij__os_seconds() + FETCHES_SECONDS;
  ij_remote remote = {.max_bytes = run->server->max_media_bytes, .seconds = FETCH_SECONDS, .until = run->fetch_until,
                      .may_ask = ij__remote_is_public, .alive = is_wanted, .user = run};
  return ij__remote_fetch(url, &remote, bytes, n_bytes, err);
}

static ij_attach_options options_of(api_run *run) {
  const ij_server *s = run->server;
  ij_attach_options o = ij_attach_options_default();
  o.media = s->media;
  o.media.max_rows = IJ_MIN(o.media.max_rows, s->n_ctx); /* one that does not fit is refused before it is decoded */
  o.max_rows = s->n_ctx;
  o.max_bytes = s->max_media_bytes;
  o.video.timeout_s = VIDEO_SECONDS;
  if (s->allow_remote_media) {
    o.fetch = fetch;
    o.user = run;
  }
  return o;
}

/* --- encoding */

static bool copy_rows(api_run *run, const ij_attachments *a, api_error *e) {
  api_prompt *p = &run->r.prompts[0];
  int n = 0;
  const ij_rows *rows = ij_attachments_rows(a, &n);
  p->rows = ij__alloc_array((size_t)n, sizeof *p->rows);
  run->held = ij__alloc_zero((size_t)n + 1, sizeof *run->held);
  if (!p->rows || !run->held) return ij__api_no_memory(e);
  if (n > 0) memcpy(p->rows, rows, (size_t)n * sizeof *rows);
  p->n_rows = n;
  for (int i = 0; i < n; i++) {
    ij_media_info info;
    ij_media_get_info(ij_attachments_media(a, i), &info);
    if (info.kind == IJ_MEDIA_AUDIO) p->n_audio += info.n_rows;
  }
  return true;
}

static bool fail_cancelled(api_error *e) {
  return ij__api_fail(e, 503, "cancelled", "", "the media were not read to the end: the server is shutting down, or the client left");
}

static bool encode(api_run *run, const ij_attachments *a, api_error *e) {
  api_prompt *p = &run->r.prompts[0];
  for (int i = 0; i < p->n_rows; i++) {
    ij_err err;
    ij_status s = ij__encoded_get(run->server->encoded, ij_attachments_media(a, i), is_wanted, run, &run->held[i], &err);
    if (s == IJ_E_CANCELLED) return fail_cancelled(e);
    if (s != IJ_OK) return ij__api_error_from(e, &err, run->r.messages_param);
    run->n_held = i + 1;
    p->rows[i].rows = ij__encoded_floats(run->held[i]);
  }
  return true;
}

static bool prepare(api_run *run, ij_attachments *a, api_error *e) {
  ij_err err;
  bool stopped = !run->prompt; /* at a video: what else there is has not been looked at */
  ij_status s = stopped ? ij__render(run, a, &run->prompt, &err) : IJ_OK;
  if (s == IJ_OK && stopped && !ij__media_notice(run, run->prompt, e)) return false;
  if (s == IJ_OK) s = ij_attachments_attach(a, run->prompt, &err);
  if (s == IJ_E_CANCELLED) return fail_cancelled(e);
  if (s != IJ_OK) return ij__render_error(run, e, &err);
  if (!ij__render_take(run, run->prompt, e) || !copy_rows(run, a, e) || !ij__api_check_context(run, e)) return false;
  return !run->wants_rows || encode(run, a, e);
}

bool ij__media_prepare(api_run *run, api_error *e) {
  ij_attachments *a = NULL;
  ij_err err;
  ij_attach_options o = options_of(run);
  if (!is_wanted(run)) return fail_cancelled(e);
  if (ij_attachments_open(&a, &o, &err) != IJ_OK) return ij__api_error_from(e, &err, "");
  bool ok = prepare(run, a, e);
  ij_prompt_close(&run->prompt);
  ij_attachments_close(&a); /* pixels and samples: the rows are all that is needed from here on */
  return ok;
}

void ij__media_free(api_run *run) {
  for (int i = 0; i < run->n_held; i++) ij__encoded_release(run->server->encoded, run->held[i]);
  ij__free(run->held);
  ij_prompt_close(&run->prompt);
}
