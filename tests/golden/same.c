/* same.c: one answer. Every other way to the same tokens must give the same bits as the plain one.
 *
 *   same [--every N] [--bits FILE] FOLDER...    each holds a checkpoint and golden.json; @FILE lists folders
 *
 * The plain way: one thread, the whole prompt in one step, alone, at the best kernel level. The others: more threads, every chunking, every
 * kernel level of this processor, company of 0 to 5 other sessions, after save and restore, fork, and rollback of 1 to 40 tokens. FILE has
 * lines "name type hash" of the plain logits of some folders with a type of keys and values, the same on every architecture. N thins the lists for builds that are slow
 * (sanitizers, an emulator): every N-th chunk size, rollback, fork and restore, but all threads and levels; 0 is only the plain way, against the hash on record.
 * Scalar kernels are ten times as slow as the others. Where there are others, they get every sixth of these chunk sizes, in slow builds with two threads only:
 * what a chunk size can change is above the kernels, and a build without the others tries it with them.
 */
#include "core/cpu.h"
#include "core/map.h"
#include "golden.h"

#define CTX 256
#define N_TOKENS 120

static const char *folder;
static int32_t tokens[N_TOKENS];
static float *plain; /* [N_TOKENS, vocab] */
static int64_t n_vocab, hidden;
static ij_rows media[GOLDEN_MAX_MEDIA]; /* among the tokens */
static int n_media;
static float *media_rows;
static ij_kv_type kv;
static const char *bits_path;
static int every = 1;

/* An item for tokens [from, to), with the media there. Items of one step have places of their own for them. */
static ij_step_item item_of(ij_session *s, int64_t from, int64_t to, float *logits) {
  static ij_rows rows[8][GOLDEN_MAX_MEDIA];
  static int next;
  ij_rows *mine = rows[next++ % 8];
  return (ij_step_item){.session = s, .ids = tokens + from, .n = to - from, .logits_all = logits, .rows = mine,
                        .n_rows = golden_cut(media, n_media, hidden, from, to, mine)};
}

static ij_status eval(ij_session *s, int64_t from, int64_t to, ij_err *err) {
  ij_step_item item = item_of(s, from, to, NULL);
  return ij_session_eval_rows(s, item.ids, item.n, item.rows, item.n_rows, err);
}

static void expect_same(const float *got, int64_t from, int64_t n, const char *how, int a, int b) {
  for (int64_t t = 0; t < n; t++) {
    if (memcmp(got + t * n_vocab, plain + (from + t) * n_vocab, (size_t)n_vocab * sizeof(float)) == 0) continue;
    TEST_FAIL("%s: %s (%d, %d): logits of token %d differ in bits, by up to %.3g", folder, how, a, b, (int)(from + t),
              max_diff(got + t * n_vocab, plain + (from + t) * n_vocab, n_vocab));
    return;
  }
}

/* Evaluates tokens [from, to) in chunks and compares all logits. */
static void advance(ij_model *m, ij_session *s, int64_t from, int64_t to, int chunk, const char *how, int a, int b) {
  float *logits = malloc((size_t)(to - from) * (size_t)n_vocab * sizeof *logits);
  ij_err err;
  for (int64_t t = from; t < to; t += chunk) {
    ij_step_item item = item_of(s, t, to - t < chunk ? to : t + chunk, logits + (t - from) * n_vocab);
    CHECK_OK(ij_step(m, &item, 1, &err), err);
  }
  expect_same(logits, from, to - from, how, a, b);
  free(logits);
}

static void same_in_chunks(ij_model *m, int chunk, const char *how, int a) {
  ij_session *s = open_session_or_fail(m, CTX, kv);
  advance(m, s, 0, N_TOKENS, chunk, how, a, chunk);
  ij_session_close(&s);
}

