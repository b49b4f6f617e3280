/* names.c: see names.h. The table itself is in the header; here are the look-ups, the shapes, and the audit that compares a whole
 * checkpoint with a config. An unknown dimension is 0 and matches anything, so the audit also works on a config that is still
 * being read. */
#include "model/names.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"

#define PREFIX "model.llm."
#define LAYER_PREFIX "model.llm.layers."

static const ij_tensor_spec specs[IJ_T_COUNT] = {
#define SPEC_ROW(id, place, name, kind, d0, d1, d2) \
  [IJ_T_##id] = {name, IJ_IN_##place, IJ_TENSOR_##kind, {IJ_DIM_##d0, IJ_DIM_##d1, IJ_DIM_##d2}},
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
    [IJ_DIM_REL] = {"d_rel", "d_rel"},
    [IJ_DIM_EXTENT] = {"rel_extent", "sliding_window_size"},
    [IJ_DIM_K] = {"sconv_kernel_size", "sconv_kernel_size"},
    [IJ_DIM_D] = {"dense width", "dense width"},
    [IJ_DIM_2D] = {"2 * dense width", "2 * dense width"},
    [IJ_DIM_I] = {"expert width", "expert width"},
    [IJ_DIM_2I] = {"2 * expert width", "2 * expert width"},
    [IJ_DIM_E] = {"n_routed_experts", "n_routed_experts"},
    [IJ_DIM_S] = {"n_shared_experts", "n_shared_experts"},
    [IJ_DIM_ES] = {"n_routed_experts + n_shared_experts", "n_routed_experts + n_shared_experts"},
};

const ij_tensor_spec *ij__tensor_spec(ij_tensor_id id) { return &specs[id]; }

void ij__tensor_name(char buf[IJ_TENSOR_NAME_MAX], ij_tensor_id id, int layer) {
  if (specs[id].place == IJ_IN_MODEL)
    snprintf(buf, IJ_TENSOR_NAME_MAX, PREFIX "%s", specs[id].name);
  else
    snprintf(buf, IJ_TENSOR_NAME_MAX, LAYER_PREFIX "%d.%s", layer, specs[id].name);
}

/* "12.rest" -> 12 and "rest"; only the canonical spelling of a number, so that two names never mean one tensor. */
static const char *parse_layer(const char *s, int *layer) {
  int64_t n = 0;
  const char *p = s;
  while (*p >= '0' && *p <= '9') {
    n = n * 10 + (*p++ - '0');
    if (n > INT_MAX) return NULL;
  }
  if (p == s || *p != '.' || (s[0] == '0' && p > s + 1)) return NULL;
  *layer = (int)n;
  return p + 1;
}

bool ij__tensor_parse(const char *name, ij_tensor_id *id, int *layer) {
  if (!ij__str_starts_with(name, PREFIX)) return false;
  const char *rest = name + strlen(PREFIX);
  bool in_layer = ij__str_starts_with(name, LAYER_PREFIX);
  *layer = -1;
  if (in_layer && !(rest = parse_layer(name + strlen(LAYER_PREFIX), layer))) return false;
  for (int i = 0; i < IJ_T_COUNT; i++) {
    if ((specs[i].place != IJ_IN_MODEL) == in_layer && strcmp(specs[i].name, rest) == 0) {
      *id = (ij_tensor_id)i;
      return true;
    }
  }
  return false;
}

bool ij__name_is_decoder(const char *name) {
  ij_tensor_id id;
  int layer;
  return ij__tensor_parse(name, &id, &layer);
}

const ij_tensor_view *ij__tensor_find(const ij_ckpt *ckpt, ij_tensor_id id, int layer) {
  char name[IJ_TENSOR_NAME_MAX];
  ij__tensor_name(name, id, layer);
  return ij__ckpt_find(ckpt, name);
}

bool ij__tensor_expected(const ij_config *config, ij_tensor_id id, int layer) {
  if (id == IJ_T_UNEMBED && config->tied) return false;
  if (specs[id].place == IJ_IN_MODEL) return layer < 0;
  if (layer < 0 || layer >= config->n_layer) return false;
  if (specs[id].place == IJ_IN_DENSE) return config->dense[layer];
  if (specs[id].place == IJ_IN_MOE) return !config->dense[layer];
  return true;
}

static int64_t dim_value(ij_dim dim, const ij_config *c, int layer) {
  const ij_attn_dims *a = &c->attn[layer >= 0 && c->sliding[layer]];
  switch (dim) {
    case IJ_DIM_V: return c->vocab;
    case IJ_DIM_H: return c->hidden;
    case IJ_DIM_d: return a->head_dim;
    case IJ_DIM_Q: return (int64_t)a->n_head * a->head_dim;
    case IJ_DIM_KV: return (int64_t)a->n_kv_head * a->head_dim;
    case IJ_DIM_R: return (int64_t)a->n_head * c->d_rel;
    case IJ_DIM_REL: return c->d_rel;
    case IJ_DIM_EXTENT: return a->rel_extent;
    case IJ_DIM_K: return c->conv_kernel;
    case IJ_DIM_D: return c->dense_width;
    case IJ_DIM_2D: return 2 * (int64_t)c->dense_width;
    case IJ_DIM_I: return c->expert_width;
    case IJ_DIM_2I: return 2 * (int64_t)c->expert_width;
    case IJ_DIM_E: return c->n_expert;
    case IJ_DIM_S: return c->n_shared;
    case IJ_DIM_ES: return c->n_expert && c->n_shared ? (int64_t)c->n_expert + c->n_shared : 0;
    case IJ_DIM_END:
    case IJ_DIM_COUNT: break;
  }
  return 0;
}

int ij__tensor_shape(int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS], const ij_config *config, ij_tensor_id id, int layer) {
  int n = 0;
  while (n < IJ_TENSOR_MAX_SPEC_DIMS && specs[id].dims[n] != IJ_DIM_END) {
    dims[n] = dim_value(specs[id].dims[n], config, layer);
    n++;
  }
  return n;
}

