/* attn_neon.c: the steps of attention on one block of keys, four NEON registers per sixteen lanes. */
#include "kernels/kernels_int.h"
#include "kernels/arm/lanes_neon.h"
#include "kernels/lanes_attn.h"

void ij__attn_fill_neon(ij_kernels *k) { lanes_fill_attn(k); }
