/* tool_synth.c: writes synthetic checkpoints: native tensor names, native config spelling, BF16, shards with an index.
 *
 * Values come from a counter-based generator through a table of 4096 nearly normal deviates, already rounded to BF16 per tensor:
 * one hash gives four values, so that writing is bound by the disk. Only integer arithmetic, exact float operations and square
 * roots are used: every machine writes the same bytes.
 */
#include "tools/tool_synth.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/os.h"
#include "core/status.h"
#include "core/str.h"
#include "tools/st_writer.h"

/* -------------------------------------------------------------------------------------------------- what is written */

typedef struct synth_preset {
  int hidden, n_layer, n_dense, n_head, n_kv_head, n_kv_head_sliding, head_dim, window, d_rel, rel_extent;
  int dense_width, expert_width, n_expert, n_expert_used, n_shared, vocab, unpadded_vocab, mup;
  int n_floor, max_context, eos;
  size_t shard_bytes; /* a shard ends before it would exceed this */
} synth_preset;

static const synth_preset presets[IJ_SYNTH_COUNT] = {
    [IJ_SYNTH_3B] = {.hidden = 2048, .n_layer = 12, .n_dense = 2, .n_head = 16, .n_kv_head = 8, .n_kv_head_sliding = 8, .head_dim = 128,
                     .window = 512, .d_rel = 16, .rel_extent = 1024, .dense_width = 8192, .expert_width = 512, .n_expert = 64,
                     .n_expert_used = 6, .n_shared = 2, .vocab = 201024, .unpadded_vocab = 200058, .mup = 16, .n_floor = 128000,
                     .max_context = 1048576, .eos = 200006, .shard_bytes = (size_t)4500 * 1000 * 1000},
    [IJ_SYNTH_TRY] = {.hidden = 64, .n_layer = 12, .n_dense = 2, .n_head = 4, .n_kv_head = 1, .n_kv_head_sliding = 2, .head_dim = 16,
                      .window = 64, .d_rel = 8, .rel_extent = 128, .dense_width = 256, .expert_width = 64, .n_expert = 16,
                      .n_expert_used = 6, .n_shared = 2, .vocab = 201024, .unpadded_vocab = 200058, .mup = 4, .n_floor = 128000,
                      .max_context = 65536, .eos = 200006, .shard_bytes = 40 * 1000 * 1000},
    [IJ_SYNTH_TINY] = {.hidden = 64, .n_layer = 6, .n_dense = 1, .n_head = 4, .n_kv_head = 1, .n_kv_head_sliding = 2, .head_dim = 16,
                       .window = 16, .d_rel = 8, .rel_extent = 24, .dense_width = 128, .expert_width = 64, .n_expert = 8,
                       .n_expert_used = 3, .n_shared = 2, .vocab = 640, .unpadded_vocab = 600, .mup = 4, .n_floor = 20,
                       .max_context = 4096, .eos = 599, .shard_bytes = 600 * 1000},
};

static bool is_sliding(int layer) { return layer % 6 != 5; }

/* A tensor and the law of its values: mean + deviation * z. */
typedef struct synth_tensor {
  ij_st_tensor t;
  char name[96];
  float mean, deviation;
} synth_tensor;

typedef struct synth_plan {
  const synth_preset *p;
  synth_tensor *tensors;
  int n, cap;
  int *shard_begin; /* [n_shards + 1]: first tensor of each shard */
  int n_shards;
  size_t n_bytes;
  bool failed;      /* no memory */
} synth_plan;

static void add_tensor(synth_plan *plan, ij_dtype dtype, float mean, float deviation, int n_dims, const int64_t dims[3], const char *name) {
  if (plan->n == plan->cap) {
    int cap = plan->cap ? plan->cap * 2 : 128;
    synth_tensor *grown = ij__realloc(plan->tensors, (size_t)cap * sizeof *grown);
    if (!grown) {
      plan->failed = true;
      return;
    }
    plan->tensors = grown;
    plan->cap = cap;
  }
  synth_tensor *s = &plan->tensors[plan->n++];
  *s = (synth_tensor){.t = {.dtype = dtype, .n_dims = n_dims}, .mean = mean, .deviation = deviation};
  memcpy(s->t.dims, dims, (size_t)n_dims * sizeof dims[0]);
  snprintf(s->name, sizeof s->name, "%s", name);
  plan->n_bytes += ij__st_tensor_bytes(&s->t);
}

