/* experts_mapped.c: the mapped home of the routed experts: a lease is pointer arithmetic on the checkpoint's mapping, and what stays in
 * memory is the page cache's choice. Nothing is copied, cached or counted here. When the model is larger than memory, the page cache is told
 * what will be needed: its own guess, to read on where something was read, is wrong for experts. */
#include "cache/experts_int.h"
#include "io/ckpt.h"

typedef struct mapped_home {
  ij_experts base;
  const ij_ckpt *ckpt; /* NULL: not advised */
} mapped_home;

static int acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases) {
  const ij_expert_bank *bank = &home->banks[layer];
  for (int i = 0; i < n; i++) leases[i] = ij__expert_lease_of(bank, layer, ids[i]);
  return n;
}

static void want(ij_experts *home, int layer, const int *ids, int n, ij_want how) {
  if (how == IJ_WANT_GUESS) return;
  ij_expert_run runs[IJ_EXPERT_MAX_RUNS];
  int n_runs = ij__expert_runs(&home->banks[layer], runs);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n_runs; k++) ij__ckpt_advise(((mapped_home *)home)->ckpt, runs[k].data + runs[k].stride * ids[i], runs[k].n_bytes, IJ_ADVICE_SOON);
  }
}

static void stats(const ij_experts *home, ij_experts_stats *out) {
  out->home = "mapped";
  for (int i = 0; i < home->n_layer; i++) out->n_slots += home->banks[i].gate.first.data ? home->n_expert : 0;
}

static const ij_experts_ops plain = {.acquire = acquire, .stats = stats};
static const ij_experts_ops advised = {.acquire = acquire, .stats = stats, .want = want};

ij_status ij__experts_open_mapped(ij_experts **out, const ij_expert_banks *banks, ij_err *err) {
  return ij__experts_begin(out, sizeof(mapped_home), &plain, banks, err);
}

ij_status ij__experts_open_advised(ij_experts **out, const ij_expert_banks *banks, const struct ij_ckpt *ckpt, ij_err *err) {
  ij_status s = ij__experts_begin(out, sizeof(mapped_home), &advised, banks, err);
  if (s != IJ_OK) return s;
  ((mapped_home *)*out)->ckpt = ckpt;
  for (int i = 0; i < banks->n_layer; i++) {
    ij_expert_run runs[IJ_EXPERT_MAX_RUNS];
    for (int n = ij__expert_runs(&banks->banks[i], runs), k = 0; k < n; k++) {
      ij__ckpt_advise(ckpt, runs[k].data, (size_t)(runs[k].stride * (banks->n_expert - 1)) + runs[k].n_bytes, IJ_ADVICE_RANDOM);
    }
  }
  return IJ_OK;
}
