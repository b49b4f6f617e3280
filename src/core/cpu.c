/* cpu.c: detection by CPUID on x86-64, by architecture on arm64. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "core/cpu.h"

#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

static const char *const level_words[IJ_LEVEL_COUNT] = {
#define LEVEL_WORD(id, word) [IJ_LEVEL_##id] = word,
    IJ_LEVEL_LIST(LEVEL_WORD)
#undef LEVEL_WORD
};

const char *ij__level_name(ij_level level) { return level_words[level]; }

ij_level ij__level_find(const char *word) {
  for (int i = 0; i < IJ_LEVEL_COUNT; i++) {
    if (strcmp(level_words[i], word) == 0) return (ij_level)i;
  }
  return IJ_LEVEL_COUNT;
}

#if defined(__x86_64__)
static uint64_t xcr0(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return ((uint64_t)hi << 32) | lo;
}

static bool x86_has(ij_level level) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  bool osxsave = c & (1u << 27), avx = c & (1u << 28), fma = c & (1u << 12), f16c = c & (1u << 29);
  if (!osxsave || !avx || !fma || !f16c || (xcr0() & 0x6) != 0x6) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  bool avx2 = b & (1u << 5);
  if (level == IJ_LEVEL_AVX2) return avx2;
  unsigned wide = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31); /* F, DQ, BW, VL */
  return avx2 && (b & wide) == wide && (xcr0() & 0xE6) == 0xE6;
}
#endif

bool ij__cpu_has(ij_level level) {
  switch (level) {
    case IJ_LEVEL_SCALAR: return true;
#if defined(__x86_64__)
    case IJ_LEVEL_AVX2:
    case IJ_LEVEL_AVX512: return x86_has(level);
#endif
#if defined(__aarch64__)
    case IJ_LEVEL_NEON: return true;
#endif
    default: return false;
  }
}

/* This bit of ECX, besides AVX-512. */
static bool avx512_has(unsigned bit) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return x86_has(IJ_LEVEL_AVX512) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> bit & 1);
#else
  (void)bit;
  return false;
#endif
}

bool ij__cpu_has_vnni(void) { return avx512_has(11); }

bool ij__cpu_has_vbmi(void) { return avx512_has(1); }

bool ij__cpu_has_avx_vnni(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return x86_has(IJ_LEVEL_AVX2) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4));
#else
  return false;
#endif
}

bool ij__cpu_has_amx(void) {
#if defined(__x86_64__) && defined(__linux__)
  const unsigned tiles = (1u << 24) | (1u << 25); /* AMX-TILE, AMX-INT8 */
  unsigned a, b, c, d;
  if (!ij__cpu_has_vnni() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles) != tiles) return false;
  if ((xcr0() & 0x60000) != 0x60000) return false;
  if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d) || (b & 0xffff) < 64 || b >> 16 < 8 || (c & 0xffff) < 16) return false;
  return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
#else
  return false;
#endif
}

bool ij__cpu_has_dotprod(void) {
#if defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#elif defined(__aarch64__) && defined(__APPLE__)
  return true; /* since the first Macs with such processors */
#else
  return false;
#endif
}

int ij__cpu_count(void) {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}
