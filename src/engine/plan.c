/* plan.c: what will be where, decided before a byte of weights is read.
 *
 * The bound is the smallest of what was asked for (--mem) and what the machine, the control group and the limits of the process leave free. Without
 * --mem a reserve stays: a sixteenth of what is free, at least 64 MB and at most 2 GB. What a system calls available is an estimate, other
 * programs go on growing, and the last gigabytes of page cache are those that everything on the machine runs from. With --mem the user has
 * decided, and only the control group keeps a little for what the kernel charges to it (page tables, buffers of the drive).
 *
 * Mapped weights are used where all of it fits. Otherwise routed experts are streamed through what the rest leaves. The rows of a step are reduced
 * (512, 256, ... 16) before anything is refused: they decide how often the experts are read for a prompt, so a streamed home gives them up to
 * a quarter of what experts and they have together. Half the rows read a prompt twice as often; a quarter less room costs a few points
 * of the hit rate. */
#include "engine/plan.h"

#include <string.h>

#include "core/alloc.h"
#include "core/cpu.h"
#include "core/memfs.h"
#include "io/reader.h"

#define MB ((size_t)1000000)
#define DEFAULT_CTX 8192
#define MAX_SESSIONS 1000000
#define MAX_PLAN_ROLLBACK 65536
#define PROGRAM_BYTES (16 * MB)         /* code, libraries, their tables, and what the heap holds beside what is counted: 11 were measured */
#define THREAD_BYTES ((size_t)256 << 10) /* of a stack that are touched */
#define THREAD_SPACE ((size_t)10 << 20)  /* of address space that a thread reserves */
#define TENSOR_BYTES ((size_t)640)      /* of a directory, per tensor: its view, its names, its part of the header */
#define TOKEN_BYTES ((size_t)320)       /* of a tokenizer, per id, while it is opened: 210 were measured with a rank file */
#define TOWER_BUFFERS (136 * MB)        /* of a call that encodes, 96 at most: rows on their way, and sums of every worker; or of a photograph of 12 M pixels */
#define PIXEL_BYTES ((size_t)11)        /* of a picture while it is read: its pixels, and the coefficients of a progressive JPEG file of four channels */
#define READER_BYTES (4 * MB)

static const double shown_hit_rates[5] = {0, 0.25, 0.5, 0.75, 0.9};

void ij__plan_look(ij_found *out) {
  *out = (ij_found){.machine_total = ij__os_memory_total(), .machine_free = ij__os_memory_available()};
  ij__os_memory_limits(&out->limits, "");
}

/* ----------------------------------------------------------------------------------------------------------------- weights */

/* Everything but the routed experts. Copies and mappings alike take whole pages; factors of experts are among the floats. */
static void measure_dense(const ij_model *m, ij_weights_need *w) {
  const size_t edges = 2 * ij__os_page_size();
  w->floats = ij__plan_mul(m->weights.n_floats, sizeof(float));
  w->dense = w->floats;
  for (int c = 0; c < IJ_CLASS_COUNT; c++) {
    for (int t = 0; t < IJ_DTYPE_COUNT && c != IJ_CLASS_ROUTED; t++) {
      const ij_weight_stat *s = &m->weights.stats[c][t];
      w->dense = ij__plan_add(w->dense, ij__plan_add(s->n_bytes, ij__plan_mul((size_t)s->n_matrices, edges)));
      if (c == IJ_CLASS_EMBED && !m->config.tied) w->embed = ij__plan_add(w->embed, s->n_bytes);
    }
  }
}

static void measure_experts(const ij_model *m, ij_weights_need *w) {
  const ij_config *c = &m->config;
  const ij_expert_banks banks = ij__weights_banks(&m->weights, c);
  size_t n_expert = (size_t)c->n_expert;
  for (int i = 0; i < c->n_layer; i++) {
    size_t n = ij__expert_bytes(&banks.banks[i]);
    if (n == 0) continue;
    w->n_layers++;
    w->largest = IJ_MAX(w->largest, n);
    w->expert_bytes = ij__plan_add(w->expert_bytes, ij__plan_mul(n, n_expert));
    w->resident = ij__plan_add(w->resident, ij__plan_mul(ij__expert_slot_bytes(&banks.banks[i]), n_expert));
    w->token_bytes += (double)n * c->n_expert_used;
  }
  if (w->n_layers == 0) return;
  w->n_total = (int64_t)w->n_layers * c->n_expert;
  w->least = ij__experts_streamed_least(&banks);
  w->most = ij__experts_streamed_most(&banks);
}

