/* config.h: config.json in either spelling -> one validated struct.
 *
 * Every rule of which spelling wins, what a missing key means and which values are refused lives in config.c and nowhere else.
 * Nothing is allocated from these numbers before they have been checked against each other and bounded.
 */
#ifndef IJ_MODEL_CONFIG_H
#define IJ_MODEL_CONFIG_H

#include "core/base.h"
#include "core/status.h"
#include "io/ckpt.h"

#define IJ_MAX_LAYERS 1024
#define IJ_MAX_CONV_KERNEL 8
#define IJ_MAX_EOS 16

/* What differs between the two kinds of attention layer. */
typedef struct ij_attn_dims {
  int n_head, n_kv_head, head_dim;
  int rel_extent; /* columns of the relative bank: rel_extent on global layers, the window on sliding ones */
} ij_attn_dims;

typedef struct ij_config {
  int n_layer;
  int hidden;                 /* H */
  int vocab;                  /* V: rows of embed and unembed */
  int unpadded_vocab;         /* ids that exist */
  int64_t max_context;        /* model_max_length: a limit only */
  ij_attn_dims attn[2];       /* [0] global, [1] sliding; a kind that no layer has still holds usable counts */
  int window;                 /* 0 when no layer slides */
  int d_rel;
  double n_floor;             /* log-N scaling starts here; 0: off */
  double log_alpha;
  float eps;
  int conv_kernel;            /* K */
  int dense_width, expert_width; /* D, I */
  int n_expert, n_expert_used, n_shared; /* E, k, SH */
  float route_scale;
  float logit_divisor;        /* logits_mup_width_multiplier */
  bool embed_norm;            /* always true in files we accept */
  bool tied;                  /* the file has no unembed tensor and says so: unembed is embed */
  bool sliding[IJ_MAX_LAYERS];
  bool dense[IJ_MAX_LAYERS];
  int n_eos;
  int32_t eos[IJ_MAX_EOS];
  int32_t image_token, audio_token; /* placeholders; 200054 / 200053 unless the file says otherwise */
  int n_mtp;                  /* depths of multi-token prediction present in the config; not used yet */
  uint64_t fingerprint;       /* hash of everything above that shapes the arithmetic; saved sessions carry it */
} ij_config;

/* Reads config.json by the rules of docs/formats/config.md, compares it with the tensor shapes and fills *out.
 * Every contradiction found is listed in one error that names the file and the keys: IJ_E_FORMAT when anything is malformed or
 * contradictory, IJ_E_UNSUPPORTED when the file is sound but asks for a network or a storage form that is not this one. */
ij_status ij__config_read(ij_config *out, const ij_ckpt *ckpt, ij_err *err);

#endif
