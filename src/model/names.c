/* names.c: see names.h. The tables of names, and the walk between a name and its row. A layout is found by the prefixes that only it
 * uses; names are matched by pattern, so no table is ever expanded and any number of layers costs nothing. */
#include "model/names.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"

/* ------------------------------------------------------------------------------------------------------------ slots */

static const ij_tensor_spec specs[IJ_T_COUNT] = {
#define SPEC_ROW(id, place, kind, d0, d1, d2) [IJ_T_##id] = {IJ_IN_##place, IJ_TENSOR_##kind, {IJ_DIM_##d0, IJ_DIM_##d1, IJ_DIM_##d2}},
    IJ_TENSOR_LIST(SPEC_ROW)
#undef SPEC_ROW
};

/* The config keys behind each letter, for messages: [0] global layers, [1] sliding ones. */
static const char *const dim_keys[IJ_DIM_COUNT][2] = {
    [IJ_DIM_V] = {"vocab_size", "vocab_size"},
    [IJ_DIM_H] = {"hidden_size", "hidden_size"},
    [IJ_DIM_d] = {"head_dim", "swa_head_dim"},
    [IJ_DIM_Q] = {"num_attention_heads * head_dim", "swa_num_attention_heads * swa_head_dim"},
    [IJ_DIM_KV] = {"num_key_value_heads * head_dim", "swa_num_key_value_heads * swa_head_dim"},
    [IJ_DIM_R] = {"num_attention_heads * d_rel", "swa_num_attention_heads * d_rel"},
    [IJ_DIM_QKVR] = {"rows of q, k, v and r", "rows of q, k, v and r"},
    [IJ_DIM_REL] = {"d_rel", "d_rel"},
    [IJ_DIM_EXTENT] = {"rel_extent", "sliding_window_size"},
    [IJ_DIM_K] = {"sconv_kernel_size", "sconv_kernel_size"},
    [IJ_DIM_D] = {"dense width", "dense width"},
    [IJ_DIM_2D] = {"2 * dense width", "2 * dense width"},
    [IJ_DIM_I] = {"expert width", "expert width"},
    [IJ_DIM_2I] = {"2 * expert width", "2 * expert width"},
    [IJ_DIM_E] = {"n_routed_experts", "n_routed_experts"},
    [IJ_DIM_S] = {"n_shared_experts", "n_shared_experts"},
    [IJ_DIM_SI] = {"n_shared_experts * expert width", "n_shared_experts * expert width"},
    [IJ_DIM_ES] = {"n_routed_experts + n_shared_experts", "n_routed_experts + n_shared_experts"},
};

const ij_tensor_spec *ij__tensor_spec(ij_tensor_id id) { return &specs[id]; }

bool ij__tensor_expected(const ij_config *config, ij_tensor_id id, int layer) {
  if (id == IJ_T_UNEMBED && config->tied) return false;
  if (specs[id].place == IJ_IN_MODEL) return layer < 0;
  if (layer < 0 || layer >= config->n_layer) return false;
  if (specs[id].place == IJ_IN_DENSE) return config->dense[layer];
  if (specs[id].place == IJ_IN_MOE) return !config->dense[layer];
  return true;
}

