/* quant_pipe.c: encodes or decodes rows for a script: a request on standard input, bytes on standard output.
 *
 *     quant_pipe encode TYPE GROUP SIDE MODE ROWS COLS   float32 in; codes, scales, biases out
 *     quant_pipe decode TYPE GROUP SIDE ROWS COLS        codes, scales, biases in; float32 out
 *
 * TYPE is a name of the table of types, SIDE F32, BF16 or F16, MODE search, plain or mlx.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "kernels/kernels.h"
#include "quant/encode.h"

typedef struct matrix {
  ij_dtype type, side;
  int group;
  size_t rows, cols;
  char *data, *scales, *biases;
  size_t data_bytes, scale_bytes, bias_bytes; /* of one row */
  float *values;
} matrix;

static int fail(const char *what) {
  fprintf(stderr, "quant_pipe: %s\n", what);
  return 2;
}

static ij_dtype find_type(const char *name) {
  int t = 0;
  while (t < IJ_DTYPE_COUNT && strcmp(ij__dtype_name((ij_dtype)t), name) != 0) t++;
  return (ij_dtype)t;
}

static bool make(matrix *m, const char *type, const char *group, const char *side, const char *rows, const char *cols) {
  *m = (matrix){.type = find_type(type), .side = find_type(side), .group = atoi(group)};
  m->rows = (size_t)atol(rows);
  m->cols = (size_t)atol(cols);
  if (m->type == IJ_DTYPE_COUNT || m->side == IJ_DTYPE_COUNT || m->group < 1 || m->rows < 1 || m->cols < 1) return false;
  const bool affine = m->type >= IJ_DTYPE_AFFINE2 && m->type <= IJ_DTYPE_AFFINE8;
  const size_t n_group = m->cols / (size_t)m->group;
  m->data_bytes = (size_t)ij__dtype_row_bytes(m->type, (int64_t)m->cols);
  if (ij__dtype_is_split(m->type)) m->scale_bytes = n_group * (affine ? (size_t)ij__dtype_block_bytes(m->side) : 1);
  if (affine) m->bias_bytes = m->scale_bytes;
  m->data = ij__alloc(m->rows * m->data_bytes);
  m->scales = ij__alloc(m->rows * m->scale_bytes + 1);
  m->biases = ij__alloc(m->rows * m->bias_bytes + 1);
  m->values = ij__alloc_array(m->rows * m->cols, sizeof *m->values);
  return m->data && m->scales && m->biases && m->values;
}

static bool read_all(void *p, size_t n) { return fread(p, 1, n, stdin) == n; }
static bool write_all(const void *p, size_t n) { return fwrite(p, 1, n, stdout) == n; }

static int encode(matrix *m, const char *mode_name) {
  static const char *const names[] = {"search", "plain", "mlx"}; /* the order of ij_encode_mode */
  int mode = 0;
  while (mode < 3 && strcmp(names[mode], mode_name) != 0) mode++;
  if (mode == 3) return fail("unknown mode");
  ij_encoder *e;
  ij_err err = {0};
  if (!read_all(m->values, m->rows * m->cols * sizeof *m->values)) return fail("the values end early");
  if (ij__encoder_open(&e, m->type, m->group, m->side, (ij_encode_mode)mode, &err) != IJ_OK) return fail(err.message);
  for (size_t r = 0; r < m->rows; r++) {
    ij_encoded out = {.data = m->data + r * m->data_bytes, .scales = m->scales + r * m->scale_bytes};
    out.biases = m->biases + r * m->bias_bytes;
    if (ij__encode_row(e, &out, m->values + r * m->cols, (int64_t)m->cols, NULL, &err) != IJ_OK) return fail(err.message);
  }
  ij__encoder_close(&e);
  bool ok = write_all(m->data, m->rows * m->data_bytes) && write_all(m->scales, m->rows * m->scale_bytes);
  return ok && write_all(m->biases, m->rows * m->bias_bytes) && fflush(stdout) == 0 ? 0 : fail("cannot write");
}

static int decode(matrix *m) {
  if (!read_all(m->data, m->rows * m->data_bytes) || !read_all(m->scales, m->rows * m->scale_bytes) ||
      !read_all(m->biases, m->rows * m->bias_bytes)) {
    return fail("the codes end early");
  }
  for (size_t r = 0; r < m->rows; r++) {
    ij_stretch s = {.row = m->data + r * m->data_bytes, .scales = m->scales + r * m->scale_bytes, .biases = m->biases + r * m->bias_bytes,
                    .side_dtype = m->side, .group = m->group, .n = (int64_t)m->cols};
    ij__kernels_get(IJ_LEVEL_COUNT)->decode[m->type](m->values + r * m->cols, &s);
  }
  return write_all(m->values, m->rows * m->cols * sizeof *m->values) && fflush(stdout) == 0 ? 0 : fail("cannot write");
}

int main(int argc, char **argv) {
  matrix m;
  const bool encoding = argc == 8 && strcmp(argv[1], "encode") == 0, decoding = argc == 7 && strcmp(argv[1], "decode") == 0;
  if (!encoding && !decoding) return fail("expected encode or decode and their arguments");
  if (!make(&m, argv[2], argv[3], argv[4], argv[argc - 2], argv[argc - 1])) return fail("cannot make sense of the arguments");
  const int rc = encoding ? encode(&m, argv[5]) : decode(&m);
  ij__free(m.data);
  ij__free(m.scales);
  ij__free(m.biases);
  ij__free(m.values);
  return rc;
}