static void same_across_threads_chunks_and_levels(void) {
  static const char *const levels[] = {"scalar", "avx2", "avx512", "neon"};
  static const int batches[] = {512, 33, 7, 1};
  const bool others = ij__cpu_has(IJ_LEVEL_AVX2) || ij__cpu_has(IJ_LEVEL_NEON);
  for (int l = 0; l < 4; l++) {
    if (!ij__cpu_has(ij__level_find(levels[l]))) continue;
    const int step = l == 0 && others ? 6 * every : every;
    for (int threads = 1; threads <= 3; threads++) {
      if (step > every && every > 1 && threads != 2) continue;
      ij_model *m = open_model_or_fail(folder, threads, batches[(threads + l) % 4], levels[l]);
      if (!m) return;
      static const int chunks[] = {1, 2, 3, 4, 5, 7, 11, 16, 17, 33, 63, 64, 65, 100, N_TOKENS};
      const int n_chunk = (int)(sizeof chunks / sizeof *chunks);
      for (int i = (5 * threads + l) % IJ_MIN(step, n_chunk); i < n_chunk; i += step) {
        same_in_chunks(m, chunks[i], levels[l], threads);
      }
      ij_model_close(&m);
    }
  }
}

/* The session under test is at `at` and takes the rest in steps together with n_other sessions of other lengths. */
static void same_in_company(void) {
  ij_model *m = open_model_or_fail(folder, 2, 64, NULL);
  if (!m) return;
  float *logits = malloc((size_t)N_TOKENS * (size_t)n_vocab * sizeof *logits);
  ij_err err;
  for (int n_other = every > 1; n_other <= 5; n_other += every) {
    ij_session *all[6];
    for (int i = 0; i <= n_other; i++) all[i] = open_session_or_fail(m, CTX * 2, kv);
    int64_t done = 0;
    for (int round = 0; done < N_TOKENS; round++) {
      ij_step_item items[6];
      int64_t n = 1 + round % 9 < N_TOKENS - done ? 1 + round % 9 : N_TOKENS - done;
      for (int i = 0; i <= n_other; i++) {
        int from = (i * 7 + round) % 60;
        items[i] = item_of(all[i], from, from + 1 + (i * 5 + round) % 12, NULL);
      }
      int me = round % (n_other + 1); /* anywhere in the list */
      items[me] = item_of(all[0], done, done + n, logits + done * n_vocab);
      if (me != 0) items[0] = item_of(all[me], 3, 5, NULL);
      CHECK_OK(ij_step(m, items, n_other + 1, &err), err);
      done += n;
      for (int i = 1; i <= n_other; i++) { /* the others must not run out of room */
        if (ij_session_pos(all[i]) > CTX) CHECK_OK(ij_session_rollback(all[i], ij_session_pos(all[i]), &err), err);
      }
    }
    expect_same(logits, 0, N_TOKENS, "in company of", n_other, 0);
    for (int i = 0; i <= n_other; i++) ij_session_close(&all[i]);
  }
  free(logits);
  ij_model_close(&m);
}

static void same_after_rollback(void) {
  ij_model *m = open_model_or_fail(folder, 2, 512, NULL);
  if (!m) return;
  ij_err err;
  for (int n = 1; n <= 40; n += every) {
    ij_session *s = open_session_or_fail(m, CTX, kv);
    int keep = 20 + n % 50;
    advance(m, s, 0, keep, 64, "before rollback", n, keep);
    int32_t wrong[40];
    for (int i = 0; i < n; i++) wrong[i] = (tokens[keep + i] + 1) % (int32_t)n_vocab;
    for (int i = 0; i < n; i += 3) CHECK_OK(ij_session_eval(s, wrong + i, n - i < 3 ? n - i : 3, &err), err);
    CHECK_OK(ij_session_rollback(s, n, &err), err);
    CHECK(ij_session_logits(s) == NULL);
    advance(m, s, keep, N_TOKENS, 1 + n % 11, "after rollback of", n, keep);
    ij_session_close(&s);
  }
  ij_model_close(&m);
}

