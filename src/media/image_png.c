/* image_png.c: PNG through libpng: every colour type, depth and interlacing, to 8-bit RGB. Of 16 bits the high byte is taken, alpha and
 * transparent colours are dropped, and colour profiles and gamma are not applied, all as Pillow does.
 *
 * libpng reports errors by longjmp: everything to be released lies in one struct outside the function that calls setjmp. Chunks that do
 * not matter here are skipped unread, so there is nothing in them to unpack without limit.
 */
#include "core/status.h"
#include "media/image.h"

#ifdef IJ_HAS_PNG

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

typedef struct reading {
  const ij__image_file *file;
  ij__image *out;
  size_t at; /* of file->bytes */
  png_structp png;
  png_infop info;
  ij_err *err;
  ij_status status; /* IJ_OK until something failed */
  bool animated;
} reading;

static void on_error(png_structp png, png_const_charp message) {
  reading *r = png_get_error_ptr(png);
  if (r->status == IJ_OK) r->status = ij__fail(r->err, IJ_E_FORMAT, r->file->where, "damaged PNG, at byte %zu: %s", r->at, message);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void on_read(png_structp png, png_bytep out, size_t n) {
  reading *r = png_get_io_ptr(png);
  if (n > r->file->n - r->at) {
    r->status = ij__fail(r->err, IJ_E_FORMAT, r->file->where, "truncated PNG: the file ends at byte %zu, before its end mark", r->file->n);
    png_longjmp(png, 1);
  }
  memcpy(out, r->file->bytes + r->at, n);
  r->at += n;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t n) {
  (void)png;
  return ij__alloc(n);
}

static void on_free(png_structp png, png_voidp p) {
  (void)png;
  ij__free(p);
}

/* Chunks that libpng need not know: all but those that make the picture, and EXIF. acTL is seen on the way: an animation. */
static int on_chunk(png_structp png, png_unknown_chunkp chunk) {
  reading *r = png_get_user_chunk_ptr(png);
  if (memcmp(chunk->name, "acTL", 4) == 0) r->animated = true;
  return 1;
}

static void skip_needless_chunks(png_structp png, reading *r) {
  png_set_read_user_chunk_fn(png, r, on_chunk);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "eXIf", 1);
  png_set_chunk_malloc_max(png, 1 << 20);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff); /* ij__image_begin has the limits, and words for them */
}

static void describe(reading *r, int colour, int depth, int interlace) {
  static const char *const names[] = {"gray", "?", "RGB", "palette", "gray", "?", "RGB"};
  bool alpha = (colour & PNG_COLOR_MASK_ALPHA) || png_get_valid(r->png, r->info, PNG_INFO_tRNS);
  snprintf(r->out->format, sizeof r->out->format, "PNG, %s, %d-bit%s%s%s", names[colour], depth, interlace ? ", interlaced" : "",
           alpha ? ", alpha dropped" : "", r->animated ? ", its still picture" : "");
}

/* Colours beyond the palette, which a file should not use, are the gray of their number, as in Pillow; libpng would make them black. */
static void complete_palette(reading *r, int depth) {
  png_colorp given;
  png_color all[256];
  int n = 0;
  png_get_PLTE(r->png, r->info, &given, &n);
  for (int i = 0; i < 256; i++) all[i] = i < n ? given[i] : (png_color){(png_byte)i, (png_byte)i, (png_byte)i};
  png_set_PLTE(r->png, r->info, all, 1 << depth);
}

/* What setjmp must not see: every call that may jump. */
static void read_picture(reading *r) {
  png_structp png = r->png;
  png_uint_32 width, height;
  int depth, colour, interlace;
  png_read_info(png, r->info);
  png_get_IHDR(png, r->info, &width, &height, &depth, &colour, &interlace, NULL, NULL);
  r->status = ij__image_begin(r->out, width, height, r->file, r->err);
  if (r->status != IJ_OK) return;
  describe(r, colour, depth, interlace);
  if (colour == PNG_COLOR_TYPE_PALETTE) {
    complete_palette(r, depth);
    png_set_palette_to_rgb(png);
  }
  if (depth < 8 && colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);
  png_set_strip_alpha(png);
  if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
  int n_passes = png_set_interlace_handling(png);
  png_read_update_info(png, r->info);
  if (png_get_rowbytes(png, r->info) != (size_t)width * 3) png_error(png, "rows have another size than their pixels");
  for (int pass = 0; pass < n_passes; pass++) {
    for (png_uint_32 y = 0; y < height; y++) png_read_row(png, r->out->pixels + (size_t)y * width * 3, NULL);
  }
  png_read_end(png, r->info);
  png_bytep exif = NULL;
  png_uint_32 n_exif = 0;
  if (png_get_eXIf_1(png, r->info, &n_exif, &exif)) r->out->orientation = ij__exif_orientation(exif, n_exif);
}

ij_status ij__image_read_png(ij__image *out, const ij__image_file *file, ij_err *err) {
  reading r = {.file = file, .out = out, .err = err};
  r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning, NULL, on_malloc, on_free);
  r.info = r.png ? png_create_info_struct(r.png) : NULL;
  if (!r.info) {
    png_destroy_read_struct(&r.png, NULL, NULL);
    return ij__fail(err, IJ_E_NOMEM, file->where, "no memory for reading PNG");
  }
  png_set_read_fn(r.png, &r, on_read);
  if (setjmp(png_jmpbuf(r.png)) == 0) {
    skip_needless_chunks(r.png, &r);
    read_picture(&r);
  }
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return r.status;
}

#else

ij_status ij__image_read_png(ij__image *out, const ij__image_file *file, ij_err *err) {
  (void)out;
  return ij__fail(err, IJ_E_UNSUPPORTED, file->where, "a PNG picture: this build was made without libpng, so it cannot read it");
}

#endif
