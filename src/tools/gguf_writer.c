/* gguf_writer.c: header, values, padding. Little endian, like all supported hosts. */
#include "tools/gguf_writer.h"

#include <string.h>

#include "core/alloc.h"

/* ------------------------------------------------------------------------------------------------------------- keys */

static void put_u32(ij_buf *b, uint32_t v) { ij__buf_append(b, &v, sizeof v); }
static void put_u64(ij_buf *b, uint64_t v) { ij__buf_append(b, &v, sizeof v); }

static void put_text(ij_buf *b, const char *text, size_t n) {
  put_u64(b, n);
  ij__buf_append(b, text, n);
}

static void begin_key(ij_gguf_keys *k, const char *key, ij_gguf_type type) {
  put_text(&k->bytes, key, strlen(key));
  put_u32(&k->bytes, (uint32_t)type);
  k->n++;
}

static void begin_array(ij_gguf_keys *k, const char *key, ij_gguf_type type, uint64_t n) {
  begin_key(k, key, IJ_GGUF_ARRAY);
  put_u32(&k->bytes, (uint32_t)type);
  put_u64(&k->bytes, n);
}

static size_t element_bytes(ij_gguf_type type) {
  switch (type) {
    case IJ_GGUF_U8: case IJ_GGUF_I8: case IJ_GGUF_BOOL: return 1;
    case IJ_GGUF_U16: case IJ_GGUF_I16: return 2;
    case IJ_GGUF_U32: case IJ_GGUF_I32: case IJ_GGUF_F32: return 4;
    case IJ_GGUF_U64: case IJ_GGUF_I64: case IJ_GGUF_F64: return 8;
    case IJ_GGUF_STRING: case IJ_GGUF_ARRAY: case IJ_GGUF_N_TYPES: break;
  }
  return 0;
}

void ij__gguf_add_u32(ij_gguf_keys *k, const char *key, uint32_t value) {
  begin_key(k, key, IJ_GGUF_U32);
  put_u32(&k->bytes, value);
}

void ij__gguf_add_f32(ij_gguf_keys *k, const char *key, float value) {
  begin_key(k, key, IJ_GGUF_F32);
  ij__buf_append(&k->bytes, &value, sizeof value);
}

void ij__gguf_add_bool(ij_gguf_keys *k, const char *key, bool value) {
  const uint8_t byte = value;
  begin_key(k, key, IJ_GGUF_BOOL);
  ij__buf_append(&k->bytes, &byte, 1);
}

void ij__gguf_add_string(ij_gguf_keys *k, const char *key, const char *value) {
  begin_key(k, key, IJ_GGUF_STRING);
  put_text(&k->bytes, value, strlen(value));
}

void ij__gguf_add_array(ij_gguf_keys *k, const char *key, ij_gguf_type type, const void *values, uint64_t n) {
  begin_array(k, key, type, n);
  ij__buf_append(&k->bytes, values, (size_t)n * element_bytes(type));
}

void ij__gguf_add_strings(ij_gguf_keys *k, const char *key, const char *const *values, uint64_t n) {
  begin_array(k, key, IJ_GGUF_STRING, n);
  for (uint64_t i = 0; i < n; i++) put_text(&k->bytes, values[i], strlen(values[i]));
}

void ij__gguf_add_value(ij_gguf_keys *k, const ij_gguf *from, const ij_gguf_value *v) {
  if (v->is_array) {
    begin_array(k, v->key, v->type, (uint64_t)v->n);
  } else {
    begin_key(k, v->key, v->type);
  }
  if (v->type != IJ_GGUF_STRING) {
    ij__buf_append(&k->bytes, v->data, (size_t)v->n * element_bytes(v->type));
    return;
  }
  for (int64_t i = 0; i < v->n; i++) {
    const char *text;
    size_t n;
    if (ij__gguf_string(from, v, i, &text, &n)) {
      put_text(&k->bytes, text, n);
    } else {
      k->bytes.failed = true; /* cannot be: i is in range and the type is right */
    }
  }
}

