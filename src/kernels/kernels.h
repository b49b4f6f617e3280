/* kernels.h: the function table, and the contract of each entry.
 *
 * Kernels work on buffers: no files, no model names, no allocation, no checks, no failure. Callers validate and split the work; a
 * kernel may be called from many threads on disjoint outputs.
 *
 * ONE ORDER. Every entry gives the same bits at every level; kernels/ref is the definition. The two reductions are:
 *   dot16   16 partial sums, lane j takes elements j, j + 16, ... in order, each by fma starting from +0; a tail shorter than 16
 *           counts as padded with zero times zero (so every lane does the same number of steps);
 *   fold16  s[j] = s[j] + s[j + 8], then + 4, + 2, + 1.
 *   sum16   as dot16 with plain additions (tail padded with +0), then fold16.
 * Products and sums are rounded separately unless "fma" is written. No entry depends on a vector width.
 * Inputs need no alignment beyond that of their type. Unless said otherwise outputs do not overlap inputs; y may equal x in
 * element-wise entries.
 */
#ifndef IJ_KERNELS_H
#define IJ_KERNELS_H

#include "core/base.h"
#include "core/cpu.h"
#include "core/dtype.h"

#define IJ_ATTN_BLOCK 64 /* keys per attention block; blocks start at multiples of this position */

#define IJ_X_ROOM (128 * 1024) /* floats: 64 rows of 2048, which is a step of several sessions or an expert of a prompt */
#define IJ_X_KEPT 80           /* the experts of a step of several sessions, and a few more */

#define IJ_LISTED_MIN 25       /* from so many rows of x on they may be listed: fewer are used straight from registers by some products */

/* A worker's copies of x in the orders that products of some levels want, kept while calls belong to one loop: as many as there is room
 * for, then none again. `loop` is 0 at first; all is the kernels' own. */
typedef struct ij_x_room {
  uint64_t loop;
  int n_kept;
  int64_t used;
  struct {
    const float *x;
    const int *rows;
    int64_t ldx, n, k;
    int what;
    int64_t at;
  } kept[IJ_X_KEPT];
  _Alignas(64) float x[IJ_X_ROOM];
} ij_x_room;

/* 256 values of x as integers of 24 bits, for the types that are multiplied so (ij__dtype_in_integers): value i is about scale * X[i] with
 *   X[i] = digit[2][i] * 2^16 + digit[1][i] * 2^8 + digit[0][i], digits 0 and 1 in [-128, 127], digit 2 in [-127, 127].
 * scale is the least power of two, but at least IJ_INTS_LEAST, with |x[i]| < 127 * 2^16 * scale for all i; X the nearest integers, ties to
 * even. sum[g] is the sum of X over values 32 * g to 32 * g + 31, rounded to float32, times scale; half[h] the same over 16 * h to 16 * h + 15. Where
 * a value is not finite, scale and sums are NaN and all digits zero. What a shorter last block lacks counts as zeros. */
#define IJ_INTS 256
#define IJ_INTS_LEAST 0x1p-122f /* it and its inverse are normal numbers */
typedef struct ij_ints {
  _Alignas(64) int8_t digit[3][IJ_INTS];
  float sum[IJ_INTS / 32], half[IJ_INTS / 16];
  float scale;
} ij_ints;

