/* ckpt_writer.h: tiny checkpoints for tests, written from C: a list of tensors that a test may edit, and a config.json that a test
 * may edit by lines like "text.head_dim=4" (set) or "text.head_dim" (remove).
 *
 * Values are multiples of 1/8 of at most 3 bits, so they are the same numbers in F32, BF16 and F16.
 */
#ifndef IJ_TEST_CKPT_WRITER_H
#define IJ_TEST_CKPT_WRITER_H

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/dtype.h"
#include "kernels/ref/convert_ref.h"
#include "test.h"

typedef struct cw_tensor {
  char name[96];
  ij_dtype dtype;
  int n_dims;
  int64_t dims[4];
  int64_t n;
  float *values;
  unsigned char *raw; /* if not NULL these bytes are written instead: packed weights */
} cw_tensor;

typedef struct cw_model {
  int n;
  cw_tensor t[256];
  uint64_t seed;
  int header_pad; /* spaces after the header, to move the data off its alignment */
} cw_model;

/* What a test may choose; cw_tiny fills in the usual: six layers, the last one global, two dense. */
typedef struct cw_dims {
  int hidden, n_layer, n_head, n_kv, swa_kv, d, d_rel, window, extent, taps, dense, moe, n_expert, n_shared, vocab;
  bool sliding[16], is_dense[16];
} cw_dims;

static inline cw_dims cw_usual(void) {
  return (cw_dims){8, 6, 2, 1, 2, 4, 2, 4, 6, 4, 16, 8, 4, 2, 20, {true, true, true, true, true, false}, {true, true}};
}

static inline cw_tensor *cw_find(cw_model *m, const char *name) {
  for (int i = 0; i < m->n; i++) {
    if (strcmp(m->t[i].name, name) == 0) return &m->t[i];
  }
  printf("no tensor %s in the test's model\n", name);
  exit(2);
}

/* Adds a tensor with values in the order of a small generator. */
static inline cw_tensor *cw_add(cw_model *m, ij_dtype dtype, int n_dims, const int64_t *dims, const char *fmt, ...) IJ_PRINTF(5, 6);
static inline cw_tensor *cw_add(cw_model *m, ij_dtype dtype, int n_dims, const int64_t *dims, const char *fmt, ...) {
  cw_tensor *t = &m->t[m->n++];
  va_list args;
  va_start(args, fmt);
  vsnprintf(t->name, sizeof t->name, fmt, args);
  va_end(args);
  t->dtype = dtype;
  t->raw = NULL;
  t->n_dims = n_dims;
  t->n = 1;
  for (int i = 0; i < n_dims; i++) t->n *= t->dims[i] = dims[i];
  t->values = malloc((size_t)t->n * sizeof(float));
  for (int64_t i = 0; i < t->n; i++) t->values[i] = (float)((int)(test_random(&m->seed) % 15) - 7) / 8;
  return t;
}

static inline void cw_remove(cw_model *m, const char *name) {
  cw_tensor *t = cw_find(m, name);
  free(t->values);
  free(t->raw);
  memmove(t, t + 1, (size_t)(&m->t[--m->n] - t) * sizeof *t);
}

/* New dims and freshly made values. */
static inline void cw_reshape(cw_model *m, const char *name, int n_dims, const int64_t *dims) {
  cw_tensor *t = cw_find(m, name);
  int64_t n = 1;
  for (int i = 0; i < n_dims; i++) n *= t->dims[i] = dims[i];
  t->n_dims = n_dims;
  t->values = realloc(t->values, (size_t)n * sizeof(float));
  for (int64_t i = t->n; i < n; i++) t->values[i] = 0.5f;
  t->n = n;
}

static inline void cw_free(cw_model *m) {
  for (int i = 0; i < m->n; i++) {
    free(m->t[i].values);
    free(m->t[i].raw);
  }
  m->n = 0;
}

#define CW_DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

