/* config.c: config.json -> ij_config. Which spelling wins, what a missing key means and what is refused is decided here only.
 *
 * The file is untrusted: a number is bounded where it is read, nothing is allocated, and a value that is missing or bad is left 0,
 * which every later check takes as "not known", so that one pass can list all that is wrong. Divisions: values, top level, head
 * shapes, layer kinds, network, finish. The rules in prose are in docs/formats/config.md. */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/config_int.h"

typedef struct reader {
  ij_config *c;
  const ij_ckpt *ckpt;
  ij_names names;
  const ij_json_value *root, *text; /* the same object in flat files */
  const char *prefix;               /* "text_config." or "" */
  ij_config_check check;
} reader;

typedef enum got { ABSENT, GOOD, BAD } got;

/* ----------------------------------------------------------------------------------------------------------- values */

/* What was found, for messages: 12, 0.5, "text" (short and printable), or the kind of thing. */
static const char *describe(const ij_json_value *v, char *buf, size_t size) {
  int64_t i;
  double d;
  bool b;
  const char *s;
  size_t n;
  if (ij__json_get_int(v, &i)) {
    snprintf(buf, size, "%lld", (long long)i);
  } else if (ij__json_get_double(v, &d)) {
    snprintf(buf, size, "%.17g", d);
  } else if (ij__json_get_bool(v, &b)) {
    snprintf(buf, size, "%s", b ? "true" : "false");
  } else if (ij__json_get_string(v, &s, &n)) {
    snprintf(buf, size, "\"%.40s\"", s);
    for (char *p = buf; *p; p++) {
      if ((unsigned char)*p < 32) *p = '?';
    }
  } else {
    snprintf(buf, size, "%s", ij__json_type_name(ij__json_type_of(v)));
  }
  return buf;
}

static got int_at(reader *r, const ij_json_value *object, const char *prefix, const char *key, int64_t lo, int64_t hi, int64_t *out) {
  const ij_json_value *v = ij__config_member(object, key);
  char text[64];
  if (!v) return ABSENT;
  if (ij__json_get_int(v, out) && *out >= lo && *out <= hi) return GOOD;
  MALFORMED(r, "%s%s: expected an integer from %lld to %lld, found %s", prefix, key, (long long)lo, (long long)hi,
            describe(v, text, sizeof text));
  return BAD;
}

static got number_at(reader *r, const char *key, double lo, double hi, double *out) {
  const ij_json_value *v = ij__config_member(r->text, key);
  char text[64];
  if (!v) return ABSENT;
  if (ij__json_get_double(v, out) && *out >= lo && *out <= hi) return GOOD;
  MALFORMED(r, "%s%s: expected a number from %g to %g, found %s", r->prefix, key, lo, hi, describe(v, text, sizeof text));
  return BAD;
}

/* A key of the text config, or its alias; when both are there they must agree. */
static got text_int(reader *r, const char *key, const char *alias, int64_t lo, int64_t hi, int64_t *out) {
  int64_t a = 0, b = 0;
  got ga = int_at(r, r->text, r->prefix, key, lo, hi, &a);
  got gb = alias ? int_at(r, r->text, r->prefix, alias, lo, hi, &b) : ABSENT;
  if (ga == BAD || gb == BAD) return BAD;
  if (ga == GOOD && gb == GOOD && a != b) {
    MALFORMED(r, "%s%s is %lld, but its other spelling %s is %lld", r->prefix, key, (long long)a, alias, (long long)b);
    return BAD;
  }
  if (ga == GOOD || gb == GOOD) *out = ga == GOOD ? a : b;
  return ga == GOOD ? ga : gb;
}

/* 0 when missing or bad, which is then already reported. lo >= 1. */
static int required_int(reader *r, const char *key, const char *alias, int64_t lo, int64_t hi) {
  int64_t v = 0;
  got g = text_int(r, key, alias, lo, hi, &v);
  if (g == ABSENT) MALFORMED(r, "%s%s is missing", r->prefix, key);
  return g == GOOD ? (int)v : 0;
}

/* 0 when absent or bad. lo >= 1. */
static int optional_int(reader *r, const char *key, const char *alias, int64_t lo, int64_t hi, bool *bad) {
  int64_t v = 0;
  got g = text_int(r, key, alias, lo, hi, &v);
  if (bad) *bad = g == BAD;
  return g == GOOD ? (int)v : 0;
}

