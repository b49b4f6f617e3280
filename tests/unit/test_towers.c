/* test_towers.c: the plan of the vision tower against a table and a second way to find it, the towers against the oracle's rows for weights
 * that a hash makes, and the bits of a row, which depend on nothing but its patch or bins. */
#include "core/alloc.h"
#include "io/ckpt.h"
#include "io/json.h"
#include "core/os.h"
#include "kernels/ref/convert_ref.h"
#include "model/towers.h"
#include "test.h"

/* --------------------------------------------------------------------------------------------------------------- plans */

/* space, time, in, out of the four layers; the last out is the width of the decoder. */
static const struct {
  int patch;
  int64_t layer[IJ_TOWER_LAYERS][4];
} plans[] = {
    {40, {{5, 1, 75, 128}, {2, 1, 512, 320}, {4, 1, 5120, 4800}, {1, 2, 9600, 7}}},
    {12, {{3, 1, 27, 64}, {2, 1, 256, 128}, {2, 1, 512, 448}, {1, 2, 896, 7}}},
    {8, {{2, 1, 12, 64}, {2, 1, 256, 64}, {2, 1, 256, 192}, {1, 2, 384, 7}}},
    {16, {{2, 1, 12, 64}, {2, 1, 256, 64}, {4, 1, 1024, 768}, {1, 2, 1536, 7}}},
    {20, {{5, 1, 75, 128}, {2, 1, 512, 320}, {2, 1, 1280, 1216}, {1, 2, 2432, 7}}},
    {36, {{3, 1, 27, 64}, {3, 1, 576, 256}, {2, 1, 1024, 1024}, {2, 2, 8192, 7}}},
    {18, {{3, 1, 27, 64}, {3, 1, 576, 256}, {2, 1, 1024, 1024}, {1, 2, 2048, 7}}},
};

static void the_plan_is_that_of_the_table(void) {
  char why[200];
  for (size_t i = 0; i < IJ_COUNT_OF(plans); i++) {
    ij_tower_plan p;
    CHECK(ij__tower_plan(&p, plans[i].patch, 7, why, sizeof why));
    for (int k = 0; k < IJ_TOWER_LAYERS; k++) {
      CHECK_INT(p.layer[k].space, plans[i].layer[k][0]);
      CHECK_INT(p.layer[k].time, plans[i].layer[k][1]);
      CHECK_INT(p.layer[k].in, plans[i].layer[k][2]);
      CHECK_INT(p.layer[k].out, plans[i].layer[k][3]);
    }
  }
}

/* Whatever the patch: folds multiply to it, only the last one is in time, and a patch becomes one vector. */
static void every_plan_ends_in_one_vector(void) {
  char why[200];
  int n = 0;
  for (int patch = -1; patch <= IJ_TOWER_MAX_PATCH + 1; patch++) {
    ij_tower_plan p;
    int side = 1, n_factor = 0;
    for (int f = 2, rest = patch; rest > 1; f++) {
      for (; rest % f == 0; rest /= f) n_factor++;
    }
    bool fits = ij__tower_plan(&p, patch, 5, why, sizeof why);
    CHECK_INT(fits, patch <= IJ_TOWER_MAX_PATCH && n_factor >= 3);
    for (int k = 0; fits && k < IJ_TOWER_LAYERS; k++) {
      side *= p.layer[k].space;
      CHECK_INT(p.layer[k].time, k == 3 ? 2 : 1);
      CHECK_INT(p.layer[k].n_vectors, (k == 3 ? 1 : 2) * (patch / side) * (patch / side));
    }
    if (fits) CHECK_INT(side, patch);
    n += fits;
  }
  CHECK(n > 100);
  CHECK(!ij__tower_plan(&(ij_tower_plan){0}, 35, 5, why, sizeof why));
  CHECK_HAS(why, "a patch of 35 pixels can be folded to 3 sizes only, 4 layers need as many");
}

/* ---------------------------------------------------------------------------------------------------------------- gelu */

