/* api_anthropic.h: reading a request of Anthropic's Messages API; writing is api_anthropic.c. */
#ifndef IJ_SERVER_API_ANTHROPIC_H
#define IJ_SERVER_API_ANTHROPIC_H

#include "server/api.h"

typedef struct api_anthropic {
  bool omit_thinking;          /* thinking.display is "omitted" */
} api_anthropic;

bool ij__anthropic_read(api_run *run, api_error *e);       /* /v1/messages */
bool ij__anthropic_read_count(api_run *run, api_error *e); /* /v1/messages/count_tokens */

#endif
