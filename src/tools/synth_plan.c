/* synth_plan.c: the tensors of a synthetic checkpoint, in each layout.
 *
 * One walk over the network names every tensor by slot; a table gives the slot's name in each layout, and one function per layout says
 * how a slot is stored. Native order and numbering never change: benchmarks of different versions measure the same bytes.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "tools/synth_int.h"

static const ij_synth_preset presets[IJ_SYNTH_COUNT] = {
    [IJ_SYNTH_3B] = {.name = "3b", .hidden = 2048, .n_layer = 12, .n_dense = 2, .n_head = 16, .n_kv_head = 8, .n_kv_head_sliding = 8,
                     .head_dim = 128, .window = 512, .d_rel = 16, .rel_extent = 1024, .dense_width = 8192, .expert_width = 512,
                     .n_expert = 64, .n_expert_used = 6, .n_shared = 2, .vocab = 201024, .unpadded_vocab = 200058, .mup = 16,
                     .n_floor = 128000, .max_context = 1048576, .eos = 200006, .shard_bytes = (size_t)4500 * 1000 * 1000},
    /* Larger than the memory it is run in, to be streamed: 3584 experts of 3.5 MB in a form of 4.5 bits. */
    [IJ_SYNTH_24B] = {.name = "24b", .hidden = 2048, .n_layer = 30, .n_dense = 2, .n_head = 16, .n_kv_head = 8, .n_kv_head_sliding = 8,
                      .head_dim = 128, .window = 512, .d_rel = 16, .rel_extent = 1024, .dense_width = 8192, .expert_width = 1024,
                      .n_expert = 128, .n_expert_used = 6, .n_shared = 2, .vocab = 201024, .unpadded_vocab = 200058, .mup = 16,
                      .n_floor = 128000, .max_context = 1048576, .eos = 200006, .shard_bytes = (size_t)4500 * 1000 * 1000},
    [IJ_SYNTH_TRY] = {.name = "try", .hidden = 64, .n_layer = 12, .n_dense = 2, .n_head = 4, .n_kv_head = 1, .n_kv_head_sliding = 2,
                      .head_dim = 16, .window = 64, .d_rel = 8, .rel_extent = 128, .dense_width = 256, .expert_width = 64,
                      .n_expert = 16, .n_expert_used = 6, .n_shared = 2, .vocab = 201024, .unpadded_vocab = 200058, .mup = 4,
                      .n_floor = 128000, .max_context = 65536, .eos = 200006, .shard_bytes = 40 * 1000 * 1000},
    [IJ_SYNTH_TINY] = {.name = "tiny", .hidden = 64, .n_layer = 6, .n_dense = 1, .n_head = 4, .n_kv_head = 1, .n_kv_head_sliding = 2,
                       .head_dim = 16, .window = 16, .d_rel = 8, .rel_extent = 24, .dense_width = 128, .expert_width = 64,
                       .n_expert = 8, .n_expert_used = 3, .n_shared = 2, .vocab = 640, .unpadded_vocab = 600, .mup = 4,
                       .n_floor = 20, .max_context = 4096, .eos = 599, .shard_bytes = 600 * 1000},
    /* A small decoder of the width of a published one, with that one's towers. */
    [IJ_SYNTH_TOWERS] = {.name = "towers", .hidden = 4096, .n_layer = 2, .n_dense = 1, .n_head = 8, .n_kv_head = 1, .n_kv_head_sliding = 2,
                         .head_dim = 32, .window = 16, .d_rel = 8, .rel_extent = 24, .dense_width = 256, .expert_width = 256,
                         .n_expert = 4, .n_expert_used = 2, .n_shared = 1, .vocab = 640, .unpadded_vocab = 600, .mup = 4,
                         .n_floor = 20, .max_context = 4096, .eos = 599, .towers = true, .shard_bytes = 100 * 1000 * 1000},
};

const char *ij__synth_size_name(ij_synth_size size) { return presets[size].name; }
bool ij__synth_sliding(int layer) { return layer % 6 != 5; }

/* --------------------------------------------------------------------------------------------------------------- slots */

