/* json_rules.c: see json_rules.h. */
#include "grammar/json_rules.h"

#include <stdio.h>

enum { MAX_INDENT_SPACES = 24, MAX_INDENT_TABS = 8, MAX_EXPONENT = 2 };

void ij__json_rules_open(ij_json_rules *j, ij_nfa *nfa, uint32_t reach) {
  *j = (ij_json_rules){.nfa = nfa, .reach = reach, .any_char = IJ_NONE};
  for (int i = 0; i < IJ_N_JSON_PART; i++) j->parts[i] = IJ_NONE;
}

uint32_t ij__json_part(ij_json_rules *j, ij_json_part part) {
  const ij_nfa *core = j->core;
  if (j->parts[part] != IJ_NONE || !core) return j->parts[part];
  uint32_t start = core->rules[part].start;
  j->parts[part] = ij__nfa_extern(j->nfa, (ij_extern){j->core_grammar, part, core->min_bytes[start], core->height[start]});
  return j->parts[part];
}

uint32_t ij__json_any_char(ij_json_rules *j) {
  if (j->any_char != IJ_NONE) return j->any_char;
  ij_charset all = {0};
  ij__charset_add(&all, 0, IJ_CHAR_MAX);
  ij__charset_normalize(&all);
  if (all.failed) j->nfa->no_memory = true;
  else j->any_char = ij__nfa_make_class(j->nfa, &all, true);
  ij__charset_free(&all);
  return j->any_char == IJ_NONE ? 0 : j->any_char;
}

/* n or fewer of one byte, from `from` to `to`. */
static void up_to(ij_nfa *a, uint32_t from, uint8_t byte, unsigned n, uint32_t to) {
  for (unsigned i = 0; i < n; i++) {
    uint32_t next = ij__nfa_state(a);
    ij__nfa_bytes(a, from, byte, byte, next);
    ij__nfa_empty(a, next, to);
    from = next;
  }
}

static void make_space(ij_nfa *a, ij_rule r) {
  uint32_t line = ij__nfa_state(a);
  ij__nfa_empty(a, r.start, r.end);
  ij__nfa_bytes(a, r.start, ' ', ' ', r.end);
  ij__nfa_bytes(a, r.start, '\n', '\n', line);
  ij__nfa_empty(a, line, r.end);
  up_to(a, line, ' ', MAX_INDENT_SPACES, r.end);
  up_to(a, line, '\t', MAX_INDENT_TABS, r.end);
}

static void make_string(ij_json_rules *j, ij_rule r) {
  ij_nfa *a = j->nfa;
  uint32_t any = ij__json_any_char(j), in = ij__nfa_state(a);
  ij__nfa_bytes(a, r.start, '"', '"', in);
  ij__nfa_class(a, in, any, in);
  ij__nfa_bytes(a, in, '"', '"', r.end);
}

/* 1..n digits between two states. */
static void some_digits(ij_nfa *a, uint32_t from, unsigned n, uint32_t to) {
  for (unsigned i = 0; i < n; i++) {
    uint32_t next = ij__nfa_state(a);
    ij__nfa_bytes(a, from, '0', '9', next);
    ij__nfa_empty(a, next, to);
    from = next;
  }
}

/* -?(0|[1-9][0-9]*) with a bounded number of digits. */
static void make_integer(ij_nfa *a, uint32_t from, uint32_t to) {
  uint32_t sign = ij__nfa_state(a), first = ij__nfa_state(a);
  ij__nfa_empty(a, from, sign);
  ij__nfa_bytes(a, from, '-', '-', sign);
  ij__nfa_bytes(a, sign, '0', '0', to);
  ij__nfa_bytes(a, sign, '1', '9', first);
  ij__nfa_empty(a, first, to);
  some_digits(a, first, IJ_MAX_DIGITS - 1, to);
}

static void make_number(ij_nfa *a, ij_rule r) {
  uint32_t whole = ij__nfa_state(a), point = ij__nfa_state(a), fraction = ij__nfa_state(a), e = ij__nfa_state(a), sign = ij__nfa_state(a);
  make_integer(a, r.start, whole);
  ij__nfa_bytes(a, whole, '.', '.', point);
  some_digits(a, point, IJ_MAX_FRACTION, fraction);
  ij__nfa_empty(a, whole, fraction);
  ij__nfa_empty(a, fraction, r.end);
  ij__nfa_bytes(a, fraction, 'e', 'e', e);
  ij__nfa_bytes(a, fraction, 'E', 'E', e);
  ij__nfa_empty(a, e, sign);
  ij__nfa_bytes(a, e, '+', '+', sign);
  ij__nfa_bytes(a, e, '-', '-', sign);
  some_digits(a, sign, MAX_EXPONENT, r.end);
}

