/* test_rows.c: rows of media in a session, on a tiny model: where they go, what is refused, what a session remembers of them, and that
 * every way to the same ids and media gives the same bits.
 */
#include "tape.h"
#include "tiny.h"

#define N 14
#define H 8
#define IMAGE 15
#define SOUND 14

static tiny t; /* six layers, 18 ids; 15 and 14 are the placeholders */
static ij_model *m;
static const int32_t ids[N] = {1, 4, IMAGE, IMAGE, IMAGE, IMAGE, IMAGE, 9, SOUND, SOUND, 16, 3, IMAGE, 7};
static float values[3][5 * H]; /* three media */
static float plain[N * 18];    /* logits after every id, in one shot */

static void media(ij_rows out[3]) {
  out[0] = (ij_rows){.first = 2, .n = 5, .rows = values[0], .digest = {11, 12}};
  out[1] = (ij_rows){.first = 8, .n = 2, .rows = values[1], .row0 = 3, .digest = {21, 22}}; /* rows 3 and 4 of a sound */
  out[2] = (ij_rows){.first = 12, .n = 1, .rows = values[2], .digest = {11, 13}};
}

/* The media that stand at ids [from, to), as a caller who cuts the prompt there would pass them. */
static int cut(ij_rows *out, int64_t from, int64_t to) {
  ij_rows all[3];
  int n = 0;
  media(all);
  for (int i = 0; i < 3; i++) {
    int64_t first = all[i].first > from ? all[i].first : from, end = all[i].first + all[i].n < to ? all[i].first + all[i].n : to;
    if (first >= end) continue;
    out[n] = all[i];
    out[n].first = first - from;
    out[n].n = end - first;
    out[n].rows += (first - all[i].first) * H;
    out[n++].row0 += first - all[i].first;
  }
  return n;
}

static ij_status eval_part(ij_session *s, int64_t from, int64_t to, float *logits, ij_err *err) {
  ij_rows rows[3];
  int n = cut(rows, from, to);
  ij_step_item item = {.session = s, .ids = ids + from, .n = to - from, .rows = rows, .n_rows = n, .logits_all = logits};
  return ij_step(m, &item, 1, err);
}

/* What the session remembers is what stands in the first pos ids: one span per medium, however it was cut. */
static void expect_placed(const ij_session *s) {
  ij_rows want[3];
  int n_want = cut(want, 0, ij_session_pos(s)), n = -1;
  const ij_rows *got = ij_session_rows(s, &n);
  CHECK_INT(n, n_want);
  for (int i = 0; i < n && i < n_want; i++) {
    CHECK_INT(got[i].first, want[i].first);
    CHECK_INT(got[i].n, want[i].n);
    CHECK_INT(got[i].row0, want[i].row0);
    CHECK(got[i].rows == NULL && memcmp(got[i].digest, want[i].digest, sizeof want->digest) == 0);
  }
}

/* Evaluates what is left of the ids and compares the logits of each. */
static void expect_rest(ij_session *s, int chunk, const char *how, int a) {
  static float logits[N * 18];
  ij_err err = {0};
  int64_t begin = ij_session_pos(s);
  for (int64_t at = begin; at < N; at += chunk) {
    CHECK_OK(eval_part(s, at, at + chunk < N ? at + chunk : N, logits + at * 18, &err), err);
  }
  if (memcmp(logits + begin * 18, plain + begin * 18, (size_t)(N - begin) * 18 * sizeof *plain) != 0) TEST_FAIL("%s (%d, %d): other bits", how, a, chunk);
  expect_placed(s);
}

static void rows_stand_in_for_embeddings(void) {
  static float with[7 * N * H], without[7 * N * H];
  ij_err err = {0};
  ij_rows rows[3];
  int n = cut(rows, 0, N);
  ij_session *s = tiny_session(m, 32, 8), *u = tiny_session(m, 32, 8);
  ij_step_item items[2] = {{.session = s, .ids = ids, .n = N, .rows = rows, .n_rows = n, .trace = with, .logits_all = plain},
                           {.session = u, .ids = ids, .n = N, .trace = without}};
  CHECK_OK(ij_step(m, items, 2, &err), err);
  for (int i = 0; i < N; i++) {
    const float *row = NULL;
    for (int j = 0; j < n; j++) {
      if (i >= rows[j].first && i < rows[j].first + rows[j].n) row = rows[j].rows + (i - rows[j].first) * H;
    }
    CHECK(memcmp(with + i * H, row ? row : without + i * H, H * sizeof *with) == 0); /* as it is: no norm */
  }
  CHECK(memcmp(with + 6 * N * H, without + 6 * N * H, 2 * H * sizeof *with) == 0);                             /* before the media */
  CHECK(memcmp(with + (6 * N + 7) * H, without + (6 * N + 7) * H, H * sizeof *with) != 0);                     /* text that sees them */
  CHECK(memcmp(ij_session_logits(s), plain + (N - 1) * 18, 18 * sizeof *plain) == 0);
  expect_placed(s);
  ij_session_close(&s);
  ij_session_close(&u);
}

