/* map.h: name -> index. Open addressing; keys are borrowed (the caller keeps their bytes alive and unmoved). */
#ifndef IJ_CORE_MAP_H
#define IJ_CORE_MAP_H

#include "core/base.h"

typedef struct ij_map_slot {
  const char *key;
  uint32_t len, hash;
  int64_t value;
} ij_map_slot;

typedef struct ij_map {
  ij_map_slot *slots;
  size_t n_slots; /* zero or a power of two */
  size_t n;
} ij_map;

/* Room for n keys without growing. False: no memory. */
bool ij__map_reserve(ij_map *m, size_t n);

/* Adds key -> value. Returns 1 when added, 0 when the key is there already (its value is kept), -1 without memory. */
int ij__map_add(ij_map *m, const char *key, size_t len, int64_t value);

/* The value of key, or -1. */
int64_t ij__map_find(const ij_map *m, const char *key, size_t len);

void ij__map_free(ij_map *m);

/* The 64-bit hash behind it (FNV-1a with a final mix), also for fingerprints. */
uint64_t ij__hash_bytes(const void *bytes, size_t n, uint64_t seed);

#endif
