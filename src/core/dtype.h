/* dtype.h: the one table of storage types. Adding a format to any reader starts with a row here.
 *
 * Three families: the element types of safetensors (F32 to BOOL); the block types of GGUF (Q4_0 to NVFP4), whose scales lie inside
 * the block; and split types (AFFINE2 to MXFP8_SPLIT), whose codes are one array and whose scales, and biases, are others.
 */
#ifndef IJ_CORE_DTYPE_H
#define IJ_CORE_DTYPE_H

#include "core/base.h"

/* X(identifier, name as its format spells it, values per block, bytes per block). Of a split type: codes only. */
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
  X(BOOL, "BOOL", 1, 1)      \
  X(Q4_0, "Q4_0", 32, 18)    \
  X(Q4_1, "Q4_1", 32, 20)    \
  X(Q5_0, "Q5_0", 32, 22)    \
  X(Q5_1, "Q5_1", 32, 24)    \
  X(Q8_0, "Q8_0", 32, 34)    \
  X(Q2_K, "Q2_K", 256, 84)   \
  X(Q3_K, "Q3_K", 256, 110)  \
  X(Q4_K, "Q4_K", 256, 144)  \
  X(Q5_K, "Q5_K", 256, 176)  \
  X(Q6_K, "Q6_K", 256, 210)  \
  X(IQ1_S, "IQ1_S", 256, 50) \
  X(IQ1_M, "IQ1_M", 256, 56) \
  X(IQ2_XXS, "IQ2_XXS", 256, 66) \
  X(IQ2_XS, "IQ2_XS", 256, 74)   \
  X(IQ2_S, "IQ2_S", 256, 82)     \
  X(IQ3_XXS, "IQ3_XXS", 256, 98) \
  X(IQ3_S, "IQ3_S", 256, 110)    \
  X(IQ4_NL, "IQ4_NL", 32, 18)    \
  X(IQ4_XS, "IQ4_XS", 256, 136)  \
  X(TQ1_0, "TQ1_0", 256, 54)     \
  X(TQ2_0, "TQ2_0", 256, 66)     \
  X(MXFP4, "MXFP4", 32, 17)      \
  X(NVFP4, "NVFP4", 64, 36)      \
  X(AFFINE2, "affine 2-bit", 32, 8)   \
  X(AFFINE3, "affine 3-bit", 32, 12)  \
  X(AFFINE4, "affine 4-bit", 32, 16)  \
  X(AFFINE5, "affine 5-bit", 32, 20)  \
  X(AFFINE6, "affine 6-bit", 32, 24)  \
  X(AFFINE8, "affine 8-bit", 32, 32)  \
  X(NVFP4_SPLIT, "nvfp4", 16, 8)      \
  X(MXFP4_SPLIT, "mxfp4", 32, 16)     \
  X(MXFP8_SPLIT, "mxfp8", 32, 32)

typedef enum ij_dtype {
#define IJ_DTYPE_ENUM(id, name, len, bytes) IJ_DTYPE_##id,
  IJ_DTYPE_LIST(IJ_DTYPE_ENUM)
#undef IJ_DTYPE_ENUM
  IJ_DTYPE_COUNT
} ij_dtype;

const char *ij__dtype_name(ij_dtype t);
int64_t ij__dtype_block_len(ij_dtype t);
int64_t ij__dtype_block_bytes(ij_dtype t);

/* Bytes of one row of `cols` values (codes only for split types); cols is a multiple of the block length, which the caller has checked. */
int64_t ij__dtype_row_bytes(ij_dtype t, int64_t cols);

/* The element type with this safetensors name, or IJ_DTYPE_COUNT. Never a block or a split type. */
ij_dtype ij__dtype_find(const char *name, size_t len);

static inline bool ij__dtype_is_float(ij_dtype t) { return t == IJ_DTYPE_F32 || t == IJ_DTYPE_BF16 || t == IJ_DTYPE_F16; }
static inline bool ij__dtype_is_block(ij_dtype t) { return t >= IJ_DTYPE_Q4_0 && t <= IJ_DTYPE_NVFP4; }
static inline bool ij__dtype_is_split(ij_dtype t) { return t >= IJ_DTYPE_AFFINE2 && t <= IJ_DTYPE_MXFP8_SPLIT; }
static inline bool ij__dtype_is_affine(ij_dtype t) { return t >= IJ_DTYPE_AFFINE2 && t <= IJ_DTYPE_AFFINE8; }
/* Types whose products are sums of integers inside a block or group, with x rounded to integers of 24 bits (ij_ints in kernels/kernels.h); those of
 * all others are sums of the decoded float32 values. */
static inline bool ij__dtype_in_integers(ij_dtype t) { return t == IJ_DTYPE_Q2_K || t == IJ_DTYPE_Q4_K || t == IJ_DTYPE_AFFINE4; }
/* Types in which a weight matrix can be used as stored. */
static inline bool ij__dtype_is_weight(ij_dtype t) { return ij__dtype_is_float(t) || ij__dtype_is_block(t) || ij__dtype_is_split(t); }

/* A matrix where it lies: `rows` rows of `cols` values, rows `row_stride` bytes apart. A view: it never owns the bytes.
 *
 * Split types have more arrays: row r of `scales` (and, affine types, of `biases`) starts side_stride * r bytes after its start and
 * holds one value per `group` values of the row. Element types of scales and biases: affine F32, BF16 or F16 (side_dtype); NVFP4_SPLIT
 * E4M3 per 16; MXFP4_SPLIT and MXFP8_SPLIT E8M0 (2^(byte - 127)) per 32. Such sidecars have no alignment.
 * With has_factor the matrix is `factor` times what is stored (factor may be 0). */
typedef struct ij_weight {
  const void *data;
  ij_dtype dtype;
  int64_t rows, cols;
  int64_t row_stride;
  const void *scales, *biases;
  int64_t side_stride;
  ij_dtype side_dtype;
  int group;
  bool has_factor;
  float factor;
} ij_weight;

/* Bytes from the first one of its data to the last, and the same of its scales and of its biases; 0: none. */
void ij__weight_extent(const ij_weight *w, size_t n_bytes[3]);

/* The same matrix from row `row` on. */
static inline ij_weight ij__weight_from(ij_weight w, int64_t row) {
  w.data = (const char *)w.data + row * w.row_stride;
  if (w.scales) w.scales = (const char *)w.scales + row * w.side_stride;
  if (w.biases) w.biases = (const char *)w.biases + row * w.side_stride;
  w.rows -= row;
  return w;
}

#endif
