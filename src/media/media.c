/* media.c: opening and asking media. Recognizes files by their first bytes, hands them to the reader of their kind, and keeps what is
 * left when the file is forgotten: pixels of the size that is used, or bins. */
#include "media/media.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/blake2b.h"
#include "core/status.h"
#include "media/audio.h"
#include "media/image.h"
#include "media/media_kind.h"

ij_media_options ij_media_options_default(void) {
  return (ij_media_options){.struct_size = sizeof(ij_media_options), .patch = 40, .max_pixels = (int64_t)1 << 26, .max_rows = 32768};
}

/* ------------------------------------------------------------------------------------------------------------ options */

static ij_status bad_option(ij_err *err, const char *name, double found, const char *expected) {
  return ij__fail(err, IJ_E_ARGUMENT, name, "expected %s, found %g", expected, found);
}

/* *full is `options`, or the defaults when that is NULL. */
static ij_status check_options(ij_media_options *full, const ij_media_options *options, ij_err *err) {
  if (options && options->struct_size != sizeof *options) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_media_options.struct_size", "expected %zu, found %zu: start from ij_media_options_default()",
                    sizeof *options, options->struct_size);
  }
  *full = options ? *options : ij_media_options_default();
  const ij_media_options *o = full;
  if (o->patch < 1 || o->patch > 1024) return bad_option(err, "ij_media_options.patch", o->patch, "1 to 1024 pixels");
  if (!isfinite(o->rescale_frac) || o->rescale_frac < 0) {
    return bad_option(err, "ij_media_options.rescale_frac", o->rescale_frac, "a number above 0, or 0 for none");
  }
  if (o->rescale_long_edge < 0) return bad_option(err, "ij_media_options.rescale_long_edge", o->rescale_long_edge, "pixels, or 0 for none");
  if (o->max_long_edge < 0) return bad_option(err, "ij_media_options.max_long_edge", o->max_long_edge, "pixels, or 0 for none");
  if (o->max_pixels < 1) return bad_option(err, "ij_media_options.max_pixels", (double)o->max_pixels, "1 or more");
  if (o->max_rows < 1) return bad_option(err, "ij_media_options.max_rows", (double)o->max_rows, "1 or more");
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------- digest */

static void add_number(ij__blake2b *b, int64_t v) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)v >> 8 * i);
  ij__blake2b_add(b, bytes, sizeof bytes);
}

/* Everything that a tower reads, and nothing else: the same rows have the same digest whichever file they came from. */
static void set_digest(ij_media *m) {
  ij_media_info *info = &m->info;
  ij__blake2b b;
  ij__blake2b_init(&b);
  add_number(&b, info->kind);
  if (info->kind == IJ_MEDIA_IMAGE) {
    size_t n_bytes = (size_t)info->used_width * (size_t)info->used_height * 3;
    add_number(&b, info->pair);
    add_number(&b, info->patch);
    add_number(&b, info->used_width);
    add_number(&b, info->used_height);
    for (int i = 0; i < (info->pair ? 2 : 1); i++) ij__blake2b_add(&b, m->pixels[i], n_bytes);
  } else {
    add_number(&b, info->n_rows);
    ij__blake2b_add(&b, m->bins, (size_t)info->n_rows * IJ_MEL_BINS);
  }
  ij__blake2b_end(&b, info->digest);
}

/* ------------------------------------------------------------------------------------------------------------ opening */

static ij_status new_media(ij_media **out, ij_media_kind kind, const char *where, ij_err *err) {
  *out = ij__alloc_zero(1, sizeof **out);
  if (!*out) return ij__fail(err, IJ_E_NOMEM, where, "no memory for a medium");
  (*out)->info.kind = kind;
  (*out)->info.format = (*out)->format;
  return IJ_OK;
}

/* The pixels of one or two upright pictures of one size, which are resized here and become the medium's. */
static ij_status take_pictures(ij_media **out, ij__image *images, int n, const ij__image_file *file, ij_err *err) {
  ij_media *m;
  ij__image_plan plan;
  int width = images->width, height = images->height;
  ij_status s = ij__image_make_plan(&plan, width, height, file, err);
  for (int i = 0; i < n && s == IJ_OK; i++) s = ij__image_apply_plan(&images[i], &plan, file->where, err);
  if (s == IJ_OK) s = new_media(&m, IJ_MEDIA_IMAGE, file->where, err);
  if (s != IJ_OK) return s;
  ij_media_info *info = &m->info;
  for (int i = 0; i < n; i++) {
    m->pixels[i] = images[i].pixels;
    images[i].pixels = NULL;
  }
  snprintf(m->format, sizeof m->format, "%s", images->format);
  info->width = width;
  info->height = height;
  info->used_width = plan.used.width;
  info->used_height = plan.used.height;
  info->patch = file->options->patch;
  info->grid_rows = plan.rows;
  info->grid_cols = plan.cols;
  info->n_rows = (int64_t)plan.rows * plan.cols;
  info->pair = n == 2;
  set_digest(m);
  *out = m;
  return IJ_OK;
}

