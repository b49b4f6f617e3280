/* fuzz_jpeg.c: any bytes as a JPEG picture. */
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_image(data, size, "\xff\xd8\xff", 3); }
