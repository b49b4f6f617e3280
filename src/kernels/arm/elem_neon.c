/* elem_neon.c: conversions, norms, element-wise entries, reductions and elementary functions, four NEON registers per sixteen lanes. */
#include "kernels/kernels_int.h"
#include "kernels/arm/lanes_neon.h"
#include "kernels/lanes_elem.h"

void ij__elem_fill_neon(ij_kernels *k) { lanes_fill_elem(k); }
