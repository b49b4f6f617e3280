/* image_png.c: PNG through libpng: every colour type, depth and interlacing, to 8-bit RGB. Of 16 bits the high byte is taken, alpha and
 * transparent colours are dropped, and colour profiles and gamma are not applied, all as Pillow does.
 *
 * libpng reports errors by longjmp: what is to be released lies in one struct that is reached through a pointer, never in local variables.
 * Chunks that do not matter here are skipped unread, so there is nothing in them to unpack without limit.
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
  bool animated, no_memory;
} reading;

static void on_error(png_structp png, png_const_charp message) {
  reading *r = png_get_error_ptr(png);
  if (r->no_memory) r->status = ij__fail(r->err, IJ_E_NOMEM, r->file->where, "no memory for a PNG picture");
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
  reading *r = png_get_mem_ptr(png);
  void *p = ij__alloc(n);
  if (!p) r->no_memory = true;
  return p;
}

static void on_free(png_structp png, png_voidp p) {
  (void)png;
  ij__free(p);
}

/* libpng is to skip all chunks but those that make the picture. Then there need be no limit on their sizes, which some programs would
 * exceed: nothing is allocated for them. */
static void skip_needless_chunks(png_structp png) {
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
  png_set_chunk_malloc_max(png, 0);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff); /* ij__image_begin has the limits, and words for them */
}

static uint32_t big_endian(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

/* What is wanted of the other chunks: EXIF, and whether there is an animation. What stands behind the end mark is no part of the picture. */
static void look_at_chunks(reading *r) {
  const uint8_t *bytes = r->file->bytes;
  for (size_t at = 8, n = r->file->n; n - at >= 12;) {
    size_t length = big_endian(bytes + at);
    if (length > n - at - 12) return; /* libpng will say so */
    if (memcmp(bytes + at + 4, "IEND", 4) == 0) return;
    if (memcmp(bytes + at + 4, "acTL", 4) == 0) r->animated = true;
    if (memcmp(bytes + at + 4, "eXIf", 4) == 0) r->out->orientation = ij__exif_orientation(bytes + at + 8, length);
    at += length + 12;
  }
}

static void describe(reading *r, int colour, int depth, int interlace) {
  static const char *const names[] = {"gray", "?", "RGB", "palette", "gray", "?", "RGB"};
  bool alpha = (colour & PNG_COLOR_MASK_ALPHA) || png_get_valid(r->png, r->info, PNG_INFO_tRNS);
  snprintf(r->out->format, sizeof r->out->format, "PNG, %s, %d-bit%s%s%s", names[colour], depth, interlace ? ", interlaced" : "",
           alpha ? ", alpha dropped" : "", r->animated ? ", its still picture" : "");
}

/* Colour numbers, one byte each at the start of the pixels, become the colours; from the end, so that none is overwritten unread. What is
 * beyond the palette, which a file should not use, is the gray of its number, as in Pillow; libpng would make it black. */
static void look_up_colours(reading *r) {
  png_colorp given = NULL;
  int n = 0;
  uint8_t *pixels = r->out->pixels;
  png_get_PLTE(r->png, r->info, &given, &n);
  for (size_t i = (size_t)r->out->width * (size_t)r->out->height; i-- > 0;) {
    uint8_t v = pixels[i];
    png_color c = v < n ? given[v] : (png_color){v, v, v};
    pixels[3 * i] = c.red;
    pixels[3 * i + 1] = c.green;
    pixels[3 * i + 2] = c.blue;
  }
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
  bool palette = colour == PNG_COLOR_TYPE_PALETTE;
  if (palette) png_set_packing(png);
  if (depth < 8 && colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);
  png_set_strip_alpha(png);
  if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
  int n_passes = png_set_interlace_handling(png);
  png_read_update_info(png, r->info);
  size_t row_bytes = (size_t)width * (palette ? 1 : 3);
  if (png_get_rowbytes(png, r->info) != row_bytes) png_error(png, "rows have another size than their pixels");
  for (int pass = 0; pass < n_passes; pass++) {
    for (png_uint_32 y = 0; y < height; y++) png_read_row(png, r->out->pixels + y * row_bytes, NULL);
  }
  png_read_end(png, NULL);
  if (palette) look_up_colours(r);
}

ij_status ij__image_read_png(ij__image *out, const ij__image_file *file, ij_err *err) {
  reading r = {.file = file, .out = out, .err = err};
  look_at_chunks(&r);
  r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning, &r, on_malloc, on_free);
  r.info = r.png ? png_create_info_struct(r.png) : NULL;
  if (!r.info) {
    png_destroy_read_struct(&r.png, NULL, NULL);
    return ij__fail(err, IJ_E_NOMEM, file->where, "no memory for reading PNG");
  }
  png_set_read_fn(r.png, &r, on_read);
  if (setjmp(png_jmpbuf(r.png)) == 0) {
    skip_needless_chunks(r.png);
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
