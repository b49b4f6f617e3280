/* safetensors.h: the header of one safetensors file, checked, as a list of views.
 *
 * Works on bytes in memory, so that a mapped file, a test and a fuzzer come in through the same door. Views point into those bytes, names
 * into the parsed header: both must outlive the result.
 */
#ifndef IJ_IO_SAFETENSORS_H
#define IJ_IO_SAFETENSORS_H

#include "io/ckpt.h"

#define IJ_SAFETENSORS_MAX_HEADER ((size_t)100 << 20)

typedef struct ij_safetensors {
  ij_json *header;       /* owns the names */
  ij_tensor_view *tensors; /* in order of offset */
  int n_tensors;
} ij_safetensors;

/* Parses and checks everything about n bytes that are a whole file; path goes into errors and into the views. On success free with
 * ij__safetensors_free; on failure there is nothing to free. */
ij_status ij__safetensors_parse(ij_safetensors *out, const void *bytes, size_t n, const char *path, ij_err *err);
void ij__safetensors_free(ij_safetensors *s);

#endif
