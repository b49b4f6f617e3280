/* test_tok.c: the tokenizer on a small vocabulary made here, against plain definitions written down again in this file.
 *
 * The real vocabulary is too large for the repository: tests/tokenizer has the checks against it.
 */
#include <pthread.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "test.h"
#include "text/split.h"
#include "text/tok.h"
#include "text/unicode_tables.h"

/* -------------------------------------------------------------------------------------------------------- vocabularies */

static const char *const merged_tokens[] = {"ab", "aa", " a", "aab", "aaaa", "bc", "abc", " ab", "b ", "\xC3\xA9", "ba", "aaaaaaaaaa"};
enum { N_TOKENS = 256 + (int)IJ_COUNT_OF(merged_tokens) };

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

static void put_base64(ij_buf *b, const char *s, size_t n) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    unsigned x = 0;
    for (size_t k = 0; k < 3; k++) x = x << 8 | (i + k < n ? (unsigned char)s[i + k] : 0u);
    for (size_t k = 0; k < 4; k++) ij__buf_printf(b, "%c", i + k <= n ? alphabet[x >> (18 - 6 * k) & 63] : '=');
  }
}

static void put_ranks(ij_buf *b, int n_tokens) {
  for (int id = 0; id < n_tokens; id++) {
    size_t n;
    const char *s = token_bytes(id, &n);
    put_base64(b, s, n);
    ij__buf_printf(b, " %d\n", id);
  }
}

/* Byte-level spelling, escaped for JSON. */
static void put_spelled(ij_buf *b, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unsigned c = (unsigned char)s[i], next = 0x100;
    for (unsigned k = 0; k < c; k++) next += !((k >= 0x21 && k <= 0x7E) || (k >= 0xA1 && k <= 0xAC) || k >= 0xAE);
    bool plain = (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || c >= 0xAE;
    ij__buf_printf(b, "\\u%04x", plain ? c : next);
  }
}

static int find_bytes(const char *s, size_t n) {
  for (int id = 0; id < N_TOKENS; id++) {
    size_t m;
    const char *t = token_bytes(id, &m);
    if (m == n && memcmp(s, t, n) == 0) return id;
  }
  return -1;
}

static void put_merges(ij_buf *b, bool pairs) {
  bool first = true;
  for (int id = 256; id < N_TOKENS; id++) {
    size_t n;
    const char *s = token_bytes(id, &n);
    for (size_t i = 1; i < n; i++) {
      if (find_bytes(s, i) < 0 || find_bytes(s + i, n - i) < 0) continue;
      ij__buf_puts(b, first ? "" : ",");
      ij__buf_puts(b, pairs ? "[\"" : "\"");
      put_spelled(b, s, i);
      ij__buf_puts(b, pairs ? "\",\"" : " ");
      put_spelled(b, s + i, n - i);
      ij__buf_puts(b, pairs ? "\"]" : "\"");
      first = false;
    }
  }
}

static void put_json_string(ij_buf *b, const char *s) {
  for (; *s; s++) ij__buf_printf(b, *s == '\\' || *s == '"' ? "\\%c" : "%c", *s);
}