static double number_or(reader *r, const char *key, double lo, double hi, double fallback) {
  double v = fallback;
  return number_at(r, key, lo, hi, &v) == GOOD ? v : fallback;
}

static double required_number(reader *r, const char *key, double lo, double hi) {
  double v = 0;
  got g = number_at(r, key, lo, hi, &v);
  if (g == ABSENT) MALFORMED(r, "%s%s is missing", r->prefix, key);
  return g == GOOD ? v : 0;
}

/* Dimension `dim` of a tensor, when it is there, has that many dimensions, and the number is sane; otherwise 0. */
static int tensor_dim(const reader *r, ij_tensor_id id, int layer, int n_dims, int dim) {
  const ij_tensor_view *t = ij__slot_tensor(&r->names, id, layer);
  return t && t->n_dims == n_dims && t->dims[dim] <= MAX_WIDTH ? (int)t->dims[dim] : 0;
}

/* A value that the config leaves to the tensors. */
static int from_tensor(reader *r, const char *key, int value, int hi, const char *tensor) {
  if (value >= 1 && value <= hi) return value;
  MALFORMED(r, "%s%s is missing, and %s of the checkpoint does not tell it", r->prefix, key, tensor);
  return 0;
}

/* -------------------------------------------------------------------------------------------------------- top level */

static void one_of(reader *r, const ij_json_value *v, const char *key, const char *const *accepted, size_t n, const char *list) {
  char text[64];
  for (size_t i = 0; i < n; i++) {
    if (ij__json_is(v, accepted[i])) return;
  }
  REFUSED(r, "%s: expected %s, found %s", key, list, describe(v, text, sizeof text));
}

static void read_identity(reader *r) {
  static const char *const types[] = {"inkling_mm_model", "inkling", "inkling_text", "inkling_model"};
  static const char *const classes[] = {"InklingForConditionalGeneration", "InklingForCausalLM"};
  const ij_json_value *type = ij__config_member(r->root, "model_type"), *arch = ij__config_member(r->root, "architectures"), *v;
  char text[64];
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  if (type) one_of(r, type, "model_type", types, IJ_COUNT_OF(types), "inkling_mm_model or inkling");
  if (arch && ij__json_type_of(arch) != IJ_JSON_ARRAY)
    MALFORMED(r, "architectures: expected a list, found %s", describe(arch, text, sizeof text));
  while (ij__json_type_of(arch) == IJ_JSON_ARRAY && ij__json_next(arch, &it, &key, &n, &v))
    one_of(r, v, "architectures", classes, IJ_COUNT_OF(classes), "InklingForConditionalGeneration or InklingForCausalLM");
  if (!type && ij__json_size(arch) == 0)
    REFUSED(r, "neither model_type nor architectures says what this is, expected model_type inkling_mm_model");
}

/* eos_token_id: of the top level unless that is absent or null, then of the text config. An integer or a list of them. */
static void read_eos(reader *r) {
  ij_config *c = r->c;
  const ij_json_value *v = ij__config_member(r->root, "eos_token_id"), *element;
  if (!v) v = ij__config_member(r->text, "eos_token_id");
  if (!v) return;
  bool list = ij__json_type_of(v) == IJ_JSON_ARRAY;
  int64_t last = c->vocab ? c->vocab - 1 : INT32_MAX;
  ij_json_iter it = {0};
  const char *key;
  size_t n;
  char text[64];
  for (element = v; !list || ij__json_next(v, &it, &key, &n, &element);) {
    int64_t id = -1;
    if (!ij__json_get_int(element, &id) || id < 0 || id > last) {
      MALFORMED(r, "eos_token_id: expected token ids from 0 to %lld, found %s", (long long)last, describe(element, text, sizeof text));
      return;
    }
    bool known = false;
    for (int i = 0; i < c->n_eos; i++) known = known || c->eos[i] == id;
    if (!known && c->n_eos == IJ_MAX_EOS) {
      MALFORMED(r, "eos_token_id: expected at most %d ids, found %zu", IJ_MAX_EOS, ij__json_size(v));
      return;
    }
    if (!known) c->eos[c->n_eos++] = (int32_t)id;
    if (!list) return;
  }
}

