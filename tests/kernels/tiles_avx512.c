/* tiles_avx512.c: the products in integers of many tokens with AMX, on emulated tiles. */
#include "kernels/tiles.h"

void tiles_fill(ij_kernels *k);
#define ij__ints_amx_fill_avx512 tiles_fill
#include "kernels/x86/matmul_ints_amx_avx512.c"
