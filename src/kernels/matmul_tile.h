/* matmul_tile.h: the tiled matrix product, written once and included by one file per vector level.
 *
 * The including file defines V (floats per register: 16, 8 or 4), the type vec, and the v_ operations; everything here is static.
 * k runs across the 16 lanes of the one order, so the rows of x are used where they lie. A register holds V of an output's 16
 * lanes: PASSES = 16 / V passes over a tile whose data stays in the first-level cache make all of them.
 *
 *   many tokens   weight rows are widened once into a packed panel in scratch, MR rows interleaved, one plane per pass:
 *                   group of MR rows: [pass][step of 16 k][row in group][V]
 *                 The first tile of NT tokens fills the panel on its way, the other tiles run over it; k is cut in blocks so that
 *                 the tile's x stays in the first-level cache, with the partial sums parked between blocks (k still ascends in
 *                 every lane). Meanwhile the next block of x and the weights of the next panel are fetched.
 *   few tokens    weights are widened in registers on the way, because memory is the limit.
 *
 * Block and split types are decoded a stretch of a few rows at a time, into a buffer that stays in the first-level cache (few tokens,
 * matmul_coded.h), or on the way into the panel.
 *
 * Both leave their sums to matmul_fold.h.
 */
#ifndef IJ_KERNELS_MATMUL_TILE_H
#define IJ_KERNELS_MATMUL_TILE_H

#include <string.h>

#include "kernels/kernels_int.h"
#include "kernels/lookahead.h"
#include "kernels/matmul_fold.h"

/* Weights of the next panel, fetched towards the cache while this one is used: a cursor over rows. */
typedef struct prefetcher {
  const char *row;
  int64_t stride, row_bytes, offset, n_row;
  int64_t quota, step; /* bytes per block of a tile, and per step of it */
} prefetcher;

INLINE vec v_widen(const char *p, const ij_dtype type) {
  if (type == IJ_DTYPE_F32) return v_load((const float *)(const void *)p);
  if (type == IJ_DTYPE_BF16) return v_load_bf16(p);
  return v_load_f16(p);
}

INLINE int64_t type_bytes(const ij_dtype type) { return type == IJ_DTYPE_F32 ? 4 : 2; }

/* ---- tails: the last k mod 16 values, padded with zeros ------------------------------------------------------------------------ */

/* Of tokens [t, t + nt). */
static void pad_x(float *out, const ij_matmul *m, int64_t t, int64_t nt) {
  int64_t done = m->k & ~(int64_t)15, left = m->k - done;
  memset(out, 0, (size_t)nt * 16 * sizeof *out);
  for (int64_t i = 0; i < nt; i++) memcpy(out + i * 16, ij__x_row(m, t + i) + done, (size_t)left * sizeof *out);
}

INLINE void pad_w(float *out, const char *row, int64_t k, const ij_dtype type) {
  char bytes[64] = {0};
  int64_t done = k & ~(int64_t)15;
  memcpy(bytes, row + done * type_bytes(type), (size_t)((k - done) * type_bytes(type)));
  for (int p = 0; p < PASSES; p++) v_store(out + p * V, v_widen(bytes + p * V * type_bytes(type), type));
}

/* ---- few tokens: straight from memory ------------------------------------------------------------------------------------------ */

/* With many tokens x takes the first-level cache, so weights are fetched to the second only. */
INLINE void direct_prefetch(const char *p, const int nt) {
  if (nt > 3) {
    v_prefetch2(p);
  } else {
    v_prefetch(p);
  }
}

/* One step of 16 k. */
INLINE void direct_step(vec (*c)[4][PASSES], const char *const *row, int64_t s, const float *x, int64_t ldx, const int n_row, const int nt,
                        const ij_dtype type) {
  UNROLL for (int p = 0; p < PASSES; p++) {
    vec b[4];
    UNROLL for (int r = 0; r < n_row; r++) b[r] = v_widen(row[r] + (s * 16 + p * V) * type_bytes(type), type);
    UNROLL for (int t = 0; t < nt; t++) {
      vec a = v_load(x + t * ldx + s * 16 + p * V);
      UNROLL for (int r = 0; r < n_row; r++) c[t][r][p] = v_fma(a, b[r], c[t][r][p]);
    }
  }
}