static void same_however_it_is_cut(void) {
  for (int threads = 1; threads <= 3; threads++) {
    ij_model *mine = m;
    m = tiny_open(&t, threads, threads == 1 ? 3 : 64);
    for (int chunk = 1; chunk <= N; chunk++) {
      ij_session *s = tiny_session(m, 32, 16);
      expect_rest(s, chunk, "in chunks, threads", threads);
      ij_session_close(&s);
    }
    ij_model_close(&m);
    m = mine;
  }
}

static void same_after_rollback_and_fork(void) {
  ij_err err = {0};
  for (int keep = 0; keep < N; keep++) {
    ij_session *s = tiny_session(m, 32, 16), *f = NULL;
    CHECK_OK(eval_part(s, 0, N, NULL, &err), err);
    CHECK_OK(ij_session_rollback(s, N - keep, &err), err);
    expect_placed(s);
    CHECK_OK(ij_session_fork(&f, s, &err), err);
    expect_placed(f);
    expect_rest(s, 4, "after rollback to", keep);
    expect_rest(f, 5, "after rollback and fork at", keep);
    ij_session_close(&s);
    ij_session_close(&f);
  }
}

/* --------------------------------------------------------------------------------------------------------------- saving */

static tape saved;

static void save(const ij_session *s) {
  ij_err err = {0};
  saved.len = saved.at = 0;
  CHECK_OK(ij_session_save(s, tape_write, &saved, &err), err);
}

static void put_u64(size_t at, uint64_t v) {
  for (int i = 0; i < 8; i++) saved.bytes[at + (size_t)i] = (unsigned char)(v >> (8 * i));
}

/* The checksum of docs/formats/session.md, over all but the last eight bytes, put there. */
static void seal(void) {
  uint64_t h = 0xcbf29ce484222325u, word = 0;
  size_t n = saved.len - 8;
  for (size_t i = 0; i < n; i++) {
    word |= (uint64_t)saved.bytes[i] << (8 * (i % 8));
    if (i % 8 != 7) continue;
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    word = 0;
  }
  h = (h ^ word) * 0x9e3779b97f4a7c15u;
  put_u64(n, h ^ (h >> 29));
  saved.at = 0;
}

static void same_after_restore(void) {
  ij_err err = {0};
  for (int at = 1; at < N; at++) {
    ij_session *s = tiny_session(m, 32, 16), *r = tiny_session(m, 20, 4);
    CHECK_OK(eval_part(s, 0, at, NULL, &err), err);
    save(s);
    CHECK_OK(eval_part(r, 0, N, NULL, &err), err); /* what it held before is gone */
    CHECK_OK(ij_session_restore(r, tape_read, &saved, &err), err);
    expect_placed(r);
    expect_rest(r, 3, "after restore at", at);
    ij_session_close(&s);
    ij_session_close(&r);
  }
}

static void sessions_of_version_1_are_read(void) {
  ij_err err = {0};
  static const int32_t text[] = {1, 4, 9, 16};
  ij_session *s = tiny_session(m, 32, 16), *r = tiny_session(m, 32, 16);
  CHECK_OK(ij_session_eval(s, text, 4, &err), err);
  save(s);
  saved.len -= 8; /* without the number of media */
  saved.bytes[4] = 1;
  seal();
  CHECK_OK(eval_part(r, 0, N, NULL, &err), err);
  CHECK_OK(ij_session_restore(r, tape_read, &saved, &err), err);
  int n = -1;
  ij_session_rows(r, &n);
  CHECK_INT(n, 0);
  CHECK_INT(ij_session_pos(r), 4);
  CHECK(memcmp(ij_session_logits(r), ij_session_logits(s), 18 * sizeof(float)) == 0);
  saved.bytes[4] = 3;
  seal();
  CHECK_INT(ij_session_restore(r, tape_read, &saved, &err), IJ_E_UNSUPPORTED);
  ij_session_close(&s);
  ij_session_close(&r);
}