/* --------------------------------------------------------------------------------------------------------------- the rest */

static size_t tower_bytes(const ij_ckpt *ckpt) {
  size_t sum = 0;
  for (int i = 0; i < ij__ckpt_n_tensors(ckpt); i++) {
    const ij_tensor_view *t = ij__ckpt_tensor(ckpt, i);
    if (ij__towers_own(ckpt, t->name)) sum = ij__plan_add(sum, t->n_bytes);
  }
  return sum;
}

/* Towers are mapped, and in memory once there is a picture. */
static ij_status measure_towers(const ij_planner *p, size_t *n_bytes, ij_err *err) {
  ij_ckpt *apart = NULL;
  *n_bytes = tower_bytes(p->model->ckpt);
  if (p->options->mmproj) {
    ij_status s = ij__ckpt_open(&apart, p->options->mmproj, err);
    if (s != IJ_OK) return s;
    *n_bytes = tower_bytes(apart);
    ij__ckpt_close(&apart);
  }
  if (*n_bytes) *n_bytes = ij__plan_add(*n_bytes, TOWER_BUFFERS);
  return IJ_OK;
}

/* The text of a tokenizer.json is read whole and parsed before the tables are made of it: 4.4 times its size were measured. */
static size_t tokenizer_bytes(const ij_model *m) {
  const char *folder = ij__ckpt_folder(m->ckpt);
  const struct ij_gguf *g = ij__ckpt_gguf(m->ckpt);
  bool inside = g && ij__tok_in_gguf(g);
  if (!inside && !ij__tok_present(folder)) return 0;
  size_t tables = (size_t)m->config.unpadded_vocab * TOKEN_BYTES, text = 0;
  char *path = inside ? NULL : ij__os_join(folder, "tokenizer.json");
  ij_file_map map;
  if (path && ij__os_is_file(path) && ij__os_map_file(path, &map, NULL) == IJ_OK) {
    text = ij__plan_mul(map.n_bytes, 5);
    ij__os_unmap(&map);
  }
  ij__free(path);
  return IJ_MAX(tables, text);
}

static ij_status measure_other(ij_planner *p, ij_err *err) {
  const ij_config *c = &p->model->config;
  size_t towers = 0, n_layer = (size_t)c->n_layer;
  ij_status s = measure_towers(p, &towers, err);
  p->has_towers = towers > 0;
  size_t sum = ij__plan_add(PROGRAM_BYTES, towers);
  sum = ij__plan_add(sum, (size_t)p->n_threads * THREAD_BYTES);
  sum = ij__plan_add(sum, ij__plan_mul((size_t)ij__ckpt_n_tensors(p->model->ckpt), TENSOR_BYTES));
  sum = ij__plan_add(sum, n_layer * (sizeof(ij_layer) + sizeof(ij_expert_bank) * 2 + (size_t)c->n_shared * sizeof(ij_mlp)));
  if (p->options->tokenizer) sum = ij__plan_add(sum, tokenizer_bytes(p->model));
  p->other = sum;
  return s;
}

/* Where weights are read, also the queue of reads, and the use of experts in earlier sessions. */
size_t ij__plan_other(const ij_planner *p, ij_home home) {
  size_t keys = (size_t)p->model->config.n_layer * (size_t)p->model->config.n_expert;
  bool reads = home == IJ_HOME_STREAMED || home == IJ_HOME_RESIDENT;
  return ij__plan_add(p->other, reads ? READER_BYTES + keys * 4 * sizeof(float) : 0);
}

/* ------------------------------------------------------------------------------------------------------------------- bound */

/* What stays free beside us. */
static uint64_t reserve_of(uint64_t n, bool asked, bool group) {
  if (asked) return group ? n / 64 : 0;
  uint64_t least = IJ_MIN((uint64_t)64 << 20, n / 4);
  return IJ_MIN(IJ_MAX(n / 16, least), (uint64_t)2 << 30);
}

