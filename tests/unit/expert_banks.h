/* expert_banks.h: files of noise, and banks of experts of every kind that lie in them, for tests of the homes. Nothing computes with them: what
 * counts is where bytes lie.
 *
 * Two safetensors files, each one tensor of bytes; the data begins at an odd offset. Layer by layer: gate and up in turns, as halves, apart (of
 * more than one piece of a read), no experts, affine apart (nine arrays), nvfp4 halves with factors, affine in turns, blocks.
 */
#ifndef IJ_TESTS_EXPERT_BANKS_H
#define IJ_TESTS_EXPERT_BANKS_H

#include <unistd.h>

#include "cache/experts.h"
#include "io/ckpt.h"
#include "temp_folder.h"
#include "test.h"

enum { EB_LAYERS = 8, EB_EXPERTS = 8, EB_NO_EXPERTS = 3, EB_FILE_BYTES = 13 << 20 };

typedef struct eb_model {
  char folder[256], path[2][300];
  ij_ckpt *ckpt;
  ij_expert_bank banks[EB_LAYERS];
  float factors[EB_EXPERTS];
  size_t used[2]; /* of each file, while banks are laid out */
} eb_model;

static inline ij_expert_banks eb_banks(const eb_model *m) { return (ij_expert_banks){m->banks, EB_LAYERS, EB_EXPERTS}; }

static inline bool eb_write(const char *path, uint64_t seed) {
  char header[128];
  int n = snprintf(header, sizeof header, "{\"noise%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", (int)seed, (int)EB_FILE_BYTES, (int)EB_FILE_BYTES);
  while (n % 8 != 5) header[n++] = ' ';
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  for (int i = 0; i < 8; i++) fputc((int)((uint64_t)n >> (8 * i) & 255), f);
  fwrite(header, 1, (size_t)n, f);
  static uint64_t block[8192];
  for (size_t left = EB_FILE_BYTES; left > 0;) {
    for (size_t i = 0; i < IJ_COUNT_OF(block); i++) block[i] = test_random(&seed);
    size_t some = IJ_MIN(left, sizeof block);
    fwrite(block, 1, some, f);
    left -= some;
  }
  return fclose(f) == 0;
}

/* The next n bytes of a file, where they are mapped. */
static inline const char *eb_take(eb_model *m, int file, int64_t n) {
  const ij_tensor_view *t = ij__ckpt_tensor(m->ckpt, file);
  const char *p = (const char *)t->data + m->used[file];
  m->used[file] += (size_t)n + 3; /* the next one has another alignment */
  if (m->used[file] > t->n_bytes) {
    printf("the files of expert_banks.h are too small\n");
    exit(2);
  }
  return p;
}

/* n matrices of each expert in one array, in turns row by row or one after the other. */
static inline void eb_matrices(eb_model *m, int file, ij_dtype dtype, int group, int64_t rows, int64_t cols, int n, bool turns, ij_bank_part *const out[]) {
  int64_t row = ij__dtype_row_bytes(dtype, cols), side = group ? cols / group * (ij__dtype_is_affine(dtype) ? 2 : 1) : 0;
  const char *data = eb_take(m, file, n * rows * row * EB_EXPERTS), *scales = NULL, *biases = NULL;
  if (side) scales = eb_take(m, 1 - file, n * rows * side * EB_EXPERTS);
  if (side && ij__dtype_is_affine(dtype)) biases = eb_take(m, file, n * rows * side * EB_EXPERTS);
  for (int i = 0; i < n; i++) {
    int64_t first = turns ? i : i * rows, step = turns ? n : 1;
    *out[i] = (ij_bank_part){.stride = n * rows * row, .side_stride = n * rows * side,
                             .first = {.data = data + first * row, .dtype = dtype, .rows = rows, .cols = cols, .row_stride = step * row,
                                       .scales = scales ? scales + first * side : NULL, .biases = biases ? biases + first * side : NULL,
                                       .side_stride = step * side, .side_dtype = IJ_DTYPE_BF16, .group = group}};
  }
}

static inline void eb_layer(eb_model *m, int layer, ij_dtype dtype, int group, int64_t width, int64_t hidden, int together, bool turns) {
  ij_expert_bank *b = &m->banks[layer];
  if (together == 2) {
    eb_matrices(m, layer % 2, dtype, group, width, hidden, 2, turns, (ij_bank_part *const[]){&b->gate, &b->up});
  } else {
    eb_matrices(m, layer % 2, dtype, group, width, hidden, 1, false, (ij_bank_part *const[]){&b->gate});
    eb_matrices(m, layer % 2, dtype, group, width, hidden, 1, false, (ij_bank_part *const[]){&b->up});
  }
  eb_matrices(m, layer % 2, dtype, group, hidden, width, 1, false, (ij_bank_part *const[]){&b->down});
}