int64_t ij__dim_value(ij_dim dim, const ij_config *c, int layer) {
  const ij_attn_dims *a = &c->attn[layer >= 0 && c->sliding[layer]];
  int64_t q = (int64_t)a->n_head * a->head_dim, kv = (int64_t)a->n_kv_head * a->head_dim, r = (int64_t)a->n_head * c->d_rel;
  switch (dim) {
    case IJ_DIM_V: return c->vocab;
    case IJ_DIM_H: return c->hidden;
    case IJ_DIM_d: return a->head_dim;
    case IJ_DIM_Q: return q;
    case IJ_DIM_KV: return kv;
    case IJ_DIM_R: return r;
    case IJ_DIM_QKVR: return q && kv && r ? q + 2 * kv + r : 0;
    case IJ_DIM_REL: return c->d_rel;
    case IJ_DIM_EXTENT: return a->rel_extent;
    case IJ_DIM_K: return c->conv_kernel;
    case IJ_DIM_D: return c->dense_width;
    case IJ_DIM_2D: return 2 * (int64_t)c->dense_width;
    case IJ_DIM_I: return c->expert_width;
    case IJ_DIM_2I: return 2 * (int64_t)c->expert_width;
    case IJ_DIM_E: return c->n_expert;
    case IJ_DIM_S: return c->n_shared;
    case IJ_DIM_SI: return (int64_t)c->n_shared * c->expert_width;
    case IJ_DIM_ES: return c->n_expert && c->n_shared ? (int64_t)c->n_expert + c->n_shared : 0;
    case IJ_DIM_END:
    case IJ_DIM_COUNT: break;
  }
  return 0;
}

/* The same in a GGUF file, where both kinds of layer share all but the extent. */
static const char *const gguf_dim_keys[IJ_DIM_COUNT] = {
    [IJ_DIM_V] = "vocab_size",
    [IJ_DIM_H] = "embedding_length",
    [IJ_DIM_d] = "attention.key_length",
    [IJ_DIM_Q] = "attention.head_count * key_length",
    [IJ_DIM_KV] = "attention.head_count_kv * key_length",
    [IJ_DIM_R] = "attention.head_count * d_rel",
    [IJ_DIM_QKVR] = "rows of q, k, v and r",
    [IJ_DIM_REL] = "d_rel",
    [IJ_DIM_EXTENT] = "rel_extent or rel_extent_swa",
    [IJ_DIM_K] = "shortconv_kernel",
    [IJ_DIM_D] = "feed_forward_length",
    [IJ_DIM_2D] = "2 * feed_forward_length",
    [IJ_DIM_I] = "expert_feed_forward_length",
    [IJ_DIM_2I] = "2 * expert_feed_forward_length",
    [IJ_DIM_E] = "expert_count",
    [IJ_DIM_S] = "expert_shared_count",
    [IJ_DIM_SI] = "expert_shared_count * expert_feed_forward_length",
    [IJ_DIM_ES] = "expert_count + expert_shared_count",
};

const char *ij__dim_key(ij_dim dim, const ij_names *names, const ij_config *config, int layer) {
  return ij__ckpt_gguf(names->ckpt) ? gguf_dim_keys[dim] : dim_keys[dim][layer >= 0 && config->sliding[layer]];
}

int ij__tensor_shape(int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS], const ij_config *config, ij_tensor_id id, int layer) {
  int n = 0;
  while (n < IJ_TENSOR_MAX_SPEC_DIMS && specs[id].dims[n] != IJ_DIM_END) {
    dims[n] = ij__dim_value(specs[id].dims[n], config, layer);
    n++;
  }
  return n;
}

/* ---------------------------------------------------------------------------------------------------------- layouts */

#define ROW(id, part, name) {IJ_T_##id, IJ_PART_##part, name}

