/* safetensors.c: see safetensors.h. A file is 8 bytes of header length (little-endian), a JSON object that maps names to
 * {dtype, shape, data_offsets}, and the data. Entries are read first; only when all of them are sound are they sorted by offset
 * and the layout of the data checked, because one bad entry would show up there as many. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "io/json.h"

#define NAME_ROOM 140 /* bytes of a name that a message shows */

typedef struct st_reader {
  const char *path;
  const unsigned char *data; /* behind the header */
  size_t n_data;
  ij_safetensors *out;
  size_t cap;          /* entries that out->tensors has room for */
  ij_findings found;
  bool only_unsupported; /* all findings so far are dtypes that inkjet does not know */
} st_reader;

/* A finding about one tensor; `shown` is its name made fit for a message. */
#define FIND(r, shown, fmt, ...) \
  ((r)->only_unsupported = false, ij__findings_add(&(r)->found, "tensor %s: " fmt, shown, __VA_ARGS__))

static ij_status report(const st_reader *r, const char *path, ij_err *err) {
  const ij_findings *f = &r->found;
  ij_status code = r->only_unsupported ? IJ_E_UNSUPPORTED : IJ_E_FORMAT;
  if (f->n == 0) return IJ_OK;
  if (f->n == 1) return ij__fail(err, code, path, "%s", f->text);
  if (f->n > f->n_shown) return ij__fail(err, code, path, "%d findings: %s; and %d more", f->n, f->text, f->n - f->n_shown);
  return ij__fail(err, code, path, "%d findings: %s", f->n, f->text);
}

/* --- one entry of the header */

static bool read_dtype(st_reader *r, const char *shown, const ij_json_value *v, ij_dtype *out) {
  const char *word;
  size_t n;
  if (!ij__json_get_string(v, &word, &n)) {
    FIND(r, shown, "dtype: expected a string, found %s", ij__json_type_name(ij__json_type_of(v)));
    return false;
  }
  *out = ij__dtype_find(word, n);
  if (*out != IJ_DTYPE_COUNT) return true;
  char text[40];
  ij__json_show(text, sizeof text, word, n);
  bool only = r->found.n == 0 || r->only_unsupported;
  FIND(r, shown, "dtype %s is not one that this version reads", text);
  r->only_unsupported = only;
  return false;
}

/* An array of `min` to `max` integers that are not negative. */
static bool read_integers(st_reader *r, const char *shown, const char *key, const ij_json_value *v, size_t min, size_t max, int64_t *out,
                          int *n_out) {
  size_t n = ij__json_size(v);
  if (ij__json_type_of(v) != IJ_JSON_ARRAY) {
    FIND(r, shown, "%s: expected an array, found %s", key, ij__json_type_name(ij__json_type_of(v)));
    return false;
  }
  if (n < min || n > max) {
    FIND(r, shown, "%s: expected %s%zu entries, found %zu", key, min == max ? "" : "at most ", max, n);
    return false;
  }
  ij_json_iter it = {0};
  const ij_json_value *item;
  for (int i = 0; ij__json_next(v, &it, NULL, NULL, &item); i++) {
    if (!ij__json_get_int(item, &out[i])) {
      FIND(r, shown, "%s[%d]: expected an integer below 2^63, found %s", key, i, ij__json_type_name(ij__json_type_of(item)));
      return false;
    }
    if (out[i] < 0) {
      FIND(r, shown, "%s[%d]: expected 0 or more, found %" PRId64, key, i, out[i]);
      return false;
    }
  }
  *n_out = (int)n;
  return true;
}

/* Shape and type give the number of values and bytes. */
static bool count_values(st_reader *r, const char *shown, ij_tensor_view *t) {
  size_t n = 1;
  bool fits = true;
  for (int i = 0; fits && i < t->n_dims; i++) fits = ij__mul_size(n, (size_t)t->dims[i], &n) && n <= INT64_MAX;
  fits = fits && ij__mul_size(n, (size_t)ij__dtype_block_bytes(t->dtype), &t->n_bytes);
  if (!fits) FIND(r, shown, "shape: the product of its %d dimensions does not fit in 63 bits", t->n_dims);
  t->n_values = fits ? (int64_t)n : 0;
  return fits;
}

