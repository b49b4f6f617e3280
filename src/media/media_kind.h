/* media_kind.h: what a file is, by its first bytes. */
#ifndef IJ_MEDIA_MEDIA_KIND_H
#define IJ_MEDIA_MEDIA_KIND_H

#include "media/image.h"

typedef enum ij__file_class { IJ_FILE_UNKNOWN, IJ_FILE_PICTURE, IJ_FILE_SOUND, IJ_FILE_VIDEO, IJ_FILE_OTHER } ij__file_class;

/* Also files that nothing here reads are known by name, so that a refusal can say what it refuses. */
typedef struct ij__file_kind {
  const char *name; /* "PNG"; "" when unknown */
  ij__file_class is;
  ij__image_reader *reader; /* pictures that are read here; else NULL */
} ij__file_kind;

ij__file_kind ij__file_kind_of(const uint8_t *bytes, size_t n);

/* "a picture", "a sound", ... */
const char *ij__file_class_name(ij__file_class is);

#endif
