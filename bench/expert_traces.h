/* expert_traces.h: sequences of routed experts as decoding makes them, the best that any cache could do on one, and what a policy does. For the
 * measuring program and for the test of the policies.
 *
 * A trace is a list of keys, layer * n_expert + expert. Made ones: for each token the layers in order, for each layer `n_used` distinct
 * experts, ascending, drawn one after the other with chances 1 / rank among those not yet drawn. Which expert has which rank is a
 * permutation of each layer:
 *   stationary   it stays;
 *   drifting     each token swaps a few pairs of ranks, so that after about n_expert / (2 * swaps) tokens each expert has moved once, on average;
 *   alternating  there are two, and every `period` tokens the other one is used.
 */
#ifndef IJ_BENCH_EXPERT_TRACES_H
#define IJ_BENCH_EXPERT_TRACES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/policy.h"

typedef enum et_kind { ET_STATIONARY, ET_DRIFTING, ET_ALTERNATING, ET_KINDS } et_kind;

static const char *const et_names[ET_KINDS] = {"stationary", "drifting", "alternating"};

typedef struct et_shape {
  int n_layer, n_expert, n_used, n_token;
  double swaps; /* pairs per token and layer */
  int period;   /* tokens of a topic */
} et_shape;

typedef struct et_trace {
  int n_layer, n_expert;
  int64_t n;
  int32_t *keys;
} et_trace;

