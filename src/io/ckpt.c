/* ckpt.c: see ckpt.h. Three shapes of a checkpoint end in one directory: a file, a folder with an index, a folder without.
 *
 * With an index, exactly the files that it names are opened, and its map and their headers must say the same; other files in the folder are
 * somebody else's. The index names files by their bare name: a path in it is refused before anything is opened.
 */
#include "io/ckpt.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/os.h"
#include "core/str.h"
#include "io/safetensors.h"

#define MAX_CONFIG_BYTES ((size_t)16 << 20)
#define MAX_INDEX_BYTES ((size_t)256 << 20)
#define MAX_FILES 100000
#define INDEX_NAME "model.safetensors.index.json"

typedef struct shard {
  char *path;
  ij_file_map map;
  ij_safetensors st;
} shard;

struct ij_ckpt {
  char *folder, *config_path;
  ij_json *config;
  shard *shards;
  int n_shards;
  const ij_tensor_view **tensors; /* by shard, then offset */
  int n_tensors;
  ij_map by_name;
  size_t file_bytes;
};

/* -------------------------------------------------------------------------------------------------------------- files */

static ij_status read_json_file(const char *path, size_t max_bytes, ij_json **out, ij_err *err) {
  char *text = NULL;
  size_t n = 0;
  ij_status status = ij__os_read_file(path, max_bytes, &text, &n, err);
  if (status == IJ_OK) status = ij__json_parse(out, text, n, path, err);
  ij__free(text);
  return status;
}

static ij_status open_shard(ij_ckpt *c, const char *name, ij_err *err) {
  shard *s = &c->shards[c->n_shards];
  s->path = ij__os_join(c->folder, name);
  if (!s->path) return ij__fail_nomem(err, name, strlen(name));
  c->n_shards++; /* from here on close releases it */
  ij_status status = ij__os_map_file(s->path, &s->map, err);
  if (status == IJ_OK) status = ij__safetensors_parse(&s->st, s->map.data, s->map.n_bytes, s->path, err);
  c->file_bytes += s->map.n_bytes;
  return status;
}

static ij_status open_shards(ij_ckpt *c, const char *const *names, int n, ij_err *err) {
  c->shards = ij__alloc_zero((size_t)n, sizeof *c->shards);
  if (!c->shards) return ij__fail_nomem(err, c->folder, (size_t)n * sizeof *c->shards);
  for (int i = 0; i < n; i++) {
    ij_status status = open_shard(c, names[i], err);
    if (status != IJ_OK) return status;
  }
  return IJ_OK;
}

/* One directory over all shards; a name in two of them is an error. */
static ij_status list_tensors(ij_ckpt *c, ij_err *err) {
  size_t n = 0;
  for (int i = 0; i < c->n_shards; i++) n += (size_t)c->shards[i].st.n_tensors;
  if (n > INT32_MAX) return ij__fail(err, IJ_E_UNSUPPORTED, c->folder, "it holds %zu tensors; at most %d are supported", n, INT32_MAX);
  c->tensors = ij__alloc_array(n + 1, sizeof *c->tensors);
  if (!c->tensors || !ij__map_reserve(&c->by_name, n)) return ij__fail_nomem(err, c->folder, n * sizeof *c->tensors);
  for (int i = 0; i < c->n_shards; i++) {
    for (int j = 0; j < c->shards[i].st.n_tensors; j++) {
      const ij_tensor_view *t = &c->shards[i].st.tensors[j];
      int added = ij__map_add(&c->by_name, t->name, strlen(t->name), c->n_tensors);
      if (added < 0) return ij__fail_nomem(err, c->folder, n);
      if (added == 0) {
        return ij__fail(err, IJ_E_FORMAT, t->file, "tensor %s is also in %s: remove one of the two", t->name, ij__ckpt_find(c, t->name)->file);
      }
      c->tensors[c->n_tensors++] = t;
    }
  }
  return IJ_OK;
}

/* -------------------------------------------------------------------------------------------------------------- index */

/* The distinct file names of an index, sorted by first appearance; names point into the document. */
typedef struct file_list {
  const char **names;
  int n;
  ij_map seen;
} file_list;

static bool bare_name(const char *name, size_t n) {
  return n > 0 && n < 256 && strlen(name) == n && !strchr(name, '/') && !strchr(name, '\\') && ij__str_ends_with(name, ".safetensors") && name[0] != '.';
}

