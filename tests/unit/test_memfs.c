/* test_memfs.c: folders in memory behave like folders on disk: listed, read, mapped, refused; a checkpoint in one is the same checkpoint. */
#include "core/alloc.h"
#include "core/memfs.h"
#include "core/os.h"
#include "inkjet.h"
#include "test.h"

static const char hello[] = "hello", other[] = "{}";

static void files_are_found_by_path(void) {
  ij_err err = {0};
  static const ij_memfs_file files[] = {{"b.txt", hello, 5}, {"a.json", other, 2}, {"empty.txt", NULL, 0}};
  CHECK_OK(ij__memfs_add("builtin:one", files, 3, &err), err);
  CHECK(ij__os_is_dir("builtin:one") && ij__os_is_dir("builtin:one/") && !ij__os_is_dir("builtin:on") && !ij__os_is_dir("builtin:one/b.txt"));
  CHECK(ij__os_is_file("builtin:one/b.txt") && !ij__os_is_file("builtin:one/b.tx") && !ij__os_is_file("builtin:one"));
  CHECK(!ij__os_is_file("b.txt"));
  char **names = NULL;
  int n = 0;
  CHECK_OK(ij__os_list_dir("builtin:one", ".txt", &names, &n, &err), err);
  CHECK_INT(n, 2);
  CHECK_STR(names[0], "b.txt");
  ij__os_free_names(names, n);
  char *text = NULL;
  size_t len = 0;
  CHECK_OK(ij__os_read_file("builtin:one/b.txt", 5, &text, &len, &err), err);
  CHECK_INT(len, 5);
  CHECK_STR(text, "hello");
  ij__free(text);
  CHECK_INT(ij__os_read_file("builtin:one/b.txt", 4, &text, &len, &err), IJ_E_FORMAT);
  ij_file_map map;
  CHECK_OK(ij__os_map_file("builtin:one/b.txt", &map, &err), err);
  CHECK(map.data == (const unsigned char *)hello && map.n_bytes == 5);
  ij__os_unmap(&map);
  CHECK(map.data == NULL);
}

static void names_are_checked(void) {
  ij_err err = {0};
  static const ij_memory_file good[] = {{"x", hello, 5}}, slash[] = {{"a/b", hello, 5}}, none[] = {{"x", NULL, 5}};
  CHECK_OK(ij_add_memory_folder("builtin:two", good, 1, &err), err);
  CHECK_INT(ij_add_memory_folder("builtin:two", good, 1, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "already");
  CHECK_INT(ij_add_memory_folder("two", good, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_add_memory_folder("builtin:a/b", good, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_add_memory_folder("builtin:three", slash, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_add_memory_folder("builtin:three", none, 1, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_add_memory_folder("builtin:three", good, 0, &err), IJ_E_ARGUMENT);
  CHECK(!ij__os_is_dir("builtin:three"));
}

/* A whole checkpoint, read into memory and opened there: the same logits. */
#define FOLDER "tests/fixtures/gguf-iq1_s"
#define MODEL "k256-IQ1_S.gguf"

static void logits_of(const char *path, float *out, int32_t n) {
  ij_err err = {0};
  ij_model *m = NULL;
  ij_session *s = NULL;
  const int32_t ids[] = {5, 17, 3, 60};
  CHECK_OK(ij_model_open(&m, path, NULL, &err), err);
  CHECK_OK(ij_session_open(&s, m, NULL, &err), err);
  CHECK_OK(ij_session_eval(s, ids, 4, &err), err);
  const float *logits = ij_session_logits(s);
  CHECK(logits);
  for (int32_t i = 0; i < n; i++) out[i] = logits ? logits[i] : 0;
  ij_session_close(&s);
  ij_model_close(&m);
}

static void a_checkpoint_in_memory_is_the_same(void) {
  enum { MAX_FILES = 16, N = 32 };
  static ij_memory_file files[MAX_FILES]; /* borrowed for good */
  ij_err err = {0};
  char **names = NULL;
  int n = 0;
  CHECK_OK(ij__os_list_dir(FOLDER, "", &names, &n, &err), err);
  CHECK(n > 0 && n <= MAX_FILES);
  for (int i = 0; i < IJ_MIN(n, (int)MAX_FILES); i++) {
    char *path = ij__os_join(FOLDER, names[i]), *bytes = NULL;
    size_t len = 0;
    CHECK_OK(ij__os_read_file(path, SIZE_MAX - 1, &bytes, &len, &err), err);
    files[i] = (ij_memory_file){names[i], bytes, len};
    ij__free(path);
  }
  ij__free(names); /* not the names themselves */
  CHECK_OK(ij_add_memory_folder("builtin:nano", files, n, &err), err);
  float disk[N], memory[N];
  logits_of(FOLDER "/" MODEL, disk, N);
  logits_of("builtin:nano/" MODEL, memory, N);
  CHECK(memcmp(disk, memory, sizeof disk) == 0);
}

int main(void) {
  RUN(files_are_found_by_path);
  RUN(names_are_checked);
  RUN(a_checkpoint_in_memory_is_the_same);
  return test_report();
}
