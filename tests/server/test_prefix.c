/* test_prefix.c: jobs of the worker with a prefix cache: how much each kind of coming back saves, and that no answer differs from the one
 * that a fresh session gives, with any state of the cache, in memory or in a folder, whole or damaged.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "worker_kit.h"

#define TURN 13 /* the id that begins a user's message here */

static tiny t;
static ij_model *m;

static ij_worker_options cached_options(void) {
  ij_worker_options o = kit_options();
  o.turn_id = TURN;
  return o;
}

/* A prompt in which TURN and the end id come only where the test puts them. */
static kit_job *plain(int n, uint64_t seed) {
  kit_job *j = kit_make(n, seed);
  for (int i = 0; i < n; i++) j->prompt[i] -= j->prompt[i] == TURN;
  return j;
}

/* A prompt that goes on from what job j said, `cut` ids before its end, with n more. */
static kit_job *after(const kit_job *j, int cut, int n, uint64_t seed) {
  kit_job *next = plain(n, seed);
  int all = j->n_prompt + j->n_got - cut;
  memmove(next->prompt + all, next->prompt, (size_t)n * sizeof *next->prompt);
  for (int i = 0; i < all; i++) next->prompt[i] = i < j->n_prompt ? j->prompt[i] : j->got[i - j->n_prompt].id;
  next->n_prompt = all + n;
  return next;
}

/* Runs it, and compares with a fresh session. */
static void run_expecting(ij_worker *w, kit_job *j, int64_t n_cached) {
  kit_run(w, j);
  CHECK_INT(j->how, IJ_JOB_LENGTH);
  CHECK_INT(j->usage.n_cached, n_cached);
  kit_expect(m, j);
}

/* ------------------------------------------------------------------------------------------------------- ways to come back */

static void a_conversation_goes_on(void) {
  ij_worker_options o = cached_options();
  ij_worker *w = kit_open(m, &o);
  kit_job *turn[4];
  turn[0] = plain(100, 1);
  run_expecting(w, turn[0], 0);
  for (int i = 1; i < 4; i++) { /* the last id of an answer was said and not evaluated */
    turn[i] = after(turn[i - 1], 0, 10, (uint64_t)i);
    turn[i]->prompt[turn[i]->n_prompt - 10] = TURN;
    turn[i]->max_tokens = 80;
    run_expecting(w, turn[i], turn[i]->n_prompt - 11);
  }
  ij_worker_stats s;
  ij__worker_stats(w, &s);
  CHECK_INT(s.cache_hits, 3);
  CHECK_INT(s.cache_misses, 1);
  CHECK(s.cache_entries > 0 && s.cache_bytes > 0);
  for (int i = 0; i < 4; i++) ij__free(turn[i]);
  ij__worker_close(&w);
}

/* The same prompt again: after short answers it is taken back, after long ones there is a copy. */
static void an_answer_is_said_again(void) {
  static const int lengths[] = {1, 30, 62, 63, 64, 65, 66, 130};
  for (int i = 0; i < 8; i++) {
    int n = lengths[i];
    ij_worker_options o = cached_options();
    ij_worker *w = kit_open(m, &o);
    for (uint64_t seed = 1; seed < 4; seed++) {
      kit_job *j = plain(100, 1);
      j->max_tokens = n;
      j->sample.temperature = 1;
      j->sample.seed = seed;
      run_expecting(w, j, seed == 1 ? 0 : n == 1 ? 100 : 99); /* 100: nothing was evaluated since, so its logits are there */
      ij__free(j);
    }
    ij__worker_close(&w);
  }
}