static void put_json(ij_buf *b, bool pairs, bool ignore_merges) {
  ij__buf_puts(b, "{\"added_tokens\":[{\"id\":300,\"content\":\"<|x|>\",\"special\":true},"
                  "{\"id\":301,\"content\":\"<|x|>y\",\"special\":true},"
                  "{\"id\":302,\"content\":\"word\",\"special\":false}],\"normalizer\":null,"
                  "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"");
  put_json_string(b, ij__split_expression);
  ij__buf_puts(b, "\"},\"behavior\":\"Isolated\",\"invert\":false},"
                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
                  "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"byte_fallback\":false,");
  ij__buf_printf(b, "\"ignore_merges\":%s,\"vocab\":{", ignore_merges ? "true" : "false");
  for (int id = 0; id < N_TOKENS; id++) {
    size_t n;
    const char *s = token_bytes(id, &n);
    ij__buf_puts(b, id ? ",\"" : "\"");
    put_spelled(b, s, n);
    ij__buf_printf(b, "\":%d", id);
  }
  ij__buf_puts(b, "},\"merges\":[");
  put_merges(b, pairs);
  ij__buf_puts(b, "]}}");
}

/* ------------------------------------------------------------------------------------------------------------- files */

static char folder[512];

static char *write_file(const char *name, const char *bytes, size_t n) {
  char *path = ij__os_join(folder, name);
  FILE *f = path ? fopen(path, "wb") : NULL;
  CHECK(f && fwrite(bytes, 1, n, f) == n);
  if (f) fclose(f);
  return path;
}

static ij_status open_bytes(ij_tok **t, const char *bytes, size_t n, ij_err *err) {
  char *path = write_file("vocabulary", bytes, n);
  ij_status status = ij__tok_open(t, path, err);
  unlink(path);
  ij__free(path);
  return status;
}

static ij_tok *open_ranks(void) {
  ij_buf b = {0};
  ij_tok *t = NULL;
  ij_err err;
  put_ranks(&b, N_TOKENS);
  CHECK_OK(open_bytes(&t, b.data, b.len, &err), err);
  ij__buf_free(&b);
  return t;
}

static ij_tok *open_json(bool pairs, bool ignore_merges) {
  ij_buf b = {0};
  ij_tok *t = NULL;
  ij_err err;
  put_json(&b, pairs, ignore_merges);
  CHECK_OK(open_bytes(&t, b.data, b.len, &err), err);
  ij__buf_free(&b);
  return t;
}

/* ------------------------------------------------------------------------------------------- the splitter, by definition */

typedef struct point {
  unsigned class, first; /* class bits, first byte */
  size_t at;
} point;

static const unsigned S1 = IJ_CC_UPPER | IJ_CC_BOTH | IJ_CC_MARK, S2 = IJ_CC_LOWER | IJ_CC_BOTH | IJ_CC_MARK;

static int plain_run(const point *t, int n, int i, unsigned mask) {
  while (i < n && (t[i].class & mask)) i++;
  return i;
}

static int plain_contraction(const point *t, int n, int e) {
  static const char *const ends[] = {"s", "t", "m", "d", "re", "ve", "ll"};
  if (e >= n || t[e].first != '\'') return e;
  for (size_t k = 0; k < IJ_COUNT_OF(ends); k++) {
    int m = (int)strlen(ends[k]);
    bool same = e + m < n;
    for (int i = 0; same && i < m; i++) same = (t[e + 1 + i].first | 32u) == (unsigned char)ends[k][i];
    if (same) return e + 1 + m;
  }
  return e;
}

static int plain_lower(const point *t, int n, int p) {
  for (int s = plain_run(t, n, p, S1); s >= p; s--) {
    if (s < n && (t[s].class & S2)) return plain_contraction(t, n, plain_run(t, n, s, S2));
  }
  return -1;
}

static int plain_upper(const point *t, int n, int p) {
  if (p >= n || !(t[p].class & S1)) return -1;
  return plain_contraction(t, n, plain_run(t, n, plain_run(t, n, p, S1), S2));
}

static int plain_next(const point *t, int n, int i) {
  bool prefix = !(t[i].class & (IJ_CC_NEWLINE | IJ_CC_LETTER | IJ_CC_NUMBER));
  int e = prefix ? plain_lower(t, n, i + 1) : -1;
  if (e < 0) e = plain_lower(t, n, i);
  if (e < 0 && prefix) e = plain_upper(t, n, i + 1);
  if (e < 0) e = plain_upper(t, n, i);
  if (e >= 0) return e;
  if (t[i].class & IJ_CC_NUMBER) return IJ_MIN(plain_run(t, n, i, IJ_CC_NUMBER), i + 3);
  int j = i + (t[i].first == ' ');
  if (j < n && (t[j].class & (IJ_CC_OTHER | IJ_CC_MARK))) {
    e = plain_run(t, n, j, IJ_CC_OTHER | IJ_CC_MARK);
    while (e < n && (t[e].first == '\r' || t[e].first == '\n' || t[e].first == '/')) e++;
    return e;
  }
  int r = plain_run(t, n, i, IJ_CC_SPACE);
  for (e = r; e > i; e--) {
    if (t[e - 1].class & IJ_CC_NEWLINE) return e;
  }
  return r < n && r - i >= 2 ? r - 1 : r;
}

static const char *const hostile[] = {"a", "b", "c", "A", "B", "\xC3\xA9", "\xC3\x89", "\xD6\x80", "\xE6\x97\xA5",
                                      "\xCC\x81", "\xE0\xB8\xB4", "\xC7\x85",
                                      "1", "\xD9\xA1", "\xE2\x85\xA0", " ", " ", "\t", "\n", "\r", "\xC2\xA0", "\xE3\x80\x80", "/",
                                      "!", "'", "'", "s", "S",
                                      "l", "L", "re", "\xF0\x9F\x99\x82", "\xFF", "\x80", "\xE6\x97", "\xE2\x80\x8B", "\xCA\xB0"};

static size_t random_text(uint64_t *seed, char *out, int n_parts) {
  size_t n = 0;
  for (int i = 0; i < n_parts; i++) {
    const char *s = hostile[test_random(seed) % IJ_COUNT_OF(hostile)];
    memcpy(out + n, s, strlen(s));
    n += strlen(s);
  }
  return n;
}

static void split_as_defined(void) {
  uint64_t seed = 20;
  for (int round = 0; round < 60000; round++) {
    uint64_t before = seed;
    char text[256];
    point t[256];
    size_t bytes = random_text(&seed, text, 1 + (int)(test_random(&seed) % 24));
    char *exact = malloc(bytes); /* so that a sanitizer sees reads beyond the end */
    memcpy(exact, text, bytes);
    const unsigned char *p = (const unsigned char *)exact, *end = p + bytes;
    int n = 0, len;
    for (size_t at = 0; at < bytes; at += (size_t)len, n++) t[n] = (point){ij__utf8_class(p + at, end, &len), p[at], at};
    for (int i = 0; i < n;) {
      int next = plain_next(t, n, i);
      size_t want = next < n ? t[next].at : bytes, got = (size_t)(ij__split_next(p + t[i].at, end) - p);
      if (got != want) {
        TEST_FAIL("seed %llu: piece at byte %zu ends at %zu, expected %zu", (unsigned long long)before, t[i].at, got, want);
        break;
      }
      i = next;
    }
    free(exact);
  }
}

/* ------------------------------------------------------------------------------------------------ merging, by definition */

static size_t plain_encode_piece(const char *p, size_t n, int32_t *ids) {
  size_t starts[2048], count = n, best_at = 0;
  int whole = find_bytes(p, n);
  if (whole >= 0) return ids[0] = whole, 1;
  for (size_t i = 0; i <= n; i++) starts[i] = i;
  for (;;) {
    int best = -1;
    for (size_t k = 0; k + 1 < count; k++) {
      int id = find_bytes(p + starts[k], starts[k + 2] - starts[k]);
      if (id >= 0 && (best < 0 || id < best)) best = id, best_at = k;
    }
    if (best < 0) break;
    memmove(starts + best_at + 1, starts + best_at + 2, (count - best_at - 1) * sizeof *starts);
    count--;
  }
  for (size_t k = 0; k < count; k++) ids[k] = find_bytes(p + starts[k], starts[k + 1] - starts[k]);
  return count;
}

static void check_same_ids(const int32_t *got, size_t n_got, const int32_t *want, size_t n_want, uint64_t seed) {
  if (n_got == n_want && memcmp(got, want, n_got * sizeof *got) == 0) return;
  TEST_FAIL("seed %llu: %zu ids, expected %zu, or other ones", (unsigned long long)seed, n_got, n_want);
}

static void merge_as_defined(void) {
  static int32_t want[2048], got[2048];
  ij_tok *forms[] = {open_ranks(), open_json(false, true), open_json(true, false)};
  uint64_t seed = 7;
  for (int round = 0; round < 600; round++) {
    uint64_t before = seed;
    char text[512];
    size_t n = 1 + test_random(&seed) % (round % 8 == 0 ? 400 : 60), n_want = 0, n_got;
    for (size_t i = 0; i < n; i++) text[i] = "aaaabbbc  "[test_random(&seed) % (round % 2 ? 8 : 10)];
    for (const unsigned char *p = (unsigned char *)text, *end = p + n, *next; p < end; p = next) {
      next = ij__split_next(p, end);
      n_want += plain_encode_piece((const char *)p, (size_t)(next - p), want + n_want);
    }
    for (size_t f = 0; f < IJ_COUNT_OF(forms); f++) {
      CHECK(ij__tok_encode(forms[f], text, n, false, got, 2048, &n_got, NULL) == IJ_OK);
      check_same_ids(got, n_got, want, n_want, before);
    }
  }
  for (size_t f = 0; f < IJ_COUNT_OF(forms); f++) ij__tok_close(&forms[f]);
}

/* A token that merging does not build (aaaa aaaa aa cannot become ten letters) is emitted whole only where the file says so. */
static void unreachable_token(void) {
  ij_tok *ranks = open_ranks(), *merging = open_json(false, false);
  int32_t id = -1;
  size_t n_ids = 0;
  CHECK(ij__tok_encode(ranks, "aaaaaaaaaa", 10, false, &id, 1, &n_ids, NULL) == IJ_OK);
  CHECK_INT(n_ids, 1);
  for (int again = 0; again < 2; again++) { /* the second time from what the first found out */
    CHECK(ij__tok_encode(merging, "aaaaaaaaaa", 10, false, &id, 1, &n_ids, NULL) == IJ_OK);
    CHECK_INT(n_ids, 3);
  }
  ij__tok_close(&ranks);
  ij__tok_close(&merging);
}

typedef struct encoding_thread {
  const ij_tok *t;
  int32_t ids[2048];
  size_t n_ids;
} encoding_thread;

static void *encode_in_thread(void *arg) {
  encoding_thread *e = arg;
  char text[1500];
  for (size_t i = 0; i < sizeof text; i++) text[i] = "aabab caaaaaaaaaa bc"[i * i % 20];
  for (int again = 0; again < 50; again++) CHECK(ij__tok_encode(e->t, text, sizeof text, true, e->ids, 2048, &e->n_ids, NULL) == IJ_OK);
  return NULL;
}

/* One vocabulary, in the form that finds out while encoding which tokens merging builds; the thread sanitizer looks on. */
static void threads_agree(void) {
  static encoding_thread threads[3];
  pthread_t handles[3];
  ij_tok *t = open_json(false, false);
  for (int i = 0; i < 3; i++) threads[i].t = t;
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&handles[i], NULL, encode_in_thread, &threads[i]) == 0);
  for (int i = 0; i < 3; i++) pthread_join(handles[i], NULL);
  CHECK(threads[0].n_ids > 0);
  for (int i = 1; i < 3; i++) check_same_ids(threads[i].ids, threads[i].n_ids, threads[0].ids, threads[0].n_ids, 0);
  ij__tok_close(&t);
}

