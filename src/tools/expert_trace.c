/* expert_trace.c: see expert_trace.h. */
#include "tools/expert_trace.h"

#include <stdio.h>

#include "core/base.h"
#include "core/out_file.h"
#include "core/status.h"

ij_status ij__expert_trace_write(ij_model *model, const char *path, int64_t *n_missing, ij_err *err) {
  const int32_t *keys = NULL;
  ij_model_info info;
  ij_streaming_info now;
  ij_out_file *f;
  char line[64];
  ij_model_get_info(model, &info);
  ij_model_get_streaming(model, &now);
  int64_t n = ij_model_expert_trace(model, &keys);
  *n_missing = IJ_MAX(now.n_hit + now.n_miss - n, (int64_t)0);
  if (n == 0) return ij__fail(err, IJ_E_RANGE, path, "there is no sequence of experts to write: none was used, or the model was opened without keeping it");
  size_t n_line = (size_t)snprintf(line, sizeof line, "inkjet-trace %d %d\n", info.n_layer, info.n_expert);
  ij_status s = ij__out_open(&f, path, n_line + (size_t)n * sizeof *keys, err);
  if (s != IJ_OK) return s;
  s = ij__out_put(f, line, n_line, err);
  if (s == IJ_OK) s = ij__out_put(f, keys, (size_t)n * sizeof *keys, err);
  if (s == IJ_OK) return ij__out_finish(&f, err);
  ij__out_abort(&f);
  return s;
}
