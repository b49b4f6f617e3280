/* decode_avx512.c: block and split types of four and more bits, and affine ones of any width, to float32 with 512-bit registers: loops
 * over the decoders of coded_avx512.h.
 */
#include "kernels/x86/coded_avx512.h"

fp4_tables ij__fp4_tables;

static void fp4_tables_make(void) {
  for (int e = 0; e < 256; e++) {
    ij__fp4_tables.e8m0[e] = ij__fmt_e8m0((uint8_t)e);
    ij__fp4_tables.e8m0_half[e] = ij__fmt_e8m0_half((uint8_t)e);
    for (int i = 0; i < 16; i++) {
      ij__fp4_tables.nvfp4_split[e][i] = ij__e2m1[i] * ij__e4m3[e];
      ij__fp4_tables.nvfp4[e][i] = ij__fmt_ue4m3_half((uint8_t)e) * (float)ij__e2m1_twice[i];
    }
  }
}

/* ---- blocks ---- */

CODED void decode_blocks(float *y, const int64_t step, const ij_stretch *s, const ij_dtype type) {
  const int64_t len = coded_len(type), bytes = coded_bytes(type), n_scale = block_scales_len(type);
  const uint8_t *b = (const uint8_t *)s->row + s->c0 / len * bytes;
  _Alignas(64) float scales[SCALES_MAX + 4];
  sink k = {.y = y, .step = step};
  for (int64_t i = 0; i < s->n; i += SCALES_AHEAD) {
    const int64_t n = IJ_MIN(s->n - i, (int64_t)SCALES_AHEAD) / len;
    block_scales(scales, b, n, type);
    for (int64_t j = 0; j < n; j++, b += bytes, k.y += len / 16 * step) put_block(&k, 0, b, scales + j * n_scale, type);
  }
}

/* Values one after the other, and as they lie in the panels of the tiled product. */
#define DECODE_BLOCKS(id)                                                                                                  \
  static void decode_##id(float *y, const ij_stretch *s) { decode_blocks(y, 16, s, IJ_DTYPE_##id); }                       \
  static void panel_##id(float *y, const ij_stretch *s) { decode_blocks(y, IJ_PANEL_STEP, s, IJ_DTYPE_##id); }
DECODE_BLOCKS(Q4_0)
DECODE_BLOCKS(Q4_1)
DECODE_BLOCKS(Q5_0)
DECODE_BLOCKS(Q5_1)
DECODE_BLOCKS(Q8_0)
DECODE_BLOCKS(IQ4_NL)
DECODE_BLOCKS(Q5_K)
DECODE_BLOCKS(Q6_K)
DECODE_BLOCKS(IQ4_XS)
DECODE_BLOCKS(MXFP4)
DECODE_BLOCKS(NVFP4)

/* No panel: its products are of integers. */
static void decode_Q4_K(float *y, const ij_stretch *s) { decode_blocks(y, 16, s, IJ_DTYPE_Q4_K); }

/* ---- split types ---- */

CODED void decode_affine(float *y, const int64_t step, const ij_stretch *s, const int bits, const bool once) {
  float scales[16], biases[16];
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / 32 * (4 * bits);
  const int64_t g0 = s->c0 / s->group, n_group = s->n / s->group, parts = s->group / 32;
  sink k = {.y = y, .step = step};
  for (int64_t g = 0; g < n_group; g++) {
    if (g % 16 == 0) {
      side16(scales, s->scales, s->side_dtype, g0 + g, IJ_MIN(16, n_group - g));
      side16(biases, s->biases, s->side_dtype, g0 + g, IJ_MIN(16, n_group - g));
    }
    const affine t = affine_group(scales[g % 16], biases[g % 16], bits, once);
    for (int64_t i = 0; i < parts; i++, codes += 4 * bits, k.y += 2 * step) affine32(&k, 0, codes, &t, bits, once);
  }
}

#define DECODE_AFFINE(bits)                                                     \
  static void decode_AFFINE##bits(float *y, const ij_stretch *s) {              \
    if (s->side_dtype == IJ_DTYPE_F32) {                                        \
      decode_affine(y, 16, s, bits, false);                                     \
    } else {                                                                    \
      decode_affine(y, 16, s, bits, true);                                      \
    }                                                                           \
  }
#define PANEL_AFFINE(bits)                                                      \
  static void panel_AFFINE##bits(float *y, const ij_stretch *s) {               \
    if (s->side_dtype == IJ_DTYPE_F32) {                                        \
      decode_affine(y, IJ_PANEL_STEP, s, bits, false);                          \
    } else {                                                                    \
      decode_affine(y, IJ_PANEL_STEP, s, bits, true);                           \
    }                                                                           \
  }
DECODE_AFFINE(2)
DECODE_AFFINE(3)
DECODE_AFFINE(4)
DECODE_AFFINE(5)
DECODE_AFFINE(6)
DECODE_AFFINE(8)
PANEL_AFFINE(2)
PANEL_AFFINE(3)
PANEL_AFFINE(5)
PANEL_AFFINE(6)
PANEL_AFFINE(8)

CODED void decode_small(float *y, const int64_t step, const ij_stretch *s, const ij_dtype type) {
  const int64_t len = coded_len(type), bytes = coded_bytes(type);
  const uint8_t *codes = (const uint8_t *)s->row + s->c0 / len * bytes, *scale = (const uint8_t *)s->scales + s->c0 / len;
  sink k = {.y = y, .step = step};
  for (int64_t i = 0; i < s->n / len; i++, codes += bytes, k.y += len / 16 * step) {
    if (type == IJ_DTYPE_NVFP4_SPLIT) nvfp4_split(&k, 0, codes, scale[i]);
    if (type == IJ_DTYPE_MXFP4_SPLIT) mxfp4_split(&k, 0, codes, scale[i]);
    if (type == IJ_DTYPE_MXFP8_SPLIT) mxfp8_split(&k, 0, codes, scale[i]);
  }
}

#define DECODE_SMALL(id)                                                                                                   \
  static void decode_##id(float *y, const ij_stretch *s) { decode_small(y, 16, s, IJ_DTYPE_##id); }                        \
  static void panel_##id(float *y, const ij_stretch *s) { decode_small(y, IJ_PANEL_STEP, s, IJ_DTYPE_##id); }
DECODE_SMALL(NVFP4_SPLIT)
DECODE_SMALL(MXFP4_SPLIT)
DECODE_SMALL(MXFP8_SPLIT)

void ij__decode_fill_avx512(ij_kernels *k) {
  fp4_tables_make();
#define SET(id) k->decode[IJ_DTYPE_##id] = decode_##id;
  IJ_CODED_AVX512_LIST(SET)
  SET(Q4_K)
  SET(AFFINE4)
#undef SET
}

void ij__decode_panel_fill_avx512(ij_decode_fn *panel) {
#define SET(id) panel[IJ_DTYPE_##id] = panel_##id;
  IJ_CODED_AVX512_LIST(SET)
#undef SET
}
