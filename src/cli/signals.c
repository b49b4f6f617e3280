/* signals.c: Ctrl-C, and files that shrink. The first Ctrl-C only raises a flag that loops look at; the second ends the process at once.
 *
 * A hangup or a request to terminate counts as Ctrl-C, so that temporary files do not survive them. A closed pipe is not a signal
 * here but a write error, which out.c reports.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static atomic_int n_interrupts, n_endings; /* whichever thread gets the signal, another may look; free of locks, as a handler needs them */
static volatile bool flag;

/* What the second interrupt removes; written before the handler can need it, cleared before the strings go. */
static const char *const *volatile doomed_files;
static volatile sig_atomic_t n_doomed_files;
static const char *volatile doomed_folder;

/* A byte per interrupt, for those who wait in poll. */
static int wake[2] = {-1, -1};

/* After the flags: who sees the byte sees them. */
static void wake_waiting(void) {
  int saved = errno;
  ssize_t n = write(wake[1], "", 1); /* full is as good */
  (void)n;
  errno = saved;
}

static void remove_doomed(void) {
  for (int i = 0; i < n_doomed_files; i++) unlink(doomed_files[i]);
  if (doomed_folder) rmdir(doomed_folder);
}

static void on_interrupt(int number) {
  flag = true;
  if (number != SIGINT) n_endings = 1;
  if (n_interrupts++ == 0) {
    wake_waiting();
    return;
  }
  /* unlink, rmdir, signal, raise and write are async-signal-safe. */
  remove_doomed();
  signal(number, SIG_DFL);
  raise(number);
}

/* A byte of a mapped file that is not there any more. What was to be read is lost, and with it the thread that reads: all that can be done is to
 * say so. */
static void on_lost_file(int number) {
  static const char text[] =
      "inkjet: a file of the model is shorter than when it was opened, or its drive does not answer, and a part that is needed now cannot be read: check "
      "the file and start again (--home resident reads all of it at the start, and does not look at it afterwards)\n";
  static atomic_flag said = ATOMIC_FLAG_INIT;
  (void)number;
  while (atomic_flag_test_and_set(&said)) pause(); /* another thread has lost it, too */
  ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
  (void)n;
  remove_doomed();
  _exit(CLI_EXIT_BAD_INPUT);
}

static void open_wake(void) {
  if (wake[0] >= 0 || pipe(wake) != 0) return;
  for (int i = 0; i < 2; i++) {
    fcntl(wake[i], F_SETFL, O_NONBLOCK);
    fcntl(wake[i], F_SETFD, FD_CLOEXEC);
  }
}

bool interrupt_or_input(int fd) {
  for (;;) {
    if (interrupted()) return false;
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = wake[0], .events = POLLIN}}; /* one below 0 is left out */
    int n = poll(fds, 2, -1);
    char drop[16];
    if (n > 0 && fds[1].revents && read(wake[0], drop, sizeof drop) > 0) continue;
    if (n > 0 && fds[0].revents) return true;
    if (n < 0 && errno != EINTR) return true; /* reading says what is wrong */
  }
}

void interrupt_install(void) {
  open_wake();
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt; /* no SA_RESTART: a read from a terminal ends too */
  sigemptyset(&action.sa_mask);
  const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < IJ_COUNT_OF(numbers); i++) {
    struct sigaction before;
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
  }
  action.sa_handler = on_lost_file;
  sigaction(SIGBUS, &action, NULL);
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
