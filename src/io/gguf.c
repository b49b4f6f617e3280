/* gguf.c: see gguf.h. A file is a fixed head, the keys with their values, one record per tensor, and the data of the tensors from the next
 * multiple of the alignment on. All but the data is walked once without copying: names stay where they lie until their total size is
 * known, and a second walk over the strings fills the tables of offsets. What breaks the walk is one message; what is wrong with single
 * tensors is collected. */
#include "io/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "io/json.h"

#define NAME_ROOM 140 /* bytes of a name that a message shows */
#define HEAD_BYTES 24
#define MAX_DIMS 4
#define DEFAULT_ALIGNMENT 32
#define MAX_ALIGNMENT (1 << 20)
#define MAX_KEY 65535

typedef struct gguf_reader {
  ij_gguf *g;
  const unsigned char *bytes;
  size_t n, at;
  uint64_t want_values, want_tensors;
  size_t cap_values, cap_tensors;
  size_t n_strings;
  size_t data_at;        /* where the tensors' data begins */
  ij_findings found;
  bool only_unsupported; /* all findings so far are types that inkjet does not use */
  ij_err *err;
} gguf_reader;

/* --- types of tensors */

typedef struct tensor_type {
  const char *name;
  ij_dtype dtype; /* COUNT: known by name only */
} tensor_type;

#define USED(type) {#type, IJ_DTYPE_##type}
#define NAMED(text) {text, IJ_DTYPE_COUNT}

/* Indexed by the number in the file. Numbers without a name have never been given to a type. */
static const tensor_type tensor_types[] = {
    [0] = USED(F32),     [1] = USED(F16),      [2] = USED(Q4_0),       [3] = USED(Q4_1),
    [4] = NAMED("Q4_2, retired"), [5] = NAMED("Q4_3, retired"),
    [6] = USED(Q5_0),    [7] = USED(Q5_1),     [8] = USED(Q8_0),       [9] = NAMED("Q8_1"),
    [10] = USED(Q2_K),   [11] = USED(Q3_K),    [12] = USED(Q4_K),      [13] = USED(Q5_K),
    [14] = USED(Q6_K),   [15] = NAMED("Q8_K"), [16] = USED(IQ2_XXS),   [17] = USED(IQ2_XS),
    [18] = USED(IQ3_XXS), [19] = USED(IQ1_S),  [20] = USED(IQ4_NL),    [21] = USED(IQ3_S),
    [22] = USED(IQ2_S),  [23] = USED(IQ4_XS),  [24] = USED(I8),        [25] = USED(I16),
    [26] = USED(I32),    [27] = USED(I64),     [28] = USED(F64),       [29] = USED(IQ1_M),
    [30] = USED(BF16),
    [31] = NAMED("Q4_0_4_4, retired"), [32] = NAMED("Q4_0_4_8, retired"), [33] = NAMED("Q4_0_8_8, retired"),
    [34] = USED(TQ1_0),  [35] = USED(TQ2_0),
    [36] = NAMED("IQ4_NL_4_4, retired"), [37] = NAMED("IQ4_NL_4_8, retired"), [38] = NAMED("IQ4_NL_8_8, retired"),
    [39] = USED(MXFP4),  [40] = USED(NVFP4),   [41] = NAMED("Q1_0"),
};

#undef USED
#undef NAMED

static const struct {
  const char *name;
  uint8_t bytes; /* 0: not of one size */
} value_types[IJ_GGUF_N_TYPES] = {
    [IJ_GGUF_U8] = {"u8", 1},         [IJ_GGUF_I8] = {"i8", 1},       [IJ_GGUF_U16] = {"u16", 2},  [IJ_GGUF_I16] = {"i16", 2},
    [IJ_GGUF_U32] = {"u32", 4},       [IJ_GGUF_I32] = {"i32", 4},     [IJ_GGUF_F32] = {"f32", 4},  [IJ_GGUF_BOOL] = {"bool", 1},
    [IJ_GGUF_STRING] = {"string", 0}, [IJ_GGUF_ARRAY] = {"array", 0}, [IJ_GGUF_U64] = {"u64", 8},  [IJ_GGUF_I64] = {"i64", 8},
    [IJ_GGUF_F64] = {"f64", 8},
};