static void bytes_come_back(void) {
  static char text[3000], back[3000];
  static int32_t ids[3000];
  ij_tok *t = open_ranks();
  uint64_t seed = 99;
  for (int round = 0; round < 2000; round++) {
    uint64_t before = seed;
    size_t n = test_random(&seed) % 1000, n_ids = 0, n_back = 0;
    if (round % 2) n = random_text(&seed, text, (int)(n / 4));
    else for (size_t i = 0; i < n; i++) text[i] = (char)test_random(&seed);
    CHECK(ij__tok_encode(t, text, n, round % 3 == 0, ids, 3000, &n_ids, NULL) == IJ_OK);
    for (size_t i = 0; i < n_ids; i++) {
      const char *bytes;
      size_t m;
      CHECK(ij__tok_bytes(t, ids[i], false, &bytes, &m));
      memcpy(back + n_back, bytes, m);
      n_back += m;
    }
    if (n_back != n || memcmp(back, text, n) != 0) TEST_FAIL("seed %llu: bytes do not come back", (unsigned long long)before);
  }
  ij__tok_close(&t);
}

static void small_buffer(void) {
  ij_tok *t = open_ranks();
  int32_t ids[3] = {-1, -1, -1};
  size_t n_ids = 0;
  CHECK(ij__tok_encode(t, "xyz", 3, false, ids, 2, &n_ids, NULL) == IJ_OK);
  CHECK_INT(n_ids, 3);
  CHECK_INT(ids[1], 'y' ^ 0x5A);
  CHECK_INT(ids[2], -1);
  CHECK(ij__tok_encode(t, NULL, 0, false, NULL, 0, &n_ids, NULL) == IJ_OK);
  CHECK_INT(n_ids, 0);
  ij__tok_close(&t);
}

