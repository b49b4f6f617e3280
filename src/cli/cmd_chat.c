/* cmd_chat.c: `inkjet chat`: one answer on standard output, or a conversation on a terminal (chat_talk.c).
 *
 * Both render messages, evaluate, sample and parse by the same code (chat_turn.c), so a conversation gives the answers that single runs
 * with the same messages would.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat.h"
#include "cli/cli_plan.h"
#include "core/alloc.h"

enum { ROLLBACK = 256 }; /* tokens that can be taken back without a copy: most answers, at a few kB per layer and token */
#define GUIDE_BYTES ((size_t)24 << 20) /* of a guide over a large vocabulary, and the text of a conversation */

/* ----------------------------------------------------------------------------------------------------------------- opening */

static void check_template(const chat *c) {
  const char *note = NULL;
  size_t n = 0;
  const char *text = ij_model_chat_template(c->model, &n);
  bool verbose = c->args->v[OPT_VERBOSE].set;
  ij_template_verdict verdict = text ? ij_template_check(text, n, &note) : IJ_TEMPLATE_NONE;
  if (verdict == IJ_TEMPLATE_DIFFERS) {
    say("warning: the chat template of this checkpoint is not the one used here: %s", note ? note : "it differs in substance");
  } else if (verdict == IJ_TEMPLATE_NONE && verbose) {
    say_plain("template:    %s", note ? note : "the checkpoint has none to compare with");
  } else if (verbose) {
    say_plain("template:    the checkpoint's own agrees");
  }
}

static int open_cache(chat *c) {
  const cli_args *a = c->args;
  ij_model_info info;
  ij_err err = {0};
  ij_model_get_info(c->model, &info);
  int64_t n_ctx = a->v[OPT_CTX].i;
  if (!a->v[OPT_CTX].set) n_ctx = IJ_MIN(n_ctx, info.max_context);
  int rc = check_ctx(a, n_ctx, info.max_context);
  if (rc != CLI_EXIT_OK) return rc;
  ij_status s = chat_cache_open(&c->cache, c->model, n_ctx, kv_type(a), ROLLBACK, &err);
  return s == IJ_OK ? CLI_EXIT_OK : say_failed(&err);
}

static int open_effort(chat *c) {
  ij_err err = {0};
  const char *effort = c->args->v[OPT_EFFORT].text;
  if (chat_check_effort(c, NULL, &err) != IJ_OK) { /* not about effort, then, but about the vocabulary */
    if (err.code == IJ_E_NOMEM) return say_failed(&err);
    say("%s: %s", err.where, err.message);
    return CLI_EXIT_BAD_INPUT;
  }
  if (!effort) return CLI_EXIT_OK;
  if (chat_check_effort(c, effort, &err) != IJ_OK) return say_misuse(c->args, "--effort: %s", err.message);
  c->effort = ij__strdup(effort);
  return c->effort ? CLI_EXIT_OK : say_nomem("the effort", strlen(effort));
}

static int open_messages(chat *c) {
  const cli_args *a = c->args;
  int rc = CLI_EXIT_OK;
  if (a->v[OPT_TOOLS].set) rc = chat_load_tools(c, a->v[OPT_TOOLS].text);
  if (rc == CLI_EXIT_OK && a->v[OPT_SCHEMA].set) rc = chat_load_schema(c, a->v[OPT_SCHEMA].text);
  if (rc == CLI_EXIT_OK && a->v[OPT_LOAD].set) rc = chat_load_messages(c, a->v[OPT_LOAD].text);
  const char *text = a->v[OPT_SYSTEM].text;
  if (rc != CLI_EXIT_OK || !text) return rc;
  if (c->history.n > 0 && c->history.list[0].role == CHAT_SYSTEM) {
    return say_misuse(a, "--system and --load both give a system text: leave one out");
  }
  return chat_history_set_system(&c->history, text, strlen(text)) ? CLI_EXIT_OK : say_nomem("the system text", strlen(text));
}

