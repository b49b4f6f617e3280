/* predict.h: guessing which experts the next layer will want, so that their reads can begin while this layer is computed.
 *
 * The guess is the next layer's own router on the residual stream as it is before this layer's experts have been added: what a layer adds is
 * small beside what is there. Of the experts that the demo model used in 200 drawn tokens (three prompts), 72 to 75 % had been guessed so; with this
 * layer's experts added it were 82 to 86 %, but then only attention is left to read in, while its experts take the longest. A guess starts
 * reads and nothing else, so no result depends on it. */
#ifndef IJ_MODEL_PREDICT_H
#define IJ_MODEL_PREDICT_H

#include "core/base.h"

#define IJ_PREDICT_ROWS 8 /* larger batches use most experts of a layer anyway */

typedef enum ij_predict_mode { IJ_PREDICT_MODE_AUTO, IJ_PREDICT_MODE_OFF, IJ_PREDICT_MODE_ON } ij_predict_mode;

/* What one way of working has cost; what an earlier comparison has found counts by half. */
typedef struct ij_predict_cost {
  double seconds;      /* in which the step waited for experts, or guessed */
  double n_row;
} ij_predict_cost;

/* AUTO compares stretches of rows with and without guesses, keeps the cheaper way for a while, and looks again. */
typedef struct ij_predictor {
  ij_predict_mode mode;
  bool possible;       /* the home has a use for guesses */
  bool on;             /* guess in this step */
  /* The comparison under way, or what is left of the time between two. */
  int i_stretch;
  int64_t left;        /* rows until the end of the stretch, or of the time between */
  int64_t pause;       /* rows between two comparisons; grows */
  bool comparing;
  ij_predict_cost cost[2]; /* without, with */
  int64_t n_guess0, n_used0;
  /* The step under way. */
  double wait0, own;
  /* Scratch, NULL when not possible. */
  float *x, *z, *score; /* [IJ_PREDICT_ROWS, H], [IJ_PREDICT_ROWS, E + SH], [E] */
  int *route, *ids;     /* [k], [E] */
  bool *wanted;         /* [E] */
} ij_predictor;

struct ij_net;

/* Around each step of n_row rows. */
void ij__predict_begin(struct ij_net *net, int64_t n_row);
void ij__predict_end(struct ij_net *net, int64_t n_row);

/* Before the MLP or the experts of `layer` run: announces the guess for the next one. s.h -> wants. */
void ij__predict_next(struct ij_net *net, int layer, int64_t n_row);

/* The bookkeeping of AUTO alone, which the tests drive: a step of n_row rows has cost `seconds`. */
void ij__predict_count(ij_predictor *p, int64_t n_row, double seconds, int64_t n_guess, int64_t n_used);

#endif
