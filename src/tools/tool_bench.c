/* tool_bench.c: the measurements behind `inkjet bench`.
 *
 * What counts as needed work is stated here and nowhere else: a token needs one multiply-add per active weight, the unembedding only
 * where logits are asked for (the last token of a prefill), and attention over the keys it can see. Decode reads the active weights
 * and the keys and values it can see, once per token.
 */
#include "tools/tool_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "io/ckpt.h"
#include "tools/expert_trace.h"

enum { N_OPENS = 3, PIECE = 512 };
#define MEASURE_SECONDS 0.25
#define BRIEF_SECONDS 0.01   /* between two tokens: one read of 256 MB */

typedef struct bench {
  const ij_bench_options *o;
  ij_bench_result *r;
  ij_model *model;
  ij_machine before;          /* the latest look at the machine */
  double *read, *fma;         /* all looks */
  int n_looks, cap_looks;
  ij_streaming_info stretch;  /* when a timed stretch began */
  const char *what;           /* for progress */
} bench;

/* ----------------------------------------------------------------------------------------------------- small helpers */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

ij_bench_stat ij__bench_stat_of(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, by_value);
  return (ij_bench_stat){.median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2, .min = v[0], .max = v[n - 1]};
}

static ij_status step_progress(const bench *b, double fraction, ij_err *err) {
  if (!b->o->progress || b->o->progress(b->o->user, b->what, fraction)) return IJ_OK;
  return ij__fail(err, IJ_E_CANCELLED, NULL, "stopped");
}

static void note(const bench *b, const char *line) {
  if (b->o->note) b->o->note(b->o->user, line);
}

static int32_t prompt_id(const bench *b, int64_t i) {
  uint64_t z = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (int32_t)((z ^ (z >> 31)) % (uint64_t)b->r->info.unpadded_vocab);
}

/* ---------------------------------------------------------------------------------------------------- work per token */

static double kv_bytes_at(const bench *b, double pos) {
  const ij_model_info *m = &b->r->info;
  double value_bytes = b->o->kv_type == IJ_KV_F32 ? 4 : 2, window = m->window;
  double global = (double)(m->n_layer - m->n_layer_sliding) * m->n_kv_head * (pos + 1);
  double sliding = (double)m->n_layer_sliding * m->n_kv_head_sliding * IJ_MIN(pos + 1, window);
  return 2 * value_bytes * m->head_dim * (global + sliding);
}

/* Scores and weighted sum over the visible keys, and the relative bias of those within its extent. */
static double attention_fma_at(const ij_model_info *m, double pos) {
  double seen = pos + 1, near = IJ_MIN(seen, (double)m->window);
  double global = 2 * m->head_dim * seen + m->d_rel * IJ_MIN(seen, (double)m->rel_extent);
  double sliding = (2 * m->head_dim + m->d_rel) * near;
  return m->n_head * ((m->n_layer - m->n_layer_sliding) * global + m->n_layer_sliding * sliding);
}

static double prefill_fma(const ij_model_info *m, int64_t n) {
  double unembed = (double)m->unpadded_vocab * m->hidden;
  double fma = (double)n * ((double)m->n_params_active - unembed) + unembed;
  for (int64_t pos = 0; pos < n; pos++) fma += attention_fma_at(m, (double)pos);
  return fma;
}

/* ------------------------------------------------------------------------------------------------------- measurements */

static ij_status look_at_machine(bench *b, ij_machine *out, ij_err *err) {
  ij_status s = ij_measure_machine(b->model, MEASURE_SECONDS, out, err);
  if (s == IJ_OK && b->n_looks < b->cap_looks) {
    b->read[b->n_looks] = out->read_bytes_per_s;
    b->fma[b->n_looks++] = out->fma_per_s;
  }
  return s;
}

static void begin_stretch(bench *b) { ij_model_get_streaming(b->model, &b->stretch); }

