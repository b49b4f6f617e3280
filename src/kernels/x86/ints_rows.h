/* ints_rows.h: how products in integers walk over the rows of weights; shared by both x86 levels.
 *
 * These products hold one row in each lane, so they need many rows at once, where memory is quickest in a few long streams, each read in
 * order and a little at a time. So rows are taken in pieces, a few from each quarter of a call's rows. Some processors are quickest when a piece
 * is copied to a buffer in the caches, line by line in turns, while the piece before is multiplied; what is copied next has been fetched by then.
 * Others when it is only fetched meanwhile, and then multiplied in place (ij__cpu_is_amd).
 *
 * The including file defines LANES, rows of a register, copy_line (LINE bytes), copy_short (fewer) and v_prefetch; and SIDED where rows have
 * scales and biases beside their codes. Then a row of a piece lies in the buffer as [scales][biases][codes], so that loads of more scales than
 * there are stay inside it.
 */
#ifndef IJ_KERNELS_X86_INTS_ROWS_H
#define IJ_KERNELS_X86_INTS_ROWS_H

#include "kernels/ints.h"
#include "kernels/x86/coded_consts.h"

#ifndef SIDED
#define SIDED 0
#endif
#if SIDED
#define TYPE IJ_DTYPE_AFFINE4
#define SCALAR_PRODUCT ij__matmul_affine4_ref
#else
#define TYPE IJ_DTYPE_Q4_K
#define SCALAR_PRODUCT ij__matmul_q4_k_ref
#endif

/* For what is a function of its own because compilers keep less in registers in one that holds it all. */
#define NOINLINE static __attribute__((noinline))

enum {
  TILE = 2, WIDE = 2,     /* tokens and registers of rows that are multiplied at a time where there are many tokens */
  GROUPS = 32 / LANES,    /* registers of rows that a piece has for them; for few tokens it has one */
  PIECE_BLOCKS = 32,      /* blocks of a row that a piece has at most, */
  PIECE_ROW_BYTES = PIECE_BLOCKS * 144, /* and bytes of it */
  LINE = 64,              /* bytes of a row that are copied at a time */
  FETCH_BYTES = 2304,     /* of a stream, between what is copied and what is fetched: at least so many, in whole rows */
  TOKENS_MAX = 1024       /* more are multiplied in portions */
};

/* The rows of a call in streams of `quarter` rows. The last of them may begin before the others end: then some rows are multiplied twice.
 * A block is 256 values, or what is left at the end of a row. */
typedef struct ints_rows {
  const uint8_t *w, *side[2];              /* side: scales and biases */
  int64_t stride, quarter, first[STREAMS]; /* bytes between rows; rows of a stream, in whole pieces; first row of each */
  int64_t n_row, n_block, block_bytes, row_bytes, piece_blocks;
  int64_t side_stride, side_bytes, side_row; /* bytes between rows of a side; of a block there, of a row */
  int64_t codes_at;                        /* from the start of a row in the buffers */
  int64_t pitch;                           /* bytes between rows in the buffers */
  int rows, per;                           /* of a piece; of each stream in a piece */
  bool in_place;                           /* whole rows are fetched, not copied */
} ints_rows;

/* A piece, and what it is multiplied by. */
typedef struct ints_piece {
  const ij_matmul *m;
  ints_lanes codes, side[2];       /* of its first register of rows */
  int64_t block_bytes, side_bytes; /* of a block */
  int rows;
  const ij_ints *const *x; /* [token]: first block of the row */
  int64_t n_token, b0, n_block;
  float *sums;             /* [token][register of rows][lane] */
} ints_piece;

/* A piece on its way into a buffer or, in place, into the caches. */
typedef struct ints_feed {
  const ints_rows *rows, *next;            /* where it comes from; the rows after all of those, or NULL */
  const uint8_t *at, *ahead[STREAMS];      /* its row in the first stream; the rows to fetch, which are the same in place */
  uint8_t *to;
  int64_t row, begin, offset, bytes;       /* number of the row in its stream; bytes of it before the stretch, in the stretch, of the stretch */
  int64_t b0;                              /* first block of the stretch */
  int64_t left, total, due;                /* lines of each stream; in units of which feed_some's den are one */
  const ints_rows *later;                  /* the rows to fetch belong to these; */
  int64_t later_row;                       /* their number in a stream */
  int sides;                               /* streams whose scales and biases of this row have been copied */
  int64_t from[STREAMS], place;            /* bytes between the streams, and between them in the buffer */
} ints_feed;