static int32_t placeholder(reader *r, const char *key, int32_t fallback) {
  int64_t id = fallback, last = r->c->vocab ? r->c->vocab - 1 : INT32_MAX;
  if (int_at(r, r->root, "", key, 0, last, &id) == ABSENT && r->text != r->root) int_at(r, r->text, r->prefix, key, 0, last, &id);
  return (int32_t)id;
}

/* Settings of the towers that change what a media row means. Their shapes are not looked at: text needs no tower. */
static void read_towers(reader *r) {
  static const struct {
    const char *object, *key, *value;
  } rules[] = {{"vision_config", "vision_encoder_type", "hmlp"}, {"audio_config", "audio_mode", "dmel"}};
  for (size_t i = 0; i < IJ_COUNT_OF(rules); i++) {
    const ij_json_value *object = ij__config_member(r->root, rules[i].object), *v = ij__config_member(object, rules[i].key);
    char text[64];
    if (object && ij__json_type_of(object) != IJ_JSON_OBJECT)
      MALFORMED(r, "%s: expected an object, found %s", rules[i].object, describe(object, text, sizeof text));
    else if (v && !ij__json_is(v, rules[i].value))
      REFUSED(r, "%s.%s: expected \"%s\", found %s", rules[i].object, rules[i].key, rules[i].value, describe(v, text, sizeof text));
  }
}

static void read_mtp(reader *r) {
  const ij_json_value *mtp = ij__config_member(r->root, "mtp_config");
  int64_t own = 0, mirrored = 0;
  char text[64];
  if (mtp && ij__json_type_of(mtp) != IJ_JSON_OBJECT) {
    MALFORMED(r, "mtp_config: expected an object, found %s", describe(mtp, text, sizeof text));
    return;
  }
  got a = int_at(r, mtp, "mtp_config.", "num_nextn_predict_layers", 0, 64, &own);
  got b = text_int(r, "num_mtp_layers", "num_nextn_predict_layers", 0, 64, &mirrored);
  if (a == GOOD && b == GOOD && own != mirrored)
    MALFORMED(r, "mtp_config.num_nextn_predict_layers is %lld, but the text config says %lld", (long long)own, (long long)mirrored);
  r->c->n_mtp = (int)(a == GOOD ? own : b == GOOD ? mirrored : 0);
}

/* ------------------------------------------------------------------------------------------------------ head shapes */

/* The keys of both kinds of attention layer as written; 0 where the file is silent. */
typedef struct head_keys {
  int n_head, n_kv_head, head_dim, extent;
  int swa_n_head, swa_n_kv_head, swa_head_dim, window;
  bool bad; /* one of them was malformed: what derives from it would only confuse */
} head_keys;

static head_keys read_heads(reader *r) {
  head_keys k = {0};
  bool bad[5];
  k.n_head = required_int(r, "num_attention_heads", NULL, 1, 4096);
  k.n_kv_head = required_int(r, "num_key_value_heads", NULL, 1, 4096);
  k.head_dim = optional_int(r, "head_dim", NULL, 1, 4096, &bad[0]);
  k.swa_n_head = optional_int(r, "swa_num_attention_heads", NULL, 1, 4096, &bad[1]);
  k.swa_n_kv_head = optional_int(r, "swa_num_key_value_heads", NULL, 1, 4096, &bad[2]);
  k.swa_head_dim = optional_int(r, "swa_head_dim", NULL, 1, 4096, &bad[3]);
  k.extent = optional_int(r, "rel_extent", NULL, 1, 1 << 20, &bad[4]);
  bool window_bad;
  k.window = optional_int(r, "sliding_window_size", "sliding_window", 1, 1 << 20, &window_bad);
  k.bad = !k.n_head || !k.n_kv_head || bad[0] || bad[1] || bad[2] || bad[3] || bad[4] || window_bad;
  return k;
}

static int first_layer(const reader *r, const bool *sliding, bool kind) {
  for (int i = 0; i < r->c->n_layer; i++) {
    if (sliding[i] == kind) return i;
  }
  return -1;
}