/* What the home of the experts has done since then goes to `to`. */
static void end_stretch(const bench *b, double seconds, ij_bench_experts *to) {
  ij_streaming_info now;
  const ij_streaming_info *then = &b->stretch;
  ij_model_get_streaming(b->model, &now);
  to->n_tokens += now.n_tokens - then->n_tokens;
  to->n_hit += now.n_hit - then->n_hit;
  to->n_miss += now.n_miss - then->n_miss;
  to->n_guess += now.n_guess - then->n_guess;
  to->n_guess_used += now.n_guess_used - then->n_guess_used;
  to->n_guess_cancelled += now.n_guess_cancelled - then->n_guess_cancelled;
  to->expert_bytes += now.expert_bytes - then->expert_bytes;
  to->read_bytes += now.read_bytes - then->read_bytes;
  to->read_seconds += now.read_seconds - then->read_seconds;
  to->wait_seconds += now.wait_seconds - then->wait_seconds;
  to->seconds += seconds;
}

/* Brings the whole file into the page cache, when memory has room for it: a warm start is what is measured. */
static ij_status warm_file(bench *b, ij_err *err) {
  ij_ckpt *c;
  ij_status s = ij__ckpt_open(&c, b->o->path, err);
  if (s != IJ_OK) return s;
  size_t total = ij__ckpt_file_bytes(c), page = ij__os_page_size(), done = 0;
  volatile unsigned char sink = 0;
  b->what = "reading the file";
  for (int i = 0; i < ij__ckpt_n_tensors(c) && total < ij__os_memory_total() / 10 * 8 && s == IJ_OK; i++) {
    const ij_tensor_view *t = ij__ckpt_tensor(c, i);
    for (size_t at = 0; at < t->n_bytes; at += page) {
      sink ^= ((const unsigned char *)t->data)[at];
      if ((at / page) % 8192 == 0 && s == IJ_OK) s = step_progress(b, (double)(done + at) / (double)total, err);
      if (s != IJ_OK) break;
    }
    done += t->n_bytes;
  }
  ij__ckpt_close(&c);
  return s;
}

static ij_status open_session(const bench *b, ij_model *model, int64_t n_ctx, ij_session **out, ij_err *err) {
  ij_session_options o = ij_session_options_default();
  o.n_ctx = n_ctx;
  o.kv_type = b->o->kv_type;
  return ij_session_open(out, model, &o, err);
}

static ij_status one_first_token(const bench *b, double *seconds, ij_err *err) {
  double start = ij__os_seconds();
  ij_model *model = NULL;
  ij_session *session = NULL;
  ij_choice choice;
  const int32_t id = 0;
  ij_model_options o = b->o->model;
  o.usage_path = NULL; /* one token tells nothing */
  o.keep_trace = false;
  ij_status s = ij_model_open(&model, b->o->path, &o, err);
  if (s == IJ_OK) s = open_session(b, model, 1, &session, err);
  if (s == IJ_OK) s = ij_session_eval(session, &id, 1, err);
  if (s == IJ_OK) s = ij_session_sample(session, NULL, &choice, err);
  *seconds = ij__os_seconds() - start;
  ij_session_close(&session);
  ij_model_close(&model);
  return s;
}

static ij_status measure_first_token(bench *b, ij_err *err) {
  double seconds[N_OPENS];
  b->what = "first token";
  for (int i = 0; i < N_OPENS; i++) {
    ij_status s = step_progress(b, (double)i / N_OPENS, err);
    if (s == IJ_OK) s = one_first_token(b, &seconds[i], err);
    if (s != IJ_OK) return s;
    char line[80];
    snprintf(line, sizeof line, "first token %d: %.3f s", i + 1, seconds[i]);
    note(b, line);
  }
  b->r->first_token_s = ij__bench_stat_of(seconds, N_OPENS);
  return IJ_OK;
}

/* Placeholders of media are refused without media. */
static int32_t text_id(const ij_model *model, int32_t id) {
  while (id > 0 && (id == ij_model_placeholder(model, false) || id == ij_model_placeholder(model, true))) id--;
  return id;
}

