/* tiles_few_avx512.c: the products in integers of a few tokens with AMX, on emulated tiles. */
#include "kernels/tiles.h"

void tiles_few_fill(ij_kernels *k);
#define ij__ints_few_amx_fill_avx512 tiles_few_fill
#include "kernels/x86/matmul_ints_few_amx_avx512.c"
