/* sampling.h: which frames of a video are looked at. The rule is here once: the decoder goes by it, the library holds it to it. */
#ifndef IJ_VIDEO_SAMPLING_H
#define IJ_VIDEO_SAMPLING_H

#include <stdint.h>

/* The largest number of frames of a file, sampled frames, and frames per second that are spoken of at all. */
#define IJ_VIDEO_MAX_TOTAL ((int64_t)1 << 24)
#define IJ_VIDEO_MAX_SAMPLED 4096
#define IJ_VIDEO_MAX_FPS 1e6

/* How many of `total` frames: fps for each second of the video, not more than max_frames, never none. A rate above the video's own means
 * all frames, which is said apart because total / average * average may fall below total in binary64. */
static inline int64_t ij__video_n_sampled(int64_t total, double average, double fps, int64_t max_frames) {
  double seconds = (double)total / average, wanted = fps < average ? seconds * fps : (double)total;
  int64_t n = wanted < (double)total ? (int64_t)wanted : total;
  if (n > max_frames) n = max_frames;
  return n < 1 ? 1 : n;
}

/* The i-th of n: n equally spaced values from 0 to total - 1, rounded down. n = total: every frame. */
static inline int64_t ij__video_sample(int64_t total, int64_t n, int64_t i) { return n < 2 ? 0 : i * (total - 1) / (n - 1); }

#endif