/* The media are the last of a payload: their number, five words each, the checksum. */
static void media_that_cannot_be_are_refused(void) {
  static const struct {
    int word; /* of the second medium: first, n, row0 */
    uint64_t value;
  } bad[] = {{0, 6}, {0, 7}, {0, 14}, {0, UINT64_MAX}, {1, 0}, {1, 3}, {1, 7}, {1, UINT64_MAX}, {2, UINT64_MAX}, {2, INT64_MAX}};
  ij_err err = {0};
  ij_session *s = tiny_session(m, 32, 16), *r = tiny_session(m, 32, 16);
  CHECK_OK(eval_part(s, 0, N, NULL, &err), err);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    save(s);
    put_u64(saved.len - 8 - 2 * 40 + 8 * (size_t)bad[i].word, bad[i].value);
    seal();
    ij_status status = ij_session_restore(r, tape_read, &saved, &err);
    if (status != IJ_E_FORMAT) TEST_FAIL("word %d = %llu: %s", bad[i].word, (unsigned long long)bad[i].value, ij_status_name(status));
    CHECK_INT(ij_session_pos(r), 0);
  }
  static const uint64_t numbers[] = {4, 15, UINT64_MAX};
  for (int i = 0; i < 3; i++) {
    save(s);
    put_u64(saved.len - 8 - 3 * 40 - 8, numbers[i]);
    seal();
    CHECK_INT(ij_session_restore(r, tape_read, &saved, &err), IJ_E_FORMAT);
  }
  int n = -1;
  ij_session_rows(r, &n);
  CHECK_INT(n, 0);
  ij_session_close(&s);
  ij_session_close(&r);
}

/* ------------------------------------------------------------------------------------------------------------ comparing */

static void common_beginnings(void) {
  ij_err err = {0};
  ij_rows rows[3];
  ij_session *s = tiny_session(m, 32, 16);
  CHECK_INT(ij_session_common(s, ids, N, NULL, 0), 0);
  CHECK_OK(eval_part(s, 0, N, NULL, &err), err);
  media(rows);
  CHECK_INT(ij_session_common(s, ids, N, rows, 3), N);
  CHECK_INT(ij_session_common(s, ids, 5, rows, 1), 5);
  CHECK_INT(ij_session_common(s, ids, N, NULL, 0), 2);     /* no picture: its first row differs */
  CHECK_INT(ij_session_common(s, ids, N, rows, 2), 12);
  CHECK_INT(ij_session_common(s, ids, N, rows + 1, 2), 2);
  rows[1].digest[1]++; /* another sound */
  CHECK_INT(ij_session_common(s, ids, N, rows, 3), 8);
  media(rows);
  rows[1].row0 = 2; /* other rows of it */
  CHECK_INT(ij_session_common(s, ids, N, rows, 3), 8);
  media(rows);
  ij_rows pieces[4] = {rows[0], rows[0], rows[1], rows[2]}; /* the picture in two pieces is the same picture */
  pieces[0].n = 2;
  pieces[1].first = 4, pieces[1].n = 3, pieces[1].row0 = 2;
  CHECK_INT(ij_session_common(s, ids, N, pieces, 4), N);
  pieces[1].row0 = 3;
  CHECK_INT(ij_session_common(s, ids, N, pieces, 4), 4);
  int32_t other[N];
  memcpy(other, ids, sizeof other);
  other[7] = 2; /* another text after the picture */
  CHECK_INT(ij_session_common(s, other, N, rows, 3), 7);
  CHECK_INT(ij_ids_common(ids, N, rows, 3, other, N, rows, 3), 7);
  CHECK_INT(ij_ids_common(ids, N, rows, 3, ids, N, pieces, 4), 4);
  ij_session_close(&s);
}

/* ------------------------------------------------------------------------------------------------------------- refusals */

static void refuse(ij_rows rows[3], int n_rows, const char *what) {
  ij_err err = {0};
  ij_session *s = tiny_session(m, 32, 8);
  ij_status status = ij_session_eval_rows(s, ids, N, rows, n_rows, &err);
  if (status != IJ_E_ARGUMENT) TEST_FAIL("%s: %s", what, ij_status_name(status));
  CHECK_INT(ij_session_pos(s), 0);
  if (rows) media(rows); /* as they were */
  ij_session_close(&s);
}

