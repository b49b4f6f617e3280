/* cmd_info.c: `inkjet info`: what a checkpoint is and what it costs to run. Only the header and the public API are asked. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_media.h"
#include "cli/info_experts.h"
#include "cli/info_media.h"
#include "cli/info_plan.h"
#include "core/os.h"
#include "core/status.h"
#include "inkjet_media.h"

/* What a tensor that the decoder leaves alone belongs to: the first row whose text occurs in the name. */
static const struct {
  const char *text, *label;
} unused[] = {{"mtp", "multi-token prediction"}, {"audio", "audio tower"}, {"a.dmel", "audio tower"}, {"vis", "vision tower"}, {"v.hmlp", "vision tower"},
              {"", "other"}};

static const char *const kv_names[] = {"bf16", "f16", "f32"}; /* the order of ij_kv_type */

/* Tensors of one kind that are not used, in one storage type. */
typedef struct unused_row {
  const char *label;
  char dtype[16];
  int n_tensors;
  size_t n_bytes;
} unused_row;

enum { MAX_ROWS = 64 };

typedef struct info {
  const cli_args *args;
  const char *path;
  ij_model *model;
  ij_model_info m;
  unused_row rows[MAX_ROWS];
  int n_rows;
  size_t kv_bytes[3]; /* memory of a session per ij_kv_type */
} info;

static const char *label_of(const char *name) {
  size_t i = 0;
  while (!strstr(name, unused[i].text)) i++;
  return unused[i].label;
}

/* Rows beyond the last are counted in the last: kinds times types are far fewer than there are rows. */
static void collect_unused(info *f) {
  for (int i = 0; i < f->m.n_tensors; i++) {
    ij_tensor_info t;
    if (ij_model_get_tensor(f->model, i, &t) != IJ_OK || t.used) continue;
    int at = 0;
    while (at < f->n_rows && (strcmp(f->rows[at].label, label_of(t.name)) != 0 || strcmp(f->rows[at].dtype, t.dtype) != 0)) at++;
    if (at == MAX_ROWS) at = MAX_ROWS - 1;
    if (at == f->n_rows) {
      f->rows[f->n_rows] = (unused_row){.label = label_of(t.name)};
      snprintf(f->rows[f->n_rows++].dtype, sizeof f->rows[0].dtype, "%s", t.dtype);
    }
    f->rows[at].n_tensors++;
    f->rows[at].n_bytes += t.n_bytes;
  }
}

/* The library is asked, by opening a session of each kind: pages are not touched, so this is cheap. */
static int measure_memory(info *f) {
  int64_t n_ctx = f->args->v[OPT_CTX].i;
  if (!f->args->v[OPT_CTX].set) n_ctx = IJ_MIN(n_ctx, f->m.max_context);
  int rc = check_ctx(f->args, n_ctx, f->m.max_context);
  if (rc != CLI_EXIT_OK) return rc;
  for (int k = 0; k < 3; k++) {
    ij_err err = {0};
    ij_session *session = NULL;
    ij_session_options o = ij_session_options_default();
    o.n_ctx = n_ctx;
    o.kv_type = (ij_kv_type)k;
    if (ij_session_open(&session, f->model, &o, &err) != IJ_OK) return say_failed(&err);
    f->kv_bytes[k] = ij_session_bytes(session);
    ij_session_close(&session);
  }
  return CLI_EXIT_OK;
}

static int64_t shown_ctx(const info *f) {
  return f->args->v[OPT_CTX].set ? f->args->v[OPT_CTX].i : IJ_MIN(f->args->v[OPT_CTX].i, f->m.max_context);
}

/* -------------------------------------------------------------------------------------------------------------- text */

static const char *human(double n, const char *unit) {
  static char text[4][32];
  static int at;
  char *s = text[at++ & 3];
  const char *prefix = "";
  if (n >= 1e12) {
    n /= 1e12;
    prefix = "T";
  } else if (n >= 1e9) {
    n /= 1e9;
    prefix = "G";
  } else if (n >= 1e6) {
    n /= 1e6;
    prefix = "M";
  } else if (n >= 1e3) {
    n /= 1e3;
    prefix = "k";
  }
  snprintf(s, sizeof text[0], *prefix ? "%.2f %s%s" : "%.0f %s%s", n, prefix, unit);
  return s;
}

