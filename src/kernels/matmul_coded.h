/* matmul_coded.h: the tiled product for block and split types, included by matmul_tile.h.
 *
 * Few tokens: MR rows are decoded a stretch at a time into a buffer in the first-level cache, from which all tokens use them; partial
 * sums are parked between stretches, so every lane takes its values in the one order. Many tokens: the panel of matmul_tile.h.
 */
#ifndef IJ_KERNELS_MATMUL_CODED_H
#define IJ_KERNELS_MATMUL_CODED_H

enum { CODED_STRETCH = 256 }; /* values: a multiple of every block length and group, and short, so that decoding runs beside the products */

_Static_assert(CODED_MAX_N < IJ_LISTED_MIN, "the buffer takes rows of x as they lie");

/* Decoders of this level, copied from the table when the level's fill function runs. */
static ij_decode_fn decoders[IJ_DTYPE_COUNT];

/* A stretch of MR rows (first .. of the buffer) and nt tokens. */
typedef struct coded_args {
  const char *row[MR]; /* decoded */
  const float *x;
  int64_t ldx, n_step;
  float *parked; /* [token][row][16] */
  bool first, last;
  float *sums;
} coded_args;

INLINE void coded_tile(const coded_args *a, const int first, const int n_row, const int nt) {
  vec c[DIRECT_NT][4][PASSES];
  const char *row[4];
  UNROLL for (int r = 0; r < n_row; r++) row[r] = a->row[first + r];
  UNROLL for (int t = 0; t < nt; t++) {
    UNROLL for (int r = 0; r < n_row; r++) {
      UNROLL for (int p = 0; p < PASSES; p++)
        c[t][r][p] = a->first ? v_zero() : v_load(a->parked + (t * MR + first + r) * 16 + p * V);
    }
  }
  for (int64_t s = 0; s < a->n_step; s++) direct_step(c, row, s, a->x, a->ldx, n_row, nt, IJ_DTYPE_F32);
  if (a->last) {
    UNROLL for (int t = 0; t < nt; t++) store_sums(a->sums + t * BATCH, first, n_row, c[t]);
    return;
  }
  UNROLL for (int t = 0; t < nt; t++) {
    UNROLL for (int r = 0; r < n_row; r++) {
      UNROLL for (int p = 0; p < PASSES; p++) v_store(a->parked + (t * MR + first + r) * 16 + p * V, c[t][r][p]);
    }
  }
}

INLINE void coded_tile_rows(const coded_args *a, const int nt) {
  const int rows = nt == 1 || V == 16 ? 4 : 2; /* what the registers hold */
  coded_tile(a, 0, rows, nt);
  if (rows == 2) coded_tile(a, 2, rows, nt);
}

static void coded_tile_any(const coded_args *a, int64_t nt) {
  switch (nt) {
    case 1: coded_tile_rows(a, 1); break;
    case 2: coded_tile_rows(a, 2); break;
    case 3: coded_tile_rows(a, 3); break;
#if DIRECT_NT > 3
    case 4: coded_tile_rows(a, 4); break;
    case 5: coded_tile_rows(a, 5); break;
    case 6: coded_tile_rows(a, 6); break;
#endif
    default: break;
  }
}

/* What stays the same for all rows of a call. */
typedef struct coded_ctx {
  const ij_matmul *m;
  ij_decode_fn decode;
  int64_t row_bytes, len, len_bytes; /* of a row; values and bytes of a block */
  float *buffer, *parked;
} coded_ctx;

