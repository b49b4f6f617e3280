/* st_writer.h: begins one safetensors file; the values follow as a stream, with the memory of the header only.
 *
 * The tensors are declared first; their bytes follow in that order through ij__out_put, and ij__out_finish makes the file appear.
 */
#ifndef IJ_TOOLS_ST_WRITER_H
#define IJ_TOOLS_ST_WRITER_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/out_file.h"
#include "core/status.h"

typedef struct ij_st_tensor {
  const char *name;
  ij_dtype dtype;
  int n_dims;
  int64_t dims[4]; /* slowest first */
} ij_st_tensor;

/* Bytes of the tensor's values, also of block types (whose last dimension holds whole blocks). */
size_t ij__st_tensor_bytes(const ij_st_tensor *t);

ij_status ij__st_open(ij_out_file **out, const char *path, const ij_st_tensor *tensors, int n, ij_err *err);

#endif
