/* yyjson_unit.c: compiles the vendored parser as one unit in which every function of it is static, so that none of its symbols
 * can leave the library or meet another copy in a program. Ours; only the two functions below are visible, under our prefix.
 * Writer, utilities, and the parser's non-standard extensions are left out. */
#define yyjson_api static
#define YYJSON_DISABLE_WRITER 1
#define YYJSON_DISABLE_UTILS 1
#define YYJSON_DISABLE_NON_STANDARD 1
#include "src/yyjson.c"

#include "yyjson_unit.h"

yyjson_doc *ij__yyjson_read(const char *bytes, size_t n, const yyjson_alc *alc, yyjson_read_err *err) {
  return yyjson_read_opts((char *)(uintptr_t)bytes, n, YYJSON_READ_NOFLAG, alc, err); /* without INSITU the bytes are only read */
}

bool ij__yyjson_locate(const char *bytes, size_t n, size_t pos, size_t *line, size_t *column) {
  size_t character;
  return yyjson_locate_pos(bytes, n, pos, line, column, &character);
}
