/* test_config_gguf.c: a small model written as GGUF: its metadata edited key by key, and what is bound in float and block types.
 *
 * A case sets or removes keys of the usual metadata ("d_rel=3", "d_rel"); `want` is looked for in a summary of the configuration when the
 * case is good, and every part of it between '|' in the error otherwise. */
#include "bind_check.h"
#include "core/alloc.h"
#include "gguf_writer.h"
#include "tiny.h"

static tiny t; /* the reference, in original names */
static bc_loaded l;
static char path[512];

/* ---------------------------------------------------------------------------------------------------------- metadata */

typedef struct key {
  char name[64], value[64]; /* 7: u32; 7.5: f32; [1,2]: list of u32; b[1,0]: of bool; "x": string */
} key;

static const char *const usual =
    "general.architecture=\"inkling\"\nblock_count=3\nembedding_length=32\nvocab_size=20\nunpadded_vocab_size=18\ncontext_length=4096\n"
    "feed_forward_length=64\nattention.head_count=4\nattention.head_count_kv=[2,2,1]\nattention.key_length=16\nattention.value_length=16\n"
    "attention.layer_norm_rms_epsilon=0.5\nattention.sliding_window=4\nattention.sliding_window_pattern=b[1,1,0]\nexpert_count=3\n"
    "expert_used_count=2\nexpert_shared_count=2\nexpert_feed_forward_length=32\nexpert_weights_scale=8.0\nexpert_gating_func=2\nd_rel=2\n"
    "rel_extent=6\nrel_extent_swa=4\nshortconv_kernel=4\ndense_block_count=1\nlogit_scale_denom=16.0\nlog_scaling_n_floor=1000\n"
    "log_scaling_alpha=0.25\ntokenizer.ggml.eos_token_id=17\n";

static int apply(key *k, int n, const char *edits) {
  while (*edits) {
    size_t len = strcspn(edits, "\n"), name_len = strcspn(edits, "=\n");
    int at = 0;
    while (at < n && (strlen(k[at].name) != name_len || strncmp(k[at].name, edits, name_len) != 0)) at++;
    if (name_len == len) {
      if (at == n) {
        printf("the edit \"%s\" removes nothing\n", edits);
        exit(2);
      }
      k[at] = k[--n];
    } else {
      if (at == n) n++;
      snprintf(k[at].name, sizeof k[at].name, "%.*s", (int)name_len, edits);
      snprintf(k[at].value, sizeof k[at].value, "%.*s", (int)(len - name_len - 1), edits + name_len + 1);
    }
    edits += len + (edits[len] == '\n');
  }
  return n;
}

static void put_key(gw_file *f, const key *k) {
  char name[128], text[64];
  bool whole = strncmp(k->name, "general.", 8) == 0 || strncmp(k->name, "tokenizer.", 10) == 0, flags = k->value[0] == 'b';
  snprintf(name, sizeof name, "%s%s", whole ? "" : "inkling.", k->name);
  if (k->value[0] == '"') {
    snprintf(text, sizeof text, "%.*s", (int)strlen(k->value) - 2, k->value + 1);
    gw_string(f, name, text);
  } else if (k->value[0] == '[' || flags) {
    uint64_t n = 0;
    char *p = strchr(k->value, '[') ? (char *)(uintptr_t)(strchr(k->value, '[') + 1) : NULL;
    for (const char *q = p; *q; q++) n += *q == ',' || *q == ']';
    gw_array(f, name, flags ? IJ_GGUF_BOOL : IJ_GGUF_I32, n);
    for (; n > 0; n--, p++) gw_number(&f->values, (uint64_t)strtol(p, &p, 10), flags ? 1 : 4);
  } else if (strchr(k->value, '.')) {
    gw_f32(f, name, strtof(k->value, NULL));
  } else {
    gw_int(f, name, IJ_GGUF_I32, strtol(k->value, NULL, 10));
  }
}

/* ----------------------------------------------------------------------------------------------------------- tensors */