/* Evaluates the prompt's ids from the session's position up to position `until`. */
static ij_status fill(const bench *b, ij_session *session, int64_t until, ij_err *err) {
  int32_t ids[PIECE];
  int64_t begun = ij_session_pos(session);
  for (int64_t pos = begun; pos < until;) {
    int64_t n = IJ_MIN((int64_t)PIECE, until - pos);
    for (int64_t i = 0; i < n; i++) ids[i] = text_id(b->model, prompt_id(b, pos + i));
    ij_status s = step_progress(b, (double)(pos - begun) / (double)(until - begun), err);
    if (s == IJ_OK) s = ij_session_eval(session, ids, n, err);
    if (s != IJ_OK) return s;
    pos += n;
  }
  return IJ_OK;
}

/* Greedy decode of n_gen tokens; the samples go to slot `i` of the three arrays. After every token the machine is looked at briefly: on a
 * shared machine the bandwidth of a second ago says little. */
static ij_status decode_once(bench *b, ij_session *session, int i, double *speed, double *share_weights, double *share, ij_err *err) {
  const int64_t n = b->o->n_gen;
  double middle = (double)ij_session_pos(session) + (double)(n - 1) / 2;
  double weights = (double)b->r->info.active_bytes, kv = kv_bytes_at(b, middle);
  ij_status s = IJ_OK;
  double seconds = 0, seconds_per_byte = 0;
  begin_stretch(b);
  for (int64_t k = 0; k < n && s == IJ_OK; k++) {
    ij_choice choice;
    ij_machine now;
    s = step_progress(b, (double)k / (double)n, err);
    double start = ij__os_seconds();
    if (s == IJ_OK) s = ij_session_sample(session, NULL, &choice, err);
    if (s == IJ_OK) s = ij_session_eval(session, &choice.id, 1, err);
    seconds += ij__os_seconds() - start;
    if (s == IJ_OK) s = ij_measure_machine(b->model, BRIEF_SECONDS, &now, err);
    if (s == IJ_OK) seconds_per_byte += 1 / now.read_bytes_per_s;
  }
  end_stretch(b, seconds, &b->r->decode_experts);
  if (s == IJ_OK) s = look_at_machine(b, &b->before, err);
  if (s != IJ_OK) return s;
  double read = (double)n / seconds_per_byte;
  speed[i] = (double)n / seconds;
  share_weights[i] = speed[i] * weights / read;
  share[i] = speed[i] * (weights + kv) / read;
  char line[160];
  snprintf(line, sizeof line, "decode %d after %.0f: %.2f tokens/s, %.1f GB/s of %.1f GB/s (%.1f %%)", i + 1,
           middle - (double)(n - 1) / 2, speed[i], speed[i] * (weights + kv) / 1e9, read / 1e9, share[i] * 100);
  note(b, line);
  return IJ_OK;
}

static void finish_decode(const bench *b, ij_bench_decode *d, int64_t depth, double *speed, double *share_weights, double *share, int n) {
  d->depth = depth;
  d->weight_bytes = (double)b->r->info.active_bytes;
  d->kv_bytes = kv_bytes_at(b, (double)depth + (double)(b->o->n_gen - 1) / 2);
  d->tokens_per_s = ij__bench_stat_of(speed, n);
  d->share_weights = ij__bench_stat_of(share_weights, n);
  d->share = ij__bench_stat_of(share, n);
}

static ij_status prefill_once(bench *b, ij_session *session, int i, double *speed, double *share, ij_err *err) {
  ij_machine after;
  begin_stretch(b);
  double start = ij__os_seconds();
  b->what = "prefill";
  ij_status s = fill(b, session, b->o->n_prompt, err);
  double seconds = ij__os_seconds() - start;
  end_stretch(b, seconds, &b->r->prefill_experts);
  if (s == IJ_OK) s = look_at_machine(b, &after, err);
  if (s != IJ_OK) return s;
  double peak = (b->before.fma_per_s + after.fma_per_s) / 2;
  b->before = after;
  speed[i] = (double)b->o->n_prompt / seconds;
  share[i] = b->r->prefill_fma / seconds / peak;
  char line[160];
  snprintf(line, sizeof line, "prefill %d: %.1f tokens/s, %.1f GFMA/s of %.1f GFMA/s (%.1f %%)", i + 1, speed[i],
           b->r->prefill_fma / seconds / 1e9, peak / 1e9, share[i] * 100);
  note(b, line);
  return IJ_OK;
}

