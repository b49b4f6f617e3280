/* tool_synth.h: random checkpoints of the full architecture, for measuring and for trying the program without a download.
 *
 * Every code path of the decoder is in them, values are scaled so that activations stay finite and routing is spread, and the
 * bytes depend on the size and the format only. Quantized forms are not quantized from anything: their codes are random bits, and
 * their scales are chosen so that the decoded values have the deviation which the BF16 form has. That makes writing as fast as the disk
 * and leaves sizes and speeds what they are for real weights.
 */
#ifndef IJ_TOOLS_TOOL_SYNTH_H
#define IJ_TOOLS_TOOL_SYNTH_H

#include "core/base.h"
#include "core/dtype.h"
#include "inkjet.h"

typedef enum ij_synth_size { IJ_SYNTH_3B, IJ_SYNTH_24B, IJ_SYNTH_TRY, IJ_SYNTH_TINY, IJ_SYNTH_TOWERS, IJ_SYNTH_COUNT } ij_synth_size;

typedef enum ij_synth_layout {
  IJ_SYNTH_NATIVE, /* original names, BF16 */
  IJ_SYNTH_NVFP4,  /* the NVFP4 release: routed experts after the first MoE layer NVFP4, all else BF16 */
  IJ_SYNTH_MLX,    /* uniform recipe: every matrix but the router quantized */
  IJ_SYNTH_GGUF    /* one file, every matrix but the router of one type, all else F32 */
} ij_synth_layout;

typedef struct ij_synth_model {
  ij_synth_size size;
  ij_synth_layout layout;
  ij_dtype dtype; /* of the quantized matrices; native: BF16 */
  int group;      /* of split types */
  int zipf;       /* routing: 0 nearly even; else the k-th most used expert of a layer is used in proportion to k^-(zipf / 2) */
} ij_synth_model;

/* "SIZE", "SIZE:FORMAT", and either followed by ":zipf0.5", ":zipf1", ":zipf1.5" or ":zipf2": then the router's biases prefer some experts, others
 * in each layer, as far as an expert can be used at most once per token (see put_popularity). Formats: nvfp4; mlx2 mlx3 mlx4 mlx5 mlx6 mlx8, also with -g32 or -g128; mlx-mxfp4 mlx-mxfp8 mlx-nvfp4; and
 * the types of GGUF in lower case (f32 f16 bf16 q4_0 ... tq2_0 mxfp4), NVFP4 blocks being gguf-nvfp4. Where rows of `try` or `tiny` do
 * not hold whole blocks or groups, all widths of the model are four times as large. IJ_E_ARGUMENT lists what there is. */
ij_status ij__synth_parse(ij_synth_model *out, const char *text, ij_err *err);

/* Bytes of all files, about (headers are estimated); 0 without memory. */
size_t ij__synth_bytes(const ij_synth_model *model);

/* What to open: `folder` itself, or the GGUF file in it. From ij__alloc; NULL without memory. */
char *ij__synth_path(const ij_synth_model *model, const char *folder);

/* Makes sure that `folder` holds the checkpoint: creates the folder (not its parents), uses what is there when it is complete and the
 * same, and refuses a folder that holds another checkpoint. config.json comes last: where it lies, all is there (a GGUF file appears
 * when it is complete). Says first when the disk lacks room. progress returning false cancels (IJ_E_CANCELLED) and removes the file
 * being written. */
ij_status ij__synth_write(const ij_synth_model *model, const char *folder, bool (*progress)(void *user, double fraction), void *user,
                          ij_err *err);

/* The paths of all files that writing may leave in `folder`, temporary ones included; from ij__alloc, as is each; NULL without memory. */
char **ij__synth_files(const ij_synth_model *model, const char *folder, int *n);
void ij__synth_free_files(char **files, int n);

#endif
