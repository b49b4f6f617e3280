/* encode_split.c: split types, and the scales they share with the FP4 blocks of GGUF.
 *
 * IJ_ENCODE_MLX repeats the arithmetic of mx.quantize step by step in float32 (tests/quant/mlx_compat.py compares bit by bit).
 */
#include <float.h>

#include "quant/encode_int.h"
#include "quant/fmt_affine.h"
#include "quant/fmt_fp4.h"

static float largest_magnitude(const float *x, int n) {
  float a = 0;
  for (int i = 0; i < n; i++) a = IJ_MAX(a, fabsf(x[i]));
  return a;
}

/* ---------------------------------------------------------------------------------------------------------- scale bytes */

/* MLX on the CPU: of two E2M1 values equally near the one closer to zero, and never minus zero. */
static void code_like_mlx(const ij_encoder *e, const float *x, int n, float scale, ij_enc_group *group) {
  static const float edge[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
  for (int i = 0; i < n; i++) {
    const float v = scale != 0 ? x[i] / scale : 0;
    if (e->kind == ENC_E4M3) {
      uint8_t code;
      ij__enc_e4m3(v, &code);
      group->code[i] = code;
      continue;
    }
    int k = 0;
    while (k < 7 && fabsf(v) > edge[k]) k++;
    group->code[i] = (uint16_t)(k | (v < 0 && k > 0 ? 8 : 0));
  }
}

/* An exact power of two that brings the largest magnitude near 1, so that squares of errors neither overflow nor vanish. */
static int exponent_of(float amax) {
  int e = 0;
  if (amax > 0) frexpf(amax, &e);
  return e;
}

uint8_t ij__enc_code_e8m0(const ij_encoder *e, const float *x, const float *w, int n, ij_enc_group *group) {
  const float top = ij__enc_top(e), amax = largest_magnitude(x, n);
  int fits = amax > 0 ? (int)ceilf(log2f(amax / top)) : 0, best = 0;
  fits = IJ_MIN(IJ_MAX(fits, -127), 127);
  if (e->mode == IJ_ENCODE_MLX) {
    code_like_mlx(e, x, n, ij__fmt_e8m0((uint8_t)(fits + 127)), group);
    return (uint8_t)(fits + 127);
  }
  float near_one[32];
  const int shift = exponent_of(amax);
  for (int i = 0; i < n; i++) near_one[i] = ldexpf(x[i], -shift);
  float least = FLT_MAX;
  for (int k = 0; k < (e->mode == IJ_ENCODE_SEARCH ? 4 : 1); k++) { /* just fitting; half and a quarter of that; twice that */
    const int exponent = k < 3 ? fits - k : fits + 1;
    if (exponent < -127 || exponent > 127) continue;
    float error = ij__enc_code(e, near_one, w, n, ldexpf(1, exponent - shift), least, group);
    if (error < least) least = error, best = exponent;
  }
  ij__enc_code(e, near_one, w, n, ldexpf(1, best - shift), FLT_MAX, group);
  return (uint8_t)(best + 127);
}

uint8_t ij__enc_code_e4m3(const ij_encoder *e, const float *x, const float *w, ij_enc_group *group) {
  const float amax = largest_magnitude(x, 16);
  uint8_t fits, from, until, best;
  float scale = ij__enc_e4m3(amax / 6, &fits);
  if (e->mode == IJ_ENCODE_MLX) {
    code_like_mlx(e, x, 16, scale, group);
    return fits;
  }
  ij__enc_e4m3(amax / 9, &from);
  ij__enc_e4m3(amax / 3, &until);
  best = fits;
  float least = ij__enc_code(e, x, w, 16, scale, FLT_MAX, group);
  for (int code = IJ_MAX(from, 1); code <= until && e->mode == IJ_ENCODE_SEARCH; code++) {
    float error = ij__enc_code(e, x, w, 16, ij__e4m3[code], least, group);
    if (error < least) least = error, best = (uint8_t)code;
  }
  ij__enc_code(e, x, w, 16, ij__e4m3[best], FLT_MAX, group);
  return best;
}

/* --------------------------------------------------------------------------------------------------------------- affine */

static void put_side(void *row, ij_dtype type, int64_t i, float v) {
  if (type == IJ_DTYPE_F32) {
    memcpy((char *)row + 4 * i, &v, sizeof v);
  } else {
    uint16_t half = type == IJ_DTYPE_F16 ? ij__enc_to_f16(v) : ij__enc_to_bf16(v);
    memcpy((char *)row + 2 * i, &half, sizeof half);
  }
}

static void put_codes(uint8_t *out, const uint16_t *code, int n, int bits) {
  uint32_t held = 0;
  int n_held = 0;
  for (int i = 0; i < n; i++) {
    held |= (uint32_t)code[i] << n_held;
    for (n_held += bits; n_held >= 8; n_held -= 8, held >>= 8) *out++ = (uint8_t)held;
  }
}

/* The bias is the extreme of larger magnitude, which is met exactly, and zero falls on a code. */
static void affine_like_mlx(const float *x, int n, int last, float *scale, float *bias, uint16_t *code) {
  float low = x[0], high = x[0];
  for (int i = 1; i < n; i++) low = IJ_MIN(low, x[i]), high = IJ_MAX(high, x[i]);
  const bool at_low = fabsf(low) > fabsf(high);
  const float edge = at_low ? low : high;
  float s = IJ_MAX((high - low) / (float)last, 1e-7f);
  if (!at_low) s = -s;
  const float zero = rintf(edge / s);
  if (zero != 0) s = edge / zero;
  *scale = s;
  *bias = zero != 0 ? edge : 0;
  for (int i = 0; i < n; i++) {
    float q = rintf((x[i] - *bias) / s);
    code[i] = (uint16_t)(q > 0 ? IJ_MIN(q, (float)last) : 0);
  }
}

static void split_affine(const ij_encoder *e, const ij_encoded *out, int64_t g, const float *x, const float *w) {
  const int bits = ij__fmt_affine_bits(e->type), last = (1 << bits) - 1, n = e->group;
  uint16_t code[ENC_MAX_GROUP];
  float scale, bias;
  if (e->mode == IJ_ENCODE_MLX) {
    affine_like_mlx(x, n, last, &scale, &bias, code);
  } else {
    float near_one[ENC_MAX_GROUP] = {0};
    const int shift = e->side_dtype == IJ_DTYPE_F16 ? 0 : exponent_of(largest_magnitude(x, n)); /* F16 rounds by absolute size */
    for (int i = 0; i < n; i++) near_one[i] = ldexpf(x[i], -shift);
    ij_enc_min m = ij__enc_fit_min(near_one, w, n, last, e->side_dtype, FLT_MAX, e->mode == IJ_ENCODE_SEARCH);
    for (int i = 0; i < n; i++) code[i] = (uint16_t)ij__enc_min_code(near_one[i], last, ij__enc_inverse(m.scale), m.min);
    scale = ldexpf(m.scale, shift);
    bias = ldexpf(m.min, shift);
  }
  put_codes((uint8_t *)out->data + g * n * bits / 8, code, n, bits);
  put_side(out->scales, e->side_dtype, g, scale);
  put_side(out->biases, e->side_dtype, g, bias);
}

void ij__enc_split(const ij_encoder *e, const ij_encoded *out, int64_t g, const float *x, const float *w) {
  if (e->type >= IJ_DTYPE_AFFINE2 && e->type <= IJ_DTYPE_AFFINE8) {
    split_affine(e, out, g, x, w);
    return;
  }
  ij_enc_group group;
  uint8_t *scales = out->scales, *codes = (uint8_t *)out->data + g * ij__dtype_block_bytes(e->type);
  scales[g] = e->type == IJ_DTYPE_NVFP4_SPLIT ? ij__enc_code_e4m3(e, x, w, &group) : ij__enc_code_e8m0(e, x, w, e->group, &group);
  for (int i = 0; i < e->group; i++) {
    if (e->type == IJ_DTYPE_MXFP8_SPLIT) {
      codes[i] = (uint8_t)group.code[i];
    } else if (i % 2 == 0) {
      codes[i / 2] = (uint8_t)(group.code[i] | group.code[i + 1] << 4);
    }
  }
}