const char *ij__gguf_type_name(ij_gguf_type t) { return (unsigned)t < IJ_GGUF_N_TYPES ? value_types[t].name : "unknown"; }
size_t ij__gguf_type_bytes(ij_gguf_type t) { return (unsigned)t < IJ_GGUF_N_TYPES ? value_types[t].bytes : 0; }

/* --- bytes */

static uint64_t load(const unsigned char *p, int n) {
  uint64_t v = 0;
  for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static uint64_t load64(const unsigned char *p) { return load(p, 8); }

static ij_status fail_truncated(const gguf_reader *r, const char *what) {
  return ij__fail(r->err, IJ_E_FORMAT, r->g->path, "the file is truncated: it ends at byte %zu, inside %s. Download it again", r->n, what);
}

/* The next n bytes, or NULL when the file ends before them. */
static const unsigned char *take(gguf_reader *r, uint64_t n) {
  if (n > r->n - r->at) return NULL;
  const unsigned char *p = r->bytes + r->at;
  r->at += (size_t)n;
  return p;
}

static bool take_u32(gguf_reader *r, uint32_t *out) {
  const unsigned char *p = take(r, 4);
  if (p) *out = (uint32_t)load(p, 4);
  return p != NULL;
}

static bool take_u64(gguf_reader *r, uint64_t *out) {
  const unsigned char *p = take(r, 8);
  if (p) *out = load64(p);
  return p != NULL;
}

static const unsigned char *take_string(gguf_reader *r, uint64_t *len) { return take_u64(r, len) ? take(r, *len) : NULL; }

/* A name that still lies in the file: its length stands in the 8 bytes before it. */
static size_t raw_len(const char *raw) { return (size_t)load64((const unsigned char *)raw - 8); }

static void show_raw(char shown[NAME_ROOM], const char *raw) { ij__json_show(shown, NAME_ROOM, raw, raw_len(raw)); }

/* Names go into messages and to terminals: no control characters, and no NUL that would cut them. */
static bool is_plain_name(const unsigned char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s[i] < 0x20 || s[i] == 0x7f) return false;
  }
  return n > 0;
}

/* Room for one more item. Grows by doubling: reserving what the head claims would let few bytes ask for many. */
static bool grow(void **items, size_t n, size_t *cap, size_t size) {
  if (n < *cap) return true;
  size_t more = *cap ? *cap * 2 : 64, bytes;
  if (!ij__mul_size(more, size, &bytes)) return false;
  void *p = ij__realloc(*items, bytes);
  if (!p) return false;
  *items = p;
  *cap = more;
  return true;
}

/* --- the head */

static ij_status fail_magic(const gguf_reader *r) {
  static const char lfs[] = "version https://git-lfs";
  static const char *const old[] = {"lmgg", "tjgg", "fmgg", "algg"}; /* "ggml" and its heirs as little-endian numbers */
  const char *path = r->g->path;
  if (r->n >= sizeof lfs - 1 && memcmp(r->bytes, lfs, sizeof lfs - 1) == 0)
    return ij__fail(r->err, IJ_E_FORMAT, path, "this is a Git LFS pointer, not the file it stands for: fetch it with `git lfs pull`");
  for (size_t i = 0; r->n >= 4 && i < IJ_COUNT_OF(old); i++) {
    if (memcmp(r->bytes, old[i], 4) == 0)
      return ij__fail(r->err, IJ_E_UNSUPPORTED, path, "this is a GGML file from before GGUF; it holds no model of this family");
  }
  if (r->n < 4) return fail_truncated(r, "the head");
  return ij__fail(r->err, IJ_E_FORMAT, path, "not a GGUF file: expected it to begin with \"GGUF\"");
}

