/* ckpt.c: see ckpt.h. Files are found (index, all in the folder, parts of a GGUF model), mapped and parsed one by one, then joined into
 * one list of tensors and one list sorted by name. Look-up is a binary search: names come from files, and a search cannot be made slow by
 * names that were chosen to collide. */
#include "io/ckpt.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "io/ckpt_int.h"

#define MAX_CONFIG ((size_t)16 << 20)
#define MAX_INDEX ((size_t)64 << 20)
#define INDEX_NAME "model.safetensors.index.json"
#define SUFFIX ".safetensors"
#define NAME_ROOM IJ_CKPT_NAME_ROOM

/* One line of an index's weight_map; both strings belong to the parsed index. */
typedef struct index_entry {
  const char *tensor, *file;
} index_entry;

typedef struct shard_index {
  char *path, *bytes;
  ij_json *doc;
  index_entry *entries; /* by file, then tensor */
  size_t n;
} shard_index;

ij_status ij__ckpt_report(const ij_findings *f, ij_status code, const char *where, ij_err *err) {
  if (f->n == 0) return IJ_OK;
  if (f->n == 1) return ij__fail(err, code, where, "%s", f->text);
  if (f->n > f->n_shown) return ij__fail(err, code, where, "%d findings: %s; and %d more", f->n, f->text, f->n - f->n_shown);
  return ij__fail(err, code, where, "%d findings: %s", f->n, f->text);
}

static void show(char out[NAME_ROOM], const char *name) { ij__json_show(out, NAME_ROOM, name, strlen(name)); }

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* --- the index */

static int compare_entries(const void *a, const void *b) {
  const index_entry *x = a, *y = b;
  int c = strcmp(x->file, y->file);
  return c ? c : strcmp(x->tensor, y->tensor);
}

/* A plain name of a .safetensors file in the same folder: an index never leads anywhere else. */
static bool is_shard_name(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f || s[i] == '/' || s[i] == '\\') return false;
  }
  return s[0] != '.' && n > strlen(SUFFIX) && ij__str_ends_with(s, SUFFIX);
}

static void check_entry(ij_findings *f, const char *tensor, size_t len, const ij_json_value *v) {
  char shown[NAME_ROOM], file[NAME_ROOM];
  const char *s;
  size_t n;
  ij__json_show(shown, sizeof shown, tensor, len);
  if (strlen(tensor) != len) ij__findings_add(f, "weight_map: the name %s holds a NUL", shown);
  if (!ij__json_get_string(v, &s, &n)) {
    ij__findings_add(f, "weight_map: tensor %s: expected the name of a file, found %s", shown, ij__json_type_name(ij__json_type_of(v)));
  } else if (!is_shard_name(s, n)) {
    ij__json_show(file, sizeof file, s, n);
    ij__findings_add(f, "weight_map: tensor %s: expected the name of a %s file in this folder, found %s", shown, SUFFIX, file);
  }
}

static ij_status read_weight_map(shard_index *x, ij_err *err) {
  const ij_json_value *root = ij__json_root(x->doc), *map = ij__json_member(root, "weight_map"), *v;
  if (ij__json_type_of(root) != IJ_JSON_OBJECT)
    return ij__fail(err, IJ_E_FORMAT, x->path, "expected an object, found %s", ij__json_type_name(ij__json_type_of(root)));
  if (ij__json_type_of(map) != IJ_JSON_OBJECT)
    return ij__fail(err, IJ_E_FORMAT, x->path, "weight_map: expected an object, found %s", ij__json_type_name(ij__json_type_of(map)));
  if (ij__json_size(map) == 0) return ij__fail(err, IJ_E_FORMAT, x->path, "weight_map: expected at least one tensor, found none");
  x->entries = ij__alloc_array(ij__json_size(map), sizeof *x->entries);
  if (!x->entries) return ij__fail_nomem(err, x->path, ij__json_size(map) * sizeof *x->entries);
  ij_findings f = {0};
  ij_json_iter it = {0};
  const char *key;
  size_t len, n;
  while (ij__json_next(map, &it, &key, &len, &v)) {
    index_entry *e = &x->entries[x->n++];
    check_entry(&f, key, len, v);
    e->tensor = key;
    if (!ij__json_get_string(v, &e->file, &n)) e->file = ""; /* reported above; only the sort below would see it */
  }
  if (f.n == 0) qsort(x->entries, x->n, sizeof *x->entries, compare_entries);
  return ij__ckpt_report(&f, IJ_E_FORMAT, x->path, err);
}

