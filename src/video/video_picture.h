/* video_picture.h: a decoded frame as rows of red, green and blue, the way up in which it is shown. */
#ifndef IJ_VIDEO_VIDEO_PICTURE_H
#define IJ_VIDEO_VIDEO_PICTURE_H

#include <libavformat/avformat.h>
#include <stdint.h>

struct SwsContext;

typedef struct ij__video_picture {
  int width, height;       /* as shown */
  uint8_t *pixels;         /* [height][width][3] of the last frame */
  int turn[4];             /* the display matrix: right and down of the frame as (right, down) of what is shown; each -1, 0 or 1 */
  int from_width, from_height, from_format; /* of the first frame; the others must be like it */
  struct SwsContext *scaler;
  uint8_t *plane[4];       /* the converted frame before it is turned, rows padded for vector code */
  int stride[4];
} ij__video_picture;

/* For frames like this one, the first of a track. Fails by ij__out_fail. */
void ij__video_picture_open(ij__video_picture *p, const AVStream *stream, const AVFrame *first, int64_t max_pixels);
void ij__video_picture_close(ij__video_picture *p);
void ij__video_picture_convert(ij__video_picture *p, const AVFrame *frame);

#endif