/* The releases, and MLX conversions that keep their names but store gate and up apart. */
static const ij_name_row original_rows[] = {
    ROW(EMBED, WHOLE, "@embed.weight"),
    ROW(EMBED_NORM, WHOLE, "@embed_norm.weight"),
    ROW(NORM, WHOLE, "@norm.weight"),
    ROW(UNEMBED, WHOLE, "@unembed.weight"),
    ROW(ATTN_NORM, WHOLE, "@layers.#.attn_norm.weight"),
    ROW(WQ, WHOLE, "@layers.#.attn.wq_du.weight"),
    ROW(WK, WHOLE, "@layers.#.attn.wk_dv.weight"),
    ROW(WV, WHOLE, "@layers.#.attn.wv_dv.weight"),
    ROW(WR, WHOLE, "@layers.#.attn.wr_du.weight"),
    ROW(WO, WHOLE, "@layers.#.attn.wo_ud.weight"),
    ROW(Q_NORM, WHOLE, "@layers.#.attn.q_norm.weight"),
    ROW(K_NORM, WHOLE, "@layers.#.attn.k_norm.weight"),
    ROW(K_CONV, WHOLE, "@layers.#.attn.k_sconv.weight"),
    ROW(V_CONV, WHOLE, "@layers.#.attn.v_sconv.weight"),
    ROW(REL, WHOLE, "@layers.#.attn.rel_logits_proj.proj"),
    ROW(ATTN_CONV, WHOLE, "@layers.#.attn_sconv.weight"),
    ROW(MLP_NORM, WHOLE, "@layers.#.mlp_norm.weight"),
    ROW(MLP_CONV, WHOLE, "@layers.#.mlp_sconv.weight"),
    ROW(DENSE_W13, PAIRS, "@layers.#.mlp.w13_dn.weight"),
    ROW(DENSE_W13, GATE, "@layers.#.mlp.gate_proj.weight"),
    ROW(DENSE_W13, UP, "@layers.#.mlp.up_proj.weight"),
    ROW(DENSE_W2, WHOLE, "@layers.#.mlp.w2_md.weight"),
    ROW(DENSE_W2, WHOLE, "@layers.#.mlp.down_proj.weight"),
    ROW(DENSE_SCALE, WHOLE, "@layers.#.mlp.global_scale"),
    ROW(ROUTER, WHOLE, "@layers.#.mlp.gate.weight"),
    ROW(ROUTER_BIAS, WHOLE, "@layers.#.mlp.gate.bias"),
    ROW(ROUTER_SCALE, WHOLE, "@layers.#.mlp.gate.global_scale"),
    ROW(EXPERT_W13, PAIRS, "@layers.#.mlp.experts.w13_weight"),
    ROW(EXPERT_W13, GATE, "@layers.#.mlp.experts.gate_proj.weight"),
    ROW(EXPERT_W13, UP, "@layers.#.mlp.experts.up_proj.weight"),
    ROW(EXPERT_W2, WHOLE, "@layers.#.mlp.experts.w2_weight"),
    ROW(EXPERT_W2, WHOLE, "@layers.#.mlp.experts.down_proj.weight"),
    ROW(SHARED_W13, PAIRS, "@layers.#.mlp.shared_experts.shared_w13_weight"),
    ROW(SHARED_W13, GATE, "@layers.#.mlp.shared_experts.gate_proj.weight"),
    ROW(SHARED_W13, UP, "@layers.#.mlp.shared_experts.up_proj.weight"),
    ROW(SHARED_W2, WHOLE, "@layers.#.mlp.shared_experts.shared_w2_weight"),
    ROW(SHARED_W2, WHOLE, "@layers.#.mlp.shared_experts.down_proj.weight"),
};

