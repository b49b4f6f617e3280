/* main.c: finds the command, parses its options, runs it, and makes sure that what was printed has arrived. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/embedded.h"
#include "core/os.h"

static int print_version(void) {
  out_printf("inkjet %s\n", ij_version());
  return CLI_EXIT_OK;
}

static int run_command(cli_args *args, cli_command_id command, int argc, char **argv) {
  if (!cli_parse(args, command, argc, argv, 2)) return CLI_EXIT_MISUSE;
  if (args->v[OPT_VERSION].set) return print_version();
  if (args->v[OPT_HELP].set) {
    cli_help_command(command);
    return CLI_EXIT_OK;
  }
  return args->command->run(args);
}

static int dispatch(cli_args *args, int argc, char **argv) {
  const char *nearest = NULL;
  if (argc < 2) return say_misuse(args, "no command is given");
  const char *name = argv[1];
  bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0, version = strcmp(name, "--version") == 0;
  if ((help || version) && argc > 2) return say_misuse(args, "unexpected argument '%s' after %s", argv[2], name);
  if (version) return print_version();
  if (help) {
    cli_help();
    return CLI_EXIT_OK;
  }
  if (name[0] == '-') return say_misuse(args, "unknown option '%s': a command comes first", name);
  cli_command_id command = cli_find_command(name, &nearest);
  if (command != CLI_N_COMMANDS) return run_command(args, command, argc, argv);
  if (nearest) return say_misuse(args, "unknown command '%s'; did you mean '%s'?", name, nearest);
  return say_misuse(args, "unknown command '%s'", name);
}

int main(int argc, char **argv) {
  cli_args args = {.start = ij__os_seconds()};
  interrupt_install();
  raise_descriptors(0);
  int rc = embedded_register();
  if (rc == CLI_EXIT_OK) rc = dispatch(&args, argc, argv);
  rc = out_finish(rc);
  cli_args_free(&args);
  return rc;
}
