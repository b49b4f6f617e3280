/* worker.h: generation jobs. A bounded queue, one thread that steps all running sessions together, and the prefix cache.
 *
 * A job is a prompt and how to go on from it. Its callbacks come from the worker's thread, in order, and must be quick; `end` comes exactly
 * once for every job that was accepted. What a job answers has the same bits alone, in company, and with any state of the cache.
 */
#ifndef IJ_SERVER_WORKER_H
#define IJ_SERVER_WORKER_H

#include "core/base.h"
#include "inkjet.h"
#include "inkjet_chat.h"

typedef struct ij_worker ij_worker;
typedef struct ij_job ij_job;

typedef struct ij_worker_options {
  int n_parallel;              /* sessions that run at once; default 8 */
  int max_queue;               /* jobs that wait; beyond: IJ_E_BUSY */
  int64_t n_ctx;               /* positions per session; 0: 8192, or the model's limit if that is less */
  ij_kv_type kv_type;
  int prefill_rows;            /* rows of prompts in one step, so that running answers keep moving and a job that is cancelled stops soon */
  size_t cache_bytes;          /* bound of the prefix cache; 0: off */
  const char *cache_dir;       /* where states that are pushed out of memory go; NULL: nowhere */
  size_t cache_dir_bytes;
  int32_t turn_id;             /* the id that begins a user's message; -1: the tokenizer's <|message_user|>, if there is one */
  void (*log)(void *user, const char *line); /* what went wrong without being an error of a job; any thread; may be NULL */
  void *log_user;
} ij_worker_options;

ij_worker_options ij__worker_options_default(void);

typedef struct ij_job_token {
  ij_choice choice;
  const ij_choice *top;        /* [n_top] */
  int n_top;
  bool sampled;                /* false: the only id that the guide allowed */
} ij_job_token;

typedef enum ij_job_end { IJ_JOB_EOS, IJ_JOB_LENGTH, IJ_JOB_CONTEXT, IJ_JOB_STOPPED, IJ_JOB_CANCELLED, IJ_JOB_FAILED } ij_job_end;

typedef struct ij_job_usage {
  int64_t n_prompt, n_cached, n_generated; /* n_cached: prompt ids that needed no evaluation */
  double queue_s, prefill_s, decode_s;
} ij_job_usage;

typedef struct ij_job_request {
  const int32_t *ids;          /* the prompt; copied */
  int64_t n_ids;
  int64_t max_tokens;          /* -1: as many as fit */
  ij_sample_options sample;    /* logit_bias is copied; `allowed` must be NULL */
  ij_guide *guide;             /* NULL or owned by the job from acceptance on */
  int n_top;                   /* alternatives wanted with each token, 0 to IJ_MAX_TOP */
  const ij_rows *rows;         /* media among ids, as for ij_session_eval_rows; copied, but not their floats: those live until `end` */
  int n_rows;
  bool (*token)(void *user, const ij_job_token *token);  /* also for the end id; false: stop here (STOPPED; CANCELLED if not alive) */
  bool (*alive)(void *user);   /* asked before every step, also while waiting and during prefill; NULL: always */
  void (*end)(void *user, ij_job_end end, const ij_job_usage *usage, const ij_err *err);
  void *user;
} ij_job_request;

/* The model must outlive the worker. */
ij_status ij__worker_open(ij_worker **out, ij_model *model, const ij_worker_options *options, ij_err *err);
int64_t ij__worker_n_ctx(const ij_worker *worker); /* positions per session */
/* Lets accepted jobs finish for at most `seconds`, then cancels what is left. */
void ij__worker_drain(ij_worker *worker, double seconds);
void ij__worker_close(ij_worker **worker);

/* IJ_E_BUSY: the queue is full; IJ_E_CANCELLED: it drains; IJ_E_CONTEXT: the prompt does not fit; IJ_E_ARGUMENT. On failure `end` is not called and the guide stays
 * the caller's. Any thread. */
ij_status ij__worker_submit(ij_worker *worker, const ij_job_request *request, ij_err *err);

typedef struct ij_worker_stats {
  int64_t n_jobs, n_failed, n_cancelled, n_refused;
  int64_t n_prompt, n_cached, n_generated;   /* tokens */
  double prefill_s, decode_s;                /* time in steps with rows of prompts, and in others */
  int n_running, n_waiting;
  size_t cache_bytes;
  int cache_entries;
  size_t cache_dir_bytes;
  int cache_files;
  int64_t cache_hits, cache_misses;
} ij_worker_stats;
void ij__worker_stats(ij_worker *worker, ij_worker_stats *out);

#endif