static const char *const names[][3] = {
    {"embed.weight", "token_embd.weight", NULL},
    {"embed_norm.weight", "token_embd_norm.weight", NULL},
    {"norm.weight", "output_norm.weight", NULL},
    {"unembed.weight", "output.weight", NULL},
    {"attn_norm.weight", "attn_norm.weight", NULL},
    {"attn.wq_du.weight", "attn_q.weight", NULL},
    {"attn.wk_dv.weight", "attn_k.weight", NULL},
    {"attn.wv_dv.weight", "attn_v.weight", NULL},
    {"attn.wr_du.weight", "attn_r.weight", NULL},
    {"attn.wo_ud.weight", "attn_output.weight", NULL},
    {"attn.q_norm.weight", "attn_q_norm.weight", NULL},
    {"attn.k_norm.weight", "attn_k_norm.weight", NULL},
    {"attn.k_sconv.weight", "shortconv_k.weight", NULL},
    {"attn.v_sconv.weight", "shortconv_v.weight", NULL},
    {"attn.rel_logits_proj.proj", "attn_rel_proj.weight", NULL},
    {"attn_sconv.weight", "shortconv_attn.weight", NULL},
    {"mlp_norm.weight", "ffn_norm.weight", NULL},
    {"mlp_sconv.weight", "shortconv_mlp.weight", NULL},
    {"mlp.w13_dn.weight", "ffn_gate.weight", "ffn_up.weight"},
    {"mlp.w2_md.weight", "ffn_down.weight", NULL},
    {"mlp.global_scale", "ffn_gscale.weight", NULL},
    {"mlp.gate.weight", "ffn_gate_inp.weight", NULL},
    {"mlp.gate.bias", "exp_probs_b.bias", NULL},
    {"mlp.gate.global_scale", "ffn_gscale.weight", NULL},
    {"mlp.experts.w13_weight", "ffn_gate_exps.weight", "ffn_up_exps.weight"},
    {"mlp.experts.w2_weight", "ffn_down_exps.weight", NULL},
    {"mlp.shared_experts.shared_w13_weight", "ffn_gate_shexp.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_experts.shared_w2_weight", "ffn_down_shexp.weight", NULL},
};

enum { F32 = 0, Q4_1 = 3, Q8_0 = 8, BF16 = 30 };

static struct {
  size_t at, n;
  unsigned char *bytes;
} data[256];
static int n_data;

/* Row `row` of x in a type that holds its values, multiples of 1/8 from -7/8 on, exactly. Returns its bytes. */
static size_t encode_row(unsigned char *to, const float *x, int64_t n, int type) {
  unsigned char *p = to;
  uint16_t eighth = ij__ref_to_f16(0.125f), low = ij__ref_to_f16(-1);
  for (int64_t i = 0; i < n; i += 32) {
    int64_t len = type == F32 || type == BF16 ? IJ_MIN(n - i, (int64_t)32) : 32;
    if (type == Q8_0 || type == Q4_1) memcpy(p, &eighth, 2), p += 2;
    if (type == Q4_1) memcpy(p, &low, 2), p += 2, memset(p, 0, 16);
    for (int64_t j = 0; j < len; j++) {
      uint16_t h = ij__ref_to_bf16(x[i + j]);
      if (type == F32) memcpy(p + 4 * j, &x[i + j], 4);
      if (type == BF16) memcpy(p + 2 * j, &h, 2);
      if (type == Q8_0) p[j] = (unsigned char)(int)lrintf(8 * x[i + j]);
      if (type == Q4_1) p[j % 16] |= (unsigned char)((int)lrintf(8 * x[i + j] + 8) << (j / 16 * 4));
    }
    p += type == F32 ? 4 * len : type == BF16 ? 2 * len : type == Q8_0 ? 32 : 16;
  }
  return (size_t)(p - to);
}

/* Rows first, first + step, ... of x as a tensor. */
static void put_tensor(gw_file *f, const cw_tensor *x, const char *name, int64_t first, int64_t step, int type) {
  uint64_t ne[4];
  int n_dims = x->n_dims == 3 && x->dims[1] == 1 ? 2 : x->n_dims; /* convolutions have no middle dimension here */
  int64_t cols = x->dims[x->n_dims - 1], rows = x->n / cols / step;
  for (int i = 0; i < n_dims; i++) ne[i] = (uint64_t)x->dims[x->n_dims - 1 - i];
  if (n_dims == 2) ne[1] = (uint64_t)x->dims[0];
  if (n_dims > 1) ne[1] /= (uint64_t)step;
  unsigned char *bytes = malloc((size_t)(rows * cols * 4));
  size_t n = 0;
  for (int64_t r = 0; r < rows; r++) n += encode_row(bytes + n, x->values + (first + r * step) * cols, cols, type);
  data[n_data].at = (size_t)f->data_bytes;
  data[n_data].n = n;
  data[n_data++].bytes = bytes;
  gw_tensor(f, name, (uint32_t)type, n_dims, ne, n);
}

