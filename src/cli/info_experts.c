/* info_experts.c: `inkjet info --experts`: how the experts of a model were used in earlier runs, from the file that those runs left, and which of
 * them the next run would hold from the beginning in the memory that there is.
 */
#include "cli/info_experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_experts.h"
#include "cli/cli_plan.h"
#include "core/alloc.h"
#include "core/os.h"

enum { N_TOP = 3, MAX_COLUMNS = 32 };

static const int top_percent[N_TOP] = {10, 25, 50};

/* How the accesses of a layer are spread over its experts. */
typedef struct spread {
  double top[N_TOP];           /* share of the most used 10, 25, 50 % of the experts */
  double effective;            /* so many experts, used alike, would have the same entropy */
  int n_never, n_held;
  char picture[MAX_COLUMNS + 1];
} spread;

typedef struct use {
  const cli_args *args;
  const char *model_path;
  char *path;                  /* of the usage file */
  ij_model_info m;
  ij_usage_info u;
  ij_plan plan;
  float *share, *prior;        /* [n_layer * n_expert] */
  bool *held;                  /* of the same: would be in memory from the beginning */
  float *sorted;               /* [n_expert] */
  double held_share;           /* of the accesses, mean over the layers */
} use;

/* -------------------------------------------------------------------------------------------------------------- spread */

static int falling(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

/* From the most to the least used: each column is a group of experts, drawn by their mean in relation to that of the layer. */
static void draw(spread *s, const float *sorted, int n) {
  static const struct {
    double least;
    char mark;
  } levels[] = {{8, '#'}, {4, '*'}, {2, '+'}, {1, '='}, {0.5, '-'}, {0.25, ':'}, {1e-12, '.'}, {0, ' '}};
  int columns = IJ_MIN(n, MAX_COLUMNS);
  for (int c = 0; c < columns; c++) {
    int from = (int)((int64_t)c * n / columns), to = (int)((int64_t)(c + 1) * n / columns);
    double sum = 0;
    for (int i = from; i < to; i++) sum += (double)sorted[i];
    size_t level = 0;
    while (sum / (to - from) * n < levels[level].least) level++;
    s->picture[c] = levels[level].mark;
  }
  s->picture[columns] = 0;
}

static bool spread_of(const use *f, int layer, spread *s) {
  const int n = f->m.n_expert;
  const float *share = f->share + (size_t)layer * (size_t)n;
  double sum = 0, entropy = 0;
  *s = (spread){.n_never = 0};
  memcpy(f->sorted, share, (size_t)n * sizeof *share);
  qsort(f->sorted, (size_t)n, sizeof *f->sorted, falling);
  for (int i = 0; i < n; i++) {
    double p = (double)f->sorted[i];
    sum += p;
    if (p > 0) entropy -= p * log(p);
    s->n_never += !(p > 0);
    s->n_held += f->held[(size_t)layer * (size_t)n + (size_t)i];
    for (int k = 0; k < N_TOP; k++) s->top[k] += (int64_t)i * 100 < (int64_t)n * top_percent[k] ? p : 0;
  }
  s->effective = exp(entropy);
  draw(s, f->sorted, n);
  return sum > 0; /* else it has no routed experts, or was never used */
}

/* ---------------------------------------------------------------------------------------------------------------- held */

typedef struct ranked {
  float prior;
  int key;
} ranked;

static int by_prior(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->prior != y->prior) return (x->prior < y->prior) - (x->prior > y->prior);
  return (x->key > y->key) - (x->key < y->key);
}

