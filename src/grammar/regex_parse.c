/* regex_parse.c: the text of a regular expression to a program of steps.
 *
 * The syntax is what ECMAScript and Python share, the rest is refused rather than guessed; what \d \w \s . and $ mean is as in ECMAScript,
 * which JSON Schema refers to. The expression is parsed to a tree first, because a repeated part is written out as many times as it may occur.
 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "grammar/regex.h"

enum { MAX_PATTERN = 16384, MAX_NEST = 200, MAX_STEPS = 60000, MAX_SETS = 4000, MAX_COUNT = 10000 };

typedef enum node_kind { NODE_EMPTY, NODE_SET, NODE_JOIN, NODE_EITHER, NODE_REPEAT, NODE_BEGIN, NODE_END } node_kind;
typedef struct node {
  node_kind kind;
  uint32_t a, b;     /* children; of a set: its index in a */
  uint32_t min, max; /* of a repetition */
} node;

typedef struct parser {
  const char *p;
  size_t n, at;
  node *nodes;
  uint32_t n_nodes, cap_nodes;
  ij_re_program *out;
  const char *where;
  ij_err *err;
  ij_status status;
} parser;

static uint32_t refuse(parser *r, ij_status code, const char *what) {
  if (r->status == IJ_OK) r->status = ij__fail(r->err, code, r->where, "byte %zu of the expression: %s", r->at, what);
  return 0;
}

static uint32_t no_memory(parser *r) {
  if (r->status == IJ_OK) r->status = ij__fail_nomem(r->err, "a regular expression", r->n);
  return 0;
}

static uint32_t add_node(parser *r, node_kind kind, uint32_t a, uint32_t b) {
  if (r->status != IJ_OK) return 0;
  if (r->n_nodes == r->cap_nodes) {
    uint32_t cap = r->cap_nodes ? 2 * r->cap_nodes : 64;
    node *nodes = ij__realloc(r->nodes, cap * sizeof *nodes);
    if (!nodes) return no_memory(r);
    r->nodes = nodes;
    r->cap_nodes = cap;
  }
  r->nodes[r->n_nodes] = (node){kind, a, b, 0, 0};
  return r->n_nodes++;
}

/* Takes the set over. */
static uint32_t add_set(parser *r, ij_charset *set) {
  ij_re_program *out = r->out;
  uint32_t i;
  ij__charset_normalize(set);
  if (set->failed) no_memory(r);
  for (i = 0; i < out->n_sets && !ij__charset_equal(&out->sets[i], set); i++) {
  }
  if (r->status == IJ_OK && i == out->n_sets) {
    if (out->n_sets >= MAX_SETS) refuse(r, IJ_E_UNSUPPORTED, "too many different sets of characters");
    else if (out->n_sets == out->cap_sets) {
      uint32_t cap = out->cap_sets ? 2 * out->cap_sets : 16;
      ij_charset *sets = ij__realloc(out->sets, cap * sizeof *sets);
      if (!sets) no_memory(r);
      else {
        out->sets = sets;
        out->cap_sets = cap;
      }
    }
    if (r->status == IJ_OK) {
      out->sets[out->n_sets++] = *set;
      *set = (ij_charset){0};
    }
  }
  ij__charset_free(set);
  return add_node(r, NODE_SET, i, 0);
}

/* --------------------------------------------------------------------------------------------------------- characters */

static bool more(const parser *r) { return r->at < r->n && r->status == IJ_OK; }
static char peek(const parser *r) { return r->at < r->n ? r->p[r->at] : 0; }
/* A NUL in the pattern is a character like any other, which strchr would find at the end of every list. */
static bool peek_in(const parser *r, const char *list) { return peek(r) && strchr(list, peek(r)); }

static bool eat(parser *r, const char *text) {
  size_t n = strlen(text);
  if (r->n - r->at < n || memcmp(r->p + r->at, text, n) != 0) return false;
  r->at += n;
  return true;
}

