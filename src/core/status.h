/* status.h: filling in an ij_err. The codes themselves are public (inkjet_status.h). */
#ifndef IJ_CORE_STATUS_H
#define IJ_CORE_STATUS_H

#include "core/base.h"
#include "inkjet_status.h"

/* Writes code, where (may be NULL: "") and a formatted message into err (may be NULL) and returns code, so that
 * `return ij__fail(err, IJ_E_FORMAT, path, "expected %d, found %d", a, b);` is a whole error path.
 * Text that does not fit is cut at a character boundary and ends in "...". */
ij_status ij__fail(ij_err *err, ij_status code, const char *where, const char *fmt, ...) IJ_PRINTF(4, 5);

/* The same with the text of an errno value appended: "open: No such file or directory". */
ij_status ij__fail_errno(ij_err *err, int errnum, const char *where, const char *doing);

/* IJ_E_NOMEM with the number of bytes that could not be had. */
ij_status ij__fail_nomem(ij_err *err, const char *what, size_t n_bytes);

/* Collects many findings into one error: "12 tensors are missing or have the wrong shape: a; b; ... and 3 more". */
typedef struct ij_findings {
  int n;        /* findings so far, also those that no longer fit */
  int n_shown;  /* findings written to text */
  size_t len;
  char text[3200];
} ij_findings;

void ij__findings_add(ij_findings *f, const char *fmt, ...) IJ_PRINTF(2, 3);

#endif
