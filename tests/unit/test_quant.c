/* test_quant.c: what other programs decode, decoded here to the same bits: by the walk of quant.c and by each level of the kernel table.
 *
 * tests/fixtures/blocks.safetensors holds real blocks with exact values, quants.safetensors random ones with the results of the gguf
 * package and of mx.dequantize (tests/golden/make_quants.py). Rows are handed over at odd addresses, in blocks of exactly their size.
 */
#include "core/alloc.h"
#include "io/safetensors.h"
#include "kernels/kernels.h"
#include "quant/fmt_iq.h"
#include "quant/quant.h"
#include "test.h"

static ij_err err;

typedef struct file {
  unsigned char *bytes;
  ij_safetensors st;
} file;

static bool open_file(file *f, const char *path) {
  FILE *in = fopen(path, "rb");
  if (!in) {
    TEST_FAIL("cannot open %s; tests run from the root of the repository", path);
    return false;
  }
  fseek(in, 0, SEEK_END);
  long size = ftell(in);
  rewind(in);
  f->bytes = malloc((size_t)size);
  size_t n = fread(f->bytes, 1, (size_t)size, in);
  fclose(in);
  ij_status s = ij__safetensors_parse(&f->st, f->bytes, n, path, &err);
  if (s != IJ_OK) TEST_FAIL("%s: %s", path, err.message);
  return s == IJ_OK;
}

static void close_file(file *f) {
  ij__safetensors_free(&f->st);
  free(f->bytes);
}

static const ij_tensor_view *part(const file *f, const char *stem, const char *suffix) {
  char name[96];
  snprintf(name, sizeof name, "%s.%s", stem, suffix);
  for (size_t i = 0; i < f->st.n; i++) {
    if (strcmp(f->st.tensors[i].name, name) == 0) return &f->st.tensors[i];
  }
  return NULL;
}

static ij_dtype type_named(const char *name) {
  for (int t = 0; t < IJ_DTYPE_COUNT; t++) {
    if (strcmp(ij__dtype_name((ij_dtype)t), name) == 0) return (ij_dtype)t;
  }
  return IJ_DTYPE_COUNT;
}

/* A copy `skip` bytes into a block of the heap, ending where that ends; free(result - skip). */
static unsigned char *copy_at(size_t skip, const void *p, size_t n) {
  unsigned char *block = malloc(skip + n);
  memcpy(block + skip, p, n);
  return block + skip;
}

static void compare(const char *what, const char *how, const float *got, const void *want, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t g, w;
    memcpy(&g, got + i, 4);
    memcpy(&w, (const char *)want + 4 * i, 4);
    if (g == w) continue;
    TEST_FAIL("%s %s: value %lld has bits %08x, expected %08x", what, how, (long long)i, g, w);
    return;
  }
}

/* Row `row` through quant.c and every level present. */
static void check_row(const char *what, const ij_weight *w, int64_t row, const void *want) {
  float *y = malloc((size_t)w->cols * sizeof *y);
  ij__quant_decode_row(y, w, row);
  compare(what, "quant", y, want, w->cols);
  ij_weight at = ij__weight_from(*w, row);
  ij_stretch s = {at.data, at.scales, at.biases, at.side_dtype, at.group, 0, at.cols};
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    if (k->level != (ij_level)level) continue;
    memset(y, 0xff, (size_t)w->cols * sizeof *y);
    if (k->decode[w->dtype]) k->decode[w->dtype](y, &s);
    else k->widen[w->dtype](y, at.data, at.cols);
    compare(what, ij__level_name(k->level), y, want, w->cols);
  }
  free(y);
}

