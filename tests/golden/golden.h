/* golden.h: a checkpoint with the oracle's answers beside it, and small helpers that the golden programs share.
 *
 * A case with media has "media" in golden.json, a list of [first, n, row0, sound], and their rows in golden.safetensors.
 * golden.json may name a file of the folder as "model", which is opened instead of the folder, and need not have a short prompt;
 * golden.safetensors need not have a trace. Folders on a command line may be named in a file, one a line: @FILE.
 */
#ifndef IJ_TEST_GOLDEN_H
#define IJ_TEST_GOLDEN_H

#include "core/alloc.h"
#include "core/os.h"
#include "inkjet.h"
#include "io/ckpt.h"
#include "io/json.h"
#include "test.h"

#define GOLDEN_MAX 4096
#define GOLDEN_MAX_FOLDERS 256
#define GOLDEN_MAX_MEDIA 64

typedef struct golden {
  ij_ckpt *file;
  const float *logits;  /* [n, vocab] */
  const float *trace;   /* [n_point, n, hidden] or NULL */
  int64_t n, n_vocab, n_point, hidden;
  int32_t prompt[GOLDEN_MAX];
  int n_greedy, n_short, n_short_greedy;
  int32_t greedy[GOLDEN_MAX], short_prompt[GOLDEN_MAX], short_greedy[GOLDEN_MAX];
  double margin;
  int n_media;
  ij_rows media[GOLDEN_MAX_MEDIA]; /* among the ids of the prompt; no two have one digest */
} golden;

static inline int golden_ids(const ij_json_value *root, const char *key, int32_t *out) {
  const ij_json_value *list = ij__json_member(root, key), *v;
  ij_json_iter it = {0};
  int n = 0;
  int64_t id;
  while (n < GOLDEN_MAX && ij__json_next(list, &it, NULL, NULL, &v) && ij__json_get_int(v, &id)) out[n++] = (int32_t)id;
  return n;
}

/* The media of the prompt: places from golden.json, rows from golden.safetensors. */
static inline void golden_media(golden *g, const ij_json_value *root) {
  const ij_json_value *list = ij__json_member(root, "media"), *v, *number;
  ij_json_iter it = {0};
  while (g->n_media < GOLDEN_MAX_MEDIA && ij__json_next(list, &it, NULL, NULL, &v)) {
    int64_t at[4] = {0};
    ij_json_iter in = {0};
    for (int i = 0; i < 4 && ij__json_next(v, &in, NULL, NULL, &number); i++) ij__json_get_int(number, &at[i]);
    uint64_t name = (uint64_t)++g->n_media;
    g->media[name - 1] = (ij_rows){.first = at[0], .n = at[1], .row0 = at[2], .digest = {name, ~name}};
  }
}

static inline bool golden_media_rows(golden *g) {
  const ij_tensor_view *rows = ij__ckpt_find(g->file, "media_rows");
  int64_t n = 0;
  for (int i = 0; rows && i < g->n_media; i++) {
    g->media[i].rows = (const float *)rows->data + n * rows->dims[1];
    n += g->media[i].n;
  }
  return rows && rows->dims[0] == n;
}

/* The media at ids [from, to) of the prompt, as a caller who cuts it there passes them. Of golden.media when the file is open. */
static inline int golden_cut(const ij_rows *media, int n_media, int64_t hidden, int64_t from, int64_t to, ij_rows *out) {
  int n = 0;
  for (int i = 0; i < n_media; i++) {
    const ij_rows *r = &media[i];
    int64_t first = r->first > from ? r->first : from, end = r->first + r->n < to ? r->first + r->n : to;
    if (first >= end) continue;
    out[n] = *r;
    out[n].first = first - from;
    out[n].n = end - first;
    out[n].rows = r->rows + (first - r->first) * hidden;
    out[n++].row0 = r->row0 + first - r->first;
  }
  return n;
}

/* golden.json of a folder; NULL when it has none or a bad one. */
static inline ij_json *golden_json(const char *folder, char **text, ij_err *err) {
  char path[1024];
  size_t n = 0;
  ij_json *doc = NULL;
  *text = NULL;
  snprintf(path, sizeof path, "%s/golden.json", folder);
  if (ij__os_read_file(path, 1 << 20, text, &n, err) != IJ_OK || ij__json_parse(&doc, *text, n, path, err) != IJ_OK) {
    ij__free(*text);
    return NULL;
  }
  return doc;
}

static inline bool golden_open(golden *g, const char *folder) {
  ij_err err = {0};
  char *text, path[1024];
  memset(g, 0, sizeof *g);
  ij_json *doc = golden_json(folder, &text, &err);
  if (!doc) {
    TEST_FAIL("%s: %s", err.where, err.message);
    return false;
  }
  const ij_json_value *root = ij__json_root(doc);
  g->n = golden_ids(root, "prompt", g->prompt);
  g->n_greedy = golden_ids(root, "greedy", g->greedy);
  g->n_short = golden_ids(root, "short_prompt", g->short_prompt);
  g->n_short_greedy = golden_ids(root, "short_greedy", g->short_greedy);
  ij__json_get_double(ij__json_member(root, "margin"), &g->margin);
  golden_media(g, root);
  ij__json_free(&doc);
  ij__free(text);
  snprintf(path, sizeof path, "%s/golden.safetensors", folder);
  if (ij__ckpt_open(&g->file, path, &err) != IJ_OK) {
    TEST_FAIL("%s: %s", err.where, err.message);
    return false;
  }
  const ij_tensor_view *logits = ij__ckpt_find(g->file, "logits"), *trace = ij__ckpt_find(g->file, "trace");
  if (!logits || logits->dims[0] != g->n || (trace && trace->dims[1] != g->n)) {
    TEST_FAIL("%s lacks logits, or they or the trace do not fit the prompt", path);
    return false;
  }
  if (g->n_media > 0 && !golden_media_rows(g)) {
    TEST_FAIL("%s lacks the rows of the media, or has another number of them", path);
    return false;
  }
  g->logits = logits->data;
  g->n_vocab = logits->dims[1];
  g->trace = trace ? trace->data : NULL;
  g->n_point = trace ? trace->dims[0] : 0;
  g->hidden = trace ? trace->dims[2] : 0;
  return true;
}