/* The shapes of both kinds if the layers were of these kinds: keys first, tensors where the keys are silent. */
static void derive_heads(const reader *r, const head_keys *k, const bool *sliding, ij_attn_dims out[2]) {
  int global = first_layer(r, sliding, false), local = first_layer(r, sliding, true);
  ij_attn_dims *g = &out[0], *s = &out[1];
  *g = (ij_attn_dims){.n_head = k->n_head, .n_kv_head = k->n_kv_head, .head_dim = k->head_dim, .rel_extent = k->extent};
  if (!g->head_dim) g->head_dim = tensor_dim(r, IJ_T_Q_NORM, global >= 0 ? global : local, 1, 0);
  if (!g->rel_extent && global >= 0) g->rel_extent = tensor_dim(r, IJ_T_REL, global, 2, 1);
  *s = (ij_attn_dims){.n_head = k->swa_n_head ? k->swa_n_head : k->n_head, .n_kv_head = k->swa_n_kv_head, .rel_extent = k->window};
  s->head_dim = k->swa_head_dim ? k->swa_head_dim : g->head_dim;
  if (!s->n_kv_head && local >= 0 && s->head_dim) {
    int rows = tensor_dim(r, IJ_T_WK, local, 2, 0);
    s->n_kv_head = rows % s->head_dim == 0 ? rows / s->head_dim : 0;
  }
  if (!s->n_kv_head && local < 0) s->n_kv_head = g->n_kv_head;
}

static bool dim_agrees(const reader *r, ij_tensor_id id, int layer, int dim, int64_t want) {
  const ij_tensor_view *t = ij__slot_tensor(&r->names, id, layer);
  return !t || want == 0 || t->n_dims != 2 || t->dims[dim] == want;
}

/* Whether every attention tensor that is there has the shape which these kinds ask for. */
static bool kinds_fit(const reader *r, const head_keys *k, const bool *sliding) {
  ij_attn_dims dims[2];
  derive_heads(r, k, sliding, dims);
  for (int i = 0; i < r->c->n_layer; i++) {
    const ij_attn_dims *a = &dims[sliding[i]];
    if (!dim_agrees(r, IJ_T_REL, i, 1, a->rel_extent)) return false;
    if (!dim_agrees(r, IJ_T_WQ, i, 0, (int64_t)a->n_head * a->head_dim)) return false;
    if (!dim_agrees(r, IJ_T_WK, i, 0, (int64_t)a->n_kv_head * a->head_dim)) return false;
    if (!dim_agrees(r, IJ_T_WV, i, 0, (int64_t)a->n_kv_head * a->head_dim)) return false;
  }
  return true;
}

static void finish_heads(reader *r, const head_keys *k) {
  ij_config *c = r->c;
  int global = first_layer(r, c->sliding, false), local = first_layer(r, c->sliding, true);
  derive_heads(r, k, c->sliding, c->attn);
  c->window = local >= 0 ? k->window : 0;
  if (local < 0) c->attn[1].rel_extent = 0;
  if (k->bad) return;
  c->attn[0].head_dim = from_tensor(r, "head_dim", c->attn[0].head_dim, 4096, "q_norm");
  if (!c->attn[1].head_dim) c->attn[1].head_dim = c->attn[0].head_dim;
  if (global >= 0)
    c->attn[0].rel_extent = from_tensor(r, "rel_extent", c->attn[0].rel_extent, 1 << 20, "rel_logits_proj of a global layer");
  if (local >= 0) {
    c->attn[1].n_kv_head = from_tensor(r, "swa_num_key_value_heads", c->attn[1].n_kv_head, 4096, "wk_dv of a sliding layer");
    if (!k->window) MALFORMED(r, "%ssliding_window_size is missing, but layer %d slides", r->prefix, local);
  }
  for (int kind = 0; kind < 2; kind++) {
    const ij_attn_dims *a = &c->attn[kind];
    const char *swa = kind ? "swa_" : "";
    if (a->n_kv_head && a->n_head % a->n_kv_head != 0)
      MALFORMED(r, "%s%snum_attention_heads is %d, which %snum_key_value_heads = %d does not divide", r->prefix, swa, a->n_head, swa,
                a->n_kv_head);
  }
}

/* ------------------------------------------------------------------------------------------------------ layer kinds */

typedef struct kind_list {
  size_t n;                  /* entries read, at most n_layer */
  bool present, bad;
  bool flag[IJ_MAX_LAYERS];
} kind_list;

