/* regex.c: the program of an expression made deterministic, by sets of steps. */
#include "grammar/regex.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"

enum { MAX_STATES = 10000, MAX_WORK = 60000000, MAX_SEGMENTS = 20000, MAX_TABLE = 4000000 };

typedef struct determinizer {
  const ij_re_program *p;
  ij_chardfa *d;
  ij_set_table table;
  uint32_t *mark, epoch;  /* [n_steps] */
  uint32_t *list, n_list; /* [n_steps + 1] the set being made; the start's holds n_steps, too, because an end behind "$^" is only there */
  uint32_t *stack;        /* [2 * n_steps] */
  uint32_t *reps;         /* [n_classes] a character of each class */
  uint64_t work;
  bool no_memory;
} determinizer;

/* Follows steps that read nothing. Ends of text are kept in the set: whether they hold is only known when asked for acceptance. */
static void close_steps(determinizer *z, uint32_t seed, bool at_begin, bool at_end, bool *match) {
  uint32_t n = 0;
  z->stack[n++] = seed;
  while (n) {
    uint32_t i = z->stack[--n];
    if (z->mark[i] == z->epoch) continue;
    z->mark[i] = z->epoch;
    z->work++;
    const ij_re_step *s = &z->p->steps[i];
    if (s->op == IJ_RE_SET || s->op == IJ_RE_MATCH || s->op == IJ_RE_END) z->list[z->n_list++] = i;
    if (s->op == IJ_RE_MATCH) *match = true;
    if (s->op == IJ_RE_SPLIT || (s->op == IJ_RE_BEGIN && at_begin) || (s->op == IJ_RE_END && at_end)) z->stack[n++] = s->x;
    if (s->op == IJ_RE_SPLIT) z->stack[n++] = s->y;
  }
}

static int compare_steps(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return (a > b) - (a < b);
}

/* Whether the text may end in a set (the one of this table index). */
static bool set_accepts(determinizer *z, uint32_t index, bool at_begin) {
  bool match = false;
  z->epoch++;
  for (uint32_t k = z->table.first[index]; k < z->table.first[index + 1]; k++) {
    z->n_list = 0;
    if (z->table.pool[k] < z->p->n_steps) close_steps(z, z->table.pool[k], at_begin, true, &match);
  }
  return match;
}

/* The state of z->list; IJ_NONE for the empty set. */
static uint32_t state_of_list(determinizer *z, bool at_begin) {
  bool is_new = false;
  if (z->n_list == 0) return IJ_NONE;
  if (at_begin) z->list[z->n_list++] = z->p->n_steps;
  qsort(z->list, z->n_list, sizeof *z->list, compare_steps);
  uint32_t i = ij__set_table_find(&z->table, z->list, z->n_list, &is_new);
  if (z->table.failed) z->no_memory = true;
  if (is_new && !z->no_memory && ij__chardfa_add_state(z->d, set_accepts(z, i, at_begin)) == IJ_NONE) z->no_memory = true;
  return i;
}

static void step_set(determinizer *z, uint32_t index, uint32_t class_index) {
  bool match;
  z->epoch++;
  z->n_list = 0;
  for (uint32_t k = z->table.first[index]; k < z->table.first[index + 1] && z->table.pool[k] < z->p->n_steps; k++) {
    const ij_re_step *s = &z->p->steps[z->table.pool[k]];
    z->work++;
    if (s->op == IJ_RE_SET && ij__charset_has(&z->p->sets[s->set], z->reps[class_index])) close_steps(z, s->x, false, false, &match);
  }
  uint32_t to = state_of_list(z, false);
  if (!z->no_memory) z->d->next[(size_t)index * z->d->n_classes + class_index] = to;
}

/* -------------------------------------------------------------------------------------------------------- characters */

