/* nfa_class.c: sets of characters as byte automata, in plain UTF-8 or as they may be spelled inside a JSON string.
 *
 * Both spellings are trees over blocks (64 characters behind a continuation byte, 16 behind a hexadecimal digit). Equal subtrees are
 * shared while they are made, so the automaton comes out minimal and whole blocks cost nothing.
 */
#include <string.h>

#include "core/alloc.h"
#include "grammar/nfa.h"

enum { NO_STATE = 0xFFFE, MAX_CLASS_STATES = 0x8000 };

typedef struct class_builder {
  ij_nfa *nfa;
  ij_class *c;
  ij_class_edge edges[768]; /* of the state being made, a stack shared by the recursion */
  uint32_t n;
} class_builder;

static void push_edge(class_builder *b, unsigned lo, unsigned hi, unsigned target) {
  if (target == NO_STATE || b->n == IJ_COUNT_OF(b->edges)) return;
  b->edges[b->n++] = (ij_class_edge){(uint8_t)lo, (uint8_t)hi, (uint16_t)target};
}

static uint32_t min_bytes_of(const ij_class *c, const ij_class_edge *e, uint32_t n) {
  uint32_t best = IJ_NONE;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rest = e[i].target == IJ_CLASS_DONE ? 0 : c->states[e[i].target].min_bytes;
    best = IJ_MIN(best, rest + 1);
  }
  return best;
}

/* A new state with the edges from `from` on; appended, or stored as state 0 when it is the start. */
static unsigned store_state(class_builder *b, uint32_t from, uint32_t hash, bool is_start) {
  ij_class *c = b->c;
  uint32_t n = b->n - from;
  if (c->n_states + 1 >= MAX_CLASS_STATES) b->nfa->too_large = true;
  if (b->nfa->too_large || b->nfa->no_memory) return NO_STATE;
  if (c->n_states == c->cap_states) {
    uint32_t cap = c->cap_states ? 2 * c->cap_states : 16;
    ij_class_state *states = ij__realloc(c->states, cap * sizeof *states);
    if (!states) {
      b->nfa->no_memory = true;
      return NO_STATE;
    }
    c->states = states;
    c->cap_states = cap;
  }
  if (c->n_edges + n > c->cap_edges) {
    uint32_t cap = IJ_MAX(2 * c->cap_edges, c->n_edges + n + 32);
    ij_class_edge *edges = ij__realloc(c->edges, cap * sizeof *edges);
    if (!edges) {
      b->nfa->no_memory = true;
      return NO_STATE;
    }
    c->edges = edges;
    c->cap_edges = cap;
  }
  if (n) memcpy(c->edges + c->n_edges, b->edges + from, n * sizeof *b->edges);
  unsigned at = is_start ? 0 : c->n_states++;
  c->states[at] = (ij_class_state){c->n_edges, n, hash, min_bytes_of(c, b->edges + from, n)};
  c->n_edges += n;
  return at;
}

/* Takes the edges pushed since `from` off the stack: NO_STATE without any, an equal state if there is one, or a new one. */
static unsigned make_state(class_builder *b, uint32_t from) {
  ij_class *c = b->c;
  uint32_t n = b->n - from, hash = 2166136261u;
  unsigned found = NO_STATE;
  for (uint32_t i = from; i < b->n; i++) {
    ij_class_edge e = b->edges[i];
    hash = (hash ^ ((uint32_t)e.lo | (uint32_t)e.hi << 8 | (uint32_t)e.target << 16)) * 16777619u;
  }
  for (uint32_t s = 1; s < c->n_states && n; s++) {
    if (c->states[s].hash != hash || c->states[s].n != n) continue;
    bool same = true;
    for (uint32_t i = 0; i < n && same; i++) {
      ij_class_edge x = c->edges[c->states[s].first + i], y = b->edges[from + i];
      same = x.lo == y.lo && x.hi == y.hi && x.target == y.target;
    }
    if (same) found = s;
  }
  if (n && found == NO_STATE) found = store_state(b, from, hash, false);
  b->n = from;
  return found;
}