/* One character of the pattern itself. */
static uint32_t next_char(parser *r) {
  unsigned char c = (unsigned char)r->p[r->at];
  size_t len = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  bool good = len > 0 && len <= r->n - r->at;
  uint32_t x = len == 1 ? c : len ? c & (0xFFu >> (len + 1)) : 0;
  for (size_t i = 1; good && i < len; i++) {
    unsigned char d = (unsigned char)r->p[r->at + i];
    good = (d & 0xC0) == 0x80;
    x = x << 6 | (d & 0x3Fu);
  }
  if (good && (x > IJ_CHAR_MAX || (x >= 0xD800 && x <= 0xDFFF) || (len == 3 && x < 0x800) || (len == 4 && x < 0x10000))) good = false;
  if (!good) return refuse(r, IJ_E_ARGUMENT, "this is not UTF-8");
  r->at += len;
  return x;
}

static uint32_t hex(parser *r, int n_digits) {
  uint32_t x = 0;
  for (int i = 0; i < n_digits; i++) {
    char c = peek(r);
    int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (d < 0) return refuse(r, IJ_E_ARGUMENT, "expected a hexadecimal digit");
    x = x * 16 + (uint32_t)d;
    r->at++;
  }
  return x;
}

static uint32_t unicode_escape(parser *r) {
  if (eat(r, "{")) {
    uint32_t x = hex(r, 1);
    for (int i = 1; r->status == IJ_OK && !eat(r, "}"); i++) x = i > 5 ? refuse(r, IJ_E_ARGUMENT, "no such character") : x * 16 + hex(r, 1);
    return x > IJ_CHAR_MAX ? refuse(r, IJ_E_ARGUMENT, "no such character") : x;
  }
  uint32_t x = hex(r, 4);
  if (x < 0xD800 || x > 0xDFFF) return x;
  uint32_t low = x <= 0xDBFF && eat(r, "\\u") ? hex(r, 4) : 0;
  if (low < 0xDC00 || low > 0xDFFF) return refuse(r, IJ_E_UNSUPPORTED, "half of a surrogate pair is no character");
  return 0x10000 + ((x - 0xD800) << 10) + (low - 0xDC00);
}