static void the_last_message_is_edited(void) {
  static const int lengths[] = {5, 40, 64, 65, 150};
  for (int i = 0; i < 5; i++) {
    for (int n = 2; n < 200; n += 90) {
      ij_worker_options o = cached_options();
      ij_worker *w = kit_open(m, &o);
      for (uint64_t edit = 0; edit < 3; edit++) {
        kit_job *j = plain(90, 1), *last = plain(lengths[i], 10 + edit);
        j->prompt[70] = TURN; /* of an earlier turn */
        j->prompt[80] = KIT_VOCAB - 1;
        j->prompt[89] = TURN;
        memcpy(j->prompt + 90, last->prompt, sizeof *j->prompt * (size_t)lengths[i]);
        j->n_prompt += lengths[i];
        j->max_tokens = n;
        kit_run(w, j);
        if (edit > 0) CHECK(j->usage.n_cached >= 89 && j->usage.n_cached <= 92);
        kit_expect(m, j);
        ij__free(j);
        ij__free(last);
      }
      ij__worker_close(&w);
    }
  }
}

/* Several users under one system prompt: each comes back to it, also when all come at once. */
static void many_share_a_beginning(void) {
  for (int at_once = 0; at_once < 2; at_once++) {
    ij_worker_options o = cached_options();
    o.n_parallel = 4;
    ij_worker *w = kit_open(m, &o);
    kit_job *jobs[8];
    for (int i = 0; i < 8; i++) {
      jobs[i] = plain(120, 1);
      kit_job *own = plain(120, 50 + (uint64_t)i);
      jobs[i]->prompt[119] = TURN;
      memcpy(jobs[i]->prompt + 120, own->prompt, 120 * sizeof *own->prompt);
      jobs[i]->prompt[120] = i; /* so that they differ from here on */
      jobs[i]->n_prompt = 240;
      jobs[i]->max_tokens = 90;
      kit_send(w, jobs[i]);
      if (!at_once) kit_wait(jobs[i]);
      ij__free(own);
    }
    for (int i = 0; i < 8; i++) {
      kit_wait(jobs[i]);
      int64_t n = jobs[i]->usage.n_cached;
      if (at_once && i == 0) CHECK_INT(n, 0);
      if (i > 0 && n != 119 && n != 120) TEST_FAIL("job %d of those %s has %lld ids from the cache", i, at_once ? "at once" : "in turn", (long long)n);
      kit_expect(m, jobs[i]);
      ij__free(jobs[i]);
    }
    ij__worker_close(&w);
  }
}

/* Several answers to one prompt: it is evaluated once. */
static void one_prompt_many_times_at_once(void) {
  ij_worker_options o = cached_options();
  o.n_parallel = 5;
  ij_worker *w = kit_open(m, &o);
  kit_job *jobs[5];
  int64_t cached = 0;
  for (int i = 0; i < 5; i++) {
    jobs[i] = plain(200, 1);
    jobs[i]->sample.temperature = 1;
    jobs[i]->sample.seed = (uint64_t)i;
    kit_send(w, jobs[i]);
  }
  for (int i = 0; i < 5; i++) {
    kit_wait(jobs[i]);
    cached += jobs[i]->usage.n_cached;
    kit_expect(m, jobs[i]);
  }
  CHECK(cached >= 4 * 199);
  for (int i = 0; i < 5; i++) ij__free(jobs[i]);
  ij__worker_close(&w);
}

static void a_prompt_that_was_cancelled_is_not_lost(void) {
  ij_worker_options o = cached_options();
  o.prefill_rows = 30;
  ij_worker *w = kit_open(m, &o);
  kit_job *j = plain(300, 1), *again = plain(300, 1);
  j->die_after = 6;
  kit_run(w, j);
  CHECK_INT(j->how, IJ_JOB_CANCELLED);
  CHECK_INT(j->n_got, 0);
  run_expecting(w, again, 180);
  ij__free(j);
  ij__free(again);
  ij__worker_close(&w);
}

/* ------------------------------------------------------------------------------------------------------------- eviction */

