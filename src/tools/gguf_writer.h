/* gguf_writer.h: writes one GGUF file (version 3, alignment 32) as a stream, with the memory of its header only.
 *
 * Keys are collected first, then the tensors are declared, and their bytes follow in that order; padding between tensors is the
 * writer's affair. The file appears when it is complete (ij_out_file). One writer is used by one thread.
 */
#ifndef IJ_TOOLS_GGUF_WRITER_H
#define IJ_TOOLS_GGUF_WRITER_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/status.h"
#include "core/str.h"
#include "io/gguf.h"
#include "tools/st_writer.h"

#define IJ_GGUF_ALIGNMENT 32

/* Keys in the order in which they are added. Zero-initialize; free with ij__gguf_keys_free. Memory that fails to come is noticed by
 * ij__gguf_writer_open. */
typedef struct ij_gguf_keys {
  ij_buf bytes;
  uint64_t n;
} ij_gguf_keys;

void ij__gguf_add_u32(ij_gguf_keys *k, const char *key, uint32_t value);
void ij__gguf_add_f32(ij_gguf_keys *k, const char *key, float value);
void ij__gguf_add_bool(ij_gguf_keys *k, const char *key, bool value);
void ij__gguf_add_string(ij_gguf_keys *k, const char *key, const char *value);
/* n fixed-size elements (any type but string and array), laid out as in memory, as one array. */
void ij__gguf_add_array(ij_gguf_keys *k, const char *key, ij_gguf_type type, const void *values, uint64_t n);
void ij__gguf_add_strings(ij_gguf_keys *k, const char *key, const char *const *values, uint64_t n);
/* A value of another file, as it is there. */
void ij__gguf_add_value(ij_gguf_keys *k, const ij_gguf *from, const ij_gguf_value *v);
void ij__gguf_keys_free(ij_gguf_keys *k);

/* The type's number in GGUF files; -1 when the format has no such type. */
int ij__gguf_type_number(ij_dtype t);

/* Everything before the values, as it stands in the file, and the size of the whole file. Dimensions are slowest first, as everywhere
 * here; the file has them the other way round. IJ_E_ARGUMENT names a tensor that the format cannot hold. */
ij_status ij__gguf_header(ij_buf *header, size_t *file_bytes, const ij_gguf_keys *keys, const ij_st_tensor *tensors, int n, ij_err *err);

typedef struct ij_gguf_writer ij_gguf_writer;

ij_status ij__gguf_writer_open(ij_gguf_writer **out, const char *path, const ij_gguf_keys *keys, const ij_st_tensor *tensors, int n,
                               ij_err *err);
/* The next bytes of the tensor that is being written; never beyond its end. */
ij_status ij__gguf_writer_put(ij_gguf_writer *w, const void *bytes, size_t n, ij_err *err);
/* All declared bytes must have been put. Syncs, renames and closes; on failure the temporary file is removed. */
ij_status ij__gguf_writer_finish(ij_gguf_writer **w, ij_err *err);
/* Gives up: removes the temporary file. NULL is fine. */
void ij__gguf_writer_abort(ij_gguf_writer **w);

#endif
