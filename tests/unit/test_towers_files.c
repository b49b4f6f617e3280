/* test_towers_files.c: towers as they are found in files: under all names, with every kind of mistake, beside a decoder and instead of its
 * own; and the public functions on them. What they compute is in test_towers.c and tests/golden/towers.c. */
#include "inkjet_media.h"
#include "model/towers.h"
#include "tiny.h"

enum { PATCH = 8, WIDTH = 8 };

static const struct {
  const char *name;
  int64_t rows, cols; /* cols 0: a norm; 0 rows or -1 cols: as wide as the decoder */
} parts[] = {
    {"visual.layers.linear_0.weight", 64, 12},   {"visual.layers.linear_1.weight", 64, 256}, {"visual.layers.linear_2.weight", 192, 256},
    {"visual.layers.linear_3.weight", 0, 384},   {"visual.layers.norm_0.weight", 64, 0},     {"visual.layers.norm_1.weight", 64, 0},
    {"visual.layers.norm_2.weight", 192, 0},     {"visual.final_norm.weight", 0, 0},         {"audio.encoder.weight", 1280, -1},
    {"audio.final_norm.weight", 0, 0},
};

static void add_towers(cw_model *m, int64_t width, const char *prefix) {
  for (size_t i = 0; i < IJ_COUNT_OF(parts); i++) {
    int64_t rows = parts[i].rows ? parts[i].rows : width, cols = parts[i].cols < 0 ? width : parts[i].cols;
    if (cols)
      cw_add(m, IJ_DTYPE_BF16, CW_DIMS(rows, cols), "%s%s", prefix, parts[i].name);
    else
      cw_add(m, IJ_DTYPE_BF16, CW_DIMS(rows), "%s%s", prefix, parts[i].name);
  }
}

static const char good_config[] =
    "vision.vision_encoder_type=\"hmlp\"\nvision.patch_size=8\nvision.temporal_patch_size=2\nvision.n_channels=3\nvision.n_layers=4\n"
    "vision.use_vision_norm=true\nvision.decoder_dmodel=8\naudio.n_mel_bins=80\naudio.mel_vocab_size=16\naudio.dmel_min_value=-7.0\n"
    "audio.dmel_max_value=2.0\naudio.use_audio_norm=true\naudio.decoder_dmodel=8\n";

/* ------------------------------------------------------------------------------------------------------------- binding */

typedef enum change { NONE, REMOVE, RESHAPE, RETYPE, RENAME, ADD, SPOIL } change;

typedef struct file_case {
  const char *edits;   /* of the config */
  change what;
  const char *name, *new_name;
  int64_t dims[2];
  ij_status status;
  const char *says;
  const char *processor;
} file_case;

#define LINEAR_3 "model.visual.layers.linear_3.weight"
#define TABLE "model.audio.encoder.weight"
#define V_NORM "model.visual.final_norm.weight"