static void memory_is_bounded(void) {
  ij_worker_options o = cached_options();
  o.cache_bytes = 400 << 10;
  ij_worker *w = kit_open(m, &o);
  ij_worker_stats s;
  int most = 0;
  for (int i = 0; i < 20; i++) {
    kit_job *j = plain(100 + i, 100 + (uint64_t)i);
    j->max_tokens = 100;
    kit_run(w, j);
    kit_expect(m, j);
    ij__worker_stats(w, &s);
    CHECK(s.cache_bytes <= o.cache_bytes);
    most = s.cache_entries > most ? s.cache_entries : most;
    ij__free(j);
  }
  CHECK(most >= 3);
  kit_job *recent = plain(119, 119), *old = plain(100, 100);
  run_expecting(w, recent, 118);
  run_expecting(w, old, 0);
  ij__free(recent);
  ij__free(old);
  ij__worker_close(&w);
}

/* --------------------------------------------------------------------------------------------------------------- folder */

static char folder[256];
static int n_log;
static char last_line[512];

static void keep_line(void *user, const char *line) {
  (void)user;
  n_log++;
  snprintf(last_line, sizeof last_line, "%s", line);
}

static ij_worker_options folder_options(void) {
  ij_worker_options o = cached_options();
  o.cache_dir = folder;
  o.log = keep_line;
  return o;
}

/* Calls f with the path of every file in the folder. */
static int each_file(void (*f)(const char *path, int number), int number) {
  DIR *d = opendir(folder);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[600];
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (f) f(path, number);
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void delete_file(const char *path, int number) {
  (void)number;
  unlink(path);
}

static void states_outlive_the_worker(void) {
  ij_worker_options o = folder_options();
  ij_worker *w = kit_open(m, &o);
  kit_job *first = plain(150, 1), *next;
  run_expecting(w, first, 0);
  ij__worker_close(&w);
  CHECK_INT(each_file(NULL, 0), 1);
  w = kit_open(m, &o);
  next = after(first, 0, 20, 2);
  run_expecting(w, next, 161);
  ij_worker_stats s;
  ij__worker_stats(w, &s);
  CHECK_INT(s.cache_files, 1);
  CHECK(s.cache_dir_bytes > 0);
  ij__worker_close(&w);
  kit_job *again = plain(150, 1); /* from the file of the first: taken back to before its answer */
  w = kit_open(m, &o);
  again->sample.temperature = 1;
  run_expecting(w, again, 149);
  ij__worker_close(&w);
  ij__free(first);
  ij__free(next);
  ij__free(again);
  each_file(delete_file, 0);
  CHECK_INT(n_log, 0);
}

static void what_memory_pushes_out_comes_back(void) {
  ij_worker_options o = folder_options();
  o.cache_bytes = 200 << 10;
  ij_worker *w = kit_open(m, &o);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 8; i++) {
      kit_job *j = plain(100, 100 + (uint64_t)i);
      run_expecting(w, j, round ? 99 : 0);
      ij__free(j);
    }
  }
  ij__worker_close(&w);
  each_file(delete_file, 0);
}

static void the_folder_is_bounded(void) {
  ij_worker_options o = folder_options();
  o.cache_bytes = 200 << 10;
  o.cache_dir_bytes = 300 << 10;
  ij_worker *w = kit_open(m, &o);
  ij_worker_stats s;
  for (int i = 0; i < 20; i++) {
    kit_job *j = plain(100, 100 + (uint64_t)i);
    run_expecting(w, j, 0);
    ij__free(j);
  }
  ij__worker_stats(w, &s);
  CHECK(s.cache_files > 1);
  CHECK(s.cache_dir_bytes <= o.cache_dir_bytes);
  CHECK_INT(each_file(NULL, 0), s.cache_files);
  ij__worker_close(&w);
  o.cache_dir_bytes = 1; /* a smaller bound applies to what lies there */
  w = kit_open(m, &o);
  CHECK_INT(each_file(NULL, 0), 0);
  ij__worker_close(&w);
  CHECK_INT(each_file(NULL, 0), 0);
}

/* Damage number n: a byte changed, or the file cut, somewhere. */
static void damage(const char *path, int n) {
  FILE *f = fopen(path, "r+b");
  if (!f) exit(2);
  fseek(f, 0, SEEK_END);
  long size = ftell(f), at = n < 80 ? n : (long)((uint64_t)n * 2654435761u % (uint64_t)size);
  if (n % 7 == 6) {
    if (ftruncate(fileno(f), at) != 0) exit(2);
  } else {
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ (1 << n % 8), f);
  }
  fclose(f);
}

