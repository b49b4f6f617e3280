/* tok.c: opening a vocabulary wherever it lies, and looking things up in it.
 *
 * The form of a file is told from its first character: JSON starts with a bracket, which base64 does not have. What is named *.json and
 * starts otherwise is refused as JSON.
 */
#include "text/tok.h"

#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "io/ckpt.h"
#include "text/tok_int.h"

enum { MAX_FILE_BYTES = 1 << 28 };

static bool is_json(const char *bytes, size_t n, const char *path) {
  size_t i = 0;
  while (i < n && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n')) i++;
  return (i < n && (bytes[i] == '{' || bytes[i] == '[')) || ij__str_ends_with(path, ".json");
}

/* Takes over t once `status`, that of reading it, has been IJ_OK so far. */
static ij_status finish(ij_tok **out, ij_tok *t, ij_status status, const char *where, ij_err *err) {
  if (status == IJ_OK) status = ij__tok_finish_specials(t, where, err);
  if (status != IJ_OK) ij__tok_close(&t);
  *out = t;
  return status;
}

ij_status ij__tok_open_bytes(ij_tok **out, const char *bytes, size_t n, const char *where, ij_err *err) {
  *out = NULL;
  ij_tok *t = ij__alloc_zero(1, sizeof *t);
  if (!t) return ij__fail_nomem(err, where, sizeof *t);
  ij_status s = is_json(bytes, n, where) ? ij__tok_read_json(t, bytes, n, where, err) : ij__tok_read_ranks(t, bytes, n, where, err);
  return finish(out, t, s, where, err);
}

ij_status ij__tok_open_gguf(ij_tok **out, const ij_gguf *g, ij_err *err) {
  *out = NULL;
  ij_tok *t = ij__alloc_zero(1, sizeof *t);
  if (!t) return ij__fail_nomem(err, g->path, sizeof *t);
  return finish(out, t, ij__tok_read_gguf(t, g, err), g->path, err);
}

/* The tokenizer of a GGUF model: any of its files, or a folder that holds it. *present: the model could be opened, and has one. */
static ij_status open_model(ij_tok **out, const char *path, bool *present, ij_err *err) {
  ij_ckpt *c = NULL;
  *present = false;
  ij_status status = ij__ckpt_open(&c, path, err);
  if (status != IJ_OK) return status;
  const ij_gguf *g = ij__ckpt_gguf(c);
  *present = g && ij__tok_in_gguf(g);
  status = *present ? ij__tok_open_gguf(out, g, err)
                    : ij__fail(err, IJ_E_FORMAT, ij__ckpt_config_path(c), "no tokenizer in this file: it has no keys tokenizer.ggml.*");
  ij__ckpt_close(&c);
  return status;
}

static ij_status open_file(ij_tok **out, const char *path, ij_err *err) {
  char *bytes = NULL;
  size_t n = 0;
  ij_status status = ij__os_read_file(path, MAX_FILE_BYTES, &bytes, &n, err);
  if (status != IJ_OK) return status;
  status = ij__tok_open_bytes(out, bytes, n, path, err);
  ij__free(bytes);
  return status;
}

/* The only *.tiktoken file of a folder, as a path from ij__alloc in *out. */
static ij_status find_tiktoken(const char *folder, char **out, ij_err *err) {
  char **names = NULL;
  int n = 0;
  ij_status status = ij__os_list_dir(folder, ".tiktoken", &names, &n, err);
  if (status != IJ_OK) return status;
  if (n == 0) {
    status = ij__fail(err, IJ_E_IO, folder, "no tokenizer.json, tiktoken/tokenizer.model, tokenizer.model or *.tiktoken in this folder");
  } else if (n > 1) {
    status = ij__fail(err, IJ_E_FORMAT, folder, "%d files end in .tiktoken, among them %s and %s: name one of them", n, names[0], names[1]);
  } else {
    *out = ij__os_join(folder, names[0]);
    if (!*out) status = ij__fail_nomem(err, folder, 0);
  }
  ij__os_free_names(names, n);
  return status;
}

static ij_status find_in_folder(const char *folder, char **out, ij_err *err) {
  static const char *const usual[] = {"tokenizer.json", "tiktoken/tokenizer.model", "tokenizer.model"};
  for (size_t i = 0; i < IJ_COUNT_OF(usual); i++) {
    char *path = ij__os_join(folder, usual[i]);
    if (!path) return ij__fail_nomem(err, folder, 0);
    if (ij__os_is_file(path)) {
      *out = path;
      return IJ_OK;
    }
    ij__free(path);
  }
  return find_tiktoken(folder, out, err);
}

bool ij__tok_present(const char *folder) {
  char *path = NULL;
  ij_status status = find_in_folder(folder, &path, NULL);
  ij__free(path);
  return status != IJ_E_IO; /* too many of them is also a reason to open, and to be told so */
}

/* A model is run with the tokenizer that it holds, so files beside it come second. */
static ij_status open_folder(ij_tok **out, const char *folder, ij_err *err) {
  char *inside = NULL;
  bool in_model = false;
  if (ij__ckpt_is_gguf(folder)) {
    ij_status status = open_model(out, folder, &in_model, err);
    if (in_model || !ij__tok_present(folder)) return status;
  }
  ij_status status = find_in_folder(folder, &inside, err);
  if (status == IJ_OK) status = open_file(out, inside, err);
  ij__free(inside);
  return status;
}

ij_status ij__tok_open(ij_tok **out, const char *path, ij_err *err) {
  bool in_model;
  *out = NULL;
  if (ij__os_is_dir(path)) return open_folder(out, path, err);
  return ij__ckpt_is_gguf(path) ? open_model(out, path, &in_model, err) : open_file(out, path, err);
}

void ij__tok_close(ij_tok **t) {
  if (!t || !*t) return;
  ij__free((*t)->blob);
  ij__free((*t)->entries);
  ij__free((*t)->kinds);
  ij__free((*t)->slots);
  ij__free((*t)->pairs);
  ij__free((*t)->whole);
  ij__free((*t)->names);
  ij__free(*t);
  *t = NULL;
}

int32_t ij__tok_size(const ij_tok *t) { return (int32_t)t->n_ids; }

bool ij__tok_bytes(const ij_tok *t, int32_t id, bool special_text, const char **bytes, size_t *n) {
  *bytes = "";
  *n = 0;
  if (id < 0 || (uint32_t)id >= t->n_ids || t->kinds[id] == IJ_TOK_ABSENT) return false;
  if (t->kinds[id] == IJ_TOK_SPECIAL && !special_text) return true;
  *bytes = (const char *)t->blob + t->entries[id].offset;
  *n = t->entries[id].len;
  return true;
}

bool ij__tok_is_special(const ij_tok *t, int32_t id) { return id >= 0 && (uint32_t)id < t->n_ids && t->kinds[id] == IJ_TOK_SPECIAL; }
