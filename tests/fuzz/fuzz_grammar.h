/* fuzz_grammar.h: what the grammar targets do with a grammar that was accepted. The vocabulary and its tree stay for the whole run. */
#ifndef IJ_FUZZ_GRAMMAR_H
#define IJ_FUZZ_GRAMMAR_H

#include "unit/small_vocab.h"

static inline void fuzz_must(bool promise) {
  if (!promise) abort();
}

static inline const ij_tokenizer *fuzz_vocab(void) {
  static ij_tokenizer *vocab;
  static ij_grammar *keep; /* keeps the tree of tokens */
  if (!vocab) {
    vocab = small_vocab(true);
    fuzz_must(vocab && ij_grammar_json(&keep, vocab, NULL, 0, NULL) == IJ_OK);
  }
  return vocab;
}

/* Some allowed ids that the input chooses, then the way out. */
static inline void fuzz_walk(const ij_grammar *g, const uint8_t *data, size_t size) {
  const ij_tokenizer *vocab = fuzz_vocab();
  ij_guide *guide = NULL;
  ij_guide_options o = ij_guide_options_default();
  o.state = IJ_TURN_TEXT;
  o.content = g;
  fuzz_must(ij_guide_open(&guide, vocab, &o, NULL) == IJ_OK);
  int32_t n_ids = ij_tokenizer_size(vocab), end = ij_find_special(vocab, "<|end_message|>");
  for (size_t i = 0; i < 4000; i++) {
    const uint32_t *mask = ij_guide_mask(guide);
    int32_t id = i < 24 && size ? (data[i * 7 % size] * 31 + (int32_t)i) % n_ids : ij__guide_way_out(guide);
    for (int32_t tries = 0; i < 24 && size && !(mask[id / 32] >> (id % 32) & 1); tries++) {
      fuzz_must(tries <= n_ids);
      id = (id + 1) % n_ids;
    }
    fuzz_must(id >= 0 && (mask[id / 32] >> (id % 32) & 1) && ij_guide_accept(guide, id, NULL) == IJ_OK);
    if (id == end) break;
  }
  ij_guide_close(&guide);
}

#endif
