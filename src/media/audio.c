/* audio.c: the way of a sound: what kind of file it is, and blocks of frames through the resampler to bins, within max_rows.
 *
 * Readers push frames and know nothing of rates and rows; everything here holds one block, a few windows and the bins so far.
 */
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

/* ---------------------------------------------------------------------------------------------- frames to bins */

void ij__hearing_free(ij__hearing *h) {
  ij__resampler_free(&h->resampler);
  ij__free(h->mel);
  ij__free(h->bins);
  memset(h, 0, sizeof *h);
}

static ij_status too_long(const ij__hearing *h, int64_t n_rows, ij_err *err) {
  return ij__fail(err, IJ_E_RANGE, h->name, "the sound is %.1f s long, %lld rows, and max_rows allows %lld: take a part of it, or raise "
                  "max_rows", (double)n_rows / 20, (long long)n_rows, (long long)h->max_rows);
}

ij_status ij__hearing_open(ij__hearing *h, const char *name, int64_t rate, int64_t channels, int64_t n_frames, int64_t max_rows,
                           ij_err *err) {
  memset(h, 0, sizeof *h);
  h->name = name;
  h->max_rows = max_rows;
  if (rate < IJ_SOUND_MIN_RATE || rate > IJ_SOUND_MAX_RATE)
    return ij__fail(err, IJ_E_FORMAT, name, "the sound has %lld samples per second: expected %d to %d", (long long)rate, IJ_SOUND_MIN_RATE,
                    IJ_SOUND_MAX_RATE);
  if (channels < 1 || channels > IJ_SOUND_MAX_CHANNELS)
    return ij__fail(err, IJ_E_FORMAT, name, "the sound has %lld channels: expected 1 to %d", (long long)channels, IJ_SOUND_MAX_CHANNELS);
  h->rate = (int)rate;
  h->channels = (int)channels;
  if (n_frames > 0) {
    const int64_t n_rows = ij__div_up(ij__resampled_length(IJ_MIN(n_frames, (int64_t)1 << 46), h->rate), IJ_MEL_HOP);
    if (n_rows > max_rows) return too_long(h, n_rows, err);
  }
  ij_status s = ij__resampler_open(&h->resampler, h->rate, err);
  if (s == IJ_OK) s = ij__mel_open(&h->mel, err);
  if (s != IJ_OK) ij__hearing_free(h);
  return s;
}

static ij_status add_row(ij__hearing *h, const uint8_t *bins, ij_err *err) {
  if (h->n_rows == h->max_rows)
    return ij__fail(err, IJ_E_RANGE, h->name, "the sound is longer than %.1f s, and max_rows allows %lld rows of 50 ms: take a part of "
                    "it, or raise max_rows", (double)h->n_rows / 20, (long long)h->max_rows);
  if (h->n_rows == h->cap) {
    const int64_t cap = h->cap ? h->cap * 2 : 64;
    uint8_t *more = ij__realloc(h->bins, (size_t)cap * IJ_MEL_BINS);
    if (!more) return ij__fail_nomem(err, "the bins of a sound", (size_t)cap * IJ_MEL_BINS);
    h->bins = more;
    h->cap = cap;
  }
  memcpy(h->bins + h->n_rows++ * IJ_MEL_BINS, bins, IJ_MEL_BINS);
  return IJ_OK;
}

/* All that the resampler can give now. */
static ij_status drain(ij__hearing *h, ij_err *err) {
  uint8_t bins[IJ_MEL_BINS];
  for (int64_t n; (n = ij__resampler_pull(&h->resampler, h->out, IJ_SOUND_BLOCK)) > 0;) {
    h->n_samples += n;
    for (int64_t at = 0; at < n;) {
      bool row = false;
      at += ij__mel_push(h->mel, h->out + at, n - at, bins, &row);
      const ij_status s = row ? add_row(h, bins, err) : IJ_OK;
      if (s != IJ_OK) return s;
    }
  }
  return IJ_OK;
}