static ij_status read_head(gguf_reader *r) {
  ij_gguf *g = r->g;
  if (r->n < 4 || memcmp(r->bytes, "GGUF", 4) != 0) return fail_magic(r);
  r->at = 4;
  if (!take_u32(r, &g->version)) return fail_truncated(r, "the head");
  if (g->version != 0 && (g->version & 0xffff) == 0)
    return ij__fail(r->err, IJ_E_UNSUPPORTED, g->path, "a big-endian GGUF file; only little-endian ones are read");
  if (g->version != 2 && g->version != 3)
    return ij__fail(r->err, IJ_E_UNSUPPORTED, g->path, "GGUF version %" PRIu32 "; versions 2 and 3 are read", g->version);
  if (!take_u64(r, &r->want_tensors) || !take_u64(r, &r->want_values)) return fail_truncated(r, "the head");
  uint64_t left = r->n - r->at; /* a tensor takes 33 bytes or more, a key with its value 14 */
  if (r->want_tensors > left / 33)
    return ij__fail(r->err, IJ_E_FORMAT, g->path, "the head gives %" PRIu64 " tensors, more than the file has room for", r->want_tensors);
  if (r->want_values > left / 14)
    return ij__fail(r->err, IJ_E_FORMAT, g->path, "the head gives %" PRIu64 " keys, more than the file has room for", r->want_values);
  return IJ_OK;
}

/* --- keys and values */

static ij_status fail_value(const gguf_reader *r, const ij_gguf_value *v, const char *what, uint64_t number) {
  char shown[NAME_ROOM];
  show_raw(shown, v->key);
  return ij__fail(r->err, IJ_E_FORMAT, r->g->path, "key %s: %s %" PRIu64, shown, what, number);
}

static ij_status fail_value_truncated(const gguf_reader *r, const ij_gguf_value *v) {
  char shown[NAME_ROOM], what[NAME_ROOM + 40];
  show_raw(shown, v->key);
  snprintf(what, sizeof what, "the value of key %s", shown);
  return fail_truncated(r, what);
}

static ij_status skip_elements(gguf_reader *r, ij_gguf_value *v) {
  size_t size = value_types[v->type].bytes;
  v->data = r->bytes + r->at;
  if (size) {
    if ((uint64_t)v->n > (r->n - r->at) / size) return fail_value_truncated(r, v);
    r->at += (size_t)v->n * size;
    return IJ_OK;
  }
  uint64_t len;
  if ((uint64_t)v->n > (r->n - r->at) / 8) return fail_value_truncated(r, v);
  for (int64_t i = 0; i < v->n; i++) {
    if (!take_string(r, &len)) return fail_value_truncated(r, v);
  }
  r->n_strings += (size_t)v->n;
  return IJ_OK;
}

static ij_status read_array_head(gguf_reader *r, ij_gguf_value *v) {
  uint32_t type;
  uint64_t n;
  char shown[NAME_ROOM];
  if (!take_u32(r, &type) || !take_u64(r, &n)) return fail_value_truncated(r, v);
  show_raw(shown, v->key);
  if (type == IJ_GGUF_ARRAY) return ij__fail(r->err, IJ_E_UNSUPPORTED, r->g->path, "key %s: an array of arrays is not read", shown);
  if (type >= IJ_GGUF_N_TYPES) return fail_value(r, v, "elements of unknown type number", type);
  if (n > r->n - r->at) return fail_value_truncated(r, v); /* the smallest element is a byte */
  v->type = (ij_gguf_type)type;
  v->n = (int64_t)n;
  return IJ_OK;
}

static ij_status read_value(gguf_reader *r) {
  ij_gguf *g = r->g;
  ij_gguf_value v = {.n = 1};
  uint64_t len;
  uint32_t type;
  char what[64];
  snprintf(what, sizeof what, "key number %zu", g->n_values);
  const unsigned char *key = take_string(r, &len);
  if (!key) return fail_truncated(r, what);
  v.key = (const char *)key;
  if (len > MAX_KEY) return ij__fail(r->err, IJ_E_FORMAT, g->path, "%s has %" PRIu64 " bytes; at most %d are accepted", what, len, MAX_KEY);
  if (!is_plain_name(key, (size_t)len)) return ij__fail(r->err, IJ_E_FORMAT, g->path, "%s is empty or holds control characters", what);
  if (!take_u32(r, &type)) return fail_value_truncated(r, &v);
  if (type >= IJ_GGUF_N_TYPES) return fail_value(r, &v, "unknown type number", type);
  v.type = (ij_gguf_type)type;
  v.is_array = type == IJ_GGUF_ARRAY;
  ij_status s = v.is_array ? read_array_head(r, &v) : IJ_OK;
  if (s == IJ_OK) s = skip_elements(r, &v);
  if (s != IJ_OK) return s;
  void *items = g->values;
  if (!grow(&items, g->n_values, &r->cap_values, sizeof v)) return ij__fail_nomem(r->err, g->path, (g->n_values + 1) * sizeof v);
  g->values = items;
  g->values[g->n_values++] = v;
  return IJ_OK;
}

