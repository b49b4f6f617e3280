/* test_weights.c: every field of ij_weights against the values that were written, in three types; every way a checkpoint can be wrong;
 * failing memory; and the lease contract of the mapped experts. */
#include "bind_check.h"
#include "core/alloc.h"

static char folder[256];
static cw_model model; /* what was written last */

static bc_loaded l;

static ij_status load(ij_err *err) { return bc_load(&l, folder, err); }
static void unload(void) { bc_unload(&l); }

static void build(ij_dtype dtype) {
  cw_dims s = cw_usual();
  cw_free(&model);
  cw_build(&model, &s, dtype);
  cw_write_config(folder, "", false);
}

/* Writes the edited model, expects this status, and looks for the words between '|' in the error. */
static void expect_error(ij_status status, const char *parts) {
  ij_err err;
  cw_write_tensors(&model, folder);
  CHECK_INT(load(&err), status);
  while (*parts) {
    char part[256];
    size_t len = strcspn(parts, "|");
    snprintf(part, sizeof part, "%.*s", (int)len, parts);
    CHECK_HAS(err.message, part);
    parts += len + (parts[len] == '|');
  }
  unload();
}

static void expect_good(void) {
  ij_err err;
  cw_write_tensors(&model, folder);
  CHECK_OK(load(&err), err);
  unload();
}

/* ------------------------------------------------------------------------------------------------------------- values */

static void check_everything(void) {
  cw_dims s = cw_usual();
  bc_check_everything(&l, &model, &s);
}

static void every_value_in_every_type(void) {
  static const ij_dtype types[] = {IJ_DTYPE_F32, IJ_DTYPE_BF16, IJ_DTYPE_F16};
  for (size_t i = 0; i < 3; i++) {
    ij_err err;
    build(types[i]);
    cw_write_tensors(&model, folder);
    CHECK_OK(load(&err), err);
    if (l.w.layers) check_everything();
    unload();
  }
}

/* Types may be mixed at will, and convolutions and scalars have several shapes. */
static void accepted_variants(void) {
  ij_err err;
  build(IJ_DTYPE_BF16);
  cw_find(&model, "model.llm.unembed.weight")->dtype = IJ_DTYPE_F32;
  cw_find(&model, "model.llm.layers.2.mlp.experts.w2_weight")->dtype = IJ_DTYPE_F16;
  cw_find(&model, "model.llm.layers.2.mlp.gate.bias")->dtype = IJ_DTYPE_BF16;
  cw_find(&model, "model.llm.layers.3.attn_norm.weight")->dtype = IJ_DTYPE_F32;
  cw_reshape(&model, "model.llm.layers.0.attn.k_sconv.weight", CW_DIMS(8, 4, 1));
  cw_reshape(&model, "model.llm.layers.0.attn.v_sconv.weight", CW_DIMS(8, 4));
  cw_reshape(&model, "model.llm.layers.5.mlp_sconv.weight", CW_DIMS(8, 4, 1));
  cw_find(&model, "model.llm.layers.0.mlp.global_scale")->n_dims = 0;
  cw_find(&model, "model.llm.layers.2.mlp.gate.global_scale")->n_dims = 0;
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(3, 3), "model.visual.layers.linear_0.weight");
  cw_add(&model, IJ_DTYPE_I64, CW_DIMS(2), "model.audio.encoder.weight");
  cw_add(&model, IJ_DTYPE_U8, CW_DIMS(2), "model.mtp.layers.0.input_proj.weight");
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(2), "model.llm.layers.2.mlp.experts.w13_weight.input_amax");
  cw_add(&model, IJ_DTYPE_I64, CW_DIMS(3), "model.llm.layers.2.mlp.experts.w13_weight.original_shape");
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(2), "something.else");
  cw_write_tensors(&model, folder);
  CHECK_OK(load(&err), err);
  if (l.w.layers) check_everything();
  unload();
}

/* Row 2i of w13 is gate row i and row 2i + 1 is up row i: putting the rows back gives the stored bytes. */
static void interleaving_round_trip(void) {
  ij_err err;
  build(IJ_DTYPE_BF16);
  cw_write_tensors(&model, folder);
  CHECK_OK(load(&err), err);
  if (l.w.layers) {
    const ij_mlp *m = &l.w.layers[1].mlp;
    const ij_tensor_view *t = ij__ckpt_find(l.ckpt, "model.llm.layers.1.mlp.w13_dn.weight");
    char back[32 * 8 * 2];
    for (int i = 0; i < 16; i++) {
      memcpy(back + (2 * i) * 16, (const char *)m->gate.data + i * m->gate.row_stride, 16);
      memcpy(back + (2 * i + 1) * 16, (const char *)m->up.data + i * m->up.row_stride, 16);
    }
    CHECK_INT(t->n_bytes, sizeof back);
    CHECK(memcmp(back, t->data, sizeof back) == 0);
  }
  unload();
}

