/* worker_turn.c: one turn of the worker: who is still there, who may start, which rows go into the step, and what came out.
 *
 * Fairness. Jobs start in the order of their arrival. In a step every running answer gets its next id; the prompts under way share
 * prefill_rows rows equally, what one does not need goes to the others, and the odd row goes round. So a long prompt delays nobody by more
 * than one step of prefill_rows rows, and a short prompt beside long ones is done after a few.
 */
#include <string.h>

#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "server/worker_int.h"

/* ------------------------------------------------------------------------------------------------------- ends of jobs */

void ij__job_end(ij_worker *w, ij_job *job, ij_job_end end, const ij_err *err) {
  double now = ij__os_seconds();
  bool started = job->t_start > 0;
  job->over = true;
  if (!started) job->usage.queue_s = now - job->t_submit;
  if (started && job->t_prefilled == 0) job->usage.prefill_s = now - job->t_start;
  if (job->t_prefilled > 0) job->usage.decode_s = now - job->t_prefilled;
  ij_guide_close(&job->req.guide); /* before `end`: the caller may then drop the grammars behind it */
  ij__reuse_end(w, job, end != IJ_JOB_FAILED);
  job->req.end(job->req.user, end, &job->usage, err);
  ij_worker_door *door = &w->door;
  pthread_mutex_lock(&door->lock);
  ij_worker_stats *s = &door->stats;
  *(started ? &s->n_running : &s->n_waiting) -= 1;
  s->n_failed += end == IJ_JOB_FAILED;
  s->n_cancelled += end == IJ_JOB_CANCELLED;
  s->n_generated += job->usage.n_generated;
  door->n_open--;
  pthread_cond_broadcast(&door->quiet);
  pthread_mutex_unlock(&door->lock);
}

bool ij__job_alive(const ij_job *job) { return !job->req.alive || job->req.alive(job->req.user); }

/* Ends jobs whose callers have left, in the queue too. */
static void drop_dead(ij_worker *w, bool cancel) {
  for (ij_job **at = &w->waiting; *at;) {
    ij_job *job = *at;
    if (!cancel && ij__job_alive(job)) {
      at = &job->next;
      continue;
    }
    *at = job->next;
    if (!*at) w->waiting_end = at;
    ij__job_end(w, job, IJ_JOB_CANCELLED, NULL);
    ij__free(job);
  }
  for (int i = 0; i < w->n_running; i++) {
    if (cancel || !ij__job_alive(w->running[i])) ij__job_end(w, w->running[i], IJ_JOB_CANCELLED, NULL);
  }
}

/* Takes the jobs that are over out of the list; the others keep their order. */
static void sweep(ij_worker *w) {
  int n = 0;
  for (int i = 0; i < w->n_running; i++) {
    if (w->running[i]->over) {
      ij__free(w->running[i]);
    } else {
      w->running[n++] = w->running[i];
    }
  }
  w->n_running = n;
}

/* --------------------------------------------------------------------------------------------------------------- starts */

static int64_t prompt_left(const ij_job *job) { return job->req.n_ids - ij_session_pos(job->session); }

static void start(ij_worker *w, ij_job *job) {
  job->t_start = ij__os_seconds();
  job->usage.queue_s = job->t_start - job->t_submit;
  pthread_mutex_lock(&w->door.lock);
  w->door.stats.n_waiting--;
  w->door.stats.n_running++;
  w->door.stats.n_prompt += job->usage.n_prompt;
  pthread_mutex_unlock(&w->door.lock);
  ij_err err;
  ij_status status = ij__reuse_begin(w, job, &err);
  w->running[w->n_running++] = job;
  pthread_mutex_lock(&w->door.lock);
  w->door.stats.n_cached += job->usage.n_cached;
  w->door.stats.cache_hits += job->usage.n_cached > 0;
  w->door.stats.cache_misses += job->usage.n_cached == 0;
  pthread_mutex_unlock(&w->door.lock);
  if (status != IJ_OK) {
    ij__job_end(w, job, IJ_JOB_FAILED, &err);
  } else if (prompt_left(job) == 0) {
    ij__job_advance(w, job, NULL); /* all of it was in the cache */
  }
}

static void start_waiting(ij_worker *w) {
  for (ij_job **at = &w->waiting; *at && w->n_running < w->options.n_parallel;) {
    ij_job *job = *at;
    if (ij__reuse_wait(w, job)) { /* those behind it may go first */
      at = &job->next;
      continue;
    }
    *at = job->next;
    if (!*at) w->waiting_end = at;
    start(w, job);
  }
}

/* ----------------------------------------------------------------------------------------------------------------- rows */