typedef enum slot_kind {
  KIND_MATRIX, /* what a quantizer quantizes */
  KIND_EXPERT, /* a matrix of the routed experts */
  KIND_FLOAT,  /* BF16; in GGUF F32 */
  KIND_CONV,   /* the same, [C, 1, 4] in the native layout, [C, 4, 1] in MLX, [C, 4] in GGUF */
  KIND_SINGLE  /* F32 everywhere */
} slot_kind;

/* X(id, kind, native name, MLX name without ".weight" where it differs, GGUF name). Layer tensors follow a prefix. A layout without the
 * slot has an empty name: gate and up are one matrix in the native layout and two in the others. */
#define SLOT_LIST(X)                                                                                                   \
  X(EMBED, MATRIX, "embed.weight", "embed", "token_embd.weight")                                                       \
  X(EMBED_NORM, FLOAT, "embed_norm.weight", "", "token_embd_norm.weight")                                              \
  X(NORM, FLOAT, "norm.weight", "", "output_norm.weight")                                                              \
  X(UNEMBED, MATRIX, "unembed.weight", "unembed", "output.weight")                                                     \
  X(ATTN_NORM, FLOAT, "attn_norm.weight", "", "attn_norm.weight")                                                      \
  X(WQ, MATRIX, "attn.wq_du.weight", "attn.wq_du", "attn_q.weight")                                                    \
  X(WK, MATRIX, "attn.wk_dv.weight", "attn.wk_dv", "attn_k.weight")                                                    \
  X(WV, MATRIX, "attn.wv_dv.weight", "attn.wv_dv", "attn_v.weight")                                                    \
  X(WR, MATRIX, "attn.wr_du.weight", "attn.wr_du", "attn_r.weight")                                                    \
  X(WO, MATRIX, "attn.wo_ud.weight", "attn.wo_ud", "attn_output.weight")                                               \
  X(Q_NORM, FLOAT, "attn.q_norm.weight", "", "attn_q_norm.weight")                                                     \
  X(K_NORM, FLOAT, "attn.k_norm.weight", "", "attn_k_norm.weight")                                                     \
  X(K_CONV, CONV, "attn.k_sconv.weight", "", "shortconv_k.weight")                                                     \
  X(V_CONV, CONV, "attn.v_sconv.weight", "", "shortconv_v.weight")                                                     \
  X(REL, FLOAT, "attn.rel_logits_proj.proj", "", "attn_rel_proj.weight")                                               \
  X(ATTN_CONV, CONV, "attn_sconv.weight", "", "shortconv_attn.weight")                                                 \
  X(MLP_CONV, CONV, "mlp_sconv.weight", "", "shortconv_mlp.weight")                                                    \
  X(MLP_NORM, FLOAT, "mlp_norm.weight", "", "ffn_norm.weight")                                                         \
  X(DENSE_W13, MATRIX, "mlp.w13_dn.weight", "", "")                                                                    \
  X(DENSE_GATE, MATRIX, "", "mlp.gate_proj", "ffn_gate.weight")                                                        \
  X(DENSE_UP, MATRIX, "", "mlp.up_proj", "ffn_up.weight")                                                              \
  X(DENSE_W2, MATRIX, "mlp.w2_md.weight", "mlp.down_proj", "ffn_down.weight")                                          \
  X(DENSE_SCALE, SINGLE, "mlp.global_scale", "", "ffn_gscale.weight")                                                  \
  X(ROUTER, FLOAT, "mlp.gate.weight", "", "ffn_gate_inp.weight")                                                       \
  X(ROUTER_BIAS, SINGLE, "mlp.gate.bias", "", "exp_probs_b.bias")                                                      \
  X(ROUTER_SCALE, SINGLE, "mlp.gate.global_scale", "", "ffn_gscale.weight")                                            \
  X(EXPERT_W13, EXPERT, "mlp.experts.w13_weight", "", "")                                                              \
  X(EXPERT_GATE, EXPERT, "", "mlp.experts.gate_proj", "ffn_gate_exps.weight")                                          \
  X(EXPERT_UP, EXPERT, "", "mlp.experts.up_proj", "ffn_up_exps.weight")                                                \
  X(EXPERT_W2, EXPERT, "mlp.experts.w2_weight", "mlp.experts.down_proj", "ffn_down_exps.weight")                       \
  X(SHARED_W13, MATRIX, "mlp.shared_experts.shared_w13_weight", "", "")                                                \
  X(SHARED_GATE, MATRIX, "", "mlp.shared_experts.gate_proj", "ffn_gate_shexp.weight")                                  \
  X(SHARED_UP, MATRIX, "", "mlp.shared_experts.up_proj", "ffn_up_shexp.weight")                                        \
  X(SHARED_W2, MATRIX, "mlp.shared_experts.shared_w2_weight", "mlp.shared_experts.down_proj", "ffn_down_shexp.weight")

