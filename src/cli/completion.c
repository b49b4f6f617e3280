/* completion.c: the command table as completion scripts for bash and zsh.
 *
 * Both complete commands, the options of a command, and the values of options that take a word or a path.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void words_of(const cli_option *o) {
  for (int i = 0; o->words[i]; i++) out_printf("%s%s", i ? " " : "", o->words[i]);
}

static void pattern_of(const cli_option *o) {
  if (o->letter) out_printf("-%c%s", o->letter, o->name ? "|" : "");
  if (o->name) out_printf("--%s", o->name);
}

static void bash_command(cli_command_id c) {
  out_printf("    %s)\n      case $before in\n", cli_commands[c].name);
  for (int i = 0; i < cli_n_options; i++) {
    const cli_option *o = &cli_options[i];
    if (!cli_takes(o, c) || o->type == CLI_FLAG) continue;
    out_text("        ");
    pattern_of(o);
    if (o->type == CLI_WORD) {
      out_text(") COMPREPLY=($(compgen -W '");
      words_of(o);
      out_text("' -- \"$word\")); return ;;\n");
    } else {
      out_text(o->type == CLI_PATH || o->type == CLI_MEDIUM ? ") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n" : ") return ;;\n");
    }
  }
  out_text("      esac\n      options='");
  for (int i = 0; i < cli_n_options; i++) {
    const cli_option *o = &cli_options[i];
    if (!cli_takes(o, c)) continue;
    if (o->letter) out_printf("-%c ", o->letter);
    if (o->name) out_printf("--%s ", o->name);
  }
  out_text("' ;;\n");
}

void cli_completion_bash(void) {
  out_text("# Completion of inkjet for bash, written by `inkjet completion bash`.\n"
           "_inkjet() {\n  local word=$2 before=$3 options=\n  COMPREPLY=()\n"
           "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '");
  for (int c = 0; c < CLI_N_COMMANDS; c++) out_printf("%s ", cli_commands[c].name);
  out_text("--help --version' -- \"$word\"))\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n");
  for (int c = 0; c < CLI_N_COMMANDS; c++) bash_command((cli_command_id)c);
  out_text("    *) return ;;\n  esac\n"
           "  if [[ $word == -* ]]; then\n    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "  elif [[ ${COMP_WORDS[1]} == help ]]; then\n    COMPREPLY=($(compgen -W '");
  for (int c = 0; c < CLI_N_COMMANDS; c++) out_printf("%s%s", c ? " " : "", cli_commands[c].name);
  out_text("' -- \"$word\"))\n"
           "  elif [[ ${COMP_WORDS[1]} == completion ]]; then\n    COMPREPLY=($(compgen -W 'bash zsh' -- \"$word\"))\n"
           "  else\n    COMPREPLY=($(compgen -f -- \"$word\"))\n  fi\n}\n"
           "complete -o filenames -o bashdefault -F _inkjet inkjet\n");
}

/* Inside '...[ ]' of _arguments: brackets and colons mean something to zsh, quotes to the shell. */
static void zsh_text(const char *s) {
  for (; *s; s++) {
    if (*s == '\'') {
      out_text("'\\''");
    } else {
      if (strchr("[]:\\", *s)) out_text("\\");
      out_bytes(s, 1);
    }
  }
}

static void zsh_option(const cli_option *o) {
  const char *spellings[2];
  char letter[3] = {'-', o->letter, 0};
  char name[64];
  int n = 0;
  snprintf(name, sizeof name, "--%s", o->name ? o->name : "");
  if (o->letter) spellings[n++] = letter;
  if (o->name) spellings[n++] = name;
  for (int i = 0; i < n; i++) {
    out_printf("        '%s%s[", o->repeatable ? "*" : "", spellings[i]);
    zsh_text(o->help);
    out_text("]");
    if (o->arg) {
      out_text(":");
      zsh_text(o->arg);
      out_text(":");
    }
    if (o->type == CLI_WORD) {
      out_text("(");
      words_of(o);
      out_text(")");
    } else if (o->type == CLI_PATH || o->type == CLI_MEDIUM) {
      out_text("_files");
    }
    out_text("' \\\n");
  }
}

void cli_completion_zsh(void) {
  out_text("#compdef inkjet\n# Completion of inkjet for zsh, written by `inkjet completion zsh`.\n_inkjet() {\n"
           "  local -a commands\n  commands=(\n");
  for (int c = 0; c < CLI_N_COMMANDS; c++) {
    out_printf("    '%s:", cli_commands[c].name);
    zsh_text(cli_commands[c].summary);
    out_text("'\n");
  }
  out_text("  )\n  if ((CURRENT == 2)); then\n    _describe -t commands command commands\n    return\n  fi\n"
           "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n");
  for (int c = 0; c < CLI_N_COMMANDS; c++) {
    out_printf("    %s)\n      _arguments \\\n", cli_commands[c].name);
    for (int i = 0; i < cli_n_options; i++) {
      if (cli_takes(&cli_options[i], (cli_command_id)c)) zsh_option(&cli_options[i]);
    }
    if (c == CMD_COMPLETION) {
      out_text("        ':shell:(bash zsh)' ;;\n");
    } else {
      out_text(c == CMD_HELP ? "        ':command:_describe command commands' ;;\n" : "        '*::argument:_files' ;;\n");
    }
  }
  out_text("  esac\n}\n_inkjet \"$@\"\n");
}

int cmd_completion(const cli_args *args) {
  const char *shell = args->n_positional ? args->positional[0] : NULL;
  if (shell && strcmp(shell, "bash") == 0) {
    cli_completion_bash();
  } else if (shell && strcmp(shell, "zsh") == 0) {
    cli_completion_zsh();
  } else {
    return say_misuse(args, shell ? "'%s' is not accepted; expected bash or zsh" : "no shell is given: expected bash or zsh", shell);
  }
  return CLI_EXIT_OK;
}
