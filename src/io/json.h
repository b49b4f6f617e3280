/* json.h: the one door to the JSON library; nothing else includes it.
 *
 * Strict JSON (RFC 8259), UTF-8 checked, nesting and size bounded, duplicate keys refused. A document owns all its values:
 * pointers stay valid until ij__json_free. Strings may hold NUL: use the length. Reading a parsed document is safe from any thread.
 */
#ifndef IJ_IO_JSON_H
#define IJ_IO_JSON_H

#include "core/base.h"
#include "core/status.h"
#include "core/str.h"

typedef struct ij_json ij_json;              /* a parsed document */
typedef struct ij_json_value ij_json_value;  /* a value in it; NULL is accepted by every function below and is of type NONE */

typedef enum ij_json_type {
  IJ_JSON_NONE, IJ_JSON_NULL, IJ_JSON_BOOL, IJ_JSON_INT, IJ_JSON_REAL, IJ_JSON_STRING, IJ_JSON_ARRAY, IJ_JSON_OBJECT
} ij_json_type;

/* Parses n bytes. `where` (a path) goes into errors, with line and column. INT: written without '.', 'e' and within int64. */
ij_status ij__json_parse(ij_json **out, const char *bytes, size_t n, const char *where, ij_err *err);
/* The same for JSON that goes on to somewhere else: numbers keep their text (ij__json_get_number), integers of any size with it, and a
 * key may be there twice: ij__json_member finds the last, ij__json_next shows all. */
ij_status ij__json_parse_exact(ij_json **out, const char *bytes, size_t n, const char *where, ij_err *err);
void ij__json_free(ij_json **doc);
/* Memory that parsing n bytes takes at most, for who must know it before: a copy of them, and values by the marks that set them apart. */
size_t ij__json_cost(const char *bytes, size_t n);
const ij_json_value *ij__json_root(const ij_json *doc);

ij_json_type ij__json_type_of(const ij_json_value *v);
const char *ij__json_type_name(ij_json_type t); /* "an integer", "a string", "nothing" ... for messages */

/* Each returns false, and leaves *out, when the value is not of that type. Numbers: INT or REAL are both a double. */
bool ij__json_get_bool(const ij_json_value *v, bool *out);
bool ij__json_get_int(const ij_json_value *v, int64_t *out);
bool ij__json_get_double(const ij_json_value *v, double *out);
bool ij__json_get_string(const ij_json_value *v, const char **bytes, size_t *n); /* bytes are also NUL-terminated */
bool ij__json_is(const ij_json_value *v, const char *text); /* a string, and this one */
bool ij__json_get_number(const ij_json_value *v, const char **text, size_t *n); /* of an exact document: as it was written */

/* The member of an object, or NULL. */
const ij_json_value *ij__json_member(const ij_json_value *object, const char *key);

/* Elements of an array or members of an object; 0 otherwise. */
size_t ij__json_size(const ij_json_value *v);

/* Iteration in document order: start with a zeroed iterator; false at the end. Key is NULL in arrays. Any out may be NULL. */
typedef struct ij_json_iter {
  const void *at;
  size_t index;
} ij_json_iter;
bool ij__json_next(const ij_json_value *container, ij_json_iter *it, const char **key, size_t *key_len, const ij_json_value **value);

/* Canonical JSON of a value of an exact document: no spaces, keys sorted by code point and each once (its last value), text as it is but
 * for what must be escaped, integers exactly, floats as the shortest text that reads back the same, spelled as Python does. False: there
 * was no memory, or a number is beyond the largest double (out->failed tells which). */
bool ij__json_canonical(ij_buf *out, const ij_json_value *v);
void ij__json_quote(ij_buf *out, const char *bytes, size_t n); /* a JSON string, in the same spelling */
void ij__json_put_double(ij_buf *out, double v);                /* a float, in the same spelling; v is finite */
/* The double nearest to a JSON number; false when the text is none or beyond the largest double. No locale. */
bool ij__json_read_double(const char *text, size_t n, double *out);

/* Text from a file made fit for a message: quoted, control characters as '?', cut to `size` bytes (at least 16) with NUL. */
void ij__json_show(char *out, size_t size, const char *bytes, size_t n);

#endif
