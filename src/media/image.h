/* image.h: pictures inside media/: from the bytes of a file to 8-bit RGB, from there to the size that is used, from there to patches.
 *
 * Each reader fills an ij__image. It calls ij__image_begin once it knows the size, and that is where limits are checked and pixels
 * allocated, so no header makes a reader take memory without limit. Transparency is dropped, never blended.
 */
#ifndef IJ_MEDIA_IMAGE_H
#define IJ_MEDIA_IMAGE_H

#include "core/base.h"
#include "inkjet_media.h"

#define IJ_IMAGE_MAX_SIDE (1 << 20) /* pixels; whatever the options allow */

typedef struct ij__image {
  uint8_t *pixels; /* [height][width][3], of core/alloc.h */
  int width, height;
  int orientation; /* 1 to 8 as in EXIF; 1: as stored */
  char format[96];
} ij__image;

/* A file in memory. */
typedef struct ij__image_file {
  const uint8_t *bytes;
  size_t n;
  const char *where; /* for messages */
  const ij_media_options *options;
} ij__image_file;

typedef ij_status ij__image_reader(ij__image *out, const ij__image_file *file, ij_err *err);

/* One per format; `out` is zeroed before, and freed by the caller also after a failure. Without the library a reader is left out of the
 * build, and IJ_E_UNSUPPORTED says so. */
ij__image_reader ij__image_read_png, ij__image_read_jpeg, ij__image_read_webp, ij__image_read_gif;

/* For readers: checks the size against zero and the limits; the second also allocates zeroed pixels. */
ij_status ij__image_check_size(int64_t width, int64_t height, const ij__image_file *file, ij_err *err);
ij_status ij__image_begin(ij__image *image, int64_t width, int64_t height, const ij__image_file *file, ij_err *err);

/* The orientation in EXIF data (a TIFF header and its first directory, perhaps after "Exif\0\0"); 1 when there is none that is valid. */
int ij__exif_orientation(const uint8_t *bytes, size_t n);

/* Turns and mirrors so that orientation becomes 1. */
ij_status ij__image_upright(ij__image *image, const char *where, ij_err *err);

typedef struct ij__image_size {
  int width, height;
} ij__image_size;

/* What will become of a picture: its size after max_long_edge (`mid`), after rescale_frac as well (`used`), and its patches. */
typedef struct ij__image_plan {
  ij__image_size mid, used;
  int rows, cols;
} ij__image_plan;

/* The two sizes alone (docs/media.md has the rules). */
ij_status ij__image_used_size(ij__image_size *used, ij__image_size *mid, int width, int height, const ij_media_options *options,
                              const char *where, ij_err *err);

/* The plan for an upright picture, or IJ_E_RANGE when it goes beyond max_pixels or max_rows. */
ij_status ij__image_make_plan(ij__image_plan *plan, int width, int height, const ij__image_file *file, ij_err *err);

/* Resizes as planned. */
ij_status ij__image_apply_plan(ij__image *image, const ij__image_plan *plan, const char *where, ij_err *err);

/* Rows and columns of patches: one column more than needed when `patch` divides the width. */
static inline int ij__image_grid_rows(int height, int patch) { return (int)ij__div_up(height, patch); }
static inline int ij__image_grid_cols(int width, int patch) { return width / patch + 1; }

/* Pillow's Lanczos, to the byte. Replaces the pixels. */
ij_status ij__image_resize(ij__image *image, int width, int height, const char *where, ij_err *err);

/* A byte (or -1: outside the picture) of channel 0, 1, 2 as the towers see it, before and after rounding to bfloat16. */
float ij__image_normal(int raw, int channel);
float ij__image_bf16(float v);

void ij__image_table(float table[257][3]); /* [raw + 1][channel], rounded to bfloat16 */
/* The patch in this row and column of the grid, as [patch][patch][3] values of the table. */
void ij__image_patch(float *out, const uint8_t *pixels, int width, int height, int patch, int row, int col, const float table[257][3]);

#endif
