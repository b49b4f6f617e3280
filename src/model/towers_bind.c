/* towers_bind.c: names -> fields, in the manner of weights.c: every tensor of the towers is looked for under every name it goes by, checked
 * against the plan, and used where it lies; only the norms are widened. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/str.h"
#include "model/sources.h"
#include "model/towers_int.h"

#define FLOATS_PER_LINE (IJ_ALIGNMENT / sizeof(float))

enum { LINEAR, NORM, VISION_NORM, TABLE, AUDIO_NORM, N_KINDS };

/* Names by kind, '#' for the layer. All but those of GGUF may also follow "model.". */
typedef struct spelling {
  const char *name[N_KINDS];
} spelling;

static const spelling spellings[] = {
    {{"visual.layers.linear_#.weight", "visual.layers.norm_#.weight", "visual.final_norm.weight", "audio.encoder.weight",
      "audio.final_norm.weight"}},
    {{"vision_tower.encoder_layers.#.projection.weight", "vision_tower.encoder_layers.#.layer_norm.weight",
      "vision_tower.final_norm.weight", "audio_tower.embed_audio_tokens.weight", "audio_tower.norm.weight"}},
    {{NULL, NULL, NULL, "audio_tower.embed_audio_tokens.embed_audio_tokens.weight", NULL}},
};
static const spelling gguf_names = {{"v.hmlp.#.linear.weight", "v.hmlp.#.norm.weight", "v.hmlp.final_norm.weight",
                                     "a.dmel.embedding.weight", "a.dmel.final_norm.weight"}};
/* What begins so belongs to a tower. */
static const char *const vision_own[] = {"visual.", "vision_tower."}, *const audio_own[] = {"audio.", "audio_tower."};

/* Everything that the towers need, in the order of `slots`. */
enum { N_SLOTS = 2 * IJ_TOWER_LAYERS + 2, FIRST_AUDIO = 2 * IJ_TOWER_LAYERS };

typedef struct tower_slot {
  int kind, layer;
  ij_source source;
  bool found;
  const ij_tensor_view *second; /* the same under another name, which is an error */
} tower_slot;

typedef struct binder {
  ij_towers_weights *w;
  const ij_ckpt *ckpt;
  ij_names names;
  tower_slot slots[N_SLOTS];
  ij_towers_config config;
  ij_config_check check;
  size_t n_floats;
} binder;

static bool is_matrix(int kind) { return kind == LINEAR || kind == TABLE; }

static bool is_audio(int kind) { return kind == TABLE || kind == AUDIO_NORM; }

/* -------------------------------------------------------------------------------------------------------------- names */

static void spell(char buf[IJ_TENSOR_NAME_MAX], const char *prefix, const char *pattern, int layer) {
  const char *mark = strchr(pattern, '#');
  if (mark)
    snprintf(buf, IJ_TENSOR_NAME_MAX, "%s%.*s%d%s", prefix, (int)(mark - pattern), pattern, layer, mark + 1);
  else
    snprintf(buf, IJ_TENSOR_NAME_MAX, "%s%s", prefix, pattern);
}

static void try_name(binder *b, tower_slot *slot, const char *prefix, const char *pattern) {
  char name[IJ_TENSOR_NAME_MAX];
  ij_source s;
  if (!pattern) return;
  spell(name, prefix, pattern, slot->layer);
  if (!ij__source_find(&s, &b->names, name, is_matrix(slot->kind))) return;
  if (slot->found) {
    slot->second = s.main;
    return;
  }
  slot->source = s;
  slot->found = true;
}

static void find_slots(binder *b) {
  static const char *const prefixes[] = {"model.", ""};
  for (int i = 0; i < N_SLOTS; i++) {
    tower_slot *slot = &b->slots[i];
    slot->kind = i >= FIRST_AUDIO ? TABLE + (i - FIRST_AUDIO) : i < IJ_TOWER_LAYERS ? LINEAR : i < FIRST_AUDIO - 1 ? NORM : VISION_NORM;
    slot->layer = i % IJ_TOWER_LAYERS;
    if (ij__ckpt_gguf(b->ckpt)) {
      try_name(b, slot, "", gguf_names.name[slot->kind]);
      continue;
    }
    for (size_t k = 0; k < IJ_COUNT_OF(spellings); k++) {
      for (size_t p = 0; p < IJ_COUNT_OF(prefixes); p++) try_name(b, slot, prefixes[p], spellings[k].name[slot->kind]);
    }
  }
}

