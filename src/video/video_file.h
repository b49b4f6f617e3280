/* video_file.h: the file on descriptor 0, opened for one pass: its picture track, its sound track, and one decoder. */
#ifndef IJ_VIDEO_VIDEO_FILE_H
#define IJ_VIDEO_VIDEO_FILE_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdbool.h>

typedef enum ij__track { IJ_TRACK_PICTURE, IJ_TRACK_SOUND } ij__track;

typedef struct ij__video_file {
  AVIOContext *io;
  AVFormatContext *format;
  AVStream *tracks[2];       /* by ij__track; a sound track may be missing */
  const char *container;     /* as people call it */
  AVStream *stream;          /* of the track that was opened */
  AVCodecContext *decoder;
  AVPacket *packet;
  AVFrame *frame;
  const uint8_t *flags;      /* of a plan, NULL: every packet is decoded. Damage then ends the frames, it does not fail */
  int64_t n_flags;
  int64_t n_packets;         /* of the track, read so far */
  bool fed, gap;             /* the decoder holds something; packets were left out since */
  bool draining;             /* what the decoder holds is taken out; the packet waits */
  double end;                /* seconds from the start of the file to the end of what was read, of any track */
} ij__video_file;

/* From its first byte, for one track. Fails as a process does here: ij__out_fail. */
void ij__video_file_open(ij__video_file *file, ij__track track, int64_t max_pixels);
void ij__video_file_close(ij__video_file *file);

/* The next packet of the track; false at the end. */
bool ij__video_file_packet(ij__video_file *file);
/* Also the packets of the other tracks are looked at, for `end`. Before the first packet. */
void ij__video_file_watch_all(ij__video_file *file);
/* How long the file claims to be, in seconds; 0: it does not say. */
double ij__video_file_claim(const ij__video_file *file);
/* The next decoded frame, in the order in which frames are shown; false at the end. Set flags and n_flags before the first one. */
bool ij__video_file_frame(ij__video_file *file);

#endif
