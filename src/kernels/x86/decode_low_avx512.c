/* decode_low_avx512.c: the block types of one to three bits to float32 with 512-bit registers. decode_low_avx512.h decodes a block. */
#include "kernels/kernels_int.h"
#include "kernels/x86/decode_iq_avx2.h"
#include "kernels/x86/decode_low_avx512.h"

/* X(name, identifier in dtype.h, bytes of a block) */
#define LOW_TYPES(X)                                                                                                       \
  X(q2_k, Q2_K, 84) X(q3_k, Q3_K, 110) X(iq1_s, IQ1_S, 50) X(iq1_m, IQ1_M, 56) X(iq2_xxs, IQ2_XXS, 66) X(iq2_xs, IQ2_XS, 74) \
  X(iq2_s, IQ2_S, 82) X(iq3_xxs, IQ3_XXS, 98) X(iq3_s, IQ3_S, 110) X(tq2_0, TQ2_0, 66)

#define DECODE_BLOCKS(name, id, bytes)                                                    \
  static void decode_##name(float *y, const ij_stretch *s) {                              \
    const uint8_t *b = (const uint8_t *)s->row + s->c0 / 256 * bytes;                     \
    for (int64_t i = 0; i < s->n; i += 256, b += bytes) ij__##name##_avx512(y + i, b);    \
  }
LOW_TYPES(DECODE_BLOCKS)

void ij__decode_low_fill_avx512(ij_kernels *k) {
#define SET_BLOCK(name, id, bytes) k->decode[IJ_DTYPE_##id] = decode_##name;
  LOW_TYPES(SET_BLOCK)
#undef SET_BLOCK
}
