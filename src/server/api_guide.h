/* api_guide.h: the grammars of a request: the form of its answer and of its calls. They are kept by the server (api_grammars.h). */
#ifndef IJ_SERVER_API_GUIDE_H
#define IJ_SERVER_API_GUIDE_H

#include "server/api.h"

bool ij__guide_compile(api_run *run, api_error *e);
/* For one answer; NULL when nothing is constrained. */
bool ij__guide_make(api_run *run, ij_turn_state state, ij_guide **out, api_error *e);
void ij__guide_free(api_run *run);

#endif
