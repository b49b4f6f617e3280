/* lazy.c: locals of lazy.h: sets of states, made when first visited and kept. */
#include "grammar/lazy.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"

bool ij__u32s_push(ij_u32s *v, uint32_t x) {
  if (v->n == v->cap) {
    uint32_t cap = v->cap ? 2 * v->cap : 64;
    uint32_t *at = ij__realloc(v->at, cap * sizeof *at);
    if (!at) return false;
    v->at = at;
    v->cap = cap;
  }
  v->at[v->n++] = x;
  return true;
}

static void push(ij_grammar *g, ij_u32s *v, uint32_t x) {
  if (!ij__u32s_push(v, x)) g->no_memory = true;
}

bool ij__lazy_open(ij_grammar *g) {
  g->n_buckets = 256;
  g->buckets = ij__alloc_array(g->n_buckets, sizeof *g->buckets);
  g->rule_start = ij__alloc_array(IJ_MAX(g->nfa.n_rules, 1u), sizeof *g->rule_start);
  g->mark = ij__alloc_zero(g->nfa.n_states, sizeof *g->mark);
  if (!g->buckets || !g->rule_start || !g->mark) return false;
  memset(g->buckets, 0xFF, g->n_buckets * sizeof *g->buckets);
  memset(g->rule_start, 0xFF, g->nfa.n_rules * sizeof *g->rule_start);
  return true;
}

void ij__lazy_close(ij_grammar *g) {
  ij_u32s *lists[] = {&g->members, &g->set, &g->stack, &g->targets, &g->edge_lo, &g->edge_hi, &g->edge_to};
  for (uint32_t i = 0; i < g->n_locals; i++) {
    ij__free(g->locals[i].row);
    ij__base_free(g->locals[i].base);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(lists); i++) ij__free(lists[i]->at);
  ij__free(g->locals);
  ij__free(g->calls);
  ij__free(g->buckets);
  ij__free(g->rule_start);
  ij__free(g->mark);
  ij__nfa_free(&g->nfa);
}

/* ------------------------------------------------------------------------------------------------------------- closures */

static bool matters(const ij_nfa *a, uint32_t s) {
  if (a->is_end[s]) return true;
  for (uint32_t i = a->first[s]; i != IJ_NONE; i = a->edges[i].next) {
    if (a->edges[i].kind != IJ_EDGE_EMPTY) return true;
  }
  return false;
}

/* Adds a state, and what empty edges lead to, to g->set. Virtual states stand for themselves. */
static void close_over(ij_grammar *g, uint32_t seed) {
  const ij_nfa *a = &g->nfa;
  if (seed >= a->n_states) {
    push(g, &g->set, seed);
    return;
  }
  if (g->mark[seed] == g->epoch) return;
  g->mark[seed] = g->epoch;
  g->stack.n = 0;
  push(g, &g->stack, seed);
  while (g->stack.n) {
    uint32_t s = g->stack.at[--g->stack.n];
    if (matters(a, s)) push(g, &g->set, s);
    for (uint32_t i = a->first[s]; i != IJ_NONE; i = a->edges[i].next) {
      uint32_t t = a->edges[i].target;
      if (a->edges[i].kind != IJ_EDGE_EMPTY || g->mark[t] == g->epoch) continue;
      g->mark[t] = g->epoch;
      push(g, &g->stack, t);
    }
  }
}

static void begin_set(ij_grammar *g) {
  g->set.n = 0;
  if (++g->epoch == 0) {
    memset(g->mark, 0, g->nfa.n_states * sizeof *g->mark);
    g->epoch = 1;
  }
}

static int compare_u32(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return (a > b) - (a < b);
}

static const ij_edge *virtual_edge(const ij_nfa *a, uint32_t v, uint32_t *class_state) {
  uint32_t lo = 0, hi = a->n_class_edge;
  while (hi - lo > 1) {
    uint32_t m = (lo + hi) / 2;
    if (a->edges[a->class_edge[m]].first_virtual <= v) lo = m;
    else hi = m;
  }
  const ij_edge *e = &a->edges[a->class_edge[lo]];
  *class_state = v - e->first_virtual + 1;
  return e;
}

static void add_call(ij_grammar *g, const ij_edge *e) {
  if (g->n_calls == g->cap_calls) {
    uint32_t cap = g->cap_calls ? 2 * g->cap_calls : 32;
    ij_call *calls = ij__realloc(g->calls, cap * sizeof *calls);
    if (!calls) {
      g->no_memory = true;
      return;
    }
    g->calls = calls;
    g->cap_calls = cap;
  }
  g->calls[g->n_calls++] = (ij_call){e->arg, e->target, IJ_NONE};
}