/* ------------------------------------------------------------------------------------------------------------ audit */

static bool dim_fits(int64_t want, int64_t got) { return want == 0 ? got > 0 : want == got; }

static bool shape_fits(const ij_tensor_view *t, ij_tensor_kind kind, const int64_t *want, int n_want) {
  if (kind == IJ_TENSOR_SCALAR) return t->n_dims == 0 || (t->n_dims == 1 && t->dims[0] == 1);
  if (kind == IJ_TENSOR_CONV && t->n_dims == 3) {
    if (!dim_fits(want[0], t->dims[0])) return false;
    return (t->dims[1] == 1 && dim_fits(want[1], t->dims[2])) || (t->dims[2] == 1 && dim_fits(want[1], t->dims[1]));
  }
  if (t->n_dims != n_want) return false;
  for (int i = 0; i < n_want; i++) {
    if (!dim_fits(want[i], t->dims[i])) return false;
  }
  return true;
}

/* "[32, 64]"; a dimension that is not known is "?". */
static void format_shape(char *buf, size_t size, const int64_t *dims, int n) {
  size_t len = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < n && len < size; i++) {
    const char *comma = i ? ", " : "";
    if (dims[i] == 0)
      len += (size_t)snprintf(buf + len, size - len, "%s?", comma);
    else
      len += (size_t)snprintf(buf + len, size - len, "%s%lld", comma, (long long)dims[i]);
  }
  if (len < size) snprintf(buf + len, size - len, "]");
}

static void found_shape(char *buf, size_t size, const ij_tensor_view *t) {
  size_t len = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < t->n_dims && len < size; i++)
    len += (size_t)snprintf(buf + len, size - len, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
  if (len < size) snprintf(buf + len, size - len, "]");
}

/* "[32, 64] (num_key_value_heads * head_dim, hidden_size)" */
static void expected_shape(char *buf, size_t size, const ij_config *c, ij_tensor_id id, int layer, const int64_t *want, int n_want) {
  if (specs[id].kind == IJ_TENSOR_SCALAR) {
    snprintf(buf, size, "one value, [1] or []");
    return;
  }
  format_shape(buf, size, want, n_want);
  bool sliding = layer >= 0 && c->sliding[layer];
  size_t len = strlen(buf);
  for (int i = 0; i < n_want && len < size; i++)
    len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? ", " : " (", dim_keys[specs[id].dims[i]][sliding]);
  if (len < size) snprintf(buf + len, size - len, ")");
}

