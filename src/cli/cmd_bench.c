/* cmd_bench.c: `inkjet bench`: the measurements of tools/tool_bench.c, and the synthetic checkpoint they may run on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cli_experts.h"
#include "cli/cli_plan.h"
#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "tools/tool_bench.h"
#include "tools/tool_synth.h"

static bool on_write_progress(void *user, double fraction) {
  (void)user;
  progress_update(fraction);
  return !interrupted();
}

/* What callbacks of the benchmark know. */
typedef struct bench_view {
  const cli_args *args;
  const char *shown;       /* what progress is being shown of */
  bool planned;            /* the plan has been said: the model is opened several times */
} bench_view;

/* A change of subject starts a new bar. */
static bool on_bench_progress(void *user, const char *what, double fraction) {
  bench_view *v = user;
  if (v->shown != what) {
    if (v->shown) progress_end();
    progress_begin(what);
    v->shown = what;
  }
  progress_update(fraction);
  return !interrupted();
}

static void on_note(void *user, const char *line) {
  bench_view *v = user;
  progress_end();
  v->shown = NULL;
  say_plain("%s", line);
}

/* ------------------------------------------------------------------------------------------------- synthetic checkpoint */

typedef struct synthetic {
  ij_synth_model model;
  char *folder;  /* owned */
  char *path;    /* owned: what to open, the folder or a file in it */
  char **files;  /* what to delete at the end; NULL when kept */
  int n_files;
} synthetic;

static int make_temporary_folder(synthetic *s) {
  const char *base = getenv("TMPDIR");
  ij_err err = {0};
  s->folder = ij__os_join(base && *base ? base : "/tmp", "inkjet-bench-XXXXXX");
  if (!s->folder) return say_nomem("a path", 64);
  if (!mkdtemp(s->folder)) {
    ij__fail_errno(&err, errno, s->folder, "cannot create a temporary folder");
    ij__free(s->folder);
    s->folder = NULL;
    return say_failed(&err);
  }
  s->files = ij__synth_files(&s->model, s->folder, &s->n_files);
  if (!s->files) {
    rmdir(s->folder);
    return say_nomem("a list of files", 4096);
  }
  interrupt_remove_on_kill((const char *const *)s->files, s->n_files, s->folder);
  return CLI_EXIT_OK;
}

static int make_synthetic(const cli_args *a, synthetic *s) {
  ij_err err = {0};
  if (ij__synth_parse(&s->model, a->v[OPT_SYNTHETIC].text, &err) != IJ_OK) return say_misuse(a, "--synthetic: %s", err.message);
  if (a->v[OPT_KEEP].set) {
    s->folder = ij__strdup(a->v[OPT_KEEP].text);
    if (!s->folder) return say_nomem("a path", 64);
  } else {
    int rc = make_temporary_folder(s);
    if (rc != CLI_EXIT_OK) return rc;
  }
  s->path = ij__synth_path(&s->model, s->folder);
  if (!s->path) return say_nomem("a path", 64);
  double start = ij__os_seconds();
  progress_begin("writing the synthetic checkpoint");
  ij_status status = ij__synth_write(&s->model, s->folder, on_write_progress, NULL, &err);
  progress_end();
  if (status != IJ_OK) return say_failed(&err);
  if (a->v[OPT_VERBOSE].set) say_plain("synthetic checkpoint: %s, ready after %.1f s", s->path, ij__os_seconds() - start);
  return CLI_EXIT_OK;
}

static void drop_synthetic(synthetic *s) {
  if (s->files) {
    for (int i = 0; i < s->n_files; i++) unlink(s->files[i]);
    rmdir(s->folder);
    interrupt_remove_on_kill(NULL, 0, NULL);
    ij__synth_free_files(s->files, s->n_files);
  }
  ij__free(s->folder);
  ij__free(s->path);
}

/* ------------------------------------------------------------------------------------------------------------ results */

