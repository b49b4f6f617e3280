/* encode.c: opens encoders, checks rows, and walks them block by block. */
#include "quant/encode.h"

#include "core/alloc.h"
#include "quant/encode_int.h"
#include "quant/fmt_fp4.h"
#include "quant/fmt_iq.h"

/* ------------------------------------------------------------------------------------------------------------ rounding */

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

uint16_t ij__enc_to_bf16(float x) {
  uint32_t bits = bits_of(x);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Values that round beyond 65504 are kept at 65504: scales stay finite. */
uint16_t ij__enc_to_f16(float x) {
  uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7bffu);
  if (a < 0x38800000u) return (uint16_t)(sign | (bits_of(ij__fmt_bits(a) + 0.5f) - bits_of(0.5f)));
  return (uint16_t)(sign | (a - 0x38000000u + 0x0fffu + (a >> 13 & 1u)) >> 13);
}

float ij__enc_round(float x, ij_dtype type) {
  if (type == IJ_DTYPE_F16) return ij__fmt_from_f16(ij__enc_to_f16(x));
  if (type == IJ_DTYPE_BF16) return ij__fmt_bits((uint32_t)ij__enc_to_bf16(x) << 16);
  return x;
}

float ij__nvfp4_factor(float amax) { return amax / (6.0f * 448.0f); }

/* --------------------------------------------------------------------------------------------------------------- types */

/* Levels of IQ4 and (twice) E2M1 in ascending order, with their codes. A zero is coded as +0. */
static const float iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const uint8_t iq4_codes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const float fp4_levels[15] = {-6, -4, -3, -2, -1.5f, -1, -0.5f, 0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
static const uint8_t fp4_codes[15] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7};

static void uniform(ij_encoder *e, int lo, int hi) {
  e->kind = ENC_UNIFORM;
  e->lo = lo;
  e->hi = hi;
}

static void grid8(ij_encoder *e, const uint64_t *entries, int n) {
  e->kind = ENC_GRID;
  e->grid = (ij_enc_grid){.dims = 8, .n_level = 3, .n_entry = n, .level = {8, 25, 43}, .wide = entries};
}

static void grid4(ij_encoder *e, const uint32_t *entries, int n, const float level[8]) {
  e->kind = ENC_GRID;
  e->grid = (ij_enc_grid){.dims = 4, .n_level = 8, .n_entry = n, .narrow = entries};
  memcpy(e->grid.level, level, sizeof e->grid.level);
}

static void grid1(ij_encoder *e, int shift_len) {
  e->kind = ENC_GRID1;
  e->shift_len = shift_len;
  e->grid = (ij_enc_grid){.dims = 8, .n_level = 3, .n_entry = 2048, .level = {-1, 0, 1}, .wide = ij__iq1_grid};
}

static void describe(ij_encoder *e) {
  static const float xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62}, s[8] = {1, 3, 5, 7, 9, 11, 13, 15};
  switch (e->type) {
    case IJ_DTYPE_Q4_0: uniform(e, -8, 7); break;
    case IJ_DTYPE_Q5_0: uniform(e, -16, 15); break;
    case IJ_DTYPE_Q8_0: uniform(e, -127, 127); break; /* -128 is left unused, as everybody does */
    case IJ_DTYPE_Q3_K: uniform(e, -4, 3); break;
    case IJ_DTYPE_Q6_K: uniform(e, -32, 31); break;
    case IJ_DTYPE_TQ1_0: case IJ_DTYPE_TQ2_0: uniform(e, -1, 1); break;
    case IJ_DTYPE_IQ4_NL: case IJ_DTYPE_IQ4_XS: e->kind = ENC_TABLE, e->table = iq4_levels, e->codes = iq4_codes, e->n_table = 16; break;
    case IJ_DTYPE_MXFP4: case IJ_DTYPE_NVFP4: case IJ_DTYPE_MXFP4_SPLIT: case IJ_DTYPE_NVFP4_SPLIT:
      e->kind = ENC_TABLE, e->table = fp4_levels, e->codes = fp4_codes, e->n_table = 15;
      break;
    case IJ_DTYPE_MXFP8_SPLIT: e->kind = ENC_E4M3; break;
    case IJ_DTYPE_IQ2_XXS: grid8(e, ij__iq2_xxs_grid, 256), e->even_signs = true; break;
    case IJ_DTYPE_IQ2_XS: grid8(e, ij__iq2_xs_grid, 512), e->even_signs = true; break;
    case IJ_DTYPE_IQ2_S: grid8(e, ij__iq2_s_grid, 1024); break;
    case IJ_DTYPE_IQ3_XXS: grid4(e, ij__iq3_xxs_grid, 256, xxs), e->even_signs = true; break;
    case IJ_DTYPE_IQ3_S: grid4(e, ij__iq3_s_grid, 512, s); break;
    case IJ_DTYPE_IQ1_S: grid1(e, 32); break;
    case IJ_DTYPE_IQ1_M: grid1(e, 8); break;
    default: break;
  }
}