/* Hands out the rows of this step. */
static void share_rows(ij_worker *w) {
  int64_t left = w->options.prefill_rows;
  int n_hungry = 0;
  for (int i = 0; i < w->n_running; i++) {
    ij_job *job = w->running[i];
    bool prefilling = !job->over && prompt_left(job) > 0;
    job->rows = prefilling || job->over ? 0 : job->n_pending;
    n_hungry += prefilling;
  }
  while (left > 0 && n_hungry > 0) {
    int64_t share = IJ_MAX(left / n_hungry, (int64_t)1);
    n_hungry = 0;
    for (int i = 0; i < w->n_running; i++) {
      ij_job *job = w->running[(w->first_share + i) % w->n_running];
      if (job->over || prompt_left(job) <= 0) continue;
      int64_t want = ij__reuse_rows(w, job, prompt_left(job)) - job->rows;
      if (want <= 0) continue;
      int64_t got = IJ_MIN(IJ_MIN(share, want), left);
      job->rows += got;
      left -= got;
      n_hungry += got < want;
    }
  }
  w->first_share = (w->first_share + 1) % w->options.n_parallel;
}

/* ----------------------------------------------------------------------------------------------------------------- step */

float *ij__worker_forced_rows(ij_worker *w) {
  if (!w->forced_logits) w->forced_logits = ij__alloc_array((size_t)IJ_FORCED_ROWS * (size_t)w->info.unpadded_vocab, sizeof(float));
  return w->forced_logits;
}

/* The media among the next ids of the prompt, at their places there. */
static int step_rows(ij_job *job, int64_t hidden) {
  int64_t from = ij_session_pos(job->session), to = from + job->rows;
  int n = 0;
  for (int i = 0; i < job->req.n_rows; i++) {
    const ij_rows *r = &job->req.rows[i];
    int64_t first = IJ_MAX(r->first, from), end = IJ_MIN(r->first + r->n, to);
    if (first >= end) continue;
    job->step_rows[n++] = (ij_rows){.first = first - from, .n = end - first, .rows = r->rows + (first - r->first) * hidden,
                                    .row0 = r->row0 + (first - r->first), .digest = {r->digest[0], r->digest[1]}};
  }
  return n;
}

static int fill_items(ij_worker *w, bool *has_prompt) {
  int n = 0, forced_used = 0;
  *has_prompt = false;
  for (int i = 0; i < w->n_running; i++) {
    ij_job *job = w->running[i];
    if (job->over || job->rows == 0) continue;
    bool prompt = prompt_left(job) > 0;
    ij__reuse_step(w, job);
    *has_prompt |= prompt;
    ij_step_item *item = &w->items[n];
    *item = (ij_step_item){.session = job->session, .ids = prompt ? job->req.ids + ij_session_pos(job->session) : job->pending, .n = job->rows};
    if (prompt) {
      item->n_rows = step_rows(job, w->info.hidden);
      item->rows = job->step_rows;
    }
    if (!prompt && job->rows > 1) {
      item->logits_all = w->forced_logits + (size_t)forced_used * (size_t)w->info.unpadded_vocab;
      forced_used += (int)job->rows;
    }
    w->item_jobs[n++] = job;
  }
  return n;
}

/* ij_step tells the text of the first error only; the others get the meaning of their code. */
static void fail_item(ij_worker *w, int i, ij_err *first, bool *is_first) {
  ij_err other;
  ij_err *err = *is_first ? first : &other;
  if (!*is_first) ij__fail(&other, w->items[i].status, "ij_step", "%s", ij_status_text(w->items[i].status));
  *is_first = false;
  ij__job_end(w, w->item_jobs[i], IJ_JOB_FAILED, err);
}

static void count_time(ij_worker *w, bool has_prompt, double seconds) {
  ij_prefix_stats cache = w->prefix ? ij__prefix_get_stats(w->prefix) : (ij_prefix_stats){0};
  pthread_mutex_lock(&w->door.lock);
  w->door.stats.cache_bytes = cache.bytes;
  w->door.stats.cache_entries = cache.n_entries;
  w->door.stats.cache_dir_bytes = cache.dir_bytes;
  w->door.stats.cache_files = cache.n_files;
  *(has_prompt ? &w->door.stats.prefill_s : &w->door.stats.decode_s) += seconds;
  pthread_mutex_unlock(&w->door.lock);
}

static void step(ij_worker *w) {
  bool has_prompt, is_first = true;
  int n = fill_items(w, &has_prompt);
  if (n == 0) return;
  ij_err err = {0};
  w->forced_left = IJ_FORCED_ROWS; /* of the next step */
  double begin = ij__os_seconds();
  ij_step(w->model, w->items, n, &err);
  for (int i = 0; i < n; i++) {
    if (w->items[i].status != IJ_OK) {
      fail_item(w, i, &err, &is_first);
    } else if (prompt_left(w->item_jobs[i]) <= 0) {
      ij__job_advance(w, w->item_jobs[i], w->items[i].logits_all);
    }
  }
  count_time(w, has_prompt, ij__os_seconds() - begin);
}

void ij__worker_turn(ij_worker *w, bool cancel) {
  drop_dead(w, cancel);
  sweep(w);
  start_waiting(w);
  share_rows(w);
  step(w);
  sweep(w);
}
