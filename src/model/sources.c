/* sources.c: see sources.h. The form of a matrix follows from what stands beside its main tensor, never from a list of layers: each
 * release leaves other layers unquantized. For MLX the shapes decide bits and group; the dictionary of config.json must then agree. */
#include "model/sources.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "kernels/ref/convert_ref.h"

#define MAX_COLS ((int64_t)1 << 40) /* a shape with a 0 in it may claim any length beside it */

/* --------------------------------------------------------------------------------------------------- slots and sources */

bool ij__source_find(ij_source *out, const ij_names *n, const char *main_name, bool matrix) {
  char name[IJ_TENSOR_NAME_MAX];
  *out = (ij_source){.row = NULL};
  snprintf(out->name, sizeof out->name, "%s", main_name);
  out->side[IJ_SIDE_MAIN] = ij__ckpt_find(n->ckpt, out->name);
  for (int i = 1; matrix && n->layout->sidecars && i < IJ_SIDE_COUNT; i++) {
    snprintf(name, sizeof name, "%s", main_name);
    ij__side_name(name, (ij_side)i);
    out->side[i] = ij__ckpt_find(n->ckpt, name);
  }
  out->main = out->side[IJ_SIDE_MAIN];
  if (!out->main && out->side[IJ_SIDE_PACKED]) {
    out->form = IJ_FORM_PACKED;
    out->main = out->side[IJ_SIDE_PACKED];
    snprintf(out->name, sizeof out->name, "%s", out->main->name);
  } else if (out->side[IJ_SIDE_SCALES]) {
    out->form = IJ_FORM_MLX;
  } else if (out->side[IJ_SIDE_NV_SCALE] || out->side[IJ_SIDE_NV_SCALE2]) {
    out->form = IJ_FORM_NVFP4;
  }
  return out->main != NULL;
}

static bool source_at(ij_source *out, const ij_names *n, const ij_name_row *row, int layer) {
  char name[IJ_TENSOR_NAME_MAX];
  ij__name_of(name, n->layout, row, layer, IJ_SIDE_MAIN);
  bool found = ij__source_find(out, n, name, ij__tensor_spec(row->id)->kind == IJ_TENSOR_MATRIX && row->part != IJ_PART_FACTOR);
  out->row = row;
  return found;
}

/* Adds a source to the slot; one that has no place left in it is a surplus. */
static void add_source(ij_slot *slot, const ij_source *s, bool has_part[2]) {
  ij_part part = s->row->part;
  bool half = part == IJ_PART_GATE || part == IJ_PART_UP;
  if (part == IJ_PART_FACTOR) {
    slot->factor = *s;
  } else if (half && (slot->n == 0 || has_part[0] || has_part[1])) {
    has_part[part == IJ_PART_UP] = true;
    slot->source[slot->n++] = *s;
  } else if (!half && slot->n == 0) {
    slot->source[slot->n++] = *s;
  } else {
    snprintf(slot->surplus, sizeof slot->surplus, "%s", s->name);
  }
}

/* The row a missing tensor is called by: the other half of what is there, else the one that this layout stores (apart or together). */
static const ij_name_row *lacking_row(const ij_slot *slot, const ij_names *n, ij_tensor_id id, const bool has_part[2]) {
  const ij_name_row *first = NULL, *rows = n->layout->rows;
  for (int i = 0; i < n->layout->n_rows; i++) {
    if (rows[i].id != id || rows[i].part == IJ_PART_FACTOR) continue;
    bool half = rows[i].part == IJ_PART_GATE || rows[i].part == IJ_PART_UP;
    if (slot->n == 1) {
      if (half && !has_part[rows[i].part == IJ_PART_UP]) return &rows[i];
    } else if (!first || (n->split && first->part == IJ_PART_PAIRS) ||
               (n->split && !half && strstr(rows[i].name, ".down_proj") && rows[i].part == IJ_PART_WHOLE)) {
      first = &rows[i];
    }
  }
  return first;
}

bool ij__slot_find(ij_slot *out, const ij_names *n, ij_tensor_id id, int layer) {
  bool has_part[2] = {false, false};
  *out = (ij_slot){.n = 0};
  for (int i = 0; i < n->layout->n_rows; i++) {
    ij_source s;
    if (n->layout->rows[i].id == id && source_at(&s, n, &n->layout->rows[i], layer)) add_source(out, &s, has_part);
  }
  bool half = has_part[0] || has_part[1], full = half ? has_part[0] && has_part[1] : out->n == 1;
  if (!full) out->lacking = lacking_row(out, n, id, has_part);
  return full;
}