static void describe(ij_grammar *g, ij_local *l) {
  const ij_nfa *a = &g->nfa;
  l->min_bytes = IJ_NONE;
  l->height = 0xFFFF;
  l->first_call = g->n_calls;
  for (uint32_t i = 0; i < l->n_members; i++) {
    uint32_t s = g->members.at[l->first_member + i], bytes, class_state;
    if (s >= a->n_states) {
      const ij_edge *e = virtual_edge(a, s, &class_state);
      bytes = a->min_bytes[e->target] + a->classes[e->arg].states[class_state].min_bytes;
      s = e->target;
      l->has_bytes = true;
    } else {
      bytes = a->min_bytes[s];
      if (a->run[s] > l->run) l->run = a->run[s], l->run_class = a->run_class[s];
      if (a->is_end[s]) l->accept = true;
      for (uint32_t k = a->first[s]; k != IJ_NONE; k = a->edges[k].next) {
        if (a->edges[k].kind == IJ_EDGE_CALL) add_call(g, &a->edges[k]);
        if (a->edges[k].kind == IJ_EDGE_BYTES || a->edges[k].kind == IJ_EDGE_CLASS) l->has_bytes = true;
      }
    }
    l->min_bytes = IJ_MIN(l->min_bytes, bytes);
    l->height = IJ_MIN(l->height, a->height[s]);
  }
  l->n_calls = g->n_calls - l->first_call;
  l->tail = l->accept && l->n_calls == 0 && !l->has_bytes;
}

static bool grow_locals(ij_grammar *g) {
  uint32_t cap = g->cap_locals ? 2 * g->cap_locals : 64;
  ij_local *locals = ij__realloc(g->locals, cap * sizeof *locals);
  if (!locals) return false;
  g->locals = locals;
  g->cap_locals = cap;
  if (cap <= g->n_buckets) return true;
  uint32_t *buckets = ij__alloc_array((size_t)cap * 2, sizeof *buckets);
  if (!buckets) return true; /* longer chains, nothing worse */
  ij__free(g->buckets);
  g->buckets = buckets;
  g->n_buckets = cap * 2;
  memset(buckets, 0xFF, g->n_buckets * sizeof *buckets);
  for (uint32_t i = 0; i < g->n_locals; i++) {
    uint32_t *head = &buckets[locals[i].hash & (g->n_buckets - 1)];
    locals[i].next_hash = *head;
    *head = i;
  }
  return true;
}

/* The local of g->set; IJ_NONE for the empty set, or when memory ran out. */
static uint32_t intern(ij_grammar *g) {
  ij_u32s *set = &g->set;
  if (set->n == 0 || g->no_memory) return IJ_NONE;
  qsort(set->at, set->n, sizeof *set->at, compare_u32);
  uint32_t n = 0, hash = 2166136261u;
  for (uint32_t i = 0; i < set->n; i++) {
    if (n && set->at[n - 1] == set->at[i]) continue;
    set->at[n++] = set->at[i];
    hash = (hash ^ set->at[i]) * 16777619u;
    hash ^= hash >> 15;
  }
  for (uint32_t i = g->buckets[hash & (g->n_buckets - 1)]; i != IJ_NONE; i = g->locals[i].next_hash) {
    const ij_local *l = &g->locals[i];
    if (l->hash == hash && l->n_members == n && memcmp(g->members.at + l->first_member, set->at, n * sizeof *set->at) == 0) return i;
  }
  if (g->n_locals == g->cap_locals && !grow_locals(g)) g->no_memory = true;
  ij_local l = {.first_member = g->members.n, .n_members = n, .hash = hash};
  for (uint32_t i = 0; i < n; i++) push(g, &g->members, set->at[i]);
  if (g->no_memory) return IJ_NONE;
  describe(g, &l);
  if (g->no_memory) return IJ_NONE;
  uint32_t *head = &g->buckets[hash & (g->n_buckets - 1)];
  l.next_hash = *head;
  *head = g->n_locals;
  g->locals[g->n_locals] = l;
  return g->n_locals++;
}

/* ----------------------------------------------------------------------------------------------------------------- rows */

