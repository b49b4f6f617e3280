/* weights.c: names -> fields. One audit of the whole checkpoint, one plan of the widened floats, one pass that binds.
 *
 * After the audit every tensor is known to be there with its shape and a float type, so binding itself can only fail on memory and on
 * values that are not finite. Matrices are views into the mapping and are not read here: opening a model of any size costs the same. */
#include "model/weights.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "kernels/ref/convert_ref.h"
#include "model/names.h"

#define FLOATS_PER_LINE (IJ_ALIGNMENT / sizeof(float))

typedef struct binder {
  ij_weights *w;
  const ij_config *c;
  const ij_ckpt *ckpt;
  size_t next_float; /* first float of w->floats not handed out */
  ij_findings not_finite;
} binder;

/* ---------------------------------------------------------------------------------------------------------- widening */

/* Value i of a float tensor, wherever its bytes lie: small tensors need no alignment. */
static float value_at(const ij_tensor_view *t, int64_t i) {
  const char *p = (const char *)t->data + i * ij__dtype_block_bytes(t->dtype);
  uint16_t half;
  float f;
  if (t->dtype == IJ_DTYPE_F32) {
    memcpy(&f, p, sizeof f);
    return f;
  }
  memcpy(&half, p, sizeof half);
  return t->dtype == IJ_DTYPE_F16 ? ij__ref_from_f16(half) : ij__ref_from_bf16(half);
}

/* The same, noting a value that no computation could survive. The first one of a tensor is enough. */
static void check_finite(binder *b, const ij_tensor_view *t) {
  for (int64_t i = 0; i < t->n_values; i++) {
    float f = value_at(t, i);
    if (isfinite(f)) continue;
    ij__findings_add(&b->not_finite, "%s[%lld] is %s", t->name, (long long)i, isnan(f) ? "not a number" : "infinite");
    return;
  }
}

static const ij_tensor_view *find(const binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = ij__tensor_find(b->ckpt, id, layer);
  assert(t && "the audit let a missing tensor through");
  return t;
}

static float *take_floats(binder *b, size_t n) {
  float *p = b->w->floats + b->next_float;
  b->next_float += ij__align_up(n, FLOATS_PER_LINE);
  assert(b->next_float <= b->w->n_floats);
  return p;
}

static const float *bind_vector(binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = find(b, id, layer);
  float *out = take_floats(b, (size_t)t->n_values);
  check_finite(b, t);
  for (int64_t i = 0; i < t->n_values; i++) out[i] = value_at(t, i);
  return out;
}

static float bind_scalar(binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = find(b, id, layer);
  check_finite(b, t);
  return value_at(t, 0);
}

/* [C][K] in the file (whichever of its three spellings) -> [K][C]. */
static const float *bind_conv(binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = find(b, id, layer);
  int64_t n_tap = b->c->conv_kernel, n_channel = t->n_values / n_tap;
  float *out = take_floats(b, (size_t)t->n_values);
  check_finite(b, t);
  for (int64_t c = 0; c < n_channel; c++) {
    for (int64_t j = 0; j < n_tap; j++) out[j * n_channel + c] = value_at(t, c * n_tap + j);
  }
  return out;
}

/* [d_rel][extent] by distance -> rows reversed between zero pads: | pad | extent - 1 ... 1 0 | pad |. The block is zeroed before. */
static const float *bind_bank(binder *b, int layer, int extent, int ld) {
  const ij_tensor_view *t = find(b, IJ_T_REL, layer);
  float *out = take_floats(b, (size_t)b->c->d_rel * (size_t)ld);
  check_finite(b, t);
  for (int64_t j = 0; j < b->c->d_rel; j++) {
    for (int64_t dist = 0; dist < extent; dist++) out[j * ld + IJ_REL_PAD + extent - 1 - dist] = value_at(t, j * extent + dist);
  }
  return out;
}

/* ---------------------------------------------------------------------------------------------------------- matrices */

/* Rows first, first + step, ... of a matrix of `cols` columns that starts at `data`. */
static ij_weight rows_of(const ij_tensor_view *t, int64_t first_row, int64_t step, int64_t rows, int64_t cols) {
  int64_t row_bytes = cols * ij__dtype_block_bytes(t->dtype);
  return (ij_weight){.data = (const char *)t->data + first_row * row_bytes, .dtype = t->dtype, .rows = rows, .cols = cols, .row_stride = step * row_bytes};
}

static ij_weight bind_matrix(binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = find(b, id, layer);
  return rows_of(t, 0, 1, t->dims[0], t->dims[1]);
}

/* Unit `index` of stacked w13 [n, 2 * width, H] and w2 [n, H, width]: even rows of w13 are gate, odd rows are up. */
static ij_mlp mlp_of(const ij_tensor_view *w13, const ij_tensor_view *w2, int64_t index, int64_t width, int64_t hidden) {
  return (ij_mlp){
      .gate = rows_of(w13, index * 2 * width, 2, width, hidden),
      .up = rows_of(w13, index * 2 * width + 1, 2, width, hidden),
      .down = rows_of(w2, index * hidden, 1, hidden, width),
  };
}

