/* coded_avx2.h: 256 values of any coded type for the products of one token and of a few: what is worked out ahead, then values by turns.
 *
 * Such a span is a block of the long types, and several blocks or groups of the others.
 */
#ifndef IJ_KERNELS_X86_CODED_AVX2_H
#define IJ_KERNELS_X86_CODED_AVX2_H

#include "kernels/kernels_int.h"
#include "kernels/x86/coded_consts.h"
#include "kernels/x86/decode_iq_avx2.h"
#include "kernels/x86/decode_k_avx2.h"
#include "kernels/x86/decode_split_avx2.h"

enum { SPAN = FUSED_SPAN };

/* A row: codes or blocks, and where they lie apart the scales and biases. */
typedef struct span_row {
  const uint8_t *codes;
  const void *scales, *biases;
} span_row;

CODED int64_t span_bytes(const ij_dtype type) { return SPAN / coded_len(type) * coded_bytes(type); }

/* In how many turns the values of a span are had. */
CODED int span_turns(const ij_dtype type) {
  switch (type) {
#define TURNS(name, id, turns) \
  case IJ_DTYPE_##id: return turns;
    IJ_K_TYPES(TURNS)
    IJ_IQ_TYPES(TURNS)
#undef TURNS
    default: return 4;
  }
}

CODED ij_order span_order(const ij_dtype type) {
  switch (type) {
    case IJ_DTYPE_Q4_0:
    case IJ_DTYPE_IQ4_NL:
    case IJ_DTYPE_IQ4_XS:
    case IJ_DTYPE_MXFP4:
    case IJ_DTYPE_NVFP4: return IJ_ORDER_APART;
    case IJ_DTYPE_NVFP4_SPLIT:
    case IJ_DTYPE_MXFP4_SPLIT: return IJ_ORDER_QUADS;
    default: return IJ_ORDER_PLAIN;
  }
}

/* ---- ahead -------------------------------------------------------------------------------------------------------------------- */

/* Eight E8M0, 2^(e - bias): the bias is 127 or 128, 255 is NaN, and the smallest are denormal. */
CODED __m256 e8m0_floats(__m256i e, const int bias) {
  const int low = bias - 127; /* the last denormal */
  __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(low)), 23);
  __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00400000 >> low), e);
  bits = _mm256_blendv_epi8(bits, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(low + 1), e));
  __m256i nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
  return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), nan));
}

/* The scales of eight blocks of 32 values; with offsets, both in turns. Codes of five bits are put together here too. */
CODED void small_ahead(ij_ahead *a, const uint8_t *b, const ij_dtype type) {
  const int64_t n = coded_bytes(type);
#define EACH(load) load(b), load(b + n), load(b + 2 * n), load(b + 3 * n), load(b + 4 * n), load(b + 5 * n), load(b + 6 * n), load(b + 7 * n)
#define WORD(p) (short)ij__fmt_u16(p)
#define PAIR(p) (int)ij__load_u32(p)
#define BYTE(p) *(p)
  if (type == IJ_DTYPE_Q4_1 || type == IJ_DTYPE_Q5_1) {
    __m256i pairs = _mm256_setr_epi32(EACH(PAIR));
    _mm256_storeu_ps(a->scale, _mm256_cvtph_ps(_mm256_castsi256_si128(pairs)));
    _mm256_storeu_ps(a->scale + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(pairs, 1)));
  } else if (type == IJ_DTYPE_MXFP4) {
    _mm256_storeu_ps(a->scale, e8m0_floats(_mm256_setr_epi32(EACH(BYTE)), 128));
  } else {
    _mm256_storeu_ps(a->scale, _mm256_cvtph_ps(_mm_setr_epi16(EACH(WORD))));
  }
#undef EACH
#undef WORD
#undef PAIR
#undef BYTE
  IJ_UNROLL for (int i = 0; i < 8; i++) {
    if (type == IJ_DTYPE_Q5_0) ij__q5_0_codes(a->codes + 32 * i, b + n * i);
    if (type == IJ_DTYPE_Q5_1) ij__q5_1_codes(a->codes + 32 * i, b + n * i);
  }
}

/* Scales or biases of eight times 32 values, of groups of 32, 64 or 128; of two bytes each. No division: it takes its time. */
CODED void affine_side(float out[8], const void *row, int64_t c, const ij_matmul *m) {
  const uint8_t *p = row;
  __m128i h;
  if (m->group == 64) {
    h = _mm_shuffle_epi8(ij__load8(p + c / 64 * 2), _mm_setr_epi8(0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7));
  } else if (m->group == 32) {
    h = ij__load16(p + c / 32 * 2);
  } else {
    h = _mm_cvtsi32_si128((int)ij__load_u32(p + c / 128 * 2));
    h = _mm_shuffle_epi8(h, _mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3));
  }
  if (m->side_dtype == IJ_DTYPE_F16) {
    _mm256_storeu_ps(out, _mm256_cvtph_ps(h));
  } else {
    _mm256_storeu_ps(out, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)));
  }
}

