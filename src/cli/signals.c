/* signals.c: Ctrl-C. The first one only raises a flag that loops look at; the second ends the process at once.
 *
 * A hangup or a request to terminate counts as Ctrl-C, so that temporary files do not survive them. A closed pipe is not a signal
 * here but a write error, which out.c reports.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static volatile sig_atomic_t n_interrupts, n_endings;
static volatile bool flag;

/* What the second interrupt removes; written before the handler can need it, cleared before the strings go. */
static const char *const *volatile doomed_files;
static volatile sig_atomic_t n_doomed_files;
static const char *volatile doomed_folder;

static void on_interrupt(int number) {
  flag = true;
  if (number != SIGINT) n_endings = 1;
  if (n_interrupts++ == 0) return;
  /* unlink, rmdir, signal and raise are async-signal-safe. */
  for (int i = 0; i < n_doomed_files; i++) unlink(doomed_files[i]);
  if (doomed_folder) rmdir(doomed_folder);
  signal(number, SIG_DFL);
  raise(number);
}

void interrupt_install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt; /* no SA_RESTART: a read from a terminal ends too */
  sigemptyset(&action.sa_mask);
  const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < IJ_COUNT_OF(numbers); i++) {
    struct sigaction before;
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
  }
  signal(SIGPIPE, SIG_IGN);
}

bool interrupted(void) { return n_interrupts > 0; }
const volatile bool *interrupted_flag(void) { return &flag; }

bool interrupted_for_good(void) { return n_endings > 0; }

void interrupt_forget(void) {
  if (n_endings) return;
  n_interrupts = 0;
  flag = false;
}

void interrupt_remove_on_kill(const char *const *files, int n_files, const char *folder) {
  n_doomed_files = 0;
  doomed_folder = NULL;
  doomed_files = files;
  doomed_folder = folder;
  n_doomed_files = files ? n_files : 0;
}
