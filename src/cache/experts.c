/* experts.c: what all homes of the routed experts have in common: the checks, the accounting of leases, and where an expert lies.
 *
 * The accounting is not needed to be fast and is never left out: a caller that works with one home works with all of them. */
#include "cache/experts_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "io/reader.h"

ij_status ij__experts_begin(ij_experts **out, size_t size, const ij_experts_ops *ops, const ij_expert_banks *b, ij_err *err) {
  *out = NULL;
  if (b->n_layer < 0 || b->n_expert < 0) return ij__fail(err, IJ_E_ARGUMENT, "experts", "%d layers of %d experts cannot be", b->n_layer, b->n_expert);
  size_t head = ij__align_up(size, IJ_ALIGNMENT), bank_bytes = 0, flag_bytes = 0, total = 0;
  bool fits = ij__mul_size((size_t)b->n_layer, sizeof(ij_expert_bank), &bank_bytes) &&
              ij__mul_size((size_t)b->n_layer, (size_t)b->n_expert, &flag_bytes) && ij__add_size(head, bank_bytes, &total) &&
              ij__add_size(total, flag_bytes, &total);
  char *block = fits ? ij__alloc_zero(total, 1) : NULL;
  if (!block) return ij__fail_nomem(err, "the expert table", fits ? total : SIZE_MAX);
  ij_experts *home = (ij_experts *)(void *)block;
  home->ops = ops;
  home->n_layer = b->n_layer;
  home->n_expert = b->n_expert;
  home->banks = (ij_expert_bank *)(void *)(block + head);
  if (bank_bytes) memcpy(home->banks, b->banks, bank_bytes);
  home->leased = (unsigned char *)block + head + bank_bytes;
  *out = home;
  return IJ_OK;
}

void ij__experts_close(ij_experts **home) {
  if (!*home) return;
  assert((*home)->n_live == 0 && "a lease was not released");
  if ((*home)->ops->close) (*home)->ops->close(*home);
  ij__free(*home);
  *home = NULL;
}

/* A lease is taken once and given back once. */
static void mark(ij_experts *home, int layer, int expert, bool leased) {
  unsigned char *flag = &home->leased[(size_t)layer * (size_t)home->n_expert + (size_t)expert];
  assert(*flag != (unsigned char)leased && "an expert is leased twice, or released twice");
  *flag = (unsigned char)leased;
}

static bool ids_are_right(const ij_experts *home, int layer, const int *ids, int n) {
  if (layer < 0 || layer >= home->n_layer || n < 1 || !home->banks[layer].gate.first.data) return false;
  for (int i = 0; i < n; i++) {
    if (ids[i] < 0 || ids[i] >= home->n_expert || (i > 0 && ids[i] <= ids[i - 1])) return false;
  }
  return true;
}

int ij__experts_acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases) {
  if (!ids_are_right(home, layer, ids, n)) {
    return (int)ij__fail(&home->error, IJ_E_ARGUMENT, "experts", "%d experts of layer %d were asked for that cannot be", n, layer);
  }
  int got = home->ops->acquire(home, layer, ids, n, leases);
  for (int i = 0; i < got; i++) mark(home, layer, ids[i], true);
  if (got > 0) home->n_live += got;
  return got;
}

void ij__experts_release(ij_experts *home, const ij_expert_lease *leases, int n) {
  assert(n >= 0 && n <= home->n_live);
  for (int i = 0; i < n; i++) {
    assert(leases[i].layer >= 0 && leases[i].layer < home->n_layer);
    assert(leases[i].expert >= 0 && leases[i].expert < home->n_expert);
    mark(home, leases[i].layer, leases[i].expert, false);
  }
  home->n_live -= n;
  if (home->ops->release) home->ops->release(home, leases, n);
}

int64_t ij__experts_live(const ij_experts *home) { return home->n_live; }

const ij_err *ij__experts_error(const ij_experts *home) { return &home->error; }

void ij__experts_want(ij_experts *home, int layer, const int *ids, int n, ij_want want) {
  if (home->ops->want && ids_are_right(home, layer, ids, n)) home->ops->want(home, layer, ids, n, want);
}

bool ij__experts_can_guess(const ij_experts *home) { return home->ops->can_guess; }

void ij__experts_get_stats(const ij_experts *home, ij_experts_stats *out) {
  memset(out, 0, sizeof *out);
  out->reader = "";
  home->ops->stats(home, out);
}

bool ij__experts_heat(const ij_experts *home, float *out) { return home->ops->heat && home->ops->heat(home, out); }

int64_t ij__experts_trace(const ij_experts *home, const int32_t **keys) { return home->ops->trace ? home->ops->trace(home, keys) : 0; }

/* ------------------------------------------------------------------------------------------------- where an expert lies */

ij_weight ij__expert_view(const ij_bank_part *part, int expert) {
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

static int compare_runs(const void *a, const void *b) {
  const ij_expert_run *x = a, *y = b;
  return (x->data > y->data) - (x->data < y->data);
}

/* Rows in turns with those of another part overlap with it. */
static int add_part(ij_expert_run *runs, int n, const ij_bank_part *p) {
  const ij_weight *w = &p->first;
  const void *data[3] = {w->data, w->scales, w->biases};
  size_t n_bytes[3];
  ij__weight_extent(w, n_bytes);
  for (int i = 0; i < 3; i++) {
    if (data[i]) runs[n++] = (ij_expert_run){data[i], n_bytes[i], i == 0 ? p->stride : p->side_stride};
  }
  return n;
}

int ij__expert_runs(const ij_expert_bank *bank, ij_expert_run runs[IJ_EXPERT_MAX_RUNS]) {
  if (!bank->gate.first.data) return 0;
  ij_expert_run all[IJ_EXPERT_MAX_RUNS];
  int n = add_part(all, add_part(all, add_part(all, 0, &bank->gate), &bank->up), &bank->down), n_out = 0;
  qsort(all, (size_t)n, sizeof *all, compare_runs);
  for (int i = 0; i < n; i++) {
    ij_expert_run *last = n_out ? &runs[n_out - 1] : NULL;
    if (last && all[i].stride == last->stride && all[i].data <= last->data + last->n_bytes) {
      size_t end = (size_t)(all[i].data - last->data) + all[i].n_bytes;
      last->n_bytes = IJ_MAX(last->n_bytes, end);
    } else {
      runs[n_out++] = all[i];
    }
  }
  return n_out;
}

size_t ij__expert_bytes(const ij_expert_bank *bank) {
  ij_expert_run runs[IJ_EXPERT_MAX_RUNS];
  size_t sum = 0;
  for (int n = ij__expert_runs(bank, runs), i = 0; i < n; i++) sum += runs[i].n_bytes;
  return sum;
}

size_t ij__expert_slot_bytes(const ij_expert_bank *bank) {
  ij_expert_run runs[IJ_EXPERT_MAX_RUNS];
  size_t sum = 0;
  for (int n = ij__expert_runs(bank, runs), i = 0; i < n; i++) sum += ij__read_room_max(runs[i].n_bytes);
  return sum;
}
