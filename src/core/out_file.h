/* out_file.h: a file that appears whole or not at all.
 *
 * It grows under a temporary name beside the final one and takes its name when everything is on disk, so a reader never sees half of
 * it. How many bytes it will hold is said at the start; fewer or more is an error. One file is used by one thread; of several that are
 * written to one path at once, by whatever threads or processes, the last to finish stays, whole.
 */
#ifndef IJ_CORE_OUT_FILE_H
#define IJ_CORE_OUT_FILE_H

#include "core/base.h"
#include "core/status.h"

typedef struct ij_out_file ij_out_file;

/* IJ_E_IO also when a folder, a device or a pipe lies at the path: these are not replaced. */
ij_status ij__out_open(ij_out_file **out, const char *path, size_t n_bytes, ij_err *err);
ij_status ij__out_put(ij_out_file *f, const void *bytes, size_t n, ij_err *err);
/* Syncs, renames and closes; on failure the temporary file is removed. */
ij_status ij__out_finish(ij_out_file **f, ij_err *err);
/* Gives up: removes the temporary file. NULL is fine. */
void ij__out_abort(ij_out_file **f);

/* A small file, all at once. */
ij_status ij__out_write(const char *path, const void *bytes, size_t n, ij_err *err);

/* The temporary name that this process uses for `path`, unless something of that name is there already; from ij__alloc, NULL without memory. */
char *ij__out_part_path(const char *path);

#endif