/* The three members and nothing else; the parser has refused a key that occurs twice. */
static bool check_members(st_reader *r, const char *shown, const ij_json_value *entry) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  const char *key;
  size_t len;
  bool ok = true;
  while (ij__json_next(entry, &it, &key, &len, &v)) {
    if (strlen(key) == len && (!strcmp(key, "dtype") || !strcmp(key, "shape") || !strcmp(key, "data_offsets"))) continue;
    char text[60];
    ij__json_show(text, sizeof text, key, len);
    FIND(r, shown, "unknown member %s; expected dtype, shape and data_offsets only", text);
    ok = false;
  }
  return ok;
}

/* Reads one entry into *t, its offset into *begin. All that is wrong with it becomes findings. */
static bool read_entry(st_reader *r, const char *shown, const ij_json_value *entry, ij_tensor_view *t, size_t *begin) {
  if (ij__json_type_of(entry) != IJ_JSON_OBJECT) {
    FIND(r, shown, "expected an object, found %s", ij__json_type_name(ij__json_type_of(entry)));
    return false;
  }
  int64_t span[2] = {0, 0};
  int n_span = 0;
  bool ok = check_members(r, shown, entry);
  ok &= read_dtype(r, shown, ij__json_member(entry, "dtype"), &t->dtype);
  ok &= read_integers(r, shown, "shape", ij__json_member(entry, "shape"), 0, IJ_TENSOR_MAX_DIMS, t->dims, &t->n_dims);
  ok &= read_integers(r, shown, "data_offsets", ij__json_member(entry, "data_offsets"), 2, 2, span, &n_span);
  if (!ok || !count_values(r, shown, t)) return false;
  if (span[0] > span[1]) {
    FIND(r, shown, "data_offsets: begin %" PRId64 " is behind end %" PRId64, span[0], span[1]);
    return false;
  }
  if ((uint64_t)(span[1] - span[0]) != t->n_bytes) {
    FIND(r, shown, "data_offsets: expected %zu bytes (%" PRId64 " values of %s), found %" PRId64, t->n_bytes, t->n_values,
         ij__dtype_name(t->dtype), span[1] - span[0]);
    return false;
  }
  if ((uint64_t)span[1] > SIZE_MAX) {
    FIND(r, shown, "data_offsets: end %" PRId64 " is beyond what this machine can address", span[1]);
    return false;
  }
  *begin = (size_t)span[0];
  return true;
}

/* --- all entries */

static void check_metadata(st_reader *r, const ij_json_value *meta) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  const char *key;
  size_t len;
  if (ij__json_type_of(meta) != IJ_JSON_OBJECT) {
    r->only_unsupported = false;
    ij__findings_add(&r->found, "__metadata__: expected an object, found %s", ij__json_type_name(ij__json_type_of(meta)));
  }
  while (ij__json_type_of(meta) == IJ_JSON_OBJECT && ij__json_next(meta, &it, &key, &len, &v)) {
    if (ij__json_type_of(v) == IJ_JSON_STRING) continue;
    char shown[NAME_ROOM];
    ij__json_show(shown, sizeof shown, key, len);
    r->only_unsupported = false;
    ij__findings_add(&r->found, "__metadata__: %s: expected a string, found %s", shown, ij__json_type_name(ij__json_type_of(v)));
  }
}

/* Names go into messages and to terminals: no control characters, and no NUL that would cut them. */
static bool is_plain_name(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) return false;
  }
  return true;
}

static bool is_metadata(const char *key, size_t len) { return len == 12 && memcmp(key, "__metadata__", 12) == 0; }

