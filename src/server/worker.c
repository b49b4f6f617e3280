/* worker.c: the worker's door: open, submit, drain, stats, close, and the thread's loop. What a turn does is in worker_turn.c.
 *
 * Submitting only appends to an inbox under the lock; everything else about a job belongs to the worker's thread. That is why callbacks
 * need no lock and a slow step never blocks a submitter.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "server/worker_int.h"

#define DEFAULT_N_CTX 8192
#define MAX_PARALLEL 1024

ij_worker_options ij__worker_options_default(void) {
  return (ij_worker_options){.n_parallel = 8, .max_queue = 64, .n_ctx = 0, .kv_type = IJ_KV_F32, .prefill_rows = 256,
                             .cache_bytes = (size_t)2 << 30, .cache_dir_bytes = (size_t)8 << 30, .turn_id = -1};
}

static ij_status check_options(ij_worker_options *o, const ij_model_info *info, ij_err *err) {
  if (o->n_ctx == 0) o->n_ctx = IJ_MIN((int64_t)DEFAULT_N_CTX, info->max_context);
  if (o->n_parallel < 1 || o->n_parallel > MAX_PARALLEL) {
    return ij__fail(err, IJ_E_ARGUMENT, "n_parallel", "expected 1 to %d sessions at once, found %d", MAX_PARALLEL, o->n_parallel);
  }
  if (o->max_queue < 0) return ij__fail(err, IJ_E_ARGUMENT, "max_queue", "expected 0 or more jobs that may wait, found %d", o->max_queue);
  if (o->n_ctx < 1 || o->n_ctx > info->max_context) {
    return ij__fail(err, IJ_E_ARGUMENT, "n_ctx", "expected 1 to %lld (the model's limit), found %lld", (long long)info->max_context, (long long)o->n_ctx);
  }
  if ((int)o->kv_type < IJ_KV_BF16 || o->kv_type > IJ_KV_F32) return ij__fail(err, IJ_E_ARGUMENT, "kv_type", "expected an ij_kv_type, found %d", (int)o->kv_type);
  if (o->prefill_rows < 1) return ij__fail(err, IJ_E_ARGUMENT, "prefill_rows", "expected at least 1 row, found %d", o->prefill_rows);
  return IJ_OK;
}

/* ----------------------------------------------------------------------------------------------------------- the thread */

/* Moves accepted jobs to the thread's own list. */
static void take_inbox(ij_worker *w) {
  if (!w->door.inbox) return;
  *w->waiting_end = w->door.inbox;
  w->waiting_end = w->door.inbox_end;
  w->door.inbox = NULL;
  w->door.inbox_end = &w->door.inbox;
}

static void *run(void *arg) {
  ij_worker *w = arg;
  for (;;) {
    pthread_mutex_lock(&w->door.lock);
    while (w->door.n_open == 0 && !w->door.closing) pthread_cond_wait(&w->door.work, &w->door.lock);
    bool stop = w->door.n_open == 0, cancel = w->door.cancelling;
    take_inbox(w);
    pthread_mutex_unlock(&w->door.lock);
    if (stop) return NULL;
    ij__worker_turn(w, cancel);
  }
}

/* ------------------------------------------------------------------------------------------------------------- open, close */

static void free_worker(ij_worker *w) {
  ij__prefix_close(&w->prefix);
  ij__free(w->running);
  ij__free(w->items);
  ij__free(w->item_jobs);
  ij__free(w->forced_logits);
  ij__free(w);
}

static ij_status open_prefix(ij_worker *w, ij_err *err) {
  const ij_worker_options *o = &w->options;
  w->session_options = ij_session_options_default();
  w->session_options.n_ctx = o->n_ctx;
  w->session_options.kv_type = o->kv_type;
  if (o->cache_bytes == 0) return IJ_OK;
  ij_prefix_options p = {.model = w->model, .session = w->session_options, .max_bytes = o->cache_bytes, .dir = o->cache_dir,
                         .max_dir_bytes = o->cache_dir_bytes, .log = o->log, .log_user = o->log_user};
  return ij__prefix_open(&w->prefix, &p, err);
}

static ij_status open_parts(ij_worker *w, ij_err *err) {
  size_t n = (size_t)w->options.n_parallel;
  w->running = ij__alloc_zero(n, sizeof(ij_job *));
  w->items = ij__alloc_zero(n, sizeof *w->items);
  w->item_jobs = ij__alloc_zero(n, sizeof(ij_job *));
  if (!w->running || !w->items || !w->item_jobs) return ij__fail_nomem(err, "the worker", n * sizeof *w->items);
  w->waiting_end = &w->waiting;
  w->door.inbox_end = &w->door.inbox;
  const ij_tokenizer *tokenizer = ij_model_tokenizer(w->model);
  w->n_guide_ids = tokenizer ? IJ_MIN(ij_tokenizer_size(tokenizer), w->info.unpadded_vocab) : w->info.unpadded_vocab;
  w->turn_id = w->options.turn_id;
  if (w->turn_id < 0 && tokenizer) w->turn_id = ij_find_special(tokenizer, "<|message_user|>");
  return open_prefix(w, err);
}