/* y[t * ldy + r] = dot16(row r of w, row t of x), r in [r0, r1), t in [0, n). Row r of w begins w_stride * r bytes after w and
 * holds k values of the entry's type. Block and split types are decoded to exactly the float32 value that their format defines
 * (`decode` below) and then multiplied like any other: a quantized matrix gives the same bits as its decoded float32 copy.
 *
 * But for types of ij__dtype_in_integers: their products take x as ij_ints. Sums over a part of a row are exact,
 *   A[j] = sum of v[i] * digit[j][i], v being integers; rounded to float32 where it is longer: T = fma(2^16, A[2], fma(2^8, A[1], A[0]))
 * and y goes from +0 over these parts in order.
 *   Q4_K: a part is a block of 256 values, of which value i is d * v[i] - dmin * o[i / 32], o being integers too.
 *     y = fma(d * scale, T, y), then for g = 0 .. 7: y = fma(-(dmin * o[g]), sum[g], y).
 *   Q2_K: the same with o[i / 16]; after T, N goes from +0: N = fma(o[h], half[h], N) for h = 0 .. 15, then y = fma(-dmin, N, y).
 *   AFFINE4: a part is a group; v are its codes, s and b its scale and bias as float32. N is the sum, in order, of sum[] of the group's values.
 *     y = fma(s * scale, T, y), then y = fma(b, N, y).
 *
 * ldx, ldy in floats; n and k are at least 1. Split types read the side arrays as ij_weight describes them; ij_weight.factor is the
 * caller's affair. */
typedef struct ij_matmul {
  const void *w;
  int64_t w_stride;
  const float *x;
  const int *rows; /* NULL, or where n >= IJ_LISTED_MIN or ints are given: row t of x is that with number rows[t] */
  int64_t ldx;
  float *y;
  int64_t ldy;
  int64_t n, k;
  const ij_ints *ints; /* NULL, or row t of x as integers: ld_ints blocks after the row before, or by `rows`. Without, the kernel makes them itself */
  int64_t ld_ints;
  const void *w_next; /* a hint: the rows this worker multiplies next, of the same k and stride, to be fetched meanwhile; or NULL */
  int64_t n_next, next_tokens; /* so many rows, by so many tokens */
  ij_x_room *x_room; /* this worker's, or NULL */
  uint64_t loop;     /* with x_room: while calls give the same number, not 0, what lies at their x and rows stays as it is */
  const void *scales, *biases; /* split types; row r begins side_stride * r bytes after these */
  const void *scales_next, *biases_next; /* of w_next, in the same stride, type and groups; may be NULL where types are not in integers */
  int64_t side_stride;
  ij_dtype side_dtype;
  int group;
} ij_matmul;

/* A stretch of one stored row: n values from value c0 of the row on, both multiples of the type's block length (split types: of the
 * group; affine types also of 32). Pointers are to the start of the row. */
typedef struct ij_stretch {
  const void *row, *scales, *biases;
  ij_dtype side_dtype;
  int group;
  int64_t c0, n;
} ij_stretch;

/* Floats of scratch that each worker hands to matmul (contents mean nothing before and after). */
#define IJ_MATMUL_SCRATCH (288 * 1024)

