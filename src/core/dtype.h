/* dtype.h: the one table of storage types. Adding a format to any reader starts with a row here. */
#ifndef IJ_CORE_DTYPE_H
#define IJ_CORE_DTYPE_H

#include "core/base.h"

/* X(identifier, safetensors name, values per block, bytes per block) */
#define IJ_DTYPE_LIST(X)  \
  X(F32, "F32", 1, 4)     \
  X(BF16, "BF16", 1, 2)   \
  X(F16, "F16", 1, 2)     \
  X(F64, "F64", 1, 8)     \
  X(F8_E4M3, "F8_E4M3", 1, 1) \
  X(F8_E5M2, "F8_E5M2", 1, 1) \
  X(I64, "I64", 1, 8)     \
  X(I32, "I32", 1, 4)     \
  X(I16, "I16", 1, 2)     \
  X(I8, "I8", 1, 1)       \
  X(U64, "U64", 1, 8)     \
  X(U32, "U32", 1, 4)     \
  X(U16, "U16", 1, 2)     \
  X(U8, "U8", 1, 1)       \
  X(BOOL, "BOOL", 1, 1)

typedef enum ij_dtype {
#define IJ_DTYPE_ENUM(id, name, len, bytes) IJ_DTYPE_##id,
  IJ_DTYPE_LIST(IJ_DTYPE_ENUM)
#undef IJ_DTYPE_ENUM
  IJ_DTYPE_COUNT
} ij_dtype;

const char *ij__dtype_name(ij_dtype t);
int64_t ij__dtype_block_len(ij_dtype t);
int64_t ij__dtype_block_bytes(ij_dtype t);

/* The type with this safetensors name, or IJ_DTYPE_COUNT. */
ij_dtype ij__dtype_find(const char *name, size_t len);

/* Types in which a weight matrix can be used as stored in this version: F32, BF16, F16. */
static inline bool ij__dtype_is_float(ij_dtype t) { return t == IJ_DTYPE_F32 || t == IJ_DTYPE_BF16 || t == IJ_DTYPE_F16; }

/* A matrix where it lies: `rows` rows of `cols` values, rows `row_stride` bytes apart. A view: it never owns the bytes. */
typedef struct ij_weight {
  const void *data;
  ij_dtype dtype;
  int64_t rows, cols;
  int64_t row_stride;
} ij_weight;

#endif
