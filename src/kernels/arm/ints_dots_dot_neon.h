/* ints_dots_dot_neon.h: sums of products on processors with dot products of bytes (FEAT_DotProd). */
#ifndef IJ_KERNELS_ARM_INTS_DOTS_DOT_NEON_H
#define IJ_KERNELS_ARM_INTS_DOTS_DOT_NEON_H

INLINE void dots(int32x4_t s[3], const int8x16_t *codes, const ij_ints *x, int at, const int n) {
  UNROLL for (int j = 0; j < 3; j++) s[j] = vdupq_n_s32(0);
  UNROLL for (int i = 0; i < n; i += 16) {
    UNROLL for (int j = 0; j < 3; j++) {
      const int8x16_t digits = vld1q_s8(x->digit[j] + at + i);
      s[j] = vdotq_laneq_s32(s[j], codes[i / 4], digits, 0);
      s[j] = vdotq_laneq_s32(s[j], codes[i / 4 + 1], digits, 1);
      s[j] = vdotq_laneq_s32(s[j], codes[i / 4 + 2], digits, 2);
      s[j] = vdotq_laneq_s32(s[j], codes[i / 4 + 3], digits, 3);
    }
  }
}

#endif
