/* api_openai.h: what the three endpoints of OpenAI share with each other and with nobody else. */
#ifndef IJ_SERVER_API_OPENAI_H
#define IJ_SERVER_API_OPENAI_H

#include "server/api.h"

bool ij__openai_read_choice(api_run *run, ij_jv v, api_error *e); /* tool_choice, after the tools */
bool ij__openai_read_top_k(api_run *run, ij_jv v, api_error *e);
bool ij__openai_read_model(api_run *run, ij_jv v, api_error *e);
bool ij__openai_read_seed(api_run *run, ij_jv v, api_error *e);
bool ij__openai_read_stream_options(api_run *run, ij_jv v, api_error *e);
bool ij__openai_check_stream(api_run *run, api_error *e); /* after all fields: stream_options only beside stream */
bool ij__openai_read_later(api_run *run, ij_jv v, api_error *e); /* for fields that are read after all others */

void ij__openai_logprob_token(const api_run *run, ij_choice choice, ij_buf *out);
void ij__openai_logprobs(const api_choice *c, int from, int to, ij_buf *out);
void ij__openai_stream_error(api_run *run, const api_error *e);

#endif