/* The characters base .. base + 64^k - 1 behind k continuation bytes. */
static unsigned continuation(class_builder *b, const ij_charset *set, unsigned k, uint32_t base) {
  uint32_t from = b->n, block = 1u << (6 * (k - 1));
  if (ij__charset_cover(set, base, base + 64 * block - 1) == 0) return NO_STATE;
  unsigned run = NO_STATE, run_from = 0;
  for (unsigned i = 0; i <= 64; i++) {
    unsigned t = NO_STATE;
    if (i < 64) {
      uint32_t at = base + i * block;
      if (k == 1) t = ij__charset_has(set, at) ? IJ_CLASS_DONE : NO_STATE;
      else if (i && ij__charset_cover(set, at - block, at + block - 1) == 2 && run != NO_STATE) t = run; /* as the whole block before */
      else t = continuation(b, set, k - 1, at);
    }
    if (t != run) {
      if (run != NO_STATE) push_edge(b, 0x80 + run_from, 0x80 + i - 1, run);
      run = t;
      run_from = i;
    }
  }
  return make_state(b, from);
}

/* Edges by lead byte, for characters of two and more bytes. */
static void push_leads(class_builder *b, const ij_charset *set, unsigned lo, unsigned hi, unsigned k, unsigned bits, uint32_t min,
                       uint32_t max) {
  ij_charset part = {0};
  ij__charset_clip(&part, set, min, max);
  if (part.failed) b->nfa->no_memory = true;
  for (unsigned lead = lo; lead <= hi && part.n; lead++) {
    unsigned t = continuation(b, &part, k, (uint32_t)(lead & ((1u << bits) - 1)) << (6 * k));
    if (t == NO_STATE) continue;
    if (b->n && b->edges[b->n - 1].target == t && b->edges[b->n - 1].hi + 1u == lead) b->edges[b->n - 1].hi = (uint8_t)lead;
    else push_edge(b, lead, lead, t);
  }
  ij__charset_free(&part);
}

static void push_digits(class_builder *b, unsigned digit, unsigned target) {
  if (digit < 10) push_edge(b, '0' + digit, '0' + digit, target);
  else {
    push_edge(b, 'A' + digit - 10, 'A' + digit - 10, target);
    push_edge(b, 'a' + digit - 10, 'a' + digit - 10, target);
  }
}

/* The characters base .. base + 16^k - 1 as k hexadecimal digits. */
static unsigned hex_digits(class_builder *b, const ij_charset *set, unsigned k, uint32_t base) {
  uint32_t from = b->n, block = 1u << (4 * (k - 1));
  if (ij__charset_cover(set, base, base + 16 * block - 1) == 0) return NO_STATE;
  for (unsigned i = 0; i < 16; i++) {
    unsigned t = k == 1 ? (ij__charset_has(set, base + i) ? IJ_CLASS_DONE : NO_STATE) : hex_digits(b, set, k - 1, base + i * block);
    if (t != NO_STATE) push_digits(b, i, t);
  }
  return make_state(b, from);
}

/* d8..db xx, then \u and dc..df xx: any character above the basic plane. */
static unsigned surrogate_pair(class_builder *b) {
  uint32_t from = b->n;
  unsigned t = IJ_CLASS_DONE;
  for (int half = 0; half < 2; half++) {
    for (int i = 0; i < 2; i++) {
      for (unsigned d = 0; d < 16; d++) push_digits(b, d, t);
      t = make_state(b, from);
    }
    for (unsigned d = half ? 0x8 : 0xC; d <= (half ? 0xB : 0xF); d++) push_digits(b, d, t);
    t = make_state(b, from);
    if (half) return t; /* behind the d */
    push_digits(b, 0xD, t);
    t = make_state(b, from);
    push_edge(b, 'u', 'u', t);
    t = make_state(b, from);
    push_edge(b, '\\', '\\', t);
    t = make_state(b, from);
  }
  return t;
}

