/* net.h: the network as the forward pass sees it, private to model/ and its one caller, engine/.
 *
 * An ij_net ties together what is immutable (config, weights, kernel table) and what one step uses (pool, scratch). One step at a
 * time: the caller holds the lock. Every buffer is sized when the net is opened; a step allocates nothing.
 */
#ifndef IJ_MODEL_NET_H
#define IJ_MODEL_NET_H

#include "cache/state.h"
#include "core/pool.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/predict.h"
#include "model/weights.h"

/* A short convolution of all rows of a batch, on what a product has computed: out[row] = (add ? out[row] : 0) + sconv(in)[row]. */
typedef struct ij_sconv {
  const struct ij_batch_item *items;
  int layer, conv;
  const float *in;      /* [n_row, n_chan], like out */
  float *out;
  int64_t n_row, n_chan;
  bool add;
} ij_sconv;

/* One matrix product of a group: y[n, w->rows] = x[n, w->cols] * w^T. */
typedef struct ij_gemm {
  const ij_weight *w;
  const float *x;
  float *y;
  int64_t ldx, ldy, n;
  const ij_sconv *then; /* of y; or NULL */
} ij_gemm;

/* One SwiGLU of a group: some rows of x go through it, and the result times a weight is added to the same rows of y. */
typedef struct ij_ffn {
  ij_weight gate, up, down;
  const int *rows;      /* row numbers, ascending; NULL: rows 0 .. n - 1 */
  const float *weight;  /* [n], one per row */
  int64_t n;
  const float *x;       /* its input rows; set by mlp.c, like what follows */
  const int *listed;    /* NULL, or which of those at x they are */
  int64_t ldx;
  bool gather;          /* they are copies, because they are few and do not lie at one distance */
  float *gu, *act;      /* [n, 2 * width], [n, width]: its part of the scratch */
} ij_ffn;

/* Buffers of a step; N = max_batch. All floats. */
typedef struct ij_scratch {
  float *h, *x, *y;            /* [N, H] residual stream, normalized input, block output */
  float *q, *r, *att;          /* [N, n_head * d], [N, n_head * d_rel], [N, n_head * d] */
  float *kv[2], *kv_conv[2];   /* [N, n_kv * d] raw projections and after the convolution; k, v */
  float *gathered;             /* [N * k or fewer, H] inputs of routed experts with few rows, which do not lie at one distance and are not all taken as integers */
  float *ffn_gu, *ffn_act;     /* [N * w * 2], [N * w], w = max(dense_width, (k + SH) * expert_width) */
  ij_ints *ints;               /* the input of a loop over products as integers; or NULL: products make their own */
  float *router;               /* [N, E + SH] */
  float *route_weight;         /* [N, k + SH] in order of expert, then shared */
  float *row_weight;           /* [N * (k + SH)] the same per expert */
  float *head_in;              /* [N, H] rows that go to the head */
  float *zeros;                /* [max channels] the past before position 0 */
  int *route_id;               /* [N, k] ascending */
  int *expert_rows;            /* [N * k] rows by expert */
  int *expert_count, *expert_start; /* [E + 1] */
  int *expert_ids;             /* [E] experts in use, ascending */
  ij_expert_lease *leases;     /* [E] */
  ij_ffn *ffns;                /* [E + SH] */
  ij_ffn *shared_ffns;         /* [SH] */
  int *row_item, *row_at;      /* [N] which item a row belongs to, and its number there */
  int *tile_item, *tile_row;   /* [N] tiles of attention: item, first row in the item */
  const float **row_media;     /* [N] what stands in for the embedding of a row; NULL: nothing does */
  int *bad;                    /* [N] 0, or 1 + index of the trace point where a row first was not finite */
  float *worker;               /* [threads][worker_floats] */
  int64_t worker_floats;
  ij_x_room *x_rooms;          /* [threads], or NULL: x is laid out anew for every call */
  float *part;                 /* partial attention results of split tasks */
} ij_scratch;

typedef struct ij_net {
  const ij_config *config;
  const ij_weights *weights;
  const ij_kernels *kernels;
  ij_pool *pool;
  int max_batch;
  size_t n_bytes;              /* of the buffers of scratch */
  int n_part_row, n_part_span; /* what scratch.part holds */
  ij_scratch s;
  uint64_t loop;               /* number of the latest loop over products; see ij_product */
  const ij_err *why;           /* of the step, when weights could not be read: which, and what to do */
  ij_err row_error;            /* what it points to when that was a row of the embedding table */
  ij_predictor predict;
} ij_net;

/* One session's share of a step. */
typedef struct ij_batch_item {
  ij_state *state;         /* pos advances by n when the step succeeds for this item */
  const int32_t *ids;
  const float *const *media; /* NULL, or [n]: each NULL, or a row of a medium [H] in place of the id's embedding */
  int64_t n;
  int user;                /* the caller's, not touched */
  int64_t row0;            /* its first row in the batch; set by ij__forward */
  float *logits_last;      /* [unpadded] or NULL */
  float *logits_all;       /* [n, unpadded] or NULL */
  float *trace;            /* NULL, or element (point, row) at (point * trace_ld + row) * H */
  int64_t trace_ld;
  ij_status status;        /* out */
  _Atomic bool bad_logits; /* a logit is not finite; ij__forward's own */
  int bad_point;           /* out, with IJ_E_NUMERIC: 0 embedding, 1 + i layer i, n_layer + 1 the head */
} ij_batch_item;

/* Sizes and opens the buffers. config, weights (with their home of experts) and kernels are borrowed. */
ij_status ij__net_open(ij_net *net, const ij_config *config, const ij_weights *weights, const ij_kernels *kernels, ij_pool *pool,
                       int max_batch, ij_predict_mode predict, ij_err *err);
void ij__net_close(ij_net *net);

/* Bytes of the buffers of a net with so many threads and rows, those of attention over n_ctx positions and, if experts may be guessed, of guesses
 * included; false when they overflow. */
bool ij__net_bytes(const ij_config *config, int n_threads, int max_batch, int64_t n_ctx, bool guesses, size_t *n_bytes);

/* Makes sure that attention over n_ctx positions can be split among threads. Not during a step. */
ij_status ij__net_reserve(ij_net *net, int64_t n_ctx, ij_err *err);

/* Runs the decoder over all rows of all items; their sum is at most max_batch, states are distinct and have room. */
void ij__forward(ij_net *net, ij_batch_item *items, int n_items);

/* The steps that forward.c names, each over all rows of the batch. `then` is the convolution of s.y that ends the step. */
void ij__gemm_run(ij_net *net, const ij_gemm *gemms, int n_gemm);
void ij__attention(ij_net *net, ij_batch_item *items, int n_items, int64_t n_row, const ij_sconv *then); /* s.x -> s.y */
ij_status ij__mlp(ij_net *net, int64_t n_row, const ij_sconv *then);                                     /* s.x -> s.y */

/* Channels [c0, c1) of a short convolution, whose inputs are complete, by one worker; then remembers the raw inputs. */
void ij__sconv(const ij_net *net, const ij_sconv *c, int64_t c0, int64_t c1, int worker);

static inline float *ij__worker_scratch(const ij_net *net, int worker) { return net->s.worker + worker * net->s.worker_floats; }

#endif
