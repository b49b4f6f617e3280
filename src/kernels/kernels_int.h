/* kernels_int.h: the functions by which each family of kernels puts its entries into the table of a level.
 *
 * A fill function sets the entries that its level has and leaves the rest; kernels.c calls them from the scalar level upwards.
 */
#ifndef IJ_KERNELS_INT_H
#define IJ_KERNELS_INT_H

#include "kernels/kernels.h"

/* The block and split types whose products are those of their decoded values: all but those of ij__dtype_in_integers. X(identifier) */
#define IJ_CODED_LIST(X)                                                                                                       \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q3_K) X(Q5_K) X(Q6_K) X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S)       \
  X(IQ3_XXS) X(IQ3_S) X(IQ4_NL) X(IQ4_XS) X(TQ1_0) X(TQ2_0) X(MXFP4) X(NVFP4) X(AFFINE2) X(AFFINE3) X(AFFINE5) X(AFFINE6)        \
  X(AFFINE8) X(NVFP4_SPLIT) X(MXFP4_SPLIT) X(MXFP8_SPLIT)

/* Entry of ij_kernels.decode. */
typedef void (*ij_decode_fn)(float *y, const ij_stretch *s);

/* Row r of a coded matrix; the caller sets c0 and n. */
static inline ij_stretch ij__stretch_of(const ij_matmul *m, int64_t r) {
  ij_stretch s = {.row = (const char *)m->w + r * m->w_stride, .side_dtype = m->side_dtype, .group = m->group};
  if (m->scales) s.scales = (const char *)m->scales + r * m->side_stride;
  if (m->biases) s.biases = (const char *)m->biases + r * m->side_stride;
  return s;
}

/* Values of which every stretch is a multiple: the block length, or of split types the group where that is longer. */
static inline int64_t ij__stretch_unit(const ij_matmul *m, ij_dtype type) {
  int64_t len = ij__dtype_block_len(type);
  return ij__dtype_is_split(type) && m->group > len ? m->group : len;
}

/* Groups with float32 sides, of which no published file has any, are left to the general products. */
static inline bool ij__wide_side(const ij_matmul *m, ij_dtype type) { return ij__dtype_is_affine(type) && m->side_dtype == IJ_DTYPE_F32; }

static inline const float *ij__x_row(const ij_matmul *m, int64_t t) { return m->x + (m->rows ? m->rows[t] : t) * m->ldx; }

