/* attn_avx2.c: the steps of attention on one block of keys, two AVX2 registers per sixteen lanes. */
#include "kernels/kernels_int.h"
#include "kernels/x86/lanes_avx2.h"
#include "kernels/lanes_attn.h"

void ij__attn_fill_avx2(ij_kernels *k) { lanes_fill_attn(k); }
