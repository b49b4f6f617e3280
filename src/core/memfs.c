/* memfs.c: see memfs.h. A linked list with its head in an atomic pointer: adding is a compare-and-swap, reading is a walk. */
#include "core/memfs.h"

#include <stdatomic.h>
#include <string.h>

#include "core/alloc.h"

typedef struct folder {
  const char *name;
  const ij_memfs_file *files;
  int n_files;
  struct folder *next;
} folder;

static _Atomic(folder *) folders;

/* The folder whose name is the first n bytes of path. */
static const folder *find_folder(const char *path, size_t n) {
  for (const folder *f = atomic_load(&folders); f; f = f->next) {
    if (strlen(f->name) == n && memcmp(f->name, path, n) == 0) return f;
  }
  return NULL;
}

static bool is_ours(const char *path) { return strncmp(path, IJ_MEMFS_PREFIX, strlen(IJ_MEMFS_PREFIX)) == 0; }

/* Length of a path without slashes at its end. */
static size_t folder_length(const char *path) {
  size_t n = strlen(path);
  while (n > 0 && path[n - 1] == '/') n--;
  return n;
}

ij_status ij__memfs_add(const char *name, const ij_memfs_file *files, int n_files, ij_err *err) {
  if (!name || !is_ours(name) || strchr(name, '/')) {
    return ij__fail(err, IJ_E_ARGUMENT, "the name of a folder in memory", "expected \"%sNAME\" without '/', found %s", IJ_MEMFS_PREFIX,
                    name ? name : "nothing");
  }
  for (int i = 0; i < n_files; i++) {
    if (!files[i].name || !*files[i].name || strchr(files[i].name, '/') || (!files[i].bytes && files[i].n_bytes)) {
      return ij__fail(err, IJ_E_ARGUMENT, name, "file %d has no plain name or no bytes", i);
    }
  }
  folder *f = ij__alloc_zero(1, sizeof *f);
  if (!f) return ij__fail_nomem(err, name, sizeof *f);
  *f = (folder){name, files, n_files, atomic_load(&folders)};
  while (!find_folder(name, strlen(name))) {
    if (atomic_compare_exchange_weak(&folders, &f->next, f)) return IJ_OK;
  }
  ij__free(f);
  return ij__fail(err, IJ_E_ARGUMENT, name, "there is a folder of this name already");
}

const ij_memfs_file *ij__memfs_list(const char *path, int *n) {
  const folder *f = is_ours(path) ? find_folder(path, folder_length(path)) : NULL;
  if (!f) return NULL;
  *n = f->n_files;
  return f->files;
}

bool ij__memfs_is_dir(const char *path) {
  int n;
  return ij__memfs_list(path, &n) != NULL;
}

const ij_memfs_file *ij__memfs_find(const char *path) {
  const char *slash = is_ours(path) ? strrchr(path, '/') : NULL;
  const folder *f = slash ? find_folder(path, (size_t)(slash - path)) : NULL;
  for (int i = 0; f && i < f->n_files; i++) {
    if (strcmp(f->files[i].name, slash + 1) == 0) return &f->files[i];
  }
  return NULL;
}
