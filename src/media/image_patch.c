/* image_patch.c: patches of a picture as the vision tower reads them. There are only 257 x 3 values, which are computed once per call. */
#include <string.h>

#include "media/image.h"

float ij__image_normal(int raw, int channel) {
  static const float mean[3] = {0.48145466f, 0.4578275f, 0.40821073f}, deviation[3] = {0.26862954f, 0.26130258f, 0.27577711f};
  return (((float)raw * (1.0f / 255.0f)) - mean[channel]) / deviation[channel];
}

/* To the nearest, ties to even. The values are finite. */
float ij__image_bf16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  memcpy(&v, &bits, sizeof v);
  return v;
}

void ij__image_table(float table[257][3]) {
  for (int raw = -1; raw < 256; raw++) {
    for (int c = 0; c < 3; c++) table[raw + 1][c] = ij__image_bf16(ij__image_normal(raw, c));
  }
}

void ij__image_patch(float *out, const uint8_t *pixels, int width, int height, int patch, int row, int col, const float table[257][3]) {
  int x0 = col * patch, y0 = row * patch, inside = IJ_MAX(0, IJ_MIN(patch, width - x0));
  for (int y = 0; y < patch; y++) {
    int n = y0 + y < height ? inside : 0;
    const uint8_t *p = n > 0 ? pixels + ((size_t)(y0 + y) * (size_t)width + (size_t)x0) * 3 : NULL;
    for (int x = 0; x < n; x++, p += 3, out += 3) {
      for (int c = 0; c < 3; c++) out[c] = table[p[c] + 1][c];
    }
    for (int x = n; x < patch; x++, out += 3) memcpy(out, table[0], 3 * sizeof *out);
  }
}