static void out_shape(const ij_tensor_info *t) {
  out_text("[");
  for (int d = 0; d < t->n_dims; d++) out_printf("%s%lld", d ? ", " : "", (long long)t->dims[d]);
  out_text("]");
}

static void print_towers(const info *f) {
  const ij_towers *towers = ij_model_towers(f->model);
  const char *error = ij_model_towers_error(f->model);
  ij_towers_info t;
  if (error) {
    out_text("towers       cannot be used, text only: ");
    out_name(error);
    out_text("\n");
  }
  if (!towers) return;
  ij_towers_get_info(towers, &t);
  if (t.vision) out_printf("vision       patches of %d x %d pixels become rows of the decoder\n", t.patch, t.patch);
  if (t.audio) out_text("audio        stretches of 50 ms become rows of the decoder\n");
  out_printf("towers       %s parameters, %s, ", human((double)t.n_params, ""), human((double)t.weight_bytes, "B"));
  if (strcmp(t.source, f->path) == 0) {
    out_text("in the checkpoint\n");
  } else {
    out_text("from ");
    out_name(t.source);
    out_text("\n");
  }
}

static void print_sizes(const info *f) {
  const ij_model_info *m = &f->m;
  out_text("checkpoint   ");
  out_name(f->path);
  out_text("\nfamily       Inkling, text decoder\n");
  out_printf("tensor names %s\n", m->layout);
  out_printf("files        %d, %s; %d tensors\n", m->n_files, human((double)m->file_bytes, "B"), m->n_tensors);
  out_printf("parameters   %s, %s of them read for one token\n", human((double)m->n_params, ""), human((double)m->n_params_active, ""));
  out_printf("weights      %s, %s of them read for one token\n", human((double)m->weight_bytes, "B"), human((double)m->active_bytes, "B"));
  out_printf("layers       %d: %d sliding (window %d), %d global (relative extent %d); %d dense, %d mixture of experts\n", m->n_layer,
             m->n_layer_sliding, m->window, m->n_layer - m->n_layer_sliding, m->rel_extent, m->n_layer_dense, m->n_layer - m->n_layer_dense);
  out_printf("hidden       %d\n", m->hidden);
  out_printf("attention    %d heads of %d, %d key-value heads (%d on sliding layers)\n", m->n_head, m->head_dim, m->n_kv_head, m->n_kv_head_sliding);
  out_printf("experts      %d of width %d, %d per token, %d shared; dense width %d\n", m->n_expert, m->expert_width, m->n_expert_used, m->n_shared,
             m->dense_width);
  out_printf("vocabulary   %d ids, %d rows\n", m->unpadded_vocab, m->vocab);
  out_printf("context      %lld positions at most\n", (long long)m->max_context);
  out_printf("prediction   %d depths of multi-token prediction (not used)\n", m->n_mtp);
  out_printf("tokenizer    %s\n", ij_model_tokenizer(f->model) ? "with the checkpoint" : "none: pass --tokenizer PATH to the commands that need one");
  print_towers(f);
}

/* "affine 4-bit/64": the format and, where scales are arrays of their own, the values that share one. */
static const char *format_name(const ij_weights_info *w) {
  static char text[32];
  if (w->group > 0) {
    snprintf(text, sizeof text, "%s/%d", w->format, w->group);
  } else {
    snprintf(text, sizeof text, "%s%s", w->format, w->group < 0 ? "/mixed" : "");
  }
  return text;
}

static double bits_per_weight(const ij_weights_info *w) { return w->n_values ? 8.0 * (double)w->n_bytes / (double)w->n_values : 0; }

static void print_weights(const info *f) {
  ij_weights_info w;
  out_printf("\n%-27s %-16s %7s %14s %10s %14s %14s\n", "weights", "format", "tensors", "values", "bits each", "bytes", "per token");
  for (int i = 0; ij_model_get_weights(f->model, i, &w) == IJ_OK; i++) {
    out_printf("%-27s %-16s %7d %14lld %10.3f %14zu %14zu\n", w.weight_class, format_name(&w), w.n_tensors, (long long)w.n_values, bits_per_weight(&w),
               w.n_bytes, w.active_bytes);
  }
  out_printf("%-27s %-16s %7s %14lld %10.3f %14zu %14zu\n", "all", "", "", (long long)f->m.n_params,
             8.0 * (double)f->m.weight_bytes / (double)f->m.n_params, f->m.weight_bytes, f->m.active_bytes);
  if (f->n_rows) out_printf("\n%-44s %7s %40s\n", "not used", "tensors", "bytes");
  for (int i = 0; i < f->n_rows; i++) {
    const unused_row *r = &f->rows[i];
    out_printf("%-27s %-16s %7d %40zu\n", r->label, r->dtype, r->n_tensors, r->n_bytes);
  }
}

