/* decode_ref.c: stored block and split types to float32 in scalar C, a loop over the decoders of quant/fmt_*.h: the definition. */
#include "kernels/kernels_int.h"
#include "quant/fmt_affine.h"
#include "quant/fmt_blocks.h"

#define DECODE_BLOCKS(name, id)                                                                         \
  static void decode_##name(float *y, const ij_stretch *s) {                                            \
    int64_t len = ij__dtype_block_len(IJ_DTYPE_##id), bytes = ij__dtype_block_bytes(IJ_DTYPE_##id);     \
    const uint8_t *block = (const uint8_t *)s->row + s->c0 / len * bytes;                               \
    for (int64_t i = 0; i < s->n; i += len, block += bytes) ij__fmt_##name(y + i, block);               \
  }
IJ_FMT_BLOCK_LIST(DECODE_BLOCKS)

#define DECODE_AFFINE(bits)                                                                             \
  static void decode_affine##bits(float *y, const ij_stretch *s) {                                      \
    ij__fmt_affine(y, s->row, bits, s->scales, s->biases, s->side_dtype, s->group, s->c0, s->n);        \
  }
DECODE_AFFINE(2)
DECODE_AFFINE(3)
DECODE_AFFINE(4)
DECODE_AFFINE(5)
DECODE_AFFINE(6)
DECODE_AFFINE(8)

/* Groups of `len` values in `bytes` bytes, and a scale byte each. */
#define DECODE_GROUPS(name, len, bytes)                                                                 \
  static void decode_##name(float *y, const ij_stretch *s) {                                            \
    int64_t g = s->c0 / len;                                                                            \
    const uint8_t *codes = (const uint8_t *)s->row + g * bytes, *scale = (const uint8_t *)s->scales + g; \
    for (int64_t i = 0; i < s->n; i += len, codes += bytes) ij__fmt_##name(y + i, codes, *scale++);     \
  }
DECODE_GROUPS(nvfp4_split, 16, 8)
DECODE_GROUPS(mxfp4_split, 32, 16)
DECODE_GROUPS(mxfp8_split, 32, 32)

void ij__decode_fill_ref(ij_kernels *k) {
#define SET_BLOCK(name, id) k->decode[IJ_DTYPE_##id] = decode_##name;
  IJ_FMT_BLOCK_LIST(SET_BLOCK)
#undef SET_BLOCK
  k->decode[IJ_DTYPE_AFFINE2] = decode_affine2;
  k->decode[IJ_DTYPE_AFFINE3] = decode_affine3;
  k->decode[IJ_DTYPE_AFFINE4] = decode_affine4;
  k->decode[IJ_DTYPE_AFFINE5] = decode_affine5;
  k->decode[IJ_DTYPE_AFFINE6] = decode_affine6;
  k->decode[IJ_DTYPE_AFFINE8] = decode_affine8;
  k->decode[IJ_DTYPE_NVFP4_SPLIT] = decode_nvfp4_split;
  k->decode[IJ_DTYPE_MXFP4_SPLIT] = decode_mxfp4_split;
  k->decode[IJ_DTYPE_MXFP8_SPLIT] = decode_mxfp8_split;
}
