/* fuzz_gif.c: any bytes as a GIF picture. */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_image(data, size, "GIF89a", 6); }
