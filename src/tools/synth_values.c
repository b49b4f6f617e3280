/* synth_values.c: the bytes of synthetic tensors.
 *
 * Values come from a counter-based generator; nearly normal ones through a table of 4096 deviates, already rounded per tensor, so that
 * one hash gives four values. Quantized blocks are random bytes (one hash gives eight) over which the scale fields are laid, from 256
 * variants prepared per tensor. Either way writing is bound by the disk. Only integer arithmetic, exact float operations and square
 * roots are used: every machine writes the same bytes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "tools/synth_int.h"

enum { TABLE = 4096, VARIANTS = 256, PIECE_BYTES = 1 << 20, MAX_PATCH = 24, MAX_EXPERT = 256 };
#define GOLDEN 0x9e3779b97f4a7c15u

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct ij_synth_values {
  double z[TABLE], sorted[TABLE];
  double share[MAX_EXPERT];
  float f32[TABLE];
  uint16_t half[TABLE];                  /* BF16 or F16 */
  uint8_t patch[VARIANTS][MAX_PATCH];
  uint16_t wide_scale[VARIANTS], wide_bias[VARIANTS];
  uint8_t narrow_scale[VARIANTS];
  union {
    uint8_t bytes[PIECE_BYTES + 8];
    uint16_t u16[PIECE_BYTES / 2];
    float f32[PIECE_BYTES / 4];
    uint64_t u64[PIECE_BYTES / 8 + 1];
  } piece;
};

/* Sums of four uniform deviates, brought to mean 0 and variance 1 exactly: close to normal, and made of integers. */
static void make_deviates(double z[TABLE]) {
  double sum = 0, squares = 0;
  for (int i = 0; i < TABLE; i++) {
    uint64_t w = mix(0x696e6b6a6574u + (uint64_t)i * GOLDEN);
    z[i] = (double)((w & 0xffff) + (w >> 16 & 0xffff) + (w >> 32 & 0xffff) + (w >> 48));
    sum += z[i];
  }
  for (int i = 0; i < TABLE; i++) {
    z[i] -= sum / TABLE;
    squares += z[i] * z[i];
  }
  double scale = 1 / sqrt(squares / TABLE);
  for (int i = 0; i < TABLE; i++) z[i] *= scale;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

ij_synth_values *ij__synth_values_new(void) {
  ij_synth_values *v = ij__alloc(sizeof *v);
  if (!v) return NULL;
  make_deviates(v->z);
  memcpy(v->sorted, v->z, sizeof v->z);
  qsort(v->sorted, TABLE, sizeof *v->sorted, by_value);
  return v;
}

void ij__synth_values_free(ij_synth_values *v) { ij__free(v); }

static uint16_t to_bf16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* nearest, ties to even; no value here is near infinity */
}

static uint16_t to_f16(double v) {
  const uint16_t sign = v < 0 ? 0x8000 : 0;
  int e;
  double m = frexp(fabs(v), &e); /* v = m * 2^e, m in [0.5, 1) */
  if (m == 0) return sign;
  int shift = IJ_MAX(e, -13); /* below 2^-14 all share the last exponent */
  double units = ldexp(m, e - shift + 11);
  uint16_t whole = (uint16_t)units;
  double rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && (whole & 1))) whole++;
  return sign | (uint16_t)((shift + 13) * 1024 + whole); /* a carry into the exponent is right as it is; no value here overflows */
}

/* ------------------------------------------------------------------------------------------------------- normal values */

static void fill_normal(ij_synth_values *v, int stream, bool half, int64_t at, int64_t n) {
  uint64_t key = mix((uint64_t)stream + 1) + (uint64_t)(at / 4) * GOLDEN;
  for (int64_t i = 0; i < n; i += 4, key += GOLDEN) {
    uint64_t w = mix(key);
    for (int64_t k = 0; k < 4 && i + k < n; k++, w >>= 16) {
      if (half) {
        v->piece.u16[i + k] = v->half[w & (TABLE - 1)];
      } else {
        v->piece.f32[i + k] = v->f32[w & (TABLE - 1)];
      }
    }
  }
}

typedef ij_status (*put_fn)(void *user, const void *bytes, size_t n);

