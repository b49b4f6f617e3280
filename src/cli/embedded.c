/* embedded.c: the built-in model becomes a folder in memory that every command can name. */
#include "cli/embedded.h"

#include "cli/cli.h"
#include "core/alloc.h"

int embedded_register(void) {
  if (cli_n_embedded == 0) return CLI_EXIT_OK;
  ij_memory_file *files = ij__alloc_array((size_t)cli_n_embedded, sizeof *files);
  if (!files) return say_nomem("the built-in model", (size_t)cli_n_embedded * sizeof *files);
  for (int i = 0; i < cli_n_embedded; i++) {
    const cli_embedded_file *f = &cli_embedded[i];
    files[i] = (ij_memory_file){f->name, f->begin, (size_t)(f->end - f->begin)};
  }
  ij_err err = {0};
  ij_status s = ij_add_memory_folder(BUILTIN_MODEL, files, cli_n_embedded, &err);
  ij__free(files);
  return s == IJ_OK ? CLI_EXIT_OK : say_failed(&err);
}