static void damaged_files_are_misses(void) {
  ij_worker_options o = folder_options();
  int before_open = 0, while_open = 0;
  for (int n = 0; n < 200; n += n < 80 ? 5 : 21) {
    ij_worker *w = kit_open(m, &o);
    kit_job *j = plain(100, 1), *again = plain(100, 1);
    run_expecting(w, j, 0);
    ij__worker_close(&w);
    n_log = 0;
    if (n % 2 == 0) each_file(damage, n);
    w = kit_open(m, &o);
    if (n % 2 == 1) each_file(damage, n);
    kit_run(w, again);
    kit_expect(m, again);
    /* A head that says it is of another version or model is left alone. */
    bool foreign = n % 2 == 0 && (n >= 8 && n < 16) && n % 7 != 6;
    CHECK_INT(again->usage.n_cached, 0);
    CHECK_INT(n_log, foreign ? 0 : 1);
    if (n_log) CHECK_HAS(last_line, "prefix cache");
    before_open += n % 2 == 0;
    while_open += n % 2 == 1;
    ij__worker_close(&w);
    each_file(delete_file, 0);
    ij__free(j);
    ij__free(again);
  }
  CHECK(before_open > 3 && while_open > 3);
}

/* Opening a pipe would wait for somebody to write to it. */
static void what_is_no_file_is_not_read(void) {
  ij_worker_options o = folder_options();
  char path[4096];
  snprintf(path, sizeof path, "%s/pipe.ijprefix", o.cache_dir);
  CHECK_INT(mkfifo(path, 0600), 0);
  ij_worker *w = kit_open(m, &o);
  kit_job *j = plain(100, 1);
  run_expecting(w, j, 0);
  ij__worker_close(&w);
  unlink(path);
  each_file(delete_file, 0);
  ij__free(j);
}

static void states_of_another_model_are_not_used(void) {
  ij_worker_options o = folder_options();
  float *weight = tiny_values(&t, "model.llm.layers.2.attn.wo_ud.weight") + 3, was = *weight;
  *weight += 0.125f;
  ij_model_close(&m); /* its file is written again */
  ij_model *x = tiny_open(&t, 1, 8);
  *weight = was;
  n_log = 0;
  ij_worker *w = kit_open(x, &o);
  kit_job *j = plain(100, 1), *here = plain(100, 1), *there = plain(100, 1);
  kit_run(w, j);
  ij__worker_close(&w);
  ij_model_close(&x);
  m = tiny_open(&t, 1, 8);
  w = kit_open(m, &o);
  run_expecting(w, here, 0);
  ij__worker_close(&w);
  CHECK_INT(each_file(NULL, 0), 2); /* the other's file is left alone */
  w = kit_open(m, &o);
  run_expecting(w, there, 99);
  ij__worker_close(&w);
  CHECK_INT(n_log, 0);
  each_file(delete_file, 0);
  ij__free(j);
  ij__free(here);
  ij__free(there);
}

static void a_folder_that_cannot_be_is_refused(void) {
  ij_worker_options o = folder_options();
  ij_worker *w = NULL;
  ij_err err = {0};
  o.cache_dir = "/no/such/folder/anywhere";
  CHECK_INT(ij__worker_open(&w, m, &o, &err), IJ_E_IO);
  CHECK_HAS(err.where, "/no/such/folder");
}

/* ---------------------------------------------------------------------------------------------------------------- media */

#define IMAGE 15
#define SOUND 14

/* Rows of medium `name`, the same for the same name: its digest says as much. */
static const float *rows_of(int name) {
  static float rows[8][200 * 8];
  uint64_t seed = (uint64_t)name + 99;
  if (rows[name][0] != 0.0f) return rows[name];
  for (int i = 0; i < 200 * 8; i++) rows[name][i] = (float)((int)(test_random(&seed) % 2000) - 1000.5) / 500;
  return rows[name];
}

