/* schema_string.c: strings: lengths, patterns and formats. Patterns and formats are automata over characters, and all that a list says
 * about its strings is their intersection.
 */
#include <string.h>

#include "grammar/regex.h"
#include "grammar/schema_int.h"

/* Every format is an expression for texts that are certainly of that format; it may leave rare ones out, never the other way. */
#define DATE                                                                                                            \
  "(?:(?:[1-9]\\d{3}|0[1-9]\\d\\d|00[1-9]\\d|000[1-9])-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"                 \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|"                                                     \
  "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define H16 "[0-9A-Fa-f]{1,4}"
#define PATH "[A-Za-z0-9\\-._~!$&'()*+,;=:@/?]"

static const struct {
  const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:\\d{1,4}W|\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D|"
                 "(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)?"
                 "T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S))"},
    {"email", "[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}@" LABEL "(?:\\." LABEL "){0,2}\\.[A-Za-z]{2,10}"},
    {"hostname", LABEL "(?:\\." LABEL "){0,3}"},
    {"ipv4", OCTET "(?:\\." OCTET "){3}"},
    {"ipv6", "(?:" H16 ":){7}" H16 "|(?:" H16 ":){1,6}:" H16 "|(?:" H16 ":){1,4}(?::" H16 "){2}|::(?:" H16 ":){0,5}" H16 "|::"},
    {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    {"uri", "https?://" LABEL "(?:\\." LABEL "){0,3}(?::[1-9]\\d{0,3})?(?:/" PATH "{0,200})?"},
};

typedef struct text_plan {
  uint32_t min, max;
  ij_chardfa d;
  bool has_dfa;
} text_plan;

static bool add_expression(ij_schema *s, const ij_conjunct *c, const char *key, const char *pattern, size_t n, bool search, text_plan *p) {
  ij_chardfa d;
  const char *where = ij__schema_path(s, c->path, key, strlen(key));
  if (s->status != IJ_OK) return false;
  s->status = ij__regex_compile(&d, pattern, n, search, where, s->err);
  if (s->status != IJ_OK) return false;
  if (!ij__schema_work(s, 50 + d.work / 4)) { /* an expression alone has its own bound; this is for many */
    ij__chardfa_free(&d);
    return false;
  }
  if (!p->has_dfa) {
    p->d = d;
    p->has_dfa = true;
    return true;
  }
  s->status = ij__chardfa_intersect(&p->d, &d, where, s->err);
  ij__chardfa_free(&d);
  return s->status == IJ_OK;
}

bool ij__schema_is_text_format(const char *name, size_t n) {
  for (size_t i = 0; i < IJ_COUNT_OF(formats); i++) {
    if (strlen(formats[i].name) == n && memcmp(formats[i].name, name, n) == 0) return true;
  }
  return false;
}

static bool add_format(ij_schema *s, const ij_conjunct *c, text_plan *p) {
  const char *name;
  size_t n;
  char shown[64];
  if (!ij__json_get_string(ij__json_member(c->node, "format"), &name, &n)) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "format",
                                                                                          "expected a string");
  for (size_t i = 0; i < IJ_COUNT_OF(formats); i++) {
    if (strlen(formats[i].name) != n || memcmp(formats[i].name, name, n) != 0) continue;
    return add_expression(s, c, "format", formats[i].pattern, strlen(formats[i].pattern), false, p);
  }
  ij__json_show(shown, sizeof shown, name, n);
  return ij__schema_fail(s, IJ_E_UNSUPPORTED, c->path, "format",
                         "the format %s cannot be enforced (date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri can)",
                             shown);
}

static bool plan_text(ij_schema *s, const ij_conjuncts *list, text_plan *p) {
  const char *pattern;
  size_t n_pattern;
  for (uint32_t i = 0; i < list->n; i++) {
    const ij_conjunct *c = &list->at[i];
    const ij_json_value *v = ij__json_member(c->node, "pattern");
    uint32_t n;
    if (ij__schema_count(s, c, "minLength", &n)) p->min = IJ_MAX(p->min, n);
    if (ij__schema_count(s, c, "maxLength", &n)) p->max = IJ_MIN(p->max, n);
    if (v && !ij__json_get_string(v, &pattern, &n_pattern)) return ij__schema_fail(s, IJ_E_ARGUMENT, c->path, "pattern",
                                                                                   "expected a string");
    if (v && !add_expression(s, c, "pattern", pattern, n_pattern, true, p)) return false;
    if (ij__json_member(c->node, "format") && !add_format(s, c, p)) return false;
  }
  if (s->status != IJ_OK) return false;
  if (p->has_dfa && (p->min > 0 || p->max != IJ_NONE)) s->status = ij__chardfa_bound(&p->d, p->min, p->max, list->at[0].path, s->err);
  if (s->status == IJ_OK && p->has_dfa) ij__schema_work(s, (uint64_t)p->d.n_states * p->d.n_classes / 4);
  return s->status == IJ_OK;
}

bool ij__schema_string(ij_schema *s, const ij_conjuncts *list, ij_rule r) {
  ij_nfa *a = s->nfa;
  text_plan p = {.max = IJ_NONE};
  bool ok = plan_text(s, list, &p);
  if (ok && !p.has_dfa && p.min == 0 && p.max == IJ_NONE) {
    ij__nfa_call(a, r.start, ij__json_part(s->j, IJ_JSON_ANY_STRING), r.end);
  } else if (ok && p.max >= p.min) {
    uint32_t open = ij__nfa_state(a), close = ij__nfa_state(a);
    ij__nfa_bytes(a, r.start, '"', '"', open);
    if (p.has_dfa) ij__chardfa_emit(&p.d, a, open, close, true);
    else ij__nfa_chain(a, open, ij__json_any_char(s->j), p.min, p.max, s->j->reach, close);
    ij__nfa_bytes(a, close, '"', '"', r.end);
  }
  if (p.has_dfa) ij__chardfa_free(&p.d);
  return ok;
}
