/* nfa_finish.c: what must be known before an automaton runs: that every state kept can reach an end, and how far that is.
 *
 * Distances (bytes) and heights (frames) are least fixed points over edges read backwards; a work list finds both, since every value
 * only falls. An edge into a state without distance is dead. With dead edges gone, no walk can get stuck.
 */
#include <string.h>

#include "core/alloc.h"
#include "grammar/nfa.h"

enum { MAX_LEFT_CALLS = 200 }; /* rules that call each other before the first byte: the recursion of a running grammar */
#define TOO_LONG (IJ_NONE - 1) /* a distance that ends, but is more than can be counted */

typedef struct finisher {
  ij_nfa *a;
  uint32_t *first_in, *next_in;     /* edges by target */
  uint32_t *first_call, *next_call; /* call edges by rule */
  uint32_t *queue;                  /* ring of states whose value fell */
  uint8_t *queued;
  uint32_t head, n;
} finisher;

static uint32_t add_bounded(uint32_t x, uint32_t y) {
  if (x == IJ_NONE || y == IJ_NONE) return IJ_NONE;
  return x >= TOO_LONG - y ? TOO_LONG : x + y;
}

static void enqueue(finisher *f, uint32_t s) {
  if (f->queued[s]) return;
  f->queued[s] = 1;
  f->queue[(f->head + f->n++) % f->a->n_states] = s;
}

static uint32_t edge_bytes(const ij_nfa *a, const ij_edge *e) {
  switch (e->kind) {
    case IJ_EDGE_EMPTY: return 0;
    case IJ_EDGE_BYTES: return e->lo <= e->hi ? 1 : IJ_NONE;
    case IJ_EDGE_CLASS: return a->classes[e->arg].states[0].min_bytes;
    case IJ_EDGE_CALL: return e->arg >= IJ_EXTERN ? a->externs[e->arg - IJ_EXTERN].min_bytes : a->min_bytes[a->rules[e->arg].start];
    default: return IJ_NONE;
  }
}

static uint32_t edge_height(const ij_nfa *a, const ij_edge *e) {
  if (e->kind != IJ_EDGE_CALL) return 0;
  uint32_t inner = e->arg >= IJ_EXTERN ? a->externs[e->arg - IJ_EXTERN].height : a->height[a->rules[e->arg].start];
  return IJ_MIN(inner + 1, 0xFFFFu);
}

/* Lowers the value at an edge's source when the edge offers less. */
static void relax(finisher *f, const ij_edge *e, bool heights) {
  ij_nfa *a = f->a;
  if (heights) {
    if (e->kind == IJ_EDGE_DEAD) return;
    uint32_t h = IJ_MAX(edge_height(a, e), a->height[e->target]);
    if (h >= a->height[e->source]) return;
    a->height[e->source] = (uint16_t)h;
  } else {
    uint32_t d = add_bounded(edge_bytes(a, e), a->min_bytes[e->target]);
    if (d >= a->min_bytes[e->source]) return;
    a->min_bytes[e->source] = d;
  }
  enqueue(f, e->source);
}

static void solve(finisher *f, bool heights) {
  ij_nfa *a = f->a;
  for (uint32_t s = 0; s < a->n_states; s++) {
    if (heights) a->height[s] = a->is_end[s] ? 0 : 0xFFFF;
    else a->min_bytes[s] = a->is_end[s] ? 0 : IJ_NONE;
    if (a->is_end[s]) enqueue(f, s);
  }
  while (f->n) {
    uint32_t s = f->queue[f->head];
    f->head = (f->head + 1) % a->n_states;
    f->n--;
    f->queued[s] = 0;
    for (uint32_t e = f->first_in[s]; e != IJ_NONE; e = f->next_in[e]) relax(f, &a->edges[e], heights);
    for (uint32_t e = f->first_call[s]; e != IJ_NONE; e = f->next_call[e]) relax(f, &a->edges[e], heights);
  }
}

