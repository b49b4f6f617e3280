/* st_writer.c: the header of a safetensors file. */
#include "tools/st_writer.h"

#include "core/str.h"

size_t ij__st_tensor_bytes(const ij_st_tensor *t) {
  size_t n = (size_t)ij__dtype_block_bytes(t->dtype);
  for (int i = 0; i < t->n_dims; i++) n *= (size_t)(i == t->n_dims - 1 ? t->dims[i] / ij__dtype_block_len(t->dtype) : t->dims[i]);
  return n;
}

/* JSON, padded with blanks so that the values start at a multiple of 64 in the file. Names are our own: no escapes. */
static void build_header(ij_buf *b, const ij_st_tensor *tensors, int n, size_t *n_bytes) {
  size_t at = 0;
  ij__buf_puts(b, "{");
  for (int i = 0; i < n; i++) {
    const ij_st_tensor *t = &tensors[i];
    size_t end = at + ij__st_tensor_bytes(t);
    ij__buf_printf(b, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", t->name, ij__dtype_name(t->dtype));
    for (int d = 0; d < t->n_dims; d++) ij__buf_printf(b, "%s%lld", d ? "," : "", (long long)t->dims[d]);
    ij__buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", at, end);
    at = end;
  }
  ij__buf_puts(b, "}");
  while (!b->failed && (b->len + 8) % 64 != 0) ij__buf_puts(b, " ");
  *n_bytes = at;
}

ij_status ij__st_open(ij_out_file **out, const char *path, const ij_st_tensor *tensors, int n, ij_err *err) {
  *out = NULL;
  ij_buf header = {0};
  size_t n_bytes = 0;
  build_header(&header, tensors, n, &n_bytes);
  if (header.failed) {
    ij__buf_free(&header);
    return ij__fail_nomem(err, "a safetensors header", (size_t)n * 128);
  }
  ij_status s = ij__out_open(out, path, 8 + header.len + n_bytes, err);
  if (s == IJ_OK) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
    s = ij__out_put(*out, length, sizeof length, err);
    if (s == IJ_OK) s = ij__out_put(*out, header.data, header.len, err);
    if (s != IJ_OK) ij__out_abort(out);
  }
  ij__buf_free(&header);
  return s;
}
