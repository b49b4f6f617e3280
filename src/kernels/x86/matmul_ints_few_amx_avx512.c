/* matmul_ints_few_amx_avx512.c: products of Q4_K and a few tokens in integers with AMX: a tile of x is all digits of up to five tokens, which have
 * been put together before. So there are two products of tiles for 64 values of 16 rows, or four of more tokens than that, where
 * a tile for each digit would need six; and each takes the same time as long as a tile has eight rows or fewer.
 */
#define TILED 1
#include "kernels/x86/ints_tiles_avx512.h"

#include "kernels/x86/ints_rows.h"

enum {
  LEAST = 3, FEW = 10, /* tokens: two are as quick in vectors */
  UNIT = 5             /* of a tile, at most */
};

/* Sums of a block: [token][digit][row]. */
typedef struct few_sums {
  _Alignas(64) int32_t low[3 * FEW][16];
  _Alignas(64) int32_t high[3 * FEW][16];
} few_sums;

/* Tokens of the first unit; the second has the others, if there are any. */
static int64_t first_unit(int64_t n) { return n <= UNIT ? n : ij__div_up(n, 2); }

/* ---- digits ---- */

/* [block][part of 64 values][token][digit][64], made here or by an earlier call of the same loop. m's x is only a name here. */
static const int8_t *few_digits(const ij_ints *const *x, const ij_matmul *m, void *room) {
  bool made;
  ij_matmul named = *m;
  if (m->ints) named.x = (const float *)(const void *)m->ints;
  int8_t *digits = (int8_t *)(void *)ij__x_place(&named, IJ_X_TILES, room, &made), *to = digits;
  for (int64_t b = 0; b * IJ_INTS < m->k && !made; b++) {
    for (int t = 0; t < 4; t++) {
      for (int64_t i = 0; i < m->n; i++) {
        for (int d = 0; d < 3; d++, to += 64) memcpy(to, x[i][b].digit[d] + 64 * t, 64);
      }
    }
  }
  return digits;
}

/* ---- products ---- */

/* Tiles: sums of the first and of the second unit with the lower bits of scales, the same with the higher, digits of either, codes of both. */
CODED void begin_sums(const int units) {
  _tile_zero(0);
  _tile_zero(2);
  if (units == 1) return;
  _tile_zero(1);
  _tile_zero(3);
}

/* 64 values; second: bytes from the digits of the first unit to those of the second. */
CODED void multiply_part(const tile_codes *w, int t, const int8_t *digits, int64_t second, const int units) {
  _tile_loadd(4, digits, 64);
  _tile_loadd(6, w->low[t], 64);
  _tile_dpbsud(0, 4, 6);
  _tile_loadd(7, w->high[t], 64);
  _tile_dpbsud(2, 4, 7);
  if (units == 1) return;
  _tile_loadd(5, digits + second, 64);
  _tile_dpbsud(1, 5, 6);
  _tile_dpbsud(3, 5, 7);
}

CODED void end_sums(few_sums *s, int64_t second, const int units) {
  _tile_stored(0, s->low[0], 64);
  _tile_stored(2, s->high[0], 64);
  if (units == 2) {
    _tile_stored(1, s->low[second], 64);
    _tile_stored(3, s->high[second], 64);
  }
  WRITTEN();
}

/* A block of sixteen rows of a piece: those of its r-th register. */
typedef struct few_block {
  int64_t b, r;
} few_block;

/* All blocks of a piece, which lies in place, in order: digits of x are in the first-level cache after the first rows. */
CODED few_block block_at(int64_t i) { return (few_block){i / GROUPS, i % GROUPS}; }

/* What y lacks of n tokens from number `first` on. */
CODED void add_some(const ints_piece *p, const few_sums *sums, const heads *h, few_block at, int64_t first, const int n) {
  const tile_sums s = {.low = sums->low, .high = sums->high, .by_token = 3, .by_digit = 1};
  const ij_ints *x[4];
  UNROLL for (int i = 0; i < n; i++) x[i] = p->x[first + i] + at.b;
  add_sums(p->sums + LANES * (GROUPS * first + at.r), GROUPS * LANES, &s, h, x, first, n);
}