static void lower(size_t *bound, const char **by, uint64_t to, const char *name) {
  size_t n = to > SIZE_MAX ? SIZE_MAX : (size_t)to;
  if (n >= *bound) return;
  *bound = n;
  *by = name;
}

size_t ij__plan_bound(const ij_planner *p, ij_home home, const char **by) {
  const ij_found *f = &p->found;
  const bool asked = p->options->mem_bytes > 0;
  const char *unused;
  if (!by) by = &unused;
  size_t bound = asked ? p->options->mem_bytes : SIZE_MAX;
  *by = asked ? "--mem" : "the machine";
  uint64_t free_now = f->machine_free ? f->machine_free : f->machine_total / 2; /* not every system says what is free */
  if (free_now) lower(&bound, by, free_now - reserve_of(free_now, asked, false), "the machine");
  if (f->limits.group_limit) {
    uint64_t n = f->limits.group_free;
    lower(&bound, by, n - reserve_of(n, asked, true), "the control group");
  }
  if (f->limits.process_limit) { /* address space, in which the file is mapped already, and which stacks take before they use it */
    uint64_t stacks = (uint64_t)p->n_threads * THREAD_SPACE + ((uint64_t)64 << 20), n = f->limits.process_free;
    n -= IJ_MIN(n / 2, stacks);
    if (home == IJ_HOME_MAPPED) n += ij__plan_less(ij__plan_add(p->weights.dense, p->weights.expert_bytes), p->weights.floats);
    lower(&bound, by, n, "the process");
  }
  return bound;
}

/* ------------------------------------------------------------------------------------------------------------------- needs */

/* The mapped home asked for by name and without a bound: the system may drop pages and read them again, so only the rest must fit. */
static bool is_loose(const ij_planner *p, ij_home home) {
  return home == IJ_HOME_MAPPED && p->options->home == IJ_HOME_MAPPED && p->options->mem_bytes == 0;
}

size_t ij__plan_dense(const ij_planner *p, ij_home home) {
  const ij_weights_need *w = &p->weights;
  return is_loose(p, home) ? w->floats : home == IJ_HOME_STREAMED ? w->dense - w->embed : w->dense;
}

size_t ij__plan_experts(const ij_planner *p, ij_home home) {
  if (is_loose(p, home)) return 0;
  return home == IJ_HOME_MAPPED ? p->weights.expert_bytes : home == IJ_HOME_RESIDENT ? p->weights.resident : p->weights.least;
}

size_t ij__plan_session(const ij_planner *p, const ij_plan_way *w) {
  ij_session_options o = ij_session_options_default();
  o.n_ctx = w->n_ctx;
  o.kv_type = (ij_kv_type)w->kv;
  o.max_rollback = p->options->plan_rollback;
  return ij__session_need(p->model, &o, ij__session_append(w->home, w->max_batch));
}

size_t ij__plan_step(const ij_planner *p, const ij_plan_way *w) {
  size_t n, rows = ij__plan_mul((size_t)w->max_batch, sizeof(ij_batch_item) + sizeof(float *));
  return ij__net_bytes(&p->model->config, p->n_threads, w->max_batch, w->n_ctx, w->home == IJ_HOME_STREAMED, &n) ? ij__plan_add(n, rows) : SIZE_MAX;
}

/* All but the experts. */
static size_t fixed_need(const ij_planner *p, const ij_plan_way *w) {
  size_t n = ij__plan_add(ij__plan_dense(p, w->home), ij__plan_mul(ij__plan_session(p, w), (size_t)w->n_sessions));
  n = ij__plan_add(n, ij__plan_step(p, w));
  n = ij__plan_add(n, ij__plan_other(p, w->home));
  return ij__plan_add(n, w->caller);
}

size_t ij__plan_need(const ij_planner *p, const ij_plan_way *w) { return ij__plan_add(fixed_need(p, w), ij__plan_experts(p, w->home)); }

bool ij__plan_fits(const ij_planner *p, const ij_plan_way *w) {
  size_t need = ij__plan_need(p, w);
  return need < SIZE_MAX && need <= ij__plan_bound(p, w->home, NULL);
}

