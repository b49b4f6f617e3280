/* fuzz_tokenizer_ranks.c: a tiktoken rank file from anyone. */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_tokenizer(data, size, false);
  return 0;
}
