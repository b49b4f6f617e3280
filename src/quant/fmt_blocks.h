/* fmt_blocks.h: all GGUF block types in one list, for tables and switches over every decoder of fmt_*.h. */
#ifndef IJ_QUANT_FMT_BLOCKS_H
#define IJ_QUANT_FMT_BLOCKS_H

#include "quant/fmt_basic.h"
#include "quant/fmt_fp4.h"
#include "quant/fmt_iq.h"
#include "quant/fmt_k.h"
#include "quant/fmt_tq.h"

/* X(name: the decoder is ij__fmt_NAME, identifier in dtype.h) */
#define IJ_FMT_BLOCK_LIST(X) \
  X(q4_0, Q4_0)              \
  X(q4_1, Q4_1)              \
  X(q5_0, Q5_0)              \
  X(q5_1, Q5_1)              \
  X(q8_0, Q8_0)              \
  X(q2_k, Q2_K)              \
  X(q3_k, Q3_K)              \
  X(q4_k, Q4_K)              \
  X(q5_k, Q5_K)              \
  X(q6_k, Q6_K)              \
  X(iq1_s, IQ1_S)            \
  X(iq1_m, IQ1_M)            \
  X(iq2_xxs, IQ2_XXS)        \
  X(iq2_xs, IQ2_XS)          \
  X(iq2_s, IQ2_S)            \
  X(iq3_xxs, IQ3_XXS)        \
  X(iq3_s, IQ3_S)            \
  X(iq4_nl, IQ4_NL)          \
  X(iq4_xs, IQ4_XS)          \
  X(tq1_0, TQ1_0)            \
  X(tq2_0, TQ2_0)            \
  X(mxfp4, MXFP4)            \
  X(nvfp4, NVFP4)

#endif
