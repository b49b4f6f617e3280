/* fuzz_safetensors.c: any bytes as a safetensors file, and as the header of one, because a fuzzer that adds or drops a byte seldom corrects
 * the length too. What is accepted must cover its data exactly, tensor by tensor, and lie inside the input. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise) {
  if (!promise) abort();
}

static void check_tensor(const ij_tensor_view *t, const uint8_t *begin, const uint8_t *end) {
  int64_t n = 1;
  must(t->dtype < IJ_DTYPE_COUNT && t->n_dims >= 0 && t->n_dims <= IJ_TENSOR_MAX_DIMS && strcmp(t->file, "input") == 0);
  for (int i = 0; i < t->n_dims; i++) {
    must(t->dims[i] >= 0);
    n *= t->dims[i];
  }
  must(n == t->n_values && t->n_bytes == (size_t)n * (size_t)ij__dtype_block_bytes(t->dtype));
  const uint8_t *p = t->data;
  must(p >= begin && p <= end && t->n_bytes <= (size_t)(end - p));
  for (const char *c = t->name; *c; c++) must((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void parse(const uint8_t *data, size_t size) {
  ij_safetensors st;
  ij_err err = {0};
  int64_t blocks = ij__alloc_blocks();
  ij_status s = ij__safetensors_parse(&st, data, size, "input", &err);
  if (s == IJ_OK) {
    const uint8_t *end = data + size, *next = NULL;
    for (size_t i = 0; i < st.n; i++) {
      check_tensor(&st.tensors[i], data + 8, end);
      must(!next || next == st.tensors[i].data); /* in order, without a gap */
      next = (const uint8_t *)st.tensors[i].data + st.tensors[i].n_bytes;
    }
    must(!next || next == end);
  } else {
    must((s == IJ_E_FORMAT || s == IJ_E_UNSUPPORTED) && err.message[0] && st.n == 0);
  }
  ij__safetensors_free(&st);
  must(ij__alloc_blocks() == blocks);
}

/* The first two bytes tell how much data follows the header, which is the rest. */
static void parse_as_header(const uint8_t *data, size_t size) {
  size_t n_header = size - 2, n_data = (size_t)data[0] | (size_t)data[1] << 8, n = 8 + n_header + n_data;
  uint8_t *file = calloc(n, 1);
  if (!file) return;
  for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)n_header >> (8 * i));
  memcpy(file + 8, data + 2, n_header);
  parse(file, n);
  free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  parse(data, size);
  if (size >= 2) parse_as_header(data, size);
  return 0;
}
