/* help.c: the command table as help on a terminal. Lines fit in 80 columns whatever the terminal, so that the text can be tested. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { HELP_WIDTH = 80, OPTION_COLUMN = 28 };

/* Breaks text at blanks; the cursor stands at `column`, further lines start at `indent`. Ends the last line. */
static void wrapped(const char *text, int column, int indent) {
  bool fresh = true;
  while (*text) {
    int n = (int)strcspn(text, " ");
    if (!fresh && column + 1 + n > HELP_WIDTH) {
      out_printf("\n%*s", indent, "");
      column = indent;
      fresh = true;
    }
    if (!fresh) {
      out_text(" ");
      column++;
    }
    out_bytes(text, (size_t)n);
    column += n;
    fresh = false;
    text += n;
    text += strspn(text, " ");
  }
  out_text("\n");
}

static void option_line(const cli_option *o) {
  char left[64], right[640];
  char letter[8] = "    ";
  if (o->letter) snprintf(letter, sizeof letter, "-%c%s", o->letter, o->name ? ", " : "");
  int n = snprintf(left, sizeof left, "  %s%s%s%s%s", letter, o->name ? "--" : "", o->name ? o->name : "", o->arg ? " " : "",
                   o->arg ? o->arg : "");
  const char *value = o->default_note ? o->default_note : o->value;
  snprintf(right, sizeof right, "%s%s%s%s", o->help, value ? " (default: " : "", value ? value : "", value ? ")" : "");
  out_text(left);
  if (n + 2 > OPTION_COLUMN) {
    out_printf("\n%*s", OPTION_COLUMN, "");
  } else {
    out_printf("%*s", OPTION_COLUMN - n, "");
  }
  wrapped(right, OPTION_COLUMN, OPTION_COLUMN);
}

static void option_group(cli_command_id c, const char *group) {
  out_printf("\n%s\n", group);
  for (int i = 0; i < cli_n_options; i++) {
    if (cli_takes(&cli_options[i], c) && strcmp(cli_options[i].group, group) == 0) option_line(&cli_options[i]);
  }
}

void cli_help_command(cli_command_id c) {
  const cli_command *command = &cli_commands[c];
  for (int i = 0; command->synopsis[i]; i++) out_printf("%s inkjet %s\n", i ? "      " : "usage:", command->synopsis[i]);
  out_text("\n");
  wrapped(command->about, 0, 0);
  for (int i = 0; i < cli_n_options; i++) {
    const cli_option *o = &cli_options[i];
    bool first = cli_takes(o, c);
    for (int k = 0; k < i && first; k++) first = !(cli_takes(&cli_options[k], c) && strcmp(cli_options[k].group, o->group) == 0);
    if (first) option_group(c, o->group);
  }
  if (command->examples) {
    out_text("\nExamples\n");
    for (int i = 0; command->examples[i]; i++) out_printf("  %s\n", command->examples[i]);
  }
}

void cli_help(void) {
  out_printf("inkjet %s: runs the Inkling family of open models\n\nusage: inkjet COMMAND [options]\n\nCommands\n", ij_version());
  for (int c = 0; c < CLI_N_COMMANDS; c++) {
    if (!cli_commands[c].hidden) out_printf("  %-12s %s\n", cli_commands[c].name, cli_commands[c].summary);
  }
  out_text("\n'inkjet COMMAND --help' explains a command; 'inkjet man' prints the manual page\n"
           "and 'inkjet completion bash' or 'zsh' a completion script. Results go to\n"
           "standard output, everything else to standard error.\n\nExit codes\n");
#define EXIT_LINE(id, value, text) out_printf("  %-4d %s\n", value, text);
  CLI_EXIT_LIST(EXIT_LINE)
#undef EXIT_LINE
}

int cmd_help(const cli_args *args) {
  if (args->n_positional == 0) {
    cli_help();
    return CLI_EXIT_OK;
  }
  const char *nearest;
  cli_command_id c = cli_find_command(args->positional[0], &nearest);
  if (c == CLI_N_COMMANDS) {
    return say_misuse(args, "there is no command '%s'%s%s%s", args->positional[0], nearest ? "; did you mean '" : "", nearest ? nearest : "",
                      nearest ? "'?" : "");
  }
  cli_help_command(c);
  return CLI_EXIT_OK;
}
