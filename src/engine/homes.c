/* homes.c: the plan of a model carried out: which weights are read where, and who brings the experts.
 *
 * Mapped, everything stays in the page cache, which is advised where it cannot hold all. Otherwise what every token reads is copied out of the
 * mapping, the experts have a home of their own, a streamed home's rows of the embedding table are read one by one, and the mapping is not touched any more: a
 * file that shrinks is an error then, and not a signal. (Towers are always mapped.) */
#include "core/os.h"
#include "engine/engine_int.h"

/* Progress of a part of opening, as a part of the whole. */
typedef struct part_of_opening {
  const ij_model_options *o;
  double from, to;
} part_of_opening;

static bool tell_part(void *user, double fraction) {
  const part_of_opening *p = user;
  return !p->o->progress || p->o->progress(p->o->user, p->from + (p->to - p->from) * fraction);
}

static ij_status open_streamed(ij_model *m, const ij_model_options *o, ij_experts **home, ij_err *err) {
  ij_expert_banks banks = ij__weights_banks(&m->weights, &m->config);
  ij_status s = ij__use_open(m, o->usage_path, err);
  ij_streamed_options streamed = {.ckpt = m->ckpt, .reader = m->reader, .mem_bytes = m->plan.expert_room, .prior = m->use.prior,
                                  .keep_trace = o->keep_trace};
  return s == IJ_OK ? ij__experts_open_streamed(home, &banks, &streamed, err) : s;
}

static ij_status open_resident(ij_model *m, const ij_model_options *o, ij_experts **home, ij_err *err) {
  part_of_opening part = {o, 0.6, 0.95};
  ij_expert_banks banks = ij__weights_banks(&m->weights, &m->config);
  return ij__experts_open_resident(home, &banks, m->ckpt, m->reader, tell_part, &part, err);
}

/* Larger than memory, and mapped because it was asked for. */
static ij_status advise_mapped(ij_model *m, ij_err *err) {
  ij_experts *home = NULL;
  ij_expert_banks banks = ij__weights_banks(&m->weights, &m->config);
  ij_status s = ij__experts_open_advised(&home, &banks, m->ckpt, err);
  if (s != IJ_OK) return s;
  ij__weights_take_home(&m->weights, home);
  ij__weights_advise(&m->weights, &m->config, m->ckpt);
  return IJ_OK;
}

ij_status ij__model_settle(ij_model *m, const ij_model_options *o, const ij_reader_options *reader, ij_err *err) {
  ij_experts *home = NULL;
  bool streamed = m->plan.home == IJ_HOME_STREAMED;
  if (m->plan.home == IJ_HOME_MAPPED) return m->plan.expert_room < m->plan.expert_bytes ? advise_mapped(m, err) : IJ_OK;
  ij_status s = ij__reader_open(&m->reader, reader, err);
  part_of_opening part = {o, 0.5, streamed ? 0.95 : 0.6};
  if (s == IJ_OK) s = ij__weights_settle(&m->weights, &m->config, m->ckpt, !streamed, m->reader, tell_part, &part, err);
  if (s == IJ_OK) s = streamed ? open_streamed(m, o, &home, err) : open_resident(m, o, &home, err);
  if (s != IJ_OK) return s;
  ij__weights_take_home(&m->weights, home);
  ij__ckpt_advise(m->ckpt, NULL, 0, IJ_ADVICE_FORGET); /* headers, small tensors: they have been read */
  return IJ_OK;
}
