/* temp_folder.h: an empty folder for one test program. */
#ifndef IJ_TESTS_TEMP_FOLDER_H
#define IJ_TESTS_TEMP_FOLDER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Makes one under TMPDIR and writes its path to out; says so and returns false where it cannot. */
static inline bool make_temp_folder(char *out, size_t size) {
  const char *base = getenv("TMPDIR");
  snprintf(out, size, "%s/inkjet-test-XXXXXX", base && *base ? base : "/tmp");
  if (mkdtemp(out)) return true;
  printf("cannot create %s\n", out);
  return false;
}

#endif
