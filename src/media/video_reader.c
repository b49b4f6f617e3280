/* video_reader.c: what the decoder sends, understood. The decoder takes hostile files apart and may have fallen to one, so its bytes are
 * trusted no more than the file: every length is checked against what was announced before memory is taken for it, and the frames must be
 * those that the sampling rule names. What breaks the protocol is an error of the decoder, IJ_E_IO; what it reports is passed on. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"
#include "media/video.h"
#include "video/sampling.h"

enum { AT_MAGIC, AT_MESSAGE, AT_HEAD, AT_FRAME, AT_PIXELS, AT_SOUND, AT_SAMPLES, AT_DONE, AT_FAIL };
enum { MAX_SOUND_BYTES = 1 << 30, MAX_SIDE = 1 << 24 };

static ij_status broken(const ij__video_reader *r, ij_err *err, const char *what) {
  return ij__fail(err, IJ_E_IO, r->name, "the video decoder does not keep to its protocol: %s", what);
}

static void expect(ij__video_reader *r, int state, void *place, size_t n) {
  r->state = state;
  r->place = place;
  r->have = 0;
  r->want = n;
}

static void expect_message(ij__video_reader *r) { expect(r, AT_MESSAGE, r->small, IJ_VIDEO_MESSAGE_BYTES); }

/* A medium of the video was refused: the place of the error is the video, and what was its place goes into the message. */
static ij_status within(const ij__video_reader *r, ij_status s, ij_err *err) {
  ij_err inner = {0};
  if (err) inner = *err;
  return ij__fail(err, s, r->name, "%s%s%s", inner.where, inner.where[0] ? ": " : "", inner.message);
}

/* Everything that came after a HEAD, and what it announced. */
static void forget(ij__video_reader *r) {
  ij_video *v = r->video;
  for (int i = 0; i < v->n_blocks; i++) ij_media_close(&v->blocks[i]);
  ij__free(v->blocks);
  ij__free(v->times);
  *v = (ij_video){0};
  for (int i = 0; i < 2; i++) {
    ij__free(r->frames[i]);
    r->frames[i] = NULL;
  }
  r->n_frames = 0;
  r->time = r->pixels_kept = 0;
}

ij_status ij__video_reader_open(ij__video_reader *r, const ij_video_options *options, const char *name, ij_err *err) {
  *r = (ij__video_reader){.name = name, .options = *options, .media = options->media ? *options->media : ij_media_options_default()};
  r->options.media = &r->media;
  r->video = ij__alloc_zero(1, sizeof *r->video);
  if (!r->video) return ij__fail_nomem(err, "a video", sizeof *r->video);
  expect(r, AT_MAGIC, r->small, strlen(IJ_VIDEO_MAGIC));
  return IJ_OK;
}

void ij__video_reader_close(ij__video_reader *r) {
  if (r->video) forget(r);
  ij__free(r->video);
  ij__free(r->samples);
  *r = (ij__video_reader){0};
}

/* A name between NULs, printable, into `to`; false when it is none. */
static bool take_name(const uint8_t *from, char *to) {
  size_t n = 0;
  while (n < IJ_VIDEO_NAME_BYTES && from[n]) n++;
  if (n == 0 || n == IJ_VIDEO_NAME_BYTES) return false;
  for (size_t i = 0; i <= n; i++) {
    if (i < n && (from[i] < 0x20 || from[i] > 0x7e)) return false;
    to[i] = (char)from[i];
  }
  return true;
}

static ij_status check_head(const ij__video_reader *r, const ij_video_info *info, uint64_t total, uint32_t n_frames, ij_err *err) {
  const ij_video_options *o = &r->options;
  if (info->width < 1 || info->height < 1) return broken(r, err, "a side of the picture");
  if (!(info->fps > 0) || info->fps > IJ_VIDEO_MAX_FPS) return broken(r, err, "the frames per second");
  if (total < 1 || total > (uint64_t)IJ_VIDEO_MAX_TOTAL) return broken(r, err, "the number of frames");
  if ((int64_t)n_frames != ij__video_n_sampled((int64_t)total, info->fps, o->fps, o->max_frames))
    return broken(r, err, "the number of sampled frames");
  int64_t pixels = (int64_t)info->width * info->height;
  if (pixels > r->media.max_pixels)
    return ij__fail(err, IJ_E_RANGE, r->name, "a frame has %d x %d = %lld pixels, more than the limit of %lld", info->width, info->height,
                    (long long)pixels, (long long)r->media.max_pixels);
  if (info->seconds > o->max_seconds)
    return ij__fail(err, IJ_E_RANGE, r->name, "the video is %.1f s long, more than the limit of %.1f s", info->seconds, o->max_seconds);
  return IJ_OK;
}

