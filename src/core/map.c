/* map.c: see map.h. Linear probing at a load of at most one half. */
#include "core/map.h"

#include <string.h>

#include "core/alloc.h"

uint64_t ij__hash_bytes(const void *bytes, size_t n, uint64_t seed) {
  const unsigned char *p = bytes;
  uint64_t h = 0xcbf29ce484222325u ^ seed;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  h ^= h >> 32;
  h *= 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static ij_map_slot *map_probe(const ij_map *m, const char *key, size_t len, uint32_t hash) {
  size_t mask = m->n_slots - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    ij_map_slot *s = &m->slots[i];
    if (!s->key || (s->hash == hash && s->len == len && memcmp(s->key, key, len) == 0)) return s;
  }
}

bool ij__map_reserve(ij_map *m, size_t n) {
  size_t want = 16;
  while (want < 2 * n) {
    if (want > SIZE_MAX / 4) return false;
    want *= 2;
  }
  if (want <= m->n_slots) return true;
  ij_map bigger = {ij__alloc_zero(want, sizeof(ij_map_slot)), want, m->n};
  if (!bigger.slots) return false;
  for (size_t i = 0; i < m->n_slots; i++) {
    const ij_map_slot *s = &m->slots[i];
    if (s->key) *map_probe(&bigger, s->key, s->len, s->hash) = *s;
  }
  ij__free(m->slots);
  *m = bigger;
  return true;
}

int ij__map_add(ij_map *m, const char *key, size_t len, int64_t value) {
  if (len > UINT32_MAX || !ij__map_reserve(m, m->n + 1)) return -1;
  uint32_t hash = (uint32_t)ij__hash_bytes(key, len, 0);
  ij_map_slot *s = map_probe(m, key, len, hash);
  if (s->key) return 0;
  *s = (ij_map_slot){key, (uint32_t)len, hash, value};
  m->n++;
  return 1;
}

int64_t ij__map_find(const ij_map *m, const char *key, size_t len) {
  if (m->n == 0 || len > UINT32_MAX) return -1;
  const ij_map_slot *s = map_probe(m, key, len, (uint32_t)ij__hash_bytes(key, len, 0));
  return s->key ? s->value : -1;
}

void ij__map_free(ij_map *m) {
  ij__free(m->slots);
  *m = (ij_map){0};
}
