/* audio_mp3.c: MP3: first whether the file is one chain of frames, then the one door to libmpg123.
 *
 * A decoder looks for the next frame after a gap and goes on, so that a missing part is never seen in what it gives. Here the heads of
 * all frames are followed first: each must stand where the one before it ends, up to the end of the file. Of the decoders in libmpg123
 * the generic one is taken, whose result does not depend on the processor.
 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

typedef struct mp3_frame {
  int rate, channels;
  int n_samples; /* of each channel */
  size_t size;
} mp3_frame;

typedef struct mp3_chain {
  mp3_frame first;
  int64_t n;       /* frames with sound */
  size_t begin, end;
} mp3_chain;

/* False: this is no frame of layer 3 with a known size. */
static bool read_frame(const uint8_t *b, size_t n, mp3_frame *f) {
  static const int rates[3] = {44100, 48000, 32000};
  static const int kbits[2][15] = {{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
                                   {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};
  if (n < 4 || b[0] != 0xff || (b[1] & 0xe0) != 0xe0) return false;
  const int version = b[1] >> 3 & 3, layer = b[1] >> 1 & 3, kbit = b[2] >> 4, rate = b[2] >> 2 & 3;
  if (version == 1 || layer != 1 || kbit == 0 || kbit == 15 || rate == 3) return false;
  f->rate = rates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2); /* MPEG 1, 2 and 2.5 */
  f->channels = b[3] >> 6 == 3 ? 1 : 2;
  f->n_samples = version == 3 ? 1152 : 576;
  f->size = (size_t)(f->n_samples / 8 * kbits[version != 3][kbit] * 1000 / f->rate + (b[2] >> 1 & 1));
  return true;
}

/* What may stand after the last frame: tags, and zeros. */
static bool is_tail(const uint8_t *b, size_t n) {
  static const char *const tags[] = {"TAG", "APETAGEX", "LYRICSBEGIN", "ID3"};
  size_t zeros = 0;
  while (zeros < n && b[zeros] == 0) zeros++;
  b += zeros;
  n -= zeros;
  for (size_t i = 0; i < IJ_COUNT_OF(tags); i++) {
    if (n >= strlen(tags[i]) && memcmp(b, tags[i], strlen(tags[i])) == 0) return true;
  }
  return n == 0;
}

/* The first frame may be a table of contents instead of sound; then the frames it announces, or -1. */
static int64_t announced(const uint8_t *b, const mp3_frame *f) {
  const size_t at = 4 + (f->n_samples == 1152 ? (f->channels == 1 ? 17u : 32u) : (f->channels == 1 ? 9u : 17u));
  if (at + 12 > f->size || (memcmp(b + at, "Xing", 4) != 0 && memcmp(b + at, "Info", 4) != 0)) return -1;
  b += at + 8;
  const int64_t n = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | (int64_t)b[3];
  return (b[-1] & 1) != 0 ? n : 0; /* 0: a table without the number, or one that was not known yet */
}

static ij_status follow(mp3_chain *c, const uint8_t *bytes, size_t n, size_t at, const char *name, ij_err *err) {
  memset(c, 0, sizeof *c);
  while (at < n && bytes[at] == 0) at++; /* zeros that fill up a tag */
  if (at == n) return ij__fail(err, IJ_E_FORMAT, name, "the MP3 file has no frame of sound");
  if (!read_frame(bytes + at, n - at, &c->first))
    return ij__fail(err, IJ_E_UNSUPPORTED, name, "this MPEG audio does not begin with a frame of layer 3 (MP3) whose size is known");
  c->begin = at;
  mp3_frame f = c->first;
  for (; at < n && read_frame(bytes + at, n - at, &f); at += f.size, c->n++) {
    if (f.rate != c->first.rate || f.channels != c->first.channels)
      return ij__fail(err, IJ_E_UNSUPPORTED, name, "the MP3 file changes from %d Hz, %d channels to %d Hz, %d channels at byte %zu",
                      c->first.rate, c->first.channels, f.rate, f.channels, at);
    if (f.size > n - at)
      return ij__fail(err, IJ_E_FORMAT, name, "the MP3 file is cut off: its frame at byte %zu has %zu bytes, and %zu are there", at, f.size,
                      n - at);
  }
  c->end = at;
  if (at < n && !is_tail(bytes + at, n - at))
    return ij__fail(err, IJ_E_FORMAT, name, "the MP3 file is damaged: no frame begins at byte %zu", at);
  const int64_t said = announced(bytes + c->begin, &c->first);
  if (said >= 0) c->n--; /* the table itself */
  if (said > 0 && said != c->n && said != c->n + 1) /* some count the table, too */
    return ij__fail(err, IJ_E_FORMAT, name, "the MP3 file is cut off or was joined: %lld frames are announced, %lld are there",
                    (long long)said, (long long)c->n);
  return c->n > 0 ? IJ_OK : ij__fail(err, IJ_E_FORMAT, name, "the sound is empty: it has no samples");
}

#ifdef IJ_HAS_MPG123

#include <mpg123.h>

typedef struct mp3_bytes {
  const uint8_t *bytes;
  size_t n, at;
} mp3_bytes;

static ssize_t give_bytes(void *user, void *to, size_t count) {
  mp3_bytes *f = user;
  const size_t n = IJ_MIN(count, f->n - f->at);
  memcpy(to, f->bytes + f->at, n);
  f->at += n;
  return (ssize_t)n;
}

static off_t go_to(void *user, off_t offset, int whence) {
  mp3_bytes *f = user;
  const int64_t base = whence == SEEK_SET ? 0 : (int64_t)(whence == SEEK_CUR ? f->at : f->n);
  if ((int64_t)offset < -base || (int64_t)offset > (int64_t)f->n - base) return -1;
  f->at = (size_t)(base + (int64_t)offset);
  return (off_t)f->at;
}

/* A decoder for these bytes that prints nothing and gives floats; NULL: there is none. */
static mpg123_handle *start(mp3_bytes *file, const mp3_chain *c) {
  const char *const *name = mpg123_supported_decoders();
  while (name && *name && strcmp(*name, "generic") != 0) name++;
  mpg123_handle *d = mpg123_new(name && *name ? "generic" : NULL, NULL);
  if (d && mpg123_param(d, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS, 0) == MPG123_OK &&
      mpg123_format_none(d) == MPG123_OK && mpg123_format(d, c->first.rate, c->first.channels, MPG123_ENC_FLOAT_32) == MPG123_OK &&
      mpg123_replace_reader_handle(d, give_bytes, go_to, NULL) == MPG123_OK && mpg123_open_handle(d, file) == MPG123_OK)
    return d;
  mpg123_delete(d);
  return NULL;
}

static ij_status decode(mpg123_handle *d, const mp3_chain *c, ij__hearing *h, ij_err *err) {
  float block[IJ_SOUND_BLOCK * 2];
  double frames[IJ_SOUND_BLOCK * 2];
  const int channels = c->first.channels;
  for (;;) {
    size_t n_bytes = 0;
    const int said = mpg123_read(d, block, IJ_SOUND_BLOCK * (size_t)channels * sizeof *block, &n_bytes);
    const int64_t n = (int64_t)(n_bytes / sizeof *block) / channels;
    for (int64_t i = 0; i < n * channels; i++) frames[i] = (double)block[i];
    const ij_status s = ij__hearing_push(h, frames, n, err);
    if (s != IJ_OK) return s;
    if (said == MPG123_DONE) break;
    if (said != MPG123_OK && said != MPG123_NEW_FORMAT)
      return ij__fail(err, IJ_E_FORMAT, h->name, "the MP3 file is damaged after %.2f s: %s", (double)h->n_frames / h->rate,
                      mpg123_strerror(d));
  }
  /* What encoders add at both ends is taken off again, at most 4095 samples each. */
  const int64_t expected = c->n * c->first.n_samples, least = expected - 2 * 4095 - 2 * c->first.n_samples;
  if (h->n_frames >= least) return IJ_OK;
  return ij__fail(err, IJ_E_FORMAT, h->name, "the MP3 file is damaged: of about %lld samples only %lld could be decoded",
                  (long long)expected, (long long)h->n_frames);
}

static ij_status hear(ij__sound *out, const uint8_t *bytes, const mp3_chain *c, const char *name, int64_t max_rows, ij_err *err) {
  mp3_bytes file = {bytes + c->begin, c->end - c->begin, 0};
  ij__hearing *h = ij__alloc(sizeof *h);
  if (!h) return ij__fail_nomem(err, "a sound", sizeof *h);
  ij_status s = ij__hearing_open(h, name, c->first.rate, c->first.channels, -1, max_rows, err);
  mpg123_handle *d = s == IJ_OK ? start(&file, c) : NULL;
  if (s == IJ_OK && !d) s = ij__fail(err, IJ_E_UNSUPPORTED, name, "the MP3 decoder cannot be started");
  if (s == IJ_OK) s = decode(d, c, h, err);
  if (s == IJ_OK) s = ij__hearing_end(h, out, err);
  if (s == IJ_OK) snprintf(out->format, sizeof out->format, "MP3");
  mpg123_delete(d);
  ij__hearing_free(h);
  ij__free(h);
  return s;
}

#else

static ij_status hear(ij__sound *out, const uint8_t *bytes, const mp3_chain *c, const char *name, int64_t max_rows, ij_err *err) {
  (void)out, (void)bytes, (void)c, (void)max_rows;
  return ij__fail(err, IJ_E_UNSUPPORTED, name, "this is an MP3 file, and this build of inkjet does not read MP3: it was made without "
                  "libmpg123");
}

#endif

ij_status ij__sound_mp3(ij__sound *out, const uint8_t *bytes, size_t n, size_t n_tag, const char *name, int64_t max_rows, ij_err *err) {
  mp3_chain c;
  const ij_status s = follow(&c, bytes, n, n_tag, name, err);
  return s == IJ_OK ? hear(out, bytes, &c, name, max_rows, err) : s;
}
