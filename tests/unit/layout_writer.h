/* layout_writer.h: a small model in another layout or in formats that have arrays beside the weights.
 *
 * The reference `t` is in original names (ckpt_writer.h). A layout is a table of new names here, written from the descriptions of the
 * formats and not from the product's tables; `out` is what it becomes. For one test program: all of it is static. */
#ifndef IJ_LAYOUT_WRITER_H
#define IJ_LAYOUT_WRITER_H

#include "tiny.h"

static tiny t;       /* the reference, in original names */
static cw_model out; /* what is written */

/* --------------------------------------------------------------------------------------------------------- renaming */

/* Original name after "model.llm." (# for the layer) -> the name in the layout; two names: gate and up apart; '|': in halves. */
typedef struct rename_row {
  const char *from, *to, *up;
} rename_row;

static const rename_row mlx_original[] = {
    {"layers.#.mlp.w13_dn.weight", "model.llm.layers.#.mlp.gate_proj.weight", "model.llm.layers.#.mlp.up_proj.weight"},
    {"layers.#.mlp.w2_md.weight", "model.llm.layers.#.mlp.down_proj.weight", NULL},
    {"layers.#.mlp.experts.w13_weight", "model.llm.layers.#.mlp.experts.gate_proj.weight", "model.llm.layers.#.mlp.experts.up_proj.weight"},
    {"layers.#.mlp.experts.w2_weight", "model.llm.layers.#.mlp.experts.down_proj.weight", NULL},
    {"layers.#.mlp.shared_experts.shared_w13_weight", "model.llm.layers.#.mlp.shared_experts.gate_proj.weight",
     "model.llm.layers.#.mlp.shared_experts.up_proj.weight"},
    {"layers.#.mlp.shared_experts.shared_w2_weight", "model.llm.layers.#.mlp.shared_experts.down_proj.weight", NULL},
    {NULL, NULL, NULL},
};

#define VLM "language_model.model.layers.#."
static const rename_row mlx_vlm[] = {
    {"embed.weight", "language_model.model.embed_tokens.weight", NULL},
    {"embed_norm.weight", "language_model.model.embed_norm.weight", NULL},
    {"norm.weight", "language_model.model.norm.weight", NULL},
    {"unembed.weight", "language_model.lm_head.weight", NULL},
    {"layers.#.attn_norm.weight", VLM "input_layernorm.weight", NULL},
    {"layers.#.attn.wq_du.weight", VLM "self_attn.q_proj.weight", NULL},
    {"layers.#.attn.wk_dv.weight", VLM "self_attn.k_proj.weight", NULL},
    {"layers.#.attn.wv_dv.weight", VLM "self_attn.v_proj.weight", NULL},
    {"layers.#.attn.wr_du.weight", VLM "self_attn.r_proj.weight", NULL},
    {"layers.#.attn.wo_ud.weight", VLM "self_attn.o_proj.weight", NULL},
    {"layers.#.attn.q_norm.weight", VLM "self_attn.q_norm.weight", NULL},
    {"layers.#.attn.k_norm.weight", VLM "self_attn.k_norm.weight", NULL},
    {"layers.#.attn.k_sconv.weight", VLM "self_attn.k_sconv.conv.weight", NULL},
    {"layers.#.attn.v_sconv.weight", VLM "self_attn.v_sconv.conv.weight", NULL},
    {"layers.#.attn.rel_logits_proj.proj", VLM "self_attn.rel_proj", NULL},
    {"layers.#.attn_sconv.weight", VLM "attn_sconv.conv.weight", NULL},
    {"layers.#.mlp_norm.weight", VLM "post_attention_layernorm.weight", NULL},
    {"layers.#.mlp_sconv.weight", VLM "mlp_sconv.conv.weight", NULL},
    {"layers.#.mlp.w13_dn.weight", VLM "mlp.gate_proj.weight", VLM "mlp.up_proj.weight"},
    {"layers.#.mlp.w2_md.weight", VLM "mlp.down_proj.weight", NULL},
    {"layers.#.mlp.global_scale", VLM "mlp.global_scale", NULL},
    {"layers.#.mlp.gate.weight", VLM "mlp.gate_weight", NULL},
    {"layers.#.mlp.gate.bias", VLM "mlp.e_score_correction_bias", NULL},
    {"layers.#.mlp.gate.global_scale", VLM "mlp.global_scale", NULL},
    {"layers.#.mlp.experts.w13_weight", VLM "mlp.switch_mlp.gate_proj.weight", VLM "mlp.switch_mlp.up_proj.weight"},
    {"layers.#.mlp.experts.w2_weight", VLM "mlp.switch_mlp.down_proj.weight", NULL},
    {"layers.#.mlp.shared_experts.shared_w13_weight", VLM "mlp.shared_experts.gate_proj.weight", VLM "mlp.shared_experts.up_proj.weight"},
    {"layers.#.mlp.shared_experts.shared_w2_weight", VLM "mlp.shared_experts.down_proj.weight", NULL},
    {NULL, NULL, NULL},
};