static ij_status list_files(const ij_json_value *map, const char *path, file_list *files, ij_err *err) {
  size_t n = ij__json_size(map), len;
  files->names = ij__alloc_array(n + 1, sizeof *files->names);
  if (!files->names) return ij__fail_nomem(err, path, n * sizeof *files->names);
  ij_json_iter it = {0};
  const char *tensor, *name;
  const ij_json_value *v;
  while (ij__json_next(map, &it, &tensor, NULL, &v)) {
    if (!ij__json_get_string(v, &name, &len)) {
      return ij__fail(err, IJ_E_FORMAT, path, "weight_map: %s: expected a file name, found %s", tensor, ij__json_type_name(ij__json_type_of(v)));
    }
    if (!bare_name(name, len)) {
      return ij__fail(err, IJ_E_FORMAT, path, "weight_map: %s: expected the bare name of a .safetensors file in this folder, found \"%.80s\"", tensor, name);
    }
    int added = ij__map_add(&files->seen, name, len, files->n);
    if (added < 0) return ij__fail_nomem(err, path, n);
    if (added) files->names[files->n++] = name;
  }
  if (files->n > MAX_FILES) return ij__fail(err, IJ_E_UNSUPPORTED, path, "it names %d files; at most %d are supported", files->n, MAX_FILES);
  return IJ_OK;
}

/* All files of the index that are not there, in one error. */
static ij_status check_present(const ij_ckpt *c, const file_list *files, const char *path, ij_err *err) {
  ij_findings f = {0};
  for (int i = 0; i < files->n; i++) {
    char *file = ij__os_join(c->folder, files->names[i]);
    if (!file) return ij__fail_nomem(err, path, 0);
    if (!ij__os_is_file(file)) ij__findings_add(&f, "%s", files->names[i]);
    ij__free(file);
  }
  if (f.n == 0) return IJ_OK;
  return ij__fail(err, IJ_E_IO, path, "%d of %d files that it names are missing: %s%s", f.n, files->n, f.text, f.n > f.n_shown ? "; and more" : "");
}

/* The index and the headers must say the same of every tensor. */
static ij_status check_agreement(const ij_ckpt *c, const ij_json_value *map, const char *path, ij_err *err) {
  ij_findings f = {0};
  ij_json_iter it = {0};
  const char *tensor, *name;
  size_t len, name_len;
  const ij_json_value *v;
  while (ij__json_next(map, &it, &tensor, &len, &v)) {
    int64_t at = ij__map_find(&c->by_name, tensor, len);
    ij__json_get_string(v, &name, &name_len);
    const char *file = at >= 0 ? strrchr(c->tensors[at]->file, '/') : NULL;
    if (at < 0) {
      ij__findings_add(&f, "%s is not in %s", tensor, name);
    } else if (strcmp(file ? file + 1 : c->tensors[at]->file, name) != 0) {
      ij__findings_add(&f, "%s is in %s, not in %s", tensor, file ? file + 1 : c->tensors[at]->file, name);
    }
  }
  if (ij__json_size(map) < (size_t)c->n_tensors || f.n) {
    for (int i = 0; i < c->n_tensors; i++) {
      if (!ij__json_member(map, c->tensors[i]->name)) ij__findings_add(&f, "%s in %s is not listed", c->tensors[i]->name, c->tensors[i]->file);
    }
  }
  if (f.n == 0) return IJ_OK;
  return ij__fail(err, IJ_E_FORMAT, path, "the index and the files disagree in %d places: %s%s", f.n, f.text, f.n > f.n_shown ? "; and more" : "");
}

static ij_status open_indexed(ij_ckpt *c, const char *path, ij_err *err) {
  ij_json *doc = NULL;
  file_list files = {0};
  ij_status status = read_json_file(path, MAX_INDEX_BYTES, &doc, err);
  const ij_json_value *map = ij__json_member(ij__json_root(doc), "weight_map");
  if (status == IJ_OK && (ij__json_type_of(map) != IJ_JSON_OBJECT || ij__json_size(map) == 0)) {
    status = ij__fail(err, IJ_E_FORMAT, path, "weight_map: expected an object of tensor names and files, found %s",
                      ij__json_type_of(map) == IJ_JSON_OBJECT ? "an empty one" : ij__json_type_name(ij__json_type_of(map)));
  }
  if (status == IJ_OK) status = list_files(map, path, &files, err);
  if (status == IJ_OK) status = check_present(c, &files, path, err);
  if (status == IJ_OK) status = open_shards(c, files.names, files.n, err);
  if (status == IJ_OK) status = list_tensors(c, err);
  if (status == IJ_OK) status = check_agreement(c, map, path, err);
  ij__map_free(&files.seen);
  ij__free(files.names);
  ij__json_free(&doc);
  return status;
}

/* -------------------------------------------------------------------------------------------------------------- opening */

