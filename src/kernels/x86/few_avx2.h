/* few_avx2.h: two to eight tokens times block and split types, as sessions that are stepped together need it.
 *
 * A value is decoded once, in a register, for all tokens. One row at a time, because decoding hides the latency of its sums; where
 * the sums of both halves of a step are too many for the registers, the halves are made one after the other, each decoding its own values
 * only. x is laid out anew, once for all calls of a loop, the tokens of a step side by side; k is cut in blocks of which x stays in the
 * first-level cache while a batch of rows passes, with the partial sums parked between blocks (k still ascends in every lane). What a row
 * needs that is worked out before its values is worked out a row ahead, as in matmul_fused_avx2.c.
 *
 * One function for each type and number of tokens, in several files, because compilers are slow on long code with full registers.
 */
#ifndef IJ_KERNELS_X86_FEW_AVX2_H
#define IJ_KERNELS_X86_FEW_AVX2_H

#include "kernels/x86/vec_avx2.h"
#include "kernels/matmul_fold.h"
#include "kernels/x86/few_ahead.h"
#include "kernels/x86/fused_avx2.h"

enum {
  FEW_NT = IJ_SINK_TOKENS,
  FEW_BOTH = 4,    /* tokens at most of which the sums of both halves are made together */
  FEW_ROWS = 16,   /* of a batch, a multiple of V */
  FEW_SPANS = 2,   /* of a block of k: x of eight tokens takes 16 KB */
  FEW_LEN = FEW_SPANS * SPAN
};

_Static_assert(FEW_ROWS % V == 0, "batches are folded by V rows");

/* Products of any number of tokens, which do what is left to them here. */
static void (*general[IJ_DTYPE_COUNT])(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);

/* What stays the same for all rows, and the batch of them that is under way. */
typedef struct few_ctx {
  const ij_matmul *m;
  const float *x; /* [step of 16 values][token][16] */
  int64_t nt;
  int64_t c0, n;                 /* the block of k */
  span_row rows[FEW_ROWS];
  few_ahead fetched;
  ij_ahead ahead[2][FEW_SPANS];  /* of the rows with even and odd numbers */
  float parked[FEW_ROWS * FEW_NT * 16]; /* partial sums: [row][token][16] */
} few_ctx;

/* What row i of the batch needs for the block of k. */
INLINE void few_row_ahead(few_ctx *f, int64_t i, const ij_dtype type) {
  for (int64_t s = 0; s < f->n / SPAN; s++) span_ahead(&f->ahead[i % 2][s], &f->rows[i], f->c0 + s * SPAN, f->m, type);
}

/* The low half, the high one, or both, of row i for the block of k. */
INLINE void few_halves(few_ctx *f, int64_t i, const bool low, const bool high, const ij_dtype type, const int nt) {
  const int turns = span_turns(type);
  float *parked = f->parked + i * nt * 16;
  ij_sink k = {.x = f->x + f->c0 * nt, .n = nt, .fused = true, .without = {!low, !high}};
  UNROLL for (int t = 0; t < nt; t++) {
    UNROLL for (int h = 0; h < 2; h++) k.sum[h][t] = f->c0 == 0 || k.without[h] ? v_zero() : v_load(parked + t * 16 + 8 * h);
  }
  for (int64_t s = 0; s < f->n / SPAN; s++) {
    UNROLL for (int64_t j = 0; j < turns; j++, k.x += SPAN / turns * nt) {
      span_part(&k, &f->ahead[i % 2][s], &f->rows[i], f->c0 + s * SPAN, j, type);
    }
  }
  UNROLL for (int t = 0; t < nt; t++) {
    if (low) v_store(parked + t * 16, k.sum[0][t]);
    if (high) v_store(parked + t * 16 + 8, k.sum[1][t]);
  }
}

/* The block of k for n_row rows of the batch. */
INLINE void few_block(few_ctx *f, int64_t n_row, const ij_dtype type, const int nt) {
  few_row_ahead(f, 0, type);
  for (int64_t i = 0; i < n_row; i++) {
    few_ahead_turn(&f->fetched);
    for (int64_t s = 0; s < f->n / SPAN; s++) few_ahead_fetch(&f->fetched.at, (uint64_t)span_bytes(type));
    if (i + 1 < n_row) few_row_ahead(f, i + 1, type);
    if (nt <= FEW_BOTH) {
      few_halves(f, i, true, true, type, nt);
    } else {
      few_halves(f, i, true, false, type, nt);
      few_halves(f, i, false, true, type, nt);
    }
  }
}

