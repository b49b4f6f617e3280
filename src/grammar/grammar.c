/* grammar.c: opening and closing a grammar: source text to rules, rules to an automaton that can run. */
#include <string.h>

#include "core/alloc.h"
#include "grammar/lazy.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

enum { MAX_SCHEMA_BYTES = 1 << 20 };

static ij_status begin(ij_grammar **g, const ij_tokenizer *tokenizer, ij_err *err) {
  *g = ij__alloc_zero(1, sizeof **g);
  if (!*g) return ij__fail_nomem(err, "a grammar", sizeof **g);
  ij_status status = ij__trie_get(&(*g)->trie, tokenizer, err);
  (*g)->shares_trie = status == IJ_OK;
  return status;
}

/* With the rules there and root, object_root set. */
static ij_status complete(ij_grammar *g, const char *where, ij_err *err) {
  ij_status status = ij__nfa_finish(&g->nfa, g->root, where, err);
  if (status != IJ_OK) return status;
  if (g->object_root != IJ_NONE && g->nfa.min_bytes[g->nfa.rules[g->object_root].start] == IJ_NONE) g->object_root = IJ_NONE;
  return ij__lazy_open(g) ? IJ_OK : ij__fail_nomem(err, "a grammar", g->nfa.n_states * 8);
}

static void close_grammar(ij_grammar *g) {
  if (!g) return;
  ij__lazy_close(g);
  if (g->shares_trie) ij__trie_release(&g->trie);
  ij__free(g);
}

ij_status ij__core_open(ij_grammar **out, ij_trie *trie, ij_err *err) {
  ij_grammar *g = ij__alloc_zero(1, sizeof *g);
  ij_json_rules rules;
  if (!g) return ij__fail_nomem(err, "a grammar", sizeof *g);
  g->trie = trie;
  g->root = IJ_JSON_ANY_VALUE;
  g->object_root = IJ_JSON_ANY_OBJECT;
  ij__json_rules_open(&rules, &g->nfa, trie->max_bytes);
  ij__json_make_core(&rules);
  ij_status status = complete(g, "JSON", err);
  if (status == IJ_OK) *out = g;
  else close_grammar(g);
  return status;
}

void ij__core_close(ij_grammar **core) {
  close_grammar(*core);
  *core = NULL;
}

static ij_status compile_json(ij_grammar *g, const char *schema, size_t n_bytes, ij_err *err) {
  ij_json_rules rules;
  ij_json *doc = NULL;
  ij__json_rules_open(&rules, &g->nfa, g->trie->max_bytes);
  rules.core_grammar = g->trie->core;
  rules.core = &g->trie->core->nfa;
  if (n_bytes == 0) {
    uint32_t rule = ij__nfa_rule(&g->nfa);
    if (g->nfa.no_memory) return ij__fail_nomem(err, "a grammar", sizeof *g);
    ij__nfa_call(&g->nfa, g->nfa.rules[rule].start, ij__json_part(&rules, IJ_JSON_ANY_OBJECT), g->nfa.rules[rule].end);
    g->root = g->object_root = rule;
    return IJ_OK;
  }
  if (n_bytes > MAX_SCHEMA_BYTES) return ij__fail(err, IJ_E_UNSUPPORTED, "#", "a schema of %zu bytes; the most is %d", n_bytes,
                                                  MAX_SCHEMA_BYTES);
  ij_status status = ij__json_parse(&doc, schema, n_bytes, "#", err);
  ij_json_type type = ij__json_type_of(ij__json_root(doc));
  if (status == IJ_OK && type != IJ_JSON_OBJECT && type != IJ_JSON_BOOL) {
    status = ij__fail(err, IJ_E_ARGUMENT, "#", "expected a schema (an object or a boolean), found %s", ij__json_type_name(type));
  }
  if (status == IJ_OK) status = ij__schema_compile(&rules, ij__json_root(doc), &g->root, &g->object_root, err);
  ij__json_free(&doc);
  return status;
}

ij_status ij_grammar_json(ij_grammar **out, const ij_tokenizer *tokenizer, const char *schema, size_t n_bytes, ij_err *err) {
  if (!out || !tokenizer || (!schema && n_bytes)) return ij__fail(err, IJ_E_ARGUMENT, "ij_grammar_json",
                                                                  "out, tokenizer and schema must not be NULL");
  *out = NULL;
  ij_grammar *g = NULL;
  ij_status status = begin(&g, tokenizer, err);
  if (status == IJ_OK) status = compile_json(g, schema, n_bytes, err);
  if (status == IJ_OK) status = complete(g, "#", err);
  if (status != IJ_OK) ij_grammar_close(&g);
  *out = g;
  return status;
}

void ij_grammar_close(ij_grammar **grammar) {
  if (!grammar || !*grammar) return;
  close_grammar(*grammar);
  *grammar = NULL;
}

/* What finish and lazy_open add to a state: distance, height, run and its class, class of masks. */
size_t ij_grammar_bytes(const ij_grammar *g) {
  const ij_nfa *a = &g->nfa;
  size_t n = sizeof *g + a->cap_states * (size_t)(4 + 4 + 1) + a->n_states * (size_t)(4 + 2 + 1 + 4 + 4) + a->n_class_edge * sizeof(uint32_t);
  n += a->cap_edges * sizeof *a->edges + a->cap_rules * (sizeof *a->rules + sizeof(uint32_t)) + a->cap_classes * sizeof *a->classes;
  for (uint32_t i = 0; i < a->n_classes; i++) {
    n += a->classes[i].cap_states * sizeof *a->classes->states + a->classes[i].cap_edges * sizeof *a->classes->edges;
  }
  return n;
}

static ij_status compile_regex(ij_grammar *g, const char *pattern, size_t n_bytes, ij_err *err) {
  ij_chardfa d;
  ij_status status = ij__regex_compile(&d, pattern, n_bytes, false, "pattern", err);
  if (status != IJ_OK) return status;
  uint32_t rule = ij__nfa_rule(&g->nfa);
  if (!g->nfa.no_memory) ij__chardfa_emit(&d, &g->nfa, g->nfa.rules[rule].start, g->nfa.rules[rule].end, false);
  g->root = rule;
  g->object_root = IJ_NONE;
  ij__chardfa_free(&d);
  return IJ_OK;
}

ij_status ij_grammar_regex(ij_grammar **out, const ij_tokenizer *tokenizer, const char *pattern, size_t n_bytes, ij_err *err) {
  if (!out || !tokenizer || (!pattern && n_bytes)) return ij__fail(err, IJ_E_ARGUMENT, "ij_grammar_regex",
                                                                   "out, tokenizer and pattern must not be NULL");
  *out = NULL;
  ij_grammar *g = NULL;
  ij_status status = begin(&g, tokenizer, err);
  if (status == IJ_OK) status = compile_regex(g, pattern, n_bytes, err);
  if (status == IJ_OK) status = complete(g, "pattern", err);
  if (status != IJ_OK) ij_grammar_close(&g);
  *out = g;
  return status;
}
