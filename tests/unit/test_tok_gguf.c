/* test_tok_gguf.c: the tokenizer in the keys of a GGUF file, on a small vocabulary made here: the same ids as from a rank file with the
 * same
 * tokens, one case per key that is refused, and where a path leads. The real vocabulary is checked in tests/tokenizer.
 */
#include <unistd.h>

#include "core/alloc.h"
#include "io/ckpt.h"
#include "test.h"
#include "text/tok_int.h"
#include "unit/gguf_writer.h"

static ij_err err;

/* --- a vocabulary */

static const char *const merged_tokens[] = {"ab", "aa", " a", "aab", "aaaa", "bc", "abc", " ab", "b ", "\xC3\xA9", "ba", "\n\xFF"};
enum { N_TOKENS = 256 + (int)IJ_COUNT_OF(merged_tokens), CONTROL_ID = N_TOKENS, USER_ID, UNUSED_ID, END_ID, N_ROWS };

static const char *token_bytes(int id, size_t *n) {
  static char single[256];
  if (id >= 256) {
    *n = strlen(merged_tokens[id - 256]);
    return merged_tokens[id - 256];
  }
  single[id] = (char)(id ^ 0x5A); /* bytes are not in byte order, as in the real vocabulary */
  *n = 1;
  return &single[id];
}

static int find_bytes(const char *s, size_t n) {
  for (int id = 0; id < N_TOKENS; id++) {
    size_t m;
    const char *t = token_bytes(id, &m);
    if (m == n && memcmp(s, t, n) == 0) return id;
  }
  return -1;
}

/* What a test may change before the file is made. */
typedef struct vocabulary {
  const char *model, *pre;       /* NULL: no such key */
  const char *token_0;           /* instead of token 0, spelled */
  int type_1;                    /* of token 1; 0: normal */
  int n_types;                   /* entries of token_type; -1: no such key */
  const char *merge;             /* one more merge, the last; NULL: none */
  const char *flag;              /* a key that is set to true */
  const char *id_key;            /* a key that is set to `id` */
  int64_t id;
} vocabulary;

static vocabulary usual(void) { return (vocabulary){.model = "gpt2", .pre = "inkling", .n_types = N_ROWS}; }

static void put_strings(ij_buf *list, const ij_buf *text, uint64_t *count) {
  gw_text(list, text->data, text->len);
  ++*count;
}

static void put_tokens(gw_file *f, const vocabulary *v) {
  static const char *const rest[] = {"<|x|>", "word", "[PAD270]", "<|end|>"};
  gw_array(f, "tokenizer.ggml.tokens", IJ_GGUF_STRING, N_ROWS);
  for (int id = 0; id < N_ROWS; id++) {
    ij_buf text = {0};
    size_t n = 0;
    const char *s = id < N_TOKENS ? token_bytes(id, &n) : rest[id - N_TOKENS];
    if (id == 0 && v->token_0) ij__buf_puts(&text, v->token_0);
    else if (id < N_TOKENS) gw_spell(&text, s, n);
    else ij__buf_puts(&text, s);
    gw_text(&f->values, text.data, text.len);
    ij__buf_free(&text);
  }
  if (v->n_types < 0) return;
  gw_array(f, "tokenizer.ggml.token_type", IJ_GGUF_I32, (uint64_t)v->n_types);
  for (int id = 0; id < v->n_types; id++) {
    int type = id == CONTROL_ID || id == END_ID ? 3 : id == USER_ID ? 4 : id == UNUSED_ID ? 5 : id == 1 && v->type_1 ? v->type_1 : 1;
    gw_number(&f->values, (uint64_t)(int64_t)type, 4);
  }
}