/* y of n_row rows from the parked sums. */
INLINE void few_store(const few_ctx *f, float *y, int64_t n_row, const ij_order order) {
  float sums[FEW_NT * BATCH];
  const float *parked = f->parked;
  for (; n_row > 0; n_row -= V, y += V, parked += V * f->nt * 16) {
    for (int64_t t = 0; t < f->nt; t++) fold_batch(sums + t * BATCH, parked + t * 16, f->nt * 16, order);
    store_batch(y, f->m->ldy, sums, f->nt, IJ_MIN((int64_t)V, n_row));
  }
}

/* What is made for a type: the end of a batch, and its product for each number of tokens. */
typedef struct few_type {
  void (*store)(const few_ctx *f, float *y, int64_t n_row);
  void (*block[FEW_NT + 1])(few_ctx *f, int64_t n_row);
} few_type;

/* Rows of other lengths than whole spans are left to the general way; no published file has any. */
static void matmul_few(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, ij_dtype type, const few_type *of) {
  if (m->n < 2 || m->n > FEW_NT || m->k % SPAN != 0 || m->k * m->n > IJ_SCRATCH_ALIGNED || ij__wide_side(m, type)) {
    general[type](m, r0, r1, scratch);
    return;
  }
  few_ctx f;
  f.m = m;
  f.x = x_in_steps(m, scratch, span_order(type));
  f.nt = m->n;
  if ((r1 - r0) % FEW_ROWS != 0) memset(f.parked, 0, sizeof f.parked); /* rows that a short batch lacks are folded too, and dropped */
  for (int64_t r = r0; r < r1; r += FEW_ROWS) {
    const int64_t n_row = IJ_MIN((int64_t)FEW_ROWS, r1 - r);
    for (int64_t i = 0; i < n_row; i++) {
      ij_stretch s = ij__stretch_of(m, r + i);
      f.rows[i] = (span_row){.codes = s.row, .scales = s.scales, .biases = s.biases};
    }
    few_ahead_start(&f.fetched, m, r, r1, FEW_ROWS, ij__div_up(m->k, (int64_t)FEW_LEN) * FEW_ROWS);
    for (f.c0 = 0; f.c0 < m->k; f.c0 += FEW_LEN) {
      f.n = IJ_MIN((int64_t)FEW_LEN, m->k - f.c0);
      of->block[f.nt](&f, n_row);
    }
    of->store(&f, m->y + r, n_row);
  }
}

/* One function for a type and a number of tokens. */
#define FEW_BLOCK(id, n) \
  static __attribute__((noinline)) void few_##id##_##n(few_ctx *f, int64_t n_row) { few_block(f, n_row, IJ_DTYPE_##id, n); }
#define FEW_TYPE(id)                                                                                                              \
  FEW_BLOCK(id, 2) FEW_BLOCK(id, 3) FEW_BLOCK(id, 4) FEW_BLOCK(id, 5) FEW_BLOCK(id, 6) FEW_BLOCK(id, 7) FEW_BLOCK(id, 8)            \
  static void few_store_##id(const few_ctx *f, float *y, int64_t n_row) { few_store(f, y, n_row, span_order(IJ_DTYPE_##id)); }     \
  static void matmul_few_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                                      \
    static const few_type of = {few_store_##id, {NULL, NULL, few_##id##_2, few_##id##_3, few_##id##_4, few_##id##_5, few_##id##_6,   \
                                                 few_##id##_7, few_##id##_8}};                                                   \
    matmul_few(m, r0, r1, scratch, IJ_DTYPE_##id, &of);                                                                          \
  }

/* A fill function for the types of a list. */
#define FEW_SET(id) k->matmul[IJ_DTYPE_##id] = matmul_few_##id;
#define FEW_FILL(name, LIST)                    \
  LIST(FEW_TYPE)                                \
  void name(ij_kernels *k) {                    \
    memcpy(general, k->matmul, sizeof general); \
    LIST(FEW_SET)                               \
  }

#endif
