/* encode_block.c: block types of GGUF without minimum: one scale per block, or small scales of groups under one F16. */
#include <float.h>

#include "quant/encode_int.h"
#include "quant/fmt_fp4.h"

static void put_u16(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}

static void put_u32(uint8_t *p, uint32_t v) {
  put_u16(p, v);
  put_u16(p + 2, v >> 16);
}

/* --------------------------------------------------------------------------------------------------- one scale per block */

static float peak_of(const float *x, int n) {
  float peak = 0;
  for (int i = 0; i < n; i++) peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
  return peak;
}

/* Of two F16 scales, the one found by searching and the plain one, that which decodes closer; the group is left coded under it. */
static uint16_t code_under_f16(const ij_encoder *e, const float *x, const float *w, int n, ij_enc_group *group) {
  ij_encoder plain = *e;
  double curvature;
  float least = FLT_MAX;
  uint16_t best = 0;
  plain.mode = IJ_ENCODE_PLAIN;
  for (int pass = 0; pass < (e->mode == IJ_ENCODE_PLAIN ? 1 : 2); pass++) {
    uint16_t h = ij__enc_to_f16(ij__enc_fit(pass == 0 ? &plain : e, x, w, n, &curvature));
    float error = ij__enc_code(e, x, w, n, ij__fmt_from_f16(h), FLT_MAX, group);
    if (error < least) least = error, best = h;
  }
  ij__enc_code(e, x, w, n, ij__fmt_from_f16(best), FLT_MAX, group);
  return best;
}

static void pack_nibbles(uint8_t *out, const uint16_t *code, int half) {
  for (int i = 0; i < half; i++) out[i] = (uint8_t)((code[i] & 15) | (code[i + half] & 15) << 4);
}

static void pack_trits(uint8_t *out, const uint16_t *code, int n_byte, int n_digit) {
  for (int i = 0; i < n_byte; i++) {
    int v = 0;
    for (int k = 0; k < 5; k++) v = v * 3 + (k < n_digit ? code[k * n_byte + i] : 0);
    out[i] = (uint8_t)((v * 256 + 242) / 243);
  }
}

static void block_nvfp4(const ij_encoder *e, uint8_t *out, const float *x, const float *w) {
  ij_enc_group group;
  for (int g = 0; g < 4; g++) {
    out[g] = ij__enc_code_e4m3(e, x + 16 * g, w + 16 * g, &group);
    pack_nibbles(out + 4 + 8 * g, group.code, 8);
  }
}

void ij__enc_block_simple(const ij_encoder *e, uint8_t *out, const float *x, const float *w) {
  ij_enc_group group;
  const int n = (int)ij__dtype_block_len(e->type);
  if (e->type == IJ_DTYPE_NVFP4) {
    block_nvfp4(e, out, x, w);
    return;
  }
  if (e->type == IJ_DTYPE_MXFP4) {
    out[0] = ij__enc_code_e8m0(e, x, w, n, &group);
    pack_nibbles(out + 1, group.code, 16);
    return;
  }
  const uint16_t scale = code_under_f16(e, x, w, n, &group);
  uint32_t high = 0;
  switch (e->type) {
    case IJ_DTYPE_Q4_0: case IJ_DTYPE_IQ4_NL:
      put_u16(out, scale);
      pack_nibbles(out + 2, group.code, 16);
      break;
    case IJ_DTYPE_Q5_0:
      for (int i = 0; i < 32; i++) high |= (uint32_t)(group.code[i] >> 4) << i;
      put_u16(out, scale);
      put_u32(out + 2, high);
      pack_nibbles(out + 6, group.code, 16);
      break;
    case IJ_DTYPE_Q8_0:
      put_u16(out, scale);
      for (int i = 0; i < 32; i++) out[2 + i] = (uint8_t)(group.code[i] - 127);
      break;
    case IJ_DTYPE_TQ1_0:
      pack_trits(out, group.code, 32, 5);
      pack_trits(out + 32, group.code + 160, 16, 5);
      pack_trits(out + 48, group.code + 240, 4, 4);
      put_u16(out + 52, scale);
      break;
    default: /* TQ2_0 */
      memset(out, 0, 64);
      for (int i = 0; i < 256; i++) out[i / 128 * 32 + i % 32] |= (uint8_t)(group.code[i] << (i % 128 / 32 * 2));
      put_u16(out + 64, scale);
      break;
  }
}