/* Partial sums of n_row rows (2 or 4: rows first .. of group g) and nt tokens, all 16 lanes at once. */
INLINE void direct_tile(const char *const *w, const lookahead *f, const float *x, int64_t ldx, const float *x_tail, int64_t k, float *sums,
                        const int first, const int n_row, const int nt, const ij_dtype type) {
  vec c[DIRECT_NT][4][PASSES];
  const char *row[4];
  UNROLL for (int r = 0; r < n_row; r++) {
    row[r] = w[first + r];
    UNROLL for (int t = 0; t < nt; t++) {
      UNROLL for (int p = 0; p < PASSES; p++) c[t][r][p] = v_zero();
    }
  }
  const int64_t per_line = 4 / type_bytes(type), n_step = k / 16; /* steps to a cache line, each line prefetched once */
  int64_t s = 0, turn = n_step - f->bytes / (16 * type_bytes(type)); /* from here on the line ahead is in the next group */
  for (; s + per_line <= turn; s += per_line) {
    UNROLL for (int r = 0; r < n_row; r++) direct_prefetch(row[r] + s * 16 * type_bytes(type) + f->before, nt);
    UNROLL for (int i = 0; i < per_line; i++) direct_step(c, row, s + i, x, ldx, n_row, nt, type);
  }
  for (; s + per_line <= n_step; s += per_line) {
    UNROLL for (int r = 0; r < n_row; r++) direct_prefetch(row[r] + s * 16 * type_bytes(type) + f->after, nt);
    UNROLL for (int i = 0; i < per_line; i++) direct_step(c, row, s + i, x, ldx, n_row, nt, type);
  }
  for (; s < n_step; s++) direct_step(c, row, s, x, ldx, n_row, nt, type);
  if (k % 16 != 0) {
    UNROLL for (int r = 0; r < n_row; r++) {
      float padded[16];
      pad_w(padded, row[r], k, type);
      UNROLL for (int t = 0; t < nt; t++) {
        UNROLL for (int p = 0; p < PASSES; p++)
          c[t][r][p] = v_fma(v_load(x_tail + t * 16 + p * V), v_load(padded + p * V), c[t][r][p]);
      }
    }
  }
  UNROLL for (int t = 0; t < nt; t++) store_sums(sums + t * BATCH, first, n_row, c[t]);
}

/* One batch of at most V rows and nt tokens. */
INLINE void direct_batch(const ij_matmul *m, int64_t r0, int64_t r1, int64_t r_end, const lookahead *f, const float *x,
                         const float *x_tail, float *sums, const int nt, const ij_dtype type) {
  const int rows = nt == 1 || V == 16 ? 4 : 2; /* what the registers hold */
  for (int64_t r = r0; r < r1; r += MR) {
    const char *w[MR];
    for (int i = 0; i < MR; i++) w[i] = (const char *)m->w + IJ_MIN(r + i, r1 - 1) * m->w_stride;
    lookahead ahead = lookahead_at(f, (r_end - r) / MR);
    direct_tile(w, &ahead, x, m->ldx, x_tail, m->k, sums + (r - r0) * 4, 0, rows, nt, type);
    if (rows == 2) direct_tile(w, &ahead, x, m->ldx, x_tail, m->k, sums + (r - r0) * 4, 2, rows, nt, type);
  }
}

INLINE void direct(const ij_matmul *m, int64_t r0, int64_t r1, const ij_dtype type) {
  float sums[DIRECT_NT * BATCH] = {0}, x_tail[DIRECT_NT * 16]; /* rows that a short batch lacks are folded too, and dropped */
  const int64_t row_bytes = m->k * type_bytes(type);
  const lookahead f = lookahead_of(m, row_bytes);
  lookahead_start(&f, (const char *)m->w + r0 * m->w_stride, m->w_stride, r1 - r0, row_bytes);
  for (int64_t r = r0; r < r1; r += V) {
    int64_t n_row = IJ_MIN(V, r1 - r);
    if (r + V >= r1 && m->w_next) lookahead_start(&f, m->w_next, m->w_stride, m->n_next, row_bytes);
    for (int64_t t = 0, nt; t < m->n; t += nt) {
      nt = m->rows ? 1 : tile_tokens(m->n - t, DIRECT_NT);
      const float *x = ij__x_row(m, t);
      if (m->k % 16 != 0) pad_x(x_tail, m, t, nt);
      switch (nt) {
        case 1: direct_batch(m, r, r + n_row, r1, &f, x, x_tail, sums, 1, type); break;
        case 2: direct_batch(m, r, r + n_row, r1, &f, x, x_tail, sums, 2, type); break;
        case 3: direct_batch(m, r, r + n_row, r1, &f, x, x_tail, sums, 3, type); break;
#if DIRECT_NT > 3
        case 4: direct_batch(m, r, r + n_row, r1, &f, x, x_tail, sums, 4, type); break;
        case 5: direct_batch(m, r, r + n_row, r1, &f, x, x_tail, sums, 5, type); break;
        case 6: direct_batch(m, r, r + n_row, r1, &f, x, x_tail, sums, 6, type); break;
#endif
        default: break;
      }
      store_batch(m->y + t * m->ldy + r, m->ldy, sums, nt, n_row);
    }
  }
}

