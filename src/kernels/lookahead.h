/* lookahead.h: what products that read rows where they lie fetch ahead of them, and how those of one token walk over rows.
 *
 * The including file defines DIRECT_AHEAD (bytes of each of MR rows under way from memory), V, vec, v_prefetch and the v_ operations.
 */
#ifndef IJ_KERNELS_LOOKAHEAD_H
#define IJ_KERNELS_LOOKAHEAD_H

#include "kernels/kernels_int.h"
#include "kernels/matmul_fold.h"

/* Which weights to fetch while others are used: those a fixed distance on in the same MR rows, and in the next MR past their end.
 * The distance is `groups` whole groups of rows and `bytes` of one more row; what to add to an address before and after the turn. */
typedef struct lookahead {
  int64_t groups, bytes, before, after;
} lookahead;

/* The distance: DIRECT_AHEAD bytes of each row, which times MR is what memory has under way; whole groups where rows are shorter. */
static lookahead lookahead_of(const ij_matmul *m, int64_t row_bytes) {
  lookahead f = {0};
  if (row_bytes > DIRECT_AHEAD) {
    f.bytes = DIRECT_AHEAD;
  } else if (row_bytes > 0) {
    f.groups = ij__div_up(DIRECT_AHEAD, row_bytes);
  }
  f.before = f.groups * MR * m->w_stride + f.bytes;
  f.after = (f.groups + 1) * MR * m->w_stride + f.bytes - row_bytes;
  return f;
}

/* Limits the distance near the end of the rows: nothing is fetched that other threads work on. */
static lookahead lookahead_at(const lookahead *f, int64_t n_group_left) {
  lookahead g = *f;
  if (n_group_left <= f->groups) g.before = 0;
  if (n_group_left <= f->groups + 1) g.after = 0;
  return g;
}

/* What the distance leaves out at the start of n_row rows. */
static void lookahead_start(const lookahead *f, const char *w, int64_t stride, int64_t n_row, int64_t row_bytes) {
  for (int64_t b = 0; b < (f->groups > 0 ? row_bytes : f->bytes); b += 64) {
    for (int64_t r = 0; r < IJ_MIN(n_row, IJ_MAX(1, f->groups) * MR); r++) v_prefetch(w + r * stride + b);
  }
}

/* Fetches, for bytes [b0, b1) of a row, those that f says come later. */
INLINE void coded_prefetch(const char *row, int64_t b0, int64_t b1, int64_t row_bytes, const lookahead *f) {
  for (int64_t b = (b0 + 63) & ~(int64_t)63; b < b1; b += 64) {
    v_prefetch(row + b + (b < row_bytes - f->bytes ? f->before : f->after));
  }
}

/* MR rows from r on, of which those after r_last repeat it, times one token. */
typedef void one_token_group(const ij_matmul *m, int64_t r, int64_t r_last, const lookahead *ahead, float *sums, const ij_dtype type);

/* Rows [r0, r1) times one token. */
INLINE void one_token_rows(const ij_matmul *m, int64_t r0, int64_t r1, int64_t row_bytes, one_token_group *group, const ij_dtype type) {
  float sums[BATCH] = {0}; /* rows that a short batch lacks are folded too, and dropped */
  const lookahead la = lookahead_of(m, row_bytes);
  lookahead_start(&la, (const char *)m->w + r0 * m->w_stride, m->w_stride, r1 - r0, row_bytes);
  for (int64_t r = r0; r < r1; r += V) {
    const int64_t n_row = IJ_MIN(V, r1 - r);
    if (r + V >= r1 && m->w_next) lookahead_start(&la, m->w_next, m->w_stride, m->n_next, row_bytes);
    for (int64_t g = 0; g < n_row; g += MR) {
      lookahead ahead = lookahead_at(&la, (r1 - r - g) / MR);
      group(m, r + g, r1 - 1, &ahead, sums + g * 4, type);
    }
    store_batch(m->y + r, m->ldy, sums, 1, n_row);
  }
}

#endif