/* ------------------------------------------------------------------------------------------------------- nested scales */

/* How the scales of groups are written: c in lo .. hi stands for d * c, or with odd > 0 for d * odd * (2c + 1). */
typedef struct nested_form {
  int n_group, len, lo, hi;
  float odd;
} nested_form;

static nested_form form_of(ij_dtype t) {
  switch (t) {
    case IJ_DTYPE_Q3_K: return (nested_form){16, 16, -32, 31, 0};
    case IJ_DTYPE_Q6_K: return (nested_form){16, 16, -128, 127, 0};
    case IJ_DTYPE_IQ4_XS: return (nested_form){8, 32, -32, 31, 0};
    case IJ_DTYPE_IQ2_XXS: return (nested_form){8, 32, 0, 15, 0.125f};
    case IJ_DTYPE_IQ2_XS: case IJ_DTYPE_IQ2_S: return (nested_form){16, 16, 0, 15, 0.125f};
    case IJ_DTYPE_IQ3_XXS: return (nested_form){8, 32, 0, 15, 0.25f};
    case IJ_DTYPE_IQ3_S: return (nested_form){8, 32, 0, 15, 1};
    case IJ_DTYPE_IQ1_S: return (nested_form){8, 32, 0, 7, 1};
    default: return (nested_form){16, 16, 0, 7, 1}; /* IQ1_M */
  }
}

static float unit_of(const nested_form *f, int c) { return f->odd > 0 ? f->odd * (float)(2 * c + 1) : (float)c; }

static int nearest_unit(const nested_form *f, float ratio) {
  float c = f->odd > 0 ? rintf((ratio / f->odd - 1) * 0.5f) : rintf(ratio);
  return c > (float)f->lo ? (c < (float)f->hi ? (int)c : f->hi) : f->lo;
}

typedef struct nested_block {
  float d;      /* as stored */
  float error;
  int8_t c[16]; /* -128 .. 127 */
  ij_enc_group group[16];
} nested_block;

/* The F16 d under which the nearest writable scales miss the real ones least. */
static float fit_d(const nested_form *f, const float *real, const double *a, bool search) {
  float extreme = peak_of(real, f->n_group), best = 0;
  double least = FLT_MAX;
  if (extreme == 0) return 0;
  for (int c = f->lo; c <= f->hi; c++) {
    const float unit = unit_of(f, c);
    if (unit == 0 || (search ? fabsf(unit) < unit_of(f, f->hi) * 0.5f : c != (f->odd > 0 ? f->hi : f->lo))) continue;
    float d = ij__enc_round(extreme / unit, IJ_DTYPE_F16);
    for (int round = 0; round < (search ? 2 : 1) && d != 0; round++) {
      double miss = 0, ru = 0, uu = 0;
      for (int g = 0; g < f->n_group; g++) {
        const double u = unit_of(f, nearest_unit(f, real[g] / d));
        miss += a[g] * (real[g] - d * u) * (real[g] - d * u);
        ru += a[g] * real[g] * u;
        uu += a[g] * u * u;
      }
      if (miss < least) least = miss, best = d;
      if (!(uu > 0)) break;
      d = ij__enc_round((float)(ru / uu), IJ_DTYPE_F16);
    }
  }
  return best;
}

/* The scale of every group, the best near the real one, under b->d. */
static void choose_scales(const ij_encoder *e, const nested_form *f, nested_block *b, const float *x, const float *w, const float *real) {
  const int reach = e->mode == IJ_ENCODE_SEARCH ? 1 : 0;
  b->error = 0;
  for (int g = 0; g < f->n_group; g++) {
    const int near = nearest_unit(f, b->d != 0 ? real[g] / b->d : 0);
    float least = FLT_MAX;
    ij_enc_group group;
    for (int c = IJ_MAX(near - reach, f->lo); c <= IJ_MIN(near + reach, f->hi); c++) {
      float error = ij__enc_code(e, x + g * f->len, w + g * f->len, f->len, b->d * unit_of(f, c), least, &group);
      if (error >= least) continue;
      least = error;
      b->c[g] = (int8_t)c;
      memcpy(b->group[g].level, group.level, (size_t)f->len * sizeof group.level[0]);
      memcpy(b->group[g].code, group.code, (size_t)f->len * sizeof group.code[0]);
      memcpy(b->group[g].signs, group.signs, sizeof group.signs);
      memcpy(b->group[g].shift, group.shift, sizeof group.shift);
    }
    b->error += least;
  }
}