/* ---- many tokens: over a packed panel ------------------------------------------------------------------------------------------ */

/* The last step of a group in the panel: what is left of its rows, padded. */
INLINE void pack_tail(float *w, int64_t w_pass, const char *const *source, int64_t k, const ij_dtype type) {
  for (int r = 0; r < MR; r++) {
    float padded[16];
    pad_w(padded, source[r], k, type);
    for (int p = 0; p < PASSES; p++) v_store(w + p * w_pass + r * V, v_load(padded + p * V));
  }
}

/* A block of k for one group of rows and one tile of tokens. */
typedef struct tile_args {
  float *w;
  int64_t w_pass;         /* floats between the planes of two passes */
  const char *source[MR]; /* the first tile of a panel widens w from here on its way */
  ij_dtype type;
  bool pack;
  const float *x;
  int64_t x_at[NT], n_step; /* where the tokens' values are, from x on */
  float *parked;  /* partial sums between blocks: [pass][token][row][V] */
  bool first, last;
  float *sums;
  const char *w_ahead, *x_ahead; /* prefetched along the way, this many bytes per step */
  int64_t w_ahead_step, x_ahead_step;
} tile_args;

/* The last pass over the last block: its sums are in c, those of the passes before are parked. */
INLINE void finish_tile(const tile_args *a, vec (*c)[MR], const int nt) {
  UNROLL for (int t = 0; t < nt; t++) {
    vec all[MR][PASSES];
    UNROLL for (int r = 0; r < MR; r++) {
      UNROLL for (int p = 0; p < PASSES - 1; p++) all[r][p] = v_load(a->parked + ((p * NT + t) * MR + r) * V);
      all[r][PASSES - 1] = c[t][r];
    }
    store_sums(a->sums + t * BATCH, 0, MR, all);
  }
}

/* Row r of w for one step: from the panel, or widened and put there. Doing it here hides the time of these stores behind arithmetic. */
INLINE vec tile_row(float *w, int r, const tile_args *a, int64_t at, const bool pack, const ij_dtype type) {
  if (!pack) return v_load(w + r * V);
  vec b = v_widen(a->source[r] + at, type);
  v_store(w + r * V, b);
  return b;
}

INLINE void tile_block(const tile_args *a, const int nt, const bool pack, const ij_dtype type) {
  const char *w_ahead = a->w_ahead, *x_ahead = a->x_ahead;
  for (int p = 0; p < PASSES; p++) {
    vec c[NT][MR];
    float *parked = a->parked + p * NT * MR * V;
    UNROLL for (int t = 0; t < nt; t++) {
      UNROLL for (int r = 0; r < MR; r++) c[t][r] = v_zero();
    }
    if (!a->first) {
      UNROLL for (int t = 0; t < nt; t++) {
        UNROLL for (int r = 0; r < MR; r++) c[t][r] = v_load(parked + (t * MR + r) * V);
      }
    }
    float *w = a->w + p * a->w_pass;
    const float *x = a->x + p * V;
    int64_t at = p * V * type_bytes(type);
    const int64_t w_ahead_step = a->w_ahead_step, x_ahead_step = a->x_ahead_step;
    int64_t x_at[NT];
    UNROLL for (int t = 1; t < nt; t++) x_at[t] = a->x_at[t];
    for (int64_t s = a->n_step; s > 0; s--) {
      v_prefetch2(w_ahead);
      v_prefetch2(x_ahead);
      w_ahead += w_ahead_step;
      x_ahead += x_ahead_step;
#if V == 8
      vec xs[NT]; /* 12 sums, 3 x and 1 w fill the 16 registers */
      UNROLL for (int t = 0; t < nt; t++) xs[t] = v_load(t == 0 ? x : x + x_at[t]);
      UNROLL for (int r = 0; r < MR; r++) {
        vec b = tile_row(w, r, a, at, pack, type);
        UNROLL for (int t = 0; t < nt; t++) c[t][r] = v_fma(xs[t], b, c[t][r]);
      }
#else
      vec b[MR];
      UNROLL for (int r = 0; r < MR; r++) b[r] = tile_row(w, r, a, at, pack, type);
      UNROLL for (int t = 0; t < nt; t++) {
        vec xt = v_load(t == 0 ? x : x + x_at[t]);
        UNROLL for (int r = 0; r < MR; r++) c[t][r] = v_fma(xt, b[r], c[t][r]);
      }
#endif
      w += MR * V;
      x += 16;
      at += 16 * type_bytes(type);
    }
    if (a->last && p == PASSES - 1) {
      finish_tile(a, c, nt);
    } else {
      UNROLL for (int t = 0; t < nt; t++) {
        UNROLL for (int r = 0; r < MR; r++) v_store(parked + (t * MR + r) * V, c[t][r]);
      }
    }
  }
}

