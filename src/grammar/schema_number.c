/* schema_number.c: numbers: ranges and multiples.
 *
 * A bounded number is written without exponent, and its digits are compared with those of the bounds as they come: a state knows how many
 * digits are still to come, whether all so far equal those of the lower or of the upper bound, and the remainder so far. Negative
 * numbers are a sign and a magnitude between the bounds' magnitudes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "grammar/schema_int.h"

enum { MAX_MULTIPLE = 1000 };

/* A magnitude: digits before and after the point. */
typedef struct decimal {
  int n_whole, n_fraction; /* no leading zeros, but at least one digit; no trailing zeros */
  unsigned char whole[IJ_MAX_DIGITS], fraction[IJ_MAX_FRACTION];
  bool negative;
} decimal;

typedef struct bound {
  bool set, open; /* open: the bound itself is outside */
  bool is_whole;
  int64_t whole;  /* of 64 bits, which a double may not hold */
  double value;
  decimal d;
} bound;

/* Whether a lies above b. */
static bool is_above(const bound *a, const bound *b) {
  return a->is_whole && b->is_whole ? a->whole > b->whole : a->value > b->value;
}

typedef struct number_plan {
  bound lo, hi;
  bool integer;
  uint32_t multiple; /* 0: none */
  int n_fraction;    /* digits allowed after the point */
} number_plan;

/* The shortest decimal that is this double, without exponent; false: it has too many digits. */
static bool to_decimal(double value, decimal *out) {
  char text[40], *p, *e;
  for (int digits = 0; digits < 17; digits++) {
    snprintf(text, sizeof text, "%.*e", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  *out = (decimal){.negative = value < 0};
  char all[32];
  int n = 0, exponent = (e = strchr(text, 'e')) ? atoi(e + 1) : 0;
  for (p = text; p < e; p++) {
    if (*p >= '0' && *p <= '9') all[n++] = (char)(*p - '0');
  }
  while (n > 1 && all[n - 1] == 0) n--;
  if (value == 0) n = exponent = 0;
  int point = exponent + 1; /* digits before the point */
  if (point > IJ_MAX_DIGITS || n - point > IJ_MAX_FRACTION) return false;
  for (int i = 0; i < point; i++) out->whole[out->n_whole++] = (unsigned char)(i < n ? all[i] : 0);
  if (out->n_whole == 0) out->whole[out->n_whole++] = 0;
  for (int i = 0; i < n - point; i++) out->fraction[out->n_fraction++] = (unsigned char)(point + i < 0 ? 0 : all[point + i]);
  return true;
}

/* All digits, which a double may not hold. */
static bool from_int(int64_t value, decimal *out) {
  char text[24];
  *out = (decimal){.negative = value < 0};
  int n = snprintf(text, sizeof text, "%lld", (long long)value);
  for (int i = out->negative; i < n; i++) out->whole[out->n_whole++] = (unsigned char)(text[i] - '0');
  return true;
}

/* -------------------------------------------------------------------------------------------------------------- reading */

static bool take_bound(ij_schema *s, const ij_conjunct *c, const char *key, bool lower, bool open, number_plan *p) {
  const ij_json_value *v = ij__json_member(c->node, key);
  double value;
  bool flag;
  if (!v) return true;
  if (ij__json_get_bool(v, &flag)) return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, key,
                                                          "a boolean here is of draft 4; since then it is the bound itself");
  if (!ij__json_get_double(v, &value) || !isfinite(value)) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, key, "expected a number");
  bound *b = lower ? &p->lo : &p->hi, found = {.set = true, .open = open, .value = value};
  found.is_whole = ij__json_get_int(v, &found.whole);
  if (!found.is_whole && fabs(value) >= 0x1p63) { /* a double may hold only a part of it; a narrower bound that is exact will do */
    if (lower == (value > 0)) return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, key, "a bound beyond 64 bits");
    found = (bound){.set = true, .is_whole = true, .whole = lower ? INT64_MIN : INT64_MAX, .value = lower ? -0x1p63 : 0x1p63};
  } else if (p->integer && value != floor(value)) {
    found.value = lower ? ceil(value) : floor(value);
    found.open = false;
  }
  bool looser = b->set && (lower ? is_above(b, &found) : is_above(&found, b));
  bool same = b->set && !is_above(b, &found) && !is_above(&found, b);
  if (looser || (same && !found.open)) return true;
  *b = found;
  if (found.is_whole) return from_int(found.whole, &b->d);
  if (to_decimal(found.value, &b->d)) return true;
  return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, key, "a bound with more than %d digits before or %d after the point", IJ_MAX_DIGITS,
                         IJ_MAX_FRACTION);
}

static uint32_t common_multiple(uint32_t a, uint32_t b) {
  uint32_t x = a, y = b;
  while (y) {
    uint32_t t = x % y;
    x = y;
    y = t;
  }
  return a / x * b;
}

