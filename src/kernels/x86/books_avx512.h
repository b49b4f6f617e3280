/* books_avx512.h: the codebook types with entries of eight values (IQ1, IQ2) by pairs of rows, for matmul_books_avx512.c: one token.
 *
 * A register of 64 codes holds 32 values of two rows; one permutation by the low bits of each place turns 16 of them into floats. What
 * costs most is to bring codes to their places, so as little of it as possible is left to the two vector units:
 *
 *   - Entries of a codebook are copied by scalar loads and stores straight to where a later byte shuffle within 128 bits wants them.
 *     Gathers would be fewer instructions, but keep the vector units busy.
 *   - In a register the four parts of 128 bits are row 0: values 0-7 and 16-23, 8-15 and 24-31, and row 1 the same. After the shuffle
 *     place j of a part has four codes, lowest byte first: of values j and j + 16, and of j + 4 and j + 20. Shifts by bytes bring out one
 *     after the other, with the two rows side by side in one register. So 16 lanes are 8 sums of each row, and a second register has
 *     the other 8.
 *   - A table of 16 floats serves both rows: the lowest bit of a code is its row.
 *
 * Everything about a block of two rows is put into memory (book_pair) while the block before is multiplied.
 *
 * IQ3 is not among them: with entries of four values it gained nothing, by scalar copies or by gathers.
 */
#ifndef IJ_KERNELS_X86_BOOKS_AVX512_H
#define IJ_KERNELS_X86_BOOKS_AVX512_H

#include "kernels/x86/low_avx512.h"

/* 256 values of two rows, as above. */
typedef struct book_pair {
  _Alignas(64) uint64_t codes[8][8]; /* of 32 values each, without signs */
  float scale[2][8][2];              /* [first or second 16 of a group][group][row]; types with a scale per 32 have the first only */
  float delta[8][2];                 /* IQ1_S */
  uint64_t signs[8];                 /* bits for the bytes of codes; IQ1_M: the low eight bits, for their eight parts */
  uint16_t index[2][32];             /* of entries, where they must be put together; [row] */
} book_pair;

/* Constants in memory, from where instructions take them at no cost; compilers would rather make them anew each time. */
typedef struct book_consts {
  _Alignas(64) int32_t turns[16];         /* the lanes of two registers in turns */
  int32_t odd_turns[16], first_turns[16]; /* their odd lanes; the first lane of each, over and over */
  int32_t iq1_m_first[16], iq1_m_second[16]; /* shifts */
  float iq2_scale[16], odd8[16], delta[16];
  uint32_t low9[16], low14[16], low7[16], low7_byte[16], low3_byte[16], low4_byte[16];
  uint8_t eighth[64], entry_order[64], row_order[64], word_order[64], iq1_m_word[64];
} book_consts;

CODED __m512i ij__const(const void *p) { return _mm512_load_si512(p); }

/* Place among eight words of eight codes: of entry e (values 8e of 32) of a row. */
#define BOOK_PLACE(row, e) (4 * (row) + (e) / 2 + (e) % 2 * 2)

/* ---- scales ----------------------------------------------------------------------------------------------------------------------- */

/* F16 at b and c in turns. */
CODED __m512 book_d(const book_consts *t, const uint8_t *b, const uint8_t *c) {
  __m512 d = _mm512_castps128_ps512(_mm_cvtph_ps(ij__load8(b))), e = _mm512_castps128_ps512(_mm_cvtph_ps(ij__load8(c)));
  return _mm512_permutex2var_ps(d, ij__const(t->first_turns), e);
}

/* d times the table's value for the lowest four bits of each lane. */
CODED void book_scales(float (*out)[2], __m512 d, __m512i codes, const float *table) {
  _mm512_storeu_ps(out, _mm512_mul_ps(d, ij__pick(codes, _mm512_load_ps(table))));
}

