/* test_usage.c: the use of experts over sessions: what is written is read back, what is damaged is refused, one session has a bounded weight, and
 * whoever writes at the same time, one whole file is left.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/usage.h"
#include "core/alloc.h"
#include "core/os.h"
#include "temp_folder.h"
#include "test.h"

enum { N_LAYER = 3, N_EXPERT = 8, N = N_LAYER * N_EXPERT };

static const uint64_t PRINT = 0x0123456789abcdefu;
static char folder[256];

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int n_files(void) {
  char **names;
  int n = -1;
  if (ij__os_list_dir(folder, "", &names, &n, NULL) == IJ_OK) ij__os_free_names(names, n);
  return n;
}

/* Layer 0 is dense; on the others expert e gets heat `first` if it is `hot`, else 1. */
static void make_heat(float *heat, int hot, float first) {
  for (int i = 0; i < N; i++) heat[i] = i < N_EXPERT ? 0 : i % N_EXPERT == hot ? first : 1;
}

static ij_usage new_usage(void) {
  ij_usage u;
  ij_err err = {0};
  CHECK_OK(ij__usage_new(&u, PRINT, N_LAYER, N_EXPERT, &err), err);
  return u;
}

static void mix(ij_usage *u, int hot, float first, int64_t n_tokens) {
  float heat[N];
  make_heat(heat, hot, first);
  ij__usage_mix(u, &(ij_usage_session){.heat = heat, .n_tokens = n_tokens, .n_hit = 5, .n_miss = 3, .read_bytes = 1000, .read_seconds = 0.5});
}

static double sum_of_layer(const float *share, int layer) {
  double sum = 0;
  for (int e = 0; e < N_EXPERT; e++) sum += (double)share[layer * N_EXPERT + e];
  return sum;
}

