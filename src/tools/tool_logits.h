/* tool_logits.h: the parity harness: what a model computes for one prompt, written to a file or compared with one. */
#ifndef IJ_TOOLS_TOOL_LOGITS_H
#define IJ_TOOLS_TOOL_LOGITS_H

#include "core/base.h"
#include "inkjet.h"

typedef struct ij_logits_options {
  bool all;      /* logits after every token, not only after the last */
  bool trace;    /* also the residual stream */
  int64_t chunk; /* tokens evaluated at a time, >= 1 */
  bool (*progress)(void *user, double fraction); /* false cancels; may be NULL */
  void *user;
} ij_logits_options;

typedef struct ij_logits {
  int64_t n_rows, vocab; /* n_rows: the number of tokens with `all`, else 1 */
  int64_t n_trace, n_tokens, hidden; /* n_trace: layers + 1, or 0 */
  float *logits;         /* [n_rows][vocab] */
  float *trace;          /* [n_trace][n_tokens][hidden] or NULL */
} ij_logits;

/* Evaluates the ids on an empty session. */
ij_status ij__logits_run(ij_logits *out, ij_model *model, ij_session *session, const int32_t *ids, int64_t n,
                         const ij_logits_options *options, ij_err *err);
void ij__logits_free(ij_logits *l);

ij_status ij__logits_write(const ij_logits *l, const char *path, ij_err *err);

/* One tensor's result. problem: why it could not be compared (shape, dtype, absent), else empty. */
typedef struct ij_logits_diff {
  const char *name;
  double max_abs;        /* NaN when either side has one where the other differs */
  int64_t at;            /* where it is, as an index into the flat tensor */
  char problem[320];
} ij_logits_diff;

/* Compares each computed tensor with that of the same name in a safetensors file. Fails only when the file cannot be read.
 * Fills up to two entries and *n_diffs. */
ij_status ij__logits_compare(const ij_logits *l, const char *path, ij_logits_diff diffs[2], int *n_diffs, ij_err *err);

#endif