static bool is_affine(ij_dtype t) { return t >= IJ_DTYPE_AFFINE2 && t <= IJ_DTYPE_AFFINE8; }

static ij_status check_options(ij_dtype type, int group, ij_dtype side_dtype, ij_encode_mode mode, ij_err *err) {
  const char *name = ij__dtype_name(type);
  if (!ij__dtype_is_block(type) && !ij__dtype_is_split(type)) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s is neither a block type nor a split type", name);
  }
  if (is_affine(type) && group != 32 && group != 64 && group != 128) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s: groups of %d values; expected 32, 64 or 128", name, group);
  }
  if (is_affine(type) && !ij__dtype_is_float(side_dtype)) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s: scales of type %s; expected F32, BF16 or F16", name, ij__dtype_name(side_dtype));
  }
  if (mode == IJ_ENCODE_MLX && !ij__dtype_is_split(type)) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s is not a type of MLX", name);
  }
  return IJ_OK;
}

ij_status ij__encoder_open(ij_encoder **out, ij_dtype type, int group, ij_dtype side_dtype, ij_encode_mode mode, ij_err *err) {
  *out = NULL;
  ij_status s = check_options(type, group, side_dtype, mode, err);
  if (s != IJ_OK) return s;
  ij_encoder *e = ij__alloc_zero(1, sizeof *e);
  if (!e) return ij__fail_nomem(err, "an encoder", sizeof *e);
  e->type = type;
  e->mode = mode;
  e->group = is_affine(type) ? group : (int)ij__dtype_block_len(type);
  e->side_dtype = side_dtype;
  describe(e);
  for (int k = 0; k + 1 < e->n_table; k++) e->middle[k] = (e->table[k] + e->table[k + 1]) / 2;
  if (e->kind == ENC_GRID || e->kind == ENC_GRID1) s = ij__enc_grid_open(&e->grid, err);
  if (s != IJ_OK) {
    ij__free(e);
    return s;
  }
  *out = e;
  return IJ_OK;
}

