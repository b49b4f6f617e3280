/* few_avx512.h: two to eight tokens times block and split types, as sessions that are stepped together need it.
 *
 * A value is decoded once, in a register, for all tokens: two rows (four for two or three tokens) advance together, at most 64 values or
 * a block at a time, with a sum for each row and token in registers, so that decoding hides behind the multiply-adds. x is laid out anew,
 * once for all calls of a loop, the tokens of a step side by side, because rows of x that lie a power of two apart would push each other
 * out of the first-level cache; k is cut in blocks of which x stays there while a batch of sixteen rows passes, with the partial sums
 * parked between blocks (k still ascends in every lane). The weights of the next batch are fetched meanwhile.
 *
 * Types of which most people have files are written out here, for all rows together. The others take the decoders of the products of one
 * token, a row at a time.
 *
 * One function for each type and number of tokens, in several files, because compilers are slow on long code with full registers.
 */
#ifndef IJ_KERNELS_X86_FEW_AVX512_H
#define IJ_KERNELS_X86_FEW_AVX512_H

#include "kernels/x86/vec_avx512.h"
#include "kernels/matmul_fold.h"
#include "kernels/x86/few_ahead.h"
#include "kernels/x86/fused_avx512.h"
#include "kernels/x86/low_avx512.h"

enum {
  FEW_NT = 8,     /* tokens at most: two rows of them fill half of the registers */
  FEW_CHUNK = 64, /* values of which tables are made at a time */
  /* Values of a block of k. x of eight tokens takes 32 KB of it, where first-level caches have 48; half as many were slower. */
  FEW_LEN = SCALES_AHEAD
};

/* Products of any number of tokens, which do what is left to them here. */
static void (*general[IJ_DTYPE_COUNT])(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);

/* Rows that advance together. */
CODED int few_rows(const int nt) { return nt < 4 ? 4 : 2; }

/* ---- decoding ------------------------------------------------------------------------------------------------------------------- */

/* A chunk of a row, made ready: scales of its halves, or its codes, which a type of five bits puts together first. */
typedef struct few_source {
  const uint8_t *codes;
  const float *s;
  _Alignas(64) uint8_t bytes[64];
} few_source;

CODED __m512i both_halves(const uint8_t *p) { return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p)); }

/* Chunk j of a Q5_K block: each value's fifth bit is bit 2 * j or 2 * j + 1 of a byte. */
CODED void few_q5_k(uint8_t *bytes, const uint8_t *b, const int j) {
  const __m512i low = _mm512_srlv_epi64(both_halves(b + 48 + 32 * j), _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4));
  const __m512i turn = _mm512_sub_epi64(_mm512_setr_epi64(4, 4, 4, 4, 3, 3, 3, 3), _mm512_set1_epi64(2 * j));
  const __m512i high = _mm512_and_si512(_mm512_rolv_epi64(both_halves(b + 16), turn), _mm512_set1_epi8(16));
  _mm512_store_si512(bytes, _mm512_ternarylogic_epi32(high, low, _mm512_set1_epi8(15), 0xf8)); /* a | b & c */
}

/* Chunk j from value c of a row on, whose scales begin at value `from`; c is the start of a block where blocks have more than a chunk,
 * else j is 0. Unsigned, because divisions of signed numbers by powers of two take several operations, for which the multiply-adds
 * would have to make room. */
CODED void few_open(few_source *o, const fused_row *r, uint64_t c, uint64_t from, const int j, const ij_dtype type) {
  const uint8_t *b = r->codes + c / (uint64_t)coded_len(type) * (uint64_t)coded_bytes(type);
  switch (type) {
    case IJ_DTYPE_Q5_K:
      o->s = r->scales + (c - from) / 16 + 4 * j;
      few_q5_k(o->bytes, b, j);
      IN_MEMORY(o->bytes);
      break;
    default: o->codes = b; /* NVFP4_SPLIT */
  }
}

/* The sixteen values i of the chunk at value c. */
CODED __m512 few_take(const few_source *o, const fused_row *r, uint64_t c, const int i, const ij_dtype type) {
  const int half = i / 2;
  switch (type) {
    case IJ_DTYPE_Q5_K:
      return _mm512_fmsub_ps(_mm512_cvtepi32_ps(bytes16(o->bytes + 16 * i)), _mm512_set1_ps(o->s[2 * half]), _mm512_set1_ps(o->s[2 * half + 1]));
    default: /* NVFP4_SPLIT */
      return lookup(_mm512_load_ps(ij__fp4_tables.nvfp4_split[r->bytes[c / 16 + i]]), paired_nibbles(o->codes + 8 * i));
  }
}

