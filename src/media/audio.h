/* audio.h: sounds: the bytes of a file, or samples, to dMel bins. Called by media.c only, which makes the medium of them. */
#ifndef IJ_MEDIA_AUDIO_H
#define IJ_MEDIA_AUDIO_H

#include "core/base.h"
#include "inkjet_media.h"

/* What becomes of a sound. bins come from core/alloc.h and belong to the caller, who frees them; on failure bins is NULL. */
typedef struct ij__sound {
  uint8_t *bins;      /* [n_rows][80] */
  int64_t n_rows;
  int64_t n_samples;  /* at 16 kHz */
  int rate, channels; /* of the file */
  double seconds;
  char format[64];    /* such as "WAV, 24-bit" */
} ij__sound;

/* The name goes into messages and may be NULL. options are complete, never NULL. Errors as for ij_media_open; IJ_E_UNSUPPORTED when the
 * bytes are of no kind that is known here. */
ij_status ij__sound_open(ij__sound *out, const void *bytes, size_t n, const char *name, const ij_media_options *options, ij_err *err);
ij_status ij__sound_from_samples(ij__sound *out, const float *samples, int64_t n, int channels, int rate, const ij_media_options *options,
                                 ij_err *err);
/* Whether the first bytes are those of a sound, be it one that is not read here. */
bool ij__sound_is_known(const void *bytes, size_t n);

#endif
