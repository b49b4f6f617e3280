/* utf8.c: bytes of tokens -> whole characters, for text that is shown while it is being generated.
 *
 * The only state is the unfinished character itself (at most 3 bytes), always a proper prefix of a valid sequence; what may follow it
 * is worked out again from those bytes, which is cheaper to get right than to carry along.
 */
#include <string.h>

#include "text/tok.h"

/* Whether b may be byte number n (1..3) of a sequence that starts with held[0..n). Only the second byte has more than the general
 * range of a continuation: there overlong forms, surrogates and values above U+10FFFF are ruled out. */
static bool may_continue(const unsigned char *held, int n, unsigned char b) {
  if (n == 1) {
    switch (held[0]) {
      case 0xE0: return b >= 0xA0 && b <= 0xBF;
      case 0xED: return b >= 0x80 && b <= 0x9F;
      case 0xF0: return b >= 0x90 && b <= 0xBF;
      case 0xF4: return b >= 0x80 && b <= 0x8F;
      default: break;
    }
  }
  return (b & 0xC0) == 0x80;
}

/* Bytes in the sequence that starts with b; 0 when none does. */
static int sequence_length(unsigned char b) {
  if (b < 0x80) return 1;
  if (b < 0xC2 || b > 0xF4) return 0;
  return b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

static size_t put_replacement(char *out) {
  memcpy(out, "\xEF\xBF\xBD", 3);
  return 3;
}

size_t ij__utf8_stream_push(ij_utf8_stream *s, const char *bytes, size_t n, char *out) {
  size_t n_out = 0;
  for (size_t i = 0; i < n; i++) {
    unsigned char b = (unsigned char)bytes[i];
    if (s->n_held > 0 && !may_continue(s->held, s->n_held, b)) n_out += ij__utf8_stream_flush(s, out + n_out);
    if (s->n_held == 0 && sequence_length(b) == 0) {
      n_out += put_replacement(out + n_out);
      continue;
    }
    s->held[s->n_held++] = b;
    if (s->n_held == sequence_length(s->held[0])) {
      memcpy(out + n_out, s->held, (size_t)s->n_held);
      n_out += (size_t)s->n_held;
      s->n_held = 0;
    }
  }
  return n_out;
}

size_t ij__utf8_stream_flush(ij_utf8_stream *s, char *out) {
  if (s->n_held == 0) return 0;
  s->n_held = 0;
  return put_replacement(out);
}
