/* names.h: the tensors of the decoder, as one table: name, kind, shape in letters, which layers carry it.
 *
 * Binding, shape checks, `info` and the tools all read this table, so a name or a shape is written down once. Only the original
 * `model.llm.*` names are known here; towers and multi-token prediction are recognized by prefix and left alone.
 */
#ifndef IJ_MODEL_NAMES_H
#define IJ_MODEL_NAMES_H

#include "core/base.h"
#include "core/status.h"
#include "io/ckpt.h"
#include "model/config.h"

/* Letters of the shapes. d: head_dim. Q, KV, R: rows of the query, key/value and relative projections, by kind of layer. */
typedef enum ij_dim {
  IJ_DIM_END,
  IJ_DIM_V,      /* vocabulary */
  IJ_DIM_H,      /* hidden */
  IJ_DIM_d,      /* head_dim */
  IJ_DIM_Q,      /* n_head * d */
  IJ_DIM_KV,     /* n_kv_head * d */
  IJ_DIM_R,      /* n_head * d_rel */
  IJ_DIM_REL,    /* d_rel */
  IJ_DIM_EXTENT, /* rel_extent, or the window on sliding layers */
  IJ_DIM_K,      /* taps of a convolution */
  IJ_DIM_D,      /* width of a dense layer */
  IJ_DIM_2D,
  IJ_DIM_I,      /* width of an expert */
  IJ_DIM_2I,
  IJ_DIM_E,      /* routed experts */
  IJ_DIM_S,      /* shared experts */
  IJ_DIM_ES,     /* E + S */
  IJ_DIM_COUNT
} ij_dim;

typedef enum ij_tensor_kind {
  IJ_TENSOR_MATRIX, /* used where it lies */
  IJ_TENSOR_VECTOR, /* widened at load */
  IJ_TENSOR_BANK,   /* the relative bank, widened and reversed */
  IJ_TENSOR_CONV,   /* [C, K]; a third dimension of 1 may stand in the middle or at the end */
  IJ_TENSOR_SCALAR  /* one value, [1] or [] */
} ij_tensor_kind;

typedef enum ij_tensor_place { IJ_IN_MODEL, IJ_IN_LAYER, IJ_IN_DENSE, IJ_IN_MOE } ij_tensor_place;

#define IJ_TENSOR_MAX_SPEC_DIMS 3

/* X(id, place, name after "model.llm." or "model.llm.layers.N.", kind, up to three dimensions).
 * w13 rows alternate: row 2i is row i of gate, row 2i + 1 is row i of up. */
#define IJ_TENSOR_LIST(X)                                                             \
  X(EMBED, MODEL, "embed.weight", MATRIX, V, H, END)                                  \
  X(EMBED_NORM, MODEL, "embed_norm.weight", VECTOR, H, END, END)                      \
  X(NORM, MODEL, "norm.weight", VECTOR, H, END, END)                                  \
  X(UNEMBED, MODEL, "unembed.weight", MATRIX, V, H, END)                              \
  X(ATTN_NORM, LAYER, "attn_norm.weight", VECTOR, H, END, END)                        \
  X(WQ, LAYER, "attn.wq_du.weight", MATRIX, Q, H, END)                                \
  X(WK, LAYER, "attn.wk_dv.weight", MATRIX, KV, H, END)                               \
  X(WV, LAYER, "attn.wv_dv.weight", MATRIX, KV, H, END)                               \
  X(WR, LAYER, "attn.wr_du.weight", MATRIX, R, H, END)                                \
  X(WO, LAYER, "attn.wo_ud.weight", MATRIX, H, Q, END)                                \
  X(Q_NORM, LAYER, "attn.q_norm.weight", VECTOR, d, END, END)                         \
  X(K_NORM, LAYER, "attn.k_norm.weight", VECTOR, d, END, END)                         \
  X(K_CONV, LAYER, "attn.k_sconv.weight", CONV, KV, K, END)                           \
  X(V_CONV, LAYER, "attn.v_sconv.weight", CONV, KV, K, END)                           \
  X(REL, LAYER, "attn.rel_logits_proj.proj", BANK, REL, EXTENT, END)                  \
  X(ATTN_CONV, LAYER, "attn_sconv.weight", CONV, H, K, END)                           \
  X(MLP_NORM, LAYER, "mlp_norm.weight", VECTOR, H, END, END)                          \
  X(MLP_CONV, LAYER, "mlp_sconv.weight", CONV, H, K, END)                             \
  X(DENSE_W13, DENSE, "mlp.w13_dn.weight", MATRIX, 2D, H, END)                        \
  X(DENSE_W2, DENSE, "mlp.w2_md.weight", MATRIX, H, D, END)                           \
  X(DENSE_SCALE, DENSE, "mlp.global_scale", SCALAR, END, END, END)                    \
  X(ROUTER, MOE, "mlp.gate.weight", MATRIX, ES, H, END)                               \
  X(ROUTER_BIAS, MOE, "mlp.gate.bias", VECTOR, E, END, END)                           \
  X(ROUTER_SCALE, MOE, "mlp.gate.global_scale", SCALAR, END, END, END)                \
  X(EXPERT_W13, MOE, "mlp.experts.w13_weight", MATRIX, E, 2I, H)                      \
  X(EXPERT_W2, MOE, "mlp.experts.w2_weight", MATRIX, E, H, I)                         \
  X(SHARED_W13, MOE, "mlp.shared_experts.shared_w13_weight", MATRIX, S, 2I, H)        \
  X(SHARED_W2, MOE, "mlp.shared_experts.shared_w2_weight", MATRIX, S, H, I)

