/* matmul_dozens_avx2.c: nine to some dozens of tokens times block and split types, as experts of a prompt and sessions in one step need it.
 *
 * So few tokens leave decoding a large share, and a panel as of matmul_tile.h would pass through the second-level cache for their sake.
 * Here eight rows are decoded a block of k at a time into a buffer that stays in the first-level cache, and x passes by: laid out anew
 * before, three tokens of a step side by side, so that it streams from the second-level cache, which must hold it. Four rows and one half
 * of a step make the twelve sums of a pass; they are parked between blocks (k still ascends in every lane). The weights of the next block
 * are fetched meanwhile. (matmul_dozens_avx512.c is the same for larger registers; float types, which it takes too, gain nothing here.)
 */
#include "kernels/x86/vec_avx2.h"
#include "kernels/matmul_fold.h"
#include "kernels/x86/dozens.h"
#include "kernels/x86/fused_avx2.h"

/* What stays the same for all rows, and a block of eight of them, decoded. */
typedef struct dozens {
  const ij_matmul *m;
  ij_dtype type;
  int64_t r1, len, bytes, n_tile; /* values and bytes of a block of the type */
  float *x;                       /* [block of k][tile][step][token][16] */
  float *parked;                  /* [tile][token][row][16] */
  _Alignas(64) float w[DOZENS_ROWS * DOZENS_BLOCK];
} dozens;

/* Rows to fetch, `span` bytes of each, `quota` lines at a time. */
typedef struct fetch_ahead {
  const char *row;
  int64_t n_row, stride, at, span, quota;
} fetch_ahead;

/* What comes after values c0 to c0 + n of the rows from r on: the next block of theirs, the next rows, or what the caller says. */
static fetch_ahead dozens_ahead(const dozens *d, int64_t r, int64_t c0, int64_t n) {
  const ij_matmul *m = d->m;
  const bool same = c0 + n < m->k;
  const int64_t from = same ? c0 + n : 0, next = same ? r : r + DOZENS_ROWS;
  fetch_ahead f = {.stride = m->w_stride, .span = IJ_MIN(m->k - from, (int64_t)DOZENS_BLOCK) / d->len * d->bytes};
  f.n_row = IJ_MIN((int64_t)DOZENS_ROWS, d->r1 - next);
  f.row = (const char *)m->w + (f.n_row > 0 ? next : r) * m->w_stride + from / d->len * d->bytes;
  if (f.n_row <= 0 && m->w_next) {
    f.n_row = IJ_MIN((int64_t)DOZENS_ROWS, m->n_next);
    f.row = m->w_next;
  }
  f.quota = ij__div_up(DOZENS_ROWS * ij__div_up(f.span, 64), d->n_tile);
  return f;
}

static void fetch_some(fetch_ahead *f) {
  for (int64_t i = 0; i < f->quota && f->n_row > 0; i++) {
    v_prefetch2(f->row + f->at);
    f->at += 64;
    if (f->at < f->span) continue;
    f->at = 0;
    f->row += f->stride;
    f->n_row--;
  }
}

/* One half of a block of k for four rows and nt tokens. parked: [token][DOZENS_ROWS][16]. */
INLINE void dozens_pass(const float *w, const float *x, int64_t n_step, float *parked, const bool first, const int nt) {
  vec c[DOZENS_NT][MR];
  UNROLL for (int t = 0; t < nt; t++) {
    UNROLL for (int r = 0; r < MR; r++) c[t][r] = first ? v_zero() : v_load(parked + (t * DOZENS_ROWS + r) * 16);
  }
  for (int64_t s = 0; s < n_step; s++, w += 16, x += nt * 16) {
    vec xs[DOZENS_NT];
    UNROLL for (int t = 0; t < nt; t++) xs[t] = v_load(x + t * 16);
    UNROLL for (int r = 0; r < MR; r++) {
      vec b = v_load(w + r * DOZENS_BLOCK);
      UNROLL for (int t = 0; t < nt; t++) c[t][r] = v_fma(xs[t], b, c[t][r]);
    }
  }
  UNROLL for (int t = 0; t < nt; t++) {
    UNROLL for (int r = 0; r < MR; r++) v_store(parked + (t * DOZENS_ROWS + r) * 16, c[t][r]);
  }
}

INLINE void dozens_tile(const dozens *d, const float *x, int64_t n_step, float *parked, const bool first, const int nt) {
  for (int64_t r = 0; r < DOZENS_ROWS; r += MR) {
    for (int64_t half = 0; half < 16; half += V) {
      dozens_pass(d->w + r * DOZENS_BLOCK + half, x + half, n_step, parked + r * 16 + half, first, nt);
    }
  }
}

static void dozens_tile_any(const dozens *d, const float *x, int64_t n_step, float *parked, bool first, int64_t nt) {
  switch (nt) {
    case 2: dozens_tile(d, x, n_step, parked, first, 2); break;
    default: dozens_tile(d, x, n_step, parked, first, 3);
  }
}

/* y of n_row rows from r on, from the parked sums. */
static void dozens_store(const dozens *d, int64_t r, int64_t n_row) {
  const float *parked = d->parked;
  for (int64_t t = 0; t < d->m->n; t++, parked += DOZENS_ROWS * 16) {
    float sums[BATCH];
    fold_batch(sums, parked, 16, IJ_ORDER_PLAIN);
    store_batch(d->m->y + t * d->m->ldy + r, 0, sums, 1, n_row);
  }
}

/* All of k for DOZENS_ROWS rows from r on. */
static void dozens_rows(dozens *d, int64_t r) {
  const ij_matmul *m = d->m;
  const float *x = d->x;
  for (int64_t c0 = 0, n; c0 < m->k; c0 += n) {
    n = IJ_MIN(m->k - c0, (int64_t)DOZENS_BLOCK);
    fetch_ahead f = dozens_ahead(d, r, c0, n);
    dozens_decode_rows(d->w, m, d->type, r, d->r1, c0, n);
    float *parked = d->parked;
    for (int64_t t = 0, nt; t < m->n; t += nt, x += nt * n, parked += nt * DOZENS_ROWS * 16) {
      nt = dozens_nt(m->n - t);
      fetch_some(&f);
      dozens_tile_any(d, x, n / 16, parked, c0 == 0, nt);
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
  d.x = ij__x_place(m, IJ_X_AVX2 + IJ_ORDER_COUNT, scratch, &made);
  d.parked = ij__aligned64(scratch + m->n * m->k);
  if (!made) dozens_pack(d.x, m);
  for (int64_t r = r0; r < r1; r += DOZENS_ROWS) {
    dozens_rows(&d, r);
    dozens_store(&d, r, IJ_MIN((int64_t)DOZENS_ROWS, r1 - r));
  }
}

#define MATMUL_DOZENS(id)                                                                                                        \
  static void matmul_dozens_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                                   \
    matmul_dozens(m, r0, r1, scratch, IJ_DTYPE_##id);                                                                            \
  }
IJ_CODED_LIST(MATMUL_DOZENS)

void ij__matmul_dozens_fill_avx2(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
  memcpy(decoders, k->decode, sizeof decoders);
#define SET_DOZENS(id) k->matmul[IJ_DTYPE_##id] = matmul_dozens_##id;
  IJ_CODED_LIST(SET_DOZENS)
#undef SET_DOZENS
}
