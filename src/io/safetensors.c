/* safetensors.c: see safetensors.h.
 *
 *   | 8 bytes: header length, little endian | header: JSON object | data |
 *   name -> {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, offsets from the start of the data; "__metadata__" -> strings
 *
 * The format leaves no room: tensors cover the data exactly, without overlap, gap or rest. Findings about single tensors are listed together.
 */
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"

#define LENGTH_BYTES 8

typedef struct reader {
  const char *path;
  const unsigned char *data; /* after the header */
  size_t n_data;
  ij_findings findings;
  ij_status worst;           /* E_FORMAT, or E_UNSUPPORTED when nothing worse was found */
} reader;

static void found(reader *r, ij_status status) {
  if (r->worst != IJ_E_FORMAT) r->worst = status;
}

#define FIND(r, status, ...)                    \
  do {                                          \
    ij__findings_add(&(r)->findings, __VA_ARGS__); \
    found((r), (status));                       \
  } while (0)

static bool read_dtype(reader *r, const char *name, const ij_json_value *v, ij_dtype *out) {
  const char *s;
  size_t n;
  if (!ij__json_get_string(v, &s, &n)) {
    FIND(r, IJ_E_FORMAT, "%s: dtype: expected a string, found %s", name, ij__json_type_name(ij__json_type_of(v)));
    return false;
  }
  *out = ij__dtype_find(s, n);
  if (*out == IJ_DTYPE_COUNT) {
    FIND(r, IJ_E_UNSUPPORTED, "%s: dtype \"%.40s\" is not one that inkjet knows", name, s);
    return false;
  }
  return true;
}

/* Fills dims and n_values; *n_bytes is what the shape asks for. */
static bool read_shape(reader *r, const ij_json_value *v, ij_tensor_view *t, size_t *n_bytes) {
  if (ij__json_type_of(v) != IJ_JSON_ARRAY) {
    FIND(r, IJ_E_FORMAT, "%s: shape: expected an array, found %s", t->name, ij__json_type_name(ij__json_type_of(v)));
    return false;
  }
  if (ij__json_size(v) > IJ_TENSOR_MAX_DIMS) {
    FIND(r, IJ_E_UNSUPPORTED, "%s: shape has %zu dimensions; at most %d are supported", t->name, ij__json_size(v), IJ_TENSOR_MAX_DIMS);
    return false;
  }
  ij_json_iter it = {0};
  const ij_json_value *d;
  size_t total = 1;
  while (ij__json_next(v, &it, NULL, NULL, &d)) {
    int64_t dim;
    if (!ij__json_get_int(d, &dim) || dim < 0) {
      FIND(r, IJ_E_FORMAT, "%s: shape: dimension %d is not a non-negative integer", t->name, t->n_dims);
      return false;
    }
    t->dims[t->n_dims++] = dim;
    if (!ij__mul_size(total, (size_t)dim, &total) || total > INT64_MAX) {
      FIND(r, IJ_E_FORMAT, "%s: shape: the product of the dimensions overflows", t->name);
      return false;
    }
  }
  t->n_values = (int64_t)total;
  if (!ij__mul_size(total, (size_t)ij__dtype_block_bytes(t->dtype), n_bytes)) {
    FIND(r, IJ_E_FORMAT, "%s: shape: its size in bytes overflows", t->name);
    return false;
  }
  return true;
}

static bool read_offsets(reader *r, const ij_json_value *v, const char *name, size_t *begin, size_t *end) {
  ij_json_iter it = {0};
  const ij_json_value *a = NULL, *b = NULL;
  int64_t from, to;
  bool pair = ij__json_type_of(v) == IJ_JSON_ARRAY && ij__json_size(v) == 2;
  if (!pair || !ij__json_next(v, &it, NULL, NULL, &a) || !ij__json_next(v, &it, NULL, NULL, &b) || !ij__json_get_int(a, &from) ||
      !ij__json_get_int(b, &to) || from < 0 || to < from) {
    FIND(r, IJ_E_FORMAT, "%s: data_offsets: expected [begin, end] with 0 <= begin <= end", name);
    return false;
  }
  *begin = (size_t)from;
  *end = (size_t)to;
  if (*end > r->n_data) {
    FIND(r, IJ_E_FORMAT, "%s: its data ends at byte %zu, the file's data at %zu: the file is truncated, get it again", name, *end, r->n_data);
    return false;
  }
  return true;
}

static bool only_known_members(reader *r, const char *name, const ij_json_value *v) {
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  while (ij__json_next(v, &it, &key, &n, NULL)) {
    if (strcmp(key, "dtype") == 0 || strcmp(key, "shape") == 0 || strcmp(key, "data_offsets") == 0) continue;
    FIND(r, IJ_E_FORMAT, "%s: unknown member \"%.40s\"", name, key);
    return false;
  }
  return true;
}

/* One member of the header -> a view. Returns false when it has findings. */
static bool read_tensor(reader *r, const char *name, size_t name_len, const ij_json_value *v, ij_tensor_view *t) {
  size_t n_bytes, begin, end;
  *t = (ij_tensor_view){.name = name, .file = r->path};
  if (name_len == 0 || strlen(name) != name_len) {
    FIND(r, IJ_E_FORMAT, "a tensor name is empty or holds a zero byte");
    return false;
  }
  if (ij__json_type_of(v) != IJ_JSON_OBJECT) {
    FIND(r, IJ_E_FORMAT, "%s: expected an object, found %s", name, ij__json_type_name(ij__json_type_of(v)));
    return false;
  }
  if (!only_known_members(r, name, v) || !read_dtype(r, name, ij__json_member(v, "dtype"), &t->dtype) ||
      !read_shape(r, ij__json_member(v, "shape"), t, &n_bytes) || !read_offsets(r, ij__json_member(v, "data_offsets"), name, &begin, &end)) {
    return false;
  }
  if (end - begin != n_bytes) {
    FIND(r, IJ_E_FORMAT, "%s: its shape in %s takes %zu bytes, its data_offsets give %zu", name, ij__dtype_name(t->dtype), n_bytes, end - begin);
    return false;
  }
  t->data = r->data + begin;
  t->n_bytes = n_bytes;
  return true;
}