int ij__plan_least_batch(const ij_planner *p) { return IJ_MIN(p->options->max_batch, IJ_PLAN_LEAST_BATCH); }

ij_plan_way ij__plan_asked(const ij_planner *p, ij_home home) {
  const ij_model_options *o = p->options;
  int64_t limit = p->model->config.max_context, n_ctx = o->plan_ctx ? o->plan_ctx : DEFAULT_CTX;
  return (ij_plan_way){.home = home, .max_batch = ij__plan_least_batch(p), .n_ctx = IJ_MIN(n_ctx, limit), .kv = o->plan_kv,
                       .n_sessions = o->plan_sessions, .caller = ij__plan_add(o->plan_kept, o->plan_other)};
}

/* ------------------------------------------------------------------------------------------------------------------ choice */

/* The next smaller power of two; 0 below the least. */
static int fewer_rows(int n) {
  int power = 1;
  while (power * 2 < n) power *= 2;
  return n <= IJ_PLAN_LEAST_BATCH || power < IJ_PLAN_LEAST_BATCH ? 0 : power;
}

static bool choose_whole(const ij_planner *p, ij_home home, ij_plan_way *w) {
  *w = ij__plan_asked(p, home);
  for (int n = p->options->max_batch; n; n = fewer_rows(n)) {
    w->max_batch = n;
    if (ij__plan_fits(p, w)) return true;
  }
  return false;
}

/* The most rows that take at most a quarter of what they and the experts have together; if there are none, the fewest. */
static bool choose_streamed(const ij_planner *p, ij_plan_way *w) {
  *w = ij__plan_asked(p, IJ_HOME_STREAMED);
  if (!ij__plan_fits(p, w)) return false;
  size_t bound = ij__plan_bound(p, IJ_HOME_STREAMED, NULL), base = ij__plan_less(fixed_need(p, w), ij__plan_step(p, w));
  for (int n = p->options->max_batch; n; n = fewer_rows(n)) {
    ij_plan_way more = *w;
    more.max_batch = n;
    size_t need = fixed_need(p, &more);
    if (ij__plan_fits(p, &more) && (bound - need >= p->weights.most || need - base <= (bound - base) / 4)) {
      *w = more;
      break;
    }
  }
  return true;
}

/* A model that is a part of the program has no file to read experts from. */
static bool is_in_memory(const ij_planner *p) { return strncmp(ij__ckpt_file_path(p->model->ckpt, 0), IJ_MEMFS_PREFIX, sizeof IJ_MEMFS_PREFIX - 1) == 0; }

bool ij__plan_can_stream(const ij_planner *p) { return p->weights.n_layers > 0 && !is_in_memory(p); }

static ij_status check_home(const ij_planner *p, ij_err *err) {
  if (p->options->home != IJ_HOME_STREAMED) return IJ_OK;
  if (p->weights.n_layers == 0) {
    return ij__fail(err, IJ_E_UNSUPPORTED, p->model->path, "--home streamed reads experts when they are needed, and this model has none: every token reads all of its "
                    "weights. Leave --home out, or ask for --home resident");
  }
  if (!is_in_memory(p)) return IJ_OK;
  return ij__fail(err, IJ_E_UNSUPPORTED, p->model->path, "--home streamed reads experts from the files of a model, and this one has none: it is a part of the program, and "
                  "in memory as it is. Leave --home out, or name a model in files");
}

static bool choose(const ij_planner *p, ij_plan_way *w) {
  ij_home home = p->options->home;
  if (home == IJ_HOME_STREAMED) return choose_streamed(p, w);
  if (home != IJ_HOME_AUTO) return choose_whole(p, home, w);
  return choose_whole(p, IJ_HOME_MAPPED, w) || (ij__plan_can_stream(p) && choose_streamed(p, w));
}

/* ------------------------------------------------------------------------------------------------------------------ result */

static size_t as_size(uint64_t n) { return n > SIZE_MAX ? SIZE_MAX : (size_t)n; }