/* The t-th quarter of the tokens. */
CODED void add_quarter(const ints_piece *p, const few_sums *sums, const heads *h, few_block at, int t) {
  const int64_t first = t * p->n_token / 4, n = (t + 1) * p->n_token / 4 - first;
  if (n == 3) add_some(p, sums, h, at, first, 3);
  if (n == 2) add_some(p, sums, h, at, first, 2);
  if (n == 1) add_some(p, sums, h, at, first, 1);
}

CODED void decode_ahead(tile_codes *codes, heads *h, const ints_piece *p, few_block at, int t) {
  const ints_lanes block = lanes_from(&p->codes, at.r, at.b * BLOCK_BYTES);
  decode_part(codes, h, &block, t);
}

/* The unit for matrices works on a block while vectors add up the block before and take the next one apart. */
CODED void few_tokens(const ints_piece *p, ints_feed *f, const int units) {
  const int64_t n = GROUPS * p->n_block, part = 3 * 64 * p->n_token, second = 3 * first_unit(p->n_token);
  tile_codes codes[2];
  heads h[3];
  few_sums sums[2];
  for (int t = 0; t < 4; t++) decode_ahead(&codes[0], &h[0], p, block_at(0), t);
  for (int64_t i = 0; i < n; i++) {
    WRITTEN();
    begin_sums(units);
    for (int t = 0; t < 4; t++) {
      multiply_part(&codes[i % 2], t, p->digits + (4 * block_at(i).b + t) * part, 64 * second, units);
      feed_some(f, 4 * n);
      if (i > 0) add_quarter(p, &sums[(i - 1) % 2], &h[(i - 1) % 3], block_at(i - 1), t);
      if (i + 1 < n) decode_ahead(&codes[(i + 1) % 2], &h[(i + 1) % 3], p, block_at(i + 1), t);
    }
    end_sums(&sums[i % 2], second, units);
  }
  for (int t = 0; t < 4; t++) add_quarter(p, &sums[(n - 1) % 2], &h[(n - 1) % 3], block_at(n - 1), t);
}

NOINLINE void one_unit(const ints_piece *p, ints_feed *f) { few_tokens(p, f, 1); }
NOINLINE void two_units(const ints_piece *p, ints_feed *f) { few_tokens(p, f, 2); }

static void few_any(const ints_piece *p, ints_feed *f) {
  if (p->n_token <= UNIT) {
    one_unit(p, f);
  } else {
    two_units(p, f);
  }
}

#include "kernels/x86/ints_run.h"

static void (*general)(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);

/* Tokens whose integers and digits there is room for. */
static bool have_room(const ij_matmul *m) {
  const int64_t bytes = (m->ints ? 0 : (int64_t)sizeof(ij_ints)) + IJ_INTS * (int64_t)sizeof(float);
  return m->n * ij__div_up(m->k, (int64_t)IJ_INTS) * bytes <= MADE_BLOCKS * (int64_t)sizeof(ij_ints);
}

static void matmul_q4_k_few(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  if (m->n < LEAST || m->n > FEW || r1 - r0 < LANES || !have_room(m)) {
    general(m, r0, r1, scratch);
    return;
  }
  const uint8_t first = (uint8_t)(3 * first_unit(m->n)), second = (uint8_t)IJ_MAX(3 * m->n - first, 1); /* a tile has a row at least */
  tile_shapes shapes = {.palette = 1, .rows = {first, second, first, second, first, second, 16, 16}};
  for (int i = 0; i < 8; i++) shapes.row_bytes[i] = 64;
  WRITTEN_AT(&shapes);
  _tile_loadconfig(&shapes);
  matmul_in_integers(m, r0, r1, scratch);
  _tile_release();
}

void ij__ints_few_amx_fill_avx512(ij_kernels *k) {
  general = k->matmul[IJ_DTYPE_Q4_K];
  k->matmul[IJ_DTYPE_Q4_K] = matmul_q4_k_few;
}