static bool metadata_is_strings(const ij_json_value *v) {
  ij_json_iter it = {0};
  const ij_json_value *s;
  if (ij__json_type_of(v) != IJ_JSON_OBJECT) return false;
  while (ij__json_next(v, &it, NULL, NULL, &s)) {
    if (ij__json_type_of(s) != IJ_JSON_STRING) return false;
  }
  return true;
}

static int compare_offsets(const void *a, const void *b) {
  const ij_tensor_view *x = a, *y = b;
  if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
  if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Tensors in order of offset must cover the data exactly. */
static void check_cover(reader *r, const ij_safetensors *s) {
  size_t at = 0;
  for (int i = 0; i < s->n_tensors; i++) {
    const ij_tensor_view *t = &s->tensors[i];
    size_t begin = (size_t)((const unsigned char *)t->data - r->data);
    if (begin < at) {
      FIND(r, IJ_E_FORMAT, "%s: begins at byte %zu, inside %s, which ends at %zu", t->name, begin, s->tensors[i - 1].name, at);
    } else if (begin > at) {
      FIND(r, IJ_E_FORMAT, "%s: begins at byte %zu; the bytes from %zu on belong to no tensor", t->name, begin, at);
    }
    at = IJ_MAX(at, begin + t->n_bytes);
  }
  if (at != r->n_data && r->findings.n == 0) {
    FIND(r, IJ_E_FORMAT, "the data has %zu bytes, its tensors end at %zu: the file is larger than its header says", r->n_data, at);
  }
}

static ij_status read_all_tensors(reader *r, ij_safetensors *s, ij_err *err) {
  const ij_json_value *root = ij__json_root(s->header), *v;
  s->tensors = ij__alloc_array(ij__json_size(root) + 1, sizeof *s->tensors);
  if (!s->tensors) return ij__fail_nomem(err, r->path, ij__json_size(root) * sizeof *s->tensors);
  ij_json_iter it = {0};
  const char *name;
  size_t len;
  while (ij__json_next(root, &it, &name, &len, &v)) {
    if (strcmp(name, "__metadata__") == 0) {
      if (!metadata_is_strings(v)) FIND(r, IJ_E_FORMAT, "__metadata__: expected an object of strings");
    } else if (read_tensor(r, name, len, v, &s->tensors[s->n_tensors])) {
      s->n_tensors++;
    }
  }
  if (r->findings.n == 0) {
    if (s->n_tensors) qsort(s->tensors, (size_t)s->n_tensors, sizeof *s->tensors, compare_offsets);
    check_cover(r, s);
  }
  if (r->findings.n == 0) return IJ_OK;
  const char *more = r->findings.n > r->findings.n_shown ? "; and more" : "";
  return ij__fail(err, r->worst, r->path, "%d finding%s in the safetensors header: %s%s", r->findings.n, r->findings.n == 1 ? "" : "s",
                  r->findings.text, more);
}

static ij_status read_length(const unsigned char *bytes, size_t n, const char *path, size_t *length, ij_err *err) {
  if (n < LENGTH_BYTES) {
    return ij__fail(err, IJ_E_FORMAT, path, "a safetensors file begins with an 8-byte header length; this one has %zu bytes in all", n);
  }
  uint64_t v = 0;
  for (int i = 0; i < LENGTH_BYTES; i++) v |= (uint64_t)bytes[i] << (8 * i);
  if (v > IJ_SAFETENSORS_MAX_HEADER) {
    return ij__fail(err, IJ_E_FORMAT, path, "the header would have %llu bytes; at most %zu are accepted: is this a safetensors file?",
                    (unsigned long long)v, IJ_SAFETENSORS_MAX_HEADER);
  }
  if (v > n - LENGTH_BYTES) {
    return ij__fail(err, IJ_E_FORMAT, path, "the header has %llu bytes, the file only %zu after its length: it is truncated, get it again",
                    (unsigned long long)v, n - LENGTH_BYTES);
  }
  *length = (size_t)v;
  return IJ_OK;
}

ij_status ij__safetensors_parse(ij_safetensors *out, const void *bytes, size_t n, const char *path, ij_err *err) {
  size_t length = 0;
  *out = (ij_safetensors){0};
  ij_status status = read_length(bytes, n, path, &length, err);
  if (status != IJ_OK) return status;
  const unsigned char *p = bytes;
  reader r = {.path = path, .data = p + LENGTH_BYTES + length, .n_data = n - LENGTH_BYTES - length, .worst = IJ_OK};
  status = ij__json_parse(&out->header, (const char *)p + LENGTH_BYTES, length, path, err);
  if (status == IJ_OK && ij__json_type_of(ij__json_root(out->header)) != IJ_JSON_OBJECT) {
    status = ij__fail(err, IJ_E_FORMAT, path, "the safetensors header: expected an object, found %s",
                      ij__json_type_name(ij__json_type_of(ij__json_root(out->header))));
  }
  if (status == IJ_OK) status = read_all_tensors(&r, out, err);
  if (status != IJ_OK) ij__safetensors_free(out);
  return status;
}

void ij__safetensors_free(ij_safetensors *s) {
  ij__free(s->tensors);
  ij__json_free(&s->header);
  *s = (ij_safetensors){0};
}