static ij_status open_unindexed(ij_ckpt *c, ij_err *err) {
  char **names = NULL;
  int n = 0;
  ij_status status = ij__os_list_dir(c->folder, ".safetensors", &names, &n, err);
  if (status == IJ_OK && n == 0) {
    status = ij__fail(err, IJ_E_IO, c->folder, "expected a checkpoint: this folder has no .safetensors file and no " INDEX_NAME);
  }
  if (status == IJ_OK && n > MAX_FILES) status = ij__fail(err, IJ_E_UNSUPPORTED, c->folder, "it has %d .safetensors files; at most %d are supported", n, MAX_FILES);
  if (status == IJ_OK) status = open_shards(c, (const char *const *)names, n, err);
  if (status == IJ_OK) status = list_tensors(c, err);
  ij__os_free_names(names, n);
  return status;
}

static ij_status open_folder(ij_ckpt *c, ij_err *err) {
  char *index = ij__os_join(c->folder, INDEX_NAME);
  if (!index) return ij__fail_nomem(err, c->folder, 0);
  ij_status status = ij__os_is_file(index) ? open_indexed(c, index, err) : open_unindexed(c, err);
  ij__free(index);
  return status;
}

/* Splits path into c->folder and the file name, which is returned. */
static const char *split_path(ij_ckpt *c, const char *path) {
  const char *slash = strrchr(path, '/');
  c->folder = !slash ? ij__strdup(".") : slash == path ? ij__strdup("/") : ij__strndup(path, (size_t)(slash - path));
  return slash ? slash + 1 : path;
}

static ij_status open_file(ij_ckpt *c, const char *path, ij_err *err) {
  const char *name = split_path(c, path);
  if (!c->folder) return ij__fail_nomem(err, path, strlen(path));
  ij_status status = open_shards(c, &name, 1, err);
  return status == IJ_OK ? list_tensors(c, err) : status;
}

static ij_status open_config(ij_ckpt *c, ij_err *err) {
  c->config_path = ij__os_join(c->folder, "config.json");
  if (!c->config_path) return ij__fail_nomem(err, c->folder, 0);
  return ij__os_is_file(c->config_path) ? read_json_file(c->config_path, MAX_CONFIG_BYTES, &c->config, err) : IJ_OK;
}

ij_status ij__ckpt_open(ij_ckpt **out, const char *path, ij_err *err) {
  *out = NULL;
  ij_ckpt *c = ij__alloc_zero(1, sizeof *c);
  if (!c) return ij__fail_nomem(err, path, sizeof *c);
  ij_status status;
  if (ij__os_is_dir(path)) {
    c->folder = ij__strdup(path);
    status = c->folder ? open_folder(c, err) : ij__fail_nomem(err, path, strlen(path));
  } else if (ij__os_is_file(path) && !ij__str_ends_with(path, ".safetensors")) {
    status = ij__fail(err, IJ_E_UNSUPPORTED, path, "expected a folder or a .safetensors file; this version reads no other form");
  } else {
    status = open_file(c, path, err);
  }
  if (status == IJ_OK) status = open_config(c, err);
  if (status != IJ_OK) ij__ckpt_close(&c);
  *out = c;
  return status;
}

void ij__ckpt_close(ij_ckpt **ckpt) {
  if (!ckpt || !*ckpt) return;
  ij_ckpt *c = *ckpt;
  for (int i = 0; i < c->n_shards; i++) {
    ij__safetensors_free(&c->shards[i].st);
    ij__os_unmap(&c->shards[i].map);
    ij__free(c->shards[i].path);
  }
  ij__free(c->shards);
  ij__free(c->tensors);
  ij__map_free(&c->by_name);
  ij__json_free(&c->config);
  ij__free(c->config_path);
  ij__free(c->folder);
  ij__free(c);
  *ckpt = NULL;
}

const char *ij__ckpt_folder(const ij_ckpt *c) { return c->folder; }
const char *ij__ckpt_config_path(const ij_ckpt *c) { return c->config_path; }
const ij_json_value *ij__ckpt_config(const ij_ckpt *c) { return c->config ? ij__json_root(c->config) : NULL; }
int ij__ckpt_n_tensors(const ij_ckpt *c) { return c->n_tensors; }
const ij_tensor_view *ij__ckpt_tensor(const ij_ckpt *c, int i) { return c->tensors[i]; }
int ij__ckpt_n_files(const ij_ckpt *c) { return c->n_shards; }
size_t ij__ckpt_file_bytes(const ij_ckpt *c) { return c->file_bytes; }

const ij_tensor_view *ij__ckpt_find(const ij_ckpt *c, const char *name) {
  int64_t i = ij__map_find(&c->by_name, name, strlen(name));
  return i < 0 ? NULL : c->tensors[i];
}