static inline void golden_close(golden *g) { ij__ckpt_close(&g->file); }

/* What to open: the folder, or the file in it that its golden.json names. */
static inline void golden_model_path(char *out, size_t size, const char *folder) {
  ij_err err = {0};
  char *text;
  const char *name;
  size_t len;
  ij_json *doc = golden_json(folder, &text, &err);
  snprintf(out, size, "%s", folder);
  if (!doc) return;
  if (ij__json_get_string(ij__json_member(ij__json_root(doc), "model"), &name, &len)) snprintf(out, size, "%s/%.*s", folder, (int)len, name);
  ij__json_free(&doc);
  ij__free(text);
}

/* Whether any of its weights is of a type in integers (ij__dtype_in_integers). */
static inline bool golden_in_integers(const ij_model *m) {
  ij_weights_info info;
  for (int i = 0; ij_model_get_weights(m, i, &info) == IJ_OK; i++) {
    for (ij_dtype t = (ij_dtype)0; t < IJ_DTYPE_COUNT; t = (ij_dtype)(t + 1)) {
      if (ij__dtype_in_integers(t) && strcmp(info.format, ij__dtype_name(t)) == 0) return true;
    }
  }
  return false;
}

static inline ij_model *open_model_or_fail(const char *folder, int n_threads, int max_batch, const char *level) {
  ij_model_options o = ij_model_options_default();
  ij_model *m = NULL;
  ij_err err = {0};
  char path[1024];
  golden_model_path(path, sizeof path, folder);
  o.n_threads = n_threads;
  o.max_batch = max_batch;
  o.cpu_mask = level;
  o.tokenizer = false;
  if (ij_model_open(&m, path, &o, &err) != IJ_OK) TEST_FAIL("%s: %s", err.where, err.message);
  return m;
}

static inline ij_session *open_session_or_fail(ij_model *m, int64_t n_ctx, ij_kv_type kv) {
  ij_session_options o = ij_session_options_default();
  ij_session *s = NULL;
  ij_err err = {0};
  o.n_ctx = n_ctx;
  o.kv_type = kv;
  if (ij_session_open(&s, m, &o, &err) != IJ_OK) TEST_FAIL("%s: %s", err.where, err.message);
  return s;
}

/* The folders that args name: each itself, or as @FILE all those in FILE. */
static inline int golden_folders(char (*out)[512], int max, int n_args, char **args) {
  int n = 0;
  for (int i = 0; i < n_args; i++) {
    if (args[i][0] != '@') {
      if (n < max) snprintf(out[n++], sizeof *out, "%s", args[i]);
      continue;
    }
    FILE *f = fopen(args[i] + 1, "r");
    if (!f) TEST_FAIL("%s cannot be opened", args[i] + 1);
    while (f && n < max && fgets(out[n], sizeof *out, f)) {
      out[n][strcspn(out[n], "\n")] = 0;
      n += out[n][0] != 0;
    }
    if (f) fclose(f);
  }
  if (n == 0) TEST_FAIL("no folders given");
  return n;
}

static inline double max_diff(const float *a, const float *b, int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - (double)b[i]);
    if (!(d <= worst)) worst = d; /* also when d is NaN */
  }
  return worst;
}

static inline double relative_rms(const float *a, const float *b, int64_t n) {
  double square = 0, scale = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = (double)a[i] - (double)b[i];
    square += d * d;
    scale += (double)b[i] * (double)b[i];
  }
  return sqrt(square / scale);
}

/* After the prompt the model chooses the ids `want`, one after the other. */
static inline void golden_greedy(ij_model *m, const char *folder, int64_t n_ctx, const int32_t *prompt, int n_prompt, const ij_rows *media,
                                 int n_media, const int32_t *want, int n_want) {
  ij_session *s = open_session_or_fail(m, n_ctx, IJ_KV_F32);
  ij_err err;
  CHECK_OK(ij_session_eval_rows(s, prompt, n_prompt, media, n_media, &err), err);
  for (int i = 0; i < n_want; i++) {
    ij_choice c = {0};
    CHECK_OK(ij_session_sample(s, NULL, &c, &err), err);
    if (c.id != want[i]) {
      TEST_FAIL("%s: greedy id %d of %d is %d, expected %d", folder, i, n_want, c.id, want[i]);
      break;
    }
    CHECK_OK(ij_session_eval(s, &c.id, 1, &err), err);
  }
  ij_session_close(&s);
}

#endif
