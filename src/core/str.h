/* str.h: a growable byte buffer, and string comparison on views. */
#ifndef IJ_CORE_STR_H
#define IJ_CORE_STR_H

#include "core/base.h"

/* A growable byte buffer, always followed by a NUL that is not counted. Zero-initialize; free with ij__buf_free.
 * After a failed append `failed` stays true and the content is what fitted before: check once at the end. */
typedef struct ij_buf {
  char *data;
  size_t len, cap;
  bool failed;
} ij_buf;

void ij__buf_append(ij_buf *b, const void *bytes, size_t n);
void ij__buf_puts(ij_buf *b, const char *s);
void ij__buf_printf(ij_buf *b, const char *fmt, ...) IJ_PRINTF(2, 3);
bool ij__buf_reserve(ij_buf *b, size_t n_more);
void ij__buf_free(ij_buf *b);

bool ij__str_ends_with(const char *s, const char *suffix);
bool ij__str_starts_with(const char *s, const char *prefix);

#endif