typedef enum slot_id {
#define SLOT_ENUM(id, kind, native, mlx, gguf) SLOT_##id,
  SLOT_LIST(SLOT_ENUM)
#undef SLOT_ENUM
} slot_id;

static const struct {
  slot_kind kind;
  const char *native, *mlx, *gguf;
} slots[] = {
#define SLOT_ROW(id, kind, native, mlx, gguf) {KIND_##kind, native, mlx, gguf},
    SLOT_LIST(SLOT_ROW)
#undef SLOT_ROW
};

/* ------------------------------------------------------------------------------------------------------------- storage */

/* What the walk says about a tensor; layer -1: of the model as a whole. */
typedef struct slot_use {
  slot_id slot;
  int layer;
  float mean, deviation;
  int n_dims;
  int64_t dims[3];
} slot_use;

static ij_synth_tensor *add(ij_synth_plan *plan, const slot_use *u, ij_dtype dtype, const char *name, const char *suffix) {
  if (plan->n == plan->cap) {
    int cap = plan->cap ? plan->cap * 2 : 128;
    ij_synth_tensor *grown = ij__realloc(plan->tensors, (size_t)cap * sizeof *grown);
    if (!grown) {
      plan->failed = true;
      return NULL;
    }
    plan->tensors = grown;
    plan->cap = cap;
  }
  ij_synth_tensor *s = &plan->tensors[plan->n];
  *s = (ij_synth_tensor){.t = {.dtype = dtype, .n_dims = u->n_dims}, .mean = u->mean, .deviation = u->deviation, .stream = plan->n};
  memcpy(s->t.dims, u->dims, sizeof u->dims);
  const bool gguf = plan->model.layout == IJ_SYNTH_GGUF;
  if (u->layer < 0) {
    snprintf(s->name, sizeof s->name, "%s%s%s", gguf ? "" : "model.llm.", name, suffix);
  } else {
    snprintf(s->name, sizeof s->name, "%s%d.%s%s", gguf ? "blk." : "model.llm.layers.", u->layer, name, suffix);
  }
  plan->n++;
  return s;
}

static void add_native(ij_synth_plan *plan, const slot_use *u) {
  slot_use v = *u;
  const slot_kind kind = slots[u->slot].kind;
  if (kind == KIND_CONV) {
    const bool mlx = plan->model.layout == IJ_SYNTH_MLX;
    v.n_dims = 3;
    v.dims[1] = mlx ? 4 : 1;
    v.dims[2] = mlx ? 1 : 4;
  }
  add(plan, &v, kind == KIND_SINGLE ? IJ_DTYPE_F32 : IJ_DTYPE_BF16, slots[u->slot].native, "");
}

/* Codes, E4M3 scales around 128, and one F32 factor per expert; two records that no decoder needs. */
static void add_release_nvfp4(ij_synth_plan *plan, const slot_use *u) {
  const char *name = slots[u->slot].native;
  slot_use v = *u;
  v.dims[2] = u->dims[2] / 2;
  ij_synth_tensor *t = add(plan, &v, IJ_DTYPE_U8, name, "");
  if (t) t->law = IJ_LAW_BITS;
  v.dims[2] = u->dims[2] / 16;
  v.deviation = (float)(128 * ij__synth_split_rms(IJ_DTYPE_NVFP4_SPLIT));
  t = add(plan, &v, IJ_DTYPE_F8_E4M3, name, ".scale");
  if (t) t->law = IJ_LAW_SCALES, t->of = IJ_DTYPE_NVFP4_SPLIT;
  v.n_dims = 1;
  v.mean = u->deviation / v.deviation;
  v.deviation = v.mean / 8;
  add(plan, &v, IJ_DTYPE_F32, name, ".scale2");
  v.dims[0] = 1;
  v.mean = 8;
  v.deviation = 0;
  add(plan, &v, IJ_DTYPE_BF16, name, ".input_amax");
  v.dims[0] = 3;
  t = add(plan, &v, IJ_DTYPE_I64, name, ".original_shape");
  if (t) t->law = IJ_LAW_SHAPE, memcpy(t->shape, u->dims, sizeof t->shape);
}

