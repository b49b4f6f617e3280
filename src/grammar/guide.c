/* guide.c: one turn under constraints: which blocks may follow which, and inside blocks the grammars.
 *
 * The tools of a turn become one small grammar: a rule with all names for the header of a call, and one rule per tool for its payload,
 * which calls the tool's own grammar. Names and payloads are spelled exactly as the family's format spells them.
 */
#include "grammar/guide.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/str.h"
#include "grammar/json_rules.h"
#include "grammar/lazy.h"

enum { MAX_TOOLS = 1024, MAX_NAME = 1024, COMPACT_FRAMES = 4096 };

typedef enum block { IN_HEADER, IN_TEXT, IN_THINK, IN_CALL, BETWEEN, AT_END } block;

typedef struct turn {
  block in;
  bool complete;      /* the grammar in use may end here */
  bool text_done;
  uint32_t n_groups;  /* of guide->groups */
  uint32_t n_header;  /* bytes of the name so far */
  uint32_t n_calls;
} turn;

struct ij_guide {
  ij_trie *trie;
  ij_guide_options o;
  bool loose;         /* nothing but thinking blocks can be forbidden */
  ij_grammar *content;
  ij_grammar *shape;  /* NULL: no calls */
  char **names;       /* [n_tools] */
  size_t *n_names;
  turn t;
  char header[MAX_NAME + 1];
  ij_run run;
  ij_groups groups;
  uint32_t *mask;
  bool mask_valid;
  bool ahead;         /* looking ahead: frames below must stay as they are */
};

ij_guide_options ij_guide_options_default(void) {
  return (ij_guide_options){.struct_size = sizeof(ij_guide_options), .state = IJ_TURN_HEADER, .tool_choice = IJ_TOOLS_AUTO,
                            .parallel = true};
}

/* ------------------------------------------------------------------------------------------------------------- opening */

static ij_status check_options(const ij_guide_options *o, ij_err *err) {
  static const char where[] = "ij_guide_open";
  if (o->struct_size != sizeof *o) return ij__fail(err, IJ_E_ARGUMENT, where, "options are not from ij_guide_options_default");
  if (o->n_tools < 0 || o->n_tools > MAX_TOOLS) return ij__fail(err, IJ_E_ARGUMENT, "tools", "%d tools; at most %d can be guided",
                                                                o->n_tools, MAX_TOOLS);
  if (o->n_tools && !o->tools) return ij__fail(err, IJ_E_ARGUMENT, "tools", "tools must not be NULL");
  if (o->tool_choice == IJ_TOOLS_REQUIRED && o->n_tools == 0) return ij__fail(err, IJ_E_ARGUMENT, "tool_choice",
                                                                              "a call is required but there are no tools");
  if (o->no_thinking && o->state == IJ_TURN_THINK) {
    return ij__fail(err, IJ_E_ARGUMENT, "no_thinking", "the prompt ends inside a thinking block, and thinking is not allowed");
  }
  for (int i = 0; i < o->n_tools; i++) {
    const ij_guided_tool *t = &o->tools[i];
    if (!t->name || t->n_name == 0 || t->n_name > MAX_NAME) {
      return ij__fail(err, IJ_E_ARGUMENT, "tools", "tool %d: a name has 1 to %d bytes", i, MAX_NAME);
    }
    for (int k = 0; k < i; k++) {
      bool same = o->tools[k].n_name == t->n_name && memcmp(o->tools[k].name, t->name, t->n_name) == 0;
      if (same) return ij__fail(err, IJ_E_ARGUMENT, "tools", "tools %d and %d have the same name", k, i);
    }
    if (t->args && t->args->object_root == IJ_NONE) {
      char tool[32];
      snprintf(tool, sizeof tool, "tools[%d]", i);
      return ij__fail(err, IJ_E_ARGUMENT, tool, "the schema of its arguments allows no object, which arguments must be");
    }
  }
  return IJ_OK;
}

/* {"name":"NAME","args": ARGS } */
static void write_payload(ij_json_rules *j, const ij_guided_tool *tool, ij_grammar *args, ij_rule r) {
  ij_nfa *a = j->nfa;
  uint32_t name = ij__nfa_state(a), quoted = ij__nfa_state(a), value = ij__nfa_state(a), close = ij__nfa_state(a);
  uint32_t start = args->nfa.rules[args->object_root].start;
  ij__nfa_text(a, r.start, "{\"name\":", 8, name);
  ij__json_quoted(j, name, tool->name, tool->n_name, quoted);
  ij__nfa_text(a, quoted, ",\"args\":", 8, value);
  ij__nfa_call(a, value, ij__nfa_extern(a, (ij_extern){args, args->object_root, args->nfa.min_bytes[start], args->nfa.height[start]}),
               close);
  ij__nfa_bytes(a, close, '}', '}', r.end);
}

