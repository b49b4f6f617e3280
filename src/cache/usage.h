/* usage.h: how often each expert was used, over sessions: a small file beside the model, so that the next start knows which to keep.
 *
 * Optional everywhere: without it, or when it belongs to another model, everything works and starts cold. The file is read as hostile, written to
 * a temporary name and renamed, and holds no text of any prompt. Each session counts with at most a fixed weight, so that one long prompt cannot
 * outweigh all earlier ones. Format, and how sessions are mixed: docs/formats/usage.md. Different objects may be used by different threads.
 */
#ifndef IJ_CACHE_USAGE_H
#define IJ_CACHE_USAGE_H

#include "core/base.h"
#include "core/status.h"

/* In tokens: the most that one session weighs, that all earlier ones weigh together against the next, and that the assumption weighs
 * of which nothing is known: that all experts are used alike. */
#define IJ_USAGE_SESSION 2048
#define IJ_USAGE_MEMORY 16384
#define IJ_USAGE_DOUBT 64

typedef struct ij_usage {
  uint64_t fingerprint;      /* of the model; ij_config.fingerprint */
  int32_t n_layer, n_expert;
  int64_t n_sessions;        /* mixed in so far */
  int64_t n_tokens;          /* evaluated in all of them */
  uint64_t n_hit, n_miss;    /* over all of them */
  uint64_t read_bytes;
  double read_seconds;
  double weight;             /* of `share` in the next mixing, in tokens: at most IJ_USAGE_MEMORY */
  float *share;              /* [n_layer * n_expert] of the accesses of its layer: sums to 1 per layer that was used, else 0. ij__alloc */
} ij_usage;

/* What a session leaves. */
typedef struct ij_usage_session {
  const float *heat;         /* [n_layer * n_expert] as ij__experts_heat gives it */
  int64_t n_tokens;          /* evaluated, which weigh it */
  uint64_t n_hit, n_miss, read_bytes;
  double read_seconds;
} ij_usage_session;

/* An empty one. Sizes as in the config. */
ij_status ij__usage_new(ij_usage *out, uint64_t fingerprint, int n_layer, int n_expert, ij_err *err);
void ij__usage_free(ij_usage *u);

/* IJ_E_IO: no such file or it cannot be read. IJ_E_FORMAT: damaged, or of another model or version (the message says which). `out` is empty then. */
ij_status ij__usage_read(ij_usage *out, const char *path, uint64_t fingerprint, int n_layer, int n_expert, ij_err *err);

/* The same of bytes in memory; `where` is for messages. */
ij_status ij__usage_parse(ij_usage *out, const void *bytes, size_t n_bytes, const char *where, uint64_t fingerprint, int n_layer, int n_expert,
                          ij_err *err);

/* One more session. One without tokens or accesses changes nothing. */
void ij__usage_mix(ij_usage *u, const ij_usage_session *session);

/* What to expect of the next session: the shares, nearer to all alike the less they rest on. out: [n_layer * n_expert], sums to 1 per layer
 * that was ever used, else 0. */
void ij__usage_prior(const ij_usage *u, float *out);

/* The bytes of the file, from ij__alloc; NULL without memory. */
void *ij__usage_bytes(const ij_usage *u, size_t *n_bytes);

/* Atomically replaces path. On failure the old file is untouched and no temporary file is left. IJ_E_FORMAT: something lies there that is no file
 * of this kind; it is left alone. */
ij_status ij__usage_write(const ij_usage *u, const char *path, ij_err *err);

/* What closing a model does: reads path, mixes the session in, and writes. Others may do so at the same time: none is lost where the
 * file system can lock a folder. A file of another model, or a damaged one, is replaced; a session without tokens or accesses writes nothing. */
ij_status ij__usage_record(const char *path, uint64_t fingerprint, int n_layer, int n_expert, const ij_usage_session *session, ij_err *err);

#endif