static inline uint64_t et_bits(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline double et_uniform(uint64_t *state) { return (double)(et_bits(state) >> 11) * 0x1p-53; }
static inline int et_below(uint64_t *state, int n) { return (int)(et_uniform(state) * n); }

static inline void et_shuffle(uint64_t *state, int32_t *list, int n) {
  for (int i = 0; i < n; i++) list[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int j = et_below(state, i + 1);
    int32_t t = list[i];
    list[i] = list[j];
    list[j] = t;
  }
}

static inline int et_compare(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* The experts of one layer for one token. cumulated: sums of 1 / rank. */
static inline void et_draw(uint64_t *state, const double *cumulated, const int32_t *by_rank, const et_shape *s, int32_t *out) {
  for (int n = 0; n < s->n_used;) {
    double u = et_uniform(state) * cumulated[s->n_expert - 1];
    int lo = 0, hi = s->n_expert - 1;
    while (lo < hi) {
      int mid = (lo + hi) / 2;
      if (cumulated[mid] > u) hi = mid;
      else lo = mid + 1;
    }
    bool known = false;
    for (int i = 0; i < n; i++) known |= out[i] == by_rank[lo];
    if (!known) out[n++] = by_rank[lo];
  }
  qsort(out, (size_t)s->n_used, sizeof *out, et_compare);
}

static inline void et_swap_ranks(uint64_t *state, int32_t *by_rank, int n_expert, double swaps) {
  for (double left = swaps; left > 0; left--) {
    if (left < 1 && et_uniform(state) >= left) break;
    int a = et_below(state, n_expert), b = et_below(state, n_expert);
    int32_t t = by_rank[a];
    by_rank[a] = by_rank[b];
    by_rank[b] = t;
  }
}

/* Two traces of one kind that follow each other, n_token tokens each: the earlier one is what a prior may be learned from. */
static inline void et_make(et_trace out[2], et_kind kind, const et_shape *s, uint64_t seed) {
  size_t n_layer = (size_t)s->n_layer, n_expert = (size_t)s->n_expert;
  int32_t *ranks[2];
  double *cumulated = malloc(n_expert * sizeof *cumulated), sum = 0;
  for (int i = 0; i < s->n_expert; i++) cumulated[i] = sum += 1.0 / (i + 1);
  for (int topic = 0; topic < 2; topic++) {
    ranks[topic] = malloc(n_layer * n_expert * sizeof **ranks);
    for (int l = 0; l < s->n_layer; l++) et_shuffle(&seed, ranks[topic] + (size_t)l * n_expert, s->n_expert);
  }
  for (int part = 0; part < 2; part++) {
    et_trace *t = &out[part];
    *t = (et_trace){s->n_layer, s->n_expert, 0, malloc((size_t)s->n_token * n_layer * (size_t)s->n_used * sizeof(int32_t))};
    for (int token = 0; token < s->n_token; token++) {
      int topic = kind == ET_ALTERNATING ? token / s->period % 2 : 0;
      for (int l = 0; l < s->n_layer; l++) {
        int32_t *by_rank = ranks[topic] + (size_t)l * n_expert;
        if (kind == ET_DRIFTING) et_swap_ranks(&seed, by_rank, s->n_expert, s->swaps);
        et_draw(&seed, cumulated, by_rank, s, t->keys + t->n);
        for (int i = 0; i < s->n_used; i++) t->keys[t->n++] += l * s->n_expert;
      }
    }
  }
  free(cumulated);
  free(ranks[0]);
  free(ranks[1]);
}

static inline void et_free(et_trace *t) {
  free(t->keys);
  t->keys = NULL;
}

static inline int64_t et_n_key(const et_trace *t) { return (int64_t)t->n_layer * t->n_expert; }

/* How often each key occurs: what a usage file would know of this trace. */
static inline void et_count(const et_trace *t, float *out) {
  for (int64_t i = 0; i < et_n_key(t); i++) out[i] = 0;
  for (int64_t i = 0; i < t->n; i++) out[t->keys[i]]++;
}

/* The end of the step that begins at i: the keys of one layer, ascending. */
static inline int64_t et_step_end(const et_trace *t, int64_t i) {
  int64_t end = i + 1;
  while (end < t->n && t->keys[end] > t->keys[end - 1] && t->keys[end] / t->n_expert == t->keys[i] / t->n_expert) end++;
  return end;
}

/* Hits of a policy: a step holds its keys until it ends, as leases do; where slots run out it lets go of what it has had. -1: no memory. */
static inline int64_t et_replay(const et_trace *t, ij_policy_kind kind, int64_t n_slot, const float *prior) {
  ij_policy *p;
  if (ij__policy_open(&p, kind, et_n_key(t), n_slot, prior, NULL) != IJ_OK) return -1;
  int64_t n_hit = 0;
  for (int64_t i = 0, end; i < t->n; i = end) {
    int64_t held = i;
    end = et_step_end(t, i);
    for (int64_t j = i; j < end; j++) {
      int64_t key = t->keys[j], slot = ij__policy_find(p, key);
      n_hit += slot >= 0;
      ij__policy_touch(p, key);
      if (slot < 0) slot = ij__policy_take(p, key, false, NULL);
      if (slot < 0) {
        for (; held < j; held++) ij__policy_unhold(p, ij__policy_find(p, t->keys[held]));
        slot = ij__policy_take(p, key, false, NULL);
      }
      ij__policy_hold(p, slot);
    }
    for (; held < end; held++) ij__policy_unhold(p, ij__policy_find(p, t->keys[held]));
  }
  ij__policy_close(&p);
  return n_hit;
}

/* ------------------------------------------------------------------------------------------------------ the best there is */

/* A heap of keys by the time of their next use, the latest first. Entries are not taken back: one whose time is past is skipped. */
typedef struct et_heap {
  int64_t *next;
  int32_t *key;
  int64_t n;
} et_heap;

static inline void et_push(et_heap *h, int64_t next, int32_t key) {
  int64_t at = h->n++;
  for (; at > 0 && h->next[(at - 1) / 2] < next; at = (at - 1) / 2) {
    h->next[at] = h->next[(at - 1) / 2];
    h->key[at] = h->key[(at - 1) / 2];
  }
  h->next[at] = next;
  h->key[at] = key;
}

static inline int32_t et_pop(et_heap *h, int64_t *next) {
  int32_t top = h->key[0], key = h->key[--h->n];
  int64_t value = h->next[h->n], at = 0;
  *next = h->next[0];
  for (int64_t child; (child = 2 * at + 1) < h->n; at = child) {
    if (child + 1 < h->n && h->next[child + 1] > h->next[child]) child++;
    if (h->next[child] <= value) break;
    h->next[at] = h->next[child];
    h->key[at] = h->key[child];
  }
  h->next[at] = value;
  h->key[at] = key;
  return top;
}

/* Hits of Belady's optimum: whatever is used latest in the future goes. It holds nothing during a step, which only makes it better. */
static inline int64_t et_belady(const et_trace *t, int64_t n_slot) {
  size_t n = (size_t)t->n, n_key = (size_t)et_n_key(t);
  int64_t *next = malloc(n * sizeof *next), *due = malloc(n_key * sizeof *due), n_hit = 0, n_in = 0;
  bool *in = calloc(n_key, 1);
  et_heap h = {malloc(n * sizeof(int64_t)), malloc(n * sizeof(int32_t)), 0};
  for (size_t k = 0; k < n_key; k++) due[k] = INT64_MAX;
  for (size_t i = n; i-- > 0; due[t->keys[i]] = (int64_t)i) next[i] = due[t->keys[i]];
  for (size_t i = 0; i < n; i++) {
    int32_t key = t->keys[i];
    if (in[key]) {
      n_hit++;
    } else {
      for (int64_t when; n_in == n_slot;) {
        int32_t out = et_pop(&h, &when);
        if (!in[out] || due[out] != when) continue;
        in[out] = false;
        n_in--;
      }
      in[key] = true;
      n_in++;
    }
    due[key] = next[i];
    et_push(&h, next[i], key);
  }
  free(next);
  free(due);
  free(in);
  free(h.next);
  free(h.key);
  return n_hit;
}

#endif
