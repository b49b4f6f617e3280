/* ints_affine.h: what products in integers of AFFINE4 share at both x86 levels: the groups of a piece, and x for codes that are multiplied as
 * they lie.
 *
 * Included after ints_rows.h, with SIDED. A byte of codes has two values that follow each other. Few tokens multiply all low nibbles of four
 * bytes, then all high ones, by digits of x that have been put into that order; for many the codes are put in order, once for all of them.
 */
#ifndef IJ_KERNELS_X86_INTS_AFFINE_H
#define IJ_KERNELS_X86_INTS_AFFINE_H

/* Times 32 values in n_block blocks from block b of the piece on, or as many as the row has. */
CODED int64_t stretches_of(const ints_piece *p, int64_t b, int64_t n_block) {
  const int64_t at = (p->b0 + b) * IJ_INTS;
  return IJ_MIN(p->m->k - at, n_block * IJ_INTS) / 32;
}

/* A block of which every eight digits are the even ones, then the odd ones; sum[] has those of groups. */
static void ints_apart(ij_ints *to, const ij_ints *from, int shift) {
  const __m128i apart = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  for (int i = 0; i < 3 * IJ_INTS; i += 16) {
    const int j = i / IJ_INTS, at = i % IJ_INTS;
    const __m128i digits = _mm_load_si128((const __m128i *)(const void *)(from->digit[j] + at));
    _mm_store_si128((__m128i *)(void *)(to->digit[j] + at), _mm_shuffle_epi8(digits, apart));
  }
  for (int g = 0; g < IJ_INTS / 32 >> shift; g++) to->sum[g] = ij__ints_group_sum(from, g, shift);
  to->scale = from->scale;
}

/* The blocks of n tokens in that order, at `to`, where they may have been before. */
static void few_ints(const ij_ints **x, const ij_matmul *m, int64_t n, ij_ints *to) {
  const int64_t n_block = ij__div_up(m->k, (int64_t)IJ_INTS);
  for (int64_t t = 0; t < n; t++, to += n_block) {
    for (int64_t b = 0; b < n_block; b++) ints_apart(to + b, x[t] + b, ij__ints_group_shift(m));
    x[t] = to;
  }
}

#endif
