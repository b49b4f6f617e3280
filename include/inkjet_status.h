/* inkjet_status.h: the words in which inkjet reports trouble.
 *
 * Part of the public API, apart from inkjet.h only so that the lowest folder of the library can speak the same codes
 * without seeing the handles. Codes, names and descriptions come from one list and cannot drift.
 */
#ifndef INKJET_STATUS_H
#define INKJET_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define IJ_API
#else
#define IJ_API __attribute__((visibility("default")))
#endif

/* X(name, value, what it means) */
#define IJ_STATUS_LIST(X)                                                  \
  X(OK, 0, "success")                                                      \
  X(E_ARGUMENT, -1, "an argument is outside what the function accepts")    \
  X(E_NOMEM, -2, "memory could not be had")                                \
  X(E_IO, -3, "the operating system reported an error on a file")          \
  X(E_FORMAT, -4, "a file is not what its format requires")                \
  X(E_UNSUPPORTED, -5, "a file asks for something inkjet does not do")     \
  X(E_RANGE, -6, "a position or count is outside what the session holds")  \
  X(E_CONTEXT, -7, "the session's context is full")                        \
  X(E_NUMERIC, -8, "a computation gave a value that is not finite")        \
  X(E_CANCELLED, -9, "the caller asked to stop")                           \
  X(E_BUSY, -10, "too much work is waiting already")

typedef enum ij_status {
#define IJ_STATUS_ENUM(name, value, text) IJ_##name = value,
  IJ_STATUS_LIST(IJ_STATUS_ENUM)
#undef IJ_STATUS_ENUM
} ij_status;

/* A plain struct: nothing to free. Functions that take `ij_err *` accept NULL, fill it only on failure, and always
 * return the same code. `where` names the file, and the tensor, field or byte position when there is one; `message`
 * says what was expected, what was found and what to try. Long lists are cut with "and N more". */
typedef struct ij_err {
  ij_status code;
  char where[512];
  char message[3568];
} ij_err;

/* The identifier without prefix ("E_FORMAT"); "E_UNKNOWN" for a number that is not in the list. Any thread. */
IJ_API const char *ij_status_name(ij_status code);

/* One line of English about a code. Any thread. */
IJ_API const char *ij_status_text(ij_status code);

#ifdef __cplusplus
}
#endif
#endif