static void an_empty_one_has_no_shares(void) {
  ij_err err = {0};
  ij_usage u = new_usage();
  float prior[N];
  CHECK_INT(u.n_sessions, 0);
  ij__usage_prior(&u, prior);
  for (int i = 0; i < N; i++) CHECK(u.share[i] == 0 && prior[i] == 0);
  ij__usage_free(&u);
  CHECK(u.share == NULL);
  CHECK_INT(ij__usage_new(&u, PRINT, 1 << 20, 1 << 20, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij__usage_new(&u, PRINT, -1, 8, &err), IJ_E_ARGUMENT);
}

static void shares_sum_to_one_per_layer_that_was_used(void) {
  ij_usage u = new_usage();
  float prior[N];
  mix(&u, 2, 9, 100);
  for (int layer = 0; layer < N_LAYER; layer++) CHECK_NEAR(sum_of_layer(u.share, layer), layer > 0, 1e-6);
  CHECK_NEAR(u.share[N_EXPERT + 2], 9.0 / 16, 1e-7);
  CHECK_INT(u.n_sessions, 1);
  CHECK_INT(u.n_tokens, 100);
  CHECK_NEAR(u.weight, 100, 0);
  ij__usage_prior(&u, prior); /* (100 * 9/16 + 64/8) / 164 */
  CHECK_NEAR(prior[N_EXPERT + 2], (100 * 9.0 / 16 + 8) / 164, 1e-7);
  for (int layer = 0; layer < N_LAYER; layer++) CHECK_NEAR(sum_of_layer(prior, layer), layer > 0, 1e-6);
  ij__usage_free(&u);
}

static void counters_add_up_and_end(void) {
  ij_usage u = new_usage();
  float heat[N];
  make_heat(heat, 0, 2);
  mix(&u, 1, 9, 7);
  mix(&u, 1, 9, 8);
  CHECK_INT(u.n_tokens, 15);
  CHECK_INT(u.n_hit, 10);
  CHECK_INT(u.n_miss, 6);
  CHECK_INT(u.read_bytes, 2000);
  CHECK_NEAR(u.read_seconds, 1, 0);
  ij__usage_mix(&u, &(ij_usage_session){.heat = heat, .n_tokens = INT64_MAX, .n_hit = UINT64_MAX, .read_bytes = INT64_MAX, .read_seconds = INFINITY});
  CHECK_INT(u.n_tokens, INT64_MAX);
  CHECK_INT(u.n_hit, INT64_MAX);
  CHECK_INT(u.read_bytes, INT64_MAX);
  CHECK_NEAR(u.read_seconds, 1, 0);
  ij__usage_free(&u);
}

static void a_session_without_use_changes_nothing(void) {
  ij_usage u = new_usage();
  float heat[N] = {0};
  mix(&u, 1, 9, 0);
  mix(&u, 1, 9, -5);
  ij__usage_mix(&u, &(ij_usage_session){.heat = heat, .n_tokens = 10});
  CHECK_INT(u.n_sessions, 0);
  heat[0] = NAN;
  heat[1] = -1;
  heat[2] = INFINITY;
  ij__usage_mix(&u, &(ij_usage_session){.heat = heat, .n_tokens = 10});
  CHECK_INT(u.n_sessions, 0);
  heat[3] = 2; /* and what is no number does not count beside what is */
  ij__usage_mix(&u, &(ij_usage_session){.heat = heat, .n_tokens = 10});
  CHECK_NEAR(u.share[3], 1, 0);
  CHECK(u.share[0] == 0 && u.share[1] == 0 && u.share[2] == 0);
  ij__usage_free(&u);
}

/* How far one session of n tokens, which uses expert 5 alone, moves it after `before` long sessions that use expert 1 alone. */
static double moved_by(int64_t n_tokens, int before) {
  ij_usage u = new_usage();
  for (int i = 0; i < before; i++) mix(&u, 1, 1e9f, 5000);
  mix(&u, 5, 1e9f, n_tokens);
  double share = (double)u.share[N_EXPERT + 5];
  ij__usage_free(&u);
  return share;
}

static void one_session_has_a_bounded_weight(void) {
  CHECK_NEAR(moved_by(10, 8), 10.0 / (16384 + 10), 1e-6);
  CHECK_NEAR(moved_by(2000, 8), 2000.0 / (16384 + 2000), 1e-6);
  CHECK_NEAR(moved_by(10000, 8), 1.0 / 9, 1e-6);
  CHECK_NEAR(moved_by(100000, 8), 1.0 / 9, 1e-6); /* a long prompt counts like any long session */
  CHECK_NEAR(moved_by(100000, 800), 1.0 / 9, 1e-6); /* and the past does not become immovable */
  CHECK_NEAR(moved_by(100000, 1), 0.5, 1e-6);
  CHECK(moved_by(10000, 8) > 100 * moved_by(10, 8));
}

static void what_is_old_fades(void) {
  ij_usage u = new_usage();
  for (int i = 0; i < 20; i++) mix(&u, 1, 1e9f, 5000);
  double start = (double)u.share[N_EXPERT + 1];
  for (int i = 0; i < 6; i++) mix(&u, 5, 1e9f, 5000);
  CHECK_NEAR((double)u.share[N_EXPERT + 1] / start, pow(8.0 / 9, 6), 1e-5);
  CHECK(pow(8.0 / 9, 6) < 0.5);
  ij__usage_free(&u);
}

static void a_layer_without_accesses_stays(void) {
  ij_usage u = new_usage();
  float heat[N];
  mix(&u, 1, 9, 100);
  float before = u.share[N_EXPERT + 1];
  make_heat(heat, 4, 9);
  for (int e = 0; e < N_EXPERT; e++) heat[N_EXPERT + e] = 0;
  heat[0] = 3; /* layer 0 for the first time: nothing weighs against it */
  ij__usage_mix(&u, &(ij_usage_session){.heat = heat, .n_tokens = 1});
  CHECK(u.share[N_EXPERT + 1] == before);
  CHECK_NEAR(u.share[0], 1, 0);
  CHECK_NEAR(u.share[2 * N_EXPERT + 4], 100.0 / 101 / 16 + 9.0 / 101 / 16, 1e-6);
  ij__usage_free(&u);
}

static void a_file_is_read_back(void) {
  ij_err err = {0};
  ij_usage u = new_usage(), back;
  mix(&u, 2, 9, 100);
  mix(&u, 3, 4, 50);
  const char *path = path_of("a.usage");
  CHECK_OK(ij__usage_write(&u, path, &err), err);
  CHECK_INT(n_files(), 1);
  CHECK_OK(ij__usage_read(&back, path, PRINT, N_LAYER, N_EXPERT, &err), err);
  CHECK_INT(back.n_sessions, 2);
  CHECK_INT(back.n_tokens, 150);
  CHECK_INT(back.n_hit, 10);
  CHECK_INT(back.n_miss, 6);
  CHECK_INT(back.read_bytes, 2000);
  CHECK(back.read_seconds == 1 && back.weight == 150);
  CHECK(memcmp(back.share, u.share, sizeof(float) * N) == 0);
  ij__usage_free(&back);
  ij__usage_free(&u);
  unlink(path);
}

/* ------------------------------------------------------------------------------------------------------------- hostile */

typedef struct copy {
  unsigned char bytes[4096];
  size_t n;
} copy;

static copy good_file(void) {
  copy c = {.n = 0};
  ij_usage u = new_usage();
  mix(&u, 2, 9, 100);
  void *bytes = ij__usage_bytes(&u, &c.n);
  CHECK(bytes && c.n == 88 + 4 * N + 8);
  memcpy(c.bytes, bytes, c.n);
  ij__free(bytes);
  ij__usage_free(&u);
  return c;
}

/* The checksum of docs/formats/session.md, over what is before it: the reader must find more than a wrong checksum. */
static void seal(copy *c) {
  uint64_t h = 0xcbf29ce484222325u;
  size_t n = c->n - 8;
  for (size_t at = 0; at <= n; at += 8) {
    uint64_t word = 0;
    memcpy(&word, c->bytes + at, n - at < 8 ? n - at : 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  memcpy(c->bytes + n, &h, 8);
}

static void refused(const copy *c, const char *why) {
  ij_usage u;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  CHECK_INT(ij__usage_parse(&u, c->bytes, c->n, "x.usage", PRINT, N_LAYER, N_EXPERT, &err), IJ_E_FORMAT);
  CHECK_HAS(err.message, why);
  CHECK_STR(err.where, "x.usage");
  CHECK(u.share == NULL && ij__alloc_blocks() == blocks);
}

static void put(copy *c, size_t at, const void *bytes, size_t n) {
  memcpy(c->bytes + at, bytes, n);
  seal(c);
}

static void refused_u64(size_t at, uint64_t v, const char *why) {
  copy c = good_file();
  put(&c, at, &v, sizeof v);
  refused(&c, why);
}

static void refused_u32(size_t at, uint32_t v, const char *why) {
  copy c = good_file();
  put(&c, at, &v, sizeof v);
  refused(&c, why);
}

static void refused_f64(size_t at, double v, const char *why) {
  copy c = good_file();
  put(&c, at, &v, sizeof v);
  refused(&c, why);
}

static void refused_share(int i, float v, const char *why) {
  copy c = good_file();
  put(&c, 88 + sizeof v * (size_t)i, &v, sizeof v);
  refused(&c, why);
}

static void heads_are_checked(void) {
  refused_u32(0, 1, "wrong first bytes");
  refused_u32(8, 2, "version 2");
  refused_u32(12, 4, "damaged: it tells of 4 layers");
  refused_u32(16, 0xffffffff, "4294967295 experts");
  refused_u32(20, 1, "head");
  refused_u64(24, PRINT + 1, "another architecture");
  refused_u64(32, 101, "head"); /* more sessions than tokens */
  refused_u64(32, 0, "head");   /* shares of no session */
  for (size_t at = 40; at < 72; at += 8) refused_u64(at, UINT64_MAX, "head");
  const double bad[] = {-1, NAN, INFINITY};
  for (size_t i = 0; i < 3; i++) {
    refused_f64(72, bad[i], "head");
    refused_f64(80, bad[i], "head");
  }
  refused_f64(80, 0, "head");
  refused_f64(80, 16385, "head");
}

static void shares_are_checked(void) {
  const float bad[] = {-0.25f, 1.5f, NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < 5; i++) refused_share(N_EXPERT + 3, bad[i], "share of expert 3 on layer 1");
  refused_share(N - 1, 0.5f, "the shares of layer 2 sum to");
  refused_share(0, 0.5f, "the shares of layer 0 sum to 0.5");
  copy c = good_file();
  memset(c.bytes + 32, 0, 16); /* neither sessions nor tokens nor weight, and shares all the same */
  memset(c.bytes + 80, 0, 8);
  seal(&c);
  refused(&c, "expected 0");
}

static void damage_is_found(void) {
  copy c = good_file();
  uint64_t seed = 11;
  for (size_t n = 0; n < c.n; n++) {
    copy cut = c;
    cut.n = n;
    refused(&cut, n < 8 ? "wrong first bytes" : n < 88 ? "expected at least 88 bytes" : "expected 192 bytes, found");
  }
  for (int i = 0; i < 2000; i++) {
    copy bent = c;
    bent.bytes[test_random(&seed) % c.n] ^= (unsigned char)(1 + test_random(&seed) % 255);
    refused(&bent, "");
  }
  c.n += 8;
  refused(&c, "expected 192 bytes, found 200");
}

static void a_path_is_read_as_hostile(void) {
  ij_usage u;
  ij_err err = {0};
  CHECK_INT(ij__usage_read(&u, path_of("none"), PRINT, N_LAYER, N_EXPERT, &err), IJ_E_IO);
  CHECK_INT(ij__usage_read(&u, folder, PRINT, N_LAYER, N_EXPERT, &err), IJ_E_IO);
  const char *path = path_of("huge");
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)1 << 40) == 0);
  close(fd);
  CHECK_INT(ij__usage_read(&u, path, PRINT, N_LAYER, N_EXPERT, &err), IJ_E_FORMAT);
  CHECK(u.share == NULL);
  unlink(path);
}

