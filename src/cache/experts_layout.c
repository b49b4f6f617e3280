/* experts_layout.c: where the experts of a streamed home lie, in files and in slots, and how many slots its memory gives. See experts_streamed.h. */
#include <string.h>

#include "cache/experts_streamed.h"
#include "core/alloc.h"
#include "core/os.h"
#include "io/ckpt.h"

/* ------------------------------------------------------------------------------------------------------------- memory */

static int n_arrays(const ij_weight *w) { return 1 + (w->scales != NULL) + (w->biases != NULL); }

/* Never fewer than its runs. Room for reads is counted by this, which needs no sorting and is the same for a plan and a home. */
static int most_runs(const ij_expert_bank *b) { return n_arrays(&b->gate.first) + n_arrays(&b->up.first) + n_arrays(&b->down.first); }

/* What a class with so many slots takes. */
static size_t class_bytes(size_t slot_bytes, int n_run, int64_t n_key, int64_t n_slot) {
  size_t n = (size_t)n_slot, pages = ij__align_up(n * slot_bytes, ij__os_page_size());
  return pages + n * sizeof(streamed_slot) + n * (size_t)n_run * sizeof(ij_read) + ij__policy_bytes(n_key, n_slot);
}

#define BLOCK_OVERHEAD ((size_t)2 * IJ_ALIGNMENT) /* of the allocator */

/* What does not depend on the number of slots. */
static size_t table_bytes(const ij_expert_banks *b, int n_class) {
  size_t n_layer = (size_t)b->n_layer, n_expert = (size_t)b->n_expert;
  return sizeof(streamed_home) + IJ_ALIGNMENT + n_layer * (sizeof(ij_expert_bank) + sizeof(streamed_layer) + n_expert) +
         (size_t)n_class * sizeof(streamed_class) + 2 * n_expert * sizeof(int) + (size_t)(6 + 3 * n_class) * BLOCK_OVERHEAD;
}

/* Memory of a home in which every class has one slot, or as many as experts. Layers of one class are found by looking back: models have
 * tens of layers, and a plan has nowhere to allocate. */
static size_t memory_for(const ij_expert_banks *b, bool all) {
  size_t sum = 0;
  int n_class = 0;
  for (int i = 0; i < b->n_layer; i++) {
    size_t bytes = ij__expert_slot_bytes(&b->banks[i]);
    int64_t n_key = 0;
    int n_run = 0;
    bool known = bytes == 0;
    for (int j = 0; j < b->n_layer && !known; j++) {
      if (ij__expert_slot_bytes(&b->banks[j]) != bytes) continue;
      known = j < i;
      n_key += b->n_expert;
      n_run = IJ_MAX(n_run, most_runs(&b->banks[j]));
    }
    if (known) continue;
    n_class++;
    sum += class_bytes(bytes, n_run, n_key, all ? n_key : 1);
  }
  return sum + table_bytes(b, n_class);
}

size_t ij__experts_streamed_least(const ij_expert_banks *banks) { return memory_for(banks, false); }
size_t ij__experts_streamed_most(const ij_expert_banks *banks) { return memory_for(banks, true); }

/* Sets n_slot so that every class holds the same share of its experts, and at least one; the memory that takes. */
static size_t memory_at(streamed_home *h, double share) {
  ij_expert_banks b = {h->base.banks, h->base.n_layer, h->base.n_expert};
  size_t sum = table_bytes(&b, h->n_class);
  for (int i = 0; i < h->n_class; i++) {
    streamed_class *c = &h->classes[i];
    int64_t n = (int64_t)(share * (double)c->n_key);
    c->n_slot = IJ_MIN(IJ_MAX(n, 1), c->n_key);
    sum += class_bytes(c->slot_bytes, c->n_run, c->n_key, c->n_slot);
  }
  return sum;
}