static bool open_finisher(finisher *f, ij_nfa *a) {
  size_t n = a->n_states, m = IJ_MAX(a->n_edges, 1u);
  *f = (finisher){.a = a};
  f->first_in = ij__alloc_array(n, sizeof *f->first_in);
  f->first_call = ij__alloc_array(n, sizeof *f->first_call); /* by the rule's start */
  f->next_in = ij__alloc_array(m, sizeof *f->next_in);
  f->next_call = ij__alloc_array(m, sizeof *f->next_call);
  f->queue = ij__alloc_array(n, sizeof *f->queue);
  f->queued = ij__alloc_zero(n, 1);
  a->min_bytes = ij__alloc_array(n, sizeof *a->min_bytes);
  a->height = ij__alloc_array(n, sizeof *a->height);
  if (!f->first_in || !f->first_call || !f->next_in || !f->next_call || !f->queue || !f->queued || !a->min_bytes ||
      !a->height) return false;
  memset(f->first_in, 0xFF, n * sizeof *f->first_in);
  memset(f->first_call, 0xFF, n * sizeof *f->first_call);
  for (uint32_t e = 0; e < a->n_edges; e++) {
    ij_edge *edge = &a->edges[e];
    f->next_in[e] = f->first_in[edge->target];
    f->first_in[edge->target] = e;
    if (edge->kind != IJ_EDGE_CALL || edge->arg >= IJ_EXTERN) continue;
    uint32_t start = a->rules[edge->arg].start;
    f->next_call[e] = f->first_call[start];
    f->first_call[start] = e;
  }
  return true;
}

static void close_finisher(finisher *f) {
  ij__free(f->first_in);
  ij__free(f->first_call);
  ij__free(f->next_in);
  ij__free(f->next_call);
  ij__free(f->queue);
  ij__free(f->queued);
}

/* Nobody waits for a text of 4 GB: ways that are too long are dropped like those without an end, and only the refusal tells them apart. */
static bool forget_long_ways(ij_nfa *a, uint32_t start) {
  bool long_start = a->min_bytes[start] == TOO_LONG;
  for (uint32_t s = 0; s < a->n_states; s++) {
    if (a->min_bytes[s] == TOO_LONG) a->min_bytes[s] = IJ_NONE;
  }
  return long_start;
}

static void drop_dead_edges(ij_nfa *a) {
  for (uint32_t s = 0; s < a->n_states; s++) {
    uint32_t *link = &a->first[s];
    while (*link != IJ_NONE) {
      ij_edge *e = &a->edges[*link];
      if (add_bounded(edge_bytes(a, e), a->min_bytes[e->target]) >= TOO_LONG) {
        e->kind = IJ_EDGE_DEAD;
        *link = e->next;
      } else {
        link = &e->next;
      }
    }
  }
}

static void number_virtual(ij_nfa *a) {
  uint32_t next = a->n_states;
  a->class_edge = ij__alloc_array(IJ_MAX(a->n_edges, 1u), sizeof *a->class_edge);
  if (!a->class_edge) {
    a->no_memory = true;
    return;
  }
  for (uint32_t i = 0; i < a->n_edges; i++) {
    ij_edge *e = &a->edges[i];
    if (e->kind != IJ_EDGE_CLASS) continue;
    uint32_t n = a->classes[e->arg].n_states - 1;
    if (n > IJ_NFA_MAX_VIRTUAL - next) {
      a->too_large = true;
      return;
    }
    e->first_virtual = next;
    if (n) a->class_edge[a->n_class_edge++] = i;
    next += n;
  }
  a->n_virtual = next;
}

static void cut(bool *cuts, unsigned lo, unsigned hi) {
  cuts[lo] = true;
  cuts[hi + 1] = true;
}

/* Bytes that no edge tells apart share a column of the tables in lazy.c. */
static void find_byte_classes(ij_nfa *a) {
  bool cuts[257] = {false};
  for (uint32_t i = 0; i < a->n_edges; i++) {
    if (a->edges[i].kind == IJ_EDGE_BYTES) cut(cuts, a->edges[i].lo, a->edges[i].hi);
  }
  for (uint32_t c = 0; c < a->n_classes; c++) {
    for (uint32_t i = 0; i < a->classes[c].n_edges; i++) cut(cuts, a->classes[c].edges[i].lo, a->classes[c].edges[i].hi);
  }
  unsigned n = 0;
  for (unsigned b = 0; b < 256; b++) {
    if (b && cuts[b]) n++;
    a->byte_class[b] = (uint8_t)n;
  }
  a->n_byte_class = n + 1;
}

/* ---------------------------------------------------------------------------------------------------------------- runs */

/* The class edge of a state that takes ordinary letters, if any. */
static uint32_t letter_edge(const ij_nfa *a, uint32_t s) {
  for (uint32_t i = a->first[s]; i != IJ_NONE; i = a->edges[i].next) {
    if (a->edges[i].kind == IJ_EDGE_CLASS && ij__charset_cover(&a->classes[a->edges[i].arg].set, 'a', 'z') == 2) return i;
  }
  return IJ_NONE;
}

