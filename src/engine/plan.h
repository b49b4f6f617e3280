/* plan.h: the plan of a model's memory from the inside. Only engine/ and tests include it.
 *
 * Pure arithmetic on what was found and on headers: nothing large is read or taken. Sums saturate: sizes come from foreign files, and what does
 * not fit into a size_t fits into no memory.
 */
#ifndef IJ_ENGINE_PLAN_H
#define IJ_ENGINE_PLAN_H

#include "core/os.h"
#include "engine/engine_int.h"

#define IJ_PLAN_LEAST_BATCH 16 /* rows of a step below which a plan does not go by itself */

/* Memory as it was found. 0: not known (machine). */
typedef struct ij_found {
  uint64_t machine_total, machine_free;
  ij_memory_limits limits;
} ij_found;

void ij__plan_look(ij_found *out);

/* What weights take. */
typedef struct ij_weights_need {
  size_t dense;              /* of every token, in the file or copied */
  size_t floats;             /* the part of it that is always in memory of our own */
  size_t embed;              /* the part that is a table of embeddings of its own, whose rows are read from the file where experts are */
  size_t expert_bytes;       /* all routed experts, as in the file */
  size_t resident;           /* all of them in memory of our own */
  size_t least, most;        /* of a streamed home */
  size_t largest;
  double token_bytes;        /* of the routed experts that one token uses */
  int64_t n_total;
  int n_layers;              /* with experts */
} ij_weights_need;

/* A plan under way. */
typedef struct ij_planner {
  const ij_model *model;
  const ij_model_options *options;
  ij_found found;
  ij_weights_need weights;
  int n_threads;
  bool has_towers;
  size_t other;
} ij_planner;

/* One way to do it. */
typedef struct ij_plan_way {
  ij_home home;
  int max_batch;
  int64_t n_ctx;
  int kv, n_sessions;
  size_t caller;
} ij_plan_way;

/* What the options ask for, at the least batch. */
ij_plan_way ij__plan_asked(const ij_planner *p, ij_home home);
int ij__plan_least_batch(const ij_planner *p);

/* Memory that a way may use, and which limit says so. */
size_t ij__plan_bound(const ij_planner *p, ij_home home, const char **by);

/* Parts of what a way needs, and all of it, with the least room for experts. */
size_t ij__plan_dense(const ij_planner *p, ij_home home);
size_t ij__plan_experts(const ij_planner *p, ij_home home);
size_t ij__plan_other(const ij_planner *p, ij_home home);
size_t ij__plan_session(const ij_planner *p, const ij_plan_way *w);
size_t ij__plan_step(const ij_planner *p, const ij_plan_way *w);
size_t ij__plan_need(const ij_planner *p, const ij_plan_way *w);
bool ij__plan_fits(const ij_planner *p, const ij_plan_way *w);

/* There are experts, and files to read them from. */
bool ij__plan_can_stream(const ij_planner *p);

/* plan_refuse.c: says why nothing works, and what would. IJ_E_NOMEM. */
ij_status ij__plan_refuse(const ij_planner *p, ij_home home, ij_err *err);
/* A bound that cannot be kept: it is above what the control group or the process may ever use. */
ij_status ij__plan_check_bound(const ij_planner *p, ij_err *err);

/* ij__plan_fill for memory found earlier, or made up. */
ij_status ij__plan_fill_found(const ij_model *m, const ij_model_options *o, const ij_found *found, ij_plan *out, ij_err *err);

static inline size_t ij__plan_add(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }
static inline size_t ij__plan_mul(size_t a, size_t b) {
  size_t n;
  return ij__mul_size(a, b, &n) ? n : SIZE_MAX;
}
static inline size_t ij__plan_less(size_t a, size_t b) { return a > b ? a - b : 0; }

#endif
