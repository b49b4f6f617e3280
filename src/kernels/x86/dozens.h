/* dozens.h: what the products of nine to some dozens of tokens share at both levels: their bounds, tiles of tokens, and x laid out for them.
 *
 * Included after matmul_fold.h.
 */
#ifndef IJ_KERNELS_X86_DOZENS_H
#define IJ_KERNELS_X86_DOZENS_H

#include "kernels/kernels_int.h"

enum {
  DOZENS_MIN_N = 9,
  DOZENS_MAX_N = 64,    /* for more a panel is as good, or better */
  DOZENS_NT = 3,        /* tokens of a tile: 24 sums, 3 x and a vector of weights fill 28 of 32 registers; of half the rows 12 sums 16 */
  DOZENS_ROWS = 8,
  DOZENS_BLOCK = 512,   /* values: eight rows of them are 16 KB */
  DOZENS_X = 160 * 1024 /* floats of x at most, of which the second-level cache keeps hold */
};

/* Beside x the sums of sixteen lanes lie in scratch, and room for folding them. */
_Static_assert(DOZENS_X + DOZENS_MAX_N * (DOZENS_ROWS * 16 + BATCH) <= IJ_SCRATCH_ALIGNED - 16, "x and the sums lie in scratch");

/* Products of any number of tokens, which do what is left to them here, and the decoders. */
static void (*general[IJ_DTYPE_COUNT])(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);
static ij_decode_fn decoders[IJ_DTYPE_COUNT];

INLINE bool dozens_suit(const ij_matmul *m) {
  return m->n >= DOZENS_MIN_N && m->n <= DOZENS_MAX_N && m->k % 16 == 0 && m->n * m->k <= DOZENS_X;
}

/* Tokens of the next tile of n_left: three, or two where that leaves none alone; so never one, of nine and more. */
INLINE int64_t dozens_nt(int64_t n_left) { return n_left == 4 || n_left < DOZENS_NT ? IJ_MIN(n_left, 2) : DOZENS_NT; }

/* x as the tiles use it: [block of k][tile][step][token][16]. */
INLINE void dozens_pack(float *out, const ij_matmul *m) {
  for (int64_t c0 = 0, n; c0 < m->k; c0 += n) {
    n = IJ_MIN(m->k - c0, (int64_t)DOZENS_BLOCK);
    for (int64_t t = 0, nt; t < m->n; t += nt, out += nt * n) {
      nt = dozens_nt(m->n - t);
      for (int64_t i = 0; i < nt; i++) {
        const float *x = ij__x_row(m, t + i) + c0;
        for (int64_t k = 0; k < n; k += 16) memcpy(out + (k * nt + i * 16), x + k, 16 * sizeof *x);
      }
    }
  }
}

/* Values c0 to c0 + n of DOZENS_ROWS rows from r on, of which those from r1 on are not there and repeat the last. */
static void dozens_decode_rows(float *w, const ij_matmul *m, ij_dtype type, int64_t r, int64_t r1, int64_t c0, int64_t n) {
  for (int64_t i = 0; i < DOZENS_ROWS; i++) {
    ij_stretch s = ij__stretch_of(m, IJ_MIN(r + i, r1 - 1));
    s.c0 = c0;
    s.n = n;
    decoders[type](w + i * DOZENS_BLOCK, &s);
  }
}

#endif
