/* charset.c: see charset.h. */
#include "grammar/charset.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"

void ij__charset_free(ij_charset *s) {
  ij__free(s->r);
  *s = (ij_charset){0};
}

void ij__charset_add(ij_charset *s, uint32_t lo, uint32_t hi) {
  if (s->failed || lo > hi) return;
  if (s->n == s->cap) {
    uint32_t cap = s->cap ? 2 * s->cap : 8;
    ij_range *r = ij__realloc(s->r, cap * sizeof *r);
    if (!r) {
      s->failed = true;
      return;
    }
    s->r = r;
    s->cap = cap;
  }
  s->r[s->n++] = (ij_range){lo, hi};
}

static int compare_range(const void *a, const void *b) {
  uint32_t x = ((const ij_range *)a)->lo, y = ((const ij_range *)b)->lo;
  return (x > y) - (x < y);
}

static void put_range(ij_charset *s, uint32_t *n, uint32_t lo, uint32_t hi) {
  if (lo > hi) return;
  if (*n && lo <= s->r[*n - 1].hi + 1) s->r[*n - 1].hi = IJ_MAX(s->r[*n - 1].hi, hi);
  else s->r[(*n)++] = (ij_range){lo, hi};
}

void ij__charset_normalize(ij_charset *s) {
  if (s->failed || s->n == 0) return;
  ij__charset_add(s, 0, 0); /* room for the one range that cutting out the surrogates may add */
  if (s->failed) return;
  uint32_t n_in = --s->n, n = 0;
  qsort(s->r, n_in, sizeof *s->r, compare_range);
  for (uint32_t i = 0; i < n_in; i++) put_range(s, &n, s->r[i].lo, IJ_MIN(s->r[i].hi, IJ_CHAR_MAX));
  s->n = n;
  for (uint32_t i = 0; i < s->n; i++) {
    ij_range r = s->r[i];
    if (r.hi < 0xD800 || r.lo > 0xDFFF) continue;
    ij_range parts[2];
    uint32_t n_parts = 0;
    if (r.lo < 0xD800) parts[n_parts++] = (ij_range){r.lo, 0xD7FF};
    if (r.hi > 0xDFFF) parts[n_parts++] = (ij_range){0xE000, r.hi};
    memmove(s->r + i + n_parts, s->r + i + 1, (s->n - i - 1) * sizeof *s->r);
    memcpy(s->r + i, parts, n_parts * sizeof *parts);
    s->n = s->n - 1 + n_parts;
    i += n_parts - 1; /* none left: the next one has moved here, and unsigned arithmetic wraps back */
  }
}

void ij__charset_add_set(ij_charset *s, const ij_charset *other) {
  if (other->failed) s->failed = true;
  for (uint32_t i = 0; i < other->n; i++) ij__charset_add(s, other->r[i].lo, other->r[i].hi);
}

void ij__charset_negate(ij_charset *s) {
  ij_charset out = {0};
  uint32_t next = 0;
  ij__charset_normalize(s);
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->r[i].lo > next) ij__charset_add(&out, next, s->r[i].lo - 1);
    next = s->r[i].hi + 1;
  }
  if (next <= IJ_CHAR_MAX) ij__charset_add(&out, next, IJ_CHAR_MAX);
  ij__charset_normalize(&out);
  if (s->failed) out.failed = true;
  ij__free(s->r);
  *s = out;
}

void ij__charset_clip(ij_charset *out, const ij_charset *s, uint32_t lo, uint32_t hi) {
  if (s->failed) out->failed = true;
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->r[i].hi >= lo && s->r[i].lo <= hi) ij__charset_add(out, IJ_MAX(s->r[i].lo, lo), IJ_MIN(s->r[i].hi, hi));
  }
}

/* Index of the first range that ends at or after c. */
static uint32_t find_range(const ij_charset *s, uint32_t c) {
  uint32_t a = 0, b = s->n;
  while (a < b) {
    uint32_t m = (a + b) / 2;
    if (s->r[m].hi < c) a = m + 1;
    else b = m;
  }
  return a;
}

bool ij__charset_has(const ij_charset *s, uint32_t c) {
  uint32_t i = find_range(s, c);
  return i < s->n && s->r[i].lo <= c;
}

int ij__charset_cover(const ij_charset *s, uint32_t lo, uint32_t hi) {
  uint32_t i = find_range(s, lo);
  if (i == s->n || s->r[i].lo > hi) return 0;
  return s->r[i].lo <= lo && s->r[i].hi >= hi ? 2 : 1;
}

bool ij__charset_equal(const ij_charset *a, const ij_charset *b) {
  return a->n == b->n && (a->n == 0 || memcmp(a->r, b->r, a->n * sizeof *a->r) == 0);
}
