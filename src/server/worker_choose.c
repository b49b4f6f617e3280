/* worker_choose.c: from the logits of a job to its next ids.
 *
 * An id is handed out before it is evaluated, as in ij_generate. Ids that a guide forces need no draw and are evaluated together; their
 * log-probabilities come from the rows of that step, so they are what they would have been one by one.
 */
#include "core/os.h"
#include "core/status.h"
#include "server/worker_int.h"

static ij_status sample(ij_worker *w, ij_job *job, ij_choice *out, ij_err *err) {
  ij_sample_options options = job->req.sample;
  if (job->req.guide) options.allowed = ij_guide_mask(job->req.guide);
  options.n_allowed = w->n_guide_ids;
  return ij_session_sample(job->session, &options, out, err);
}

/* Hands one id out. True: the job goes on, and the id is to be evaluated. */
static bool hand_out(ij_worker *w, ij_job *job, const ij_job_token *token) {
  job->usage.n_generated++;
  if (job->req.token && !job->req.token(job->req.user, token)) {
    ij__job_end(w, job, ij__job_alive(job) ? IJ_JOB_STOPPED : IJ_JOB_CANCELLED, NULL);
  } else if (ij_model_is_eos(w->model, token->choice.id)) {
    ij__job_end(w, job, IJ_JOB_EOS, NULL);
  } else if (job->usage.n_generated == job->req.max_tokens) {
    ij__job_end(w, job, IJ_JOB_LENGTH, NULL);
  }
  return !job->over;
}

/* Of the run that has just been evaluated, [0] was handed out before; row i - 1 has the logits that [i] was chosen from. */
static bool hand_out_run(ij_worker *w, ij_job *job, const float *logits_all) {
  int n = job->n_pending;
  job->n_pending = 0;
  for (int i = 1; i < n; i++) {
    ij_err err;
    ij_job_token token = {.sampled = false};
    if (ij_session_logprob(job->session, logits_all + (size_t)(i - 1) * (size_t)w->info.unpadded_vocab, job->pending[i], &token.choice, &err) != IJ_OK) {
      ij__job_end(w, job, IJ_JOB_FAILED, &err);
      return false;
    }
    if (!hand_out(w, job, &token)) return false;
  }
  return true;
}

/* Chooses from the session's logits. */
static ij_status choose(ij_worker *w, ij_job *job, ij_job_token *token, ij_choice *top, ij_err *err) {
  ij_status status = IJ_OK;
  int32_t forced;
  if (job->req.guide && ij_guide_forced(job->req.guide, &forced, 1) > 0) {
    token->sampled = false;
    status = ij_session_logprob(job->session, NULL, forced, &token->choice, err);
  } else {
    token->sampled = true;
    status = sample(w, job, &token->choice, err);
  }
  if (status == IJ_OK && job->req.guide) status = ij_guide_accept(job->req.guide, token->choice.id, err);
  if (status == IJ_OK && job->req.n_top > 0) {
    status = ij_session_top(job->session, job->req.n_top, top, err);
    token->top = top;
    token->n_top = job->req.n_top;
  }
  return status;
}

/* Appends to the id that is pending those that must follow it. The end id is never evaluated, so it waits for its own turn. */
static ij_status append_forced(ij_worker *w, ij_job *job, ij_err *err) {
  int64_t room = ij_session_n_ctx(job->session) - ij_session_pos(job->session);
  if (job->req.max_tokens >= 0) room = IJ_MIN(room, job->req.max_tokens - job->usage.n_generated + 1);
  room = IJ_MIN(room, IJ_MIN(w->forced_left, IJ_FORCED_MAX)) - 1;
  if (!job->req.guide || job->req.n_top > 0 || room < 1 || !ij__worker_forced_rows(w)) return IJ_OK;
  int32_t ids[IJ_FORCED_MAX];
  int n = ij_guide_forced(job->req.guide, ids, (int)room);
  for (int i = 0; i < n && !ij_model_is_eos(w->model, ids[i]); i++) {
    ij_status status = ij_guide_accept(job->req.guide, ids[i], err);
    if (status != IJ_OK) return status;
    job->pending[job->n_pending++] = ids[i];
  }
  if (job->n_pending > 1) w->forced_left -= job->n_pending;
  return IJ_OK;
}

void ij__job_advance(ij_worker *w, ij_job *job, const float *logits_all) {
  if (job->t_prefilled == 0) {
    job->t_prefilled = ij__os_seconds();
    job->usage.prefill_s = job->t_prefilled - job->t_start;
  }
  if (!hand_out_run(w, job, logits_all)) return;
  if (job->usage.n_generated == job->req.max_tokens) { /* none were wanted */
    ij__job_end(w, job, IJ_JOB_LENGTH, NULL);
    return;
  }
  ij_err err;
  ij_choice top[IJ_MAX_TOP];
  ij_job_token token = {.sampled = true};
  ij_status status = choose(w, job, &token, top, &err);
  if (status == IJ_OK && !hand_out(w, job, &token)) return;
  if (status == IJ_OK && ij_session_pos(job->session) == ij_session_n_ctx(job->session)) {
    ij__job_end(w, job, IJ_JOB_CONTEXT, NULL);
    return;
  }
  job->pending[0] = token.choice.id;
  job->n_pending = 1;
  if (status == IJ_OK) status = append_forced(w, job, &err);
  if (status != IJ_OK) ij__job_end(w, job, IJ_JOB_FAILED, &err);
}
