/* blake2b.h: a 128-bit digest (BLAKE2b of RFC 7693, no key, 16 bytes) of media, prepared or as they came.
 *
 * A digest decides whether rows in a cache belong to a medium, and strangers choose the media: so a hash for which nobody can make two
 * pictures with one digest, not merely a quick one.
 */
#ifndef IJ_CORE_BLAKE2B_H
#define IJ_CORE_BLAKE2B_H

#include "core/base.h"

typedef struct ij__blake2b {
  uint64_t h[8];
  uint64_t n_bytes; /* taken in so far */
  uint8_t block[128];
  size_t n_block;
} ij__blake2b;

void ij__blake2b_init(ij__blake2b *b);
void ij__blake2b_add(ij__blake2b *b, const void *bytes, size_t n);
void ij__blake2b_end(ij__blake2b *b, uint64_t digest[2]); /* the 16 bytes as two little-endian numbers */

#endif