/* ------------------------------------------------------------------------------------------------------------- writing */

static void put_file(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fputs(text, f) >= 0);
  if (f) fclose(f);
}

static void what_is_not_ours_is_left_alone(void) {
  ij_err err = {0};
  ij_usage u = new_usage();
  char *bytes = NULL;
  size_t n = 0;
  mix(&u, 2, 9, 100);
  const char *path = path_of("notes.txt");
  put_file(path, "weights of great value");
  CHECK_INT(ij__usage_write(&u, path, &err), IJ_E_FORMAT);
  CHECK_HAS(err.message, "left alone");
  CHECK_OK(ij__os_read_file(path, 4096, &bytes, &n, &err), err);
  CHECK_STR(bytes, "weights of great value");
  ij__free(bytes);
  put_file(path, "short");
  CHECK_INT(ij__usage_write(&u, path, &err), IJ_E_FORMAT);
  put_file(path, "");
  CHECK_OK(ij__usage_write(&u, path, &err), err);
  CHECK_OK(ij__usage_write(&u, path, &err), err);
  unlink(path);
  CHECK_INT(ij__usage_write(&u, "/dev/null", &err), IJ_E_FORMAT);
  CHECK_INT(ij__usage_write(&u, folder, &err), IJ_E_FORMAT);
  CHECK_INT(n_files(), 0);
  ij__usage_free(&u);
}