static ij_status put_normal(ij_synth_values *v, const ij_synth_tensor *t, put_fn put, void *user) {
  const bool half = t->t.dtype != IJ_DTYPE_F32;
  const int64_t value_bytes = half ? 2 : 4, step = PIECE_BYTES / value_bytes;
  const int64_t n_values = (int64_t)ij__st_tensor_bytes(&t->t) / value_bytes;
  for (int i = 0; i < TABLE; i++) {
    v->f32[i] = (float)(t->mean + t->deviation * v->z[i]);
    v->half[i] = t->t.dtype == IJ_DTYPE_F16 ? to_f16(v->f32[i]) : to_bf16(v->f32[i]);
  }
  for (int64_t at = 0; at < n_values; at += step) {
    int64_t n = IJ_MIN(step, n_values - at);
    fill_normal(v, t->stream, half, at, n);
    ij_status s = put(user, v->piece.bytes, (size_t)(n * value_bytes));
    if (s != IJ_OK) return s;
  }
  return IJ_OK;
}

/* -------------------------------------------------------------------------------------------------------------- scales */

/* Factors around 1 of mean square 1, one per variant. */
static double spread(int variant) { return (0.75 + (variant + 0.5) / (2.0 * VARIANTS)) / sqrt(1 + 1 / 48.0); }

static double e4m3_value(int code) { return code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10); }
static double e8m0_value(int code) { return ldexp(1, code - 127); }

/* Scale bytes around `scale`. Few values can be written, so each variant takes the one above or below what it wants, by lot, in the
 * proportion that leaves the mean square right. */
static void make_narrow_scales(uint8_t table[VARIANTS], double scale, bool e4m3) {
  double (*value)(int) = e4m3 ? e4m3_value : e8m0_value;
  const int last = e4m3 ? 0x7e : 0xfe;
  for (int i = 0; i < VARIANTS; i++) {
    double want = scale * (e4m3 ? spread(i) : 1), lot = (double)(mix((uint64_t)i + 77) >> 11) * 0x1p-53;
    int low = 0;
    while (low + 1 < last && value(low + 1) <= want) low++;
    double a = value(low), b = value(low + 1);
    table[i] = (uint8_t)(low + (lot < (want * want - a * a) / (b * b - a * a)));
  }
}

double ij__synth_split_rms(ij_dtype t) {
  static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  double sum = 0;
  if (t == IJ_DTYPE_NVFP4_SPLIT || t == IJ_DTYPE_MXFP4_SPLIT) {
    for (int i = 0; i < 8; i++) sum += e2m1[i] * e2m1[i];
    return sqrt(sum / 8);
  }
  if (t == IJ_DTYPE_MXFP8_SPLIT) { /* exponents 4 to 7: see fill_bits */
    for (int code = 4 * 8; code < 8 * 8; code++) sum += e4m3_value(code) * e4m3_value(code);
    return sqrt(sum / 32);
  }
  double levels = (double)(1 << (ij__dtype_block_bytes(t) / 4)); /* 32 codes of b bits are 4 b bytes */
  return sqrt((levels * levels - 1) / 12);
}

static ij_status put_scales(ij_synth_values *v, const ij_synth_tensor *t, put_fn put, void *user) {
  const double scale = t->deviation / ij__synth_split_rms(t->of);
  const bool narrow = ij__dtype_block_bytes(t->t.dtype) == 1;
  if (narrow) {
    make_narrow_scales(v->narrow_scale, scale, t->of == IJ_DTYPE_NVFP4_SPLIT);
  } else {
    const double middle = ((1 << (ij__dtype_block_bytes(t->of) / 4)) - 1) / 2.0;
    for (int i = 0; i < VARIANTS; i++) {
      double s = scale * spread(i) * (i % 2 ? -1 : 1);
      v->wide_scale[i] = to_bf16((float)s);
      v->wide_bias[i] = to_bf16((float)(-s * middle));
    }
  }
  const uint16_t *wide = t->law == IJ_LAW_BIASES ? v->wide_bias : v->wide_scale;
  const int64_t value_bytes = narrow ? 1 : 2, step = PIECE_BYTES / value_bytes;
  const int64_t n_values = (int64_t)ij__st_tensor_bytes(&t->t) / value_bytes;
  for (int64_t at = 0; at < n_values; at += step) {
    int64_t n = IJ_MIN(step, n_values - at);
    for (int64_t i = 0; i < n; i++) {
      int variant = (int)(mix(mix((uint64_t)t->stream + 1) + (uint64_t)(at + i) * GOLDEN) & (VARIANTS - 1));
      if (narrow) {
        v->piece.bytes[i] = v->narrow_scale[variant];
      } else {
        v->piece.u16[i] = wide[variant];
      }
    }
    ij_status s = put(user, v->piece.bytes, (size_t)(n * value_bytes));
    if (s != IJ_OK) return s;
  }
  return IJ_OK;
}

