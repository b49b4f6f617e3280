/* towers.h: the towers that turn prepared media into rows for the decoder: an hMLP for patches of pixels, a table for dMel bins.
 *
 * Independent of the decoder: they have their own tensors, config and scratch, so that they can be opened without it. What a medium is
 * stays unknown here: patches are asked for through a callback.
 */
#ifndef IJ_MODEL_TOWERS_H
#define IJ_MODEL_TOWERS_H

#include "core/dtype.h"
#include "core/pool.h"
#include "io/ckpt.h"
#include "kernels/kernels.h"

enum {
  IJ_TOWER_LAYERS = 4,
  IJ_TOWER_TIMES = 2,     /* slices of a patch */
  IJ_TOWER_CHANNELS = 3,
  IJ_TOWER_MAX_PATCH = 256,
  IJ_TOWER_MELS = 80,
  IJ_TOWER_LEVELS = 16    /* values of a bin */
};
#define IJ_TOWER_EPS 1e-6f

/* A layer of the vision tower folds blocks of space * space vectors of `time` slices into one vector and multiplies it. */
typedef struct ij_tower_layer {
  int space, time;
  int64_t in, out;    /* width after the fold, and after the product; the last layer's out is the width of the decoder */
  int64_t n_vectors;  /* of one patch, both slices together */
} ij_tower_layer;

typedef struct ij_tower_plan {
  int patch;
  ij_tower_layer layer[IJ_TOWER_LAYERS]; /* only the last one folds time */
} ij_tower_plan;

/* The layers for patches of `patch` pixels; false: `why` says what does not fit. */
bool ij__tower_plan(ij_tower_plan *out, int patch, int64_t hidden, char *why, size_t size);

typedef struct ij_towers_weights {
  bool vision, audio;
  int hidden;
  ij_tower_plan plan;
  ij_weight linear[IJ_TOWER_LAYERS]; /* [out, in] of the plan */
  const float *norm[IJ_TOWER_LAYERS - 1], *vision_norm; /* [out] */
  ij_weight table;                   /* [mels * levels, hidden] */
  const float *audio_norm;
  int64_t n_params;
  size_t weight_bytes;
  bool has_processor;                /* a processor_config.json was read, and says: */
  double rescale_frac;               /* 0: the size is kept */
  int rescale_long_edge;             /* 0: no limit */
  float *floats;                     /* the widened norms, owned */
} ij_towers_weights;

/* Finds the towers among the tensors of a checkpoint or an mmproj GGUF file, under any of their names and in any stored format, and
 * checks tensors, config and processor_config.json. Everything wrong is listed in one error: IJ_E_FORMAT; IJ_E_UNSUPPORTED when the
 * files are sound but of other towers. No tensor of a tower: that tower is absent, which is no error. `ckpt` must outlive the weights. On
 * failure nothing is held. */
ij_status ij__towers_bind(ij_towers_weights *out, const ij_ckpt *ckpt, ij_err *err);
void ij__towers_free(ij_towers_weights *w);

/* Whether a tensor of the checkpoint is one of the towers by its name. */
bool ij__towers_own(const ij_ckpt *ckpt, const char *name);

/* processor_config.json of a folder, when there is one: into has_processor and what follows it. */
ij_status ij__towers_read_processor(ij_towers_weights *w, const char *folder, ij_err *err);

/* -------------------------------------------------------------------------------------------------------------- running */

/* Writes patch `row` as [time][y][x][channel], both slices. Called from the threads of the pool; must not allocate. */
typedef void (*ij_patch_fn)(void *user, int64_t row, float *patch);

typedef struct ij_towers_run {
  const ij_towers_weights *w;
  const ij_kernels *kernels;
  ij_pool *pool;
  int64_t max_rows;  /* of one call below */
  bool still;        /* the slices of every patch are equal: half the work, and other last bits than for two slices */
  float *folded, *wide; /* [max_rows * vectors] inputs and outputs of layer 2, outputs in `wide` */
  float *first;      /* layer 0's weights, widened, rows filled up */
  float *worker;
  int64_t worker_floats;
} ij_towers_run;

/* Takes the buffers for up to n rows; max_rows is then what one call can do, at least 1. */
ij_status ij__towers_open_vision(ij_towers_run *run, const ij_towers_weights *w, const ij_kernels *kernels, ij_pool *pool, int64_t n,
                                 bool still, ij_err *err);
ij_status ij__towers_open_audio(ij_towers_run *run, const ij_towers_weights *w, const ij_kernels *kernels, ij_pool *pool, int64_t n,
                                ij_err *err);
void ij__towers_close_run(ij_towers_run *run);

/* out [n][hidden], n <= max_rows. The bits of a row depend on its patch or bins, the weights and `still`, and on nothing else. */
void ij__towers_vision(const ij_towers_run *run, int64_t n, ij_patch_fn patch, void *user, float *out);
void ij__towers_audio(const ij_towers_run *run, int64_t n, const uint8_t *bins, float *out);

/* Multiply-adds of one patch. */
double ij__towers_vision_fma(const ij_tower_plan *plan, bool still);

#endif