/* A list of two words, one per layer. Entries beyond the last layer mean nothing. */
static void read_words(reader *r, const char *key, const char *yes, const char *no, kind_list *out) {
  const ij_json_value *list = ij__config_member(r->text, key), *v;
  ij_json_iter it = {0};
  const char *unused;
  size_t unused_len;
  char text[64];
  memset(out, 0, sizeof *out);
  if (!list) return;
  if (ij__json_type_of(list) != IJ_JSON_ARRAY) {
    MALFORMED(r, "%s%s: expected a list, found %s", r->prefix, key, describe(list, text, sizeof text));
    out->bad = true;
    return;
  }
  out->present = true;
  while (out->n < (size_t)r->c->n_layer && ij__json_next(list, &it, &unused, &unused_len, &v)) {
    bool is_yes = ij__json_is(v, yes);
    if (!is_yes && !ij__json_is(v, no)) {
      MALFORMED(r, "%s%s[%zu]: expected \"%s\" or \"%s\", found %s", r->prefix, key, out->n, yes, no, describe(v, text, sizeof text));
      out->bad = true;
      return;
    }
    out->flag[out->n++] = is_yes;
  }
}

/* local_layer_ids; without it every sixth layer is global. */
static void read_local_ids(reader *r, kind_list *out) {
  int n_layer = r->c->n_layer;
  const ij_json_value *list = ij__config_member(r->text, "local_layer_ids"), *v;
  ij_json_iter it = {0};
  const char *unused;
  size_t unused_len;
  char text[64];
  memset(out, 0, sizeof *out);
  out->n = (size_t)n_layer;
  out->present = list != NULL;
  if (!list) {
    for (int i = 0; i < n_layer; i++) out->flag[i] = (i + 1) % 6 != 0;
  } else if (ij__json_type_of(list) != IJ_JSON_ARRAY) {
    MALFORMED(r, "%slocal_layer_ids: expected a list, found %s", r->prefix, describe(list, text, sizeof text));
    out->bad = true;
  }
  while (list && !out->bad && ij__json_next(list, &it, &unused, &unused_len, &v)) {
    int64_t id = -1;
    if (ij__json_get_int(v, &id) && id >= 0 && id < n_layer) {
      out->flag[id] = true;
    } else {
      MALFORMED(r, "%slocal_layer_ids: expected layers from 0 to %d, found %s", r->prefix, n_layer - 1, describe(v, text, sizeof text));
      out->bad = true;
    }
  }
}

static int first_difference(const kind_list *a, const kind_list *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (a->flag[i] != b->flag[i]) return (int)i;
  }
  return -1;
}

/* layer_types, else local_layer_ids, else the default. Two lists that contradict each other are judged by the tensor shapes. */
static void read_sliding(reader *r, const head_keys *k) {
  kind_list words, ids;
  read_words(r, "layer_types", "hybrid_sliding", "hybrid", &words);
  read_local_ids(r, &ids);
  size_t n_layer = (size_t)r->c->n_layer;
  const kind_list *chosen = words.present && !words.bad && words.n == n_layer ? &words : &ids;
  if (words.present && !words.bad && !ids.bad) {
    int at = first_difference(&words, &ids, words.n);
    if (words.n < n_layer && at >= 0) {
      MALFORMED(r, "%slayer_types has %zu entries for %zu layers, and entry %d contradicts %s", r->prefix, words.n, n_layer, at,
                ids.present ? "local_layer_ids" : "the default (every sixth layer is global)");
    } else if (ids.present && at >= 0) {
      bool words_fit = kinds_fit(r, k, words.flag), ids_fit = kinds_fit(r, k, ids.flag);
      if (words_fit == ids_fit && !k->bad)
        MALFORMED(r, "%slayer_types and local_layer_ids contradict each other at layer %d, and the tensor shapes fit %s", r->prefix, at,
                  words_fit ? "both" : "neither");
      chosen = words_fit ? &words : &ids;
    }
  }
  memcpy(r->c->sliding, chosen->flag, sizeof r->c->sliding);
}