static ij_status take_head(ij__video_reader *r, ij_err *err) {
  const uint8_t *b = r->small;
  char container[IJ_VIDEO_NAME_BYTES], codec[IJ_VIDEO_NAME_BYTES];
  if (++r->n_heads > IJ_VIDEO_MAX_HEADS || r->n_floats > 0) return broken(r, err, "a header where none may be");
  forget(r);
  ij_video *v = r->video;
  const uint64_t total = ij__video_get64(b + 16);
  const uint32_t width = ij__video_get32(b), height = ij__video_get32(b + 4), n_frames = ij__video_get32(b + 24);
  const uint32_t has_sound = ij__video_get32(b + 28), across = ij__video_get32(b + 32), down = ij__video_get32(b + 36);
  if (width > MAX_SIDE || height > MAX_SIDE) return broken(r, err, "a side of the picture");
  if (has_sound > 1 || across < 1 || down < 1 || !take_name(b + 40, container) || !take_name(b + 40 + IJ_VIDEO_NAME_BYTES, codec))
    return broken(r, err, "a field of the header");
  v->info = (ij_video_info){.width = (int)width, .height = (int)height, .fps = ij__video_get_real(b + 8), .has_sound = has_sound == 1};
  v->info.seconds = (double)total / v->info.fps;
  ij_status s = check_head(r, &v->info, total, n_frames, err);
  if (s != IJ_OK) return s;
  v->info.n_frames_total = (int)total;
  v->info.n_frames = (int)n_frames;
  if (across == down) snprintf(v->format, sizeof v->format, "%s, %s", container, codec);
  else snprintf(v->format, sizeof v->format, "%s, %s, pixels of %u:%u shown square", container, codec, across, down);
  const size_t n = (size_t)width * height * 3;
  v->blocks = ij__alloc_zero(n_frames, sizeof *v->blocks);
  v->times = ij__alloc_zero(n_frames, sizeof *v->times);
  for (int i = 0; i < (r->options.pairs ? 2 : 1); i++)
    if (!(r->frames[i] = ij__alloc(n))) return ij__fail_nomem(err, "a frame of a video", n);
  if (!v->blocks || !v->times) return ij__fail_nomem(err, "the blocks of a video", n_frames * sizeof *v->blocks);
  expect_message(r);
  return IJ_OK;
}

/* The frames that were read, as the next block. second may be the first. */
static ij_status add_block(ij__video_reader *r, const uint8_t *second, ij_err *err) {
  ij_video *v = r->video;
  ij_media_info info;
  ij_status s = ij_media_from_pixels(&v->blocks[v->n_blocks], r->frames[0], second, v->info.width, v->info.height, &r->media, err);
  if (s != IJ_OK) return within(r, s, err);
  ij_media_get_info(v->blocks[v->n_blocks], &info);
  v->n_blocks++;
  v->info.n_rows += info.n_rows;
  r->pixels_kept += (double)info.used_width * info.used_height * (second ? 2 : 1);
  if (r->pixels_kept > 4.0 * (double)r->media.max_pixels)
    return ij__fail(err, IJ_E_RANGE, r->name, "%d frames of %d x %d have more pixels than the limit of %lld for all frames together: "
                    "take fewer frames or smaller ones",
                    r->n_frames, info.used_width, info.used_height, 4 * (long long)r->media.max_pixels);
  return IJ_OK;
}