#define MOD "model.language_model.layers.#."
static const rename_row modules[] = {
    {"embed.weight", "model.language_model.embed_tokens.weight", NULL},
    {"embed_norm.weight", "model.language_model.embed_norm.weight", NULL},
    {"norm.weight", "model.language_model.norm.weight", NULL},
    {"unembed.weight", "lm_head.weight", NULL},
    {"layers.#.attn_norm.weight", MOD "input_layernorm.weight", NULL},
    {"layers.#.attn.wq_du.weight", MOD "self_attn.q_proj.weight", NULL},
    {"layers.#.attn.wk_dv.weight", MOD "self_attn.k_proj.weight", NULL},
    {"layers.#.attn.wv_dv.weight", MOD "self_attn.v_proj.weight", NULL},
    {"layers.#.attn.wr_du.weight", MOD "self_attn.r_proj.weight", NULL},
    {"layers.#.attn.wo_ud.weight", MOD "self_attn.o_proj.weight", NULL},
    {"layers.#.attn.q_norm.weight", MOD "self_attn.q_norm.weight", NULL},
    {"layers.#.attn.k_norm.weight", MOD "self_attn.k_norm.weight", NULL},
    {"layers.#.attn.k_sconv.weight", MOD "self_attn.k_sconv.conv1d.weight", NULL},
    {"layers.#.attn.v_sconv.weight", MOD "self_attn.v_sconv.conv1d.weight", NULL},
    {"layers.#.attn.rel_logits_proj.proj", MOD "self_attn.rel_logits_proj.proj", NULL},
    {"layers.#.attn_sconv.weight", MOD "attn_sconv.conv1d.weight", NULL},
    {"layers.#.mlp_norm.weight", MOD "post_attention_layernorm.weight", NULL},
    {"layers.#.mlp_sconv.weight", MOD "mlp_sconv.conv1d.weight", NULL},
    {"layers.#.mlp.w13_dn.weight", MOD "mlp.gate_proj.weight", MOD "mlp.up_proj.weight"},
    {"layers.#.mlp.w2_md.weight", MOD "mlp.down_proj.weight", NULL},
    {"layers.#.mlp.global_scale", MOD "mlp.global_scale", NULL},
    {"layers.#.mlp.gate.weight", MOD "mlp.gate.weight", NULL},
    {"layers.#.mlp.gate.bias", MOD "mlp.gate.e_score_correction_bias", NULL},
    {"layers.#.mlp.gate.global_scale", MOD "mlp.gate.global_scale", NULL},
    {"layers.#.mlp.experts.w13_weight", "|" MOD "mlp.experts.gate_up_proj", NULL},
    {"layers.#.mlp.experts.w2_weight", MOD "mlp.experts.down_proj", NULL},
    {"layers.#.mlp.shared_experts.shared_w13_weight", MOD "mlp.shared_experts.gate_proj", MOD "mlp.shared_experts.up_proj"},
    {"layers.#.mlp.shared_experts.shared_w2_weight", MOD "mlp.shared_experts.down_proj", NULL},
    {NULL, NULL, NULL},
};

/* "model.llm.layers.2.x" -> "layers.#.x" and 2; -1 for tensors of the model as a whole. */
static int shorten(const char *name, char *buf, size_t size) {
  int layer = -1, n = 0;
  const char *rest = name + strlen("model.llm.");
  if (sscanf(rest, "layers.%d.%n", &layer, &n) == 1)
    snprintf(buf, size, "layers.#.%s", rest + n);
  else
    snprintf(buf, size, "%s", rest);
  return layer;
}

static const char *lengthen(const char *pattern, int layer) {
  static char buf[2][96];
  static int turn;
  char *p = buf[turn++ & 1];
  const char *hash = strchr(pattern, '#');
  if (hash)
    snprintf(p, 96, "%.*s%d%s", (int)(hash - pattern), pattern, layer, hash + 1);
  else
    snprintf(p, 96, "%s", pattern);
  return p;
}

static cw_tensor *add_like(const cw_tensor *from, const char *name) {
  return cw_add(&out, from->dtype, from->n_dims, from->dims, "%s", name);
}

static int64_t rows_of(const cw_tensor *x) { return x->n / x->dims[x->n_dims - 1]; }

/* Row r of `to` becomes row from_row(r) of `from`. */
static void copy_row(cw_tensor *to, int64_t r, const cw_tensor *from, int64_t from_row) {
  int64_t cols = from->dims[from->n_dims - 1];
  memcpy(to->values + r * cols, from->values + from_row * cols, (size_t)cols * sizeof(float));
}

