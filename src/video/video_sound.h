/* video_sound.h: decoded sound as float samples, channel beside channel. */
#ifndef IJ_VIDEO_VIDEO_SOUND_H
#define IJ_VIDEO_VIDEO_SOUND_H

#include <stdint.h>

struct AVFrame;

/* Sends one frame in SOUN messages. *rate and *channels are 0 before the first one and hold for all; returns the samples per channel. */
int64_t ij__video_sound_send(const struct AVFrame *frame, int *rate, int *channels);

#endif
