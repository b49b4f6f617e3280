/* experts_mapped.c: the mapped home of the routed experts: a lease is pointer arithmetic on the checkpoint's mapping, and what stays in
 * memory is the page cache's choice. It is told what will be needed; nothing is copied, cached or counted here. */
#include "cache/experts_int.h"

static int acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases) {
  const ij_expert_bank *bank = &home->banks[layer];
  for (int i = 0; i < n; i++) {
    leases[i] = (ij_expert_lease){
        .layer = layer,
        .expert = ids[i],
        .gate = ij__expert_view(&bank->gate, ids[i]),
        .up = ij__expert_view(&bank->up, ids[i]),
        .down = ij__expert_view(&bank->down, ids[i]),
    };
  }
  return n;
}

static void stats(const ij_experts *home, ij_experts_stats *out) {
  out->home = "mapped";
  for (int i = 0; i < home->n_layer; i++) out->n_slots += home->banks[i].gate.first.data ? home->n_expert : 0;
}

static const ij_experts_ops ops = {.acquire = acquire, .stats = stats};

ij_status ij__experts_open_mapped(ij_experts **out, const ij_expert_banks *banks, ij_err *err) {
  return ij__experts_begin(out, sizeof(ij_experts), &ops, banks, err);
}
