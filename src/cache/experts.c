/* experts.c: the mapped home of the routed experts: a lease is pointer arithmetic on the checkpoint's mapping.
 *
 * Nothing is copied or cached here, the page cache of the system does that. What this file does own is the accounting of leases, so
 * that a caller which works with this home also works with one whose memory is bounded. */
#include "cache/experts.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"

struct ij_experts {
  int n_layer, n_expert;
  int64_t n_live;
  ij_expert_bank *banks; /* [n_layer], in the same block */
#ifndef NDEBUG
  unsigned char *leased; /* [n_layer][n_expert]: one lease at a time each, in the same block */
#endif
};

ij_status ij__experts_open_mapped(ij_experts **out, const ij_expert_bank *banks, int n_layer, int n_expert, ij_err *err) {
  *out = NULL;
  if (n_layer < 0 || n_expert < 0) return ij__fail(err, IJ_E_ARGUMENT, "experts", "%d layers of %d experts cannot be", n_layer, n_expert);
  size_t head = ij__align_up(sizeof(ij_experts), IJ_ALIGNMENT), bank_bytes = 0, flag_bytes = 0, total = 0;
  bool fits = ij__mul_size((size_t)n_layer, sizeof(ij_expert_bank), &bank_bytes);
#ifndef NDEBUG
  fits = fits && ij__mul_size((size_t)n_layer, (size_t)n_expert, &flag_bytes);
#endif
  fits = fits && ij__add_size(head, bank_bytes, &total) && ij__add_size(total, flag_bytes, &total);
  char *block = fits ? ij__alloc_zero(total, 1) : NULL;
  if (!block) return ij__fail_nomem(err, "the expert table", fits ? total : SIZE_MAX);
  ij_experts *home = (ij_experts *)(void *)block;
  home->n_layer = n_layer;
  home->n_expert = n_expert;
  home->banks = (ij_expert_bank *)(void *)(block + head);
  if (bank_bytes) memcpy(home->banks, banks, bank_bytes);
#ifndef NDEBUG
  home->leased = (unsigned char *)block + head + bank_bytes;
#endif
  *out = home;
  return IJ_OK;
}

void ij__experts_close(ij_experts **home) {
  if (!*home) return;
  assert((*home)->n_live == 0 && "a lease was not released");
  ij__free(*home);
  *home = NULL;
}

static ij_weight expert_view(const ij_bank_part *part, int expert) {
  ij_weight w = part->first;
  w.data = (const char *)w.data + part->stride * expert;
  if (w.scales) w.scales = (const char *)w.scales + part->side_stride * expert;
  if (w.biases) w.biases = (const char *)w.biases + part->side_stride * expert;
  if (part->factors) {
    w.factor = (w.has_factor ? w.factor : 1) * part->factors[expert];
    w.has_factor = true;
  }
  return w;
}

/* The flags of one lease; a lease is taken once and given back once. */
static void mark(ij_experts *home, int layer, int expert, bool leased) {
#ifndef NDEBUG
  unsigned char *flag = &home->leased[(size_t)layer * (size_t)home->n_expert + (size_t)expert];
  assert(*flag != (unsigned char)leased && "an expert is leased twice, or released twice");
  *flag = (unsigned char)leased;
#else
  (void)home, (void)layer, (void)expert, (void)leased;
#endif
}

int ij__experts_acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases) {
  if (layer < 0 || layer >= home->n_layer || n < 1 || !home->banks[layer].gate.first.data) return IJ_E_ARGUMENT;
  for (int i = 0; i < n; i++) {
    if (ids[i] < 0 || ids[i] >= home->n_expert || (i > 0 && ids[i] <= ids[i - 1])) return IJ_E_ARGUMENT;
  }
  const ij_expert_bank *bank = &home->banks[layer];
  for (int i = 0; i < n; i++) {
    mark(home, layer, ids[i], true);
    leases[i] = (ij_expert_lease){
        .layer = layer,
        .expert = ids[i],
        .gate = expert_view(&bank->gate, ids[i]),
        .up = expert_view(&bank->up, ids[i]),
        .down = expert_view(&bank->down, ids[i]),
    };
  }
  home->n_live += n;
  return n;
}

void ij__experts_release(ij_experts *home, const ij_expert_lease *leases, int n) {
  assert(n >= 0 && n <= home->n_live);
  for (int i = 0; i < n; i++) {
    assert(leases[i].layer >= 0 && leases[i].layer < home->n_layer);
    assert(leases[i].expert >= 0 && leases[i].expert < home->n_expert);
    mark(home, leases[i].layer, leases[i].expert, false);
  }
  home->n_live -= n;
}

int64_t ij__experts_live(const ij_experts *home) { return home->n_live; }