static void print_decode(const ij_bench_decode *d) {
  out_printf("decode       %8.2f tokens/s after %lld positions; %.2f GB of weights and %.3f GB of keys and values per token:\n"
             "             %.1f %% of the read bandwidth (weights alone %.1f %%)\n",
             d->tokens_per_s.median, (long long)d->depth, d->weight_bytes / 1e9, d->kv_bytes / 1e9, d->share.median * 100,
             d->share_weights.median * 100);
}

static double waiting(const ij_bench_experts *e) { return experts_ratio(e->wait_seconds, e->seconds); }

static void print_stretch(const char *what, const ij_bench_experts *e) {
  out_printf("  %-10s %5.1f %% hits, %s read per token at %s/s; %.1f %% of the time waiting\n", what,
             100 * experts_ratio((double)e->n_hit, (double)(e->n_hit + e->n_miss)), plan_size(experts_ratio((double)e->read_bytes, (double)e->n_tokens)),
             plan_size(experts_ratio((double)e->read_bytes, e->read_seconds)), 100 * waiting(e));
}

static void print_experts(const ij_bench_result *r) {
  if (strcmp(r->home.home, "streamed") != 0) return;
  out_printf("experts      read by %s%s, room for %lld\n", r->home.reader, r->home.direct ? " past the page cache" : "", (long long)r->home.n_slots);
  print_stretch("prefill", &r->prefill_experts);
  print_stretch("decode", &r->decode_experts);
}

static void print_text(const ij_bench_result *r, int64_t n_prompt) {
  out_printf("model        %.2f G parameters, %.2f G active; %.2f GB of weights, %.2f GB read per token\n", (double)r->info.n_params / 1e9,
             (double)r->info.n_params_active / 1e9, (double)r->info.weight_bytes / 1e9, (double)r->info.active_bytes / 1e9);
  out_printf("machine      %d threads, %s; reads %.1f GB/s (%.1f to %.1f), %.1f G multiply-adds/s (%.1f to %.1f)\n", r->info.n_threads, r->level,
             r->read_bytes_per_s.median / 1e9, r->read_bytes_per_s.min / 1e9, r->read_bytes_per_s.max / 1e9, r->fma_per_s.median / 1e9,
             r->fma_per_s.min / 1e9, r->fma_per_s.max / 1e9);
  out_printf("first token  %8.3f s from opening the warm file, prompt of one token (%.3f to %.3f)\n", r->first_token_s.median,
             r->first_token_s.min, r->first_token_s.max);
  out_printf("prefill      %8.2f tokens/s for %lld tokens, %.2f G multiply-adds per token:\n             %.1f %% of the peak\n",
             r->prefill_tokens_per_s.median, (long long)n_prompt, r->prefill_fma / (double)n_prompt / 1e9, r->prefill_share.median * 100);
  print_decode(&r->decode);
  for (int i = 0; i < r->n_depths; i++) print_decode(&r->at_depth[i]);
  for (int i = 1; i < r->n_depths; i++) {
    out_printf("depth        %lld positions keep %.1f %% of the decode speed at %lld\n", (long long)r->at_depth[i].depth,
               r->at_depth[i].tokens_per_s.median / r->at_depth[0].tokens_per_s.median * 100, (long long)r->at_depth[0].depth);
  }
  print_experts(r);
}

static void json_stat(const char *key, const ij_bench_stat *s) {
  json_key(key);
  json_open('{');
  json_key("median");
  json_real(s->median);
  json_key("min");
  json_real(s->min);
  json_key("max");
  json_real(s->max);
  json_close();
}

static void json_decode(const ij_bench_decode *d) {
  json_open('{');
  json_key("depth");
  json_int(d->depth);
  json_key("weight_bytes");
  json_real(d->weight_bytes);
  json_key("kv_bytes");
  json_real(d->kv_bytes);
  json_stat("tokens_per_s", &d->tokens_per_s);
  json_stat("share_of_read", &d->share);
  json_stat("share_of_read_weights_alone", &d->share_weights);
  json_close();
}