static const char *layer_name(char *text, size_t size, int layer, const char *rest) {
  snprintf(text, size, "model.llm.layers.%d.%s", layer, rest);
  return text;
}

#define NAME(rest) layer_name(name, sizeof name, layer, rest)
#define DIMS(...) ((const int64_t[3]){__VA_ARGS__})

/* Deviation of a matrix whose product with a unit-RMS vector has RMS `gain`. */
static float matrix(double gain, int64_t cols) { return (float)(gain / sqrt((double)cols)); }

static void plan_attention(synth_plan *plan, int layer) {
  const synth_preset *p = plan->p;
  char name[96];
  const int64_t h = p->hidden, q = (int64_t)p->n_head * p->head_dim;
  const int64_t kv = (int64_t)(is_sliding(layer) ? p->n_kv_head_sliding : p->n_kv_head) * p->head_dim;
  const ij_dtype b = IJ_DTYPE_BF16;
  add_tensor(plan, b, 1, 0.15f, 1, DIMS(h), NAME("attn_norm.weight"));
  add_tensor(plan, b, 0, matrix(1, h), 2, DIMS(q, h), NAME("attn.wq_du.weight"));
  add_tensor(plan, b, 0, matrix(1, h), 2, DIMS(kv, h), NAME("attn.wk_dv.weight"));
  add_tensor(plan, b, 0, matrix(1, h), 2, DIMS(kv, h), NAME("attn.wv_dv.weight"));
  add_tensor(plan, b, 0, matrix(1, h), 2, DIMS((int64_t)p->n_head * p->d_rel, h), NAME("attn.wr_du.weight"));
  add_tensor(plan, b, 0, matrix(1, q), 2, DIMS(h, q), NAME("attn.wo_ud.weight"));
  /* q and k have unit RMS per head, and scores are divided by head_dim: gains above one give a softmax with peaks. */
  add_tensor(plan, b, 2.5f, 0.3f, 1, DIMS(p->head_dim), NAME("attn.q_norm.weight"));
  add_tensor(plan, b, 2.5f, 0.3f, 1, DIMS(p->head_dim), NAME("attn.k_norm.weight"));
  add_tensor(plan, b, 0, 0.35f, 3, DIMS(kv, 1, 4), NAME("attn.k_sconv.weight"));
  add_tensor(plan, b, 0, 0.35f, 3, DIMS(kv, 1, 4), NAME("attn.v_sconv.weight"));
  add_tensor(plan, b, 0, 0.5f, 2, DIMS(p->d_rel, is_sliding(layer) ? p->window : p->rel_extent), NAME("attn.rel_logits_proj.proj"));
  add_tensor(plan, b, 0, 0.35f, 3, DIMS(h, 1, 4), NAME("attn_sconv.weight"));
  add_tensor(plan, b, 0, 0.35f, 3, DIMS(h, 1, 4), NAME("mlp_sconv.weight"));
  add_tensor(plan, b, 1, 0.15f, 1, DIMS(h), NAME("mlp_norm.weight"));
}

static void plan_mlp(synth_plan *plan, int layer) {
  const synth_preset *p = plan->p;
  char name[96];
  const int64_t h = p->hidden, d = p->dense_width, i = p->expert_width, e = p->n_expert, shared = p->n_shared;
  const ij_dtype b = IJ_DTYPE_BF16, f = IJ_DTYPE_F32;
  if (layer < p->n_dense) {
    add_tensor(plan, b, 0, matrix(1, h), 2, DIMS(2 * d, h), NAME("mlp.w13_dn.weight"));
    add_tensor(plan, b, 0, matrix(1, d), 2, DIMS(h, d), NAME("mlp.w2_md.weight"));
    add_tensor(plan, f, 1, 0.2f, 1, DIMS(1), NAME("mlp.global_scale"));
    return;
  }
  add_tensor(plan, b, 0, matrix(2, h), 2, DIMS(e + shared, h), NAME("mlp.gate.weight"));
  add_tensor(plan, f, 0, 0.2f, 1, DIMS(e), NAME("mlp.gate.bias"));
  add_tensor(plan, f, 1, 0.2f, 1, DIMS(1), NAME("mlp.gate.global_scale"));
  add_tensor(plan, b, 0, matrix(1, h), 3, DIMS(e, 2 * i, h), NAME("mlp.experts.w13_weight"));
  add_tensor(plan, b, 0, matrix(1, i), 3, DIMS(e, h, i), NAME("mlp.experts.w2_weight"));
  add_tensor(plan, b, 0, matrix(1, h), 3, DIMS(shared, 2 * i, h), NAME("mlp.shared_experts.shared_w13_weight"));
  add_tensor(plan, b, 0, matrix(1, i), 3, DIMS(shared, h, i), NAME("mlp.shared_experts.shared_w2_weight"));
}

