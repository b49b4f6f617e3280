/* tiny.h: a hand-made model, written with ckpt_writer.h and opened through the public API. A test describes it by dims and config edits,
 * changes the values it cares about, and opens it as often as it likes.
 */
#ifndef IJ_TEST_TINY_H
#define IJ_TEST_TINY_H

#include "ckpt_writer.h"
#include "core/alloc.h"
#include "inkjet.h"

typedef struct tiny {
  char folder[256];
  cw_dims dims;
  cw_model file;
} tiny;

static inline const char *tiny_list(char *buf, size_t size, const bool *flags, int n) {
  size_t len = (size_t)snprintf(buf, size, "[");
  for (int i = 0; i < n; i++) {
    if (flags[i]) len += (size_t)snprintf(buf + len, size - len, "%s%d", len > 1 ? "," : "", i);
  }
  snprintf(buf + len, size - len, "]");
  return buf;
}

/* Makes the values of a model of these dims and a config that agrees with them; `edits` come last. Nothing but the config is on disk yet. */
static inline void tiny_build(tiny *t, const cw_dims *d, ij_dtype dtype, const char *edits) {
  static char all[4096];
  char list[128];
  int n_dense = 0;
  while (n_dense < d->n_layer && d->is_dense[n_dense]) n_dense++;
  cw_make_folder(t->folder, sizeof t->folder);
  t->dims = *d;
  cw_build(&t->file, d, dtype);
  snprintf(all, sizeof all,
           "vocab_size=%d\ntext.vocab_size=%d\ntext.unpadded_vocab_size=%d\ntext.hidden_size=%d\ntext.num_hidden_layers=%d\n"
           "text.num_attention_heads=%d\ntext.swa_num_attention_heads=%d\ntext.num_key_value_heads=%d\ntext.swa_num_key_value_heads=%d\n"
           "text.head_dim=%d\ntext.swa_head_dim=%d\ntext.d_rel=%d\ntext.rel_extent=%d\ntext.sliding_window_size=%d\n"
           "text.sconv_kernel_size=%d\ntext.dense_mlp_idx=%d\ntext.dense_intermediate_size=%d\ntext.intermediate_size=%d\n"
           "text.n_routed_experts=%d\ntext.n_shared_experts=%d\ntext.local_layer_ids=%s\n%s",
           d->vocab, d->vocab, d->vocab - 2, d->hidden, d->n_layer, d->n_head, d->n_head, d->n_kv, d->swa_kv, d->d, d->d, d->d_rel, d->extent,
           d->window, d->taps, n_dense, d->dense, d->moe, d->n_expert, d->n_shared, tiny_list(list, sizeof list, d->sliding, d->n_layer), edits);
  cw_write_config(t->folder, all, false);
}

static inline void tiny_free(tiny *t) {
  cw_free(&t->file);
  cw_remove_folder(t->folder);
}

static inline float *tiny_values(tiny *t, const char *name) { return cw_find(&t->file, name)->values; }

static inline void tiny_fill(tiny *t, const char *name, float value) {
  cw_tensor *x = cw_find(&t->file, name);
  for (int64_t i = 0; i < x->n; i++) x->values[i] = value;
}

static inline ij_status tiny_try_open(const tiny *t, int n_threads, int max_batch, ij_model **out, ij_err *err) {
  ij_model_options o = ij_model_options_default();
  o.n_threads = n_threads;
  o.max_batch = max_batch;
  return ij_model_open(out, t->folder, &o, err);
}

/* Writes the values as they are now and opens them. */
static inline ij_model *tiny_open(const tiny *t, int n_threads, int max_batch) {
  ij_model *m = NULL;
  ij_err err = {0};
  cw_write_tensors(&t->file, t->folder);
  if (tiny_try_open(t, n_threads, max_batch, &m, &err) != IJ_OK) {
    printf("the test's model does not open: %s: %s\n", err.where, err.message);
    exit(2);
  }
  return m;
}

static inline ij_session *tiny_session(ij_model *m, int64_t n_ctx, int max_rollback) {
  ij_session_options o = ij_session_options_default();
  ij_session *s = NULL;
  ij_err err = {0};
  o.n_ctx = n_ctx;
  o.max_rollback = max_rollback;
  o.kv_type = IJ_KV_F32;
  if (ij_session_open(&s, m, &o, &err) != IJ_OK) {
    printf("the test's session does not open: %s: %s\n", err.where, err.message);
    exit(2);
  }
  return s;
}

#endif
