/* test_out_file.c: files that appear whole or not at all, and only where a file may be. */
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/out_file.h"
#include "temp_folder.h"
#include "test.h"

static char folder[256];

static void path_in(char out[300], const char *name) { snprintf(out, 300, "%.250s/%.40s", folder, name); }

static int n_names(void) {
  char **names;
  int n = -1;
  if (ij__os_list_dir(folder, "", &names, &n, NULL) == IJ_OK) ij__os_free_names(names, n);
  return n;
}

static void check_holds(const char *path, const char *text) {
  char *bytes = NULL;
  size_t n = 0;
  ij_err err = {0};
  CHECK_OK(ij__os_read_file(path, 1000, &bytes, &n, &err), err);
  CHECK(bytes && strcmp(bytes, text) == 0);
  ij__free(bytes);
}

static void whole_or_not_at_all(void) {
  char path[300];
  ij_err err = {0};
  ij_out_file *f = NULL;
  path_in(path, "a");
  CHECK_OK(ij__out_write(path, "first", 5, &err), err);
  check_holds(path, "first");
  CHECK_OK(ij__out_open(&f, path, 6, &err), err);
  CHECK_OK(ij__out_put(f, "sec", 3, &err), err);
  check_holds(path, "first");
  CHECK_INT(ij__out_put(f, "ondary", 6, &err), IJ_E_ARGUMENT);
  CHECK_OK(ij__out_put(f, "ond", 3, &err), err);
  CHECK_OK(ij__out_finish(&f, &err), err);
  CHECK(f == NULL);
  check_holds(path, "second");
  CHECK_OK(ij__out_open(&f, path, 6, &err), err);
  CHECK_OK(ij__out_put(f, "thi", 3, &err), err);
  CHECK_INT(ij__out_finish(&f, &err), IJ_E_ARGUMENT);
  check_holds(path, "second");
  CHECK_INT(n_names(), 1);
  unlink(path);
}

/* Not even by who may: root has lost /dev/null to a rename. */
static void devices_stay(void) {
  char path[300], link[300];
  struct stat st;
  ij_err err = {0};
  path_in(path, "pipe");
  path_in(link, "link");
  CHECK_INT(mkfifo(path, 0600), 0);
  CHECK_INT(symlink(path, link), 0);
  CHECK_INT(ij__out_write(path, "x", 1, &err), IJ_E_IO);
  CHECK_HAS(err.message, "device or pipe");
  CHECK_INT(ij__out_write(link, "x", 1, &err), IJ_E_IO);
  CHECK(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
  CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
  CHECK_INT(ij__out_write(folder, "x", 1, &err), IJ_E_IO);
  CHECK_HAS(err.message, "found a folder");
  unlink(path);
  CHECK_OK(ij__out_write(link, "x", 1, &err), err); /* a link that leads nowhere */
  check_holds(link, "x");
  unlink(link);
  CHECK_INT(n_names(), 0);
}

int main(void) {
  if (!make_temp_folder(folder, sizeof folder)) return 1;
  RUN(whole_or_not_at_all);
  RUN(devices_stay);
  rmdir(folder);
  return test_report();
}