static float refit_d(const nested_form *f, const nested_block *b, const float *x, const float *w) {
  double xl = 0, ll = 0;
  for (int i = 0; i < 256; i++) {
    const int g = i / f->len;
    double level = (double)unit_of(f, b->c[g]) * b->group[g].level[i % f->len];
    xl += w[i] * x[i] * level;
    ll += w[i] * level * level;
  }
  return ll > 0 ? ij__enc_round((float)(xl / ll), IJ_DTYPE_F16) : b->d;
}

static void search_block(const ij_encoder *e, const nested_form *f, nested_block *best, const float *x, const float *w) {
  const bool search = e->mode == IJ_ENCODE_SEARCH;
  ij_encoder plain = *e;
  float real[16];
  double a[16];
  nested_block b;
  plain.mode = IJ_ENCODE_PLAIN;
  best->error = FLT_MAX;
  for (int pass = 0; pass < (search ? 2 : 1); pass++) { /* the plain way first: what follows can only be better */
    for (int g = 0; g < f->n_group; g++) real[g] = ij__enc_fit(pass == 0 ? &plain : e, x + g * f->len, w + g * f->len, f->len, &a[g]);
    b.d = fit_d(f, real, a, pass == 1);
    for (int round = 0; round < (pass == 1 ? 3 : 1); round++) {
      choose_scales(e, f, &b, x, w, real);
      if (b.error >= best->error) break;
      *best = b;
      b.d = refit_d(f, &b, x, w);
      if (b.d == best->d) break;
    }
  }
}

/* ------------------------------------------------------------------------------------------------------------- packing */

static void pack_q3_k(uint8_t *out, const nested_block *b) {
  for (int g = 0; g < 16; g++) {
    const int c = b->c[g] + 32;
    out[96 + g % 8] |= (uint8_t)((c & 15) << (g / 8 * 4));
    out[104 + g % 4] |= (uint8_t)(c >> 4 << (g / 4 * 2));
  }
  for (int i = 0; i < 256; i++) {
    const int q = b->group[i / 16].code[i % 16];
    out[32 + i / 128 * 32 + i % 32] |= (uint8_t)((q & 3) << (i % 128 / 32 * 2));
    out[i % 32] |= (uint8_t)(q >> 2 << (i / 32));
  }
  put_u16(out + 108, ij__enc_to_f16(b->d));
}

static void pack_q6_k(uint8_t *out, const nested_block *b) {
  for (int g = 0; g < 16; g++) out[192 + g] = (uint8_t)b->c[g];
  for (int i = 0; i < 256; i++) {
    const int q = b->group[i / 16].code[i % 16];
    out[i / 128 * 64 + i % 64] |= (uint8_t)((q & 15) << (i % 128 / 64 * 4));
    out[128 + i / 128 * 32 + i % 32] |= (uint8_t)(q >> 4 << (i % 128 / 32 * 2));
  }
  put_u16(out + 208, ij__enc_to_f16(b->d));
}

static void pack_iq4_xs(uint8_t *out, const nested_block *b) {
  uint32_t high = 0;
  for (int g = 0; g < 8; g++) {
    const int c = b->c[g] + 32;
    out[4 + g / 2] |= (uint8_t)((c & 15) << (g % 2 * 4));
    high |= (uint32_t)(c >> 4) << (2 * g);
    pack_nibbles(out + 8 + 16 * g, b->group[g].code, 16);
  }
  put_u16(out, ij__enc_to_f16(b->d));
  put_u16(out + 2, high);
}

/* IQ2_XXS and IQ3_XXS: 28 bits of signs under a scale. */
static uint32_t signs_and_scale(const nested_block *b, int g) {
  uint32_t word = (uint32_t)b->c[g] << 28;
  for (int k = 0; k < 4; k++) word |= (uint32_t)(b->group[g].signs[k] & 0x7f) << (7 * k);
  return word;
}

