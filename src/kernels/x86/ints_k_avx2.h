/* ints_k_avx2.h: products of Q4_K or Q2_K in integers at the AVX2 level, for processors with and without AVX-VNNI; the including file says which
 * by K_BITS. Eight rows lie in the lanes of a register, in each four codes that follow each other. The definition is ref/ints_ref.c.
 *
 * The sum of sixteen codes of four bits times digits of a byte fits into 16 bits; one instruction multiplies pairs of such sums by what is made
 * of their group's scale and adds them up.
 *
 * The including file defines SUMMED before this, add_fours, add_pairs and scale_pairs after this, and after those includes ints_run.h.
 */
#ifndef IJ_KERNELS_X86_INTS_K_AVX2_H
#define IJ_KERNELS_X86_INTS_K_AVX2_H

#include "kernels/x86/ints_vec_avx2.h"

#include "kernels/x86/ints_rows.h"

enum { FEW = 1 }; /* tokens whose sums are in registers while weights are taken apart */

/* sum with the products of four codes in each lane times four digits; only add_pairs makes one number of what a lane of it holds. */
CODED __m256i add_fours(__m256i sum, __m256i codes, __m256i digits);

/* sum with the products of the two signed numbers of 16 bits in each lane of a and b. */
CODED __m256i add_pairs(__m256i sum, __m256i a, __m256i b);

/* Byte i of each lane, which is a scale, as the pair by which add_pairs multiplies what add_fours summed; for i from 0 to 3. */
CODED void scale_pairs(__m256i out[4], __m256i z);

/* What the values of eight blocks, one of each row, have in common. */
typedef struct heads {
  __m256i scale[SCALES];          /* by scale_pairs */
  __m256 d, dmin, offset[SCALES]; /* offset: of Q4_K times dmin */
} heads;

/* Eight blocks as bytes, by fours of values. */
typedef struct ints_decoded {
  __m256i codes[IJ_INTS / 4];
  heads h;
} ints_decoded;

/* Byte i of each lane, of Q4_K times dmin, for i from 0 to 3. */
CODED void read_offsets(__m256 out[4], __m256 dmin, __m256i z) {
  __m256i offset[4];
  spread_bytes(offset, z);
  UNROLL for (int i = 0; i < 4; i++) {
    out[i] = _mm256_cvtepi32_ps(offset[i]);
    if (K_BITS == 4) out[i] = _mm256_mul_ps(dmin, out[i]);
  }
}

/* Of d and dmin as pairs. */
CODED void read_factors(heads *h, __m256i pairs) {
  const __m256i halves = _mm256_packus_epi32(_mm256_and_si256(pairs, _mm256_set1_epi32(0xffff)), _mm256_srli_epi32(pairs, 16));
  const __m256i apart = _mm256_permute4x64_epi64(halves, _MM_SHUFFLE(3, 1, 2, 0));
  h->d = _mm256_cvtph_ps(_mm256_castsi256_si128(apart));
  h->dmin = _mm256_cvtph_ps(_mm256_extracti128_si256(apart, 1));
}

