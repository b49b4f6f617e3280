/* tool_synth.c: carries out the plan of a synthetic checkpoint: shards with an index, or one GGUF file; whole files, the one that
 * makes the checkpoint count last. */
#include "tools/tool_synth.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "core/str.h"
#include "tools/synth_int.h"

/* ------------------------------------------------------------------------------------------------------------- formats */

/* Formats with names of their own; every type that GGUF files can hold is added to these under its own name in lower case. */
static const struct {
  const char *name;
  ij_synth_layout layout;
  ij_dtype dtype;
  int group;
} formats[] = {
    {"nvfp4", IJ_SYNTH_NVFP4, IJ_DTYPE_NVFP4_SPLIT, 16},
    {"mlx2", IJ_SYNTH_MLX, IJ_DTYPE_AFFINE2, 64},
    {"mlx3", IJ_SYNTH_MLX, IJ_DTYPE_AFFINE3, 64},
    {"mlx4", IJ_SYNTH_MLX, IJ_DTYPE_AFFINE4, 64},
    {"mlx5", IJ_SYNTH_MLX, IJ_DTYPE_AFFINE5, 64},
    {"mlx6", IJ_SYNTH_MLX, IJ_DTYPE_AFFINE6, 64},
    {"mlx8", IJ_SYNTH_MLX, IJ_DTYPE_AFFINE8, 64},
    {"mlx-mxfp4", IJ_SYNTH_MLX, IJ_DTYPE_MXFP4_SPLIT, 32},
    {"mlx-mxfp8", IJ_SYNTH_MLX, IJ_DTYPE_MXFP8_SPLIT, 32},
    {"mlx-nvfp4", IJ_SYNTH_MLX, IJ_DTYPE_NVFP4_SPLIT, 16},
    {"gguf-nvfp4", IJ_SYNTH_GGUF, IJ_DTYPE_NVFP4, 0},
};

static void lower_name(char out[24], ij_dtype t) {
  const char *name = ij__dtype_name(t);
  size_t i = 0;
  for (; name[i] && i < 23; i++) out[i] = (char)tolower((unsigned char)name[i]);
  out[i] = 0;
}

static bool gguf_format(ij_dtype t) { return (ij__dtype_is_block(t) && t != IJ_DTYPE_NVFP4) || ij__dtype_is_float(t); }

static bool find_format(ij_synth_model *out, const char *name) {
  char base[24];
  snprintf(base, sizeof base, "%s", name);
  int group = 0;
  char *dash = strncmp(base, "mlx", 3) == 0 && base[3] != '-' ? strstr(base, "-g") : NULL; /* a group of an affine format */
  if (dash) {
    group = strcmp(dash, "-g32") == 0 ? 32 : strcmp(dash, "-g64") == 0 ? 64 : strcmp(dash, "-g128") == 0 ? 128 : -1;
    *dash = 0;
  }
  for (size_t i = 0; i < sizeof formats / sizeof formats[0] && group >= 0; i++) {
    if (strcmp(formats[i].name, base) != 0) continue;
    out->layout = formats[i].layout;
    out->dtype = formats[i].dtype;
    out->group = group > 0 ? group : formats[i].group;
    return true;
  }
  for (int t = 0; t < IJ_DTYPE_COUNT && !dash; t++) {
    char lower[24];
    lower_name(lower, (ij_dtype)t);
    if (!gguf_format((ij_dtype)t) || strcmp(lower, name) != 0) continue;
    *out = (ij_synth_model){.size = out->size, .layout = IJ_SYNTH_GGUF, .dtype = (ij_dtype)t, .zipf = out->zipf};
    return true;
  }
  return false;
}

static ij_status refuse_format(const char *text, ij_err *err) {
  ij_buf b = {0};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) ij__buf_printf(&b, "%s%s", i ? " " : "", formats[i].name);
  for (int t = 0; t < IJ_DTYPE_COUNT; t++) {
    char lower[24];
    lower_name(lower, (ij_dtype)t);
    if (gguf_format((ij_dtype)t)) ij__buf_printf(&b, " %s", lower);
  }
  ij_status s = ij__fail(err, IJ_E_ARGUMENT, NULL, "'%.32s' is not a format; there are: %s (mlx2 to mlx8 also with -g32 or -g128)", text,
                         b.data ? b.data : "");
  ij__buf_free(&b);
  return s;
}