static void add_edge_out(ij_grammar *g, unsigned lo, unsigned hi, uint32_t to) {
  push(g, &g->edge_lo, g->nfa.byte_class[lo]);
  push(g, &g->edge_hi, g->nfa.byte_class[hi]);
  push(g, &g->edge_to, to);
}

static void add_class_edges(ij_grammar *g, const ij_edge *e, uint32_t class_state) {
  const ij_class *c = &g->nfa.classes[e->arg];
  const ij_class_state *s = &c->states[class_state];
  for (uint32_t i = 0; i < s->n; i++) {
    ij_class_edge ce = c->edges[s->first + i];
    add_edge_out(g, ce.lo, ce.hi, ce.target == IJ_CLASS_DONE ? e->target : e->first_virtual + ce.target - 1);
  }
}

static void collect_edges(ij_grammar *g, const ij_local *l) {
  const ij_nfa *a = &g->nfa;
  g->edge_lo.n = g->edge_hi.n = g->edge_to.n = 0;
  for (uint32_t i = 0; i < l->n_members; i++) {
    uint32_t s = g->members.at[l->first_member + i], class_state;
    if (s >= a->n_states) {
      const ij_edge *e = virtual_edge(a, s, &class_state);
      add_class_edges(g, e, class_state);
      continue;
    }
    for (uint32_t k = a->first[s]; k != IJ_NONE; k = a->edges[k].next) {
      const ij_edge *e = &a->edges[k];
      if (e->kind == IJ_EDGE_BYTES) add_edge_out(g, e->lo, e->hi, e->target);
      if (e->kind == IJ_EDGE_CLASS) add_class_edges(g, e, 0);
    }
  }
}

/* Targets by byte class, as lists in `targets` from offsets[k] to offsets[k + 1]. */
static void sort_targets(ij_grammar *g, uint32_t *offsets) {
  uint32_t n_class = g->nfa.n_byte_class, total = 0;
  for (uint32_t i = 0; i < g->edge_to.n; i++) {
    for (uint32_t k = g->edge_lo.at[i]; k <= g->edge_hi.at[i]; k++) offsets[k + 1]++;
  }
  for (uint32_t k = 0; k < n_class; k++) offsets[k + 1] += offsets[k];
  total = offsets[n_class];
  g->targets.n = 0;
  for (uint32_t i = 0; i < total; i++) push(g, &g->targets, 0);
  if (g->no_memory) return;
  uint32_t fill[256];
  memcpy(fill, offsets, n_class * sizeof *fill);
  for (uint32_t i = 0; i < g->edge_to.n; i++) {
    for (uint32_t k = g->edge_lo.at[i]; k <= g->edge_hi.at[i]; k++) g->targets.at[fill[k]++] = g->edge_to.at[i];
  }
}

const uint32_t *ij__local_row(ij_grammar *g, uint32_t local) {
  if (g->locals[local].row) return g->locals[local].row;
  uint32_t n_class = g->nfa.n_byte_class, offsets[257] = {0};
  g->no_memory = false;
  uint32_t *row = ij__alloc_array(n_class, sizeof *row);
  if (!row) g->no_memory = true;
  collect_edges(g, &g->locals[local]);
  if (!g->no_memory) sort_targets(g, offsets);
  for (uint32_t k = 0; k < n_class && !g->no_memory; k++) {
    uint32_t n = offsets[k + 1] - offsets[k], before = k ? offsets[k] - offsets[k - 1] : 0;
    const uint32_t *list = g->targets.at + offsets[k];
    if (k && n == before && (n == 0 || memcmp(list, g->targets.at + offsets[k - 1], n * sizeof *list) == 0)) {
      row[k] = row[k - 1];
      continue;
    }
    begin_set(g);
    for (uint32_t i = 0; i < n; i++) close_over(g, list[i]);
    row[k] = intern(g);
  }
  if (g->no_memory) {
    ij__free(row);
    return NULL;
  }
  g->locals[local].row = row;
  return row;
}

static uint32_t local_of_state(ij_grammar *g, uint32_t s) {
  g->no_memory = false;
  begin_set(g);
  close_over(g, s);
  return intern(g);
}

/* A state, or a place inside a class edge, as seen by ij__nfa_chain's alias. */
static uint32_t alias_of(const ij_nfa *a, uint32_t s) {
  uint32_t class_state;
  if (s < a->n_states) return a->alias[s];
  const ij_edge *e = virtual_edge(a, s, &class_state);
  if (a->alias[e->source] == e->source) return s;
  for (uint32_t i = a->first[a->alias[e->source]]; i != IJ_NONE; i = a->edges[i].next) {
    if (a->edges[i].kind == IJ_EDGE_CLASS && a->edges[i].arg == e->arg) return a->edges[i].first_virtual + class_state - 1;
  }
  return s;
}