static void close_index(shard_index *x) {
  ij__free(x->entries);
  ij__json_free(&x->doc);
  ij__free(x->bytes);
  ij__free(x->path);
}

/* Opens the index of a folder when there is one; x->path stays NULL when there is none. */
static ij_status open_index(shard_index *x, const char *folder, ij_err *err) {
  size_t n = 0;
  x->path = ij__os_join(folder, INDEX_NAME);
  if (!x->path) return ij__fail_nomem(err, folder, 0);
  if (!ij__os_is_file(x->path)) {
    ij__free(x->path);
    x->path = NULL;
    return IJ_OK;
  }
  ij_status s = ij__os_read_file(x->path, MAX_INDEX, &x->bytes, &n, err);
  if (s == IJ_OK) s = ij__json_parse(&x->doc, x->bytes, n, x->path, err);
  return s == IJ_OK ? read_weight_map(x, err) : s;
}

/* --- which files */

static ij_status add_path(ij_ckpt *c, const char *folder, const char *name, ij_err *err) {
  char *path = folder ? ij__os_join(folder, name) : ij__strdup(name);
  if (!path) return ij__fail_nomem(err, name, 0);
  c->files[c->n_files++].path = path;
  return IJ_OK;
}

static ij_status make_file_list(ij_ckpt *c, size_t n, ij_err *err) {
  c->files = ij__alloc_zero(n, sizeof *c->files);
  return c->files ? IJ_OK : ij__fail_nomem(err, c->folder, n * sizeof *c->files);
}

static ij_status list_by_index(ij_ckpt *c, const shard_index *x, ij_err *err) {
  size_t n = 0;
  for (size_t i = 0; i < x->n; i++) n += i == 0 || strcmp(x->entries[i].file, x->entries[i - 1].file) != 0;
  ij_status s = make_file_list(c, n, err);
  ij_findings f = {0};
  for (size_t i = 0; s == IJ_OK && i < x->n; i++) {
    const char *name = x->entries[i].file;
    if (i > 0 && strcmp(name, x->entries[i - 1].file) == 0) continue;
    s = add_path(c, c->folder, name, err);
    if (s != IJ_OK || ij__os_is_file(c->files[c->n_files - 1].path)) continue;
    char shown[NAME_ROOM];
    show(shown, name);
    ij__findings_add(&f, "%s is named by " INDEX_NAME " but is not in the folder; download it", shown);
  }
  return s == IJ_OK ? ij__ckpt_report(&f, IJ_E_IO, c->folder, err) : s;
}

/* Files whose name begins with a dot are left out: some systems put their own notes there. */
static ij_status list_by_folder(ij_ckpt *c, ij_err *err) {
  char **names;
  int n;
  ij_status s = ij__os_list_dir(c->folder, SUFFIX, &names, &n, err);
  if (s != IJ_OK) return s;
  s = make_file_list(c, (size_t)n, err);
  for (int i = 0; s == IJ_OK && i < n; i++) {
    if (names[i][0] != '.') s = add_path(c, c->folder, names[i], err);
  }
  ij__os_free_names(names, n);
  if (s == IJ_OK && c->n_files == 0) return ij__fail(err, IJ_E_IO, c->folder, "expected %s files in this folder, found none", SUFFIX);
  return s;
}

static ij_status list_one(ij_ckpt *c, const char *path, ij_err *err) {
  ij_status s = make_file_list(c, 1, err);
  return s == IJ_OK ? add_path(c, NULL, path, err) : s;
}

/* --- the files */

