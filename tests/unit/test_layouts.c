/* test_layouts.c: one small model stored in every layout and in the formats that have arrays beside the weights; what is bound must be
 * the same network. Then every way in which such a checkpoint can contradict itself.
 *
 * How the reference becomes another layout is in layout_writer.h. Its values are multiples of 1/8 below 1, which 4-bit affine groups and
 * BF16 both hold exactly. */
#include "bind_check.h"
#include "core/alloc.h"
#include "layout_writer.h"

static bc_loaded l;

static cw_dims dims_of_test(void) {
  return (cw_dims){64, 3, 4, 1, 2, 16, 2, 4, 6, 4, 64, 32, 3, 2, 20, {true, true, false}, {true, false, false}};
}

static void start(const char *edits) {
  cw_dims d = dims_of_test();
  tiny_build(&t, &d, IJ_DTYPE_BF16, edits);
}

static void finish(void) {
  cw_free(&out);
  tiny_free(&t);
}

/* ---------------------------------------------------------------------------------------------------------- opening */

static void write_out(void) { cw_write_tensors(&out, t.folder); }

static void check_same_network(const char *what) {
  ij_err err;
  int before = test_failures;
  write_out();
  CHECK_OK(bc_load(&l, t.folder, &err), err);
  if (l.w.layers) bc_check_everything(&l, &t.file, &t.dims);
  bc_unload(&l);
  if (test_failures > before) printf("   in %s\n", what);
}

/* Writes `out`, expects this status, and looks for the words between '|' in the error. */
static void expect_error(ij_status status, const char *parts) {
  ij_err err;
  write_out();
  CHECK_INT(bc_load(&l, t.folder, &err), status);
  while (*parts) {
    char part[256];
    size_t len = strcspn(parts, "|");
    snprintf(part, sizeof part, "%.*s", (int)len, parts);
    CHECK_HAS(err.message, part);
    parts += len + (parts[len] == '|');
  }
  bc_unload(&l);
}

static void towers_and_mtp(const char *prefix) {
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(3), "%svision_tower.final_norm.weight", prefix);
  cw_add(&out, IJ_DTYPE_U32, CW_DIMS(3), "%saudio_tower.embed_audio_tokens.weight", prefix);
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(3), "model.mtp.layers.0.input_proj.weight");
}

static void mlx_with_original_names(void) {
  start("quantization={\"group_size\":32,\"bits\":4}");
  rename_all(mlx_original, true);
  check_same_network("unquantized");
  make_all_affine(mlp_only, 4, 32, IJ_DTYPE_BF16);
  towers_and_mtp("");
  check_same_network("experts only");
  rename_all(mlx_original, true);
  make_all_affine(all_matrices, 4, 32, IJ_DTYPE_F32);
  check_same_network("uniform");
  finish();
}

static void affine_widths_and_overrides(void) {
  start("quantization={\"group_size\":64,\"bits\":8,\"mode\":\"affine\",\"model.llm.layers.0.attn.wq_du\":{\"bits\":5,\"group_size\":32},"
        "\"model.llm.unembed\":{\"bits\":6},\"model.llm.layers.1.attn.wq_du\":false,\"model.llm.layers.2.attn.wq_du\":true}");
  rename_all(mlx_original, true);
  make_affine("model.llm.layers.0.attn.wq_du.weight", 5, 32, IJ_DTYPE_F16);
  make_affine("model.llm.layers.2.attn.wq_du.weight", 8, 64, IJ_DTYPE_BF16);
  make_affine("model.llm.unembed.weight", 6, 64, IJ_DTYPE_BF16);
  check_same_network("8 bits, and 5 and 6 for some");
  finish();
}

static void fuse_qkvr(void) {
  static const char *const parts[] = {"q", "k", "v", "r"};
  for (int i = 0; i < t.dims.n_layer; i++) {
    int64_t rows = 0, at = 0;
    char name[4][96];
    for (int p = 0; p < 4; p++) {
      snprintf(name[p], 96, "language_model.model.layers.%d.self_attn.%s_proj.weight", i, parts[p]);
      rows += cw_find(&out, name[p])->dims[0];
    }
    cw_tensor *all = cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(rows, 64), "language_model.model.layers.%d.self_attn.qkvr_proj.weight", i);
    for (int p = 0; p < 4; p++) {
      const cw_tensor *x = cw_find(&out, name[p]);
      memcpy(all->values + at, x->values, (size_t)x->n * sizeof(float));
      at += x->n;
    }
    for (int p = 0; p < 4; p++) cw_remove(&out, name[p]);
  }
}

