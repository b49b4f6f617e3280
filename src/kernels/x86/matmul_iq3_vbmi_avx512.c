/* matmul_iq3_vbmi_avx512.c: one token times IQ3_XXS and IQ3_S, whose codebooks are looked up by permutations of bytes (VBMI).
 *
 * As matmul_low_avx512.h, a block of 256 values of four rows at a time and the same values, but without gathers, of which each takes as
 * long as the arithmetic of the values that it brings. The codes of a codebook, of four bits each, make two planes of one byte per entry
 * (iq_floats.h). A block has 64 entries, so that one register of them is looked up at once in 128 bytes of a plane, which are two
 * registers. One permutation of the two results then brings the codes of 64 values to their lanes.
 *
 * The four rows share each load of a plane and of x: registers of 64 bytes are loaded no faster than they are multiplied.
 */
#include "kernels/x86/vec_avx512.h"

#define DIRECT_AHEAD 1024 /* as in matmul_avx512.c */

#include "kernels/lookahead.h"
#include "kernels/x86/low_avx512.h"

/* Products of any number of tokens, which do what is left to them here. */
static void (*general[IJ_DTYPE_COUNT])(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch);

/* Keeps what several rows use in a register: compilers would load it for each of them. */
#define SHARED(v) __asm__("" : "+v"(v))

/* The codes of a block of each row, as planes: byte e of each register belongs to entry e. */
typedef struct iq3_codes {
  __m512i even[MR], odd[MR]; /* first and third value of entries; second and fourth */
} iq3_codes;

CODED void iq3_scales(float out[MR][16], const uint8_t *const b[MR], const ij_dtype type) {
  UNROLL for (int i = 0; i < MR; i++) {
    if (type == IJ_DTYPE_IQ3_S) {
      ij__iq3_s_scales(out[i], ij__f16_avx2(b[i]), b[i] + 106);
    } else {
      ij__top_scales(out[i], ij__f16_avx2(b[i]), ij__load32(b[i] + 66), 0.5f);
    }
  }
}

/* Entries of 128 of a plane, of which an index has the low seven bits. */
CODED void iq3_look_up(__m512i out[MR], const uint8_t *plane, const __m512i index[MR]) {
  __m512i low = _mm512_load_si512(plane), high = _mm512_load_si512(plane + 64);
  SHARED(low);
  SHARED(high);
  UNROLL for (int i = 0; i < MR; i++) out[i] = _mm512_permutex2var_epi8(low, index[i], high);
}

/* Of 256: by the eighth bit, too. */
CODED void iq3_look_up_256(__m512i out[MR], const uint8_t *plane, const __m512i index[MR], const __mmask64 eighth[MR]) {
  __m512i high[MR];
  iq3_look_up(out, plane, index);
  iq3_look_up(high, plane + 128, index);
  UNROLL for (int i = 0; i < MR; i++) out[i] = _mm512_mask_blend_epi8(eighth[i], out[i], high[i]);
}

/* Of the whole plane. IQ3_S has the ninth bits of the entries of a block at 66. */
CODED void iq3_plane(__m512i out[MR], const int plane, const uint8_t *const b[MR], const __m512i index[MR], const ij_dtype type) {
  __mmask64 eighth[MR];
  UNROLL for (int i = 0; i < MR; i++) eighth[i] = _mm512_movepi8_mask(index[i]);
  if (type != IJ_DTYPE_IQ3_S) {
    iq3_look_up_256(out, ij__iq_floats.iq3_xxs_planes[plane], index, eighth);
    return;
  }
  __m512i high[MR];
  iq3_look_up_256(out, ij__iq_floats.iq3_s_planes[plane], index, eighth);
  iq3_look_up_256(high, ij__iq_floats.iq3_s_planes[plane] + 256, index, eighth);
  UNROLL for (int i = 0; i < MR; i++) out[i] = _mm512_mask_blend_epi8(ij__load_u64(b[i] + 66), out[i], high[i]);
}

/* 64 times four signs, in the low bits of bytes. */
CODED __m512i iq3_signs(const uint8_t *b, const ij_dtype type) {
  const __m512i nibbles = _mm512_set1_epi64(0x1c1814100c080400);
  __m256i signs = type == IJ_DTYPE_IQ3_S ? ij__load32(b + 74) : ij__signs_28(ij__load32(b + 66));
  return _mm512_and_si512(_mm512_multishift_epi64_epi8(nibbles, _mm512_cvtepu32_epi64(signs)), _mm512_set1_epi8(15));
}

/* A sign takes 1 from its code, which is odd: it clears bit 0, or bit 4 of a plane. */
CODED void iq3_codes_of(iq3_codes *c, const uint8_t *const b[MR], const ij_dtype type) {
  const __m512i even = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 0, 1, 16, 17, 16, 17, 0, 1, 0, 1, 16, 17, 16, 17));
  const __m512i odd = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 1, 1, 0, 0, 1, 1, 16, 16, 17, 17, 16, 16, 17, 17));
  __m512i index[MR];
  UNROLL for (int i = 0; i < MR; i++) index[i] = ij__load64(b[i] + 2);
  iq3_plane(c->even, 0, b, index, type);
  iq3_plane(c->odd, 1, b, index, type);
  UNROLL for (int i = 0; i < MR; i++) {
    __m512i signs = iq3_signs(b[i], type);
    c->even[i] = _mm512_andnot_si512(_mm512_shuffle_epi8(even, signs), c->even[i]);
    c->odd[i] = _mm512_andnot_si512(_mm512_shuffle_epi8(odd, signs), c->odd[i]);
  }
}