/* --------------------------------------------------------------------------------------------------------- random bits */

/* Bytes [at, at + n) of a stream, at a multiple of 8. E4M3: exponents 4 to 7 only, so that no code is a NaN and no value dwarfs the
 * others. */
static void fill_bits(ij_synth_values *v, int stream, bool e4m3, int64_t at, int64_t n) {
  const uint64_t keep = e4m3 ? 0x9f9f9f9f9f9f9f9fu : ~(uint64_t)0, set = e4m3 ? 0x2020202020202020u : 0;
  uint64_t key = mix((uint64_t)stream + 1) + (uint64_t)(at / 8) * GOLDEN;
  for (int64_t i = 0; i < (n + 7) / 8; i++, key += GOLDEN) v->piece.u64[i] = (mix(key) & keep) | set;
}

static ij_status put_bits(ij_synth_values *v, const ij_synth_tensor *t, put_fn put, void *user) {
  const int64_t n_bytes = (int64_t)ij__st_tensor_bytes(&t->t);
  for (int64_t at = 0; at < n_bytes; at += PIECE_BYTES) {
    int64_t n = IJ_MIN((int64_t)PIECE_BYTES, n_bytes - at);
    fill_bits(v, t->stream, t->law == IJ_LAW_E4M3_CODES, at, n);
    ij_status s = put(user, v->piece.bytes, (size_t)n);
    if (s != IJ_OK) return s;
  }
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------- blocks */

/* How the scale fields of a block are filled; d is a F16 of the deviation's size. */
typedef enum scale_fields {
  FIELD_D,        /* d */
  FIELD_SIGNED_D, /* d of either sign, where codes are not symmetric */
  FIELD_D_MIN,    /* d, then a minimum of -middle * d */
  FIELD_Q2_K,     /* 16 equal pairs (scale, minimum) of 4 bits, 8 to 15; then d and middle * d */
  FIELD_Q45_K,    /* d and middle * d; then 8 equal pairs of 6 bits, 32 to 63 */
  FIELD_IQ1_M,    /* d in the high nibbles of four 16-bit words of scales */
  FIELD_E8M0,
  FIELD_UE4M3     /* four of them */
} scale_fields;

/* rms: of the decoded values of random bytes with these fields and d = 1. at: where the fields begin (Q2_K: those at 0 are extra). */
static const struct block_law {
  ij_dtype type;
  scale_fields fields;
  int at;
  double rms, middle;
} block_laws[] = {
    {IJ_DTYPE_Q4_0, FIELD_SIGNED_D, 0, 4.637, 0},     {IJ_DTYPE_Q4_1, FIELD_D_MIN, 0, 4.610, 7.5},
    {IJ_DTYPE_Q5_0, FIELD_SIGNED_D, 0, 9.247, 0},     {IJ_DTYPE_Q5_1, FIELD_D_MIN, 0, 9.232, 15.5},
    {IJ_DTYPE_Q8_0, FIELD_SIGNED_D, 0, 73.90, 0},     {IJ_DTYPE_Q2_K, FIELD_Q2_K, 80, 13.11, 1.5},
    {IJ_DTYPE_Q3_K, FIELD_D, 108, 43.35, 0},          {IJ_DTYPE_Q4_K, FIELD_Q45_K, 0, 223.2, 7.5},
    {IJ_DTYPE_Q5_K, FIELD_Q45_K, 0, 446.8, 15.5},     {IJ_DTYPE_Q6_K, FIELD_D, 208, 1366.0, 0},
    {IJ_DTYPE_IQ1_S, FIELD_D, 0, 7.213, 0},           {IJ_DTYPE_IQ1_M, FIELD_IQ1_M, 48, 7.200, 0},
    {IJ_DTYPE_IQ2_XXS, FIELD_D, 0, 53.41, 0},         {IJ_DTYPE_IQ2_XS, FIELD_D, 0, 55.89, 0},
    {IJ_DTYPE_IQ2_S, FIELD_D, 0, 56.44, 0},           {IJ_DTYPE_IQ3_XXS, FIELD_D, 0, 142.4, 0},
    {IJ_DTYPE_IQ3_S, FIELD_D, 0, 140.3, 0},           {IJ_DTYPE_IQ4_NL, FIELD_SIGNED_D, 0, 67.43, 0},
    {IJ_DTYPE_IQ4_XS, FIELD_SIGNED_D, 0, 1247.0, 0},  {IJ_DTYPE_TQ1_0, FIELD_SIGNED_D, 52, 0.8172, 0},
    {IJ_DTYPE_TQ2_0, FIELD_D, 64, 0.7071, 0},         {IJ_DTYPE_MXFP4, FIELD_E8M0, 0, 2.926, 0},
    {IJ_DTYPE_NVFP4, FIELD_UE4M3, 0, 2.926, 0},
};

static const struct block_law *block_law_of(ij_dtype t) {
  for (size_t i = 0; i < sizeof block_laws / sizeof block_laws[0]; i++) {
    if (block_laws[i].type == t) return &block_laws[i];
  }
  return NULL;
}

static void put_u16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}