static void counts(void) {
  ij_err err;
  build(IJ_DTYPE_BF16);
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(100), "model.mtp.layers.0.input_proj.weight");
  cw_write_tensors(&model, folder);
  CHECK_OK(load(&err), err);
  int64_t params = 0, active = 0;
  size_t bytes = 0, active_bytes = 0;
  for (int i = 0; i < model.n; i++) {
    const cw_tensor *t = &model.t[i];
    int64_t n = t->n;
    size_t item = (size_t)ij__dtype_block_bytes(t->dtype);
    if (strncmp(t->name, "model.llm.", 10) != 0) continue;
    params += n;
    bytes += (size_t)n * item;
    if (strcmp(t->name, "model.llm.embed.weight") == 0) n = 8;
    if (strcmp(t->name, "model.llm.unembed.weight") == 0) n = 18 * 8;
    if (strstr(t->name, ".mlp.experts.")) n = n / 4 * 2;
    active += n;
    active_bytes += (size_t)n * item;
  }
  CHECK_INT(l.w.n_params, params);
  CHECK_INT(l.w.n_params_active, active);
  CHECK_INT(l.w.weight_bytes, bytes);
  CHECK_INT(l.w.active_bytes, active_bytes);
  unload();
}

static void tied_embedding(void) {
  ij_err err;
  build(IJ_DTYPE_BF16);
  cw_remove(&model, "model.llm.unembed.weight");
  expect_error(IJ_E_FORMAT, "model.llm.unembed.weight is missing, expected [20, 8] (vocab_size, hidden_size)");
  cw_write_config(folder, "text.tie_word_embeddings=true", false);
  CHECK_OK(load(&err), err);
  CHECK(l.w.unembed.data != NULL && l.w.unembed.data == l.w.embed.data);
  unload();
}

/* ------------------------------------------------------------------------------------------------------------- errors */

static void everything_wrong_in_one_list(void) {
  build(IJ_DTYPE_BF16);
  cw_remove(&model, "model.llm.layers.3.mlp.gate.bias");
  cw_remove(&model, "model.llm.layers.0.mlp.global_scale");
  cw_remove(&model, "model.llm.layers.4.mlp.gate.global_scale");
  cw_find(&model, "model.llm.layers.1.attn.wo_ud.weight")->dtype = IJ_DTYPE_I16;
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(1), "model.llm.layers.0.attn.extra.weight");
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(8), "model.llm.layers.6.attn_norm.weight");
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(1), "model.llm.layers.5.mlp.global_scale");
  cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(8), "model.llm.layers.05.attn_norm.weight");
  static const char *const want =
      "layers.3.mlp.gate.bias is missing, expected [4] (n_routed_experts)|layers.0.mlp.global_scale is missing, expected one value|"
      "layers.4.mlp.gate.global_scale is missing|layers.1.attn.wo_ud.weight: expected F32, BF16 or F16, found I16|"
      "layers.0.attn.extra.weight is not a tensor of this network|layers.6.attn_norm.weight is not expected: num_hidden_layers is 6|"
      "layers.5.mlp.global_scale is not expected: layer 5 is a mixture of experts|layers.05.attn_norm.weight is not a tensor";
  expect_error(IJ_E_FORMAT, want);
  /* a wrong shape is already found while the configuration is read, and then the rest is listed beside it */
  cw_reshape(&model, "model.llm.layers.2.mlp.gate.global_scale", CW_DIMS(2));
  expect_error(IJ_E_FORMAT, "layers.2.mlp.gate.global_scale: expected one value, [1] or [], found [2]");
  expect_error(IJ_E_FORMAT, want);
}