static inline void cw_layer(cw_model *m, const cw_dims *s, ij_dtype t, int i) {
  const char *p = "model.llm.layers.";
  int kv = (s->sliding[i] ? s->swa_kv : s->n_kv) * s->d;
  cw_add(m, t, CW_DIMS(s->hidden), "%s%d.attn_norm.weight", p, i);
  cw_add(m, t, CW_DIMS(s->n_head * s->d, s->hidden), "%s%d.attn.wq_du.weight", p, i);
  cw_add(m, t, CW_DIMS(kv, s->hidden), "%s%d.attn.wk_dv.weight", p, i);
  cw_add(m, t, CW_DIMS(kv, s->hidden), "%s%d.attn.wv_dv.weight", p, i);
  cw_add(m, t, CW_DIMS(s->n_head * s->d_rel, s->hidden), "%s%d.attn.wr_du.weight", p, i);
  cw_add(m, t, CW_DIMS(s->hidden, s->n_head * s->d), "%s%d.attn.wo_ud.weight", p, i);
  cw_add(m, t, CW_DIMS(s->d), "%s%d.attn.q_norm.weight", p, i);
  cw_add(m, t, CW_DIMS(s->d), "%s%d.attn.k_norm.weight", p, i);
  cw_add(m, t, CW_DIMS(kv, 1, s->taps), "%s%d.attn.k_sconv.weight", p, i);
  cw_add(m, t, CW_DIMS(kv, 1, s->taps), "%s%d.attn.v_sconv.weight", p, i);
  cw_add(m, t, CW_DIMS(s->d_rel, s->sliding[i] ? s->window : s->extent), "%s%d.attn.rel_logits_proj.proj", p, i);
  cw_add(m, t, CW_DIMS(s->hidden, 1, s->taps), "%s%d.attn_sconv.weight", p, i);
  cw_add(m, t, CW_DIMS(s->hidden), "%s%d.mlp_norm.weight", p, i);
  cw_add(m, t, CW_DIMS(s->hidden, 1, s->taps), "%s%d.mlp_sconv.weight", p, i);
  if (s->is_dense[i]) {
    cw_add(m, t, CW_DIMS(2 * s->dense, s->hidden), "%s%d.mlp.w13_dn.weight", p, i);
    cw_add(m, t, CW_DIMS(s->hidden, s->dense), "%s%d.mlp.w2_md.weight", p, i);
    cw_add(m, t, CW_DIMS(1), "%s%d.mlp.global_scale", p, i);
    return;
  }
  cw_add(m, t, CW_DIMS(s->n_expert + s->n_shared, s->hidden), "%s%d.mlp.gate.weight", p, i);
  cw_add(m, IJ_DTYPE_F32, CW_DIMS(s->n_expert), "%s%d.mlp.gate.bias", p, i);
  cw_add(m, IJ_DTYPE_F32, CW_DIMS(1), "%s%d.mlp.gate.global_scale", p, i);
  cw_add(m, t, CW_DIMS(s->n_expert, 2 * s->moe, s->hidden), "%s%d.mlp.experts.w13_weight", p, i);
  cw_add(m, t, CW_DIMS(s->n_expert, s->hidden, s->moe), "%s%d.mlp.experts.w2_weight", p, i);
  cw_add(m, t, CW_DIMS(s->n_shared, 2 * s->moe, s->hidden), "%s%d.mlp.shared_experts.shared_w13_weight", p, i);
  cw_add(m, t, CW_DIMS(s->n_shared, s->hidden, s->moe), "%s%d.mlp.shared_experts.shared_w2_weight", p, i);
}

static inline void cw_build(cw_model *m, const cw_dims *s, ij_dtype t) {
  *m = (cw_model){.seed = 7};
  cw_add(m, t, CW_DIMS(s->vocab, s->hidden), "model.llm.embed.weight");
  cw_add(m, t, CW_DIMS(s->hidden), "model.llm.embed_norm.weight");
  for (int i = 0; i < s->n_layer; i++) cw_layer(m, s, t, i);
  cw_add(m, t, CW_DIMS(s->hidden), "model.llm.norm.weight");
  cw_add(m, t, CW_DIMS(s->vocab, s->hidden), "model.llm.unembed.weight");
}

