/* bench_grammar.c: what grammars cost. bench_grammar VOCABULARY
 *
 * For each schema: the time to compile it, and the time of masks along a text that follows it (in the vocabulary's own tokens), the first
 * time in a fresh grammar and again when its states are known. Processor time of one thread, so that what else runs matters little.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "inkjet_chat.h"

static const struct {
  const char *name, *source, *text;
  bool regex;
} cases[] = {
    {"any object", "", "{\"title\": \"A day in Paris\", \"stops\": [{\"name\": \"Louvre\", \"hours\": 2.5, \"open\": true}, {\"name\": \"Caf\xC3\xA9 de Flore\", \"hours\": 1, \"tags\": [\"coffee\", \"lunch\", null]}], \"note\": \"It may rain; take an umbrella.\"}", false},
    {"weather call", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"unit\":{\"enum\":[\"celsius\",\"fahrenheit\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"city\",\"unit\",\"days\"],\"additionalProperties\":false}",
     "{\"city\":\"San Francisco\",\"unit\":\"celsius\",\"days\":7}", false},
    {"article", "{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\",\"maxLength\":80},\"author\":{\"$ref\":\"#/$defs/person\"},\"reviewers\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/person\"},\"maxItems\":5},\"published\":{\"type\":\"string\",\"format\":\"date-time\"},\"id\":{\"type\":\"string\",\"format\":\"uuid\"},\"body\":{\"type\":\"string\",\"minLength\":20,\"maxLength\":4000},\"score\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1}},\"required\":[\"title\",\"author\",\"reviewers\",\"published\",\"id\",\"body\",\"score\"],\"$defs\":{\"person\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"email\":{\"type\":\"string\",\"format\":\"email\"}},\"required\":[\"name\",\"email\"]}}}",
     "{\"title\": \"Tides and the moon, explained to the patient reader\", \"author\": {\"name\": \"Ada Lovelace\", \"email\": \"ada@example.org\"}, \"reviewers\": [{\"name\": \"Mary Somerville\", \"email\": \"mary.s@example.com\"}], \"published\": \"2026-03-01T12:30:00Z\", \"id\": \"123e4567-e89b-12d3-a456-426614174000\", \"body\": \"The water of the sea follows the moon, but not at once: coasts, depths and winds all have their say. A table of tides is therefore made from years of measurements and not from the sky alone.\", \"score\": 0.87}", false},
    {"short pattern", "{\"type\":\"object\",\"properties\":{\"slug\":{\"type\":\"string\",\"pattern\":\"^[a-z0-9-]{1,64}$\"},\"line\":{\"type\":\"string\",\"pattern\":\"^.{1,120}$\"}},\"required\":[\"slug\",\"line\"]}",
     "{\"slug\":\"a-day-in-paris-with-children-and-rain\",\"line\":\"Take the first train, walk along the river, and have lunch where it is warm and not too loud.\"}", false},
    {"recursive tree", "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\"},\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}},\"required\":[\"label\",\"children\"],\"additionalProperties\":false}}}",
     "{\"label\": \"root\", \"children\": [{\"label\": \"left\", \"children\": [{\"label\": \"leaf one\", \"children\": []}]}, {\"label\": \"right\", \"children\": []}]}", false},
    {"phone (regex)", "\\+[1-9][0-9]{0,2} \\([0-9]{3}\\) [0-9]{3}-[0-9]{4}", "+1 (415) 555-0199", true},
    {"prose (regex)", "(?:[A-Z][^.!?\\n]{1,200}[.!?] ?){1,4}", "The water of the sea follows the moon. It does so late! Why is that?",
     true},
};

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const ij_err *err) {
  fprintf(stderr, "%s: %s\n", err->where, err->message);
  return 1;
}

typedef struct pass {
  double total, most, accept;
} pass;

/* One text under one grammar; false when the text does not follow it. */
static bool run(const ij_tokenizer *vocab, const ij_grammar *g, const int32_t *ids, size_t n, pass *p) {
  ij_guide *guide = NULL;
  ij_guide_options o = ij_guide_options_default();
  o.state = IJ_TURN_TEXT;
  o.content = g;
  *p = (pass){0};
  bool ok = ij_guide_open(&guide, vocab, &o, NULL) == IJ_OK;
  for (size_t i = 0; ok && i < n; i++) {
    double start = seconds();
    const uint32_t *mask = ij_guide_mask(guide);
    double took = seconds() - start;
    p->total += took;
    if (took > p->most) p->most = took;
    ok = mask[ids[i] / 32] >> (ids[i] % 32) & 1;
    start = seconds();
    ok = ok && ij_guide_accept(guide, ids[i], NULL) == IJ_OK;
    p->accept += seconds() - start;
  }
  ij_guide_close(&guide);
  return ok;
}

int main(int argc, char **argv) {
  enum { CAP = 4096, WARM = 20 };
  static int32_t ids[CAP];
  ij_tokenizer *vocab = NULL;
  ij_grammar *core = NULL;
  ij_err err;
  if (argc != 2) return fputs("usage: bench_grammar VOCABULARY\n", stderr), 2;
  if (ij_tokenizer_open(&vocab, argv[1], &err) != IJ_OK) return fail(&err);
  size_t before = ij__alloc_bytes();
  double start = seconds();
  if (ij_grammar_json(&core, vocab, NULL, 0, &err) != IJ_OK) return fail(&err);
  printf("token tree   %8.1f ms, %.1f MB, once per vocabulary\n\n", 1e3 * (seconds() - start), (double)(ij__alloc_bytes() - before) / 1e6);
  printf("%-16s %7s %12s %12s %12s %12s %12s %9s\n", "", "tokens", "compile ms", "first, mean", "first, most", "again, mean",
         "again, most", "memory kB");
  for (size_t c = 0; c < IJ_COUNT_OF(cases); c++) {
    ij_grammar *g = NULL;
    size_t n = 0, n_source = strlen(cases[c].source);
    pass first, again = {0};
    if (ij_encode(vocab, cases[c].text, strlen(cases[c].text), false, ids, CAP, &n, &err) != IJ_OK) return fail(&err);
    before = ij__alloc_bytes();
    start = seconds();
    ij_status status = (cases[c].regex ? ij_grammar_regex : ij_grammar_json)(&g, vocab, cases[c].source, n_source, &err);
    double compile = seconds() - start;
    if (status != IJ_OK) return fail(&err);
    bool ok = run(vocab, g, ids, n, &first);
    for (int i = 0; ok && i < WARM; i++) {
      pass p;
      ok = run(vocab, g, ids, n, &p);
      again.total += p.total / WARM;
      again.most = i == 0 || p.most < again.most ? p.most : again.most;
    }
    if (!ok) return fprintf(stderr, "%s: the text does not follow the grammar\n", cases[c].name), 1;
    printf("%-16s %7zu %12.3f %9.1f us %9.1f us %9.1f us %9.1f us %9.0f\n", cases[c].name, n, 1e3 * compile, 1e6 * first.total / (double)n,
           1e6 * first.most,
           1e6 * again.total / (double)n, 1e6 * again.most, (double)(ij__alloc_bytes() - before) / 1e3);
    ij_grammar_close(&g);
  }
  ij_grammar_close(&core);
  ij_tokenizer_close(&vocab);
  return 0;
}
