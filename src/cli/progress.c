/* progress.c: one line on a terminal that shows how far long work has come.
 *
 * Only for a terminal that can move its cursor, and only once the work has taken half a second: short work and pipes see nothing.
 * The line holds plain characters, so there is no colour to switch off; it is wiped before anything else is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/os.h"

static struct {
  bool usable, active, shown;
  const char *what;
  double begun, drawn;
} bar;

static bool terminal_usable(void) {
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static int terminal_width(void) {
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void progress_begin(const char *what) {
  bar.usable = terminal_usable();
  bar.active = true;
  bar.shown = false;
  bar.what = what;
  bar.begun = bar.drawn = ij__os_seconds();
}

static void draw(double fraction) {
  char line[256];
  int width = IJ_MIN(terminal_width() - 1, (int)sizeof line - 1); /* the last column would wrap on some terminals */
  int cells = IJ_MIN(width - (int)strlen(bar.what) - 9, 40);
  int at = snprintf(line, sizeof line, "%s ", bar.what);
  if (cells >= 4) {
    int full = (int)(fraction * cells);
    line[at++] = '[';
    memset(line + at, '#', (size_t)full);
    memset(line + at + full, '.', (size_t)(cells - full));
    at += cells;
    line[at++] = ']';
  }
  snprintf(line + at, sizeof line - (size_t)at, " %3d %%", (int)(fraction * 100));
  if (width > 0) fprintf(stderr, "\r%.*s", width, line);
  fflush(stderr);
}

void progress_update(double fraction) {
  if (!bar.active || !bar.usable) return;
  double now = ij__os_seconds();
  if (now - bar.begun < 0.5 || (bar.shown && now - bar.drawn < 0.1)) return;
  bar.drawn = now;
  bar.shown = true;
  draw(IJ_MAX(0.0, IJ_MIN(fraction, 1.0)));
}

void progress_end(void) {
  if (bar.shown) {
    char blank[256];
    int width = IJ_MAX(0, IJ_MIN(terminal_width() - 1, (int)sizeof blank - 1));
    memset(blank, ' ', sizeof blank);
    fprintf(stderr, "\r%.*s\r", width, blank);
    fflush(stderr);
  }
  bar.active = bar.shown = false;
}