static bool take_multiple(ij_schema *s, const ij_conjunct *c, number_plan *p) {
  const ij_json_value *v = ij__json_member(c->node, "multipleOf");
  double value;
  if (!v) return true;
  if (!ij__json_get_double(v, &value) || !(value > 0)) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "multipleOf",
                                                                              "expected a number above 0");
  if (value == floor(value) && value <= MAX_MULTIPLE) {
    p->multiple = p->multiple ? common_multiple(p->multiple, (uint32_t)value) : (uint32_t)value;
    p->integer = true;
    if (p->multiple <= MAX_MULTIPLE) return true;
  }
  decimal d;
  if (value < 1 && !p->integer && to_decimal(value, &d) && d.n_fraction > 0 && d.fraction[d.n_fraction - 1] == 1) {
    bool power = true;
    for (int i = 0; i + 1 < d.n_fraction; i++) power = power && d.fraction[i] == 0;
    if (power) {
      p->n_fraction = IJ_MIN(p->n_fraction, d.n_fraction);
      return true;
    }
  }
  return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "multipleOf",
                         "only whole numbers up to %d, and 0.1, 0.01, ... for numbers, can be enforced", MAX_MULTIPLE);
}

/* Formats that say how wide an integer is; those of strings say nothing about numbers. */
static bool take_format(ij_schema *s, const ij_conjunct *c, number_plan *p) {
  const char *name;
  size_t n;
  if (!ij__json_get_string(ij__json_member(c->node, "format"), &name, &n)) return true;
  if (strcmp(name, "float") == 0 || strcmp(name, "double") == 0 || ij__schema_is_text_format(name, n)) return true;
  if (strcmp(name, "int32") != 0 && strcmp(name, "int64") != 0) {
    return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "format",
                           "this format of a number cannot be enforced (int32, int64, float, double can)");
  }
  bound lo = {.set = true, .value = strcmp(name, "int32") == 0 ? -2147483648.0 : -999999999999999999.0};
  bound hi = {.set = true, .value = strcmp(name, "int32") == 0 ? 2147483647.0 : 999999999999999999.0};
  if (!to_decimal(lo.value, &lo.d) || !to_decimal(hi.value, &hi.d)) return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "format",
                                                                                          "not understood");
  if (!p->lo.set || p->lo.value < lo.value) p->lo = lo;
  if (!p->hi.set || p->hi.value > hi.value) p->hi = hi;
  return true;
}

/* ------------------------------------------------------------------------------------------------------------- writing */

typedef struct digits {
  ij_nfa *a;
  const number_plan *p;
  const decimal *lo, *hi; /* magnitudes; hi NULL: no limit */
  bool lo_open, hi_open;
  uint32_t end;
  uint32_t *whole;        /* states by (digits to come, first, at lower, at upper, remainder); IJ_NONE: not yet made */
  uint32_t fraction[IJ_MAX_FRACTION + 1][2][2];
  uint32_t modulus;
} digits;

static unsigned digit_at(const unsigned char *digits_of, int n, int i) { return i < n ? digits_of[i] : 0; }

/* Whether a number may end after n digits of its fraction. */
static bool may_end(const digits *g, int n, bool at_lo, bool at_hi) {
  bool more_lo = n < g->lo->n_fraction, more_hi = g->hi && n < g->hi->n_fraction;
  if (at_lo && (more_lo || g->lo_open)) return false;
  return !at_hi || more_hi || !g->hi_open;
}

static uint32_t fraction_state(digits *g, int n, bool at_lo, bool at_hi) {
  uint32_t *slot = &g->fraction[n][at_lo][at_hi];
  if (*slot != IJ_NONE) return *slot;
  uint32_t s = *slot = ij__nfa_state(g->a);
  if (n > 0 && may_end(g, n, at_lo, at_hi)) ij__nfa_empty(g->a, s, g->end);
  if (n >= g->p->n_fraction) return s;
  unsigned from = at_lo ? digit_at(g->lo->fraction, g->lo->n_fraction, n) : 0, to = at_hi ? digit_at(g->hi->fraction, g->hi->n_fraction,
                                                                                          n) : 9;
  for (unsigned d = from; d <= to; d++) {
    ij__nfa_bytes(g->a, s, (uint8_t)('0' + d), (uint8_t)('0' + d), fraction_state(g, n + 1, at_lo && d == from, at_hi && d == to));
  }
  return s;
}

