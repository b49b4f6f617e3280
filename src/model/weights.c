/* weights.c: names -> fields. One audit of the whole checkpoint, one plan of the widened floats, one pass that binds.
 *
 * After the audit every slot is known to be full, with its shape and a type that can be used, so binding itself can only fail on memory
 * and on values that are not finite. Matrices are views into the mapping and are not read here: opening a model of any size costs the
 * same. What differs between layouts (gate and up in turns, in halves, apart; q, k, v and r in one; merged shared experts) is a choice
 * of first row, step and first column. */
#include "model/weights.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "model/sources.h"

#define FLOATS_PER_LINE (IJ_ALIGNMENT / sizeof(float))

typedef struct binder {
  ij_weights *w;
  const ij_config *c;
  const ij_names *names;
  size_t next_float; /* first float of w->floats not handed out */
  ij_findings not_finite;
} binder;

/* A slot with its matrices resolved. */
typedef struct resolved {
  ij_slot slot;
  ij_matrix m[2];
} resolved;

static void resolve(resolved *r, const ij_config *c, const ij_names *names, ij_tensor_id id, int layer) {
  bool full = ij__slot_find(&r->slot, names, id, layer);
  assert(full && "the audit let a missing tensor through");
  (void)full;
  if (ij__tensor_spec(id)->kind != IJ_TENSOR_MATRIX) return;
  for (int i = 0; i < r->slot.n; i++) {
    int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS];
    ij_dim letters[IJ_TENSOR_MAX_SPEC_DIMS];
    char why[8];
    int n = ij__source_shape(dims, letters, c, &r->slot.source[i], layer);
    bool ok = ij__source_matrix(&r->m[i], names, &r->slot.source[i], dims[n - 1], n == 3 ? dims[0] : 1, why, sizeof why);
    assert(ok && "the audit let a matrix through that cannot be read");
    (void)ok;
  }
}

/* ---------------------------------------------------------------------------------------------------------- widening */

/* Notes a value that no computation could survive. The first one of a tensor is enough. */
static void check_finite(binder *b, const ij_tensor_view *t) {
  for (int64_t i = 0; i < t->n_values; i++) {
    float f = ij__tensor_value(t, i);
    if (isfinite(f)) continue;
    ij__findings_add(&b->not_finite, "%s[%lld] is %s", t->name, (long long)i, isnan(f) ? "not a number" : "infinite");
    return;
  }
}

static const ij_tensor_view *small(const binder *b, ij_tensor_id id, int layer) {
  resolved r;
  resolve(&r, b->c, b->names, id, layer);
  return r.slot.source[0].main;
}

static float *take_floats(binder *b, size_t n) {
  float *p = b->w->floats + b->next_float;
  b->next_float += ij__align_up(n, FLOATS_PER_LINE);
  assert(b->next_float <= b->w->n_floats);
  return p;
}

static const float *bind_vector(binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = small(b, id, layer);
  float *out = take_floats(b, (size_t)t->n_values);
  check_finite(b, t);
  for (int64_t i = 0; i < t->n_values; i++) out[i] = ij__tensor_value(t, i);
  return out;
}

static float bind_scalar(binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = small(b, id, layer);
  check_finite(b, t);
  return ij__tensor_value(t, 0);
}

/* [C][K] in the file (whichever of its three spellings) -> [K][C]. */
static const float *bind_conv(binder *b, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = small(b, id, layer);
  int64_t n_tap = b->c->conv_kernel, n_channel = t->n_values / n_tap;
  float *out = take_floats(b, (size_t)t->n_values);
  check_finite(b, t);
  for (int64_t c = 0; c < n_channel; c++) {
    for (int64_t j = 0; j < n_tap; j++) out[j * n_channel + c] = ij__tensor_value(t, c * n_tap + j);
  }
  return out;
}

/* [d_rel][extent] by distance -> rows reversed between zero pads: | pad | extent - 1 ... 1 0 | pad |. The block is zeroed before. */
static const float *bind_bank(binder *b, int layer, int extent, int ld) {
  const ij_tensor_view *t = small(b, IJ_T_REL, layer);
  float *out = take_floats(b, (size_t)b->c->d_rel * (size_t)ld);
  check_finite(b, t);
  for (int64_t j = 0; j < b->c->d_rel; j++) {
    for (int64_t dist = 0; dist < extent; dist++) out[j * ld + IJ_REL_PAD + extent - 1 - dist] = ij__tensor_value(t, j * extent + dist);
  }
  return out;
}