/* --- records of tensors */

/* A finding about one tensor; `shown` is its name made fit for a message. */
#define FIND(r, shown, fmt, ...) \
  ((r)->only_unsupported = false, ij__findings_add(&(r)->found, "tensor %s: " fmt, shown, __VA_ARGS__))

static ij_status report(const gguf_reader *r) {
  const ij_findings *f = &r->found;
  ij_status code = r->only_unsupported ? IJ_E_UNSUPPORTED : IJ_E_FORMAT;
  if (f->n == 0) return IJ_OK;
  if (f->n == 1) return ij__fail(r->err, code, r->g->path, "%s", f->text);
  if (f->n > f->n_shown) return ij__fail(r->err, code, r->g->path, "%d findings: %s; and %d more", f->n, f->text, f->n - f->n_shown);
  return ij__fail(r->err, code, r->g->path, "%d findings: %s", f->n, f->text);
}

static bool find_type(gguf_reader *r, const char *shown, uint32_t type, ij_dtype *out) {
  const char *name = type < IJ_COUNT_OF(tensor_types) ? tensor_types[type].name : NULL;
  if (name && tensor_types[type].dtype != IJ_DTYPE_COUNT) {
    *out = tensor_types[type].dtype;
    return true;
  }
  ij__findings_add(&r->found, "tensor %s: type number %" PRIu32 " (%s) is not one that this version reads", shown, type,
                   name ? name : "unknown");
  return false;
}

/* Shape and type give the number of values and bytes. Dimensions of the file come fastest first. */
static bool count_values(gguf_reader *r, const char *shown, const uint64_t *ne, ij_tensor_view *t) {
  size_t n = 1;
  for (int i = 0; i < t->n_dims; i++) {
    if (ne[i] == 0) {
      FIND(r, shown, "dimension %d is zero", i);
      return false;
    }
    if (ne[i] > INT64_MAX || !ij__mul_size(n, (size_t)ne[i], &n) || n > INT64_MAX) {
      FIND(r, shown, "the product of its %d dimensions does not fit in 63 bits", t->n_dims);
      return false;
    }
    t->dims[t->n_dims - 1 - i] = (int64_t)ne[i];
  }
  size_t len = (size_t)ij__dtype_block_len(t->dtype);
  if (ne[0] % len != 0) {
    FIND(r, shown, "rows of %" PRIu64 " values: %s needs a multiple of %zu", ne[0], ij__dtype_name(t->dtype), len);
    return false;
  }
  if (!ij__mul_size(n / len, (size_t)ij__dtype_block_bytes(t->dtype), &t->n_bytes)) {
    FIND(r, shown, "its %zu values take more bytes than fit in 64 bits", n);
    return false;
  }
  t->n_values = (int64_t)n;
  return true;
}

