/* video_picture.c: see video_picture.h. Conversion is the slow and accurate one of the ffmpeg libraries: full chroma interpolation and
 * rounding, the matrix and the range that the frame names. A frame that names no matrix gets that of its size, as players do. */
#include "video/video_picture.h"

#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
#include <stdlib.h>

#include "video/video_out.h"

static const int32_t *display_matrix(const AVStream *stream, const AVFrame *frame) {
  const AVFrameSideData *of_frame = av_frame_get_side_data(frame, AV_FRAME_DATA_DISPLAYMATRIX);
  const uint8_t *bytes = NULL;
  size_t n = 0;
  if (of_frame) {
    bytes = of_frame->data, n = of_frame->size;
  } else {
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    const AVPacketSideData *of_track =
        av_packet_side_data_get(stream->codecpar->coded_side_data, stream->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    if (of_track) bytes = of_track->data, n = of_track->size;
#else
    bytes = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &n);
#endif
  }
  return n >= 9 * sizeof(int32_t) ? (const int32_t *)(const void *)bytes : NULL;
}

/* -1, 0 or 1 for a factor of 16.16 fixed point that is next to one of them; else a failure. */
static int sign_of(double factor, double length) {
  double x = length > 0 ? factor / length : 2;
  if (x > -0.01 && x < 0.01) return 0;
  if (x > 0.99 && x < 1.01) return 1;
  if (x > -1.01 && x < -0.99) return -1;
  ij__out_fail(IJ_E_UNSUPPORTED, "the picture is to be shown turned by an angle that is not a multiple of 90 degrees");
}

static void read_turn(ij__video_picture *p, const AVStream *stream, const AVFrame *first) {
  const int32_t *m = display_matrix(stream, first);
  static const int upright[4] = {1, 0, 0, 1};
  memcpy(p->turn, upright, sizeof upright);
  if (!m) return;
  const double a = m[0], b = m[1], c = m[3], d = m[4];
  double length = a < 0 ? -a : a;
  if (length < (b < 0 ? -b : b)) length = b < 0 ? -b : b;
  p->turn[0] = sign_of(a, length), p->turn[1] = sign_of(b, length);
  p->turn[2] = sign_of(c, length), p->turn[3] = sign_of(d, length);
  int turned = p->turn[0] == 0;
  if (abs(p->turn[0]) + abs(p->turn[1]) != 1 || abs(p->turn[2]) + abs(p->turn[3]) != 1 || (p->turn[3] == 0) != turned)
    ij__out_fail(IJ_E_UNSUPPORTED, "the picture is to be shown sheared, which is not supported");
}

static int matrix_of(const AVFrame *f) {
  switch (f->colorspace) {
    case AVCOL_SPC_BT709: return SWS_CS_ITU709;
    case AVCOL_SPC_FCC: return SWS_CS_FCC;
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M: return SWS_CS_ITU601;
    case AVCOL_SPC_SMPTE240M: return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: return SWS_CS_BT2020;
    case AVCOL_SPC_RGB:
    case AVCOL_SPC_UNSPECIFIED:
    case AVCOL_SPC_RESERVED: return f->width >= 1280 || f->height > 576 ? SWS_CS_ITU709 : SWS_CS_ITU601;
    default: break;
  }
  const char *name = av_color_space_name(f->colorspace);
  ij__out_fail(IJ_E_UNSUPPORTED, "the colours are in the space \"%s\", which is not supported", name ? name : "unknown");
}

void ij__video_picture_open(ij__video_picture *p, const AVStream *stream, const AVFrame *first, int64_t max_pixels) {
  *p = (ij__video_picture){.from_width = first->width, .from_height = first->height, .from_format = first->format};
  if (first->width < 1 || first->height < 1) ij__out_fail(IJ_E_FORMAT, "the picture has a side of zero");
  if ((int64_t)first->width * first->height > max_pixels)
    ij__out_fail(IJ_E_RANGE, "the picture has %d x %d = %lld pixels, more than the limit of %lld", first->width, first->height,
                 (long long)first->width * first->height, (long long)max_pixels);
  read_turn(p, stream, first);
  const int turned = p->turn[0] == 0;
  p->width = turned ? first->height : first->width;
  p->height = turned ? first->width : first->height;
  p->scaler = sws_getContext(first->width, first->height, first->format, first->width, first->height, AV_PIX_FMT_RGB24,
                             SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
  if (!p->scaler) {
    const char *name = av_get_pix_fmt_name(first->format);
    ij__out_fail(IJ_E_UNSUPPORTED, "pixels of the kind \"%s\" cannot be converted", name ? name : "unknown");
  }
  p->pixels = av_malloc((size_t)first->width * (size_t)first->height * 3);
  if (!p->pixels || av_image_alloc(p->plane, p->stride, (first->width + 63) & ~63, first->height + 1, AV_PIX_FMT_RGB24, 64) < 0)
    ij__out_fail(IJ_E_NOMEM, "no memory for a picture of %d x %d", first->width, first->height);
}

void ij__video_picture_close(ij__video_picture *p) {
  sws_freeContext(p->scaler);
  av_freep(&p->plane[0]);
  av_freep(&p->pixels);
}

/* Where (x, y) of what is shown comes from. The matrix is orthogonal, so that its transpose turns back. */
static const uint8_t *source_row(const ij__video_picture *p, int y, ptrdiff_t *step) {
  const int *t = p->turn;
  ptrdiff_t right = t[0] * 3 + t[2] * (ptrdiff_t)p->stride[0], down = t[1] * 3 + t[3] * (ptrdiff_t)p->stride[0];
  ptrdiff_t x0 = t[0] < 0 || t[1] < 0 ? p->from_width - 1 : 0, y0 = t[2] < 0 || t[3] < 0 ? p->from_height - 1 : 0;
  *step = right;
  return p->plane[0] + x0 * 3 + y0 * p->stride[0] + y * down;
}

void ij__video_picture_convert(ij__video_picture *p, const AVFrame *frame) {
  if (frame->width != p->from_width || frame->height != p->from_height || frame->format != p->from_format)
    ij__out_fail(IJ_E_UNSUPPORTED, "the picture changes within the file, from %d x %d to %d x %d or to other pixels: expected one size",
                 p->from_width, p->from_height, frame->width, frame->height);
  if (frame->flags & AV_FRAME_FLAG_CORRUPT || frame->decode_error_flags)
    ij__out_fail(IJ_E_FORMAT, "a frame of the video is damaged");
  const int *from = sws_getCoefficients(matrix_of(frame)), *to = sws_getCoefficients(SWS_CS_DEFAULT);
  sws_setColorspaceDetails(p->scaler, from, frame->color_range == AVCOL_RANGE_JPEG, to, 1, 0, 1 << 16, 1 << 16);
  if (sws_scale(p->scaler, (const uint8_t *const *)frame->data, frame->linesize, 0, frame->height, p->plane, p->stride) != frame->height)
    ij__out_fail(IJ_E_FORMAT, "the colours of a frame cannot be converted");
  for (int y = 0; y < p->height; y++) {
    ptrdiff_t step;
    const uint8_t *from_row = source_row(p, y, &step);
    uint8_t *row = p->pixels + (size_t)y * (size_t)p->width * 3;
    if (step == 3) {
      memcpy(row, from_row, (size_t)p->width * 3);
      continue;
    }
    for (int x = 0; x < p->width; x++, from_row += step) memcpy(row + (size_t)x * 3, from_row, 3);
  }
}
