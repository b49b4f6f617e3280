/* api_media.h: pictures, sounds and videos in a conversation: from the rendered prompt to rows that jobs can evaluate.
 *
 * Rendering tells whether there are any, and refuses them for a model without towers; that costs nothing. Opening, counting and encoding
 * them is work for a thread of ij_tasks.
 */
#ifndef IJ_SERVER_API_MEDIA_H
#define IJ_SERVER_API_MEDIA_H

#include "server/api.h"

/* After rendering: whether the run has media (run->has_media), which this model can read. False: it cannot; e says so. */
bool ij__media_notice(api_run *run, const ij_prompt *prompt, api_error *e);
/* The same for a video, which rendering stops at. where: its part, as the renderer names it. */
bool ij__media_notice_video(api_run *run, const char *where, api_error *e);
/* Opens the media of the run and puts them into its prompt, which then is r.prompts[0], with rows if run->wants_rows. */
bool ij__media_prepare(api_run *run, api_error *e);
void ij__media_free(api_run *run);

#endif
