/* chat_view.c: what an answer looks like while it comes.
 *
 * Content and calls go to standard output, and so does reasoning in a conversation whose output is a terminal; otherwise reasoning and
 * remarks go to standard error. Colour is dimming only, on a terminal that has it, and never with NO_COLOR. Text of the model is made safe
 * for a terminal and left alone in a file or pipe.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat.h"
#include "core/os.h"

enum { PART_NONE, PART_REASONING, PART_FOLDED, PART_CONTENT, PART_CALL };

#define DIM "\x1b[2m"
#define PLAIN "\x1b[0m"

static bool knows_terminal(void) {
  const char *term = getenv("TERM");
  return term && *term && strcmp(term, "dumb") != 0;
}

static bool may_colour(void) {
  const char *no = getenv("NO_COLOR");
  return knows_terminal() && !(no && *no);
}

void chat_view_open(chat_view *v, bool talking, bool show_thinking) {
  bool out = isatty(STDOUT_FILENO), err = isatty(STDERR_FILENO);
  *v = (chat_view){.talking = talking, .show_reasoning = talking || show_thinking || err, .safe_out = out, .safe_err = err,
                   .dim_out = out && may_colour(), .dim_err = err && may_colour(), .moves = out && knows_terminal()};
}

void chat_view_close(chat_view *v) { ij__buf_free(&v->buf); }

/* ------------------------------------------------------------------------------------------------------------- two streams */

static void put(const chat_view *v, bool to_err, const char *bytes, size_t n) {
  if (to_err) {
    fwrite(bytes, 1, n, stderr);
  } else if (!v->quiet) {
    out_bytes(bytes, n);
  }
}

static void put_text(chat_view *v, bool to_err, const char *bytes, size_t n) {
  bool safe = to_err ? v->safe_err : v->safe_out;
  if (safe) {
    v->buf.len = 0;
    chat_safe_add(&v->buf, &v->safe, bytes, n);
    bytes = v->buf.data;
    n = v->buf.len;
  }
  if (n == 0) return;
  put(v, to_err, bytes, n);
  v->line_open = bytes[n - 1] != '\n';
}

static bool reasoning_to_err(const chat_view *v) { return !v->talking || !v->safe_out; }
static bool reasoning_dims(const chat_view *v) { return reasoning_to_err(v) ? v->dim_err : v->dim_out; }

static void flush_both(void) {
  out_flush();
  fflush(stderr);
}

/* ------------------------------------------------------------------------------------------------------------------- parts */

static void leave_part(chat_view *v) {
  bool to_err = v->part == PART_REASONING && reasoning_to_err(v);
  if (v->part == PART_FOLDED && v->moves) out_text("\r\x1b[K");
  v->buf.len = 0;
  chat_safe_end(&v->buf, &v->safe);
  put(v, to_err, v->buf.data ? v->buf.data : "", v->buf.len);
  if (v->part == PART_REASONING && reasoning_dims(v)) put(v, to_err, PLAIN, strlen(PLAIN));
  if (v->line_open) put(v, to_err, "\n", 1);
  v->line_open = false;
  v->part = PART_NONE;
  flush_both();
}

static void enter_part(chat_view *v, int part) {
  if (v->part == part && part != PART_CALL) return;
  leave_part(v);
  v->part = part;
  if (part == PART_FOLDED) v->folded_since = ij__os_seconds();
  if (part != PART_REASONING) return;
  bool to_err = reasoning_to_err(v);
  if (reasoning_dims(v)) put(v, to_err, DIM, strlen(DIM));
  put(v, to_err, "[thinking]\n", 11);
}

static void show_reasoning(chat_view *v, const char *bytes, size_t n) {
  if (!v->show_reasoning) return;
  if (v->talking && v->fold) {
    enter_part(v, PART_FOLDED);
    return;
  }
  enter_part(v, PART_REASONING);
  put_text(v, reasoning_to_err(v), bytes, n);
}

