/* image_size.c: which size of a picture is used: the optional limit of the longer side, then the processor's rescaling, in binary64. */
#include <math.h>

#include "core/status.h"
#include "media/image.h"

static ij_status check_side(double side, const char *where, ij_err *err) {
  if (side <= IJ_IMAGE_MAX_SIDE) return IJ_OK;
  return ij__fail(err, IJ_E_RANGE, where, "a side would have %.0f pixels after rescaling, the limit is %d: lower rescale_frac", side,
                  IJ_IMAGE_MAX_SIDE);
}

/* A longer side than max_long_edge is reduced to it; the sides round half to even. */
static ij__image_size limit_long_edge(int width, int height, int max_long_edge) {
  int longer = IJ_MAX(width, height);
  if (max_long_edge <= 0 || longer <= max_long_edge) return (ij__image_size){width, height};
  double scale = (double)max_long_edge / longer;
  return (ij__image_size){IJ_MAX(1, (int)rint(width * scale)), IJ_MAX(1, (int)rint(height * scale))};
}

ij_status ij__image_used_size(ij__image_size *used, ij__image_size *mid, int width, int height, const ij_media_options *options,
                              const char *where, ij_err *err) {
  *mid = limit_long_edge(width, height, options->max_long_edge);
  *used = *mid;
  if (options->rescale_frac == 0) return IJ_OK;
  double longer = IJ_MAX(mid->width, mid->height), target = longer * options->rescale_frac;
  /* The limit stops growth; it never shrinks a picture that was larger from the start. */
  if (options->rescale_long_edge > 0) target = fmin(target, fmax(options->rescale_long_edge, longer));
  double ratio = target / longer;
  if (ratio == 1) return IJ_OK;
  double w = fmax(1, floor(mid->width * ratio + 0.5)), h = fmax(1, floor(mid->height * ratio + 0.5));
  ij_status s = check_side(fmax(w, h), where, err);
  if (s != IJ_OK) return s;
  *used = (ij__image_size){(int)w, (int)h};
  return IJ_OK;
}