static void cut_shards(synth_plan *plan) {
  plan->shard_begin = ij__alloc_array((size_t)plan->n + 1, sizeof *plan->shard_begin);
  if (!plan->shard_begin) {
    plan->failed = true;
    return;
  }
  size_t filled = 0;
  for (int i = 0; i < plan->n; i++) {
    size_t n = ij__st_tensor_bytes(&plan->tensors[i].t);
    if (i == 0 || filled + n > plan->p->shard_bytes) {
      plan->shard_begin[plan->n_shards++] = i;
      filled = 0;
    }
    filled += n;
  }
  plan->shard_begin[plan->n_shards] = plan->n;
}

static void free_plan(synth_plan *plan) {
  ij__free(plan->tensors);
  ij__free(plan->shard_begin);
}

static bool make_plan(synth_plan *plan, ij_synth_size size) {
  const synth_preset *p = &presets[size];
  *plan = (synth_plan){.p = p};
  const int64_t h = p->hidden;
  add_tensor(plan, IJ_DTYPE_BF16, 0, 1, 2, DIMS(p->vocab, h), "model.llm.embed.weight");
  add_tensor(plan, IJ_DTYPE_BF16, 1, 0.15f, 1, DIMS(h), "model.llm.embed_norm.weight");
  for (int layer = 0; layer < p->n_layer; layer++) {
    plan_attention(plan, layer);
    plan_mlp(plan, layer);
  }
  add_tensor(plan, IJ_DTYPE_BF16, 1, 0.15f, 1, DIMS(h), "model.llm.norm.weight");
  add_tensor(plan, IJ_DTYPE_BF16, 0, matrix(3.0 * p->mup, h), 2, DIMS(p->vocab, h), "model.llm.unembed.weight");
  if (!plan->failed) cut_shards(plan);
  if (plan->failed) free_plan(plan);
  return !plan->failed;
}

size_t ij__synth_bytes(ij_synth_size size) {
  synth_plan plan;
  if (!make_plan(&plan, size)) return 0;
  size_t n = plan.n_bytes + (size_t)plan.n * 256;
  free_plan(&plan);
  return n;
}

/* ------------------------------------------------------------------------------------------------------------ values */

enum { TABLE = 4096, BLOCK_VALUES = 1 << 19 };

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Sums of four uniform deviates, brought to mean 0 and variance 1 exactly: close to normal, and made of integers. */
static void make_deviates(double z[TABLE]) {
  double sum = 0, squares = 0;
  for (int i = 0; i < TABLE; i++) {
    uint64_t w = mix(0x696e6b6a6574u + (uint64_t)i * 0x9e3779b97f4a7c15u);
    z[i] = (double)((w & 0xffff) + (w >> 16 & 0xffff) + (w >> 32 & 0xffff) + (w >> 48));
    sum += z[i];
  }
  for (int i = 0; i < TABLE; i++) {
    z[i] -= sum / TABLE;
    squares += z[i] * z[i];
  }
  double scale = 1 / sqrt(squares / TABLE);
  for (int i = 0; i < TABLE; i++) z[i] *= scale;
}

static uint16_t to_bf16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* nearest, ties to even; no value here is near infinity */
}

typedef struct synth_tables {
  double z[TABLE];
  uint16_t bf16[TABLE];
  float f32[TABLE];
  uint16_t block[BLOCK_VALUES];
} synth_tables;