const ij_tensor_view *ij__slot_tensor(const ij_names *n, ij_tensor_id id, int layer) {
  ij_slot slot;
  return ij__slot_find(&slot, n, id, layer) && slot.n == 1 && slot.source[0].row->part == IJ_PART_WHOLE ? slot.source[0].main : NULL;
}

/* ------------------------------------------------------------------------------------------------------------ shapes */

bool ij__source_merged(const ij_source *s) {
  if (!s->main || s->main->n_dims != 2) return false;
  if (s->row->id == IJ_T_SHARED_W13) return s->row->part == IJ_PART_GATE || s->row->part == IJ_PART_UP;
  return s->row->id == IJ_T_SHARED_W2;
}

static ij_dim half_of(ij_dim dim) { return dim == IJ_DIM_2D ? IJ_DIM_D : dim == IJ_DIM_2I ? IJ_DIM_I : dim; }

int ij__source_shape(int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS], ij_dim letters[IJ_TENSOR_MAX_SPEC_DIMS], const ij_config *config,
                     const ij_source *s, int layer) {
  const ij_tensor_spec *spec = ij__tensor_spec(s->row->id);
  ij_part part = s->row->part;
  int n = 0;
  if (part == IJ_PART_FACTOR) {
    letters[n++] = IJ_DIM_E;
  } else if (part == IJ_PART_QKVR) {
    letters[n++] = IJ_DIM_QKVR;
    letters[n++] = IJ_DIM_H;
  } else if (ij__source_merged(s)) {
    letters[n++] = s->row->id == IJ_T_SHARED_W13 ? IJ_DIM_SI : IJ_DIM_H;
    letters[n++] = s->row->id == IJ_T_SHARED_W13 ? IJ_DIM_H : IJ_DIM_SI;
  } else {
    bool half = part == IJ_PART_GATE || part == IJ_PART_UP;
    for (; n < IJ_TENSOR_MAX_SPEC_DIMS && spec->dims[n] != IJ_DIM_END; n++) letters[n] = half ? half_of(spec->dims[n]) : spec->dims[n];
  }
  for (int i = 0; i < n; i++) dims[i] = ij__dim_value(letters[i], config, layer);
  return n;
}

/* ----------------------------------------------------------------------------------------------------- MLX dictionary */

static const ij_json_value *entry_at(const ij_json_value *dict, const char *path) {
  static const char lead[] = "language_model.";
  const ij_json_value *v = ij__json_member(dict, path);
  if (!v && ij__str_starts_with(path, lead)) v = ij__json_member(dict, path + strlen(lead));
  return v;
}

/* The entry of a module, or the dictionary itself: exact path, path without "language_model.", then the defaults. What is said of q_proj
 * holds for a fused qkvr_proj. */
static const ij_json_value *entry_of(const ij_names *n, const char *module) {
  const ij_json_value *v = entry_at(n->quant, module);
  const char *fused = strstr(module, "qkvr_proj");
  if (!v && fused) {
    char path[IJ_TENSOR_NAME_MAX];
    snprintf(path, sizeof path, "%.*sq_proj", (int)(fused - module), module);
    v = entry_at(n->quant, path);
  }
  bool yes;
  return !v || (ij__json_get_bool(v, &yes) && yes) ? n->quant : v;
}

