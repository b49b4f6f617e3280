/* ints_run.h: a whole product in integers, piece by piece; included last by the files of both x86 levels, which define FEW and few_any, a piece
 * of LANES rows by at most so many tokens; ints_decoded and decode_block, a block of LANES rows; tile, WIDE of those by at most TILE tokens.
 * Where it defines SIDED, also few_ints: what few_any wants to have as x, made of the blocks that are there; and instead of tile tile_of, for each
 * length of groups.
 */
#ifndef IJ_KERNELS_X86_INTS_RUN_H
#define IJ_KERNELS_X86_INTS_RUN_H

#define TILE_ARGS const ints_decoded *d, const ij_ints *const *x, const ij_ints *const *next, float *sums, ints_feed *f, int64_t steps

#if SIDED
CODED void tile(TILE_ARGS, const int n) {
  switch (d[0].shift) {
    case 0: tile_of(d, x, next, sums, f, steps, n, 0); break;
    case 1: tile_of(d, x, next, sums, f, steps, n, 1); break;
    default: tile_of(d, x, next, sums, f, steps, n, 2);
  }
}
#endif

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
    for (int r = 0; r < GROUPS; r++) decode_block(&d[r], p, b, r);
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
_Static_assert(GROUPS * LANES * PIECE_ROW_BYTES <= IJ_PIECE_BYTES, "a piece must fit");

/* What stays the same for all rows of a call. */
typedef struct ints_call {
  const ij_matmul *m;
  ints_rows rows, next; /* those that the caller multiplies next; next.n_row is 0 where they are not known */
  uint8_t *buffer[2];
  ij_x_room *room;      /* which has the buffers, or NULL */
  float *y;             /* [token][ldy], of the first row */
} ints_call;

/* The rows of a call that has too few: in the first places of a piece, and the last again in those that are left. */
static void few_rows(const ints_call *c, ints_piece *p) {
  const ints_rows *r = &c->rows;
  ints_feed nothing = {.left = 0};
  memset(p->sums, 0, (size_t)(p->n_token * r->rows) * sizeof *p->sums);
  place_piece(p, r, 0, c->buffer[0]);
  for (p->b0 = 0; p->b0 < r->n_block; p->b0 += p->n_block) {
    const int64_t begin = p->b0 * r->block_bytes;
    p->n_block = IJ_MIN(r->n_block - p->b0, r->piece_blocks);
    for (int64_t i = 0; i < r->rows; i++) {
      const int64_t row = IJ_MIN(i, r->n_row - 1);
      uint8_t *to = c->buffer[0] + i * r->pitch;
      memcpy(to + r->codes_at, r->w + row * r->stride + begin, (size_t)IJ_MIN(p->n_block * r->block_bytes, r->row_bytes - begin));
      if (SIDED) copy_sides(to, r, row, p->b0);
    }
    multiply_piece(p, &nothing);
  }
  for (int64_t t = 0; t < p->n_token; t++) {
    for (int64_t i = 0; i < r->n_row; i++) c->y[t * c->m->ldy + i] = p->sums[t * r->rows + i / EACH * LANES + i % EACH];
  }
  if (c->room) c->room->piece.loop = 0;
}

/* How a room knows that buffer `at` has the first piece of these rows. */
static ij_x_piece piece_key(const ints_call *c, const ints_rows *r, int64_t at) {
  ij_x_piece key = {.loop = c->m->loop, .w = r->w, .w_stride = r->stride, .n = r->n_row, .k = c->m->k, .rows = r->rows, .type = TYPE, .at = at};
  key.scales = r->side[0];
  key.biases = r->side[1];
  key.side_stride = r->side_stride;
  key.side_bytes = r->side_bytes;
  return key;
}

/* The first piece, which lies in a buffer already if it was announced; the number of the buffer. */
static int first_piece(const ints_call *c) {
  const ints_rows *r = &c->rows;
  ij_x_room *room = c->room;
  if (r->in_place) return 0;
  if (room && room->piece.loop == c->m->loop) {
    const ij_x_piece key = piece_key(c, r, room->piece.at);
    if (memcmp(&key, &room->piece, sizeof key) == 0) return (int)key.at;
  }
  ints_feed f;
  feed_start(&f, r, NULL, c->buffer[0], 0, 0);
  feed_rest(&f);
  return 0;
}