/* Every split of a token into two tokens, in the order of the tokens: what a rank file means. */
static void put_merges(gw_file *f, const vocabulary *v) {
  ij_buf list = {0}, text = {0};
  uint64_t count = 0;
  for (int id = 256; id < N_TOKENS; id++) {
    size_t n;
    const char *s = token_bytes(id, &n);
    for (size_t i = 1; i < n; i++) {
      if (find_bytes(s, i) < 0 || find_bytes(s + i, n - i) < 0) continue;
      text.len = 0;
      gw_spell(&text, s, i);
      ij__buf_append(&text, " ", 1);
      gw_spell(&text, s + i, n - i);
      put_strings(&list, &text, &count);
    }
  }
  text.len = 0;
  if (v->merge) {
    ij__buf_puts(&text, v->merge);
    put_strings(&list, &text, &count);
  }
  gw_array(f, "tokenizer.ggml.merges", IJ_GGUF_STRING, count);
  ij__buf_append(&f->values, list.data, list.len);
  ij__buf_free(&list);
  ij__buf_free(&text);
}

static gw_file make_file(const vocabulary *v) {
  gw_file f = gw_new();
  gw_string(&f, "general.architecture", "inkling");
  if (v->model) gw_string(&f, "tokenizer.ggml.model", v->model);
  if (v->pre) gw_string(&f, "tokenizer.ggml.pre", v->pre);
  put_tokens(&f, v);
  put_merges(&f, v);
  gw_int(&f, "tokenizer.ggml.bos_token_id", IJ_GGUF_U32, END_ID);
  if (v->id_key) gw_int(&f, v->id_key, IJ_GGUF_I32, v->id);
  else gw_int(&f, "tokenizer.ggml.eos_token_id", IJ_GGUF_U32, END_ID);
  gw_int(&f, v->flag ? v->flag : "tokenizer.ggml.add_bos_token", IJ_GGUF_BOOL, v->flag != NULL);
  return f;
}

/* Opens the tokenizer of the file; the file is gone afterwards. */
static ij_status open_file(ij_tok **t, gw_file *f) {
  ij_gguf g;
  ij_buf b = gw_finish(f);
  CHECK_OK(ij__gguf_parse(&g, b.data, b.len, "m.gguf", &err), err);
  CHECK(ij__tok_in_gguf(&g));
  ij_status s = ij__tok_open_gguf(t, &g, &err);
  ij__gguf_free(&g);
  memset(b.data, 0xEE, b.len);
  ij__buf_free(&b);
  return s;
}

static void refuse(const vocabulary *v, ij_status code, const char *where, const char *want) {
  gw_file f = make_file(v);
  ij_tok *t = (ij_tok *)1;
  int64_t held = ij__alloc_blocks();
  held -= f.values.data ? 1 : 0; /* given back by open_file */
  ij_status s = open_file(&t, &f);
  if (s != code) TEST_FAIL("status %s, expected %s (%s)", ij_status_name(s), ij_status_name(code), want);
  CHECK(!t);
  CHECK_INT(ij__alloc_blocks(), held);
  if (s == IJ_OK) return;
  CHECK_STR(err.where, where);
  CHECK_HAS(err.message, want);
}

/* --- what is read */

static void put_base64(ij_buf *b, const char *s, size_t n) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    unsigned x = 0;
    for (size_t k = 0; k < 3; k++) x = x << 8 | (i + k < n ? (unsigned char)s[i + k] : 0u);
    for (size_t k = 0; k < 4; k++) ij__buf_printf(b, "%c", i + k <= n ? alphabet[x >> (18 - 6 * k) & 63] : '=');
  }
}

static ij_tok *from_ranks(void) {
  ij_buf b = {0};
  ij_tok *t = NULL;
  for (int id = 0; id < N_TOKENS; id++) {
    size_t n;
    const char *s = token_bytes(id, &n);
    put_base64(&b, s, n);
    ij__buf_printf(&b, " %d\n", id);
  }
  CHECK_OK(ij__tok_open_bytes(&t, b.data, b.len, "ranks", &err), err);
  ij__buf_free(&b);
  return t;
}

static ij_tok *from_gguf(void) {
  vocabulary v = usual();
  gw_file f = make_file(&v);
  ij_tok *t = NULL;
  CHECK_OK(open_file(&t, &f), err);
  return t;
}

