/* iq_floats.h: the codebooks of the IQ formats in the form that vector code loads: magnitudes as float32, signs as masks, codes packed.
 *
 * Made once from the tables of quant/fmt_iq.h when the kernel tables are filled (before any kernel can be called), read-only after.
 * Sizes are chosen for the first-level cache: codebooks too large for it as floats are kept as two-bit codes.
 */
#ifndef IJ_KERNELS_IQ_FLOATS_H
#define IJ_KERNELS_IQ_FLOATS_H

#include "core/base.h"

typedef struct ij_iq_floats {
  _Alignas(64) float iq2_xxs[256][8];
  float iq2_xs[512][8];
  float iq3_xxs[256][4];
  float iq3_s[512][4];
  uint32_t signs7[128][8]; /* sign bits of seven stored ones and the eighth that they imply */
  uint32_t signs8[256][8]; /* sign bits of eight stored ones */
  uint32_t iq3_xxs_codes[256]; /* four bytes: 2 * i + 1 for value i of the eight that occur */
  /* [0]: codes, made alike, of the first value of an entry in the low and of the third in the high four bits; [1]: second and fourth. */
  _Alignas(64) uint8_t iq3_xxs_planes[2][256];
  uint8_t iq3_s_planes[2][512];
  /* Bytes for products of two rows at a time, [row]: 2 * i for value i of those that occur, 2 * i + 1 for the second row. */
  uint64_t iq2_xxs_codes[2][256], iq2_xs_codes[2][512], iq2_s_codes[2][1024];
  uint64_t iq1_codes[2048]; /* one for both rows, being large */
  uint16_t iq1[2048 + 2];  /* value i of eight in bits 2i: 0, 1, 2 for -1, 0, 1; padded for loads of 32 bits */
  uint16_t iq2_s[1024 + 2]; /* the same: 0, 1, 2 for 8, 25, 43 */
} ij_iq_floats;

extern ij_iq_floats ij__iq_floats;

void ij__iq_floats_fill(void);

#endif
