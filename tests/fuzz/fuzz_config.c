/* fuzz_config.c: any bytes as config.json beside a small set of tensors. Whatever is accepted must keep the promises of config.h, and
 * binding it must either succeed or fail cleanly, with nothing left allocated. */
#include "../unit/ckpt_writer.h"
#include "core/alloc.h"
#include "model/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[256];

static void remove_folder(void) { cw_remove_folder(folder); }

static void write_tensors(void) {
  static cw_model m;
  cw_dims s = cw_usual();
  cw_make_folder(folder, sizeof folder);
  cw_build(&m, &s, IJ_DTYPE_BF16);
  cw_write_tensors(&m, folder);
  cw_free(&m);
  atexit(remove_folder);
}

static void must(bool promise) {
  if (!promise) abort();
}

static void check_config(const ij_config *c) {
  must(c->n_layer >= 1 && c->n_layer <= IJ_MAX_LAYERS && c->hidden >= 1 && c->vocab >= 1);
  must(c->unpadded_vocab >= 1 && c->unpadded_vocab <= c->vocab && c->max_context >= 1);
  must(c->conv_kernel >= 1 && c->conv_kernel <= IJ_MAX_CONV_KERNEL && c->d_rel >= 1);
  must(c->eps > 0 && c->logit_divisor > 0 && c->n_floor >= 0 && c->log_alpha >= 0);
  must(c->n_eos >= 0 && c->n_eos <= IJ_MAX_EOS && c->image_token >= 0 && c->audio_token >= 0 && c->n_mtp >= 0);
  for (int i = 0; i < c->n_eos; i++) must(c->eos[i] >= 0 && c->eos[i] < c->vocab);
  for (int i = 0; i < c->n_layer; i++) {
    const ij_attn_dims *a = &c->attn[c->sliding[i]];
    must(a->n_head >= 1 && a->n_kv_head >= 1 && a->n_head % a->n_kv_head == 0 && a->head_dim >= 1 && a->rel_extent >= 1);
    must(!c->sliding[i] || c->window == a->rel_extent);
    if (c->dense[i])
      must(c->dense_width >= 1);
    else
      must(c->expert_width >= 1 && c->n_shared >= 1 && c->n_expert_used >= 1 && c->n_expert_used <= c->n_expert && c->route_scale > 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ij_config config;
  ij_weights w;
  ij_ckpt *ckpt = NULL;
  ij_err err = {0};
  char path[512];
  if (!folder[0]) write_tensors();
  snprintf(path, sizeof path, "%s/config.json", folder);
  FILE *f = fopen(path, "wb");
  if (!f) abort();
  fwrite(data, 1, size, f);
  fclose(f);
  int64_t blocks = ij__alloc_blocks();
  if (ij__ckpt_open(&ckpt, folder, &err) == IJ_OK) {
    if (ij__config_read(&config, ckpt, &err) == IJ_OK) {
      check_config(&config);
      if (ij__weights_bind(&w, &config, ckpt, &err) == IJ_OK) ij__weights_free(&w);
    } else {
      must((err.code == IJ_E_FORMAT || err.code == IJ_E_UNSUPPORTED) && err.message[0]);
    }
  }
  ij__ckpt_close(&ckpt);
  must(ij__alloc_blocks() == blocks);
  return 0;
}