/* In a conversation they are opened now, so that what cannot be read is known before a message is written. */
static int open_first_media(chat *c) {
  const cli_args *a = c->args;
  int rc = CLI_EXIT_OK;
  if (!c->view.talking) return media_parts(a, &c->pending);
  for (int i = 0; i < a->n_media && rc == CLI_EXIT_OK; i++) rc = chat_attach_file(c, a->media[i].option, a->media[i].path);
  return rc;
}

/* A conversation keeps a copy from which an exchange is taken back, where there is memory for one without giving up anything else. */
static bool room_for_copies(const cli_args *a, const char *path, cli_plan plan) {
  ij_home with_one = plan_try(a, path, &plan).home;
  plan.n_sessions = 2;
  return plan_try(a, path, &plan).home == with_one;
}

static int open_chat(chat *c) {
  const cli_args *a = c->args;
  const char *path;
  int rc = model_path(a, &path);
  if (rc == CLI_EXIT_OK && a->v[OPT_TOKENIZER].set) rc = open_named_tokenizer(a->v[OPT_TOKENIZER].text, &c->own_tokenizer);
  cli_plan plan = {.n_ctx = a->v[OPT_CTX].i, .n_sessions = 1, .rollback = ROLLBACK, .other = ij__alloc_bytes() + GUIDE_BYTES};
  if (rc == CLI_EXIT_OK && c->view.talking) plan.n_sessions = room_for_copies(a, path, plan) ? 2 : 1;
  if (rc == CLI_EXIT_OK) rc = open_model(a, path, !c->own_tokenizer, 0, &plan, &c->model);
  if (rc != CLI_EXIT_OK) return rc;
  c->tokenizer = c->own_tokenizer ? c->own_tokenizer : ij_model_tokenizer(c->model);
  if (!c->tokenizer) return say_misuse(a, "no tokenizer lies with the checkpoint: pass --tokenizer PATH");
  c->sampling = sample_options(a);
  rc = check_bias(a, c->model);
  if (rc == CLI_EXIT_OK) rc = open_cache(c);
  if (rc == CLI_EXIT_OK) rc = media_open(a, c->model, c->cache.options.n_ctx, &c->attachments);
  if (rc == CLI_EXIT_OK) rc = open_effort(c);
  if (rc == CLI_EXIT_OK) rc = open_messages(c);
  if (rc == CLI_EXIT_OK) rc = open_first_media(c);
  if (rc == CLI_EXIT_OK) check_template(c);
  return rc;
}

/* -------------------------------------------------------------------------------------------------------------- one answer */

static void json_counts(const chat_answer *a) {
  json_key("usage");
  json_open('{');
  json_key("prompt_tokens");
  json_int(a->n_prompt);
  json_key("completion_tokens");
  json_int(a->n_tokens);
  json_key("total_tokens");
  json_int(a->n_prompt + a->n_tokens);
  json_key("completion_tokens_details");
  json_open('{');
  json_key("reasoning_tokens");
  json_int(a->n_reasoning);
  json_close();
  json_close();
}

static void json_call(const chat *c, int index) {
  const chat_call *call = &c->answer.calls[index];
  char id[40];
  snprintf(id, sizeof id, "call_%d_%d", c->history.n, index);
  json_open('{');
  json_key("id");
  json_text(id);
  json_key("type");
  json_text("function");
  json_key("function");
  json_open('{');
  json_key("name");
  json_string(call->name.data ? call->name.data : "", call->name.len);
  json_key("arguments");
  json_string(call->arguments.data ? call->arguments.data : "", call->arguments.len);
  json_close();
  if (!call->well_formed) {
    json_key("malformed");
    json_bool(true);
  }
  json_close();
}

static void print_json(const chat *c) {
  const chat_answer *a = &c->answer;
  json_open('{');
  json_key("content");
  json_string(a->content.data ? a->content.data : "", a->content.len);
  json_key("reasoning");
  json_string(a->reasoning.data ? a->reasoning.data : "", a->reasoning.len);
  json_key("tool_calls");
  json_open('[');
  for (int i = 0; i < a->n_calls; i++) json_call(c, i);
  json_close();
  json_key("finish_reason");
  json_text(chat_answer_finish(a));
  json_counts(a);
  json_close();
  json_end();
}

