/* ckpt_gguf.c: which GGUF files make up a model. The parts of a split one are `PREFIX-00001-of-00004.gguf` and so on, and each says in its
 * keys which part of how many it is: name and keys must agree, so that a renamed or foreign part is found before its tensors are. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/str.h"
#include "io/ckpt_int.h"

#define SUFFIX ".gguf"
#define PART_TAIL 20 /* bytes of "-00001-of-00004.gguf" */
#define MAX_PARTS 99999

/* What a file's split.* keys say; -1: no such key. */
typedef struct split_keys {
  int64_t no, count, n_tensors;
} split_keys;

/* What its name says. */
typedef struct part_name {
  size_t n_prefix; /* bytes of the path before the tail */
  int no, count;   /* no counts from 1 */
} part_name;

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void show(char out[IJ_CKPT_NAME_ROOM], const char *path) {
  const char *name = base_name(path);
  ij__json_show(out, IJ_CKPT_NAME_ROOM, name, strlen(name));
}

/* Five digits, or -1. */
static int five_digits(const char *s) {
  int n = 0;
  for (int i = 0; i < 5; i++) {
    if (s[i] < '0' || s[i] > '9') return -1;
    n = n * 10 + (s[i] - '0');
  }
  return n;
}

static bool parse_name(const char *path, part_name *out) {
  size_t n = strlen(path);
  if (n < PART_TAIL) return false;
  const char *tail = path + n - PART_TAIL;
  if (tail[0] != '-' || strncmp(tail + 6, "-of-", 4) != 0 || strcmp(tail + 15, SUFFIX) != 0) return false;
  *out = (part_name){n - PART_TAIL, five_digits(tail + 1), five_digits(tail + 10)};
  return out->no >= 1 && out->count >= out->no;
}

static char *part_path(const char *path, size_t n_prefix, int no, int count) {
  ij_buf b = {0};
  ij__buf_append(&b, path, n_prefix);
  ij__buf_printf(&b, "-%05d-of-%05d" SUFFIX, no, count);
  if (b.failed) ij__buf_free(&b);
  return b.data;
}

static bool is_gguf_file(const char *path) {
  ij_file_map map;
  if (ij__str_ends_with(path, SUFFIX)) return ij__os_is_file(path);
  if (!ij__os_is_file(path) || ij__os_map_file(path, &map, NULL) != IJ_OK) return false;
  bool yes = map.n_bytes >= 4 && memcmp(map.data, "GGUF", 4) == 0;
  ij__os_unmap(&map);
  return yes;
}

/* Takes over `path`. */
static ij_status open_file(ij_ckpt_file *f, char *path, ij_err *err) {
  f->path = path;
  if (!path) return ij__fail_nomem(err, "a path", 0);
  ij_status s = ij__os_map_file(path, &f->map, err);
  return s == IJ_OK ? ij__gguf_parse(&f->gguf, f->map.data, f->map.n_bytes, path, err) : s;
}

/* --- the split.* keys */

static int64_t split_key(ij_findings *f, const ij_gguf *g, const char *key) {
  const ij_gguf_value *v = ij__gguf_find(g, key);
  int64_t n = -1;
  if (!v) return -1;
  if (v->is_array || !ij__gguf_int(v, 0, &n)) {
    ij__findings_add(f, "%s: expected an integer, found %s%s", key, v->is_array ? "an array of " : "", ij__gguf_type_name(v->type));
    return -1;
  }
  if (n < 0) ij__findings_add(f, "%s: expected 0 or more, found %" PRId64, key, n);
  return n;
}

static split_keys read_split(ij_findings *f, const ij_gguf *g) {
  return (split_keys){split_key(f, g, "split.no"), split_key(f, g, "split.count"), split_key(f, g, "split.tensors.count")};
}

/* The name and the keys of one file. */
static void check_place(ij_findings *f, const char *path, const split_keys *k) {
  part_name name = {0, 1, 1};
  bool named = parse_name(path, &name);
  if (k->count > MAX_PARTS) {
    ij__findings_add(f, "split.count: %" PRId64 " parts; at most %d are accepted", k->count, MAX_PARTS);
  } else if (k->count <= 1 && k->no > 0) {
    ij__findings_add(f, "split.no is %" PRId64 ", but split.count says that there is one part", k->no);
  } else if (k->count <= 1 && name.count > 1) {
    ij__findings_add(f, "its name says part %d of %d, but its keys do not: a file of another model?", name.no, name.count);
  } else if (k->count > 1 && (k->no < 0 || k->no >= k->count)) {
    ij__findings_add(f, "split.no: expected 0 to %" PRId64 ", found %" PRId64 "%s", k->count - 1, k->no, k->no < 0 ? " (no such key)" : "");
  } else if (k->count > 1 && !named) {
    ij__findings_add(f, "this is part %" PRId64 " of %" PRId64 "; the parts are found by their names: expected one that ends in "
                     "-%05" PRId64 "-of-%05" PRId64 SUFFIX, k->no + 1, k->count, k->no + 1, k->count);
  } else if (k->count > 1 && (k->count != name.count || k->no + 1 != name.no)) {
    ij__findings_add(f, "its name says part %d of %d, its keys say part %" PRId64 " of %" PRId64 ": renamed, or of another model?", name.no,
                     name.count, k->no + 1, k->count);
  }
}

