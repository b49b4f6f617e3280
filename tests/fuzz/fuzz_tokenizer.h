/* fuzz_tokenizer.h: what the tokenizer targets do with their input.
 *
 * The input is the file; when it is a vocabulary after all, its own bytes are encoded with it, and must come back.
 */
#ifndef IJ_FUZZ_TOKENIZER_H
#define IJ_FUZZ_TOKENIZER_H

#include <stdlib.h>

#include "core/alloc.h"
#include "text/tok_int.h"

static void fuzz_round_trip(const ij_tok *t, const char *text, size_t n, bool parse_special) {
  int32_t *ids = malloc((n + 1) * sizeof *ids);
  size_t n_ids = 0, at = 0;
  if (!ids || ij__tok_encode(t, text, n, parse_special, ids, n, &n_ids, NULL) != IJ_OK || n_ids > n) abort();
  for (size_t i = 0; i < n_ids; i++) {
    const char *bytes;
    size_t len;
    if (!ij__tok_bytes(t, ids[i], true, &bytes, &len)) abort();
    if (!parse_special && (len > n - at || memcmp(bytes, text + at, len) != 0)) abort();
    at += len;
  }
  if (!parse_special && at != n) abort();
  free(ids);
}

static inline void fuzz_tokenizer(const uint8_t *data, size_t size, bool json) {
  ij_tok *t = ij__alloc_zero(1, sizeof *t);
  ij_err err;
  const char *bytes = (const char *)data;
  if (!t) return;
  ij_status status = (json ? ij__tok_read_json : ij__tok_read_ranks)(t, bytes, size, "input", &err);
  if (status == IJ_OK) status = ij__tok_finish_specials(t, "input", &err);
  if (status == IJ_OK) {
    size_t n = size < 4096 ? size : 4096;
    fuzz_round_trip(t, bytes, n, false);
    fuzz_round_trip(t, bytes, n, true);
  }
  ij__tok_close(&t);
}

#endif
