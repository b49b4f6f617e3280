/* test_encode.c: what encoders promise: error bounds per type, never worse than the plain way, decoded values found again, bad input
 * refused. Everything is judged by the scalar decoders. */
#include "core/alloc.h"
#include "kernels/kernels.h"
#include "quant/encode.h"
#include "test.h"

enum { ROW = 4096, BYTES = 4 * ROW };

static uint8_t data[BYTES], scales[BYTES], biases[BYTES];

static double uniform(uint64_t *seed) { return ((double)(test_random(seed) >> 11) + 0.5) * 0x1p-53; }

static float normal(uint64_t *seed) { return (float)(sqrt(-2 * log(uniform(seed))) * cos(6.283185307179586 * uniform(seed))); }

static void fill(float *x, int n, bool heavy, uint64_t *seed) {
  for (int i = 0; i < n; i++) {
    float v = normal(seed);
    x[i] = 0.02f * (heavy ? v * v * v : v);
  }
}

static ij_encoder *open_encoder(ij_dtype type, ij_encode_mode mode) {
  ij_encoder *e;
  ij_err err = {0};
  CHECK_OK(ij__encoder_open(&e, type, 64, IJ_DTYPE_BF16, mode, &err), err);
  return e;
}

static const ij_encoded out = {.data = data, .scales = scales, .biases = biases};

static void decode(float *y, ij_dtype type, int n) {
  ij_stretch s = {.row = data, .scales = scales, .biases = biases, .side_dtype = IJ_DTYPE_BF16, .group = 64, .n = n};
  ij__kernels_get(IJ_LEVEL_SCALAR)->decode[type](y, &s);
}

/* Relative RMS of the error, weighted by w (NULL: 1). */
static double miss(const float *x, const float *y, const float *w, int n) {
  double e = 0, s = 0;
  for (int i = 0; i < n; i++) {
    double d = (double)x[i] - y[i], weight = w ? w[i] : 1;
    e += weight * d * d;
    s += weight * (double)x[i] * x[i];
  }
  return s > 0 ? sqrt(e / s) : sqrt(e);
}

/* Encoders of codebook types take a moment to open: each is opened once. */
static const ij_encoder *encoder(ij_dtype type, ij_encode_mode mode) {
  static ij_encoder *opened[IJ_DTYPE_COUNT][3];
  if (type == IJ_DTYPE_COUNT) { /* close them all */
    for (int i = 0; i < IJ_DTYPE_COUNT * 3; i++) ij__encoder_close(&opened[i / 3][i % 3]);
    return NULL;
  }
  if (!opened[type][mode]) opened[type][mode] = open_encoder(type, mode);
  return opened[type][mode];
}

static double encode_and_miss(ij_dtype type, ij_encode_mode mode, const float *x, const float *importance, int n) {
  float *y = ij__alloc_array((size_t)n, sizeof *y);
  ij_err err = {0};
  CHECK_OK(ij__encode_row(encoder(type, mode), &out, x, n, importance, &err), err);
  decode(y, type, n);
  double m = miss(x, y, importance, n);
  ij__free(y);
  return m;
}

