/* cli_experts.c: see cli_experts.h. That the use of experts cannot be kept is worth a remark and nothing more: the work is done without it. */
#include "cli/cli_experts.h"

#include <string.h>

#include "cli/cli_plan.h"
#include "core/alloc.h"
#include "core/os.h"
#include "core/str.h"
#include "tools/expert_trace.h"

int experts_usage_path(const cli_args *args, const char *model, char **out) {
  const char *given = args->v[OPT_USAGE].text;
  *out = NULL;
  if (given && strcmp(given, "none") == 0) return CLI_EXIT_OK;
  if (!given && ij__str_starts_with(model, "builtin:")) return CLI_EXIT_OK;
  ij_buf beside = {0};
  if (given) *out = ij__strdup(given);
  else if (ij__os_is_dir(model)) *out = ij__os_join(model, "inkjet-experts.usage");
  else ij__buf_printf(&beside, "%s.usage", model);
  if (beside.failed) ij__buf_free(&beside);
  if (beside.data) *out = beside.data;
  return *out ? CLI_EXIT_OK : say_nomem("a path", strlen(given ? given : model));
}

int experts_options(const cli_args *args, const char *model, ij_model_options *o, char **usage) {
  *usage = NULL;
  if (args->command == &cli_commands[CMD_INFO]) return CLI_EXIT_OK; /* tells about it by itself */
  int rc = experts_usage_path(args, model, usage);
  o->usage_path = *usage;
  o->predict = (ij_predict)args->v[OPT_PREDICT].i;
  o->keep_trace = args->v[OPT_TRACE_EXPERTS].set;
  return rc;
}

void experts_say_no_effect(const cli_args *args, const char *home) {
  bool usage = args->v[OPT_USAGE].set && strcmp(args->v[OPT_USAGE].text, "none") != 0;
  if (strcmp(home, "streamed") == 0 || (!args->v[OPT_PREDICT].set && !usage)) return;
  say("%s has no effect: the experts of this model are not read from disk as they are used (they are %s)", usage ? "--usage" : "--predict", home);
}

int experts_opened(const cli_args *args, ij_model *model) {
  ij_streaming_info info;
  ij_model_get_streaming(model, &info);
  if (info.usage_note) say("%s", info.usage_note);
  if (strcmp(info.home, "streamed") == 0) return CLI_EXIT_OK;
  if (args->v[OPT_TRACE_EXPERTS].set) {
    say("--trace-experts: the experts of this model are not read from disk as they are used, so that there is no sequence to write (they are %s): --home streamed reads them so", info.home);
    return CLI_EXIT_MISUSE;
  }
  if (args->command != &cli_commands[CMD_INFO]) experts_say_no_effect(args, info.home);
  return CLI_EXIT_OK;
}

/* --------------------------------------------------------------------------------------------------------------- saying */

static void say_streaming(const ij_streaming_info *s) {
  double n = (double)(s->n_hit + s->n_miss);
  say_plain("experts:     read by %s%s, room for %lld; %.1f %% of %.0f were there", s->reader, s->direct ? " past the page cache" : "",
            (long long)s->n_slots, 100 * experts_ratio((double)s->n_hit, n), n);
  say_plain("             %s read, %s per token, at %s/s while reading; %.3f s waited for", plan_size((double)s->read_bytes),
            plan_size(experts_ratio((double)s->read_bytes, (double)s->n_tokens)), plan_size(experts_ratio((double)s->read_bytes, s->read_seconds)),
            s->wait_seconds);
  if (s->n_guess > 0) {
    say_plain("             %lld read on a guess, of which %lld were used and %lld taken back", (long long)s->n_guess, (long long)s->n_guess_used,
              (long long)s->n_guess_cancelled);
  }
}

void experts_close(const cli_args *args, ij_model *model) {
  ij_streaming_info info;
  ij_err err = {0};
  ij_model_get_streaming(model, &info);
  bool any = strcmp(info.home, "streamed") == 0 && info.n_hit + info.n_miss > 0;
  if (args->v[OPT_VERBOSE].set && any) say_streaming(&info);
  if (ij_model_save_usage(model, &err) == IJ_OK) return;
  say("%s: %s: which experts were used is not kept (--usage FILE keeps it elsewhere, --usage none nowhere)", err.where, err.message);
}

void experts_say_trace(const char *path, int64_t n_missing) {
  if (n_missing > 0) say("%s: the room for the sequence of experts was full: its last %lld are missing", path, (long long)n_missing);
}

int experts_write_trace(const cli_args *args, ij_model *model, int rc) {
  const char *path = args->v[OPT_TRACE_EXPERTS].text;
  int64_t n_missing = 0;
  ij_err err = {0};
  if (!path) return rc;
  if (ij__expert_trace_write(model, path, &n_missing, &err) != IJ_OK) return say_failed(&err);
  experts_say_trace(path, n_missing);
  return rc;
}
