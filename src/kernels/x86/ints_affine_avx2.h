/* ints_affine_avx2.h: products in integers of AFFINE4 at the AVX2 level, for processors with and without AVX-VNNI. Eight rows lie in the lanes of
 * a register, in each four codes. The definition is ref/ints_ref.c; A[1] * 2^8 + A[0] is an integer here, which is rounded like the sum there.
 *
 * The including file defines WHOLE before this, add_fours and add_sums after this, and after those includes ints_run.h.
 */
#ifndef IJ_KERNELS_X86_INTS_AFFINE_AVX2_H
#define IJ_KERNELS_X86_INTS_AFFINE_AVX2_H

#define SIDED 1
#include "kernels/x86/ints_vec_avx2.h"

#include "kernels/x86/ints_rows.h"

#include "kernels/x86/ints_affine.h"

enum { FEW = 1 }; /* tokens whose sums are in registers while weights are taken apart */

/* sum with the products of four codes in each lane times four digits. A lane holds those of 32 values, or of more where WHOLE. */
CODED __m256i add_fours(__m256i sum, __m256i codes, __m256i digits);

/* a with what add_fours summed for the three digits: A[0] + 2^8 A[1], and A[2]. */
CODED void add_sums(__m256i a[2], const __m256i s[3]);

/* Eight blocks as bytes, by fours of values, and their groups. */
typedef struct ints_decoded {
  __m256i codes[IJ_INTS / 4];
  __m256 scale[8], bias[8];
  int n_group, shift;
} ints_decoded;

/* n numbers of two bytes, at most eight, and zeros. */
CODED __m128i load_numbers(const uint8_t *p, int64_t n) {
  uint16_t some[8] = {0};
  if (n == 8) return _mm_loadu_si128((const __m128i *)(const void *)p);
  memcpy(some, p, (size_t)(2 * n));
  return _mm_loadu_si128((const __m128i *)(const void *)some);
}

/* out[i]: number i of the n, at most eight, from a byte on of each row, of two bytes. */
CODED void read_side(__m256 out[8], const ints_lanes *l, int64_t byte, int64_t n, ij_dtype type) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i z[4], two[4]; /* two: of numbers 2 * i and 2 * i + 1 */
  UNROLL for (int i = 0; i < 4; i++) z[i] = _mm256_set_m128i(load_numbers(lane_row(l, 4 + i) + byte, n), load_numbers(lane_row(l, i) + byte, n));
  const __m256i a = _mm256_unpacklo_epi16(z[0], z[1]), b = _mm256_unpackhi_epi16(z[0], z[1]);
  const __m256i c = _mm256_unpacklo_epi16(z[2], z[3]), d = _mm256_unpackhi_epi16(z[2], z[3]);
  two[0] = _mm256_unpacklo_epi32(a, c);
  two[1] = _mm256_unpackhi_epi32(a, c);
  two[2] = _mm256_unpacklo_epi32(b, d);
  two[3] = _mm256_unpackhi_epi32(b, d);
  UNROLL for (int i = 0; i < 4; i++) {
    if (type == IJ_DTYPE_BF16) {
      out[2 * i] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, two[i]));
      out[2 * i + 1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, two[i]));
    } else {
      const __m256i apart = _mm256_permute4x64_epi64(two[i], _MM_SHUFFLE(3, 1, 2, 0));
      out[2 * i] = _mm256_cvtph_ps(_mm256_castsi256_si128(apart));
      out[2 * i + 1] = _mm256_cvtph_ps(_mm256_extracti128_si256(apart, 1));
    }
  }
}

/* y after a group whose sums are a; all: its N. */
CODED __m256 add_group(__m256 y, const __m256i a[2], __m256 scale, __m256 bias, __m256 x_scale, __m256 all) {
  const __m256 t = _mm256_fmadd_ps(_mm256_set1_ps(65536.0f), _mm256_cvtepi32_ps(a[1]), _mm256_cvtepi32_ps(a[0]));
  return _mm256_fmadd_ps(bias, all, _mm256_fmadd_ps(_mm256_mul_ps(scale, x_scale), t, y));
}

