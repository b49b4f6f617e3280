/* quant.c: a row of any weight type, value by value, through the decoders of fmt_*.h. */
#include "quant/quant.h"

#include "quant/fmt_affine.h"
#include "quant/fmt_blocks.h"

static void decode_float(float *y, const uint8_t *row, ij_dtype t, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = ij__fmt_side(row, t, i);
}

static void decode_block(float *y, const uint8_t *block, ij_dtype t) {
  switch (t) {
#define BLOCK_CASE(name, id) \
  case IJ_DTYPE_##id: ij__fmt_##name(y, block); break;
    IJ_FMT_BLOCK_LIST(BLOCK_CASE)
#undef BLOCK_CASE
    default: break; /* not reached: the caller has a block type */
  }
}

static void decode_group(float *y, const uint8_t *codes, uint8_t scale, ij_dtype t) {
  if (t == IJ_DTYPE_NVFP4_SPLIT) ij__fmt_nvfp4_split(y, codes, scale);
  else if (t == IJ_DTYPE_MXFP4_SPLIT) ij__fmt_mxfp4_split(y, codes, scale);
  else ij__fmt_mxfp8_split(y, codes, scale);
}

/* Block types, and split types whose scales are bytes. */
static void decode_blocks(float *y, const ij_weight *w) {
  int64_t len = ij__dtype_block_len(w->dtype), bytes = ij__dtype_block_bytes(w->dtype);
  const uint8_t *p = w->data, *scale = w->scales;
  for (int64_t i = 0; i < w->cols; i += len, p += bytes) {
    if (ij__dtype_is_block(w->dtype)) decode_block(y + i, p, w->dtype);
    else decode_group(y + i, p, scale[i / len], w->dtype);
  }
}

void ij__quant_decode_row(float *y, const ij_weight *w, int64_t row) {
  ij_weight at = ij__weight_from(*w, row);
  if (ij__dtype_is_float(w->dtype)) {
    decode_float(y, at.data, at.dtype, at.cols);
  } else if (ij__dtype_is_affine(w->dtype)) {
    ij__fmt_affine(y, at.data, ij__fmt_affine_bits(at.dtype), at.scales, at.biases, at.side_dtype, at.group, 0, at.cols);
  } else {
    decode_blocks(y, &at);
  }
  if (!w->has_factor) return;
  for (int64_t i = 0; i < w->cols; i++) y[i] *= w->factor;
}
