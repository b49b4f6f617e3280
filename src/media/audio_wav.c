/* audio_wav.c: WAV (RIFF, and RF64 for large files) with integer samples of 8 to 32 bits or floats of 32 or 64, plain or extensible.
 *
 * Our own reader, because WAV is what every build must read and because the sizes in its header are often wrong. What is trusted: the
 * size of each chunk up to `data`. A data chunk that is to reach beyond the end of the file is an error, since a part is missing; but
 * programs that write to a pipe do not know the size beforehand and leave 0 or about 2^31 or 2^32 there: then it ends with the file.
 */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

typedef struct wav {
  const uint8_t *bytes;
  size_t n;
  const char *name;
  uint64_t riff_size, data_size_64; /* the second of a ds64 chunk */
  int tag, channels, bits, width;   /* width: bytes of a sample */
  int64_t rate;
  bool has_format;
  const uint8_t *data;
  size_t n_data;
} wav;

static uint32_t u16(const uint8_t *b) { return (uint32_t)b[0] | (uint32_t)b[1] << 8; }
static uint32_t u32(const uint8_t *b) { return u16(b) | u16(b + 2) << 16; }
static uint64_t u64(const uint8_t *b) { return u32(b) | (uint64_t)u32(b + 4) << 32; }

enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_EXTENSIBLE = 0xfffe };

static const char *tag_name(int tag) {
  switch (tag) {
    case 2: return "Microsoft ADPCM";
    case 6: return "A-law";
    case 7: return "mu-law";
    case 0x11: return "IMA ADPCM";
    case 0x31: return "GSM 6.10";
    case 0x55: return "MP3 in WAV";
    case 0xff: return "AAC in WAV";
    default: return "a coding that is not known here";
  }
}

static ij_status read_format(wav *w, const uint8_t *b, size_t n, ij_err *err) {
  static const uint8_t guid_rest[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};
  if (w->has_format) return ij__fail(err, IJ_E_FORMAT, w->name, "the WAV file has two `fmt ` chunks");
  if (n < 16) return ij__fail(err, IJ_E_FORMAT, w->name, "the `fmt ` chunk has %zu bytes: expected at least 16", n);
  w->tag = (int)u16(b);
  w->channels = (int)u16(b + 2);
  w->rate = (int64_t)u32(b + 4);
  w->bits = (int)u16(b + 14);
  if (w->tag == TAG_EXTENSIBLE) {
    if (n < 40) return ij__fail(err, IJ_E_FORMAT, w->name, "the extensible `fmt ` chunk has %zu bytes: expected at least 40", n);
    if (memcmp(b + 26, guid_rest, sizeof guid_rest) != 0)
      return ij__fail(err, IJ_E_UNSUPPORTED, w->name, "the WAV file has an extensible coding that is not known here: convert it to PCM");
    w->tag = (int)u16(b + 24);
  }
  if (w->tag != TAG_PCM && w->tag != TAG_FLOAT)
    return ij__fail(err, IJ_E_UNSUPPORTED, w->name, "the WAV file holds %s (format tag 0x%04x): PCM and float are read; convert it",
                    tag_name(w->tag), (unsigned)w->tag);
  const bool known = w->tag == TAG_FLOAT ? w->bits == 32 || w->bits == 64 : w->bits >= 1 && w->bits <= 32;
  if (!known)
    return ij__fail(err, IJ_E_UNSUPPORTED, w->name, "the WAV file has %s samples of %d bits: expected %s",
                    w->tag == TAG_FLOAT ? "float" : "integer", w->bits, w->tag == TAG_FLOAT ? "32 or 64" : "1 to 32");
  w->width = (w->bits + 7) / 8; /* samples of other sizes stand in the upper bits of whole bytes */
  if ((int)u16(b + 12) != w->channels * w->width)
    return ij__fail(err, IJ_E_FORMAT, w->name, "the header is contradictory: %d channels of %d bits in frames of %u bytes", w->channels,
                    w->bits, (unsigned)u16(b + 12));
  w->has_format = true;
  return IJ_OK;
}

static bool is_unknown_size(uint64_t size) { return size == 0 || (size >= 0x7fff0000 && size <= 0xffffffff); }