static ij_status take_frame(ij__video_reader *r, ij_err *err) {
  const ij_video_info *info = &r->video->info;
  const double time = ij__video_get_real(r->small + 8);
  if (ij__video_get64(r->small) != (uint64_t)ij__video_sample(info->n_frames_total, info->n_frames, r->n_frames))
    return broken(r, err, "a frame that was not to be sampled");
  if (!(time >= r->time) || time > 1e9) return broken(r, err, "the time of a frame");
  r->time = time;
  const int slot = r->options.pairs ? r->n_frames % 2 : 0;
  if (slot == 0) r->video->times[r->video->n_blocks] = time;
  expect(r, AT_PIXELS, r->frames[slot], (size_t)info->width * (size_t)info->height * 3);
  return IJ_OK;
}

static ij_status take_pixels(ij__video_reader *r, ij_err *err) {
  r->n_frames++;
  expect_message(r);
  if (!r->options.pairs) return add_block(r, NULL, err);
  if (r->n_frames % 2 == 0) return add_block(r, r->frames[1], err);
  return r->n_frames == r->video->info.n_frames ? add_block(r, r->frames[0], err) : IJ_OK; /* the odd last one, with itself */
}

/* A place for n more floats. */
static ij_status grow_samples(ij__video_reader *r, size_t n, ij_err *err) {
  const double seconds = (double)(r->n_floats / (size_t)r->channels) / r->rate;
  if (seconds * 20 > (double)r->media.max_rows)
    return ij__fail(err, IJ_E_RANGE, r->name, "the sound is longer than %.1f s, which are %lld rows, more than the limit of %lld", seconds,
                    (long long)ceil(seconds * 20), (long long)r->media.max_rows);
  if (r->n_floats + n > MAX_SOUND_BYTES / sizeof(float))
    return ij__fail(err, IJ_E_RANGE, r->name, "the sound has more than %d samples in %d channels, which are more than %d MiB",
                    (int)(r->n_floats / (size_t)r->channels), r->channels, MAX_SOUND_BYTES >> 20);
  if (r->n_floats + n <= r->room) return IJ_OK;
  const size_t room = IJ_MAX(2 * r->room, r->n_floats + n);
  float *more = ij__realloc(r->samples, room * sizeof *more);
  if (!more) return ij__fail_nomem(err, "the sound of a video", room * sizeof *more);
  r->samples = more;
  r->room = room;
  return IJ_OK;
}

static ij_status take_sound(ij__video_reader *r, ij_err *err) {
  const uint32_t rate = ij__video_get32(r->small), channels = ij__video_get32(r->small + 4);
  const size_t n_bytes = (size_t)r->message_bytes - IJ_VIDEO_SOUND_BYTES, n = n_bytes / sizeof(float);
  if (rate < 1 || rate > IJ_VIDEO_MAX_RATE || channels < 1 || channels > IJ_VIDEO_MAX_CHANNELS)
    return broken(r, err, "the kind of the sound");
  const bool another = r->rate != (int)rate || r->channels != (int)channels;
  if (r->n_floats && another) return broken(r, err, "the sound changes");
  if (n_bytes % sizeof(float) || n % channels) return broken(r, err, "a part of a sample");
  r->rate = (int)rate;
  r->channels = (int)channels;
  ij_status s = grow_samples(r, n, err);
  if (s == IJ_OK) expect(r, AT_SAMPLES, (uint8_t *)(r->samples + r->n_floats), n_bytes);
  return s;
}

static ij_status take_samples(ij__video_reader *r) {
  const size_t n = r->want / sizeof(float);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = ij__video_get32(r->place + i * sizeof(float));
    memcpy(&r->samples[r->n_floats + i], &bits, sizeof bits);
  }
  r->n_floats += n;
  expect_message(r);
  return IJ_OK;
}

static ij_status take_done(ij__video_reader *r, ij_err *err) {
  const ij_video_info *info = &r->video->info;
  const uint64_t n_samples = r->channels ? r->n_floats / (size_t)r->channels : 0;
  if (r->n_frames != info->n_frames || ij__video_get64(r->small) != (uint64_t)r->n_frames) return broken(r, err, "frames are missing");
  if (ij__video_get64(r->small + 8) != n_samples || (n_samples == 0) != !(r->options.sound && info->has_sound))
    return broken(r, err, "sound is missing");
  r->done = true;
  expect(r, AT_DONE, NULL, 0);
  return IJ_OK;
}

