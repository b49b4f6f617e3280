/* ints_rows.h: how products in integers walk over the rows of weights; shared by both x86 levels.
 *
 * These products hold one row in each lane, so they need many rows at once, where memory is quickest in a few long streams, each read in
 * order and a little at a time. So rows are taken in pieces, a few from each quarter of a call's rows, and copied to a buffer in the caches,
 * line by line in turns, while the piece before is multiplied. What is copied next has been fetched by then.
 *
 * The including file defines LANES, rows of a register, copy_line (LINE bytes) and v_prefetch.
 */
#ifndef IJ_KERNELS_X86_INTS_ROWS_H
#define IJ_KERNELS_X86_INTS_ROWS_H

#include "kernels/ints.h"
#include "kernels/x86/coded_consts.h"

/* For what is a function of its own because compilers keep less in registers in one that holds it all. */
#define NOINLINE static __attribute__((noinline))

enum {
  STREAMS = 4,
  TILE = 2, WIDE = 2,     /* tokens and registers of rows that are multiplied at a time where there are many tokens */
  GROUPS = 32 / LANES,    /* registers of rows that a piece has for them; for few tokens it has one */
  PIECE_BLOCKS = 32,      /* blocks of a row that a piece has at most */
  LINE = 64,              /* bytes of a row that are copied at a time */
  FETCH_BYTES = 2304,     /* of a stream, between what is copied and what is fetched: at least so many, in whole rows */
  TOKENS_MAX = 1024       /* more are multiplied in portions */
};

/* The rows of a call in streams of `quarter` rows. The last of them may begin before the others end: then some rows are multiplied twice. */
typedef struct ints_rows {
  const uint8_t *w;
  int64_t stride, quarter, first[STREAMS]; /* bytes between rows; rows of a stream, in whole pieces; first row of each */
  int64_t n_row, n_block, block_bytes;
  int64_t pitch;                           /* bytes between rows in the buffers */
  int rows, per;                           /* of a piece; of each stream in a piece */
} ints_rows;

/* A piece in a buffer, and what it is multiplied by. */
typedef struct ints_piece {
  const uint8_t *buffer;
  int64_t pitch, block_bytes;
  int rows;
  const ij_ints *const *x; /* [token]: first block of the row */
  int64_t n_token, b0, n_block;
  float *sums;             /* [token][rows of the piece] */
} ints_piece;

/* A piece on its way into a buffer. */
typedef struct ints_feed {
  const ints_rows *rows, *next;            /* where it comes from; the rows after all of those, or NULL */
  const uint8_t *at, *ahead[STREAMS];      /* its row in the first stream; the rows to fetch */
  uint8_t *to;
  int64_t row, begin, offset, bytes;       /* number of the row in its stream; bytes of it before the stretch, in the stretch, of the stretch */
  int64_t left, total, due;                /* lines of each stream; in units of which feed_some's den are one */
  int64_t from[STREAMS], place;            /* bytes between the streams, and between them in the buffer */
} ints_feed;

/* At least so many bytes further on, in whole rows. */
static void feed_row(ints_feed *f) {
  const ints_rows *c = f->rows;
  const int64_t later = f->row + ij__div_up(FETCH_BYTES, c->n_block * c->block_bytes);
  f->at = c->w + f->row * c->stride + f->begin;
  for (int s = 0; s < STREAMS; s++) {
    if (later < c->quarter) {
      f->ahead[s] = c->w + (c->first[s] + later) * c->stride + f->begin;
    } else if (f->next && later - c->quarter < f->next->quarter) {
      f->ahead[s] = f->next->w + (f->next->first[s] + later - c->quarter) * f->next->stride + f->begin;
    } else {
      f->ahead[s] = f->at;
    }
  }
}

static void feed_start(ints_feed *f, const ints_rows *c, const ints_rows *next, uint8_t *to, int64_t first, int64_t b0) {
  const int64_t n_block = IJ_MIN(c->n_block - b0, (int64_t)PIECE_BLOCKS);
  *f = (ints_feed){.rows = c, .next = next, .to = to, .row = first, .begin = b0 * c->block_bytes, .bytes = n_block * c->block_bytes};
  f->place = c->per * c->pitch;
  f->left = f->total = ij__div_up(f->bytes, LINE) * c->per;
  for (int s = 0; s < STREAMS; s++) f->from[s] = c->first[s] * c->stride;
  feed_row(f);
}

/* The next line of each stream. The last of a row ends where the row does. */
CODED void feed_step(ints_feed *f) {
  const int64_t offset = IJ_MIN(f->offset, f->bytes - LINE);
  UNROLL for (int s = 0; s < STREAMS; s++) {
    copy_line(f->to + offset + s * f->place, f->at + offset + f->from[s]);
    v_prefetch(f->ahead[s] + offset);
  }
  f->left--;
  f->offset += LINE;
  if (f->offset < f->bytes || f->left == 0) return;
  f->offset = 0;
  f->row++;
  f->to += f->rows->pitch;
  feed_row(f);
}

/* What is due after one more of `den` steps of what is computed meanwhile. */
CODED void feed_some(ints_feed *f, int64_t den) {
  for (f->due += f->total; f->due >= den && f->left > 0; f->due -= den) feed_step(f);
}

static void feed_rest(ints_feed *f) {
  while (f->left > 0) feed_step(f);
}

static ints_rows ints_rows_of(const void *w, int64_t stride, int64_t n_row, int64_t n_block, int rows, int64_t block_bytes) {
  ints_rows c = {.w = w, .stride = stride, .n_row = n_row, .n_block = n_block, .block_bytes = block_bytes, .rows = rows, .per = rows / STREAMS};
  c.quarter = ij__div_up(n_row, rows) * c.per;
  for (int s = 0; s < STREAMS; s++) c.first[s] = IJ_MIN(s * c.quarter, n_row - c.quarter);
  c.pitch = (int64_t)ij__align_up((size_t)(IJ_MIN(n_block, (int64_t)PIECE_BLOCKS) * block_bytes), 64);
  return c;
}

/* Fewer rows than a stream should have. */
CODED bool too_few_rows(const ints_rows *c) { return c->n_row < c->quarter; }

/* sums of one token, in the order of the buffer, for the rows of the piece that begins with row `first` of each stream. */
static void store_piece(const ints_rows *c, float *y, const float *sums, int64_t first) {
  for (int s = 0; s < STREAMS; s++) {
    for (int i = 0; i < c->per; i += LANES / STREAMS) memcpy(y + c->first[s] + first + i, sums + s * c->per + i, LANES / STREAMS * sizeof *y);
  }
}

#endif