/* --- one part against the first */

static const unsigned char *value_end(const ij_gguf *g, const ij_gguf_value *v) {
  const char *text;
  size_t n;
  if (v->type == IJ_GGUF_STRING) {
    if (v->n == 0 || !ij__gguf_string(g, v, v->n - 1, &text, &n)) return v->data;
    return (const unsigned char *)text + n;
  }
  return (const unsigned char *)v->data + v->n * ij__gguf_type_bytes(v->type);
}

static bool same_value(const ij_gguf *a, const ij_gguf_value *x, const ij_gguf *b, const ij_gguf_value *y) {
  if (x->type != y->type || x->is_array != y->is_array || x->n != y->n) return false;
  const unsigned char *p = x->data, *q = y->data;
  ptrdiff_t n = value_end(a, x) - p;
  return n == value_end(b, y) - q && memcmp(p, q, (size_t)n) == 0;
}

/* Keys that both have must say the same, but those about the file itself. */
static void check_same_keys(ij_findings *f, const ij_gguf *first, const ij_gguf *part) {
  for (size_t i = 0; i < part->n_values; i++) {
    const ij_gguf_value *v = &part->values[i], *w = ij__gguf_find(first, v->key);
    if (!w || !strcmp(v->key, "split.no") || !strcmp(v->key, "general.alignment") || same_value(part, v, first, w)) continue;
    char shown[IJ_CKPT_NAME_ROOM], name[IJ_CKPT_NAME_ROOM];
    ij__json_show(shown, sizeof shown, v->key, strlen(v->key));
    show(name, first->path);
    ij__findings_add(f, "key %s differs from that in %s: a part of another model?", shown, name);
  }
}

static ij_status check_part(const ij_gguf *part, const ij_gguf *first, ij_err *err) {
  ij_findings f = {0};
  split_keys k = read_split(&f, part);
  if (f.n == 0) check_place(&f, part->path, &k);
  if (first) check_same_keys(&f, first, part);
  return ij__ckpt_report(&f, IJ_E_FORMAT, part->path, err);
}

static ij_status check_total(const ij_ckpt *c, ij_err *err) {
  ij_findings f = {0};
  uint64_t n = 0;
  for (int i = 0; i < c->n_files; i++) n += c->files[i].gguf.n_tensors;
  int64_t want = split_key(&f, &c->files[0].gguf, "split.tensors.count");
  if (f.n == 0 && want >= 0 && (uint64_t)want != n)
    ij__findings_add(&f, "split.tensors.count: expected %" PRId64 " tensors in %d part%s, found %" PRIu64, want, c->n_files,
                     c->n_files == 1 ? "" : "s", n);
  return ij__ckpt_report(&f, IJ_E_FORMAT, c->files[0].path, err);
}

/* --- all parts */

static ij_status check_present(const ij_ckpt *c, const char *path, const part_name *name, ij_err *err) {
  ij_findings f = {0};
  for (int i = 1; i <= name->count; i++) {
    char *part = part_path(path, name->n_prefix, i, name->count), shown[IJ_CKPT_NAME_ROOM];
    if (!part) return ij__fail_nomem(err, path, 0);
    show(shown, part);
    if (!ij__os_is_file(part)) ij__findings_add(&f, "part %d of %d, %s, is not in the folder; download it", i, name->count, shown);
    ij__free(part);
  }
  return ij__ckpt_report(&f, IJ_E_IO, c->folder, err);
}

/* `opened` is the part that was named; it moves to its place. */
static ij_status open_parts(ij_ckpt *c, ij_ckpt_file *opened, const part_name *name, ij_err *err) {
  ij_status s = IJ_OK;
  c->files = ij__alloc_zero((size_t)name->count, sizeof *c->files);
  if (!c->files) return ij__fail_nomem(err, c->folder, (size_t)name->count * sizeof *c->files);
  c->n_files = name->count;
  c->files[name->no - 1] = *opened;
  *opened = (ij_ckpt_file){0};
  const char *path = c->files[name->no - 1].path;
  for (int i = 0; s == IJ_OK && i < name->count; i++) {
    if (i != name->no - 1) s = open_file(&c->files[i], part_path(path, name->n_prefix, i + 1, name->count), err);
  }
  for (int i = 0; s == IJ_OK && i < name->count; i++) s = check_part(&c->files[i].gguf, i ? &c->files[0].gguf : NULL, err);
  return s == IJ_OK ? check_total(c, err) : s;
}

