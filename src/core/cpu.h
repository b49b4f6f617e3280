/* cpu.h: which instruction sets this processor and this system offer. */
#ifndef IJ_CORE_CPU_H
#define IJ_CORE_CPU_H

#include "core/base.h"

/* Levels of the kernel table, in rising order per architecture. X(identifier, word on the command line) */
#define IJ_LEVEL_LIST(X) \
  X(SCALAR, "scalar")    \
  X(AVX2, "avx2")        \
  X(AVX512, "avx512")    \
  X(NEON, "neon")

typedef enum ij_level {
#define IJ_LEVEL_ENUM(id, word) IJ_LEVEL_##id,
  IJ_LEVEL_LIST(IJ_LEVEL_ENUM)
#undef IJ_LEVEL_ENUM
  IJ_LEVEL_COUNT
} ij_level;

const char *ij__level_name(ij_level level);

/* The level with this word, or IJ_LEVEL_COUNT. */
ij_level ij__level_find(const char *word);

/* True when processor and operating system run this level (wide registers saved by the system included).
 * AVX2 means AVX2 + FMA + F16C; AVX512 means F + BW + DQ + VL on top of AVX2; NEON is part of every arm64. */
bool ij__cpu_has(ij_level level);

/* True when the processor multiplies bytes with AVX-512 (VNNI), which most but not all of that level do. */
bool ij__cpu_has_vnni(void);

/* True when the processor has AVX-512 and looks up bytes in registers (VBMI), which most but not all of that level do. */
bool ij__cpu_has_vbmi(void);

/* True when it does so with AVX2 (AVX-VNNI), which is a matter of its own: processors have either, both or none. */
bool ij__cpu_has_avx_vnni(void);

/* True when the processor multiplies tiles of bytes (AMX) and the system lets this process do so, for which it asks on every call. Linux only. */
bool ij__cpu_has_amx(void);

/* True when the processor has dot products of bytes with NEON, which most but not all of that level do. */
bool ij__cpu_has_dotprod(void);

/* Processors this process may run on (its affinity mask), at least 1. */
int ij__cpu_count(void);

#endif
