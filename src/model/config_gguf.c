/* config_gguf.c: the metadata of a GGUF file -> ij_config. The keys are few and each has one meaning; what is missing, of another type
 * or out of range is listed by key, expected, found. Keys that are not named here are informative and are not looked at. */
#include <stdio.h>
#include <string.h>

#include "io/gguf.h"
#include "model/config_int.h"

#define ARCH "inkling"
#define PREFIX ARCH "."

typedef struct meta {
  ij_config *c;
  const ij_gguf *g;
  ij_names names;
  ij_config_check check;
} meta;

static const ij_gguf_value *value_of(const meta *m, const char *key) {
  char name[128];
  snprintf(name, sizeof name, PREFIX "%s", key);
  return ij__gguf_find(m->g, name);
}

/* What was found, for messages: a number, a text, or the kind of thing. */
static const char *describe(const meta *m, const ij_gguf_value *v, char *buf, size_t size) {
  int64_t i;
  double d;
  const char *text;
  size_t len;
  if (v->is_array)
    snprintf(buf, size, "a list of %lld %s", (long long)v->n, ij__gguf_type_name(v->type));
  else if (ij__gguf_int(v, 0, &i))
    snprintf(buf, size, "%lld", (long long)i);
  else if (ij__gguf_real(v, 0, &d))
    snprintf(buf, size, "%.9g", d);
  else if (ij__gguf_string(m->g, v, 0, &text, &len))
    ij__json_show(buf, size, text, len);
  else
    snprintf(buf, size, "a value of type %s", ij__gguf_type_name(v->type));
  return buf;
}

/* *out keeps its value when the key is absent, which is a finding if it is required, or bad. */
static bool read_int(meta *m, const char *key, bool required, int64_t lo, int64_t hi, int64_t *out) {
  const ij_gguf_value *v = value_of(m, key);
  int64_t found;
  char text[64];
  if (!v) {
    if (required) MALFORMED(m, PREFIX "%s is missing", key);
    return false;
  }
  if (!v->is_array && ij__gguf_int(v, 0, &found) && found >= lo && found <= hi) {
    *out = found;
    return true;
  }
  MALFORMED(m, PREFIX "%s: expected an integer from %lld to %lld, found %s", key, (long long)lo, (long long)hi,
            describe(m, v, text, sizeof text));
  return false;
}

static int int_of(meta *m, const char *key, bool required, int64_t lo, int64_t hi) {
  int64_t v = 0;
  read_int(m, key, required, lo, hi, &v);
  return (int)v;
}

static double real_of(meta *m, const char *key, bool required, double lo, double hi, double fallback) {
  const ij_gguf_value *v = value_of(m, key);
  double found;
  char text[64];
  if (!v) {
    if (required) MALFORMED(m, PREFIX "%s is missing", key);
    return fallback;
  }
  if (!v->is_array && ij__gguf_real(v, 0, &found) && found >= lo && found <= hi) return found;
  MALFORMED(m, PREFIX "%s: expected a number from %g to %g, found %s", key, lo, hi, describe(m, v, text, sizeof text));
  return fallback;
}

/* A key that may be there with one value only. */
static void only_value(meta *m, const char *key, bool required, double want) {
  const ij_gguf_value *v = value_of(m, key);
  double found;
  char text[64];
  if (!v) {
    if (required) MALFORMED(m, PREFIX "%s is missing", key);
  } else if (v->is_array || !ij__gguf_real(v, 0, &found) || found != want) {
    REFUSED(m, PREFIX "%s: only %g is supported, found %s", key, want, describe(m, v, text, sizeof text));
  }
}

/* ----------------------------------------------------------------------------------------------------------- layers */

/* A list with one entry per layer. */
static bool read_list(meta *m, const char *key, int64_t lo, int64_t hi, int64_t out[IJ_MAX_LAYERS]) {
  const ij_gguf_value *v = value_of(m, key);
  char text[64];
  if (!v) {
    MALFORMED(m, PREFIX "%s is missing", key);
    return false;
  }
  if (!v->is_array || v->n != m->c->n_layer) {
    MALFORMED(m, PREFIX "%s: expected a list of %d values, one per layer, found %s", key, m->c->n_layer, describe(m, v, text, sizeof text));
    return false;
  }
  for (int i = 0; i < m->c->n_layer; i++) {
    if (ij__gguf_int(v, i, &out[i]) && out[i] >= lo && out[i] <= hi) continue;
    MALFORMED(m, PREFIX "%s[%d]: expected %lld to %lld, found %s", key, i, (long long)lo, (long long)hi, "another value or type");
    return false;
  }
  return true;
}