/* mlp_layer_types, else dense_mlp_idx, else what the checkpoint holds; the first two must agree with what it holds. */
static void read_dense(reader *r) {
  kind_list words;
  read_words(r, "mlp_layer_types", "dense", "sparse", &words);
  int64_t n_dense = 0;
  got g = text_int(r, "dense_mlp_idx", NULL, 0, IJ_MAX_LAYERS, &n_dense);
  for (int i = 0; i < r->c->n_layer; i++) {
    ij_slot slots[2];
    ij__slot_find(&slots[0], &r->names, IJ_T_EXPERT_W13, i);
    ij__slot_find(&slots[1], &r->names, IJ_T_DENSE_W13, i);
    bool has_dense = slots[1].n > 0, has_moe = slots[0].n > 0;
    bool by_word = (size_t)i < words.n;
    bool dense = by_word ? words.flag[i] : g == GOOD ? i < n_dense : has_dense;
    if (has_dense != has_moe && dense != has_dense) {
      MALFORMED(r, "%s%s makes layer %d %s, but the checkpoint holds %s", r->prefix, by_word ? "mlp_layer_types" : "dense_mlp_idx", i,
                dense ? "dense" : "sparse", slots[has_dense].source[0].name);
      dense = has_dense;
    }
    r->c->dense[i] = dense;
  }
}

/* ---------------------------------------------------------------------------------------------------------- network */

/* Settings that every known model shares. A file that differs would run and give wrong text, so it is refused. They are looked up
 * in the text config and at the top level. */
static void read_fixed(reader *r) {
  static const struct {
    const char *key;
    bool value;
  } flags[] = {
      {"norm_after_topk", true}, {"shared_expert_sink", true}, {"use_gate_bias", true}, {"use_global_scale", true},
      {"use_sconv", true},       {"use_embed_norm", true},     {"q_bias", false},       {"o_bias", false},
  };
  static const struct {
    const char *key, *value;
  } words[] = {{"gate_activation", "sigmoid"}, {"hidden_act", "silu"}};
  char text[64];
  for (int level = 0; level < (r->text == r->root ? 1 : 2); level++) {
    const ij_json_value *object = level ? r->root : r->text, *v;
    const char *prefix = level ? "" : r->prefix;
    for (size_t i = 0; i < IJ_COUNT_OF(flags); i++) {
      bool b;
      if (!(v = ij__config_member(object, flags[i].key))) continue;
      if (!ij__json_get_bool(v, &b))
        MALFORMED(r, "%s%s: expected true or false, found %s", prefix, flags[i].key, describe(v, text, sizeof text));
      else if (b != flags[i].value)
        REFUSED(r, "%s%s: only %s is supported, found %s", prefix, flags[i].key, flags[i].value ? "true" : "false", b ? "true" : "false");
    }
    for (size_t i = 0; i < IJ_COUNT_OF(words); i++) {
      if ((v = ij__config_member(object, words[i].key)) && !ij__json_is(v, words[i].value))
        REFUSED(r, "%s%s: only \"%s\" is supported, found %s", prefix, words[i].key, words[i].value, describe(v, text, sizeof text));
    }
    double cap;
    v = ij__config_member(object, "final_logit_softcapping");
    if (v && !ij__json_get_double(v, &cap))
      MALFORMED(r, "%sfinal_logit_softcapping: expected null or 0, found %s", prefix, describe(v, text, sizeof text));
    else if (v && cap != 0)
      REFUSED(r, "%sfinal_logit_softcapping: only null or 0 is supported, found %s", prefix, describe(v, text, sizeof text));
  }
}

/* tie_word_embeddings, which writers put at either level: true only makes sense in a file that really lacks the second matrix. */
static void read_tied(reader *r) {
  const ij_json_value *levels[2] = {ij__config_member(r->text, "tie_word_embeddings"), ij__config_member(r->root, "tie_word_embeddings")};
  if (r->text == r->root) levels[1] = NULL;
  bool tied[2] = {false, false}, good[2];
  char text[64];
  ij_slot unembed;
  for (int i = 0; i < 2; i++) {
    good[i] = ij__json_get_bool(levels[i], &tied[i]);
    if (levels[i] && !good[i])
      MALFORMED(r, "%stie_word_embeddings: expected true or false, found %s", i ? "" : r->prefix, describe(levels[i], text, sizeof text));
  }
  if (good[0] && good[1] && tied[0] != tied[1])
    MALFORMED(r, "tie_word_embeddings is %s, but text_config.tie_word_embeddings is %s", tied[1] ? "true" : "false",
              tied[0] ? "true" : "false");
  else if ((tied[0] || tied[1]) && ij__slot_find(&unembed, &r->names, IJ_T_UNEMBED, -1))
    REFUSED(r, "tie_word_embeddings is true, but the checkpoint holds %s: only false is supported then", unembed.source[0].name);
  else
    r->c->tied = tied[0] || tied[1];
}