typedef enum ij_tensor_id {
#define IJ_TENSOR_ENUM(id, place, name, kind, d0, d1, d2) IJ_T_##id,
  IJ_TENSOR_LIST(IJ_TENSOR_ENUM)
#undef IJ_TENSOR_ENUM
  IJ_T_COUNT
} ij_tensor_id;

typedef struct ij_tensor_spec {
  const char *name;
  ij_tensor_place place;
  ij_tensor_kind kind;
  ij_dim dims[IJ_TENSOR_MAX_SPEC_DIMS]; /* ends at IJ_DIM_END */
} ij_tensor_spec;

const ij_tensor_spec *ij__tensor_spec(ij_tensor_id id);

/* Full name of a tensor; layer is ignored for those of the model as a whole. */
#define IJ_TENSOR_NAME_MAX 96
void ij__tensor_name(char buf[IJ_TENSOR_NAME_MAX], ij_tensor_id id, int layer);

/* The inverse: false when the name is not in the table. *layer is -1 for tensors of the model as a whole. */
bool ij__tensor_parse(const char *name, ij_tensor_id *id, int *layer);

/* True for names in the table. After a successful bind these are exactly the tensors the decoder uses. */
bool ij__name_is_decoder(const char *name);

/* The tensor in a checkpoint, or NULL. */
const ij_tensor_view *ij__tensor_find(const ij_ckpt *ckpt, ij_tensor_id id, int layer);

/* Whether a model of this config has this tensor in this layer (layer -1: the model as a whole). */
bool ij__tensor_expected(const ij_config *config, ij_tensor_id id, int layer);

/* The shape that the config asks for; returns the number of dimensions. A dimension that the config does not know yet is 0. */
int ij__tensor_shape(int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS], const ij_config *config, ij_tensor_id id, int layer);

/* Everything wrong with the tensors of a checkpoint under a config, added to one list (start with a zeroed audit, or with findings of
 * your own in it). Dimensions that are 0 in the config match anything. */
typedef struct ij_audit {
  ij_findings findings;
  int n_missing, n_shape, n_type, n_unknown, n_unaligned;
} ij_audit;
void ij__tensors_audit(ij_audit *audit, const ij_config *config, const ij_ckpt *ckpt);

/* IJ_OK when the checkpoint's names and types are those of the original layout; otherwise IJ_E_UNSUPPORTED with one sentence that
 * says which other form (quantized, MLX, transformers modules) it looks like. */
ij_status ij__names_check_form(const ij_ckpt *ckpt, ij_err *err);

#endif
