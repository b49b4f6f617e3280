/* media.h: inside a medium: what ij_media is made of, for the files of media/ and for the towers.
 *
 * A picture is kept as the 8-bit pixels that remain after rotation and rescaling, 3 bytes a pixel; patches, 38400 bytes each as floats,
 * are made from them when they are asked for. A sound is kept as its bins, 80 bytes a row. Nothing here changes after it was opened.
 */
#ifndef IJ_MEDIA_MEDIA_H
#define IJ_MEDIA_MEDIA_H

#include "core/base.h"
#include "inkjet_media.h"

enum { IJ_MEL_BINS = 80 };

struct ij_media {
  ij_media_info info; /* info.format points to `format` */
  char format[96];
  uint8_t *pixels[2]; /* [used_height][used_width][3]; [1]: the second frame of a pair, else NULL; sounds: both NULL */
  uint8_t *bins;      /* sounds: [n_rows][IJ_MEL_BINS], else NULL */
};

#endif
