/* rng.h: the generator behind sampling. Counter-based: a draw is a function of (seed, counter) and nothing else, so that the same
 * position of the same run draws the same number whatever was drawn before it. */
#ifndef IJ_CORE_RNG_H
#define IJ_CORE_RNG_H

#include "core/base.h"

/* 64 well-mixed bits of (seed, counter): two rounds of the splitmix64 finalizer over the counter, keyed by the mixed seed. */
uint64_t ij__rng_bits(uint64_t seed, uint64_t counter);

/* Uniform in [0, 1), a multiple of 2^-53. */
double ij__rng_uniform(uint64_t seed, uint64_t counter);

#endif
