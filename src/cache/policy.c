/* policy.c: see policy.h. Every key keeps a few counters of its uses that fade at different speeds; a policy is a way to turn them into one number,
 * its worth, and the slot of the least worth is the next to go. A binary heap over the slots that are not held finds it.
 *
 * Fading without touching every key: instead of making old uses smaller, each new use counts a little more than the one before (`unit` grows),
 * and only the quotient of a counter and the sum of all counters has a meaning. Before units overflow, all is divided by a power of two.
 *
 * BLEND reads each counter as a forecast, the share of accesses that go to this key, and works with a weighted mean of these forecasts, of the
 * prior and of "all alike". The weights are learned from the accesses themselves: each access is credited to the forecasts that expected it (a
 * mixture, fitted one sample at a time). Those asked are the forecasts of some time ago, about as long as a key stays that is not used: the
 * question is not who comes next but who comes before being thrown out, and forgetting a topic is only right if it stays away for that
 * long. On steady use the slow counters and the prior win, on a lasting change the fast ones, and nothing has to be set for either. Keys
 * that have lately been used less than half as often as before have weights of their own: a slow counter says little about them.
 *
 * Worths of keys that are not used change all the time, so the heap is a little behind: every access brings a few slots up to date, in turn.
 * Which layer comes next does not enter: a key of the next layer is nearer its next chance than one of the last, but a key that is about to
 * go is used once in fifty tokens or less, and part of one token is nothing to that (with true frequencies the hit rate differs by 0.02 points;
 * 40 layers of 256, 6 used). */
#include "cache/policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/alloc.h"

/* Half-lives of the counters, in accesses per key of the model: with 6 of 256 experts used per token, 1 is about 43 tokens. 0: never fades. */
static const double half_lives[] = {1.0 / 16, 1.0 / 4, 1, 4, 8, 16, 0};
enum {
  N_SCALE = IJ_COUNT_OF(half_lives),
  HEAT = N_SCALE - 2,   /* the counter that outlives the session, see ij__policy_heat */
  COUNT = N_SCALE - 1,  /* the plain count */
  PRIOR = N_SCALE,      /* forecasts that are no counters */
  ALIKE,
  N_FORECAST,
  LATELY = 3,           /* the two counters that tell whether a key wanes */
  BEFORE = 5,
  N_CLASS = 2,          /* of keys: those that wane, those that do not */
  REFRESH = 8           /* slots brought up to date per access */
};
/* Measured with bench_experts on several seeds: half or twice of either changes hit rates by 0.1 to 0.3 points. */
#define LEARN 0.2       /* the weights of the forecasts follow the last so many accesses per key */
#define HORIZON 1.0     /* the past that is asked is replaced when so many slots were given, as a share of all; it is once to twice as old */
#define BACK 0.02       /* share of the first weights that comes back each time: none is lost for good */
#define RESCALE_BITS 600

typedef struct uses {
  double count[N_SCALE];
  double last; /* access of the last use, from 1; 0: none */
} uses;

struct ij_policy {
  ij_policy_kind kind;
  int64_t n_key, n_slot, n_access;
  uses *uses;            /* [n_key] */
  float *past[2];        /* [n_key][N_SCALE] shares of each counter some time ago, and the time before that, which is asked; BLEND */
  int64_t n_given, next_past; /* slots given since, and how many there will be */
  int n_past;            /* how many of them there are */
  float *prior;          /* [n_key] shares, or NULL */
  float least_pinned;    /* PINNED: keys of at least this share stay */
  int32_t *slot_of;      /* [n_key] */
  int32_t *key_of;       /* [n_slot] */
  int32_t *holds;        /* [n_slot] */
  double *worth;         /* [n_slot] when it was last looked at */
  int32_t *heap, *place; /* [n_slot] slots with a key and no hold, the least first; where a slot stands in it, or -1 */
  int32_t *empty;        /* [n_slot] a stack */
  int64_t n_heap, n_empty, next_refresh;
  double unit[N_SCALE], growth[N_SCALE], sum[N_SCALE]; /* what a use counts now, per access, and in all */
  /* Of the accesses of late, the share that was to a key of a class and expected by a forecast; and what share of all this forecast had given to
   * the keys of that class. The weight is their quotient. */
  double met[N_CLASS][N_FORECAST], given[N_CLASS][N_FORECAST];
  double first_weight, learn;
  double factor[N_CLASS][N_FORECAST]; /* weight per count, see worth */
};