static ij_status open_model(ij_ckpt *c, ij_ckpt_file *f, const char *path, ij_err *err) {
  part_name name = {0, 1, 1};
  ij_findings unused = {0};
  ij_status s = open_file(f, ij__strdup(path), err);
  if (s == IJ_OK) s = check_part(&f->gguf, NULL, err);
  if (s != IJ_OK) return s;
  if (read_split(&unused, &f->gguf).count > 1) {
    parse_name(path, &name); /* check_part has found both to agree */
    s = check_present(c, path, &name, err);
  }
  return s == IJ_OK ? open_parts(c, f, &name, err) : s;
}

/* --- the only model of a folder */

static bool is_candidate(const char *name) { return name[0] != '.'; }

/* How many files with this suffix may belong to a model; 0 also when the folder cannot be read, which opening it will say. */
static int count_candidates(const char *folder, const char *suffix) {
  char **names;
  int n, n_seen = 0;
  if (ij__os_list_dir(folder, suffix, &names, &n, NULL) != IJ_OK) return 0;
  for (int i = 0; i < n; i++) n_seen += is_candidate(names[i]);
  ij__os_free_names(names, n);
  return n_seen;
}

bool ij__ckpt_is_gguf(const char *path) {
  if (!ij__os_is_dir(path)) return is_gguf_file(path);
  return count_candidates(path, ".safetensors") == 0 && count_candidates(path, ".safetensors.index.json") == 0 &&
         count_candidates(path, SUFFIX) > 0;
}

static bool same_model(const char *a, const char *b) {
  part_name x, y;
  return parse_name(a, &x) && parse_name(b, &y) && x.count == y.count && x.n_prefix == y.n_prefix && memcmp(a, b, x.n_prefix) == 0;
}

/* Keeps one name of each model: moves those to the front and returns how many. */
static int keep_models(char **names, int n) {
  int n_kept = 0;
  for (int i = 0; i < n; i++) {
    bool seen = !is_candidate(names[i]);
    for (int k = 0; !seen && k < n_kept; k++) seen = same_model(names[k], names[i]);
    if (seen) continue;
    char *name = names[i];
    names[i] = names[n_kept];
    names[n_kept++] = name;
  }
  return n_kept;
}

/* Towers alone: the text model lies in another file. */
static ij_status is_towers(const char *folder, const char *name, bool *yes, ij_err *err) {
  ij_ckpt_file f = {0};
  const char *text;
  size_t n;
  ij_status s = open_file(&f, ij__os_join(folder, name), err);
  *yes = s == IJ_OK && ij__gguf_string(&f.gguf, ij__gguf_find(&f.gguf, "general.architecture"), 0, &text, &n) && n == 4 &&
         memcmp(text, "clip", 4) == 0;
  ij__ckpt_close_file(&f);
  return s;
}

static ij_status choose(const char *folder, char **names, int n, const char **out, ij_err *err) {
  ij_findings f = {0};
  for (int i = 0; n > 1 && i < n; i++) {
    bool towers;
    char shown[IJ_CKPT_NAME_ROOM];
    ij_status s = is_towers(folder, names[i], &towers, err);
    if (s != IJ_OK) return s;
    if (towers) continue;
    show(shown, names[i]);
    ij__findings_add(&f, "%s", shown);
    *out = names[i];
  }
  if (n == 1) *out = names[0];
  if (f.n > 1) return ij__fail(err, IJ_E_ARGUMENT, folder, "%d GGUF models in this folder: %s; name one of the files", f.n, f.text);
  if (!*out)
    return ij__fail(err, IJ_E_FORMAT, folder, "all %d GGUF files in this folder hold towers (general.architecture clip), no text model", n);
  return IJ_OK;
}

static ij_status find_model(const char *folder, char **out, ij_err *err) {
  char **names;
  int n;
  const char *name = NULL;
  *out = NULL;
  ij_status s = ij__os_list_dir(folder, SUFFIX, &names, &n, err);
  if (s != IJ_OK) return s;
  s = choose(folder, names, keep_models(names, n), &name, err);
  if (s == IJ_OK) {
    *out = ij__os_join(folder, name);
    if (!*out) s = ij__fail_nomem(err, folder, 0);
  }
  ij__os_free_names(names, n);
  return s;
}

ij_status ij__ckpt_open_gguf(ij_ckpt *c, const char *path, ij_err *err) {
  char *found = NULL;
  ij_ckpt_file f = {0};
  ij_status s = path ? IJ_OK : find_model(c->folder, &found, err);
  if (s == IJ_OK) s = open_model(c, &f, path ? path : found, err);
  ij__ckpt_close_file(&f); /* empty when all went well */
  ij__free(found);
  return s;
}