static void specials(void) {
  ij_tok *t = open_json(false, true);
  static const char text[] = "a<|x|><|x|>yword<|x";
  int32_t ids[32];
  size_t n = 0, n_ids = 0;
  const char *bytes;
  CHECK(ij__tok_encode(t, text, strlen(text), true, ids, 32, &n_ids, NULL) == IJ_OK);
  CHECK_INT(n_ids, 7);
  CHECK_INT(ids[0], 'a' ^ 0x5A);
  CHECK_INT(ids[1], 300);
  CHECK_INT(ids[2], 301); /* the longest name wins */
  CHECK_INT(ids[3], 302);
  CHECK_INT(ids[4], '<' ^ 0x5A);
  CHECK(ij__tok_encode(t, text, strlen(text), false, ids, 32, &n_ids, NULL) == IJ_OK);
  CHECK_INT(n_ids, strlen(text));
  CHECK(ij__tok_is_special(t, 300) && !ij__tok_is_special(t, 302) && !ij__tok_is_special(t, 1) && !ij__tok_is_special(t, -1));
  CHECK_INT(ij__tok_find_special(t, "<|x|>y"), 301);
  CHECK_INT(ij__tok_find_special(t, "<|x"), -1);
  CHECK(ij__tok_bytes(t, 300, false, &bytes, &n) && n == 0);
  CHECK(ij__tok_bytes(t, 300, true, &bytes, &n) && n == 5 && memcmp(bytes, "<|x|>", 5) == 0);
  CHECK(ij__tok_bytes(t, 302, false, &bytes, &n) && n == 4);
  CHECK(!ij__tok_bytes(t, 290, false, &bytes, &n) && !ij__tok_bytes(t, 303, true, &bytes, &n) && !ij__tok_bytes(t, -1, true, &bytes, &n));
  CHECK_INT(ij__tok_size(t), 303);
  ij__tok_close(&t);
}