static void failure_leaves_the_old_file_and_no_other(void) {
  ij_err err = {0};
  ij_usage u = new_usage(), back;
  mix(&u, 2, 9, 100);
  CHECK_INT(ij__usage_write(&u, path_of("none/a.usage"), &err), IJ_E_IO);
  const char *path = path_of("a.usage");
  CHECK_OK(ij__usage_write(&u, path, &err), err);
  mix(&u, 2, 9, 100);
  ij_status s = IJ_E_NOMEM;
  int n_failed = 0;
  for (int64_t i = 1; s != IJ_OK && i < 50; i++) { /* every allocation fails in turn */
    int64_t blocks = ij__alloc_blocks();
    ij__alloc_fail_after(i);
    s = ij__usage_write(&u, path, &err);
    ij__alloc_fail_after(0);
    if (s == IJ_OK) break;
    n_failed++;
    CHECK_INT(s, IJ_E_NOMEM);
    CHECK(ij__alloc_blocks() == blocks);
    CHECK_INT(n_files(), 1);
    CHECK_OK(ij__usage_read(&back, path, PRINT, N_LAYER, N_EXPERT, &err), err);
    CHECK_INT(back.n_sessions, 1);
    ij__usage_free(&back);
  }
  CHECK(n_failed >= 3);
  CHECK_OK(s, err);
  CHECK_INT(n_files(), 1);
  unlink(path);
  ij__usage_free(&u);
}

static ij_status record(const char *path, uint64_t fingerprint, int64_t n_tokens, ij_err *err) {
  float heat[N];
  make_heat(heat, 2, 9);
  return ij__usage_record(path, fingerprint, N_LAYER, N_EXPERT, &(ij_usage_session){.heat = heat, .n_tokens = n_tokens, .n_hit = 1}, err);
}

static int64_t sessions_in(const char *path, uint64_t fingerprint) {
  ij_usage u;
  ij_err err = {0};
  CHECK_OK(ij__usage_read(&u, path, fingerprint, N_LAYER, N_EXPERT, &err), err);
  int64_t n = u.n_sessions;
  ij__usage_free(&u);
  return n;
}