static void fill_found(const ij_planner *p, ij_plan *out) {
  const ij_found *f = &p->found;
  const ij_weights_need *w = &p->weights;
  *out = (ij_plan){.machine_total = as_size(f->machine_total), .machine_free = as_size(f->machine_free),
      .group_limit = as_size(f->limits.group_limit), .group_free = as_size(f->limits.group_free),
      .process_limit = as_size(f->limits.process_limit), .process_free = as_size(f->limits.process_free), .expert_bytes = w->expert_bytes, .largest_expert = w->largest,
      .mean_expert = w->n_total ? w->expert_bytes / (size_t)w->n_total : 0, .n_expert_layers = w->n_layers,
      .n_expert = p->model->config.n_expert, .n_expert_used = p->model->config.n_expert_used, .experts_total = w->n_total, .bound_by = ""};
  for (int i = 0; i < 5; i++) out->bytes_per_token[i] = w->token_bytes * (1 - shown_hit_rates[i]);
}

static void fill_needs(const ij_planner *p, const ij_plan_way *w, ij_plan *out) {
  out->bound = ij__plan_bound(p, w->home, &out->bound_by);
  out->dense_bytes = w->home == IJ_HOME_MAPPED ? p->weights.dense : ij__plan_dense(p, w->home);
  out->session_bytes = ij__plan_session(p, w);
  out->n_sessions = w->n_sessions;
  out->n_ctx = w->n_ctx;
  out->step_bytes = ij__plan_step(p, w);
  out->other_bytes = ij__plan_other(p, w->home);
  out->caller_bytes = w->caller;
  out->max_batch = w->max_batch;
}

/* Slots that a streamed home gets into so much memory, nearly: those of the least are there, and each further one takes its share of the rest. */
static int64_t held_slots(const ij_weights_need *k, size_t room) {
  if (k->n_total <= 1 || k->most <= k->least) return k->n_total;
  double share = (double)ij__plan_less(room, k->least) / (double)(k->most - k->least);
  return 1 + (int64_t)(share * (double)(k->n_total - 1));
}

/* Pictures are read one at a time, before they are encoded, in what encoding needs; larger ones in a part of what is left, too. Where nothing is
 * bounded the page cache makes way for them. */
static void plan_pictures(const ij_planner *p, const ij_plan_way *w, size_t *room, ij_plan *out) {
  const size_t usual = (size_t)ij_media_options_default().max_pixels * PIXEL_BYTES;
  if (!p->has_towers || (w->home != IJ_HOME_STREAMED && !p->options->mem_bytes)) return;
  size_t spare = w->home == IJ_HOME_STREAMED ? ij__plan_less(*room, p->weights.least) / 8 : ij__plan_less(*room, ij__plan_experts(p, w->home));
  size_t more = IJ_MIN(ij__plan_less(IJ_MIN(usual, out->bound / 32), TOWER_BUFFERS), spare);
  *room -= more;
  out->other_bytes += more;
  out->picture_pixels = (int64_t)((TOWER_BUFFERS + more) / PIXEL_BYTES);
}

static void fill_choice(const ij_planner *p, const ij_plan_way *w, ij_plan *out) {
  const ij_weights_need *k = &p->weights;
  size_t room = ij__plan_less(out->bound, fixed_need(p, w));
  if (is_loose(p, w->home)) room = ij__plan_less(room, k->dense - k->floats); /* which need not fit, but takes its place before any expert */
  plan_pictures(p, w, &room, out);
  out->home = w->home;
  out->experts_held = k->n_total;
  if (w->home == IJ_HOME_STREAMED) {
    out->expert_room = IJ_MIN(room, k->most);
    out->experts_held = held_slots(k, out->expert_room);
  } else {
    out->expert_room = IJ_MIN(room, w->home == IJ_HOME_MAPPED ? k->expert_bytes : k->resident);
    if (out->expert_room < k->expert_bytes) out->experts_held = (int64_t)((double)out->expert_room / (double)k->expert_bytes * (double)k->n_total);
  }
}

ij_status ij__plan_fill_found(const ij_model *m, const ij_model_options *o, const ij_found *found, ij_plan *out, ij_err *err) {
  ij_planner p = {.model = m, .options = o, .found = *found, .n_threads = o->n_threads ? o->n_threads : ij__cpu_count()};
  ij_plan_way way;
  measure_dense(m, &p.weights);
  measure_experts(m, &p.weights);
  fill_found(&p, out);
  ij_status s = check_home(&p, err);
  if (s == IJ_OK) s = measure_other(&p, err);
  if (s != IJ_OK) return s;
  bool works = choose(&p, &way);
  fill_needs(&p, &way, out);
  s = ij__plan_check_bound(&p, err);
  if (s != IJ_OK) return s;
  if (!works) return ij__plan_refuse(&p, way.home, err);
  fill_choice(&p, &way, out);
  return IJ_OK;
}

