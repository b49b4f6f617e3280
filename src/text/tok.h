/* tok.h: the byte-level BPE of the family: text <-> ids.
 *
 * Immutable after open; encode and decode are safe from any thread. Ids and bytes are those of the model's own files.
 */
#ifndef IJ_TEXT_TOK_H
#define IJ_TEXT_TOK_H

#include "core/base.h"
#include "core/status.h"

typedef struct ij_tok ij_tok;
struct ij_gguf;

/* path: a tokenizer.json, a .tiktoken / tokenizer.model rank file, a GGUF model, or a folder that holds one GGUF model with a tokenizer
 * (when it is no safetensors checkpoint) or one of tokenizer.json, tiktoken/tokenizer.model, tokenizer.model, *.tiktoken (looked for in
 * this order). */
ij_status ij__tok_open(ij_tok **out, const char *path, ij_err *err);

/* The tokenizer in the keys of a GGUF file, which may be closed afterwards. */
ij_status ij__tok_open_gguf(ij_tok **out, const struct ij_gguf *g, ij_err *err);
bool ij__tok_in_gguf(const struct ij_gguf *g); /* whether there are such keys */

void ij__tok_close(ij_tok **t);

/* True when a folder holds a tokenizer file, so that ij__tok_open on it is worth trying. */
bool ij__tok_present(const char *folder);

int32_t ij__tok_size(const ij_tok *t); /* highest id + 1 */

/* Encodes n bytes. parse_special: the spelled names of special tokens become their ids (only for trusted text); otherwise they
 * are ordinary text. Invalid UTF-8 keeps its bytes: decode(encode(x)) == x for all x. Writes at most cap ids and returns
 * the number needed through *n_ids (call again with a larger buffer when *n_ids > cap). */
ij_status ij__tok_encode(const ij_tok *t, const char *bytes, size_t n, bool parse_special, int32_t *ids, size_t cap, size_t *n_ids, ij_err *err);

/* The bytes of one id; special ids give their name when `special_text`, else nothing. false: no such id. */
bool ij__tok_bytes(const ij_tok *t, int32_t id, bool special_text, const char **bytes, size_t *n);
bool ij__tok_is_special(const ij_tok *t, int32_t id);
int32_t ij__tok_find_special(const ij_tok *t, const char *name); /* -1: none */

/* Streaming: bytes in, whole characters out. Holds at most 3 bytes; bytes that can no longer become valid UTF-8 give U+FFFD, one
 * per maximal invalid part. */
typedef struct ij_utf8_stream {
  unsigned char held[4];
  int n_held;
} ij_utf8_stream;

/* Appends n bytes, writes what is complete to out (room for 3 * (n + 3) bytes) and returns its length. */
size_t ij__utf8_stream_push(ij_utf8_stream *s, const char *bytes, size_t n, char *out);
size_t ij__utf8_stream_flush(ij_utf8_stream *s, char *out); /* at most 3 bytes */

#endif
