/* bench_streaming.c: a model larger than memory, measured: the plan, the drive's rate, a prompt, and tokens one at a time, each with what was
 * read for it. One JSON object per line; bench/streaming.py runs it inside a control group and judges the lines.
 *
 *     bench_streaming MODEL [--mem BYTES] [--home auto|mapped|resident|streamed] [--predict auto|off|on] [--prompt N] [--gen N] [--repeat N]
 *                     [--warm N] [--slice N] [--threads N] [--batch N] [--ctx N] [--drive SECONDS] [--usage FILE]
 *
 * Ids are pseudo-random, not sampled: a random model that samples for itself soon repeats itself, and would meet the same experts again. --warm
 * tokens are evaluated before each measured stretch of tokens. The drive is measured for SECONDS before and after a prompt, and for a fifth of that
 * before every --slice tokens, while nothing else reads: on shared machines the rate of a second ago says little. 0: not at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "inkjet.h"

typedef struct bench {
  const char *path;
  ij_model_options o;
  int64_t n_prompt, n_gen, n_warm, n_slice, n_repeat;
  double drive_seconds;
  ij_model *model;
  ij_model_info info;
  ij_plan plan;
  int64_t at;               /* ids given out so far */
} bench;

static void need(ij_status status, const ij_err *err) {
  if (status == IJ_OK) return;
  fprintf(stderr, "bench_streaming: %s: %s\n", err->where, err->message);
  exit(1);
}

static int32_t next_id(bench *b) {
  uint64_t z = (uint64_t)(++b->at) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  int32_t id = (int32_t)((z ^ (z >> 31)) % (uint64_t)b->info.unpadded_vocab);
  while (id > 0 && (id == ij_model_placeholder(b->model, false) || id == ij_model_placeholder(b->model, true))) id--;
  return id;
}

/* ------------------------------------------------------------------------------------------------------------- options */

static int choice_of(const char *text, const char *const *names, int n, const char *option) {
  for (int i = 0; i < n; i++) {
    if (strcmp(text, names[i]) == 0) return i;
  }
  fprintf(stderr, "bench_streaming: '%s' is no value of %s\n", text, option);
  exit(2);
}

static void take_option(bench *b, const char *name, const char *value) {
  static const char *const homes[] = {"auto", "mapped", "resident", "streamed"}, *const guesses[] = {"auto", "off", "on"};
  double number = atof(value);
  if (strcmp(name, "--mem") == 0) b->o.mem_bytes = (size_t)number;
  else if (strcmp(name, "--home") == 0) b->o.home = (ij_home)choice_of(value, homes, 4, name);
  else if (strcmp(name, "--predict") == 0) b->o.predict = (ij_predict)choice_of(value, guesses, 3, name);
  else if (strcmp(name, "--prompt") == 0) b->n_prompt = (int64_t)number;
  else if (strcmp(name, "--gen") == 0) b->n_gen = (int64_t)number;
  else if (strcmp(name, "--warm") == 0) b->n_warm = (int64_t)number;
  else if (strcmp(name, "--slice") == 0) b->n_slice = (int64_t)number;
  else if (strcmp(name, "--repeat") == 0) b->n_repeat = (int64_t)number;
  else if (strcmp(name, "--threads") == 0) b->o.n_threads = (int)number;
  else if (strcmp(name, "--batch") == 0) b->o.max_batch = (int)number;
  else if (strcmp(name, "--ctx") == 0) b->o.plan_ctx = (int64_t)number;
  else if (strcmp(name, "--drive") == 0) b->drive_seconds = number;
  else if (strcmp(name, "--usage") == 0) b->o.usage_path = value;
  else {
    fprintf(stderr, "bench_streaming: there is no option %s\n", name);
    exit(2);
  }
}

/* -------------------------------------------------------------------------------------------------------- measurements */

/* Bytes per second; 0: the drive is not to be measured. */
static double drive_rate(const bench *b, double seconds) {
  ij_err err = {0};
  double rate = 0;
  if (seconds > 0) need(ij_measure_drive(b->path, seconds, &rate, &err), &err);
  return rate;
}

static void drive(const bench *b) {
  double rate = drive_rate(b, b->drive_seconds);
  if (rate > 0) printf("{\"what\": \"drive\", \"bytes_per_s\": %.0f}\n", rate);
  fflush(stdout);
}

/* Runs of ascending keys among the accesses since `from`: each chunk of a prompt goes up through layers and experts once. -1: not known. */
static int64_t ascending_runs(const bench *b, int64_t from) {
  const int32_t *keys;
  int64_t n = ij_model_expert_trace(b->model, &keys), runs = n > from ? 1 : -1;
  for (int64_t i = from + 1; i < n; i++) runs += keys[i] <= keys[i - 1];
  return runs;
}

static void report(const char *what, int64_t n, double seconds, int64_t chunks, double rate, const ij_streaming_info *a, const ij_streaming_info *z) {
  printf("{\"what\": \"%s\", \"tokens\": %lld, \"seconds\": %.6f, \"chunks\": %lld, \"drive_bytes_per_s\": %.0f, \"hit\": %lld, \"miss\": %lld, \"guess\": %lld, \"guess_used\": %lld, "
         "\"guess_cancelled\": %lld, \"missed_bytes\": %llu, \"read_bytes\": %llu, \"read_seconds\": %.6f, \"wait_seconds\": %.6f}\n",
         what, (long long)n, seconds, (long long)chunks, rate, (long long)(z->n_hit - a->n_hit), (long long)(z->n_miss - a->n_miss), (long long)(z->n_guess - a->n_guess),
         (long long)(z->n_guess_used - a->n_guess_used), (long long)(z->n_guess_cancelled - a->n_guess_cancelled),
         (unsigned long long)(z->expert_bytes - a->expert_bytes), (unsigned long long)(z->read_bytes - a->read_bytes),
         z->read_seconds - a->read_seconds, z->wait_seconds - a->wait_seconds);
  fflush(stdout);
}

