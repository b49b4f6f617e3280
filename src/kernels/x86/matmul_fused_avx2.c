/* matmul_fused_avx2.c: one token times block and split types: decoded values go into the multiply-add from registers.
 *
 * Four rows, one of each quarter (fused_streams.h), advance together, 256 values at a time, in turns of 64 or 128, each with two sums: so
 * their chains of multiply-adds overlap, and the stretch of x stays in the first-level cache. What a row's next 256 values need (scales,
 * codes put together from parts, places in codebooks) is worked out between the turns, long before it is loaded: what has just been
 * stored cannot be loaded in other sizes without a wait. Two to eight tokens have few_avx2.h.
 */
#include "kernels/x86/vec_avx2.h"
#include "kernels/matmul_fold.h"
#include "kernels/x86/coded_avx2.h"
#include "kernels/x86/fused_avx2.h"
#include "kernels/x86/fused_streams.h"

/* Products of any number of tokens, and decoders. */
static void (*general[IJ_DTYPE_COUNT])(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);
static ij_decode_fn decoders[IJ_DTYPE_COUNT];

/* ---- rows --------------------------------------------------------------------------------------------------------------------- */

/* The four rows that advance together. */
typedef struct fused_rows {
  span_row row[MR], next[MR]; /* the next: those that come after them */
  ij_ahead ahead[2][MR];      /* of the span in use [now] and of the one that follows */
  int now;
} fused_rows;

static void rows_at(const fused_ctx *f, span_row row[MR], int64_t r) {
  for (int i = 0; i < MR; i++) {
    ij_stretch s = ij__stretch_of(f->m, IJ_MIN(r + i * f->quarter, f->r1 - 1));
    row[i] = (span_row){.codes = s.row, .scales = s.scales, .biases = s.biases};
  }
}

/* Turn j of all four rows; then what some of them need next, from value `next` of the rows `from` on, is worked out. */
INLINE void fused_turn(const fused_ctx *f, fused_rows *g, vec (*c)[PASSES], int64_t at, const int64_t j, const span_row *from, int64_t next,
                       const ij_dtype type) {
  const int turns = span_turns(type);
  const ij_ahead *a = g->ahead[g->now];
  UNROLL for (int i = 0; i < MR; i++) {
    ij_sink s = {.x = f->x + at + SPAN / turns * j, .sum = {{c[i][0]}, {c[i][1]}}, .n = 1, .fused = true};
    span_part(&s, &a[i], &g->row[i], at, j, type);
    c[i][0] = s.sum[0][0];
    c[i][1] = s.sum[1][0];
  }
  for (int64_t i = MR * j / turns; i < MR * (j + 1) / turns; i++) span_ahead(&g->ahead[!g->now][i], &from[i], next, f->m, type);
}

/* The values of the rows that make no whole span, by way of memory. */
static void fused_rest(const fused_ctx *f, int64_t r, vec (*c)[PASSES], int64_t at, ij_dtype type) {
  float y[SPAN];
  for (int i = 0; i < MR; i++) {
    ij_stretch s = ij__stretch_of(f->m, IJ_MIN(r + i * f->quarter, f->r1 - 1));
    s.c0 = at;
    s.n = f->m->k - at;
    decoders[type](y, &s);
    for (int64_t v = 0; v < s.n; v += 16) {
      UNROLL for (int p = 0; p < PASSES; p++) c[i][p] = v_fma(v_load(f->m->x + at + v + p * V), v_load(y + v + p * V), c[i][p]);
    }
  }
}

/* Row r and those of the other quarters. */
INLINE void fused_group(fused_ctx *f, fused_rows *g, int64_t r, float *sums, const ij_dtype type) {
  const int64_t whole = f->m->k / SPAN * SPAN;
  const uint8_t *ahead[MR];
  vec c[MR][PASSES];
  if (ij__dtype_is_split(type)) fetch_side(f, r + SIDE_AHEAD, type);
  memcpy(g->row, g->next, sizeof g->row);
  rows_at(f, g->next, r + 1);
  UNROLL for (int i = 0; i < MR; i++) {
    ahead[i] = f->ahead[i].row;
    ahead_step(&f->ahead[i], f->m->w_stride);
    UNROLL for (int p = 0; p < PASSES; p++) c[i][p] = v_zero();
  }
  for (int64_t at = 0; at < whole; at += SPAN) {
    const bool last = at + SPAN == whole;
    const span_row *from = last ? g->next : g->row;
    const int64_t next = last ? 0 : at + SPAN;
    UNROLL for (int i = 0; i < MR; i++) fetch(&ahead[i], span_bytes(type));
    for (int64_t j = 0; j < span_turns(type); j++) fused_turn(f, g, c, at, j, from, next, type);
    g->now = !g->now;
  }
  if (whole < f->m->k) {
    UNROLL for (int i = 0; i < MR; i++) fetch(&ahead[i], span_bytes(type));
  }
  UNROLL for (int i = 0; i < MR; i++) plain_order(c[i], span_order(type));
  if (whole < f->m->k) fused_rest(f, r, c, whole, type);
  store_sums(sums, 0, MR, c);
}

INLINE void fused_product(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type) {
  if (r0 >= r1) return;
  float sums[BATCH] = {0};
  fused_ctx f = {.m = m, .x = m->x, .r1 = r1, .quarter = ij__div_up(r1 - r0, MR)};
  fused_rows g;
  g.now = 0;
  if (span_order(type) != IJ_ORDER_PLAIN) f.x = x_in_steps(m, scratch, span_order(type));
  fused_start(&f, r0, ij__dtype_row_bytes(type, m->k));
  for (int64_t i = 0; i < SIDE_AHEAD && ij__dtype_is_split(type); i++) fetch_side(&f, r0 + i, type);
  rows_at(&f, g.next, r0);
  for (int i = 0; i < MR && m->k >= SPAN; i++) span_ahead(&g.ahead[0][i], &g.next[i], 0, m, type);
  for (int64_t r = r0; r < r0 + f.quarter; r += BATCH_GROUPS) {
    const int64_t n = IJ_MIN((int64_t)BATCH_GROUPS, r0 + f.quarter - r);
    for (int64_t i = 0; i < n; i++) fused_group(&f, &g, r + i, sums + i * 16, type);
    fused_store(&f, r, sums, n);
  }
}

/* x in another order must fit scratch: longer rows take the general way, and so do float32 scales, which no published file has. */
#define MATMUL_FUSED(id)                                                                                                         \
  static void matmul_fused_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                                    \
    if (m->n != 1 || m->k > IJ_SCRATCH_ALIGNED || ij__wide_side(m, IJ_DTYPE_##id)) {                                             \
      general[IJ_DTYPE_##id](m, r0, r1, scratch);                                                                                \
    } else {                                                                                                                     \
      fused_product(m, r0, r1, scratch, IJ_DTYPE_##id);                                                                          \
    }                                                                                                                            \
  }
IJ_CODED_LIST(MATMUL_FUSED)

void ij__matmul_fused_fill_avx2(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
  memcpy(decoders, k->decode, sizeof decoders);
#define SET_FUSED(id) k->matmul[IJ_DTYPE_##id] = matmul_fused_##id;
  IJ_CODED_LIST(SET_FUSED)
#undef SET_FUSED
}
