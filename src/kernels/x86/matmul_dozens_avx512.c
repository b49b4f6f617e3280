/* matmul_dozens_avx512.c: nine to some dozens of tokens times any weights, as the experts of a prompt and sessions stepped together need it.
 *
 * So few tokens leave decoding a large share, and a panel as of matmul_tile.h would pass through the second-level cache for their sake.
 * Here eight rows are decoded a block of k at a time into a buffer that stays in the first-level cache, and x passes by: laid out anew
 * before, three tokens of a step side by side, so that it streams from the second-level cache, which must hold it. Partial sums are
 * parked between blocks (k still ascends in every lane). The weights of the next block are fetched meanwhile.
 */
#include "kernels/x86/vec_avx512.h"
#include "kernels/matmul_fold.h"
#include "kernels/x86/dozens.h"
#include "kernels/x86/fused_avx512.h"

/* X(identifier) */
#define DOZENS_LIST(X) X(BF16) X(F16) IJ_CODED_LIST(X)

static void (*wideners[IJ_DTYPE_COUNT])(float *y, const void *x, int64_t n);

/* Rows to fetch: every tile takes one of them, in two halves, or where there are few tiles two; `second` bytes on from the first place,
 * `stride` from one tile to the next, for n_tile tiles. Both places move on by `step` bytes with every step. */
typedef struct fetch_ahead {
  const char *at;
  int64_t second, stride, n_tile, step;
} fetch_ahead;

/* What stays the same for all rows, and a block of eight of them, decoded. */
typedef struct dozens {
  const ij_matmul *m;
  ij_dtype type;
  int64_t r1, len, bytes, n_tile; /* values and bytes of a block of the type */
  float *x;                       /* [block of k][tile][step][token][16] */
  float *parked;                  /* [tile][token][row][16] */
  float *sums;
  _Alignas(64) float w[DOZENS_ROWS * DOZENS_BLOCK];
} dozens;

/* ---- decoding ------------------------------------------------------------------------------------------------------------------- */

static const uint8_t *dozens_codes(const dozens *d, int64_t r, int64_t c0) {
  return (const uint8_t *)d->m->w + IJ_MIN(r, d->r1 - 1) * d->m->w_stride + c0 / d->len * d->bytes;
}

/* Scales of all rows come before the first value, so that nothing waits. */
static void dozens_q8_0(dozens *d, int64_t r, int64_t c0, int64_t n) {
  _Alignas(64) float s[DOZENS_ROWS][DOZENS_BLOCK / 32];
  const int64_t n_block = n / 32, bytes = coded_bytes(IJ_DTYPE_Q8_0);
  for (int64_t i = 0; i < DOZENS_ROWS; i++) block_scales(s[i], dozens_codes(d, r + i, c0), n_block, IJ_DTYPE_Q8_0);
  for (int64_t i = 0; i < DOZENS_ROWS; i++) {
    const uint8_t *b = dozens_codes(d, r + i, c0);
    sink k = {.y = d->w + i * DOZENS_BLOCK, .step = 16};
#pragma GCC unroll 4
    for (int64_t j = 0; j < n_block; j++, b += bytes, k.y += 32) block32(&k, 0, b, s[i] + j, IJ_DTYPE_Q8_0);
  }
}

/* Values c0 to c0 + n of DOZENS_ROWS rows from r on, of which those that are not there repeat the last. */
static void dozens_decode(dozens *d, int64_t r, int64_t c0, int64_t n) {
  if (d->type == IJ_DTYPE_Q8_0) {
    dozens_q8_0(d, r, c0, n);
    return;
  }
  if (!ij__dtype_is_float(d->type)) {
    dozens_decode_rows(d->w, d->m, d->type, r, d->r1, c0, n);
    return;
  }
  for (int64_t i = 0; i < DOZENS_ROWS; i++) wideners[d->type](d->w + i * DOZENS_BLOCK, dozens_codes(d, r + i, c0), n);
}

/* ---- fetching ------------------------------------------------------------------------------------------------------------------- */

/* What comes after values c0 to c0 + n of the rows from r on: the next block of theirs, the next rows, or what the caller says. */
static fetch_ahead dozens_ahead(const dozens *d, int64_t r, int64_t c0, int64_t n) {
  const ij_matmul *m = d->m;
  const bool same = c0 + n < m->k, halves = d->n_tile >= DOZENS_ROWS;
  const int64_t from = same ? c0 + n : 0, next = same ? r : r + DOZENS_ROWS;
  int64_t span = IJ_MIN(m->k - from, (int64_t)DOZENS_BLOCK) / d->len * d->bytes, n_row = IJ_MIN((int64_t)DOZENS_ROWS, d->r1 - next);
  fetch_ahead f = {.at = (const char *)m->w + (n_row > 0 ? next : r) * m->w_stride + from / d->len * d->bytes};
  if (n_row <= 0 && m->w_next) {
    n_row = IJ_MIN((int64_t)DOZENS_ROWS, m->n_next);
    f.at = m->w_next;
  }
  f.n_tile = halves ? n_row : n_row / 2;
  f.second = halves ? span / 2 : m->w_stride;
  f.stride = halves ? m->w_stride : 2 * m->w_stride;
  f.step = (halves ? span / 2 : span) * 16 / n + 1;
  return f;
}

/* ---- the product ---------------------------------------------------------------------------------------------------------------- */

/* A block of k for DOZENS_ROWS rows and up to DOZENS_NT tokens. Fields are written and read one by one: a copy of the whole would read by
 * vectors what has just been written by halves, and wait until all before is done. */