/* Room for one more tensor. Grows by doubling: reserving for every entry would let 6 bytes of bad header claim 130. */
static bool grow(st_reader *r) {
  if (r->out->n < r->cap) return true;
  size_t cap = r->cap ? r->cap * 2 : 64, bytes;
  if (!ij__mul_size(cap, sizeof *r->out->tensors, &bytes)) return false;
  ij_tensor_view *p = ij__realloc(r->out->tensors, bytes);
  if (!p) return false;
  r->out->tensors = p;
  r->cap = cap;
  return true;
}

/* `begin` waits in `data` as a plain number until the layout has been checked. */
static ij_status read_entries(st_reader *r, const ij_json_value *root, ij_err *err) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  const char *key;
  size_t len, at = 0, begin = 0;
  while (ij__json_next(root, &it, &key, &len, &v)) {
    if (is_metadata(key, len)) {
      check_metadata(r, v);
      continue;
    }
    char shown[NAME_ROOM];
    ij__json_show(shown, sizeof shown, key, len);
    if (!is_plain_name(key, len)) FIND(r, shown, "the name holds %s", "control characters");
    ij_tensor_view t = {.file = r->path};
    if (!read_entry(r, shown, v, &t, &begin)) continue;
    if (!grow(r)) return ij__fail_nomem(err, r->path, (r->out->n + 1) * sizeof t);
    memcpy(r->out->names + at, key, len + 1);
    t.name = r->out->names + at;
    t.data = (const void *)(uintptr_t)begin;
    at += len + 1;
    r->out->tensors[r->out->n++] = t;
  }
  return report(r, r->path, err);
}

/* Bytes of all names with their NULs. */
static size_t names_bytes(const ij_json_value *root) {
  ij_json_iter it = {0};
  const ij_json_value *v;
  const char *key;
  size_t len, sum = 0;
  while (ij__json_next(root, &it, &key, &len, &v)) sum += len + 1; /* at most the header's own length */
  return sum;
}

/* --- the layout of the data */

static size_t begin_of(const ij_tensor_view *t) { return (size_t)(uintptr_t)t->data; }

