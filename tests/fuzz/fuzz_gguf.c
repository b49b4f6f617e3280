/* fuzz_gguf.c: any bytes as a GGUF file. What is accepted must lie inside the input, tensor by tensor and string by string, and no claim of
 * the file may cost memory that its size does not explain. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "io/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

static void check_name(const char *s) {
  must(s[0] != 0);
  for (; *s; s++) must((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static unsigned long touch(const void *bytes, size_t n) {
  unsigned long sum = 0;
  for (size_t i = 0; i < n; i++) sum += ((const uint8_t *)bytes)[i];
  return sum;
}

static void check_value(const ij_gguf *g, const ij_gguf_value *v, const uint8_t *end) {
  const uint8_t *begin = g->bytes;
  check_name(v->key);
  must(v->n >= 0 && (v->is_array || v->n == 1) && v->type < IJ_GGUF_N_TYPES && v->type != IJ_GGUF_ARRAY);
  must((v->type == IJ_GGUF_STRING) == (v->offsets != NULL) || v->n == 0);
  for (int64_t i = 0; i < v->n; i++) {
    const char *s;
    size_t n;
    int64_t k;
    double x;
    bool text = ij__gguf_string(g, v, i, &s, &n), integer = ij__gguf_int(v, i, &k), real = ij__gguf_real(v, i, &x);
    must(text == (v->type == IJ_GGUF_STRING) && !(text && real) && (real || !integer));
    if (!text) continue;
    must((const uint8_t *)s >= begin && (const uint8_t *)s <= end && n <= (size_t)(end - (const uint8_t *)s));
    must(touch(s, n) <= 255ul * n);
  }
}

static void check_tensor(const ij_gguf *g, const ij_tensor_view *t, const uint8_t *before, const uint8_t *end) {
  int64_t n = 1;
  check_name(t->name);
  must(t->dtype < IJ_DTYPE_COUNT && !ij__dtype_is_split(t->dtype) && t->n_dims >= 1 && t->n_dims <= 4 && strcmp(t->file, "input") == 0);
  for (int i = 0; i < t->n_dims; i++) {
    must(t->dims[i] > 0);
    n *= t->dims[i];
  }
  int64_t cols = t->dims[t->n_dims - 1];
  must(cols % ij__dtype_block_len(t->dtype) == 0);
  must(n == t->n_values && t->n_bytes == (size_t)(n / cols * ij__dtype_row_bytes(t->dtype, cols)));
  const uint8_t *p = t->data;
  must(p >= before && p <= end && t->n_bytes <= (size_t)(end - p)); /* in order, without overlap */
  must((size_t)(p - (const uint8_t *)g->bytes) % g->alignment == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ij_gguf g;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  size_t bytes = ij__alloc_bytes();
  ij_status s = ij__gguf_parse(&g, data, size, "input", &err);
  if (s == IJ_OK) {
    const uint8_t *before = data;
    must(ij__alloc_bytes() - bytes <= 65536 + 16 * size);
    for (size_t i = 0; i < g.n_values; i++) check_value(&g, &g.values[i], data + size);
    for (size_t i = 0; i < g.n_tensors; i++) {
      check_tensor(&g, &g.tensors[i], before, data + size);
      before = (const uint8_t *)g.tensors[i].data + g.tensors[i].n_bytes;
    }
  } else {
    must((s == IJ_E_FORMAT || s == IJ_E_UNSUPPORTED) && err.message[0] && g.n_tensors == 0 && !g.values);
  }
  ij__gguf_free(&g);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
