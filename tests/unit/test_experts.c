/* The streamed home of experts: what it leases is byte for byte what the mapped home leases, whatever its memory, whatever was announced or guessed
 * before, and however the drive behaves; or it is an error that names the expert. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "cache/experts.h"
#include "cache/policy.h"
#include "core/alloc.h"
#include "core/memfs.h"
#include "core/os.h"
#include "expert_banks.h"
#include "io/reader.h"
#include "test.h"

/* src/core/alloc.c, for tests: the n-th allocation from now on fails, and all after it; 0 ends that. */
extern void ij__alloc_fail_after(int64_t n);

static eb_model model;
static ij_experts *mapped;

/* --- a drive that fails, for the reader's pool. What it reads well comes from the mapping: real drives have their test in test_reader.c. */

typedef struct drive {
  _Atomic uint64_t state;
  _Atomic int fail_in_1000, short_in_1000, slow_in_1000;
  _Atomic int64_t n_calls, n_failed;
  _Atomic bool closed; /* every read waits until this falls */
} drive;

static drive the_drive;

static void nap_us(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

static ino_t inodes[2];

static int64_t read_mapping(int fd, void *to, size_t n, uint64_t offset, int *errnum) {
  struct stat st;
  int i = fstat(fd, &st) == 0 && st.st_ino == inodes[1];
  const ij_tensor_view *t = ij__ckpt_tensor(model.ckpt, i);
  size_t size = ij__ckpt_file_size(model.ckpt, i), at = (size_t)offset;
  const char *file = (const char *)t->data + t->n_bytes - size; /* the tensor is the end of its file */
  *errnum = 0;
  n = at < size ? IJ_MIN(n, size - at) : 0;
  memcpy(to, file + at, n);
  return (int64_t)n;
}

static int64_t faulty_read(void *user, int fd, void *to, size_t n, uint64_t offset, int *errnum) {
  drive *d = user;
  uint64_t state = atomic_fetch_add(&d->state, 0x9e3779b97f4a7c15u);
  int dice = (int)(test_random(&state) % 1000);
  atomic_fetch_add(&d->n_calls, 1);
  while (atomic_load(&d->closed)) nap_us(200);
  if (dice < atomic_load(&d->fail_in_1000)) {
    atomic_fetch_add(&d->n_failed, 1);
    *errnum = EIO;
    return -1;
  }
  dice = (int)(test_random(&state) % 1000);
  if (dice < atomic_load(&d->short_in_1000)) n = 1 + test_random(&state) % n;
  dice = (int)(test_random(&state) % 1000);
  if (dice < atomic_load(&d->slow_in_1000)) nap_us(20 + (long)(test_random(&state) % 400));
  return read_mapping(fd, to, n, offset, errnum);
}

static void behave(int fail, int cut, int slow) {
  atomic_store(&the_drive.fail_in_1000, fail);
  atomic_store(&the_drive.short_in_1000, cut);
  atomic_store(&the_drive.slow_in_1000, slow);
  atomic_store(&the_drive.closed, false);
}

static ij_reader *open_reader(bool faulty) {
  ij_reader *r = NULL;
  ij_err err = {0};
  ij_reader_options o = {.depth = 4, .fault = faulty ? faulty_read : NULL, .fault_user = &the_drive};
  CHECK_OK(ij__reader_open(&r, &o, &err), err);
  if (!r) exit(2);
  return r;
}

static ij_experts *open_home(ij_reader *r, double share, bool trace, const float *prior) {
  ij_expert_banks b = eb_banks(&model);
  size_t least = ij__experts_streamed_least(&b), most = ij__experts_streamed_most(&b);
  ij_streamed_options o = {.ckpt = model.ckpt, .reader = r, .prior = prior, .keep_trace = trace};
  o.mem_bytes = least + (size_t)(share * (double)(most - least)) + (trace ? 1 << 20 : 0);
  ij_experts *home = NULL;
  ij_err err = {0};
  CHECK_OK(ij__experts_open_streamed(&home, &b, &o, &err), err);
  if (!home) exit(2);
  return home;
}

static int random_layer(uint64_t *seed) {
  int layer = (int)(test_random(seed) % (EB_LAYERS - 1));
  return layer + (layer >= EB_NO_EXPERTS);
}

/* A random set of experts, ascending, at least one. */
static int random_ids(uint64_t *seed, int ids[EB_EXPERTS]) {
  int n = 0;
  uint64_t mask = test_random(seed);
  if (test_random(seed) % 3) mask &= test_random(seed); /* mostly few */
  for (int e = 0; e < EB_EXPERTS; e++) {
    if (mask >> e & 1) ids[n++] = e;
  }
  if (n == 0) ids[n++] = (int)(test_random(seed) % EB_EXPERTS);
  return n;
}

/* --- one answer at every capacity */

typedef struct run {
  ij_experts *home;
  uint64_t seed;
  bool may_fail;
  int64_t n_errors, n_acquired;
  /* Leases that stay live over later steps, each in a layer that is not touched meanwhile. */
  ij_expert_lease kept[EB_LAYERS][EB_EXPERTS];
  int n_kept[EB_LAYERS];
} run;

static void check_all(const ij_expert_lease *leases, int n) {
  for (int i = 0; i < n; i++) eb_check(&model, mapped, &leases[i]);
}

static void drop_kept(run *r, int layer) {
  check_all(r->kept[layer], r->n_kept[layer]); /* what is leased has not changed */
  ij__experts_release(r->home, r->kept[layer], r->n_kept[layer]);
  r->n_kept[layer] = 0;
}

static void drop_all_kept(run *r) {
  for (int l = 0; l < EB_LAYERS; l++) drop_kept(r, l);
}

/* An error names the expert that was asked for first; the only one that a good drive allows is that leases fill all slots. */
static void check_error(run *r, int layer, int id, int status, bool any_kept) {
  char what[64];
  const ij_err *e = ij__experts_error(r->home);
  snprintf(what, sizeof what, "expert %d of layer %d: ", id, layer);
  CHECK_INT(e->code, status);
  if (strncmp(e->message, what, strlen(what)) != 0) TEST_FAIL("\"%s\" does not begin with \"%s\"", e->message, what);
  r->n_errors++;
  if (status == IJ_E_NOMEM) CHECK(any_kept);
  else CHECK(r->may_fail && status == IJ_E_IO && strstr(e->where, ".safetensors"));
}

static void one_step(run *r) {
  int layer = random_layer(&r->seed), ids[EB_EXPERTS], other[EB_EXPERTS], n = random_ids(&r->seed, ids);
  bool any_kept = false;
  if (r->n_kept[layer]) drop_kept(r, layer);
  for (int l = 0; l < EB_LAYERS; l++) any_kept = any_kept || r->n_kept[l];
  if (test_random(&r->seed) % 4 == 0) ij__experts_want(r->home, random_layer(&r->seed), other, random_ids(&r->seed, other), IJ_WANT_SURE);
  if (test_random(&r->seed) % 4) ij__experts_want(r->home, layer, ids, n, IJ_WANT_SURE);
  for (int done = 0; done < n;) {
    ij_expert_lease leases[EB_EXPERTS];
    int got = ij__experts_acquire(r->home, layer, ids + done, n - done, leases);
    if (got < 0) {
      check_error(r, layer, ids[done], got, any_kept);
      if (any_kept) drop_all_kept(r);
      return;
    }
    CHECK(got >= 1 && got <= n - done);
    for (int i = 0; i < got; i++) CHECK(leases[i].layer == layer && leases[i].expert == ids[done + i]);
    if (test_random(&r->seed) % 3 == 0) ij__experts_want(r->home, random_layer(&r->seed), other, random_ids(&r->seed, other), IJ_WANT_GUESS);
    check_all(leases, got);
    done += got;
    r->n_acquired += got;
    if (done == n && test_random(&r->seed) % 4 == 0) {
      memcpy(r->kept[layer], leases, (size_t)got * sizeof *leases);
      r->n_kept[layer] = got;
    } else {
      ij__experts_release(r->home, leases, got);
    }
  }
}

static void run_steps(run *r, int n_step) {
  int64_t violations = ij__alloc_violations();
  ij__alloc_guard_enter();
  for (int i = 0; i < n_step && !test_failures; i++) one_step(r);
  ij__alloc_guard_leave();
  CHECK_INT(ij__alloc_violations(), violations);
  drop_all_kept(r);
  CHECK_INT(ij__experts_live(r->home), 0);
}

static void check_figures(run *r, const ij_experts_stats *s) {
  CHECK_STR(s->home, "streamed");
  CHECK(s->reader[0] && s->n_slots >= 1 && s->slot_bytes > 0);
  CHECK_INT(s->n_hit + s->n_miss, r->n_acquired);
  CHECK(s->n_miss > 0 && s->expert_bytes > 0 && s->read_bytes >= s->expert_bytes);
  CHECK(s->n_guess_used + s->n_guess_cancelled <= s->n_guess);
}

static void same_bytes_at_every_capacity(void) {
  static const double shares[] = {0, 0.02, 0.1, 0.3, 0.6, 1};
  for (size_t i = 0; i < IJ_COUNT_OF(shares); i++) {
    ij_reader *reader = open_reader(i != 2);
    behave(0, 50, 100);
    run r = {.home = open_home(reader, shares[i], false, NULL), .seed = 100 + i};
    run_steps(&r, i != 2 ? 150 : 20);
    ij_experts_stats s;
    ij__experts_get_stats(r.home, &s);
    check_figures(&r, &s);
    if (shares[i] == 1) CHECK(s.n_slots == (EB_LAYERS - 1) * EB_EXPERTS && s.n_miss + s.n_guess <= 2 * s.n_slots);
    ij__experts_close(&r.home);
    ij__reader_close(&reader);
  }
}

/* Every expert can be had. Reads that have failed already may come back once. */
static void have_each(ij_experts *home) {
  for (int layer = 0; layer < EB_LAYERS; layer++) {
    for (int e = 0; e < EB_EXPERTS && layer != EB_NO_EXPERTS; e++) {
      ij_expert_lease lease;
      int got = ij__experts_acquire(home, layer, &e, 1, &lease);
      if (got == IJ_E_IO) got = ij__experts_acquire(home, layer, &e, 1, &lease);
      CHECK_INT(got, 1);
      if (got != 1) continue;
      eb_check(&model, mapped, &lease);
      ij__experts_release(home, &lease, 1);
    }
  }
}

static void a_failing_drive_gives_errors_or_the_right_bytes(void) {
  static const double shares[] = {0, 0.1, 0.4};
  for (size_t i = 0; i < IJ_COUNT_OF(shares); i++) {
    ij_reader *reader = open_reader(true);
    run r = {.home = open_home(reader, shares[i], false, NULL), .seed = 900 + i, .may_fail = true};
    behave(60, 100, 100);
    run_steps(&r, 200);
    CHECK(r.n_errors > 0 && r.n_acquired > r.n_errors);
    behave(0, 0, 0);
    have_each(r.home); /* nothing is remembered against an expert */
    r.may_fail = false;
    run_steps(&r, 40); /* and no slot was lost */
    behave(1000, 0, 0);
    r.may_fail = true;
    int64_t before = r.n_errors;
    for (int j = 0; j < 20; j++) one_step(&r);
    CHECK(r.n_errors > before);
    drop_all_kept(&r);
    ij__experts_close(&r.home);
    ij__reader_close(&reader);
  }
  behave(0, 0, 0);
}

/* --- what is read, and when */

static void count_reads(ij_experts *home, int64_t *n_miss, uint64_t *bytes) {
  ij_experts_stats s;
  ij__experts_get_stats(home, &s);
  *n_miss = s.n_miss;
  *bytes = s.expert_bytes;
}

/* All experts of a layer with few slots: what a long prompt does. */
static void a_long_step_reads_each_expert_once(void) {
  static const double shares[] = {0, 0.05, 0.2, 0.5};
  for (size_t i = 0; i < IJ_COUNT_OF(shares); i++) {
    ij_reader *reader = open_reader(true);
    behave(0, 0, 300);
    ij_experts *home = open_home(reader, shares[i], false, NULL);
    for (int round = 0; round < 3; round++) {
      for (int layer = 0; layer < EB_LAYERS; layer++) {
        int ids[EB_EXPERTS] = {0, 1, 2, 3, 4, 5, 6, 7};
        int64_t miss0, miss1;
        uint64_t bytes0, bytes1;
        if (layer == EB_NO_EXPERTS) continue;
        count_reads(home, &miss0, &bytes0);
        ij__experts_want(home, layer, ids, EB_EXPERTS, IJ_WANT_SURE);
        for (int done = 0, got; done < EB_EXPERTS; done += got) {
          ij_expert_lease leases[EB_EXPERTS];
          got = ij__experts_acquire(home, layer, ids + done, EB_EXPERTS - done, leases);
          CHECK(got > 0);
          if (got < 0) break;
          check_all(leases, got);
          ij__experts_release(home, leases, got);
        }
        count_reads(home, &miss1, &bytes1);
        CHECK(miss1 - miss0 <= EB_EXPERTS);
        CHECK_INT(bytes1 - bytes0, (uint64_t)(miss1 - miss0) * ij__expert_bytes(&model.banks[layer]));
        if (round == 0) CHECK_INT(miss1 - miss0, EB_EXPERTS);
      }
    }
    ij__experts_close(&home);
    ij__reader_close(&reader);
  }
}

static void wait_for_calls(int64_t n) {
  for (int i = 0; i < 20000 && atomic_load(&the_drive.n_calls) < n; i++) nap_us(200);
  CHECK(atomic_load(&the_drive.n_calls) >= n);
}

/* While leases are out, the drive reads what comes next; and it begins with the announcement. */
static void reading_goes_on_meanwhile(void) {
  ij_reader *reader = open_reader(true);
  ij_experts *home = open_home(reader, 0.6, false, NULL);
  const int ids[] = {0, 1, 2, 3, 4, 5, 6, 7}, layer = 2; /* three runs of an expert, of one piece each */
  behave(0, 0, 0);
  atomic_store(&the_drive.n_calls, 0);
  ij__experts_want(home, layer, ids, 8, IJ_WANT_SURE);
  wait_for_calls(1);
  ij_expert_lease first[8], second[8];
  int got = ij__experts_acquire(home, layer, ids, 8, first);
  CHECK(got >= 1 && got < 8);
  wait_for_calls(3 * (got + 1)); /* before anything is released */
  int64_t quiet;
  do {
    quiet = atomic_load(&the_drive.n_calls);
    nap_us(5000);
  } while (atomic_load(&the_drive.n_calls) > quiet);
  CHECK(quiet < 3 * 8);
  ij__experts_release(home, first, got);
  wait_for_calls(quiet + 3 * got); /* in the slots that came back */
  int more = ij__experts_acquire(home, layer, ids + got, 8 - got, second);
  CHECK(more >= 1);
  if (more > 0) ij__experts_release(home, second, more);
  ij__experts_close(&home); /* with reads under way */
  ij__reader_close(&reader);
}

static void guesses_are_used_or_taken_back(void) {
  ij_reader *reader = open_reader(true);
  ij_experts *home = open_home(reader, 1, false, NULL);
  ij_experts_stats s;
  ij_expert_lease leases[8];
  behave(0, 0, 0);
  atomic_store(&the_drive.closed, true);
  ij__experts_want(home, 2, (const int[]){1, 3, 5, 6, 7}, 5, IJ_WANT_GUESS);
  ij__experts_want(home, 2, (const int[]){1, 2}, 2, IJ_WANT_SURE);
  ij__experts_get_stats(home, &s);
  CHECK_INT(s.n_guess, 2); /* a quarter of eight slots */
  CHECK_INT(s.n_guess_cancelled, 1);
  atomic_store(&the_drive.closed, false);
  for (int done = 0, got; done < 2; done += got) {
    got = ij__experts_acquire(home, 2, (const int[]){1, 2} + done, 2 - done, leases + done);
    CHECK(got > 0);
    if (got < 0) return;
  }
  check_all(leases, 2);
  ij__experts_release(home, leases, 2);
  ij__experts_get_stats(home, &s);
  CHECK_INT(s.n_guess_used, 1);
  CHECK_INT(s.n_miss, 2);
  CHECK_INT(s.n_hit, 0);
  int got = ij__experts_acquire(home, 2, (const int[]){3}, 1, leases); /* taken back, and needed all the same */
  CHECK_INT(got, 1);
  if (got == 1) {
    check_all(leases, 1);
    ij__experts_release(home, leases, 1);
  }
  ij__experts_close(&home);
  ij__reader_close(&reader);
}

/* Arrays that lie over each other, with other strides: loaders refuse such files, and a home does not depend on it. */
static void arrays_that_overlap(void) {
  ij_expert_banks b = eb_banks(&model);
  ij_expert_bank banks[EB_LAYERS];
  memcpy(banks, model.banks, sizeof banks);
  ij_bank_part *gate = &banks[2].gate, *up = &banks[2].up, *down = &banks[2].down;
  down->first.data = gate->first.data; /* the same place, */
  down->stride = gate->stride - 32;    /* but for expert 0 */
  up->first.data = (const char *)gate->first.data + 4100;
  up->stride = gate->stride + 64;
  b.banks = banks;
  ij_reader *reader = open_reader(false);
  ij_streamed_options o = {.ckpt = model.ckpt, .reader = reader, .mem_bytes = ij__experts_streamed_least(&b)};
  ij_experts *home = NULL, *truth = NULL;
  ij_err err = {0};
  CHECK_OK(ij__experts_open_mapped(&truth, &b, &err), err);
  CHECK_OK(ij__experts_open_streamed(&home, &b, &o, &err), err);
  for (int e = 0; e < EB_EXPERTS && home && truth; e++) {
    ij_expert_lease lease;
    CHECK_INT(ij__experts_acquire(home, 2, &e, 1, &lease), 1);
    eb_check(&model, truth, &lease);
    ij__experts_release(home, &lease, 1);
  }
  ij__experts_close(&home);
  ij__experts_close(&truth);
  ij__reader_close(&reader);
}

/* Leases that fill every slot of a class leave no room for another one, and that is said. */
static void no_room_is_an_error(void) {
  ij_reader *reader = open_reader(false);
  ij_experts *home = open_home(reader, 0, false, NULL);
  ij_expert_lease a, b;
  CHECK_INT(ij__experts_acquire(home, 2, (const int[]){4, 5}, 2, &a), 1);
  CHECK_INT(ij__experts_acquire(home, 2, (const int[]){5}, 1, &b), IJ_E_NOMEM);
  CHECK_HAS(ij__experts_error(home)->message, "expert 5 of layer 2");
  CHECK_INT(ij__experts_acquire(home, 4, (const int[]){5}, 1, &b), 1); /* another class */
  eb_check(&model, mapped, &a);
  eb_check(&model, mapped, &b);
  ij__experts_release(home, &a, 1);
  ij__experts_release(home, &b, 1);
  CHECK_INT(ij__experts_acquire(home, 2, (const int[]){5}, 1, &b), 1);
  eb_check(&model, mapped, &b);
  ij__experts_release(home, &b, 1);
  ij__experts_close(&home);
  ij__reader_close(&reader);
}

/* Two slots for a class of two layers, one of them leased: what the step holds for later makes way for what comes first, and is read again. */
static void what_comes_later_makes_way(void) {
  ij_reader *reader = open_reader(false);
  ij_experts *home = NULL;
  ij_experts_stats s = {0};
  for (double share = 0; s.n_slots != 7 && share < 0.3; share += 0.002) {
    ij__experts_close(&home);
    home = open_home(reader, share, false, NULL);
    ij__experts_get_stats(home, &s);
  }
  CHECK_INT(s.n_slots, 7);
  ij_expert_lease kept, lease;
  CHECK_INT(ij__experts_acquire(home, 1, (const int[]){5}, 1, &lease), 1);
  ij__experts_release(home, &lease, 1);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){0}, 1, &kept), 1);
  ij__experts_want(home, 1, (const int[]){2, 5}, 2, IJ_WANT_SURE);
  for (int i = 0; i < 2; i++) {
    int id = i ? 5 : 2;
    int got = i ? ij__experts_acquire(home, 1, &id, 1, &lease) : ij__experts_acquire(home, 1, (const int[]){2, 5}, 2, &lease);
    CHECK_INT(got, 1);
    if (got != 1) break;
    CHECK_INT(lease.expert, id);
    eb_check(&model, mapped, &lease);
    ij__experts_release(home, &lease, 1);
  }
  eb_check(&model, mapped, &kept);
  ij__experts_release(home, &kept, 1);
  ij__experts_close(&home);
  ij__reader_close(&reader);
}