static bool begins(const char *name, const char *const *own, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (ij__str_starts_with(name, own[i])) return true;
  }
  return false;
}

/* Whose tensor it is by its name: 0 none, 1 vision, 2 audio. */
static int owner_of(const ij_ckpt *ckpt, const char *name) {
  if (ij__ckpt_gguf(ckpt)) return ij__str_starts_with(name, "v.") ? 1 : ij__str_starts_with(name, "a.") ? 2 : 0;
  if (ij__str_starts_with(name, "model.")) name += strlen("model.");
  return begins(name, vision_own, IJ_COUNT_OF(vision_own)) ? 1 : begins(name, audio_own, IJ_COUNT_OF(audio_own)) ? 2 : 0;
}

bool ij__towers_own(const ij_ckpt *ckpt, const char *name) { return owner_of(ckpt, name) != 0; }

static bool is_used(const binder *b, const ij_tensor_view *t) {
  for (int i = 0; i < N_SLOTS; i++) {
    if (b->slots[i].second == t) return true; /* reported as such */
    for (int k = 0; b->slots[i].found && k < IJ_SIDE_COUNT; k++) {
      if (b->slots[i].source.side[k] == t) return true;
    }
  }
  return false;
}

/* Any tensor that is named like part of a tower makes the tower one that must be whole. */
static void find_towers(binder *b) {
  for (int i = 0; i < ij__ckpt_n_tensors(b->ckpt); i++) {
    int owner = owner_of(b->ckpt, ij__ckpt_tensor(b->ckpt, i)->name);
    b->w->vision = b->w->vision || owner == 1;
    b->w->audio = b->w->audio || owner == 2;
  }
}

static void check_names(binder *b) {
  for (int i = 0; i < ij__ckpt_n_tensors(b->ckpt); i++) {
    const ij_tensor_view *t = ij__ckpt_tensor(b->ckpt, i);
    if (owner_of(b->ckpt, t->name) && !is_used(b, t)) MALFORMED(b, "%.200s is not a tensor of these towers", t->name);
  }
}

/* ------------------------------------------------------------------------------------------------------------- checks */

/* Dimension `dim` of a slot of n dimensions, 0 when it does not tell. */
static int64_t dim_of(const binder *b, int slot, int n, int dim) {
  const ij_source *s = b->slots[slot].found ? &b->slots[slot].source : NULL;
  if (!s || s->main->n_dims != n || (dim > 0 && s->form != IJ_FORM_PLAIN)) return 0;
  return s->main->dims[dim] <= MAX_WIDTH ? s->main->dims[dim] : 0;
}

/* The width of the decoder: what the config says, else what the norms show, or the matrices. Two towers of two widths are no towers of one
 * decoder. */
static int64_t find_hidden(binder *b) {
  const ij_towers_weights *w = b->w;
  int64_t vision = w->vision ? b->config.vision_width : 0, audio = w->audio ? b->config.audio_width : 0;
  if (w->vision && !vision) vision = dim_of(b, FIRST_AUDIO - 1, 1, 0);
  if (w->vision && !vision) vision = dim_of(b, IJ_TOWER_LAYERS - 1, 2, 0);
  if (w->audio && !audio) audio = dim_of(b, N_SLOTS - 1, 1, 0);
  if (w->audio && !audio) audio = dim_of(b, FIRST_AUDIO, 2, 1);
  if (vision && audio && vision != audio)
    MALFORMED(b, "the vision tower is for a decoder of width %lld, the audio tower for one of %lld", (long long)vision, (long long)audio);
  return vision ? vision : audio;
}

/* [rows, cols], or one number for a norm. */
static int slot_shape(const binder *b, const tower_slot *slot, int64_t dims[2]) {
  const ij_towers_weights *w = b->w;
  const ij_tower_layer *l = &w->plan.layer[slot->layer];
  switch (slot->kind) {
    case LINEAR: dims[0] = l->out, dims[1] = l->in; return 2;
    case NORM: dims[0] = l->out; return 1;
    case TABLE: dims[0] = IJ_TOWER_MELS * IJ_TOWER_LEVELS, dims[1] = w->hidden; return 2;
    default: dims[0] = w->hidden; return 1;
  }
}