/* For the span that begins with value c of a row. */
CODED void span_ahead(ij_ahead *a, const span_row *r, int64_t c, const ij_matmul *m, const ij_dtype type) {
  const uint8_t *b = r->codes + c / coded_len(type) * coded_bytes(type), *side = (const uint8_t *)r->scales;
  switch (type) {
#define AHEAD(name, id, turns) \
  case IJ_DTYPE_##id: ij__##name##_ahead(a, b); break;
    IJ_K_TYPES(AHEAD)
    IJ_IQ_TYPES(AHEAD)
#undef AHEAD
    case IJ_DTYPE_NVFP4:
    case IJ_DTYPE_NVFP4_SPLIT: break; /* they look up bytes */
    case IJ_DTYPE_MXFP4_SPLIT:
    case IJ_DTYPE_MXFP8_SPLIT: _mm256_storeu_ps(a->scale, e8m0_floats(_mm256_cvtepu8_epi32(ij__load8(side + c / 32)), 127)); break;
    default:
      if (ij__dtype_is_affine(type)) {
        affine_side(a->scale, r->scales, c, m);
        affine_side(a->offset, r->biases, c, m);
      } else {
        small_ahead(a, b, type);
      }
  }
  IJ_IN_MEMORY(*a);
}

/* ---- values ------------------------------------------------------------------------------------------------------------------- */

/* Values 32 * g on of a span whose codes or blocks begin at b, of blocks of 32 or of a split type. */
CODED void span_32(ij_sink *k, const int64_t at, const ij_ahead *a, const uint8_t *b, const int64_t g, const ij_dtype type) {
  const bool pairs = type == IJ_DTYPE_Q4_1 || type == IJ_DTYPE_Q5_1;
  const __m256 d = _mm256_broadcast_ss(a->scale + (pairs ? 2 * g : g));
  const __m256 m = _mm256_broadcast_ss(pairs ? a->scale + 2 * g + 1 : a->offset + g);
  const uint8_t *p = b + coded_bytes(type) * g;
  switch (type) {
    case IJ_DTYPE_Q4_0: ij__q4_0_avx2(k, at, p, d, m); break;
    case IJ_DTYPE_Q4_1: ij__q4_1_avx2(k, at, p, d, m); break;
    case IJ_DTYPE_Q5_0: ij__codes_i8(k, at, a->codes + 32 * g, d); break;
    case IJ_DTYPE_Q5_1: ij__codes_u8(k, at, a->codes + 32 * g, d, m); break;
    case IJ_DTYPE_Q8_0: ij__q8_0_avx2(k, at, p, d, m); break;
    case IJ_DTYPE_IQ4_NL: ij__iq4_nl_avx2(k, at, p, d, m); break;
    case IJ_DTYPE_MXFP4: ij__mxfp4_avx2(k, at, p, d, m); break;
    case IJ_DTYPE_MXFP4_SPLIT: ij__mxfp4_split_avx2(k, at, p, d); break;
    case IJ_DTYPE_MXFP8_SPLIT: ij__mxfp8_split_avx2(k, at, p, d); break;
    case IJ_DTYPE_AFFINE2: ij__affine2_avx2(k, at, p, d, m, true); break;
    case IJ_DTYPE_AFFINE3: ij__affine3_avx2(k, at, p, d, m, true); break;
    case IJ_DTYPE_AFFINE5: ij__affine5_avx2(k, at, p, d, m, true); break;
    case IJ_DTYPE_AFFINE6: ij__affine6_avx2(k, at, p, d, m, true); break;
    default: ij__affine8_avx2(k, at, p, d, m, true);
  }
}

/* Turn j of the span that begins with value c of a row. */
CODED void span_part(ij_sink *k, const ij_ahead *a, const span_row *r, int64_t c, const int64_t j, const ij_dtype type) {
  const uint8_t *b = r->codes + c / coded_len(type) * coded_bytes(type), *side = r->scales;
  switch (type) {
#define PART(name, id, turns) \
  case IJ_DTYPE_##id: ij__##name##_part(k, a, b, j); break;
    IJ_K_TYPES(PART)
    IJ_IQ_TYPES(PART)
#undef PART
    case IJ_DTYPE_NVFP4: ij__nvfp4_avx2(k, b + 36 * j); break;
    case IJ_DTYPE_NVFP4_SPLIT:
      side += c / 16 + 4 * j;
      ij__nvfp4_split_avx2(k, 0, b + 32 * j, side);
      ij__nvfp4_split_avx2(k, 4, b + 32 * j + 16, side + 2);
      break;
    default:
      span_32(k, 0, a, b, 2 * j, type);
      span_32(k, 4, a, b, 2 * j + 1, type);
  }
}

#endif
