/* info_plan.c: a plan for people and for programs. A plan that cannot work is shown, too: what there is and what is needed, and then why not. */
#include "cli/info_plan.h"

#include <math.h>
#include <stdio.h>

#include "cli/cli_plan.h"

#define DRIVE_SECONDS 1.0

static const double hit_rates[] = {0, 0.25, 0.5, 0.75, 0.9}; /* of ij_plan.bytes_per_token */
static const char *const home_names[] = {"none", "mapped", "resident", "streamed"};

typedef struct shown_plan {
  const cli_args *args;
  const char *path;
  ij_plan p;
  bool works;
  ij_err why;          /* it does not work */
  bool measured;
  double drive;        /* bytes per second */
  ij_err drive_error;  /* --drive, and it could not be measured */
} shown_plan;

int check_plan_options(const cli_args *a) {
  static const cli_option_id about_plans[] = {OPT_MEM, OPT_HOME, OPT_KV, OPT_DRIVE}, others[] = {OPT_TENSORS, OPT_EXPERTS, OPT_MEDIA_FILE};
  for (size_t i = 0; i < IJ_COUNT_OF(about_plans); i++) {
    bool room = a->v[OPT_EXPERTS].set && about_plans[i] != OPT_DRIVE; /* that tells how many experts a plan has room for */
    if (a->v[about_plans[i]].set && !a->v[OPT_PLAN].set && !room) {
      return say_misuse(a, "--mem, --home, --kv and --drive are about the plan: pass --plan, too");
    }
  }
  for (size_t i = 0; i < IJ_COUNT_OF(others); i++) {
    if (a->v[others[i]].set && a->v[OPT_PLAN].set) return say_misuse(a, "--plan tells of nothing but the plan: leave out --tensors, --experts and --media");
  }
  return CLI_EXIT_OK;
}

/* ------------------------------------------------------------------------------------------------------------------- text */

static void print_limit(const char *what, size_t limit, size_t left) {
  if (limit) out_printf("  %-20s %12s, %s free\n", what, plan_size((double)limit), plan_size((double)left));
  else out_printf("  %-20s %12s\n", what, "no limit");
}

static void print_found(const shown_plan *s) {
  const ij_plan *p = &s->p;
  out_text("memory found\n");
  print_limit("machine", p->machine_total, p->machine_free);
  print_limit("control group", p->group_limit, p->group_free);
  print_limit("process (ulimit)", p->process_limit, p->process_free);
  out_printf("  %-20s %12s, bounded by %s\n", "for this plan", plan_size((double)p->bound), p->bound_by);
}

static void print_need(const char *what, size_t n) { out_printf("  %-46s %12s\n", what, plan_size((double)n)); }

static void print_needed(const shown_plan *s) {
  const ij_plan *p = &s->p;
  char what[80];
  out_text("\nneeded\n");
  print_need("weights that every token reads", p->dense_bytes);
  snprintf(what, sizeof what, "%d session%s of %lld positions, --kv %s", p->n_sessions, p->n_sessions == 1 ? "" : "s", (long long)p->n_ctx, s->args->v[OPT_KV].text);
  print_need(what, p->session_bytes * (size_t)p->n_sessions);
  snprintf(what, sizeof what, "buffers of a step of %d rows", p->max_batch);
  print_need(what, p->step_bytes);
  print_need("the program, its tokenizer and towers", p->other_bytes);
  if (p->experts_total == 0) return;
  print_need("routed experts: all of them", p->expert_bytes);
  out_printf("    %lld of about %s: %d in each of %d layers, of which a token uses %d\n", (long long)p->experts_total, plan_size((double)p->mean_expert), p->n_expert,
             p->n_expert_layers, p->n_expert_used);
}

static void print_home(const shown_plan *s) {
  const ij_plan *p = &s->p;
  static const char *const what[] = {"", "everything stays in the page cache of the system, which fills while the model is used",
                                     "everything is read into memory once", "experts are read from the drive when they are needed"};
  double share = p->experts_total ? 100.0 * (double)p->experts_held / (double)p->experts_total : 100.0;
  out_printf("\nplan\n  %-20s %s: %s\n", "home of the weights", home_names[p->home], what[p->home]);
  if (p->experts_total == 0) return;
  out_printf("  %-20s %s for %lld of %lld experts (%.1f %%)\n", "kept in memory", plan_size((double)p->expert_room), (long long)p->experts_held,
             (long long)p->experts_total, share);
}

/* A rate per second, with enough digits to be told from nothing. */
static const char *rate(double v, char out[24]) {
  snprintf(out, 24, v >= 100 ? "%.0f" : v >= 1 ? "%.1f" : "%.2g", v);
  return out;
}

static void print_reads(const shown_plan *s) {
  const ij_plan *p = &s->p;
  char text[24];
  if (s->measured) out_printf("  %-20s %s/s: sequential reads past the page cache, measured now\n", "drive", plan_size(s->drive));
  if (p->home != IJ_HOME_STREAMED && p->experts_held == p->experts_total) return;
  out_printf("\n%-34s", "experts found in memory");
  for (int i = 0; i < 5; i++) out_printf(" %7.0f %%", 100 * hit_rates[i]);
  out_printf("\n%-34s", "read from the drive for a token");
  for (int i = 0; i < 5; i++) out_printf(" %9s", plan_size(p->bytes_per_token[i]));
  out_text("\n");
  if (!s->measured) return;
  out_printf("%-34s", "tokens per second, at most");
  for (int i = 0; i < 5; i++) out_printf(" %9s", p->bytes_per_token[i] > 0 ? rate(s->drive / p->bytes_per_token[i], text) : "-");
  out_text("\n");
}