static void put_halves(const cw_tensor *from, const char *name) {
  cw_tensor *to = add_like(from, name);
  int64_t per = from->dims[from->n_dims - 2], half = per / 2;
  for (int64_t r = 0; r < rows_of(to); r++) {
    int64_t unit = r / per, i = r % per;
    copy_row(to, r, from, unit * per + (i < half ? 2 * i : 2 * (i - half) + 1));
  }
}

static void put_apart(const cw_tensor *from, const char *name, int up) {
  int64_t dims[4];
  memcpy(dims, from->dims, sizeof dims);
  dims[from->n_dims - 2] /= 2;
  cw_tensor *to = cw_add(&out, from->dtype, from->n_dims, dims, "%s", name);
  for (int64_t r = 0; r < rows_of(to); r++) copy_row(to, r, from, 2 * r + up);
}

static const rename_row *row_for(const rename_row *table, const char *name) {
  while (table->from && strcmp(table->from, name) != 0) table++;
  return table->from ? table : NULL;
}

static void rename_all(const rename_row *table, bool mlx) {
  cw_free(&out);
  for (int i = 0; i < t.file.n; i++) {
    const cw_tensor *x = &t.file.t[i];
    char name[96];
    int layer = shorten(x->name, name, sizeof name);
    const rename_row *row = row_for(table, name);
    if (row && row->up) {
      put_apart(x, lengthen(row->to, layer), 0);
      put_apart(x, lengthen(row->up, layer), 1);
    } else if (row && row->to[0] == '|') {
      put_halves(x, lengthen(row->to + 1, layer));
    } else {
      cw_tensor *to = add_like(x, row ? lengthen(row->to, layer) : x->name);
      memcpy(to->values, x->values, (size_t)x->n * sizeof(float));
      if (mlx && to->n_dims == 3 && to->dims[1] == 1) {
        to->dims[1] = to->dims[2];
        to->dims[2] = 1;
      }
    }
  }
}

/* ------------------------------------------------------------------------------------------------------- quantizing */

static void put_bits(unsigned char *row, int64_t i, int bits, unsigned code) {
  for (int b = 0; b < bits; b++) {
    int64_t at = i * bits + b;
    if (code >> b & 1) row[at / 8] |= (unsigned char)(1u << (at % 8));
  }
}

static const char *sibling(const char *name, const char *suffix) {
  static char buf[128];
  size_t n = strlen(name);
  if (n > 7 && strcmp(name + n - 7, ".weight") == 0) n -= 7;
  snprintf(buf, sizeof buf, "%.*s%s", (int)n, name, suffix);
  return buf;
}

/* A tensor of `out` becomes U32 words of `bits` bits beside scales and biases. Even groups have scale 1/8 and bias -1, odd ones -1/8
 * and 1. */
static void make_affine(const char *name, int bits, int group, ij_dtype side) {
  cw_tensor *x = cw_find(&out, name);
  int64_t cols = x->dims[x->n_dims - 1], rows = rows_of(x), n_group = cols / group, dims[4];
  unsigned char *raw = calloc((size_t)(rows * cols * bits / 8), 1);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      float v = x->values[r * cols + c];
      put_bits(raw + r * cols * bits / 8, c, bits, (unsigned)lrintf(8 * (c / group % 2 ? 1 - v : v + 1)));
    }
  }
  memcpy(dims, x->dims, sizeof dims);
  dims[x->n_dims - 1] = n_group;
  int n_dims = x->n_dims;
  x->raw = raw;
  x->dtype = IJ_DTYPE_U32;
  x->dims[n_dims - 1] = cols * bits / 32;
  x->n = rows * cols * bits / 32;
  cw_tensor *scales = cw_add(&out, side, n_dims, dims, "%s", sibling(name, ".scales"));
  cw_tensor *biases = cw_add(&out, side, n_dims, dims, "%s", sibling(name, ".biases"));
  for (int64_t i = 0; i < scales->n; i++) {
    bool odd = i % n_group % 2;
    scales->values[i] = odd ? -0.125f : 0.125f;
    biases->values[i] = odd ? 1 : -1;
  }
}

/* Every matrix of `out` whose name has one of the words. */
static void make_all_affine(const char *const *words, int bits, int group, ij_dtype side) {
  for (int i = 0, n = out.n; i < n; i++) {
    bool hit = false;
    for (const char *const *w = words; *w; w++) hit = hit || strstr(out.t[i].name, *w);
    if (hit) make_affine(out.t[i].name, bits, group, side);
  }
}

static const char *const mlp_only[] = {"gate_proj.weight", "up_proj.weight", "down_proj.weight", NULL};
static const char *const all_matrices[] = {
    "gate_proj.weight", "up_proj.weight", "down_proj.weight", "wq_du",  "wk_dv",  "wv_dv",  "wr_du",     "wo_ud",
    "embed.weight",     "q_proj",         "k_proj",           "v_proj", "r_proj", "o_proj", "qkvr_proj", "embed_tokens.weight",
    "lm_head",          NULL};

#endif
