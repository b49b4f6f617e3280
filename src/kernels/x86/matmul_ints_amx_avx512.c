/* matmul_ints_amx_avx512.c: products of Q4_K and many tokens in integers with AMX: a tile of x is one digit of up to 16 tokens, where it lies. */
#include "kernels/x86/ints_tiles_avx512.h"

enum { UNIT = 16 /* tokens that are multiplied at a time, at most */ };

/* Sums of a block: [digit][token][row]. */
typedef struct amx_sums {
  _Alignas(64) int32_t low[3 * 16][16];
  _Alignas(64) int32_t high[3 * 16][16];
} amx_sums;

/* Blocks of sixteen rows that follow each other. */
CODED ints_lanes lanes_at(const uint8_t *block, int64_t pitch) {
  return (ints_lanes){{block, block + 4 * pitch, block + 8 * pitch, block + 12 * pitch}, pitch};
}

static void decode_rows(tile_codes *a, heads *h, const uint8_t *first, int64_t pitch) {
  const ints_lanes block = lanes_at(first, pitch);
  for (int t = 0; t < 4; t++) decode_part(a, h, &block, t);
  WRITTEN();
}

/* ---- products ---- */

/* A unit of tokens: the first of them at a block, bytes between them, and how many. */
typedef struct amx_tokens {
  const char *x;
  int64_t stride, n;
} amx_tokens;

CODED const ij_ints *token(const amx_tokens *x, int64_t i) { return (const ij_ints *)(const void *)(x->x + i * x->stride); }

/* Sums of 16 rows and a unit of tokens that y lacks. */
typedef struct amx_pending {
  const amx_sums *sums;
  const heads *h;
  amx_tokens x;
  float *y;
} amx_pending;

/* Those of n tokens from number `first` on. */
CODED void add_some(const amx_pending *p, int64_t first, const int n) {
  const tile_sums s = {.low = p->sums->low, .high = p->sums->high, .by_token = 1, .by_digit = 16};
  const ij_ints *x[4];
  UNROLL for (int i = 0; i < n; i++) x[i] = token(&p->x, first + i);
  add_sums(p->y + 16 * first, 16, &s, p->h, x, first, n);
}

/* Those of the t-th quarter of the tokens. */
CODED void add_pending(const amx_pending *p, int t) {
  int64_t i = t * p->x.n / 4;
  const int64_t end = (t + 1) * p->x.n / 4;
  for (; i + 4 <= end; i += 4) add_some(p, i, 4);
  if (end - i == 3) add_some(p, i, 3);
  if (end - i == 2) add_some(p, i, 2);
  if (end - i == 1) add_some(p, i, 1);
}

#define TIMES(d, upper)                                   \
  _tile_loadd(7, digits + IJ_INTS * (d), x->stride); \
  _tile_loadd(6, w->low[t], 64);                     \
  _tile_dpbsud(d, 7, 6);                             \
  _tile_loadd(6, w->high[t], 64);                    \
  _tile_dpbsud(upper, 7, 6)

/* 64 values of 16 rows and a unit, added to what the first six tiles hold. */
CODED void multiply_part(const tile_codes *w, const amx_tokens *x, int t) {
  const int8_t *digits = token(x, 0)->digit[0] + 64 * t;
  TIMES(0, 3);
  TIMES(1, 4);
  TIMES(2, 5);
}

CODED void begin_sums(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
}

CODED void end_sums(amx_sums *s) {
  _tile_stored(0, s->low[0], 64);
  _tile_stored(1, s->low[16], 64);
  _tile_stored(2, s->low[32], 64);
  _tile_stored(3, s->high[0], 64);
  _tile_stored(4, s->high[16], 64);
  _tile_stored(5, s->high[32], 64);
  WRITTEN();
}

/* ---- whole products ---- */

/* Rows are taken in rounds of up to four groups of 16, one from each quarter of a call's groups: memory is quickest in a few long streams. */
typedef struct amx_round {
  const uint8_t *rows[STREAMS];
  int64_t first[STREAMS]; /* row of y */
  int64_t n;
} amx_round;

/* What is fetched meanwhile: the round after. */
typedef struct amx_ahead {
  const uint8_t *at[STREAMS];
  int64_t lines, steps, due; /* lines of each stream, in so many steps */
} amx_ahead;

/* Parts of a worker's scratch, and what stays the same for all rows of a call. */
typedef struct amx_work {
  tile_codes codes[STREAMS]; /* of a round; or, of one group, of a block and of the next one */
  heads heads[STREAMS];     /* the same; or of a block, of the next one and of the one before */
  amx_sums sums[2];         /* of a unit and of the one before */
  amx_tokens x;             /* the first, and how many make a unit */
  amx_ahead ahead;
  int64_t n, units, n_block, pitch;
  float *y; /* [group][token][16 rows] */
} amx_work;