/* Of the sixteen nibbles at b and c. */
CODED void book_nibble_scales(book_pair *p, const book_consts *t, __m512 d, const uint8_t *b, const uint8_t *c) {
  __m512i n = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(ij__load8(b), ij__load8(c)));
  book_scales(p->scale[0], d, n, t->iq2_scale);
  book_scales(p->scale[1], d, _mm512_srli_epi32(n, 4), t->iq2_scale);
}

/* ---- signs ------------------------------------------------------------------------------------------------------------------------ */

/* a where the mask is set, else b. */
CODED __m512i book_select(__m512i a, const void *mask, __m512i b) { return _mm512_ternarylogic_epi32(a, ij__const(mask), b, 0xe2); }

/* Bytes of seven signs to eight, of which an even number is set. Bit 7 may hold anything. */
CODED __m512i book_eighth(const book_consts *t, __m512i s) {
  __m512i folded = _mm512_ternarylogic_epi32(_mm512_srli_epi16(s, 4), s, ij__const(t->low3_byte), 0x6c); /* s ^ (s >> 4 & 7) */
  folded = _mm512_shuffle_epi8(ij__const(t->eighth), _mm512_and_si512(folded, ij__const(t->low4_byte)));
  return book_select(s, t->low7_byte, folded);
}

/* Words with 28 signs at the bottom, of the two rows in turns. */
CODED void book_signs_28(book_pair *p, const book_consts *t, __m512i w) {
  w = book_select(w, t->low14, _mm512_slli_epi32(w, 2));
  w = book_select(w, t->low7, _mm512_slli_epi32(w, 1));
  _mm512_storeu_si512(p->signs, _mm512_shuffle_epi8(book_eighth(t, w), ij__const(t->entry_order)));
}

/* 32 bytes of eight signs of each row. */
CODED void book_signs_8(book_pair *p, const book_consts *t, const uint8_t *b, const uint8_t *c) {
  __m512i x = _mm512_castsi256_si512(ij__load32(b)), y = _mm512_castsi256_si512(ij__load32(c));
  __m512i s = _mm512_permutex2var_epi32(x, ij__const(t->turns), y);
  _mm512_storeu_si512(p->signs, _mm512_shuffle_epi8(s, ij__const(t->entry_order)));
}

/* ---- blocks: all but the entries --------------------------------------------------------------------------------------------------- */

CODED void iq2_xxs_pair(book_pair *p, const book_consts *t, const uint8_t *b, const uint8_t *c) {
  __m512i w = _mm512_permutex2var_epi32(ij__load64(b + 2), ij__const(t->odd_turns), ij__load64(c + 2));
  book_scales(p->scale[0], book_d(t, b, c), _mm512_srli_epi32(w, 28), t->iq2_scale);
  book_signs_28(p, t, w);
}

CODED void iq2_xs_pair(book_pair *p, const book_consts *t, const uint8_t *b, const uint8_t *c) {
  __m512i x = ij__load64(b + 2), y = ij__load64(c + 2);
  _mm512_storeu_si512(p->index[0], _mm512_and_si512(x, ij__const(t->low9)));
  _mm512_storeu_si512(p->index[1], _mm512_and_si512(y, ij__const(t->low9)));
  /* signs of row 0 to the low bytes, of row 1 to the high ones */
  __m512i s = _mm512_ternarylogic_epi32(_mm512_set1_epi16(0xff), _mm512_srli_epi16(x, 9), _mm512_srli_epi16(y, 1), IJ_SELECT);
  _mm512_storeu_si512(p->signs, _mm512_shuffle_epi8(book_eighth(t, s), ij__const(t->row_order)));
  book_nibble_scales(p, t, book_d(t, b, c), b + 66, c + 66);
}

CODED void iq2_s_pair(book_pair *p, const book_consts *t, const uint8_t *b, const uint8_t *c) {
  ij__iq2_s_index(p->index[0], b);
  ij__iq2_s_index(p->index[1], c);
  book_signs_8(p, t, b + 34, c + 34);
  book_nibble_scales(p, t, book_d(t, b, c), b + 74, c + 74);
}

