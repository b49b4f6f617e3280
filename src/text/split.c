/* split.c: the pre-tokenization expression of the o200k family, by hand.
 *
 * One forward scan per alternative and no backtracking. A word is an upper run, then a lower run, and characters that count as both
 * (ideographs, marks) may have to be given back by the first run to the second; remembering where the last of them ended replaces
 * the engine's backward search. Only characters that the next piece takes whole are ever looked at again, so the work is linear.
 */
#include "text/split.h"

#include <string.h>

#include "text/unicode_tables.h"

const char ij__split_expression[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
    "|\\s*[\\r\\n]+"
    "|\\s+(?!\\S)"
    "|\\s+";

enum {
  EITHER = IJ_CC_BOTH | IJ_CC_MARK,
  WORD_UPPER = IJ_CC_UPPER | EITHER, /* what the first part of a word is made of */
  WORD_LOWER = IJ_CC_LOWER | EITHER, /* and the second */
  PUNCTUATION = IJ_CC_OTHER | IJ_CC_MARK
};

static const unsigned char *skip_run(const unsigned char *p, const unsigned char *end, unsigned mask) {
  int len;
  while (p < end && (ij__utf8_class(p, end, &len) & mask)) p += len;
  return p;
}

/* 's 't 'm 'd 're 've 'll after a word, in any case. */
static const unsigned char *skip_contraction(const unsigned char *p, const unsigned char *end) {
  if (end - p < 2 || p[0] != '\'') return p;
  unsigned a = p[1] | 0x20u;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if (end - p < 3) return p;
  unsigned b = p[2] | 0x20u;
  if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
  return p;
}

typedef struct word_ends {
  const unsigned char *lower; /* end of upper* lower+, NULL when it does not match */
  const unsigned char *upper; /* end of upper+ lower*, NULL when it does not match; only looked at when the other is NULL */
} word_ends;

static word_ends scan_word(const unsigned char *start, const unsigned char *end) {
  const unsigned char *p = start, *after_either = NULL;
  unsigned class = 0;
  int len = 0;
  for (; p < end; p += len) {
    class = ij__utf8_class(p, end, &len);
    if (!(class & WORD_UPPER)) break;
    if (class & EITHER) after_either = p + len;
  }
  if (p < end && (class & IJ_CC_LOWER)) return (word_ends){skip_run(p, end, WORD_LOWER), NULL};
  return (word_ends){after_either, p > start ? p : NULL};
}

static const unsigned char *split_number(const unsigned char *p, const unsigned char *end) {
  int len;
  for (int i = 0; i < 3 && p < end && (ij__utf8_class(p, end, &len) & IJ_CC_NUMBER); i++) p += len;
  return p;
}

/* Up to and with the last line end of the run of spaces; without one, the run but for its last space, which goes to what follows. */
static const unsigned char *split_space(const unsigned char *start, const unsigned char *end) {
  const unsigned char *p = start, *after_newline = NULL, *last = start;
  int len;
  for (unsigned class; p < end && ((class = ij__utf8_class(p, end, &len)) & IJ_CC_SPACE); p += len) {
    last = p;
    if (class & IJ_CC_NEWLINE) after_newline = p + len;
  }
  if (after_newline) return after_newline;
  return p < end && last > start ? last : p;
}

static const unsigned char *split_any(const unsigned char *p, const unsigned char *end) {
  int len;
  unsigned class = ij__utf8_class(p, end, &len);
  if (class & IJ_CC_LETTER) {
    word_ends w = scan_word(p, end);
    return skip_contraction(w.lower ? w.lower : w.upper, end);
  }
  if (class & IJ_CC_NUMBER) return split_number(p, end);
  if (!(class & IJ_CC_NEWLINE)) { /* one such character may stand before a word */
    word_ends w = scan_word(p + len, end);
    if (w.lower) return skip_contraction(w.lower, end);
    if (class & IJ_CC_MARK) return skip_contraction(p + len, end); /* the mark is the lower part itself */
    if (w.upper) return skip_contraction(w.upper, end);
  }
  const unsigned char *q = p + (*p == ' ');
  const unsigned char *r = skip_run(q, end, PUNCTUATION);
  if (r == q) return split_space(p, end);
  while (r < end && (*r == '\r' || *r == '\n' || *r == '/')) r++;
  return r;
}

/* How many of the 8 bytes in x, first in memory first, are a..z. The lowest bytes come first: little-endian only. */
static int count_lower(uint64_t x) {
  const uint64_t high = 0x8080808080808080u;
  uint64_t low7 = x & ~high;
  uint64_t is_lower = (low7 + 0x1F1F1F1F1F1F1F1Fu) & ~(low7 + 0x0505050505050505u) & ~x & high;
  uint64_t other = is_lower ^ high;
  return other ? __builtin_ctzll(other) >> 3 : 8;
}

static const unsigned char *skip_ascii_lower(const unsigned char *p, const unsigned char *end) {
  for (uint64_t x; end - p >= 8;) {
    memcpy(&x, p, 8);
    int n = count_lower(x);
    p += n;
    if (n < 8) return p;
  }
  while (p < end && *p >= 'a' && *p <= 'z') p++;
  return p;
}

/* The usual case is taken first, for speed: an optional space, ASCII capitals, ASCII small letters, and then more ASCII. */
const unsigned char *ij__split_next(const unsigned char *p, const unsigned char *end) {
  const unsigned char *start = p + (*p == ' '), *q = start;
  while (q < end && *q >= 'A' && *q <= 'Z') q++;
  q = skip_ascii_lower(q, end);
  if (q == start || (q < end && *q >= 0x80)) return split_any(p, end);
  return skip_contraction(q, end);
}
