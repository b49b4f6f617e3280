/* input.c: opening models and tokenizers, reading prompts. Everything here says what is wrong and returns an exit code. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cli_experts.h"
#include "cli/cli_plan.h"
#include "cli/embedded.h"
#include "core/alloc.h"
#include "core/os.h"
#include "core/status.h"
#include "core/str.h"

int model_path(const cli_args *args, const char **path) {
  *path = args->v[OPT_MODEL].text;
  if (!*path && cli_n_embedded) *path = BUILTIN_MODEL;
  if (*path) return CLI_EXIT_OK;
  return say_misuse(args, "no model is given and none is built in: pass -m PATH with a checkpoint folder, a .safetensors file or a .gguf file");
}

void raise_descriptors(int64_t n) {
  struct rlimit r;
  rlim_t want = (rlim_t)n + 2304; /* two for a file that is read past the page cache */
  if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= want) return;
  r.rlim_cur = r.rlim_max == RLIM_INFINITY || r.rlim_max >= want ? want : r.rlim_max;
  setrlimit(RLIMIT_NOFILE, &r);
}

ij_kv_type kv_type(const cli_args *args) { return (ij_kv_type)args->v[OPT_KV].i; }

static bool on_open_progress(void *user, double fraction) {
  (void)user;
  progress_update(fraction);
  return !interrupted();
}

static bool on_planned(void *user, const ij_plan *plan) {
  progress_end(); /* a line may follow, and the bar would be in its way */
  plan_say(user, plan);
  progress_begin("loading");
  return !interrupted();
}

static int open_with(const cli_args *args, const char *path, ij_model_options *options, ij_model **out) {
  ij_err err = {0};
  options->n_threads = (int)args->v[OPT_THREADS].i;
  options->cpu_mask = args->v[OPT_CPU_MASK].text;
  options->mmproj = args->v[OPT_MMPROJ].text;
  options->progress = on_open_progress;
  progress_begin("loading");
  ij_status s = ij_model_open(out, path, options, &err);
  progress_end();
  return s == IJ_OK ? CLI_EXIT_OK : say_bad_input(&err);
}

int open_model(const cli_args *args, const char *path, bool tokenizer, int max_batch, const cli_plan *plan, ij_model **out) {
  ij_model_options options = ij_model_options_default();
  char *usage = NULL;
  options.tokenizer = tokenizer;
  options.planned = on_planned;
  options.user = (void *)(uintptr_t)args;
  if (max_batch > options.max_batch) options.max_batch = max_batch;
  plan_options(args, plan, &options);
  int rc = experts_options(args, path, &options, &usage);
  if (rc == CLI_EXIT_OK) rc = open_with(args, path, &options, out);
  ij__free(usage);
  if (rc != CLI_EXIT_OK) return rc;
  rc = experts_opened(args, *out);
  if (rc != CLI_EXIT_OK) ij_model_close(out);
  return rc;
}

int open_described(const cli_args *args, const char *path, ij_model **out) {
  ij_model_options options = ij_model_options_default();
  options.home = IJ_HOME_MAPPED; /* nothing is read of what does not fit */
  options.plan_sessions = 0;
  options.plan_ctx = options.max_batch = 1;
  return open_with(args, path, &options, out);
}

void close_model(const cli_args *args, ij_model **model) {
  if (*model) experts_close(args, *model);
  ij_model_close(model);
}

int open_named_tokenizer(const char *path, ij_tokenizer **out) {
  ij_err err = {0};
  return ij_tokenizer_open(out, path, &err) == IJ_OK ? CLI_EXIT_OK : say_bad_input(&err);
}

int open_tokenizer(const cli_args *args, ij_tokenizer **out) {
  const char *path = args->v[OPT_TOKENIZER].text, *model = args->v[OPT_MODEL].text;
  if (path && model) return say_misuse(args, "-m and --tokenizer both name a tokenizer: give one of them");
  if (!path && !model && cli_n_embedded) model = BUILTIN_MODEL;
  if (!path && !model) {
    return say_misuse(args, "no tokenizer is given and none is built in: pass -m PATH or --tokenizer PATH (tokenizer.json, a tiktoken rank file, a .gguf file, or "
                      "a folder)");
  }
  char *folder = NULL;
  if (!path && !ij__os_is_dir(model) && ij__str_ends_with(model, ".safetensors")) {
    const char *slash = strrchr(model, '/');
    folder = slash ? ij__strndup(model, (size_t)(slash - model + 1)) : ij__strdup(".");
    if (!folder) return say_nomem("a path", strlen(model));
  }
  int rc = open_named_tokenizer(folder ? folder : path ? path : model, out);
  ij__free(folder);
  return rc;
}

/* ----------------------------------------------------------------------------------------------------------- reading */

static int read_all(int fd, const char *name, ij_buf *text) {
  for (;;) {
    if (interrupted()) return CLI_EXIT_INTERRUPTED;
    if (!ij__buf_reserve(text, 1 << 16)) return say_nomem(name, text->len + (1 << 16));
    ssize_t got = read(fd, text->data + text->len, text->cap - text->len - 1);
    if (got == 0) return CLI_EXIT_OK;
    if (got > 0) {
      text->len += (size_t)got;
      text->data[text->len] = 0;
    } else if (errno != EINTR) {
      ij_err err = {0};
      ij__fail_errno(&err, errno, name, "cannot read");
      return say_bad_input(&err);
    }
  }
}