/* ---------------------------------------------------------------------------------------------------------- matrices */

/* Factor `unit` of a source, as a multiplier. */
static float factor_at(binder *b, const ij_matrix *m, int64_t unit) {
  float f = ij__tensor_value(m->factor, unit);
  if (!m->divides) return f;
  if (f == 0) ij__findings_add(&b->not_finite, "%s[%lld] is 0, and divides", m->factor->name, (long long)unit);
  return 1.0f / f;
}

static void set_factor(binder *b, ij_weight *w, const ij_matrix *m, int64_t unit) {
  if (!m->factor) return;
  if (unit == 0) check_finite(b, m->factor);
  w->has_factor = true;
  w->factor = factor_at(b, m, unit);
}

/* First row of a slot in the tensor that holds it, which for q, k, v and r may be one. */
static int64_t row_in_source(const ij_config *c, const ij_source *s, int layer) {
  if (s->row->part != IJ_PART_QKVR) return 0;
  int64_t q = ij__dim_value(IJ_DIM_Q, c, layer), kv = ij__dim_value(IJ_DIM_KV, c, layer);
  return s->row->id == IJ_T_WQ ? 0 : s->row->id == IJ_T_WK ? q : s->row->id == IJ_T_WV ? q + kv : q + 2 * kv;
}

static ij_weight bind_matrix(binder *b, ij_tensor_id id, int layer) {
  resolved r;
  int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS];
  resolve(&r, b->c, b->names, id, layer);
  ij__tensor_shape(dims, b->c, id, layer);
  ij_weight w = ij__matrix_view(&r.m[0], row_in_source(b->c, &r.slot.source[0], layer), 1, dims[0], 0, dims[1]);
  set_factor(b, &w, &r.m[0], 0);
  return w;
}

/* Gate or up of unit `unit` of a stack of w13 [n, 2 * width, H] or of two stacks [n, width, H]. */
static ij_weight half_of_w13(const resolved *r, bool up, int64_t unit, int64_t width) {
  const ij_matrix *m = &r->m[r->slot.n == 2 && up];
  switch (r->slot.source[0].row->part) {
    case IJ_PART_PAIRS: return ij__matrix_view(m, unit * 2 * width + up, 2, width, 0, m->cols);
    case IJ_PART_HALVES: return ij__matrix_view(m, unit * 2 * width + (up ? width : 0), 1, width, 0, m->cols);
    default: return ij__matrix_view(m, unit * width, 1, width, 0, m->cols);
  }
}

/* Unit `unit` of a stack of w2 [n, H, width], or of a merged one [H, n * width]. */
static ij_weight unit_of_w2(const resolved *r, int64_t unit, int64_t width, int64_t hidden) {
  const ij_matrix *m = &r->m[0];
  if (ij__source_merged(&r->slot.source[0])) return ij__matrix_view(m, 0, 1, hidden, unit * width, width);
  return ij__matrix_view(m, unit * hidden, 1, hidden, 0, width);
}

/* Dense layers and shared experts: the factors of a stack are one per unit. */
static ij_mlp mlp_of(binder *b, const resolved *w13, const resolved *w2, int64_t unit, int64_t width) {
  ij_mlp m = {.gate = half_of_w13(w13, false, unit, width), .up = half_of_w13(w13, true, unit, width),
              .down = unit_of_w2(w2, unit, width, b->c->hidden)};
  set_factor(b, &m.gate, &w13->m[0], unit);
  set_factor(b, &m.up, &w13->m[w13->slot.n - 1], unit);
  set_factor(b, &m.down, &w2->m[0], unit);
  return m;
}

/* The factors of one part of a bank: those of its source times those that stand apart. NULL when there are neither. */
static const float *bind_factors(binder *b, const ij_matrix *m, const ij_source *apart) {
  if (!m->factor && !apart) return NULL;
  float *out = take_floats(b, (size_t)b->c->n_expert);
  if (m->factor) check_finite(b, m->factor);
  if (apart) check_finite(b, apart->main);
  for (int e = 0; e < b->c->n_expert; e++) {
    out[e] = (m->factor ? factor_at(b, m, e) : 1.0f) * (apart ? ij__tensor_value(apart->main, e) : 1.0f);
  }
  return out;
}

