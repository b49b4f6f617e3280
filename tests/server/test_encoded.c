/* test_encoded.c: the cache of encoded rows and the queue of tasks: what is encoded how often, by whom, and what leaves.
 *
 * The tower and the media here are the test's own (nothing else of them is linked): a medium is a number, and a row says whose it is.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "core/alloc.h"
#include "server/encoded.h"
#include "server/tasks.h"
#include "test.h"

#define H 4

struct ij_media {
  uint64_t name;
  int64_t n_rows;
  ij_media_kind kind;
};

static atomic_int n_calls, fail_at = -1, n_inside; /* pieces encoded; which one fails; callers in the tower */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: the tower waits */

void ij_towers_get_info(const ij_towers *towers, ij_towers_info *out) {
  (void)towers;
  *out = (ij_towers_info){.vision = true, .hidden = H};
}

void ij_media_get_info(const ij_media *media, ij_media_info *out) {
  *out = (ij_media_info){.kind = media->kind, .n_rows = media->n_rows, .digest = {media->name, 1}};
}

ij_status ij_towers_encode(ij_towers *towers, const ij_media *media, int64_t first, int64_t n, float *out, ij_err *err) {
  (void)towers;
  atomic_fetch_add(&n_inside, 1);
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  atomic_fetch_sub(&n_inside, 1);
  if (atomic_fetch_add(&n_calls, 1) == atomic_load(&fail_at)) return ij__fail(err, IJ_E_NUMERIC, "the test's tower", "as asked");
  for (int64_t i = 0; i < n * H; i++) out[i] = (float)((int64_t)media->name * 1000 + first + i / H);
  return IJ_OK;
}

static bool is_right(const ij_encoded_rows *rows, const ij_media *m) {
  const float *f = ij__encoded_floats(rows);
  for (int64_t i = 0; i < m->n_rows; i++) {
    if (f[i * H + H - 1] != (float)((int64_t)m->name * 1000 + i)) return false;
  }
  return true;
}

static ij_encoded *open_cache(size_t max_bytes) {
  ij_encoded *c = NULL;
  ij_err err = {0};
  CHECK_OK(ij__encoded_open(&c, NULL, max_bytes, 3000 * H * sizeof(float), &err), err);
  atomic_store(&n_calls, 0);
  atomic_store(&fail_at, -1);
  return c;
}

static ij_encoded_rows *get(ij_encoded *c, const ij_media *m) {
  ij_encoded_rows *rows = NULL;
  ij_err err = {0};
  CHECK_OK(ij__encoded_get(c, m, NULL, NULL, &rows, &err), err);
  if (rows) CHECK(is_right(rows, m));
  return rows;
}

static void a_medium_is_encoded_once(void) {
  ij_encoded *c = open_cache(1 << 20);
  ij_media a = {1, 200, IJ_MEDIA_IMAGE}, same = a, longer = {1, 201, IJ_MEDIA_IMAGE}, sound = {1, 200, IJ_MEDIA_AUDIO}, b = {2, 64, IJ_MEDIA_IMAGE};
  ij_encoded_rows *held[5] = {get(c, &a), get(c, &same), get(c, &longer), get(c, &sound), get(c, &b)};
  CHECK(held[0] == held[1]);
  CHECK_INT(atomic_load(&n_calls), 2 + 2 + 2 + 1); /* pieces of 128 rows */
  ij_encoded_stats s = ij__encoded_get_stats(c);
  CHECK_INT(s.n_encoded, 4);
  CHECK_INT(s.n_hits, 1);
  CHECK_INT(s.n_rows, 665);
  CHECK_INT(s.bytes, 665 * H * sizeof(float));
  for (int i = 0; i < 5; i++) ij__encoded_release(c, held[i]);
  ij__encoded_release(c, get(c, &a)); /* it stayed */
  CHECK_INT(ij__encoded_get_stats(c).n_encoded, 4);
  ij__encoded_close(&c);
}