/* The shapes say bits, group and mode; a dictionary that says otherwise is a contradiction, not a preference. */
static bool dictionary_agrees(const ij_names *n, const char *module, int64_t bits, int64_t group, const char *mode, char *why,
                              size_t size) {
  if (!n->quant) return true;
  const ij_json_value *e = entry_of(n, module), *mode_value = ij__json_member(e, "mode");
  const struct {
    const char *key;
    int64_t have;
  } rules[] = {{"bits", bits}, {"group_size", group}};
  bool yes;
  const char *at = e == n->quant ? "" : module, *dot = *at ? "." : "";
  if (ij__json_get_bool(e, &yes)) {
    snprintf(why, size, "%s.%s of the config is false (not quantized), but scales stand beside it", n->quant_key, module);
    return false;
  }
  for (size_t i = 0; i < IJ_COUNT_OF(rules); i++) {
    const ij_json_value *v = ij__json_member(e, rules[i].key);
    int64_t said;
    if (ij__json_type_of(v) == IJ_JSON_NONE || ij__json_type_of(v) == IJ_JSON_NULL) continue;
    if (ij__json_get_int(v, &said) && said == rules[i].have) continue;
    if (ij__json_get_int(v, &said))
      snprintf(why, size, "%s%s%s.%s of the config is %lld, but the shapes of the weight and its scales make it %lld", n->quant_key, dot,
               at, rules[i].key, (long long)said, (long long)rules[i].have);
    else
      snprintf(why, size, "%s%s%s.%s of the config: expected an integer, found %s", n->quant_key, dot, at, rules[i].key,
               ij__json_type_name(ij__json_type_of(v)));
    return false;
  }
  if (!ij__json_is(mode_value, mode) && !(ij__json_type_of(mode_value) == IJ_JSON_NONE && strcmp(mode, "affine") == 0)) {
    const char *said = "affine";
    size_t len;
    if (ij__json_type_of(mode_value) != IJ_JSON_NONE && !ij__json_get_string(mode_value, &said, &len)) said = "not a string";
    snprintf(why, size, "%s%s%s.mode of the config is %.20s, but the weight, its scales%s make it %s", n->quant_key, dot, at, said,
             strcmp(mode, "affine") == 0 ? " and biases" : " and the absence of biases", mode);
    return false;
  }
  return true;
}

/* ---------------------------------------------------------------------------------------------------------- matrices */