static void print_text(const info *f) {
  print_sizes(f);
  print_weights(f);
  out_printf("\nmemory for %lld positions: %s of weights mapped from the file, and for the caches\n", (long long)shown_ctx(f),
             human((double)f->m.weight_bytes, "B"));
  for (int k = 0; k < 3; k++) out_printf("  --kv %-5s %s\n", kv_names[k], human((double)f->kv_bytes[k], "B"));
  if (!f->args->v[OPT_TENSORS].set) return;
  out_text("\ntensors (* not used)\n");
  for (int i = 0; i < f->m.n_tensors; i++) {
    ij_tensor_info t;
    if (ij_model_get_tensor(f->model, i, &t) != IJ_OK) continue;
    out_printf("%c %-8s ", t.used ? ' ' : '*', t.dtype);
    out_name(t.name);
    out_text(" ");
    out_shape(&t);
    out_text("\n");
  }
}

/* -------------------------------------------------------------------------------------------------------------- JSON */

static void json_member_int(const char *key, int64_t v) {
  json_key(key);
  json_int(v);
}

static void json_sizes(const ij_model_info *m) {
  const struct {
    const char *key;
    int64_t v;
  } numbers[] = {
      {"n_files", m->n_files}, {"n_tensors", m->n_tensors}, {"file_bytes", (int64_t)m->file_bytes},
      {"n_params", m->n_params}, {"n_params_active", m->n_params_active},
      {"weight_bytes", (int64_t)m->weight_bytes}, {"active_bytes", (int64_t)m->active_bytes},
      {"n_layer", m->n_layer}, {"n_layer_sliding", m->n_layer_sliding}, {"n_layer_dense", m->n_layer_dense},
      {"hidden", m->hidden}, {"vocab", m->vocab}, {"unpadded_vocab", m->unpadded_vocab},
      {"n_head", m->n_head}, {"n_kv_head", m->n_kv_head}, {"n_kv_head_sliding", m->n_kv_head_sliding}, {"head_dim", m->head_dim},
      {"window", m->window}, {"rel_extent", m->rel_extent}, {"d_rel", m->d_rel},
      {"n_expert", m->n_expert}, {"n_expert_used", m->n_expert_used}, {"n_shared", m->n_shared},
      {"expert_width", m->expert_width}, {"dense_width", m->dense_width}, {"n_mtp", m->n_mtp}, {"max_context", m->max_context}};
  for (size_t i = 0; i < IJ_COUNT_OF(numbers); i++) json_member_int(numbers[i].key, numbers[i].v);
}

static void json_weights(const info *f) {
  ij_weights_info w;
  json_key("weights");
  json_open('[');
  for (int i = 0; ij_model_get_weights(f->model, i, &w) == IJ_OK; i++) {
    json_open('{');
    json_key("class");
    json_text(w.weight_class);
    json_key("format");
    json_text(w.format);
    json_member_int("group", w.group);
    json_member_int("n_tensors", w.n_tensors);
    json_member_int("n_values", w.n_values);
    json_member_int("n_values_active", w.n_values_active);
    json_key("bits_per_weight");
    json_real(bits_per_weight(&w));
    json_member_int("n_bytes", (int64_t)w.n_bytes);
    json_member_int("active_bytes", (int64_t)w.active_bytes);
    json_close();
  }
  json_close();
}

static void json_unused(const info *f) {
  json_key("unused");
  json_open('[');
  for (int i = 0; i < f->n_rows; i++) {
    json_open('{');
    json_key("class");
    json_text(f->rows[i].label);
    json_key("type");
    json_text(f->rows[i].dtype);
    json_member_int("n_tensors", f->rows[i].n_tensors);
    json_member_int("n_bytes", (int64_t)f->rows[i].n_bytes);
    json_close();
  }
  json_close();
}