/* As exact as 1 + erf in float32 can be: what is lost is at most an ulp or two of x. */
static void gelu_is_the_exact_one(void) {
  enum { N = 4001 };
  float x[N], y[N], other[N];
  for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) / 250;
  ij__kernels_get(IJ_LEVEL_SCALAR)->gelu(y, x, N);
  for (int i = 0; i < N; i++) CHECK_NEAR(y[i], 0.5 * x[i] * erfc(-x[i] * sqrt(0.5)), 1.5e-7 * fmax(fabs((double)x[i]), 0.1));
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    if (!ij__cpu_has((ij_level)level)) continue;
    ij__kernels_get((ij_level)level)->gelu(other, x, N);
    CHECK(memcmp(other, y, sizeof y) == 0);
  }
}

/* -------------------------------------------------------------------------------------------------- weights from a hash */

static double hashed(uint64_t seed, uint64_t index) {
  uint64_t x = (seed << 40) + index + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return (double)(x >> 40) / 8388608.0 - 1;
}

static uint16_t *hashed_bf16(uint64_t seed, int64_t n, double amplitude) {
  uint16_t *out = ij__alloc_array((size_t)n, sizeof *out);
  for (int64_t i = 0; i < n; i++) out[i] = ij__ref_to_bf16((float)(hashed(seed, (uint64_t)i) * amplitude));
  return out;
}

static float *hashed_norm(uint64_t seed, int64_t n) {
  float *out = ij__alloc_array((size_t)n, sizeof *out);
  for (int64_t i = 0; i < n; i++) out[i] = ij__ref_from_bf16(ij__ref_to_bf16((float)(1 + 0.25 * hashed(seed, (uint64_t)i))));
  return out;
}

static ij_weight matrix(uint16_t *data, int64_t rows, int64_t cols) {
  return (ij_weight){.data = data, .dtype = IJ_DTYPE_BF16, .rows = rows, .cols = cols, .row_stride = cols * 2};
}

/* Towers as tests/oracle/towers.py makes them, for any patch. */
static void make_towers(ij_towers_weights *w, int patch, int hidden) {
  char why[200];
  *w = (ij_towers_weights){.vision = true, .audio = true, .hidden = hidden};
  CHECK(ij__tower_plan(&w->plan, patch, hidden, why, sizeof why));
  for (int i = 0; i < IJ_TOWER_LAYERS; i++) {
    const ij_tower_layer *l = &w->plan.layer[i];
    w->linear[i] = matrix(hashed_bf16((uint64_t)i + 1, l->in * l->out, sqrt(3.0 / (double)l->in)), l->out, l->in);
    if (i < IJ_TOWER_LAYERS - 1) w->norm[i] = hashed_norm((uint64_t)i + 5, l->out);
  }
  w->vision_norm = hashed_norm(8, hidden);
  w->table = matrix(hashed_bf16(9, (int64_t)1280 * hidden, 0.5), 1280, hidden);
  w->audio_norm = hashed_norm(10, hidden);
}

static void drop(const void *p) { ij__free((void *)(uintptr_t)p); }

static void free_made(ij_towers_weights *w) {
  for (int i = 0; i < IJ_TOWER_LAYERS; i++) {
    drop(w->linear[i].data);
    if (i < IJ_TOWER_LAYERS - 1) drop(w->norm[i]);
  }
  drop(w->vision_norm);
  drop(w->table.data);
  drop(w->audio_norm);
}

typedef struct patches {
  const float *values;
  int64_t each;
} patches;

static void copy_patch(void *user, int64_t row, float *out) {
  const patches *p = user;
  memcpy(out, p->values + row * p->each, (size_t)p->each * sizeof *out);
}

static int64_t patch_values(const ij_towers_weights *w) { return (int64_t)2 * 3 * w->plan.patch * w->plan.patch; }