static void same_ids_as_ranks(void) {
  ij_tok *a = from_ranks(), *b = from_gguf();
  uint64_t seed = 77;
  for (int round = 0; a && b && round < 2000; round++) {
    char text[64];
    int32_t x[64], y[64];
    size_t n = test_random(&seed) % sizeof text, n_x = 0, n_y = 1;
    for (size_t i = 0; i < n; i++) text[i] = round % 2 ? "aab c\n\xFF\xC3\xA9"[test_random(&seed) % 9] : (char)test_random(&seed);
    CHECK_OK(ij__tok_encode(a, text, n, false, x, 64, &n_x, &err), err);
    CHECK_OK(ij__tok_encode(b, text, n, false, y, 64, &n_y, &err), err);
    CHECK_INT(n_y, n_x);
    if (n_x == n_y && memcmp(x, y, n_x * sizeof *x) != 0) TEST_FAIL("round %d: other ids", round);
  }
  ij__tok_close(&a);
  ij__tok_close(&b);
}

static void kinds_of_tokens(void) {
  ij_tok *t = from_gguf();
  if (!t) return;
  static const char text[] = "<|x|>wordab<|end|>";
  int32_t ids[64];
  size_t n = 0;
  const char *s;
  CHECK_INT(ij__tok_size(t), N_ROWS);
  CHECK_OK(ij__tok_encode(t, text, sizeof text - 1, true, ids, 64, &n, &err), err);
  static const int32_t want[] = {CONTROL_ID, USER_ID, 256, END_ID};
  CHECK_INT(n, 4);
  for (size_t i = 0; i < 4 && n == 4; i++) CHECK_INT(ids[i], want[i]);
  CHECK(ij__tok_is_special(t, CONTROL_ID) && ij__tok_is_special(t, END_ID) && !ij__tok_is_special(t, USER_ID));
  CHECK(ij__tok_bytes(t, USER_ID, false, &s, &n) && n == 4 && memcmp(s, "word", 4) == 0);
  CHECK(ij__tok_bytes(t, CONTROL_ID, false, &s, &n) && n == 0);
  CHECK(!ij__tok_bytes(t, UNUSED_ID, true, &s, &n));
  CHECK_INT(ij__tok_find_special(t, "<|end|>"), END_ID);
  CHECK_INT(ij__tok_find_special(t, "[PAD270]"), -1);
  CHECK(ij__tok_bytes(t, 0x20 ^ 0x5A, false, &s, &n) && n == 1 && *s == ' ');
  ij__tok_close(&t);
}

/* A token that merging does not build is not found, as in the library that this form comes from: here the file lacks its merge. */
static void merges_decide(void) {
  gw_file f = gw_new();
  vocabulary v = usual();
  gw_string(&f, "tokenizer.ggml.model", "gpt2");
  gw_string(&f, "tokenizer.ggml.pre", "inkling");
  put_tokens(&f, &v);
  gw_array(&f, "tokenizer.ggml.merges", IJ_GGUF_STRING, 1);
  gw_text(&f.values, "b c", 3);
  ij_tok *t = NULL;
  CHECK_OK(open_file(&t, &f), err);
  int32_t ids[8];
  size_t n = 0;
  if (t) CHECK_OK(ij__tok_encode(t, "abc", 3, false, ids, 8, &n, &err), err);
  CHECK(n == 2 && ids[0] == ('a' ^ 0x5A) && ids[1] == find_bytes("bc", 2));
  ij__tok_close(&t);
}

/* --- what is refused */

