/* man.c: the command table as a manual page in man(7). The build writes it to inkjet.1 with `inkjet man`. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* Text for roff: backslashes and dashes are themselves, and no line begins with a control character. */
static void roff(const char *s) {
  if (*s == '.' || *s == '\'') out_text("\\&");
  for (; *s; s++) {
    if (*s == '\\') {
      out_text("\\e");
    } else if (*s == '-') {
      out_text("\\-");
    } else if (*s == '~') {
      out_text("\\(ti");
    } else if (*s == '^') {
      out_text("\\(ha");
    } else if (*s == '`') {
      out_text("\\(ga");
    } else {
      out_bytes(s, 1);
    }
  }
}

static void man_option(const cli_option *o) {
  out_text(".TP\n");
  if (o->letter) out_printf("\\fB\\-%c\\fR%s", o->letter, o->name ? ", " : "");
  if (o->name) {
    out_text("\\fB\\-\\-");
    roff(o->name);
    out_text("\\fR");
  }
  if (o->arg) {
    out_text(" \\fI");
    roff(o->arg);
    out_text("\\fR");
  }
  out_text("\n");
  roff(o->help);
  const char *value = o->default_note ? o->default_note : o->value;
  if (value) {
    out_text(" (default: ");
    roff(value);
    out_text(")");
  }
  out_text(".\n");
}

static void man_examples(const cli_command *c) {
  out_text(".PP\nExamples:\n.PP\n.nf\n");
  for (int i = 0; c->examples[i]; i++) {
    out_text("    ");
    roff(c->examples[i]);
    out_text("\n");
  }
  out_text(".fi\n");
}

static void man_command(cli_command_id id) {
  const cli_command *c = &cli_commands[id];
  out_printf(".SS %s\n", c->name);
  for (int i = 0; c->synopsis[i]; i++) {
    out_text(i ? ".br\n\\fBinkjet\\fR " : "\\fBinkjet\\fR ");
    roff(c->synopsis[i]);
    out_text("\n");
  }
  out_text(".PP\n");
  roff(c->about);
  out_text("\n");
  for (int i = 0; i < cli_n_options; i++) {
    if (cli_takes(&cli_options[i], id) && strcmp(cli_options[i].group, "General") != 0) man_option(&cli_options[i]);
  }
  if (c->examples) man_examples(c);
}

void cli_man(void) {
  out_printf(".\\\" Written by `inkjet man` from the command table.\n.TH INKJET 1 \"2026-11-29\" \"inkjet %s\" \"User Commands\"\n", ij_version());
  out_text(".SH NAME\ninkjet \\- run the Inkling family of open models\n"
           ".SH SYNOPSIS\n\\fBinkjet\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n"
           ".SH DESCRIPTION\n"
           "inkjet continues prompts with a model of the Inkling family on this machine's processor.\n"
           "The same model, prompt and seed give the same result whatever the number of threads, the batch and the instruction set.\n"
           "Results go to standard output, everything else to standard error.\n"
           ".SH COMMANDS\n");
  for (int c = 0; c < CLI_N_COMMANDS; c++) man_command((cli_command_id)c);
  out_text(".SH GENERAL OPTIONS\n");
  for (int i = 0; i < cli_n_options; i++) {
    if (strcmp(cli_options[i].group, "General") == 0) man_option(&cli_options[i]);
  }
  out_text(".SH EXIT STATUS\n");
#define EXIT_ITEM(id, value, text) out_printf(".TP\n%d\n%s.\n", value, text);
  CLI_EXIT_LIST(EXIT_ITEM)
#undef EXIT_ITEM
}

int cmd_man(const cli_args *args) {
  (void)args;
  cli_man();
  return CLI_EXIT_OK;
}