const char *ij__synth_zipf_name(int halves) {
  static const char *const names[] = {"0", "0.5", "1", "1.5", "2"};
  return names[halves];
}

/* Takes ":zipf..." off the end of a text. */
static ij_status parse_zipf(char *text, int *zipf, ij_err *err) {
  char *at = strstr(text, ":zipf");
  *zipf = 0;
  if (!at) return IJ_OK;
  for (int h = 1; h <= 4; h++) {
    if (strcmp(at + 5, ij__synth_zipf_name(h)) == 0) *zipf = h;
  }
  if (!*zipf) return ij__fail(err, IJ_E_ARGUMENT, NULL, "'%.32s' is not accepted; expected zipf0.5, zipf1, zipf1.5 or zipf2", at + 1);
  *at = 0;
  return IJ_OK;
}

ij_status ij__synth_parse(ij_synth_model *out, const char *given, ij_err *err) {
  char text[96];
  int zipf = 0;
  snprintf(text, sizeof text, "%s", given);
  ij_status status = parse_zipf(text, &zipf, err);
  if (status != IJ_OK) return status;
  const char *colon = strchr(text, ':');
  const size_t n = colon ? (size_t)(colon - text) : strlen(text);
  int size = 0;
  for (; size < IJ_SYNTH_COUNT; size++) {
    const char *name = ij__synth_size_name((ij_synth_size)size);
    if (strlen(name) == n && memcmp(name, text, n) == 0) break;
  }
  if (size == IJ_SYNTH_COUNT) {
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "'%.64s' is not accepted; expected 3b, 24b, try, tiny or towers, alone or followed by :FORMAT", text);
  }
  *out = (ij_synth_model){.size = (ij_synth_size)size, .layout = IJ_SYNTH_NATIVE, .dtype = IJ_DTYPE_BF16, .zipf = zipf};
  if (colon && !find_format(out, colon + 1)) return refuse_format(colon + 1, err);
  if (out->size == IJ_SYNTH_TOWERS && out->layout == IJ_SYNTH_GGUF)
    return ij__fail(err, IJ_E_ARGUMENT, NULL, "'%.64s' is not accepted: a GGUF model has its towers in another file", text);
  return IJ_OK;
}

size_t ij__synth_bytes(const ij_synth_model *model) {
  ij_synth_plan plan;
  if (!ij__synth_plan_make(&plan, model)) return 0;
  size_t n = plan.n_bytes + (size_t)plan.n * 256;
  ij__synth_plan_free(&plan);
  return n;
}

/* ------------------------------------------------------------------------------------------------------------- writing */

static void shard_name(char text[64], int i, int n) { snprintf(text, 64, "model-%05d-of-%05d.safetensors", i + 1, n); }

static void gguf_name(char text[64], const ij_synth_model *m) {
  char lower[24];
  lower_name(lower, m->dtype);
  snprintf(text, 64, "inkling-%s-%s%s%s.gguf", ij__synth_size_name(m->size), lower, m->zipf ? "-zipf" : "", m->zipf ? ij__synth_zipf_name(m->zipf) : "");
}

typedef struct synth_run {
  const ij_synth_plan *plan;
  ij_synth_values *values;
  bool (*progress)(void *user, double fraction);
  void *user;
  size_t n_done;
  ij_out_file *file;    /* one of these two is open */
  ij_gguf_writer *gguf;
  ij_err *err;
} synth_run;

static ij_status put_piece(void *user, const void *bytes, size_t n) {
  synth_run *run = user;
  if (run->progress && !run->progress(run->user, (double)run->n_done / (double)run->plan->n_bytes)) {
    return ij__fail(run->err, IJ_E_CANCELLED, NULL, "stopped while writing the synthetic checkpoint");
  }
  run->n_done += n;
  return run->gguf ? ij__gguf_writer_put(run->gguf, bytes, n, run->err) : ij__out_put(run->file, bytes, n, run->err);
}