/* [S, I, H] -> [S * I, H]; [S, H, I] -> [H, S * I] */
static void merge_shared(void) {
  for (int i = 0; i < out.n; i++) {
    cw_tensor *x = &out.t[i];
    if (!strstr(x->name, "shared_experts.") || x->n_dims != 3) continue;
    int64_t units = x->dims[0], rows = x->dims[1], cols = x->dims[2];
    bool down = strstr(x->name, "down_proj") != NULL;
    x->n_dims = 2;
    x->dims[0] = down ? rows : units * rows;
    x->dims[1] = down ? units * cols : cols;
    if (!down) continue;
    float *old = x->values;
    x->values = malloc((size_t)x->n * sizeof(float));
    for (int64_t u = 0; u < units; u++) {
      for (int64_t r = 0; r < rows; r++)
        memcpy(x->values + r * units * cols + u * cols, old + (u * rows + r) * cols, (size_t)cols * sizeof(float));
    }
    free(old);
  }
}

static void mlx_with_module_names(void) {
  start("quantization={\"group_size\":32,\"bits\":4}\nquantization_config={\"group_size\":32,\"bits\":4}");
  for (int form = 0; form < 8; form++) {
    char what[80];
    rename_all(mlx_vlm, true);
    if (form & 1) fuse_qkvr();
    if (form & 2) merge_shared();
    if (form & 4) make_all_affine(all_matrices, 4, 32, IJ_DTYPE_BF16);
    towers_and_mtp("");
    cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(3), "language_model.mtp.layers.0.input_proj.weight");
    snprintf(what, sizeof what, "qkvr %s, shared experts %s, %s", form & 1 ? "fused" : "apart", form & 2 ? "merged" : "stacked",
             form & 4 ? "4 bits" : "BF16");
    check_same_network(what);
  }
  finish();
}

/* gate_scale and out_scale multiply gate and down, and nothing else. */
static void factors_that_stand_apart(void) {
  start("");
  rename_all(mlx_vlm, true);
  const int64_t e[] = {3};
  for (int i = 1; i < 3; i++) {
    ij_dtype dtype = i == 1 ? IJ_DTYPE_F32 : IJ_DTYPE_BF16;
    cw_tensor *gate = cw_add(&out, dtype, 1, e, "language_model.model.layers.%d.mlp.switch_mlp.gate_scale", i);
    cw_tensor *down = cw_add(&out, IJ_DTYPE_F32, 1, e, "language_model.model.layers.%d.mlp.switch_mlp.out_scale", i);
    float *w13 = tiny_values(&t, bc_named(i, "mlp.experts.w13_weight")), *w2 = tiny_values(&t, bc_named(i, "mlp.experts.w2_weight"));
    for (int k = 0; k < 3; k++) {
      gate->values[k] = (float)(1 << k);
      down->values[k] = k == 2 ? 0.0f : (float)(4 << k);
      for (int r = 0; r < 64; r += 2) {
        for (int c = 0; c < 64; c++) w13[(k * 64 + r) * 64 + c] *= gate->values[k];
      }
      for (int c = 0; c < 64 * 32; c++) w2[k * 64 * 32 + c] *= down->values[k];
    }
  }
  check_same_network("gate_scale and out_scale");
  cw_find(&out, "language_model.model.layers.2.mlp.switch_mlp.gate_scale")->values[1] = NAN;
  expect_error(IJ_E_FORMAT, "language_model.model.layers.2.mlp.switch_mlp.gate_scale[1] is not a number");
  cw_find(&out, "language_model.model.layers.2.mlp.switch_mlp.gate_scale")->n_dims = 0;
  cw_find(&out, "language_model.model.layers.2.mlp.switch_mlp.gate_scale")->n = 1;
  expect_error(IJ_E_FORMAT, "switch_mlp.gate_scale: expected [3] (n_routed_experts), found []");
  finish();
}

