/* fuzz_json.c: any bytes as JSON. What is accepted is walked to its leaves, and must keep the promises of json.h. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

/* Nesting is at most 512, so the recursion is bounded. */
static void walk(const ij_json_value *v, int depth) {
  ij_json_iter it = {0};
  const ij_json_value *child;
  const char *key, *text;
  size_t key_len, n_children = 0, n;
  int64_t i;
  double d;
  ij_json_type type = ij__json_type_of(v);
  must(type != IJ_JSON_NONE && depth <= 512);
  must(ij__json_get_int(v, &i) == (type == IJ_JSON_INT));
  must(ij__json_get_double(v, &d) == (type == IJ_JSON_INT || type == IJ_JSON_REAL));
  must(ij__json_get_string(v, &text, &n) == (type == IJ_JSON_STRING));
  must(type != IJ_JSON_STRING || (text[n] == 0 && strlen(text) <= n));
  while (ij__json_next(v, &it, &key, &key_len, &child)) {
    n_children++;
    must((key != NULL) == (type == IJ_JSON_OBJECT));
    /* No key is there twice, so looking one up (keys with NUL apart) finds this very member. */
    if (key && n_children <= 64 && strlen(key) == key_len) must(ij__json_member(v, key) == child);
    walk(child, depth + 1);
  }
  must(n_children == ij__json_size(v));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ij_json *doc = NULL;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  ij_status s = ij__json_parse(&doc, (const char *)data, size, "input", &err);
  must((s == IJ_OK) == (doc != NULL));
  if (s == IJ_OK) walk(ij__json_root(doc), 0);
  else must(s == IJ_E_FORMAT && err.message[0]);
  ij__json_free(&doc);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
