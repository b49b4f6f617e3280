/* gemm.h: how matrix products are cut for the pool; shared by gemm.c and mlp.c. */
#ifndef IJ_MODEL_GEMM_H
#define IJ_MODEL_GEMM_H

#include "model/net.h"

#define IJ_MAX_GEMM 8
#define IJ_CHUNK_ROWS_MAX 256  /* rows of weights per chunk at most */
#define IJ_CHUNK_ROWS_MANY 128 /* the same when many input rows share them */
#define IJ_CHUNK_WIDTH_MANY 512   /* the same of gate and up, where a chunk should be an expert: then its input is laid out once */
#define IJ_CHUNK_COLUMNS_MANY 256 /* the same of down, of all experts together */

/* How rows of weights are cut for a loop of the pool: an index stands for `rows` of them, and a chunk has at most `most` indices. */
typedef struct ij_cut {
  int64_t rows, most;
} ij_cut;

/* For products with n input rows of w_rows rows in all, each of row_bytes; `many`: rows per chunk at most for large n. */
ij_cut ij__gemm_cut(const ij_net *net, int64_t w_rows, int64_t row_bytes, int64_t n, int64_t many);

/* What one worker multiplies: y[t * ldy + r] = factor * (row r of w . row t of x). */
typedef struct ij_product {
  const float *x;
  float *y;
  const int *rows; /* see ij_matmul */
  int64_t ldx, ldy, n;
  const char *next; /* first of the rows that this worker multiplies next, of the same type, strides and groups, to be fetched meanwhile; or NULL */
  const char *next_scales, *next_biases; /* of split types */
  int64_t n_next, next_tokens; /* so many rows, by so many tokens */
  uint64_t loop; /* not 0: while this number is given, what lies at x and rows stays as it is */
  const ij_ints *ints; /* for types that are multiplied in integers: NULL, or the same rows as such, so many blocks apart */
  const int *int_rows; /* NULL, or which of those at ints they are */
  int64_t ld_ints;
} ij_product;

/* n rows of k values as integers, at the place of row `at` of the net's own, where they stay until the next call for that place. NULL: the net
 * has no place for any, and products make their own. */
const ij_ints *ij__ints_of(ij_net *net, const float *x, int64_t ldx, int64_t n, int64_t k, int64_t at);

/* Blocks of integers that a row of k values is. */
static inline int64_t ij__int_blocks(int64_t k) { return ij__div_up(k, IJ_INTS); }

/* Where the worker that has indices [i0, i1) of a loop most likely goes on. */
static inline int64_t ij__likely_next(const ij_net *net, int64_t i0, int64_t i1) { return i1 + (ij__pool_threads(net->pool) - 1) * (i1 - i0); }

/* After its rows of w, the worker will multiply at most n rows of `next` from `row` on, if there are any, by n_token tokens. */
void ij__product_announce(ij_product *p, const ij_weight *w, const ij_weight *next, int64_t row, int64_t n, int64_t n_token);

void ij__product_rows(const ij_net *net, const ij_weight *w, const ij_product *p, int64_t r0, int64_t r1, int worker);

/* One row of a matrix as float32, `factor` applied. */
void ij__weight_row(const ij_net *net, float *y, const ij_weight *w, int64_t row);

#endif
