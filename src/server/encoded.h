/* encoded.h: rows of media that the towers have made, kept for all requests and found by the digest of the medium.
 *
 * Whoever wants the same medium at the same time waits for the one who encodes it. Rows that nobody uses leave by the time of their last
 * use, when their bytes are over the bound.
 */
#ifndef IJ_SERVER_ENCODED_H
#define IJ_SERVER_ENCODED_H

#include "core/base.h"
#include "core/status.h"
#include "inkjet_media.h"

typedef struct ij_encoded ij_encoded;
typedef struct ij_encoded_rows ij_encoded_rows; /* of one medium, held */

/* max_held: of rows that are in use or being made at one time; more is IJ_E_BUSY. */
ij_status ij__encoded_open(ij_encoded **out, ij_towers *towers, size_t max_bytes, size_t max_held, ij_err *err);
void ij__encoded_close(ij_encoded **cache); /* nothing is held any more */

/* The rows of a medium, encoded in pieces if they are not there; alive (may be NULL) is asked between them: false is IJ_E_CANCELLED. Any
 * thread. Other errors are those of ij_towers_encode. */
ij_status ij__encoded_get(ij_encoded *cache, const ij_media *media, bool (*alive)(void *user), void *user, ij_encoded_rows **out, ij_err *err);
const float *ij__encoded_floats(const ij_encoded_rows *rows);
void ij__encoded_release(ij_encoded *cache, ij_encoded_rows *rows); /* NULL is fine */

typedef struct ij_encoded_stats {
  size_t bytes;
  int64_t n_hits, n_encoded; /* media found, media encoded */
  int64_t n_rows;            /* rows encoded */
} ij_encoded_stats;
ij_encoded_stats ij__encoded_get_stats(ij_encoded *cache);

#endif