/* Two spellings of two widths: with moe_intermediate_size, intermediate_size is the dense width; without, the expert width. */
static void read_widths(reader *r, bool any_dense, bool any_moe) {
  ij_config *c = r->c;
  bool bad_moe, bad_dense, bad_plain;
  int moe = optional_int(r, "moe_intermediate_size", NULL, 1, MAX_WIDTH, &bad_moe);
  int dense = optional_int(r, "dense_intermediate_size", NULL, 1, MAX_WIDTH, &bad_dense);
  int plain = optional_int(r, "intermediate_size", NULL, 1, MAX_WIDTH, &bad_plain);
  if (bad_moe || bad_dense || bad_plain) return;
  c->expert_width = moe ? moe : plain;
  c->dense_width = dense ? dense : moe ? plain : 0;
  if (!moe && !dense) {
    MALFORMED(r, "%sdense_intermediate_size is missing (it may only be left out beside moe_intermediate_size)", r->prefix);
    c->expert_width = 0;
  } else if (any_dense && !c->dense_width) {
    MALFORMED(r, "%sintermediate_size is missing", r->prefix);
  } else if (any_moe && !c->expert_width) {
    MALFORMED(r, "%sintermediate_size is missing", r->prefix);
  }
}

static void read_experts(reader *r, int moe_layer) {
  ij_config *c = r->c;
  int biased = tensor_dim(r, IJ_T_ROUTER_BIAS, moe_layer, 1, 0), routed = tensor_dim(r, IJ_T_ROUTER, moe_layer, 2, 0);
  int64_t n = 0;
  got g = text_int(r, "n_routed_experts", "num_local_experts", 1, 65536, &n);
  c->n_expert = g == GOOD ? (int)n : g == BAD ? 0 : from_tensor(r, "n_routed_experts", biased, 65536, "mlp.gate.bias");
  g = text_int(r, "n_shared_experts", NULL, 0, 256, &n);
  if (g == GOOD && n == 0)
    REFUSED(r, "%sn_shared_experts: at least 1 is required, found 0", r->prefix);
  else
    c->n_shared = g == GOOD ? (int)n : g == BAD ? 0 : from_tensor(r, "n_shared_experts", biased ? routed - biased : 0, 256, "mlp.gate");
  c->n_expert_used = required_int(r, "num_experts_per_tok", NULL, 1, 65536);
  if (c->n_expert && c->n_expert_used > c->n_expert)
    MALFORMED(r, "%snum_experts_per_tok is %d, but n_routed_experts is %d", r->prefix, c->n_expert_used, c->n_expert);
  c->route_scale = (float)required_number(r, "route_scale", 1e-6, 1e6);
}

static int conv_taps(const reader *r) {
  const ij_tensor_view *t = ij__slot_tensor(&r->names, IJ_T_ATTN_CONV, 0);
  if (!t || t->n_dims < 2 || t->dims[0] <= 0) return 0;
  int64_t n = t->n_values / t->dims[0];
  return n <= IJ_MAX_CONV_KERNEL ? (int)n : 0;
}

