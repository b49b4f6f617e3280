/* ints_run.h: a whole product in integers, piece by piece; included last by the files of both x86 levels, which define FEW and few_any, a piece
 * of LANES rows by at most so many tokens; ints_decoded and decode_block, a block of LANES rows; tile, WIDE of those by at most TILE tokens.
 */
#ifndef IJ_KERNELS_X86_INTS_RUN_H
#define IJ_KERNELS_X86_INTS_RUN_H

#define TILE_ARGS const ints_decoded *d, const ij_ints *const *x, const ij_ints *const *next, float *sums, ints_feed *f, int64_t steps
NOINLINE void tile_1(TILE_ARGS) { tile(d, x, next, sums, f, steps, 1); }
NOINLINE void tile_2(TILE_ARGS) { tile(d, x, next, sums, f, steps, 2); }

/* n tokens times all rows of the piece; x is in the first-level cache after the first of them. */
static void tile_rows(TILE_ARGS, int64_t n) {
  for (int r = 0; r < GROUPS; r += WIDE) {
    if (n == 1) {
      tile_1(d + r, x, r == 0 ? next : NULL, sums + r * LANES, f, steps);
    } else {
      tile_2(d + r, x, r == 0 ? next : NULL, sums + r * LANES, f, steps);
    }
  }
}

/* Many tokens: a block of all rows of the piece is taken apart, and multiplied by two tokens at a time. */
static void many_tokens(const ints_piece *p, ints_feed *f) {
  const int64_t steps = 4 * (GROUPS / WIDE) * p->n_block * ij__div_up(p->n_token, TILE); /* of copying meanwhile */
  ints_decoded d[GROUPS];
  for (int64_t b = 0; b < p->n_block; b++) {
    const uint8_t *block = p->buffer + b * p->block_bytes;
    for (int r = 0; r < GROUPS; r++) decode_block(&d[r], block + r * LANES * p->pitch, p->pitch);
    for (int64_t t = 0; t < p->n_token; t += TILE) {
      const ij_ints *x[TILE], *next[TILE];
      const int64_t n = IJ_MIN((int64_t)TILE, p->n_token - t);
      for (int64_t j = 0; j < n; j++) {
        x[j] = p->x[t + j] + p->b0 + b;
        next[j] = t + n + j < p->n_token ? p->x[t + n + j] + p->b0 + b : p->x[j] + p->b0 + b + 1;
      }
      tile_rows(d, x, next, p->sums + t * GROUPS * LANES, f, steps, n);
    }
  }
}

static void multiply_piece(const ints_piece *p, ints_feed *f) {
  if (p->rows == LANES) {
    few_any(p, f);
  } else {
    many_tokens(p, f);
  }
}

/* Parts of a worker's scratch, in bytes from its first aligned one: sums; buffers, where there is no room for them; x, where the caller has no integers. */
enum {
  SUMS_BYTES = TOKENS_MAX * GROUPS * LANES * (int)sizeof(float),
  MADE_AT = SUMS_BYTES + 2 * IJ_PIECE_BYTES,
  MADE_BLOCKS = (IJ_SCRATCH_ALIGNED * (int)sizeof(float) - MADE_AT) / (int)sizeof(ij_ints)
};
_Static_assert(GROUPS * LANES * PIECE_BLOCKS * 144 <= IJ_PIECE_BYTES, "a piece must fit");

/* What stays the same for all rows of a call. */
typedef struct ints_call {
  const ij_matmul *m;
  ints_rows rows, next; /* those that the caller multiplies next; next.n_row is 0 where they are not known */
  uint8_t *buffer[2];
  ij_x_room *room;      /* which has the buffers, or NULL */
  float *y;             /* [token][ldy], of the first row */
} ints_call;

/* The rows of a call that has too few: in the first places, and the last again in those that are left. */
static void few_rows(const ints_call *c, ints_piece *p) {
  const ints_rows *r = &c->rows;
  ints_feed nothing = {.left = 0};
  memset(p->sums, 0, (size_t)(p->n_token * r->rows) * sizeof *p->sums);
  p->buffer = c->buffer[0];
  for (p->b0 = 0; p->b0 < r->n_block; p->b0 += p->n_block) {
    p->n_block = IJ_MIN(r->n_block - p->b0, (int64_t)PIECE_BLOCKS);
    for (int64_t i = 0; i < r->rows; i++) {
      const uint8_t *row = r->w + IJ_MIN(i, r->n_row - 1) * r->stride;
      memcpy(c->buffer[0] + i * r->pitch, row + p->b0 * r->block_bytes, (size_t)(p->n_block * r->block_bytes));
    }
    multiply_piece(p, &nothing);
  }
  for (int64_t t = 0; t < p->n_token; t++) memcpy(c->y + t * c->m->ldy, p->sums + t * r->rows, (size_t)r->n_row * sizeof *c->y);
  if (c->room) c->room->piece.loop = 0;
}