/* Bytes beyond the bound leave when nobody holds them, the oldest first. */
static void memory_is_bounded(void) {
  ij_encoded *c = open_cache(3 * 10 * H * sizeof(float));
  ij_media m[6];
  ij_encoded_rows *held = NULL;
  for (int i = 0; i < 6; i++) {
    m[i] = (ij_media){(uint64_t)i + 1, 10, IJ_MEDIA_IMAGE};
    ij_encoded_rows *rows = get(c, &m[i]);
    if (i == 0) held = rows;
    else ij__encoded_release(c, rows);
    CHECK(ij__encoded_get_stats(c).bytes <= 3 * 10 * H * sizeof(float));
  }
  CHECK(is_right(held, &m[0]));
  int before = atomic_load(&n_calls);
  ij__encoded_release(c, get(c, &m[0])); /* held all the time */
  ij__encoded_release(c, get(c, &m[5]));
  CHECK_INT(atomic_load(&n_calls), before);
  ij__encoded_release(c, get(c, &m[1]));
  CHECK_INT(atomic_load(&n_calls), before + 1);
  ij__encoded_release(c, held);
  ij__encoded_close(&c);
  c = open_cache(0); /* no room at all: held rows live as long as they are held */
  held = get(c, &m[0]);
  ij_encoded_rows *again = get(c, &m[0]);
  CHECK(held == again);
  ij__encoded_release(c, held);
  ij__encoded_release(c, again);
  CHECK_INT(ij__encoded_get_stats(c).bytes, 0);
  ij__encoded_close(&c);
}

/* What is in use is bounded, too: held rows cannot leave, so whoever wants more comes too early. */
static void rows_in_use_are_bounded(void) {
  ij_encoded *c = open_cache(1 << 20);
  ij_media m[4];
  ij_encoded_rows *held[4], *more = NULL;
  ij_err err = {0};
  for (int i = 0; i < 4; i++) m[i] = (ij_media){(uint64_t)i + 1, 1000, IJ_MEDIA_IMAGE};
  for (int i = 0; i < 3; i++) held[i] = get(c, &m[i]);
  CHECK_INT(ij__encoded_get(c, &m[3], NULL, NULL, &more, &err), IJ_E_BUSY);
  CHECK(more == NULL);
  CHECK_HAS(err.message, "take 48000 bytes, and at most 48000 are kept");
  more = get(c, &m[1]); /* is there */
  ij__encoded_release(c, held[0]);
  held[0] = get(c, &m[3]); /* what stays without being in use does not count */
  CHECK_INT(ij__encoded_get_stats(c).bytes, 4 * 16000);
  ij__encoded_release(c, more);
  for (int i = 0; i < 3; i++) ij__encoded_release(c, held[i]);
  ij__encoded_close(&c);
}

static bool count_down(void *user) { return --*(int *)user >= 0; }

