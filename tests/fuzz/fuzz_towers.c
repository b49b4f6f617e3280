/* fuzz_towers.c: any bytes as the config.json or the processor_config.json beside a small set of towers, or as an mmproj GGUF file; the
 * first byte says which. Binding must either succeed, with a plan that fits, or fail cleanly, with nothing left allocated. */
#include "../unit/ckpt_writer.h"
#include "core/alloc.h"
#include "model/towers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"config.json", "processor_config.json", "mmproj.gguf"};
static char folder[256];

static void path_of(char *path, size_t size, int which) { snprintf(path, size, "%s/%s", folder, names[which]); }

static void remove_folder(void) {
  char path[512];
  for (int i = 0; i < 3; i++) {
    path_of(path, sizeof path, i);
    unlink(path);
  }
  cw_remove_folder(folder);
}

static void must(bool promise) {
  if (!promise) abort();
}

/* Towers for patches of 8 pixels and a decoder of width 2. */
static void write_tensors(void) {
  static const int64_t layers[4][2] = {{64, 12}, {64, 256}, {192, 256}, {2, 384}};
  static cw_model m;
  cw_make_folder(folder, sizeof folder);
  for (int i = 0; i < 4; i++) {
    cw_add(&m, IJ_DTYPE_BF16, 2, layers[i], "model.visual.layers.linear_%d.weight", i);
    if (i < 3) cw_add(&m, IJ_DTYPE_BF16, 1, layers[i], "model.visual.layers.norm_%d.weight", i);
  }
  cw_add(&m, IJ_DTYPE_BF16, CW_DIMS(2), "model.visual.final_norm.weight");
  cw_add(&m, IJ_DTYPE_BF16, CW_DIMS(1280, 2), "model.audio.encoder.weight");
  cw_add(&m, IJ_DTYPE_BF16, CW_DIMS(2), "model.audio.final_norm.weight");
  cw_write_tensors(&m, folder);
  cw_free(&m);
  atexit(remove_folder);
}

static void check_towers(const ij_towers_weights *w) {
  if (!w->vision && !w->audio) return;
  must(w->hidden >= 1 && w->rescale_frac >= 0 && w->rescale_long_edge >= 0);
  if (w->audio) must(w->table.rows == 1280 && w->table.cols == w->hidden && w->audio_norm);
  for (int i = 0; w->vision && i < IJ_TOWER_LAYERS; i++)
    must(w->linear[i].rows == w->plan.layer[i].out && w->linear[i].cols == w->plan.layer[i].in && w->plan.layer[i].n_vectors >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ij_towers_weights w;
  ij_ckpt *ckpt = NULL;
  ij_err err = {0};
  char path[512];
  if (!folder[0]) write_tensors();
  int which = size ? data[0] % 3 : 0;
  path_of(path, sizeof path, which);
  FILE *f = fopen(path, "wb");
  must(f != NULL);
  fwrite(data + (size ? 1 : 0), 1, size ? size - 1 : 0, f);
  fclose(f);
  int64_t blocks = ij__alloc_blocks();
  if (ij__ckpt_open(&ckpt, which == 2 ? path : folder, &err) == IJ_OK) {
    if (ij__towers_bind(&w, ckpt, &err) == IJ_OK) {
      check_towers(&w);
      ij__towers_free(&w);
    } else {
      must(err.code != IJ_E_NOMEM && err.message[0]);
    }
  }
  ij__ckpt_close(&ckpt);
  must(ij__alloc_blocks() == blocks);
  unlink(path);
  return 0;
}
