/* matmul_books_avx512.c: one token times the codebook types with entries of eight values (IQ1, IQ2).
 *
 * Four rows advance together as two pairs, a block of 256 values at a time; books_avx512.h says how a pair is decoded. While a block is
 * multiplied, the one after it is taken apart into memory, group by group in turns, so that scalar and vector units work at the same time
 * and what is stored has reached the cache before it is loaded in other sizes. That goes on over the end of a row: blocks of all rows of a
 * call are one sequence.
 */
#include "kernels/x86/vec_avx512.h"
#include "kernels/matmul_fold.h"
#include "kernels/x86/books_avx512.h"

enum { BOOKS_AHEAD = 4096 }; /* bytes under way from memory: 2048 to 8192 were alike */

#define FOUR(...) __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
#define EIGHT(...) FOUR(__VA_ARGS__), FOUR(__VA_ARGS__)
#define SIXTEEN(x) EIGHT(x), EIGHT(x)
static const book_consts constants = {
    .turns = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23},
    .odd_turns = {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31},
    .first_turns = {EIGHT(0, 16)},
    .iq1_m_first = {FOUR(0, 0, 6, 6)},
    .iq1_m_second = {FOUR(3, 3, 9, 9)},
    .iq2_scale = {0.125f, 0.375f, 0.625f, 0.875f, 1.125f, 1.375f, 1.625f, 1.875f,
                  2.125f, 2.375f, 2.625f, 2.875f, 3.125f, 3.375f, 3.625f, 3.875f},
    .odd8 = {1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15},
    .delta = {EIGHT(0.125f), EIGHT(-0.125f)},
    .low9 = {SIXTEEN(0x01ff01ff)},
    .low14 = {SIXTEEN(0x3fff)},
    .low7 = {SIXTEEN(0x007f007f)},
    .low7_byte = {SIXTEEN(0x7f7f7f7f)},
    .low3_byte = {SIXTEEN(0x07070707)},
    .low4_byte = {SIXTEEN(0x0f0f0f0f)},
    .eighth = {FOUR(0, 0x80, 0x80, 0, 0x80, 0, 0, 0x80, 0x80, 0, 0, 0x80, 0, 0x80, 0x80, 0)},
    .entry_order = {FOUR(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15)},
    .row_order = {FOUR(0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15)},
    .word_order = {FOUR(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15)},
#define WORD(i) i, i + 1, 0x80, 0x80, i + 8, i + 9, 0x80, 0x80
    .iq1_m_word = {WORD(0), WORD(0), WORD(2), WORD(2), WORD(4), WORD(4), WORD(6), WORD(6)},
#undef WORD
};

/* Products of any number of tokens, which do what is left to them here. */
static void (*general[IJ_DTYPE_COUNT])(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);

/* Two walks: over the blocks that are taken apart, of rows r to r + 3, of which those from r1 on repeat the last; and over memory, for
 * the prefetches, which run into the caller's next rows. */
typedef struct books_walk {
  const ij_matmul *m;
  int64_t r, r1, n_block, block;
  const uint8_t *row[MR];
  const char *fetch, *fetch_end, *fetch_next;
  int64_t fetch_step;
} books_walk;

static void books_rows(books_walk *w) {
  for (int i = 0; i < MR; i++) w->row[i] = (const uint8_t *)w->m->w + IJ_MIN(w->r + i, w->r1 - 1) * w->m->w_stride;
  w->block = 0;
}

CODED void books_advance(books_walk *w, const int64_t bytes) {
  UNROLL for (int i = 0; i < MR; i++) w->row[i] += bytes;
  if (++w->block < w->n_block) return;
  w->r = IJ_MIN(w->r + MR, w->r1 - 1);
  books_rows(w);
}

/* Fetches as much as a step takes, in lines of which each begins at most 64 bytes after the one before. */
CODED void books_fetch(books_walk *w, const int64_t bytes) {
  UNROLL for (int i = 0; i < (MR * bytes + 63) / 64; i++) v_prefetch(w->fetch + 64 * i);
  w->fetch += w->fetch_step;
  if (w->fetch < w->fetch_end) return;
  if (w->fetch_next) {
    w->fetch = w->fetch_next;
    w->fetch_end = w->fetch + w->m->n_next * w->m->w_stride;
    w->fetch_next = NULL;
  } else {
    w->fetch = w->fetch_end - 1;
    w->fetch_step = 0;
  }
}

CODED void books_start(books_walk *w, const ij_matmul *m, int64_t r0, int64_t r1, const int64_t bytes) {
  *w = (books_walk){.m = m, .r = r0, .r1 = r1, .n_block = m->k / 256, .fetch = (const char *)m->w + r0 * m->w_stride};
  books_rows(w);
  w->fetch_end = w->fetch + (r1 - r0) * m->w_stride;
  w->fetch_next = m->n_next > 0 ? m->w_next : NULL;
  w->fetch_step = MR * m->w_stride / w->n_block;
  for (int64_t b = 0; b < BOOKS_AHEAD; b += MR * bytes) books_fetch(w, bytes);
}