static void transformers_names(void) {
  static const char lead[] = "model.language_model.";
  start("");
  rename_all(modules, false);
  towers_and_mtp("model.");
  check_same_network("multimodal");
  snprintf(cw_find(&out, "model.language_model.embed_norm.weight")->name, 96, "model.language_model.embed_tokens.embed_norm.weight");
  check_same_network("the newer name of embed_norm");
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(64), "model.language_model.embed_norm.weight");
  expect_error(IJ_E_FORMAT, "embed_norm.weight and model.language_model.embed_tokens.embed_norm.weight fill the same place");
  rename_all(modules, false);
  towers_and_mtp("model.");
  for (int i = 0; i < out.n; i++) {
    char name[96];
    if (strncmp(out.t[i].name, lead, strlen(lead)) != 0) continue;
    snprintf(name, sizeof name, "model.%s", out.t[i].name + strlen(lead));
    memcpy(out.t[i].name, name, sizeof name);
  }
  check_same_network("text only");
  finish();
}

/* ------------------------------------------------------------------------------------------------------------- NVFP4 */

static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

/* The reference's experts of a layer become numbers that NVFP4 holds: E2M1 times 1/8 or 1/4 by block, times 2^expert. */
static void nvfp4_values(const char *name) {
  cw_tensor *x = cw_find(&t.file, name);
  int64_t per = x->n / x->dims[0];
  for (int64_t i = 0; i < x->n; i++) {
    uint64_t r = test_random(&t.file.seed);
    x->values[i] = e2m1[r & 7] * (r & 8 ? -1.0f : 1.0f) * (i / 16 % 2 ? 0.25f : 0.125f) * (float)(1 << i / per);
  }
}

/* In `out`: U8 codes, E4M3 scales and factors (reciprocal ones for compressed-tensors). */
static void make_nvfp4(const char *name, bool compressed) {
  cw_tensor *x = cw_find(&out, name);
  int64_t dims[4] = {x->dims[0], x->dims[1], x->dims[2] / 16}, units = x->dims[0], per = x->n / units;
  unsigned char *raw = calloc((size_t)(x->n / 2), 1);
  for (int64_t i = 0; i < x->n; i++) {
    float v = x->values[i] / (i / 16 % 2 ? 0.25f : 0.125f) / (float)(1 << i / per);
    unsigned code = 0;
    while (e2m1[code] != fabsf(v)) code++;
    if (signbit(v)) code |= 8;
    raw[i / 2] |= (unsigned char)(code << (i % 2 * 4));
  }
  x->raw = raw;
  x->dtype = IJ_DTYPE_U8;
  x->n /= 2;
  x->dims[2] /= 2;
  cw_tensor *scale = cw_add(&out, IJ_DTYPE_F8_E4M3, 3, dims, "%s%s", name, compressed ? ".weight_scale" : ".scale");
  scale->raw = malloc((size_t)scale->n);
  for (int64_t i = 0; i < scale->n; i++) scale->raw[i] = i % 2 ? 0x28 : 0x20;
  cw_tensor *factor = cw_add(&out, IJ_DTYPE_F32, 1, &units, "%s%s", name, compressed ? ".weight_global_scale" : ".scale2");
  for (int64_t e = 0; e < units; e++) factor->values[e] = compressed ? 1.0f / (float)(1 << e) : (float)(1 << e);
  if (compressed) snprintf(cw_find(&out, name)->name, 96, "%s.weight_packed", name);
}

static void copy_reference(void) {
  static const rename_row nothing[] = {{NULL, NULL, NULL}};
  rename_all(nothing, false);
}

#define W13 "model.llm.layers.2.mlp.experts.w13_weight"
#define W2 "model.llm.layers.2.mlp.experts.w2_weight"

static void start_nvfp4(bool compressed) {
  start(compressed ? "quantization_config={\"quant_method\":\"compressed-tensors\",\"format\":\"nvfp4-pack-quantized\"}" : "");
  nvfp4_values(W13);
  nvfp4_values(W2);
  copy_reference();
  make_nvfp4(W13, compressed);
  make_nvfp4(W2, compressed);
}