static void add_mlx(ij_synth_plan *plan, const slot_use *u) {
  const ij_dtype dtype = plan->model.dtype;
  const bool affine = dtype >= IJ_DTYPE_AFFINE2 && dtype <= IJ_DTYPE_AFFINE8;
  const char *name = slots[u->slot].mlx;
  const int last = u->n_dims - 1;
  const int64_t cols = u->dims[last];
  slot_use v = *u;
  v.dims[last] = ij__dtype_row_bytes(dtype, cols) / 4;
  ij_synth_tensor *t = add(plan, &v, IJ_DTYPE_U32, name, ".weight");
  if (t) t->law = dtype == IJ_DTYPE_MXFP8_SPLIT ? IJ_LAW_E4M3_CODES : IJ_LAW_BITS;
  v.dims[last] = cols / plan->model.group;
  t = add(plan, &v, affine ? IJ_DTYPE_BF16 : IJ_DTYPE_U8, name, ".scales");
  if (t) t->law = IJ_LAW_SCALES, t->of = dtype;
  if (!affine) return;
  t = add(plan, &v, IJ_DTYPE_BF16, name, ".biases");
  if (t) t->law = IJ_LAW_BIASES, t->of = dtype, t->stream--;
}

static void add_gguf(ij_synth_plan *plan, const slot_use *u) {
  const slot_kind kind = slots[u->slot].kind;
  const bool matrix = kind == KIND_MATRIX || kind == KIND_EXPERT;
  slot_use v = *u;
  if (kind == KIND_CONV) v.dims[1] = 4, v.n_dims = 2;
  ij_synth_tensor *t = add(plan, &v, matrix ? plan->model.dtype : IJ_DTYPE_F32, slots[u->slot].gguf, "");
  if (t && ij__dtype_is_block(t->t.dtype)) t->law = IJ_LAW_BLOCKS;
}

static void add_slot(ij_synth_plan *plan, int layer, slot_id slot, float mean, float deviation, int n_dims, const int64_t dims[3]) {
  slot_use u = {.slot = slot, .layer = layer, .mean = mean, .deviation = deviation, .n_dims = n_dims};
  memcpy(u.dims, dims, sizeof u.dims);
  const slot_kind kind = slots[slot].kind;
  switch (plan->model.layout) {
    case IJ_SYNTH_NATIVE: add_native(plan, &u); break;
    case IJ_SYNTH_NVFP4:
      if (kind == KIND_EXPERT && layer > plan->p.n_dense) {
        add_release_nvfp4(plan, &u);
      } else {
        add_native(plan, &u);
      }
      break;
    case IJ_SYNTH_MLX:
      if (kind == KIND_MATRIX || kind == KIND_EXPERT) {
        add_mlx(plan, &u);
      } else {
        add_native(plan, &u);
      }
      break;
    case IJ_SYNTH_GGUF: add_gguf(plan, &u); break;
  }
}

/* ---------------------------------------------------------------------------------------------------------------- walk */

#define ROUTER_GAIN 2
#define DIMS(...) ((const int64_t[3]){__VA_ARGS__})

/* Deviation of a matrix whose product with a unit-RMS vector has RMS `gain`. */
static float matrix(double gain, int64_t cols) { return (float)(gain / sqrt((double)cols)); }

/* Gate and up: one matrix with rows in turns, or two. lead: the number of experts, 0 for a plain matrix. */
static void add_w13(ij_synth_plan *plan, int layer, slot_id fused, int64_t lead, int64_t width) {
  const int64_t h = plan->p.hidden;
  const bool two = plan->model.layout == IJ_SYNTH_MLX || plan->model.layout == IJ_SYNTH_GGUF;
  for (int i = 0; i < (two ? 2 : 1); i++) {
    slot_id slot = two ? fused + 1 + i : fused;
    int64_t rows = two ? width : 2 * width;
    if (lead == 0) {
      add_slot(plan, layer, slot, 0, matrix(1, h), 2, DIMS(rows, h));
    } else {
      add_slot(plan, layer, slot, 0, matrix(1, h), 3, DIMS(lead, rows, h));
    }
  }
}

