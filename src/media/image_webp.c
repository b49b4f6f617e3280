/* image_webp.c: WebP through libwebp: lossy and lossless, alpha dropped, of an animation the first frame on its black canvas. */
#include "core/status.h"
#include "media/image.h"

#ifdef IJ_HAS_WEBP

#include <stdio.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

static ij_status damaged(const ij__image_file *file, const char *what, ij_err *err) {
  return ij__fail(err, IJ_E_FORMAT, file->where, "damaged or truncated WebP: %s", what);
}

/* The frame lies inside the canvas: the demultiplexer has checked its place, and here its own header is held against that. */
static ij_status decode_frame(ij__image *out, const WebPIterator *frame, const ij__image_file *file, ij_err *err) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return ij__fail(err, IJ_E_UNSUPPORTED, file->where, "libwebp is of another version than its header");
  if (WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input) != VP8_STATUS_OK) {
    return damaged(file, "the header of its frame", err);
  }
  bool inside = frame->x_offset >= 0 && frame->y_offset >= 0 && config.input.width <= out->width - frame->x_offset &&
                config.input.height <= out->height - frame->y_offset;
  if (!inside) return damaged(file, "a frame larger than its canvas", err);
  size_t stride = (size_t)out->width * 3, offset = (size_t)frame->y_offset * stride + (size_t)frame->x_offset * 3;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out->pixels + offset;
  config.output.u.RGBA.stride = (int)stride;
  config.output.u.RGBA.size = stride * (size_t)out->height - offset;
  VP8StatusCode code = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
  WebPFreeDecBuffer(&config.output);
  if (code == VP8_STATUS_OUT_OF_MEMORY) return ij__fail(err, IJ_E_NOMEM, file->where, "no memory for a WebP picture");
  if (code != VP8_STATUS_OK) return damaged(file, "the data of its frame", err);
  snprintf(out->format, sizeof out->format, "WebP, %s%s%s", config.input.format == 2 ? "lossless" : "lossy",
           config.input.has_alpha ? ", alpha dropped" : "", frame->num_frames > 1 ? ", animated: the first frame" : "");
  return IJ_OK;
}

static ij_status read_picture(ij__image *out, WebPDemuxer *demuxer, const ij__image_file *file, ij_err *err) {
  WebPIterator frame;
  WebPChunkIterator exif;
  ij_status s = ij__image_begin(out, WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH), WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT), file, err);
  if (s != IJ_OK) return s;
  if (!WebPDemuxGetFrame(demuxer, 1, &frame)) return damaged(file, "it has no frame", err);
  s = decode_frame(out, &frame, file, err);
  WebPDemuxReleaseIterator(&frame);
  if (s == IJ_OK && WebPDemuxGetChunk(demuxer, "EXIF", 1, &exif)) {
    out->orientation = ij__exif_orientation(exif.chunk.bytes, exif.chunk.size);
    WebPDemuxReleaseChunkIterator(&exif);
  }
  return s;
}

ij_status ij__image_read_webp(ij__image *out, const ij__image_file *file, ij_err *err) {
  WebPData data = {file->bytes, file->n};
  WebPDemuxer *demuxer = WebPDemux(&data);
  if (!demuxer) return damaged(file, "its chunks do not fit together", err);
  ij_status s = read_picture(out, demuxer, file, err);
  WebPDemuxDelete(demuxer);
  return s;
}

#else

ij_status ij__image_read_webp(ij__image *out, const ij__image_file *file, ij_err *err) {
  (void)out;
  return ij__fail(err, IJ_E_UNSUPPORTED, file->where, "a WebP picture: this build was made without libwebp, so it cannot read it");
}

#endif