static bool find_segments(determinizer *z) {
  ij_chardfa *d = z->d;
  size_t n = 1;
  for (uint32_t i = 0; i < z->p->n_sets; i++) n += 2 * (size_t)z->p->sets[i].n;
  d->cuts = ij__alloc_array(n, sizeof *d->cuts);
  d->class_of = ij__alloc_array(n, sizeof *d->class_of);
  z->reps = ij__alloc_array(n, sizeof *z->reps);
  if (!d->cuts || !d->class_of || !z->reps) return false;
  n = 0;
  d->cuts[n++] = 0;
  for (uint32_t i = 0; i < z->p->n_sets; i++) {
    for (uint32_t k = 0; k < z->p->sets[i].n; k++) {
      d->cuts[n++] = z->p->sets[i].r[k].lo;
      if (z->p->sets[i].r[k].hi < IJ_CHAR_MAX) d->cuts[n++] = z->p->sets[i].r[k].hi + 1;
    }
  }
  qsort(d->cuts, n, sizeof *d->cuts, compare_steps);
  for (size_t i = 0; i < n; i++) {
    if (d->n_segments == 0 || d->cuts[i] != d->cuts[d->n_segments - 1]) d->cuts[d->n_segments++] = d->cuts[i];
  }
  return true;
}

/* Segments that are in the same sets are one class. */
static bool find_classes(determinizer *z) {
  ij_chardfa *d = z->d;
  ij_set_table table = {0};
  uint32_t *in = ij__alloc_array((size_t)z->p->n_sets + 1, sizeof *in);
  bool ok = in != NULL;
  for (uint32_t s = 0; ok && s < d->n_segments; s++) {
    uint32_t n = 1;
    bool is_new = false;
    in[0] = 0;
    for (uint32_t i = 0; i < z->p->n_sets; i++) {
      if (ij__charset_has(&z->p->sets[i], d->cuts[s])) in[n++] = i;
    }
    z->work += z->p->n_sets;
    d->class_of[s] = ij__set_table_find(&table, in, n, &is_new);
    ok = !table.failed;
    if (ok && is_new) z->reps[d->class_of[s]] = d->cuts[s];
  }
  d->n_classes = table.n;
  ij__set_table_free(&table);
  ij__free(in);
  return ok;
}

static ij_status determinize(determinizer *z, const char *where, ij_err *err) {
  bool match;
  z->epoch = 1;
  close_steps(z, z->p->start, true, false, &match);
  state_of_list(z, true);
  for (uint32_t i = 0; i < z->table.n && !z->no_memory; i++) {
    for (uint32_t c = 0; c < z->d->n_classes && !z->no_memory; c++) {
      step_set(z, i, c);
      if (z->table.n <= MAX_STATES && z->work <= MAX_WORK && (uint64_t)z->table.n * z->d->n_classes <= MAX_TABLE) continue;
      return ij__fail(err, IJ_E_UNSUPPORTED, where,
                      "the expression is too complex: its automaton has more than %d states or takes too long to make", MAX_STATES);
    }
  }
  return z->no_memory ? ij__fail_nomem(err, "a regular expression", z->table.n * 64u) : IJ_OK;
}

ij_status ij__regex_compile(ij_chardfa *out, const char *pattern, size_t n, bool search, const char *where, ij_err *err) {
  ij_re_program p;
  *out = (ij_chardfa){0};
  ij_status status = ij__regex_parse(&p, pattern, n, search, where, err);
  if (status != IJ_OK) return status;
  determinizer z = {.p = &p, .d = out};
  z.mark = ij__alloc_zero(p.n_steps, sizeof *z.mark);
  z.list = ij__alloc_array((size_t)p.n_steps + 1, sizeof *z.list);
  z.stack = ij__alloc_array(2 * (size_t)p.n_steps + 2, sizeof *z.stack);
  if (!z.mark || !z.list || !z.stack || !find_segments(&z)) {
    status = ij__fail_nomem(err, "a regular expression", p.n_steps * 16u);
  } else if (out->n_segments > MAX_SEGMENTS || (uint64_t)out->n_segments * p.n_sets > MAX_WORK) {
    status = ij__fail(err, IJ_E_UNSUPPORTED, where, "the expression tells too many ranges of characters apart");
  } else if (!find_classes(&z)) {
    status = ij__fail_nomem(err, "a regular expression", p.n_steps * 16u);
  } else {
    status = determinize(&z, where, err);
  }
  out->work = z.work;
  if (status == IJ_OK && !ij__chardfa_trim(out)) status = ij__fail_nomem(err, "a regular expression", out->n_states * 8u);
  ij__free(z.mark);
  ij__free(z.list);
  ij__free(z.stack);
  ij__free(z.reps);
  ij__set_table_free(&z.table);
  ij__re_program_free(&p);
  if (status != IJ_OK) ij__chardfa_free(out);
  return status;
}