/* 64 values: byte i of lane 4 * m + p of the result is that of entry 16 * quarter + 4 * i + m in the plane of its value p. */
CODED __m512i iq3_quarter(const iq3_codes *c, const int row, const int quarter) {
#define TWO(m) 0x4c4844400c080400 + 0x0101010101010101 * (m) /* lanes */
  const __m512i place = _mm512_setr_epi64(TWO(0), TWO(0), TWO(1), TWO(1), TWO(2), TWO(2), TWO(3), TWO(3));
#undef TWO
  return _mm512_permutex2var_epi8(c->even[row], _mm512_add_epi8(place, _mm512_set1_epi8((char)(16 * quarter))), c->odd[row]);
}

/* The nibbles of ij__put_picked: in lane j those of values 16 * i + j of half a block, in bits from 8 * (i % 4) + i / 4 * 4 on. */
CODED __m512i iq3_nibbles(const iq3_codes *c, const int row, const int half) {
  const __m512i down = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 4, 4)), up = _mm512_broadcast_i32x4(_mm_setr_epi32(4, 4, 0, 0));
  __m512i first = _mm512_srlv_epi32(iq3_quarter(c, row, 2 * half), down);
  return ij__select(0x0f, first, _mm512_sllv_epi32(iq3_quarter(c, row, 2 * half + 1), up));
}

/* Half a block times x. */
CODED void iq3_half(vec sum[MR][PASSES], const iq3_codes *c, float scale[MR][16], const float *x, const int half, const ij_dtype type) {
  const __m512 book = type == IJ_DTYPE_IQ3_S ? ij__iq3_s_values() : ij__iq3_xxs_values();
  __m512i nibbles[MR];
  __m512 values[MR];
  UNROLL for (int r = 0; r < MR; r++) nibbles[r] = iq3_nibbles(c, r, half);
  UNROLL for (int i = 0; i < 8; i++) {
    vec v = v_load(x + 16 * i);
    SHARED(v);
    UNROLL for (int r = 0; r < MR; r++) {
      if (i % 2 == 0) values[r] = _mm512_mul_ps(_mm512_set1_ps(scale[r][4 * half + i / 2]), book);
      __m512i code = i ? _mm512_srli_epi32(nibbles[r], (unsigned)(i % 4 * 8 + i / 4 * 4)) : nibbles[r];
      sum[r][0] = v_fma(v, ij__pick(code, values[r]), sum[r][0]);
    }
  }
}

/* Rows r to r + 3, of which those after r_last repeat it. */
CODED void iq3_group(const ij_matmul *m, int64_t r, int64_t r_last, const lookahead *ahead, float *sums, const ij_dtype type) {
  const int64_t bytes = coded_bytes(type), row_bytes = m->k / 256 * bytes;
  const uint8_t *row[MR];
  vec sum[MR][PASSES];
  UNROLL for (int i = 0; i < MR; i++) {
    row[i] = (const uint8_t *)m->w + IJ_MIN(r + i, r_last) * m->w_stride;
    sum[i][0] = v_zero();
  }
  const float *x = m->x;
  for (int64_t b = 0; b < row_bytes; b += bytes, x += 256) {
    float scale[MR][16];
    iq3_codes codes;
    UNROLL for (int i = 0; i < MR; i++) coded_prefetch((const char *)row[i], b, b + bytes, row_bytes, ahead);
    const uint8_t *const block[MR] = {row[0] + b, row[1] + b, row[2] + b, row[3] + b};
    iq3_scales(scale, block, type);
    IN_MEMORY(scale);
    iq3_codes_of(&codes, block, type);
    UNROLL for (int half = 0; half < 2; half++) iq3_half(sum, &codes, scale, x + 128 * half, half, type);
  }
  store_sums(sums, 0, MR, sum);
}

CODED void iq3_rows(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch, const ij_dtype type) {
  if (m->n != 1) {
    general[type](m, r0, r1, scratch);
  } else {
    one_token_rows(m, r0, r1, m->k / 256 * coded_bytes(type), iq3_group, type);
  }
}

#define IQ3_LIST(X) X(IQ3_XXS) X(IQ3_S)

#define MATMUL_IQ3(id) \
  static void matmul_iq3_##id(const ij_matmul *m, int64_t r0, int64_t r1, float *scratch) { iq3_rows(m, r0, r1, scratch, IJ_DTYPE_##id); }
IQ3_LIST(MATMUL_IQ3)

void ij__matmul_iq3_vbmi_fill_avx512(ij_kernels *k) {
  memcpy(general, k->matmul, sizeof general);
#define SET_IQ3(id) k->matmul[IJ_DTYPE_##id] = matmul_iq3_##id;
  IQ3_LIST(SET_IQ3)
#undef SET_IQ3
}