static void put_one(gw_file *f, const cw_tensor *x, int gate_type, int up_type, int matrix_type) {
  int layer = -1, n = 0;
  const char *rest = x->name + strlen("model.llm.");
  if (sscanf(rest, "layers.%d.%n", &layer, &n) == 1) rest += n;
  for (size_t i = 0; i < IJ_COUNT_OF(names); i++) {
    char stored[2][64];
    if (strcmp(names[i][0], rest) != 0) continue;
    for (int k = 0; k < 2 && names[i][k + 1]; k++) {
      if (layer >= 0)
        snprintf(stored[k], 64, "blk.%d.%s", layer, names[i][k + 1]);
      else
        snprintf(stored[k], 64, "%s", names[i][k + 1]);
    }
    bool small = x->n_dims == 1 || strstr(rest, "sconv") || strstr(rest, "rel_logits") || strcmp(rest, "mlp.gate.weight") == 0;
    put_tensor(f, x, stored[0], 0, names[i][2] ? 2 : 1, names[i][2] ? gate_type : small ? F32 : matrix_type);
    if (names[i][2]) put_tensor(f, x, stored[1], 1, 2, up_type);
    return;
  }
  printf("%s has no place in a GGUF file\n", x->name);
  exit(2);
}

static void write_file(const char *edits, int gate_type, int up_type, int matrix_type, const char *skip, const char *extra) {
  static key keys[64];
  gw_file f = gw_new();
  int n = apply(keys, apply(keys, 0, usual), edits);
  for (int i = 0; i < n; i++) put_key(&f, &keys[i]);
  n_data = 0;
  for (int i = 0; i < t.file.n; i++) {
    if (!skip || strcmp(t.file.t[i].name, skip) != 0) put_one(&f, &t.file.t[i], gate_type, up_type, matrix_type);
  }
  if (extra) gw_tensor(&f, extra, F32, GW_NE(4), 16);
  size_t data_bytes = (size_t)f.data_bytes;
  ij_buf b = gw_finish(&f);
  for (int i = 0; i < n_data; i++) {
    memcpy(b.data + b.len - data_bytes + data[i].at, data[i].bytes, data[i].n);
    free(data[i].bytes);
  }
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(b.data, 1, b.len, out) != b.len || fclose(out) != 0) {
    perror(path);
    exit(2);
  }
  ij__buf_free(&b);
}

static void start(void) {
  cw_dims d = {32, 3, 4, 1, 2, 16, 2, 4, 6, 4, 64, 32, 3, 2, 20, {true, true, false}, {true, false, false}};
  tiny_build(&t, &d, IJ_DTYPE_F32, "");
  snprintf(path, sizeof path, "%s/model.gguf", t.folder);
}

/* ------------------------------------------------------------------------------------------------------------- tests */

static void check_error(ij_status status, const char *parts) {
  ij_err err;
  CHECK_INT(bc_load(&l, path, &err), status);
  while (*parts) {
    char part[256];
    size_t len = strcspn(parts, "|");
    snprintf(part, sizeof part, "%.*s", (int)len, parts);
    CHECK_HAS(err.message, part);
    parts += len + (parts[len] == '|');
  }
  bc_unload(&l);
}

static void same_network(void) {
  static const int types[][3] = {{F32, F32, F32}, {Q8_0, Q8_0, Q8_0}, {Q4_1, Q8_0, F32}, {F32, Q4_1, Q4_1}};
  for (size_t i = 0; i < IJ_COUNT_OF(types); i++) {
    ij_err err;
    write_file("", types[i][0], types[i][1], types[i][2], NULL, "v.hmlp.0.linear.weight");
    CHECK_OK(bc_load(&l, path, &err), err);
    if (l.w.layers) bc_check_everything(&l, &t.file, &t.dims);
    bc_unload(&l);
  }
}

static void tensors_that_are_wrong(void) {
  write_file("", F32, F32, F32, "model.llm.layers.1.mlp.gate.bias", NULL);
  check_error(IJ_E_FORMAT, "blk.1.exp_probs_b.bias is missing, expected [3] (expert_count)");
  write_file("", F32, F32, F32, "model.llm.layers.0.mlp.w13_dn.weight", NULL);
  check_error(IJ_E_FORMAT, "blk.0.ffn_gate.weight is missing, expected [64, 32] (feed_forward_length, embedding_length)");
  write_file("", F32, F32, F32, NULL, "blk.0.ffn_gate.bias");
  check_error(IJ_E_FORMAT, "blk.0.ffn_gate.bias is not a tensor of this network");
  write_file("", F32, F32, F32, NULL, "blk.3.attn_norm.weight");
  check_error(IJ_E_FORMAT, "blk.3.attn_norm.weight is not expected: inkling.block_count is 3");
  write_file("", F32, F32, F32, NULL, "blk.0.ffn_gate.scales"); /* nothing stands beside a matrix in GGUF */
  check_error(IJ_E_FORMAT, "blk.0.ffn_gate.scales is not a tensor of this network");
  write_file("embedding_length=64", F32, F32, F32, NULL, NULL);
  check_error(IJ_E_FORMAT, "token_embd.weight: expected [20, 64] (vocab_size, embedding_length), found [20, 32]");
}

