/* cli_experts.h: the options about experts that are read from disk, and what is said about them. */
#ifndef IJ_CLI_CLI_EXPERTS_H
#define IJ_CLI_CLI_EXPERTS_H

#include "cli/cli.h"

/* Where the use of experts is kept: --usage, else beside the model; NULL for none, and for a model in memory. *out is from ij__alloc. */
int experts_usage_path(const cli_args *args, const char *model, char **out);

/* Fills in usage_path, predict and keep_trace. *usage must outlive the opening; then it is the caller's to free. */
int experts_options(const cli_args *args, const char *model, ij_model_options *o, char **usage);

/* After opening: remarks on a file that could not be used and on options without effect; a trace of what is not streamed is refused. */
int experts_opened(const cli_args *args, ij_model *model);
void experts_say_no_effect(const cli_args *args, const char *home);

/* --trace-experts: rc if that worked. */
int experts_write_trace(const cli_args *args, ij_model *model, int rc);
void experts_say_trace(const char *path, int64_t n_missing);

/* Before closing: with --verbose how experts were read; saves their use, with a remark when that fails. */
void experts_close(const cli_args *args, ij_model *model);

static inline double experts_ratio(double a, double b) { return b > 0 ? a / b : 0; }

#endif
