/* ints_run.h: a whole product in integers, piece by piece; included last by the files of both x86 levels, which define FEW and few_any, a piece
 * of LANES rows by at most so many tokens; ints_decoded and decode_block, a block of LANES rows; tile, WIDE of those by at most TILE tokens.
 * Where it defines SIDED, also few_ints: what few_any wants to have as x, made of the blocks that are there; and instead of tile tile_of, for each
 * length of groups. Where it defines TILED, of all these only few_any, and few_digits: the digits that it wants, made now or by an earlier call.
 */
#ifndef IJ_KERNELS_X86_INTS_RUN_H
#define IJ_KERNELS_X86_INTS_RUN_H

#if !TILED
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
  const int64_t steps = 4 * (GROUPS / WIDE) * p->n_block * ij__div_up(p->n_token, TILE); /* of fetching meanwhile */
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

#endif

static void multiply_piece(const ints_piece *p, ints_feed *f) {
#if !TILED
  if (p->rows > LANES) {
    many_tokens(p, f);
    return;
  }
#endif
  few_any(p, f);
}

/* ---- rows that cannot be multiplied where they lie ---- */

enum {
  PIECE_BLOCKS = 32, /* blocks of a row that a buffer has at most */
  CODES_BYTES = 144 * PIECE_BLOCKS,
  SIDE_BYTES = 16 * PIECE_BLOCKS,
  ROW_BYTES = CODES_BYTES + 2 * SIDE_BYTES * SIDED
};

/* Parts of a worker's scratch, in bytes from its first aligned one: sums; a buffer; x, where the caller has no integers. */
enum {
  BUFFER_AT = TOKENS_MAX * GROUPS * LANES * (int)sizeof(float),
  MADE_AT = BUFFER_AT + GROUPS * LANES * ROW_BYTES + 64, /* loads may go beyond the end of the last row by 16 */
  MADE_BLOCKS = (IJ_SCRATCH_ALIGNED * (int)sizeof(float) - MADE_AT) / (int)sizeof(ij_ints)
};

/* Bytes [begin, end) of a row, or fewer at its end, to a buffer. */
static void copy_part(uint8_t *to, const uint8_t *row, int64_t begin, int64_t end, int64_t row_bytes) {
  memcpy(to, row + begin, (size_t)(IJ_MIN(end, row_bytes) - begin));
}

/* Blocks [p->b0, p->b0 + p->n_block) of the rows from number `first` on, of which there are n, as a piece in a buffer: the last of them again in
 * those places that are left. */
static void copy_piece(ints_piece *p, const ints_rows *c, int64_t first, int64_t n, uint8_t *buffer) {
  const int64_t begin = p->b0, end = p->b0 + p->n_block;
  for (int64_t i = 0; i < c->rows; i++) {
    const int64_t row = first + IJ_MIN(i, n - 1);
    uint8_t *to = buffer + i * ROW_BYTES;
    copy_part(to, c->w + row * c->stride, begin * p->block_bytes, end * p->block_bytes, c->row_bytes);
    for (int side = 0; SIDED && side < 2; side++) {
      copy_part(to + CODES_BYTES + side * SIDE_BYTES, c->side[side] + row * c->side_stride, begin * p->side_bytes, end * p->side_bytes, c->side_row);
    }
  }
  for (int s = 0; s < STREAMS; s++) {
    p->codes.at[s] = buffer + s * c->per * ROW_BYTES;
    for (int side = 0; side < 2; side++) p->side[side].at[s] = p->codes.at[s] + CODES_BYTES + side * SIDE_BYTES;
  }
  p->codes.pitch = p->side[0].pitch = p->side[1].pitch = ROW_BYTES;
}

