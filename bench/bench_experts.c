/* bench_experts.c: hit rates of the policies that choose which experts stay in memory, beside the best that could have been done.
 *
 * Usage: bench_experts [--layers N] [--experts N] [--used N] [--tokens N] [--swaps X] [--period N] [--seed N]
 *        bench_experts --trace FILE [--prior FILE]
 *
 * Without --trace three kinds of traces are made, see expert_traces.h. What each policy gets: lru, lfu and "blend cold" start with nothing;
 * pinned and blend start with the counts of an earlier trace of the same kind and length, which is the one that the measured trace
 * continues. All start with empty slots, so the first use of a key is a miss for everyone, Belady included.
 *
 * A recorded trace is what `inkjet run --trace-experts` writes: a line of text "inkjet-trace LAYERS EXPERTS", then keys as int32,
 * little-endian. Counts come from --prior, another such file, or else from the first half of the trace, and the second half is measured.
 */
#include <stdio.h>
#include <time.h>

#include "expert_traces.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double percent(int64_t n_hit, const et_trace *t) { return 100 * (double)n_hit / (double)t->n; }

static void print_row(const char *name, const et_trace *t, const float *prior, double share) {
  int64_t n_slot = (int64_t)(share * (double)et_n_key(t));
  if (n_slot < 1) return;
  double rate[IJ_POLICY_COUNT], begin = 0;
  for (int k = 0; k < IJ_POLICY_COUNT; k++) {
    begin = now();
    rate[k] = percent(et_replay(t, (ij_policy_kind)k, n_slot, k == IJ_POLICY_PINNED || k == IJ_POLICY_BLEND ? prior : NULL), t);
  }
  double ns = 1e9 * (now() - begin) / (double)t->n; /* blend is the last of them */
  double cold = percent(et_replay(t, IJ_POLICY_BLEND, n_slot, NULL), t), best = percent(et_belady(t, n_slot), t);
  printf("%-12s %4.0f %%", name, 100 * share);
  for (int k = 0; k < IJ_POLICY_COUNT; k++) printf(" %7.2f", rate[k]);
  printf(" %10.2f %7.2f %8.2f %9.0f\n", cold, best, best - rate[IJ_POLICY_BLEND], ns);
}

static void print_table(const char *name, const et_trace *earlier, const et_trace *t) {
  static const double shares[] = {0.1, 0.25, 0.5, 0.75};
  float *prior = malloc((size_t)et_n_key(t) * sizeof *prior);
  if (!prior) return;
  et_count(earlier, prior);
  for (size_t i = 0; i < IJ_COUNT_OF(shares); i++) print_row(name, t, prior, shares[i]);
  free(prior);
}

static void print_head(void) {
  printf("%-12s %6s", "trace", "memory");
  for (int k = 0; k < IJ_POLICY_COUNT; k++) printf(" %7s", ij__policy_name((ij_policy_kind)k));
  printf(" %10s %7s %8s %9s\n", "blend cold", "belady", "to best", "ns/access");
}

/* Keys of a recorded trace. False, with a line on stderr, when it is not one. */
static bool read_trace(const char *path, et_trace *out) {
  FILE *f = fopen(path, "rb");
  char line[64];
  *out = (et_trace){0};
  bool ok = f && fgets(line, sizeof line, f) && sscanf(line, "inkjet-trace %d %d", &out->n_layer, &out->n_expert) == 2 && out->n_layer > 0 &&
            out->n_expert > 0 && out->n_layer < 10000 && out->n_expert < 100000;
  unsigned char b[4];
  for (int64_t room = 0; ok && fread(b, 1, 4, f) == 4; out->n++) {
    if (out->n == room) {
      room = room ? 2 * room : 65536;
      int32_t *more = realloc(out->keys, (size_t)room * sizeof *more);
      if (!more) exit(1);
      out->keys = more;
    }
    out->keys[out->n] = (int32_t)(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
    ok = out->keys[out->n] >= 0 && out->keys[out->n] < et_n_key(out);
  }
  if (f) fclose(f);
  if (!ok || out->n < 2) fprintf(stderr, "%s: expected a line \"inkjet-trace LAYERS EXPERTS\", then at least two keys below LAYERS * EXPERTS as int32\n", path);
  return ok && out->n >= 2;
}

static int replay_file(const char *path, const char *prior_path) {
  et_trace t, earlier, rest;
  if (!read_trace(path, &t)) return 1;
  rest = t;
  earlier = t;
  if (prior_path) {
    if (!read_trace(prior_path, &earlier)) return 1;
    if (earlier.n_layer != t.n_layer || earlier.n_expert != t.n_expert) {
      fprintf(stderr, "%s: of %d layers of %d experts, expected %d of %d\n", prior_path, earlier.n_layer, earlier.n_expert, t.n_layer, t.n_expert);
      return 1;
    }
  } else {
    earlier.n = t.n / 2;
    rest.keys += earlier.n;
    rest.n -= earlier.n;
  }
  printf("%d layers of %d experts, %lld accesses\n", t.n_layer, t.n_expert, (long long)rest.n);
  print_head();
  print_table("recorded", &earlier, &rest);
  return 0;
}

static int usage(void) {
  fprintf(stderr, "usage: bench_experts [--layers N] [--experts N] [--used N] [--tokens N] [--swaps X] [--period N] [--seed N]\n"
                  "       bench_experts --trace FILE [--prior FILE]\n");
  return 2;
}

int main(int argc, char **argv) {
  et_shape s = {.n_layer = 40, .n_expert = 256, .n_used = 6, .n_token = 2000, .swaps = 0.05, .period = 200};
  uint64_t seed = 1;
  const char *path = NULL, *prior_path = NULL;
  for (int i = 1; i < argc; i += 2) {
    const char *key = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!value) return usage();
    if (strcmp(key, "--layers") == 0) s.n_layer = atoi(value);
    else if (strcmp(key, "--experts") == 0) s.n_expert = atoi(value);
    else if (strcmp(key, "--used") == 0) s.n_used = atoi(value);
    else if (strcmp(key, "--tokens") == 0) s.n_token = atoi(value);
    else if (strcmp(key, "--swaps") == 0) s.swaps = atof(value);
    else if (strcmp(key, "--period") == 0) s.period = atoi(value);
    else if (strcmp(key, "--seed") == 0) seed = strtoull(value, NULL, 10);
    else if (strcmp(key, "--trace") == 0) path = value;
    else if (strcmp(key, "--prior") == 0) prior_path = value;
    else return usage();
  }
  if (s.n_layer < 1 || s.n_expert < 1 || s.n_used < 1 || s.n_used > s.n_expert || s.n_token < 1 || s.period < 1) return usage();
  if (path) return replay_file(path, prior_path);
  printf("%d layers of %d experts, %d used, %d tokens; drift of %g swaps per token, topics of %d tokens; seed %llu\n", s.n_layer, s.n_expert,
         s.n_used, s.n_token, s.swaps, s.period, (unsigned long long)seed);
  print_head();
  for (int k = 0; k < ET_KINDS; k++) {
    et_trace t[2];
    et_make(t, (et_kind)k, &s, seed);
    print_table(et_names[k], &t[0], &t[1]);
    et_free(&t[0]);
    et_free(&t[1]);
  }
  return 0;
}
