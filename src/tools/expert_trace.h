/* expert_trace.h: the sequence of experts that a model used, as a file for bench_experts.
 *
 * A line of text, "inkjet-trace N_LAYER N_EXPERT\n", then the accesses in order, each layer * n_expert + expert as int32, little endian.
 */
#ifndef IJ_TOOLS_EXPERT_TRACE_H
#define IJ_TOOLS_EXPERT_TRACE_H

#include "inkjet.h"

/* *n_missing: accesses after the first ones, for which the model had no room. IJ_E_RANGE: it was opened without keep_trace, or counts nothing. No step may
 * run meanwhile. */
ij_status ij__expert_trace_write(ij_model *model, const char *path, int64_t *n_missing, ij_err *err);

#endif