static void read_kinds(meta *m) {
  ij_config *c = m->c;
  int64_t slides[IJ_MAX_LAYERS];
  if (!read_list(m, "attention.sliding_window_pattern", 0, 1, slides)) return;
  for (int i = 0; i < c->n_layer; i++) c->sliding[i] = slides[i] != 0;
}

/* One number for all layers, or a list; layers of one kind must agree, because a kind has one shape. */
static void read_kv_heads(meta *m) {
  ij_config *c = m->c;
  const ij_gguf_value *v = value_of(m, "attention.head_count_kv");
  int64_t heads[IJ_MAX_LAYERS];
  if (v && !v->is_array) {
    c->attn[0].n_kv_head = c->attn[1].n_kv_head = int_of(m, "attention.head_count_kv", true, 1, 4096);
    return;
  }
  if (!read_list(m, "attention.head_count_kv", 1, 4096, heads)) return;
  for (int i = 0; i < c->n_layer; i++) {
    ij_attn_dims *a = &c->attn[c->sliding[i]];
    if (a->n_kv_head && a->n_kv_head != heads[i]) {
      MALFORMED(m, PREFIX "attention.head_count_kv[%d] is %lld, but other %s layers have %d", i, (long long)heads[i],
                c->sliding[i] ? "sliding" : "global", a->n_kv_head);
      return;
    }
    a->n_kv_head = (int)heads[i];
  }
  for (int kind = 0; kind < 2; kind++) {
    if (!c->attn[kind].n_kv_head) c->attn[kind].n_kv_head = c->attn[!kind].n_kv_head; /* no layer is of this kind */
  }
}

static void read_attention(meta *m) {
  ij_config *c = m->c;
  bool any_local = false, any_global = false;
  read_kinds(m);
  for (int i = 0; i < c->n_layer; i++) {
    any_local = any_local || c->sliding[i];
    any_global = any_global || !c->sliding[i];
  }
  int n_head = int_of(m, "attention.head_count", true, 1, 4096), d = int_of(m, "attention.key_length", true, 1, 4096);
  int value_d = int_of(m, "attention.value_length", false, 1, 4096);
  if (d && value_d && value_d != d)
    MALFORMED(m, PREFIX "attention.value_length is %d, but " PREFIX "attention.key_length is %d", value_d, d);
  for (int kind = 0; kind < 2; kind++) {
    c->attn[kind].n_head = n_head;
    c->attn[kind].head_dim = d;
  }
  read_kv_heads(m);
  for (int kind = 0; kind < 2; kind++) {
    int kv = c->attn[kind].n_kv_head;
    if (kv && n_head % kv != 0)
      MALFORMED(m, PREFIX "attention.head_count is %d, which " PREFIX "attention.head_count_kv = %d does not divide", n_head, kv);
  }
  c->d_rel = int_of(m, "d_rel", true, 1, 256);
  c->attn[0].rel_extent = int_of(m, "rel_extent", any_global, 1, 1 << 20);
  int window = int_of(m, "attention.sliding_window", any_local, 1, 1 << 20), extent = int_of(m, "rel_extent_swa", false, 1, 1 << 20);
  if (any_local && window && extent && window != extent)
    MALFORMED(m, PREFIX "rel_extent_swa is %d, but " PREFIX "attention.sliding_window is %d", extent, window);
  c->window = c->attn[1].rel_extent = any_local ? window : 0;
}

static void read_mlp(meta *m) {
  ij_config *c = m->c;
  int64_t n_dense = 0;
  if (read_int(m, "dense_block_count", true, 0, c->n_layer, &n_dense)) {
    for (int i = 0; i < c->n_layer; i++) c->dense[i] = i < n_dense;
  }
  if (n_dense > 0) c->dense_width = int_of(m, "feed_forward_length", true, 1, MAX_WIDTH);
  if (n_dense == c->n_layer) return;
  c->expert_width = int_of(m, "expert_feed_forward_length", true, 1, MAX_WIDTH);
  c->n_expert = int_of(m, "expert_count", true, 1, 65536);
  c->n_expert_used = int_of(m, "expert_used_count", true, 1, 65536);
  c->n_shared = int_of(m, "expert_shared_count", true, 1, 256);
  if (c->n_expert && c->n_expert_used > c->n_expert)
    MALFORMED(m, PREFIX "expert_used_count is %d, but " PREFIX "expert_count is %d", c->n_expert_used, c->n_expert);
  c->route_scale = (float)real_of(m, "expert_weights_scale", true, 1e-6, 1e6, 0);
  only_value(m, "expert_gating_func", true, 2); /* sigmoid */
  only_value(m, "expert_weights_norm", false, 1);
}