static void nvfp4_of_the_release(void) {
  start_nvfp4(false);
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(1), W13 ".input_amax");
  cw_tensor *shape = cw_add(&out, IJ_DTYPE_I64, CW_DIMS(3), W13 ".original_shape");
  const int64_t dims[] = {3, 64, 64}, wrong[] = {3, 64, 32};
  shape->raw = malloc(sizeof dims);
  memcpy(shape->raw, dims, sizeof dims);
  cw_write_text(t.folder, "hf_quant_config.json", "{\"quantization\":{\"quant_algo\":\"NVFP4\",\"group_size\":16}}");
  check_same_network("one layer of two in NVFP4");
  memcpy(cw_find(&out, W13 ".original_shape")->raw, wrong, sizeof wrong);
  expect_error(IJ_E_FORMAT, W13 ": " W13 ".original_shape contradicts the shape of the weight");
  cw_remove(&out, W13 ".original_shape");
  cw_write_text(t.folder, "hf_quant_config.json", "{\"group_size\":32}");
  expect_error(IJ_E_UNSUPPORTED, "group_size: only 16 is supported, found 32");
  cw_write_text(t.folder, "hf_quant_config.json", "{\"quantization\":{\"group_size\":\"x\"}}");
  expect_error(IJ_E_FORMAT, "group_size: expected an integer, found a string");
  cw_write_text(t.folder, "hf_quant_config.json", "[]");
  expect_error(IJ_E_FORMAT, "expected an object, found an array");
  cw_write_text(t.folder, "hf_quant_config.json", "null");
  expect_error(IJ_E_FORMAT, "expected an object, found null");
  finish();
}

static void nvfp4_of_compressed_tensors(void) {
  start_nvfp4(true);
  cw_add(&out, IJ_DTYPE_F32, CW_DIMS(3), W13 ".input_global_scale");
  check_same_network("compressed-tensors");
  cw_find(&out, W2 ".weight_global_scale")->values[1] = 0;
  expect_error(IJ_E_FORMAT, W2 ".weight_global_scale[1] is 0, and divides");
  cw_remove(&out, W2 ".weight_global_scale");
  expect_error(IJ_E_FORMAT, W2 ".weight_packed: .weight_global_scale is missing beside it");
  finish();
}

static void nvfp4_that_contradicts_itself(void) {
  start_nvfp4(false);
  cw_find(&out, W13 ".scale2")->values[2] = INFINITY;
  expect_error(IJ_E_FORMAT, W13 ".scale2[2] is infinite");
  cw_find(&out, W13 ".scale2")->values[2] = 4;
  cw_reshape(&out, W13 ".scale2", CW_DIMS(1));
  expect_error(IJ_E_FORMAT, W13 ": " W13 ".scale2: expected 3 values, found 1");
  cw_remove(&out, W13 ".scale2");
  expect_error(IJ_E_FORMAT, W13 ": .scale2 is missing beside it");
  finish();
  start_nvfp4(false);
  cw_find(&out, W2 ".scale")->dims[1] = 32;
  cw_find(&out, W2 ".scale")->dims[2] = 4;
  expect_error(IJ_E_FORMAT, W2 ": " W2 ".scale should have the rows of the weight and 2 values in each, found F8_E4M3 [3, 32, 4]");
  cw_find(&out, W2 ".scale")->dims[1] = 64;
  cw_find(&out, W2 ".scale")->dims[2] = 2;
  cw_add(&out, IJ_DTYPE_F32, CW_DIMS(3), W2 ".biases");
  expect_error(IJ_E_FORMAT, W2 ": " W2 ".biases does not go with its form (NVFP4)");
  cw_remove(&out, W2 ".biases");
  cw_remove(&out, W2 ".scale2");
  cw_remove(&out, W2 ".scale");
  expect_error(IJ_E_FORMAT, W2 ": expected F32, BF16 or F16, found U8 without its scales");
  finish();
}

/* ------------------------------------------------------------------------------------------------------- MLX, errors */

#define WQ "model.llm.layers.0.attn.wq_du"

static void start_mlx(const char *edits) {
  start(edits);
  rename_all(mlx_original, true);
  make_affine(WQ ".weight", 4, 32, IJ_DTYPE_BF16);
}

