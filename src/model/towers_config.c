/* towers_config.c: what config.json, processor_config.json or the keys of an mmproj GGUF file say of the towers.
 *
 * There is one network here, so nearly every key has one value that is supported; the tables below list them. A key that is absent says
 * nothing. Keys that are in no table are informative and are not looked at. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "io/gguf.h"
#include "model/towers_int.h"

#define DEFAULT_PATCH 40
#define MAX_FRACTION 64.0
#define MAX_PROCESSOR ((size_t)1 << 20)

ij_status ij__towers_report(const ij_config_check *check, const char *where, ij_err *err) {
  const ij_findings *f = &check->findings;
  ij_status code = check->n_malformed ? IJ_E_FORMAT : IJ_E_UNSUPPORTED;
  if (f->n == 0) return IJ_OK;
  if (f->n > f->n_shown) return ij__fail(err, code, where, "%d findings in the towers: %s; and %d more", f->n, f->text, f->n - f->n_shown);
  return ij__fail(err, code, where, "%d finding%s in the towers: %s", f->n, f->n == 1 ? "" : "s", f->text);
}

typedef struct reading {
  ij_config_check check;
} reading;

/* A key with one supported value: a number, or with `text` a string; a bool is 0 or 1. */
typedef struct only_key {
  const char *key, *alias;
  double number;
  const char *text;
} only_key;

static const only_key vision_keys[] = {
    {"vision_encoder_type", NULL, 0, "hmlp"},      {"temporal_patch_size", NULL, IJ_TOWER_TIMES, NULL},
    {"n_channels", "num_channels", IJ_TOWER_CHANNELS, NULL}, {"n_layers", "num_hidden_layers", IJ_TOWER_LAYERS, NULL},
    {"use_vision_norm", NULL, 1, NULL},            {"rms_norm_eps", NULL, 1e-6, NULL},
};
static const only_key audio_keys[] = {
    {"audio_mode", NULL, 0, "dmel"},          {"n_mel_bins", "num_codebooks", IJ_TOWER_MELS, NULL},
    {"mel_vocab_size", "codebook_size", IJ_TOWER_LEVELS, NULL},
    {"dmel_min_value", NULL, -7, NULL},       {"dmel_max_value", NULL, 2, NULL},
    {"use_audio_norm", NULL, 1, NULL},        {"bias", NULL, 0, NULL},
    {"rms_norm_eps", NULL, 1e-6, NULL},
};
static const only_key extractor_keys[] = {
    {"feature_size", NULL, IJ_TOWER_MELS, NULL}, {"sampling_rate", NULL, 16000, NULL}, {"audio_token_duration_s", NULL, 0.05, NULL},
    {"window_size_multiplier", NULL, 2, NULL},   {"hop_length", NULL, 800, NULL},      {"window_size", NULL, 1600, NULL},
    {"n_fft", NULL, 1600, NULL},
};
static const only_key processor_keys[] = {
    {"num_dmel_bins", NULL, IJ_TOWER_LEVELS, NULL}, {"dmel_min_value", NULL, -7, NULL}, {"dmel_max_value", NULL, 2, NULL}};
static const double mean[] = {0.48145466, 0.4578275, 0.40821073}, deviation[] = {0.26862954, 0.26130258, 0.27577711};

/* The spellings in circulation differ in the last digits. */
static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b); }

/* ------------------------------------------------------------------------------------------------------------- JSON */

static const char *describe(const ij_json_value *v, char *buf, size_t size) {
  double d;
  bool b;
  const char *s;
  size_t n;
  if (ij__json_get_double(v, &d))
    snprintf(buf, size, "%.9g", d);
  else if (ij__json_get_bool(v, &b))
    snprintf(buf, size, "%s", b ? "true" : "false");
  else if (ij__json_get_string(v, &s, &n))
    ij__json_show(buf, size, s, n);
  else
    snprintf(buf, size, "%s", ij__json_type_name(ij__json_type_of(v)));
  return buf;
}