/* The tensors [begin, begin + n) as the writers want them; NULL without memory. */
static ij_st_tensor *declare(const ij_synth_plan *plan, int begin, int n) {
  ij_st_tensor *declared = ij__alloc_array((size_t)n, sizeof *declared);
  for (int i = 0; declared && i < n; i++) {
    declared[i] = plan->tensors[begin + i].t;
    declared[i].name = plan->tensors[begin + i].name;
  }
  return declared;
}

static ij_status put_shard(synth_run *run, const char *folder, int shard) {
  const ij_synth_plan *plan = run->plan;
  int begin = plan->shard_begin[shard], n = plan->shard_begin[shard + 1] - begin;
  char name[64];
  shard_name(name, shard, plan->n_shards);
  char *path = ij__os_join(folder, name);
  ij_st_tensor *declared = declare(plan, begin, n);
  ij_status s;
  if (!path || !declared) {
    s = ij__fail_nomem(run->err, "the list of tensors", (size_t)n * sizeof *declared);
  } else {
    s = ij__st_open(&run->file, path, declared, n, run->err);
  }
  for (int i = 0; i < n && s == IJ_OK; i++) s = ij__synth_values_put(run->values, &plan->tensors[begin + i], put_piece, run);
  if (s == IJ_OK) s = ij__out_finish(&run->file, run->err);
  ij__out_abort(&run->file);
  ij__free(declared);
  ij__free(path);
  return s;
}

static void build_index(ij_buf *b, const ij_synth_plan *plan) {
  char name[64];
  ij__buf_printf(b, "{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {", plan->n_bytes);
  for (int shard = 0; shard < plan->n_shards; shard++) {
    shard_name(name, shard, plan->n_shards);
    for (int i = plan->shard_begin[shard]; i < plan->shard_begin[shard + 1]; i++) {
      ij__buf_printf(b, "%s\n \"%s\": \"%s\"", i ? "," : "", plan->tensors[i].name, name);
    }
  }
  ij__buf_puts(b, "\n}}\n");
}

static ij_status prepare_folder(const ij_synth_plan *plan, const char *folder, ij_err *err) {
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) return ij__fail_errno(err, errno, folder, "cannot create the folder");
  if (!ij__os_is_dir(folder)) return ij__fail(err, IJ_E_IO, folder, "expected a folder, found something else");
  struct statvfs fs;
  if (statvfs(folder, &fs) != 0) return IJ_OK; /* unknown: writing will tell */
  double room = (double)fs.f_bavail * (double)fs.f_frsize, need = (double)plan->n_bytes + 64e6;
  if (room >= need) return IJ_OK;
  return ij__fail(err, IJ_E_IO, folder, "the synthetic checkpoint needs %.1f GB of disk, %.1f GB are free: name a folder on a larger disk",
                  need / 1e9, room / 1e9);
}

/* -------------------------------------------------------------------------------------------------- shards with an index */

typedef enum synth_text { TEXT_CONFIG, TEXT_INDEX, TEXT_NOTE, N_TEXTS } synth_text;
static const char *const text_names[N_TEXTS] = {"config.json", "model.safetensors.index.json", "hf_quant_config.json"};

static bool build_texts(ij_buf texts[N_TEXTS], const ij_synth_plan *plan) {
  ij__synth_config(&texts[TEXT_CONFIG], plan);
  build_index(&texts[TEXT_INDEX], plan);
  if (plan->model.layout == IJ_SYNTH_NVFP4) ij__synth_release_note(&texts[TEXT_NOTE], plan);
  bool ok = true;
  for (int i = 0; i < N_TEXTS; i++) ok = ok && !texts[i].failed;
  return ok;
}

typedef enum synth_found { FOUND_NOTHING, FOUND_SAME, FOUND_OTHER } synth_found;