static const file_case cases[] = {
    {"", NONE, "", "", {0}, IJ_OK, "", NULL},
    {"", REMOVE, LINEAR_3, "", {0}, IJ_E_FORMAT, LINEAR_3 " is missing, expected [8, 384]", NULL},
    {"", REMOVE, V_NORM, "", {0}, IJ_E_FORMAT, V_NORM " is missing, expected [8]", NULL},
    {"", REMOVE, TABLE, "", {0}, IJ_E_FORMAT, TABLE " is missing, expected [1280, 8]", NULL},
    {"vision.decoder_dmodel\n", REMOVE, V_NORM, "", {0}, IJ_E_FORMAT, V_NORM " is missing, expected [8]", NULL},
    {"", RESHAPE, LINEAR_3, "", {8, 192}, IJ_E_FORMAT, LINEAR_3 ": expected [8, 384], found [8, 192]", NULL},
    {"", RESHAPE, V_NORM, "", {4, 2}, IJ_E_FORMAT, V_NORM ": expected [8], found [4, 2]", NULL},
    {"", RETYPE, V_NORM, "I16", {0}, IJ_E_FORMAT, V_NORM ": expected F32, BF16 or F16, found I16", NULL},
    {"", RETYPE, TABLE, "I16", {0}, IJ_E_FORMAT, TABLE ": expected F32, BF16 or F16, found I16", NULL},
    {"", ADD, "model.visual.layers.linear_0.bias", "", {64}, IJ_E_FORMAT, "linear_0.bias is not a tensor of these towers", NULL},
    {"", ADD, "visual.final_norm.weight", "", {8}, IJ_E_FORMAT, "fill the same place: only one of them may be there", NULL},
    {"", ADD, "vision_tower.encoder_layers.1.layer_norm.weight", "", {64}, IJ_E_FORMAT, "fill the same place", NULL},
    {"", ADD, LINEAR_3 ".scales", "", {64}, IJ_E_FORMAT, "is not a tensor of these towers", NULL},
    {"", RENAME, V_NORM, "vision_tower.final_norm.weight", {0}, IJ_OK, "", NULL},
    {"", RENAME, TABLE, "model.audio_tower.embed_audio_tokens.embed_audio_tokens.weight", {0}, IJ_OK, "", NULL},
    {"", SPOIL, V_NORM, "", {0}, IJ_E_FORMAT, V_NORM "[3] is infinite", NULL},
    {"vision.vision_encoder_type=\"vit\"", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "vision_config.vision_encoder_type: only \"hmlp\" is supported, found \"vit\"", NULL},
    {"vision.temporal_patch_size=1", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "vision_config.temporal_patch_size: only 2 is supported, found 1", NULL},
    {"vision.n_layers=5", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "vision_config.n_layers: only 4 is supported, found 5", NULL},
    {"vision.num_channels=1", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "vision_config.num_channels: only 3 is supported, found 1", NULL},
    {"vision.use_vision_norm=false", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "vision_config.use_vision_norm: only 1 is supported, found false", NULL},
    {"vision.patch_size=40", NONE, "", "", {0}, IJ_E_FORMAT, "linear_2.weight: expected [4800, 5120], found [192, 256]", NULL},
    {"vision.patch_size=14", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "vision_config.patch_size: a patch of 14 pixels can be folded to 3 sizes only", NULL},
    {"vision.patch_size=1000000", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "vision_config.patch_size: expected 2 to 256, found 1000000", NULL},
    {"vision.patch_size=\"8\"", NONE, "", "", {0}, IJ_E_FORMAT, "vision_config.patch_size: expected an integer", NULL},
    {"vision.text_hidden_size=16", NONE, "", "", {0}, IJ_E_FORMAT, "another spelling of the same says 8", NULL},
    {"vision.decoder_dmodel=16", NONE, "", "", {0}, IJ_E_FORMAT, "the vision tower is for a decoder of width 16, the audio tower for one of 8", NULL},
    {"audio.audio_mode=\"whisper\"", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "audio_config.audio_mode: only \"dmel\" is supported, found \"whisper\"", NULL},
    {"audio.mel_vocab_size=256", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "audio_config.mel_vocab_size: only 16 is supported, found 256", NULL},
    {"audio.dmel_min_value=-1.5", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "audio_config.dmel_min_value: only -7 is supported, found -1.5", NULL},
    {"audio.bias=true", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "audio_config.bias: only 0 is supported, found true", NULL},
    {"", NONE, "", "", {0}, IJ_E_FORMAT, "image_processor.patch_size is 40, but the tower has 8", "{\"image_processor\":{\"patch_size\":40}}"},
    {"", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "image_processor.image_mean: only [0.48145466,", "{\"image_processor\":{\"image_mean\":[0.5,0.5,0.5]}}"},
    {"", NONE, "", "", {0}, IJ_E_FORMAT, "rescale_image_frac: expected null or a number above 0", "{\"image_processor\":{\"rescale_image_frac\":-1}}"},
    {"", NONE, "", "", {0}, IJ_E_UNSUPPORTED, "feature_extractor.hop_length: only 800 is supported, found 160", "{\"feature_extractor\":{\"hop_length\":160}}"},
    {"", NONE, "", "", {0}, IJ_E_FORMAT, "image_processor: expected an object, found an array", "{\"image_processor\":[]}"},
    {"", NONE, "", "", {0}, IJ_E_FORMAT, "", "{\"image_processor\":"},
};