static void show_dims(char *buf, size_t size, const int64_t *dims, int n) {
  size_t len = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < n && len < size; i++) len += (size_t)snprintf(buf + len, size - len, "%s%lld", i ? ", " : "", (long long)dims[i]);
  if (len < size) snprintf(buf + len, size - len, "]");
}

static void check_matrix(binder *b, const tower_slot *slot, const int64_t want[2]) {
  const ij_source *s = &slot->source;
  ij_matrix m;
  char why[400];
  if (!ij__source_matrix(&m, &b->names, s, want[1], 1, why, sizeof why)) {
    MALFORMED(b, "%s: %s", s->name, why);
  } else if (ij__dtype_is_float(m.dtype) && (uintptr_t)m.data % (size_t)ij__dtype_block_bytes(m.dtype) != 0) {
    REFUSED(b, "%s: its %s values do not start at a multiple of %lld bytes in %s; save it again with its header padded to 8", s->name,
            ij__dtype_name(m.dtype), (long long)ij__dtype_block_bytes(m.dtype), s->main->file);
  }
}

static void check_slot(binder *b, const tower_slot *slot) {
  int64_t want[2] = {0, 0};
  char want_text[64], got_text[192], name[IJ_TENSOR_NAME_MAX];
  int n = slot_shape(b, slot, want);
  const ij_tensor_view *t = slot->source.main;
  show_dims(want_text, sizeof want_text, want, n);
  if (!slot->found) {
    bool gguf = ij__ckpt_gguf(b->ckpt) != NULL;
    spell(name, gguf ? "" : "model.", (gguf ? &gguf_names : &spellings[0])->name[slot->kind], slot->layer);
    MALFORMED(b, "%s is missing, expected %s", name, want_text);
    return;
  }
  if (slot->second) MALFORMED(b, "%s and %s fill the same place: only one of them may be there", slot->source.name, slot->second->name);
  bool plain = slot->source.form == IJ_FORM_PLAIN, fits = t->n_dims == n;
  for (int i = 0; fits && i < n - (plain ? 0 : 1); i++) fits = t->dims[i] == want[i];
  if (!fits) {
    show_dims(got_text, sizeof got_text, t->dims, t->n_dims);
    MALFORMED(b, "%s: expected %s, found %s%s%s", slot->source.name, want_text, got_text, plain ? "" : " packed in ",
              plain ? "" : ij__dtype_name(t->dtype));
  } else if (is_matrix(slot->kind)) {
    check_matrix(b, slot, want);
  } else if (!ij__dtype_is_float(t->dtype)) {
    MALFORMED(b, "%s: expected F32, BF16 or F16, found %s", slot->source.name, ij__dtype_name(t->dtype));
  }
}

static bool slot_wanted(const binder *b, const tower_slot *slot) { return is_audio(slot->kind) ? b->w->audio : b->w->vision; }

static void check_all(binder *b) {
  ij_towers_weights *w = b->w;
  char why[200];
  const struct ij_gguf *g = ij__ckpt_gguf(b->ckpt);
  if (g)
    ij__towers_config_gguf(&b->config, g, w->vision, w->audio, &b->check);
  else
    ij__towers_config_json(&b->config, ij__ckpt_config(b->ckpt), w->vision, w->audio, &b->check);
  w->hidden = (int)find_hidden(b);
  if (w->hidden == 0) {
    MALFORMED(b, "neither the configuration nor a tensor says how wide the decoder is, only a part of a tower is there");
    return;
  }
  if (w->vision && !ij__tower_plan(&w->plan, b->config.patch, w->hidden, why, sizeof why)) {
    REFUSED(b, "%s: %s", b->config.patch_key, why);
    return; /* without a plan there are no shapes to compare with */
  }
  for (int i = 0; i < N_SLOTS; i++) {
    if (slot_wanted(b, &b->slots[i])) check_slot(b, &b->slots[i]);
  }
  check_names(b);
}

/* ------------------------------------------------------------------------------------------------------------ binding */

