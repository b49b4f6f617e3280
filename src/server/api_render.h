/* api_render.h: the conversation of a request as a prompt, for api_run.c and api_media.c. */
#ifndef IJ_SERVER_API_RENDER_H
#define IJ_SERVER_API_RENDER_H

#include "server/api.h"

/* The prompt of the messages. attachments: for videos; NULL: a video stops the rendering, and run->has_video says so. */
ij_status ij__render(api_run *run, ij_attachments *attachments, ij_prompt **out, ij_err *err);
/* Returns false with e filled: what the renderer or a medium has to say, at the place that the client knows. */
bool ij__render_error(const api_run *run, api_error *e, const ij_err *err);
/* The client's own name of messages[i].content[j], where it is known; else of the whole conversation. */
api_path ij__render_place(const api_request *r, const char *where);
/* The ids of the prompt become r.prompts[0]. */
bool ij__render_take(api_run *run, const ij_prompt *prompt, api_error *e);

#endif
