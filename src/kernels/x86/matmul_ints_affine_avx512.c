/* matmul_ints_affine_avx512.c: products in integers of AFFINE4 on processors with VNNI. Sixteen rows lie in the lanes of a register, in each four
 * codes, which one instruction multiplies by four digits of x and adds to the sum of their group. The definition is ref/ints_ref.c.
 */
#define SIDED 1
#include "kernels/x86/ints_vec_avx512.h"

#include "kernels/x86/ints_rows.h"

#include "kernels/x86/ints_affine.h"

enum { FEW = 2 }; /* tokens whose sums are in registers while weights are taken apart */

/* Sixteen blocks as bytes, by fours of values, and their groups. */
typedef struct ints_decoded {
  __m512i codes[IJ_INTS / 4];
  __m512 scale[8], bias[8];
  int n_group, shift;
} ints_decoded;

/* out[i]: number i of the n, at most eight, from a byte on of each row, of two bytes. */
CODED void read_side(__m512 out[8], const ints_lanes *l, int64_t byte, int64_t n, ij_dtype type) {
  const __m512i zero = _mm512_setzero_si512(), order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  __m512i z[4], two[4]; /* two: of numbers 2 * i and 2 * i + 1 */
  UNROLL for (int i = 0; i < 4; i++) z[i] = load_four_of(l, i, byte, n);
  const __m512i a = _mm512_unpacklo_epi16(z[0], z[1]), b = _mm512_unpackhi_epi16(z[0], z[1]);
  const __m512i c = _mm512_unpacklo_epi16(z[2], z[3]), d = _mm512_unpackhi_epi16(z[2], z[3]);
  two[0] = _mm512_unpacklo_epi32(a, c);
  two[1] = _mm512_unpackhi_epi32(a, c);
  two[2] = _mm512_unpacklo_epi32(b, d);
  two[3] = _mm512_unpackhi_epi32(b, d);
  UNROLL for (int i = 0; i < 4; i++) {
    if (type == IJ_DTYPE_BF16) {
      out[2 * i] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, two[i]));
      out[2 * i + 1] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, two[i]));
    } else {
      const __m512i apart = _mm512_permutexvar_epi64(order, two[i]);
      out[2 * i] = _mm512_cvtph_ps(_mm512_castsi512_si256(apart));
      out[2 * i + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(apart, 1));
    }
  }
}

/* y after a group whose sums are a; all: its N. */
CODED __m512 add_group(__m512 y, const __m512i a[3], __m512 scale, __m512 bias, __m512 x_scale, __m512 all) {
  const __m512 up16 = _mm512_set1_ps(65536.0f), up8 = _mm512_set1_ps(256.0f);
  const __m512 t = _mm512_fmadd_ps(up16, _mm512_cvtepi32_ps(a[2]), _mm512_fmadd_ps(up8, _mm512_cvtepi32_ps(a[1]), _mm512_cvtepi32_ps(a[0])));
  return _mm512_fmadd_ps(bias, all, _mm512_fmadd_ps(_mm512_mul_ps(scale, x_scale), t, y));
}

/* ---- few tokens: codes are multiplied where they are taken apart ---- */

/* 32 values of sixteen rows, the digits of which begin at number `at` of the block. Even ones and odd ones are summed apart, so that no sum waits
 * for itself. */
CODED void add_32(__m512i a[2][3], const __m512i z[4], const ij_ints *x, int64_t at) {
  const __m512i low4 = _mm512_set1_epi8(0x0f);
  UNROLL for (int i = 0; i < 4; i++) {
    const __m512i even = _mm512_and_si512(z[i], low4), odd = _mm512_and_si512(_mm512_srli_epi32(z[i], 4), low4);
    UNROLL for (int j = 0; j < 3; j++) a[0][j] = _mm512_dpbusd_epi32(a[0][j], even, four_of(x->digit[j] + at + 8 * i));
    UNROLL for (int j = 0; j < 3; j++) a[1][j] = _mm512_dpbusd_epi32(a[1][j], odd, four_of(x->digit[j] + at + 8 * i + 4));
  }
}