/* Eight equal pairs in the 12 bytes of Q4_K and Q5_K: bits 0 to 5 of pairs 0 to 3, with the high bits of pairs 4 to 7 above them. */
static void pack_pairs(uint8_t out[12], uint64_t random) {
  for (int g = 0; g < 4; g++) {
    unsigned low = 32 + (unsigned)(random >> (10 * g) & 31), high = 32 + (unsigned)(random >> (10 * g + 5) & 31);
    out[g] = out[g + 4] = (uint8_t)(low | high >> 4 << 6);
    out[g + 8] = (uint8_t)((high & 15) * 17);
  }
}

static void make_patch(const ij_synth_values *v, const struct block_law *law, double d, int variant, uint8_t out[MAX_PATCH]) {
  const uint64_t random = mix((uint64_t)variant + 1000);
  const uint16_t scale = to_f16(d), offset = to_f16(law->middle * d);
  memset(out, 0, MAX_PATCH);
  switch (law->fields) {
    case FIELD_D: put_u16(out, scale); break;
    case FIELD_SIGNED_D: put_u16(out, (uint16_t)(scale | (variant & 1) << 15)); break;
    case FIELD_D_MIN: put_u16(out, scale), put_u16(out + 2, offset | 0x8000); break;
    case FIELD_Q2_K:
      put_u16(out, scale), put_u16(out + 2, offset);
      for (int g = 0; g < 16; g++) out[4 + g] = (uint8_t)((8 + (random >> (3 * g) & 7)) * 17);
      break;
    case FIELD_Q45_K: put_u16(out, scale), put_u16(out + 2, offset), pack_pairs(out + 4, random); break;
    case FIELD_IQ1_M:
      for (int k = 0; k < 4; k++) put_u16(out + 2 * k, (uint16_t)((random >> (12 * k) & 0xfff) | (scale >> (4 * k) & 15) << 12));
      break;
    case FIELD_E8M0: out[0] = v->narrow_scale[variant]; break;
    case FIELD_UE4M3:
      for (int k = 0; k < 4; k++) out[k] = v->narrow_scale[random >> (8 * k) & (VARIANTS - 1)];
      break;
  }
}

static void lay_patch(uint8_t *block, const struct block_law *law, const uint8_t *patch) {
  switch (law->fields) {
    case FIELD_D: case FIELD_SIGNED_D: memcpy(block + law->at, patch, 2); break;
    case FIELD_D_MIN: case FIELD_UE4M3: memcpy(block + law->at, patch, 4); break;
    case FIELD_Q2_K: memcpy(block + law->at, patch, 4), memcpy(block, patch + 4, 16); break;
    case FIELD_Q45_K: memcpy(block + law->at, patch, 16); break;
    case FIELD_IQ1_M: memcpy(block + law->at, patch, 8); break;
    case FIELD_E8M0: block[law->at] = patch[0]; break;
  }
}

/* TQ2_0 has no use for the code 3: such pairs of bits become 1, which keeps the mean at zero. */
static void drop_threes(uint8_t *codes, int n) {
  for (int i = 0; i < n; i++) codes[i] &= (uint8_t)~(codes[i] & codes[i] << 1 & 0xaa);
}