static const ij_name_row mlx_vlm_rows[] = {
    ROW(EMBED, WHOLE, "@embed_tokens.weight"),
    ROW(EMBED_NORM, WHOLE, "@embed_norm.weight"),
    ROW(NORM, WHOLE, "@norm.weight"),
    ROW(UNEMBED, WHOLE, "language_model.lm_head.weight"),
    ROW(ATTN_NORM, WHOLE, "@layers.#.input_layernorm.weight"),
    ROW(WQ, WHOLE, "@layers.#.self_attn.q_proj.weight"),
    ROW(WK, WHOLE, "@layers.#.self_attn.k_proj.weight"),
    ROW(WV, WHOLE, "@layers.#.self_attn.v_proj.weight"),
    ROW(WR, WHOLE, "@layers.#.self_attn.r_proj.weight"),
    ROW(WQ, QKVR, "@layers.#.self_attn.qkvr_proj.weight"),
    ROW(WK, QKVR, "@layers.#.self_attn.qkvr_proj.weight"),
    ROW(WV, QKVR, "@layers.#.self_attn.qkvr_proj.weight"),
    ROW(WR, QKVR, "@layers.#.self_attn.qkvr_proj.weight"),
    ROW(WO, WHOLE, "@layers.#.self_attn.o_proj.weight"),
    ROW(Q_NORM, WHOLE, "@layers.#.self_attn.q_norm.weight"),
    ROW(K_NORM, WHOLE, "@layers.#.self_attn.k_norm.weight"),
    ROW(K_CONV, WHOLE, "@layers.#.self_attn.k_sconv.conv.weight"),
    ROW(V_CONV, WHOLE, "@layers.#.self_attn.v_sconv.conv.weight"),
    ROW(REL, WHOLE, "@layers.#.self_attn.rel_proj"),
    ROW(ATTN_CONV, WHOLE, "@layers.#.attn_sconv.conv.weight"),
    ROW(MLP_NORM, WHOLE, "@layers.#.post_attention_layernorm.weight"),
    ROW(MLP_CONV, WHOLE, "@layers.#.mlp_sconv.conv.weight"),
    ROW(DENSE_W13, GATE, "@layers.#.mlp.gate_proj.weight"),
    ROW(DENSE_W13, UP, "@layers.#.mlp.up_proj.weight"),
    ROW(DENSE_W2, WHOLE, "@layers.#.mlp.down_proj.weight"),
    ROW(DENSE_SCALE, WHOLE, "@layers.#.mlp.global_scale"),
    ROW(ROUTER, WHOLE, "@layers.#.mlp.gate_weight"),
    ROW(ROUTER_BIAS, WHOLE, "@layers.#.mlp.e_score_correction_bias"),
    ROW(ROUTER_SCALE, WHOLE, "@layers.#.mlp.global_scale"),
    ROW(EXPERT_W13, GATE, "@layers.#.mlp.switch_mlp.gate_proj.weight"),
    ROW(EXPERT_W13, UP, "@layers.#.mlp.switch_mlp.up_proj.weight"),
    ROW(EXPERT_W13, FACTOR, "@layers.#.mlp.switch_mlp.gate_scale"),
    ROW(EXPERT_W2, WHOLE, "@layers.#.mlp.switch_mlp.down_proj.weight"),
    ROW(EXPERT_W2, FACTOR, "@layers.#.mlp.switch_mlp.out_scale"),
    ROW(SHARED_W13, GATE, "@layers.#.mlp.shared_experts.gate_proj.weight"),
    ROW(SHARED_W13, UP, "@layers.#.mlp.shared_experts.up_proj.weight"),
    ROW(SHARED_W2, WHOLE, "@layers.#.mlp.shared_experts.down_proj.weight"),
};

