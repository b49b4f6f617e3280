/* chat_turn.c: one answer: render, evaluate what is new, sample, parse.
 *
 * The one loop behind a turn on the command line and in a conversation. The history is not touched: what becomes of an answer that was
 * stopped is for the caller to say.
 */
#include <string.h>

#include "cli/chat.h"
#include "core/os.h"
#include "core/status.h"

ij_status chat_render(const chat *c, const chat_history *h, int n_messages, const char *effort, bool generation, ij_prompt **out,
                      ij_err *err) {
  ij_prompt_options o = ij_prompt_options_default();
  ij_buf messages = {0};
  o.effort = effort;
  o.add_generation_prompt = generation;
  o.video = c->attachments ? ij_attachments_video : NULL;
  o.user = c->attachments;
  *out = NULL;
  chat_history_json(h, n_messages, &messages);
  ij_status s = messages.failed ? ij__fail_nomem(err, "the messages", messages.len)
                                : ij_prompt_render(out, c->tokenizer, messages.data, messages.len, c->tools, c->n_tools_bytes, &o, err);
  ij__buf_free(&messages);
  return s;
}

ij_status chat_attach(const chat *c, ij_prompt *prompt, ij_err *err) { return media_attach(c->attachments, c->model, prompt, err); }

static bool same_bytes(const char *a, size_t n_a, const char *b, size_t n_b) { return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0); }

static bool same_segment(ij_segment a, ij_segment b) {
  return a.kind == b.kind && a.block == b.block && same_bytes(a.bytes, a.n_bytes, b.bytes, b.n_bytes) &&
         same_bytes(a.source, a.n_source, b.source, b.n_source);
}

/* Where the last exchange begins in ids: the end of what the conversation without it has in common with them. */
static ij_status find_turn_start(const chat *c, const ij_prompt *prompt, int64_t *start, ij_err *err) {
  int last = chat_history_last(&c->history, CHAT_USER);
  ij_prompt *before = NULL;
  *start = 0;
  if (last <= 0) return IJ_OK;
  ij_status s = chat_render(c, &c->history, last, c->effort, false, &before, err);
  if (s != IJ_OK) return s;
  int n = IJ_MIN(ij_prompt_n_segments(prompt), ij_prompt_n_segments(before)), i = 0;
  while (i < n && same_segment(ij_prompt_segment(prompt, i), ij_prompt_segment(before, i))) i++;
  *start = ij_prompt_segment(prompt, i).first;
  ij_prompt_close(&before);
  return IJ_OK;
}

static int check_prompt(const chat *c, const ij_prompt *prompt) {
  ij_model_info info;
  ij_model_get_info(c->model, &info);
  const int32_t *ids = ij_prompt_ids(prompt);
  int64_t n = ij_prompt_n_ids(prompt), n_ctx = c->cache.options.n_ctx;
  for (int64_t i = 0; i < n; i++) {
    if (ids[i] >= 0 && ids[i] < info.unpadded_vocab) continue;
    say("token %lld of the prompt is %d, and the model has ids 0 to %d: this tokenizer is not the model's", (long long)i, (int)ids[i],
        info.unpadded_vocab - 1);
    return CLI_EXIT_BAD_INPUT;
  }
  if (n <= n_ctx) return CLI_EXIT_OK;
  say("the conversation has %lld tokens and the context %lld positions%s", (long long)n, (long long)n_ctx,
      n_ctx < info.max_context ? ": raise --ctx" : ", which is the model's limit: shorten it");
  return CLI_EXIT_FAILED;
}

static void note_cost(void *user, const char *line) {
  const chat *c = user;
  chat_view_note(&c->view, "%s", line);
}