/* ---- the product ---------------------------------------------------------------------------------------------------------------- */

/* What stays the same for all rows, and the batch of them that is under way. Rows from r1 on are not there, and the last is taken instead. */
typedef struct few_ctx {
  const ij_matmul *m;
  const float *x; /* [step of 16 values][token][16] */
  int64_t r1, nt;
  int shift;             /* of affine types: groups are of 2^shift values */
  int64_t c0, n;         /* the block of k */
  fused_row rows[V];     /* scales from c0 on */
  few_ahead ahead;
  _Alignas(64) float parked[V * FEW_NT * 16]; /* partial sums: [row][token][16] */
} few_ctx;

/* Values of a row that are decoded at a time, of n: what one call of a decoder gives. */
CODED int64_t few_piece(const ij_dtype type, const int64_t n) {
  return ij__is_low(type) ? 128 : ij__dtype_is_affine(type) ? 32 : has_quarters(type) ? 64 : n;
}

/* Piece j of n values from value c of a row on, in w where it lies in its block, or from the beginning where blocks are not longer. */
CODED void few_decode(vec *w, const fused_row *r, const low_ahead *a, uint64_t c, uint64_t from, const int j, const int64_t n, const int shift,
                      const ij_dtype type) {
  const int64_t piece = few_piece(type, n);
  const uint8_t *block = r->codes + c / (uint64_t)coded_len(type) * (uint64_t)coded_bytes(type);
  sink s = {.fused = true, .kept = w};
  if (ij__is_low(type)) {
    low_half(&s, a, block, j, type);
  } else if (has_quarters(type)) {
    iq4_xs(&s, block, r->scales + (c - from) / 256 * (uint64_t)block_scales_len(type), j);
  } else {
    fused_chunk(&s, r, c + (uint64_t)(j * piece), from, piece, type, shift);
  }
}

/* n values from value c on, of x at x, by the decoders of one row. */
CODED void few_by_rows(vec (*sum)[FEW_NT], const fused_row *row, const float *x, uint64_t c, uint64_t from, const int64_t n, const int shift,
                       const ij_dtype type, const int nt) {
  const int64_t piece = few_piece(type, n);
  low_ahead a[4];
  if (ij__is_low(type)) {
    UNROLL for (int r = 0; r < few_rows(nt); r++) low_work_ahead(&a[r], row[r].codes + c / 256 * (uint64_t)coded_bytes(type), type);
  }
  UNROLL for (int j = 0; j < n / piece; j++, x += piece * nt) {
    const int first = coded_len(type) > piece ? (int)(j * piece / 16) : 0;
    vec w[4][16];
    UNROLL for (int r = 0; r < few_rows(nt); r++) few_decode(w[r], &row[r], &a[r], c, from, j, n, shift, type);
    UNROLL for (int i = 0; i < piece / 16; i++) {
      UNROLL for (int t = 0; t < nt; t++) {
        vec v = v_load(x + (i * nt + t) * 16);
        IN_REGISTER(v);
        UNROLL for (int r = 0; r < few_rows(nt); r++) sum[r][t] = v_fma(v, w[r][first + i], sum[r][t]);
      }
    }
  }
}

/* n_vec times sixteen values of chunk j from value c on, of x at x. */
CODED void few_chunk(vec (*sum)[FEW_NT], const fused_row *row, const float *x, uint64_t c, uint64_t from, const int j, const int n_vec,
                     const ij_dtype type, const int nt) {
  few_source o[4];
  UNROLL for (int r = 0; r < few_rows(nt); r++) few_open(&o[r], &row[r], c, from, j, type);
  UNROLL for (int i = 0; i < n_vec; i++) {
    vec w[4];
    UNROLL for (int r = 0; r < few_rows(nt); r++) w[r] = few_take(&o[r], &row[r], c, i, type);
    UNROLL for (int t = 0; t < nt; t++) {
      vec a = v_load(x + (i * nt + t) * 16);
      IN_REGISTER(a);
      UNROLL for (int r = 0; r < few_rows(nt); r++) sum[r][t] = v_fma(a, w[r], sum[r][t]);
    }
  }
}

/* Types whose rows are decoded together, by few_open and few_take. */
CODED bool few_together(const ij_dtype type) {
  return type == IJ_DTYPE_Q5_K || type == IJ_DTYPE_NVFP4_SPLIT;
}

