/* safetensors.h: one safetensors file in memory -> its tensors.
 *
 * Every rule of the format is checked before a tensor comes out, in O(n log n) of the number of tensors, and all findings of a
 * kind are reported together. Works on plain bytes, so a test or a fuzzer needs no file.
 */
#ifndef IJ_IO_SAFETENSORS_H
#define IJ_IO_SAFETENSORS_H

#include "core/base.h"
#include "core/status.h"
#include "io/ckpt.h"

#define IJ_SAFETENSORS_MAX_HEADER 100000000 /* bytes; the bound that the format's reference reader uses */

typedef struct ij_safetensors {
  ij_tensor_view *tensors; /* in order of offset; `data` points into the bytes that were parsed */
  size_t n;
  char *names; /* holds all names */
} ij_safetensors;

/* `bytes` is the whole file and must outlive the tensors. `path` becomes their `file` (borrowed) and the place in errors. */
ij_status ij__safetensors_parse(ij_safetensors *out, const void *bytes, size_t n_bytes, const char *path, ij_err *err);
void ij__safetensors_free(ij_safetensors *st);

#endif