static void rows_in_wrong_places_are_refused(void) {
  ij_rows r[3];
  ij_err err = {0};
  media(r);
  refuse(NULL, 1, "no rows at all");
  refuse(r, -1, "a negative number");
  r[1].rows = NULL;
  refuse(r, 3, "NULL");
  r[0].first = -1;
  refuse(r, 3, "before the ids");
  r[0].first = INT64_MAX;
  refuse(r, 1, "far behind the ids");
  r[0].n = 0;
  refuse(r, 3, "none of a medium");
  r[0].n = INT64_MAX;
  refuse(r, 1, "more than there are ids");
  r[2].n = 2;
  refuse(r, 3, "a placeholder and a text");
  r[0].first = 1;
  refuse(r, 3, "a text");
  r[1] = r[0];
  refuse(r, 2, "the same place twice");
  r[0] = r[1];
  r[1].first = 2;
  refuse(r, 2, "not ascending");
  r[1].row0 = -1;
  refuse(r, 3, "a row before the first of its medium");
  CHECK_INT(ij_session_eval_rows(NULL, ids, N, r, 3, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_model_placeholder(m, false), IMAGE);
  CHECK_INT(ij_model_placeholder(m, true), SOUND);
}

static void rows_that_are_no_numbers_are_found(void) {
  ij_err err = {0};
  ij_session *s = tiny_session(m, 32, 16);
  float kept = values[2][3];
  CHECK_OK(eval_part(s, 0, 10, NULL, &err), err);
  values[2][3] = NAN;
  CHECK_INT(eval_part(s, 10, N, NULL, &err), IJ_E_NUMERIC);
  CHECK_HAS(err.message, "a row of a medium");
  values[2][3] = kept;
  CHECK_INT(ij_session_pos(s), 10);
  expect_placed(s);
  expect_rest(s, 2, "after a failure at", 10);
  ij_session_close(&s);
}

/* ------------------------------------------------------------------------------------------------------------- memory */

static ij_status life(void) {
  ij_err err = {0};
  ij_session *s = NULL, *f = NULL;
  ij_session_options o = ij_session_options_default();
  o.n_ctx = 64;
  saved.len = saved.at = 0;
  ij_status status = ij_session_open(&s, m, &o, &err);
  if (status == IJ_OK) status = eval_part(s, 0, N, NULL, &err);
  if (status == IJ_OK) status = ij_session_fork(&f, s, &err);
  if (status == IJ_OK) status = ij_session_save(f, tape_write, &saved, &err);
  if (status == IJ_OK) status = ij_session_restore(s, tape_read, &saved, &err);
  ij_session_close(&f);
  ij_session_close(&s);
  return status;
}

static void every_failing_allocation_is_an_error_without_a_leak(void) {
  int64_t blocks = ij__alloc_blocks(), n = 1;
  for (; n < 1000; n++) {
    ij__alloc_fail_after(n);
    ij_status status = life();
    ij__alloc_fail_after(0);
    if (ij__alloc_blocks() != blocks) {
      TEST_FAIL("when allocation %d fails, %lld blocks are not given back", (int)n, (long long)(ij__alloc_blocks() - blocks));
      return;
    }
    if (status == IJ_OK) break;
    CHECK_INT(status, IJ_E_NOMEM);
  }
  CHECK(n > 5 && n < 1000);
}

int main(void) {
  uint64_t seed = 7;
  cw_dims d = cw_usual();
  tiny_build(&t, &d, IJ_DTYPE_F32, "image_token_id=15\naudio_token_id=14");
  m = tiny_open(&t, 2, 64);
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 5 * H; j++) values[i][j] = (float)((int)(test_random(&seed) % 2001) - 1000) / 400;
  }
  RUN(rows_stand_in_for_embeddings);
  RUN(same_however_it_is_cut);
  RUN(same_after_rollback_and_fork);
  RUN(same_after_restore);
  RUN(sessions_of_version_1_are_read);
  RUN(media_that_cannot_be_are_refused);
  RUN(common_beginnings);
  RUN(rows_in_wrong_places_are_refused);
  RUN(rows_that_are_no_numbers_are_found);
  RUN(every_failing_allocation_is_an_error_without_a_leak);
  ij_model_close(&m);
  tiny_free(&t);
  return test_report();
}