/* `span` values from value c on, of x at x. */
CODED void few_span_of(vec (*sum)[FEW_NT], const fused_row *row, const float *x, uint64_t c, uint64_t from, const int64_t span,
                       const int shift, const ij_dtype type, const int nt) {
  if (few_together(type)) {
    const int n_chunk = (int)IJ_MAX(span / FEW_CHUNK, (int64_t)1), n_vec = (int)(IJ_MIN(span, (int64_t)FEW_CHUNK) / 16);
    UNROLL for (int j = 0; j < n_chunk; j++) few_chunk(sum, row, x + j * FEW_CHUNK * nt, c, from, j, n_vec, type, nt);
  } else {
    few_by_rows(sum, row, x, c, from, span, shift, type, nt);
  }
}

/* Values of a turn of the innermost loop: a chunk, or a longer block. */
CODED int64_t few_span(const ij_dtype type) { return IJ_MAX(coded_len(type), (int64_t)FEW_CHUNK); }

/* A block of k for few_rows(nt) rows, the first of which is row i of the batch. */
CODED void few_block(few_ctx *f, int64_t i, const ij_dtype type, const int nt) {
  const int n_row = few_rows(nt);
  const fused_row *row = f->rows + i;
  float *parked = f->parked + i * nt * 16;
  vec sum[4][FEW_NT];
  UNROLL for (int r = 0; r < n_row; r++) {
    UNROLL for (int t = 0; t < nt; t++) sum[r][t] = f->c0 == 0 ? v_zero() : v_load(parked + (r * nt + t) * 16);
  }
  const int64_t c0 = f->c0, end = c0 + f->n;
  const float *x = f->x + c0 * nt;
  const int64_t span = few_span(type), tail = coded_len(type);
  int64_t c = c0;
  const char *ahead = f->ahead.at;
  for (; c + span <= end; c += span, x += span * nt) {
    few_ahead_fetch(&ahead, (uint64_t)(n_row * span / coded_len(type) * coded_bytes(type)));
    few_span_of(sum, row, x, (uint64_t)c, (uint64_t)c0, span, f->shift, type, nt);
  }
  for (; tail < span && c < end; c += tail, x += tail * nt) few_span_of(sum, row, x, (uint64_t)c, (uint64_t)c0, tail, f->shift, type, nt);
  f->ahead.at = ahead;
  UNROLL for (int r = 0; r < n_row; r++) {
    UNROLL for (int t = 0; t < nt; t++) v_store(parked + (r * nt + t) * 16, sum[r][t]);
  }
}

/* Takes rows r on as the batch. */
static void few_batch(few_ctx *f, int64_t r) {
  const ij_matmul *m = f->m;
  const int64_t last = IJ_MIN(V, f->r1 - r) - 1;
  const char *w = (const char *)m->w + r * m->w_stride;
  for (int64_t i = 0; i < V; i++) {
    f->rows[i].codes = (const uint8_t *)w;
    w += i < last ? m->w_stride : 0;
  }
  for (int64_t i = 0; i < V && m->scales; i++) {
    f->rows[i].s = ij__stretch_of(m, r + IJ_MIN(i, last));
    f->rows[i].bytes = f->rows[i].s.scales;
  }
}

/* The scales of n rows of the batch for the block of k: all before the first is used, so that nothing waits. */
CODED void few_scales(few_ctx *f, int64_t n, const ij_dtype type) {
  if (ij__is_low(type)) return; /* low_work_ahead has theirs */
  for (int64_t i = 0; i < n; i += 4) fused_scales_of_four(&f->rows[i], f->c0, f->n, type, f->shift);
}

/* The sums of the lanes of p that differ in one bit of their number, where it is clear; where it is set, those of q. */
CODED vec few_fold_bit(vec p, vec q, const int bit) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __mmask16 set = bit == 8 ? 0xff00 : bit == 4 ? 0xf0f0 : bit == 2 ? 0xcccc : 0xaaaa;
  const __m512i other = _mm512_mask_add_epi32(lane, set, lane, _mm512_set1_epi32(16)); /* of q */
  return v_add(_mm512_mask_blend_ps(set, p, q), _mm512_permutex2var_ps(p, _mm512_xor_si512(other, _mm512_set1_epi32(bit)), q));
}

/* The fold of matmul_fold.h for sixteen rows at once, one in each lane of the result: of values that are 8 apart, then 4, 2, 1, wherever an
 * order of lanes has put them. */
CODED vec few_fold(vec *row, const lane_order order) {
  const int first = order == ORDER_PLAIN ? 8 : order == ORDER_PAIRS ? 1 : 2;
  UNROLL for (int i = 0, bit = first, done = 0; i < 4; i++) {
    UNROLL for (int r = 0; r < V; r++) {
      if ((r & (done | bit)) == 0) row[r] = few_fold_bit(row[r], row[r | bit], bit);
    }
    done |= bit;
    bit = bit == 1 ? 8 : bit / 2;
  }
  return row[0];
}

