/* embedded.h: the built-in model: what the build has put into the program, and its path. */
#ifndef IJ_CLI_EMBEDDED_H
#define IJ_CLI_EMBEDDED_H

#define BUILTIN_MODEL "builtin:demo"

typedef struct cli_embedded_file {
  const char *name;
  const unsigned char *begin, *end;
} cli_embedded_file;

extern const cli_embedded_file cli_embedded[]; /* [cli_n_embedded] */
extern const int cli_n_embedded;               /* 0: the program was built without a model */

/* Makes the files known under BUILTIN_MODEL; once, before any path is opened. */
int embedded_register(void);

#endif