/* Every TYPE.raw of the file; returns their number. */
static int check_blocks(const file *f) {
  int n_types = 0;
  for (size_t i = 0; i < f->st.n; i++) {
    const ij_tensor_view *raw = &f->st.tensors[i];
    char stem[64];
    snprintf(stem, sizeof stem, "%s", raw->name);
    char *dot = strstr(stem, ".raw");
    if (!dot) continue;
    *dot = 0;
    const ij_tensor_view *values = part(f, stem, "values");
    ij_dtype type = type_named(stem);
    if (!values || type == IJ_DTYPE_COUNT) {
      TEST_FAIL("%s: not a type, or no values", raw->name);
      continue;
    }
    ij_weight w = {.dtype = type, .rows = raw->dims[0], .cols = values->dims[1], .row_stride = raw->dims[1]};
    CHECK_INT(ij__dtype_row_bytes(type, w.cols), raw->dims[1]);
    size_t skip = ij__dtype_is_float(type) ? 0 : 1; /* rows of float types are aligned */
    for (int64_t r = 0; r < w.rows; r++) {
      unsigned char *row = copy_at(skip, (const char *)raw->data + r * w.row_stride, (size_t)w.row_stride);
      ij_weight one = w;
      one.data = row;
      check_row(stem, &one, 0, (const char *)values->data + r * w.cols * 4);
      free(row - skip);
    }
    n_types++;
  }
  return n_types;
}

static void published_blocks(void) {
  file f = {0};
  if (open_file(&f, "tests/fixtures/blocks.safetensors")) CHECK_INT(check_blocks(&f), 21);
  close_file(&f);
}

static void blocks_of_the_gguf_package(void) {
  file f = {0};
  if (open_file(&f, "tests/fixtures/quants.safetensors")) CHECK_INT(check_blocks(&f), 3);
  close_file(&f);
}

static void check_grid(const file *f, const char *name, const uint64_t *wide, const uint32_t *narrow) {
  const ij_tensor_view *grid = part(f, name, "grid");
  if (!grid) {
    TEST_FAIL("%s: no grid in the file", name);
    return;
  }
  for (int64_t i = 0; i < grid->dims[0]; i++) {
    for (int64_t j = 0; j < grid->dims[1]; j++) {
      uint64_t entry = wide ? wide[i] : narrow[i];
      uint8_t want = ((const uint8_t *)grid->data)[i * grid->dims[1] + j];
      if ((uint8_t)(entry >> (8 * j)) != want) TEST_FAIL("%s: entry %lld is not that of the file", name, (long long)i);
    }
  }
}

/* The rows above reach only a part of the codebooks: here are all entries. */
static void codebooks(void) {
  file f = {0};
  if (open_file(&f, "tests/fixtures/quants.safetensors")) {
    check_grid(&f, "IQ1_S", ij__iq1_grid, NULL);
    check_grid(&f, "IQ2_XXS", ij__iq2_xxs_grid, NULL);
    check_grid(&f, "IQ2_XS", ij__iq2_xs_grid, NULL);
    check_grid(&f, "IQ2_S", ij__iq2_s_grid, NULL);
    check_grid(&f, "IQ3_XXS", NULL, ij__iq3_xxs_grid);
    check_grid(&f, "IQ3_S", NULL, ij__iq3_s_grid);
  }
  close_file(&f);
  for (int i = 0; i < 128; i++) {
    int set = 0;
    for (int bit = 0; bit < 8; bit++) set += ij__iq_signs[i] >> bit & 1;
    CHECK_INT(ij__iq_signs[i] & 0x7f, i);
    CHECK_INT(set % 2, 0);
  }
}

/* "TYPE/GROUP/SIDE" */
static bool split_stem(const char *stem, ij_weight *w) {
  char type[32], side[8];
  if (sscanf(stem, "%31[^/]/%d/%7s", type, &w->group, side) != 3) return false;
  w->dtype = type_named(type);
  w->side_dtype = type_named(side);
  return w->dtype != IJ_DTYPE_COUNT && w->side_dtype != IJ_DTYPE_COUNT;
}

static void check_split(const file *f, const char *stem) {
  const ij_tensor_view *codes = part(f, stem, "codes"), *scales = part(f, stem, "scales"), *biases = part(f, stem, "biases");
  const ij_tensor_view *values = part(f, stem, "values");
  ij_weight w = {.rows = 1};
  if (!split_stem(stem, &w) || !codes || !scales || !values || !biases != !ij__dtype_is_affine(w.dtype)) {
    TEST_FAIL("%s: a part is missing", stem);
    return;
  }
  w.cols = values->dims[1];
  w.row_stride = codes->dims[1];
  w.side_stride = scales->dims[1];
  CHECK_INT(ij__dtype_row_bytes(w.dtype, w.cols), w.row_stride);
  unsigned char *c = copy_at(1, codes->data, (size_t)w.row_stride), *s = copy_at(1, scales->data, (size_t)w.side_stride);
  unsigned char *b = biases ? copy_at(1, biases->data, (size_t)w.side_stride) : NULL;
  w.data = c;
  w.scales = s;
  w.biases = b;
  check_row(stem, &w, 0, values->data);
  free(c - 1);
  free(s - 1);
  if (b) free(b - 1);
}

