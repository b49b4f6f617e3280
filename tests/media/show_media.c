/* show_media.c: what became of media files, for tests that know it from elsewhere.
 *
 * Each line of the input is PATH, max_long_edge, rescale_frac, rescale_long_edge and patch, apart by tabs. Each line of the output is
 * OK, format, width, height, used width and height, grid rows and columns, and the BLAKE2b digest of the pixels as hexadecimal digits; or
 * the name of an error, its place and its message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/blake2b.h"
#include "media/media.h"

static uint8_t *read_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  uint8_t *bytes = malloc(*n ? *n : 1);
  if (bytes && fread(bytes, 1, *n, f) != *n) *n = 0;
  fclose(f);
  return bytes;
}

static void show(const ij_media *m) {
  const ij_media_info *i = &m->info;
  uint64_t digest[2];
  ij__blake2b b;
  ij__blake2b_init(&b);
  ij__blake2b_add(&b, m->pixels[0], (size_t)i->used_width * (size_t)i->used_height * 3);
  ij__blake2b_end(&b, digest);
  printf("OK\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t", i->format, i->width, i->height, i->used_width, i->used_height, i->grid_rows, i->grid_cols);
  for (int k = 0; k < 16; k++) printf("%02x", (unsigned)(digest[k / 8] >> 8 * (k % 8) & 255));
  printf("\n");
}

static int show_line(char *line) {
  ij_media_options options = ij_media_options_default();
  ij_media *media = NULL;
  ij_err err = {0};
  size_t n = 0;
  char *path = strtok(line, "\t"), *edge = strtok(NULL, "\t"), *frac = strtok(NULL, "\t"), *cap = strtok(NULL, "\t"), *patch = strtok(NULL, "\t\n");
  if (!patch) return 1;
  options.max_long_edge = atoi(edge);
  options.rescale_frac = atof(frac);
  options.rescale_long_edge = atoi(cap);
  options.patch = atoi(patch);
  uint8_t *bytes = read_file(path, &n);
  if (!bytes) return 1;
  if (ij_media_open(&media, IJ_MEDIA_IMAGE, bytes, n, "file", &options, &err) == IJ_OK) show(media);
  else printf("%s\t%s\t%s\n", ij_status_name(err.code), err.where, err.message);
  ij_media_close(&media);
  free(bytes);
  return 0;
}

int main(void) {
  static char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    if (show_line(line) != 0) {
      fprintf(stderr, "a line of the input is wrong, or its file cannot be read\n");
      return 2;
    }
  }
  if (ij__alloc_blocks() != 0) {
    fprintf(stderr, "%lld blocks of memory are still held\n", (long long)ij__alloc_blocks());
    return 1;
  }
  return 0;
}