static void check_finite(binder *b, const ij_tensor_view *t) {
  for (int64_t i = 0; i < t->n_values; i++) {
    float f = ij__tensor_value(t, i);
    if (isfinite(f)) continue;
    MALFORMED(b, "%s[%lld] is %s", t->name, (long long)i, isnan(f) ? "not a number" : "infinite");
    return;
  }
}

static void count_bytes(ij_towers_weights *w, const tower_slot *slot) {
  for (int k = 0; k < IJ_SIDE_COUNT; k++) {
    if (slot->source.side[k] && !ij__side_is_informative((ij_side)k)) w->weight_bytes += slot->source.side[k]->n_bytes;
  }
}

static ij_weight bind_matrix(binder *b, const tower_slot *slot) {
  int64_t want[2] = {0, 0};
  ij_matrix m;
  char why[8];
  slot_shape(b, slot, want);
  ij__source_matrix(&m, &b->names, &slot->source, want[1], 1, why, sizeof why); /* check_matrix has found it good */
  ij_weight out = ij__matrix_view(&m, 0, 1, want[0], 0, want[1]);
  b->w->n_params += want[0] * want[1];
  if (!m.factor) return out;
  check_finite(b, m.factor);
  float f = ij__tensor_value(m.factor, 0);
  if (m.divides && f == 0) MALFORMED(b, "%s is 0, and divides", m.factor->name);
  out.has_factor = true;
  out.factor = m.divides ? 1.0f / f : f;
  return out;
}

static const float *bind_norm(binder *b, const tower_slot *slot) {
  const ij_tensor_view *t = slot->source.main;
  float *out = b->w->floats + b->n_floats;
  check_finite(b, t);
  for (int64_t i = 0; i < t->n_values; i++) out[i] = ij__tensor_value(t, i);
  b->n_floats += ij__align_up((size_t)t->n_values, FLOATS_PER_LINE);
  b->w->n_params += t->n_values;
  return out;
}

static void bind_slot(binder *b, const tower_slot *slot) {
  ij_towers_weights *w = b->w;
  count_bytes(w, slot);
  switch (slot->kind) {
    case LINEAR: w->linear[slot->layer] = bind_matrix(b, slot); break;
    case TABLE: w->table = bind_matrix(b, slot); break;
    case NORM: w->norm[slot->layer] = bind_norm(b, slot); break;
    case VISION_NORM: w->vision_norm = bind_norm(b, slot); break;
    default: w->audio_norm = bind_norm(b, slot); break;
  }
}

static ij_status bind_all(binder *b, ij_err *err) {
  size_t n = 0;
  for (int i = 0; i < N_SLOTS; i++) {
    const tower_slot *slot = &b->slots[i];
    if (slot_wanted(b, slot) && !is_matrix(slot->kind)) n += ij__align_up((size_t)slot->source.main->n_values, FLOATS_PER_LINE);
  }
  b->w->floats = ij__alloc_zero(n, sizeof(float));
  if (!b->w->floats) return ij__fail_nomem(err, "the norms of the towers", n * sizeof(float));
  for (int i = 0; i < N_SLOTS; i++) {
    if (slot_wanted(b, &b->slots[i])) bind_slot(b, &b->slots[i]);
  }
  return ij__towers_report(&b->check, ij__ckpt_folder(b->ckpt), err);
}

static ij_status bind_towers(binder *b, ij_err *err) {
  ij_status s = ij__names_open(&b->names, b->ckpt, err);
  if (s != IJ_OK) return s;
  find_towers(b);
  if (!b->w->vision && !b->w->audio) return IJ_OK;
  find_slots(b);
  check_all(b);
  s = ij__towers_report(&b->check, ij__ckpt_folder(b->ckpt), err);
  if (s == IJ_OK) s = bind_all(b, err);
  return s == IJ_OK ? ij__towers_read_processor(b->w, ij__ckpt_folder(b->ckpt), err) : s;
}

ij_status ij__towers_bind(ij_towers_weights *out, const ij_ckpt *ckpt, ij_err *err) {
  *out = (ij_towers_weights){0};
  binder b = {.w = out, .ckpt = ckpt};
  ij_status s = bind_towers(&b, err);
  if (s != IJ_OK) ij__towers_free(out);
  return s;
}

void ij__towers_free(ij_towers_weights *w) {
  ij__free(w->floats);
  *w = (ij_towers_weights){0};
}
