/* tok_dump.c: the tokenizer behind a pipe, for comparison with another implementation (differential.mjs).
 *
 * tok_dump VOCABULARY: reads frames of [uint32 length][bytes] from stdin and answers each with [uint32 count][count int32 ids], all
 * little-endian, until the input ends. A frame that cannot be encoded ends the program with an error.
 */
#include <stdio.h>
#include <stdlib.h>

#include "text/tok.h"

static uint32_t read_u32(const unsigned char *b) { return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24; }

static void write_u32(uint32_t x) {
  unsigned char b[4] = {(unsigned char)x, (unsigned char)(x >> 8), (unsigned char)(x >> 16), (unsigned char)(x >> 24)};
  fwrite(b, 1, 4, stdout);
}

static bool answer_frame(const ij_tok *t, const char *text, size_t n) {
  int32_t *ids = malloc((n + 1) * sizeof *ids); /* never more ids than bytes */
  size_t n_ids = 0;
  ij_err err;
  bool ok = ids && ij__tok_encode(t, text, n, false, ids, n, &n_ids, &err) == IJ_OK;
  if (ok) {
    write_u32((uint32_t)n_ids);
    for (size_t i = 0; i < n_ids; i++) write_u32((uint32_t)ids[i]);
    fflush(stdout);
  }
  free(ids);
  return ok;
}

int main(int argc, char **argv) {
  ij_tok *t = NULL;
  ij_err err;
  if (argc != 2) return 2;
  if (ij__tok_open(&t, argv[1], &err) != IJ_OK) {
    fprintf(stderr, "%s: %s\n", err.where, err.message);
    return 3;
  }
  unsigned char head[4];
  bool ok = true;
  while (ok && fread(head, 1, 4, stdin) == 4) {
    size_t n = read_u32(head);
    char *text = malloc(n + 1);
    ok = text && fread(text, 1, n, stdin) == n && answer_frame(t, text, n);
    free(text);
  }
  ij__tok_close(&t);
  return ok ? 0 : 1;
}
