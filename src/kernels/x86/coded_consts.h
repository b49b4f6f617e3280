/* coded_consts.h: what dtype.h says of a type, as constants: code that is written once for all types is inlined with the type known. */
#ifndef IJ_KERNELS_X86_CODED_CONSTS_H
#define IJ_KERNELS_X86_CODED_CONSTS_H

#include "core/dtype.h"

#define CODED static inline __attribute__((always_inline))

/* Values and bytes of a block, as constants. */
CODED int64_t coded_len(const ij_dtype type) {
  switch (type) {
#define LEN(id, name, len, bytes) \
  case IJ_DTYPE_##id: return len;
    IJ_DTYPE_LIST(LEN)
#undef LEN
    default: return 1;
  }
}

CODED int64_t coded_bytes(const ij_dtype type) {
  switch (type) {
#define BYTES(id, name, len, bytes) \
  case IJ_DTYPE_##id: return bytes;
    IJ_DTYPE_LIST(BYTES)
#undef BYTES
    default: return 1;
  }
}

/* Values between two fetches of products of one token; at the AVX2 level also what is worked out at a time, there for several tokens too. */
#define FUSED_SPAN 256

#endif