/* Bounds: what was measured, and 4 % more. Heavy: cubes of normal values. */
static const struct {
  ij_dtype type;
  double normal, heavy;
} bounds[] = {
    {IJ_DTYPE_Q4_0, 0.084, 0.113},    {IJ_DTYPE_Q4_1, 0.072, 0.092},   {IJ_DTYPE_Q5_0, 0.042, 0.062},   {IJ_DTYPE_Q5_1, 0.035, 0.048},
    {IJ_DTYPE_Q8_0, 0.0050, 0.0083},  {IJ_DTYPE_Q2_K, 0.272, 0.285},   {IJ_DTYPE_Q3_K, 0.149, 0.159},   {IJ_DTYPE_Q4_K, 0.073, 0.093},
    {IJ_DTYPE_Q5_K, 0.036, 0.049},    {IJ_DTYPE_Q6_K, 0.0172, 0.0236}, {IJ_DTYPE_IQ1_S, 0.467, 0.57},   {IJ_DTYPE_IQ1_M, 0.432, 0.47},
    {IJ_DTYPE_IQ2_XXS, 0.342, 0.56},  {IJ_DTYPE_IQ2_XS, 0.300, 0.48},  {IJ_DTYPE_IQ2_S, 0.251, 0.48},   {IJ_DTYPE_IQ3_XXS, 0.182, 0.285},
    {IJ_DTYPE_IQ3_S, 0.136, 0.245},   {IJ_DTYPE_IQ4_NL, 0.078, 0.096}, {IJ_DTYPE_IQ4_XS, 0.078, 0.097}, {IJ_DTYPE_TQ1_0, 0.45, 0.61},
    {IJ_DTYPE_TQ2_0, 0.45, 0.61},     {IJ_DTYPE_MXFP4, 0.118, 0.142},  {IJ_DTYPE_NVFP4, 0.094, 0.079},  {IJ_DTYPE_AFFINE2, 0.340, 0.42},
    {IJ_DTYPE_AFFINE3, 0.176, 0.23},  {IJ_DTYPE_AFFINE4, 0.087, 0.123}, {IJ_DTYPE_AFFINE5, 0.042, 0.066}, {IJ_DTYPE_AFFINE6, 0.0212, 0.034},
    {IJ_DTYPE_AFFINE8, 0.0055, 0.0093}, {IJ_DTYPE_NVFP4_SPLIT, 0.094, 0.079}, {IJ_DTYPE_MXFP4_SPLIT, 0.118, 0.142},
    {IJ_DTYPE_MXFP8_SPLIT, 0.0278, 0.0278},
};
enum { N_TYPES = sizeof bounds / sizeof bounds[0], STRIDE = TEST_EMULATED(1, 3) };

static void test_bounds(void) {
  static float x[ROW];
  for (int t = 0; t < N_TYPES; t += STRIDE) {
    uint64_t seed = 11;
    for (int trial = 0; trial < TEST_THIN(4, 2); trial++) {
      const bool heavy = trial % 2;
      fill(x, ROW, heavy, &seed);
      const ij_dtype type = bounds[t].type;
      const double found = encode_and_miss(type, IJ_ENCODE_SEARCH, x, NULL, ROW);
      const double plain = encode_and_miss(type, IJ_ENCODE_PLAIN, x, NULL, ROW);
      const double bound = heavy ? bounds[t].heavy : bounds[t].normal;
      if (!(found <= bound)) TEST_FAIL("%s, trial %d: error %.4f, bound %.4f", ij__dtype_name(type), trial, found, bound);
      if (!(found <= plain * (1 + 1e-5))) {
        TEST_FAIL("%s, trial %d: %.6f by searching, %.6f plainly", ij__dtype_name(type), trial, found, plain);
      }
    }
  }
  CHECK_INT(N_TYPES, IJ_DTYPE_COUNT - IJ_DTYPE_Q4_0); /* every type there is */
}

/* Block by block too, where sums of a row could hide a bad one: searching is never worse than the plain way. */
static void test_never_worse(void) {
  for (int t = 0; t < N_TYPES; t += STRIDE) {
    const ij_dtype type = bounds[t].type;
    uint64_t seed = 5;
    for (int trial = 0; trial < TEST_THIN(40, 12); trial++) {
      float x[256], importance[256];
      for (int i = 0; i < 256; i++) {
        x[i] = normal(&seed) * (trial % 3 == 0 ? 1.0f : trial % 3 == 1 ? 1e-4f * (float)(i + 1) : (float)(i % 17 == 0 ? 40 : 1));
        if (trial % 4 == 1) x[i] = fabsf(x[i]) + 1;
        importance[i] = (float)uniform(&seed);
      }
      const float *w = trial % 2 ? importance : NULL;
      double found = encode_and_miss(type, IJ_ENCODE_SEARCH, x, w, 256), plain = encode_and_miss(type, IJ_ENCODE_PLAIN, x, w, 256);
      if (!(found <= plain * (1 + 1e-5) + 1e-7)) {
        TEST_FAIL("%s, trial %d: %.7f by searching, %.7f plainly", ij__dtype_name(type), trial, found, plain);
      }
    }
  }
}

