/* image_exif.c: the one thing of EXIF that matters here, how the camera was held, and turning the picture accordingly. */
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"
#include "media/image.h"

typedef struct tiff {
  const uint8_t *bytes;
  size_t n;
  bool big_endian;
} tiff;

/* Two or four bytes at `at`; 0 beyond the end. */
static uint32_t tiff_number(const tiff *t, size_t at, size_t n_bytes) {
  uint32_t v = 0;
  if (at > t->n || t->n - at < n_bytes) return 0;
  for (size_t i = 0; i < n_bytes; i++) v = v << 8 | t->bytes[at + (t->big_endian ? i : n_bytes - 1 - i)];
  return v;
}

int ij__exif_orientation(const uint8_t *bytes, size_t n) {
  enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4 };
  if (n >= 6 && memcmp(bytes, "Exif\0", 5) == 0) bytes += 6, n -= 6;
  if (n < 8 || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0)) return 1;
  tiff t = {bytes, n, bytes[0] == 'M'};
  if (tiff_number(&t, 2, 2) != 42) return 1;
  size_t directory = tiff_number(&t, 4, 4), n_entries = tiff_number(&t, directory, 2);
  for (size_t i = 0; i < n_entries; i++) {
    size_t at = directory + 2 + 12 * i;
    if (at + 12 > n) break;
    if (tiff_number(&t, at, 2) != TAG_ORIENTATION) continue;
    uint32_t type = tiff_number(&t, at + 2, 2), count = tiff_number(&t, at + 4, 4);
    uint32_t value = type == TYPE_SHORT ? tiff_number(&t, at + 8, 2) : type == TYPE_LONG ? tiff_number(&t, at + 8, 4) : 1;
    return count == 1 && value >= 1 && value <= 8 ? (int)value : 1;
  }
  return 1;
}

/* Where the shown picture's pixel (x, y) is stored, as start + x * step_x + y * step_y pixels. */
typedef struct walk {
  int64_t start, step_x, step_y;
} walk;

static walk walk_of(int orientation, int64_t w, int64_t h) {
  switch (orientation) {
    case 2: return (walk){w - 1, -1, w};
    case 3: return (walk){w * h - 1, -1, -w};
    case 4: return (walk){w * (h - 1), 1, -w};
    case 5: return (walk){0, w, 1};
    case 6: return (walk){w * (h - 1), -w, 1};
    case 7: return (walk){w * h - 1, -w, -1};
    case 8: return (walk){w - 1, w, -1};
    default: return (walk){0, 1, w};
  }
}

ij_status ij__image_upright(ij__image *image, const char *where, ij_err *err) {
  if (image->orientation <= 1) return IJ_OK;
  walk go = walk_of(image->orientation, image->width, image->height);
  bool turned = image->orientation >= 5;
  int width = turned ? image->height : image->width, height = turned ? image->width : image->height;
  uint8_t *out = ij__alloc_array((size_t)width * 3, (size_t)height), *to = out;
  if (!out) return ij__fail(err, IJ_E_NOMEM, where, "no memory for turning %d x %d pixels", width, height);
  for (int y = 0; y < height; y++) {
    const uint8_t *from = image->pixels + (go.start + y * go.step_y) * 3;
    for (int x = 0; x < width; x++, to += 3) {
      const uint8_t *p = from + x * go.step_x * 3;
      to[0] = p[0], to[1] = p[1], to[2] = p[2];
    }
  }
  ij__free(image->pixels);
  image->pixels = out;
  image->width = width;
  image->height = height;
  image->orientation = 1;
  return IJ_OK;
}