void ij__gguf_keys_free(ij_gguf_keys *k) {
  ij__buf_free(&k->bytes);
  k->n = 0;
}

/* ----------------------------------------------------------------------------------------------------------- header */

static const struct {
  ij_dtype dtype;
  int number;
} type_numbers[] = {
    {IJ_DTYPE_F32, 0},     {IJ_DTYPE_F16, 1},     {IJ_DTYPE_Q4_0, 2},     {IJ_DTYPE_Q4_1, 3},    {IJ_DTYPE_Q5_0, 6},   {IJ_DTYPE_Q5_1, 7},
    {IJ_DTYPE_Q8_0, 8},    {IJ_DTYPE_Q2_K, 10},   {IJ_DTYPE_Q3_K, 11},    {IJ_DTYPE_Q4_K, 12},   {IJ_DTYPE_Q5_K, 13},  {IJ_DTYPE_Q6_K, 14},
    {IJ_DTYPE_IQ2_XXS, 16}, {IJ_DTYPE_IQ2_XS, 17}, {IJ_DTYPE_IQ3_XXS, 18}, {IJ_DTYPE_IQ1_S, 19}, {IJ_DTYPE_IQ4_NL, 20},
    {IJ_DTYPE_IQ3_S, 21},
    {IJ_DTYPE_IQ2_S, 22},  {IJ_DTYPE_IQ4_XS, 23}, {IJ_DTYPE_I8, 24},      {IJ_DTYPE_I16, 25},    {IJ_DTYPE_I32, 26},   {IJ_DTYPE_I64, 27},
    {IJ_DTYPE_F64, 28},    {IJ_DTYPE_IQ1_M, 29},  {IJ_DTYPE_BF16, 30},    {IJ_DTYPE_TQ1_0, 34},  {IJ_DTYPE_TQ2_0, 35}, {IJ_DTYPE_MXFP4, 39},
    {IJ_DTYPE_NVFP4, 40},
};

int ij__gguf_type_number(ij_dtype t) {
  for (size_t i = 0; i < sizeof type_numbers / sizeof type_numbers[0]; i++) {
    if (type_numbers[i].dtype == t) return type_numbers[i].number;
  }
  return -1;
}

static size_t align_up(size_t n) { return (n + IJ_GGUF_ALIGNMENT - 1) / IJ_GGUF_ALIGNMENT * IJ_GGUF_ALIGNMENT; }

static ij_status check_tensor(const ij_st_tensor *t, ij_err *err) {
  const int64_t block = ij__dtype_block_len(t->dtype);
  if (ij__gguf_type_number(t->dtype) < 0) {
    return ij__fail(err, IJ_E_ARGUMENT, t->name, "GGUF files have no type %s", ij__dtype_name(t->dtype));
  }
  if (t->n_dims < 1 || t->dims[t->n_dims - 1] % block != 0) {
    return ij__fail(err, IJ_E_ARGUMENT, t->name, "rows of %lld values do not hold whole blocks of %lld (%s)",
                    t->n_dims < 1 ? 0LL : (long long)t->dims[t->n_dims - 1], (long long)block, ij__dtype_name(t->dtype));
  }
  return IJ_OK;
}

ij_status ij__gguf_header(ij_buf *b, size_t *file_bytes, const ij_gguf_keys *keys, const ij_st_tensor *tensors, int n, ij_err *err) {
  size_t at = 0;
  ij__buf_append(b, "GGUF", 4);
  put_u32(b, 3);
  put_u64(b, (uint64_t)n);
  put_u64(b, keys->n);
  ij__buf_append(b, keys->bytes.data, keys->bytes.len);
  for (int i = 0; i < n; i++) {
    const ij_st_tensor *t = &tensors[i];
    ij_status s = check_tensor(t, err);
    if (s != IJ_OK) return s;
    put_text(b, t->name, strlen(t->name));
    put_u32(b, (uint32_t)t->n_dims);
    for (int d = t->n_dims; d-- > 0;) put_u64(b, (uint64_t)t->dims[d]);
    put_u32(b, (uint32_t)ij__gguf_type_number(t->dtype));
    put_u64(b, at);
    at += align_up(ij__st_tensor_bytes(t));
  }
  while (!b->failed && b->len % IJ_GGUF_ALIGNMENT != 0) ij__buf_append(b, "", 1);
  *file_bytes = b->len + at;
  if (b->failed || keys->bytes.failed) return ij__fail_nomem(err, "a GGUF header", keys->bytes.len + (size_t)n * 128);
  return IJ_OK;
}

