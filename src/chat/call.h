/* call.h: one tool call while its JSON arrives: {"name":"f","args":{...}}.
 *
 * The arguments are given on as they were written, so that what was streamed is always a prefix of the whole. A scanner that only
 * follows strings, escapes and brackets finds where they begin and end; whether the payload was JSON at all is judged at its end.
 */
#ifndef IJ_CHAT_CALL_H
#define IJ_CHAT_CALL_H

#include "core/base.h"
#include "core/status.h"
#include "core/str.h"

typedef enum ij_call_place {
  IJ_CALL_START, IJ_CALL_KEY, IJ_CALL_IN_KEY, IJ_CALL_COLON, IJ_CALL_VALUE, IJ_CALL_IN_VALUE, IJ_CALL_AFTER, IJ_CALL_DONE, IJ_CALL_LOST
} ij_call_place;

#define IJ_CALL_NOWHERE ((size_t)-1)

/* Zero-initialize, then ij__call_reset before every call. Offsets are in payload. */
typedef struct ij_call {
  ij_buf payload;
  ij_buf name;                   /* decoded; n_names counts the members "name", n_others those that are neither */
  ij_call_place place;
  int depth;                     /* of brackets inside of the value */
  bool in_string, escaped;
  size_t string_at;              /* of the key, or of a string value */
  bool key_is_name, key_is_args;
  int n_names, n_args, n_others;
  bool has_name;                 /* the name's string is complete and not empty */
  size_t args_begin, args_end;   /* the object of arguments; IJ_CALL_NOWHERE while unknown */
} ij_call;

void ij__call_reset(ij_call *c);
void ij__call_free(ij_call *c);

/* Takes more of the payload. False: no memory. */
bool ij__call_push(ij_call *c, const char *bytes, size_t n);

/* At the end: NULL when the payload is a JSON object with one name (a string) and one object of arguments; else what is wrong, a static
 * text. needs_name: a payload without a name is wrong, too. */
const char *ij__call_fault(const ij_call *c, bool needs_name);

#endif
