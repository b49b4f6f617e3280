/* ints_run_neon.h: a whole product in integers, from few_tokens, ints_decoded, decode_blocks and tile of a type. Where SIDED, that type also has
 * few_ints: what few_tokens wants to have as x, made of the blocks that are there.
 */
#ifndef IJ_KERNELS_ARM_INTS_RUN_NEON_H
#define IJ_KERNELS_ARM_INTS_RUN_NEON_H

static void few_rows(const ints_call *c, int64_t r) {
  if (c->n_token == 1) {
    few_tokens(c, r, 1);
  } else {
    few_tokens(c, r, 2);
  }
  store_sums(c, r, IJ_MIN(c->r1 - r, (int64_t)4));
}

static void tile_any(const ints_decoded *d, const ij_ints *const *x, float *sums, int64_t n) {
  switch (n) {
    case 1: tile(d, x, sums, 1); break;
    case 2: tile(d, x, sums, 2); break;
    case 3: tile(d, x, sums, 3); break;
    default: tile(d, x, sums, 4); break;
  }
}

/* A panel's rows from r on, block by block. */
static void many_tokens(const ints_call *c, int64_t r) {
  const int64_t n_row = IJ_MIN(c->r1 - r, (int64_t)PANEL_ROWS), n_four = ij__div_up(n_row, 4), n_tile = ij__div_up(c->n_token, TILE);
  four_rows w[PANEL];
  ints_decoded d[PANEL];
  memset(c->sums, 0, (size_t)(c->n_token * PANEL_ROWS) * sizeof *c->sums);
  for (int64_t i = 0; i < n_four; i++) w[i] = rows_from(c, r + 4 * i, PANEL_ROWS);
  for (int64_t b = 0; b < c->n_block; b++) {
    for (int64_t i = 0; i < n_four; i++) decode_blocks(&d[i], c, &w[i], b);
    for (int64_t j = 0, t = 0, n; j < n_tile; j++, t += n) {
      const ij_ints *x[TILE];
      n = ij__div_up(c->n_token - t, n_tile - j);
      for (int64_t i = 0; i < n; i++) x[i] = c->x[t + i] + b;
      for (int64_t i = 0; i < n_four; i++) tile_any(&d[i], x, c->sums + t * PANEL_ROWS + 4 * i, n);
    }
  }
  store_sums(c, r, n_row);
}

/* Tokens in portions for which there is room, of which x is made into integers first where the caller has not. */
static void ints_matmul(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  float *sums = ij__aligned64(scratch);
  ij_ints *made = (ij_ints *)(void *)((char *)sums + SUMS_BYTES);
  const ij_ints *x[TOKENS_MAX];
  ints_call c = {.m = m, .r1 = r1, .n_block = ij__div_up(m->k, (int64_t)IJ_INTS), .x = x, .sums = sums};
  const int64_t most = m->ints ? TOKENS_MAX : IJ_MIN((int64_t)TOKENS_MAX, MADE_BLOCKS / c.n_block);
  if (r0 >= r1) return;
  for (int64_t t0 = 0; t0 < m->n; t0 += c.n_token) {
    c.n_token = IJ_MIN(most, m->n - t0);
    c.y = m->y + t0 * m->ldy;
    ij__ints_tokens(x, m, t0, c.n_token, made, ij__to_ints_neon);
    if (c.n_token <= FEW) {
#if SIDED
      few_ints(x, m, c.n_token, made);
#endif
      for (int64_t r = r0; r < r1; r += 4) few_rows(&c, r);
    } else {
      for (int64_t r = r0; r < r1; r += PANEL_ROWS) many_tokens(&c, r);
    }
  }
}

static void matmul_in_integers(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  if (ij__ints_left_out(m, TYPE, FEW, MADE_BLOCKS)) {
    SCALAR_PRODUCT(m, r0, r1, scratch);
  } else {
    ints_matmul(m, r0, r1, scratch);
  }
}

#endif