/* The values [at, at + n) of tensor number `index`: value i is a function of (index, i) alone. n <= BLOCK_VALUES / 2 for F32. */
static void fill_block(synth_tables *s, int index, bool bf16, int64_t at, int64_t n) {
  uint64_t key = mix((uint64_t)index + 1) + (uint64_t)(at / 4) * 0x9e3779b97f4a7c15u;
  float *wide = (float *)(void *)s->block;
  for (int64_t i = 0; i < n; i += 4, key += 0x9e3779b97f4a7c15u) {
    uint64_t w = mix(key);
    for (int64_t k = 0; k < 4 && i + k < n; k++, w >>= 16) {
      if (bf16) {
        s->block[i + k] = s->bf16[w & (TABLE - 1)];
      } else {
        wide[i + k] = s->f32[w & (TABLE - 1)];
      }
    }
  }
}

typedef struct synth_run {
  const synth_plan *plan;
  synth_tables *tables;
  bool (*progress)(void *user, double fraction);
  void *user;
  size_t n_done;
} synth_run;

static ij_status put_tensor(synth_run *run, ij_st_writer *w, int index, ij_err *err) {
  const synth_tensor *t = &run->plan->tensors[index];
  const bool bf16 = t->t.dtype == IJ_DTYPE_BF16;
  const size_t value_bytes = bf16 ? 2 : 4;
  for (int i = 0; i < TABLE; i++) {
    run->tables->f32[i] = (float)(t->mean + t->deviation * run->tables->z[i]);
    run->tables->bf16[i] = to_bf16(run->tables->f32[i]);
  }
  int64_t n_values = (int64_t)(ij__st_tensor_bytes(&t->t) / value_bytes);
  int64_t step = bf16 ? BLOCK_VALUES : BLOCK_VALUES / 2;
  for (int64_t at = 0; at < n_values; at += step) {
    int64_t n = IJ_MIN(step, n_values - at);
    if (run->progress && !run->progress(run->user, (double)run->n_done / (double)run->plan->n_bytes)) {
      return ij__fail(err, IJ_E_CANCELLED, NULL, "stopped while writing the synthetic checkpoint");
    }
    fill_block(run->tables, index, bf16, at, n);
    ij_status s = ij__st_writer_put(w, run->tables->block, (size_t)n * value_bytes, err);
    if (s != IJ_OK) return s;
    run->n_done += (size_t)n * value_bytes;
  }
  return IJ_OK;
}

/* ------------------------------------------------------------------------------------------------------------- files */

static void shard_name(char text[64], int i, int n) { snprintf(text, 64, "model-%05d-of-%05d.safetensors", i + 1, n); }

static ij_status put_shard(synth_run *run, const char *folder, int shard, ij_err *err) {
  const synth_plan *plan = run->plan;
  int begin = plan->shard_begin[shard], n = plan->shard_begin[shard + 1] - begin;
  char name[64];
  shard_name(name, shard, plan->n_shards);
  char *path = ij__os_join(folder, name);
  ij_st_tensor *declared = ij__alloc_array((size_t)n, sizeof *declared);
  ij_st_writer *w = NULL;
  ij_status s;
  if (!path || !declared) {
    s = ij__fail_nomem(err, "the list of tensors", (size_t)n * sizeof *declared);
  } else {
    for (int i = 0; i < n; i++) {
      declared[i] = plan->tensors[begin + i].t;
      declared[i].name = plan->tensors[begin + i].name;
    }
    s = ij__st_writer_open(&w, path, declared, n, err);
  }
  for (int i = 0; i < n && s == IJ_OK; i++) s = put_tensor(run, w, begin + i, err);
  if (s == IJ_OK) s = ij__st_writer_finish(&w, err);
  ij__st_writer_abort(&w);
  ij__free(declared);
  ij__free(path);
  return s;
}

static void build_index(ij_buf *b, const synth_plan *plan) {
  char name[64];
  ij__buf_printf(b, "{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {", plan->n_bytes);
  for (int shard = 0; shard < plan->n_shards; shard++) {
    shard_name(name, shard, plan->n_shards);
    for (int i = plan->shard_begin[shard]; i < plan->shard_begin[shard + 1]; i++) {
      ij__buf_printf(b, "%s\n \"%s\": \"%s\"", i ? "," : "", plan->tensors[i].name, name);
    }
  }
  ij__buf_puts(b, "\n}}\n");
}