INLINE void tile_block_nt(const tile_args *a, int64_t nt, const bool pack, const ij_dtype type) {
  switch (nt) {
    case 1: tile_block(a, 1, pack, type); break;
    case 2: tile_block(a, 2, pack, type); break;
    case 3: tile_block(a, 3, pack, type); break;
#if NT > 3
    case 4: tile_block(a, 4, pack, type); break;
    case 5: tile_block(a, 5, pack, type); break;
    case 6: tile_block(a, 6, pack, type); break;
#endif
    default: break;
  }
}

static void tile_block_any(const tile_args *a, int64_t nt) {
  if (!a->pack) {
    tile_block_nt(a, nt, false, IJ_DTYPE_F32);
  } else if (a->type == IJ_DTYPE_F32) {
    tile_block_nt(a, nt, true, IJ_DTYPE_F32);
  } else if (a->type == IJ_DTYPE_BF16) {
    tile_block_nt(a, nt, true, IJ_DTYPE_BF16);
  } else {
    tile_block_nt(a, nt, true, IJ_DTYPE_F16);
  }
}

/* Sets where group g of a panel gets its weights from step s0 on. The padded last step is packed at once. */
static void tile_source(tile_args *a, const ij_matmul *m, int64_t r, int64_t r_last, int64_t s0) {
  const char *row[MR];
  for (int i = 0; i < MR; i++) {
    row[i] = (const char *)m->w + IJ_MIN(r + i, r_last) * m->w_stride;
    a->source[i] = row[i] + s0 * 16 * type_bytes(a->type);
  }
  if (s0 < m->k / 16) return;
  a->pack = false;
  if (a->type == IJ_DTYPE_F32) pack_tail(a->w, a->w_pass, row, m->k, IJ_DTYPE_F32);
  if (a->type == IJ_DTYPE_BF16) pack_tail(a->w, a->w_pass, row, m->k, IJ_DTYPE_BF16);
  if (a->type == IJ_DTYPE_F16) pack_tail(a->w, a->w_pass, row, m->k, IJ_DTYPE_F16);
}

/* Gives the next stretch of weights to fetch to a block. */
static void prefetch_w(prefetcher *f, tile_args *a) {
  if (f->n_row == 0) {
    a->w_ahead = (const char *)a->w;
    a->w_ahead_step = 0;
    return;
  }
  a->w_ahead = f->row + f->offset;
  a->w_ahead_step = f->step;
  f->offset += f->quota;
  if (f->offset >= f->row_bytes) {
    f->offset = 0;
    f->row += f->stride;
    f->n_row--;
  }
}

/* What is the same for all tiles of a panel. */
typedef struct panel {
  const ij_matmul *m;
  int64_t r0, n_row, n_group;
  ij_dtype type;
  ij_decode_fn decode; /* of a coded type, else NULL: rows pass through `decoded`, MR rows of one block of k */
  int64_t unit;        /* blocks of k are cut at multiples of this many steps */
  float *packed, *parked, *decoded;
  prefetcher fetch;
} panel;

/* Decoders of a level that write a row's values where the panel has them (V = 16: steps MR * 16 floats apart), or NULL. */
static ij_decode_fn panel_decoders[IJ_DTYPE_COUNT];

