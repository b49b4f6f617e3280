/* decode_neon.c: the decode entries of this level: loops over the blocks of a stretch around the decoders of decode_*_neon.h.
 *
 * What a loop needs of codebooks is made before it. Every value equals that of quant/fmt_*.h to the bit.
 */
#include "kernels/arm/decode_affine_neon.h"
#include "kernels/arm/decode_basic_neon.h"
#include "kernels/arm/decode_fp4_neon.h"
#include "kernels/arm/decode_iq_neon.h"
#include "kernels/arm/decode_k_neon.h"
#include "kernels/kernels_int.h"

/* Lengths of blocks, known to the compiler. */
enum {
#define BLOCK_SIZE(id, name, len, bytes) LEN_##id = len, BYTES_##id = bytes,
  IJ_DTYPE_LIST(BLOCK_SIZE)
#undef BLOCK_SIZE
};

/* X(name, identifier in dtype.h) */
#define PLAIN_TYPES(X)                                                                                                          \
  X(q5_0, Q5_0) X(q5_1, Q5_1) X(q8_0, Q8_0) X(q2_k, Q2_K) X(q5_k, Q5_K) X(q6_k, Q6_K) X(tq1_0, TQ1_0) X(tq2_0, TQ2_0)           \
  X(iq1_s, IQ1_S) X(iq1_m, IQ1_M) X(iq2_xxs, IQ2_XXS) X(iq2_xs, IQ2_XS) X(iq2_s, IQ2_S) X(iq3_xxs, IQ3_XXS) X(iq3_s, IQ3_S)

/* X(name, identifier in dtype.h, codebook) */
#define CODEBOOK_TYPES(X)                                                                                                       \
  X(q4_0, Q4_0, codebook_from(-8)) X(q4_1, Q4_1, codebook_from(0)) X(q3_k, Q3_K, codebook_from(-4))                             \
  X(q4_k, Q4_K, codebook_from(0)) X(iq4_nl, IQ4_NL, codebook_of_s8(ij__iq4_values))                                             \
  X(iq4_xs, IQ4_XS, codebook_of_s8(ij__iq4_values)) X(mxfp4, MXFP4, codebook_of_s8(ij__e2m1_twice))                             \
  X(nvfp4, NVFP4, nvfp4_codebook())

#define DECODE_PLAIN(name, id)                                                                          \
  static void decode_##name##_neon(float *y, const ij_stretch *s) {                                     \
    const uint8_t *block = (const uint8_t *)s->row + (uint64_t)s->c0 / LEN_##id * BYTES_##id;                     \
    const float *end = y + s->n;                                                                        \
    for (; y < end; y += LEN_##id, block += BYTES_##id) name##_neon(y, block);                          \
  }
PLAIN_TYPES(DECODE_PLAIN)

#define DECODE_CODEBOOK(name, id, make_book)                                                            \
  static void decode_##name##_neon(float *y, const ij_stretch *s) {                                     \
    const uint8_t *block = (const uint8_t *)s->row + (uint64_t)s->c0 / LEN_##id * BYTES_##id;                     \
    const float *end = y + s->n;                                                                        \
    const codebook book = make_book;                                                                    \
    for (; y < end; y += LEN_##id, block += BYTES_##id) name##_neon(y, block, book);                    \
  }
CODEBOOK_TYPES(DECODE_CODEBOOK)

/* ---- split types: nothing in s is read after the first store, which might have changed it for all the compiler knows ------------- */

static void decode_nvfp4_split_neon(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 2, *scale = (const uint8_t *)s->scales + s->c0 / 16;
  const codebook book = codebook_of(lanes_load(ij__e2m1));
  int64_t n = s->n;
  for (; n >= 32; n -= 32, y += 32, codes += 16, scale += 2) nvfp4_split_pair_neon(y, codes, scale, book);
  if (n > 0) ij__fmt_nvfp4_split(y, codes, *scale);
}

static void decode_mxfp4_split_neon(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 2, *scale = (const uint8_t *)s->scales + s->c0 / 32;
  const codebook book = codebook_of(lanes_load(ij__e2m1));
  for (int64_t n = s->n; n > 0; n -= 32, y += 32, codes += 16) mxfp4_split_neon(y, codes, *scale++, book);
}

static void decode_mxfp8_split_neon(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0, *scale = (const uint8_t *)s->scales + s->c0 / 32;
  for (int64_t n = s->n; n > 0; n -= 32, y += 32, codes += 32) mxfp8_split_neon(y, codes, *scale++);
}

/* The groups of a stretch, with the type of the sidecars and the width of codes known to the compiler. */
INLINE void decode_affine_neon(float *y, const ij_stretch *s, const int bits, const ij_dtype side_type) {
  const int64_t group = s->group, group_bytes = group / 32 * (4 * bits);
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 32 * (4 * bits);
  const uint8_t *scale = (const uint8_t *)s->scales + s->c0 / group * side_bytes(side_type);
  const uint8_t *bias = (const uint8_t *)s->biases + s->c0 / group * side_bytes(side_type);
  const codebook book = codebook_from(0);
  for (int64_t n = s->n; n > 0; n -= group, y += group, codes += group_bytes) {
    affine_group_neon(y, codes, bits, side_at(scale, side_type), side_at(bias, side_type), group, side_type, book);
    scale += side_bytes(side_type);
    bias += side_bytes(side_type);
  }
}

#define DECODE_AFFINE(bits)                                                                             \
  static void decode_affine##bits##_neon(float *y, const ij_stretch *s) {                               \
    switch (s->side_dtype) {                                                                            \
      case IJ_DTYPE_F32: decode_affine_neon(y, s, bits, IJ_DTYPE_F32); break;                           \
      case IJ_DTYPE_BF16: decode_affine_neon(y, s, bits, IJ_DTYPE_BF16); break;                         \
      default: decode_affine_neon(y, s, bits, IJ_DTYPE_F16); break;                                     \
    }                                                                                                   \
  }
DECODE_AFFINE(2)
DECODE_AFFINE(3)
DECODE_AFFINE(4)
DECODE_AFFINE(5)
DECODE_AFFINE(6)
DECODE_AFFINE(8)

void ij__decode_fill_neon(ij_kernels *k) {
#define SET_BLOCK(name, id, ...) k->decode[IJ_DTYPE_##id] = decode_##name##_neon;
  PLAIN_TYPES(SET_BLOCK)
  CODEBOOK_TYPES(SET_BLOCK)
#undef SET_BLOCK
  k->decode[IJ_DTYPE_AFFINE2] = decode_affine2_neon;
  k->decode[IJ_DTYPE_AFFINE3] = decode_affine3_neon;
  k->decode[IJ_DTYPE_AFFINE4] = decode_affine4_neon;
  k->decode[IJ_DTYPE_AFFINE5] = decode_affine5_neon;
  k->decode[IJ_DTYPE_AFFINE6] = decode_affine6_neon;
  k->decode[IJ_DTYPE_AFFINE8] = decode_affine8_neon;
  k->decode[IJ_DTYPE_NVFP4_SPLIT] = decode_nvfp4_split_neon;
  k->decode[IJ_DTYPE_MXFP4_SPLIT] = decode_mxfp4_split_neon;
  k->decode[IJ_DTYPE_MXFP8_SPLIT] = decode_mxfp8_split_neon;
}