static void walk_attention(ij_synth_plan *plan, int layer) {
  const ij_synth_preset *p = &plan->p;
  const bool sliding = ij__synth_sliding(layer);
  const int64_t h = p->hidden, q = (int64_t)p->n_head * p->head_dim;
  const int64_t kv = (int64_t)(sliding ? p->n_kv_head_sliding : p->n_kv_head) * p->head_dim;
  add_slot(plan, layer, SLOT_ATTN_NORM, 1, 0.15f, 1, DIMS(h));
  add_slot(plan, layer, SLOT_WQ, 0, matrix(1, h), 2, DIMS(q, h));
  add_slot(plan, layer, SLOT_WK, 0, matrix(1, h), 2, DIMS(kv, h));
  add_slot(plan, layer, SLOT_WV, 0, matrix(1, h), 2, DIMS(kv, h));
  add_slot(plan, layer, SLOT_WR, 0, matrix(1, h), 2, DIMS((int64_t)p->n_head * p->d_rel, h));
  add_slot(plan, layer, SLOT_WO, 0, matrix(1, q), 2, DIMS(h, q));
  /* q and k have unit RMS per head, and scores are divided by head_dim: gains above one give a softmax with peaks. */
  add_slot(plan, layer, SLOT_Q_NORM, 2.5f, 0.3f, 1, DIMS(p->head_dim));
  add_slot(plan, layer, SLOT_K_NORM, 2.5f, 0.3f, 1, DIMS(p->head_dim));
  add_slot(plan, layer, SLOT_K_CONV, 0, 0.35f, 1, DIMS(kv));
  add_slot(plan, layer, SLOT_V_CONV, 0, 0.35f, 1, DIMS(kv));
  add_slot(plan, layer, SLOT_REL, 0, 0.5f, 2, DIMS(p->d_rel, sliding ? p->window : p->rel_extent));
  add_slot(plan, layer, SLOT_ATTN_CONV, 0, 0.35f, 1, DIMS(h));
  add_slot(plan, layer, SLOT_MLP_CONV, 0, 0.35f, 1, DIMS(h));
  add_slot(plan, layer, SLOT_MLP_NORM, 1, 0.15f, 1, DIMS(h));
}

/* The logits have the deviation that walk_mlp gives the router. */
static void make_popular(ij_synth_tensor *bias, int zipf, int n_used) {
  bias->law = IJ_LAW_POPULARITY;
  bias->mean = (float)zipf / 2;
  bias->deviation = ROUTER_GAIN;
  bias->shape[0] = n_used;
}

static void walk_mlp(ij_synth_plan *plan, int layer) {
  const ij_synth_preset *p = &plan->p;
  const int64_t h = p->hidden, d = p->dense_width, i = p->expert_width, e = p->n_expert, shared = p->n_shared;
  if (layer < p->n_dense) {
    add_w13(plan, layer, SLOT_DENSE_W13, 0, d);
    add_slot(plan, layer, SLOT_DENSE_W2, 0, matrix(1, d), 2, DIMS(h, d));
    add_slot(plan, layer, SLOT_DENSE_SCALE, 1, 0.2f, 1, DIMS(1));
    return;
  }
  add_slot(plan, layer, SLOT_ROUTER, 0, matrix(ROUTER_GAIN, h), 2, DIMS(e + shared, h));
  add_slot(plan, layer, SLOT_ROUTER_BIAS, 0, 0.2f, 1, DIMS(e));
  if (plan->model.zipf && !plan->failed) make_popular(&plan->tensors[plan->n - 1], plan->model.zipf, p->n_expert_used);
  add_slot(plan, layer, SLOT_ROUTER_SCALE, 1, 0.2f, 1, DIMS(1));
  add_w13(plan, layer, SLOT_EXPERT_W13, e, i);
  add_slot(plan, layer, SLOT_EXPERT_W2, 0, matrix(1, i), 3, DIMS(e, h, i));
  add_w13(plan, layer, SLOT_SHARED_W13, shared, i);
  add_slot(plan, layer, SLOT_SHARED_W2, 0, matrix(1, i), 3, DIMS(shared, h, i));
}