/* Puts n rows of a medium at place `at` of the prompt. */
static void put_medium(kit_job *j, int at, int n, int name) {
  for (int i = 0; i < n; i++) j->prompt[at + i] = name % 2 ? SOUND : IMAGE;
  j->rows[j->n_rows++] = (ij_rows){.first = at, .n = n, .rows = rows_of(name), .digest = {(uint64_t)name, 7}};
}

/* A prompt of 100 ids with media `a` at 20 to 59 and `b` at 70 to 89, and a question of its own after them. */
static kit_job *question(int a, int b, uint64_t seed) {
  kit_job *j = plain(100, 1), *own = plain(10, seed);
  for (int i = 0; i < 100; i++) j->prompt[i] = j->prompt[i] == IMAGE || j->prompt[i] == SOUND ? 3 : j->prompt[i];
  for (int i = 0; i < 9; i++) j->prompt[91 + i] = own->prompt[i] % 12;
  j->prompt[90] = (int32_t)seed % 12;
  put_medium(j, 20, 40, a);
  put_medium(j, 70, 20, b);
  ij__free(own);
  return j;
}

static void media_are_compared_where_they_stand(void) {
  static const struct {
    int a, b;
    uint64_t seed;
    int64_t cached;
  } asked[] = {
    {0, 1, 1, 0}, {0, 1, 1, 99},  /* the same again */
    {0, 1, 2, 90},                /* another question about the same media */
    {0, 3, 2, 70},                /* another sound of the same length, at once behind the same picture */
    {0, 3, 1, 90}, {2, 1, 1, 20}, /* another picture of the same size: what is before it */
    {2, 1, 1, 99}, {0, 1, 2, 99},
  };
  for (int disk = 0; disk < 2; disk++) {
    ij_worker_options o = disk ? folder_options() : cached_options();
    ij_worker *w = kit_open(m, &o);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
      kit_job *j = question(asked[i].a, asked[i].b, asked[i].seed);
      kit_run(w, j);
      kit_expect(m, j);
      /* A session reaches back 64 ids; farther back there is nothing unless a copy was made there. */
      int64_t n = j->usage.n_cached;
      bool right = asked[i].cached == 20 ? n <= 20 : n == asked[i].cached;
      if (disk && n == 0 && asked[i].cached < 90) right = true; /* one that is not worth reading */
      if (!right) TEST_FAIL("question %d, disk %d: %lld ids from the cache, expected %lld", (int)i, disk, (long long)n, (long long)asked[i].cached);
      ij__free(j);
      if (!disk) continue;
      ij__worker_close(&w);
      w = kit_open(m, &o);
    }
    ij__worker_close(&w);
    each_file(delete_file, 0);
  }
  CHECK_INT(n_log, 0);
}

/* At once: those with the same picture wait for the first of them, the others do not. */
static void media_under_way_are_shared(void) {
  ij_worker_options o = cached_options();
  o.n_parallel = 4;
  ij_worker *w = kit_open(m, &o);
  kit_job *jobs[6];
  for (int i = 0; i < 6; i++) {
    jobs[i] = question(i % 2 ? 0 : 2, 1, (uint64_t)i);
    kit_send(w, jobs[i]);
  }
  for (int i = 0; i < 6; i++) {
    kit_wait(jobs[i]);
    kit_expect(m, jobs[i]);
    if (i < 2) CHECK(jobs[i]->usage.n_cached <= 20);
    else CHECK_INT(jobs[i]->usage.n_cached, 90);
    ij__free(jobs[i]);
  }
  ij__worker_close(&w);
}

