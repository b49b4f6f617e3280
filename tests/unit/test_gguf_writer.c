/* test_gguf_writer.c: what the writer writes, the reader reads: keys of every kind, tensors of block types, padding; misuse refused. */
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "io/gguf.h"
#include "test.h"
#include "unit/temp_folder.h"
#include "tools/gguf_writer.h"

static char folder[256];

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int n_entries(void) {
  char **names;
  int n;
  if (ij__os_list_dir(folder, "", &names, &n, NULL) != IJ_OK) return -1;
  ij__os_free_names(names, n);
  return n;
}

/* 18 bytes and 14 bytes of padding, 8 bytes, and one block of 256 values. */
static const ij_st_tensor tensors[] = {{.name = "a.weight", .dtype = IJ_DTYPE_Q4_0, .n_dims = 1, .dims = {32}},
                                       {.name = "b", .dtype = IJ_DTYPE_F32, .n_dims = 2, .dims = {2, 1}},
                                       {.name = "c", .dtype = IJ_DTYPE_IQ1_M, .n_dims = 3, .dims = {2, 1, 256}}};

static void add_keys(ij_gguf_keys *k) {
  static const int32_t numbers[] = {-1, 0, 70000};
  static const uint64_t wide[] = {1, (uint64_t)1 << 63};
  static const char *const words[] = {"", "two words", "\xc3\xa9"};
  ij__gguf_add_string(k, "general.architecture", "inkling");
  ij__gguf_add_u32(k, "n", 4000000000u);
  ij__gguf_add_f32(k, "x", 0.1f);
  ij__gguf_add_bool(k, "yes", true);
  ij__gguf_add_bool(k, "no", false);
  ij__gguf_add_array(k, "numbers", IJ_GGUF_I32, numbers, 3);
  ij__gguf_add_array(k, "wide", IJ_GGUF_U64, wide, 2);
  ij__gguf_add_array(k, "none", IJ_GGUF_F32, NULL, 0);
  ij__gguf_add_strings(k, "words", words, 3);
}

static void check_keys(const ij_gguf *g) {
  int64_t i = 0;
  double x = 0;
  const char *text;
  size_t n = 0;
  CHECK_INT(g->n_values, 9);
  CHECK(ij__gguf_int(ij__gguf_find(g, "n"), 0, &i) && i == 4000000000);
  CHECK(ij__gguf_real(ij__gguf_find(g, "x"), 0, &x) && x == 0.1f);
  CHECK(ij__gguf_int(ij__gguf_find(g, "yes"), 0, &i) && i == 1);
  CHECK(ij__gguf_int(ij__gguf_find(g, "no"), 0, &i) && i == 0);
  CHECK(ij__gguf_int(ij__gguf_find(g, "numbers"), 2, &i) && i == 70000);
  CHECK(ij__gguf_int(ij__gguf_find(g, "numbers"), 0, &i) && i == -1);
  CHECK_INT(ij__gguf_find(g, "wide")->type, IJ_GGUF_U64);
  CHECK(ij__gguf_find(g, "none")->is_array && ij__gguf_find(g, "none")->n == 0);
  CHECK(ij__gguf_string(g, ij__gguf_find(g, "words"), 1, &text, &n) && n == 9 && memcmp(text, "two words", 9) == 0);
  CHECK(ij__gguf_string(g, ij__gguf_find(g, "words"), 0, &text, &n) && n == 0);
  CHECK(ij__gguf_string(g, ij__gguf_find(g, "general.architecture"), 0, &text, &n) && n == 7);
}

static void write_file(const char *path, const ij_gguf_keys *keys) {
  unsigned char bytes[130];
  ij_gguf_writer *w;
  ij_err err = {0};
  for (int i = 0; i < 130; i++) bytes[i] = (unsigned char)(i + 1);
  CHECK_OK(ij__gguf_writer_open(&w, path, keys, tensors, 3, &err), err);
  CHECK(!ij__os_is_file(path));
  CHECK_OK(ij__gguf_writer_put(w, bytes, 10, &err), err);
  CHECK_OK(ij__gguf_writer_put(w, bytes + 10, 8, &err), err);
  CHECK_OK(ij__gguf_writer_put(w, bytes + 18, 8, &err), err);
  CHECK_OK(ij__gguf_writer_put(w, bytes, 112, &err), err);
  CHECK_OK(ij__gguf_writer_finish(&w, &err), err);
  CHECK(w == NULL);
}

