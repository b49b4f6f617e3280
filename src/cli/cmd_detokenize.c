/* cmd_detokenize.c: `inkjet detokenize`: ids to bytes, exactly, in a stream: input of any size needs little memory. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/status.h"

typedef struct id_reader {
  const ij_tokenizer *tokenizer;
  int64_t id;       /* digits so far; -1: between ids */
  int64_t offset;   /* of the next byte */
  ij_err err;
} id_reader;

static void put_id(id_reader *r) {
  const char *bytes;
  size_t n;
  if (r->id < 0) return;
  if (!ij_decode(r->tokenizer, (int32_t)r->id, true, &bytes, &n)) {
    ij__fail(&r->err, IJ_E_FORMAT, "standard input", "the id before byte %lld is %lld; this tokenizer has no such id", (long long)r->offset,
             (long long)r->id);
    return;
  }
  out_bytes(bytes, n);
  r->id = -1;
}

static bool take_byte(id_reader *r, unsigned char c) {
  if (c >= '0' && c <= '9') {
    r->id = (r->id < 0 ? 0 : r->id) * 10 + (c - '0');
    if (r->id > INT32_MAX) ij__fail(&r->err, IJ_E_FORMAT, "standard input", "the number at byte %lld is too large for an id", (long long)r->offset);
  } else if (c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == ',') {
    put_id(r);
  } else {
    ij__fail(&r->err, IJ_E_FORMAT, "standard input", "byte 0x%02x at %lld: expected digits, blanks, line ends or commas", c, (long long)r->offset);
  }
  r->offset++;
  return r->err.code == IJ_OK;
}

static int from_stdin(id_reader *r) {
  unsigned char bytes[1 << 16];
  for (;;) {
    if (interrupted()) return CLI_EXIT_INTERRUPTED;
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) ij__fail_errno(&r->err, errno, "standard input", "cannot read");
    for (ssize_t i = 0; i < got && take_byte(r, bytes[i]); i++) continue;
    if (got == 0) put_id(r);
    if (r->err.code != IJ_OK) return say_bad_input(&r->err);
    if (got == 0 || !out_flush()) return CLI_EXIT_OK;
  }
}

/* The id in an argument, or -1: digits only. */
static int32_t parse_id(const char *text) {
  int64_t id = *text ? 0 : -1;
  for (; *text && id >= 0; text++) {
    id = *text >= '0' && *text <= '9' ? id * 10 + (*text - '0') : -1;
    if (id > INT32_MAX) id = -1;
  }
  return (int32_t)id;
}

/* All arguments are looked at before the first byte is written. */
static int from_arguments(const cli_args *a, const ij_tokenizer *tokenizer) {
  const char *bytes;
  size_t n;
  for (int i = 0; i < a->n_positional; i++) {
    int32_t id = parse_id(a->positional[i]);
    if (id < 0) return say_misuse(a, "'%s' is not accepted; expected token ids", a->positional[i]);
    if (!ij_decode(tokenizer, id, true, &bytes, &n)) {
      return say_misuse(a, "'%s' is not an id of this tokenizer, whose ids end at %d", a->positional[i], (int)ij_tokenizer_size(tokenizer) - 1);
    }
  }
  for (int i = 0; i < a->n_positional; i++) {
    if (ij_decode(tokenizer, parse_id(a->positional[i]), true, &bytes, &n)) out_bytes(bytes, n);
  }
  return CLI_EXIT_OK;
}

int cmd_detokenize(const cli_args *args) {
  ij_tokenizer *tokenizer = NULL;
  int rc = open_tokenizer(args, &tokenizer);
  if (rc == CLI_EXIT_OK) {
    id_reader r = {.tokenizer = tokenizer, .id = -1};
    rc = args->n_positional ? from_arguments(args, tokenizer) : from_stdin(&r);
  }
  ij_tokenizer_close(&tokenizer);
  return rc;
}