/* Rule 0: any of the names. Rule i + 1: the payload of tool i. */
static ij_status open_shape(ij_guide *g, ij_err *err) {
  ij_grammar *shape = g->shape = ij__alloc_zero(1, sizeof *shape);
  ij_json_rules j;
  if (!shape) return ij__fail_nomem(err, "a guide", sizeof *shape);
  shape->trie = g->trie;
  ij__json_rules_open(&j, &shape->nfa, g->trie->max_bytes);
  for (int i = 0; i <= g->o.n_tools; i++) ij__nfa_rule(&shape->nfa);
  if (shape->nfa.no_memory) return ij__fail_nomem(err, "a guide", sizeof *shape);
  for (int i = 0; i < g->o.n_tools; i++) {
    const ij_guided_tool *t = &g->o.tools[i];
    union { /* grammars are constant but for their caches, which the lock guards */
      const ij_grammar *from;
      ij_grammar *to;
    } args = {t->args ? t->args : g->trie->core};
    ij_rule header = shape->nfa.rules[0];
    ij__nfa_text(&shape->nfa, header.start, t->name, t->n_name, header.end);
    write_payload(&j, t, args.to, shape->nfa.rules[i + 1]);
    g->n_names[i] = t->n_name;
    g->names[i] = ij__strndup(t->name, t->n_name);
    if (!g->names[i]) return ij__fail_nomem(err, "a guide", t->n_name);
  }
  ij_status status = ij__nfa_finish(&shape->nfa, 0, "tools", err);
  if (status != IJ_OK) return status;
  return ij__lazy_open(shape) ? IJ_OK : ij__fail_nomem(err, "a guide", sizeof *shape);
}

static bool start_rule(ij_guide *g, ij_grammar *grammar, uint32_t rule) {
  g->groups.n = 0;
  g->t.complete = false;
  if (!g->ahead) ij__run_truncate(&g->run, 1);
  ij__run_start(&g->run, &g->groups, grammar, rule, &g->t.complete);
  g->t.n_groups = g->groups.n;
  return !g->run.failed;
}

static bool calls_allowed(const ij_guide *g) {
  return g->shape && (g->o.parallel || g->t.n_calls == 0) && !(g->content && g->t.text_done);
}

static bool text_allowed(const ij_guide *g) {
  if (g->o.tool_choice == IJ_TOOLS_REQUIRED) return false;
  if (g->content) return !g->t.text_done && g->t.n_calls == 0;
  return g->o.parallel || g->t.n_calls == 0;
}

static bool thinking_allowed(const ij_guide *g) { return !g->o.no_thinking && g->trie->control[IJ_CONTROL_THINK] >= 0; }

static bool more_allowed(const ij_guide *g) { return calls_allowed(g) || text_allowed(g); }

static bool end_allowed(const ij_guide *g) {
  if (g->o.tool_choice == IJ_TOOLS_REQUIRED) return g->t.n_calls > 0;
  return !g->content || g->t.text_done || g->t.n_calls > 0;
}

/* At the beginning of a block: what its grammar, if any, allows first. */
static bool enter(ij_guide *g, block in) {
  g->t.in = in;
  g->t.n_groups = 0;
  g->t.complete = false;
  if (in == IN_TEXT && g->content) return start_rule(g, g->content, g->content->root);
  if (in == IN_HEADER) {
    g->t.n_header = 0;
    return !calls_allowed(g) || start_rule(g, g->shape, 0);
  }
  return true;
}