/* Follows letter edges of one class until they end or come back. Each state is on one path, so all are walked once. */
static bool find_runs(ij_nfa *a) {
  enum { UNKNOWN = 254, OPEN = 253, MOST = 252, FOREVER = 255 };
  uint32_t *path = ij__alloc_array(a->n_states, sizeof *path);
  a->run = ij__alloc_array(a->n_states, 1);
  a->run_class = ij__alloc_zero(a->n_states, sizeof *a->run_class);
  bool ok = path && a->run && a->run_class;
  if (ok) memset(a->run, UNKNOWN, a->n_states);
  for (uint32_t s = 0; ok && s < a->n_states; s++) {
    uint32_t n = 0, at = s, edge;
    unsigned run = 0;
    while (a->run[at] == UNKNOWN && (edge = letter_edge(a, at)) != IJ_NONE) {
      a->run[at] = OPEN;
      a->run_class[at] = a->edges[edge].arg;
      path[n++] = at;
      at = a->edges[edge].target;
      if (a->run[at] != UNKNOWN && a->run[at] && a->run_class[at] != a->edges[edge].arg) break;
    }
    if (a->run[at] == UNKNOWN) a->run[at] = 0;
    bool joins = n > 0 && a->run_class[at] == a->run_class[path[n - 1]];
    if (joins) run = a->run[at] == OPEN ? FOREVER : a->run[at];
    while (n > 0) {
      uint32_t p = path[--n];
      if (run != FOREVER) run = IJ_MIN(run + 1, (unsigned)MOST);
      a->run[p] = (uint8_t)run;
      if (n > 0 && a->run_class[path[n - 1]] != a->run_class[p]) run = 0;
    }
  }
  ij__free(path);
  return ok;
}

/* ------------------------------------------------------------------------------------------------------ left recursion */

typedef struct left_walk {
  ij_nfa *a;
  uint32_t *stack, *mark;   /* states reached without reading a byte; mark: the rule that reached it last, + 1 */
  uint32_t *n_out, *level;  /* [n_rules] left calls not yet resolved; the longest chain of them */
  uint32_t *first, *next, *from; /* left calls by callee */
  uint32_t n_calls, cap_calls;
  uint32_t *width;          /* [n_rules] rules that may begin where this one does, itself included */
  bool deep, wide;
} left_walk;

static bool add_left_call(left_walk *w, uint32_t rule, uint32_t callee) {
  if (w->n_calls == w->cap_calls) {
    uint32_t cap = w->cap_calls ? 2 * w->cap_calls : 64;
    uint32_t *next = ij__realloc(w->next, cap * sizeof *next);
    if (next) w->next = next;
    uint32_t *from = ij__realloc(w->from, cap * sizeof *from);
    if (from) w->from = from;
    if (!next || !from) return false;
    w->cap_calls = cap;
  }
  w->from[w->n_calls] = rule;
  w->next[w->n_calls] = w->first[callee];
  w->first[callee] = w->n_calls++;
  w->n_out[rule]++;
  return true;
}

static bool find_left_calls(left_walk *w, uint32_t rule) {
  ij_nfa *a = w->a;
  uint32_t n = 0;
  w->stack[n++] = a->rules[rule].start;
  w->mark[a->rules[rule].start] = rule + 1;
  while (n) {
    uint32_t s = w->stack[--n];
    for (uint32_t i = a->first[s]; i != IJ_NONE; i = a->edges[i].next) {
      const ij_edge *e = &a->edges[i];
      bool inner = e->kind == IJ_EDGE_CALL && e->arg < IJ_EXTERN;
      if (inner && !add_left_call(w, rule, e->arg)) return false;
      bool through = e->kind == IJ_EDGE_EMPTY || (e->kind == IJ_EDGE_CALL && edge_bytes(a, e) == 0);
      if (through && w->mark[e->target] != rule + 1) {
        w->mark[e->target] = rule + 1;
        w->stack[n++] = e->target;
      }
    }
  }
  return true;
}