ij_status ij__streamed_divide(streamed_home *h, size_t mem_bytes, size_t trace_bytes, ij_err *err) {
  size_t least = memory_at(h, 0);
  if (least > mem_bytes) {
    return ij__fail(err, IJ_E_NOMEM, "experts", "%.2f MB of memory for experts: at least %.2f MB are needed, one expert at a time and its tables; "
                    "give more memory, or use a model with smaller experts", (double)mem_bytes * 1e-6, (double)least * 1e-6);
  }
  trace_bytes = IJ_MIN(trace_bytes, IJ_MIN(mem_bytes / 64, mem_bytes - least));
  h->trace_room = (int64_t)(trace_bytes / sizeof *h->trace);
  mem_bytes -= trace_bytes;
  double lo = 0, hi = 1;
  if (memory_at(h, 1) <= mem_bytes) lo = 1;
  for (int i = 0; i < 50 && lo < 1; i++) {
    double mid = 0.5 * (lo + hi);
    if (memory_at(h, mid) <= mem_bytes) lo = mid;
    else hi = mid;
  }
  memory_at(h, lo);
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------- places */

/* The number of a file of the checkpoint in the reader, where it is added when it is needed first. */
static ij_status reader_file(streamed_home *h, const ij_ckpt *ckpt, int *known, int *file, ij_err *err) {
  ij_status s = IJ_OK;
  if (known[*file] < 0) {
    s = ij__reader_add(h->reader, ij__ckpt_file_path(ckpt, *file), ij__ckpt_file_size(ckpt, *file), &known[*file], err);
    if (s == IJ_OK) s = ij__ckpt_check_file(ckpt, *file, err);
  }
  *file = known[*file];
  return s;
}

static ij_status place_run(streamed_home *h, const ij_ckpt *ckpt, int *known, int layer, const ij_expert_run *run, ij_err *err) {
  streamed_layer *l = &h->layers[layer];
  streamed_run *r = &l->runs[l->n_run++];
  *r = (streamed_run){.n_bytes = run->n_bytes, .stride = run->stride};
  size_t all = (size_t)run->stride * (size_t)(h->base.n_expert - 1) + run->n_bytes;
  if (run->stride < 0 || !ij__ckpt_place(ckpt, run->data, all, &r->file, &r->offset)) {
    return ij__fail(err, IJ_E_UNSUPPORTED, ij__ckpt_folder(ckpt), "the experts of layer %d are not as they are needed in one of the files (the model may be a part of this "
                    "program), so they cannot be read from there: give more memory, so that all of it is mapped", layer);
  }
  return reader_file(h, ckpt, known, &r->file, err);
}

static bool lies_in(const char *data, size_t n_bytes, int64_t stride, const ij_expert_run *run) {
  return data >= run->data && data + n_bytes <= run->data + run->n_bytes && stride == run->stride;
}

/* In which run each array lies. Runs cover all of them by their making; of arrays that lie over each other, each goes with the run of its own stride. */
static void place_arrays(streamed_layer *l, const ij_expert_bank *bank, const ij_expert_run *runs) {
  const ij_bank_part *parts[3] = {&bank->gate, &bank->up, &bank->down};
  for (int i = 0; i < IJ_EXPERT_ARRAYS; i++) {
    const ij_weight *w = &parts[i / 3]->first;
    const char *data = i % 3 == 0 ? w->data : i % 3 == 1 ? w->scales : w->biases;
    size_t n_bytes[3];
    ij__weight_extent(w, n_bytes);
    l->run_of[i] = -1;
    for (int r = 0; data && r < l->n_run; r++) {
      if (!lies_in(data, n_bytes[i % 3], i % 3 == 0 ? parts[i / 3]->stride : parts[i / 3]->side_stride, &runs[r])) continue;
      l->run_of[i] = (signed char)r;
      l->at[i] = (size_t)(data - runs[r].data);
    }
  }
}

static ij_status lay_out_layer(streamed_home *h, const ij_ckpt *ckpt, int *known, int layer, ij_err *err) {
  streamed_layer *l = &h->layers[layer];
  const ij_expert_bank *bank = &h->base.banks[layer];
  ij_expert_run runs[IJ_EXPERT_MAX_RUNS];
  int n = ij__expert_runs(bank, runs);
  size_t room = 0;
  ij_status s = IJ_OK;
  for (int i = 0; i < n && s == IJ_OK; i++) {
    s = place_run(h, ckpt, known, layer, &runs[i], err);
    l->runs[i].room = room;
    l->n_bytes += runs[i].n_bytes;
    room += ij__read_room_max(runs[i].n_bytes);
  }
  if (s == IJ_OK) place_arrays(l, bank, runs);
  return s;
}

static void join_class(streamed_home *h, int layer) {
  streamed_layer *l = &h->layers[layer];
  const ij_expert_bank *bank = &h->base.banks[layer];
  size_t bytes = ij__expert_slot_bytes(bank);
  l->i_class = -1;
  if (bytes == 0) return;
  int i = 0;
  while (i < h->n_class && h->classes[i].slot_bytes != bytes) i++;
  streamed_class *c = &h->classes[i];
  h->n_class = IJ_MAX(h->n_class, i + 1);
  c->slot_bytes = bytes;
  c->n_run = IJ_MAX(c->n_run, most_runs(bank));
  l->i_class = i;
  l->first_key = c->n_key;
  c->n_key += h->base.n_expert;
}

/* How many there are, before there is a table for them. */
static int count_classes(const ij_experts *base) {
  int n = 0;
  for (int i = 0; i < base->n_layer; i++) {
    size_t bytes = ij__expert_slot_bytes(&base->banks[i]);
    int j = 0;
    while (j < i && ij__expert_slot_bytes(&base->banks[j]) != bytes) j++;
    n += bytes > 0 && j == i;
  }
  return n;
}

ij_status ij__streamed_lay_out(streamed_home *h, const ij_ckpt *ckpt, ij_err *err) {
  size_t n_layer = (size_t)h->base.n_layer, n_file = (size_t)ij__ckpt_n_files(ckpt);
  int n_class = count_classes(&h->base);
  int *known = ij__alloc_array(n_file, sizeof *known);
  h->layers = ij__alloc_zero(n_layer, sizeof *h->layers);
  h->classes = ij__alloc_zero((size_t)n_class, sizeof *h->classes);
  ij_status s = known && h->layers && h->classes ? IJ_OK : ij__fail_nomem(err, "the table of experts", n_layer * sizeof *h->layers);
  for (size_t i = 0; known && i < n_file; i++) known[i] = -1;
  for (int i = 0; s == IJ_OK && i < h->base.n_layer; i++) {
    join_class(h, i);
    s = lay_out_layer(h, ckpt, known, i, err);
  }
  ij__free(known);
  return s;
}

/* -------------------------------------------------------------------------------------------------------------- views */

static void rebase(const streamed_layer *l, int array, int expert, const char *slot, const void **p) {
  if (!*p) return;
  const streamed_run *r = &l->runs[l->run_of[array]];
  uint64_t offset = r->offset + (uint64_t)r->stride * (uint64_t)expert;
  *p = slot + r->room + offset % IJ_READ_ALIGN + l->at[array];
}

ij_expert_lease ij__streamed_lease(const streamed_home *h, int layer, int expert, const char *slot) {
  const streamed_layer *l = &h->layers[layer];
  ij_expert_lease lease = ij__expert_lease_of(&h->base.banks[layer], layer, expert);
  ij_weight *parts[3] = {&lease.gate, &lease.up, &lease.down};
  for (int i = 0; i < 3; i++) {
    rebase(l, 3 * i, expert, slot, &parts[i]->data);
    rebase(l, 3 * i + 1, expert, slot, &parts[i]->scales);
    rebase(l, 3 * i + 2, expert, slot, &parts[i]->biases);
  }
  return lease;
}