/* y of n_row rows from the parked sums. */
CODED void few_store(const few_ctx *f, float *y, int64_t n_row, const lane_order order) {
  const int64_t nt = f->nt;
  const __mmask16 there = (__mmask16)(0xffff >> (V - n_row));
  for (int64_t t = 0; t < nt; t++) {
    vec row[V];
    UNROLL for (int64_t r = 0; r < V; r++) row[r] = v_load(f->parked + (r * nt + t) * 16);
    _mm512_mask_storeu_ps(y + t * f->m->ldy, there, few_fold(row, order));
  }
}

/* What is made for a type: its scales, the end of a batch, and its product for each number of tokens. */
typedef struct few_type {
  void (*scales)(few_ctx *f, int64_t n);
  void (*store)(const few_ctx *f, float *y, int64_t n_row);
  void (*block[FEW_NT + 1])(few_ctx *f, int64_t i); /* NULL: left to the general way */
} few_type;

/* Rows r0 on. */
static void few_run(few_ctx *f, int64_t r0, const few_type *of) {
  const ij_matmul *m = f->m;
  const int64_t step = few_rows((int)f->nt), n_block = ij__div_up(m->k, (int64_t)FEW_LEN);
  for (int64_t r = r0; r < f->r1; r += V) {
    const int64_t n_row = IJ_MIN(V, f->r1 - r);
    few_batch(f, r);
    few_ahead_start(&f->ahead, m, r, f->r1, V, n_block * V / step);
    for (f->c0 = 0; f->c0 < m->k; f->c0 += FEW_LEN) {
      f->n = IJ_MIN((int64_t)FEW_LEN, m->k - f->c0);
      of->scales(f, ij__div_up(n_row, step) * step);
      for (int64_t i = 0; i < n_row; i += step) {
        few_ahead_turn(&f->ahead);
        of->block[f->nt](f, i);
      }
    }
    of->store(f, m->y + r, n_row);
  }
}

static void matmul_few(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, ij_dtype type, const few_type *of) {
  if (m->n < 2 || m->n > FEW_NT || !of->block[m->n] || m->k * m->n > IJ_SCRATCH_ALIGNED || ij__wide_side(m, type)) {
    general[type](m, r0, r1, scratch);
    return;
  }
  few_ctx f;
  f.m = m;
  f.x = x_in_steps(m, scratch, order_of(type));
  f.r1 = r1;
  f.nt = m->n;
  f.shift = m->group == 64 ? 6 : m->group == 32 ? 5 : 7;
  if ((r1 - r0) % V != 0) memset(f.parked, 0, sizeof f.parked); /* rows that a short batch lacks are folded too, and dropped */
  few_run(&f, r0, of);
}

/* One function for a type and a number of tokens. */
#define FEW_BLOCK(id, n) \
  static __attribute__((noinline)) void few_##id##_##n(few_ctx *f, int64_t i) { few_block(f, i, IJ_DTYPE_##id, n); }
#define FEW_PRODUCT(id, ...)                                                                                                    \
  static void few_scales_##id(few_ctx *f, int64_t n) { few_scales(f, n, IJ_DTYPE_##id); }                                        \
  static void few_store_##id(const few_ctx *f, float *y, int64_t n_row) { few_store(f, y, n_row, order_of(IJ_DTYPE_##id)); }     \
  static void matmul_few_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) {                                      \
    static const few_type of = {few_scales_##id, few_store_##id, {NULL, NULL, __VA_ARGS__}};                                      \
    matmul_few(m, r0, r1, scratch, IJ_DTYPE_##id, &of);                                                                          \
  }
#define FEW_TO_4(id)                                    \
  FEW_BLOCK(id, 2) FEW_BLOCK(id, 3) FEW_BLOCK(id, 4)    \
  FEW_PRODUCT(id, few_##id##_2, few_##id##_3, few_##id##_4)
#define FEW_TO_8(id)                                                                                                              \
  FEW_BLOCK(id, 2) FEW_BLOCK(id, 3) FEW_BLOCK(id, 4) FEW_BLOCK(id, 5) FEW_BLOCK(id, 6) FEW_BLOCK(id, 7) FEW_BLOCK(id, 8)            \
  FEW_PRODUCT(id, few_##id##_2, few_##id##_3, few_##id##_4, few_##id##_5, few_##id##_6, few_##id##_7, few_##id##_8)
#define FEW_SET(id) k->matmul[IJ_DTYPE_##id] = matmul_few_##id;

#endif