static const ij_name_row module_rows[] = {
    ROW(EMBED, WHOLE, "@embed_tokens.weight"),
    ROW(EMBED_NORM, WHOLE, "@embed_norm.weight"),
    ROW(EMBED_NORM, WHOLE, "@embed_tokens.embed_norm.weight"),
    ROW(NORM, WHOLE, "@norm.weight"),
    ROW(UNEMBED, WHOLE, "lm_head.weight"),
    ROW(ATTN_NORM, WHOLE, "@layers.#.input_layernorm.weight"),
    ROW(WQ, WHOLE, "@layers.#.self_attn.q_proj.weight"),
    ROW(WK, WHOLE, "@layers.#.self_attn.k_proj.weight"),
    ROW(WV, WHOLE, "@layers.#.self_attn.v_proj.weight"),
    ROW(WR, WHOLE, "@layers.#.self_attn.r_proj.weight"),
    ROW(WO, WHOLE, "@layers.#.self_attn.o_proj.weight"),
    ROW(Q_NORM, WHOLE, "@layers.#.self_attn.q_norm.weight"),
    ROW(K_NORM, WHOLE, "@layers.#.self_attn.k_norm.weight"),
    ROW(K_CONV, WHOLE, "@layers.#.self_attn.k_sconv.conv1d.weight"),
    ROW(V_CONV, WHOLE, "@layers.#.self_attn.v_sconv.conv1d.weight"),
    ROW(REL, WHOLE, "@layers.#.self_attn.rel_logits_proj.proj"),
    ROW(ATTN_CONV, WHOLE, "@layers.#.attn_sconv.conv1d.weight"),
    ROW(MLP_NORM, WHOLE, "@layers.#.post_attention_layernorm.weight"),
    ROW(MLP_CONV, WHOLE, "@layers.#.mlp_sconv.conv1d.weight"),
    ROW(DENSE_W13, GATE, "@layers.#.mlp.gate_proj.weight"),
    ROW(DENSE_W13, UP, "@layers.#.mlp.up_proj.weight"),
    ROW(DENSE_W2, WHOLE, "@layers.#.mlp.down_proj.weight"),
    ROW(DENSE_SCALE, WHOLE, "@layers.#.mlp.global_scale"),
    ROW(ROUTER, WHOLE, "@layers.#.mlp.gate.weight"),
    ROW(ROUTER_BIAS, WHOLE, "@layers.#.mlp.gate.e_score_correction_bias"),
    ROW(ROUTER_SCALE, WHOLE, "@layers.#.mlp.gate.global_scale"),
    ROW(EXPERT_W13, HALVES, "@layers.#.mlp.experts.gate_up_proj"),
    ROW(EXPERT_W2, WHOLE, "@layers.#.mlp.experts.down_proj"),
    ROW(SHARED_W13, GATE, "@layers.#.mlp.shared_experts.gate_proj"),
    ROW(SHARED_W13, UP, "@layers.#.mlp.shared_experts.up_proj"),
    ROW(SHARED_W2, WHOLE, "@layers.#.mlp.shared_experts.down_proj"),
};

static const ij_name_row gguf_rows[] = {
    ROW(EMBED, WHOLE, "token_embd.weight"),
    ROW(EMBED_NORM, WHOLE, "token_embd_norm.weight"),
    ROW(NORM, WHOLE, "output_norm.weight"),
    ROW(UNEMBED, WHOLE, "output.weight"),
    ROW(ATTN_NORM, WHOLE, "blk.#.attn_norm.weight"),
    ROW(WQ, WHOLE, "blk.#.attn_q.weight"),
    ROW(WK, WHOLE, "blk.#.attn_k.weight"),
    ROW(WV, WHOLE, "blk.#.attn_v.weight"),
    ROW(WR, WHOLE, "blk.#.attn_r.weight"),
    ROW(WO, WHOLE, "blk.#.attn_output.weight"),
    ROW(Q_NORM, WHOLE, "blk.#.attn_q_norm.weight"),
    ROW(K_NORM, WHOLE, "blk.#.attn_k_norm.weight"),
    ROW(K_CONV, WHOLE, "blk.#.shortconv_k.weight"),
    ROW(V_CONV, WHOLE, "blk.#.shortconv_v.weight"),
    ROW(REL, WHOLE, "blk.#.attn_rel_proj.weight"),
    ROW(ATTN_CONV, WHOLE, "blk.#.shortconv_attn.weight"),
    ROW(MLP_NORM, WHOLE, "blk.#.ffn_norm.weight"),
    ROW(MLP_CONV, WHOLE, "blk.#.shortconv_mlp.weight"),
    ROW(DENSE_W13, GATE, "blk.#.ffn_gate.weight"),
    ROW(DENSE_W13, UP, "blk.#.ffn_up.weight"),
    ROW(DENSE_W2, WHOLE, "blk.#.ffn_down.weight"),
    ROW(DENSE_SCALE, WHOLE, "blk.#.ffn_gscale.weight"),
    ROW(ROUTER, WHOLE, "blk.#.ffn_gate_inp.weight"),
    ROW(ROUTER_BIAS, WHOLE, "blk.#.exp_probs_b.bias"),
    ROW(ROUTER_SCALE, WHOLE, "blk.#.ffn_gscale.weight"),
    ROW(EXPERT_W13, GATE, "blk.#.ffn_gate_exps.weight"),
    ROW(EXPERT_W13, UP, "blk.#.ffn_up_exps.weight"),
    ROW(EXPERT_W2, WHOLE, "blk.#.ffn_down_exps.weight"),
    ROW(SHARED_W13, GATE, "blk.#.ffn_gate_shexp.weight"),
    ROW(SHARED_W13, UP, "blk.#.ffn_up_shexp.weight"),
    ROW(SHARED_W2, WHOLE, "blk.#.ffn_down_shexp.weight"),
};

