/* tool_logits.c: runs a prompt in chunks through the public step, and holds the result against a reference.
 *
 * Chunks are an option on purpose: the engine promises the same bits for any of them, and this is where one can look.
 */
#include "tools/tool_logits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "io/safetensors.h"
#include "tools/st_writer.h"

void ij__logits_free(ij_logits *l) {
  ij__free(l->logits);
  ij__free(l->trace);
  *l = (ij_logits){0};
}

static float *alloc_floats(int64_t a, int64_t b, int64_t c) {
  size_t n;
  if (!ij__mul_size((size_t)a, (size_t)b, &n) || !ij__mul_size(n, (size_t)c, &n)) return NULL;
  return ij__alloc_array(n, sizeof(float));
}

/* One chunk at position `at`. The step's trace is [layers + 1][chunk][hidden]; ours has all tokens side by side. */
static ij_status run_chunk(ij_logits *l, ij_model *model, ij_step_item *item, int64_t at, bool all, float *chunk_trace, ij_err *err) {
  item->logits_all = all ? l->logits + at * l->vocab : NULL;
  item->trace = chunk_trace;
  ij_status s = ij_step(model, item, 1, err);
  if (s != IJ_OK) return s;
  for (int64_t layer = 0; chunk_trace && layer < l->n_trace; layer++) {
    memcpy(l->trace + (layer * l->n_tokens + at) * l->hidden, chunk_trace + layer * item->n * l->hidden,
           (size_t)(item->n * l->hidden) * sizeof(float));
  }
  return IJ_OK;
}

static ij_status run_chunks(ij_logits *l, ij_model *model, ij_session *session, const int32_t *ids, const ij_logits_options *o,
                            float *chunk_trace, ij_err *err) {
  for (int64_t at = 0; at < l->n_tokens; at += o->chunk) {
    if (o->progress && !o->progress(o->user, (double)at / (double)l->n_tokens)) return ij__fail(err, IJ_E_CANCELLED, NULL, "stopped");
    ij_step_item item = {.session = session, .ids = ids + at, .n = IJ_MIN(o->chunk, l->n_tokens - at)};
    ij_status s = run_chunk(l, model, &item, at, o->all, chunk_trace, err);
    if (s != IJ_OK) return s;
  }
  if (!o->all) memcpy(l->logits, ij_session_logits(session), (size_t)l->vocab * sizeof(float));
  return IJ_OK;
}

ij_status ij__logits_run(ij_logits *out, ij_model *model, ij_session *session, const int32_t *ids, int64_t n,
                         const ij_logits_options *o, ij_err *err) {
  ij_model_info info;
  ij_model_get_info(model, &info);
  *out = (ij_logits){.n_rows = o->all ? n : 1, .vocab = info.unpadded_vocab, .n_tokens = n, .hidden = info.hidden};
  float *chunk_trace = NULL;
  ij_status s = IJ_OK;
  out->logits = alloc_floats(out->n_rows, out->vocab, 1);
  if (o->trace) {
    out->n_trace = info.n_layer + 1;
    out->trace = alloc_floats(out->n_trace, n, out->hidden);
    chunk_trace = alloc_floats(out->n_trace, IJ_MIN(n, o->chunk), out->hidden);
  }
  if (!out->logits || (o->trace && (!out->trace || !chunk_trace))) {
    s = ij__fail(err, IJ_E_NOMEM, NULL, "not enough memory for the tensors of %lld tokens: give fewer, or leave out --all or --trace",
                 (long long)n);
  } else {
    s = run_chunks(out, model, session, ids, o, chunk_trace, err);
  }
  ij__free(chunk_trace);
  if (s != IJ_OK) ij__logits_free(out);
  return s;
}

/* The tensors of a result, as the file has them. */
static int describe(const ij_logits *l, ij_st_tensor tensors[2], const float *values[2]) {
  tensors[0] = (ij_st_tensor){.name = "logits", .dtype = IJ_DTYPE_F32, .n_dims = 2, .dims = {l->n_rows, l->vocab}};
  tensors[1] = (ij_st_tensor){.name = "trace", .dtype = IJ_DTYPE_F32, .n_dims = 3, .dims = {l->n_trace, l->n_tokens, l->hidden}};
  values[0] = l->logits;
  values[1] = l->trace;
  return l->trace ? 2 : 1;
}