int read_input(const char *path, char **bytes, size_t *n) {
  bool is_stdin = strcmp(path, "-") == 0;
  int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    ij_err err = {0};
    ij__fail_errno(&err, errno, path, "cannot open the file");
    return say_bad_input(&err);
  }
  ij_buf text = {0};
  int rc = read_all(fd, is_stdin ? "standard input" : path, &text);
  if (!is_stdin) close(fd);
  if (rc != CLI_EXIT_OK) {
    ij__buf_free(&text);
    return rc;
  }
  *bytes = text.data;
  *n = text.len;
  return CLI_EXIT_OK;
}

int encode_text(const ij_tokenizer *tokenizer, const char *bytes, size_t n, bool special, int32_t **ids, size_t *n_ids) {
  ij_err err = {0};
  size_t cap = n / 3 + 16; /* usual text has four bytes per token; the second round is for the rest */
  *ids = NULL;
  for (int round = 0; round < 2; round++) {
    ij__free(*ids);
    *ids = ij__alloc_array(cap, sizeof **ids);
    if (!*ids) return say_nomem("token ids", cap * sizeof **ids);
    if (ij_encode(tokenizer, bytes, n, special, *ids, cap, n_ids, &err) != IJ_OK) break;
    if (*n_ids <= cap) return CLI_EXIT_OK;
    cap = *n_ids;
  }
  ij__free(*ids);
  *ids = NULL;
  return say_failed(&err);
}

/* How many of the four ways to give a prompt are used. */
static int count_prompts(const cli_args *args) {
  return args->v[OPT_PROMPT].set + args->v[OPT_IDS].set + args->v[OPT_FILE].set + args->n_positional;
}

int read_prompt_text(const cli_args *args, char **bytes, size_t *n) {
  const char *text = args->n_positional ? args->positional[0] : args->v[OPT_PROMPT].text;
  *bytes = NULL;
  if (args->v[OPT_FILE].set) {
    int rc = read_input(args->v[OPT_FILE].text, bytes, n);
    if (rc != CLI_EXIT_OK) return rc;
  } else {
    *n = text ? strlen(text) : 0;
    *bytes = ij__strndup(text ? text : "", *n);
    if (!*bytes) return say_nomem("the prompt", *n);
  }
  if (*n > 0) return CLI_EXIT_OK;
  ij__free(*bytes);
  *bytes = NULL;
  return say_misuse(args, "the prompt is empty, and the model has no token that begins a text: give at least one character");
}

int read_prompt(const cli_args *args, const ij_tokenizer *tokenizer, const char *text, size_t n, int32_t **ids, size_t *n_ids) {
  const cli_value *given = &args->v[OPT_IDS];
  *ids = NULL;
  if (given->set) {
    *n_ids = given->n;
    *ids = ij__alloc_array(given->n, sizeof **ids);
    if (!*ids) return say_nomem("token ids", given->n * sizeof **ids);
    memcpy(*ids, given->ids, given->n * sizeof **ids);
    return CLI_EXIT_OK;
  }
  if (!tokenizer) return say_misuse(args, "no tokenizer lies with the checkpoint: pass --tokenizer PATH, or give the prompt as --ids");
  return encode_text(tokenizer, text, n, args->v[OPT_SPECIAL].set, ids, n_ids);
}

int check_prompt_options(const cli_args *args) {
  int n = count_prompts(args);
  bool positional = args->command->positional != NULL;
  if (n == 0) return say_misuse(args, "no prompt is given: pass %s-p TEXT, -f FILE or --ids ID,ID,...", positional ? "TEXT, " : "");
  if (n > 1) return say_misuse(args, "more than one prompt is given: pass one of %s-p, -f and --ids", positional ? "TEXT, " : "");
  if (args->v[OPT_IDS].set && args->v[OPT_SPECIAL].set) return say_misuse(args, "--special is about text and --ids gives none");
  const char *text = args->n_positional ? args->positional[0] : args->v[OPT_PROMPT].text;
  if (text && !*text) {
    return say_misuse(args, "the prompt is empty, and the model has no token that begins a text: give at least one character");
  }
  return CLI_EXIT_OK;
}

int check_ctx(const cli_args *args, int64_t n_ctx, int64_t most) {
  if (n_ctx <= most) return CLI_EXIT_OK;
  return say_misuse(args, "--ctx: %lld positions exceed the model's %lld", (long long)n_ctx, (long long)most);
}

int check_fit(const cli_args *args, const ij_model *model, const int32_t *ids, int64_t n_ids, int64_t n_ctx) {
  ij_model_info info;
  ij_model_get_info(model, &info);
  long long n = (long long)n_ids, most = (long long)info.max_context;
  if (n_ids > info.max_context) {
    return say_misuse(args, "the prompt has %lld tokens and the model at most %lld positions: shorten it", n, most);
  }
  int rc = check_ctx(args, n_ctx, info.max_context);
  if (rc != CLI_EXIT_OK) return rc;
  if (n_ids > n_ctx) {
    return say_misuse(args, "the prompt has %lld tokens and the context %lld positions: raise --ctx", n, (long long)n_ctx);
  }
  for (int64_t i = 0; i < n_ids; i++) {
    if (ids[i] >= 0 && ids[i] < info.unpadded_vocab) continue;
    return say_misuse(args, "token %lld of the prompt is %d, and the model has ids 0 to %d%s", (long long)i, (int)ids[i],
                      info.unpadded_vocab - 1, args->v[OPT_IDS].set ? "" : ": this tokenizer is not the model's");
  }
  return CLI_EXIT_OK;
}
