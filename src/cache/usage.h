/* usage.h: how often each expert was used, over sessions: a small file beside the model, so that the next start knows which to keep.
 *
 * Optional everywhere: without it, or when it belongs to another model, everything works and starts cold. The file is read as hostile, written to
 * a temporary name and renamed, and holds no text of any prompt. Each session counts with at most a fixed weight, so that one long prompt cannot
 * outweigh all earlier ones. Format: docs/formats/usage.md. */
#ifndef IJ_CACHE_USAGE_H
#define IJ_CACHE_USAGE_H

#include "core/base.h"
#include "core/status.h"

typedef struct ij_usage {
  uint64_t fingerprint;      /* of the model; ij_config.fingerprint */
  int32_t n_layer, n_expert;
  int64_t n_sessions;        /* mixed in so far */
  uint64_t n_hit, n_miss;    /* over all of them */
  uint64_t read_bytes;
  double read_seconds;
  float *share;              /* [n_layer * n_expert] of the accesses of its layer: sums to 1 per layer that was used, else 0. ij__alloc */
} ij_usage;

/* An empty one. Sizes as in the config. */
ij_status ij__usage_new(ij_usage *out, uint64_t fingerprint, int n_layer, int n_expert, ij_err *err);
void ij__usage_free(ij_usage *u);

/* IJ_E_IO: no such file or it cannot be read. IJ_E_FORMAT: damaged, or of another model or version (the message says which). `out` is empty then. */
ij_status ij__usage_read(ij_usage *out, const char *path, uint64_t fingerprint, int n_layer, int n_expert, ij_err *err);

/* One more session: heat [n_layer * n_expert] as ij__experts_heat gives it, and n_tokens evaluated in it, which weigh it. */
void ij__usage_mix(ij_usage *u, const float *heat, int64_t n_tokens);

/* Atomically replaces path. On failure the old file is untouched and no temporary file is left. */
ij_status ij__usage_write(const ij_usage *u, const char *path, ij_err *err);

#endif