static ij_status put_blocks(ij_synth_values *v, const ij_synth_tensor *t, put_fn put, void *user) {
  const struct block_law *law = block_law_of(t->t.dtype);
  const int64_t block = ij__dtype_block_bytes(t->t.dtype), step = PIECE_BYTES / block / 8 * 8; /* bytes of a piece: a multiple of 8 */
  const int64_t n_blocks = (int64_t)ij__st_tensor_bytes(&t->t) / block;
  const double d = t->deviation / law->rms;
  const uint64_t lots = mix((uint64_t)t->stream + 0x706174636865u);
  if (law->fields == FIELD_E8M0 || law->fields == FIELD_UE4M3) make_narrow_scales(v->narrow_scale, d, law->fields == FIELD_UE4M3);
  for (int i = 0; i < VARIANTS; i++) make_patch(v, law, d * spread(i), i, v->patch[i]);
  for (int64_t at = 0; at < n_blocks; at += step) {
    int64_t n = IJ_MIN(step, n_blocks - at);
    fill_bits(v, t->stream, false, at * block, n * block);
    for (int64_t i = 0; i < n; i++) {
      uint8_t *p = v->piece.bytes + i * block;
      lay_patch(p, law, v->patch[mix(lots + (uint64_t)(at + i) * GOLDEN) & (VARIANTS - 1)]);
      if (t->t.dtype == IJ_DTYPE_TQ2_0) drop_threes(p, 64);
    }
    ij_status s = put(user, v->piece.bytes, (size_t)(n * block));
    if (s != IJ_OK) return s;
  }
  return IJ_OK;
}

/* ---------------------------------------------------------------------------------------------------------- popularity */

/* c / rank^s with c such that the sum is k, where more than the cap is cut and c grows for the others. */
void ij__synth_zipf(double *share, int n, int k, int halves) {
  double sum = 0, c;
  int n_cut = 0;
  for (int i = 0; i < n; i++) {
    double d = 1;
    for (int h = 0; h < halves; h++) d *= sqrt(i + 1);
    share[i] = 1 / d;
    sum += share[i];
  }
  while (c = (k - n_cut * IJ_SYNTH_MOST_USED) / sum, n_cut < n && c * share[n_cut] > IJ_SYNTH_MOST_USED) sum -= share[n_cut++];
  for (int i = 0; i < n; i++) share[i] = i < n_cut ? IJ_SYNTH_MOST_USED : c * share[i];
}

/* 1 / (1 + e^-x) from products and sums alone, which are the same everywhere; good to 1e-6 for |x| < 10. */
static double sigmoid(double x) {
  double t = -x / 1024, e = 1 + t + t * t / 2 + t * t * t / 6;
  for (int i = 0; i < 10; i++) e *= e;
  return 1 / (1 + e);
}

/* An expert is chosen when sigmoid(z) + bias is among the largest; z is nearly normal. With bias = 1 - sigmoid(q), where z exceeds q in `share` of
 * all cases, a threshold of 1 lets each expert through as often as Zipf's law says, and k of them on average. The k largest are not quite those
 * above the threshold: the most used experts come a little short, the others a little long. Which expert has which rank differs by layer. */
static ij_status put_popularity(ij_synth_values *v, const ij_synth_tensor *t, put_fn put, void *user) {
  const int n = (int)t->t.dims[0];
  ij__synth_zipf(v->share, n, (int)t->shape[0], (int)(2 * t->mean));
  for (int i = 0; i < n; i++) {
    int place = (int)((1 - v->share[i]) * TABLE);
    v->piece.f32[i] = (float)(1 - sigmoid(t->deviation * v->sorted[IJ_MIN(place, TABLE - 1)]));
  }
  for (int i = n - 1; i > 0; i--) {
    int j = (int)(mix(mix((uint64_t)t->stream + 1) + (uint64_t)i * GOLDEN) % (uint64_t)(i + 1));
    float swap = v->piece.f32[i];
    v->piece.f32[i] = v->piece.f32[j];
    v->piece.f32[j] = swap;
  }
  return put(user, v->piece.bytes, (size_t)n * sizeof(float));
}

ij_status ij__synth_values_put(ij_synth_values *v, const ij_synth_tensor *t, put_fn put, void *user) {
  switch (t->law) {
    case IJ_LAW_NORMAL: return put_normal(v, t, put, user);
    case IJ_LAW_BLOCKS: return put_blocks(v, t, put, user);
    case IJ_LAW_BITS: case IJ_LAW_E4M3_CODES: return put_bits(v, t, put, user);
    case IJ_LAW_SCALES: case IJ_LAW_BIASES: return put_scales(v, t, put, user);
    case IJ_LAW_POPULARITY: return put_popularity(v, t, put, user);
    case IJ_LAW_SHAPE: return put(user, t->shape, sizeof t->shape);
  }
  return IJ_OK;
}
