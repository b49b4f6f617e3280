/* gguf.h: one GGUF file in memory -> its metadata and its tensors.
 *
 * Every count, length and offset is checked against the bytes that are there before it is used; nothing is allocated in
 * proportion to a number that the file merely claims. Works on plain bytes, so a test or a fuzzer needs no file. Joining the parts
 * of a split set is the business of ckpt.c.
 */
#ifndef IJ_IO_GGUF_H
#define IJ_IO_GGUF_H

#include "core/base.h"
#include "core/status.h"
#include "io/ckpt.h"

/* Value types, numbered as in the file. */
typedef enum ij_gguf_type {
  IJ_GGUF_U8, IJ_GGUF_I8, IJ_GGUF_U16, IJ_GGUF_I16, IJ_GGUF_U32, IJ_GGUF_I32, IJ_GGUF_F32, IJ_GGUF_BOOL,
  IJ_GGUF_STRING, IJ_GGUF_ARRAY, IJ_GGUF_U64, IJ_GGUF_I64, IJ_GGUF_F64,
  IJ_GGUF_N_TYPES
} ij_gguf_type;

/* One key. A scalar is an array of one with is_array false. Arrays of arrays are refused when the file is parsed. */
typedef struct ij_gguf_value {
  const char *key;
  ij_gguf_type type; /* of the elements; never IJ_GGUF_ARRAY */
  bool is_array;
  int64_t n;
  const void *data;        /* elements as they lie in the file, unaligned, little endian; use the functions below */
  const uint64_t *offsets; /* strings: [n] from the start of the file to each string's length field; else NULL */
} ij_gguf_value;

typedef struct ij_gguf {
  ij_gguf_value *values; /* in order of the file */
  size_t n_values;
  ij_tensor_view *tensors; /* in order of offset; dims slowest first (the reverse of the file); `data` points into the bytes */
  size_t n_tensors;
  uint32_t version;
  size_t alignment;
  const char *path;   /* borrowed */
  const void *bytes;  /* the file, borrowed */
  char *names;        /* holds all keys and names */
  uint64_t *offsets;  /* holds the tables of all strings */
} ij_gguf;

/* `bytes` is the whole file and must outlive *out. `path` becomes the tensors' `file` (borrowed) and the place in errors. */
ij_status ij__gguf_parse(ij_gguf *out, const void *bytes, size_t n_bytes, const char *path, ij_err *err);
void ij__gguf_free(ij_gguf *g);

const ij_gguf_value *ij__gguf_find(const ij_gguf *g, const char *key); /* NULL when absent */
const char *ij__gguf_type_name(ij_gguf_type t);
size_t ij__gguf_type_bytes(ij_gguf_type t); /* of one element; 0 for strings */

/* Element i of a value. False when it is of another kind or does not fit: integers accept any integer type and bool; reals accept
 * those and F32, F64. Strings are not terminated and may hold any bytes; they point into the file. */
bool ij__gguf_int(const ij_gguf_value *v, int64_t i, int64_t *out);
bool ij__gguf_real(const ij_gguf_value *v, int64_t i, double *out);
bool ij__gguf_string(const ij_gguf *g, const ij_gguf_value *v, int64_t i, const char **text, size_t *len);

#endif