static void sessions_are_recorded(void) {
  ij_err err = {0};
  const char *path = path_of("r.usage");
  CHECK_OK(record(path, PRINT, 0, &err), err);
  CHECK_INT(n_files(), 0); /* nothing was evaluated: nothing is written */
  CHECK_OK(record(path, PRINT, 5, &err), err);
  CHECK_OK(record(path, PRINT, 5, &err), err);
  CHECK_INT(sessions_in(path, PRINT), 2);
  CHECK_OK(record(path, PRINT + 1, 5, &err), err); /* the model was replaced by another */
  CHECK_INT(sessions_in(path, PRINT + 1), 1);
  put_file(path, "IJEXPUSE and then rubbish");
  CHECK_OK(record(path, PRINT, 5, &err), err);
  CHECK_INT(sessions_in(path, PRINT), 1);
  CHECK(err.code == IJ_OK && !err.message[0]); /* that there was no file, or a damaged one, is no error */
  put_file(path, "rubbish");
  CHECK_INT(record(path, PRINT, 5, &err), IJ_E_FORMAT);
  unlink(path);
  CHECK_INT(record(path_of("none/r.usage"), PRINT, 5, &err), IJ_E_IO);
  CHECK_INT(n_files(), 0);
  if (geteuid() == 0) return; /* may write anywhere */
  CHECK(chmod(folder, 0500) == 0);
  CHECK_INT(record(path_of("r.usage"), PRINT, 5, &err), IJ_E_IO);
  CHECK(chmod(folder, 0700) == 0);
}

/* Who puts a link beside a model wants the file where the link points, also before there is one. */
static void a_link_stays_one(void) {
  char link[300], second[300], target[300];
  struct stat st;
  ij_err err = {0};
  snprintf(link, sizeof link, "%s/l.usage", folder);
  snprintf(second, sizeof second, "%s/second", folder);
  snprintf(target, sizeof target, "%s/sub/t.usage", folder);
  CHECK_INT(mkdir(path_of("sub"), 0700), 0);
  CHECK_INT(symlink(second, link), 0);
  CHECK_INT(symlink("sub/t.usage", second), 0);
  for (int i = 1; i < 3; i++) {
    CHECK_OK(record(link, PRINT, 5, &err), err);
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat(second, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat(target, &st) == 0 && S_ISREG(st.st_mode));
    CHECK_INT(sessions_in(link, PRINT), i);
  }
  unlink(second);
  CHECK_INT(symlink("l.usage", second), 0); /* a ring */
  CHECK_INT(record(link, PRINT, 5, &err), IJ_E_IO);
  unlink(target);
  unlink(link);
  unlink(second);
  rmdir(path_of("sub"));
}

/* Several processes close at once, again and again, while another reads: whole files only, and no session is lost. */
static void processes_may_close_at_once(void) {
  enum { N_PROCESSES = 4, N_TIMES = 5 };
  const char *path = path_of("p.usage");
  pid_t pids[N_PROCESSES];
  ij_err err = {0};
  CHECK_OK(record(path, PRINT, 5, &err), err);
  for (int i = 0; i < N_PROCESSES; i++) {
    pids[i] = fork();
    if (pids[i] != 0) continue;
    int failed = 0;
    for (int k = 0; k < N_TIMES; k++) failed += record(path, PRINT, 5, NULL) != IJ_OK;
    _exit(failed);
  }
  for (int i = 0; i < 50; i++) CHECK(sessions_in(path, PRINT) >= 1);
  for (int i = 0; i < N_PROCESSES; i++) {
    int status = -1;
    CHECK(pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && status == 0);
  }
  CHECK_INT(sessions_in(path, PRINT), 1 + N_PROCESSES * N_TIMES);
  CHECK_INT(n_files(), 1);
  unlink(path);
}

int main(void) {
  if (!make_temp_folder(folder, sizeof folder)) return 1;
  RUN(an_empty_one_has_no_shares);
  RUN(shares_sum_to_one_per_layer_that_was_used);
  RUN(counters_add_up_and_end);
  RUN(a_session_without_use_changes_nothing);
  RUN(one_session_has_a_bounded_weight);
  RUN(what_is_old_fades);
  RUN(a_layer_without_accesses_stays);
  RUN(a_file_is_read_back);
  RUN(heads_are_checked);
  RUN(shares_are_checked);
  RUN(damage_is_found);
  RUN(a_path_is_read_as_hostile);
  RUN(what_is_not_ours_is_left_alone);
  RUN(failure_leaves_the_old_file_and_no_other);
  RUN(sessions_are_recorded);
  RUN(a_link_stays_one);
  RUN(processes_may_close_at_once);
  rmdir(folder);
  return test_report();
}
