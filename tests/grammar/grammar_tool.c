/* grammar_tool.c: grammars from the command line, for tests that compare them with other programs.
 *
 * Usage: grammar_tool VOCABULARY walk N SEED  or  grammar_tool VOCABULARY accept. Input lines have fields between tabs, texts as hexadecimal digits:
 * "json SCHEMA" or "regex PATTERN", and for accept a third field with the text. Output, a line for each input line: for walk, N texts of
 * random tokens brought to an end; for accept, 1 or 0 by bytes, and 1 or 0 by the tokens of the text as the vocabulary encodes it; or
 * "error STATUS WHERE: MESSAGE".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/guide.h"
#include "inkjet_chat.h"
#include "test.h"

enum { MAX_LINE = 1 << 22, MAX_TEXT = 1 << 16 };

static ij_tokenizer *vocab;
static int32_t byte_ids[256];

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static size_t from_hex(const char *hex, char *out) {
  size_t n = 0;
  for (; digit(hex[0]) >= 0 && digit(hex[1]) >= 0; hex += 2) out[n++] = (char)(digit(hex[0]) * 16 + digit(hex[1]));
  return n;
}

static void find_bytes(void) {
  for (int32_t id = 0; id < ij_tokenizer_size(vocab); id++) {
    const char *bytes;
    size_t n;
    if (!ij_is_special(vocab, id) && ij_decode(vocab, id, false, &bytes, &n) && n == 1) byte_ids[(unsigned char)bytes[0]] = id;
  }
}

static ij_guide *open_guide(const ij_grammar *g) {
  ij_guide *guide = NULL;
  ij_guide_options o = ij_guide_options_default();
  o.state = IJ_TURN_TEXT;
  o.content = g;
  return ij_guide_open(&guide, vocab, &o, NULL) == IJ_OK ? guide : NULL;
}

static bool allowed(ij_guide *guide, int32_t id) { return ij_guide_mask(guide)[id / 32] >> (id % 32) & 1; }

static bool accepts(const ij_grammar *g, const int32_t *ids, size_t n, bool masks) {
  ij_guide *guide = open_guide(g);
  bool ok = guide != NULL;
  for (size_t i = 0; i < n && ok; i++) {
    bool may = masks && allowed(guide, ids[i]);
    ok = ij_guide_accept(guide, ids[i], NULL) == IJ_OK;
    if (masks && ok != may) printf("mask and accept differ ");
  }
  ok = ok && allowed(guide, ij_find_special(vocab, "<|end_message|>"));
  ij_guide_close(&guide);
  return ok;
}

static void accept_text(const ij_grammar *g, const char *hex) {
  static char text[MAX_TEXT];
  static int32_t ids[MAX_TEXT];
  size_t n = from_hex(hex, text), n_ids = 0;
  for (size_t i = 0; i < n; i++) ids[i] = byte_ids[(unsigned char)text[i]];
  printf("%d ", accepts(g, ids, n, false));
  if (ij_encode(vocab, text, n, false, ids, MAX_TEXT, &n_ids, NULL) != IJ_OK) exit(1);
  printf("%d\n", accepts(g, ids, n_ids, true));
}

static int32_t pick(ij_guide *guide, uint64_t *seed) {
  const uint32_t *mask = ij_guide_mask(guide);
  int32_t n_words = (ij_tokenizer_size(vocab) + 31) / 32, found = -1;
  uint64_t n = 0;
  for (int32_t w = 0; w < n_words; w++) n += (uint64_t)__builtin_popcount(mask[w]);
  uint64_t at = n ? test_random(seed) % n : 0;
  for (int32_t w = 0; w < n_words && found < 0; w++) {
    for (uint32_t bits = mask[w]; bits && found < 0; bits &= bits - 1) {
      if (at-- == 0) found = 32 * w + __builtin_ctz(bits);
    }
  }
  return found;
}

static void walk(const ij_grammar *g, uint64_t *seed, int n_random) {
  ij_guide *guide = open_guide(g);
  for (int i = 0; guide && i < 100000; i++) {
    int32_t id = i < n_random ? pick(guide, seed) : ij__guide_way_out(guide);
    const char *bytes;
    size_t n;
    if (id < 0 || !allowed(guide, id) || ij_guide_accept(guide, id, NULL) != IJ_OK) {
      printf("stuck");
      break;
    }
    if (ij_is_special(vocab, id)) break;
    ij_decode(vocab, id, false, &bytes, &n);
    for (size_t k = 0; k < n; k++) printf("%02x", (unsigned char)bytes[k]);
  }
  printf(" ");
  ij_guide_close(&guide);
}

int main(int argc, char **argv) {
  static char line[MAX_LINE], source[MAX_LINE], last[MAX_LINE], kind[16];
  ij_err err;
  bool walking = argc == 5 && strcmp(argv[2], "walk") == 0;
  if (!walking && !(argc == 3 && strcmp(argv[2], "accept") == 0)) {
    return fputs("usage: grammar_tool VOCABULARY walk N SEED | accept\n", stderr), 2;
  }
  if (ij_tokenizer_open(&vocab, argv[1], &err) != IJ_OK) return fprintf(stderr, "%s: %s\n", err.where, err.message), 1;
  find_bytes();
  uint64_t seed = walking ? strtoull(argv[4], NULL, 10) : 0;
  ij_grammar *keep = NULL, *g = NULL;
  if (ij_grammar_json(&keep, vocab, NULL, 0, &err) != IJ_OK) return fprintf(stderr, "%s: %s\n", err.where, err.message), 1;
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    char *field = strchr(line, '\t'), *text = field ? strchr(field + 1, '\t') : NULL;
    if (!field) return fputs("grammar_tool: a line without fields\n", stderr), 2;
    *field = 0;
    if (text) *text = 0;
    if (!g || strcmp(line, kind) != 0 || strcmp(field + 1, last) != 0) { /* questions about one grammar come one after the other */
      ij_grammar_close(&g);
      snprintf(kind, sizeof kind, "%.15s", line);
      memcpy(last, field + 1, strlen(field + 1) + 1);
      size_t n = from_hex(field + 1, source);
      ij_status status = (strcmp(line, "regex") == 0 ? ij_grammar_regex : ij_grammar_json)(&g, vocab, source, n, &err);
      if (status != IJ_OK) {
        printf("error %s %s: %s\n", ij_status_name(status), err.where, err.message);
        continue;
      }
    }
    if (walking) {
      for (int i = 0; i < atoi(argv[3]); i++) walk(g, &seed, i * 7);
      printf("\n");
    } else {
      accept_text(g, text ? text + 1 : "");
    }
  }
  ij_grammar_close(&g);
  ij_grammar_close(&keep);
  ij_tokenizer_close(&vocab);
  return 0;
}