static void settings(void) {
  vocabulary v = usual();
  v.model = "llama";
  refuse(&v, IJ_E_UNSUPPORTED, "m.gguf: tokenizer.ggml.model", "expected \"gpt2\" (byte-level BPE), found \"llama\"");
  v.model = NULL;
  refuse(&v, IJ_E_FORMAT, "m.gguf: tokenizer.ggml.model", "expected a string, found nothing");
  v = usual();
  v.pre = "gpt-4o";
  refuse(&v, IJ_E_UNSUPPORTED, "m.gguf: tokenizer.ggml.pre", "expected \"inkling\" (the o200k expression with marks as part of words), "
         "found "
         "\"gpt-4o\"; this tokenizer is not the one of this family");
  v.pre = "inkling2";
  refuse(&v, IJ_E_UNSUPPORTED, "m.gguf: tokenizer.ggml.pre", "found \"inkling2\"");
  v.pre = NULL;
  refuse(&v, IJ_E_FORMAT, "m.gguf: tokenizer.ggml.pre", "expected a string, found nothing");
  static const char *const flags[] = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_sep_token",
                                      "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces"};
  for (size_t i = 0; i < IJ_COUNT_OF(flags); i++) {
    char where[100];
    snprintf(where, sizeof where, "m.gguf: %s", flags[i]);
    v = usual();
    v.flag = flags[i];
    refuse(&v, IJ_E_UNSUPPORTED, where, "expected false or none, found true");
    v = usual();
    v.id_key = flags[i];
    if (i > 0) refuse(&v, IJ_E_FORMAT, where, "expected a bool, found one value of type i32");
  }
}

static void tokens(void) {
  vocabulary v = usual();
  v.n_types = N_ROWS - 1;
  refuse(&v, IJ_E_FORMAT, "m.gguf", "tokenizer.ggml.token_type: expected as many entries as there are tokens, 272, found 271");
  v.n_types = -1;
  refuse(&v, IJ_E_FORMAT, "m.gguf: tokenizer.ggml.token_type", "expected an array of integers, found nothing");
  static const char *const not_spelled[] = {" ", "a b", "\xC4", "\xC4\x9Dq\xC4", "\xC4\xC4", "\xE2\x82\xAC", "\xC5\x84", "\xC2\x80",
                                            "\xFF"};
  for (size_t i = 0; i < IJ_COUNT_OF(not_spelled); i++) {
    v = usual();
    v.token_0 = not_spelled[i];
    refuse(&v, IJ_E_FORMAT, "m.gguf: tokenizer.ggml.tokens[0]", "is of type normal, but not in byte-level spelling");
  }
  v.token_0 = "";
  refuse(&v, IJ_E_FORMAT, "m.gguf", "token 0 is empty");
  v.token_0 = "aa";
  refuse(&v, IJ_E_FORMAT, "m.gguf", "tokens 0 and 257 have the same bytes");
  v.token_0 = "zzz";
  refuse(&v, IJ_E_FORMAT, "m.gguf", "every byte must be a token by itself, but 1 of the 256 are missing: 0x5A");
  static const int types[] = {-1, 2, 6, 7};
  for (size_t i = 0; i < IJ_COUNT_OF(types); i++) {
    char want[40];
    v = usual();
    v.type_1 = types[i];
    snprintf(want, sizeof want, "\"[\" is of type %d; expected 1", types[i]);
    refuse(&v, IJ_E_UNSUPPORTED, "m.gguf: tokenizer.ggml.tokens[1]", want);
  }
  v = usual();
  v.type_1 = 5; /* a byte that is not used is a byte that is missing */
  refuse(&v, IJ_E_FORMAT, "m.gguf", "1 of the 256 are missing: 0x5B");
}

static void merges(void) {
  static const struct {
    const char *merge, *want;
  } cases[] = {{"ab", "expected \"left right\""}, {"", "expected \"left right\""}, {" ab", "a side is empty or not in byte-level spelling"},
               {"ab ", "a side is empty or not in byte-level spelling"}, {"a b c", "a side is empty or not in byte-level spelling"},
               {"zz a", "a side is not in the vocabulary"}, {"a zz", "a side is not in the vocabulary"},
               {"z z", "the merged token is not in the vocabulary"}, {"\xC4 a", "a side is empty or not in byte-level spelling"}};
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    vocabulary v = usual();
    v.merge = cases[i].merge;
    refuse(&v, IJ_E_FORMAT, "m.gguf: tokenizer.ggml.merges[15]", cases[i].want);
  }
}