static void encode(const ij_towers_weights *w, ij_level level, int threads, bool still, const float *values, int64_t n, float *out) {
  ij_err err;
  ij_pool *pool = NULL;
  ij_towers_run run;
  CHECK_OK(ij__pool_open(&pool, threads, &err), err);
  CHECK_OK(ij__towers_open_vision(&run, w, ij__kernels_get(level), pool, n, still, &err), err);
  patches p = {values, patch_values(w)};
  for (int64_t at = 0; at < n; at += run.max_rows) {
    p.values = values + at * p.each;
    ij__towers_vision(&run, IJ_MIN(run.max_rows, n - at), copy_patch, &p, out + at * w->hidden);
  }
  ij__towers_close_run(&run);
  ij__pool_close(&pool);
}

static void encode_audio(const ij_towers_weights *w, ij_level level, int threads, const uint8_t *bins, int64_t n, float *out) {
  ij_err err;
  ij_pool *pool = NULL;
  ij_towers_run run;
  CHECK_OK(ij__pool_open(&pool, threads, &err), err);
  CHECK_OK(ij__towers_open_audio(&run, w, ij__kernels_get(level), pool, n, &err), err);
  CHECK(run.max_rows >= n);
  ij__towers_audio(&run, n, bins, out);
  ij__towers_close_run(&run);
  ij__pool_close(&pool);
}

/* ------------------------------------------------------------------------------------------------------------- fixtures */

static double largest_difference(const float *a, const float *b, int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++) worst = fmax(worst, isfinite(a[i]) ? fabs((double)a[i] - b[i]) : INFINITY);
  return worst;
}

static void rows_are_those_of_the_oracle(void) {
  ij_err err;
  ij_ckpt *golden = NULL;
  ij_towers_weights w;
  float rows[7 * 64];
  uint8_t bins[7 * 80];
  CHECK_OK(ij__ckpt_open(&golden, "tests/fixtures/towers/golden.safetensors", &err), err);
  if (!golden) return;
  const float *pixels = ij__ckpt_find(golden, "patches")->data, *vision = ij__ckpt_find(golden, "vision")->data;
  const float *audio = ij__ckpt_find(golden, "audio")->data;
  const int32_t *ids = ij__ckpt_find(golden, "bins")->data;
  make_towers(&w, 40, 64);
  encode(&w, IJ_LEVEL_COUNT, 2, false, pixels, 3, rows);
  CHECK_NEAR(largest_difference(rows, vision, 3 * 64), 0, 1e-4);
  encode(&w, IJ_LEVEL_COUNT, 2, true, pixels + patch_values(&w), 1, rows); /* of the three the one whose slices are equal */
  CHECK_NEAR(largest_difference(rows, vision + 64, 64), 0, 1e-4);
  for (int i = 0; i < 7 * 80; i++) bins[i] = (uint8_t)ids[i];
  encode_audio(&w, IJ_LEVEL_COUNT, 2, bins, 7, rows);
  CHECK_NEAR(largest_difference(rows, audio, 7 * 64), 0, 1e-4);
  free_made(&w);
  ij__ckpt_close(&golden);
}

/* ----------------------------------------------------------------------------------------------------------------- bits */

#define N_ROWS 37

static float *pixels_for(const ij_towers_weights *w, bool still) {
  int64_t each = patch_values(w);
  float *values = ij__alloc_array((size_t)(N_ROWS * each), sizeof *values);
  for (int64_t i = 0; i < N_ROWS * each; i++) values[i] = (float)(2 * hashed(100, (uint64_t)i));
  for (int64_t r = 0; still && r < N_ROWS; r++) memcpy(values + r * each + each / 2, values + r * each, (size_t)each / 2 * sizeof *values);
  return values;
}

static void compare_bits(const float *a, const float *b, int64_t n, const char *what, int patch, int level, int threads, int64_t first) {
  if (memcmp(a, b, (size_t)n * sizeof *a) != 0)
    TEST_FAIL("%s of patch %d, level %d, %d threads, from row %lld: other bits", what, patch, level, threads, (long long)first);
}