/* ----------------------------------------------------------------------------------------------------------- values */

struct ij_gguf_writer {
  ij_out_file *file;
  char *path;
  size_t *sizes; /* [n] bytes of each tensor, without padding */
  int n, at;     /* the tensor being written */
  size_t filled; /* bytes of it that are there */
};

static void free_writer(ij_gguf_writer **w) {
  ij__free((*w)->path);
  ij__free((*w)->sizes);
  ij__free(*w);
  *w = NULL;
}

void ij__gguf_writer_abort(ij_gguf_writer **w) {
  if (!*w) return;
  ij__out_abort(&(*w)->file);
  free_writer(w);
}

/* Pads what is complete and moves on to the next tensor that has bytes. */
static ij_status pass_complete(ij_gguf_writer *w, ij_err *err) {
  static const char zeros[IJ_GGUF_ALIGNMENT];
  while (w->at < w->n && w->filled == w->sizes[w->at]) {
    ij_status s = ij__out_put(w->file, zeros, align_up(w->filled) - w->filled, err);
    if (s != IJ_OK) return s;
    w->at++;
    w->filled = 0;
  }
  return IJ_OK;
}

ij_status ij__gguf_writer_open(ij_gguf_writer **out, const char *path, const ij_gguf_keys *keys, const ij_st_tensor *tensors, int n,
                               ij_err *err) {
  ij_buf header = {0};
  size_t file_bytes = 0;
  *out = NULL;
  ij_status s = ij__gguf_header(&header, &file_bytes, keys, tensors, n, err);
  ij_gguf_writer *w = s == IJ_OK ? ij__alloc_zero(1, sizeof *w) : NULL;
  if (w) {
    w->path = ij__strdup(path);
    w->sizes = ij__alloc_array((size_t)n + 1, sizeof *w->sizes);
    w->n = n;
  }
  if (s == IJ_OK && (!w || !w->path || !w->sizes)) s = ij__fail_nomem(err, "a file writer", (size_t)n * sizeof(size_t));
  for (int i = 0; i < n && s == IJ_OK; i++) w->sizes[i] = ij__st_tensor_bytes(&tensors[i]);
  if (s == IJ_OK) s = ij__out_open(&w->file, path, file_bytes, err);
  if (s == IJ_OK) s = ij__out_put(w->file, header.data, header.len, err);
  if (s == IJ_OK) s = pass_complete(w, err);
  ij__buf_free(&header);
  if (s == IJ_OK) {
    *out = w;
  } else {
    ij__gguf_writer_abort(&w);
  }
  return s;
}

ij_status ij__gguf_writer_put(ij_gguf_writer *w, const void *bytes, size_t n, ij_err *err) {
  if (n == 0) return IJ_OK;
  if (w->at == w->n || n > w->sizes[w->at] - w->filled) {
    return ij__fail(err, IJ_E_ARGUMENT, w->path, "more bytes are written than were declared for tensor %d", w->at);
  }
  ij_status s = ij__out_put(w->file, bytes, n, err);
  if (s != IJ_OK) return s;
  w->filled += n;
  return pass_complete(w, err);
}

ij_status ij__gguf_writer_finish(ij_gguf_writer **out, ij_err *err) {
  ij_gguf_writer *w = *out;
  ij_status s;
  if (w->at < w->n) {
    s = ij__fail(err, IJ_E_ARGUMENT, w->path, "%zu of %zu declared bytes of tensor %d were written", w->filled, w->sizes[w->at], w->at);
    ij__out_abort(&w->file);
  } else {
    s = ij__out_finish(&w->file, err);
  }
  free_writer(out);
  return s;
}