static ij_status open_picture(ij_media **out, ij__image_reader *reader, const ij__image_file *file, ij_err *err) {
  ij__image image = {.orientation = 1};
  ij_status s = reader(&image, file, err);
  if (s == IJ_OK) s = ij__image_upright(&image, file->where, err);
  if (s == IJ_OK) s = take_pictures(out, &image, 1, file, err);
  ij__free(image.pixels);
  return s;
}

static ij_status take_sound(ij_media **out, ij__sound *sound, const char *where, ij_err *err) {
  ij_media *m;
  ij_status s = new_media(&m, IJ_MEDIA_AUDIO, where, err);
  if (s != IJ_OK) {
    ij__free(sound->bins);
    return s;
  }
  m->bins = sound->bins;
  snprintf(m->format, sizeof m->format, "%s", sound->format);
  m->info.n_rows = sound->n_rows;
  m->info.rate = sound->rate;
  m->info.channels = sound->channels;
  m->info.seconds = sound->seconds;
  m->info.n_samples = sound->n_samples;
  set_digest(m);
  *out = m;
  return IJ_OK;
}

static ij_status open_sound(ij_media **out, const void *bytes, size_t n, const char *name, const ij_media_options *options, ij_err *err) {
  ij__sound sound = {0};
  ij_status s = ij__sound_open(&sound, bytes, n, name, options, err);
  return s == IJ_OK ? take_sound(out, &sound, name, err) : s;
}

/* A kind that was asked for and is not there, or that is known and not read here. */
static ij_status check_kind(ij_media_kind wanted, const ij__file_kind *found, const char *where, ij_err *err) {
  bool picture = found->is == IJ_FILE_PICTURE;
  if (wanted == IJ_MEDIA_IMAGE && !picture) {
    return ij__fail(err, IJ_E_UNSUPPORTED, where, "expected a picture (PNG, JPEG, WebP or GIF), found a file that is %s%s%s",
                    ij__file_class_name(found->is), found->name[0] ? ": " : "", found->name);
  }
  if (wanted == IJ_MEDIA_AUDIO && picture) {
    return ij__fail(err, IJ_E_UNSUPPORTED, where, "expected a sound, found a picture: %s", found->name);
  }
  if (picture && !found->reader) {
    return ij__fail(err, IJ_E_UNSUPPORTED, where, "%s pictures are not read here; PNG, JPEG, WebP and GIF are", found->name);
  }
  if (found->is == IJ_FILE_VIDEO) return ij__fail(err, IJ_E_UNSUPPORTED, where, "a video (%s): open it as one", found->name);
  if (found->is == IJ_FILE_OTHER) return ij__fail(err, IJ_E_UNSUPPORTED, where, "neither a picture nor a sound: %s", found->name);
  return IJ_OK;
}

ij_status ij_media_open(ij_media **out, ij_media_kind kind, const void *bytes, size_t n_bytes, const char *name,
                        const ij_media_options *options, ij_err *err) {
  const char *where = name ? name : "media";
  ij_media_options full;
  if (!out) return ij__fail(err, IJ_E_ARGUMENT, where, "out is NULL");
  *out = NULL;
  ij_status s = check_options(&full, options, err);
  if (s != IJ_OK) return s;
  if (kind != IJ_MEDIA_ANY && kind != IJ_MEDIA_IMAGE && kind != IJ_MEDIA_AUDIO) {
    return ij__fail(err, IJ_E_ARGUMENT, where, "kind %d is not one of ij_media_kind", (int)kind);
  }
  if (n_bytes > 0 && !bytes) return ij__fail(err, IJ_E_ARGUMENT, where, "bytes is NULL");
  if (n_bytes == 0) return ij__fail(err, IJ_E_FORMAT, where, "the file is empty");
  ij__file_kind found = ij__file_kind_of(bytes, n_bytes);
  s = check_kind(kind, &found, where, err);
  if (s != IJ_OK) return s;
  if (kind == IJ_MEDIA_ANY && found.is == IJ_FILE_UNKNOWN && !ij__sound_is_known(bytes, n_bytes)) {
    return ij__fail(err, IJ_E_UNSUPPORTED, where, "this is no picture, sound or video of a kind that is known: PNG, JPEG, WebP, GIF, WAV, FLAC, "
                    "MP3 and Ogg (Vorbis, Opus) are read, and videos are opened on their own");
  }
  if (found.is != IJ_FILE_PICTURE) return open_sound(out, bytes, n_bytes, where, &full, err);
  ij__image_file file = {bytes, n_bytes, where, &full};
  return open_picture(out, found.reader, &file, err);
}