/* Buffer `at` now holds the first piece of what comes next. */
static void remember_piece(const ints_call *c, int at) {
  if (!c->room) return;
  c->room->piece = piece_key(c, &c->next, at);
  if (c->next.n_row == 0 || c->next.in_place) c->room->piece.loop = 0;
}

static void all_rows(const ints_call *c, ints_piece *p) {
  const ints_rows *r = &c->rows, *next = c->next.n_row > 0 ? &c->next : NULL;
  ints_feed f = {.left = 0};
  int at = first_piece(c);
  for (int64_t first = 0; first < r->quarter; first += r->per) {
    memset(p->sums, 0, (size_t)(p->n_token * r->rows) * sizeof *p->sums);
    for (p->b0 = 0; p->b0 < r->n_block; p->b0 += p->n_block, at = !at) {
      p->n_block = IJ_MIN(r->n_block - p->b0, r->piece_blocks);
      place_piece(p, r, first, c->buffer[at]);
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
static void ints_run(const ij_matmul *m, int64_t r0, int64_t r1, const ij_ints *const *x, int64_t n, float *y, char *scratch, bool in_place) {
  const int rows = n <= FEW ? LANES : GROUPS * LANES, next_rows = m->next_tokens <= FEW ? LANES : GROUPS * LANES;
  ints_call c = {.m = m, .y = y + r0, .room = m->loop ? m->x_room : NULL};
  for (int i = 0; i < 2; i++) c.buffer[i] = c.room ? c.room->pieces[i] : (uint8_t *)scratch + SUMS_BYTES + i * IJ_PIECE_BYTES;
  const ij_stretch first = ij__stretch_of(m, r0);
  c.rows = ints_rows_of(m, first.row, first.scales, first.biases, r1 - r0, rows, in_place);
  if (c.room && m->w_next && m->n_next > 0 && (!SIDED || m->scales_next)) {
    c.next = ints_rows_of(m, m->w_next, m->scales_next, m->biases_next, m->n_next, next_rows, in_place);
  }
  if (too_few_rows(&c.next)) c.next.n_row = 0;
  ints_piece p = {.m = m, .block_bytes = c.rows.block_bytes, .side_bytes = c.rows.side_bytes, .rows = rows, .x = x, .n_token = n};
  p.sums = (float *)(void *)scratch;
  if (too_few_rows(&c.rows)) {
    few_rows(&c, &p);
  } else {
    all_rows(&c, &p);
  }
}

/* Left to the scalar product: rows that are too long for a worker's scratch, and those with sides that are rare or with less than a line of codes. */
static bool left_out(const ij_matmul *m) {
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  if (SIDED) return ij__wide_side(m, TYPE) || m->k < 2 * LINE || FEW * n_block > MADE_BLOCKS;
  return !m->ints && n_block > MADE_BLOCKS;
}

/* Tokens in portions for which there is room, of which x is made into integers first where the caller has not. */
static void ints_matmul(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, bool in_place) {
  char *base = (char *)ij__aligned64(scratch);
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  const int64_t most = m->ints ? TOKENS_MAX : IJ_MIN((int64_t)TOKENS_MAX, MADE_BLOCKS / n_block);
  ij_ints *made = (ij_ints *)(void *)(base + MADE_AT);
  const ij_ints *x[TOKENS_MAX];
  if (r0 >= r1) return;
  for (int64_t t0 = 0, n; t0 < m->n; t0 += n) {
    n = IJ_MIN(most, m->n - t0);
    ij__ints_tokens(x, m, t0, n, made, ij__to_ints_avx2);
#if SIDED
    if (n <= FEW) few_ints(x, m, n, made);
#endif
    ints_run(m, r0, r1, x, n, m->y + t0 * m->ldy, base, in_place);
  }
}

static void ints_product(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, bool in_place) {
  if (left_out(m)) {
    SCALAR_PRODUCT(m, r0, r1, scratch);
  } else {
    ints_matmul(m, r0, r1, scratch, in_place);
  }
}

static void matmul_copied(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { ints_product(m, r0, r1, scratch, false); }
static void matmul_in_place(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { ints_product(m, r0, r1, scratch, true); }

static void fill_product(ij_kernels *k, bool in_place) { k->matmul[TYPE] = in_place ? matmul_in_place : matmul_copied; }

#endif
