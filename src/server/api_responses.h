/* api_responses.h: reading a request of OpenAI's Responses API (api_responses_in.c); writing is api_responses.c. */
#ifndef IJ_SERVER_API_RESPONSES_H
#define IJ_SERVER_API_RESPONSES_H

#include "server/api.h"

typedef struct api_responses {
  int64_t sequence;            /* of the next event */
} api_responses;

bool ij__responses_read(api_run *run, api_error *e);

#endif
