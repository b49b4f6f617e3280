/* audio_file.c: the one door to libsndfile: FLAC and Ogg (Vorbis, Opus) from memory, read in blocks as doubles.
 *
 * A decoder that ends before the number of frames in the header is an error, never a shorter sound. libsndfile passes over damaged Ogg
 * pages and later streams of a file without a word, so the pages are checked first, all of them and in every build.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

#ifdef IJ_HAS_SNDFILE

#include <sndfile.h>

typedef struct memory_file {
  const uint8_t *bytes;
  sf_count_t n, at;
} memory_file;

static sf_count_t memory_size(void *user) { return ((memory_file *)user)->n; }

static sf_count_t memory_seek(sf_count_t offset, int whence, void *user) {
  memory_file *f = user;
  const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f->at : f->n;
  if (offset < -base || offset > f->n - base) return -1;
  f->at = base + offset;
  return f->at;
}

static sf_count_t memory_read(void *to, sf_count_t count, void *user) {
  memory_file *f = user;
  const sf_count_t n = IJ_MAX(0, IJ_MIN(count, f->n - f->at));
  memcpy(to, f->bytes + f->at, (size_t)n);
  f->at += n;
  return n;
}

static sf_count_t memory_write(const void *from, sf_count_t count, void *user) { (void)from, (void)count, (void)user; return 0; }
static sf_count_t memory_tell(void *user) { return ((memory_file *)user)->at; }

/* False: a coding that is not promised, and so not read. */
static bool describe(char *out, size_t size, int format) {
  const int coding = format & SF_FORMAT_SUBMASK;
  switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_FLAC:
      snprintf(out, size, "FLAC, %d-bit",
               coding == SF_FORMAT_PCM_S8 ? 8 : coding == SF_FORMAT_PCM_16 ? 16 : coding == SF_FORMAT_PCM_24 ? 24 : 32);
      return true;
    case SF_FORMAT_OGG:
      if (coding != SF_FORMAT_VORBIS && coding != SF_FORMAT_OPUS) return false;
      snprintf(out, size, "Ogg %s", coding == SF_FORMAT_OPUS ? "Opus" : "Vorbis");
      return true;
    default: return false;
  }
}

/* Until the decoder gives nothing more: the numbers of frames in headers are not trusted, but must be reached. A program that writes to a
 * pipe does not know the number and leaves 0, for which libsndfile says SF_COUNT_MAX. */
static ij_status decode(SNDFILE *sound, const SF_INFO *info, ij__hearing *h, const char *format, ij_err *err) {
  double *frames = ij__alloc_array((size_t)info->channels * IJ_SOUND_BLOCK, sizeof *frames);
  if (!frames) return ij__fail_nomem(err, "a block of samples", (size_t)info->channels * IJ_SOUND_BLOCK * sizeof *frames);
  ij_status s = IJ_OK;
  for (sf_count_t n; s == IJ_OK && (n = sf_readf_double(sound, frames, IJ_SOUND_BLOCK)) > 0;) s = ij__hearing_push(h, frames, n, err);
  ij__free(frames);
  if (s != IJ_OK) return s;
  if (sf_error(sound) != SF_ERR_NO_ERROR)
    return ij__fail(err, IJ_E_FORMAT, h->name, "the %s file is damaged after %.2f s: %s", format, (double)h->n_frames / h->rate,
                    sf_strerror(sound));
  if (info->frames < SF_COUNT_MAX && h->n_frames < info->frames)
    return ij__fail(err, IJ_E_FORMAT, h->name, "the %s file is damaged or cut off: %lld samples are announced, %lld could be decoded",
                    format, (long long)info->frames, (long long)h->n_frames);
  return IJ_OK;
}

ij_status ij__sound_coded(ij__sound *out, const uint8_t *bytes, size_t n, const char *kind, const char *name, int64_t max_rows,
                          ij_err *err) {
  SF_VIRTUAL_IO io = {memory_size, memory_seek, memory_read, memory_write, memory_tell};
  if (n > LONG_MAX) return ij__fail(err, IJ_E_RANGE, name, "the file has %zu bytes", n);
  ij_status s = strcmp(kind, "Ogg") == 0 ? ij__ogg_check(bytes, n, name, err) : IJ_OK;
  if (s != IJ_OK) return s;
  memory_file file = {bytes, (sf_count_t)n, 0};
  SF_INFO info = {0};
  SNDFILE *sound = sf_open_virtual(&io, SFM_READ, &info, &file);
  if (!sound) return ij__fail(err, IJ_E_FORMAT, name, "this %s file cannot be read: %s", kind, sf_strerror(NULL));
  ij__hearing *h = ij__alloc_zero(1, sizeof *h);
  if (!h) s = ij__fail_nomem(err, "a sound", sizeof *h);
  else if (!describe(out->format, sizeof out->format, info.format))
    s = ij__fail(err, IJ_E_UNSUPPORTED, name, "this %s file holds a coding that is not read: FLAC, Ogg Vorbis and Ogg Opus are", kind);
  /* Only FLAC says in its header how long it is; elsewhere the number is an estimate that must not refuse a file. */
  const int64_t n_frames = strcmp(kind, "FLAC") == 0 && info.frames < SF_COUNT_MAX ? info.frames : -1;
  if (s == IJ_OK) s = ij__hearing_open(h, name, info.samplerate, info.channels, n_frames, max_rows, err);
  if (s == IJ_OK) s = decode(sound, &info, h, out->format, err);
  if (s == IJ_OK) s = ij__hearing_end(h, out, err);
  if (h) ij__hearing_free(h);
  ij__free(h);
  sf_close(sound);
  return s;
}

#else

ij_status ij__sound_coded(ij__sound *out, const uint8_t *bytes, size_t n, const char *kind, const char *name, int64_t max_rows,
                          ij_err *err) {
  (void)out, (void)max_rows;
  const ij_status s = strcmp(kind, "Ogg") == 0 ? ij__ogg_check(bytes, n, name, err) : IJ_OK;
  if (s != IJ_OK) return s;
  return ij__fail(err, IJ_E_UNSUPPORTED, name, "this is a %s file, and this build of inkjet does not read %s: it was made without "
                  "libsndfile", kind, kind);
}

#endif