/* Experts are the outermost dimension of every form: the strides follow from the rows of one. */
static ij_expert_bank bank_of(binder *b, const resolved *w13, const resolved *w2) {
  int64_t width = b->c->expert_width, hidden = b->c->hidden, rows = w13->slot.n == 2 ? width : 2 * width;
  const ij_matrix *gate = &w13->m[0], *up = &w13->m[w13->slot.n - 1], *down = &w2->m[0];
  const ij_source *gate_factor = w13->slot.factor.row ? &w13->slot.factor : NULL;
  const ij_source *down_factor = w2->slot.factor.row ? &w2->slot.factor : NULL;
  ij_expert_bank bank = {
      .gate = {.first = half_of_w13(w13, false, 0, width), .stride = rows * gate->row_bytes, .side_stride = rows * gate->side_bytes},
      .up = {.first = half_of_w13(w13, true, 0, width), .stride = rows * up->row_bytes, .side_stride = rows * up->side_bytes},
      .down = {.first = unit_of_w2(w2, 0, width, hidden), .stride = hidden * down->row_bytes, .side_stride = hidden * down->side_bytes},
  };
  bank.gate.factors = bind_factors(b, gate, gate_factor);
  bank.up.factors = w13->slot.n == 1 && !gate_factor ? bank.gate.factors : bind_factors(b, up, NULL);
  bank.down.factors = bind_factors(b, down, down_factor);
  return bank;
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
  resolved w13, w2;
  l->router = bind_matrix(b, IJ_T_ROUTER, layer);
  l->router_bias = bind_vector(b, IJ_T_ROUTER_BIAS, layer);
  l->global_scale = bind_scalar(b, IJ_T_ROUTER_SCALE, layer);
  l->shared = shared;
  resolve(&w13, c, b->names, IJ_T_SHARED_W13, layer);
  resolve(&w2, c, b->names, IJ_T_SHARED_W2, layer);
  for (int s = 0; s < c->n_shared; s++) shared[s] = mlp_of(b, &w13, &w2, s, c->expert_width);
  resolve(&w13, c, b->names, IJ_T_EXPERT_W13, layer);
  resolve(&w2, c, b->names, IJ_T_EXPERT_W2, layer);
  *bank = bank_of(b, &w13, &w2);
}

static void bind_dense(binder *b, ij_layer *l, int layer) {
  resolved w13, w2;
  resolve(&w13, b->c, b->names, IJ_T_DENSE_W13, layer);
  resolve(&w2, b->c, b->names, IJ_T_DENSE_W2, layer);
  l->mlp = mlp_of(b, &w13, &w2, 0, b->c->dense_width);
  l->global_scale = bind_scalar(b, IJ_T_DENSE_SCALE, layer);
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
    bind_dense(b, l, layer);
  } else {
    bind_moe(b, l, layer, shared, bank);
  }
}

/* -------------------------------------------------------------------------------------------------------------- plan */

/* Floats that a slot needs once widened, each part rounded to a cache line so that the next one starts on one. */
static size_t widened_floats(const ij_config *c, const resolved *r, ij_tensor_id id, int layer) {
  const ij_tensor_view *t = r->slot.source[0].main;
  switch (ij__tensor_spec(id)->kind) {
    case IJ_TENSOR_VECTOR:
    case IJ_TENSOR_CONV: return ij__align_up((size_t)t->n_values, FLOATS_PER_LINE);
    case IJ_TENSOR_BANK:
      return ij__align_up((size_t)c->d_rel * (size_t)(c->attn[c->sliding[layer]].rel_extent + 2 * IJ_REL_PAD), FLOATS_PER_LINE);
    default: break;
  }
  if (id != IJ_T_EXPERT_W13 && id != IJ_T_EXPERT_W2) return 0;
  bool factors = r->slot.factor.row || r->m[0].factor || (r->slot.n == 2 && r->m[1].factor);
  return factors ? 2 * ij__align_up((size_t)c->n_expert, FLOATS_PER_LINE) : 0; /* of gate and up, or of down */
}