/* The towers are stored alike in all layouts. */
static void add_tower(ij_synth_plan *plan, const char *name, float mean, float deviation, int n_dims, const int64_t dims[3]) {
  slot_use u = {.layer = -1, .mean = mean, .deviation = deviation, .n_dims = n_dims};
  memcpy(u.dims, dims, sizeof u.dims);
  ij_synth_tensor *s = add(plan, &u, IJ_DTYPE_BF16, "", "");
  if (s) snprintf(s->name, sizeof s->name, "model.%s", name);
}

static void walk_towers(ij_synth_plan *plan) {
  static const int64_t layers[4][2] = {{128, 75}, {320, 512}, {4800, 5120}, {0, 9600}}; /* out, in; 0: as wide as the decoder */
  const int64_t h = plan->p.hidden;
  for (int i = 0; i < 4; i++) {
    char name[64];
    snprintf(name, sizeof name, "visual.layers.linear_%d.weight", i);
    add_tower(plan, name, 0, matrix(1, layers[i][1]), 2, DIMS(layers[i][0] ? layers[i][0] : h, layers[i][1]));
    snprintf(name, sizeof name, "visual.layers.norm_%d.weight", i);
    if (i < 3) add_tower(plan, name, 1, 0.15f, 1, DIMS(layers[i][0]));
  }
  add_tower(plan, "visual.final_norm.weight", 1, 0.15f, 1, DIMS(h));
  add_tower(plan, "audio.encoder.weight", 0, 0.3f, 2, DIMS(1280, h));
  add_tower(plan, "audio.final_norm.weight", 1, 0.15f, 1, DIMS(h));
}

/* A GGUF is one file. */
static void cut_shards(ij_synth_plan *plan) {
  plan->shard_begin = ij__alloc_array((size_t)plan->n + 1, sizeof *plan->shard_begin);
  if (!plan->shard_begin) {
    plan->failed = true;
    return;
  }
  size_t filled = 0;
  for (int i = 0; i < plan->n; i++) {
    size_t n = ij__st_tensor_bytes(&plan->tensors[i].t);
    if (i == 0 || (filled + n > plan->p.shard_bytes && plan->model.layout != IJ_SYNTH_GGUF)) {
      plan->shard_begin[plan->n_shards++] = i;
      filled = 0;
    }
    filled += n;
  }
  plan->shard_begin[plan->n_shards] = plan->n;
}

/* Four times the width everywhere: rows then hold whole blocks of 256. */
static void widen(ij_synth_preset *p) {
  p->hidden *= 4;
  p->head_dim *= 4;
  p->dense_width *= 4;
  p->expert_width *= 4;
}

static bool fits(const ij_synth_preset *p, const ij_synth_model *m) {
  const int64_t unit = IJ_MAX(ij__dtype_block_len(m->dtype), (int64_t)IJ_MAX(m->group, 1));
  return p->hidden % unit == 0 && p->n_head * p->head_dim % unit == 0 && p->dense_width % unit == 0 && p->expert_width % unit == 0;
}

void ij__synth_plan_free(ij_synth_plan *plan) {
  ij__free(plan->tensors);
  ij__free(plan->shard_begin);
}

bool ij__synth_plan_make(ij_synth_plan *plan, const ij_synth_model *model) {
  *plan = (ij_synth_plan){.model = *model, .p = presets[model->size]};
  const ij_synth_preset *p = &plan->p;
  if (!fits(p, model)) widen(&plan->p);
  const int64_t h = p->hidden;
  add_slot(plan, -1, SLOT_EMBED, 0, 1, 2, DIMS(p->vocab, h));
  add_slot(plan, -1, SLOT_EMBED_NORM, 1, 0.15f, 1, DIMS(h));
  for (int layer = 0; layer < p->n_layer; layer++) {
    walk_attention(plan, layer);
    walk_mlp(plan, layer);
  }
  add_slot(plan, -1, SLOT_NORM, 1, 0.15f, 1, DIMS(h));
  add_slot(plan, -1, SLOT_UNEMBED, 0, matrix(3.0 * p->mup, h), 2, DIMS(p->vocab, h));
  if (p->towers) walk_towers(plan);
  for (int i = 0; i < plan->n; i++) plan->n_bytes += ij__st_tensor_bytes(&plan->tensors[i].t);
  if (!plan->failed) cut_shards(plan);
  if (plan->failed) ij__synth_plan_free(plan);
  return !plan->failed;
}