#define ROWS(table) .rows = table, .n_rows = IJ_COUNT_OF(table)

static const ij_layout layouts[IJ_LAYOUT_COUNT] = {
    [IJ_LAYOUT_ORIGINAL] = {"original names", "model.llm.", {"model.llm."}, 1, 1, true, ROWS(original_rows)},
    [IJ_LAYOUT_MLX_VLM] = {"MLX module names", "language_model.model.", {"language_model."}, 1, 1, true, ROWS(mlx_vlm_rows)},
    [IJ_LAYOUT_MODULES] = {"transformers module names", "model.language_model.", {"model.language_model.", "lm_head."}, 2, 1, true,
                           ROWS(module_rows)},
    [IJ_LAYOUT_MODULES_TEXT] = {"transformers module names, text only", "model.",
                                {"model.layers.", "model.embed_tokens.", "model.embed_norm.", "model.norm.", "lm_head."}, 5, 4, true,
                                ROWS(module_rows)},
    [IJ_LAYOUT_GGUF] = {"GGUF names", "", {"blk.", "token_embd", "output"}, 3, 2, false, ROWS(gguf_rows)},
};

const ij_layout *ij__layout(ij_layout_id id) { return &layouts[id]; }

/* ------------------------------------------------------------------------------------------------------------ names */

typedef struct side_spec {
  const char *suffix;
  bool whole, info;
} side_spec;

static const side_spec sides[IJ_SIDE_COUNT] = {
#define SIDE_ROW(id, suffix, whole, info) [IJ_SIDE_##id] = {suffix, whole, info},
    IJ_SIDE_LIST(SIDE_ROW)
#undef SIDE_ROW
};

bool ij__side_is_informative(ij_side side) { return sides[side].info; }

void ij__side_name(char buf[IJ_TENSOR_NAME_MAX], ij_side side) {
  size_t len = strlen(buf);
  if (!sides[side].whole && ij__str_ends_with(buf, ".weight")) len -= strlen(".weight");
  snprintf(buf + len, IJ_TENSOR_NAME_MAX - len, "%s", sides[side].suffix);
}

void ij__name_of(char buf[IJ_TENSOR_NAME_MAX], const ij_layout *layout, const ij_name_row *row, int layer, ij_side side) {
  size_t len = 0, room = IJ_TENSOR_NAME_MAX;
  for (const char *p = row->name; *p; p++) {
    if (*p == '@')
      len += (size_t)snprintf(buf + len, room - len, "%s", layout->prefix);
    else if (*p == '#')
      len += (size_t)snprintf(buf + len, room - len, "%d", layer);
    else
      buf[len++] = *p;
  }
  buf[len] = 0;
  ij__side_name(buf, side);
}

void ij__module_of(char buf[IJ_TENSOR_NAME_MAX], const ij_layout *layout, const ij_name_row *row, int layer) {
  ij__name_of(buf, layout, row, layer, IJ_SIDE_MAIN);
  size_t len = strlen(buf);
  if (ij__str_ends_with(buf, ".weight")) buf[len - strlen(".weight")] = 0;
}