/* ------------------------------------------------------------------------------------------------------------ model */

static void read_model(meta *m) {
  ij_config *c = m->c;
  int64_t unpadded = 0;
  c->hidden = int_of(m, "embedding_length", true, 1, MAX_WIDTH);
  c->vocab = int_of(m, "vocab_size", true, 1, MAX_WIDTH);
  read_int(m, "unpadded_vocab_size", false, 0, MAX_WIDTH, &unpadded);
  c->unpadded_vocab = unpadded ? (int)unpadded : c->vocab;
  if (c->vocab && c->unpadded_vocab > c->vocab)
    MALFORMED(m, PREFIX "unpadded_vocab_size is %d, more than " PREFIX "vocab_size = %d", c->unpadded_vocab, c->vocab);
  c->max_context = 1048576;
  read_int(m, "context_length", false, 1, INT64_C(1) << 40, &c->max_context);
  c->eps = (float)real_of(m, "attention.layer_norm_rms_epsilon", true, 1e-30, 1, 0);
  c->conv_kernel = int_of(m, "shortconv_kernel", true, 1, IJ_MAX_CONV_KERNEL);
  c->logit_divisor = (float)real_of(m, "logit_scale_denom", true, 1e-6, 1e6, 0);
  c->n_floor = real_of(m, "log_scaling_n_floor", false, 0, 1e15, 0);
  c->log_alpha = real_of(m, "log_scaling_alpha", false, 0, 1e6, 0);
  c->embed_norm = true;
  c->n_mtp = int_of(m, "nextn_predict_layers", false, 0, 64);
  only_value(m, "final_logit_softcapping", false, 0);
  c->image_token = 200054;
  c->audio_token = 200053;
}

static void read_eos(meta *m) {
  const char *key = "tokenizer.ggml.eos_token_id";
  const ij_gguf_value *v = ij__gguf_find(m->g, key);
  int64_t id, last = m->c->vocab ? m->c->vocab - 1 : INT32_MAX;
  char text[64];
  if (!v) return;
  if (v->is_array || !ij__gguf_int(v, 0, &id) || id < 0 || id > last)
    MALFORMED(m, "%s: expected a token id from 0 to %lld, found %s", key, (long long)last, describe(m, v, text, sizeof text));
  else
    m->c->eos[m->c->n_eos++] = (int32_t)id;
}

static ij_status check_architecture(const meta *m, ij_err *err) {
  const ij_gguf_value *v = ij__gguf_find(m->g, "general.architecture");
  const char *name;
  size_t len;
  char text[64];
  if (!v) return ij__fail(err, IJ_E_FORMAT, m->g->path, "general.architecture is missing");
  if (!v->is_array && ij__gguf_string(m->g, v, 0, &name, &len) && len == strlen(ARCH) && memcmp(name, ARCH, len) == 0) return IJ_OK;
  return ij__fail(err, IJ_E_UNSUPPORTED, m->g->path, "general.architecture: only " ARCH " is supported, found %s",
                  describe(m, v, text, sizeof text));
}

ij_status ij__config_read_gguf(ij_config *out, const ij_ckpt *ckpt, ij_err *err) {
  meta m = {.c = out, .g = ij__ckpt_gguf(ckpt)};
  ij_status s = check_architecture(&m, err);
  if (s == IJ_OK) s = ij__names_open(&m.names, ckpt, err);
  if (s != IJ_OK) return s;
  out->n_layer = int_of(&m, "block_count", true, 1, IJ_MAX_LAYERS);
  read_model(&m);
  if (out->n_layer) {
    read_attention(&m);
    read_mlp(&m);
  }
  read_eos(&m);
  return ij__config_finish(out, &m.names, &m.check, m.g->path, err);
}