CODED void copy_bytes(uint8_t *to, const uint8_t *from, int64_t n) {
  if (n < LINE) {
    copy_short(to, from, n);
  } else {
    for (int64_t i = 0; i < n; i += LINE) copy_line(to + IJ_MIN(i, n - LINE), from + IJ_MIN(i, n - LINE));
  }
}

/* Scales and biases of a row's blocks from b0 on, at most as many as a piece has, to where it lies in a buffer. */
CODED void copy_sides(uint8_t *to, const ints_rows *c, int64_t row, int64_t b0) {
  const int64_t at = b0 * c->side_bytes, room = c->piece_blocks * c->side_bytes, n = IJ_MIN(room, c->side_row - at);
  UNROLL for (int i = 0; i < 2; i++) {
    const uint8_t *from = c->side[i] + row * c->side_stride + at;
    if (n == LINE) {
      copy_line(to + i * room, from);
    } else {
      copy_bytes(to + i * room, from, n);
    }
  }
}

CODED void fetch_sides(const ints_rows *c, int64_t row, int64_t b0) {
  const int64_t at = b0 * c->side_bytes, n = IJ_MIN(c->piece_blocks * c->side_bytes, c->side_row - at);
  UNROLL for (int i = 0; i < 2; i++) {
    const uint8_t *from = c->side[i] + row * c->side_stride + at;
    v_prefetch(from);
    for (int64_t line = LINE; line < n; line += LINE) v_prefetch(from + line);
  }
}

/* What is fetched lies at least so many bytes further on, in whole rows. */
static void feed_row(ints_feed *f) {
  const ints_rows *c = f->rows, *from = c;
  const int64_t later = f->row + (c->in_place ? 0 : ij__div_up(FETCH_BYTES, c->row_bytes));
  int64_t row = f->row;
  if (later < c->quarter) {
    row = later;
  } else if (f->next && later - c->quarter < f->next->quarter) {
    from = f->next;
    row = later - c->quarter;
  }
  f->at = c->w + f->row * c->stride + f->begin;
  UNROLL for (int s = 0; s < STREAMS; s++) f->ahead[s] = from->w + (from->first[s] + row) * from->stride + f->begin;
  if (!SIDED) return;
  f->later = from;
  f->later_row = row;
  f->sides = 0;
}

/* Scales and biases of the row in one more stream: not in all at once, because what is multiplied meanwhile has to wait for a burst. */
CODED void feed_sides(ints_feed *f) {
  const ints_rows *c = f->rows;
  const int s = f->sides++;
  if (!c->in_place) copy_sides(f->to - c->codes_at + s * f->place, c, c->first[s] + f->row, f->b0);
  fetch_sides(f->later, f->later->first[s] + f->later_row, f->b0);
}

static void feed_start(ints_feed *f, const ints_rows *c, const ints_rows *next, uint8_t *to, int64_t first, int64_t b0) {
  const int64_t begin = b0 * c->block_bytes;
  *f = (ints_feed){.rows = c, .next = next, .to = to + c->codes_at, .row = first, .b0 = b0, .begin = begin};
  f->bytes = IJ_MIN(c->row_bytes - begin, c->piece_blocks * c->block_bytes);
  f->place = c->per * c->pitch;
  f->left = f->total = ij__div_up(f->bytes, LINE) * c->per;
  for (int s = 0; s < STREAMS; s++) f->from[s] = c->first[s] * c->stride;
  feed_row(f);
}