/* The samples at `at`, said to be `size` bytes. */
static ij_status find_data(wav *w, size_t at, uint64_t size, ij_err *err) {
  const size_t rest = w->n - at;
  if (!w->has_format) return ij__fail(err, IJ_E_FORMAT, w->name, "the `data` chunk comes before the `fmt ` chunk, or there is none");
  w->data = w->bytes + at;
  const bool in_ds64 = size == 0xffffffff && w->data_size_64 > 0;
  if (in_ds64) size = w->data_size_64;
  if (size == 0 && rest > 0 && (is_unknown_size(w->riff_size) || w->riff_size + 8 <= at)) size = rest;
  if (size > rest && (in_ds64 || !is_unknown_size(size)))
    return ij__fail(err, IJ_E_FORMAT, w->name, "the file is cut off: its header says %llu bytes of samples, and %zu are there",
                    (unsigned long long)size, rest);
  w->n_data = (size_t)IJ_MIN(size, (uint64_t)rest);
  return IJ_OK;
}

static ij_status read_chunks(wav *w, ij_err *err) {
  w->riff_size = u32(w->bytes + 4);
  for (size_t at = 12; w->n - at >= 8;) {
    const uint8_t *b = w->bytes + at;
    const uint64_t size = u32(b + 4);
    at += 8;
    if (memcmp(b, "data", 4) == 0) return find_data(w, at, size, err);
    if (size > w->n - at)
      return ij__fail(err, IJ_E_FORMAT, w->name, "the file is cut off: a chunk before the samples has %llu bytes, and %zu are there",
                      (unsigned long long)size, w->n - at);
    if (memcmp(b, "ds64", 4) == 0 && size >= 16) w->data_size_64 = u64(b + 16);
    if (memcmp(b, "fmt ", 4) == 0) {
      const ij_status s = read_format(w, b + 8, (size_t)size, err);
      if (s != IJ_OK) return s;
    }
    at += (size_t)size;
    if (size % 2 != 0 && at < w->n) at++; /* chunks begin at even places */
  }
  return ij__fail(err, IJ_E_FORMAT, w->name, "the WAV file has no `data` chunk: it is empty, or cut off");
}

static double read_sample(const uint8_t *b, int tag, int width) {
  if (tag == TAG_FLOAT) {
    if (width == 8) {
      const uint64_t bits = u64(b);
      double x;
      memcpy(&x, &bits, sizeof x);
      return x;
    }
    const uint32_t bits = u32(b);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
  }
  switch (width) {
    case 1: return ((double)b[0] - 128) / 128;
    case 2: return (double)(int16_t)u16(b) / 32768;
    case 3: return (double)(int32_t)(u16(b) << 8 | (uint32_t)b[2] << 24) / 2147483648.0;
    default: return (double)(int32_t)u32(b) / 2147483648.0;
  }
}

static ij_status hear(const wav *w, ij__hearing *h, ij_err *err) {
  const size_t frame = (size_t)w->channels * (size_t)w->width;
  const int64_t n = (int64_t)(w->n_data / frame);
  double *frames = ij__alloc_array((size_t)w->channels * IJ_SOUND_BLOCK, sizeof *frames);
  if (!frames) return ij__fail_nomem(err, "a block of samples", (size_t)w->channels * IJ_SOUND_BLOCK * sizeof *frames);
  const uint8_t *b = w->data;
  ij_status s = IJ_OK;
  for (int64_t at = 0; at < n && s == IJ_OK;) {
    const int64_t now = IJ_MIN(n - at, IJ_SOUND_BLOCK);
    for (int64_t i = 0; i < now * w->channels; i++, b += w->width) frames[i] = read_sample(b, w->tag, w->width);
    s = ij__hearing_push(h, frames, now, err);
    at += now;
  }
  ij__free(frames);
  return s;
}

ij_status ij__sound_wav(ij__sound *out, const uint8_t *bytes, size_t n, const char *name, int64_t max_rows, ij_err *err) {
  wav w = {.bytes = bytes, .n = n, .name = name};
  ij_status s = read_chunks(&w, err);
  if (s != IJ_OK) return s;
  ij__hearing *h = ij__alloc(sizeof *h);
  if (!h) return ij__fail_nomem(err, "a sound", sizeof *h);
  const int64_t n_frames = w.channels > 0 ? (int64_t)(w.n_data / ((size_t)w.channels * (size_t)w.width)) : 0;
  s = ij__hearing_open(h, name, w.rate, w.channels, n_frames, max_rows, err);
  if (s == IJ_OK) s = hear(&w, h, err);
  if (s == IJ_OK) s = ij__hearing_end(h, out, err);
  if (s == IJ_OK) snprintf(out->format, sizeof out->format, "WAV, %d-bit%s", w.bits, w.tag == TAG_FLOAT ? " float" : "");
  ij__hearing_free(h);
  ij__free(h);
  return s;
}
