/* test.h: the whole test framework: checks that print both values and survive NDEBUG, and a closing line.
 *
 * A test file is a program: `int main(void) { RUN(name); ...; return test_report(); }` with `static void name(void)`.
 */
#ifndef IJ_TEST_H
#define IJ_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of like cases the full-speed build takes `full`; slow builds (sanitizers, an emulator, scalar kernels), which are for something else, `thin`. */
#ifdef IJ_TEST_THIN
#define TEST_THIN(full, thin) (thin)
#else
#define TEST_THIN(full, thin) (full)
#endif
/* The same for an emulator alone, which is ten times as slow as the slowest of the others. */
#ifdef IJ_TEST_EMULATED
#define TEST_EMULATED(full, few) (few)
#else
#define TEST_EMULATED(full, few) (full)
#endif

static int test_failures, test_count, test_failed_count;

#define TEST_FAIL(...)                                  \
  do {                                                  \
    test_failures++;                                    \
    printf("%s:%d: ", __FILE__, __LINE__);              \
    printf(__VA_ARGS__);                                \
    printf("\n");                                       \
  } while (0)

#define CHECK(cond)                                     \
  do {                                                  \
    if (!(cond)) TEST_FAIL("failed: %s", #cond);        \
  } while (0)

#define CHECK_INT(got, want)                                                                          \
  do {                                                                                                \
    long long test_g = (long long)(got), test_w = (long long)(want);                                  \
    if (test_g != test_w) TEST_FAIL("%s is %lld, expected %s = %lld", #got, test_g, #want, test_w);   \
  } while (0)

#define CHECK_STR(got, want)                                                                          \
  do {                                                                                                \
    const char *test_g = (got), *test_w = (want);                                                     \
    if (strcmp(test_g, test_w) != 0) TEST_FAIL("%s is \"%s\", expected \"%s\"", #got, test_g, test_w); \
  } while (0)

#define CHECK_HAS(got, want)                                                                               \
  do {                                                                                                     \
    const char *test_g = (got), *test_w = (want);                                                          \
    if (!strstr(test_g, test_w)) TEST_FAIL("%s is \"%s\", which lacks \"%s\"", #got, test_g, test_w);      \
  } while (0)

#define CHECK_NEAR(got, want, bound)                                                                        \
  do {                                                                                                      \
    double test_g = (got), test_w = (want), test_b = (bound);                                               \
    if (!(fabs(test_g - test_w) <= test_b)) TEST_FAIL("%s is %.9g, expected %.9g within %g", #got, test_g, test_w, test_b); \
  } while (0)

#define CHECK_OK(call, err)                                                                                  \
  do {                                                                                                       \
    ij_status test_s = (call);                                                                               \
    if (test_s != IJ_OK) TEST_FAIL("%s: %s: %s: %s", #call, ij_status_name(test_s), (err).where, (err).message); \
  } while (0)

#define RUN(test)                                              \
  do {                                                         \
    int test_before = test_failures;                           \
    test();                                                    \
    test_count++;                                              \
    if (test_failures > test_before) {                         \
      test_failed_count++;                                     \
      printf("FAIL %s\n", #test);                              \
    }                                                          \
  } while (0)

static inline int test_report(void) {
  printf("%d passed, %d failed\n", test_count - test_failed_count, test_failed_count);
  return test_failures ? 1 : 0;
}

/* A small generator for test inputs, so that a failure can be repeated from its printed seed. */
static inline uint64_t test_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#endif
