/* fuzz_blocks.c: any bytes as a stretch of a stored row. The first six choose type, sidecars, group and place; the rest, repeated, are
 * codes, scales and biases, each in a block of the heap of exactly its size. Every level must stay inside and give the values of the
 * scalar definition, which are those of the walk over the whole row in quant.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "quant/quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 6, MAX_UNITS = 24 };

static void must(bool promise) {
  if (!promise) abort();
}

static void *heap(size_t n) {
  void *p = malloc(n ? n : 1);
  must(p != NULL);
  return p;
}

typedef struct source {
  const uint8_t *bytes;
  size_t n, at;
} source;

/* n bytes of the source, which begins anew at its end, `skip` bytes into a block that ends with them. */
static uint8_t *take(source *s, int64_t n, size_t skip) {
  uint8_t *p = (uint8_t *)heap((size_t)n + skip) + skip;
  for (int64_t i = 0; i < n; i++) p[i] = s->n ? s->bytes[s->at++ % s->n] : 0;
  return p;
}

static bool equal(const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
  }
  return true;
}

static void check(const ij_weight *w, int64_t c0, int64_t n) {
  float *row = heap((size_t)w->cols * sizeof *row), *y = heap((size_t)n * sizeof *y);
  ij_stretch s = {w->data, w->scales, w->biases, w->side_dtype, w->group, c0, n};
  ij__quant_decode_row(row, w, 0);
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    const ij_kernels *k = ij__kernels_get((ij_level)level);
    if (k->level != (ij_level)level) continue;
    k->decode[w->dtype](y, &s);
    must(equal(y, row + c0, n));
  }
  free(row);
  free(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ij_dtype sides[] = {IJ_DTYPE_F32, IJ_DTYPE_BF16, IJ_DTYPE_F16};
  if (size < HEAD) return 0;
  ij_weight w = {.dtype = (ij_dtype)(IJ_DTYPE_Q4_0 + data[0] % (IJ_DTYPE_MXFP8_SPLIT - IJ_DTYPE_Q4_0 + 1)), .rows = 1};
  bool affine = ij__dtype_is_affine(w.dtype), split = ij__dtype_is_split(w.dtype);
  w.side_dtype = sides[data[1] % 3];
  w.group = affine ? 32 << data[2] % 3 : (int)ij__dtype_block_len(w.dtype);
  int64_t first = data[3] % MAX_UNITS, count = 1 + data[4] % MAX_UNITS, behind = data[5] % 3, units = first + count + behind;
  source from = {data + HEAD, size - HEAD, 0};
  size_t skip = data[5] / 3 % 4;
  int64_t side_bytes = affine ? ij__dtype_block_bytes(w.side_dtype) : 1;
  w.cols = units * w.group;
  uint8_t *codes = take(&from, ij__dtype_row_bytes(w.dtype, w.cols), skip);
  uint8_t *scales = take(&from, units * side_bytes, skip), *biases = take(&from, units * side_bytes, skip);
  w.data = codes;
  if (split) w.scales = scales;
  if (affine) w.biases = biases;
  check(&w, first * w.group, count * w.group);
  free(codes - skip);
  free(scales - skip);
  free(biases - skip);
  return 0;
}
