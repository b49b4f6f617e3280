/* names.h: the tensors of the decoder, as one table of slots, and the names under which the layouts in circulation store them.
 *
 * A slot is what the network needs (kind, shape in letters, which layers carry it), spelled as in the original release. A layout
 * is a table of rows: slot, which part of it, name. Binding, shape checks and `info` read these tables, so a name or a shape is
 * written down once. Towers and multi-token prediction are in no table and are left alone.
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
  IJ_DIM_QKVR,   /* Q + 2 KV + R */
  IJ_DIM_REL,    /* d_rel */
  IJ_DIM_EXTENT, /* rel_extent, or the window on sliding layers */
  IJ_DIM_K,      /* taps of a convolution */
  IJ_DIM_D,      /* width of a dense layer */
  IJ_DIM_2D,
  IJ_DIM_I,      /* width of an expert */
  IJ_DIM_2I,
  IJ_DIM_E,      /* routed experts */
  IJ_DIM_S,      /* shared experts */
  IJ_DIM_SI,     /* S * I */
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

/* X(id, place, kind, up to three dimensions). */
#define IJ_TENSOR_LIST(X)                  \
  X(EMBED, MODEL, MATRIX, V, H, END)       \
  X(EMBED_NORM, MODEL, VECTOR, H, END, END) \
  X(NORM, MODEL, VECTOR, H, END, END)      \
  X(UNEMBED, MODEL, MATRIX, V, H, END)     \
  X(ATTN_NORM, LAYER, VECTOR, H, END, END) \
  X(WQ, LAYER, MATRIX, Q, H, END)          \
  X(WK, LAYER, MATRIX, KV, H, END)         \
  X(WV, LAYER, MATRIX, KV, H, END)         \
  X(WR, LAYER, MATRIX, R, H, END)          \
  X(WO, LAYER, MATRIX, H, Q, END)          \
  X(Q_NORM, LAYER, VECTOR, d, END, END)    \
  X(K_NORM, LAYER, VECTOR, d, END, END)    \
  X(K_CONV, LAYER, CONV, KV, K, END)       \
  X(V_CONV, LAYER, CONV, KV, K, END)       \
  X(REL, LAYER, BANK, REL, EXTENT, END)    \
  X(ATTN_CONV, LAYER, CONV, H, K, END)     \
  X(MLP_NORM, LAYER, VECTOR, H, END, END)  \
  X(MLP_CONV, LAYER, CONV, H, K, END)      \
  X(DENSE_W13, DENSE, MATRIX, 2D, H, END)  \
  X(DENSE_W2, DENSE, MATRIX, H, D, END)    \
  X(DENSE_SCALE, DENSE, SCALAR, END, END, END) \
  X(ROUTER, MOE, MATRIX, ES, H, END)       \
  X(ROUTER_BIAS, MOE, VECTOR, E, END, END) \
  X(ROUTER_SCALE, MOE, SCALAR, END, END, END) \
  X(EXPERT_W13, MOE, MATRIX, E, 2I, H)     \
  X(EXPERT_W2, MOE, MATRIX, E, H, I)       \
  X(SHARED_W13, MOE, MATRIX, S, 2I, H)     \
  X(SHARED_W2, MOE, MATRIX, S, H, I)

typedef enum ij_tensor_id {
#define IJ_TENSOR_ENUM(id, place, kind, d0, d1, d2) IJ_T_##id,
  IJ_TENSOR_LIST(IJ_TENSOR_ENUM)
#undef IJ_TENSOR_ENUM
  IJ_T_COUNT
} ij_tensor_id;

typedef struct ij_tensor_spec {
  ij_tensor_place place;
  ij_tensor_kind kind;
  ij_dim dims[IJ_TENSOR_MAX_SPEC_DIMS]; /* ends at IJ_DIM_END */
} ij_tensor_spec;

const ij_tensor_spec *ij__tensor_spec(ij_tensor_id id);

/* Whether a model of this config has this slot in this layer (layer -1: the model as a whole). */
bool ij__tensor_expected(const ij_config *config, ij_tensor_id id, int layer);

/* The value of a letter, 0 when the config does not know it yet. */
int64_t ij__dim_value(ij_dim dim, const ij_config *config, int layer);

/* The shape of a whole slot; returns the number of dimensions. A dimension that the config does not know yet is 0. */
int ij__tensor_shape(int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS], const ij_config *config, ij_tensor_id id, int layer);

/* ---------------------------------------------------------------------------------------------------------- layouts */

