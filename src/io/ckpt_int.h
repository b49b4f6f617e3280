/* ckpt_int.h: a checkpoint from the inside. ckpt.c owns the list of tensors and safetensors; ckpt_gguf.c finds and opens GGUF files. */
#ifndef IJ_IO_CKPT_INT_H
#define IJ_IO_CKPT_INT_H

#include "core/os.h"
#include "io/ckpt.h"
#include "io/gguf.h"
#include "io/safetensors.h"

#define IJ_CKPT_NAME_ROOM 140 /* bytes of a name that a message shows */

typedef struct ij_ckpt_file {
  char *path;
  ij_file_map map;
  ij_safetensors st; /* one of the two; its tensors move into the checkpoint's own list, its names stay */
  ij_gguf gguf;
} ij_ckpt_file;

struct ij_ckpt {
  char *folder, *config_path;
  ij_json *config;
  ij_ckpt_file *files; /* of a split GGUF model in the order of its parts */
  int n_files;
  bool is_gguf;
  ij_tensor_view *tensors;
  const ij_tensor_view **by_name;
  int n_tensors;
};

/* Opens a GGUF model, all parts of it, into c->files: the one that `path` belongs to, or the only one in the folder (path NULL). */
ij_status ij__ckpt_open_gguf(ij_ckpt *c, const char *path, ij_err *err);

/* Findings as one error with all of them; IJ_OK when there are none. */
ij_status ij__ckpt_report(const ij_findings *f, ij_status code, const char *where, ij_err *err);

void ij__ckpt_close_file(ij_ckpt_file *f);

#endif