/* Rows [first, first + n) by every level and number of threads against all rows at once by the scalar kernels. */
static void check_bits(const ij_towers_weights *w, bool still) {
  static const int64_t cuts[][2] = {{0, N_ROWS}, {0, 1}, {36, 1}, {5, 17}, {20, 16}};
  float *values = pixels_for(w, still), *all = ij__alloc_array((size_t)N_ROWS * 2 * (size_t)w->hidden, sizeof *all);
  float *some = all + N_ROWS * w->hidden;
  encode(w, IJ_LEVEL_SCALAR, 1, still, values, N_ROWS, all);
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    if (!ij__cpu_has((ij_level)level)) continue;
    const bool slow = w->plan.patch > 12 || level == IJ_LEVEL_SCALAR; /* wide towers and scalar kernels take long: every fourth way */
    for (int i = 0; i < 15; i += slow ? TEST_THIN(4, 7) : TEST_THIN(1, 4)) {
      int threads = 1 + i / 5;
      int64_t first = cuts[i % 5][0], n = cuts[i % 5][1];
      encode(w, (ij_level)level, threads, still, values + first * patch_values(w), n, some);
      compare_bits(some, all + first * w->hidden, n * w->hidden, still ? "a still" : "a pair", w->plan.patch, level, threads, first);
    }
  }
  ij__free(values);
  ij__free(all);
}

static void check_audio_bits(const ij_towers_weights *w) {
  uint8_t bins[N_ROWS * 80];
  float *all = ij__alloc_array((size_t)N_ROWS * 2 * (size_t)w->hidden, sizeof *all), *some = all + N_ROWS * w->hidden;
  for (int i = 0; i < N_ROWS * 80; i++) bins[i] = (uint8_t)((hashed(101, (uint64_t)i) + 1) * 8);
  encode_audio(w, IJ_LEVEL_SCALAR, 1, bins, N_ROWS, all);
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    for (int i = 0; i < 9 && ij__cpu_has((ij_level)level); i++) {
      int64_t first = i % 3 * 11, n = i % 3 == 1 ? 2 : N_ROWS - first;
      encode_audio(w, (ij_level)level, 1 + i / 3, bins + first * 80, n, some);
      compare_bits(some, all + first * w->hidden, n * w->hidden, "sound", 0, level, 1 + i / 3, first);
    }
  }
  ij__free(all);
}

static void the_bits_of_a_row_are_its_own(void) {
  static const int sizes[][2] = {{8, 24}, {12, 96}, {36, 40}};
  for (size_t i = 0; i < IJ_COUNT_OF(sizes) - TEST_EMULATED(0, 1); i++) { /* without the widest */
    ij_towers_weights w;
    make_towers(&w, sizes[i][0], sizes[i][1]);
    check_bits(&w, true);
    check_bits(&w, false);
    check_audio_bits(&w);
    free_made(&w);
  }
}

/* A still patch through the path of pairs: the same row but for rounding. */
static void the_short_way_of_a_still_is_the_long_one(void) {
  ij_towers_weights w;
  make_towers(&w, 12, 96);
  float *values = pixels_for(&w, true), rows[2][N_ROWS * 96];
  encode(&w, IJ_LEVEL_COUNT, 2, true, values, N_ROWS, rows[0]);
  encode(&w, IJ_LEVEL_COUNT, 2, false, values, N_ROWS, rows[1]);
  CHECK_NEAR(largest_difference(rows[0], rows[1], N_ROWS * 96), 0, 1e-5);
  ij__free(values);
  free_made(&w);
}

int main(void) {
  RUN(the_plan_is_that_of_the_table);
  RUN(every_plan_ends_in_one_vector);
  RUN(gelu_is_the_exact_one);
  RUN(rows_are_those_of_the_oracle);
  RUN(the_bits_of_a_row_are_its_own);
  RUN(the_short_way_of_a_still_is_the_long_one);
  return test_report();
}