static ij_dtype type_named(const char *name) { return ij__dtype_find(name, strlen(name)); }

static void apply(cw_model *m, const file_case *c) {
  cw_tensor *t = c->what == NONE || c->what == ADD ? NULL : cw_find(m, c->name);
  switch (c->what) {
    case REMOVE: cw_remove(m, c->name); break;
    case RESHAPE: cw_reshape(m, c->name, 2, c->dims); break;
    case RETYPE:
      t->raw = calloc((size_t)t->n, 2);
      t->dtype = type_named(c->new_name);
      break;
    case RENAME: snprintf(t->name, sizeof t->name, "%s", c->new_name); break;
    case ADD: cw_add(m, IJ_DTYPE_BF16, 1, c->dims, "%s", c->name); break;
    case SPOIL: t->values[3] = INFINITY; break;
    default: break;
  }
}

static void write_processor(const char *folder, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/processor_config.json", folder);
  if (text)
    cw_write_text(folder, "processor_config.json", text);
  else
    unlink(path);
}

static void mistakes_are_named(void) {
  char folder[256];
  cw_make_folder(folder, sizeof folder);
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    static char edits[4096];
    static cw_model m;
    ij_ckpt *ckpt = NULL;
    ij_towers_weights w;
    ij_err err = {0};
    m = (cw_model){.seed = 3};
    add_towers(&m, WIDTH, "model.");
    apply(&m, &cases[i]);
    cw_write_tensors(&m, folder);
    snprintf(edits, sizeof edits, "%s%s", good_config, cases[i].edits);
    cw_write_config(folder, edits, false);
    write_processor(folder, cases[i].processor);
    int64_t blocks = ij__alloc_blocks();
    CHECK_OK(ij__ckpt_open(&ckpt, folder, &err), err);
    ij_status s = ij__towers_bind(&w, ckpt, &err);
    if (s != cases[i].status || !strstr(err.message, cases[i].says))
      TEST_FAIL("case %d: %s: \"%s\", expected %s: \"%s\"", (int)i, ij_status_name(s), err.message, ij_status_name(cases[i].status), cases[i].says);
    if (s == IJ_OK) {
      CHECK(w.vision && w.audio && w.hidden == WIDTH && w.plan.patch == PATCH);
      CHECK_INT(w.weight_bytes, 2 * w.n_params);
      ij__towers_free(&w);
    }
    ij__ckpt_close(&ckpt);
    CHECK_INT(ij__alloc_blocks(), blocks);
    cw_free(&m);
  }
  write_processor(folder, NULL);
  cw_remove_folder(folder);
}