void chat_view_begin(chat_view *v) {
  v->part = PART_NONE;
  v->line_open = false;
  v->safe = (chat_safe){0};
  v->drawn = 0;
}

void chat_view_event(chat_view *v, const ij_event *e) {
  switch (e->kind) {
    case IJ_EVENT_REASONING: show_reasoning(v, e->bytes, e->n_bytes); break;
    case IJ_EVENT_CONTENT:
      enter_part(v, PART_CONTENT);
      put_text(v, false, e->bytes, e->n_bytes);
      break;
    case IJ_EVENT_CALL_BEGIN:
      enter_part(v, PART_CALL);
      put_text(v, false, e->bytes, e->n_bytes);
      put_text(v, false, " ", 1);
      break;
    case IJ_EVENT_CALL_ARGUMENTS: put_text(v, false, e->bytes, e->n_bytes); break;
    case IJ_EVENT_CALL_END:
      leave_part(v);
      if (!e->well_formed) chat_view_note(v, "[this call is malformed]");
      break;
    case IJ_EVENT_NOTE:
      leave_part(v);
      chat_view_note(v, "[%.*s]", (int)IJ_MIN(e->n_bytes, (size_t)400), e->bytes);
      break;
  }
  flush_both();
}

/* The line that stands for folded reasoning, at most ten times a second. */
void chat_view_count(chat_view *v, int64_t n_reasoning) {
  if (v->part != PART_FOLDED || !v->moves) return;
  double now = ij__os_seconds();
  if (now - v->drawn < 0.1) return;
  v->drawn = now;
  out_printf("\r%s[thinking: %lld tokens]%s", v->dim_out ? DIM : "", (long long)n_reasoning, v->dim_out ? PLAIN : "");
  out_flush();
}

void chat_view_end(chat_view *v, const chat_answer *a) {
  leave_part(v);
  if (v->talking && v->fold && a->n_reasoning) {
    double s = IJ_MAX(a->t_think - a->t_first, 0.0);
    chat_view_note(v, "[thought for %.1f s, %lld tokens; /think shows it]", s, (long long)a->n_reasoning);
  }
}

/* ----------------------------------------------------------------------------------------------------------- other paragraphs */

void chat_view_text(chat_view *v, const char *bytes, size_t n) {
  chat_view_begin(v);
  v->part = PART_CONTENT;
  put_text(v, false, bytes, n);
  leave_part(v);
}

void chat_view_reasoning(chat_view *v, const char *bytes, size_t n) {
  chat_view_begin(v);
  enter_part(v, PART_REASONING);
  put_text(v, reasoning_to_err(v), bytes, n);
  leave_part(v);
}

void chat_view_note(const chat_view *v, const char *fmt, ...) {
  char text[1024];
  ij_buf safe = {0};
  chat_safe state = {0};
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  chat_safe_add(&safe, &state, text, strlen(text));
  out_flush();
  fprintf(stderr, "%s%s%s\n", v->dim_err ? DIM : "", safe.data ? safe.data : "", v->dim_err ? PLAIN : "");
  ij__buf_free(&safe);
}

void chat_view_speed(chat_view *v, const chat_answer *a) {
  double s = a->t_end - a->t_first;
  char speed[48] = "";
  if (a->n_tokens == 0) return;
  if (a->n_tokens > 1 && s > 0) snprintf(speed, sizeof speed, ", %.1f tokens/s", (double)(a->n_tokens - 1) / s);
  const char *end = a->end == CHAT_LENGTH ? "; stopped by -n"
                    : a->end == CHAT_CONTEXT ? "; the context is full" : a->end == CHAT_INTERRUPTED ? "; stopped" : "";
  chat_view_note(v, "[%lld token%s%s, first after %.2f s; prompt of %lld tokens, %lld cached%s]", (long long)a->n_tokens,
                 a->n_tokens == 1 ? "" : "s", speed, a->t_first - a->t_prompt, (long long)a->n_prompt, (long long)a->n_cached, end);
}