static void heat_trace_and_prior(void) {
  ij_reader *reader = open_reader(false);
  float prior[EB_LAYERS * EB_EXPERTS] = {0}, heat[EB_LAYERS * EB_EXPERTS];
  prior[2 * EB_EXPERTS + 6] = 1; /* so this one stays */
  ij_experts *home = open_home(reader, 0.3, true, prior);
  const int order[] = {6, 0, 1, 2, 3, 4, 5, 7, 6};
  const int32_t *keys;
  for (int i = 0; i < 9; i++) {
    ij_expert_lease lease;
    CHECK_INT(ij__experts_acquire(home, 2, &order[i], 1, &lease), 1);
    ij__experts_release(home, &lease, 1);
  }
  ij_experts_stats s;
  ij__experts_get_stats(home, &s);
  CHECK_INT(s.n_hit, 1);
  CHECK_INT(ij__experts_trace(home, &keys), 9);
  for (int i = 0; i < 9; i++) CHECK_INT(keys[i], 2 * EB_EXPERTS + order[i]);
  CHECK(ij__experts_heat(home, heat));
  for (int i = 0; i < EB_LAYERS * EB_EXPERTS; i++) {
    if (i / EB_EXPERTS != 2) CHECK(heat[i] == 0);
    else CHECK(i % EB_EXPERTS == 6 ? heat[i] > 1.9f && heat[i] <= 2 : heat[i] > 0.9f && heat[i] <= 1);
  }
  ij__experts_close(&home);
  ij__reader_close(&reader);
}

