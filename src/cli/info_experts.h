/* info_experts.h: `inkjet info --experts`. */
#ifndef IJ_CLI_INFO_EXPERTS_H
#define IJ_CLI_INFO_EXPERTS_H

#include "cli/cli.h"

/* Options that do not go with --experts, and those that need it. */
int info_experts_check(const cli_args *args);

/* What the usage file tells of this model, which was opened from `path`; on standard output. */
int info_experts(const cli_args *args, const char *path, const ij_model *model);

#endif
