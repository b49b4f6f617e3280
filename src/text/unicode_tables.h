/* unicode_tables.h: what the splitter needs to know about a code point, and how to read one from UTF-8.
 *
 * A class is a set of bits so that "one of these" is a single AND. Unassigned code points, and bytes that are no UTF-8, are OTHER.
 */
#ifndef IJ_TEXT_UNICODE_TABLES_H
#define IJ_TEXT_UNICODE_TABLES_H

#include "core/base.h"

enum {
  IJ_CC_BOTH = 1,      /* Lm, Lo: letters that count as upper and as lower */
  IJ_CC_OTHER = 2,     /* everything that is none of the rest */
  IJ_CC_MARK = 4,      /* Mn, Mc, Me: not letters, yet inside words they count as both */
  IJ_CC_LOWER = 8,     /* Ll */
  IJ_CC_UPPER = 16,    /* Lu, Lt */
  IJ_CC_NUMBER = 32,   /* Nd, Nl, No */
  IJ_CC_SPACE = 64,    /* White_Space */
  IJ_CC_NEWLINE = 128, /* CR and LF, which are SPACE as well */
  IJ_CC_LETTER = IJ_CC_UPPER | IJ_CC_BOTH | IJ_CC_LOWER
};

extern const uint8_t ij__unicode_block[0x110000 / 256];
extern const uint8_t ij__unicode_class[]; /* [blocks][256]; block 0 is U+0000..00FF, so it can be indexed by an ASCII byte */

/* The class of the code point that starts at p < end, and its length in bytes. A byte that starts no valid UTF-8 sequence
 * is one OTHER of length 1. */
static inline unsigned ij__utf8_class(const unsigned char *p, const unsigned char *end, int *len) {
  unsigned c = p[0];
  *len = 1;
  if (c < 0x80) return ij__unicode_class[c];
  size_t n = (size_t)(end - p);
  if (c < 0xE0) {
    if (c < 0xC2 || n < 2 || (p[1] & 0xC0) != 0x80) return IJ_CC_OTHER;
    *len = 2;
    c = (c & 0x1F) << 6 | (p[1] & 0x3F);
  } else if (c < 0xF0) {
    if (n < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80) return IJ_CC_OTHER;
    c = (c & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3F);
    if (c < 0x800 || (c >= 0xD800 && c < 0xE000)) return IJ_CC_OTHER;
    *len = 3;
  } else {
    if (c > 0xF4 || n < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80) return IJ_CC_OTHER;
    c = (c & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3F);
    if (c < 0x10000 || c > 0x10FFFF) return IJ_CC_OTHER;
    *len = 4;
  }
  return ij__unicode_class[(unsigned)ij__unicode_block[c >> 8] << 8 | (c & 0xFF)];
}

#endif