/* The name stays raw, and the offset waits in `data` as a plain number, until all records have been read. */
static ij_status read_tensor(gguf_reader *r, uint64_t index) {
  ij_gguf *g = r->g;
  ij_tensor_view t = {.file = g->path};
  char what[64], shown[NAME_ROOM];
  uint64_t len, ne[MAX_DIMS] = {0}, offset;
  uint32_t n_dims, type;
  snprintf(what, sizeof what, "the record of tensor number %" PRIu64, index);
  const unsigned char *name = take_string(r, &len);
  if (!name || !take_u32(r, &n_dims)) return fail_truncated(r, what);
  t.name = (const char *)name;
  show_raw(shown, t.name);
  if (n_dims < 1 || n_dims > MAX_DIMS)
    return ij__fail(r->err, IJ_E_FORMAT, g->path, "tensor %s: expected 1 to %d dimensions, found %" PRIu32, shown, MAX_DIMS, n_dims);
  t.n_dims = (int)n_dims;
  for (uint32_t i = 0; i < n_dims; i++) {
    if (!take_u64(r, &ne[i])) return fail_truncated(r, what);
  }
  if (!take_u32(r, &type) || !take_u64(r, &offset)) return fail_truncated(r, what);
  if (!is_plain_name(name, (size_t)len)) FIND(r, shown, "the name is empty or holds %s", "control characters");
  if (!find_type(r, shown, type, &t.dtype) || !count_values(r, shown, ne, &t)) return IJ_OK;
  if (offset > SIZE_MAX) {
    FIND(r, shown, "offset %" PRIu64 " is beyond what this machine can address", offset);
    return IJ_OK;
  }
  t.data = (const void *)(uintptr_t)offset;
  void *items = g->tensors;
  if (!grow(&items, g->n_tensors, &r->cap_tensors, sizeof t)) return ij__fail_nomem(r->err, g->path, (g->n_tensors + 1) * sizeof t);
  g->tensors = items;
  g->tensors[g->n_tensors++] = t;
  return IJ_OK;
}

/* --- names and strings, once all are known */

/* Copies all names out of the file, each with a NUL. */
static ij_status copy_names(gguf_reader *r) {
  ij_gguf *g = r->g;
  size_t n = 0; /* at most the file's own size: each name has 8 bytes of length there */
  for (size_t i = 0; i < g->n_values; i++) n += raw_len(g->values[i].key) + 1;
  for (size_t i = 0; i < g->n_tensors; i++) n += raw_len(g->tensors[i].name) + 1;
  g->names = ij__alloc(n);
  if (!g->names) return ij__fail_nomem(r->err, g->path, n);
  char *to = g->names;
  for (size_t i = 0; i < g->n_values + g->n_tensors; i++) {
    const char **name = i < g->n_values ? &g->values[i].key : &g->tensors[i - g->n_values].name;
    size_t len = raw_len(*name);
    memcpy(to, *name, len);
    to[len] = 0;
    *name = to;
    to += len + 1;
  }
  return IJ_OK;
}

static ij_status index_strings(gguf_reader *r) {
  ij_gguf *g = r->g;
  if (r->n_strings == 0) return IJ_OK;
  g->offsets = ij__alloc_array(r->n_strings, sizeof *g->offsets);
  if (!g->offsets) return ij__fail_nomem(r->err, g->path, r->n_strings * sizeof *g->offsets);
  uint64_t *to = g->offsets;
  for (size_t i = 0; i < g->n_values; i++) {
    ij_gguf_value *v = &g->values[i];
    if (v->type != IJ_GGUF_STRING) continue;
    v->offsets = to;
    size_t at = (size_t)((const unsigned char *)v->data - r->bytes);
    for (int64_t k = 0; k < v->n; k++) {
      *to++ = at;
      at += 8 + (size_t)load64(r->bytes + at);
    }
  }
  return IJ_OK;
}

