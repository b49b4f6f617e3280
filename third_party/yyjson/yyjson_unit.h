/* yyjson_unit.h: the compiled functions of the vendored parser that src/io/json.c uses; the rest it takes from inline
 * functions of yyjson.h. */
#ifndef IJ_YYJSON_UNIT_H
#define IJ_YYJSON_UNIT_H

#include "src/yyjson.h"

/* Strict parse of n bytes, which are copied; NULL and *err on failure. raw_numbers: numbers stay text (YYJSON_TYPE_RAW). */
yyjson_doc *ij__yyjson_read(const char *bytes, size_t n, bool raw_numbers, const yyjson_alc *alc, yyjson_read_err *err);

/* The nearest double to the JSON number at the start of a text that ends in NUL; false for one beyond the largest. No locale. */
bool ij__yyjson_number(const char *text, double *out);

/* Line and column (both from 1) of a byte position. */
bool ij__yyjson_locate(const char *bytes, size_t n, size_t pos, size_t *line, size_t *column);

#endif