static void print_remarks(chat *c) {
  const chat_answer *a = &c->answer;
  bool json = c->args->v[OPT_JSON].set;
  out_flush();
  if (!json && a->content.len == 0 && a->n_calls == 0) {
    say("the answer has no content: %lld tokens, of which %lld were reasoning%s", (long long)a->n_tokens, (long long)a->n_reasoning,
        a->end == CHAT_LENGTH ? "; -n allows no more" : "");
  }
  if (a->end == CHAT_CONTEXT) {
    say("the context of %lld positions is full after %lld tokens", (long long)c->cache.options.n_ctx, (long long)a->n_tokens);
  }
  if (c->args->v[OPT_VERBOSE].set) chat_view_speed(&c->view, a);
}

/* The message from standard input: all of it but one line end at its end, which belongs to the file and not to the message. */
static int add_piped(chat *c) {
  char *bytes;
  size_t n;
  int rc = read_input("-", &bytes, &n);
  if (rc != CLI_EXIT_OK) return rc;
  if (n > 0 && bytes[n - 1] == '\n') n--;
  if (n > 0 && bytes[n - 1] == '\r') n--;
  bool waits = c->history.n > 0 && c->history.list[c->history.n - 1].role != CHAT_ASSISTANT;
  if (n == 0 && c->pending.len == 0 && !(waits && c->args->v[OPT_LOAD].set)) {
    rc = say_misuse(c->args, "the message is empty: give TEXT, or text on standard input");
  } else if (n + c->pending.len > 0 && !chat_history_add_user(&c->history, c->pending.data, c->pending.len, bytes, n)) {
    rc = say_nomem("the message", n);
  }
  ij__free(bytes);
  return rc;
}

static int answer_once(chat *c) {
  const char *text = c->args->n_positional ? c->args->positional[0] : NULL;
  int rc = CLI_EXIT_OK;
  if (!text) {
    rc = add_piped(c);
  } else if (!chat_history_add_user(&c->history, c->pending.data, c->pending.len, text, strlen(text))) {
    rc = say_nomem("the message", strlen(text));
  }
  if (rc != CLI_EXIT_OK) return rc;
  c->view.quiet = c->args->v[OPT_JSON].set;
  rc = chat_answer_turn(c);
  if (c->answer.n_tokens == 0 || (rc != CLI_EXIT_OK && rc != CLI_EXIT_INTERRUPTED)) return rc;
  if (c->args->v[OPT_JSON].set) print_json(c);
  print_remarks(c);
  return rc;
}

static int check_options(const cli_args *a, bool talking) {
  if (a->n_positional && !*a->positional[0]) return say_misuse(a, "the message is empty: give at least one character");
  if (talking && a->v[OPT_JSON].set) return say_misuse(a, "--json is for one answer: give TEXT, or text on standard input");
  return check_sampling(a);
}

int cmd_chat(const cli_args *args) {
  chat c = {.args = args};
  bool talking = args->n_positional == 0 && isatty(STDIN_FILENO);
  chat_view_open(&c.view, talking, args->v[OPT_SHOW_THINKING].set);
  int rc = check_options(args, talking);
  if (rc == CLI_EXIT_OK) rc = open_chat(&c);
  if (rc == CLI_EXIT_OK) rc = talking ? chat_talk(&c) : answer_once(&c);
  chat_cache_close(&c.cache);
  chat_free_files(&c);
  ij_attachments_close(&c.attachments);
  ij__buf_free(&c.pending);
  close_model(args, &c.model);
  ij_tokenizer_close(&c.own_tokenizer);
  chat_history_cut(&c.history, 0);
  chat_answer_clear(&c.answer);
  chat_view_close(&c.view);
  ij__free(c.effort);
  return rc;
}
