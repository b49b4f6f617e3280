/* experts.h: routed experts behind a lease.
 *
 * The network never holds a pointer to a routed expert; it asks for one, uses it and gives it back:
 *
 *     int got = ij__experts_acquire(home, layer, ids, n, leases);   // 1 <= got <= n, or a negative ij_status
 *     ... use leases[0..got) ...
 *     ij__experts_release(home, leases, got);
 *
 * `ids` are distinct and ascending. A home may hand out fewer than asked (its memory is bounded): process those, release, ask for
 * the rest. A leased view stays valid and unchanged until released, exactly once. Several homes can stand behind this contract; the
 * mapped one (views into the checkpoint's mapping) is the first. Called from one thread at a time per home.
 */
#ifndef IJ_CACHE_EXPERTS_H
#define IJ_CACHE_EXPERTS_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/status.h"

typedef struct ij_expert_lease {
  int layer, expert;          /* what this is: asserted at use */
  ij_weight gate, up, down;   /* [I, H], [I, H], [H, I] */
} ij_expert_lease;

/* One of the three matrices for all experts of a layer: that of expert e lies e * stride bytes after that of expert 0, its side arrays
 * (split types) e * side_stride bytes after theirs. */
typedef struct ij_bank_part {
  ij_weight first;
  int64_t stride, side_stride;
  const float *factors;       /* [n_expert] multiplied into first.factor, or NULL; borrowed, outlives the home */
} ij_bank_part;

typedef struct ij_expert_bank {
  ij_bank_part gate, up, down;
} ij_expert_bank;

typedef struct ij_experts ij_experts;

/* The mapped home. banks: n_layer entries, copied; entries with gate.first.data NULL are layers without experts. */
ij_status ij__experts_open_mapped(ij_experts **out, const ij_expert_bank *banks, int n_layer, int n_expert, ij_err *err);
void ij__experts_close(ij_experts **home); /* no lease may be live */

int ij__experts_acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases);
void ij__experts_release(ij_experts *home, const ij_expert_lease *leases, int n);
int64_t ij__experts_live(const ij_experts *home); /* leases not yet released */

#endif