/* --- opening */

static void memory_is_bounded(void) {
  ij_expert_banks b = eb_banks(&model);
  size_t least = ij__experts_streamed_least(&b), most = ij__experts_streamed_most(&b);
  ij_reader *reader = open_reader(false);
  ij_err err;
  CHECK(least < most);
  for (size_t mem = least; mem < most + (most - least) / 5; mem += (most - least) / 7) {
    ij_streamed_options o = {.ckpt = model.ckpt, .reader = reader, .mem_bytes = mem, .keep_trace = mem % 2};
    ij_experts *home = NULL;
    ij_reader *own = open_reader(false);
    o.reader = own;
    size_t before = ij__alloc_bytes();
    CHECK_OK(ij__experts_open_streamed(&home, &b, &o, &err), err);
    if (!home) break;
    ij_experts_stats s;
    ij__experts_get_stats(home, &s);
    CHECK(ij__alloc_bytes() - before + s.slot_bytes <= mem + 2048); /* the reader's list of files is not the home's */
    if (mem >= most && !o.keep_trace) CHECK_INT(s.n_slots, (EB_LAYERS - 1) * EB_EXPERTS);
    if (mem == least) CHECK_INT(s.n_slots, 5); /* three layers have experts of one size */
    ij__experts_close(&home);
    ij__reader_close(&own);
  }
  ij_experts *home = NULL;
  ij_streamed_options o = {.ckpt = model.ckpt, .reader = reader, .mem_bytes = least - 1};
  CHECK_INT(ij__experts_open_streamed(&home, &b, &o, &err), IJ_E_NOMEM);
  CHECK_HAS(err.message, "at least");
  CHECK(!home);
  ij__reader_close(&reader);
}