static void build_config(ij_buf *b, const synth_preset *p) {
  ij__buf_printf(b,
                 "{\n \"architectures\": [\"InklingForConditionalGeneration\"],\n \"model_type\": \"inkling_mm_model\",\n"
                 " \"eos_token_id\": %d,\n \"vocab_size\": %d,\n \"torch_dtype\": \"bfloat16\",\n \"text_config\": {\n"
                 "  \"model_type\": \"inkling_text\",\n  \"hidden_size\": %d,\n  \"num_hidden_layers\": %d,\n  \"vocab_size\": %d,\n"
                 "  \"unpadded_vocab_size\": %d,\n  \"model_max_length\": %d,\n  \"rms_norm_eps\": 1e-06,\n",
                 p->eos, p->vocab, p->hidden, p->n_layer, p->vocab, p->unpadded_vocab, p->max_context);
  ij__buf_printf(b,
                 "  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n  \"head_dim\": %d,\n  \"swa_num_attention_heads\": %d,\n"
                 "  \"swa_num_key_value_heads\": %d,\n  \"swa_head_dim\": %d,\n  \"sliding_window_size\": %d,\n  \"d_rel\": %d,\n"
                 "  \"rel_extent\": %d,\n  \"log_scaling_n_floor\": %d,\n  \"log_scaling_alpha\": 0.1,\n",
                 p->n_head, p->n_kv_head, p->head_dim, p->n_head, p->n_kv_head_sliding, p->head_dim, p->window, p->d_rel, p->rel_extent,
                 p->n_floor);
  ij__buf_printf(b,
                 "  \"intermediate_size\": %d,\n  \"dense_intermediate_size\": %d,\n  \"dense_mlp_idx\": %d,\n  \"n_routed_experts\": %d,\n"
                 "  \"num_experts_per_tok\": %d,\n  \"n_shared_experts\": %d,\n  \"route_scale\": 8.0,\n"
                 "  \"logits_mup_width_multiplier\": %d.0,\n  \"sconv_kernel_size\": 4,\n",
                 p->expert_width, p->dense_width, p->n_dense, p->n_expert, p->n_expert_used, p->n_shared, p->mup);
  ij__buf_puts(b,
               "  \"gate_activation\": \"sigmoid\",\n  \"use_embed_norm\": true,\n  \"use_sconv\": true,\n  \"use_gate_bias\": true,\n"
               "  \"use_global_scale\": true,\n  \"norm_after_topk\": true,\n  \"shared_expert_sink\": true,\n"
               "  \"tie_word_embeddings\": false,\n  \"local_layer_ids\": [");
  bool first = true;
  for (int i = 0; i < p->n_layer; i++) {
    if (!is_sliding(i)) continue;
    ij__buf_printf(b, "%s%d", first ? "" : ", ", i);
    first = false;
  }
  ij__buf_puts(b, "]\n }\n}\n");
}

typedef enum synth_found { FOUND_NOTHING, FOUND_SAME, FOUND_OTHER } synth_found;

/* config.json is written last, so one equal to ours stands for the whole checkpoint; the sizes of the shards are looked at too. */
static synth_found look_at(const synth_plan *plan, const char *folder, const ij_buf *config) {
  char *path = ij__os_join(folder, "config.json"), *text = NULL;
  size_t n = 0;
  synth_found found = FOUND_NOTHING;
  if (path && ij__os_is_file(path)) {
    found = FOUND_OTHER;
    if (ij__os_read_file(path, 1 << 20, &text, &n, NULL) == IJ_OK && n == config->len && memcmp(text, config->data, n) == 0) found = FOUND_SAME;
  }
  ij__free(text);
  ij__free(path);
  for (int shard = 0; shard < plan->n_shards && found == FOUND_SAME; shard++) {
    char name[64];
    size_t n_values = 0;
    shard_name(name, shard, plan->n_shards);
    for (int i = plan->shard_begin[shard]; i < plan->shard_begin[shard + 1]; i++) n_values += ij__st_tensor_bytes(&plan->tensors[i].t);
    path = ij__os_join(folder, name);
    struct stat st;
    if (!path || stat(path, &st) != 0 || (uint64_t)st.st_size < n_values) found = FOUND_NOTHING;
    ij__free(path);
  }
  return found;
}