/* One giant piece, and texts that tempt a splitter to look again and again: a quadratic step anywhere would take hours. */
static void hostile_text_is_linear(void) {
  static const char *const units[] = {"a", "A", " ", "\xCC\x81", "\xCC\x81Q", "\n ", "!", "'s", "\xE6\x97\xA5", "\xFF",
                                      " A", "1", "<|", "A\xCC\x81", "ab"};
  enum { BYTES = 1 << 20 };
  char *text = malloc(BYTES);
  int32_t *ids = malloc(BYTES * sizeof *ids);
  ij_tok *t = open_json(false, true);
  for (size_t u = 0; u < IJ_COUNT_OF(units); u++) {
    size_t m = strlen(units[u]), n = BYTES / m * m, n_ids = 0;
    for (size_t i = 0; i < n; i++) text[i] = units[u][i % m];
    double start = ij__os_seconds();
    CHECK(ij__tok_encode(t, text, n, true, ids, BYTES, &n_ids, NULL) == IJ_OK);
    double seconds = ij__os_seconds() - start;
    if (seconds > 20) TEST_FAIL("1 MiB of \"%s\" took %.1f s", units[u], seconds);
  }
  free(text);
  free(ids);
  ij__tok_close(&t);
}

/* ------------------------------------------------------------------------------------------------------------- bad files */

typedef struct bad_edit {
  const char *find, *replace; /* first occurrence in the small tokenizer.json */
  ij_status status;
  const char *message;
} bad_edit;

static void check_edit(const char *json, const bad_edit *e) {
  const char *at = strstr(json, e->find);
  CHECK(at != NULL);
  if (!at) return;
  ij_buf b = {0};
  ij_tok *t = NULL;
  ij_err err = {0};
  ij__buf_append(&b, json, (size_t)(at - json));
  ij__buf_puts(&b, e->replace);
  ij__buf_puts(&b, at + strlen(e->find));
  ij_status status = open_bytes(&t, b.data, b.len, &err);
  if (status != e->status) TEST_FAIL("%s -> %s: %s, expected %s", e->find, e->replace, ij_status_name(status), ij_status_name(e->status));
  CHECK(t == NULL);
  char all[sizeof err.where + sizeof err.message + 2];
  snprintf(all, sizeof all, "%s: %s", err.where, err.message);
  CHECK_HAS(all, e->message);
  ij__tok_close(&t);
  ij__buf_free(&b);
}

/* The first ranks alone are a vocabulary; its control tokens follow them, under the family's names. */
static void shortened_vocabulary(void) {
  ij_buf b = {0}, edited = {0};
  ij_tok *t = NULL;
  ij_err err = {0};
  put_json(&b, false, true);
  const char *find = "\"content\":\"<|x|>\"", *at = strstr(b.data, find);
  CHECK(at != NULL);
  if (at) {
    ij__buf_append(&edited, b.data, (size_t)(at - b.data));
    ij__buf_puts(&edited, "\"content\":\"<|end_message|>\"");
    ij__buf_puts(&edited, at + strlen(find));
    CHECK(open_bytes(&t, edited.data, edited.len, &err) == IJ_OK);
    if (t) CHECK_INT(ij__tok_find_special(t, "<|end_message|>"), 300);
  }
  ij__tok_close(&t);
  ij__buf_free(&edited);
  ij__buf_free(&b);
}