static void opening_fails_cleanly(void) {
  ij_expert_banks b = eb_banks(&model);
  ij_reader *reader = open_reader(false);
  float prior[EB_LAYERS * EB_EXPERTS] = {1};
  ij_streamed_options o = {.ckpt = model.ckpt, .reader = reader, .mem_bytes = ij__experts_streamed_most(&b), .prior = prior, .keep_trace = true};
  ij_status s = IJ_E_NOMEM;
  ij_experts *home = NULL;
  int64_t n = 0;
  while (s != IJ_OK && n < 200) {
    ij_err err = {0};
    int64_t before = ij__alloc_blocks();
    ij__alloc_fail_after(++n);
    s = ij__experts_open_streamed(&home, &b, &o, &err);
    ij__alloc_fail_after(0);
    if (s == IJ_OK) break;
    CHECK_INT(s, IJ_E_NOMEM);
    CHECK(!home && err.code == s);
    CHECK(ij__alloc_blocks() - before <= 6); /* files stay with the reader */
  }
  CHECK(n > 8 && n < 200);
  ij__experts_close(&home);
  ij__reader_close(&reader);
}

/* Bytes that lie in no file are refused, by layer. */
static void a_model_in_memory_is_refused(void) {
  static char elsewhere[1 << 20];
  ij_expert_bank banks[EB_LAYERS];
  memcpy(banks, model.banks, sizeof banks);
  banks[1].down.first.data = elsewhere;
  ij_expert_banks b = {banks, EB_LAYERS, EB_EXPERTS};
  ij_reader *reader = open_reader(false);
  ij_streamed_options o = {.ckpt = model.ckpt, .reader = reader, .mem_bytes = ij__experts_streamed_most(&b)};
  ij_experts *home = NULL;
  ij_err err;
  CHECK_INT(ij__experts_open_streamed(&home, &b, &o, &err), IJ_E_UNSUPPORTED);
  CHECK_HAS(err.message, "the experts of layer 1 are not");
  CHECK(!home);
  ij__reader_close(&reader);
}