static ij_status open_guide(ij_guide *g, const ij_tokenizer *tokenizer, ij_err *err) {
  static const ij_control needed[] = {IJ_CONTROL_END_MESSAGE, IJ_CONTROL_END_TURN, IJ_CONTROL_MODEL, IJ_CONTROL_TEXT};
  ij_status status = ij__trie_get(&g->trie, tokenizer, err);
  if (status != IJ_OK) return status;
  if (g->content && g->content->trie != g->trie) return ij__fail(err, IJ_E_ARGUMENT, "content",
                                                                 "the grammar was made for another tokenizer");
  for (int i = 0; i < g->o.n_tools; i++) {
    const ij_grammar *args = g->o.tools[i].args;
    if (args && args->trie != g->trie) return ij__fail(err, IJ_E_ARGUMENT, "tools",
                                                       "the grammar of tool %d was made for another tokenizer", i);
  }
  bool calls = g->o.n_tools > 0 && g->o.tool_choice != IJ_TOOLS_NONE;
  for (size_t i = 0; i <= IJ_COUNT_OF(needed); i++) {
    if (i == IJ_COUNT_OF(needed) && !calls) break;
    ij_control c = i < IJ_COUNT_OF(needed) ? needed[i] : IJ_CONTROL_CALL;
    if (g->trie->control[c] >= 0) continue;
    return ij__fail(err, IJ_E_UNSUPPORTED, "tokenizer", "the vocabulary has no %s, without which a turn cannot be guided",
                    ij__control_name(c));
  }
  g->mask = ij__alloc_zero(g->trie->n_words, sizeof *g->mask);
  g->names = ij__alloc_zero((size_t)g->o.n_tools + 1, sizeof(char *));
  g->n_names = ij__alloc_zero((size_t)g->o.n_tools + 1, sizeof *g->n_names);
  if (!g->mask || !g->names || !g->n_names || !ij__run_open(&g->run)) return ij__fail_nomem(err, "a guide", g->trie->n_words * 4u);
  if (calls) status = open_shape(g, err);
  if (status != IJ_OK) return status;
  pthread_mutex_lock(&g->trie->lock);
  bool ok = enter(g, g->o.state == IJ_TURN_HEADER ? IN_HEADER : g->o.state == IJ_TURN_TEXT ? IN_TEXT : IN_THINK);
  pthread_mutex_unlock(&g->trie->lock);
  return ok ? IJ_OK : ij__fail_nomem(err, "a guide", sizeof *g);
}

ij_status ij_guide_open(ij_guide **out, const ij_tokenizer *tokenizer, const ij_guide_options *options, ij_err *err) {
  if (!out || !tokenizer) return ij__fail(err, IJ_E_ARGUMENT, "ij_guide_open", "out and tokenizer must not be NULL");
  *out = NULL;
  ij_guide_options o = options ? *options : ij_guide_options_default();
  ij_status status = check_options(&o, err);
  if (status != IJ_OK) return status;
  ij_guide *g = ij__alloc_zero(1, sizeof *g);
  if (!g) return ij__fail_nomem(err, "a guide", sizeof *g);
  union {
    const ij_grammar *from;
    ij_grammar *to;
  } content = {o.content};
  g->o = o;
  g->content = content.to;
  g->loose = !o.content && o.tool_choice == IJ_TOOLS_AUTO && o.n_tools == 0;
  status = open_guide(g, tokenizer, err);
  g->o.tools = NULL; /* copied as far as needed */
  if (status != IJ_OK) ij_guide_close(&g);
  *out = g;
  return status;
}

void ij_guide_close(ij_guide **guide) {
  if (!guide || !*guide) return;
  ij_guide *g = *guide;
  for (int i = 0; g->names && i < g->o.n_tools; i++) ij__free(g->names[i]);
  ij__free(g->names);
  ij__free(g->n_names);
  if (g->shape) ij__lazy_close(g->shape);
  ij__free(g->shape);
  ij__free(g->groups.at);
  ij__free(g->mask);
  ij__run_close(&g->run);
  ij__trie_release(&g->trie);
  ij__free(g);
  *guide = NULL;
}

/* --------------------------------------------------------------------------------------------------------------- masks */

static void allow(ij_guide *g, ij_control c) { ij__mask_set(g->mask, g->trie->control[c]); }

static void allow_ordinary(ij_guide *g) { memcpy(g->mask, g->trie->ordinary, g->trie->n_words * sizeof *g->mask); }

static bool in_grammar(const ij_guide *g) { return g->t.in == IN_CALL || (g->t.in == IN_TEXT && g->content); }

static void fill_mask(ij_guide *g) {
  memset(g->mask, 0, g->trie->n_words * sizeof *g->mask);
  switch (g->t.in) {
    case IN_HEADER:
      if (g->t.n_header == 0 && text_allowed(g)) allow(g, IJ_CONTROL_TEXT);
      if (g->t.n_header == 0 && thinking_allowed(g)) allow(g, IJ_CONTROL_THINK);
      ij__mask_groups(&g->run, &g->groups, g->t.n_groups, g->mask);
      if (g->t.complete) allow(g, IJ_CONTROL_CALL);
      break;
    case IN_TEXT:
    case IN_CALL:
      if (!in_grammar(g)) allow_ordinary(g);
      else ij__mask_groups(&g->run, &g->groups, g->t.n_groups, g->mask);
      if (!in_grammar(g) || g->t.complete) allow(g, IJ_CONTROL_END_MESSAGE);
      break;
    case IN_THINK:
      allow_ordinary(g);
      allow(g, IJ_CONTROL_END_MESSAGE);
      break;
    case BETWEEN:
      if (more_allowed(g)) allow(g, IJ_CONTROL_MODEL);
      if (end_allowed(g)) allow(g, IJ_CONTROL_END_TURN);
      break;
    case AT_END:
      allow(g, IJ_CONTROL_END_TURN);
      break;
  }
  if (g->run.failed) { /* no memory: the turn can only end, and accepting tells why */
    memset(g->mask, 0, g->trie->n_words * sizeof *g->mask);
    allow(g, IJ_CONTROL_END_TURN);
  }
}