/* The first piece, which lies in a buffer already if it was announced; the number of the buffer. */
static int first_piece(const ints_call *c) {
  const ints_rows *r = &c->rows;
  ij_x_room *room = c->room;
  if (room && room->piece.loop == c->m->loop && room->piece.w == r->w && room->piece.w_stride == r->stride && room->piece.n == r->n_row &&
      room->piece.k == c->m->k && room->piece.rows == r->rows)
    return room->piece.at;
  ints_feed f;
  feed_start(&f, r, NULL, c->buffer[0], 0, 0);
  feed_rest(&f);
  return 0;
}

/* Buffer `at` now holds the first piece of what comes next. */
static void remember_piece(const ints_call *c, int at) {
  if (!c->room) return;
  c->room->piece.loop = c->next.n_row > 0 ? c->m->loop : 0;
  c->room->piece.w = c->next.w;
  c->room->piece.w_stride = c->next.stride;
  c->room->piece.n = c->next.n_row;
  c->room->piece.k = c->m->k;
  c->room->piece.rows = c->next.rows;
  c->room->piece.at = at;
}

static void all_rows(const ints_call *c, ints_piece *p) {
  const ints_rows *r = &c->rows, *next = c->next.n_row > 0 ? &c->next : NULL;
  ints_feed f = {.left = 0};
  int at = first_piece(c);
  for (int64_t first = 0; first < r->quarter; first += r->per) {
    memset(p->sums, 0, (size_t)(p->n_token * r->rows) * sizeof *p->sums);
    for (p->b0 = 0; p->b0 < r->n_block; p->b0 += p->n_block, at = !at) {
      p->n_block = IJ_MIN(r->n_block - p->b0, (int64_t)PIECE_BLOCKS);
      p->buffer = c->buffer[at];
      if (p->b0 + p->n_block < r->n_block) {
        feed_start(&f, r, next, c->buffer[!at], first, p->b0 + p->n_block);
      } else if (first + r->per < r->quarter) {
        feed_start(&f, r, next, c->buffer[!at], first + r->per, 0);
      } else if (next) {
        feed_start(&f, next, NULL, c->buffer[!at], 0, 0);
      }
      multiply_piece(p, &f);
      feed_rest(&f);
    }
    for (int64_t t = 0; t < p->n_token; t++) store_piece(r, c->y + t * c->m->ldy, p->sums + t * r->rows, first);
  }
  remember_piece(c, at);
}

/* Rows [r0, r1) for n tokens, whose first blocks are x. */
static void ints_run(const ij_matmul *m, int64_t r0, int64_t r1, const ij_ints *const *x, int64_t n, float *y, char *scratch, ij_dtype type) {
  const int rows = n <= FEW ? LANES : GROUPS * LANES, next_rows = m->next_tokens <= FEW ? LANES : GROUPS * LANES;
  const int64_t n_block = m->k / IJ_INTS, block_bytes = ij__dtype_block_bytes(type);
  ints_call c = {.m = m, .y = y + r0, .room = m->loop ? m->x_room : NULL};
  for (int i = 0; i < 2; i++) c.buffer[i] = c.room ? c.room->pieces[i] : (uint8_t *)scratch + SUMS_BYTES + i * IJ_PIECE_BYTES;
  c.rows = ints_rows_of((const char *)m->w + r0 * m->w_stride, m->w_stride, r1 - r0, n_block, rows, block_bytes);
  if (c.room && m->w_next && m->n_next > 0) c.next = ints_rows_of(m->w_next, m->w_stride, m->n_next, n_block, next_rows, block_bytes);
  if (too_few_rows(&c.next)) c.next.n_row = 0;
  ints_piece p = {.pitch = c.rows.pitch, .block_bytes = block_bytes, .rows = rows, .x = x, .n_token = n, .sums = (float *)(void *)scratch};
  if (too_few_rows(&c.rows)) {
    few_rows(&c, &p);
  } else {
    all_rows(&c, &p);
  }
}

/* Tokens in portions for which there is room, of which x is made into integers first where the caller has not. */
static void ints_matmul(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, ij_dtype type) {
  char *base = (char *)ij__aligned64(scratch);
  const int64_t most = m->ints ? TOKENS_MAX : IJ_MIN((int64_t)TOKENS_MAX, MADE_BLOCKS / (m->k / IJ_INTS));
  const ij_ints *x[TOKENS_MAX];
  if (r0 >= r1) return;
  if (most == 0) {
    ij__matmul_q4_k_ref(m, r0, r1, scratch);
    return;
  }
  for (int64_t t0 = 0, n; t0 < m->n; t0 += n) {
    n = IJ_MIN(most, m->n - t0);
    ij__ints_tokens(x, m, t0, n, (ij_ints *)(void *)(base + MADE_AT), ij__to_ints_avx2);
    ints_run(m, r0, r1, x, n, m->y + t0 * m->ldy, base, type);
  }
}

static void matmul_q4_k(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { ints_matmul(m, r0, r1, scratch, IJ_DTYPE_Q4_K); }

#endif
