/* chat_safe.c: text of a model made fit for a terminal.
 *
 * A model repeats what it has read, and what it has read may want to move a cursor. Every character that a terminal obeys instead of
 * showing it is written as \xNN or <U+NNNN>; the same text goes into files and pipes unchanged, which is why this is not done earlier.
 */
#include "cli/chat.h"

/* Bytes that are no character (none comes from a parser) are taken as controls, one by one. */
static unsigned code_point(const unsigned char *s, size_t n, size_t *len) {
  *len = 1;
  if (s[0] < 0x80) return s[0];
  size_t want = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4 || want > n) return 0x80;
  unsigned c = s[0] & (0xffu >> (want + 1));
  for (size_t i = 1; i < want; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0x80;
    c = c << 6 | (s[i] & 0x3fu);
  }
  *len = want;
  return c;
}

/* C0, DEL and C1; and the embeddings, overrides and isolates of text direction. */
static bool is_control(unsigned c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }
static bool is_direction(unsigned c) { return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069); }

void chat_safe_end(ij_buf *out, chat_safe *state) {
  if (state->cr) ij__buf_puts(out, "\\x0d");
  state->cr = false;
}

void chat_safe_add(ij_buf *out, chat_safe *state, const char *bytes, size_t n) {
  const unsigned char *s = (const unsigned char *)bytes;
  for (size_t at = 0, len = 1; at < n; at += len) {
    unsigned c = code_point(s + at, n - at, &len);
    if (c == '\n') state->cr = false;
    chat_safe_end(out, state);
    if (c == '\r') {
      state->cr = true;
    } else if (is_direction(c)) {
      ij__buf_printf(out, "<U+%04X>", c);
    } else if (is_control(c) && c != '\n' && c != '\t') {
      ij__buf_printf(out, "\\x%02x", len == 1 ? s[at] : c);
    } else {
      ij__buf_append(out, bytes + at, len);
    }
  }
}