/* The digits at s as a layer; only the canonical spelling of a number, so that two names never mean one tensor. */
static const char *parse_layer(const char *s, int *layer) {
  int64_t n = 0;
  const char *p = s;
  while (*p >= '0' && *p <= '9') {
    n = n * 10 + (*p++ - '0');
    if (n > INT_MAX) return NULL;
  }
  if (p == s || (s[0] == '0' && p > s + 1)) return NULL;
  *layer = (int)n;
  return p;
}

/* How far the name follows the pattern up to `end`: what is left of the name, or NULL. */
static const char *follow(const char *pattern, const char *end, const char *prefix, const char *name, int *layer) {
  *layer = -1;
  for (const char *p = pattern; p < end; p++) {
    if (*p == '@') {
      size_t n = strlen(prefix);
      if (strncmp(name, prefix, n) != 0) return NULL;
      name += n;
    } else if (*p == '#') {
      if (!(name = parse_layer(name, layer))) return NULL;
    } else if (*name++ != *p) {
      return NULL;
    }
  }
  return name;
}

static bool row_parse(const ij_layout *layout, const ij_name_row *row, const char *name, int *layer, ij_side *side) {
  size_t len = strlen(row->name), module = len - (ij__str_ends_with(row->name, ".weight") ? strlen(".weight") : 0);
  const char *rest = follow(row->name, row->name + module, layout->prefix, name, layer);
  if (!rest) return false;
  const char *tail = row->name + module; /* ".weight" or nothing */
  size_t n_tail = len - module;
  bool has_sides = layout->sidecars && specs[row->id].kind == IJ_TENSOR_MATRIX && row->part != IJ_PART_FACTOR;
  for (int i = 0; i < (has_sides ? IJ_SIDE_COUNT : 1); i++) {
    const char *at = rest;
    if (sides[i].whole) {
      if (strncmp(at, tail, n_tail) != 0) continue;
      at += n_tail;
    }
    if (strcmp(at, sides[i].suffix) == 0) {
      *side = (ij_side)i;
      return true;
    }
  }
  return false;
}

const ij_name_row *ij__name_parse(const ij_layout *layout, const ij_name_row *after, const char *name, int *layer, ij_side *side) {
  for (const ij_name_row *row = after ? after + 1 : layout->rows; row < layout->rows + layout->n_rows; row++) {
    if (row_parse(layout, row, name, layer, side)) return row;
  }
  return NULL;
}

bool ij__name_is_decoder(const ij_names *names, const char *name) {
  int layer;
  ij_side side;
  return ij__name_parse(names->layout, NULL, name, &layer, &side) != NULL;
}

/* -------------------------------------------------------------------------------------------------------- detection */

static bool tells(const ij_layout *l, const char *name) {
  for (int i = 0; i < l->n_tell; i++) {
    if (ij__str_starts_with(name, l->own[i])) return true;
  }
  return false;
}

/* Storage forms that are recognized and not read. */
static ij_status check_form(const ij_names *n, ij_err *err) {
  for (int i = 0; i < ij__ckpt_n_tensors(n->ckpt); i++) {
    const ij_tensor_view *t = ij__ckpt_tensor(n->ckpt, i);
    const char *form = NULL;
    if (ij__str_ends_with(t->name, ".qs")) form = "integers with one scale per row (.qs)";
    if ((t->dtype == IJ_DTYPE_F8_E4M3 || t->dtype == IJ_DTYPE_F8_E5M2)) {
      int layer;
      ij_side side;
      const ij_name_row *row = ij__name_parse(n->layout, NULL, t->name, &layer, &side);
      if (row && side == IJ_SIDE_MAIN && specs[row->id].kind == IJ_TENSOR_MATRIX) form = "8-bit floating-point weights";
    }
    if (form)
      return ij__fail(err, IJ_E_UNSUPPORTED, ij__ckpt_folder(n->ckpt),
                      "this checkpoint stores %s, e.g. %.200s, which is not read: use a release in BF16, NVFP4, MLX or GGUF form", form,
                      t->name);
  }
  return IJ_OK;
}