static ij_status open_file(ij_ckpt_file *f, ij_err *err) {
  ij_status s = ij__os_map_file(f->path, &f->map, err);
  return s == IJ_OK ? ij__safetensors_parse(&f->st, f->map.data, f->map.n_bytes, f->path, err) : s;
}

static int compare_names(const void *a, const void *b) {
  const ij_tensor_view *x = *(const ij_tensor_view *const *)a, *y = *(const ij_tensor_view *const *)b;
  int c = strcmp(x->name, y->name);
  return c ? c : (x > y) - (x < y); /* both lie in one array: the earlier one first */
}

/* All tensors in one array, and pointers to them in order of name. */
static ij_status join_tensors(ij_ckpt *c, ij_err *err) {
  size_t n = 0, at = 0;
  for (int i = 0; i < c->n_files; i++) n += c->is_gguf ? c->files[i].gguf.n_tensors : c->files[i].st.n;
  if (n > INT32_MAX) return ij__fail(err, IJ_E_UNSUPPORTED, c->folder, "%zu tensors; at most %d are accepted", n, INT32_MAX);
  c->tensors = ij__alloc_array(n, sizeof *c->tensors);
  c->by_name = ij__alloc_array(n, sizeof *c->by_name);
  if (!c->tensors || !c->by_name) return ij__fail_nomem(err, c->folder, n * sizeof *c->tensors);
  for (int i = 0; i < c->n_files; i++) {
    ij_ckpt_file *f = &c->files[i];
    ij_tensor_view **list = c->is_gguf ? &f->gguf.tensors : &f->st.tensors;
    size_t *n_list = c->is_gguf ? &f->gguf.n_tensors : &f->st.n;
    if (*n_list) memcpy(c->tensors + at, *list, *n_list * sizeof **list);
    at += *n_list;
    ij__free(*list);
    *list = NULL;
    *n_list = 0;
  }
  c->n_tensors = (int)n;
  for (size_t i = 0; i < n; i++) c->by_name[i] = &c->tensors[i];
  if (n) qsort(c->by_name, n, sizeof *c->by_name, compare_names);
  return IJ_OK;
}

static ij_status check_unique(const ij_ckpt *c, ij_err *err) {
  ij_findings f = {0};
  for (int i = 1; i < c->n_tensors; i++) {
    const ij_tensor_view *a = c->by_name[i - 1], *b = c->by_name[i];
    if (strcmp(a->name, b->name) != 0) continue;
    char name[NAME_ROOM], in_a[NAME_ROOM], in_b[NAME_ROOM];
    show(name, a->name);
    show(in_a, base_name(a->file));
    show(in_b, base_name(b->file));
    ij__findings_add(&f, "tensor %s is in %s and in %s", name, in_a, in_b);
  }
  if (f.n == 0) return IJ_OK;
  ij__findings_add(&f, "files of two checkpoints in one folder? Keep one, or name one file");
  return ij__ckpt_report(&f, IJ_E_FORMAT, c->folder, err);
}

/* Both ways, as one merge: every line of the index is a tensor in its file, every tensor of a shard has its line. Tensors are
 * unique and by_name is sorted, entries are sorted by file first: so they are sorted once more, by tensor. */
static int compare_tensors(const void *a, const void *b) {
  return strcmp(((const index_entry *)a)->tensor, ((const index_entry *)b)->tensor);
}

static void compare_place(ij_findings *f, const index_entry *e, const ij_tensor_view *t) {
  char name[NAME_ROOM], listed[NAME_ROOM], found[NAME_ROOM];
  show(name, e ? e->tensor : t->name);
  if (e) show(listed, e->file);
  if (t) show(found, base_name(t->file));
  if (!t) ij__findings_add(f, "tensor %s should be in %s, but no file has it", name, listed);
  else if (!e) ij__findings_add(f, "tensor %s is in %s, but weight_map does not list it", name, found);
  else if (strcmp(e->file, base_name(t->file)) != 0) ij__findings_add(f, "tensor %s should be in %s, but is in %s", name, listed, found);
}

