/* plan_refuse.c: why a plan cannot work, and the nearest options with which it would: each alone is tried with the same arithmetic. */
#include <stdarg.h>
#include <stdio.h>

#include "core/str.h"
#include "engine/plan.h"

#define CTX_STEP 64      /* contexts are suggested in whole blocks of the caches */
#define LEAST_CTX 256    /* and none that nobody would want */
#define MB ((size_t)1000000)

static const char *size_text(char out[24], size_t n) {
  if (n >= 1000 * MB) snprintf(out, 24, "%.2f GB", (double)n * 1e-9);
  else snprintf(out, 24, "%.1f MB", (double)n * 1e-6);
  return out;
}

/* ------------------------------------------------------------------------------------------------------- what would work */

/* The longest context with which this way fits; 0: none. What fits with more also fits with less. */
static int64_t longest_ctx(const ij_planner *p, ij_plan_way w) {
  int64_t low = 0, high = w.n_ctx / CTX_STEP;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    w.n_ctx = middle * CTX_STEP;
    if (ij__plan_fits(p, &w)) low = middle;
    else high = middle - 1;
  }
  return low * CTX_STEP;
}

static int most_sessions(const ij_planner *p, ij_plan_way w) {
  int low = 0, high = w.n_sessions;
  while (low < high) {
    w.n_sessions = low + (high - low + 1) / 2;
    if (ij__plan_fits(p, &w)) low = w.n_sessions;
    else high = w.n_sessions - 1;
  }
  return low;
}

static void add_option(ij_buf *b, int *n, const char *fmt, ...) IJ_PRINTF(3, 4);
static void add_option(ij_buf *b, int *n, const char *fmt, ...) {
  char text[160];
  va_list list;
  va_start(list, fmt);
  vsnprintf(text, sizeof text, fmt, list);
  va_end(list);
  ij__buf_printf(b, "%s%s", (*n)++ ? "; " : "", text);
}

/* A bound asked for may simply be raised, as far as the rest allows; and who asks for one gets what is otherwise left free. */
static void suggest_mem(const ij_planner *p, const ij_plan_way *w, ij_buf *b, int *n) {
  ij_model_options other = *p->options;
  ij_planner with = *p;
  with.options = &other;
  other.mem_bytes = 1; /* a bound, whichever: mapped weights then must fit, too */
  size_t need = ij__plan_need(&with, w);
  other.mem_bytes = need;
  if (need < SIZE_MAX - MB && ij__plan_bound(&with, w->home, NULL) >= need) add_option(b, n, "--mem %zuM", (need + MB - 1) / MB);
}

/* Only sessions that are kept for later can be fewer: what else a caller takes it cannot do without. */
static void suggest_cache(const ij_planner *p, const ij_plan_way *asked, ij_buf *b, int *n) {
  ij_plan_way without = *asked;
  without.caller = p->options->plan_other;
  if (p->options->plan_kept && ij__plan_fits(p, &without))
    add_option(b, n, "--cache %zu", ij__plan_less(ij__plan_bound(p, asked->home, NULL), ij__plan_need(p, &without)) >> 20);
}

static int suggest(const ij_planner *p, const ij_plan_way *asked, ij_buf *b) {
  int n = 0;
  suggest_mem(p, asked, b, &n);
  int64_t ctx = longest_ctx(p, *asked);
  if (ctx >= LEAST_CTX) add_option(b, &n, "--ctx %lld", (long long)ctx);
  ij_plan_way half = *asked;
  half.kv = IJ_KV_BF16;
  if (asked->kv == IJ_KV_F32) {
    int64_t half_ctx = longest_ctx(p, half);
    if (ij__plan_fits(p, &half)) add_option(b, &n, "--kv bf16");
    else if (half_ctx >= LEAST_CTX && half_ctx > ctx) add_option(b, &n, "--kv bf16 --ctx %lld", (long long)half_ctx);
  }
  int sessions = asked->n_sessions > 1 ? most_sessions(p, *asked) : 0;
  if (sessions > 0) add_option(b, &n, "--parallel %d", sessions);
  suggest_cache(p, asked, b, &n);
  if (asked->home != IJ_HOME_STREAMED && p->options->home != IJ_HOME_AUTO && ij__plan_can_stream(p)) {
    ij_plan_way streamed = *asked;
    streamed.home = IJ_HOME_STREAMED;
    if (ij__plan_fits(p, &streamed)) add_option(b, &n, "--home streamed");
  }
  return n;
}