static void json_stretch(const char *what, const ij_bench_experts *e) {
  const struct {
    const char *key;
    int64_t v;
  } counts[] = {{"n_tokens", e->n_tokens}, {"n_hit", e->n_hit}, {"n_miss", e->n_miss}, {"n_guess", e->n_guess}, {"n_guess_used", e->n_guess_used},
                {"n_guess_cancelled", e->n_guess_cancelled}, {"expert_bytes", (int64_t)e->expert_bytes}, {"read_bytes", (int64_t)e->read_bytes}};
  const struct {
    const char *key;
    double v;
  } reals[] = {{"hit_rate", experts_ratio((double)e->n_hit, (double)(e->n_hit + e->n_miss))},
               {"bytes_per_token", experts_ratio((double)e->read_bytes, (double)e->n_tokens)},
               {"read_bytes_per_s", experts_ratio((double)e->read_bytes, e->read_seconds)}, {"seconds", e->seconds},
               {"read_seconds", e->read_seconds}, {"wait_seconds", e->wait_seconds}, {"share_waiting", waiting(e)}};
  json_key(what);
  json_open('{');
  for (size_t i = 0; i < IJ_COUNT_OF(counts); i++) {
    json_key(counts[i].key);
    json_int(counts[i].v);
  }
  for (size_t i = 0; i < IJ_COUNT_OF(reals); i++) {
    json_key(reals[i].key);
    json_real(reals[i].v);
  }
  json_close();
}

static void json_experts(const ij_bench_result *r) {
  json_key("experts");
  json_open('{');
  json_key("home");
  json_text(r->home.home);
  if (strcmp(r->home.home, "streamed") == 0) {
    json_key("reader");
    json_text(r->home.reader);
    json_key("direct");
    json_bool(r->home.direct);
    json_key("n_slots");
    json_int(r->home.n_slots);
    json_stretch("prefill", &r->prefill_experts);
    json_stretch("decode", &r->decode_experts);
  }
  json_close();
}

static void print_json(const ij_bench_result *r, int64_t n_prompt) {
  json_open('{');
  json_key("version");
  json_text(ij_version());
  json_key("n_threads");
  json_int(r->info.n_threads);
  json_key("level");
  json_text(r->level);
  json_key("n_params");
  json_int(r->info.n_params);
  json_key("n_params_active");
  json_int(r->info.n_params_active);
  json_key("active_bytes");
  json_int((int64_t)r->info.active_bytes);
  json_stat("read_bytes_per_s", &r->read_bytes_per_s);
  json_stat("fma_per_s", &r->fma_per_s);
  json_stat("first_token_s", &r->first_token_s);
  json_key("prefill");
  json_open('{');
  json_key("n_tokens");
  json_int(n_prompt);
  json_key("fma");
  json_real(r->prefill_fma);
  json_stat("tokens_per_s", &r->prefill_tokens_per_s);
  json_stat("share_of_fma", &r->prefill_share);
  json_close();
  json_key("decode");
  json_decode(&r->decode);
  json_key("decode_at_depth");
  json_open('[');
  for (int i = 0; i < r->n_depths; i++) json_decode(&r->at_depth[i]);
  json_close();
  json_experts(r);
  json_close();
  json_end();
}

/* --------------------------------------------------------------------------------------------------------------- media */