static void mlx_dictionary_against_shapes(void) {
  static const char *const cases[][2] = {
      {"quantization={\"group_size\":32,\"bits\":8}", WQ ".weight: quantization.bits of the config is 8, but the shapes|make it 4"},
      {"quantization={\"group_size\":64,\"bits\":4}", "quantization.group_size of the config is 64, but the shapes|make it 32"},
      {"quantization_config={\"group_size\":64}", "quantization_config.group_size of the config is 64"},
      {"quantization={\"group_size\":32,\"bits\":4,\"" WQ "\":false}",
       "quantization." WQ " of the config is false (not quantized), but scales"},
      {"quantization={\"group_size\":32,\"bits\":4,\"" WQ "\":{\"bits\":3}}", "quantization." WQ ".bits of the config is 3"},
      {"quantization={\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\"}", "quantization.mode of the config is mxfp4, but|make it affine"},
      {"quantization={\"bits\":\"4\"}", "quantization.bits of the config: expected an integer, found a string"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    start_mlx(cases[i][0]);
    expect_error(IJ_E_FORMAT, cases[i][1]);
    finish();
  }
  start_mlx(""); /* without a dictionary the shapes are enough */
  check_same_network("no dictionary");
  finish();
}

static void mlx_that_contradicts_itself(void) {
  start_mlx("quantization={\"group_size\":32,\"bits\":4}");
  cw_find(&out, WQ ".biases")->dtype = IJ_DTYPE_F16;
  expect_error(IJ_E_FORMAT, WQ ".weight: its scales and biases should both be BF16, F16 or F32, found BF16 and F16");
  cw_remove(&out, WQ ".biases");
  expect_error(IJ_E_FORMAT, "quantization.mode of the config is affine, but|its scales and the absence of biases make it mxfp4");
  cw_remove(&out, WQ ".scales");
  expect_error(IJ_E_FORMAT, WQ ".weight: expected F32, BF16 or F16, found U32 without its scales");
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(64, 2), WQ ".biases");
  expect_error(IJ_E_FORMAT, WQ ".biases does not go with its form (unquantized)");
  finish();
  start_mlx("");
  cw_remove(&out, WQ ".weight");
  expect_error(IJ_E_FORMAT, WQ ".weight is missing");
  finish();
  start_mlx("");
  cw_reshape(&out, WQ ".scales", CW_DIMS(64, 3));
  expect_error(IJ_E_FORMAT, WQ ".weight: 8 words and 3 scales per row do not divide into rows of 64 values");
  cw_reshape(&out, WQ ".scales", CW_DIMS(64, 4));
  expect_error(IJ_E_FORMAT, WQ ".biases should have the rows of the weight and 4 values in each, found BF16 [64, 2]");
  cw_reshape(&out, WQ ".biases", CW_DIMS(64, 4));
  expect_error(IJ_E_FORMAT, "its shapes make it 4 bits in groups of 16; affine weights have");
  cw_reshape(&out, WQ ".scales", CW_DIMS(32, 2));
  expect_error(IJ_E_FORMAT, WQ ".scales should have the rows of the weight and 2 values in each, found BF16 [32, 2]");
  finish();
  start("");
  rename_all(mlx_original, true);
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(64, 2), WQ ".scales");
  expect_error(IJ_E_FORMAT, WQ ".weight: expected U32, because .scales stands beside it, found BF16");
  finish();
}

/* The three floating modes are told by group and bits. */
static void mlx_floating_modes(void) {
  static const struct {
    const char *mode;
    int bits, group;
    ij_dtype dtype;
  } modes[] = {{"mxfp4", 4, 32, IJ_DTYPE_MXFP4_SPLIT}, {"mxfp8", 8, 32, IJ_DTYPE_MXFP8_SPLIT}, {"nvfp4", 4, 16, IJ_DTYPE_NVFP4_SPLIT}};
  for (int i = 0; i < 3; i++) {
    char edits[128];
    ij_err err;
    snprintf(edits, sizeof edits, "quantization={\"mode\":\"%s\"}", modes[i].mode);
    start(edits);
    rename_all(mlx_original, true);
    cw_find(&out, WQ ".weight")->dtype = IJ_DTYPE_U32;
    cw_reshape(&out, WQ ".weight", CW_DIMS(64, 64 * modes[i].bits / 32));
    cw_add(&out, IJ_DTYPE_U8, CW_DIMS(64, 64 / modes[i].group), WQ ".scales");
    write_out();
    CHECK_OK(bc_load(&l, t.folder, &err), err);
    if (l.w.layers) {
      const ij_weight *w = &l.w.layers[0].wq;
      CHECK(w->dtype == modes[i].dtype && w->group == modes[i].group && !w->biases && w->side_stride == 64 / modes[i].group);
      CHECK_INT(w->row_stride, 64 * modes[i].bits / 8);
    }
    bc_unload(&l);
    cw_find(&out, WQ ".scales")->dtype = IJ_DTYPE_I8;
    expect_error(IJ_E_FORMAT, WQ ".scales: expected U8, found I8");
    finish();
  }
  start("");
  rename_all(mlx_original, true);
  cw_find(&out, WQ ".weight")->dtype = IJ_DTYPE_U32;
  cw_reshape(&out, WQ ".weight", CW_DIMS(64, 12));
  cw_add(&out, IJ_DTYPE_U8, CW_DIMS(64, 2), WQ ".scales");
  expect_error(IJ_E_FORMAT, "it has no .biases, and 6 bits in groups of 32 are neither mxfp4");
  finish();
}