static synth_found look_at_text(const char *folder, const char *name, const ij_buf *ours) {
  char *path = ij__os_join(folder, name), *text = NULL;
  size_t n = 0;
  synth_found found = FOUND_NOTHING;
  if (path && ij__os_is_file(path)) {
    found = FOUND_OTHER;
    if (ij__os_read_file(path, 1 << 24, &text, &n, NULL) == IJ_OK && n == ours->len && memcmp(text, ours->data, n) == 0) found = FOUND_SAME;
  }
  ij__free(text);
  ij__free(path);
  return found;
}

/* config.json is written last, so one equal to ours stands for the whole checkpoint if the index, which tells the layouts apart, is ours
 * too; the sizes of the shards are looked at as well. */
static synth_found look_at(const ij_synth_plan *plan, const char *folder, const ij_buf texts[N_TEXTS]) {
  synth_found found = look_at_text(folder, text_names[TEXT_CONFIG], &texts[TEXT_CONFIG]);
  if (found == FOUND_SAME) found = look_at_text(folder, text_names[TEXT_INDEX], &texts[TEXT_INDEX]);
  for (int shard = 0; shard < plan->n_shards && found == FOUND_SAME; shard++) {
    char name[64];
    size_t n_values = 0;
    shard_name(name, shard, plan->n_shards);
    for (int i = plan->shard_begin[shard]; i < plan->shard_begin[shard + 1]; i++) n_values += ij__st_tensor_bytes(&plan->tensors[i].t);
    char *path = ij__os_join(folder, name);
    struct stat st;
    if (!path || stat(path, &st) != 0 || (uint64_t)st.st_size < n_values) found = FOUND_NOTHING;
    ij__free(path);
  }
  return found;
}

static ij_status put_text(const char *folder, const char *name, const ij_buf *text, ij_err *err) {
  char *path = ij__os_join(folder, name);
  ij_status s = path ? ij__out_write(path, text->data, text->len, err) : ij__fail_nomem(err, name, text->len);
  ij__free(path);
  return s;
}

static ij_status put_all(synth_run *run, const char *folder, const ij_buf texts[N_TEXTS]) {
  ij_status s = IJ_OK;
  for (int shard = 0; shard < run->plan->n_shards && s == IJ_OK; shard++) s = put_shard(run, folder, shard);
  for (int i = N_TEXTS; i-- > 0 && s == IJ_OK;) {
    if (texts[i].len > 0) s = put_text(folder, text_names[i], &texts[i], run->err);
  }
  return s;
}

static ij_status write_shards(synth_run *run, const char *folder) {
  ij_buf texts[N_TEXTS] = {{0}};
  ij_status s;
  if (!build_texts(texts, run->plan)) {
    s = ij__fail_nomem(run->err, "a configuration", texts[TEXT_INDEX].len);
  } else {
    synth_found found = look_at(run->plan, folder, texts);
    if (found == FOUND_OTHER) {
      s = ij__fail(run->err, IJ_E_ARGUMENT, folder, "the folder holds another checkpoint: name a new or empty folder");
    } else if (found == FOUND_SAME) {
      s = IJ_OK;
    } else {
      s = prepare_folder(run->plan, folder, run->err);
      if (s == IJ_OK) s = put_all(run, folder, texts);
    }
  }
  for (int i = 0; i < N_TEXTS; i++) ij__buf_free(&texts[i]);
  return s;
}

/* ---------------------------------------------------------------------------------------------------------------- GGUF */

/* A file of the right size that begins with our header is ours: it took its name when it was complete. */
static synth_found look_at_gguf(const char *path, const ij_buf *header, size_t file_bytes) {
  struct stat st;
  if (stat(path, &st) != 0) return FOUND_NOTHING;
  synth_found found = FOUND_OTHER;
  FILE *f = (uint64_t)st.st_size == file_bytes ? fopen(path, "rb") : NULL;
  char *text = f ? ij__alloc(header->len) : NULL;
  if (text && fread(text, 1, header->len, f) == header->len && memcmp(text, header->data, header->len) == 0) found = FOUND_SAME;
  ij__free(text);
  if (f) fclose(f);
  return found;
}

