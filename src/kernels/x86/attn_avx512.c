/* attn_avx512.c: the steps of attention on one block of keys, one AVX-512 register per sixteen lanes. */
#include "kernels/kernels_int.h"
#include "kernels/x86/lanes_avx512.h"
#include "kernels/lanes_attn.h"

void ij__attn_fill_avx512(ij_kernels *k) { lanes_fill_attn(k); }