/* The unit-th unit at a block. The last may begin before the others end: then some tokens are multiplied twice. */
CODED amx_tokens unit_of(const amx_work *w, int64_t unit, int64_t block) {
  amx_tokens x = w->x;
  x.x += IJ_MIN(unit * x.n, w->n - x.n) * x.stride + block * (int64_t)sizeof(ij_ints);
  return x;
}

/* What is due after one more step: to the second-level cache, since the first holds what is multiplied. */
CODED void fetch_some(amx_ahead *a) {
  for (a->due += a->lines; a->due >= a->steps; a->due -= a->steps) {
    UNROLL for (int s = 0; s < STREAMS; s++) {
      _mm_prefetch((const char *)a->at[s], _MM_HINT_T1);
      a->at[s] += 64;
    }
  }
}

/* 16 rows times one unit of tokens. The unit for matrices works on a block while vectors add up the block before and take the next one apart. */
static void multiply_rows(amx_work *w, const uint8_t *rows, float *y) {
  amx_pending pending = {.h = w->heads};
  decode_rows(&w->codes[0], &w->heads[0], rows, w->pitch);
  for (int64_t b = 0; b < w->n_block; b++) {
    const amx_tokens x = unit_of(w, 0, b);
    begin_sums();
    for (int t = 0; t < 4; t++) {
      multiply_part(&w->codes[b % 2], &x, t);
      fetch_some(&w->ahead);
      add_pending(&pending, t);
      if (b + 1 == w->n_block) continue;
      const ints_lanes next = lanes_at(rows + (b + 1) * BLOCK_BYTES, w->pitch);
      decode_part(&w->codes[(b + 1) % 2], &w->heads[(b + 1) % 3], &next, t);
    }
    end_sums(&w->sums[b % 2]);
    pending = (amx_pending){.sums = &w->sums[b % 2], .h = &w->heads[b % 3], .x = x, .y = y};
  }
  for (int t = 0; t < 4; t++) add_pending(&pending, t);
}

/* A round times all tokens, of which there are several units: they are read once for all groups. */
static void multiply_round(amx_work *w, const amx_round *r) {
  for (int64_t b = 0; b < w->n_block; b++) {
    amx_pending pending = {.h = w->heads};
    for (int64_t g = 0; g < r->n; g++) decode_rows(&w->codes[g], &w->heads[g], r->rows[g] + b * BLOCK_BYTES, w->pitch);
    for (int64_t i = 0; i < w->units * r->n; i++) {
      const int64_t u = i / r->n, g = i % r->n;
      const amx_tokens x = unit_of(w, u, b);
      begin_sums();
      for (int t = 0; t < 4; t++) {
        multiply_part(&w->codes[g], &x, t);
        fetch_some(&w->ahead);
        add_pending(&pending, t);
      }
      end_sums(&w->sums[i % 2]);
      pending = (amx_pending){.sums = &w->sums[i % 2], .h = &w->heads[g], .x = x, .y = w->y + (g * w->units + u) * w->x.n * 16};
    }
    for (int t = 0; t < 4; t++) add_pending(&pending, t);
  }
}

enum {
  TOKENS = 1024, /* more are multiplied in portions */
  Y_AT = (int)sizeof(amx_work),
  COPY_AT = Y_AT + TOKENS * 16 * STREAMS * (int)sizeof(float),
  COPY_BLOCKS = (IJ_SCRATCH_ALIGNED * (int)sizeof(float) - COPY_AT) / (int)sizeof(ij_ints)
};

/* Tokens of which x is made into integers or copied together, where the caller has not done so. */
static void lay_out(amx_work *w, const ij_matmul *m, int64_t t0, ij_ints *copy) {
  const ij_ints *x[TOKENS] = {0};
  ij__ints_tokens(x, m, t0, w->n, copy, ij__to_ints_avx2);
  int64_t stride = w->n > 1 ? (const char *)x[1] - (const char *)x[0] : 0;
  bool even = true;
  for (int64_t t = 1; t < w->n; t++) even = even && (const char *)x[t] - (const char *)x[t - 1] == stride;
  if (!even) {
    for (int64_t t = 0; t < w->n; t++) memcpy(copy + t * w->n_block, x[t], (size_t)w->n_block * sizeof *copy);
    x[0] = copy;
    stride = w->n_block * (int64_t)sizeof *copy;
  }
  w->x = (amx_tokens){.x = (const char *)x[0], .stride = stride, .n = ij__div_up(w->n, w->units)};
}

