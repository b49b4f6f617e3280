/* fuzz_tokenizer_json.c: a tokenizer.json from anyone. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_tokenizer(data, size, true);
  return 0;
}
