/* ints_tiles_avx512.h: what products of Q4_K in integers share on processors with AMX, whose unit for matrices multiplies up to 16 rows of 64 bytes
 * by 64 rows of 16 columns. Its rows are digits of tokens; its columns are 16 rows of weights, of which four codes that follow each other lie
 * together.
 *
 * The scale of a group has six bits. A code times either half of them fits into a byte, so a block is taken apart into two numbers for each
 * value, and sums over each of both for a whole block are exact. The definition is ref/ints_ref.c.
 */
#ifndef IJ_KERNELS_X86_INTS_TILES_AVX512_H
#define IJ_KERNELS_X86_INTS_TILES_AVX512_H

#define K_BITS 4
#include "kernels/x86/ints_q4_k_avx512.h"

/* Sixteen blocks, one of each row: for every 64 values 16 rows of fours of codes, times the lower and times the higher three bits of scales. */
typedef struct tile_codes {
  _Alignas(64) uint8_t low[4][16][64];
  _Alignas(64) uint8_t high[4][16][64];
} tile_codes;

/* What is written for the unit for matrices must be there when it reads; compilers do not know that it does. */
#define WRITTEN() __asm__ volatile("" ::: "memory")
#define WRITTEN_AT(p) __asm__ volatile("" : : "r"(p) : "memory") /* for what nothing else reads */

/* What tells the unit the shapes of its eight tiles. */
typedef struct tile_shapes {
  uint8_t palette, start_row, zeros[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tile_shapes;

/* Fours of codes of one group times its scales. */
CODED void times_scales(tile_codes *a, int t, int row, __m512i codes, __m512i low, __m512i high) {
  _mm512_store_si512((void *)a->low[t][row], _mm512_mullo_epi16(codes, low));
  _mm512_store_si512((void *)a->high[t][row], _mm512_mullo_epi16(codes, high));
}

/* Values 64 * t to 64 * t + 63; t = 0 comes first. */
CODED void decode_part(tile_codes *a, heads *h, const ints_lanes *block, int t) {
  const __m512i low3 = _mm512_set1_epi16(7);
  __m512i z[8], low[2], high[2];
  if (t == 0) read_heads(h, block, 0);
  UNROLL for (int i = 0; i < 2; i++) {
    low[i] = _mm512_and_si512(twice(h->scale[2 * t + i]), low3);
    high[i] = _mm512_srli_epi16(twice(h->scale[2 * t + i]), 3);
  }
  transpose_rows(z, block, CODES_AT + 32 * t);
  UNROLL for (int i = 0; i < 8; i++) {
    times_scales(a, t, i, codes_of(z[i], 0), low[0], high[0]);
    times_scales(a, t, 8 + i, codes_of(z[i], 1), low[1], high[1]);
  }
}

/* ---- sums ---- */

/* Sums of a block as the unit for matrices leaves them, with the lower and the higher bits of scales, of 16 rows each: those of a token and
 * a digit are number token * by_token + digit * by_digit. */
typedef struct tile_sums {
  const int32_t (*low)[16], (*high)[16];
  int by_token, by_digit;
} tile_sums;

/* From sums with both halves of scales to those with whole ones, as float32. */
CODED __m512 both(const tile_sums *s, int64_t at) {
  const __m512i high = _mm512_slli_epi32(_mm512_load_si512((const void *)s->high[at]), 3);
  return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_load_si512((const void *)s->low[at]), high));
}

/* y, of which tokens are `pitch` apart, with the sums of n tokens from number `first` on, whose blocks are x; step by step for all, so that few steps
 * wait for others. */
CODED void add_sums(float *y, int64_t pitch, const tile_sums *s, const heads *h, const ij_ints *const *x, int64_t first, const int n) {
  const __m512 up16 = _mm512_set1_ps(65536.0f), up8 = _mm512_set1_ps(256.0f);
  __m512 a[3][4], sum[4];
  UNROLL for (int d = 0; d < 3; d++) {
    UNROLL for (int i = 0; i < n; i++) a[d][i] = both(s, (first + i) * s->by_token + d * s->by_digit);
  }
  UNROLL for (int i = 0; i < n; i++) a[0][i] = _mm512_fmadd_ps(up8, a[1][i], a[0][i]);
  UNROLL for (int i = 0; i < n; i++) a[0][i] = _mm512_fmadd_ps(up16, a[2][i], a[0][i]);
  UNROLL for (int i = 0; i < n; i++) {
    sum[i] = _mm512_fmadd_ps(_mm512_mul_ps(h->d, _mm512_set1_ps(x[i]->scale)), a[0][i], _mm512_load_ps(y + pitch * i));
  }
  UNROLL for (int g = 0; g < 8; g++) {
    UNROLL for (int i = 0; i < n; i++) sum[i] = _mm512_fnmadd_ps(h->offset[g], _mm512_set1_ps(x[i]->sum[g]), sum[i]);
  }
  UNROLL for (int i = 0; i < n; i++) _mm512_store_ps(y + pitch * i, sum[i]);
}

#endif
