/* synth_int.h: what the parts of the synthetic checkpoints share: the plan (which tensors, of which law) and who carries it out. */
#ifndef IJ_TOOLS_SYNTH_INT_H
#define IJ_TOOLS_SYNTH_INT_H

#include "core/str.h"
#include "tools/gguf_writer.h"
#include "tools/st_writer.h"
#include "tools/tool_synth.h"

typedef struct ij_synth_preset {
  const char *name;
  int hidden, n_layer, n_dense, n_head, n_kv_head, n_kv_head_sliding, head_dim, window, d_rel, rel_extent;
  int dense_width, expert_width, n_expert, n_expert_used, n_shared, vocab, unpadded_vocab, mup;
  int n_floor, max_context, eos;
  bool towers;        /* also the towers, for patches of 40 pixels, in BF16; no GGUF */
  size_t shard_bytes; /* a shard ends before it would exceed this */
} ij_synth_preset;

/* Laws of values. Z is nearly normal, of mean 0 and deviation 1. */
typedef enum ij_synth_law {
  IJ_LAW_NORMAL,     /* mean + deviation * Z, in BF16, F16 or F32 */
  IJ_LAW_BLOCKS,     /* blocks of a GGUF type: random codes, scales for `deviation` */
  IJ_LAW_BITS,       /* random bits: codes of a split type */
  IJ_LAW_E4M3_CODES, /* random E4M3 codes of four binades */
  IJ_LAW_SCALES,     /* scales of the split type `of` whose decoded values get `deviation` */
  IJ_LAW_BIASES,     /* the biases that belong to those scales */
  IJ_LAW_SHAPE,      /* the integers of `shape` */
  IJ_LAW_POPULARITY  /* biases of a router with logits of `deviation`, for Zipf's law of exponent `mean` and shape[0] experts per token */
} ij_synth_law;

typedef struct ij_synth_tensor {
  ij_st_tensor t;
  char name[96];
  ij_synth_law law;
  float mean, deviation;
  ij_dtype of;
  int stream;       /* value i is a function of (stream, i) and the law alone; scales and their biases share one */
  int64_t shape[3]; /* IJ_LAW_SHAPE; see IJ_LAW_POPULARITY */
} ij_synth_tensor;

typedef struct ij_synth_plan {
  ij_synth_model model;
  ij_synth_preset p;
  ij_synth_tensor *tensors;
  int n, cap;
  int *shard_begin; /* [n_shards + 1]: first tensor of each shard */
  int n_shards;
  size_t n_bytes;
  bool failed;      /* no memory */
} ij_synth_plan;

const char *ij__synth_size_name(ij_synth_size size);
const char *ij__synth_zipf_name(int halves); /* "0.5", "1", "1.5" or "2" */
bool ij__synth_sliding(int layer);

/* False without memory; then nothing is held. */
bool ij__synth_plan_make(ij_synth_plan *plan, const ij_synth_model *model);
void ij__synth_plan_free(ij_synth_plan *plan);

/* config.json, and the keys of a GGUF file. */
void ij__synth_config(ij_buf *b, const ij_synth_plan *plan);
void ij__synth_release_note(ij_buf *b, const ij_synth_plan *plan); /* hf_quant_config.json of the NVFP4 release */
void ij__synth_keys(ij_gguf_keys *k, const ij_synth_plan *plan);

/* Generates the bytes of one tensor, in pieces. */
typedef struct ij_synth_values ij_synth_values;
ij_synth_values *ij__synth_values_new(void); /* NULL without memory */
void ij__synth_values_free(ij_synth_values *v);

/* How often experts are used in Zipf's law: share[0, n) in falling order, sums to k, each at most IJ_SYNTH_MOST_USED. */
#define IJ_SYNTH_MOST_USED 0.95
void ij__synth_zipf(double *share, int n, int k, int halves);
ij_status ij__synth_values_put(ij_synth_values *v, const ij_synth_tensor *t, ij_status (*put)(void *user, const void *bytes, size_t n),
                               void *user);

/* RMS of the values that random codes of a split type stand for under scale 1 (affine: and the bias that centres them). */
double ij__synth_split_rms(ij_dtype t);

#endif