typedef struct ij_kernels {
  ij_level level;

  /* Indexed by ij_dtype; set for every type a weight can have. n = 1 runs at the speed of memory, large n at that of arithmetic.
   * Rows of float types are aligned to their type; those of other types need no alignment. */
  void (*matmul[IJ_DTYPE_COUNT])(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);
  /* k values of x as ceil(k / 256) blocks of integers. */
  void (*to_ints)(ij_ints *out, const float *x, int64_t k);
  /* Stored block or split type -> float32, the values that quant/fmt_*.h defines, same bits at every level. Set for exactly those types. */
  void (*decode[IJ_DTYPE_COUNT])(float *y, const ij_stretch *s);
  /* Stored type -> float32, exact; a NaN of F16 comes out quiet. F32, BF16, F16. */
  void (*widen[IJ_DTYPE_COUNT])(float *y, const void *x, int64_t n);
  /* float32 -> stored type, round to nearest even (overflow to infinity; NaN stays NaN, quiet). F32, BF16, F16. */
  void (*narrow[IJ_DTYPE_COUNT])(void *y, const float *x, int64_t n);

  /* y = (x * (1 / sqrt(dot16(x, x) / n + eps))) * w */
  void (*rms_norm)(float *y, const float *x, const float *w, float eps, int64_t n);
  /* y = (g * sigmoid(g)) * u, sigmoid as below */
  void (*swiglu)(float *y, const float *g, const float *u, int64_t n);
  /* The same with gate and up in turns: g[i] = gu[2 * i], u[i] = gu[2 * i + 1] */
  void (*swiglu_pairs)(float *y, const float *gu, int64_t n);
  /* One output row of the short convolution with its inner residual:
   * acc = u[K - 1][c]; for j = 0 .. K - 1: acc = fma(w[j * ldw + c], u[j][c], acc); y[c] = acc. u: K rows, the last is the current input. */
  void (*short_conv)(float *y, const float *const *u, const float *w, int64_t ldw, int n_tap, int64_t n);
  void (*add)(float *y, const float *x, int64_t n);            /* y += x */
  void (*axpy)(float *y, float a, const float *x, int64_t n);  /* y = fma(a, x, y) */
  void (*scale)(float *y, const float *x, float a, int64_t n); /* y = x * a */
  float (*dot)(const float *a, const float *b, int64_t n);     /* dot16, fold16 */
  float (*sum)(const float *x, int64_t n);                     /* sum16 */
  float (*sum_exp)(const float *x, float max, int64_t n);      /* sum16 of exp(x - max), exp as below */
  float (*max)(const float *x, int64_t n);                     /* n >= 1, no NaN; a zero is returned as +0 */
  bool (*all_finite)(const float *x, int64_t n);

  /* out[i] = acc, acc = +0, for j in 0..d_rel-1: acc = fma(r[j], bank[j * ld + i], acc); i in [0, IJ_ATTN_BLOCK) */
  void (*rel_bias)(float *out, const float *r, const float *bank, int64_t ld, int d_rel);
  /* s holds IJ_ATTN_BLOCK raw dots; keys [k0, k1) are visible, 0 <= k0 < k1 <= IJ_ATTN_BLOCK. Score: t = s * inv_d; if bias, t = t +
   * bias; t = t * tau. *max = largest visible score, a zero as +0; s[i] = exp(t - *max) where visible, else +0; *sum = sum16(s).
   * Scores and bias outside [k0, k1) may hold anything. A NaN inside makes *sum NaN; *max and s are then unspecified. */
  void (*attn_probs)(float *s, const float *bias, float inv_d, float tau, int k0, int k1, float *max, float *sum);
  /* o[q * ldo + c] = acc, acc = +0, for i = k0 .. k1-1: acc = fma(p[q * ldp + i], v[i * ldv + c], acc); q in [0, n_q), c in [0, d) */
  void (*attn_pv)(float *o, int64_t ldo, const float *p, int64_t ldp, const float *v, int64_t ldv, int n_q, int k0, int k1, int d);
  /* o = fma(o, a, b * x): the rescaling merge of two partial attention results */
  void (*merge)(float *o, float a, const float *x, float b, int64_t n);

  /* Elementary functions, element by element; see ref/math_ref.h for the polynomials and their measured error. */
  void (*vexp)(float *y, const float *x, int64_t n);
  void (*vlog)(float *y, const float *x, int64_t n);
  void (*vtanh)(float *y, const float *x, int64_t n);
  void (*verf)(float *y, const float *x, int64_t n);
  void (*vsigmoid)(float *y, const float *x, int64_t n); /* 1 / (1 + exp(-x)) */
  void (*gelu)(float *y, const float *x, int64_t n);     /* (0.5 * x) * (1 + erf(x * sqrt(1/2))) */

  /* For the measurement of this machine: reads n bytes (multiple of 4096) and returns a checksum nobody needs; runs n_iter
   * rounds of independent fma and returns the number of multiply-adds done through *flops / 2. */
  uint64_t (*read_stream)(const void *p, size_t n);
  float (*fma_peak)(int64_t n_iter, double *n_fma);
} ij_kernels;

/* The table of the highest level that the processor has and that is <= max_level in its architecture's order (IJ_LEVEL_COUNT: no
 * limit). Always a complete table: entries a level lacks come from the level below. Static storage, immutable, any thread. */
const ij_kernels *ij__kernels_get(ij_level max_level);

#endif
