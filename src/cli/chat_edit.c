/* chat_edit.c: line editing by libedit, the one file that knows it. Without it there are plain lines, and the conversation says so.
 *
 * The terminal is in editing mode only while a line is read. In that mode Ctrl-C and Ctrl-Z come as characters, so that a line can be
 * given up without a signal, and bracketed paste is on, so that pasted line ends do not send anything. A request to terminate finds the
 * terminal as it was before.
 */
#include "cli/chat.h"

#ifdef IJ_HAS_EDIT

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "core/alloc.h"

#define PASTE_ON "\x1b[?2004h"
#define PASTE_OFF "\x1b[?2004l"

struct chat_edit {
  EditLine *el;
  History *history;
  const char *prompt;
  bool cancelled;
};

/* For the handler, which may run between any two instructions while a line is read. */
static struct termios before_editing;

static void write_all(const char *s) {
  ssize_t n = write(STDOUT_FILENO, s, strlen(s));
  (void)n; /* a terminal that is gone needs no restoring */
}

static void on_ending(int number) {
  tcsetattr(STDIN_FILENO, TCSANOW, &before_editing);
  write_all(PASTE_OFF "\n");
  signal(number, SIG_DFL);
  raise(number);
}

/* ---------------------------------------------------------------------------------------------------- keys of our own */

static chat_edit *editor_of(EditLine *el) {
  void *e = NULL;
  el_get(el, EL_CLIENTDATA, &e);
  return e;
}

static char *prompt_of(EditLine *el) { return (char *)(uintptr_t)editor_of(el)->prompt; }

/* The line is ended as by Enter, so that the cursor comes out below it, and thrown away. */
static unsigned char on_cancel(EditLine *el, int key) {
  (void)key;
  editor_of(el)->cancelled = true;
  el_wpush(el, L"\n");
  return CC_NORM;
}

static unsigned char on_suspend(EditLine *el, int key) {
  struct termios editing;
  (void)key;
  (void)el;
  if (tcgetattr(STDIN_FILENO, &editing) != 0) return CC_ERROR;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_editing);
  write_all(PASTE_OFF "\n");
  raise(SIGTSTP);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &editing);
  write_all(PASTE_ON);
  return CC_REDISPLAY;
}

/* Everything up to the end mark of a paste, with line feeds for line ends. False: given up. */
static bool read_pasted(EditLine *el, ij_buf *text) {
  static const wchar_t end[] = L"\x1b[201~";
  const size_t n_end = sizeof end - sizeof *end;
  wchar_t c, last = 0;
  while (!text->failed && el_wgetc(el, &c) == 1 && c != 3) {
    wchar_t put = c == L'\r' ? L'\n' : c;
    if (!(c == L'\n' && last == L'\r')) ij__buf_append(text, &put, sizeof put);
    last = c;
    if (text->len < n_end || memcmp(text->data + text->len - n_end, end, n_end) != 0) continue;
    text->len -= n_end;
    put = 0;
    ij__buf_append(text, &put, sizeof put);
    return !text->failed;
  }
  return false;
}

static unsigned char on_paste(EditLine *el, int key) {
  ij_buf text = {0};
  (void)key;
  bool ok = read_pasted(el, &text);
  if (ok && text.len > sizeof(wchar_t)) ok = el_winsertstr(el, (const wchar_t *)(const void *)text.data) == 0;
  ij__buf_free(&text);
  return ok ? CC_REFRESH : CC_ERROR;
}

static void bind_keys(EditLine *el) {
  /* The names wide: of narrow ones libedit makes copies that it never frees. */
  el_wset(el, EL_ADDFN, L"ij-cancel", L"give the line up", on_cancel);
  el_wset(el, EL_ADDFN, L"ij-suspend", L"stop the program", on_suspend);
  el_wset(el, EL_ADDFN, L"ij-paste", L"take pasted text", on_paste);
  el_set(el, EL_BIND, "^C", "ij-cancel", NULL);
  el_set(el, EL_BIND, "^Z", "ij-suspend", NULL);
  el_set(el, EL_BIND, "\\e[200~", "ij-paste", NULL);
  el_set(el, EL_SETTY, "-d", "-isig", NULL);
}

/* -------------------------------------------------------------------------------------------------------- open and close */

