/* fuzz_schema.c: any bytes as a JSON Schema. What is accepted must have a text: the shortest way out is followed, each id of it allowed. */
#include <stdlib.h>
#include <string.h>

#include "grammar/guide.h"
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const ij_tokenizer *vocab = fuzz_vocab();
  ij_grammar *g = NULL;
  ij_err err = {0};
  ij_status status = ij_grammar_json(&g, vocab, (const char *)data, size, &err);
  fuzz_must((status == IJ_OK) == (g != NULL));
  fuzz_must(status == IJ_OK || ((status == IJ_E_FORMAT || status == IJ_E_ARGUMENT || status == IJ_E_UNSUPPORTED) && err.message[0]));
  if (g) fuzz_walk(g, data, size);
  ij_grammar_close(&g);
  return 0;
}
