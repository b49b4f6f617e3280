/* fuzz_index.c: any bytes as the shard index of a folder with three small files. Whatever it says, only these files may be opened, and an
 * accepted index has led to exactly the tensors that it lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "io/ckpt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[256];

static const char *const files[][2] = {
    {"a.safetensors", "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}"},
    {"b.safetensors", "{\"z\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}"},
    {"c.safetensors", "{\"x\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}"},
    {"model.safetensors.index.json", NULL},
};

static void must(bool promise) {
  if (!promise) abort();
}

static void put(const char *name, const uint8_t *head, const void *bytes, size_t n, const char *tail) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  must(f != NULL);
  if (head) fwrite(head, 1, 8, f);
  fwrite(bytes, 1, n, f);
  fputs(tail, f);
  must(fclose(f) == 0);
}

static void remove_folder(void) {
  for (size_t i = 0; i < IJ_COUNT_OF(files); i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
    unlink(path);
  }
  rmdir(folder);
}

static void make_folder(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/inkjet-fuzz-XXXXXX", base && *base ? base : P_tmpdir);
  must(mkdtemp(folder) != NULL);
  atexit(remove_folder);
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(files[i][1]);
    put(files[i][0], (const uint8_t[8]){(uint8_t)n}, files[i][1], n, "data"); /* headers are shorter than 256 bytes */
  }
}

static void check(const ij_ckpt *c) {
  int n = ij__ckpt_n_tensors(c);
  must(n >= 1 && n <= 3 && ij__ckpt_n_files(c) >= 1 && ij__ckpt_n_files(c) <= 2 && !ij__ckpt_config(c));
  for (int i = 0; i < n; i++) {
    const ij_tensor_view *t = ij__ckpt_tensor(c, i);
    must(ij__ckpt_find(c, t->name) == t && strncmp(t->file, folder, strlen(folder)) == 0);
    must(memcmp(t->data, &"data"[t->name[0] == 'y' ? 2 : 0], t->n_bytes) == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ij_ckpt *c = NULL;
  ij_err err = {0};
  if (!folder[0]) make_folder();
  put("model.safetensors.index.json", NULL, data, size, "");
  int64_t blocks = ij__alloc_blocks();
  ij_status s = ij__ckpt_open(&c, folder, &err);
  if (s == IJ_OK) check(c);
  else must((s == IJ_E_FORMAT || s == IJ_E_IO) && err.message[0] && !c);
  ij__ckpt_close(&c);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
