/* elem_avx512.c: conversions, norms, element-wise entries, reductions and elementary functions, one AVX-512 register per sixteen lanes. */
#include "kernels/kernels_int.h"
#include "kernels/x86/lanes_avx512.h"
#include "kernels/lanes_elem.h"

void ij__elem_fill_avx512(ij_kernels *k) { lanes_fill_elem(k); }