/* Group of rows from r on, steps [s0, s1): into the panel at once, or as float32 for the tile to pack. */
static void decode_source(const panel *pn, tile_args *a, int64_t r, int64_t s0, int64_t s1) {
  const int64_t r_last = pn->r0 + pn->n_row - 1, n = (s1 - s0) * 16;
  const ij_decode_fn into_panel = panel_decoders[pn->type];
  if (into_panel) a->pack = false;
  for (int i = 0; i < MR; i++) {
    ij_stretch s = ij__stretch_of(pn->m, IJ_MIN(r + i, r_last));
    s.c0 = s0 * 16;
    s.n = n;
    if (into_panel) {
      into_panel(a->w + i * V, &s);
      continue;
    }
    if (r + i > r_last) {
      a->source[i] = a->source[i - 1];
      continue;
    }
    float *to = pn->decoded + i * n;
    pn->decode(to, &s);
    a->source[i] = (const char *)to;
  }
}

/* Steps [s0, s1) of k for all rows of the panel and tokens [t, t + nt), the values of which are at x and from there on at x_at. The block of
 * x that comes next, from value `next_k` of token `next` on, is fetched on the way: each group takes a part of one of its rows. */
static void panel_block(panel *pn, int64_t t, int64_t nt, int64_t s0, int64_t s1, const float *x, const int64_t *x_at, int64_t next, int64_t next_k) {
  const ij_matmul *m = pn->m;
  const int64_t all = ij__div_up(m->k, 16), parts = IJ_MAX(1, pn->n_group / nt), part_steps = ij__div_up(s1 - s0, parts);
  float sums[NT * BATCH];
  tile_args a = {.w_pass = all * MR * V, .x = x, .n_step = s1 - s0, .first = s0 == 0, .last = s1 == all};
  memcpy(a.x_at, x_at, sizeof a.x_at);
  a.w = pn->packed + s0 * MR * V;
  a.parked = pn->parked;
  a.x_ahead_step = ij__div_up(64, parts * PASSES);
  a.type = pn->decode ? IJ_DTYPE_F32 : pn->type;
  int64_t x_row = 0, x_part = 0;
  if (pn->n_group < BATCH_GROUPS) memset(sums, 0, sizeof sums); /* rows that a short batch lacks are folded too, and dropped */
  for (int64_t g = 0; g < pn->n_group; g++) {
    int64_t in_batch = g % BATCH_GROUPS;
    a.sums = sums + in_batch * 16;
    prefetch_w(&pn->fetch, &a);
    a.pack = t == 0;
    if (a.pack && pn->decode) decode_source(pn, &a, pn->r0 + g * MR, s0, s1);
    if (a.pack && !pn->decode) tile_source(&a, m, pn->r0 + g * MR, pn->r0 + pn->n_row - 1, s0);
    a.x_ahead = (const char *)(ij__x_row(m, IJ_MIN(next + x_row, m->n - 1)) + next_k + x_part * part_steps * 16);
    if (++x_part == parts) {
      x_part = 0;
      x_row = IJ_MIN(x_row + 1, nt - 1);
    }
    tile_block_any(&a, nt);
    a.w += all * 16 * MR;
    a.parked += 16 * MR * NT;
    if (!a.last || (in_batch != BATCH_GROUPS - 1 && g != pn->n_group - 1)) continue;
    int64_t r = (g - in_batch) * MR;
    store_batch(m->y + t * m->ldy + pn->r0 + r, m->ldy, sums, nt, pn->n_row - r);
  }
}

/* Into how many blocks k is cut, each of nearly BLOCK_STEPS steps. */
static int64_t k_blocks(const ij_matmul *m) { return IJ_MAX(1, (m->k / 16 + BLOCK_STEPS / 2) / BLOCK_STEPS); }

static void panel_run(panel *pn) {
  const ij_matmul *m = pn->m;
  int64_t whole = m->k / 16, n_block = k_blocks(m), n_unit = whole / pn->unit;
  for (int64_t t = 0, nt; t < m->n; t += nt) {
    nt = tile_tokens(m->n - t, NT);
    const float *x = ij__x_row(m, t);
    int64_t x_at[NT] = {0}, next = t + nt < m->n ? t + nt : 0;
    for (int64_t i = 1; i < nt; i++) x_at[i] = ij__x_row(m, t + i) - x;
    for (int64_t b = 0; b < n_block; b++) {
      int64_t s0 = n_unit * b / n_block * pn->unit, s1 = n_unit * (b + 1) / n_block * pn->unit;
      bool more = b + 1 < n_block;
      panel_block(pn, t, nt, s0, s1, x + s0 * 16, x_at, more ? t : next, more ? s1 * 16 : 0);
    }
    if (m->k % 16 == 0) continue;
    float x_tail[NT * 16];
    pad_x(x_tail, m, t, nt);
    for (int64_t i = 0; i < nt; i++) x_at[i] = i * 16;
    panel_block(pn, t, nt, whole, whole + 1, x_tail, x_at, t, 0);
  }
}