static void media_in_wrong_places_are_refused(void) {
  ij_worker_options o = cached_options();
  ij_worker *w = kit_open(m, &o);
  for (int wrong = 0; wrong < 5; wrong++) {
    ij_err err = {0};
    kit_job *j = question(0, 1, 1);
    if (wrong == 0) j->rows[1].first = 50;
    if (wrong == 1) j->rows[1].n = 31;
    if (wrong == 2) j->rows[0].rows = NULL;
    if (wrong == 3) j->rows[0].first = -1;
    if (wrong == 4) j->n_rows = -1;
    CHECK_INT(kit_submit(w, j, &err), IJ_E_ARGUMENT);
    CHECK_STR(err.where, "rows");
    ij__free(j);
  }
  kit_job *text = question(0, 1, 1); /* a medium at a text: found by the step */
  text->prompt[30] = 3;
  kit_run(w, text);
  CHECK_INT(text->how, IJ_JOB_FAILED);
  CHECK_INT(text->err.code, IJ_E_ARGUMENT);
  ij__free(text);
  ij__worker_close(&w);
}

/* Prompts with media, one after the other and at once, in small steps and with little memory. */
static void media_with_any_state_of_the_cache(void) {
  enum { N = 24, AT_ONCE = 4 };
  uint64_t seed = 3;
  int64_t cached = 0;
  for (int disk = 0; disk < 2; disk++) {
    ij_worker_options o = disk ? folder_options() : cached_options();
    kit_job *jobs[N];
    o.prefill_rows = 7;
    o.cache_bytes = disk ? 300 << 10 : (size_t)8 << 20;
    ij_worker *w = kit_open(m, &o);
    for (int i = 0; i < N; i++) {
      jobs[i] = question((int)(test_random(&seed) % 3) * 2, (int)(test_random(&seed) % 2) * 2 + 1, test_random(&seed) % 3);
      jobs[i]->max_tokens = 1 + (int64_t)(test_random(&seed) % 80);
      if (test_random(&seed) % 5 == 0) jobs[i]->die_after = (int)(test_random(&seed) % 20); /* in the middle of a medium */
      kit_send(w, jobs[i]);
      if (i % AT_ONCE < AT_ONCE - 1) continue;
      for (int k = i - AT_ONCE + 1; k <= i; k++) {
        kit_wait(jobs[k]);
        cached += jobs[k]->usage.n_cached;
        kit_expect(m, jobs[k]);
      }
    }
    ij__worker_close(&w);
    for (int i = 0; i < N; i++) ij__free(jobs[i]);
    each_file(delete_file, 0);
  }
  CHECK(cached > 1000);
}

/* --------------------------------------------------------------------------------------------------------------- random */

/* Prompts that grow out of each other like conversations do, several at once, with little memory and a folder, or not. */
static void any_state_of_the_cache_gives_the_same_answers(void) {
  enum { N = 36, AT_ONCE = 6 };
  uint64_t seed = 7;
  int64_t cached = 0;
  for (int mode = 0; mode < 3; mode++) {
    ij_worker_options o = mode == 2 ? folder_options() : cached_options();
    kit_job *jobs[N];
    o.n_parallel = 4;
    o.prefill_rows = 40;
    o.cache_bytes = mode == 0 ? (size_t)8 << 20 : 500 << 10;
    ij_worker *w = kit_open(m, &o);
    for (int i = 0; i < N; i++) {
      const kit_job *from = i < AT_ONCE || test_random(&seed) % 8 == 0 ? NULL : jobs[test_random(&seed) % (uint64_t)(i - i % AT_ONCE)];
      int cut = from ? (int)(test_random(&seed) % (uint64_t)(from->n_got + (test_random(&seed) % 2 ? from->n_prompt : 1))) : 0;
      if (from && from->n_prompt + from->n_got > 350) cut = from->n_prompt / 2 + from->n_got;
      int n = 1 + (int)(test_random(&seed) % 70);
      jobs[i] = from ? after(from, cut, n, test_random(&seed)) : plain(n + 40, test_random(&seed));
      for (int k = 20; k < jobs[i]->n_prompt; k += 50) jobs[i]->prompt[k] = k % 3 ? TURN : KIT_VOCAB - 1;
      jobs[i]->max_tokens = (int64_t)(test_random(&seed) % 90);
      jobs[i]->sample.temperature = test_random(&seed) % 2 ? 0.8f : 0.0f;
      jobs[i]->sample.seed = seed;
      jobs[i]->guided = test_random(&seed) % 4 == 0;
      if (test_random(&seed) % 6 == 0) jobs[i]->die_after = (int)(test_random(&seed) % 30);
      kit_send(w, jobs[i]);
      if (i % AT_ONCE < AT_ONCE - 1) continue;
      for (int k = i - AT_ONCE + 1; k <= i; k++) {
        kit_wait(jobs[k]);
        CHECK(jobs[k]->how == IJ_JOB_LENGTH || (jobs[k]->how == IJ_JOB_CANCELLED && jobs[k]->die_after >= 0));
        cached += jobs[k]->usage.n_cached;
        kit_expect(m, jobs[k]);
      }
    }
    ij__worker_close(&w);
    for (int i = 0; i < N; i++) ij__free(jobs[i]);
    each_file(delete_file, 0);
  }
  CHECK(cached > 1500);
}