static void print_text(const shown_plan *s) {
  print_found(s);
  print_needed(s);
  if (s->works) print_home(s);
  if (s->works) print_reads(s);
}

/* ------------------------------------------------------------------------------------------------------------------- JSON */

static void json_size(const char *key, size_t n) {
  json_key(key);
  json_int(n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

/* What there is not is null, so that nobody takes it for nothing free. */
static void json_limit(const char *name, size_t limit, size_t left) {
  json_key(name);
  if (!limit) {
    json_text(NULL);
    return;
  }
  json_open('{');
  json_size("limit", limit);
  json_size("free", left);
  json_close();
}

static void json_error(const char *key, const ij_err *err) {
  json_key(key);
  json_open('{');
  json_key("where");
  json_text(err->where);
  json_key("message");
  json_text(err->message);
  json_close();
}

static void json_needs(const shown_plan *s) {
  const ij_plan *p = &s->p;
  const struct {
    const char *key;
    size_t v;
  } sizes[] = {{"dense_bytes", p->dense_bytes}, {"expert_bytes", p->expert_bytes}, {"largest_expert", p->largest_expert}, {"mean_expert", p->mean_expert},
               {"n_expert_layers", (size_t)p->n_expert_layers}, {"n_expert", (size_t)p->n_expert}, {"n_expert_used", (size_t)p->n_expert_used},
               {"n_ctx", (size_t)p->n_ctx}, {"n_sessions", (size_t)p->n_sessions}, {"session_bytes", p->session_bytes}, {"max_batch", (size_t)p->max_batch},
               {"step_bytes", p->step_bytes}, {"other_bytes", p->other_bytes}, {"experts_total", (size_t)p->experts_total}};
  for (size_t i = 0; i < IJ_COUNT_OF(sizes); i++) json_size(sizes[i].key, sizes[i].v);
  json_key("kv");
  json_text(s->args->v[OPT_KV].text);
}

static void json_reads(const shown_plan *s) {
  const ij_plan *p = &s->p;
  json_key("reads");
  json_open('[');
  for (int i = 0; i < 5; i++) {
    json_open('{');
    json_key("hit_rate");
    json_real(hit_rates[i]);
    json_key("bytes_per_token");
    json_real(p->bytes_per_token[i]);
    if (s->measured) {
      json_key("max_tokens_per_s");
      json_real(p->bytes_per_token[i] > 0 ? s->drive / p->bytes_per_token[i] : NAN); /* null */
    }
    json_close();
  }
  json_close();
}

static void print_json(const shown_plan *s) {
  const ij_plan *p = &s->p;
  json_open('{');
  json_key("path");
  json_text(s->path);
  json_key("works");
  json_bool(s->works);
  if (!s->works) json_error("why_not", &s->why);
  json_key("memory");
  json_open('{');
  json_limit("machine", p->machine_total, p->machine_free);
  json_limit("control_group", p->group_limit, p->group_free);
  json_limit("process", p->process_limit, p->process_free);
  json_close();
  json_size("bound", p->bound);
  json_key("bound_by");
  json_text(p->bound_by);
  json_needs(s);
  json_key("home");
  json_text(s->works ? home_names[p->home] : NULL);
  json_size("expert_room", p->expert_room);
  json_size("experts_held", (size_t)p->experts_held);
  if (s->measured) {
    json_key("drive_bytes_per_s");
    json_real(s->drive);
  }
  if (s->drive_error.code) json_error("drive_error", &s->drive_error);
  json_reads(s);
  json_close();
  json_end();
}

/* ------------------------------------------------------------------------------------------------------------------- both */

static void measure_drive(shown_plan *s) {
  progress_begin("measuring the drive");
  s->measured = ij_measure_drive(s->path, DRIVE_SECONDS, &s->drive, &s->drive_error) == IJ_OK;
  progress_end();
}

int info_plan(const cli_args *args, const char *path) {
  shown_plan s = {.args = args, .path = path};
  cli_plan plan = {.n_ctx = args->v[OPT_CTX].set ? args->v[OPT_CTX].i : 0, .n_sessions = 1};
  cli_peek peek;
  int rc = peek_model(args, path, &peek);
  if (rc == CLI_EXIT_OK) rc = check_ctx(args, plan.n_ctx, peek.info.max_context);
  if (rc != CLI_EXIT_OK) return rc;
  ij_model_options o = ij_model_options_default();
  o.n_threads = (int)args->v[OPT_THREADS].i;
  o.cpu_mask = args->v[OPT_CPU_MASK].text;
  plan_options(args, &plan, &o);
  ij_status status = ij_plan_make(&s.p, path, &o, &s.why);
  if (status != IJ_OK && (status != IJ_E_NOMEM || s.p.bound == 0)) return say_bad_input(&s.why);
  s.works = status == IJ_OK;
  if (args->v[OPT_DRIVE].set) measure_drive(&s);
  if (args->v[OPT_JSON].set) print_json(&s);
  else print_text(&s);
  if (s.drive_error.code) say("%s: %s", s.drive_error.where, s.drive_error.message);
  if (s.works) return s.drive_error.code ? CLI_EXIT_FAILED : CLI_EXIT_OK;
  say("%s: %s", s.why.where, s.why.message);
  return CLI_EXIT_FAILED;
}
