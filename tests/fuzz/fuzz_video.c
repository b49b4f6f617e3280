/* fuzz_video.c: any bytes as what the video decoder sends. The first byte chooses options, the others are fed in steps. What is accepted
 * must be the frames that were announced, and nothing may cost memory that the limits do not allow. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "media/video.h"
#include "video/sampling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_PIXELS = 1024, MAX_ROWS = 64 };

static void must(bool promise) {
  if (!promise) abort();
}

static void check_video(const ij_video *v, const ij_video_options *o) {
  ij_video_info info;
  int64_t n_rows = 0;
  double before = 0;
  ij_video_get_info(v, &info);
  must(info.n_frames == ij__video_n_sampled(info.n_frames_total, info.fps, o->fps, o->max_frames));
  must(ij_video_n_blocks(v) == (o->pairs ? (info.n_frames + 1) / 2 : info.n_frames));
  must((int64_t)info.width * info.height <= MAX_PIXELS && info.seconds <= o->max_seconds && strlen(info.format) > 0);
  for (int i = 0; i < ij_video_n_blocks(v); i++) {
    double seconds;
    ij_media_info block;
    ij_media_get_info(ij_video_block(v, i, &seconds), &block);
    must(block.kind == IJ_MEDIA_IMAGE && block.pair == o->pairs && block.width == info.width && seconds >= before);
    n_rows += block.n_rows;
    before = seconds;
  }
  must((ij_video_sound(v) != NULL) == (o->sound && info.has_sound));
  if (ij_video_sound(v)) {
    ij_media_info sound;
    ij_media_get_info(ij_video_sound(v), &sound);
    must(sound.kind == IJ_MEDIA_AUDIO && sound.n_rows <= MAX_ROWS);
    n_rows += sound.n_rows;
  }
  must(n_rows == info.n_rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const double rates[] = {0.1, 2, 10, 1e6};
  ij_media_options media = ij_media_options_default();
  ij_video_options o = ij_video_options_default();
  ij__video_reader r;
  ij_err err = {0};
  ij_video *video = NULL;
  if (size == 0) return 0;
  const int64_t blocks = ij__alloc_blocks();
  const size_t bytes = ij__alloc_bytes();
  const uint8_t choice = *data++;
  size--;
  media.max_pixels = MAX_PIXELS;
  media.max_rows = MAX_ROWS;
  o.media = &media;
  o.pairs = choice & 1;
  o.sound = choice & 2;
  o.fps = rates[choice >> 2 & 3];
  o.max_frames = 1 + (choice >> 4);
  const size_t step = choice & 1 ? 7 : 4096;
  ij_status s = ij__video_reader_open(&r, &o, "input", &err);
  must(s == IJ_OK);
  while (s == IJ_OK && !r.done && size) {
    must(r.want > r.have);
    size_t n = IJ_MIN(IJ_MIN(r.want - r.have, step), size);
    memcpy(r.place + r.have, data, n);
    data += n;
    size -= n;
    s = ij__video_reader_take(&r, n, &err);
    must(ij__alloc_bytes() - bytes < ((size_t)8 << 20));
  }
  must(s == IJ_OK || (s < 0 && err.message[0] && err.where[0]));
  if (s == IJ_OK && r.done) {
    s = ij__video_reader_finish(&r, &video, &err);
    must(s == IJ_OK || (s < 0 && err.message[0]));
    if (s == IJ_OK) check_video(video, &o);
  }
  ij__video_reader_close(&r);
  ij_video_close(&video);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
