/* info_media.h: `inkjet info --media FILE`. */
#ifndef IJ_CLI_INFO_MEDIA_H
#define IJ_CLI_INFO_MEDIA_H

#include "cli/cli.h"

int info_media(const cli_args *args);

#endif
