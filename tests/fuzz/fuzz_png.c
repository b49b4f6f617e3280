/* fuzz_png.c: any bytes as a PNG picture. */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_image(data, size, "\x89PNG\r\n\x1a\n", 8); }