/* By offset; an empty tensor comes before the one that starts at the same byte. Names only make the order total. */
static int compare_offsets(const void *a, const void *b) {
  const ij_tensor_view *x = a, *y = b;
  if (begin_of(x) != begin_of(y)) return begin_of(x) < begin_of(y) ? -1 : 1;
  if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

static void show_name(char shown[NAME_ROOM], const ij_tensor_view *t) { ij__json_show(shown, NAME_ROOM, t->name, strlen(t->name)); }

/* Data that ends too early is one finding, however many tensors miss their bytes. */
static void find_truncation(st_reader *r, size_t end) {
  size_t n = 0;
  const ij_tensor_view *first = NULL;
  for (size_t i = 0; i < r->out->n; i++) {
    const ij_tensor_view *t = &r->out->tensors[i];
    if (begin_of(t) + t->n_bytes <= r->n_data) continue;
    if (!first) first = t;
    n++;
  }
  char shown[NAME_ROOM];
  show_name(shown, first);
  r->only_unsupported = false;
  ij__findings_add(&r->found, "the file is truncated: the tensors need %zu bytes of data, the file has %zu; %zu of %zu tensors reach past "
                   "the end, first tensor %s. Download it again", end, r->n_data, n, r->out->n, shown);
}

static ij_status check_layout(st_reader *r, ij_err *err) {
  size_t end = 0;
  const ij_tensor_view *before = NULL;
  for (size_t i = 0; i < r->out->n; i++) {
    const ij_tensor_view *t = &r->out->tensors[i];
    size_t begin = begin_of(t);
    char shown[NAME_ROOM], other[NAME_ROOM] = "the header";
    show_name(shown, t);
    if (before) show_name(other, before);
    if (begin < end) FIND(r, shown, "begins at byte %zu of the data, inside tensor %s, which ends at %zu", begin, other, end);
    if (begin > end) FIND(r, shown, "begins at byte %zu of the data, but %s ends at %zu: nobody has the bytes between", begin, other, end);
    if (begin + t->n_bytes < end) continue;
    end = begin + t->n_bytes;
    before = t;
  }
  if (end > r->n_data) find_truncation(r, end);
  if (end < r->n_data) {
    r->only_unsupported = false;
    ij__findings_add(&r->found, "the file is oversized: the tensors end at byte %zu of the data, the file has %zu. Download it again", end,
                     r->n_data);
  }
  return report(r, r->path, err);
}

/* --- the file */

static ij_status fail_header_length(const unsigned char *bytes, size_t n_bytes, uint64_t len, const char *path, ij_err *err) {
  static const char lfs[] = "version https://git-lfs";
  if (n_bytes >= sizeof lfs - 1 && memcmp(bytes, lfs, sizeof lfs - 1) == 0)
    return ij__fail(err, IJ_E_FORMAT, path, "this is a Git LFS pointer, not the file it stands for: fetch it with `git lfs pull`");
  if (len > IJ_SAFETENSORS_MAX_HEADER)
    return ij__fail(err, IJ_E_FORMAT, path, "not a safetensors file: the first 8 bytes give a header of %" PRIu64 " bytes; at most %d are "
                    "accepted", len, IJ_SAFETENSORS_MAX_HEADER);
  return ij__fail(err, IJ_E_FORMAT, path, "the file is truncated: the header takes %" PRIu64 " bytes, the file has %zu behind its first 8. "
                  "Download it again", len, n_bytes - 8);
}

static ij_status parse_header(const unsigned char *bytes, size_t n_bytes, const char *path, ij_json **header, size_t *header_len,
                              ij_err *err) {
  if (n_bytes < 8)
    return ij__fail(err, IJ_E_FORMAT, path, "the file is truncated: it should begin with 8 bytes of header length, but has %zu. "
                    "Download it again", n_bytes);
  uint64_t len = 0;
  for (int i = 7; i >= 0; i--) len = len << 8 | bytes[i];
  if (len > IJ_SAFETENSORS_MAX_HEADER || len > n_bytes - 8) return fail_header_length(bytes, n_bytes, len, path, err);
  if (len == 0 || bytes[8] != '{') return ij__fail(err, IJ_E_FORMAT, path, "the header does not begin with '{': not a safetensors file");
  ij_err why;
  ij_status s = ij__json_parse(header, (const char *)bytes + 8, (size_t)len, path, &why);
  *header_len = (size_t)len;
  return s == IJ_OK ? s : ij__fail(err, s, path, "the header: %s", why.message);
}

ij_status ij__safetensors_parse(ij_safetensors *out, const void *bytes, size_t n_bytes, const char *path, ij_err *err) {
  *out = (ij_safetensors){0};
  ij_json *header = NULL;
  size_t len = 0;
  ij_status s = parse_header(bytes, n_bytes, path, &header, &len, err);
  if (s != IJ_OK) return s;
  st_reader r = {.path = path, .out = out, .only_unsupported = true};
  r.data = (const unsigned char *)bytes + 8 + len;
  r.n_data = n_bytes - 8 - len;
  const ij_json_value *root = ij__json_root(header);
  size_t n_names = names_bytes(root);
  out->names = ij__alloc(n_names);
  s = out->names ? read_entries(&r, root, err) : ij__fail_nomem(err, path, n_names);
  ij__json_free(&header);
  if (s == IJ_OK && out->n) qsort(out->tensors, out->n, sizeof *out->tensors, compare_offsets);
  if (s == IJ_OK) s = check_layout(&r, err);
  if (s != IJ_OK) {
    ij__safetensors_free(out);
    return s;
  }
  for (size_t i = 0; i < out->n; i++) out->tensors[i].data = r.data + begin_of(&out->tensors[i]);
  return IJ_OK;
}

void ij__safetensors_free(ij_safetensors *st) {
  ij__free(st->tensors);
  ij__free(st->names);
  *st = (ij_safetensors){0};
}