static void audit_tensor(ij_audit *audit, const ij_config *c, const ij_ckpt *ckpt, ij_tensor_id id, int layer) {
  char name[IJ_TENSOR_NAME_MAX], want_text[256], got_text[192];
  int64_t want[IJ_TENSOR_MAX_SPEC_DIMS];
  int n_want = ij__tensor_shape(want, c, id, layer);
  ij__tensor_name(name, id, layer);
  expected_shape(want_text, sizeof want_text, c, id, layer, want, n_want);
  const ij_tensor_view *t = ij__ckpt_find(ckpt, name);
  if (!t) {
    audit->n_missing++;
    ij__findings_add(&audit->findings, "%s is missing, expected %s", name, want_text);
    return;
  }
  if (!shape_fits(t, specs[id].kind, want, n_want)) {
    audit->n_shape++;
    found_shape(got_text, sizeof got_text, t);
    ij__findings_add(&audit->findings, "%s: expected %s, found %s", name, want_text, got_text);
  }
  if (!ij__dtype_is_float(t->dtype)) {
    audit->n_type++;
    ij__findings_add(&audit->findings, "%s: expected F32, BF16 or F16, found %s", name, ij__dtype_name(t->dtype));
  } else if (specs[id].kind == IJ_TENSOR_MATRIX && (uintptr_t)t->data % (size_t)ij__dtype_block_bytes(t->dtype) != 0) {
    audit->n_unaligned++;
    ij__findings_add(&audit->findings,
                     "%s: its %s values do not start at a multiple of %lld bytes in %s; save it again with its header padded to 8", name,
                     ij__dtype_name(t->dtype), (long long)ij__dtype_block_bytes(t->dtype), t->file);
  }
}

/* Leftovers of other tools that lie beside weights and carry nothing the network reads. */
static bool is_metadata(const char *name) {
  return ij__str_ends_with(name, ".input_amax") || ij__str_ends_with(name, ".original_shape") || strstr(name, "training_args") != NULL;
}

static void audit_name(ij_audit *audit, const ij_config *c, const char *name) {
  ij_tensor_id id;
  int layer;
  if (!ij__str_starts_with(name, PREFIX) || is_metadata(name)) return;
  if (!ij__tensor_parse(name, &id, &layer)) {
    audit->n_unknown++;
    ij__findings_add(&audit->findings, "%.200s is not a tensor of this network", name);
  } else if (!ij__tensor_expected(c, id, layer) && c->n_layer > 0) {
    audit->n_unknown++;
    if (layer >= c->n_layer)
      ij__findings_add(&audit->findings, "%s is not expected: num_hidden_layers is %d", name, c->n_layer);
    else if (layer < 0)
      ij__findings_add(&audit->findings, "%s is not expected: tie_word_embeddings is true", name);
    else
      ij__findings_add(&audit->findings, "%s is not expected: layer %d is %s", name, layer,
                       c->dense[layer] ? "dense" : "a mixture of experts");
  }
}

void ij__tensors_audit(ij_audit *audit, const ij_config *config, const ij_ckpt *ckpt) {
  for (int layer = -1; layer < config->n_layer; layer++) {
    for (int id = 0; id < IJ_T_COUNT; id++) {
      if (ij__tensor_expected(config, (ij_tensor_id)id, layer)) audit_tensor(audit, config, ckpt, (ij_tensor_id)id, layer);
    }
  }
  for (int i = 0; i < ij__ckpt_n_tensors(ckpt); i++) audit_name(audit, config, ij__ckpt_tensor(ckpt, i)->name);
}

/* ------------------------------------------------------------------------------------------------------------- form */

