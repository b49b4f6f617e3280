/* small_vocab.h: a vocabulary for tests of grammars: all bytes, the words below with all their beginnings, and the control tokens. */
#ifndef IJ_TESTS_SMALL_VOCAB_H
#define IJ_TESTS_SMALL_VOCAB_H

#include <string.h>
#include <unistd.h>

#include "core/str.h"
#include "inkjet.h"
#include "temp_folder.h"
#include "text/split.h"

static const char *const small_words[] = {
    "{\"", "\":", "\":\"", "\": \"", "\",\"", "\", \"", "\"}", "},{", "}}", "{}", "[]", "[{", "}]", "],", "null", "true", "false", " \"",
        ": ", ", ",
    "name", "get_weather", "city", "Paris", "12", "2024", " word", "hello world", "\n", "\n  ", "\n    ", "abc\",\"b", "\\n", "\\u00",
        "\xC3\xA9", "\xE6\x97\xA5",
    "\xF0\x9F\x98", "-1", "0.", "1e", "args", "\"args\":{", "\"name\":\""};
static const char *const small_controls[] = {
    "<|end_message|>", "<|content_model_end_sampling|>", "<|message_model|>", "<|content_text|>", "<|content_thinking|>",
    "<|content_invoke_tool_json|>", "<|message_user|>", "<|content_image|>"};

typedef struct small_list {
  char text[400][32];
  size_t n_text[400];
  int n;
} small_list;

static inline int small_find(const small_list *l, const char *s, size_t n) {
  for (int i = 0; i < l->n; i++) {
    if (l->n_text[i] == n && memcmp(l->text[i], s, n) == 0) return i;
  }
  return -1;
}

static inline void small_spell(ij_buf *b, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unsigned c = (unsigned char)s[i], next = 0x100;
    for (unsigned k = 0; k < c; k++) next += !((k >= 0x21 && k <= 0x7E) || (k >= 0xA1 && k <= 0xAC) || k >= 0xAE);
    bool plain = (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || c >= 0xAE;
    ij__buf_printf(b, "\\u%04x", plain ? c : next);
  }
}

static inline void small_put(ij_buf *b, const small_list *l, bool controls) {
  ij__buf_puts(b, "{\"added_tokens\":[");
  for (int i = 0; controls && i < (int)IJ_COUNT_OF(small_controls); i++) {
    ij__buf_printf(b, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", l->n + i, small_controls[i]);
  }
  ij__buf_puts(b, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"");
  for (const char *s = ij__split_expression; *s; s++) ij__buf_printf(b, *s == '\\' || *s == '"' ? "\\%c" : "%c", *s);
  ij__buf_puts(b, "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
                  "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"byte_fallback\":false,"
                  "\"ignore_merges\":true,\"vocab\":{");
  for (int i = 0; i < l->n; i++) {
    ij__buf_puts(b, i ? ",\"" : "\"");
    small_spell(b, l->text[i], l->n_text[i]);
    ij__buf_printf(b, "\":%d", i);
  }
  ij__buf_puts(b, "},\"merges\":[");
  for (int i = 256; i < l->n; i++) {
    ij__buf_puts(b, i > 256 ? ",\"" : "\"");
    small_spell(b, l->text[i], l->n_text[i] - 1);
    ij__buf_puts(b, " ");
    small_spell(b, l->text[i] + l->n_text[i] - 1, 1);
    ij__buf_puts(b, "\"");
  }
  ij__buf_puts(b, "]}}");
}

/* NULL, with a line of what went wrong, on failure. */
static inline ij_tokenizer *small_vocab(bool controls) {
  static small_list l;
  char folder[400], path[500];
  ij_tokenizer *tokenizer = NULL;
  ij_buf b = {0};
  ij_err err;
  l.n = 256;
  for (int i = 0; i < 256; i++) l.text[i][0] = (char)(i ^ 0x5A), l.n_text[i] = 1;
  for (size_t w = 0; w < IJ_COUNT_OF(small_words); w++) {
    for (size_t n = 2; n <= strlen(small_words[w]); n++) {
      if (small_find(&l, small_words[w], n) >= 0) continue;
      memcpy(l.text[l.n], small_words[w], n);
      l.n_text[l.n++] = n;
    }
  }
  small_put(&b, &l, controls);
  if (b.failed || !make_temp_folder(folder, sizeof folder)) return NULL;
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  FILE *f = fopen(path, "wb");
  if (f) {
    bool ok = fwrite(b.data, 1, b.len, f) == b.len;
    if (fclose(f) == 0 && ok && ij_tokenizer_open(&tokenizer, path, &err) != IJ_OK) printf("%s: %s\n", err.where, err.message);
  }
  ij__buf_free(&b);
  unlink(path);
  rmdir(folder);
  return tokenizer;
}

#endif
