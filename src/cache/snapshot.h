/* snapshot.h: a state as one versioned payload (docs/formats/session.md).
 *
 * Everything is written field by field in little endian and ends in a checksum. A payload is as hostile as any file: reading one never
 * writes outside the state, whatever it says.
 */
#ifndef IJ_CACHE_SNAPSHOT_H
#define IJ_CACHE_SNAPSHOT_H

#include "cache/state.h"

typedef bool (*ij_write_fn)(void *user, const void *bytes, size_t n);
typedef bool (*ij_read_fn)(void *user, void *bytes, size_t n);

/* A stream with a running checksum. */
typedef struct ij_snapshot {
  ij_write_fn write; /* one of the two is set */
  ij_read_fn read;
  void *user;
  uint64_t hash, word; /* checksum so far, and the bytes of an unfinished word */
  int n_word;
  bool failed;       /* a callback returned false */
} ij_snapshot;

/* Positions that hold rows of a medium. */
typedef struct ij_snapshot_media {
  uint64_t first, n, row0, digest[2];
} ij_snapshot_media;

/* What a payload is about besides the caches. Arrays are the caller's. */
typedef struct ij_snapshot_extra {
  uint64_t fingerprint; /* of the model; must agree */
  int32_t *ids;         /* [n_ctx], the first pos count */
  ij_snapshot_media *media; /* [n_media], ascending; restoring allocates it anew (ij__alloc) */
  uint64_t n_media;
  int32_t placeholders[2]; /* the only ids that media may stand at */
  int32_t n_vocab;
  float *logits;        /* [n_vocab] */
  bool has_logits;
} ij_snapshot_extra;

ij_status ij__snapshot_save(const ij_state *s, const ij_snapshot_extra *extra, ij_write_fn write, void *user, ij_err *err);

/* On failure the state is empty and there are no media. */
ij_status ij__snapshot_restore(ij_state *s, ij_snapshot_extra *extra, ij_read_fn read, void *user, ij_err *err);

#endif