static void destroy_door(ij_worker_door *door) {
  pthread_cond_destroy(&door->quiet);
  pthread_cond_destroy(&door->work);
  pthread_mutex_destroy(&door->lock);
}

static ij_status start_thread(ij_worker *w, ij_err *err) {
  ij_worker_door *door = &w->door;
  if (pthread_mutex_init(&door->lock, NULL) != 0) return ij__fail_nomem(err, "the worker's lock", sizeof door->lock);
  if (pthread_cond_init(&door->work, NULL) != 0) {
    pthread_mutex_destroy(&door->lock);
    return ij__fail_nomem(err, "the worker's lock", sizeof door->work);
  }
  if (pthread_cond_init(&door->quiet, NULL) != 0) {
    pthread_cond_destroy(&door->work);
    pthread_mutex_destroy(&door->lock);
    return ij__fail_nomem(err, "the worker's lock", sizeof door->quiet);
  }
  int failed = pthread_create(&w->thread, NULL, run, w);
  if (!failed) return IJ_OK;
  destroy_door(door);
  return ij__fail_errno(err, failed, "the worker", "cannot start a thread");
}

ij_status ij__worker_open(ij_worker **out, ij_model *model, const ij_worker_options *options, ij_err *err) {
  *out = NULL;
  ij_worker *w = ij__alloc_zero(1, sizeof *w);
  if (!w) return ij__fail_nomem(err, "the worker", sizeof *w);
  w->model = model;
  w->options = options ? *options : ij__worker_options_default();
  ij_model_get_info(model, &w->info);
  ij_status status = check_options(&w->options, &w->info, err);
  if (status == IJ_OK) status = open_parts(w, err);
  if (status == IJ_OK) status = start_thread(w, err);
  if (status != IJ_OK) {
    free_worker(w);
    return status;
  }
  *out = w;
  return IJ_OK;
}

int64_t ij__worker_n_ctx(const ij_worker *w) { return w->options.n_ctx; }

void ij__worker_close(ij_worker **worker) {
  if (!worker || !*worker) return;
  ij_worker *w = *worker;
  ij__worker_drain(w, 0);
  pthread_mutex_lock(&w->door.lock);
  w->door.closing = true;
  pthread_cond_signal(&w->door.work);
  pthread_mutex_unlock(&w->door.lock);
  pthread_join(w->thread, NULL);
  destroy_door(&w->door);
  free_worker(w);
  *worker = NULL;
}

void ij__worker_drain(ij_worker *w, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  double whole = IJ_MIN(IJ_MAX(seconds, 0.0), 1e9);
  until.tv_sec += (time_t)whole;
  until.tv_nsec += (long)((whole - (double)(time_t)whole) * 1e9);
  if (until.tv_nsec >= 1000000000L) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000L;
  }
  pthread_mutex_lock(&w->door.lock);
  w->door.draining = true;
  int waited = 0;
  while (w->door.n_open > 0 && seconds > 0 && waited != ETIMEDOUT) waited = pthread_cond_timedwait(&w->door.quiet, &w->door.lock, &until);
  w->door.cancelling = true;
  while (w->door.n_open > 0) pthread_cond_wait(&w->door.quiet, &w->door.lock);
  pthread_mutex_unlock(&w->door.lock);
}

/* -------------------------------------------------------------------------------------------------------------- submit */

/* Places of media are checked in full by the step that comes to them; here, that they are places, and that no placeholder is left over. */
static ij_status check_media(const ij_worker *w, const ij_job_request *r, ij_err *err) {
  const ij_tokenizer *tokenizer = ij_model_tokenizer(w->model);
  int32_t image = ij_model_placeholder(w->model, false), sound = ij_model_placeholder(w->model, true);
  int64_t at = 0;
  if (r->n_rows < 0 || (r->n_rows > 0 && !r->rows)) return ij__fail(err, IJ_E_ARGUMENT, "rows", "expected the length of rows, found %d", r->n_rows);
  for (int i = 0; i <= r->n_rows; i++) {
    int64_t first = i < r->n_rows ? r->rows[i].first : r->n_ids, n = i < r->n_rows ? r->rows[i].n : 0;
    if (first < at || first > r->n_ids || n < 0 || n > r->n_ids - first || (n > 0 && !r->rows[i].rows)) {
      return ij__fail(err, IJ_E_ARGUMENT, "rows", "rows[%d]: expected rows of a medium behind the one before it, within the prompt", i);
    }
    for (; at < first; at++) {
      if ((r->ids[at] != image && r->ids[at] != sound) || !tokenizer || !ij_is_special(tokenizer, r->ids[at])) continue;
      return ij__fail(err, IJ_E_ARGUMENT, "prompt", "token %lld is %d, the placeholder of a picture or sound, and none stands there", (long long)at,
                      r->ids[at]);
    }
    at = first + n;
  }
  return IJ_OK;
}