/* Every allocation that may fail, fails once: an error, and nothing is left. */
static void without_memory(void) {
  char folder[256];
  static cw_model m;
  ij_err err;
  ij_status s = IJ_E_NOMEM;
  cw_make_folder(folder, sizeof folder);
  m = (cw_model){.seed = 3};
  add_towers(&m, WIDTH, "");
  cw_write_tensors(&m, folder);
  cw_write_config(folder, good_config, false);
  int64_t blocks = ij__alloc_blocks();
  for (int n = 1; s != IJ_OK && n < 300; n++) {
    ij_towers *t = NULL;
    ij_model_options o = ij_model_options_default();
    o.n_threads = 1;
    ij__alloc_fail_after(n);
    s = ij_towers_open(&t, folder, &o, &err);
    ij__alloc_fail_after(0);
    CHECK(s == IJ_OK || s == IJ_E_NOMEM);
    ij_towers_close(&t);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
  CHECK_INT(s, IJ_OK);
  cw_free(&m);
  cw_remove_folder(folder);
}

/* ---------------------------------------------------------------------------------------------------------- public face */

static void build_model(tiny *t, bool towers) {
  cw_dims d = cw_usual();
  tiny_build(t, &d, IJ_DTYPE_F32, good_config);
  if (towers) add_towers(&t->file, WIDTH, "model.");
  cw_write_tensors(&t->file, t->folder);
}

static ij_media *picture(const ij_media_options *o, bool pair) {
  static uint8_t pixels[2][30 * 21 * 3];
  uint64_t seed = 11;
  ij_media *m = NULL;
  ij_err err;
  for (int i = 0; i < 30 * 21 * 3; i++) {
    pixels[0][i] = (uint8_t)test_random(&seed);
    pixels[1][i] = (uint8_t)test_random(&seed);
  }
  CHECK_OK(ij_media_from_pixels(&m, pixels[0], pair ? pixels[1] : NULL, 30, 21, o, &err), err);
  return m;
}

static ij_media *sound(void) {
  static float samples[20000];
  uint64_t seed = 5;
  ij_media *m = NULL;
  ij_err err;
  for (int i = 0; i < 20000; i++) samples[i] = (float)(test_random(&seed) >> 40) / 16777216.0f - 0.5f;
  CHECK_OK(ij_media_from_samples(&m, samples, 20000, 1, 16000, NULL, &err), err);
  return m;
}

/* All rows at once, and in pieces. */
static void check_cuts(ij_towers *t, const ij_media *media) {
  float all[64 * WIDTH], pieces[64 * WIDTH];
  ij_media_info info;
  ij_err err;
  ij_media_get_info(media, &info);
  CHECK(info.n_rows >= 12 && info.n_rows <= 64);
  CHECK_OK(ij_towers_encode(t, media, 0, info.n_rows, all, &err), err);
  for (int64_t at = 0, n; at < info.n_rows; at += n) {
    n = IJ_MIN((int64_t)5, info.n_rows - at);
    CHECK_OK(ij_towers_encode(t, media, at, n, pieces + at * WIDTH, &err), err);
  }
  CHECK(memcmp(all, pieces, (size_t)(info.n_rows * WIDTH) * sizeof *all) == 0);
  bool differ = false;
  for (int64_t i = WIDTH; i < info.n_rows * WIDTH; i++) differ = differ || all[i] != all[i - WIDTH];
  CHECK(differ);
}

static void refusals(ij_towers *t, const ij_media *image) {
  float rows[64 * WIDTH];
  ij_err err;
  ij_media_info info;
  ij_media *other = picture(NULL, false); /* patches of 40 pixels */
  ij_media_get_info(image, &info);
  CHECK_INT(ij_towers_encode(t, image, 0, info.n_rows + 1, rows, &err), IJ_E_RANGE);
  CHECK_INT(ij_towers_encode(t, image, -1, 1, rows, &err), IJ_E_RANGE);
  CHECK_INT(ij_towers_encode(t, image, INT64_MAX, INT64_MAX, rows, &err), IJ_E_RANGE);
  CHECK_INT(ij_towers_encode(t, image, info.n_rows, 0, rows, &err), IJ_OK);
  CHECK_INT(ij_towers_encode(t, image, 0, 1, NULL, &err), IJ_E_ARGUMENT);
  CHECK_INT(ij_towers_encode(t, other, 0, 1, rows, &err), IJ_E_ARGUMENT);
  CHECK_HAS(err.message, "patches of 40 pixels, this tower wants 8");
  ij_media_close(&other);
}

static void a_model_has_its_towers(void) {
  tiny t;
  ij_towers_info info;
  ij_err err;
  build_model(&t, true);
  write_processor(t.folder, "{\"image_processor\":{\"patch_size\":8,\"rescale_image_frac\":1.5,\"rescale_image_max_upscaled_long_edge\":2048}}");
  ij_model *m = tiny_open(&t, 2, 16);
  ij_towers *towers = ij_model_towers(m), *alone = NULL;
  CHECK(towers != NULL);
  ij_towers_get_info(towers, &info);
  CHECK(info.vision && info.audio && info.hidden == WIDTH && info.patch == PATCH);
  CHECK_INT((int64_t)info.patch_fma, 16 * 12 * 64 + 4 * 256 * 64 + 256 * 192 + 192 * 8);
  CHECK_STR(info.source, t.folder);
  ij_media_options o = ij_towers_media_options(towers);
  CHECK(o.patch == PATCH && o.rescale_frac == 1.5 && o.rescale_long_edge == 2048);
  CHECK_INT(ij_towers_media_options(NULL).patch, 40);
  o.rescale_frac = 0;
  ij_media *still = picture(&o, false), *pair = picture(&o, true), *clip = sound();
  check_cuts(towers, still);
  check_cuts(towers, pair);
  check_cuts(towers, clip);
  refusals(towers, still);
  CHECK_OK(ij_towers_open(&alone, t.folder, NULL, &err), err);
  float rows[2][12 * WIDTH];
  CHECK_OK(ij_towers_encode(alone, still, 0, 12, rows[0], &err), err);
  CHECK_OK(ij_towers_encode(towers, still, 0, 12, rows[1], &err), err);
  CHECK(memcmp(rows[0], rows[1], sizeof rows[0]) == 0);
  ij_towers *mine = towers;
  ij_towers_close(&mine); /* not ours to close */
  CHECK(mine == towers);
  ij_towers_close(&alone);
  CHECK(alone == NULL);
  ij_media_close(&still);
  ij_media_close(&pair);
  ij_media_close(&clip);
  ij_model_close(&m);
  write_processor(t.folder, NULL);
  tiny_free(&t);
}

/* Towers of another file take the place of a model's own; their width must be the decoder's. */
static void towers_from_another_file(void) {
  tiny t;
  char folder[256], wide[256];
  static cw_model m;
  ij_model *model = NULL;
  ij_towers *towers = NULL;
  ij_towers_info info;
  ij_err err = {0};
  build_model(&t, false);
  CHECK_INT(ij_towers_open(&towers, t.folder, NULL, &err), IJ_E_UNSUPPORTED);
  ij_model_options o = ij_model_options_default();
  o.n_threads = 1;
  CHECK_OK(ij_model_open(&model, t.folder, &o, &err), err);
  CHECK(ij_model_towers(model) == NULL);
  ij_model_close(&model);
  for (int width = 8; width <= 16; width += 8) {
    char *at = width == 8 ? folder : wide;
    cw_make_folder(at, sizeof folder);
    m = (cw_model){.seed = 4};
    add_towers(&m, width, "");
    cw_write_tensors(&m, at);
    cw_write_config(at, width == 8 ? good_config : "vision.patch_size=8\naudio.decoder_dmodel=16", false);
    cw_free(&m);
  }
  o.mmproj = folder;
  CHECK_OK(ij_model_open(&model, t.folder, &o, &err), err);
  ij_towers_get_info(ij_model_towers(model), &info);
  CHECK_STR(info.source, folder);
  ij_model_close(&model);
  o.mmproj = wide;
  CHECK_INT(ij_model_open(&model, t.folder, &o, &err), IJ_E_FORMAT);
  CHECK_HAS(err.message, "these towers are for a decoder of width 16, but");
  CHECK_HAS(err.message, "has 8");
  o.mmproj = t.folder;
  CHECK_INT(ij_model_open(&model, t.folder, &o, &err), IJ_E_UNSUPPORTED);
  CHECK_HAS(err.message, "there are no towers here");
  cw_remove_folder(folder);
  cw_remove_folder(wide);
  tiny_free(&t);
}

/* Text needs no towers: a checkpoint whose own cannot be used opens, says why, and takes those of another file. */
static void odd_towers_are_no_obstacle_to_text(void) {
  static const struct {
    change what;
    const char *name, *processor, *says;
  } odd[] = {{REMOVE, V_NORM, NULL, V_NORM " is missing, expected [8]"},
             {RETYPE, TABLE, NULL, TABLE ": expected F32, BF16 or F16, found I16"},
             {SPOIL, V_NORM, NULL, V_NORM "[3] is infinite"},
             {ADD, "model.visual.layers.linear_0.bias", NULL, "linear_0.bias is not a tensor of these towers"},
             {NONE, "", "{\"image_processor\":{\"patch_size\":40}}", "image_processor.patch_size is 40, but the tower has 8"},
             {NONE, "", "{\"image_processor\":", "processor_config.json"}};
  tiny good;
  build_model(&good, true);
  for (size_t i = 0; i < IJ_COUNT_OF(odd); i++) {
    tiny t;
    ij_err err = {0};
    ij_session *s = NULL;
    ij_model *m = NULL;
    ij_model_options o = ij_model_options_default();
    o.n_threads = 1;
    build_model(&t, true);
    apply(&t.file, &(file_case){.what = odd[i].what, .name = odd[i].name, .new_name = "I16", .dims = {64}});
    cw_write_tensors(&t.file, t.folder);
    write_processor(t.folder, odd[i].processor);
    CHECK_OK(ij_model_open(&m, t.folder, &o, &err), err);
    CHECK(ij_model_towers(m) == NULL && ij_model_towers_error(m) != NULL);
    CHECK_HAS(ij_model_towers_error(m), odd[i].says);
    CHECK_OK(ij_session_open(&s, m, NULL, &err), err);
    CHECK_OK(ij_session_eval(s, (const int32_t[]){1, 2, 3}, 3, &err), err);
    ij_session_close(&s);
    ij_model_close(&m);
    o.mmproj = t.folder; /* asked for by name they must be right */
    CHECK(ij_model_open(&m, good.folder, &o, &err) != IJ_OK);
    write_processor(t.folder, NULL);
    o.mmproj = good.folder;
    CHECK_OK(ij_model_open(&m, t.folder, &o, &err), err);
    CHECK(ij_model_towers(m) != NULL && ij_model_towers_error(m) == NULL);
    ij_model_close(&m);
    tiny_free(&t);
  }
  tiny_free(&good);
}

/* A weight that is infinite makes rows that are not numbers: an error, not rows. One tower of two is enough for its kind of media only. */
static void damage_and_lack(void) {
  tiny t;
  float rows[64 * WIDTH];
  ij_err err;
  build_model(&t, false);
  for (int i = 0; i < 8; i++) {
    int64_t cols = parts[i].cols, n = parts[i].rows ? parts[i].rows : WIDTH;
    cw_add(&t.file, IJ_DTYPE_BF16, cols ? 2 : 1, (const int64_t[]){n, cols}, "model.%s", parts[i].name);
  }
  cw_find(&t.file, LINEAR_3)->values[5] = INFINITY;
  ij_model *m = tiny_open(&t, 2, 16);
  ij_media_options o = ij_towers_media_options(ij_model_towers(m));
  ij_media *still = picture(&o, false), *clip = sound();
  CHECK_INT(ij_towers_encode(ij_model_towers(m), still, 2, 3, rows, &err), IJ_E_NUMERIC);
  CHECK_HAS(err.message, "row 2 of the medium is not finite");
  CHECK_INT(ij_towers_encode(ij_model_towers(m), clip, 0, 1, rows, &err), IJ_E_UNSUPPORTED);
  CHECK_HAS(err.message, "there is no audio tower");
  ij_media_close(&still);
  ij_media_close(&clip);
  ij_model_close(&m);
  tiny_free(&t);
}

int main(void) {
  RUN(mistakes_are_named);
  RUN(without_memory);
  RUN(a_model_has_its_towers);
  RUN(towers_from_another_file);
  RUN(odd_towers_are_no_obstacle_to_text);
  RUN(damage_and_lack);
  return test_report();
}