static const char *const names[] = {
#define NAME(id, name) name,
    IJ_POLICY_LIST(NAME)
#undef NAME
};

const char *ij__policy_name(ij_policy_kind kind) { return names[kind]; }

/* -------------------------------------------------------------------------------------------------------------- worth */

static int class_of(double lately, double before) { return lately > 0.5 * before; }

static int class_now(const ij_policy *p, int64_t key) {
  const double *count = p->uses[key].count;
  return class_of(count[LATELY] * p->sum[BEFORE], count[BEFORE] * p->sum[LATELY]);
}

static double blended(const ij_policy *p, int64_t key) {
  const double *count = p->uses[key].count, *factor = p->factor[class_now(p, key)];
  double sum = factor[ALIKE];
  for (int i = 0; i < N_SCALE; i++) sum += factor[i] * count[i];
  return p->prior ? sum + factor[PRIOR] * (double)p->prior[key] : sum;
}

static double worth_of(const ij_policy *p, int64_t key) {
  const uses *u = &p->uses[key];
  switch (p->kind) {
    case IJ_POLICY_LFU: return u->count[COUNT] + u->last * 0x1p-40; /* of two used as often the one used last */
    case IJ_POLICY_PINNED:
      if (p->prior && p->prior[key] >= p->least_pinned) return 0x1p60 * (1 + (double)p->prior[key]);
      return u->last;
    case IJ_POLICY_BLEND: return blended(p, key);
    default: return u->last;
  }
}

/* What a key would be worth if it were used now. */
static double worth_if_used(const ij_policy *p, int64_t key) {
  double worth = worth_of(p, key);
  switch (p->kind) {
    case IJ_POLICY_LFU: return worth + 1;
    case IJ_POLICY_BLEND:
      for (int i = 0; i < N_SCALE; i++) worth += p->factor[1][i] * p->unit[i];
      return worth;
    default: return IJ_MAX(worth, (double)p->n_access);
  }
}

/* --------------------------------------------------------------------------------------------------------------- heap */

static void set_place(ij_policy *p, int64_t at, int32_t slot) {
  p->heap[at] = slot;
  p->place[slot] = (int32_t)at;
}