static void check_only(reading *r, const ij_json_value *v, const char *prefix, const char *key, const only_key *k) {
  char text[64];
  double d;
  bool b, is_bool = ij__json_get_bool(v, &b);
  if (!v) return;
  if (k->text) {
    if (!ij__json_is(v, k->text))
      REFUSED(r, "%s%s: only \"%s\" is supported, found %s", prefix, key, k->text, describe(v, text, sizeof text));
  } else if (!(is_bool ? (b ? 1.0 : 0.0) == k->number : ij__json_get_double(v, &d) && near(d, k->number))) {
    REFUSED(r, "%s%s: only %g is supported, found %s", prefix, key, k->number, describe(v, text, sizeof text));
  }
}

static void check_keys(reading *r, const ij_json_value *object, const char *prefix, const only_key *keys, size_t n) {
  for (size_t i = 0; i < n; i++) {
    check_only(r, ij__config_member(object, keys[i].key), prefix, keys[i].key, &keys[i]);
    if (keys[i].alias) check_only(r, ij__config_member(object, keys[i].alias), prefix, keys[i].alias, &keys[i]);
  }
}

/* An integer, or `fallback` when the key is absent or bad. */
static int64_t int_or(reading *r, const ij_json_value *object, const char *prefix, const char *key, int64_t lo, int64_t hi,
                      int64_t fallback) {
  const ij_json_value *v = ij__config_member(object, key);
  int64_t found;
  char text[64];
  if (!v) return fallback;
  if (ij__json_get_int(v, &found) && found >= lo && found <= hi) return found;
  MALFORMED(r, "%s%s: expected an integer from %lld to %lld, found %s", prefix, key, (long long)lo, (long long)hi,
            describe(v, text, sizeof text));
  return fallback;
}

/* The width of the decoder under its first spelling that is there; the others must say the same. */
static int64_t width_of(reading *r, const ij_json_value *object, const char *prefix) {
  static const char *const keys[] = {"decoder_dmodel", "text_hidden_size", "hidden_size"};
  int64_t width = 0;
  for (size_t i = 0; i < IJ_COUNT_OF(keys); i++) {
    int64_t w = int_or(r, object, prefix, keys[i], 1, MAX_WIDTH, 0);
    if (width && w && w != width)
      MALFORMED(r, "%s%s is %lld, but another spelling of the same says %lld", prefix, keys[i], (long long)w, (long long)width);
    if (!width) width = w;
  }
  return width;
}

static const ij_json_value *object_at(reading *r, const ij_json_value *root, const char *key) {
  const ij_json_value *v = ij__config_member(root, key);
  char text[64];
  if (!v || ij__json_type_of(v) == IJ_JSON_OBJECT) return v;
  MALFORMED(r, "%s: expected an object, found %s", key, describe(v, text, sizeof text));
  return NULL;
}

void ij__towers_config_json(ij_towers_config *out, const ij_json_value *root, bool vision, bool audio, ij_config_check *check) {
  reading r = {.check = *check};
  *out = (ij_towers_config){.patch = DEFAULT_PATCH, .patch_key = "vision_config.patch_size"};
  if (vision) {
    const ij_json_value *v = object_at(&r, root, "vision_config");
    check_keys(&r, v, "vision_config.", vision_keys, IJ_COUNT_OF(vision_keys));
    out->patch = (int)int_or(&r, v, "vision_config.", "patch_size", 1, 1 << 20, DEFAULT_PATCH);
    out->vision_width = width_of(&r, v, "vision_config.");
  }
  if (audio) {
    const ij_json_value *v = object_at(&r, root, "audio_config");
    check_keys(&r, v, "audio_config.", audio_keys, IJ_COUNT_OF(audio_keys));
    out->audio_width = width_of(&r, v, "audio_config.");
  }
  *check = r.check;
}

/* ---------------------------------------------------------------------------------------------- processor_config.json */

