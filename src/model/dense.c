/* dense.c: the weights that every token reads, from the checkpoint's mapping into memory of our own. What is mapped, the system may drop when
 * memory is short, just because experts were read meanwhile, and would have to read again for the very next token. */
#include "model/weights.h"

typedef struct dense_walk {
  const ij_ckpt *ckpt;
  bool table;          /* an embedding table of its own counts as dense */
  ij_copies *copies;
  ij_status status;
  ij_err *err;
} dense_walk;

/* Does something with one matrix. */
typedef void (*dense_fn)(dense_walk *walk, ij_weight *w);

static void each_mlp(dense_walk *walk, ij_mlp *m, dense_fn fn) {
  fn(walk, &m->gate);
  fn(walk, &m->up);
  fn(walk, &m->down);
}

static void each_dense(dense_walk *walk, ij_weights *w, const ij_config *c, dense_fn fn) {
  fn(walk, &w->unembed);
  if (c->tied || walk->table) fn(walk, &w->embed);
  for (int i = 0; i < c->n_layer; i++) {
    ij_layer *l = &w->layers[i];
    ij_weight *attention[] = {&l->wq, &l->wk, &l->wv, &l->wr, &l->wo};
    for (size_t k = 0; k < IJ_COUNT_OF(attention); k++) fn(walk, attention[k]);
    if (l->dense) {
      each_mlp(walk, &l->mlp, fn);
      continue;
    }
    fn(walk, &l->router);
    for (int k = 0; k < c->n_shared; k++) each_mlp(walk, &l->shared[k], fn);
  }
}

static void add(dense_walk *walk, ij_weight *w) {
  const void *data[3] = {w->data, w->scales, w->biases};
  size_t n_bytes[3];
  ij__weight_extent(w, n_bytes);
  for (int i = 0; i < 3 && walk->status == IJ_OK; i++) walk->status = ij__copies_add(walk->copies, data[i], n_bytes[i], walk->err);
}

static void move(dense_walk *walk, ij_weight *w) {
  w->data = ij__copies_find(walk->copies, w->data);
  w->scales = ij__copies_find(walk->copies, w->scales);
  w->biases = ij__copies_find(walk->copies, w->biases);
}

static void advise(dense_walk *walk, ij_weight *w) {
  const void *data[3] = {w->data, w->scales, w->biases};
  size_t n_bytes[3];
  ij__weight_extent(w, n_bytes);
  for (int i = 0; i < 3; i++) {
    if (data[i]) ij__ckpt_advise(walk->ckpt, data[i], n_bytes[i], IJ_ADVICE_SOON);
  }
}

static ij_status collect(dense_walk *walk, ij_weights *w, const ij_config *config) {
  walk->status = ij__copies_open(&walk->copies, walk->ckpt, walk->err);
  if (walk->status == IJ_OK) each_dense(walk, w, config, add);
  return walk->status;
}

ij_status ij__weights_dense_bytes(size_t *out, ij_weights *w, const ij_config *config, const ij_ckpt *ckpt, bool table, ij_err *err) {
  dense_walk walk = {.ckpt = ckpt, .table = table, .err = err};
  ij_status s = collect(&walk, w, config);
  *out = s == IJ_OK ? ij__copies_bytes(walk.copies) : 0;
  ij__copies_close(&walk.copies);
  return s;
}

ij_status ij__weights_settle(ij_weights *w, const ij_config *config, const ij_ckpt *ckpt, bool table, ij_reader *reader,
                             bool (*progress)(void *user, double fraction), void *user, ij_err *err) {
  dense_walk walk = {.ckpt = ckpt, .table = table, .err = err};
  ij_status s = collect(&walk, w, config);
  if (s == IJ_OK && !config->tied && !table) s = ij__row_file_open(&w->embed_file, ckpt, &w->embed, err);
  if (s == IJ_OK) s = ij__copies_read(walk.copies, reader, progress, user, err);
  if (s != IJ_OK) {
    ij__row_file_close(&w->embed_file);
    ij__copies_close(&walk.copies);
    return s;
  }
  each_dense(&walk, w, config, move);
  w->dense = walk.copies;
  return IJ_OK;
}

void ij__weights_advise(ij_weights *w, const ij_config *config, const ij_ckpt *ckpt) {
  dense_walk walk = {.ckpt = ckpt};
  each_dense(&walk, w, config, advise);
  size_t n_bytes[3];
  ij__weight_extent(&w->embed, n_bytes);
  if (!config->tied) ij__ckpt_advise(ckpt, w->embed.data, n_bytes[0], IJ_ADVICE_RANDOM);
}
