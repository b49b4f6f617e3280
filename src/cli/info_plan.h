/* info_plan.h: `inkjet info --plan`: what a run would take, before anything is loaded. */
#ifndef IJ_CLI_INFO_PLAN_H
#define IJ_CLI_INFO_PLAN_H

#include "cli/cli.h"

/* --plan; says so when options about plans are given without it. */
int check_plan_options(const cli_args *args);
int info_plan(const cli_args *args, const char *path);

#endif