/* Rows of a quarter of n, in groups of 16. */
static int64_t quarter_of(int64_t n) { return ij__div_up(ij__div_up(n, 16), STREAMS) * 16; }

/* The at-th round of rows [r0, r1). The last group may begin before the others end: then some rows are multiplied twice. */
static amx_round round_of(const ij_matmul *m, int64_t r0, int64_t r1, int64_t at) {
  const int64_t quarter = quarter_of(r1 - r0);
  amx_round r = {.n = 0};
  for (int64_t row = r0 + 16 * at; row < r1 && r.n < STREAMS; row += quarter, r.n++) {
    r.first[r.n] = IJ_MIN(row, r1 - 16);
    r.rows[r.n] = (const uint8_t *)m->w + r.first[r.n] * m->w_stride;
  }
  return r;
}

/* For a round of n groups: the next one of this call, or the first of the caller's next rows. */
static void start_ahead(amx_work *w, const ij_matmul *m, const amx_round *next, int64_t n) {
  const uint8_t *other = m->w_next ? m->w_next : m->w;
  const int64_t quarter = m->w_next ? quarter_of(m->n_next) : 0;
  for (int s = 0; s < STREAMS; s++) w->ahead.at[s] = s < next->n ? next->rows[s] : next->n ? next->rows[0] : other + s * quarter * m->w_stride;
  w->ahead.lines = ij__div_up(16 * m->w_stride, 64);
  w->ahead.steps = 4 * n * w->n_block * w->units;
  w->ahead.due = 0;
}

static void store_round(const amx_work *w, const ij_matmul *m, const amx_round *r, int64_t t0) {
  const int64_t last = (w->units - 1) * w->x.n; /* the first token of the last unit, if it did not begin earlier */
  for (int64_t t = 0; t < w->n; t++) {
    const int64_t at = t < last ? t : t + w->units * w->x.n - w->n;
    for (int64_t g = 0; g < r->n; g++) {
      _mm512_storeu_ps(m->y + (t0 + t) * m->ldy + r->first[g], _mm512_load_ps(w->y + (g * w->units * w->x.n + at) * 16));
    }
  }
}

/* Rows [r0, r1) times n tokens from t0 on. */
static void portion(const ij_matmul *m, int64_t r0, int64_t r1, int64_t t0, int64_t n, char *scratch) {
  amx_work *w = (amx_work *)(void *)scratch;
  w->n = n;
  w->units = ij__div_up(n, UNIT);
  w->n_block = m->k / IJ_INTS;
  w->pitch = m->w_stride;
  w->y = (float *)(void *)(scratch + Y_AT);
  lay_out(w, m, t0, (ij_ints *)(void *)(scratch + COPY_AT));
  const uint8_t per = (uint8_t)w->x.n;
  const tile_shapes shapes = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {per, per, per, per, per, per, 16, per}};
  WRITTEN_AT(&shapes);
  _tile_loadconfig(&shapes);
  amx_round r = round_of(m, r0, r1, 0);
  for (int64_t at = 1; r.n > 0; at++) {
    const amx_round next = 16 * at < quarter_of(r1 - r0) ? round_of(m, r0, r1, at) : (amx_round){.n = 0};
    start_ahead(w, m, &next, r.n);
    memset(w->y, 0, (size_t)(r.n * w->units * w->x.n * 16) * sizeof(float));
    if (w->units > 1) {
      multiply_round(w, &r);
    } else {
      for (int64_t g = 0; g < r.n; g++) multiply_rows(w, r.rows[g], w->y + g * w->x.n * 16);
    }
    store_round(w, m, &r, t0);
    r = next;
  }
  _tile_release();
}

static void (*without_amx)(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);

static void matmul_q4_k_amx(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {
  const int64_t n_block = m->k / IJ_INTS;
  if (m->n < 3 || r1 - r0 < 16 || n_block > COPY_BLOCKS) {
    without_amx(m, r0, r1, scratch);
    return;
  }
  const int64_t most = m->ints && !m->rows ? TOKENS : IJ_MIN((int64_t)TOKENS, COPY_BLOCKS / n_block);
  for (int64_t t0 = 0, n; t0 < m->n; t0 += n) {
    n = IJ_MIN(most, m->n - t0);
    portion(m, r0, r1, t0, n, (char *)ij__aligned64(scratch));
  }
}

void ij__ints_amx_fill_avx512(ij_kernels *k) {
  without_amx = k->matmul[IJ_DTYPE_Q4_K];
  k->matmul[IJ_DTYPE_Q4_K] = matmul_q4_k_amx;
}
