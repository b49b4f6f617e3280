/* generate.c: the loop that every front end runs: sample, hand out, evaluate. */
#include "engine/engine_int.h"

ij_status ij_generate(ij_session *session, int64_t n, const ij_sample_options *options, ij_on_token on_token, void *user,
                      int64_t *n_out, ij_stop *why, ij_err *err) {
  if (!session || n < 0) return ij__fail(err, IJ_E_ARGUMENT, "ij_generate", "expected a session and n >= 0");
  int64_t done = 0;
  ij_stop stop = IJ_STOP_LENGTH;
  ij_status status = IJ_OK;
  while (done < n) {
    ij_choice choice;
    status = ij_session_sample(session, options, &choice, err);
    if (status != IJ_OK) break;
    done++;
    if (on_token && !on_token(user, &choice)) {
      stop = IJ_STOP_CALLER;
      break;
    }
    if (ij_model_is_eos(session->model, choice.id)) {
      stop = IJ_STOP_EOS;
      break;
    }
    if (session->state->pos == session->options.n_ctx) {
      stop = IJ_STOP_CONTEXT;
      break;
    }
    status = ij_session_eval(session, &choice.id, 1, err);
    if (status != IJ_OK) break;
  }
  if (n_out) *n_out = done;
  if (why) *why = stop;
  return status;
}
