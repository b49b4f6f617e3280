/* bind_check.h: every field of ij_weights against the values of a model in original names, whatever layout and format it was stored in.
 * Stored rows are decoded by the scalar kernels. */
#ifndef IJ_TEST_BIND_CHECK_H
#define IJ_TEST_BIND_CHECK_H

#include "cache/experts.h"
#include "ckpt_writer.h"
#include "kernels/kernels.h"
#include "model/sources.h"
#include "model/weights.h"

typedef struct bc_loaded {
  ij_ckpt *ckpt;
  ij_config config;
  ij_weights w;
} bc_loaded;

static inline ij_status bc_load(bc_loaded *l, const char *path, ij_err *err) {
  memset(l, 0, sizeof *l);
  memset(err, 0, sizeof *err);
  ij_status s = ij__ckpt_open(&l->ckpt, path, err);
  if (s == IJ_OK) s = ij__config_read(&l->config, l->ckpt, err);
  if (s == IJ_OK) s = ij__weights_bind(&l->w, &l->config, l->ckpt, err);
  return s;
}

static inline void bc_unload(bc_loaded *l) {
  ij__weights_free(&l->w);
  ij__ckpt_close(&l->ckpt);
}

/* One row as float32. */
static inline const float *bc_row(const ij_weight *w, int64_t row) {
  static float y[4096];
  const ij_kernels *k = ij__kernels_get(IJ_LEVEL_SCALAR);
  ij_weight at = ij__weight_from(*w, row);
  ij_stretch s = {.row = at.data, .scales = at.scales, .biases = at.biases, .side_dtype = w->side_dtype, .group = w->group, .n = w->cols};
  if (ij__dtype_is_float(w->dtype))
    k->widen[w->dtype](y, at.data, w->cols);
  else
    k->decode[w->dtype](y, &s);
  for (int64_t c = 0; w->has_factor && c < w->cols; c++) y[c] *= w->factor;
  return y;
}

/* Rows of w are rows first, first + step, ... of the tensor as written. */
static inline void bc_check_rows(const ij_weight *w, cw_model *ref, const char *name, int64_t rows, int64_t first, int64_t step) {
  const cw_tensor *t = cw_find(ref, name);
  int64_t cols = t->dims[t->n_dims - 1];
  CHECK_INT(w->rows, rows);
  CHECK_INT(w->cols, cols);
  if (ij__dtype_is_float(w->dtype)) CHECK_INT(w->dtype, t->dtype);
  int bad = 0;
  for (int64_t r = 0; r < rows; r++) bad += memcmp(bc_row(w, r), t->values + (first + r * step) * cols, (size_t)cols * sizeof(float)) != 0;
  if (bad) TEST_FAIL("%s: %d rows differ", name, bad);
}

static inline void bc_check_vector(const float *v, cw_model *ref, const char *name) {
  const cw_tensor *t = cw_find(ref, name);
  CHECK((uintptr_t)v % 64 == 0);
  if (memcmp(v, t->values, (size_t)t->n * sizeof(float)) != 0) TEST_FAIL("%s differs", name);
}

static inline void bc_check_conv(const float *v, cw_model *ref, const char *name) {
  const cw_tensor *t = cw_find(ref, name);
  int64_t channels = t->dims[0], taps = t->n / channels;
  CHECK((uintptr_t)v % 64 == 0);
  int bad = 0;
  for (int64_t c = 0; c < channels; c++) {
    for (int64_t j = 0; j < taps; j++) bad += v[j * channels + c] != t->values[c * taps + j];
  }
  if (bad) TEST_FAIL("%s: %d taps differ", name, bad);
}

static inline void bc_check_rel(const ij_layer *layer, cw_model *ref, const char *name) {
  const cw_tensor *t = cw_find(ref, name);
  int64_t extent = t->dims[1];
  CHECK_INT(layer->rel_ld, 2 * IJ_REL_PAD + extent);
  int bad = 0;
  for (int64_t j = 0; j < t->dims[0]; j++) {
    for (int64_t i = 0; i < layer->rel_ld; i++) {
      int64_t dist = IJ_REL_PAD + extent - 1 - i;
      bad += layer->rel[j * layer->rel_ld + i] != (dist >= 0 && dist < extent ? t->values[j * extent + dist] : 0);
    }
  }
  if (bad) TEST_FAIL("%s: %d values differ", name, bad);
}

static inline const char *bc_named(int layer, const char *rest) {
  static char buf[4][96];
  static int turn;
  char *p = buf[turn++ & 3];
  snprintf(p, 96, "model.llm.layers.%d.%s", layer, rest);
  return p;
}

static inline void bc_check_mlp(const ij_mlp *m, cw_model *ref, const char *w13, const char *w2, int64_t index, int64_t width,
                                int64_t hidden) {
  bc_check_rows(&m->gate, ref, w13, width, index * 2 * width, 2);
  bc_check_rows(&m->up, ref, w13, width, index * 2 * width + 1, 2);
  bc_check_rows(&m->down, ref, w2, hidden, index * hidden, 1);
}