/* samples: five arrays of n_repeat. */
static ij_status measure_prompt(bench *b, double *samples, ij_err *err) {
  const int n = b->o->n_repeat;
  double *speed = samples, *share = samples + n, *dspeed = samples + 2 * n, *dweights = samples + 3 * n, *dshare = samples + 4 * n;
  ij_status s = look_at_machine(b, &b->before, err);
  for (int i = 0; i < n && s == IJ_OK; i++) {
    ij_session *session = NULL;
    s = open_session(b, b->model, IJ_MAX(b->o->n_ctx, b->o->n_prompt + b->o->n_gen), &session, err);
    if (s == IJ_OK) s = prefill_once(b, session, i, speed, share, err);
    b->what = "decode";
    if (s == IJ_OK) s = decode_once(b, session, i, dspeed, dweights, dshare, err);
    ij_session_close(&session);
  }
  if (s != IJ_OK) return s;
  b->r->prefill_tokens_per_s = ij__bench_stat_of(speed, n);
  b->r->prefill_share = ij__bench_stat_of(share, n);
  finish_decode(b, &b->r->decode, b->o->n_prompt, dspeed, dweights, dshare, n);
  return IJ_OK;
}

/* A session at each depth, by evaluating on and forking on the way. */
static ij_status fill_depths(bench *b, ij_session **at, ij_err *err) {
  const ij_bench_options *o = b->o;
  ij_session *session = NULL;
  ij_status s = open_session(b, b->model, IJ_MAX(o->n_ctx, o->depths[o->n_depths - 1] + o->n_gen), &session, err);
  for (int d = 0; d < o->n_depths && s == IJ_OK; d++) {
    b->what = "filling the context";
    s = fill(b, session, o->depths[d], err);
    if (s == IJ_OK) s = ij_session_fork(&at[d], session, err);
  }
  ij_session_close(&session);
  return s;
}

/* Repetitions go round the depths, so that a slow minute of the machine falls on all of them. */
static ij_status repeat_depths(bench *b, ij_session **at, double *samples, ij_err *err) {
  const int n = b->o->n_repeat;
  ij_status s = look_at_machine(b, &b->before, err);
  b->what = "decode at depth";
  for (int i = 0; i < n; i++) {
    for (int d = 0; d < b->o->n_depths && s == IJ_OK; d++) {
      double *mine = samples + (size_t)d * 3 * (size_t)n;
      ij_session *session = NULL;
      s = ij_session_fork(&session, at[d], err);
      if (s == IJ_OK) s = decode_once(b, session, i, mine, mine + n, mine + 2 * n, err);
      ij_session_close(&session);
    }
  }
  for (int d = 0; d < b->o->n_depths && s == IJ_OK; d++) {
    double *mine = samples + (size_t)d * 3 * (size_t)n;
    finish_decode(b, &b->r->at_depth[d], b->o->depths[d], mine, mine + n, mine + 2 * n, n);
  }
  return s;
}

static ij_status measure_depths(bench *b, double *samples, ij_err *err) {
  ij_session *at[IJ_BENCH_MAX_DEPTHS] = {0};
  ij_status s = fill_depths(b, at, err);
  if (s == IJ_OK) s = repeat_depths(b, at, samples, err);
  for (int d = 0; d < IJ_BENCH_MAX_DEPTHS; d++) ij_session_close(&at[d]);
  b->r->n_depths = s == IJ_OK ? b->o->n_depths : 0;
  return s;
}

