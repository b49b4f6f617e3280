/* charset.h: sets of Unicode characters as sorted ranges. Surrogates are never members. Zero-initialize; check `failed` once at the end. */
#ifndef IJ_GRAMMAR_CHARSET_H
#define IJ_GRAMMAR_CHARSET_H

#include "core/base.h"

#define IJ_CHAR_MAX 0x10FFFFu

typedef struct ij_range {
  uint32_t lo, hi; /* inclusive */
} ij_range;

typedef struct ij_charset {
  ij_range *r;
  uint32_t n, cap;
  bool failed; /* memory ran out */
} ij_charset;

void ij__charset_free(ij_charset *s);
void ij__charset_add(ij_charset *s, uint32_t lo, uint32_t hi); /* in any order; call normalize before any question */
void ij__charset_normalize(ij_charset *s);
void ij__charset_add_set(ij_charset *s, const ij_charset *other);
void ij__charset_negate(ij_charset *s);
/* The part of `s` in [lo, hi], appended to an empty `out`. */
void ij__charset_clip(ij_charset *out, const ij_charset *s, uint32_t lo, uint32_t hi);
bool ij__charset_has(const ij_charset *s, uint32_t c);
/* 0: no character of [lo, hi] is a member, 2: all are, 1: some are. */
int ij__charset_cover(const ij_charset *s, uint32_t lo, uint32_t hi);
bool ij__charset_equal(const ij_charset *a, const ij_charset *b);

#endif