/* Takes away rules without left calls until none is left; what stays calls itself before reading anything. */
static bool resolve_left_calls(left_walk *w) {
  uint32_t n_rules = w->a->n_rules, n = 0, n_done = 0;
  for (uint32_t r = 0; r < n_rules; r++) {
    if (w->n_out[r] == 0) w->stack[n++] = r;
  }
  while (n) {
    uint32_t r = w->stack[--n];
    n_done++;
    for (uint32_t i = w->first[r]; i != IJ_NONE; i = w->next[i]) {
      uint32_t *level = &w->level[w->from[i]];
      *level = IJ_MAX(*level, w->level[r] + 1);
      w->deep |= *level > MAX_LEFT_CALLS;
      uint32_t *width = &w->width[w->from[i]];
      *width = IJ_MIN(*width + w->width[r], IJ_MAX_ALTERNATIVES + 1u);
      w->wide |= *width > IJ_MAX_ALTERNATIVES;
      if (--w->n_out[w->from[i]] == 0) w->stack[n++] = w->from[i];
    }
  }
  return n_done == n_rules;
}

static ij_status check_left_recursion(ij_nfa *a, const char *where, ij_err *err) {
  left_walk w = {.a = a};
  w.stack = ij__alloc_array((size_t)a->n_states + a->n_rules, sizeof *w.stack);
  w.mark = ij__alloc_zero(a->n_states, sizeof *w.mark);
  w.n_out = ij__alloc_zero(a->n_rules, sizeof *w.n_out);
  w.level = ij__alloc_zero(a->n_rules, sizeof *w.level);
  w.width = ij__alloc_array(a->n_rules, sizeof *w.width);
  w.first = ij__alloc_array(a->n_rules, sizeof *w.first);
  bool ok = w.stack && w.mark && w.n_out && w.level && w.width && w.first;
  for (uint32_t r = 0; ok && r < a->n_rules; r++) w.width[r] = 1;
  if (ok) memset(w.first, 0xFF, a->n_rules * sizeof *w.first);
  for (uint32_t r = 0; ok && r < a->n_rules; r++) ok = find_left_calls(&w, r);
  bool good = ok && resolve_left_calls(&w);
  ij__free(w.stack);
  ij__free(w.mark);
  ij__free(w.n_out);
  ij__free(w.level);
  ij__free(w.width);
  ij__free(w.first);
  ij__free(w.next);
  ij__free(w.from);
  if (!ok) return ij__fail_nomem(err, "a grammar", (size_t)a->n_states * 8);
  if (!good) return ij__fail(err, IJ_E_ARGUMENT, where, "a definition refers to itself without an object or array in between");
  if (w.wide) return ij__fail(err, IJ_E_UNSUPPORTED, where, "more than %d alternatives at one place", IJ_MAX_ALTERNATIVES);
  if (w.deep) return ij__fail(err, IJ_E_UNSUPPORTED, where, "more than %d definitions that only refer to the next", MAX_LEFT_CALLS);
  return IJ_OK;
}

/* ---------------------------------------------------------------------------------------------------------------------- */

ij_status ij__nfa_finish(ij_nfa *a, uint32_t root, const char *where, ij_err *err) {
  finisher f = {0};
  bool too_long = false;
  if (!a->no_memory && !a->too_large) {
    if (open_finisher(&f, a)) {
      solve(&f, false);
      too_long = forget_long_ways(a, a->rules[root].start);
      drop_dead_edges(a);
      solve(&f, true);
      number_virtual(a);
      find_byte_classes(a);
      if (!find_runs(a)) a->no_memory = true;
    } else {
      a->no_memory = true;
    }
    close_finisher(&f);
  }
  if (a->no_memory) return ij__fail_nomem(err, "a grammar", (size_t)a->n_edges * sizeof *a->edges);
  if (a->too_large) {
    return ij__fail(err, IJ_E_UNSUPPORTED, where, "the grammar is too large: more than %u states or %u transitions; use smaller bounds",
                    IJ_NFA_MAX_STATES, IJ_NFA_MAX_EDGES);
  }
  if (too_long) return ij__fail(err, IJ_E_UNSUPPORTED, where, "the shortest value would be too long: 4 GB or more");
  uint32_t start = a->rules[root].start;
  if (a->min_bytes[start] == IJ_NONE) return ij__fail(err, IJ_E_ARGUMENT, where,
                                                      "no value can satisfy this: its constraints contradict each other");
  if (a->height[start] > IJ_MAX_DEPTH / 2) {
    return ij__fail(err, IJ_E_UNSUPPORTED, where, "every value nests more than %d levels deep", IJ_MAX_DEPTH / 2);
  }
  return check_left_recursion(a, where, err);
}
