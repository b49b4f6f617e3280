/* decode_low_avx512.c: the block types of one to three bits to float32 with 512-bit registers: loops over the decoders of low_avx512.h. */
#include "kernels/x86/low_avx512.h"

CODED void decode_low(float *y, const ij_stretch *s, const ij_dtype type) {
  const int64_t bytes = coded_bytes(type);
  const uint8_t *b = (const uint8_t *)s->row + s->c0 / 256 * bytes;
  sink k = {.y = y, .step = 16};
  for (int64_t i = 0; i < s->n; i += 256, b += bytes, k.y += 256) {
    low_ahead a;
    low_work_ahead(&a, b, type);
    low_half(&k, &a, b, 0, type);
    low_half(&k, &a, b, 1, type);
  }
}

#define DECODE_BLOCKS(name, id) \
  static void decode_##name(float *y, const ij_stretch *s) { decode_low(y, s, IJ_DTYPE_##id); }
LOW_TYPES(DECODE_BLOCKS)

void ij__decode_low_fill_avx512(ij_kernels *k) {
#define SET_BLOCK(name, id) k->decode[IJ_DTYPE_##id] = decode_##name;
  LOW_TYPES(SET_BLOCK)
#undef SET_BLOCK
}