static void print_media(const ij_bench_media_result *r) {
  out_printf("towers       %.1f M parameters, %.3f GB; rows of %d values\n", (double)r->towers.n_params / 1e6, (double)r->towers.weight_bytes / 1e9,
             r->towers.hidden);
  out_printf("machine      %d threads, %s; reads %.1f GB/s (%.1f to %.1f), %.1f G multiply-adds/s (%.1f to %.1f)\n", r->n_threads, r->level,
             r->read_bytes_per_s.median / 1e9, r->read_bytes_per_s.min / 1e9, r->read_bytes_per_s.max / 1e9, r->fma_per_s.median / 1e9,
             r->fma_per_s.min / 1e9, r->fma_per_s.max / 1e9);
  if (r->n_patches)
    out_printf("picture      %8.3f s for 1024 x 1024 pixels, %lld patches of %d, %.2f G multiply-adds:\n             %.1f %% of the peak\n",
               r->vision_s.median, (long long)r->n_patches, r->towers.patch, r->vision_fma / 1e9, r->vision_share.median * 100);
  if (r->n_frames)
    out_printf("sound        %8.4f s for 60 s, %lld frames; %.2f GB of the table, most of it from caches:\n"
               "             %.1f %% of the read bandwidth, %.1f %% of the peak\n",
               r->audio_s.median, (long long)r->n_frames, r->audio_bytes / 1e9, r->audio_read.median * 100, r->audio_share.median * 100);
}

static void print_media_json(const ij_bench_media_result *r) {
  json_open('{');
  json_key("version");
  json_text(ij_version());
  json_key("n_threads");
  json_int(r->n_threads);
  json_key("level");
  json_text(r->level);
  json_key("hidden");
  json_int(r->towers.hidden);
  json_key("n_params");
  json_int(r->towers.n_params);
  json_key("weight_bytes");
  json_int((int64_t)r->towers.weight_bytes);
  json_stat("read_bytes_per_s", &r->read_bytes_per_s);
  json_stat("fma_per_s", &r->fma_per_s);
  if (r->n_patches) {
    json_key("picture");
    json_open('{');
    json_key("n_patches");
    json_int(r->n_patches);
    json_key("fma");
    json_real(r->vision_fma);
    json_stat("seconds", &r->vision_s);
    json_stat("share_of_fma", &r->vision_share);
    json_close();
  }
  if (r->n_frames) {
    json_key("sound");
    json_open('{');
    json_key("n_frames");
    json_int(r->n_frames);
    json_key("table_bytes");
    json_real(r->audio_bytes);
    json_stat("seconds", &r->audio_s);
    json_stat("share_of_read", &r->audio_read);
    json_stat("share_of_fma", &r->audio_share);
    json_close();
  }
  json_close();
  json_end();
}

static int run_media_bench(const cli_args *a, const ij_bench_options *o) {
  ij_err err = {0};
  ij_bench_media_result r;
  ij_status s = ij__bench_media(&r, o, &err);
  progress_end();
  if (s != IJ_OK) return say_bad_input(&err);
  if (a->v[OPT_JSON].set)
    print_media_json(&r);
  else
    print_media(&r);
  return CLI_EXIT_OK;
}

/* One session after the other for the prompt; the depths are all kept, and a copy of one is measured. */
static cli_plan bench_plan(const ij_bench_options *o) {
  cli_plan plan = {.n_ctx = o->n_prompt + o->n_gen, .n_sessions = 1, .other = (size_t)1 << 30}; /* read to measure the machine */
  if (o->n_depths > 0) {
    plan.n_sessions = o->n_depths + 1;
    plan.n_ctx = IJ_MAX(plan.n_ctx, o->depths[o->n_depths - 1] + o->n_gen);
  }
  plan.n_ctx = IJ_MAX(plan.n_ctx, o->n_ctx);
  return plan;
}

static bool on_bench_planned(void *user, const ij_plan *plan) {
  bench_view *v = user;
  if (!v->planned) {
    progress_end();
    v->shown = NULL;
    plan_say(v->args, plan);
  }
  v->planned = true;
  return !interrupted();
}