/* ------------------------------------------------------------------------------------------------------------- slots */

static void two_sources_or_none(void) {
  start("");
  rename_all(mlx_vlm, true);
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(64 + 64 + 8, 64), "language_model.model.layers.0.self_attn.qkvr_proj.weight");
  expect_error(IJ_E_FORMAT, "self_attn.q_proj.weight and language_model.model.layers.0.self_attn.qkvr_proj.weight fill the same place");
  rename_all(mlx_vlm, true);
  cw_remove(&out, "language_model.model.layers.1.mlp.e_score_correction_bias");
  cw_remove(&out, "language_model.model.layers.1.mlp.global_scale");
  expect_error(IJ_E_FORMAT, "layers.1.mlp.e_score_correction_bias is missing, expected [3] (n_routed_experts) (mlx-vlm up to 0.6.8 loses|"
                            "layers.1.mlp.global_scale is missing, expected one value, [1] or [] (mlx-vlm up to 0.6.8");
  rename_all(mlx_vlm, true);
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(3), "language_model.model.layers.0.self_attn.extra");
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(3), "language_model.model.layers.0.mlp.gate_weight");
  expect_error(IJ_E_FORMAT, "layers.0.self_attn.extra is not a tensor of this network|"
                            "layers.0.mlp.gate_weight is not expected: layer 0 is dense");
  finish();
  start("");
  copy_reference();
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(64, 64), "model.llm.layers.0.mlp.gate_proj.weight");
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(64, 64), "model.llm.layers.0.mlp.down_proj.weight");
  expect_error(IJ_E_FORMAT, "mlp.w13_dn.weight and model.llm.layers.0.mlp.gate_proj.weight fill the same place|"
                            "mlp.w2_md.weight and model.llm.layers.0.mlp.down_proj.weight fill the same place");
  rename_all(mlx_original, true);
  cw_remove(&out, "model.llm.layers.0.mlp.up_proj.weight");
  cw_remove(&out, "model.llm.layers.1.mlp.experts.gate_proj.weight");
  cw_remove(&out, "model.llm.layers.1.mlp.experts.up_proj.weight");
  cw_remove(&out, "model.llm.layers.2.mlp.experts.down_proj.weight");
  expect_error(IJ_E_FORMAT, "model.llm.layers.0.mlp.up_proj.weight is missing, expected [64, 64] (dense width, hidden_size)|"
                            "model.llm.layers.1.mlp.experts.gate_proj.weight is missing, expected [3, 32, 64]|"
                            "model.llm.layers.2.mlp.experts.down_proj.weight is missing");
  finish();
}

/* Merged shared experts of 32 columns each cannot be cut out of groups of 64. */
static void merged_experts_that_cannot_be_cut(void) {
  start("");
  rename_all(mlx_vlm, true);
  merge_shared();
  make_affine("language_model.model.layers.1.mlp.shared_experts.down_proj.weight", 4, 64, IJ_DTYPE_BF16);
  expect_error(IJ_E_FORMAT, "shared_experts.down_proj.weight: merged shared experts of width 32 cannot be cut apart in groups of 64");
  cw_reshape(&out, "language_model.model.layers.2.mlp.shared_experts.gate_proj.weight", CW_DIMS(65, 64));
  expect_error(IJ_E_FORMAT, "gate_proj.weight: expected [64, 64] (n_shared_experts * expert width, hidden_size), found [65, 64]");
  finish();
}

/* -------------------------------------------------------------------------------------------------------- accounting */

