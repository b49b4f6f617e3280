/* elem_avx2.c: conversions, norms, element-wise entries, reductions and elementary functions, two AVX2 registers per sixteen lanes. */
#include "kernels/kernels_int.h"
#include "kernels/x86/lanes_avx2.h"
#include "kernels/lanes_elem.h"

void ij__elem_fill_avx2(ij_kernels *k) { lanes_fill_elem(k); }
