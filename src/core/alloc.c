/* alloc.c: see alloc.h. A header of 64 bytes in front of each block keeps its size, so that frees can be counted and
 * the block stays aligned. */
#include "core/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES IJ_ALIGNMENT

static _Atomic size_t bytes_held;
static _Atomic int64_t blocks_held;
static _Atomic int64_t guard_violations;
static _Atomic int64_t fail_countdown; /* 0: off; 1: fail from now on */
static _Thread_local int guard_depth;

bool ij__alloc_refused(void) {
  if (guard_depth > 0) {
    atomic_fetch_add(&guard_violations, 1);
    return true;
  }
  int64_t left = atomic_load(&fail_countdown);
  if (left == 0) return false;
  if (left == 1) return true;
  atomic_fetch_sub(&fail_countdown, 1);
  return false;
}

void *ij__alloc(size_t n_bytes) {
  size_t total;
  if (ij__alloc_refused() || !ij__add_size(n_bytes, 2 * HEADER_BYTES, &total)) return NULL;
  char *raw = aligned_alloc(IJ_ALIGNMENT, ij__align_up(n_bytes + HEADER_BYTES, IJ_ALIGNMENT));
  if (!raw) return NULL;
  memcpy(raw, &n_bytes, sizeof n_bytes);
  atomic_fetch_add(&bytes_held, n_bytes);
  atomic_fetch_add(&blocks_held, 1);
  return raw + HEADER_BYTES;
}

void *ij__alloc_array(size_t count, size_t size) {
  size_t n;
  return ij__mul_size(count, size, &n) ? ij__alloc(n) : NULL;
}

void *ij__alloc_zero(size_t count, size_t size) {
  void *p = ij__alloc_array(count, size);
  if (p) memset(p, 0, count * size);
  return p;
}

static size_t block_bytes(const void *p) {
  size_t n;
  memcpy(&n, (const char *)p - HEADER_BYTES, sizeof n);
  return n;
}

void ij__free(void *p) {
  if (!p) return;
  atomic_fetch_sub(&bytes_held, block_bytes(p));
  atomic_fetch_sub(&blocks_held, 1);
  free((char *)p - HEADER_BYTES);
}

void *ij__realloc(void *p, size_t n_bytes) {
  void *q = ij__alloc(n_bytes);
  if (!q || !p) return q;
  size_t old = block_bytes(p);
  memcpy(q, p, IJ_MIN(old, n_bytes));
  ij__free(p);
  return q;
}

char *ij__strndup(const char *s, size_t n) {
  char *p = ij__alloc(n + 1);
  if (!p) return NULL;
  memcpy(p, s, n);
  p[n] = 0;
  return p;
}

char *ij__strdup(const char *s) { return ij__strndup(s, strlen(s)); }

size_t ij__alloc_bytes(void) { return atomic_load(&bytes_held); }
int64_t ij__alloc_blocks(void) { return atomic_load(&blocks_held); }
int64_t ij__alloc_violations(void) { return atomic_load(&guard_violations); }
void ij__alloc_guard_enter(void) { guard_depth++; }
void ij__alloc_guard_leave(void) { guard_depth--; }
void ij__alloc_fail_after(int64_t n) { atomic_store(&fail_countdown, n); }