static void summarize(const ij_config *c, char *buf, size_t size) {
  snprintf(buf, size, "L=%d H=%d V=%d U=%d ctx=%lld g=%d/%d/%d/%d s=%d/%d/%d/%d win=%d drel=%d floor=%g alpha=%g eps=%g K=%d D=%d I=%d E=%d "
           "k=%d SH=%d scale=%g div=%g tied=%d kinds=%d%d%d mlp=%d%d%d eos=%d:%d mtp=%d;", c->n_layer, c->hidden, c->vocab,
           c->unpadded_vocab, (long long)c->max_context, c->attn[0].n_head, c->attn[0].n_kv_head, c->attn[0].head_dim, c->attn[0].rel_extent,
           c->attn[1].n_head, c->attn[1].n_kv_head, c->attn[1].head_dim, c->attn[1].rel_extent, c->window, c->d_rel, c->n_floor,
           c->log_alpha, (double)c->eps, c->conv_kernel, c->dense_width, c->expert_width, c->n_expert, c->n_expert_used, c->n_shared,
           (double)c->route_scale, (double)c->logit_divisor, c->tied, c->sliding[0], c->sliding[1], c->sliding[2], c->dense[0], c->dense[1],
           c->dense[2], c->n_eos, (int)c->eos[0], c->n_mtp);
}