/* MR rows from r on, of which those up to r_last exist, for all tokens; sums: [token][BATCH]. */
static void coded_group(const coded_ctx *c, int64_t r, int64_t r_last, const lookahead *f, float *sums) {
  const ij_matmul *m = c->m;
  ij_stretch s[MR];
  coded_args a = {.ldx = m->ldx, .first = true};
  const int64_t n_row = IJ_MIN(MR, r_last - r + 1);
  for (int i = 0; i < MR; i++) {
    a.row[i] = (const char *)(c->buffer + IJ_MIN(i, n_row - 1) * CODED_STRETCH);
    if (i < n_row) s[i] = ij__stretch_of(m, r + i);
  }
  for (int64_t c0 = 0; c0 < m->k; c0 += CODED_STRETCH) {
    const int64_t n = IJ_MIN(m->k - c0, (int64_t)CODED_STRETCH), b0 = c0 / c->len * c->len_bytes, b1 = b0 + n / c->len * c->len_bytes;
    for (int64_t i = 0; i < n_row; i++) {
      coded_prefetch(s[i].row, b0, b1, c->row_bytes, f);
      s[i].c0 = c0;
      s[i].n = n;
      c->decode(c->buffer + i * CODED_STRETCH, &s[i]);
    }
    a.first = c0 == 0;
    a.last = c0 + n == m->k;
    a.n_step = n / 16;
    for (int64_t t = 0, nt; t < m->n; t += nt) {
      nt = tile_tokens(m->n - t, DIRECT_NT);
      a.x = m->x + t * m->ldx + c0;
      a.parked = c->parked + t * MR * 16;
      a.sums = sums + t * BATCH;
      coded_tile_any(&a, nt);
    }
  }
}

static void coded_few(const ij_matmul *m, int64_t r0, int64_t r1, ij_dtype type) {
  _Alignas(64) float buffer[MR * CODED_STRETCH], parked[CODED_MAX_N * MR * 16];
  float sums[CODED_MAX_N * BATCH] = {0}; /* rows that a short batch lacks are folded too, and dropped */
  coded_ctx c = {.m = m, .decode = decoders[type], .row_bytes = ij__dtype_row_bytes(type, m->k), .buffer = buffer, .parked = parked};
  c.len = ij__dtype_block_len(type);
  c.len_bytes = ij__dtype_block_bytes(type);
  const lookahead f = lookahead_of(m, c.row_bytes);
  lookahead_start(&f, (const char *)m->w + r0 * m->w_stride, m->w_stride, r1 - r0, c.row_bytes);
  for (int64_t r = r0; r < r1; r += V) {
    int64_t n_row = IJ_MIN(V, r1 - r);
    if (r + V >= r1 && m->w_next) lookahead_start(&f, m->w_next, m->w_stride, m->n_next, c.row_bytes);
    for (int64_t g = 0; g < n_row; g += MR) {
      lookahead ahead = lookahead_at(&f, (r1 - r - g) / MR);
      coded_group(&c, r + g, r1 - 1, &ahead, sums + g * 4);
    }
    store_batch(m->y + r, m->ldy, sums, m->n, n_row);
  }
}

static void matmul_coded(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, ij_dtype type) {
  int64_t max_rows = panel_rows(m, true);
  if (m->n <= CODED_MAX_N) {
    coded_few(m, r0, r1, type);
  } else if (max_rows > 0) {
    panels(m, r0, r1, scratch, max_rows, type, decoders[type]);
  } else { /* rows too long for a panel: tokens in small portions */
    ij_matmul part = *m;
    for (int64_t t = 0; t < m->n; t += part.n) {
      part.n = m->rows ? 1 : IJ_MIN(m->n - t, (int64_t)CODED_MAX_N);
      part.x = ij__x_row(m, t);
      part.rows = NULL;
      part.y = m->y + t * m->ldy;
      coded_few(&part, r0, r1, type);
    }
  }
}

#define MATMUL_CODED(id)                                                                                                         \
  static void matmul_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                                          \
    matmul_coded(m, r0, r1, scratch, IJ_DTYPE_##id);                                                                             \
  }
IJ_CODED_LIST(MATMUL_CODED)

/* The coded entries of a level; the decoders have been set before. */
static void coded_fill(ij_kernels *k) {
#define SET_CODED(id) k->matmul[IJ_DTYPE_##id] = matmul_##id;
  IJ_CODED_LIST(SET_CODED)
  memcpy(decoders, k->decode, sizeof decoders);
}

#endif