/* The reference loaders read samples as float32, where what is beyond its range would be infinite. */
static ij_status not_a_sample(const ij__hearing *h, int64_t frame, int channel, double value, ij_err *err) {
  const int64_t at = h->n_frames + frame;
  return ij__fail(err, IJ_E_FORMAT, h->name, "sample %lld (at %.3f s) of channel %d is %s: samples must be finite numbers of 32-bit "
                  "range", (long long)at, (double)at / h->rate, channel + 1,
                  isnan(value) ? "not a number" : isinf(value) ? "infinite" : "too large");
}

ij_status ij__hearing_push(ij__hearing *h, const double *frames, int64_t n, ij_err *err) {
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int c = 0; c < h->channels; c++) {
      const double x = *frames++;
      if (!(fabs(x) <= 3.4028234663852886e38)) return not_a_sample(h, i, c, x, err);
      sum += x;
    }
    h->mono[i] = sum / h->channels;
  }
  h->n_frames += n;
  ij__resampler_push(&h->resampler, h->mono, n);
  return drain(h, err);
}

ij_status ij__hearing_end(ij__hearing *h, ij__sound *out, ij_err *err) {
  if (h->n_frames == 0) return ij__fail(err, IJ_E_FORMAT, h->name, "the sound is empty: it has no samples");
  uint8_t bins[IJ_MEL_BINS];
  ij__resampler_end(&h->resampler);
  ij_status s = drain(h, err);
  if (s == IJ_OK && ij__mel_end(h->mel, bins)) s = add_row(h, bins, err);
  if (s != IJ_OK) return s;
  out->bins = h->bins;
  out->n_rows = h->n_rows;
  out->n_samples = h->n_samples;
  out->rate = h->rate;
  out->channels = h->channels;
  out->seconds = (double)h->n_frames / h->rate;
  h->bins = NULL;
  return IJ_OK;
}

ij_status ij__sound_from_samples(ij__sound *out, const float *samples, int64_t n, int channels, int rate, const ij_media_options *options,
                                 ij_err *err) {
  static const char name[] = "samples";
  memset(out, 0, sizeof *out);
  if (n <= 0) return ij__fail(err, IJ_E_FORMAT, name, "the sound is empty: it has no samples");
  ij__hearing *h = ij__alloc(sizeof *h);
  double *frames = NULL;
  if (!h) return ij__fail_nomem(err, "a sound", sizeof *h);
  ij_status s = ij__hearing_open(h, name, rate, channels, n, options->max_rows, err);
  if (s == IJ_OK && !(frames = ij__alloc_array((size_t)channels * IJ_SOUND_BLOCK, sizeof *frames))) {
    s = ij__fail_nomem(err, "a block of samples", (size_t)channels * IJ_SOUND_BLOCK * sizeof *frames);
  }
  for (int64_t at = 0; at < n && s == IJ_OK;) {
    const int64_t now = IJ_MIN(n - at, IJ_SOUND_BLOCK);
    for (int64_t i = 0; i < now * channels; i++) frames[i] = (double)samples[at * channels + i];
    s = ij__hearing_push(h, frames, now, err);
    at += now;
  }
  if (s == IJ_OK) s = ij__hearing_end(h, out, err);
  ij__free(frames);
  ij__hearing_free(h);
  ij__free(h);
  return s;
}

/* ----------------------------------------------------------------------------------------------- kinds of file */

typedef struct sound_kind {
  int at;
  const char *magic;
  int at2;
  const char *magic2;
  const char *name;
} sound_kind;

static const sound_kind unread_kinds[] = {
  {0, "RIFX", 8, "WAVE", "big-endian WAV (RIFX)"},
  {0, "FORM", 8, "AIF", "AIFF"},
  {4, "ftyp", 4, "ftyp", "MP4 or M4A"},
  {0, "caff", 0, "caff", "Core Audio (CAF)"},
  {0, ".snd", 0, ".snd", "Sun audio (AU)"},
  {0, "\x1a\x45\xdf\xa3", 0, "\x1a\x45\xdf\xa3", "Matroska or WebM"},
  {0, "MThd", 0, "MThd", "MIDI"},
  {0, "#!AMR", 0, "#!AMR", "AMR"},
  {0, "\xff\xf1", 0, "\xff\xf1", "AAC (ADTS)"},
  {0, "\xff\xf9", 0, "\xff\xf9", "AAC (ADTS)"},
};