#if K_BITS == 2
/* Of blocks that begin at a byte: 16 bytes of a scale and an offset each, of four bits; and behind the codes d and dmin. */
CODED void read_heads(heads *h, const ints_lanes *l, int64_t byte) {
  const __m256i low4 = _mm256_set1_epi8(0x0f);
  __m256i z[4], last[4];
  transpose_rows(last, l, byte + 68);
  read_factors(h, last[3]);
  transpose_rows(z, l, byte);
  UNROLL for (int i = 0; i < 4; i++) {
    scale_pairs(h->scale + 4 * i, _mm256_and_si256(z[i], low4));
    read_offsets(h->offset + 4 * i, h->dmin, _mm256_and_si256(_mm256_srli_epi16(z[i], 4), low4));
  }
}
#else
/* The first 16 bytes of blocks, which begin at a byte: d, dmin, and scales and offsets of six bits (ij__fmt_q4_k_scale). */
CODED void read_heads(heads *h, const ints_lanes *l, int64_t byte) {
  const __m256i low6 = _mm256_set1_epi8(0x3f), low4 = _mm256_set1_epi8(0x0f), two = _mm256_set1_epi8(0x30);
  __m256i z[4];
  transpose_rows(z, l, byte);
  read_factors(h, z[0]);
  scale_pairs(h->scale, _mm256_and_si256(z[1], low6));
  scale_pairs(h->scale + 4, _mm256_or_si256(_mm256_and_si256(z[3], low4), _mm256_and_si256(_mm256_srli_epi32(z[1], 2), two)));
  read_offsets(h->offset, h->dmin, _mm256_and_si256(z[2], low6));
  read_offsets(h->offset + 4, h->dmin, _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(z[3], 4), low4), _mm256_and_si256(_mm256_srli_epi32(z[2], 2), two)));
}
#endif

/* The 32 bytes of the part-th groups that lie together, by fours. */
CODED void read_part(__m256i z[8], const ints_lanes *l, int64_t block, int part) {
  transpose_rows(z, l, block + CODES_AT + 32 * part);
  transpose_rows(z + 4, l, block + CODES_AT + 32 * part + 16);
}

/* Codes of the s-th of them. */
CODED __m256i codes_of(__m256i bytes, const int s) {
  return _mm256_and_si256(s == 0 ? bytes : _mm256_srli_epi16(bytes, K_BITS * s), _mm256_set1_epi8((1 << K_BITS) - 1));
}

/* y after one more block, whose sums of codes times digits, scaled, are a. */
CODED __m256 add_block(__m256 y, const __m256i a[3], const heads *h, const ij_ints *x) {
  const __m256 up16 = _mm256_set1_ps(65536.0f), up8 = _mm256_set1_ps(256.0f);
  const __m256 t = _mm256_fmadd_ps(up16, _mm256_cvtepi32_ps(a[2]), _mm256_fmadd_ps(up8, _mm256_cvtepi32_ps(a[1]), _mm256_cvtepi32_ps(a[0])));
  y = _mm256_fmadd_ps(_mm256_mul_ps(h->d, _mm256_set1_ps(x->scale)), t, y);
#if K_BITS == 2
  __m256 n = _mm256_setzero_ps();
  UNROLL for (int i = 0; i < SCALES; i++) n = _mm256_fmadd_ps(h->offset[i], _mm256_set1_ps(x->half[i]), n);
  return _mm256_fnmadd_ps(h->dmin, n, y);
#else
  UNROLL for (int i = 0; i < SCALES; i++) y = _mm256_fnmadd_ps(h->offset[i], _mm256_set1_ps(x->sum[i]), y);
  return y;
#endif
}

/* ---- one token: codes are multiplied where they are taken apart ---- */