CODED void iq1_s_pair(book_pair *p, const book_consts *t, const uint8_t *b, const uint8_t *c) {
  ij__iq1_s_index(p->index[0], b);
  ij__iq1_s_index(p->index[1], c);
  __m128i x = ij__load16(b + 34), y = ij__load16(c + 34);
  __m512i w = _mm512_cvtepu16_epi32(_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(x, y)), _mm_unpackhi_epi16(x, y), 1));
  w = _mm512_srli_epi32(w, 12); /* the scale, and above it the sign of delta */
  book_scales(p->scale[0], book_d(t, b, c), w, t->odd8);
  _mm512_storeu_ps(p->delta, ij__pick(w, _mm512_load_ps(t->delta)));
}

/* F16 of which the scales at p hold four bits each. */
CODED uint32_t iq1_m_d(const uint8_t *p) {
  uint64_t w = ij__load_u64(p);
  return (uint32_t)((w >> 12 & 0x000f) | (w >> 24 & 0x00f0) | (w >> 36 & 0x0f00) | (w >> 48 & 0xf000));
}

CODED void iq1_m_pair(book_pair *p, const book_consts *t, const uint8_t *b, const uint8_t *c) {
  __m512i x = ij__iq1_m_index(p->index[0], b), y = ij__iq1_m_index(p->index[1], c);
  /* signs of delta, bit 11 of words: groups 0, 2, 4 and 6, then the others; of each four of either row */
  const __m512i negative = _mm512_set1_epi16(0x800);
  IJ_UNROLL for (int i = 0; i < 2; i++) {
    __m512i z = i ? _mm512_unpackhi_epi64(x, y) : _mm512_unpacklo_epi64(x, y);
    uint32_t mask = _mm512_test_epi16_mask(_mm512_shuffle_epi8(z, ij__const(t->word_order)), negative);
    memcpy((char *)p->signs + 4 * i, &mask, sizeof mask);
  }
  __m512i w = _mm512_broadcast_i32x4(_mm_unpacklo_epi64(ij__load8(b + 48), ij__load8(c + 48)));
  w = _mm512_shuffle_epi8(w, ij__const(t->iq1_m_word)); /* for each group the word with its scales */
  __m128 d = _mm_cvtph_ps(_mm_cvtsi32_si128((int)(iq1_m_d(b + 48) | iq1_m_d(c + 48) << 16)));
  __m512 wide = _mm512_castpd_ps(_mm512_broadcastsd_pd(_mm_castps_pd(d)));
  book_scales(p->scale[0], wide, _mm512_srlv_epi32(w, ij__const(t->iq1_m_first)), t->odd8);
  book_scales(p->scale[1], wide, _mm512_srlv_epi32(w, ij__const(t->iq1_m_second)), t->odd8);
}

/* ---- the types by name -------------------------------------------------------------------------------------------------------------- */

CODED void book_pair_ahead(book_pair *p, const book_consts *t, const uint8_t *b, const uint8_t *c, const ij_dtype type) {
  switch (type) {
#define PAIR(name, id) \
  case IJ_DTYPE_##id: name##_pair(p, t, b, c); break;
    LOW_BOOKS(PAIR)
#undef PAIR
    default: break;
  }
  IN_MEMORY(*p);
}

CODED bool book_is_iq1(const ij_dtype type) { return type == IJ_DTYPE_IQ1_S || type == IJ_DTYPE_IQ1_M; }

/* Entry i of a row's block. */
CODED uint64_t book_entry(const book_pair *p, const uint8_t *b, const int row, const int i, const ij_dtype type) {
  const ij_iq_floats *t = &ij__iq_floats;
  switch (type) {
    case IJ_DTYPE_IQ2_XXS: return t->iq2_xxs_codes[row][b[2 + i + i / 4 * 4]];
    case IJ_DTYPE_IQ2_XS: return t->iq2_xs_codes[row][p->index[row][i]];
    case IJ_DTYPE_IQ2_S: return t->iq2_s_codes[row][p->index[row][i]];
    default: return t->iq1_codes[p->index[row][i]];
  }
}