/* y after group g of a block, of which these are the sums. */
CODED __m512 end_group(__m512 y, const __m512i a[2][3], __m512 scale, __m512 bias, const ij_ints *x, int64_t g) {
  __m512i both[3];
  UNROLL for (int j = 0; j < 3; j++) both[j] = _mm512_add_epi32(a[0][j], a[1][j]);
  return add_group(y, both, scale, bias, _mm512_set1_ps(x->scale), _mm512_set1_ps(x->sum[g]));
}

CODED void no_sums(__m512i a[FEW][2][3], const int n) {
  UNROLL for (int t = 0; t < n; t++) {
    UNROLL for (int j = 0; j < 3; j++) a[t][0][j] = a[t][1][j] = _mm512_setzero_si512();
  }
}

CODED void few_tokens(const ints_piece *p, ints_feed *f, const int n, const int shift) {
  const int64_t n_32 = stretches_of(p, 0, p->n_block);
  const ints_lanes rows = p->codes;
  const int step = IJ_MAX(1 << shift, 2), last = (1 << shift) - 1; /* times 32 values: of a turn; the last of a group */
  __m512 y[FEW], scale[8], bias[8];
  __m512i a[FEW][2][3];
  UNROLL for (int t = 0; t < n; t++) y[t] = _mm512_loadu_ps(p->sums + t * LANES);
  for (int64_t i = 0; i < n_32; i += step) {
    const int64_t at = i % 8;
    if (i % (8 << shift) == 0) {
      const int64_t numbers = IJ_MIN((n_32 - i) >> shift, 8);
      read_side(scale, &p->side[0], 2 * (i >> shift), numbers, p->m->side_dtype);
      read_side(bias, &p->side[1], 2 * (i >> shift), numbers, p->m->side_dtype);
    }
    UNROLL for (int h = 0; h < step; h += 2) { /* behind the last may be any codes */
      __m512i z[8];
      transpose_rows(z, &rows, 16 * (i + h));
      UNROLL for (int j = h; j < h + 2; j++) {
        const int64_t g = (i + j) >> shift & 7;
        if (shift == 0 && i + j == n_32) break;
        if ((j & last) == 0) no_sums(a, n);
        feed_some(f, n_32);
        UNROLL for (int t = 0; t < n; t++) {
          const ij_ints *x = p->x[t] + p->b0 + i / 8;
          add_32(a[t], z + 4 * (j - h), x, 32 * (at + j));
          if ((j & last) == last) y[t] = end_group(y[t], a[t], scale[g], bias[g], x, (at + j) >> shift);
        }
      }
    }
  }
  UNROLL for (int t = 0; t < n; t++) _mm512_storeu_ps(p->sums + t * LANES, y[t]);
}

#define FEW_TOKENS(n, shift) \
  NOINLINE void few_##n##_##shift(const ints_piece *p, ints_feed *f) { few_tokens(p, f, n, shift); }
FEW_TOKENS(1, 0)
FEW_TOKENS(1, 1)
FEW_TOKENS(1, 2)
FEW_TOKENS(2, 0)
FEW_TOKENS(2, 1)
FEW_TOKENS(2, 2)

static void few_any(const ints_piece *p, ints_feed *f) {
  static void (*const few[FEW][3])(const ints_piece *p, ints_feed *f) = {{few_1_0, few_1_1, few_1_2}, {few_2_0, few_2_1, few_2_2}};
  few[p->n_token - 1][ij__ints_group_shift(p->m)](p, f);
}

/* ---- many tokens: a block of 32 rows is taken apart first ---- */

