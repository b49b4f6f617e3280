/* audit.c: a whole checkpoint against a config, every finding in one list. An unknown dimension of the config is 0 and matches
 * anything, so the audit also works on a config that is still being read. */
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "model/sources.h"

typedef struct auditor {
  ij_audit *audit;
  const ij_config *c;
  const ij_names *names;
  int layer;
} auditor;

static bool dim_fits(int64_t want, int64_t got) { return want == 0 ? got > 0 : want == got; }

static bool shape_fits(const ij_tensor_view *t, ij_tensor_kind kind, const int64_t *want, int n_want) {
  if (kind == IJ_TENSOR_SCALAR) return t->n_dims == 0 || (t->n_dims == 1 && t->dims[0] == 1);
  if (kind == IJ_TENSOR_CONV && t->n_dims == 3) {
    if (!dim_fits(want[0], t->dims[0])) return false;
    return (t->dims[1] == 1 && dim_fits(want[1], t->dims[2])) || (t->dims[2] == 1 && dim_fits(want[1], t->dims[1]));
  }
  if (t->n_dims != n_want) return false;
  for (int i = 0; i < n_want; i++) {
    if (!dim_fits(want[i], t->dims[i])) return false;
  }
  return true;
}

/* "[32, 64]"; a dimension that is not known is "?". */
static void format_shape(char *buf, size_t size, const int64_t *dims, int n) {
  size_t len = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < n && len < size; i++) {
    const char *comma = i ? ", " : "";
    if (dims[i] == 0)
      len += (size_t)snprintf(buf + len, size - len, "%s?", comma);
    else
      len += (size_t)snprintf(buf + len, size - len, "%s%lld", comma, (long long)dims[i]);
  }
  if (len < size) snprintf(buf + len, size - len, "]");
}

static void found_shape(char *buf, size_t size, const ij_tensor_view *t) {
  size_t len = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < t->n_dims && len < size; i++)
    len += (size_t)snprintf(buf + len, size - len, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
  if (len < size) snprintf(buf + len, size - len, "]");
}

/* "[32, 64] (num_key_value_heads * head_dim, hidden_size)" */
static void expected_shape(const auditor *a, char *buf, size_t size, const ij_source *s) {
  int64_t want[IJ_TENSOR_MAX_SPEC_DIMS];
  ij_dim letters[IJ_TENSOR_MAX_SPEC_DIMS];
  int n_want = ij__source_shape(want, letters, a->c, s, a->layer);
  if (ij__tensor_spec(s->row->id)->kind == IJ_TENSOR_SCALAR) {
    snprintf(buf, size, "one value, [1] or []");
    return;
  }
  format_shape(buf, size, want, n_want);
  size_t len = strlen(buf);
  for (int i = 0; i < n_want && len < size; i++)
    len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? ", " : " (", ij__dim_key(letters[i], a->names, a->c, a->layer));
  if (len < size) snprintf(buf + len, size - len, ")");
}

/* ---------------------------------------------------------------------------------------------------------- sources */

static void report_shape(const auditor *a, const ij_source *s) {
  char want_text[256], got_text[192];
  a->audit->n_shape++;
  expected_shape(a, want_text, sizeof want_text, s);
  found_shape(got_text, sizeof got_text, s->main);
  bool plain = s->form == IJ_FORM_PLAIN;
  ij__findings_add(&a->audit->findings, "%s: expected %s, found %s%s%s", s->name, want_text, got_text, plain ? "" : " packed in ",
                   plain ? "" : ij__dtype_name(s->main->dtype));
}

/* Vectors, convolutions, banks, scalars, factors: float, and of a fixed shape. */
static void audit_small(const auditor *a, const ij_source *s) {
  int64_t want[IJ_TENSOR_MAX_SPEC_DIMS];
  ij_dim letters[IJ_TENSOR_MAX_SPEC_DIMS];
  int n_want = ij__source_shape(want, letters, a->c, s, a->layer);
  ij_tensor_kind kind = s->row->part == IJ_PART_FACTOR ? IJ_TENSOR_VECTOR : ij__tensor_spec(s->row->id)->kind;
  if (!shape_fits(s->main, kind, want, n_want)) report_shape(a, s);
  if (ij__dtype_is_float(s->main->dtype)) return;
  a->audit->n_type++;
  ij__findings_add(&a->audit->findings, "%s: expected F32, BF16 or F16, found %s", s->name, ij__dtype_name(s->main->dtype));
}

static void audit_alignment(const auditor *a, const ij_source *s) {
  const ij_tensor_view *t = s->main;
  if (!ij__dtype_is_float(t->dtype) || (uintptr_t)t->data % (size_t)ij__dtype_block_bytes(t->dtype) == 0) return;
  a->audit->n_unaligned++;
  ij__findings_add(&a->audit->findings,
                   "%s: its %s values do not start at a multiple of %lld bytes in %s; save it again with its header padded to 8", s->name,
                   ij__dtype_name(t->dtype), (long long)ij__dtype_block_bytes(t->dtype), t->file);
}

/* The columns of merged shared experts are cut between experts, which must not cut a block or a group. */
static void audit_merged(const auditor *a, const ij_source *s, const ij_matrix *m) {
  if (s->row->id != IJ_T_SHARED_W2 || !ij__source_merged(s) || a->c->expert_width % ij__matrix_grain(m) == 0) return;
  a->audit->n_shape++;
  ij__findings_add(&a->audit->findings, "%s: merged shared experts of width %d cannot be cut apart in groups of %lld", s->name,
                   a->c->expert_width, (long long)ij__matrix_grain(m));
}