/* libedit reads characters by the locale: one that is not UTF-8 would refuse most of them. */
static bool use_utf8(void) {
  static const char *const names[] = {"", "C.UTF-8", "en_US.UTF-8"};
  for (size_t i = 0; i < IJ_COUNT_OF(names); i++) {
    if (setlocale(LC_CTYPE, names[i]) && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return true;
  }
  setlocale(LC_CTYPE, "C");
  return false;
}

static const char *why_not(void) {
  const char *term = getenv("TERM");
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return "standard output is no terminal";
  if (!term || !*term || strcmp(term, "dumb") == 0) return "TERM names no terminal that can move its cursor";
  return use_utf8() ? NULL : "there is no UTF-8 locale";
}

chat_edit *chat_edit_open(const char **why) {
  HistEvent event;
  *why = why_not();
  if (*why) return NULL;
  *why = "there is no memory for it";
  chat_edit *e = ij__alloc_zero(1, sizeof *e);
  if (!e) return NULL;
  e->prompt = "";
  e->el = el_init("inkjet", stdin, stdout, stderr);
  e->history = history_init();
  if (!e->el || !e->history) {
    chat_edit_close(&e);
    return NULL;
  }
  history(e->history, &event, H_SETSIZE, 500);
  el_set(e->el, EL_CLIENTDATA, e);
  el_set(e->el, EL_EDITOR, "emacs");
  el_set(e->el, EL_PROMPT, prompt_of);
  el_set(e->el, EL_HIST, history, e->history);
  el_source(e->el, NULL); /* the user's own settings */
  bind_keys(e->el);
  return e;
}

void chat_edit_close(chat_edit **e) {
  if (!*e) return;
  if ((*e)->el) el_end((*e)->el);
  if ((*e)->history) history_end((*e)->history);
  ij__free(*e);
  *e = NULL;
}

/* --------------------------------------------------------------------------------------------------------------- reading */

static void add_utf8(ij_buf *out, unsigned c) {
  char s[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = n - 1; i > 0; i--, c >>= 6) s[i] = (char)(0x80 | (c & 0x3f));
  s[0] = (char)(first[n] | c);
  ij__buf_append(out, s, n);
}

typedef struct endings {
  struct sigaction term, hup;
} endings;

static void catch_endings(endings *old) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_ending;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &old->term);
  sigaction(SIGHUP, &action, &old->hup);
}

static void restore_endings(const endings *old) {
  sigaction(SIGTERM, &old->term, NULL);
  sigaction(SIGHUP, &old->hup, NULL);
}

chat_read chat_edit_line(chat_edit *e, const char *prompt, ij_buf *line) {
  endings old;
  int n = 0;
  e->prompt = prompt;
  e->cancelled = false;
  out_flush();
  if (tcgetattr(STDIN_FILENO, &before_editing) != 0) return CHAT_READ_END;
  catch_endings(&old);
  if (interrupted_for_good()) { /* just before: nothing would end the wait */
    restore_endings(&old);
    return CHAT_READ_CANCELLED;
  }
  write_all(PASTE_ON);
  el_resize(e->el);
  el_set(e->el, EL_PREP_TERM, 1); /* before the prompt, which el_wgets prints first */
  errno = 0;
  const wchar_t *got = el_wgets(e->el, &n);
  bool stopped = !got && errno == EINTR;
  write_all(PASTE_OFF);
  restore_endings(&old);
  if (e->cancelled || stopped) return CHAT_READ_CANCELLED;
  if (!got || n <= 0) {
    write_all("\n");
    return CHAT_READ_END;
  }
  if (got[n - 1] == L'\n') n--;
  ij__buf_reserve(line, 1);
  for (int i = 0; i < n; i++) add_utf8(line, (unsigned)got[i]);
  return CHAT_READ_LINE;
}

void chat_edit_remember(chat_edit *e, const char *text) {
  HistEvent event;
  if (*text) history(e->history, &event, H_ENTER, text);
}

#else

chat_edit *chat_edit_open(const char **why) {
  *why = "this build found no libedit";
  return NULL;
}

void chat_edit_close(chat_edit **e) { (void)e; }

chat_read chat_edit_line(chat_edit *e, const char *prompt, ij_buf *line) {
  (void)e;
  (void)prompt;
  (void)line;
  return CHAT_READ_END;
}

void chat_edit_remember(chat_edit *e, const char *text) {
  (void)e;
  (void)text;
}

#endif