static void check_triple(reading *r, const ij_json_value *object, const char *key, const double *want) {
  const ij_json_value *v = ij__config_member(object, key), *element;
  ij_json_iter it = {0};
  int n = 0;
  bool same = ij__json_size(v) == IJ_TOWER_CHANNELS && ij__json_type_of(v) == IJ_JSON_ARRAY;
  while (same && ij__json_next(v, &it, NULL, NULL, &element)) {
    double d;
    same = ij__json_get_double(element, &d) && near(d, want[n++]);
  }
  if (v && !same) REFUSED(r, "image_processor.%s: only [%.9g, %.9g, %.9g] is supported", key, want[0], want[1], want[2]);
}

static void read_image_processor(reading *r, ij_towers_weights *w, const ij_json_value *root) {
  static const only_key times = {"temporal_patch_size", NULL, IJ_TOWER_TIMES, NULL};
  const ij_json_value *v = object_at(r, root, "image_processor");
  char text[64];
  int64_t patch = int_or(r, v, "image_processor.", "patch_size", 1, 1 << 20, w->plan.patch);
  if (patch != w->plan.patch) MALFORMED(r, "image_processor.patch_size is %lld, but the tower has %d", (long long)patch, w->plan.patch);
  check_only(r, ij__config_member(v, times.key), "image_processor.", times.key, &times);
  check_triple(r, v, "image_mean", mean);
  check_triple(r, v, "image_std", deviation);
  const ij_json_value *fraction = ij__config_member(v, "rescale_image_frac");
  double f = 0;
  if (fraction && !(ij__json_get_double(fraction, &f) && f > 0 && f <= MAX_FRACTION)) {
    MALFORMED(r, "image_processor.rescale_image_frac: expected null or a number above 0 and up to %g, found %s", MAX_FRACTION,
              describe(fraction, text, sizeof text));
    f = 0;
  }
  w->rescale_frac = f;
  w->rescale_long_edge = (int)int_or(r, v, "image_processor.", "rescale_image_max_upscaled_long_edge", 1, 1 << 24, 0);
}

static ij_status read_processor(ij_towers_weights *w, const ij_json_value *root, const char *path, ij_err *err) {
  reading r = {0};
  if (ij__json_type_of(root) != IJ_JSON_OBJECT)
    return ij__fail(err, IJ_E_FORMAT, path, "expected an object, found %s", ij__json_type_name(ij__json_type_of(root)));
  if (w->vision) read_image_processor(&r, w, root);
  if (w->audio) {
    check_keys(&r, object_at(&r, root, "feature_extractor"), "feature_extractor.", extractor_keys, IJ_COUNT_OF(extractor_keys));
    check_keys(&r, root, "", processor_keys, IJ_COUNT_OF(processor_keys));
  }
  w->has_processor = true;
  return ij__towers_report(&r.check, path, err);
}

ij_status ij__towers_read_processor(ij_towers_weights *w, const char *folder, ij_err *err) {
  char *path = ij__os_join(folder, "processor_config.json"), *bytes = NULL;
  size_t n = 0;
  ij_json *doc = NULL;
  ij_status s = IJ_OK;
  if (!path) return ij__fail_nomem(err, folder, 0);
  if (ij__os_is_file(path)) {
    s = ij__os_read_file(path, MAX_PROCESSOR, &bytes, &n, err);
    if (s == IJ_OK) s = ij__json_parse(&doc, bytes, n, path, err);
    if (s == IJ_OK) s = read_processor(w, ij__json_root(doc), path, err);
  }
  ij__json_free(&doc);
  ij__free(bytes);
  ij__free(path);
  return s;
}

/* -------------------------------------------------------------------------------------------------------------- GGUF */

static const only_key gguf_vision_keys[] = {
    {"clip.has_vision_encoder", NULL, 1, NULL},        {"clip.vision.projector_type", NULL, 0, "inkling"},
    {"clip.vision.embedding_length", NULL, IJ_TOWER_CHANNELS, NULL}, {"clip.vision.block_count", NULL, IJ_TOWER_LAYERS, NULL},
    {"clip.vision.attention.layer_norm_epsilon", NULL, 1e-6, NULL},
};
static const only_key gguf_audio_keys[] = {
    {"clip.has_audio_encoder", NULL, 1, NULL},         {"clip.audio.projector_type", NULL, 0, "inkling"},
    {"clip.audio.num_mel_bins", NULL, IJ_TOWER_MELS, NULL}, {"clip.audio.block_count", NULL, 0, NULL},
    {"clip.audio.attention.layer_norm_epsilon", NULL, 1e-6, NULL},
};