/* Weights that say that a quarter of the columns matter bring the error there down. */
static void test_importance(void) {
  static float x[ROW], w[ROW];
  uint64_t seed = 3;
  fill(x, ROW, false, &seed);
  for (int i = 0; i < ROW; i++) w[i] = i % 4 == 1 ? 30 : 0.5f;
  for (int t = 0; t < N_TYPES; t += STRIDE) {
    const ij_dtype type = bounds[t].type;
    static float y[ROW];
    double with = encode_and_miss(type, IJ_ENCODE_SEARCH, x, w, ROW);
    encode_and_miss(type, IJ_ENCODE_SEARCH, x, NULL, ROW);
    decode(y, type, ROW);
    double without = miss(x, y, w, ROW);
    if (!(with <= without * 1.0001)) TEST_FAIL("%s: weighted error %.5f with weights, %.5f without", ij__dtype_name(type), with, without);
    if (type == IJ_DTYPE_Q4_K) CHECK(with < without * 0.97);
  }
}

/* -------------------------------------------------------------------------------------------------------- decoded values */

/* Where the F16, E4M3 or E8M0 fields of a block lie; the rest of it may hold any bits. */
static int scale_field(ij_dtype type, int *at) {
  *at = 0;
  switch (type) {
    case IJ_DTYPE_Q4_1: case IJ_DTYPE_Q5_1: case IJ_DTYPE_Q4_K: case IJ_DTYPE_Q5_K: case IJ_DTYPE_NVFP4: return 4;
    case IJ_DTYPE_MXFP4: return 1;
    case IJ_DTYPE_Q2_K: *at = 80; return 4;
    case IJ_DTYPE_Q3_K: *at = 108; return 2;
    case IJ_DTYPE_Q6_K: *at = 208; return 2;
    case IJ_DTYPE_TQ1_0: *at = 52; return 2;
    case IJ_DTYPE_TQ2_0: *at = 64; return 2;
    case IJ_DTYPE_IQ1_M: *at = 48; return 8;
    default: return 2;
  }
}

/* Random codes (and small scales) under the large scales of what has just been encoded. Codes that no encoder writes are avoided. */
static void scramble(ij_dtype type, int n, uint64_t *seed) {
  const int64_t n_bytes = ij__dtype_row_bytes(type, n), block = ij__dtype_block_bytes(type);
  int at, n_field = ij__dtype_is_block(type) ? scale_field(type, &at) : 0;
  for (int64_t i = 0; i < n_bytes; i++) {
    const int64_t in = i % block;
    if (n_field > 0 && in >= at && in < at + n_field) continue;
    data[i] = (uint8_t)test_random(seed);
    if (type == IJ_DTYPE_TQ2_0) data[i] &= (uint8_t)~(data[i] & data[i] << 1 & 0xaa);
    if (type == IJ_DTYPE_Q8_0 && data[i] == 0x80) data[i] = 0;
    if (type == IJ_DTYPE_MXFP8_SPLIT && (data[i] & 0x7f) == 0x7f) data[i] = 0;
  }
}

/* Encoding decoded values gives them back: what an encoder made, and random blocks. Nested scales leave rare blocks of random bits
 * whose scales cannot be told from the values alone; those come back close. */