/* A file that is no longer the one that was mapped is refused at the latest when it is read. */
static void a_file_cut_short_is_an_error(void) {
  eb_model m;
  eb_open(&m);
  ij_expert_banks b = eb_banks(&m);
  ij_reader *reader = open_reader(false);
  ij_streamed_options o = {.ckpt = m.ckpt, .reader = reader, .mem_bytes = ij__experts_streamed_most(&b)};
  ij_experts *home = NULL;
  ij_err err = {0};
  CHECK_OK(ij__experts_open_streamed(&home, &b, &o, &err), err);
  ij_expert_lease lease;
  for (int i = 0; i < 2; i++) CHECK_INT(truncate(m.path[i], 4096), 0);
  CHECK_INT(ij__experts_acquire(home, 7, (const int[]){7}, 1, &lease), IJ_E_IO);
  CHECK_HAS(ij__experts_error(home)->message, "expert 7 of layer 7: ");
  CHECK_HAS(ij__experts_error(home)->where, ".safetensors");
  ij__experts_close(&home);
  ij__reader_close(&reader);
  eb_close(&m);
}

/* Another file has taken over the name, of the same size, before any home has opened it: what was mapped is not what would be read. */
static void a_file_replaced_before_is_an_error(void) {
  for (int home = 0; home < 2; home++) {
    eb_model m;
    char other[320];
    eb_open(&m);
    ij_expert_banks b = eb_banks(&m);
    snprintf(other, sizeof other, "%s.part", m.path[1]);
    CHECK(eb_write(other, 3));
    CHECK_INT(rename(other, m.path[1]), 0);
    ij_reader *reader = open_reader(false);
    ij_streamed_options o = {.ckpt = m.ckpt, .reader = reader, .mem_bytes = ij__experts_streamed_most(&b)};
    ij_experts *h = NULL;
    ij_err err = {0};
    ij_status s = home ? ij__experts_open_resident(&h, &b, m.ckpt, reader, NULL, NULL, &err) : ij__experts_open_streamed(&h, &b, &o, &err);
    CHECK_INT(s, IJ_E_IO);
    CHECK_STR(err.where, m.path[1]);
    CHECK_HAS(err.message, "the file whose header was read");
    ij__experts_close(&h);
    ij__reader_close(&reader);
    eb_close(&m);
  }
}

int main(void) {
  ij_err err = {0};
  ij_expert_banks b;
  eb_open(&model);
  b = eb_banks(&model);
  for (int i = 0; i < 2; i++) {
    struct stat st;
    CHECK_INT(stat(model.path[i], &st), 0);
    inodes[i] = st.st_ino;
  }
  CHECK_OK(ij__experts_open_mapped(&mapped, &b, &err), err);
  RUN(same_bytes_at_every_capacity);
  RUN(a_failing_drive_gives_errors_or_the_right_bytes);
  RUN(a_long_step_reads_each_expert_once);
  RUN(reading_goes_on_meanwhile);
  RUN(guesses_are_used_or_taken_back);
  RUN(arrays_that_overlap);
  RUN(no_room_is_an_error);
  RUN(what_comes_later_makes_way);
  RUN(heat_trace_and_prior);
  RUN(memory_is_bounded);
  RUN(opening_fails_cleanly);
  RUN(a_model_in_memory_is_refused);
  RUN(a_file_cut_short_is_an_error);
  RUN(a_file_replaced_before_is_an_error);
  ij__experts_close(&mapped);
  eb_close(&model);
  return test_report();
}