uint32_t ij__local_alias(ij_grammar *g, uint32_t local) {
  const ij_local *l = &g->locals[local];
  bool differs = false;
  g->no_memory = false;
  begin_set(g);
  for (uint32_t i = 0; i < l->n_members; i++) {
    uint32_t s = g->members.at[l->first_member + i], t = alias_of(&g->nfa, s);
    differs |= s != t;
    push(g, &g->set, t);
  }
  return differs ? intern(g) : local;
}

/* ----------------------------------------------------------------------------------------------------------------- runs */

bool ij__groups_push(ij_groups *v, ij_group x) {
  if (v->n == v->cap) {
    uint32_t cap = v->cap ? 2 * v->cap : 64;
    ij_group *at = ij__realloc(v->at, cap * sizeof *at);
    if (!at) return false;
    v->at = at;
    v->cap = cap;
  }
  v->at[v->n++] = x;
  return true;
}

bool ij__run_open(ij_run *r) {
  *r = (ij_run){.cap_frames = 64};
  r->frames = ij__alloc_array(r->cap_frames, sizeof *r->frames);
  if (!r->frames) return false;
  r->frames[0] = (ij_frame){.parent = IJ_NONE, .ret = IJ_NONE};
  r->n_frames = 1;
  memset(r->buckets, 0xFF, sizeof r->buckets);
  return true;
}

void ij__run_close(ij_run *r) {
  ij__free(r->frames);
  *r = (ij_run){0};
}

/* Newest frames head their buckets, so taking them off in reverse leaves the table as it was. */
void ij__run_truncate(ij_run *r, uint32_t n_frames) {
  while (r->n_frames > n_frames) {
    const ij_frame *f = &r->frames[--r->n_frames];
    r->buckets[f->bucket] = f->next_hash;
  }
}

static uint32_t frame_hash(const ij_grammar *g, uint32_t ret, uint32_t parent) {
  uint32_t hash = (uint32_t)((uintptr_t)g >> 6) * 0x9E3779B1u + ret * 0x85EBCA6Bu + parent * 0xC2B2AE35u;
  return (hash ^ hash >> 15) & (IJ_FRAME_BUCKETS - 1);
}

static uint32_t push_frame(ij_run *r, ij_grammar *g, uint32_t ret, uint32_t parent) {
  uint32_t bucket = frame_hash(g, ret, parent);
  for (uint32_t i = r->buckets[bucket]; i != IJ_NONE; i = r->frames[i].next_hash) {
    if (r->frames[i].ret == ret && r->frames[i].parent == parent && r->frames[i].g == g) return i;
  }
  if (r->n_frames == r->cap_frames) {
    ij_frame *frames = ij__realloc(r->frames, 2 * r->cap_frames * sizeof *frames);
    if (!frames) {
      r->failed = true;
      return 0;
    }
    r->frames = frames;
    r->cap_frames *= 2;
  }
  r->frames[r->n_frames] = (ij_frame){g, ret, parent, r->frames[parent].depth + 1, r->buckets[bucket], bucket};
  r->buckets[bucket] = r->n_frames;
  return r->n_frames++;
}

void ij__run_compact(ij_run *r, ij_group *groups, uint32_t n) {
  uint32_t *moved = ij__alloc_zero(r->n_frames, sizeof *moved), kept = 1;
  if (!moved) return; /* it stays as it is */
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t s = groups[i].stack; s != 0 && !moved[s]; s = r->frames[s].parent) moved[s] = 1;
  }
  memset(r->buckets, 0xFF, sizeof r->buckets);
  for (uint32_t i = 1; i < r->n_frames; i++) { /* parents come before children */
    if (!moved[i]) continue;
    ij_frame f = r->frames[i];
    uint32_t hash = frame_hash(f.g, f.ret, moved[f.parent]);
    moved[i] = kept;
    r->frames[kept] = (ij_frame){f.g, f.ret, moved[f.parent], f.depth, r->buckets[hash], hash};
    r->buckets[hash] = kept++;
  }
  r->n_frames = kept;
  for (uint32_t i = 0; i < n; i++) groups[i].stack = moved[groups[i].stack];
  ij__free(moved);
}