/* Block b of the r-th sixteen rows of the piece. */
static void decode_block(ints_decoded *d, const ints_piece *p, int64_t b, int64_t r) {
  const __m512i low4 = _mm512_set1_epi8(0x0f);
  const int64_t n = stretches_of(p, b, 1);
  const ints_lanes codes = lanes_from(&p->codes, r, b * p->block_bytes);
  const ints_lanes side[2] = {lanes_from(&p->side[0], r, b * p->side_bytes), lanes_from(&p->side[1], r, b * p->side_bytes)};
  d->shift = ij__ints_group_shift(p->m);
  d->n_group = (int)(n >> d->shift);
  read_side(d->scale, &side[0], 0, d->n_group, p->m->side_dtype);
  read_side(d->bias, &side[1], 0, d->n_group, p->m->side_dtype);
  for (int64_t s = 0; s < n; s++) {
    __m512i *first = d->codes + 8 * s, *last = first + 4;
    UNROLL for (int i = 0; i < 4; i++) {
      const __m512i bytes = load_four(&codes, i, 16 * s);
      const __m512i even = _mm512_and_si512(bytes, low4), odd = _mm512_and_si512(_mm512_srli_epi32(bytes, 4), low4);
      first[i] = _mm512_unpacklo_epi8(even, odd);
      last[i] = _mm512_unpackhi_epi8(even, odd);
    }
    transpose_quarters(first);
    transpose_quarters(last);
  }
}

/* s with sixteen values, whose codes are c to c + 3, in 32 rows times n tokens. */
CODED void add_sixteen(__m512i s[WIDE][TILE][3], const ints_decoded d[WIDE], const ij_ints *const *x, int c, const int n) {
  UNROLL for (int i = 0; i < 4; i++) {
    const __m512i w[WIDE] = {d[0].codes[c + i], d[1].codes[c + i]};
    UNROLL for (int t = 0; t < n; t++) {
      UNROLL for (int j = 0; j < 3; j++) {
        const __m512i four = four_of(x[t]->digit[j] + 4 * (c + i));
        UNROLL for (int r = 0; r < WIDE; r++) s[r][t][j] = _mm512_dpbusd_epi32(s[r][t][j], w[r], four);
      }
    }
  }
}

/* n tokens, whose blocks are x, times a block of 32 rows. next: those that come after them, or NULL. */
CODED void tile_of(const ints_decoded d[WIDE], const ij_ints *const *x, const ij_ints *const *next, float *sums, ints_feed *f, int64_t steps,
                   const int n, const int shift) {
  const int n_group = d[0].n_group, parts = IJ_MAX(1 << shift >> 1, 1), halves = IJ_MIN(2 << shift, 4); /* of a group; of a part, in 16 values */
  __m512 y[WIDE][TILE];
  UNROLL for (int t = 0; t < n; t++) {
    UNROLL for (int r = 0; r < WIDE; r++) y[r][t] = _mm512_loadu_ps(sums + (t * GROUPS + r) * LANES);
  }
  for (int g = 0, c = 0; g < n_group; g++) {
    __m512i s[WIDE][TILE][3];
    if (c % 16 == 0) feed_some(f, steps); /* where there are no sums to be kept meanwhile */
    UNROLL for (int t = 0; t < n; t++) {
      UNROLL for (int j = 0; j < 3; j++) s[0][t][j] = s[1][t][j] = _mm512_setzero_si512();
    }
    UNROLL for (int part = 0; part < parts; part++) {
      if (part > 0) feed_some(f, steps);
      UNROLL_HALVES for (int j = 0; j < halves; j++, c += 4) {
        UNROLL for (int t = 0; t < n; t++) {
          if (next) v_prefetch((const char *)next[t] + 16 * c); /* from the second-level cache or further away */
        }
        add_sixteen(s, d, x, c, n);
      }
    }
    UNROLL for (int t = 0; t < n; t++) {
      const __m512 all = _mm512_set1_ps(ij__ints_group_sum(x[t], g, shift)), x_scale = _mm512_set1_ps(x[t]->scale);
      UNROLL for (int r = 0; r < WIDE; r++) y[r][t] = add_group(y[r][t], s[r][t], d[r].scale[g], d[r].bias[g], x_scale, all);
    }
  }
  UNROLL for (int t = 0; t < n; t++) {
    UNROLL for (int r = 0; r < WIDE; r++) _mm512_storeu_ps(sums + (t * GROUPS + r) * LANES, y[r][t]);
  }
}

#include "kernels/x86/ints_run.h"

void ij__ints_affine_fill_avx512(ij_kernels *k) { k->matmul[TYPE] = matmul_in_integers; }