static bool gguf_text_is(const ij_gguf *g, const ij_gguf_value *v, const char *want) {
  const char *text;
  size_t len;
  return !v->is_array && ij__gguf_string(g, v, 0, &text, &len) && len == strlen(want) && memcmp(text, want, len) == 0;
}

static void gguf_check(reading *r, const ij_gguf *g, const only_key *keys, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const ij_gguf_value *v = ij__gguf_find(g, keys[i].key);
    double d = 0;
    if (!v && keys[i].text)
      MALFORMED(r, "%s is missing, expected \"%s\"", keys[i].key, keys[i].text);
    else if (v && keys[i].text && !gguf_text_is(g, v, keys[i].text))
      REFUSED(r, "%s: only \"%s\" is supported", keys[i].key, keys[i].text);
    else if (v && !keys[i].text && (v->is_array || !ij__gguf_real(v, 0, &d) || !near(d, keys[i].number)))
      REFUSED(r, "%s: only %g is supported, found %.9g", keys[i].key, keys[i].number, d);
  }
}

static void gguf_triple(reading *r, const ij_gguf *g, const char *key, const double *want) {
  const ij_gguf_value *v = ij__gguf_find(g, key);
  bool same = v && v->is_array && v->n == IJ_TOWER_CHANNELS;
  for (int i = 0; same && i < IJ_TOWER_CHANNELS; i++) {
    double d;
    same = ij__gguf_real(v, i, &d) && near(d, want[i]);
  }
  if (v && !same) REFUSED(r, "%s: only [%.9g, %.9g, %.9g] is supported", key, want[0], want[1], want[2]);
}

static int64_t gguf_int(reading *r, const ij_gguf *g, const char *key, int64_t fallback) {
  const ij_gguf_value *v = ij__gguf_find(g, key);
  int64_t found;
  if (!v) return fallback;
  if (!v->is_array && ij__gguf_int(v, 0, &found) && found >= 1 && found <= MAX_WIDTH) return found;
  MALFORMED(r, "%s: expected an integer from 1 to %d", key, MAX_WIDTH);
  return fallback;
}

void ij__towers_config_gguf(ij_towers_config *out, const ij_gguf *g, bool vision, bool audio, ij_config_check *check) {
  static const only_key architecture[] = {{"general.architecture", NULL, 0, "clip"}};
  reading r = {.check = *check};
  *out = (ij_towers_config){.patch = DEFAULT_PATCH, .patch_key = "clip.vision.patch_size"};
  gguf_check(&r, g, architecture, 1);
  if (vision) {
    gguf_check(&r, g, gguf_vision_keys, IJ_COUNT_OF(gguf_vision_keys));
    gguf_triple(&r, g, "clip.vision.image_mean", mean);
    gguf_triple(&r, g, "clip.vision.image_std", deviation);
    out->patch = (int)gguf_int(&r, g, "clip.vision.patch_size", DEFAULT_PATCH);
    int64_t image = gguf_int(&r, g, "clip.vision.image_size", out->patch);
    if (image != out->patch)
      MALFORMED(&r, "clip.vision.image_size is %lld, but clip.vision.patch_size is %d", (long long)image, out->patch);
    out->vision_width = gguf_int(&r, g, "clip.vision.projection_dim", 0);
  }
  if (audio) {
    gguf_check(&r, g, gguf_audio_keys, IJ_COUNT_OF(gguf_audio_keys));
    out->audio_width = gguf_int(&r, g, "clip.audio.projection_dim", 0);
    int64_t length = gguf_int(&r, g, "clip.audio.embedding_length", out->audio_width);
    if (length != out->audio_width)
      MALFORMED(&r, "clip.audio.embedding_length is %lld, but clip.audio.projection_dim is %lld", (long long)length,
                (long long)out->audio_width);
  }
  *check = r.check;
}
