/* image_jpeg.c: JPEG through libjpeg-turbo: baseline, progressive and arithmetic; gray, RGB, YCbCr, CMYK and YCCK, as Pillow shows them.
 *
 * Decoding with the slow integer DCT and smooth upsampling, the library's defaults, is bit-equal to Pillow's. The library reports errors
 * by longjmp: what is to be released lies in one struct that is reached through a pointer, never in local variables. Warnings of damaged
 * data are errors here, for what is shown from there on is invented; harmless ones (stray bytes between segments, scans in an odd order,
 * fields that baseline files leave zero) are not.
 */
#include "core/status.h"
#include "media/image.h"

#ifdef IJ_HAS_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "core/alloc.h"

/* A progressive file of a few bytes may ask for any number of scans over the whole picture; real ones have about ten. */
enum { MAX_SCANS = 100 };

typedef struct reading {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf failed;
  const ij__image_file *file;
  ij__image *out;
  uint8_t *row; /* CMYK only */
  ij_err *err;
  ij_status status; /* IJ_OK until something failed */
} reading;

static void fail(reading *r, ij_status status, const char *text) {
  if (r->status == IJ_OK) r->status = ij__fail(r->err, status, r->file->where, "%s", text);
  longjmp(r->failed, 1);
}

/* What the library gives up on, and what stands before its words. */
static ij_status status_of(int code, const char **means) {
  switch (code) {
    case JERR_OUT_OF_MEMORY: *means = "no memory for a JPEG picture"; return IJ_E_NOMEM;
    case JERR_IMAGE_TOO_BIG: *means = "the JPEG picture is too large"; return IJ_E_RANGE;
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL: *means = "a kind of JPEG that is not read here"; return IJ_E_UNSUPPORTED;
    default: *means = "damaged JPEG"; return IJ_E_FORMAT;
  }
}

static void on_error(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX], text[JMSG_LENGTH_MAX + 48];
  const char *means;
  ij_status status = status_of(jpeg->err->msg_code, &means);
  jpeg->err->format_message(jpeg, message);
  snprintf(text, sizeof text, "%s: %s", means, message);
  fail(jpeg->client_data, status, text);
}

static void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return; /* a trace */
  int code = jpeg->err->msg_code;
  bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_BOGUS_PROGRESSION ||
                  code == JWRN_NOT_SEQUENTIAL;
  if (!harmless) on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg) {
  reading *r = jpeg->client_data;
  if (r->jpeg.input_scan_number > MAX_SCANS) fail(r, IJ_E_RANGE, "a progressive JPEG of more than 100 scans");
}

static boolean on_end_of_bytes(j_decompress_ptr jpeg) {
  fail(jpeg->client_data, IJ_E_FORMAT, "truncated JPEG: the file ends in the middle of the picture");
  return FALSE;
}

static void read_orientation(reading *r) {
  for (jpeg_saved_marker_ptr m = r->jpeg.marker_list; m; m = m->next) {
    if (m->data_length < 6 || memcmp(m->data, "Exif\0", 5) != 0) continue;
    r->out->orientation = ij__exif_orientation(m->data, m->data_length);
    return;
  }
}

static void describe(reading *r) {
  J_COLOR_SPACE space = r->jpeg.jpeg_color_space;
  const char *name = space == JCS_GRAYSCALE ? "gray" : space == JCS_RGB ? "RGB" : space == JCS_YCbCr ? "YCbCr" : space == JCS_YCCK ? "YCCK" : "CMYK";
  snprintf(r->out->format, sizeof r->out->format, "JPEG, %s%s%s", name, r->jpeg.progressive_mode ? ", progressive" : "",
           r->jpeg.arith_code ? ", arithmetic" : "");
}

/* a * b / 255, rounded, as Pillow computes it. */
static int times_255(int a, int b) {
  int t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

/* Inks are stored inverted, as Adobe's programs do and everyone after them: 255 is no ink. */
static void cmyk_to_rgb(uint8_t *out, const uint8_t *in, int n) {
  for (int i = 0; i < n; i++, in += 4, out += 3) {
    for (int c = 0; c < 3; c++) {
      int v = in[3] - times_255(255 - in[c], in[3]);
      out[c] = (uint8_t)IJ_MAX(v, 0);
    }
  }
}

static void read_picture(reading *r) {
  j_decompress_ptr jpeg = &r->jpeg;
  jpeg_mem_src(jpeg, r->file->bytes, (unsigned long)r->file->n);
  jpeg->src->fill_input_buffer = on_end_of_bytes;
  jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(jpeg, TRUE);
  int n = jpeg->num_components;
  if (n != 1 && n != 3 && n != 4) fail(r, IJ_E_UNSUPPORTED, "a JPEG picture with neither 1, 3 nor 4 components");
  r->status = ij__image_begin(r->out, jpeg->image_width, jpeg->image_height, r->file, r->err);
  if (r->status != IJ_OK) return;
  read_orientation(r);
  describe(r);
  jpeg->out_color_space = n == 4 ? JCS_CMYK : JCS_RGB;
  size_t row_bytes = (size_t)r->out->width * 3;
  r->row = n == 4 ? ij__alloc_array((size_t)r->out->width, 4) : NULL;
  if (n == 4 && !r->row) fail(r, IJ_E_NOMEM, "no memory for a row of CMYK pixels");
  jpeg_start_decompress(jpeg);
  for (int y = 0; y < r->out->height; y++) {
    uint8_t *to = r->out->pixels + (size_t)y * row_bytes;
    JSAMPROW row = n == 4 ? r->row : to;
    jpeg_read_scanlines(jpeg, &row, 1);
    if (n == 4) cmyk_to_rgb(to, r->row, r->out->width);
  }
}

ij_status ij__image_read_jpeg(ij__image *out, const ij__image_file *file, ij_err *err) {
  reading r = {.file = file, .out = out, .err = err};
  r.jpeg.err = jpeg_std_error(&r.errors);
  r.errors.error_exit = on_error;
  r.errors.emit_message = on_message;
  r.progress.progress_monitor = on_progress;
  r.jpeg.client_data = &r;
  if (setjmp(r.failed) == 0) {
    jpeg_create_decompress(&r.jpeg);
    r.jpeg.progress = &r.progress;
    read_picture(&r);
  }
  jpeg_destroy_decompress(&r.jpeg);
  ij__free(r.row);
  return r.status;
}

#else

ij_status ij__image_read_jpeg(ij__image *out, const ij__image_file *file, ij_err *err) {
  (void)out;
  return ij__fail(err, IJ_E_UNSUPPORTED, file->where, "a JPEG picture: this build was made without libjpeg-turbo, so it cannot read it");
}

#endif
