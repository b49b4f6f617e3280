/* tokenizer.c: the public face of text/tok. */
#include "core/alloc.h"
#include "engine/engine_int.h"

/* Takes over what opening gave: the tokenizer behind the public handle, or nothing. */
static ij_status wrap(ij_tokenizer **out, ij_tok *tok, ij_status status, ij_err *err) {
  if (status != IJ_OK) return status;
  *out = ij__alloc_zero(1, sizeof **out);
  if (!*out) {
    ij__tok_close(&tok);
    return ij__fail_nomem(err, "a tokenizer", sizeof **out);
  }
  (*out)->tok = tok;
  return IJ_OK;
}

ij_status ij_tokenizer_open(ij_tokenizer **out, const char *path, ij_err *err) {
  if (!out || !path) return ij__fail(err, IJ_E_ARGUMENT, "ij_tokenizer_open", "out and path must not be NULL");
  *out = NULL;
  ij_tok *tok = NULL;
  ij_status status = ij__tok_open(&tok, path, err);
  return wrap(out, tok, status, err);
}

ij_status ij__tokenizer_open_gguf(ij_tokenizer **out, const struct ij_gguf *g, ij_err *err) {
  *out = NULL;
  ij_tok *tok = NULL;
  ij_status status = ij__tok_open_gguf(&tok, g, err);
  return wrap(out, tok, status, err);
}

void ij_tokenizer_close(ij_tokenizer **tokenizer) {
  if (!tokenizer || !*tokenizer) return;
  ij__tok_close(&(*tokenizer)->tok);
  ij__free(*tokenizer);
  *tokenizer = NULL;
}

int32_t ij_tokenizer_size(const ij_tokenizer *tokenizer) { return ij__tok_size(tokenizer->tok); }

ij_status ij_encode(const ij_tokenizer *tokenizer, const char *text, size_t n_bytes, bool parse_special, int32_t *ids, size_t cap,
                    size_t *n_ids, ij_err *err) {
  if (!tokenizer) return ij__fail(err, IJ_E_ARGUMENT, "ij_encode", "there is no tokenizer (a checkpoint may come without one)");
  if ((!text && n_bytes) || (!ids && cap) || !n_ids) return ij__fail(err, IJ_E_ARGUMENT, "ij_encode", "text, ids and n_ids must not be NULL");
  return ij__tok_encode(tokenizer->tok, text, n_bytes, parse_special, ids, cap, n_ids, err);
}

bool ij_decode(const ij_tokenizer *tokenizer, int32_t id, bool special_text, const char **bytes, size_t *n_bytes) {
  return ij__tok_bytes(tokenizer->tok, id, special_text, bytes, n_bytes);
}

bool ij_is_special(const ij_tokenizer *tokenizer, int32_t id) { return ij__tok_is_special(tokenizer->tok, id); }

int32_t ij_find_special(const ij_tokenizer *tokenizer, const char *name) { return ij__tok_find_special(tokenizer->tok, name); }

/* The public stream and the internal one hold the same, kept apart so that text/ need not know the public header. */
size_t ij_text_stream_push(ij_text_stream *stream, const char *bytes, size_t n_bytes, char *out) {
  ij_utf8_stream s = {{stream->held[0], stream->held[1], stream->held[2], stream->held[3]}, stream->n_held};
  size_t n = ij__utf8_stream_push(&s, bytes, n_bytes, out);
  for (int i = 0; i < 4; i++) stream->held[i] = s.held[i];
  stream->n_held = s.n_held;
  return n;
}

size_t ij_text_stream_flush(ij_text_stream *stream, char *out) {
  ij_utf8_stream s = {{stream->held[0], stream->held[1], stream->held[2], stream->held[3]}, stream->n_held};
  *stream = (ij_text_stream){0};
  return ij__utf8_stream_flush(&s, out);
}
