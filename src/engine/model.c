/* model.c: opening and describing a model. Opening maps the files, checks everything, binds names, plans, brings the weights to where they are
 * wanted (homes.c), and starts the threads. */
#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "core/memfs.h"
#include "core/os.h"
#include "engine/engine_int.h"
#include "io/gguf.h"
#include "model/names.h"

#define MAX_THREADS 1024
#define MAX_BATCH 65536

const char *ij_version(void) {
#define STR2(x) #x
#define STR(x) STR2(x)
  return STR(IJ_VERSION_MAJOR) "." STR(IJ_VERSION_MINOR) "." STR(IJ_VERSION_PATCH);
#undef STR
#undef STR2
}

ij_model_options ij_model_options_default(void) {
  return (ij_model_options){.struct_size = sizeof(ij_model_options), .plan_sessions = 1, .plan_kv = IJ_KV_F32, .plan_rollback = 64, .max_batch = 512,
                            .tokenizer = true};
}

ij_status ij__check_model_options(const ij_model_options *o, ij_level *level, ij_err *err) {
  if (o->struct_size != sizeof *o) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.struct_size", "expected %zu, found %zu: start from ij_model_options_default()",
                    sizeof *o, o->struct_size);
  }
  if (o->n_threads < 0 || o->n_threads > MAX_THREADS) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.n_threads", "expected 0 (all) to %d, found %d", MAX_THREADS, o->n_threads);
  }
  if (o->max_batch < 1 || o->max_batch > MAX_BATCH) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.max_batch", "expected 1 to %d, found %d", MAX_BATCH, o->max_batch);
  }
  ij_status s = ij__check_plan_options(o, err);
  if (s != IJ_OK) return s;
  *level = o->cpu_mask ? ij__level_find(o->cpu_mask) : IJ_LEVEL_COUNT;
  if (o->cpu_mask && *level == IJ_LEVEL_COUNT) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.cpu_mask", "expected scalar, avx2, avx512 or neon, found \"%s\"", o->cpu_mask);
  }
  if (o->cpu_mask && !ij__cpu_has(*level)) {
    return ij__fail(err, IJ_E_ARGUMENT, "ij_model_options.cpu_mask", "this processor does not have %s", o->cpu_mask);
  }
  return IJ_OK;
}

ij_status ij__report_progress(const ij_model_options *o, double fraction, ij_err *err) {
  if (!o->progress || o->progress(o->user, fraction)) return IJ_OK;
  return ij__fail(err, IJ_E_CANCELLED, "opening the model", "the caller asked to stop");
}

static void fill_info(ij_model *m) {
  const ij_config *c = &m->config;
  m->info = (ij_model_info){.n_layer = c->n_layer, .hidden = c->hidden, .vocab = c->vocab, .unpadded_vocab = c->unpadded_vocab,
      .n_head = c->attn[0].n_head, .n_kv_head = c->attn[0].n_kv_head, .n_kv_head_sliding = c->attn[1].n_kv_head,
      .head_dim = c->attn[0].head_dim, .window = c->window, .rel_extent = c->attn[0].rel_extent, .d_rel = c->d_rel,
      .n_expert = c->n_expert, .n_expert_used = c->n_expert_used, .n_shared = c->n_shared, .expert_width = c->expert_width,
      .dense_width = c->dense_width, .n_mtp = c->n_mtp, .max_context = c->max_context, .n_params = m->weights.n_params,
      .n_params_active = m->weights.n_params_active, .weight_bytes = m->weights.weight_bytes, .active_bytes = m->weights.active_bytes,
      .file_bytes = ij__ckpt_file_bytes(m->ckpt), .n_tensors = ij__ckpt_n_tensors(m->ckpt), .n_files = ij__ckpt_n_files(m->ckpt),
      .n_threads = ij__pool_threads(m->pool), .level = ij__level_name(m->kernels->level), .layout = m->weights.names.layout->title};
  for (int i = 0; i < c->n_layer; i++) {
    m->info.n_layer_sliding += c->sliding[i];
    m->info.n_layer_dense += c->dense[i];
  }
}

/* A tokenizer is optional: a folder without one is fine, one that cannot be read is an error. A GGUF model holds its own, or has that of
 * the folder. */
static ij_status open_own_tokenizer(ij_model *m, ij_err *err) {
  const char *folder = ij__ckpt_folder(m->ckpt);
  const struct ij_gguf *g = ij__ckpt_gguf(m->ckpt);
  if (g && ij__tok_in_gguf(g)) return ij__tokenizer_open_gguf(&m->tokenizer, g, err);
  return ij__tok_present(folder) ? ij_tokenizer_open(&m->tokenizer, folder, err) : IJ_OK;
}

