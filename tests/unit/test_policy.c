/* The policies of the expert cache: bookkeeping against a plain model, and hit rates against what is promised, on traces whose seeds were never
 * looked at while the policy was made. */
#include "../bench/expert_traces.h"
#include "cache/policy.h"
#include "core/alloc.h"
#include "test.h"

/* src/core/alloc.c, for tests: the n-th allocation from now on fails, and all after it; 0 ends that. */
extern void ij__alloc_fail_after(int64_t n);

/* ---------------------------------------------------------------------------------------------------------- bookkeeping */

/* What must hold between all slots and keys at any time. */
static void check_tables(const ij_policy *p, int64_t n_key, int64_t n_slot, const int *holds) {
  int64_t n_found = 0, n_full = 0;
  for (int64_t k = 0; k < n_key; k++) {
    int64_t slot = ij__policy_find(p, k);
    if (slot < 0) continue;
    n_found++;
    CHECK(slot < n_slot && ij__policy_key(p, slot) == k);
  }
  for (int64_t s = 0; s < n_slot; s++) {
    n_full += ij__policy_key(p, s) >= 0;
    CHECK(!holds[s] || ij__policy_key(p, s) >= 0);
  }
  CHECK_INT(n_found, n_full);
}

static bool all_held(const int *holds, int n_slot) {
  for (int s = 0; s < n_slot; s++) {
    if (!holds[s]) return false;
  }
  return true;
}

/* One random call; says what the policy may not do. */
static void random_call(ij_policy *p, uint64_t *state, int n_key, int n_slot, int *holds) {
  int64_t key = et_below(state, n_key), slot = ij__policy_find(p, key), evicted = -2;
  switch (et_below(state, 5)) {
    case 0: ij__policy_touch(p, key); break;
    case 1:
    case 2: {
      if (slot >= 0) break;
      bool guess = et_below(state, 2), full = true;
      int64_t before[16];
      for (int s = 0; s < n_slot; s++) full &= (before[s] = ij__policy_key(p, s)) >= 0;
      int64_t got = ij__policy_take(p, key, guess, &evicted);
      if (got < 0) {
        CHECK(full && (guess || all_held(holds, n_slot)));
        CHECK_INT(evicted, -1);
        break;
      }
      CHECK_INT(evicted, before[got]);
      CHECK(!full == (evicted < 0));
      CHECK(!holds[got] && ij__policy_key(p, got) == key && ij__policy_find(p, key) == got);
      if (evicted >= 0) CHECK_INT(ij__policy_find(p, evicted), -1);
      break;
    }
    case 3:
      if (slot < 0) break;
      if (holds[slot] && et_below(state, 2)) {
        holds[slot]--;
        ij__policy_unhold(p, slot);
      } else if (holds[slot] < 3) {
        holds[slot]++;
        ij__policy_hold(p, slot);
      }
      break;
    default:
      if (slot >= 0 && !holds[slot]) {
        ij__policy_drop(p, slot);
        CHECK_INT(ij__policy_find(p, key), -1);
        CHECK_INT(ij__policy_key(p, slot), -1);
      }
  }
}

static void tables_hold_together(void) {
  uint64_t state = 77;
  for (int kind = 0; kind < IJ_POLICY_COUNT; kind++) {
    for (int n_slot = 1; n_slot <= 16; n_slot += 5) {
      enum { N_KEY = 24 };
      float prior[N_KEY];
      for (int i = 0; i < N_KEY; i++) prior[i] = (float)et_below(&state, 5);
      int holds[16] = {0};
      ij_policy *p;
      ij_err err;
      CHECK_OK(ij__policy_open(&p, (ij_policy_kind)kind, N_KEY, n_slot, n_slot == 6 ? NULL : prior, &err), err);
      ij__alloc_guard_enter();
      int64_t violations = ij__alloc_violations();
      for (int i = 0; i < 3000; i++) {
        random_call(p, &state, N_KEY, n_slot, holds);
        if (i % 16 == 0) check_tables(p, N_KEY, n_slot, holds);
      }
      CHECK_INT(ij__alloc_violations(), violations);
      ij__alloc_guard_leave();
      ij__policy_close(&p);
      CHECK(!p);
    }
  }
}

