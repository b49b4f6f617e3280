/* few_ahead.h: what products of two to eight tokens fetch while a batch of rows is under way, at both levels: the next batch, or after the
 * last one the caller's next rows, or where it names none the last again. Included after matmul_fold.h.
 *
 * Rows that lie one after the other are fetched as one stream, because processors' own fetching follows one stream in a page. Where the
 * caller's next rows are multiplied by one token, they are taken in four streams (fused_streams.h), and so the four parts of a batch each
 * fetch the beginning of one. Addresses behind the last row may be named: that fetches nothing, or what is not needed.
 */
#ifndef IJ_KERNELS_X86_FEW_AHEAD_H
#define IJ_KERNELS_X86_FEW_AHEAD_H

#include "kernels/kernels_int.h"

_Static_assert(8 < IJ_LISTED_MIN, "these products take rows of x as they lie");

typedef struct few_ahead {
  const char *at;       /* what is fetched next */
  const char *start;
  int64_t n_stream;     /* one, or those of four that have rows */
  int64_t apart;        /* bytes between the four */
  int64_t turn, turns;  /* calls of few_ahead_turn so far, and of a part of the batch */
} few_ahead;

/* For the batch of n_row rows from r on, of the rows before r1, in which few_ahead_turn will be called n_turn times. */
static inline void few_ahead_start(few_ahead *a, const ij_matmul *m, int64_t r, int64_t r1, int64_t n_row, int64_t n_turn) {
  const bool last = r + n_row >= r1, next = last && m->w_next;
  a->start = next ? m->w_next : (const char *)m->w + (last ? r : r + n_row) * m->w_stride;
  a->at = a->start;
  const int64_t quarter = next && m->next_tokens == 1 ? ij__div_up(m->n_next, MR) : 0;
  a->apart = quarter * m->w_stride;
  a->n_stream = quarter ? ij__div_up(m->n_next, quarter) : 1;
  a->turn = 0;
  a->turns = IJ_MAX((int64_t)1, n_turn / MR);
}

/* Before each of the parts into which the work of a batch is cut. */
static inline void few_ahead_turn(few_ahead *a) {
  const int64_t part = a->turn / a->turns;
  if (part < a->n_stream && a->turn % a->turns == 0) a->at = a->start + part * a->apart;
  a->turn++;
}

/* Fetches the next n bytes, to the second-level cache: the first holds x and the sums. */
INLINE void few_ahead_fetch(const char **at, const uint64_t n) {
  UNROLL for (uint64_t b = 0; b < n; b += 64) v_prefetch2(*at + b);
  *at += n;
}

#endif
