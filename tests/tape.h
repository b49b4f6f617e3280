/* tape.h: a saved session in memory, for ij_session_save and ij_session_restore. */
#ifndef IJ_TESTS_TAPE_H
#define IJ_TESTS_TAPE_H

#include <stdbool.h>
#include <string.h>

typedef struct tape {
  unsigned char bytes[1 << 18];
  size_t len, at;
} tape;

static bool tape_write(void *user, const void *bytes, size_t n) {
  tape *p = user;
  if (n > sizeof p->bytes - p->len) return false;
  memcpy(p->bytes + p->len, bytes, n);
  p->len += n;
  return true;
}

static bool tape_read(void *user, void *bytes, size_t n) {
  tape *p = user;
  if (n > p->len - p->at) return false;
  memcpy(bytes, p->bytes + p->at, n);
  p->at += n;
  return true;
}

#endif
