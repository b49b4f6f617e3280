/* experts_streamed.c: the streamed home: experts are read into slots of bounded memory when they are needed, past the page cache, and stay as
 * long as they are worth it. See experts_streamed.h for its parts.
 *
 * A step of a layer is announced by want(SURE), or by its first acquire. All of it that fits is begun at once, in the order of the files; what
 * does not fit follows as leases come back, so that the drive works while the caller computes. Of a long step only a part of the slots is
 * handed out at a time for that reason, and only a part is kept for experts that are there already but come later.
 *
 * Single-threaded: the reader's threads touch nothing but the rooms and the reads that they were given.
 */
#include <assert.h>
#include <string.h>

#include "cache/experts_streamed.h"
#include "core/alloc.h"
#include "core/os.h"

#define TRACE_ROOM ((size_t)16 << 20) /* 4 million accesses: some 17,000 tokens of 40 layers with 6 experts each */

static streamed_home *home_of(const ij_experts *home) { return (streamed_home *)(uintptr_t)home; }

/* ------------------------------------------------------------------------------------------------------------ guesses */

static bool is_among(int id, const int *ids, int n) {
  int lo = 0;
  while (lo < n) {
    int mid = lo + (n - lo) / 2;
    if (ids[mid] == id) return true;
    if (ids[mid] < id) lo = mid + 1;
    else n = mid;
  }
  return false;
}

/* The guesses are over: those not among ids are taken back. */
static void end_guess(streamed_home *h, const int *ids, int n) {
  for (int i = 0; i < h->n_guess; i++) {
    if (is_among(h->guess_ids[i], ids, n)) continue;
    streamed_slot *s = ij__expert_slot_find(h, h->guess_layer, h->guess_ids[i]);
    if (!s || !s->guess) continue;
    s->guess = false;
    if (s->state != SLOT_READING) continue;
    h->stats.n_guess_cancelled++;
    ij__expert_slot_cancel(h, s);
  }
  h->n_guess = 0;
  h->guess_layer = -1;
}

/* Behind the reads that are sure, and only when all of these have been begun: the queue is served in order, so a guess gets what is idle. A
 * quarter of the slots at most, so that a wrong one leaves room. */
static void want_guess(streamed_home *h, int layer, const int *ids, int n) {
  streamed_class *c = ij__streamed_class_of(h, layer);
  if (layer == h->want_layer || h->next_in < h->n_want) return;
  if (h->n_guess) end_guess(h, NULL, 0);
  h->guess_layer = layer;
  for (int i = 0; i < n && h->n_guess < c->n_slot / 4; i++) {
    if (ij__expert_slot_find(h, layer, ids[i])) continue;
    if (!ij__expert_slot_begin(h, layer, ids[i], true)) break;
    h->guess_ids[h->n_guess++] = ids[i];
    h->stats.n_guess++;
  }
}

/* -------------------------------------------------------------------------------------------------------------- a step */

static void end_step(streamed_home *h) {
  for (int i = h->next_out; i < h->n_want; i++) {
    streamed_slot *s = ij__expert_slot_find(h, h->want_layer, h->want_ids[i]);
    if (s) ij__expert_slot_unwant(h, s);
  }
  h->n_want = h->next_in = h->next_out = 0;
  h->want_layer = -1;
}

/* Begins what fits, in order. */
static void go_on(streamed_home *h) {
  h->next_in = IJ_MAX(h->next_in, h->next_out);
  for (; h->next_in < h->n_want; h->next_in++) {
    int id = h->want_ids[h->next_in];
    if (!ij__expert_slot_find(h, h->want_layer, id) && !ij__expert_slot_begin(h, h->want_layer, id, false)) return;
    ij__expert_slot_want(h, ij__expert_slot_find(h, h->want_layer, id));
  }
}

/* Holds what is there, so that the reads of this step do not displace it; of a step that does not fit, only so much that half of the slots
 * remain for reading. */