/* ---- one token: codes are multiplied where they are taken apart ---- */

/* 32 values of eight rows, the digits of which begin at number `at` of the block. */
CODED void add_32(__m256i a[2], const __m256i z[4], const ij_ints *x, int64_t at) {
  const __m256i low4 = _mm256_set1_epi8(0x0f);
  __m256i s[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  UNROLL for (int i = 0; i < 4; i++) {
    const __m256i even = _mm256_and_si256(z[i], low4), odd = _mm256_and_si256(_mm256_srli_epi16(z[i], 4), low4);
    UNROLL for (int j = 0; j < 3; j++) s[j] = add_fours(s[j], even, four_of(x->digit[j] + at + 8 * i));
    UNROLL for (int j = 0; j < 3; j++) s[j] = add_fours(s[j], odd, four_of(x->digit[j] + at + 8 * i + 4));
  }
  add_sums(a, s);
}

CODED void few_tokens(const ints_piece *p, ints_feed *f, const int shift) {
  const int64_t n = stretches_of(p, 0, p->n_block), n_group = n >> shift;
  const int parts = 1 << shift; /* of a group */
  const ints_lanes rows = p->codes;
  __m256 y = _mm256_loadu_ps(p->sums), scale[8], bias[8];
  for (int64_t g = 0; g < n_group; g++) {
    const int64_t i = g << shift, at = i % 8; /* times 32 values */
    const ij_ints *x = p->x[0] + p->b0 + i / 8;
    __m256i a[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    if (g % 8 == 0) {
      const int64_t numbers = IJ_MIN(n_group - g, 8);
      read_side(scale, &p->side[0], 2 * g, numbers, p->m->side_dtype);
      read_side(bias, &p->side[1], 2 * g, numbers, p->m->side_dtype);
    }
    UNROLL for (int j = 0; j < parts; j++) {
      __m256i z[4];
      transpose_rows(z, &rows, 16 * (i + j));
      feed_some(f, n);
      add_32(a, z, x, 32 * (at + j));
    }
    y = add_group(y, a, scale[g % 8], bias[g % 8], _mm256_set1_ps(x->scale), _mm256_set1_ps(x->sum[at >> shift]));
  }
  _mm256_storeu_ps(p->sums, y);
}

NOINLINE void groups_of_32(const ints_piece *p, ints_feed *f) { few_tokens(p, f, 0); }
NOINLINE void groups_of_64(const ints_piece *p, ints_feed *f) { few_tokens(p, f, 1); }
NOINLINE void groups_of_128(const ints_piece *p, ints_feed *f) { few_tokens(p, f, 2); }

static void few_any(const ints_piece *p, ints_feed *f) {
  switch (p->m->group) {
    case 32: groups_of_32(p, f); break;
    case 64: groups_of_64(p, f); break;
    default: groups_of_128(p, f);
  }
}

/* ---- many tokens: a block of 32 rows is taken apart first ---- */

/* Block b of the r-th eight rows of the piece. */
static void decode_block(ints_decoded *d, const ints_piece *p, int64_t b, int64_t r) {
  const __m256i low4 = _mm256_set1_epi8(0x0f);
  const int64_t n = stretches_of(p, b, 1);
  const ints_lanes codes = lanes_from(&p->codes, r, b * p->block_bytes);
  const ints_lanes side[2] = {lanes_from(&p->side[0], r, b * p->side_bytes), lanes_from(&p->side[1], r, b * p->side_bytes)};
  d->shift = ij__ints_group_shift(p->m);
  d->n_group = (int)(n >> d->shift);
  read_side(d->scale, &side[0], 0, d->n_group, p->m->side_dtype);
  read_side(d->bias, &side[1], 0, d->n_group, p->m->side_dtype);
  for (int64_t s = 0; s < n; s++) {
    __m256i z[2][4];
    UNROLL for (int i = 0; i < 4; i++) {
      const __m256i bytes = load_rows(&codes, i, 16 * s);
      const __m256i even = _mm256_and_si256(bytes, low4), odd = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low4);
      z[0][i] = _mm256_unpacklo_epi8(even, odd);
      z[1][i] = _mm256_unpackhi_epi8(even, odd);
    }
    transpose_halves(d->codes + 8 * s, z[0]);
    transpose_halves(d->codes + 8 * s + 4, z[1]);
  }
}

/* Those of x that come next lie in the second-level cache or further away: the lines of one block that are due when codes from c on are
 * multiplied. */
CODED void fetch_ints(const ij_ints *x, int c) {
  UNROLL for (int i = 0; i < 8; i += 4) v_prefetch((const char *)x + 16 * (c + i));
}

CODED void no_sums(__m256i s[WIDE][TILE][3], const int n) {
  UNROLL for (int t = 0; t < n; t++) {
    UNROLL for (int j = 0; j < 3; j++) s[0][t][j] = s[1][t][j] = _mm256_setzero_si256();
  }
}

/* s: sums of 32 values, whose codes are c to c + 7, in 16 rows times n tokens. */
CODED void add_eights(__m256i s[WIDE][TILE][3], const ints_decoded d[WIDE], const ij_ints *const *x, int c, const int n) {
  UNROLL for (int i = 0; i < 8; i++) {
    const __m256i w[WIDE] = {d[0].codes[c + i], d[1].codes[c + i]};
    UNROLL for (int t = 0; t < n; t++) {
      UNROLL for (int j = 0; j < 3; j++) {
        const __m256i four = four_of(x[t]->digit[j] + 4 * (c + i));
        UNROLL for (int r = 0; r < WIDE; r++) s[r][t][j] = add_fours(s[r][t][j], w[r], four);
      }
    }
  }
}

/* n tokens, whose blocks are x, times a block of 16 rows. next: those that come after them, or NULL. */
CODED void tile_of(const ints_decoded d[WIDE], const ij_ints *const *x, const ij_ints *const *next, float *sums, ints_feed *f, int64_t steps,
                   const int n, const int shift) {
  const int n_group = d[0].n_group, parts = 1 << shift; /* parts: of a group */
  for (int g = 0, c = 0; g < n_group; g++) {
    __m256i a[WIDE][TILE][2], s[WIDE][TILE][3];
    UNROLL for (int t = 0; t < n; t++) {
      UNROLL for (int r = 0; r < WIDE; r++) a[r][t][0] = a[r][t][1] = _mm256_setzero_si256();
    }
    no_sums(s, n);
    UNROLL for (int j = 0; j < parts; j++, c += 8) {
      if (c % 16 == 0) feed_some(f, steps);
      if (!WHOLE) no_sums(s, n);
      UNROLL for (int t = 0; t < n; t++) {
        if (next) fetch_ints(next[t], c);
      }
      add_eights(s, d, x, c, n);
      UNROLL for (int t = 0; t < n && !WHOLE; t++) {
        UNROLL for (int r = 0; r < WIDE; r++) add_sums(a[r][t], s[r][t]);
      }
    }
    UNROLL for (int t = 0; t < n; t++) {
      const __m256 all = _mm256_set1_ps(ij__ints_group_sum(x[t], g, shift)), x_scale = _mm256_set1_ps(x[t]->scale);
      float *y = sums + t * GROUPS * LANES;
      UNROLL for (int r = 0; r < WIDE; r++) {
        if (WHOLE) add_sums(a[r][t], s[r][t]);
        _mm256_storeu_ps(y + r * LANES, add_group(_mm256_loadu_ps(y + r * LANES), a[r][t], d[r].scale[g], d[r].bias[g], x_scale, all));
      }
    }
  }
}

#endif