static void audit_matrix(const auditor *a, const ij_source *s) {
  int64_t want[IJ_TENSOR_MAX_SPEC_DIMS];
  ij_dim letters[IJ_TENSOR_MAX_SPEC_DIMS];
  int n = ij__source_shape(want, letters, a->c, s, a->layer);
  const ij_tensor_view *t = s->main;
  bool plain = s->form == IJ_FORM_PLAIN, fits = t->n_dims == n;
  for (int i = 0; fits && i < n - (plain ? 0 : 1); i++) fits = dim_fits(want[i], t->dims[i]);
  if (!fits) report_shape(a, s);
  ij_matrix m;
  char why[400];
  int64_t cols = plain ? (t->n_dims ? t->dims[t->n_dims - 1] : 0) : want[n - 1], units = n == 3 ? t->dims[0] : 1;
  if (cols > 0 && (plain || fits)) {
    if (ij__source_matrix(&m, a->names, s, cols, units, why, sizeof why)) {
      audit_merged(a, s, &m);
    } else {
      a->audit->n_type++;
      ij__findings_add(&a->audit->findings, "%s: %s", s->name, why);
    }
  }
  audit_alignment(a, s);
}

static void report_missing(const auditor *a, const ij_name_row *row) {
  char want_text[256];
  ij_source none = {.row = row};
  ij__name_of(none.name, a->names->layout, row, a->layer, IJ_SIDE_MAIN);
  expected_shape(a, want_text, sizeof want_text, &none);
  static const char lost[] = " (mlx-vlm up to 0.6.8 loses the bias and scale of the router when it converts: convert again with a newer one)";
  bool router = row->id == IJ_T_ROUTER_BIAS || row->id == IJ_T_ROUTER_SCALE;
  a->audit->n_missing++;
  ij__findings_add(&a->audit->findings, "%s is missing, expected %s%s", none.name, want_text,
                   router && a->names->layout == ij__layout(IJ_LAYOUT_MLX_VLM) ? lost : "");
}

static void audit_slot(const auditor *a, ij_tensor_id id) {
  ij_slot slot;
  bool full = ij__slot_find(&slot, a->names, id, a->layer);
  for (int i = 0; i < slot.n; i++) {
    if (ij__tensor_spec(id)->kind == IJ_TENSOR_MATRIX)
      audit_matrix(a, &slot.source[i]);
    else
      audit_small(a, &slot.source[i]);
  }
  if (slot.factor.row) audit_small(a, &slot.factor);
  if (slot.surplus[0]) {
    a->audit->n_unknown++;
    ij__findings_add(&a->audit->findings, "%s and %s fill the same place: only one of them may be there", slot.source[0].name,
                     slot.surplus);
  } else if (!full) {
    report_missing(a, slot.lacking);
  }
}

/* ------------------------------------------------------------------------------------------------------------ names */

/* Leftovers of other tools that lie beside weights and carry nothing the network reads, and multi-token prediction. */
static bool is_left_alone(const char *name) {
  return ij__str_ends_with(name, ".input_amax") || ij__str_ends_with(name, ".original_shape") || strstr(name, "training_args") != NULL ||
         ij__str_starts_with(name, "language_model.mtp.") || ij__str_starts_with(name, "language_model.model.mtp.");
}

static bool is_owned(const ij_layout *l, const char *name) {
  for (int i = 0; i < l->n_own; i++) {
    if (ij__str_starts_with(name, l->own[i])) return true;
  }
  return false;
}

static void audit_name(const auditor *a, const char *name) {
  const ij_layout *layout = a->names->layout;
  int layer = -1;
  ij_side side;
  bool known = false;
  if (!is_owned(layout, name) || is_left_alone(name)) return;
  for (const ij_name_row *row = NULL; (row = ij__name_parse(layout, row, name, &layer, &side)) != NULL;) {
    known = true;
    if (ij__tensor_expected(a->c, row->id, layer)) return;
  }
  if (known && a->c->n_layer == 0) return;
  a->audit->n_unknown++;
  if (!known) {
    ij__findings_add(&a->audit->findings, "%.200s is not a tensor of this network", name);
    return;
  }
  ij__name_parse(layout, NULL, name, &layer, &side);
  if (layer >= a->c->n_layer)
    ij__findings_add(&a->audit->findings, "%s is not expected: %s is %d", name,
                     ij__ckpt_gguf(a->names->ckpt) ? "inkling.block_count" : "num_hidden_layers", a->c->n_layer);
  else if (layer < 0)
    ij__findings_add(&a->audit->findings, "%s is not expected: tie_word_embeddings is true", name);
  else
    ij__findings_add(&a->audit->findings, "%s is not expected: layer %d is %s", name, layer,
                     a->c->dense[layer] ? "dense" : "a mixture of experts");
}

void ij__tensors_audit(ij_audit *audit, const ij_config *config, const ij_names *names) {
  auditor a = {.audit = audit, .c = config, .names = names};
  for (a.layer = -1; a.layer < config->n_layer; a.layer++) {
    for (int id = 0; id < IJ_T_COUNT; id++) {
      if (ij__tensor_expected(config, (ij_tensor_id)id, a.layer)) audit_slot(&a, (ij_tensor_id)id);
    }
  }
  for (int i = 0; i < ij__ckpt_n_tensors(names->ckpt); i++) audit_name(&a, ij__ckpt_tensor(names->ckpt, i)->name);
}
