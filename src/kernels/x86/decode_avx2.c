/* decode_avx2.c: every block and split type to float32 with 256-bit registers.
 *
 * The headers hold the decoders of one block or 32 values; here are the loops over a stretch.
 */
#include "kernels/kernels_int.h"
#include "kernels/x86/coded_consts.h"
#include "kernels/x86/decode_iq_avx2.h"
#include "kernels/x86/decode_k_avx2.h"
#include "kernels/x86/decode_split_avx2.h"

/* Blocks of 256 values, by turns. */
#define DECODE_BLOCKS(name, id, turns)                                                                   \
  static void decode_##name(float *y, const ij_stretch *s) {                                             \
    const int64_t bytes = coded_bytes(IJ_DTYPE_##id);                                                    \
    const uint8_t *b = (const uint8_t *)s->row + s->c0 / 256 * bytes;                                    \
    for (const float *end = y + s->n; y < end; b += bytes) {                                             \
      ij_ahead a;                                                                                       \
      ij__##name##_ahead(&a, b);                                                                        \
      IJ_IN_MEMORY(a);                                                                                   \
      for (int64_t j = 0; j < turns; j++, y += 256 / turns) {                                            \
        ij_sink k = {.y = y};                                                                            \
        ij__##name##_part(&k, &a, b, j);                                                                 \
      }                                                                                                  \
    }                                                                                                    \
  }
IJ_K_TYPES(DECODE_BLOCKS)
IJ_IQ_TYPES(DECODE_BLOCKS)

/* Blocks of 32 values, which begin with their scale; X(name, identifier). */
#define SMALL_BLOCKS(X) X(q4_0, Q4_0) X(q4_1, Q4_1) X(q5_0, Q5_0) X(q5_1, Q5_1) X(q8_0, Q8_0) X(iq4_nl, IQ4_NL) X(mxfp4, MXFP4)

#define DECODE_SMALL(name, id)                                                                                            \
  static void decode_##name(float *y, const ij_stretch *s) {                                                              \
    const int64_t bytes = coded_bytes(IJ_DTYPE_##id);                                                                     \
    const uint8_t *b = (const uint8_t *)s->row + s->c0 / 32 * bytes;                                                      \
    for (int64_t i = 0; i < s->n; i += 32, b += bytes) {                                                                  \
      ij_sink k = {.y = y + i};                                                                                           \
      __m256 d = IJ_DTYPE_##id == IJ_DTYPE_MXFP4 ? _mm256_set1_ps(ij__fmt_e8m0_half(b[0])) : ij__f16_avx2(b);             \
      ij__##name##_avx2(&k, 0, b, d, ij__f16_avx2(b + 2)); /* the second is an offset where there is one, else not used */ \
    }                                                                                                                     \
  }
SMALL_BLOCKS(DECODE_SMALL)

static void decode_nvfp4(float *y, const ij_stretch *s) {
  const uint8_t *b = (const uint8_t *)s->row + s->c0 / 64 * 36;
  for (int64_t i = 0; i < s->n; i += 64, b += 36) {
    ij_sink k = {.y = y + i};
    ij__nvfp4_avx2(&k, b);
  }
}

/* Side values are loaded once per group. */
#define DECODE_AFFINE(bits)                                                                                        \
  static void decode_affine##bits(float *y, const ij_stretch *s) {                                                 \
    const bool once = s->side_dtype != IJ_DTYPE_F32;                                                               \
    const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 32 * (4 * bits);                                      \
    for (int64_t i = 0, g = s->c0 / s->group; i < s->n; g++) {                                                     \
      __m256 scale = _mm256_set1_ps(ij__fmt_side(s->scales, s->side_dtype, g));                                    \
      __m256 bias = _mm256_set1_ps(ij__fmt_side(s->biases, s->side_dtype, g));                                     \
      for (int64_t end = i + s->group; i < end; i += 32, codes += 4 * bits) {                                      \
        ij_sink k = {.y = y + i};                                                                                  \
        ij__affine##bits##_avx2(&k, 0, codes, scale, bias, once);                                                  \
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
  for (; i + 32 <= s->n; i += 32) {
    ij_sink k = {.y = y + i};
    ij__nvfp4_split_avx2(&k, 0, codes + i / 2, scales + i / 16);
  }
  if (i < s->n) ij__fmt_nvfp4_split(y + i, codes + i / 2, scales[i / 16]);
}

static void decode_mxfp4_split(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 2, *scales = (const uint8_t *)s->scales + s->c0 / 32;
  for (int64_t i = 0; i < s->n; i += 32) {
    ij_sink k = {.y = y + i};
    ij__mxfp4_split_avx2(&k, 0, codes + i / 2, _mm256_set1_ps(ij__fmt_e8m0(scales[i / 32])));
  }
}

static void decode_mxfp8_split(float *y, const ij_stretch *s) {
  const uint8_t *codes = (const uint8_t *)s->row + s->c0, *scales = (const uint8_t *)s->scales + s->c0 / 32;
  for (int64_t i = 0; i < s->n; i += 32) {
    ij_sink k = {.y = y + i};
    ij__mxfp8_split_avx2(&k, 0, codes + i, _mm256_set1_ps(ij__fmt_e8m0(scales[i / 32])));
  }
}

void ij__decode_fill_avx2(ij_kernels *k) {
#define SET_BLOCKS(name, id, turns) k->decode[IJ_DTYPE_##id] = decode_##name;
  IJ_K_TYPES(SET_BLOCKS)
  IJ_IQ_TYPES(SET_BLOCKS)
#undef SET_BLOCKS
#define SET_SMALL(name, id) k->decode[IJ_DTYPE_##id] = decode_##name;
  SMALL_BLOCKS(SET_SMALL)
#undef SET_SMALL
#define SET_AFFINE(bits) k->decode[IJ_DTYPE_AFFINE##bits] = decode_affine##bits;
  SET_AFFINE(2) SET_AFFINE(3) SET_AFFINE(4) SET_AFFINE(5) SET_AFFINE(6) SET_AFFINE(8)
#undef SET_AFFINE
  k->decode[IJ_DTYPE_NVFP4] = decode_nvfp4;
  k->decode[IJ_DTYPE_NVFP4_SPLIT] = decode_nvfp4_split;
  k->decode[IJ_DTYPE_MXFP4_SPLIT] = decode_mxfp4_split;
  k->decode[IJ_DTYPE_MXFP8_SPLIT] = decode_mxfp8_split;
}