static void show_shape(char *buf, size_t size, const ij_tensor_view *t) {
  size_t len = (size_t)snprintf(buf, size, "%s [", ij__dtype_name(t->dtype));
  for (int i = 0; i < t->n_dims && len < size; i++)
    len += (size_t)snprintf(buf + len, size - len, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
  if (len < size) snprintf(buf + len, size - len, "]");
}

static int64_t last_dim(const ij_tensor_view *t) { return t->n_dims ? t->dims[t->n_dims - 1] : 0; }

/* A side array: the leading dimensions of the main tensor, then `cols` values per row. */
static bool side_fits(const ij_source *s, ij_side side, int64_t cols, char *why, size_t size) {
  const ij_tensor_view *t = s->side[side], *m = s->main;
  char found[160];
  bool fits = t->n_dims == m->n_dims && last_dim(t) == cols;
  for (int i = 0; fits && i < m->n_dims - 1; i++) fits = t->dims[i] == m->dims[i];
  if (fits) return true;
  show_shape(found, sizeof found, t);
  snprintf(why, size, "%.110s should have the rows of the weight and %lld values in each, found %s", t->name, (long long)cols, found);
  return false;
}

static bool side_type_is(const ij_tensor_view *t, ij_dtype a, ij_dtype b, const char *expected, char *why, size_t size) {
  if (t->dtype == a || t->dtype == b) return true;
  snprintf(why, size, "%.110s: expected %s, found %s", t->name, expected, ij__dtype_name(t->dtype));
  return false;
}

static bool main_type_is(const ij_source *s, ij_dtype want, const char *because, char *why, size_t size) {
  if (s->main->dtype == want) return true;
  snprintf(why, size, "expected %s, because %s beside it, found %s", ij__dtype_name(want), because, ij__dtype_name(s->main->dtype));
  return false;
}

static bool plain_matrix(ij_matrix *m, const ij_source *s, int64_t cols, char *why, size_t size) {
  const ij_tensor_view *t = s->main;
  const char *hint = t->dtype == IJ_DTYPE_U32 || t->dtype == IJ_DTYPE_U8 ? " without its scales" : "";
  if (!ij__dtype_is_float(t->dtype) && !ij__dtype_is_block(t->dtype)) {
    snprintf(why, size, "expected F32, BF16 or F16, found %s%s", ij__dtype_name(t->dtype), hint);
    return false;
  }
  if (last_dim(t) % ij__dtype_block_len(t->dtype) != 0) {
    snprintf(why, size, "rows of %lld values do not divide into blocks of %lld (%s)", (long long)last_dim(t),
             (long long)ij__dtype_block_len(t->dtype), ij__dtype_name(t->dtype));
    return false;
  }
  m->dtype = t->dtype;
  return last_dim(t) == cols;
}

static ij_dtype affine_of(int64_t bits) {
  static const ij_dtype types[] = {[2] = IJ_DTYPE_AFFINE2, [3] = IJ_DTYPE_AFFINE3, [4] = IJ_DTYPE_AFFINE4,
                                   [5] = IJ_DTYPE_AFFINE5, [6] = IJ_DTYPE_AFFINE6, [8] = IJ_DTYPE_AFFINE8};
  return bits >= 2 && bits <= 8 && bits != 7 ? types[bits] : IJ_DTYPE_COUNT;
}

static bool mlx_matrix(ij_matrix *m, const ij_names *n, const ij_source *s, int64_t cols, char *why, size_t size) {
  const ij_tensor_view *scales = s->side[IJ_SIDE_SCALES], *biases = s->side[IJ_SIDE_BIASES];
  int64_t words = last_dim(s->main), n_group = last_dim(scales);
  char module[IJ_TENSOR_NAME_MAX];
  snprintf(module, sizeof module, "%s", s->name);
  if (ij__str_ends_with(module, ".weight")) module[strlen(module) - strlen(".weight")] = 0;
  if (!main_type_is(s, IJ_DTYPE_U32, ".scales stands", why, size)) return false;
  if (n_group <= 0 || words <= 0 || words > INT64_MAX / 32 || cols % n_group != 0 || words * 32 % cols != 0) {
    snprintf(why, size, "%lld words and %lld scales per row do not divide into rows of %lld values", (long long)words, (long long)n_group,
             (long long)cols);
    return false;
  }
  int64_t bits = words * 32 / cols, group = cols / n_group;
  if (!side_fits(s, IJ_SIDE_SCALES, n_group, why, size) || (biases && !side_fits(s, IJ_SIDE_BIASES, n_group, why, size))) return false;
  if (biases) {
    m->dtype = affine_of(bits);
    if (m->dtype == IJ_DTYPE_COUNT || (group != 32 && group != 64 && group != 128)) {
      snprintf(why, size, "its shapes make it %lld bits in groups of %lld; affine weights have 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 "
               "or 128", (long long)bits, (long long)group);
      return false;
    }
    if (!dictionary_agrees(n, module, bits, group, "affine", why, size)) return false;
    if (!ij__dtype_is_float(scales->dtype) || scales->dtype != biases->dtype) {
      snprintf(why, size, "its scales and biases should both be BF16, F16 or F32, found %s and %s", ij__dtype_name(scales->dtype),
               ij__dtype_name(biases->dtype));
      return false;
    }
    m->biases = biases->data;
  } else {
    m->dtype = group == 16 && bits == 4 ? IJ_DTYPE_NVFP4_SPLIT : group == 32 && bits == 4 ? IJ_DTYPE_MXFP4_SPLIT : IJ_DTYPE_MXFP8_SPLIT;
    if (group != (m->dtype == IJ_DTYPE_NVFP4_SPLIT ? 16 : 32) || bits != (m->dtype == IJ_DTYPE_MXFP8_SPLIT ? 8 : 4)) {
      snprintf(why, size, "it has no .biases, and %lld bits in groups of %lld are neither mxfp4 (4, 32), mxfp8 (8, 32) nor nvfp4 (4, 16)",
               (long long)bits, (long long)group);
      return false;
    }
    if (!dictionary_agrees(n, module, bits, group, ij__dtype_name(m->dtype), why, size)) return false;
    ij_dtype other = m->dtype == IJ_DTYPE_NVFP4_SPLIT ? IJ_DTYPE_F8_E4M3 : IJ_DTYPE_U8;
    if (!side_type_is(scales, IJ_DTYPE_U8, other, "U8", why, size)) return false;
  }
  m->group = (int)group;
  m->scales = scales->data;
  m->side_dtype = biases ? scales->dtype : m->dtype == IJ_DTYPE_NVFP4_SPLIT ? IJ_DTYPE_F8_E4M3 : IJ_DTYPE_U8;
  return true;
}

/* original_shape is a note of the writer; if it is there it must not contradict. */
static bool noted_shape_agrees(const ij_source *s, int64_t cols, char *why, size_t size) {
  const ij_tensor_view *t = s->side[IJ_SIDE_NV_SHAPE];
  if (!t || t->dtype != IJ_DTYPE_I64 || t->n_values == 0) return true;
  bool fits = t->n_values == s->main->n_dims;
  for (int i = 0; fits && i < s->main->n_dims; i++) {
    int64_t v;
    memcpy(&v, (const char *)t->data + 8 * i, sizeof v);
    fits = v == (i + 1 < s->main->n_dims ? s->main->dims[i] : cols);
  }
  if (!fits) snprintf(why, size, "%.110s contradicts the shape of the weight", t->name);
  return fits;
}

static bool nvfp4_matrix(ij_matrix *m, const ij_source *s, int64_t cols, int64_t units, char *why, size_t size) {
  bool packed = s->form == IJ_FORM_PACKED;
  ij_side scale_side = packed ? IJ_SIDE_CT_SCALE : IJ_SIDE_NV_SCALE, factor_side = packed ? IJ_SIDE_CT_GLOBAL : IJ_SIDE_NV_SCALE2;
  const ij_tensor_view *scale = s->side[scale_side], *factor = s->side[factor_side];
  if (!scale || !factor) {
    static const char *const suffixes[2][2] = {{".scale", ".scale2"}, {".weight_scale", ".weight_global_scale"}};
    snprintf(why, size, "%s is missing beside it", suffixes[packed][scale != NULL]);
    return false;
  }
  if (!main_type_is(s, IJ_DTYPE_U8, "NVFP4 scales stand", why, size)) return false;
  if (!side_type_is(scale, IJ_DTYPE_F8_E4M3, IJ_DTYPE_U8, "F8_E4M3", why, size)) return false;
  if (!side_type_is(factor, IJ_DTYPE_F32, IJ_DTYPE_F32, "F32", why, size)) return false;
  if (last_dim(s->main) * 2 != cols || cols % 16 != 0) {
    snprintf(why, size, "%lld bytes per row do not hold %lld 4-bit values in blocks of 16", (long long)last_dim(s->main), (long long)cols);
    return false;
  }
  if (!side_fits(s, scale_side, cols / 16, why, size) || !noted_shape_agrees(s, cols, why, size)) return false;
  if (factor->n_values != units) {
    snprintf(why, size, "%.110s: expected %lld value%s, found %lld", factor->name, (long long)units, units == 1 ? "" : "s",
             (long long)factor->n_values);
    return false;
  }
  m->dtype = IJ_DTYPE_NVFP4_SPLIT;
  m->group = 16;
  m->side_dtype = IJ_DTYPE_F8_E4M3;
  m->scales = scale->data;
  m->factor = factor;
  m->divides = packed;
  return true;
}

/* Whatever stands beside a matrix and is no part of its form would be ignored in silence. */
static bool nothing_else(const ij_source *s, char *why, size_t size) {
  static const unsigned of_form[] = {
      [IJ_FORM_PLAIN] = 1u << IJ_SIDE_MAIN,
      [IJ_FORM_MLX] = 1u << IJ_SIDE_MAIN | 1u << IJ_SIDE_SCALES | 1u << IJ_SIDE_BIASES,
      [IJ_FORM_NVFP4] = 1u << IJ_SIDE_MAIN | 1u << IJ_SIDE_NV_SCALE | 1u << IJ_SIDE_NV_SCALE2,
      [IJ_FORM_PACKED] = 1u << IJ_SIDE_PACKED | 1u << IJ_SIDE_CT_SCALE | 1u << IJ_SIDE_CT_GLOBAL,
  };
  for (int i = 0; i < IJ_SIDE_COUNT; i++) {
    if (!s->side[i] || ij__side_is_informative((ij_side)i) || (of_form[s->form] >> i & 1)) continue;
    snprintf(why, size, "%.110s does not go with its form (%s)", s->side[i]->name,
             s->form == IJ_FORM_PLAIN ? "unquantized" : s->form == IJ_FORM_MLX ? "MLX" : "NVFP4");
    return false;
  }
  return true;
}

bool ij__source_matrix(ij_matrix *out, const ij_names *names, const ij_source *s, int64_t cols, int64_t units, char *why, size_t size) {
  *out = (ij_matrix){.data = s->main->data, .cols = cols};
  bool ok = false;
  if (size) why[0] = 0;
  if (cols > MAX_COLS) {
    snprintf(why, size, "rows of %lld values are too long", (long long)cols);
  } else if (cols > 0 && nothing_else(s, why, size)) {
    if (s->form == IJ_FORM_PLAIN)
      ok = plain_matrix(out, s, cols, why, size);
    else if (s->form == IJ_FORM_MLX)
      ok = mlx_matrix(out, names, s, cols, why, size);
    else
      ok = nvfp4_matrix(out, s, cols, units, why, size);
  }
  if (!ok) return false;
  out->row_bytes = ij__dtype_row_bytes(out->dtype, cols);
  if (out->group) out->side_bytes = cols / out->group * ij__dtype_block_bytes(out->side_dtype);
  return true;
}

/* Small tensors need no alignment. */
float ij__tensor_value(const ij_tensor_view *t, int64_t i) {
  const char *p = (const char *)t->data + i * ij__dtype_block_bytes(t->dtype);
  uint16_t half;
  float f;
  if (t->dtype == IJ_DTYPE_F32) {
    memcpy(&f, p, sizeof f);
    return f;
  }
  memcpy(&half, p, sizeof half);
  return t->dtype == IJ_DTYPE_F16 ? ij__ref_from_f16(half) : ij__ref_from_bf16(half);
}

int64_t ij__matrix_grain(const ij_matrix *m) { return IJ_MAX((int64_t)m->group, ij__dtype_block_len(m->dtype)); }

ij_weight ij__matrix_view(const ij_matrix *m, int64_t first, int64_t step, int64_t rows, int64_t c0, int64_t cols) {
  ij_weight w = {.data = (const char *)m->data + first * m->row_bytes + ij__dtype_row_bytes(m->dtype, c0), .dtype = m->dtype, .rows = rows,
                 .cols = cols, .row_stride = step * m->row_bytes};
  if (!m->group) return w;
  int64_t side_at = first * m->side_bytes + c0 / m->group * ij__dtype_block_bytes(m->side_dtype);
  w.scales = (const char *)m->scales + side_at;
  w.biases = m->biases ? (const char *)m->biases + side_at : NULL;
  w.side_stride = step * m->side_bytes;
  w.side_dtype = m->side_dtype;
  w.group = m->group;
  return w;
}

/* ------------------------------------------------------------------------------------------------ hf_quant_config.json */

static ij_status check_group(const ij_json_value *root, const char *path, ij_err *err) {
  const ij_json_value *inner = ij__json_member(root, "quantization"), *v = ij__json_member(inner ? inner : root, "group_size");
  int64_t group;
  if (ij__json_type_of(root) != IJ_JSON_OBJECT)
    return ij__fail(err, IJ_E_FORMAT, path, "expected an object, found %s", ij__json_type_name(ij__json_type_of(root)));
  if (ij__json_type_of(v) == IJ_JSON_NONE || ij__json_type_of(v) == IJ_JSON_NULL) return IJ_OK;
  if (ij__json_get_int(v, &group) && group == 16) return IJ_OK;
  if (!ij__json_get_int(v, &group))
    return ij__fail(err, IJ_E_FORMAT, path, "group_size: expected an integer, found %s", ij__json_type_name(ij__json_type_of(v)));
  return ij__fail(err, IJ_E_UNSUPPORTED, path, "group_size: only 16 is supported, found %lld", (long long)group);
}

ij_status ij__quant_config_check(const ij_ckpt *ckpt, ij_err *err) {
  const size_t max_bytes = 16 * 1024 * 1024;
  char *path = ij__os_join(ij__ckpt_folder(ckpt), "hf_quant_config.json"), *bytes = NULL;
  if (!path) return ij__fail_nomem(err, ij__ckpt_folder(ckpt), 0);
  ij_status s = IJ_OK;
  size_t n = 0;
  ij_json *doc = NULL;
  if (ij__os_is_file(path)) {
    s = ij__os_read_file(path, max_bytes, &bytes, &n, err);
    if (s == IJ_OK) s = ij__json_parse(&doc, bytes, n, path, err);
    if (s == IJ_OK) s = check_group(ij__json_root(doc), path, err);
  }
  ij__json_free(&doc);
  ij__free(bytes);
  ij__free(path);
  return s;
}
