/* ints_k_avx512.h: products of Q4_K or Q2_K in integers on processors with VNNI; the including file says which by K_BITS. Sixteen rows lie in
 * the lanes of a register, in each four codes that follow each other, which one instruction multiplies by four digits of x. The definition
 * is ref/ints_ref.c.
 *
 * The sum of sixteen codes of four bits times digits of a byte fits into 16 bits: then one instruction multiplies it by its group's scale and
 * adds it up.
 */
#ifndef IJ_KERNELS_X86_INTS_K_AVX512_H
#define IJ_KERNELS_X86_INTS_K_AVX512_H

#if K_BITS == 2
#include "kernels/x86/ints_q2_k_avx512.h"
#else
#include "kernels/x86/ints_q4_k_avx512.h"
#endif

#include "kernels/x86/ints_rows.h"

enum { FEW = 2 }; /* tokens whose sums are in registers while weights are taken apart */

/* Many tokens are multiplied by codes that have been multiplied by their scales, where those still are bytes. */
#define SCALED (K_BITS == 2)

/* Sixteen blocks as bytes, by fours of values. */
typedef struct ints_decoded {
  __m512i codes[IJ_INTS / 4];
  heads h;
} ints_decoded;

/* y after one more block, whose sums of codes times digits, scaled, are a. */
CODED __m512 add_block(__m512 y, const __m512i a[3], const heads *h, const ij_ints *x) {
  const __m512 up16 = _mm512_set1_ps(65536.0f), up8 = _mm512_set1_ps(256.0f);
  __m512 t = _mm512_fmadd_ps(up16, _mm512_cvtepi32_ps(a[2]), _mm512_fmadd_ps(up8, _mm512_cvtepi32_ps(a[1]), _mm512_cvtepi32_ps(a[0])));
  if (K_BITS == 2) t = _mm512_mul_ps(t, _mm512_set1_ps(0.25f)); /* exact; ints_q2_k_avx512.h says where four times as much comes from */
  return take_offsets(_mm512_fmadd_ps(_mm512_mul_ps(h->d, _mm512_set1_ps(x->scale)), t, y), h, x);
}

/* ---- few tokens: codes are multiplied where they are taken apart ---- */

/* 32 values of sixteen blocks times one token. */
CODED void add_group(__m512i a[3], const __m512i codes[8], const ij_ints *x, int g, const __m512i *scale) {
  UNROLL for (int half = 0; half < 8; half += 4) {
    __m512i s[3] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    UNROLL for (int i = half; i < half + 4; i++) {
      UNROLL for (int j = 0; j < 3; j++) s[j] = _mm512_dpbusd_epi32(s[j], codes[i], four_of(x->digit[j] + 32 * g + 4 * i));
    }
    UNROLL for (int j = 0; j < 3; j++) a[j] = _mm512_dpwssd_epi32(a[j], s[j], scale[half / 4 * SCALES / 16]);
  }
}

CODED void few_tokens(const ints_piece *p, ints_feed *f, const int n) {
  const int64_t steps = 8 * p->n_block; /* of fetching meanwhile */
  const ints_lanes rows = p->codes;
  __m512 y[FEW];
  const ij_ints *x[FEW];
  UNROLL for (int t = 0; t < n; t++) x[t] = p->x[t] + p->b0;
  UNROLL for (int t = 0; t < n; t++) y[t] = _mm512_loadu_ps(p->sums + t * LANES);
  for (int64_t b = 0; b < p->n_block; b++) {
    const int64_t block = b * p->block_bytes;
    heads h;
    __m512i a[FEW][3];
    read_heads(&h, &rows, block);
    UNROLL for (int t = 0; t < n; t++) a[t][0] = a[t][1] = a[t][2] = _mm512_setzero_si512();
    for (int part = 0; part < PARTS; part++) {
      __m512i z[8], codes[8];
      transpose_rows(z, &rows, block + CODES_AT + 32 * part);
      UNROLL for (int s = 0; s < TOGETHER; s++) {
        const int g = part * TOGETHER + s;
        UNROLL for (int i = 0; i < 8; i++) codes[i] = codes_of(z[i], s);
        feed_some(f, steps);
        UNROLL for (int t = 0; t < n; t++) add_group(a[t], codes, x[t] + b, g, h.scale + g * SCALES / 8);
      }
    }
    UNROLL for (int t = 0; t < n; t++) y[t] = add_block(y[t], a[t], &h, x[t] + b);
  }
  UNROLL for (int t = 0; t < n; t++) _mm512_storeu_ps(p->sums + t * LANES, y[t]);
}