static ij_weight_class class_of(ij_tensor_id id) {
  switch (id) {
    case IJ_T_EMBED: return IJ_CLASS_EMBED;
    case IJ_T_UNEMBED: return IJ_CLASS_UNEMBED;
    case IJ_T_WQ: case IJ_T_WK: case IJ_T_WV: case IJ_T_WR: case IJ_T_WO: return IJ_CLASS_ATTENTION;
    case IJ_T_DENSE_W13: case IJ_T_DENSE_W2: return IJ_CLASS_DENSE;
    case IJ_T_SHARED_W13: case IJ_T_SHARED_W2: return IJ_CLASS_SHARED;
    case IJ_T_EXPERT_W13: case IJ_T_EXPERT_W2: return IJ_CLASS_ROUTED;
    case IJ_T_ROUTER: return IJ_CLASS_ROUTER;
    default: return IJ_CLASS_SMALL;
  }
}

const char *ij__weight_class_name(ij_weight_class c) {
  static const char *const names[IJ_CLASS_COUNT] = {
      [IJ_CLASS_EMBED] = "embedding", [IJ_CLASS_UNEMBED] = "unembedding", [IJ_CLASS_ATTENTION] = "attention",
      [IJ_CLASS_DENSE] = "dense layers", [IJ_CLASS_SHARED] = "shared experts", [IJ_CLASS_ROUTED] = "routed experts",
      [IJ_CLASS_ROUTER] = "router", [IJ_CLASS_SMALL] = "norms, convolutions, biases"};
  return names[c];
}

static void count(ij_weights *w, ij_weight_class kind, ij_dtype dtype, int group, const ij_weight_stat *add) {
  ij_weight_stat *s = &w->stats[kind][dtype];
  s->group = s->n_matrices && s->group != group ? -1 : group;
  s->n_matrices++;
  s->n_values += add->n_values;
  s->n_values_active += add->n_values_active;
  s->n_bytes += add->n_bytes;
  s->active_bytes += add->active_bytes;
  w->n_params += add->n_values;
  w->n_params_active += add->n_values_active;
  w->weight_bytes += add->n_bytes;
  w->active_bytes += add->active_bytes;
}

/* Rows of a matrix that one token reads. */
static int64_t active_rows(const ij_config *c, ij_tensor_id id, int64_t rows) {
  if (id == IJ_T_EMBED) return 1 + (c->tied ? (int64_t)c->unpadded_vocab : 0);
  if (id == IJ_T_UNEMBED) return c->unpadded_vocab;
  if (id == IJ_T_EXPERT_W13 || id == IJ_T_EXPERT_W2) return rows / c->n_expert * c->n_expert_used;
  return rows;
}

/* One source of a matrix slot, scales and biases and factors counted as bytes, not as values. */
static void count_matrix(const binder *b, const resolved *r, int i, ij_tensor_id id, int layer) {
  const ij_source *s = &r->slot.source[i];
  const ij_matrix *m = &r->m[i];
  int64_t rows = 1, dims[IJ_TENSOR_MAX_SPEC_DIMS];
  for (int d = 0; d < s->main->n_dims - 1; d++) rows *= s->main->dims[d];
  if (s->row->part == IJ_PART_QKVR) {
    ij__tensor_shape(dims, b->c, id, layer);
    rows = dims[0];
  }
  int64_t active = active_rows(b->c, id, rows), row_bytes = m->row_bytes + m->side_bytes * (m->biases ? 2 : 1);
  size_t factor = m->factor ? m->factor->n_bytes : 0, factor_active = factor;
  if (i == 0 && r->slot.factor.row) factor += r->slot.factor.main->n_bytes;
  if (class_of(id) == IJ_CLASS_ROUTED) factor_active = factor / (size_t)b->c->n_expert * (size_t)b->c->n_expert_used;
  ij_weight_stat add = {.n_values = rows * m->cols, .n_values_active = active * m->cols, .n_bytes = (size_t)(rows * row_bytes) + factor,
                        .active_bytes = (size_t)(active * row_bytes) + factor_active};
  count(b->w, class_of(id), m->dtype, m->group, &add);
}

/* Sizes everything from the shapes that the audit found good. The sums are bounded by the mapped bytes (times the pads), so they fit. The small
 * tensors, which binding reads, are asked for on the way: all at once, and nothing around them. */
