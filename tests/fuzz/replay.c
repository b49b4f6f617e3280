/* replay.c: runs a fuzz target over the files of a folder, so that every saved input is an ordinary test in every build.
 *
 * Usage: replay_NAME FOLDER. Each input is handed over in a block of exactly its size, twice: as it is and cut in half, for which a
 * sanitizer sees a read past the end. Not finding any input is a failure, or a wrong path would pass.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_prefix(const unsigned char *bytes, size_t n) {
  unsigned char *exact = malloc(n ? n : 1);
  if (!exact) abort();
  memcpy(exact, bytes, n);
  LLVMFuzzerTestOneInput(exact, n);
  free(exact);
}

/* False when the path is no readable regular file. */
static int run_file(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
  FILE *f = fopen(path, "rb");
  unsigned char *bytes = malloc((size_t)st.st_size + 1);
  if (!f || !bytes) abort();
  size_t n = fread(bytes, 1, (size_t)st.st_size, f);
  fclose(f);
  printf("%s (%zu bytes)\n", path, n);
  fflush(stdout); /* so that a crash tells which input it was */
  run_prefix(bytes, n);
  run_prefix(bytes, n / 2);
  free(bytes);
  return 1;
}

int main(int argc, char **argv) {
  int n_run = 0;
  DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
  if (!folder) {
    fprintf(stderr, "usage: %s FOLDER (of saved inputs)\n", argv[0]);
    return 2;
  }
  for (struct dirent *entry; (entry = readdir(folder));) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name) < (int)sizeof path) n_run += run_file(path);
  }
  closedir(folder);
  printf("%d inputs replayed\n", n_run);
  return n_run > 0 ? 0 : 1;
}
