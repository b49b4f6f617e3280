/* tok_ranks.c: the tiktoken form of a vocabulary, lines of "base64 rank".
 *
 * Rank and id are the same number. The form has no special tokens of its own, but a line whose id lies where the family keeps its
 * specials is taken as the name of that special, so that a file can carry them.
 */
#include <stdio.h>

#include "core/alloc.h"
#include "text/tok_int.h"

/* 0..63, or 64 for a character outside the alphabet. */
static unsigned base64_value(unsigned char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26u;
  if (c >= '0' && c <= '9') return c - '0' + 52u;
  return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* Decodes n characters to out; the number of bytes, or -1 when they are no padded base64. */
static int64_t base64_decode(const unsigned char *in, size_t n, const uint8_t *value, unsigned char *out) {
  if (n % 4 != 0) return -1;
  size_t n_pad = n > 0 && in[n - 1] == '=' ? 1 + (in[n - 2] == '=') : 0;
  size_t n_out = 0;
  for (size_t i = 0; i < n; i += 4) {
    unsigned keep = i + 4 == n ? 4 - (unsigned)n_pad : 4;
    uint32_t x = 0;
    for (unsigned k = 0; k < 4; k++) {
      unsigned v = k < keep ? value[in[i + k]] : 0;
      if (v > 63) return -1;
      x = x << 6 | v;
    }
    if (keep < 4 && (x & (keep == 3 ? 0xFFu : 0xFFFFu))) return -1; /* bits that belong to no byte */
    out[n_out++] = (unsigned char)(x >> 16);
    if (keep > 2) out[n_out++] = (unsigned char)(x >> 8);
    if (keep > 3) out[n_out++] = (unsigned char)x;
  }
  return (int64_t)n_out;
}

/* A decimal number of at most 7 digits that fills p..end; -1 otherwise. */
static int64_t parse_rank(const char *p, const char *end) {
  if (p == end || end - p > 7) return -1;
  int64_t rank = 0;
  for (; p < end; p++) {
    if (*p < '0' || *p > '9') return -1;
    rank = rank * 10 + (*p - '0');
  }
  return rank;
}

typedef struct rank_reader {
  ij_tok *t;
  const char *path;
  int64_t line;
  uint8_t base64[256];
  unsigned char *scratch; /* as long as the longest line */
} rank_reader;

static ij_status fail_line(const rank_reader *r, ij_err *err, const char *what) {
  char where[512];
  snprintf(where, sizeof where, "%.480s:%lld", r->path, (long long)r->line);
  return ij__fail(err, IJ_E_FORMAT, where, "%s; expected the lines of a tiktoken file, \"base64 rank\"", what);
}

static ij_status read_line(rank_reader *r, const char *p, const char *end, ij_err *err) {
  if (end > p && end[-1] == '\r') end--;
  if (p == end) return IJ_OK;
  const char *space = memchr(p, ' ', (size_t)(end - p));
  if (!space) return fail_line(r, err, "no space between token and rank");
  int64_t rank = parse_rank(space + 1, end);
  if (rank < 0) return fail_line(r, err, "the rank is not a number of at most 7 digits");
  int64_t n = base64_decode((const unsigned char *)p, (size_t)(space - p), r->base64, r->scratch);
  if (n < 0) return fail_line(r, err, "the token is not base64");
  ij_tok_kind kind = rank >= IJ_TOK_N_ORDINARY ? IJ_TOK_SPECIAL : IJ_TOK_ORDINARY;
  if (rank >= IJ_TOK_N_FULL) return fail_line(r, err, "the rank lies beyond this family's last token, 200057");
  ij_status status = ij__tok_add(r->t, rank, kind, r->scratch, (size_t)n, r->path, err);
  if (status != IJ_OK && err) snprintf(err->where, sizeof err->where, "%.480s:%lld", r->path, (long long)r->line);
  return status;
}

static ij_status check_no_gap(const ij_tok *t, const char *where, ij_err *err) {
  for (uint32_t id = 0; id < t->n_ordinary; id++) {
    if (t->kinds[id] == IJ_TOK_ORDINARY) continue;
    return ij__fail(err, IJ_E_FORMAT, where, "rank %u is missing: %u tokens must have the ranks 0 to %u", id, t->n_ordinary,
                    t->n_ordinary - 1);
  }
  return IJ_OK;
}

ij_status ij__tok_read_ranks(ij_tok *t, const char *bytes, size_t n, const char *where, ij_err *err) {
  if (n == 0) return ij__fail(err, IJ_E_FORMAT, where, "expected a tokenizer, found nothing (the file is empty)");
  rank_reader r = {.t = t, .path = where};
  for (unsigned c = 0; c < 256; c++) r.base64[c] = (uint8_t)base64_value((unsigned char)c);
  r.scratch = ij__alloc(n);
  if (!r.scratch) return ij__fail_nomem(err, where, n);
  ij_status status = IJ_OK;
  for (const char *p = bytes, *end = bytes + n; status == IJ_OK && p < end;) {
    const char *line_end = memchr(p, '\n', (size_t)(end - p));
    if (!line_end) line_end = end;
    r.line++;
    status = read_line(&r, p, line_end, err);
    p = line_end + 1;
  }
  ij__free(r.scratch);
  if (status == IJ_OK) status = check_no_gap(t, where, err);
  if (status == IJ_OK) status = ij__tok_index(t, where, err);
  if (status == IJ_OK) status = ij__tok_pairs_from_ranks(t, where, err);
  return status;
}