static ij_status check_index(const ij_ckpt *c, shard_index *x, ij_err *err) {
  ij_findings f = {0};
  size_t i = 0, n = (size_t)c->n_tensors;
  qsort(x->entries, x->n, sizeof *x->entries, compare_tensors);
  for (size_t k = 0; i < x->n || k < n;) {
    int order = i == x->n ? 1 : k == n ? -1 : strcmp(x->entries[i].tensor, c->by_name[k]->name);
    compare_place(&f, order <= 0 ? &x->entries[i] : NULL, order >= 0 ? c->by_name[k] : NULL);
    i += order <= 0;
    k += order >= 0;
  }
  return ij__ckpt_report(&f, IJ_E_FORMAT, x->path, err);
}

/* --- opening */

static ij_status open_config(ij_ckpt *c, ij_err *err) {
  c->config_path = ij__os_join(c->folder, "config.json");
  if (!c->config_path) return ij__fail_nomem(err, c->folder, 0);
  if (!ij__os_is_file(c->config_path) && !ij__os_is_dir(c->config_path)) return IJ_OK; /* a folder of this name is told as what it is */
  char *bytes;
  size_t n = 0;
  ij_status s = ij__os_read_file(c->config_path, MAX_CONFIG, &bytes, &n, err);
  if (s == IJ_OK) s = ij__json_parse(&c->config, bytes, n, c->config_path, err);
  ij__free(bytes);
  return s;
}

static ij_status set_folder(ij_ckpt *c, const char *path, bool is_dir, ij_err *err) {
  size_t n = (size_t)(base_name(path) - path);
  if (is_dir) c->folder = ij__strdup(path);
  else if (n == 0) c->folder = ij__strdup(".");
  else c->folder = ij__strndup(path, n > 1 ? n - 1 : 1); /* "/x" lies in "/" */
  return c->folder ? IJ_OK : ij__fail_nomem(err, path, strlen(path) + 1);
}

static ij_status open_files(ij_ckpt *c, shard_index *x, ij_err *err) {
  ij_status s = IJ_OK;
  for (int i = 0; s == IJ_OK && i < c->n_files; i++) s = open_file(&c->files[i], err);
  if (s == IJ_OK) s = join_tensors(c, err);
  if (s == IJ_OK) s = check_unique(c, err);
  if (s == IJ_OK && x->path) s = check_index(c, x, err);
  return s;
}

static ij_status open_safetensors(ij_ckpt *c, const char *path, bool is_dir, ij_err *err) {
  shard_index x = {0};
  ij_status s = is_dir ? open_index(&x, c->folder, err) : IJ_OK;
  if (s == IJ_OK) s = !is_dir ? list_one(c, path, err) : x.path ? list_by_index(c, &x, err) : list_by_folder(c, err);
  if (s == IJ_OK) s = open_config(c, err);
  if (s == IJ_OK) s = open_files(c, &x, err);
  close_index(&x);
  return s;
}

/* The configuration of a GGUF model lies in its first part; a config.json beside it is left alone. */
static ij_status open_gguf(ij_ckpt *c, const char *path, ij_err *err) {
  c->is_gguf = true;
  ij_status s = ij__ckpt_open_gguf(c, path, err);
  if (s != IJ_OK) return s;
  c->config_path = ij__strdup(c->files[0].path);
  if (!c->config_path) return ij__fail_nomem(err, c->folder, 0);
  s = join_tensors(c, err);
  return s == IJ_OK ? check_unique(c, err) : s;
}

static ij_status open_ckpt(ij_ckpt *c, const char *path, ij_err *err) {
  bool is_dir = ij__os_is_dir(path), is_st = ij__str_ends_with(path, SUFFIX);
  bool gguf = (is_dir || !is_st) && ij__ckpt_is_gguf(path);
  if (!is_dir && ij__os_is_file(path) && !is_st && !gguf)
    return ij__fail(err, IJ_E_UNSUPPORTED, path, "expected a folder, a %s file or a .gguf file", SUFFIX);
  ij_status s = set_folder(c, path, is_dir, err);
  if (s != IJ_OK) return s;
  return gguf ? open_gguf(c, is_dir ? NULL : path, err) : open_safetensors(c, path, is_dir, err);
}