static inline void eb_open(eb_model *m) {
  ij_err err = {0};
  *m = (eb_model){0};
  if (!make_temp_folder(m->folder, sizeof m->folder)) exit(2);
  for (int i = 0; i < 2; i++) {
    snprintf(m->path[i], sizeof m->path[i], "%s/%c.safetensors", m->folder, 'a' + i);
    if (!eb_write(m->path[i], (uint64_t)i + 1)) exit(2);
  }
  CHECK_OK(ij__ckpt_open(&m->ckpt, m->folder, &err), err);
  if (!m->ckpt || ij__ckpt_n_tensors(m->ckpt) != 2) exit(2);
  for (int i = 0; i < EB_EXPERTS; i++) m->factors[i] = 0.5f + (float)i;
  eb_layer(m, 0, IJ_DTYPE_BF16, 0, 24, 64, 2, true);
  eb_layer(m, 1, IJ_DTYPE_BF16, 0, 24, 64, 2, false);
  eb_layer(m, 2, IJ_DTYPE_F32, 0, 340, 256, 1, false);
  eb_layer(m, 4, IJ_DTYPE_AFFINE4, 32, 64, 96, 1, false);
  eb_layer(m, 5, IJ_DTYPE_NVFP4_SPLIT, 16, 48, 160, 2, false);
  eb_layer(m, 6, IJ_DTYPE_AFFINE6, 64, 64, 192, 2, true);
  eb_layer(m, 7, IJ_DTYPE_Q4_K, 0, 256, 256, 1, false);
  m->banks[5].gate.factors = m->banks[5].up.factors = m->banks[5].down.factors = m->factors;
}

static inline void eb_close(eb_model *m) {
  ij__ckpt_close(&m->ckpt);
  for (int i = 0; i < 2; i++) unlink(m->path[i]);
  rmdir(m->folder);
}

/* The first difference between two views of a matrix in a word; NULL: they are the same matrix, at places of the same alignment. */
static inline const char *eb_difference(const ij_weight *a, const ij_weight *b) {
  ij_weight x = *a, y = *b;
  const char *data_a[3] = {a->data, a->scales, a->biases}, *data_b[3] = {b->data, b->scales, b->biases};
  x.data = x.scales = x.biases = y.data = y.scales = y.biases = NULL;
  if (x.dtype != y.dtype || x.rows != y.rows || x.cols != y.cols || x.row_stride != y.row_stride || x.side_stride != y.side_stride ||
      x.side_dtype != y.side_dtype || x.group != y.group || x.has_factor != y.has_factor || x.factor != y.factor) {
    return "shape";
  }
  size_t row = (size_t)ij__dtype_row_bytes(a->dtype, a->cols), side = a->group ? (size_t)(a->cols / a->group) * (ij__dtype_is_affine(a->dtype) ? 2 : 1) : 0;
  for (int i = 0; i < 3; i++) {
    if (!data_a[i] != !data_b[i]) return "arrays";
    if (!data_a[i]) continue;
    if ((uintptr_t)data_a[i] % 4096 != (uintptr_t)data_b[i] % 4096) return "alignment";
    size_t n = i == 0 ? row : side, stride = (size_t)(i == 0 ? a->row_stride : a->side_stride);
    for (size_t r = 0; r < (size_t)a->rows; r++) {
      if (memcmp(data_a[i] + r * stride, data_b[i] + r * stride, n) != 0) return i == 0 ? "bytes" : i == 1 ? "scales" : "biases";
    }
  }
  return NULL;
}

/* A lease against the truth, which is the mapping. */
static inline bool eb_check(const eb_model *m, ij_experts *mapped, const ij_expert_lease *got) {
  (void)m;
  ij_expert_lease want;
  int id = got->expert;
  if (ij__experts_acquire(mapped, got->layer, &id, 1, &want) != 1) return false;
  const char *gate = eb_difference(&got->gate, &want.gate), *up = eb_difference(&got->up, &want.up), *down = eb_difference(&got->down, &want.down);
  ij__experts_release(mapped, &want, 1);
  if (gate || up || down) {
    TEST_FAIL("expert %d of layer %d differs: gate %s, up %s, down %s", got->expert, got->layer, gate ? gate : "same", up ? up : "same", down ? down : "same");
  }
  return !gate && !up && !down;
}

#endif
