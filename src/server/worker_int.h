/* worker_int.h: the worker from the inside; only worker*.c and prefix*.c include it.
 *
 * Two kinds of fields: those under `lock` (the door: what submit, drain and stats touch) and those of the worker's thread alone. Callbacks
 * are called by that thread without the lock, so they may submit.
 */
#ifndef IJ_SERVER_WORKER_INT_H
#define IJ_SERVER_WORKER_INT_H

#include <pthread.h>

#include "server/prefix.h"
#include "server/worker.h"

#define IJ_FORCED_MAX 16      /* ids that a guide forces, evaluated by one job in one step */
#define IJ_FORCED_ROWS 32     /* and by all jobs: each row of logits is kept, for its log-probability */

/* A position of the prompt to which later prompts may come back. */
#define IJ_MARKS_MAX 8
typedef struct ij_mark {
  int64_t at;
  bool urgent;                /* somebody waits for it */
  bool settled;               /* it can be had from the cache, or never */
} ij_mark;

struct ij_job {
  ij_job *next;
  ij_job_request req;         /* ids, rows and logit_bias are copies behind this struct */
  ij_rows *step_rows;         /* [req.n_rows] those of this turn's step */
  ij_session *session;        /* NULL while waiting */
  int64_t rows;               /* ids of this turn's step; 0: none */
  int32_t pending[IJ_FORCED_MAX]; /* chosen, to be evaluated; [0] has been handed out */
  int n_pending;
  ij_mark marks[IJ_MARKS_MAX];
  int n_marks;
  bool over;                  /* has ended in this turn */
  double t_submit, t_start, t_prefilled;
  ij_job_usage usage;
};

typedef struct ij_worker_door {
  pthread_mutex_t lock;
  pthread_cond_t work, quiet; /* something to do; a job has ended */
  ij_job *inbox, **inbox_end; /* accepted, not yet seen by the thread */
  int n_open;                 /* accepted jobs that have not ended */
  bool draining, cancelling, closing;
  ij_worker_stats stats;      /* n_running and n_waiting included */
} ij_worker_door;

struct ij_worker {
  ij_model *model;
  ij_worker_options options;
  ij_model_info info;
  ij_session_options session_options;
  int32_t turn_id;            /* begins a user's message; -1: unknown */
  pthread_t thread;
  ij_worker_door door;
  /* The thread's own. */
  ij_job *waiting, **waiting_end;
  ij_job **running;           /* [n_parallel], in order of their start */
  int n_running;
  int first_share;            /* whose turn it is to get the odd row */
  ij_prefix *prefix;          /* NULL: off */
  ij_step_item *items;        /* [n_parallel] */
  ij_job **item_jobs;         /* [n_parallel] */
  float *forced_logits;       /* [IJ_FORCED_ROWS][unpadded_vocab], from the first use on */
  int forced_left;            /* rows of it that the coming step may still use */
  int32_t n_guide_ids;        /* ids that guides know: the tokenizer's */
};

/* worker_turn.c. One turn: takes in, starts, steps, chooses. */
void ij__worker_turn(ij_worker *w, bool cancel);

/* The buffer for rows of forced runs; NULL without memory, then such ids go one at a time. */
float *ij__worker_forced_rows(ij_worker *w);

/* worker_choose.c. After a step: hands out what is known and chooses the next id. Ends the job when it is over. */
void ij__job_advance(ij_worker *w, ij_job *job, const float *logits_all);

/* worker_reuse.c. Gives the job its session, with as much of the prompt as the cache has. */
ij_status ij__reuse_begin(ij_worker *w, ij_job *job, ij_err *err);
/* Whether a waiting job had better wait for a prompt under way. */
bool ij__reuse_wait(ij_worker *w, ij_job *job);
/* How many of these rows of the prompt may go into one step, so that a mark is not passed by more than can be taken back. */
int64_t ij__reuse_rows(const ij_worker *w, const ij_job *job, int64_t rows);
/* Before a step with job->rows rows: keeps a copy if a mark would get out of reach. */
void ij__reuse_step(ij_worker *w, ij_job *job);
/* Gives the session to the cache if it is sound, or closes it. */
void ij__reuse_end(ij_worker *w, ij_job *job, bool sound);

/* Whether the caller still wants it. */
bool ij__job_alive(const ij_job *job);

/* Ends the job: closes its guide and session, counts, and calls `end`. The job stays in its list, marked over, until the turn is done. */
void ij__job_end(ij_worker *w, ij_job *job, ij_job_end end, const ij_err *err);

#endif