/* A text to look at, never needed to compute: what is larger than any template is refused by the reader of files. */
static ij_status read_chat_template(ij_model *m, ij_err *err) {
  enum { MAX_TEMPLATE = 1 << 22 };
  const struct ij_gguf *g = ij__ckpt_gguf(m->ckpt);
  const ij_gguf_value *v = g ? ij__gguf_find(g, "tokenizer.chat_template") : NULL;
  if (v && ij__gguf_string(g, v, 0, &m->chat_template, &m->n_chat_template)) return IJ_OK;
  char *path = ij__os_join(ij__ckpt_folder(m->ckpt), "chat_template.jinja");
  if (!path) return ij__fail_nomem(err, "a path", strlen(ij__ckpt_folder(m->ckpt)));
  ij_status s = IJ_OK;
  if (ij__os_is_file(path)) s = ij__os_read_file(path, MAX_TEMPLATE, &m->template_text, &m->n_chat_template, err);
  m->chat_template = m->template_text;
  ij__free(path);
  return s;
}

/* A file that does not number the placeholders (GGUF has no key for them) has those of the family, and a shortened vocabulary its own. */
static void find_placeholders(ij_model *m) {
  static const char *const names[2] = {"<|unused_200054|>", "<|unused_200053|>"};
  int32_t *ids[2] = {&m->config.image_token, &m->config.audio_token};
  for (int i = 0; i < 2 && m->tokenizer; i++) {
    int32_t found = *ids[i] >= m->config.unpadded_vocab ? ij_find_special(m->tokenizer, names[i]) : -1;
    if (found >= 0 && found < m->config.unpadded_vocab) *ids[i] = found;
  }
}

/* Files, config, names, and then the plan: what is large comes after it. */
static ij_status open_weights(ij_model *m, const char *path, const ij_model_options *o, const ij_open_hooks *hooks, ij_err *err) {
  ij_status s = ij__report_progress(o, 0.0, err);
  if (s == IJ_OK) s = ij__ckpt_open(&m->ckpt, path, err);
  if (s == IJ_OK) s = ij__report_progress(o, 0.2, err);
  if (s == IJ_OK) s = ij__config_read(&m->config, m->ckpt, err);
  if (s == IJ_OK) s = ij__weights_bind(&m->weights, &m->config, m->ckpt, err);
  if (s == IJ_OK) s = ij__model_plan(m, o, err);
  if (s != IJ_OK) return s;
  if (hooks && hooks->expert_room) m->plan.expert_room = hooks->expert_room;
  s = ij__model_settle(m, o, hooks ? &hooks->reader : NULL, err);
  if (s == IJ_OK) s = ij__use_begin(m, err);
  return s == IJ_OK ? ij__report_progress(o, 0.95, err) : s;
}

static ij_status open_net(ij_model *m, const ij_model_options *o, ij_err *err) {
  static const ij_predict_mode modes[] = {[IJ_PREDICT_AUTO] = IJ_PREDICT_MODE_AUTO, [IJ_PREDICT_OFF] = IJ_PREDICT_MODE_OFF,
                                          [IJ_PREDICT_ON] = IJ_PREDICT_MODE_ON};
  size_t n = (size_t)m->plan.max_batch;
  m->batch = ij__alloc_zero(n, sizeof *m->batch);
  m->batch_media = ij__alloc_array(n, sizeof *m->batch_media);
  if (!m->batch || !m->batch_media) return ij__fail_nomem(err, m->path, n * sizeof *m->batch);
  ij_status s = ij__pool_open(&m->pool, o->n_threads ? o->n_threads : ij__cpu_count(), err);
  return s == IJ_OK ? ij__net_open(&m->net, &m->config, &m->weights, m->kernels, m->pool, m->plan.max_batch, modes[o->predict], err) : s;
}

static ij_status open_parts(ij_model *m, const char *path, const ij_model_options *o, const ij_open_hooks *hooks, ij_err *err) {
  m->path = ij__strdup(path);
  if (!m->path) return ij__fail_nomem(err, path, strlen(path));
  if (!ij__turn_open(&m->step_lock)) return ij__fail_nomem(err, "a mutex", sizeof m->step_lock);
  m->has_lock = true;
  ij_status s = open_weights(m, path, o, hooks, err);
  if (s == IJ_OK) s = open_net(m, o, err);
  if (s == IJ_OK) s = ij__model_open_towers(m, o->mmproj, err);
  if (s == IJ_OK && o->tokenizer) s = open_own_tokenizer(m, err);
  if (s == IJ_OK && o->tokenizer) s = read_chat_template(m, err);
  if (s == IJ_OK) find_placeholders(m);
  if (s == IJ_OK) s = ij__report_progress(o, 1.0, err);
  if (s == IJ_OK) fill_info(m);
  return s;
}

ij_status ij__model_open_with(ij_model **out, const char *path, const ij_model_options *options, const ij_open_hooks *hooks, ij_err *err) {
  if (!out) return ij__fail(err, IJ_E_ARGUMENT, "ij_model_open", "out is NULL");
  *out = NULL;
  if (!path) return ij__fail(err, IJ_E_ARGUMENT, "ij_model_open", "path is NULL");
  ij_model_options o = options ? *options : ij_model_options_default();
  ij_level level = IJ_LEVEL_COUNT;
  ij_status s = ij__check_model_options(&o, &level, err);
  if (s != IJ_OK) return s;
  ij_model *m = ij__alloc_zero(1, sizeof *m);
  if (!m) return ij__fail_nomem(err, path, sizeof *m);
  m->session_room = SIZE_MAX;
  m->kernels = ij__kernels_get(level);
  s = open_parts(m, path, &o, hooks, err);
  if (s != IJ_OK) {
    ij_model_close(&m);
    return s;
  }
  *out = m;
  return IJ_OK;
}