static void rollback_has_limits(void) {
  ij_model *m = open_model_or_fail(folder, 1, 512, NULL);
  if (!m) return;
  ij_session *s = open_session_or_fail(m, CTX, kv);
  ij_err err;
  CHECK_OK(eval(s, 0, N_TOKENS, &err), err);
  CHECK_INT(ij_session_rollback(s, 65, &err), IJ_E_RANGE);
  CHECK_HAS(err.message, "64 tokens can be taken back now");
  CHECK_INT(ij_session_rollback(s, N_TOKENS + 1, &err), IJ_E_RANGE);
  CHECK_INT(ij_session_rollback(s, -1, &err), IJ_E_RANGE);
  CHECK_OK(ij_session_rollback(s, 60, &err), err);
  CHECK_INT(ij_session_rollback(s, 5, &err), IJ_E_RANGE); /* counted from the furthest position */
  CHECK_OK(ij_session_rollback(s, 4, &err), err);
  CHECK_INT(ij_session_pos(s), N_TOKENS - 64);
  advance(m, s, N_TOKENS - 64, N_TOKENS, 9, "after two rollbacks", 60, 4);
  CHECK_OK(ij_session_rollback(s, N_TOKENS, &err), err); /* emptying is always possible */
  advance(m, s, 0, N_TOKENS, N_TOKENS, "after emptying", 0, 0);
  ij_session_close(&s);
  ij_model_close(&m);
}

static void same_after_fork(void) {
  ij_model *m = open_model_or_fail(folder, 2, 512, NULL);
  if (!m) return;
  ij_err err;
  for (int at = 0; at <= N_TOKENS; at += at < 6 ? every : 19 * every) {
    ij_session *s = open_session_or_fail(m, CTX, kv), *f = NULL;
    if (at) advance(m, s, 0, at, 32, "before fork", at, 0);
    CHECK_OK(ij_session_fork(&f, s, &err), err);
    CHECK((ij_session_logits(f) == NULL) == (at == 0));
    for (int i = 0; i < 5; i++) CHECK_OK(eval(s, i, i + 1, &err), err); /* the original goes elsewhere */
    if (at < N_TOKENS) advance(m, f, at, N_TOKENS, 13, "after fork at", at, 0);
    ij_session_close(&s);
    ij_session_close(&f);
  }
  ij_model_close(&m);
}

typedef struct tape {
  char *bytes;
  size_t len, at;
} tape;

static bool tape_write(void *user, const void *bytes, size_t n) {
  tape *t = user;
  t->bytes = realloc(t->bytes, t->len + n);
  memcpy(t->bytes + t->len, bytes, n);
  t->len += n;
  return true;
}

static bool tape_read(void *user, void *bytes, size_t n) {
  tape *t = user;
  if (n > t->len - t->at) return false;
  memcpy(bytes, t->bytes + t->at, n);
  t->at += n;
  return true;
}

static void same_after_restore(void) {
  ij_model *m = open_model_or_fail(folder, 2, 512, NULL);
  if (!m) return;
  ij_err err;
  for (int at = 0; at <= N_TOKENS - 3; at += at < 6 ? every : 23 * every) {
    tape t = {0};
    ij_session *s = open_session_or_fail(m, CTX, kv);
    advance(m, s, 0, at + 3, 32, "before save", at, 0);
    CHECK_OK(ij_session_rollback(s, 3, &err), err);
    CHECK_OK(ij_session_save(s, tape_write, &t, &err), err);
    ij_session_close(&s);

    ij_session_options o = ij_session_options_default();
    o.n_ctx = CTX - 64; /* another size, so that nothing can be a plain copy */
    o.kv_type = kv;
    o.max_rollback = 17;
    CHECK_OK(ij_session_open(&s, m, &o, &err), err);
    CHECK_OK(eval(s, 0, 9, &err), err);
    CHECK_OK(ij_session_restore(s, tape_read, &t, &err), err);
    CHECK_INT(ij_session_pos(s), at);
    CHECK(memcmp(ij_session_ids(s), tokens, (size_t)at * sizeof *tokens) == 0);
    int back = at < 17 ? at : 17;
    if (back) CHECK_OK(ij_session_rollback(s, back, &err), err);
    advance(m, s, at - back, N_TOKENS, 10, "after restore at", at, back);

    /* A damaged payload is refused and leaves an empty session, wherever the damage is. */
    for (size_t cut = 0; cut < t.len; cut += 1 + t.len * (size_t)every / 37) {
      tape damaged = {malloc(t.len), t.len, 0};
      memcpy(damaged.bytes, t.bytes, t.len);
      if (cut % 2) damaged.len = cut; else damaged.bytes[cut] ^= 0x10;
      CHECK(ij_session_restore(s, tape_read, &damaged, &err) != IJ_OK);
      CHECK_INT(ij_session_pos(s), 0);
      CHECK(ij_session_logits(s) == NULL);
      free(damaged.bytes);
    }
    ij_session_close(&s);
    free(t.bytes);
  }
  ij_model_close(&m);
}

