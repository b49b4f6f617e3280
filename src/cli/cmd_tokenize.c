/* cmd_tokenize.c: `inkjet tokenize`: any bytes to ids, one line. */
#include <string.h>

#include "cli/cli.h"
#include "core/alloc.h"
#include "core/os.h"

static int check_options(const cli_args *a) {
  if (a->v[OPT_SPECIAL].set && a->v[OPT_NO_SPECIAL].set) return say_misuse(a, "--special and --no-special contradict each other");
  if (a->n_positional && a->v[OPT_FILE].set) return say_misuse(a, "more than one text is given: pass TEXT or -f FILE");
  return CLI_EXIT_OK;
}

/* By hand, through a buffer: printf would take longer than the tokenizer on large inputs. */
static void print_ids(const int32_t *ids, size_t n) {
  char text[1 << 14];
  size_t len = 0;
  for (size_t i = 0; i < n && !interrupted(); i++) {
    char digits[12];
    int at = sizeof digits;
    uint32_t v = (uint32_t)ids[i];
    do {
      digits[--at] = (char)('0' + v % 10);
      v /= 10;
    } while (v > 0);
    if (i > 0) digits[--at] = ' ';
    size_t n_digits = sizeof digits - (size_t)at;
    if (len + n_digits > sizeof text) {
      out_bytes(text, len);
      len = 0;
    }
    memcpy(text + len, digits + at, n_digits);
    len += n_digits;
  }
  out_bytes(text, len);
  out_text("\n");
}

/* Pieces that are not whole characters also come as numbers, since JSON cannot hold their bytes. */
static void json_piece(const ij_tokenizer *tokenizer, int32_t id) {
  const char *bytes = "";
  size_t n = 0;
  ij_decode(tokenizer, id, true, &bytes, &n);
  json_open('{');
  json_key("id");
  json_int(id);
  json_key("piece");
  bool whole = json_string(bytes, n);
  if (!whole) {
    json_key("bytes");
    json_open('[');
    for (size_t i = 0; i < n; i++) json_int((unsigned char)bytes[i]);
    json_close();
  }
  json_close();
}

static void print_json(const ij_tokenizer *tokenizer, const int32_t *ids, size_t n) {
  json_open('[');
  for (size_t i = 0; i < n && !interrupted(); i++) json_piece(tokenizer, ids[i]);
  json_close();
  json_end();
}

static int tokenize(const cli_args *a, const ij_tokenizer *tokenizer, const char *text, size_t n) {
  int32_t *ids = NULL;
  size_t n_ids = 0;
  double start = ij__os_seconds();
  int rc = encode_text(tokenizer, text, n, a->v[OPT_SPECIAL].set, &ids, &n_ids);
  double seconds = ij__os_seconds() - start;
  if (rc != CLI_EXIT_OK) return rc;
  if (a->v[OPT_JSON].set) {
    print_json(tokenizer, ids, n_ids);
  } else {
    print_ids(ids, n_ids);
  }
  ij__free(ids);
  if (a->v[OPT_VERBOSE].set) say_plain("%zu bytes, %zu tokens in %.3f s, %.1f MB/s", n, n_ids, seconds, seconds > 0 ? (double)n / seconds / 1e6 : 0.0);
  return interrupted() ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}

int cmd_tokenize(const cli_args *args) {
  ij_tokenizer *tokenizer = NULL;
  char *owned = NULL;
  const char *text = args->n_positional ? args->positional[0] : NULL;
  size_t n = text ? strlen(text) : 0;
  int rc = check_options(args);
  if (rc == CLI_EXIT_OK) rc = open_tokenizer(args, &tokenizer);
  if (rc == CLI_EXIT_OK && !text) {
    rc = read_input(args->v[OPT_FILE].set ? args->v[OPT_FILE].text : "-", &owned, &n);
    text = owned;
  }
  if (rc == CLI_EXIT_OK) rc = tokenize(args, tokenizer, text, n);
  ij__free(owned);
  ij_tokenizer_close(&tokenizer);
  return rc;
}