static void hold_present(streamed_home *h) {
  int64_t n_slot = ij__streamed_class_of(h, h->want_layer)->n_slot, most = h->n_want <= n_slot ? n_slot : n_slot / 2;
  for (int i = 0; i < h->n_want && most > 0; i++) {
    streamed_slot *s = ij__expert_slot_find(h, h->want_layer, h->want_ids[i]);
    if (!s) continue;
    ij__expert_slot_want(h, s);
    most--;
  }
}

static void begin_step(streamed_home *h, int layer, const int *ids, int n) {
  end_step(h);
  ij__expert_slots_reap(h, false);
  if (h->guess_layer == layer) end_guess(h, ids, n);
  h->want_layer = layer;
  h->n_want = n;
  memcpy(h->want_ids, ids, (size_t)n * sizeof *ids);
  hold_present(h);
  go_on(h);
}

static void want(ij_experts *home, int layer, const int *ids, int n, ij_want kind) {
  streamed_home *h = home_of(home);
  if (kind == IJ_WANT_SURE) begin_step(h, layer, ids, n);
  else want_guess(h, layer, ids, n);
}

/* ------------------------------------------------------------------------------------------------------------- acquire */

/* Gives up something that can wait, when not even the first expert has a slot: what is held for later in this step, the last first; then
 * guesses. False: there is nothing. */
static bool make_way(streamed_home *h) {
  for (int i = h->n_want - 1; i > h->next_out; i--) {
    streamed_slot *s = ij__expert_slot_find(h, h->want_layer, h->want_ids[i]);
    if (!s || !s->wanted || s->state == SLOT_READING) continue; /* one that failed is read again */
    ij__expert_slot_unwant(h, s);
    return true;
  }
  bool any = h->n_guess > 0;
  if (any) end_guess(h, NULL, 0);
  return any;
}

static void wait_for_reads(streamed_home *h) {
  double begin = ij__os_seconds();
  ij__expert_slots_reap(h, true);
  h->stats.wait_seconds += ij__os_seconds() - begin;
}

/* Waits until the first expert of what is left of the step is there. */
static ij_status await_first(streamed_home *h) {
  int layer = h->want_layer, id = h->want_ids[h->next_out];
  const streamed_class *c = ij__streamed_class_of(h, layer);
  for (;;) {
    go_on(h);
    const streamed_slot *s = ij__expert_slot_find(h, layer, id);
    if (s && s->state == SLOT_READY) return IJ_OK;
    if (s && s->state == SLOT_FAILED) return ij__expert_slot_explain(h, s);
    if (!s && make_way(h)) continue;
    if (!s && c->n_reading == 0) {
      return ij__fail(&h->base.error, IJ_E_NOMEM, "experts", "expert %d of layer %d: all %lld places for experts of its size are in use; "
                      "give more memory", id, layer, (long long)c->n_slot);
    }
    wait_for_reads(h);
  }
}

static void note(streamed_home *h, int layer, int expert) {
  if (h->n_trace < h->trace_room) h->trace[h->n_trace++] = (int32_t)(layer * h->base.n_expert + expert);
}

static ij_expert_lease hand_out(streamed_home *h, streamed_slot *s) {
  streamed_class *c = ij__streamed_class_of(h, s->layer);
  assert(s->wanted); /* what has been passed by go_on is; its hold becomes that of the lease */
  s->wanted = false;
  h->stats.n_hit += !s->fresh;
  h->stats.n_miss += s->fresh;
  h->stats.n_guess_used += s->guess;
  s->fresh = s->guess = false;
  ij__policy_touch(c->policy, ij__streamed_key(h, s->layer, s->expert));
  note(h, s->layer, s->expert);
  return ij__streamed_lease(h, s->layer, s->expert, c->pages + (size_t)ij__expert_slot_index(c, s) * c->slot_bytes);
}

