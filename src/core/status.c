/* status.c: names of the codes and the one place that formats an error. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ij_status_name(ij_status code) {
  switch (code) {
#define NAME_CASE(name, value, text) \
  case IJ_##name: return #name;
    IJ_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
  }
  return "E_UNKNOWN";
}

const char *ij_status_text(ij_status code) {
  switch (code) {
#define TEXT_CASE(name, value, text) \
  case IJ_##name: return text;
    IJ_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
  }
  return "not a status code of this library";
}

/* vsnprintf into buf[size]; a cut text ends in "..." and never inside a UTF-8 sequence. */
static void format_cut(char *buf, size_t size, const char *fmt, va_list args) {
  int n = vsnprintf(buf, size, fmt, args);
  if (n < 0) {
    buf[0] = 0;
  } else if ((size_t)n >= size) {
    size_t end = size - 4;
    while (end > 0 && ((unsigned char)buf[end] & 0xC0) == 0x80) end--;
    memcpy(buf + end, "...", 4);
  }
}

ij_status ij__fail(ij_err *err, ij_status code, const char *where, const char *fmt, ...) {
  if (!err) return code;
  err->code = code;
  snprintf(err->where, sizeof err->where, "%s", where ? where : "");
  va_list args;
  va_start(args, fmt);
  format_cut(err->message, sizeof err->message, fmt, args);
  va_end(args);
  return code;
}

ij_status ij__fail_errno(ij_err *err, int errnum, const char *where, const char *doing) {
  char text[128];
  snprintf(text, sizeof text, "error %d", errnum);
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
  const char *s = strerror_r(errnum, text, sizeof text);
#else
  const char *s = strerror_r(errnum, text, sizeof text) == 0 ? text : "unknown error";
#endif
  return ij__fail(err, IJ_E_IO, where, "%s: %s", doing, s);
}

ij_status ij__fail_nomem(ij_err *err, const char *what, size_t n_bytes) {
  return ij__fail(err, IJ_E_NOMEM, what, "%zu bytes of memory for %s could not be had", n_bytes, what);
}

void ij__findings_add(ij_findings *f, const char *fmt, ...) {
  char line[512];
  va_list args;
  va_start(args, fmt);
  format_cut(line, sizeof line, fmt, args);
  va_end(args);
  f->n++;
  size_t room = sizeof f->text - f->len;
  size_t need = strlen(line) + (f->len ? 2 : 0);
  if (f->n_shown < f->n - 1 || need + 1 > room) return; /* keep order: once one is left out, all later ones are */
  f->len += (size_t)snprintf(f->text + f->len, room, "%s%s", f->len ? "; " : "", line);
  f->n_shown++;
}
