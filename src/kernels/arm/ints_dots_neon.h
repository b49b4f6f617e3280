/* ints_dots_neon.h: sums of products on any processor of this level.
 *
 * A lane of 16 bits takes the products of eight codes of four bits and digits of a byte, and once more as many: 16 * 15 * 128 at most.
 */
#ifndef IJ_KERNELS_ARM_INTS_DOTS_NEON_H
#define IJ_KERNELS_ARM_INTS_DOTS_NEON_H

/* Four codes times four digits, to the sums of two rows each. A macro, because the instruction takes the lane as a constant. */
#define ADD_PRODUCTS(first, last, codes, digits, lane)                               \
  do {                                                                               \
    const int8x16_t four = vreinterpretq_s8_s32(vdupq_laneq_s32(digits, lane));      \
    first = vmlal_s8(first, vget_low_s8(codes), vget_low_s8(four));                  \
    last = vmlal_high_s8(last, codes, four);                                         \
  } while (0)

INLINE void dots(int32x4_t s[3], const int8x16_t *codes, const ij_ints *x, int at, const int n) {
  __asm__ volatile("" ::: "memory"); /* or GCC loads the digits of all tokens of a tile first, for which there are too few registers */
  UNROLL for (int j = 0; j < 3; j++) {
    int16x8_t first = vdupq_n_s16(0), last = first;
    UNROLL for (int i = 0; i < n; i += 16) {
      const int32x4_t digits = vreinterpretq_s32_s8(vld1q_s8(x->digit[j] + at + i));
      ADD_PRODUCTS(first, last, codes[i / 4], digits, 0);
      ADD_PRODUCTS(first, last, codes[i / 4 + 1], digits, 1);
      ADD_PRODUCTS(first, last, codes[i / 4 + 2], digits, 2);
      ADD_PRODUCTS(first, last, codes[i / 4 + 3], digits, 3);
    }
    s[j] = vpaddlq_s16(vpaddq_s16(first, last));
  }
}

#endif