static void read_sizes(reader *r) {
  ij_config *c = r->c;
  int64_t n = 0;
  bool bad;
  c->hidden = required_int(r, "hidden_size", NULL, 1, MAX_WIDTH);
  c->vocab = required_int(r, "vocab_size", NULL, 1, MAX_WIDTH);
  if (r->text != r->root && int_at(r, r->root, "", "vocab_size", 1, MAX_WIDTH, &n) == GOOD && c->vocab && n != c->vocab)
    MALFORMED(r, "vocab_size is %lld, but text_config.vocab_size is %d", (long long)n, c->vocab);
  c->unpadded_vocab = optional_int(r, "unpadded_vocab_size", NULL, 1, MAX_WIDTH, &bad);
  if (!c->unpadded_vocab && !bad) c->unpadded_vocab = c->vocab;
  if (c->vocab && c->unpadded_vocab > c->vocab)
    MALFORMED(r, "%sunpadded_vocab_size is %d, more than vocab_size = %d", r->prefix, c->unpadded_vocab, c->vocab);
  c->max_context = 1048576;
  text_int(r, "model_max_length", "max_position_embeddings", 1, INT64_C(1) << 40, &c->max_context);
  c->d_rel = optional_int(r, "d_rel", NULL, 1, 256, &bad);
  if (!c->d_rel && !bad) c->d_rel = from_tensor(r, "d_rel", tensor_dim(r, IJ_T_REL, 0, 2, 0), 256, "rel_logits_proj");
  c->conv_kernel = optional_int(r, "sconv_kernel_size", "conv_kernel_size", 1, IJ_MAX_CONV_KERNEL, &bad);
  if (!c->conv_kernel && !bad) c->conv_kernel = from_tensor(r, "sconv_kernel_size", conv_taps(r), IJ_MAX_CONV_KERNEL, "attn_sconv");
  c->eps = (float)number_or(r, "rms_norm_eps", 1e-30, 1, 1e-6);
  c->n_floor = number_or(r, "log_scaling_n_floor", 0, 1e15, 0);
  c->log_alpha = number_or(r, "log_scaling_alpha", 0, 1e6, 0.1);
  c->logit_divisor = (float)required_number(r, "logits_mup_width_multiplier", 1e-6, 1e6);
  c->embed_norm = true;
}

/* ----------------------------------------------------------------------------------------------------------- finish */

static void read_text(reader *r) {
  ij_config *c = r->c;
  c->n_layer = required_int(r, "num_hidden_layers", NULL, 1, IJ_MAX_LAYERS);
  read_sizes(r);
  head_keys heads = read_heads(r);
  read_sliding(r, &heads);
  finish_heads(r, &heads);
  read_dense(r);
  int n_dense = 0, moe_layer = -1;
  for (int i = c->n_layer - 1; i >= 0; i--) {
    n_dense += c->dense[i];
    if (!c->dense[i]) moe_layer = i;
  }
  read_widths(r, n_dense > 0, moe_layer >= 0);
  if (moe_layer >= 0) read_experts(r, moe_layer);
}

ij_status ij__config_read(ij_config *out, const ij_ckpt *ckpt, ij_err *err) {
  memset(out, 0, sizeof *out);
  if (ij__ckpt_gguf(ckpt)) return ij__config_read_gguf(out, ckpt, err);
  reader r = {.c = out, .ckpt = ckpt, .root = ij__ckpt_config(ckpt)};
  if (!r.root) return ij__fail(err, IJ_E_FORMAT, ij__ckpt_folder(ckpt), "there is no config.json beside the tensors");
  if (ij__json_type_of(r.root) != IJ_JSON_OBJECT)
    return ij__fail(err, IJ_E_FORMAT, ij__ckpt_config_path(ckpt), "expected an object, found %s",
                    ij__json_type_name(ij__json_type_of(r.root)));
  const ij_json_value *text = ij__config_member(r.root, "text_config");
  if (text && ij__json_type_of(text) != IJ_JSON_OBJECT)
    return ij__fail(err, IJ_E_FORMAT, ij__ckpt_config_path(ckpt), "text_config: expected an object, found %s",
                    ij__json_type_name(ij__json_type_of(text)));
  r.text = text ? text : r.root;
  r.prefix = text ? "text_config." : "";
  ij_status s = ij__names_open(&r.names, ckpt, err);
  if (s == IJ_OK) s = ij__quant_config_check(ckpt, err);
  if (s != IJ_OK) return s;
  const char *where = ij__ckpt_config_path(ckpt);
  read_identity(&r);
  if (r.check.n_refused) return ij__config_report(&r.check, where, err); /* another architecture: its keys mean other things */
  read_text(&r);
  read_fixed(&r);
  read_tied(&r);
  read_eos(&r);
  out->image_token = placeholder(&r, "image_token_id", 200054);
  out->audio_token = placeholder(&r, "audio_token_id", 200053);
  read_towers(&r);
  read_mtp(&r);
  return ij__config_finish(out, &r.names, &r.check, where, err);
}
