/* decode_avx2.c: every block and split type to float32 with 256-bit registers.
 *
 * The headers hold the decoders of one block or 32 values; here are the loops over a stretch.
 */
#include "kernels/kernels_int.h"
#include "kernels/x86/decode_iq_avx2.h"
#include "kernels/x86/decode_k_avx2.h"
#include "kernels/x86/decode_split_avx2.h"

/* X(name, identifier in dtype.h, values and bytes of a block) */
#define BLOCK_TYPES(X)                                                                                                     \
  X(q4_0, Q4_0, 32, 18) X(q4_1, Q4_1, 32, 20) X(q5_0, Q5_0, 32, 22) X(q5_1, Q5_1, 32, 24) X(q8_0, Q8_0, 32, 34)            \
  X(q2_k, Q2_K, 256, 84) X(q3_k, Q3_K, 256, 110) X(q4_k, Q4_K, 256, 144) X(q5_k, Q5_K, 256, 176) X(q6_k, Q6_K, 256, 210)   \
  X(iq1_s, IQ1_S, 256, 50) X(iq1_m, IQ1_M, 256, 56) X(iq2_xxs, IQ2_XXS, 256, 66) X(iq2_xs, IQ2_XS, 256, 74)                \
  X(iq2_s, IQ2_S, 256, 82) X(iq3_xxs, IQ3_XXS, 256, 98) X(iq3_s, IQ3_S, 256, 110) X(iq4_nl, IQ4_NL, 32, 18)                \
  X(iq4_xs, IQ4_XS, 256, 136) X(tq1_0, TQ1_0, 256, 54) X(tq2_0, TQ2_0, 256, 66) X(mxfp4, MXFP4, 32, 17) X(nvfp4, NVFP4, 64, 36)

#define DECODE_BLOCKS(name, id, len, bytes)                                             \
  static void decode_##name(float *y, const ij_stretch *s) {                            \
    const uint8_t *b = (const uint8_t *)s->row + s->c0 / len * bytes;                   \
    for (int64_t i = 0; i < s->n; i += len, b += bytes) ij__##name##_avx2(y + i, b);    \
  }
BLOCK_TYPES(DECODE_BLOCKS)

/* Side values are loaded once per group. */
#define DECODE_AFFINE(bits)                                                                                        \
  static void decode_affine##bits(float *y, const ij_stretch *s) {                                                 \
    const bool fused = s->side_dtype != IJ_DTYPE_F32;                                                              \
    const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 32 * (4 * bits);                                      \
    for (int64_t i = 0, g = s->c0 / s->group; i < s->n; g++) {                                                     \
      __m256 scale = _mm256_set1_ps(ij__fmt_side(s->scales, s->side_dtype, g));                                    \
      __m256 bias = _mm256_set1_ps(ij__fmt_side(s->biases, s->side_dtype, g));                                     \
      for (int64_t end = i + s->group; i < end; i += 32, codes += 4 * bits) {                                      \
        ij__affine##bits##_avx2(y + i, codes, scale, bias, fused);                                                 \
      }                                                                                                            \
    }                                                                                                              \
  }
DECODE_AFFINE(2)
DECODE_AFFINE(3)
DECODE_AFFINE(4)
DECODE_AFFINE(5)
DECODE_AFFINE(6)
DECODE_AFFINE(8)

static void decode_nvfp4_split(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 2, *scales = (const uint8_t *)s->scales + s->c0 / 16;
  int64_t i = 0;
  for (; i + 32 <= s->n; i += 32) ij__nvfp4_split_avx2(y + i, codes + i / 2, scales + i / 16);
  if (i < s->n) ij__fmt_nvfp4_split(y + i, codes + i / 2, scales[i / 16]);
}

static void decode_mxfp4_split(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 2, *scales = (const uint8_t *)s->scales + s->c0 / 32;
  for (int64_t i = 0; i < s->n; i += 32) ij__mxfp4_split_avx2(y + i, codes + i / 2, scales[i / 32]);
}

static void decode_mxfp8_split(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0, *scales = (const uint8_t *)s->scales + s->c0 / 32;
  for (int64_t i = 0; i < s->n; i += 32) ij__mxfp8_split_avx2(y + i, codes + i, scales[i / 32]);
}

void ij__decode_fill_avx2(ij_kernels *k) {
#define SET_BLOCK(name, id, len, bytes) k->decode[IJ_DTYPE_##id] = decode_##name;
  BLOCK_TYPES(SET_BLOCK)
#undef SET_BLOCK
#define SET_AFFINE(bits) k->decode[IJ_DTYPE_AFFINE##bits] = decode_affine##bits;
  SET_AFFINE(2) SET_AFFINE(3) SET_AFFINE(4) SET_AFFINE(5) SET_AFFINE(6) SET_AFFINE(8)
#undef SET_AFFINE
  k->decode[IJ_DTYPE_NVFP4_SPLIT] = decode_nvfp4_split;
  k->decode[IJ_DTYPE_MXFP4_SPLIT] = decode_mxfp4_split;
  k->decode[IJ_DTYPE_MXFP8_SPLIT] = decode_mxfp8_split;
}
