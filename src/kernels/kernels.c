/* kernels.c: one table per level, each filled from the scalar level upwards, all built once on first use; and those of processors that have
 * less beyond their level.
 */
#include "kernels/iq_floats.h"
#include "kernels/kernels_int.h"

#include <pthread.h>

static ij_kernels tables[IJ_BEYOND_COUNT][IJ_LEVEL_COUNT];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

#if !defined(IJ_SCALAR_ONLY) && defined(__x86_64__)
static void fill_ints(ij_kernels *k, ij_level level, ij_beyond most) {
  ij__ints_fill_avx2(k);
  ij__ints_q2_k_fill_avx2(k);
  ij__ints_affine_fill_avx2(k);
  if (most < IJ_BEYOND_VECTORS) return;
  if (ij__cpu_has_avx_vnni()) {
    ij__ints_vnni_fill_avx2(k);
    ij__ints_q2_k_vnni_fill_avx2(k);
    ij__ints_affine_vnni_fill_avx2(k);
  }
  if (level < IJ_LEVEL_AVX512 || !ij__cpu_has_vnni()) return;
  ij__ints_fill_avx512(k);
  ij__ints_q2_k_fill_avx512(k);
  ij__ints_affine_fill_avx512(k);
  if (most < IJ_BEYOND_TILES || !ij__cpu_has_amx()) return;
  ij__ints_amx_fill_avx512(k); /* this and the next keep what they find, too */
  ij__ints_few_amx_fill_avx512(k);
}

static void fill_level(ij_kernels *k, ij_level level, ij_beyond most) {
  if (level == IJ_LEVEL_AVX2 || level == IJ_LEVEL_AVX512) {
    ij__elem_fill_avx2(k);
    ij__attn_fill_avx2(k);
    ij__decode_fill_avx2(k);
    ij__matmul_fill_avx2(k);       /* after the decoders, which it uses */
    ij__matmul_fused_fill_avx2(k); /* this and the next four after the products to which they leave what they do not do */
    ij__matmul_few_k_fill_avx2(k);
    ij__matmul_few_iq_fill_avx2(k);
    ij__matmul_few_small_fill_avx2(k);
    ij__matmul_dozens_fill_avx2(k);
  }
  if (level == IJ_LEVEL_AVX512) {
    ij__elem_fill_avx512(k);
    ij__attn_fill_avx512(k);
    ij__decode_fill_avx512(k);
    ij__decode_low_fill_avx512(k);
    ij__matmul_fill_avx512(k);
    ij__matmul_few_fill_avx512(k); /* this and the next four after the products to which they leave what they do not do */
    ij__matmul_few_coded_fill_avx512(k);
    ij__matmul_few_low_fill_avx512(k);
    ij__matmul_books_fill_avx512(k);
    ij__matmul_dozens_fill_avx512(k);
    /* Instead of gathers. After all of the above: they keep what they find for all tables, and would lead those that have less beyond the level
     * to this. */
    if (most >= IJ_BEYOND_VECTORS && ij__cpu_has_vbmi()) ij__matmul_iq3_vbmi_fill_avx512(k);
  }
  if (level == IJ_LEVEL_AVX2 || level == IJ_LEVEL_AVX512) fill_ints(k, level, most);
}
#elif !defined(IJ_SCALAR_ONLY) && defined(__aarch64__)
static void fill_level(ij_kernels *k, ij_level level, ij_beyond most) {
  if (level != IJ_LEVEL_NEON) return;
  ij__elem_fill_neon(k);
  ij__attn_fill_neon(k);
  ij__decode_fill_neon(k);
  ij__matmul_fill_neon(k); /* after the decoders, which it uses */
  ij__ints_fill_neon(k);
  ij__ints_q2_k_fill_neon(k);
  ij__ints_affine_fill_neon(k);
  if (most < IJ_BEYOND_VECTORS || !ij__cpu_has_dotprod()) return;
  ij__ints_dot_fill_neon(k);
  ij__ints_q2_k_dot_fill_neon(k);
  ij__ints_affine_dot_fill_neon(k);
}
#else
static void fill_level(ij_kernels *k, ij_level level, ij_beyond most) {
  (void)k;
  (void)level;
  (void)most;
}
#endif

static void fill(ij_kernels *k, ij_level level, ij_beyond most) {
  ij__elem_fill_ref(k);
  ij__math_fill_ref(k);
  ij__attn_fill_ref(k);
  ij__decode_fill_ref(k);
  ij__matmul_fill_ref(k); /* after the decoders, which it uses */
  ij__ints_fill_ref(k);
  fill_level(k, level, most);
  k->level = level;
}

/* True when this build has the level and this machine runs it. */
static bool available(ij_level level) {
#if defined(IJ_SCALAR_ONLY)
  return level == IJ_LEVEL_SCALAR;
#else
  return ij__cpu_has(level);
#endif
}

/* Fill functions are built for their level, so those of a level that this machine lacks may not even be called. */
static void fill_tables(void) {
  ij__iq_floats_fill();
  for (int level = 0; level < IJ_LEVEL_COUNT; level++) {
    if (!available((ij_level)level)) continue;
    for (int i = 0; i < IJ_BEYOND_COUNT; i++) fill(&tables[i][level], (ij_level)level, (ij_beyond)i);
  }
}

static int level_at_most(ij_level max_level) {
  int level = IJ_MIN((int)max_level, IJ_LEVEL_COUNT - 1);
  while (level > IJ_LEVEL_SCALAR && !available((ij_level)level)) level--;
  return level;
}

const ij_kernels *ij__kernels_get_beyond(ij_level max_level, ij_beyond most) {
  pthread_once(&tables_once, fill_tables);
  return &tables[most][level_at_most(max_level)];
}

const ij_kernels *ij__kernels_get(ij_level max_level) {
  pthread_once(&tables_once, fill_tables);
  return ij__kernels_get_beyond(max_level, IJ_BEYOND_TILES);
}