NOINLINE void one_token(const ints_piece *p, ints_feed *f) { few_tokens(p, f, 1); }
NOINLINE void two_tokens(const ints_piece *p, ints_feed *f) { few_tokens(p, f, 2); }

static void few_any(const ints_piece *p, ints_feed *f) {
  if (p->n_token == 1) {
    one_token(p, f);
  } else {
    two_tokens(p, f);
  }
}

/* ---- many tokens: a block of 32 rows is taken apart first ---- */

/* Codes times their scale: one multiplication of 16 bits is two of bytes that do not meet. */
CODED __m512i scaled(__m512i codes, __m512i scale) { return _mm512_mullo_epi16(codes, twice(scale)); }

/* Block b of the r-th sixteen rows of the piece. */
static void decode_block(ints_decoded *d, const ints_piece *p, int64_t b, int64_t r) {
  const ints_lanes block = lanes_from(&p->codes, r, b * p->block_bytes);
  read_heads(&d->h, &block, 0);
  for (int part = 0; part < PARTS; part++) {
    __m512i z[8];
    transpose_rows(z, &block, CODES_AT + 32 * part);
    UNROLL for (int s = 0; s < TOGETHER; s++) {
      UNROLL for (int i = 0; i < 8; i++) {
        const int at = 8 * (part * TOGETHER + s) + i;
        d->codes[at] = SCALED ? scaled(codes_of(z[i], s), d->h.scale[at * SCALES / 64]) : codes_of(z[i], s);
      }
    }
  }
}

/* n tokens, whose blocks are x, times a block of 32 rows. next: those that come after them, or NULL. */
CODED void tile(const ints_decoded d[WIDE], const ij_ints *const *x, const ij_ints *const *next, float *sums, ints_feed *f, int64_t steps, const int n) {
  __m512i a[WIDE][TILE][3];
  UNROLL for (int t = 0; t < n; t++) {
    UNROLL for (int j = 0; j < 3; j++) a[0][t][j] = a[1][t][j] = _mm512_setzero_si512();
  }
  UNROLL_HALVES for (int h = 0; h < 16; h++) { /* halves of groups */
    __m512i s[WIDE][TILE][3];
    const __m512i *codes[WIDE] = {d[0].codes + 4 * h, d[1].codes + 4 * h};
    if (h % 4 == 0) feed_some(f, steps);
    UNROLL for (int t = 0; t < n; t++) {
      if (next) v_prefetch((const char *)next[t] + 64 * h); /* they lie in the second-level cache or further away */
      UNROLL for (int j = 0; j < 3; j++) {
        UNROLL for (int r = 0; r < WIDE; r++) s[r][t][j] = SCALED ? a[r][t][j] : _mm512_setzero_si512();
      }
    }
    UNROLL for (int i = 0; i < 4; i++) {
      const __m512i w[WIDE] = {codes[0][i], codes[1][i]};
      UNROLL for (int t = 0; t < n; t++) {
        UNROLL for (int j = 0; j < 3; j++) {
          const __m512i four = four_of(x[t]->digit[j] + 16 * h + 4 * i);
          UNROLL for (int r = 0; r < WIDE; r++) s[r][t][j] = _mm512_dpbusd_epi32(s[r][t][j], w[r], four);
        }
      }
    }
    UNROLL for (int t = 0; t < n; t++) {
      UNROLL for (int j = 0; j < 3; j++) {
        UNROLL for (int r = 0; r < WIDE; r++) {
          a[r][t][j] = SCALED ? s[r][t][j] : _mm512_dpwssd_epi32(a[r][t][j], s[r][t][j], d[r].h.scale[h * SCALES / 16]);
        }
      }
    }
  }
  UNROLL for (int t = 0; t < n; t++) {
    float *y = sums + t * GROUPS * LANES;
    UNROLL for (int r = 0; r < WIDE; r++) _mm512_storeu_ps(y + r * LANES, add_block(_mm512_loadu_ps(y + r * LANES), a[r][t], &d[r].h, x[t]));
  }
}

#include "kernels/x86/ints_run.h"

#endif
