/* part.h: the bytes that a content part stands for: in a data: URL, in a file, or behind a remote URL.
 *
 * A part is first located, which costs nothing but reading its JSON and gives a key, and loaded only when nobody has those bytes yet.
 */
#ifndef IJ_CHAT_PART_H
#define IJ_CHAT_PART_H

#include "core/base.h"
#include "core/status.h"
#include "inkjet_chat.h"
#include "io/json.h"

typedef enum ij_part_kind { IJ_PART_PICTURE, IJ_PART_SOUND, IJ_PART_MOVIE } ij_part_kind;
typedef enum ij_part_place { IJ_PART_BASE64, IJ_PART_FILE, IJ_PART_REMOTE } ij_part_place;

/* Equal keys: the same kind of medium from the same place. */
typedef struct ij_part_key {
  uint64_t hash[2];   /* of the text */
  ij_part_kind kind;
  ij_part_place place;
} ij_part_key;

typedef struct ij_part {
  ij_part_kind kind;
  ij_part_place place;
  const char *text;   /* base64, a path or a URL; the latter two end in NUL */
  size_t n;
  ij_part_key key;
  ij_json *doc;       /* owns text, or path does */
  char *path;
} ij_part;

/* json: of the content part. Errors: IJ_E_ARGUMENT (no URL where one should be, a scheme that is not known), IJ_E_UNSUPPORTED (files and
 * remote URLs where options do not allow them). Close it in either case. */
ij_status ij__part_locate(ij_part *out, ij_part_kind kind, const char *json, size_t n, const ij_attach_options *options, ij_err *err);
void ij__part_close(ij_part *part);
bool ij__part_same(const ij_part_key *a, const ij_part_key *b);

/* Its bytes. Errors: IJ_E_FORMAT (not base64), IJ_E_RANGE (more than options->max_bytes), IJ_E_IO, IJ_E_NOMEM, and those of fetch. */
typedef struct ij_part_bytes {
  void *data;
  size_t n;
  bool is_foreign;    /* from malloc, as fetch gives it */
} ij_part_bytes;
ij_status ij__part_load(const ij_part *part, const ij_attach_options *options, ij_part_bytes *out, ij_err *err);
void ij__part_free(ij_part_bytes *bytes);

/* An error of a content part: its place becomes `path`, messages[2].content[0], and what was its place goes into the message. Returns s. */
ij_status ij__part_fail(ij_status s, const char *path, ij_err *err);

#endif