static ij_status take_fail(ij__video_reader *r, ij_err *err) {
  const uint32_t number = ij__video_get32(r->small);
  const ij_status code = number < 100 ? (ij_status)-(int)number : IJ_OK;
  char text[IJ_VIDEO_MAX_FAIL + 1];
  size_t n = r->want - 4;
  if (code != IJ_E_FORMAT && code != IJ_E_UNSUPPORTED && code != IJ_E_RANGE && code != IJ_E_NOMEM && code != IJ_E_IO)
    return broken(r, err, "an error without a meaning");
  for (size_t i = 0; i < n; i++) text[i] = (char)(r->small[4 + i] < 0x20 || r->small[4 + i] > 0x7e ? '?' : r->small[4 + i]);
  text[n] = 0;
  return ij__fail(err, code, r->name, "%s", n ? text : "the video decoder failed and gave no reason");
}

/* Which message may come here, and how long it may be. */
static ij_status take_message(ij__video_reader *r, ij_err *err) {
  const uint32_t type = ij__video_get32(r->small);
  const uint64_t n = r->message_bytes = ij__video_get64(r->small + 4);
  const ij_video_info *info = &r->video->info;
  const bool open = r->n_heads > 0, all = open && r->n_frames == info->n_frames;
  if (type == IJ_VIDEO_FAIL && n >= 4 && n <= IJ_VIDEO_MAX_FAIL) expect(r, AT_FAIL, r->small, (size_t)n);
  else if (type == IJ_VIDEO_HEAD && n == IJ_VIDEO_HEAD_BYTES) expect(r, AT_HEAD, r->small, (size_t)n);
  else if (type == IJ_VIDEO_FRAM && open && !all && n == IJ_VIDEO_FRAME_BYTES + (uint64_t)info->width * (uint64_t)info->height * 3)
    expect(r, AT_FRAME, r->small, IJ_VIDEO_FRAME_BYTES);
  else if (type == IJ_VIDEO_SOUN && all && r->options.sound && info->has_sound && n > IJ_VIDEO_SOUND_BYTES &&
           n <= IJ_VIDEO_SOUND_BYTES + IJ_VIDEO_MAX_SOUND)
    expect(r, AT_SOUND, r->small, IJ_VIDEO_SOUND_BYTES);
  else if (type == IJ_VIDEO_DONE && all && n == IJ_VIDEO_DONE_BYTES) expect(r, AT_DONE, r->small, (size_t)n);
  else return broken(r, err, "a message that may not be here, or not of this length");
  return IJ_OK;
}

ij_status ij__video_reader_take(ij__video_reader *r, size_t n, ij_err *err) {
  r->have += n;
  if (r->have < r->want) return IJ_OK;
  switch (r->state) {
    case AT_MAGIC:
      if (memcmp(r->small, IJ_VIDEO_MAGIC, r->want) != 0) return broken(r, err, "it is of another version, or another program");
      expect_message(r);
      return IJ_OK;
    case AT_MESSAGE: return take_message(r, err);
    case AT_HEAD: return take_head(r, err);
    case AT_FRAME: return take_frame(r, err);
    case AT_PIXELS: return take_pixels(r, err);
    case AT_SOUND: return take_sound(r, err);
    case AT_SAMPLES: return take_samples(r);
    case AT_DONE: return take_done(r, err);
    default: return take_fail(r, err);
  }
}

ij_status ij__video_reader_finish(ij__video_reader *r, ij_video **out, ij_err *err) {
  ij_video *v = r->video;
  if (r->n_floats) {
    ij_media_info info;
    const int64_t n = (int64_t)(r->n_floats / (size_t)r->channels);
    ij_status s = ij_media_from_samples(&v->sound, r->samples, n, r->channels, r->rate, &r->media, err);
    if (s != IJ_OK) return within(r, s, err);
    ij_media_get_info(v->sound, &info);
    v->info.n_rows += info.n_rows;
  }
  v->info.format = v->format;
  *out = v;
  for (int i = 0; i < 2; i++) {
    ij__free(r->frames[i]);
    r->frames[i] = NULL;
  }
  r->video = NULL;
  return IJ_OK;
}
