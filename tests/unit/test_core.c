/* test_core.c: the pool, the allocator, the map, the status list, turns. */
#include <sched.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/os.h"
#include "core/pool.h"
#include "core/status.h"
#include "core/str.h"
#include "core/turn.h"
#include "test.h"

static void status_names(void) {
  CHECK_STR(ij_status_name(IJ_E_FORMAT), "E_FORMAT");
  CHECK_STR(ij_status_name((ij_status)-99), "E_UNKNOWN");
  ij_err err;
  char big[5000];
  memset(big, 'x', sizeof big);
  big[sizeof big - 1] = 0;
  ij__fail(&err, IJ_E_IO, "file", "%s", big);
  CHECK(ij__str_ends_with(err.message, "..."));
  CHECK_INT(ij__fail(NULL, IJ_E_IO, NULL, "x"), IJ_E_IO);
}

static void findings_are_cut_in_order(void) {
  ij_findings f = {0};
  for (int i = 0; i < 1000; i++) ij__findings_add(&f, "tensor number %d is missing", i);
  CHECK_INT(f.n, 1000);
  CHECK(f.n_shown > 50 && f.n_shown < 1000);
  CHECK(strlen(f.text) < sizeof f.text);
  CHECK_HAS(f.text, "tensor number 0 is missing; tensor number 1 is missing");
}

static void alloc_counts_and_guards(void) {
  size_t before = ij__alloc_bytes();
  void *p = ij__alloc(100);
  CHECK(((uintptr_t)p & (IJ_ALIGNMENT - 1)) == 0);
  CHECK_INT(ij__alloc_bytes() - before, 100);
  p = ij__realloc(p, 1000);
  CHECK_INT(ij__alloc_bytes() - before, 1000);
  ij__alloc_guard_enter();
  int64_t v = ij__alloc_violations();
  CHECK(ij__alloc(1) == NULL);
  CHECK_INT(ij__alloc_violations(), v + 1);
  ij__alloc_guard_leave();
  ij__free(p);
  CHECK_INT(ij__alloc_bytes(), before);
  CHECK(ij__alloc_array(SIZE_MAX / 2, 3) == NULL);
  ij__alloc_fail_after(2);
  void *a = ij__alloc(1), *b = ij__alloc(1);
  ij__alloc_fail_after(0);
  CHECK(a && !b);
  ij__free(a);
}

static void map_finds_what_was_added(void) {
  ij_map m = {0};
  static char names[1000][16];
  for (int i = 0; i < 1000; i++) {
    int n = snprintf(names[i], sizeof names[i], "name%d", i);
    CHECK_INT(ij__map_add(&m, names[i], (size_t)n, i), 1);
  }
  CHECK_INT(ij__map_add(&m, "name7", 5, 9), 0);
  for (int i = 0; i < 1000; i++) CHECK_INT(ij__map_find(&m, names[i], strlen(names[i])), i);
  CHECK_INT(ij__map_find(&m, "name", 4), -1);
  ij__map_free(&m);
}

static void count_range(void *ctx, int worker, int64_t i0, int64_t i1) {
  (void)worker;
  uint8_t *hits = ctx;
  for (int64_t i = i0; i < i1; i++) hits[i]++;
}

static void pool_runs_each_index_once(void) {
  static uint8_t hits[10007];
  for (int threads = 1; threads <= 5; threads++) {
    ij_pool *pool;
    ij_err err;
    CHECK_OK(ij__pool_open(&pool, threads, &err), err);
    for (int round = 0; round < 200; round++) {
      memset(hits, 0, sizeof hits);
      int64_t n = 1 + round * 50;
      ij__pool_run(pool, n, 1 + round % 17, count_range, hits);
      for (int64_t i = 0; i < (int64_t)sizeof hits; i++) {
        if (hits[i] != (i < n)) TEST_FAIL("index %d ran %d times of %d", (int)i, hits[i], i < n);
      }
    }
    ij__pool_close(&pool);
  }
}

static ij_turn turn;
static int order[8], n_order; /* whose turn it was; under the lock */

static void *take_a_turn(void *user) {
  ij__turn_take(&turn);
  order[n_order++] = *(const int *)user;
  ij__turn_give(&turn);
  return NULL;
}

static uint64_t n_asked(void) {
  pthread_mutex_lock(&turn.lock);
  uint64_t n = turn.next;
  pthread_mutex_unlock(&turn.lock);
  return n;
}

static void turns_come_in_the_order_of_asking(void) {
  pthread_t threads[8];
  int names[8];
  CHECK(ij__turn_open(&turn));
  ij__turn_take(&turn);
  for (int i = 0; i < 8; i++) {
    names[i] = i;
    CHECK_INT(pthread_create(&threads[i], NULL, take_a_turn, &names[i]), 0);
    while (n_asked() < 2 + (uint64_t)i) sched_yield();
  }
  CHECK_INT(n_order, 0);
  ij__turn_give(&turn);
  ij__turn_take(&turn); /* behind all of them */
  CHECK_INT(n_order, 8);
  for (int i = 0; i < n_order; i++) CHECK_INT(order[i], i);
  ij__turn_give(&turn);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  ij__turn_close(&turn);
}

/* One byte at the start and at each boundary of large pages, and nothing outside. */
static void touching_stays_inside(void) {
  const size_t large = (size_t)2 << 20, n = 3 * large;
  char *pages = ij__os_pages(n);
  CHECK(pages != NULL);
  if (!pages) return;
  const size_t from[] = {8192, 4096, large - 1}, size[] = {0, 1, 2 * large - 1};
  for (size_t i = 0; i < 3; i++) {
    size_t begin = from[i], end = begin + size[i], n_zero = 0, n_want = 0;
    memset(pages, 1, n);
    ij__os_touch(pages + begin, end - begin);
    for (size_t at = 0; at < n; at++) {
      bool wanted = at >= begin && at < end && (at == begin || (uintptr_t)(pages + at) % large == 0);
      n_want += wanted;
      n_zero += pages[at] == 0;
      if (!wanted && pages[at] == 0) TEST_FAIL("%zu bytes from %zu: byte %zu was written to", end - begin, begin, at);
    }
    CHECK_INT(n_zero, n_want);
  }
  ij__os_free_pages(pages, n);
}

int main(void) {
  RUN(status_names);
  RUN(findings_are_cut_in_order);
  RUN(alloc_counts_and_guards);
  RUN(map_finds_what_was_added);
  RUN(pool_runs_each_index_once);
  RUN(turns_come_in_the_order_of_asking);
  RUN(touching_stays_inside);
  return test_report();
}