static ij_status check_lengths(const bench *b, ij_err *err) {
  const ij_bench_options *o = b->o;
  int64_t longest = o->n_prompt;
  if (o->n_depths > 0) longest = IJ_MAX(longest, o->depths[o->n_depths - 1]);
  if (longest + o->n_gen > b->r->info.max_context) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "%lld positions and %lld decoded tokens exceed the model's %lld positions",
                    (long long)longest, (long long)o->n_gen, (long long)b->r->info.max_context);
  }
  if (o->n_ctx > 0 && longest + o->n_gen > o->n_ctx) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "a context of %lld positions is too small for %lld and %lld decoded tokens",
                    (long long)o->n_ctx, (long long)longest, (long long)o->n_gen);
  }
  return IJ_OK;
}

/* Said before an hour of measuring rather than after it. */
static ij_status check_trace(const bench *b, ij_err *err) {
  ij_streaming_info now;
  ij_model_get_streaming(b->model, &now);
  if (!b->o->trace_path || strcmp(now.home, "streamed") == 0) return IJ_OK;
  return ij__fail(err, IJ_E_ARGUMENT, NULL, "the experts of this model are not read from disk as they are used, so that there is no sequence of them to write "
                  "(they are %s): a streamed home does so", now.home);
}

static void look_at_home(const bench *b) {
  ij_streaming_info *home = &b->r->home;
  ij_model_get_streaming(b->model, home);
  if (home->usage_note) ij__fail(&b->r->usage, IJ_E_FORMAT, NULL, "%s", home->usage_note);
  home->usage_note = NULL; /* it dies with the model */
  ij_model_save_usage(b->model, &b->r->usage);
}

static ij_status measure_all(bench *b, double *samples, ij_err *err) {
  ij_status s = ij_model_open(&b->model, b->o->path, &b->o->model, err);
  if (s != IJ_OK) return s;
  ij_model_get_info(b->model, &b->r->info);
  snprintf(b->r->level, sizeof b->r->level, "%s", b->r->info.level);
  b->r->info.level = NULL; /* it dies with the model */
  b->r->prefill_fma = prefill_fma(&b->r->info, b->o->n_prompt);
  s = check_lengths(b, err);
  if (s == IJ_OK) s = check_trace(b, err);
  ij_model_close(&b->model);
  if (s == IJ_OK) s = warm_file(b, err);
  if (s == IJ_OK) s = measure_first_token(b, err);
  if (s == IJ_OK) s = ij_model_open(&b->model, b->o->path, &b->o->model, err);
  if (s == IJ_OK) s = measure_prompt(b, samples, err);
  if (s == IJ_OK && b->o->n_depths > 0) s = measure_depths(b, samples, err);
  if (s == IJ_OK && b->o->trace_path) s = ij__expert_trace_write(b->model, b->o->trace_path, &b->r->n_untraced, err);
  if (s == IJ_OK) look_at_home(b);
  if (s == IJ_OK) b->r->read_bytes_per_s = ij__bench_stat_of(b->read, b->n_looks);
  if (s == IJ_OK) b->r->fma_per_s = ij__bench_stat_of(b->fma, b->n_looks);
  ij_model_close(&b->model);
  return s;
}

ij_status ij__bench_run(ij_bench_result *out, const ij_bench_options *o, ij_err *err) {
  *out = (ij_bench_result){0};
  if (o->n_depths > IJ_BENCH_MAX_DEPTHS) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "%d depths are given, at most %d are accepted", o->n_depths, IJ_BENCH_MAX_DEPTHS);
  }
  bench b = {.o = o, .r = out, .cap_looks = 4 + o->n_repeat * (2 + o->n_depths)};
  size_t per_repeat = (size_t)IJ_MAX(5, 3 * o->n_depths);
  double *samples = ij__alloc_zero(per_repeat * (size_t)o->n_repeat, sizeof *samples);
  b.read = ij__alloc_zero((size_t)b.cap_looks, sizeof *b.read);
  b.fma = ij__alloc_zero((size_t)b.cap_looks, sizeof *b.fma);
  ij_status s = IJ_OK;
  if (!samples || !b.read || !b.fma) {
    s = ij__fail_nomem(err, "samples", per_repeat * (size_t)o->n_repeat * sizeof *samples);
  } else {
    s = measure_all(&b, samples, err);
  }
  ij__free(samples);
  ij__free(b.read);
  ij__free(b.fma);
  return s;
}
