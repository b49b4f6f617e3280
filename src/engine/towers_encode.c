/* towers_encode.c: media -> rows. A call goes through its medium in chunks and gives the threads free between them, so that generation
 * goes on meanwhile. */
#include <math.h>

#include "engine/engine_int.h"

ij_media_options ij_towers_media_options(const ij_towers *towers) {
  ij_media_options o = ij_media_options_default();
  if (!towers || !towers->w.vision) return o;
  if (towers->model && towers->model->plan.picture_pixels) o.max_pixels = IJ_MIN(o.max_pixels, towers->model->plan.picture_pixels);
  o.patch = towers->w.plan.patch;
  o.rescale_frac = towers->w.rescale_frac;
  o.rescale_long_edge = towers->w.rescale_long_edge;
  return o;
}

static ij_status check_request(const ij_towers *t, const ij_media *media, int64_t first, int64_t n, const float *out, ij_media_info *info,
                               ij_err *err) {
  if (!t || !media || (!out && n > 0)) return ij__fail(err, IJ_E_ARGUMENT, "ij_towers_encode", "towers, media or out is NULL");
  ij_media_get_info(media, info);
  if (first < 0 || n < 0 || first > info->n_rows || n > info->n_rows - first) {
    return ij__fail(err, IJ_E_RANGE, "ij_towers_encode", "%lld rows from row %lld on are asked for, the medium has %lld", (long long)n,
                    (long long)first, (long long)info->n_rows);
  }
  bool image = info->kind == IJ_MEDIA_IMAGE;
  if (image ? !t->w.vision : !t->w.audio) {
    return ij__fail(err, IJ_E_UNSUPPORTED, t->path, "there is no %s tower, so this model cannot take in a %s", image ? "vision" : "audio",
                    image ? "picture" : "sound");
  }
  if (image && info->patch != t->w.plan.patch) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_towers_encode", "the picture was cut into patches of %d pixels, this tower wants %d: open it "
                    "with the options of ij_towers_media_options", info->patch, t->w.plan.patch);
  }
  return IJ_OK;
}

typedef struct patch_source {
  const ij_media *media;
  int64_t first;
} patch_source;

/* In range by check_request, so this cannot fail; a row that did would be caught as not finite. */
static void read_patch(void *user, int64_t row, float *patch) {
  const patch_source *p = user;
  ij_media_info info;
  if (ij_media_patches(p->media, p->first + row, 1, patch, NULL) == IJ_OK) return;
  ij_media_get_info(p->media, &info);
  for (int i = 0; i < 2 * 3 * info.patch * info.patch; i++) patch[i] = NAN;
}

static ij_status check_rows(const ij_towers *t, const float *rows, int64_t first, int64_t n, ij_err *err) {
  for (int64_t i = 0; i < n; i++) {
    if (t->kernels->all_finite(rows + i * t->w.hidden, t->w.hidden)) continue;
    return ij__fail(err, IJ_E_NUMERIC, t->path, "row %lld of the medium is not finite: weights of the tower are damaged, or its values "
                    "overflow float32", (long long)(first + i));
  }
  return IJ_OK;
}

ij_status ij_towers_encode(ij_towers *towers, const ij_media *media, int64_t first, int64_t n, float *out, ij_err *err) {
  ij_media_info info;
  ij_towers_run run;
  ij_status s = check_request(towers, media, first, n, out, &info, err);
  if (s != IJ_OK || n == 0) return s;
  bool image = info.kind == IJ_MEDIA_IMAGE;
  s = image ? ij__towers_open_vision(&run, &towers->w, towers->kernels, towers->pool, n, !info.pair, err)
            : ij__towers_open_audio(&run, &towers->w, towers->kernels, towers->pool, n, err);
  if (s != IJ_OK) return s;
  int64_t n_chunk = ij__div_up(n, run.max_rows), size = ij__div_up(n, n_chunk); /* chunks of nearly the same size */
  for (int64_t at = 0; at < n && s == IJ_OK; at += size) {
    int64_t n_row = IJ_MIN(size, n - at);
    float *rows = out + at * towers->w.hidden;
    patch_source source = {media, first + at};
    ij__turn_take(towers->lock);
    if (image)
      ij__towers_vision(&run, n_row, read_patch, &source, rows);
    else
      ij__towers_audio(&run, n_row, ij_media_bins(media) + source.first * IJ_TOWER_MELS, rows);
    ij__turn_give(towers->lock);
    s = check_rows(towers, rows, first + at, n_row, err);
  }
  ij__towers_close_run(&run);
  return s;
}