/* y: [token][ldy], of the first row. */
static void copied_rows(const ints_rows *c, ints_piece *p, float *y, uint8_t *buffer) {
  const int64_t n_block = p->n_block;
  ints_feed nothing = {.left = 0};
  for (int64_t first = 0; first < c->n_row; first += c->rows) {
    const int64_t n = IJ_MIN(c->n_row - first, (int64_t)c->rows);
    memset(p->sums, 0, (size_t)(p->n_token * c->rows) * sizeof *p->sums);
    for (p->b0 = 0; p->b0 < n_block; p->b0 += PIECE_BLOCKS) {
      p->n_block = IJ_MIN(n_block - p->b0, (int64_t)PIECE_BLOCKS);
      copy_piece(p, c, first, n, buffer);
      multiply_piece(p, &nothing);
    }
    for (int64_t t = 0; t < p->n_token; t++) {
      for (int64_t i = 0; i < n; i++) { /* place i of the buffer is row `at` of a stream */
        const int64_t stream = i / c->per, at = i % c->per;
        y[t * p->m->ldy + first + i] = p->sums[t * c->rows + (at / EACH * STREAMS + stream) * EACH + at % EACH];
      }
    }
  }
}

/* ---- whole products ---- */

/* next: those that this worker multiplies afterwards, or NULL. */
static void all_rows(const ints_rows *c, const ints_rows *next, ints_piece *p, float *y) {
  for (int64_t first = 0; first < c->quarter; first += c->per) {
    ints_feed f = {.left = 0};
    if (first + c->per < c->quarter) {
      feed_start(&f, c, first + c->per);
    } else if (next) {
      feed_start(&f, next, 0);
    }
    memset(p->sums, 0, (size_t)(p->n_token * c->rows) * sizeof *p->sums);
    place_piece(p, c, first);
    multiply_piece(p, &f);
    feed_rest(&f);
    for (int64_t t = 0; t < p->n_token; t++) store_piece(c, y + t * p->m->ldy, p->sums + t * c->rows, first);
  }
}

/* Rows of a piece for so many tokens. */
static int piece_rows(int64_t n_token) { return !TILED && n_token <= FEW ? LANES : GROUPS * LANES; }

/* Rows [r0, r1) for n tokens, whose first blocks are x, and their digits. */
static void ints_run(const ij_matmul *m, int64_t r0, int64_t r1, const ij_ints *const *x, const int8_t *digits, int64_t n, float *y, char *scratch) {
  const ij_stretch first = ij__stretch_of(m, r0);
  const ints_rows rows = ints_rows_of(m, first.row, first.scales, first.biases, r1 - r0, piece_rows(n));
  ints_piece p = {.m = m, .rows = rows.rows, .x = x, .digits = digits, .n_token = n, .sums = (float *)(void *)scratch};
  p.n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  p.block_bytes = ij__dtype_row_bytes(TYPE, IJ_INTS);
  if (SIDED) p.side_bytes = IJ_INTS / m->group * ij__dtype_block_bytes(m->side_dtype);
  if (!in_place(&rows, m)) {
    copied_rows(&rows, &p, y + r0, (uint8_t *)scratch + BUFFER_AT);
    return;
  }
  ints_rows next = {.n_row = 0};
  if (m->w_next && m->n_next > 0 && (!SIDED || m->scales_next)) {
    next = ints_rows_of(m, m->w_next, m->scales_next, m->biases_next, m->n_next, piece_rows(m->next_tokens));
  }
  all_rows(&rows, next.n_row > 0 && in_place(&next, m) ? &next : NULL, &p, y + r0);
}

/* Tokens in portions for which there is room, of which x is made into integers first where the caller has not. */
static void matmul_in_integers(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  if (ij__ints_left_out(m, TYPE, FEW, MADE_BLOCKS)) {
    SCALAR_PRODUCT(m, r0, r1, scratch);
    return;
  }
  char *base = (char *)ij__aligned64(scratch);
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  const int64_t most = m->ints ? TOKENS_MAX : IJ_MIN((int64_t)TOKENS_MAX, MADE_BLOCKS / n_block);
  ij_ints *made = (ij_ints *)(void *)(base + MADE_AT);
  const ij_ints *x[TOKENS_MAX];
  const int8_t *digits = NULL;
  if (r0 >= r1) return;
  for (int64_t t0 = 0, n; t0 < m->n; t0 += n) {
    n = IJ_MIN(most, m->n - t0);
    ij__ints_tokens(x, m, t0, n, made, ij__to_ints_avx2);
#if SIDED
    if (n <= FEW) few_ints(x, m, n, made);
#elif TILED
    digits = few_digits(x, m, m->ints ? made : made + n * n_block);
#endif
    ints_run(m, r0, r1, x, digits, n, m->y + t0 * m->ldy, base);
  }
}

#endif