static int run_bench(const cli_args *a, const char *path) {
  bench_view view = {.args = a};
  ij_err err = {0};
  ij_bench_options o = {.path = path, .model = ij_model_options_default(), .kv_type = kv_type(a), .n_ctx = a->v[OPT_CTX].i,
                        .n_prompt = a->v[OPT_PROMPT_LEN].i, .n_gen = a->v[OPT_GEN].i, .depths = a->v[OPT_DEPTH].ints,
                        .n_depths = (int)a->v[OPT_DEPTH].n, .n_repeat = (int)a->v[OPT_REPEAT].i, .progress = on_bench_progress, .user = &view};
  o.model.n_threads = (int)a->v[OPT_THREADS].i;
  o.model.cpu_mask = a->v[OPT_CPU_MASK].text;
  o.model.mmproj = a->v[OPT_MMPROJ].text;
  if (a->v[OPT_VERBOSE].set) o.note = on_note;
  if (a->v[OPT_BENCH_MEDIA].set) return run_media_bench(a, &o);
  char *usage = NULL;
  int rc = experts_options(a, path, &o.model, &usage);
  if (rc != CLI_EXIT_OK) return rc;
  o.trace_path = a->v[OPT_TRACE_EXPERTS].text;
  cli_plan plan = bench_plan(&o);
  plan_options(a, &plan, &o.model);
  o.model.planned = on_bench_planned;
  o.model.user = &view;
  ij_bench_result r;
  ij_status s = ij__bench_run(&r, &o, &err);
  progress_end();
  ij__free(usage);
  if (s != IJ_OK) return say_bad_input(&err);
  experts_say_no_effect(a, r.home.home);
  if (r.usage.code != IJ_OK) say("%s%s%s", r.usage.where, r.usage.where[0] ? ": " : "", r.usage.message);
  if (o.trace_path) experts_say_trace(o.trace_path, r.n_untraced);
  if (a->v[OPT_JSON].set) {
    print_json(&r, o.n_prompt);
  } else {
    print_text(&r, o.n_prompt);
  }
  return CLI_EXIT_OK;
}

/* Options that --media has no use for. */
static int check_media_options(const cli_args *a) {
  static const cli_option_id text_only[] = {OPT_CTX, OPT_KV, OPT_PROMPT_LEN, OPT_GEN, OPT_DEPTH, OPT_PREDICT, OPT_USAGE, OPT_TRACE_EXPERTS,
                                             OPT_MEM, OPT_HOME};
  for (size_t i = 0; i < IJ_COUNT_OF(text_only); i++) {
    if (a->v[OPT_BENCH_MEDIA].set && a->v[text_only[i]].set)
      return say_misuse(a, "--media measures the towers alone: options about text do not go with it");
  }
  if (a->v[OPT_MMPROJ].set && !a->v[OPT_BENCH_MEDIA].set) return say_misuse(a, "--mmproj is about towers, which only --media measures");
  return CLI_EXIT_OK;
}

int cmd_bench(const cli_args *args) {
  const bool given = args->v[OPT_SYNTHETIC].set;
  if (given && args->v[OPT_MODEL].set) return say_misuse(args, "-m and --synthetic both name a model: give one of them");
  if (!given && args->v[OPT_KEEP].set) return say_misuse(args, "--keep is about the model of --synthetic, which is not given");
  const char *path = NULL;
  if (check_media_options(args) != CLI_EXIT_OK) return CLI_EXIT_MISUSE;
  if (!given && model_path(args, &path) != CLI_EXIT_OK) return CLI_EXIT_MISUSE;
  if (args->v[OPT_DEPTH].n > IJ_BENCH_MAX_DEPTHS) return say_misuse(args, "--depth: at most %d depths are accepted", IJ_BENCH_MAX_DEPTHS);
  synthetic s = {0};
  int rc = given ? make_synthetic(args, &s) : CLI_EXIT_OK;
  if (rc == CLI_EXIT_OK) rc = run_bench(args, given ? s.path : path);
  drop_synthetic(&s);
  return rc;
}
