/* test_synth.c: the streaming safetensors writer and the synthetic checkpoints: same bytes every time, nothing left behind on failure. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/os.h"
#include "core/str.h"
#include "test.h"
#include "tools/st_writer.h"
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
  ij_st_writer *w;
  ij_err err = {0};
  CHECK_OK(ij__st_writer_open(&w, path_of("x.safetensors"), tensors, 2, &err), err);
  CHECK(!ij__os_is_file(path_of("x.safetensors")));
  CHECK_OK(ij__st_writer_put(w, "12345678", 8, &err), err);
  CHECK_OK(ij__st_writer_put(w, "abcdef", 6, &err), err);
  CHECK_OK(ij__st_writer_finish(&w, &err), err);
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
  ij_st_writer *w;
  ij_err err = {0};
  CHECK_OK(ij__st_writer_open(&w, path_of("y.safetensors"), &one, 1, &err), err);
  CHECK_INT(ij__st_writer_put(w, "12345", 5, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij__st_writer_finish(&w, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "0 of 4");
  CHECK_INT(n_entries(folder, ""), 0);
  CHECK_INT(ij__st_writer_open(&w, path_of("none/y.safetensors"), &one, 1, &err), IJ_E_IO);
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

static void remove_checkpoint(const char *path) {
  int n;
  char **files = ij__synth_files(IJ_SYNTH_TINY, path, &n);
  for (int i = 0; i < n; i++) unlink(files[i]);
  CHECK_INT(rmdir(path), 0); /* the list names everything that was written */
  ij__synth_free_files(files, n);
}

static void test_same_bytes(void) {
  char *a = ij__strdup(path_of("a")), *b = ij__strdup(path_of("b"));
  ij_err err = {0};
  n_calls = 0;
  CHECK_OK(ij__synth_write(IJ_SYNTH_TINY, a, count_calls, NULL, &err), err);
  CHECK(n_calls > 50);
  CHECK_OK(ij__synth_write(IJ_SYNTH_TINY, b, NULL, NULL, &err), err);
  CHECK(hash_folder(a) == hash_folder(b));
  CHECK(n_entries(a, ".safetensors") >= 2);
  n_calls = 0;
  CHECK_OK(ij__synth_write(IJ_SYNTH_TINY, a, count_calls, NULL, &err), err);
  CHECK_INT(n_calls, 0); /* complete: used as it is */
  CHECK_INT(ij__synth_write(IJ_SYNTH_TRY, a, NULL, NULL, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "another checkpoint");
  remove_checkpoint(a);
  remove_checkpoint(b);
  ij__free(a);
  ij__free(b);
}

/* The bytes are the same on every machine and in every version: benchmarks of different days measure the same model. */
static void test_known_bytes(void) {
  char *a = ij__strdup(path_of("a"));
  ij_err err = {0};
  CHECK_OK(ij__synth_write(IJ_SYNTH_TINY, a, NULL, NULL, &err), err);
  char *shard = ij__os_join(a, "model-00001-of-00004.safetensors"), *bytes = NULL;
  size_t n = 0;
  CHECK_OK(ij__os_read_file(shard, 1 << 24, &bytes, &n, &err), err);
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < n; i++) {
    crc ^= (unsigned char)bytes[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  CHECK_INT(crc ^ 0xffffffffu, 2527804987u);
  ij__free(bytes);
  ij__free(shard);
  remove_checkpoint(a);
  ij__free(a);
}

static void test_cancel_leaves_no_config(void) {
  char *a = ij__strdup(path_of("a"));
  ij_err err = {0};
  n_calls = 0;
  CHECK_INT(ij__synth_write(IJ_SYNTH_TINY, a, count_calls, a, &err), IJ_E_CANCELLED);
  CHECK_INT(n_entries(a, ""), 0);
  remove_checkpoint(a);
  ij__free(a);
}

static void test_not_a_folder(void) {
  ij_err err = {0};
  CHECK_OK(ij__st_write_text(path_of("file"), "x", 1, &err), err);
  char *a = ij__strdup(path_of("file"));
  CHECK_INT(ij__synth_write(IJ_SYNTH_TINY, a, NULL, NULL, &err), IJ_E_IO);
  unlink(a);
  ij__free(a);
}

int main(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/inkjet-test-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(folder)) {
    printf("cannot create %s\n", folder);
    return 1;
  }
  RUN(test_writer_layout);
  RUN(test_writer_refuses);
  RUN(test_same_bytes);
  RUN(test_known_bytes);
  RUN(test_cancel_leaves_no_config);
  RUN(test_not_a_folder);
  CHECK_INT(rmdir(folder), 0);
  return test_report();
}
