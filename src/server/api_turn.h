/* api_turn.h: one answer: tokens in, items and pieces of items out, stop strings cut. Called under the lock of the run. */
#ifndef IJ_SERVER_API_TURN_H
#define IJ_SERVER_API_TURN_H

#include "server/api.h"

bool ij__turn_init(api_choice *c, api_run *run, int index, int prompt, api_error *e);
void ij__turn_free(api_choice *c);
/* After a push c->turn_over says whether the answer has ended by itself or by a stop string. */
bool ij__turn_push(api_choice *c, const ij_job_token *token, api_error *e);
/* For ends other than failure: what is held comes out, and the choice gets its finish. */
bool ij__turn_end(api_choice *c, ij_job_end end, api_error *e);

#endif