static ij_status find_layout(ij_names *n, ij_err *err) {
  const char *example[IJ_LAYOUT_COUNT] = {NULL};
  int found = -1;
  if (ij__ckpt_gguf(n->ckpt)) {
    n->layout = &layouts[IJ_LAYOUT_GGUF];
    return IJ_OK;
  }
  for (int i = 0; i < ij__ckpt_n_tensors(n->ckpt); i++) {
    const char *name = ij__ckpt_tensor(n->ckpt, i)->name;
    for (int k = 0; k < IJ_LAYOUT_COUNT; k++) {
      if (!example[k] && tells(&layouts[k], name)) example[k] = name;
    }
  }
  for (int k = 0; k < IJ_LAYOUT_COUNT; k++) {
    if (!example[k]) continue;
    if (found >= 0)
      return ij__fail(err, IJ_E_FORMAT, ij__ckpt_folder(n->ckpt),
                      "the tensors carry the names of two layouts: %s, e.g. %.200s, and %s, e.g. %.200s; only one may be there",
                      layouts[found].title, example[found], layouts[k].title, example[k]);
    found = k;
  }
  n->layout = &layouts[found >= 0 ? found : IJ_LAYOUT_ORIGINAL];
  return IJ_OK;
}

/* quantization, or its copy quantization_config. The latter is also where other tools describe themselves: they say so by quant_method. */
static ij_status find_dictionary(ij_names *n, ij_err *err) {
  static const char *const keys[] = {"quantization", "quantization_config"};
  static const char *const known[] = {"compressed-tensors", "modelopt", "mlx"};
  const ij_json_value *root = ij__ckpt_config(n->ckpt), *levels[] = {root, ij__json_member(root, "text_config")};
  for (int i = 0; i < 4; i++) {
    const ij_json_value *v = ij__json_member(levels[i / 2], keys[i % 2]);
    ij_json_type type = ij__json_type_of(v);
    const char *method;
    size_t len;
    if (type == IJ_JSON_NONE || type == IJ_JSON_NULL) continue;
    if (type != IJ_JSON_OBJECT)
      return ij__fail(err, IJ_E_FORMAT, ij__ckpt_config_path(n->ckpt), "%s: expected an object, found %s", keys[i % 2],
                      ij__json_type_name(type));
    if (ij__json_get_string(ij__json_member(v, "quant_method"), &method, &len)) {
      bool ok = false;
      for (size_t k = 0; k < IJ_COUNT_OF(known); k++) ok = ok || strcmp(method, known[k]) == 0;
      if (!ok)
        return ij__fail(err, IJ_E_UNSUPPORTED, ij__ckpt_config_path(n->ckpt),
                        "%s.quant_method: expected compressed-tensors, modelopt or none (MLX), found \"%.40s\"", keys[i % 2], method);
      if (strcmp(method, "mlx") != 0) continue;
    }
    if (!n->quant) {
      n->quant = v;
      n->quant_key = keys[i % 2];
    }
  }
  return IJ_OK;
}

ij_status ij__names_open(ij_names *out, const ij_ckpt *ckpt, ij_err *err) {
  *out = (ij_names){.ckpt = ckpt};
  ij_status s = find_layout(out, err);
  if (s == IJ_OK) s = find_dictionary(out, err);
  if (s == IJ_OK) s = check_form(out, err);
  for (int i = 0; s == IJ_OK && i < ij__ckpt_n_tensors(ckpt) && !out->split; i++) {
    int layer;
    ij_side side;
    const ij_name_row *row = ij__name_parse(out->layout, NULL, ij__ckpt_tensor(ckpt, i)->name, &layer, &side);
    out->split = row && row->part == IJ_PART_GATE;
  }
  return s;
}