/* Every allocation fails once, and all after it: answers or IJ_E_NOMEM, no leak, and the worker goes on when there is memory again. */
static void failing_memory_costs_only_time(void) {
  int64_t blocks = ij__alloc_blocks();
  int n_failed = 0, n_answered = 0;
  for (int n = 1; n < 80; n += 1 + n / 8) {
    ij_worker_options o = folder_options();
    o.cache_bytes = 200 << 10;
    ij_worker *w = kit_open(m, &o);
    kit_job *first = plain(100, 1), *again = plain(100, 1 + (uint64_t)n % 2), *last = plain(100, 1);
    first->max_tokens = 80;
    kit_run(w, first);
    ij_err err;
    ij__alloc_fail_after(n);
    again->max_tokens = 80;
    ij_status status = kit_submit(w, again, &err);
    if (status == IJ_OK) kit_wait(again);
    ij__worker_drain(w, 60);
    ij__worker_close(&w);
    ij__alloc_fail_after(0);
    n_failed += again->how == IJ_JOB_FAILED;
    if (status == IJ_OK && again->how == IJ_JOB_FAILED) CHECK_INT(again->err.code, IJ_E_NOMEM);
    if (status == IJ_OK && again->how != IJ_JOB_FAILED) {
      kit_expect(m, again);
      n_answered++;
    }
    w = kit_open(m, &o);
    kit_run(w, last);
    kit_expect(m, last);
    ij__worker_close(&w);
    ij__free(first);
    ij__free(again);
    ij__free(last);
    each_file(delete_file, 0);
  }
  CHECK(n_answered > 5);
  CHECK(n_failed > 0);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

int main(void) {
  cw_dims d = cw_usual();
  tiny_build(&t, &d, IJ_DTYPE_F32, "image_token_id=15\naudio_token_id=14");
  m = tiny_open(&t, 1, 8);
  cw_make_folder(folder, sizeof folder);
  RUN(a_conversation_goes_on);
  RUN(an_answer_is_said_again);
  RUN(the_last_message_is_edited);
  RUN(many_share_a_beginning);
  RUN(one_prompt_many_times_at_once);
  RUN(media_are_compared_where_they_stand);
  RUN(media_under_way_are_shared);
  RUN(media_in_wrong_places_are_refused);
  RUN(media_with_any_state_of_the_cache);
  RUN(a_prompt_that_was_cancelled_is_not_lost);
  RUN(memory_is_bounded);
  RUN(states_outlive_the_worker);
  RUN(what_memory_pushes_out_comes_back);
  RUN(the_folder_is_bounded);
  RUN(damaged_files_are_misses);
  RUN(what_is_no_file_is_not_read);
  RUN(states_of_another_model_are_not_used);
  RUN(a_folder_that_cannot_be_is_refused);
  RUN(any_state_of_the_cache_gives_the_same_answers);
  RUN(failing_memory_costs_only_time);
  ij_model_close(&m);
  tiny_free(&t);
  cw_remove_folder(folder);
  return test_report();
}