static int evaluate(chat *c, const ij_prompt *prompt) {
  enum { CHUNK = 512 }; /* as in media_eval */
  ij_err err = {0};
  chat_answer *a = &c->answer;
  int64_t n = ij_prompt_n_ids(prompt), start = 0;
  int n_rows;
  const int32_t *ids = ij_prompt_ids(prompt);
  const ij_rows *rows = ij_attachments_rows(c->attachments, &n_rows);
  ij_status s = find_turn_start(c, prompt, &start, &err);
  if (s == IJ_OK) s = chat_cache_rewind(&c->cache, ids, n, rows, n_rows, start, &a->n_cached, &err);
  if (s != IJ_OK) return say_failed(&err);
  a->n_prompt = n;
  media_costs(c->attachments, prompt, a->n_cached, note_cost, c);
  int rc = media_encode(c->attachments, ij_model_towers(c->model), a->n_cached);
  if (rc != CLI_EXIT_OK) return rc;
  progress_begin("reading the prompt");
  for (int64_t at = a->n_cached; at < n && s == IJ_OK && !interrupted(); at += CHUNK) {
    progress_update((double)(at - a->n_cached) / (double)(n - a->n_cached));
    s = chat_cache_eval(&c->cache, ids + at, IJ_MIN((int64_t)CHUNK, n - at), &err);
  }
  progress_end();
  if (s != IJ_OK) return say_failed(&err);
  return interrupted() ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- sampling */

typedef struct turn {
  chat *c;
  ij_parser *parser;
  ij_guide *guide;
  bool over;
} turn;

static void on_event(void *user, const ij_event *event) {
  chat *c = user;
  chat_answer_add(&c->answer, event);
  chat_view_event(&c->view, event);
}

static ij_status open_turn(turn *t, const ij_prompt *prompt, ij_err *err) {
  chat *c = t->c;
  ij_turn_state state = ij_prompt_state(prompt);
  ij_status s = ij_parser_open(&t->parser, c->tokenizer, state, on_event, c, err);
  if (s != IJ_OK || (!c->schema && !c->n_guided)) return s;
  ij_guide_options o = ij_guide_options_default();
  o.state = state;
  o.content = c->schema;
  o.tools = c->guided;
  o.n_tools = c->n_guided;
  return ij_guide_open(&t->guide, c->tokenizer, &o, err);
}

/* Whether the turn is over after this id, which is not evaluated yet. */
static bool ended(turn *t, int32_t id) {
  chat *c = t->c;
  chat_answer *a = &c->answer;
  if (ij_parser_done(t->parser) || ij_model_is_eos(c->model, id)) {
    a->end = CHAT_STOP;
  } else if (c->args->v[OPT_N].set && a->n_tokens == c->args->v[OPT_N].i) {
    a->end = CHAT_LENGTH;
  } else if (ij_session_pos(c->cache.session) == c->cache.options.n_ctx) {
    a->end = CHAT_CONTEXT;
  } else if (interrupted() || !out_flush()) {
    a->end = CHAT_INTERRUPTED;
  } else {
    return false;
  }
  return true;
}

static ij_status one_token(turn *t, ij_err *err) {
  chat *c = t->c;
  chat_answer *a = &c->answer;
  ij_sample_options o = c->sampling;
  ij_choice choice;
  if (t->guide) o.allowed = ij_guide_mask(t->guide);
  o.n_allowed = ij_tokenizer_size(c->tokenizer);
  ij_status s = ij_session_sample(c->cache.session, &o, &choice, err);
  if (s != IJ_OK) return s;
  if (a->n_tokens++ == 0) a->t_first = ij__os_seconds();
  s = ij_parser_push(t->parser, choice.id, err);
  if (s == IJ_E_ARGUMENT) {
    return ij__fail(err, IJ_E_FORMAT, "tokenizer", "it lacks token %d, which the model gave: it is another model's", (int)choice.id);
  }
  if (s == IJ_OK && t->guide && !ij_parser_done(t->parser)) s = ij_guide_accept(t->guide, choice.id, err);
  if (s != IJ_OK) return s;
  a->t_end = ij__os_seconds();
  int64_t n_reasoning = ij_parser_n_reasoning(t->parser);
  if (n_reasoning > a->n_reasoning) a->t_think = a->t_end;
  a->n_reasoning = n_reasoning;
  chat_view_count(&c->view, n_reasoning);
  if (a->failed) return ij__fail_nomem(err, "the answer", a->content.len + a->reasoning.len);
  t->over = ended(t, choice.id);
  return t->over ? IJ_OK : chat_cache_eval(&c->cache, &choice.id, 1, err);
}

static int generate(chat *c, const ij_prompt *prompt) {
  ij_err err = {0};
  turn t = {.c = c};
  ij_status s = open_turn(&t, prompt, &err);
  chat_view_begin(&c->view);
  while (s == IJ_OK && !t.over) s = one_token(&t, &err);
  if (s == IJ_OK) s = ij_parser_finish(t.parser, c->answer.end == CHAT_STOP ? IJ_TURN_END : IJ_TURN_LENGTH, &err);
  if (s == IJ_OK && c->answer.failed) s = ij__fail_nomem(&err, "the answer", c->answer.content.len + c->answer.reasoning.len);
  chat_view_end(&c->view, &c->answer);
  ij_guide_close(&t.guide);
  ij_parser_close(&t.parser);
  if (s != IJ_OK) return say_bad_input(&err);
  return c->answer.end == CHAT_INTERRUPTED ? CLI_EXIT_INTERRUPTED : CLI_EXIT_OK;
}

static void add_totals(chat *c) {
  const chat_answer *a = &c->answer;
  c->n_turns++;
  c->n_prompt += a->n_prompt;
  c->n_cached += a->n_cached;
  c->n_tokens += a->n_tokens;
  c->n_reasoning += a->n_reasoning;
  c->s_prompt += a->t_first - a->t_prompt;
  c->s_decode += a->t_end - a->t_first;
}

int chat_answer_turn(chat *c) {
  ij_err err = {0};
  ij_prompt *prompt = NULL;
  chat_answer_clear(&c->answer);
  c->answer.end = CHAT_INTERRUPTED; /* until it begins */
  c->answer.t_prompt = ij__os_seconds();
  ij_status s = chat_render(c, &c->history, c->history.n, c->effort, true, &prompt, &err);
  if (s == IJ_OK) s = chat_attach(c, prompt, &err);
  int rc = s == IJ_OK ? check_prompt(c, prompt) : say_bad_input(&err);
  if (rc == CLI_EXIT_OK) rc = evaluate(c, prompt);
  if (rc == CLI_EXIT_OK) rc = generate(c, prompt);
  if (c->answer.n_tokens > 0) add_totals(c);
  ij_prompt_close(&prompt);
  return rc;
}