/* The most expected ones, as many as there is room for. */
static int choose_held(use *f) {
  size_t n = (size_t)f->m.n_layer * (size_t)f->m.n_expert, n_known = 0;
  ranked *all = ij__alloc_array(n, sizeof *all);
  if (!all) return say_nomem("a list of experts", n * sizeof *all);
  for (size_t i = 0; i < n; i++) {
    if (f->prior[i] > 0) all[n_known++] = (ranked){f->prior[i], (int)i};
  }
  qsort(all, n_known, sizeof *all, by_prior);
  double sum = 0, total = 0;
  for (size_t i = 0; i < n_known; i++) {
    bool held = (int64_t)i < f->plan.experts_held;
    f->held[all[i].key] = held;
    total += (double)f->share[all[i].key];
    sum += held ? (double)f->share[all[i].key] : 0;
  }
  f->held_share = experts_ratio(sum, total);
  ij__free(all);
  return CLI_EXIT_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- text */

static const char *home_note(const use *f) {
  if (f->plan.home == IJ_HOME_AUTO) return ": no run is possible";
  return f->plan.home == IJ_HOME_STREAMED ? "" : ": all of them fit into memory";
}

static void print_layers(const use *f) {
  spread s;
  out_text("\nlayer   10 %   25 %   50 %   alike  never   held  most to least used\n");
  for (int i = 0; i < f->m.n_layer; i++) {
    if (!spread_of(f, i, &s)) continue;
    out_printf("%5d", i);
    for (int k = 0; k < N_TOP; k++) out_printf("  %5.1f", 100 * s.top[k]);
    out_printf("  %6.1f  %5d  %5d  [%s]\n", s.effective, s.n_never, s.n_held, s.picture);
  }
  out_text("\n10 %: what the most used tenth of a layer's experts gets of its accesses, in percent; alike: so many experts, used alike, would spread them as far;\n"
           "held: from the beginning of the next run. The picture, per group of experts: # 8 times the mean or more, * 4, + 2, = 1, - 1/2, : 1/4, . less,\n"
           "blank never.\n");
}

static void print_text(const use *f) {
  const ij_usage_info *u = &f->u;
  double n = (double)u->n_hit + (double)u->n_miss;
  out_text("use of experts  ");
  out_name(f->path);
  out_printf("\nsessions        %lld, %lld tokens\n", (long long)u->n_sessions, (long long)u->n_tokens);
  if (n > 0) out_printf("hit rate        %.1f %% of %.0f accesses\n", 100 * (double)u->n_hit / n, n);
  if (u->read_bytes > 0) {
    out_printf("read            %s, %s per token, at %s/s while reading\n", plan_size((double)u->read_bytes),
               plan_size(experts_ratio((double)u->read_bytes, (double)u->n_tokens)), plan_size(experts_ratio((double)u->read_bytes, u->read_seconds)));
  }
  out_printf("room            %lld of %lld experts, %s%s\n", (long long)f->plan.experts_held, (long long)f->plan.experts_total,
             plan_size((double)f->plan.expert_room), home_note(f));
  out_printf("held first      the most expected ones, which got %.1f %% of the accesses\n", 100 * f->held_share);
  print_layers(f);
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static void member_int(const char *key, int64_t v) {
  json_key(key);
  json_int(v);
}

static void member_real(const char *key, double v) {
  json_key(key);
  json_real(v);
}

/* NAN, which is null in JSON, where there is nothing to divide by. */
static double ratio(double a, double b) { return b > 0 ? a / b : (double)NAN; }

static void json_experts_where(const use *f, const char *key, int layer, bool held) {
  json_key(key);
  json_open('[');
  for (int e = 0; e < f->m.n_expert; e++) {
    size_t i = (size_t)layer * (size_t)f->m.n_expert + (size_t)e;
    if (held ? f->held[i] : !(f->share[i] > 0)) json_int(e);
  }
  json_close();
}

static void json_layers(const use *f) {
  static const char *const top_keys[N_TOP] = {"share_10", "share_25", "share_50"};
  spread s;
  json_key("layers");
  json_open('[');
  for (int i = 0; i < f->m.n_layer; i++) {
    if (!spread_of(f, i, &s)) continue;
    json_open('{');
    member_int("layer", i);
    for (int k = 0; k < N_TOP; k++) member_real(top_keys[k], s.top[k]);
    member_real("effective", s.effective);
    json_experts_where(f, "never", i, false);
    json_experts_where(f, "held", i, true);
    json_close();
  }
  json_close();
}

static void print_json(const use *f) {
  const ij_usage_info *u = &f->u;
  json_open('{');
  json_key("path");
  json_text(f->model_path);
  json_key("usage");
  json_text(f->path);
  member_int("n_sessions", u->n_sessions);
  member_int("n_tokens", u->n_tokens);
  member_int("n_hit", u->n_hit);
  member_int("n_miss", u->n_miss);
  member_real("hit_rate", ratio((double)u->n_hit, (double)u->n_hit + (double)u->n_miss));
  member_int("read_bytes", (int64_t)u->read_bytes);
  member_real("bytes_per_token", ratio((double)u->read_bytes, (double)u->n_tokens));
  member_real("read_bytes_per_s", ratio((double)u->read_bytes, u->read_seconds));
  member_int("experts_held", f->plan.experts_held);
  member_int("experts_total", f->plan.experts_total);
  member_int("expert_room", (int64_t)f->plan.expert_room);
  member_real("held_share", f->held_share);
  json_layers(f);
  json_close();
  json_end();
}

/* ------------------------------------------------------------------------------------------------------------- the command */

int info_experts_check(const cli_args *a) {
  if (!a->v[OPT_EXPERTS].set) {
    return a->v[OPT_USAGE].set ? say_misuse(a, "--usage names a file for --experts, which is not given") : CLI_EXIT_OK;
  }
  if (a->v[OPT_TENSORS].set || a->v[OPT_MEDIA_FILE].set) return say_misuse(a, "--experts tells about the use of experts alone: leave out --tensors and --media");
  if (a->v[OPT_USAGE].set && strcmp(a->v[OPT_USAGE].text, "none") == 0) return say_misuse(a, "--experts tells what a file says: name one by --usage");
  return CLI_EXIT_OK;
}

static int read_use(use *f, const ij_model *model) {
  ij_err err = {0};
  size_t n = (size_t)f->m.n_layer * (size_t)f->m.n_expert;
  int rc = experts_usage_path(f->args, f->model_path, &f->path);
  if (rc != CLI_EXIT_OK) return rc;
  if (!f->path) return say_misuse(f->args, "nothing is kept about a model in memory: name a file by --usage");
  f->share = ij__alloc_array(n, sizeof *f->share);
  f->prior = ij__alloc_array(n, sizeof *f->prior);
  f->held = ij__alloc_zero(n, sizeof *f->held);
  f->sorted = ij__alloc_array((size_t)f->m.n_expert, sizeof *f->sorted);
  if (!f->share || !f->prior || !f->held || !f->sorted) return say_nomem("the use of experts", n * 9);
  if (!ij__os_is_file(f->path)) {
    say("%s: there is no such file: it is written at the end of a run that reads the experts from disk", f->path);
    return CLI_EXIT_BAD_INPUT;
  }
  return ij_model_read_usage(model, f->path, &f->u, f->share, f->prior, &err) == IJ_OK ? CLI_EXIT_OK : say_bad_input(&err);
}

/* How many experts a run with these options would have room for. That no run is possible is worth a remark: the rest can be told all the same. */
static int make_plan(use *f) {
  const cli_args *a = f->args;
  ij_err err = {0};
  cli_plan plan = {.n_ctx = a->v[OPT_CTX].set ? a->v[OPT_CTX].i : 0, .n_sessions = 1};
  int rc = check_ctx(a, plan.n_ctx, f->m.max_context);
  if (rc != CLI_EXIT_OK) return rc;
  ij_model_options o = ij_model_options_default();
  o.n_threads = (int)a->v[OPT_THREADS].i;
  o.cpu_mask = a->v[OPT_CPU_MASK].text;
  plan_options(a, &plan, &o);
  ij_status s = ij_plan_make(&f->plan, f->model_path, &o, &err);
  if (s != IJ_OK && (s != IJ_E_NOMEM || f->plan.bound == 0)) return say_bad_input(&err);
  if (s == IJ_OK) return CLI_EXIT_OK;
  say("%s: %s", err.where, err.message);
  f->plan.experts_held = 0;
  f->plan.expert_room = 0;
  return CLI_EXIT_OK;
}

int info_experts(const cli_args *args, const char *path, const ij_model *model) {
  use f = {.args = args, .model_path = path};
  ij_model_get_info(model, &f.m);
  int rc = f.m.n_expert > 0 ? read_use(&f, model) : say_misuse(args, "--experts: this model has no experts");
  if (rc == CLI_EXIT_OK) rc = make_plan(&f);
  if (rc == CLI_EXIT_OK) rc = choose_held(&f);
  if (rc == CLI_EXIT_OK && args->v[OPT_JSON].set) {
    print_json(&f);
  } else if (rc == CLI_EXIT_OK) {
    print_text(&f);
  }
  ij__free(f.path);
  ij__free(f.share);
  ij__free(f.prior);
  ij__free(f.held);
  ij__free(f.sorted);
  return rc;
}
