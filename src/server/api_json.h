/* api_json.h: JSON of requests and replies: values together with their source text, and a writer.
 *
 * A request is read through io/json.h. What is handed on untouched (messages, schemas, arguments) must keep its digits and the order of
 * its keys, so a value is paired with the bytes it was read from; the pairing walks text and values side by side.
 */
#ifndef IJ_SERVER_API_JSON_H
#define IJ_SERVER_API_JSON_H

#include "core/base.h"
#include "core/str.h"
#include "io/json.h"

typedef struct ij_jv {
  const ij_json_value *v;      /* NULL: absent */
  const char *raw;             /* its source, without white space around it */
  size_t n_raw;
} ij_jv;

typedef struct ij_jv_iter {
  ij_json_iter json;
  const char *at;
} ij_jv_iter;

ij_jv ij__jv_root(const ij_json *doc, const char *bytes, size_t n);
/* Children in document order, from a zeroed iterator. Key may be NULL. */
bool ij__jv_next(ij_jv container, ij_jv_iter *it, const char **key, size_t *n_key, ij_jv *out);
ij_jv ij__jv_member(ij_jv object, const char *key); /* .v is NULL when there is none */
ij_json_type ij__jv_type(ij_jv v);
bool ij__jv_absent(ij_jv v);                        /* missing or null */
bool ij__jv_string(ij_jv v, const char **bytes, size_t *n);
bool ij__jv_is(ij_jv v, const char *text);          /* a string equal to text */

/* Writers append to a buffer; lack of memory shows in its `failed`. Strings must be UTF-8, as all text in the library is. */
void ij__jw_string(ij_buf *b, const char *bytes, size_t n); /* with quotes */
void ij__jw_cstring(ij_buf *b, const char *s);
void ij__jw_inner(ij_buf *b, const char *bytes, size_t n);  /* without quotes: a piece of a longer string */
void ij__jw_lossy(ij_buf *b, const char *bytes, size_t n);  /* any bytes: what is not UTF-8 becomes U+FFFD */
void ij__jw_bytes(ij_buf *b, const char *bytes, size_t n);  /* an array of numbers */
void ij__jw_float(ij_buf *b, float x);                      /* shortest of 9 digits or less; not finite: -9999.0 */
void ij__jw_raw(ij_buf *b, ij_jv v);
void ij__jw_compact(ij_buf *b, ij_jv v);                    /* without white space between tokens: fits on a line */

#endif