static uint32_t whole_state(digits *g, int left, bool first, bool at_lo, bool at_hi, uint32_t rest) {
  uint32_t *slot = &g->whole[((((size_t)left * 2 + first) * 2 + at_lo) * 2 + at_hi) * g->modulus + rest];
  if (*slot != IJ_NONE) return *slot;
  uint32_t s = *slot = ij__nfa_state(g->a);
  if (g->a->too_large || g->a->no_memory) return s;
  if (left == 0) {
    if (rest == 0 && may_end(g, 0, at_lo, at_hi)) ij__nfa_empty(g->a, s, g->end);
    if (!g->p->integer && g->p->n_fraction > 0) ij__nfa_bytes(g->a, s, '.', '.', fraction_state(g, 0, at_lo, at_hi));
    return s;
  }
  unsigned from = at_lo ? g->lo->whole[g->lo->n_whole - left] : first && left > 1 ? 1 : 0, to = at_hi
      ? g->hi->whole[g->hi->n_whole - left] : 9;
  for (unsigned d = from; d <= to; d++) {
    uint32_t next = whole_state(g, left - 1, false, at_lo && d == from, at_hi && d == to, (rest * 10 + d) % g->modulus);
    ij__nfa_bytes(g->a, s, (uint8_t)('0' + d), (uint8_t)('0' + d), next);
  }
  return s;
}

/* Numbers without sign between two magnitudes. */
static bool write_magnitudes(digits *g, uint32_t from) {
  size_t n = (size_t)(IJ_MAX_DIGITS + 1) * 8 * g->modulus;
  g->whole = ij__alloc_array(n, sizeof *g->whole);
  if (!g->whole) return false;
  memset(g->whole, 0xFF, n * sizeof *g->whole);
  memset(g->fraction, 0xFF, sizeof g->fraction);
  for (int k = g->lo->n_whole; k <= (g->hi ? g->hi->n_whole : IJ_MAX_DIGITS); k++) {
    ij__nfa_empty(g->a, from, whole_state(g, k, true, k == g->lo->n_whole, g->hi && k == g->hi->n_whole, 0));
  }
  ij__free(g->whole);
  return true;
}

static bool write_number(ij_schema *s, const number_plan *p, ij_rule r) {
  static const decimal zero = {.n_whole = 1};
  digits g = {.a = s->nfa, .p = p, .end = r.end, .modulus = p->multiple ? p->multiple : 1};
  bool ok = true;
  if (!p->hi.set || p->hi.value >= 0) { /* zero and above */
    bool above = p->lo.set && p->lo.value >= 0;
    g.lo = above ? &p->lo.d : &zero;
    g.lo_open = above && p->lo.open;
    g.hi = p->hi.set ? &p->hi.d : NULL;
    g.hi_open = p->hi.open;
    ok = write_magnitudes(&g, r.start);
  }
  if (ok && (!p->lo.set || p->lo.value < 0)) { /* below zero: the bounds change places */
    bool below = p->hi.set && p->hi.value <= 0;
    uint32_t minus = ij__nfa_state(s->nfa);
    ij__nfa_bytes(s->nfa, r.start, '-', '-', minus);
    g.lo = below ? &p->hi.d : &zero;
    g.lo_open = below ? p->hi.open : true;
    g.hi = p->lo.set ? &p->lo.d : NULL;
    g.hi_open = p->lo.open;
    ok = write_magnitudes(&g, minus);
  }
  return ok || ij__schema_nomem(s);
}

/* Digits after the point that are written beside this bound. What rounds to an excluded bound when it is read as a double would be wrong:
 * beside a bound of at most 15 digits, none of 15 does, counted from its first one that is not 0; and nothing rounds to 0. */
static int fraction_beside(const bound *b) {
  if (!b->open || b->value == 0) return IJ_MAX_FRACTION;
  int zeros = 0;
  while (zeros < b->d.n_fraction && b->d.fraction[zeros] == 0) zeros++;
  bool below_one = b->d.n_whole == 1 && b->d.whole[0] == 0;
  return IJ_MAX(15 + (below_one ? zeros : -b->d.n_whole), 0);
}

bool ij__schema_number(ij_schema *s, const ij_conjuncts *list, bool integer, ij_rule r) {
  number_plan p = {.integer = integer, .n_fraction = IJ_MAX_FRACTION};
  for (uint32_t i = 0; i < list->n; i++) {
    if (!take_multiple(s, &list->at[i], &p)) return false; /* first: it may make them whole numbers */
  }
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_conjunct *c = &list->at[i];
    bool ok = take_bound(s, c, "minimum", true, false, &p) && take_bound(s, c, "exclusiveMinimum", true, true, &p) &&
              take_bound(s, c, "maximum", false, false, &p) && take_bound(s, c, "exclusiveMaximum", false, true, &p) && take_format(s, c,
                                                                                          &p);
    if (!ok) return false;
  }
  p.n_fraction = IJ_MIN(p.n_fraction, IJ_MIN(fraction_beside(&p.lo), fraction_beside(&p.hi)));
  if (p.lo.set && p.hi.set && (p.lo.value > p.hi.value || (p.lo.value == p.hi.value && (p.lo.open ||
                                                                                        p.hi.open)))) return true; /* nothing */
  if (p.lo.set || p.hi.set || p.multiple || p.n_fraction < IJ_MAX_FRACTION) return write_number(s, &p, r);
  ij__nfa_call(s->nfa, r.start, ij__json_part(s->j, p.integer ? IJ_JSON_ANY_INTEGER : IJ_JSON_ANY_NUMBER), r.end);
  return true;
}
