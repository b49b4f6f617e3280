/* audio_parts.h: the steps from the bytes of a sound to its bins, for the files audio*.c and their tests only.
 *
 *     file -> reader: blocks of frames in double -> mean of the channels -> resampler -> windows, spectrum, mel, bins
 *
 * Everything goes through in blocks, so that an hour takes no more memory than a second but for its 80 bytes per 50 ms. All arithmetic
 * is in double, in one written order, and uses only + - * / and sqrt, which IEEE 754 rounds alike everywhere: sines and cosines are our
 * own and logarithms are avoided. So the bins are the same bits on every system, however the sound was cut into blocks.
 */
#ifndef IJ_MEDIA_AUDIO_PARTS_H
#define IJ_MEDIA_AUDIO_PARTS_H

#include "core/status.h"
#include "media/audio.h"
#include "media/media.h"

enum {
  IJ_SOUND_RATE = 16000,       /* what the model hears */
  IJ_SOUND_MIN_RATE = 1000,    /* of a file; beyond these two its header is wrong */
  IJ_SOUND_MAX_RATE = 768000,
  IJ_SOUND_MAX_CHANNELS = 256,
  IJ_SOUND_BLOCK = 1024        /* frames (one sample of each channel) that go through together */
};

/* ------------------------------------------------------------------------------------------------ resampler, audio_resample.c */

/* sin(pi * num / den), within 2 units of the last place, the same bits everywhere. den > 0; |num| and den below 2^60. */
double ij__sin_pi(int64_t num, int64_t den);

/* Band-limited resampling to 16 kHz: a windowed sinc with half width 6 and roll-off 0.99, as torchaudio's default. */
typedef struct ij__resampler {
  int64_t a, b;         /* in : out, without common factor; output o stands at input o * a / b */
  int64_t half;         /* the W of the formula: taps -W .. W + a - 1 around q * a */
  int n_taps;           /* kept of a phase, a multiple of 4: all that may differ from 0 */
  double *taps;         /* [b][n_taps], made when a phase is first needed */
  int64_t *first;       /* [b]: index of the first tap's input, from q * a */
  bool *made;           /* [b] */
  double *held;         /* inputs that are still needed */
  int64_t held_at;      /* index in the sound of held[0] */
  int64_t n_held;
  int64_t q, p;         /* of the next output, which is number q * b + p */
  int64_t n_in, n_out;  /* so far */
  int64_t n_end;        /* outputs in all, once the end is known; else -1 */
} ij__resampler;

ij_status ij__resampler_open(ij__resampler *r, int rate, ij_err *err);
void ij__resampler_free(ij__resampler *r);
/* n <= IJ_SOUND_BLOCK inputs; all outputs so far must have been pulled before. */
void ij__resampler_push(ij__resampler *r, const double *in, int64_t n);
void ij__resampler_end(ij__resampler *r); /* nothing more comes; pull the rest */
int64_t ij__resampler_pull(ij__resampler *r, double *out, int64_t max); /* 0: needs more input, or done */
int64_t ij__resampled_length(int64_t n, int rate); /* ceil(n * 16000 / rate); n below 2^48 */

/* ------------------------------------------------------------------------------------------------------ spectrum, audio_mel.c */

enum { IJ_MEL_WINDOW = 1600, IJ_MEL_HOP = 800, IJ_MEL_FREQS = 801 };

typedef struct ij__mel ij__mel; /* tables, and the samples that the next window begins with */
ij_status ij__mel_open(ij__mel **out, ij_err *err); /* ij__free ends it */
/* Up to `n` samples are taken, as far as the next window needs them; returns how many. A full window gives bins [80] and *row true. */
int64_t ij__mel_push(ij__mel *m, const double *in, int64_t n, uint8_t *bins, bool *row);
/* What is left, filled with zeros; false: nothing is left. */
bool ij__mel_end(ij__mel *m, uint8_t *bins);
/* For tests: an entry of the filterbank, and the 80 values of a full window before they become bins. */
float ij__mel_weight(int row, int freq);
void ij__mel_values(ij__mel *m, const double *window, double *values);
int ij__mel_bin(double value);

/* ----------------------------------------------------------------------------------------------------- from frames, audio.c */

typedef struct ij__hearing {
  ij__resampler resampler;
  ij__mel *mel;
  const char *name;     /* for messages */
  int rate, channels;
  int64_t max_rows;
  int64_t n_frames;     /* taken in so far */
  int64_t n_samples;    /* at 16 kHz */
  uint8_t *bins;
  int64_t n_rows, cap;
  double mono[IJ_SOUND_BLOCK], out[IJ_SOUND_BLOCK];
} ij__hearing;

/* n_frames: what the file says that it holds, or -1. */
ij_status ij__hearing_open(ij__hearing *h, const char *name, int64_t rate, int64_t channels, int64_t n_frames, int64_t max_rows,
                           ij_err *err);
/* n <= IJ_SOUND_BLOCK frames, [n][channels]. */
ij_status ij__hearing_push(ij__hearing *h, const double *frames, int64_t n, ij_err *err);
ij_status ij__hearing_end(ij__hearing *h, ij__sound *out, ij_err *err); /* the bins move to out */
void ij__hearing_free(ij__hearing *h);

/* ------------------------------------------------------------------------------------------------------------- files */

/* audio_wav.c: WAV with integer or float samples, in every build. */
ij_status ij__sound_wav(ij__sound *out, const uint8_t *bytes, size_t n, const char *name, int64_t max_rows, ij_err *err);

/* audio_file.c: FLAC and Ogg, through libsndfile; IJ_E_UNSUPPORTED in a build without it. kind is for messages. */
ij_status ij__sound_coded(ij__sound *out, const uint8_t *bytes, size_t n, const char *kind, const char *name, int64_t max_rows,
                          ij_err *err);

/* audio_mp3.c: MP3, through libmpg123; IJ_E_UNSUPPORTED in a build without it. The frames begin after n_tag bytes. */
ij_status ij__sound_mp3(ij__sound *out, const uint8_t *bytes, size_t n, size_t n_tag, const char *name, int64_t max_rows, ij_err *err);

/* audio_ogg.c: the pages of an Ogg file are whole, in order and of one stream. */
ij_status ij__ogg_check(const uint8_t *bytes, size_t n, const char *name, ij_err *err);

#endif