static ij_status check_request(const ij_worker *w, const ij_job_request *r, ij_err *err) {
  if (!r->ids || r->n_ids < 1) return ij__fail(err, IJ_E_ARGUMENT, "prompt", "expected at least one token, found %lld", (long long)r->n_ids);
  if (r->n_ids > w->options.n_ctx) {
    return ij__fail(err, IJ_E_CONTEXT, "prompt", "the prompt's %lld tokens do not fit into the context of %lld", (long long)r->n_ids, (long long)w->options.n_ctx);
  }
  for (int64_t i = 0; i < r->n_ids; i++) {
    if (r->ids[i] >= 0 && r->ids[i] < w->info.unpadded_vocab) continue;
    return ij__fail(err, IJ_E_ARGUMENT, "prompt", "token %lld is %d; this model has ids 0 to %d", (long long)i, r->ids[i], w->info.unpadded_vocab - 1);
  }
  if (r->max_tokens < -1) return ij__fail(err, IJ_E_ARGUMENT, "max_tokens", "expected -1 (as many as fit) or more, found %lld", (long long)r->max_tokens);
  if (r->n_top < 0 || r->n_top > IJ_MIN(IJ_MAX_TOP, w->info.unpadded_vocab)) {
    return ij__fail(err, IJ_E_ARGUMENT, "n_top", "expected 0 to %d alternatives, found %d", IJ_MIN(IJ_MAX_TOP, w->info.unpadded_vocab), r->n_top);
  }
  if (r->sample.struct_size != sizeof r->sample || r->sample.allowed) {
    return ij__fail(err, IJ_E_ARGUMENT, "sample", "expected options from ij_sample_options_default() and no mask: masks come from the guide");
  }
  if (r->sample.n_logit_bias < 0 || (r->sample.n_logit_bias > 0 && !r->sample.logit_bias)) {
    return ij__fail(err, IJ_E_ARGUMENT, "n_logit_bias", "expected the length of logit_bias, found %d", r->sample.n_logit_bias);
  }
  if (!r->end) return ij__fail(err, IJ_E_ARGUMENT, "end", "a job needs someone to tell how it ended");
  return check_media(w, r, err);
}

/* The job with its copies in one block; NULL without memory. */
static ij_job *make_job(const ij_job_request *r) {
  size_t ids_bytes = (size_t)r->n_ids * sizeof *r->ids, bias_bytes = (size_t)r->sample.n_logit_bias * sizeof *r->sample.logit_bias;
  size_t rows_bytes = (size_t)r->n_rows * sizeof *r->rows;
  size_t head = ij__align_up(sizeof(ij_job), IJ_ALIGNMENT), bias_at = head + ij__align_up(ids_bytes, IJ_ALIGNMENT);
  size_t rows_at = bias_at + ij__align_up(bias_bytes, IJ_ALIGNMENT);
  char *block = ij__alloc(rows_at + 2 * rows_bytes);
  if (!block) return NULL;
  ij_job *job = (ij_job *)(void *)block;
  *job = (ij_job){.req = *r, .t_submit = ij__os_seconds()};
  memcpy(block + head, r->ids, ids_bytes);
  if (bias_bytes) memcpy(block + bias_at, r->sample.logit_bias, bias_bytes);
  job->req.ids = (const int32_t *)(void *)(block + head);
  job->req.sample.logit_bias = bias_bytes ? (const ij_logit_bias *)(void *)(block + bias_at) : NULL;
  job->step_rows = (ij_rows *)(void *)(block + rows_at + rows_bytes);
  if (rows_bytes) job->req.rows = memcpy(block + rows_at, r->rows, rows_bytes);
  job->usage.n_prompt = r->n_ids;
  return job;
}

ij_status ij__worker_submit(ij_worker *w, const ij_job_request *request, ij_err *err) {
  ij_status status = check_request(w, request, err);
  if (status != IJ_OK) return status;
  ij_job *job = make_job(request);
  if (!job) return ij__fail_nomem(err, "a job", (size_t)request->n_ids * sizeof *request->ids);
  ij_worker_door *door = &w->door;
  int room = w->options.n_parallel + w->options.max_queue; /* jobs that will start at once do not count as waiting */
  pthread_mutex_lock(&door->lock);
  if (door->draining || door->n_open >= room) {
    door->stats.n_refused++;
    status = door->draining ? ij__fail(err, IJ_E_CANCELLED, "the worker", "it takes no more jobs: it is about to stop")
                            : ij__fail(err, IJ_E_BUSY, "the worker", "%d jobs are under way or waiting, which is the limit: try again later", room);
  } else {
    *door->inbox_end = job;
    door->inbox_end = &job->next;
    door->n_open++;
    door->stats.n_jobs++;
    door->stats.n_waiting++;
    pthread_cond_signal(&door->work);
  }
  pthread_mutex_unlock(&door->lock);
  if (status != IJ_OK) ij__free(job);
  return status;
}

void ij__worker_stats(ij_worker *w, ij_worker_stats *out) {
  pthread_mutex_lock(&w->door.lock);
  *out = w->door.stats;
  pthread_mutex_unlock(&w->door.lock);
}
