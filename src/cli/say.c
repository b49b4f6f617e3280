/* say.c: messages on standard error, and which exit code an error deserves.
 *
 * Messages may quote file names, tensor names and arguments that somebody else wrote: control characters in them, those of two bytes
 * (C1) too, are shown as \xNN, never sent to the terminal.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void put_safe(const char *s) {
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if ((c < 0x20 && c != '\n') || c == 0x7f) {
      fprintf(stderr, "\\x%02x", c);
    } else if (c == 0xc2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xa0) {
      fprintf(stderr, "\\x%02x", (unsigned char)*++s);
    } else {
      fputc(c, stderr);
    }
  }
}

static void put_format(const char *fmt, va_list args) {
  char text[sizeof(ij_err) + 256];
  vsnprintf(text, sizeof text, fmt, args);
  put_safe(text);
}

void say(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fputs("inkjet: ", stderr);
  put_format(fmt, args);
  fputc('\n', stderr);
  va_end(args);
}

void say_plain(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  put_format(fmt, args);
  fputc('\n', stderr);
  va_end(args);
}

int say_misuse(const cli_args *args, const char *fmt, ...) {
  const char *command = args->command ? args->command->name : NULL;
  va_list list;
  va_start(list, fmt);
  fputs(command ? "inkjet " : "inkjet", stderr);
  if (command) fputs(command, stderr);
  fputs(": ", stderr);
  put_format(fmt, list);
  fputc('\n', stderr);
  va_end(list);
  if (command) {
    say_plain("Try 'inkjet %s --help'.", command);
  } else {
    say_plain("Try 'inkjet help'.");
  }
  return CLI_EXIT_MISUSE;
}

static void say_error(const ij_err *err) {
  if (err->where[0]) {
    say("%s: %s", err->where, err->message);
  } else {
    say("%s", err->message[0] ? err->message : ij_status_text(err->code));
  }
}

int say_failed(const ij_err *err) {
  if (err->code == IJ_E_CANCELLED && interrupted()) return CLI_EXIT_INTERRUPTED;
  say_error(err);
  return err->code == IJ_E_ARGUMENT ? CLI_EXIT_MISUSE : CLI_EXIT_FAILED;
}

int say_bad_input(const ij_err *err) {
  if (err->code == IJ_E_IO || err->code == IJ_E_FORMAT || err->code == IJ_E_UNSUPPORTED || err->code == IJ_E_RANGE) {
    say_error(err);
    return CLI_EXIT_BAD_INPUT;
  }
  return say_failed(err);
}

int say_nomem(const char *what, size_t n_bytes) {
  say("not enough memory for %s (%zu bytes)", what, n_bytes);
  return CLI_EXIT_FAILED;
}