/* Bytes and values by hand from what was written, embedding and idle experts taken out. */
static void check_counts(const char *lead) {
  int64_t params = 0;
  size_t bytes = 0, active = 0;
  ij_err err;
  write_out();
  CHECK_OK(bc_load(&l, t.folder, &err), err);
  for (int i = 0; i < out.n; i++) {
    const cw_tensor *x = &out.t[i];
    size_t n = (size_t)(x->n * ij__dtype_block_bytes(x->dtype));
    if (strncmp(x->name, lead, strlen(lead)) != 0 || strstr(x->name, "input_amax")) continue;
    bytes += n;
    if (strstr(x->name, "unembed") || strstr(x->name, "lm_head"))
      n = n / 20 * 18;
    else if (strstr(x->name, ".embed.") || strstr(x->name, "embed_tokens"))
      n = n / 20;
    else if (strstr(x->name, ".mlp.experts.") || strstr(x->name, "switch_mlp"))
      n = n / 3 * 2;
    active += n;
  }
  for (int i = 0; i < t.file.n; i++) params += t.file.t[i].n;
  CHECK_INT(l.w.weight_bytes, bytes);
  CHECK_INT(l.w.active_bytes, active);
  CHECK_INT(l.w.n_params, params);
  ij_weight_stat sum = {0};
  for (int k = 0; k < IJ_CLASS_COUNT; k++) {
    for (int d = 0; d < IJ_DTYPE_COUNT; d++) {
      const ij_weight_stat *s = &l.w.stats[k][d];
      CHECK((s->n_matrices > 0) == (s->n_bytes > 0));
      sum.n_values += s->n_values;
      sum.n_values_active += s->n_values_active;
      sum.n_bytes += s->n_bytes;
      sum.active_bytes += s->active_bytes;
    }
  }
  CHECK(sum.n_values == l.w.n_params && sum.n_values_active == l.w.n_params_active);
  CHECK(sum.n_bytes == l.w.weight_bytes && sum.active_bytes == l.w.active_bytes);
}

static void counts(void) {
  start("");
  rename_all(mlx_vlm, true);
  fuse_qkvr();
  merge_shared();
  make_all_affine(all_matrices, 4, 32, IJ_DTYPE_BF16);
  cw_add(&out, IJ_DTYPE_F32, CW_DIMS(3), "language_model.model.layers.1.mlp.switch_mlp.gate_scale");
  check_counts("language_model.");
  const ij_weight_stat *s = &l.w.stats[IJ_CLASS_ROUTED][IJ_DTYPE_AFFINE4];
  CHECK_INT(s->group, 32);
  CHECK_INT(s->n_matrices, 6);
  CHECK_INT(s->n_values, 2 * 3 * 3 * 32 * 64);
  CHECK_INT(s->n_bytes, 2 * 3 * 3 * 32 * 64 * 5 / 8 + 12); /* 4 bits, 32 bits of scale and bias in 32 values; the factors */
  CHECK_STR(ij__weight_class_name(IJ_CLASS_ROUTED), "routed experts");
  bc_unload(&l);
  finish();
  start_nvfp4(false);
  cw_add(&out, IJ_DTYPE_BF16, CW_DIMS(1), W13 ".input_amax");
  check_counts("model.llm.");
  CHECK_INT(l.w.stats[IJ_CLASS_ROUTED][IJ_DTYPE_NVFP4_SPLIT].n_bytes, 3 * 3 * 32 * 64 * 9 / 16 + 24);
  bc_unload(&l);
  finish();
}

static void memory_that_fails(void) {
  ij_err err;
  start_nvfp4(false);
  write_out();
  CHECK_OK(bc_load(&l, t.folder, &err), err);
  ij__weights_free(&l.w);
  int64_t blocks = ij__alloc_blocks(), n = 1;
  for (ij_status s = IJ_E_NOMEM; s == IJ_E_NOMEM && n < 100; n++) {
    ij__alloc_fail_after(n);
    s = ij__config_read(&l.config, l.ckpt, &err);
    if (s == IJ_OK) s = ij__weights_bind(&l.w, &l.config, l.ckpt, &err);
    ij__alloc_fail_after(0);
    if (s == IJ_OK) break;
    CHECK_INT(s, IJ_E_NOMEM);
    CHECK_INT(ij__alloc_blocks(), blocks);
  }
  CHECK(n > 3 && n < 100);
  bc_unload(&l);
  finish();
}

/* A tensor takes other dimensions, and with them bytes that are all zero. */
static void resize(cw_tensor *x, int n_dims, const int64_t *dims) {
  int64_t n = 1;
  bool empty = false;
  for (int i = 0; i < n_dims; i++) empty = empty || dims[i] == 0;
  for (int i = 0; i < n_dims; i++) {
    x->dims[i] = dims[i];
    n = empty ? 0 : n * dims[i];
  }
  x->n_dims = n_dims;
  x->n = n;
  free(x->raw);
  x->raw = calloc((size_t)n * 8 + 1, 1);
}