/* While a part of the step has no slots yet, three quarters of them go on being read into. */
static int64_t most_at_once(const streamed_home *h) {
  int64_t n_slot = ij__streamed_class_of(h, h->want_layer)->n_slot;
  return h->next_in < h->n_want ? IJ_MAX(1, n_slot / 4) : n_slot;
}

static int acquire(ij_experts *home, int layer, const int *ids, int n, ij_expert_lease *leases) {
  streamed_home *h = home_of(home);
  bool announced = h->want_layer == layer && h->n_want - h->next_out == n && memcmp(h->want_ids + h->next_out, ids, (size_t)n * sizeof *ids) == 0;
  if (!announced) begin_step(h, layer, ids, n);
  ij__expert_slots_reap(h, false);
  ij_status status = await_first(h);
  if (status != IJ_OK) {
    end_step(h);
    return (int)status;
  }
  int got = 0;
  for (int64_t most = most_at_once(h); got < n && got < most; got++) {
    streamed_slot *s = ij__expert_slot_find(h, layer, ids[got]);
    if (!s || s->state != SLOT_READY) break;
    leases[got] = hand_out(h, s);
    h->next_out++;
  }
  if (h->next_out == h->n_want) end_step(h);
  return got;
}

static void release(ij_experts *home, const ij_expert_lease *leases, int n) {
  streamed_home *h = home_of(home);
  for (int i = 0; i < n; i++) {
    streamed_class *c = ij__streamed_class_of(h, leases[i].layer);
    ij__policy_unhold(c->policy, ij__expert_slot_index(c, ij__expert_slot_find(h, leases[i].layer, leases[i].expert)));
  }
  ij__expert_slots_reap(h, false);
  go_on(h);
}

/* ------------------------------------------------------------------------------------------------------------- figures */

static void stats(const ij_experts *home, ij_experts_stats *out) {
  const streamed_home *h = home_of(home);
  ij_reader_stats r;
  ij__reader_get_stats(h->reader, &r);
  *out = h->stats;
  out->home = "streamed";
  out->reader = r.kind;
  out->direct = r.n_buffered == 0;
  out->read_bytes = r.n_bytes - h->reader_bytes0;
  out->read_seconds = r.seconds - h->reader_seconds0;
  for (int i = 0; i < h->n_class; i++) {
    out->n_slots += h->classes[i].n_slot;
    out->slot_bytes += h->classes[i].page_bytes;
  }
}

static bool heat(const ij_experts *home, float *out) {
  const streamed_home *h = home_of(home);
  for (int i = 0; i < home->n_layer; i++) {
    float *to = out + (size_t)i * (size_t)home->n_expert;
    if (h->layers[i].i_class < 0) memset(to, 0, (size_t)home->n_expert * sizeof *to);
    else ij__policy_heat(ij__streamed_class_of(h, i)->policy, h->layers[i].first_key, home->n_expert, to);
  }
  return true;
}

static int64_t trace(const ij_experts *home, const int32_t **keys) {
  const streamed_home *h = home_of(home);
  *keys = h->trace;
  return h->n_trace;
}

/* ------------------------------------------------------------------------------------------------- opening and closing */

static void close_class(streamed_class *c) {
  ij__policy_close(&c->policy);
  ij__os_free_pages(c->pages, c->page_bytes);
  ij__free(c->slots);
  ij__free(c->reads);
}

static void close_home(ij_experts *home) {
  streamed_home *h = home_of(home);
  if (h->want_layer >= 0) end_step(h);
  for (int i = 0; i < h->n_class && h->n_reading > 0; i++) {
    streamed_class *c = &h->classes[i];
    for (int64_t s = 0; s < c->n_slot; s++) {
      if (c->slots[s].state == SLOT_READING) ij__expert_slot_cancel(h, &c->slots[s]);
    }
  }
  while (h->n_reading > 0) ij__expert_slots_reap(h, true); /* what is under way writes into the slots */
  for (int i = 0; i < h->n_class; i++) close_class(&h->classes[i]);
  ij__free(h->classes);
  ij__free(h->layers);
  ij__free(h->want_ids);
  ij__free(h->guess_ids);
  ij__free(h->trace);
}