/* With one slot fewer than keys the victim of each kind is known. */
static int64_t victim(ij_policy_kind kind, const float *prior, const int *touches, int n) {
  ij_policy *p;
  int64_t out = -1;
  if (ij__policy_open(&p, kind, 4, 3, prior, NULL) != IJ_OK) return -2;
  for (int i = 0; i < n; i++) {
    ij__policy_touch(p, touches[i]);
    if (ij__policy_find(p, touches[i]) < 0) ij__policy_take(p, touches[i], false, NULL);
  }
  ij__policy_take(p, 3, false, &out);
  ij__policy_close(&p);
  return out;
}

static void the_least_goes(void) {
  const int touches[] = {0, 1, 2, 0, 0, 1, 2, 2, 2};
  const float prior[] = {1, 5, 2, 0};
  CHECK_INT(victim(IJ_POLICY_LRU, NULL, touches, 9), 0);
  CHECK_INT(victim(IJ_POLICY_LFU, NULL, touches, 9), 1);
  CHECK_INT(victim(IJ_POLICY_PINNED, prior, touches, 9), 0); /* 1 and 2 are pinned */
  CHECK_INT(victim(IJ_POLICY_BLEND, NULL, touches, 9), 1);
}

static void a_guess_displaces_nothing_better(void) {
  ij_policy *p;
  ij_err err;
  CHECK_OK(ij__policy_open(&p, IJ_POLICY_BLEND, 3, 1, NULL, &err), err);
  CHECK_INT(ij__policy_take(p, 0, true, NULL), 0); /* an empty slot is free */
  for (int i = 0; i < 20; i++) ij__policy_touch(p, 0);
  CHECK_INT(ij__policy_take(p, 1, true, NULL), -1);
  for (int i = 0; i < 200; i++) ij__policy_touch(p, 1);
  CHECK_INT(ij__policy_take(p, 1, true, NULL), 0);
  ij__policy_hold(p, 0);
  CHECK_INT(ij__policy_take(p, 2, false, NULL), -1);
  ij__policy_unhold(p, 0);
  CHECK_INT(ij__policy_take(p, 2, false, NULL), 0);
  ij__policy_close(&p);
}

/* Long enough that every fading counter is divided several times; the heat stays what the definition says. */
static void heat_fades(void) {
  ij_policy *p;
  ij_err err;
  float heat[2];
  CHECK_OK(ij__policy_open(&p, IJ_POLICY_BLEND, 2, 1, NULL, &err), err);
  for (int i = 0; i < 100000; i++) ij__policy_touch(p, 0);
  ij__policy_heat(p, 0, 2, heat);
  double each = 1 / (1 - exp2(-1.0 / 32)); /* the sum of uses that fade by half in 16 accesses per key */
  CHECK_NEAR(heat[0], each, 1e-3);
  CHECK_NEAR(heat[1], 0, 0);
  for (int i = 0; i < 32; i++) ij__policy_touch(p, 1);
  ij__policy_heat(p, 0, 2, heat);
  CHECK_NEAR(heat[0], each / 2, 1e-3);
  CHECK_NEAR(heat[1], each / 2, 1e-3);
  ij__policy_close(&p);
}