ij_status ij__plan_fill(const ij_model *m, const ij_model_options *o, ij_plan *out, ij_err *err) {
  ij_found found;
  ij__plan_look(&found);
  return ij__plan_fill_found(m, o, &found, out, err);
}

/* -------------------------------------------------------------------------------------------------------------- of a model */

ij_status ij__check_plan_options(const ij_model_options *o, ij_err *err) {
  if ((int)o->home < IJ_HOME_AUTO || o->home > IJ_HOME_STREAMED) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.home", "expected an ij_home, found %d", (int)o->home);
  }
  if ((int)o->predict < IJ_PREDICT_AUTO || o->predict > IJ_PREDICT_ON) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.predict", "expected an ij_predict, found %d", (int)o->predict);
  }
  if (o->plan_ctx < 0) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.plan_ctx", "expected 0 (the default) or more positions, found %lld", (long long)o->plan_ctx);
  }
  if (o->plan_sessions < 0 || o->plan_sessions > MAX_SESSIONS) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.plan_sessions", "expected 0 to %d, found %d", MAX_SESSIONS, o->plan_sessions);
  }
  if (o->plan_kv < IJ_KV_BF16 || o->plan_kv > IJ_KV_F32) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.plan_kv", "expected an ij_kv_type, found %d", o->plan_kv);
  }
  if (o->plan_rollback < 0 || o->plan_rollback > MAX_PLAN_ROLLBACK) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.plan_rollback", "expected 0 to %d, found %d", MAX_PLAN_ROLLBACK, o->plan_rollback);
  }
  return IJ_OK;
}

/* With a bound, and where experts take what sessions leave, sessions keep to what was planned. */
ij_status ij__model_plan(ij_model *m, const ij_model_options *o, ij_err *err) {
  ij_status s = ij__plan_fill(m, o, &m->plan, err);
  if (s != IJ_OK) return s;
  bool bounded = o->mem_bytes > 0 || m->plan.home == IJ_HOME_STREAMED;
  size_t room = ij__plan_add(ij__plan_mul(m->plan.session_bytes, (size_t)m->plan.n_sessions), o->plan_kept);
  m->session_room = bounded ? room : SIZE_MAX;
  if (!o->planned || o->planned(o->user, &m->plan)) return IJ_OK;
  return ij__fail(err, IJ_E_CANCELLED, "opening the model", "the caller asked to stop");
}

void ij_model_get_plan(const ij_model *model, ij_plan *out) { *out = model->plan; }

/* As much of a model as a plan asks for. */
static ij_status make_plan(ij_model *m, const ij_model_options *o, ij_plan *out, ij_err *err) {
  ij_status s = ij__ckpt_open(&m->ckpt, m->path, err);
  if (s == IJ_OK) s = ij__config_read(&m->config, m->ckpt, err);
  if (s == IJ_OK) s = ij__weights_bind(&m->weights, &m->config, m->ckpt, err);
  return s == IJ_OK ? ij__plan_fill(m, o, out, err) : s;
}

ij_status ij_plan_make(ij_plan *out, const char *path, const ij_model_options *options, ij_err *err) {
  if (!out || !path) return ij__fail(err, IJ_E_ARGUMENT, "ij_plan_make", "out and path must not be NULL");
  *out = (ij_plan){.bound_by = ""};
  ij_model_options o = options ? *options : ij_model_options_default();
  ij_level level = IJ_LEVEL_COUNT;
  ij_status s = ij__check_model_options(&o, &level, err);
  if (s != IJ_OK) return s;
  ij_model *m = ij__alloc_zero(1, sizeof *m);
  if (m) m->path = ij__strdup(path);
  s = m && m->path ? make_plan(m, &o, out, err) : ij__fail_nomem(err, path, sizeof *m);
  ij_model_close(&m);
  return s;
}
