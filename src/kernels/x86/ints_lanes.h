/* ints_lanes.h: which rows lie in the lanes of a register of a product in integers: a few that follow each other, from each of four places. The
 * including file defines LANES.
 */
#ifndef IJ_KERNELS_X86_INTS_LANES_H
#define IJ_KERNELS_X86_INTS_LANES_H

#include "kernels/x86/coded_consts.h"

enum { STREAMS = 4, EACH = LANES / STREAMS };

typedef struct ints_lanes {
  const uint8_t *at[STREAMS];
  int64_t pitch; /* bytes between rows that follow each other */
} ints_lanes;

/* The row of lane i. */
CODED const uint8_t *lane_row(const ints_lanes *l, int i) { return l->at[i / EACH] + i % EACH * l->pitch; }

/* Those of the r-th register after l, from a byte on. */
CODED ints_lanes lanes_from(const ints_lanes *l, int64_t r, int64_t byte) {
  const int64_t ahead = r * EACH * l->pitch + byte;
  return (ints_lanes){{l->at[0] + ahead, l->at[1] + ahead, l->at[2] + ahead, l->at[3] + ahead}, l->pitch};
}

#endif
