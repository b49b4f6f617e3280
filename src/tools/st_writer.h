/* st_writer.h: writes one safetensors file as a stream, with the memory of the header only.
 *
 * The tensors are declared first; their bytes follow in that order. The file grows under a temporary name beside the final one and
 * takes its name when everything is on disk, so a reader never sees half a file. One writer is used by one thread.
 */
#ifndef IJ_TOOLS_ST_WRITER_H
#define IJ_TOOLS_ST_WRITER_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/status.h"

typedef struct ij_st_tensor {
  const char *name;
  ij_dtype dtype;
  int n_dims;
  int64_t dims[4];
} ij_st_tensor;

typedef struct ij_st_writer ij_st_writer;

/* Bytes of the tensor's values. */
size_t ij__st_tensor_bytes(const ij_st_tensor *t);

ij_status ij__st_writer_open(ij_st_writer **out, const char *path, const ij_st_tensor *tensors, int n, ij_err *err);
ij_status ij__st_writer_put(ij_st_writer *w, const void *bytes, size_t n, ij_err *err);
/* All declared bytes must have been put. Syncs, renames and closes; on failure the temporary file is removed. */
ij_status ij__st_writer_finish(ij_st_writer **w, ij_err *err);
/* Gives up: removes the temporary file. NULL is fine. */
void ij__st_writer_abort(ij_st_writer **w);

/* A small file written the same way. */
ij_status ij__st_write_text(const char *path, const char *text, size_t n, ij_err *err);

/* The temporary name used for `path` by this process, from ij__alloc; NULL without memory. */
char *ij__st_part_path(const char *path);

#endif