static void sift(ij_policy *p, int64_t at) {
  int32_t slot = p->heap[at];
  double w = p->worth[slot];
  while (at > 0 && p->worth[p->heap[(at - 1) / 2]] > w) {
    set_place(p, at, p->heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  for (int64_t child; (child = 2 * at + 1) < p->n_heap; at = child) {
    if (child + 1 < p->n_heap && p->worth[p->heap[child + 1]] < p->worth[p->heap[child]]) child++;
    if (p->worth[p->heap[child]] >= w) break;
    set_place(p, at, p->heap[child]);
  }
  set_place(p, at, slot);
}

static void heap_add(ij_policy *p, int64_t slot) {
  p->worth[slot] = worth_of(p, p->key_of[slot]);
  set_place(p, p->n_heap++, (int32_t)slot);
  sift(p, p->n_heap - 1);
}

static void heap_remove(ij_policy *p, int64_t slot) {
  int64_t at = p->place[slot];
  int32_t last = p->heap[--p->n_heap];
  p->place[slot] = -1;
  if (at == p->n_heap) return;
  set_place(p, at, last);
  sift(p, at);
}

static void refresh(ij_policy *p, int64_t slot) {
  if (p->place[slot] < 0) return;
  double w = worth_of(p, p->key_of[slot]);
  if (w == p->worth[slot]) return;
  p->worth[slot] = w;
  sift(p, p->place[slot]);
}

/* ------------------------------------------------------------------------------------------------------- opening, closing */

/* Lays all tables out behind the struct; p NULL: only counts. */
static size_t lay_out(ij_policy *p, size_t n_key, size_t n_slot, bool prior) {
  char *base = (char *)p;
  size_t at = ij__align_up(sizeof *p, IJ_ALIGNMENT);
#define TABLE(field, count, type)                              \
  do {                                                         \
    if (p) p->field = (type *)(void *)(base + at);             \
    at += ij__align_up((count) * sizeof(type), IJ_ALIGNMENT);  \
  } while (0)
  TABLE(uses, n_key, uses);
  TABLE(past[0], n_key * N_SCALE, float);
  TABLE(past[1], n_key * N_SCALE, float);
  TABLE(worth, n_slot, double);
  TABLE(slot_of, n_key, int32_t);
  TABLE(key_of, n_slot, int32_t);
  TABLE(holds, n_slot, int32_t);
  TABLE(heap, n_slot, int32_t);
  TABLE(place, n_slot, int32_t);
  TABLE(empty, n_slot, int32_t);
  if (prior) TABLE(prior, n_key, float);
#undef TABLE
  return at;
}

size_t ij__policy_bytes(int64_t n_key, int64_t n_slot) { return lay_out(NULL, (size_t)n_key, (size_t)n_slot, true); }

/* Shares that sum to 1. False: nothing in it counts. */
static bool take_prior(ij_policy *p, const float *prior) {
  double sum = 0;
  for (int64_t i = 0; i < p->n_key; i++) sum += prior[i] > 0 && isfinite(prior[i]) ? (double)prior[i] : 0;
  if (!(sum > 0) || !isfinite(sum)) return false;
  for (int64_t i = 0; i < p->n_key; i++) p->prior[i] = prior[i] > 0 && isfinite(prior[i]) ? (float)((double)prior[i] / sum) : 0;
  return true;
}

/* The share that all but one slot's worth of keys can have and more cannot: found by halving, since shares need no order. */
static float least_pinned(const ij_policy *p) {
  double lo = 0, hi = 2;
  for (int i = 0; i < 64; i++) {
    double mid = 0.5 * (lo + hi);
    int64_t n = 0;
    for (int64_t k = 0; k < p->n_key; k++) n += (double)p->prior[k] >= mid;
    if (n < p->n_slot) hi = mid;
    else lo = mid;
  }
  return (float)hi;
}

/* The first past is kept early, and it is never done so often that copying all counters would cost more than the accesses between. */
static int64_t least_past(const ij_policy *p) { return p->n_key / 8 + 1; }

static void begin_forecasts(ij_policy *p) {
  double n = (double)p->n_key;
  p->learn = 1 / (LEARN * n);
  p->next_past = least_past(p);
  for (int i = 0; i < N_SCALE; i++) {
    p->unit[i] = 1;
    p->growth[i] = half_lives[i] > 0 ? exp2(1 / (half_lives[i] * n)) : 1;
  }
  p->first_weight = 1.0 / (p->prior ? N_FORECAST : N_FORECAST - 1);
}

static double weight_of(const ij_policy *p, int c, int i) {
  if (i == PRIOR && !p->prior) return 0;
  return p->given[c][i] > 1e-6 ? p->met[c][i] / p->given[c][i] : p->first_weight;
}

static void update_factors(ij_policy *p) {
  for (int c = 0; c < N_CLASS; c++) {
    for (int i = 0; i < N_SCALE; i++) p->factor[c][i] = p->sum[i] > 0 ? weight_of(p, c, i) / p->sum[i] : 0;
    p->factor[c][PRIOR] = weight_of(p, c, PRIOR);
    p->factor[c][ALIKE] = weight_of(p, c, ALIKE) / (double)p->n_key;
  }
}

ij_status ij__policy_open(ij_policy **out, ij_policy_kind kind, int64_t n_key, int64_t n_slot, const float *prior, ij_err *err) {
  *out = NULL;
  if (n_key < 1 || n_slot < 1 || n_key > INT32_MAX / 128 || n_slot > INT32_MAX / 128) {
    return ij__fail(err, IJ_E_ARGUMENT, "the expert cache", "%lld experts in %lld slots cannot be", (long long)n_key, (long long)n_slot);
  }
  size_t n_bytes = lay_out(NULL, (size_t)n_key, (size_t)n_slot, prior != NULL);
  ij_policy *p = ij__alloc_zero(1, n_bytes);
  if (!p) return ij__fail_nomem(err, "the expert cache", n_bytes);
  p->kind = kind;
  p->n_key = n_key;
  p->n_slot = n_slot;
  lay_out(p, (size_t)n_key, (size_t)n_slot, prior != NULL);
  if (prior && !take_prior(p, prior)) p->prior = NULL;
  if (p->prior) p->least_pinned = least_pinned(p);
  for (int64_t i = 0; i < n_key; i++) p->slot_of[i] = -1;
  for (int64_t i = 0; i < n_slot; i++) {
    p->key_of[i] = p->place[i] = -1;
    p->empty[p->n_empty++] = (int32_t)(n_slot - 1 - i);
  }
  begin_forecasts(p);
  update_factors(p);
  *out = p;
  return IJ_OK;
}

void ij__policy_close(ij_policy **p) {
  ij__free(*p);
  *p = NULL;
}

/* --------------------------------------------------------------------------------------------------------------- keys */

int64_t ij__policy_find(const ij_policy *p, int64_t key) { return p->slot_of[key]; }
int64_t ij__policy_key(const ij_policy *p, int64_t slot) { return p->key_of[slot]; }

/* The forecasts of some time ago for a key; returns its class then. */
static int ask_past(const ij_policy *p, int64_t key, double share[N_FORECAST]) {
  const float *past = p->past[1] + key * N_SCALE;
  for (int i = 0; i < N_SCALE; i++) share[i] = (double)past[i];
  share[PRIOR] = p->prior ? (double)p->prior[key] : 0;
  share[ALIKE] = 1 / (double)p->n_key;
  return class_of(share[LATELY], share[BEFORE]);
}

/* Credits an access to the forecasts that expected it, before it is counted. */
static void learn(ij_policy *p, int64_t key) {
  double share[N_FORECAST], sum = 0;
  int c = ask_past(p, key, share);
  for (int i = 0; i < N_FORECAST; i++) sum += share[i] *= weight_of(p, c, i);
  if (!(sum > 0)) return;
  for (int d = 0; d < N_CLASS; d++) {
    for (int i = 0; i < N_FORECAST; i++) p->met[d][i] += p->learn * ((d == c ? share[i] / sum : 0) - p->met[d][i]);
  }
}

/* Another past is asked from now on. Weights stay as they are. */
static void count_given(ij_policy *p) {
  double weight[N_CLASS][N_FORECAST], share[N_FORECAST];
  for (int c = 0; c < N_CLASS; c++) {
    for (int i = 0; i < N_FORECAST; i++) weight[c][i] = (1 - BACK) * weight_of(p, c, i) + BACK * p->first_weight;
  }
  memset(p->given, 0, sizeof p->given);
  for (int64_t k = 0; k < p->n_key; k++) {
    int c = ask_past(p, k, share);
    for (int i = 0; i < N_FORECAST; i++) p->given[c][i] += share[i];
  }
  for (int c = 0; c < N_CLASS; c++) {
    for (int i = 0; i < N_FORECAST; i++) p->met[c][i] = weight[c][i] * p->given[c][i];
  }
}

static void keep_past(ij_policy *p) {
  float *oldest = p->past[1];
  p->past[1] = p->past[0];
  p->past[0] = oldest;
  for (int64_t k = 0; k < p->n_key; k++) {
    for (int i = 0; i < N_SCALE; i++) oldest[k * N_SCALE + i] = p->sum[i] > 0 ? (float)(p->uses[k].count[i] / p->sum[i]) : 0;
  }
  p->n_past = IJ_MIN(p->n_past + 1, 2);
  if (p->n_past == 2) count_given(p);
  p->n_given = 0;
  p->next_past = IJ_MIN(2 * p->next_past, IJ_MAX(least_past(p), (int64_t)(HORIZON * (double)p->n_slot)));
}

/* Divides one counter of all keys by a power of two, which loses nothing that counts. */
static void rescale(ij_policy *p, int scale) {
  for (int64_t i = 0; i < p->n_key; i++) p->uses[i].count[scale] = ldexp(p->uses[i].count[scale], -RESCALE_BITS);
  p->unit[scale] = ldexp(p->unit[scale], -RESCALE_BITS);
  p->sum[scale] = ldexp(p->sum[scale], -RESCALE_BITS);
}

void ij__policy_touch(ij_policy *p, int64_t key) {
  assert(key >= 0 && key < p->n_key);
  uses *u = &p->uses[key];
  if (p->kind == IJ_POLICY_BLEND && p->n_past == 2) learn(p, key);
  for (int i = 0; i < N_SCALE; i++) {
    p->unit[i] *= p->growth[i];
    u->count[i] += p->unit[i];
    p->sum[i] += p->unit[i];
    if (p->unit[i] > 0x1p600) rescale(p, i);
  }
  u->last = (double)++p->n_access;
  update_factors(p);
  if (p->slot_of[key] >= 0) refresh(p, p->slot_of[key]);
  if (p->kind != IJ_POLICY_BLEND) return;
  for (int i = 0; i < IJ_MIN(REFRESH, p->n_slot); i++) {
    refresh(p, p->next_refresh);
    if (++p->next_refresh == p->n_slot) p->next_refresh = 0;
  }
}

int64_t ij__policy_take(ij_policy *p, int64_t key, bool guess, int64_t *evicted) {
  assert(key >= 0 && key < p->n_key && p->slot_of[key] < 0);
  if (evicted) *evicted = -1;
  int64_t slot;
  if (p->n_empty) {
    slot = p->empty[--p->n_empty];
  } else {
    if (!p->n_heap) return -1;
    slot = p->heap[0];
    if (guess && p->worth[slot] > worth_if_used(p, key)) return -1;
    if (evicted) *evicted = p->key_of[slot];
    p->slot_of[p->key_of[slot]] = -1;
    heap_remove(p, slot);
  }
  p->key_of[slot] = (int32_t)key;
  p->slot_of[key] = (int32_t)slot;
  heap_add(p, slot);
  if (++p->n_given >= p->next_past && p->kind == IJ_POLICY_BLEND) keep_past(p);
  return slot;
}

void ij__policy_drop(ij_policy *p, int64_t slot) {
  assert(p->holds[slot] == 0 && p->key_of[slot] >= 0);
  heap_remove(p, slot);
  p->slot_of[p->key_of[slot]] = -1;
  p->key_of[slot] = -1;
  p->empty[p->n_empty++] = (int32_t)slot;
}

void ij__policy_hold(ij_policy *p, int64_t slot) {
  assert(p->key_of[slot] >= 0);
  if (p->holds[slot]++ == 0) heap_remove(p, slot);
}

void ij__policy_unhold(ij_policy *p, int64_t slot) {
  assert(p->holds[slot] > 0);
  if (--p->holds[slot] == 0) heap_add(p, slot);
}

void ij__policy_heat(const ij_policy *p, int64_t first, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i++) out[i] = (float)(p->uses[first + i].count[HEAT] / p->unit[HEAT]);
}