/* Behind \u: four digits of a character of the set; pairs only when every character above the basic plane is in it. */
static unsigned unicode_escape(class_builder *b, const ij_charset *set) {
  uint32_t from = b->n;
  bool pairs = ij__charset_cover(set, 0x10000, IJ_CHAR_MAX) == 2;
  for (unsigned i = 0; i < 16; i++) {
    unsigned t;
    if (i == 0xD && pairs) {
      uint32_t inner = b->n;
      unsigned pair = surrogate_pair(b);
      for (unsigned k = 0; k < 8; k++) {
        t = hex_digits(b, set, 2, 0xD000 + k * 0x100);
        if (t != NO_STATE) push_digits(b, k, t);
      }
      /* The pair's state has edges for 8..b: copied here, because a deterministic automaton has one state behind the d. */
      for (uint32_t k = 0; pair != NO_STATE && k < b->c->states[pair].n; k++) {
        ij_class_edge e = b->c->edges[b->c->states[pair].first + k];
        push_edge(b, e.lo, e.hi, e.target);
      }
      t = make_state(b, inner);
    } else {
      t = hex_digits(b, set, 3, i * 0x1000);
    }
    if (t != NO_STATE) push_digits(b, i, t);
  }
  return make_state(b, from);
}

static void push_escapes(class_builder *b, const ij_charset *set) {
  static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  uint32_t from = b->n;
  for (unsigned i = 0; letters[i]; i++) {
    if (ij__charset_has(set, (unsigned char)values[i])) push_edge(b, (unsigned char)letters[i], (unsigned char)letters[i], IJ_CLASS_DONE);
  }
  /* A set that is not everything stands in a pattern: there printable characters have no second spelling. */
  ij_charset coded = {0};
  ij__charset_clip(&coded, set, 0, 0x1F);
  if (ij__charset_cover(set, 0, 0xD7FF) == 2) ij__charset_clip(&coded, set, 0x20, 0x7E);
  ij__charset_clip(&coded, set, 0x7F, IJ_CHAR_MAX);
  ij__charset_normalize(&coded);
  if (coded.failed) b->nfa->no_memory = true;
  else push_edge(b, 'u', 'u', unicode_escape(b, &coded));
  ij__charset_free(&coded);
  push_edge(b, '\\', '\\', make_state(b, from));
}

static void build_class(ij_nfa *a, ij_class *c) {
  class_builder b = {.nfa = a, .c = c};
  uint32_t run = 0;
  c->states = ij__alloc_array(16, sizeof *c->states);
  if (!c->states) {
    a->no_memory = true;
    return;
  }
  c->cap_states = 16;
  c->n_states = 1;
  for (uint32_t ch = 0; ch <= 0x80; ch++) {
    bool in = ch < 0x80 && ij__charset_has(&c->set, ch) && !(c->json && (ch < 0x20 || ch == '"' || ch == '\\'));
    if (in) run++;
    else if (run) {
      push_edge(&b, ch - run, ch - 1, IJ_CLASS_DONE);
      run = 0;
    }
  }
  push_leads(&b, &c->set, 0xC2, 0xDF, 1, 5, 0x80, 0x7FF);
  push_leads(&b, &c->set, 0xE0, 0xEF, 2, 4, 0x800, 0xFFFF);
  push_leads(&b, &c->set, 0xF0, 0xF4, 3, 3, 0x10000, IJ_CHAR_MAX);
  if (c->json) push_escapes(&b, &c->set);
  store_state(&b, 0, 0, true);
}

uint32_t ij__nfa_make_class(ij_nfa *a, const ij_charset *set, bool json) {
  for (uint32_t i = 0; i < a->n_classes; i++) {
    if (a->classes[i].json == json && ij__charset_equal(&a->classes[i].set, set)) return i;
  }
  if (a->n_classes == a->cap_classes) {
    uint32_t cap = a->cap_classes ? 2 * a->cap_classes : 16;
    ij_class *classes = ij__realloc(a->classes, cap * sizeof *classes);
    if (!classes) {
      a->no_memory = true;
      return 0;
    }
    a->classes = classes;
    a->cap_classes = cap;
  }
  ij_class *c = &a->classes[a->n_classes];
  *c = (ij_class){.json = json};
  ij__charset_clip(&c->set, set, 0, IJ_CHAR_MAX);
  if (c->set.failed) a->no_memory = true;
  build_class(a, c);
  return a->n_classes++;
}