const uint32_t *ij_guide_mask(ij_guide *g) {
  if (g->loose && !g->o.no_thinking) return NULL;
  if (g->mask_valid) return g->mask;
  pthread_mutex_lock(&g->trie->lock);
  if (g->loose) {
    int32_t think = g->trie->control[IJ_CONTROL_THINK];
    memset(g->mask, 0xFF, g->trie->n_words * sizeof *g->mask);
    if (think >= 0) g->mask[think / 32] &= ~(UINT32_C(1) << (think % 32));
  } else {
    fill_mask(g);
  }
  pthread_mutex_unlock(&g->trie->lock);
  g->mask_valid = true;
  return g->mask;
}

/* ------------------------------------------------------------------------------------------------------------ accepting */

/* Moves on over bytes; false, and nothing changed, when they do not fit. */
static bool accept_bytes(ij_guide *g, const unsigned char *bytes, uint32_t n) {
  uint32_t first = 0, count = g->t.n_groups;
  bool complete = false;
  g->groups.n = count;
  for (uint32_t i = 0; i < n && !g->run.failed; i++) {
    uint32_t base = g->groups.n;
    complete = false;
    ij__run_step(&g->run, &g->groups, first, count, bytes[i], &complete);
    first = base;
    count = g->groups.n - base;
    if (count == 0 && (i + 1 < n || !complete)) return false;
  }
  if (g->run.failed) return false;
  if (count) memmove(g->groups.at, g->groups.at + first, count * sizeof *g->groups.at);
  g->groups.n = g->t.n_groups = count;
  g->t.complete = complete;
  if (g->run.n_frames > COMPACT_FRAMES && !g->ahead) ij__run_compact(&g->run, g->groups.at, count);
  return true;
}

static int find_tool(const ij_guide *g) {
  for (int i = 0; i < g->o.n_tools; i++) {
    if (g->n_names[i] == g->t.n_header && memcmp(g->names[i], g->header, g->t.n_header) == 0) return i;
  }
  return -1;
}

static bool accept_control(ij_guide *g, int32_t id) {
  const int32_t *control = g->trie->control;
  turn *t = &g->t;
  switch (t->in) {
    case IN_HEADER:
      if (id == control[IJ_CONTROL_CALL] && t->complete && t->n_header) {
        t->in = IN_CALL;
        return start_rule(g, g->shape, (uint32_t)find_tool(g) + 1);
      }
      if (t->n_header) return false;
      if (id == control[IJ_CONTROL_TEXT] && text_allowed(g)) return enter(g, IN_TEXT);
      return id == control[IJ_CONTROL_THINK] && thinking_allowed(g) && enter(g, IN_THINK);
    case IN_TEXT:
    case IN_CALL:
    case IN_THINK:
      if (id != control[IJ_CONTROL_END_MESSAGE] || (in_grammar(g) && !t->complete)) return false;
      if (t->in == IN_TEXT) t->text_done = true;
      if (t->in == IN_CALL) t->n_calls++;
      return enter(g, BETWEEN);
    case BETWEEN:
      if (id == control[IJ_CONTROL_MODEL] && more_allowed(g)) return enter(g, IN_HEADER);
      return id == control[IJ_CONTROL_END_TURN] && end_allowed(g) && enter(g, AT_END);
    case AT_END: break;
  }
  return id == control[IJ_CONTROL_END_TURN];
}

static bool accept_id(ij_guide *g, int32_t id) {
  const ij_trie *t = g->trie;
  if (!ij__mask_has(t->ordinary, id)) return accept_control(g, id);
  const unsigned char *bytes = t->bytes + t->offsets[id];
  uint32_t n = t->offsets[id + 1] - t->offsets[id];
  if (g->t.in == IN_THINK || (g->t.in == IN_TEXT && !g->content)) return true;
  if (g->t.in == IN_HEADER) {
    if (g->t.n_header + n > MAX_NAME || !accept_bytes(g, bytes, n)) return false;
    memcpy(g->header + g->t.n_header, bytes, n);
    g->t.n_header += n;
    return true;
  }
  return in_grammar(g) && accept_bytes(g, bytes, n);
}

