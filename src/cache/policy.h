/* policy.h: which experts stay in a bounded number of slots. No I/O and no memory of experts here: keys and slots are numbers, so the same code
 * runs in the streamed home and in the replay of a recorded trace.
 *
 * A key is layer * n_expert + expert. Time is counted in accesses; all sums are in float64 and there is no randomness: the same sequence
 * of calls gives the same slots. One thread at a time. Nothing is allocated after open.
 */
#ifndef IJ_CACHE_POLICY_H
#define IJ_CACHE_POLICY_H

#include "core/base.h"
#include "core/status.h"

/* X(identifier, name) */
#define IJ_POLICY_LIST(X) \
  X(LRU, "lru")           \
  X(LFU, "lfu")           \
  X(PINNED, "pinned")     /* the keys with the largest prior weights stay for good; what is left goes by recency */ \
  X(BLEND, "blend")       /* the one that is used: recency, frequency at several time scales, and the prior */

typedef enum ij_policy_kind {
#define IJ_POLICY_ENUM(id, name) IJ_POLICY_##id,
  IJ_POLICY_LIST(IJ_POLICY_ENUM)
#undef IJ_POLICY_ENUM
  IJ_POLICY_COUNT
} ij_policy_kind;

const char *ij__policy_name(ij_policy_kind kind);

typedef struct ij_policy ij_policy;

/* prior: [n_key] how often a key was used in earlier sessions, as shares of accesses (any scale, >= 0), or NULL; copied. 1 <= n_slot. */
ij_status ij__policy_open(ij_policy **out, ij_policy_kind kind, int64_t n_key, int64_t n_slot, const float *prior, ij_err *err);
void ij__policy_close(ij_policy **p);
size_t ij__policy_bytes(int64_t n_key, int64_t n_slot); /* memory of one, for plans */

/* The slot that holds a key, or -1. */
int64_t ij__policy_find(const ij_policy *p, int64_t key);
int64_t ij__policy_key(const ij_policy *p, int64_t slot); /* -1: empty */

/* Counts an access to a key, whether a slot holds it or not. */
void ij__policy_touch(ij_policy *p, int64_t key);

/* Chooses a slot for a key that has none and gives it to it: an empty one, or that of the least valuable key that is not held. `guess`: the key
 * is only expected to be used; it may not displace what is worth more. -1: every slot is held, or none is worth less. *evicted (may be
 * NULL): the key that lost its slot, or -1. The slot is not held. */
int64_t ij__policy_take(ij_policy *p, int64_t key, bool guess, int64_t *evicted);

/* Empties a slot that is not held. */
void ij__policy_drop(ij_policy *p, int64_t slot);

/* A held slot is never given away. Holds count. */
void ij__policy_hold(ij_policy *p, int64_t slot);
void ij__policy_unhold(ij_policy *p, int64_t slot);

/* Accesses so far of n keys from `first` on, with the same decay for all: what ij_usage keeps. out: [n]. */
void ij__policy_heat(const ij_policy *p, int64_t first, int64_t n, float *out);

#endif