static ij_expert_bank bank_of(const ij_tensor_view *w13, const ij_tensor_view *w2, int64_t width, int64_t hidden) {
  ij_mlp first = mlp_of(w13, w2, 0, width, hidden);
  int64_t w13_stride = 2 * width * hidden * ij__dtype_block_bytes(w13->dtype);
  int64_t w2_stride = hidden * width * ij__dtype_block_bytes(w2->dtype);
  return (ij_expert_bank){.gate = {.first = first.gate, .stride = w13_stride},
                          .up = {.first = first.up, .stride = w13_stride},
                          .down = {.first = first.down, .stride = w2_stride}};
}

/* ------------------------------------------------------------------------------------------------------------ layers */

static void bind_attention(binder *b, ij_layer *l, int layer) {
  l->attn_norm = bind_vector(b, IJ_T_ATTN_NORM, layer);
  l->wq = bind_matrix(b, IJ_T_WQ, layer);
  l->wk = bind_matrix(b, IJ_T_WK, layer);
  l->wv = bind_matrix(b, IJ_T_WV, layer);
  l->wr = bind_matrix(b, IJ_T_WR, layer);
  l->wo = bind_matrix(b, IJ_T_WO, layer);
  l->q_norm = bind_vector(b, IJ_T_Q_NORM, layer);
  l->k_norm = bind_vector(b, IJ_T_K_NORM, layer);
  l->conv[IJ_CONV_K] = bind_conv(b, IJ_T_K_CONV, layer);
  l->conv[IJ_CONV_V] = bind_conv(b, IJ_T_V_CONV, layer);
  l->conv[IJ_CONV_ATTN] = bind_conv(b, IJ_T_ATTN_CONV, layer);
  l->rel_ld = IJ_REL_PAD + l->dims->rel_extent + IJ_REL_PAD;
  l->rel = bind_bank(b, layer, l->dims->rel_extent, l->rel_ld);
}

static void bind_moe(binder *b, ij_layer *l, int layer, ij_mlp *shared, ij_expert_bank *bank) {
  const ij_config *c = b->c;
  const ij_tensor_view *shared_w13 = find(b, IJ_T_SHARED_W13, layer), *shared_w2 = find(b, IJ_T_SHARED_W2, layer);
  l->router = bind_matrix(b, IJ_T_ROUTER, layer);
  l->router_bias = bind_vector(b, IJ_T_ROUTER_BIAS, layer);
  l->global_scale = bind_scalar(b, IJ_T_ROUTER_SCALE, layer);
  l->shared = shared;
  for (int s = 0; s < c->n_shared; s++) shared[s] = mlp_of(shared_w13, shared_w2, s, c->expert_width, c->hidden);
  *bank = bank_of(find(b, IJ_T_EXPERT_W13, layer), find(b, IJ_T_EXPERT_W2, layer), c->expert_width, c->hidden);
}

static void bind_layer(binder *b, int layer, ij_mlp *shared, ij_expert_bank *bank) {
  const ij_config *c = b->c;
  ij_layer *l = &b->w->layers[layer];
  l->sliding = c->sliding[layer];
  l->dense = c->dense[layer];
  l->dims = &c->attn[l->sliding];
  bind_attention(b, l, layer);
  l->mlp_norm = bind_vector(b, IJ_T_MLP_NORM, layer);
  l->conv[IJ_CONV_MLP] = bind_conv(b, IJ_T_MLP_CONV, layer);
  if (l->dense) {
    l->mlp = mlp_of(find(b, IJ_T_DENSE_W13, layer), find(b, IJ_T_DENSE_W2, layer), 0, c->dense_width, c->hidden);
    l->global_scale = bind_scalar(b, IJ_T_DENSE_SCALE, layer);
  } else {
    bind_moe(b, l, layer, shared, bank);
  }
}

/* -------------------------------------------------------------------------------------------------------------- plan */

/* Floats that a tensor needs once widened, rounded to a cache line so that the next one starts on one. */
static size_t widened_floats(const ij_config *c, const ij_tensor_view *t, ij_tensor_id id, int layer) {
  size_t n;
  switch (ij__tensor_spec(id)->kind) {
    case IJ_TENSOR_VECTOR:
    case IJ_TENSOR_CONV: n = (size_t)t->n_values; break;
    case IJ_TENSOR_BANK: n = (size_t)c->d_rel * (size_t)(c->attn[c->sliding[layer]].rel_extent + 2 * IJ_REL_PAD); break;
    default: n = 0; break;
  }
  return ij__align_up(n, FLOATS_PER_LINE);
}

/* The part of a tensor that one token reads, as a number of values. */
static int64_t active_values(const ij_config *c, const ij_tensor_view *t, ij_tensor_id id) {
  if (id == IJ_T_EMBED) return c->hidden + (c->tied ? (int64_t)c->unpadded_vocab * c->hidden : 0);
  if (id == IJ_T_UNEMBED) return (int64_t)c->unpadded_vocab * c->hidden;
  if (id == IJ_T_EXPERT_W13 || id == IJ_T_EXPERT_W2) return t->n_values / c->n_expert * c->n_expert_used;
  return t->n_values;
}

