/* api_draft.h: a conversation in the form of OpenAI's chat completions, put together block by block by the dialects that have other forms.
 *
 * An assistant's message holds reasoning, content and calls in this order, as one turn of the model; a block that comes out of this order
 * begins a message of its own. Messages of one role that follow each other are joined.
 */
#ifndef IJ_SERVER_API_DRAFT_H
#define IJ_SERVER_API_DRAFT_H

#include "server/api.h"

typedef struct api_draft {
  ij_buf *out;                 /* the array of messages; starts with its bracket */
  api_request *request;        /* whose messages these are: it remembers where media and arguments came from */
  const char *role;            /* of the message under way; NULL: none */
  int n_messages;              /* written */
  int n_parts, n_calls;        /* of the message under way */
  ij_buf reasoning, parts, calls;
} api_draft;

void ij__draft_begin(api_draft *d, api_request *request);
void ij__draft_end(api_draft *d); /* also after errors */
void ij__draft_flush(api_draft *d);
bool ij__draft_is_answer(const api_draft *d); /* the message under way is the assistant's, and there is something in it */

/* role: a static string. */
void ij__draft_text(api_draft *d, const char *role, api_text text);
void ij__draft_reasoning(api_draft *d, api_text text);
/* arguments: the text of an object, or of a string that holds one. path: what the client calls them. */
void ij__draft_call(api_draft *d, api_text id, api_text name, ij_jv arguments, const char *path);
/* A data URL is put together from type and data; or url. path: what the client calls the place. */
void ij__draft_image(api_draft *d, const char *role, api_text type, api_text data, api_text url, const char *path);
/* data: base64; format: a word such as wav. */
void ij__draft_audio(api_draft *d, const char *role, api_text data, api_text format, const char *path);
/* A tool's result; its text is the pieces between begin and end. */
void ij__draft_result_begin(api_draft *d, api_text call_id);
void ij__draft_result_text(api_draft *d, api_text text);
void ij__draft_result_end(api_draft *d);

#endif