static void make_value(ij_nfa *a, ij_rule r) {
  static const ij_json_part inner[] = {IJ_JSON_ANY_STRING, IJ_JSON_ANY_NUMBER, IJ_JSON_ANY_OBJECT, IJ_JSON_ANY_ARRAY};
  for (size_t i = 0; i < IJ_COUNT_OF(inner); i++) ij__nfa_call(a, r.start, inner[i], r.end);
  ij__nfa_text(a, r.start, "true", 4, r.end);
  ij__nfa_text(a, r.start, "false", 5, r.end);
  ij__nfa_text(a, r.start, "null", 4, r.end);
}

/* open space (member (, space member)* space)? close */
static void make_bracketed(ij_nfa *a, ij_rule r, char open, char close, uint32_t first, uint32_t last) {
  uint32_t in = ij__nfa_state(a), begin = ij__nfa_state(a), comma = ij__nfa_state(a), out = ij__nfa_state(a);
  ij__nfa_bytes(a, r.start, (uint8_t)open, (uint8_t)open, in);
  ij__nfa_call(a, in, IJ_JSON_SPACE, begin);
  ij__nfa_empty(a, begin, first);
  ij__nfa_bytes(a, begin, (uint8_t)close, (uint8_t)close, r.end);
  ij__nfa_bytes(a, last, ',', ',', comma);
  ij__nfa_call(a, comma, IJ_JSON_SPACE, first);
  ij__nfa_call(a, last, IJ_JSON_SPACE, out);
  ij__nfa_bytes(a, out, (uint8_t)close, (uint8_t)close, r.end);
}

void ij__json_make_core(ij_json_rules *j) {
  ij_nfa *a = j->nfa;
  for (uint32_t i = 0; i < IJ_N_JSON_PART; i++) j->parts[i] = ij__nfa_rule(a);
  uint32_t first = ij__nfa_state(a), last = ij__nfa_state(a), key = ij__nfa_state(a), colon = ij__nfa_state(a), spaced = ij__nfa_state(a);
  uint32_t item = ij__nfa_state(a), item_end = ij__nfa_state(a);
  if (a->no_memory) return;
  make_space(a, a->rules[IJ_JSON_SPACE]);
  make_string(j, a->rules[IJ_JSON_ANY_STRING]);
  make_number(a, a->rules[IJ_JSON_ANY_NUMBER]);
  make_integer(a, a->rules[IJ_JSON_ANY_INTEGER].start, a->rules[IJ_JSON_ANY_INTEGER].end);
  make_value(a, a->rules[IJ_JSON_ANY_VALUE]);
  ij__nfa_call(a, first, IJ_JSON_ANY_STRING, key);
  ij__nfa_bytes(a, key, ':', ':', colon);
  ij__nfa_bytes(a, colon, ' ', ' ', spaced);
  ij__nfa_call(a, colon, IJ_JSON_ANY_VALUE, last);
  ij__nfa_call(a, spaced, IJ_JSON_ANY_VALUE, last);
  make_bracketed(a, a->rules[IJ_JSON_ANY_OBJECT], '{', '}', first, last);
  ij__nfa_call(a, item, IJ_JSON_ANY_VALUE, item_end);
  make_bracketed(a, a->rules[IJ_JSON_ANY_ARRAY], '[', ']', item, item_end);
}

static size_t escape(char *out, unsigned char c) {
  static const char values[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
  for (size_t i = 0; values[i]; i++) {
    if (c == (unsigned char)values[i]) {
      out[0] = '\\';
      out[1] = letters[i];
      return 2;
    }
  }
  if (c < 0x20) return (size_t)snprintf(out, 8, "\\u%04x", c);
  out[0] = (char)c;
  return 1;
}

void ij__json_quoted(ij_json_rules *j, uint32_t from, const char *bytes, size_t n, uint32_t to) {
  ij_nfa *a = j->nfa;
  char text[8];
  uint32_t s = ij__nfa_state(a);
  ij__nfa_bytes(a, from, '"', '"', s);
  for (size_t i = 0; i < n && !a->too_large && !a->no_memory; i++) {
    uint32_t next = ij__nfa_state(a);
    ij__nfa_text(a, s, text, escape(text, (unsigned char)bytes[i]), next);
    s = next;
  }
  ij__nfa_bytes(a, s, '"', '"', to);
}