ij_status ij__ckpt_open(ij_ckpt **out, const char *path, ij_err *err) {
  *out = NULL;
  ij_ckpt *c = ij__alloc_zero(1, sizeof *c);
  if (!c) return ij__fail_nomem(err, path, sizeof *c);
  ij_status s = open_ckpt(c, path, err);
  if (s == IJ_OK) *out = c;
  else ij__ckpt_close(&c);
  return s;
}

void ij__ckpt_close_file(ij_ckpt_file *f) {
  ij__safetensors_free(&f->st);
  ij__gguf_free(&f->gguf);
  ij__os_unmap(&f->map);
  ij__free(f->path);
  *f = (ij_ckpt_file){0};
}

void ij__ckpt_close(ij_ckpt **ckpt) {
  ij_ckpt *c = *ckpt;
  *ckpt = NULL;
  if (!c) return;
  for (int i = 0; i < c->n_files; i++) ij__ckpt_close_file(&c->files[i]);
  ij__free(c->files);
  ij__free(c->tensors);
  ij__free(c->by_name);
  ij__json_free(&c->config);
  ij__free(c->config_path);
  ij__free(c->folder);
  ij__free(c);
}

/* --- reading */

const char *ij__ckpt_folder(const ij_ckpt *c) { return c->folder; }
const char *ij__ckpt_config_path(const ij_ckpt *c) { return c->config_path; }
const ij_json_value *ij__ckpt_config(const ij_ckpt *c) { return ij__json_root(c->config); }
const ij_gguf *ij__ckpt_gguf(const ij_ckpt *c) { return c->is_gguf ? &c->files[0].gguf : NULL; }
int ij__ckpt_n_tensors(const ij_ckpt *c) { return c->n_tensors; }
const ij_tensor_view *ij__ckpt_tensor(const ij_ckpt *c, int i) { return &c->tensors[i]; }
int ij__ckpt_n_files(const ij_ckpt *c) { return c->n_files; }

const ij_tensor_view *ij__ckpt_find(const ij_ckpt *c, const char *name) {
  int lo = 0, hi = c->n_tensors;
  while (lo < hi) {
    int mid = lo + (hi - lo) / 2, order = strcmp(c->by_name[mid]->name, name);
    if (order == 0) return c->by_name[mid];
    if (order < 0) lo = mid + 1;
    else hi = mid;
  }
  return NULL;
}

size_t ij__ckpt_file_bytes(const ij_ckpt *c) {
  size_t sum = 0;
  for (int i = 0; i < c->n_files; i++) sum += c->files[i].map.n_bytes;
  return sum;
}

const char *ij__ckpt_file_path(const ij_ckpt *c, int i) { return c->files[i].path; }
size_t ij__ckpt_file_size(const ij_ckpt *c, int i) { return c->files[i].map.n_bytes; }
ij_status ij__ckpt_check_file(const ij_ckpt *c, int i, ij_err *err) { return ij__os_check_map(c->files[i].path, &c->files[i].map, err); }

bool ij__ckpt_place(const ij_ckpt *c, const void *data, size_t n_bytes, int *file, uint64_t *offset) {
  uintptr_t at = (uintptr_t)data;
  for (int i = 0; i < c->n_files; i++) {
    const ij_file_map *map = &c->files[i].map;
    uintptr_t begin = (uintptr_t)map->data;
    if (map->in_memory || !map->data || at < begin || at - begin > map->n_bytes || n_bytes > map->n_bytes - (at - begin)) continue;
    *file = i;
    *offset = at - begin;
    return true;
  }
  return false;
}

void ij__ckpt_advise(const ij_ckpt *c, const void *data, size_t n_bytes, ij_advice advice) {
  int file;
  uint64_t offset;
  if (data && ij__ckpt_place(c, data, n_bytes, &file, &offset)) ij__os_advise(data, n_bytes, advice);
  for (int i = 0; !data && i < c->n_files; i++) {
    const ij_file_map *map = &c->files[i].map;
    if (!map->in_memory) ij__os_advise(map->data, map->n_bytes, advice);
  }
}