static ij_status prepare_folder(const synth_plan *plan, const char *folder, ij_err *err) {
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) return ij__fail_errno(err, errno, folder, "cannot create the folder");
  if (!ij__os_is_dir(folder)) return ij__fail(err, IJ_E_IO, folder, "expected a folder, found something else");
  struct statvfs fs;
  if (statvfs(folder, &fs) != 0) return IJ_OK; /* unknown: writing will tell */
  double room = (double)fs.f_bavail * (double)fs.f_frsize, need = (double)plan->n_bytes + 64e6;
  if (room >= need) return IJ_OK;
  return ij__fail(err, IJ_E_IO, folder, "the synthetic checkpoint needs %.1f GB of disk, %.1f GB are free: name a folder on a larger disk",
                  need / 1e9, room / 1e9);
}

static ij_status put_text(const char *folder, const char *name, const ij_buf *text, ij_err *err) {
  char *path = ij__os_join(folder, name);
  if (!path || text->failed) {
    ij__free(path);
    return ij__fail_nomem(err, name, text->len);
  }
  ij_status s = ij__st_write_text(path, text->data, text->len, err);
  ij__free(path);
  return s;
}

static ij_status put_all(synth_run *run, const char *folder, const ij_buf *config, ij_err *err) {
  ij_status s = prepare_folder(run->plan, folder, err);
  run->tables = ij__alloc(sizeof *run->tables);
  if (s == IJ_OK && !run->tables) s = ij__fail_nomem(err, "tables of values", sizeof *run->tables);
  if (s == IJ_OK) make_deviates(run->tables->z);
  for (int shard = 0; shard < run->plan->n_shards && s == IJ_OK; shard++) s = put_shard(run, folder, shard, err);
  if (s == IJ_OK) {
    ij_buf index = {0};
    build_index(&index, run->plan);
    s = put_text(folder, "model.safetensors.index.json", &index, err);
    ij__buf_free(&index);
  }
  if (s == IJ_OK) s = put_text(folder, "config.json", config, err);
  ij__free(run->tables);
  return s;
}

ij_status ij__synth_write(ij_synth_size size, const char *folder, bool (*progress)(void *user, double fraction), void *user, ij_err *err) {
  synth_plan plan;
  if (!make_plan(&plan, size)) return ij__fail_nomem(err, "the list of tensors", sizeof plan);
  ij_buf config = {0};
  build_config(&config, plan.p);
  ij_status s = IJ_OK;
  if (config.failed) {
    s = ij__fail_nomem(err, "a configuration", config.len);
  } else {
    synth_found found = look_at(&plan, folder, &config);
    synth_run run = {.plan = &plan, .progress = progress, .user = user};
    if (found == FOUND_OTHER) {
      s = ij__fail(err, IJ_E_ARGUMENT, folder, "the folder holds another checkpoint: name a new or empty folder");
    } else if (found == FOUND_NOTHING) {
      s = put_all(&run, folder, &config, err);
    }
  }
  ij__buf_free(&config);
  free_plan(&plan);
  return s;
}

/* ----------------------------------------------------------------------------------------------------------- cleaning */

void ij__synth_free_files(char **files, int n) {
  for (int i = 0; files && i < n; i++) ij__free(files[i]);
  ij__free(files);
}

char **ij__synth_files(ij_synth_size size, const char *folder, int *n) {
  synth_plan plan;
  if (!make_plan(&plan, size)) return NULL;
  int n_shards = plan.n_shards;
  free_plan(&plan);
  char **files = ij__alloc_zero((size_t)(n_shards + 2) * 2, sizeof *files);
  bool ok = files != NULL;
  *n = 0;
  for (int i = 0; i < n_shards + 2 && ok; i++) {
    char shard[64];
    shard_name(shard, i, n_shards);
    char *path = ij__os_join(folder, i < n_shards ? shard : i == n_shards ? "model.safetensors.index.json" : "config.json");
    char *part = path ? ij__st_part_path(path) : NULL;
    files[(*n)++] = path;
    files[(*n)++] = part;
    ok = path && part;
  }
  if (ok) return files;
  ij__synth_free_files(files, *n);
  return NULL;
}