static int compare_strings(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Each name once: of the keys, then of the tensors. */
static ij_status check_unique(gguf_reader *r, bool keys) {
  ij_gguf *g = r->g;
  size_t n = keys ? g->n_values : g->n_tensors;
  const char **list = ij__alloc_array(n, sizeof *list);
  if (!list) return ij__fail_nomem(r->err, g->path, n * sizeof *list);
  for (size_t i = 0; i < n; i++) list[i] = keys ? g->values[i].key : g->tensors[i].name;
  if (n) qsort(list, n, sizeof *list, compare_strings);
  for (size_t i = 1; i < n; i++) {
    if (strcmp(list[i - 1], list[i]) != 0 || (i > 1 && strcmp(list[i - 2], list[i]) == 0)) continue;
    char shown[NAME_ROOM];
    ij__json_show(shown, sizeof shown, list[i], strlen(list[i]));
    r->only_unsupported = false;
    ij__findings_add(&r->found, "%s %s occurs more than once", keys ? "key" : "tensor", shown);
  }
  ij__free(list);
  return report(r);
}

static ij_status find_alignment(gguf_reader *r) {
  ij_gguf *g = r->g;
  const ij_gguf_value *v = ij__gguf_find(g, "general.alignment");
  int64_t n = DEFAULT_ALIGNMENT;
  if (v && (v->is_array || !ij__gguf_int(v, 0, &n)))
    return ij__fail(r->err, IJ_E_FORMAT, g->path, "general.alignment: expected an integer, found %s%s", v->is_array ? "an array of " : "",
                    ij__gguf_type_name(v->type));
  if (n < 1 || n > MAX_ALIGNMENT || (n & (n - 1)) != 0)
    return ij__fail(r->err, IJ_E_FORMAT, g->path, "general.alignment: expected a power of two up to %d, found %" PRId64, MAX_ALIGNMENT, n);
  g->alignment = (size_t)n;
  r->data_at = ij__align_up(r->at, g->alignment);
  return IJ_OK;
}

/* --- the layout of the data */

static size_t begin_of(const ij_tensor_view *t) { return (size_t)(uintptr_t)t->data; }

static int compare_offsets(const void *a, const void *b) {
  const ij_tensor_view *x = a, *y = b;
  if (begin_of(x) != begin_of(y)) return begin_of(x) < begin_of(y) ? -1 : 1;
  return strcmp(x->name, y->name); /* of two at one place, which is an error, always the same first */
}

static void show_name(char shown[NAME_ROOM], const ij_tensor_view *t) { ij__json_show(shown, NAME_ROOM, t->name, strlen(t->name)); }

static bool fits(const gguf_reader *r, const ij_tensor_view *t) {
  size_t n_data = r->data_at < r->n ? r->n - r->data_at : 0;
  return begin_of(t) <= n_data && t->n_bytes <= n_data - begin_of(t);
}

/* Data that ends too early is one finding, however many tensors miss their bytes. */
static void find_truncation(gguf_reader *r) {
  size_t n = 0;
  const ij_tensor_view *first = NULL;
  for (size_t i = 0; i < r->g->n_tensors; i++) {
    if (fits(r, &r->g->tensors[i])) continue;
    if (!first) first = &r->g->tensors[i];
    n++;
  }
  if (!first) return;
  char shown[NAME_ROOM];
  show_name(shown, first);
  r->only_unsupported = false;
  ij__findings_add(&r->found, "the file is truncated: it has %zu bytes; %zu of %zu tensors reach past the end, first tensor %s (%zu bytes "
                   "from byte %zu of the data, which begins at byte %zu). Download it again", r->n, n, r->g->n_tensors, shown,
                   first->n_bytes, begin_of(first), r->data_at);
}

static ij_status check_layout(gguf_reader *r) {
  size_t end = 0;
  const ij_tensor_view *before = NULL;
  for (size_t i = 0; i < r->g->n_tensors; i++) {
    const ij_tensor_view *t = &r->g->tensors[i];
    size_t begin = begin_of(t);
    char shown[NAME_ROOM], other[NAME_ROOM];
    show_name(shown, t);
    if (begin % r->g->alignment != 0) FIND(r, shown, "offset %zu is not a multiple of the alignment %zu", begin, r->g->alignment);
    if (before && begin < end) {
      show_name(other, before);
      FIND(r, shown, "begins at byte %zu of the data, inside tensor %s, which ends at %zu", begin, other, end);
    }
    if (!fits(r, t) || begin + t->n_bytes <= end) continue;
    end = begin + t->n_bytes;
    before = t;
  }
  find_truncation(r);
  return report(r);
}

/* --- the file */

static ij_status read_all(gguf_reader *r) {
  ij_gguf *g = r->g;
  ij_status s = read_head(r);
  for (uint64_t i = 0; s == IJ_OK && i < r->want_values; i++) s = read_value(r);
  for (uint64_t i = 0; s == IJ_OK && i < r->want_tensors; i++) s = read_tensor(r, i);
  if (s == IJ_OK) s = report(r);
  if (s == IJ_OK) s = copy_names(r);
  if (s == IJ_OK) s = index_strings(r);
  if (s == IJ_OK) s = check_unique(r, true);
  if (s == IJ_OK) s = check_unique(r, false);
  if (s == IJ_OK) s = find_alignment(r);
  if (s == IJ_OK && g->n_tensors) qsort(g->tensors, g->n_tensors, sizeof *g->tensors, compare_offsets);
  if (s == IJ_OK) s = check_layout(r);
  if (s != IJ_OK) return s;
  for (size_t i = 0; i < g->n_tensors; i++) g->tensors[i].data = r->bytes + r->data_at + begin_of(&g->tensors[i]);
  return IJ_OK;
}

ij_status ij__gguf_parse(ij_gguf *out, const void *bytes, size_t n_bytes, const char *path, ij_err *err) {
  *out = (ij_gguf){.path = path, .bytes = bytes, .alignment = DEFAULT_ALIGNMENT};
  gguf_reader r = {.g = out, .bytes = bytes, .n = n_bytes, .only_unsupported = true, .err = err};
  ij_status s = read_all(&r);
  if (s != IJ_OK) ij__gguf_free(out);
  return s;
}

void ij__gguf_free(ij_gguf *g) {
  ij__free(g->values);
  ij__free(g->tensors);
  ij__free(g->names);
  ij__free(g->offsets);
  *g = (ij_gguf){0};
}

/* --- reading */

const ij_gguf_value *ij__gguf_find(const ij_gguf *g, const char *key) {
  for (size_t i = 0; i < g->n_values; i++) {
    if (strcmp(g->values[i].key, key) == 0) return &g->values[i];
  }
  return NULL;
}

bool ij__gguf_int(const ij_gguf_value *v, int64_t i, int64_t *out) {
  if (!v || i < 0 || i >= v->n) return false;
  int size = value_types[v->type].bytes;
  const unsigned char *p = (const unsigned char *)v->data + i * size;
  uint64_t u = size ? load(p, size) : 0;
  switch (v->type) {
    case IJ_GGUF_I8: *out = (int8_t)u; return true;
    case IJ_GGUF_I16: *out = (int16_t)u; return true;
    case IJ_GGUF_I32: *out = (int32_t)u; return true;
    case IJ_GGUF_BOOL:
      if (u > 1) return false;
      *out = (int64_t)u;
      return true;
    case IJ_GGUF_U8: case IJ_GGUF_U16: case IJ_GGUF_U32: case IJ_GGUF_I64: *out = (int64_t)u; return true;
    case IJ_GGUF_U64:
      if (u > INT64_MAX) return false;
      *out = (int64_t)u;
      return true;
    case IJ_GGUF_F32: case IJ_GGUF_F64: case IJ_GGUF_STRING: case IJ_GGUF_ARRAY: case IJ_GGUF_N_TYPES: break;
  }
  return false;
}

bool ij__gguf_real(const ij_gguf_value *v, int64_t i, double *out) {
  if (!v || i < 0 || i >= v->n) return false;
  const unsigned char *p = (const unsigned char *)v->data + i * value_types[v->type].bytes;
  int64_t integer;
  if (v->type == IJ_GGUF_F32) {
    uint32_t u = (uint32_t)load(p, 4);
    float f;
    memcpy(&f, &u, sizeof f);
    *out = (double)f;
    return true;
  }
  if (v->type == IJ_GGUF_F64) {
    uint64_t u = load64(p);
    memcpy(out, &u, sizeof *out);
    return true;
  }
  if (!ij__gguf_int(v, i, &integer)) return false;
  *out = (double)integer;
  return true;
}

bool ij__gguf_string(const ij_gguf *g, const ij_gguf_value *v, int64_t i, const char **text, size_t *len) {
  if (!v || !v->offsets || i < 0 || i >= v->n) return false;
  const unsigned char *p = (const unsigned char *)g->bytes + v->offsets[i];
  *len = (size_t)load64(p);
  *text = (const char *)p + 8;
  return true;
}
