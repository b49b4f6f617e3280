/* base.h: fixed-width types and the arithmetic every file needs. No logic, no state. */
#ifndef IJ_CORE_BASE_H
#define IJ_CORE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IJ_MIN(a, b) ((a) < (b) ? (a) : (b))
#define IJ_MAX(a, b) ((a) > (b) ? (a) : (b))
#define IJ_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__GNUC__)
#define IJ_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define IJ_PRINTF(fmt, args)
#endif

/* Smallest multiple of `unit` (a power of two) that is >= n. */
static inline size_t ij__align_up(size_t n, size_t unit) { return (n + unit - 1) & ~(unit - 1); }

static inline int64_t ij__div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Checked size arithmetic: false, and *out untouched, when the result does not fit. Sizes from files go through these. */
static inline bool ij__mul_size(size_t a, size_t b, size_t *out) {
  if (b != 0 && a > SIZE_MAX / b) return false;
  *out = a * b;
  return true;
}

static inline bool ij__add_size(size_t a, size_t b, size_t *out) {
  if (a > SIZE_MAX - b) return false;
  *out = a + b;
  return true;
}

#endif
