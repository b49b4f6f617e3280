/* fuzz_sound.c: any bytes as a file with a sound. Whatever they are, it ends, in bounded memory, with bins in range or with an error that
 * says something; a second time gives the same. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const ij_media_options options = {.max_rows = 100};
  const int64_t blocks = ij__alloc_blocks();
  ij__sound sound, again;
  ij_err err = {0};
  const ij_status s = ij__sound_open(&sound, data, size, "input", &options, &err);
  if (s == IJ_OK) {
    must(sound.n_rows >= 1 && sound.n_rows <= 100 && sound.n_rows == ij__div_up(sound.n_samples, 800));
    must(sound.rate >= IJ_SOUND_MIN_RATE && sound.channels >= 1 && sound.seconds > 0 && sound.format[0]);
    for (int64_t i = 0; i < sound.n_rows * IJ_MEL_BINS; i++) must(sound.bins[i] < 16);
    must(ij__sound_open(&again, data, size, "input", &options, NULL) == IJ_OK && again.n_rows == sound.n_rows);
    must(memcmp(again.bins, sound.bins, (size_t)sound.n_rows * IJ_MEL_BINS) == 0);
    ij__free(again.bins);
  } else {
    must((s == IJ_E_FORMAT || s == IJ_E_UNSUPPORTED || s == IJ_E_RANGE) && err.message[0] && !sound.bins);
  }
  ij__free(sound.bins);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
