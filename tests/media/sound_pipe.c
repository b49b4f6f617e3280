/* sound_pipe.c: sound files in, one line each out, for the tests in Python: status, rate, channels, samples at 16 kHz, rows, format, and
 * the bins as hexadecimal digits; or status and message.
 *
 *     sound_pipe [--max-rows N] FILE...        sound_pipe --filterbank: the 80 x 801 weights as little-endian floats
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "media/audio_parts.h"

static int filterbank(void) {
  for (int row = 0; row < IJ_MEL_BINS; row++) {
    for (int k = 0; k < IJ_MEL_FREQS; k++) {
      const float w = ij__mel_weight(row, k);
      uint32_t bits;
      memcpy(&bits, &w, sizeof bits);
      for (int i = 0; i < 4; i++) putchar((int)(bits >> (8 * i) & 0xff));
    }
  }
  return 0;
}

static void hear(const char *path, int64_t max_rows) {
  const ij_media_options options = {.max_rows = max_rows};
  ij__sound sound = {0};
  ij_err err = {0};
  FILE *f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END) != 0) exit(2);
  const long size = ftell(f);
  uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1); /* exactly: a sanitizer sees a read past the end */
  rewind(f);
  if (!bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size) exit(2);
  fclose(f);
  const ij_status s = ij__sound_open(&sound, bytes, (size_t)size, path, &options, &err);
  if (s != IJ_OK) {
    printf("%s\t%s\n", ij_status_name(s), err.message);
  } else {
    printf("OK\t%d\t%d\t%" PRId64 "\t%" PRId64 "\t%s\t", sound.rate, sound.channels, sound.n_samples, sound.n_rows, sound.format);
    for (int64_t i = 0; i < sound.n_rows * IJ_MEL_BINS; i++) putchar("0123456789abcdef"[sound.bins[i]]);
    putchar('\n');
  }
  ij__free(sound.bins);
  free(bytes);
}

int main(int argc, char **argv) {
  int64_t max_rows = 32768;
  int at = 1;
  if (argc == 2 && strcmp(argv[1], "--filterbank") == 0) return filterbank();
  if (argc > 3 && strcmp(argv[1], "--max-rows") == 0) {
    max_rows = strtoll(argv[2], NULL, 10);
    at = 3;
  }
  for (; at < argc; at++) hear(argv[at], max_rows);
  return ij__alloc_blocks() == 0 ? 0 : 3;
}
