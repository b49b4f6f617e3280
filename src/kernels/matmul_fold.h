/* matmul_fold.h: how the products end: the fold of sixteen lanes, for a batch of rows at a time.
 *
 * The including file defines V (floats per register: 16, 8 or 4), the type vec, and the v_ operations; everything here is static.
 * The first half of the fold (16 lanes to 4) works on registers and leaves four floats per output, so that the second half works on a
 * batch of V rows at a time:
 *   sums: [token][row of the batch][4]
 */
#ifndef IJ_KERNELS_MATMUL_FOLD_H
#define IJ_KERNELS_MATMUL_FOLD_H

#include <string.h>

#include "core/base.h"

#define INLINE static inline __attribute__((always_inline))

/* Arrays of sums are registers only if every loop over them is unrolled, whatever the optimization level. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

enum {
  MR = 4,                /* rows of a group */
  PASSES = 16 / V,
  BATCH_GROUPS = V / MR, /* groups of a batch of V rows */
  BATCH = 4 * V          /* floats in sums per token */
};

/* y[t * ldy + row] for the first n_row rows of a batch. */
static inline void store_batch(float *y, int64_t ldy, const float *sums, int64_t nt, int64_t n_row) {
  for (int64_t t = 0; t < nt; t++, sums += BATCH) {
    vec a = v_load(sums), b = v_load(sums + V), c = v_load(sums + 2 * V), d = v_load(sums + 3 * V);
    a = v_add(v_low_pairs(a, b), v_high_pairs(a, b));
    c = v_add(v_low_pairs(c, d), v_high_pairs(c, d));
    vec sum = v_row_order(v_add(v_evens(a, c), v_odds(a, c)));
    if (n_row >= V) {
      v_store(y + t * ldy, sum);
    } else {
      float tail[V];
      v_store(tail, sum);
      memcpy(y + t * ldy, tail, (size_t)n_row * sizeof *tail);
    }
  }
}

/* 16 lanes to 4 for rows first .. of a group, given all 16 / V registers of each; n_row is 2 or 4 (4 where V is 16). */
INLINE void store_sums(float *sums, const int first, const int n_row, vec (*c)[PASSES]) {
#if V == 16
  (void)first, (void)n_row;
  v_store(sums, v_fours(c[0][0], c[1][0], c[2][0], c[3][0]));
#elif V == 8
  UNROLL for (int r = 0; r < n_row; r += 2)
    v_store(sums + (first + r) * 4, v_fours(v_add(c[r][0], c[r][1]), v_add(c[r + 1][0], c[r + 1][1])));
#else
  UNROLL for (int r = 0; r < n_row; r++)
    v_store(sums + (first + r) * 4, v_add(v_add(c[r][0], c[r][2]), v_add(c[r][1], c[r][3])));
#endif
}

/* Tokens of the next tile of at most max: tiles of nearly the same size, because a small one wastes the loads of its weights. */
INLINE int64_t tile_tokens(int64_t n_left, int64_t max) { return ij__div_up(n_left, ij__div_up(n_left, max)); }

#endif
