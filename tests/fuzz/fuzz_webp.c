/* fuzz_webp.c: any bytes as a WebP picture, whatever length they claim. */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t head[12] = {'R', 'I', 'F', 'F', 0, 0, 0, 0, 'W', 'E', 'B', 'P'};
  if (size >= 8) memcpy(head + 4, data + 4, 4);
  return fuzz_image(data, size, (const char *)head, sizeof head);
}