/* The part of a prior that a class's policy sees, in the order of its keys. */
static ij_status open_policy(streamed_home *h, int i_class, const float *prior, ij_err *err) {
  streamed_class *c = &h->classes[i_class];
  size_t n_expert = (size_t)h->base.n_expert, n_bytes = (size_t)c->n_key * sizeof(float);
  float *part = prior ? ij__alloc(n_bytes) : NULL;
  if (prior && !part) return ij__fail_nomem(err, "the use of experts", n_bytes);
  for (int l = 0; part && l < h->base.n_layer; l++) {
    if (h->layers[l].i_class == i_class) memcpy(part + h->layers[l].first_key, prior + (size_t)l * n_expert, n_expert * sizeof(float));
  }
  ij_status s = ij__policy_open(&c->policy, IJ_POLICY_BLEND, c->n_key, c->n_slot, part, err);
  ij__free(part);
  return s;
}

static ij_status open_class(streamed_home *h, int i_class, const float *prior, ij_err *err) {
  streamed_class *c = &h->classes[i_class];
  size_t n_slot = (size_t)c->n_slot;
  ij_status s = open_policy(h, i_class, prior, err);
  if (s != IJ_OK) return s;
  c->page_bytes = ij__align_up(n_slot * c->slot_bytes, ij__os_page_size());
  c->slots = ij__alloc_zero(n_slot, sizeof *c->slots);
  c->reads = ij__alloc_array(n_slot * (size_t)c->n_run, sizeof *c->reads);
  c->pages = ij__os_pages(c->page_bytes);
  if (c->pages) ij__os_advise(c->pages, c->page_bytes, IJ_ADVICE_HUGE); /* direct reads into them then cost the kernel a fifth */
  return c->slots && c->reads && c->pages ? IJ_OK : ij__fail_nomem(err, "the memory for experts", c->page_bytes);
}

static ij_status open_home(streamed_home *h, const ij_streamed_options *o, ij_err *err) {
  size_t n_expert = (size_t)h->base.n_expert;
  ij_reader_stats before;
  ij__reader_get_stats(o->reader, &before);
  h->reader = o->reader;
  h->reader_bytes0 = before.n_bytes;
  h->reader_seconds0 = before.seconds;
  h->want_layer = h->guess_layer = -1;
  ij_status s = ij__streamed_lay_out(h, o->ckpt, err);
  if (s == IJ_OK) s = ij__streamed_divide(h, o->mem_bytes, o->keep_trace ? TRACE_ROOM : 0, err);
  if (s != IJ_OK) return s;
  size_t for_trace = (size_t)h->trace_room * sizeof *h->trace;
  h->want_ids = ij__alloc_array(n_expert, sizeof *h->want_ids);
  h->guess_ids = ij__alloc_array(n_expert, sizeof *h->guess_ids);
  h->trace = for_trace ? ij__alloc(for_trace) : NULL;
  if (!h->want_ids || !h->guess_ids || (for_trace && !h->trace)) return ij__fail_nomem(err, "the table of experts", for_trace);
  for (int i = 0; s == IJ_OK && i < h->n_class; i++) s = open_class(h, i, o->prior, err);
  return s;
}

static const ij_experts_ops ops = {.close = close_home, .acquire = acquire, .release = release, .want = want, .stats = stats, .heat = heat,
                                   .trace = trace, .can_guess = true};

ij_status ij__experts_open_streamed(ij_experts **out, const ij_expert_banks *banks, const ij_streamed_options *options, ij_err *err) {
  ij_status s = ij__experts_begin(out, sizeof(streamed_home), &ops, banks, err);
  if (s != IJ_OK) return s;
  s = open_home(home_of(*out), options, err);
  if (s != IJ_OK) ij__experts_close(out);
  return s;
}