static void wrong_shapes(void) {
  static const struct {
    const char *name;
    int n_dims;
    int64_t dims[4];
    const char *want;
  } cases[] = {
      {"model.llm.embed_norm.weight", 2, {8, 1}, "expected [8] (hidden_size), found [8, 1]"},
      {"model.llm.embed_norm.weight", 0, {0}, "expected [8] (hidden_size), found []"},
      {"model.llm.layers.0.attn.k_sconv.weight", 3, {8, 2, 2}, "expected [8, 4]"},
      {"model.llm.layers.0.attn.k_sconv.weight", 1, {32}, "found [32]"},
      {"model.llm.layers.0.attn.k_sconv.weight", 2, {4, 8}, "found [4, 8]"},
      {"model.llm.layers.0.attn_sconv.weight", 4, {8, 1, 4, 1}, "found [8, 1, 4, 1]"},
      {"model.llm.layers.5.attn.rel_logits_proj.proj", 2, {6, 2}, "expected [2, 6]"},
      {"model.llm.layers.2.mlp.experts.w13_weight", 2, {64, 8}, "expected [4, 16, 8]"},
      {"model.llm.layers.2.mlp.experts.w13_weight", 3, {4, 8, 16}, "found [4, 8, 16]"},
      {"model.llm.layers.2.mlp.shared_experts.shared_w2_weight", 3, {1, 8, 8}, "expected [2, 8, 8]"},
      {"model.llm.unembed.weight", 2, {18, 8}, "expected [20, 8]"},
      {"model.llm.layers.0.mlp.global_scale", 2, {1, 1}, "expected one value, [1] or [], found [1, 1]"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    build(IJ_DTYPE_F32);
    cw_reshape(&model, cases[i].name, cases[i].n_dims, cases[i].dims);
    expect_error(IJ_E_FORMAT, cases[i].want);
  }
}

static void values_that_are_not_finite(void) {
  static const char *const names[] = {"model.llm.norm.weight", "model.llm.layers.0.attn.v_sconv.weight",
                                      "model.llm.layers.5.attn.rel_logits_proj.proj", "model.llm.layers.3.mlp.gate.bias"};
  static const ij_dtype types[] = {IJ_DTYPE_F32, IJ_DTYPE_BF16, IJ_DTYPE_F16};
  for (size_t i = 0; i < 12; i++) {
    char want[128];
    build(types[i % 3]);
    cw_find(&model, names[i / 3])->values[2] = i % 2 ? NAN : -INFINITY;
    snprintf(want, sizeof want, "not finite: %s[2] is %s", names[i / 3], i % 2 ? "not a number" : "infinite");
    expect_error(IJ_E_FORMAT, want);
  }
  build(IJ_DTYPE_BF16);
  cw_find(&model, "model.llm.layers.4.mlp.gate.global_scale")->values[0] = NAN;
  cw_find(&model, "model.llm.layers.1.mlp.global_scale")->values[0] = INFINITY;
  expect_error(IJ_E_FORMAT, "2 tensors|layers.1.mlp.global_scale[0] is infinite|layers.4.mlp.gate.global_scale[0] is not a number");
  build(IJ_DTYPE_BF16); /* matrices are not looked at */
  cw_find(&model, "model.llm.embed.weight")->values[0] = NAN;
  expect_good();
}

static void matrices_off_their_alignment(void) {
  build(IJ_DTYPE_BF16);
  model.header_pad = 1;
  expect_error(IJ_E_UNSUPPORTED, "model.llm.embed.weight: its BF16 values do not start at a multiple of 2 bytes|padded to 8");
  model.header_pad = 2; /* enough for BF16; the F32 vectors are read byte by byte */
  expect_good();
}

/* Storage forms that are recognized and not read, and names of two layouts at once. */
static void other_forms(void) {
  build(IJ_DTYPE_BF16);
  cw_add(&model, IJ_DTYPE_F32, CW_DIMS(4), "model.llm.layers.0.mlp.w2_md.qs");
  expect_error(IJ_E_UNSUPPORTED, "one scale per row (.qs), e.g. model.llm.layers.0.mlp.w2_md.qs");
  build(IJ_DTYPE_BF16);
  cw_find(&model, "model.llm.layers.0.attn.wq_du.weight")->dtype = IJ_DTYPE_F8_E4M3;
  expect_error(IJ_E_UNSUPPORTED, "8-bit floating-point weights, e.g. model.llm.layers.0.attn.wq_du.weight");
  static const char *const foreign[][2] = {{"language_model.model.norm.weight", "MLX module names"},
                                           {"model.language_model.norm.weight", "transformers module names"},
                                           {"model.layers.0.input_layernorm.weight", "text only"},
                                           {"blk.0.attn_norm.weight", "GGUF names"}};
  for (size_t i = 0; i < IJ_COUNT_OF(foreign); i++) {
    build(IJ_DTYPE_BF16);
    cw_add(&model, IJ_DTYPE_BF16, CW_DIMS(8), "%s", foreign[i][0]);
    expect_error(IJ_E_FORMAT, "names of two layouts: original names, e.g. model.llm.embed.weight, and ");
    expect_error(IJ_E_FORMAT, foreign[i][1]);
  }
}

static void memory_that_fails(void) {
  ij_err err;
  build(IJ_DTYPE_BF16);
  cw_write_tensors(&model, folder);
  CHECK_OK(load(&err), err);
  ij__weights_free(&l.w);
  int64_t blocks = ij__alloc_blocks();
  int64_t n = 1;
  for (ij_status s = IJ_E_NOMEM; s != IJ_OK && n < 100; n++) {
    ij__alloc_fail_after(n);
    s = ij__weights_bind(&l.w, &l.config, l.ckpt, &err);
    ij__alloc_fail_after(0);
    if (s == IJ_OK) break;
    CHECK_INT(s, IJ_E_NOMEM);
    CHECK_INT(err.code, IJ_E_NOMEM);
    CHECK_INT(ij__alloc_blocks(), blocks);
    CHECK(l.w.layers == NULL && l.w.experts == NULL && l.w.floats == NULL);
  }
  CHECK(n > 3 && n < 100);
  ij__weights_free(&l.w);
  CHECK_INT(ij__alloc_blocks(), blocks);
  unload();
}

/* -------------------------------------------------------------------------------------------------------- names, leases */

/* Every row of every layout, with every sidecar it may have, is found again by its name. */
static void names_both_ways(void) {
  for (int k = 0; k < IJ_LAYOUT_COUNT; k++) {
    const ij_layout *layout = ij__layout((ij_layout_id)k);
    for (int i = 0; i < layout->n_rows; i++) {
      const ij_name_row *row = &layout->rows[i], *found = NULL;
      const ij_tensor_spec *spec = ij__tensor_spec(row->id);
      bool whole = spec->place == IJ_IN_MODEL, sides = layout->sidecars && spec->kind == IJ_TENSOR_MATRIX && row->part != IJ_PART_FACTOR;
      for (int j = 0; j < (sides ? IJ_SIDE_COUNT : 1); j++) {
        char name[IJ_TENSOR_NAME_MAX];
        int layer = 0;
        ij_side side = IJ_SIDE_COUNT;
        found = NULL;
        ij__name_of(name, layout, row, 1023, (ij_side)j);
        while ((found = ij__name_parse(layout, found, name, &layer, &side)) && found != row) continue;
        if (found != row || (int)side != j || layer != (whole ? -1 : 1023)) TEST_FAIL("%s is not found again", name);
      }
    }
  }
  static const char *const strangers[] = {"model.llm.layers.1.embed.weight", "model.llm.attn_norm.weight",
                                          "model.llm.layers.x.attn_norm.weight", "model.llm.layers.1.attn_norm.weight.scale",
                                          "model.llm.layers..attn_norm.weight", "model.llm.layers.99999999999999999999.attn_norm.weight",
                                          "model.llm.layers.-1.attn_norm.weight", "model.llm.layers.01.attn_norm.weight",
                                          "model.mtp.layers.0.embed_norm.weight", "model.audio.final_norm.weight", "", "model.llm."};
  ij_names names = {.layout = ij__layout(IJ_LAYOUT_ORIGINAL)};
  for (size_t i = 0; i < IJ_COUNT_OF(strangers); i++) CHECK(!ij__name_is_decoder(&names, strangers[i]));
  CHECK(ij__name_is_decoder(&names, "model.llm.layers.1.attn_norm.weight"));
}

/* Values in the tensors of one layer (-1: of the model as a whole) under a config. */
static int64_t values_of(const ij_config *c, int layer, int *n_tensors) {
  int64_t sum = 0;
  for (int i = 0; i < IJ_T_COUNT; i++) {
    int64_t dims[IJ_TENSOR_MAX_SPEC_DIMS], n = 1;
    if (!ij__tensor_expected(c, (ij_tensor_id)i, layer)) continue;
    for (int d = ij__tensor_shape(dims, c, (ij_tensor_id)i, layer); d > 0; d--) n *= dims[d - 1];
    sum += n;
    ++*n_tensors;
  }
  return sum;
}

/* All values and tensors of a release: decoder by the table, the 8 depths of multi-token prediction as dense layers of the same table
 * plus their own three tensors, and the towers, which are always the same. */
static int64_t values_of_release(ij_config *c, int *n_tensors) {
  int64_t h = c->hidden, sum = 0;
  for (int i = -1; i < c->n_layer; i++) sum += values_of(c, i, n_tensors);
  for (int depth = 0; depth < 8; depth++) {
    c->dense[0] = true;
    c->sliding[0] = depth != 1 && depth != 3;
    sum += values_of(c, 0, n_tensors) + 2 * h + 2 * h * h;
    *n_tensors += 3;
  }
  *n_tensors += 10;
  return sum + 128 * 75 + 320 * 512 + 4800 * 5120 + h * 9600 + 128 + 320 + 4800 + h + 1280 * h + h;
}

/* The published numbers of values and tensors of both releases come out of the table exactly. */
static void counts_of_the_releases(void) {
  static ij_config c;
  for (int small = 0; small < 2; small++) {
    c = (ij_config){.n_layer = small ? 42 : 66, .hidden = small ? 4096 : 6144, .vocab = 201024, .d_rel = 16, .conv_kernel = 4};
    int heads = small ? 32 : 64;
    c.attn[0] = (ij_attn_dims){heads, 8, 128, 1024};
    c.attn[1] = (ij_attn_dims){heads, small ? 8 : 16, 128, 512};
    c.dense_width = small ? 16384 : 24576;
    c.expert_width = small ? 2048 : 3072;
    c.n_expert = 256;
    c.n_shared = 2;
    for (int i = 0; i < c.n_layer; i++) {
      c.sliding[i] = i % 6 != 5;
      c.dense[i] = i < 2;
    }
    int n_tensors = 0;
    CHECK_INT(values_of_release(&c, &n_tensors), small ? INT64_C(265956439090) : INT64_C(952377623626));
    CHECK_INT(n_tensors, small ? 1048 : 1552);
  }
}

static void leases(void) {
  static const float data[3 * 4];
  ij_weight w = {.data = data, .dtype = IJ_DTYPE_F32, .rows = 1, .cols = 2, .row_stride = 8};
  ij_expert_bank banks[2] = {{.gate = {w, 16, 0, NULL}, .up = {w, 16, 0, NULL}, .down = {w, 16, 0, NULL}}};
  ij_experts *home;
  ij_expert_lease got[3];
  ij_err err;
  int64_t blocks = ij__alloc_blocks();
  ij__alloc_fail_after(1);
  CHECK_INT(ij__experts_open_mapped(&home, &(ij_expert_banks){banks, 2, 3}, &err), IJ_E_NOMEM);
  ij__alloc_fail_after(0);
  CHECK(home == NULL);
  CHECK_INT(ij__experts_open_mapped(&home, &(ij_expert_banks){banks, -1, 3}, &err), IJ_E_ARGUMENT);
  CHECK_OK(ij__experts_open_mapped(&home, &(ij_expert_banks){banks, 2, 3}, &err), err);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){0, 2}, 2, got), 2);
  CHECK_INT(ij__experts_live(home), 2);
  CHECK((const char *)got[1].down.data == (const char *)data + 32);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){1}, 1, got + 2), 1);
  CHECK_INT(ij__experts_live(home), 3);
  ij__experts_release(home, got, 3);
  CHECK_INT(ij__experts_live(home), 0);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){0, 2}, 2, got), 2); /* may be taken again once given back */
  ij__experts_release(home, got, 2);
  CHECK_INT(ij__experts_acquire(home, 1, (const int[]){0}, 1, got), IJ_E_ARGUMENT); /* a layer without experts */
  CHECK_INT(ij__experts_acquire(home, 2, (const int[]){0}, 1, got), IJ_E_ARGUMENT);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){3}, 1, got), IJ_E_ARGUMENT);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){-1}, 1, got), IJ_E_ARGUMENT);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){2, 1}, 2, got), IJ_E_ARGUMENT);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){1, 1}, 2, got), IJ_E_ARGUMENT);
  CHECK_INT(ij__experts_acquire(home, 0, (const int[]){1}, 0, got), IJ_E_ARGUMENT);
  CHECK_INT(ij__experts_live(home), 0);
  ij__experts_close(&home);
  ij__experts_close(&home);
  CHECK_INT(ij__alloc_blocks(), blocks);
}

int main(void) {
  int64_t blocks = ij__alloc_blocks();
  cw_make_folder(folder, sizeof folder);
  RUN(every_value_in_every_type);
  RUN(accepted_variants);
  RUN(interleaving_round_trip);
  RUN(counts);
  RUN(tied_embedding);
  RUN(everything_wrong_in_one_list);
  RUN(wrong_shapes);
  RUN(values_that_are_not_finite);
  RUN(matrices_off_their_alignment);
  RUN(other_forms);
  RUN(memory_that_fails);
  RUN(names_both_ways);
  RUN(counts_of_the_releases);
  RUN(leases);
  cw_remove_folder(folder);
  cw_free(&model);
  CHECK_INT(ij__alloc_blocks(), blocks);
  return test_report();
}