/* The next line of each stream. The last that is copied of a row ends where the row does. */
CODED void feed_step(ints_feed *f) {
  if (f->rows->in_place) {
    UNROLL for (int s = 0; s < STREAMS; s++) v_prefetch(f->ahead[s] + f->offset);
  } else {
    const int64_t offset = IJ_MIN(f->offset, f->bytes - LINE);
    UNROLL for (int s = 0; s < STREAMS; s++) {
      copy_line(f->to + offset + s * f->place, f->at + offset + f->from[s]);
      v_prefetch(f->ahead[s] + offset);
    }
  }
  if (SIDED && f->sides < STREAMS) feed_sides(f);
  f->left--;
  f->offset += LINE;
  if (f->offset < f->bytes && f->left > 0) return;
  while (SIDED && f->sides < STREAMS) feed_sides(f);
  if (f->left == 0) return;
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

/* Where codes begin in a row of the buffer that has n_block blocks. */
static int64_t codes_place(const ints_rows *c, int64_t n_block) { return (int64_t)ij__align_up((size_t)(2 * n_block * c->side_bytes), 64); }

/* Scales and biases, and pieces that have room for them; all of about the same length, so that the last of a row has a line of codes too. Where it
 * has less after all, in rows of 193,000 values and more, what is copied from before it falls on biases in the buffer, which come later. */
static void add_sides(ints_rows *c, const ij_matmul *m, const void *scales, const void *biases) {
  int64_t most = PIECE_BLOCKS;
  c->side[0] = scales;
  c->side[1] = biases;
  c->side_stride = m->side_stride;
  c->side_bytes = IJ_INTS / m->group * ij__dtype_block_bytes(m->side_dtype);
  c->side_row = m->k / m->group * ij__dtype_block_bytes(m->side_dtype);
  while (codes_place(c, most) + most * c->block_bytes > PIECE_ROW_BYTES) most--;
  c->piece_blocks = ij__div_up(c->n_block, ij__div_up(c->n_block, most));
  c->codes_at = codes_place(c, c->piece_blocks);
}

/* Fewer rows than a stream should have. */
CODED bool too_few_rows(const ints_rows *c) { return c->n_row < c->quarter; }

/* n_row rows of the type from w on, in pieces of `rows`. Sides are loaded by eight numbers. In place that stays inside a row only for few tokens,
 * which use all eight, and where the row has a multiple of eight. */
static ints_rows ints_rows_of(const ij_matmul *m, const void *w, const void *scales, const void *biases, int64_t n_row, int rows, bool in_place) {
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS), block_bytes = ij__dtype_row_bytes(TYPE, IJ_INTS);
  ints_rows c = {.w = w, .stride = m->w_stride, .n_row = n_row, .n_block = n_block, .block_bytes = block_bytes, .rows = rows};
  c.per = rows / STREAMS;
  c.row_bytes = ij__dtype_row_bytes(TYPE, m->k);
  c.piece_blocks = IJ_MIN(n_block, (int64_t)PIECE_BLOCKS);
  if (SIDED) add_sides(&c, m, scales, biases);
  c.quarter = ij__div_up(n_row, rows) * c.per;
  c.in_place = in_place && !too_few_rows(&c) && (!SIDED || (rows == LANES && m->k / m->group % 8 == 0));
  if (c.in_place) c.piece_blocks = n_block;
  for (int s = 0; s < STREAMS; s++) c.first[s] = IJ_MIN(s * c.quarter, n_row - c.quarter);
  c.pitch = (int64_t)ij__align_up((size_t)(c.codes_at + c.piece_blocks * block_bytes), 64);
  return c;
}

/* The piece that begins with row `first` of each stream and is in place, or begins with block b0 and lies in a buffer. */
static void place_piece(ints_piece *p, const ints_rows *c, int64_t first, const uint8_t *buffer) {
  p->codes.pitch = c->in_place ? c->stride : c->pitch;
  for (int s = 0; s < STREAMS; s++) {
    const int64_t row = c->first[s] + first, place = s * c->per * c->pitch;
    p->codes.at[s] = c->in_place ? c->w + row * c->stride : buffer + place + c->codes_at;
    for (int i = 0; SIDED && i < 2; i++) {
      p->side[i].pitch = c->in_place ? c->side_stride : c->pitch;
      p->side[i].at[s] = c->in_place ? c->side[i] + row * c->side_stride : buffer + place + i * c->piece_blocks * c->side_bytes;
    }
  }
}

/* sums of one token for the rows of the piece that begins with row `first` of each stream. */
static void store_piece(const ints_rows *c, float *y, const float *sums, int64_t first) {
  for (int i = 0; i < c->per; i += EACH) {
    for (int s = 0; s < STREAMS; s++, sums += EACH) memcpy(y + c->first[s] + first + i, sums, EACH * sizeof *y);
  }
}

#endif
