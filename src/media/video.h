/* video.h: inside a video: what ij_video is made of, and the two halves of reading one: the process of the decoder, and the sense of what
 * it sends. The second is fed with bytes from anywhere, so that it can be tested without the first. */
#ifndef IJ_MEDIA_VIDEO_H
#define IJ_MEDIA_VIDEO_H

#include <sys/types.h>

#include "core/base.h"
#include "inkjet_media.h"
#include "video/protocol.h"

struct ij_video {
  ij_video_info info; /* info.format points to `format` */
  char format[2 * IJ_VIDEO_NAME_BYTES + 48];
  ij_media **blocks;  /* [n_blocks] */
  double *times;
  int n_blocks;
  ij_media *sound;
};

/* A state, and a place for the next bytes: those of a small piece, of a frame, or of samples. When the place is full the bytes are
 * understood and the next place is given. */
typedef struct ij__video_reader {
  const char *name;
  ij_video_options options; /* complete; options.media is &media */
  ij_media_options media;
  ij_video *video;          /* what was read so far */
  int state;
  bool done;                /* DONE was read: nothing may follow, and nothing more is needed */
  uint8_t small[IJ_VIDEO_MAX_FAIL];
  uint8_t *place;
  size_t have, want;
  uint64_t message_bytes;   /* of the message that is being read */
  int n_heads, n_frames;    /* HEADs so far; frames since the last one */
  double time;              /* of the last frame */
  uint8_t *frames[2];       /* the pair that is being read */
  double pixels_kept;       /* in the blocks */
  float *samples;
  size_t n_floats, room;
  int rate, channels;
} ij__video_reader;

/* options: complete and checked. name: for messages. On failure there is nothing to free. */
ij_status ij__video_reader_open(ij__video_reader *r, const ij_video_options *options, const char *name, ij_err *err);
void ij__video_reader_close(ij__video_reader *r);
/* n bytes, at most want - have, were written to place + have. Any failure ends the reading. */
ij_status ij__video_reader_take(ij__video_reader *r, size_t n, ij_err *err);
/* After done: the video, with its sound; the caller owns it. */
ij_status ij__video_reader_finish(ij__video_reader *r, ij_video **out, ij_err *err);

/* A decoder at work. */
typedef struct ij__video_process {
  pid_t pid;
  int fd; /* what it says */
} ij__video_process;

/* A descriptor of the video that only the decoder will get: of a file, or of a file without a name that holds the bytes. */
ij_status ij__video_file(const char *path, const void *bytes, size_t n_bytes, const char *name, int *out, ij_err *err);
/* Starts `program` with args on the descriptor; nothing else of this process is open in it. */
ij_status ij__video_process_start(ij__video_process *p, const char *program, char *const *args, int file, ij_err *err);
/* Reads up to n bytes, waiting until `deadline` (of ij__os_seconds) at most. *got 0: the decoder has ended. */
ij_status ij__video_process_read(ij__video_process *p, void *to, size_t n, double deadline, size_t *got, ij_err *err);
/* Ends it, if it still runs, and waits for it. ended: it closed its side, so that a moment is given to it; says how it ended. */
void ij__video_process_stop(ij__video_process *p, bool ended, char *how, size_t how_size);

#endif