static void pack_xxs(uint8_t *out, const nested_block *b, bool three) {
  put_u16(out, ij__enc_to_f16(b->d));
  for (int g = 0; g < 8; g++) {
    for (int i = 0; i < (three ? 8 : 4); i++) out[2 + 8 * g + i] = (uint8_t)b->group[g].code[i];
    put_u32(out + (three ? 66 + 4 * g : 6 + 8 * g), signs_and_scale(b, g));
  }
}

static void pack_iq2(uint8_t *out, const nested_block *b, bool s) {
  put_u16(out, ij__enc_to_f16(b->d));
  for (int i = 0; i < 32; i++) {
    const int code = b->group[i / 2].code[i % 2], signs = b->group[i / 2].signs[i % 2];
    if (s) {
      out[2 + i] = (uint8_t)code;
      out[34 + i] = (uint8_t)signs;
      out[66 + i / 4] |= (uint8_t)(code >> 8 << (i % 4 * 2));
    } else {
      put_u16(out + 2 + 2 * i, (uint32_t)(code | (signs & 0x7f) << 9));
    }
  }
  for (int g = 0; g < 16; g++) out[(s ? 74 : 66) + g / 2] |= (uint8_t)(b->c[g] << (g % 2 * 4));
}

static void pack_iq3_s(uint8_t *out, const nested_block *b) {
  put_u16(out, ij__enc_to_f16(b->d));
  for (int i = 0; i < 64; i++) {
    const int code = b->group[i / 8].code[i % 8];
    out[2 + i] = (uint8_t)code;
    out[66 + i / 8] |= (uint8_t)(code >> 8 << (i % 8));
  }
  for (int i = 0; i < 32; i++) out[74 + i] = b->group[i / 4].signs[i % 4];
  for (int g = 0; g < 8; g++) out[106 + g / 2] |= (uint8_t)(b->c[g] << (g % 2 * 4));
}

static void pack_iq1_s(uint8_t *out, const nested_block *b) {
  put_u16(out, ij__enc_to_f16(b->d));
  for (int g = 0; g < 8; g++) {
    uint32_t word = (uint32_t)b->c[g] << 12 | (uint32_t)b->group[g].shift[0] << 15;
    for (int i = 0; i < 4; i++) {
      out[2 + 4 * g + i] = (uint8_t)b->group[g].code[i];
      word |= (uint32_t)(b->group[g].code[i] >> 8) << (3 * i);
    }
    put_u16(out + 34 + 2 * g, word);
  }
}

static void pack_iq1_m(uint8_t *out, const nested_block *b) {
  const uint32_t d = ij__enc_to_f16(b->d);
  for (int i = 0; i < 32; i++) {
    const ij_enc_group *g = &b->group[i / 2];
    out[i] = (uint8_t)g->code[i % 2];
    out[32 + i / 2] |= (uint8_t)((g->code[i % 2] >> 8 | g->shift[i % 2] << 3) << (i % 2 * 4));
  }
  for (int k = 0; k < 4; k++) {
    uint32_t word = (d >> (4 * k) & 15) << 12;
    for (int i = 0; i < 4; i++) word |= (uint32_t)b->c[4 * k + i] << (3 * i);
    put_u16(out + 48 + 2 * k, word);
  }
}

void ij__enc_block_nested(const ij_encoder *e, uint8_t *out, const float *x, const float *w) {
  const nested_form form = form_of(e->type);
  nested_block b;
  search_block(e, &form, &b, x, w);
  memset(out, 0, (size_t)ij__dtype_block_bytes(e->type));
  switch (e->type) {
    case IJ_DTYPE_Q3_K: pack_q3_k(out, &b); break;
    case IJ_DTYPE_Q6_K: pack_q6_k(out, &b); break;
    case IJ_DTYPE_IQ4_XS: pack_iq4_xs(out, &b); break;
    case IJ_DTYPE_IQ2_XXS: pack_xxs(out, &b, false); break;
    case IJ_DTYPE_IQ3_XXS: pack_xxs(out, &b, true); break;
    case IJ_DTYPE_IQ2_XS: pack_iq2(out, &b, false); break;
    case IJ_DTYPE_IQ2_S: pack_iq2(out, &b, true); break;
    case IJ_DTYPE_IQ3_S: pack_iq3_s(out, &b); break;
    case IJ_DTYPE_IQ1_S: pack_iq1_s(out, &b); break;
    default: pack_iq1_m(out, &b); break;
  }
}