static void opening_fails_cleanly(void) {
  ij_policy *p;
  ij_err err;
  int64_t blocks = ij__alloc_blocks();
  CHECK_INT(ij__policy_open(&p, IJ_POLICY_LRU, 0, 1, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij__policy_open(&p, IJ_POLICY_LRU, 1, 0, NULL, &err), IJ_E_ARGUMENT);
  ij__alloc_fail_after(1);
  CHECK_INT(ij__policy_open(&p, IJ_POLICY_LRU, 10, 10, NULL, &err), IJ_E_NOMEM);
  ij__alloc_fail_after(0);
  CHECK(!p);
  size_t before = ij__alloc_bytes();
  float none[10] = {0, -1, NAN, INFINITY};
  CHECK_OK(ij__policy_open(&p, IJ_POLICY_PINNED, 10, 4, none, &err), err); /* a prior that says nothing is none */
  CHECK_INT(ij__alloc_bytes() - before, ij__policy_bytes(10, 4));
  ij__policy_touch(p, 3);
  CHECK_INT(ij__policy_take(p, 3, false, NULL), 0);
  ij__policy_close(&p);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

static void same_calls_same_slots(void) {
  et_trace t[2];
  et_make(t, ET_DRIFTING, &(et_shape){3, 32, 4, 200, 0.2, 50}, 5);
  float prior[96];
  et_count(&t[0], prior);
  int64_t first = et_replay(&t[1], IJ_POLICY_BLEND, 30, prior);
  CHECK_INT(et_replay(&t[1], IJ_POLICY_BLEND, 30, prior), first);
  CHECK(first > 0);
  et_free(&t[0]);
  et_free(&t[1]);
}

/* ------------------------------------------------------------------------------------------------------------ hit rates */

/* The best there is, found by trying everything, on traces so short that it can be done. */
static int try_all(const et_trace *t, int64_t i, unsigned in, int n_in, int n_slot) {
  if (i == t->n) return 0;
  unsigned bit = 1u << t->keys[i];
  if (in & bit) return 1 + try_all(t, i + 1, in, n_in, n_slot);
  if (n_in < n_slot) return try_all(t, i + 1, in | bit, n_in + 1, n_slot);
  int best = 0;
  for (int k = 0; k < t->n_expert; k++) {
    if (in >> k & 1) best = IJ_MAX(best, try_all(t, i + 1, (in & ~(1u << k)) | bit, n_in, n_slot));
  }
  return best;
}

static void belady_is_the_best(void) {
  uint64_t state = 3;
  for (int round = 0; round < 60; round++) {
    int32_t keys[14];
    et_trace t = {1, 5, 14, keys};
    for (int i = 0; i < 14; i++) keys[i] = et_below(&state, 5);
    for (int n_slot = 1; n_slot <= 3; n_slot++) CHECK_INT(et_belady(&t, n_slot), try_all(&t, 0, 0, 0, n_slot));
  }
}

/* Hits of every policy, and in the last place of Belady's optimum, summed over three traces of one kind: one alone is short, and luck moves the
 * difference of two policies by 0.2 points. PINNED and BLEND know the counts of the trace before. */
static int64_t count_hits(et_kind kind, double share, int64_t hits[IJ_POLICY_COUNT + 1]) {
  static const et_shape shape = {4, 256, 6, 1200, 0.05, 200};
  int64_t n_slot = (int64_t)(share * 4 * 256), n = 0;
  for (int i = 0; i <= IJ_POLICY_COUNT; i++) hits[i] = 0;
  for (uint64_t seed = 7110001; seed <= 7110003; seed++) {
    et_trace t[2];
    float prior[4 * 256];
    et_make(t, kind, &shape, seed);
    et_count(&t[0], prior);
    for (int k = 0; k < IJ_POLICY_COUNT; k++) {
      hits[k] += et_replay(&t[1], (ij_policy_kind)k, n_slot, k == IJ_POLICY_PINNED || k == IJ_POLICY_BLEND ? prior : NULL);
    }
    hits[IJ_POLICY_COUNT] += et_belady(&t[1], n_slot);
    n += t[1].n;
    et_free(&t[0]);
    et_free(&t[1]);
  }
  return n;
}

static void blend_keeps_its_promise(void) {
  for (int kind = 0; kind < ET_KINDS; kind++) {
    int64_t hits[IJ_POLICY_COUNT + 1], n = count_hits((et_kind)kind, 0.5, hits);
    printf("%s:", et_names[kind]);
    for (int k = 0; k <= IJ_POLICY_COUNT; k++) {
      printf(" %s %.2f", k < IJ_POLICY_COUNT ? ij__policy_name((ij_policy_kind)k) : "belady", 100 * (double)hits[k] / (double)n);
      CHECK(hits[k] > 0 && hits[k] <= hits[IJ_POLICY_COUNT]);
      if (k < IJ_POLICY_COUNT) CHECK(hits[IJ_POLICY_BLEND] >= hits[k]);
    }
    printf("\n");
    CHECK(100 * (double)(hits[IJ_POLICY_COUNT] - hits[IJ_POLICY_BLEND]) <= 8 * (double)n);
  }
}

int main(void) {
  RUN(tables_hold_together);
  RUN(the_least_goes);
  RUN(a_guess_displaces_nothing_better);
  RUN(heat_fades);
  RUN(opening_fails_cleanly);
  RUN(same_calls_same_slots);
  RUN(belady_is_the_best);
  RUN(blend_keeps_its_promise);
  return test_report();
}