typedef struct tile_args {
  const float *w, *x;
  int64_t n_step;
  float *parked, *sums;
  bool first, last;
  const char *ahead; /* fetched along the way, here and `second` bytes on */
  int64_t second, ahead_step;
} tile_args;

INLINE void dozens_tile(const tile_args *a, const int nt) {
  vec c[DOZENS_NT][DOZENS_ROWS];
  float *parked = a->parked;
  UNROLL for (int t = 0; t < nt; t++) {
    UNROLL for (int r = 0; r < DOZENS_ROWS; r++) c[t][r] = v_zero();
  }
  if (!a->first) {
    UNROLL for (int t = 0; t < nt; t++) {
      UNROLL for (int r = 0; r < DOZENS_ROWS; r++) c[t][r] = v_load(parked + (t * DOZENS_ROWS + r) * 16);
    }
  }
  const float *w = a->w, *x = a->x;
  const char *ahead = a->ahead;
  const int64_t second = a->second, ahead_step = a->ahead_step;
  for (int64_t s = a->n_step; s > 0; s--) {
    vec xs[DOZENS_NT];
    v_prefetch(ahead);
    v_prefetch(ahead + second);
    ahead += ahead_step;
    UNROLL for (int t = 0; t < nt; t++) xs[t] = v_load(x + t * 16);
    UNROLL for (int r = 0; r < DOZENS_ROWS; r++) {
      vec b = v_load(w + r * DOZENS_BLOCK);
      IN_REGISTER(b);
      UNROLL for (int t = 0; t < nt; t++) c[t][r] = v_fma(xs[t], b, c[t][r]);
    }
    w += 16;
    x += nt * 16;
  }
  if (!a->last) {
    UNROLL for (int t = 0; t < nt; t++) {
      UNROLL for (int r = 0; r < DOZENS_ROWS; r++) v_store(parked + (t * DOZENS_ROWS + r) * 16, c[t][r]);
    }
  } else {
    UNROLL for (int t = 0; t < nt; t++) {
      UNROLL for (int r = 0; r < DOZENS_ROWS; r += MR) v_store(a->sums + t * BATCH + r * 4, v_fours(c[t][r], c[t][r + 1], c[t][r + 2], c[t][r + 3]));
    }
  }
}

static void dozens_tile_any(const tile_args *a, int64_t nt) {
  switch (nt) {
    case 2: dozens_tile(a, 2); break;
    default: dozens_tile(a, 3);
  }
}

/* All of k for DOZENS_ROWS rows from r on, the first of which is row `first` of a batch. */
static void dozens_rows(dozens *d, int64_t r, int64_t first) {
  const ij_matmul *m = d->m;
  tile_args a = {.w = d->w, .x = d->x};
  for (int64_t c0 = 0, n; c0 < m->k; c0 += n) {
    n = IJ_MIN(m->k - c0, (int64_t)DOZENS_BLOCK);
    const fetch_ahead f = dozens_ahead(d, r, c0, n);
    int64_t n_fetch = f.n_tile;
    dozens_decode(d, r, c0, n);
    a.n_step = n / 16;
    a.first = c0 == 0;
    a.last = c0 + n == m->k;
    a.parked = d->parked;
    a.sums = d->sums + first * 4;
    a.ahead = f.at;
    a.second = f.second;
    a.ahead_step = f.step;
    for (int64_t t = 0, nt; t < m->n; t += nt) {
      nt = dozens_nt(m->n - t);
      if (n_fetch-- <= 0) {
        a.ahead = (const char *)a.w;
        a.second = a.ahead_step = 0;
      }
      dozens_tile_any(&a, nt);
      a.x += nt * n;
      a.parked += nt * DOZENS_ROWS * 16;
      a.sums += nt * BATCH;
      a.ahead += f.stride;
    }
  }
}

static void matmul_dozens(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, ij_dtype type) {
  if (!dozens_suit(m)) {
    general[type](m, r0, r1, scratch);
    return;
  }
  dozens d;
  d.m = m;
  d.type = type;
  d.r1 = r1;
  d.len = ij__dtype_block_len(type);
  d.bytes = ij__dtype_block_bytes(type);
  d.n_tile = ij__div_up(m->n, DOZENS_NT);
  bool made;
  d.x = x_place(m, X_TILES, ORDER_PLAIN, scratch, &made);
  d.parked = ij__aligned64(scratch + m->n * m->k);
  d.sums = d.parked + m->n * DOZENS_ROWS * 16;
  memset(d.sums, 0, (size_t)(m->n * BATCH) * sizeof(float)); /* rows that a short batch lacks are folded too, and dropped */
  if (!made) dozens_pack(d.x, m);
  for (int64_t r = r0; r < r1; r += V) {
    for (int64_t i = 0; i < V && r + i < r1; i += DOZENS_ROWS) {
      dozens_rows(&d, r + i, i);
    }
    store_batch(m->y + r, m->ldy, d.sums, m->n, IJ_MIN(V, r1 - r));
  }
}

#define MATMUL_DOZENS(id)                                                                                                        \
  static void matmul_dozens_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                                   \
    matmul_dozens(m, r0, r1, scratch, IJ_DTYPE_##id);                                                                            \
  }
DOZENS_LIST(MATMUL_DOZENS)

void ij__matmul_dozens_fill_avx512(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
  memcpy(decoders, k->decode, sizeof decoders);
  memcpy(wideners, k->widen, sizeof wideners);
#define SET_DOZENS(id) k->matmul[IJ_DTYPE_##id] = matmul_dozens_##id;
  DOZENS_LIST(SET_DOZENS)
#undef SET_DOZENS
}