static inline void bc_check_moe(bc_loaded *l, cw_model *ref, const cw_dims *d, int i) {
  const ij_layer *layer = &l->w.layers[i];
  bc_check_rows(&layer->router, ref, bc_named(i, "mlp.gate.weight"), d->n_expert + d->n_shared, 0, 1);
  bc_check_vector(layer->router_bias, ref, bc_named(i, "mlp.gate.bias"));
  CHECK(layer->global_scale == cw_find(ref, bc_named(i, "mlp.gate.global_scale"))->values[0]);
  const char *w13 = bc_named(i, "mlp.shared_experts.shared_w13_weight"), *w2 = bc_named(i, "mlp.shared_experts.shared_w2_weight");
  for (int s = 0; s < d->n_shared; s++) bc_check_mlp(&layer->shared[s], ref, w13, w2, s, d->moe, d->hidden);
  for (int e = 0; e < d->n_expert; e++) {
    ij_expert_lease lease;
    CHECK_INT(ij__experts_acquire(l->w.experts, i, &e, 1, &lease), 1);
    ij_mlp m = {lease.gate, lease.up, lease.down};
    CHECK_INT(lease.expert, e);
    CHECK_INT(lease.layer, i);
    bc_check_mlp(&m, ref, bc_named(i, "mlp.experts.w13_weight"), bc_named(i, "mlp.experts.w2_weight"), e, d->moe, d->hidden);
    ij__experts_release(l->w.experts, &lease, 1);
  }
}

static inline void bc_check_layer(bc_loaded *l, cw_model *ref, const cw_dims *d, int i) {
  const ij_layer *layer = &l->w.layers[i];
  int kv = (d->sliding[i] ? d->swa_kv : d->n_kv) * d->d;
  CHECK_INT(layer->sliding, d->sliding[i]);
  CHECK_INT(layer->dense, d->is_dense[i]);
  CHECK(layer->dims == &l->config.attn[d->sliding[i]]);
  bc_check_vector(layer->attn_norm, ref, bc_named(i, "attn_norm.weight"));
  bc_check_vector(layer->mlp_norm, ref, bc_named(i, "mlp_norm.weight"));
  bc_check_vector(layer->q_norm, ref, bc_named(i, "attn.q_norm.weight"));
  bc_check_vector(layer->k_norm, ref, bc_named(i, "attn.k_norm.weight"));
  bc_check_rows(&layer->wq, ref, bc_named(i, "attn.wq_du.weight"), d->n_head * d->d, 0, 1);
  bc_check_rows(&layer->wk, ref, bc_named(i, "attn.wk_dv.weight"), kv, 0, 1);
  bc_check_rows(&layer->wv, ref, bc_named(i, "attn.wv_dv.weight"), kv, 0, 1);
  bc_check_rows(&layer->wr, ref, bc_named(i, "attn.wr_du.weight"), d->n_head * d->d_rel, 0, 1);
  bc_check_rows(&layer->wo, ref, bc_named(i, "attn.wo_ud.weight"), d->hidden, 0, 1);
  bc_check_conv(layer->conv[IJ_CONV_K], ref, bc_named(i, "attn.k_sconv.weight"));
  bc_check_conv(layer->conv[IJ_CONV_V], ref, bc_named(i, "attn.v_sconv.weight"));
  bc_check_conv(layer->conv[IJ_CONV_ATTN], ref, bc_named(i, "attn_sconv.weight"));
  bc_check_conv(layer->conv[IJ_CONV_MLP], ref, bc_named(i, "mlp_sconv.weight"));
  bc_check_rel(layer, ref, bc_named(i, "attn.rel_logits_proj.proj"));
  if (layer->dense) {
    bc_check_mlp(&layer->mlp, ref, bc_named(i, "mlp.w13_dn.weight"), bc_named(i, "mlp.w2_md.weight"), 0, d->dense, d->hidden);
    CHECK(layer->global_scale == cw_find(ref, bc_named(i, "mlp.global_scale"))->values[0]);
  } else {
    bc_check_moe(l, ref, d, i);
  }
}

static inline void bc_check_everything(bc_loaded *l, cw_model *ref, const cw_dims *d) {
  bc_check_rows(&l->w.embed, ref, "model.llm.embed.weight", d->vocab, 0, 1);
  bc_check_rows(&l->w.unembed, ref, "model.llm.unembed.weight", d->vocab, 0, 1);
  bc_check_vector(l->w.embed_norm, ref, "model.llm.embed_norm.weight");
  bc_check_vector(l->w.norm, ref, "model.llm.norm.weight");
  for (int i = 0; i < d->n_layer; i++) bc_check_layer(l, ref, d, i);
}

#endif
