/* towers.c: opening and describing the towers. Those of a model share its threads and take turns with its steps; those opened alone have
 * their own. */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "engine/engine_int.h"

static ij_status check_width(const ij_towers *t, const ij_model *m, ij_err *err) {
  if (t->w.hidden == m->config.hidden) return IJ_OK;
  return ij__fail(err, IJ_E_FORMAT, t->path, "these towers are for a decoder of width %d, but %s has %d", t->w.hidden, m->path,
                  m->config.hidden);
}

static ij_status bind(ij_towers *t, ij_err *err) {
  t->w = (ij_towers_weights){0};
  return ij__towers_bind(&t->w, t->ckpt, err);
}

/* Opens the file of the towers and checks that there are any. */
static ij_status open_ckpt(ij_towers *t, ij_err *err) {
  ij_status s = ij__ckpt_open(&t->own_ckpt, t->path, err);
  t->ckpt = t->own_ckpt;
  if (s == IJ_OK) s = bind(t, err);
  if (s != IJ_OK || t->w.vision || t->w.audio) return s;
  return ij__fail(err, IJ_E_UNSUPPORTED, t->path, "there are no towers here: no tensor is named like one of a vision or audio tower");
}

static ij_towers *new_towers(const char *path, ij_err *err) {
  ij_towers *t = ij__alloc_zero(1, sizeof *t);
  if (t) t->path = ij__strdup(path);
  if (t && t->path) return t;
  ij__free(t);
  ij__fail_nomem(err, path, sizeof *t);
  return NULL;
}

static void free_towers(ij_towers *t) {
  ij__towers_free(&t->w);
  ij__ckpt_close(&t->own_ckpt);
  ij__pool_close(&t->own_pool);
  if (t->has_lock) ij__turn_close(&t->own_lock);
  ij__free(t->path);
  ij__free(t);
}

static ij_status open_of_model(ij_model *m, const char *mmproj, ij_err *err) {
  ij_towers *t = new_towers(mmproj ? mmproj : m->path, err);
  if (!t) return IJ_E_NOMEM;
  t->model = m;
  t->kernels = m->kernels;
  t->pool = m->pool;
  t->lock = &m->step_lock;
  t->ckpt = m->ckpt;
  ij_status s = mmproj ? open_ckpt(t, err) : bind(t, err);
  bool any = t->w.vision || t->w.audio;
  if (s == IJ_OK && any) s = check_width(t, m, err);
  /* The settings of the pictures lie with the model when they do not lie with the towers. */
  if (s == IJ_OK && mmproj && !t->w.has_processor) s = ij__towers_read_processor(&t->w, ij__ckpt_folder(m->ckpt), err);
  if (s == IJ_OK && any)
    m->towers = t;
  else
    free_towers(t);
  return s;
}

/* The decoder needs no towers: what is wrong with those that lie beside it is kept for whoever comes with a picture. */
ij_status ij__model_open_towers(ij_model *m, const char *mmproj, ij_err *err) {
  ij_err why = {0};
  ij_status s = open_of_model(m, mmproj, &why);
  if (s == IJ_OK) return IJ_OK;
  if (mmproj || s == IJ_E_NOMEM) return ij__fail(err, s, why.where, "%s", why.message);
  size_t size = strlen(why.where) + strlen(why.message) + sizeof ": ";
  m->towers_error = ij__alloc(size);
  if (!m->towers_error) return ij__fail_nomem(err, m->path, size);
  snprintf(m->towers_error, size, "%s: %s", why.where, why.message);
  return IJ_OK;
}

void ij__model_close_towers(ij_model *m) {
  if (m->towers) free_towers(m->towers);
  m->towers = NULL;
  ij__free(m->towers_error);
  m->towers_error = NULL;
}

ij_towers *ij_model_towers(ij_model *model) { return model ? model->towers : NULL; }
const char *ij_model_towers_error(const ij_model *model) { return model ? model->towers_error : NULL; }

static ij_status open_alone(ij_towers *t, const ij_model_options *o, ij_level level, ij_err *err) {
  if (!ij__turn_open(&t->own_lock)) return ij__fail_nomem(err, "a mutex", sizeof t->own_lock);
  t->has_lock = true;
  t->lock = &t->own_lock;
  t->kernels = ij__kernels_get(level);
  ij_status s = ij__report_progress(o, 0.0, err);
  if (s == IJ_OK) s = open_ckpt(t, err);
  if (s == IJ_OK) s = ij__pool_open(&t->own_pool, o->n_threads ? o->n_threads : ij__cpu_count(), err);
  t->pool = t->own_pool;
  return s == IJ_OK ? ij__report_progress(o, 1.0, err) : s;
}

ij_status ij_towers_open(ij_towers **out, const char *path, const ij_model_options *options, ij_err *err) {
  if (!out) return ij__fail(err, IJ_E_ARGUMENT, "ij_towers_open", "out is NULL");
  *out = NULL;
  if (!path) return ij__fail(err, IJ_E_ARGUMENT, "ij_towers_open", "path is NULL");
  ij_model_options o = options ? *options : ij_model_options_default();
  ij_level level = IJ_LEVEL_COUNT;
  ij_status s = ij__check_model_options(&o, &level, err);
  if (s != IJ_OK) return s;
  ij_towers *t = new_towers(path, err);
  if (!t) return IJ_E_NOMEM;
  s = open_alone(t, &o, level, err);
  if (s == IJ_OK)
    *out = t;
  else
    free_towers(t);
  return s;
}

void ij_towers_close(ij_towers **towers) {
  if (!towers || !*towers || (*towers)->model) return;
  free_towers(*towers);
  *towers = NULL;
}

void ij_towers_get_info(const ij_towers *towers, ij_towers_info *out) {
  const ij_towers_weights *w = &towers->w;
  *out = (ij_towers_info){.vision = w->vision, .audio = w->audio, .hidden = w->hidden, .patch = w->vision ? w->plan.patch : 0,
                          .n_params = w->n_params, .patch_fma = w->vision ? ij__towers_vision_fma(&w->plan, true) : 0, .weight_bytes = w->weight_bytes,
                          .source = towers->path};
}