/* ------------------------------------------------------------------------------------------------------- config.json */

static const char *const cw_usual_config =
    "architectures=[\"InklingForConditionalGeneration\"]\nmodel_type=\"inkling_mm_model\"\neos_token_id=17\nvocab_size=20\n"
    "text.hidden_size=8\ntext.num_hidden_layers=6\ntext.vocab_size=20\ntext.unpadded_vocab_size=18\ntext.model_max_length=4096\n"
    "text.num_attention_heads=2\ntext.num_key_value_heads=1\ntext.head_dim=4\ntext.swa_num_attention_heads=2\n"
    "text.swa_num_key_value_heads=2\ntext.swa_head_dim=4\ntext.sliding_window_size=4\ntext.local_layer_ids=[0,1,2,3,4]\n"
    "text.d_rel=2\ntext.rel_extent=6\ntext.log_scaling_n_floor=128000\ntext.log_scaling_alpha=0.25\ntext.rms_norm_eps=1e-5\n"
    "text.use_embed_norm=true\ntext.use_sconv=true\ntext.sconv_kernel_size=4\ntext.dense_mlp_idx=2\ntext.dense_intermediate_size=16\n"
    "text.intermediate_size=8\ntext.n_routed_experts=4\ntext.num_experts_per_tok=2\ntext.n_shared_experts=2\ntext.route_scale=8.0\n"
    "text.logits_mup_width_multiplier=16.0\ntext.gate_activation=\"sigmoid\"\ntext.norm_after_topk=true\n"
    "text.shared_expert_sink=true\ntext.use_gate_bias=true\ntext.use_global_scale=true\ntext.tie_word_embeddings=false\n"
    "mtp.num_nextn_predict_layers=3\naudio.audio_mode=\"dmel\"\n";

typedef struct cw_entry {
  char key[64], json[2048];
} cw_entry;

static inline int cw_apply(cw_entry *e, int n, const char *edits) {
  while (*edits) {
    size_t len = strcspn(edits, "\n"), key_len = strcspn(edits, "=\n");
    int at = 0;
    while (at < n && (strlen(e[at].key) != key_len || strncmp(e[at].key, edits, key_len) != 0)) at++;
    if (key_len == len) {
      if (at == n) {
        printf("the edit \"%s\" removes nothing\n", edits);
        exit(2);
      }
      e[at] = e[--n];
    } else {
      if (at == n) n++;
      snprintf(e[at].key, sizeof e[at].key, "%.*s", (int)key_len, edits);
      snprintf(e[at].json, sizeof e[at].json, "%.*s", (int)(len - key_len - 1), edits + key_len + 1);
    }
    edits += len + (edits[len] == '\n');
  }
  return n;
}

/* The entries under a prefix, comma-separated; as a named object, or (name NULL) those without a dot. Returns how many. */
static inline int cw_put_section(FILE *f, const cw_entry *e, int n, const char *prefix, const char *name, bool first) {
  size_t len = strlen(prefix);
  int n_put = 0;
  for (int i = 0; i < n; i++) {
    if (name ? strncmp(e[i].key, prefix, len) != 0 : strchr(e[i].key, '.') != NULL) continue;
    if (n_put || !first) fprintf(f, ",");
    if (name && !n_put) fprintf(f, "\n\"%s\": {", name);
    fprintf(f, "\n\"%s\": %s", e[i].key + len, e[i].json);
    n_put++;
  }
  if (name && n_put) fprintf(f, "}");
  return n_put;
}