static void ids_of_ends(void) {
  static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.padding_token_id"};
  for (size_t i = 0; i < IJ_COUNT_OF(keys); i++) {
    char where[100];
    vocabulary v = usual();
    snprintf(where, sizeof where, "m.gguf: %s", keys[i]);
    v.id_key = keys[i];
    v.id = N_ROWS;
    refuse(&v, IJ_E_FORMAT, where, "expected 0 to 271, the last token, found 272");
    v.id = -1;
    refuse(&v, IJ_E_FORMAT, where, "found -1");
  }
}

/* --- where a path leads, and memory */

static void put_file(const char *folder, const char *name, bool with_keys) {
  vocabulary v = usual();
  gw_file f = with_keys ? make_file(&v) : gw_new();
  if (!with_keys) gw_string(&f, "general.architecture", "inkling");
  gw_put(folder, name, &f);
}

static int32_t size_at(const char *path) {
  ij_tok *t = NULL;
  if (ij__tok_open(&t, path, &err) != IJ_OK) return -1;
  int32_t n = ij__tok_size(t);
  ij__tok_close(&t);
  return n;
}

static void paths(void) {
  const char *base = getenv("TMPDIR");
  char folder[256], file[300], ranks[300];
  snprintf(folder, sizeof folder, "%s/inkjet-tok-XXXXXX", base && *base ? base : P_tmpdir);
  CHECK(mkdtemp(folder) != NULL);
  snprintf(file, sizeof file, "%s/m.gguf", folder);
  snprintf(ranks, sizeof ranks, "%s/r.tiktoken", folder);
  put_file(folder, "m.gguf", false);
  CHECK_INT(size_at(file), -1);
  CHECK_HAS(err.message, "no tokenizer in this file: it has no keys tokenizer.ggml.*");
  CHECK_INT(size_at(folder), -1);
  CHECK_HAS(err.message, "no tokenizer in this file");
  FILE *f = fopen(ranks, "wb");
  for (int b = 0; f && b < 256; b++) {
    ij_buf line = {0};
    put_base64(&line, &(char){(char)b}, 1);
    fprintf(f, "%s %d\n", line.data, b);
    ij__buf_free(&line);
  }
  CHECK(f && fclose(f) == 0);
  CHECK_INT(size_at(folder), 256); /* the model has none: that of the folder */
  put_file(folder, "m.gguf", true);
  CHECK_INT(size_at(folder), N_ROWS);
  CHECK_INT(size_at(file), N_ROWS);
  CHECK_INT(unlink(file) | unlink(ranks) | rmdir(folder), 0);
}

static void out_of_memory(void) {
  vocabulary v = usual();
  gw_file f = make_file(&v);
  ij_buf b = gw_finish(&f);
  ij_gguf g;
  CHECK_OK(ij__gguf_parse(&g, b.data, b.len, "m.gguf", &err), err);
  int64_t held = ij__alloc_blocks();
  int n = 0;
  for (ij_status s = IJ_E_NOMEM; s != IJ_OK && n < 200; n++) {
    ij_tok *t = NULL;
    ij__alloc_fail_after(n + 1);
    s = ij__tok_open_gguf(&t, &g, &err);
    ij__alloc_fail_after(0);
    if (s != IJ_OK) CHECK_INT(s, IJ_E_NOMEM);
    ij__tok_close(&t);
    CHECK_INT(ij__alloc_blocks(), held);
  }
  CHECK(n > 5 && n < 200);
  ij__gguf_free(&g);
  ij__buf_free(&b);
}

int main(void) {
  RUN(same_ids_as_ranks);
  RUN(kinds_of_tokens);
  RUN(merges_decide);
  RUN(settings);
  RUN(tokens);
  RUN(merges);
  RUN(ids_of_ends);
  RUN(paths);
  RUN(out_of_memory);
  return test_report();
}