/* The entries of group g of a row. Each passes through a register of its own: compilers would put pairs together, which takes shuffles. */
CODED void book_entries(book_pair *p, const uint8_t *b, const int row, const int g, const ij_dtype type) {
  IJ_UNROLL for (int e = 0; e < 4; e++) {
    uint64_t v = book_entry(p, b, row, 4 * g + e, type);
    __asm__("" : "+r"(v));
    p->codes[g][BOOK_PLACE(row, e)] = v;
  }
}

/* Codes of group g, to be used 32 bits a place. */
CODED __m512i book_codes(const book_pair *p, const int g, const ij_dtype type) {
  const __m512i within = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15));
  const __m512i row = _mm512_setr_epi64(0, 0, 0, 0, 0x0101010101010101, 0x0101010101010101, 0x0101010101010101, 0x0101010101010101);
  __m512i v = ij__load64(p->codes[g]);
  if (book_is_iq1(type)) {
    v = _mm512_xor_si512(v, row);
    const uint8_t *delta = (const uint8_t *)p->signs + g / 2 + g % 2 * 4;
    if (type == IJ_DTYPE_IQ1_M) v = _mm512_mask_xor_epi64(v, *delta, v, _mm512_set1_epi8(8));
  } else {
    v = _mm512_mask_add_epi8(v, p->signs[g], v, _mm512_set1_epi8(8));
  }
  return _mm512_shuffle_epi8(v, within);
}

/* Values by code, before the scale. */
CODED __m512 book_values(const ij_dtype type) {
  if (type == IJ_DTYPE_IQ1_S) return _mm512_setr_ps(-1, -1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); /* and delta */
  if (type == IJ_DTYPE_IQ1_M) {
    return _mm512_setr_ps(-0.875f, -0.875f, 0.125f, 0.125f, 1.125f, 1.125f, 0, 0, -1.125f, -1.125f, -0.125f, -0.125f, 0.875f, 0.875f, 0, 0);
  }
  return _mm512_setr_ps(8, 8, 25, 25, 43, 43, 0, 0, -8, -8, -25, -25, -43, -43, 0, 0);
}

CODED __m512 book_both_rows(const float *two) {
  double d;
  memcpy(&d, two, sizeof d);
  return _mm512_castpd_ps(_mm512_set1_pd(d));
}

/* Tables for the first and the second 16 values of group g. */
CODED void book_tables(__m512 out[2], const book_pair *p, const int g, __m512 values, const ij_dtype type) {
  if (type == IJ_DTYPE_IQ1_S) values = _mm512_add_ps(values, book_both_rows(p->delta[g]));
  out[0] = _mm512_mul_ps(book_both_rows(p->scale[0][g]), values);
  out[1] = type == IJ_DTYPE_IQ2_XXS || type == IJ_DTYPE_IQ1_S ? out[0] : _mm512_mul_ps(book_both_rows(p->scale[1][g]), values);
}

/* The 32 values of group g of both rows times x: x[2 * i + j] are the values of step i for sum j. */
CODED void book_group(__m512 sum[2], const book_pair *p, const int g, const __m512 x[4], __m512 values, const ij_dtype type) {
  __m512 table[2];
  __m512i codes = book_codes(p, g, type);
  book_tables(table, p, g, values, type);
  IJ_UNROLL for (int i = 0; i < 4; i++) {
    __m512i c = i ? _mm512_srli_epi32(codes, (unsigned)(8 * i)) : codes;
    sum[i / 2] = _mm512_fmadd_ps(x[i % 2 * 2 + i / 2], ij__pick(c, table[i % 2]), sum[i / 2]);
  }
}

#endif
