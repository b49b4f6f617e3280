/* test_synth.c: the streaming safetensors writer and the synthetic checkpoints: same bytes every time, nothing left behind on failure. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/os.h"
#include "core/str.h"
#include "io/ckpt.h"
#include "kernels/kernels.h"
#include "test.h"
#include "unit/temp_folder.h"
#include "tools/st_writer.h"
#include "tools/synth_int.h"
#include "tools/tool_synth.h"

static char folder[256];

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int n_entries(const char *path, const char *suffix) {
  char **names;
  int n;
  if (ij__os_list_dir(path, suffix, &names, &n, NULL) != IJ_OK) return -1;
  ij__os_free_names(names, n);
  return n;
}

static void test_writer_layout(void) {
  const ij_st_tensor tensors[] = {{.name = "a", .dtype = IJ_DTYPE_F32, .n_dims = 2, .dims = {2, 1}},
                                  {.name = "b", .dtype = IJ_DTYPE_BF16, .n_dims = 1, .dims = {3}}};
  ij_out_file *w;
  ij_err err = {0};
  CHECK_OK(ij__st_open(&w, path_of("x.safetensors"), tensors, 2, &err), err);
  CHECK(!ij__os_is_file(path_of("x.safetensors")));
  CHECK_OK(ij__out_put(w, "12345678", 8, &err), err);
  CHECK_OK(ij__out_put(w, "abcdef", 6, &err), err);
  CHECK_OK(ij__out_finish(&w, &err), err);
  CHECK(w == NULL);
  char *bytes = NULL;
  size_t n = 0;
  CHECK_OK(ij__os_read_file(path_of("x.safetensors"), 4096, &bytes, &n, &err), err);
  size_t header = (unsigned char)bytes[0];
  CHECK_INT(n, 8 + header + 14);
  CHECK_INT((8 + header) % 64, 0);
  CHECK_HAS(bytes + 8, "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}");
  CHECK_HAS(bytes + 8, "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]}");
  CHECK(memcmp(bytes + 8 + header, "12345678abcdef", 14) == 0);
  ij__free(bytes);
  unlink(path_of("x.safetensors"));
}

static void test_writer_refuses(void) {
  const ij_st_tensor one = {.name = "a", .dtype = IJ_DTYPE_F32, .n_dims = 1, .dims = {1}};
  ij_out_file *w;
  ij_err err = {0};
  CHECK_OK(ij__st_open(&w, path_of("y.safetensors"), &one, 1, &err), err);
  CHECK_INT(ij__out_put(w, "12345", 5, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij__out_finish(&w, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "64 of 68");
  CHECK_INT(n_entries(folder, ""), 0);
  CHECK_INT(ij__st_open(&w, path_of("none/y.safetensors"), &one, 1, &err), IJ_E_IO);
  CHECK(w == NULL);
}

static uint64_t hash_folder(const char *path) {
  char **names;
  int n;
  uint64_t hash = 0;
  if (ij__os_list_dir(path, "", &names, &n, NULL) != IJ_OK) return 0;
  for (int i = 0; i < n; i++) {
    char *file = ij__os_join(path, names[i]), *bytes = NULL;
    size_t size = 0;
    if (ij__os_read_file(file, 1 << 24, &bytes, &size, NULL) == IJ_OK) hash = ij__hash_bytes(bytes, size, hash);
    ij__free(bytes);
    ij__free(file);
  }
  ij__os_free_names(names, n);
  return hash;
}

static int n_calls;

static bool count_calls(void *user, double fraction) {
  n_calls++;
  CHECK(fraction >= 0 && fraction <= 1);
  return user == NULL || n_calls < 5;
}

static const ij_synth_model *model(const char *text) {
  static ij_synth_model m;
  ij_err err = {0};
  CHECK_OK(ij__synth_parse(&m, text, &err), err);
  return &m;
}

static void remove_checkpoint(const char *format, const char *path) {
  int n;
  char **files = ij__synth_files(model(format), path, &n);
  for (int i = 0; i < n; i++) unlink(files[i]);
  CHECK_INT(rmdir(path), 0); /* the list names everything that was written */
  ij__synth_free_files(files, n);
}