/* The token loop must not allocate, besides the list of a session's media, which grows before its step: the guard refuses and counts. */
static void no_allocation_in_the_loop(void) {
  ij_model *m = open_model_or_fail(folder, 2, 32, NULL);
  if (!m) return;
  ij_session *s = open_session_or_fail(m, CTX, kv);
  ij_err err;
  CHECK_OK(eval(s, 0, N_TOKENS, &err), err); /* once, for the list of its media */
  CHECK_OK(ij_session_rollback(s, N_TOKENS, &err), err);
  int64_t violations = ij__alloc_violations(), blocks = ij__alloc_blocks();
  size_t bytes = ij__alloc_bytes();
  CHECK_OK(eval(s, 0, N_TOKENS, &err), err);
  ij_sample_options o = ij_sample_options_default();
  o.temperature = 0.8f;
  o.top_p = 0.9f;
  ij__alloc_guard_enter();
  for (int i = 0; i < 20; i++) {
    ij_choice c = {0};
    CHECK_OK(ij_session_sample(s, &o, &c, &err), err);
    CHECK_OK(ij_session_eval(s, &c.id, 1, &err), err);
  }
  ij__alloc_guard_leave();
  CHECK_INT(ij__alloc_violations(), violations);
  CHECK_INT(ij__alloc_blocks(), blocks);
  CHECK_INT(ij__alloc_bytes(), bytes);
  ij_session_close(&s);
  ij_model_close(&m);
}

/* One bad item fails alone. */
static void bad_items_fail_alone(void) {
  ij_model *m = open_model_or_fail(folder, 2, 32, NULL);
  if (!m) return;
  ij_session *a = open_session_or_fail(m, CTX, kv), *b = open_session_or_fail(m, 8, kv);
  ij_err err;
  int32_t beyond[] = {(int32_t)n_vocab};
  float *logits = malloc((size_t)N_TOKENS * (size_t)n_vocab * sizeof *logits);
  ij_step_item items[] = {item_of(b, 0, 9, NULL), item_of(a, 0, N_TOKENS, logits), item_of(a, 0, 1, NULL), {.session = b, .ids = beyond, .n = 1}};
  CHECK_INT(ij_step(m, items, 4, &err), IJ_E_CONTEXT);
  CHECK_HAS(err.message, "do not fit into a context of 8");
  CHECK_INT(items[1].status, IJ_OK);
  CHECK_INT(items[2].status, IJ_E_ARGUMENT);
  CHECK_INT(items[3].status, IJ_E_ARGUMENT);
  CHECK_INT(ij_session_pos(b), 0);
  expect_same(logits, 0, N_TOKENS, "beside bad items", 0, 0);
  free(logits);
  ij_session_close(&a);
  ij_session_close(&b);
  ij_model_close(&m);
}