static void test_read_back(void) {
  ij_gguf_keys keys = {0}, copied = {0};
  char *bytes = NULL, *again = NULL;
  size_t n = 0, n_again = 0;
  ij_err err = {0};
  ij_gguf g;
  add_keys(&keys);
  write_file(path_of("x.gguf"), &keys);
  CHECK_OK(ij__os_read_file(path_of("x.gguf"), 1 << 20, &bytes, &n, &err), err);
  CHECK_OK(ij__gguf_parse(&g, bytes, n, "x.gguf", &err), err);
  check_keys(&g);
  CHECK_INT(g.version, 3);
  CHECK_INT(g.n_tensors, 3);
  CHECK_STR(g.tensors[0].name, "a.weight");
  CHECK_INT(g.tensors[1].dims[0], 2);
  CHECK_INT(g.tensors[1].dims[1], 1);
  CHECK(g.tensors[2].dtype == IJ_DTYPE_IQ1_M && g.tensors[2].n_dims == 3 && g.tensors[2].dims[0] == 2 && g.tensors[2].dims[2] == 256);
  for (int i = 0; i < 3; i++) CHECK_INT(((const char *)g.tensors[i].data - bytes) % 32, 0);
  CHECK(((const unsigned char *)g.tensors[0].data)[17] == 18 && ((const unsigned char *)g.tensors[1].data)[0] == 19);
  CHECK(((const unsigned char *)g.tensors[2].data)[111] == 112);
  /* Values copied from a file make the same file. */
  for (size_t i = 0; i < g.n_values; i++) ij__gguf_add_value(&copied, &g, &g.values[i]);
  write_file(path_of("y.gguf"), &copied);
  CHECK_OK(ij__os_read_file(path_of("y.gguf"), 1 << 20, &again, &n_again, &err), err);
  CHECK(n == n_again && memcmp(bytes, again, n) == 0);
  ij__gguf_free(&g);
  ij__free(bytes);
  ij__free(again);
  ij__gguf_keys_free(&keys);
  ij__gguf_keys_free(&copied);
  unlink(path_of("x.gguf"));
  unlink(path_of("y.gguf"));
}

static void test_refused(void) {
  static const char bytes[64];
  ij_gguf_keys keys = {0};
  ij_gguf_writer *w;
  ij_err err = {0};
  ij_st_tensor t = {.name = "t", .dtype = IJ_DTYPE_AFFINE4, .n_dims = 1, .dims = {64}};
  CHECK_INT(ij__gguf_writer_open(&w, path_of("z.gguf"), &keys, &t, 1, &err), IJ_E_ARGUMENT);
  CHECK(w == NULL);
  t.dtype = IJ_DTYPE_Q4_K;
  CHECK_INT(ij__gguf_writer_open(&w, path_of("z.gguf"), &keys, &t, 1, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "256");
  CHECK_OK(ij__gguf_writer_open(&w, path_of("z.gguf"), &keys, tensors, 3, &err), err);
  CHECK_INT(ij__gguf_writer_put(w, bytes, 19, &err), IJ_E_ARGUMENT); /* beyond the tensor's end */
  CHECK_OK(ij__gguf_writer_put(w, bytes, 18, &err), err);
  CHECK_INT(ij__gguf_writer_finish(&w, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "tensor 1");
  CHECK(w == NULL);
  CHECK_INT(n_entries(), 0);
  CHECK_OK(ij__gguf_writer_open(&w, path_of("z.gguf"), &keys, tensors, 3, &err), err);
  CHECK_INT(n_entries(), 1);
  ij__gguf_writer_abort(&w);
  CHECK_INT(n_entries(), 0);
  CHECK_INT(ij__gguf_writer_open(&w, path_of("none/z.gguf"), &keys, tensors, 3, &err), IJ_E_IO);
}

/* Every allocation that fails is reported, and nothing stays behind. */
static void test_memory_refused(void) {
  for (int k = 1; k < 8; k++) {
    int64_t before = ij__alloc_blocks();
    ij_gguf_keys keys = {0};
    ij_gguf_writer *w;
    ij_err err = {0};
    ij__alloc_fail_after(k);
    add_keys(&keys);
    ij_status s = ij__gguf_writer_open(&w, path_of("z.gguf"), &keys, tensors, 3, &err);
    ij__alloc_fail_after(0);
    CHECK(s == IJ_E_NOMEM || s == IJ_OK);
    if (k == 1) CHECK_INT(s, IJ_E_NOMEM);
    ij__gguf_writer_abort(&w);
    ij__gguf_keys_free(&keys);
    CHECK_INT(ij__alloc_blocks(), before);
    CHECK_INT(n_entries(), 0);
  }
}

int main(void) {
  if (!make_temp_folder(folder, sizeof folder)) return 1;
  RUN(test_read_back);
  RUN(test_refused);
  RUN(test_memory_refused);
  CHECK_INT(rmdir(folder), 0);
  return test_report();
}