static void test_same_bytes(void) {
  char *a = ij__strdup(path_of("a")), *b = ij__strdup(path_of("b"));
  ij_err err = {0};
  n_calls = 0;
  CHECK_OK(ij__synth_write(model("tiny"), a, count_calls, NULL, &err), err);
  CHECK(n_calls > 50);
  CHECK_OK(ij__synth_write(model("tiny"), b, NULL, NULL, &err), err);
  CHECK(hash_folder(a) == hash_folder(b));
  CHECK(n_entries(a, ".safetensors") >= 2);
  n_calls = 0;
  CHECK_OK(ij__synth_write(model("tiny"), a, count_calls, NULL, &err), err);
  CHECK_INT(n_calls, 0); /* complete: used as it is */
  CHECK_INT(ij__synth_write(model("try"), a, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "another checkpoint");
  remove_checkpoint("tiny", a);
  remove_checkpoint("tiny", b);
  ij__free(a);
  ij__free(b);
}

static uint32_t crc_of_file(const char *path) {
  char *bytes = NULL;
  size_t n = 0;
  ij_err err = {0};
  CHECK_OK(ij__os_read_file(path, 1 << 24, &bytes, &n, &err), err);
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < n; i++) {
    crc ^= (unsigned char)bytes[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  ij__free(bytes);
  return crc ^ 0xffffffffu;
}

/* The bytes are the same on every machine and in every version: benchmarks of different days measure the same model. */
static void test_known_bytes(void) {
  static const struct {
    const char *format, *file;
    uint32_t crc;
  } known[] = {{"tiny", "model-00001-of-00004.safetensors", 2527804987u},
               {"tiny:q4_k", "inkling-tiny-q4_k.gguf", 287035542u},
               {"tiny:mxfp4", "inkling-tiny-mxfp4.gguf", 2151081788u},
               {"tiny:mlx4", "model-00001-of-00001.safetensors", 17221036u},
               {"tiny:nvfp4", "model-00002-of-00002.safetensors", 1398684398u}};
  ij_err err = {0};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    char *a = ij__strdup(path_of("a"));
    CHECK_OK(ij__synth_write(model(known[i].format), a, NULL, NULL, &err), err);
    char *file = ij__os_join(a, known[i].file);
    uint32_t crc = crc_of_file(file);
    if (crc != known[i].crc) TEST_FAIL("%s: the CRC of %s is %uu, expected %uu", known[i].format, known[i].file, crc, known[i].crc);
    ij__free(file);
    remove_checkpoint(known[i].format, a);
    ij__free(a);
  }
}

/* --------------------------------------------------------------------------------------------------------------- forms */

static void test_parse(void) {
  ij_synth_model m;
  ij_err err = {0};
  CHECK_OK(ij__synth_parse(&m, "3b:iq2_xxs", &err), err);
  CHECK(m.size == IJ_SYNTH_3B && m.layout == IJ_SYNTH_GGUF && m.dtype == IJ_DTYPE_IQ2_XXS);
  CHECK_OK(ij__synth_parse(&m, "try:mlx3-g128", &err), err);
  CHECK(m.size == IJ_SYNTH_TRY && m.layout == IJ_SYNTH_MLX && m.dtype == IJ_DTYPE_AFFINE3 && m.group == 128);
  CHECK_OK(ij__synth_parse(&m, "tiny:nvfp4", &err), err);
  CHECK(m.layout == IJ_SYNTH_NVFP4 && m.dtype == IJ_DTYPE_NVFP4_SPLIT);
  CHECK_OK(ij__synth_parse(&m, "tiny:gguf-nvfp4", &err), err);
  CHECK(m.layout == IJ_SYNTH_GGUF && m.dtype == IJ_DTYPE_NVFP4);
  CHECK_OK(ij__synth_parse(&m, "tiny", &err), err);
  CHECK(m.layout == IJ_SYNTH_NATIVE && m.zipf == 0);
  CHECK_OK(ij__synth_parse(&m, "24b:q4_k:zipf1.5", &err), err);
  CHECK(m.size == IJ_SYNTH_24B && m.dtype == IJ_DTYPE_Q4_K && m.zipf == 3);
  CHECK(ij__synth_bytes(&m) > (size_t)12 * 1000 * 1000 * 1000);
  CHECK_OK(ij__synth_parse(&m, "tiny:zipf1", &err), err);
  CHECK(m.layout == IJ_SYNTH_NATIVE && m.zipf == 2);
  static const char *const wrong[] = {"", ":", "tin", "tiny:", "tiny:q4", "tiny:Q4_K", "tiny:mlx4-g16", "tiny:mlx7", "tiny:mlx-mxfp4-g32",
                                      "tiny:i8", "tiny:affine 4-bit", "tiny:q4_k:x", "tiny:zipf3", "tiny:zipf", "tiny:zipf1:q4_k"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    if (ij__synth_parse(&m, wrong[i], &err) != IJ_E_ARGUMENT) TEST_FAIL("'%s' is accepted", wrong[i]);
  }
  CHECK_INT(ij__synth_parse(&m, "tiny:q4", &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "iq3_xxs");
}

/* ------------------------------------------------------------------------------------------------------------- routing */

typedef struct bias_sink {
  float bias[128];
  size_t n;
} bias_sink;

static ij_status keep_bias(void *user, const void *bytes, size_t n) {
  bias_sink *s = user;
  CHECK(s->n + n <= sizeof s->bias);
  if (s->n + n <= sizeof s->bias) memcpy((char *)s->bias + s->n, bytes, n);
  s->n += n;
  return IJ_OK;
}

static double normal(uint64_t *state) { /* twelve uniform deviates */
  double sum = -6;
  for (int i = 0; i < 12; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    sum += (double)(*state >> 11) * 0x1p-53;
  }
  return sum;
}

/* One token: the six largest of sigmoid(z) + bias, z normal with deviation 2. */
static void route_once(const float *bias, int n, uint64_t *state, int *count) {
  double score[128];
  for (int e = 0; e < n; e++) score[e] = 1 / (1 + exp(-2 * normal(state))) + (double)bias[e];
  for (int k = 0; k < 6; k++) {
    int best = 0;
    for (int e = 1; e < n; e++) best = score[e] > score[best] ? e : best;
    count[best]++;
    score[best] = -1;
  }
}

static int falling(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }

/* Biases that are said to make Zipf's law make it, as nearly as the router can; other experts are preferred in another layer. */
static void test_popularity(void) {
  enum { N = 128, TOKENS = 2000 };
  ij_synth_values *v = ij__synth_values_new();
  for (int halves = 1; halves <= 4; halves++) {
    ij_synth_tensor t = {.t = {.dtype = IJ_DTYPE_F32, .n_dims = 1, .dims = {N}}, .law = IJ_LAW_POPULARITY, .mean = (float)halves / 2,
                         .deviation = 2, .stream = 5, .shape = {6}};
    bias_sink a = {.n = 0}, b = {.n = 0};
    int count[N] = {0};
    double share[N], sum = 0, distance = 0;
    uint64_t state = 1;
    CHECK_INT(ij__synth_values_put(v, &t, keep_bias, &a), IJ_OK);
    t.stream = 6;
    CHECK_INT(ij__synth_values_put(v, &t, keep_bias, &b), IJ_OK);
    CHECK_INT(a.n, sizeof a.bias);
    CHECK(memcmp(a.bias, b.bias, sizeof a.bias) != 0);
    for (int i = 0; i < TOKENS; i++) route_once(a.bias, N, &state, count);
    qsort(count, N, sizeof *count, falling);
    ij__synth_zipf(share, N, 6, halves);
    for (int i = 0; i < N; i++) sum += share[i], distance += fabs((double)count[i] / TOKENS - share[i]) / 2;
    CHECK(fabs(sum - 6) < 1e-9);
    if (!(distance < 0.06 * 6)) TEST_FAIL("exponent %g: %.1f %% of the uses go to other ranks than Zipf's law says", halves / 2.0, distance / 6 * 100);
  }
  ij__synth_values_free(v);
}

/* Decodes a matrix; scales and biases NULL for block types. */
static void check_law(const char *format, const ij_tensor_view *t, ij_dtype type, int64_t cols, const ij_tensor_view *scales,
                      const ij_tensor_view *biases, int group, double deviation) {
  const int64_t rows = (int64_t)t->n_bytes / ij__dtype_row_bytes(type, cols);
  const ij_kernels *k = ij__kernels_get(IJ_LEVEL_SCALAR);
  float *y = ij__alloc_array((size_t)cols, sizeof *y);
  double sum = 0, squares = 0;
  for (int64_t r = 0; r < rows; r++) {
    ij_stretch s = {.row = (const char *)t->data + r * ij__dtype_row_bytes(type, cols), .n = cols, .group = group};
    if (scales) s.scales = (const char *)scales->data + r * (int64_t)scales->n_bytes / rows, s.side_dtype = scales->dtype;
    if (biases) s.biases = (const char *)biases->data + r * (int64_t)biases->n_bytes / rows;
    k->decode[type](y, &s);
    for (int64_t c = 0; c < cols; c++) sum += y[c], squares += (double)y[c] * y[c];
  }
  double n = (double)(rows * cols), rms = sqrt(squares / n);
  if (!(rms > 0.9 * deviation && rms < 1.1 * deviation)) TEST_FAIL("%s: %s has deviation %g, expected %g", format, t->name, rms, deviation);
  if (!(fabs(sum / n) < 0.1 * deviation)) TEST_FAIL("%s: %s has mean %g with deviation %g", format, t->name, sum / n, deviation);
  ij__free(y);
}

static ij_ckpt *write_and_open(const char *format, const char *where) {
  ij_err err = {0};
  ij_ckpt *c = NULL;
  CHECK_OK(ij__synth_write(model(format), where, NULL, NULL, &err), err);
  char *path = ij__synth_path(model(format), where);
  CHECK_OK(ij__ckpt_open(&c, path, &err), err);
  ij__free(path);
  return c;
}

/* Every block type: a reader finds the tensors, and they have the deviation of the BF16 form. */
static void test_gguf_forms(void) {
  char *a = ij__strdup(path_of("a"));
  for (ij_dtype type = IJ_DTYPE_Q4_0; type <= IJ_DTYPE_NVFP4; type++) {
    char format[40];
    int n = snprintf(format, sizeof format, "tiny:%s%s", type == IJ_DTYPE_NVFP4 ? "gguf-" : "", ij__dtype_name(type));
    for (int i = 5; i < n; i++) format[i] = (char)(format[i] >= 'A' && format[i] <= 'Z' ? format[i] + 32 : format[i]);
    ij_ckpt *c = write_and_open(format, a);
    if (!c) continue;
    const char *const names[] = {"output.weight", "blk.0.ffn_down.weight", "blk.2.ffn_gate_exps.weight", "blk.1.attn_q.weight"};
    for (int i = 0; i < 4; i++) {
      const ij_tensor_view *t = ij__ckpt_find(c, names[i]);
      CHECK(t && t->dtype == type);
      if (!t || t->dtype != type) continue;
      int64_t cols = t->dims[t->n_dims - 1];
      CHECK_INT(cols % 256, ij__dtype_block_len(type) == 256 ? 0 : cols);
      check_law(format, t, type, cols, NULL, NULL, 0, (i == 0 ? 12 : 1) / sqrt((double)cols));
    }
    CHECK(ij__ckpt_find(c, "blk.3.ffn_gate_inp.weight") && ij__ckpt_find(c, "blk.3.ffn_gate_inp.weight")->dtype == IJ_DTYPE_F32);
    ij__ckpt_close(&c);
    remove_checkpoint(format, a);
  }
  ij__free(a);
}

static void test_mlx_forms(void) {
  static const char *const formats[] = {"tiny:mlx2",      "tiny:mlx3",      "tiny:mlx4",      "tiny:mlx5",     "tiny:mlx6",     "tiny:mlx8",
                                        "tiny:mlx4-g32",  "tiny:mlx4-g128", "tiny:mlx-mxfp4", "tiny:mlx-mxfp8", "tiny:mlx-nvfp4"};
  char *a = ij__strdup(path_of("a"));
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    ij_ckpt *c = write_and_open(formats[i], a);
    if (!c) continue;
    ij_synth_model m = *model(formats[i]);
    const char *const names[] = {"model.llm.unembed", "model.llm.layers.2.mlp.experts.down_proj", "model.llm.layers.1.attn.wo_ud"};
    for (int k = 0; k < 3; k++) {
      char name[128];
      snprintf(name, sizeof name, "%s.weight", names[k]);
      const ij_tensor_view *t = ij__ckpt_find(c, name);
      snprintf(name, sizeof name, "%s.scales", names[k]);
      const ij_tensor_view *scales = ij__ckpt_find(c, name);
      snprintf(name, sizeof name, "%s.biases", names[k]);
      const ij_tensor_view *biases = ij__ckpt_find(c, name);
      CHECK(t && scales && (biases != NULL) == (m.dtype <= IJ_DTYPE_AFFINE8));
      if (!t || !scales) continue;
      int64_t cols = scales->dims[scales->n_dims - 1] * m.group;
      CHECK_INT(t->dims[t->n_dims - 1] * 4, ij__dtype_row_bytes(m.dtype, cols));
      check_law(formats[i], t, m.dtype, cols, scales, biases, m.group, (k == 0 ? 12 : 1) / sqrt((double)cols));
    }
    ij__ckpt_close(&c);
    remove_checkpoint(formats[i], a);
  }
  ij__free(a);
}

/* Routed experts after the first MoE layer, each with a factor of its own. */
static void test_release_form(void) {
  char *a = ij__strdup(path_of("a"));
  ij_ckpt *c = write_and_open("tiny:nvfp4", a);
  const ij_tensor_view *first = ij__ckpt_find(c, "model.llm.layers.1.mlp.experts.w2_weight");
  const ij_tensor_view *t = ij__ckpt_find(c, "model.llm.layers.2.mlp.experts.w2_weight");
  const ij_tensor_view *scales = ij__ckpt_find(c, "model.llm.layers.2.mlp.experts.w2_weight.scale");
  const ij_tensor_view *factors = ij__ckpt_find(c, "model.llm.layers.2.mlp.experts.w2_weight.scale2");
  CHECK(first && first->dtype == IJ_DTYPE_BF16);
  CHECK(t && t->dtype == IJ_DTYPE_U8 && scales && scales->dtype == IJ_DTYPE_F8_E4M3 && factors && factors->dtype == IJ_DTYPE_F32);
  if (t && scales && factors) {
    float factor[8];
    CHECK_INT(factors->n_bytes, sizeof factor);
    memcpy(factor, factors->data, sizeof factor);
    double mean = 0;
    for (int i = 0; i < 8; i++) mean += factor[i] / 8;
    check_law("tiny:nvfp4", t, IJ_DTYPE_NVFP4_SPLIT, 64, scales, NULL, 16, 1 / 8.0 / mean);
  }
  CHECK(ij__ckpt_find(c, "model.llm.layers.2.mlp.experts.w2_weight.original_shape") != NULL);
  ij__ckpt_close(&c);
  ij_err err = {0};
  CHECK_INT(ij__synth_write(model("tiny"), a, NULL, NULL, &err), IJ_E_ARGUMENT); /* same config.json, other tensors */
  remove_checkpoint("tiny:nvfp4", a);
  ij__free(a);
}

static void test_gguf_reused(void) {
  char *a = ij__strdup(path_of("a"));
  ij_err err = {0};
  n_calls = 0;
  CHECK_OK(ij__synth_write(model("tiny:q8_0"), a, count_calls, NULL, &err), err);
  CHECK(n_calls > 50);
  n_calls = 0;
  CHECK_OK(ij__synth_write(model("tiny:q8_0"), a, count_calls, NULL, &err), err);
  CHECK_INT(n_calls, 0);
  char *path = ij__synth_path(model("tiny:q8_0"), a);
  CHECK_OK(ij__out_write(path, "GGUF", 4, &err), err);
  CHECK_INT(ij__synth_write(model("tiny:q8_0"), a, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "another file");
  unlink(path);
  n_calls = 0;
  CHECK_INT(ij__synth_write(model("tiny:q8_0"), a, count_calls, a, &err), IJ_E_CANCELLED);
  CHECK_INT(n_entries(a, ""), 0);
  remove_checkpoint("tiny:q8_0", a);
  ij__free(path);
  ij__free(a);
}

static void test_cancel_leaves_no_config(void) {
  char *a = ij__strdup(path_of("a"));
  ij_err err = {0};
  n_calls = 0;
  CHECK_INT(ij__synth_write(model("tiny"), a, count_calls, a, &err), IJ_E_CANCELLED);
  CHECK_INT(n_entries(a, ""), 0);
  remove_checkpoint("tiny", a);
  ij__free(a);
}

static void test_not_a_folder(void) {
  ij_err err = {0};
  CHECK_OK(ij__out_write(path_of("file"), "x", 1, &err), err);
  char *a = ij__strdup(path_of("file"));
  CHECK_INT(ij__synth_write(model("tiny"), a, NULL, NULL, &err), IJ_E_IO);
  unlink(a);
  ij__free(a);
}

int main(void) {
  if (!make_temp_folder(folder, sizeof folder)) return 1;
  RUN(test_writer_layout);
  RUN(test_writer_refuses);
  RUN(test_same_bytes);
  RUN(test_known_bytes);
  RUN(test_parse);
  RUN(test_popularity);
  RUN(test_gguf_forms);
  RUN(test_mlx_forms);
  RUN(test_release_form);
  RUN(test_gguf_reused);
  RUN(test_cancel_leaves_no_config);
  RUN(test_not_a_folder);
  CHECK_INT(rmdir(folder), 0);
  return test_report();
}
