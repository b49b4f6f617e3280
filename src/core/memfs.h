/* memfs.h: folders in memory, so that a program can carry a model. os_*.c asks here first; nothing above it can tell the difference.
 *
 * A folder has a name that no file system would give it ("builtin:demo"); its files lie flat in it. The list only grows, and a folder is
 * published whole, so reading needs no lock. Bytes are the caller's and stay for the life of the process.
 */
#ifndef IJ_CORE_MEMFS_H
#define IJ_CORE_MEMFS_H

#include "core/base.h"
#include "core/status.h"

#define IJ_MEMFS_PREFIX "builtin:"

typedef struct ij_memfs_file {
  const char *name;
  const void *bytes;
  size_t n_bytes;
} ij_memfs_file;

/* name: with the prefix, without '/'; strings, the list and the bytes are borrowed. IJ_E_ARGUMENT when the name is taken. */
ij_status ij__memfs_add(const char *name, const ij_memfs_file *files, int n_files, ij_err *err);

bool ij__memfs_is_dir(const char *path);
const ij_memfs_file *ij__memfs_find(const char *path);   /* NULL: not here */

/* The files of a folder, *n of them; NULL when there is no such folder. */
const ij_memfs_file *ij__memfs_list(const char *path, int *n);

#endif
