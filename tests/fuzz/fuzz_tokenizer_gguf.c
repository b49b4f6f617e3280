/* fuzz_tokenizer_gguf.c: the tokenizer in a GGUF file from anyone. A fuzzer does not find 256 byte tokens by itself: the input is taken
 * as a whole file, and then as a list of further tokens and merges in a file that is sound. */
#include "fuzz_tokenizer.h"
#include "unit/gguf_writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_bytes(const void *bytes, size_t size, const uint8_t *text, size_t n_text) {
  ij_gguf g;
  ij_tok *t = NULL;
  ij_err err = {0};
  if (ij__gguf_parse(&g, bytes, size, "input", &err) != IJ_OK) return;
  ij_status s = ij__tok_open_gguf(&t, &g, &err);
  ij__gguf_free(&g);
  if (s == IJ_OK) {
    size_t n = n_text < 4096 ? n_text : 4096;
    fuzz_round_trip(t, (const char *)text, n, false);
    fuzz_round_trip(t, (const char *)text, n, true);
  } else if (!err.message[0] || t) {
    abort();
  }
  ij__tok_close(&t);
}

typedef struct lists {
  ij_buf tokens, types, merges;
  uint64_t n_tokens, n_merges;
} lists;

/* Records of a head byte (4 bits of kind, 4 of length) and text. Kinds 0 to 7 are types of a token, the others merges; 14 and 15 have their
 * text spelled first, so that any bytes are a token. */
static void add_records(lists *l, const uint8_t *data, size_t size) {
  for (size_t at = 0; at < size;) {
    unsigned kind = data[at] >> 4;
    size_t n = data[at] & 15;
    ij_buf text = {0};
    at++;
    if (n > size - at) n = size - at;
    if (kind >= 14) gw_spell(&text, (const char *)data + at, n);
    else ij__buf_append(&text, data + at, n);
    at += n;
    if (kind < 8 || kind == 15) {
      gw_text(&l->tokens, text.data, text.len);
      gw_number(&l->types, kind < 8 ? kind : 1, 4);
      l->n_tokens++;
    } else {
      gw_text(&l->merges, text.data, text.len);
      l->n_merges++;
    }
    ij__buf_free(&text);
  }
}

static void open_records(const uint8_t *data, size_t size) {
  lists l = {0};
  for (int b = 0; b < 256; b++) {
    ij_buf text = {0};
    gw_spell(&text, &(char){(char)b}, 1);
    gw_text(&l.tokens, text.data, text.len);
    gw_number(&l.types, 1, 4);
    l.n_tokens++;
    ij__buf_free(&text);
  }
  add_records(&l, data, size);
  gw_file f = gw_new();
  gw_string(&f, "tokenizer.ggml.model", "gpt2");
  gw_string(&f, "tokenizer.ggml.pre", "inkling");
  gw_array(&f, "tokenizer.ggml.tokens", IJ_GGUF_STRING, l.n_tokens);
  ij__buf_append(&f.values, l.tokens.data, l.tokens.len);
  gw_array(&f, "tokenizer.ggml.token_type", IJ_GGUF_I32, l.n_tokens);
  ij__buf_append(&f.values, l.types.data, l.types.len);
  gw_array(&f, "tokenizer.ggml.merges", IJ_GGUF_STRING, l.n_merges);
  ij__buf_append(&f.values, l.merges.data, l.merges.len);
  ij_buf b = gw_finish(&f);
  open_bytes(b.data, b.len, data, size);
  ij__buf_free(&b);
  ij__buf_free(&l.tokens);
  ij__buf_free(&l.types);
  ij__buf_free(&l.merges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int64_t blocks = ij__alloc_blocks();
  open_bytes(data, size, data, size);
  open_records(data, size);
  if (ij__alloc_blocks() != blocks) abort();
  return 0;
}