static void add_named(ij_charset *set, char name) {
  static const ij_range digits[] = {{'0', '9'}}, word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                        space[] = {{9, 13}, {32, 32}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                   {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  char lower = (char)(name | 0x20);
  const ij_range *ranges = lower == 'd' ? digits : lower == 'w' ? word : space;
  size_t n = lower == 'd' ? IJ_COUNT_OF(digits) : lower == 'w' ? IJ_COUNT_OF(word) : IJ_COUNT_OF(space);
  ij_charset named = {0};
  for (size_t i = 0; i < n; i++) ij__charset_add(&named, ranges[i].lo, ranges[i].hi);
  if (name != lower) ij__charset_negate(&named);
  ij__charset_add_set(set, &named);
  ij__charset_free(&named);
}

/* Behind a backslash: one character, or (*named) a set added to `set`. */
static uint32_t escape(parser *r, ij_charset *set, bool in_set, bool *named) {
  char c = peek(r);
  *named = false;
  if (!more(r)) return refuse(r, IJ_E_ARGUMENT, "nothing follows the backslash");
  if (c && strchr("dDwWsS", c)) {
    r->at++;
    *named = true;
    add_named(set, c);
    return 0;
  }
  static const char letters[] = "tnrfv", values[] = "\t\n\r\f\v";
  const char *letter = strchr(letters, c);
  if (c == 'b' && in_set) return r->at++, 8;
  if (c == 'x') return r->at++, hex(r, 2);
  if (c == 'u') return r->at++, unicode_escape(r);
  if (letter && c) return r->at++, (unsigned char)values[letter - letters];
  if (c == '0' && !(r->at + 1 < r->n && r->p[r->at + 1] >= '0' && r->p[r->at + 1] <= '9')) return r->at++, 0;
  if (c == 'p' || c == 'P') return refuse(r, IJ_E_UNSUPPORTED, "classes by Unicode property are not understood; write ranges");
  if (c == 'b' || c == 'B') return refuse(r, IJ_E_UNSUPPORTED, "word boundaries are not understood");
  if (c >= '0' && c <= '9') return refuse(r, IJ_E_UNSUPPORTED, "references to groups are not understood");
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return refuse(r, IJ_E_UNSUPPORTED, "this escape is not understood");
  return next_char(r);
}

static uint32_t parse_set(parser *r) {
  ij_charset set = {0};
  bool negated = eat(r, "^");
  if (peek(r) == ']') refuse(r, IJ_E_UNSUPPORTED, "an empty set, or one that begins with ]: write \\]");
  while (more(r) && peek(r) != ']') {
    bool named = false, named_end = false;
    uint32_t lo = eat(r, "\\") ? escape(r, &set, true, &named) : next_char(r), hi = lo;
    if (more(r) && peek(r) == '-' && r->at + 1 < r->n && r->p[r->at + 1] != ']') {
      r->at++;
      hi = eat(r, "\\") ? escape(r, &set, true, &named_end) : next_char(r);
      if (named || named_end) refuse(r, IJ_E_ARGUMENT, "a range between sets");
      if (hi < lo) refuse(r, IJ_E_ARGUMENT, "a range that ends before it begins");
    }
    if (!named) ij__charset_add(&set, lo, hi);
  }
  if (!eat(r, "]")) refuse(r, IJ_E_ARGUMENT, "the set is not closed");
  if (negated) ij__charset_negate(&set);
  return add_set(r, &set);
}

static uint32_t one_char(parser *r, uint32_t c) {
  ij_charset set = {0};
  ij__charset_add(&set, c, c);
  return add_set(r, &set);
}

/* --------------------------------------------------------------------------------------------------------------- tree */

static uint32_t parse_either(parser *r, int depth);

static uint32_t parse_group(parser *r, int depth) {
  if (depth >= MAX_NEST) return refuse(r, IJ_E_UNSUPPORTED, "groups nest too deep");
  if (eat(r, "?")) {
    if (eat(r, "P<") || (peek(r) == '<' && r->at + 1 < r->n && r->p[r->at + 1] != '=' && r->p[r->at + 1] != '!' && eat(r, "<"))) {
      while (more(r) && peek(r) != '>') r->at++;
      if (!eat(r, ">")) return refuse(r, IJ_E_ARGUMENT, "the name of the group does not end");
    } else if (!eat(r, ":")) {
      return refuse(r, IJ_E_UNSUPPORTED, "looking ahead or behind, flags and conditions are not understood");
    }
  }
  uint32_t inner = parse_either(r, depth + 1);
  if (!eat(r, ")")) return refuse(r, IJ_E_ARGUMENT, "the group is not closed");
  return inner;
}

static uint32_t parse_atom(parser *r, int depth) {
  ij_charset set = {0};
  bool named;
  if (eat(r, "(")) return parse_group(r, depth);
  if (eat(r, "[")) return parse_set(r);
  if (eat(r, "^")) return add_node(r, NODE_BEGIN, 0, 0);
  if (eat(r, "$")) return add_node(r, NODE_END, 0, 0);
  if (eat(r, ".")) {
    static const uint32_t breaks[] = {'\n', '\r', 0x2028, 0x2029};
    for (size_t i = 0; i < IJ_COUNT_OF(breaks); i++) ij__charset_add(&set, breaks[i], breaks[i]);
    ij__charset_negate(&set);
    return add_set(r, &set);
  }
  if (eat(r, "\\")) {
    uint32_t c = escape(r, &set, false, &named);
    if (!named) ij__charset_add(&set, c, c);
    return add_set(r, &set);
  }
  if (peek_in(r, "*+?")) return refuse(r, IJ_E_ARGUMENT, "nothing to repeat");
  return one_char(r, next_char(r));
}

/* {n}, {n,} or {n,m}; anything else in braces is text. */
static bool parse_counts(parser *r, uint32_t *min, uint32_t *max) {
  size_t at = r->at + 1;
  uint32_t counts[2] = {0, 0}, n_digits[2] = {0, 0};
  int i = 0;
  for (; at < r->n && r->p[at] != '}'; at++) {
    char c = r->p[at];
    if (c == ',' && i == 0) i = 1;
    else if (c >= '0' && c <= '9') {
      counts[i] = IJ_MIN(counts[i] * 10 + (uint32_t)(c - '0'), MAX_COUNT + 1u);
      n_digits[i]++;
    } else {
      return false;
    }
  }
  if (at == r->n || (!n_digits[0] && !n_digits[1])) return false;
  if (!n_digits[0]) return refuse(r, IJ_E_UNSUPPORTED, "{,n}: write {0,n}"), false;
  *min = counts[0];
  *max = i == 0 ? counts[0] : n_digits[1] ? counts[1] : IJ_NONE;
  if (*min > MAX_COUNT || (*max != IJ_NONE && *max > MAX_COUNT)) return refuse(r, IJ_E_UNSUPPORTED, "a count above 10000"), false;
  if (*max < *min) return refuse(r, IJ_E_ARGUMENT, "counts in the wrong order"), false;
  r->at = at + 1;
  return true;
}

static uint32_t parse_repeat(parser *r, int depth) {
  bool assertion = peek(r) == '^' || peek(r) == '$';
  uint32_t atom = parse_atom(r, depth), min = 0, max = IJ_NONE;
  bool repeated = true;
  if (!more(r)) return atom;
  if (eat(r, "*")) min = 0;
  else if (eat(r, "+")) min = 1;
  else if (eat(r, "?")) max = 1;
  else repeated = peek(r) == '{' && parse_counts(r, &min, &max);
  if (!repeated || r->status != IJ_OK) return atom;
  if (assertion) return refuse(r, IJ_E_ARGUMENT, "nothing to repeat");
  eat(r, "?"); /* which match is preferred does not change what matches */
  if (peek_in(r, "*+?")) return refuse(r, IJ_E_UNSUPPORTED, "a repetition of a repetition: use a group");
  uint32_t repeat = add_node(r, NODE_REPEAT, atom, 0);
  if (r->status != IJ_OK) return 0;
  r->nodes[repeat].min = min;
  r->nodes[repeat].max = max;
  return repeat;
}

static uint32_t parse_join(parser *r, int depth) {
  uint32_t all = IJ_NONE;
  while (more(r) && peek(r) != '|' && peek(r) != ')') {
    uint32_t one = parse_repeat(r, depth);
    all = all == IJ_NONE ? one : add_node(r, NODE_JOIN, all, one);
  }
  return all == IJ_NONE ? add_node(r, NODE_EMPTY, 0, 0) : all;
}

static uint32_t parse_either(parser *r, int depth) {
  uint32_t all = parse_join(r, depth);
  while (more(r) && eat(r, "|")) {
    uint32_t one = parse_join(r, depth); /* before add_node, which may move the nodes */
    all = add_node(r, NODE_EITHER, all, one);
  }
  return all;
}

/* ------------------------------------------------------------------------------------------------------------ program */

static uint32_t add_step(parser *r, ij_re_step step) {
  ij_re_program *out = r->out;
  if (r->status != IJ_OK) return 0;
  if (out->n_steps >= MAX_STEPS) return refuse(r, IJ_E_UNSUPPORTED, "the expression is too large once its repetitions are written out");
  if (out->n_steps == out->cap_steps) {
    uint32_t cap = out->cap_steps ? 2 * out->cap_steps : 64;
    ij_re_step *steps = ij__realloc(out->steps, cap * sizeof *steps);
    if (!steps) return no_memory(r);
    out->steps = steps;
    out->cap_steps = cap;
  }
  out->steps[out->n_steps] = step;
  return out->n_steps++;
}

/* Steps for a node that go on at `next`; returns the first. Joins and alternatives lean to the left, so that loops replace recursion. */
static uint32_t write_node(parser *r, uint32_t index, uint32_t next) {
  while (r->status == IJ_OK && r->nodes[index].kind == NODE_JOIN) {
    next = write_node(r, r->nodes[index].b, next);
    index = r->nodes[index].a;
  }
  if (r->status != IJ_OK) return 0;
  node n = r->nodes[index];
  switch (n.kind) {
    case NODE_SET: return add_step(r, (ij_re_step){IJ_RE_SET, next, 0, n.a});
    case NODE_BEGIN: return add_step(r, (ij_re_step){IJ_RE_BEGIN, next, 0, 0});
    case NODE_END: return add_step(r, (ij_re_step){IJ_RE_END, next, 0, 0});
    case NODE_EITHER: {
      uint32_t first = write_node(r, n.b, next);
      for (index = n.a; r->status == IJ_OK && r->nodes[index].kind == NODE_EITHER; index = r->nodes[index].a) {
        first = add_step(r, (ij_re_step){IJ_RE_SPLIT, write_node(r, r->nodes[index].b, next), first, 0});
      }
      return add_step(r, (ij_re_step){IJ_RE_SPLIT, write_node(r, index, next), first, 0});
    }
    case NODE_REPEAT: {
      uint32_t at = next;
      if (n.max == IJ_NONE) {
        at = add_step(r, (ij_re_step){IJ_RE_SPLIT, next, next, 0});
        uint32_t body = write_node(r, n.a, at);
        if (r->status == IJ_OK) r->out->steps[at].x = body;
      }
      for (uint32_t i = n.min; n.max != IJ_NONE && i < n.max && r->status == IJ_OK; i++) {
        at = add_step(r, (ij_re_step){IJ_RE_SPLIT, write_node(r, n.a, at), next, 0});
      }
      for (uint32_t i = 0, n_before = IJ_NONE; i < n.min && r->status == IJ_OK && r->out->n_steps != n_before; i++) {
        n_before = r->out->n_steps; /* a part that writes no step is empty however often it is repeated */
        at = write_node(r, n.a, at);
      }
      return at;
    }
    default: return next;
  }
}

static uint32_t write_any(parser *r, uint32_t next) {
  ij_charset all = {0};
  ij__charset_add(&all, 0, IJ_CHAR_MAX);
  uint32_t set = add_set(r, &all);
  if (r->status != IJ_OK) return 0;
  uint32_t loop = add_step(r, (ij_re_step){IJ_RE_SPLIT, next, next, 0});
  uint32_t body = add_step(r, (ij_re_step){IJ_RE_SET, loop, 0, r->nodes[set].a});
  if (r->status == IJ_OK) r->out->steps[loop].x = body;
  return loop;
}

void ij__re_program_free(ij_re_program *p) {
  for (uint32_t i = 0; i < p->n_sets; i++) ij__charset_free(&p->sets[i]);
  ij__free(p->sets);
  ij__free(p->steps);
  *p = (ij_re_program){0};
}

ij_status ij__regex_parse(ij_re_program *out, const char *pattern, size_t n, bool search, const char *where, ij_err *err) {
  parser r = {.p = pattern, .n = n, .out = out, .where = where, .err = err};
  *out = (ij_re_program){0};
  if (n > MAX_PATTERN) return ij__fail(err, IJ_E_UNSUPPORTED, where, "an expression of %zu bytes; the most is %d", n, MAX_PATTERN);
  uint32_t tree = parse_either(&r, 0);
  if (r.status == IJ_OK && r.at < n) refuse(&r, IJ_E_ARGUMENT, "there is no group to close");
  uint32_t end = add_step(&r, (ij_re_step){IJ_RE_MATCH, 0, 0, 0});
  if (search) end = write_any(&r, end);
  uint32_t start = write_node(&r, tree, end);
  if (search) start = write_any(&r, start);
  out->start = start;
  ij__free(r.nodes);
  if (r.status != IJ_OK) ij__re_program_free(out);
  return r.status;
}