static bool has(const uint8_t *b, size_t n, size_t at, const char *magic) {
  const size_t len = strlen(magic);
  return at <= n && len <= n - at && memcmp(b + at, magic, len) == 0;
}

/* Bytes of the ID3v2 tag that the file begins with; 0: none. */
static size_t tag_size(const uint8_t *b, size_t n) {
  if (n < 10 || memcmp(b, "ID3", 3) != 0 || ((b[6] | b[7] | b[8] | b[9]) & 0x80)) return 0;
  const size_t footer = b[5] & 0x10 ? 10 : 0;
  return 10 + ((size_t)b[6] << 21 | (size_t)b[7] << 14 | (size_t)b[8] << 7 | (size_t)b[9]) + footer;
}

/* The head of a frame of MPEG audio, layer 1 to 3: no field has a value that is not used. */
static bool is_mpeg_frame(const uint8_t *b, size_t n) {
  return n >= 4 && b[0] == 0xff && (b[1] & 0xe0) == 0xe0 && (b[1] & 0x18) != 0x08 && (b[1] & 0x06) != 0 && (b[2] & 0xf0) != 0xf0 &&
         (b[2] & 0x0c) != 0x0c;
}

static const sound_kind *unread_kind(const uint8_t *b, size_t n) {
  for (size_t i = 0; i < IJ_COUNT_OF(unread_kinds); i++) {
    const sound_kind *k = &unread_kinds[i];
    if (has(b, n, (size_t)k->at, k->magic) && has(b, n, (size_t)k->at2, k->magic2)) return k;
  }
  return NULL;
}

typedef enum sound_form { FORM_NONE, FORM_WAV, FORM_FLAC, FORM_OGG, FORM_MP3 } sound_form;

static sound_form form_of(const uint8_t *b, size_t n) {
  const size_t skip = IJ_MIN(tag_size(b, n), n);
  if ((has(b, n, 0, "RIFF") || has(b, n, 0, "RF64") || has(b, n, 0, "BW64")) && has(b, n, 8, "WAVE")) return FORM_WAV;
  if (has(b, n, skip, "fLaC")) return FORM_FLAC;
  if (has(b, n, 0, "OggS")) return FORM_OGG;
  return skip > 0 || is_mpeg_frame(b, n) ? FORM_MP3 : FORM_NONE;
}

bool ij__sound_is_known(const void *bytes, size_t n) { return form_of(bytes, n) != FORM_NONE || unread_kind(bytes, n) != NULL; }

ij_status ij__sound_open(ij__sound *out, const void *bytes, size_t n, const char *name, const ij_media_options *options, ij_err *err) {
  const uint8_t *b = bytes;
  const int64_t max_rows = options->max_rows;
  memset(out, 0, sizeof *out);
  if (n == 0) return ij__fail(err, IJ_E_FORMAT, name, "the file is empty");
  switch (form_of(b, n)) {
    case FORM_WAV: return ij__sound_wav(out, b, n, name, max_rows, err);
    case FORM_FLAC: return ij__sound_coded(out, b, n, "FLAC", name, max_rows, err);
    case FORM_OGG: return ij__sound_coded(out, b, n, "Ogg", name, max_rows, err);
    case FORM_MP3: return ij__sound_mp3(out, b, n, IJ_MIN(tag_size(b, n), n), name, max_rows, err);
    case FORM_NONE: break;
  }
  const sound_kind *k = unread_kind(b, n);
  if (k) return ij__fail(err, IJ_E_UNSUPPORTED, name, "this is %s: WAV, FLAC, MP3 and Ogg (Vorbis, Opus) are read", k->name);
  return ij__fail(err, IJ_E_UNSUPPORTED, name, "this is no kind of sound that is known: WAV, FLAC, MP3 and Ogg (Vorbis, Opus) are read");
}
