/* video_plan.h: which packets of a track must be decoded to see certain frames of it. A long video has few sampled frames, and most of its
 * groups of pictures (from one key frame to the next) need not be decoded for them. */
#ifndef IJ_VIDEO_VIDEO_PLAN_H
#define IJ_VIDEO_VIDEO_PLAN_H

#include <libavcodec/avcodec.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ij__video_plan {
  int64_t n, room;     /* packets of the track, also those that show nothing */
  int64_t *times;      /* [n] when each is shown */
  uint8_t *flags;      /* [n] IJ_PACKET_* */
  int64_t *order;      /* [total] the times of the frames, sorted: frame i is shown at order[i] */
} ij__video_plan;

enum { IJ_PACKET_KEY = 1, IJ_PACKET_HIDDEN = 2, IJ_PACKET_NEEDED = 4 };

/* Packets in the order of the file. */
void ij__video_plan_add(ij__video_plan *plan, const AVPacket *packet);
/* After the last packet: marks those needed for n of `total` frames. False, and the track is to be decoded as a whole, when its packets
 * are not sure to be frames, have no times of their own, or would nearly all be needed. */
bool ij__video_plan_make(ij__video_plan *plan, enum AVCodecID codec, int64_t total, int64_t n);
void ij__video_plan_close(ij__video_plan *plan);

#endif