/* Floats of scratch from the first that is aligned to 64 bytes. */
#define IJ_SCRATCH_ALIGNED (IJ_MATMUL_SCRATCH - 16)
static inline float *ij__aligned64(float *p) { return (float *)(void *)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

/* Where a copy of x lies, in an order or layout of which `what` is the number: in this worker's room or, where that is too small or there
 * is none, in scratch. *made: it is there already, from an earlier call. Aligned to 64 bytes. */
static inline float *ij__x_place(const ij_matmul *m, int what, float *scratch, bool *made) {
  const int64_t n = ij__div_up(m->n * m->k, 16) * 16;
  ij_x_room *room = m->loop && n <= IJ_X_ROOM ? m->x_room : NULL;
  *made = false;
  if (!room) return ij__aligned64(scratch);
  if (room->loop != m->loop) {
    room->loop = m->loop;
    room->n_kept = 0;
  }
  for (int i = 0; i < room->n_kept; i++) {
    if (room->kept[i].x != m->x || room->kept[i].rows != m->rows || room->kept[i].ldx != m->ldx) continue;
    if (room->kept[i].n != m->n || room->kept[i].k != m->k || room->kept[i].what != what) continue;
    *made = true;
    return room->x + room->kept[i].at;
  }
  if (room->n_kept == IJ_X_KEPT || room->used + n > IJ_X_ROOM) room->n_kept = 0;
  if (room->n_kept == 0) room->used = 0;
  const int i = room->n_kept++;
  room->kept[i].x = m->x;
  room->kept[i].rows = m->rows;
  room->kept[i].ldx = m->ldx;
  room->kept[i].n = m->n;
  room->kept[i].k = m->k;
  room->kept[i].what = what;
  room->kept[i].at = room->used;
  room->used += n;
  return room->x + room->kept[i].at;
}

/* The first of these numbers of each family of products. */
enum { IJ_X_AVX512 = 0, IJ_X_BOOKS = 128, IJ_X_AVX2 = 256, IJ_X_TILES = 384 };

/* What processors may have beyond their level: products of bytes in vectors (VNNI, dot products) and look-ups of bytes in them (VBMI), each
 * where it is there, and products in tiles too (AMX). */
typedef enum ij_beyond { IJ_BEYOND_NOTHING, IJ_BEYOND_VECTORS, IJ_BEYOND_TILES, IJ_BEYOND_COUNT } ij_beyond;

/* The table of a level, or of the next lower one that this machine has, as processors get it that have at most so much beyond it. For tests,
 * which so meet all kernels on one machine. */
const ij_kernels *ij__kernels_get_beyond(ij_level max_level, ij_beyond most);

void ij__elem_fill_ref(ij_kernels *k);
void ij__math_fill_ref(ij_kernels *k);
void ij__attn_fill_ref(ij_kernels *k);
void ij__matmul_fill_ref(ij_kernels *k);
void ij__decode_fill_ref(ij_kernels *k);
void ij__ints_fill_ref(ij_kernels *k);

void ij__elem_fill_avx2(ij_kernels *k);
void ij__attn_fill_avx2(ij_kernels *k);
void ij__matmul_fill_avx2(ij_kernels *k);
void ij__matmul_fused_fill_avx2(ij_kernels *k);
void ij__matmul_few_k_fill_avx2(ij_kernels *k);
void ij__matmul_few_iq_fill_avx2(ij_kernels *k);
void ij__matmul_few_small_fill_avx2(ij_kernels *k);
void ij__matmul_dozens_fill_avx2(ij_kernels *k);
void ij__decode_fill_avx2(ij_kernels *k);
void ij__ints_fill_avx2(ij_kernels *k);
void ij__ints_q2_k_fill_avx2(ij_kernels *k);
void ij__ints_affine_fill_avx2(ij_kernels *k);
void ij__ints_vnni_fill_avx2(ij_kernels *k); /* this and the next two only where ij__cpu_has_avx_vnni */
void ij__ints_q2_k_vnni_fill_avx2(ij_kernels *k);
void ij__ints_affine_vnni_fill_avx2(ij_kernels *k);

void ij__elem_fill_avx512(ij_kernels *k);
void ij__attn_fill_avx512(ij_kernels *k);
void ij__decode_low_fill_avx512(ij_kernels *k);
void ij__matmul_fill_avx512(ij_kernels *k);
void ij__matmul_few_fill_avx512(ij_kernels *k);
void ij__matmul_few_coded_fill_avx512(ij_kernels *k);
void ij__matmul_few_low_fill_avx512(ij_kernels *k);
void ij__matmul_books_fill_avx512(ij_kernels *k);
void ij__matmul_dozens_fill_avx512(ij_kernels *k);
void ij__matmul_iq3_vbmi_fill_avx512(ij_kernels *k); /* only where ij__cpu_has_vbmi, after those */
void ij__decode_fill_avx512(ij_kernels *k);
void ij__ints_fill_avx512(ij_kernels *k); /* this and the next two only where ij__cpu_has_vnni */
void ij__ints_q2_k_fill_avx512(ij_kernels *k);
void ij__ints_affine_fill_avx512(ij_kernels *k);
void ij__ints_amx_fill_avx512(ij_kernels *k); /* this and the next only where ij__cpu_has_amx, after those and in this order */
void ij__ints_few_amx_fill_avx512(ij_kernels *k);

void ij__elem_fill_neon(ij_kernels *k);
void ij__attn_fill_neon(ij_kernels *k);
void ij__matmul_fill_neon(ij_kernels *k);
void ij__decode_fill_neon(ij_kernels *k);
void ij__ints_fill_neon(ij_kernels *k);
void ij__ints_q2_k_fill_neon(ij_kernels *k);
void ij__ints_affine_fill_neon(ij_kernels *k);
void ij__ints_dot_fill_neon(ij_kernels *k); /* this and the next two only where ij__cpu_has_dotprod */
void ij__ints_q2_k_dot_fill_neon(ij_kernels *k);
void ij__ints_affine_dot_fill_neon(ij_kernels *k);

#endif