static void split_types_of_mlx(void) {
  file f = {0};
  int n = 0;
  if (open_file(&f, "tests/fixtures/quants.safetensors")) {
    for (size_t i = 0; i < f.st.n; i++) {
      char stem[64];
      snprintf(stem, sizeof stem, "%s", f.st.tensors[i].name);
      char *dot = strstr(stem, ".codes");
      if (!dot) continue;
      *dot = 0;
      check_split(&f, stem);
      n++;
    }
    CHECK_INT(n, 6 * 3 * 3 + 3); /* widths, groups, sidecar types; nvfp4, mxfp4, mxfp8 */
  }
  close_file(&f);
}

/* A scale that stands for NaN comes out as NaN: it is never read as a number. */
static void nan_scales_stay_nan(void) {
  unsigned char mxfp4[17] = {255}, nvfp4[36] = {0x38, 0x7f, 0xff, 0x38}, codes[16] = {0}, scale[1] = {0xff};
  float y[64];
  memset(mxfp4 + 1, 0x11, 16);
  memset(nvfp4 + 4, 0x22, 32);
  ij__quant_decode_row(y, &(ij_weight){.data = mxfp4, .dtype = IJ_DTYPE_MXFP4, .rows = 1, .cols = 32, .row_stride = 17}, 0);
  for (int i = 0; i < 32; i++) CHECK(isnan(y[i]));
  ij__quant_decode_row(y, &(ij_weight){.data = nvfp4, .dtype = IJ_DTYPE_NVFP4, .rows = 1, .cols = 64, .row_stride = 36}, 0);
  for (int i = 0; i < 64; i++) CHECK(i / 16 == 1 || i / 16 == 2 ? isnan(y[i]) : y[i] == 1.0f);
  static const ij_dtype split[] = {IJ_DTYPE_NVFP4_SPLIT, IJ_DTYPE_MXFP4_SPLIT};
  for (int t = 0; t < 2; t++) {
    ij_weight w = {.data = codes, .dtype = split[t], .rows = 1, .cols = t ? 32 : 16, .row_stride = t ? 16 : 8, .scales = scale,
                   .side_stride = 1, .group = t ? 32 : 16};
    ij__quant_decode_row(y, &w, 0);
    for (int i = 0; i < w.cols; i++) CHECK(isnan(y[i]));
  }
}

static void rows_strides_and_the_factor(void) {
  /* two rows of mxfp4, 20 and 3 bytes apart; codes 2 (1.0) and 10 (-1.0) */
  unsigned char codes[36], scales[4] = {127, 0, 0, 128};
  memset(codes, 0x22, 20);
  memset(codes + 20, 0xa2, 16);
  ij_weight w = {.data = codes, .dtype = IJ_DTYPE_MXFP4_SPLIT, .rows = 2, .cols = 32, .row_stride = 20, .scales = scales, .side_stride = 3,
                 .group = 32, .has_factor = true, .factor = 0.25f};
  float y[32];
  ij__quant_decode_row(y, &w, 0);
  for (int i = 0; i < 32; i++) CHECK_NEAR(y[i], 0.25, 0);
  ij__quant_decode_row(y, &w, 1);
  for (int i = 0; i < 32; i++) CHECK_NEAR(y[i], i % 2 ? -0.5 : 0.5, 0);
}

int main(void) {
  RUN(published_blocks);
  RUN(blocks_of_the_gguf_package);
  RUN(codebooks);
  RUN(split_types_of_mlx);
  RUN(nan_scales_stay_nan);
  RUN(rows_strides_and_the_factor);
  return test_report();
}
