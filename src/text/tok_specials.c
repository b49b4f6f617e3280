/* tok_specials.c: the control tokens of the family.
 *
 * The file always speaks first. The table below only refuses a file that gives a known string another id of the family's range, names
 * the slots that a full vocabulary leaves open (a rank file holds none at all), and lets a known string be found under an older spelling.
 * A small model has the first ranks only and its control tokens right behind them, under the family's names and its own ids.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "text/tok_int.h"

typedef struct known_special {
  int32_t id;
  bool pinned; /* seen in several independent sources: another id in a file is an error */
  const char *name;
} known_special;

static const known_special known_specials[] = {
    {199999, true, "<|endoftext|>"},
    {200000, true, "<|message_user|>"},
    {200001, true, "<|message_model|>"},
    {200002, true, "<|message_system|>"},
    {200003, true, "<|message_tool|>"},
    {200004, true, "<|content_text|>"},
    {200005, true, "<|content_image|>"},
    {200006, true, "<|content_model_end_sampling|>"},
    {200008, true, "<|content_thinking|>"},
    {200010, true, "<|end_message|>"},
    {200020, true, "<|content_audio_input|>"},
    {200022, false, "<|content_tool_error|>"},
    {200024, true, "<|content_xml|>"},
    {200043, true, "<|audio_end|>"},
    {200049, true, "<|content_invoke_tool_json|>"},
    {200053, true, "<|unused_200053|>"},
    {200054, true, "<|unused_200054|>"},
    {200057, false, "<|content_invoke_tool_text|>"},
};

static const known_special *find_known(uint32_t id) {
  for (size_t i = 0; i < IJ_COUNT_OF(known_specials); i++) {
    if ((uint32_t)known_specials[i].id == id) return &known_specials[i];
  }
  return NULL;
}

static bool is_added(const ij_tok *t, uint32_t id) { return id < t->n_ids && t->kinds[id] >= IJ_TOK_ADDED; }

static bool entry_is(const ij_tok *t, uint32_t id, const char *name) {
  ij_tok_entry e = t->entries[id];
  return e.len == strlen(name) && memcmp(t->blob + e.offset, name, e.len) == 0;
}

static ij_status check_pins(const ij_tok *t, const char *where, ij_err *err) {
  ij_findings wrong = {0};
  uint32_t small = t->n_ordinary < IJ_TOK_N_ORDINARY ? IJ_TOK_N_ORDINARY : 0; /* below it, a shortened vocabulary may number as it likes */
  for (uint32_t id = 0; id < t->n_ids; id++) {
    if (!is_added(t, id)) continue;
    for (size_t k = 0; k < IJ_COUNT_OF(known_specials); k++) {
      const known_special *known = &known_specials[k];
      if (known->pinned && (uint32_t)known->id != id && id >= small && entry_is(t, id, known->name)) {
        ij__findings_add(&wrong, "%s is %u here, %d in the family", known->name, id, known->id);
      }
    }
  }
  if (wrong.n == 0) return IJ_OK;
  return ij__fail(err, IJ_E_FORMAT, where, "%d special tokens have ids that this family does not give them: %s", wrong.n, wrong.text);
}

/* Only a vocabulary with exactly the family's ordinary tokens has the family's specials; a shortened one has those of its file. */
static ij_status fill_slots(ij_tok *t, const char *where, ij_err *err) {
  if (t->n_ordinary != IJ_TOK_N_ORDINARY) return IJ_OK;
  for (uint32_t id = IJ_TOK_N_ORDINARY; id < IJ_TOK_N_FULL; id++) {
    if (id < t->n_ids && t->kinds[id] != IJ_TOK_ABSENT) continue;
    char unused[32];
    const known_special *known = find_known(id);
    snprintf(unused, sizeof unused, "<|unused_%u|>", id);
    const char *name = known ? known->name : unused;
    ij_status s = ij__tok_add(t, id, IJ_TOK_SPECIAL, (const unsigned char *)name, strlen(name), where, err);
    if (s != IJ_OK) return s;
  }
  return IJ_OK;
}

static int compare_names(const void *a, const void *b) {
  const ij_tok_name *x = a, *y = b;
  int c = memcmp(x->bytes, y->bytes, IJ_MIN(x->len, y->len));
  if (c) return c;
  return x->len < y->len ? -1 : x->len > y->len;
}

static int32_t find_sorted(const ij_tok_name *names, size_t n, const char *name, size_t len) {
  ij_tok_name key = {name, (uint32_t)len, 0};
  const ij_tok_name *found = n ? bsearch(&key, names, n, sizeof *names, compare_names) : NULL;
  return found ? found->id : -1;
}

/* A pinned id that the file spells otherwise is also found, and parsed, under the name known here. */
static void add_aliases(ij_tok *t) {
  uint32_t n = t->n_names;
  for (size_t k = 0; k < IJ_COUNT_OF(known_specials); k++) {
    const known_special *known = &known_specials[k];
    if (!known->pinned || !is_added(t, (uint32_t)known->id) || t->kinds[known->id] != IJ_TOK_SPECIAL) continue;
    if (find_sorted(t->names, n, known->name, strlen(known->name)) >= 0) continue;
    t->names[t->n_names++] = (ij_tok_name){known->name, (uint32_t)strlen(known->name), known->id};
  }
  if (t->n_names > n) qsort(t->names, t->n_names, sizeof *t->names, compare_names);
}

ij_status ij__tok_finish_specials(ij_tok *t, const char *where, ij_err *err) {
  ij_status status = check_pins(t, where, err);
  if (status == IJ_OK) status = fill_slots(t, where, err);
  if (status != IJ_OK) return status;
  size_t n = 0;
  for (uint32_t id = 0; id < t->n_ids; id++) n += is_added(t, id);
  t->names = ij__alloc_array(n + IJ_COUNT_OF(known_specials), sizeof *t->names);
  if (!t->names) return ij__fail_nomem(err, "the special tokens", n * sizeof *t->names);
  for (uint32_t id = 0; id < t->n_ids; id++) { /* the blob no longer moves */
    if (!is_added(t, id)) continue;
    t->names[t->n_names++] = (ij_tok_name){(const char *)t->blob + t->entries[id].offset, t->entries[id].len, (int32_t)id};
  }
  if (t->n_names) qsort(t->names, t->n_names, sizeof *t->names, compare_names);
  for (uint32_t i = 1; i < t->n_names; i++) {
    if (compare_names(&t->names[i - 1], &t->names[i]) != 0) continue;
    return ij__fail(err, IJ_E_FORMAT, where, "tokens %d and %d are both spelled \"%.*s\"", t->names[i - 1].id, t->names[i].id,
                    (int)IJ_MIN(t->names[i].len, 200u), t->names[i].bytes);
  }
  add_aliases(t);
  for (uint32_t i = 0; i < t->n_names; i++) t->name_start[(unsigned char)t->names[i].bytes[0]] = true;
  return IJ_OK;
}

int32_t ij__tok_find_special(const ij_tok *t, const char *name) { return find_sorted(t->names, t->n_names, name, strlen(name)); }