/* 32 values of eight blocks. */
CODED void add_group(__m256i a[3], const __m256i codes[8], const ij_ints *x, int g, const __m256i *scale) {
  UNROLL for (int first = 0; first < 8; first += SUMMED) {
    __m256i s[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    UNROLL for (int i = first; i < first + SUMMED; i++) {
      UNROLL for (int j = 0; j < 3; j++) s[j] = add_fours(s[j], codes[i], four_of(x->digit[j] + 32 * g + 4 * i));
    }
    UNROLL for (int j = 0; j < 3; j++) a[j] = add_pairs(a[j], s[j], scale[first / 4 * SCALES / 16]);
  }
}

static void few_any(const ints_piece *p, ints_feed *f) {
  const int64_t steps = 4 * p->n_block; /* of fetching meanwhile */
  const ints_lanes rows = p->codes;
  const ij_ints *x = p->x[0] + p->b0;
  __m256 y = _mm256_loadu_ps(p->sums);
  for (int64_t b = 0; b < p->n_block; b++) {
    const int64_t block = b * p->block_bytes;
    heads h;
    read_heads(&h, &rows, block);
    __m256i a[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int part = 0; part < PARTS; part++) {
      __m256i z[8], codes[8];
      read_part(z, &rows, block, part);
      UNROLL for (int s = 0; s < TOGETHER; s++) {
        const int g = part * TOGETHER + s;
        if (s % 2 == 0) feed_some(f, steps);
        UNROLL for (int i = 0; i < 8; i++) codes[i] = codes_of(z[i], s);
        add_group(a, codes, x + b, g, h.scale + g * SCALES / 8);
      }
    }
    y = add_block(y, a, &h, x + b);
  }
  _mm256_storeu_ps(p->sums, y);
}

/* ---- many tokens: a block of 32 rows is taken apart first ---- */

/* Block b of the r-th eight rows of the piece. */
static void decode_block(ints_decoded *d, const ints_piece *p, int64_t b, int64_t r) {
  const ints_lanes block = lanes_from(&p->codes, r, b * p->block_bytes);
  read_heads(&d->h, &block, 0);
  for (int part = 0; part < PARTS; part++) {
    __m256i z[8];
    read_part(z, &block, 0, part);
    UNROLL for (int s = 0; s < TOGETHER; s++) {
      UNROLL for (int i = 0; i < 8; i++) d->codes[8 * (part * TOGETHER + s) + i] = codes_of(z[i], s);
    }
  }
}

/* Those of x that come next lie in the second-level cache or further away: the lines of one block that are due when codes from c on are multiplied. */
CODED void fetch_ints(const ij_ints *x, int c) {
  UNROLL for (int i = 0; i < SUMMED; i += 4) v_prefetch((const char *)x + 16 * (c + i));
}

/* n tokens, whose blocks are x, times a block of 16 rows. next: those that come after them, or NULL. */
CODED void tile(const ints_decoded d[WIDE], const ij_ints *const *x, const ij_ints *const *next, float *sums, ints_feed *f, int64_t steps, const int n) {
  __m256i a[WIDE][TILE][3];
  UNROLL for (int t = 0; t < n; t++) {
    UNROLL for (int j = 0; j < 3; j++) a[0][t][j] = a[1][t][j] = _mm256_setzero_si256();
  }
  for (int c = 0; c < IJ_INTS / 4; c += SUMMED) {
    __m256i s[WIDE][TILE][3];
    if (c % 16 == 0) feed_some(f, steps);
    UNROLL for (int t = 0; t < n; t++) {
      if (next) fetch_ints(next[t], c);
      UNROLL for (int j = 0; j < 3; j++) s[0][t][j] = s[1][t][j] = _mm256_setzero_si256();
    }
    UNROLL for (int i = c; i < c + SUMMED; i++) {
      const __m256i w[WIDE] = {d[0].codes[i], d[1].codes[i]};
      UNROLL for (int t = 0; t < n; t++) {
        UNROLL for (int j = 0; j < 3; j++) {
          const __m256i four = four_of(x[t]->digit[j] + 4 * i);
          UNROLL for (int r = 0; r < WIDE; r++) s[r][t][j] = add_fours(s[r][t][j], w[r], four);
        }
      }
    }
    UNROLL for (int t = 0; t < n; t++) {
      UNROLL for (int j = 0; j < 3; j++) {
        UNROLL for (int r = 0; r < WIDE; r++) a[r][t][j] = add_pairs(a[r][t][j], s[r][t][j], d[r].h.scale[c / 4 * SCALES / 16]);
      }
    }
  }
  UNROLL for (int t = 0; t < n; t++) {
    float *y = sums + t * GROUPS * LANES;
    UNROLL for (int r = 0; r < WIDE; r++) _mm256_storeu_ps(y + r * LANES, add_block(_mm256_loadu_ps(y + r * LANES), a[r][t], &d[r].h, x[t]));
  }
}

#endif
