/* fuzz_image.h: any bytes as a picture of one format. What is accepted must keep the promises of inkjet_media.h, and all memory is given
 * back whatever happens. Few pixels are allowed, or the time would go into large pictures. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "media/media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

static void check(const ij_media *m, const ij_media_options *o) {
  const ij_media_info *i = &m->info;
  float patch[2 * 12 * 12 * 3];
  must(i->kind == IJ_MEDIA_IMAGE && !i->pair && i->format[0] && i->patch == 12);
  must(i->width > 0 && i->height > 0 && (int64_t)i->width * i->height <= o->max_pixels);
  must(i->used_width > 0 && i->used_height > 0 && (int64_t)i->used_width * i->used_height <= o->max_pixels);
  must(IJ_MAX(i->used_width, i->used_height) <= o->max_long_edge);
  must(i->grid_rows == (i->used_height + 11) / 12 && i->grid_cols == i->used_width / 12 + 1);
  must(i->n_rows == (int64_t)i->grid_rows * i->grid_cols && i->n_rows <= o->max_rows);
  must(ij_media_patches(m, 0, 1, patch, NULL) == IJ_OK && ij_media_patches(m, i->n_rows - 1, 1, patch, NULL) == IJ_OK);
}

/* `magic` takes the place of the first bytes, so that every input is of this format. */
static int fuzz_image(const uint8_t *data, size_t size, const char *magic, size_t n_magic) {
  int64_t blocks = ij__alloc_blocks();
  ij_media_options o = ij_media_options_default();
  ij_media *m = NULL;
  ij_err err = {0};
  if (size < n_magic) return 0;
  uint8_t *bytes = malloc(size);
  must(bytes != NULL);
  memcpy(bytes, data, size);
  memcpy(bytes, magic, n_magic);
  o.patch = 12;
  o.max_pixels = 1 << 16;
  o.max_long_edge = 100;
  ij_status s = ij_media_open(&m, IJ_MEDIA_IMAGE, bytes, size, "input", &o, &err);
  must((s == IJ_OK) == (m != NULL));
  if (s == IJ_OK) check(m, &o);
  else must((s == IJ_E_FORMAT || s == IJ_E_RANGE || s == IJ_E_UNSUPPORTED) && err.message[0]);
  ij_media_close(&m);
  free(bytes);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