static void bad_json(void) {
  static const bad_edit edits[] = {
      {"\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}", IJ_E_UNSUPPORTED, "NFC"},
      {"Isolated", "Removed", IJ_E_UNSUPPORTED, "Removed"},
      {"{1,3}", "{1,2}", IJ_E_UNSUPPORTED, "{1,2}"},
      {"\"invert\":false", "\"invert\":true", IJ_E_UNSUPPORTED, "invert"},
      {"\"add_prefix_space\":false", "\"add_prefix_space\":true", IJ_E_UNSUPPORTED, "add_prefix_space"},
      {"\"use_regex\":false", "\"use_regex\":true", IJ_E_UNSUPPORTED, "use_regex"},
      {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Metaspace\"}", IJ_E_UNSUPPORTED, "Metaspace"},
      {"\"post_processor\":null", "\"post_processor\":{\"type\":\"RobertaProcessing\"}", IJ_E_UNSUPPORTED, "Roberta"},
      {"\"byte_fallback\":false", "\"byte_fallback\":true", IJ_E_UNSUPPORTED, "byte_fallback"},
      {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", IJ_E_UNSUPPORTED, "Unigram"},
      {"\"type\":\"BPE\"", "\"dropout\":0.5", IJ_E_UNSUPPORTED, "dropout"},
      {"\"content\":\"<|x|>\"", "\"content\":\"<|x|>\",\"lstrip\":true", IJ_E_UNSUPPORTED, "lstrip"},
      {"\"id\":300", "\"id\":3.5", IJ_E_FORMAT, "added_tokens id"},
      {"\"id\":300", "\"id\":3", IJ_E_FORMAT, "given twice"},
      {"\"id\":300", "\"id\":99999999", IJ_E_FORMAT, "outside"},
      {"<|x|>y", "<|x|>", IJ_E_FORMAT, "both spelled"},
      {"\"id\":300,\"content\":\"<|x|>\"", "\"id\":200011,\"content\":\"<|end_message|>\"", IJ_E_FORMAT, "200010 in the family"},
      {"\"content\":\"<|x|>\"", "\"content\":\"\"", IJ_E_FORMAT, "empty"},
      {":255", ":254", IJ_E_FORMAT, "given twice"},
      {":255", ":\"x\"", IJ_E_FORMAT, "model.vocab"},
      {"\"\\u0061\\u0062\":256", "\"\\u4e00\":256", IJ_E_FORMAT, "byte-level spelling"},
      {"\"\\u0041\":", "\"\\u0041\\u0041\\u0041\":", IJ_E_FORMAT, "0x41"},
      {"\"merges\":[\"\\u0061 \\u0062\"", "\"merges\":[\"\\u0061\\u0062\"", IJ_E_FORMAT, "merges[0]"},
      {"\"merges\":[\"\\u0061 \\u0062\"", "\"merges\":[\"\\u0061 \\u0078\"", IJ_E_FORMAT, "merged token is not"},
      {"\"merges\":[\"\\u0061 \\u0062\"", "\"merges\":[\"\\u0061 \\u0062\\u0062\"", IJ_E_FORMAT, "a side is not"},
      {"\"merges\":[\"\\u0061 \\u0062\"", "\"merges\":[7", IJ_E_FORMAT, "merges[0]"},
      {"\"merges\"", "\"marges\"", IJ_E_FORMAT, "model.merges"},
      {"\"vocab\"", "\"vocal\"", IJ_E_FORMAT, "model.vocab"},
      {"\"model\":{", "\"model\":[{", IJ_E_FORMAT, "JSON"},
  };
  ij_buf b = {0};
  put_json(&b, false, true);
  for (size_t i = 0; i < IJ_COUNT_OF(edits); i++) check_edit(b.data, &edits[i]);
  ij__buf_free(&b);
}

static void bad_ranks(void) {
  static const struct bad_line {
    const char *line, *message;
  } lines[] = {
      {"YWI", "no space"},          {"YWI= x", "rank is not"},   {"YWI= -1", "rank is not"},     {"YWI= 12345678", "rank is not"},
      {"YW*= 270", "not base64"},   {"YWI 270", "not base64"},   {"YWJ= 270", "not base64"},     {"=WI= 270", "not base64"},
      {" 270", "empty"},            {"eHg= 271", "is missing"},  {"eHg= 5", "given twice"},      {"YWI= 268", "same bytes"},
      {"eHg= 200058", "beyond"},    {"YWI= ", "rank is not"},    {"PHxlbmRfbWVzc2FnZXw+ 200001", "200010 in the family"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(lines); i++) {
    ij_buf b = {0};
    ij_tok *t = NULL;
    ij_err err = {0};
    put_ranks(&b, N_TOKENS);
    ij__buf_printf(&b, "%s\n", lines[i].line);
    CHECK_INT(open_bytes(&t, b.data, b.len, &err), IJ_E_FORMAT);
    CHECK_HAS(err.message, lines[i].message);
    ij__tok_close(&t);
    ij__buf_free(&b);
  }
}

static void ranks_forms(void) {
  ij_buf b = {0};
  ij_tok *t = NULL;
  ij_err err;
  put_ranks(&b, 255); /* one byte is missing */
  CHECK_INT(open_bytes(&t, b.data, b.len, &err), IJ_E_FORMAT);
  CHECK_HAS(err.message, "1 of the 256 are missing");
  CHECK_INT(open_bytes(&t, "", 0, &err), IJ_E_FORMAT);
  b.len = 0;
  put_ranks(&b, 256);
  ij__buf_puts(&b, "PHxlbmRfbWVzc2FnZXw+ 200010\r\n\r\n"); /* a special with its line */
  CHECK_OK(open_bytes(&t, b.data, b.len, &err), err);
  CHECK(t && ij__tok_size(t) == 200011 && ij__tok_is_special(t, 200010));
  CHECK_INT(t ? ij__tok_find_special(t, "<|end_message|>") : 0, 200010);
  CHECK_INT(t ? ij__tok_find_special(t, "<|endoftext|>") : 0, -1);
  ij__tok_close(&t);
  ij__buf_free(&b);
}

/* What is JSON, or is called so, is judged as JSON. */
static void json_that_is_no_tokenizer(void) {
  static const struct {
    const char *name, *text, *message;
  } files[] = {{"tokenizer.json", "[]", "expected an object, found an array"}, {"tokenizer.json", "null", "expected an object, found null"},
               {"tokenizer.json", "YQ== 0\n", "not valid JSON"},               {"tokenizer.json", "", "expected JSON"},
               {"vocabulary", " [1]", "expected an object, found an array"},    {"vocabulary", "null", "no space"}};
  for (size_t i = 0; i < IJ_COUNT_OF(files); i++) {
    ij_tok *t = NULL;
    ij_err err = {0};
    char *path = write_file(files[i].name, files[i].text, strlen(files[i].text));
    CHECK_INT(ij__tok_open(&t, path, &err), IJ_E_FORMAT);
    CHECK_HAS(err.message, files[i].message);
    unlink(path);
    ij__free(path);
  }
}

static void folders(void) {
  ij_tok *t = NULL;
  ij_err err;
  ij_buf ranks = {0}, json = {0};
  put_ranks(&ranks, N_TOKENS);
  put_json(&json, false, true);
  CHECK_INT(ij__tok_open(&t, folder, &err), IJ_E_IO);
  CHECK_HAS(err.message, "tokenizer.json");
  char *one = write_file("one.tiktoken", ranks.data, ranks.len);
  CHECK_OK(ij__tok_open(&t, folder, &err), err);
  CHECK_INT(t ? ij__tok_size(t) : 0, N_TOKENS);
  ij__tok_close(&t);
  char *two = write_file("two.tiktoken", ranks.data, ranks.len);
  CHECK_INT(ij__tok_open(&t, folder, &err), IJ_E_FORMAT);
  char *full = write_file("tokenizer.json", json.data, json.len);
  CHECK_OK(ij__tok_open(&t, folder, &err), err);
  CHECK_INT(t ? ij__tok_size(t) : 0, 303);
  ij__tok_close(&t);
  CHECK_INT(ij__tok_open(&t, "no/such/file", &err), IJ_E_IO);
  char *paths[] = {one, two, full};
  for (size_t i = 0; i < IJ_COUNT_OF(paths); i++) unlink(paths[i]), ij__free(paths[i]);
  ij__buf_free(&ranks);
  ij__buf_free(&json);
}

static void out_of_memory(void) {
  ij_buf b = {0};
  put_json(&b, true, false);
  char *path = write_file("vocabulary", b.data, b.len);
  int64_t blocks = ij__alloc_blocks();
  ij_status status = IJ_E_NOMEM;
  for (int64_t n = 1; status != IJ_OK && n < 1000; n++) {
    ij_tok *t = NULL;
    ij__alloc_fail_after(n);
    status = ij__tok_open(&t, path, NULL);
    ij__alloc_fail_after(0);
    if (status != IJ_OK) CHECK(t == NULL);
    ij__tok_close(&t);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
  CHECK_INT(status, IJ_OK);
  unlink(path);
  ij__free(path);
  ij__buf_free(&b);
}

/* ---------------------------------------------------------------------------------------------------------- streaming */

static void stream_known(void) {
  static const struct stream_case {
    const char *in, *out;
  } known[] = {
      {"a\xC3\xA9z", "a\xC3\xA9z"},
      {"\xF0\x9F\x99\x82", "\xF0\x9F\x99\x82"},
      {"\xF0\x80\x80" "A", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" "A"},     /* overlong: every byte alone */
      {"\xE6\x97\xE6\x97\xA5", "\xEF\xBF\xBD\xE6\x97\xA5"},                 /* two bytes of three: one part */
      {"\xF0\x9F\x99" "A", "\xEF\xBF\xBD" "A"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},             /* a surrogate */
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xC0\xAF\xF5\xFF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xC3\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
      {"\xF4\x8F\xBF\xBF\xEE\x80\x80\xE0\xA0\x80", "\xF4\x8F\xBF\xBF\xEE\x80\x80\xE0\xA0\x80"},
      {"\xE6\x97", "\xEF\xBF\xBD"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(known); i++) {
    ij_utf8_stream s = {0};
    char out[64];
    size_t n = ij__utf8_stream_push(&s, known[i].in, strlen(known[i].in), out);
    n += ij__utf8_stream_flush(&s, out + n);
    out[n] = 0;
    CHECK_STR(out, known[i].out);
    CHECK_INT(ij__utf8_stream_flush(&s, out), 0);
  }
}

static void stream_chunks(void) {
  uint64_t seed = 5;
  for (int round = 0; round < 5000; round++) {
    uint64_t before = seed;
    char text[64], whole[3 * 67], parts[3 * 67];
    size_t n = 0, n_parts = 0;
    while (n < 50) n += random_text(&seed, text + n, 1);
    for (size_t i = 0; i < n; i++) text[i] = (char)(test_random(&seed) % 6 ? text[i] : (char)test_random(&seed));
    ij_utf8_stream a = {0}, b = {0};
    size_t n_whole = ij__utf8_stream_push(&a, text, n, whole);
    n_whole += ij__utf8_stream_flush(&a, whole + n_whole);
    for (size_t i = 0, m; i < n; i += m) {
      m = 1 + test_random(&seed) % 5;
      m = IJ_MIN(m, n - i);
      n_parts += ij__utf8_stream_push(&b, text + i, m, parts + n_parts);
      CHECK(b.n_held <= 3);
    }
    n_parts += ij__utf8_stream_flush(&b, parts + n_parts);
    if (n_parts != n_whole || memcmp(parts, whole, n_parts) != 0) {
      TEST_FAIL("seed %llu: chunks give another text", (unsigned long long)before);
    }
  }
}

int main(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/inkjet-tok-XXXXXX", base ? base : P_tmpdir);
  if (!mkdtemp(folder)) return 1;
  RUN(split_as_defined);
  RUN(merge_as_defined);
  RUN(unreachable_token);
  RUN(threads_agree);
  RUN(bytes_come_back);
  RUN(small_buffer);
  RUN(specials);
  RUN(hostile_text_is_linear);
  RUN(shortened_vocabulary);
  RUN(bad_json);
  RUN(bad_ranks);
  RUN(ranks_forms);
  RUN(json_that_is_no_tokenizer);
  RUN(folders);
  RUN(out_of_memory);
  RUN(stream_known);
  RUN(stream_chunks);
  rmdir(folder);
  return test_report();
}