/* Sizes everything from the shapes that the audit found good. The sums are bounded by the mapped bytes (times the pads), so they fit. */
static void plan(const binder *b) {
  ij_weights *w = b->w;
  for (int layer = -1; layer < b->c->n_layer; layer++) {
    for (int i = 0; i < IJ_T_COUNT; i++) {
      ij_tensor_id id = (ij_tensor_id)i;
      if (!ij__tensor_expected(b->c, id, layer)) continue;
      const ij_tensor_view *t = find(b, id, layer);
      int64_t active = active_values(b->c, t, id);
      w->n_floats += widened_floats(b->c, t, id, layer);
      w->n_params += t->n_values;
      w->n_params_active += active;
      w->weight_bytes += t->n_bytes;
      w->active_bytes += (size_t)(active * ij__dtype_block_bytes(t->dtype));
    }
  }
}

static ij_status audit_report(const ij_audit *audit, const ij_ckpt *ckpt, ij_err *err) {
  const ij_findings *f = &audit->findings;
  int n_broken = audit->n_missing + audit->n_shape + audit->n_type + audit->n_unknown;
  ij_status code = n_broken ? IJ_E_FORMAT : IJ_E_UNSUPPORTED;
  if (f->n == 0) return IJ_OK;
  if (f->n > f->n_shown)
    return ij__fail(err, code, ij__ckpt_folder(ckpt), "%d findings in the tensors: %s; and %d more", f->n, f->text, f->n - f->n_shown);
  return ij__fail(err, code, ij__ckpt_folder(ckpt), "%d finding%s in the tensors: %s", f->n, f->n == 1 ? "" : "s", f->text);
}

static ij_status finite_report(const ij_findings *f, const ij_ckpt *ckpt, ij_err *err) {
  if (f->n == 0) return IJ_OK;
  return ij__fail(err, IJ_E_FORMAT, ij__ckpt_folder(ckpt), "the checkpoint is damaged, %d tensor%s with values that are not finite: %s%s",
                  f->n, f->n == 1 ? "" : "s", f->text, f->n > f->n_shown ? "; and more" : "");
}

/* Layers and the shared experts of all of them lie in one block. */
static ij_status bind_all(binder *b, ij_expert_bank *banks, ij_err *err) {
  const ij_config *c = b->c;
  ij_weights *w = b->w;
  size_t n_layer = (size_t)c->n_layer, shared_at = ij__align_up(n_layer * sizeof(ij_layer), IJ_ALIGNMENT);
  size_t layer_bytes = shared_at + n_layer * (size_t)c->n_shared * sizeof(ij_mlp);
  w->layers = ij__alloc_zero(layer_bytes, 1);
  if (!w->layers) return ij__fail_nomem(err, "the layer table", layer_bytes);
  w->floats = ij__alloc_zero(w->n_floats, sizeof(float));
  if (!w->floats) return ij__fail_nomem(err, "norms, convolutions and relative banks", w->n_floats * sizeof(float));
  ij_mlp *shared = (ij_mlp *)(void *)((char *)w->layers + shared_at);
  w->embed = bind_matrix(b, IJ_T_EMBED, -1);
  w->unembed = c->tied ? w->embed : bind_matrix(b, IJ_T_UNEMBED, -1);
  w->embed_norm = bind_vector(b, IJ_T_EMBED_NORM, -1);
  w->norm = bind_vector(b, IJ_T_NORM, -1);
  for (int i = 0; i < c->n_layer; i++) bind_layer(b, i, shared + (size_t)i * (size_t)c->n_shared, &banks[i]);
  ij_status s = finite_report(&b->not_finite, b->ckpt, err);
  return s == IJ_OK ? ij__experts_open_mapped(&w->experts, banks, c->n_layer, c->n_expert, err) : s;
}

ij_status ij__weights_bind(ij_weights *out, const ij_config *config, const ij_ckpt *ckpt, ij_err *err) {
  memset(out, 0, sizeof *out);
  ij_status s = ij__names_check_form(ckpt, err);
  if (s != IJ_OK) return s;
  ij_audit audit = {0};
  ij__tensors_audit(&audit, config, ckpt);
  s = audit_report(&audit, ckpt, err);
  if (s != IJ_OK) return s;
  binder b = {.w = out, .c = config, .ckpt = ckpt};
  plan(&b);
  ij_expert_bank *banks = ij__alloc_zero((size_t)config->n_layer, sizeof(ij_expert_bank));
  s = banks ? bind_all(&b, banks, err) : ij__fail_nomem(err, "the expert banks", (size_t)config->n_layer * sizeof(ij_expert_bank));
  ij__free(banks);
  if (s != IJ_OK) ij__weights_free(out);
  return s;
}

void ij__weights_free(ij_weights *w) {
  ij__experts_close(&w->experts);
  ij__free(w->floats);
  ij__free(w->layers);
  memset(w, 0, sizeof *w);
}