static void json_tensors(const info *f) {
  json_key("tensors");
  json_open('[');
  for (int i = 0; i < f->m.n_tensors; i++) {
    ij_tensor_info t;
    if (ij_model_get_tensor(f->model, i, &t) != IJ_OK) continue;
    json_open('{');
    json_key("name");
    json_text(t.name);
    json_key("type");
    json_text(t.dtype);
    json_key("shape");
    json_open('[');
    for (int d = 0; d < t.n_dims; d++) json_int(t.dims[d]);
    json_close();
    json_key("file");
    json_text(t.file);
    json_member_int("n_bytes", (int64_t)t.n_bytes);
    json_key("used");
    json_bool(t.used);
    json_close();
  }
  json_close();
}

static void json_towers(const info *f) {
  const ij_towers *towers = ij_model_towers(f->model);
  const char *error = ij_model_towers_error(f->model);
  ij_towers_info t;
  if (error) {
    json_key("towers_error");
    json_text(error);
  }
  if (!towers) return;
  ij_towers_get_info(towers, &t);
  json_key("towers");
  json_open('{');
  json_key("vision");
  json_bool(t.vision);
  json_key("audio");
  json_bool(t.audio);
  json_member_int("patch", t.patch);
  json_member_int("n_params", t.n_params);
  json_member_int("weight_bytes", (int64_t)t.weight_bytes);
  json_key("source");
  json_text(t.source);
  json_close();
}

static void print_json(const info *f) {
  json_open('{');
  json_key("path");
  json_text(f->path);
  json_key("family");
  json_text("inkling");
  json_key("layout");
  json_text(f->m.layout);
  json_sizes(&f->m);
  json_key("tokenizer");
  json_bool(ij_model_tokenizer(f->model) != NULL);
  json_towers(f);
  json_weights(f);
  json_unused(f);
  json_key("memory");
  json_open('{');
  json_member_int("n_ctx", shown_ctx(f));
  json_member_int("weights_mapped_bytes", (int64_t)f->m.weight_bytes);
  json_key("session_bytes");
  json_open('{');
  for (int k = 0; k < 3; k++) json_member_int(kv_names[k], (int64_t)f->kv_bytes[k]);
  json_close();
  json_close();
  if (f->args->v[OPT_TENSORS].set) json_tensors(f);
  json_close();
  json_end();
}

int cmd_info(const cli_args *args) {
  info f = {.args = args};
  if (info_experts_check(args) != CLI_EXIT_OK) return CLI_EXIT_MISUSE;
  if (check_plan_options(args) != CLI_EXIT_OK) return CLI_EXIT_MISUSE;
  if (args->v[OPT_MEDIA_FILE].set) return info_media(args);
  if (args->v[OPT_MAX_LONG_EDGE].set || args->v[OPT_MMPROJ].set || names_video_options(args)) {
    return say_misuse(args, "--max-long-edge, --mmproj and the options for videos are about media: pass --media FILE, too");
  }
  if (args->n_positional && args->v[OPT_MODEL].set) return say_misuse(args, "the checkpoint is named twice, by PATH and by -m");
  int rc = CLI_EXIT_OK;
  if (args->n_positional) f.path = args->positional[0];
  else rc = model_path(args, &f.path);
  if (rc != CLI_EXIT_OK) return rc;
  if (args->v[OPT_PLAN].set) return info_plan(args, f.path);
  double start = ij__os_seconds();
  rc = open_described(args, f.path, &f.model);
  if (rc != CLI_EXIT_OK) return rc;
  ij_model_get_info(f.model, &f.m);
  if (args->v[OPT_VERBOSE].set) say_plain("opened in %.3f s with %d threads, kernels %s", ij__os_seconds() - start, f.m.n_threads, f.m.level);
  if (args->v[OPT_EXPERTS].set) {
    rc = info_experts(args, f.path, f.model);
    ij_model_close(&f.model);
    return rc;
  }
  collect_unused(&f);
  rc = measure_memory(&f);
  if (rc == CLI_EXIT_OK && args->v[OPT_JSON].set) {
    print_json(&f);
  } else if (rc == CLI_EXIT_OK) {
    print_text(&f);
  }
  ij_model_close(&f.model);
  return rc;
}
