/* ints_rows.h: how products in integers walk over the rows of weights; shared by both x86 levels.
 *
 * These products hold one row in each lane, so they need many rows at once, where memory is quickest in a few long streams, each read in
 * order and a little at a time. So rows are taken in pieces, a few from each quarter of a call's rows, and the next piece is fetched into the
 * caches, line by line in turns, while one is multiplied where it lies. (Copying them to a buffer instead, which was once quicker on some
 * processors, costs a quarter more time there with this way of fetching.)
 *
 * The including file defines LANES, rows of a register, and v_prefetch; K_BITS, 2 or 4, of the codes of Q2_K or Q4_K, or SIDED where rows have
 * scales and biases beside their codes; and TILED where it multiplies few tokens only, by the unit for matrices.
 */
#ifndef IJ_KERNELS_X86_INTS_ROWS_H
#define IJ_KERNELS_X86_INTS_ROWS_H

#include "kernels/ints.h"
#include "kernels/x86/coded_consts.h"

#ifndef SIDED
#define SIDED 0
#endif
#ifndef TILED
#define TILED 0
#endif
#if SIDED
#define TYPE IJ_DTYPE_AFFINE4
#define SCALAR_PRODUCT ij__matmul_affine4_ref
#else
#include "kernels/ints_k.h"
#endif

/* For what is a function of its own because compilers keep less in registers in one that holds it all. */
#define NOINLINE static __attribute__((noinline))

enum {
  TILE = 2, WIDE = 2,     /* tokens and registers of rows that are multiplied at a time where there are many tokens */
  GROUPS = 32 / LANES,    /* registers of rows that a piece has for them; for few tokens it has one */
  LINE = 64,              /* bytes that are fetched at a time */
  TOKENS_MAX = 1024       /* more are multiplied in portions */
};

/* The rows of a call in streams of `quarter` rows. The last of them may begin before the others end: then some rows are multiplied twice. */
typedef struct ints_rows {
  const uint8_t *w, *side[2];              /* side: scales and biases */
  int64_t stride, quarter, first[STREAMS]; /* bytes between rows; rows of a stream, in whole pieces; first row of each */
  int64_t n_row, row_bytes;
  int64_t side_stride, side_row;           /* bytes between rows of a side; of a row there */
  int rows, per;                           /* of a piece; of each stream in a piece */
} ints_rows;

/* A piece, and what it is multiplied by: all blocks of its rows or, from a buffer, those from b0 on. A block is 256 values, or what is left at the
 * end of a row. */
typedef struct ints_piece {
  const ij_matmul *m;
  ints_lanes codes, side[2];       /* of its first register of rows */
  int64_t block_bytes, side_bytes; /* of a block */
  int rows;
  const ij_ints *const *x; /* [token]: first block of the row */
  const int8_t *digits;    /* the same as few_any wants them, or NULL */
  int64_t n_token, b0, n_block;
  float *sums;             /* [token][register of rows][lane] */
} ints_piece;

/* A piece on its way into the caches. */
typedef struct ints_feed {
  const ints_rows *rows;
  const uint8_t *at[STREAMS]; /* its row in each stream, */
  int64_t row, offset, bytes; /* the number of that row in its stream, how much of it has been fetched, and how long it is */
  int64_t left, total, due;   /* lines of each stream; in units of which feed_some's den are one */
  int sides;                  /* streams whose scales and biases of this row have been fetched */
} ints_feed;

static void feed_row(ints_feed *f) {
  const ints_rows *c = f->rows;
  UNROLL for (int s = 0; s < STREAMS; s++) f->at[s] = c->w + (c->first[s] + f->row) * c->stride;
  f->sides = 0;
}

/* The piece that begins with row `first` of each stream. */
static void feed_start(ints_feed *f, const ints_rows *c, int64_t first) {
  *f = (ints_feed){.rows = c, .row = first, .bytes = c->row_bytes};
  f->left = f->total = ij__div_up(c->row_bytes, LINE) * c->per;
  feed_row(f);
}

/* Scales and biases of the row in one more stream: not in all at once, because what is multiplied meanwhile has to wait for a burst. */
CODED void feed_sides(ints_feed *f) {
  const ints_rows *c = f->rows;
  const int64_t at = (c->first[f->sides++] + f->row) * c->side_stride;
  UNROLL for (int i = 0; i < 2; i++) {
    v_prefetch(c->side[i] + at);
    for (int64_t line = LINE; line < c->side_row; line += LINE) v_prefetch(c->side[i] + at + line);
  }
}

/* The next line of each stream. */
CODED void feed_step(ints_feed *f) {
  UNROLL for (int s = 0; s < STREAMS; s++) v_prefetch(f->at[s] + f->offset);
  if (SIDED && f->sides < STREAMS) feed_sides(f);
  f->left--;
  f->offset += LINE;
  if (f->offset < f->bytes) return;
  while (SIDED && f->sides < STREAMS) feed_sides(f);
  if (f->left == 0) return;
  f->offset = 0;
  f->row++;
  feed_row(f);
}

/* What is due after one more of `den` steps of what is computed meanwhile. */
CODED void feed_some(ints_feed *f, int64_t den) {
  for (f->due += f->total; f->due >= den && f->left > 0; f->due -= den) feed_step(f);
}

static void feed_rest(ints_feed *f) {
  while (f->left > 0) feed_step(f);
}

/* n_row rows of the type from w on, in pieces of `rows`. */
static ints_rows ints_rows_of(const ij_matmul *m, const void *w, const void *scales, const void *biases, int64_t n_row, int rows) {
  ints_rows c = {.w = w, .stride = m->w_stride, .n_row = n_row, .row_bytes = ij__dtype_row_bytes(TYPE, m->k), .rows = rows};
  c.per = rows / STREAMS;
  if (SIDED) {
    c.side[0] = scales;
    c.side[1] = biases;
    c.side_stride = m->side_stride;
    c.side_row = m->k / m->group * ij__dtype_block_bytes(m->side_dtype);
  }
  c.quarter = ij__div_up(n_row, rows) * c.per;
  for (int s = 0; s < STREAMS; s++) c.first[s] = IJ_MIN(s * c.quarter, n_row - c.quarter);
  return c;
}

/* Whether rows can be multiplied where they lie: there are as many as a stream should have, and what loads take at once ends where a row does. */
CODED bool in_place(const ints_rows *c, const ij_matmul *m) { return c->n_row >= c->quarter && m->k % 64 == 0; }

/* The piece that begins with row `first` of each stream. */
static void place_piece(ints_piece *p, const ints_rows *c, int64_t first) {
  p->codes.pitch = c->stride;
  p->side[0].pitch = p->side[1].pitch = c->side_stride;
  for (int s = 0; s < STREAMS; s++) {
    const int64_t row = c->first[s] + first;
    p->codes.at[s] = c->w + row * c->stride;
    for (int i = 0; SIDED && i < 2; i++) p->side[i].at[s] = c->side[i] + row * c->side_stride;
  }
}

/* sums of one token for the rows of the piece that begins with row `first` of each stream. */
static void store_piece(const ints_rows *c, float *y, const float *sums, int64_t first) {
  for (int i = 0; i < c->per; i += EACH) {
    for (int s = 0; s < STREAMS; s++, sums += EACH) memcpy(y + c->first[s] + first + i, sums, EACH * sizeof *y);
  }
}

#endif