/* The hash of the plain logits against the one on record, when there is one for this folder. */
static void same_bits_as_on_record(void) {
  if (!bits_path) return;
  const char *slash = strrchr(folder, '/');
  const char *name = slash ? slash + 1 : folder;
  static const char *const kv_names[] = {[IJ_KV_BF16] = "bf16", [IJ_KV_F16] = "f16", [IJ_KV_F32] = "f32"};
  char found[17];
  snprintf(found, sizeof found, "%016llx", (unsigned long long)ij__hash_bytes(plain, (size_t)N_TOKENS * (size_t)n_vocab * sizeof *plain, 0));
  char *text = NULL;
  size_t n;
  ij_err err;
  CHECK_OK(ij__os_read_file(bits_path, 1 << 20, &text, &n, &err), err);
  bool on_record = false;
  for (char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    char want_name[256], want_kv[8], want[17];
    if (sscanf(line, "%255s %7s %16s", want_name, want_kv, want) != 3 || strcmp(want_name, name) != 0) continue;
    if (strcmp(want_kv, kv_names[kv]) != 0) continue;
    on_record = true;
    if (strcmp(want, found) != 0) TEST_FAIL("%s %s: the logits hash to %s; on record is %s", name, want_kv, found, want);
  }
  if (!on_record && every == 0) TEST_FAIL("%s %s is not on record", name, kv_names[kv]);
  if (!on_record) printf("%s %s %s (not on record)\n", name, kv_names[kv], found);
  ij__free(text);
}

static bool begin(void) {
  golden g;
  if (!golden_open(&g, folder)) return false;
  int n = 0;
  for (int i = 0; i < g.n && n < N_TOKENS; i++) tokens[n++] = g.prompt[i];
  for (int i = 0; n < N_TOKENS; i++) tokens[n++] = g.greedy[i % g.n_greedy];
  n_vocab = g.n_vocab;
  hidden = g.hidden;
  n_media = g.n_media;
  int64_t n_rows = 0;
  for (int i = 0; i < n_media; i++) n_rows += g.media[i].n;
  media_rows = malloc((size_t)(n_rows * hidden + 1) * sizeof *media_rows);
  if (n_rows > 0) memcpy(media_rows, g.media[0].rows, (size_t)(n_rows * hidden) * sizeof *media_rows);
  for (int64_t i = 0, at = 0; i < n_media; at += media[i++].n * hidden) {
    media[i] = g.media[i];
    media[i].rows = media_rows + at;
  }
  golden_close(&g);
  ij_model *m = open_model_or_fail(folder, 1, 512, NULL);
  if (!m) return false;
  ij_session *s = open_session_or_fail(m, CTX, kv);
  ij_err err;
  plain = malloc((size_t)N_TOKENS * (size_t)n_vocab * sizeof *plain);
  ij_step_item item = item_of(s, 0, N_TOKENS, plain);
  CHECK_OK(ij_step(m, &item, 1, &err), err);
  ij_session_close(&s);
  ij_model_close(&m);
  return true;
}

int main(int argc, char **argv) {
  static const ij_kv_type types[] = {IJ_KV_BF16, IJ_KV_F16, IJ_KV_F32};
  int first = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    if (strcmp(argv[first], "--bits") == 0) bits_path = argv[first + 1];
    else if (strcmp(argv[first], "--every") == 0 && atoi(argv[first + 1]) >= 0) every = atoi(argv[first + 1]);
    else TEST_FAIL("what is %s %s?", argv[first], argv[first + 1]);
  }
  static char folders[GOLDEN_MAX_FOLDERS][512];
  int n = golden_folders(folders, GOLDEN_MAX_FOLDERS, argc - first, argv + first);
  for (int i = 0; i < n; i++) {
    folder = folders[i];
    kv = types[i % 3];
    if (begin()) {
      RUN(same_bits_as_on_record);
    }
    if (plain && every > 0) {
      RUN(same_across_threads_chunks_and_levels);
      RUN(same_in_company);
      RUN(same_after_rollback);
      RUN(rollback_has_limits);
      RUN(same_after_fork);
      RUN(same_after_restore);
      RUN(no_allocation_in_the_loop);
      RUN(bad_items_fail_alone);
    }
    free(plain);
    free(media_rows);
    plain = media_rows = NULL;
  }
  return test_report();
}
