/* experts_slots.c: one expert of a streamed home and its slot: from the first read to the last, and what happens when one of them fails or is
 * taken back. See experts_streamed.h. A slot changes hands only when none of its reads is out. */
#include <assert.h>
#include <string.h>

#include "cache/experts_streamed.h"
#include "core/os.h"

int64_t ij__expert_slot_index(const streamed_class *c, const streamed_slot *s) { return s - c->slots; }

streamed_slot *ij__expert_slot_find(const streamed_home *h, int layer, int expert) {
  streamed_class *c = ij__streamed_class_of(h, layer);
  int64_t i = ij__policy_find(c->policy, ij__streamed_key(h, layer, expert));
  return i < 0 ? NULL : &c->slots[i];
}

static ij_read *reads_of(const streamed_class *c, const streamed_slot *s) { return c->reads + ij__expert_slot_index(c, s) * c->n_run; }

static void make_empty(streamed_class *c, streamed_slot *s) {
  ij__policy_drop(c->policy, ij__expert_slot_index(c, s));
  *s = (streamed_slot){0};
}

/* Submits the reads of a slot that have not succeeded. */
static void submit(streamed_home *h, streamed_class *c, streamed_slot *s) {
  ij_read *reads = reads_of(c, s);
  int n_run = h->layers[s->layer].n_run;
  s->state = SLOT_READING;
  c->n_reading++;
  h->n_reading++;
  ij__policy_hold(c->policy, ij__expert_slot_index(c, s));
  for (int i = 0; i < n_run; i++) s->n_out += reads[i].status != IJ_OK;
  for (int i = 0; i < n_run; i++) {
    if (reads[i].status == IJ_OK) continue;
    reads[i].user = s;
    ij__reader_submit(h->reader, &reads[i]);
  }
}

bool ij__expert_slot_begin(streamed_home *h, int layer, int expert, bool guess) {
  const streamed_layer *l = &h->layers[layer];
  streamed_class *c = ij__streamed_class_of(h, layer);
  int64_t at = ij__policy_take(c->policy, ij__streamed_key(h, layer, expert), guess, NULL);
  if (at < 0) return false;
  streamed_slot *s = &c->slots[at];
  assert(s->state != SLOT_READING && s->state != SLOT_FAILED && !s->wanted);
  *s = (streamed_slot){.layer = layer, .expert = expert, .guess = guess};
  ij_read *reads = reads_of(c, s);
  char *room = c->pages + (size_t)at * c->slot_bytes;
  for (int i = 0; i < l->n_run; i++) {
    const streamed_run *r = &l->runs[i];
    reads[i] = (ij_read){.file = r->file, .offset = r->offset + (uint64_t)r->stride * (uint64_t)expert, .n_bytes = r->n_bytes,
                         .room = room + r->room, .status = IJ_E_CANCELLED};
  }
  ij__os_touch(room, c->slot_bytes);
  submit(h, c, s);
  return true;
}

void ij__expert_slot_want(streamed_home *h, streamed_slot *s) {
  streamed_class *c = ij__streamed_class_of(h, s->layer);
  if (s->wanted) return;
  s->wanted = true;
  ij__policy_hold(c->policy, ij__expert_slot_index(c, s));
}

void ij__expert_slot_unwant(streamed_home *h, streamed_slot *s) {
  streamed_class *c = ij__streamed_class_of(h, s->layer);
  if (!s->wanted) return;
  s->wanted = false;
  ij__policy_unhold(c->policy, ij__expert_slot_index(c, s));
  if (s->state == SLOT_FAILED) make_empty(c, s);
}

/* All reads of the slot are back. */
static void settle(streamed_home *h, streamed_class *c, streamed_slot *s) {
  const streamed_layer *l = &h->layers[s->layer];
  const ij_read *reads = reads_of(c, s);
  bool failed = false, whole = true;
  for (int i = 0; i < l->n_run; i++) {
    whole = whole && reads[i].status == IJ_OK;
    failed = failed || (reads[i].status != IJ_OK && reads[i].status != IJ_E_CANCELLED);
  }
  c->n_reading--;
  h->n_reading--;
  ij__policy_unhold(c->policy, ij__expert_slot_index(c, s));
  if (whole) {
    s->state = SLOT_READY;
    s->fresh = true;
    h->stats.expert_bytes += l->n_bytes;
  } else if (!s->wanted) {
    make_empty(c, s);
  } else if (failed) {
    s->state = SLOT_FAILED;
  } else { /* taken back, and wanted after all */
    submit(h, c, s);
  }
}

void ij__expert_slot_cancel(streamed_home *h, streamed_slot *s) {
  streamed_class *c = ij__streamed_class_of(h, s->layer);
  ij_read *reads = reads_of(c, s);
  for (int i = 0, n = h->layers[s->layer].n_run; i < n; i++) {
    if (!reads[i].user || !ij__reader_cancel(h->reader, &reads[i])) continue;
    reads[i].status = IJ_E_CANCELLED;
    reads[i].user = NULL;
    s->n_out--;
  }
  if (s->n_out == 0) settle(h, c, s);
}

void ij__expert_slots_reap(streamed_home *h, bool block) {
  enum { AT_ONCE = 16 };
  ij_read *done[AT_ONCE];
  int n;
  do {
    n = h->n_reading > 0 ? ij__reader_wait(h->reader, done, AT_ONCE, block) : 0;
    for (int i = 0; i < n; i++) {
      streamed_slot *s = done[i]->user;
      done[i]->user = NULL;
      if (--s->n_out == 0) settle(h, ij__streamed_class_of(h, s->layer), s);
    }
    block = false;
  } while (n == AT_ONCE);
}

ij_status ij__expert_slot_explain(streamed_home *h, const streamed_slot *s) {
  const ij_read *reads = reads_of(ij__streamed_class_of(h, s->layer), s);
  ij_err why = {.code = IJ_E_IO};
  for (int i = h->layers[s->layer].n_run - 1; i >= 0; i--) {
    if (reads[i].status != IJ_OK && reads[i].status != IJ_E_CANCELLED) ij__reader_explain(h->reader, &reads[i], &why);
  }
  return ij__fail(&h->base.error, why.code, why.where, "expert %d of layer %d: %s", s->expert, s->layer, why.message);
}