static ij_status write_gguf(synth_run *run, const char *folder) {
  const ij_synth_plan *plan = run->plan;
  ij_gguf_keys keys = {0};
  ij_buf header = {0};
  size_t file_bytes = 0;
  synth_found found = FOUND_NOTHING;
  char *path = ij__synth_path(&plan->model, folder);
  ij_st_tensor *declared = declare(plan, 0, plan->n);
  ij__synth_keys(&keys, plan);
  ij_status s = path && declared ? IJ_OK : ij__fail_nomem(run->err, "the list of tensors", (size_t)plan->n * sizeof *declared);
  if (s == IJ_OK) s = ij__gguf_header(&header, &file_bytes, &keys, declared, plan->n, run->err);
  if (s == IJ_OK) found = look_at_gguf(path, &header, file_bytes);
  if (s == IJ_OK && found == FOUND_OTHER) {
    s = ij__fail(run->err, IJ_E_ARGUMENT, path, "another file has this name: name a new or empty folder");
  }
  if (s == IJ_OK && found == FOUND_NOTHING) {
    s = prepare_folder(plan, folder, run->err);
    if (s == IJ_OK) s = ij__gguf_writer_open(&run->gguf, path, &keys, declared, plan->n, run->err);
    for (int i = 0; i < plan->n && s == IJ_OK; i++) s = ij__synth_values_put(run->values, &plan->tensors[i], put_piece, run);
    if (s == IJ_OK) s = ij__gguf_writer_finish(&run->gguf, run->err);
    ij__gguf_writer_abort(&run->gguf);
  }
  ij__gguf_keys_free(&keys);
  ij__buf_free(&header);
  ij__free(declared);
  ij__free(path);
  return s;
}

ij_status ij__synth_write(const ij_synth_model *model, const char *folder, bool (*progress)(void *user, double fraction), void *user,
                          ij_err *err) {
  ij_synth_plan plan;
  if (!ij__synth_plan_make(&plan, model)) return ij__fail_nomem(err, "the list of tensors", sizeof plan);
  synth_run run = {.plan = &plan, .progress = progress, .user = user, .err = err, .values = ij__synth_values_new()};
  ij_status s;
  if (!run.values) {
    s = ij__fail_nomem(err, "tables of values", 1 << 20);
  } else {
    s = model->layout == IJ_SYNTH_GGUF ? write_gguf(&run, folder) : write_shards(&run, folder);
  }
  ij__synth_values_free(run.values);
  ij__synth_plan_free(&plan);
  return s;
}

/* ----------------------------------------------------------------------------------------------------------- file names */

char *ij__synth_path(const ij_synth_model *model, const char *folder) {
  char name[64];
  if (model->layout != IJ_SYNTH_GGUF) return ij__strdup(folder);
  gguf_name(name, model);
  return ij__os_join(folder, name);
}

void ij__synth_free_files(char **files, int n) {
  for (int i = 0; files && i < n; i++) ij__free(files[i]);
  ij__free(files);
}

/* The i-th file, and the temporary name it grows under. */
static bool add_file(char **files, int *n, char *path) {
  files[(*n)++] = path;
  files[*n] = path ? ij__out_part_path(path) : NULL;
  return files[(*n)++] != NULL;
}

char **ij__synth_files(const ij_synth_model *model, const char *folder, int *n) {
  ij_synth_plan plan;
  if (!ij__synth_plan_make(&plan, model)) return NULL;
  const int n_shards = model->layout == IJ_SYNTH_GGUF ? 0 : plan.n_shards;
  ij__synth_plan_free(&plan);
  char **files = ij__alloc_zero((size_t)(n_shards + N_TEXTS + 1) * 2, sizeof *files);
  bool ok = files != NULL;
  *n = 0;
  if (ok && n_shards == 0) ok = add_file(files, n, ij__synth_path(model, folder));
  for (int i = 0; i < n_shards && ok; i++) {
    char shard[64];
    shard_name(shard, i, n_shards);
    ok = add_file(files, n, ij__os_join(folder, shard));
  }
  for (int i = 0; i < N_TEXTS && ok && n_shards > 0; i++) ok = add_file(files, n, ij__os_join(folder, text_names[i]));
  if (ok) return files;
  ij__synth_free_files(files, *n);
  return NULL;
}