static void test_decoded_again(void) {
  enum { N_TRIALS = TEST_THIN(100, 25) };
  for (int t = 0; t < N_TYPES; t += STRIDE) {
    const ij_dtype type = bounds[t].type;
    const ij_encoder *e = encoder(type, IJ_ENCODE_SEARCH);
    uint64_t seed = 21;
    int n_own = 0, n_random = 0;
    double worst = 0;
    for (int trial = 0; trial < N_TRIALS; trial++) {
      float x[256], y[256], z[256];
      ij_err err = {0};
      fill(x, 256, false, &seed);
      CHECK_OK(ij__encode_row(e, &out, x, 256, NULL, &err), err);
      for (int kind = 0; kind < 2; kind++) {
        if (kind == 1) scramble(type, 256, &seed);
        decode(y, type, 256);
        CHECK_OK(ij__encode_row(e, &out, y, 256, NULL, &err), err);
        decode(z, type, 256);
        bool same = true;
        for (int i = 0; i < 256; i++) same = same && y[i] == z[i];
        *(kind ? &n_random : &n_own) += same;
        worst = fmax(worst, miss(y, z, NULL, 256));
      }
    }
    const bool nested = ij__dtype_is_block(type) && ij__dtype_block_len(type) == 256 && type < IJ_DTYPE_TQ1_0;
    if (n_own < (nested ? N_TRIALS * 98 / 100 : N_TRIALS)) TEST_FAIL("%s: %d of %d rows of its own came back", ij__dtype_name(type), n_own, N_TRIALS);
    if (n_random < (nested ? N_TRIALS * 90 / 100 : N_TRIALS * 99 / 100)) TEST_FAIL("%s: %d of %d random rows came back", ij__dtype_name(type), n_random, N_TRIALS);
    if (!(worst < 0.04)) TEST_FAIL("%s: a decoded row came back with an error of %.4f", ij__dtype_name(type), worst);
  }
}

/* ---------------------------------------------------------------------------------------------------------------- edges */

static bool is_grid(ij_dtype t) { return t >= IJ_DTYPE_IQ1_S && t <= IJ_DTYPE_IQ3_S; }

static void test_edges(void) {
  for (int t = 0; t < N_TYPES; t += STRIDE) {
    const ij_dtype type = bounds[t].type;
    const char *name = ij__dtype_name(type);
    for (int mode = 0; mode < (ij__dtype_is_split(type) ? 3 : 2); mode++) {
      float x[256] = {0}, y[256];
      CHECK(encode_and_miss(type, (ij_encode_mode)mode, x, NULL, 256) == 0); /* zeros are exact in every type */
      for (int i = 0; i < 256; i++) x[i] = -0.37f;
      double m = encode_and_miss(type, (ij_encode_mode)mode, x, NULL, 256);
      if (!(m < (is_grid(type) ? 0.5 : type == IJ_DTYPE_MXFP4 || type == IJ_DTYPE_MXFP4_SPLIT ? 0.2 : 0.07))) {
        TEST_FAIL("%s, mode %d: a constant misses by %g", name, mode, m);
      }
      for (int i = 0; i < 256; i++) x[i] = i == 77 ? 1000 : 0;
      m = encode_and_miss(type, (ij_encode_mode)mode, x, NULL, 256);
      decode(y, type, 256);
      if (!(m < (is_grid(type) ? 1.1 : 0.2))) TEST_FAIL("%s, mode %d: one outlier misses by %g", name, mode, m);
      for (int i = 0; i < 256; i++) x[i] = (i % 2 ? 1e-30f : -1e-30f) * (float)i;
      encode_and_miss(type, (ij_encode_mode)mode, x, NULL, 256);
      decode(y, type, 256);
      for (int i = 0; i < 256; i++) CHECK(fabsf(y[i]) < 1e-2f); /* MLX's smallest affine scale is 1e-7, E4M3's 2^-9 */
    }
  }
}

/* Large values: as large as the type goes without loss of accuracy, beyond that refused. */
static void test_large(void) {
  for (int t = 0; t < N_TYPES; t += STRIDE) {
    const ij_dtype type = bounds[t].type;
    const bool e4m3 = type == IJ_DTYPE_NVFP4 || type == IJ_DTYPE_NVFP4_SPLIT;
    float x[256];
    uint64_t seed = 2;
    fill(x, 256, false, &seed);
    const double small = encode_and_miss(type, IJ_ENCODE_SEARCH, x, NULL, 256);
    for (int i = 0; i < 256; i++) x[i] *= e4m3 ? 16384.0f : 524288.0f;
    const double large = encode_and_miss(type, IJ_ENCODE_SEARCH, x, NULL, 256);
    if (!(large < small * 1.15)) TEST_FAIL("%s: error %.5f, of large values %.5f", ij__dtype_name(type), small, large);
    const ij_encoder *e = encoder(type, IJ_ENCODE_SEARCH);
    ij_err err = {0};
    x[200] = -3e38f;
    memset(data, 0x5a, 64);
    CHECK_INT(ij__encode_row(e, &out, x, 256, NULL, &err), IJ_E_RANGE);
    CHECK_HAS(err.message, "value 200");
    CHECK(data[0] == 0x5a && data[63] == 0x5a);
  }
}