static bool is_tower_or_mtp(const char *name) {
  static const char *const prefixes[] = {"model.visual.",      "model.audio.", "model.mtp.", "model.vision_tower.",
                                         "model.audio_tower.", "vision_tower.", "audio_tower."};
  for (size_t i = 0; i < IJ_COUNT_OF(prefixes); i++) {
    if (ij__str_starts_with(name, prefixes[i])) return true;
  }
  return false;
}

/* The first sign decides; signs are ordered from the most to the least telling. */
static const char *quantized_form(const ij_ckpt *ckpt, const char **example) {
  static const struct {
    const char *suffix, *form;
  } signs[] = {
      {".weight_packed", "compressed-tensors NVFP4 (.weight_packed)"},
      {".weight_global_scale", "compressed-tensors NVFP4 (.weight_global_scale)"},
      {".scale2", "NVFP4 with .scale and .scale2 beside packed U8 weights"},
      {".biases", "MLX affine quantization (.scales and .biases beside packed U32 weights)"},
      {".scales", "an MLX floating mode (.scales without .biases)"},
      {".qs", "integers with one scale per row (.qs)"},
      {".scale", "weights with a .scale beside them"},
  };
  for (size_t s = 0; s < IJ_COUNT_OF(signs); s++) {
    for (int i = 0; i < ij__ckpt_n_tensors(ckpt); i++) {
      *example = ij__ckpt_tensor(ckpt, i)->name;
      if (!is_tower_or_mtp(*example) && ij__str_ends_with(*example, signs[s].suffix)) return signs[s].form;
    }
  }
  return NULL;
}

static const char *packed_form(const ij_ckpt *ckpt, const char **example) {
  ij_tensor_id id;
  int layer;
  for (int i = 0; i < ij__ckpt_n_tensors(ckpt); i++) {
    const ij_tensor_view *t = ij__ckpt_tensor(ckpt, i);
    *example = t->name;
    if (!ij__tensor_parse(t->name, &id, &layer) || specs[id].kind != IJ_TENSOR_MATRIX) continue;
    if (t->dtype == IJ_DTYPE_U8) return "packed U8 weights, as in NVFP4";
    if (t->dtype == IJ_DTYPE_U32) return "packed U32 weights, as in MLX";
    if (t->dtype == IJ_DTYPE_F8_E4M3 || t->dtype == IJ_DTYPE_F8_E5M2) return "8-bit floating-point weights";
  }
  return NULL;
}

static const char *foreign_names(const ij_ckpt *ckpt, const char **example) {
  static const struct {
    const char *prefix, *form;
  } signs[] = {
      {"language_model.", "MLX module names"},
      {"model.language_model.", "transformers module names"},
      {"model.layers.", "transformers module names, text only"},
      {"model.embed_tokens.", "transformers module names, text only"},
      {"blk.", "GGUF names"},
  };
  for (int i = 0; i < ij__ckpt_n_tensors(ckpt); i++) {
    if (ij__str_starts_with(ij__ckpt_tensor(ckpt, i)->name, PREFIX)) return NULL;
  }
  for (int i = 0; i < ij__ckpt_n_tensors(ckpt); i++) {
    *example = ij__ckpt_tensor(ckpt, i)->name;
    for (size_t s = 0; s < IJ_COUNT_OF(signs); s++) {
      if (ij__str_starts_with(*example, signs[s].prefix)) return signs[s].form;
    }
  }
  return NULL;
}

ij_status ij__names_check_form(const ij_ckpt *ckpt, ij_err *err) {
  const char *example = NULL;
  const char *form = quantized_form(ckpt, &example);
  if (!form) form = packed_form(ckpt, &example);
  if (form)
    return ij__fail(err, IJ_E_UNSUPPORTED, ij__ckpt_folder(ckpt),
                    "this is a quantized checkpoint: %s, e.g. %.200s; weights must be F32, BF16 or F16: use the unquantized release", form,
                    example);
  form = foreign_names(ckpt, &example);
  if (form)
    return ij__fail(err, IJ_E_UNSUPPORTED, ij__ckpt_folder(ckpt),
                    "the tensors carry %s, e.g. %.200s; only the original model.llm.* names are read: use the original release", form,
                    example);
  return IJ_OK;
}