static void open_model(bench *b) {
  ij_err err = {0};
  double begin = ij__os_seconds();
  need(ij_model_open(&b->model, b->path, &b->o, &err), &err);
  double seconds = ij__os_seconds() - begin;
  ij_model_get_info(b->model, &b->info);
  ij_model_get_plan(b->model, &b->plan);
  ij_streaming_info s;
  ij_model_get_streaming(b->model, &s);
  const ij_plan *p = &b->plan;
  printf("{\"what\": \"open\", \"seconds\": %.3f, \"home\": \"%s\", \"reader\": \"%s\", \"direct\": %s, \"bound\": %zu, \"bound_by\": \"%s\", "
         "\"dense_bytes\": %zu, \"session_bytes\": %zu, \"step_bytes\": %zu, \"other_bytes\": %zu, \"expert_room\": %zu, \"slots\": %lld, "
         "\"experts\": %lld, \"expert\": %zu, \"max_batch\": %d, \"threads\": %d, \"level\": \"%s\"}\n",
         seconds, s.home, s.reader, s.direct ? "true" : "false", p->bound, p->bound_by ? p->bound_by : "", p->dense_bytes, p->session_bytes,
         p->step_bytes, p->other_bytes, p->expert_room, (long long)s.n_slots, (long long)p->experts_total, p->mean_expert, p->max_batch,
         b->info.n_threads, b->info.level);
  fflush(stdout);
}

static void prompt(bench *b, ij_session *session) {
  ij_err err = {0};
  ij_streaming_info before, after;
  const int32_t *keys;
  int32_t *ids = ij__alloc_array((size_t)b->n_prompt, sizeof *ids);
  if (!ids) exit(1);
  int64_t seen = ij_model_expert_trace(b->model, &keys);
  for (int64_t i = 0; i < b->n_prompt; i++) ids[i] = next_id(b);
  ij_model_get_streaming(b->model, &before);
  double begin = ij__os_seconds();
  need(ij_session_eval(session, ids, b->n_prompt, &err), &err);
  double seconds = ij__os_seconds() - begin;
  ij_model_get_streaming(b->model, &after);
  report("prompt", b->n_prompt, seconds, ascending_runs(b, seen), 0, &before, &after);
  ij__free(ids);
}

static void tokens(bench *b, ij_session *session, int64_t n, const char *what, bool measured) {
  ij_err err = {0};
  ij_streaming_info before, after;
  ij_choice choice;
  ij_model_get_streaming(b->model, &before);
  double seconds = 0, seconds_per_byte = 0;
  int64_t n_slices = 0;
  for (int64_t i = 0; i < n; n_slices++) {
    double rate = measured ? drive_rate(b, b->drive_seconds / 5) : 0, begin = ij__os_seconds();
    for (int64_t end = IJ_MIN(n, i + b->n_slice); i < end; i++) {
      int32_t id = next_id(b);
      need(ij_session_eval(session, &id, 1, &err), &err);
      need(ij_session_sample(session, NULL, &choice, &err), &err);
    }
    seconds += ij__os_seconds() - begin;
    seconds_per_byte += rate > 0 ? 1 / rate : 0;
  }
  ij_model_get_streaming(b->model, &after);
  report(what, n, seconds, -1, seconds_per_byte > 0 ? (double)n_slices / seconds_per_byte : 0, &before, &after);
}

static void one_repeat(bench *b) {
  ij_err err = {0};
  ij_session *session = NULL;
  ij_session_options so = ij_session_options_default();
  so.n_ctx = b->o.plan_ctx;
  need(ij_session_open(&session, b->model, &so, &err), &err);
  drive(b);
  if (b->n_prompt > 0) {
    prompt(b, session);
    drive(b);
  }
  if (b->n_warm > 0) tokens(b, session, b->n_warm, "warm", false);
  if (b->n_gen > 0) tokens(b, session, b->n_gen, "decode", true);
  ij_session_close(&session);
}

int main(int argc, char **argv) {
  if (argc < 2 || argc % 2 != 0) {
    fprintf(stderr, "usage: bench_streaming MODEL [--OPTION VALUE]...; the options are at the top of bench/bench_streaming.c\n");
    return 2;
  }
  bench b = {.path = argv[1], .o = ij_model_options_default(), .n_prompt = 256, .n_gen = 32, .n_warm = 8, .n_slice = 4, .n_repeat = 3, .drive_seconds = 1};
  b.o.tokenizer = false;
  b.o.keep_trace = true;
  for (int i = 2; i + 1 < argc; i += 2) take_option(&b, argv[i], argv[i + 1]);
  if (b.o.plan_ctx == 0) b.o.plan_ctx = b.n_prompt + b.n_warm + b.n_gen + 8;
  open_model(&b);
  for (int64_t i = 0; i < b.n_repeat; i++) one_repeat(&b);
  ij_model_close(&b.model);
  return 0;
}
