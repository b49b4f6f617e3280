/* experts_resident.c: the resident home of the routed experts: all of them read into memory of our own when it is opened. From then on a lease
 * is pointer arithmetic, as in the mapped home. The experts of a layer lie one after the other in a file, so each bank is copied as a whole
 * and keeps its strides. */
#include "cache/experts_int.h"
#include "io/copies.h"

typedef struct resident_home {
  ij_experts base;
  ij_copies *copies;
} resident_home;

static int acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases) {
  const ij_expert_bank *bank = &home->banks[layer];
  for (int i = 0; i < n; i++) leases[i] = ij__expert_lease_of(bank, layer, ids[i]);
  return n;
}

static void close_home(ij_experts *home) { ij__copies_close(&((resident_home *)home)->copies); }

static void stats(const ij_experts *home, ij_experts_stats *out) {
  out->home = "resident";
  for (int i = 0; i < home->n_layer; i++) out->n_slots += home->banks[i].gate.first.data ? home->n_expert : 0;
  out->slot_bytes = ij__copies_bytes(((const resident_home *)home)->copies);
}

static const ij_experts_ops ops = {.close = close_home, .acquire = acquire, .stats = stats};

/* The whole of a bank: from the first byte of expert 0 to the last of the last, for each stretch that an expert takes. */
static ij_status add_bank(ij_copies *copies, const ij_expert_bank *bank, int n_expert, ij_err *err) {
  ij_expert_run runs[IJ_EXPERT_MAX_RUNS];
  ij_status s = IJ_OK;
  for (int n = ij__expert_runs(bank, runs), i = 0; i < n && s == IJ_OK; i++) {
    s = ij__copies_add(copies, runs[i].data, (size_t)(runs[i].stride * (n_expert - 1)) + runs[i].n_bytes, err);
  }
  return s;
}

static void move_part(ij_bank_part *part, const ij_copies *copies) {
  part->first.data = ij__copies_find(copies, part->first.data);
  part->first.scales = ij__copies_find(copies, part->first.scales);
  part->first.biases = ij__copies_find(copies, part->first.biases);
}

ij_status ij__experts_open_resident(ij_experts **out, const ij_expert_banks *banks, const struct ij_ckpt *ckpt, struct ij_reader *reader,
                                    bool (*progress)(void *user, double fraction), void *user, ij_err *err) {
  ij_status s = ij__experts_begin(out, sizeof(resident_home), &ops, banks, err);
  if (s != IJ_OK) return s;
  resident_home *home = (resident_home *)*out;
  s = ij__copies_open(&home->copies, ckpt, err);
  for (int i = 0; i < banks->n_layer && s == IJ_OK; i++) s = add_bank(home->copies, &home->base.banks[i], banks->n_expert, err);
  if (s == IJ_OK) s = ij__copies_read(home->copies, reader, progress, user, err);
  if (s != IJ_OK) {
    ij__experts_close(out);
    return s;
  }
  for (int i = 0; i < banks->n_layer; i++) {
    ij_expert_bank *bank = &home->base.banks[i];
    ij_bank_part *parts[3] = {&bank->gate, &bank->up, &bank->down};
    for (int k = 0; k < 3; k++) move_part(parts[k], home->copies);
  }
  return IJ_OK;
}