/* The widest exponents of float32 where the scale has them too. */
static void test_wide(void) {
  static const ij_dtype types[] = {IJ_DTYPE_MXFP4, IJ_DTYPE_MXFP4_SPLIT, IJ_DTYPE_MXFP8_SPLIT, IJ_DTYPE_AFFINE4, IJ_DTYPE_AFFINE8};
  for (int t = 0; t < 5; t++) {
    for (int k = 0; k < 2; k++) {
      float x[256];
      uint64_t seed = 2;
      fill(x, 256, false, &seed);
      const double near_one = encode_and_miss(types[t], IJ_ENCODE_SEARCH, x, NULL, 256);
      for (int i = 0; i < 256; i++) x[i] = ldexpf(x[i], k ? 120 : -100);
      const double far = encode_and_miss(types[t], IJ_ENCODE_SEARCH, x, NULL, 256);
      CHECK_NEAR(far, near_one, 1e-12);
    }
  }
}

static void test_refused(void) {
  ij_err err = {0};
  ij_encoder *e;
  CHECK_INT(ij__encoder_open(&e, IJ_DTYPE_BF16, 0, IJ_DTYPE_BF16, IJ_ENCODE_SEARCH, &err), IJ_E_ARGUMENT);
  CHECK(e == NULL);
  CHECK_INT(ij__encoder_open(&e, IJ_DTYPE_AFFINE4, 16, IJ_DTYPE_BF16, IJ_ENCODE_SEARCH, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij__encoder_open(&e, IJ_DTYPE_AFFINE4, 64, IJ_DTYPE_I8, IJ_ENCODE_SEARCH, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij__encoder_open(&e, IJ_DTYPE_Q4_K, 0, IJ_DTYPE_BF16, IJ_ENCODE_MLX, &err), IJ_E_ARGUMENT);
  for (int t = 0; t < N_TYPES; t += STRIDE) {
    const ij_encoder *good = encoder(bounds[t].type, IJ_ENCODE_SEARCH);
    float x[256] = {0}, w[256];
    for (int i = 0; i < 256; i++) w[i] = 1;
    memset(data, 0x5a, 64);
    CHECK_INT(ij__encode_row(good, &out, x, 8, NULL, &err), IJ_E_ARGUMENT);
    static const float bad[3] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++) {
      x[255] = bad[k];
      CHECK_INT(ij__encode_row(good, &out, x, 256, NULL, &err), IJ_E_ARGUMENT);
      CHECK_HAS(err.message, "value 255 is not finite");
    }
    x[255] = 0;
    w[3] = -1;
    CHECK_INT(ij__encode_row(good, &out, x, 256, w, &err), IJ_E_ARGUMENT);
    CHECK_HAS(err.message, "importance 3");
    CHECK(data[0] == 0x5a && data[63] == 0x5a);
  }
}

static void test_memory_refused(void) {
  ij_err err = {0};
  for (int k = 1; k <= 3; k++) {
    ij_encoder *e;
    int64_t before = ij__alloc_blocks();
    ij__alloc_fail_after(k);
    CHECK_INT(ij__encoder_open(&e, IJ_DTYPE_IQ2_S, 0, IJ_DTYPE_BF16, IJ_ENCODE_SEARCH, &err), IJ_E_NOMEM);
    ij__alloc_fail_after(0);
    CHECK(e == NULL);
    CHECK_INT(ij__alloc_blocks(), before);
  }
}

/* --------------------------------------------------------------------------------------------------------------- releases */

/* The release's rule: the largest magnitude is 6 * 448 * scale2, exactly. */
static void test_nvfp4_factor(void) {
  float x[256], y[256], peak = 0;
  uint64_t seed = 8;
  fill(x, 256, true, &seed);
  for (int i = 0; i < 256; i++) peak = fmaxf(peak, fabsf(x[i]));
  ij_encoded e_out = out;
  e_out.factor = ij__nvfp4_factor(peak);
  for (int mode = 0; mode < 3; mode++) {
    const ij_encoder *e = encoder(IJ_DTYPE_NVFP4_SPLIT, (ij_encode_mode)mode);
    ij_err err = {0};
    CHECK_OK(ij__encode_row(e, &e_out, x, 256, NULL, &err), err);
    decode(y, IJ_DTYPE_NVFP4_SPLIT, 256);
    float top = 0;
    for (int i = 0; i < 256; i++) top = fmaxf(top, fabsf(y[i])), y[i] *= e_out.factor;
    CHECK(top == 6 * 448);
    CHECK(miss(x, y, NULL, 256) < 0.12);
  }
}

/* What mx.quantize made of 32 values, i * i / 64 - 3 + i / 8: the same bits. */
static void test_mlx_bits(void) {
  float x[32];
  for (int i = 0; i < 32; i++) x[i] = (float)(i * i) / 64 - 3 + (float)i / 8;
  static const uint8_t affine4[16] = {
      255, 255, 255, 238, 222, 221, 204, 188, 171, 153, 136, 103, 86, 52, 35, 1};
  static const uint8_t mxfp4[16] = {
      153, 153, 153, 153, 0, 0, 16, 17, 33, 50, 51, 68, 68, 85, 85, 102};
  static const uint8_t mxfp8[32] = {
      228, 227, 227, 226, 225, 224, 222, 219, 216, 210, 196, 72, 84, 90, 94, 98, 100, 103, 105, 106, 108, 109, 111, 112,
      113, 114, 115, 116, 117, 118, 119, 120};
  static const uint8_t nvfp4[16] = {
      255, 239, 238, 221, 172, 25, 83, 102, 50, 67, 68, 85, 101, 102, 118, 119};
  static const struct {
    ij_dtype type;
    const uint8_t *codes;
    int n_codes;
    uint8_t scales[4], biases[4];
    int n_scales;
  } known[] = {{IJ_DTYPE_AFFINE4, affine4, 16, {39, 118, 156, 191}, {0, 64, 126, 65}, 4},
               {IJ_DTYPE_MXFP4_SPLIT, mxfp4, 16, {129}, {0}, 1},
               {IJ_DTYPE_MXFP8_SPLIT, mxfp8, 32, {123}, {0}, 1},
               {IJ_DTYPE_NVFP4_SPLIT, nvfp4, 16, {48, 67}, {0}, 2}};
  for (int k = 0; k < 4; k++) {
    ij_encoder *e;
    ij_err err = {0};
    CHECK_OK(ij__encoder_open(&e, known[k].type, 32, IJ_DTYPE_F32, IJ_ENCODE_MLX, &err), err);
    CHECK_OK(ij__encode_row(e, &out, x, 32, NULL, &err), err);
    if (memcmp(data, known[k].codes, (size_t)known[k].n_codes) != 0) TEST_FAIL("%s: other codes", ij__dtype_name(known[k].type));
    if (memcmp(scales, known[k].scales, (size_t)known[k].n_scales) != 0) TEST_FAIL("%s: other scales", ij__dtype_name(known[k].type));
    if (k == 0) CHECK(memcmp(biases, known[k].biases, 4) == 0);
    ij__encoder_close(&e);
  }
}

int main(void) {
  RUN(test_bounds);
  RUN(test_never_worse);
  RUN(test_importance);
  RUN(test_decoded_again);
  RUN(test_edges);
  RUN(test_large);
  RUN(test_wide);
  RUN(test_refused);
  RUN(test_memory_refused);
  RUN(test_nvfp4_factor);
  RUN(test_mlx_bits);
  encoder(IJ_DTYPE_COUNT, IJ_ENCODE_SEARCH);
  return test_report();
}
