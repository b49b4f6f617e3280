/* weights.h: names -> fields, once, at load.
 *
 * Matrices stay where they lie, in their stored type. Vectors, convolution taps and the relative bank, which are small and
 * used in float32 at every token, are widened once into memory owned by ij_weights.
 */
#ifndef IJ_MODEL_WEIGHTS_H
#define IJ_MODEL_WEIGHTS_H

#include "cache/experts.h"
#include "core/dtype.h"
#include "io/ckpt.h"
#include "io/copies.h"
#include "io/row_file.h"
#include "model/config.h"
#include "model/names.h"

/* Zero columns on both sides of each row of the relative bank, so that a block of keys may hang over either end. */
#define IJ_REL_PAD 64

enum { IJ_CONV_K, IJ_CONV_V, IJ_CONV_ATTN, IJ_CONV_MLP, IJ_N_CONV };

typedef struct ij_mlp {            /* SwiGLU of one width: dense layers and shared experts */
  ij_weight gate, up;              /* [width, H]: two matrices, or rows of one */
  ij_weight down;                  /* [H, width] */
} ij_mlp;

typedef struct ij_layer {
  bool sliding, dense;
  const ij_attn_dims *dims;
  const float *attn_norm, *mlp_norm; /* [H] */
  const float *q_norm, *k_norm;      /* [head_dim] */
  ij_weight wq;                      /* [n_head * d, H] */
  ij_weight wk, wv;                  /* [n_kv * d, H] */
  ij_weight wr;                      /* [n_head * d_rel, H] */
  ij_weight wo;                      /* [H, n_head * d] */
  const float *conv[IJ_N_CONV];      /* [K][C], tap-major; C = n_kv * d for K and V, H for ATTN and MLP */
  /* [d_rel][IJ_REL_PAD + extent + IJ_REL_PAD]: row j reversed, so element (j, dist) is at IJ_REL_PAD + extent - 1 - dist and
   * ascending memory is ascending key position; pads are zero */
  const float *rel;
  int rel_ld;                        /* floats per row of rel */
  float global_scale;                /* dense: scales the output; MoE: scales the routing weights */
  ij_mlp mlp;                        /* dense layers */
  ij_weight router;                  /* MoE: [E + SH, H], shared rows last */
  const float *router_bias;          /* MoE: [E], only selects */
  ij_mlp *shared;                    /* MoE: [SH] */
} ij_layer;

/* What the weights are, by class: where the bytes of a file lie and in which formats. */
typedef enum ij_weight_class {
  IJ_CLASS_EMBED, IJ_CLASS_UNEMBED, IJ_CLASS_ATTENTION, IJ_CLASS_DENSE, IJ_CLASS_SHARED, IJ_CLASS_ROUTED, IJ_CLASS_ROUTER,
  IJ_CLASS_SMALL, /* norms, convolutions, relative banks, biases, scales */
  IJ_CLASS_COUNT
} ij_weight_class;

const char *ij__weight_class_name(ij_weight_class c); /* "routed experts", ... */

/* All weights of one class in one format. */
typedef struct ij_weight_stat {
  int n_matrices;                    /* tensors, or parts of one, with this format; 0: none */
  int group;                         /* of split types, -1 when they differ; else 0 */
  int64_t n_values, n_values_active; /* active: read for one token */
  size_t n_bytes, active_bytes;      /* side arrays and factors included: bits per weight are 8 * n_bytes / n_values */
} ij_weight_stat;

typedef struct ij_weights {
  ij_names names;                    /* the layout the tensors were found in */
  ij_weight embed, unembed;          /* [V, H] */
  const float *embed_norm, *norm;    /* [H] */
  ij_layer *layers;                  /* [n_layer] */
  ij_expert_bank *banks;             /* [n_layer] where the routed experts lie in the mapping, owned; see ij_expert_banks */
  ij_experts *experts;               /* their home, owned: the mapped one, until the engine takes another (ij__weights_take_home) */
  ij_row_file *embed_file;           /* of an embedding table whose rows are read when they are needed; NULL: they are where embed says; owned */
  ij_copies *dense;                  /* the matrices that are not routed experts, once ij__weights_settle has read them; owned */
  float *floats;                     /* the widened vectors, owned, each aligned to 64 bytes */
  size_t n_floats;
  /* What `info` reports. Active: read for one token, so one row of embed, the rows of unembed that are ids, n_expert_used routed
   * experts and everything else. */
  int64_t n_params, n_params_active;
  size_t weight_bytes, active_bytes;
  ij_weight_stat stats[IJ_CLASS_COUNT][IJ_DTYPE_COUNT]; /* the same by class and format; they sum up to the above */
} ij_weights;

/* Binds and checks every tensor the network needs, in any layout and any stored format; tower and MTP tensors are left alone. All
 * missing, ill-shaped, wrongly typed, doubled and unknown tensors of the decoder are listed in one error (IJ_E_FORMAT;
 * IJ_E_UNSUPPORTED for float matrices that are not aligned to their type). A widened value or a factor that is not finite is refused
 * by name and index; matrices and their scales are not scanned.
 * `config` must be one that ij__config_read accepted for this `ckpt`; both must outlive the weights. On failure nothing is held. */
ij_status ij__weights_bind(ij_weights *out, const ij_config *config, const ij_ckpt *ckpt, ij_err *err);
void ij__weights_free(ij_weights *w);

/* What homes are made of; borrowed from the weights. */
static inline ij_expert_banks ij__weights_banks(const ij_weights *w, const ij_config *config) {
  return (ij_expert_banks){w->banks, config->n_layer, config->n_expert};
}

/* Closes the home there is and owns another. */
void ij__weights_take_home(ij_weights *w, ij_experts *home);

/* dense.c. Dense is every matrix but the routed experts; an embedding table of its own, of which a token reads one row, only if `table`. */

/* Memory that ij__weights_settle takes. */
ij_status ij__weights_dense_bytes(size_t *out, ij_weights *w, const ij_config *config, const ij_ckpt *ckpt, bool table, ij_err *err);

/* Reads the dense matrices into memory of our own and moves the views there; rows of an embedding table that is left out will be read from its
 * file. On failure the views are as they were. progress may be NULL; false cancels. */
ij_status ij__weights_settle(ij_weights *w, const ij_config *config, const ij_ckpt *ckpt, bool table, ij_reader *reader,
                             bool (*progress)(void *user, double fraction), void *user, ij_err *err);

/* Asks the system to have the dense matrices in the page cache soon, and of the embedding table only what is touched. */
void ij__weights_advise(ij_weights *w, const ij_config *config, const ij_ckpt *ckpt);

#endif