/* x with the second and third four of each sixteen values exchanged: what the two sums want lies side by side. */
static const float *books_x(const ij_matmul *m, float *scratch) {
  bool made;
  float *out = ij__x_place(m, IJ_X_BOOKS, scratch, &made);
  for (int64_t i = 0; i < m->k && !made; i += 16) {
    __m512 v = _mm512_loadu_ps(m->x + i);
    _mm512_store_ps(out + i, _mm512_shuffle_f32x4(v, v, _MM_SHUFFLE(3, 1, 2, 0)));
  }
  return out;
}

/* The first half of the fold: sums of two rows to four each. */
CODED __m256 books_fold(__m512 a, __m512 b) {
  a = _mm512_add_ps(a, _mm512_shuffle_f32x4(a, a, _MM_SHUFFLE(2, 3, 0, 1)));
  b = _mm512_add_ps(b, _mm512_shuffle_f32x4(b, b, _MM_SHUFFLE(2, 3, 0, 1)));
  a = _mm512_add_ps(a, b);
  return _mm512_castps512_ps256(_mm512_shuffle_f32x4(a, a, _MM_SHUFFLE(2, 0, 2, 0)));
}

/* What comes later in the source also comes later in the code: turns of scalar and vector work are meant. */
#define IN_ORDER() __asm__ volatile("" ::: "memory")

/* One block of four rows times x, while `next` gets the block at the walk. */
CODED void books_step(__m512 sum[2][2], const book_pair now[2], book_pair next[2], books_walk *w, const float *x, __m512 values,
                      const ij_dtype type) {
  const book_consts *t = &constants;
  __asm__("" : "+r"(t)); /* hides that they are constant */
  const uint8_t *row[MR] = {w->row[0], w->row[1], w->row[2], w->row[3]};
  UNROLL for (int i = 0; i < 2; i++) book_pair_ahead(&next[i], t, row[2 * i], row[2 * i + 1], type);
  books_fetch(w, coded_bytes(type));
  UNROLL for (int g = 0; g < 8; g++) {
    __m512 xs[4];
    UNROLL for (int i = 0; i < 4; i++) {
      xs[i] = _mm512_broadcast_f32x8(_mm256_load_ps(x + 32 * g + 8 * i));
      __asm__("" : "+v"(xs[i])); /* one load for both pairs */
    }
    UNROLL for (int i = 0; i < 2; i++) book_group(sum[i], &now[i], g, xs, values, type);
    IN_ORDER();
    UNROLL for (int i = 0; i < MR; i++) book_entries(&next[i / 2], row[i], i % 2, g, type);
    IN_ORDER();
  }
  books_advance(w, coded_bytes(type));
}

CODED void books_product(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type) {
  float sums[BATCH] = {0};
  const float *x = books_x(m, scratch);
  const __m512 values = book_values(type), zero = _mm512_setzero_ps();
  book_pair pairs[2][2];
  books_walk w;
  memset(pairs, 0, sizeof pairs);
  books_start(&w, m, r0, r1, coded_bytes(type));
  __m512 sum[2][2] = {{zero, zero}, {zero, zero}};
  /* Step -1 only takes apart: it multiplies nothing that counts. */
  int turn = 0;
  books_step(sum, pairs[0], pairs[1], &w, x, values, type);
  for (int64_t r = r0; r < r1; r += V) {
    const int64_t n_row = IJ_MIN(V, r1 - r);
    for (int64_t g = 0; g < n_row; g += MR) {
      UNROLL for (int i = 0; i < 4; i++) sum[i / 2][i % 2] = zero;
      for (int64_t b = 0; b < w.n_block; b++) {
        turn ^= 1;
        books_step(sum, pairs[turn], pairs[turn ^ 1], &w, x + 256 * b, values, type);
      }
      UNROLL for (int i = 0; i < 2; i++) _mm256_storeu_ps(sums + 4 * g + 8 * i, books_fold(sum[i][0], sum[i][1]));
    }
    store_batch(m->y + r, m->ldy, sums, 1, n_row);
  }
}

/* x in another order must fit scratch; longer rows take the general way. */
#define MATMUL_BOOKS(name, id)                                                                           \
  static void matmul_##name(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                \
    if (m->n != 1 || m->k > IJ_SCRATCH_ALIGNED || r0 >= r1) {                                            \
      general[IJ_DTYPE_##id](m, r0, r1, scratch);                                                        \
    } else {                                                                                             \
      books_product(m, r0, r1, scratch, IJ_DTYPE_##id);                                                  \
    }                                                                                                    \
  }
LOW_BOOKS(MATMUL_BOOKS)

void ij__matmul_books_fill_avx512(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
#define SET_BOOKS(name, id) k->matmul[IJ_DTYPE_##id] = matmul_##name;
  LOW_BOOKS(SET_BOOKS)
#undef SET_BOOKS
}