ij_status ij_guide_accept(ij_guide *g, int32_t id, ij_err *err) {
  if (id < 0 || id >= g->trie->n_ids) return ij__fail(err, IJ_E_ARGUMENT, "ij_guide_accept", "id %d is outside the vocabulary", id);
  if (g->loose) {
    if (!g->o.no_thinking || id != g->trie->control[IJ_CONTROL_THINK]) return IJ_OK;
  } else {
    pthread_mutex_lock(&g->trie->lock);
    bool ok = accept_id(g, id);
    pthread_mutex_unlock(&g->trie->lock);
    if (ok) {
      g->mask_valid = false;
      return IJ_OK;
    }
    if (g->run.failed) return ij__fail_nomem(err, "a guide", g->run.n_frames * sizeof(ij_frame));
  }
  return ij__fail(err, IJ_E_ARGUMENT, "ij_guide_accept", "id %d is not allowed here", id);
}

/* ------------------------------------------------------------------------------------------------------- looking ahead */

static int32_t only_bit(const ij_guide *g) {
  int32_t found = -1;
  for (uint32_t i = 0; i < g->trie->n_words; i++) {
    uint32_t bits = g->mask[i];
    if (!bits) continue;
    if (found >= 0 || (bits & (bits - 1))) return -1;
    found = (int32_t)(32 * i) + __builtin_ctz(bits);
  }
  return found;
}

int ij_guide_forced(ij_guide *g, int32_t *ids, int cap) {
  ij_group *saved = NULL;
  turn t = g->t;
  char header[MAX_NAME + 1];
  uint32_t n_frames = g->run.n_frames;
  int n = 0;
  if (g->loose || cap <= 0 || g->t.in == AT_END) return 0;
  if (t.n_groups) {
    saved = ij__alloc_array(t.n_groups, sizeof *saved);
    if (!saved) return 0;
    memcpy(saved, g->groups.at, t.n_groups * sizeof *saved);
  }
  memcpy(header, g->header, sizeof header);
  pthread_mutex_lock(&g->trie->lock);
  g->ahead = true;
  while (n < cap && g->t.in != AT_END) {
    if (!g->mask_valid) fill_mask(g);
    g->mask_valid = true;
    int32_t id = g->run.failed ? -1 : only_bit(g);
    if (id < 0 || !accept_id(g, id)) break;
    g->mask_valid = false;
    ids[n++] = id;
  }
  g->ahead = false;
  ij__run_truncate(&g->run, n_frames);
  pthread_mutex_unlock(&g->trie->lock);
  if (n > 0) g->mask_valid = false;
  if (t.n_groups) memcpy(g->groups.at, saved, t.n_groups * sizeof *saved);
  memcpy(g->header, header, sizeof header);
  g->t = t;
  ij__free(saved);
  return n;
}

/* The byte after which the least is left to say. */
static int32_t nearest_byte(ij_guide *g) {
  uint32_t best = IJ_NONE;
  int32_t id = -1;
  for (unsigned b = 0; b < 256; b++) {
    bool complete = false;
    g->groups.n = g->t.n_groups;
    ij__run_step(&g->run, &g->groups, 0, g->t.n_groups, (uint8_t)b, &complete);
    uint32_t left = complete ? 0 : IJ_NONE;
    for (uint32_t i = g->t.n_groups; i < g->groups.n; i++) left = IJ_MIN(left, ij__run_distance(&g->run, &g->groups.at[i]));
    if (left >= best) continue;
    best = left;
    id = g->trie->nodes[g->trie->child_start[b]].id;
  }
  g->groups.n = g->t.n_groups;
  return id;
}

int32_t ij__guide_way_out(ij_guide *g) {
  const int32_t *control = g->trie->control;
  if (g->loose) return -1;
  bool grammar = g->t.in == IN_HEADER ? g->t.n_header || !text_allowed(g) : in_grammar(g);
  if (grammar && !g->t.complete) {
    pthread_mutex_lock(&g->trie->lock);
    int32_t id = nearest_byte(g);
    pthread_mutex_unlock(&g->trie->lock);
    return id;
  }
  switch (g->t.in) {
    case IN_HEADER: return grammar ? control[IJ_CONTROL_CALL] : control[IJ_CONTROL_TEXT];
    case BETWEEN: return end_allowed(g) ? control[IJ_CONTROL_END_TURN] : control[IJ_CONTROL_MODEL];
    case AT_END: return control[IJ_CONTROL_END_TURN];
    default: return control[IJ_CONTROL_END_MESSAGE];
  }
}
