/* str.c: see str.h. Capacity doubles, so appending n bytes one by one costs O(n). */
#include "core/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

bool ij__buf_reserve(ij_buf *b, size_t n_more) {
  size_t need;
  if (b->failed || !ij__add_size(b->len, n_more, &need) || need == SIZE_MAX) {
    b->failed = true;
    return false;
  }
  if (need + 1 <= b->cap) return true;
  size_t cap = IJ_MAX(need + 1, b->cap > SIZE_MAX / 2 ? need + 1 : b->cap * 2);
  cap = IJ_MAX(cap, (size_t)64);
  char *p = ij__realloc(b->data, cap);
  if (!p) {
    b->failed = true;
    return false;
  }
  b->data = p;
  b->cap = cap;
  return true;
}

void ij__buf_append(ij_buf *b, const void *bytes, size_t n) {
  if (!ij__buf_reserve(b, n)) return;
  if (n) memcpy(b->data + b->len, bytes, n);
  b->len += n;
  b->data[b->len] = 0;
}

void ij__buf_puts(ij_buf *b, const char *s) { ij__buf_append(b, s, strlen(s)); }

void ij__buf_printf(ij_buf *b, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n >= 0 && ij__buf_reserve(b, (size_t)n)) {
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    b->len += (size_t)n;
  }
  va_end(again);
}

void ij__buf_free(ij_buf *b) {
  ij__free(b->data);
  *b = (ij_buf){0};
}

bool ij__str_starts_with(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

bool ij__str_ends_with(const char *s, const char *suffix) {
  size_t n = strlen(s), m = strlen(suffix);
  return n >= m && memcmp(s + n - m, suffix, m) == 0;
}
