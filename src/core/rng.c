/* rng.c: see rng.h. */
#include "core/rng.h"

static uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t ij__rng_bits(uint64_t seed, uint64_t counter) { return mix(mix(counter ^ mix(seed)) + seed); }

double ij__rng_uniform(uint64_t seed, uint64_t counter) { return (double)(ij__rng_bits(seed, counter) >> 11) * 0x1p-53; }
