/* ckpt.h: a folder or a file on disk -> one directory of tensors.
 *
 * Reads safetensors (one file, shards named by an index, or shards without one) and GGUF (one file, or the parts of a split one). Every
 * header is checked before a tensor can be seen: offsets inside the file, no overlap, no gap that the format forbids, bytes = product
 * of shape times item size, no name twice. Data is mapped, never copied. Immutable after open; safe from any thread.
 */
#ifndef IJ_IO_CKPT_H
#define IJ_IO_CKPT_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/os.h"
#include "core/status.h"
#include "io/json.h"

#define IJ_TENSOR_MAX_DIMS 8

typedef struct ij_tensor_view {
  const char *name;
  const char *file;        /* path of the file that holds it */
  ij_dtype dtype;
  int n_dims;              /* 0: a scalar */
  int64_t dims[IJ_TENSOR_MAX_DIMS]; /* slowest first */
  int64_t n_values;
  const void *data;        /* in the mapping; alignment is whatever the file gives */
  size_t n_bytes;
} ij_tensor_view;

typedef struct ij_ckpt ij_ckpt;

/* path: a folder with config.json and *.safetensors, or one .safetensors file (config.json beside it when present); one GGUF file, or any
 * part of a split one (the others are found by name beside it); or a folder without safetensors that holds exactly one GGUF model, beside
 * which a file of towers (general.architecture = clip) is left alone. */
ij_status ij__ckpt_open(ij_ckpt **out, const char *path, ij_err *err);
void ij__ckpt_close(ij_ckpt **c);

/* Whether ij__ckpt_open would read a GGUF model here: a file that begins or is named like one, or a folder that holds any and no
 * safetensors. */
bool ij__ckpt_is_gguf(const char *path);

const char *ij__ckpt_folder(const ij_ckpt *c);
const char *ij__ckpt_config_path(const ij_ckpt *c);       /* for messages; of a GGUF model its (first) file */
const ij_json_value *ij__ckpt_config(const ij_ckpt *c);   /* config.json; NULL when the checkpoint has none */

/* Of a GGUF checkpoint its (first) file's metadata, see io/gguf.h, without tensors, which are those below; else NULL. */
struct ij_gguf;
const struct ij_gguf *ij__ckpt_gguf(const ij_ckpt *c);

int ij__ckpt_n_tensors(const ij_ckpt *c);
const ij_tensor_view *ij__ckpt_tensor(const ij_ckpt *c, int i); /* in order of file, then offset */
const ij_tensor_view *ij__ckpt_find(const ij_ckpt *c, const char *name); /* NULL when absent */
int ij__ckpt_n_files(const ij_ckpt *c);
size_t ij__ckpt_file_bytes(const ij_ckpt *c); /* sum over the mapped files */
const char *ij__ckpt_file_path(const ij_ckpt *c, int i);
size_t ij__ckpt_file_size(const ij_ckpt *c, int i);

/* For those who open a file again by its name, after they have: IJ_E_IO when it is not, or no longer, the one that is mapped. */
ij_status ij__ckpt_check_file(const ij_ckpt *c, int i, ij_err *err);

/* Where n_bytes of a tensor's data lie: *file and *offset in it. False: not in one of the files, or the file is in memory and has no place. */
bool ij__ckpt_place(const ij_ckpt *c, const void *data, size_t n_bytes, int *file, uint64_t *offset);

/* Hints to the system about bytes of the mapping, or (data NULL) about all of it; see ij__os_advise. Nothing for files in memory. */
void ij__ckpt_advise(const ij_ckpt *c, const void *data, size_t n_bytes, ij_advice advice);

#endif