/* What a stored tensor holds of its slot. */
typedef enum ij_part {
  IJ_PART_WHOLE,
  IJ_PART_PAIRS,  /* of w13 slots: gate and up rows in turns, row 2i is gate i, row 2i + 1 is up i */
  IJ_PART_HALVES, /* of w13 slots: all rows of gate, then all of up */
  IJ_PART_GATE,   /* of w13 slots: one of two tensors */
  IJ_PART_UP,
  IJ_PART_QKVR,   /* rows of q, k, v and r one after the other */
  IJ_PART_FACTOR  /* one value per expert by which gate (w13 slots) or down (w2 slots) is multiplied; may be absent */
} ij_part;

/* In a name '@' stands for the prefix of the layout and '#' for the number of the layer. */
typedef struct ij_name_row {
  ij_tensor_id id;
  ij_part part;
  const char *name;
} ij_name_row;

typedef enum ij_layout_id {
  IJ_LAYOUT_ORIGINAL, IJ_LAYOUT_MLX_VLM, IJ_LAYOUT_MODULES, IJ_LAYOUT_MODULES_TEXT, IJ_LAYOUT_GGUF,
  IJ_LAYOUT_COUNT
} ij_layout_id;

#define IJ_LAYOUT_MAX_OWN 8

typedef struct ij_layout {
  const char *title;  /* for messages */
  const char *prefix;
  const char *own[IJ_LAYOUT_MAX_OWN]; /* a tensor whose name begins so belongs to the decoder; the first n_tell tell the layout */
  int n_own, n_tell;
  bool sidecars;      /* scales may lie beside a matrix as tensors of their own */
  const ij_name_row *rows;
  int n_rows;
} ij_layout;

const ij_layout *ij__layout(ij_layout_id id);

/* The tensors that may stand beside a matrix. X(id, suffix, appended to the whole name (else to the name less ".weight"), informative) */
#define IJ_SIDE_LIST(X)                                       \
  X(MAIN, "", true, false)                                    \
  X(SCALES, ".scales", false, false)                          \
  X(BIASES, ".biases", false, false)                          \
  X(NV_SCALE, ".scale", true, false)                          \
  X(NV_SCALE2, ".scale2", true, false)                        \
  X(PACKED, ".weight_packed", false, false)                   \
  X(CT_SCALE, ".weight_scale", false, false)                  \
  X(CT_GLOBAL, ".weight_global_scale", false, false)          \
  X(NV_SHAPE, ".original_shape", true, true)                  \
  X(NV_AMAX, ".input_amax", true, true)                       \
  X(CT_INPUT, ".input_global_scale", false, true)

typedef enum ij_side {
#define IJ_SIDE_ENUM(id, suffix, whole, info) IJ_SIDE_##id,
  IJ_SIDE_LIST(IJ_SIDE_ENUM)
#undef IJ_SIDE_ENUM
  IJ_SIDE_COUNT
} ij_side;

bool ij__side_is_informative(ij_side side);

#define IJ_TENSOR_NAME_MAX 128
/* The name of a main tensor becomes that of what may stand beside it. */
void ij__side_name(char buf[IJ_TENSOR_NAME_MAX], ij_side side);
/* The stored name of a row in a layer (ignored for those of the model as a whole). */
void ij__name_of(char buf[IJ_TENSOR_NAME_MAX], const ij_layout *layout, const ij_name_row *row, int layer, ij_side side);
/* The same without ".weight": the path of the module that owns the matrix. */
void ij__module_of(char buf[IJ_TENSOR_NAME_MAX], const ij_layout *layout, const ij_name_row *row, int layer);

/* The inverse: the first row after `after` (NULL: from the start) that this name can be, or NULL. *layer is -1 for tensors of the
 * model as a whole. Several rows may share a name. */
const ij_name_row *ij__name_parse(const ij_layout *layout, const ij_name_row *after, const char *name, int *layer, ij_side *side);

/* A checkpoint seen through its layout. */
typedef struct ij_names {
  const ij_ckpt *ckpt;
  const ij_layout *layout;
  bool split;                  /* gate and up are two tensors: says which name a missing w13 is called by */
  const ij_json_value *quant;  /* the MLX dictionary of config.json, or NULL */
  const char *quant_key;       /* under which it stands */
} ij_names;

/* Finds the layout by the names. Fails (IJ_E_UNSUPPORTED) for storage forms that are not read and (IJ_E_FORMAT) when tensors carry
 * the names of two layouts. */
ij_status ij__names_open(ij_names *out, const ij_ckpt *ckpt, ij_err *err);

/* The config keys behind a letter, for messages. */
const char *ij__dim_key(ij_dim dim, const ij_names *names, const ij_config *config, int layer);

/* True for names of the decoder in this layout. After a successful bind these are exactly the tensors the decoder uses, and their
 * informative sidecars. */
bool ij__name_is_decoder(const ij_names *names, const char *name);

#endif