void ij__encoder_close(ij_encoder **e) {
  if (!*e) return;
  ij__enc_grid_close(&(*e)->grid);
  ij__free(*e);
  *e = NULL;
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

/* The largest magnitude that both signs of the type can stand for: the largest scale times the smaller of its outermost levels. */
static double largest(const ij_encoder *e) {
  const double f16 = 65504;
  switch (e->type) {
    case IJ_DTYPE_Q4_0: return f16 * 7;
    case IJ_DTYPE_Q5_0: return f16 * 15;
    case IJ_DTYPE_Q8_0: return f16 * 127;
    case IJ_DTYPE_Q3_K: return f16 * 31 * 3;
    case IJ_DTYPE_Q6_K: return f16 * 127 * 31;
    case IJ_DTYPE_Q4_1: case IJ_DTYPE_Q5_1: return f16;
    case IJ_DTYPE_Q2_K: return f16 * 15;
    case IJ_DTYPE_Q4_K: case IJ_DTYPE_Q5_K: return f16 * 63;
    case IJ_DTYPE_IQ4_NL: return f16 * 113;
    case IJ_DTYPE_IQ4_XS: return f16 * 113 * 31;
    case IJ_DTYPE_TQ1_0: case IJ_DTYPE_TQ2_0: return f16;
    case IJ_DTYPE_IQ2_XXS: case IJ_DTYPE_IQ2_XS: case IJ_DTYPE_IQ2_S: return f16 * 43 * 31 / 8;
    case IJ_DTYPE_IQ3_XXS: return f16 * 62 * 31 / 4;
    case IJ_DTYPE_IQ3_S: return f16 * 15 * 31;
    case IJ_DTYPE_IQ1_S: case IJ_DTYPE_IQ1_M: return f16 * 15 * 0.875;
    case IJ_DTYPE_NVFP4: case IJ_DTYPE_NVFP4_SPLIT: return 448 * 6;
    case IJ_DTYPE_MXFP4: case IJ_DTYPE_MXFP4_SPLIT: return 0x1p127; /* times 6 would overflow float32 */
    case IJ_DTYPE_MXFP8_SPLIT: return 0x1p127;
    default: return e->side_dtype == IJ_DTYPE_F16 ? f16 : 0x1p126; /* affine: the range must not overflow */
  }
}

static ij_status check_row(const ij_encoder *e, const float *x, int64_t n, const float *importance, double factor, ij_err *err) {
  const char *name = ij__dtype_name(e->type);
  const int64_t unit = IJ_MAX((int64_t)e->group, ij__dtype_block_len(e->type));
  if (n < 0 || n % unit != 0) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s: %lld values are not a multiple of %lld", name, (long long)n, (long long)unit);
  }
  if (!(factor > 0) || !isfinite(factor)) return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s: the factor %g is not positive", name, factor);
  const double limit = largest(e);
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s: value %lld is not finite", name, (long long)i);
    if (fabs(x[i] / factor) > limit * (1 + 1e-6)) {
      return ij__fail(err, IJ_E_RANGE, NULL, "%s: value %lld is %g; the type holds up to %g", name, (long long)i, x[i], limit * factor);
    }
    if (importance && !(importance[i] >= 0 && isfinite(importance[i]))) {
      return ij__fail(err, IJ_E_ARGUMENT, NULL, "%s: importance %lld is %g; expected a finite number, not negative", name, (long long)i,
                      importance[i]);
    }
  }
  return IJ_OK;
}

static void encode_block(const ij_encoder *e, uint8_t *out, const float *x, const float *w) {
  switch (e->type) {
    case IJ_DTYPE_Q4_1: case IJ_DTYPE_Q5_1: ij__enc_block_min(e, out, x, w); break;
    case IJ_DTYPE_Q2_K: case IJ_DTYPE_Q4_K: case IJ_DTYPE_Q5_K: ij__enc_block_min_k(e, out, x, w); break;
    case IJ_DTYPE_Q4_0: case IJ_DTYPE_Q5_0: case IJ_DTYPE_Q8_0: case IJ_DTYPE_IQ4_NL: case IJ_DTYPE_MXFP4: case IJ_DTYPE_NVFP4:
    case IJ_DTYPE_TQ1_0: case IJ_DTYPE_TQ2_0:
      ij__enc_block_simple(e, out, x, w);
      break;
    default: ij__enc_block_nested(e, out, x, w); break;
  }
}

ij_status ij__encode_row(const ij_encoder *e, const ij_encoded *out, const float *x, int64_t n, const float *importance, ij_err *err) {
  const float factor = out->factor != 0 ? out->factor : 1;
  ij_status s = check_row(e, x, n, importance, factor, err);
  if (s != IJ_OK) return s;
  const int len = e->group;
  float values[ENC_MAX_GROUP], weights[ENC_MAX_GROUP];
  for (int64_t g = 0; g < n / len; g++) {
    float most = 0;
    for (int i = 0; i < len && importance; i++) most = IJ_MAX(most, importance[g * len + i]);
    for (int i = 0; i < len; i++) {
      values[i] = factor == 1 ? x[g * len + i] : (float)((double)x[g * len + i] / factor);
      weights[i] = most > 0 ? importance[g * len + i] / most : 1; /* nobody cares: so everything counts the same */
    }
    if (ij__dtype_is_split(e->type)) {
      ij__enc_split(e, out, g, values, weights);
    } else {
      encode_block(e, (uint8_t *)out->data + g * ij__dtype_block_bytes(e->type), values, weights);
    }
  }
  return IJ_OK;
}