static void damage(uint64_t *seed) {
  static const char *const suffixes[] = {".scales", ".biases", ".scale", ".scale2", ".weight_packed", ".weight_scale",
                                         ".weight_global_scale", ".original_shape", ".qs", "x"};
  static const int64_t sizes[] = {0, 1, 2, 3, 4, 8, 31, 32, 64, 65, 96, 128, 192};
  cw_tensor *x = &out.t[test_random(seed) % (uint64_t)out.n];
  int64_t dims[4] = {x->dims[0], x->dims[1], x->dims[2], x->dims[3]};
  uint64_t r = test_random(seed);
  int n_dims = x->n_dims;
  switch (test_random(seed) % 6) {
    case 0: /* another type of the same size of item would keep the bytes; any other needs new ones */
      x->dtype = (ij_dtype)(r % (IJ_DTYPE_BOOL + 1));
      resize(x, n_dims, dims);
      break;
    case 1:
      if (n_dims) dims[r % (uint64_t)n_dims] = sizes[test_random(seed) % IJ_COUNT_OF(sizes)];
      resize(x, n_dims, dims);
      break;
    case 2:
      if (n_dims < 4) dims[n_dims++] = sizes[r % IJ_COUNT_OF(sizes)];
      resize(x, n_dims, dims);
      break;
    case 3:
      if (n_dims) resize(x, n_dims - 1, dims);
      break;
    case 4:
      if (n_dims < 2) break;
      dims[0] = 0; /* nothing is stored, so that the other numbers may be anything */
      dims[n_dims - 1] = INT64_C(1) << (r % 60);
      resize(x, n_dims, dims);
      break;
    default: {
      const char *suffix = suffixes[r % IJ_COUNT_OF(suffixes)];
      char name[96];
      snprintf(name, sizeof name, "%.95s", sibling(x->name, suffix));
      for (int i = 0; i < out.n; i++) {
        if (strcmp(out.t[i].name, name) == 0) return;
      }
      memcpy(x->name, name, sizeof name);
    }
  }
}

/* Whatever is wrong with a checkpoint, it is refused with a message or loads; nothing is read out of bounds and nothing stays allocated. */
static void random_damage(void) {
  uint64_t seed = 20261129;
  int n_good = 0, n_bad = 0;
  enum { N = TEST_EMULATED(400, 60) };
  for (int i = 0; i < N; i++) {
    ij_err err;
    if (i % 4 == 3) {
      start_nvfp4(i % 8 == 3);
    } else {
      start(i % 4 == 2 ? "" : "quantization={\"group_size\":32,\"bits\":4}");
      rename_all(i % 4 == 0 ? mlx_original : i % 4 == 1 ? mlx_vlm : modules, i % 4 < 2);
      if (i % 4 < 2) make_all_affine(all_matrices, 4, 32, IJ_DTYPE_BF16);
    }
    int64_t blocks = ij__alloc_blocks();
    for (uint64_t k = test_random(&seed) % 3 + 1; k > 0; k--) damage(&seed);
    write_out();
    ij_status s = bc_load(&l, t.folder, &err);
    CHECK(s == IJ_OK || s == IJ_E_FORMAT || s == IJ_E_UNSUPPORTED);
    n_good += s == IJ_OK;
    n_bad += s != IJ_OK;
    if (s == IJ_OK) {
      volatile float sum = 0;
      for (int row = 0; row < 20; row++) sum += bc_row(&l.w.embed, row)[0] + bc_row(&l.w.unembed, row)[63];
    }
    bc_unload(&l);
    CHECK_INT(ij__alloc_blocks(), blocks);
    finish();
  }
  CHECK(n_bad > N * 3 / 4 && n_good > N / 100);
}

int main(void) {
  int64_t blocks = ij__alloc_blocks();
  RUN(mlx_with_original_names);
  RUN(affine_widths_and_overrides);
  RUN(mlx_with_module_names);
  RUN(factors_that_stand_apart);
  RUN(transformers_names);
  RUN(nvfp4_of_the_release);
  RUN(nvfp4_of_compressed_tensors);
  RUN(nvfp4_that_contradicts_itself);
  RUN(mlx_dictionary_against_shapes);
  RUN(mlx_that_contradicts_itself);
  RUN(mlx_floating_modes);
  RUN(two_sources_or_none);
  RUN(merged_experts_that_cannot_be_cut);
  RUN(counts);
  RUN(memory_that_fails);
  RUN(random_damage);
  CHECK_INT(ij__alloc_blocks(), blocks);
  return test_report();
}