ij_status ij_media_from_pixels(ij_media **out, const uint8_t *first, const uint8_t *second, int width, int height,
                               const ij_media_options *options, ij_err *err) {
  const char *where = "pixels";
  ij_media_options full;
  if (!out || !first) return ij__fail(err, IJ_E_ARGUMENT, where, "%s is NULL", out ? "first" : "out");
  *out = NULL;
  ij_status s = check_options(&full, options, err);
  ij__image_file file = {NULL, 0, where, &full};
  ij__image images[2] = {{.orientation = 1, .format = "pixels"}, {.orientation = 1}};
  const uint8_t *from[2] = {first, second};
  int n = second ? 2 : 1;
  if (second) snprintf(images->format, sizeof images->format, "a pair of frames");
  for (int i = 0; i < n && s == IJ_OK; i++) {
    s = ij__image_begin(&images[i], width, height, &file, err);
    if (s == IJ_OK) memcpy(images[i].pixels, from[i], (size_t)width * (size_t)height * 3);
  }
  if (s == IJ_OK) s = take_pictures(out, images, n, &file, err);
  for (int i = 0; i < n; i++) ij__free(images[i].pixels);
  return s;
}

ij_status ij_media_from_samples(ij_media **out, const float *samples, int64_t n, int channels, int rate, const ij_media_options *options,
                                ij_err *err) {
  const char *where = "samples";
  ij_media_options full;
  ij__sound sound = {0};
  if (!out) return ij__fail(err, IJ_E_ARGUMENT, where, "out is NULL");
  *out = NULL;
  ij_status s = check_options(&full, options, err);
  if (s != IJ_OK) return s;
  if (n > 0 && !samples) return ij__fail(err, IJ_E_ARGUMENT, where, "samples is NULL");
  s = ij__sound_from_samples(&sound, samples, n, channels, rate, &full, err);
  return s == IJ_OK ? take_sound(out, &sound, where, err) : s;
}

void ij_media_close(ij_media **media) {
  if (!media || !*media) return;
  ij__free((*media)->pixels[0]);
  ij__free((*media)->pixels[1]);
  ij__free((*media)->bins);
  ij__free(*media);
  *media = NULL;
}

/* ------------------------------------------------------------------------------------------------------------- asking */

void ij_media_get_info(const ij_media *media, ij_media_info *out) { *out = media->info; }

const uint8_t *ij_media_bins(const ij_media *media) { return media->bins; }

ij_status ij_media_patches(const ij_media *media, int64_t first, int64_t n, float *out, ij_err *err) {
  const ij_media_info *info = &media->info;
  if (info->kind != IJ_MEDIA_IMAGE) return ij__fail(err, IJ_E_ARGUMENT, "media", "patches were asked of a sound");
  if (first < 0 || n < 0 || first > info->n_rows || n > info->n_rows - first) {
    return ij__fail(err, IJ_E_RANGE, "media", "%lld rows from row %lld were asked for; there are %lld", (long long)n, (long long)first,
                    (long long)info->n_rows);
  }
  float table[257][3];
  size_t slice = (size_t)info->patch * (size_t)info->patch * 3;
  ij__image_table(table);
  for (int64_t i = first; i < first + n; i++, out += 2 * slice) {
    int row = (int)(i / info->grid_cols), col = (int)(i % info->grid_cols);
    for (int t = 0; t < 2; t++) {
      if (t == 1 && !info->pair) memcpy(out + slice, out, slice * sizeof *out);
      else ij__image_patch(out + (size_t)t * slice, media->pixels[t], info->used_width, info->used_height, info->patch, row, col,
                           (const float(*)[3])table);
    }
  }
  return IJ_OK;
}
