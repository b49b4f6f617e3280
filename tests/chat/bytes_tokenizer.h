/* bytes_tokenizer.h: a vocabulary of the 256 bytes and the control tokens of the chat format, made where it is needed.
 *
 * Its control tokens have other numbers than the family's, as in a shortened vocabulary: what relies on numbers fails with it.
 */
#ifndef IJ_TESTS_BYTES_TOKENIZER_H
#define IJ_TESTS_BYTES_TOKENIZER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "inkjet.h"

static const char *const bytes_specials[] = {
    "<|endoftext|>", "<|message_user|>", "<|message_model|>", "<|message_system|>", "<|message_tool|>", "<|content_text|>",
    "<|content_image|>", "<|content_model_end_sampling|>", "<|content_thinking|>", "<|end_message|>", "<|content_audio_input|>",
    "<|content_tool_error|>", "<|unused_200024|>", "<|audio_end|>", "<|content_invoke_tool_json|>", "<|unused_200053|>",
    "<|unused_200054|>", "<|content_invoke_tool_text|>", "<|unused_7|>"};

/* The character by which a byte is spelled in such a file, as UTF-8. */
static inline void bytes_spell(FILE *f, int b) {
  int n_before = 0, c = b;
  bool plain = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  for (int i = 0; i < b; i++) n_before += !((i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE);
  if (!plain) c = 256 + n_before;
  if (c == '"' || c == '\\') fprintf(f, "\\%c", c);
  else if (c < 0x80) fputc(c, f);
  else fprintf(f, "%c%c", 0xC0 | c >> 6, 0x80 | (c & 0x3F));
}

static inline void bytes_write(FILE *f, const char *left_out) {
  fprintf(f, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"normalizer\":null,\"post_processor\":null,\"added_tokens\":[");
  int id = 256, n = 0;
  for (size_t i = 0; i < IJ_COUNT_OF(bytes_specials); i++) {
    if (left_out && strcmp(left_out, bytes_specials[i]) == 0) continue;
    fprintf(f, "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}",
            n++ ? "," : "", id++, bytes_specials[i]);
  }
  fprintf(f, "],\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"");
  fprintf(f, "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
             "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+");
  fprintf(f, "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]},");
  fprintf(f, "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
             "\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":true,"
             "\"vocab\":{");
  for (int b = 0; b < 256; b++) {
    fprintf(f, "%s\"", b ? "," : "");
    bytes_spell(f, b);
    fprintf(f, "\":%d", b);
  }
  fprintf(f, "},\"merges\":[]}}");
}

/* left_out: a control token that it shall lack, or NULL. Leaves the program when it cannot be made: nothing could be tested. */
static inline ij_tokenizer *bytes_tokenizer(const char *left_out) {
  static int n_made;
  static ij_memory_file files[8]; /* these live as long as the program */
  static char names[8][32];
  int n = n_made++;
  ij_tokenizer *t = NULL;
  ij_err err = {0};
  char *bytes = NULL;
  size_t n_bytes = 0;
  FILE *f = n < 8 ? open_memstream(&bytes, &n_bytes) : NULL;
  if (!f) exit(3);
  bytes_write(f, left_out);
  fclose(f);
  files[n] = (ij_memory_file){"tokenizer.json", bytes, n_bytes};
  snprintf(names[n], sizeof names[n], "builtin:bytes%d", n);
  if (ij_add_memory_folder(names[n], &files[n], 1, &err) != IJ_OK || ij_tokenizer_open(&t, names[n], &err) != IJ_OK) {
    fprintf(stderr, "%s: %s\n", err.where, err.message);
    exit(3);
  }
  return t;
}

#endif
