/* decode_ref.c: stored block and split types to float32 in scalar C, a loop over the decoders of quant/fmt_*.h: the definition. */
#include "kernels/kernels_int.h"
#include "quant/fmt_affine.h"
#include "quant/fmt_basic.h"
#include "quant/fmt_fp4.h"
#include "quant/fmt_iq.h"
#include "quant/fmt_k.h"
#include "quant/fmt_tq.h"

/* X(name in fmt_*.h, identifier in dtype.h) */
#define BLOCK_TYPES(X)                                                                                                   \
  X(q4_0, Q4_0) X(q4_1, Q4_1) X(q5_0, Q5_0) X(q5_1, Q5_1) X(q8_0, Q8_0)                                                  \
  X(q2_k, Q2_K) X(q3_k, Q3_K) X(q4_k, Q4_K) X(q5_k, Q5_K) X(q6_k, Q6_K)                                                  \
  X(iq1_s, IQ1_S) X(iq1_m, IQ1_M) X(iq2_xxs, IQ2_XXS) X(iq2_xs, IQ2_XS) X(iq2_s, IQ2_S) X(iq3_xxs, IQ3_XXS)              \
  X(iq3_s, IQ3_S) X(iq4_nl, IQ4_NL) X(iq4_xs, IQ4_XS) X(tq1_0, TQ1_0) X(tq2_0, TQ2_0) X(mxfp4, MXFP4) X(nvfp4, NVFP4)

#define DECODE_BLOCKS(name, id)                                                                         \
  static void decode_##name(float *y, const ij_stretch *s) {                                            \
    int64_t len = ij__dtype_block_len(IJ_DTYPE_##id), bytes = ij__dtype_block_bytes(IJ_DTYPE_##id);     \
    const uint8_t *block = (const uint8_t *)s->row + s->c0 / len * bytes;                               \
    for (int64_t i = 0; i < s->n; i += len, block += bytes) ij__fmt_##name(y + i, block);               \
  }
BLOCK_TYPES(DECODE_BLOCKS)

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
  BLOCK_TYPES(SET_BLOCK)
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
