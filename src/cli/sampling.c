/* sampling.c: the sampling options of the command line. Greedy, unless one of them says how to draw. */
#include "cli/cli.h"

static bool any_sampling(const cli_args *a) {
  return a->v[OPT_TOP_K].set || a->v[OPT_TOP_P].set || a->v[OPT_MIN_P].set || a->v[OPT_SEED].set;
}

ij_sample_options sample_options(const cli_args *a) {
  ij_sample_options o = ij_sample_options_default();
  o.temperature = a->v[OPT_TEMP].set ? (float)a->v[OPT_TEMP].real : any_sampling(a) ? 1.0f : 0.0f;
  o.top_k = (int)a->v[OPT_TOP_K].i;
  o.top_p = (float)a->v[OPT_TOP_P].real;
  o.min_p = (float)a->v[OPT_MIN_P].real;
  o.repetition_penalty = (float)a->v[OPT_REPETITION_PENALTY].real;
  o.presence_penalty = (float)a->v[OPT_PRESENCE_PENALTY].real;
  o.frequency_penalty = (float)a->v[OPT_FREQUENCY_PENALTY].real;
  o.penalty_window = a->v[OPT_PENALTY_WINDOW].i;
  o.seed = (uint64_t)a->v[OPT_SEED].i;
  o.logit_bias = a->v[OPT_LOGIT_BIAS].bias;
  o.n_logit_bias = (int)a->v[OPT_LOGIT_BIAS].n;
  return o;
}

int check_sampling(const cli_args *a) {
  if (a->v[OPT_TEMP].set && !(a->v[OPT_TEMP].real > 0) && any_sampling(a)) {
    return say_misuse(a, "--temp 0 is greedy, where --top-k, --top-p, --min-p and --seed mean nothing: leave them out");
  }
  if (!((float)a->v[OPT_TOP_P].real > 0)) {
    return say_misuse(a, "--top-p: %g is not accepted; expected a number above 0, at most 1", a->v[OPT_TOP_P].real);
  }
  bool penalties = a->v[OPT_REPETITION_PENALTY].set || a->v[OPT_PRESENCE_PENALTY].set || a->v[OPT_FREQUENCY_PENALTY].set;
  if (a->v[OPT_PENALTY_WINDOW].set && !penalties) return say_misuse(a, "--penalty-window needs one of the penalties");
  return CLI_EXIT_OK;
}

int check_bias(const cli_args *a, const ij_model *model) {
  ij_model_info info;
  ij_model_get_info(model, &info);
  for (size_t i = 0; i < a->v[OPT_LOGIT_BIAS].n; i++) {
    int id = a->v[OPT_LOGIT_BIAS].bias[i].id;
    if (id >= info.unpadded_vocab) return say_misuse(a, "--logit-bias: the model has ids 0 to %d, found %d", info.unpadded_vocab - 1, id);
  }
  return CLI_EXIT_OK;
}
