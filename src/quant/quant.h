/* quant.h: stored weights for code that has no kernels: the values of one row.
 *
 * The formats themselves are defined in fmt_*.h; this is a plain walk over them, for tools and checks rather than for speed.
 */
#ifndef IJ_QUANT_QUANT_H
#define IJ_QUANT_QUANT_H

#include "core/dtype.h"

/* y[i] = value i of the row, w->cols of them, for every type a weight can have; times w->factor if there is one. A NaN of F16 comes
 * out quiet. The values before the factor are those of the kernel table's decode and widen. */
void ij__quant_decode_row(float *y, const ij_weight *w, int64_t row);

#endif
