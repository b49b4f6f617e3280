/* engine_int.h: the two handles from the inside. Only engine/ includes it.
 *
 * Locking: `step_lock` serializes steps, towers and measurements of a model, which share the pool; all come in turn. Everything else in ij_model
 * is immutable after open. A session belongs to one thread at a time; the lock does not protect it.
 */
#ifndef IJ_ENGINE_INT_H
#define IJ_ENGINE_INT_H

#include <stdatomic.h>

#include "cache/usage.h"
#include "core/turn.h"
#include "inkjet.h"
#include "inkjet_media.h"
#include "io/reader.h"
#include "model/net.h"
#include "model/towers.h"
#include "text/tok.h"

struct ij_tokenizer {
  ij_tok *tok;
};

struct ij_towers {
  ij_model *model;           /* NULL: they were opened alone, and the own_ fields are set */
  char *path;
  const ij_ckpt *ckpt;
  ij_towers_weights w;
  const ij_kernels *kernels;
  ij_pool *pool;
  ij_turn *lock;             /* the model's step_lock, or own_lock: held while the pool is used */
  ij_ckpt *own_ckpt;         /* also of a model's mmproj file */
  ij_pool *own_pool;
  ij_turn own_lock;
  bool has_lock;
};

/* The use of experts, in earlier sessions and since the model was opened; experts_use.c. */
typedef struct ij_model_use {
  char *path;                /* of the usage file; NULL: none is kept */
  ij_usage earlier;          /* as that file had it; share NULL: not known */
  float *prior;              /* [n_layer * n_expert] for a home that is opened; NULL: nothing is known */
  char *note;                /* why the file was not used; NULL: nothing to say */
  bool recorded;             /* saving was tried */
  pthread_mutex_t lock;      /* of `now` */
  bool has_lock;
  ij_streaming_info now;     /* after the latest batch */
} ij_model_use;

struct ij_model {
  char *path;
  ij_ckpt *ckpt;
  ij_config config;
  ij_reader *reader;         /* of weights that are not mapped; NULL: all are */
  ij_weights weights;
  const ij_kernels *kernels;
  ij_pool *pool;
  ij_net net;
  ij_batch_item *batch;      /* [max_batch] */
  const float **batch_media; /* [max_batch] rows of media in the batch */
  ij_turn step_lock;
  bool has_lock;
  ij_towers *towers;         /* NULL: none */
  char *towers_error;        /* why, if the checkpoint has tensors of some */
  ij_tokenizer *tokenizer;
  const char *chat_template; /* in the mapping of a GGUF file, or template_text; NULL: none */
  size_t n_chat_template;
  char *template_text;
  char *measure_memory;      /* what measurements read; from the first one on, under step_lock */
  size_t measure_at;         /* where the next read begins */
  ij_model_info info;
  ij_model_use use;
  ij_plan plan;
  size_t session_room;       /* bytes that open sessions may need together; SIZE_MAX: there is no bound */
  _Atomic size_t session_bytes; /* what they need */
  _Atomic int n_sessions;    /* open; closing the model with any is an assert */
};

/* Where rows of media stand in a session: ascending, what goes on where the one before it ended is one with it. `rows` are NULL. */
typedef struct ij_placed {
  ij_rows *items;
  int n, cap;
} ij_placed;

/* What turns a logit into a log-probability: (logit - max) - log_sum, where log_sum is ln(sum of exp(logit - max)). Two steps, because
 * large logits would round their sum. best: the lowest id whose logit is max. */
typedef struct ij_logit_norm {
  float max, log_sum;
  int32_t best;
} ij_logit_norm;

struct ij_session {
  ij_model *model;
  ij_session_options options;
  size_t charged;            /* of the model's session_bytes */
  ij_state *state;
  int32_t *ids;              /* [n_ctx] */
  ij_placed placed;          /* which of them are rows of media */
  float *logits;             /* [unpadded_vocab] */
  bool has_logits, has_norm;
  ij_logit_norm norm;        /* of logits, with has_norm; several readers of the same logits need it, and steps of several sessions make it */
  /* Sampling: all [unpadded_vocab]. */
  float *work;
  int32_t *order;
  int32_t *counts;           /* zero between calls */
  /* A step in progress. */
  int64_t step_done;         /* ids of the step already evaluated */
  int step_rows;             /* rows of the step that are evaluated in full */
  bool in_step;
};