ij_status ij_model_open(ij_model **out, const char *path, const ij_model_options *options, ij_err *err) {
  return ij__model_open_with(out, path, options, NULL, err);
}

ij_status ij_add_memory_folder(const char *name, const ij_memory_file *files, int n_files, ij_err *err) {
  if (!files || n_files < 1) return ij__fail(err, IJ_E_ARGUMENT, "ij_add_memory_folder", "expected at least one file");
  ij_memfs_file *list = ij__alloc_array((size_t)n_files, sizeof *list); /* stays with the folder */
  if (!list) return ij__fail_nomem(err, "ij_add_memory_folder", (size_t)n_files * sizeof *list);
  for (int i = 0; i < n_files; i++) list[i] = (ij_memfs_file){files[i].name, files[i].bytes, files[i].n_bytes};
  ij_status s = ij__memfs_add(name, list, n_files, err);
  if (s != IJ_OK) ij__free(list);
  return s;
}

void ij_model_close(ij_model **model) {
  if (!model || !*model) return;
  ij_model *m = *model;
  assert(atomic_load(&m->n_sessions) == 0);
  ij_tokenizer_close(&m->tokenizer);
  ij__free(m->template_text);
  ij__measure_free(m);
  ij__model_close_towers(m);
  ij__use_close(m);
  ij__net_close(&m->net);
  ij__pool_close(&m->pool);
  ij__weights_free(&m->weights);
  ij__reader_close(&m->reader); /* after the home of the experts */
  ij__ckpt_close(&m->ckpt);
  if (m->has_lock) ij__turn_close(&m->step_lock);
  ij__free(m->batch);
  ij__free(m->batch_media);
  ij__free(m->path);
  ij__free(m);
  *model = NULL;
}

void ij_model_get_info(const ij_model *model, ij_model_info *out) { *out = model->info; }

ij_status ij_model_get_tensor(const ij_model *model, int index, ij_tensor_info *out) {
  if (!model || !out) return IJ_E_ARGUMENT;
  if (index < 0 || index >= model->info.n_tensors) return IJ_E_RANGE;
  const ij_tensor_view *t = ij__ckpt_tensor(model->ckpt, index);
  *out = (ij_tensor_info){.name = t->name, .dtype = ij__dtype_name(t->dtype), .file = t->file, .n_dims = t->n_dims, .n_bytes = t->n_bytes,
                          .used = ij__name_is_decoder(&model->weights.names, t->name)};
  if (model->towers && model->towers->ckpt == model->ckpt && ij__towers_own(model->ckpt, t->name)) out->used = true;
  static_assert(sizeof out->dims == sizeof t->dims, "both hold as many dimensions as a tensor may have");
  memcpy(out->dims, t->dims, sizeof out->dims);
  return IJ_OK;
}

ij_status ij_model_get_weights(const ij_model *model, int index, ij_weights_info *out) {
  if (!model || !out) return IJ_E_ARGUMENT;
  for (int c = 0, at = 0; c < IJ_CLASS_COUNT; c++) {
    for (int t = 0; t < IJ_DTYPE_COUNT; t++) {
      const ij_weight_stat *s = &model->weights.stats[c][t];
      if (s->n_matrices == 0 || at++ != index) continue;
      *out = (ij_weights_info){.weight_class = ij__weight_class_name((ij_weight_class)c), .format = ij__dtype_name((ij_dtype)t),
                               .group = s->group, .n_tensors = s->n_matrices, .n_values = s->n_values, .n_values_active = s->n_values_active,
                               .n_bytes = s->n_bytes, .active_bytes = s->active_bytes};
      return IJ_OK;
    }
  }
  return IJ_E_RANGE;
}

const ij_tokenizer *ij_model_tokenizer(const ij_model *model) { return model->tokenizer; }

const char *ij_model_chat_template(const ij_model *model, size_t *n_bytes) {
  if (n_bytes) *n_bytes = model->n_chat_template;
  return model->chat_template;
}

bool ij_model_is_eos(const ij_model *model, int32_t id) {
  for (int i = 0; i < model->config.n_eos; i++) {
    if (model->config.eos[i] == id) return true;
  }
  return false;
}

int32_t ij_model_placeholder(const ij_model *model, bool sound) {
  int32_t id = sound ? model->config.audio_token : model->config.image_token;
  return id >= 0 && id < model->config.unpadded_vocab ? id : -1;
}

bool ij__is_media_placeholder(const ij_model *model, int32_t id) {
  const int32_t first_special = 199998; /* of the family; a shortened vocabulary has its own, known from its tokenizer */
  if (id != model->config.image_token && id != model->config.audio_token) return false;
  return id >= first_special || (model->tokenizer && ij_is_special(model->tokenizer, id));
}