static void plan(const binder *b) {
  for (int layer = -1; layer < b->c->n_layer; layer++) {
    for (int i = 0; i < IJ_T_COUNT; i++) {
      ij_tensor_id id = (ij_tensor_id)i;
      resolved r;
      if (!ij__tensor_expected(b->c, id, layer)) continue;
      resolve(&r, b->c, b->names, id, layer);
      b->w->n_floats += widened_floats(b->c, &r, id, layer);
      if (ij__tensor_spec(id)->kind == IJ_TENSOR_MATRIX) {
        for (int k = 0; k < r.slot.n; k++) count_matrix(b, &r, k, id, layer);
      } else {
        const ij_tensor_view *t = r.slot.source[0].main;
        ij__ckpt_advise(b->names->ckpt, t->data, t->n_bytes, IJ_ADVICE_SOON);
        ij_weight_stat add = {.n_values = t->n_values, .n_values_active = t->n_values, .n_bytes = t->n_bytes, .active_bytes = t->n_bytes};
        count(b->w, IJ_CLASS_SMALL, t->dtype, 0, &add);
      }
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
static ij_status bind_all(binder *b, ij_err *err) {
  const ij_config *c = b->c;
  ij_weights *w = b->w;
  size_t n_layer = (size_t)c->n_layer, shared_at = ij__align_up(n_layer * sizeof(ij_layer), IJ_ALIGNMENT);
  size_t layer_bytes = shared_at + n_layer * (size_t)c->n_shared * sizeof(ij_mlp);
  w->layers = ij__alloc_zero(layer_bytes, 1);
  if (!w->layers) return ij__fail_nomem(err, "the layer table", layer_bytes);
  w->floats = ij__alloc_zero(w->n_floats, sizeof(float));
  if (!w->floats) return ij__fail_nomem(err, "norms, convolutions and relative banks", w->n_floats * sizeof(float));
  w->banks = ij__alloc_zero(n_layer, sizeof(ij_expert_bank));
  if (!w->banks) return ij__fail_nomem(err, "the expert banks", n_layer * sizeof(ij_expert_bank));
  ij_mlp *shared = (ij_mlp *)(void *)((char *)w->layers + shared_at);
  w->embed = bind_matrix(b, IJ_T_EMBED, -1);
  w->unembed = c->tied ? w->embed : bind_matrix(b, IJ_T_UNEMBED, -1);
  w->embed_norm = bind_vector(b, IJ_T_EMBED_NORM, -1);
  w->norm = bind_vector(b, IJ_T_NORM, -1);
  for (int i = 0; i < c->n_layer; i++) bind_layer(b, i, shared + (size_t)i * (size_t)c->n_shared, &w->banks[i]);
  ij_status s = finite_report(&b->not_finite, b->names->ckpt, err);
  ij_expert_banks banks = ij__weights_banks(w, c);
  return s == IJ_OK ? ij__experts_open_mapped(&w->experts, &banks, err) : s;
}

ij_status ij__weights_bind(ij_weights *out, const ij_config *config, const ij_ckpt *ckpt, ij_err *err) {
  memset(out, 0, sizeof *out);
  ij_status s = ij__names_open(&out->names, ckpt, err);
  if (s != IJ_OK) return s;
  ij_audit audit = {0};
  ij__tensors_audit(&audit, config, &out->names);
  s = audit_report(&audit, ckpt, err);
  if (s != IJ_OK) return s;
  binder b = {.w = out, .c = config, .names = &out->names};
  ij__ckpt_advise(ckpt, NULL, 0, IJ_ADVICE_RANDOM);
  plan(&b);
  s = bind_all(&b, err);
  ij__ckpt_advise(ckpt, NULL, 0, IJ_ADVICE_USUAL);
  if (s != IJ_OK) ij__weights_free(out);
  return s;
}

void ij__weights_take_home(ij_weights *w, ij_experts *home) {
  ij__experts_close(&w->experts);
  w->experts = home;
}

void ij__weights_free(ij_weights *w) {
  ij__experts_close(&w->experts);
  ij__row_file_close(&w->embed_file);
  ij__copies_close(&w->dense);
  ij__free(w->banks);
  ij__free(w->floats);
  ij__free(w->layers);
  memset(w, 0, sizeof *w);
}
