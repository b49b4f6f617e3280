/* chat_lines.c: lines make a message.
 *
 * A line is a message, except that a backslash at its end continues it, and three quotes open a block that takes everything as it is
 * until a line ends in three quotes. Pasted text comes as one line that holds line ends and is taken as it is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat.h"

static const char quotes[] = "\"\"\"";
enum { N_QUOTES = 3 };

static bool ends_in_quotes(const ij_buf *b, size_t from) {
  return b->len >= from + N_QUOTES && memcmp(b->data + b->len - N_QUOTES, quotes, N_QUOTES) == 0;
}

static void drop_end(ij_buf *b, size_t n) {
  b->len -= n;
  b->data[b->len] = 0;
}

/* text holds the first line after its quotes. */
static chat_read read_block(const chat_source *source, ij_buf *text) {
  ij_buf line = {0};
  chat_read got = CHAT_READ_LINE;
  while (!ends_in_quotes(text, 0)) {
    line.len = 0;
    got = source->line(source->user, "\"\" ", &line);
    if (got != CHAT_READ_LINE) break;
    ij__buf_puts(text, "\n");
    ij__buf_append(text, line.data, line.len);
    text->failed = text->failed || line.failed;
    if (text->failed) break;
  }
  ij__buf_free(&line);
  if (got == CHAT_READ_LINE && !text->failed) drop_end(text, N_QUOTES);
  return got;
}

static bool goes_on(const ij_buf *text, size_t line_from) {
  bool pasted = memchr(text->data + line_from, '\n', text->len - line_from) != NULL;
  return !pasted && text->len > line_from && text->data[text->len - 1] == '\\';
}

chat_read chat_read_message(const chat_source *source, ij_buf *text) {
  text->len = 0;
  chat_read got = source->line(source->user, "> ", text);
  if (got != CHAT_READ_LINE || text->len == 0) return got;
  if (text->len >= N_QUOTES && memcmp(text->data, quotes, N_QUOTES) == 0) {
    memmove(text->data, text->data + N_QUOTES, text->len - N_QUOTES + 1);
    text->len -= N_QUOTES;
    return read_block(source, text);
  }
  ij_buf line = {0};
  for (size_t from = 0; got == CHAT_READ_LINE && !text->failed && goes_on(text, from);) {
    drop_end(text, 1);
    ij__buf_puts(text, "\n");
    from = text->len;
    line.len = 0;
    got = source->line(source->user, ". ", &line);
    ij__buf_append(text, line.data, line.len);
    text->failed = text->failed || line.failed;
  }
  ij__buf_free(&line);
  return got;
}

/* ------------------------------------------------------------------------------------------------------------- plain lines */

static bool take_line(ij_buf *ahead, ij_buf *line) {
  char *end = ahead->len ? memchr(ahead->data, '\n', ahead->len) : NULL;
  if (!end) return false;
  size_t n = (size_t)(end - ahead->data);
  ij__buf_append(line, ahead->data, n);
  ahead->len -= n + 1;
  memmove(ahead->data, end + 1, ahead->len);
  return true;
}

/* Waits, then reads by read(2): a signal cannot end a read for certain, because it may come just before it or to another thread, and the
 * buffered functions would hide that it came. What follows the last line end is a line too. */
chat_read chat_plain_line(void *user, const char *prompt, ij_buf *line) {
  ij_buf *ahead = user;
  out_flush();
  fputs(prompt, stderr);
  fflush(stderr);
  while (!take_line(ahead, line)) {
    if (!interrupt_or_input(STDIN_FILENO)) {
      ahead->len = 0;
      return CHAT_READ_CANCELLED;
    }
    if (!ij__buf_reserve(ahead, 4096)) {
      line->failed = true;
      return CHAT_READ_LINE;
    }
    ssize_t got = read(STDIN_FILENO, ahead->data + ahead->len, 4096);
    if (got > 0) {
      ahead->len += (size_t)got;
    } else if (got == 0 || errno != EINTR) {
      if (ahead->len == 0) return CHAT_READ_END;
      ij__buf_append(line, ahead->data, ahead->len);
      ahead->len = 0;
      return CHAT_READ_LINE;
    }
  }
  return CHAT_READ_LINE;
}
