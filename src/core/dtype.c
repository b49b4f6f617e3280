/* dtype.c: look-ups in the table of dtype.h. */
#include "core/dtype.h"

#include <string.h>

static const struct {
  const char *name;
  int64_t block_len, block_bytes;
} dtypes[IJ_DTYPE_COUNT] = {
#define DTYPE_ROW(id, name, len, bytes) [IJ_DTYPE_##id] = {name, len, bytes},
    IJ_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *ij__dtype_name(ij_dtype t) { return dtypes[t].name; }
int64_t ij__dtype_block_len(ij_dtype t) { return dtypes[t].block_len; }
int64_t ij__dtype_block_bytes(ij_dtype t) { return dtypes[t].block_bytes; }
int64_t ij__dtype_row_bytes(ij_dtype t, int64_t cols) { return cols / dtypes[t].block_len * dtypes[t].block_bytes; }

ij_dtype ij__dtype_find(const char *name, size_t len) {
  for (int t = 0; t <= IJ_DTYPE_BOOL; t++) {
    if (strlen(dtypes[t].name) == len && memcmp(dtypes[t].name, name, len) == 0) return (ij_dtype)t;
  }
  return IJ_DTYPE_COUNT;
}

void ij__weight_extent(const ij_weight *w, size_t n_bytes[3]) {
  ij_dtype side = ij__dtype_is_affine(w->dtype) ? w->side_dtype : IJ_DTYPE_U8;
  int64_t side_row = w->group > 0 ? w->cols / w->group * ij__dtype_block_bytes(side) : 0;
  n_bytes[0] = (size_t)((w->rows - 1) * w->row_stride + ij__dtype_row_bytes(w->dtype, w->cols));
  n_bytes[1] = w->scales ? (size_t)((w->rows - 1) * w->side_stride + side_row) : 0;
  n_bytes[2] = w->biases ? (size_t)((w->rows - 1) * w->side_stride + side_row) : 0;
}