typedef struct expansion {
  ij_run *r;
  ij_groups *out;
  uint32_t base;
  bool *complete;
} expansion;

static bool seen(const expansion *x, const ij_grammar *g, uint32_t local, uint32_t stack) {
  for (uint32_t i = x->base; i < x->out->n; i++) {
    const ij_group *o = &x->out->at[i];
    if (o->local == local && o->stack == stack && o->g == g) return true;
  }
  return x->out->n - x->base >= IJ_MAX_GROUPS;
}

/* Adds a group and everything that can be reached from it without a byte. A group that could not end within the allowed depth is left
 * out, so those that are in can. */
static void expand(expansion *x, ij_grammar *g, uint32_t local, uint32_t stack) {
  ij_run *r = x->r;
  if (local == IJ_NONE) r->failed = true;
  if (r->failed || r->frames[stack].depth + g->locals[local].height > IJ_MAX_DEPTH || seen(x, g, local, stack)) return;
  if (!ij__groups_push(x->out, (ij_group){g, local, stack})) r->failed = true;
  uint32_t first = g->locals[local].first_call, n = g->locals[local].n_calls;
  for (uint32_t i = first; i < first + n && !r->failed; i++) {
    uint32_t rule = g->calls[i].rule, ret = g->calls[i].ret_local, below = stack;
    ij_grammar *callee = g;
    if (rule >= IJ_EXTERN) {
      callee = g->nfa.externs[rule - IJ_EXTERN].g;
      rule = g->nfa.externs[rule - IJ_EXTERN].rule;
    }
    if (ret == IJ_NONE) {
      ret = local_of_state(g, g->calls[i].ret_state); /* may move the calls */
      g->calls[i].ret_local = ret;
    }
    if (callee->rule_start[rule] == IJ_NONE) callee->rule_start[rule] = local_of_state(callee, callee->nfa.rules[rule].start);
    if (ret == IJ_NONE) {
      r->failed = true;
      return;
    }
    if (!g->locals[ret].tail) {
      if (r->frames[stack].depth + g->locals[ret].height > IJ_MAX_DEPTH) continue;
      below = push_frame(r, g, ret, stack);
    }
    expand(x, callee, callee->rule_start[rule], below);
  }
  if (r->failed || !g->locals[local].accept) return;
  if (stack == 0) *x->complete = true;
  else expand(x, r->frames[stack].g, r->frames[stack].ret, r->frames[stack].parent);
}

/* Groups that read no byte themselves have done their work. */
static void keep_readers(ij_groups *v, uint32_t base) {
  uint32_t n = base;
  for (uint32_t i = base; i < v->n; i++) {
    if (v->at[i].g->locals[v->at[i].local].has_bytes) v->at[n++] = v->at[i];
  }
  v->n = n;
}

void ij__run_start(ij_run *r, ij_groups *out, ij_grammar *g, uint32_t rule, bool *complete) {
  expansion x = {r, out, out->n, complete};
  if (g->rule_start[rule] == IJ_NONE) g->rule_start[rule] = local_of_state(g, g->nfa.rules[rule].start);
  expand(&x, g, g->rule_start[rule], 0);
  keep_readers(out, x.base);
}

void ij__run_step(ij_run *r, ij_groups *io, uint32_t first, uint32_t n, uint8_t byte, bool *complete) {
  expansion x = {r, io, io->n, complete};
  for (uint32_t i = first; i < first + n; i++) {
    ij_group o = io->at[i];
    const uint32_t *row = ij__local_row(o.g, o.local);
    if (!row) {
      r->failed = true;
      return;
    }
    uint32_t next = row[o.g->nfa.byte_class[byte]];
    if (next != IJ_NONE) expand(&x, o.g, next, o.stack);
  }
  keep_readers(io, x.base);
}

void ij__run_pop(ij_run *r, ij_groups *out, uint32_t stack, bool *complete) {
  expansion x = {r, out, out->n, complete};
  expand(&x, r->frames[stack].g, r->frames[stack].ret, r->frames[stack].parent);
  keep_readers(out, x.base);
}

uint32_t ij__run_distance(const ij_run *r, const ij_group *group) {
  uint64_t n = group->g->locals[group->local].min_bytes;
  for (uint32_t s = group->stack; s != 0; s = r->frames[s].parent) n += r->frames[s].g->locals[r->frames[s].ret].min_bytes;
  return n >= IJ_NONE ? IJ_NONE : (uint32_t)n;
}
