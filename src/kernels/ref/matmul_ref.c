/* matmul_ref.c: matrix times vectors in scalar C, and the two machine measurements: the definition. */
#include "kernels/kernels_int.h"
#include "kernels/ref/convert_ref.h"

static float value_at(const void *row, ij_dtype dtype, int64_t i) {
  if (dtype == IJ_DTYPE_F32) return ((const float *)row)[i];
  uint16_t h = ((const uint16_t *)row)[i];
  return dtype == IJ_DTYPE_BF16 ? ij__ref_from_bf16(h) : ij__ref_from_f16(h);
}

static float row_dot(const void *row, ij_dtype dtype, const float *x, int64_t k) {
  float s[16] = {0};
  for (int64_t i = 0; i < k; i += 16) {
    for (int64_t j = 0; j < 16; j++) {
      bool inside = i + j < k;
      s[j] = fmaf(inside ? value_at(row, dtype, i + j) : 0.0f, inside ? x[i + j] : 0.0f, s[j]);
    }
  }
  return ij__ref_fold16(s);
}

static void matmul(const ij_matmul *m, int64_t r0, int64_t r1, ij_dtype dtype) {
  for (int64_t r = r0; r < r1; r++) {
    const void *row = (const char *)m->w + r * m->w_stride;
    for (int64_t t = 0; t < m->n; t++) m->y[t * m->ldy + r] = row_dot(row, dtype, ij__x_row(m, t), m->k);
  }
}

static void matmul_f32(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  (void)scratch;
  matmul(m, r0, r1, IJ_DTYPE_F32);
}

static void matmul_bf16(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  (void)scratch;
  matmul(m, r0, r1, IJ_DTYPE_BF16);
}

static void matmul_f16(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  (void)scratch;
  matmul(m, r0, r1, IJ_DTYPE_F16);
}

/* ---- block and split types: rows are decoded a stretch at a time ---- */

enum { STRETCH = 256, ROW_TOKENS = 16 }; /* the first is a multiple of every block length and group */

static ij_decode_fn decoders[IJ_DTYPE_COUNT];

/* Row r for tokens [t0, t1), at most ROW_TOKENS. Every k is a multiple of 16. */
static void coded_row(const ij_matmul *m, int64_t r, int64_t t0, int64_t t1, ij_decode_fn decode) {
  float sums[ROW_TOKENS][16] = {0}, w[STRETCH];
  ij_stretch s = ij__stretch_of(m, r);
  for (s.c0 = 0; s.c0 < m->k; s.c0 += STRETCH) {
    s.n = IJ_MIN(m->k - s.c0, (int64_t)STRETCH);
    decode(w, &s);
    for (int64_t t = t0; t < t1; t++) {
      float *sum = sums[t - t0];
      const float *x = ij__x_row(m, t) + s.c0;
      for (int64_t i = 0; i < s.n; i++) sum[i % 16] = fmaf(w[i], x[i], sum[i % 16]);
    }
  }
  for (int64_t t = t0; t < t1; t++) m->y[t * m->ldy + r] = ij__ref_fold16(sums[t - t0]);
}

static void matmul_coded(const ij_matmul *m, int64_t r0, int64_t r1, ij_dtype type) {
  for (int64_t r = r0; r < r1; r++) {
    for (int64_t t = 0; t < m->n; t += ROW_TOKENS) coded_row(m, r, t, IJ_MIN(t + ROW_TOKENS, m->n), decoders[type]);
  }
}

#define MATMUL_CODED(id)                                                                          \
  static void matmul_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {           \
    (void)scratch;                                                                                \
    matmul_coded(m, r0, r1, IJ_DTYPE_##id);                                                       \
  }
IJ_CODED_LIST(MATMUL_CODED)

static uint64_t read_stream(const void *p, size_t n) {
  const uint64_t *words = p;
  uint64_t sum = 0;
  for (size_t i = 0; i < n / sizeof *words; i++) sum += words[i];
  return sum;
}

static float fma_peak(int64_t n_iter, double *n_fma) {
  float acc[8] = {0};
  for (int64_t i = 0; i < n_iter; i++) {
    for (int j = 0; j < 8; j++) acc[j] = fmaf(acc[j], 0.5f, 1.0f);
  }
  *n_fma = 8.0 * (double)n_iter;
  return acc[0] + acc[1] + acc[2] + acc[3] + acc[4] + acc[5] + acc[6] + acc[7];
}

void ij__matmul_fill_ref(ij_kernels *k) {
  k->matmul[IJ_DTYPE_F32] = matmul_f32;
  k->matmul[IJ_DTYPE_BF16] = matmul_bf16;
  k->matmul[IJ_DTYPE_F16] = matmul_f16;
#define SET_CODED(id) k->matmul[IJ_DTYPE_##id] = matmul_##id;
  IJ_CODED_LIST(SET_CODED)
  memcpy(decoders, k->decode, sizeof decoders); /* set before, by the decoders' fill function */
  k->read_stream = read_stream;
  k->fma_peak = fma_peak;
}
