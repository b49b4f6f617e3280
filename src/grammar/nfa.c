/* nfa.c: building the automaton of nfa.h, apart from classes (nfa_class.c) and analysis (nfa_finish.c). */
#include "grammar/nfa.h"

#include <string.h>

#include "core/alloc.h"

void ij__nfa_free(ij_nfa *a) {
  for (uint32_t i = 0; i < a->n_classes; i++) {
    ij__charset_free(&a->classes[i].set);
    ij__free(a->classes[i].states);
    ij__free(a->classes[i].edges);
  }
  ij__free(a->first);
  ij__free(a->alias);
  ij__free(a->is_end);
  ij__free(a->edges);
  ij__free(a->classes);
  ij__free(a->rules);
  ij__free(a->externs);
  ij__free(a->class_edge);
  ij__free(a->min_bytes);
  ij__free(a->height);
  ij__free(a->run);
  ij__free(a->run_class);
  *a = (ij_nfa){0};
}

static bool grow_states(ij_nfa *a) {
  uint32_t cap = a->cap_states ? 2 * a->cap_states : 64;
  uint32_t *first = ij__realloc(a->first, cap * sizeof *first);
  if (first) a->first = first;
  uint32_t *alias = ij__realloc(a->alias, cap * sizeof *alias);
  if (alias) a->alias = alias;
  uint8_t *is_end = ij__realloc(a->is_end, cap);
  if (is_end) a->is_end = is_end;
  if (!first || !alias || !is_end) return false;
  a->cap_states = cap;
  return true;
}

/* State 0 always exists, so that callers may go on after a failure and check once at the end. */
uint32_t ij__nfa_state(ij_nfa *a) {
  if (a->n_states >= IJ_NFA_MAX_STATES) a->too_large = true;
  if (a->too_large || a->no_memory) return 0;
  if (a->n_states == a->cap_states && !grow_states(a)) {
    a->no_memory = true;
    return 0;
  }
  uint32_t s = a->n_states++;
  a->first[s] = IJ_NONE;
  a->alias[s] = s;
  a->is_end[s] = 0;
  return s;
}

uint32_t ij__nfa_rule(ij_nfa *a) {
  uint32_t start = ij__nfa_state(a), end = ij__nfa_state(a);
  if (a->too_large || a->no_memory) return 0;
  if (a->n_rules == a->cap_rules) {
    uint32_t cap = a->cap_rules ? 2 * a->cap_rules : 32;
    ij_rule *rules = ij__realloc(a->rules, cap * sizeof *rules);
    if (!rules) {
      a->no_memory = true;
      return 0;
    }
    a->rules = rules;
    a->cap_rules = cap;
  }
  a->is_end[end] = 1;
  a->rules[a->n_rules] = (ij_rule){start, end};
  return a->n_rules++;
}

uint32_t ij__nfa_extern(ij_nfa *a, ij_extern e) {
  if (a->n_externs == a->cap_externs) {
    uint32_t cap = a->cap_externs ? 2 * a->cap_externs : 8;
    ij_extern *externs = ij__realloc(a->externs, cap * sizeof *externs);
    if (!externs) {
      a->no_memory = true;
      return IJ_EXTERN;
    }
    a->externs = externs;
    a->cap_externs = cap;
  }
  a->externs[a->n_externs] = e;
  return IJ_EXTERN + a->n_externs++;
}

static void add_edge(ij_nfa *a, ij_edge e) {
  if (a->n_edges >= IJ_NFA_MAX_EDGES) a->too_large = true;
  if (a->too_large || a->no_memory) return;
  if (a->n_edges == a->cap_edges) {
    uint32_t cap = a->cap_edges ? 2 * a->cap_edges : 128;
    ij_edge *edges = ij__realloc(a->edges, cap * sizeof *edges);
    if (!edges) {
      a->no_memory = true;
      return;
    }
    a->edges = edges;
    a->cap_edges = cap;
  }
  e.next = a->first[e.source];
  a->first[e.source] = a->n_edges;
  a->edges[a->n_edges++] = e;
}

void ij__nfa_empty(ij_nfa *a, uint32_t from, uint32_t to) {
  add_edge(a, (ij_edge){.source = from, .target = to, .kind = IJ_EDGE_EMPTY});
}

void ij__nfa_bytes(ij_nfa *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to) {
  add_edge(a, (ij_edge){.source = from, .target = to, .kind = IJ_EDGE_BYTES, .lo = lo, .hi = hi});
}

void ij__nfa_call(ij_nfa *a, uint32_t from, uint32_t rule, uint32_t to) {
  add_edge(a, (ij_edge){.source = from, .target = to, .kind = IJ_EDGE_CALL, .arg = rule});
}

void ij__nfa_class(ij_nfa *a, uint32_t from, uint32_t class_index, uint32_t to) {
  add_edge(a, (ij_edge){.source = from, .target = to, .kind = IJ_EDGE_CLASS, .arg = class_index});
}

void ij__nfa_text(ij_nfa *a, uint32_t from, const char *bytes, size_t n, uint32_t to) {
  if (n == 0) ij__nfa_empty(a, from, to);
  for (size_t i = 0; i < n; i++) {
    uint32_t next = i + 1 == n ? to : ij__nfa_state(a);
    ij__nfa_bytes(a, from, (uint8_t)bytes[i], (uint8_t)bytes[i], next);
    from = next;
  }
}

/* State i has read i characters. Within one token only the distances to min and to max matter, and only up to `reach`. */
static uint32_t chain_alias(uint32_t i, uint32_t min, uint32_t max, uint32_t reach) {
  if (i < min) return min - i > reach ? min - reach : i;
  return max - i > reach ? IJ_MAX(min, max - reach) : i;
}

void ij__nfa_chain(ij_nfa *a, uint32_t from, uint32_t class_index, uint32_t min, uint32_t max, uint32_t reach, uint32_t to) {
  uint32_t last = max == IJ_NONE ? min : max, first = a->n_states;
  if (last >= IJ_NFA_MAX_STATES) {
    a->too_large = true;
    return;
  }
  for (uint32_t i = 0; i <= last; i++) ij__nfa_state(a);
  if (a->too_large || a->no_memory) return;
  ij__nfa_empty(a, from, first);
  for (uint32_t i = 0; i <= last; i++) {
    if (i < last) ij__nfa_class(a, first + i, class_index, first + i + 1);
    if (i >= min) ij__nfa_empty(a, first + i, to);
    if (max != IJ_NONE) a->alias[first + i] = first + chain_alias(i, min, max, reach);
    else if (i < min && min - i > reach) a->alias[first + i] = first + min - reach;
  }
  if (max == IJ_NONE) ij__nfa_class(a, first + last, class_index, first + last);
}