/* Floats of the longest block of k of a coded type, MR rows of it: BLOCK_STEPS and a half, and what the cut at a unit adds. */
enum { DECODED_FLOATS = MR * 16 * (BLOCK_STEPS + BLOCK_STEPS / 2 + 16) };

/* Rows that a panel may have: as many as scratch holds with their parked sums, in whole batches where possible. */
static int64_t panel_rows(const ij_matmul *m, bool coded) {
  int64_t per_row = ij__div_up(m->k, 16) * 16 + 16 * NT, room = IJ_SCRATCH_ALIGNED - (coded ? DECODED_FLOATS : 0);
  int64_t n = IJ_MIN(m->n > 64 ? PANEL_ROWS : PANEL_ROWS_FEW, room / per_row);
  return n >= 16 ? n & ~(int64_t)15 : n & ~(int64_t)(MR - 1);
}

/* What panel pn fetches meanwhile: the n_next rows from `ahead` on. */
static void panel_fetch(panel *pn, const char *ahead, int64_t n_next, int64_t row_bytes) {
  const ij_matmul *m = pn->m;
  int64_t n_block = k_blocks(m), block_steps = m->k / 16 / n_block;
  int64_t quota = ij__div_up(n_next * row_bytes, ij__div_up(m->n, NT) * pn->n_group * n_block);
  int64_t parts = ij__div_up(row_bytes, quota); /* whole parts of a row, so that its end costs no block */
  quota = ij__div_up(row_bytes, parts);
  pn->fetch = (prefetcher){.row = ahead, .stride = m->w_stride, .row_bytes = row_bytes, .n_row = n_next, .quota = quota};
  pn->fetch.step = IJ_MIN(64, ij__div_up(quota, block_steps * PASSES));
}

/* All panels of rows [r0, r1), max_rows each. */
static void panels(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, int64_t max_rows, ij_dtype type, ij_decode_fn decode) {
  float *packed = ij__aligned64(scratch);
  int64_t row_bytes = ij__dtype_row_bytes(type, m->k), group_floats = ij__div_up(m->k, 16) * 16 * MR;
  for (int64_t r = r0; r < r1; r += max_rows) {
    panel pn = {.m = m, .r0 = r, .n_row = IJ_MIN(max_rows, r1 - r), .packed = packed, .type = type, .decode = decode};
    pn.unit = decode ? ij__stretch_unit(m, type) / 16 : 1;
    pn.n_group = ij__div_up(pn.n_row, MR);
    pn.parked = packed + pn.n_group * group_floats;
    pn.decoded = pn.parked + pn.n_group * MR * 16 * NT;
    int64_t next = r + pn.n_row, n_next = IJ_MIN(max_rows, r1 - next);
    const char *ahead = (const char *)m->w + next * m->w_stride;
    if (n_next <= 0 && m->w_next) { /* the last panel fetches what the caller says comes next */
      n_next = IJ_MIN(max_rows, m->n_next);
      ahead = m->w_next;
    }
    if (n_next > 0) panel_fetch(&pn, ahead, n_next, row_bytes);
    panel_run(&pn);
  }
}

INLINE void matmul_tiled(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type) {
  int64_t max_rows = panel_rows(m, false);
  if (m->n <= (type == IJ_DTYPE_F32 ? DIRECT_MAX_N_F32 : DIRECT_MAX_N) || m->k < 16 || max_rows == 0) {
    direct(m, r0, r1, type);
  } else {
    panels(m, r0, r1, scratch, max_rows, type, NULL);
  }
}

static void matmul_f32(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { matmul_tiled(m, r0, r1, scratch, IJ_DTYPE_F32); }
static void matmul_bf16(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { matmul_tiled(m, r0, r1, scratch, IJ_DTYPE_BF16); }
static void matmul_f16(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { matmul_tiled(m, r0, r1, scratch, IJ_DTYPE_F16); }

#include "kernels/matmul_coded.h"

#endif