/* Keys "text.", "mtp.", "audio.", "vision." go into sub-objects; flat: text keys go to the top level. */
static inline void cw_write_config(const char *folder, const char *edits, bool flat) {
  static cw_entry e[256];
  char path[512];
  int n = cw_apply(e, cw_apply(e, 0, cw_usual_config), edits);
  snprintf(path, sizeof path, "%s/config.json", folder);
  FILE *f = fopen(path, "wb");
  if (!f) {
    perror(path);
    exit(2);
  }
  fprintf(f, "{");
  for (int i = 0; flat && i < n; i++) {
    if (strncmp(e[i].key, "text.", 5) == 0) memmove(e[i].key, e[i].key + 5, strlen(e[i].key + 5) + 1);
  }
  for (int i = 0; flat && i < n; i++) { /* vocab_size and others may now stand there twice: the later one stays */
    for (int j = i + 1; j < n; j++) {
      if (strcmp(e[i].key, e[j].key) == 0) {
        e[i--] = e[--n];
        break;
      }
    }
  }
  bool first = cw_put_section(f, e, n, "", NULL, true) == 0;
  static const char *const sections[][2] = {
      {"text.", "text_config"}, {"mtp.", "mtp_config"}, {"audio.", "audio_config"}, {"vision.", "vision_config"}};
  for (int i = 0; i < 4; i++) first = cw_put_section(f, e, n, sections[i][0], sections[i][1], first) == 0 && first;
  fprintf(f, "}\n");
  fclose(f);
}

static inline void cw_write_text(const char *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  if (!f) {
    perror(path);
    exit(2);
  }
  fputs(text, f);
  fclose(f);
}

/* ------------------------------------------------------------------------------------------------------- safetensors */

static inline void cw_put_values(FILE *f, const cw_tensor *t) {
  if (t->raw) {
    fwrite(t->raw, 1, (size_t)(t->n * ij__dtype_block_bytes(t->dtype)), f);
    return;
  }
  for (int64_t i = 0; i < t->n; i++) {
    uint16_t h;
    if (t->dtype == IJ_DTYPE_F32) {
      fwrite(&t->values[i], 4, 1, f);
    } else if (t->dtype == IJ_DTYPE_BF16 || t->dtype == IJ_DTYPE_F16) {
      h = t->dtype == IJ_DTYPE_BF16 ? ij__ref_to_bf16(t->values[i]) : ij__ref_to_f16(t->values[i]);
      fwrite(&h, 2, 1, f);
    } else {
      for (int64_t b = 0; b < ij__dtype_block_bytes(t->dtype); b++) fputc(0, f);
    }
  }
}

static inline void cw_write_tensors(const cw_model *m, const char *folder) {
  char path[512], *header = malloc(512 * (size_t)(m->n + 1)), *p = header;
  int64_t at = 0;
  p += sprintf(p, "{");
  for (int i = 0; i < m->n; i++) {
    const cw_tensor *t = &m->t[i];
    int64_t bytes = t->n * ij__dtype_block_bytes(t->dtype);
    p += sprintf(p, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", t->name, ij__dtype_name(t->dtype));
    for (int j = 0; j < t->n_dims; j++) p += sprintf(p, "%s%lld", j ? "," : "", (long long)t->dims[j]);
    p += sprintf(p, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + bytes));
    at += bytes;
  }
  p += sprintf(p, "}");
  while ((p - header) % 8) *p++ = ' ';
  for (int i = 0; i < m->header_pad; i++) *p++ = ' ';
  uint64_t len = (uint64_t)(p - header);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  FILE *f = fopen(path, "wb");
  if (!f) {
    perror(path);
    exit(2);
  }
  for (int i = 0; i < 8; i++) fputc((int)(len >> (8 * i) & 255), f);
  fwrite(header, 1, len, f);
  free(header);
  for (int i = 0; i < m->n; i++) cw_put_values(f, &m->t[i]);
  fclose(f);
}

/* A fresh folder for this process; cw_remove_folder takes it away with the files in it that these tests write. */
static inline void cw_make_folder(char *folder, size_t size) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, size, "%s/inkjet-test-XXXXXX", base && *base ? base : P_tmpdir);
  if (!mkdtemp(folder)) {
    perror(folder);
    exit(2);
  }
}

static inline void cw_remove_folder(const char *folder) {
  static const char *const files[] = {"config.json", "model.safetensors", "hf_quant_config.json", "model.gguf"};
  for (int i = 0; i < 4; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    unlink(path);
  }
  rmdir(folder);
}

#endif