/* sample.c: `norm` of a session that has logits, made if it is not there. */
const ij_logit_norm *ij__session_norm(ij_session *s);

/* Fills the state spec of a session; layers: room for n_layer. */
void ij__session_spec(const ij_model *model, const ij_session_options *options, ij_layer_spec *layers, ij_state_spec *spec);

/* Rows of a step that can fail midway: reading experts can. */
static inline int ij__session_append(ij_home home, int max_batch) { return home == IJ_HOME_STREAMED ? max_batch : 0; }

/* Bytes that a session of these options can come to take, buffers included; SIZE_MAX: it overflows. */
size_t ij__session_need(const ij_model *model, const ij_session_options *options, int max_append);

/* plan.c. The options that plans look at. */
ij_status ij__check_plan_options(const ij_model_options *o, ij_err *err);

/* The plan for a model whose ckpt, config and weights are open. On IJ_E_NOMEM `out` holds the numbers, and its home is AUTO. */
ij_status ij__plan_fill(const ij_model *m, const ij_model_options *o, ij_plan *out, ij_err *err);

/* The same into model->plan and what follows from it for sessions; tells o->planned, which may cancel. */
ij_status ij__model_plan(ij_model *m, const ij_model_options *o, ij_err *err);

/* homes.c. Brings the weights to where the plan wants them: model->weights has its home of experts afterwards. `reader` may be NULL. */
ij_status ij__model_settle(ij_model *m, const ij_model_options *o, const ij_reader_options *reader, ij_err *err);

/* ij_model_open for tests: how files are read, and room for routed experts instead of the plan's (0: the plan's). */
typedef struct ij_open_hooks {
  ij_reader_options reader;
  size_t expert_room;
} ij_open_hooks;
ij_status ij__model_open_with(ij_model **out, const char *path, const ij_model_options *options, const ij_open_hooks *hooks, ij_err *err);

/* placed.c */
bool ij__placed_reserve(ij_placed *p, int64_t more);   /* room for that many additions */
void ij__placed_add(ij_placed *p, const ij_rows *rows); /* behind what is there; there is room */
void ij__placed_trim(ij_placed *p, int64_t pos);       /* forgets what is at or beyond pos */
/* [n_rows] rows that stand among n ids: in order, within them, at placeholders, with values that exist. */
ij_status ij__rows_check(const ij_model *model, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, ij_err *err);

/* After that: no placeholder is without its row. */
ij_status ij__rows_check_rest(const ij_model *model, const int32_t *ids, int64_t n, const ij_rows *rows, int n_rows, ij_err *err);

/* The tokenizer in the keys of a GGUF file. */
ij_status ij__tokenizer_open_gguf(ij_tokenizer **out, const struct ij_gguf *g, ij_err *err);

/* Options of a model or of towers alone; *level: the kernels to use. */
ij_status ij__check_model_options(const ij_model_options *o, ij_level *level, ij_err *err);
ij_status ij__report_progress(const ij_model_options *o, double fraction, ij_err *err);

/* The towers of a model: of its checkpoint, or of mmproj when that is given. Sets model->towers when there are any; towers of the checkpoint
 * that cannot be used are no error, but model->towers_error. */
ij_status ij__model_open_towers(ij_model *model, const char *mmproj, ij_err *err);
void ij__model_close_towers(ij_model *model);

/* For a streamed home, before it is opened: copies the path (NULL: no file) and reads the file. One that is missing or cannot be used is no error. */
ij_status ij__use_open(ij_model *model, const char *path, ij_err *err);
ij_status ij__use_begin(ij_model *model, ij_err *err);   /* for any home, once it is there */
void ij__use_count(ij_model *model, int n_batch);        /* after a batch: its rows, and how the home has done */
void ij__use_close(ij_model *model);                     /* before the home is closed: saves, if nobody has */

/* Gives back what measurements have kept. */
void ij__measure_free(ij_model *model);

/* True for placeholders of media, when they are control tokens: never sampled. */
bool ij__is_media_placeholder(const ij_model *model, int32_t id);

#endif
