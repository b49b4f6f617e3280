/* image_plan.c: limits on pictures, checked before memory is taken: of what a file says it holds, and of what would become of it. */
#include "core/alloc.h"
#include "core/status.h"
#include "media/image.h"

static ij_status too_many_pixels(const char *what, int64_t width, int64_t height, const ij__image_file *file, ij_err *err) {
  return ij__fail(err, IJ_E_RANGE, file->where, "%s %lld x %lld pixels, which is more than max_pixels, %lld", what, (long long)width,
                  (long long)height, (long long)file->options->max_pixels);
}

ij_status ij__image_check_size(int64_t width, int64_t height, const ij__image_file *file, ij_err *err) {
  if (width <= 0 || height <= 0) {
    return ij__fail(err, IJ_E_FORMAT, file->where, "the picture has %lld x %lld pixels: a side is zero", (long long)width, (long long)height);
  }
  if (width > IJ_IMAGE_MAX_SIDE || height > IJ_IMAGE_MAX_SIDE) {
    return ij__fail(err, IJ_E_RANGE, file->where, "the picture has %lld x %lld pixels; a side may have %d at most", (long long)width,
                    (long long)height, IJ_IMAGE_MAX_SIDE);
  }
  if (width * height > file->options->max_pixels) return too_many_pixels("the picture has", width, height, file, err);
  return IJ_OK;
}

ij_status ij__image_begin(ij__image *image, int64_t width, int64_t height, const ij__image_file *file, ij_err *err) {
  ij_status s = ij__image_check_size(width, height, file, err);
  if (s != IJ_OK) return s;
  image->pixels = ij__alloc_zero((size_t)(width * height), 3);
  if (!image->pixels) return ij__fail_nomem(err, "pixels", (size_t)(width * height) * 3);
  image->width = (int)width;
  image->height = (int)height;
  return IJ_OK;
}

ij_status ij__image_make_plan(ij__image_plan *plan, int width, int height, const ij__image_file *file, ij_err *err) {
  const ij_media_options *o = file->options;
  ij_status s = ij__image_used_size(&plan->used, &plan->mid, width, height, o, file->where, err);
  if (s != IJ_OK) return s;
  int64_t used_width = plan->used.width, used_height = plan->used.height;
  if (used_width * used_height > o->max_pixels) return too_many_pixels("rescaling would make", used_width, used_height, file, err);
  plan->rows = ij__image_grid_rows(plan->used.height, o->patch);
  plan->cols = ij__image_grid_cols(plan->used.width, o->patch);
  int64_t n = (int64_t)plan->rows * plan->cols;
  if (n <= o->max_rows) return IJ_OK;
  return ij__fail(err, IJ_E_RANGE, file->where,
                  "the picture, %d x %d pixels as it is used, would cost %d x %d = %lld tokens; max_rows is %lld: set a smaller max_long_edge",
                  plan->used.width, plan->used.height, plan->rows, plan->cols, (long long)n, (long long)o->max_rows);
}

ij_status ij__image_apply_plan(ij__image *image, const ij__image_plan *plan, const char *where, ij_err *err) {
  ij_status s = ij__image_resize(image, plan->mid.width, plan->mid.height, where, err);
  return s == IJ_OK ? ij__image_resize(image, plan->used.width, plan->used.height, where, err) : s;
}
