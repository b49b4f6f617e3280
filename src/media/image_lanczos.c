/* image_lanczos.c: resizing with the Lanczos filter (3 lobes, antialiased), equal to Pillow's to the byte.
 *
 * Two passes, horizontal first, each in fixed point with 22 fractional bits and an 8-bit result in between; a pass that changes nothing
 * is left out. The weights of a pass are computed in binary64, normalized, and rounded away from zero at one half; the order of these
 * operations is part of the result. Weights of one axis add up to about 6 x the longer of its two sizes.
 */
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"
#include "media/image.h"

enum { FRACTION_BITS = 22, LOBES = 3, STRIP = 3072 };

/* For each output sample the first input sample, how many, and their weights. */
typedef struct axis {
  int n_in, n_out, max_taps;
  int *first, *count;
  int32_t *weights; /* [n_out][max_taps] */
  double *exact;    /* [max_taps], of the sample being computed */
} axis;

static double sinc(double x) {
  if (x == 0) return 1;
  x = x * 3.14159265358979323846;
  return sin(x) / x;
}

static double lanczos(double x) { return x >= -LOBES && x < LOBES ? sinc(x) * sinc(x / LOBES) : 0; }

static void axis_free(axis *a) {
  ij__free(a->first);
  ij__free(a->count);
  ij__free(a->weights);
  ij__free(a->exact);
}

static void axis_sample(axis *a, int i, double scale, double stretch) {
  double center = (i + 0.5) * scale, support = LOBES * stretch, inverse = 1 / stretch, sum = 0;
  int lo = IJ_MAX(0, (int)(center - support + 0.5)), hi = IJ_MIN(a->n_in, (int)(center + support + 0.5)), n = hi - lo;
  int32_t *out = a->weights + (size_t)i * (size_t)a->max_taps;
  for (int j = 0; j < n; j++) {
    a->exact[j] = lanczos((j + lo - center + 0.5) * inverse);
    sum += a->exact[j];
  }
  for (int j = 0; j < n; j++) {
    double w = (sum != 0 ? a->exact[j] / sum : a->exact[j]) * (1 << FRACTION_BITS);
    out[j] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
  }
  a->first[i] = lo;
  a->count[i] = n;
}

static bool axis_init(axis *a, int n_in, int n_out) {
  double scale = (double)n_in / n_out, stretch = fmax(scale, 1);
  *a = (axis){.n_in = n_in, .n_out = n_out, .max_taps = (int)ceil(LOBES * stretch) * 2 + 1};
  size_t n = (size_t)n_out, n_weights;
  if (!ij__mul_size(n, (size_t)a->max_taps, &n_weights)) return false;
  a->first = ij__alloc_array(n, sizeof *a->first);
  a->count = ij__alloc_array(n, sizeof *a->count);
  a->weights = ij__alloc_array(n_weights, sizeof *a->weights);
  a->exact = ij__alloc_array((size_t)a->max_taps, sizeof *a->exact);
  if (!a->first || !a->count || !a->weights || !a->exact) return false;
  for (int i = 0; i < n_out; i++) axis_sample(a, i, scale, stretch);
  return true;
}

/* An arithmetic shift rounds toward minus infinity, as the reference does; negative values become 0 either way. */
static uint8_t to_byte(int32_t sum) {
  if (sum < 0) return 0;
  sum >>= FRACTION_BITS;
  return (uint8_t)IJ_MIN(sum, 255);
}

static void pass_across(uint8_t *out, const uint8_t *in, int height, const axis *a) {
  for (int y = 0; y < height; y++, in += (size_t)a->n_in * 3) {
    for (int x = 0; x < a->n_out; x++, out += 3) {
      const int32_t *w = a->weights + (size_t)x * (size_t)a->max_taps;
      const uint8_t *p = in + (size_t)a->first[x] * 3;
      int32_t r = 1 << (FRACTION_BITS - 1), g = r, b = r;
      for (int j = 0, n = a->count[x]; j < n; j++, p += 3) {
        r += p[0] * w[j];
        g += p[1] * w[j];
        b += p[2] * w[j];
      }
      out[0] = to_byte(r);
      out[1] = to_byte(g);
      out[2] = to_byte(b);
    }
  }
}

/* Strip by strip of a row, so that the sums stay in the nearest cache while whole rows of input stream by. */
static void pass_down(uint8_t *out, const uint8_t *in, size_t row_bytes, const axis *a) {
  int32_t sums[STRIP];
  for (int y = 0; y < a->n_out; y++, out += row_bytes) {
    const int32_t *weights = a->weights + (size_t)y * (size_t)a->max_taps;
    for (size_t at = 0; at < row_bytes; at += STRIP) {
      int n = (int)IJ_MIN((size_t)STRIP, row_bytes - at);
      for (int x = 0; x < n; x++) sums[x] = 1 << (FRACTION_BITS - 1);
      for (int j = 0; j < a->count[y]; j++) {
        const uint8_t *row = in + (size_t)(a->first[y] + j) * row_bytes + at;
        int32_t w = weights[j];
        for (int x = 0; x < n; x++) sums[x] += row[x] * w;
      }
      for (int x = 0; x < n; x++) out[at + (size_t)x] = to_byte(sums[x]);
    }
  }
}

/* One pass into new pixels. across: along rows, else along columns. */
static ij_status resize_axis(ij__image *image, int to, bool across, const char *where, ij_err *err) {
  int width = across ? to : image->width, height = across ? image->height : to;
  axis a;
  size_t row_bytes = (size_t)width * 3;
  bool ready = axis_init(&a, across ? image->width : image->height, to);
  uint8_t *out = ready ? ij__alloc_array((size_t)height, row_bytes) : NULL;
  if (out && across) pass_across(out, image->pixels, height, &a);
  else if (out) pass_down(out, image->pixels, row_bytes, &a);
  axis_free(&a);
  if (!out) return ij__fail(err, IJ_E_NOMEM, where, "no memory for resizing to %d x %d pixels", width, height);
  ij__free(image->pixels);
  image->pixels = out;
  image->width = width;
  image->height = height;
  return IJ_OK;
}

ij_status ij__image_resize(ij__image *image, int width, int height, const char *where, ij_err *err) {
  ij_status s = IJ_OK;
  if (width != image->width) s = resize_axis(image, width, true, where, err);
  if (s == IJ_OK && height != image->height) s = resize_axis(image, height, false, where, err);
  return s;
}
