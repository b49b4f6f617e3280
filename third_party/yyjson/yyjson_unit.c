/* yyjson_unit.c: compiles the vendored parser as one unit in which every function of it is static, so that none of its symbols
 * can leave the library or meet another copy in a program. Ours; only the functions below are visible, under our prefix.
 * Writer, utilities, and the parser's non-standard extensions are left out. */
#define yyjson_api static
#define YYJSON_DISABLE_WRITER 1
#define YYJSON_DISABLE_UTILS 1
#define YYJSON_DISABLE_NON_STANDARD 1
#include "src/yyjson.c"

#include "yyjson_unit.h"

yyjson_doc *ij__yyjson_read(const char *bytes, size_t n, bool raw_numbers, const yyjson_alc *alc, yyjson_read_err *err) {
  yyjson_read_flag flags = raw_numbers ? YYJSON_READ_NUMBER_AS_RAW : YYJSON_READ_NOFLAG;
  return yyjson_read_opts((char *)(uintptr_t)bytes, n, flags, alc, err); /* without INSITU the bytes are only read */
}

bool ij__yyjson_number(const char *text, double *out) {
  yyjson_val v = {0};
  if (!yyjson_read_number(text, &v, YYJSON_READ_NOFLAG, NULL, NULL)) return false;
  *out = yyjson_get_num(&v);
  return true;
}

bool ij__yyjson_locate(const char *bytes, size_t n, size_t pos, size_t *line, size_t *column) {
  size_t character;
  return yyjson_locate_pos(bytes, n, pos, line, column, &character);
}