static void who_leaves_or_fails_leaves_nothing(void) {
  int64_t blocks = ij__alloc_blocks();
  ij_encoded *c = open_cache(1 << 20);
  ij_media m = {7, 640, IJ_MEDIA_IMAGE};
  ij_encoded_rows *rows = NULL;
  ij_err err = {0};
  int patience = 3;
  CHECK_INT(ij__encoded_get(c, &m, count_down, &patience, &rows, &err), IJ_E_CANCELLED);
  CHECK(rows == NULL);
  CHECK_INT(atomic_load(&n_calls), 3);
  CHECK_INT(ij__encoded_get_stats(c).bytes, 0);
  atomic_store(&fail_at, 5);
  CHECK_INT(ij__encoded_get(c, &m, NULL, NULL, &rows, &err), IJ_E_NUMERIC);
  CHECK_INT(ij__encoded_get_stats(c).bytes, 0);
  for (int n = 1; n <= 2; n++) {
    ij__alloc_fail_after(n);
    CHECK_INT(ij__encoded_get(c, &m, NULL, NULL, &rows, &err), IJ_E_NOMEM);
    ij__alloc_fail_after(0);
  }
  ij__encoded_release(c, get(c, &m));
  ij__encoded_close(&c);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

/* ------------------------------------------------------------------------------------------------------------- at once */

typedef struct getting {
  ij_encoded *c;
  const ij_media *m;
  ij_encoded_rows *rows;
  ij_status status;
  atomic_bool leave;
} getting;

static bool has_not_left(void *user) { return !atomic_load(&((getting *)user)->leave); }

static void *get_one(void *user) {
  getting *g = user;
  ij_err err = {0};
  g->status = ij__encoded_get(g->c, g->m, has_not_left, g, &g->rows, &err);
  return NULL;
}

/* Six want the same; the one who makes it leaves, and another takes over. */
static void others_wait_for_the_maker(void) {
  enum { N = 6 };
  ij_encoded *c = open_cache(1 << 20);
  ij_media m = {3, 300, IJ_MEDIA_IMAGE};
  getting g[N];
  pthread_t threads[N];
  pthread_mutex_lock(&gate);
  for (int i = 0; i < N; i++) {
    g[i] = (getting){.c = c, .m = &m};
    CHECK_INT(pthread_create(&threads[i], NULL, get_one, &g[i]), 0);
    while (i == 0 && ij__encoded_get_stats(c).bytes == 0) sched_yield(); /* the first is the maker */
  }
  atomic_store(&g[0].leave, true);
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
  CHECK_INT(g[0].status, IJ_E_CANCELLED);
  for (int i = 1; i < N; i++) {
    CHECK_INT(g[i].status, IJ_OK);
    CHECK(g[i].rows == g[1].rows && is_right(g[i].rows, &m));
    ij__encoded_release(c, g[i].rows);
  }
  CHECK_INT(ij__encoded_get_stats(c).n_encoded, 1);
  ij__encoded_close(&c);
}

/* Steps take turns with the towers: between two of them there is one piece, however many media are being encoded. */
static void makers_come_one_by_one(void) {
  enum { N = 4 };
  ij_encoded *c = open_cache(1 << 20);
  ij_media m[N];
  getting g[N];
  pthread_t threads[N];
  const struct timespec moment = {.tv_nsec = 50000000};
  pthread_mutex_lock(&gate);
  for (int i = 0; i < N; i++) {
    m[i] = (ij_media){(uint64_t)i + 1, 300, IJ_MEDIA_IMAGE};
    g[i] = (getting){.c = c, .m = &m[i]};
    CHECK_INT(pthread_create(&threads[i], NULL, get_one, &g[i]), 0);
  }
  while (ij__encoded_get_stats(c).bytes < N * 300 * H * sizeof(float) || atomic_load(&n_inside) == 0) sched_yield();
  nanosleep(&moment, NULL); /* whoever may come in, is in */
  CHECK_INT(atomic_load(&n_inside), 1);
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < N; i++) {
    pthread_join(threads[i], NULL);
    CHECK_INT(g[i].status, IJ_OK);
    CHECK(is_right(g[i].rows, &m[i]));
    ij__encoded_release(c, g[i].rows);
  }
  ij__encoded_close(&c);
}

static atomic_int n_done;
static ij_tasks *tasks;

static void work(void *arg) {
  (void)arg;
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  atomic_fetch_add(&n_done, 1);
}

static void work_until_stopped(void *arg) {
  (void)arg;
  while (!ij__tasks_stopping(tasks)) sched_yield();
  atomic_fetch_add(&n_done, 1);
}

static void tasks_are_bounded_and_done(void) {
  ij_err err = {0};
  CHECK_OK(ij__tasks_open(&tasks, 2, 5, &err), err);
  atomic_store(&n_done, 0);
  pthread_mutex_lock(&gate);
  int n = 0;
  for (int i = 0; i < 100; i++) n += ij__tasks_add(tasks, work, NULL);
  CHECK(n >= 5 && n <= 7); /* five wait, and two threads may have begun */
  pthread_mutex_unlock(&gate);
  ij__tasks_drain(tasks, 60);
  CHECK_INT(atomic_load(&n_done), n);
  CHECK(!ij__tasks_add(tasks, work, NULL));
  ij__tasks_close(&tasks);

  CHECK_OK(ij__tasks_open(&tasks, 2, 5, &err), err);
  atomic_store(&n_done, 0);
  for (int i = 0; i < 4; i++) CHECK(ij__tasks_add(tasks, work_until_stopped, NULL));
  ij__tasks_close(&tasks); /* tells those under way, and does the others too: each has somebody who waits for an answer */
  CHECK_INT(atomic_load(&n_done), 4);
}

int main(void) {
  RUN(a_medium_is_encoded_once);
  RUN(memory_is_bounded);
  RUN(rows_in_use_are_bounded);
  RUN(who_leaves_or_fails_leaves_nothing);
  RUN(others_wait_for_the_maker);
  RUN(makers_come_one_by_one);
  RUN(tasks_are_bounded_and_done);
  return test_report();
}