/* ---------------------------------------------------------------------------------------------------------------- refusing */

static void add_part(ij_buf *b, const char *what, size_t n) {
  char text[24];
  if (n >= MB / 20) ij__buf_printf(b, "%s%s %s", b->len ? "; " : "", what, size_text(text, n));
}

static void add_needs(const ij_planner *p, const ij_plan_way *w, ij_buf *b) {
  char what[80];
  size_t session = ij__plan_session(p, w);
  add_part(b, "weights that every token reads", ij__plan_dense(p, w->home));
  add_part(b, w->home == IJ_HOME_STREAMED ? "room for routed experts at least" : "routed experts", ij__plan_experts(p, w->home));
  if (w->n_sessions == 1) snprintf(what, sizeof what, "a session of %lld positions", (long long)w->n_ctx);
  else snprintf(what, sizeof what, "%d sessions of %lld positions", w->n_sessions, (long long)w->n_ctx);
  add_part(b, what, ij__plan_mul(session, (size_t)w->n_sessions));
  snprintf(what, sizeof what, "a step of %d rows", w->max_batch);
  add_part(b, what, ij__plan_step(p, w));
  add_part(b, "sessions kept for later", p->options->plan_kept);
  add_part(b, "the command itself", p->options->plan_other);
  add_part(b, "the program, tokenizer and towers", ij__plan_other(p, w->home));
}

ij_status ij__plan_refuse(const ij_planner *p, ij_home home, ij_err *err) {
  const char *by;
  char need[24], bound[24];
  ij_plan_way asked = ij__plan_asked(p, home);
  size_t n = ij__plan_need(p, &asked), room = ij__plan_bound(p, home, &by);
  ij_buf parts = {0}, options = {0};
  add_needs(p, &asked, &parts);
  int n_options = suggest(p, &asked, &options);
  if (n_options == 0) ij__buf_puts(&options, "No option alone is enough: a smaller quantization, or more memory");
  if (n == SIZE_MAX) snprintf(need, sizeof need, "more than 16 EB");
  else size_text(need, n);
  ij_status s = parts.failed || options.failed
      ? ij__fail(err, IJ_E_NOMEM, p->model->path, "%s is needed, and %s leaves %s", need, by, size_text(bound, room))
      : ij__fail(err, IJ_E_NOMEM, p->model->path, "%s is needed, and %s leaves %s: %s. %s%s", need, by, size_text(bound, room), parts.data,
                 n_options ? "It would work with: " : "", options.data);
  ij__buf_free(&parts);
  ij__buf_free(&options);
  return s;
}

ij_status ij__plan_check_bound(const ij_planner *p, ij_err *err) {
  const ij_memory_limits *l = &p->found.limits;
  size_t mem = p->options->mem_bytes, page = ij__os_page_size(); /* limits of groups are cut to whole pages */
  char asked[24], limit[24];
  size_text(asked, mem);
  if (l->group_limit && mem / page > l->group_limit / page) {
    return ij__fail(err, IJ_E_NOMEM, p->model->path, "--mem allows %s, but the control group of this process no more than %s in all: such a bound cannot be kept. "
                    "Ask for at most that, or raise the limit of the group", asked, size_text(limit, (size_t)l->group_limit));
  }
  if (l->process_limit && mem > l->process_limit) {
    return ij__fail(err, IJ_E_NOMEM, p->model->path, "--mem allows %s, but the limits of this process (ulimit -v, -d) no more than %s in all: such a bound cannot be "
                    "kept. Ask for at most that, or raise the limit", asked, size_text(limit, (size_t)l->process_limit));
  }
  return IJ_OK;
}