static void keys_that_are_good(void) {
  static const char *const cases[][2] = {
      {"", "L=3 H=32 V=20 U=18 ctx=4096 g=4/1/16/6 s=4/2/16/4 win=4 drel=2 floor=1000 alpha=0.25 eps=0.5 K=4 D=64 I=32 E=3 k=2 SH=2 scale=8 "
           "div=16 tied=0 kinds=110 mlp=100 eos=1:17 mtp=0;"},
      {"unpadded_vocab_size=0\nlog_scaling_alpha", "U=20|alpha=0 "},
      {"unpadded_vocab_size\nlog_scaling_n_floor\ntokenizer.ggml.eos_token_id", "U=20|floor=0 |eos=0:0"},
      {"context_length\nattention.value_length\nrel_extent_swa", "ctx=1048576"},
      {"final_logit_softcapping=0.0\nexpert_weights_norm=1\nnextn_predict_layers=2\nrope.freq_base=10000.0", "mtp=2"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    ij_err err;
    char summary[512];
    write_file(cases[i][0], F32, F32, F32, NULL, NULL);
    CHECK_OK(bc_load(&l, path, &err), err);
    summarize(&l.config, summary, sizeof summary);
    for (const char *p = cases[i][1]; *p;) {
      char part[256];
      size_t len = strcspn(p, "|");
      snprintf(part, sizeof part, "%.*s", (int)len, p);
      CHECK_HAS(summary, part);
      p += len + (p[len] == '|');
    }
    bc_unload(&l);
  }
}

static void keys_that_are_bad(void) {
  static const struct {
    const char *edits;
    ij_status status;
    const char *want;
  } cases[] = {
      {"general.architecture=\"llama\"", IJ_E_UNSUPPORTED, "general.architecture: only inkling is supported, found \"llama\""},
      {"general.architecture=7", IJ_E_UNSUPPORTED, "general.architecture: only inkling is supported, found 7"},
      {"general.architecture", IJ_E_FORMAT, "general.architecture is missing"},
      {"block_count", IJ_E_FORMAT, "inkling.block_count is missing"},
      {"block_count=0", IJ_E_FORMAT, "inkling.block_count: expected an integer from 1 to 1024, found 0"},
      {"block_count=2", IJ_E_FORMAT, "attention.sliding_window_pattern: expected a list of 2 values, one per layer, found a list of 3"},
      {"embedding_length=1.5", IJ_E_FORMAT, "inkling.embedding_length: expected an integer from 1 to 16777216, found 1.5"},
      {"embedding_length=\"x\"\nd_rel=[2]", IJ_E_FORMAT, "inkling.embedding_length: expected an integer|found \"x\"|d_rel: expected an integer"},
      {"attention.head_count\nvocab_size\nshortconv_kernel\nlogit_scale_denom\nattention.key_length\nd_rel\nrel_extent", IJ_E_FORMAT,
       "head_count is missing|vocab_size is missing|shortconv_kernel is missing|logit_scale_denom is missing|key_length is missing|"
       "inkling.d_rel is missing|rel_extent is missing"},
      {"attention.sliding_window\nattention.layer_norm_rms_epsilon\nfeed_forward_length\ndense_block_count", IJ_E_FORMAT,
       "attention.sliding_window is missing|layer_norm_rms_epsilon is missing|dense_block_count is missing"},
      {"feed_forward_length\nexpert_count\nexpert_used_count\nexpert_shared_count\nexpert_feed_forward_length", IJ_E_FORMAT,
       "inkling.feed_forward_length is missing|expert_count is missing|expert_used_count is missing|expert_shared_count is missing|"
       "expert_feed_forward_length is missing"},
      {"expert_weights_scale\nexpert_gating_func", IJ_E_FORMAT, "expert_weights_scale is missing|expert_gating_func is missing"},
      {"expert_gating_func=1", IJ_E_UNSUPPORTED, "inkling.expert_gating_func: only 2 is supported, found 1"},
      {"final_logit_softcapping=30.0", IJ_E_UNSUPPORTED, "final_logit_softcapping: only 0 is supported, found 30"},
      {"expert_weights_norm=0", IJ_E_UNSUPPORTED, "expert_weights_norm: only 1 is supported, found 0"},
      {"logit_scale_denom=0.0", IJ_E_FORMAT, "logit_scale_denom: expected a number from 1e-06 to 1e+06, found 0"},
      {"attention.head_count_kv=[2,1,1]", IJ_E_FORMAT, "attention.head_count_kv[1] is 1, but other sliding layers have 2"},
      {"attention.head_count_kv=[2,2,0]", IJ_E_FORMAT, "attention.head_count_kv[2]: expected 1 to 4096"},
      {"attention.head_count_kv=[3,3,1]", IJ_E_FORMAT, "attention.head_count is 4, which inkling.attention.head_count_kv = 3 does not divide"},
      {"attention.head_count_kv=2", IJ_E_FORMAT, "blk.2.attn_k.weight: expected [32, 32]"},
      {"attention.head_count_kv", IJ_E_FORMAT, "attention.head_count_kv is missing"},
      {"attention.sliding_window_pattern", IJ_E_FORMAT, "attention.sliding_window_pattern is missing"},
      {"attention.sliding_window_pattern=b[1,0,0]", IJ_E_FORMAT, "attention.head_count_kv[2] is 1, but other global layers have 2"},
      {"attention.sliding_window_pattern=[1,2,0]", IJ_E_FORMAT, "attention.sliding_window_pattern[1]: expected 0 to 1"},
      {"attention.value_length=8", IJ_E_FORMAT, "attention.value_length is 8, but inkling.attention.key_length is 16"},
      {"rel_extent_swa=5", IJ_E_FORMAT, "inkling.rel_extent_swa is 5, but inkling.attention.sliding_window is 4"},
      {"rel_extent=7", IJ_E_FORMAT, "blk.2.attn_rel_proj.weight: expected [2, 7] (d_rel, rel_extent or rel_extent_swa), found [2, 6]"},
      {"expert_used_count=4", IJ_E_FORMAT, "inkling.expert_used_count is 4, but inkling.expert_count is 3"},
      {"unpadded_vocab_size=21", IJ_E_FORMAT, "unpadded_vocab_size is 21, more than inkling.vocab_size = 20"},
      {"tokenizer.ggml.eos_token_id=20", IJ_E_FORMAT, "tokenizer.ggml.eos_token_id: expected a token id from 0 to 19, found 20"},
      {"dense_block_count=4", IJ_E_FORMAT, "dense_block_count: expected an integer from 0 to 3, found 4"},
      {"dense_block_count=2", IJ_E_FORMAT, "blk.1.ffn_gate.weight is missing|blk.1.ffn_gate_inp.weight is not expected: layer 1 is dense"},
  };
  for (size_t i = 0; i < IJ_COUNT_OF(cases); i++) {
    int before = test_failures;
    write_file(cases[i].edits, F32, F32, F32, NULL, NULL);
    check_error(cases[i].status, cases[i].want);
    if (test_failures > before) printf("   in the edits \"%s\"\n", cases[i].edits);
  }
}

int main(void) {
  int64_t blocks = ij__alloc_blocks();
  start();
  RUN(same_network);
  RUN(tensors_that_are_wrong);
  RUN(keys_that_are_good);
  RUN(keys_that_are_bad);
  tiny_free(&t);
  CHECK_INT(ij__alloc_blocks(), blocks);
  return test_report();
}