ij_status ij__logits_write(const ij_logits *l, const char *path, ij_err *err) {
  ij_st_tensor tensors[2];
  const float *values[2];
  int n = describe(l, tensors, values);
  ij_out_file *w;
  ij_status s = ij__st_open(&w, path, tensors, n, err);
  if (s != IJ_OK) return s;
  for (int i = 0; i < n && s == IJ_OK; i++) s = ij__out_put(w, values[i], ij__st_tensor_bytes(&tensors[i]), err);
  if (s == IJ_OK) return ij__out_finish(&w, err);
  ij__out_abort(&w);
  return s;
}

static void shape_text(char *text, size_t size, int n_dims, const int64_t *dims) {
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; i < n_dims && at < size; i++) {
    int n = snprintf(text + at, size - at, "%s%lld", i ? ", " : "", (long long)dims[i]);
    if (n < 0) return;
    at += (size_t)n;
  }
}

static bool comparable(const ij_st_tensor *t, const ij_tensor_view *ref, ij_logits_diff *diff) {
  char found[96], expected[96];
  if (!ref) {
    snprintf(diff->problem, sizeof diff->problem, "the reference has no tensor of this name");
  } else if (ref->dtype != IJ_DTYPE_F32 && ref->dtype != IJ_DTYPE_F64) {
    snprintf(diff->problem, sizeof diff->problem, "the reference is %s, expected F32 or F64", ij__dtype_name(ref->dtype));
  } else if (ref->n_dims != t->n_dims || memcmp(ref->dims, t->dims, (size_t)t->n_dims * sizeof ref->dims[0]) != 0) {
    shape_text(found, sizeof found, ref->n_dims, ref->dims);
    shape_text(expected, sizeof expected, t->n_dims, t->dims);
    snprintf(diff->problem, sizeof diff->problem, "the reference has shape [%s], computed was [%s]%s", found, expected,
             t->n_dims == 2 && t->dims[0] == 1 ? " (the last row only)" : "");
  } else {
    return true;
  }
  return false;
}

/* Reference values have whatever alignment the file gives. */
static double reference_value(const ij_tensor_view *ref, int64_t i) {
  if (ref->dtype == IJ_DTYPE_F64) {
    double v;
    memcpy(&v, (const char *)ref->data + (size_t)i * sizeof v, sizeof v);
    return v;
  }
  float v;
  memcpy(&v, (const char *)ref->data + (size_t)i * sizeof v, sizeof v);
  return v;
}

static void compare_values(const float *values, const ij_tensor_view *ref, ij_logits_diff *diff) {
  for (int64_t i = 0; i < ref->n_values; i++) {
    double want = reference_value(ref, i), d = fabs((double)values[i] - want);
    if ((double)values[i] == want) d = 0; /* equal infinities */
    if (d <= diff->max_abs) continue;
    diff->max_abs = d;
    diff->at = i;
    if (isnan(d)) return;
  }
}

static const ij_tensor_view *find_tensor(const ij_safetensors *st, const char *name) {
  for (size_t i = 0; i < st->n; i++) {
    if (strcmp(st->tensors[i].name, name) == 0) return &st->tensors[i];
  }
  return NULL;
}

/* The reference is one file and no checkpoint: it has no config.json, and may have any name, as what is written has. */
ij_status ij__logits_compare(const ij_logits *l, const char *path, ij_logits_diff diffs[2], int *n_diffs, ij_err *err) {
  ij_st_tensor tensors[2];
  const float *values[2];
  ij_file_map map = {0};
  ij_safetensors st = {0};
  ij_status s = ij__os_map_file(path, &map, err);
  if (s == IJ_OK) s = ij__safetensors_parse(&st, map.data, map.n_bytes, path, err);
  *n_diffs = s == IJ_OK ? describe(l, tensors, values) : 0;
  for (int i = 0; i < *n_diffs; i++) {
    const ij_tensor_view *ref = find_tensor(&st, tensors[i].name);
    diffs[i] = (ij_logits_diff){.name = tensors[i].name};
    if (comparable(&tensors[i], ref, &diffs[i])) compare_values(values[i], ref, &diffs[i]);
  }
  ij__safetensors_free(&st);
  ij__os_unmap(&map);
  return s;
}
