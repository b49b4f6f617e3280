/* sources.h: slots of the network -> the stored tensors that fill them, and how their bytes read as a matrix.
 *
 * Binding goes in two steps: a slot is resolved to one or two sources (a main tensor and what stands beside it), and a source to an
 * ij_matrix (type, group, bytes per row, side arrays), which can then be viewed whole or in part. Nothing is copied or allocated.
 */
#ifndef IJ_MODEL_SOURCES_H
#define IJ_MODEL_SOURCES_H

#include "core/dtype.h"
#include "model/names.h"

typedef enum ij_form {
  IJ_FORM_PLAIN, /* float or block type: one tensor */
  IJ_FORM_MLX,   /* U32 words with .scales and, affine, .biases */
  IJ_FORM_NVFP4, /* U8 with .scale and .scale2 */
  IJ_FORM_PACKED /* .weight_packed with .weight_scale and .weight_global_scale, a divisor */
} ij_form;

typedef struct ij_source {
  const ij_name_row *row;           /* NULL: no source */
  char name[IJ_TENSOR_NAME_MAX];    /* of the main tensor */
  ij_form form;
  const ij_tensor_view *main;
  const ij_tensor_view *side[IJ_SIDE_COUNT]; /* what is there, main included */
} ij_source;

typedef struct ij_slot {
  int n;                            /* sources: 0, 1, or 2 (gate, then up) */
  ij_source source[2];
  ij_source factor;                 /* row NULL: none */
  const ij_name_row *lacking;       /* the row that is not there, for messages; NULL when the slot is full */
  char surplus[IJ_TENSOR_NAME_MAX]; /* a further source of the same slot, which is an error; "" when there is none */
} ij_slot;

/* Fills *out from what the checkpoint holds, right or wrong; true when the slot is full. */
bool ij__slot_find(ij_slot *out, const ij_names *names, ij_tensor_id id, int layer);

/* A source by the name of its main tensor, row NULL; with what may stand beside a matrix. */
bool ij__source_find(ij_source *out, const ij_names *names, const char *main_name, bool matrix);

/* The tensor of a slot that is stored whole and by itself, or NULL. */
const ij_tensor_view *ij__slot_tensor(const ij_names *names, ij_tensor_id id, int layer);

typedef struct ij_matrix {
  ij_dtype dtype, side_dtype;
  int group;                        /* 0: no side arrays */
  int64_t cols, row_bytes, side_bytes; /* of one whole stored row */
  const void *data, *scales, *biases;
  const ij_tensor_view *factor;     /* one value per unit (expert), or NULL */
  bool divides;                     /* the factor is a divisor */
} ij_matrix;

/* How a source reads as rows of `cols` values in `units` units (experts; 1 for a single matrix). False: `why` says what does not fit. */
bool ij__source_matrix(ij_matrix *out, const ij_names *names, const ij_source *s, int64_t cols, int64_t units, char *why, size_t size);

/* Rows first, first + step, ... of a matrix, `cols` values of each from value c0 on (c0 and cols: multiples of ij__matrix_grain). */
ij_weight ij__matrix_view(const ij_matrix *m, int64_t first, int64_t step, int64_t rows, int64_t c0, int64_t cols);
int64_t ij__matrix_grain(const ij_matrix *m);

/* Value i of a float tensor, wherever its bytes lie. */
float ij__tensor_value(const ij_tensor_view *t, int64_t i);

/* The shape a source should have in a layer: letters and numbers (0: not known yet). Depends on whether shared experts are merged into
 * one matrix, which the number of stored dimensions tells. */
int ij__source_shape(int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS], ij_dim letters[IJ_TENSOR_MAX_SPEC_DIMS], const ij_config *config,
                     const ij_source *s, int layer);
bool ij__source_merged(const ij_source *s);

/* hf_quant_config.json beside the tensors, when there is one: a group size other than 16 is refused. */
ij_status ij__quant_config_check(const ij_ckpt *ckpt, ij_err *err);

/* Everything wrong with the tensors of a checkpoint under a config, added to one list (start with a zeroed audit, or with findings of
 * your own in it). Dimensions that are 0 in the config match anything. */
typedef struct ij_audit {
  ij_findings findings;
  int n_missing, n_shape, n_type, n_unknown, n_unaligned;
} ij_audit;
void ij__tensors_audit(ij_audit *audit, const ij_config *config, const ij_names *names);

#endif
